"""Exports to OpenTelemetry, read by OpenTelemetry's own parser."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from export_samples import CRASH, LIGHTS, STARTED, stored
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from report_samples import SAMPLES

from agent_eval.results import ToolUse
from agent_eval_workbench.exports.otlp import ScoreSignal, otlp_batches, otlp_lines
from agent_eval_workbench.exports.runs import StoredRun

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


def test_otlp_batches__a_replayed_run_used_no_tokens() -> None:
    run = stored()
    run.report.cases[0].runs[0].tools = ToolUse(mode="all", model_calls=2)
    traces, _ = exported(run)
    root, first, *_ = (plain(span.attributes) for span in spans_of(traces))
    assert root["agent_eval.run.replayed"] is True
    assert not [name for name in first if name.startswith("gen_ai.usage.")]


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


def test_otlp_batches__any_report_is_accepted() -> None:
    for name, sample in SAMPLES.items():
        report = sample()
        batches = list(otlp_batches(StoredRun(report=report)))
        runs = [run for case in [*report.cases, *report.confirmations, *report.base_runs] for run in case.runs]
        assert bool(batches) is bool(runs), name
        for batch in batches:
            ParseDict(_bytes_as_base64(batch.traces), ExportTraceServiceRequest())
            ParseDict(_bytes_as_base64(batch.logs or {}), ExportLogsServiceRequest())
            json.dumps(batch.traces, allow_nan=False, ensure_ascii=False).encode()
