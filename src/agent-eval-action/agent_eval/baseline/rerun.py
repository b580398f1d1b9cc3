"""The source `rerun`: runs the base branch's agent from a git worktree outside the workspace.

The worktree contains only committed files, not those that earlier steps of the job created, but for `.env`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from agent_eval.baseline.git import ORIGIN, Git, GitError, Remote, sentence, short
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, NoneYet, Provenance
from agent_eval_agents.discovery import AgentChoice, AgentChoices, is_agent
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_SETTINGS
from agent_eval_scoring.core.text import harmless, plural

if TYPE_CHECKING:
    from agent_eval_results import BaselineSource, Reason, RunReport

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_BYTES = 1024
"""A pointer of Git LFS is smaller (git-lfs, docs/spec.md)."""
_SUBMODULE = "160000"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class NotOnBase(AgentEvalError):
    """The base branch has nothing to run. The message is a complete sentence."""


@dataclass(frozen=True, kw_only=True)
class BaseWorktree:
    """A worktree with the base branch's commit."""

    root: Path
    """The directory in the worktree that corresponds to agent-eval's working directory."""
    top: Path
    """The worktree's top-level directory."""
    head_top: Path
    """The checkout's top-level directory, which corresponds to `top`."""
    commit: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment for the base branch's agent: PYTHONPATH must not contain the head's modules."""
        changed = dict(environ)
        if paths := environ.get("PYTHONPATH"):
            changed["PYTHONPATH"] = os.pathsep.join(self.corresponding(path) for path in paths.split(os.pathsep))
        return changed

    def corresponding(self, path: str) -> str:
        """Maps an absolute path in the head's checkout to the worktree; returns other text unchanged."""
        if not path or not Path(path).is_absolute():
            return path
        with contextlib.suppress(ValueError):
            return str(self.top / Path(path).resolve().relative_to(self.head_top))
        return path


@contextlib.contextmanager
def base_checkout(
    git: Git, commit: str, *, remote: Remote | None = None, directory: Path | None = None, complete: bool = True
) -> Iterator[BaseWorktree]:
    """Checks out a commit into a world-readable temporary directory, and removes it at the end.

    Args:
        git: The checkout.
        commit: The full sha.
        remote: Where to fetch the commit from if this clone lacks it.
        directory: Parent of the temporary directory, which every user must be able to enter; None for the default.
        complete: Whether missing submodules and Git LFS files are an error.

    Raises:
        GitError: The commit can't be checked out, or less completely than the head.
        NotOnBase: The commit lacks agent-eval's working directory.
        OSError: There is no temporary directory, or its disk is full.
    """
    git.need(commit, remote or ORIGIN)
    temporary = Path(tempfile.mkdtemp(prefix="agent-eval-base-", dir=directory)).resolve()
    top = temporary / git.top.name
    try:
        # mkdtemp makes it private, and the agent is another user.
        temporary.chmod(0o755)
        if git.owner is not None:
            os.chown(temporary, *git.owner)
        git.add_worktree(top, commit)
        if complete:
            _check_complete(git, top)
        root = top / git.prefix
        if not root.is_dir() or not root.resolve().is_relative_to(top):
            raise NotOnBase(f"The base branch ({short(commit)}) has no directory {git.prefix}.")
        yield BaseWorktree(root=root, top=top, head_top=git.top, commit=commit)
    finally:
        try:
            git.remove_worktree(top)
        except GitError:  # An agent that runs as our user may have locked a directory in it.
            _remove(temporary)
            with contextlib.suppress(GitError):
                git.prune_worktrees()
        _remove(temporary)


