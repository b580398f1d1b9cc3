"""From a JSON document to an eval set, whichever of ADK's forms the file has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from pydantic import ValidationError

from agent_eval.core.problem import MAX_PROBLEMS, Problem
from agent_eval.evalset.json import Document, JsonPath
from agent_eval.evalset.models import EvalCase, EvalSet
from agent_eval.evalset.parse._foreign import what_is
from agent_eval.evalset.parse.legacy import Converted, LegacySession, convert, is_list_of_evals, is_list_of_turns
from agent_eval.evalset.parse.shape import keys_of, near_miss, shape_problems


@dataclass(frozen=True, kw_only=True)
class EvalFile:
    """An eval file as far as it could be read: sound cases are there even when others are not."""

    document: Document
    eval_set: EvalSet | None
    """None when the file has an error."""
    eval_set_id: str | None
    cases: dict[int, EvalCase] = field(default_factory=dict)
    """The cases that have the right shape, by their place in the file."""
    converted: Converted | None = None
    """How an older form was read."""

    def error(self, code: str, message: str, path: JsonPath, hint: str) -> Problem:
        """A finding that forbids the run; the path is that of the present form."""
        return self.document.error(code, message, path=self._source(path), hint=hint)

    def warning(self, code: str, message: str, path: JsonPath, hint: str) -> Problem:
        """A finding that is only shown; the path is that of the present form."""
        return self.document.warning(code, message, path=self._source(path), hint=hint)

    def case_lines(self) -> dict[int, int]:
        """The line on which each case begins, by its place in the file."""
        positions = self.document.positions
        if self.converted is None:
            return dict(enumerate(positions.lines_of_items(("eval_cases",))))
        if self.converted.single_case:
            return {0: positions.of(()).line}
        return dict(enumerate(positions.lines_of_items(())))

    def _source(self, path: JsonPath) -> JsonPath:
        return path if self.converted is None else self.converted.source_path(path)


def read_eval_file(document: Document, *, session: LegacySession | None) -> tuple[EvalFile | None, list[Problem]]:
    """Reads an eval set in its present form or in one of the two older ones.

    Args:
        document: The file.
        session: The session that an older test file starts in.

    Returns:
        What could be read (None when it is no eval set at all), and what is wrong with its shape.
    """
    value = document.value
    if isinstance(value, dict):
        return _read_present(document, value)
    if is_list_of_turns(value) or is_list_of_evals(value):
        converted, problems = convert(document, eval_set_id=document.file, eval_id=document.file, session=session)
        if converted is None:
            return None, problems
        eval_set = converted.eval_set
        file = EvalFile(
            document=document,
            eval_set=eval_set,
            eval_set_id=eval_set.eval_set_id,
            cases=dict(enumerate(eval_set.eval_cases)),
            converted=converted,
        )
        return file, problems
    return None, [_not_an_eval_set(document, value)]


def _read_present(document: Document, value: dict[str, Any]) -> tuple[EvalFile | None, list[Problem]]:
    if "eval_set_id" not in value and "eval_cases" not in value:
        camel_case = "evalSetId" in value or "evalCases" in value
        if not camel_case and (what_is(value) or not any(near_miss(key, list(_REQUIRED)) for key in value)):
            return None, [_not_an_eval_set(document, value)]
    problems = list(_camel_case(document, value))
    renamed = {problem.hint for problem in problems}
    problems += islice(_misspelt(document, value, (), keys_of(EvalSet), aliases=False), MAX_PROBLEMS)
    eval_set: EvalSet | None = None
    cases: dict[int, EvalCase] = {}
    try:
        eval_set = EvalSet.model_validate(value)
        cases = dict(enumerate(eval_set.eval_cases))
    except ValidationError as error:
        found = shape_problems(document, error, EvalSet, ())
        if renamed:
            # "Rename it" says better than "missing" what is wrong at the top.
            found = [problem for problem in found if problem.code != "missing-field" or problem.path is not None]
        problems += found
        cases = _sound_cases(value.get("eval_cases"))
    known = keys_of(EvalCase)
    misspelt = (
        _misspelt(document, case.model_extra, ("eval_cases", index), known, aliases=True)
        for index, case in cases.items()
        if case.model_extra
    )
    # They are warnings, and each costs a search for what was meant.
    problems += islice(chain.from_iterable(misspelt), MAX_PROBLEMS)
    set_id = value.get("eval_set_id")
    return EvalFile(
        document=document, eval_set=eval_set, eval_set_id=set_id if isinstance(set_id, str) else None, cases=cases
    ), problems


def _sound_cases(items: Any) -> dict[int, EvalCase]:
    """The cases without a mistake in their shape: what is wrong in meaning with them is worth saying as well."""
    cases: dict[int, EvalCase] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        try:
            cases[index] = EvalCase.model_validate(item)
        except ValidationError:
            continue  # Already reported for the set as a whole.
    return cases


def _camel_case(document: Document, value: dict[str, Any]) -> Iterator[Problem]:
    for camel, snake in (("evalSetId", "eval_set_id"), ("evalCases", "eval_cases")):
        if camel in value and snake not in value:
            yield document.error(
                "camel-case-eval-set",
                f"`{camel}` is not read: ADK takes the keys of an eval set itself in snake_case only.",
                path=(camel,),
                key=True,
                hint=f"Rename it to `{snake}`. Inside cases both spellings work.",
            )


def _misspelt(
    document: Document, value: dict[str, Any], path: JsonPath, known: list[str], *, aliases: bool
) -> Iterator[Problem]:
    """Warnings for keys that nothing reads and that look like known ones."""
    for key in value:
        if key in known:
            if aliases:
                yield document.warning(
                    "duplicate-key",
                    f"`{key}` stands here in snake_case and in camelCase; only the latter is read.",
                    path=(*path, key),
                    key=True,
                    hint="Remove one of them.",
                )
            continue
        close = near_miss(key, known)
        if close is not None and (close in value or close not in _REQUIRED):
            yield document.warning(
                "misspelt-key",
                f"`{key}` is not a known key here; nothing reads it.",
                path=(*path, key),
                key=True,
                hint=f"Did you mean `{close}`?",
            )


_REQUIRED = ("eval_set_id", "eval_cases")


def _not_an_eval_set(document: Document, value: Any) -> Problem:
    hint = what_is(value) or 'An eval set is an object: {"eval_set_id": "...", "eval_cases": [...]}.'
    if value == []:
        hint = f"It is an empty list. {hint}"
    return document.error("not-an-eval-set", "The file holds no eval set.", hint=hint)
