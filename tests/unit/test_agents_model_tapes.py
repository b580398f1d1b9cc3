"""Calls of models on tapes: which are the same, what differs first, in which order their answers come."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import json_values
from hypothesis import given
from hypothesis import strategies as st
from tape_samples import TOOLS, answer, asked, at_once, called, converse, returned, said, session, tape

from agent_eval.agents.messages import (
    ModelAsked,
    ModelNews,
    ModelRan,
    ToolAsked,
    ToolError,
    ToolRan,
    ToolsetAsked,
    ToolsetListed,
)
from agent_eval.agents.tapes import (
    InvalidTape,
    Obstacle,
    Order,
    Tape,
    TapeSession,
    ToolRule,
    ToolRules,
    Unanswerable,
    VolatileRule,
    contents_of,
    read_tape,
    tape_of,
    tape_path,
    tape_text,
)
from agent_eval.agents.tapes._requests import first_difference, request_of

PLAIN = ToolRules()
PATIENT = 60.0
"""Seconds for which nothing waits in these tests."""


def fingerprint(call: ModelAsked, *rules: ToolRule) -> str:
    return request_of(call, ToolRules(rules=rules)).fingerprint


def difference(recorded: ModelAsked, now: ModelAsked) -> tuple[str, str, str] | None:
    """Place, old and new value of the first difference of a request from the only recorded one."""
    stored = tape(converse(session(), (recorded, "yes")))
    found = first_difference(stored, request_of(now, PLAIN))
    return None if found is None else (found.place, found.recorded, found.now)


# --- Which requests are the same


def reference(value: Any) -> Any:
    """Equal for equal requests, written in another way than the code."""
    match value:
        case dict():
            return {unicodedata.normalize("NFC", key): reference(item) for key, item in value.items()}
        case list():
            return [reference(item) for item in value]
        case str():
            return unicodedata.normalize("NFC", value)
    return (isinstance(value, bool), value)


requests = st.fixed_dictionaries(
    {
        "instruction": st.text(max_size=2),
        "contents": st.lists(json_values(st.text(max_size=2), most=4), max_size=3),
        "tools": json_values(st.text(max_size=2), most=4).filter(lambda value: value is not None),
        "config": st.dictionaries(st.text(max_size=2), json_values(st.text(max_size=2), most=4), max_size=2),
    }
)


@given(left=requests, right=requests)
def test_fingerprint__equal_exactly_for_equal_requests(left: dict[str, Any], right: dict[str, Any]) -> None:
    one, other = (ModelAsked(turn=1, call=1, request=request) for request in (left, right))
    same = reference(left) == reference(right)
    assert (fingerprint(one) == fingerprint(other)) == same
    assert (difference(one, other) is None) == same
    again = ModelAsked(turn=2, call=7, request=json.loads(json.dumps(dict(reversed(left.items())))))
    assert (fingerprint(again), difference(one, again)) == (fingerprint(one), None)


def declared(change: Callable[[list[Any]], object]) -> dict[str, Any]:
    """Other tools."""
    tools = copy.deepcopy(TOOLS)
    change(tools[0]["function_declarations"])
    return {"tools": tools}


def reorder(tools: list[Any]) -> None:
    properties = tools[0]["parameters"]["properties"]
    properties["room"] = properties.pop("room")


TALK = (said("on"), called("switch", {"room": "hall"}), returned("switch", {"now": "on"}))
OF_TOOLS = "tools[0].function_declarations"
CHANGES: dict[str, tuple[ModelAsked, str, str, str]] = {
    "agent": (asked(*TALK, agent="other"), "agent", '"bot"', '"other"'),
    "model": (asked(*TALK, model="other"), "model", '"gemini"', '"other"'),
    "class": (asked(*TALK, implementation="own.Model"), "implementation", '"adk.Gemini"', '"own.Model"'),
    "constructor": (asked(*TALK, settings={"n": 1, "t": 0.5}), "settings.t", "nothing", "0.5"),
    "stream": (asked(*TALK, stream=True), "stream", "false", "true"),
    "instruction": (
        asked(*TALK, instruction="You are a door."),
        "instruction",
        '"You are a lamp."',
        '"You are a door."',
    ),
    "removed-instruction": (asked(*TALK, instruction=None), "instruction", '"You are a lamp."', "nothing"),
    "first-content": (asked(said("off"), *TALK[1:]), "contents[0].parts[0].text", '"on"', '"off"'),
    "role": (asked(said("on", "model"), *TALK[1:]), "contents[0].role", '"user"', '"model"'),
    "argument": (
        asked(TALK[0], called("switch", {"room": "attic"}), TALK[2]),
        *("contents[1].parts[0].function_call.args.room", '"hall"', '"attic"'),
    ),
    "tool-answer": (
        asked(*TALK[:2], returned("switch", {"now": True})),
        *("contents[2].parts[0].function_response.response.now", '"on"', "true"),
    ),
    "content-added": (
        asked(*TALK, said("more")),
        *("contents[3]", "nothing", '{"parts": [{"text": "more"}], "role": "user"}'),
    ),
    "content-removed": (
        asked(*TALK[:2]),
        "contents[2]",
        '{"parts": [{"function_response": {"name": "switch", "response": {"now": "on"}}}], "role": "user"}',
        "nothing",
    ),
    "contents-swapped": (asked(TALK[0], TALK[2], TALK[1]), "contents[1].role", '"model"', '"user"'),
    "tool-name": (
        asked(*TALK, **declared(lambda tools: tools[1].update(name="dimm"))),
        f"{OF_TOOLS}[1].name",
        '"dim"',
        '"dimm"',
    ),
    "tool-description": (
        asked(*TALK, **declared(lambda tools: tools[1].update(description="Dim."))),
        *(f"{OF_TOOLS}[1].description", '"Dims it."', '"Dim."'),
    ),
    "parameter-with-the-name-of-a-secret": (
        asked(*TALK, **declared(lambda tools: tools[0]["parameters"]["properties"]["token"].update(type="INTEGER"))),
        *(f"{OF_TOOLS}[0].parameters.properties.token.type", '"STRING"', '"INTEGER"'),
    ),
    "parameter-with-the-name-of-a-keyword": (
        asked(*TALK, **declared(lambda tools: tools[1].update(parameters={"properties": {"properties": {"x": 1}}}))),
        *(
            f"{OF_TOOLS}[1].parameters",
            "nothing",
            '{"properties": {"properties": {"x": 1}}, "property_names": ["properties"]}',
        ),
    ),
    "default": (
        asked(*TALK, **declared(lambda tools: tools[0]["parameters"]["properties"]["token"].update(default="off"))),
        *(f"{OF_TOOLS}[0].parameters.properties.token.default", '"on"', '"off"'),
    ),
    "order-of-parameters": (
        asked(*TALK, **declared(reorder)),
        *(f"{OF_TOOLS}[0].parameters.property_names[0]", '"room"', '"token"'),
    ),
    "tool-removed": (
        asked(*TALK, **declared(lambda tools: tools.pop())),
        *(f"{OF_TOOLS}[1]", '{"description": "Dims it.", "name": "dim"}', "nothing"),
    ),
    "order-of-tools": (
        asked(*TALK, **declared(lambda tools: tools.reverse())),
        f"{OF_TOOLS}[0].name",
        '"switch"',
        '"dim"',
    ),
    "no-tools": (asked(*TALK, tools=None), "tools", "", "nothing"),
    "config": (asked(*TALK, config={"top_k": 5}), "config.top_k", "4", "5"),
    "config-of-another-type": (asked(*TALK, config={"top_k": "4"}), "config.top_k", "4", '"4"'),
    "config-added": (asked(*TALK, config={"top_k": 4, "safety": ["x"]}), "config.safety", "nothing", '["x"]'),
    "other-field": (asked(*TALK, previous="p"), "previous", "nothing", '"p"'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_first_difference__each_part(name: str) -> None:
    changed, place, before, now = CHANGES[name]
    recorded = asked(*TALK)
    assert fingerprint(changed) != fingerprint(recorded)
    found = difference(recorded, changed)
    assert found is not None
    assert (found[0], found[1] if before else "", found[2]) == (place, before, now)


def test_first_difference__long_values_and_the_nearest_request() -> None:
    text = "word " * 100
    _, before, now = (
        difference(asked(instruction=f"{text}lamp{text}"), asked(instruction=f"{text}door{text}")) or ("",) * 3
    )
    assert before.startswith('"…') and before.endswith('…"') and "lamp" in before and len(before) < 120
    assert "door" in now and "lamp" not in now
    _, before, now = difference(asked(instruction="on"), asked(instruction="on and on")) or ("",) * 3
    assert (before, now) == ('"on"', '"on and on"')

    # The most similar request of the same agent is compared, not the first one.
    other = asked(said("on"), agent="other")
    door: dict[str, Any] = {"instruction": "You are a door.", "config": {"top_k": 9}}
    requests = (other, asked(said("on")), asked(*TALK), asked(*map(said, "xbcde")), asked(said("on"), **door))
    stored = tape(converse(session(), *((request, "") for request in requests)))
    for request, place in (
        (asked(*TALK[:2], returned("switch", {"now": "off"})), "contents[2].parts[0].function_response.response.now"),
        (asked(*TALK, said("more"), said("and more")), "contents[3]"),
        (asked(said("off")), "contents[0].parts[0].text"),
        (asked(*TALK, config={"top_k": 1}), "config.top_k"),
        (asked(said("on"), agent="new"), "agent"),
        (asked(said("off"), said("off"), said("off"), agent="other"), "contents[0].parts[0].text"),
        (asked(said("x"), said("b"), said("q")), "contents[2].parts[0].text"),
        (asked(said("on"), agent="other", **door), "instruction"),
    ):
        found = first_difference(stored, request_of(request, PLAIN))
        assert found is not None and found.place == place


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (asked(said("e\u0301")), asked(said("\u00e9"))),
        (asked(config={"temperature": 1}), asked(config={"temperature": 1.0})),
        (asked(called("a", {"x": 1, "y": 2})), asked(called("a", {"y": 2, "x": 1}))),
        (asked(labels=None), asked()),
        (
            asked(called("a", {}, "adk-1"), called("b", {}, "adk-2"), returned("a", {}, "adk-1")),
            asked(called("a", {}, "x"), called("b", {}, "y"), returned("a", {}, "x")),
        ),
    ],
)  # fmt: skip
def test_fingerprint__what_says_nothing_to_a_model(left: ModelAsked, right: ModelAsked) -> None:
    assert fingerprint(left) == fingerprint(right)
    assert difference(left, right) is None


def test_fingerprint__call_ids_keep_their_pairing() -> None:
    def talk(first: str, second: str) -> ModelAsked:
        calls = (called("a", {}, "1"), called("a", {}, "2"))
        return asked(*calls, returned("a", {"x": 1}, first), returned("a", {"x": 2}, second))

    assert fingerprint(talk("1", "2")) != fingerprint(talk("2", "1"))
    assert difference(talk("1", "2"), talk("2", "1")) == (
        *("contents[2].parts[0].function_response.id", '"call-1"', '"call-2"'),
    )


# --- Sessions


def refusal(tapes: TapeSession, call: ModelAsked) -> Unanswerable:
    with pytest.raises(Unanswerable) as caught:
        at_once(tapes.model(call))
    return caught.value


def reread(stored: Tape, root: Path) -> Tape:
    path = tape_path(root, "a.test.json", "c")
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(tape_text(stored), encoding="utf-8")
    read = read_tape(path, root)
    assert read == stored
    return read


steps = st.lists(
    st.tuples(st.sampled_from(["model", "tool"]), st.sampled_from(["left", "right"]), st.integers(0, 2)), max_size=12
)


@given(made=steps)
def test_session__what_was_recorded_replays_itself(
    made: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def play(tapes: TapeSession) -> list[Any]:
        """Each step's answer is its number when it runs."""
        answers = []
        for number, (kind, agent, what) in enumerate(made):
            if kind == "tool":
                tool = ToolAsked(turn=1, call=number, name="get", agent=agent, args={"id": what})
                decision = at_once(tapes.ask(tool))
                tapes.ran(ToolRan(turn=1, call=number, response=number))
                answers.append(decision.get("response", number))
            else:
                call = asked(said(str(what)), agent=agent, call=number)
                decision = at_once(tapes.model(call))
                tapes.model_ran(ModelRan(turn=1, call=number, responses=[answer(str(number))]))
                answers.append(decision.get("responses", [answer(str(number))]))
        return answers

    live = session()
    expected = play(live)
    assert live.why_not_taped is None
    stored = reread(tape(live), tmp_path_factory.mktemp("tape"))
    replay = session("all", stored)
    models = sum(kind == "model" for kind, _, _ in made)
    if not models:
        return
    assert play(replay) == expected
    assert (replay.use.model_calls, replay.use.replayed, replay.use.live) == (models, len(made) - models, 0)
    assert replay.left == []
    # Nothing is repeated beyond the tape, although the last answer might do.
    kind, agent, what = made[-1]
    if kind == "model":
        again = refusal(replay, asked(said(str(what)), agent=agent))
        assert (again.obstacle, again.difference) == (Obstacle.MODEL_NOT_RECORDED, None)
    else:
        with pytest.raises(Unanswerable) as caught:
            at_once(replay.ask(ToolAsked(turn=1, call=99, name="get", agent=agent, args={"id": what})))
        assert caught.value.obstacle is Obstacle.NOT_RECORDED


