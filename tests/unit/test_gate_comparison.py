"""A run compared with the base branch's."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from golden_files import as_lines, check, facts_of
from history_samples import case, comparable, compare, history_of, report, said
from hypothesis import given
from hypothesis import strategies as st
from policy_texts import entry, quarantine, valid_policy
from report_samples import RESPONSE, TRAJECTORY, crash, good, metric, outage
from report_samples import case as scored_case
from report_samples import report as scored_report

from agent_eval.gate import diff
from agent_eval.gate.history import extend
from agent_eval.gate.regression import comparable_cases
from agent_eval.gate.regression.gathering import MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.regression.retrial import FAILURES, RUNS, Retrial, is_constant_error, outcomes
from agent_eval.gate.stats.decision import Rules
from agent_eval_results.data.comparison import Change, ComparisonReport
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.data.report import (
    CaseReport,
    CaseStatus,
    CaseUsageReport,
    MetricReport,
    Reason,
    RunReport,
    SelectionReport,
    TargetReport,
)
from agent_eval_results.data.stored_runs import stored_means
from agent_eval_scoring.core.recording import RunError

# Head against base: what is compared, what is listed apart, and that nothing else gives a delta.


STATUSES: list[CaseStatus] = ["passed", "failed", "errored", "not_run", "quarantined"]


def known(eval_id: str, status: CaseStatus, *metrics: MetricReport, content: str = "", **more: object) -> CaseReport:
    """A case that tells what it asks."""
    report = scored_case(eval_id, status, *metrics, **more)  # type: ignore[arg-type]
    report.fingerprint = content or f"asks-{eval_id}"
    for each in report.metrics:
        each.fingerprint = each.fingerprint or f"measures-{each.name}"
    return report


def scored(eval_id: str, score: float | None, *, threshold: float = 0.8, **more: object) -> CaseReport:
    status: CaseStatus = "errored" if score is None else "passed" if score >= threshold else "failed"
    return known(eval_id, status, metric(RESPONSE, score, threshold=threshold), **more)  # type: ignore[arg-type]


def run_of(*cases: CaseReport, **changes: object) -> RunReport:
    return scored_report("passed", list(cases)).model_copy(update=changes)


def asks(file: str, eval_id: str, content: str) -> CaseReport:
    return scored(eval_id, 1.0, content=content, file=file)


def selected(*targets: str, exclude: Sequence[str] = ()) -> SelectionReport:
    named = [target.partition(":") for target in targets]
    return SelectionReport(
        targets=[TargetReport(path=path, ids=ids.split(",") if ids else []) for path, _, ids in named],
        exclude=list(exclude),
    )


def beside_one_that_informs(score: float, measures: str) -> RunReport:
    informs = metric(TRAJECTORY, 0.0, threshold=1.0).model_copy(update={"blocking": False, "fingerprint": measures})
    case = scored("a", score)
    return run_of(case.model_copy(update={"metrics": [*case.metrics, informs]}))


def with_judge(score: float, judge: str, fingerprint: str = "") -> RunReport:
    report = scored("a", score)
    report.metrics[0].judge = judge
    report.metrics[0].fingerprint = fingerprint or f"asked of {judge}"
    return run_of(report)


def broke() -> RunReport:
    return run_of(*(item.model_copy(update={"fingerprint": "f"}) for item in (outage(), crash())))


def with_costs() -> tuple[RunReport, RunReport]:
    """Of two runs and a new case, and of one run whose price nobody knows."""
    head = run_of(scored("a", 0.9, runs=2, duration=3.0), scored("new", 0.9, duration=99.0))
    base = run_of(scored("a", 0.9, duration=1.0))
    head.cases[0].runs[0].usage.output_tokens = 164
    head.case_usage = [
        CaseUsageReport(case_id="a", purpose=purpose, model="m", calls=3, cost=cost)
        for purpose, cost in (("agent", 0.25), ("safety_v1", 0.5), ("agent-again", 9.0), ("agent-base", 9.0))
    ]
    base.case_usage = [CaseUsageReport(case_id="a", purpose="agent", model="m", calls=3, cost=None)]
    return head, base


def coin(*scores: float, day: int = 0, **changes: Any) -> RunReport:
    made = report(case("coin", scores=scores), day=day, num_runs=len(scores))
    made.cases[0].fingerprint = changes.pop("asks", "heads?")
    return made.model_copy(update=changes)


def against(head: RunReport, *days: RunReport, **changes: Any) -> tuple[RunReport, RunReport, HistoryReport]:
    """The base's numbers are means over its stored runs, not those of one run."""
    return head, days[-1], history_of(*days).model_copy(update=changes)


