"""GitHub: the event that started a run, what the run does because of it, and the API behind `Forge`."""

from agent_eval.github._activity import Activity, activity
from agent_eval.github.binding import finished_run
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import Event, EventError, read_event, same_repository
from agent_eval.github.forge import GitHub
from agent_eval.github.labels import started_by_label

__all__ = [
    "Activity",
    "Event",
    "EventError",
    "GitHub",
    "GitHubError",
    "activity",
    "finished_run",
    "read_event",
    "same_repository",
    "started_by_label",
]