def test_session__a_miss_and_calls_left() -> None:
    stored = tape(converse(session(), (asked(said("on")), "yes"), (asked(said("on"), said("more")), "no")))
    replay = session("all", stored)
    assert at_once(replay.model(asked(said("on"))))["responses"] == [answer("yes")]
    assert [call.done for call in replay.left] == [1]
    miss = refusal(replay, asked(said("on"), said("less")))
    assert miss.difference is not None
    assert (miss.obstacle, miss.difference.place) == (Obstacle.MODEL_NOT_RECORDED, "contents[1].parts[0].text")
    without = tape(session())
    for empty in (None, without):
        assert refusal(session("all", empty), asked()).obstacle is Obstacle.MISSING
    # Where tools alone are replayed, models are asked.
    assert at_once(session("replay", stored).model(asked())) == {"do": "run"}


def test_session__equal_calls_of_two_agents_are_not_mixed_up() -> None:
    live = session()
    for number, agent in enumerate(("left", "right")):
        at_once(live.ask(ToolAsked(turn=1, call=number, name="get", agent=agent)))
        live.ran(ToolRan(turn=1, call=number, response=agent))
    converse(live, (asked(agent="left"), "left"), (asked(agent="right"), "right"))
    stored = tape(live)

    async def replay() -> list[Any]:
        tapes = session("all", stored, order=Order(patience=PATIENT))
        tools = [tapes.ask(ToolAsked(turn=1, call=n, name="get", agent=a)) for n, a in enumerate(("right", "left"))]
        models = [tapes.model(asked(agent=agent, call=9)) for agent in ("right", "left")]
        return [*await asyncio.gather(*tools), *await asyncio.gather(*models)]

    answers = asyncio.run(replay())
    assert [each["response"] for each in answers[:2]] == ["right", "left"]
    assert [each["responses"] for each in answers[2:]] == [[answer("right")], [answer("left")]]


