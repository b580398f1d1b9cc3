"""The comment on a pull request: in ten seconds what got worse and why, the rest behind a click.

Everything in the report is escaped, addresses included, for it may be the report of a fork. The marker by which the
comment is found again is added by `github.comments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report import deltas, escape, sections, standing
from agent_eval.report.digest import not_run_groups, other_reasons, run_note
from agent_eval.report.markdown import MARKS, Detail, environment, fitting, problem_views, reproduce
from agent_eval.report.sections import Links
from agent_eval.report.standing import Against
from agent_eval.results.report import RunReport

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

_OPEN = 3
"""Cases whose reasons stand open: more would push the rest off the screen."""


def comment_markdown(
    report: RunReport,
    *,
    warnings: Sequence[str] = (),
    links: Links | None = None,
    known: Against | None = None,
    limit: int = LIMIT,
) -> str:
    """The comment, its first line the verdict in one sentence.

    Args:
        report: What to tell.
        warnings: What the reader must know before everything else, e.g. that the pull request changes the gate's own
            rules. Plain sentences.
        links: Where the text may lead.
        known: What is known about the base; by default what the report says itself.
        limit: Characters that the text may have, counted in UTF-16 units.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a comment needs at least {SMALLEST_LIMIT:,} characters, not {limit:,}")
    known = standing.against(report) if known is None else known
    links = Links() if links is None else links
    template = environment().get_template("comment.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        return template.render(_context(report, known, detail, links, warnings, shortened=shortened))

    text = fitting(render, DETAILS, lambda text: utf16_length(text) <= limit)
    if text is not None:
        return text
    said = shorten(deltas.headline(report, known), 120)
    return f"## {MARKS[report.verdict]} {escape.text(said)}\n"


def utf16_length(text: str) -> int:
    """Characters as GitHub may count them: an emoji is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def _context(
    report: RunReport, known: Against, detail: Detail, links: Links, warnings: Sequence[str], *, shortened: bool
) -> dict[str, Any]:
    groups = standing.groups(report, known)
    # Errors have their own share of the room: an outage must not hide behind failures.
    share = max(detail.explained // 3, min(detail.explained, 2))
    worse, failed = groups.worse[: detail.explained], groups.failed[: detail.explained]
    errored = groups.errored[:share]
    more = [*groups.worse[len(worse) :], *groups.failed[len(failed) :], *groups.errored[len(errored) :]]
    problems, more_problems = problem_views(report.problems, detail, links.source_url)
    unjudged = [case for _, cases in groups.unjudged for case in cases]
    unhappy = [*groups.worse, *groups.failed, *groups.errored, *unjudged, *groups.still]
    return {
        "report": report,
        "headline": deltas.headline(report, known),
        "warnings": [detail.tell(warning) for warning in warnings[: max(detail.listed, 3)]],
        "reasons": [detail.tell(reason) for reason in other_reasons(report)] if detail.listed else [],
        "numbers": sections.numbers_view(report, known, detail),
        "spending": deltas.spending(report, known.comparison),
        "worse_title": _worse_title(groups, known),
        "failed_title": "Failed" if known.comparison is None else "Failing, with nothing on the base to compare with",
        "open": _OPEN,
        "worse": sections.explained(worse, known, detail, links, opened=detail.detailed),
        "failed": sections.explained(failed, known, detail, links, opened=detail.detailed - len(worse)),
        "unjudged_together": sections.by_reason(groups.unjudged, detail),
        "errored": sections.explained(errored, known, detail, links, opened=min(detail.detailed, 3)),
        "more": sections.listed(more, known, detail, links) if more else None,
        "better_title": "Better than on the base" if known.decided else "Fixed",
        "better": sections.named(groups.better, detail) if groups.better else None,
        "still": sections.listed(groups.still, known, detail, links) if groups.still else None,
        "flaky": sections.listed(groups.flaky, known, detail, links) if groups.flaky else None,
        "quarantined": sections.listed(groups.quarantined, known, detail, links) if groups.quarantined else None,
        "not_run": sections.by_reason(not_run_groups(report), detail),
        "problems": problems,
        "more_problems": more_problems,
        "notices": [detail.tell(notice) for notice in report.notices[: min(detail.listed, 10)]],
        "against": sections.base_view(report, known, detail, links),
        "reproduce": reproduce(unhappy) if detail.explained else "",
        "run": _run_link(links),
        "artifacts": [detail.cut(name) for name in links.artifacts[:5]],
        "commit": links.commit(_tested(report)),
        "note": run_note(report),
        "cut": detail.cut,
        "shortened": shortened,
    }


def _worse_title(groups: standing.Groups, known: Against) -> str:
    changes = [known.changes.get(case.case_id) for case in groups.worse]
    newly = all(one is not None and one.change == "newly_failing" for one in changes)
    return "Newly failing" if newly and not known.decided else "Worse than on the base"


def _run_link(links: Links) -> Any:
    url = links.own(links.run_url)
    return escape.link(escape.text("this run"), url) if url else ""


def _tested(report: RunReport) -> str | None:
    """The commit that people know: a pull request's own, not GitHub's merge of it."""
    origin = report.origin
    return None if origin is None else origin.head_commit or origin.commit or None
