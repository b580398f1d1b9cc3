"""The base's agent in a worktree: complete or not at all, readable for the agent's user, gone afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from agents_open_dir import as_root
from base_repos import ENVIRON, Repo, new_repo
from baseline_samples import case, results
from gate_runs import AGENT_EVAL, program
from rerun_repos import two_versions

from agent_eval.agents.discovery.finder import AgentChoice
from agent_eval.agents.discovery.locate import AgentChoices
from agent_eval.agents.sandbox.sealing import blocked_at
from agent_eval.agents.sandbox.spawn import Account
from agent_eval.baseline.git import Git, GitError, Remote
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, NoneYet, Provenance
from agent_eval.baseline.rerun import (
    BaseWorktree,
    NotOnBase,
    RerunSource,
    agents_on_base,
    base_checkout,
    open_base,
)
from agent_eval.results.report import RunReport

# The base's agent in a worktree: complete or not at all, readable for the agent's user, gone afterwards.


AGENT = "root_agent = 'base'\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where temporary directories are made."""
    path = tmp_path / "temporary"
    path.mkdir()
    return path


def traces(repo: Repo, place: Path) -> list[str]:
    """What should not be left."""
    listed = repo.git("worktree", "list", "--porcelain").split("\n\n")
    return [*(item for item in listed[1:] if item), *(str(path) for path in place.iterdir())]


def refused(git: Git, commit: str, place: Path, message: str, kind: type[Exception] = GitError) -> None:
    """There is no checkout, and nothing is left of it."""
    with pytest.raises(kind, match=message), base_checkout(git, commit, directory=place):
        pass
    assert list(place.iterdir()) == []


def test_rerun__the_base_as_files_outside_of_the_workspace_and_nothing_left_of_them(repo: Repo, place: Path) -> None:
    base = repo.commit({"bot/agent.py": AGENT, ".gitignore": "data/\n"})
    repo.branch("feature")
    repo.commit({"bot/agent.py": "root_agent = 'head'\n", "new.py": ""})
    repo.write({"data/big.bin": "made by an earlier step", "bot/agent.py": "root_agent = 'not committed'\n"})
    status = repo.git("status", "--porcelain")

    with base_checkout(repo.opened(), base, directory=place) as checkout:
        assert checkout.root == checkout.top
        assert not checkout.top.is_relative_to(repo.root)
        assert (checkout.root / "bot" / "agent.py").read_text(encoding="utf-8") == AGENT
        assert not (checkout.root / "new.py").exists()
        assert not (checkout.root / "data").exists()
        assert len(traces(repo, place)) == 2

    assert traces(repo, place) == []
    assert repo.git("status", "--porcelain") == status
    assert repo.git("branch", "--format=%(refname:short)").split() == ["feature", "main"]


def test_rerun__in_a_clone_of_depth_one_the_base_is_fetched(repo: Repo, tmp_path: Path, place: Path) -> None:
    base = repo.commit({"bot/agent.py": AGENT})
    repo.branch("feature")
    repo.commit({"bot/agent.py": "root_agent = 'head'\n"})
    clone = repo.shallow_checkout(repo.merge("feature", "main"), tmp_path / "clone")

    with base_checkout(clone.opened(), base, directory=place) as checkout:
        assert (checkout.root / "bot" / "agent.py").read_text(encoding="utf-8") == AGENT

    assert traces(clone, place) == []


def test_rerun__where_agent_eval_works_in_a_directory_of_the_repository(repo: Repo, place: Path) -> None:
    older = repo.commit({"README": ""})
    base = repo.commit({"services/bots/bot/agent.py": AGENT})
    git = Repo(repo.root / "services" / "bots").opened()

    with base_checkout(git, base, directory=place) as checkout:
        assert checkout.root == checkout.top / "services" / "bots"
        assert (checkout.root / "bot" / "agent.py").is_file()
    refused(git, older, place, rf"The base branch \({older[:7]}\) has no directory services/bots\.", NotOnBase)

    assert traces(repo, place) == []