def test_session__a_chosen_run_decides_about_the_tools() -> None:
    def live(response: str, name: str = "get") -> TapeSession:
        tapes = session()
        at_once(tapes.ask(ToolAsked(turn=1, call=8, name=name)))
        tapes.ran(ToolRan(turn=1, call=8, response=response))
        return converse(tapes, (asked(said(response)), response))

    stored = tape(live("second"), live("first"), live("x", "other"))
    assert [(call.tool, call.response, call.done) for call in stored.calls] == [
        ("get", "second", 0),
        ("other", "x", None),
    ]
    replay = session("all", stored)
    with pytest.raises(Unanswerable):  # Another run made this call.
        at_once(replay.ask(ToolAsked(turn=1, call=1, name="other")))
    assert at_once(session("replay", stored).ask(ToolAsked(turn=1, call=1, name="other")))["response"] == "x"
    # What completes a tape has the order of the new run.
    more = session("record-missing", stored)
    assert at_once(more.model(asked(said("new")))) == {"do": "run"}
    assert at_once(more.ask(ToolAsked(turn=1, call=2, name="get", agent="a")))["response"] == "second"
    more.model_ran(ModelRan(turn=1, call=1, responses=[answer("n")]))
    completed = tape(more, before=stored)
    assert [(call.tool, call.agent, call.done) for call in completed.calls] == [("get", "a", 0), ("other", "", None)]
    assert [call.done for call in completed.model_calls] == [1]
    # A call that the new run does not make has no place in its order.
    without = session("record-missing", completed)
    assert [call.done for call in tape(converse(without, (asked(said("n")), "n")), before=completed).calls] == [
        None,
        None,
    ]
    # A call more than on the tape runs, and is added.
    for number in range(2):
        decision = at_once(without.ask(ToolAsked(turn=1, call=number, name="get")))
        without.ran(ToolRan(turn=1, call=number, response="third"))
    assert decision == {"do": "run"}
    added = tape(without, before=completed)
    assert [(call.tool, call.response, call.done) for call in added.calls] == [
        *(("get", "second", 1), ("other", "x", None), ("get", "third", 2)),
    ]
    added.calls.reverse()
    replay = session("all", added, order=Order(patience=0))
    at_once(replay.model(asked(said("n"))))
    answers = [at_once(replay.ask(ToolAsked(turn=1, call=number, name="get"))) for number in range(2)]
    assert [each["response"] for each in answers] == ["second", "third"]


