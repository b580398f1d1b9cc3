"""docs/policy.md has valid examples and every key."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from policy_texts import policy_of

from agent_eval.gate.history._drift import ALPHA, CASE_ALPHA
from agent_eval.gate.policy import DEFAULT_ALPHA, DEFAULT_MAX_QUARANTINED, NOTICE_DAYS, case_matcher
from agent_eval.settings import _policy_file as policy_file
from agent_eval_workbench.commands.flaky import FlakyReport, Proposal, render_toml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples__are_valid(example: str) -> None:
    policy, problems = policy_of(example)
    assert problems == []
    assert policy.entries or policy.quarantine


def first_column(heading: str) -> list[str]:
    section = PAGE.split(f"{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    return [re.findall(r"`([^`]+)`", line.split("|")[1])[0] for line in table[0].splitlines()[2:]]


def test_tables__have_every_key() -> None:
    assert first_column("## Exceptions: `[[policy]]`") == list(policy_file._POLICY_FIELDS)
    quarantine = EXAMPLES[1].split("[[quarantine]]")[1]
    assert re.findall(r"^(\w+) =", quarantine, re.MULTILINE) == list(policy_file._QUARANTINE_FIELDS)


@pytest.mark.parametrize(
    ("pattern", "cases"),
    [
        ("evals/home.test.json", [("evals/home.test.json", "x")]),
        ("evals/drafts/", [("evals/drafts/a.test.json", "x")]),
        ("*.evalset.json", [("deep/down/a.evalset.json", "x")]),
        ("evals/home.test.json:lamp_on", [("evals/home.test.json", "lamp_on")]),
        ("evals/**:smoke_*", [("evals/a/b.test.json", "smoke_1")]),
        (":smoke_*", [("anywhere.test.json", "smoke_1")]),
    ],
)
def test_patterns__match_the_documented_cases(pattern: str, cases: list[tuple[str, str]]) -> None:
    assert pattern in first_column("### Patterns of cases")
    assert all(case_matcher(pattern)(file, eval_id) for file, eval_id in cases)
    assert not case_matcher(pattern)("other.test.json", "other")


def test_numbers__are_those_of_the_code() -> None:
    assert f"{DEFAULT_ALPHA} for everything together" in PAGE
    assert f"max-quarantined = {DEFAULT_MAX_QUARANTINED}" in PAGE
    assert f"{NOTICE_DAYS} days before a quarantine ends" in PAGE
    assert (ALPHA, CASE_ALPHA) == (0.01, 0.01), "about 1 of 12 repositories in 20 merges; one case in a hundred"


def test_flaky__example_is_its_output() -> None:
    proposal = Proposal(
        case_id="evals/home.test.json:garage",
        failures=4,
        runs=10,
        rate=0.4,
        low=0.1682,
        high=0.6873,
        since="5f0c1d2e3a4b5c6d",
        metrics={"response_match_score": 4},
    )
    report = FlakyReport(records=10, cases=30, proposals=[proposal], failing=[], skipped=[])
    assert render_toml(report, today=date(2026, 11, 21), owner="@alice") in PAGE
