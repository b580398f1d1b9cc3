"""Which commit a run is compared with: what the checkout lies on top of, whatever the event believes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from base_repos import Repo, new_repo
from fake_github import FakeGitHub, forbidden
from github_clock import client

from agent_eval.baseline.git import Git, GitError, Remote
from agent_eval.baseline.lookup import BaselineRequest, FetchFailed
from agent_eval.baseline.pin import find_request
from agent_eval.forge import Activity
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import GitHub

NO_GIT = GitError("/work is not in a git checkout.", hint="Check the repository out with git (actions/checkout).")
MERGE = "the first parent of the merge commit that was tested"
HEAD = "the merge base of the pull request's head and main"


@dataclass(frozen=True)
class Story:
    """A pull request that was opened on `old`; then main moved on, and GitHub merged the head with the new tip."""

    repo: Repo
    old: str
    tip: str
    head: str
    merged: str


@pytest.fixture
def story(tmp_path: Path) -> Story:
    repo = new_repo(tmp_path / "repo")
    repo.commit({"a": "1"})
    old = repo.commit({"a": "2"})
    repo.branch("feature", old)
    head = repo.commit({"b": "1"})
    repo.branch("main", old)
    tip = repo.commit({"a": "3"})
    return Story(repo, old, tip, head, repo.merge("feature", "main"))


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as made:
        yield made


def pull_request(head: str, base: str, *, name: str = "pull_request", sha: str | None = None) -> GitHubEvent:
    side = {"ref": "main", "sha": base, "repo": {"full_name": "octo/shop"}}
    payload = {
        "pull_request": {"number": 7, "head": {**side, "ref": "feature", "sha": head}, "base": side},
        "repository": {"default_branch": "main"},
    }
    return event(name, payload, sha=sha, ref="refs/pull/7/merge")


def event(name: str, payload: dict[str, Any], *, sha: str | None, ref: str) -> GitHubEvent:
    workflow = "octo/shop/.github/workflows/evals.yml@refs/heads/main"
    return GitHubEvent(
        name=name, payload=payload, sha=sha, ref=ref, repository="octo/shop", run_id=99, workflow_ref=workflow
    )


def find(
    made: GitHubEvent, git: Git | GitError, github: GitHub | None = None, *, base_ref: str | None = None
) -> BaselineRequest | FetchFailed:
    what: Activity = activity(made, mode="auto")
    return find_request(made, what, git=git, forge=github, artifact="agent-eval-results", base_ref=base_ref)


def request(commit: str, how: str, **changes: Any) -> BaselineRequest:
    facts: dict[str, Any] = {
        "repository": "octo/shop",
        "base_ref": "main",
        "commit": commit,
        "how": how,
        "is_pull_request": True,
        "workflow": ".github/workflows/evals.yml",
        "own_run": 99,
    }
    return BaselineRequest(**facts | changes)


@pytest.mark.parametrize("shallow", [False, True])
def test_pin__github_s_merge_has_the_tip_that_it_was_made_with_as_base_not_the_event_s(
    story: Story, tmp_path: Path, shallow: bool
) -> None:
    checkout = story.repo.shallow_checkout(story.merged, tmp_path / "clone") if shallow else story.repo
    made = pull_request(story.head, story.old, sha=story.merged)

    assert find(made, checkout.opened()) == request(story.tip, MERGE)


def test_pin__the_base_of_the_head_itself_is_the_merge_base(story: Story) -> None:
    story.repo.git("checkout", "-q", "--detach", story.head)
    made = pull_request(story.head, story.tip)
    assert find(made, story.repo.opened()) == request(story.old, HEAD)

    story.repo.commit({"generated": "1"})
    assert isinstance(find(made, story.repo.opened()), FetchFailed), "a commit of the workflow's own is no merge"


def test_pin__a_head_that_is_a_merge_of_main_is_no_merge_by_github(story: Story) -> None:
    """Somebody has merged main into the branch: its first parent is the branch's own commit."""
    story.repo.git("checkout", "-q", "feature")
    story.repo.git("merge", "-q", "-m", "Catch up", "main")
    head = story.repo.head

    assert find(pull_request(head, story.tip), story.repo.opened()) == request(story.tip, HEAD)


