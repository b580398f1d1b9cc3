"""What an agent asks its model, on tapes: what is the same, what differs first, in which order answers come."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import golden_files
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape_samples import TOOLS, answer, asked, at_once, called, model, play, returned, said, session, tape, tool

from agent_eval_agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan
from agent_eval_agents.tapes import Order, Tape, TapeSession, ToolRule, ToolRules, VolatileRule
from agent_eval_agents.tapes._requests import first_difference, request_of

PATIENT = 60.0
"""Seconds for which nothing waits in these tests."""


def compared(recorded: Tape, now: ModelAsked, rules: ToolRules) -> str:
    """Where a request first differs from the most similar recorded one."""
    request = request_of(now, rules)
    found = first_difference(recorded, request)
    assert (found is None) == (request.fingerprint in {call.fingerprint for call in recorded.model_calls})
    return "the same" if found is None else f"{found.place}: {found.recorded} -> {found.now}"


def declared(change: Callable[[list[Any]], object]) -> dict[str, Any]:
    """Other tools."""
    tools = copy.deepcopy(TOOLS)
    change(tools[0]["function_declarations"])
    return {"tools": tools}


def reorder(tools: list[Any]) -> None:
    properties = tools[0]["parameters"]["properties"]
    properties["room"] = properties.pop("room")


def token(**changes: str) -> dict[str, Any]:
    """Another declaration of a parameter with the name of a secret."""
    return declared(lambda tools: tools[0]["parameters"]["properties"]["token"].update(changes))


TALK = (said("on"), called("switch", {"room": "hall"}), returned("switch", {"now": "on"}))
KEYWORD = {"properties": {"properties": {"x": 1}}}
CHANGES = {
    "agent": asked(*TALK, agent="other"),
    "model": asked(*TALK, model="other"),
    "class": asked(*TALK, implementation="own.Model"),
    "constructor": asked(*TALK, settings={"n": 1, "t": 0.5}),
    "stream": asked(*TALK, stream=True),
    "instruction": asked(*TALK, instruction="You are a door."),
    "removed instruction": asked(*TALK, instruction=None),
    "first content": asked(said("off"), *TALK[1:]),
    "role": asked(said("on", "model"), *TALK[1:]),
    "argument": asked(TALK[0], called("switch", {"room": "attic"}), TALK[2]),
    "tool answer": asked(*TALK[:2], returned("switch", {"now": True})),
    "content added": asked(*TALK, said("more")),
    "content removed": asked(*TALK[:2]),
    "contents swapped": asked(TALK[0], TALK[2], TALK[1]),
    "tool name": asked(*TALK, **declared(lambda tools: tools[1].update(name="dimm"))),
    "tool description": asked(*TALK, **declared(lambda tools: tools[1].update(description="Dim."))),
    "type of a parameter": asked(*TALK, **token(type="INTEGER")),
    "default": asked(*TALK, **token(default="off")),
    "name of a keyword": asked(*TALK, **declared(lambda tools: tools[1].update(parameters=KEYWORD))),
    "order of parameters": asked(*TALK, **declared(reorder)),
    "tool removed": asked(*TALK, **declared(lambda tools: tools.pop())),
    "order of tools": asked(*TALK, **declared(lambda tools: tools.reverse())),
    "no tools": asked(*TALK, tools=None),
    "config": asked(*TALK, config={"top_k": 5}),
    "config of another type": asked(*TALK, config={"top_k": "4"}),
    "config added": asked(*TALK, config={"top_k": 4, "safety": ["x"]}),
    "other field": asked(*TALK, previous="p"),
    "nothing": asked(*TALK, labels=None, call=7),
}
"""Requests that differ from `asked(*TALK)`."""


def pair(first: str, second: str) -> ModelAsked:
    """Two calls of one tool with the ids 1 and 2, and answers to calls with these ids."""
    calls = (called("a", {}, "1"), called("a", {}, "2"))
    return asked(*calls, returned("a", {"x": 1}, first), returned("a", {"x": 2}, second))


WORDS = "word " * 100
PAIRS = {
    "long texts": tuple(asked(instruction=f"{WORDS}{word}{WORDS}") for word in ("lamp", "door")),
    "a longer text": (asked(instruction="on"), asked(instruction="on and on")),
    "normal forms": (asked(said("e\u0301")), asked(said("\u00e9"))),
    "numbers": (asked(config={"temperature": 1}), asked(config={"temperature": 1.0})),
    "order of keys": (asked(called("a", {"x": 1, "y": 2})), asked(called("a", {"y": 2, "x": 1}))),
    "ids of calls": tuple(
        asked(called("a", {}, one), called("b", {}, two), returned("a", {}, one)) for one, two in ("12", "xy")
    ),
    "ids that are mixed up": (pair("1", "2"), pair("2", "1")),
}
DOOR: dict[str, Any] = {"instruction": "You are a door.", "config": {"top_k": 9}}
SEVERAL = (
    asked(said("on"), agent="other"),
    asked(said("on")),
    asked(*TALK),
    asked(*map(said, "xbcde")),
    asked(said("on"), **DOOR),
)
NEAREST = (
    asked(*TALK[:2], returned("switch", {"now": "off"})),
    asked(*TALK, said("more"), said("and more")),
    asked(said("off")),
    asked(*TALK, config={"top_k": 1}),
    asked(said("on"), agent="new"),
    asked(said("off"), said("off"), said("off"), agent="other"),
    asked(said("x"), said("b"), said("q")),
    asked(said("on"), agent="other", **DOOR),
)
"""The most similar request of the same agent is compared, not the first one."""


def volatile(pattern: str, place: Any = "instruction", agent: str = "*") -> ToolRules:
    return ToolRules(volatile=(VolatileRule(pattern=re.compile(pattern), place=place, agent=agent),))


def on(day: str, *contents: Any, says: str = "You are a lamp. ", **changes: Any) -> ModelAsked:
    return asked(*contents, **{"instruction": f"{says}Today is {day}.", **changes})


def ticket(number: str, name: str = "open") -> ModelAsked:
    call = called(name, {"ticket": number, "n": 1})
    return asked(said(f"[bot] said: {number}"), call, returned(name, {"ticket": [number]}), None, {"parts": [1]})


def in_parts(day: str) -> ModelAsked:
    return asked(instruction={"parts": [{"text": f"Hi. Today is {day}"}]})


TODAY, TICKET = volatile(r"Today is \w{1,9}"), volatile(r"T-\d{1,9}", "contents")
MONDAY, FRIDAY = on("Monday"), on("Friday")
LONG = "x" * 20_000
VOLATILE: dict[str, tuple[ToolRules, ModelAsked, ToolRules, ModelAsked]] = {
    "another day": (TODAY, MONDAY, TODAY, FRIDAY),
    "the same rule": (TODAY, MONDAY, volatile(r"Today is \w{1,9}"), FRIDAY),
    "no rule": (TODAY, MONDAY, ToolRules(), MONDAY),
    "another rule": (TODAY, MONDAY, volatile(r"Today is \w{1,8}"), MONDAY),
    "a rule for some agents": (TODAY, MONDAY, volatile(r"Today is \w{1,9}", agent="b*"), MONDAY),
    "for other agents": (volatile(r"Today is \w{1,9}", agent="other"), MONDAY, ToolRules(), MONDAY),
    "for contents": (volatile(r"Today is \w{1,9}", "contents"), MONDAY, ToolRules(), MONDAY),
    "what it does not match": (TODAY, MONDAY, TODAY, on("1 May")),
    "the rest of the text": (TODAY, MONDAY, TODAY, on("Monday", says="You are a door. ")),
    "another place": (TODAY, on("Monday", said("Today is Monday")), TODAY, on("Monday", said("Today is Friday"))),
    "nothing else would be left": (TODAY, on("Monday", says=""), ToolRules(), on("Monday", says="")),
    "nor of two": (TODAY, on("a", says="Today is b. "), ToolRules(), on("a", says="Today is b. ")),
    "too long": (TODAY, on("Monday", says=LONG), ToolRules(), on("Monday", says=LONG)),
    "in parts": (TODAY, in_parts("a"), TODAY, in_parts("b")),
    "tickets": (TICKET, ticket("T-1"), TICKET, ticket("T-23")),
    "tickets without a rule": (ToolRules(), ticket("T-1"), ToolRules(), ticket("T-23")),
    "the name of a tool": (TICKET, ticket("T-1", "T-1"), TICKET, ticket("T-1", "T-2")),
    "a text that is a ticket": (TICKET, asked(said("T-1")), TICKET, asked(said("T-2"))),
    "an instruction": (TICKET, asked(instruction="Use T-1 now."), TICKET, asked(instruction="Use T-2 now.")),
}


def differences() -> Iterator[str]:
    plain = ToolRules()
    for name, changed in CHANGES.items():
        yield f"{name}: {compared(tape(play(session(), model(asked(*TALK)))), changed, plain)}"
    for name, (left, right) in PAIRS.items():
        yield f"{name}: {compared(tape(play(session(), model(left))), right, plain)}"
    several = tape(play(session(), *map(model, SEVERAL)))
    for number, near in enumerate(NEAREST, 1):
        yield f"of several, {number}: {compared(several, near, plain)}"
    for name, (rules, recorded, rules_now, now) in VOLATILE.items():
        live = session()
        live.rules = rules
        stored = tape(play(live, model(recorded)))
        assert rules is not TODAY or recorded is not MONDAY or "Monday" not in stored.model_dump_json()
        yield f"volatile, {name}: {compared(stored, now, rules_now)}"


def test_first_difference__of_requests() -> None:
    golden_files.check("golden_requests.txt", "\n".join(differences()) + "\n")


# --- The order of answers


async def test_session__equal_calls_of_two_agents_are_not_mixed_up() -> None:
    agents = ("left", "right")
    tools, models = [tool("get", {}, name, agent=name) for name in agents], [model(asked(agent=a), a) for a in agents]
    tapes = session("all", tape(play(session(), *tools, *models)), order=Order(patience=PATIENT))
    answers = [await asyncio.gather(*(step.made(tapes) for step in steps[::-1])) for steps in (tools, models)]
    assert [each["response"] for each in answers[0]] == ["right", "left"]
    assert [each["responses"] for each in answers[1]] == [[answer("right")], [answer("left")]]


@given(data=st.data(), finished=st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_order__answers_of_parallel_branches_come_as_they_were_recorded(
    data: st.DataObject, finished: list[int]
) -> None:
    """`finished` are the branches in the order in which their calls ended."""

    def question(branch: int, number: int) -> ModelAsked:
        return asked(said(f"{branch}/{number}"), call=branch * 100 + number)

    live, counts = session(), [0, 0, 0]
    for branch in range(3):
        at_once(live.model(question(branch, 0)))
    for branch in finished:
        call = question(branch, counts[branch])
        live.model_ran(ModelRan(turn=1, call=call.call, responses=[answer(f"{branch}/{counts[branch]}")]))
        counts[branch] += 1
        at_once(live.model(question(branch, counts[branch])))
    stored = tape(live)
    delays = data.draw(st.lists(st.integers(0, 5), min_size=len(finished), max_size=len(finished)))
    slow = iter(delays)
    order: list[tuple[int, Any]] = []

    async def run(tapes: TapeSession, branch: int) -> None:
        for number in range(counts[branch]):
            for _ in range(next(slow)):
                await asyncio.sleep(0)
            decision = await tapes.model(question(branch, number))
            order.append((branch, decision["responses"]))

    async def replay() -> TapeSession:
        tapes = session("all", stored, order=Order(patience=PATIENT, use=0.01))
        await asyncio.gather(*(run(tapes, branch) for branch in range(3)))
        return tapes

    assert asyncio.run(replay()).left == []
    numbers = [finished[:at].count(branch) for at, branch in enumerate(finished)]
    assert order == [(branch, [answer(f"{branch}/{number}")]) for branch, number in zip(finished, numbers, strict=True)]


def overlapping() -> Tape:
    """Of two agents that both ask before one has an answer; the first one asks again before the other has one."""
    live = session()
    for number, (agent, word) in enumerate([("left", "a"), ("right", "b")], 1):
        at_once(live.model(asked(said(word), agent=agent, call=number)))
    live.model_ran(ModelRan(turn=1, call=1, responses=[answer("a")]))
    at_once(live.model(asked(said("c"), agent="left", call=3)))
    for number, word in ((2, "b"), (3, "c")):
        live.model_ran(ModelRan(turn=1, call=number, responses=[answer(word)]))
    stored = tape(live)
    assert [(call.agent, call.after, call.done) for call in stored.model_calls] == [
        ("left", 0, 0),
        ("right", 0, 1),
        ("left", 1, 2),
    ]
    return stored


async def idle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_order__an_answer_waits_for_the_calls_that_were_made_before_it_came() -> None:
    tapes = session("all", overlapping(), order=Order(patience=PATIENT, use=0))
    right = asyncio.create_task(tapes.model(asked(said("b"), agent="right", call=2)))
    await idle()
    assert (await tapes.model(asked(said("a"), agent="left", call=1)))["responses"] == [answer("a")]
    await idle()
    assert not right.done(), "what follows from the first answer is not done"
    left = asyncio.create_task(tapes.model(asked(said("c"), agent="left", call=3)))
    assert (await right)["responses"] == [answer("b")]
    assert (await left)["responses"] == [answer("c")]
    assert tapes.left == []


def uses(tapes: TapeSession, said_by: str) -> None:
    """The agent `left` has dealt with its answer, the first one."""
    if said_by == "event":
        tapes.event("left", [])
    elif said_by == "host":
        tapes.model_ran(ModelRan(turn=1, call=1))


@pytest.mark.parametrize("said_by", ["event", "host", "nobody"])
@pytest.mark.parametrize("overlapped", [True, False])
async def test_order__an_answer_waits_until_another_agent_has_used_the_one_before_it(
    *, overlapped: bool, said_by: str
) -> None:
    """As it had when they were recorded; whether the calls overlapped then, or do so in the replay alone."""
    live = session()
    left, right = (asked(said(agent), agent=agent, call=number) for number, agent in enumerate(("left", "right"), 1))
    at_once(live.model(left))
    if overlapped:
        at_once(live.model(right))
    live.model_ran(ModelRan(turn=1, call=1, responses=[answer("1")]))
    if not overlapped:
        at_once(live.model(right))
    uses(live, said_by)
    live.model_ran(ModelRan(turn=1, call=2, responses=[answer("2")]))
    uses(live, said_by)  # It has the first time already.
    stored = tape(live)
    used = None if said_by == "nobody" else 1
    assert [(call.after, call.dealt) for call in stored.model_calls] == [(0, used), (0 if overlapped else 1, None)]

    async def replay(use: float, *, says: bool) -> bool:
        """Whether the second answer has come."""
        tapes = session("all", stored, order=Order(patience=PATIENT, use=use))
        waiting = asyncio.create_task(tapes.model(right))
        await idle()
        await tapes.model(left)
        await idle()
        assert waiting.done() is (said_by == "nobody")
        if says:
            uses(tapes, said_by)
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        waiting.cancel()
        return bool(done)

    assert await replay(PATIENT, says=True)
    assert await replay(PATIENT, says=False) is (said_by == "nobody")
    assert await replay(0.01, says=False), "ADK does not say it of every answer"


@pytest.mark.parametrize(
    ("follows", "expected"),
    [
        ("nothing", [("left", 0, 1, 2), ("right", 0, 0, 1)]),
        (1, [("left", 0, 0, 3), ("other", 1, 1, None), ("right", 0, 2, 3)]),
        (None, [("left", 0, 0, 3), ("other", 1, 1, None), ("right", 0, 2, 3)]),
        (2, [("left", 0, 2, 3), ("other", 3, 0, None), ("right", 0, 1, 2)]),
    ],
)
def test_order__answers_are_recorded_in_the_order_of_their_events(follows: Any, expected: list[Any]) -> None:
    """Unless a call may follow from an answer whose event came late, or was never seen."""
    live = session()
    at_once(live.ask(ToolAsked(turn=1, call=1, call_id="one", name="get", agent="left")))
    at_once(live.model(asked(said("b"), agent="right", call=2)))
    live.ran(ToolRan(turn=1, call=1, response="a"))
    if follows != "nothing":
        at_once(live.model(asked(said("c"), agent="other", call=3, follows=follows)))
        live.model_ran(ModelRan(turn=1, call=3, responses=[answer("c")]))
    live.model_ran(ModelRan(turn=1, call=2, responses=[answer("b")]))
    live.event("right", [])
    live.event("left", ["one"])
    stored = tape(live)
    places = [(call.agent, call.after, call.done, call.dealt) for call in stored.model_calls]
    places += [(call.agent, call.after, call.done or 0, call.dealt) for call in stored.calls]
    assert sorted(places) == expected


async def test_order__while_a_live_tool_runs_an_answer_may_wait() -> None:
    stored = tape(play(session(), model("a", "a"), model("b", "b")))
    tapes = session("all", stored, ToolRule(name="live", replay=False), order=Order(patience=0, rounds=1_000, use=0))
    await tapes.ask(ToolAsked(turn=1, call=5, name="live"))
    waiting = asyncio.create_task(model("b").made(tapes))
    await idle()
    assert not waiting.done()
    await model("a").made(tapes)
    tapes.ran(ToolRan(turn=1, call=5))
    assert (await waiting)["responses"] == [answer("b")]


async def test_order__later_answers_wait_until_the_body_of_a_changed_tool_has_run() -> None:
    live = session()
    at_once(live.ask(ToolAsked(turn=1, call=8, name="get", agent="a", source="old")))
    at_once(live.model(asked(agent="b", call=9)))
    live.ran(ToolRan(turn=1, call=8, response="x"))
    live.model_ran(ModelRan(turn=1, call=9, responses=[answer("yes")]))
    replay = session("all", tape(live), ToolRule(name="*", stale="live"), order=Order(patience=PATIENT))
    tool = asyncio.create_task(replay.ask(ToolAsked(turn=1, call=3, name="get", agent="a", source="new")))
    waiting = asyncio.create_task(replay.model(asked(agent="b", call=4)))
    assert await tool == {"do": "run"}
    await idle()
    assert not waiting.done()
    replay.ran(ToolRan(turn=1, call=3, response="x"))
    assert (await waiting)["responses"] == [answer("yes")]
