"""A turn: what the user said, what was expected or happened, what the agent answered.

The same type holds the expected turn (from an eval file) and the actual one (from an agent), as in ADK.
Field names, defaults and unions follow google-adk 2.13.0 (docs/adk-compatibility.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, FiniteFloat, NonNegativeInt, PositiveInt, Tag
from pydantic.alias_generators import to_camel

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, part_of, text_of
from agent_eval_scoring.core.wire import WireModel

_DEEPEST = 50
"""Names of a call's path."""


class RubricContent(WireModel):
    """What a rubric demands."""

    text_property: str | None = None


class Rubric(WireModel):
    """One property that a judge checks with yes or no."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = None
    type: str | None = None
    """Which rubric criterion reads it when it is part of a case or a turn, e.g. `TOOL_USE_QUALITY`."""


class IntermediateData(WireModel):
    """The older form of what happens inside a turn: three flat lists."""

    tool_uses: list[FunctionCall] = Field(default_factory=list)
    tool_responses: list[FunctionResponse] = Field(default_factory=list)
    intermediate_responses: list[tuple[str, list[Part]]] = Field(default_factory=list)
    """Pairs of author and parts, in order."""


class InvocationEvent(WireModel):
    """One event inside a turn. Unknown keys are ignored: `adk web` adds some of its own."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore", defer_build=True
    )

    author: str
    content: Content | None = None
    grounding_metadata: dict[str, Any] | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    branch: str | None = None
    """The agents that led to the event, joined by dots: `root.planner`. Only in actual turns; not in ADK's format."""


class EventError(WireModel):
    """An error that an event of an actual turn reports, e.g. `SAFETY` of a model. Not in ADK's format."""

    author: str = ""
    code: str = ""
    message: str = ""
    after: NonNegativeInt = 0
    """How many of the turn's events with content come before it."""

    def __str__(self) -> str:
        """Code and message in one text."""
        return ": ".join(filter(None, (self.code, self.message)))


class InvocationEvents(WireModel):
    """The newer form of what happens inside a turn: the events in order."""

    invocation_events: list[InvocationEvent] = Field(default_factory=list)


def _intermediate_form(value: Any) -> str:
    """Which form a value has: the presence of the events key decides, as in ADK (`{}` is the older form)."""
    if isinstance(value, InvocationEvents):
        return "events"
    if isinstance(value, dict) and ("invocation_events" in value or "invocationEvents" in value):
        return "events"
    return "data"


AnyIntermediateData = Annotated[
    Annotated[IntermediateData, Tag("data")] | Annotated[InvocationEvents, Tag("events")],
    Discriminator(_intermediate_form),
]


class AgentDetails(WireModel):
    """The instructions and tools that one agent gave its model."""

    name: str
    instructions: str = ""
    # Any: declarations are those of google-genai, and change with it.
    tool_declarations: list[Any] = Field(default_factory=list)


class AppDetails(WireModel):
    """The agents that made a model call in a turn, by name."""

    agent_details: dict[str, AgentDetails] = Field(default_factory=dict)


def declared_tools(details: AppDetails | None) -> Iterator[str]:
    """The names of the tools that the agents of a turn gave their models."""
    for agent in details.agent_details.values() if details is not None else ():
        for tool in agent.tool_declarations:
            value = tool if isinstance(tool, dict) else {}
            functions = value.get("function_declarations", value.get("functionDeclarations"))
            for function in functions if isinstance(functions, list) else ():
                name = function.get("name") if isinstance(function, dict) else None
                if isinstance(name, str):
                    yield name


class Raised(WireModel):
    """An exception, and the repository's innermost line in its traceback."""

    # Written by the agent's code: bounded where it enters.
    type: str = Field(max_length=4_000)
    """The class, e.g. `KeyError`."""
    file: str = Field(default="", max_length=4_000)
    """Relative to the root; "" if no line of the repository is known. The next two are those of this file."""
    line: PositiveInt | None = None
    symbol: str = Field(default="", max_length=4_000)
    """The function."""


