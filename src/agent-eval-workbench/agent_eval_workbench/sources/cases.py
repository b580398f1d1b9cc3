"""Eval cases from conversations: what was asked and what should be expected, without what changes with every run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, text_of
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
    tool_calls,
    tool_responses,
)
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import EvalCase, SessionInput
from agent_eval_workbench.sources.conversation import Conversation

LONGEST_ID = 40
"""Characters of an eval id that is made of a message."""
LARGEST_DATA = 200_000
"""Base64 characters of a part with data."""
EXPECTATIONS = ("calls", "final", "responses", "intermediate", "state")
"""What a case can expect of a turn: the calls, the answer, the responses of tools, and what was said before the
answer; and of the session what has changed in its state."""


@dataclass(frozen=True, kw_only=True)
class CaseForm:
    """The expectations that a case gets, and their form in ADK."""

    expect: frozenset[str] = frozenset({"calls", "final"})
    """Of EXPECTATIONS."""
    form: Literal["flat", "events"] = "flat"
    """`flat`: lists of calls, responses and texts; `events`: the events of the turn in order."""


_NO_TOOL = "Invoking `"
"""How google-adk's response begins to a call of a tool that the agent does not have."""
DEFAULT_FORM = CaseForm()
"""Calls and answers, in flat lists."""


def eval_cases(
    conversations: Sequence[Conversation], *, form: CaseForm = DEFAULT_FORM, taken: Iterable[str] = ()
) -> tuple[list[EvalCase], list[Problem]]:
    """A case for each conversation, in their order.

    A case has the messages of the user, what the form expects (the names and arguments of the calls, the answers'
    text), and the initial state where it is known. Ids, times and thoughts are left out: they differ in every run.

    Args:
        conversations: What was recorded.
        form: What the cases expect.
        taken: Ids that the cases must not have.

    Returns:
        The cases, and what was left out of them. The case of a conversation with data that is too large, or
        with an empty message of the user, is missing: a warning, or an error if there is no case at all.
    """
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    skipped: list[Problem] = []
    numbers = dict.fromkeys(taken, 1)
    for conversation in conversations:
        unusable = _too_large(conversation) or _asks_nothing(conversation)
        if unusable is not None:
            skipped.append(unusable)
            continue
        eval_id = _unique(conversation.eval_id or slug(conversation.turns[0].user_content), numbers)
        cases.append(_case(eval_id, conversation, form))
        problems += _left_out(conversation, form)
    severity = Severity.WARNING if cases else Severity.ERROR
    return cases, [*(replace(problem, severity=severity) for problem in skipped), *problems]


def _case(eval_id: str, conversation: Conversation, form: CaseForm) -> EvalCase:
    fields: dict[str, Any] = {}
    # ADK's session_input requires both.
    if conversation.app_name and conversation.user_id:
        state = {} if conversation.state is None else {"state": dict(conversation.state)}
        fields["session_input"] = SessionInput(app_name=conversation.app_name, user_id=conversation.user_id, **state)
    if "state" in form.expect:
        before, after = conversation.state or {}, conversation.turns[-1].session_state or {}
        # Only what the conversation has changed: the rest is the initial state's business.
        changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
        fields |= {"final_session_state": changed} if changed else {}
    return EvalCase(eval_id=eval_id, conversation=[expected_turn(turn, form) for turn in conversation.turns], **fields)


def expected_turn(turn: Invocation, form: CaseForm = DEFAULT_FORM) -> Invocation:
    """A turn of a case that expects what happened in a recorded turn."""
    fields: dict[str, Any] = {"user_content": _kept(turn.user_content, "user")}
    inside = _flat(turn, form.expect) if form.form == "flat" else _events(turn, form.expect)
    if inside is not None:
        fields["intermediate_data"] = inside
    answer = None if turn.final_response is None or _quotes_adk(turn) else _kept(turn.final_response, "model")
    if answer is not None and answer.parts and "final" in form.expect:
        fields["final_response"] = answer
    return Invocation(**fields)


def tool_failures(turn: Invocation) -> list[tuple[str, str]]:
    """The toolsets and tools of a turn that failed, each with its error."""
    failures = [(lost.toolset, lost.error) for lost in turn.lost_toolsets]
    responses = (each for each in tool_responses(turn.intermediate_data) if each.is_error)
    return failures + [(each.name or "a tool", _error_of(each)) for each in responses]


def is_no_tool(error: str) -> bool:
    """Whether an error is ADK's of a call of a tool that the agent does not have."""
    return error.startswith(_NO_TOOL) and " failed as no tool" in error


def _error_of(response: FunctionResponse) -> str:
    value = response.response or {}
    return str(value.get("error") or value.get("error_message") or value.get("message") or value)


def _quotes_adk(turn: Invocation) -> bool:
    """Whether the answer is what ADK or a toolset says of tools that are missing, which is nothing to expect."""
    said = "" if turn.final_response is None else text_of(turn.final_response)
    # Without the exception's class: the answer quotes its message.
    errors = [lost.error.partition(": ")[2].strip() for lost in turn.lost_toolsets]
    errors += [error for _, error in tool_failures(turn) if is_no_tool(error)]
    return any(error and (error in said or error.split("\n")[0] in said) for error in errors)


