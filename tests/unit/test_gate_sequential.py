"""The gate as it is asked: what it wants to run, when it stops, what it says."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_eval.gate.regression._decide import CHECK_RUNS
from agent_eval.gate.regression.gathering import Before, held_against
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
from agent_eval.results import CaseDecisionReport, DecisionReport

YES, NO = 1.0, 0.0
Draw = Callable[[str, str], float | Mapping[str, float]]
"""The value of a run by its side ("head" or "base") and case; by metric, where its metrics differ."""
DEFAULT, UNLIMITED, RUNS_BASE = Rules(), Budget(), Budget(can_run_base=True)


def case(case_id: str, head: Sequence[float], base: Sequence[float], metric: str = PASS, **more: Any) -> CaseEvidence:
    return CaseEvidence(case_id=case_id, metrics={metric: Series(head_screen=tuple(head), base=tuple(base), **more)})


def steady(count: int, stored: int = 10) -> list[CaseEvidence]:
    return [case(f"steady{index}", [YES], [YES] * stored) for index in range(count)]


def run(
    evidence: Sequence[CaseEvidence], draw: Draw, rules: Rules = DEFAULT, budget: Budget = UNLIMITED
) -> tuple[DecisionReport, list[Runs]]:
    """Plays the pipeline: makes the runs that are wanted."""
    samples = list(evidence)
    asked: list[Runs] = []
    while not isinstance(step := next_step(samples, rules, budget), DecisionReport):
        asked.append(step)
        assert len(asked) < 100, "it never decides"
        for index, sample in enumerate(samples):
            head, base = (
                [draw(side, sample.case_id) for _ in range(counts.get(sample.case_id, 0))]
                for side, counts in (("head", step.head), ("base", step.base))
            )
            metrics = {
                name: replace(
                    series,
                    head_confirm=(*series.head_confirm, *(of_metric(value, name) for value in head)),
                    head_rounds=(*series.head_rounds, *[len(asked)] * len(head)),
                    base_confirm=(*series.base_confirm, *(of_metric(value, name) for value in base)),
                )
                for name, series in sample.metrics.items()
            }
            samples[index] = CaseEvidence(case_id=sample.case_id, metrics=metrics)
        if budget.extra_runs is not None:
            budget = replace(budget, extra_runs=budget.extra_runs - sum(step.head.values()) - sum(step.base.values()))
    return step, asked


def of_metric(value: float | Mapping[str, float], name: str) -> float:
    return value if isinstance(value, float) else value[name]


def of(decision: DecisionReport, case_id: str) -> CaseDecisionReport:
    return next(decided for decided in decision.cases if decided.case_id == case_id)


def always(head: float, base: float | None = None) -> Draw:
    """On the base the same, if nothing is said."""
    return lambda side, case_id: head if side == "head" or base is None else base


BROKEN_HEAD = always(NO, base=YES)


def flips(**values: Sequence[float]) -> Draw:
    """These cases give these values again and again, on both sides; others pass."""
    left = {name: iter([*own] * 30) for name, own in values.items()}
    return lambda side, name: next(left[name]) if name in left else YES


@pytest.mark.parametrize("stored", [1, 3, 10])
def test_sequential__a_case_that_is_red_on_base_gets_no_runs(stored: int) -> None:
    decision, asked = run([*steady(29), case("red", [NO], [NO] * stored)], always(NO))
    assert not asked and decision.outcome == "passed"
    assert of(decision, "red").word == "unchanged"


def test_sequential__fixed_and_better() -> None:
    expected: dict[str, tuple[list[float], list[float], str]] = {
        "fixed": ([YES] * 3, [NO] * 10, "fixed"),
        "just fixed": ([YES], [NO] * 20, "fixed"),
        "once red": ([YES], [NO], "unchanged"),  # One good run after a bad one is what a flaky case does.
        "better": ([YES] * 6, [NO] * 9 + [YES], "better"),
        "same": ([YES], [YES] * 5 + [NO] * 5, "unchanged"),
    }
    cases = [case(name, head, base) for name, (head, base, _) in expected.items()]
    decision, _ = run([*steady(20), *cases], always(YES))
    assert {name: of(decision, name).word for name in expected} == {name: word for name, (*_, word) in expected.items()}


SOME, ROUNDS = (NO, YES, NO, YES, *[YES, YES, NO] * 3, NO, NO), (0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4)
"""Fresh runs whose bet pays 20, and their rounds."""


def test_sequential__suspicious_cases_share_the_error_rate() -> None:
    """A bet that pays 20 is enough for a name if it were one case, and not for one of two."""
    two = [case(name, [NO], [YES] * 10, head_confirm=SOME, head_rounds=ROUNDS) for name in "ab"]
    decision, _ = run([*steady(28), *two], always(YES), budget=Budget(extra_runs=0))
    codes = {reason.code for reason in decision.reasons}
    assert "cases-worse-together" in codes and "case-worse" not in codes
    p_values = [(of(decision, name).p_value or 0, of(decision, name).p_adjusted or 0) for name in "ab"]
    assert all(0.025 < alone <= 0.05 < adjusted for alone, adjusted in p_values)


def suite_of_thirty(failing: Collection[int], base: Sequence[float] = (YES,) * 10) -> list[CaseEvidence]:
    days = tuple("abcdefghij")
    return [case(f"c{index}", [NO if index in failing else YES], base, base_days=days) for index in range(30)]


@pytest.mark.parametrize(
    ("failing", "lasting", "base"),
    [
        *((failing, 0, [YES] * 10) for failing in (2, 6, 12, 30)),
        *((failing, 2, [YES] * 10) for failing in (2, 4, 6)),
        (30, 2, [NO, YES, YES, YES, NO, *[YES] * 5]),  # Two of ten stored runs failed as a whole: it is no news.
    ],
)
def test_sequential__a_bad_moment_blocks_nothing(failing: int, lasting: int, base: list[float]) -> None:
    """Of the screening alone, or one that lasts into the first fresh runs, however much failed in it."""
    moment = flips(**{f"c{index}": [NO] * lasting + [YES] * 50 for index in range(failing)})
    decision, asked = run(suite_of_thirty(range(failing), base), moment)
    assert decision.outcome == "passed" and (lasting or not decision.reasons)
    assert any(step.head for step in asked)


def test_sequential__the_whole_suite_gets_worse() -> None:
    """Every run of the head fails one case in five, another one each time: no case is to blame."""
    made: dict[str, int] = {}

    def draw(side: str, name: str) -> float:
        made[name] = made.get(name, 0) + 1
        return NO if side == "head" and (int(name[1:]) + made[name]) % 5 == 0 else YES

    decision, asked = run(suite_of_thirty(range(0, 30, 5)), draw)
    assert decision.outcome == "failed"
    halves = [set(step.head) for step in asked if step.why == "suite"]
    assert len(halves) == 2 and not halves[0] & halves[1]
    reason, suite = decision.reasons[0], decision.suites[0]
    assert reason.code == "suite-worse"
    assert reason.case_ids, "only cases that failed again are named"
    assert all((of(decision, name).head_mean or 0) < 1 for name in reason.case_ids)
    assert suite.drop is not None and suite.drop > 0
    assert suite.p_value is not None and suite.p_again is not None and max(suite.p_value, suite.p_again) < 0.05


@pytest.mark.parametrize(("no_more", "codes"), [("limit", {"budget"}), ("recorded", {"recorded-answers"})])
def test_sequential__a_suite_that_cannot_run_again_is_inconclusive(no_more: Any, codes: set[str]) -> None:
    evidence = [case(f"c{index}", [YES if index % 3 else NO], [YES] * 9 + [NO]) for index in range(30)]
    decision, asked = run(evidence, always(YES), budget=Budget(extra_runs=0, no_more=no_more))
    assert not asked and decision.outcome == "inconclusive"
    assert {reason.code for reason in decision.reasons} == codes
    assert any(reason.data.get("phrase") == "suite-undecided" for reason in decision.reasons)


# History


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("can_run_base", [False, True])
@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_sequential__a_broken_case_never_passes(stored: int, can_run_base: bool, mode: ConfirmOnBase) -> None:
    evidence = [*steady(9, stored), case("bad", [NO], [YES] * stored)]
    decision, _ = run(evidence, BROKEN_HEAD, Rules(confirm_on_base=mode), Budget(can_run_base=can_run_base))
    assert decision.outcome == "failed"
    bad = of(decision, "bad")
    assert bad.word == "broken" and bad.blocking
    if stored < 2 and (mode == "never" or not can_run_base):
        assert "broken-case" in {reason.code for reason in decision.reasons}


def test_sequential__always_compares_runs_of_the_same_day_alone() -> None:
    """Stored runs of better days count for nothing."""
    evidence, rules = [*steady(9), case("bad", [NO], [YES] * 10)], Rules(confirm_on_base="always")
    decision, asked = run(evidence, always(NO), rules, RUNS_BASE)
    assert decision.outcome == "passed"
    assert 3 <= sum(step.base.get("bad", 0) for step in asked) <= 10
    assert run(evidence, BROKEN_HEAD, rules, RUNS_BASE)[0].outcome == "failed"


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(("runs", "outcome"), [([NO, NO, YES], "inconclusive"), ([NO, YES], "passed")])
def test_sequential__what_mostly_fails_does_not_pass_for_want_of_history(
    stored: int, runs: list[float], outcome: str
) -> None:
    decision, _ = run([*steady(9, stored), case("odd", [NO], [YES] * stored)], flips(odd=runs))
    assert decision.outcome == outcome


def test_sequential__what_fails_on_a_thin_base_too_is_not_left_open() -> None:
    evidence = [*steady(9, 4), case("odd", [NO], [NO, YES, YES, YES])]
    decision, _ = run(evidence, flips(odd=[NO, NO, YES]))
    assert decision.outcome == "passed" and of(decision, "odd").lacks is None


def test_sequential__what_would_decide_is_reported_for_several_together() -> None:
    draw = flips(seldom=[NO, NO, NO, NO, NO, YES], often=[NO, NO, YES])
    decision, _ = run([*steady(9, 1), *(case(name, [NO], [YES]) for name in ("seldom", "often"))], draw)
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
        (5, 1, 1, "auto", 100),  # Fewer decide nothing.
    ],
)
def test_the_usual_limit_of_extra_runs__grows_with_what_there_is_to_decide(
    cases: int, num_runs: int, metrics: int, confirm_on_base: ConfirmOnBase, runs: int
) -> None:
    assert usual_extra_runs(cases, num_runs, metrics=metrics, confirm_on_base=confirm_on_base) == runs


@pytest.mark.parametrize(("extra", "head"), [(2, {"flaky": 2}), (5, {"flaky": 2, "score": 3})])
def test_sequential__pass_or_fail_is_served_first_where_extra_runs_are_short(extra: int, head: dict[str, int]) -> None:
    """By its likelihood ratio the score would come first: it is fixed, and the flaky case's is low."""
    flaky = case("flaky", [NO], [NO] * 12 + [YES] * 8)
    score = case("score", [0.1], [0.9] * 20, metric="quality", threshold=0.5)
    rules = Rules(metrics={PASS: MetricRule(), "quality": MetricRule()})
    step = next_step([score, *steady(10), flaky], rules, Budget(extra_runs=extra))
    assert isinstance(step, Runs) and step.head == head


