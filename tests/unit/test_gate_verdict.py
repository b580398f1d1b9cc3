"""From results to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from gate_play import Played, Story, play
from history_samples import FILE, SCORE, TOKENS, case, replayed, report
from hypothesis import given
from hypothesis import strategies as st
from policy_texts import entry, quarantine, valid_policy

from agent_eval.api import EngineOutcome
from agent_eval.core.problem import Severity
from agent_eval.gate.evaluation import evaluate, outage
from agent_eval.gate.policy import Gate, MetricPolicy, Policy, PolicyReader, case_matcher, quarantined
from agent_eval.gate.policy_checks import KnownCase, check_policy
from agent_eval.gate.regression._decide import CHECK_RUNS
from agent_eval.gate.regression.rescoring import apply_policy, quarantine_notes
from agent_eval.gate.verdict import EXIT_CODES, decide, exit_code, no_secrets
from agent_eval.pytest_plugin._outcomes import outcome_in
from agent_eval.report.phrases import text
from agent_eval.results._merge import WITHOUT_KEY
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, CaseStatus, MetricReport, Reason, RunResult, RunScore, VerdictValue

# One verdict from thresholds, comparison, policy and quarantine: the whole pure road, with real statistics.

INVALID = "custom-metric-invalid-result"
TEN = "1" * 10
STEADY = {f"ok{number}": TEN for number in range(9)}
FINE = dict.fromkeys(STEADY, "1")
X = f"{FILE}:x"


def story(base: str, head: str, more: str = "1", **others: Any) -> Story:
    """One case `x` among nine that always pass, with as many runs on the base."""
    there = {name: outcomes[: len(base)] for name, outcomes in STEADY.items()}
    return replace(Story(base={**there, "x": base}, head={**FINE, "x": head}, more={"x": more}), **others)


def with_metric(outcome: str) -> Story:
    """The head's case has a metric that the base has not, and that does not pass."""
    head = case("x", "1")
    head.metrics += case("x", outcome, metric="custom").metrics
    head.status = "failed"
    return Story(base={**STEADY, "x": TEN}, head=FINE, heads=[head], more={"x": "0"})


def broken_metric(kind: str, *, fingerprint: str = "m1") -> CaseReport:
    """Case `x`, whose only gating metric broke."""
    report = case("x", "?", measures=fingerprint)
    report.metrics[0].runs[0].error = RunError(kind=kind, owner="agent", message="no score")
    report.status, report.runs[0].status = "failed", "failed"
    return report


def broken_metrics(kind: str = INVALID, fingerprint: str = "m1", **others: Any) -> Story:
    """The metric breaks on the base, and on the head in this way."""
    sides = {"heads": [broken_metric(kind, fingerprint=fingerprint)], "bases": [broken_metric(INVALID)]}
    return Story(**{**sides, "base": STEADY, "head": FINE, "more": {"x": "0"}, **others})


def of_tape(runs: str, recorded: str = "passed", *, judge: str | None = None, **others: Any) -> Story:
    """The head's case `x` is replayed, from the tape of a run with this status."""
    head = replayed(case("x", runs), recorded)
    head.metrics[0].judge = judge
    return Story(**{"base": {**STEADY, "x": TEN}, "head": FINE, "heads": [head], **others})


def with_threshold(threshold: float, **others: Any) -> Story:
    return Story(**{"heads": [case("x", scores=[1.0], threshold=threshold)], "gate": "thresholds", **others})


def without_key() -> CaseReport:
    silent = case("y", "-")
    silent.reason = Reason(code=WITHOUT_KEY, message="no key")
    return silent


def codes(played: Played) -> str:
    """The verdict, the codes of its reasons, and those of its notes."""
    reasons, notes = (" ".join(each.code for each in side) for side in (played.verdict.reasons, played.verdict.notes))
    return f"{played.verdict.value}: {reasons}; {notes}"


INFORMS = '[[policy]]\ncases = ":x"\nblocking = false\n'
NOTHING_BLOCKS = "[[policy]]\nblocking = false\n"
HELD = quarantine(X, "2999-01-01")
DEAD = dict.fromkeys(STEADY, "0" * 10)
FAILING = dict.fromkeys(STEADY, "0")

