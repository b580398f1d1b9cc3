"""The results as rows and as OTLP, and the command."""

from __future__ import annotations

import csv
import gzip
import io
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from export_samples import CRASH, LIGHTS, STARTED, stored
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from report_samples import SAMPLES

from agent_eval.cli import main
from agent_eval.core.invocation import Span
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results import ToolUse, Usage
from agent_eval_workbench.exports.otlp import ScoreSignal, otlp_batches, otlp_lines
from agent_eval_workbench.exports.runs import COLUMNS, StoredRun, _cell, csv_lines, json_lines, rows

# Exports as rows: what is in which cell, and what a spreadsheet must not execute.


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


# Exports to OpenTelemetry, read by OpenTelemetry's own parser.

SECONDS = 1_000_000_000


def exported(
    run: StoredRun, *, content: bool = True, scores: ScoreSignal = "logs"
) -> tuple[ExportTraceServiceRequest, ExportLogsServiceRequest]:
    """The only batch as messages of opentelemetry-proto, which refuses unknown fields."""
    [batch] = otlp_batches(run, content=content, scores=scores)
    logs = ExportLogsServiceRequest()
    if batch.logs is not None:
        ParseDict(_bytes_as_base64(batch.logs), logs)
    return ParseDict(_bytes_as_base64(batch.traces), ExportTraceServiceRequest()), logs


def _bytes_as_base64(value: Any) -> Any:
    """OTLP writes ids in hex, where protobuf's JSON has base64. Everything else is the same."""
    if isinstance(value, dict):
        return {
            key: b64encode(bytes.fromhex(item)).decode()
            if key in {"traceId", "spanId", "parentSpanId"}
            else _bytes_as_base64(item)
            for key, item in value.items()
        }
    return [_bytes_as_base64(item) for item in value] if isinstance(value, list) else value


def spans_of(traces: ExportTraceServiceRequest) -> Sequence[Any]:
    [resource] = traces.resource_spans
    return list(resource.scope_spans[0].spans)


def plain(attributes: Any) -> dict[str, object]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


def test_otlp_batches__a_trace_per_run_with_turns_and_tools() -> None:
    traces, _ = exported(stored())
    spans = spans_of(traces)

    assert [(span.name, span.parent_span_id != b"") for span in spans] == [
        (f"invoke_workflow {LIGHTS}", False),
        ("invoke_agent", True),
        ("execute_tool set", True),
        ("invoke_agent", True),
        (f"invoke_workflow {CRASH}", False),
        (f"invoke_workflow {LIGHTS}", False),
        ("invoke_agent", True),
    ]
    root, first, tool, second, crash, base, _ = spans
    assert len({span.trace_id for span in spans}) == 3
    assert len({span.span_id for span in spans}) == 7
    assert {len(root.trace_id), len(root.span_id)} == {16, 8}
    assert (first.parent_span_id, tool.parent_span_id) == (root.span_id, first.span_id)
    assert root.start_time_unix_nano == 1_790_000_000_250_000_000
    assert root.end_time_unix_nano - root.start_time_unix_nano == 2.5 * SECONDS
    assert second.end_time_unix_nano - second.start_time_unix_nano == 0.5 * SECONDS
    assert plain(root.attributes)["agent_eval.run.status"] == "failed"
    assert plain(base.attributes)["agent_eval.side"] == "base"
    assert (crash.status.code, crash.status.message) == (2, "The process ended with SIGKILL")
    assert plain(crash.attributes)["error.type"] == "agent-crash"
    assert plain(traces.resource_spans[0].resource.attributes) == {
        "service.name": "agent-eval",
        "vcs.owner.name": "acme",
        "vcs.repository.name": "home",
        "vcs.ref.head.revision": "c" * 40,
        "vcs.ref.head.name": "refs/heads/dim",
        "vcs.change.id": "5",
        "cicd.pipeline.run.id": "77",
    }


