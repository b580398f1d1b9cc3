"""docs/comparison.md has every gate, every code of a reason and every event, and says of them what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from docs_pages import codes, page, section

from agent_eval.forge import RunStamp
from agent_eval.gate import evaluation
from agent_eval.gate.policy import Gate
from agent_eval.gate.regression import _decide
from agent_eval.github import _activity as activities
from agent_eval.github._activity import activity
from agent_eval.github.comments import marked
from agent_eval.github.events import GitHubEvent

PAGE = page("comparison.md")
DONE = "## What is done on which event"
NAMES = "pull_request pull_request_target merge_group schedule workflow_dispatch workflow_run"
PULL = {
    "number": 7,
    "state": "open",
    "user": {"login": "mona"},
    "head": {"sha": "a" * 40, "ref": "feature", "repo": {"full_name": "octo/shop"}},
    "base": {"sha": "b" * 40, "ref": "main", "repo": {"full_name": "octo/shop"}},
}
PAYLOAD: dict[str, Any] = {
    "pull_request": PULL,
    "merge_group": {"base_ref": "refs/heads/main", "base_sha": "b" * 40, "head_sha": "a" * 40},
    "workflow_run": {"event": "pull_request", "head_sha": "a" * 40},
    "repository": {"default_branch": "main"},
}


EVENTS = dict(re.findall(r"^\| (`?[a-z_ ]+?`?(?: elsewhere)?) \| (\w+) \|", section(PAGE, DONE), re.MULTILINE))
"""The page's activity of each event."""


@pytest.mark.parametrize(
    ("name", "ref", "row"),
    [
        *((name, "refs/heads/main", f"`{name}`") for name in NAMES.split()),
        ("release", "refs/heads/main", "all others"),
        ("push", "refs/heads/main", "`push`"),
        ("push", "refs/heads/x", "`push` elsewhere"),
        ("push", "refs/tags/v1", "`push` elsewhere"),
    ],
)
def test_events__activity_is_the_documented_one(name: str, ref: str, row: str) -> None:
    assert activity(GitHubEvent(name=name, payload=PAYLOAD, ref=ref), mode="auto").kind == EVENTS[row]


def test_events__every_rule_has_a_row() -> None:
    source = Path(activities.__file__).read_text(encoding="utf-8")
    cases = re.findall(r"^        case (.+):$", source, re.MULTILINE)
    ruled = {name for line in cases for name in re.findall(r'"(\w+)"', line.partition(" if ")[0])}

    assert {f"`{name}`" for name in ruled} == set(EVENTS) - {"event", "all others", "`push` elsewhere"}


def test_marker__is_the_documented_one() -> None:
    written = marked("k", RunStamp(run_id=1, attempt=2, sha="a" * 40), "").strip()
    [shown] = re.findall(r"`(<!-- .+? -->)`", PAGE)

    assert re.sub(r"=\S+", "=…", written) == shown


def test_gates__every_one_has_a_row() -> None:
    table = section(PAGE, "## What decides").partition("\nWithout a usable")[0]
    assert set(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE)) == {"gate", *get_args(Gate)}


def test_reasons__every_code_has_a_row() -> None:
    source = Path(evaluation.__file__).read_text(encoding="utf-8")
    emitted = set(re.findall(r'(?:\b_reason\(\s*|\bcode=)"([a-z-]+)"', source)) | set(_decide._WEIGHT)
    last_cells = re.findall(r"^\|.*\|(.*)\|$", section(PAGE, "## What decides"), re.MULTILINE)

    assert {"agent-error", "case-worse"} <= emitted
    assert set(codes("".join(last_cells))) >= emitted - {"no-baseline", "informing", "quarantined", "advisory"}