def test_pin__github_knows_the_merge_base_when_the_clone_is_shallow(
    story: Story, tmp_path: Path, fake: FakeGitHub
) -> None:
    fake.state.take_git(story.repo.root)
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")
    made = pull_request(story.head, story.tip)

    clone.opened().need(story.tip, Remote())  # both are here, but not what lies between

    assert find(made, clone.opened(), client(fake)) == request(story.old, HEAD)
    assert find(made, clone.opened()) == FetchFailed(
        message=f"The merge base of main and {story.head[:7]} is unknown, since this clone does not have the full "
        "history.",
        hint="Check out with `fetch-depth: 0`, or let this step have the token (`github-token`).",
    )


def test_pin__without_git_github_knows_what_was_merged(story: Story, fake: FakeGitHub) -> None:
    fake.state.take_git(story.repo.root)
    fake.state.commit(story.tip, story.head, sha=story.merged)
    made = pull_request(story.head, story.old, sha=story.merged)

    assert find(made, NO_GIT, client(fake)) == request(story.tip, MERGE)
    assert find(made, NO_GIT) == FetchFailed(
        message=f"The parents of {story.merged[:7]} are unknown: {NO_GIT.message}", hint=NO_GIT.hint
    )


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target"])
def test_pin__a_checkout_of_something_else_is_compared_with_nothing(story: Story, name: str) -> None:
    """`pull_request_target` checks out the base by default: it would be compared with itself."""
    story.repo.git("checkout", "-q", "--detach", story.tip)

    assert find(pull_request(story.head, story.tip, name=name), story.repo.opened()) == FetchFailed(
        message=f"The checkout ({story.tip[:7]}) is neither the pull request's head ({story.head[:7]}) nor its merge "
        "with main, so its base is unknown.",
        hint="Remove `ref` from the checkout step, and use the event pull_request.",
    )


@pytest.mark.parametrize("shallow", [False, True])
def test_pin__histories_without_a_common_commit(story: Story, tmp_path: Path, fake: FakeGitHub, shallow: bool) -> None:
    story.repo.git("checkout", "-q", "--orphan", "new")
    head = story.repo.commit({"c": "1"})
    fake.state.take_git(story.repo.root)
    checkout = story.repo.shallow_checkout(head, tmp_path / "clone") if shallow else story.repo

    assert find(pull_request(head, story.tip), checkout.opened(), client(fake)) == FetchFailed(
        message=f"There is no common ancestor of main and {head[:7]}, so there is nothing to compare with."
    )


def test_pin__a_github_that_does_not_tell(story: Story, tmp_path: Path, fake: FakeGitHub) -> None:
    fake.state.take_git(story.repo.root)
    fake.faults.append(forbidden())
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")

    baseline = find(pull_request(story.head, story.tip), clone.opened(), client(fake))

    assert isinstance(baseline, FetchFailed)
    assert baseline.message.startswith("The commit to compare with is unknown: ")
    assert "GitHub answered 403" in baseline.message


def group(head: str, base: str) -> GitHubEvent:
    payload = {"merge_group": {"head_sha": head, "base_sha": base, "base_ref": "refs/heads/main"}}
    return event("merge_group", payload, sha=head, ref="refs/heads/gh-readonly-queue/main/pr-7-x")


def test_pin__the_base_of_a_merge_group_is_that_of_its_event(story: Story) -> None:
    git = story.repo.opened()
    assert find(group(story.merged, story.tip), git) == request(story.tip, "the base of the merge group")

    other = find(group(story.head, story.tip), git)
    assert isinstance(other, FetchFailed)
    assert f"The checkout ({story.merged[:7]}) is not the merge group's commit ({story.head[:7]})" in other.message


def push(sha: str, branch: str) -> GitHubEvent:
    return event("push", {"repository": {"default_branch": "main"}}, sha=sha, ref=f"refs/heads/{branch}")


