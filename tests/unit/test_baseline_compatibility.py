"""When nothing at all can be compared, in words; as long as one case can be, the comparison says the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from baseline_samples import case, measured, results
from history_samples import compare, said

from agent_eval.baseline.compatibility import checked, incomparable
from agent_eval.baseline.lookup import Baseline, Found, Incompatible, NoneYet, Provenance, step_of
from agent_eval.gate.pairing import pair_up
from agent_eval.pipeline._regression import pair_with_base
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, FileReport, RunReport

HEAD = results()


def why_not(head: RunReport, base: RunReport) -> Incompatible | None:
    return incomparable(head, base, pair_up(head.cases, base.cases))


def found(report: RunReport, *before: Baseline) -> Found:
    answer = Found(report=report, provenance=Provenance(commit="a" * 40), message="Found.")
    return replace(answer, steps=(*(step_of("artifact", other) for other in before), step_of("file", answer)))


def with_head(baseline: Found, head: RunReport) -> Baseline:
    base = pair_with_base(head, baseline, 20)
    return baseline if base is None else checked(baseline, head, base.report, base.pairing)


@pytest.mark.parametrize(
    "base",
    [
        results(),
        results(case("one"), case("two", fingerprint="other")),
        results(case("one"), case("three")),
        results(case("one", fingerprint=""), case("three")),
        results(case("one", "failed")),
        results(case("one", "passed", measured(1.0, fingerprint="")), case("two", "passed", measured(1.0, judge="a"))),
        results(case("one", "passed", measured(1.0), measured(1.0, name="safety_v1", judge="other"))),
        results(case("one", "errored")),
        results(*(item.model_copy(update={"case_id": f"moved.test.json:{item.eval_id}"}) for item in HEAD.cases)),
    ],
)
def test_compatibility__one_case_that_can_be_compared_is_enough(base: RunReport) -> None:
    assert why_not(HEAD, base) is None


def test_compatibility__cases_without_gating_criteria_on_either_side() -> None:
    bare = case("one")
    bare.metrics = []

    assert why_not(results(bare), results(bare)) is None


GEMINI, OTHER = measured(1.0, judge="gemini-2.5-flash"), measured(1.0, judge="gpt-5", fingerprint="g")


@pytest.mark.parametrize(
    ("head", "base", "message"),
    [
        (
            HEAD,
            results(scoring_version=7),
            "The base branch's scores are not comparable: scoring version 7, expected 1.",
        ),
        (
            HEAD,
            results(case("other")),
            "This run (2 cases) and the base branch (1 case) have no case in common.",
        ),
        (
            HEAD,
            results(case("one", fingerprint="x"), case("two", fingerprint="y")),
            "No case has the same content on both sides: messages or expectations differ (2 cases).",
        ),
        (
            results(case("one", "passed", GEMINI)),
            results(case("one", "passed", OTHER)),
            "The judge model has changed (gpt-5 on the base branch, gemini-2.5-flash now), so no score "
            "can be compared.",
        ),
        (
            results(case("one", "passed", GEMINI)),
            results(case("one", "passed", measured(1.0))),
            "The judge model has changed (no model on the base branch, gemini-2.5-flash now), so no score "
            "can be compared.",
        ),
        (
            HEAD,
            results(case("one", "passed", measured(1.0, fingerprint="stricter"))),
            "The criteria have changed (response_match_score), so no score can be compared.",
        ),
        (
            HEAD,
            results(case("one", "passed", measured(1.0, name="safety_v1"))),
            "No criterion of this run was measured on the base branch.",
        ),
    ],
)
def test_compatibility__why_nothing_can_be_compared(head: RunReport, base: RunReport, message: str) -> None:
    assert why_not(head, base) == Incompatible(message=message)


def test_compatibility__what_was_found_becomes_incompatible_once_the_head_is_known_or_stays() -> None:
    before = NoneYet(message="No artifact.")
    compatible = with_head(found(results(case("other")), before), HEAD)
    assert isinstance(compatible, Incompatible)
    assert compatible.steps == (step_of("artifact", before), step_of("file", compatible))
    baseline = found(results())
    assert with_head(baseline, HEAD) is baseline


def test_compatibility__what_an_earlier_source_said_is_the_reason_if_it_is_of_the_same_weight() -> None:
    before = Incompatible(message="Another version.", hint="Wait.")
    compatible = with_head(found(results(case("other")), before), HEAD)
    assert (compatible.status, compatible.message) == ("incompatible", "Another version. Wait.")
    assert [step.status for step in compatible.steps] == ["incompatible", "incompatible"]


def dead(eval_id: str) -> CaseReport:
    """A case that the agent never answered."""
    made = case(eval_id, "failed")
    made.metrics = []
    made.runs[0].error = RunError(kind="agent-import", owner="agent", message="KeyError: 'TOKEN'")
    return made


def test_incomparable__a_head_that_measured_nothing_is_no_fault_of_the_base() -> None:
    assert why_not(results(dead("one"), dead("two")), results()) is None


def test_with_head__an_agent_that_answered_in_no_case_has_no_baseline_and_the_others_have() -> None:
    def two(*cases: CaseReport) -> RunReport:
        files = [FileReport(file=f"{name}.json", eval_set_id=name, agent=name) for name in ("bot", "shop")]
        named = [item.model_copy(update={"file": f"{item.eval_id[:-1]}.json"}) for item in cases]
        return results(*named, files=files)

    base = two(dead("bot1"), dead("bot2"), case("shop1"), dead("shop2"))
    baseline = found(base)
    paired = pair_with_base(two(*base.cases), baseline, 20)

    assert with_head(baseline, two(*base.cases)) is baseline
    assert paired is not None
    assert {item.eval_id: item.status for item in paired.report.cases} == {
        "bot1": "errored",
        "bot2": "errored",
        "shop1": "passed",
        "shop2": "failed",
    }
    assert base.cases[0].status == "failed"
    by_id = {item.eval_id: (item.change, said(item.note)) for item in compare(two(*base.cases), paired.report).cases}
    assert by_id["bot1"] == ("unjudged", "could not be evaluated on the base")
    assert by_id["shop2"][0] == "still_failing"
