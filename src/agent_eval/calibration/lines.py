"""A line of a label file: what was asked and answered, and what people think of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agent_eval.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval.core.invocation import AgentDetails, AppDetails, Invocation, InvocationEvent, InvocationEvents, Rubric
from agent_eval.core.wire import WireModel

AGENT = "agent"
"""What the agent of a labelled response is called before the judge."""


class LabelledCall(WireModel):
    """A tool call that the agent made, and what the tool returned."""

    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    response: dict[str, Any] | str | None = None
    """None: nothing is known of it."""


class LabelledTurn(WireModel):
    """What the user said, and what the agent answered."""

    prompt: str
    response: str
    """"" if the agent said nothing."""
    reference: str | None = None
    """The answer that is known to be right."""
    tools: list[LabelledCall] = Field(default_factory=list)
    """What the agent called before it answered, in order."""
    instructions: str | None = None
    """What the agent was told by its developers."""
    tool_declarations: list[Any] = Field(default_factory=list)
    """The tools that it could call, in Gemini's form. Else those that it called are declared, by name only."""


class LabelLine(WireModel):
    """One labelled response: `prompt` and `response`, or several `turns`, or ADK's `invocations`."""

    id: str | None = None
    """For the report; the line's number stands there anyway."""
    prompt: str | None = None
    response: str | None = None
    reference: str | None = None
    tools: list[LabelledCall] = Field(default_factory=list)
    instructions: str | None = None
    tool_declarations: list[Any] = Field(default_factory=list)
    turns: list[LabelledTurn] | None = None
    invocations: list[Invocation] | None = None
    """As in recordings.jsonl.gz."""
    expected: list[Invocation] | None = None
    """The expected turns to `invocations`, as in an eval file."""
    label: Any = None
    """A word of the criterion, `pass` or `fail`, or a number."""
    rubric: str | Rubric | None = None
    """What the label is about: the id of a rubric, the text of one, or a rubric as ADK writes it."""
    labels: dict[str, Any] | None = None
    """Several labels at once, by rubric."""
    note: str = ""
    """Why the label is what it is; shown beside the judge's reason where the two disagree."""

    def conversation(self) -> tuple[list[Invocation], list[Invocation]]:
        """What happened, and what should have: as many turns.

        Raises:
            ValueError: The line has none of the three forms, or more than one; the message says it.
        """
        forms = [form for form in ("prompt", "turns", "invocations") if getattr(self, form) is not None]
        if len(forms) != 1:
            have = " and ".join(f"`{form}`" for form in forms) or "none of them"
            raise ValueError(
                f"a line has either `prompt` and `response`, or `turns`, or `invocations`; this has {have}"
            )
        flat = [name for name in _FLAT if getattr(self, name)]
        if flat and forms != ["prompt"]:
            raise ValueError(f"`{flat[0]}` stands beside `{forms[0]}`; put it into the turn that it belongs to")
        if self.expected is not None and forms != ["invocations"]:
            raise ValueError("`expected` belongs to `invocations`; else the right answer is `reference`")
        if self.invocations is not None:
            return _recorded(self.invocations, self.expected)
        if self.turns is not None:
            turns = self.turns
        else:
            if self.response is None:
                raise ValueError("`response` is missing; write an empty text if the agent said nothing")
            turns = [LabelledTurn(prompt=self.prompt or "", response=self.response, **self._rest())]
        if not turns:
            raise ValueError("`turns` is empty")
        return [_actual(turn) for turn in turns], [_expected(turn) for turn in turns]

    def _rest(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FLAT if name != "response"}


_FLAT = ("response", "reference", "tools", "instructions", "tool_declarations")


def material_key(actual: Sequence[Invocation], expected: Sequence[Invocation]) -> str:
    """Equal for lines about the same response: those are judged once."""
    listed = [turn.model_dump(mode="json", exclude_none=True) for turn in (*actual, *expected)]
    return json.dumps(listed, sort_keys=True)


def _recorded(
    actual: Sequence[Invocation], expected: Sequence[Invocation] | None
) -> tuple[list[Invocation], list[Invocation]]:
    if not actual:
        raise ValueError("`invocations` is empty")
    if expected is None:
        expected = [Invocation(user_content=turn.user_content, rubrics=turn.rubrics) for turn in actual]
    if len(actual) != len(expected):
        raise ValueError(f"there are {len(actual)} `invocations` and {len(expected)} `expected` ones")
    return list(actual), list(expected)


def _expected(turn: LabelledTurn) -> Invocation:
    reference = None if turn.reference is None else model_message(turn.reference)
    return Invocation(user_content=user_message(turn.prompt), final_response=reference)


def _actual(turn: LabelledTurn) -> Invocation:
    events: list[InvocationEvent] = []
    for number, call in enumerate(turn.tools, 1):
        called = FunctionCall(id=str(number), name=call.name, args=call.args)
        events.append(_event(Content(role="model", parts=[Part(function_call=called)])))
        if call.response is not None:
            told = {"result": call.response} if isinstance(call.response, str) else call.response
            returned = FunctionResponse(id=str(number), name=call.name, response=told)
            events.append(_event(Content(role="user", parts=[Part(function_response=returned)])))
    declared = turn.tool_declarations
    if not declared and turn.tools:
        # Else the judge would be told that there were no tools.
        names = list(dict.fromkeys(call.name for call in turn.tools))
        declared = [{"function_declarations": [{"name": name} for name in names]}]
    details = AgentDetails(name=AGENT, instructions=turn.instructions or "", tool_declarations=declared)
    return Invocation(
        user_content=user_message(turn.prompt),
        final_response=model_message(turn.response) if turn.response else None,
        intermediate_data=InvocationEvents(invocation_events=events),
        app_details=AppDetails(agent_details={AGENT: details}) if turn.instructions or declared else None,
    )


def _event(content: Content) -> InvocationEvent:
    return InvocationEvent(author=AGENT, content=content)
