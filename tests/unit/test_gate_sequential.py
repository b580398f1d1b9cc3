"""The gate as it is asked: what it wants to run, when it stops, what it says."""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from golden_files import as_lines, check, names_in, plain, rounded

from agent_eval.gate.regression.gathering import held_against
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, ConfirmOnBase, MetricRule, Rules, usual_extra_runs
from agent_eval.gate.stats.samples import CaseEvidence, Series
from agent_eval_results import PASS, DecisionReport, Runs

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
            samples[index] = replace(sample, metrics=metrics)
        if budget.extra_runs is not None:
            budget = replace(budget, extra_runs=budget.extra_runs - sum(step.head.values()) - sum(step.base.values()))
    return step, asked


def of_metric(value: float | Mapping[str, float], name: str) -> float:
    return value if isinstance(value, float) else value[name]


def always(head: float, base: float | None = None) -> Draw:
    """On the base the same, if nothing is said."""
    return lambda side, case_id: head if side == "head" or base is None else base


BROKEN_HEAD = always(NO, base=YES)


def flips(**values: Sequence[float]) -> Draw:
    """These cases give these values again and again, on both sides; others pass."""
    left = {name: iter([*own] * 30) for name, own in values.items()}
    return lambda side, name: next(left[name]) if name in left else YES


SOME, ROUNDS = (NO, YES, NO, YES, *[YES, YES, NO] * 3, NO, NO), (0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4)
"""Fresh runs whose bet pays 20, and their rounds."""


def suite_of_thirty(failing: Collection[int], base: Sequence[float] = (YES,) * 10) -> list[CaseEvidence]:
    days = tuple("abcdefghij")
    return [case(f"c{index}", [NO if index in failing else YES], base, base_days=days) for index in range(30)]


# History


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("can_run_base", [False, True])
@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_sequential__a_broken_case_never_passes(stored: int, can_run_base: bool, mode: ConfirmOnBase) -> None:
    evidence = [*steady(9, stored), case("bad", [NO], [YES] * stored)]
    decision, _ = run(evidence, BROKEN_HEAD, Rules(confirm_on_base=mode), Budget(can_run_base=can_run_base))
    assert decision.outcome == "failed"
    [bad] = [decided for decided in decision.cases if decided.case_id == "bad"]
    assert bad.word == "broken" and bad.blocking
    if stored < 2 and (mode == "never" or not can_run_base):
        assert "broken-case" in {reason.code for reason in decision.reasons}


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


# Rules


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
            metrics = dict(
                reversed(list(sample.metrics.items()))
            )  # not the base runs, whose newest count by themselves
            shuffled.append(CaseEvidence(case_id=sample.case_id, metrics=metrics))
        again = next_step(shuffled, RULES, Budget(extra_runs=extra))
        if isinstance(first, DecisionReport):
            assert isinstance(again, DecisionReport)
            assert (again.outcome, again.suites) == (first.outcome, first.suites)
            assert sorted(again.cases, key=repr) == sorted(first.cases, key=repr)
        else:
            assert again == first


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


# Many games on a page: what is asked for, and what is said in the end.

Game = tuple[Sequence[CaseEvidence], Draw, Rules, Budget]


def push(runs: str, before: bool = False) -> Game:
    """A push in which `odd` does this, first in the screening and then when run again; the others always pass.

    What the previous push of the pull request held against it is looked at again.
    """
    first, *more = map(float, runs)
    left = iter(more)
    evidence = [case("odd", [first], [YES] * 20, before=before), *steady(29, 20)]
    return evidence, lambda side, name: next(left) if (side, name) == ("head", "odd") else YES, DEFAULT, RUNS_BASE


def again(runs: str, *attempts: str, careful: bool = False) -> Game:
    """Another attempt at the same commit: `odd` did this in earlier ones, first in the screening, and now that."""
    [odd, *others], draw, _, budget = push(runs)
    earlier = []
    for attempt in attempts:
        first, *more = map(float, attempt)
        confirmed = Series(head_screen=(first,), head_confirm=tuple(more), head_rounds=tuple(range(len(more))))
        earlier.append(replace(confirmed, base_confirm=(YES, YES)))
    return [replace(odd, earlier=tuple(earlier)), *others], draw, Rules(careful=careful), budget


