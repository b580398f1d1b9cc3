"""The results of a run with the recordings of some of its cases: an output directory, its results.json, or a zip."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.baseline import (
    ArchiveLimits,
    UnreadableError,
    UnsafeArchive,
    archived_lines,
    read_file,
    read_recordings,
    read_report,
    read_results,
)
from agent_eval.core.files import read_lines, read_regular
from agent_eval.core.text import harmless
from agent_eval.evalset.models import EvalCase
from agent_eval.results import DEFAULT, FILES, CaseReport, Recording, RunReport, RunResult
from agent_eval.runner import StoredCase

RECORDINGS = FILES["recordings-file"]
_ZIP = b"PK"
_DOWNLOAD = "Download the artifact again, or name the output directory of a run."


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A report, and where its recordings are."""

    report: RunReport
    source: Path
    """What the user named."""
    archive: bytes | None = None
    """The zip; None for a directory."""

    @property
    def folder(self) -> Path:
        """The output directory; for a zip the directory that it is in."""
        return self.source if self.source.is_dir() else self.source.parent

    def recordings(self, case_ids: Collection[str]) -> dict[str, list[Recording]]:
        """The recordings of these cases, by case id, in the order of the runs. If a run occurs twice, the later counts.

        Raises:
            UnreadableError: There are no recordings, or they can't be read completely.
        """
        where = harmless(str(self.source if self.archive is not None else self.folder / RECORDINGS))
        by_run: dict[str, dict[str, Recording]] = {case_id: {} for case_id in case_ids}
        try:
            for facts in _facts(self._lines(RECORDINGS), case_ids):
                recording = Recording.model_validate(facts)
                by_run[recording.case_id][recording.run_id] = recording
        except FileNotFoundError:
            message = f"{where} does not exist; it has what the agent did."
            raise UnreadableError(message, "Run the cases again, or name the directory that has it.") from None
        except UnsafeArchive as error:
            raise UnreadableError(f"{where} can't be used: {error}.", _DOWNLOAD) from None
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise UnreadableError(f"{where} can't be read: {harmless(reason.splitlines()[0])}.", _DOWNLOAD) from None
        return {
            case_id: sorted(recordings.values(), key=lambda recording: recording.run)
            for case_id, recordings in by_run.items()
        }

    def cases(self, case_ids: Collection[str]) -> dict[str, EvalCase]:
        """Those of these cases that are stored as they were run, by case id. What can't be read is left out."""
        fingerprints = {case.case_id: case.fingerprint for case in self.report.cases if case.case_id in case_ids}
        cases: dict[str, EvalCase] = {}
        with contextlib.suppress(OSError, ValueError, UnsafeArchive):
            for facts in _facts(self._lines(FILES["cases-file"]), case_ids):
                stored = StoredCase.model_validate(facts)
                if stored.fingerprint == fingerprints.get(stored.case_id):
                    cases[stored.case_id] = stored.case
        return cases

    def _lines(self, name: str) -> Iterable[bytes]:
        if self.archive is None:
            return read_lines(self.folder / name)
        data = read_recordings(self.archive, name=name)
        if data is None:
            raise UnsafeArchive(f"it has no {name}")
        return archived_lines(data)


def read_stored_run(path: Path, command: str) -> StoredRun:
    """Reads the results of a run. A zip is read in memory, and nothing of it is extracted.

    Args:
        path: An output directory, its `results.json`, or the zip of an artifact.
        command: Arguments of agent-eval that name results, for the hint if the default directory does not exist.

    Raises:
        UnreadableError: The results can't be read.
    """
    if path.is_file():
        try:
            data = read_regular(path, ArchiveLimits().archive_bytes)
        except OSError as error:
            raise UnreadableError(
                f"{harmless(str(path))} can't be read: {error.strerror or error}.", _DOWNLOAD
            ) from None
        if data.startswith(_ZIP):
            return _from_zip(path, data)
    if not (path / FILES["results-file"]).exists() and path.name == DEFAULT:
        raise UnreadableError(
            f"{harmless(str(path / FILES['results-file']))} does not exist.",
            f"Run `agent-eval run` first, or name the results of a run: `agent-eval {command}`.",
        )
    return StoredRun(report=read_file(path), source=path)


def runs_of(case: CaseReport, report: RunReport) -> list[RunResult]:
    """The runs of a case, including those that were added to confirm a regression."""
    return [*case.runs, *(run for part in report.confirmations if part.case_id == case.case_id for run in part.runs)]


def _from_zip(path: Path, data: bytes) -> StoredRun:
    where = harmless(str(path))
    try:
        report = read_report(read_results(data), where)
    except UnsafeArchive as error:
        raise UnreadableError(f"{where} can't be used: {error}.", _DOWNLOAD) from None
    if not isinstance(report, RunReport):
        raise UnreadableError(report.message, _DOWNLOAD)
    return StoredRun(report=report, source=path, archive=data)


def _facts(lines: Iterable[bytes], case_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """The lines of some cases. Only these become models: there may be 10,000 others."""
    from pydantic_core import from_json

    for number, line in enumerate(lines, 1):
        facts = from_json(line)
        if not isinstance(facts, dict) or not isinstance(facts.get("case_id"), str):
            raise ValueError(f"line {number} is not of a case")
        if facts["case_id"] in case_ids:
            yield facts
