"""Scores from 1 to 5, costs, and what is better when it is lower: from the reports to the words, through everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from history_samples import FILE, SCORE, TOKENS, case, comparable, compare, report
from policy_texts import policy_of

from agent_eval.gate.history.records import extend
from agent_eval.gate.regression.gathering import MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget
from agent_eval.pipeline._regression import decision_report
from agent_eval.report.phrases import numbers_in_words, suite_lines, text
from agent_eval.report.views import view_of
from agent_eval.results._merge import merge
from agent_eval.results.decision import DecisionReport
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import CaseReport, RunScore

NAMES = [f"c{number}" for number in range(6)]
FIVE = "response_evaluation_score"
Make = Callable[[str, float, int], CaseReport]


def five(name: str, score: float, run: int) -> CaseReport:
    """A score from 1 to 5 that a model gave."""
    return case(name, scores=[score], metric=FIVE, threshold=3.0, first_run=run)


def tokens(name: str, count: float, run: int) -> CaseReport:
    return case(name, "1", tokens=[count], first_run=run)


def faults(name: str, count: float, run: int) -> CaseReport:
    """A custom metric that itself says that it passes with at most two faults."""
    faulty = case(name, "1", first_run=run)
    passed = count <= 2
    status = "passed" if passed else "failed"
    metric = faulty.metrics[0].model_copy(
        update={"name": "faults", "threshold": 2.0, "runs": [RunScore(run=run, score=count, status=status)]}
    )
    runs = [faulty.runs[0].model_copy(update={"status": status})]
    [merged] = merge([faulty.model_copy(update={"metrics": [metric], "runs": runs})], min_pass_rate=1.0)
    return merged


def history(make: Make, base: Sequence[float]) -> HistoryReport:
    """Each case gave these values on the base, a day each, in an order of its own."""
    stored = None
    for day in range(len(base)):
        stored = extend(
            stored, report(*(make(name, base[(day + at) % len(base)], 0) for at, name in enumerate(NAMES)), day=day)
        )
    assert stored is not None
    return stored


def decided(make: Make, base: Sequence[float], head: float | dict[str, float], text: str) -> DecisionReport:
    """What the gate says of a head that always gives these values; the base's newest value for cases not named."""
    policy, problems = policy_of(text)
    assert problems == []
    stored = history(make, base)
    values = {name: head.get(name, base[-1]) if isinstance(head, dict) else head for name in NAMES}
    cases = apply_policy([make(name, value, 0) for name, value in values.items()], policy, min_pass_rate=1.0)
    more: list[CaseReport] = []
    rounds: dict[tuple[str, int], int] = {}
    for number in range(20):
        gathered = gather(
            cases, stored, comparable(cases, stored), policy, num_runs=1, more=MoreEvidence(head=more, rounds=rounds)
        )
        step = next_step(gathered.evidence, gathered.rules, Budget(extra_runs=100 - len(more)))
        if isinstance(step, DecisionReport):
            return decision_report(step, gathered, stored)
        for case_id, count in step.head.items():
            name = case_id.removeprefix(f"{FILE}:")
            made = [make(name, values[name], len(more) + 1 + at) for at in range(count)]
            rounds |= {(case_id, run.run): number for case in made for run in case.runs}
            more += made
    raise AssertionError("it never decides")


def entry(metric: str, says: str) -> str:
    return f'[[policy]]\nmetric = "{metric}"\n{says}\n'


FIVES = [4.5, 4.0, 4.8, 4.3, 4.6, 4.4, 4.1, 4.7, 4.2, 4.4]
COUNTS = [1000.0, 1100.0, 900.0, 1050.0, 950.0, 1020.0, 980.0, 1010.0, 990.0, 1000.0]
FEW = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0, 1.2, 0.9, 1.0]


