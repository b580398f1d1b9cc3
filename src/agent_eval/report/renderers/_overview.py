"""The table at the top of the console's text: every case with its scores, or every file with its counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import plural, short_name
from agent_eval.report.renderers._styling import MARKS, mark, styled
from agent_eval.report.views import case_name, cases_with_low_turns, low_turns, metric_rows, score_text
from agent_eval.results import MetricReport, RunReport

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_MOST_NAMED = 40
"""Cases listed by name; of more, only their files are."""
_MOST_FILES = 60
_MOST_COLUMNS = 4
_MOST_LOW = 20
_MOST_TURNS = 3
"""Turns below a threshold, named for each case that passes all the same."""
_SUFFIX = re.compile(r"(?:_avg)?(?:_score)?(?:_v\d+)?$")


def overview(report: RunReport) -> Iterator[RenderableType]:
    """Every case with its scores if they are few enough, else every file with its counts."""
    if not report.cases:
        return
    names = [row.name for row in metric_rows(report) if row.gates]
    if len(report.cases) <= _MOST_NAMED and len(names) <= _MOST_COLUMNS:
        yield _cases_table(report, names)
        return
    yield _files_table(report)
    low = cases_with_low_turns(report)
    for case, lines in low[:_MOST_LOW]:
        turns = "; ".join(lines[:_MOST_TURNS])
        yield styled(" ", mark(case), (short_name(case_name(case)), ""), (f"  {turns}", "yellow"))
    if len(low) > _MOST_LOW:
        more = plural(len(low) - _MOST_LOW, "more case")
        yield styled((f"   and {more} that pass with a turn below a threshold", "yellow"))


def _grid(first: str, others: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=True)
    table.add_column(first, overflow="fold", vertical="bottom")
    for name in others:
        table.add_column(styled((name, "")), justify="right", vertical="bottom", overflow="fold")
    return table


def _cases_table(report: RunReport, names: Sequence[str]) -> Table:
    table = _grid("", [_label(name) for name in names])
    for file in dict.fromkeys(case.file for case in report.cases):
        table.add_row(styled((file, "cyan")))
        for case in report.cases:
            if case.file == file:
                metrics = {metric.name: metric for metric in case.metrics}
                cells = [_score(metrics[name]) if name in metrics else "" for name in names]
                table.add_row(styled(mark(case), (short_name(case.eval_id), "")), *cells)
                if case.status == "passed":
                    for line in low_turns(case)[:_MOST_TURNS]:
                        table.add_row(styled("   ", (line, "yellow")))
    return table


def _label(name: str) -> str:
    """A metric's name as a heading that can wrap: `tool trajectory` for `tool_trajectory_avg_score`."""
    return _SUFFIX.sub("", name).replace("_", " ") or name


def _score(metric: MetricReport) -> Text:
    style = {"failed": "bold red", "not_evaluated": "yellow"}.get(metric.status, "")
    return styled((score_text(metric.score, metric.threshold), style))


def _files_table(report: RunReport) -> Table:
    statuses = [status for status in MARKS if any(case.status == status for case in report.cases)]
    table = _grid("", [status.replace("_", " ") for status in statuses])
    counts: dict[str, Counter[str]] = {}
    for case in report.cases:
        counts.setdefault(case.file, Counter())[case.status] += 1
    # The files with the most failures come first, since a long list is cut at its end.
    ordered = sorted(counts.items(), key=lambda item: item[1]["passed"] - item[1].total())
    for file, count in ordered[:_MOST_FILES]:
        table.add_row(
            styled((file, "cyan")),
            *(styled((f"{count[status]:,}", MARKS[status][1] if count[status] else "dim")) for status in statuses),
        )
    if len(ordered) > _MOST_FILES:
        table.add_row(styled((f"and {plural(len(ordered) - _MOST_FILES, 'more file')}", "dim")))
    return table
