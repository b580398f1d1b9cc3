"""The base's own agent, to be run again: its commit in a git worktree outside of the workspace.

Only what git knows is there: what earlier steps of the job made, and what is not committed, is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from agent_eval.agents.discovery import AgentChoice, AgentChoices, is_agent
from agent_eval.baseline.git import ORIGIN, Git, GitError, Remote, short
from agent_eval.baseline.lookup import Baseline, FetchFailed, Found, NoneYet, Provenance
from agent_eval.baseline.reader import incomplete
from agent_eval.baseline.request import BaselineRequest
from agent_eval.core.text import harmless, plural
from agent_eval.results import BaselineSource, RunReport

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_BYTES = 1024
"""A pointer of Git LFS is smaller (git-lfs, docs/spec.md)."""
_SUBMODULE = "160000"


class NotOnBase(Exception):
    """The base has nothing to run. The message is a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class BaseWorktree:
    """The base's commit as files."""

    root: Path
    """What corresponds to the directory that agent-eval works in."""
    top: Path
    """The worktree's topmost directory."""
    head_top: Path
    """The checkout's topmost directory, to which `top` corresponds."""
    commit: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for the base's agent: PYTHONPATH must not lead to the head's modules."""
        changed = dict(environ)
        if paths := environ.get("PYTHONPATH"):
            changed["PYTHONPATH"] = os.pathsep.join(self.corresponding(path) for path in paths.split(os.pathsep))
        return changed

    def corresponding(self, path: str) -> str:
        """An absolute path inside the head's checkout as it is here; any other text as it is."""
        if not path or not Path(path).is_absolute():
            return path
        with contextlib.suppress(ValueError):
            return str(self.top / Path(path).resolve().relative_to(self.head_top))
        return path


@dataclass(frozen=True, kw_only=True)
class BaseAgents:
    """Which agents the base has of those that the head's files belong to."""

    choices: AgentChoices
    """Only files whose agent is on the base; with paths that hold below `BaseWorktree.root`."""
    missing: Mapping[str, str]
    """By agent: one plain sentence why the base can't run it."""


@contextlib.contextmanager
def base_checkout(
    git: Git, commit: str, *, remote: Remote | None = None, directory: Path | None = None, complete: bool = True
) -> Iterator[BaseWorktree]:
    """Checks a commit out into a temporary directory that everybody may read, and removes it in the end.

    Args:
        git: The checkout.
        commit: The full sha.
        remote: Where to get the commit from if it is not here.
        directory: Where to make the temporary directory; None for the system's place. Everybody must be able to enter
            it.
        complete: Whether files that git alone does not have (submodules, Git LFS) must not be missing.

    Raises:
        GitError: It can't be checked out, or not as completely as the head is.
        NotOnBase: The commit has no directory at the place that agent-eval works in.
    """
    git.need(commit, remote or ORIGIN)
    temporary = Path(tempfile.mkdtemp(prefix="agent-eval-base-", dir=directory)).resolve()
    top = temporary / git.top.name
    try:
        temporary.chmod(0o755)
        if git.owner is not None:
            os.chown(temporary, *git.owner)
        git.add_worktree(top, commit)
        if complete:
            _check_complete(git, top)
        root = top / git.prefix
        if not root.is_dir() or not root.resolve().is_relative_to(top):
            raise NotOnBase(f"The base ({short(commit)}) has no directory {git.prefix}.")
        yield BaseWorktree(root=root, top=top, head_top=git.top, commit=commit)
    finally:
        try:
            git.remove_worktree(top)
        except GitError:  # An agent of our own user may have locked a directory in it.
            _remove(temporary)
            with contextlib.suppress(GitError):
                git.prune_worktrees()
        _remove(temporary)


def _check_complete(git: Git, top: Path) -> None:
    """Whether the base lacks files that the head has only because somebody fetched them besides.

    Raises:
        GitError: Its agent would be another one than the commit's, and its results wrong.
    """
    listed = git.files(top)
    for name, mode in listed:
        if mode == _SUBMODULE and _has_content(git.top / name):
            raise GitError(
                f"The repository has the submodule {harmless(name)}, which a rerun of the base does not fetch.",
                hint="Use `baseline: artifact`.",
            )
    attributes = [top / name for name, _ in listed if PurePosixPath(name).name == ".gitattributes"]
    if not any(path.is_file() and not path.is_symlink() and b"lfs" in path.read_bytes() for path in attributes):
        return
    for name, _ in listed:
        if _is_pointer(top / name) and not _is_pointer(git.top / name):
            raise GitError(
                f"{harmless(name)} lies in Git LFS, from which a rerun of the base does not fetch.",
                hint="Use `baseline: artifact`.",
            )


def _has_content(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())


