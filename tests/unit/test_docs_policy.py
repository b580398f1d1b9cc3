"""docs/policy.md has valid examples and every key."""

from __future__ import annotations

import re
from datetime import date

import pytest
from docs_pages import blocks, codes, page, rows, section
from policy_texts import policy_of

from agent_eval.gate.history._drift import ALPHA, CASE_ALPHA
from agent_eval.gate.policy import DEFAULT_ALPHA, DEFAULT_MAX_QUARANTINED, NOTICE_DAYS, case_matcher
from agent_eval.settings import _policy_file as policy_file
from agent_eval_workbench.commands.flaky import FlakyReport, Proposal, render_toml

PAGE = page("policy.md")
EXAMPLES = blocks(PAGE, "toml")


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples__are_valid(example: str) -> None:
    policy, problems = policy_of(example)
    assert problems == []
    assert policy.entries or policy.quarantine


def first_column(heading: str) -> list[str]:
    return [codes(row[0])[0] for row in rows(section(PAGE, heading))]


def test_tables__have_every_key() -> None:
    assert first_column("## Exceptions: `[[policy]]`") == list(policy_file._POLICY_FIELDS)
    quarantine = EXAMPLES[1].split("[[quarantine]]")[1]
    assert re.findall(r"^(\w+) =", quarantine, re.MULTILINE) == list(policy_file._QUARANTINE_FIELDS)


@pytest.mark.parametrize(
    ("pattern", "file", "eval_id"),
    [
        ("evals/home.test.json", "evals/home.test.json", "x"),
        ("evals/drafts/", "evals/drafts/a.test.json", "x"),
        ("*.evalset.json", "deep/down/a.evalset.json", "x"),
        ("evals/home.test.json:lamp_on", "evals/home.test.json", "lamp_on"),
        ("evals/**:smoke_*", "evals/a/b.test.json", "smoke_1"),
        (":smoke_*", "anywhere.test.json", "smoke_1"),
    ],
)
def test_patterns__match_the_documented_cases(pattern: str, file: str, eval_id: str) -> None:
    assert pattern in first_column("### Patterns of cases")
    assert case_matcher(pattern)(file, eval_id)
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
