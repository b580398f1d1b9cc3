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
    wanted = state.run(base, conclusion="failure")
    state.run(base, event="schedule")
    state.run(state.commit(base))
    state.run(base, path=".github/workflows/other.yml")
    state.run(base, branch="other")
    state.run(base, status="in_progress")

    result = runs.list_runs(
        client(fake), workflow=WORKFLOW, event="push", branch="main", head_sha=base, status="completed"
    )

    assert [item.id for item in result] == [wanted.id]
    [run] = result
    assert (run.conclusion, run.workflow_path, run.head_sha) == ("failure", WORKFLOW, base)
    assert run.head_repository is not None
    assert run.head_repository.full_name == "octo/shop"
    assert run.html_url.endswith(f"/actions/runs/{wanted.id}")


def test_runs__a_forks_branch_of_the_same_name_is_distinguished(fake: FakeGitHub) -> None:
    sha = fake.state.branches["main"]
    fake.state.run(sha, head_repository="fork/shop")
    fake.state.run(sha, head_repository=None)

    result = runs.list_runs(client(fake), workflow="evals.yml", branch="main")

    assert [item.head_repository and item.head_repository.full_name for item in result] == [None, "fork/shop"]


def test_runs__come_newest_first_and_no_more_than_wanted(fake: FakeGitHub) -> None:
    ids = [fake.state.run(fake.state.branches["main"]).id for _ in range(130)]

    assert [list_run.id for list_run in runs.list_runs(client(fake), workflow=WORKFLOW, limit=120)] == ids[::-1][:120]


def test_runs__an_unknown_workflow_is_not_found(fake: FakeGitHub) -> None:
    with pytest.raises(GitHubError) as caught:
        runs.list_runs(client(fake), workflow=".github/workflows/none.yml")
    assert caught.value.kind == "not-found"


def test_runs__artifacts_of_a_run(fake: FakeGitHub) -> None:
    state = fake.state
    run, other = state.run(state.branches["main"]), state.run(state.branches["main"])
    first = state.artifact(run, b"first")
    state.artifact(run, b"logs", name="agent-eval-results-logs")
    second = state.artifact(run, b"second!", expired=True)
    state.artifact(other, b"other")

    result = runs.list_artifacts(client(fake), run.id, "agent-eval-results")

    assert [item.id for item in result] == [second.id, first.id]
    assert [(item.size_in_bytes, item.expired) for item in result] == [(7, True), (5, False)]
    assert len(runs.list_artifacts(client(fake), run.id)) == 3


def test_runs__artifacts_of_a_second_attempt_come_first_whatever_their_ids(fake: FakeGitHub) -> None:
    run = fake.state.run(fake.state.branches["main"])
    second, first = fake.state.artifact(run, b"second"), fake.state.artifact(run, b"first")
    first.created_at, second.created_at = "2026-09-14T08:38:28Z", "2026-09-14T08:49:55Z"

    result = runs.list_artifacts(client(fake), run.id, "agent-eval-results")

    assert first.id > second.id
    assert [item.id for item in result] == [second.id, first.id]


def test_runs__a_name_that_github_pays_no_heed_to(fake: FakeGitHub) -> None:
    run = fake.state.run(fake.state.branches["main"])
    fake.state.artifact(run, b"x", name="other")
    listed = client(fake).get(f"/repos/octo/shop/actions/runs/{run.id}/artifacts")
    fake.faults.append(Fault(status=200, body=json.dumps(listed).encode()))

    assert runs.list_artifacts(client(fake), run.id, "agent-eval-results") == []


def test_runs__artifacts_are_downloaded(fake: FakeGitHub) -> None:
    run = fake.state.run(fake.state.branches["main"])
    good, expired = fake.state.artifact(run, b"PK zip"), fake.state.artifact(run, b"PK", expired=True)
    github = client(fake)

    assert runs.download_artifact(github, good.id, max_bytes=6) == b"PK zip"
    with pytest.raises(GitHubError) as too_large:
        runs.download_artifact(github, good.id, max_bytes=5)
    with pytest.raises(GitHubError) as gone:
        runs.download_artifact(github, expired.id, max_bytes=6)
    assert (too_large.value.kind, gone.value.kind, gone.value.status) == ("too-large", "not-found", 410)


def test_runs__where_commits_have_forked(fake: FakeGitHub) -> None:
    state = fake.state
    fork_point = state.branches["main"]
    head = state.commit(state.commit(fork_point), branch="feature/a b")
    state.history(1)
    github = client(fake)

    assert runs.merge_base(github, "main", "feature/a b") == fork_point
    assert runs.merge_base(github, "main", head) == fork_point
    with pytest.raises(GitHubError) as caught:
        runs.merge_base(github, "main", state.commit())
    assert caught.value.kind == "not-found"


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


def test_runs__parents(fake: FakeGitHub) -> None:
    state = fake.state
    base, side = state.branches["main"], state.commit()
    merge = state.commit(base, side)

    assert runs.commit_parents(client(fake), merge) == (base, side)
    assert runs.commit_parents(client(fake), side) == ()


def test_runs__walking_back_leaves_merged_branches_aside(fake: FakeGitHub) -> None:
    state = fake.state
    expected = []
    for _ in range(4):
        before = state.branches["main"]
        side = state.commit(state.commit(before))
        expected.append(state.commit(before, side, branch="main"))
    github = client(fake)

    assert runs.first_parents(github, expected[-1], limit=4) == expected[::-1]
    assert len(runs.first_parents(github, expected[-1], limit=99)) == 7
    assert len(fake.requests) == 2, "one request each"


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
    state.pull(8, head_repository="fork/shop", head_ref="main", author="mallory", draft=True)
    state.pull(9, head_repository="fork/shop", head_ref="main", state="closed")
    state.pull(10, head_repository=None)
    github = client(fake)

    fork = runs.get_pull(github, 8)
    assert (fork.head_repository, fork.is_fork, fork.author, fork.draft) == ("fork/shop", True, "mallory", True)
    assert not runs.get_pull(github, 7).is_fork
    assert runs.get_pull(github, 10).is_fork
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
