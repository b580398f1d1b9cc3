"""Which pull request a finished run belongs to; what its artifact claims is not believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_github import FakeGitHub, Pull, Run
from github_clock import client

from agent_eval.forge import Bound, Claim, Unbound
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import bind


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.state.history(2)
        yield server


def fork(fake: FakeGitHub, number: int = 7, **more: str) -> Pull:
    return fake.state.pull(number, head_repository="fork/shop", head_ref="main", author="mallory", **more)


def run_of(fake: FakeGitHub, pull: Pull, **more: Any) -> Run:
    listed = (pull.number,) if pull.head_repository == fake.state.repository else ()
    settings: dict[str, Any] = {"event": "pull_request", "branch": pull.head_ref, "pulls": listed, **more}
    return fake.state.run(pull.head_sha, head_repository=pull.head_repository, **settings)


def bound(fake: FakeGitHub, run: Run, claim: Claim | None = None) -> Bound:
    result = bind(client(fake), run.id, claim)
    assert isinstance(result, Bound), result
    return result


def unbound(fake: FakeGitHub, run: Run, claim: Claim | None = None) -> Unbound:
    result = bind(client(fake), run.id, claim)
    assert isinstance(result, Unbound), result
    return result


def test_binding__a_fork_is_found_by_owner_and_branch(fake: FakeGitHub) -> None:
    fake.state.pull(6, head_repository="other/shop", head_ref="main")
    pull = fork(fake)

    result = bound(fake, run_of(fake, pull))

    assert result.pull_request.number == 7
    assert result.run.head_sha == pull.head_sha


@pytest.mark.parametrize("listed", [{}, {"pulls": ()}], ids=["listed", "not listed"])
def test_binding__a_branch_of_the_repository_is_found(fake: FakeGitHub, listed: dict[str, Any]) -> None:
    assert bound(fake, run_of(fake, fake.state.pull(7), **listed)).pull_request.number == 7


def test_binding__a_forks_pull_request_of_the_same_commit_is_not_that_of_the_branch(fake: FakeGitHub) -> None:
    """Whatever GitHub lists for a run: somebody may open a pull request from a copy of our branch."""
    copy = fork(fake)
    run = fake.state.run(copy.head_sha, event="pull_request", branch="feature", pulls=(copy.number,))

    assert "No open pull request" in unbound(fake, run).message


def test_binding__a_fork_that_is_gone_is_found_by_its_commit(fake: FakeGitHub) -> None:
    fake.state.pull(6, head_repository=None)
    pull = fake.state.pull(7, head_repository=None)
    fake.state.pull(8, head_sha=pull.head_sha)

    assert bound(fake, run_of(fake, pull)).pull_request.number == 7


def test_binding__a_branch_of_another_fork_of_the_same_owner_does_not_count(fake: FakeGitHub) -> None:
    pull = fork(fake)
    run = run_of(fake, pull)
    pull.head_repository = "fork/another-shop"

    assert "No open pull request" in unbound(fake, run).message


def test_binding__a_pull_request_that_has_moved_on_is_left_to_its_newer_run(fake: FakeGitHub) -> None:
    pull = fork(fake)
    run = run_of(fake, pull)
    pull.head_sha = fake.state.commit(pull.head_sha)

    result = unbound(fake, run)

    assert "Pull request 7 has newer commits" in result.message
    assert not result.is_contradiction


@pytest.mark.parametrize(
    ("pull", "run", "words"),
    [
        ({"state": "closed"}, {}, "is closed"),
        ({}, {"event": "push"}, "push"),
        ({}, {"event": "pull_request_target"}, "pull_request_target"),
        ({}, {"status": "in_progress"}, "not ended"),
    ],
)
def test_binding__what_gets_no_comment(fake: FakeGitHub, pull: Any, run: Any, words: str) -> None:
    assert words in unbound(fake, run_of(fake, fork(fake, **pull), **run)).message


# Two pull requests from one branch: both fit, and only the results know which it was


def test_binding__of_several_that_fit_the_claim_picks_one(fake: FakeGitHub) -> None:
    pull = fork(fake)
    fork(fake, 8, head_sha=pull.head_sha, base_ref="release")
    run = run_of(fake, pull)

    assert bound(fake, run, Claim(pull_request=8)).pull_request.number == 8
    assert "pull requests 8, 7" in unbound(fake, run).message


# Forged artifacts


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Claim(pull_request=6), "claim pull request 6, but run"),
        (Claim(pull_request=10**9), "claim pull request 1000000000"),
        (Claim(head_commit="f" * 40), "claim commit ffff"),
        (Claim(repository="octo/other"), "claim the repository octo/other"),
        (Claim(run_id=1), "claim run 1,"),
    ],
)
def test_binding__what_contradicts_github_is_refused(fake: FakeGitHub, claim: Claim, words: str) -> None:
    fake.state.pull(6)
    result = unbound(fake, run_of(fake, fork(fake)), claim)

    assert result.is_contradiction
    assert words in result.message


def test_binding__a_claim_for_another_pull_request_with_the_same_commit_from_elsewhere_is_refused(
    fake: FakeGitHub,
) -> None:
    """A stranger opens a pull request from a copy of a branch of ours, to write into ours."""
    own = fake.state.pull(6)
    pull = fork(fake, head_sha=own.head_sha)
    run = run_of(fake, pull)

    assert unbound(fake, run, Claim(pull_request=6)).is_contradiction
    assert bound(fake, run, Claim(pull_request=7)).pull_request.number == 7


def test_binding__what_is_true_is_bound(fake: FakeGitHub) -> None:
    pull = fork(fake)
    run = run_of(fake, pull)
    claim = Claim(repository="Octo/Shop", run_id=run.id, pull_request=7, head_commit=pull.head_sha)

    assert bound(fake, run, claim).pull_request.number == 7


@pytest.mark.parametrize(
    ("name", "run_id", "expected"), [("workflow_run", 9, 9), ("push", 9, None), ("workflow_run", True, None)]
)
def test_binding__the_run_is_that_of_the_event(name: str, run_id: object, expected: int | None) -> None:
    event = GitHubEvent(name=name, payload={"workflow_run": {"id": run_id}})

    assert activity(event, mode="auto").finished_run == expected
