"""From results to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from gate_play import FINE, STEADY, TEN, Story, X, by_score, play, story
from golden_files import check, facts_of
from history_samples import FILE, SCORE, TOKENS, case, replayed, report
from hypothesis import given
from hypothesis import strategies as st
from policy_texts import entry, quarantine, valid_policy

from agent_eval.api import EngineOutcome
from agent_eval.gate.evaluation import evaluate, outage
from agent_eval.gate.policy import MOST_DAYS, Gate, MetricPolicy, Policy, PolicyReader, case_matcher, quarantined
from agent_eval.gate.policy_checks import KnownCase, check_policy
from agent_eval.gate.regression.rescoring import apply_policy, quarantine_notes
from agent_eval.gate.verdict import (
    EXIT_CODES,
    decide,
    exit_code,
    no_secrets,
    unfinished,
    unjudged_runs,
)
from agent_eval.pytest_plugin._outcomes import outcome_in
from agent_eval_results.data.merging import WITHOUT_KEY
from agent_eval_results.data.report import CaseReport, CaseStatus, Reason, VerdictValue
from agent_eval_results.report.phrases import text
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.recording import RunError

# One verdict from thresholds, comparison, policy and quarantine: the whole pure road, with real statistics.

INVALID = "custom-metric-invalid-result"


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


def fell(to: float, policy: str, *, threshold: float = 0.5, gate: Gate = "regressions", **measure: str) -> Story:
    """A replayed case that scored 0.9 when it was recorded."""
    fallen = replayed(case("x", scores=[to], threshold=threshold), response_match_score=0.9)
    fallen.metrics = [metric.changed(**measure) for metric in fallen.metrics]
    return Story(base={"x": TEN}, heads=[fallen], policy=policy, gate=gate)


def of_tokens(count: float) -> Story:
    """A replayed case that cost 100 tokens when it was recorded."""
    costly = replayed(case("x", "1", tokens=[count]), token_usage_v1=100)
    return Story(base={"x": TEN}, heads=[costly], policy=entry("max-drop = 0.2", TOKENS))


def falling(more: float, policy: str) -> Story:
    """The scores of all cases fall from 1 to 0.6, at least at first."""
    return Story(
        base={name: [1.0] * 10 for name in STEADY},
        head=dict.fromkeys(STEADY, 0.6),
        more={name: [more] for name in STEADY},
        make=by_score,
        policy=policy,
    )


def without_key() -> CaseReport:
    silent = case("y", "-")
    silent.reason = Reason(code=WITHOUT_KEY, message="no key")
    return silent


def drop_of_all(more: str) -> Story:
    """Thirty cases that fail now and then on the base, and half of the time now."""
    names = [f"case_{number}" for number in range(30)]
    failing_day = [-number % 10 for number, _ in enumerate(names)]
    base = {name: f"{'1' * day}0{'1' * (9 - day)}" for name, day in zip(names, failing_day, strict=True)}
    head = {name: "0" if number % 2 else "1" for number, name in enumerate(names)}
    return Story(base=base, head=head, more=dict.fromkeys(names, more), extra_runs=240)


INFORMS = '[[policy]]\ncases = ":x"\nblocking = false\n'
NOTHING_BLOCKS = "[[policy]]\nblocking = false\n"
HELD = quarantine(X, "2999-01-01")
DEAD = dict.fromkeys(STEADY, "0" * 10)
FAILING, BREAKING, NO_START = (dict.fromkeys(STEADY, outcome) for outcome in "0xi")
TENTH = entry("max-drop = 0.1")
MOST_FAIL = {**dict.fromkeys(list(STEADY)[:7], "0"), "x": "x"}
EVIL = "on the base branch, on base"
NEWS = [case(f"n{number}", "0") for number in range(30)]
NOT_COMPARABLE = {
    "new": case("x", "0"),
    "changed": case("x", "0", fingerprint="another question"),
    "another metric": case("x", "0", metric="another_score", measures="m2"),
}

STORIES = {
    "passed ten times on the base, never passes now": story(TEN, "0", "0"),
    "passed ten times on the base, passes three times of ten now": story(TEN, "0", "0100100100"),
    "failed at first, passes whenever it runs again": story(TEN, "0"),
    "fails three times of ten on both sides": story("1101011011", "0", "1101011011"),
    "never passed on the base, passes now": story("0" * 20, "1"),
    "passes as ever": story(TEN, "1"),
    "broken, with one run of the base and no way to run it": story("1", "0", "0"),
    "broken, with one run of the base, which can be run again": story("1", "0", "0", base_more={}),
    "broken, with one run of the base and no extra runs": story("1", "0", "0", extra_runs=0),
    "broken or not, with a budget that allows to look": story(TEN, "0", "0", extra_runs=0),
    "half of the runs, with one run of the base and no way to run it": story("1", "0", "01"),
    "half of thirty cases fail once, and pass when run again": drop_of_all("1"),
    "all thirty cases a little worse": drop_of_all("0111011"),
    **{f"red on the base, by {gate}": story("0" * 10, "0", "0", gate=gate) for gate in get_args(Gate)},
    "both report the reasons of both": story(TEN, "0", "0", gate="both"),
    "auto on a push": story("0" * 10, "0", "0", gate="auto", pull_request=False),
    **{f"{gate} without a baseline": Story(head={"x": "0"}, gate=gate) for gate in ("auto", "regressions", "both")},
    "nothing that can be compared": Story(base={"y": "1"}, head={"x": "0"}),
    "another name of the base": Story(
        base={**STEADY, EVIL: TEN}, head={**FINE, EVIL: "0"}, more={EVIL: "0"}, base_name="release-1"
    ),
    "a new metric that fails": with_metric("0"),
    "a new metric that the pull request's own code broke": with_metric("?"),
    "an error of the agent that shows again": story(TEN, "x", "1x1111"),
    "an error of the agent that does not": story(TEN, "x"),
    "a crash that does not come again": story(TEN, "c"),
    "an error that can't be repeated": story(TEN, "x", extra_runs=0),
    "an error that always comes": story(TEN, "x", "x"),
    "an error that always comes, but not on the base": story(TEN, "x", "x", base_more={}),
    "an error that always comes, today on the base, too": story(TEN, "x", "x", base_more={"x": "x"}),
    **{
        f"broke on the base {count} records ago": story(
            "1" * (20 - count) + "0" * count, "0", "0", base_more={"x": "0"}
        )
        for count in (1, 3, 8, 12, 15)
    },
    "broke on the base three records ago, where it can't run": story("1" * 17 + "000", "0", "0"),
    "broke on the base five records ago, and another case breaks": Story(
        base={**STEADY, "x": "1" * 15 + "00000"},
        head={**FINE, "x": "0", "ok1": "0"},
        more={"x": "0", "ok1": "0"},
        base_more={"x": "0"},
    ),
    "an error that always comes, and what is not run because of it": Story(
        base={**STEADY, "x": TEN}, head={**FINE, **MOST_FAIL}, more=MOST_FAIL
    ),
    **{
        f"an error, and then {more} after {base}": story(base, "x", more, base_more={})
        for base, more in ((TEN, "xc"), (TEN, "x0"), (TEN, "cx"), ("1111x11111", "x"))
    },
    "an agent that breaks on the base, too": story("1111x11x11", "x", "11x1111"),
    "an agent that breaks on the base elsewhere": replace(
        story(TEN, "x", "11x1111"), base={**STEADY, "x": TEN, "ok1": "11111x1111"}
    ),
    "an agent that broke on the base, and is fixed": story("x" * 20, "1"),
    **{f"it {base * 10} on the base, {head} now": story(base * 10, head, head) for base, head in ("xx", "x0", "0d")},
    **{f"it {base} on the base, {head} now": story(base, head, head) for base, head in ("xx", "x0", "xd", "dd")},
    "it always broke, nobody knows how, and is too slow now": story("x" * 10, "d", "d"),
    "it always failed on the base, and broke once": story("0" * 10, "x"),
    "it always failed on the base, and breaks": story("0" * 10, "x", "x"),
    "an outage": story(TEN, "p"),
    "a stop": story(TEN, "-"),
    "an outage beside a regression": replace(story(TEN, "0", "0"), head={**FINE, "ok0": "p", "x": "0"}),
    "no cases": Story(base=STEADY),
    "all failed as on the base": Story(base=DEAD, head=FAILING, more=FAILING),
    # An outage without an error, e.g. of a tool: a pull request that breaks everything looks the same.
    "nothing passes today on either side": Story(
        base=STEADY, head=FAILING, more=FAILING, base_more=FAILING, extra_runs=100
    ),
    **{f"advice about {head}": story(TEN, head, head, gate="advisory") for head in "0p-"},
    "advice without a baseline": Story(head={"x": "0"}, gate="advisory"),
    "an agent that can't start": Story(base=STEADY, head=NO_START, more=NO_START),
    "an agent that breaks in every case": Story(base=STEADY, head=BREAKING, more=BREAKING),
    "an agent that breaks in every case, as on the base": Story(base=BREAKING, head=BREAKING, more=BREAKING),
    "a metric that breaks on both sides alike": broken_metrics(),
    "a metric that breaks otherwise": broken_metrics("custom-metric-exception"),
    "another metric that breaks": broken_metrics(fingerprint="m2"),
    "a metric that breaks on both sides and leaves nothing scored": broken_metrics(
        base={"y": "1"}, head={}, gate="auto"
    ),
    "cases without a key beside quarantined ones": Story(
        head={"x": "1"}, heads=[without_key()], gate="thresholds", policy=HELD
    ),
    **{
        f"{what} by {gate}, {head}": story(TEN, head, "0", gate=gate, policy=policy)
        for what, policy in (("only informs", INFORMS), ("quarantined", HELD))
        for gate in ("regressions", "thresholds", "both")
        for head in "0xp"
    },
    **{
        f"every case is {what}, {head}": Story(head={"x": head}, gate="thresholds", policy=policy)
        for what, policy in (("quarantined", HELD), ("set to inform", NOTHING_BLOCKS))
        for head in "0ixp"
    },
    **{
        f"quarantined, fails {more} on a base that failed now and then": story(
            "1101" * 5, "0", more, policy=f"max-quarantined = 0.2\n{quarantine(':x')}"
        )
        for more in ("0", "01")
    },
    # What can't be compared with the base runs again before it blocks.
    **{
        f"{what}, fails {more}": Story(
            base=STEADY if what == "new" else {**STEADY, "x": TEN}, head=FINE, heads=[failing], more={"x": more}
        )
        for what, failing in NOT_COMPARABLE.items()
        for more in ("0", "1", "01")
    },
    "a new case that fails, without extra runs": Story(
        base=STEADY, head=FINE, heads=[NOT_COMPARABLE["new"]], extra_runs=0
    ),
    "thirty broken new cases": Story(
        base=STEADY, head=FINE, heads=NEWS, more={new.eval_id: "0" for new in NEWS}, extra_runs=400
    ),
    "a replayed case that passed when it was recorded": of_tape("0"),
    "a replayed case that a judge fails once": of_tape("0", judge="j"),
    "a replayed case that a judge fails again": of_tape("0", judge="j", more={"x": "0"}),
    "a replayed case that a judge fails, without another run": of_tape("0", judge="j", extra_runs=0),
    "a replayed case that failed when it was recorded": of_tape("0", "failed"),
    "a replayed case of a tape without a status": of_tape("0", ""),
    "a replayed case that failed when it was recorded, and breaks now": of_tape("x", "failed"),
    "nothing but a replayed case that failed when it was recorded": of_tape(
        "0", "failed", base={"x": TEN, "y": TEN}, head={"y": "1"}, gate="auto"
    ),
    "a replayed score that falls below the tolerance": fell(0.7, TENTH),
    "a replayed score that falls within it": fell(0.8, TENTH),
    "a replayed score that falls, and nothing was said of falls": fell(0.7, ""),
    "a replayed score that falls, by thresholds": fell(0.7, TENTH, gate="thresholds"),
    "a replayed score that only informs": fell(0.7, f"{TENTH}blocking = false\n"),
    "a replayed score that a judge gave": fell(0.7, TENTH, judge="j"),
    "a replayed score of another measure": fell(0.7, TENTH, fingerprint="m2"),
    "a replayed score that falls below its threshold": fell(0.7, TENTH, threshold=0.8),
    "a replayed score without a threshold": fell(0.8, TENTH, threshold=0.0),
    "a replayed score without a threshold, of a judge": fell(0.8, TENTH, threshold=0.0, judge="j"),
    "a replayed score without a threshold, which informs": fell(0.8, f"{TENTH}blocking = false\n", threshold=0.0),
    **{f"replayed, and {count} tokens instead of 100": of_tokens(count) for count in (119, 121)},
    "a threshold that every score reaches": with_threshold(0.0),
    "a threshold that not every score reaches": with_threshold(0.1),
    "a score that is compared where every threshold is zero": with_threshold(
        0.0, base={"x": TEN}, policy=entry("max-drop = 0.05"), gate="regressions"
    ),
    "scores that fall once": falling(1.0, entry("max-drop = 0.05")),
    "scores that fall": falling(0.6, entry("max-drop = 0.05")),
    "scores that fall and inform": falling(0.6, entry("max-drop = 0.05\nblocking = false")),
    "scores that fall, and nothing was said of falls": falling(0.6, ""),
}


def test_evaluation__what_the_gate_says_of_each_story() -> None:
    check("golden_verdicts.txt", "\n".join(f"# {name}\n{play(told)}" for name, told in STORIES.items()))


@pytest.mark.parametrize(("head", "kind"), [("i", "agent-import"), ("c", "agent-crash")])
def test_evaluation__a_case_that_was_not_evaluated_never_passes_by_comparison(head: str, kind: str) -> None:
    gates: list[Gate] = ["auto", "regressions", "thresholds", "both"]
    for gate, base in product(gates, "10xic"):
        played = play(story(base * 10, head, head, gate=gate))
        assert (played.verdict.value, played.verdict.blocking) == ("failed", (X,))
        if gate in {"auto", "regressions"}:
            assert f"1 case not evaluated ({kind}): {X}" in [reason.message for reason in played.verdict.reasons]


def test_evaluation__scores_decide_nothing_if_the_base_met_an_outage() -> None:
    away = Reason(code="provider-unavailable", message="the model is away")
    gates: list[Gate] = ["auto", "regressions", "thresholds", "both"]
    for gate, head in product(gates, "0x"):
        decided = evaluate(
            [case("fine", "1"), case("x", head)], Policy(), gate=gate, pull_request=True, base_outage=away
        )
        is_open = head == "0" and gate in {"auto", "regressions"}
        assert decided.value == ("inconclusive" if is_open else "failed")
        assert (decided.reasons[0].code == "provider-unavailable") == is_open


@pytest.mark.parametrize("gate", ["auto", "regressions", "thresholds", "both"])
@pytest.mark.parametrize("head", ["0", "x", "1"])
def test_evaluation__a_case_that_the_base_lost_to_an_outage_of_today_is_not_red_by_its_scores(
    gate: Gate, head: str
) -> None:
    for base, same_day in product("p1", (True, False)):
        played = play(story(base, head, head, gate=gate, same_day=same_day))
        decided, compares = played.verdict, gate in {"auto", "regressions"}
        is_open = (base, head, same_day) == ("p", "0", True) and compares
        codes = [reason.code for reason in decided.reasons]
        if is_open:
            assert (decided.value, codes, decided.blocking) == ("inconclusive", ["provider-unavailable"], ())
            assert "the runs of the base branch to compare with have no result" in decided.reasons[0].message
        elif base == "p":
            assert decided.value == ("passed" if head == "1" else "failed")
        else:
            assert "provider-unavailable" not in codes


def test_evaluation__one_result_on_the_base_counts_however_many_runs_were_lost_there() -> None:
    there = dict.fromkeys(STEADY, "1")
    values = {
        runs: play(
            Story(base=there, bases=[case("x", runs)], head={**FINE, "x": "0"}, more={"x": "0"}, same_day=True)
        ).verdict.value
        for runs in ("ppp", "pp1", "1pp", "111")
    }
    assert values == {"ppp": "inconclusive", "pp1": "failed", "1pp": "failed", "111": "failed"}


def test_evaluation__a_judge_that_was_away_on_the_base_decides_nothing() -> None:
    there = dict.fromkeys(STEADY, "1")
    for same_day in (True, False):
        told = Story(base=there, bases=[unscored("judge-unavailable")], head={**FINE, "x": "0"}, more={"x": "0"})
        played = play(replace(told, same_day=same_day))
        assert played.verdict.value == ("inconclusive" if same_day else "failed")
        assert (played.verdict.reasons[0].code == "provider-unavailable") == same_day


def unscored(code: str) -> CaseReport:
    """A run without an error whose judge gave no score."""
    judged = case("x", "?")
    judged.metrics[0].reason = Reason(code=code, message="503")
    return judged


def test_outage__of_a_judge_counts_as_one_of_the_model() -> None:
    down, failed = unscored("judge-unavailable"), case("x", "0")
    away = [outage([down, down, failed]), outage([case("x", "p")])]
    assert [each and each.code for each in away] == ["judge-unavailable", "provider-unavailable"]
    assert [outage(cases) for cases in ([down, failed], [unscored("turn-count")], [case("x", "x")])] == [None] * 3


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


def as_lines(judged: CaseReport) -> list[str]:
    """A case with its metrics."""
    reason = f" ({text(judged.reason)})" if judged.reason is not None else ""
    lines = [f"{judged.eval_id} {judged.status}{reason}: {' '.join(run.status for run in judged.runs)}"]
    for metric in judged.metrics:
        informs = "" if metric.blocking else ", informs"
        facts = f"{metric.name}, {metric.direction} than {metric.threshold}{informs}, {metric.status}"
        scores = (f"{run.score} {run.turn_scores} {run.status}" for run in metric.runs)
        lines.append(f"  {facts}: {', '.join(scores)}")
    return lines


def with_turns() -> CaseReport:
    made = case("turns", scores=[0.6, 0.8], threshold=0.7)
    made.metrics[0].runs[0].turn_scores = [0.2, 1.0]
    return made


def without_tokens() -> CaseReport:
    made = case("b", "1", tokens=[900.0])
    made.metrics[1].runs[0].score = None
    return made


def by_its_own_word() -> CaseReport:
    """A custom metric may decide against its score."""
    made = case("own", scores=[0.9])
    made.metrics[0].runs[0].status = "failed"
    return made


COSTLY = case("a", "11", tokens=[800.0, 1000.0], min_pass_rate=0)
OFTEN = case("a", "110", scores=[0.9, 0.9, 0.4], min_pass_rate=0.6)
HELD_CASES = quarantine(":a*")
APPLIED: Sequence[tuple[str, Sequence[CaseReport]]] = [
    *((policy, [case("a", "10")]) for policy in ("", entry("max-drop = 0.1"), entry("threshold = 0.5"))),
    *((entry(f"threshold = {threshold}"), [with_turns()]) for threshold in (0.5, 0.65, 0.9)),
    (entry("blocking = false"), [*(case(name, name) for name in "0?x"), by_its_own_word()]),
    *((entry(f"threshold = {limit}", TOKENS), [COSTLY, without_tokens()]) for limit in (1000, 900, 899)),
    (entry('threshold = 901\ndirection = "higher"', TOKENS), [COSTLY]),
    (HELD_CASES, [case(f"a {runs}", runs) for runs in "10xp-"] + [case("b", "0")]),
    (HELD_CASES, [OFTEN]),
    (entry("threshold = 0.9") + HELD_CASES, [case("a", scores=[0.8])]),
]


def test_apply_policy__what_becomes_of_cases_and_what_is_said_of_quarantines() -> None:
    page = []
    for policy, cases in APPLIED:
        before = [as_lines(each) for each in cases]
        after = apply_policy(cases, valid_policy(policy), min_pass_rate=0.0 if cases[0] in (COSTLY, OFTEN) else 1.0)
        page += [policy or "no policy", *(f"before: {line}" for lines in before for line in lines)]
        page += [f"after: {line}" for each in after for line in as_lines(each)]
        page += [*(str(note.data) for note in quarantine_notes(after)), ""]
        assert [as_lines(each) for each in cases] == before, "the cases are not changed"
    check("golden_rescored.txt", "\n".join(page))
    [often] = apply_policy([OFTEN], valid_policy(HELD_CASES), min_pass_rate=0.6)
    engine = EngineOutcome(exit_code=0, report=report(often), console="", log="", output=Path())
    assert outcome_in(engine, often.case_id).kind == "pass"


def test_apply_policy__a_renamed_case_keeps_the_configured_threshold_if_that_is_stricter() -> None:
    policy = replace(valid_policy(entry('cases = ":new"\nthreshold = 0.1')), renamed={f"{FILE}:new": (FILE, "old")})
    [after] = apply_policy([case("new", scores=[0.3], threshold=0.5)], policy, min_pass_rate=1.0)
    assert (after.metrics[0].threshold, after.status) == (0.5, "failed")


# Which entry of a policy holds for which metric of which case, and what doesn't fit the cases.

TODAY = date(2026, 11, 21)
MATCH, SAFETY = SCORE, "safety_v1"


PATTERNS = [
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
]


def test_policy__a_pattern_of_cases() -> None:
    for pattern, file, eval_id, meant in PATTERNS:
        assert case_matcher(pattern)(file, eval_id) is meant, (pattern, file, eval_id)


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


OF_SAFETY = f'[[policy]]\nmetric = "{SAFETY}"\n'
OF_CASES = '[[policy]]\ncases = "evals/"\n'
POLICIES = [
    # The last entry that says something counts, key by key.
    ORDER,
    ORDER.replace("evals", "other"),
    # A glob of metrics does not match `pass`.
    '[[policy]]\nmetric = "*"\nmax-drop = 0.3\nblocking = false\n',
    '[[policy]]\nmetric = "pass"\nblocking = false\n',
    # A case that does not block still fails by its metrics.
    f"{OF_CASES}blocking = false\n",
    # A rate for everything belongs to no metric.
    "[[policy]]\nalpha = 0.2\n",
    *(f"{of}alpha = 0.2\n" for of in (OF_SAFETY, OF_CASES)),
    # A metric is tested when an entry asks for it.
    *(f"{OF_SAFETY}{says}\n" for says in ("threshold = 0.2", "blocking = true", "blocking = false")),
    # Whether a case may say something else is asked of cases.
    f'[[policy]]\nchanged-facts = "block"\n{OF_CASES}alpha = 0.1\n',
    f'[[policy]]\nchanged-facts = "block"\n{OF_CASES}changed-facts = "inform"\n',
    "[[policy]]\nblocking = true\n",
    f"[[policy]]\nblocking = false\n{OF_CASES}blocking = true\n",
]


def test_policy__what_holds_for_a_case_and_its_metrics() -> None:
    page = []
    for policy in POLICIES:
        reader = PolicyReader(valid_policy(policy))
        entries = reader.of_case("evals/a.test.json", "lamp_on")
        page += [policy, f"-> the case: {'blocks' if reader.blocks(entries) else 'informs'}"]
        page += ["-> may not say something else"] * reader.holds_facts(entries)
        page += [f"-> {metric}: {facts_of(reader.metric(metric, entries))}" for metric in (MATCH, SAFETY, "pass")]
    check("golden_policies.txt", "\n".join(page) + "\n")


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


def found(
    policy: str, cases: Sequence[KnownCase] = CASES, everything: Sequence[KnownCase] | None = None
) -> list[Problem]:
    more = None if everything is None else lambda: everything
    return check_policy(valid_policy(policy), cases, today=TODAY, everything=more)


TWO_HELD = quarantine(":home_1") + quarantine(":home_2")
CHECKED = [
    f"{ORDER.replace('drafts', 'evals').replace('never', 'evals')}{quarantine(':home_1')}",
    f'[[policy]]\nmetric = "{TOKENS}"\nthreshold = 2000\ndirection = "lower"\n',
    '[[policy]]\nmetric = "pass"\nmax-drop = 0.1\n',
    *(entry(f"threshold = {threshold}") for threshold in (0, 1, 80)),
    # Two of twenty are ten percent. An entry that means a case that another means too takes no more of the share.
    TWO_HELD,
    TWO_HELD + quarantine("evals/home.test.json:home_2"),
    quarantine(":home_[1-3]"),
    f"max-quarantined = 0\n{quarantine(':home_1')}",
    *(quarantine(":home_1", day) for day in ("2026-11-20", "2026-11-21", "2026-12-05", "2026-12-06")),
    *(quarantine(":home_1", (TODAY + timedelta(days=days)).isoformat()) for days in (MOST_DAYS, MOST_DAYS + 1)),
    '[[policy]]\ncases = "evals/hom.test.json"\nalpha = 0.1\n',
    '\n[[policy]]\ncases = ["evals/**", "x/**"]\nalpha = 0.1\n',
    quarantine("evals/home.test.json:home_11"),
    quarantine("home_1"),
    *(entry("alpha = 0.1", metric) for metric in ("saftey_v1", "hallu*")),
    entry("threshold = -1", TOKENS),
    entry('direction = "lower"'),
]


ENDED = quarantine(":gone") + quarantine(":home_1", "2026-11-20")
# The base branch's policy, whose last day is a day of it, and that of the checkout, which is checked completely.
MERGED = [(ENDED + quarantine(":home_2", TODAY.isoformat()), quarantine(":home_2")), ("", ENDED)]


def as_said(findings: Sequence[Problem]) -> list[str]:
    said = [f"-> {each.file}, line {each.line}, {each.code}: {each.severity}: {each.message}" for each in findings]
    return [*(said or ["-> fits"]), *(f"   {each.hint}" for each in findings), ""]


def test_policy__what_does_not_fit_the_cases() -> None:
    page = []
    for policy in CHECKED:
        page += [policy, *as_said(found(policy))]
    for base, own in MERGED:
        applied = valid_policy(base).instead_of(valid_policy(own), TODAY)
        page += ["of the base:", base, "of the checkout:", own, *(entry.case for entry in applied.quarantine)]
        page += as_said(check_policy(applied, CASES, today=TODAY))
    check("golden_policy_problems.txt", "\n".join(page))


def test_policy__a_run_of_some_cases_is_held_against_all_of_the_repository() -> None:
    policy = quarantine(":home_1") + '[[policy]]\ncases = "evals/shop.test.json"\nalpha = 0.1'
    some = CASES[:2]
    assert {each.code for each in found(policy, some)} == {NOTHING, "quarantine-too-many"}
    assert found(policy, some, CASES) == []
    assert {each.code for each in found(quarantine("x"), some, CASES)} == {NOTHING}


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


def test_policy__the_threshold_of_a_renamed_case() -> None:
    old, lower = MetricPolicy(threshold=0.9), MetricPolicy(threshold=0.9, direction="lower")
    for threshold, stricter, least in ((None, 0.9, 0.9), (0.5, 0.9, 0.5), (0.95, 0.95, 0.9)):
        new = MetricPolicy(threshold=threshold)
        assert old.stricter(new).threshold == new.stricter(old).threshold == stricter
        assert lower.stricter(new).threshold == least


def test_policy__a_renamed_case_is_quarantined_only_by_both_names() -> None:
    names = {f"x.test.json:{new}": ("x.test.json", old) for new, old in ("ab", "bc", "da")}
    reader = PolicyReader(replace(valid_policy(quarantine(":[ab]")), renamed=names))
    assert [name for name in "abd" if reader.quarantine("x.test.json", name) is not None] == ["a"]


# Why a run without secrets came to no verdict.


def broken_by(kind: str, runs: str = "p", *, no_key: bool = False) -> CaseReport:
    broken = case("x", runs)
    broken.runs[0].error = RunError(kind=kind, owner="provider", message="No.", no_key=no_key)
    return broken


KEYLESS, PASSED = broken_by("provider-unavailable", no_key=True), case("x", "1")


def test_unjudged_runs__all_without_a_result_but_those_that_are_left_out_for_want_of_a_key() -> None:
    left_out = broken_by("without-key", "-")
    assert [unjudged_runs([each]) for each in (PASSED, left_out, KEYLESS, case("x", "-1-"))] == [0, 0, 1, 2]
    assert unjudged_runs([PASSED, left_out, KEYLESS, case("x", "-1-")]) == 3


@pytest.mark.parametrize("is_fork", [True, False])
def test_no_secrets__is_the_cause_of_everything_or_of_nothing(is_fork: bool) -> None:
    for cases in (
        [KEYLESS],
        [PASSED, KEYLESS, broken_by("without-key", "-")],
        [broken_by("simulator-no-credentials")],
        [unscored("judge-no-credentials")],
    ):
        cause = no_secrets(cases, is_fork=is_fork)
        assert cause is not None and cause.data == {"is_fork": is_fork}
    others = [[KEYLESS, case("x", "p")], [KEYLESS, case("x", "-")], [unscored("judge-unavailable")]]
    nobody_knows = PASSED.model_copy(update={"status": "errored"})
    both = KEYLESS.model_copy(update={"runs": [*KEYLESS.runs, *broken_by("provider-unavailable").runs]})
    others.append([both])
    for cases in ([], [PASSED], *others, [unscored("turn-count")], [nobody_knows]):
        assert no_secrets(cases, is_fork=is_fork) is None


def test_unfinished__a_missing_part_or_comparison_is_never_green_and_hides_no_failure() -> None:
    green, red = decide([PASSED]), decide([case("x", "0")])
    for missing in (Reason.of("shard-missing", missing=[1], total=2), Reason.of("not-compared", records=False)):
        after_green, after_red = (unfinished(verdict, missing) for verdict in (green, red))
        assert (after_green.value, after_green.reasons) == ("inconclusive", (missing,))
        assert (after_red.value, after_red.reasons) == ("failed", (*red.reasons, missing))
