"""The comment on a pull request: the decision and what to do next, the causes, details in folds.

Everything in the report is escaped, addresses included, since it may be the report of a fork. `github.comments` adds
the marker that identifies the comment.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.report.markup import MARKS, environment, link, prose
from agent_eval.report.renderers._markdown_context import content_of, context
from agent_eval.report.views import Detail, Links, fitting
from agent_eval.results import RunReport

LIMIT = 16_000
"""Characters, counted as UTF-16 does: nobody reads more, and the rest is one click away. GitHub refuses 65,536."""
SMALLEST_LIMIT = 2_000

_ROWS = 10
"""Cases in the table of those that no cause explains."""
DETAILS: Sequence[Detail] = (
    Detail(explained=5, listed=50, side=400, log=1_500),
    Detail(explained=3, listed=30, side=300, log=1_000),
    Detail(explained=1, listed=20, side=200, log=500),
    Detail(explained=0, listed=15, side=0, log=0),
    Detail(explained=0, listed=8, side=0, log=0, name=100),
    Detail(explained=0, listed=3, side=0, log=0, name=60),
    Detail(explained=0, listed=0, side=0, log=0, name=60),
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
    content = content_of(report)
    links = Links() if links is None else links
    no_verdict = bool(title)
    status = "notice" if no_verdict else content.status
    title = title or content.headline
    if key:
        title = f"{title} · {shorten(key, 60)}"
    template = environment().get_template("comment.md.j2")

    def render(detail: Detail, shortened: bool) -> str:
        values = context(content, detail, links, warnings, rows=min(_ROWS, detail.listed))
        values |= {
            "headline": title,
            "headline_status": status,
            "notices": report.notices[: min(detail.listed, 10)],
            "shortened": shortened,
        }
        return template.render({**values, "next": "" if no_verdict else values["next"]})

    text = fitting(render, DETAILS, lambda text: utf16_length(text) <= limit)
    return f"## {MARKS[status]} {prose(shorten(title, 120))}\n" if text is None else text


def report_link(links: Links) -> str:
    """A paragraph with a link to the report, for the job summary; "" without an address of the repository."""
    url = links.own(links.report_url)
    return "" if url is None else f"{link(Markup('Open the report'), url)}: every case, turn by turn.\n"


def utf16_length(text: str) -> int:
    """Characters as GitHub may count them: an emoji is two."""
    return len(text) + sum(char > "\uffff" for char in text)