def with_broken(broken: int, down: Collection[str] = (), rules: Rules = DEFAULT, budget: Budget = RUNS_BASE) -> Game:
    """These of 30 cases fail on the head, those that are down on the base today, too."""
    evidence = [case(f"case{index}", [NO if index < broken else YES], [YES] * 20) for index in range(30)]

    def draw(side: str, name: str) -> float:
        return NO if (name in down if side == "base" else int(name[4:]) < broken) else YES

    return evidence, draw, rules, budget


def beside(count: int, *cases: CaseEvidence, draw: Draw, stored: int = 10, **facts: Any) -> Game:
    """Cases beside some that always pass."""
    return [*steady(count, stored), *cases], draw, facts.get("rules", DEFAULT), facts.get("budget", UNLIMITED)


def moment(failing: int, lasting: int, base: Sequence[float] = (YES,) * 10) -> Game:
    """A bad moment: of the screening alone, or one that lasts into the first fresh runs."""
    draw = flips(**{f"c{index}": [NO] * lasting + [YES] * 50 for index in range(failing)})
    return suite_of_thirty(range(failing), base), draw, DEFAULT, UNLIMITED


def one_in_five() -> Game:
    """Every run of the head fails one case in five, another one each time: no case is to blame."""
    made: Counter[str] = Counter()

    def draw(side: str, name: str) -> float:
        made[name] += 1
        return NO if side == "head" and (int(name[1:]) + made[name]) % 5 == 0 else YES

    return suite_of_thirty(range(0, 30, 5)), draw, DEFAULT, UNLIMITED


def with_second_metric(rounds: tuple[int, ...]) -> Game:
    """It is rejected at the whole level, which its cases share with the first metric."""
    bet = Series(head_screen=(NO,), base=(YES,) * 10, head_confirm=SOME, head_rounds=ROUNDS)
    failing = replace(bet, head_confirm=(NO,) * 15)
    metrics = {"a": {PASS: bet, "score": failing}, "b": {PASS: bet, "score": replace(failing, head_rounds=rounds)}}
    evidence = [CaseEvidence(case_id=name, metrics=own) for name, own in metrics.items()]
    rules = Rules(alpha=0.005, metrics={PASS: MetricRule(), "score": MetricRule()})
    return [*steady(28), *evidence], always(YES), rules, Budget(extra_runs=0)


def undecided_suite(no_more: Any) -> Game:
    evidence = [case(f"c{index}", [YES if index % 3 else NO], [YES] * 9 + [NO]) for index in range(30)]
    return evidence, always(YES), DEFAULT, Budget(extra_runs=0, no_more=no_more)


def with_scores(score: float) -> Game:
    """Where the score is as before, the two cases pass when run again."""
    scores = Series(head_screen=(score,), base=(0.8, 0.9) * 5)
    passes = [Series(head_screen=(NO if index < 2 else YES,), base=(YES,) * 10) for index in range(20)]
    evidence = [CaseEvidence(case_id=f"c{at}", metrics={PASS: own, "score": scores}) for at, own in enumerate(passes)]
    failing = {"c0", "c1"} if score < 0.5 else set()
    rules = Rules(metrics={PASS: MetricRule(), "score": MetricRule()})
    return evidence, lambda _, name: {PASS: NO if name in failing else YES, "score": score}, rules, UNLIMITED


def low(lowest: float, base: float, threshold: float) -> Game:
    """Below its threshold, and perhaps within the tolerance of its base."""
    evidence = [*(case(f"c{index}", [0.9], [0.9] * 10, "score") for index in range(9))]
    evidence.append(case("low", [0.75], [lowest, *[base] * 9], "score", threshold=threshold))
    return evidence, always(0.9), Rules(metrics={"score": MetricRule(max_drop=0.1)}), UNLIMITED


