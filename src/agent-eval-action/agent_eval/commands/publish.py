"""The pull request's comment: of this run, or of a finished run of a fork, which can't write it itself.

With `mode: link`, the address of the uploaded report.html is added to the comment of the gate that ran before in the
job: the artifact has its address only after it is uploaded, and so after the gate has commented. Nothing is run then,
and nothing changes a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_eval.baseline import describe
from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, read_results
from agent_eval.baseline.reader import UnreadableError, read_file, read_report
from agent_eval.forge import (
    DEFAULT_KEY,
    Bound,
    Claim,
    Comment,
    Event,
    Forge,
    ForgeError,
    Posted,
    PullRequest,
    RunStamp,
    Unbound,
)
from agent_eval.pipeline import CIContext, change_warnings, is_gating_file, links_of
from agent_eval_results import FILES, Origin, Reason, RunReport
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import first_line, harmless

if TYPE_CHECKING:
    from agent_eval.settings import Settings
    from agent_eval_results.report.views import Links

_MB = 1024 * 1024
_QUOTATION = 300
"""Characters of a quoted sentence."""
_LIMITS = ArchiveLimits(archive_bytes=64 * _MB, entries=2_000, results_bytes=16 * _MB)
"""Limits for an untrusted artifact; 10,000 cases fit."""


def comment(
    report: RunReport,
    settings: Settings,
    ci: CIContext,
    warnings: Sequence[str],
    *,
    report_url: str | None = None,
    memory: str = "",
) -> Posted | None:
    """Writes the comment of this run. Errors of the forge are returned, not raised.

    Args:
        report: The report.
        settings: The settings of the run.
        ci: The event and the pull request.
        warnings: Texts at the top of the comment.
        report_url: Where report.html can be opened. With it, only the comment that this run has written is updated.
        memory: What the next attempt is to know (`Comment.memory`). A fork's leaves nothing.

    Returns:
        The result; None if no comment is due.
    """
    pull_request, event = ci.activity.pull_request, ci.event
    # `mode: gate` posts nothing, although its activity names the pull request.
    if pull_request is None or ci.forge is None or event.run_id is None or settings.mode == "gate":
        return None
    if settings.comment == "never":
        return None
    if not ci.forge.has_token:
        return Posted(kind="forbidden", message=f"No comment. {ci.forge.no_token}")
    links = links_of(ci, settings.artifact, ci.source_url)
    # The page of a fork is its author's to write.
    page = (
        ""
        if pull_request.is_fork or settings.report == "off"
        else str(settings.output.absolute() / FILES["report-file"])
    )
    links = replace(links, report_url=report_url or event.artifact_url(page))
    run = RunStamp(run_id=event.run_id, attempt=event.run_attempt or 1, sha=pull_request.head_sha)
    made = _comment(report, settings, pull_request, run, links, warnings, key=event.key)
    memory = "" if pull_request.is_fork else memory
    return ci.forge.upsert_comment(replace(made, own_only=report_url is not None, memory=memory))


def _comment(
    report: RunReport,
    settings: Settings,
    pull_request: PullRequest,
    run: RunStamp,
    links: Links,
    warnings: Sequence[str],
    *,
    key: str = "",
) -> Comment:
    from agent_eval_results.outcome import has_news
    from agent_eval_results.report.renderers import comment_markdown

    return Comment(
        number=pull_request.number,
        key=settings.name or key or DEFAULT_KEY,
        body=comment_markdown(report, warnings=warnings, links=links, key=settings.name),
        run=run,
        mode=settings.comment,
        failed=not report.passed,
        changed=has_news(report),
        author=settings.comment_author,
    )


@dataclass(frozen=True, kw_only=True)
class Published:
    """The result of publishing a finished run."""

    message: str
    """One or two plain sentences for the log."""
    ok: bool
    """False after an error. True also if there was nothing to publish, e.g. for a closed pull request."""
    url: str | None = None
    """URL of the comment."""
    summary: str = ""
    """Markdown for the job summary."""


def publish(settings: Settings, ci: CIContext) -> Published:
    """Writes the comment for the run that triggered this one (`workflow_run`). Nothing of that run is executed.

    Its artifact is untrusted: GitHub alone decides which pull request it belongs to, and all its texts are escaped.
    """
    forge, run_id = ci.forge, ci.activity.finished_run
    if forge is None or run_id is None:
        return Published(message="The event names no finished run.", ok=False)
    try:
        binding = forge.bind(run_id)
        report = _results(forge, run_id, settings.artifact)
        if not isinstance(report, RunReport):
            # A run without results is an error, unless its pull request has new commits or is closed.
            return report if not isinstance(binding, Unbound) or binding.is_contradiction else _unbound(binding)
        # Again with the claims, which may choose between several pull requests, or contradict GitHub.
        binding = forge.bind(run_id, _claim(report))
    except ForgeError as error:
        return Published(message=f"Nothing was published. {error}", ok=False)
    if isinstance(binding, Unbound):
        return _unbound(binding)
    pull_request, run = binding.pull_request, binding.run
    stamp = RunStamp(run_id=run.id, attempt=run.run_attempt, sha=pull_request.head_sha)
    links = _links_to(ci.event, binding, settings.artifact)
    warnings = _changed_rules(forge, binding)
    if pull_request.is_fork:
        warnings.insert(
            0,
            "These results were uploaded by the fork's own run, which could have changed them: trust the required "
            "check, not this comment.",
        )
    report = _trusted(report, ci.event, binding)
    posted = forge.upsert_comment(_comment(report, settings, pull_request, stamp, links, warnings))
    return Published(
        message=posted.message, ok=posted.is_posted or posted.kind in {"skipped", "superseded"}, url=posted.url
    )


def _unbound(binding: Unbound) -> Published:
    return Published(message=f"Nothing was published. {binding.message}", ok=not binding.is_contradiction)


def _claim(report: RunReport) -> Claim:
    origin = report.origin
    if origin is None:
        return Claim()
    return Claim(
        repository=origin.repository,
        run_id=origin.run_id,
        pull_request=origin.pull_request,
        head_commit=origin.head_commit,
    )


def _results(forge: Forge, run_id: int, name: str) -> RunReport | Published:
    artifacts = forge.list_artifacts(run_id, name)
    if not artifacts:
        return Published(message=f"Nothing was published: run {run_id} has uploaded no artifact {name}.", ok=False)
    artifact = artifacts[0]  # The newest: a run that was repeated has one for each attempt.
    if artifact.expired or artifact.size_in_bytes > _LIMITS.archive_bytes:
        why = "has expired" if artifact.expired else f"is larger than {_LIMITS.archive_bytes // _MB} MB"
        return Published(message=f"Nothing was published: the artifact {name} of run {run_id} {why}.", ok=False)
    where = f"The artifact {name} of run {run_id}"
    try:
        data = read_results(forge.download_artifact(artifact.id, max_bytes=_LIMITS.archive_bytes), _LIMITS)
    except UnsafeArchive as error:
        return Published(message=f"Nothing was published: {where} is refused, since {error}.", ok=False)
    report = read_report(data, where)
    if not isinstance(report, RunReport):
        return Published(message=describe(report), ok=False)
    # A part has no verdict, so it can't be the comment; the merge's run uploads its own results.
    if report.caution:
        return Published(message=f"Nothing was published: {where} is {report.caution}.", ok=False)
    return report


def _trusted(report: RunReport, event: Event, binding: Bound) -> RunReport:
    """The report as the run concluded; GitHub, not the artifact, says what was tested."""
    run, pull_request = binding.run, binding.pull_request
    origin = Origin(
        repository=event.repository or "",
        event=run.event,
        pull_request=pull_request.number,
        head_commit=pull_request.head_sha,
        run_id=run.id,
        run_attempt=run.run_attempt,
        run_url=run.html_url,
    )
    # The artifact also names the base branch, in sentences of ours, so its name comes from GitHub, too.
    branch = pull_request.base_ref
    changes = report.rule_changes and report.rule_changes.model_copy(update={"base_ref": branch})
    baseline = report.baseline and report.baseline.model_copy(update={"branch": branch})
    trusted = {"origin": origin, "rule_changes": changes, "baseline": baseline}
    return _as_concluded(_quoted(report.model_copy(update=trusted)), run.conclusion)


def _links_to(event: Event, binding: Bound, artifact: str) -> Links:
    from agent_eval_results.report.views import Links

    pull_request, repository = binding.pull_request, event.repository or ""
    return Links(
        server_url=event.server_url,
        repository=repository,
        source_url=f"{event.server_url}/{repository}/blob/{pull_request.head_sha}",
        run_url=binding.run.html_url,
        artifacts=(artifact,),
        pull_request=pull_request.number,
    )


def _quoted(report: RunReport) -> RunReport:
    """The report with its reasons, warnings and notices as quotations: the artifact chooses them, one may be the
    headline, and the others are at the top of the comment.
    """
    from agent_eval_results import NO_SECRETS
    from agent_eval_results.report.phrases import say

    reasons = [
        # Its words are ours: the artifact only chooses between two sentences.
        Reason(code=NO_SECRETS, data={"is_fork": fork}, message=say(NO_SECRETS, is_fork=fork))
        if reason.code == NO_SECRETS and "is_fork" in reason.data
        else reason.model_copy(update={"message": _quotation(reason.message)})
        for reason in report.reasons
        for fork in [reason.data.get("is_fork") is True]
    ]
    said = {name: [_quotation(text) for text in getattr(report, name)] for name in ("warnings", "notices")}
    return report.model_copy(update={"reasons": reasons, **said})


def _quotation(text: str) -> str:
    inside = first_line(text.replace("“", '"').replace("”", '"'), _QUOTATION)
    return f"The run says “{inside}”"


def _as_concluded(report: RunReport, conclusion: str | None) -> RunReport:
    """The report without a `passed` that the run contradicts, because a later step failed or the results are forged."""
    # A failed report of a run that succeeded may be meant: `continue-on-error`, or a gate that only advises.
    if not report.passed or conclusion in {"success", None}:
        return report
    from agent_eval_results.report.phrases import say

    ended = "run-ended-otherwise"
    reason = Reason(code=ended, message=say(ended, conclusion=harmless(conclusion or "")))
    verdict = "failed" if conclusion == "failure" else "inconclusive"
    return report.model_copy(update={"verdict": verdict, "reasons": [reason], "blocking": []})


def _changed_rules(forge: Forge, binding: Bound) -> list[str]:
    """Warnings about changed files that affect the verdict. GitHub names the files, because the run may omit them."""
    pull_request, workflow = binding.pull_request, binding.run.workflow_path
    try:
        changed = forge.changed_files(pull_request.base_sha, pull_request.head_sha)
    except ForgeError:
        changed = None
    gating = [path for path in changed or () if path == workflow or is_gating_file(path)]
    return change_warnings(None if changed is None else sorted(set(gating)))


REPORT_URL = "AGENT_EVAL_REPORT_URL"
"""The variable with the address."""


def link_problems(url: str, artifact: str, ci: CIContext) -> list[Problem]:
    """What forbids `mode: link`: no address, or one that is not the repository's."""
    if not url:
        return [_error(f"`mode: link` needs the variable {REPORT_URL}.")]
    if ci.event.name and _links(url, artifact, ci).own(url) is None:
        where = f"{ci.event.server_url}/{ci.event.repository or ''}"
        return [_error(f"{REPORT_URL} is {url}, which is not an address of {where}.")]
    return []


