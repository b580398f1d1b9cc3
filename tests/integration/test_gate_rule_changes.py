"""A pull request does not loosen its own gate silently: real git, real agents, a stand-in for GitHub."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gate_runs import Done
from pull_requests import BOT, Lab

from agent_eval.forge import ACCEPT_RULES
from agent_eval.results.comparison import RuleChangesReport

CASES = ("lamp_on", "lamp_off", "door")
BROKEN = {"lamp_on": 0.0, "lamp_off": 0.0}
CONFIG, EVALS = "evals/test_config.json", "evals/bot.evalset.json"


def config(**criteria: Any) -> str:
    return json.dumps({"criteria": criteria})


def rules_of(done: Done) -> RuleChangesReport:
    result = done.report.rule_changes
    assert result is not None, done.out + done.err
    return result


@pytest.mark.slow
def test_a_lower_threshold__hides_nothing_until_someone_accepts_it_for_this_commit(lab: Lab) -> None:
    lab.base_run(code=0)
    loose = {CONFIG: config(response_match_score=0.0)}

    done = lab.pull_request(7, BROKEN, files=loose, code=1)

    result = rules_of(done)
    [change] = result.changes
    assert (change.kind, change.metric) == ("threshold", "response_match_score")
    assert (change.cases, change.fails, result.decides, result.base_ref) == (3, 2, "base", "main")
    comment = lab.comment()
    assert "**2 cases fail**" in comment and ACCEPT_RULES in comment
    assert "2 by rules of main that this pull request loosens" in comment.splitlines()[1]

    accepted = lab.pull_request(7, BROKEN, files=loose, label=ACCEPT_RULES, code=0)

    assert rules_of(accepted).accepted == f"maintainer set the label `{ACCEPT_RULES}`"
    first = lab.comment().splitlines()[1]
    assert "Does not block, since its looser rules are accepted: 2 of 3 cases pass only by them" in first

    lab.pull_request(7, BROKEN, files={**loose, "README.md": "more"}, code=1)

    assert "before this commit was pushed" in lab.comment()


METRIC = """
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def content(metric, actual, expected, scenario=None):
    good = {"score": 1.0, "eval_status": EvalStatus.PASSED}
    turns = [PerInvocationResult(actual_invocation=turn, **good) for turn in actual]
    return EvaluationResult(overall_score=1.0, overall_eval_status=EvalStatus.PASSED, per_invocation_results=turns)
