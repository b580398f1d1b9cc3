"""Traces: the turns of their spans, by the attributes of each vocabulary (VeADK, OpenTelemetry, ADK)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.content import Content, FunctionCall, Part
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.json import parse_value
from agent_eval_workbench.sources.conversation import Conversation, UnusableConversation, until_last_answer
from agent_eval_workbench.sources.spans import Span

SESSION = ("gen_ai.conversation.id", "gcp.vertex.agent.session_id", "gen_ai.session.id", "session.id")
APP = ("gen_ai.app.name",)
USER = ("gen_ai.user.id", "user.id")
_MERGED = "(merged tools)"
"""The tool name of ADK's span about several parallel calls, each of which has a span of its own."""


@dataclass(frozen=True, kw_only=True)
class SpanTurn:
    """The spans of one turn."""

    root: Span
    spans: Sequence[Span]
    """All of them by start time, the root too, without those inside of a tool."""

    @property
    def tools(self) -> list[Span]:
        """The spans of tool calls by start time."""
        return [span for span in self.spans if is_tool(span) and span.text("gen_ai.tool.name") != _MERGED]

    def with_any(self, *keys: str) -> list[Span]:
        """The spans with one of these attributes."""
        return [span for span in self.spans if any(key in span.attributes for key in keys)]


def is_tool(span: Span) -> bool:
    """Whether it is the call of a tool."""
    return span.attributes.get("gen_ai.operation.name") == "execute_tool" or span.name.startswith("execute_tool")


def opens_turn(span: Span) -> bool:
    """Whether it is the outermost span that ADK makes for a user's message."""
    operation = span.attributes.get("gen_ai.operation.name")
    return operation == "invoke_workflow" or span.name == "invocation" or span.name.startswith("invoke_workflow ")


def read_turn(turn: SpanTurn) -> Invocation:
    """The turn in whatever vocabulary its spans have.

    Raises:
        UnusableConversation: The spans have no contents, or contents that can't be read.
    """
    if "gen_ai.input" in turn.root.attributes:
        return _veadk_invocation(turn)
    for reads, keys in _VOCABULARIES:
        spans = turn.with_any(*keys)
        if spans:
            return reads(turn, spans)
    raise _no_contents(turn)


def _no_contents(turn: SpanTurn) -> UnusableConversation:
    if turn.root.name == "invocation":
        hint = "Run the agent without `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`."
    else:
        hint = (
            "Run the agent with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY` (`true` records "
            "messages as events, not in spans)."
        )
    return UnusableConversation(turn.root.place, "The trace does not contain what the user and the agent said.", hint)


# VeADK: the root span has the user's message and the answer.


def _veadk_invocation(turn: SpanTurn) -> Invocation:
    root = turn.root
    message = _json(root, "gen_ai.input")
    if isinstance(message, Mapping) and isinstance(message.get("messages"), list) and message["messages"]:
        message = message["messages"][-1]
    output = _json(root, "gen_ai.output") if "gen_ai.output" in root.attributes else None
    answers = output.get("messages") if isinstance(output, Mapping) else None
    answer = answers[-1] if isinstance(answers, list) and answers else None
    return _invocation(turn, _texts(message), _texts(answer), _veadk_calls(turn))


def _veadk_prompts(turn: SpanTurn, spans: Sequence[Span]) -> Invocation:
    """A trace without the span of the invocation: the prompts of the first model call, the texts of the last one."""
    first, last = spans[0].attributes, spans[-1].attributes
    roles = {int(match[1]): role for key, role in first.items() if (match := re.fullmatch(_PROMPT_ROLE, key))}
    said = [first.get(f"gen_ai.prompt.{number}.content") for number in sorted(roles) if roles[number] == "user"]
    numbers = sorted(int(match[1]) for key in last if (match := re.fullmatch(_COMPLETION, key)))
    answer = [last.get(f"gen_ai.completion.{number}.content") for number in numbers]
    return _invocation(turn, _strings(said)[-1:], _strings(answer), _veadk_calls(turn))


_PROMPT_ROLE = r"gen_ai\.prompt\.(\d{1,6})\.role"
_COMPLETION = r"gen_ai\.completion\.(\d{1,6})\.content"


def _veadk_calls(turn: SpanTurn) -> list[FunctionCall]:
    calls = []
    for span in turn.tools:
        tool = _json(span, "gen_ai.tool.input") if "gen_ai.tool.input" in span.attributes else None
        if not isinstance(tool, Mapping):
            calls.append(_call(span, *_ARGUMENTS))
            continue
        name = tool.get("name") or span.text("gen_ai.tool.name")
        calls.append(_checked_call(span, name, tool.get("parameters") or {}))
    return calls