def test_pin__a_run_that_records_goes_on_from_its_own_commit(story: Story) -> None:
    story.repo.git("checkout", "-q", "main")

    expected = request(story.tip, "the tested commit itself", is_pull_request=False)
    assert find(push(story.tip, "main"), story.repo.opened()) == expected


def test_pin__a_push_to_a_branch_is_compared_with_the_default_branch(
    story: Story, tmp_path: Path, fake: FakeGitHub
) -> None:
    story.repo.git("checkout", "-q", "feature")
    fake.state.take_git(story.repo.root)
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")
    expected = request(story.old, "the merge base with main", is_pull_request=False)

    assert find(push(story.head, "feature"), story.repo.opened()) == expected
    assert find(push(story.head, "feature"), clone.opened(), client(fake)) == expected
    assert isinstance(find(push(story.head, "feature"), clone.opened()), FetchFailed)


def test_pin__on_a_laptop(story: Story) -> None:
    story.repo.git("checkout", "-q", "feature")

    baseline = find(GitHubEvent(), story.repo.opened())

    assert baseline == BaselineRequest(
        repository="", base_ref="main", commit=story.old, how="the merge base with main", is_pull_request=False
    )


@pytest.mark.parametrize("situation", ["main is behind", "main is ahead", "on the main that is ahead"])
def test_pin__on_a_laptop_with_a_clone(story: Story, tmp_path: Path, situation: str) -> None:
    """What the remote has counts, not a branch that was not pulled for a year. A baseline that was just committed to
    the local branch counts, too, unless the branch is what is tested.
    """
    clone = Repo(tmp_path / "clone")
    story.repo.git("checkout", "-q", "main")
    story.repo.git("clone", "-q", str(story.repo.root), str(clone.root))
    ahead = clone.commit({"baseline": "1"}) if "ahead" in situation else story.tip
    if situation != "on the main that is ahead":
        clone.git("checkout", "-q", "-b", "mine")
        clone.commit({"c": "1"})
    if situation == "main is behind":
        clone.git("branch", "-f", "main", story.old)

    baseline = find(GitHubEvent(), clone.opened(), base_ref="main" if "ahead" in situation else None)

    assert isinstance(baseline, BaselineRequest)
    expected = ahead if situation == "main is ahead" else story.tip
    assert (baseline.commit, baseline.tip) == (expected, expected if "ahead" in situation else "")


@pytest.mark.parametrize("named", ["release/1", "tag", "commit"])
def test_pin__what_base_ref_names(story: Story, named: str) -> None:
    """As in a merge request of GitLab, where the branch that it goes into need not be the default one."""
    story.repo.git("branch", "release/1", story.old)
    story.repo.git("tag", "tag", story.old)
    name = story.tip if named == "commit" else named

    baseline = find(GitHubEvent(), story.repo.opened(), base_ref=name)

    assert isinstance(baseline, BaselineRequest)
    assert baseline.commit == (story.tip if named == "commit" else story.old)
    assert (baseline.base_ref, baseline.is_pull_request) == (name, True)


def test_pin__a_base_ref_that_is_not_there(story: Story) -> None:
    assert find(GitHubEvent(), story.repo.opened(), base_ref="--output=x") == FetchFailed(
        message="This clone has no branch --output=x to compare with.",
        hint="Check the spelling. In CI, check out with `fetch-depth: 0`.",
        by_name=True,
    )
    misspelt = find(GitHubEvent(), story.repo.opened(), base_ref="mian")
    assert isinstance(misspelt, FetchFailed)
    assert misspelt.hint == "Did you mean main? In CI, check out with `fetch-depth: 0`."


def test_pin__a_repository_without_a_base(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    empty = find(GitHubEvent(), repo.opened())
    repo.git("checkout", "-q", "-b", "trunk")
    repo.commit({"a": "1"})

    assert empty == FetchFailed(message="The checkout has no commit.")
    assert find(GitHubEvent(), repo.opened()) == FetchFailed(
        message="This clone has no branch main or master to compare with.",
        hint="Name one with `base-ref`. In CI, check out with `fetch-depth: 0`.",
    )
