"""Tells the pull request: the comment of this run, or of a fork's run that has ended and could not write it itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_eval.baseline import ArchiveLimits, UnsafeArchive, read_report, read_results, told
from agent_eval.core.text import harmless
from agent_eval.github import GitHubError, Posted, RunStamp, upsert_comment
from agent_eval.pipeline import links_of
from agent_eval.results import Origin, Reason, RunReport

if TYPE_CHECKING:
    from agent_eval.github import Bound, Claim, GitHub, Unbound
    from agent_eval.pipeline import CIContext
    from agent_eval.settings import Settings

DEFAULT_KEY = "default"
_MB = 1024 * 1024
_LIMITS = ArchiveLimits(archive_bytes=64 * _MB, entries=2_000, results_bytes=16 * _MB)
"""What a stranger's artifact may hold: 10,000 cases fit."""


def comment(report: RunReport, settings: Settings, ci: CIContext, warnings: Sequence[str]) -> Posted | None:
    """Writes the comment of this run. Never raises for what GitHub answers.

    Args:
        report: What to tell.
        settings: As they hold.
        ci: What the run is about.
        warnings: What stands above everything else.

    Returns:
        What became of it; None where there is no pull request to write to.
    """
    from agent_eval.report.renderers import comment_markdown

    pull_request, event = ci.activity.pull_request, ci.event
    if pull_request is None or ci.github is None or event.run_id is None or settings.mode == "gate":
        return None
    if settings.comment == "never":
        return None
    if not ci.github.has_token:
        return Posted(kind="forbidden", message="No comment: this step has no token (`github-token`).")
    links = links_of(ci, settings, ci.source_url)
    return upsert_comment(
        ci.github,
        number=pull_request.number,
        key=settings.comment_key or DEFAULT_KEY,
        body=comment_markdown(report, warnings=warnings, links=links, key=settings.comment_key),
        run=RunStamp(run_id=event.run_id, attempt=event.run_attempt or 1, sha=pull_request.head_sha),
        mode=settings.comment,
        failed=report.verdict != "passed",
        changed=_changed(report),
        author=settings.comment_author,
    )


def _changed(report: RunReport) -> bool:
    """Whether something is not as on the base. Without a baseline everything is."""
    if report.comparison is None:
        return True
    if report.decision is not None and any(case.word != "flaky as before" for case in report.decision.cases):
        return True
    return any(case.change != "still_failing" for case in report.comparison.cases)


@dataclass(frozen=True, kw_only=True)
class Published:
    """What became of a finished run's results."""

    message: str
    """One or two plain sentences for the log."""
    ok: bool
    """False: something is wrong. True also when there was nothing to tell any more, e.g. a closed pull request."""
    url: str | None = None
    """Of the comment."""


def publish(settings: Settings, ci: CIContext) -> Published:
    """Writes the comment for the run that triggered this one (`workflow_run`); nothing of it is executed.

    Its artifact may come from anyone. Where it belongs is GitHub's word alone, and all of it is escaped.
    """
    from agent_eval.github import Unbound, bind, finished_run

    github, run_id = ci.github, finished_run(ci.event)
    if github is None or run_id is None:
        return Published(message="The event names no finished run.", ok=False)
    try:
        found = bind(github, run_id)
        report = _results(github, run_id, settings.artifact_name)
        if not isinstance(report, RunReport):
            # A run without results has nothing to tell; one whose pull request has moved on needn't.
            return report if not isinstance(found, Unbound) or found.suspicious else _unbound(found)
        found = bind(github, run_id, _claim(report))
    except GitHubError as error:
        return Published(message=f"Nothing was published. {error}", ok=False)
    if isinstance(found, Unbound):
        return _unbound(found)
    posted = _post(github, settings, ci, report, found)
    return Published(
        message=posted.message, ok=posted.is_posted or posted.kind in {"skipped", "superseded"}, url=posted.url
    )


def _unbound(found: Unbound) -> Published:
    return Published(message=f"Nothing was published. {found.message}", ok=not found.suspicious)


def _claim(report: RunReport) -> Claim:
    from agent_eval.github import Claim

    origin = report.origin
    if origin is None:
        return Claim()
    return Claim(
        repository=origin.repository,
        run_id=origin.run_id,
        pull_request=origin.pull_request,
        head_commit=origin.head_commit,
    )


