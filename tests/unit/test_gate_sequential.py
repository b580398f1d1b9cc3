"""The gate as it is asked: what it wants to run, when it stops, what it says."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import (
    Budget,
    ConfirmOnBase,
    MetricRule,
    Rules,
    Runs,
    usual_extra_runs,
)
from agent_eval.gate.stats.samples import PASS, CaseEvidence, Series
from agent_eval.report.phrases import numbers_in_words, text
from agent_eval.results import CaseDecisionReport, DecisionReport

YES, NO = 1.0, 0.0
Draw = Callable[[str, str], float]
DEFAULT, UNLIMITED = Rules(), Budget()


def case(
    case_id: str, head: Sequence[float], base: Sequence[float], metric: str = PASS, **more: object
) -> CaseEvidence:
    series = Series(head_screen=tuple(head), base=tuple(base), **more)  # type: ignore[arg-type]
    return CaseEvidence(case_id=case_id, metrics={metric: series})


def steady(count: int) -> list[CaseEvidence]:
    return [case(f"steady{index}", [YES], [YES] * 10) for index in range(count)]


def run(
    evidence: Sequence[CaseEvidence], draw: Draw, rules: Rules = DEFAULT, budget: Budget = UNLIMITED
) -> tuple[DecisionReport, list[Runs]]:
    """Plays the pipeline: makes the runs that are wanted; draw("head" or "base", case id) is the value of one."""
    samples = list(evidence)
    asked: list[Runs] = []
    for _ in range(100):
        step = next_step(samples, rules, budget)
        if isinstance(step, DecisionReport):
            return step, asked
        asked.append(step)
        for index, sample in enumerate(samples):
            head, base = step.head.get(sample.case_id, 0), step.base.get(sample.case_id, 0)
            metrics = {
                name: replace(
                    series,
                    head_confirm=(*series.head_confirm, *(draw("head", sample.case_id) for _ in range(head))),
                    head_rounds=(*series.head_rounds, *[len(asked)] * head),
                    base_confirm=(*series.base_confirm, *(draw("base", sample.case_id) for _ in range(base))),
                )
                for name, series in sample.metrics.items()
            }
            samples[index] = CaseEvidence(case_id=sample.case_id, metrics=metrics)
        if budget.extra_runs is not None:
            budget = replace(budget, extra_runs=budget.extra_runs - sum(step.head.values()) - sum(step.base.values()))
    raise AssertionError("it never decides")


def of(decision: DecisionReport, case_id: str) -> CaseDecisionReport:
    return next(decided for decided in decision.cases if decided.case_id == case_id)


def always(value: float) -> Draw:
    return lambda side, case_id: value


def broken_head(side: str, case_id: str) -> float:
    return YES if side == "base" else NO


def test_sequential__all_is_well() -> None:
    decision, asked = run(steady(10), always(YES))
    assert not asked
    assert decision.outcome == "passed" and not decision.reasons and decision.extra_runs == 0
    assert {decided.word for decided in decision.cases} == {"unchanged"}
    assert decision.suites[0].p_value == 1.0


def test_sequential__a_broken_case_is_confirmed_and_named() -> None:
    decision, asked = run([*steady(29), case("bad", [NO], [YES] * 10)], broken_head)
    assert [step.head for step in asked] == [{"bad": 2}, {"bad": 1}] and not any(step.base for step in asked)
    assert decision.outcome == "failed"
    assert [(reason.code, reason.case_ids) for reason in decision.reasons] == [("case-worse", ["bad"])]
    bad = of(decision, "bad")
    numbers_in_words(bad)
    assert (bad.word, bad.blocking, bad.evidence) == ("broken", True, "0 of 3 now, 10 of 10 on the base branch")
    assert bad.p_value is not None and bad.p_adjusted is not None and bad.p_value <= bad.p_adjusted <= 0.05
    assert decision.extra_runs == 3


def test_sequential__an_innocent_case_is_dropped_soon() -> None:
    decision, asked = run([*steady(29), case("once", [NO], [YES] * 8 + [NO] * 2)], always(YES))
    assert sum(sum(step.head.values()) for step in asked) <= 6
    assert decision.outcome == "passed"
    assert of(decision, "once").word == "flaky as before"


@pytest.mark.parametrize("stored", [1, 3, 10])
def test_sequential__a_case_that_is_red_on_base_gets_no_runs(stored: int) -> None:
    decision, asked = run([*steady(29), case("red", [NO], [NO] * stored)], always(NO))
    assert not asked and decision.outcome == "passed"
    assert of(decision, "red").word == "unchanged"


def test_sequential__fixed_and_better() -> None:
    evidence = [
        *steady(20),
        case("fixed", [YES] * 3, [NO] * 10),
        case("just fixed", [YES], [NO] * 20),
        case("once red", [YES], [NO]),
        case("better", [YES] * 6, [NO] * 9 + [YES]),
        case("same", [YES], [YES] * 5 + [NO] * 5),
    ]
    decision, _ = run(evidence, always(YES))
    words = {decided.case_id: decided.word for decided in decision.cases if not decided.case_id.startswith("steady")}
    assert words == {
        "fixed": "fixed",
        "just fixed": "fixed",
        "once red": "unchanged",  # One good run after a bad one is what a flaky case does.
        "better": "better",
        "same": "unchanged",
    }


def test_sequential__several_cases_that_are_somewhat_worse_fail_together() -> None:
    flips = {name: iter([NO, NO, YES] * 9) for name in ("a", "b", "c", "d")}
    evidence = [*steady(26), *(case(name, [NO], [YES] * 8 + [NO] * 2) for name in flips)]
    decision, _ = run(evidence, lambda side, name: next(flips[name]) if name in flips else YES)
    assert decision.outcome == "failed"


def test_sequential__suspicious_cases_share_the_error_rate() -> None:
    """A bet that pays 20 is enough for a name if it were one case, and not for one of two."""
    some = (NO, YES, NO, YES, *[YES, YES, NO] * 3, NO, NO)
    two = [
        case(name, [NO], [YES] * 10, head_confirm=some, head_rounds=(0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4))
        for name in ("a", "b")
    ]
    decision, _ = run([*steady(28), *two], always(YES), budget=Budget(extra_runs=0))
    codes = {reason.code for reason in decision.reasons}
    assert "cases-worse-together" in codes and "case-worse" not in codes
    p_values = [(of(decision, name).p_value or 0, of(decision, name).p_adjusted or 0) for name in ("a", "b")]
    assert all(0.025 < alone <= 0.05 < adjusted for alone, adjusted in p_values)


def suite_of_thirty(failing: int) -> list[CaseEvidence]:
    return [
        case(f"c{index}", [NO if index < failing else YES], [YES] * 10, base_days=tuple("abcdefghij"))
        for index in range(30)
    ]


@pytest.mark.parametrize("failing", [2, 4, 6, 12, 30])
def test_sequential__a_bad_moment_of_the_screening_blocks_nothing(failing: int) -> None:
    """The head's fresh runs pass: what failed in the screening alone is no regression, however much it was."""
    decision, asked = run(suite_of_thirty(failing), always(YES))
    assert decision.outcome == "passed" and not decision.reasons
    assert any(step.head for step in asked)


