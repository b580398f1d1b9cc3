"""A run as OpenTelemetry traces, with its scores as log records, in OTLP's JSON encoding.

Names follow OpenTelemetry's semantic conventions for generative AI, version control and CI/CD. Ids are hex, 64-bit
integers are strings (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_eval_results import RunReport
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, answered
from agent_eval_scoring.core.text import carriable
from agent_eval_scoring.criteria import token_usage
from agent_eval_workbench.exports.runs import ExportedRun, StoredRun, Turn, TurnScore, runs_of, turn_scores

Json = dict[str, Any]
ScoreSignal = Literal["logs", "events", "none"]
"""Scores as log records, as events of the evaluated spans (for services without logs), or left out."""

_SPANS_PER_BATCH = 500
_BYTES_PER_BATCH = 2_000_000
"""Collectors accept 4 MB or more per request; one run is never split."""
_INTERNAL_SPAN, _ERROR_STATUS, _INFO_SEVERITY = 1, 2, 9
"""Enumerations of OTLP: SPAN_KIND_INTERNAL, STATUS_CODE_ERROR, SEVERITY_NUMBER_INFO."""
_EVALUATION = "gen_ai.evaluation.result"
_LABELS = {"passed": "pass", "failed": "fail"}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The bodies of two requests: ExportTraceServiceRequest and ExportLogsServiceRequest."""

    traces: Json
    logs: Json | None
    """None without log records."""
    spans: int
    log_records: int


def otlp_batches(
    stored: StoredRun, *, content: bool = True, scores: ScoreSignal = "logs", service: str = "agent-eval"
) -> Iterator[Batch]:
    """One trace per run of a case: the case, its turns, their tool calls.

    Args:
        stored: The run.
        content: Whether to include texts: messages, arguments and results of tools, explanations, error messages.
        scores: Where the scores go.
        service: The resource's `service.name`.
    """
    resource, version = _resource(stored.report, service), stored.report.tool_version
    all_spans: list[Json] = []
    all_logs: list[Json] = []
    bytes_in_batch = 0
    for run in runs_of(stored):
        trace = _Trace(run, stored.report, content=content)
        spans, logs = trace.spans(), []
        if scores == "logs":
            logs = [trace.log_record(score) for score in turn_scores(run)]
        elif scores == "events":
            trace.add_events(spans)
        size = len(json.dumps([spans, logs]))
        full = bytes_in_batch + size > _BYTES_PER_BATCH or len(all_spans) + len(spans) > _SPANS_PER_BATCH
        if all_spans and full:
            yield _batch(all_spans, all_logs, resource, version)
            all_spans, all_logs, bytes_in_batch = [], [], 0
        all_spans += spans
        all_logs += logs
        bytes_in_batch += size
    if all_spans:
        yield _batch(all_spans, all_logs, resource, version)


def otlp_lines(batches: Iterator[Batch]) -> Iterator[str]:
    """The batches as JSON Lines, which the collector's `otlpjsonfile` receiver reads."""
    for batch in batches:
        for body in (batch.traces, batch.logs):
            if body is not None:
                yield json.dumps(body, ensure_ascii=False) + "\n"


