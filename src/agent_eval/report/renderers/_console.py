"""The result on a terminal or in a CI log: first the failed cases, turn by turn; the verdict last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import listed, plural, short_name, shorten
from agent_eval.report.markup import EMPTY
from agent_eval.report.phrases import headline, other_reasons
from agent_eval.report.renderers._comparison_text import base_comparison_lines, delta_table
from agent_eval.report.renderers._overview import overview
from agent_eval.report.renderers._styling import mark, plain, printed, styled
from agent_eval.report.views import (
    LABELS,
    BaseComparison,
    CaseView,
    Cause,
    Finding,
    RowKind,
    TurnView,
    base_note,
    case_name,
    case_view,
    causes,
    diff,
    failed_word,
    findings,
    grouping,
    location,
    metric_rows,
    not_run_groups,
    reason_lines,
    rows,
    run_note,
    visible,
)
from agent_eval.results import CaseReport, ProblemReport, RunReport

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_MOST_DETAILED = 5
"""Cases that did not pass, shown with their turns."""
_MOST_EXPLAINED = 20
"""The next cases, shown with _REASONS lines each; then names alone, up to _MOST_LISTED."""
_REASONS = 3
_MOST_LISTED = 60
_MOST_TURNS = 3
_MOST_LINES = 14
"""Lines of one text; for more there are the summary and `agent-eval show`."""
_LONGEST_LOG = 20
_ALL = 1_000_000_000

_ROW_STYLE: Mapping[RowKind, str] = {
    "user": "italic",
    "expected said": "green",
    "expected call": "green",
    "expected answer": "green",
    "said": "dim",
    "detail": "dim",
}
_VERDICT_STYLE: Mapping[str, str] = {
    "passed": "bold green",
    "failed": "bold red",
    "inconclusive": "bold yellow",
    "invalid": "bold red",
}


def console(report: RunReport, *, width: int = 100, color: bool = False, files: Mapping[str, str] | None = None) -> str:
    """The result as text.

    Args:
        report: The report.
        width: Columns of the terminal, at least 40.
        color: Whether to write ANSI colours.
        files: Paths of written files by what they are (`summary`, `JUnit`, ...), named at the end.

    Returns:
        Lines of at most `width` columns. No line starts with a workflow command, whatever an agent wrote.
    """
    return printed(_blocks(report, files or {}), width=width, color=color)


def _blocks(report: RunReport, files: Mapping[str, str]) -> Iterator[RenderableType]:
    yield ""
    yield from overview(report)
    yield ""
    base = grouping.base_comparison(report)
    groups = grouping.groups(report, base)
    yield from _by_reason("not run", not_run_groups(report))
    shown_cases = [
        *groups.worse, *groups.failed, *groups.flaky, *groups.still, *groups.errored, *groups.quarantined
    ]  # fmt: skip
    shared = [cause for cause in causes(report, shown_cases) if len(cause.cases) > 1]
    for cause in shared:
        yield from _cause(cause)
    grouped = {case.case_id for cause in shared for case in cause.cases}
    unhappy = [case for case in shown_cases if case.case_id not in grouped]
    described = _MOST_DETAILED + _MOST_EXPLAINED
    for case in unhappy[:_MOST_DETAILED]:
        yield from _case(case, base)
    for case in unhappy[_MOST_DETAILED:described]:
        yield from _short_case(case)
    for case in unhappy[described : described + _MOST_LISTED]:
        yield _case_line(case)
    yield from _more(unhappy[_MOST_DETAILED:], len(unhappy) - described - _MOST_LISTED, files)
    yield from _problems(report.problems)
    yield from base_comparison_lines(report, base)
    yield from _totals(report, base)
    yield from _ending(report, base, files)


def _case_line(case: CaseReport) -> Text:
    return styled(" ", mark(case), (short_name(case_name(case)), "bold"), "  ", (location(case.file, case.line), "dim"))


def _short_case(case: CaseReport) -> Iterator[RenderableType]:
    from rich.padding import Padding

    yield _case_line(case)
    for line in reason_lines(case, _REASONS):
        yield Padding(_bullet(styled((shorten(line, 200), ""))), (0, 0, 0, 4))


def _more(short: Sequence[CaseReport], left: int, files: Mapping[str, str]) -> Iterator[RenderableType]:
    """How many cases are omitted, and where they are shown."""
    if left > 0:
        yield styled("   and ", (plural(left, "more case"), "bold"), " that did not pass")
    if short and "summary" in files:
        yield styled(("   Expected beside actual for all of them: ", "dim"), (files["summary"], ""))
    if short:
        yield ""


def _by_reason(what: str, groups: Iterable[tuple[str, Sequence[CaseReport]]]) -> Iterator[RenderableType]:
    for reason, cases in groups:
        names = listed([case_name(case) for case in cases], 5)
        yield styled(
            " ", ("- ", "dim"), (f"{plural(len(cases), 'case')} {what}: ", ""), (reason, ""), (f" ({names})", "dim")
        )
        yield ""


_MOST_NAMES = 10


def _cause(cause: Cause) -> Iterator[RenderableType]:
    """A cause of several cases, once."""
    from rich.padding import Padding
    from rich.rule import Rule

    sign, style = mark(cause.cases[0])
    title = styled((f"{sign}{plural(len(cause.cases), 'case')} ", style), (cause.kind, "bold"))
    yield Rule(title, align="left", style=style.split()[-1], characters="─")
    where = f" at {location(cause.file, cause.line)}" if cause.file else ""
    yield Padding(styled((cause.message, "bold"), (where, "cyan")), (0, 0, 0, 2))
    if cause.hint:
        yield Padding(_bullet(styled((cause.hint, ""))), (0, 0, 0, 4))
    yield Padding(styled((listed([case_name(case) for case in cause.cases], _MOST_NAMES), "")), (0, 0, 0, 2))
    if cause.log:
        yield Padding(_log(cause.log), (0, 0, 0, 2))
    yield ""


def _case(case: CaseReport, base: BaseComparison) -> Iterator[RenderableType]:
    from rich.rule import Rule

    sign, style = mark(case)
    word = failed_word(case) if case.status == "failed" else case.status
    since, evidence = grouping.change_label(case, base)
    title = styled(
        (f"{sign}{word} ", style),
        (short_name(case_name(case)), "bold"),
        (f" · {since}" if since else "", style),
        "  ",
        (location(case.file, case.line), "cyan"),
    )
    yield Rule(title, align="left", style=style.split()[-1], characters="─")
    if evidence:
        yield styled("  ", (evidence, ""))
    view = case_view(case, turns=_MOST_TURNS)
    notes = grouping.metric_base_notes(base.changes.get(case.case_id), base.branch)
    for finding in findings(case) if view is None else view.findings:
        yield from _finding(finding, base_note(finding, notes))
    if view is not None:
        yield from _turns(view)
    yield ""


def _finding(finding: Finding, on_base: str) -> Iterator[RenderableType]:
    from rich.padding import Padding

    yield Padding(styled((finding.summary, "bold"), (on_base, "")), (0, 0, 0, 2))
    for line in finding.lines[:_MOST_LINES]:
        yield Padding(_bullet(styled((line, ""))), (0, 0, 0, 4))
    if len(finding.lines) > _MOST_LINES:
        yield Padding(styled((f"· and {len(finding.lines) - _MOST_LINES} more", "dim")), (0, 0, 0, 4))
    if finding.log:
        yield Padding(_log(_end(finding.log)), (0, 0, 0, 2))


def _turns(view: CaseView) -> Iterator[RenderableType]:
    from rich.padding import Padding

    for turn in view.turns:
        yield Padding(styled((view.title(turn), "bold")), (0, 0, 0, 2))
        yield Padding(turn_table(turn), (0, 0, 0, 4))
    if view.turns_left_out:
        yield Padding(styled((f"and {plural(view.turns_left_out, 'more turn')}", "dim")), (0, 0, 0, 4))


def turn_table(turn: TurnView, *, whole: bool = False) -> Table:
    """A turn as a table of labels and texts, which wrap in their column; `whole` omits nothing."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    some = rows(turn, text=_ALL, code=_ALL, steps=_ALL, details=_ALL) if whole else rows(turn, text=1_000, code=500)
    for row in some:
        style = "red" if row.wrong else _ROW_STYLE.get(row.kind, "")
        grid.add_row(LABELS[row.kind], plain(row.text, style) if whole else _cell(row.text, style))
    return grid