# OpenTelemetry's conventions, as ADK writes them by default.


def _messages_invocation(turn: SpanTurn, spans: Sequence[Span]) -> Invocation:
    asked = [span for span in spans if "gen_ai.input.messages" in span.attributes]
    answered = [span for span in spans if "gen_ai.output.messages" in span.attributes]
    if not asked or not answered:
        raise _no_contents(turn)
    said = [
        _texts(message) for message in _messages(asked[0], "gen_ai.input.messages") if message.get("role") == "user"
    ]
    answers = [_texts(message) for message in _messages(answered[-1], "gen_ai.output.messages")]
    user = next((texts for texts in reversed(said) if texts), [])
    return _invocation(turn, user, [text for texts in answers for text in texts], _calls(turn, *_ARGUMENTS))


def _messages(span: Span, key: str) -> list[Mapping[str, Any]]:
    messages = _json(span, key)
    if not isinstance(messages, list):
        raise UnusableConversation(span.place, f"The attribute `{key}` is not a list of messages.")
    return [message for message in messages if isinstance(message, Mapping)]


# ADK's older schema: the request and the response of each model call as Gemini writes them.


def _requests_invocation(turn: SpanTurn, spans: Sequence[Span]) -> Invocation:
    models = [span for span in spans if not is_tool(span)]
    request = _json(models[0], "gcp.vertex.agent.llm_request") if models else None
    response = _json(models[-1], "gcp.vertex.agent.llm_response") if models else None
    contents = request.get("contents") if isinstance(request, Mapping) else None
    if not isinstance(contents, list) or not isinstance(response, Mapping):
        raise _no_contents(turn)
    said = [_texts(item) for item in contents if isinstance(item, Mapping) and item.get("role") == "user"]
    user = next((texts for texts in reversed(said) if texts), [])
    return _invocation(turn, user, _texts(response.get("content")), _calls(turn, *_ARGUMENTS))


_ARGUMENTS = ("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args")
_VOCABULARIES = (
    (_veadk_prompts, ("gen_ai.prompt.0.content", "gen_ai.prompt.0.role")),
    (_messages_invocation, ("gen_ai.input.messages", "gen_ai.output.messages")),
    (_requests_invocation, ("gcp.vertex.agent.llm_request",)),
)
"""Readers by the attributes that show which vocabulary a trace has, the most specific first."""


def _calls(turn: SpanTurn, *keys: str) -> list[FunctionCall]:
    return [_call(span, *keys) for span in turn.tools]


def _call(span: Span, *keys: str) -> FunctionCall:
    key = next((key for key in keys if key in span.attributes), None)
    if key is None:
        hint = "Run the agent with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`."
        raise UnusableConversation(span.place, "The trace does not contain the arguments of a tool call.", hint)
    return _checked_call(span, span.text("gen_ai.tool.name"), _json(span, key))


def _checked_call(span: Span, name: object, arguments: object) -> FunctionCall:
    name = name or span.name.removeprefix("execute_tool").strip()
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        raise UnusableConversation(span.place, "The tool call has no name, or its arguments are not an object.")
    return FunctionCall(name=name, args=dict(arguments))


def _invocation(
    turn: SpanTurn, user: Sequence[str], answer: Sequence[str], calls: Iterable[FunctionCall]
) -> Invocation:
    if not user:
        raise UnusableConversation(turn.root.place, "The trace of a turn has no text of the user.")
    return Invocation(
        user_content=Content(role="user", parts=[Part(text=text) for text in user]),
        final_response=Content(role="model", parts=[Part(text=text) for text in answer]) if answer else None,
        intermediate_data=IntermediateData(tool_uses=list(calls)),
        creation_timestamp=turn.root.start / 1e9,
    )


def _json(span: Span, key: str) -> Any:
    """An attribute that holds JSON as a text; structured values are taken as they are."""
    value = span.attributes.get(key)
    if not isinstance(value, str):
        return value
    try:
        return parse_value(value)
    except ValueError as error:
        message = f"The attribute `{key}` is not JSON: {error}."
        hint = "An exporter may have shortened it (`OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`)."
        raise UnusableConversation(span.place, message, hint) from error


def _texts(message: object) -> list[str]:
    """The texts of a message: parts as `{"text": ...}`, or `{"type": "text", "content": ...}`, without thoughts."""
    if isinstance(message, str):
        return [message] if message else []
    if not isinstance(message, Mapping):
        return []
    parts = message.get("parts")
    if not isinstance(parts, list):
        content = message.get("content")
        return [content] if isinstance(content, str) and content else []
    return _strings(text for part in parts for text in _part_texts(part))