def _batch(spans: list[Json], logs: list[Json], resource: Json, version: str) -> Batch:
    """The spans and log records in their resource and scope."""
    scope = {"name": "agent-eval", "version": version}
    scoped_spans = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}
    scoped_logs = {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": logs}]}
    return Batch(
        traces={"resourceSpans": [scoped_spans]},
        logs={"resourceLogs": [scoped_logs]} if logs else None,
        spans=len(spans),
        log_records=len(logs),
    )


class _Trace:
    """The spans and scores of one run."""

    def __init__(self, run: ExportedRun, report: RunReport, *, content: bool) -> None:
        origin = report.origin
        started = run.result.started_at if run.result.started_at is not None else report.started_at
        # The start makes the runs of two jobs for one commit two traces. A second export has the same ids.
        identity = [
            origin.repository if origin is not None else "",
            origin.commit if origin is not None else "",
            run.case.case_id,
            run.side,
            run.result.run,
            started,
        ]
        self._trace_id = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
        self._run = run
        self._content = content
        self._start = started
        self._end = started + run.result.duration
        self._agent = next((file.agent for file in report.files if file.file == run.case.file), "")
        self._verdict = report.verdict

    def _span_id(self, *path: object) -> str:
        return hashlib.sha256(json.dumps([self._trace_id, *path]).encode()).hexdigest()[:16]

    def spans(self) -> list[Json]:
        """The root span, then each turn with its tool calls."""
        spans = [self._root()]
        earliest = self._start
        for turn in self._run.turns:
            start, end = _times(turn.actual, earliest)
            # A turn that was not measured begins where the one before has ended, so that the order is right.
            earliest = end
            spans.append(self._turn(turn, start, end))
            if turn.actual is not None:
                spans += self._tools(turn.number, turn.actual, start, end)
        # A recording that is scored again has the turns of the earlier run.
        spans[0]["startTimeUnixNano"] = min((span["startTimeUnixNano"] for span in spans), key=int)
        spans[0]["endTimeUnixNano"] = max((span["endTimeUnixNano"] for span in spans), key=int)
        return spans

    def _root(self) -> Json:
        run, error = self._run, self._run.result.error
        attributes: dict[str, object] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": run.case.case_id,
            "gen_ai.conversation.id": run.result.run_id,
            "gen_ai.agent.name": self._agent or None,
            "agent_eval.case.id": run.case.case_id,
            "agent_eval.case.status": run.case.status,
            "agent_eval.run": run.result.run + 1,
            "agent_eval.run.status": run.result.status,
            "agent_eval.run.replayed": run.result.replayed or None,
            "agent_eval.side": run.side,
            "agent_eval.verdict": self._verdict,
            "error.type": error.kind if error is not None else None,
        }
        if self._content and run.turns:  # What lists of traces show.
            said = [text for turn in run.turns if (text := _texts(turn)[0]) is not None]
            attributes["gen_ai.input.messages"] = _messages("user", said)
            attributes["gen_ai.output.messages"] = _messages("assistant", [_texts(run.turns[-1])[1]], "stop")
        span = self._span("invoke_workflow", run.case.case_id, self._span_id(), attributes, self._start, self._end)
        if error is not None:
            span["status"] = {"code": _ERROR_STATUS}
            if self._content:
                span["status"]["message"] = carriable(error.message)
        return span

    def _turn(self, turn: Turn, start: float, end: float) -> Json:
        attributes: dict[str, object] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": self._run.result.run_id,
            "gen_ai.agent.name": self._agent or None,
            "agent_eval.turn": turn.number + 1,
        }
        # Tokens of a replay were paid when it was recorded: services would add them up as cost.
        if turn.actual is not None and not self._run.result.replayed:
            tokens = token_usage(turn.actual)
            attributes["gen_ai.usage.input_tokens"] = _whole(tokens.get("input_tokens"))
            attributes["gen_ai.usage.output_tokens"] = _whole(tokens.get("output_tokens"))
        if self._content:
            user, answer = _texts(turn)
            attributes["gen_ai.input.messages"] = _messages("user", [user])
            attributes["gen_ai.output.messages"] = _messages("assistant", [answer], "stop")
        span_id = self._span_id("turn", turn.number)
        return self._span("invoke_agent", self._agent, span_id, attributes, start, end, parent=self._span_id())

    def _tools(self, number: int, actual: Invocation, start: float, end: float) -> Iterator[Json]:
        """The tool calls. Those that were not measured get the times of the turn."""
        measured = {span.call_id: (start + span.start, start + span.end) for span in actual.spans or () if span.call_id}
        for index, (call, response) in enumerate(answered(actual.intermediate_data)):
            attributes: dict[str, object] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name or "",
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call.id,
            }
            if self._content:
                attributes["gen_ai.tool.call.arguments"] = json.dumps(call.args or {}, ensure_ascii=False)
                if response is not None:
                    attributes["gen_ai.tool.call.result"] = json.dumps(response.response, ensure_ascii=False)
            span_id = self._span_id("turn", number, "tool", index)
            parent = self._span_id("turn", number)
            times = measured.get(call.id or "", (start, end))
            yield self._span("execute_tool", call.name or "", span_id, attributes, *times, parent=parent)

    def _span(
        self,
        operation: str,
        name: str,
        span_id: str,
        attributes: Mapping[str, object],
        start: float,
        end: float,
        parent: str = "",
    ) -> Json:
        return {
            "traceId": self._trace_id,
            "spanId": span_id,
            **({"parentSpanId": parent} if parent else {}),
            "name": carriable(f"{operation} {name}".strip()),
            "kind": _INTERNAL_SPAN,
            "startTimeUnixNano": _nanoseconds(start),
            "endTimeUnixNano": _nanoseconds(max(end, start)),
            "attributes": _attributes(attributes),
        }

    def log_record(self, score: TurnScore) -> Json:
        """A score as a log record of the evaluated span: the turn's, or the case's."""
        # Scores are made after the run, and no time of theirs is stored.
        time = _nanoseconds(self._end)
        return {
            "timeUnixNano": time,
            "observedTimeUnixNano": time,
            "severityNumber": _INFO_SEVERITY,
            "eventName": _EVALUATION,
            "traceId": self._trace_id,
            "spanId": self._evaluated(score),
            "attributes": _attributes(self._score_attributes(score)),
        }

    def add_events(self, spans: Sequence[Json]) -> None:
        """Adds the scores to the evaluated spans as events."""
        by_id = {span["spanId"]: span for span in spans}
        for score in turn_scores(self._run):
            span = by_id[self._evaluated(score)]
            span.setdefault("events", []).append(
                {
                    "timeUnixNano": span["endTimeUnixNano"],
                    "name": _EVALUATION,
                    "attributes": _attributes(self._score_attributes(score)),
                }
            )

    def _evaluated(self, score: TurnScore) -> str:
        turns = {turn.number for turn in self._run.turns}
        return self._span_id("turn", score.turn) if score.turn in turns else self._span_id()

    def _score_attributes(self, score: TurnScore) -> dict[str, object]:
        reason, failure = score.run_score.reason, score.run_score.error
        missing = score.score is None
        return {
            "gen_ai.evaluation.name": score.metric.name,
            "gen_ai.evaluation.score.value": None if missing else float(score.score or 0.0),
            # Only pass and fail: what has no score has `error.type`, as the conventions say.
            "gen_ai.evaluation.score.label": _LABELS.get(score.status),
            "gen_ai.evaluation.explanation": score.explanation or None if self._content else None,
            "error.type": (failure.kind if failure else reason.code if reason else "no-score") if missing else None,
            "agent_eval.case.id": self._run.case.case_id,
            "agent_eval.run": self._run.result.run + 1,
            "agent_eval.turn": None if score.turn is None else score.turn + 1,
            "agent_eval.side": self._run.side,
            "agent_eval.threshold": score.metric.threshold,
            "agent_eval.status": score.status,
            "agent_eval.judge": score.metric.judge,
        }


