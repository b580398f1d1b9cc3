"""Messages of a host process (docs/host-protocol.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, NonNegativeFloat, PositiveInt

from agent_eval_scoring.core.invocation import LostToolset, Raised, Span
from agent_eval_scoring.core.wire import HostMessage

_Name = Annotated[str, Field(max_length=4_000)]
_Text = Annotated[str, Field(max_length=40_000)]
"""The host cuts texts at half of it; masking may make them longer."""


class Hello(HostMessage):
    """Params of `hello`."""

    role: str
    """The host's default role."""
    roles: list[str] = Field(default_factory=list)
    """All supported roles; empty: only `role`."""
    versions: list[int]
    capabilities: list[str] = Field(default_factory=list)
    python: str = ""


class Loaded(HostMessage):
    """Result of `load`."""

    adk: str = ""
    genai: str = Field("", alias="google-genai")
    agent: str = ""
    """The root agent's name."""
    seconds: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Import times of `adk` and of the `agent`."""


class CodePlace(HostMessage):
    """Where a function, a class or a variable of the repository is."""

    file: _Name
    """Relative to the root."""
    line: PositiveInt | None = None
    """The first line of a function, with its decorators; None: look for the symbol."""
    symbol: _Name = ""
    """The qualified name; "" for the whole file."""


class ToolDescribed(HostMessage):
    """A tool of an agent."""

    name: _Name
    code: CodePlace | None = None
    declaration: _Name = ""
    """Hash of its declaration; "" if its own class makes that."""


class AgentDescribed(HostMessage):
    """An agent of the tree."""

    name: _Name
    model: _Name = ""
    instruction: _Text = ""
    description: _Text = ""
    sub_agents: list[_Name] = Field(default_factory=list, max_length=500)
    functions: dict[_Name, Annotated[list[CodePlace | None], Field(max_length=100)]] = Field(
        default_factory=dict, max_length=50
    )
    """Callbacks, and functions that make instructions, by the attribute that has them."""
    tools: list[ToolDescribed] = Field(default_factory=list, max_length=500)
    code: CodePlace | None = None
    """The variable that has it, or its class."""


class AgentsDescribed(HostMessage):
    """Result of `agents`."""

    agents: list[AgentDescribed] = Field(default_factory=list, max_length=100)
    """The root first."""


class Attempt(HostMessage):
    """A failed attempt of a model call."""

    status: int | None = None
    """HTTP status; None without a response."""
    cause: str = ""
    """A short, constant description: `connection refused`."""


class ModelCallFacts(HostMessage):
    """A call of the agent's model that got no response."""

    model: str = ""
    address: str = ""
    """Scheme, host and port; empty if the host can't see attempts (clients other than google-genai)."""
    remote: bool = False
    """Whether a library calls the model over the network, not the agent's own code."""
    seconds: NonNegativeFloat = 0.0
    """Seconds since the first attempt began."""
    silent: NonNegativeFloat = 0.0
    """Seconds that the current attempt has waited for a response, or for the next part of a stream."""
    attempts: list[Attempt] = Field(default_factory=list)
    """Failed attempts, oldest first."""


class ModelNews(HostMessage):
    """Params of `model`: an attempt began, ended, or is still waiting."""

    turn: int
    call: int
    model: str = ""
    address: str = ""
    what: Literal["asked", "answered", "failed", "cancelled", "silent"]
    status: int | None = None
    cause: str = ""
    seconds: NonNegativeFloat = 0.0
    """Seconds without data."""


class Pause(HostMessage):
    """Params of `pause`: a model call waits for `resume` before its next attempt."""

    turn: int
    call: int
    seconds: NonNegativeFloat
    """Minimum seconds to wait."""


class ErrorData(HostMessage):
    """Data of an error response: the exception."""

    type: str = ""
    classes: list[str] = Field(default_factory=list)
    """Full names of the class and its ancestors."""
    traceback: str | None = None
    origin: str = "agent"
    """`model` if a model call raised it."""
    status: int | None = None
    """HTTP status of the failed model call."""
    exit: int | None = None
    """Code of a `sys.exit()`."""
    nearest: str | None = None
    """The name that was probably meant."""
    no_login: bool = False
    """Whether google-auth found no credentials."""
    lacks_key: bool = False
    """Whether a provider's library had no key to make a client with, and no model's key is set."""
    call: ModelCallFacts | None = None
    """The model call that raised it, if known."""
    raised: Raised | None = None
    so_far: TurnFacts | None = None
    """Of the turn."""


class Waiting(ModelCallFacts):
    """Params of `waiting`: what a turn was waiting for when it was cancelled. For a model, also its call."""

    turn: int
    where: str = ""
    """The stack at that point."""
    at: str = ""
    """The innermost line of the agent's own code: `agent.py:41: await look_up(room)`."""
    place: CodePlace | None = None
    """The same line; None if it is not in the repository."""
    kind: str = Field("", alias="for")
    """`model` or `tool`."""
    name: str = ""
    calls: int = 0
    """Completed model calls of this turn."""
    server: str = ""
    """The server that the turn waited for in vain, with its kind: `MCP server at URL`; "" if there is none."""
    stalled: NonNegativeFloat = 0.0
    """Seconds of the turn in which the host's event loop was blocked, by this turn or by another."""
    so_far: TurnFacts | None = None
    """Of the turn."""


class Stack(HostMessage):
    """Result of `stack`: the main thread's stack."""

    where: str = ""
    at: str = ""
    place: CodePlace | None = None


