"""Sets up the agent's isolation for a run, and removes it afterwards."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_eval_agents.sandbox.forwarding import child_environment, lend_credentials, withheld
from agent_eval_agents.sandbox.sealing import blocked_at, open_sockets, recover, seal_targets, sealed
from agent_eval_agents.sandbox.spawn import AGENT_USER, Account, Sandbox, agent_account, known_uid
from agent_eval_agents.sandbox.uids import (
    STATE_DIR,
    Killer,
    claim,
    end_processes,
    free_uids,
    missing_capabilities,
    remove_files_of,
)
from agent_eval_scoring.core.problem import Problem, Severity, docs_page


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """Everything that a run needs to start the agent's processes."""

    sandbox: Sandbox
    problems: tuple[Problem, ...]
    """Weaknesses of the isolation; an error forbids the run."""
    closed: tuple[Path, ...] = ()
    """Directories and files that are sealed during the run."""


NO_PROCESS = Isolation(sandbox=Sandbox(environment={}), problems=())
"""For runs without agent processes, e.g. with recordings."""


@contextlib.contextmanager
def isolated(
    environ: Mapping[str, str],
    *,
    root: Path,
    output_dir: Path,
    allow: Sequence[str],
    reachable: Sequence[Path] = (),
    state_dir: Path = STATE_DIR,
    name: str = AGENT_USER,
) -> Iterator[Isolation]:
    """Chooses the agent's user, builds its environment, and seals directories that it must not enter.

    As root, the agent gets its own user, which no other run uses. At the end its processes are always killed; when none
    is left, all permissions are restored. Without root, only the environment differs.

    Args:
        environ: Our own environment.
        root: The repository's root.
        output_dir: Where our results go. Created if it is missing.
        allow: Variables to forward (`forwarding.allow_list`).
        reachable: Other paths that the agent's user needs, e.g. the cache directory of its environments.
        state_dir: Where the home directories of agents are.
        name: The account to use if it exists and no other run uses it; otherwise the agent gets a free uid.

    Raises:
        AgentNotEnded: At the end: processes of the agent could not be ended. The seals stay.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        problems: list[Problem] = []
        account, killer = None, None
        closed: tuple[Path, ...] = ()
        try:
            account, killer = _account(name, state_dir, stack)
        except OSError as error:  # a user namespace with a single uid, a read-only disk
            writable = f"Mount a volume at {state_dir}, or r" if error.errno == errno.EROFS else "R"
            remedy = f"{writable}un as a user other than root ({docs_page('security')})."
            problems.append(_not_isolated(str(error), remedy))
        if account is not None and (blocked := blocked_at(root, account, need=os.R_OK | os.X_OK)) is not None:
            hint = f"Allow access (`chmod o+rx {blocked}`), or run as a user other than root ({docs_page('security')})."
            problems.append(_not_isolated(f"uid {account.uid} can't access {blocked}", hint))
            account = None
        environment = child_environment(environ, allow, account)
        not_passed = withheld(environ, environment)
        if account is not None:
            lent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lent-", dir=state_dir)))
            lent.chmod(0o711)
            environment = lend_credentials(environment, account, lent)
            needed = [account.home, lent, *reachable]
            seals = seal_targets(environ, root, output_dir, reachable=needed)
            closed = tuple(seal.path for seal in seals)
            try:
                stack.enter_context(sealed(seals, account.uid, partial(_end, account, killer)))
            except OSError as error:
                problems.append(_unsealed(error))
        problems += open_sockets(account)
        yield Isolation(
            sandbox=Sandbox(environment=environment, user=account, withheld=not_passed),
            problems=tuple(problems),
            closed=closed,
        )


def _account(name: str, state_dir: Path, stack: contextlib.ExitStack) -> tuple[Account | None, Killer | None]:
    """The account, used by this run only, and its killer; None if we are not root."""
    if os.geteuid() != 0:
        return None, None
    if missing := missing_capabilities():
        raise PermissionError(f"this container lacks {', '.join(missing)} (--cap-drop)")
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    recover()
    account_uid = known_uid(name)
    uid = claim(stack, free_uids() if account_uid is None else (account_uid, *free_uids()))
    killer = Killer(uid)
    stack.callback(killer.close)
    if uid != account_uid:
        remove_files_of(uid)  # of an earlier agent, if its gate was killed
    home = state_dir / f"home-{uid}"
    if home.is_dir() and not home.is_symlink():
        shutil.rmtree(home)  # an earlier agent may have left files there
    account = agent_account(name, state_dir=state_dir, uid=uid)
    killer.ready()  # It has started meanwhile.
    return account, killer


def _end(account: Account, killer: Killer | None) -> None:
    end_processes(account.uid, killer)
    if account.uid != known_uid(account.name):  # An account may have files that are not an agent's.
        remove_files_of(account.uid)


def _unsealed(error: OSError) -> Problem:
    return Problem(
        code="agent-not-isolated",
        message=f"The agent must not read {error.filename}, and it can't be closed to it: {error.strerror}",
        hint=f"Mount it writable, close it to others first (`chmod go= {error.filename}`), or run as a user other than "
        f"root ({docs_page('security')}).",
    )


def _not_isolated(why: str, hint: str) -> Problem:
    """An error in our container image, which has an account for the agent; otherwise a warning."""
    in_image = known_uid() is not None
    return Problem(
        severity=Severity.ERROR if in_image else Severity.WARNING,
        code="agent-not-isolated",
        message=f"The agent can't run as another user: {why}"
        + ("" if in_image else ". It runs as root, like this program, and could read this program's environment"),
        hint=hint,
    )
