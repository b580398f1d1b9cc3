"""How a host process ended, in words."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agent_eval.agents.protocol import FailureKind
from agent_eval.core.text import shorten


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a host ended."""

    message: str
    """A predicate: `exited with code 3`."""
    kind: FailureKind
    log_tail: str
    hint: str | None = None


def how_it_ended(
    returncode: int | None, garbage: BaseException | None, *, given_up: str | None, log_tail: str
) -> Death:
    """What to say of an end.

    Args:
        returncode: How the process exited by itself; None if it went on running.
        garbage: Why what it wrote could not be read.
        given_up: Why the gate ended it, if it did.
        log_tail: The last lines of its log.
    """
    kind = FailureKind.PROTOCOL
    hint: str | None = "Something in the agent writes to, or closes, descriptors that are not its own."
    if given_up is not None:
        message, kind, hint = given_up, FailureKind.CRASH, None
    elif garbage is not None:
        message = f"wrote something else than our protocol: {shorten(str(garbage).strip(), 600)}"
    elif returncode is None:
        message = "closed its connection to the gate but went on running"
    else:
        message, kind, hint = ended_words(returncode), FailureKind.CRASH, ended_hint(returncode)
    return Death(message=message, kind=kind, hint=hint, log_tail=log_tail)


def ended_words(returncode: int) -> str:
    """How a process ended: `exited with code 3`, `was killed by SIGKILL (signal 9)`."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"was killed by signal {-returncode}"
    return f"was killed by {name} (signal {-returncode})"


def ended_hint(returncode: int) -> str:
    """What to look for when a process ended that way."""
    if returncode == -signal.SIGKILL:
        return "The gate did not kill it; the machine may have run out of memory. Try a lower `--concurrency`."
    if returncode >= 0:
        return "See the end of its log. Look for os._exit() or a library that ends the process."
    return "A native library crashed; the log shows the Python stack of that moment."