class Span(WireModel):
    """A model call or a tool call of a turn, as the agent's process measured it. Not in ADK's format."""

    kind: Literal["model", "tool"]
    agent: str = ""
    """The agent that made the call."""
    name: str = ""
    """The model or the tool."""
    call_id: str | None = None
    """The id of the tool call; None for a model."""
    start: FiniteFloat
    """Seconds since the turn began, as `end`."""
    end: FiniteFloat
    attempts: list[int | None] = Field(default_factory=list)
    """HTTP statuses of the failed attempts of a model call, oldest first; None for an attempt without a response."""
    input_tokens: NonNegativeInt | None = None
    """Tokens of a model call; None if the model does not report them."""
    output_tokens: NonNegativeInt | None = None
    contents: NonNegativeInt | None = Field(default=None, exclude_if=lambda value: value is None)
    """Number of contents (messages, calls, responses) in the request of a model call; None if it is unknown."""
    replayed: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the answer comes from a tape (docs/tools.md): no tool ran, or no model was asked."""
    raised: Raised | None = Field(default=None, exclude_if=lambda value: value is None)
    """What a tool raised, whether or not the agent went on."""
    inside: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The id of the tool call whose agent or node made this one; None for calls of the turn's own agents."""
    args: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a tool call that no event shows; None if they are too large. So is the next."""
    response: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)


class LostToolset(WireModel):
    """A toolset that raised when google-adk asked for its tools. The agent ran without them."""

    agent: str = ""
    toolset: str
    """Its class; of an MCP server also the program or the address."""
    error: str
    """The exception with its message."""

    @property
    def is_placeholder(self) -> bool:
        """Whether it has no tools by design, as that of a frontend (`AGUIToolset`)."""
        return self.error.startswith("NotImplementedError")


class Invocation(WireModel):
    """One turn, expected or actual."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: AnyIntermediateData | None = None
    creation_timestamp: float = 0.0
    duration: float | None = None
    """Wall seconds of the turn; only an actual turn has it, as the next two."""
    model_duration: float | None = None
    tool_duration: float | None = None
    rubrics: list[Rubric] | None = None
    app_details: AppDetails | None = None
    spans: list[Span] | None = None
    """The model and tool calls of an actual turn by start time; None if they were not measured. Not in ADK's format."""
    errors: list[EventError] = Field(default_factory=list, exclude_if=lambda value: not value)
    """What events of an actual turn reported, in order. No criterion and no judge sees it, as in ADK."""
    node_output: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether a workflow's node returned a value, and nothing answered. Only of an actual turn; not in ADK's format."""
    lost_toolsets: list[LostToolset] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Of an actual turn. Not in ADK's format."""
    session_state: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)
    """The session's state after an actual turn; None if the agent's interface does not show it. Not in ADK's format."""


MEASURED = frozenset({"spans", "errors", "node_output", "lost_toolsets", "session_state"})
"""What only turns that we recorded have."""


def adk_value(turn: Invocation) -> dict[str, Any]:
    """The turn as JSON that ADK's `Invocation` accepts: without what only we record."""
    value = turn.model_dump(mode="json", exclude_none=True, exclude=set(MEASURED))
    data = value.get("intermediate_data") or {}
    for event in data.get("invocation_events", ()):
        # Not ADK's, whose model refuses unknown fields.
        event.pop("branch", None)
    return value


def _event_parts(data: InvocationEvents) -> list[Part]:
    return [part for event in data.invocation_events if event.content is not None for part in event.content.parts or ()]


def contents_of(data: IntermediateData | InvocationEvents | None) -> Iterator[tuple[InvocationEvent, Sequence[Part]]]:
    """The events of a turn that have content, with their parts, in order.

    The older form has no order between its lists: responses of sub-agents come first, then calls, then tool responses.
    The events of calls and tool responses have the author "".
    """
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            if event.content is not None:
                yield event, event.content.parts or []
    elif data is not None:
        for author, parts in data.intermediate_responses:
            yield InvocationEvent(author=author), parts
        agent = _nobody()
        yield agent, [part_of(call) for call in data.tool_uses]
        yield agent, [part_of(response=response) for response in data.tool_responses]