# Rules


def test_sequential__a_tolerance_keeps_small_drops_from_blocking() -> None:
    rules = Rules(metrics={PASS: MetricRule()}, cases={"bad": {PASS: MetricRule(max_drop=1.0)}})
    decision, _ = run([*steady(29), case("bad", [NO], [YES] * 10)], BROKEN_HEAD, rules)
    assert not of(decision, "bad").blocking and decision.outcome == "passed"


def test_sequential__what_only_informs_gets_no_runs_and_blocks_nothing() -> None:
    evidence = [case(f"c{index}", [NO], [YES] * 10) for index in range(9)]
    decision, asked = run(evidence, BROKEN_HEAD, Rules(metrics={PASS: MetricRule(blocking=False)}))
    assert not asked and decision.outcome == "passed"
    assert [reason.code for reason in decision.reasons] == ["suite-worse"] and not decision.reasons[0].blocking


def test_sequential__metrics_share_the_error_rate() -> None:
    """A drop that is enough for one metric is not for one of twenty, unless they have error rates of their own."""

    def adjusted(*rules: MetricRule) -> float:
        series = {
            f"m{number}": Series(head_screen=(0.7 if number else 0.55,), base=(0.5, 0.6, 0.7, 0.8, 0.9))
            for number in range(20)
        }
        evidence = [CaseEvidence(case_id=f"c{index}", metrics=series) for index in range(6)]
        metrics = {f"m{number}": rule for number, rule in enumerate(rules)}
        decision, _ = run(evidence, always(0.7), Rules(metrics=metrics), Budget(extra_runs=0))
        return decision.suites[0].p_adjusted or 0.0

    informs = MetricRule(blocking=False)  # Without runs of their own, the screening decides.
    alone = adjusted(informs)
    assert 0 < alone < 0.05 < adjusted(*[informs] * 20) == pytest.approx(20 * alone)
    assert adjusted(*[replace(informs, alpha=0.05)] * 2, *[informs] * 18) == alone
    assert adjusted(informs, *[MetricRule()] * 19) == alone


