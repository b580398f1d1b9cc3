"""The event of a run as GitHub sets it, and what each mode does, with GitHub's own examples of payloads."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from agent_eval.forge import Activity, EventError, Kind, Mode
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent, pull_request_at, read_event, sha_at

EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "github" / "events.json").read_text(encoding="utf-8")
)
SHA = "c" * 40


def payload(name: str, **changes: Any) -> dict[str, Any]:
    """An example of GitHub's, with some values exchanged: `{"a.b": value}`."""
    result = copy.deepcopy(EXAMPLES[name])
    for path, value in changes.items():
        *keys, last = path.split("__")
        inner = result
        for key in keys:
            inner = inner[key]
        inner[last] = value
    return result


def event(name: str, body: Mapping[str, Any] | None = None, **facts: Any) -> GitHubEvent:
    default = {"push": "push", "merge_group": "merge_group", "workflow_run": "workflow_run"}.get(name)
    if body is None:
        body = payload(default) if default else {}
    defaults: dict[str, Any] = {"sha": SHA, "ref": "refs/heads/main", "repository": "octo/shop", "actor": "mona"}
    return GitHubEvent(name=name, payload=body, **{**defaults, **facts})


OWN = payload("pull_request.opened")
FORK = payload("pull_request.opened", pull_request__head__repo__full_name="mallory/Hello-World")
DELETED_FORK = payload("pull_request.opened", pull_request__head__repo=None)


def do(one: GitHubEvent, mode: Mode = "auto", **more: Any) -> Activity:
    return activity(one, mode=mode, **more)


def test_activity__a_pull_request_is_compared_with_its_base() -> None:
    result = do(event("pull_request", OWN, ref="refs/pull/2/merge"))

    assert result.kind == "compare"
    assert result.pull_request is not None
    assert result.pull_request.number == 2
    assert result.pull_request.head_sha == OWN["pull_request"]["head"]["sha"]
    assert (result.base_ref, result.base_commit) == ("master", OWN["pull_request"]["base"]["sha"])
    assert result.commit == SHA
    assert not result.secrets_withheld


IN_A_FORK = payload("pull_request.opened", pull_request__head__repo__fork=True, pull_request__base__repo__fork=True)
UPPER = payload(
    "pull_request.opened", pull_request__head__repo__full_name=OWN["pull_request"]["base"]["repo"]["full_name"].upper()
)
BRANCH = payload("pull_request.opened", pull_request__head__ref="x`$(id)\n::error::")
BOT = "dependabot[bot]"


@pytest.mark.parametrize(
    ("name", "body", "actor", "withheld"),
    [
        ("pull_request", FORK, "mona", "from a fork"),
        ("pull_request", DELETED_FORK, "mona", "from a fork"),
        ("pull_request", OWN, BOT, "by Dependabot"),
        ("pull_request", IN_A_FORK, "mona", ""),  # `fork` only says that the repository itself was forked
        ("pull_request", UPPER, "mona", ""),
        ("pull_request", BRANCH, "mona", ""),
        ("pull_request", payload("pull_request.synchronize"), "mona", ""),
        ("pull_request", payload("pull_request.closed"), "mona", ""),
        ("pull_request_target", OWN, "mona", ""),
        ("pull_request_review", FORK, "mona", "from a fork"),
        ("pull_request_review", OWN, "mona", ""),
        ("pull_request_review_comment", OWN, BOT, "by Dependabot"),
        ("push", None, BOT, "by Dependabot"),
        ("workflow_dispatch", {}, BOT, ""),
        ("schedule", {}, BOT, ""),
    ],
)
def test_activity__where_secrets_are_withheld(
    name: str, body: dict[str, Any] | None, actor: str, withheld: str
) -> None:
    result = do(event(name, body, actor=actor))
    assert (result.kind == "compare") == (name in {"pull_request", "pull_request_target"})
    assert result.secrets_withheld == bool(withheld)
    assert result.kind == "gate" or withheld in result.explanation
    assert "::" not in result.explanation
    if result.pull_request is not None:
        assert result.pull_request.is_fork == (body in (FORK, DELETED_FORK))
    gated = do(event(name, body, actor=actor), "gate")
    assert (gated.kind, gated.secrets_withheld) == ("gate", bool(withheld))


@pytest.mark.parametrize("mode", ["auto", "gate", "publish"])
@pytest.mark.parametrize("body", [FORK, DELETED_FORK, {}, {"pull_request": "?"}], ids=["fork", "gone", "none", "text"])
def test_activity__pull_request_target_of_a_fork_is_refused(mode: Mode, body: dict[str, Any]) -> None:
    result = do(event("pull_request_target", body), mode)

    assert result.kind == "refuse"
    assert "allow-pull-request-target" in result.explanation
    assert "workflow_run" in result.explanation


