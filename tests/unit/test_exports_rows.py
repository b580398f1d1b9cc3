"""Exports as rows: what is in which cell, and what a spreadsheet must not execute."""

from __future__ import annotations

import csv
import io
import json

import pytest
from export_samples import CRASH, LIGHTS, stored
from report_samples import SAMPLES

from agent_eval.results import ToolUse, Usage
from agent_eval_workbench.exports.runs import COLUMNS, StoredRun, _cell, csv_lines, json_lines, rows


def test_rows__a_row_per_run_turn_and_metric() -> None:
    listed = [
        (row["case_id"], row["side"], row["run"], row.get("metric_name"), row.get("turn"), row.get("score"))
        for row in rows(stored())
    ]

    assert listed == [
        (LIGHTS, "head", 1, "response_match_score", 1, 0.0),
        (LIGHTS, "head", 1, "response_match_score", 2, 1.0),
        (LIGHTS, "head", 1, "per_turn_user_simulator_quality_v1", None, 1.0),
        (LIGHTS, "head", 1, "final_response_match_v2", None, None),
        (LIGHTS, "head", 1, "token_usage_v1", 1, 42.0),
        (LIGHTS, "head", 1, "token_usage_v1", 2, None),
        (CRASH, "head", 1, None, None, None),
        (LIGHTS, "base", 1, "response_match_score", 1, 1.0),
    ]


def test_rows__a_replayed_run_used_no_tokens() -> None:
    run = stored()
    run.report.cases[0].runs[0].tools = ToolUse(mode="all", model_calls=2)
    run.report.cases[0].runs[0].usage = Usage()
    assert [row["tokens"] for row in rows(run) if row["side"] == "head"] == [None] * 7


def test_rows__a_turn_has_messages_and_calls() -> None:
    first, second, whole, missing, *_, crash, base = rows(stored())

    assert {name: first[name] for name in COLUMNS} == {
        "eval_set_id": "home",
        "eval_id": "lights",
        "metric_name": "response_match_score",
        "threshold": 0.8,
        "score": 0.0,
        "eval_status": "FAILED",
        "prompt": "Lamp on",
        "expected_response": "The lamp is on.",
        "actual_response": "=cmd|'/C calc'!A0",
        "expected_tool_calls": '{"name": "set", "args": {"device": "lamp", "on": false}}',
        "actual_tool_calls": '{"name": "set", "args": {"device": "lamp", "on": true}}',
        "case_id": LIGHTS,
        "side": "head",
        "run": 1,
        "turn": 1,
        "run_score": 0.5,
        "run_status": "failed",
        "reason": "missing: lamp",
        "seconds": 1.5,
        "tokens": 42,
    }
    assert (second["eval_status"], second["run_status"], second["tokens"]) == ("PASSED", "failed", None)
    assert (whole["seconds"], whole["tokens"], whole.get("prompt")) == (2.5, 42, None)
    assert (missing["eval_status"], missing["reason"]) == ("NOT_EVALUATED", "The judge did not answer")
    assert (crash["eval_status"], crash["run_status"]) == ("NOT_EVALUATED", "errored")
    assert crash["reason"] == "agent-crash: The process ended with SIGKILL"
    # The head's recording has the same run id. It is not what the base branch's agent answered.
    assert (base["side"], base.get("actual_response"), base["seconds"]) == ("base", None, None)


def test_csv_lines__is_read_back_and_has_no_formulas() -> None:
    text = "".join(csv_lines(stored()))
    table = list(csv.DictReader(io.StringIO(text)))

    assert tuple(table[0]) == COLUMNS
    assert [row["score"] for row in table] == ["0.0", "1.0", "1.0", "", "42.0", "", "", "1.0"]
    assert table[0]["actual_response"] == "'=cmd|'/C calc'!A0"
    assert table[1]["expected_response"] == "'-"
    assert not [cell for row in table for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("first", ["\n=1+1", "＝1+1", "＋1", "－1", "＠SUM(A1)"])
def test_csv_lines__other_ways_to_begin_a_formula(first: str) -> None:
    """Spreadsheets skip a line feed, and some convert full-width characters."""
    assert _cell(first) == f"'{first}"


def test_json_lines__every_line_has_every_column() -> None:
    lines = [json.loads(line) for line in json_lines(stored())]

    assert [tuple(line) for line in lines] == [COLUMNS] * 8
    assert lines[0]["actual_response"] == "=cmd|'/C calc'!A0"  # Only spreadsheets have formulas.


def test_rows__any_report_is_exported() -> None:
    for name, sample in SAMPLES.items():
        report = sample()
        exported = list(rows(StoredRun(report=report)))
        assert {row["case_id"] for row in exported} == {case.case_id for case in report.cases if case.runs}, name
        assert "".join(csv_lines(StoredRun(report=report))).encode()
        assert all(json.loads(line) for line in json_lines(StoredRun(report=report)))