def _bullet(line: Text, bullet: str = "·") -> Table:
    """A line whose continuation is indented."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row(bullet, line)
    return grid


def _cell(value: str, style: str) -> Text:
    lines = visible(shorten(value, 2_000)).strip("\n").split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"… {len(lines) - _MOST_LINES + 1} more lines"]
    return plain("\n".join(lines) or EMPTY, style)


def run_error_log(log: str) -> Table:
    """A traceback or a log as a whole, in a frame."""
    return _log(visible(log).strip("\n"))


def _end(log: str) -> str:
    """The end of a log, which says what happened."""
    lines = visible(shorten(log, 8_000)).strip("\n").split("\n")
    if len(lines) > _LONGEST_LOG:
        lines = [f"… {len(lines) - _LONGEST_LOG} lines before", *lines[-_LONGEST_LOG:]]
    return "\n".join(lines)


def _log(log: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.ROUNDED, expand=True, border_style="dim", show_header=False)
    table.add_column(overflow="fold")
    table.add_row(plain(log, "dim"))
    return table


def _problems(problems: Sequence[ProblemReport]) -> Iterator[RenderableType]:
    styles = {"error": "bold red", "warning": "yellow", "notice": "dim"}
    order = list(styles)
    for problem in sorted(problems, key=lambda problem: order.index(problem.severity))[:_MOST_LISTED]:
        where = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part is not None)
        yield styled(
            " ",
            (where, "cyan"),
            ": " if where else "",
            (problem.severity, styles[problem.severity]),
            (f" [{problem.code}] ", "dim"),
            (problem.message, ""),
        )
        for line in (problem.hint or "").splitlines():
            yield styled("     ", (line, "dim"))
    if len(problems) > _MOST_LISTED:
        yield styled(f" and {plural(len(problems) - _MOST_LISTED, 'more problem')}")
    if problems:
        yield ""


def _totals(report: RunReport, base: BaseComparison) -> Iterator[RenderableType]:
    from rich import box
    from rich.table import Table

    rows = metric_rows(report)
    if rows and base.comparison is not None:
        yield delta_table(diff.delta_rows(report, base.comparison), base.branch)
        return
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, header_style="bold")
    table.add_column("metric", overflow="fold")
    for name in ("mean", "needs", "passed", "failed", "not evaluated"):
        table.add_column(name, justify="right")
    for row in rows:
        gates = row.gates
        table.add_row(
            styled((row.name, "" if gates else "dim")),
            row.score,
            row.threshold,
            f"{row.passed:,}" if gates else "",
            styled((f"{row.failed:,}", "bold red" if row.failed else "")) if gates else "",
            styled((f"{row.not_evaluated:,}", "yellow" if row.not_evaluated else ""))
            if gates or row.not_evaluated
            else "",
        )
    yield table


def _ending(report: RunReport, base: BaseComparison, files: Mapping[str, str]) -> Iterator[RenderableType]:
    for notice in report.notices:
        yield styled(" ", (notice, "dim"))
    for reason in other_reasons(report, base):
        yield styled(" ", (reason, ""))
    if files:
        width = max(len(name) for name in files)
        for name, path in files.items():
            line = styled((f" {name:<{width}}  ", "dim"), (path, ""))
            line.no_wrap, line.overflow = True, "ignore"  # A path on two lines can't be opened.
            yield line
    for warning in report.warnings:
        yield styled(" ", (warning, "yellow"))
    yield styled((headline(report, base), _VERDICT_STYLE[report.verdict]), (f" ({run_note(report)})", "dim"))
