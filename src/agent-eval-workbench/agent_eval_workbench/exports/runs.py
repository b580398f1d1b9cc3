"""The runs of a report, with what is known of their turns; a row for each turn and metric, as CSV or JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_eval_results import (
    CaseReport,
    MetricReport,
    Recording,
    RunReport,
    RunResult,
    RunScore,
    TurnReport,
    Usage,
    reaches,
)
from agent_eval_scoring.core.content import FunctionCall, text_of
from agent_eval_scoring.core.invocation import Invocation, tool_calls
from agent_eval_scoring.core.text import carriable
from agent_eval_scoring.criteria import token_usage
from agent_eval_scoring.evalset.models import EvalCase

Side = Literal["head", "base"]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run's results with the files beside them. Only the report is required."""

    report: RunReport
    recording_of: Callable[[str], Recording | None] = lambda run_id: None
    """The recording of a run id; None if there is none."""
    cases: Mapping[str, EvalCase] = field(default_factory=dict)
    """The eval cases by case id, as far as they have not changed since the run."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn of a run, from the recording or from the excerpt in results.json."""

    number: int
    """0-based."""
    actual: Invocation | None = None
    """None without a recording."""
    expected: Invocation | None = None
    """None for a scenario, or if the eval file has changed since."""
    excerpt: TurnReport | None = None
    """Only without a recording."""


@dataclass(frozen=True, kw_only=True)
class ExportedRun:
    """One run of one case."""

    case: CaseReport
    result: RunResult
    side: Side
    """`base`: a run of the base branch's agent that was made for the comparison."""
    recording: Recording | None
    turns: list[Turn]
    """Empty if nothing is known of the conversation."""

    def scores(self) -> Iterator[tuple[MetricReport, RunScore]]:
        """The scores of this run, in the order of the metrics."""
        for metric in self.case.metrics:
            for score in metric.runs:
                if score.run == self.result.run:
                    yield metric, score


def runs_of(stored: StoredRun) -> Iterator[ExportedRun]:
    """All runs of a report in its order: the cases, the extra runs of the comparison, then the base branch's."""
    sides: tuple[tuple[Side, list[CaseReport]], ...] = (
        ("head", [*stored.report.cases, *stored.report.confirmations]),
        ("base", stored.report.base_runs),
    )
    for side, cases in sides:
        for case in cases:
            for result in case.runs:
                # Recordings of the base branch's agent are not stored; a head run may have the same id.
                recording = stored.recording_of(result.run_id) if side == "head" else None
                turns = list(_turns(case, result, recording, stored.cases.get(case.case_id)))
                yield ExportedRun(case=case, result=result, side=side, recording=recording, turns=turns)


def _turns(
    case: CaseReport, result: RunResult, recording: Recording | None, eval_case: EvalCase | None
) -> Iterator[Turn]:
    expected = (eval_case.conversation if eval_case is not None else None) or []
    expectations = dict(enumerate(expected))
    if recording is not None:
        for number, actual in enumerate(recording.invocations):
            yield Turn(number=number, actual=actual, expected=expectations.get(number))
        return
    excerpts = {}
    if case.conversation is not None and case.conversation.run == result.run:
        excerpts = {turn.turn: turn for turn in case.conversation.turns}
    for number in range(result.turns):
        yield Turn(number=number, expected=expectations.get(number), excerpt=excerpts.get(number))


@dataclass(frozen=True, kw_only=True)
class TurnScore:
    """The score of a metric for one turn, or for the whole conversation."""

    metric: MetricReport
    run_score: RunScore
    turn: int | None
    """None: the metric scores the conversation as a whole, or was not evaluated."""
    score: float | None
    status: Literal["passed", "failed", "not_evaluated", "informational"]
    explanation: str
    """Why the score is low or missing, one reason per line; "" otherwise."""


def turn_scores(run: ExportedRun) -> Iterator[TurnScore]:
    """The scores of a run, turn by turn where the metric has a score for each turn."""
    for metric, score in run.scores():
        evidence = {item.turn: "\n".join(line.message for line in item.why) for item in score.evidence}
        reason = score.reason.message if score.reason is not None else ""
        by_turn: list[float | None] = score.turn_scores
        if not by_turn and run.result.turns == 1:
            by_turn = [score.score]
        if score.lacks_result or not by_turn:
            text = reason or "\n".join(f"turn {turn + 1}: {why}" for turn, why in evidence.items() if why)
            yield TurnScore(
                metric=metric, run_score=score, turn=None, score=score.score, status=score.status, explanation=text
            )
            continue
        single = len(by_turn) == 1
        for turn, value in enumerate(by_turn):
            yield TurnScore(
                metric=metric,
                run_score=score,
                turn=turn,
                score=value,
                # The decision of a custom metric is its own.
                status=score.status if single else _status(value, metric),
                explanation=evidence.get(turn, "") or (reason if single else ""),
            )