def test_session__a_tool_that_runs_by_now_is_not_expected_on_the_tape() -> None:
    live = converse(session(), (asked(said("on")), "yes"))
    at_once(live.ask(ToolAsked(turn=1, call=8, name="get")))
    live.ran(ToolRan(turn=1, call=8, response="old"))
    live.listed(ToolsetListed(turn=1, toolset="bot/1", tools=[]))
    stored = tape(live).model_copy(update={"toolsets": live.toolsets})
    replay = session("all", stored, ToolRule(name="get", replay=False))
    at_once(replay.model(asked(said("on"))))
    assert at_once(replay.ask(ToolAsked(turn=1, call=1, name="get"))) == {"do": "run"}
    assert replay.left == []
    assert replay.toolset(ToolsetAsked(turn=1, toolset="bot/1")) == {"do": "answer", "tools": []}


STALE_LIVE = ToolRule(name="*", stale="live")


def edited() -> Tape:
    """Of an agent that gets something, and then asks twice; the tool has changed since."""
    live = session()
    at_once(live.ask(ToolAsked(turn=1, call=8, name="get", source="old")))
    live.ran(ToolRan(turn=1, call=8, response={"n": 1}, state={"got": True}))
    return tape(converse(live, (asked(said("1")), "yes"), (asked(said("2")), "no")))


