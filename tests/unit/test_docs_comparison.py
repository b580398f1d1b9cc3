"""docs/comparison.md has every gate, every code of a reason and every event, and says of them what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from agent_eval.forge import RunStamp
from agent_eval.gate.policy import Gate
from agent_eval.github import _activity as activities
from agent_eval.github._activity import activity
from agent_eval.github.comments import marked
from agent_eval.github.events import GitHubEvent

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
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


def rows() -> dict[str, str]:
    """The page's activity of each event."""
    table = PAGE.partition("## What is done on which event")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `?([a-z_ ]+?)`?(?: elsewhere)? \| (\w+) \|", table, re.MULTILINE))


NAMES = "pull_request pull_request_target merge_group schedule workflow_dispatch workflow_run release"


@pytest.mark.parametrize("name", NAMES.split())
def test_events__activity_is_the_documented_one(name: str) -> None:
    documented = rows().get(name, rows()["all others"])

    assert activity(GitHubEvent(name=name, payload=PAYLOAD, ref="refs/heads/main"), mode="auto").kind == documented


@pytest.mark.parametrize(
    ("ref", "row"),
    [("refs/heads/main", "`push`"), ("refs/heads/x", "`push` elsewhere"), ("refs/tags/v1", "`push` elsewhere")],
)
def test_push__activity_is_the_documented_one(ref: str, row: str) -> None:
    [documented] = re.findall(rf"^\| {re.escape(row)} \| (\w+) \|", PAGE, re.MULTILINE)

    assert activity(GitHubEvent(name="push", payload=PAYLOAD, ref=ref), mode="auto").kind == documented


def test_events__every_rule_has_a_row() -> None:
    source = Path(activities.__file__).read_text(encoding="utf-8")
    cases = re.findall(r"^        case (.+):$", source, re.MULTILINE)
    ruled = {name for line in cases for name in re.findall(r'"(\w+)"', line.partition(" if ")[0])}

    assert ruled == set(rows()) - {"event", "all others"}


def test_marker__is_the_documented_one() -> None:
    written = marked("k", RunStamp(run_id=1, attempt=2, sha="a" * 40), "").strip()
    [shown] = re.findall(r"`(<!-- .+? -->)`", PAGE)

    assert re.sub(r"=\S+", "=…", written) == shown


def test_gates__every_one_has_a_row() -> None:
    table = PAGE.partition("## What decides")[2].partition("\nWithout a usable")[0]
    assert set(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE)) == {"gate", *get_args(Gate)}


def test_reasons__every_code_has_a_row() -> None:
    tree = ast.parse((ROOT / "src/agent_eval/gate/evaluation.py").read_text(encoding="utf-8"))
    emitted = {
        str(keyword.value.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    emitted |= {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "_reason"
        and isinstance(node.args[0], ast.Constant)
    }
    words = ast.parse((ROOT / "src/agent_eval/gate/regression/_decide.py").read_text(encoding="utf-8"))
    emitted |= {
        str(key.value)
        for node in ast.walk(words)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_WEIGHT"
        for key in getattr(node.value, "keys", [])
    }
    section = PAGE.split("## What decides")[1].split("\n## ")[0]
    documented = set(
        re.findall(r"`([a-z]+(?:-[a-z]+)*)`", "".join(re.findall(r"^\|.*\|(.*)\|$", section, re.MULTILINE)))
    )

    assert "agent-error" in emitted
    assert "case-worse" in emitted
    assert documented >= emitted - {"no-baseline", "informing", "quarantined", "advisory"}