def selected_from(selection: SelectionReport, *numbers: int) -> tuple[RunReport, RunReport]:
    """What a selection leaves of the suite, by its numbers there, and the suite."""
    return run_of(*(SUITE[number] for number in numbers), selection=selection), run_of(*SUITE)


LOW, PASSES = metric(RESPONSE, 0.2, threshold=0.8), scored("a", 0.9)
WITHOUT_KEY = metric(RESPONSE, None, threshold=0.8, reason=Reason(code="no-key", message="no key"))
CALLS, NO_CALLS = metric(TRAJECTORY, 1.0, threshold=1.0), metric(TRAJECTORY, 0.0, threshold=1.0)
NEW_FAILS = known("a", "failed", metric(RESPONSE, 0.9, threshold=0.8), NO_CALLS)
FAILING, FINE = scored("a", 0.1), broke()
for fine in FINE.cases:
    fine.status, fine.metrics = "passed", []
FLIPS = [coin(score, day=day) for day, score in enumerate((1.0, 0.0, 1.0, 0.0))]
ROUNDED, ONLY_A = 0.912345678, selected("evals/a.test.json")
SUITE = [
    asks(file, eval_id, f"{file} {eval_id}")
    for file in ("evals/a.test.json", "evals/deep/b.test.json", "other/c.test.json")
    for eval_id in ("x", "y")
]


def compared() -> dict[str, tuple[RunReport, RunReport] | tuple[RunReport, RunReport, HistoryReport]]:
    return {
        "newly failing": (run_of(scored("a", 0.5), scored("b", 0.9)), run_of(scored("a", 1.0), scored("b", 0.9))),
        "a metric that only informs explains no failure": (
            beside_one_that_informs(0.9, "new"),
            beside_one_that_informs(0.1, "old"),
        ),
        "added, removed and changed": (
            run_of(scored("new", 0.1), scored("edited", 0.2, content="other words"), scored("same", 0.9)),
            run_of(scored("gone", 0.1), scored("edited", 0.9), scored("same", 0.9)),
        ),
        "renamed": (
            run_of(scored("lamp_off", 0.3, content="x"), scored("fan", 0.9, content="y", file="tests/new.test.json")),
            run_of(scored("lamp", 0.9, content="x"), scored("fan", 0.9, content="y", file="tests/old.test.json")),
        ),
        **{
            f"{other}, {side}": (run_of(sides[0]), run_of(sides[1]))
            for other in STATUSES[2:]
            for odd in [known("a", other, metric(RESPONSE, 0.4, threshold=0.8))]
            for side, sides in (("here", (odd, FAILING)), ("there", (FAILING, odd)), ("on both sides", (odd, odd)))
        },
        "an outage and a crash": (broke(), FINE),
        "an outage and a crash on the base": (FINE, broke()),
        "another judge": (with_judge(0.2, "gemini-3"), with_judge(0.9, "gemini-2")),
        "other options": (with_judge(0.9, "g", "one"), with_judge(0.8, "g", "two")),
        "a new criterion": (run_of(NEW_FAILS), run_of(PASSES)),
        "a removed criterion": (run_of(PASSES), run_of(NEW_FAILS)),
        "without a key": (run_of(known("a", "passed", WITHOUT_KEY, CALLS)), run_of(known("a", "failed", LOW, CALLS))),
        "other rules": (run_of(scored("a", 0.2)), run_of(scored("a", 0.9), scoring_version=0)),
        "another threshold": (run_of(scored("a", 0.85, threshold=0.9)), run_of(scored("a", 0.85, threshold=0.8))),
        "without fingerprints": (run_of(scored("a", 0.1), good("b")), run_of(good("a"), good("b"))),
        "costs, tokens and seconds": with_costs(),
        "largest drops of what still passes": (
            run_of(*(scored(f"c{n}", 1 - n / 100) for n in range(15))),
            run_of(*(scored(f"c{n}", 1.0) for n in range(15))),
        ),
        "how often cases ran": (run_of(PASSES, num_runs=3, min_pass_rate=0.5), run_of(PASSES, num_runs=1)),
        "a mean of four stored runs": against(coin(1.0), *FLIPS),
        **{
            f"several runs of one day, {rate} of which must pass": against(
                coin(1.0), coin(1.0, 1.0, 0.0), coin(1.0, 1.0, 1.0, day=1, min_pass_rate=rate)
            )
            for rate in (1.0, 0.6)
        },
        "rounding in the store is no change": against(coin(ROUNDED), coin(ROUNDED), coin(ROUNDED, day=1)),
        "stored runs of other content": (coin(1.0, asks="?"), coin(0.0, asks="?"), history_of(*FLIPS[:2])),
        "stored runs of another version": against(coin(1.0), *FLIPS[:2], scoring_version=9),
        "no stored runs": (coin(1.0), FLIPS[1]),
        "a file": selected_from(ONLY_A, 0, 1),
        "a file, of which a case is gone": selected_from(ONLY_A, 1),
        "cases of a folder": selected_from(selected("evals:x"), 0, 2),
        "a pattern of files and cases": selected_from(selected("evals/*.test.json:[xz]"), 0),
        "everything but some": selected_from(selected(".", exclude=["deep/", "/other"]), 0, 1),
        "patterns but some": selected_from(selected("evals/deep/**", "**/c.*", exclude=["other"]), 2, 3),
        "a folder and a case of it": selected_from(selected("other", "other/c.test.json:x"), 4),
        "what the base did not select is not new": (run_of(*SUITE), run_of(*SUITE[:2], selection=ONLY_A)),
    }