def test_session__a_changed_tool_may_run_and_must_answer_as_recorded() -> None:
    call = ToolAsked(turn=1, call=3, name="get", source="new")
    with pytest.raises(Unanswerable):
        at_once(session("all", edited()).ask(call))
    replay = session("all", edited(), STALE_LIVE, order=Order(use=0))
    assert at_once(replay.ask(call)) == {"do": "run"}
    replay.ran(ToolRan(turn=1, call=3, response={"n": 1.0}, state={"got": True}))
    assert at_once(replay.model(asked(said("1"))))["responses"] == [answer("yes")]
    assert at_once(replay.model(asked(said("2"))))["responses"] == [answer("no")]
    replay.check_ended()
    assert (replay.left, replay.use.live, replay.use.replayed) == ([], 1, 0)
    # An unchanged tool does not run, and where models are asked, nothing is compared.
    same = ToolAsked(turn=1, call=3, name="get", source="old")
    assert at_once(session("all", edited(), STALE_LIVE).ask(same))["do"] == "answer"
    live = session("replay", edited(), STALE_LIVE)
    assert at_once(live.ask(call)) == {"do": "run"}
    live.ran(ToolRan(turn=1, call=3, response={"n": 2}))
    live.check_ended()


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"response": {"n": 2}, "state": {"got": True}}, ("response.n", "1", "2")),
        ({"response": {"n": 1}}, ("state.got", "true", "nothing")),
        (
            {"response": {"n": 1}, "state": {"got": True}, "actions": {"escalate": True}},
            ("actions.escalate", "nothing", "true"),
        ),
        (
            {"response": {"n": 1}, "state": {"got": True}, "reason": "it saves artifacts"},
            ("actions", "nothing", "it saves artifacts"),
        ),
    ],
)
def test_session__another_answer_of_a_changed_tool_is_a_miss(outcome: Any, expected: tuple[str, str, str]) -> None:
    replay = session("all", edited(), STALE_LIVE)
    at_once(replay.ask(ToolAsked(turn=1, call=3, name="get", source="new")))
    with pytest.raises(Unanswerable) as caught:
        replay.ran(ToolRan(turn=1, call=3, **outcome))
    difference = caught.value.difference
    assert difference is not None
    assert (difference.place, difference.recorded, difference.now) == expected
    assert (caught.value.obstacle, caught.value.why) == (Obstacle.STALE, "the file that defines it")
    with pytest.raises(Unanswerable):  # whatever becomes of the run
        replay.check_ended()


async def test_session__a_changed_tool_that_raises_or_never_ends_is_not_green() -> None:
    call = ToolAsked(turn=1, call=3, name="get", source="new")
    raised = ToolRan(turn=1, call=3, error=ToolError(type="own.Broken"))
    for outcome in (raised, None):
        replay = session("all", edited(), STALE_LIVE, order=Order(patience=0, rounds=0))
        await replay.ask(call)
        if outcome is not None:
            replay.ran(outcome)  # The agent gets it: no miss, if it ends the turn.
        for question in (said("1"), said("other")):
            with pytest.raises(Unanswerable) as caught:
                await replay.model(asked(question))
            assert caught.value.obstacle is Obstacle.STALE
        with pytest.raises(Unanswerable):
            replay.check_ended()
    # A recorded exception is an answer as any other.
    live = session()
    await live.ask(ToolAsked(turn=1, call=8, name="get", source="old"))
    live.ran(raised.model_copy(update={"call": 8}))
    stored = tape(converse(live, (asked(), "yes")))
    replay = session("all", stored, STALE_LIVE)
    await replay.ask(call)
    replay.ran(raised)
    replay = session("all", stored, STALE_LIVE)
    await replay.ask(call)
    with pytest.raises(Unanswerable):
        replay.ran(raised.model_copy(update={"error": ToolError(type="own.Other")}))


async def test_order__later_answers_wait_until_the_body_of_a_changed_tool_has_run() -> None:
    live = session()
    at_once(live.ask(ToolAsked(turn=1, call=8, name="get", agent="a", source="old")))
    at_once(live.model(asked(agent="b", call=9)))
    live.ran(ToolRan(turn=1, call=8, response="x"))
    live.model_ran(ModelRan(turn=1, call=9, responses=[answer("yes")]))
    replay = session("all", tape(live), STALE_LIVE, order=Order(patience=PATIENT))
    tool = asyncio.create_task(replay.ask(ToolAsked(turn=1, call=3, name="get", agent="a", source="new")))
    waiting = asyncio.create_task(replay.model(asked(agent="b", call=4)))
    assert await tool == {"do": "run"}
    await idle()
    assert not waiting.done()
    replay.ran(ToolRan(turn=1, call=3, response="x"))
    assert (await waiting)["responses"] == [answer("yes")]


# --- Volatile texts


def volatile(pattern: str, place: Any = "instruction", agent: str = "*") -> ToolRules:
    return ToolRules(volatile=(VolatileRule(pattern=re.compile(pattern), place=place, agent=agent),))


def print_of(call: ModelAsked, rules: ToolRules) -> str:
    return request_of(call, rules).fingerprint


TODAY = volatile(r"Today is \w{1,9}")


def on(day: str, *contents: Any, **changes: Any) -> ModelAsked:
    return asked(*contents, instruction=f"You are a lamp. Today is {day}.", **changes)


