"""The comment on a pull request: the decision and its cause first, details in folds.

Everything in the report is escaped, addresses included, since it may be the report of a fork. `github.comments` adds
the marker that identifies the comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, environment, link, prose
from agent_eval.report.phrases import headline, headline_status
from agent_eval.report.renderers._markdown_context import shared_context
from agent_eval.report.views import (
    BaseComparison,
    Detail,
    Links,
    causes,
    fitting,
    grouping,
    has_cause,
    not_run_groups,
    sections,
)
from agent_eval.report.views.cases import cases_before_errors, explained_cases, listed_cases
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
    limit: int = LIMIT,
    key: str = "",
    title: str = "",
) -> str:
    """The comment, whose first line is the decision and its cause.

    Args:
        report: What to show.
        warnings: Plain sentences that come before everything else, e.g. that the pull request changes the rules of
            the gate.
        links: Where the text may lead.
        limit: Characters that the text may have, counted in UTF-16 units.
        key: The setting `name`, which identifies one of several comments; "" for the only one.
        title: The first line of a text that reports no verdict.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a comment needs at least {SMALLEST_LIMIT:,} characters, not {limit:,}")
    base = grouping.base_comparison(report)
    links = Links() if links is None else links
    status = "notice" if title else headline_status(report)
    title = title or headline(report, base)
    if key:
        title = f"{title} · {shorten(key, 60)}"
    template = environment().get_template("comment.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        context = _context(report, base, detail, links, warnings)
        return template.render({**context, "headline": title, "headline_status": status, "shortened": shortened})

    text = fitting(render, DETAILS, lambda text: utf16_length(text) <= limit)
    return f"## {MARKS[status]} {prose(shorten(title, 120))}\n" if text is None else text


def report_link(links: Links) -> str:
    """A paragraph with a link to the report, for the job summary; "" without an address of the repository."""
    url = links.own(links.report_url)
    return "" if url is None else f"{link(Markup('Open the report'), url)}: every case, turn by turn.\n"


def utf16_length(text: str) -> int:
    """Characters as GitHub may count them: an emoji is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def _context(
    report: RunReport, base: BaseComparison, detail: Detail, links: Links, warnings: Sequence[str]
) -> dict[str, Any]:
    groups = grouping.groups(report, base)
    failing = [*groups.worse, *groups.failed]
    # An error is shown with its cause; the table is for scores that are too low.
    table = [case for case in failing if not has_cause(case)]
    found_causes = [
        *causes(report, [case for case in failing if has_cause(case)]),
        *causes(report, groups.errored),
    ]
    detailed = table[: detail.explained]
    more = table[max(len(detailed), min(sections.MOST_ROWS, detail.listed)) :]
    severe = [problem for problem in report.problems if problem.severity != "notice"]
    base_branch = sections.base_section(report, base, detail, links)
    baseline = base_branch["baseline"]
    quiet = not any(
        [
            *(failing, groups.errored, groups.better, groups.still, groups.flaky, groups.quarantined),
            *(severe, warnings, base_branch["changes"], not_run_groups(report)),
            report.verdict != "passed",
            baseline is not None and not baseline["available"],
        ]
    )
    metrics = sections.metrics_section(report, base, detail)
    shared = shared_context(report, base, detail, links, warnings, groups=groups, failing=failing, causes=found_causes)
    return {
        **shared,
        "table": sections.failures_table(report, table, base, detail),
        "moves": sections.moves_section(report, base, detail) if table else [],
        "metrics": metrics,
        "details": [
            *explained_cases(detailed, base, detail, opened=detail.detailed),
            *cases_before_errors(found_causes, base, detail, opened=detail.detailed - len(detailed)),
        ],
        "more": listed_cases(more, base, detail),
        "still": listed_cases(groups.still, base, detail),
        "flaky": listed_cases(groups.flaky, base, detail),
        "quarantined": listed_cases(groups.quarantined, base, detail),
        "problems": sections.problems_section(severe, detail),
        "notices": [detail.shorten_message(notice) for notice in report.notices[: min(detail.listed, 10)]],
        "base": base_branch,
        "fold_title": "Metrics, cost and time" if metrics["means"] or metrics["deltas"] else "Details",
        "folded": quiet
        or any(metrics[name] for name in ("deltas", "means", "informational", "spending"))
        or any([report.notices, base_branch["statistics"], base_branch["case_statistics"]]),
        "quiet": quiet,
        "run_url": links.own(links.run_url),
        "report_url": links.own(links.report_url),
        "artifacts": [detail.shorten(name) for name in links.artifacts[:5]],
        "tested_commit": _tested_commit(report),
    }


def _tested_commit(report: RunReport) -> str | None:
    """The head commit of a pull request rather than GitHub's merge of it, which people don't know."""
    origin = report.origin
    return None if origin is None else origin.head_commit or origin.commit
