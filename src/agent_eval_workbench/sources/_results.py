"""Conversations from ADK's results of an eval set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pydantic import ValidationError

from agent_eval.core.problem import Problem
from agent_eval.results import AdkCaseResult
from agent_eval_workbench.sources._sessions import conversation_of, field, session_of
from agent_eval_workbench.sources.conversation import Conversation, Place, UnusableConversation


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
    turns = [turn.actual_invocation for turn in result.eval_metric_result_per_invocation]
    if not turns or any(turn.final_response is None for turn in turns):
        raise UnusableConversation(place, f"The result of case `{result.eval_id}` has no answers.")
    return (
        Conversation(
            session_id=result.session_id or result.eval_id,
            eval_id=result.eval_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=place,
            user_id=result.user_id,
        ),
        [],
    )