def test_compare__all_that_is_said() -> None:
    page = [[f"# {name}", *as_lines(compare(*sides)), ""] for name, sides in compared().items()]
    check("golden_comparisons.txt", "\n".join(line for lines in page for line in lines))


@pytest.mark.nightly
def test_compare__thousands_of_cases() -> None:
    head, base = (
        run_of(*(scored(f"c{n}", 0.5 if (n + shift) % 10 == 0 else 0.9) for n in range(3_000))) for shift in (0, 1)
    )
    start = time.process_time()
    comparison = compare(head, base)
    assert time.process_time() - start < 3
    assert len(comparison.cases) == 600


@st.composite
def runs(draw: st.DrawFn) -> RunReport:
    cases = []
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        content = draw(st.sampled_from(["", "x", "y", name]))
        metrics = []
        for metric_name in draw(st.lists(st.sampled_from(["m", "n"]), unique=True)):
            score = metric(
                metric_name,
                draw(st.sampled_from([None, 0.0, 0.5, 1.0])),
                threshold=draw(st.sampled_from([None, 0.5, 0.8])),
            )
            score.judge = draw(st.sampled_from([None, "g"]))
            score.fingerprint = draw(st.sampled_from(["", "o", "p"]))
            metrics.append(score)
        report = scored_case(name, draw(st.sampled_from(STATUSES)), *metrics)
        report.fingerprint = content
        cases.append(report)
    return run_of(*cases, num_runs=draw(st.sampled_from([1, 3])))


@given(runs())
def test_compare__a_run_with_itself_has_no_change(run: RunReport) -> None:
    comparison = compare(run, run)
    assert {change.change for change in comparison.cases} <= {"still_failing", "unjudged"}
    assert comparison.compared == len(run.cases)
    assert all(row.score.delta in {None, 0.0} for row in comparison.metrics)
    assert {comparison.pass_rate.delta, comparison.duration.delta, comparison.tokens.delta} <= {None, 0.0}
    assert comparison.drops == []


@given(runs(), runs())
def test_compare__both_directions_agree(left: RunReport, right: RunReport) -> None:
    there, back = compare(left, right), compare(right, left)
    pairs: list[tuple[Change, Change]] = [("newly_failing", "fixed"), ("added", "removed")]
    mirrored = {one: other for pair in pairs for one, other in (pair, pair[::-1])}
    forth = Counter(mirrored.get(change.change, change.change) for change in there.cases)
    again = Counter(change.change for change in back.cases)
    same: list[Change] = ["added", "removed", "changed", "still_failing"]
    assert {name: forth[name] for name in same} == {name: again[name] for name in same}
    # What counts as newly failing needs one criterion that both sides measure; fixed needs all of them.
    flips: list[Change] = ["newly_failing", "fixed", "unjudged", "renamed"]
    assert sum(forth[name] for name in flips) == sum(again[name] for name in flips)
    assert there.compared == back.compared
    assert there.unchanged == back.unchanged
    for row in there.metrics:
        for mirror in back.metrics:
            if row.name == mirror.name and row.score.delta is not None and mirror.score.delta is not None:
                assert row.score.delta == pytest.approx(-mirror.score.delta) or row.cases != mirror.cases


