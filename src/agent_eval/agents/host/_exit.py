"""Describes how a host process ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agent_eval.agents.protocol import FailureKind
from agent_eval.core.text import shorten


@dataclass(frozen=True, kw_only=True)
class HostExit:
    """How a host ended."""

    message: str
    """A predicate: `exited with code 3`."""
    kind: FailureKind
    log_tail: str
    hint: str | None = None


def how_it_ended(
    returncode: int | None,
    protocol_error: BaseException | None,
    *,
    is_running: bool,
    ended_by_gate: str | None,
    log_tail: str,
) -> HostExit:
    """Describes the end of a host.

    Args:
        returncode: Exit code of the process; None if it kept running, or if it is unknown.
        protocol_error: Why its messages could not be read.
        is_running: Whether it kept running.
        ended_by_gate: Why the gate ended it, if it did.
        log_tail: The last lines of its log.
    """
    kind = FailureKind.PROTOCOL
    hint: str | None = "The agent writes to, or closes, file descriptors that it does not own."
    if ended_by_gate is not None:
        message, kind, hint = ended_by_gate, FailureKind.CRASH, None
    elif protocol_error is not None:
        message = f"sent something that is not our protocol: {shorten(str(protocol_error).strip(), 600)}"
    elif is_running:
        message = "closed its connection to the gate but kept running"
    elif returncode is None:
        message, kind = "ended; its exit status is unknown", FailureKind.CRASH
        hint = (
            "The machine may have run out of memory: try a lower `--concurrency`. "
            "Or the agent kills or stops other processes."
        )
    else:
        message, kind, hint = exit_description(returncode), FailureKind.CRASH, exit_hint(returncode)
    return HostExit(message=message, kind=kind, hint=hint, log_tail=log_tail)


def exit_description(returncode: int) -> str:
    """Describes how a process ended: `exited with code 3`, `was killed by SIGKILL (signal 9)`."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"was killed by signal {-returncode}"
    return f"was killed by {name} (signal {-returncode})"


def exit_hint(returncode: int) -> str:
    """A hint for a process that ended this way."""
    if returncode == -signal.SIGKILL:
        return "The gate did not kill it. The machine may have run out of memory: try a lower `--concurrency`."
    if returncode >= 0:
        return "See the end of its log, and look for os._exit() or a library that ends the process."
    return "A native library crashed; the log shows the Python stack at that point."