@pytest.mark.parametrize("body", [{}, {"pull_request": {}}, {"pull_request": {"number": True}}, {"pull_request": None}])
def test_activity__a_pull_request_without_a_payload_is_gated(body: dict[str, Any]) -> None:
    result = do(event("pull_request", body))

    assert (result.kind, result.pull_request) == ("gate", None)
    assert "no pull request" in result.explanation


def test_activity__a_merge_group_is_compared_with_its_base() -> None:
    body = EXAMPLES["merge_group"]
    result = do(event("merge_group", body))

    assert (result.kind, result.pull_request) == ("compare", None)
    assert result.base_ref == body["merge_group"]["base_ref"].removeprefix("refs/heads/")
    assert (result.commit, result.base_commit) == (body["merge_group"]["head_sha"], body["merge_group"]["base_sha"])


def pushed(branch: str, *, deleted: bool = False) -> dict[str, Any]:
    return payload("push", repository__default_branch=branch, deleted=deleted)


def finished(event_before: str | None) -> dict[str, Any]:
    return payload("workflow_run", workflow_run__event=event_before)


MAIN = {"repository": {"default_branch": "main"}}


@pytest.mark.parametrize(
    ("name", "body", "ref", "kind"),
    [
        ("push", pushed("master"), "refs/heads/master", "record master"),
        ("push", pushed("master"), "refs/heads/feature", "gate"),
        ("push", pushed("master"), "refs/heads/release/1.x", "record release/1.x"),
        ("push", pushed("master"), "refs/tags/release/1.x", "gate"),
        ("push", pushed("main", deleted=True), "refs/heads/main", "gate"),
        ("push", {}, "refs/heads/main", "gate"),
        ("schedule", {}, "refs/heads/main", "record main"),
        ("schedule", {}, None, "gate"),
        ("workflow_dispatch", MAIN, "refs/heads/main", "record main"),
        ("workflow_dispatch", MAIN, "refs/heads/feature", "gate"),
        ("workflow_dispatch", MAIN, "refs/tags/v1", "gate"),
        ("merge_group", {}, "refs/heads/main", "gate"),
        ("issue_comment", {}, "refs/heads/main", "gate"),
        ("something_new", {}, "refs/heads/main", "gate"),
    ],
)
def test_activity__of_a_branch(name: str, body: dict[str, Any], ref: str | None, kind: str) -> None:
    result = do(event(name, body, ref=ref), base_branches=("release/*",))
    assert f"{result.kind} {result.base_ref or ''}".strip() == kind
    assert result.kind == "record" or name in {"push", "schedule", "workflow_dispatch"} or name in result.explanation
    assert result.commit == (None if body.get("deleted") else SHA)
    assert do(GitHubEvent()).kind == "gate"


@pytest.mark.parametrize(
    ("mode", "before", "kind"),
    [
        ("auto", "pull_request", "publish"),
        ("publish", "pull_request", "publish"),
        ("auto", "push", "gate"),
        ("publish", "push", "refuse"),
        ("publish", None, "refuse"),
        ("gate", "pull_request", "gate"),
    ],
)
def test_activity__a_run_after_a_run(mode: Mode, before: str | None, kind: Kind) -> None:
    result = do(event("workflow_run", finished(before)), mode)

    assert result.kind == kind
    assert result.pull_request is None, "which one it is only the API tells"
    if kind == "publish":
        assert result.commit == EXAMPLES["workflow_run"]["workflow_run"]["head_sha"]


@pytest.mark.parametrize("name", ["pull_request", "push", "schedule", "", "workflow_dispatch", "merge_group"])
def test_activity__publishing_needs_a_finished_run(name: str) -> None:
    result = do(event(name, OWN if name == "pull_request" else None), "publish")

    assert result.kind == "refuse"
    assert "workflow_run" in result.explanation


def test_activity__no_payload_breaks_it() -> None:
    """Whatever stands in the place of whatever: an answer, never an exception."""
    strange: list[Any] = [None, 7, "x", [], {}, {"repository": 7}, {"pull_request": {"head": [], "number": 1}}]
    names = ["pull_request", "pull_request_target", "push", "merge_group", "workflow_run", "workflow_dispatch"]
    for name in names:
        for value in strange:
            for body in ({"pull_request": value, "merge_group": value, "workflow_run": value, "repository": value},):
                result = do(event(name, body))
                assert result.explanation.endswith(".")
                assert result.kind in cast("tuple[str, ...]", ("gate", "refuse"))


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
