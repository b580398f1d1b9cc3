"""Each event and each mode: what is done, with GitHub's own examples of payloads."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from agent_eval.forge import Activity, Kind, Mode
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent

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


@pytest.mark.parametrize("name", ["pull_request.opened", "pull_request.synchronize", "pull_request.closed"])
def test_activity__whatever_happened_to_it(name: str) -> None:
    assert do(event("pull_request", payload(name))).kind == "compare"


@pytest.mark.parametrize("body", [FORK, DELETED_FORK])
def test_activity__a_fork_has_no_secrets(body: dict[str, Any]) -> None:
    result = do(event("pull_request", body))

    assert (result.kind, result.secrets_withheld) == ("compare", True)
    assert result.pull_request is not None
    assert result.pull_request.is_fork
    assert "from a fork" in result.explanation


def test_activity__inside_of_a_fork_a_pull_request_is_none_of_a_fork() -> None:
    """GitHub's `fork` only says that the repository itself was forked from somewhere."""
    body = payload("pull_request.opened", pull_request__head__repo__fork=True, pull_request__base__repo__fork=True)

    assert not do(event("pull_request", body)).secrets_withheld


def test_activity__the_case_of_a_repository_does_not_matter() -> None:
    name = OWN["pull_request"]["base"]["repo"]["full_name"].upper()

    assert not do(
        event("pull_request", payload("pull_request.opened", pull_request__head__repo__full_name=name))
    ).secrets_withheld


def test_activity__dependabot_is_treated_like_a_fork() -> None:
    result = do(event("pull_request", OWN, actor="dependabot[bot]"))

    assert (result.kind, result.secrets_withheld) == ("compare", True)
    assert "by Dependabot" in result.explanation


@pytest.mark.parametrize(
    ("name", "body", "actor", "withheld"),
    [
        ("pull_request_review", FORK, "mona", True),
        ("pull_request_review", OWN, "mona", False),
        ("pull_request_review_comment", OWN, "dependabot[bot]", True),
        ("push", None, "dependabot[bot]", True),
        ("workflow_dispatch", {}, "dependabot[bot]", False),
        ("schedule", {}, "dependabot[bot]", False),
    ],
)
def test_activity__where_else_secrets_are_withheld(
    name: str, body: dict[str, Any] | None, actor: str, withheld: bool
) -> None:
    assert do(event(name, body, actor=actor)).secrets_withheld == withheld


def test_activity__a_branch_may_be_called_anything() -> None:
    body = payload("pull_request.opened", pull_request__head__ref="x`$(id)\n::error::")
    result = do(event("pull_request", body))

    assert result.kind == "compare"
    assert "::" not in result.explanation


@pytest.mark.parametrize("mode", ["auto", "gate", "publish"])
@pytest.mark.parametrize("body", [FORK, DELETED_FORK, {}, {"pull_request": "?"}], ids=["fork", "gone", "none", "text"])
def test_activity__pull_request_target_of_a_fork_is_refused(mode: Mode, body: dict[str, Any]) -> None:
    result = do(event("pull_request_target", body), mode)

    assert result.kind == "refuse"
    assert "allow-pull-request-target" in result.explanation
    assert "workflow_run" in result.explanation


def test_activity__unless_it_is_allowed_by_name() -> None:
    result = do(event("pull_request_target", FORK), allow_unsafe_pull_request_target=True)

    assert (result.kind, result.secrets_withheld) == ("compare", False)
    assert result.commit is None, "GITHUB_SHA is the base's there"


def test_activity__pull_request_target_of_a_branch_is_compared() -> None:
    assert do(event("pull_request_target", OWN)).kind == "compare"


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


def test_activity__a_merge_group_without_a_payload_is_gated() -> None:
    assert do(event("merge_group", {})).kind == "gate"


@pytest.mark.parametrize(
    ("ref", "base_branches", "kind", "base_ref"),
    [
        ("refs/heads/master", (), "record", "master"),
        ("refs/heads/feature", (), "gate", None),
        ("refs/heads/release/1.x", (), "gate", None),
        ("refs/heads/release/1.x", ("release/*",), "record", "release/1.x"),
        ("refs/tags/v1", ("*",), "gate", None),
    ],
)
def test_activity__pushes(ref: str, base_branches: tuple[str, ...], kind: Kind, base_ref: str | None) -> None:
    body = payload("push", repository__default_branch="master", deleted=False)
    result = do(event("push", body, ref=ref), base_branches=base_branches)

    assert (result.kind, result.base_ref, result.commit) == (kind, base_ref, SHA)


def test_activity__a_push_that_deletes_its_branch_is_no_baseline() -> None:
    body = payload("push", repository__default_branch="main", deleted=True)

    result = do(event("push", body, sha="0" * 40))
    assert (result.kind, result.commit) == ("gate", None)


def test_activity__a_push_whose_payload_names_no_default_branch_is_gated() -> None:
    assert do(event("push", {})).kind == "gate"


@pytest.mark.parametrize(
    ("name", "ref", "kind"),
    [
        ("schedule", "refs/heads/main", "record"),
        ("workflow_dispatch", "refs/heads/main", "record"),
        ("workflow_dispatch", "refs/heads/feature", "gate"),
        ("workflow_dispatch", "refs/tags/v1", "gate"),
        ("schedule", None, "gate"),
    ],
)
def test_activity__runs_on_a_branch(name: str, ref: str | None, kind: Kind) -> None:
    body = {} if name == "schedule" else {"repository": {"default_branch": "main"}}

    assert do(event(name, body, ref=ref)).kind == kind


def finished(event_before: str | None) -> dict[str, Any]:
    return payload("workflow_run", workflow_run__event=event_before)


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


@pytest.mark.parametrize("name", ["pull_request", "push", "schedule", "", "workflow_dispatch", "merge_group"])
def test_activity__mode_gate_gates(name: str) -> None:
    assert do(event(name, FORK if name == "pull_request" else None), "gate").kind == "gate"


def test_activity__mode_gate_knows_that_secrets_are_withheld() -> None:
    assert do(event("pull_request", FORK), "gate").secrets_withheld


@pytest.mark.parametrize("name", ["issue_comment", "release", "something_new"])
def test_activity__unknown_events_are_gated_and_explained(name: str) -> None:
    result = do(event(name))

    assert result.kind == "gate"
    assert name in result.explanation


def test_activity__outside_of_github_actions_every_run_gates() -> None:
    assert do(GitHubEvent()).kind == "gate"


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
