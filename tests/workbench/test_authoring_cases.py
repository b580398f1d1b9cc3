"""Eval cases made of a session: which turns, edits and expectations."""

from __future__ import annotations

import asyncio
import copy
import difflib
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import recording_samples
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.cli import main
from agent_eval_scoring.core.content import (
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    model_message,
    text_of,
    user_message,
)
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
    tool_calls,
    tool_responses,
)
from agent_eval_scoring.criteria import build
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase, MatchType
from agent_eval_workbench.authoring.choosing import common_calls, mean_scores, most_typical, route
from agent_eval_workbench.authoring.expectation import Field, NewTurn, accept_turn, accept_turns, adds_masked, too_large

# The run that becomes the expectation, and the calls that all runs made.

EXACT = build(CriterionConfig(metric="tool_trajectory_avg_score", threshold=1.0))
TEXT = build(CriterionConfig(metric="response_match_score", threshold=0.8))


def turn(calls: str, answer: str = "") -> Invocation:
    """A turn with a call per letter."""
    return recording_samples.turn("Go.", answer, *calls, n=1)


def uses(calls: str) -> list[FunctionCall]:
    return [FunctionCall(name=letter, args={"n": 1}) for letter in calls]


CASE = EvalCase(eval_id="case", conversation=[turn("")])
ROUTES = st.lists(st.text("abc", max_size=6), min_size=1, max_size=5)


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(letter in rest for letter in short)


@given(calls=ROUTES, answers=st.lists(st.sampled_from(["on", "off", "is on", ""]), min_size=5, max_size=5))
def test_most_typical__has_the_highest_mean(calls: list[str], answers: list[str]) -> None:
    runs = [[turn(names, answer)] for names, answer in zip(calls, answers, strict=False)]
    means = asyncio.run(mean_scores(CASE, runs, [EXACT, TEXT]))
    index = asyncio.run(most_typical(CASE, runs, [EXACT, TEXT]))
    assert means[index] == max(means)

    backwards = asyncio.run(most_typical(CASE, runs[::-1], [EXACT, TEXT]))
    assert means[len(runs) - 1 - backwards] == max(means)


def test_most_typical__ties_and_without_criteria_the_most_frequent_route() -> None:
    for calls, expected in (("ab a a", 1), ("ab a b", 0), ("x", 0)):
        assert asyncio.run(most_typical(CASE, [[turn(names)] for names in calls.split()], [EXACT])) == expected
    runs = [[turn("a")], [turn("b")], [turn("b")]]
    assert asyncio.run(most_typical(CASE, runs, [])) == 1
    assert route(runs[1]) == route(runs[2]) != route(runs[0])


@given(calls=ROUTES)
def test_common_calls__are_in_every_run_in_any_order_of_runs(calls: list[str]) -> None:
    runs = [uses(names) for names in calls]
    ordered = common_calls(runs, 0, ordered=True)
    names = "".join(calls[0][place] for place in ordered)
    assert ordered == sorted(ordered)
    assert all(is_subsequence(names, run) for run in calls)
    longest = max(
        len(letters)
        for count in range(len(calls[0]) + 1)
        for letters in itertools.combinations(calls[0], count)
        if all(is_subsequence("".join(letters), run) for run in calls)
    )
    assert len(names) == longest or (len(set(calls)) > 2 and len(names) < longest)
    anyhow = sorted(calls[0][place] for place in common_calls(runs, 0, ordered=False))
    assert anyhow == sorted(letter for letter in "abc" for _ in range(min(run.count(letter) for run in calls)))
    for reference in range(len(calls)):
        for other in (runs, runs[::-1]):
            at = other.index(runs[reference])
            same = [other[at][place].name for place in common_calls(other, at, ordered=True)]
            assert "".join(name or "" for name in same) == names

    everyone_passes = build(
        CriterionConfig(metric="tool_trajectory_avg_score", threshold=1.0, options={"match_type": MatchType.IN_ORDER})
    )
    means = asyncio.run(mean_scores(CASE, [[turn(names)], *([turn(run)] for run in calls)], [everyone_passes]))
    assert means[0] == 1.0


