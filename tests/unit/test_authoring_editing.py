"""`agent-eval edit`: each edit changes what it names, and nothing else in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli import main

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
