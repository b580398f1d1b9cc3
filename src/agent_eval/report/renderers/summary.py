"""The result as GitHub-flavoured Markdown for the job summary (`summary.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, Detail, Reproduction, environment, escape, fitting, problem_views, reproduce
from agent_eval.report.renderers import sections
from agent_eval.report.renderers.sections import Links
from agent_eval.report.views import (
    Against,
    causes,
    digest,
    emblem,
    has_cause,
    headline,
    other_reasons,
    proposes,
    standing,
)
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
    """The result as Markdown, its first line the decision and its cause.

    Args:
        report: What to show.
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
    return f"## {MARKS[emblem(report)]} {escape.prose(shorten(headline(report, known), 120))}\n"


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
    failing = [*groups.worse, *groups.failed]
    if known.comparison is None:
        failing += groups.quarantined
    broken = [case for case in [*failing, *groups.still, *groups.flaky] if has_cause(case)]
    table = [case for case in failing if not has_cause(case)]
    compared = known.comparison is not None
    worse, failed, flaky, still = (
        [case for case in cases if not has_cause(case)]
        for cases in (groups.worse, groups.failed, groups.flaky, groups.still)
    )
    suspected = [case for case in worse if standing.is_suspected(case, known)]
    blocks = [
        (
            "Regressions" if known.decided else "Newly failing",
            [case for case in worse if not standing.is_suspected(case, known)],
        ),
        ("Suspected regressions", suspected),
        (f"Failing, with nothing on {known.branch} to compare with" if compared else "Failed", failed),
        (f"Failed in some runs, no more often than on {known.branch}", flaky),
        (f"Failing on {known.branch} too", still),
        ("In quarantine", groups.quarantined),
    ]
    left = detail.explained
    explained: list[tuple[str, list[dict[str, Any]]]] = []
    named: list[CaseReport] = []
    opened = detail.detailed
    for title, cases in blocks:
        shown = cases[:left]
        if shown:
            explained.append((title, sections.explained(shown, known, detail, links, opened=opened)))
        named += cases[len(shown) :]
        left, opened = left - len(shown), max(opened - len(shown), 0)
    unhappy = [*failing, *groups.errored]
    found = [*causes(report, broken), *causes(report, groups.errored)]
    if before := sections.before_errors(found, known, detail, links, opened=opened):
        explained.append(("What the agent did before the error", before))
    problems, more_problems = problem_views(report.problems, detail, links.source_url)
    return {
        "report": report,
        "proposes": proposes(report),
        "headline": headline(report, known),
        "emblem": emblem(report),
        "note": digest.run_note(report),
        "warnings": [detail.tell(warning) for warning in warnings[: max(detail.listed, 3)]],
        "rules": sections.rules_view(report, detail, links),
        "reasons": [detail.tell(reason) for reason in other_reasons(report, known)] if detail.listed else [],
        "causes": sections.causes_view(found, detail, links),
        "table": sections.table_view(report, table, known, detail, links, most=_MOST_ROWS),
        "moves": sections.moves_view(report, known, detail) if table else [],
        "numbers": sections.numbers_view(report, known, detail),
        "blocks": explained,
        "named": sections.explained(named[: detail.listed], known, detail, links, opened=0),
        "unnamed": max(len(named) - detail.listed, 0),
        "better_title": f"Better than on {known.branch}" if known.decided else "Fixed",
        "better": sections.named(groups.better, detail) if groups.better else None,
        "not_run": sections.by_reason(digest.not_run_groups(report), detail),
        "problems": problems,
        "more_problems": more_problems,
        "against": sections.base_view(report, known, detail, links),
        "notices": [detail.tell(notice) for notice in report.notices[: detail.listed]],
        "files": report.files[: min(detail.listed, 200)],
        "more_files": max(len(report.files) - min(detail.listed, 200), 0),
        "cut": detail.cut,
        "reproduce": reproduce(unhappy, report.options) if detail.explained else Reproduction(),
        "provenance": list(report.provenance.items())[: min(detail.listed, 10)],
        "written": dict(list(files.items())[: min(detail.listed, 10)]),
        "shortened": shortened,
    }