def _error(message: str) -> Problem:
    hint = "Pass the artifact-url of actions/upload-artifact."
    return Problem(code="setting-invalid", message=message, hint=hint)


def _links(url: str, artifact: str, ci: CIContext) -> Links:
    return replace(links_of(ci, artifact, ci.source_url), report_url=url)


def link(url: str, settings: Settings, ci: CIContext, warnings: Sequence[str]) -> Published:
    """Adds the report's address to the comment of this run and attempt. Errors of GitHub are returned.

    A comment of a newer run is left alone, and none is created. The comment on a fork's pull request never leads to the
    page: the author of the pull request decides what it contains.

    Args:
        url: The address of the page.
        settings: The same as those of the gate.
        ci: The event and the pull request.
        warnings: Texts at the top of the comment.
    """
    from agent_eval_results.report.renderers import report_link

    links = _links(url, settings.artifact, ci)
    try:
        report = read_file(settings.output)
    except UnreadableError as error:
        return Published(message=f"The report was not linked. {error}", ok=False)
    if (reason := _stranger(report, ci)) is not None:
        return Published(message=f"The report was not linked: {reason}.", ok=False)
    summary = report_link(links)
    pull_request = ci.activity.pull_request
    if pull_request is None:
        return Published(message="The job summary links the report.", ok=True, summary=summary)
    if pull_request.is_fork:
        message = f"The comment does not link the report: the {ci.event.change} is from a fork."
        return Published(message=message, ok=True, summary=summary)
    posted = comment(report, settings, ci, warnings, report_url=url)
    if posted is None:
        return Published(message="The job summary links the report.", ok=True, summary=summary)
    ok = posted.is_posted or posted.kind in {"skipped", "superseded", "forbidden"}
    return Published(message=posted.message, ok=ok, url=posted.url if posted.is_posted else None, summary=summary)


def _stranger(report: RunReport, ci: CIContext) -> str | None:
    """Why the results are not those of this run and attempt, as a clause; None if they are."""
    origin, event = report.origin, ci.event
    if origin is None or (origin.run_id, origin.run_attempt) != (event.run_id, event.run_attempt):
        there = "no run" if origin is None else f"run {origin.run_id}, attempt {origin.run_attempt}"
        return harmless(f"{FILES['results-file']} is of {there}, not of this one")
    return None