def _resource(report: RunReport, service: str) -> Json:
    origin = report.origin
    owner, _, name = origin.repository.rpartition("/") if origin is not None else ("", "", "")
    attributes: dict[str, object] = {
        "service.name": service,
        "vcs.owner.name": owner or None,
        "vcs.repository.name": name or None,
        "vcs.ref.head.revision": (origin.commit or None) if origin is not None else None,
        "vcs.ref.head.name": (origin.ref or None) if origin is not None else None,
        "vcs.change.id": str(origin.pull_request) if origin is not None and origin.pull_request is not None else None,
        "cicd.pipeline.run.id": str(origin.run_id) if origin is not None and origin.run_id is not None else None,
        "cicd.pipeline.run.url.full": origin.run_url if origin is not None else None,
    }
    return {"attributes": _attributes(attributes)}


def _attributes(values: Mapping[str, object]) -> list[Json]:
    """The attributes that have a value."""
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value is not None]


def _any_value(value: object) -> Json:
    # Before int, of which bool is a subclass.
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    # Half a surrogate pair can't be sent as UTF-8, and agents say such texts.
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": carriable(str(value))}


def _nanoseconds(seconds: float) -> str:
    # To microseconds: a float has no more digits of a Unix time.
    return f"{max(round(seconds * 1e6), 0)}000"


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _times(actual: Invocation | None, earliest: float) -> tuple[float, float]:
    """Start and end of a turn, in Unix seconds; from the end of the turn before if nothing was recorded."""
    start = (actual.creation_timestamp if actual is not None else 0.0) or earliest
    return start, start + ((actual.duration if actual is not None else None) or 0.0)


def _texts(turn: Turn) -> tuple[str | None, str | None]:
    if turn.actual is not None:
        return text_of(turn.actual.user_content), text_of(turn.actual.final_response)
    return (turn.excerpt.user, turn.excerpt.answer) if turn.excerpt is not None else (None, None)


def _messages(role: str, texts: Sequence[str | None], finish_reason: str | None = None) -> str | None:
    """A message of each text; None without any."""
    more = {} if finish_reason is None else {"finish_reason": finish_reason}
    said = [{"role": role, "parts": [{"type": "text", "content": text}], **more} for text in texts if text is not None]
    return json.dumps(said, ensure_ascii=False) if said else None
