"""The result as GitHub-flavoured Markdown for the job summary (`summary.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, environment, prose
from agent_eval.report.phrases import headline, headline_status
from agent_eval.report.renderers._markdown_context import shared_context
from agent_eval.report.views import BaseComparison, Detail, Links, causes, fitting, grouping, has_cause, sections
from agent_eval.report.views.cases import cases_before_errors, explained_cases
from agent_eval.results import CaseReport, RunReport

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

_MOST_ROWS = 50
"""Cases in the table of what broke; a case beyond it is among those that are explained or named."""


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
    base = grouping.base_comparison(report)
    links = Links(source_url=source_url) if links is None else links
    template = environment().get_template("summary.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        context = _context(report, base, detail, links, warnings)
        written = dict(list((files or {}).items())[: min(detail.listed, 10)])
        return template.render({**context, "written": written, "shortened": shortened})

    text = fitting(render, DETAILS, lambda text: len(text.encode("utf-8")) <= limit)
    if text is not None:
        return text
    return f"## {MARKS[headline_status(report)]} {prose(shorten(headline(report, base), 120))}\n"


def _context(
    report: RunReport, base: BaseComparison, detail: Detail, links: Links, warnings: Sequence[str]
) -> dict[str, Any]:
    groups = grouping.groups(report, base)
    failing = [*groups.worse, *groups.failed]
    if base.comparison is None:
        failing += groups.quarantined
    # An error is shown with its cause; the table is for scores that are too low.
    table = [case for case in failing if not has_cause(case)]
    broken = [case for case in [*failing, *groups.still, *groups.flaky] if has_cause(case)]
    found_causes = [*causes(report, broken), *causes(report, groups.errored)]
    blocks: list[tuple[str, list[dict[str, Any]]]] = []
    named: list[CaseReport] = []
    explained, opened = detail.explained, detail.detailed
    for title, cases in _blocks(groups, base):
        shown = cases[:explained]
        if shown:
            blocks.append((title, explained_cases(shown, base, detail, opened=opened)))
        named += cases[len(shown) :]
        explained, opened = explained - len(shown), max(opened - len(shown), 0)
    if before_errors := cases_before_errors(found_causes, base, detail, opened=opened):
        blocks.append(("What the agent did before the error", before_errors))
    shared = shared_context(report, base, detail, links, warnings, groups=groups, failing=failing, causes=found_causes)
    return {
        **shared,
        "headline": headline(report, base),
        "headline_status": headline_status(report),
        "table": sections.failures_table(report, table, base, detail, most=_MOST_ROWS),
        "moves": sections.moves_section(report, base, detail) if table else [],
        "low_turns": sections.low_turns_section(report, detail),
        "metrics": sections.metrics_section(report, base, detail),
        "blocks": blocks,
        "named": explained_cases(named[: detail.listed], base, detail, opened=0),
        "unnamed": max(len(named) - detail.listed, 0),
        "problems": sections.problems_section(report.problems, detail),
        "base": sections.base_section(report, base, detail, links),
        "notices": [detail.shorten_message(notice) for notice in report.notices[: detail.listed]],
        "files": report.files[: min(detail.listed, 200)],
        "more_files": max(len(report.files) - min(detail.listed, 200), 0),
        "cut": detail.shorten,
        "provenance": list(report.provenance.items())[: min(detail.listed, 10)],
    }


def _blocks(groups: grouping.Groups, base: BaseComparison) -> list[tuple[str, list[CaseReport]]]:
    """The cases whose scores were too low, by section."""
    worse, failed, flaky, still = (
        [case for case in cases if not has_cause(case)]
        for cases in (groups.worse, groups.failed, groups.flaky, groups.still)
    )
    suspected = [case for case in worse if grouping.is_suspected(case, base)]
    regressions = [case for case in worse if not grouping.is_suspected(case, base)]
    compared = base.comparison is not None
    return [
        ("Regressions" if base.decided else "Newly failing", regressions),
        ("Suspected regressions", suspected),
        (f"Failing, with nothing on {base.branch} to compare with" if compared else "Failed", failed),
        (f"Failed in some runs, no more often than on {base.branch}", flaky),
        (f"Failing on {base.branch} too", still),
        ("In quarantine", groups.quarantined),
    ]


def part_summary(report: RunReport) -> str:
    """The job summary of one part of a run: its headline. The merge shows the cases of all parts."""
    title = headline(report, grouping.base_comparison(report))
    return "\n".join(f"{prose(line)}\n" for line in (title, *report.notices)) + "\n"
