"""Scores from 1 to 5, costs, and what is better when it is lower: from the reports to the words, through everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from gate_play import Story, play
from history_samples import FILE, SCORE, TOKENS, case, comparable, compare, history_of, report
from policy_texts import policy_of

from agent_eval.gate.regression.gathering import MoreEvidence, gather
from agent_eval.report.phrases import suite_lines
from agent_eval.report.views import view_of
from agent_eval.results._merge import merge
from agent_eval.results.decision import DecisionReport
from agent_eval.results.report import CaseReport, RunScore

NAMES = [f"c{number}" for number in range(6)]
FIVE = "response_evaluation_score"
Make = Callable[[str, float, int], CaseReport]


def five(name: str, score: float, run: int) -> CaseReport:
    """A score from 1 to 5 that a model gave."""
    return case(name, scores=[score], metric=FIVE, threshold=3.0, first_run=run)


def scored(name: str, score: float, run: int) -> CaseReport:
    return case(name, scores=[score], first_run=run)


def tokens(name: str, count: float, run: int) -> CaseReport:
    return case(name, "1", tokens=[count], first_run=run)


def faults(name: str, count: float, run: int = 0) -> CaseReport:
    """A custom metric that itself says that it passes with at most two faults."""
    faulty = case(name, "1", first_run=run)
    status = "passed" if count <= 2 else "failed"
    metric = faulty.metrics[0].model_copy(
        update={"name": "faults", "threshold": 2.0, "runs": [RunScore(run=run, score=count, status=status)]}
    )
    runs = [faulty.runs[0].model_copy(update={"status": status})]
    [merged] = merge([faulty.model_copy(update={"metrics": [metric], "runs": runs})], min_pass_rate=1.0)
    return merged


def decided(make: Make, base: Sequence[float], head: float | dict[str, float], policy: str) -> DecisionReport:
    """What the gate says of a head that always gives these values; the base's newest value for cases not named.

    Each case gave the base's values in an order of its own.
    """
    now = {name: head.get(name, base[-1]) if isinstance(head, dict) else head for name in NAMES}
    before = {name: [*base[at:], *base[:at]] for at, name in enumerate(NAMES)}
    more = {name: [value] for name, value in now.items()}
    return play(Story(base=before, head=now, more=more, make=make, policy=policy, extra_runs=100)).decision


def entry(metric: str, says: str) -> str:
    return f'[[policy]]\nmetric = "{metric}"\n{says}\n'


FIVES = [4.5, 4.0, 4.8, 4.3, 4.6, 4.4, 4.1, 4.7, 4.2, 4.4]
ONES = [0.9, 0.88, 0.92, 0.9, 0.91, 0.89, 0.9, 0.9, 0.91, 0.9]
COUNTS = [1000.0, 1100.0, 900.0, 1050.0, 950.0, 1020.0, 980.0, 1010.0, 990.0, 1000.0]
FEW = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0, 1.2, 0.9, 1.0]


@pytest.mark.parametrize(
    ("make", "base", "head", "policy", "outcome"),
    [
        (five, FIVES, 3.2, entry(FIVE, "max-drop = 0.5"), "failed"),
        (five, FIVES, 3.2, "", "passed"),
        (five, FIVES, 4.0, entry(FIVE, "max-drop = 0.5"), "passed"),
        (five, FIVES, 5.0, entry(FIVE, "max-drop = 0"), "passed"),
        (scored, ONES, 0.7, entry(SCORE, "max-drop = 0.05"), "failed"),
        (scored, ONES, 0.87, entry(SCORE, "max-drop = 0.05"), "passed"),
        (tokens, COUNTS, 1500.0, entry(TOKENS, "max-drop = 0.2"), "failed"),
        (tokens, COUNTS, 1150.0, entry(TOKENS, "max-drop = 0.2"), "passed"),
        (tokens, COUNTS, 1150.0, entry(TOKENS, "max-drop = 0.2\nthreshold = 2000"), "passed"),
        (tokens, COUNTS, 1500.0, entry(TOKENS, "max-drop = 0.2\nthreshold = 2000"), "failed"),
        (tokens, COUNTS, 500.0, entry(TOKENS, "max-drop = 0"), "passed"),
        (tokens, COUNTS, 500.0, entry(TOKENS, 'direction = "higher"'), "failed"),
        (faults, FEW, 1.9, entry("faults", "max-drop = 0.1"), "failed"),
        (faults, FEW, 1.1, entry("faults", "max-drop = 0.2"), "passed"),
        (faults, FEW, 0.1, entry("faults", "max-drop = 0.1"), "passed"),
        (faults, FEW, 0.1, entry("faults", 'direction = "higher"'), "failed"),
    ],
)
def test_scales__the_right_side_and_the_right_scale(
    make: Make, base: Sequence[float], head: float, policy: str, outcome: str
) -> None:
    assert decided(make, base, head, policy).outcome == outcome


@pytest.mark.parametrize(
    ("make", "base", "value", "policy", "evidence"),
    [
        (
            tokens,
            COUNTS,
            2500.0,
            entry(TOKENS, "max-drop = 0.1"),
            "2,500 now (6 runs), 1,000 on the base branch (10 runs)",
        ),
        (five, FIVES, 3.2, entry(FIVE, "max-drop = 0.5"), "3.20 now (6 runs), 4.40 on the base branch (10 runs)"),
    ],
)
def test_scales__one_case_of_many_that_gets_worse(
    make: Make, base: Sequence[float], value: float, policy: str, evidence: str
) -> None:
    [worse] = [case for case in decided(make, base, {"c0": value}, policy).cases if case.blocking]
    assert (worse.case_id, worse.word, worse.evidence) == (f"{FILE}:c0", "worse", evidence)
    assert (worse.head_mean, worse.base_mean) == pytest.approx((value, sum(base) / len(base)))


def test_scales__a_suite_is_reported_in_the_scores_own_unit() -> None:
    for make, base, head, tolerance, moved, line in (
        (five, FIVES, 3.2, 0.5, "1.20 lower", "1.20 lower"),
        (tokens, COUNTS, 1500.0, 0.2, "500 higher", "500.00 higher"),
    ):
        name = FIVE if make is five else TOKENS
        decision = decided(make, base, head, entry(name, f"max-drop = {tolerance}"))
        [reason] = decision.reasons
        assert reason.message == f"The suite as a whole got worse in {name}: {moved} over 6 cases"
        view = view_of(report().model_copy(update={"decision": decision}))
        assert suite_lines(view)[1].partition(" than ")[0] == f"{name} over all 6 cases: {line}"


def test_scales__a_score_on_its_threshold_forgets_no_failure_of_the_base() -> None:
    # Two faults pass and don't show that three would fail; without that, three of two would be thought to pass.
    history = history_of(*(report(faults("c0", count), day=day) for day, count in enumerate([2.0, 3.0, 2.0, 2.0])))
    assert history.cases[0].outcomes == "1011"

    cases, more = [faults("c0", 2.0)], MoreEvidence(head=[faults("c0", 3.0, 1), faults("c0", 2.0, 2)])
    [evidence] = gather(cases, history, comparable(cases, history), policy_of("")[0], num_runs=1, more=more).evidence
    assert evidence.metrics["pass"].base == (1.0, 0.0, 1.0, 1.0)
    assert evidence.metrics["pass"].head_confirm == (0.0, 1.0)


def test_scales__another_threshold_judges_what_is_better_when_lower_again() -> None:
    history = history_of(report(faults("c0", 1.0)))
    assert history.rules[0][0].direction == "lower"
    stricter = faults("c0", 3.0)
    stricter.metrics[0].threshold = 0.5
    [evidence] = gather([stricter], history, comparable([stricter], history), policy_of("")[0], num_runs=1).evidence
    assert evidence.metrics["pass"].base == (0.0,)


def test_scales__a_lower_score_that_is_better_is_no_drop() -> None:
    base, head = report(faults("a", 1.0), faults("b", 1.0)), report(faults("a", 0.0), faults("b", 1.5))
    assert [drop.eval_id for drop in compare(head, base).drops] == ["b"]
