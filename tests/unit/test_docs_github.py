"""docs/github.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.forge import RunStamp
from agent_eval.github import _activity as activities
from agent_eval.github import client, comments, errors
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.github.marker import marked

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
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


def test_limits__are_those_of_the_code() -> None:
    waits = ", ".join(f"{errors.OUTAGE_WAIT * 2.0**attempt:.0f}" for attempt in range(client._ATTEMPTS - 1))
    assert f"({waits} seconds" in PAGE
    assert f"{client._LARGEST_JSON // 10**6} MB, after decompression" in PAGE
    assert errors.SECONDARY_WAIT == 60.0
    assert "one minute, then two" in " ".join(PAGE.split())
    assert client._BETWEEN_WRITES == 1.0
    assert comments._BUDGET == 240.0
    assert "four for the comment" in PAGE


def test_log_messages__are_those_of_the_code() -> None:
    folder = Path(client.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    source = re.sub(r'"\s+f?"', "", source)
    table = PAGE.partition("## Log messages")[2]
    messages = re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)

    assert len(messages) == 11
    for message in messages:
        words = re.escape(
            message.removesuffix(" …").replace("2 of them", "# of them").replace("request 7", "request #")
        )
        assert re.search(words.replace(r"\#", r"\{[^}]+\}"), source), f"no code says {message!r}"