@given(runs(), runs())
def test_compare__every_case_is_in_one_place(left: RunReport, right: RunReport) -> None:
    comparison = compare(left, right)
    present = [change.case_id for change in comparison.cases if change.change != "removed"]
    assert len({*present}) == len(present)
    fresh = sum(change.change in {"added", "changed"} for change in comparison.cases)
    assert comparison.compared + fresh == len(left.cases)
    for change in comparison.cases:
        if change.change in {"added", "removed", "changed"} or {change.head, change.base} & {"errored", "not_run"}:
            assert all(row.score.delta is None for row in change.metrics)
    stored = comparison.model_dump_json()
    assert ComparisonReport.model_validate_json(stored).model_dump_json() == stored


def test_comparison__remarks_of_older_files_have_only_their_text() -> None:
    stored = compare(run_of(scored("a", 0.9)), run_of(scored("a", 0.9))).model_dump(mode="json")
    stored["metrics"][0]["note"] = "Each case ran twice."
    stored["notes"] = ["Each case ran twice."]
    older = ComparisonReport.model_validate(stored)
    assert [said(older.notes[0]), said(older.metrics[0].note)] == ["Each case ran twice."] * 2


# One matcher of head and base cases, for the comparison and for the statistics; and what a selection leaves out.


def matched(head: RunReport, base: RunReport, history: HistoryReport | None = None) -> str:
    """Renamed cases by the comparison, and by the statistics."""
    history = history or extend(None, base)
    pairing = pair_up(head.cases, base.cases, head.selection, base.selection, history.cases)
    compared = {case.case_id: case.renamed_from for case in diff.compare(head, base, pairing, history).cases}
    comparable = comparable_cases(head.cases, history, pairing.stored)
    renamed = [f"{case_id} was {name}" for case_id, name in compared.items() if name is not None]
    others = [f"{case_id} was {pair.history.case_id}" for case_id, pair in comparable.items()]
    return f"compared: {renamed}, by statistics: {[other for other in others if len({*other.split(' was ')}) > 1]}"


def same(*names: str, selection: SelectionReport | None = None) -> RunReport:
    """All of these cases have the same content: twins are renamed only if their names tell."""
    named = [name.split(":") for name in names]
    return run_of(*(asks(file, eval_id, "same") for file, eval_id in named), selection=selection)


OLD_Y_Z = extend(None, same("old:y", "old:z"))
MATCHED: dict[str, tuple[Any, ...]] = {
    "two in a new file": (same("new:a", "new:b"), same("old:a", "old:b")),
    "one with another name": (same("new:a"), same("old:z")),
    "two with other names": (same("new:a", "new:b"), same("old:y", "old:z")),
    "three whose ids rotate": (
        run_of(asks("f", "a", "2"), asks("f", "b", "3"), asks("f", "c", "1")),
        run_of(asks("f", "a", "1"), asks("f", "b", "2"), asks("f", "c", "3")),
    ),
    "an old content under a new id, beside its changed case": (
        run_of(asks("f", "a", "2"), asks("f", "b", "1")),
        run_of(asks("f", "a", "1")),
    ),
    "two of one content, of which one is changed": (
        run_of(asks("f", "a", "2"), asks("f", "b", "1")),
        same("f:a", "f:b"),
    ),
    "two, of which one has another name": (same("new:a", "new:b"), same("old:a", "old:z")),
    "one more": (same("f:a", "f:b"), same("f:a")),
    "one less, with another name": (same("f:b"), same("f:a", "g:a")),
    "outside of the selection": (same("new.json:a", selection=selected("new.json")), same("old.json:a")),
    "without the selection": (same("new.json:a"), same("old.json:a")),
    # Stored runs have a case that the base's last run left out: which of the two was renamed is unknown to both.
    "a limited last run": (same("new:a"), same("old:y", selection=selected("old:y")), OLD_Y_Z),
    "a limited last run, of which the name tells": (same("new:z"), same("old:y", selection=selected("old:y")), OLD_Y_Z),
}


def test_match__comparison_and_statistics_agree() -> None:
    check("golden_matched.txt", "".join(f"{name}: {matched(*sides)}\n" for name, sides in MATCHED.items()))


def test_stored_means__two_of_three_runs_meet_a_pass_rate_of_two_thirds() -> None:
    reports = [report(case("a", "110", min_pass_rate=0.6666666667), day=day, num_runs=3) for day in range(2)]
    base = reports[-1].changed(min_pass_rate=0.6666666667)
    assert base.cases[0].passed
    assert stored_means(base, history_of(*reports)).passes == {base.cases[0].case_id: 1.0}


