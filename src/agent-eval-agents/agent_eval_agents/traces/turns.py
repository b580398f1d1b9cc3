"""A turn of a trace: its spans become what the user said, the calls of tools, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval_agents.adk.events import to_invocation
from agent_eval_agents.messages import TurnFacts
from agent_eval_agents.traces.messages import (
    NO_ARGUMENTS,
    Call,
    Message,
    inputs,
    last_user,
    outputs,
    root_input,
    root_output,
    tool_arguments,
    tool_name,
    tool_result,
    without_contents,
)
from agent_eval_agents.traces.place import UnusableConversation
from agent_eval_agents.traces.spans import Span, above
from agent_eval_scoring.core.content import user_message
from agent_eval_scoring.core.invocation import Invocation

_MERGED = "(merged tools)"
"""The tool name of ADK's span about several parallel calls, each of which has a span of its own."""
_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")
_MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages")
_MODEL_KEYS = ("gcp.vertex.agent.llm_request", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content")
_AGENT = ("gen_ai.agent.name", "agent.name", "agent_name")
_USAGE: Mapping[str, tuple[str, ...]] = {
    "prompt_token_count": ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens"),
    "candidates_token_count": (
        "gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SpanTurn:
    """The spans of one turn."""

    root: Span
    spans: Sequence[Span]
    """All of them by start time, the root too, without those inside of a tool."""

    @property
    def shows_calls(self) -> bool:
        """Whether calls of tools would be seen: there are spans of model calls or of tools."""
        return any(is_model(span) or is_tool(span) for span in self.spans)


def _kind(span: Span) -> str:
    kind = span.attributes.get("openinference.span.kind") or span.attributes.get("traceloop.span.kind") or ""
    return str(kind).upper()


def is_tool(span: Span) -> bool:
    """Whether it is the call of a tool."""
    operation = span.attributes.get("gen_ai.operation.name")
    return operation == "execute_tool" or span.name.startswith("execute_tool") or _kind(span) == "TOOL"


def is_model(span: Span) -> bool:
    """Whether it is the call of a model."""
    if is_tool(span):
        return False
    if _kind(span) == "LLM" or span.attributes.get("gen_ai.operation.name") in _MODEL_OPERATIONS:
        return True
    # Spans of agents have messages, too; without a word of what it is, the messages decide.
    is_bare = "gen_ai.operation.name" not in span.attributes and not _kind(span)
    keys = (*_MODEL_KEYS, *(_MESSAGES if is_bare else ()))
    return any(key in span.attributes for key in keys)


def is_of_agent(span: Span) -> bool:
    """Whether a span is of an agent's framework, and not e.g. of a web server."""
    prefixes = ("gen_ai.", "openinference.", "traceloop.", "gcp.vertex.agent.", "pydantic_ai.", "llm.")
    return opens_turn(span) or is_tool(span) or any(key.startswith(prefixes) for key in span.attributes)


def opens_turn(span: Span) -> bool:
    """Whether it says that it is a turn: google-adk's outermost span, or one of our own exports."""
    if "agent_eval.case.id" in span.attributes and span.attributes.get("gen_ai.operation.name") == "invoke_workflow":
        return False  # A run with all its turns.
    is_workflow = span.attributes.get("gen_ai.operation.name") == "invoke_workflow"
    named = span.name == "invocation" or span.name.startswith(("invoke_workflow ", "invocation ["))
    return is_workflow or named or "agent_eval.turn" in span.attributes


@dataclass
class _Model:
    """A model call."""

    span: Span
    said: list[Message]
    answered: list[Message]
    before: list[Call] = field(default_factory=list)
    """The calls that only its messages show."""
    calls: list[Call] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.answered if message.text)

    @property
    def signature(self) -> tuple[Any, ...]:
        return self.text, tuple(call.key for message in self.answered for call in message.calls)


def read_turn(turn: SpanTurn) -> Invocation:
    """The turn in whatever vocabulary its spans have.

    Raises:
        UnusableConversation: The spans have no contents, or contents that can't be read.
    """
    models = _models(turn)
    if not any(model.said or model.answered for model in models):
        # The spans of models have no contents, or there are none, e.g. of a remote agent.
        models = [_Model(span, inputs(span), outputs(span)) for span in turn.spans if not is_tool(span)]
        models = [model for model in models if model.answered][:1]
    user = _user(turn, models)
    answer = next((message.text for message in reversed(root_output(turn.root)) if _answers(message)), "")
    extra = _collect_calls(turn, models)
    events = [event for model in models for event in _events(turn, model)]
    # Calls that only spans of tools show were made before the answer, whose event stays the last.
    at = max(len(events) - 1, 0) if models and models[-1].text and not models[-1].calls else len(events)
    events[at:at] = _call_events(_author(turn, turn.root), [], extra)
    said = models[-1].text if models else ""
    root = turn.root
    if not answer and not said:  # Structured outputs.
        answer = root.text("final_result", "output.value", "gen_ai.output") or ""
    # What the agent returned may differ from what its last model said, e.g. by a callback.
    if answer and answer.strip() != said.strip():
        events.append(_event(_author(turn, root), [{"text": answer}]))
    if not user or not events:
        raise without_contents(turn.spans, "The trace does not contain what the user and the agent said.")
    facts = TurnFacts(started_at=root.start / 1e9, duration=max(root.end - root.start, 0) / 1e9)
    return to_invocation(events, user_message(user), facts)


def asked(turn: SpanTurn) -> str:
    """What the user said in a turn that may have no answer; "" if the spans don't have it."""
    return _user(turn, _models(turn))


def _user(turn: SpanTurn, models: Sequence[_Model]) -> str:
    said = (last_user(model.said)[0] for model in models)
    return last_user(root_input(turn.root))[0] or next(filter(None, said), "")


def _answers(message: Message) -> bool:
    return message.role in ("assistant", "") and bool(message.text.strip()) and not message.calls


def error_of(turn: SpanTurn) -> tuple[str, str] | None:
    """The name and the message of the exception that ended the turn; None if it ended without one.

    The error of a tool ends no turn. Some frameworks set the status of inner spans only.
    """
    outside = [span for span in turn.spans if not is_tool(span) and span.error is not None]
    failed = turn.root if turn.root.error is not None else outside[0] if outside else None
    # An inner error with an answer after it was caught, or tried again.
    if failed is None or (failed is not turn.root and answer_of(turn)):
        return None
    raised = next((item for name, item in failed.events if name == "exception"), {})
    name = str(raised.get("exception.type") or failed.text("error.type") or "").rpartition(".")[2]
    return name, str(raised.get("exception.message") or failed.error or name or "the turn failed")


def answer_of(turn: SpanTurn) -> str:
    """The text that ended the turn; "" if it ended without one, e.g. by an exception."""
    models = [span for span in turn.spans if is_model(span)]
    said = [message for span in models[-1:] for message in outputs(span)] + root_output(turn.root)
    return next((message.text for message in said if _answers(message)), "")


def _models(turn: SpanTurn) -> list[_Model]:
    """The calls of models in order, each once: two instrumentations may have made spans of one call."""
    by_id = {span.span_id: span for span in turn.spans}
    found: dict[str, _Model] = {}
    for span in turn.spans:
        if is_model(span):
            model = _Model(span, inputs(span), outputs(span))
            outer = next((found[one.span_id] for one in above(span, by_id) if one.span_id in found), None)
            if outer is None or (model.answered and outer.signature != model.signature):
                found[span.span_id] = model
    return list(found.values())


def _collect_calls(turn: SpanTurn, models: Sequence[_Model]) -> list[Call]:
    """Gives each model the calls that it asked for, with their responses. Returns calls that only spans of tools show.

    A call may be in the answer of a model, only in the messages of a later one, or only in the span of a tool.
    """
    counted: Counter[tuple[str, str]] = Counter()
    every: list[Call] = []
    for model in models:
        _, since = last_user(model.said)
        earlier = [call for message in since for call in message.calls]
        asked = [call for message in model.answered for call in message.calls if not _is_output(call, turn)]
        missing = Counter(call.key for call in earlier) - counted
        for call in earlier:
            if missing[call.key] > 0:
                missing[call.key] -= 1
                model.before.append(call)
        stale = Counter(call.key for call in earlier) if model.text else Counter()
        for call in asked:
            if stale[call.key] == 0:  # Else one instrumentation has put the attributes of two calls in one span.
                model.calls.append(call)
        every += [*model.before, *model.calls]
        counted.update(call.key for call in (*model.before, *model.calls))
        _respond(every, [response for message in since for response in message.responses])
    extra = _with_tools([span for span in turn.spans if is_tool(span)], every)
    if any(call.args is None for call in every):
        raise without_contents(turn.spans, NO_ARGUMENTS)
    return extra


def _is_output(call: Call, turn: SpanTurn) -> bool:
    """Whether it is how Pydantic AI gets a structured answer, and no call of a tool."""
    return call.name.startswith("final_result") and "final_result" in turn.root.attributes


def _respond(calls: Sequence[Call], responses: Sequence[Any]) -> None:
    """Pairs the responses in a model's messages with the calls, by id and name, else in order."""
    open_calls = list(calls)
    for response in responses:
        of_tool = (call for call in open_calls if response.name in ("", call.name))
        call = next((call for call in of_tool if not (response.id and call.id) or call.id == response.id), None)
        if call is not None:
            open_calls.remove(call)
            call.response = call.response or response.value


def _with_tools(tools: Sequence[Span], calls: Sequence[Call]) -> list[Call]:
    """Gives the calls what the spans of tools answered; returns the calls that only spans show."""
    left, extra = list(calls), []
    for span in tools:
        name = tool_name(span)
        # Its responses are those of the calls' own spans.
        if name == _MERGED:
            continue
        call_id, args = span.text("gen_ai.tool.call.id", "tool.id") or "", None
        try:
            args = Call(name=name, args=tool_arguments(span)).key
        except UnusableConversation:
            if not any(call.name == name for call in left) and name and not calls:
                raise
        of_tool = [call for call in left if call.name == name]
        match = (
            next((call for call in of_tool if call_id and call.id == call_id), None)
            or next((call for call in of_tool if call.key == args), None)
            or next(iter(of_tool), None)
        )
        answer = tool_result(span)
        if match is not None:
            left.remove(match)
            match.response = answer if answer is not None else match.response
            match.args = tool_arguments(span) if match.args is None else match.args
        elif name and args is not None:
            extra.append(Call(id=call_id, name=name, args=tool_arguments(span), response=answer))
    return extra


def _author(turn: SpanTurn, span: Span) -> str:
    line = [span, *above(span, {one.span_id: one for one in turn.spans}), *turn.spans]
    return next((name for one in line if (name := one.text(*_AGENT)) is not None), "agent")


def _events(turn: SpanTurn, model: _Model) -> list[dict[str, Any]]:
    author = _author(turn, model.span)
    texts: list[dict[str, Any]] = [{"text": text} for message in model.answered for text in message.texts]
    known = model.span.attributes
    counts = {name: next((known[key] for key in keys if key in known), None) for name, keys in _USAGE.items()}
    usage = {name: int(count) for name, count in counts.items() if isinstance(count, int | float)}
    events = _call_events(author, texts, model.calls)
    if usage and events:
        events[0]["usage_metadata"] = usage
    return [*_call_events(author, [], model.before), *events]


def _call_events(author: str, texts: list[dict[str, Any]], calls: Sequence[Call]) -> list[dict[str, Any]]:
    """An event with texts and calls, and one with the responses of the calls."""
    named = [({"id": call.id or None, "name": call.name}, call) for call in calls]
    asked = [{"function_call": {**name, "args": dict(call.args or {})}} for name, call in named]
    answers = [({**name, "response": dict(call.response)}) for name, call in named if call.response is not None]
    answered = [{"function_response": answer} for answer in answers]
    events = [_event(author, [*texts, *asked])] if texts or asked else []
    return [*events, _event(author, answered)] if answered else events


def _event(author: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    # An event of the author `user` would be taken for a message of the user.
    return {"author": "agent" if author.lower() == "user" else author, "content": {"role": "model", "parts": parts}}