def _flat(turn: Invocation, expect: frozenset[str]) -> IntermediateData | None:
    fields: dict[str, Any] = {}
    if "calls" in expect:
        fields["tool_uses"] = [_call(call) for call in tool_calls(turn.intermediate_data)]
    if "responses" in expect:
        fields["tool_responses"] = [_response(response) for response in tool_responses(turn.intermediate_data)]
    if "intermediate" in expect:
        said = intermediate_responses(turn)
        fields["intermediate_responses"] = [(author, [Part(text=text)]) for author, text in said]
    # Empty lists are what ADK takes for missing ones, and only lengthen the file.
    fields = {name: values for name, values in fields.items() if values}
    return IntermediateData(**fields) if fields else None


def _events(turn: Invocation, expect: frozenset[str]) -> InvocationEvents | None:
    data = turn.intermediate_data
    if not isinstance(data, InvocationEvents):
        return _one_event(turn, expect)
    said = set(intermediate_responses(turn)) if "intermediate" in expect else set()
    events = []
    for event in data.invocation_events:
        recorded = list(event.content.iter_parts()) if event.content is not None else []
        text = "\n".join(part.text for part in recorded if part.text and not part.thought)
        parts = [kept for part in recorded if (kept := _event_part(part, expect)) is not None]
        if (event.author, text) in said:
            parts.insert(0, Part(text=text))
        if parts:
            events.append(_event(event.author, parts))
    return InvocationEvents(invocation_events=events) if events else None


def _one_event(turn: Invocation, expect: frozenset[str]) -> InvocationEvents | None:
    """A turn in the flat form as events; the agent that made the calls is not known."""
    data = turn.intermediate_data
    parts = [
        *(Part(function_call=call) for call in tool_calls(data)),
        *(Part(function_response=response) for response in tool_responses(data)),
    ]
    kept = [part for raw in parts if (part := _event_part(raw, expect)) is not None]
    said = intermediate_responses(turn) if "intermediate" in expect else []
    events = [_event(author, [Part(text=text)]) for author, text in said] + ([_event("agent", kept)] if kept else [])
    return InvocationEvents(invocation_events=events) if events else None


def _event(author: str, parts: list[Part]) -> InvocationEvent:
    return InvocationEvent(author=author, content=Content(role="model", parts=parts))


def _event_part(part: Part, expect: frozenset[str]) -> Part | None:
    if part.function_call is not None and "calls" in expect:
        return Part(function_call=_call(part.function_call))
    if part.function_response is not None and "responses" in expect:
        return Part(function_response=_response(part.function_response))
    return None


def _call(call: FunctionCall) -> FunctionCall:
    # Never without args: that would accept any (Q14). Without the id, which is another one in each run.
    return FunctionCall(name=call.name, args={} if call.args is None else call.args)


def _response(response: FunctionResponse) -> FunctionResponse:
    return FunctionResponse(name=response.name, response={} if response.response is None else response.response)


def _kept(content: Content, role: str) -> Content:
    return Content(role=content.role or role, parts=[kept for part in content.iter_parts() if (kept := _part(part))])


def _part(part: Part) -> Part | None:
    """The part without signatures and the like; None for a thought, a tool call, and what we don't know."""
    if part.thought:
        return None
    if part.function_response is not None:
        # Its id is drawn in each run. A run fills in that of the call which the message answers.
        return Part(
            function_response=FunctionResponse(**part.function_response.model_dump(exclude={"id"}, exclude_unset=True))
        )
    for key in ("text", "inline_data", "file_data"):
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


def _left_out(conversation: Conversation, form: CaseForm) -> Iterator[Problem]:
    """Warnings about what makes the case differ from what was recorded."""
    parts = [part for turn in conversation.turns for part in turn.user_content.iter_parts()]
    session = f"session `{conversation.session_id}`"
    if "state" in form.expect and conversation.turns[-1].session_state is None:
        message = f"The state at the end of {session} is not known, so the case expects none."
        yield conversation.place.problem(Severity.WARNING, "source-state-unknown", message)
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


def slug(message: Content) -> str:
    """An eval id of the words of a message, in any script."""
    # In any script: transliteration would need tables, and ids may have any letters.
    words = re.findall(r"\w+", text_of(message).lower())
    slug = "_".join(words)[:LONGEST_ID].strip("_")
    return slug or "conversation"


def _unique(eval_id: str, taken: dict[str, int]) -> str:
    """The id with a number if it is taken. `taken` has the last number of each id."""
    number = taken.get(eval_id, 0) + 1
    # A file may have `hello_2` without `hello`.
    while number > 1 and f"{eval_id}_{number}" in taken:
        number += 1
    taken[eval_id] = number
    unique = eval_id if number == 1 else f"{eval_id}_{number}"
    taken.setdefault(unique, 1)
    return unique
