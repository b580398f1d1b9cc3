"""The results of the merge queue's run of a commit, which the push of the same files can take over.

A merge queue tests what it then pushes to the branch, so a run of that push would measure the same once more. GitHub
pushes the tested commit itself, or one with the same tree if it squashes. The run must be one that GitHub has started
for the queue (`merge_group`), of the same workflow file, with exactly the pushed tree. A pull request can't forge it: a
run of its own has another event, and what the queue has run with a workflow of its choice counts only once these very
files, with that workflow, are on the branch, where it could record what it likes anyway. A run of a pull request never
counts, although it may have tested the same files: its author chooses the workflow before anybody has agreed to it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from agent_eval.baseline.archive import ArchiveLimits, NoResults, UnsafeArchive, read_results
from agent_eval.baseline.lookup import BaselineRequest
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval.forge import Artifact, Forge, WorkflowRun, same_repository
from agent_eval_results import Origin, RunReport
from agent_eval_scoring.core.text import harmless

QUEUE_EVENT = "merge_group"
_LIMITS = ArchiveLimits()
_RUNS = 30
"""Maximum number of the queue's latest runs to look at."""
_HOURS = 24
"""Maximum age of results: a revert can bring an old tree back, and a record is of the day on which it is made."""
_ATTEMPTS = 5
"""Maximum number of artifacts to open; each attempt may have uploaded one."""


@dataclass(frozen=True, kw_only=True)
class Queued:
    """The results of a merge queue's run."""

    report: RunReport
    url: str
    """Of the run."""
    archive: bytes
    """The zip of the artifact, within the limits."""


def queued_results(forge: Forge, origin: Origin, tree: str, request: BaselineRequest) -> Queued | str | None:
    """Looks for the merge queue's results of what was pushed.

    Args:
        forge: The repository.
        origin: Of this run, which a push has started.
        tree: The hash of the pushed commit's files.
        request: Names the branch and the artifact.

    Returns:
        The results; a clause why those that exist are not used; None if the queue has not run it.

    Raises:
        ForgeError: A request failed.
    """
    if not forge.queue_branches:
        return None
    branches = f"{forge.queue_branches}{request.base_ref}/"
    runs = forge.list_runs(workflow=origin.workflow, event=QUEUE_EVENT, limit=_RUNS)
    fit = [
        run for run in runs if _is_queues(run, origin, branches) and run.head_commit and run.head_commit.tree_id == tree
    ]
    why: str | None = None
    for run in sorted(fit, key=lambda run: run.id, reverse=True):
        artifacts = forge.list_artifacts(run.id, request.artifact)
        why = why or (None if artifacts else "it has uploaded no results")
        for artifact in artifacts[:_ATTEMPTS]:
            found = _content(forge, artifact, run, origin)
            if isinstance(found, Queued):
                return found
            why = why or found
    return why


def _is_queues(run: WorkflowRun, origin: Origin, branches: str) -> bool:
    """Whether the queue for this branch has started it. A fork's branch of such a name has another repository."""
    repository = run.head_repository.full_name if run.head_repository is not None else None
    return (
        run.event == QUEUE_EVENT
        and run.workflow_path == origin.workflow
        and same_repository(repository, origin.repository)
        and (run.head_branch or "").startswith(branches)
    )


def _content(forge: Forge, artifact: Artifact, run: WorkflowRun, origin: Origin) -> Queued | str:
    if artifact.expired or artifact.size_in_bytes > _LIMITS.archive_bytes:
        return "its results have expired or are too large"
    data = forge.download_artifact(artifact.id, max_bytes=_LIMITS.archive_bytes)
    if not artifact.is_intact(data):
        return "the digest of its results differs from the uploaded file's"
    try:
        report = read_report(read_results(data, _LIMITS), "Its artifact")
    except NoResults:
        return "its artifact has no results.json"
    except UnsafeArchive as error:
        return f"its artifact is not safe: {error}"
    if not isinstance(report, RunReport):
        return report.message.rstrip(".")
    own = report.origin or Origin()
    said = (own.event, own.commit, own.run_id, own.workflow)
    if said != (QUEUE_EVENT, run.head_sha, run.id, origin.workflow):
        return "its results are those of another run"
    if not same_repository(own.repository, origin.repository):
        return f"its results are those of the repository {harmless(own.repository) or 'unknown'}"
    if not 0 <= time.time() - report.started_at <= _HOURS * 3600:
        return f"its results are older than {_HOURS} hours, or of a clock that differs"
    if (reason := incomplete(report)) is not None:
        return reason
    return Queued(report=report, url=run.html_url, archive=data)