def test_volatile__only_what_a_rule_matches_at_its_place_is_not_compared() -> None:
    monday = print_of(on("Monday"), TODAY)
    assert monday == print_of(on("Friday"), TODAY)
    assert monday == print_of(on("Friday", agent="bot"), volatile(r"Today is \w{1,9}")), "the same rule"
    for other in (
        print_of(on("Monday"), PLAIN),
        print_of(on("Monday"), volatile(r"Today is \w{1,8}")),  # another rule: another tape
        print_of(on("Monday"), volatile(r"Today is \w{1,9}", agent="b*")),
        print_of(asked(instruction="You are a door. Today is Monday."), TODAY),
        print_of(on("Monday", said("Today is Monday")), TODAY),
    ):
        assert other != monday
    for rules in (volatile(r"Today is \w{1,9}", agent="other"), volatile(r"Today is \w{1,9}", "contents")):
        assert print_of(on("Monday"), rules) == print_of(on("Monday"), PLAIN) != print_of(on("Friday"), rules)
    # A text of which nothing else would be left is compared.
    for text in ("Today is Monday", "Today is Monday. Today is Friday!"):
        assert print_of(asked(instruction=text), TODAY) == print_of(asked(instruction=text), PLAIN)
    long = f"{'x' * 20_000} Today is Monday."
    assert print_of(asked(instruction=long), TODAY) == print_of(asked(instruction=long), PLAIN)
    parts = [print_of(asked(instruction={"parts": [{"text": f"Hi. Today is {day}"}]}), TODAY) for day in ("a", "b")]
    assert parts[0] == parts[1]


def test_volatile__in_contents() -> None:
    rules = volatile(r"T-\d{1,9}", "contents")

    def talk(ticket: str, name: str = "open") -> ModelAsked:
        call = called(name, {"ticket": ticket, "n": 1})
        return asked(said(f"[bot] said: {ticket}"), call, returned(name, {"ticket": [ticket]}), None, {"parts": [1]})

    assert print_of(talk("T-1"), rules) == print_of(talk("T-23"), rules)
    assert print_of(talk("T-1"), PLAIN) != print_of(talk("T-23"), PLAIN)
    assert print_of(talk("T-1", "T-1"), rules) != print_of(talk("T-1", "T-2"), rules)
    assert print_of(asked(said("T-1")), rules) != print_of(asked(said("T-2")), rules)
    assert print_of(asked(instruction="Use T-1 now."), rules) != print_of(asked(instruction="Use T-2 now."), rules)


def test_volatile__a_replay_needs_the_rules_of_the_recording() -> None:
    live = session()
    live.rules = TODAY
    stored = tape(converse(live, (on("Monday"), "yes")))
    for rules, day, is_answered in ((TODAY, "Friday", True), (PLAIN, "Monday", False), (TODAY, "1 May", False)):
        replay = session("all", stored)
        replay.rules = rules
        if is_answered:
            assert at_once(replay.model(on(day)))["responses"] == [answer("yes")]
        else:
            found = refusal(replay, on(day)).difference
            assert found is not None and found.place == "instruction" and "›" in found.recorded
    assert "Monday" not in tape_text(stored)


DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("request_", "outcome", "why"),
    [
        (asked(), {"error": ToolError(type="own.Busy")}, "a model raised own.Busy"),
        (asked(), {"responses": [answer("a")], "reason": "it was cancelled"}, "it was cancelled"),
        (asked(), {}, "a call of a model did not end"),
        (asked(), {"responses": [answer("x" * 1_000_001)]}, "the answer of a model has more than 1 MB"),
        (asked(), {"responses": [{"content": DEEP}]}, "the answer of a model can't be stored: It is nested more"),
        (asked(DEEP), {"responses": [answer("a")]}, "a request can't be stored: It is nested more"),
        (asked(config=DEEP), {"responses": [answer("a")]}, "a request can't be stored: It is nested more"),
        (asked(), None, "a call of a model did not end"),
    ],
)
def test_session__what_can_not_be_on_a_tape(request_: ModelAsked, outcome: dict[str, Any] | None, why: str) -> None:
    tapes = session()
    assert at_once(tapes.model(request_)) == {"do": "run"}
    if outcome is not None:
        tapes.model_ran(ModelRan(turn=1, call=1, **outcome))
    assert (tapes.why_not_taped or "").startswith(why)


def test_session__what_a_host_says_later_of_a_call_counts() -> None:
    tapes = converse(session(), (asked(), "yes"))
    assert tapes.why_not_taped is None
    tapes.model_ran(ModelRan(turn=1, call=1, responses=[answer("yes"), answer("again")]))
    [exchange] = tapes.model_calls
    assert (exchange.responses, exchange.done) == ([answer("yes"), answer("again")], 0)
    tapes.model_ran(ModelRan(turn=1, call=1, reason="a second complete response came"))
    assert tapes.why_not_taped == "a second complete response came"
    tapes.model_ran(ModelRan(turn=1, call=5, responses=[]))  # never asked for
    too_many = converse(session(), *((asked(said(str(number))), "") for number in range(1_001)))
    assert too_many.why_not_taped == "it has more than 1,000 calls of models"