@pytest.mark.parametrize("failing", [2, 4, 6])
def test_sequential__a_bad_moment_that_lasts_into_the_first_round_blocks_nothing(failing: int) -> None:
    runs = dict.fromkeys((f"c{index}" for index in range(failing)), 0)

    def draw(side: str, name: str) -> float:
        if side == "head" and name in runs:
            runs[name] += 1
            return YES if runs[name] > 2 else NO
        return YES

    decision, _ = run(suite_of_thirty(failing), draw)
    assert decision.outcome == "passed"


def test_sequential__the_whole_suite_gets_worse() -> None:
    """Every run of the head fails one case in five, another one each time: no case is to blame."""
    made: dict[str, int] = {}

    def draw(side: str, name: str) -> float:
        made[name] = made.get(name, 0) + 1
        return NO if side == "head" and (int(name[1:]) + made[name]) % 5 == 0 else YES

    evidence = [
        case(f"c{index}", [YES if index % 5 else NO], [YES] * 10, base_days=tuple("abcdefghij")) for index in range(30)
    ]
    decision, asked = run(evidence, draw)
    assert decision.outcome == "failed"
    halves = [set(step.head) for step in asked if step.why == "suite"]
    assert len(halves) == 2 and not halves[0] & halves[1]
    reason = decision.reasons[0]
    assert reason.code == "suite-worse"
    assert reason.code == "suite-worse"
    assert reason.case_ids, "only cases that failed again are named"
    assert all((of(decision, name).head_mean or 0) < 1 for name in reason.case_ids)
    suite = decision.suites[0]
    assert suite.drop is not None and suite.drop > 0
    assert suite.p_value is not None and suite.p_again is not None and max(suite.p_value, suite.p_again) < 0.05