@pytest.mark.parametrize(("rounds", "named"), [(ROUNDS, ["a", "b"]), ((0,) * 15, ["a"])])
def test_sequential__a_second_metric_is_rejected_at_the_whole_level(rounds: tuple[int, ...], named: list[str]) -> None:
    """Its cases share it with the first metric. A case that only failed at one moment is not named."""
    bet = Series(head_screen=(NO,), base=(YES,) * 10, head_confirm=SOME, head_rounds=ROUNDS)
    failing = replace(bet, head_confirm=(NO,) * 15)
    metrics = {"a": {PASS: bet, "score": failing}, "b": {PASS: bet, "score": replace(failing, head_rounds=rounds)}}
    evidence = [CaseEvidence(case_id=name, metrics=own) for name, own in metrics.items()]
    rules = Rules(alpha=0.005, metrics={PASS: MetricRule(), "score": MetricRule()})
    decision, _ = run([*steady(28), *evidence], always(YES), rules, Budget(extra_runs=0))
    assert {(reason.metric, reason.code): reason.case_ids for reason in decision.reasons} == {
        ("score", "case-worse"): named,
        (PASS, "cases-worse-together"): ["a", "b"],
    }
    assert 0.005 / 2 < (decision.suites[0].p_adjusted or 0.0) <= 0.005
    adjusted = [(decided.p_value, decided.p_adjusted) for decided in decision.cases if decided.metric == PASS]
    assert all(after == pytest.approx(2 * 2 * (before or 0.0)) for before, after in adjusted if after is not None)


