"""Eval cases made of a session: which turns, edits and expectations."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import recording_samples
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.cli import main
from agent_eval.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, text_of, user_message
from agent_eval.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
    tool_calls,
    tool_responses,
)
from agent_eval.criteria import build
from agent_eval.evalset.models import CriterionConfig, EvalCase, MatchType
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
NEW_ANSWER = '"On"}]}, "final_response": {"role": "model", "parts": [{"text": "It is on"}]}}'
LAMP = FLAT[FLAT.index('  {"eval_id": "lamp"') : FLAT.index('  {"eval_id": "door"')]


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command on a file, and returns its exit code and the text of the file."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str, case: str = "lamp") -> tuple[int, str]:
        (tmp_path / "home.test.json").write_text(text, "utf-8")
        code = main(["edit", f"home.test.json:{case}", *arguments])
        return code, (tmp_path / "home.test.json").read_text("utf-8")

    return run


@pytest.mark.parametrize(
    ("text", "arguments", "old", "new"),
    [
        pytest.param(FLAT, ["--message", "1", "Off, please: ü"], '"Off"', '"Off, please: ü"', id="message"),
        pytest.param(FLAT, ["--answer", "1", "It is off"], '"Done"', '"It is off"', id="answer"),
        pytest.param(FLAT, ["--answer", "2", "It is on"], '"On"}]}}', NEW_ANSWER, id="new answer"),
        pytest.param(FLAT, ["--args", "1.3", '{"x": 3}'], '{"x": 2}', '{"x": 3}', id="args"),
        pytest.param(FLAT, ["--drop-turn", "2"], ',\n    {"user_content": {"parts": [{"text": "On"}]}}', "", id="turn"),
        pytest.param(FLAT, ["--rename", "light"], '"lamp"', '"light"', id="rename"),
        pytest.param(FLAT, ["--delete"], LAMP, "", id="delete"),
        pytest.param(EVENTS, ["--message", "1", "On"], '"Off"', '"On"', id="camelCase"),
        pytest.param(
            EVENTS, ["--args", "1.1", '{"y": 1}'], '"a", "args": {}', '"a", "args": {"y": 1}', id="args of an event"
        ),
    ],
)
def test_edit__changes_only_what_is_named(edit: Any, text: str, arguments: list[str], old: str, new: str) -> None:
    assert edit(text, *arguments, "--dry-run") == (0, text)
    assert text.count(old) == 1
    assert edit(text, *arguments) == (0, text.replace(old, new))


def kinds(text: str) -> list[str]:
    """Of the events, which have one part each."""
    events = json.loads(text)["eval_cases"][0]["conversation"][0]["intermediateData"]["invocationEvents"]
    parts = [event["content"]["parts"] for event in events]
    return [next(iter(part)) for [part] in parts]


def test_edit__a_dropped_call_takes_its_response_with_it(edit: Any) -> None:
    code, text = edit(FLAT, "--drop-turn", "1", "--message", "2", "Lights on", "--answer", "2", "Yes")
    (turn,) = json.loads(text)["eval_cases"][0]["conversation"]
    assert (code, turn["user_content"]["parts"][0]["text"]) == (0, "Lights on"), "several mean the case as it was"
    code, text = edit(FLAT, "--drop-call", "1.3", "--drop-call", "1.2")
    data = json.loads(text)["eval_cases"][0]["conversation"][0]["intermediate_data"]
    assert code == 0
    assert data["tool_uses"] == [{"name": "a", "args": {"x": 1}}]
    assert data["tool_responses"] == [{"name": "a", "response": {"n": 1}}]
    code, text = edit(EVENTS, "--drop-call", "1.1")
    assert (code, kinds(text)) == (0, ["text", "functionCall", "functionResponse"])
    assert '"id": "1"' not in text
    without_ids = EVENTS.replace('"id": "1", ', "").replace('"id": "2", ', "").replace('"b"', '"a"')
    numbered = without_ids.replace('"response": {}', '"response": {"n": 1}', 1).replace('": {}}}]', '": {"n": 2}}}]')
    code, text = edit(numbered, "--drop-call", "1.2")
    assert (code, kinds(text)) == (0, ["text", "functionCall", "functionResponse"])
    assert ('{"n": 1}' in text, '{"n": 2}' in numbered, '{"n": 2}' in text) == (True, True, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--drop-turn", "3"], "[edit-number] The case has no turn 3.", id="no such turn"),
        pytest.param(["--drop-call", "2.1"], "Turn 2 has no call 1.", id="no such call"),
        pytest.param(["--drop-call", "1"], "is not TURN.NUMBER", id="no turn"),
        pytest.param(["--message", "0", "x"], "the first turn is 1", id="zero"),
        pytest.param(["--args", "1.1", "[1]"], "a JSON object", id="args"),
        pytest.param(["--rename", "door"], "[duplicate-eval-id]", id="taken id"),
        pytest.param(["--drop-turn", "1", "--drop-turn", "2"], "[empty-conversation]", id="no turn left"),
        pytest.param(["--delete", "--drop-turn", "1"], "leave out the other flags", id="delete and more"),
        pytest.param([], "there is no terminal", id="no terminal"),
        pytest.param(["--rename", ""], "--rename takes an id that is not empty", id="empty id"),
        pytest.param(["--args", "1.1", '{"x": NaN}'], "--args takes a JSON object", id="no JSON"),
        pytest.param(["--args", "1.1", '{"x": ' * 100_000], "--args takes a JSON object", id="deep"),
    ],
)
def test_edit__mistakes_change_nothing(
    edit: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert edit(FLAT, *arguments) == (2, FLAT)
    assert message in capsys.readouterr().err


def test_edit__files_and_cases_that_can_not_be_edited(edit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    legacy = json.dumps([{"query": "Hi", "expected_tool_use": [], "reference": "x"}])
    twice = FLAT.replace('"text": "Done"', '"text": "Done", "text": "Done"')
    for text, case, code in (
        (FLAT, "lmp", "edit-unknown"),
        (FLAT[:-4], "lamp", "json-truncated"),
        (legacy, "home.test.json", "edit-legacy"),
        (twice, "lamp", "edit-patch"),
    ):
        assert edit(text, "--answer", "1", "Off", case=case) == (2, text)
        assert f"[{code}]" in capsys.readouterr().err
    for name, said in (("home.test.json", "FILE:EVAL_ID"), ("gone.test.json:lamp", "[unreadable-file]")):
        assert main(["edit", name, "--delete"]) == 2
        assert said in capsys.readouterr().err


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


def test_accept_turn__flat_without_ids_and_thoughts() -> None:
    turn = {"user_content": USER, "rubrics": []}
    assert accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls", "final"}))) == {
        "user_content": USER,
        "final_response": {"role": "model", "parts": [{"text": "It is off."}]},
        "intermediate_data": {
            "tool_uses": [{"name": "find", "args": {"room": "bedroom"}}, {"name": "switch", "args": {"on": False}}]
        },
        "rubrics": [],
    }


def test_accept_turn__flat_keeps_what_is_the_same_and_renews_responses() -> None:
    present = {"id": "kept", "name": "switch", "args": {"on": False}}
    turn = {
        "userContent": USER,
        "finalResponse": {"role": "model", "parts": [{"text": "Off", "thought": False}]},
        "intermediateData": {"toolUses": [present], "toolResponses": [{"name": "switch", "response": {}}]},
    }
    changed = accept_turn(turn, NewTurn(actual=ACTUAL, fields=ALL))
    assert [*changed] == [*turn], "the spelling of the file"
    assert changed["finalResponse"]["parts"] == [{"text": "It is off.", "thought": False}]
    data = changed["intermediateData"]
    assert data["toolUses"] == [{"name": "find", "args": {"room": "bedroom"}}, present]
    assert data["toolUses"][1] is present
    assert data["toolResponses"] == [
        {"name": "find", "response": {"ids": [1]}},
        {"name": "switch", "response": {"ok": True}},
    ]
    assert data["intermediateResponses"] == [["home", [{"text": "Let me look."}]]]
    only = accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls"}), calls=(1,)))
    assert only["intermediateData"]["toolUses"] == [present]
    assert only["finalResponse"] is turn["finalResponse"]


@pytest.mark.parametrize("with_responses", [True, False])
def test_accept_turn__events_of_the_kinds_that_the_file_has(with_responses: bool) -> None:
    parts = [
        {"functionCall": {"id": "7", "name": "switch", "args": {"on": False}}},
        {"functionResponse": {"name": "switch", "response": {}}},
    ]
    events = [{"author": "home", "content": {"parts": [part]}} for part in parts[: 2 if with_responses else 1]]
    turn = {"user_content": USER, "intermediate_data": {"invocation_events": events}}
    changed = accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls"})))
    written = changed["intermediate_data"]["invocation_events"]
    assert [next(iter(item["content"]["parts"][0])) for item in written] == (
        ["functionCall", "functionResponse"] * 2 if with_responses else ["functionCall"] * 2
    )
    assert written[2 if with_responses else 1] is events[0], "an event that says the same stays, with its id"
    parsed = tool_calls(Invocation.model_validate(changed).intermediate_data)
    assert [(item.name, item.args) for item in parsed] == [("find", {"room": "bedroom"}), ("switch", {"on": False})]


def test_accept_turn__no_answer_and_what_can_not_be_accepted() -> None:
    silent = ACTUAL.model_copy(update={"final_response": None})
    turn = {"user_content": USER, "final_response": {"parts": [{"text": "Off"}]}}
    assert accept_turn(turn, NewTurn(actual=silent, fields=frozenset({"final"}))) == {"user_content": USER}
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
