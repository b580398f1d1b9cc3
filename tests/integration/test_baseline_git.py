"""What we ask git, on real repositories, some of them hostile, and which commit a run is compared with."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from agents_open_dir import as_root
from base_repos import ENVIRON, Repo, new_repo
from fake_github import FakeGitHub, forbidden
from gate_runs import is_gone, wait_until
from github_clock import client
from golden_files import check
from upload_server import Received, Reply, upload_server

from agent_eval.baseline.git import Git, GitError, Remote, open_git
from agent_eval.baseline.pin import find_request
from agent_eval.forge import Activity
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import GitHub
from agent_eval_scoring.core.git_process import authorization, run_git

# What we ask git, on real repositories, some of them hostile.


TOKEN = "ghs_" + "k" * 36


def test_git__what_it_answers(repo: Repo, tmp_path: Path) -> None:
    first = repo.commit({"a": "1"})
    base = repo.commit({"a": "2"})
    repo.branch("feature", first)
    head = repo.commit({"b": "1"})
    merged = repo.merge("feature", "main")
    git = repo.opened()

    assert git.commit("HEAD") == git.commit(merged) == merged
    assert git.commit("refs/heads/main") == base
    assert [git.commit(name) for name in ("no-such-branch", "-x", "f" * 40)] == [None] * 3
    assert (git.parents(merged), git.parents(first), git.merge_base(base, head)) == ((base, head), (), first)
    assert (git.first_parents(merged, 10), git.first_parents(merged, 2)) == ([merged, base, first], [merged, base])
    assert (git.is_shallow(), git.changes(base, merged)) == (False, {"b": "A"})

    clone = repo.shallow_checkout(merged, tmp_path / "clone")
    git = clone.opened()
    assert (git.is_shallow(), git.parents(clone.head), git.commit(base)) == (True, (base, head), None)
    git.need(base, Remote())
    assert (git.commit(base), git.first_parents(base, 10)) == (base, [base]), "just that is fetched"
    assert (git.changes(base, merged), git.entry(base, PurePosixPath("a")) is None) == ({"b": "A"}, False)
    before = set(clone.root.rglob("*"))
    git.need(base, Remote(url="nowhere"))  # it is here: nobody is asked
    assert set(clone.root.rglob("*")) == before

    # Fetching does not cut off the history of a full clone, and moves nothing.
    repo.git("checkout", "-q", "main")
    full = Repo(tmp_path / "full")
    repo.git("clone", "-q", str(repo.root), str(full.root))
    new = repo.commit({"a": "3"})
    git = full.opened()
    git.need(new, Remote())
    assert (git.is_shallow(), git.first_parents(new, 10)) == (False, [new, base, first])
    assert not (full.root / ".git" / "FETCH_HEAD").exists()
    assert git.commit("refs/remotes/origin/main") == base


def test_git__what_it_refuses(repo: Repo, tmp_path: Path) -> None:
    commit = repo.commit({"a/b": "1"})
    git = repo.opened()
    asks: dict[str, Callable[[], object]] = {
        "outside of a checkout": lambda: open_git(tmp_path, ENVIRON),
        "without git": lambda: repo.opened(environ={"PATH": str(tmp_path)}).commit("HEAD"),
        "a path with a line break": lambda: git.entry(commit, PurePosixPath("a\nb")),
    }
    for sha in ("HEAD", "--upload-pack=touch x", "", "abc", "F" * 40):
        asks |= {f"the parents of {sha!r}": partial(git.parents, sha), f"the file {sha!r}": partial(git.blob, sha)}
        asks[f"what is before {sha!r}"] = partial(git.first_parents, sha, 1)
        asks[f"fetching {sha!r}"] = partial(git.need, sha, Remote())
    for url in ("origin", "ssh://git@github.com/o/r", "https://user@github.com/o/r", "ext::sh -c x"):
        asks[f"a token for {url}"] = partial(git.need, "e" * 40, Remote(url=url, token=TOKEN))
    said = []
    for question, ask in asks.items():
        with pytest.raises(GitError) as refused:
            ask()
        assert TOKEN not in f"{refused.value!r} {refused.value.message}"
        text = f"{refused.value.message} {refused.value.hint or ''}".rstrip().replace(str(tmp_path), "FOLDER")
        said.append(f"{question}: {text}\n")
    check("golden_git_refusals.txt", "".join(said))
    with pytest.raises(GitError, match="is outside repository"):
        git.entry(commit, PurePosixPath("../a"))


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
    found = {}
    for name in ("a b/ü.json", "*", *links, "folder/ü.json", "a b", "ü.json", "x missing", "*/x"):
        entry = git.entry(commit, PurePosixPath(name))
        found[name] = entry and (git.blob(entry.blob) if entry.size is not None else "no file")

    assert found == {
        **dict.fromkeys(("a b/ü.json", "link", "chain", "folder/ü.json"), b"{}"),
        "*": b"star",
        **dict.fromkeys(("a b", "folder", "outside", "above", "nowhere", "loop"), "no file"),
        **dict.fromkeys(("ü.json", "x missing", "*/x")),
    }


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


@dataclass(frozen=True)
class Story:
    """A pull request that was opened on `old`; then main moved on, and GitHub merged the head with the new tip."""

    repo: Repo
    old: str
    tip: str
    head: str
    merged: str

    def at(self, commit: str) -> Git:
        self.repo.git("checkout", "-q", "--detach", commit)
        return self.repo.opened()

    def clone_at(self, commit: str) -> Git:
        """In a clone of depth 1."""
        return self.repo.shallow_checkout(commit, Path(tempfile.mkdtemp(dir=self.repo.root.parent)) / "clone").opened()


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


def event(name: str, sha: str | None, ref: str, **payload: Any) -> GitHubEvent:
    return GitHubEvent(
        name=name,
        payload={"repository": {"default_branch": "main"}, **payload},
        sha=sha,
        ref=ref,
        repository="octo/shop",
        run_id=99,
        workflow_ref="octo/shop/.github/workflows/evals.yml@refs/heads/main",
    )


def pull_request(head: str, base: str, *, name: str = "pull_request", sha: str | None = None) -> GitHubEvent:
    side = {"ref": "main", "sha": base, "repo": {"full_name": "octo/shop"}}
    facts = {"number": 7, "head": {**side, "ref": "feature", "sha": head}, "base": side}
    return event(name, sha, "refs/pull/7/merge", pull_request=facts)


def group(head: str, base: str) -> GitHubEvent:
    facts = {"head_sha": head, "base_sha": base, "base_ref": "refs/heads/main"}
    return event("merge_group", head, "refs/heads/gh-readonly-queue/main/pr-7-x", merge_group=facts)


def push(sha: str, branch: str) -> GitHubEvent:
    return event("push", sha, f"refs/heads/{branch}")


@dataclass
class Said:
    """Which commit was found in each situation, in words."""

    names: dict[str, str]
    """Of commits."""
    said: list[str] = field(default_factory=list)

    def find(
        self,
        situation: str,
        made: GitHubEvent,
        git: Git | GitError,
        forge: GitHub | None = None,
        *,
        base_ref: str | None = None,
    ) -> None:
        what: Activity = activity(made, mode="auto")
        found = find_request(made, what, git=git, forge=forge, artifact="the-artifact", base_ref=base_ref)
        text = ", ".join(f"{name}={value!r}" for name, value in vars(found).items() if value not in (None, "", ()))
        for name, sha in self.names.items():
            text = text.replace(sha, name.upper()).replace(sha[:7], name.upper())
        self.said.append(f"{situation}\n    {type(found).__name__}: {text}\n")


def test_pin__which_commit_a_run_is_compared_with(story: Story, github: FakeGitHub) -> None:
    commits = {"old": story.old, "tip": story.tip, "head": story.head, "merged": story.merged}
    find = (said := Said(commits)).find
    github.state.take_git(story.repo.root)
    forge = client(github)
    merged = pull_request(story.head, story.old, sha=story.merged)
    find("GitHub's merge, whose first parent is newer than the event's base", merged, story.at(story.merged))
    find("GitHub's merge, in a shallow clone", merged, story.clone_at(story.merged))
    github.state.commit(story.tip, story.head, sha=story.merged)
    find("GitHub's merge, without git", merged, NO_GIT, forge)
    find("GitHub's merge, without git and GitHub", merged, NO_GIT)

    made = pull_request(story.head, story.tip)
    find("the head itself", made, story.at(story.head))
    clone = story.clone_at(story.head)
    find("the head itself, in a shallow clone", made, clone, forge)
    clone.need(story.tip, Remote())  # Both are here, but not what lies between.
    find("the head itself, in a shallow clone that has the tip, too", made, clone, forge)
    find("the head itself, in a shallow clone without GitHub", made, clone)
    github.faults.append(forbidden())
    find("the head itself, in a shallow clone, and GitHub does not tell", made, story.clone_at(story.head), forge)
    github.faults.clear()
    story.at(story.head)
    commits["generated"] = story.repo.commit({"generated": "1"})
    find("a commit of the workflow's own on the head is no merge", made, story.repo.opened())
    find("another checkout than the event's", made, story.at(story.tip))
    # It checks out the base by default, which would be compared with itself.
    by_target = pull_request(story.head, story.tip, name="pull_request_target")
    find("another checkout than the event's, of pull_request_target", by_target, story.at(story.tip))
    story.at(story.head)
    story.repo.git("merge", "-q", "-m", "Catch up", "main")
    commits["caught up"] = story.repo.head
    find("a head into which main was merged", pull_request(story.repo.head, story.tip), story.repo.opened())

    find("a merge group", group(story.merged, story.tip), story.at(story.merged))
    find("a merge group, and another checkout", group(story.head, story.tip), story.at(story.merged))
    find("a push to main", push(story.tip, "main"), story.at(story.tip))
    find("a push to another branch", push(story.head, "feature"), story.at(story.head))
    find("a push to another branch, in a shallow clone", push(story.head, "feature"), clone, forge)
    find("a push to another branch, in a shallow clone without GitHub", push(story.head, "feature"), clone)
    find("on a laptop", GitHubEvent(), story.at(story.head))
    find("on a laptop, without git", GitHubEvent(), NO_GIT)
    find("base-ref: a branch that a shallow clone lacks", GitHubEvent(), clone, base_ref="stable")
    story.repo.git("branch", "release/1", story.old)
    story.repo.git("tag", "first", story.old)
    for name in ("release/1", "first", story.tip, "--output=x", "mian"):
        find(
            f"base-ref: {'a commit' if name == story.tip else name}", GitHubEvent(), story.at(story.head), base_ref=name
        )

    # What the remote has counts, not a branch that was not pulled for a year. A baseline that was just committed to the
    # local branch counts, too, unless the branch is what is tested.
    story.repo.git("checkout", "-q", "main")
    laptop = Repo(story.repo.root.parent / "laptop")
    story.repo.git("clone", "-q", str(story.repo.root), str(laptop.root))
    commits["ahead"] = laptop.commit({"baseline": "1"})
    find("on a laptop, on the main that is ahead", GitHubEvent(), laptop.opened(), base_ref="main")
    laptop.branch("mine")
    laptop.commit({"c": "1"})
    find("on a laptop whose main is ahead", GitHubEvent(), laptop.opened(), base_ref="main")
    laptop.git("branch", "-f", "main", story.old)
    find("on a laptop whose main is behind", GitHubEvent(), laptop.opened())

    story.repo.git("checkout", "-q", "--orphan", "new")
    commits["orphan"] = story.repo.commit({"c": "1"})
    github.state.take_git(story.repo.root)
    made = pull_request(story.repo.head, story.tip)
    find("histories without a common commit", made, story.repo.opened(), forge)
    find("histories without a common commit, in a shallow clone", made, story.clone_at(story.repo.head), forge)

    empty = new_repo(story.repo.root.parent / "empty")
    find("a repository without a commit", GitHubEvent(), empty.opened())
    empty.git("checkout", "-q", "-b", "trunk")
    empty.commit({"a": "1"})
    find("a repository without a base", GitHubEvent(), empty.opened())
    check("golden_pins.txt", "".join(said.said))