"""


@pytest.mark.slow
def test_the_code_of_a_custom_metric__can_not_be_rewritten_silently(lab: Lab) -> None:
    custom = {"custom_metrics": {"content": {"code_config": {"name": "bot.checks.content"}}}}
    config = json.dumps({"criteria": {"content": 1.0}, **custom})
    lab.commit({}, **{CONFIG: config, "bot/checks.py": METRIC})

    done = lab.pull_request(7, BROKEN, files={"bot/checks.py": METRIC.replace("good =", "everything_is_good = good =")})

    assert done.code == 1, done.out + done.err
    assert set(done.statuses.values()) == {"passed"}
    assert [reason.code for reason in done.report.reasons] == ["rule-changed"]
    comment = lab.comment()
    assert "code of the custom metric content" in comment and "Passed" not in comment.splitlines()[1]


def only(lab: Lab, *cases: str) -> str:
    """The eval file with these cases alone."""
    whole = (lab.repository.root / EVALS).read_text("utf-8")
    lab.repository.evals(EVALS, {case: f"Say {case}." for case in cases})
    result = (lab.repository.root / EVALS).read_text("utf-8")
    (lab.repository.root / EVALS).write_text(whole, "utf-8")
    return result


@pytest.mark.slow
def test_removed_cases__stand_in_the_headline_and_can_block(lab: Lab) -> None:
    smaller = {EVALS: only(lab, "lamp_on")}

    done = lab.pull_request(7, {}, files=smaller, code=0)

    assert "2 of main's 3 cases are gone" in lab.comment().splitlines()[1]
    assert [(item.base, item.removed) for item in rules_of(done).removed] == [(3, 2)]

    block = ("--rule-changes", "block-removals")
    blocked = lab.pull_request(8, {}, *block, files=smaller, code=1)

    assert [reason.code for reason in blocked.report.reasons] == ["cases-removed"]
    comment = lab.comment(8)
    assert comment.splitlines()[1] == "## ❌ Blocks the merge: 2 of main's 3 cases are gone"

    lab.pull_request(8, {}, *block, files=smaller, label=ACCEPT_RULES, code=0)

    assert "The removal of cases of main is accepted: maintainer set the label" in lab.comment(8)

    # Beside rules that are loosened, most cases gone have to be accepted in any case.
    both = {**smaller, CONFIG: config(response_match_score=0.0)}
    loosened = lab.pull_request(9, {}, files=both, code=1)

    assert [reason.code for reason in loosened.report.reasons] == ["cases-removed"]
    assert "Most cases of main are gone and rules are changed" in lab.comment(9)
    lab.pull_request(9, {}, *block, files=both, label=ACCEPT_RULES, code=0)


def test_all_cases_renamed_with_blanks_in_their_prompts__stay_held_to_the_base_branchs_rules(lab: Lab) -> None:
    evals = (lab.repository.root / EVALS).read_text("utf-8")
    for case in CASES:
        evals = evals.replace(f'"{case}"', f'"the_{case}"').replace(f'"Say {case}."', f'"Say  {case}. "')
    broken = {
        EVALS: evals,
        CONFIG: config(response_match_score=0.0),
        "bot/agent.py": BOT.replace("text = said", 'text = "No" if "lamp" in said else said'),
    }

    done = lab.pull_request(7, {}, files=broken, code=1)

    assert [(change.kind, change.cases, change.fails) for change in rules_of(done).changes] == [("threshold", 3, 2)]
    assert rules_of(done).removed == []
    assert "2 by rules of main that this pull request loosens" in lab.comment().splitlines()[1]


@pytest.mark.slow
def test_a_pull_request_that_leaves_no_case_of_the_base_branch__has_to_be_accepted(lab: Lab) -> None:
    files = {EVALS: only(lab, "hall", "roof"), CONFIG: config(response_match_score=0.0)}

    done = lab.pull_request(7, {}, files=files, code=1)

    assert [reason.code for reason in done.report.reasons] == ["cases-removed"]
    comment = lab.comment()
    assert comment.splitlines()[1] == "## ❌ Blocks the merge: all of main's 3 cases are gone"
    assert "No case of main is left to hold this pull request to" in comment and ACCEPT_RULES in comment

    lab.pull_request(7, {}, files=files, label=ACCEPT_RULES, code=0)

    assert "is accepted: maintainer set the label" in lab.comment()

    lab.pull_request(8, {}, "--rule-changes", "report", files=files, code=0)

    assert "is accepted: `rule-changes` is `report` (--rule-changes)" in lab.comment(8).replace("&#45;", "-")


def test_replaced_contents_under_the_same_ids__have_to_be_accepted(lab: Lab) -> None:
    evals = (lab.repository.root / EVALS).read_text("utf-8")
    others = evals.replace('"Say ', '"Tell ')

    done = lab.pull_request(7, {}, files={EVALS: others}, code=1)

    [reason] = done.report.reasons
    assert reason.code == "cases-replaced" and EVALS in reason.message
    assert "Most cases of main have another content here" in lab.comment() and ACCEPT_RULES in lab.comment()

    lab.pull_request(7, {}, files={EVALS: others}, label=ACCEPT_RULES, code=0)

    assert lab.comment().splitlines()[1].startswith("## ⚠️")

    lab.pull_request(8, {}, files={EVALS: evals.replace("Say door.", "Tell door.")}, code=0)

    assert lab.comment(8).splitlines()[1].startswith("## ✅")
