"""The base's agent in a worktree: complete or not at all, readable for the agent's user, gone afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from adk_envs import REFERENCE
from agents_open_dir import as_root, open_directory, python_for
from base_repos import ENVIRON, Repo, new_repo
from baseline_samples import case, results
from gate_runs import AGENT_EVAL, Repository, program
from golden_files import check
from rerun_repos import two_versions

from agent_eval.baseline.git import Git, GitError, Remote
from agent_eval.baseline.lookup import Baseline, BaselineRequest, Found, Provenance
from agent_eval.baseline.rerun import (
    BaseWorktree,
    NotOnBase,
    RerunSource,
    agents_on_base,
    base_checkout,
    open_base,
    share_dotenv,
)
from agent_eval_agents.discovery.finder import AgentChoice
from agent_eval_agents.discovery.locate import AgentChoices
from agent_eval_agents.sandbox.sealing import blocked_at
from agent_eval_agents.sandbox.spawn import Account
from agent_eval_results.data.report import RunReport

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


HEAD = "root_agent = 'head'\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"
LFS = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "bot/model.bin": POINTER.format("0" * 64)}


def test_rerun__the_base_as_files_outside_of_the_workspace_and_nothing_left_of_them(
    place: Path, tmp_path: Path
) -> None:
    said = []

    def told(situation: str, repo: Repo, base: str, *, at: str = "") -> None:
        try:
            with base_checkout(Repo(repo.root / at).opened(), base, directory=place) as checkout:
                assert not checkout.top.is_relative_to(repo.root)
                assert len(traces(repo, place)) == 2
                files = {path.relative_to(checkout.top).as_posix(): path for path in checkout.top.rglob("*")}
                listed = [
                    f"{name} {path.read_text('utf-8')[:22]!r}"
                    for name, path in files.items()
                    if path.is_file() and name != ".git"
                ]
                text = f"in {checkout.root.relative_to(checkout.top)}: {', '.join(sorted(listed))}"
        except (GitError, NotOnBase) as error:
            text = f"{type(error).__name__}: {error}"
        assert traces(repo, place) == []
        said.append(f"{situation}\n    {text.replace(base[:7], 'BASE')}\n")

    repo = new_repo(tmp_path / "repo")
    base = repo.commit({"bot/agent.py": AGENT, ".gitignore": "data/\n"})
    repo.branch("feature")
    repo.commit({"bot/agent.py": HEAD, "new.py": ""})
    repo.write({"data/big.bin": "made by an earlier step", "bot/agent.py": "root_agent = 'not committed'\n"})
    status = repo.git("status", "--porcelain")
    told("a checkout with changes", repo, base)
    assert repo.git("status", "--porcelain") == status
    assert repo.git("branch", "--format=%(refname:short)").split() == ["feature", "main"]
    repo.git("checkout", "-q", "-f", "feature")
    told("a clone of depth 1", repo.shallow_checkout(repo.merge("feature", "main"), tmp_path / "clone"), base)
    within = new_repo(tmp_path / "within")
    older = within.commit({"README": ""})
    base = within.commit({"services/bots/bot/agent.py": AGENT})
    told("a directory of the repository", within, base, at="services/bots")
    told("a directory that the base has not", within, older, at="services/bots")
    linked = new_repo(tmp_path / "linked")
    (linked.root / "bots").symlink_to("/etc")
    base = linked.commit({})
    linked.git("rm", "-q", "bots")
    linked.commit({"bots/agent.py": AGENT})
    told("a directory that is a link out of the base", linked, base, at="bots")

    large = new_repo(tmp_path / "large")
    base = large.commit({"bot/agent.py": AGENT, **LFS})
    # `git lfs install` sets these; the program may not be there.
    for name, value in (("process", "false"), ("smudge", "false"), ("required", "true")):
        large.git("config", f"filter.lfs.{name}", value)
    told("large files that neither side has", large, base)
    for name in ("process", "smudge", "required"):
        large.git("config", "--unset", f"filter.lfs.{name}")
    large.write({"bot/model.bin": "the real one"})  # As actions/checkout does with `lfs: true`.
    told("large files that only the head has", large, base)
    library = new_repo(tmp_path / "library")
    library.commit({"lib.py": ""})
    split = new_repo(tmp_path / "split")
    split.commit({"bot/agent.py": AGENT})
    split.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "vendored")
    base = split.commit({})
    told("a submodule", split, base)
    split.git("submodule", "--quiet", "deinit", "--force", "vendored")
    told("a submodule that is not there", split, base)  # As actions/checkout leaves it without `submodules: true`.
    check("golden_base_checkouts.txt", "".join(said))


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
    (head / "bots/link").symlink_to(head / "bots/home")
    names = ["bots/home", "bots/new", "bots/moved", "bots/link", str(tmp_path / "else"), "package.agent", "both.agent"]
    names += ["installed.agent", "recorded:old.jsonl", "recorded:new.jsonl"]
    choices = {f"{number}.test.json": AgentChoice(path=name, reason="named") for number, name in enumerate(names)}

    available, missing = agents_on_base(AgentChoices(by_file=choices), checkout_of(base, head), head)

    there = [choice.path for choice in available.by_file.values()]
    assert there == [name for name in names if name not in missing]
    said = "".join(f"{name}: {missing.get(name, 'it is there')}\n" for name in names)
    check("golden_base_agents.txt", said.replace(str(tmp_path), "FOLDER"))


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


def test_rerun__a_dotenv_that_no_commit_has_is_there_too(repo: Repo) -> None:
    """With its permissions. Not one that the head commits, nor what a link points to, nor over a link that leads
    nowhere.
    """
    (repo.root / "old").mkdir()
    (repo.root / "old/.env").symlink_to("../nowhere")
    base = repo.commit(
        {"bot/agent.py": AGENT, "old/agent.py": AGENT, "new/agent.py": AGENT, ".gitignore": "/.env\n/bot/.env\n"}
    )
    (repo.root / "old/.env").unlink()
    repo.commit({"new/.env": "FROM=the head"})
    (repo.root / "old/.env").write_text("KEY=2", encoding="utf-8")
    (repo.root / "bot/.env").write_text("KEY=1", encoding="utf-8")
    (repo.root / "bot/.env").chmod(0o640)
    (repo.root / ".env").symlink_to(repo.root / "bot/.env")
    with base_checkout(repo.opened(), base) as worktree:
        folders = [repo.root / name for name in ("bot", "old", "new", "gone")]
        share_dotenv(repo.opened(), worktree, [*folders, Path("/"), repo.root.parent / "outside"])
        share_dotenv(repo.opened(), worktree, folders)
        there = {str(path.relative_to(worktree.top)): path for path in worktree.top.rglob(".env")}
        assert there.keys() == {"bot/.env"} and (worktree.top / "old/.env").is_symlink()
        assert there["bot/.env"].read_text("utf-8") == "KEY=1"
        assert stat.S_IMODE(there["bot/.env"].stat().st_mode) == 0o640


async def test_rerun__what_the_bases_agent_scores_is_the_baseline(repo: Repo) -> None:
    base = repo.commit({"bot/agent.py": AGENT})
    seen: list[Path] = []
    report = results(case("one"), case("two", "failed"))
    said = []

    async def told(answer: RunReport | Exception, git: Git | GitError, commit: str = base) -> Baseline:
        async def run(checkout: BaseWorktree) -> RunReport:
            seen.append(checkout.root)
            assert (checkout.root / "bot" / "agent.py").is_file()
            if isinstance(answer, Exception):
                raise answer
            return answer

        request = BaselineRequest(
            repository="", base_ref="main", commit=commit, how="the merge base", is_pull_request=True
        )
        found = await RerunSource(git=git, run=run, remote=Remote()).find(request)
        text = f"{type(found).__name__}: {found.message} {found.hint or ''}".rstrip()
        said.append(f"{text.replace(base[:7], 'BASE').partition(': fatal')[0]}\n")
        return found

    found = await told(report, repo.opened())
    assert isinstance(found, Found) and found.report == report
    assert found.provenance == Provenance(commit=base, distance=0, recorded_at=report.started_at)
    for answer in (
        results(case("one", "not_run")),
        NotOnBase("There is no agent bot on the base."),
        GitError("The disk is full."),
        OSError("No space left on device"),
    ):
        await told(answer, repo.opened())
    assert [path.exists() for path in seen] == [False] * 5
    await told(report, GitError("No git here.", hint="Install git."))
    await told(report, repo.opened(), "e" * 40)
    assert len(seen) == 5, "there is nothing to run"
    check("golden_reruns.txt", "".join(said))


@as_root
@pytest.mark.slow
def test_rerun__both_agents_run_in_a_repository_inside_of_home() -> None:
    """HOME is closed to agents, except where one of them is in it."""
    with open_directory() as base:
        python, home = base / "venv" / "bin" / "python", base / "home"
        uv = Path(sys.executable).with_name("uv")
        program(uv, "venv", "--python", python_for(Account(name="", uid=64_999, gid=64_999, home=base)), base / "venv")
        program(uv, "pip", "install", "--python", python, f"google-adk=={REFERENCE}")
        repo = new_repo(home / "repository")
        repository = Repository(root=repo.root)
        repository.agent("faults")
        repository.evals("evals/a.test.json", {"one": "say hello"})
        repo.commit({})
        repo.branch("feature")
        flags = ("--agent", "faults", "--agent-python", str(python), "--baseline", "rerun", "--base-ref", "main")
        report = repository.gate("run", *flags, python=False, environment={"HOME": str(home)}, code=0).report
        assert report.comparison is not None and report.comparison.compared == 1


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
