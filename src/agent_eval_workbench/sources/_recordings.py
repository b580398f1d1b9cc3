"""Conversations from our own recordings: the lines of recordings.jsonl.gz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from agent_eval.core.problem import Problem
from agent_eval.results import Recording
from agent_eval_workbench.sources.conversation import Conversation, Place, UnusableConversation


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
    turns = recording.invocations
    if not turns or any(turn.final_response is None for turn in turns):
        raise UnusableConversation(place, f"Run `{recording.run_id}` has a turn without an answer.")
    conversation = Conversation(
        session_id=recording.run_id,
        eval_id=recording.eval_id,
        turns=turns,
        started_at=recording.started_at,
        place=place,
    )
    return conversation, []
