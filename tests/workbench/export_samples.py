"""A run to export: a case of two turns that fails, one that the agent did not survive, and a run of the base branch."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import recording_samples
from remark_samples import notes
from report_samples import case, metric

from agent_eval_results import MetricReport, Origin, Reason, RunError, RunReport, TurnEvidence, Usage
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_workbench.exports.runs import StoredRun

LIGHTS = "evals/home.test.json:lights"
CRASH = "evals/home.test.json:crash"
STARTED = 1_790_000_000.25


def turn(user: str, answer: str, calls: list[dict[str, object]], *, duration: float | None = None) -> Invocation:
    """An invocation in the form that hosts record: events in order."""
    parts: list[dict[str, object]] = [{"function_call": call} for call in calls]
    replies = [
        {"function_response": {"id": call.get("id"), "name": call["name"], "response": {"status": "ok"}}}
        for call in calls
    ]
    usage = {"prompt_token_count": 30, "candidates_token_count": 12}
    events = [
        {"author": "home", "content": {"role": "model", "parts": parts}, "usage_metadata": usage},
        {"author": "home", "content": {"role": "user", "parts": replies}},
    ]
    return Invocation.model_validate(
        {
            "invocation_id": f"e-{user}",
            "user_content": {"role": "user", "parts": [{"text": user}]},
            "final_response": {"role": "model", "parts": [{"text": answer}]},
            "intermediate_data": {"invocation_events": events if calls else []},
            "creation_timestamp": STARTED if duration is not None else 0.0,
            "duration": duration,
        }
    )


def _scored(name: str, score: float | None, *, threshold: float | None = 0.8, **fields: object) -> MetricReport:
    scored = metric(name, score, threshold=threshold)
    scored.runs[0] = scored.runs[0].model_copy(update=fields)
    return scored


def stored() -> StoredRun:
    """The run with its recordings and eval cases."""
    on: dict[str, object] = {"id": "c-1", "name": "set", "args": {"device": "lamp", "on": True}}
    off: dict[str, object] = {"name": "set", "args": {"device": "lamp", "on": False}}
    recorded = [
        turn("Lamp on", "=cmd|'/C calc'!A0", [on], duration=1.5),
        turn("Thanks", "You're welcome", [], duration=0.5),
    ]
    file, _ = LIGHTS.split(":")
    recording = recording_samples.recording(
        "lights", *recorded, file=file, eval_set_id="home", started_at=STARTED, duration=2.5
    )
    unjudged = Reason(code="judge-unavailable", message="The judge did not answer")
    missing = [TurnEvidence(turn=0, score=0.0, why=notes("missing: lamp"))]
    lights = case(
        "lights",
        "failed",
        _scored("response_match_score", 0.5, turn_scores=[0.0, 1.0], evidence=missing),
        _scored("per_turn_user_simulator_quality_v1", 1.0),
        _scored("final_response_match_v2", None, reason=unjudged),
        _scored("token_usage_v1", 21.0, threshold=None, turn_scores=[42.0, None]),
        file=file,
        duration=2.5,
    )
    error = RunError(kind="agent-crash", owner="agent", message="The process ended with SIGKILL")
    crash = case("crash", "errored", file=file, errors={0: error}, duration=0.25)
    base = case("lights", "passed", _scored("response_match_score", 1.0), file=file, duration=2.0)
    lights.runs[0].started_at = crash.runs[0].started_at = STARTED
    lights.runs[0].usage = Usage(model_calls=1, input_tokens=30, output_tokens=12)
    for each, turns in ((crash, 0), (base, 1)):
        each.runs[0] = each.runs[0].model_copy(update={"usage": Usage(), "turns": turns})
    base.runs[0].started_at = None
    report = RunReport(
        tool_version="1.0.0",
        verdict="failed",
        started_at=STARTED,
        duration=3.0,
        num_runs=1,
        min_pass_rate=1.0,
        origin=Origin(repository="acme/home", commit="c" * 40, ref="refs/heads/dim", run_id=77, pull_request=5),
        cases=[lights, crash],
        base_runs=[base],
    )
    conversation = [turn("Lamp on", "The lamp is on.", [off]), turn("Thanks", "-", [])]
    expected = EvalCase(eval_id="lights", conversation=conversation)
    return StoredRun(report=report, recording_of={f"{LIGHTS}#1": recording}.get, cases={LIGHTS: expected})


def bytes_as_base64(value: Any) -> Any:
    """OTLP writes ids in hex, where protobuf's JSON has base64. Everything else is the same."""
    if isinstance(value, dict):
        return {
            key: b64encode(bytes.fromhex(item)).decode()
            if key in {"traceId", "spanId", "parentSpanId"}
            else bytes_as_base64(item)
            for key, item in value.items()
        }
    return [bytes_as_base64(item) for item in value] if isinstance(value, list) else value
