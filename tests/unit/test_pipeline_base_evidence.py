"""What a report keeps of the base branch for its readers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from baseline_samples import case, results
from history_samples import compare
from recording_samples import facts

from agent_eval.baseline import Found, to_report
from agent_eval.baseline.lookup import Provenance
from agent_eval.baseline.recordings import StoredRecordings
from agent_eval.pipeline._regression import Base, notable_cases, pair_with_base, store_baseline_recordings
from agent_eval.results import BASELINE_RECORDINGS, Recording, RunReport
from agent_eval.results.comparison import BaselineStep
from agent_eval.runner import StoredLines

FILE = "evals/a.test.json"


def recordings(*names: str) -> StoredRecordings:
    lines = [json.dumps(facts(name, file=FILE)) for name in names]
    return StoredRecordings(data=gzip.compress("\n".join(lines).encode()))


def compared(head: RunReport, base: RunReport, stored: StoredRecordings | None) -> tuple[RunReport, Base | None]:
    step = BaselineStep(source="artifact", status="found", message="Found.")
    found = Found(
        report=base, provenance=Provenance(commit="a" * 40), message="Found.", recordings=stored, steps=(step,)
    )
    head.comparison, head.baseline = compare(head, base), to_report(found, None)
    return head, pair_with_base(head, found, 20)


def test_store_baseline_recordings__cases_that_failed_or_differ_by_their_ids_on_the_base_branch(tmp_path: Path) -> None:
    renamed = case("new_name", "failed").model_copy(update={"fingerprint": "c-old_name"})
    head = results(case("same"), case("red", "failed"), case("fixed"), renamed)
    there = results(case("same"), case("red", "failed"), case("fixed", "failed"), case("old_name"), case("gone"))
    report, base = compared(head, there, recordings("same", "red", "fixed", "old_name", "gone"))

    assert {case_id.split(":")[1] for case_id in notable_cases(report)} == {"red", "fixed", "new_name", "gone"}
    store_baseline_recordings(report, base, tmp_path)
    stored = list(StoredLines(path=tmp_path / BASELINE_RECORDINGS, model=Recording))
    assert [line.eval_id for line in stored] == ["red", "fixed", "old_name", "gone"]
    assert report.baseline is not None and report.baseline.recordings_note is None


def test_store_baseline_recordings__a_failure_is_a_note_and_nothing_else(tmp_path: Path) -> None:
    report, base = compared(results(case("red", "failed")), results(case("red")), recordings("red"))
    (tmp_path / "base").write_text("a file", "utf-8")
    store_baseline_recordings(report, base, tmp_path)
    assert report.baseline is not None and report.baseline.recordings_note is not None
    assert report.baseline.recordings_note.startswith("The baseline's recordings could not be written: ")

    without, base = compared(results(case("red", "failed")), results(case("red")), None)
    store_baseline_recordings(without, base, tmp_path / "other")
    assert without.baseline is not None and without.baseline.recordings_note is None
    assert not (tmp_path / "other").exists()
