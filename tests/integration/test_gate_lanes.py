"""The agent's provider and the judge's may be two: what one of them throttles is no reason to ask the other less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from gate_runs import Repository
from judged_gate import KEY, Judge, criteria

pytestmark = pytest.mark.slow

AT_ONCE = 8


def test_lanes__throttled_agent_leaves_the_judge_at_full_speed(repository: Repository) -> None:
    repository.agent("gemini")
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
        keys = {"AGENT_EVAL_JUDGE_API_KEY": KEY, "GOOGLE_API_KEY": "the-agents-key"}
        done = repository.gate(
            *("run", "evals", "--agent", "gemini", "--judge-base-url", judges.url, "--concurrency", str(AT_ONCE)),
            environment={**keys, "GOOGLE_GEMINI_BASE_URL": agents.url},
        )

    assert (done.code, len(done.statuses)) == (0, 2 * AT_ONCE), done.out + done.err
    assert agents.stats.statuses == {429: 4, 200: 2 * AT_ONCE}
    assert judges.stats.peak_in_flight >= 16
    assert {request.headers["x-goog-api-key"] for request in judges.received} == {KEY}
    assert {request.headers["x-goog-api-key"] for request in agents.received} == {"the-agents-key"}
