"""Reads the files that can answer as recordings: eval sets, results of ADK, and the recordings of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.decoder import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.core.files import MAX_RESULTS, read_lines, read_regular
from agent_eval.core.problem import Severity
from agent_eval.core.text import first_line
from agent_eval.results import FILES

if TYPE_CHECKING:
    from agent_eval.results import AdkCaseResult, AdkSetResult

RECORDINGS = FILES["recordings-file"]
"""The name of a run's recordings in its output directory."""
_WHITESPACE = " \t\n\r"

Key = tuple[str | None, str, int | None]
"""Eval set id, eval id, run. The recordings of an eval set answer every set and every run: both are None. A case id is
written as an eval id without an eval set. The results of ADK have an eval id and a run."""


class UnusableRecording(Exception):
    """A file that is not a recording, or can't be read. The message is a clause without a full stop."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


_HINT = "`recorded:FILE` takes an eval set, a result of ADK, or the output directory of an earlier run."


def recording_file(source: Path) -> Path:
    """The file of a recording that may be named by its directory."""
    return source / RECORDINGS if source.is_dir() else source


def holds_runs(path: Path) -> bool:
    """Whether the file's name is that of a recordings file. Any other file is an eval set."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def entries(path: Path) -> Iterator[tuple[list[Key], bytes]]:
    """The entries of a recording, with their keys: runs, or the cases of an eval set.

    Raises:
        UnusableRecording: The file is empty, has another format, or can't be read.
    """
    empty = True
    try:
        for entry in _lines(path) if holds_runs(path) else _cases(path):
            empty = False
            yield entry
    except OSError as error:
        raise UnusableRecording(first_line(error.strerror or str(error), 500).rstrip("."), _HINT) from error
    except ValueError as error:
        raise UnusableRecording(first_line(str(error), 500).rstrip("."), _HINT) from error
    if empty:
        raise UnusableRecording("it has no runs" if holds_runs(path) else "it has no cases", "Record it again.")


def _lines(path: Path) -> Iterator[tuple[list[Key], bytes]]:
    """The runs of a recordings file. If a run appears twice it was repeated, and the later line counts."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
            set_id, eval_id, run, case_id = facts["eval_set_id"], facts["eval_id"], facts["run"], facts.get("case_id")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            set_id = None
        if not (isinstance(set_id, str) and isinstance(eval_id, str) and isinstance(run, int)):
            raise ValueError(f"line {number} is not the recording of a run")
        keys: list[Key] = [(set_id, eval_id, run)]
        if isinstance(case_id, str):
            keys.append((None, case_id, run))
        yield keys, line


def _cases(path: Path) -> Iterator[tuple[list[Key], bytes]]:
    """The cases of an eval set, each as its JSON text."""
    data = read_regular(path, MAX_RESULTS)
    try:
        yield from _case_texts(data.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        yield from _converted(data, path.name)


def _case_texts(text: str) -> Iterator[tuple[list[Key], bytes]]:
    """Parses the JSON of an eval set one case at a time, to save memory."""
    decoder = JSONDecoder()
    position = _expect(text, 0, "{")
    has_cases = False
    while True:
        key, position = decoder.raw_decode(text, _skip(text, position))
        position = _skip(text, _expect(text, position, ":"))
        if key == "eval_cases":
            has_cases = True
            position = _skip(text, _expect(text, position, "["))
            while text[position] != "]":
                case, end = decoder.raw_decode(text, position)
                eval_id = case["eval_id"]
                if not isinstance(eval_id, str):
                    raise TypeError("eval_id")
                yield [(None, eval_id, None)], text[position:end].encode("utf-8", "surrogatepass")
                position = _skip(text, end)
                if text[position] == ",":
                    position = _skip(text, position + 1)
            position += 1
        else:
            _, position = decoder.raw_decode(text, position)
        position = _skip(text, position)
        if text[position] == "}":
            break
        position = _expect(text, position, ",")
    if not has_cases:
        raise KeyError("eval_cases")


def _skip(text: str, position: int) -> int:
    while text[position] in _WHITESPACE:
        position += 1
    return position


def _expect(text: str, position: int, char: str) -> int:
    """Skips whitespace and one expected character; returns the position after it."""
    position = _skip(text, position)
    if text[position] != char:
        raise JSONDecodeError(f"Expecting {char!r}", text, position)
    return position + 1


def _converted(data: bytes, name: str) -> Iterator[tuple[list[Key], bytes]]:
    """The cases of an eval set in one of ADK's older formats. Reports precisely what is wrong with any other file."""
    from agent_eval.evalset.json import parse_document
    from agent_eval.evalset.parse import read_eval_file
    from agent_eval.results import adk_result_value, adk_set_result

    document, problems = parse_document(data, name)
    result = None if document is None else adk_result_value(document.value)
    if result is not None:
        yield from _results(adk_set_result(result))
        return
    file = None
    if document is not None:
        file, problems = read_eval_file(document, session=None)
    error = next((problem for problem in problems if problem.severity is Severity.ERROR), None)
    if error is not None and error.code == "not-an-eval-set":
        raise UnusableRecording("it is not a recording", f"{_HINT} {error.hint or ''}")
    if error is not None:
        line = f" (line {error.line})" if error.line is not None else ""
        raise UnusableRecording(f"{error.message.rstrip('.')}{line}", error.hint)
    assert file is not None
    for case in file.cases.values():
        yield [(None, case.eval_id, None)], case.model_dump_json(exclude_unset=True).encode()


def _results(result: AdkSetResult) -> Iterator[tuple[list[Key], bytes]]:
    """The conversations of ADK's results as cases. The results of one case are its runs, in order."""
    from agent_eval.evalset.models import EvalCase

    runs: dict[str, list[AdkCaseResult]] = {}
    for case in result.eval_case_results:
        runs.setdefault(case.eval_id, []).append(case)
    for eval_id, cases in runs.items():
        for run, case in enumerate(cases):
            turns = [turn.actual_invocation for turn in case.eval_metric_result_per_invocation]
            data = EvalCase(eval_id=eval_id, conversation=turns).model_dump_json(exclude_none=True).encode()
            every: list[Key] = [(None, eval_id, None)] if len(cases) == 1 else []
            yield [(None, eval_id, run), *every], data
