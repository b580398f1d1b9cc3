"""Data of host processes: how they start, their turns, and how they ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval_agents.host._program import ProgramSpec
from agent_eval_agents.host.outage import ModelOutages
from agent_eval_agents.host.parents import Parents
from agent_eval_agents.loading import LoadQueue
from agent_eval_agents.messages import AgentDescribed, Waiting
from agent_eval_agents.protocol import AgentFailure, CallDecider, FailureKind
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.limiter import Place
from agent_eval_scoring.core.text import shorten


@dataclass(frozen=True, kw_only=True)
class HostSpec(ProgramSpec):
    """How to start hosts of one agent."""

    agent_path: str
    sub_agent: str = ""
    """The agent in its tree that becomes the root; empty for the root agent."""
    log_dir: Path
    log_limit: int = 5_000_000
    """Bytes of each log."""
    retry: Mapping[str, Any] = field(default_factory=dict)
    """Fields of google-genai's HttpRetryOptions, for model calls that configure none."""
    outages: ModelOutages | None = None
    """Tracks the models that the hosts call; None if no one needs it."""
    asks_for_tools: bool = False
    """Whether the hosts ask before ADK runs the body of a tool."""
    asks_for_models: bool = False
    """Whether they ask before a model is called."""
    loads: LoadQueue = field(default_factory=LoadQueue)
    """Where they wait for their turn to load."""
    parents: Parents = field(default_factory=Parents)
    """What may fork them."""
    described: list[AgentDescribed] | None = None
    """Receives the agents of the tree, from one of the hosts; None if no one needs them."""


@dataclass(kw_only=True, eq=False)
class Turn:
    """An active turn, or an active call of a custom metric."""

    number: int
    answer: asyncio.Future[Any]
    events: list[Mapping[str, Any]] = field(default_factory=list)
    waiting: Waiting | None = None
    """What the turn was waiting for when it was cancelled."""
    outage: asyncio.Future[AgentFailure]
    """Gets the turn's failure as soon as the model that it calls is considered down, or a call can't be
    answered."""
    tools: CallDecider | None = None
    """Decides about the turn's calls; None: every tool runs, and every model is asked."""
    calls_of: Callable[[Sequence[Mapping[str, Any]]], Sequence[FunctionCall]] = lambda _: ()
    """Reads the tool calls in `events`."""
    place: Place | None = None
    """The run's concurrency slot. It is released while the turn only waits to retry a model call."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the custom metric is called; before that, the call is queued."""


@dataclass(frozen=True, kw_only=True)
class HostExit:
    """How a host ended."""

    message: str
    """A predicate: `exited with code 3`."""
    kind: FailureKind
    log_tail: str
    hint: str | None = None


def how_it_ended(
    returncode: int | None, protocol_error: BaseException | None, *, ended_by_gate: str | None, log_tail: str
) -> HostExit:
    """Describes the end of a host.

    Args:
        returncode: Exit code of the process; None if it kept running.
        protocol_error: Why its messages could not be read.
        ended_by_gate: Why the gate ended it, if it did.
        log_tail: The last lines of its log.
    """
    kind = FailureKind.PROTOCOL
    hint: str | None = "The agent writes to, or closes, file descriptors that it does not own."
    if ended_by_gate is not None:
        message, kind, hint = ended_by_gate, FailureKind.CRASH, None
    elif protocol_error is not None:
        message = f"sent something that is not our protocol: {shorten(str(protocol_error).strip(), 600)}"
    elif returncode is None:
        message = "closed its connection to the gate but kept running"
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
        return (
            "See the end of its log (`logs/` of the output directory), and look for os._exit() or a library that ends "
            "the process."
        )
    return "A native library crashed; the log shows the Python stack at that point."