class Started(HostMessage):
    """Params of `started`: the call of a custom metric begins."""

    turn: int


class ToolAsked(HostMessage):
    """Params of `tool`: ADK is about to run the body of a tool."""

    turn: int
    call: int
    """Names the call within its host."""
    follows: int | None = None
    """The last call of a tool or a model that the same code has made; None if it has made none."""
    call_id: str = ""
    """The id of the function call in ADK's events."""
    agent: str = ""
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    declaration: str = ""
    """Hash of the tool's declaration."""
    source: str = ""
    """Hash of the agent's own files that define the tool; empty if there are none."""
    files: list[str] = Field(default_factory=list)
    """The names of these files, relative to the root; empty if one of them is somewhere else."""
    implementation: dict[str, str] = Field(default_factory=dict)
    """The functions and classes behind the tool, and hashes of the values that they hold, by place."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of the installed packages that its code uses; `*`: a hash of all that are installed."""
    changed: dict[str, str] = Field(default_factory=dict)
    """Hashes of the values that have changed since, by place; `$` if a tool has changed them, too."""


class Looked(HostMessage):
    """Result of `look`."""

    saw: dict[str, str]


class ToolError(HostMessage):
    """The exception that the body of a tool, or a model, raised."""

    type: str
    """Full name of the class; builtins without their module."""
    message: str = ""


class ToolRan(HostMessage):
    """Params of `tool_ran`: the body of a tool has run."""

    turn: int
    call: int
    response: Any = None
    state: dict[str, Any] = Field(default_factory=dict)
    """The keys of the session's state that it set."""
    actions: dict[str, Any] = Field(default_factory=dict)
    """`escalate`, `skip_summarization` and `transfer_to_agent`, if it set them."""
    error: ToolError | None = None
    seconds: NonNegativeFloat = 0.0
    reason: str | None = None
    """Why the call can't be replayed, e.g. `it saves artifacts`; None if it can."""
    read: list[str] = Field(default_factory=list)
    """What any call of the tool has read of the repository in this process: `file:NAME`, `folder:NAME` (its list), and
    `path:NAME` (whether there is one). Names are relative to the root."""
    saw: dict[str, str] = Field(default_factory=dict)
    """The variables of the environment, in the same way: values by `variable:NAME`. Of the session what this call has
    read: hashes by `state:KEY`, `artifact:NAME` and `memory:QUERY`, with `*` as the name of all."""
    hidden: list[str] = Field(default_factory=list)
    """Kinds of what it used and nothing can compare (docs/tools.md)."""


class ModelAsked(HostMessage):
    """Params of the request `model`: a model is about to be called."""

    turn: int
    call: int
    """Names the call within its host, among those of tools too."""
    follows: int | None = None
    """See `ToolAsked`."""
    agent: str = ""
    """The agent that calls it; "" if it is none."""
    model: str = ""
    """The name in the request."""
    implementation: str = ""
    """Full name of the model's class."""
    code: str = ""
    """Hash of the code behind the model: the repository's functions, and packages; "" if it is the framework's."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the model was made with, as far as it is JSON and the request does not show it. Without addresses, keys,
    headers, clients and retries."""
    stream: bool = False
    request: dict[str, Any] = Field(default_factory=dict)
    """`instruction`, `contents`, `tools`, `config` (the rest of the generation config), and what else ADK sends.
    Bytes are a hash. Without labels, headers and caches."""
    unreadable: str = ""
    """Why the host can't use the answer that it just got for this call; the turn has to end."""


class ModelRan(HostMessage):
    """Params of `model_ran`: a model has answered. If there is a second one of a call, it is right.

    Without an outcome: the agent has dealt with the answer.
    """

    turn: int
    call: int
    responses: list[dict[str, Any]] = Field(default_factory=list)
    """ADK's responses: partial ones, and the first complete one."""
    error: ToolError | None = None
    seconds: NonNegativeFloat = 0.0
    read: list[str] = Field(default_factory=list)
    """See `ToolRan`."""
    reason: str | None = None
    """Why the call can't be replayed, e.g. `it was cancelled`; None if it can, unless there is an error."""

    @property
    def is_dealt(self) -> bool:
        """Whether this says that the agent has dealt with the answer."""
        return not self.responses and self.error is None and self.reason is None


class ToolsetAsked(HostMessage):
    """Params of `toolset`: ADK is about to ask an MCP server for its tools."""

    turn: int
    toolset: str
    """See `Tape.toolsets`."""


class ToolsetListed(ToolsetAsked):
    """Params of `toolset_listed`: the server has answered."""

    tools: list[dict[str, Any]] = Field(default_factory=list)
    """In MCP's own form."""


class AgentRequest(HostMessage):
    """The first model request of an agent in a turn."""

    agent: str
    instructions: str = ""
    tools: list[Any] = Field(default_factory=list)


class TurnFacts(HostMessage):
    """Result of `send`: the host's measurements of a turn."""

    started_at: FiniteFloat = 0.0
    """Unix time in seconds."""
    duration: FiniteFloat | None = None
    """Wall-clock seconds. The next two: awaiting a model, and in tools without awaiting a model."""
    model_duration: FiniteFloat | None = None
    tool_duration: FiniteFloat | None = None
    requests: list[AgentRequest] = Field(default_factory=list)
    spans: list[Span] | None = None
    """Each model and tool call; None from an agent that is not in a host of ours."""
    lost_toolsets: list[LostToolset] = Field(default_factory=list)
    state: dict[str, Any] | None = None
    """The session's state after a turn that ended; None if it is unknown."""