def test_sequential__a_suite_that_cannot_run_again_is_inconclusive() -> None:
    evidence = [case(f"c{index}", [YES if index % 3 else NO], [YES] * 9 + [NO]) for index in range(30)]
    decision, asked = run(evidence, always(YES), budget=Budget(extra_runs=0))
    assert not asked and decision.outcome == "inconclusive"
    recorded, _ = run(evidence, always(YES), budget=Budget(extra_runs=0, no_more="recorded"))
    assert recorded.outcome == "inconclusive"
    assert {reason.code for reason in recorded.reasons} == {"recorded-answers"}
    assert any(reason.data.get("phrase") == "suite-undecided" for reason in recorded.reasons)


def test_sequential__a_cause_that_a_whole_run_shares_blocks_nothing() -> None:
    """Two of ten stored runs failed as a whole. So does the screening, and a fresh run: that is no news."""
    base = [NO, YES, YES, YES, NO, YES, YES, YES, YES, YES]
    evidence = [case(f"c{index}", [NO], base, base_days=tuple("abcdefghij")) for index in range(30)]
    bad = {0}
    rounds = 0

    def draw(side: str, name: str) -> float:
        return NO if rounds in bad else YES

    samples = evidence
    for _ in range(30):
        step = next_step(samples, DEFAULT, UNLIMITED)
        if isinstance(step, DecisionReport):
            break
        samples = [
            replace(
                sample,
                metrics={
                    PASS: replace(
                        series,
                        head_confirm=(*series.head_confirm, *[draw("head", "")] * step.head.get(sample.case_id, 0)),
                        head_rounds=(*series.head_rounds, *[rounds] * step.head.get(sample.case_id, 0)),
                    )
                },
            )
            for sample in samples
            for series in [sample.metrics[PASS]]
        ]
        rounds += 1
    assert isinstance(step, DecisionReport) and step.outcome == "passed"


# History


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("can_run_base", [False, True])
@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_sequential__a_broken_case_never_passes(stored: int, can_run_base: bool, mode: str) -> None:
    evidence = [*(case(f"s{index}", [YES], [YES] * stored) for index in range(9)), case("bad", [NO], [YES] * stored)]
    rules = Rules(confirm_on_base=mode)  # type: ignore[arg-type]
    decision, _ = run(evidence, broken_head, rules, Budget(can_run_base=can_run_base))
    assert decision.outcome == "failed"
    bad = of(decision, "bad")
    assert bad.word == "broken" and bad.blocking
    if stored < 2 and (mode == "never" or not can_run_base):
        assert "broken-case" in {reason.code for reason in decision.reasons}