BAD = case("bad", [NO], [YES] * 10)
FIXED = [
    case("fixed", [YES] * 3, [NO] * 10),
    case("just fixed", [YES], [NO] * 20),
    case("once red", [YES], [NO]),  # One good run after a bad one is what a flaky case does.
    case("better", [YES] * 6, [NO] * 9 + [YES]),
    case("same", [YES], [YES] * 5 + [NO] * 5),
]
TWO = [case(name, [NO], [YES] * 10, head_confirm=SOME, head_rounds=ROUNDS) for name in "ab"]
SAME_DAY = Rules(confirm_on_base="always")
TOLERANT = Rules(metrics={PASS: MetricRule()}, cases={"bad": {PASS: MetricRule(max_drop=1.0)}})
INFORMS = Rules(metrics={PASS: MetricRule(blocking=False)})
NINE = [case(f"c{index}", [NO], [YES] * 10) for index in range(9)]
THIN = case("odd", [NO], [NO, YES, YES, YES])
MOSTLY = [case(name, [NO], [YES]) for name in ("seldom", "often")]
FLAKY = [case("score", [0.1], [0.9] * 20, metric="quality", threshold=0.5), case("flaky", [NO], [NO] * 12 + [YES] * 8)]
QUALITY = Rules(metrics={PASS: MetricRule(), "quality": MetricRule()})
LOST = CaseEvidence(case_id="odd", metrics={PASS: Series(head_screen=(NO,), before=True)})
FAILS_MOSTLY, DOWN = "010001001000100", [f"case{index}" for index in range(12)]
RUNS_TEN = Budget(can_run_base=True, extra_runs=10)
GAMES = {
    **{
        f"red on {stored} runs of the base": beside(29, case("red", [NO], [NO] * stored), draw=always(NO))
        for stored in (1, 3, 10)
    },
    "fixed and better": beside(20, *FIXED, draw=always(YES)),
    "a bet that pays 20 is not enough for one of two": beside(28, *TWO, draw=always(YES), budget=Budget(extra_runs=0)),
    **{f"a bad moment of {failing}": moment(failing, 0) for failing in (2, 6, 12, 30)},
    **{f"a bad moment of {failing}, and the next two": moment(failing, 2) for failing in (2, 4, 6)},
    # Two of ten stored runs failed as a whole: it is no news.
    "a bad moment as there were on the base": moment(30, 2, [NO, YES, YES, YES, NO, *[YES] * 5]),
    **{f"a suite that cannot run again: {why}": undecided_suite(why) for why in ("limit", "recorded")},
    "one case in five": one_in_five(),
    "a second metric": with_second_metric(ROUNDS),
    "a second metric, by a case that only failed at one moment": with_second_metric((0,) * 15),
    "stored runs of better days": beside(9, BAD, draw=always(NO), rules=SAME_DAY, budget=RUNS_BASE),
    "broken, whatever the stored runs": beside(9, BAD, draw=BROKEN_HEAD, rules=SAME_DAY, budget=RUNS_BASE),
    **{
        f"fails {len(runs) - 1} of {len(runs)}, {stored} stored runs": beside(
            9, case("odd", [NO], [YES] * stored), draw=flips(odd=runs), stored=stored
        )
        for stored in range(6)
        for runs in ([NO, NO, YES], [NO, YES])
    },
    "fails on a thin base, too": beside(9, THIN, draw=flips(odd=[NO, NO, YES]), stored=4),
    "several together": beside(9, *MOSTLY, draw=flips(seldom=[NO] * 5 + [YES], often=[NO, NO, YES]), stored=1),
    "a tolerance": beside(29, BAD, draw=BROKEN_HEAD, rules=TOLERANT),
    "what only informs": (NINE, BROKEN_HEAD, INFORMS, UNLIMITED),
    **{f"a second metric of {score}": with_scores(score) for score in (0.1, 0.9)},
    **{f"low: {facts}": low(*facts) for facts in ((0.8, 0.8, 0.8), (0.9, 0.9, 0.8), (0.7, 0.9, 0.8), (0.7, 0.9, 0.75))},
    # By its likelihood ratio the score would come first: it is fixed, and the flaky case's is low.
    **{
        f"pass or fail first, {extra} runs": beside(
            10,
            *FLAKY,
            draw=lambda _, name: 0.1 if name == "score" else YES,
            rules=QUALITY,
            budget=Budget(extra_runs=extra),
        )
        for extra in (2, 5)
    },
    "a blocked case": push(f"0{FAILS_MOSTLY}"),
    "nobody looks at a lucky screening": push(f"1{FAILS_MOSTLY}"),
    "a lucky screening of a blocked case": push(f"1{FAILS_MOSTLY}", True),
    "a repair of a blocked case": push("1" * 16, True),
    # 2 failures of 4 against 20 passes pay 27: enough for the case alone, not with half of the stake on it.
    **{f"not picked out of all, {before=}": push("0101011111111111", before) for before in (False, True)},
    "again, and its screening is lucky": again(f"1{FAILS_MOSTLY}", f"0{FAILS_MOSTLY}"),
    "once more": again(f"1{FAILS_MOSTLY}", f"0{FAILS_MOSTLY}", f"1{FAILS_MOSTLY}"),
    "again, and nothing fails now": again("1" * 16, "0000"),
    # As if someone had made it up: this attempt's own runs decide.
    "again, after a hundred passes": again(f"0{FAILS_MOSTLY}", f"0{'1' * 100}"),
    # The first attempt's two base runs passed by luck: two are too few to tell a bad day, which each attempt meets.
    "again, on a day on which the base fails as well": (
        *(again("0", "0000")[0], lambda _, name: NO if name == "odd" else YES),
        *(DEFAULT, RUNS_BASE),
    ),
    "again, without the results of the first attempt": again(f"1{FAILS_MOSTLY}", careful=True),
    "a blocked case without stored runs": ([LOST], always(NO), DEFAULT, UNLIMITED),
    **{f"{broken} broken, down on the base": with_broken(broken, DOWN) for broken in (1, 12)},
    **{f"{broken} broken": with_broken(broken) for broken in (1, 12)},
    "broken, without a worktree": with_broken(12, DOWN, budget=UNLIMITED),
    "never means never": with_broken(12, DOWN, Rules(confirm_on_base="never")),
    "a regression beside an outage": with_broken(12, DOWN[1:]),
    "a regression beside an outage, without runs": with_broken(12, DOWN, budget=replace(RUNS_BASE, extra_runs=0)),
}


