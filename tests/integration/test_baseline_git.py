"""What we ask git, on real repositories, some of them hostile, and which commit a run is compared with."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from agents_open_dir import as_root
from base_repos import ENVIRON, Repo, new_repo
from fake_github import FakeGitHub, forbidden
from gate_runs import is_gone, wait_until
from github_clock import client
from upload_server import Received, Reply, upload_server

from agent_eval.baseline.git import Git, GitError, Remote, open_git
from agent_eval.baseline.lookup import BaselineRequest, FetchFailed
from agent_eval.baseline.pin import find_request
from agent_eval.core.git_process import authorization, run_git
from agent_eval.forge import Activity
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import GitHub

# What we ask git, on real repositories, some of them hostile.


TOKEN = "ghs_" + "k" * 36


def test_git__commits_parents_and_the_merge_base(repo: Repo) -> None:
    first = repo.commit({"a": "1"})
    base = repo.commit({"a": "2"})
    repo.branch("feature", first)
    head = repo.commit({"b": "1"})
    merged = repo.merge("feature", "main")
    git = repo.opened()

    assert git.commit("HEAD") == git.commit(merged) == merged
    assert git.commit("refs/heads/main") == base
    assert git.commit("no-such-branch") is None
    assert git.commit("-x") is None
    assert git.commit("f" * 40) is None
    assert git.parents(merged) == (base, head)
    assert git.parents(first) == ()
    assert git.merge_base(base, head) == first
    assert git.first_parents(merged, 10) == [merged, base, first]
    assert git.first_parents(merged, 2) == [merged, base]
    assert git.is_shallow() is False
    assert git.changes(base, merged) == {"b": "A"}


def test_git__a_shallow_clone_finds_its_base_and_fetches_just_that(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "1"})
    base = repo.commit({"a": "2"})
    repo.branch("feature")
    head = repo.commit({"b": "1"})
    clone = repo.shallow_checkout(repo.merge("feature", "main"), tmp_path / "clone")
    git = clone.opened()

    assert git.is_shallow() is True
    assert git.parents(clone.head) == (base, head)
    assert git.commit(base) is None
    git.need(base, Remote())
    assert git.commit(base) == base
    assert git.changes(base, clone.head) == {"b": "A"}
    assert git.first_parents(base, 10) == [base]
    assert git.entry(base, PurePosixPath("a")) is not None
    before = set(clone.root.rglob("*"))
    git.need(base, Remote(url="nowhere"))  # it is here: nobody is asked
    assert set(clone.root.rglob("*")) == before


def test_git__fetching_does_not_cut_off_the_history_of_a_full_clone(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "1"})
    old = repo.head
    clone = tmp_path / "clone"
    repo.git("clone", "-q", str(repo.root), str(clone))
    new = repo.commit({"a": "2"})
    git = Repo(clone).opened()
    fetch_head = clone / ".git" / "FETCH_HEAD"

    git.need(new, Remote())

    assert git.is_shallow() is False
    assert git.first_parents(new, 10) == [new, old]
    assert not fetch_head.exists()
    assert git.commit("refs/remotes/origin/main") == old


@pytest.mark.parametrize("sha", ["HEAD", "--upload-pack=touch x", "", "abc", "F" * 40])
def test_git__only_full_hashes_get_into_a_command(repo: Repo, sha: str) -> None:
    repo.commit({"a": "1"})
    git = repo.opened()

    for ask in (git.parents, git.blob, lambda item: git.need(item, Remote()), lambda item: git.first_parents(item, 1)):
        with pytest.raises(GitError, match="is not the full sha of a commit"):
            ask(sha)


def test_git__entries_distinguish_files_from_what_only_looks_like_one(repo: Repo) -> None:
    repo.write({"a b/ü.json": "{}", "*": "star"})
    links = {
        "link": "a b/ü.json",
        "folder": "a b",
        "chain": "folder/ü.json",
        "outside": "/etc/passwd",
        "above": "../x",
        "nowhere": "x",
        "loop": "loop",
    }
    for name, target in links.items():
        (repo.root / name).symlink_to(target)
    commit = repo.commit({})
    git = repo.opened()

    baseline = git.entry(commit, PurePosixPath("a b/ü.json"))
    assert baseline is not None
    assert (baseline.size, git.blob(baseline.blob)) == (2, b"{}")
    star = git.entry(commit, PurePosixPath("*"))
    assert star is not None
    assert git.blob(star.blob) == b"star"
    for name in ("link", "chain", "folder/ü.json"):
        assert git.entry(commit, PurePosixPath(name)) == baseline, name
    for name in ("a b", "folder", "outside", "above", "nowhere", "loop"):
        entry = git.entry(commit, PurePosixPath(name))
        assert entry is not None and entry.size is None, name
    for name in ("ü.json", "x missing", "*/x"):
        assert git.entry(commit, PurePosixPath(name)) is None, name
    with pytest.raises(GitError, match="has a line break"):
        git.entry(commit, PurePosixPath("a\nb"))
    with pytest.raises(GitError, match="is outside repository"):
        git.entry(commit, PurePosixPath("../a"))


def test_git__is_not_led_elsewhere_by_our_environment(repo: Repo, tmp_path: Path) -> None:
    request = repo.commit({"a": "1"})
    other = new_repo(tmp_path / "other")
    other.commit({"b": "1"})
    environ = {
        **ENVIRON,
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='touch /tmp/x'",
        "GIT_EXTERNAL_DIFF": "false",
    }

    assert repo.opened(environ=environ).commit("HEAD") == request


def _program(path: Path, mark: Path) -> str:
    path.write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_git__neither_hooks_nor_a_monitor_run(repo: Repo, tmp_path: Path) -> None:
    commit = repo.commit({"a": "1"})
    mark = tmp_path / "mark"
    program = _program(tmp_path / "program", mark)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        shutil.copy(program, repo.root / ".git" / "hooks" / hook)
    repo.git("config", "core.fsmonitor", program)
    repo.git("config", "diff.external", program)
    mark.unlink(missing_ok=True)
    git = repo.opened()

    git.add_worktree(tmp_path / "tree", commit)
    git.files(tmp_path / "tree")
    git.changes(commit, commit)
    git.remove_worktree(tmp_path / "tree")

    assert not mark.exists()
    repo.git("status")  # the trap works
    assert mark.exists()


def test_git__a_directory_that_looks_like_a_bare_repository_is_just_a_directory(repo: Repo, tmp_path: Path) -> None:
    """A pull request can commit one, with a configuration that names programs (git's `safe.bareRepository`)."""
    mark = tmp_path / "mark"
    repo.write({"evals/HEAD": "ref: refs/heads/main\n", "evals/objects/x": "", "evals/refs/x": ""})
    program = _program(tmp_path / "program", mark)
    repo.write({"evals/config": f"[core]\n\tbare = true\n\tfsmonitor = {program}\n\tworktree = {repo.root}\n"})
    commit = repo.commit({})

    git = open_git(repo.root / "evals", ENVIRON)

    assert git.top == repo.root.resolve()
    assert git.prefix == PurePosixPath("evals")
    assert git.commit("HEAD") == commit
    assert not mark.exists()


def test_git__outside_of_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="is not in a git checkout"):
        open_git(tmp_path, ENVIRON)