STORIES = {
    "both report the reasons of both": (story(TEN, "0", "0", gate="both"), "failed: case-worse failed; "),
    "auto on a push": (story("0" * 10, "0", "0", gate="auto", pull_request=False), "failed: failed; "),
    "auto without a baseline": (Story(head={"x": "0"}, gate="auto"), "failed: failed; "),
    "a new metric that fails": (with_metric("0"), "failed: metric-not-comparable case-worse; "),
    "a new metric that the pull request's own code broke": (
        with_metric("?"),
        "failed: metric-not-comparable case-worse; ",
    ),
    "an error of the agent that shows again": (story(TEN, "x", "1x1111"), "failed: agent-error; "),
    "an error of the agent that does not": (story(TEN, "x"), "passed: ; agent-error-once"),
    "a crash that does not come again": (story(TEN, "c"), "passed: ; agent-error-once"),
    "an error that can't be repeated": (story(TEN, "x", extra_runs=0), "inconclusive: budget budget; "),
    "an agent that breaks on the base, too": (story("1111x11x11", "x", "11x1111"), "passed: ; flaky-as-before"),
    "an agent that breaks on the base elsewhere": (
        replace(story(TEN, "x", "11x1111"), base={**STEADY, "x": TEN, "ok1": "11111x1111"}),
        "passed: ; suspicious",
    ),
    "it always breaks on the base": (story("x" * 10, "x", "x"), "passed: ; red-on-base"),
    "it broke on the base": (story("x", "x", "x"), "passed: ; red-on-base"),
    "it always broke and fails now": (story("x" * 10, "0", "0"), "passed: ; red-otherwise"),
    "it broke and fails now": (story("x", "0", "0"), "passed: ; red-otherwise"),
    "it always failed and is too slow now": (story("0" * 10, "d", "d"), "failed: agent-error; "),
    "it broke and is too slow now": (story("x", "d", "d"), "failed: agent-error; "),
    "it always broke, nobody knows how, and is too slow now": (story("x" * 10, "d", "d"), "passed: ; red-on-base"),
    "it is too slow as ever": (story("d", "d", "d"), "passed: ; red-on-base"),
    "an outage": (story(TEN, "p"), "inconclusive: provider-unavailable; "),
    "a stop": (story(TEN, "-"), "inconclusive: stopped; "),
    "an outage beside a regression": (
        replace(story(TEN, "0", "0"), head={**FINE, "ok0": "p", "x": "0"}),
        "failed: case-worse provider-unavailable; ",
    ),
    "no cases": (Story(base=STEADY), "inconclusive: no-cases; no-baseline"),
    "all failed as on the base": (
        Story(base=DEAD, head=FAILING, more=FAILING),
        "passed: no-case-passes; red-on-base",
    ),
    # An outage without an error, e.g. of a tool: a pull request that breaks everything looks the same.
    "nothing passes today on either side": (
        Story(base=STEADY, head=FAILING, more=FAILING, base_more=FAILING, extra_runs=100),
        "inconclusive: no-case-passes; red-on-base base-differs-today",
    ),
    "advice of a gate that was broken off": (story(TEN, "-", gate="advisory"), "inconclusive: stopped; "),
    "a metric that breaks on both sides alike": (broken_metrics(), "passed: ; red-on-base"),
    "a metric that breaks otherwise": (broken_metrics("custom-metric-exception"), "failed: not-comparable; "),
    "another metric that breaks": (broken_metrics(fingerprint="m2"), "failed: not-comparable; "),
    "a metric that breaks on both sides and leaves nothing scored": (
        broken_metrics(base={"y": "1"}, head={}, gate="auto"),
        "inconclusive: nothing-scored; red-on-base",
    ),
    "cases without a key beside quarantined ones": (
        Story(head={"x": "1"}, heads=[without_key()], gate="thresholds", policy=HELD),
        "inconclusive: nothing-scored; quarantined",
    ),
    "a replayed case that passed when it was recorded": (of_tape("0"), "failed: replayed-failed; "),
    "a replayed case that a judge fails once": (of_tape("0", judge="j"), "passed: ; failed-at-first"),
    "a replayed case that a judge fails again": (of_tape("0", judge="j", more={"x": "0"}), "failed: replayed-failed; "),
    "a replayed case that a judge fails, without another run": (
        of_tape("0", judge="j", extra_runs=0),
        "inconclusive: budget; ",
    ),
    "a replayed case that failed when it was recorded": (of_tape("0", "failed"), "passed: ; failed-as-recorded"),
    "a replayed case of a tape without a status": (of_tape("0", ""), "failed: replayed-failed; "),
    "a replayed case that failed when it was recorded, and breaks now": (
        of_tape("x", "failed"),
        "failed: agent-error; ",
    ),
    "nothing but a replayed case that failed when it was recorded": (
        of_tape("0", "failed", base={"x": TEN, "y": TEN}, head={"y": "1"}, gate="auto"),
        "passed: ; failed-as-recorded",
    ),
    "a threshold that every score reaches": (with_threshold(0.0), "passed: nothing-gated; "),
    "a threshold that not every score reaches": (with_threshold(0.1), "passed: ; "),
    "a score that is compared where every threshold is zero": (
        with_threshold(0.0, base={"x": TEN}, policy=entry("max-drop = 0.05"), gate="regressions"),
        "passed: ; ",
    ),
}


TENTH, FIFTH = entry("max-drop = 0.1"), entry("max-drop = 0.2", TOKENS)


def fell(to: float, threshold: float = 0.5, **measure: str) -> CaseReport:
    """A replayed case that scored 0.9 when it was recorded."""
    fallen = replayed(case("x", scores=[to], threshold=threshold), response_match_score=0.9)
    fallen.metrics = [metric.changed(**measure) for metric in fallen.metrics]
    return fallen


@pytest.mark.parametrize(
    ("now", "policy", "expected"),
    [
        (fell(0.7), TENTH, "failed: case-worse; "),
        (fell(0.8), TENTH, "passed: ; "),
        (fell(0.8, threshold=0.0), TENTH, "passed: ; "),
        (fell(0.8, threshold=0.0, judge="j"), TENTH, "passed: nothing-gated; "),
        (fell(0.8, threshold=0.0), f"{TENTH}blocking = false\n", "passed: nothing-gated; "),
        (fell(0.7), "", "passed: ; "),
        (fell(0.7), f"{TENTH}blocking = false\n", "passed: nothing-gated; case-worse"),
        (fell(0.7, judge="j"), TENTH, "passed: ; "),
        (fell(0.7, fingerprint="m2"), TENTH, "passed: ; "),
        (fell(0.7, threshold=0.8), TENTH, "failed: replayed-failed case-worse; "),
        (replayed(case("x", "1", tokens=[119]), token_usage_v1=100), FIFTH, "passed: ; "),
        (replayed(case("x", "1", tokens=[121]), token_usage_v1=100), FIFTH, "failed: case-worse; "),
    ],
)
def test_evaluation__a_replayed_score_is_compared_with_the_recorded_one(
    now: CaseReport, policy: str, expected: str
) -> None:
    assert codes(play(Story(base={"x": TEN}, heads=[now], policy=policy))) == expected
    by_thresholds = play(Story(base={"x": TEN}, heads=[now], policy=policy, gate="thresholds")).verdict
    assert by_thresholds.value == now.status


