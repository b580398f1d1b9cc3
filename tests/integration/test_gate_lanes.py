"""The agent's provider and the judge's may be two: what one of them throttles is no reason to ask the other less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from gate_runs import Done, Repository, repository_in
from judged_gate import KEY, Judge, criteria

pytestmark = pytest.mark.slow

CASES = 40
AT_ONCE = 8


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo", "gemini") as made:
        made.evals("evals/some.test.json", {f"c{number}": f"Question {number}?" for number in range(CASES)})
        yield made


def run(repository: Repository, agents: FakeGemini, judges: FakeGemini) -> Done:
    return repository.gate(
        *("run", "evals", "--agent", "gemini", "--judge-base-url", judges.url, "--concurrency", str(AT_ONCE)),
        environment={
            "AGENT_EVAL_JUDGE_API_KEY": KEY,
            "GOOGLE_API_KEY": "the-agents-key",
            "GOOGLE_GEMINI_BASE_URL": agents.url,
        },
    )


def test_lanes__throttled_agent_leaves_the_judge_at_full_speed(repository: Repository) -> None:
    criteria(repository, "final_response_match_v2", "safety_v1", samples=15)
    repository.evals("evals/some.test.json", {f"c{number}": f"Question {number}?" for number in range(2 * AT_ONCE)})
    faults = [Fault(kind=429, retry_after=0)] * 4
    judge = Judge()

    def verdict(request: GenerateRequest) -> Answer:
        """Held until all places are taken: how soon that is depends on how busy the machine is."""
        return replace(judge(request), latency=3.0 if judges.stats.peak_in_flight < 15 else 0.05)

    with (
        FakeGemini(lambda _: Answer.text("Paris."), faults=faults) as agents,
        FakeGemini(verdict, keep=2_000) as judges,
    ):
        done = run(repository, agents, judges)

    assert (done.code, len(done.statuses)) == (0, 2 * AT_ONCE), done.out + done.err
    assert agents.stats.statuses == {429: 4, 200: 2 * AT_ONCE}
    assert judges.stats.peak_in_flight >= 16
    assert {request.headers["x-goog-api-key"] for request in judges.received} == {KEY}
    assert {request.headers["x-goog-api-key"] for request in agents.received} == {"the-agents-key"}


def test_lanes__throttled_judge_leaves_the_agent_at_full_speed(repository: Repository) -> None:
    criteria(repository, "final_response_match_v2", samples=1)
    meanwhile: list[int] = []

    def answer(_: GenerateRequest) -> Answer:
        """Held until enough are asked at once after the throttling, however busy the machine is."""
        if judges.stats.statuses[429] < 10:
            return replace(Answer.text("Paris."), latency=0.4)
        meanwhile.append(agents.stats.in_flight)
        return replace(Answer.text("Paris."), latency=3.0 if max(meanwhile) < AT_ONCE - 2 else 0.0)

    with (
        FakeGemini(Judge(), faults=[Fault(kind=429, retry_after=0)] * 10) as judges,
        FakeGemini(answer) as agents,
    ):
        done = run(repository, agents, judges)

    assert (done.code, len(done.statuses)) == (0, CASES), done.out + done.err
    assert judges.stats.statuses == {429: 10, 200: CASES}
    # The call that arrives is not counted yet, and a call whose answer is on its way no longer.
    assert meanwhile and max(meanwhile) >= AT_ONCE - 2