@pytest.mark.parametrize(
    ("make", "base", "head", "text", "outcome"),
    [
        (five, FIVES, 3.2, entry(FIVE, "max-drop = 0.5"), "failed"),
        (five, FIVES, 3.2, "", "passed"),
        (five, FIVES, 4.0, entry(FIVE, "max-drop = 0.5"), "passed"),
        (five, FIVES, 5.0, entry(FIVE, "max-drop = 0"), "passed"),
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
    make: Make, base: Sequence[float], head: float, text: str, outcome: str
) -> None:
    assert decided(make, base, head, text).outcome == outcome


def test_scales__one_case_of_many_that_costs_more() -> None:
    decision = decided(tokens, COUNTS, {"c0": 2500.0}, entry(TOKENS, "max-drop = 0.1"))

    [decided_case] = [result for result in decision.cases if result.metric == TOKENS]
    assert (decided_case.case_id, decided_case.word, decided_case.blocking) == (f"{FILE}:c0", "worse", True)
    numbers_in_words(decided_case)
    assert decided_case.evidence == "2,500 now (6 runs), 1,000 on the base branch (10 runs)"
    assert (decided_case.head_mean, decided_case.base_mean) == (2500.0, 1000.0)


def test_scales__one_case_of_many_whose_score_falls() -> None:
    decision = decided(five, FIVES, {"c0": 3.2}, entry(FIVE, "max-drop = 0.5"))

    [decided_case] = [result for result in decision.cases if result.metric == FIVE and result.blocking]
    assert (decided_case.case_id, decided_case.word) == (f"{FILE}:c0", "worse")
    numbers = decided_case.numbers
    assert [numbers["head"], numbers["base"]] == pytest.approx([3.2, 4.4])
    assert (numbers["head_runs"], numbers["base_runs"]) == (6, 10)


def test_scales__a_suite_is_reported_in_the_scores_own_unit() -> None:
    scores = decided(five, FIVES, 3.2, entry(FIVE, "max-drop = 0.5"))
    counts = decided(tokens, COUNTS, 1500.0, entry(TOKENS, "max-drop = 0.2"))

    assert [text(reason) for reason in (*scores.reasons, *counts.reasons)] == [
        f"The suite as a whole got worse in {FIVE}: 1.20 lower over 6 cases",
        f"The suite as a whole got worse in {TOKENS}: 500 higher over 6 cases",
    ]
    views = (view_of(report().model_copy(update={"decision": decision})) for decision in (scores, counts))
    assert [suite_lines(view)[1].partition(" than ")[0] for view in views] == [
        f"{FIVE} over all 6 cases: 1.20 lower",
        f"{TOKENS} over all 6 cases: 500.00 higher",
    ]


def test_scales__a_score_on_its_threshold_forgets_no_failure_of_the_base() -> None:
    # Two faults pass and don't show that three would fail; without that, three of two would be thought to pass.
    stored = None
    for day, count in enumerate([2.0, 3.0, 2.0, 2.0]):
        stored = extend(stored, report(faults("c0", count, 0), day=day))
    assert stored is not None
    assert stored.cases[0].outcomes == "1011"

    cases = [faults("c0", 2.0, 0)]
    gathered = gather(
        cases,
        stored,
        comparable(cases, stored),
        policy_of("")[0],
        num_runs=1,
        more=MoreEvidence(head=[faults("c0", 3.0, 1), faults("c0", 2.0, 2)]),
    )
    [evidence] = gathered.evidence
    assert evidence.metrics["pass"].base == (1.0, 0.0, 1.0, 1.0)
    assert evidence.metrics["pass"].head_confirm == (0.0, 1.0)


def test_scales__another_threshold_judges_what_is_better_when_lower_again() -> None:
    stored = extend(None, report(faults("c0", 1.0, 0)))
    assert stored.rules[0][0].direction == "lower"
    stricter = faults("c0", 3.0, 0)
    stricter.metrics[0].threshold = 0.5
    [evidence] = gather([stricter], stored, comparable([stricter], stored), policy_of("")[0], num_runs=1).evidence
    assert evidence.metrics["pass"].base == (0.0,)


def test_scales__a_lower_score_that_is_better_is_no_drop() -> None:
    base, head = report(faults("a", 1.0, 0), faults("b", 1.0, 0)), report(faults("a", 0.0, 0), faults("b", 1.5, 0))
    assert [drop.eval_id for drop in compare(head, base).drops] == ["b"]


def test_scales__a_tolerance_of_zero_to_one_scores_is_as_it_was() -> None:
    def scored(name: str, score: float, run: int) -> CaseReport:
        return case(name, scores=[score], first_run=run)

    steady = [0.9, 0.88, 0.92, 0.9, 0.91, 0.89, 0.9, 0.9, 0.91, 0.9]
    assert decided(scored, steady, 0.7, entry(SCORE, "max-drop = 0.05")).outcome == "failed"
    assert decided(scored, steady, 0.87, entry(SCORE, "max-drop = 0.05")).outcome == "passed"