def test_common_calls__very_different_runs_end_in_time() -> None:
    runs = [uses("".join("abcdefgh"[(number * step) % 8] for number in range(60))) for step in (1, 3, 5, 7, 2)]
    places = common_calls(runs, 0, ordered=True)
    names = "".join(runs[0][place].name or "" for place in places)
    assert all(is_subsequence(names, "".join(call.name or "" for call in run)) for run in runs)


def test_common_calls__args() -> None:
    runs = [[FunctionCall(name="a", args={"x": number})] for number in (1, 2)]
    assert common_calls(runs, 0, ordered=True) == []
    assert common_calls(runs, 0, ordered=True, ignore_args=True) == [0]


# `agent-eval edit`: each edit changes what it names, and nothing else in the file.

FLAT = """{"eval_set_id": "home", "eval_cases": [
  {"eval_id": "lamp", "conversation": [
    {"user_content": {"parts": [{"text": "Off"}]},
     "final_response": {"parts": [{"text": "Done"}], "role": "model"},
     "intermediate_data": {
       "tool_uses": [{"name": "a", "args": {"x": 1}}, {"name": "b", "args": {}}, {"name": "a", "args": {"x": 2}}],
       "tool_responses": [
         {"name": "a", "response": {"n": 1}}, {"name": "b", "response": {}}, {"name": "a", "response": {"n": 2}}],
       "intermediate_responses": [["helper", [{"text": "one"}]], ["helper", [{"text": "two"}]]]}},
    {"user_content": {"parts": [{"text": "On"}]}}]},
  {"eval_id": "door", "conversation": [{"user_content": {"parts": [{"text": "Lock"}]}}]}
]}
"""
EVENTS = """{"eval_set_id": "home", "eval_cases": [{"evalId": "lamp", "conversation": [{
  "userContent": {"parts": [{"text": "Off"}]},
  "intermediateData": {"invocationEvents": [
    {"author": "helper", "content": {"parts": [{"text": "one"}]}},
    {"author": "helper", "content": {"parts": [
      {"functionCall": {"id": "1", "name": "a", "args": {}}}, {"functionCall": {"id": "2", "name": "b", "args": {}}}]}},
    {"author": "helper", "content": {"parts": [{"functionResponse": {"id": "1", "name": "a", "response": {}}}]}},
    {"author": "helper", "content": {"parts": [{"functionResponse": {"id": "2", "name": "b", "response": {}}}]}}
  ]}}]}]}
"""
EVENTS_WITHOUT_IDS = (
    re.sub('"id": "[12]", ', "", EVENTS).replace('"b"', '"a"').replace('e": {}}}]', 'e": {"n": 1}}}]', 1)
)
LEGACY = json.dumps([{"query": "Hi", "expected_tool_use": [], "reference": "x"}])
TWICE = FLAT.replace('"text": "Done"', '"text": "Done", "text": "Done"')
ANSWER = ("--answer", "1", "Off")
LAMP = "home.test.json:lamp"
EDITS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "message": (FLAT, LAMP, ("--message", "1", "Off, please: ü")),
    "answer": (FLAT, LAMP, ("--answer", "1", "It is off")),
    "new answer": (FLAT, LAMP, ("--answer", "2", "It is on")),
    "args": (FLAT, LAMP, ("--args", "1.3", '{"x": 3}')),
    "turn": (FLAT, LAMP, ("--drop-turn", "2")),
    "rename": (FLAT, LAMP, ("--rename", "light")),
    "delete": (FLAT, LAMP, ("--delete",)),
    "camelCase": (EVENTS, LAMP, ("--message", "1", "On")),
    "args of an event": (EVENTS, LAMP, ("--args", "1.1", '{"y": 1}')),
    "several mean the case as it was": (
        FLAT,
        LAMP,
        ("--drop-turn", "1", "--message", "2", "Lights on", "--answer", "2", "Yes"),
    ),
    "calls and their responses": (FLAT, LAMP, ("--drop-call", "1.3", "--drop-call", "1.2")),
    "call of an event and its response": (EVENTS, LAMP, ("--drop-call", "1.1")),
    "call without an id and the second response": (EVENTS_WITHOUT_IDS, LAMP, ("--drop-call", "1.2")),
    "no such turn": (FLAT, LAMP, ("--drop-turn", "3")),
    "no such call": (FLAT, LAMP, ("--drop-call", "2.1")),
    "no turn": (FLAT, LAMP, ("--drop-call", "1")),
    "zero": (FLAT, LAMP, ("--message", "0", "x")),
    "args that are no object": (FLAT, LAMP, ("--args", "1.1", "[1]")),
    "taken id": (FLAT, LAMP, ("--rename", "door")),
    "no turn left": (FLAT, LAMP, ("--drop-turn", "1", "--drop-turn", "2")),
    "delete and more": (FLAT, LAMP, ("--delete", "--drop-turn", "1")),
    "no terminal": (FLAT, LAMP, ()),
    "empty id": (FLAT, LAMP, ("--rename", "")),
    "no JSON": (FLAT, LAMP, ("--args", "1.1", '{"x": NaN}')),
    "deep": (FLAT, LAMP, ("--args", "1.1", '{"x": ' * 100_000)),
    "unknown case": (FLAT, "home.test.json:lmp", ANSWER),
    "broken file": (FLAT[:-4], LAMP, ANSWER),
    "an older form": (LEGACY, "home.test.json:home.test.json", ANSWER),
    "a key twice": (TWICE, LAMP, ANSWER),
    "no case": (FLAT, "home.test.json", ("--delete",)),
    "no file": (FLAT, "gone.test.json:lamp", ("--delete",)),
}