def test_sequential__a_thin_base_is_run_for_the_suspicious_alone() -> None:
    evidence = [*(case(f"s{index}", [YES], [YES]) for index in range(9)), case("bad", [NO], [YES])]
    decision, asked = run(evidence, broken_head, Rules(), Budget(can_run_base=True))
    assert {name for step in asked for name in step.base} == {"bad"}
    assert sum(step.base.get("bad", 0) for step in asked) == 4
    assert "broken-case" not in {reason.code for reason in decision.reasons}


def test_sequential__always_compares_runs_of_the_same_day_alone() -> None:
    """Stored runs of better days count for nothing."""
    rules, budget = Rules(confirm_on_base="always"), Budget(can_run_base=True)
    evidence = [*steady(9), case("bad", [NO], [YES] * 10)]
    decision, asked = run(evidence, always(NO), rules, budget)
    assert decision.outcome == "passed"
    assert 3 <= sum(step.base.get("bad", 0) for step in asked) <= 10
    decision, _ = run(evidence, broken_head, rules, budget)
    assert decision.outcome == "failed"


def test_sequential__what_would_decide_is_said() -> None:
    flips = iter([NO, NO, YES, NO, NO, YES] * 5)
    evidence = [*(case(f"s{index}", [YES], [YES]) for index in range(9)), case("odd", [NO], [YES])]
    decision, _ = run(evidence, lambda side, name: next(flips) if name == "odd" else YES)
    assert decision.outcome == "inconclusive"
    odd = of(decision, "odd")
    assert odd.word == "suspicious" and not odd.blocking
    assert odd.lacks == 5
    assert decision.reasons[0].code == "thin-base"


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(("runs", "open_"), [([NO, NO, YES], True), ([NO, YES], False)])
def test_sequential__what_mostly_fails_does_not_pass_for_want_of_history(
    stored: int, runs: list[float], open_: bool
) -> None:
    flips = iter(runs * 8)
    steady_ones = [case(f"s{index}", [YES], [YES] * stored) for index in range(9)]
    evidence = [*steady_ones, case("odd", [NO], [YES] * stored)]
    decision, _ = run(evidence, lambda side, name: next(flips) if name == "odd" else YES)
    expected = "passed" if not open_ else "inconclusive"
    assert decision.outcome == expected


def test_sequential__what_fails_on_a_thin_base_too_is_not_left_open() -> None:
    flips = iter([NO, NO, YES] * 5)
    evidence = [*(case(f"s{index}", [YES], [YES] * 4) for index in range(9)), case("odd", [NO], [NO, YES, YES, YES])]
    decision, _ = run(evidence, lambda side, name: next(flips))
    assert decision.outcome == "passed" and of(decision, "odd").lacks is None


def test_sequential__what_would_decide_is_reported_for_several_together() -> None:
    flips = {"seldom": iter([NO, NO, NO, NO, NO, YES] * 5), "often": iter([NO, NO, YES] * 9)}
    evidence = [*(case(f"s{index}", [YES], [YES]) for index in range(9)), *(case(name, [NO], [YES]) for name in flips)]
    decision, _ = run(evidence, lambda side, name: next(flips[name]) if name in flips else YES)
    assert of(decision, "seldom").lacks == 3
    assert decision.reasons[0].data["base_runs"] == 5


# Budgets


@pytest.mark.parametrize(
    ("cases", "num_runs", "metrics", "confirm_on_base", "runs"),
    [
        (300, 1, 1, "never", 1500),
        (300, 1, 1, "auto", 2400),
        (300, 1, 1, "always", 3000),  # The base runs as often as the head.
        (300, 3, 1, "auto", 7200),
        (300, 1, 6, "auto", 8400),  # Each metric has suspicious cases of its own.
        (300, 1, 6, "always", 10500),
        (5, 1, 1, "auto", 100),  # Fewer decide nothing.
    ],
)
def test_the_usual_limit_of_extra_runs__grows_with_what_there_is_to_decide(
    cases: int, num_runs: int, metrics: int, confirm_on_base: ConfirmOnBase, runs: int
) -> None:
    assert usual_extra_runs(cases, num_runs, metrics=metrics, confirm_on_base=confirm_on_base) == runs


