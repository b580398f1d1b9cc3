"""Reads somebody else's `results.json`, and judges whether it can serve as a baseline at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agent_eval import __version__
from agent_eval.baseline.lookup import FetchFailed, Incompatible
from agent_eval.core.files import MAX_RESULTS, read_regular
from agent_eval.core.text import first_line, harmless, plural
from agent_eval.gate.history import agents_by_file, broken_off, silent_cases
from agent_eval.results import FILES, SCHEMA_VERSION, SCORING_VERSION, RunError, RunReport

_LARGEST = 1e18
"""More tokens, seconds or dollars than anybody has; beyond, sums of numbers stop to be some."""


class UnreadableError(Exception):
    """A file that holds no results which could be used."""

    def __init__(self, message: str, hint: str) -> None:
        """`message` says which file and why, `hint` what to do; both are harmless in a log."""
        super().__init__(f"{message} {hint}")
        self.message = message
        self.hint = hint


def read_file(path: Path) -> RunReport:
    """Reads the results that somebody has named.

    Args:
        path: A `results.json`, or the output directory that it lies in.

    Raises:
        UnreadableError: There is none, or it can't be used.
    """
    file = path / FILES["results-file"] if path.is_dir() else path
    where = harmless(str(file))
    try:
        found = read_report(read_regular(file, MAX_RESULTS), where)
    except OSError as error:
        raise UnreadableError(f"{where} can't be read: {error.strerror or error}.", _NAME_ONE) from None
    if isinstance(found, RunReport):
        return found
    raise UnreadableError(found.message, _SCORE_AGAIN if isinstance(found, Incompatible) else _NAME_ONE)


_NAME_ONE = "Name the results.json of a run, or the directory that it lies in."
_SCORE_AGAIN = "Score its recordings again with this version: `agent-eval run --agent recorded:DIRECTORY`."


def read_report(data: bytes, where: str) -> RunReport | FetchFailed | Incompatible:
    """Parses results by the schema.

    Args:
        data: The bytes of a `results.json`; anybody may have written them.
        where: What they were found as, to begin a sentence with, e.g. "The artifact of run 17".

    Returns:
        The report; `Incompatible` if another version of agent-eval wrote it; `FetchFailed` if it is no report.
    """
    try:
        report = RunReport.model_validate_json(data)
    except ValidationError as error:
        return _refusal(data, error, where)
    if (wrong := _wrong(report)) is not None:
        return FetchFailed(message=f"{where} is not used: {wrong}.")
    if report.scoring_version != SCORING_VERSION:
        return Incompatible(
            message=f"{where} was scored by agent-eval {_short(report.tool_version)}, whose scores mean something else "
            f"(scoring version {report.scoring_version}; this is {SCORING_VERSION}).",
            hint=_WAIT,
        )
    return report


_WAIT = "The base branch's next run records results that can be compared."


def _refusal(data: bytes, error: ValidationError, where: str) -> FetchFailed | Incompatible:
    from pydantic_core import from_json

    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as problem:
        return FetchFailed(message=f"{where} is not used: it is not JSON ({_short(str(problem), 120)}).")
    if not isinstance(content, dict) or "schema_version" not in content:
        return FetchFailed(message=f"{where} is not used: it is not a results.json of agent-eval.")
    version, writer = content["schema_version"], _short(str(content.get("tool_version", "of an unknown version")))
    if version != SCHEMA_VERSION:
        return Incompatible(
            message=f"{where} was written by agent-eval {writer} in version {_short(str(version))} of the results' "
            f"schema; this is agent-eval {__version__}, which reads version {SCHEMA_VERSION}.",
            hint=_WAIT,
        )
    mistakes = error.errors(include_url=False, include_context=False, include_input=False)
    if all(mistake["type"] == "extra_forbidden" for mistake in mistakes):
        path = _path(mistakes[0]["loc"])
        return Incompatible(
            message=f"{where} was written by agent-eval {writer}, which tells more than this version "
            f"({__version__}) knows: {path}.",
            hint="Use the same version of agent-eval on both branches.",
        )
    first = mistakes[0]
    more = f", and {plural(len(mistakes) - 1, 'more mistake')}" if len(mistakes) > 1 else ""
    what = f"{_path(first['loc'])}: {_short(first['msg'], 120)}{more}"
    return FetchFailed(message=f"{where} is not used: it does not fit the schema of results.json ({what}).")


def _wrong(report: RunReport) -> str | None:
    """What the schema doesn't forbid and no run of ours writes."""
    twice = [name for name, count in Counter(case.case_id for case in report.cases).items() if count > 1]
    if twice:
        return f"it has the case {_short(twice[0])} {plural(2, 'time')} or more"
    for number in _numbers(report):
        if not -_LARGEST <= number <= _LARGEST:  # nor if it is none
            strange = number in {math.inf, -math.inf} or number != number
            return "it has a score that is not a number" if strange else "it has a number that no run has"
    return None


def _numbers(value: Any) -> Iterator[float]:
    """All numbers in a model or in what JSON can hold."""
    kind = type(value)
    if kind is float or kind is int:
        yield value
    elif kind is dict:
        for item in value.values():
            yield from _numbers(item)
    elif kind is list or kind is tuple:
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, BaseModel):
        for item in value.__dict__.values():
            if item.__class__ is not str:
                yield from _numbers(item)


def incomplete(report: RunReport) -> str | None:
    """Why a run's results can't stand for its commit, as a clause; None if they can.

    A run that was killed or broken off has seen only a part of the agent, and one in which no agent answered has seen
    nothing of any. Red results are as good as green ones.
    """
    if report.verdict == "invalid":
        return "its eval files or settings were invalid, so nothing was run"
    if not report.cases:
        return "it has no cases"
    unrun = sum(map(broken_off, report.cases))
    if unrun:
        return f"{unrun:,} of its {plural(len(report.cases), 'case')} did not run to the end, so it was broken off"
    if not any(case.status in {"passed", "failed", "quarantined"} for case in report.cases):
        return "errors kept all of its cases from being judged"
    silent = silent_cases(report.cases, agents_by_file(report))
    if len(silent) == len(report.cases):
        errors = (run.error for case in report.cases for run in case.runs if run.error is not None)
        return "its agent answered in no case" + "".join(f" ({_error(error)})" for error in islice(errors, 1))
    return None


def _error(error: RunError) -> str:
    return f"{_short(error.kind)}: {_short(first_line(error.message), 200).rstrip('.')}"


def _path(location: tuple[int | str, ...]) -> str:
    return _short(".".join(str(part) for part in location), 120) or "the whole file"


def _short(text: str, limit: int = 60) -> str:
    """Somebody else's words in a sentence of ours."""
    shown = " ".join(harmless(text).split())
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
