"""The user of each run: fixed turns, or a simulated user."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.content import Content, Part
from agent_eval_scoring.core.invocation import Invocation, tool_calls
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.simulation.protocol import Stop, User, simulator_options

if TYPE_CHECKING:
    from agent_eval_scoring.models import Model, Replies


_Calls = dict[str | None, deque[str]]
"""Ids of calls by tool, oldest first."""


@dataclass(frozen=True, kw_only=True)
class StaticUser:
    """Replays the messages of a conversation with all their parts."""

    conversation: Sequence[Invocation]

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The user's message of the next turn."""
        if len(turns) < len(self.conversation):
            return with_call_ids(self.conversation[len(turns)].user_content, turns)
        return Stop(reason="conversation-over", message="All turns of the case were sent.")


def with_call_ids(message: Content, turns: Sequence[Invocation]) -> Content:
    """A message whose tool responses (of a long-running tool, of a confirmation) have the ids of this session's calls.

    ADK finds a call by its id, which is different in every run, so an eval file can't have it. A response answers the
    first unanswered call of the last turn that called its tool. If there is none, it stays as it is.

    Args:
        message: As in the eval file.
        turns: The session's turns so far.
    """
    unanswered: _Calls = {}
    for turn in turns:
        _answered(turn.user_content, unanswered)
        calls: _Calls = {}
        for call in tool_calls(turn.intermediate_data):
            if call.id:
                calls.setdefault(call.name, deque()).append(call.id)
        unanswered |= calls
    return _answered(message, unanswered)


def _answered(message: Content, unanswered: _Calls) -> Content:
    if all(part.function_response is None for part in message.iter_parts()):
        return message
    return message.model_copy(update={"parts": [_with_id(part, unanswered) for part in message.iter_parts()]})


def _with_id(part: Part, unanswered: _Calls) -> Part:
    response = part.function_response
    if response is None or not unanswered.get(response.name):
        return part
    call_id = unanswered[response.name].popleft()
    return part.model_copy(update={"function_response": response.model_copy(update={"id": call_id})})


def user_of(
    case: EvalCase,
    config: Mapping[str, Any] | None,
    model: Model | None,
    *,
    case_id: str,
    run: int = 0,
    replies: Replies | None = None,
) -> User:
    """The user of a run of a case.

    Args:
        case: The case.
        config: The `user_simulator_config` that applies to it.
        model: Plays the user of a scenario; None if no case has one.
        case_id: Attributes the calls to the case.
        run: 0-based.
        replies: Those of the user, if the run is recorded or replayed.

    Raises:
        ValueError: The case has a scenario, but there is no model.
    """
    if case.conversation_scenario is None:
        return StaticUser(conversation=case.conversation or ())
    if model is None:
        raise ValueError(f"{case_id} has a scenario, but there is no model for its user")
    from agent_eval_scoring.simulation.simulated import SimulatedUser

    return SimulatedUser(
        scenario=case.conversation_scenario,
        options=simulator_options(config),
        model=model,
        case_id=case_id,
        run=run,
        replies=replies,
    )
