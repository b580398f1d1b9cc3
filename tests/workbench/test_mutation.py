"""Mutants of stored conversations: what is made of them, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from golden_files import check
from recording_samples import actual, called

from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, model_message, text_of, user_message
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Span,
    answered,
    hidden_calls,
    intermediate_responses,
)
from agent_eval_scoring.criteria import render_call
from agent_eval_workbench.mutation.mutants import Mutant, mutants, with_answer

SALES = actual(
    "Sales in Q2?",
    "Sales in Q2 were 150 thousand EUR, says Anna Berg on 12 May. The year is open.",
    *called("get_sales", {"total": 150}, id="1", quarter="Q2", gross=False),
    *called("note", {"ok": True}, id="2", text="Q2", count=3),
)
THANKS = actual("Thanks.", "I can't find more.")
FLAT = Invocation(
    user_content=user_message("Lamp off."),
    final_response=model_message("灯已关闭，温度是23度。"),
    intermediate_data=IntermediateData(
        tool_uses=[
            FunctionCall(name="find", args={"room": "bedroom"}),
            FunctionCall(name="switch", args={"on": False}),
        ],
        tool_responses=[FunctionResponse(name="find", response={"error": "no"})],
        intermediate_responses=[("helper", model_message("Let me see.").parts or [])],
    ),
)
CONVERSATIONS: dict[str, list[Invocation]] = {"two turns": [SALES, THANKS], "the older form": [FLAT]}


def made(actual: Sequence[Invocation], expected: Sequence[Invocation] | None = None, **more: Any) -> list[Mutant]:
    options: dict[str, Any] = {
        "state": {},
        "answers": False,
        "calls": False,
        "others": ["The lamp in Oslo is on.", "12 EUR"],
    }
    references = actual if expected is None else expected
    return mutants(actual, references or None, **{**options, **more}, rng=Random(1), most=9)


def kinds(found: Sequence[Mutant]) -> str:
    return " ".join(sorted({mutant.kind for mutant in found}))


def outline(turns: Sequence[Invocation]) -> str:
    """Calls, those that failed with !, and answers."""
    parts = []
    for turn in turns:
        calls = [
            render_call(call) + "!" * (answer is not None and answer.is_error)
            for call, answer in answered(turn.intermediate_data)
        ]
        parts.append(f"[{', '.join(calls)}] {text_of(turn.final_response)!r}")
    return " / ".join(parts)


def test_mutants__of_each_kind() -> None:
    text = ""
    for name, turns in CONVERSATIONS.items():
        before = outline(turns)
        text += f"# {name}: {before}\n\n"
        for mutant in made(turns):
            text += (
                f"{mutant.kind}, turn {mutant.turn + 1}: {mutant.old} -> {mutant.new}\n    {outline(mutant.turns)}\n"
            )
            assert outline(mutant.turns) != before
        assert outline(turns) == before, "the run stays as it is"
        text += "\n"
    check("golden_mutants.txt", text)


DENIAL = actual("Q9?", "I can't find it.", *called("find", {"error": "none"}, id="1"))
TOGETHER = Invocation(
    user_content=user_message("u"),
    final_response=model_message("Done."),
    intermediate_data=InvocationEvents(
        invocation_events=[
            InvocationEvent(
                author="x", content=model_message("").model_copy(update={"parts": [*called("a"), *called("b")]})
            )
        ]
    ),
)
NOT_MADE: dict[str, tuple[list[Invocation], list[Invocation], dict[str, Any], str]] = {
    "an apology for a denial, an error for an error": (
        [DENIAL],
        [DENIAL],
        {},
        "call-doubled call-dropped empty other-answer status",
    ),
    "swapped calls that were made at once": (
        [TOGETHER],
        [TOGETHER],
        {"others": []},
        "apology call-doubled call-dropped empty",
    ),
    "facts that the reference lacks": (
        [actual("u", "It is 5 °C in Oslo.")],
        [actual("u", "It is fine.")],
        {"others": []},
        "apology empty",
    ),
    "the same answer in other spacing": (
        [actual("u", "Done.")],
        [actual("u", "All done.")],
        {"others": ["done. ", "ALL  done."]},
        "apology empty",
    ),
    "calls that nobody expects": (
        [actual("u", "Done.", *called("a"))],
        [actual("u", "Done.")],
        {"others": []},
        "apology empty",
    ),
    "answers that nobody expects": (
        [actual("u", "Done 5.", *called("a"))],
        [actual("u", None, *called("a"))],
        {},
        "call-doubled call-dropped",
    ),
    "no reference at all": ([actual("u", "Done 5.", *called("a"))], [], {}, ""),
    "no reference, and criteria that need none": (
        [actual("u", "Done 5.", *called("a"))],
        [],
        {"answers": True, "calls": True},
        "apology call-doubled call-dropped empty number other-answer",
    ),
    "an argument with another value than expected": (
        [actual("u", None, *called("a", x=1, y=2))],
        [actual("u", None, *called("a", x=1, y=3))],
        {},
        "argument call-doubled call-dropped",
    ),
    "arguments without another value of their type": ([actual("u", None, *called("a", x=[], y=None, z=""))],) * 2
    + ({}, "call-doubled call-dropped"),
    "a single turn that could be missing": ([THANKS], [THANKS], {"others": []}, "empty status"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_MADE)
def test_mutants__what_means_the_same_is_none(name: str) -> None:
    turns, expected, more, wanted = NOT_MADE[name]
    assert kinds(made(turns, expected, **more)) == wanted


def test_mutants__at_most_some_of_a_kind_and_the_same_every_time() -> None:
    turns = [actual("u", "1, 2, 3, 4, 5 and 6.")]
    few = [mutants(turns, turns, {}, answers=False, calls=False, rng=Random("x"), most=2) for _ in range(2)]
    assert few[0] == few[1]
    assert [mutant.kind for mutant in few[0]] == ["number", "number", "apology", "empty"]
    assert len({mutant.old for mutant in few[0][:2]}) == 2


def test_mutants__a_fact_is_wrong_wherever_it_is_said() -> None:
    turn = actual("u", "5 rooms. All 5 are free.")
    [number] = [mutant for mutant in made([turn]) if mutant.kind == "number"]
    assert "5" not in text_of(number.turns[0].final_response)


def test_mutants__a_dropped_call_leaves_no_trace() -> None:
    """Neither in what was measured, nor in the calls inside it."""
    spans = [
        Span(kind="tool", name=name, call_id=call_id, inside=inside, start=0, end=1)
        for name, call_id, inside in (("weather", "1", None), ("lookup", "2", "1"), ("note", "3", None))
    ]
    turn = actual("u", None, *called("weather", {}, id="1"), *called("note", {}, id="3"), spans=spans)
    dropped = {each.old: each.turns[0] for each in made([turn]) if each.kind == "call-dropped"}
    assert [path for path, _ in hidden_calls(dropped["weather()"])] == []
    assert [path for path, _ in hidden_calls(dropped["note()"])] == ["weather > lookup"]


def test_with_answer__events_that_repeat_the_answer() -> None:
    """Else the old answer would be one that was said on the way."""
    turn = actual("u", "Done.")
    events = [InvocationEvent(author="a", content=model_message(text)) for text in ("Let me see.", "Done.")]
    turn = turn.model_copy(update={"intermediate_data": InvocationEvents(invocation_events=events)})
    for new in ("Sorry.", ""):
        changed = with_answer(turn, new)
        assert (text_of(changed.final_response), intermediate_responses(changed)) == (new, [("a", "Let me see.")])


STATE = {"cart": {"items": [{"id": "lamp", "count": 2}], "open": None}, "city": "Berlin", "none": None, "other": 1}
STATES: dict[str, tuple[dict[str, Any] | None, dict[str, Any], list[tuple[str, str, str]]]] = {
    "a key changed, a key missing": (
        STATE,
        {"city": "Berlin"},
        [("state", 'city: "Berlin"', 'city: "Berlix"'), ("state-missing", 'city: "Berlin"', "")],
    ),
    "a value inside objects and lists": (
        STATE,
        {"cart": STATE["cart"]},
        [
            ("state", 'cart: {"items": [{"id": "lamp", "count": 2}], "open": null}',
             'cart: {"items": [{"id": "lamx", "count": 2}], "open": null}'),
            ("state-missing", 'cart: {"items": [{"id": "lamp", "count": 2}], "open": null}', ""),
        ],
    ),
    "nobody expects it": (STATE, {}, []),
    "null, another value, a key that is not there": (STATE, {"none": None, "other": 2, "gone": 1}, []),
    "a state that was not stored": (None, {"city": "Berlin"}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_mutants__of_the_final_state(name: str) -> None:
    state, wanted, expected = STATES[name]
    last = THANKS.model_copy(update={"session_state": state})
    found = [each for each in made([SALES, last], state=wanted) if each.kind.startswith("state")]
    assert [(each.kind, each.old, each.new) for each in found] == expected
    assert all(each.turn == 1 and each.turns[-1].session_state != state for each in found)
    assert last.session_state == state, "the run stays as it is"