@pytest.mark.parametrize("name", STORIES)
def test_evaluation__verdict_reasons_and_notes(name: str) -> None:
    story, expected = STORIES[name]
    assert codes(play(story)) == expected


@pytest.mark.parametrize("gate", get_args(Gate))
def test_evaluation__each_gate_on_a_case_that_is_red_on_the_base(gate: Gate) -> None:
    played = play(story("0" * 10, "0", "0", gate=gate))
    assert played.verdict.value == ("failed" if gate in {"thresholds", "both"} else "passed")
    assert played.verdict.mode == ("regressions" if gate == "auto" else gate)


@pytest.mark.parametrize("gate", ["regressions", "both"])
def test_evaluation__without_a_baseline_the_thresholds_decide_and_it_is_said(gate: Gate) -> None:
    played = play(Story(head={"x": "0"}, gate=gate))
    assert (codes(played), played.verdict.mode) == ("failed: failed; no-baseline", "thresholds")
    assert played.notes["no-baseline"] == "The thresholds decide, since there is no baseline"
    assert play(Story(base={"y": "1"}, head={"x": "0"}, gate=gate)).notes["no-baseline"] == (
        "The thresholds decide, since nothing can be compared with the base branch"
    )


def test_constant_error__is_not_run_more_often_than_needed() -> None:
    stored_only = play(story(TEN, "x", "x"))
    assert codes(stored_only) == "failed: agent-error; "
    assert (stored_only.verdict.blocking, stored_only.spent) == ((X,), 3)
    # No test decided: a p-value would be of another statement.
    assert [(case.word, case.p_value) for case in stored_only.decision.cases if case.case_id == X] == [("broken", None)]

    base_answers = play(story(TEN, "x", "x", base_more={}))
    assert codes(base_answers) == "failed: agent-error; "
    assert base_answers.spent == 3 + CHECK_RUNS

    # An outage of today does not block: the base branch, which passed ten days, has the error, too.
    outage = play(story(TEN, "x", "x", base_more={"x": "x"}))
    assert outage.verdict.value == "passed"
    assert "base-differs-today" in [reason.code for reason in outage.decision.reasons]


def test_constant_error__what_is_not_run_because_of_it_says_so() -> None:
    broken = {**dict.fromkeys(list(STEADY)[:7], "0"), "x": "x"}
    played = play(Story(base={**STEADY, "x": TEN}, head={**FINE, **broken}, more=broken))
    assert played.verdict.blocking == (X,)
    [_, suite] = played.verdict.reasons
    assert suite.data.get("remedy") == "decided"
    assert "likely-regression" in played.notes


@pytest.mark.parametrize(("base", "more"), [(TEN, "xc"), (TEN, "x0"), (TEN, "cx"), ("1111x11111", "x")])
def test_constant_error__other_errors_and_failures_are_tested_as_before(base: str, more: str) -> None:
    played = play(story(base, "x", more, base_more={}))
    assert played.verdict.value == "failed"
    assert played.spent > 3 + CHECK_RUNS


def test_evaluation__a_case_in_which_the_agent_broke_on_the_base_may_be_fixed() -> None:
    played = play(replace(story("x" * 20, "1"), base={**STEADY, "x": "x" * 20}))
    assert codes(played) == "passed: ; "
    assert {case.word for case in played.decision.cases if case.case_id == X} == {"fixed"}


def test_evaluation__a_broken_case_never_passes_for_want_of_history() -> None:
    broken = story("1", "0", "0")
    assert play(broken).verdict.value == play(replace(broken, base_more={})).verdict.value == "failed"
    assert play(replace(broken, extra_runs=0)).verdict.value != "passed"


@pytest.mark.parametrize("gate", ["regressions", "thresholds", "both"])
def test_evaluation__a_case_that_only_informs(gate: Gate) -> None:
    played = play(story(TEN, "0", "0", gate=gate, policy=INFORMS))
    assert (played.verdict.value, played.verdict.reasons) == ("passed", ())
    assert played.notes["informing"] == f"1 case that only informs failed: {X}"
    assert play(story(TEN, "p", gate=gate, policy=INFORMS)).verdict.value == "passed"


@pytest.mark.parametrize("gate", ["regressions", "thresholds", "both"])
@pytest.mark.parametrize("head", ["0", "x", "p"])
def test_evaluation__a_quarantined_case_does_not_block(gate: Gate, head: str) -> None:
    played = play(story(TEN, head, "0", gate=gate, policy=HELD))
    assert (played.verdict.value, played.verdict.reasons) == ("passed", ())
    assert "quarantined" in played.notes
    assert played.spent == (0 if head == "p" else 6), "to say whether it is broken now"


def test_evaluation__advice_says_what_would_have_been() -> None:
    played = play(story(TEN, "0", "0", gate="advisory"))
    assert codes(played) == "passed: advisory; case-worse"
    assert played.verdict.reasons[0].message.endswith("; exit 0 because `gate` is `advisory`")
    assert played.notes["case-worse"].startswith("Would fail: 1 case is worse than on the base branch")
    assert played.verdict.blocking == (X,), "reports name the same regressions as for a gate that blocks"
    assert play(story(TEN, "p", gate="advisory")).notes["provider-unavailable"].startswith("Would be inconclusive: ")
    assert play(Story(head={"x": "0"}, gate="advisory")).notes["failed"] == "Would fail: 1 of 1 case"


def test_a_score_that_falls_blocks_where_an_entry_names_it__and_informs_where_it_says_so() -> None:
    falls = Story(
        base={name: [1.0] * 10 for name in STEADY},
        head=dict.fromkeys(STEADY, 0.6),
        more={name: [0.6] for name in STEADY},
        make=lambda name, score, run: case(name, scores=[score], first_run=run),
        policy=entry("max-drop = 0.05"),
    )
    assert play(replace(falls, more={name: [1.0] for name in STEADY})).verdict.value == "passed", "as good as before"
    assert play(falls).verdict.value == "failed"
    informed = play(replace(falls, policy=entry("max-drop = 0.05\nblocking = false")))
    assert informed.verdict.value == "passed"
    assert any("response_match_score" in note.message for note in informed.verdict.notes)
    assert play(replace(falls, policy="")).verdict.value == "passed", "every case still passes"