def test_rerun__a_directory_that_is_a_link_out_of_the_base_is_none(repo: Repo, place: Path) -> None:
    (repo.root / "bots").symlink_to("/etc")
    base = repo.commit({})
    repo.git("rm", "-q", "bots")
    repo.commit({"bots/agent.py": AGENT})

    refused(Repo(repo.root / "bots").opened(), base, place, "has no directory bots", NotOnBase)


def test_rerun__it_goes_after_an_error_and_when_the_agent_has_locked_a_directory(repo: Repo, place: Path) -> None:
    base = repo.commit({"bot/agent.py": AGENT})

    with pytest.raises(ZeroDivisionError), base_checkout(repo.opened(), base, directory=place) as checkout:
        (checkout.root / "bot" / "cache").mkdir()
        (checkout.root / "bot" / "cache" / "x").touch()
        (checkout.root / "bot" / "cache").chmod(0)
        raise ZeroDivisionError

    assert traces(repo, place) == []


def test_rerun__a_worktree_of_another_user_stays(repo: Repo, place: Path, tmp_path: Path) -> None:
    """Also one whose directory can't be seen at the moment, e.g. on a drive that is not mounted."""
    base = repo.commit({"bot/agent.py": AGENT})
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "mine"))
    (tmp_path / "mine").rename(tmp_path / "away")

    with base_checkout(repo.opened(), base, directory=place):
        pass

    assert str(tmp_path / "mine") in repo.git("worktree", "list", "--porcelain")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"
LFS = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "bot/model.bin": POINTER.format("0" * 64)}


def test_rerun__large_files_that_only_the_head_has_make_the_base_another_agent(repo: Repo, place: Path) -> None:
    base = repo.commit({"bot/agent.py": AGENT, **LFS})
    repo.write({"bot/model.bin": "the real one"})  # as actions/checkout does with `lfs: true`

    refused(repo.opened(), base, place, r"bot/model\.bin is stored in Git LFS, which `baseline: rerun` does not fetch")


def test_rerun__large_files_that_neither_side_has_make_no_difference(repo: Repo, place: Path) -> None:
    base = repo.commit({"bot/agent.py": AGENT, **LFS})
    repo.git("config", "filter.lfs.process", "false")  # as `git lfs install` does; the program may not be there
    repo.git("config", "filter.lfs.smudge", "false")
    repo.git("config", "filter.lfs.required", "true")

    with base_checkout(repo.opened(), base, directory=place) as checkout:
        assert (checkout.root / "bot" / "model.bin").read_text(encoding="utf-8") == LFS["bot/model.bin"]


@pytest.mark.parametrize("is_there", [True, False])
def test_rerun__submodules(repo: Repo, tmp_path: Path, place: Path, is_there: bool) -> None:
    library = new_repo(tmp_path / "library")
    library.commit({"lib.py": ""})
    repo.commit({"bot/agent.py": AGENT})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "vendored")
    base = repo.commit({})
    if not is_there:  # as actions/checkout leaves it without `submodules: true`
        repo.git("submodule", "--quiet", "deinit", "--force", "vendored")
        with base_checkout(repo.opened(), base, directory=place) as checkout:
            assert list((checkout.root / "vendored").iterdir()) == []
    else:
        message = "has the submodule vendored, which `baseline: rerun` does not fetch"
        refused(repo.opened(), base, place, message)

    assert traces(repo, place) == []


@as_root
def test_rerun__the_agents_user_can_read_it_and_not_write_to_it() -> None:
    """With the checkout of a runner's user, a home that nobody else may enter and a strict umask."""
    base = Path(tempfile.mkdtemp(dir="/var/tmp"))
    before = os.umask(0o077)
    try:
        base.chmod(0o755)
        repo = new_repo(base / "repo")
        commit = repo.commit({"bot/agent.py": AGENT, "bot/data/x": "1"})
        for path in (repo.root, *repo.root.rglob("*")):
            os.chown(path, 4242, 4242, follow_symlinks=False)
        agent = Account(name="agent", uid=10001, gid=10001, home=base)
        place = base / "temporary"
        place.mkdir()
        place.chmod(0o1777)

        with base_checkout(repo.opened(environ={**ENVIRON, "HOME": "/root"}), commit, directory=place) as checkout:
            for path in (checkout.root, *checkout.root.rglob("*")):
                assert path.lstat().st_uid == 4242
                assert blocked_at(path, agent, need=os.R_OK) is None
                assert blocked_at(path, agent, need=os.W_OK) is not None

        assert list(place.iterdir()) == []
        assert {path.lstat().st_uid for path in repo.root.rglob("*")} == {4242}
    finally:
        os.umask(before)
        shutil.rmtree(base)


