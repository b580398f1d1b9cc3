"""What the previous run of the same pull request found, from the artifact that it uploaded.

It can only make this run look more closely (`gate.attempts`), so nothing is refused for want of it, and a forged one
could only harm the pull request it is of. Still nothing of a fork is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, read_results
from agent_eval.baseline.reader import read_report
from agent_eval.github import GitHub, PullRequest, runs, same_repository
from agent_eval.results import Origin, RunReport

_MOST_RUNS = 5
"""Earlier runs of the branch whose artifacts are looked for."""
_MOST_ARTIFACTS = 2
"""Artifacts of a run that are opened: each attempt of it may have uploaded one."""
_LIMITS = ArchiveLimits()


def earlier_attempt(github: GitHub, origin: Origin, pull_request: PullRequest, artifact: str) -> RunReport | None:
    """The newest results of the same pull request.

    Args:
        github: The repository.
        origin: Of this run.
        pull_request: What it is about; of a fork nothing is read.
        artifact: The name of the artifacts.

    Returns:
        None if there are none, or none that compared anything.

    Raises:
        GitHubError: GitHub could not be asked.
    """
    if pull_request.is_fork or not origin.workflow or origin.run_id is None:
        return None
    for run_id in _runs(github, origin, pull_request):
        for found in runs.list_artifacts(github, run_id, artifact)[:_MOST_ARTIFACTS]:
            report = None if found.expired else _report(github, found)
            if report is not None and report.origin is not None and report.decision is not None:
                own = report.origin
                if own.pull_request == origin.pull_request and same_repository(own.repository, origin.repository):
                    return report
    return None


def _runs(github: GitHub, origin: Origin, pull_request: PullRequest) -> Iterator[int]:
    """This run, if it was started again, and the earlier ones of its branch; newest first."""
    assert origin.run_id is not None
    if (origin.run_attempt or 1) > 1:
        yield origin.run_id
    listed = runs.list_runs(
        github, workflow=origin.workflow, event=origin.event, branch=pull_request.head_ref, limit=4 * _MOST_RUNS
    )
    fit = [
        run.id
        for run in listed
        if run.id < origin.run_id
        and run.status == "completed"
        and run.workflow_path == origin.workflow
        and run.head_repository is not None
        and same_repository(run.head_repository.full_name, origin.repository)
    ]
    yield from sorted(fit, reverse=True)[:_MOST_RUNS]


def _report(github: GitHub, artifact: runs.Artifact) -> RunReport | None:
    """The results in an artifact; None if it has none that can be read."""
    if artifact.size_in_bytes > _LIMITS.archive_bytes:
        return None
    data = runs.download_artifact(github, artifact.id, max_bytes=_LIMITS.archive_bytes)
    try:
        found = read_report(read_results(data, _LIMITS), "The previous attempt's artifact")
    except UnsafeArchive:
        return None
    return found if isinstance(found, RunReport) else None
