"""Calls of tools and models, and tapes of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NamedTuple, TypeVar

from agent_eval_agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan
from agent_eval_agents.tapes import Mode, Order, Tape, TapeIndex, TapeSession, ToolRule, ToolRules, tape_of

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
    """No answer waits, unless the options have an order."""
    tool_rules = ToolRules(rules=rules)
    index = None if tape is None else TapeIndex(tape, tool_rules)
    return TapeSession(
        mode=mode, rules=tool_rules, index=index, **{"order": Order(patience=0, rounds=0, use=0), **options}
    )


def tape(*sessions: TapeSession, before: Tape | None = None, rules: ToolRules | None = None) -> Tape:
    """The tape of sessions; it has the model calls of the first one."""
    taped = tape_of(sessions, rules or sessions[0].rules, before, sessions[0])
    lists = {field: getattr(taped, field) for field in ("calls", "model_calls")}
    maps = {field: dict(getattr(taped, field)) for field in ("tools", "parts", "toolsets")}
    return Tape.model_validate({"eval_set_id": "s", "eval_id": "c", "recorded_at": 0, **lists, **maps})


class Step(NamedTuple):
    """A call that a host announces to a session."""

    name: str
    made: Callable[[TapeSession], Coroutine[Any, Any, Any]]
    """The result is what the host gets for it."""


NUMBERS = itertools.count(1_000)
"""Of calls."""


def tool(name: str, args: dict[str, Any] | None = None, response: Any = None, **facts: Any) -> Step:
    """A call of a tool, which answers this if it runs; `facts` are fields of the messages. `ends=False`: it doesn't.

    `sees`: what its host would see now.
    """
    ends, sees = facts.pop("ends", True), facts.pop("sees", {})
    outcome = {field: facts.pop(field) for field in [*facts] if field in ToolRan.model_fields}
    asks = ToolAsked.model_validate({"turn": 1, "call": 0, "name": name, "args": args or {}, "agent": "bot", **facts})

    async def made(tapes: TapeSession) -> Any:
        number = next(NUMBERS)

        async def look(names: Collection[str]) -> dict[str, str]:
            return {each: sees[each] for each in names if each in sees}

        decision = await tapes.ask(asks.model_copy(update={"call": number}), look)
        if decision["do"] == "run" and ends:
            tapes.ran(ToolRan(turn=1, call=number, response=response, **outcome))
        return decision

    return Step(f"{asks.agent}: {name}({asks.args or ''})"[:60], made)


def model(request: ModelAsked | str, text: str = "", **result: Any) -> Step:
    """A call of a model with this request or message, which answers this if it is asked, as `tool` does."""
    asks = asked(said(request)) if isinstance(request, str) else request
    ends = result.pop("ends", True)

    async def made(tapes: TapeSession) -> Any:
        number = next(NUMBERS)
        decision = await tapes.model(asks.model_copy(update={"call": number}))
        if decision["do"] == "run" and ends:
            tapes.model_ran(ModelRan(turn=1, call=number, **{"responses": [answer(text)], **result}))
        return decision

    return Step(f"{asks.agent}: asks {request if isinstance(request, str) else '...'}", made)


def says(name: str, what: Callable[[TapeSession], Any]) -> Step:
    """Something else that a host says."""

    async def made(tapes: TapeSession) -> Any:
        return what(tapes)

    return Step(name, made)


def play(tapes: TapeSession, *steps: Step) -> TapeSession:
    """The session after these calls, which must not wait."""
    for step in steps:
        at_once(step.made(tapes))
    return tapes