def test_git__without_git(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "1"})
    with pytest.raises(GitError, match="git could not be started"):
        repo.opened(environ={"PATH": str(tmp_path)}).commit("HEAD")


def test_git__a_git_that_hangs_is_killed_with_its_helpers(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "1"})
    (tmp_path / "bin").mkdir()
    pid = tmp_path / "pid"
    fake = tmp_path / "bin" / "git"
    fake.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {pid}\nwait\n", encoding="utf-8")
    fake.chmod(0o755)
    git = repo.opened(timeout=1.5, environ={"PATH": f"{tmp_path / 'bin'}:{ENVIRON['PATH']}"})

    with pytest.raises(GitError, match=r"took longer than 1\.5 seconds"):
        git.commit("HEAD")

    wait_until(lambda: is_gone(int(pid.read_text("utf-8"))))


def test_git__the_token_goes_to_its_server_once_and_into_no_message(repo: Repo) -> None:
    repo.commit({"a": "1"})
    with upload_server(lambda request: Reply(403)) as forge, pytest.raises(GitError) as caught:
        # What actions/checkout leaves behind: two headers would make GitHub refuse both.
        repo.git("config", f"http.{forge.url}/.extraheader", "AUTHORIZATION: basic b2xk")
        repo.opened().need("e" * 40, Remote(url=f"{forge.url}/octo/bots", token=TOKEN))

    assert forge.received
    for request in forge.received:
        assert request.path.startswith("/octo/bots/info/refs")
        kind, secret = request.headers["authorization"].split(" ")
        assert kind == "basic" and secret != "b2xk"
        assert secret not in caught.value.message
    assert TOKEN not in f"{caught.value!r} {caught.value.message}"
    assert caught.value.__cause__ is None
    assert TOKEN not in repr(Remote(url="x", token=TOKEN))


def test_git__the_token_does_not_follow_a_redirect(repo: Repo) -> None:
    repo.commit({"a": "1"})

    def elsewhere(request: Received) -> Reply:
        there = f"http://localhost:{forge.url.rpartition(':')[2]}/evil/info/refs?service=git-upload-pack"
        return Reply(302, headers={"Location": there})

    with upload_server(elsewhere) as forge, pytest.raises(GitError):
        repo.opened().need("e" * 40, Remote(url=f"{forge.url}/octo/bots", token=TOKEN))

    assert [request.path for request in forge.received if request.path.startswith("/evil")] == []


