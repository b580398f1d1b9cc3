"""The comparison with the base branch, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_eval_results import CaseReport, RunReport
from agent_eval_results.report.phrases import changed_overview, diff, metric_base_notes
from agent_eval_results.report.renderers._styling import mark, printed, styled
from agent_eval_results.report.views import View, case_name, location, reason_lines, score_text, spending, view_of
from agent_eval_scoring.core.text import plural, short_name, shorten

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
    return printed(_blocks(view_of(report)), width=width, color=color)


def _blocks(view: View) -> Iterator[RenderableType]:
    report, groups = view.report, view.groups
    yield from _group("Regressions" if view.decided else "Newly failing", groups.worse, view, reasons=3)
    before = [case for case in groups.failed if view.outcomes[case.case_id].as_before]
    alone = [case for case in groups.failed if case not in before]
    yield from _group(f"Failing, with nothing on {view.branch} to compare with", alone, view, reasons=1)
    yield from _group(f"Failing on {view.branch} too", [*before, *groups.still], view, reasons=1)
    yield from _group("Could not be evaluated", groups.errored, view, reasons=1)
    if report.comparison is not None:
        for title, names in diff.other_changes(report.comparison):
            yield styled((title, "bold"))
            for name in names[:_MOST_LISTED]:
                yield styled("   ", (name, ""))
            if len(names) > _MOST_LISTED:
                yield styled(f"   and {plural(len(names) - _MOST_LISTED, 'more case')}")
            yield ""
    for line in changed_overview(view):
        yield styled("  ", (shorten(line, 200), ""))
    if report.comparison is not None and report.cases:
        yield delta_table(diff.delta_rows(view), view.branch)
    if spent := spending(view):
        yield styled(" ", (spent, ""))
    yield from base_comparison_lines(view)


def _group(title: str, cases: Sequence[CaseReport], view: View, *, reasons: int) -> Iterator[RenderableType]:
    if not cases:
        return
    yield styled((title, "bold"))
    for case in cases[:_MOST_LISTED]:
        yield styled(
            " ", mark(case), (short_name(case_name(case)), "bold"), "  ", (location(case.file, case.line), "cyan")
        )
        notes = metric_base_notes(view.changes.get(case.case_id), view.branch)
        for line in reason_lines(case, reasons, notes):
            yield styled("     ", (shorten(line, 200), ""))
    if len(cases) > _MOST_LISTED:
        yield styled(f"   and {plural(len(cases) - _MOST_LISTED, 'more case')}")
    yield ""


def base_comparison_lines(view: View) -> Iterator[RenderableType]:
    """Differences from the base branch, other than failed cases."""
    report = view.report
    if report.baseline is not None:
        found = report.baseline.found
        sentence = report.baseline.message if found else diff.no_baseline_reason(report.baseline)
        where = f" {report.baseline.run_url}" if found and report.baseline.run_url else ""
        yield styled(" ", (shorten(sentence, 600) + where, "dim"))
    if report.comparison is None:
        return
    if report.cases:
        yield styled(" ", (diff.comparison_summary(report.comparison), ""))
    better = view.groups.better
    if better:
        names = ", ".join(short_name(case_name(case)) for case in better[:10]) + (" …" if len(better) > 10 else "")
        yield styled(" ", ("✓ ", "green"), (f"{'better' if view.decided else 'newly passing'}: {names}", ""))
    for note in report.comparison.notes[:10]:
        yield styled(" ", (note.message, "yellow"))


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


def drop_lines(view: View, most: int = 3) -> list[str]:
    """The largest drops of scores that still pass, a line each."""
    drops = view.report.comparison.drops if view.report.comparison is not None else []
    lines = [
        f"passing with a worse score: {short_name(drop.eval_id)}: {short_name(drop.name)} "
        f"{score_text(drop.score.base)} → {score_text(drop.score.head)}"
        for drop in drops[:most]
    ]
    return [*lines, f"and {plural(len(drops) - most, 'more drop')}"] if len(drops) > most else lines
