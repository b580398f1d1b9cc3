"""`agent-eval run --agent a2a:URL` as a process: exit codes, states, hidden tool calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_fake import WORDS, fake_a2a
from gate_runs import Done, Repository, repository_in

TEXT_ONLY = [WORDS["1.0"].answer("hello")]


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path) as made:
        made.evals("evals/hello.evalset.json", {"greets": "hello"})
        yield made


async def gate(repository: Repository, url: str, *arguments: str) -> Done:
    return await asyncio.to_thread(repository.gate, "run", "evals", "--agent", f"a2a:{url}", *arguments, python=False)


def configure(repository: Repository, **criteria: float) -> None:
    (repository.root / "evals/test_config.json").write_text(json.dumps({"criteria": criteria}), encoding="utf-8")


async def test_run__hidden_tool_calls_are_never_green(repository: Repository, tmp_path: Path) -> None:
    configure(repository, tool_trajectory_avg_score=1.0)
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=TEXT_ONLY) as fake:
        done = await gate(repository, fake.url)
    assert (done.code, done.report.verdict) == (3, "inconclusive"), done.out
    [metric] = [metric for metric in done.report.cases[0].metrics if metric.name == "tool_trajectory_avg_score"]
    assert metric.status == "not_evaluated"
    assert metric.reason is not None
    assert metric.reason.code == "calls-not-visible"
    assert "does not show tool calls" in done.out

    again = await asyncio.to_thread(
        repository.gate,
        *("run", "evals", "--agent", f"recorded:{done.output}"),
        python=False,
        output=tmp_path / "again",
    )
    assert (again.code, again.report.verdict) == (3, "inconclusive")


async def test_run__a_state_is_refused_before_anything_is_sent(repository: Repository) -> None:
    path = repository.root / "evals/hello.evalset.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    document["eval_cases"][0]["session_input"] = {"app_name": "x", "user_id": "u", "state": {"room": "kitchen"}}
    path.write_text(json.dumps(document), encoding="utf-8")
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=TEXT_ONLY) as fake:
        refused = await gate(repository, fake.url)
        assert refused.code == 2
        assert "a2a-no-state" in refused.out + refused.err
        assert "greets" in refused.out + refused.err
        assert fake.calls == []

        (repository.root / "agent-eval.toml").write_text("remote-sessions = 'ignore-state'\n", encoding="utf-8")
        ignored = await gate(repository, fake.url)
    assert ignored.code == 0, ignored.out + ignored.err
    assert ignored.report.provenance["driver"] == "a2a"
    assert [recording.calls_visible for recording in ignored.recordings] == [False]
    assert "a2a-no-state" in ignored.out + ignored.err


async def test_run__an_agent_that_fails_is_red_and_its_provider_is_not(repository: Repository) -> None:
    words = WORDS["0.3"]
    broken = words.status("failed", words.message("no die", metadata={"adk_error_code": "ValueError"}))
    busy = words.status("failed", words.message("later", metadata={"adk_error_code": "UNAVAILABLE"}))
    async with fake_a2a(words, SendStreamingMessage=[[broken], [busy]]) as fake:
        failed = await gate(repository, fake.url)
        unavailable = await gate(repository, fake.url)
    assert (failed.code, unavailable.code) == (1, 3), failed.out + unavailable.out


async def test_run__no_server_is_not_green(repository: Repository) -> None:
    done = await gate(repository, "http://127.0.0.1:9")
    assert done.code == 1
    assert "can't be reached" in done.out
