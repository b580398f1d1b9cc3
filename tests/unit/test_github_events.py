"""Reading the event of a run from what GitHub sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.forge import EventError
from agent_eval.github.events import GitHubEvent, pull_request_at, read_event, sha_at

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "github" / "events.json").read_text(encoding="utf-8")
)


def environ(path: Path, **more: str) -> dict[str, str]:
    return {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": "a" * 40,
        "GITHUB_REF": "refs/pull/2/merge",
        "GITHUB_REPOSITORY": "octo/shop",
        "GITHUB_RUN_ID": "123456789012",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_SERVER_URL": "https://github.example/",
        "GITHUB_API_URL": "https://github.example/api/v3/",
        "GITHUB_WORKFLOW_REF": "octo/shop/.github/workflows/evals.yml@refs/heads/main",
        "GITHUB_ACTOR": "mona",
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EXAMPLES["pull_request.opened"]))
    return path


def test_events__everything_is_read(file: Path) -> None:
    event = read_event(environ(file))

    assert event.name == "pull_request"
    assert (event.run_id, event.run_attempt, event.actor) == (123456789012, 2, "mona")
    assert event.api_url == "https://github.example/api/v3"
    assert event.workflow_path == ".github/workflows/evals.yml"
    assert event.run_url == "https://github.example/octo/shop/actions/runs/123456789012/attempts/2"
    assert event.default_branch == "master"
    result = pull_request_at(event.payload, "pull_request")
    assert result is not None
    assert (result.number, result.open, result.is_fork) == (2, True, False)


def test_events__outside_of_github_there_is_none() -> None:
    assert read_event({"GITHUB_SHA": "a" * 40}) == GitHubEvent()
    assert read_event({"GITHUB_EVENT_NAME": "push"}).payload == {}, "an event may come without a payload"
    assert GitHubEvent().run_url is None
    assert GitHubEvent().workflow_path is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"null", b'{"a":' * 100_000, 25_000_001, None])
def test_events__an_invalid_payload_is_reported(tmp_path: Path, content: bytes | int | None) -> None:
    """A number is the size of a file that is above GitHub's limit."""
    path = tmp_path / "event.json"
    if content is not None:
        with path.open("wb") as file:
            file.truncate(content) if isinstance(content, int) else file.write(content)
    says = {int: "25 MB", type(None): "No such file"}.get(type(content), "GITHUB_EVENT_PATH")
    with pytest.raises(EventError, match=says):
        read_event(environ(path))


def test_events__what_is_a_commit() -> None:
    values: list[object] = ["a" * 40, "b" * 64, "0" * 40, "abc", "", None, 7, "g" * 40, "a" * 40 + "\n"]
    assert [sha_at({"after": value}, "after") for value in values] == [*values[:2], *[None] * 7]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_REPOSITORY", "octo"),
        ("GITHUB_REPOSITORY", "octo/shop/../other"),
        ("GITHUB_RUN_ID", "12x"),
        ("GITHUB_RUN_ATTEMPT", "-1"),
    ],
)
def test_events__a_variable_with_a_strange_value_is_reported(file: Path, name: str, value: str) -> None:
    with pytest.raises(EventError, match=name):
        read_event(environ(file, **{name: value}))