def test_session__secrets_are_masked_before_they_are_hashed_and_stored() -> None:
    rule = ToolRule(name="book", mask=("mail",))
    secret = {"password": "hunter2", "mail": "me@example.com", "room": "hall"}
    contents = (called("book", secret), returned("book", {**secret, "apiKey": "k-123456"}))

    def talk(secrets: str) -> ModelAsked:
        made = json.loads(json.dumps(contents).replace("hunter2", secrets))
        return asked(*made, settings={"api_key": secrets}, config={"http_options": {"extra_body": {"token": secrets}}})

    tapes = session("record", None, rule)
    at_once(tapes.model(talk("hunter2")))
    tapes.model_ran(ModelRan(turn=1, call=1, responses=[{"content": called("book", secret), "avg_logprobs": 0.5}]))
    stored = tape(tapes, rules=tapes.rules)
    text = tape_text(stored)
    assert not [word for word in ("hunter2", "me@example.com", "k-123456") if word in text]
    replay = session("all", stored, rule)
    masked = {"password": "***", "mail": "***", "room": "hall"}
    assert at_once(replay.model(talk("other"))) == {
        "do": "answer",
        "responses": [{"content": called("book", masked), "avg_logprobs": 0.5}],
    }


def test_session__a_changed_server_is_asked_for_its_tools_where_no_model_is_asked() -> None:
    search = {"name": "search", "inputSchema": {"type": "object"}}
    facts: dict[str, Any] = {"eval_set_id": "s", "eval_id": "c", "recorded_at": 0}
    stored = Tape(**facts, toolsets={"bot/1#0c1f": [search], "bot/2": []})
    known = {"do": "answer", "tools": [search]}
    for mode, changed in (("replay", known), ("all", {"do": "run"})):
        listed = {
            name: session(mode, stored).toolset(ToolsetAsked(turn=1, toolset=name))  # type: ignore[arg-type]
            for name in ("bot/1#0c1f", "bot/1#9e21", "bot/2", "bot/3")
        }
        assert list(listed.values()) == [known, changed, {"do": "answer", "tools": []}, {"do": "run"}]
    live = session()
    live.listed(ToolsetListed(turn=1, toolset="bot/1#9e21", tools=[]))
    assert tape_of([live], ToolRules(), stored).toolsets == {"bot/2": [], "bot/1#9e21": []}, "a server has one list"


# --- The order of answers


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


def test_order__an_answer_that_waits_for_one_never_asked_for_is_a_miss() -> None:
    stored = tape(converse(session(), (asked(said("a")), "a"), (asked(said("b")), "b")))

    async def replay() -> None:
        tapes = session("all", stored, order=Order(patience=0))
        with pytest.raises(Unanswerable) as caught:
            await tapes.model(asked(said("b")))
        assert caught.value.obstacle is Obstacle.MODEL_NOT_RECORDED
        assert [call.done for call in caught.value.left] == [0]

    asyncio.run(replay())


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


def test_order__while_a_live_tool_runs_an_answer_may_wait() -> None:
    stored = tape(converse(session(), (asked(said("a")), "a"), (asked(said("b")), "b")))

    async def replay(*, asks: bool) -> Any:
        order = Order(patience=0, rounds=1_000)
        tapes = session("all", stored, ToolRule(name="live", replay=False), order=order)
        assert await tapes.ask(ToolAsked(turn=1, call=5, name="live")) == {"do": "run"}
        waiting = asyncio.create_task(tapes.model(asked(said("b"))))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        if asks:
            await tapes.model(asked(said("a")))
        tapes.ran(ToolRan(turn=1, call=5))
        return await waiting

    assert asyncio.run(replay(asks=True))["responses"] == [answer("b")]
    with pytest.raises(Unanswerable):
        asyncio.run(replay(asks=False))


def test_session__a_model_is_asked_by_a_tool_that_runs_or_not_at_all() -> None:
    tapes = session("all", tape(converse(session(), (asked(), "a"))), ToolRule(name="live", replay=False))
    news = ModelNews(turn=1, call=7, what="asked", model="own")
    assert at_once(tapes.ask(ToolAsked(turn=1, call=5, name="live"))) == {"do": "run"}
    tapes.model_news(news)
    tapes.ran(ToolRan(turn=1, call=5))
    tapes.check_ended()
    with pytest.raises(Unanswerable, match="tool-not-replayable"):
        tapes.model_news(news)
    with pytest.raises(Unanswerable, match="tool-not-replayable"):
        tapes.check_ended()


def test_order__a_live_tool_that_was_cancelled_holds_no_answer_for_ever() -> None:
    stored = tape(converse(session(), (asked(said("a")), "a"), (asked(said("b")), "b")))

    async def replay() -> None:
        tapes = session("all", stored, ToolRule(name="live", replay=False), order=Order(patience=0, rounds=9))
        await tapes.ask(ToolAsked(turn=1, call=5, name="live"))
        with pytest.raises(Unanswerable):
            await tapes.model(asked(said("b")))

    asyncio.run(replay())


# --- Files


