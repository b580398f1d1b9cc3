"""Reads an untrusted `results.json`, and checks whether it can be a baseline."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agent_eval import __version__
from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, unpack
from agent_eval.baseline.lookup import FetchFailed, Incompatible
from agent_eval_results import (
    DEFAULT,
    FILES,
    NOT_COMPARED,
    OTHER_SCORING,
    OTHER_VERSION,
    SCHEMA_VERSION,
    SCORING_VERSION,
    MetricReport,
    Reason,
    RunError,
    RunReport,
)
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_RESULTS, read_regular
from agent_eval_scoring.core.process import FULL, naming
from agent_eval_scoring.core.text import first_line, harmless, plural

_LARGEST = 1e18
"""Bound for tokens, seconds and dollars; larger numbers would make sums meaningless."""


class UnreadableError(AgentEvalError):
    """A file without usable results."""

    def __init__(self, message: str, hint: str) -> None:
        """`message` names file and reason, `hint` the next step; both are safe to log."""
        super().__init__(f"{message} {hint}")
        self.message = message
        self.hint = hint


def read_file(path: Path) -> RunReport:
    """Reads a results file that the user names.

    Args:
        path: A `results.json`, or the output directory that contains it.

    Raises:
        UnreadableError: The file is missing or unusable.
    """
    file = path / FILES["results-file"] if path.is_dir() else path
    where = shown(file)
    try:
        report = read_report(read_regular(file, MAX_RESULTS), where)
    except OSError as error:
        if path.name == DEFAULT and isinstance(error, FileNotFoundError):
            raise UnreadableError(f"{where} does not exist.", _RUN_FIRST) from None
        raise UnreadableError(f"{where} can't be read: {error.strerror or error}.", _NAME_FILE) from None
    if isinstance(report, RunReport):
        return report
    damaged = _RUN_AGAIN if file.name == FILES["results-file"] else _NAME_FILE
    raise UnreadableError(report.message, _SCORE_AGAIN if isinstance(report, Incompatible) else damaged)


def shown(path: Path) -> str:
    """A path as messages name it: relative to the current directory, if it is below it."""
    return harmless(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


_RUN_FIRST = "Run `agent-eval run` first, or name the output directory of a run."
_RUN_AGAIN = "Run `agent-eval run` again, or name the output directory of another run."
_NAME_FILE = "Name the results.json of a run, or the directory that contains it."
_SCORE_AGAIN = "Score its recordings again with this version: `agent-eval run --agent recorded:DIRECTORY`."


def read_report(data: bytes, where: str) -> RunReport | FetchFailed | Incompatible:
    """Parses a `results.json` and validates it.

    Args:
        data: The untrusted bytes of the file.
        where: The subject of a message about it, e.g. "The artifact of run 17".

    Returns:
        The report; `Incompatible` if another version of agent-eval wrote it; `FetchFailed` if it is not a report.
    """
    try:
        # Not model_validate_json: to leave out computed fields, pydantic would copy the whole document, and slowly.
        report = RunReport.model_validate(_with_equal_metrics(from_json(data)))
    except ValueError as error:
        return _refusal(data, error, where)
    if (defect := _defect(report)) is not None:
        return FetchFailed(message=f"{where} is not used: {defect}.")
    if report.scoring_version != SCORING_VERSION:
        return Incompatible(
            message=f"{where} was scored by agent-eval {_short(report.tool_version)}, and its scores have another "
            f"meaning (scoring version {report.scoring_version}; this is {SCORING_VERSION}).",
            hint=_WAIT,
            why=_of_version(OTHER_SCORING, _short(report.tool_version)),
        )
    return report


def _with_equal_metrics(content: Any) -> Any:
    """The content of a `results.json` in which equal metrics, as most of 10,000 cases are, have become one model.

    Only those without texts, which hardly any other has. What is invalid is left as it is.
    """
    made: dict[bytes, MetricReport] = {}
    with contextlib.suppress(LookupError, TypeError, AttributeError):  # of another form
        for case in content["cases"]:
            metrics = case["metrics"]
            for index, metric in enumerate(metrics):
                if len(runs := metric["runs"]) > 1 or metric.get("reason") or any(map(runs[0].get, _TEXTS)):
                    continue
                key = to_json(metric, inf_nan_mode="constants")  # in which 0.0 is not -0.0
                if key not in made:
                    try:
                        made[key] = MetricReport.model_validate(metric)
                    except ValueError:
                        continue
                metrics[index] = made[key]
    return content


_TEXTS = ("reason", "evidence", "details", "error")
_WAIT = "The next run of the base branch records comparable results."


def _of_version(code: str, writer: str) -> Reason:
    return Reason.of(code, wanted=__version__, got=writer)


def _refusal(data: bytes, error: ValueError, where: str) -> FetchFailed | Incompatible:
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as problem:
        return FetchFailed(message=f"{where} is not used: it is not JSON ({_short(str(problem), 120)}).")
    if not isinstance(content, dict) or "schema_version" not in content:
        return FetchFailed(message=f"{where} is not used: it is not a results.json of agent-eval.")
    version, writer = content["schema_version"], _short(str(content.get("tool_version", "of an unknown version")))
    # Before the mistakes: with another schema each field may be one, and none of them says what to do.
    if version != SCHEMA_VERSION:
        return Incompatible(
            message=f"{where} was written by agent-eval {writer} in version {_short(str(version))} of the results' "
            f"schema; this is agent-eval {__version__}, which reads version {SCHEMA_VERSION}.",
            hint=_WAIT,
            why=_of_version(OTHER_VERSION, writer),
        )
    assert isinstance(error, ValidationError)  # It is JSON.
    mistakes = error.errors(include_url=False, include_context=False, include_input=False)
    if all(mistake["type"] == "extra_forbidden" for mistake in mistakes):
        path = _path(mistakes[0]["loc"])
        return Incompatible(
            message=f"{where} was written by agent-eval {writer}, which has a field that this version "
            f"({__version__}) doesn't know: {path}.",
            hint="Use the same version of agent-eval on both branches.",
            why=_of_version(OTHER_VERSION, writer),
        )
    first = mistakes[0]
    more = f", and {plural(len(mistakes) - 1, 'more mistake')}" if len(mistakes) > 1 else ""
    what = f"{_path(first['loc'])}: {_short(first['msg'], 120)}{more}"
    return FetchFailed(message=f"{where} is not used: it does not fit the schema of results.json ({what}).")


def _defect(report: RunReport) -> str | None:
    """Returns a defect that the schema allows but no run of agent-eval writes."""
    twice = [name for name, count in Counter(case.case_id for case in report.cases).items() if count > 1]
    if twice:
        return f"it has the case {_short(twice[0])} {plural(2, 'time')} or more"
    number = _out_of_range(report)
    if number is None:
        return None
    strange = number in {math.inf, -math.inf} or number != number
    return "it has a score that is not a number" if strange else "it has a number out of range"


_LEAVES = frozenset({str, bool, type(None)})
_SEQUENCES = frozenset({list, tuple})


def _out_of_range(report: RunReport) -> float | None:
    """A number in a report that is larger than _LARGEST, or not a number; None if there is none."""
    left: list[Any] = [report]
    seen: set[int] = set()
    while left:  # Not recursive, and few calls: 10,000 cases have millions of values.
        value = left.pop()
        kind = value.__class__
        if kind is MetricReport:  # Most are one, see `_with_equal_metrics`.
            if id(value) in seen:
                continue
            seen.add(id(value))
        if kind not in _SEQUENCES:  # An isinstance check with pydantic's base class takes as long as this loop.
            value = (value if kind is dict else value.__dict__).values()
        for item in value:
            kind = item.__class__
            if kind is float or kind is int:
                if not -_LARGEST <= item <= _LARGEST:  # also true for NaN
                    number: float = item  # An integer may be too large for a float.
                    return number
            elif kind not in _LEAVES:
                left.append(item)
    return None


def check_ran(report: RunReport, path: Path) -> None:
    """Raises UnreadableError if nothing was run, so that no command says of a mistake that no case failed.

    Args:
        report: The results.
        path: As the user named them.
    """
    if not report.is_invalid or report.cases:
        return
    errors = (problem.message for problem in report.problems if problem.is_error)
    why = "".join(f": {_short(error.rstrip('.'), 300)}" for error in islice(errors, 1))
    raise UnreadableError(f"The run of {harmless(str(path))} was invalid, so nothing was run{why}.", "Run it again.")


def incomplete(report: RunReport) -> str | None:
    """Returns why a run's results don't represent its commit, as a clause; None if they do.

    An interrupted run has measured only a part of the agent; a run without any answer has measured nothing. Failed
    cases don't matter.
    """
    if report.caution is not None:
        return f"it is {report.caution}"
    if report.is_invalid:
        return "its eval files or settings were invalid, so nothing was run"
    if not report.cases:
        return "it has no cases"
    if any(reason.code == NOT_COMPARED for reason in report.reasons):
        return "it was stopped before it had read the history of earlier runs"
    from agent_eval.gate.history import broken_off
    from agent_eval_results.data.answers import silent_cases

    unrun = sum(map(broken_off, report.cases))
    if unrun:
        return f"{unrun:,} of its {plural(len(report.cases), 'case')} did not finish, so the run was interrupted"
    if not any(case.status in {"passed", "failed", "quarantined"} for case in report.cases):
        return "because of errors none of its cases was evaluated"
    silent = silent_cases(report.cases, report.agents_by_file)
    if len(silent) == len(report.cases):
        errors = (run.error for case in report.cases for run in case.runs if run.error is not None)
        return "its agent never answered" + "".join(f" ({_error(error)})" for error in islice(errors, 1))
    return None


def _error(error: RunError) -> str:
    return f"{_short(error.kind)}: {_short(first_line(error.message), 200).rstrip('.')}"


def _path(location: tuple[int | str, ...]) -> str:
    return _short(".".join(str(part) for part in location), 120) or "the whole file"


def _short(text: str, limit: int = 60) -> str:
    """Shortens untrusted text for a message."""
    shown = " ".join(harmless(text).split())
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


_LIMITS = ArchiveLimits()
_DOWNLOAD = "Download the artifact again, or name the directory with results.json."
_UNPACK = "If you trust it, unpack it and name the directory with results.json."


@dataclass(frozen=True, kw_only=True)
class StoredResults:
    """The results of a run."""

    path: Path
    """As the user named it."""
    folder: Path
    """The directory that contains recordings and cases beside the report, if there are any."""
    report: RunReport
    unpacked: bool = False
    """Whether they come from a zip: the folder lasts as long as the context."""


@contextlib.contextmanager
def open_results(path: Path) -> Iterator[StoredResults]:
    """Opens the results of a run. A zip is unpacked, within limits, into a directory that lasts as long as the context.

    Args:
        path: An output directory, its `results.json`, or the zip of an artifact.

    Raises:
        UnreadableError: The results can't be read, or the zip exceeds a limit.
    """
    if not _is_zip(path):
        yield StoredResults(path=path, folder=path if path.is_dir() else path.parent, report=read_file(path))
        return
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as name:
        folder = Path(name)
        try:
            with naming(folder):
                unpack(read_regular(path, _LIMITS.archive_bytes), folder, _LIMITS)
        except UnsafeArchive as error:
            hint = _DOWNLOAD if "zip archive" in str(error) else _UNPACK
            raise UnreadableError(f"{harmless(str(path))} is not used: {error}.", hint) from None
        except OSError as error:
            if error.errno in FULL:  # Of the temporary directory: the zip is fine.
                raise
            message = f"{harmless(str(path))} can't be read: {error.strerror or error}."
            raise UnreadableError(message, "Name a zip as it was downloaded.") from None
        yield StoredResults(path=path, folder=folder, report=read_file(folder), unpacked=True)


def _is_zip(path: Path) -> bool:
    if path.suffix.lower() == ".zip" or not path.is_file():
        return path.suffix.lower() == ".zip"
    with contextlib.suppress(OSError), path.open("rb") as file:  # `read_file` says why it can't be read.
        return file.read(2) == b"PK"
    return False
