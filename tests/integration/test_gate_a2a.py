"""`agent-eval run --agent a2a:URL` as a process: exit codes, states, hidden tool calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a2a_fake import WORDS, fake_a2a
from gate_runs import Done, Repository, eval_set

TEXT_ONLY = [WORDS["1.0"].answer("hello")]


@pytest.fixture(autouse=True)
def evals(repository: Repository) -> None:
    repository.evals("evals/hello.evalset.json", {"greets": "hello"})


async def gate(repository: Repository, url: str, *arguments: str) -> Done:
    return await asyncio.to_thread(repository.gate, "run", "evals", "--agent", f"a2a:{url}", *arguments, python=False)


async def test_run__hidden_tool_calls_are_never_green(repository: Repository, tmp_path: Path) -> None:
    repository.write({"evals/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0}}})
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
    document = eval_set("hello", {"greets": [("hello", "hello")]})
    document["eval_cases"][0]["session_input"] = {"app_name": "x", "user_id": "u", "state": {"room": "kitchen"}}
    repository.write({"evals/hello.evalset.json": document})
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=TEXT_ONLY) as fake:
        refused = await gate(repository, fake.url)
        assert refused.code == 2
        assert "a2a-no-state" in refused.out + refused.err
        assert "greets" in refused.out + refused.err
        assert fake.calls == []

        repository.write({"agent-eval.toml": "remote-sessions = 'ignore-state'\n"})
        ignored = await gate(repository, fake.url)
    assert ignored.code == 0, ignored.out + ignored.err
    assert ignored.report.provenance["driver"] == "a2a"
    assert [recording.calls_visible for recording in ignored.recordings] == [False]
    assert "a2a-no-state" in ignored.out + ignored.err
