"""Recordings of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.core.recording import Recording


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


def called(name: str, response: Mapping[str, Any] | None = None, *, id: str | None = None, **args: Any) -> list[Part]:
    """A tool call, with its response if it has one."""
    parts = [Part(function_call=FunctionCall(id=id, name=name, args=args))]
    if response is not None:
        parts.append(Part(function_response=FunctionResponse(id=id, name=name, response=dict(response))))
    return parts


def actual(user: str, answer: str | None, *parts: Part, author: str = "home", **facts: Any) -> Invocation:
    """A turn as a host records it: each part in an event of its own."""
    events = [InvocationEvent(author=author, content=Content(role="model", parts=[part])) for part in parts]
    return Invocation(
        user_content=user_message(user),
        final_response=None if answer is None else model_message(answer),
        intermediate_data=InvocationEvents(invocation_events=events),
        **facts,
    )


def recording(eval_id: str, *turns: Invocation, **more: Any) -> Recording:
    """A run of a case; `more` as in `facts`."""
    return Recording(**facts(eval_id, invocations=list(turns), **more))
