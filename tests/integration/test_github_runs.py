"""Questions about runs, artifacts, commits, files and pull requests, asked of the stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_github import FakeGitHub, Fault
from github_clock import client

from agent_eval.github import runs
from agent_eval.github.errors import GitHubError
from agent_eval.github.forge import GitHub

WORKFLOW = ".github/workflows/evals.yml"


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.state.history(3)
        yield server


def test_runs__are_found_by_what_they_are(fake: FakeGitHub) -> None:
    state = fake.state
    base = state.branches["main"]
    ids = [state.run(base).id for _ in range(130)]
    state.run(base, event="schedule")
    state.run(state.commit(base))
    state.run(base, path=".github/workflows/other.yml")
    state.run(base, branch="other")

    result = runs.list_runs(client(fake), workflow=WORKFLOW, event="push", branch="main", head_sha=base, limit=120)

    assert [item.id for item in result] == ids[::-1][:120]


def test_runs__artifacts_of_a_run(fake: FakeGitHub) -> None:
    state = fake.state
    run, other = state.run(state.branches["main"]), state.run(state.branches["main"])
    second = state.artifact(run, b"second!", expired=True)
    state.artifact(run, b"logs", name="agent-eval-results-logs")
    first = state.artifact(run, b"first")
    first.created_at, second.created_at = "2026-09-14T08:38:28Z", "2026-09-14T08:49:55Z"
    state.artifact(other, b"other")

    result = runs.list_artifacts(client(fake), run.id, "agent-eval-results")

    assert [(item.id, item.size_in_bytes, item.expired) for item in result] == [
        (second.id, 7, True),
        (first.id, 5, False),
    ], "the newest first, whatever their ids"
    assert len(runs.list_artifacts(client(fake), run.id)) == 3


def test_runs__a_name_that_github_pays_no_heed_to(fake: FakeGitHub) -> None:
    run = fake.state.run(fake.state.branches["main"])
    fake.state.artifact(run, b"x", name="other")
    listed = client(fake).get(f"/repos/octo/shop/actions/runs/{run.id}/artifacts")
    fake.faults.append(Fault(status=200, body=json.dumps(listed).encode()))

    assert runs.list_artifacts(client(fake), run.id, "agent-eval-results") == []


def test_runs__artifacts_are_downloaded_up_to_a_size(fake: FakeGitHub) -> None:
    artifact = fake.state.artifact(fake.state.run(fake.state.branches["main"]), b"PK zip")

    assert runs.download_artifact(client(fake), artifact.id, max_bytes=6) == b"PK zip"
    with pytest.raises(GitHubError, match="larger than 5 bytes"):
        runs.download_artifact(client(fake), artifact.id, max_bytes=5)


@pytest.mark.parametrize(
    ("files", "result"),
    [
        ([], []),
        ([{"filename": "a"}, {"filename": "b", "previous_filename": "c"}], ["a", "b", "c"]),
        ([{"filename": str(number)} for number in range(300)], None),  # There may be more than GitHub lists.
        (None, None),
    ],
)
def test_runs__changed_files(fake: FakeGitHub, files: list[dict[str, str]] | None, result: list[str] | None) -> None:
    fake.faults.append(Fault(path="/compare/", status=200, body=json.dumps({"files": files}).encode()))

    assert runs.changed_files(client(fake), "main", "main") == result


def test_runs__walking_back_further_than_the_list(fake: FakeGitHub) -> None:
    state = fake.state
    before = state.branches["main"]
    side = before
    for _ in range(120):
        side = state.commit(side)
    merge = state.commit(before, side, branch="main")

    result = runs.first_parents(client(fake), merge, limit=3)
    assert result[:2] == [merge, before]
    assert len(result) == 3


def test_runs__files(fake: FakeGitHub) -> None:
    fake.state.files[("main", "evals/ä b/agent-eval.toml")] = "größe = 1\n".encode() * 50
    fake.state.files[("main", "large")] = b"x" * 1_000_001
    github = client(fake)

    assert runs.file_at(github, "evals/ä b/agent-eval.toml", "main") == "größe = 1\n".encode() * 50
    assert runs.file_at(github, "none.toml", "main") is None
    with pytest.raises(GitHubError, match="up to 1 MB"):
        runs.file_at(github, "large", "main")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "is a directory"),
        ({"type": "submodule", "size": 0}, "is a submodule"),
        ({"type": "file", "size": 3, "encoding": "base64", "content": "!!!"}, "invalid base64"),
        ({"type": "file"}, "missing or invalid fields: size"),
    ],
)
def test_runs__what_is_no_file(fake: FakeGitHub, answer: Any, words: str) -> None:
    fake.faults.append(Fault(status=200, body=json.dumps(answer).encode()))

    with pytest.raises(GitHubError, match=words):
        runs.file_at(client(fake), "evals", "main")


def test_runs__pull_requests(fake: FakeGitHub) -> None:
    state = fake.state
    state.pull(7)
    state.pull(8, head_repository="fork/shop", head_ref="main")
    state.pull(9, head_repository="fork/shop", head_ref="main", state="closed")
    state.pull(10, head_repository=None)
    github = client(fake)

    assert [runs.get_pull(github, number).is_fork for number in (7, 8, 10)] == [False, True, True]
    assert [pull.number for pull in runs.pulls_of_head(github, "fork", "main")] == [9, 8]
    assert [open_pull.number for open_pull in runs.open_pulls(github)] == [10, 8, 7]


def test_runs__a_head_that_github_drops_does_not_fit_every_pull_request(fake: FakeGitHub) -> None:
    fake.state.pull(7)
    answer = json.dumps(client(fake).get("/repos/octo/shop/pulls")).encode()
    fake.faults.append(Fault(status=200, body=answer))

    assert runs.pulls_of_head(client(fake), "fork", "main") == []


QUESTIONS: list[Callable[[GitHub], object]] = [
    lambda github: runs.get_run(github, 1),
    lambda github: runs.merge_base(github, "a", "b"),
    lambda github: runs.commit_parents(github, "a" * 40),
    lambda github: runs.get_pull(github, 7),
    lambda github: runs.list_runs(github, workflow=WORKFLOW),
    lambda github: runs.list_artifacts(github, 1),
    lambda github: runs.first_parents(github, "a" * 40, limit=2),
    lambda github: list(runs.open_pulls(github)),
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "answer", [{}, [{}], {"id": "x", "parents": 7, "workflow_runs": [{}], "artifacts": [{}]}, 7, None]
)
def test_runs__answers_that_lack_something_are_malformed(
    fake: FakeGitHub, question: Callable[[GitHub], object], answer: object
) -> None:
    fake.faults.append(Fault(status=200, body=json.dumps(answer).encode(), times=9))

    with pytest.raises(GitHubError) as caught:
        question(client(fake))
    assert caught.value.kind == "malformed"