async def test_rerun__it_goes_when_the_run_is_cancelled_while_git_works(
    repo: Repo, tmp_path: Path, place: Path
) -> None:
    base = repo.commit({"bot/agent.py": AGENT})
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "git"
    real = shutil.which("git")
    slow.write_text(f'#!/bin/sh\ncase "$*" in *"worktree add"*) sleep 0.4;; esac\nexec {real} "$@"\n', encoding="utf-8")
    slow.chmod(0o755)
    git = repo.opened(environ={**ENVIRON, "PATH": f"{tmp_path / 'bin'}:{ENVIRON['PATH']}"})

    async def use() -> None:
        async with open_base(git, base, directory=place):
            raise AssertionError("it was cancelled before")

    task = asyncio.create_task(use())
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert traces(repo, place) == []


def checkout_of(root: Path, head: Path) -> BaseWorktree:
    return BaseWorktree(root=root, top=root, head_top=head, commit="abc1234" + "0" * 33)


def test_rerun__agents_that_the_base_has_and_those_that_it_has_not(tmp_path: Path) -> None:
    head, base = (tmp_path / "head").resolve(), (tmp_path / "base").resolve()
    for path in (head / "bots/home", head / "bots/new", head / "bots/moved", base / "bots/home", base / "bots/moved"):
        path.mkdir(parents=True)
        (path / "agent.py").write_text(AGENT, encoding="utf-8")
    (base / "bots/moved/agent.py").write_text("# moved to bots.new\n", encoding="utf-8")
    (base / "bots/link").symlink_to(head / "bots/home")
    (head / "package").mkdir()
    (head / "src" / "both").mkdir(parents=True)
    (base / "both.py").touch()
    (base / "old.jsonl").touch()
    names = {
        "bots/home": None,
        "bots/new": "There is no agent bots/new on the base branch (abc1234).",
        "bots/moved": "There is no agent bots/moved on the base branch (abc1234).",
        "bots/link": "bots/link points outside the repository on the base branch (abc1234).",
        str(tmp_path / "else"): f"{tmp_path / 'else'} is outside the repository, so there is no version of it on "
        "the base branch (abc1234).",
        "package.agent": "There is no module package.agent on the base branch (abc1234).",
        "both.agent": None,
        "installed.agent": None,
        "recorded:old.jsonl": None,
        "recorded:new.jsonl": "There is no recording new.jsonl on the base branch (abc1234).",
    }
    (head / "bots/link").symlink_to(head / "bots/home")
    choices = AgentChoices(
        by_file={f"{number}.test.json": AgentChoice(path=name, reason="named") for number, name in enumerate(names)}
    )

    result = agents_on_base(choices, checkout_of(base, head), head)

    assert result.missing == {name: reason for name, reason in names.items() if reason is not None}
    assert [choice.path for choice in result.choices.by_file.values()] == [
        name for name in names if names[name] is None
    ]


def test_rerun__pythonpath_points_to_the_modules_of_the_base(tmp_path: Path) -> None:
    head, base = (tmp_path / "head").resolve(), (tmp_path / "base").resolve()
    environ = {
        "PYTHONPATH": os.pathsep.join(["src", f"{head}/src", str(head), "/opt/shared", ""]),
        "PATH": f"{head}/bin",
    }

    changed = checkout_of(base, head).environment(environ)

    assert changed == {
        "PYTHONPATH": os.pathsep.join(["src", f"{base}/src", str(base), "/opt/shared", ""]),
        "PATH": f"{head}/bin",
    }
    assert checkout_of(base, head).environment({"PATH": "/bin"}) == {"PATH": "/bin"}


