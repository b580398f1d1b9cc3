"""Converts ADK's two legacy formats to the current format.

A list of turns (`query`, `expected_tool_use`, `reference`) is one case; a list of evals (`name`, `data`,
`initial_session`) is an eval set. Keys and defaults are those of google-adk 2.13.0's converters. Unlike ADK's, the ids
depend only on the content, so that two runs of the same file can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, Severity, too_many
from agent_eval_scoring.evalset.json import Document, JsonPath, read_document
from agent_eval_scoring.evalset.models import EvalCase, EvalSet, SessionInput
from agent_eval_scoring.evalset.parse.shape import keys_of, near_miss, noun, shape_problems

_IGNORE_UNKNOWN = ConfigDict(extra="ignore", defer_build=True)


_ANSWERS: Any = {"expected_tool_use": {"__all__": {"mock_tool_output"}}}
"""What is no part of a turn's id."""


class LegacyToolUse(BaseModel):
    """An expected tool call."""

    model_config = _IGNORE_UNKNOWN

    tool_name: str
    tool_input: dict[str, Any]
    mock_tool_output: Any = None


class LegacyResponse(BaseModel):
    """An intermediate response of another agent."""

    model_config = _IGNORE_UNKNOWN

    author: str
    text: str


class LegacyTurn(BaseModel):
    """One turn."""

    model_config = _IGNORE_UNKNOWN

    query: str
    reference: str = ""
    expected_tool_use: list[LegacyToolUse] = Field(default_factory=list)
    expected_intermediate_agent_responses: list[LegacyResponse] = Field(default_factory=list)


class LegacySession(BaseModel):
    """The initial session of a case; also the content of an initial session file."""

    model_config = _IGNORE_UNKNOWN

    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = Field(default_factory=dict)


class LegacyEval(BaseModel):
    """A case of a legacy eval set."""

    model_config = _IGNORE_UNKNOWN

    name: str
    data: list[LegacyTurn]
    initial_session: LegacySession = Field(default_factory=LegacySession)


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A file of another format in the current one."""

    eval_set: EvalSet
    form: Literal["turns", "evals", "dataset"]
    """A list of turns or of evals, ADK's older formats; or a dataset of agents-cli."""
    key: str = ""
    """Of the list of cases in a dataset."""

    @property
    def single_case(self) -> bool:
        """Whether it was a list of turns."""
        return self.form == "turns"

    def source_path(self, path: JsonPath) -> JsonPath:
        """Converts a path in the current format to the path in the file."""
        if len(path) < 2 or path[0] != "eval_cases":
            return ()
        rest = path[2:]
        if self.form == "dataset":
            return (self.key, path[1], *(("eval_case_id",) if rest[:1] == ("eval_id",) else ()))
        case: JsonPath = () if self.single_case else (path[1],)
        if rest[:1] == ("eval_id",):
            return case if self.single_case else (*case, "name")
        if rest[:1] == ("session_input",):
            return case if self.single_case else (*case, "initial_session")
        if rest[:1] != ("conversation",):
            return case
        turn = (*case, *rest[1:2]) if self.single_case else (*case, "data", *rest[1:2])
        renamed = {"user_content": "query", "final_response": "reference", "intermediate_data": "expected_tool_use"}
        return (*turn, *(renamed[step] for step in rest[2:3] if isinstance(step, str) and step in renamed))


_SESSION = '{"app_name": "weather", "user_id": "user", "state": {}}'


def read_session(path: Path, name: str) -> tuple[LegacySession | None, list[Problem]]:
    """Reads an initial session file.

    Args:
        path: The file.
        name: The name of the file in problems.
    """
    document, problems = read_document(path, name)
    if not path.is_file():
        hint = f"Name a file with a session, {_SESSION}, as `initial-session`, or leave it out."
        return None, [
            replace(problem, message=f"There is no initial session `{name}`.", hint=hint) for problem in problems
        ]
    if document is None:
        return None, problems
    try:
        return LegacySession.model_validate(document.value), problems
    except ValidationError as error:
        return None, [*problems, *shape_problems(document, error, LegacySession, ())]


def is_list_of_turns(value: Any) -> bool:
    """Whether a document is a legacy test file."""
    marks = ("query", "expected_tool_use", "expected_intermediate_agent_responses")
    return any(_is_list_of(value, key) for key in marks) and not _is_list_of(value, "data")