@pytest.mark.parametrize(("score", "blocking"), [(0.1, {PASS, "score"}), (0.9, set())])
def test_sequential__the_second_metric_that_is_rejected_says_why_too(score: float, blocking: set[str]) -> None:
    """Where the score is as before, the two cases pass when run again."""
    scores = Series(head_screen=(score,), base=(0.8, 0.9) * 5)
    passes = [Series(head_screen=(NO if index < 2 else YES,), base=(YES,) * 10) for index in range(20)]
    evidence = [CaseEvidence(case_id=f"c{at}", metrics={PASS: own, "score": scores}) for at, own in enumerate(passes)]
    rules = Rules(metrics={PASS: MetricRule(), "score": MetricRule()})
    failing = {"c0", "c1"} if blocking else set()
    decision, _ = run(evidence, lambda _, name: {PASS: NO if name in failing else YES, "score": score}, rules)
    assert {reason.metric for reason in decision.reasons if reason.blocking} == blocking


@pytest.mark.parametrize(
    ("lowest", "base", "threshold", "asks"),
    [(0.8, 0.8, 0.8, False), (0.9, 0.9, 0.8, True), (0.7, 0.9, 0.8, True), (0.7, 0.9, 0.75, False)],
)
def test_sequential__a_case_below_its_threshold_and_within_the_tolerance_of_its_base_gets_no_more_runs(
    lowest: float, base: float, threshold: float, asks: bool
) -> None:
    evidence = [*(case(f"c{index}", [0.9], [0.9] * 10, "score") for index in range(9))]
    evidence.append(case("low", [0.75], [lowest, *[base] * 9], "score", threshold=threshold))
    step = next_step(evidence, Rules(metrics={"score": MetricRule(max_drop=0.1)}), UNLIMITED)
    assert isinstance(step, Runs) == asks