def _check_complete(git: Git, top: Path) -> None:
    """Checks that the worktree lacks no submodules or Git LFS files that the head has.

    Raises:
        GitError: The agent would differ from the commit's agent, and its results would be wrong.
    """
    listed = git.files(top)
    for name, mode in listed:
        # One that the head's checkout has not fetched either is missing on both sides: the agents are alike.
        if mode == _SUBMODULE and (git.top / name).is_dir() and any((git.top / name).iterdir()):
            raise GitError(
                f"The repository has the submodule {harmless(name)}, which `baseline: rerun` does not fetch.",
                hint="Use `baseline: artifact`.",
            )
    # Reading the first bytes of all files takes long, and only a repository with such a line can have pointers.
    attributes = [top / name for name, _ in listed if PurePosixPath(name).name == ".gitattributes"]
    if not any(path.is_file() and not path.is_symlink() and b"lfs" in path.read_bytes() for path in attributes):
        return
    for name, _ in listed:
        if _is_pointer(top / name) and not _is_pointer(git.top / name):
            raise GitError(
                f"{harmless(name)} is stored in Git LFS, which `baseline: rerun` does not fetch.",
                hint="Use `baseline: artifact`.",
            )


def _is_pointer(path: Path) -> bool:
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _POINTER_BYTES:
            return False
        return path.read_bytes().startswith(_POINTER)
    except OSError:
        return False


def _remove(directory: Path) -> None:
    """Removes a directory, even if an agent that ran as our user has locked parts; ignores files that can't be
    removed.
    """
    for folder, folders, _ in os.walk(directory):
        for name in folders:
            with contextlib.suppress(OSError):
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.asynccontextmanager
async def open_base(
    git: Git, commit: str, *, remote: Remote | None = None, directory: Path | None = None, complete: bool = True
) -> AsyncIterator[BaseWorktree]:
    """Async version of `base_checkout`: git runs in a thread, and the worktree is removed even on cancellation."""
    stack = contextlib.ExitStack()
    checkout = base_checkout(git, commit, remote=remote, directory=directory, complete=complete)
    # A thread can't be cancelled: a worktree that it makes after our end would stay in the user's repository.
    entering = asyncio.create_task(asyncio.to_thread(stack.enter_context, checkout))
    try:
        yield await asyncio.shield(entering)
    finally:
        await asyncio.wait([entering])
        await asyncio.to_thread(stack.close)


def share_dotenv(git: Git, base: BaseWorktree, directories: Iterable[Path]) -> None:
    """Copies the `.env` files that agents of the head load and no commit has: they are the machine's, as variables are.

    Without them the base's agent would have no key, or would show its tools to the model in another form. A copy has
    the owner and the permissions of the file, so nobody reads it who could not read that one; links are not followed.

    Args:
        git: The head's checkout.
        base: The base branch's worktree.
        directories: The directories of agents of the head.
    """
    for folder in dict.fromkeys(folder for each in directories for folder in (each.resolve(), *each.resolve().parents)):
        source, target = folder / ".env", Path(base.corresponding(str(folder)), ".env")
        if not folder.is_relative_to(base.head_top) or not source.is_file() or os.path.lexists(target):
            continue
        if not target.parent.is_dir() or git.run("ls-files", "--", str(source)):
            continue  # If only the head has committed it, it is a change of the head.
        try:
            opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # A link, or a file that is not for this user.
        with os.fdopen(opened, "rb") as file, os.fdopen(os.open(target, _NEW, 0o600), "wb") as copy:
            status = os.fstat(file.fileno())
            copy.write(file.read(MAX_SETTINGS))
            os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
            if os.geteuid() == 0:
                os.fchown(copy.fileno(), status.st_uid, status.st_gid)


def agents_on_base(choices: AgentChoices, base: BaseWorktree, head_root: Path) -> tuple[AgentChoices, dict[str, str]]:
    """Finds the head's agents on the base branch.

    Args:
        choices: The head's agents by file.
        base: The base branch's worktree.
        head_root: The directory that the head's choices are relative to.

    Returns:
        The agents of the files that have one there, with paths relative to `BaseWorktree.root`; and by agent, a
        sentence that says why the base branch can't run it.
    """
    missing: dict[str, str] = {}
    for choice in dict.fromkeys(choices.by_file.values()):
        reason = _why_not_there(choice, base, head_root)
        if reason is not None:
            missing[choice.path] = reason
    available = {file: choice for file, choice in choices.by_file.items() if choice.path not in missing}
    return AgentChoices(by_file=available), missing