def test_sequential__what_is_asked_for_and_said_in_many_games() -> None:
    page = []
    for name, (evidence, draw, rules, budget) in GAMES.items():
        decision, asked = run(evidence, draw, rules, budget)
        page += [f"# {name}", f"{decision.outcome}, held against: {sorted(held_against(decision.cases))}"]
        for step in asked:
            sides = (f"{side} {dict(counts)}" for side, counts in (("head", step.head), ("base", step.base)) if counts)
            page.append(f"asks, {step.why}: {', '.join(sides)}"[:200])
        for reason in decision.reasons:
            facts = rounded(json.dumps({key: value for key, value in reason.data.items() if key != "numbers"}))
            whose = f"{reason.metric or 'all metrics'} {names_in(reason.case_ids)}".strip()
            blocks = "blocks" if reason.blocking else "informs"
            page.append(f"because {reason.code}, {whose}, {blocks}: {plain(facts)}")
            assert reason.message == "", "no reason is that of another run, too"
            reason.message = "as a report says it, with the name of its base branch"
        page += [f"suite: {line.removeprefix('in all: ')}" for each in decision.suites for line in as_lines(each)]
        alike: dict[str, list[str]] = {}
        for each in decision.cases:
            [facts_of_case] = as_lines(each.model_copy(update={"case_id": ""}))
            alike.setdefault(facts_of_case.removeprefix('in all: case_id "", '), []).append(each.case_id)
        page += [f"{names_in(names)}: {line}" for line, names in alike.items()]
    # A round that was broken off is completed, and stored runs are filled up to ten once it failed again.
    for stored, again in ((10, ()), (4, (NO, YES)), (9, (NO, YES)), (10, (NO, YES)), (10, (NO,))):
        bad = case("bad", [NO], [YES] * stored, head_confirm=again, head_rounds=(0,) * len(again))
        # Not enough to run the whole suite again.
        page.append(f"{stored} stored runs, {again}: {next_step([*steady(29), bad], DEFAULT, RUNS_TEN)}")
    check("golden_games.txt", "\n".join(page) + "\n")


