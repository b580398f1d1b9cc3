"""The comparison with the base branch, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import plural, short_name, shorten
from agent_eval.report.renderers._styling import mark, printed, styled
from agent_eval.report.views import BaseComparison, case_name, diff, grouping, location, reason_lines
from agent_eval.results import CaseReport, RunReport

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MOST_LISTED = 50


def comparison_text(report: RunReport, *, width: int = 100, color: bool = False) -> str:
    """The comparison of a report with its baseline, as `agent-eval compare` prints it.

    Args:
        report: The report, with its comparison.
        width: Columns of the terminal, at least 40.
        color: Whether to write ANSI colours.
    """
    return printed(_blocks(report, grouping.base_comparison(report)), width=width, color=color)


def _blocks(report: RunReport, base: BaseComparison) -> Iterator[RenderableType]:
    groups = grouping.groups(report, base)
    yield from _group("Regressions" if base.decided else "Newly failing", groups.worse, base, reasons=3)
    before = [case for case in groups.failed if grouping.fails_as_before(case, base)]
    alone = [case for case in groups.failed if case not in before]
    yield from _group(f"Failing, with nothing on {base.branch} to compare with", alone, base, reasons=1)
    yield from _group(f"Failing on {base.branch} too", [*before, *groups.still], base, reasons=1)
    yield from _group("Could not be evaluated", groups.errored, base, reasons=1)
    if base.comparison is not None:
        for title, names in diff.other_changes(base.comparison):
            yield styled((title, "bold"))
            for name in names[:_MOST_LISTED]:
                yield styled("   ", (name, ""))
            if len(names) > _MOST_LISTED:
                yield styled(f"   and {plural(len(names) - _MOST_LISTED, 'more case')}")
            yield ""
    if base.comparison is not None and report.cases:
        yield delta_table(diff.delta_rows(report, base.comparison), base.branch)
    if spent := diff.spending(report, base.comparison, base.branch):
        yield styled(" ", (spent, ""))
    yield from base_comparison_lines(report, base)


def _group(title: str, cases: Sequence[CaseReport], base: BaseComparison, *, reasons: int) -> Iterator[RenderableType]:
    if not cases:
        return
    yield styled((title, "bold"))
    for case in cases[:_MOST_LISTED]:
        yield styled(
            " ", mark(case), (short_name(case_name(case)), "bold"), "  ", (location(case.file, case.line), "cyan")
        )
        notes = grouping.metric_base_notes(base.changes.get(case.case_id), base.branch)
        for line in reason_lines(case, reasons, notes):
            yield styled("     ", (shorten(line, 200), ""))
    if len(cases) > _MOST_LISTED:
        yield styled(f"   and {plural(len(cases) - _MOST_LISTED, 'more case')}")
    yield ""


def base_comparison_lines(report: RunReport, base: BaseComparison) -> Iterator[RenderableType]:
    """Differences from the base branch, other than failed cases."""
    if base.baseline is not None:
        found = base.baseline.status == "found"
        sentence = base.baseline.message if found else diff.no_baseline_reason(base.baseline)
        where = f" {base.baseline.run_url}" if found and base.baseline.run_url else ""
        yield styled(" ", (shorten(sentence, 600) + where, "dim"))
    if base.comparison is None:
        return
    if report.cases:
        yield styled(" ", (diff.comparison_summary(base.comparison), ""))
    better = grouping.groups(report, base).better
    if better:
        names = ", ".join(short_name(case_name(case)) for case in better[:10]) + (" …" if len(better) > 10 else "")
        yield styled(" ", ("✓ ", "green"), (f"{'better' if base.decided else 'fixed'}: {names}", ""))
    for note in base.comparison.notes[:10]:
        yield styled(" ", (note, "yellow"))


def delta_table(rows: Sequence[diff.DeltaRow], branch: str) -> Table:
    """A table of numbers here and on the base branch."""
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