def _why_not_there(choice: AgentChoice, base: BaseWorktree, head_root: Path) -> str | None:
    where = f"on the base branch ({short(base.commit)})"
    named = choice.source
    shown = harmless(named)
    if choice.driver.remote and choice.runs_here:
        return None  # Its server says what is missing when it is started.
    if choice.driver.remote:
        return (
            f"The agent at {shown} is remote: only the version that is deployed there can be asked, so that of the "
            "base branch can't be run (`baseline-remote-agent`)."
        )
    if Path(named).is_absolute():
        return f"{shown} is outside the repository, so there is no version of it {where}."
    path = (base.root / named).resolve()
    if choice.runs_here and choice.directory(head_root) is None:
        # A dotted module. If the head has no such files, it comes from an installed package.
        places = (Path(), Path("src"))
        first = named.partition(".")[0]
        here = [place for place in places if _has_module(head_root / place, first)]
        if here and not any(_has_module(base.root / place, first) for place in places):
            return f"There is no module {shown} {where}."
        return None
    if not path.is_relative_to(base.top):
        return f"{shown} points outside the repository {where}."
    if choice.driver.reads_file:
        return None if path.exists() else f"There is no recording {shown} {where}."
    return None if path.exists() and is_agent(path) else f"There is no agent {shown} {where}."


def _has_module(directory: Path, name: str) -> bool:
    return (directory / name).is_dir() or (directory / f"{name}.py").is_file()


@dataclass(frozen=True, kw_only=True)
class RerunSource:
    """Runs the base branch's agent."""

    git: Git | GitError
    """The checkout, or the reason why there is none."""
    run: Callable[[BaseWorktree], Awaitable[RunReport]]
    """Runs the evals with the base branch's agent. Raises NotOnBase if that is impossible."""
    remote: Remote = ORIGIN
    checkout: Callable[..., contextlib.AbstractAsyncContextManager[BaseWorktree]] = open_base
    """Checks out the commit, like `open_base`; a replacement may keep the worktree for later."""

    source: ClassVar[BaselineSource] = "rerun"

    async def find(self, request: BaselineRequest) -> Baseline:
        """Checks the request commit out and runs its agent."""
        from agent_eval.baseline.reader import incomplete
        from agent_eval.gate.evaluation import outage

        where = f"{harmless(request.base_ref)} at {short(request.commit)}"
        if isinstance(self.git, GitError):
            return FetchFailed(message=f"{where} could not be re-run: {self.git.message}", hint=self.git.hint)
        try:
            async with self.checkout(self.git, request.commit, remote=self.remote) as checkout:
                report = await self.run(checkout)
        except NotOnBase as reason:
            return NoneYet(message=str(reason))
        except (GitError, OSError) as error:
            hint = error.hint if isinstance(error, GitError) else None
            return FetchFailed(message=f"{where} could not be re-run: {sentence(error)}", hint=hint)
        # After an outage the thresholds must not fail what may be as low here (`evaluate`): the reason matters.
        if (defect := incomplete(report)) is not None:
            ended = outage(report.cases) or _ended_early(report)
            return FetchFailed(message=f"{where} was re-run, but {defect}.", outage=ended)
        ran = sum(not case.replayed for case in report.cases)
        return Found(
            report=report,
            provenance=Provenance(commit=request.commit, distance=0, recorded_at=report.started_at),
            message=f"The agent of {where} ran this run's eval files ({plural(ran, 'case')}).",
        )


def _ended_early(report: RunReport) -> Reason | None:
    """Why the gate made not all runs: its budget or its time was used up. That says nothing about the pull request."""
    from agent_eval_results import Reason

    errors = [run.error for case in report.cases for run in case.runs if run.error is not None]
    return next((Reason(code=e.kind, message=e.message) for e in errors if e.kind in {"budget", "run-timeout"}), None)
