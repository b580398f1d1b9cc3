"""`mode: link`: adds the address of the uploaded report.html to the comment of the gate that ran before in the job.

The artifact has its address only after it is uploaded, and so after the gate has commented. Nothing is run here, and
nothing here changes a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.commands.publish import Published, comment
from agent_eval.core.problem import Problem
from agent_eval.core.text import harmless
from agent_eval.pipeline import CIContext, links_of
from agent_eval.results import FILES, RunReport

if TYPE_CHECKING:
    from agent_eval.report.views import Links
    from agent_eval.settings import Settings

REPORT_URL = "AGENT_EVAL_REPORT_URL"
"""The variable with the address."""


def link_problems(url: str, settings: Settings, ci: CIContext) -> list[Problem]:
    """What forbids `mode: link`: no address, or one that is not the repository's."""
    if not url:
        return [_error(f"`mode: link` needs the variable {REPORT_URL}.")]
    if ci.event.name and _links(url, settings, ci).own(url) is None:
        where = f"{ci.event.server_url}/{ci.event.repository or ''}"
        return [_error(f"{REPORT_URL} is {url}, which is not an address of {where}.")]
    return []


def _error(message: str) -> Problem:
    hint = "Pass the artifact-url of actions/upload-artifact."
    return Problem(code="setting-invalid", message=message, hint=hint)


def _links(url: str, settings: Settings, ci: CIContext) -> Links:
    return replace(links_of(ci, settings, ci.source_url), report_url=url)


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
    from agent_eval.report.renderers import report_link

    links = _links(url, settings, ci)
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
        message = "The comment does not link the report: the pull request is from a fork."
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
