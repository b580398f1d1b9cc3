"""A provider that is down: the gate ends early, with exit code 3 and one message for all cases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from base_repos import new_repo
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from gate_runs import Repository, patience, repository_in

CASES = {f"case {number}": "hello" for number in range(20)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path, "gemini") as made:
        made.evals("evals/hello.test.json", CASES)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refused", "hang", "empty", 503])
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", [503, 401])
def test_an_outage__of_the_fresh_runs_is_the_reason_that_nothing_is_decided(repository: Repository, kind: int) -> None:
    """The first runs work, one case got worse, and the provider is away when it is run again."""
    cases = dict(list(CASES.items())[:8])
    repository.evals("evals/hello.test.json", {**cases, "case 0": "good day"})
    served = 0

    def answer(request: GenerateRequest) -> Answer | Fault:
        nonlocal served
        served += 1
        if served > 8 * 5 + 8:
            return Fault(kind=kind)
        said = request.user_texts[-1]
        return Answer.text("No." if said == "good day" and served > 8 * 5 else said)

    with FakeGemini(answer) as server:
        environment = _environment(server)
        base = repository.gate("run", "--num-runs", "5", environment=environment, output=repository.root / "base")
        assert base.code == 0, base.out + base.err
        repo = new_repo(repository.root)
        repo.commit({}, "The base branch, and what it did")
        repo.branch("pull-request")
        repo.commit({"notes.md": "Nothing of the agent.\n"}, "The pull request")
        flags = ("--baseline", "file:base/results.json", "--base-ref", "main", "--turn-timeout", "6")
        done = repository.gate("run", *flags, environment=environment)
    assert done.code == 3, done.out + done.err
    assert [reason.code for reason in done.report.reasons] == ["provider-unavailable"]
    assert "Can't tell: 1 suspected regression (case 0)" in done.out
    assert done.out.strip().endswith("Next: run it again."), done.out
    (notice,) = [text for text in done.report.notices if "to confirm" in text]
    assert "gemini-2.5-flash" in notice


def _environment(server: FakeGemini) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any"}