def _results(github: GitHub, run_id: int, name: str) -> RunReport | Published:
    from agent_eval.github import download_artifact, list_artifacts

    artifacts = list_artifacts(github, run_id, name)
    if not artifacts:
        return Published(message=f"Nothing was published: run {run_id} has uploaded no artifact {name}.", ok=False)
    artifact = artifacts[0]
    if artifact.expired or artifact.size_in_bytes > _LIMITS.archive_bytes:
        why = "has expired" if artifact.expired else f"is larger than {_LIMITS.archive_bytes // _MB} MB"
        return Published(message=f"Nothing was published: the artifact {name} of run {run_id} {why}.", ok=False)
    where = f"The artifact {name} of run {run_id}"
    try:
        data = read_results(download_artifact(github, artifact.id, max_bytes=_LIMITS.archive_bytes), _LIMITS)
    except UnsafeArchive as error:
        return Published(message=f"Nothing was published: {where} is refused, since {error}.", ok=False)
    report = read_report(data, where)
    return report if isinstance(report, RunReport) else Published(message=told(report), ok=False)


def _post(github: GitHub, settings: Settings, ci: CIContext, report: RunReport, found: Bound) -> Posted:
    from agent_eval.report.renderers import comment_markdown
    from agent_eval.report.views import Links

    event, run, pull_request = ci.event, found.run, found.pull_request
    # What was tested is GitHub's word, not the artifact's.
    about = Origin(
        repository=event.repository or "",
        event=run.event,
        pull_request=pull_request.number,
        head_commit=pull_request.head_sha,
        run_id=run.id,
        run_attempt=run.run_attempt,
        run_url=run.html_url,
    )
    changes = report.rule_changes
    if changes is not None:
        changes = changes.model_copy(update={"base_ref": pull_request.base_ref})
    baseline = report.baseline
    if baseline is not None:
        baseline = baseline.model_copy(update={"branch": pull_request.base_ref})
    known = {"origin": about, "rule_changes": changes, "baseline": baseline}
    report = _as_ended(report.model_copy(update=known), run.conclusion)
    repository = event.repository or ""
    links = Links(
        server_url=event.server_url,
        repository=repository,
        source_url=f"{event.server_url}/{repository}/blob/{pull_request.head_sha}",
        run_url=run.html_url,
        artifacts=(settings.artifact_name,),
    )
    warnings = []
    if pull_request.is_fork:
        warnings.append(
            "These are the results that the fork's own run has uploaded. What counts is the required check."
        )
    warnings += _changed_rules(github, found)
    return upsert_comment(
        github,
        number=pull_request.number,
        key=settings.comment_key or DEFAULT_KEY,
        body=comment_markdown(report, warnings=warnings, links=links, key=settings.comment_key),
        run=RunStamp(run_id=run.id, attempt=run.run_attempt, sha=pull_request.head_sha),
        mode=settings.comment,
        failed=report.verdict != "passed",
        changed=_changed(report),
        author=settings.comment_author,
    )


def _as_ended(report: RunReport, conclusion: str | None) -> RunReport:
    """The report without a `passed` that the run itself contradicts: a later step failed, or the results are forged."""
    if report.verdict != "passed" or conclusion in {"success", None}:
        return report
    message = f"The results say passed, but the run ended with {harmless(conclusion or '')}"
    reason = Reason(code="run-ended-otherwise", message=message)
    verdict = "failed" if conclusion == "failure" else "inconclusive"
    return report.model_copy(update={"verdict": verdict, "reasons": [reason], "blocking": []})


def _changed_rules(github: GitHub, found: Bound) -> list[str]:
    """What to tell of files that decide about the verdict; GitHub's word, since the run may keep it to itself."""
    from agent_eval.github import changed_files
    from agent_eval.pipeline import change_warnings, is_gating_file

    pull_request, workflow = found.pull_request, found.run.workflow_path
    try:
        changed = changed_files(github, pull_request.base_sha, pull_request.head_sha)
    except GitHubError:
        changed = None
    if changed is None:
        return change_warnings(None)
    return change_warnings(sorted({path for path in changed if path == workflow or is_gating_file(path)}))