def _part_texts(part: object) -> Iterator[object]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping) and not part.get("thought") and part.get("type", "text") == "text":
        yield part["text"] if "text" in part else part.get("content")


def _strings(values: Iterable[object]) -> list[str]:
    return [value for value in values if isinstance(value, str) and value]


_DEEPEST = 500
"""Levels of spans that are looked at: traces of agents have about ten, and a damaged one can have a loop."""


@dataclass(frozen=True, kw_only=True)
class TracedSession:
    """The turns of one session as spans."""

    session_id: str
    turns: Sequence[SpanTurn]
    """In the order in which they began."""


def sessions_of(spans: Iterable[Span]) -> tuple[list[TracedSession], list[Problem]]:
    """The sessions of all traces by the start of their first turn, and a warning about turns without a session id.

    Spans of other software, e.g. of a web server, are not a turn.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    turns = [turn for trace in traces.values() for turn in _turns(trace)]
    turns.sort(key=lambda turn: turn.root.start)
    sessions: dict[str, list[SpanTurn]] = {}
    without: list[SpanTurn] = []
    for turn in turns:
        session_id = _attribute(turn, SESSION)
        if session_id is None:
            without.append(turn)
        else:
            sessions.setdefault(session_id, []).append(turn)
    problems = []
    if without:
        message = f"{plural(len(without), 'turn')} without a session id can't be assigned to a conversation."
        hint = "A trace of an agent has `gen_ai.conversation.id` on its spans."
        problems.append(without[0].root.place.problem(Severity.WARNING, "source-turn-skipped", message, hint))
    listed = [TracedSession(session_id=session_id, turns=turns) for session_id, turns in sessions.items()]
    return listed, problems


def conversation_of_trace(session: TracedSession) -> tuple[Conversation, list[Problem]]:
    """The conversation of a session.

    Raises:
        UnusableConversation: A turn has no recorded contents, or no answer although it is not the last.
    """
    place = session.turns[0].root.place
    turns, problems = until_last_answer(
        [read_turn(turn) for turn in session.turns], f"Session `{session.session_id}`", place
    )
    return (
        Conversation(
            session_id=session.session_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=place,
            app_name=_attribute(session.turns[0], APP),
            user_id=_attribute(session.turns[0], USER),
        ),
        problems,
    )


def _attribute(turn: SpanTurn, keys: Sequence[str]) -> str | None:
    """The first of these attributes, of the root or else of a span below it."""
    texts = (span.text(*keys) for span in (turn.root, *turn.spans))
    return next((text for text in texts if text is not None), None)


def _turns(trace: Sequence[Span]) -> list[SpanTurn]:
    """The turns of a trace, which may begin above them (a web server), or contain several."""
    by_id = {span.span_id: span for span in trace}
    outside = [span for span in trace if not _inside_tool(span, by_id)]
    homes = {span.span_id: _home(span, by_id) for span in outside}
    roots = [span for span in outside if homes[span.span_id] == span.span_id]
    if not roots:
        has_agent = any(span.text(*SESSION) is not None for span in outside)
        return [_turn(min(outside, key=lambda span: span.start), outside)] if has_agent else []
    members: dict[str, list[Span]] = {root.span_id: [] for root in roots}
    for span in outside:
        home = homes[span.span_id]
        if home is None and len(roots) == 1 and span.parent_id is not None and span.parent_id not in by_id:
            home = roots[0].span_id  # Its parent was not exported.
        if home is not None:
            members[home].append(span)
    return [_turn(root, members[root.span_id]) for root in roots]


def _turn(root: Span, spans: Sequence[Span]) -> SpanTurn:
    return SpanTurn(root=root, spans=sorted(spans, key=lambda span: span.start))


def _home(span: Span, by_id: Mapping[str, Span]) -> str | None:
    """The outermost span that opens a turn, among a span and its ancestors; None without any."""
    home = None
    for ancestor in (span, *_above(span, by_id)):
        home = ancestor.span_id if opens_turn(ancestor) else home
    return home


def _inside_tool(span: Span, by_id: Mapping[str, Span]) -> bool:
    """Whether it happened inside of a tool, e.g. in an agent used as one: ADK's events don't contain that either."""
    return any(is_tool(ancestor) for ancestor in _above(span, by_id))


def _above(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    above: list[Span] = []
    while span.parent_id is not None and span.parent_id in by_id and len(above) < _DEEPEST:
        span = by_id[span.parent_id]
        above.append(span)
    return above
