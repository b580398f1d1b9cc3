"""What a pull request changes about the criteria, and which ones hold: criteria in, criteria out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from evalset_samples import loaded

from agent_eval.gate.policy import AS_HERE
from agent_eval.gate.policy_checks import known_cases
from agent_eval.gate.rule_changes import Side, rule_changes
from agent_eval_scoring.core.content import user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase, Suite

CASE = EvalCase(eval_id="a", conversation=[Invocation(user_content=user_message("Hello"))])


def rated(name: str, threshold: float | None = None, prompt: str = "Rate {response}", **more: Any) -> CriterionConfig:
    """A metric of agents-cli's with a prompt: all of them are the same criterion, with other options."""
    options = {"prompt_template": prompt}
    return CriterionConfig(metric="judge_prompt", label=name, threshold=threshold, options=options, **more)


LONG = "Rate how friendly and how patient the tone of this answer is"
KIND, TONE, TACT = rated("kind"), rated("tone", prompt=f"{LONG}: {{response}}"), rated("tact", prompt="{prompt}")
AT_MOST = rated("errors", 2, direction="lower")


@pytest.mark.parametrize(
    ("base", "head", "changes", "hold"),
    [
        pytest.param([KIND, TONE, TACT], [KIND, TONE, TACT], [], ["kind", "tone", "tact"], id="nothing"),
        pytest.param(
            [KIND, TONE, TACT], [KIND, TACT], ["removed tone"], ["kind", "tact", "tone"], id="one of several is removed"
        ),
        pytest.param(
            [KIND, TONE],
            [KIND, rated("tone", prompt=f"{LONG}, too: {{response}}")],
            ["options tone"],
            ["kind", "tone", f"tone{AS_HERE}"],
            id="one of several has another prompt",
        ),
        pytest.param([KIND], [KIND, TONE], [], ["kind", "tone"], id="another one of the same criterion"),
        pytest.param(
            [rated("kind", 4), rated("tone", 3)],
            [rated("kind", 4), rated("tone", 2)],
            ["threshold tone"],
            ["kind", "tone"],
            id="a lower threshold of one",
        ),
        pytest.param(
            [AT_MOST],
            [rated("errors", 4, direction="lower")],
            ["threshold errors"],
            ["errors", f"errors{AS_HERE}"],
            id="a higher threshold where less is better",
        ),
    ],
)
def test_rule_changes__criteria_of_one_metric_are_told_apart_by_their_names(
    base: Sequence[CriterionConfig], head: Sequence[CriterionConfig], changes: list[str], hold: list[str]
) -> None:
    here, there = (Side(files=[loaded("a.test.json", CASE, criteria=side)]) for side in (head, base))

    found = rule_changes(here, there, default_judge="gemini-2.5-flash")

    assert [f"{change.kind} {change.metric}" for change in found.changes] == changes
    assert [rule.name for file in found.files for rule in file.config.criteria] == hold
    assert all(change.base != change.head for change in found.changes)


def test_known_cases__a_policy_names_metrics_as_reports_do() -> None:
    [case] = known_cases(Suite(files=(loaded("a.test.json", CASE, criteria=[KIND, TONE]),), problems=()))

    assert case.metrics == {"kind", "tone"}
