"""Everything that keeps the agent apart from us, put up for a run and taken down after it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.forwarding import child_environment, lend_credentials, secrets_in
from agent_eval.agents.sealing import blocked_at, open_sockets, seal_targets, sealed
from agent_eval.agents.spawn import (
    AGENT_USER,
    STATE_DIR,
    Account,
    Sandbox,
    agent_account,
    end_account,
    free_uids,
    has_account,
)
from agent_eval.core.problem import Problem, Severity

_LOCKS = STATE_DIR / "locks"
"""Who holds which uid. One place for the machine, whatever the state directory: at the end of a run all processes of
its uid are killed, and two runs that locked the same uid in two places would kill each other's agents."""


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What a run needs to start the agent's processes."""

    sandbox: Sandbox
    secrets: tuple[str, ...]
    """Values that the agent gets and that must not show up in anything we write; for the Masker."""
    problems: tuple[Problem, ...]
    """What is weaker than it should be; an error forbids the run."""


NO_PROCESS = Isolation(sandbox=Sandbox(environment={}), secrets=(), problems=())
"""For a run that starts no agent: recordings need nothing and can do no harm."""


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
    """Chooses whom the agent runs as, builds its environment, closes what it must not enter.

    As root that is another user, alone with this run; its processes are killed and all permissions restored at the
    end, whatever happens inside. Otherwise only the environment is another one.

    Args:
        environ: The environment of ours.
        root: The repository's root.
        output_dir: Where our results go. Made if it is missing.
        allow: Which variables to forward (`forwarding.allow_list`).
        reachable: What else the agent's user has to get at, e.g. the cache directory of its environments.
        state_dir: Where a root process keeps homes.
        name: The account to take if the machine has it; else the agent gets a uid that nobody has.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        problems: list[Problem] = []
        account, alone = None, True
        try:
            account, alone = _account(name, state_dir, stack)
        except OSError as error:  # a user namespace with a single uid, a read-only disk
            problems.append(_not_isolated(str(error), "Run as a user other than root (docs/security.md)."))
        if account is not None and (blocked := blocked_at(root, account, need=os.R_OK | os.X_OK)) is not None:
            hint = f"Let others enter it (`chmod o+rx {blocked}`), or run as a user other than root (docs/security.md)."
            problems.append(_not_isolated(f"uid {account.uid} can't get at {blocked}", hint))
            account = None
        environment = child_environment(environ, allow, account)
        # From the original: the copy goes when the run ends.
        secrets = tuple(secrets_in(environment))
        if account is not None:
            lent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lent-", dir=state_dir)))
            lent.chmod(0o711)
            environment = lend_credentials(environment, account, lent)
            needed = [account.home, lent, *reachable]
            stack.enter_context(sealed(seal_targets(environ, root, output_dir, reachable=needed)))
            if alone:
                stack.callback(end_account, account)
        problems += open_sockets(account)
        yield Isolation(
            sandbox=Sandbox(environment=environment, user=account), secrets=secrets, problems=tuple(problems)
        )


def _account(name: str, state_dir: Path, stack: contextlib.ExitStack) -> tuple[Account | None, bool]:
    """The account, and whether no other run uses it at the same time."""
    if os.geteuid() != 0:
        return None, True
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    _LOCKS.mkdir(parents=True, exist_ok=True, mode=0o755)
    # A uid of one's own keeps two runs on one machine apart, and makes it safe to kill all that is left of it.
    for uid in free_uids():
        if _hold(_LOCKS / f"uid-{uid}.lock", stack):
            home = state_dir / f"home-{uid}"
            if home.is_dir() and not home.is_symlink():
                shutil.rmtree(home)  # an earlier agent may have left a configuration there
            account = agent_account(name, state_dir=state_dir, uid=uid)
            break
    else:
        raise PermissionError(f"no uid is free for the agent; too many runs hold a lock in {_LOCKS}")
    assert account is not None
    if account.uid == uid:
        return account, True
    return account, _hold(_LOCKS / f"uid-{account.uid}.lock", stack)  # the machine has the account


def _hold(path: Path, stack: contextlib.ExitStack) -> bool:
    """Takes a lock until the end of the run, if nobody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    stack.callback(os.close, descriptor)
    return True


def _not_isolated(why: str, hint: str) -> Problem:
    """An error in our image, which has an account for the agent; elsewhere isolation is a gain that can be missed."""
    promised = has_account()
    return Problem(
        severity=Severity.ERROR if promised else Severity.WARNING,
        code="agent-not-isolated",
        message=f"The agent can't run as another user: {why}"
        + ("" if promised else ". It runs as root, like this program, and could read this program's environment"),
        hint=hint,
    )