@pytest.mark.parametrize("gate", ["auto", "regressions", "thresholds", "both"])
@pytest.mark.parametrize(("head", "kind"), [("i", "agent-import"), ("c", "agent-crash")])
@pytest.mark.parametrize("base", ["1", "0", "x", "i", "c"])
def test_evaluation__a_case_that_was_not_evaluated_never_passes_by_comparison(
    gate: Gate, head: str, kind: str, base: str
) -> None:
    played = play(story(base * 10, head, head, gate=gate))
    assert played.verdict.value == "failed"
    assert played.verdict.blocking == (X,)
    if gate in {"auto", "regressions"}:
        assert f"1 case not evaluated ({kind}): {X}" in [reason.message for reason in played.verdict.reasons]


def test_evaluation__an_agent_that_can_not_start_is_not_started_again() -> None:
    dead = dict.fromkeys(STEADY, "i")
    played = play(Story(base=STEADY, head=dead, more=dead))
    assert played.spent == 0
    assert codes(played) == "failed: failed nothing-scored; no-baseline"
    assert played.verdict.reasons[1].message == "Nothing was evaluated: none of 9 cases was scored (9 agent-import)"


@pytest.mark.parametrize("base", [STEADY, dict.fromkeys(STEADY, "x")])
def test_an_agent_that_breaks_in_every_case_was_not_evaluated__whatever_the_base_did(base: dict[str, str]) -> None:
    broken = dict.fromkeys(STEADY, "x")
    played = play(Story(base=base, head=broken, more=broken))
    assert played.verdict.value == "failed"
    assert len(played.verdict.blocking) == len(STEADY)


@pytest.mark.parametrize(
    ("policy", "notes", "why"),
    [(HELD, "quarantined", "1 quarantined"), (NOTHING_BLOCKS, "informing", "1 not blocking")],
)
def test_quarantine_and_policy_that_set_every_case_aside_are_green__and_say_so(
    policy: str, notes: str, why: str
) -> None:
    played = play(Story(head={"x": "0"}, gate="thresholds", policy=policy))
    assert codes(played) == f"passed: nothing-gated; {notes}"
    assert played.verdict.reasons[0].message == f"Nothing was gated: no case may fail the gate ({why})"


@pytest.mark.parametrize("policy", [HELD, NOTHING_BLOCKS])
@pytest.mark.parametrize("head", ["i", "x", "p"])
def test_evaluation__setting_every_case_aside_does_not_make_a_dead_agent_green(policy: str, head: str) -> None:
    played = play(Story(head={"x": head}, gate="thresholds", policy=policy))
    assert codes(played).startswith("inconclusive: nothing-scored;")


def test_base_name__sentences_use_it_and_leave_ids_alone() -> None:
    evil = "on the base branch, on base"
    played = play(Story(base={**STEADY, evil: TEN}, head={**FINE, evil: "0"}, more={evil: "0"}, base_name="release-1"))
    assert played.verdict.reasons[0].message == (
        f"1 case is worse than on release-1: {FILE}:{evil} (0 of 3 now, 10 of 10 on release-1)"
    )


@pytest.mark.parametrize(
    ("gate", "head", "verdict"),
    [
        ("auto", "0", "inconclusive"),
        ("regressions", "0", "inconclusive"),
        ("thresholds", "0", "failed"),
        ("both", "0", "failed"),
        ("auto", "x", "failed"),
    ],
)
def test_evaluation__scores_decide_nothing_if_the_base_met_an_outage(gate: Gate, head: str, verdict: str) -> None:
    away = Reason(code="provider-unavailable", message="the model is away")
    cases = [case("fine", "1"), case("x", head)]
    decided = evaluate(cases, Policy(), gate=gate, pull_request=True, base_outage=away)
    assert decided.value == verdict
    assert (decided.reasons[0].code == "provider-unavailable") == (verdict == "inconclusive")


def unscored(code: str) -> CaseReport:
    """A run without an error whose judge gave no score."""
    judged = case("x", "?")
    judged.metrics[0].reason = Reason(code=code, message="503")
    return judged


@pytest.mark.parametrize(
    ("confirmations", "code"),
    [
        ([unscored("judge-unavailable"), unscored("judge-unavailable"), case("x", "0")], "judge-unavailable"),
        ([unscored("judge-unavailable"), case("x", "0")], None),
        ([unscored("turn-count")], None),
        ([case("x", "p")], "provider-unavailable"),
        ([case("x", "x")], None),
    ],
)
def test_outage__of_a_judge_counts_as_one_of_the_model(confirmations: list[CaseReport], code: str | None) -> None:
    away = outage(confirmations)
    assert (away.code if away is not None else None) == code


# One verdict from many cases, and its exit code.

STATUSES: tuple[CaseStatus, ...] = ("passed", "failed", "errored", "not_run", "quarantined")


def case_of(status: CaseStatus, code: str | None = None) -> CaseReport:
    reason = None if code is None else Reason(code=code, message="because")
    return CaseReport(case_id=f"a:{status}", file="a", eval_set_id="a", eval_id=status, status=status, reason=reason)


@given(st.lists(st.sampled_from(STATUSES), min_size=1))
def test_verdict__only_a_run_without_anything_wrong_passes(statuses: list[CaseStatus]) -> None:
    verdict = decide([case_of(status) for status in statuses])
    assert (verdict.value == "failed") == ("failed" in statuses)
    assert (verdict.value == "passed") == (not {"failed", "errored", "not_run"} & set(statuses))
    assert (verdict.value == "passed") == (verdict.reasons == ())


