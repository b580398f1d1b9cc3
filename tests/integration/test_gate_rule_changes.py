"""A pull request does not loosen its own gate silently: real git, real agents, a stand-in for GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from gate_runs import told
from golden_files import check
from pull_requests import BOT, Lab

from agent_eval.forge import ACCEPT_RULES

CASES = ("lamp_on", "lamp_off", "door")
BROKEN = {"lamp_on": 0.0, "lamp_off": 0.0}
CONFIG, EVALS = "evals/test_config.json", "evals/bot.evalset.json"


def config(**criteria: Any) -> str:
    return json.dumps({"criteria": criteria})


LOOSE = {CONFIG: config(response_match_score=0.0)}
Tell = Callable[..., None]


@pytest.fixture
def tell(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Tell]:
    """Pushes to a pull request; what became of all of them is in the golden file of the test."""
    story = []

    def pushed(number: int, title: str, files: Mapping[str, str], *arguments: str, label: str = "") -> None:
        rates = BROKEN if (CONFIG in files and EVALS not in files) or "bot/checks.py" in files else {}
        done = lab.pull_request(number, rates, *arguments, files=files, label=label)
        comment = lab.comment(number).splitlines()
        said = [line for line in comment if line.startswith(("## ", "⚠️", "**Next")) or "accept" in line]
        changes = done.report.rule_changes
        assert changes is not None
        facts = changes.model_dump_json(exclude_defaults=True, exclude={"accepted"})
        story.append(told(f"#{number}, {title}", done, *said, facts))

    yield pushed
    check(f"golden_gate/rule_changes/{request.function.__name__.removeprefix('test_')}.txt", "".join(story))


@pytest.mark.slow
def test_a_lower_threshold__hides_nothing_until_someone_accepts_it_for_this_commit(lab: Lab, tell: Tell) -> None:
    lab.base_run(code=0)
    tell(7, "a lower threshold", LOOSE)
    tell(7, "accepted", LOOSE, label=ACCEPT_RULES)
    tell(7, "another commit", {**LOOSE, "README.md": "more"})


METRIC = """
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def content(metric, actual, expected, scenario=None):
    good = {"score": 1.0, "eval_status": EvalStatus.PASSED}
    turns = [PerInvocationResult(actual_invocation=turn, **good) for turn in actual]
    return EvaluationResult(overall_score=1.0, overall_eval_status=EvalStatus.PASSED, per_invocation_results=turns)
"""


@pytest.mark.slow
def test_the_code_of_a_custom_metric__can_not_be_rewritten_silently(lab: Lab, tell: Tell) -> None:
    custom = {"custom_metrics": {"content": {"code_config": {"name": "bot.checks.content"}}}}
    lab.commit({}, **{CONFIG: json.dumps({"criteria": {"content": 1.0}, **custom}), "bot/checks.py": METRIC})
    tell(7, "another metric", {"bot/checks.py": METRIC.replace("good =", "everything_is_good = good =")})


def only(lab: Lab, *cases: str) -> str:
    """The eval file with these cases alone."""
    whole = (lab.repository.root / EVALS).read_text("utf-8")
    lab.repository.evals(EVALS, {case: f"Say {case}." for case in cases})
    result = (lab.repository.root / EVALS).read_text("utf-8")
    (lab.repository.root / EVALS).write_text(whole, "utf-8")
    return result


@pytest.mark.slow
def test_removed_cases__stand_in_the_headline_and_can_block(lab: Lab, tell: Tell) -> None:
    block = ("--rule-changes", "block-removals")
    smaller = {EVALS: only(lab, "lamp_on")}
    tell(7, "two cases removed", smaller)
    tell(8, "two cases removed, which blocks", smaller, *block)
    tell(8, "accepted", smaller, *block, label=ACCEPT_RULES)
    # Beside rules that are loosened, most cases gone have to be accepted in any case.
    tell(9, "two cases removed, a lower threshold", smaller | LOOSE)
    tell(9, "accepted", smaller | LOOSE, *block, label=ACCEPT_RULES)
    others = {EVALS: only(lab, "hall", "roof"), **LOOSE}
    tell(10, "no case is left", others)
    tell(10, "accepted", others, label=ACCEPT_RULES)
    tell(11, "no case is left, which is only reported", others, "--rule-changes", "report")


def test_renamed_and_replaced_cases__stay_held_to_the_base_branchs_rules(lab: Lab, tell: Tell) -> None:
    evals = renamed = (lab.repository.root / EVALS).read_text("utf-8")
    for case in CASES:
        renamed = renamed.replace(f'"{case}"', f'"the_{case}"').replace(f'"Say {case}."', f'"Say  {case}. "')
    broken = {"bot/agent.py": BOT.replace("text = said", 'text = "No" if "lamp" in said else said')}
    tell(7, "all renamed, with blanks in their prompts", {EVALS: renamed, **LOOSE, **broken})
    others = {EVALS: evals.replace('"Say ', '"Tell ')}
    tell(8, "other contents under the same ids", others)
    tell(8, "accepted", others, label=ACCEPT_RULES)
    tell(9, "another content of one case", {EVALS: evals.replace("Say door.", "Tell door.")})
