"""What a report says, as plain data and plain text, without markup."""

from agent_eval.report.views._bill import bill, bill_line, case_bill, saved_votes
from agent_eval.report.views._causes import Cause, causes, has_cause, told_before
from agent_eval.report.views._findings import Finding, common_answers, findings, first_difference, why
from agent_eval.report.views._headline import emblem, headline, other_reasons, proposes
from agent_eval.report.views._visible import folded, one_line, visible
from agent_eval.report.views.conversation import LABELS, CaseView, Kind, TurnView, case_view, rows
from agent_eval.report.views.digest import (
    case_name,
    close_votes,
    has_crashed,
    is_unanswered,
    metric_rows,
    not_run_groups,
    place,
    run_note,
)
from agent_eval.report.views.judges import backends, cut_off, open_verdicts
from agent_eval.report.views.numbers import duration_text, measurement_text, percent_text, score_text, threshold_text
from agent_eval.report.views.rule_changes import base_name, rule_rows, rule_sentences
from agent_eval.report.views.standing import Against

__all__ = [
    "LABELS",
    "Against",
    "CaseView",
    "Cause",
    "Finding",
    "Kind",
    "TurnView",
    "backends",
    "base_name",
    "bill",
    "bill_line",
    "case_bill",
    "case_name",
    "case_view",
    "causes",
    "close_votes",
    "common_answers",
    "cut_off",
    "duration_text",
    "emblem",
    "findings",
    "first_difference",
    "folded",
    "has_cause",
    "has_crashed",
    "headline",
    "is_unanswered",
    "measurement_text",
    "metric_rows",
    "not_run_groups",
    "one_line",
    "open_verdicts",
    "other_reasons",
    "percent_text",
    "place",
    "proposes",
    "rows",
    "rule_rows",
    "rule_sentences",
    "run_note",
    "saved_votes",
    "score_text",
    "threshold_text",
    "told_before",
    "visible",
    "why",
]