def test_verdict__reasons_name_failures_first_then_what_hit_most_cases() -> None:
    cases = [case_of("not_run", "run-timeout"), *[case_of("errored", "provider-unavailable")] * 3]
    cases += [case_of("failed", code) for code in ("below-threshold", "agent-crash")]
    verdict = decide(cases)
    assert verdict == decide(cases[::-1])
    assert [(reason.code, reason.data.get("phrase"), reason.data["count"]) for reason in verdict.reasons] == [
        ("failed", None, 2),
        ("provider-unavailable", "cases-errored", 3),
        ("run-timeout", "cases-not-run", 1),
    ]


def test_verdict__exit_codes_and_a_gate_that_was_broken_off_never_says_0() -> None:
    codes: dict[VerdictValue, int] = {"passed": 0, "failed": 1, "invalid": 2, "inconclusive": 3}
    assert codes == EXIT_CODES
    for verdict, code in codes.items():
        assert exit_code(verdict, "fail", not_run=0) == code
        assert exit_code(verdict, "pass", not_run=0) == (0 if verdict == "inconclusive" else code)
    assert exit_code("inconclusive", "pass", not_run=1) == 3


def test_what_has_no_key_is_done_without__unless_there_is_nothing_else() -> None:
    withheld = case_of("not_run", WITHOUT_KEY)

    assert decide([case_of("passed"), withheld]).value == "passed"
    assert decide([case_of("failed"), withheld]).value == "failed"
    assert decide([case_of("passed"), withheld, case_of("not_run", "run-timeout")]).value == "inconclusive"
    assert decide([withheld]).value == "inconclusive"


# The policy's thresholds and quarantines, applied to cases that are scored already.


def applied(text: str, *cases: CaseReport, min_pass_rate: float = 1.0) -> list[CaseReport]:
    return apply_policy(cases, valid_policy(text), min_pass_rate=min_pass_rate)


def metric(judged: CaseReport, name: str = SCORE) -> MetricReport:
    return next(candidate for candidate in judged.metrics if candidate.name == name)


@pytest.mark.parametrize("policy", ["", entry("max-drop = 0.1"), entry("threshold = 0.5")])
def test_apply_policy__without_other_rules_the_cases_are_the_same(policy: str) -> None:
    unchanged = case("a", "10")
    assert applied(policy, unchanged)[0] is unchanged


@pytest.mark.parametrize(
    ("threshold", "status", "runs"),
    [
        (0.5, "passed", ["passed", "passed"]),
        (0.65, "failed", ["failed", "passed"]),
        (0.9, "failed", ["failed", "failed"]),
    ],
)
def test_apply_policy__another_threshold_judges_runs_metric_and_case(
    threshold: float, status: str, runs: list[str]
) -> None:
    before = case("a", scores=[0.6, 0.8], threshold=0.7)
    metric(before).runs[0].turn_scores = [0.2, 1.0]

    [after] = applied(entry(f"threshold = {threshold}"), before)

    assert (after.status, [run.status for run in after.runs]) == (status, runs)
    assert [run.status for run in metric(after).runs] == runs
    assert (metric(after).threshold, metric(after).runs[0].turn_scores) == (threshold, [0.2, 1.0])
    assert (before.status, metric(before).threshold) == ("failed", 0.7), "the cases are not changed"


def test_apply_policy__a_metric_that_does_not_block_is_shown_and_fails_nothing() -> None:
    after, unmeasured, broke = applied(entry("blocking = false"), case("a", "0"), case("b", "?"), case("c", "x"))

    assert (after.status, after.reason) == ("passed", None)
    assert (metric(after).status, metric(after).blocking) == ("failed", False)
    assert [run.status for run in after.runs] == ["passed"]
    assert (case("b", "?").status, unmeasured.status) == ("errored", "passed")
    assert broke.status == "failed", "an error of the agent still fails"
    own = case("d", scores=[0.9])
    metric(own).runs[0].status = "failed"  # A custom metric may decide against its score.
    assert metric(applied(entry("blocking = false"), own)[0]).runs[0].status == "failed"


@pytest.mark.parametrize(
    ("says", "status", "direction"),
    [
        ("threshold = 1000", "passed", "lower"),
        ("threshold = 900", "passed", "lower"),
        ("threshold = 899", "failed", "lower"),
        ('threshold = 901\ndirection = "higher"', "failed", "higher"),
    ],
)
def test_apply_policy__what_costs_may_have_a_limit(says: str, status: str, direction: str) -> None:
    [after] = applied(entry(says, TOKENS), case("a", "11", tokens=[800.0, 1000.0]), min_pass_rate=0)
    assert after.status == status
    assert (metric(after, TOKENS).status, metric(after, TOKENS).direction) == (status, direction)
    side = "above" if direction == "lower" else "below"
    assert (text(after.reason) if after.reason else "") == f"{side} the threshold: {TOKENS}" * (status == "failed")
    unknown = case("b", "1", tokens=[900.0])
    metric(unknown, TOKENS).runs[0].score = None
    [after] = applied(entry(says, TOKENS), unknown)
    assert after.status == "errored" and after.reason is not None
    assert text(after.reason).startswith(f"{TOKENS} could not be evaluated: the agent reports no value of it")


def test_apply_policy__a_renamed_case_keeps_the_configured_threshold_if_that_is_stricter() -> None:
    policy = replace(valid_policy(entry('cases = ":new"\nthreshold = 0.1')), renamed={f"{FILE}:new": (FILE, "old")})
    [after] = apply_policy([case("new", scores=[0.3], threshold=0.5)], policy, min_pass_rate=1.0)
    assert (metric(after).threshold, after.status) == (0.5, "failed")