# What the statistics are given: both sides judged alike, and only what both have measured.


def base_of(*days: Sequence[CaseReport], num_runs: int = 1) -> HistoryReport:
    return history_of(*(report(*cases, day=day, num_runs=num_runs) for day, cases in enumerate(days)))


def gathered(head: Sequence[CaseReport], base: HistoryReport, policy_text: str = "", **more: Any) -> Callable[[], str]:
    """What the statistics are given, when it is called."""

    def told() -> str:
        policy = valid_policy(policy_text)
        cases = apply_policy(head, policy, min_pass_rate=1.0)
        found = gather(cases, base, comparable(cases, base), policy, **{"num_runs": 1, **more})
        lines = [f"{case_id} as {pair.history.case_id}" for case_id, pair in found.comparable.items()]
        lines += [f"{of.case_id}, {name}: {facts_of(own)}" for of in found.evidence for name, own in of.metrics.items()]
        lines += [f"retrial: {facts_of(retrial)}" for retrial in found.retrials]
        return "\n".join([*lines, f"rules: {facts_of(found.rules)}", ""])

    return told


A, FAILED = case("a", "1"), case("a", "0")
ONE, SCORED, ABC = base_of([A]), base_of([case("a", scores=[0.8])]), [case(name, "1") for name in "abc"]
RENAMED, BARE = case("z", "0", fingerprint="content of a"), A.model_copy(update={"metrics": []})
BOTH = case("a", "0", metric="safety_v1")
BOTH.metrics += A.metrics
SWAPPED = [case("a", "1", fingerprint="content of b"), case("b", "1", fingerprint="content of a")]
TODAY = MoreEvidence(base=[case("a", "111"), case("b", "0")])
AGAIN = MoreEvidence(
    head=[case("a", scores=[0.8], first_run=1)], base=[case("a", scores=[0.92, 0.8], first_run=1, threshold=0.7)]
)
HELD = f"max-quarantined = 1\n{quarantine(':a', '2999-01-01')}"
RULES = '[[policy]]\nalpha = 0.01\n[[policy]]\ncases = ":b"\nblocking = false\n'
RULES += '[[policy]]\ncases = ":c"\nmax-drop = 0.1\n' + entry("alpha = 0.2\nblocking = false")
GATHERED = {
    "passes of both sides": gathered([case("a", "1x0")], base_of([A], [FAILED], [case("a", "x")]), num_runs=3),
    "a base of today": gathered([case("a", "p0")], base_of([case("a", "1p")], num_runs=2), num_runs=2, same_day=True),
    "a new case": gathered([case("new", "0")], ONE),
    "a changed case": gathered([case("a", "0", fingerprint="other")], ONE),
    "another judge": gathered([case("a", "0", measures="m2")], ONE),
    "not run": gathered([case("a", "-")], ONE),
    "errored": gathered([case("a", "p")], ONE),
    "nothing on the base": gathered([FAILED], base_of([])),
    "another version of scores": gathered([FAILED], ONE.model_copy(update={"scoring_version": 0})),
    "a renamed case": gathered([RENAMED], ONE, more=MoreEvidence(base=[A])),
    # Fresh runs have the name that the base branch has for their case.
    "two cases that swapped their names": gathered(SWAPPED, base_of(ABC), more=TODAY),
    "extra runs": gathered([case("a", scores=[0.8])], ONE, entry("threshold = 0.9"), more=AGAIN),
    **{
        f"quarantined, {need} needed": gathered([case("a", scores=[0.6])], SCORED, HELD + entry(f"threshold = {need}"))
        for need in (0.7, 0.9)
    },
    "a metric that is gone": gathered([A], base_of([BOTH])),
    # Rounded alike: else every score would be better than the same one stored.
    "scores": gathered([case("a", scores=[0.70009])], base_of([case("a", scores=[0.91239])]), entry("max-drop = 0.05")),
    "rules of the policy": gathered(ABC, base_of(ABC), RULES, rules=Rules(confirm_on_base="never")),
    "a metric that only informs": gathered([FAILED], base_of([FAILED]), entry("blocking = false")),
    "no gating metric": gathered([BARE], base_of([BARE])),
}


def test_gathering__what_the_statistics_are_given() -> None:
    check("golden_gathered.txt", "\n".join(f"# {name}\n{told()}" for name, told in GATHERED.items()))


# What can't be compared with the base runs again before it blocks.


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