def _is_pointer(path: Path) -> bool:
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _POINTER_BYTES:
            return False
        return path.read_bytes().startswith(_POINTER)
    except OSError:
        return False


def _remove(directory: Path) -> None:
    """Removes a directory, also what an agent of our own user has locked; what can't be removed stays."""
    for folder, folders, _ in os.walk(directory):
        for name in folders:
            with contextlib.suppress(OSError):
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.asynccontextmanager
async def opened_base(
    git: Git, commit: str, *, remote: Remote | None = None, directory: Path | None = None, complete: bool = True
) -> AsyncIterator[BaseWorktree]:
    """`base_checkout` for the event loop: git works in a thread, and what it made goes even if we are cancelled."""
    stack = contextlib.ExitStack()
    checkout = base_checkout(git, commit, remote=remote, directory=directory, complete=complete)
    entering = asyncio.create_task(asyncio.to_thread(stack.enter_context, checkout))
    try:
        yield await asyncio.shield(entering)
    finally:
        await asyncio.wait([entering])
        await asyncio.to_thread(stack.close)


def agents_on_base(choices: AgentChoices, base: BaseWorktree, head_root: Path) -> BaseAgents:
    """The same choices on the base, as far as it has the agents.

    Args:
        choices: The head's.
        base: The base's files.
        head_root: The directory that the head's choices are relative to.
    """
    missing: dict[str, str] = {}
    for choice in dict.fromkeys(choices.by_file.values()):
        reason = _why_not_there(choice, base, head_root)
        if reason is not None:
            missing[choice.path] = reason
    kept = {file: choice for file, choice in choices.by_file.items() if choice.path not in missing}
    return BaseAgents(choices=AgentChoices(by_file=kept), missing=missing)


def _why_not_there(choice: AgentChoice, base: BaseWorktree, head_root: Path) -> str | None:
    where = f"on the base ({short(base.commit)})"
    named = choice.source
    shown = harmless(named)
    if Path(named).is_absolute():
        return f"{shown} lies outside of the repository, so that there is no other one {where}."
    path = (base.root / named).resolve()
    if choice.runs_here and choice.directory(head_root) is None:
        # A dotted module. One that the head doesn't have as files comes from a package, which the base may have too.
        places = (Path(), Path("src"))
        first = named.partition(".")[0]
        here = [place for place in places if _has_module(head_root / place, first)]
        if here and not any(_has_module(base.root / place, first) for place in places):
            return f"There is no module {shown} {where}."
        return None
    if not path.is_relative_to(base.top):
        return f"{shown} leads out of the repository {where}."
    if not choice.runs_here:
        return None if path.exists() else f"There is no recording {shown} {where}."
    return None if path.is_dir() and is_agent(path) else f"There is no agent {shown} {where}."


def _has_module(directory: Path, name: str) -> bool:
    return (directory / name).is_dir() or (directory / f"{name}.py").is_file()


@dataclass(frozen=True, kw_only=True)
class RerunSource:
    """Runs the base's agent."""

    git: Git | GitError
    """The checkout, or why there is none."""
    run: Callable[[BaseWorktree], Awaitable[RunReport]]
    """Runs the evals with the base's agent. Raises NotOnBase if that can't be done."""
    remote: Remote = ORIGIN
    checkout: Callable[..., contextlib.AbstractAsyncContextManager[BaseWorktree]] = opened_base
    """Checks the commit out, as `opened_base` does; another one may keep it for later."""
    evals: Literal["head", "base"] = "head"
    """Whose eval files `run` uses; for the words."""

    @property
    def source(self) -> BaselineSource:
        """`rerun`."""
        return "rerun"

    async def find(self, request: BaselineRequest) -> Baseline:
        """Checks the request commit out and runs its agent."""
        where = f"{harmless(request.base_ref)} at {short(request.commit)}"
        if isinstance(self.git, GitError):
            return FetchFailed(message=f"{where} could not be run again: {self.git.message}", hint=self.git.hint)
        try:
            async with self.checkout(self.git, request.commit, remote=self.remote) as checkout:
                report = await self.run(checkout)
        except NotOnBase as reason:
            return NoneYet(message=str(reason))
        except (GitError, OSError) as error:
            message = error.message if isinstance(error, GitError) else f"{harmless(str(error))}."
            hint = error.hint if isinstance(error, GitError) else None
            return FetchFailed(message=f"{where} could not be run again: {message}", hint=hint)
        if (reason_ := incomplete(report)) is not None:
            return FetchFailed(message=f"{where} was run again, but {reason_}.")
        whose = "its own" if self.evals == "base" else "this run's"
        return Found(
            report=report,
            provenance=Provenance(commit=request.commit, distance=0, recorded_at=report.started_at),
            message=f"The agent of {where} was run again with {whose} eval files "
            f"({plural(len(report.cases), 'case')}).",
        )