def test_sequential__pass_or_fail_is_served_first_where_extra_runs_are_short() -> None:
    """By its likelihood ratio the score would come first: it is fixed, and the flaky case's is low."""
    flaky = case("flaky", [NO], [NO] * 12 + [YES] * 8)
    score = case("score", [0.1], [0.9] * 20, metric="quality", threshold=0.5)
    rules = Rules(metrics={PASS: MetricRule(), "quality": MetricRule()})

    step = next_step([score, *steady(10), flaky], rules, Budget(extra_runs=2))
    assert isinstance(step, Runs) and step.head == {"flaky": 2}
    step = next_step([score, *steady(10), flaky], rules, Budget(extra_runs=5))
    assert isinstance(step, Runs) and step.head == {"flaky": 2, "score": 3}


def test_sequential__a_budget_is_kept() -> None:
    evidence = [*steady(20), *(case(f"bad{index}", [NO], [YES] * 10) for index in range(4))]
    for extra in range(0, 40, 7):
        decision, asked = run(evidence, broken_head, Rules(), Budget(extra_runs=extra))
        assert decision.extra_runs == sum(sum(step.head.values()) for step in asked) <= extra
        assert decision.outcome in {"failed", "inconclusive"}


def test_sequential__without_a_budget_a_suspicious_case_is_not_passed() -> None:
    decision, asked = run([*steady(29), case("bad", [NO], [YES] * 10)], broken_head, Rules(), Budget(extra_runs=0))
    assert not asked and decision.outcome == "inconclusive"
    assert decision.reasons[0].code == "budget"
    assert text(decision.reasons[0]) == (
        "1 suspected regression is undecided: bad (0 of 1 now, 10 of 10 on the base branch). More runs may decide it, "
        "but no more could be made: raise `max-extra-runs`, `max-cost` or `run-timeout`, or start the job again"
    )


# Rules


def test_sequential__a_tolerance_keeps_small_drops_from_blocking() -> None:
    evidence = [*steady(29), case("bad", [NO], [YES] * 10)]
    rules = Rules(metrics={PASS: MetricRule()}, cases={"bad": {PASS: MetricRule(max_drop=1.0)}})
    decision, _ = run(evidence, broken_head, rules)
    assert not of(decision, "bad").blocking and decision.outcome == "passed"


def test_sequential__what_only_informs_gets_no_runs_and_blocks_nothing() -> None:
    evidence = [case(f"c{index}", [NO], [YES] * 10) for index in range(9)]
    decision, asked = run(evidence, broken_head, Rules(metrics={PASS: MetricRule(blocking=False)}))
    assert not asked and decision.outcome == "passed"
    assert [reason.code for reason in decision.reasons] == ["suite-worse"] and not decision.reasons[0].blocking


def test_sequential__metrics_share_the_error_rate() -> None:
    """A drop that is enough for one metric alone may not be for one of twenty."""
    evidence = [
        CaseEvidence(
            case_id=f"c{index}",
            metrics={
                f"m{number}": Series(head_screen=(0.55 if number == 0 else 0.7,), base=(0.5, 0.6, 0.7, 0.8, 0.9))
                for number in range(20)
            },
        )
        for index in range(6)
    ]
    alone, _ = run(evidence, always(0.7), Rules(metrics={"m0": MetricRule()}), Budget(extra_runs=0))
    many, _ = run(
        evidence, always(0.7), Rules(metrics={f"m{n}": MetricRule() for n in range(20)}), Budget(extra_runs=0)
    )
    p_alone, p_many = alone.suites[0].p_adjusted, min(suite.p_adjusted or 0.0 for suite in many.suites)
    assert p_alone is not None
    assert p_many == pytest.approx(min(1.0, 20 * p_alone), rel=0.5)
    own = Rules(metrics={f"m{n}": MetricRule(alpha=0.05 if n == 0 else None) for n in range(20)})
    apart, _ = run(evidence, always(0.7), own, Budget(extra_runs=0))
    assert next(suite.p_adjusted for suite in apart.suites if suite.metric == "m0") == p_alone


