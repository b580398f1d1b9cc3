"""What a run costs: the agent's own model calls count, and `max-cost` limits the sum."""

from __future__ import annotations

import pytest
from base_repos import new_repo
from gate_runs import Repository

PRICES = "[prices]\nscripted = { input = 100_000, output = 200_000 }\n"
"""One dollar for ten tokens in, two for ten out: a run has two calls of 10 and 5 tokens: four dollars."""
CASES = {f"case_{number}": "roll" for number in range(6)}


@pytest.fixture(autouse=True)
def dice(repository: Repository) -> None:
    repository.agent("dice")
    repository.evals("dice/evals/dice.test.json", CASES, expect=dict.fromkeys(CASES, "It is 8."))
    repository.write({"agent-eval.toml": PRICES})


def in_pull_request(repository: Repository, **wrong: str) -> None:
    """On a branch that changes nothing; these cases expect something else."""
    repository.evals("dice/evals/dice.test.json", CASES, expect=dict.fromkeys(CASES, "It is 8.") | wrong)
    repo = new_repo(repository.root)
    repo.commit({})
    repo.branch("pr")
    repo.commit({})


def test_bill__the_agents_calls_by_case(repository: Repository) -> None:
    done = repository.gate("run", "--num-runs", "2")

    assert done.code == 0, done.err
    rows = [(usage.case_id, usage.purpose, usage.calls, usage.cost) for usage in done.report.case_usage]
    assert rows == [(f"dice/evals/dice.test.json:{name}", "agent", 4, 8.0) for name in CASES]
    assert all((usage.model, usage.input_tokens) == ("scripted", 40) for usage in done.report.case_usage)
    recorded = ("run", "--agent", "recorded:agent-eval-results", "--max-cost", "1")
    again = repository.gate(*recorded, python=False, output=repository.root / "again")
    assert (again.code, again.report.case_usage) == (0, []), "answers from a file cost nothing"


def test_bill__a_model_without_a_price_is_named(repository: Repository) -> None:
    (repository.root / "agent-eval.toml").unlink()
    done = repository.gate("run", "--max-cost", "1")

    assert done.code == 0, "what is not known limits nothing"
    assert {usage.cost for usage in done.report.case_usage} == {None}
    assert "`max-cost` does not include scripted, whose price is unknown" in " ".join(done.report.notices)


def test_bill__max_cost_ends_the_run(repository: Repository) -> None:
    done = repository.gate("run", "--max-cost", "5", "--concurrency", "1")

    assert done.code == 3, "some cases were not evaluated"
    assert list(done.statuses.values()) == ["passed"] * 2 + ["not_run"] * 4
    case = done.report.cases[-1]
    assert case.reason is not None
    assert (case.reason.code, done.report.verdict) == ("budget", "inconclusive")
    assert "The budget of $5 is used up: $8 is spent" in case.reason.message
    again = repository.gate("run", "--max-cost", "17", "--concurrency", "1", "--resume")
    assert again.code == 0, "runs that were made before are not paid for again"


def test_bill__parts_share_the_budget_and_the_merge_adds_up(repository: Repository) -> None:
    for number in (1, 2):
        folder = repository.root / "parts" / str(number)
        part = repository.gate("run", "--shard", f"{number}/2", "--max-cost", "24", output=folder)
        assert part.code == 0, part.err
        assert "with 12 US dollars of the budget" in part.err
    done = repository.gate("merge", "parts", "--max-cost", "24")

    assert done.code == 0, done.err
    assert sum(usage.cost or 0 for usage in done.report.case_usage) == 24.0


def test_bill__money_that_runs_out_on_the_base_branch_fails_nothing(repository: Repository) -> None:
    in_pull_request(repository, case_5="It is 9.")
    compared = ("run", "--base-ref", "main", "--baseline", "rerun", "--concurrency", "1", "--max-cost")

    assert repository.gate(*compared, "500").code == 0, "case_5 fails on main, too"
    done = repository.gate(*compared, "30")
    assert (done.code, done.report.verdict) == (3, "inconclusive"), done.out
    assert "The budget of $30 is used up" in " ".join(done.out.split())
    spent = sum(usage.cost or 0 for usage in done.report.case_usage)
    assert spent == 32.0, "one run at a time: only the last one of both sides exceeds the limit"


def test_bill__what_to_do_when_the_base_branch_has_no_money_left(repository: Repository) -> None:
    """Running it again would end in the same way."""
    in_pull_request(repository, **dict.fromkeys(CASES, "It is 9."))
    part = repository.gate("run", "--shard", "1/1", output=repository.root / "parts" / "1")
    assert part.code == 0, part.err
    done = repository.gate("merge", "parts", "--base-ref", "main", "--baseline", "rerun", "--max-cost", "20")

    assert (done.code, done.report.verdict) == (3, "inconclusive"), done.out
    out = " ".join(done.out.split())
    assert "have no result: The budget of $20 is used up: $24 is spent: dice" in out
    assert "Next: raise the budget." in out


def test_bill__nothing_is_run_again_when_the_money_is_gone(repository: Repository) -> None:
    expected = dict.fromkeys(CASES, "It is 8.") | {"case_5": "It is 9."}
    repository.evals("dice/evals/dice.test.json", CASES, expect=expected)
    done = repository.gate("run", "--max-cost", "24")

    assert (done.code, done.report.verdict) == (1, "failed"), "all cases ran: the thresholds decide"
    assert sum(usage.cost or 0 for usage in done.report.case_usage) == 24.0