def request(commit: str) -> BaselineRequest:
    return BaselineRequest(repository="", base_ref="main", commit=commit, how="the merge base", is_pull_request=True)


async def rerun(repo: Repo, commit: str, answer: RunReport | Exception, seen: list[Path] | None = None) -> Baseline:
    async def run(checkout: BaseWorktree) -> RunReport:
        if seen is not None:
            seen.append(checkout.root)
            assert (checkout.root / "bot" / "agent.py").is_file()
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await RerunSource(git=repo.opened(), run=run).find(request(commit))


async def test_rerun__what_the_bases_agent_scores_is_the_baseline(repo: Repo) -> None:
    base = repo.commit({"bot/agent.py": AGENT})
    seen: list[Path] = []
    report = results(case("one"), case("two", "failed"))

    result = await rerun(repo, base, report, seen)

    assert result == Found(
        report=report,
        provenance=Provenance(commit=base, distance=0, recorded_at=report.started_at),
        message=f"The agent of main at {base[:7]} ran this run's eval files (2 cases).",
    )
    assert [path.exists() for path in seen] == [False]


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (results(case("one", "not_run")), FetchFailed, "was re-run, but 1 of its 1 case did not finish"),
        (NotOnBase("There is no agent bot on the base."), NoneYet, "There is no agent bot on the base."),
        (GitError("The disk is full."), FetchFailed, "could not be re-run: The disk is full."),
        (OSError("No space left on device"), FetchFailed, "could not be re-run: No space left on device."),
    ],
)
async def test_rerun__what_is_no_baseline(
    repo: Repo, answer: RunReport | Exception, kind: type[Baseline], message: str
) -> None:
    base = repo.commit({"bot/agent.py": AGENT})

    result = await rerun(repo, base, answer)

    assert type(result) is kind
    assert message in result.message
    if kind is FetchFailed:
        assert result.message.startswith(f"main at {base[:7]} ")


async def test_rerun__without_a_checkout_or_the_commit(repo: Repo) -> None:
    repo.commit({"a": ""})

    async def never(_: BaseWorktree) -> Any:
        raise AssertionError("there is nothing to run")

    outside = await RerunSource(git=GitError("No git here.", hint="Install git."), run=never).find(request("e" * 40))
    gone = await RerunSource(git=repo.opened(), run=never, remote=Remote()).find(request("e" * 40))

    assert outside == FetchFailed(message="main at eeeeeee could not be re-run: No git here.", hint="Install git.")
    assert isinstance(gone, FetchFailed)
    assert "is not in this clone and could not be fetched" in gone.message


# Base and head need different versions of a package: each agent gets an environment of its own.


@pytest.mark.slow
def test_versions__the_whole_gate_compares_the_two(tmp_path: Path) -> None:
    """`agent-eval run --baseline rerun`, as a user starts it on a laptop."""
    made = two_versions(tmp_path)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_", "RUNNER_"))}
    path = f"{Path(sys.executable).resolve().parent}{os.pathsep}{ours['PATH']}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**ours, **made.environment, "PATH": path, "TMPDIR": str(temporary)}
    command = (*AGENT_EVAL, "run", "--baseline", "rerun", "--cache-dir", tmp_path / "cache")
    program(*command, cwd=made.repo.root, env=environment, timeout=120, code=1)

    results = json.loads((made.repo.root / "agent-eval-results" / "results.json").read_text(encoding="utf-8"))
    baseline = results["baseline"]
    assert (baseline["status"], baseline["source"], baseline["distance"]) == ("found", "rerun", 0), baseline["message"]
    assert baseline["commit"] == baseline["wanted_commit"] == made.base
    comparison = results["comparison"]
    assert [(case["eval_id"], case["change"]) for case in comparison["cases"]] == [("hello", "newly_failing")]
    assert (comparison["compared"], comparison["unchanged"]) == (2, 1)  # with the case that only the head's file has
    assert made.repo.git("worktree", "list").count("\n") == 0
    assert list(temporary.glob("agent-eval-base-*")) == []
    assert made.repo.git("status", "--porcelain", "--untracked-files=no") == ""
