"""The environment of the Markdown templates, whose filters escape what the views give.

The templates say what comes where. Every string that they print is escaped as prose, unless a filter escapes it for
another place: `code`, `fence`, `linked`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from agent_eval.core.text import plural, shorten
from agent_eval.report.markup import escape
from agent_eval.report.phrases import (
    case_difference,
    cause_evidence,
    cause_sentence,
    place_reference,
    why_not_passed,
)
from agent_eval.report.phrases.diff import no_baseline_reason
from agent_eval.report.views import (
    Links,
    Reference,
    case_name,
    duration_text,
    known_commit,
    score_text,
    threshold_text,
)
from agent_eval.report.views.detail import Detail
from agent_eval.report.views.links import case_reference, file_reference
from agent_eval.results import BaselineReport

if TYPE_CHECKING:
    from jinja2 import Environment

MARKS: Mapping[str, str] = {
    "passed": "✅",
    "failed": "❌",
    "errored": "⚠️",
    "not_run": "⏭️",
    "quarantined": "🟡",
    "inconclusive": "⚠️",
    "invalid": "⛔",
    "error": "⛔",
    "warning": "⚠️",
    "notice": "ℹ️",
}


@functools.cache
def environment() -> Environment:
    """The environment, compiled once per process. Templates get a `view`, `links` and `detail`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context

    templates = Environment(
        loader=PackageLoader("agent_eval.report.renderers"),
        autoescape=True,
        finalize=_escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "code": escape.code,
        "html_text": escape.html_prose,
        "link": escape.link,
        "fence": escape.fence,
        "linked": pass_context(lambda context, reference: linked(reference, context["links"])),
        "case": pass_context(lambda context, case: linked(case_reference(case, context["detail"]), context["links"])),
        "place": pass_context(lambda context, item: _place(item.file, getattr(item, "line", None), context["links"])),
        "case_name": pass_context(lambda context, case: context["detail"].shorten(case_name(case))),
        "name": pass_context(lambda context, text: context["detail"].shorten(text)),
        "message": pass_context(lambda context, text: context["detail"].shorten_message(text)),
        "shorten": shorten,
        "lines": lambda text: [line.strip() for line in text.splitlines()],
        "score": score_text,
        "difference": pass_context(lambda context, case: case_difference(case, context["view"])),
        "why": pass_context(lambda context, case: why_not_passed(case, context["view"])),
        "sentence": pass_context(lambda context, cause: cause_sentence(cause, context["view"].branch)),
        "evidence": pass_context(lambda context, cause: cause_evidence(cause, context["view"].branch)),
        "change": pass_context(lambda context, place: linked(place_reference(place), context["links"])),
        "commit": pass_context(lambda context, sha: commit(sha, context["links"])),
        "baseline": pass_context(lambda context, item: _baseline(item, context["detail"], context["links"])),
        "duration": duration_text,
        "threshold": threshold_text,
        "plural": plural,
    }
    templates.globals |= {"mark": lambda status: Markup(MARKS[status])}  # noqa: S704 - one of our own emoji
    return templates


def _escaped(value: Any) -> Any:
    """A printed value of a template: prose, unless it is marked as safe."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape.prose(value)


def linked(reference: Reference, links: Links) -> Markup:
    """A name or a place as code, as a link if its page is known."""
    url = links.case_url(reference.case_id, reference.turn) if reference.case_id is not None else None
    if reference.changed and reference.file is not None:
        url = links.change_url(reference.file, reference.line)
    url = url or links.line_url(reference.file, reference.line)
    label = escape.code(reference.text)
    return label if url is None else escape.link(label, url)


def _place(file: str | None, line: int | None, links: Links) -> Markup:
    """A line of a file, as a link if its page is known; empty without a file."""
    reference = file_reference(file or None, line)
    return Markup("") if reference is None else linked(reference, links)


def commit(sha: str | None, links: Links) -> Markup:
    """The short id of a commit, as a link if its page is known; empty for other texts."""
    if not (sha := known_commit(sha)):
        return Markup("")
    url = links.commit_url(sha)
    label = escape.code(sha[:7])
    return label if url is None else escape.link(label, url)


def _baseline(baseline: BaselineReport, detail: Detail, links: Links) -> Markup:
    """The sentence about the baseline, in which each commit is linked once; the rest follows in brackets."""
    available = baseline.status == "found"
    sentence = escape.prose(detail.shorten_message(baseline.message if available else no_baseline_reason(baseline)))
    for sha in (baseline.commit, baseline.wanted_commit):
        sentence = _with_commit(sentence, known_commit(sha), links)
    if not available:
        return sentence
    rest: list[Markup] = []
    if (shown := commit(baseline.commit, links)) and shown not in sentence:
        rest.append(Markup("commit ") + shown)
    if url := links.own(baseline.run_url):
        rest.append(escape.link(Markup("its run"), url))
    if baseline.recorded_at is not None:
        rest.append(Markup("recorded ") + _day(baseline.recorded_at))
    if not rest:
        return sentence
    return Markup(f"{sentence.removesuffix('.')} ({', '.join(rest)}).")  # noqa: S704 - made of what is escaped


def _day(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _with_commit(sentence: Markup, sha: str, links: Links) -> Markup:
    """An escaped sentence in which the first mention of a commit is a link."""
    shown = commit(sha, links)
    for mention in (f"<code>{sha[:7]}</code>", f" {sha[:7]}"):
        before, separator, after = sentence.partition(mention)
        if shown and separator and shown not in sentence:
            space = " " * mention.startswith(" ")
            sentence = Markup(f"{before}{space}{shown}{after}")  # noqa: S704 - made of what is escaped
    return sentence