def is_list_of_evals(value: Any) -> bool:
    """Whether a document is a legacy eval set."""
    return _is_list_of(value, "data")


def _is_list_of(value: Any, key: str) -> bool:
    """Whether any item has the key. The other items may be invalid."""
    return isinstance(value, list) and any(isinstance(item, dict) and key in item for item in value)


def convert(
    document: Document, *, eval_set_id: str, eval_id: str, session: LegacySession | None
) -> tuple[Converted | None, list[Problem]]:
    """Converts a file for which `is_list_of_turns` or `is_list_of_evals` is true.

    Args:
        document: The file.
        eval_set_id: The id of the new eval set. Legacy files have none.
        eval_id: The id of the case of a list of turns.
        session: The initial session of a list of turns.

    Returns:
        The converted file, or None if a problem is an error; and the problems.
    """
    single_case = is_list_of_turns(document.value)
    model: type[BaseModel] = LegacyTurn if single_case else LegacyEval
    problems: list[Problem] = []
    items: list[Any] = []
    more = 0
    for index, item in enumerate(document.value):
        try:
            items.append(model.model_validate(item))
        except ValidationError as error:
            if len(problems) < MAX_PROBLEMS:
                problems += shape_problems(document, error, model, (index,))
            else:
                more += error.error_count()
    if more:
        problems.append(too_many(problems, MAX_PROBLEMS, more))
    if problems:
        return None, problems
    problems += islice(_misspelt(document, document.value, model, ()), MAX_PROBLEMS)
    if single_case:
        cases = [_case(eval_id, items, session)]
    else:
        cases = [_case(item.name, item.data, item.initial_session) for item in items]
    eval_set = EvalSet(eval_set_id=eval_set_id, eval_cases=cases)
    return Converted(eval_set=eval_set, form="turns" if single_case else "evals"), [
        _notice(document, single_case),
        *problems,
    ]


def _misspelt(document: Document, items: Any, model: type[BaseModel], path: JsonPath) -> Iterator[Problem]:
    """Warnings for ignored keys that are similar to known keys, with which an expectation would be lost."""
    inner: dict[str, type[BaseModel]] = {"data": LegacyTurn, "expected_tool_use": LegacyToolUse}
    keys = keys_of(model)
    for index, item in enumerate(items):
        for key, value in item.items():
            place: JsonPath = (*path, index, key)
            if key in keys:
                yield from _misspelt(document, value, inner[key], place) if key in inner else ()
            elif (close := near_miss(key, keys)) is not None and close not in item:
                message = f"`{key}` is not a key of {noun(model)}, so what it says is ignored."
                yield document.warning("misspelt-key", message, path=place, key=True, hint=f"Rename it to `{close}`.")


def _notice(document: Document, single_case: bool) -> Problem:
    form = "list of turns" if single_case else "list of evals"
    return document.problem(
        Severity.NOTICE,
        "legacy-format",
        f"The file has ADK's legacy format (a {form}) and was converted in memory.",
        hint=f"`agent-eval migrate {document.file} NEW` converts it to the current format.",
    )


def _case(eval_id: str, turns: list[LegacyTurn], session: LegacySession | None) -> EvalCase:
    conversation = [_invocation(index, turn) for index, turn in enumerate(turns)]
    if session is None or not session.model_fields_set:
        return EvalCase(eval_id=eval_id, conversation=conversation)
    session_input = SessionInput(app_name=session.app_name, user_id=session.user_id, state=session.state)
    return EvalCase(eval_id=eval_id, conversation=conversation, session_input=session_input)


def _invocation(index: int, turn: LegacyTurn) -> Invocation:
    content = json.dumps([index, turn.model_dump(mode="json", exclude=_ANSWERS)], sort_keys=True)
    return Invocation(
        invocation_id=f"legacy-{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        user_content=user_message(turn.query),
        final_response=model_message(turn.reference),
        intermediate_data=IntermediateData(
            tool_uses=[FunctionCall(name=use.tool_name, args=use.tool_input) for use in turn.expected_tool_use],
            tool_responses=[
                FunctionResponse(
                    name=use.tool_name,
                    response=output if isinstance(output := use.mock_tool_output, dict) else {"result": output},
                )
                for use in turn.expected_tool_use
                if use.mock_tool_output not in (None, "")
            ],
            intermediate_responses=[
                (response.author, [Part(text=response.text)]) for response in turn.expected_intermediate_agent_responses
            ],
        ),
    )
