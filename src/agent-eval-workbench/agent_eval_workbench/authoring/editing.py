"""Edits of one case of an eval file: texts, turns, calls, the whole case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.problem import Problem, errors_of, has_error
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import plural, short_name
from agent_eval_scoring.evalset.json import (
    PatchError,
    patched_text,
    read_document,
    replaced,
    without,
    write_if_unchanged,
)
from agent_eval_scoring.evalset.parse import read_eval_file
from agent_eval_workbench.authoring.expectation import get, spelled
from agent_eval_workbench.authoring.writing import CASES, errors_in


class EditError(AgentEvalError):
    """An edit is impossible; nothing was written."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class Edits:
    """The changes of a case. Numbers are 1-based, and mean the case as it is in the file."""

    messages: Mapping[int, str] = field(default_factory=dict)
    """The user's message, by turn."""
    answers: Mapping[int, str] = field(default_factory=dict)
    """The expected answer, by turn."""
    args: Mapping[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    """The args of a call, by turn and call."""
    turns: frozenset[int] = frozenset()
    """Turns to remove."""
    calls: frozenset[tuple[int, int]] = frozenset()
    """Calls to remove, with their responses; by turn and call."""
    eval_id: str | None = None
    """The new id of the case."""


@dataclass(frozen=True, kw_only=True)
class EditedFile:
    """An eval file and the case that is edited."""

    path: Path
    name: str
    text: str
    value: Any
    index: int

    @property
    def case(self) -> Mapping[str, Any]:
        """The case as in the file."""
        return self.value[CASES][self.index]  # type: ignore[no-any-return]

    def edit_problem(self, code: str, message: str, hint: str) -> EditError:
        """An error about this file."""
        return EditError([Problem(code=code, message=message, hint=hint, file=self.name)])


def open_case(path: Path, name: str, eval_id: str) -> EditedFile:
    """Opens an eval file that is valid, to edit one of its cases.

    Args:
        path: The file.
        name: Its name in problems.
        eval_id: The id of the case.

    Raises:
        EditError: The file can't be read or has an error, or there is no such case.
    """
    document, problems = read_document(path, name)
    if document is None:
        raise EditError(problems)
    file, file_problems = read_eval_file(document, session=None)
    if file is None or has_error(file_problems):
        raise EditError(errors_of(file_problems))
    opened = EditedFile(path=path, name=name, text=document.text, value=document.value, index=0)
    if file.converted is not None:
        hint = f"Convert it first: `agent-eval migrate {name} NEW`."
        raise opened.edit_problem("edit-legacy", "The file has an older format.", hint)
    ids = [case.eval_id for case in file.cases.values()]
    if eval_id not in ids:
        close = nearby(eval_id, ids)
        listed = ", ".join(f"`{short_name(other)}`" for other in close or ids[:5])
        hint = f"Did you mean {listed}?" if close else f"Its first cases: {listed}."
        raise opened.edit_problem("edit-unknown", f"The file has no case `{short_name(eval_id)}`.", hint)
    return replace(opened, index=[*file.cases][ids.index(eval_id)])


def apply(file: EditedFile, edits: Edits) -> dict[str, Any]:
    """The case with the edits.

    Raises:
        EditError: A number does not exist in the case.
    """
    case = dict(file.case)
    cases = (file.value.get(CASES) if isinstance(file.value, dict) else None) or ()
    ids = [str(other.get(spelled(other, "eval_id"))) for other in cases if isinstance(other, dict)]
    # Found here and not by the check of the new text, whose finding would be about a file that does not exist.
    if edits.eval_id in [*ids[: file.index], *ids[file.index + 1 :]]:
        message = f"`--rename`: the file has another case `{short_name(edits.eval_id)}`. Nothing was written."
        raise file.edit_problem("duplicate-eval-id", message, "Choose another id.")
    if edits.eval_id is not None:
        case[spelled(case, "eval_id")] = edits.eval_id
    numbers = {*edits.messages, *edits.answers, *edits.turns}
    numbers |= {turn for turn, _ in (*edits.args, *edits.calls)}
    if not numbers:
        return case
    key = spelled(case, "conversation")
    turns = case.get(key)
    if not isinstance(turns, list):
        raise file.edit_problem(
            "edit-number", "The case is a scenario, which has no turns.", "Edit it without flags, in $EDITOR."
        )
    for number in sorted(numbers):
        _check(file, number, len(turns), "turn", "The case")
    # Numbers mean the file as it is: two flags of one command don't shift each other's.
    case[key] = [_turn(file, turn, number, edits) for number, turn in enumerate(turns, 1) if number not in edits.turns]
    return case


def changed_text(file: EditedFile, case: Mapping[str, Any] | None) -> str:
    """The text of the file with another value of the case, or without the case (None).

    Raises:
        EditError: The file would have an error, or can't be changed as intended.
    """
    path = (CASES, file.index)
    value = without(file.value, path) if case is None else replaced(file.value, path, case)
    try:
        text = patched_text(file.text, file.value, value)
    except PatchError as error:
        raise _patch_error(file, error) from None
    if problems := errors_in(text, file.name):
        raise EditError(problems)
    return text


def write(file: EditedFile, text: str) -> None:
    """Writes the new text.

    Raises:
        EditError: Another program has changed the file meanwhile.
        OSError: The file can't be written.
    """
    try:
        write_if_unchanged(file.path, file.text, text)
    except PatchError as error:
        raise _patch_error(file, error) from None


def _patch_error(file: EditedFile, error: PatchError) -> EditError:
    hint = "Remove duplicate keys, or start again if the file was changed meanwhile."
    return file.edit_problem("edit-patch", f"Nothing was written: {error}.", hint)


def _check(file: EditedFile, number: int, count: int, noun: str, subject: str) -> None:
    if not 1 <= number <= count:
        message = f"{subject} has no {noun} {number}."
        raise file.edit_problem("edit-number", message, f"It has {plural(count, noun)}; the first one is 1.")


def _turn(file: EditedFile, turn: Mapping[str, Any], number: int, edits: Edits) -> dict[str, Any]:
    changed = dict(turn)
    if number in edits.messages:
        key = spelled(changed, "user_content")
        changed[key] = _with_text(file, changed.get(key), edits.messages[number], "user")
    if number in edits.answers:
        key = spelled(changed, "final_response")
        changed[key] = _with_text(file, changed.get(key), edits.answers[number], "model")
    calls = {place for turn_number, place in edits.calls if turn_number == number}
    args = {place: value for (turn_number, place), value in edits.args.items() if turn_number == number}
    if calls or args:
        key = spelled(changed, "intermediate_data")
        changed[key] = _with_steps(file, changed.get(key) or {}, f"Turn {number}", calls, args)
    return changed


def _with_text(file: EditedFile, content: Any, text: str, role: str) -> dict[str, Any]:
    """The content with another text: of its only text part, which keeps its other members."""
    if not isinstance(content, dict):
        return {"role": role, "parts": [{"text": text}]}
    parts = content.get("parts") or []
    places = [
        # A thought is no part of the message that the user sees.
        place
        for place, part in enumerate(parts)
        if isinstance(part.get("text"), str) and not part.get("thought")
    ]
    if len(places) > 1:
        raise file.edit_problem(
            "edit-number", f"The message has {plural(len(places), 'text')}.", "Edit it without flags, in $EDITOR."
        )
    if not places:
        return {**content, "parts": [*parts, {"text": text}]}
    place = places[0]
    return {**content, "parts": [*parts[:place], {**parts[place], "text": text}, *parts[place + 1 :]]}


def _with_steps(
    file: EditedFile, data: Mapping[str, Any], subject: str, calls: set[int], args: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """`intermediate_data`, in whatever form, without these calls (1-based) and their responses, and with these args."""
    key = spelled(data, "invocation_events")
    events = data.get(key) or []
    if key in data:
        parts = [part for event in events for part in _parts(event)]
        uses, responses = (
            [item for part in parts if (item := get(part, name)) is not None]
            for name in ("function_call", "function_response")
        )
    else:
        names = ("tool_uses", "tool_responses")
        uses, responses = (get(data, name) or [] for name in names)
    for place in sorted({*calls, *args}):
        _check(file, place, len(uses), "call", subject)
    answered = {identity for place, identity in enumerate(_identities(uses), 1) if place in calls}
    # By identity: equal calls of a turn are different places.
    removed = {id(item) for place, item in enumerate(uses, 1) if place in calls}
    removed |= {id(item) for item, key_ in zip(responses, _identities(responses), strict=True) if key_ in answered}
    new_args = {id(item): args[place] for place, item in enumerate(uses, 1) if place in args}
    if key in data:
        return {**data, key: [kept for event in events if (kept := _kept(event, removed, new_args)) is not None]}
    changed = dict(data)
    for name in names:
        present = get(data, name) or []
        left = [
            {**item, "args": dict(new_args[id(item)])} if id(item) in new_args else item
            for item in present
            if id(item) not in removed
        ]
        # An unchanged list keeps its text in the file.
        if left != present:
            changed[spelled(data, name)] = left
    return changed


def _kept(event: dict[str, Any], removed: set[int], new_args: Mapping[int, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The event without what is removed, and with new args; None if nothing is left of it."""
    kept = []
    for part in _parts(event):
        call, response = get(part, "function_call"), get(part, "function_response")
        if not {id(call), id(response)} & removed:
            is_new = id(call) in new_args
            key = spelled(part, "function_call")
            kept.append({**part, key: {**call, "args": dict(new_args[id(call)])}} if is_new else part)
    # An event that was empty before stays: it is not this edit's.
    if _parts(event) and not kept:
        return None
    return event if kept == _parts(event) else {**event, "content": {**event["content"], "parts": kept}}


def _identities(items: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Keys that pair calls with their responses: the id, or the name and how many items before have that name."""
    names = [item.get("name") for item in items]
    return [
        ("id", item["id"]) if item.get("id") else ("name", item.get("name"), names[:place].count(item.get("name")))
        for place, item in enumerate(items)
    ]


def _parts(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (event.get("content") or {}).get("parts") or []
