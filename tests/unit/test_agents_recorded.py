import dataclasses
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from recording_samples import facts, turn

from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner, SessionRequest
from agent_eval.agents.recorded import RecordedAgent, check_recording
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import Invocation, adk_value, tool_calls


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


async def answers(source: Path, session_request: SessionRequest, *messages: str) -> list[str]:
    async with started(source) as agent:
        session = await agent.open(session_request)
        texts = [text_of((await session.send(user_message(text), timeout=1)).final_response) for text in messages]
        await session.close()
        await session.close()
        return texts


async def failure(source: Path, session_request: SessionRequest, *messages: str) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await answers(source, session_request, *messages)
    return caught.value


async def test_recorded__an_eval_set_answers_by_eval_id_and_turn(tmp_path: Path) -> None:
    source = eval_set(
        tmp_path / "actual.json", one=[turn("hi", "hello"), turn("more", "更多", "a")], two=[turn("x", "y")]
    )
    assert check_recording("r", source, []) == []
    assert await answers(source, request("one"), "hi", " more\n") == ["hello", "更多"]
    assert await answers(source, request("two", run=4, eval_set="another"), "x") == ["y"]
    async with started(source) as agent:
        session = await agent.open(request("one"))
        await session.send(user_message("hi"), timeout=1)
        invocation = await session.send(user_message("more"), timeout=1)
    assert [call.name for call in tool_calls(invocation.intermediate_data)] == ["a"], "turns come back whole"
    assert agent.provenance["driver"] == "recorded"
    older = tmp_path / "old.test.json"
    older.write_text(json.dumps([{"query": "hi", "expected_tool_use": [], "reference": "hello"}]))
    assert await answers(older, request("old.test.json"), "hi") == ["hello"]


@pytest.mark.parametrize(
    ("eval_id", "messages", "says"),
    [
        ("two", ["on"], ""),
        ("one", ["on", "again"], "turn 2"),
        ("one", ["off"], "'on' instead of 'off'"),
        ("talk", [], "scenario"),
    ],
)
async def test_recorded__what_is_no_answer(tmp_path: Path, eval_id: str, messages: list[str], says: str) -> None:
    source = eval_set(tmp_path / "actual.json", one=[turn("on", "done")])
    scenario = {"eval_id": "talk", "conversation_scenario": {"starting_prompt": "on", "conversation_plan": "talk"}}
    value = json.loads(source.read_text("utf-8"))
    source.write_text(json.dumps({**value, "eval_cases": [*value["eval_cases"], scenario]}), "utf-8")
    failed = await failure(source, request(eval_id), *messages)
    assert (failed.kind, failed.owner) == (FailureKind.NO_ANSWER, Owner.AGENT)
    assert says in failed.message


async def test_open__case_id_before_set_and_eval_id(tmp_path: Path) -> None:
    source = output_dir(
        tmp_path / "out",
        line("x", 0, turn("hi", "of a"), case_id="a.test.json:x"),
        line("x", 0, turn("hi", "of b"), case_id="b.test.json:x"),
        line("y", 0, turn("hi", "moved"), case_id="old.test.json:y"),
    )
    for name in "ab":
        session_request = dataclasses.replace(request("x"), case_id=f"{name}.test.json:x")
        assert await answers(source, session_request, "hi") == [f"of {name}"]
    assert await answers(source, dataclasses.replace(request("y"), case_id="new.test.json:y"), "hi") == ["moved"]


async def test_recorded__an_output_directory_answers_by_set_case_and_run(tmp_path: Path) -> None:
    source = output_dir(
        tmp_path / "out",
        line("one", 0, turn("hi", "first")),
        line("one", 1, turn("hi", "second")),
        "\n",
        line("one", 0, turn("hi", "other set"), eval_set="t"),
        line("one", 1, turn("hi", "second, repeated")),
    )
    assert check_recording("r", source, []) == []
    assert await answers(source, request("one", 0), "hi") == ["first"]
    assert await answers(source, request("one", 1), "hi") == ["second, repeated"]
    assert await answers(source, request("one", 0, "t"), "hi") == ["other set"]
    assert await answers(source / "recordings.jsonl.gz", request("one", 0), "hi") == ["first"]
    missing = await failure(source, request("one", 2), "hi")
    assert missing.kind is FailureKind.NO_ANSWER
    assert "run 3" in missing.message


async def test_open__hidden_tool_calls_stay_hidden(tmp_path: Path) -> None:
    source = output_dir(tmp_path / "out", line("a", 0, turn("hi", "Hello"), calls_visible=False), line("b", 0))
    async with started(source) as agent:
        hidden, shown = await agent.open(request("a")), await agent.open(request("b"))
        assert (hidden.shows_tool_calls, shown.shows_tool_calls) == (False, True)


@pytest.mark.parametrize(
    ("kind", "owner", "expected"),
    [
        ("agent-crash", "agent", (FailureKind.CRASH, Owner.AGENT)),
        ("provider-unavailable", "provider", (FailureKind.PROVIDER, Owner.PROVIDER)),
        ("budget-spent", "gate", (FailureKind.NO_ANSWER, Owner.PROVIDER)),
    ],
)
async def test_recorded__a_recorded_failure_fails_alike(
    tmp_path: Path, kind: str, owner: str, expected: tuple[FailureKind, Owner]
) -> None:
    error = {"kind": kind, "owner": owner, "message": "it ended", "traceback": "Traceback ...", "turn": 1}
    source = output_dir(tmp_path / "out", line("one", 0, turn("hi", "hello"), error=error))
    assert await answers(source, request("one"), "hi") == ["hello"]
    failed = await failure(source, request("one"), "hi", "more")
    assert (failed.kind, failed.owner) == expected
    assert (failed.message, failed.traceback) == ("it ended", "Traceback ...")


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
    "trace.json": (b'{"resourceSpans": []}', "It is a trace"),
    "spans.json": (b'[{"name": "call_llm", "span_id": 1, "trace_id": 2}]', "It is a trace"),
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
    failed = await failure(source, request("x"))
    assert says in f"{failed} {failed.hint}"
    assert failed.kind is FailureKind.IMPORT


async def test_start__a_second_one_after_a_failure_fails_again(tmp_path: Path) -> None:
    agent = RecordedAgent(output_dir(tmp_path / "out", line("x", 0, turn("hi", "yes")), "{}\n"))
    for _ in range(2):
        with pytest.raises(AgentFailure, match="line 2 is not the recording"):
            await agent.start()
