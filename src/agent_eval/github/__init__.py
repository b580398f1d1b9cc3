"""GitHub's API: events, runs, artifacts, comments, labels."""

from agent_eval.github._activity import Activity, activity
from agent_eval.github.binding import Bound, Claim, Unbound, bind, finished_run
from agent_eval.github.client import GitHub
from agent_eval.github.comments import Comment, Posted, upsert_comment
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import Event, EventError, PullRequest, read_event, same_repository
from agent_eval.github.labels import ACCEPT_RULES, acceptance
from agent_eval.github.marker import RunStamp
from agent_eval.github.runs import Artifact, WorkflowRun, changed_files, download_artifact, file_at, list_artifacts

__all__ = [
    "ACCEPT_RULES",
    "Activity",
    "Artifact",
    "Bound",
    "Claim",
    "Comment",
    "Event",
    "EventError",
    "GitHub",
    "GitHubError",
    "Posted",
    "PullRequest",
    "RunStamp",
    "Unbound",
    "WorkflowRun",
    "acceptance",
    "activity",
    "bind",
    "changed_files",
    "download_artifact",
    "file_at",
    "finished_run",
    "list_artifacts",
    "read_event",
    "same_repository",
    "upsert_comment",
]