def test_sequential__the_second_metric_that_is_rejected_says_why_too() -> None:
    evidence = [
        CaseEvidence(
            case_id=f"c{index}",
            metrics={
                PASS: Series(head_screen=(NO if index < 2 else YES,), base=(YES,) * 10),
                "score": Series(head_screen=(0.1,), base=(0.8, 0.9) * 5),
            },
        )
        for index in range(20)
    ]
    rules = Rules(metrics={PASS: MetricRule(), "score": MetricRule()})
    values = {PASS: NO, "score": 0.1}
    both = _worse_again(evidence, rules, values)
    assert {reason.metric for reason in both.reasons if reason.blocking} == {PASS, "score"}
    quiet = [replace_score(sample, 0.9) for sample in evidence]
    sample = _worse_again(quiet, rules, {PASS: YES, "score": 0.9})
    assert not any(reason.blocking for reason in sample.reasons)


def _worse_again(evidence: Sequence[CaseEvidence], rules: Rules, values: Mapping[str, float]) -> DecisionReport:
    """The decision where the first two cases give these values again and again."""
    samples, rounds = list(evidence), 0
    while not isinstance(step := next_step(samples, rules, UNLIMITED), DecisionReport):
        for index, sample in enumerate(samples):
            count = step.head.get(sample.case_id, 0)
            samples[index] = replace(
                sample,
                metrics={
                    name: replace(
                        series,
                        head_confirm=(
                            *series.head_confirm,
                            *[values[name] if index < 2 or name != PASS else YES] * count,
                        ),
                        head_rounds=(*series.head_rounds, *[rounds] * count),
                    )
                    for name, series in sample.metrics.items()
                },
            )
        rounds += 1
    return step


def replace_score(sample: CaseEvidence, score: float) -> CaseEvidence:
    return replace(sample, metrics={**sample.metrics, "score": replace(sample.metrics["score"], head_screen=(score,))})


def test_sequential__scores_of_one_case_that_fall_are_named() -> None:
    values = random.Random(2)
    evidence = [
        case(f"c{index}", [values.gauss(0.8, 0.03)], [values.gauss(0.8, 0.03) for _ in range(10)], "score")
        for index in range(20)
    ]
    evidence.append(case("bad", [0.4], [values.gauss(0.8, 0.03) for _ in range(10)], "score", threshold=0.5))
    rules = Rules(metrics={"score": MetricRule()})
    decision, asked = run(evidence, lambda side, name: values.gauss(0.4 if name == "bad" else 0.8, 0.03), rules)
    bad = of(decision, "bad")
    assert decision.outcome == "failed" and bad.word == "worse" and bad.blocking
    numbers_in_words(bad)
    assert bad.evidence == "0.39 now (6 runs), 0.81 on the base branch (10 runs)"
    assert sum(step.head.get("bad", 0) for step in asked) <= 15


def test_sequential__a_tolerance_of_scores_is_part_of_the_test() -> None:
    values = random.Random(2)
    evidence = [
        case(f"c{index}", [values.gauss(0.75, 0.02)], [values.gauss(0.8, 0.02) for _ in range(10)], "score")
        for index in range(20)
    ]
    strict, _ = run(evidence, lambda side, name: values.gauss(0.75, 0.02), Rules(metrics={"score": MetricRule()}))
    assert strict.outcome == "failed"
    lax, _ = run(
        evidence, lambda side, name: values.gauss(0.75, 0.02), Rules(metrics={"score": MetricRule(max_drop=0.1)})
    )
    assert lax.outcome == "passed" and not lax.extra_runs