@pytest.mark.parametrize(
    ("stored", "again", "head", "base"),
    [
        (10, (), 2, {}),
        (4, (NO, YES), 2, {"bad": 4}),  # Filled up to ten, once it failed again.
        (9, (NO, YES), 2, {"bad": 1}),
        (10, (NO, YES), 2, {}),
        (10, (NO,), 1, {}),  # A round that was broken off is completed.
    ],
)
def test_sequential__the_next_runs_of_a_suspicious_case(
    stored: int, again: tuple[float, ...], head: int, base: dict[str, int]
) -> None:
    bad = case("bad", [NO], [YES] * stored, head_confirm=again, head_rounds=(0,) * len(again))
    # Not enough to run the whole suite again.
    step = next_step([*steady(29), bad], DEFAULT, Budget(can_run_base=True, extra_runs=10))
    assert isinstance(step, Runs)
    assert (step.head, step.base) == ({"bad": head}, base)


@pytest.mark.parametrize("same_day", [False, True])
def test_sequential__scores_keep_their_error_rate_with_a_base_of_today(same_day: bool) -> None:
    values = random.Random(8)
    rules = Rules(metrics={"score": MetricRule()}, confirm_on_base="always")
    failed = 0
    for _ in range(60):
        means = {f"c{index}": values.uniform(0.6, 0.9) for index in range(8)}

        def draw(side: str, name: str, means: dict[str, float] = means) -> float:
            return values.gauss(means[name], 0.1)

        evidence = []
        for name in means:
            head, today, *stored = (draw("", name) for _ in range(8))
            sides: dict[str, Any] = {"base": (), "base_screen": (today,)} if same_day else {"base": stored}
            evidence.append(case(name, [head], metric="score", threshold=0.65, **sides))
        failed += run(evidence, draw, rules, RUNS_BASE)[0].outcome == "failed"
    assert failed <= 8  # P(more than 8 of 60 | 5%) < 0.005


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_sequential__alpha_has_a_range_and_days_belong_to_runs(alpha: float) -> None:
    for wrong in ({"alpha": alpha}, {"metrics": {PASS: MetricRule(alpha=alpha)}}):
        with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
            Rules(**wrong)
    with pytest.raises(ValueError, match="base_days has 1 entries for 2 runs"):
        Series(base=(1.0, 0.0), base_days=("a",))


# Nothing depends on order, all on the seed


def mixed(seed: int, cases: int = 25) -> list[CaseEvidence]:
    values = random.Random(seed)
    samples = []
    for index in range(cases):
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
        shuffled = []
        for sample in evidence:
            metrics = {
                name: replace(series, base=tuple(values.sample(series.base, len(series.base))))
                for name, series in reversed(list(sample.metrics.items()))
            }
            shuffled.append(CaseEvidence(case_id=sample.case_id, metrics=metrics))
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


def test_sequential__only_what_is_drawn_depends_on_the_seed() -> None:
    first, other = (next_step(mixed(2), replace(RULES, seed=seed), Budget(extra_runs=0)) for seed in (0, 1))
    assert isinstance(first, DecisionReport) and isinstance(other, DecisionReport)
    assert first.suites[0] == other.suites[0], "what is exact needs no seed"
    assert first.suites[1].p_value != other.suites[1].p_value


@pytest.mark.nightly
def test_sequential__ten_thousand_cases_in_seconds() -> None:
    evidence = mixed(1, 10_000)
    unit = 1024 if sys.platform == "linux" else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    begun = time.process_time()
    decision = next_step(evidence, RULES, Budget(extra_runs=0))
    taken = time.process_time() - begun
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before
    assert isinstance(decision, DecisionReport) and len(decision.cases) == 20_000
    assert taken < 5
    assert grown < 300e6


# What the previous attempt of a pull request held against a case is looked at again


def push(runs: str, before: Mapping[str, Before]) -> tuple[DecisionReport, int]:
    """A push in which `odd` does this, first in the screening and then when run again; the others always pass."""
    first, *more = map(float, runs)
    odd = case("odd", [first], [YES] * 20, before=before.get("odd", ""))
    left = iter(more)
    decision, asked = run(
        [odd, *steady(29, 20)],
        lambda side, name: next(left) if (side, name) == ("head", "odd") else YES,
        budget=RUNS_BASE,
    )
    return decision, sum(sum(step.head.values()) for step in asked)


