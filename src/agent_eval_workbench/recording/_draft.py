"""A recorded conversation with what the user has changed in it before it becomes a case."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from agent_eval.core.content import Content, model_message
from agent_eval.core.invocation import IntermediateData, Invocation, InvocationEvents


@dataclass(kw_only=True)
class Draft:
    """A conversation and its changes."""

    turns: list[Invocation]
    """What the agent did."""
    calls_visible: bool = True
    """False if the agent's interface does not show its tool calls."""
    answers: dict[int, str] = field(default_factory=dict)
    """Expected answers instead of the agent's, by turn (0-based)."""
    dropped: dict[int, set[int]] = field(default_factory=dict)
    """Calls that are not expected, by turn: their numbers (0-based) among the turn's calls."""
    eval_id: str = ""
    """The id that the user has chosen; "" for none."""

    @property
    def is_changed(self) -> bool:
        """Whether the case will expect something else than the agent has done."""
        return bool(self.answers or self.dropped)

    def expected(self) -> list[Invocation]:
        """The turns with the changes."""
        turns = []
        for number, turn in enumerate(self.turns):
            turn = without_calls(turn, self.dropped.get(number, ()))
            if number in self.answers:
                turn = turn.model_copy(update={"final_response": model_message(self.answers[number])})
            turns.append(turn)
        return turns


def without_calls(turn: Invocation, numbers: Collection[int]) -> Invocation:
    """The turn without some of its calls and their responses.

    Args:
        turn: A turn in any form.
        numbers: 0-based positions among the calls of the turn.
    """
    data = turn.intermediate_data
    if not numbers or data is None:
        return turn
    changed: IntermediateData | InvocationEvents
    if isinstance(data, IntermediateData):
        kept = [call for number, call in enumerate(data.tool_uses) if number not in numbers]
        changed = data.model_copy(update={"tool_uses": kept})
    else:
        changed = _events_without(data, numbers)
    return turn.model_copy(update={"intermediate_data": changed})


def _events_without(data: InvocationEvents, numbers: Collection[int]) -> InvocationEvents:
    ids: set[str] = set()
    count = 0
    events = []
    for event in data.invocation_events:
        parts = []
        for part in event.content.iter_parts() if event.content is not None else ():
            if part.function_call is not None:
                if count in numbers:
                    ids.add(part.function_call.id or "")
                    count += 1
                    continue
                count += 1
            answered = part.function_response.id if part.function_response is not None else None
            if not answered or answered not in ids:
                parts.append(part)
        content = Content(role=event.content.role, parts=parts) if event.content is not None else None
        events.append(event.model_copy(update={"content": content}))
    return InvocationEvents(invocation_events=events)