@pytest.mark.parametrize(("base", "asks"), [(0.8, False), (0.9, True)])
def test_sequential__a_case_below_its_threshold_and_within_the_tolerance_of_its_base_gets_no_more_runs(
    base: float, asks: bool
) -> None:
    evidence = [*(case(f"c{index}", [0.9], [0.9] * 10, "score") for index in range(9))]
    evidence.append(case("low", [0.75], [base] * 10, "score", threshold=0.8))
    step = next_step(evidence, Rules(metrics={"score": MetricRule(max_drop=0.1)}), UNLIMITED)
    assert isinstance(step, Runs) == asks


@pytest.mark.parametrize(("stored", "fresh"), [(4, 4), (9, 1), (10, 0)])
def test_base_runs_of_a_suspicious_case__are_filled_up_to_ten_once_it_failed_again(stored: int, fresh: int) -> None:
    budget = Budget(can_run_base=True, extra_runs=10)  # Not enough to run the whole suite again.
    step = next_step([*steady(29), case("bad", [NO], [YES] * stored)], DEFAULT, budget)
    assert isinstance(step, Runs)
    assert (step.head, step.base) == ({"bad": 2}, {})
    again = case("bad", [NO], [YES] * stored, head_confirm=(NO, YES), head_rounds=(0, 0))
    step = next_step([*steady(29), again], DEFAULT, budget)
    assert isinstance(step, Runs)
    assert (step.head, step.base) == ({"bad": 2}, {"bad": fresh} if fresh else {})


def test_sequential__a_round_that_was_broken_off_is_completed() -> None:
    step = next_step(
        [*steady(9), case("bad", [NO], [YES] * 10, head_confirm=(NO,), head_rounds=(0,))], DEFAULT, UNLIMITED
    )
    assert isinstance(step, Runs)
    assert step.head == {"bad": 1}


