"""What a report says about changed rules."""

from __future__ import annotations

import pytest
from comparison_samples import SITUATIONS

from agent_eval.report.phrases.rule_changes import rule_sentences
from agent_eval.results import Origin, RuleChange, RunReport

WAY_OUT = "To use the rules of this checkout, set `rule-changes` to `report`."


def loosened(**changes: object) -> RunReport:
    """A run for which the stricter rules of the base branch decided, and no case fails by them."""
    report = SITUATIONS["loosened"]().report
    assert report.rule_changes is not None
    change = report.rule_changes.changes[0].model_copy(update={"fails": 0})
    update = {"decides": "base", "accepted": "", "only_here": [], "changes": [change], **changes}
    report.rule_changes = report.rule_changes.model_copy(update=update)
    report.origin = None
    return report


def says_how_to_accept(report: RunReport) -> bool:
    return any(WAY_OUT in sentence for sentence in rule_sentences(report))


def test_rule_sentences__a_passed_run_has_nothing_to_accept() -> None:
    assert rule_sentences(loosened()) == ["For cases that main has, the stricter rule decides."]
    assert not says_how_to_accept(loosened(only_here=["evals/a.test.json:one"]))


@pytest.mark.parametrize("verdict", ["failed", "inconclusive"])
def test_rule_sentences__say_how_to_accept_where_that_changes_the_result(verdict: str) -> None:
    unmeasured = RuleChange(kind="code", metric="m", config=None, cases=1, base="its code", head="other code")
    for changes, shown in (
        ({}, False),
        ({"only_here": ["evals/a.test.json:one"]}, True),
        ({"changes": [unmeasured]}, True),
        ({"renamed": {"evals/a.test.json:new": "evals/a.test.json:old"}}, True),
        ({"replaced": 6}, True),
        ({"removal": "blocked"}, True),
        ({"decides": "head", "accepted": "octocat set the label", "only_here": ["evals/a.test.json:one"]}, False),
    ):
        report = loosened(**changes)
        report.verdict = verdict  # type: ignore[assignment]
        assert says_how_to_accept(report) == shown, changes


def test_rule_sentences__an_advisory_run_passes_and_says_how_to_accept() -> None:
    report = loosened(only_here=["evals/a.test.json:one"])
    report.gate = "advisory"
    assert says_how_to_accept(report)


def test_rule_sentences__long_ids_are_shortened() -> None:
    report = loosened(renamed={f"evals/{'x' * 5_000}:{n}": f"evals/{'y' * 5_000}:{n}" for n in range(9)})
    [sentence] = rule_sentences(report)
    assert len(sentence) < 1_800
    assert "and 6 more cases" in sentence


@pytest.mark.parametrize(
    ("renamed", "what"), [({"a.json:new": "a.json:old"}, "the rules of this pull request"), ({}, "that")]
)
def test_rule_sentences__a_pull_request_can_set_a_label(renamed: dict[str, str], what: str) -> None:
    report = loosened(changes=[], renamed=renamed, removal="blocked")
    report.verdict, report.origin = "failed", Origin(pull_request=7)
    assert f"To accept {what}, set the label" in rule_sentences(report)[-1]
