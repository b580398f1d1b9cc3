"""A case as plain lines: its scores, and what went wrong turn by turn. For JUnit and the pytest plugin."""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.core.text import plural, shorten
from agent_eval.report.views import (
    LABELS,
    TurnView,
    case_view,
    findings,
    location,
    measurement_text,
    rows,
    score_text,
    threshold_text,
    visible,
)
from agent_eval.results import CaseReport, MetricReport

_LONGEST_SIDE = 4_000
"""Characters of an expected or actual text."""


def score_lines(case: CaseReport) -> Iterator[str]:
    """The place of the case and its scores, one line each."""
    yield location(case.file, case.line)
    if len(case.runs) > 1:
        yield plural(len(case.runs), "run")
    for metric in case.metrics:
        yield f"{metric.name}: {_score(metric)}"


def _score(metric: MetricReport) -> str:
    if metric.status == "informational":
        return measurement_text(metric.name, metric.score)
    needs = threshold_text(metric.threshold, at_most=metric.direction == "lower")
    return f"{score_text(metric.score, metric.threshold)} ({metric.status.replace('_', ' ')}, needs {needs})"


def explanation_lines(case: CaseReport) -> Iterator[str]:
    """The place of the case, what went wrong, and its turns. Neither bounded as a whole nor escaped."""
    yield location(case.file, case.line)
    view = case_view(case)
    for finding in findings(case) if view is None else view.findings:
        yield ""
        yield finding.summary
        yield from (f"  {line}" for line in finding.lines)
        if finding.log:
            yield shorten(finding.log, _LONGEST_SIDE * 2)
    for turn in view.turns if view is not None else ():
        yield ""
        yield view.title(turn) if view is not None else ""
        yield from _turn(turn)
    if view is not None and view.turns_left_out:
        yield f"and {plural(view.turns_left_out, 'more turn')}"


def _turn(turn: TurnView) -> Iterator[str]:
    """A turn as text: each paragraph after its label, its other lines indented."""
    for row in rows(turn, text=_LONGEST_SIDE):
        first, *others = visible(row.text).strip("\n").split("\n")
        yield f"  {LABELS[row.kind]:<8} {first}"
        yield from (f"           {line}" for line in others)
