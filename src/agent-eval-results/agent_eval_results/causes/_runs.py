"""Runs in the form in which they are compared, and what a difference between two is."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from agent_eval_results import CauseData, Recording, RunError
from agent_eval_results.causes import _values as values
from agent_eval_scoring.core import invocation
from agent_eval_scoring.core.content import FunctionCall, text_of

Key = tuple[Any, ...]
"""What runs are grouped by: the code of a cause, and what it is about."""
HAND_OVER = "transfer_to_agent"
BETWEEN = 0.5
"""The fraction of a place between two calls."""
NOTHING = object()
"""In place of the response of a call that has none."""
_MOST_CALLS = 400
"""Calls of a turn that are compared."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place in a run."""

    at: tuple[int, float]
    """The turn (0-based), and the place in it: the number of the call, or a fraction more."""
    keys: tuple[Key, ...]
    """Special to general; empty for what explains nothing."""
    data: Mapping[Key, CauseData] = field(default_factory=dict)
    """What to report, by key."""
    ends: bool = False
    """Whether what comes later follows from it, so that nothing is claimed if it does not count itself."""
    weak: bool = False
    """Whether it is claimed only if nothing later counts: it is seen in the answer alone."""
    quiet: bool = False
    """Whether nothing of it is seen later, so that only changed lines make it a cause."""
    unless: tuple[Key, ...] = ()
    """It matters only if these keys are noise: it follows from what they stand for."""
    expects: str = ""
    """A key of the expected answer."""

    @property
    def call(self) -> int | None:
        """The number of the call in its turn; None for the answer, the whole turn, or a call that was not made."""
        place = self.at[1]
        return int(place) if 0 <= place < math.inf and place % 1 < BETWEEN else None

    def bare(self, fine: Set[str] = frozenset(), meant: Set[Key] = frozenset()) -> Difference:
        """The same without data, which takes most of the memory, without what is `fine`: calls or the answer, and
        without what the case expects.
        """
        left = tuple(key for key in self.keys if side_of(key) not in fine and key[:2] not in meant)
        return dataclasses.replace(self, data={}, keys=() if self.weak and "answer" in fine else left)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call, with its response."""

    agent: str
    call: FunctionCall
    """Its args are normalised."""
    args: dict[str, Any]
    response: Any = NOTHING

    @property
    def waits(self) -> bool:
        """Whether there is no response."""
        return self.response is NOTHING


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What happened in a turn."""

    calls: Sequence[Call]
    answer: str | None
    """None: unknown."""
    agents: Collection[str]
    """The authors of its events."""
    knows_calls: bool = True
    inner: Collection[str] = ()
    """The tools that were called inside of others."""
    lost: Sequence[invocation.LostToolset] = ()
    """Toolsets without which it took place."""
    state: Mapping[str, Any] | None = None
    """Of the session after it; None: unknown."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A run, or what a case expects, ready to be compared."""

    turns: Sequence[Turn]
    error: RunError | None = None
    agent: str = ""
    """The agent's path."""
    tools: Collection[str] = ()
    """Names of tools."""
    is_run: bool = True


def side_of(key: Key) -> str:
    """What of a run a key is about: "calls" or "answer", as far as a metric may look at it alone."""
    return {"call": "calls", "answer": "answer"}.get(str(key[0]).partition("-")[0], "")


def side_of_run(recording: Recording, agent: str, tools: Collection[str] = ()) -> Side:
    """A recorded run.

    Args:
        recording: The run.
        agent: The path of its agent.
        tools: Names of tools that are known from elsewhere.
    """
    turns = [turn_of(turn, knows_calls=recording.calls_visible) for turn in recording.all_turns]
    return Side(turns=turns, error=recording.error, agent=agent, tools=tools)


def tools_of(recording: Recording) -> set[str]:
    """The names of the tools that were called, or offered to a model."""
    names: set[str] = set()
    for turn in recording.all_turns:
        names.update(call.name or "" for call in invocation.tool_calls(turn.intermediate_data))
        names.update(invocation.declared_tools(turn.app_details))
    return names


def side_of_case(conversation: Sequence[invocation.Invocation]) -> Side:
    """What a case expects."""
    turns = [turn_of(turn, knows_calls=turn.intermediate_data is not None) for turn in conversation]
    return Side(turns=turns, is_run=False)


def turn_of(turn: invocation.Invocation, *, knows_calls: bool = True) -> Turn:
    """A turn, with each response at its call."""
    calls: list[Call] = []
    waiting: dict[str | None, deque[int]] = {}
    agents: dict[str, None] = {}
    for event, parts in invocation.contents_of(turn.intermediate_data):
        agents[event.author] = None
        for part in parts:
            if (call := part.function_call) is not None and knows_calls and len(calls) < _MOST_CALLS:
                args, same = call.args or {}, call
                # Most args are normal already, and a copy takes longer than to see that.
                if repr(normal := values.normal(args)) != repr(call.args) or not call.name:
                    same = FunctionCall(name=call.name or "", args=normal)
                for key in {call.id, call.name}:
                    waiting.setdefault(key, deque()).append(len(calls))
                calls.append(Call(agent=event.author, call=same, args=args))
            elif (answered := part.function_response) is not None:
                places = (waiting.get(answered.id) if answered.id else None) or waiting.get(answered.name)
                while places and not calls[places[0]].waits:
                    places.popleft()
                if places:
                    place = places.popleft()
                    calls[place] = dataclasses.replace(calls[place], response=answered.response)
    answer = None if turn.final_response is None else text_of(turn.final_response)
    return Turn(
        calls=calls,
        answer=answer,
        agents=agents,
        knows_calls=knows_calls,
        inner={span.name for _, span in invocation.hidden_calls(turn)},
        lost=turn.lost_toolsets,
        state=turn.session_state,
    )
