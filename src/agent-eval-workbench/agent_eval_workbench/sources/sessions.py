"""Sessions of ADK (JSON of `adk run --save_session`, `adk web`, its servers; databases), its results, recordings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_results import Recording
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.adk_results import AdkCaseResult
from agent_eval_workbench.sources.conversation import (
    NODE_OUTPUT,
    Conversation,
    StoredEvent,
    stored_event,
    turns_of,
    until_last_answer,
)

_SCOPES = ("app", "user")
_ADAPTER = "_ag_ui_"
"""Prefix of the keys in which ag-ui-adk 0.11.0 keeps the ids of one conversation and of its user: left out."""
_NAMED_KEYS = 10


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """A session with its events, from whatever stored it."""

    session_id: str
    events: Sequence[StoredEvent]
    place: Place
    app_name: str | None = None
    user_id: str | None = None
    state: Mapping[str, Any] | None = None
    """The state after the last turn; None if it is unknown which keys the turns have changed."""


def is_session(value: object) -> bool:
    """Whether a JSON value is a session."""
    if not isinstance(value, Mapping) or not isinstance(value.get("events"), list):
        return False
    return any(field(value, key) is not None for key in ("app_name", "user_id", "id", "last_update_time"))


def field(value: Mapping[str, Any], key: str) -> Any:
    """A field by its snake_case name, whichever spelling the file has; None if it is unset."""
    camel = to_camel(key)
    return value[camel] if value.get(camel) is not None else value.get(key)


def session_of(value: Mapping[str, Any], place: Place) -> StoredSession:
    """A session from its JSON.

    Raises:
        UnusableConversation: It is malformed.
    """
    state = value.get("state")
    if state is not None and not isinstance(state, Mapping):
        raise UnusableConversation(place, "The session's `state` is not an object.")
    events = [
        stored_event(raw, replace(place, path=(*place.path, "events", number)))
        for number, raw in enumerate(value["events"])
    ]
    return StoredSession(
        session_id=_text(value, "id") or "(no id)",
        events=events,
        place=place,
        app_name=_text(value, "app_name"),
        user_id=_text(value, "user_id"),
        state=state or {},
    )


def _text(value: Mapping[str, Any], key: str) -> str | None:
    text = field(value, key)
    return text if isinstance(text, str) and text else None


def conversation_of(
    session: StoredSession, scopes: Collection[str] = (), eval_id: str = ""
) -> tuple[Conversation, list[Problem]]:
    """The conversation of a session.

    Args:
        session: The session.
        scopes: The scopes whose state is kept, of `app` and `user`.
        eval_id: The id of the eval case that led to it, if any.

    Raises:
        UnusableConversation: It has no complete turn, or is malformed.
    """
    turns, problems = turns_of(session.session_id, session.events)
    if not turns:
        hint = NODE_OUTPUT if any(event.raw.get("output") is not None for event in session.events) else None
        raise UnusableConversation(session.place, f"Session `{session.session_id}` has no turn with an answer.", hint)
    state, left_out = _initial_state(session, scopes)
    if session.state is not None:
        left = ("temp:", _ADAPTER, *_other_scopes(scopes))
        after = {key: value for key, value in session.state.items() if not key.startswith(left)}
        turns = [*turns[:-1], turns[-1].model_copy(update={"session_state": after})]
    return (
        Conversation(
            session_id=session.session_id,
            eval_id=eval_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=session.place,
            app_name=session.app_name,
            user_id=session.user_id,
            state=state,
        ),
        [*problems, *left_out],
    )


def _initial_state(session: StoredSession, scopes: Collection[str]) -> tuple[Mapping[str, Any] | None, list[Problem]]:
    """The state before the first turn: the keys that no event has changed, since they had their value all along."""
    if session.state is None:
        return None, []
    changed = {key for event in session.events for key in event.state_delta}
    other = _other_scopes(scopes)
    state: dict[str, Any] = {}
    touched: list[str] = []
    scoped: list[str] = []
    for key, value in session.state.items():
        if key.startswith(("temp:", _ADAPTER)):
            continue
        if key.startswith(other):
            scoped.append(key)
        elif key in changed:
            touched.append(key)
        else:
            state[key] = value
    problems = []
    if touched:
        message = f"Session `{session.session_id}` has changed {_keys(touched)}: its initial value is unknown."
        hint = "Add the initial value to `session_input.state` of the case if the agent needs it."
        problems.append(session.place.problem(Severity.NOTICE, "source-state-unknown", message, hint))
    if scoped:
        message = f"The state {_keys(scoped)} of session `{session.session_id}` belongs to more than this session."
        hint = "`--state-scopes app,user` writes it to the case, too."
        problems.append(session.place.problem(Severity.NOTICE, "source-state-scoped", message, hint))
    return state, problems


def _other_scopes(scopes: Collection[str]) -> tuple[str, ...]:
    return tuple(f"{scope}:" for scope in _SCOPES if scope not in scopes)


def _keys(keys: Sequence[str]) -> str:
    listed = ", ".join(f"`{key}`" for key in keys[:_NAMED_KEYS])
    more = len(keys) - _NAMED_KEYS
    return listed + (f" and {plural(more, 'more key')}" if more > 0 else "")


def conversation_of_result(
    value: object, place: Place, scopes: Collection[str] = ()
) -> tuple[Conversation, list[Problem]]:
    """The conversation of a case's result: its session if it was saved, else its turns.

    Args:
        value: An item of `eval_case_results`.
        place: Where it is.
        scopes: The scopes whose state is kept, of `app` and `user`.

    Raises:
        UnusableConversation: It has no turn with an answer, or is malformed.
    """
    try:
        result = AdkCaseResult.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = tuple(step for step in first["loc"])
        raise UnusableConversation(replace(place, path=(*place.path, *path)), f"{first['msg']}.") from error
    assert isinstance(value, Mapping)
    session = field(value, "session_details")
    if isinstance(session, Mapping) and isinstance(session.get("events"), list) and session["events"]:
        inside = replace(place, path=(*place.path, "session_details"))
        return conversation_of(session_of(session, inside), scopes, result.eval_id)
    made = [turn.actual_invocation for turn in result.eval_metric_result_per_invocation]
    turns, problems = until_last_answer(made, f"The result of case `{result.eval_id}`", place)
    return (
        Conversation(
            session_id=result.session_id or result.eval_id,
            eval_id=result.eval_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=place,
            user_id=result.user_id,
        ),
        problems,
    )


def is_recording(value: object) -> bool:
    """Whether a JSON value is the recording of a run."""
    return isinstance(value, Mapping) and {"run_id", "case_id", "eval_id", "run", "fingerprint"} <= value.keys()


def conversation_of_recording(value: Any, place: Place) -> tuple[Conversation, list[Problem]]:
    """The conversation of a run. A simulated conversation becomes a fixed one.

    Raises:
        UnusableConversation: The run ended with an error, has no turn with an answer, or is malformed.
    """
    try:
        recording = Recording.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UnusableConversation(place, f"The recording is malformed: `{where}`: {first['msg']}.") from error
    if recording.error is not None:
        message = f"Run `{recording.run_id}` ended with {recording.error.kind}: errors are no expectation."
        raise UnusableConversation(place, message)
    turns, problems = until_last_answer(recording.invocations, f"Run `{recording.run_id}`", place)
    conversation = Conversation(
        session_id=recording.run_id,
        eval_id=recording.eval_id,
        turns=turns,
        started_at=recording.started_at,
        place=place,
    )
    return conversation, problems
