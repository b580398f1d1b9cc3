"""A conversation read from a source, and its turns from the events of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agent_eval_agents.adk.events import MalformedEvent, answered_agent, to_invocation
from agent_eval_agents.adk_rest import normalised
from agent_eval_agents.messages import TurnFacts
from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.problem import Problem, Severity


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The conversation of a user and an agent in one session."""

    session_id: str
    turns: Sequence[Invocation]
    """In order, at least one. Every turn has an answer."""
    started_at: float
    """Unix time in seconds; 0 if unknown."""
    place: Place
    eval_id: str = ""
    """The id of the eval case that led to it; "" for a conversation with a person."""
    app_name: str | None = None
    user_id: str | None = None
    state: Mapping[str, Any] | None = None
    """The session's state before the first turn; None if the source does not contain it."""


NODE_OUTPUT = "A workflow's node returned a value: only a `Content` or a model's text is an answer."
_USER = "user"
_LATEST = 1e12
"""Bound for times in seconds."""


@dataclass(frozen=True, kw_only=True)
class StoredEvent:
    """One event of a session, whatever the language of the ADK that stored it."""

    raw: Mapping[str, Any]
    place: Place

    @property
    def invocation_id(self) -> str:
        """The turn that it belongs to; "" for none."""
        return str(self.raw.get("invocation_id") or "")

    @property
    def by_user(self) -> bool:
        """Whether the user wrote it."""
        return str(self.raw.get("author") or "").lower() == _USER and bool(self.raw.get("content"))

    def action(self, name: str) -> Any:
        """A field of `actions`; None if it is unset."""
        return (self.raw.get("actions") or {}).get(name)

    @property
    def state_delta(self) -> Mapping[str, Any]:
        """The state keys that the event changed."""
        delta = self.action("state_delta")
        return delta if isinstance(delta, Mapping) else {}


def stored_event(raw: object, place: Place) -> StoredEvent:
    """Checks one event.

    Raises:
        UnusableConversation: It is not an event of ADK.
    """
    if not isinstance(raw, Mapping):
        raise UnusableConversation(place, "An event is not an object.")
    event = normalised(raw)
    if not isinstance(event.get("actions", {}), Mapping):
        raise UnusableConversation(place, "`actions` of an event is not an object.")
    return StoredEvent(raw=event, place=place)


def turns_of(session_id: str, events: Sequence[StoredEvent]) -> tuple[list[Invocation], list[Problem]]:
    """The turns of a session: a message of the user opens one, and the events of its invocation follow.

    Partial events and summaries are not part of a turn. Invocations that the user has rewound do not count. A last
    turn without an answer is left out.

    Args:
        session_id: The session.
        events: All its events in order.

    Returns:
        The turns, and a notice for each that was left out.

    Raises:
        UnusableConversation: An event is malformed, or a turn other than the last has no answer.
    """
    turns: list[Invocation] = []
    problems: list[Problem] = []
    # An event that only changes state, e.g. of a frontend's adapter, is no turn.
    groups = [group for group in _grouped(_without_rewound(events)) if any(event.raw.get("content") for event in group)]
    for number, group in enumerate(groups, 1):
        if not group[0].by_user:
            message = f"Session `{session_id}` begins before its first recorded event; these events are left out."
            if number > 1:
                message = f"Turn {number} of session `{session_id}` has no message of the user; it is left out."
            problems.append(group[0].place.problem(Severity.WARNING, "source-turn-skipped", message))
            continue
        turn = _turn(group)
        if is_answered(turn) or (turn.final_response is not None and number < len(groups)):
            turns.append(turn)
        elif number == len(groups):
            message = f"The last turn of session `{session_id}` has no answer; it is left out."
            problems.append(group[0].place.problem(Severity.NOTICE, "source-turn-skipped", message))
        else:
            raise UnusableConversation(group[0].place, f"Turn {number} of session `{session_id}` has no answer.")
    while turns and not is_answered(turns[-1]):
        turns.pop()
    return turns, problems


def is_answered(turn: Invocation) -> bool:
    """Whether a turn has an answer that a case can expect: a text, or content other than text."""
    parts = turn.final_response.iter_parts() if turn.final_response is not None else ()
    return any(not part.thought and (part.text is None or part.text.strip()) for part in parts)


def until_last_answer(turns: Sequence[Invocation], name: str, place: Place) -> tuple[list[Invocation], list[Problem]]:
    """The turns without the last ones that have no answer, and a notice if there are such.

    Raises:
        UnusableConversation: No turn has an answer, or one in the middle has none.
    """
    kept = list(turns)
    while kept and not is_answered(kept[-1]):
        kept.pop()
    if not kept:
        raise UnusableConversation(place, f"{name} has no turn with an answer.")
    silent = next((number for number, turn in enumerate(kept, 1) if turn.final_response is None), None)
    if silent is not None:
        raise UnusableConversation(place, f"Turn {silent} of {name[0].lower()}{name[1:]} has no answer.")
    message = f"The last turn of {name[0].lower()}{name[1:]} has no answer; it is left out."
    left_out = [place.problem(Severity.NOTICE, "source-turn-skipped", message)] if len(kept) < len(turns) else []
    return kept, left_out


def _without_rewound(events: Sequence[StoredEvent]) -> list[StoredEvent]:
    kept: list[StoredEvent] = []
    for event in events:
        rewound = event.action("rewind_before_invocation_id")
        if rewound:
            ids = [earlier.invocation_id for earlier in kept]
            kept = kept[: ids.index(str(rewound))] if str(rewound) in ids else kept
        elif not event.raw.get("partial") and not event.action("compaction"):
            kept.append(event)
    return kept


def _grouped(events: Sequence[StoredEvent]) -> list[list[StoredEvent]]:
    """The events of each turn, in the order in which the turns began."""
    groups: list[list[StoredEvent]] = []
    latest: dict[str, list[StoredEvent]] = {}
    for event in events:
        if not event.invocation_id:
            raise UnusableConversation(event.place, "The event has no `invocation_id`.")
        group = latest.get(event.invocation_id)
        if group is None or (event.by_user and answered_agent([one.raw for one in group], event.raw) is None):
            group = latest[event.invocation_id] = []
            groups.append(group)
        group.append(event)
    return groups


def _turn(events: Sequence[StoredEvent]) -> Invocation:
    place = events[0].place
    timestamp = events[0].raw.get("timestamp")
    started_at = float(timestamp) if isinstance(timestamp, int | float) and abs(timestamp) < _LATEST else 0.0
    try:
        message = Content.model_validate(events[0].raw["content"])
        facts = TurnFacts(started_at=started_at, duration=0)
        return to_invocation([event.raw for event in events[1:]], message, facts)
    except ValidationError as error:
        raise UnusableConversation(place, f"The user's message is malformed: {error.errors()[0]['msg']}.") from error
    except (MalformedEvent, AttributeError, TypeError) as error:
        raise UnusableConversation(place, f"{error}.") from error