def test_otlp_batches__a_turn_and_a_tool_have_their_content() -> None:
    traces, _ = exported(stored())
    _, first, tool, *_ = (plain(span.attributes) for span in spans_of(traces))

    assert json.loads(str(first["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "Lamp on"}]}
    ]
    assert json.loads(str(first["gen_ai.output.messages"]))[0]["role"] == "assistant"
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (30, 12)
    assert tool == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "set",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c-1",
        "gen_ai.tool.call.arguments": '{"device": "lamp", "on": true}',
        "gen_ai.tool.call.result": '{"status": "ok"}',
    }


def test_otlp_batches__a_tool_call_has_its_own_times() -> None:
    run = stored()
    recording = run.recording_of(f"{LIGHTS}#1")
    assert recording is not None
    recording.invocations[0].spans = [Span(kind="tool", call_id="c-1", start=0.25, end=0.75)]
    _, first, tool, *_ = spans_of(exported(run)[0])
    assert tool.start_time_unix_nano - first.start_time_unix_nano == 0.25 * SECONDS
    assert tool.end_time_unix_nano - tool.start_time_unix_nano == 0.5 * SECONDS


def test_exports__a_replayed_run_used_no_tokens() -> None:
    run = stored()
    run.report.cases[0].runs[0].tools = ToolUse(mode="all", model_calls=2)
    root, first, *_ = (plain(span.attributes) for span in spans_of(exported(run)[0]))
    assert root["agent_eval.run.replayed"] is True
    assert not [name for name in first if name.startswith("gen_ai.usage.")]
    run.report.cases[0].runs[0].usage = Usage()
    assert [row["tokens"] for row in rows(run) if row["side"] == "head"] == [None] * 7


def test_otlp_batches__scores_are_log_records_of_the_evaluated_span() -> None:
    traces, logs = exported(stored())
    spans = {span.span_id: span.name for span in spans_of(traces)}
    records = logs.resource_logs[0].scope_logs[0].log_records
    assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
    names = [*(f"gen_ai.evaluation.{name}" for name in ("name", "score.value", "score.label")), "error.type"]
    shown = [(spans[record.span_id], *map(plain(record.attributes).get, names)) for record in records]

    workflow = f"invoke_workflow {LIGHTS}"
    assert shown == [
        ("invoke_agent", "response_match_score", 0.0, "fail", None),
        ("invoke_agent", "response_match_score", 1.0, "pass", None),
        (workflow, "per_turn_user_simulator_quality_v1", 1.0, "pass", None),
        (workflow, "final_response_match_v2", None, None, "judge-unavailable"),
        ("invoke_agent", "token_usage_v1", 42.0, None, None),
        ("invoke_agent", "token_usage_v1", None, None, "no-score"),
        ("invoke_agent", "response_match_score", 1.0, "pass", None),
    ]
    assert plain(records[0].attributes)["gen_ai.evaluation.explanation"] == "missing: lamp"


def test_otlp_batches__as_span_events_or_not_at_all() -> None:
    traces, logs = exported(stored(), scores="events")
    assert [event.name for span in spans_of(traces) for event in span.events] == ["gen_ai.evaluation.result"] * 7
    assert not logs.resource_logs

    traces, logs = exported(stored(), scores="none")
    assert not any(span.events for span in spans_of(traces))
    assert not logs.resource_logs


def test_otlp_batches__no_content_leaves_out_every_text() -> None:
    text = "".join(otlp_lines(otlp_batches(stored(), content=False)))

    for written in ("Lamp on", "cmd|", "lamp", "missing", "did not answer", "SIGKILL", '"ok'):
        assert written not in text
    assert "agent-crash" in text


def test_otlp_batches__ids_are_the_same_again_and_differ_for_another_run_of_the_job() -> None:
    again = stored()
    assert [*otlp_lines(otlp_batches(stored()))] == [*otlp_lines(otlp_batches(again))]

    again.report.cases[0].runs[0].started_at = STARTED + 60
    first, second = (spans_of(exported(run)[0]) for run in (stored(), again))
    assert first[0].trace_id != second[0].trace_id
    assert first[4].trace_id == second[4].trace_id


def test_otlp_batches__are_bounded_and_keep_a_run_together() -> None:
    run = stored()
    run.report.cases = [run.report.cases[0]] * 300
    batches = list(otlp_batches(run))

    assert [batch.spans for batch in batches] == [500, 500, 202]
    assert sum(batch.log_records for batch in batches) == 300 * 6 + 1


def test_exports__any_report_is_exported() -> None:
    for name, sample in SAMPLES.items():
        run = StoredRun(report=sample())
        report, batches = run.report, list(otlp_batches(run))
        assert {row["case_id"] for row in rows(run)} == {case.case_id for case in report.cases if case.runs}, name
        assert "".join(csv_lines(run)).encode()
        assert all(json.loads(line) for line in json_lines(run))
        runs = [run for case in [*report.cases, *report.confirmations, *report.base_runs] for run in case.runs]
        assert bool(batches) is bool(runs), name
        for batch in batches:
            ParseDict(_bytes_as_base64(batch.traces), ExportTraceServiceRequest())
            ParseDict(_bytes_as_base64(batch.logs or {}), ExportLogsServiceRequest())
            json.dumps(batch.traces, allow_nan=False, ensure_ascii=False).encode()


# `agent-eval export`: where the documents go, and what the exit code says.


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output directory of a run, below the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    run = stored()
    folder = tmp_path / "agent-eval-results"
    folder.mkdir()
    (folder / "results.json").write_text(results_json(run.report), "utf-8")
    recording = run.recording_of(f"{LIGHTS}#1")
    assert recording is not None
    with gzip.open(folder / "recordings.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(recording.model_dump_json(exclude_none=True) + "\n")
    return folder


def test_export__csv_and_json_lines_to_stdout_or_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["case_id"], first["actual_response"]) == (LIGHTS, "=cmd|'/C calc'!A0")
    assert first["expected_response"] is None, "there is no eval file beside these results"

    Path("rows.csv").write_text("of yesterday", "utf-8")
    assert main(["export", "csv", str(results / "results.json"), "--output", "rows.csv"]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "Wrote rows.csv\n")
    assert Path("rows.csv").read_text("utf-8").startswith("eval_set_id,eval_id,metric_name,")


def test_export__without_recordings_the_report_is_exported_with_a_note(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "recordings.jsonl.gz").unlink()

    assert main(["export", "jsonl"]) == 0

    output = capsys.readouterr()
    assert [json.loads(line)["actual_response"] for line in output.out.splitlines()] == [None] * 8
    assert "there is no recordings.jsonl.gz beside the results" in output.err


def test_export__text_of_an_agent_is_no_command_of_a_runner(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = results / "results.json"
    file.write_text(file.read_text("utf-8").replace("missing: lamp", r"x\n::error::pwned\n##[error]pwned"), "utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    assert main(["export", "csv"]) == 0

    text = capsys.readouterr().out
    assert "pwned" in text
    assert "::error" not in text
    assert "##[" not in text


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("results.json", b"{", "results.json is not used: it is not JSON"),
        ("recordings.jsonl.gz", b"no gzip", "recordings.jsonl.gz can't be read (line 1)"),
        ("recordings.jsonl.gz", gzip.compress(b"[]\n"), "can't be read (line 2): it is not a recording of a run"),
        ("results.json", None, "Run `agent-eval run` first, or name the output directory of a run."),
        ("", None, "out is not a regular file. Name another --output."),
    ],
    ids=["results", "recordings", "recording", "absent", "output"],
)
def test_export__bad_input_ends_with_2(
    file: str, content: bytes | None, message: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (results / file).write_bytes((results / file).read_bytes() + content)
    elif file:
        (results / file).unlink()
    Path("out").mkdir()

    assert main(["export", "csv", "--output", "rows.csv" if file else "out"]) == 2

    output = capsys.readouterr()
    assert message in output.err
    assert (output.out, Path("rows.csv").exists()) == ("", False)


@pytest.mark.parametrize("name", ["results.json", "recordings.jsonl.gz"])
@pytest.mark.parametrize("format_", ["csv", "jsonl", "otlp"])
def test_export__never_replaces_the_files_of_the_run(
    name: str, format_: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (results / name).read_bytes()
    Path("link").symlink_to(results / name)
    for output in (results / name, Path("link")):
        assert main(["export", format_, "--output", str(output)]) == 2
        assert capsys.readouterr().err.endswith("is a file of the run itself. Name another --output.\n")
    assert (results / name).read_bytes() == before


def test_export_otlp__a_url_with_a_password_is_refused_and_not_shown(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in ("http://u:sekret@127.0.0.1:1", "http://:sekret@127.0.0.1:1", "http://sekret@127.0.0.1:1"):
        assert main(["export", "otlp", "--endpoint", url]) == 2
        assert "sekret" not in capsys.readouterr().err
