"""What can't be compared with the base runs again before it blocks."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest
from gate_play import Story, play
from history_samples import FILE, case
from policy_texts import policy_of

from agent_eval.gate.policy import MOST_DAYS
from agent_eval.gate.policy_checks import check_policy
from agent_eval.gate.regression.retrial import ERROR_RUNS, FAILURES, RUNS, Retrial, is_constant_error, outcomes
from agent_eval.results.recording import RunError

BASE = {f"c{index}": "1" * 20 for index in range(9)}
HEAD = dict.fromkeys(BASE, "1")


@pytest.mark.parametrize("what", ["new", "changed", "new metric"])
@pytest.mark.parametrize(("again", "verdict", "spent"), [("0", "failed", 6), ("1", "passed", 6), ("01", "passed", 12)])
def test_retrial__a_case_that_can_not_be_compared_blocks_only_if_it_fails_again(
    what: str, again: str, verdict: str, spent: int
) -> None:
    failing = {
        "new": case("x", "0"),
        "changed": case("x", "0", fingerprint="another question"),
        "new metric": case("x", "0", metric="another_score", measures="m2"),
    }[what]
    base = BASE if what == "new" else {**BASE, "x": "1" * 20}
    played = play(Story(base=base, head=HEAD, heads=[failing], more={"x": again}))

    assert played.verdict.value == verdict
    assert played.spent <= spent
    assert played.spent > 0
    if verdict == "passed":
        assert "failed-at-first" in played.notes
    else:
        assert played.verdict.reasons[0].code in {"not-comparable", "metric-not-comparable"}


def test_retrial__without_runs_it_is_undecided_and_not_green() -> None:
    played = play(Story(base=BASE, head=HEAD, heads=[case("x", "0")], extra_runs=0))
    assert (played.verdict.value, [reason.code for reason in played.verdict.reasons]) == ("inconclusive", ["budget"])


@pytest.mark.parametrize(("base", "again", "verdict"), [("0" * 10, "1", "passed"), ("0" * 10, "x", "failed")])
def test_retrial__an_agent_error_on_a_case_that_always_fails_on_the_base(base: str, again: str, verdict: str) -> None:
    """It gets no confirmation, since there is nothing to compare, and blocked at once."""
    played = play(Story(base={**BASE, "x": base}, head={**HEAD, "x": "x"}, more={"x": again}))
    assert played.verdict.value == verdict
    assert 0 < played.spent <= ERROR_RUNS


def test_retrial__a_file_of_broken_new_cases_does_not_use_up_the_budget() -> None:
    news = [case(f"n{index}", "0") for index in range(30)]
    played = play(
        Story(base=BASE, head=HEAD, heads=news, more={new_case.eval_id: "0" for new_case in news}, extra_runs=400)
    )
    assert played.verdict.value == "failed"
    assert played.spent <= 30 * 6
    assert len(played.verdict.blocking) == 30


def test_retrial__a_tolerant_pass_rate_is_kept() -> None:
    runs = (True,) * 12 + (False,) * 3
    strict, tolerant = (Retrial(case_id="a", kind="case", failed=runs, min_pass_rate=rate) for rate in (1.0, 0.2))
    assert (strict.outcome, tolerant.outcome) == ("again", "gone")


def test_retrial__nine_new_cases_of_thirty_are_rarely_red() -> None:
    """Pass rates of the mixed suite; the whole gate's error rate is in docs/statistics.md."""
    draw = random.Random(3)
    red = 0
    for _ in range(2000):
        rates = draw.choices((1.0, 0.95, 0.8, 0.5), (60, 20, 15, 5), k=9)
        failing = [rate for rate in rates if draw.random() >= rate]
        tried = [
            Retrial(case_id=str(at), kind="case", failed=tuple(draw.random() >= rate for _ in range(RUNS)))
            for at, rate in enumerate(failing)
        ]
        early = [all(retrial.failed[:6]) for retrial in tried]
        red += any(early) or any(sum(retrial.failed) >= FAILURES for retrial in tried)
        assert set(outcomes(tried).values()) <= {"again", "gone"}
    assert red / 2000 <= 0.04


QUARANTINE = f'[[quarantine]]\ncase = "{FILE}:x"\nreason = "slow"\nowner = "@alice"\nexpires = 2027-01-31\n'


@pytest.mark.parametrize(("again", "broken"), [("0", True), ("01", False)])
def test_quarantine__a_case_that_breaks_entirely_is_reported_first(again: str, broken: bool) -> None:
    story = Story(
        base={**BASE, "x": "1101" * 5},
        head={**HEAD, "x": "0"},
        more={"x": again},
        policy=f"max-quarantined = 0.2\n{QUARANTINE}",
    )
    played = play(story)
    assert played.verdict.value == "passed"
    assert ("quarantined-broken" in played.notes) is broken
    if broken:
        assert played.verdict.notes[0].code == "quarantined-broken"
        assert f"{FILE}:x" in played.verdict.notes[0].message


@pytest.mark.parametrize(("days", "codes"), [(MOST_DAYS, []), (MOST_DAYS + 1, ["quarantine-too-long"])])
def test_quarantine__an_end_far_away_is_refused(days: int, codes: list[str]) -> None:
    today = date(2026, 11, 21)
    policy, problems = policy_of(QUARANTINE.replace("2027-01-31", (today + timedelta(days=days)).isoformat()))
    assert problems == []
    findings = check_policy(policy, [], today=today)
    assert [finding.code for finding in findings if finding.code.startswith("quarantine")] == codes


@pytest.mark.parametrize(
    ("messages", "constant"),
    [
        (["KeyError: 'garage'"] * 3, True),
        (["KeyError: 'garage'"] * 2, False),
        (["no <Tool object at 0x7f12ab>", "no <Tool object at 0x99>", "no <Tool object at 0x0>"], True),
        ([f"port {4321 * n} of 123e4567-e89b-12d3-a456-42661417400{n}" for n in (1, 2, 3)], True),
        (["HTTP 500", "HTTP 404", "HTTP 500"], False),
    ],
)
def test_is_constant_error__compares_kind_and_message_without_ids(messages: list[str], constant: bool) -> None:
    broken = case("x", "x" * len(messages))
    for run, message in zip(broken.runs, messages, strict=True):
        run.error = RunError(kind="agent-exception", owner="agent", message=message)

    assert is_constant_error([broken]) == constant
    assert not is_constant_error([broken, case("x", "1", first_run=9)])
    assert not is_constant_error([broken, case("x", "c", first_run=9)])
    assert is_constant_error([broken, case("x", "p", first_run=9)]) == constant  # An outage says nothing.