def test_tape_text__keeps_the_order_of_keys_which_other_agents_are_shown() -> None:
    live = session()
    at_once(live.ask(ToolAsked(turn=1, call=1, name="get", args={"to": 1, "from": 2})))
    live.ran(ToolRan(turn=1, call=1, response={"price": 1, "city": "Rome"}))
    [call] = Tape.model_validate_json(tape_text(tape(live))).calls
    assert (list(call.args), list(call.response)) == (["to", "from"], ["price", "city"])


def conversation(calls: int) -> Tape:
    """Each call has one content more than the one before."""
    contents = [said(f"content {number} {'x' * 200}") for number in range(calls)]
    return tape(converse(session(), *((asked(*contents[: at + 1]), str(at)) for at in range(calls))))


def test_tape__grows_with_its_calls_and_not_with_their_square(tmp_path: Path) -> None:
    sizes = [len(tape_text(conversation(calls))) for calls in (1, 101, 201)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])
    stored = reread(conversation(5), tmp_path)
    last = contents_of(stored.model_calls[-1].request, stored.parts)
    assert [content["parts"][0]["text"][:9] for content in last] == [f"content {number}" for number in range(5)]


VERSION_1 = """{"schema_version": "1", "eval_set_id": "s", "eval_id": "c", "recorded_at": 0, "runs": 2,
"tools": {"get": {}}, "calls": [{"tool": "get", "args": {"a": 1}, "response": "one", "seen": 2}]}"""


def test_read_tape__version_1_has_tools_only(tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "c")
    path.parent.mkdir()
    path.write_text(VERSION_1)
    stored = read_tape(path, tmp_path)
    assert stored is not None
    asks = ToolAsked(turn=1, call=1, name="get", args={"a": 1})
    assert at_once(session("replay", stored).ask(asks))["response"] == "one"
    assert refusal(session("all", stored), asked()).obstacle is Obstacle.MISSING
    assert '"schema_version": "2"' in tape_text(stored)


def lie(change: Callable[[dict[str, Any]], object]) -> str:
    live = converse(session(), (asked(said("a")), "a"), (asked(said("a"), said("b")), "b"))
    at_once(live.ask(ToolAsked(turn=1, call=9, name="get")))
    live.ran(ToolRan(turn=1, call=9, response=1))
    value = json.loads(tape_text(tape(live)))
    change(value)
    return json.dumps(value)


def content_part(value: dict[str, Any]) -> str:
    """The key of the last content."""
    key: str = value["model_calls"][1]["request"]["contents"]
    return key


LIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "instruction": (
        lambda value: value["parts"].update({value["model_calls"][0]["request"]["instruction"]: "You obey me."}),
        "is not what was recorded",
    ),
    "part-removed": (lambda value: value["parts"].pop(content_part(value)), "`parts` lacks one"),
    "chain-broken": (
        lambda value: value["parts"].pop(value["parts"][content_part(value)]["after"]),
        "`parts` lacks one",
    ),
    "model": (lambda value: value["model_calls"][0].update(model="other"), "is not that of its model call"),
    "occurrence-twice": (
        lambda value: value["model_calls"].append({**value["model_calls"][0], "done": 7}),
        "two model calls with one fingerprint",
    ),
    "done-twice": (lambda value: value["calls"][0].update(done=1), "the same place in `done`"),
    "response-no-object": (lambda value: value["model_calls"][0].update(responses=["yes"]), "must be an object"),
    "no-response": (lambda value: value["model_calls"][0].update(responses=[]), ""),
    "too-many-calls": (lambda value: value.update(model_calls=value["model_calls"] * 501), ""),
    "nested": (lambda value: value["model_calls"][0].update(responses=[{"content": DEEP}]), ""),
    "huge": (lambda value: value.update(parts={"x": "x" * 5_000_000}), "larger than 5"),
}


@pytest.mark.parametrize("name", LIES)
def test_read_tape__a_lie(name: str, tmp_path: Path) -> None:
    change, says = LIES[name]
    path = tape_path(tmp_path, "a.test.json", "c")
    path.parent.mkdir()
    path.write_text(lie(change))
    with pytest.raises(InvalidTape) as caught:
        read_tape(path, tmp_path)
    [problem, *_] = caught.value.problems
    assert says in problem.message
    assert problem.file == "a.test.tools/c.tape.json"
    assert problem.hint is not None and problem.hint.startswith("Record the case again")


def test_read_tape__a_chain_that_ends_nowhere(tmp_path: Path) -> None:
    """A forger can compute hashes."""
    from agent_eval.agents.tapes._tape import digest, fingerprint_of

    for after in ("nowhere", ["x"]):
        stored = tape(converse(session(), (asked(said("a")), "a")))
        node = {"content": said("a"), "after": after}
        [call] = stored.model_calls
        call.request["contents"] = digest(node)
        call.fingerprint = fingerprint_of(call, call.request)
        stored.parts[digest(node)] = node
        path = tape_path(tmp_path, "a.test.json", "c")
        path.parent.mkdir(exist_ok=True)
        path.write_text(tape_text(stored))
        with pytest.raises(InvalidTape, match="are not complete"):
            read_tape(path, tmp_path)