@pytest.mark.parametrize("url", ["origin", "ssh://git@github.com/o/r", "https://user@github.com/o/r", "ext::sh -c x"])
def test_git__a_token_is_for_http_only(repo: Repo, url: str) -> None:
    repo.commit({"a": "1"})
    with pytest.raises(GitError, match="A token is sent to http"):
        repo.opened().need("e" * 40, Remote(url=url, token=TOKEN))


@as_root
def test_git__a_checkout_of_another_user_is_read_and_written_as_that_user() -> None:
    base = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        base.chmod(0o755)
        repo = new_repo(base / "repo")
        repo.commit({"a": "1"})
        request = repo.head
        clone = repo.shallow_checkout(request, base / "clone")
        newer = repo.commit({"a": "2"})
        for path in (clone.root, *clone.root.rglob("*"), repo.root, *repo.root.rglob("*")):
            os.chown(path, 4242, 4242, follow_symlinks=False)
        git = clone.opened()

        assert git.commit("HEAD") == request  # not "dubious ownership"
        git.need(newer, Remote())

        assert {path.lstat().st_uid for path in clone.root.rglob("*")} == {4242}
    finally:
        shutil.rmtree(base)


@as_root
def test_git__a_checkout_that_its_owner_can_not_get_at_is_read_by_us(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    repo = new_repo(tmp_path / "closed" / "repo")
    request = repo.commit({"a": "1"})
    for path in (repo.root, *repo.root.rglob("*")):
        os.chown(path, 4242, 4242, follow_symlinks=False)

    assert repo.opened().commit("HEAD") == request


@as_root
def test_git__a_repository_around_us_of_another_user_is_not_asked(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    repo.commit({"a/b": "1"})
    os.chown(repo.root / ".git", 4242, 4242)
    with pytest.raises(GitError, match="has another owner than"):
        open_git(repo.root / "a", ENVIRON)


def test_git__what_git_says_is_masked_before_it_is_shortened(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "shop")
    config = authorization("https://github.com/octo/shop", "ghs_" + "k" * 36)
    secret = config[1][1].rpartition(" ")[2]
    for length in range(20, 260, 20):
        arguments = ["rev-parse", "x" * length + secret + "y" * 300]
        with pytest.raises(GitError) as caught:
            run_git(arguments, cwd=repo.root, environment=ENVIRON, config=config, owner=None, timeout=20)
        assert secret[:8] not in str(caught.value) and secret[-8:] not in str(caught.value)


# Which commit a run is compared with: what the checkout lies on top of, whatever the event believes.


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
    story: Story, tmp_path: Path, github: FakeGitHub
) -> None:
    github.state.take_git(story.repo.root)
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")
    made = pull_request(story.head, story.tip)

    clone.opened().need(story.tip, Remote())  # both are here, but not what lies between

    assert find(made, clone.opened(), client(github)) == request(story.old, HEAD)
    assert find(made, clone.opened()) == FetchFailed(
        message=f"The merge base of main and {story.head[:7]} is unknown, since this clone does not have the full "
        "history.",
        hint="Check out with `fetch-depth: 0`, or let this step have the token (`github-token`).",
    )


def test_pin__without_git_github_knows_what_was_merged(story: Story, github: FakeGitHub) -> None:
    github.state.take_git(story.repo.root)
    github.state.commit(story.tip, story.head, sha=story.merged)
    made = pull_request(story.head, story.old, sha=story.merged)

    assert find(made, NO_GIT, client(github)) == request(story.tip, MERGE)
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
def test_pin__histories_without_a_common_commit(
    story: Story, tmp_path: Path, github: FakeGitHub, shallow: bool
) -> None:
    story.repo.git("checkout", "-q", "--orphan", "new")
    head = story.repo.commit({"c": "1"})
    github.state.take_git(story.repo.root)
    checkout = story.repo.shallow_checkout(head, tmp_path / "clone") if shallow else story.repo

    assert find(pull_request(head, story.tip), checkout.opened(), client(github)) == FetchFailed(
        message=f"There is no common ancestor of main and {head[:7]}, so there is nothing to compare with."
    )


def test_pin__a_github_that_does_not_tell(story: Story, tmp_path: Path, github: FakeGitHub) -> None:
    github.state.take_git(story.repo.root)
    github.faults.append(forbidden())
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")

    baseline = find(pull_request(story.head, story.tip), clone.opened(), client(github))

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
    story: Story, tmp_path: Path, github: FakeGitHub
) -> None:
    story.repo.git("checkout", "-q", "feature")
    github.state.take_git(story.repo.root)
    clone = story.repo.shallow_checkout(story.head, tmp_path / "clone")
    expected = request(story.old, "the merge base with main", is_pull_request=False)

    assert find(push(story.head, "feature"), story.repo.opened()) == expected
    assert find(push(story.head, "feature"), clone.opened(), client(github)) == expected
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