HELD_CASES = quarantine(":a*")


@pytest.mark.parametrize(
    ("runs", "did"),
    [
        ("1", "it passed"),
        ("0", f"it failed (below the threshold: {SCORE})"),
        ("x", "it failed (KeyError: 'garage')"),
        ("p", "it was not evaluated (503)"),
    ],
)
def test_apply_policy__a_quarantined_case_is_reported_with_what_it_did(runs: str, did: str) -> None:
    [after] = applied(HELD_CASES, case("a", runs))
    assert after.status == "quarantined"
    assert after.reason is not None and after.reason.code == "quarantined"
    assert text(after.reason) == f"{did}; quarantined until 2027-01-31 by @alice: slow clock"
    assert (after.metrics, after.runs) == (case("a", runs).metrics, case("a", runs).runs)


def test_apply_policy__notices_about_quarantines() -> None:
    after = applied(HELD_CASES, case("a1", "0"), case("a2", "1"), case("a3", "-"), case("b", "0"))
    assert [rescored.status for rescored in after] == ["quarantined", "quarantined", "not_run", "failed"]
    assert [note.data for note in quarantine_notes(after)] == [{"phrase": "quarantined-cases", "count": 1, "total": 2}]
    assert [note.data["count"] for note in quarantine_notes(after[1:])] == [0]
    assert quarantine_notes([case("b", "0")]) == []
    often = applied(HELD_CASES, case("a", "110", scores=[0.9, 0.9, 0.4], min_pass_rate=0.6), min_pass_rate=0.6)
    assert [note.data["count"] for note in quarantine_notes(often)] == [0], "it passed"
    engine = EngineOutcome(exit_code=0, report=report(*often), console="", log="", output=Path())
    assert outcome_in(engine, f"{FILE}:a").kind == "pass"


def test_apply_policy__thresholds_and_quarantine_together() -> None:
    [after] = applied(entry("threshold = 0.9") + HELD_CASES, case("a", scores=[0.8]))
    assert after.reason is not None and after.reason.data["because"].code == "below-threshold"


# Which entry of a policy holds for which metric of which case, and what doesn't fit the cases.

TODAY = date(2026, 11, 21)
MATCH, SAFETY = SCORE, "safety_v1"


@pytest.mark.parametrize(
    ("pattern", "file", "eval_id", "meant"),
    [
        ("evals/home.test.json", "evals/home.test.json", "x", True),
        ("evals/home.test.json", "more/evals/home.test.json", "x", False),
        ("evals/", "evals/deep/home.test.json", "x", True),
        ("evals/**", "evals/deep/home.test.json", "x", True),
        ("*.test.json", "evals/deep/home.test.json", "x", True),
        ("evals/home.test.json:lamp_*", "evals/home.test.json", "lamp_on", True),
        ("evals/home.test.json:lamp_*", "evals/home.test.json", "fan_on", False),
        ("evals/**:lamp_on", "evals/deep/home.test.json", "lamp_on", True),
        ("evals/**:lamp_on", "other/home.test.json", "lamp_on", False),
        (":lamp_on", "anywhere/home.test.json", "lamp_on", True),
        ("lamp_on", "anywhere/home.test.json", "lamp_on", False),
        ("a.test.json:what: now?", "a.test.json", "what: now?", True),
        ("a[1].test.json:x", "a[1].test.json", "x", True),
        ("a.test.json:[x]", "a.test.json", "[x]", True),
        ("a.test.json:[x]", "a.test.json", "x", True),
        ("a.test.json:X", "a.test.json", "x", False),
    ],
)
def test_policy__a_pattern_of_cases(pattern: str, file: str, eval_id: str, meant: bool) -> None:
    assert case_matcher(pattern)(file, eval_id) is meant


ORDER = f"""
[[policy]]
max-drop = 0.01
[[policy]]
metric = "*_score"
max-drop = 0.05
threshold = 0.5
[[policy]]
metric = "{MATCH}"
cases = ["evals/**", "never/**"]
threshold = 0.7
[[policy]]
cases = "drafts/**"
blocking = false
"""


EVERYTHING = '[[policy]]\nmetric = "*"\nmax-drop = 0.3\nblocking = false'
OF_SAFETY = f'[[policy]]\nmetric = "{SAFETY}"\n'
OF_CASES = '[[policy]]\ncases = "evals/"\n'


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        # The last entry that says something counts, key by key.
        (ORDER, MATCH, MetricPolicy(threshold=0.7, max_drop=0.05, named=True)),
        (ORDER.replace("evals", "other"), MATCH, MetricPolicy(threshold=0.5, max_drop=0.05, named=True)),
        (ORDER, SAFETY, MetricPolicy(max_drop=0.01)),
        # A glob of metrics does not match `pass`.
        (EVERYTHING, "pass", MetricPolicy()),
        (EVERYTHING, SAFETY, MetricPolicy(max_drop=0.3, blocking=False, named=True)),
        # A case that does not block still fails by its metrics.
        (f"{OF_CASES}blocking = false", SAFETY, MetricPolicy()),
        # A rate for everything belongs to no metric.
        ("[[policy]]\nalpha = 0.2", SAFETY, MetricPolicy()),
        (f"{OF_SAFETY}alpha = 0.2", SAFETY, MetricPolicy(alpha=0.2, named=True)),
        (f"{OF_CASES}alpha = 0.2", "pass", MetricPolicy(alpha=0.2)),
        # A metric is tested when an entry asks for it.
        (f"{OF_SAFETY}threshold = 0.2", SAFETY, MetricPolicy(threshold=0.2)),
        (f"{OF_SAFETY}blocking = true", SAFETY, MetricPolicy(named=True)),
        ("[[policy]]\nblocking = true", SAFETY, MetricPolicy()),
    ],
)
def test_policy__what_holds_for_a_metric_of_a_case(text: str, metric: str, expected: MetricPolicy) -> None:
    reader = PolicyReader(valid_policy(text))
    assert reader.metric(metric, reader.of_case("evals/a.test.json", "lamp_on")) == expected


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", True),
        ('[[policy]]\ncases = "evals/"\nblocking = false', False),
        ('[[policy]]\nmetric = "pass"\nblocking = false', False),
        (f'[[policy]]\nmetric = "{SAFETY}"\nblocking = false', True),
        ('[[policy]]\nblocking = false\n[[policy]]\ncases = "evals/"\nblocking = true', True),
    ],
)
def test_policy__whether_a_case_may_block(text: str, blocks: bool) -> None:
    reader = PolicyReader(valid_policy(text))
    assert reader.blocks(reader.of_case("evals/a.test.json", "x")) is blocks


