"""The result as GitHub-flavoured Markdown for the job summary (`summary.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from agent_eval.core.text import shorten
from agent_eval.report import deltas, digest, escape, sections, standing
from agent_eval.report.markdown import MARKS, Detail, environment, fitting, problem_views, reproduce
from agent_eval.report.sections import Links
from agent_eval.report.standing import Against
from agent_eval.results.report import RunReport

LIMIT = 1_000_000
"""Bytes. GitHub refuses a step's summary of more than 1 MiB (documentation of workflow commands)."""
SMALLEST_LIMIT = 2_000
"""Bytes that hold the shortest form of any report."""

DETAILS: Sequence[Detail] = (
    Detail(explained=50, detailed=50, listed=1_000, side=4_000, log=8_000, turns=10),
    Detail(explained=50, detailed=50, listed=500, side=1_000, log=2_000, turns=5),
    Detail(explained=50, detailed=20, listed=200, side=500, log=1_000, turns=3),
    Detail(explained=30, detailed=5, listed=100, side=300, log=500, turns=2),
    Detail(explained=20, detailed=0, listed=50, side=0, log=0, turns=0),
    Detail(explained=5, detailed=0, listed=20, side=0, log=0, turns=0, name=100),
    Detail(explained=0, detailed=0, listed=5, side=0, log=0, turns=0, name=60),
    Detail(explained=0, detailed=0, listed=0, side=0, log=0, turns=0, name=60),
)
"""From everything to next to nothing."""


def summary_markdown(
    report: RunReport,
    *,
    limit: int = LIMIT,
    source_url: str | None = None,
    files: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    links: Links | None = None,
) -> str:
    """The result as Markdown, its first line the verdict in one sentence.

    Args:
        report: What to tell.
        limit: Bytes in UTF-8 that the text may have.
        source_url: Where the tested commit can be browsed, such as `https://github.com/o/r/blob/SHA`; cases then
            link to their lines.
        files: Paths of written files by what they are, named at the end.
        warnings: What the reader must know before everything else.
        links: Where else the text may lead; `source_url` is used where they don't say.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a summary needs at least {SMALLEST_LIMIT:,} bytes, not {limit:,}")
    known = standing.against(report)
    links = _links(source_url) if links is None else links
    template = environment().get_template("summary.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        return template.render(_context(report, known, detail, links, files or {}, warnings, shortened=shortened))

    text = fitting(render, DETAILS, lambda text: len(text.encode("utf-8")) <= limit)
    if text is not None:
        return text
    return f"## {MARKS[report.verdict]} {escape.text(shorten(deltas.headline(report, known), 120))}\n"


def _links(source_url: str | None) -> Links:
    if source_url is None:
        return Links()
    parts = urlsplit(source_url)
    return Links(server_url=f"{parts.scheme}://{parts.netloc}", source_url=source_url)


def _context(
    report: RunReport,
    known: Against,
    detail: Detail,
    links: Links,
    files: Mapping[str, str],
    warnings: Sequence[str],
    *,
    shortened: bool,
) -> dict[str, Any]:
    groups = standing.groups(report, known)
    blocks = [
        ("Newly failing" if not known.decided else "Worse than on the base", groups.worse),
        (
            "Failed" if known.comparison is None else "Failing, with nothing on the base to compare with",
            [*groups.failed, *([] if known.comparison is not None else groups.quarantined)],
        ),
        ("Flaky, no worse than on the base", groups.flaky),
        ("Failed on the base too", groups.still),
        ("In quarantine", groups.quarantined if known.comparison is not None else []),
    ]
    left = detail.explained
    explained, named = [], []
    opened = detail.detailed
    for title, cases in blocks:
        shown = cases[:left]
        if shown:
            explained.append((title, sections.explained(shown, known, detail, links, opened=opened)))
        named += cases[len(shown) :]
        left, opened = left - len(shown), max(opened - len(shown), 0)
    unhappy = [case for _, cases in blocks for case in cases]
    unjudged_together = [case for _, cases in groups.unjudged for case in cases]
    unjudged = groups.errored[: detail.explained]
    named += groups.errored[len(unjudged) :]
    problems, more_problems = problem_views(report.problems, detail, links.source_url)
    return {
        "report": report,
        "headline": deltas.headline(report, known),
        "note": digest.run_note(report),
        "warnings": [detail.tell(warning) for warning in warnings[: max(detail.listed, 3)]],
        "reasons": [detail.tell(reason) for reason in digest.other_reasons(report)] if detail.listed else [],
        "numbers": sections.numbers_view(report, known, detail),
        "spending": deltas.spending(report, known.comparison) if known.comparison is not None else "",
        "blocks": explained,
        "unjudged_together": sections.by_reason(groups.unjudged, detail),
        "unjudged": sections.explained(unjudged, known, detail, links, opened=detail.detailed),
        "named": sections.explained(named[: detail.listed], known, detail, links, opened=0),
        "unnamed": max(len(named) - detail.listed, 0),
        "better_title": "Better than on the base" if known.decided else "Fixed",
        "better": sections.named(groups.better, detail) if groups.better else None,
        "not_run": sections.by_reason(digest.not_run_groups(report), detail),
        "problems": problems,
        "more_problems": more_problems,
        "against": sections.base_view(report, known, detail, links),
        "notices": [detail.tell(notice) for notice in report.notices[: detail.listed]],
        "files": report.files[: min(detail.listed, 200)],
        "more_files": max(len(report.files) - min(detail.listed, 200), 0),
        "cut": detail.cut,
        "reproduce": reproduce([*unhappy, *groups.errored, *unjudged_together]) if detail.explained else "",
        "provenance": list(report.provenance.items())[: min(detail.listed, 10)],
        "written": dict(list(files.items())[: min(detail.listed, 10)]),
        "shortened": shortened,
    }
