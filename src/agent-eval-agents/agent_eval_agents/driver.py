"""What a driver declares about its agents, and what it gets to create one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from agent_eval_agents.host.parents import Parents
    from agent_eval_agents.loading import LoadQueue
    from agent_eval_agents.messages import AgentDescribed
    from agent_eval_agents.protocol import Agent
    from agent_eval_agents.sandbox import Sandbox
    from agent_eval_agents.venv import AgentInterpreter, BegunEnvironment
    from agent_eval_scoring.core.limiter import Limiter
    from agent_eval_scoring.core.masking import Masker
    from agent_eval_scoring.core.problem import Problem
    from agent_eval_scoring.evalset.models import LoadedFile


def _load_queue() -> LoadQueue:
    # `--help` imports this module, and must not wait for asyncio and pydantic.
    from agent_eval_agents.loading import LoadQueue

    return LoadQueue()


def _parents() -> Parents:
    from agent_eval_agents.host.parents import Parents

    return Parents()


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """`[servers.NAME]` of agent-eval.toml: a server that the gate starts."""

    name: str
    command: tuple[str, ...]
    """Program and arguments; `{port}` is replaced."""
    directory: str = "."
    """Where it starts, relative to the root."""
    protocol: str = "adk"
    url: str = "http://127.0.0.1:{port}"
    """Its address: loopback, with `{port}`."""
    app: str = ""
    """The app to ask; empty for the only one."""
    ready: str = ""
    """The path that answers with 2xx when it is ready; empty for those of the protocol."""
    ready_timeout: float = 120.0
    """Seconds, in which it may also be built."""
    version: str = ""
    """For the report."""

    @property
    def ready_paths(self) -> tuple[str, ...]:
        """Paths of which one answers with 2xx when it is ready."""
        return (self.ready,) if self.ready else READY_PATHS[self.protocol]


READY_PATHS: Mapping[str, tuple[str, ...]] = {
    "adk": ("/health", "/list-apps"),
    "a2a": ("/.well-known/agent-card.json", "/.well-known/agent.json"),
}
"""Protocols of servers, with the paths that are asked while a server starts."""


@dataclass(frozen=True, kw_only=True)
class RemoteOptions:
    """What drivers of remote agents need in addition."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`agent-headers`: for the origin of the `agent` input only."""
    secrets_withheld: bool = False
    """GitHub gives this job no secrets (a fork, Dependabot), so a server that refuses access is no mistake."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names proxies and certificate authorities."""
    user_ids: str = "unique"
    """`unique` adds a random suffix to each session's user id; `as-given` does not."""
    keep_sessions: bool = False
    """Sessions are not deleted on the server."""
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    """`[servers]`, by name."""


@dataclass(frozen=True, kw_only=True)
class DriverContext:
    """What all agents of a checkout share."""

    root: Path
    """The repository's root, absolute."""
    python: str | None
    """`agent-python`."""
    requirements: Path | None
    """`agent-requirements`."""
    interpreter: AgentInterpreter | None
    """The interpreter that `python` names, if it has been checked."""
    setup: asyncio.Future[None] | None
    """`agent-setup`, already started; None if there is none."""
    installer: Mapping[str, str]
    """The environment for installing packages."""
    sandbox: Sandbox
    masker: Masker
    workers: int | None
    """Processes per agent."""
    cache_dir: Path
    """Where environments are kept."""
    log_dir: Path
    log: Callable[[str], None]
    limiter: Limiter
    """Is notified of the answers of the agents' models."""
    turn_timeout: float
    """Seconds."""
    loads: LoadQueue = field(default_factory=_load_queue)
    """Where processes wait for their turn to load."""
    parents: Parents = field(default_factory=_parents)
    """What may fork them."""
    begun: BegunEnvironment | None = None
    """The environment that is made already."""
    asks_for_tools: bool = False
    """Whether tools may be answered from a recording (`replay`, `record`)."""
    asks_for_models: bool = False
    """Whether calls of models may be recorded, or answered from a recording."""
    remote: RemoteOptions = field(default_factory=RemoteOptions)


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """One agent to create."""

    source: str
    """What names the agent, without the driver's prefix: a directory, a dotted module, a file."""
    directory: Path | None
    """The agent's directory, absolute; None if it has none."""
    working_directory: Path
    """Where its processes start, absolute."""
    context: DriverContext
    runs: int = 1
    """How many are planned, at least."""
    sub_agent: str = ""
    """The agent in its tree that is evaluated as the root; empty for the root agent."""
    described: list[AgentDescribed] = field(default_factory=list)
    """Receives the agents of its tree, the root first; stays empty if its code does not run here."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """One way to run agents. `registry.DRIVERS` lists all drivers."""

    prefix: str
    """An agent whose name begins with this text belongs to the driver, e.g. `recorded:`; empty for directories and
    modules."""
    runs_here: bool
    """The agent's code runs on this machine: it needs a sandbox and `agent-setup`."""
    in_python: bool = False
    """The agent's code runs in a Python interpreter of ours, in which its custom metrics can be called, too."""
    remote: bool = False
    """The agent answers over the network. `agent-headers` may go to its address."""
    reads_file: bool = False
    """The answers come from a file or directory of this machine, which the source names."""
    repeatable: bool
    """Asking again can give another answer, so more runs are evidence."""
    replays_tools: bool = False
    """Its sessions ask `SessionRequest.tools` before a tool runs."""
    takes_state: bool = True
    """A session can begin with the state of its case, and with what was said before."""
    create: Callable[[AgentSpec], Agent]
    """Creates the agent without starting it. Imports what it needs: the registry is imported by every command."""
    refuse: Callable[[str, Path, str], Problem | None] = lambda source, root, origin: None
    """What is wrong with a source that the user named: the source, the root, and the option that names it."""
    check: Callable[[str, Path, Sequence[LoadedFile], int | None], list[Problem]] = lambda source, root, files, runs: []
    """What keeps an agent from answering eval files, found before anything runs: its source, the root, the files, and
    how many runs each case will have."""