def test_policy__which_entries_quarantine_a_case() -> None:
    policy = valid_policy(quarantine("a.test.json:x") + quarantine("a.test.json") + quarantine(":z"))
    cases = [("a.test.json", "x"), ("a.test.json", "y"), ("b.test.json", "y"), ("b.test.json", "z")]
    assert quarantined(policy.quarantine, cases) == {0: [0, 1], 1: [1], 3: [2]}
    assert quarantined((), cases) == {}


NOTHING = "policy-matches-nothing"
CASES = [
    KnownCase(file=f"evals/{name}.test.json", eval_id=f"{name}_{number}", metrics=frozenset({MATCH, SAFETY}))
    for name in ("home", "shop")
    for number in range(10)
]


def wrong(
    text: str, *, cases: Sequence[KnownCase] = CASES, everything: Sequence[KnownCase] | None = None
) -> list[tuple[int | None, str, str]]:
    more = None if everything is None else lambda: everything
    findings = check_policy(valid_policy(text), cases, today=TODAY, everything=more)
    assert all(finding.file == "agent-eval.toml" for finding in findings)
    return [
        (finding.line, finding.code, f"{finding.severity}: {finding.message} {finding.hint}") for finding in findings
    ]


TWO_HELD = quarantine(":home_1") + quarantine(":home_2")


@pytest.mark.parametrize(
    "text",
    [
        f"{ORDER.replace('drafts', 'evals').replace('never', 'evals')}{quarantine(':home_1')}",
        f'[[policy]]\nmetric = "{TOKENS}"\nthreshold = 2000\ndirection = "lower"\n',
        '[[policy]]\nmetric = "pass"\nmax-drop = 0.1\n',
        *(f'[[policy]]\nmetric = "{MATCH}"\nthreshold = {threshold}' for threshold in (0, 1)),
        # Two of twenty are ten percent. An entry that means a case that another means too takes no more of the share.
        TWO_HELD,
        TWO_HELD + quarantine("evals/home.test.json:home_2"),
        quarantine(":home_1", "2026-12-06"),
    ],
)
def test_policy__what_fits(text: str) -> None:
    assert wrong(text) == []


@pytest.mark.parametrize(
    ("text", "line", "code", "expected_text"),
    [
        ('[[policy]]\ncases = "evals/hom.test.json"\nalpha = 0.1', 1, NOTHING, "`evals/home.test.json`"),
        ('\n[[policy]]\ncases = ["evals/**", "x/**"]\nalpha = 0.1', 2, NOTHING, "`x/**` means no case"),
        (quarantine("evals/home.test.json:home_11"), 1, NOTHING, "`evals/home.test.json:home_1`"),
        (quarantine("home_1"), 1, NOTHING, "Did you mean `:home_1`?"),
        ('[[policy]]\nmetric = "saftey_v1"\nalpha = 0.1', 1, NOTHING, "Did you mean `safety_v1`?"),
        ('[[policy]]\nmetric = "hallu*"\nalpha = 0.1', 1, NOTHING, "They have: response_match_score"),
        (f'[[policy]]\nmetric = "{MATCH}"\nthreshold = 80', 1, "policy-invalid", "from 0 to 1, not 80"),
        (f'[[policy]]\nmetric = "{TOKENS}"\nthreshold = -1', 1, "policy-invalid", "at least 0, not -1"),
        (f'[[policy]]\nmetric = "{MATCH}"\ndirection = "lower"', 1, "policy-invalid", "better when they are higher"),
        (quarantine(":home_[1-3]"), 1, "quarantine-too-many", "3 of 20 cases are quarantined; max-"),
        (f"max-quarantined = 0\n{quarantine(':home_1')}", 2, "quarantine-too-many", "which is 0"),
        (quarantine(":home_1", "2026-11-20"), 1, "quarantine-expired", "(@alice: slow clock) ended on 2026-11-20."),
    ],
)  # fmt: skip
def test_policy__what_does_not_fit_is_an_error(text: str, line: int, code: str, expected_text: str) -> None:
    [(found_line, found_code, message)] = wrong(text)
    assert (found_line, found_code) == (line, code)
    assert message.startswith(Severity.ERROR)
    assert expected_text in message


def test_policy__the_end_of_a_quarantine_is_announced() -> None:
    [(line, code, message)] = wrong(quarantine(":home_1", "2026-12-05"))
    assert (line, code) == (1, "quarantine-ends-soon")
    assert message.startswith("warning: The quarantine of `:home_1` (@alice: slow clock) ends in 14 days")
    assert "ends today" in wrong(quarantine(":home_1", "2026-11-21"))[0][2]


def test_policy__a_run_of_some_cases_is_held_against_all_of_the_repository() -> None:
    text = quarantine(":home_1") + '[[policy]]\ncases = "evals/shop.test.json"\nalpha = 0.1'
    some = CASES[:2]
    assert {code for _, code, _ in wrong(text, cases=some)} == {NOTHING, "quarantine-too-many"}
    assert wrong(text, cases=some, everything=CASES) == []
    assert {code for _, code, _ in wrong(quarantine("x"), cases=some, everything=CASES)} == {"policy-matches-nothing"}