def test_edit__each_change_and_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says, and the lines of the file that it changes: none with a mistake, and none in a dry run."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "home.test.json"
    blocks = []
    for name, (text, case, arguments) in EDITS.items():
        file.write_text(text, "utf-8")
        main(["edit", case, *arguments, "--dry-run"])
        assert file.read_text("utf-8") == text, name
        capsys.readouterr()
        code = main(["edit", case, *arguments])
        said = re.sub("(?<=takes a JSON object): .*", "", capsys.readouterr().err)
        changed = difflib.unified_diff(text.splitlines(), file.read_text("utf-8").splitlines(), n=0, lineterm="")
        blocks.append("\n".join((f"== {name}: {code}", *list(changed)[2:], said)))
    check("golden_edits.txt", "\n".join(blocks))


# What is accepted of a turn, in each form and spelling of a case.

ALL: frozenset[Field] = frozenset({"calls", "final", "intermediate"})


def event(**part: Any) -> InvocationEvent:
    return InvocationEvent(author="home", content=Content(role="model", parts=[Part(**part)]))


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(id=f"id-{name}", name=name, args=args)


def response(name: str, **value: Any) -> FunctionResponse:
    return FunctionResponse(id=f"id-{name}", name=name, response=value)


ACTUAL = Invocation(
    invocation_id="e-1",
    user_content=user_message("Off."),
    final_response=Content(
        role="model", parts=[Part(text="hm", thought=True), Part(text="It is off.", thought_signature="c2ln")]
    ),
    intermediate_data=InvocationEvents(
        invocation_events=[
            event(text="Let me look."),
            event(function_call=call("find", room="bedroom")),
            event(function_response=response("find", ids=[1])),
            event(function_call=call("switch", on=False)),
            event(function_response=response("switch", ok=True)),
        ]
    ),
)
USER = {"parts": [{"text": "Off."}]}