FAILS_MOSTLY = "0010001001000100"


def test_attempts__a_lucky_screening_does_not_turn_a_blocked_case_green_and_a_repair_does() -> None:
    first, _ = push(FAILS_MOSTLY, {})
    assert (first.outcome, held_against(first.cases)) == ("failed", {"odd": "blocked"})
    lucky = f"1{FAILS_MOSTLY[1:]}"
    assert push(lucky, {})[0].outcome == "passed", "nobody looked"
    again, _ = push(lucky, held_against(first.cases))
    assert again.outcome == "failed"
    assert [case.case_id for case in again.cases if case.blocking] == ["odd"]
    repaired, made = push("1" * 16, held_against(first.cases))
    assert (repaired.outcome, held_against(repaired.cases)) == ("passed", {})
    assert 0 < made <= 12


@pytest.mark.parametrize(("before", "outcome"), [("", "passed"), ("suspicious", "passed"), ("blocked", "failed")])
def test_attempts__a_blocked_case_is_not_picked_out_of_all_once_more(before: Before, outcome: str) -> None:
    """2 failures of 4 against 20 passes pay 27: enough for the case alone, not with half of the stake on it."""
    assert push("0101011111111111", {"odd": before})[0].outcome == outcome


def test_attempts__a_blocked_case_whose_stored_runs_lost_their_scores_is_decided_by_its_runs() -> None:
    evidence = [CaseEvidence(case_id="odd", metrics={PASS: Series(head_screen=(NO,), before="blocked")})]
    decision, _ = run(evidence, lambda _side, _name: NO)
    assert [(case.word, case.blocking) for case in decision.cases] == [("broken", True)]


# Before a pull request fails, the base is run today: a day on which everything fails is no regression


def with_broken(
    broken: int, down: Collection[str] = (), rules: Rules = DEFAULT, budget: Budget = RUNS_BASE
) -> tuple[DecisionReport, int]:
    """The decision where these of 30 cases fail on the head, those that are down on the base today, too; its runs."""
    evidence = [case(f"case{index}", [NO if index < broken else YES], [YES] * 20) for index in range(30)]

    def draw(side: str, name: str) -> float:
        return NO if (name in down if side == "base" else int(name[4:]) < broken) else YES

    decision, asked = run(evidence, draw, rules, budget)
    return decision, sum(sum(step.base.values()) for step in asked)


ALL = [f"case{index}" for index in range(12)]


@pytest.mark.parametrize("broken", [1, 12])
def test_base_today__a_tool_that_is_down_for_both_sides_blocks_nothing(broken: int) -> None:
    stored_only, _ = with_broken(broken, ALL, budget=UNLIMITED)
    assert stored_only.outcome == "failed", "without a worktree nothing says that today is another day"
    decision, made = with_broken(broken, ALL)
    assert decision.outcome == "passed"
    assert made > 0
    assert [reason.code for reason in decision.reasons] == ["base-differs-today"]
    decision.reasons[0].message = "Today main fails more often"  # As a report does: another run has another branch.
    assert with_broken(broken, ALL)[0].reasons[0].message == ""
    assert with_broken(broken, ALL, Rules(confirm_on_base="never"))[0].outcome == "failed", "never means never"


@pytest.mark.parametrize("broken", [1, 12])
def test_base_today__a_regression_still_blocks_and_the_check_is_bounded(broken: int) -> None:
    decision, made = with_broken(broken)
    assert decision.outcome == "failed"
    assert 0 < made <= CHECK_RUNS * broken


def test_base_today__a_regression_beside_an_outage_blocks_and_without_runs_nothing_is_decided() -> None:
    """One case fails on the head alone, eleven on both sides."""
    decision, _ = with_broken(12, ALL[1:])
    assert decision.outcome == "failed"
    assert [case.case_id for case in decision.cases if case.blocking] == ALL[:1]
    assert with_broken(12, ALL, budget=replace(RUNS_BASE, extra_runs=0))[0].outcome == "inconclusive"
