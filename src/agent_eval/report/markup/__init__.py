"""What makes text safe where it is shown, and pieces of Markdown."""

from agent_eval.report.markup.escape import EMPTY, without_commands
from agent_eval.report.markup.markdown import (
    MARKS,
    Detail,
    Reproduction,
    Told,
    case_view,
    environment,
    fitting,
    linked_name,
    log_text,
    place,
    problem_views,
    reproduce,
)

__all__ = [
    "EMPTY",
    "MARKS",
    "Detail",
    "Reproduction",
    "Told",
    "case_view",
    "environment",
    "fitting",
    "linked_name",
    "log_text",
    "place",
    "problem_views",
    "reproduce",
    "without_commands",
]