PRESENT = {"id": "kept", "name": "switch", "args": {"on": False}}
FLAT_TURN = {
    "userContent": USER,
    "finalResponse": {"role": "model", "parts": [{"text": "Off", "thought": False}]},
    "intermediateData": {"toolUses": [PRESENT], "toolResponses": [{"name": "switch", "response": {}}]},
}
SWITCHED = (
    {"author": "home", "content": {"parts": [{"functionCall": {"id": "7", "name": "switch", "args": {"on": False}}}]}},
    {"author": "home", "content": {"parts": [{"functionResponse": {"name": "switch", "response": {}}}]}},
)
SILENT = ACTUAL.model_copy(update={"final_response": None})
ACCEPTED: dict[str, tuple[dict[str, Any], NewTurn]] = {
    "a flat turn, without ids and thoughts": (
        {"user_content": USER, "rubrics": []},
        NewTurn(actual=ACTUAL, fields=frozenset({"calls", "final"})),
    ),
    "what is the same stays, and responses are renewed": (FLAT_TURN, NewTurn(actual=ACTUAL, fields=ALL)),
    "only one call": (FLAT_TURN, NewTurn(actual=ACTUAL, fields=frozenset({"calls"}), calls=(1,))),
    "no answer": (FLAT_TURN, NewTurn(actual=SILENT, fields=frozenset({"final"}))),
    **{
        f"{count} events, of which the same one stays": (
            {"user_content": USER, "intermediate_data": {"invocation_events": SWITCHED[:count]}},
            NewTurn(actual=ACTUAL, fields=frozenset({"calls"})),
        )
        for count in (1, 2)
    },
}


def test_accept_turn__in_each_form() -> None:
    """The kinds of data and the spelling are those of the file."""
    changed = {name: json.dumps(accept_turn(*each), indent=1) for name, each in ACCEPTED.items()}
    check("golden_accepted_turns.txt", "".join(f"== {name}\n{text}\n\n" for name, text in changed.items()))


def test_accept_turn__what_can_not_be_accepted() -> None:
    assert adds_masked({"text": "a"}, {"text": "the key is ***"})
    assert adds_masked({}, {"***": 1})
    assert not adds_masked({"text": "rated ***"}, {"text": "rated ***", "more": "b"}), "it was there before"
    assert too_large({"a": "x"}, {"a": "x" * 1_000_001})
    assert not too_large({"a": "x"}, {"a": "x", "b": "y" * 1_000})


CALLS = st.lists(
    st.builds(
        lambda name, args: FunctionCall(name=name, args=args),
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=2),
    ),
    max_size=4,
)
TURNS = st.builds(
    lambda calls, answer, said, events: Invocation(
        user_content=user_message("Go."),
        final_response=model_message(answer),
        intermediate_data=InvocationEvents(
            invocation_events=[event(function_call=item) for item in calls] + [event(text=text) for text in said]
        )
        if events
        else IntermediateData(tool_uses=calls, intermediate_responses=[("home", [Part(text=text)]) for text in said]),
    ),
    CALLS,
    st.sampled_from(["on", "off", "灯 💡"]),
    st.lists(st.sampled_from(["one", "two"]), max_size=2),
    st.booleans(),
)


@given(present=TURNS, actual=TURNS, by_alias=st.booleans())
def test_accept_turns__the_expectation_equals_the_recorded_behavior(
    present: Invocation, actual: Invocation, by_alias: bool
) -> None:
    turn = present.model_dump(mode="json", by_alias=by_alias, exclude_none=True, exclude_defaults=True)
    case = {"eval_id": "case", "conversation": [turn]}
    before = copy.deepcopy(case)
    changed = accept_turns(case, {0: NewTurn(actual=actual, fields=ALL)})
    assert case == before
    expected = Invocation.model_validate(changed["conversation"][0])
    assert text_of(expected.final_response) == text_of(actual.final_response)
    assert [(item.name, item.args) for item in tool_calls(expected.intermediate_data)] == [
        (item.name, item.args) for item in tool_calls(actual.intermediate_data)
    ]
    assert intermediate_responses(expected) == intermediate_responses(actual)
    assert not tool_responses(expected.intermediate_data)
    assert accept_turns(changed, {0: NewTurn(actual=actual, fields=ALL)}) == changed