@cache
def _nobody() -> InvocationEvent:
    return InvocationEvent(author="")


def happened(turn: Invocation) -> Iterator[tuple[InvocationEvent, Sequence[Part], EventError | None]]:
    """As `contents_of`, and the errors of events among them, each as an event without parts."""
    waiting = list(turn.errors)
    for number, (event, parts) in enumerate(contents_of(turn.intermediate_data)):
        # Errors are stored apart from the events, because ADK's format has no place for them.
        while waiting and waiting[0].after <= number:
            yield InvocationEvent(author=waiting[0].author), (), waiting.pop(0)
        yield event, parts, None
    yield from ((InvocationEvent(author=error.author), (), error) for error in waiting)


def tool_calls(data: IntermediateData | InvocationEvents | None) -> list[FunctionCall]:
    """All tool calls of a turn, in event order then part order; none for no data."""
    if data is None:
        return []
    if isinstance(data, IntermediateData):
        return list(data.tool_uses)
    return [part.function_call for part in _event_parts(data) if part.function_call is not None]


def tool_responses(data: IntermediateData | InvocationEvents | None) -> list[FunctionResponse]:
    """All tool responses of a turn, in order; none for no data."""
    if data is None:
        return []
    if isinstance(data, IntermediateData):
        return list(data.tool_responses)
    return [part.function_response for part in _event_parts(data) if part.function_response is not None]


BELOW = " > "
"""Between the names of a call's path."""


def hidden_calls(turn: Invocation) -> list[tuple[str, Span]]:
    """The tool calls that no event of a turn shows, each with its path, e.g. `weather > lookup2`.

    The agent of an AgentTool made them, or a node of a workflow: then the path begins with the workflow. In the order
    of their beginnings; none if calls were not measured.
    """
    spans = {span.call_id: span for span in turn.spans or () if span.kind == "tool" and span.call_id}
    if not spans:
        return []
    shown = {call.id for call in tool_calls(turn.intermediate_data)}
    return [(_path(span, spans), span) for call_id, span in spans.items() if call_id not in shown]


def _path(span: Span, spans: Mapping[str, Span]) -> str:
    names, outer = [span.name], span.inside
    # A bound: spans come from the agent's process, and two may name each other.
    while outer is not None and outer in spans and len(names) < _DEEPEST:
        names.append(spans[outer].name)
        outer = spans[outer].inside
    # Recordings of earlier versions don't say what a call is inside of: an AgentTool has the name of its agent.
    return BELOW.join([*([span.agent] if span.inside is None and span.agent else []), *reversed(names)])


def answered(
    data: IntermediateData | InvocationEvents | None,
) -> Iterator[tuple[FunctionCall, FunctionResponse | None]]:
    """The tool calls of a turn, each with its response: by its id, else the first one of its name."""
    # A copy, from which each response is taken once.
    left = tool_responses(data)
    for call in tool_calls(data):
        of_tool = (one for one in left if one.name == call.name)
        answer = next((one for one in of_tool if None in (one.id, call.id) or one.id == call.id), None)
        if answer is not None:
            left.remove(answer)
        yield call, answer


def intermediate_responses(turn: Invocation) -> list[tuple[str, str]]:
    """Author and text of each response before the final one, in order: what sub-agents said on the way.

    Thoughts don't count, nor does a repetition of the final response.
    """
    data = turn.intermediate_data
    pairs: list[tuple[str, list[Part]]] = []
    if isinstance(data, IntermediateData):
        pairs = data.intermediate_responses
    elif data is not None:
        pairs = [(event.author, list(event.content.iter_parts())) for event in data.invocation_events if event.content]
    final = text_of(turn.final_response)
    texts = [
        (author, "\n".join(part.text for part in parts if part.text and not part.thought)) for author, parts in pairs
    ]
    # ADK's last event is often in both: the final response is no step on the way to itself.
    return [(author, text) for author, text in texts if text.strip() and text != final]
