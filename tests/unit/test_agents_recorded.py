import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner, SessionRequest
from agent_eval.agents.recorded import RecordedAgent
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import tool_calls


def turn(user: str, answer: str, *tools: str) -> dict[str, Any]:
    return {
        "invocation_id": "i",
        "user_content": {"role": "user", "parts": [{"text": user}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": {"tool_uses": [{"name": tool, "args": {}} for tool in tools]},
    }


def line(eval_id: str, run: int, *turns: dict[str, Any], eval_set: str = "s", **more: Any) -> str:
    facts = {
        "run_id": f"{eval_id}-{run}",
        "case_id": eval_id,
        "file": "x.test.json",
        "eval_set_id": eval_set,
        "eval_id": eval_id,
        "run": run,
        "fingerprint": "f",
        "invocations": list(turns),
        "started_at": 0.0,
        "duration": 1.0,
    }
    return json.dumps(facts | more) + "\n"


def eval_set(path: Path, **cases: list[dict[str, Any]]) -> Path:
    content = {
        "name": 'tricky ] } , "eval_cases"',
        "eval_set_id": "s",
        "eval_cases": [{"eval_id": name, "conversation": turns} for name, turns in cases.items()],
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


async def answers(source: Path, wanted: SessionRequest, *messages: str) -> list[str]:
    agent = RecordedAgent(source)
    await agent.start()
    try:
        session = await agent.open(wanted)
        found = [text_of((await session.send(user_message(text), timeout=1)).final_response) for text in messages]
        await session.close()
        await session.close()
        return found
    finally:
        await agent.close()


async def failure(source: Path, wanted: SessionRequest, *messages: str) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await answers(source, wanted, *messages)
    return caught.value


async def test_an_eval_set_answers_by_eval_id_and_turn(tmp_path: Path) -> None:
    source = eval_set(tmp_path / "actual.json", one=[turn("hi", "hello"), turn("more", "更多")], two=[turn("x", "y")])
    assert await answers(source, request("one"), "hi", "more") == ["hello", "更多"]
    assert await answers(source, request("two", run=4, eval_set="another"), "x") == ["y"]


async def test_turns_come_back_whole(tmp_path: Path) -> None:
    agent = RecordedAgent(eval_set(tmp_path / "actual.json", one=[turn("hi", "hello", "a", "b")]))
    await agent.start()
    session = await agent.open(request("one"))
    invocation = await session.send(user_message("hi"), timeout=1)
    assert [call.name for call in tool_calls(invocation.intermediate_data)] == ["a", "b"]
    await agent.close()
    assert agent.provenance["driver"] == "recorded"


async def test_an_output_directory_answers_by_set_case_and_run(tmp_path: Path) -> None:
    source = output_dir(
        tmp_path / "out",
        line("one", 0, turn("hi", "first")),
        line("one", 1, turn("hi", "second")),
        "\n",
        line("one", 0, turn("hi", "other set"), eval_set="t"),
        line("one", 1, turn("hi", "second, repeated")),
    )
    assert await answers(source, request("one", 0), "hi") == ["first"]
    assert await answers(source, request("one", 1), "hi") == ["second, repeated"]
    assert await answers(source, request("one", 0, "t"), "hi") == ["other set"]
    assert await answers(source / "recordings.jsonl.gz", request("one", 0), "hi") == ["first"]
    missing = await failure(source, request("one", 2), "hi")
    assert missing.kind is FailureKind.NO_ANSWER
    assert "run 3" in missing.message


async def test_a_missing_case_or_turn_is_no_answer(tmp_path: Path) -> None:
    source = eval_set(tmp_path / "actual.json", one=[turn("hi", "hello")])
    no_case = await failure(source, request("two"), "hi")
    no_turn = await failure(source, request("one"), "hi", "again")
    assert (no_case.kind, no_case.owner) == (FailureKind.NO_ANSWER, Owner.AGENT)
    assert no_turn.kind is FailureKind.NO_ANSWER
    assert "turn 2" in no_turn.message


async def test_an_answer_to_another_message_does_not_count(tmp_path: Path) -> None:
    source = eval_set(tmp_path / "actual.json", one=[turn("turn on the lamp", "done")])
    failed = await failure(source, request("one"), "turn off the lamp")
    assert failed.kind is FailureKind.NO_ANSWER
    assert "'turn on the lamp' instead of 'turn off the lamp'" in failed.message
    assert await answers(source, request("one"), " turn on the lamp\n") == ["done"]


async def test_a_scenario_holds_no_answers(tmp_path: Path) -> None:
    source = tmp_path / "actual.json"
    case = {"eval_id": "one", "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "talk"}}
    source.write_text(json.dumps({"eval_set_id": "s", "eval_cases": [case]}))
    assert "scenario" in (await failure(source, request("one"))).message


@pytest.mark.parametrize(
    ("kind", "owner", "expected"),
    [
        ("agent-crash", "agent", (FailureKind.CRASH, Owner.AGENT)),
        ("provider-unavailable", "provider", (FailureKind.PROVIDER, Owner.PROVIDER)),
        ("budget-spent", "gate", (FailureKind.NO_ANSWER, Owner.PROVIDER)),
    ],
)
async def test_a_recorded_failure_fails_alike(
    tmp_path: Path, kind: str, owner: str, expected: tuple[FailureKind, Owner]
) -> None:
    error = {"kind": kind, "owner": owner, "message": "it ended", "traceback": "Traceback ...", "turn": 1}
    source = output_dir(tmp_path / "out", line("one", 0, turn("hi", "hello"), error=error))
    assert await answers(source, request("one"), "hi") == ["hello"]
    failed = await failure(source, request("one"), "hi", "more")
    assert (failed.kind, failed.owner) == expected
    assert (failed.message, failed.traceback) == ("it ended", "Traceback ...")


async def test_adks_older_form_is_a_recording_too(tmp_path: Path) -> None:
    source = tmp_path / "old.test.json"
    source.write_text(json.dumps([{"query": "hi", "expected_tool_use": [], "reference": "hello"}]))
    assert await answers(source, request("old.test.json"), "hi") == ["hello"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", b'{"eval_set_id": "s", "eval_cases": [', "a.json"),
        ("a.json", b"", "a.json"),
        ("a.json", b'{"eval_set_id": "s"}', "eval_cases"),
        ("a.jsonl", b'{"eval_id": "one"}\n', "line 1 is no recording"),
        ("a.jsonl.gz", b"no gzip", "a.jsonl.gz"),
        ("a.jsonl.gz", gzip.compress(b"x" * 1000, mtime=0)[:30], "a.jsonl.gz"),
    ],
)
async def test_an_unreadable_recording_is_said_at_the_start(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    agent = RecordedAgent(tmp_path / name)
    with pytest.raises(AgentFailure) as caught:
        await agent.start()
    await agent.close()
    assert caught.value.kind is FailureKind.IMPORT
    assert words in caught.value.message


async def test_a_missing_recording(tmp_path: Path) -> None:
    agent = RecordedAgent(tmp_path / "missing.json")
    with pytest.raises(AgentFailure, match="does not exist"):
        await agent.start()
    await agent.close()
