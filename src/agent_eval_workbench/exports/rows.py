"""One row for each case, run, turn and metric, as CSV or JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping

from agent_eval.core.content import FunctionCall, text_of
from agent_eval.core.invocation import tool_calls
from agent_eval.core.text import carriable
from agent_eval.criteria import token_usage
from agent_eval.results import Usage
from agent_eval_workbench.exports.runs import ExportedRun, StoredRun, Turn, TurnScore, runs_of, turn_scores

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
        turns = {turn.number: _turn_cells(turn) for turn in run.turns}
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


def _turn_cells(turn: Turn) -> dict[str, Value]:
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
        cells["tokens"] = token_usage(turn.actual).get("total_tokens")
    elif turn.excerpt is not None:
        cells["prompt"] = turn.excerpt.user
        cells["actual_response"] = turn.excerpt.answer
        cells["actual_tool_calls"] = "\n".join(step.call for step in turn.excerpt.steps if step.call)
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
    buffer.truncate()
    return text


def _cell(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    text = carriable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def json_lines(stored: StoredRun) -> Iterator[str]:
    """The rows as JSON Lines: an object per row with every column; null where there is no value."""
    for row in rows(stored):
        yield json.dumps({column: _text(row.get(column)) for column in COLUMNS}, ensure_ascii=False) + "\n"


def _text(value: Value) -> Value:
    return carriable(value) if isinstance(value, str) else value