def test_policy__what_a_pull_request_fixes_in_the_bases_policy_does_not_stop_it() -> None:
    lasting = quarantine(":home_2", TODAY.isoformat())  # its last day is a day of it
    base = valid_policy(quarantine(":gone") + quarantine(":home_1", "2026-11-20") + lasting)
    own = valid_policy(quarantine(":home_2"))

    applied = base.instead_of(own, TODAY)

    assert [entry.case for entry in applied.quarantine] == [":gone", ":home_2"]
    findings = check_policy(applied, CASES, today=TODAY)
    assert [(finding.severity, finding.code, finding.file) for finding in findings] == [
        (Severity.WARNING, "quarantine-ends-soon", None),
        (Severity.WARNING, "quarantine-expired", None),
        (Severity.WARNING, NOTHING, None),
    ]
    assert findings[1].message.startswith("agent-eval.toml of the base branch, line 6: The quarantine of `:home_1`")


def test_policy__the_policy_of_the_checkout_is_still_checked_completely() -> None:
    own = valid_policy(quarantine(":gone") + quarantine(":home_1", "2026-11-20"))
    findings = check_policy(valid_policy("").instead_of(own, TODAY), CASES, today=TODAY)
    assert [(finding.severity, finding.code, finding.line) for finding in findings] == [
        (Severity.ERROR, NOTHING, 1),
        (Severity.ERROR, "quarantine-expired", 6),
    ]


def test_policy__a_renamed_case_has_the_stricter_policy_of_both_names() -> None:
    policy = valid_policy(
        entry('cases = ":old"\nthreshold = 0.9\nmax-drop = 0.1')
        + entry('cases = ":new"\nthreshold = 0.5\nmax-drop = 0.3\nalpha = 0.01')
        + entry('cases = ":new"\nthreshold = 100\nmax-drop = 0.5', TOKENS)
        + '[[policy]]\ncases = ":new"\nblocking = false\n'
    )
    reader = PolicyReader(replace(policy, renamed={"evals/a.test.json:new": ("evals/a.test.json", "old")}))
    entries = reader.of_case("evals/a.test.json", "new")
    assert reader.blocks(entries)
    match, usage = reader.metric(MATCH, entries), reader.metric(TOKENS, entries)
    assert (match.threshold, match.max_drop, match.alpha, match.blocking) == (0.9, 0.1, 0.01, True)
    assert (usage.threshold, usage.max_drop, usage.also_configured) == (100, 0.5, True)
    assert reader.loosened("evals/a.test.json", "new", [MATCH])
    assert not reader.loosened("evals/a.test.json", "old", [MATCH])


@pytest.mark.parametrize(("threshold", "stricter"), [(None, 0.9), (0.5, 0.9), (0.95, 0.95)])
def test_policy__the_threshold_of_a_renamed_case(threshold: float | None, stricter: float) -> None:
    old, new = MetricPolicy(threshold=0.9), MetricPolicy(threshold=threshold)
    assert old.stricter(new).threshold == new.stricter(old).threshold == stricter
    lower = MetricPolicy(threshold=0.9, direction="lower").stricter(MetricPolicy(threshold=threshold))
    assert lower.threshold == min(0.9, threshold or 1.0)


def test_policy__a_renamed_case_is_quarantined_only_by_both_names() -> None:
    names = {f"x.test.json:{new}": ("x.test.json", old) for new, old in ("ab", "bc", "da")}
    reader = PolicyReader(replace(valid_policy(quarantine(":[ab]")), renamed=names))
    assert [name for name in "abd" if reader.quarantine("x.test.json", name) is not None] == ["a"]


# Why a run without secrets came to no verdict.


def keyless_case(status: CaseStatus, *, kind: str = "", no_key: bool = False, metric: str = "") -> CaseReport:
    error = RunError(kind=kind, owner="provider", message="No.", no_key=no_key) if kind else None
    metrics = []
    if metric:
        reason = Reason(code=metric, message="No key.")
        runs = [RunScore(run=0, status="not_evaluated", reason=reason)]
        metrics = [MetricReport(name="safety_v1", threshold=0.8, status="not_evaluated", reason=reason, runs=runs)]
    return CaseReport(
        case_id="a", file="a", eval_set_id="a", eval_id="a", status=status, metrics=metrics,
        runs=[RunResult(run_id="a#1", run=0, status=status, error=error)],
    )  # fmt: skip


KEYLESS = keyless_case("errored", kind="provider-unavailable", no_key=True)


@pytest.mark.parametrize(
    ("cases", "is_cause"),
    [
        ([KEYLESS], True),
        ([keyless_case("passed"), KEYLESS, keyless_case("not_run", kind="without-key")], True),
        ([keyless_case("errored", kind="simulator-no-credentials")], True),
        ([keyless_case("errored", metric="judge-no-credentials")], True),
        ([], False),
        ([keyless_case("passed")], False),
        ([KEYLESS, keyless_case("errored", kind="provider-unavailable")], False),
        ([KEYLESS, keyless_case("not_run", kind="run-timeout")], False),
        ([keyless_case("errored")], False),
        ([keyless_case("errored", metric="judge-unavailable")], False),
    ],
)
@pytest.mark.parametrize("is_fork", [True, False])
def test_no_secrets__is_the_cause_of_everything_or_of_nothing(
    cases: list[CaseReport], is_cause: bool, is_fork: bool
) -> None:
    found = no_secrets(cases, is_fork=is_fork)
    assert (found and found.data) == ({"is_fork": is_fork} if is_cause else None)
