"""Calls of tools and models, and tapes of them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from agent_eval.agents.messages import ModelAsked, ModelRan
from agent_eval.agents.tapes import Mode, Tape, TapeIndex, TapeSession, ToolRule, ToolRules, tape_of

Result = TypeVar("Result")


def at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of something that must not wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise AssertionError("it waits")


TOOLS: list[Any] = [
    {
        "function_declarations": [
            {
                "name": "switch",
                "description": "Switches the lamp.",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {"room": {"type": "STRING"}, "token": {"type": "STRING", "default": "on"}},
                },
            },
            {"name": "dim", "description": "Dims it."},
        ]
    }
]


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def called(name: str, args: dict[str, Any], identity: str | None = None) -> dict[str, Any]:
    call = {"name": name, "args": args, **({"id": identity} if identity else {})}
    return {"role": "model", "parts": [{"function_call": call}]}


def returned(name: str, response: dict[str, Any], identity: str | None = None) -> dict[str, Any]:
    answer = {"name": name, "response": response, **({"id": identity} if identity else {})}
    return {"role": "user", "parts": [{"function_response": answer}]}


def asked(*contents: Any, call: int = 1, **changes: Any) -> ModelAsked:
    """What an agent asks its model; changes are of the request, if they are not fields of the message."""
    facts: dict[str, Any] = {"agent": "bot", "model": "gemini", "implementation": "adk.Gemini", "settings": {"n": 1}}
    request = {"instruction": "You are a lamp.", "contents": list(contents), "tools": TOOLS, "config": {"top_k": 4}}
    for name, value in changes.items():
        (facts if name in ModelAsked.model_fields else request)[name] = value
    return ModelAsked(turn=1, call=call, request=request, **facts)


def answer(text: str) -> dict[str, Any]:
    return {"content": said(text, "model"), "partial": False}


def session(mode: Mode = "record", tape: Tape | None = None, *rules: ToolRule, **options: Any) -> TapeSession:
    tool_rules = ToolRules(rules=rules)
    index = None if tape is None else TapeIndex(tape, tool_rules)
    return TapeSession(mode=mode, rules=tool_rules, index=index, **options)


def tape(*sessions: TapeSession, before: Tape | None = None, rules: ToolRules | None = None) -> Tape:
    """The tape of sessions; it has the model calls of the first one."""
    taped = tape_of(sessions, rules or ToolRules(), before, sessions[0])
    return Tape(
        eval_set_id="s",
        eval_id="c",
        recorded_at=0,
        tools=dict(taped.tools),
        calls=list(taped.calls),
        model_calls=list(taped.model_calls),
        parts=dict(taped.parts),
    )


def converse(tapes: TapeSession, *steps: tuple[ModelAsked, str]) -> TapeSession:
    """Records calls of models, one after another."""
    for number, (call, text) in enumerate(steps, 1):
        call = call.model_copy(update={"call": number})
        assert at_once(tapes.model(call)) == {"do": "run"}
        tapes.model_ran(ModelRan(turn=1, call=number, responses=[answer(text)]))
    return tapes
