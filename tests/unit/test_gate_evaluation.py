"""One verdict from thresholds, comparison, policy and quarantine: the whole pure road, with real statistics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gate_play import Played, Story, play
from history_samples import FILE, case, replayed

from agent_eval.gate.evaluation import evaluate
from agent_eval.gate.policy import Gate, Policy
from agent_eval.gate.regression._base_today import CHECK_RUNS
from agent_eval.results._merge import WITHOUT_KEY
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, Reason

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


def broken_metrics(on_head: CaseReport, **others: Any) -> Story:
    return Story(heads=[on_head], bases=[broken_metric(INVALID)], **{"base": STEADY, "head": FINE, **others})


def judged(report: CaseReport) -> CaseReport:
    """A case whose metrics have a judge."""
    for metric in report.metrics:
        metric.judge = "some-judge"
    return report


def without_key() -> CaseReport:
    silent = case("y", "-")
    silent.reason = Reason(code=WITHOUT_KEY, message="no key")
    return silent


def codes(played: Played) -> str:
    """The verdict, the codes of its reasons, and those of its notes."""
    reasons, notes = (" ".join(each.code for each in side) for side in (played.verdict.reasons, played.verdict.notes))
    return f"{played.verdict.value}: {reasons}; {notes}"


INVALID = "custom-metric-invalid-result"
INFORMS = '[[policy]]\ncases = ":x"\nblocking = false\n'
NOTHING_BLOCKS = "[[policy]]\nblocking = false\n"
HELD = f'[[quarantine]]\ncase = "{X}"\nreason = "r"\nowner = "o"\nexpires = 2999-01-01\n'
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
    "a metric that breaks on both sides alike": (
        broken_metrics(broken_metric(INVALID), more={"x": "0"}),
        "passed: ; red-on-base",
    ),
    "a metric that breaks otherwise": (
        broken_metrics(broken_metric("custom-metric-exception"), more={"x": "0"}),
        "failed: not-comparable; ",
    ),
    "another metric that breaks": (
        broken_metrics(broken_metric(INVALID, fingerprint="m2"), more={"x": "0"}),
        "failed: not-comparable; ",
    ),
    "a metric that breaks on both sides and leaves nothing scored": (
        broken_metrics(broken_metric(INVALID), base={"y": "1"}, head={}, gate="auto"),
        "inconclusive: nothing-scored; red-on-base",
    ),
    "cases without a key beside quarantined ones": (
        Story(head={"x": "1"}, heads=[without_key()], gate="thresholds", policy=HELD),
        "inconclusive: nothing-scored; quarantined",
    ),
    "a replayed case that passed when it was recorded": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[replayed(case("x", "0"))]),
        "failed: replayed-failed; ",
    ),
    "a replayed case that a judge fails once": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[judged(replayed(case("x", "0")))], more={"x": "1"}),
        "passed: ; failed-at-first",
    ),
    "a replayed case that a judge fails again": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[judged(replayed(case("x", "0")))], more={"x": "0"}),
        "failed: replayed-failed; ",
    ),
    "a replayed case that a judge fails, without another run": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[judged(replayed(case("x", "0")))], extra_runs=0),
        "inconclusive: budget; ",
    ),
    "a replayed case that failed when it was recorded": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[replayed(case("x", "0"), "failed")]),
        "passed: ; failed-as-recorded",
    ),
    "a replayed case of a tape without a status": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[replayed(case("x", "0"), "")]),
        "failed: replayed-failed; ",
    ),
    "a replayed case that failed when it was recorded, and breaks now": (
        Story(base={**STEADY, "x": TEN}, head=FINE, heads=[replayed(case("x", "x"), "failed")]),
        "failed: agent-error; ",
    ),
    "nothing but a replayed case that failed when it was recorded": (
        Story(
            base={"x": TEN, "y": TEN}, head={}, heads=[replayed(case("x", "0"), "failed"), case("y", "1")], gate="auto"
        ),
        "passed: ; failed-as-recorded",
    ),
    "a threshold that every score reaches": (
        Story(heads=[case("x", scores=[0.5], threshold=0.0)], gate="thresholds"),
        "passed: nothing-gated; ",
    ),
    "a threshold that not every score reaches": (
        Story(heads=[case("x", scores=[0.5], threshold=0.1)], gate="thresholds"),
        "passed: ; ",
    ),
    "a score that is compared where every threshold is zero": (
        Story(
            base={"x": TEN},
            heads=[case("x", scores=[1.0], threshold=0.0)],
            policy='[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.05\n',
        ),
        "passed: ; ",
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_evaluation__verdict_reasons_and_notes(name: str) -> None:
    story, expected = STORIES[name]
    assert codes(play(story)) == expected


@pytest.mark.parametrize(
    ("gate", "verdict"),
    [
        ("regressions", "passed"),
        ("auto", "passed"),
        ("thresholds", "failed"),
        ("both", "failed"),
        ("advisory", "passed"),
    ],
)
def test_evaluation__each_gate_on_a_case_that_is_red_on_the_base(gate: Gate, verdict: str) -> None:
    played = play(story("0" * 10, "0", "0", gate=gate))
    assert played.verdict.value == verdict
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
    entry = '[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.05\n'
    falls = Story(
        base={name: [1.0] * 10 for name in STEADY},
        head=dict.fromkeys(STEADY, 0.6),
        more={name: [0.6] for name in STEADY},
        make=lambda name, score, run: case(name, scores=[score], first_run=run),
        policy=entry,
    )
    assert play(replace(falls, more={name: [1.0] for name in STEADY})).verdict.value == "passed", "as good as before"
    assert play(falls).verdict.value == "failed"
    informed = play(replace(falls, policy=f"{entry}blocking = false\n"))
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


def test_quarantine_and_policy_that_set_every_case_aside_are_green__and_say_so() -> None:
    quarantined = play(Story(base={"x": TEN}, head={"x": "0"}, policy=HELD))
    unblocked = play(Story(head={"x": "0"}, gate="thresholds", policy=NOTHING_BLOCKS))
    assert codes(quarantined) == "passed: nothing-gated; no-baseline quarantined"
    assert codes(unblocked) == "passed: nothing-gated; informing"
    assert quarantined.verdict.reasons[0].message == "Nothing was gated: no case may fail the gate (1 quarantined)"
    assert unblocked.verdict.reasons[0].message == "Nothing was gated: no case may fail the gate (1 not blocking)"


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
