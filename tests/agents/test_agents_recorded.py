import dataclasses
import gzip
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import golden_files
import pytest
from recording_samples import facts, turn

from agent_eval_agents.protocol import AgentFailure, SessionRequest
from agent_eval_agents.recorded import DRIVER, RecordedAgent, UnusableRecording, check_recording, entries
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.invocation import Invocation, adk_value, tool_calls
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import LoadedFile


def line(eval_id: str, run: int, *turns: Invocation, eval_set: str = "s", **more: Any) -> str:
    return (
        json.dumps(facts(eval_id, run=run, eval_set_id=eval_set, invocations=list(map(adk_value, turns)), **more))
        + "\n"
    )


def eval_set(path: Path, **cases: list[Invocation]) -> Path:
    content = {
        "name": 'tricky ] } , "eval_cases"',
        "eval_set_id": "s",
        "eval_cases": [{"eval_id": name, "conversation": list(map(adk_value, turns))} for name, turns in cases.items()],
        "creation_timestamp": 0.0,
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), "utf-8")
    return path


def output_dir(path: Path, *lines: str) -> Path:
    path.mkdir()
    (path / "recordings.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    return path


def request(eval_id: str, run: int = 0, eval_set: str = "s") -> SessionRequest:
    return SessionRequest(eval_set_id=eval_set, eval_id=eval_id, run=run, app_name="app", user_id="user")


@asynccontextmanager
async def started(source: Path) -> AsyncIterator[RecordedAgent]:
    agent = RecordedAgent(source)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.close()


async def answered(source: Path, of: SessionRequest, *messages: str) -> str:
    """What a session answers, or how it fails."""
    texts = []
    try:
        async with started(source) as agent:
            session = await agent.open(of)
            for message in messages:
                turn = await session.send(user_message(message), timeout=1)
                texts.append(
                    f"{text_of(turn.final_response)} {[call.name for call in tool_calls(turn.intermediate_data)]}"
                )
            texts += [] if session.shows_tool_calls else ["without calls"]
            await session.close()
            await session.close()
    except AgentFailure as failed:
        facts = (f"{failed.kind} ({failed.owner}): {failed}", failed.traceback, failed.hint)
        texts.append("\n    ".join(filter(None, facts)))
    return ", ".join(texts)


def broken(eval_id: str, kind: str, owner: str) -> str:
    error = {"kind": kind, "owner": owner, "message": "it ended", "traceback": "Traceback ...", "turn": 1}
    return line(eval_id, 0, turn("hi", "hello"), error=error)


LINES = [
    line("one", 0, turn("hi", "first")),
    line("one", 1, turn("hi", "second")),
    "\n",
    line("one", 0, turn("hi", "other set"), eval_set="t"),
    line("one", 1, turn("hi", "second, repeated")),
    line("x", 0, turn("hi", "of a"), case_id="a.test.json:x"),
    line("x", 0, turn("hi", "of b"), case_id="b.test.json:x"),
    line("y", 0, turn("hi", "moved"), case_id="old.test.json:y"),
    line("hidden", 0, turn("hi", "Hello"), calls_visible=False),
    broken("crashed", "agent-crash", "agent"),
    broken("down", "provider-unavailable", "provider"),
    broken("spent", "budget-spent", "gate"),
]
TALK = {"eval_id": "talk", "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "talk"}}
OLDER = [{"query": "hi", "expected_tool_use": [], "reference": "hello"}]
ASKED: dict[str, list[tuple[SessionRequest, str]]] = {
    "out": [
        *((request("one", run), "hi") for run in range(3)),
        (request("one", 0, "t"), "hi"),
        *((dataclasses.replace(request("x"), case_id=f"{name}.test.json:x"), "hi") for name in "ab"),
        (dataclasses.replace(request("y"), case_id="new.test.json:y"), "hi"),
        (request("hidden"), "hi"),
        *((request(name), "hi,more") for name in ("crashed", "down", "spent")),
    ],
    "out/recordings.jsonl.gz": [(request("one"), "hi")],
    "actual.json": [
        (request("one"), "hi, more\n"),
        (request("two", 4, "another"), "x"),
        (request("three"), "hi"),
        (request("two"), "x,again"),
        (request("two"), "y"),
        (request("talk"), "hi"),
    ],
    "old.test.json": [(request("old.test.json"), "hi")],
}


async def test_recorded__what_is_answered(tmp_path: Path) -> None:
    """By case, set, eval id and run; of an eval set, by eval id and turn."""
    output_dir(tmp_path / "out", *LINES)
    turns = [turn("hi", "hello"), turn("more", "更多", "a")]
    value = json.loads(eval_set(tmp_path / "actual.json", one=turns, two=[turn("x", "y")]).read_text("utf-8"))
    (tmp_path / "actual.json").write_text(json.dumps({**value, "eval_cases": [*value["eval_cases"], TALK]}), "utf-8")
    (tmp_path / "old.test.json").write_text(json.dumps(OLDER))
    lines = []
    for name, asked in ASKED.items():
        assert check_recording("r", tmp_path / name, []) == []
        lines.append(f"{name}:")
        for of, messages in asked:
            found = await answered(tmp_path / name, of, *messages.split(","))
            lines.append(f"  {of.eval_set_id} {of.case_id} {of.eval_id}#{of.run}, {messages!r}: {found}")
    async with started(tmp_path / "out") as agent:
        assert agent.provenance["driver"] == "recorded"
    golden_files.check("golden_recorded_agents.txt", "\n".join(lines).replace(str(tmp_path), "ROOT") + "\n")


NO_RECORDING = {
    "cut.jsonl.gz": (gzip.compress(line("x", 0, turn("hi", "yes")).encode() * 50)[:60], "damaged"),
    "zlib.jsonl.gz": (gzip.compress(b"\n")[:10] + b"\xff" * 40, "damaged"),
    "crc.jsonl.gz": (gzip.compress(b"\n" * 999)[:-8] + b"\0" * 8, "CRC check failed"),
    "plain.jsonl.gz": (b"{}\n", "Not a gzipped file"),
    "deep.jsonl": (b"[" * 100_000 + b"\n", "line 1 is not the recording"),
    "list.jsonl": (line("x", 0).replace('"eval_id": "x"', '"eval_id": ["x"]').encode(), "line 1 is not the recording"),
    "digits.jsonl": (b"1" * 5_000 + b"\n", "line 1 is not the recording"),
    "empty.jsonl": (b"\n", "it has no runs"),
    "bytes.json": (b'{"eval_cases": [{"eval_id": "\xff"}]}', "not UTF-8"),
    "deep.json": (b'{"eval_cases": ' + b"[" * 100_000, "more than 200 deep"),
    "cases.json": (b'{"eval_set_id": "s"}', "eval_cases"),
    "list.json": (b'{"eval_set_id": "s", "eval_cases": [{"eval_id": ["x"]}]}', "must be a string"),
    "result.json": (b'{"eval_set_result_id": "r", "eval_case_results": []}', "it has no cases"),
    "broken.json": (b'{"eval_case_results": [{"eval_id": 3}]}', "eval_case_results.0"),
    "results.json": (b'{"schema_version": "1", "tool_version": "1", "cases": []}', "results.json of agent-eval"),
    "trace.json": (b'{"resourceSpans": []}', "its spans have no turn of an agent"),
    "spans.json": (b'[{"name": "call_llm", "span_id": 1, "trace_id": 2}]', "lacks a name or a start time"),
    "cut.jsonl": (b'{"resourceSpans": []}\n{"resourceSpans": [', "cut.jsonl:2: "),
    "session.json": (b'{"id": "s", "appName": "a", "userId": "u", "events": []}', "recorded session of ADK"),
    "table.json": (b'{"on": "The lamp is on."}', "is not a recording"),
    "config.json": (b'{"criteria": {"response_match_score": 1}}', "looks like a config file"),
}


@pytest.mark.parametrize("name", NO_RECORDING)
async def test_check_recording__what_is_none_is_an_error_before_anything_runs(tmp_path: Path, name: str) -> None:
    data, says = NO_RECORDING[name]
    source = tmp_path / name
    source.write_bytes(data)
    [problem] = check_recording(f"recorded:{name}", source, [])
    assert (problem.severity, problem.code) == ("error", "recording-unusable")
    assert says in str(problem)
    assert len(str(problem)) < 1_000
    failed = await answered(source, request("x"))
    assert says in failed and failed.startswith("agent-import (agent)")


def test_check_recording__an_expected_answer_that_an_eval_set_lacks_is_not_the_agents_silence(tmp_path: Path) -> None:
    def loaded(path: Path) -> LoadedFile:
        return load_suite(tmp_path, [path.name], exclude=[]).files[0]

    expected = loaded(eval_set(tmp_path / "a.test.json", one=[turn("hi", "hello")], two=[turn("hi", "hello")]))
    value = json.loads((tmp_path / "a.test.json").read_text("utf-8"))
    del value["eval_cases"][1]["conversation"][0]["final_response"]
    (tmp_path / "r.json").write_text(json.dumps(value, indent=1), "utf-8")
    [problem] = check_recording("r.json", tmp_path / "r.json", [expected])
    assert (problem.severity, problem.code, problem.file) == ("warning", "recording-unusable", "r.json")
    assert (problem.line or 0) > 1 and "Turn 1 of `two` has no `final_response`" in problem.message
    value["eval_cases"][1]["conversation"] = "hello"
    (tmp_path / "r.json").write_text(json.dumps(value), "utf-8")
    assert check_recording("r.json", tmp_path / "r.json", [expected]) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"eval_cases": [ONE, TWO], "eval_set_id": "s"}', ["one", "two"]),
        ('{"eval_set_id": "s", "eval_cases" :\n[ ONE\n,TWO ]}', ["one", "two"]),
        ('{"eval_set_id": "s", "eval_cases": [ONE], "eval_cases": [TWO]}', ["two"]),
        ('{"eval_set_id": "s", "more": {"eval_cases": [ONE]}, "eval_cases": [TWO]}', ["two"]),
        ('{"eval_set_id": "\\"eval_cases\\": [", "eval_cases": [ONE]}', ["one"]),
        ('{"eval_set_id": "s", "eval_cases": [ONE TWO]}', []),
        ('{"eval_set_id": "s", "eval_cases": [ONE, ]}', []),
        ('{"eval_set_id": "s", "eval_cases": [ONE], }', []),
        ('{"eval_set_id": "s", "eval_cases": [ONE', []),
        ('{"eval_set_id": "s", "eval_cases": [ONE, 1]}', []),
    ],
)
def test_entries__the_cases_of_an_eval_set(tmp_path: Path, text: str, found: list[str]) -> None:
    said = {"parts": [{"text": "\\"}]}
    for name in ("one", "two"):
        own = {"eval_id": name, "conversation": [{"user_content": said, "final_response": said}]}
        text = text.replace(name.upper(), json.dumps(own))
    (tmp_path / "r.json").write_text(text, "utf-8")
    read: dict[str, bytes] = {}
    try:
        read = {eval_id: data for [(_, eval_id, _)], data, _ in entries(tmp_path / "r.json")}
        wrong = False
    except UnusableRecording:
        wrong = True
    assert wrong == (not found) and (wrong or [*read][-len(found) :] == found)
    assert all(json.loads(data)["conversation"][0]["final_response"] for data in read.values())


async def test_start__a_second_one_after_a_failure_fails_again(tmp_path: Path) -> None:
    agent = RecordedAgent(output_dir(tmp_path / "out", line("x", 0, turn("hi", "yes")), "{}\n"))
    for _ in range(2):
        with pytest.raises(AgentFailure, match="line 2 is not the recording"):
            await agent.start()


def test_refuse__a_fifo_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    problem = DRIVER.refuse("pipe", tmp_path, "`agent`")
    assert problem is not None and problem.message.endswith("which is not a regular file")
