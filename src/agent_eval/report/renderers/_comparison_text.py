"""What has changed since the base branch, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import plural, shorten
from agent_eval.report.renderers._styling import mark, printed, styled
from agent_eval.report.views import BaseComparison, case_name, diff, grouping, headline, location, reason_lines
from agent_eval.results import CaseReport, RunReport

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MOST_LISTED = 50


def comparison_text(report: RunReport, *, width: int = 100, color: bool = False) -> str:
    """The comparison of a report with its base, as `agent-eval compare` prints it.

    Args:
        report: What to tell, with its comparison.
        width: Columns of the terminal, at least 40.
        color: Whether to write ANSI colours.
    """
    return printed(_blocks(report, grouping.base_comparison(report)), width=width, color=color)


def _blocks(report: RunReport, known: BaseComparison) -> Iterator[RenderableType]:
    groups = grouping.groups(report, known)
    yield from _group("Regressions" if known.decided else "Newly failing", groups.worse, known, reasons=3)
    yield from _group(f"Failing, with nothing on {known.branch} to compare with", groups.failed, known, reasons=1)
    yield from _group(f"Failing on {known.branch} too", groups.still, known, reasons=1)
    yield from _group("Could not be judged", groups.errored, known, reasons=1)
    if known.comparison is not None:
        for title, names in diff.other_changes(known.comparison):
            yield styled((title, "bold"))
            for name in names[:_MOST_LISTED]:
                yield styled("   ", (name, ""))
            if len(names) > _MOST_LISTED:
                yield styled(f"   and {plural(len(names) - _MOST_LISTED, 'more case')}")
            yield ""
    yield from against_lines(report, known)
    if known.comparison is not None and report.cases:
        yield delta_table(diff.delta_rows(report, known.comparison), known.branch)
    if spent := diff.spending(report, known.comparison, known.branch):
        yield styled(" ", (spent, ""))
    yield styled((headline(report, known), "bold"))


def _group(title: str, cases: Sequence[CaseReport], known: BaseComparison, *, reasons: int) -> Iterator[RenderableType]:
    if not cases:
        return
    yield styled((title, "bold"))
    for case in cases[:_MOST_LISTED]:
        yield styled(" ", mark(case), (case_name(case), "bold"), "  ", (location(case.file, case.line), "cyan"))
        base = grouping.metric_base_notes(known.changes.get(case.case_id), known.branch)
        for line in reason_lines(case, reasons):
            yield styled("     ", (shorten(line, 200) + grouping.base_note(line, base), ""))
    if len(cases) > _MOST_LISTED:
        yield styled(f"   and {plural(len(cases) - _MOST_LISTED, 'more case')}")
    yield ""


def against_lines(report: RunReport, known: BaseComparison) -> Iterator[RenderableType]:
    """What has changed since the base branch, beside the cases that failed."""
    if known.baseline is not None:
        told = known.baseline.message if known.baseline.status == "found" else diff.no_baseline_reason(known.baseline)
        yield styled(" ", (shorten(told, 600), "dim"))
    if known.comparison is None:
        return
    if report.cases:
        yield styled(" ", (diff.comparison_summary(known.comparison), ""))
    better = grouping.groups(report, known).better
    if better:
        names = ", ".join(case_name(case) for case in better[:10]) + (" …" if len(better) > 10 else "")
        yield styled(" ", ("✓ ", "green"), (f"{'better' if known.decided else 'fixed'}: {names}", ""))
    for note in known.comparison.notes[:10]:
        yield styled(" ", (note, "yellow"))


def delta_table(rows: Sequence[diff.DeltaRow], branch: str) -> Table:
    """Numbers now and on the base branch."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, header_style="bold")
    table.add_column("metric", overflow="fold")
    for name in ("now", branch, "change", "needs", "failed", "not evaluated"):
        table.add_column(styled((name, "")), justify="right")
    for row in rows:
        table.add_row(
            styled((row.name or "cases that pass", "" if row.gates else "dim")),
            row.now,
            row.base,
            row.change,
            row.needs,
            styled((f"{row.failed:,}", "bold red" if row.failed else "")) if row.gates else "",
            styled((f"{row.not_evaluated:,}", "yellow" if row.not_evaluated else "")) if row.gates else "",
        )
    return table
