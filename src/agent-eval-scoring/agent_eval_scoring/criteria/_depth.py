"""Tool calls that no event of a turn shows, since the agent of an AgentTool or a node of a workflow made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part
from agent_eval_scoring.core.invocation import (
    BELOW,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Span,
    hidden_calls,
    tool_calls,
)
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.criteria._differences import name_of, render_call
from agent_eval_scoring.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored


def with_hidden(turn: Invocation, paths: Sequence[str] = ("*",), names: Collection[str | None] = ()) -> Invocation:
    """The turn with events for its hidden calls, after the calls that they are inside of.

    Args:
        turn: An actual turn.
        paths: Globs of the paths of those that count.
        names: Those of the expected calls. A call is named by its tool if that is one of them, else by its path.
    """
    counting = [(path, span) for path, span in hidden_calls(turn) if any(fnmatchcase(path, glob) for glob in paths)]
    data = turn.intermediate_data
    if not counting or not isinstance(data, InvocationEvents):
        return turn
    outer = {span.call_id: span.inside for _, span in hidden_calls(turn)}
    inside: dict[str | None, list[InvocationEvent]] = {}
    for path, span in counting:
        top = span.inside
        for _ in outer:  # At most as many steps as there are calls.
            top = outer.get(top, top)
        name = span.name if path not in names and span.name in names else path
        inside.setdefault(top, []).extend(_events(name, span))
    events: list[InvocationEvent] = inside.pop(None, [])  # Of a workflow's nodes.
    for event in data.invocation_events:
        events.append(event)
        for part in event.content.iter_parts() if event.content is not None else ():
            events += inside.pop(part.function_call.id, []) if part.function_call is not None else []
    left = [event for of_call in inside.values() for event in of_call]
    return turn.model_copy(update={"intermediate_data": InvocationEvents(invocation_events=[*events, *left])})


def _events(name: str, span: Span) -> list[InvocationEvent]:
    call = Part(function_call=FunctionCall(id=span.call_id, name=name, args=span.args))
    answer = Part(function_response=FunctionResponse(id=span.call_id, name=name, response=span.response))
    parts = [call, *([answer] if span.response is not None else [])]
    return [InvocationEvent(author=span.agent, content=Content(role="model", parts=[part])) for part in parts]


@dataclass(frozen=True, kw_only=True)
class Deep:
    """Implements `Criterion`: that of a metric of tool calls, with the hidden ones that its `depth` names."""

    criterion: Criterion
    paths: Sequence[str]

    @property
    def name(self) -> str:
        """That of the metric."""
        return self.criterion.name

    @property
    def threshold(self) -> float | None:
        """That of the metric."""
        return self.criterion.threshold

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated if the agent's interface does not show such calls."""
        if any(turn.spans is None for turn in conversation.actual):
            return NotEvaluated.of("inner-calls-not-visible")
        expected = [{call.name for call in tool_calls(turn.intermediate_data)} for turn in conversation.expected or ()]
        names = dict(enumerate(expected))
        turns = [with_hidden(turn, self.paths, names.get(at, ())) for at, turn in enumerate(conversation.actual)]
        return await self.criterion.score(replace(conversation, actual=turns))


def explained(result: Result, conversation: Conversation) -> Result:
    """The result. No finding says that a call is missing which was made inside another and did not count."""
    if not isinstance(result, Scored) or not result.findings:
        return result
    findings = []
    for found in result.findings:
        about_all = any(isinstance(line, Reason) and line.code == "tool-not-called" for line in found.why)
        about = conversation.actual if about_all else [conversation.actual[found.turn]]
        hidden = [item for turn in about for item in hidden_calls(turn)]
        findings.append(replace(found, why=tuple(_located(line, hidden) for line in found.why)))
    return replace(result, findings=tuple(findings))


def _located(line: Reason | str, hidden: list[tuple[str, Span]]) -> Reason | str:
    """The line; about a call that was made inside another, which is used up."""
    if isinstance(line, str) or line.code not in ("call-missing", "tool-not-called"):
        return line
    call = str(line.data.get("call", line.data.get("subject", "")))
    at = next((at for at, (_, span) in enumerate(hidden) if name_of(span.name) == call.partition("(")[0]), None)
    if at is None:
        return line
    path, span = hidden.pop(at)
    made = render_call(FunctionCall(name=span.name, args=span.args))
    differs = line.code == "call-missing" and span.args is not None and made != call
    return Reason.of("call-inside", call=call, subject=path.rpartition(BELOW)[0], got=made if differs else "")
