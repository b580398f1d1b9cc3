"""GitHub: the event that started a run, what the run does because of it, and the API behind `Forge`."""

from agent_eval.github._activity import Activity, activity
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import Event, EventError, read_event, same_repository

__all__ = [
    "Activity",
    "Event",
    "EventError",
    "GitHubError",
    "activity",
    "read_event",
    "same_repository",
]
