"""What the results of a run have about some of its cases: what the agent did, and the cases as they were run."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from agent_eval.baseline.reader import UnreadableError
from agent_eval.baseline.stored import StoredResults
from agent_eval.core.files import read_lines
from agent_eval.core.text import harmless
from agent_eval.evalset.models import EvalCase
from agent_eval.results import FILES, Recording
from agent_eval.runner import StoredCase

RECORDINGS = FILES["recordings-file"]
_DOWNLOAD = "Download the artifact again, or name the output directory of a run."


def recordings_of(stored: StoredResults, case_ids: Collection[str]) -> dict[str, list[Recording]]:
    """The recordings of these cases, by case id, in the order of the runs. If a run occurs twice, the later counts.

    Raises:
        UnreadableError: There are no recordings, or they can't be read completely.
    """
    path = stored.folder / RECORDINGS
    where = harmless(str(stored.path if stored.unpacked else path))
    if stored.unpacked and not path.exists():
        raise UnreadableError(f"{where} can't be used: it has no {RECORDINGS}.", _DOWNLOAD)
    by_run: dict[str, dict[str, Recording]] = {case_id: {} for case_id in case_ids}
    try:
        for facts in _facts(path, case_ids):
            recording = Recording.model_validate(facts)
            by_run[recording.case_id][recording.run_id] = recording
    except FileNotFoundError:
        message = f"{where} does not exist; it has what the agent did."
        raise UnreadableError(message, "Run the cases again, or name the directory that has it.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UnreadableError(f"{where} can't be read: {harmless(reason.splitlines()[0])}.", _DOWNLOAD) from None
    return {
        case_id: sorted(recordings.values(), key=lambda recording: recording.run)
        for case_id, recordings in by_run.items()
    }


def cases_as_run(stored: StoredResults, case_ids: Collection[str]) -> dict[str, EvalCase]:
    """Those of these cases that are stored as they were run, by case id. What can't be read is left out."""
    fingerprints = {case.case_id: case.fingerprint for case in stored.report.cases if case.case_id in case_ids}
    cases: dict[str, EvalCase] = {}
    with contextlib.suppress(OSError, ValueError):
        for facts in _facts(stored.folder / FILES["cases-file"], case_ids):
            line = StoredCase.model_validate(facts)
            if line.fingerprint == fingerprints.get(line.case_id):
                cases[line.case_id] = line.case
    return cases


def _facts(path: Path, case_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """The lines of some cases. Only these become models: there may be 10,000 others."""
    from pydantic_core import from_json

    for number, line in enumerate(read_lines(path), 1):
        facts = from_json(line)
        if not isinstance(facts, dict) or not isinstance(facts.get("case_id"), str):
            raise ValueError(f"line {number} is not of a case")
        if facts["case_id"] in case_ids:
            yield facts
