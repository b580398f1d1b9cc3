"""The comment on a pull request: the decision and its cause in ten seconds, the rest behind a click.

Everything in the report is escaped, addresses included, for it may be the report of a fork. The marker by which the
comment is found again is added by `github.comments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, Detail, Reproduction, environment, escape, fitting, problem_views, reproduce
from agent_eval.report.renderers import sections
from agent_eval.report.renderers.sections import Links
from agent_eval.report.views import (
    Against,
    causes,
    emblem,
    has_cause,
    headline,
    not_run_groups,
    other_reasons,
    proposes,
    run_note,
    standing,
)
from agent_eval.results import RunReport

LIMIT = 60_000
"""Characters, counted as UTF-16 does. GitHub refuses a comment of more than 65,536 (its error "Body is too long"); the
rest is left to the marker."""
SMALLEST_LIMIT = 2_000

DETAILS: Sequence[Detail] = (
    Detail(explained=25, detailed=25, listed=50, side=1_500, log=2_000, turns=3),
    Detail(explained=25, detailed=10, listed=50, side=600, log=1_000, turns=2),
    Detail(explained=20, detailed=5, listed=40, side=300, log=500, turns=1),
    Detail(explained=15, detailed=0, listed=30, side=0, log=0, turns=0),
    Detail(explained=8, detailed=0, listed=20, side=0, log=0, turns=0, name=120),
    Detail(explained=3, detailed=0, listed=8, side=0, log=0, turns=0, name=80),
    Detail(explained=0, detailed=0, listed=3, side=0, log=0, turns=0, name=60),
    Detail(explained=0, detailed=0, listed=0, side=0, log=0, turns=0, name=60),
)
"""From everything that a comment should hold to next to nothing."""


def comment_markdown(
    report: RunReport,
    *,
    warnings: Sequence[str] = (),
    links: Links | None = None,
    known: Against | None = None,
    limit: int = LIMIT,
    key: str = "",
) -> str:
    """The comment, its first line the decision and its cause.

    Args:
        report: What to show.
        warnings: What the reader must know before everything else, e.g. that the pull request changes the gate's own
            rules. Plain sentences.
        links: Where the text may lead.
        known: What is known about the base branch; by default what the report says itself.
        limit: Characters that the text may have, counted in UTF-16 units.
        key: The setting `comment-key`, which says which of several comments this is; "" for the only one.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a comment needs at least {SMALLEST_LIMIT:,} characters, not {limit:,}")
    known = standing.against(report) if known is None else known
    links = Links() if links is None else links
    said = headline(report, known)
    sign = emblem(report)
    if key:
        said = f"{said} · {shorten(key, 60)}"
    template = environment().get_template("comment.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        context = _context(report, known, detail, links, warnings, shortened=shortened)
        return template.render({**context, "headline": said, "emblem": sign})

    text = fitting(render, DETAILS, lambda text: utf16_length(text) <= limit)
    if text is not None:
        return text
    return f"## {MARKS[sign]} {escape.prose(shorten(said, 120))}\n"


def utf16_length(text: str) -> int:
    """Characters as GitHub may count them: an emoji is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def _context(
    report: RunReport, known: Against, detail: Detail, links: Links, warnings: Sequence[str], *, shortened: bool
) -> dict[str, Any]:
    groups = standing.groups(report, known)
    # What has a cause is explained with it; the table is for what scored too low.
    failing = [*groups.worse, *groups.failed]
    table = [case for case in failing if not has_cause(case)]
    broken = [case for case in failing if has_cause(case)]
    found = [*causes(report, broken), *causes(report, groups.errored)]
    details = table[: detail.explained]
    more = table[max(len(details), min(sections.MOST_ROWS, detail.listed)) :]
    severe = [problem for problem in report.problems if problem.severity != "notice"]
    problems, more_problems = problem_views(severe, detail, links.source_url)
    against = sections.base_view(report, known, detail, links)
    still, flaky, quarantined = groups.still, groups.flaky, groups.quarantined
    quiet = not any(
        [
            *(failing, groups.errored, groups.better, still, flaky, quarantined, severe, warnings, against["changes"]),
            not_run_groups(report),
            report.verdict != "passed",
            against["base"] is not None and not against["base"]["found"],
        ]
    )
    numbers = sections.numbers_view(report, known, detail)
    return {
        "report": report,
        "proposes": proposes(report),
        "warnings": [detail.tell(warning) for warning in warnings[: max(detail.listed, 3)]],
        "rules": sections.rules_view(report, detail, links),
        "reasons": [detail.tell(reason) for reason in other_reasons(report, known)] if detail.listed else [],
        "causes": sections.causes_view(found, detail, links),
        "table": sections.table_view(report, table, known, detail, links),
        "moves": sections.moves_view(report, known, detail) if table else [],
        "numbers": numbers,
        "details": [
            *sections.explained(details, known, detail, links, opened=detail.detailed),
            *sections.before_errors(found, known, detail, links, opened=detail.detailed - len(details)),
        ],
        "more": sections.listed(more, known, detail, links) if more else None,
        "better_title": f"Better than on {known.branch}" if known.decided else "Fixed",
        "better": sections.named(groups.better, detail) if groups.better else None,
        "still": sections.listed(still, known, detail, links) if still else None,
        "flaky": sections.listed(flaky, known, detail, links) if flaky else None,
        "quarantined": sections.listed(quarantined, known, detail, links) if quarantined else None,
        "not_run": sections.by_reason(not_run_groups(report), detail),
        "problems": problems,
        "more_problems": more_problems,
        "notices": [detail.tell(notice) for notice in report.notices[: min(detail.listed, 10)]],
        "against": against,
        "fold_title": "Metrics, cost and time" if numbers["means"] or numbers["deltas"] else "Details",
        "folded": quiet
        or any(numbers[name] for name in ("deltas", "means", "informational", "spending"))
        or any([report.notices, against["statistics"], against["case_statistics"]]),
        "quiet": quiet,
        "reproduce": reproduce([*failing, *groups.errored], report.options) if detail.explained else Reproduction(),
        "run": _run_link(links),
        "artifacts": [detail.cut(name) for name in links.artifacts[:5]],
        "commit": links.commit(_tested(report)),
        "note": run_note(report),
        "shortened": shortened,
    }


def _run_link(links: Links) -> Any:
    url = links.own(links.run_url)
    return escape.link(escape.text("this run"), url) if url else ""


def _tested(report: RunReport) -> str | None:
    """The commit that people know: a pull request's own, not GitHub's merge of it."""
    origin = report.origin
    return None if origin is None else origin.head_commit or origin.commit or None
