"""A provider that is down: the gate ends early, with exit code 3 and one message for all cases.

tests/crossings/test_outages_crossing.py has the other outages, and when they happen.
"""

from __future__ import annotations

import pytest
from fake_gemini import FakeGemini, Fault
from gate_runs import Repository, patience

CASES = {f"case {number}": "hello" for number in range(20)}


@pytest.mark.slow
def test_an_outage__of_the_whole_suite_is_noticed_once(repository: Repository) -> None:
    repository.agent("gemini")
    repository.evals("evals/hello.test.json", CASES)
    with FakeGemini(lambda _: Fault(kind=503)) as server:
        environment = {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any"}
        done = repository.gate("run", "--turn-timeout", "6", "--concurrency", "2", environment=environment)
    assert done.code == 3, done.out + done.err
    assert done.seconds < 75 * patience()
    assert done.statuses == dict.fromkeys(CASES, "errored")
    errors = [error for case in done.report.cases if (error := case.runs[0].error)]
    assert {(error.kind, error.owner) for error in errors} == {("provider-unavailable", "provider")}
    # With turns as short as these the first ones end before the outage is certain, and say what they waited for.
    last = errors[-1].message
    assert last.startswith(
        f"The agent's model provider failed: `gemini-2.5-flash` at {server.url} is down, so no more calls were made"
    )
    assert [error.message for error in errors].count(last) >= len(CASES) // 2
    done.check_files()