def settled(
    all_series: dict[str, Series], draw: Callable[[str, int], tuple[float, ...]], *, metric: str = PASS
) -> DecisionReport:
    """The decision, once the runs that the gate asked for were drawn, the same way on both sides."""
    for number in range(20):
        evidence = [CaseEvidence(case_id=name, metrics={metric: series}) for name, series in all_series.items()]
        step = next_step(evidence, Rules(metrics={metric: MetricRule()}), Budget(extra_runs=200, can_run_base=True))
        if isinstance(step, DecisionReport):
            return step
        for name in sorted({*step.head, *step.base}):
            series, head, beside = all_series[name], step.head.get(name, 0), step.base.get(name, 0)
            all_series[name] = replace(
                series,
                head_confirm=(*series.head_confirm, *draw(name, head)),
                head_rounds=(*series.head_rounds, *[number] * head),
                base_confirm=(*series.base_confirm, *draw(name, beside)),
            )
    pytest.fail("no decision after 20 rounds")


DAYS = tuple(map(str, range(20)))


@pytest.mark.parametrize("stored", [1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 20])
def test_sequential__a_case_that_broke_on_the_base_blocks_nobody(stored: int) -> None:
    """It failed the newest records, fails every run of today on both sides, and 29 others always pass."""
    days, said = DAYS[:stored], []
    for records in range(stored + 1):
        base = {f"ok{each}": Series(head_screen=(1.0,), base=(1.0,) * stored, base_days=days) for each in range(29)}
        broke = (1.0,) * (stored - records) + (0.0,) * records
        base["broken"] = Series(head_screen=(0.0,), base=broke, base_days=days)
        decision = settled(base, lambda name, count: (float(name != "broken"),) * count)
        assert decision.outcome == "passed", f"{records} records"
        [case] = [case for case in decision.cases if case.case_id == "broken"]
        said.append(case.broken_on_base)
    assert said == [True] * stored + [False], "a case that passed in no record has not broken there"


def test_sequential__a_score_of_zero_in_all_runs_of_today_is_compared_with_them() -> None:
    """Low on both sides today: that is the day, and not a case that is broken on the base."""
    rng, red = random.Random(0), 0
    for _ in range(30):
        all_series = {
            f"ok{each}": Series(
                head_screen=(0.9,), base=tuple(rng.uniform(0.8, 1.0) for _ in range(10)), base_days=DAYS[:10]
            )
            for each in range(9)
        }
        all_series["low"] = Series(head_screen=(0.0,), base=(1.0,) * 9 + (0.0,), base_days=DAYS[:10], threshold=0.5)

        def draw(name: str, count: int, rng: random.Random = rng) -> tuple[float, ...]:
            return (0.0,) * count if name == "low" else tuple(rng.uniform(0.8, 1.0) for _ in range(count))

        red += settled(all_series, draw, metric="score").outcome == "failed"
    assert red <= 8, "30 where a score of 0.0 counted as a failed run"


def test_sequential__a_case_that_halved_on_the_base_seldom_blocks_others() -> None:
    """It was merged with the last record; an unchanged pull request in which it fails once is not the cause."""
    blocked = 0
    for seed in range(100):
        rng = random.Random(seed)
        all_series = {f"ok{each}": Series(head_screen=(1.0,), base=(1.0,) * 20, base_days=DAYS) for each in range(9)}
        base = (*(1.0,) * 19, float(rng.random() < 0.5))
        all_series["halved"] = Series(head_screen=(0.0,), base=base, base_days=DAYS)

        def draw(name: str, count: int, rng: random.Random = rng) -> tuple[float, ...]:
            return tuple(float(name != "halved" or rng.random() < 0.5) for _ in range(count))

        blocked += settled(all_series, draw).outcome == "failed"
    assert blocked <= 25, "with two runs of the base branch today it was every second one"
