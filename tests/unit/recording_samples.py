"""Recordings of runs."""

from __future__ import annotations

from typing import Any

from agent_eval.core.content import FunctionCall, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.results.recording import Recording


def facts(eval_id: str, *, run: int = 0, file: str = "a.test.json", **more: Any) -> dict[str, Any]:
    """What a recording says of its run, as JSON has it; `more` are other fields, or other values of these."""
    case_id = f"{file}:{eval_id}"
    names = {"run_id": f"{case_id}#{run + 1}", "case_id": case_id, "file": file, "eval_set_id": "a", "eval_id": eval_id}
    return {**names, "run": run, "fingerprint": "f", "started_at": 1.0, "duration": 0.5, **more}


def turn(message: str = "Go.", answer: str = "ok", *calls: str, **args: Any) -> Invocation:
    """With calls of these names, all with the same arguments."""
    uses = [FunctionCall(name=name, args=args) for name in calls]
    return Invocation(
        user_content=user_message(message),
        final_response=model_message(answer),
        intermediate_data=IntermediateData(tool_uses=uses),
    )


def recording(eval_id: str, *turns: Invocation, **more: Any) -> Recording:
    """A run of a case; `more` as in `facts`."""
    return Recording(**facts(eval_id, invocations=list(turns), **more))
