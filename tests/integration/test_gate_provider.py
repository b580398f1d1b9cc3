"""A provider that is down: the gate ends early, with exit code 3 and one message for all cases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from gate_runs import Repository, patience, repository_in

CASES = {f"case {number}": "hello" for number in range(20)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path, "gemini") as made:
        made.evals("evals/hello.test.json", CASES)
        yield made


@pytest.mark.parametrize("kind", ["refused", "hang", 503])
def test_an_outage__of_the_whole_suite_is_noticed_once(repository: Repository, kind: Any) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(FakeGemini(lambda _: Fault(kind=503 if kind == "refused" else kind)))
        if kind == "refused":
            stack.close()
        done = repository.gate("run", "--turn-timeout", "6", "--concurrency", "2", environment=_environment(server))
    assert done.code == 3, done.out + done.err
    assert done.seconds < 75 * patience()
    assert done.statuses == dict.fromkeys(CASES, "errored")
    errors = [case.runs[0].error for case in done.report.cases]
    assert {(error.kind, error.owner) for error in errors if error} == {("provider-unavailable", "provider")}
    messages = [error.message for error in errors if error]
    # With turns as short as these the first ones end before the outage is certain, and say what they waited for.
    assert messages[-1].startswith(
        f"The agent's model provider failed: `gemini-2.5-flash` at {server.url} is down, so no more calls were made"
    )
    assert messages.count(messages[-1]) >= len(CASES) // 2
    done.check_files()


def test_an_outage__that_ends_costs_no_case(repository: Repository) -> None:
    def answer(request: GenerateRequest) -> Answer:
        return Answer.text(request.user_texts[-1])

    faults = [Fault(kind=503), Fault(kind="reset"), Fault(kind=429), Fault(kind="cut"), Fault(kind="garbage")] * 4
    with FakeGemini(answer, faults=faults) as server:
        done = repository.gate("run", environment=_environment(server))
    assert done.code == 0, done.out + done.err
    assert done.statuses == dict.fromkeys(CASES, "passed")


def _environment(server: FakeGemini) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any"}