def _status(score: float | None, metric: MetricReport) -> Literal["passed", "failed", "not_evaluated", "informational"]:
    if metric.threshold is None:
        return "informational"
    if score is None:
        return "not_evaluated"
    return "passed" if reaches(score, metric) else "failed"


Value = str | float | int | None
Row = Mapping[str, Value]

COLUMNS = (
    "eval_set_id",
    "eval_id",
    "metric_name",
    "threshold",
    "score",
    "eval_status",
    "prompt",
    "expected_response",
    "actual_response",
    "expected_tool_calls",
    "actual_tool_calls",
    "case_id",
    "side",
    "run",
    "turn",
    "run_score",
    "run_status",
    "reason",
    "seconds",
    "tokens",
)
"""The first eleven are those of `AgentEvaluator.evaluate(output_file=...)` of google-adk 2.13.0."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell that begins with one of these is a formula to a spreadsheet
(https://owasp.org/www-community/attacks/CSV_Injection)."""


def rows(stored: StoredRun) -> Iterator[Row]:
    """The rows of a report. A run without any score has one row, whose `reason` says why."""
    for run in runs_of(stored):
        turns = {turn.number: _turn_cells(turn, replayed=run.result.replayed) for turn in run.turns}
        scores = list(turn_scores(run))
        for score in scores:
            yield {**_ids(run), **_score_cells(score), **turns.get(-1 if score.turn is None else score.turn, {})}
        if not scores:
            error = run.result.error
            reason = f"{error.kind}: {error.message}" if error is not None else ""
            yield {**_ids(run), "eval_status": "NOT_EVALUATED", "run_status": run.result.status, "reason": reason}


def _ids(run: ExportedRun) -> dict[str, Value]:
    return {
        "eval_set_id": run.case.eval_set_id,
        "eval_id": run.case.eval_id,
        "case_id": run.case.case_id,
        "side": run.side,
        "run": run.result.run + 1,
        "seconds": run.result.duration,
        "tokens": _tokens(run.result.usage),
    }


def _tokens(usage: Usage) -> int | None:
    counts = [count for count in (usage.input_tokens, usage.output_tokens) if count is not None]
    return sum(counts) if counts else None


def _score_cells(score: TurnScore) -> dict[str, Value]:
    return {
        "metric_name": score.metric.name,
        "threshold": score.metric.threshold,
        "score": score.score,
        "eval_status": score.status.upper(),
        "turn": None if score.turn is None else score.turn + 1,
        "run_score": score.run_score.score,
        "run_status": score.run_score.status,
        "reason": score.explanation,
    }


def _turn_cells(turn: Turn, *, replayed: bool) -> dict[str, Value]:
    cells: dict[str, Value] = {"seconds": None, "tokens": None}
    if turn.expected is not None:
        cells["prompt"] = text_of(turn.expected.user_content)
        cells["expected_response"] = text_of(turn.expected.final_response)
        cells["expected_tool_calls"] = _calls(tool_calls(turn.expected.intermediate_data))
    if turn.actual is not None:
        cells["prompt"] = text_of(turn.actual.user_content)
        cells["actual_response"] = text_of(turn.actual.final_response)
        cells["actual_tool_calls"] = _calls(tool_calls(turn.actual.intermediate_data))
        cells["seconds"] = turn.actual.duration
        cells["tokens"] = None if replayed else token_usage(turn.actual).get("total_tokens")
    elif turn.excerpt is not None:
        cells["prompt"] = turn.excerpt.user
        cells["actual_response"] = turn.excerpt.answer
        cells["actual_tool_calls"] = "\n".join(step.call for step in turn.excerpt.calls)
    return cells


def _calls(calls: list[FunctionCall]) -> str:
    """One call per line, as JSON."""
    return "\n".join(json.dumps({"name": call.name, "args": call.args or {}}, ensure_ascii=False) for call in calls)


def csv_lines(stored: StoredRun) -> Iterator[str]:
    """The rows as CSV (RFC 4180, lines end with a line feed), with a header.

    A text that a spreadsheet would take for a formula gets a quote before it.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows(stored):
        yield _taken(buffer)
        writer.writerow([_cell(row.get(column)) for column in COLUMNS])
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    # A row at a time: exports of 10,000 cases need no memory for all of them.
    buffer.truncate()
    return text


def _cell(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    text = carriable(value)
    # An agent's answer `=HYPERLINK(...)` would run in the reader's spreadsheet (OWASP: CSV injection).
    return f"'{text}" if text.startswith(_FORMULA) else text


def json_lines(stored: StoredRun) -> Iterator[str]:
    """The rows as JSON Lines: an object per row with every column; null where there is no value."""
    for row in rows(stored):
        # Every column in every row: readers take the columns from the first one.
        values = {column: row.get(column) for column in COLUMNS}
        safe = {name: carriable(value) if isinstance(value, str) else value for name, value in values.items()}
        yield json.dumps(safe, ensure_ascii=False) + "\n"
