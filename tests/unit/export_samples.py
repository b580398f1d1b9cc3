"""A run to export: a case of two turns that fails, one that the agent did not survive, and a run of the base branch."""

from __future__ import annotations

import recording_samples
from remark_samples import notes

from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models import EvalCase
from agent_eval.results import (
    CaseReport,
    MetricReport,
    MetricStatus,
    Origin,
    Reason,
    RunError,
    RunReport,
    RunResult,
    RunScore,
    TurnEvidence,
    Usage,
)
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


def _scored(
    name: str, score: float | None, status: MetricStatus, *, threshold: float | None = 0.8, **fields: object
) -> MetricReport:
    run_score = RunScore.model_validate({"run": 0, "score": score, "status": status, **fields})
    return MetricReport(name=name, score=score, threshold=threshold, status=status, runs=[run_score])


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
    lights = CaseReport(
        case_id=LIGHTS,
        file="evals/home.test.json",
        eval_set_id="home",
        eval_id="lights",
        status="failed",
        metrics=[
            _scored(
                "response_match_score",
                0.5,
                "failed",
                turn_scores=[0.0, 1.0],
                evidence=[TurnEvidence(turn=0, score=0.0, why=notes("missing: lamp"))],
            ),
            _scored("per_turn_user_simulator_quality_v1", 1.0, "passed"),
            _scored(
                "final_response_match_v2",
                None,
                "not_evaluated",
                reason=Reason(code="judge-unavailable", message="The judge did not answer"),
            ),
            _scored("token_usage_v1", 21.0, "informational", threshold=None, turn_scores=[42.0, None]),
        ],
        runs=[
            RunResult(
                run_id=f"{LIGHTS}#1",
                run=0,
                status="failed",
                started_at=STARTED,
                duration=2.5,
                turns=2,
                usage=Usage(model_calls=1, input_tokens=30, output_tokens=12),
            )
        ],
    )
    error = RunError(kind="agent-crash", owner="agent", message="The process ended with SIGKILL")
    crash = CaseReport(
        case_id=CRASH,
        file="evals/home.test.json",
        eval_set_id="home",
        eval_id="crash",
        status="errored",
        runs=[RunResult(run_id=f"{CRASH}#1", run=0, status="errored", error=error, started_at=STARTED, duration=0.25)],
    )
    base = CaseReport(
        case_id=LIGHTS,
        file="evals/home.test.json",
        eval_set_id="home",
        eval_id="lights",
        status="passed",
        metrics=[_scored("response_match_score", 1.0, "passed")],
        runs=[RunResult(run_id=f"{LIGHTS}#1", run=0, status="passed", duration=2.0, turns=1)],
    )
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
    case = EvalCase(eval_id="lights", conversation=conversation)
    return StoredRun(report=report, recording_of={f"{LIGHTS}#1": recording}.get, cases={LIGHTS: case})