@pytest.mark.parametrize("same_day", [False, True])
def test_sequential__scores_keep_their_error_rate_with_a_base_of_today(same_day: bool) -> None:
    values = random.Random(8)
    rules = Rules(metrics={"score": MetricRule()}, confirm_on_base="always")
    failed = 0
    for _ in range(60):
        means = {f"c{index}": values.uniform(0.6, 0.9) for index in range(8)}

        def draw(side: str, name: str, means: dict[str, float] = means) -> float:
            return values.gauss(means[name], 0.1)

        evidence = [
            case(
                name,
                [draw("head", name)],
                [] if same_day else [draw("base", name) for _ in range(6)],
                "score",
                base_screen=(draw("base", name),) if same_day else (),
                threshold=0.65,
            )
            for name in means
        ]
        decision, _ = run(evidence, draw, rules, Budget(can_run_base=True))
        failed += decision.outcome == "failed"
    assert failed <= 8  # P(more than 8 of 60 | 5%) < 0.005


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5, -0.1])
def test_sequential__alpha_has_a_range(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        Rules(alpha=alpha)
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        Rules(metrics={PASS: MetricRule(alpha=alpha)})


def test_sequential__days_belong_to_runs() -> None:
    with pytest.raises(ValueError, match="base_days has 1 entries for 2 runs"):
        Series(base=(1.0, 0.0), base_days=("a",))


# Nothing depends on order, all on the seed


def mixed(seed: int) -> list[CaseEvidence]:
    values = random.Random(seed)
    samples = []
    for index in range(25):
        rate = values.choice([1.0, 0.95, 0.8, 0.5])
        head, base = [float(values.random() < rate - 0.15)], [float(values.random() < rate) for _ in range(10)]
        confirm = tuple(float(values.random() < rate - 0.3) for _ in range(0 if head[0] else 3))
        rounds = tuple(number // 2 for number, _ in enumerate(confirm))
        passes = Series(head_screen=tuple(head), base=tuple(base), head_confirm=confirm, head_rounds=rounds)
        scores = Series(
            head_screen=(values.gauss(0.6, 0.1),),
            base=tuple(values.gauss(0.7, 0.1) for _ in range(10)),
            head_confirm=tuple(values.gauss(0.6, 0.1) for _ in confirm),
            head_rounds=rounds,
            threshold=0.5,
        )
        samples.append(CaseEvidence(case_id=f"c{index}", metrics={PASS: passes, "score": scores}))
    return samples


RULES = Rules(metrics={PASS: MetricRule(), "score": MetricRule(max_drop=0.02)})


@pytest.mark.parametrize("extra", [0, None])
@pytest.mark.parametrize("seed", range(4))
def test_sequential__order_does_not_matter(seed: int, extra: int | None) -> None:
    evidence = mixed(seed)
    values = random.Random(seed)
    first = next_step(evidence, RULES, Budget(extra_runs=extra))
    for _ in range(3):
        values.shuffle(evidence)
        shuffled = [
            CaseEvidence(
                case_id=sample.case_id,
                metrics={
                    name: replace(
                        series,
                        base=tuple(values.sample(series.base, len(series.base))),
                    )
                    for name, series in reversed(list(sample.metrics.items()))
                },
            )
            for sample in evidence
        ]
        again = next_step(shuffled, RULES, Budget(extra_runs=extra))
        if isinstance(first, DecisionReport):
            assert isinstance(again, DecisionReport)
            assert (again.outcome, again.suites) == (first.outcome, first.suites)
            assert sorted(again.cases, key=repr) == sorted(first.cases, key=repr)
        else:
            assert again == first


def test_sequential__which_runs_a_short_budget_pays_does_not_depend_on_the_order() -> None:
    evidence = [*steady(20), *(case(f"bad{index}", [NO], [YES] * 10) for index in range(4))]
    first, second = (next_step(samples, Rules(), Budget(extra_runs=4)) for samples in (evidence, evidence[::-1]))
    assert isinstance(first, Runs) and set(first.head) == {"bad0", "bad1"}
    assert first == second


def test_sequential__the_same_seed_gives_the_same_verdict() -> None:
    evidence = mixed(2)
    first, second = (next_step(evidence, RULES, Budget(extra_runs=0)) for _ in range(2))
    assert first == second
    other = next_step(evidence, replace(RULES, seed=1), Budget(extra_runs=0))
    assert isinstance(first, DecisionReport) and isinstance(other, DecisionReport)
    assert first.suites[0] == other.suites[0], "what is exact needs no seed"
    assert first.suites[1].p_value != other.suites[1].p_value


@pytest.mark.nightly
def test_sequential__ten_thousand_cases_in_seconds() -> None:
    values = random.Random(1)
    evidence = []
    for index in range(10_000):
        rate = values.choice([1.0, 1.0, 0.95, 0.8])
        metrics = {
            PASS: Series(
                head_screen=(float(values.random() < rate),),
                base=tuple(float(values.random() < rate) for _ in range(10)),
            )
        }
        for name in ("a", "b"):
            mean = values.uniform(0.6, 0.9)
            metrics[name] = Series(
                head_screen=(values.gauss(mean - 0.02, 0.1),),
                base=tuple(values.gauss(mean, 0.1) for _ in range(10)),
                threshold=0.5,
            )
        evidence.append(CaseEvidence(case_id=f"c{index}", metrics=metrics))
    rules = Rules(metrics={name: MetricRule() for name in (PASS, "a", "b")})
    unit = 1024 if sys.platform == "linux" else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    begun = time.process_time()
    decision = next_step(evidence, rules, Budget(extra_runs=0))
    taken = time.process_time() - begun
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before
    assert isinstance(decision, DecisionReport) and len(decision.cases) == 30_000
    assert {suite.metric for suite in decision.suites} == {PASS, "a", "b"}
    assert taken < 5
    assert grown < 300e6
