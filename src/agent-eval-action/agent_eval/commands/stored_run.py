"""Reads what a run left beside its report: the recordings, and the eval cases as they were run;
and the cases that the user selects, as for `agent-eval run`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from pydantic_core import from_json

from agent_eval.baseline.reader import UnreadableError
from agent_eval_agents.fingerprints import is_content
from agent_eval_results import DEFAULT, FILES, CaseReport, Recording, RunReport, StoredCase, StoredLines
from agent_eval_scoring.core.files import read_lines
from agent_eval_scoring.core.selectors import matches, nearby, parse_selector
from agent_eval_scoring.core.text import harmless, plural
from agent_eval_scoring.evalset.models import EvalCase


def read_recordings(folder: Path, run_ids: Collection[str]) -> dict[str, Recording]:
    """The recordings of these runs, by run id; empty if the folder has no recordings.

    Raises:
        UnreadableError: The recordings can't be read completely.
    """
    recordings = {}
    for number, run_id, line in _entries(folder):
        if run_id in run_ids:
            recordings[run_id] = _recording(line, folder, number)
    return recordings


@contextlib.contextmanager
def recording_store(folder: Path) -> Iterator[RecordingStore]:
    """All recordings of a run; none if the folder has no recordings.

    Raises:
        UnreadableError: The recordings can't be read completely.
    """
    with tempfile.TemporaryFile(prefix="agent-eval-") as file:
        yield RecordingStore(folder, file)


class RecordingStore:
    """Recordings in a temporary file: 10,000 cases as models would take hundreds of megabytes."""

    def __init__(self, folder: Path, file: IO[bytes]) -> None:
        """Copies the recordings of a folder to the file."""
        self._folder = folder
        self._file = file
        self._entries: dict[str, tuple[int, int, int]] = {}
        for number, run_id, line in _entries(folder):
            self._entries[run_id] = (number, self._file.tell(), len(line))
            self._file.write(line)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, run_id: str) -> Recording | None:
        """The recording of a run; None if there is none.

        Raises:
            UnreadableError: It is not valid.
        """
        if run_id not in self._entries:
            return None
        number, offset, length = self._entries[run_id]
        self._file.seek(offset)
        return _recording(self._file.read(length), self._folder, number)


def _entries(folder: Path) -> Iterator[tuple[int, str, bytes]]:
    """The line number, the run id and the line of each recording."""
    path = folder / FILES["recordings-file"]
    if not path.exists():
        return
    number = 0
    try:
        for line in read_lines(path):
            number += 1
            content = from_json(line)
            if not isinstance(content, dict) or not isinstance(content.get("run_id"), str):
                raise ValueError("it is not a recording of a run")
            yield number, content["run_id"], line
    except (OSError, ValueError) as error:
        raise _unreadable(path, max(number, 1), error) from None


def _recording(line: bytes, folder: Path, number: int) -> Recording:
    try:
        return Recording.model_validate_json(line)
    except ValueError as error:
        raise _unreadable(folder / FILES["recordings-file"], number, error) from None


def _unreadable(path: Path, number: int, error: Exception) -> UnreadableError:
    message = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return UnreadableError(
        f"{harmless(str(path))} can't be read (line {number}): {harmless(message.splitlines()[0])}.",
        "Download the artifact again, or delete this file to use the excerpts in results.json.",
    )


def expected_cases(cases: Sequence[CaseReport], folder: Path, root: Path) -> Mapping[str, EvalCase]:
    """The eval cases as they were run, by case id: from the run's cases.jsonl.gz, else from unchanged eval files.

    Args:
        cases: The cases of the report.
        folder: The output directory.
        root: The repository.
    """
    fingerprints = {case.case_id: case.fingerprint for case in cases}
    stored = {
        line.case_id: line.case
        for line in StoredLines(path=folder / FILES["cases-file"], model=StoredCase)
        if fingerprints.get(line.case_id) == line.fingerprint
    }
    return {**unchanged_cases([case for case in cases if case.case_id not in stored], root), **stored}


def unchanged_cases(cases: Sequence[CaseReport], root: Path) -> Mapping[str, EvalCase]:
    """The eval cases that have not changed since the run, by case id."""
    from agent_eval_scoring.evalset.loading import load_suite

    files = [file for file in dict.fromkeys(case.file for case in cases) if _inside(file) and (root / file).is_file()]
    if not files:
        return {}
    fingerprints = {case.case_id: case.fingerprint for case in cases}
    return {
        f"{file.path}:{case.eval_id}": case
        for file in load_suite(root, files).files
        for case in file.cases
        if is_content(case, file.config.user_simulator_config, fingerprints.get(f"{file.path}:{case.eval_id}"))
    }


def _inside(file: str) -> bool:
    """Whether a path from results.json stays inside the repository."""
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in file


_EVAL_FILES = (".test.json", ".evalset.json")


def split_words(words: Sequence[str], root: Path) -> tuple[Path, Sequence[str]]:
    """Splits the arguments `[RESULTS] [CASES...]`.

    The first one names the results if it is a file other than an eval file, or an output directory.

    Args:
        words: The arguments of the command.
        root: The directory that paths are relative to.
    """
    if words:
        path = root / words[0]
        # pathlib raises an error for a name that is too long for a file: many cases after a colon.
        is_file = os.path.isfile(path) and not words[0].endswith(_EVAL_FILES)  # noqa: PTH113
        if is_file or os.path.exists(path / FILES["results-file"]):  # noqa: PTH110
            return path, words[1:]
    return root / DEFAULT, words


def select_cases(report: RunReport, selectors: Sequence[str], source: str) -> list[CaseReport]:
    """The cases that at least one of the selectors selects.

    Args:
        report: The results.
        selectors: Eval ids, case ids, FILE:ID,ID, files, directories, globs of ids; `cause:2` for the cases with the
            second cause of the report.
        source: The name of the results, safe to print.

    Raises:
        UnreadableError: A selector selects no case.
    """
    paths = {case.file for case in report.cases}
    paths |= {str(folder) for file in paths for folder in PurePosixPath(file).parents}
    selected: set[str] = set()
    for selector in selectors:
        is_selected = _selector(selector.removeprefix("./"), paths)
        matching = {case.case_id for case in report.cases if is_selected(case)} or _with_cause(selector, report, source)
        if not matching:
            raise UnreadableError(f"{source} has no case {harmless(selector)!r}.", _suggestion(selector, report))
        selected |= matching
    return [case for case in report.cases if case.case_id in selected]


def _selector(text: str, paths: Collection[str]) -> Callable[[CaseReport], bool]:
    """Whether a case is selected by an eval id, a case id, FILE:ID,ID, a file, a directory, or a glob of ids.

    Args:
        text: The selector.
        paths: The files of the results, and the directories above them.
    """
    selector = parse_selector(text.rstrip("/"), paths.__contains__)
    path = selector.path if selector.path in paths else None

    def is_selected(case: CaseReport) -> bool:
        if matches(text, case.eval_id) or matches(text, case.case_id):
            return True
        in_path = path is not None and (path in {case.file, "."} or case.file.startswith(f"{path}/"))
        return in_path and (not selector.ids or any(matches(pattern, case.eval_id) for pattern in selector.ids))

    return is_selected


def _with_cause(selector: str, report: RunReport, source: str) -> set[str]:
    """The cases of `cause:NUMBER`; none if the selector is another.

    Raises:
        UnreadableError: There is no such cause.
    """
    name, separator, number = selector.partition(":")
    if name != "cause" or not separator:
        return set()
    causes = [f"cause:{place} is: {cause.message}" for place, cause in enumerate(report.causes, 1)]
    if not number.isdecimal() or not 0 < int(number) <= len(causes):
        hint = "; ".join(causes) or "No failing cases have a cause in common."
        raise UnreadableError(f"{source} has no {harmless(selector)!r}.", harmless(hint))
    return set(report.causes[int(number) - 1].cases)


def _suggestion(selector: str, report: RunReport) -> str:
    names = [name for case in report.cases for name in (case.eval_id, case.case_id)]
    if close := nearby(selector, names):
        return f"Did you mean {harmless(' or '.join(map(repr, close)))}?"
    some = ", ".join(case.eval_id for case in report.cases[:5]) + (", …" if len(report.cases) > 5 else "")
    return harmless(f"It has {plural(len(report.cases), 'case')}: {some}") if some else "It has no cases."
