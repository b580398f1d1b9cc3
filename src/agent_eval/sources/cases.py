"""Eval cases from conversations: what was asked and what should be expected, without what changes with every run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agent_eval.core.content import Content, FunctionCall, Part, text_of
from agent_eval.core.invocation import IntermediateData, Invocation, tool_calls
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import plural
from agent_eval.evalset.models import EvalCase, SessionInput
from agent_eval.sources.conversation import Conversation

LONGEST_ID = 40
"""Characters of an eval id that is made of a message."""
LARGEST_DATA = 200_000
"""Base64 characters of a part with data."""


def eval_cases(conversations: Sequence[Conversation]) -> tuple[list[EvalCase], list[Problem]]:
    """A case for each conversation, in their order.

    A case has the messages of the user, the names and arguments of the calls, the answers' text, and the initial state
    where it is known. Ids, times and thoughts are left out: they differ in every run.

    Returns:
        The cases, and what was left out of them. The case of a conversation with data that is too large, or
        with an empty message of the user, is missing.
    """
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    taken: dict[str, int] = {}
    for conversation in conversations:
        unusable = _too_large(conversation) or _asks_nothing(conversation)
        if unusable is not None:
            problems.append(unusable)
            continue
        eval_id = _unique(conversation.eval_id or _slug(conversation.turns[0].user_content), taken)
        cases.append(_case(eval_id, conversation))
        problems += _left_out(conversation)
    return cases, problems


def _case(eval_id: str, conversation: Conversation) -> EvalCase:
    fields: dict[str, Any] = {}
    if conversation.app_name and conversation.user_id:
        state = {} if conversation.state is None else {"state": dict(conversation.state)}
        fields["session_input"] = SessionInput(app_name=conversation.app_name, user_id=conversation.user_id, **state)
    return EvalCase(eval_id=eval_id, conversation=[_turn(turn) for turn in conversation.turns], **fields)


def _turn(turn: Invocation) -> Invocation:
    fields: dict[str, Any] = {"user_content": _kept(turn.user_content, "user")}
    calls = tool_calls(turn.intermediate_data)
    if calls:
        fields["intermediate_data"] = IntermediateData(tool_uses=[_call(call) for call in calls])
    answer = None if turn.final_response is None else _kept(turn.final_response, "model")
    if answer is not None and answer.parts:
        fields["final_response"] = answer
    return Invocation(**fields)


def _call(call: FunctionCall) -> FunctionCall:
    return FunctionCall(name=call.name, args={} if call.args is None else call.args)


def _kept(content: Content, role: str) -> Content:
    return Content(role=content.role or role, parts=[kept for part in content.iter_parts() if (kept := _part(part))])


def _part(part: Part) -> Part | None:
    """The part without signatures and the like; None for a thought, a tool call, and what we don't know."""
    if part.thought:
        return None
    for key in ("text", "function_response", "inline_data", "file_data"):
        value = getattr(part, key)
        if value is not None:
            return Part(**{key: value})
    return None


def _too_large(conversation: Conversation) -> Problem | None:
    sizes = [
        len(part.inline_data.data)
        for turn in conversation.turns
        for content in (turn.user_content, turn.final_response)
        for part in (() if content is None else content.iter_parts())
        if part.inline_data is not None and part.inline_data.data is not None
    ]
    if not sizes or max(sizes) <= LARGEST_DATA:
        return None
    message = f"Session `{conversation.session_id}` has a file of {max(sizes):,} base64 characters in a message."
    hint = f"At most {LARGEST_DATA:,} fit into a case. Write the case by hand, with a link (`file_data`)."
    return conversation.place.problem(Severity.ERROR, "source-data-too-large", message, hint)


def _asks_nothing(conversation: Conversation) -> Problem | None:
    for number, turn in enumerate(conversation.turns, 1):
        if not any(_part(part) for part in turn.user_content.iter_parts()):
            message = f"The user's message of turn {number} of session `{conversation.session_id}` has no content."
            return conversation.place.problem(Severity.WARNING, "source-session-skipped", message)
    return None


def _left_out(conversation: Conversation) -> Iterator[Problem]:
    """Warnings about what makes the case differ from what was recorded."""
    parts = [part for turn in conversation.turns for part in turn.user_content.iter_parts()]
    session = f"session `{conversation.session_id}`"
    if any(part.function_response is not None for part in parts):
        message = f"The user of {session} answered a tool call (a long-running tool, or a confirmation)."
        hint = "The answer has the id of a call that another run will not have; check the case."
        yield conversation.place.problem(Severity.WARNING, "source-answer-to-call", message, hint)
    if any(part.file_data is not None for part in parts):
        message = f"The user of {session} sent a link to a file, which may be gone when the case runs."
        yield conversation.place.problem(Severity.WARNING, "source-file-link", message)
    contents = [part for turn in conversation.turns for part in _all_parts(turn)]
    unknown = sum(_part(part) is None and not part.thought and part.function_call is None for part in contents)
    if unknown:
        message = f"{plural(unknown, 'part')} of the messages of {session} can't be part of a case and were left out."
        hint = "Kept are texts, data, links to files, and responses to tool calls."
        yield conversation.place.problem(Severity.WARNING, "source-part-skipped", message, hint)


def _all_parts(turn: Invocation) -> Iterator[Part]:
    yield from turn.user_content.iter_parts()
    if turn.final_response is not None:
        yield from turn.final_response.iter_parts()


def _slug(message: Content) -> str:
    """An eval id of the words of a message, in any script."""
    words = re.findall(r"\w+", text_of(message).lower())
    slug = "_".join(words)[:LONGEST_ID].strip("_")
    return slug or "conversation"


def _unique(eval_id: str, taken: dict[str, int]) -> str:
    """The id with a number if it is taken. `taken` has the last number of each id."""
    number = taken.get(eval_id, 0) + 1
    while number > 1 and f"{eval_id}_{number}" in taken:
        number += 1
    taken[eval_id] = number
    unique = eval_id if number == 1 else f"{eval_id}_{number}"
    taken.setdefault(unique, 1)
    return unique
