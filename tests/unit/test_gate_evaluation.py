"""One verdict from thresholds, comparison, policy and quarantine: the whole pure road, with real statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate_play import Played, Story, play
from history_samples import FILE, case

from agent_eval.gate.evaluation import evaluate
from agent_eval.gate.policy import Gate, Policy
from agent_eval.gate.regression._base_today import CHECK_RUNS
from agent_eval.results._merge import WITHOUT_KEY
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, Reason

TEN = "1" * 10
STEADY = {f"ok{number}": TEN for number in range(9)}
FINE = dict.fromkeys(STEADY, "1")


def story(base: str | None, head: str, more: str = "1", **others: object) -> Story:
    """One case `x` among nine that always pass; without a base it is new."""
    there = STEADY if base is None else {**STEADY, "x": base}
    return replace(Story(base=there, head={**FINE, "x": head}, more={"x": more}), **others)  # type: ignore[arg-type]


def codes(played: Played) -> tuple[str, list[str], list[str]]:
    return (
        played.verdict.value,
        [reason.code for reason in played.verdict.reasons],
        [reason.code for reason in played.verdict.notes],
    )


X = f"{FILE}:x"


def test_evaluation__what_got_worse_blocks() -> None:
    played = play(story(TEN, "0", "0"))

    assert codes(played) == ("failed", ["case-worse"], [])
    assert played.verdict.blocking == (X,)
    assert played.verdict.mode == "regressions"


def test_evaluation__what_was_red_on_the_base_does_not() -> None:
    played = play(story("0" * 10, "0", "0"))

    assert codes(played) == ("passed", [], ["red-on-base"])
    assert (
        played.notes["red-on-base"]
        == f"1 case failed as on the base branch ({X}: 0 of 1 now, 0 of 10 on the base branch)"
    )
    assert played.verdict.blocking == ()


def test_evaluation__what_fails_now_and_then_on_the_base_does_not() -> None:
    assert codes(play(story("1101011011", "0", "110")))[::2] == ("passed", ["flaky-as-before"])


def test_evaluation__one_failure_that_is_not_seen_again_does_not() -> None:
    played = play(story(TEN, "0"))
    assert codes(played)[::2] == ("passed", ["failed-at-first"])


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


def test_evaluation__both_reports_the_reasons_of_both() -> None:
    assert codes(play(story(TEN, "0", "0", gate="both")))[1] == ["case-worse", "failed"]


def test_evaluation__auto_without_a_pull_request_or_a_baseline_holds_to_thresholds() -> None:
    push = play(story("0" * 10, "0", "0", gate="auto", pull_request=False))
    first = play(Story(head={"x": "0"}, gate="auto"))
    assert codes(push)[:2] == codes(first)[:2] == ("failed", ["failed"])
    assert push.verdict.mode == first.verdict.mode == "thresholds"


@pytest.mark.parametrize("gate", ["regressions", "both"])
def test_evaluation__without_a_baseline_the_thresholds_decide_and_it_is_said(gate: Gate) -> None:
    played = play(Story(head={"x": "0"}, gate=gate))
    assert codes(played) == ("failed", ["failed"], ["no-baseline"])
    assert played.notes["no-baseline"] == "The thresholds decide, since there is no baseline"
    assert play(Story(base={"y": "1"}, head={"x": "0"}, gate=gate)).notes["no-baseline"] == (
        "The thresholds decide, since nothing can be compared with the base branch"
    )


def test_evaluation__a_new_case_that_fails_blocks() -> None:
    played = play(story(None, "0", "0"))
    assert codes(played)[:2] == ("failed", ["not-comparable"])
    assert played.verdict.reasons[0].message == f"1 case failed that can't be compared with the base branch: {X}"


def test_evaluation__a_changed_case_that_fails_blocks() -> None:
    changed = Story(base=STEADY, head=FINE, heads=[case("ok0", "0", fingerprint="other")], more={"ok0": "0"})
    changed.head = {name: run for name, run in FINE.items() if name != "ok0"}
    assert codes(play(changed))[:2] == ("failed", ["not-comparable"])


def test_evaluation__a_new_metric_that_fails_blocks() -> None:
    head = case("x", "1")
    head.metrics += case("x", "0", metric="safety_v1").metrics
    head.status = "failed"
    new_metric = Story(base={**STEADY, "x": TEN}, head=FINE, heads=[head], more={"x": "0"})
    assert codes(play(new_metric))[:2] == ("failed", ["metric-not-comparable", "case-worse"])


def test_evaluation__a_new_metric_that_broke_blocks() -> None:
    head = case("x", "1")
    head.metrics += case("x", "?", metric="custom").metrics
    head.status = "failed"  # a metric that the pull request's own code broke
    new_metric = Story(base={**STEADY, "x": TEN}, head=FINE, heads=[head], more={"x": "0"})
    assert codes(play(new_metric))[:2] == ("failed", ["metric-not-comparable", "case-worse"])


def test_evaluation__an_error_of_the_agent_that_shows_again_blocks() -> None:
    played = play(story(TEN, "x", "1x1111"))
    assert codes(played)[:2] == ("failed", ["agent-error"])
    assert played.verdict.blocking == (X,)


def test_evaluation__an_error_that_does_not_occur_again_is_reported() -> None:
    played = play(story(TEN, "x"))
    assert codes(played)[::2] == ("passed", ["agent-error-once"])
    assert played.notes["agent-error-once"].startswith(f"{X}: the agent broke once and not again in ")


def test_evaluation__one_that_can_not_be_repeated_is_undecided() -> None:
    verdict, reasons, _ = codes(play(story(TEN, "x", extra_runs=0)))
    assert (verdict, set(reasons)) == ("inconclusive", {"budget"})


def test_constant_error__is_not_run_more_often_than_needed() -> None:
    stored_only = play(story(TEN, "x", "x"))
    assert codes(stored_only) == ("failed", ["agent-error"], [])
    assert (stored_only.verdict.blocking, stored_only.spent) == ((X,), 3)
    assert stored_only.decision is not None
    # No test decided: a p-value would be of another statement.
    assert [(case.word, case.p_value) for case in stored_only.decision.cases if case.case_id == X] == [("broken", None)]

    base_answers = play(story(TEN, "x", "x", base_more={}))
    assert codes(base_answers)[:2] == ("failed", ["agent-error"])
    assert base_answers.spent == 3 + CHECK_RUNS


def test_constant_error__what_is_not_run_because_of_it_says_so() -> None:
    failing = dict.fromkeys(list(STEADY)[:7], "0")
    broken = {**failing, "x": "x"}
    played = play(Story(base={**STEADY, "x": TEN}, head={**FINE, **broken}, more=broken))
    assert played.verdict.blocking == (X,)
    [_, suite] = played.verdict.reasons
    assert suite.data.get("remedy") == "decided"
    assert "likely-regression" in played.notes


@pytest.mark.parametrize("more", ["xc", "x0", "cx"])
def test_constant_error__other_errors_and_failures_are_tested_as_before(more: str) -> None:
    played = play(story(TEN, "x", more, base_more={}))
    assert played.verdict.value == "failed"
    assert played.spent > 3 + CHECK_RUNS


def test_constant_error__an_outage_of_today_does_not_block() -> None:
    """The base branch, which passed ten days, has the error today too."""
    played = play(story(TEN, "x", "x", base_more={"x": "x"}))
    assert played.verdict.value == "passed"
    assert played.decision is not None
    assert "base-differs-today" in [reason.code for reason in played.decision.reasons]


def test_constant_error__the_base_branch_had_errors_of_its_own() -> None:
    played = play(story("1111x11111", "x", "x"))
    assert played.verdict.value == "failed"
    assert played.spent > 3


def test_evaluation__an_agent_that_breaks_on_the_base_too_is_noise_like_any_other() -> None:
    flaky = story("1111x11x11", "x", "11x1111")
    assert codes(play(flaky))[::2] == ("passed", ["flaky-as-before"])
    elsewhere = replace(flaky, base={**STEADY, "x": TEN, "ok1": "11111x1111"})
    assert codes(play(elsewhere))[0] == "passed"


@pytest.mark.parametrize(("head", "code"), [("x", "red-on-base"), ("0", "red-otherwise")])
def test_a_case_in_which_the_agent_breaks_on_the_base__is_red_there(head: str, code: str) -> None:
    for base in ("x" * 10, "x"):
        steady = {name: outcomes[: len(base)] for name, outcomes in STEADY.items()}
        played = play(Story(base={**steady, "x": base}, head={**FINE, "x": head}, more={"x": head}))
        assert codes(played) == ("passed", [], [code])


def test_evaluation__a_case_in_which_the_agent_broke_on_the_base_may_be_fixed() -> None:
    played = play(story("x" * 20, "1"))
    assert codes(played) == ("passed", [], [])
    assert played.decision is not None
    assert {case.word for case in played.decision.cases if case.case_id == X} == {"fixed"}


def test_evaluation__a_broken_case_never_passes_for_want_of_history() -> None:
    thin = dict.fromkeys(STEADY, "1")
    broken = Story(base={**thin, "x": "1"}, head={**FINE, "x": "0"}, more={"x": "0"})
    assert play(broken).verdict.value == "failed"
    assert play(replace(broken, base_more={})).verdict.value == "failed"
    assert play(replace(broken, extra_runs=0)).verdict.value != "passed"


def test_evaluation__what_could_not_be_judged_stays_inconclusive() -> None:
    errored = play(story(TEN, "p"))
    assert codes(errored)[:2] == ("inconclusive", ["provider-unavailable"])
    assert codes(play(story(TEN, "-")))[:2] == ("inconclusive", ["stopped"])
    worse = play(Story(base={**STEADY, "x": TEN}, head={**FINE, "ok0": "p", "x": "0"}, more={"x": "0"}))
    assert codes(worse)[:2] == ("failed", ["case-worse", "provider-unavailable"])


def test_evaluation__without_cases_nothing_passes() -> None:
    assert codes(play(Story(base=STEADY)))[:2] == ("inconclusive", ["no-cases"])


def test_evaluation__all_failed_as_on_the_base() -> None:
    red = dict.fromkeys(STEADY, "0" * 10)
    played = play(Story(base=red, head=dict.fromkeys(red, "0"), more=dict.fromkeys(red, "0")))
    assert codes(played) == ("passed", ["no-case-passes"], ["red-on-base"])
    assert played.verdict.reasons[0].message == "No regressions, but 0 of 9 cases pass"
    assert played.notes["red-on-base"].endswith("; and 6 more)")


def test_evaluation__when_nothing_passes_today_on_either_side_nothing_is_decided() -> None:
    """An outage without an error, e.g. of a tool: a pull request that breaks everything looks the same."""
    green = dict.fromkeys(STEADY, TEN)
    dead = dict.fromkeys(green, "0" * 10)
    played = play(Story(base=green, head=dict.fromkeys(green, "0"), more=dead, base_more=dead, extra_runs=100))
    assert codes(played)[:2] == ("inconclusive", ["no-case-passes"])


INFORMS = '[[policy]]\ncases = ":x"\nblocking = false\n'


@pytest.mark.parametrize("gate", ["regressions", "thresholds", "both"])
def test_evaluation__a_case_that_only_informs(gate: Gate) -> None:
    played = play(story(TEN, "0", "0", gate=gate, policy=INFORMS))
    assert codes(played)[:2] == ("passed", [])
    assert played.notes["informing"] == f"1 case that only informs failed: {X}"
    assert codes(play(story(TEN, "p", gate=gate, policy=INFORMS)))[0] == "passed"


def test_evaluation__a_suite_in_which_nothing_blocks_passes() -> None:
    unblocked = Story(head={"x": "0"}, gate="thresholds", policy="[[policy]]\nblocking = false\n")
    assert codes(play(unblocked)) == ("passed", ["nothing-gated"], ["informing"])


HELD = f'[[quarantine]]\ncase = "{X}"\nreason = "r"\nowner = "o"\nexpires = 2999-01-01\n'


@pytest.mark.parametrize("gate", ["regressions", "thresholds", "both"])
@pytest.mark.parametrize("head", ["0", "x", "p"])
def test_evaluation__a_quarantined_case_does_not_block(gate: Gate, head: str) -> None:
    played = play(story(TEN, head, "0", gate=gate, policy=HELD))
    assert codes(played)[:2] == ("passed", [])
    assert "quarantined" in played.notes
    assert played.spent == (0 if head == "p" else 6), "to say whether it is broken now"


def test_evaluation__advice_says_what_would_have_been() -> None:
    played = play(story(TEN, "0", "0", gate="advisory"))
    assert codes(played)[:2] == ("passed", ["advisory"])
    assert played.verdict.reasons[0].message.endswith("; exit 0 because `gate` is `advisory`")
    assert played.notes["case-worse"].startswith("Would fail: 1 case is worse than on the base branch")
    assert played.verdict.blocking == (X,), "reports name the same regressions as for a gate that blocks"
    assert play(story(TEN, "p", gate="advisory")).notes["provider-unavailable"].startswith("Would be inconclusive: ")
    assert play(Story(head={"x": "0"}, gate="advisory")).notes["failed"] == "Would fail: 1 of 1 case"


def test_evaluation__advice_of_a_gate_that_was_broken_off_is_none() -> None:
    assert codes(play(story(TEN, "-", gate="advisory")))[:2] == ("inconclusive", ["stopped"])


def test_a_score_that_falls_blocks_where_an_entry_names_it__and_informs_where_it_says_so() -> None:
    entry = '[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.05\n'
    base = {**STEADY}
    head = Story(base=base, heads=[case(name, scores=[0.6]) for name in STEADY], policy=entry, more_score=0.6)
    assert play(replace(head, more_score=None)).verdict.value == "passed", "the fresh runs are as good as before"
    assert play(head).verdict.value == "failed"
    informed = play(replace(head, policy=f"{entry}blocking = false\n"))
    assert informed.verdict.value == "passed"
    assert any("response_match_score" in note.message for note in informed.verdict.notes)
    assert play(replace(head, policy="")).verdict.value == "passed", "every case still passes"


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
    assert codes(played)[:2] == ("failed", ["failed", "nothing-scored"])
    assert played.verdict.reasons[1].message == "Nothing was evaluated: none of 9 cases was scored (9 agent-import)"
    assert played.notes["no-baseline"] == "The thresholds decide, since nothing can be compared with the base branch"


def test_a_crash_that_does_not_come_again_was_one__and_the_case_is_evaluated() -> None:
    assert codes(play(story(TEN, "c", "1")))[::2] == ("passed", ["agent-error-once"])


@pytest.mark.parametrize("base", [STEADY, dict.fromkeys(STEADY, "x")])
def test_an_agent_that_breaks_in_every_case_was_not_evaluated__whatever_the_base_did(base: dict[str, str]) -> None:
    broken = dict.fromkeys(STEADY, "x")
    played = play(Story(base=base, head=broken, more=broken))

    assert played.verdict.value == "failed"
    assert len(played.verdict.blocking) == len(STEADY)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ("0000000000", "d", ("failed", ["agent-error"], [])),
        ("xxxxxxxxxx", "d", ("passed", [], ["red-on-base"])),  # of nine of them nobody knows how they broke
        ("x", "d", ("failed", ["agent-error"], [])),
        ("d", "d", ("passed", [], ["red-on-base"])),
        ("x", "0", ("passed", [], ["red-otherwise"])),
    ],
)
def test_evaluation__a_failure_of_another_kind_is_not_as_on_the_base(
    base: str, head: str, expected: tuple[str, list[str], list[str]]
) -> None:
    steady = {name: outcomes[: len(base)] for name, outcomes in STEADY.items()}
    assert codes(play(Story(base={**steady, "x": base}, head={**FINE, "x": head}, more={"x": head}))) == expected


def broken_metric(kind: str, *, fingerprint: str = "m1") -> CaseReport:
    """Case `x`, whose only gating metric broke."""
    report = case("x", "?", measures=fingerprint)
    report.metrics[0].runs[0].error = RunError(kind=kind, owner="agent", message="no score")
    report.status, report.runs[0].status = "failed", "failed"
    return report


INVALID = "custom-metric-invalid-result"


@pytest.mark.parametrize(
    ("head", "verdict", "code"),
    [
        (broken_metric(INVALID), "passed", "red-on-base"),
        (broken_metric("custom-metric-exception"), "failed", "not-comparable"),
        (broken_metric(INVALID, fingerprint="m2"), "failed", "not-comparable"),
    ],
)
def test_evaluation__a_metric_that_breaks_in_the_same_way_on_both_sides_is_red_on_the_base(
    head: CaseReport, verdict: str, code: str
) -> None:
    both_broken = Story(base=STEADY, head=FINE, heads=[head], bases=[broken_metric(INVALID)], more={head.eval_id: "0"})
    played = play(both_broken)

    assert played.verdict.value == verdict
    assert code in {*codes(played)[1], *codes(played)[2]}


def test_evaluation__a_metric_that_breaks_on_both_sides_and_leaves_nothing_scored_is_inconclusive() -> None:
    both_broken = Story(base={"y": "1"}, heads=[broken_metric(INVALID)], bases=[broken_metric(INVALID)], gate="auto")
    assert codes(play(both_broken)) == ("inconclusive", ["nothing-scored"], ["red-on-base"])


def test_quarantine_and_policy_that_set_every_case_aside_are_green__and_say_so() -> None:
    quarantined = play(Story(base={"x": TEN}, head={"x": "0"}, policy=HELD))
    unblocked = play(Story(head={"x": "0"}, gate="thresholds", policy="[[policy]]\nblocking = false\n"))

    assert codes(quarantined)[:2] == codes(unblocked)[:2] == ("passed", ["nothing-gated"])
    assert quarantined.verdict.reasons[0].message == "Nothing was gated: no case may fail the gate (1 quarantined)"
    assert unblocked.verdict.reasons[0].message == "Nothing was gated: no case may fail the gate (1 not blocking)"


@pytest.mark.parametrize("policy", [HELD, "[[policy]]\nblocking = false\n"])
@pytest.mark.parametrize("head", ["i", "x", "p"])
def test_evaluation__setting_every_case_aside_does_not_make_a_dead_agent_green(policy: str, head: str) -> None:
    played = play(Story(head={"x": head}, gate="thresholds", policy=policy))
    assert codes(played)[:2] == ("inconclusive", ["nothing-scored"])


def test_evaluation__cases_without_a_key_beside_quarantined_ones_are_no_evaluation() -> None:
    silent = case("y", "-")
    silent.reason = Reason(code=WITHOUT_KEY, message="no key")
    played = play(Story(head={"x": "1"}, heads=[silent], gate="thresholds", policy=HELD))
    assert codes(played)[:2] == ("inconclusive", ["nothing-scored"])


@pytest.mark.parametrize(("threshold", "expected"), [(0.0, ["nothing-gated"]), (0.1, [])])
def test_evaluation__thresholds_that_every_score_reaches_gate_nothing(threshold: float, expected: list[str]) -> None:
    played = play(Story(heads=[case("x", scores=[0.5], threshold=threshold)], gate="thresholds"))
    assert codes(played)[:2] == ("passed", expected)


def test_evaluation__a_score_that_is_compared_gates_even_where_every_threshold_is_zero() -> None:
    policy = '[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.05\n'
    head = case("x", scores=[1.0], threshold=0.0)
    assert codes(play(Story(base={"x": TEN}, heads=[head], policy=policy)))[:2] == ("passed", [])


def test_base_name__sentences_use_it_and_leave_ids_alone() -> None:
    evil = "on the base branch, on base"
    played = play(Story(base={**STEADY, evil: TEN}, head={**FINE, evil: "0"}, more={evil: "0"}, base_name="release-1"))
    assert played.verdict.reasons[0].message == (
        f"1 case is worse than on release-1: {FILE}:{evil} (0 of 3 now, 10 of 10 on release-1)"
    )


@pytest.mark.parametrize(
    ("gate", "broke", "verdict"),
    [
        ("auto", False, "inconclusive"),
        ("regressions", False, "inconclusive"),
        ("thresholds", False, "failed"),
        ("both", False, "failed"),
        ("auto", True, "failed"),
    ],
)
def test_evaluation__scores_decide_nothing_if_the_base_met_an_outage(gate: Gate, broke: bool, verdict: str) -> None:
    error = RunError(kind="agent-exception", owner="agent", message="it raised") if broke else None
    failed = case("x", "0")
    failed = failed.model_copy(update={"runs": [run.model_copy(update={"error": error}) for run in failed.runs]})

    away = Reason(code="provider-unavailable", message="the model is away")
    decided = evaluate([case("fine", "1"), failed], Policy(), gate=gate, pull_request=True, base_outage=away)

    assert decided.value == verdict
    assert (decided.reasons[0].code == "provider-unavailable") == (verdict == "inconclusive")
