"""The result as GitHub-flavoured Markdown for the job summary (`summary.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, environment, prose
from agent_eval.report.phrases import headline
from agent_eval.report.renderers._markdown_context import content_of, context
from agent_eval.report.views import Detail, Links, cases_with_low_turns, fitting, run_note, view_of
from agent_eval.results import RunReport

LIMIT = 1_000_000
"""Bytes. GitHub refuses a step's summary of more than 1 MiB (documentation of workflow commands)."""
SMALLEST_LIMIT = 2_000
"""Bytes that hold the shortest form of any report."""

DETAILS: Sequence[Detail] = (
    Detail(explained=50, listed=1_000, side=2_000, log=8_000),
    Detail(explained=50, listed=500, side=1_000, log=2_000),
    Detail(explained=20, listed=200, side=500, log=1_000),
    Detail(explained=5, listed=100, side=300, log=500),
    Detail(explained=0, listed=50, side=0, log=0),
    Detail(explained=0, listed=20, side=0, log=0, name=100),
    Detail(explained=0, listed=5, side=0, log=0, name=60),
    Detail(explained=0, listed=0, side=0, log=0, name=60),
)
"""From everything to next to nothing."""

_ROWS = 50
"""Cases in the table of those that no cause explains."""


def summary_markdown(
    report: RunReport,
    *,
    limit: int = LIMIT,
    source_url: str | None = None,
    files: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    links: Links | None = None,
) -> str:
    """The result as Markdown, whose first line is the decision and its cause.

    Args:
        report: What to show.
        limit: Bytes in UTF-8 that the text may have.
        source_url: Where the tested commit can be browsed, such as `https://github.com/o/r/blob/SHA`; cases then
            link to their lines. Ignored if there are `links`.
        files: Paths of written files by what they are, named at the end.
        warnings: Plain sentences that come before everything else.
        links: Where the text may lead.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a summary needs at least {SMALLEST_LIMIT:,} bytes, not {limit:,}")
    content = content_of(report)
    links = Links(source_url=source_url) if links is None else links
    template = environment().get_template("summary.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        values = context(content, detail, links, warnings, rows=min(_ROWS, detail.listed))
        values |= {
            "note": run_note(report),
            "low_turns": cases_with_low_turns(report),
            "notices": report.notices[: detail.listed],
            "files": report.files[: min(detail.listed, 200)],
            "more_files": max(len(report.files) - min(detail.listed, 200), 0),
            "provenance": list(report.provenance.items())[: min(detail.listed, 10)],
            "written": dict(list((files or {}).items())[: min(detail.listed, 10)]),
            "shortened": shortened,
        }
        return template.render(values)

    text = fitting(render, DETAILS, lambda text: len(text.encode("utf-8")) <= limit)
    if text is not None:
        return text
    return f"## {MARKS[content.status]} {prose(shorten(content.headline, 120))}\n"


def part_summary(report: RunReport) -> str:
    """The job summary of one part of a run: its headline. The merge shows the cases of all parts."""
    title = headline(view_of(report))
    return "\n".join(f"{prose(line)}\n" for line in (title, *report.notices)) + "\n"
