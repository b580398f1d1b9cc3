"""The recordings of a baseline's artifact: streamed, limited, validated line by line; a refusal is a sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from baseline_samples import zipped
from recording_samples import facts

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, unpack
from agent_eval.baseline.recordings import recordings_in, write_recordings
from agent_eval.results import Recording
from agent_eval.runner import StoredLines

LIMITS = ArchiveLimits(lines_bytes=20_000, ratio=100)


def line(name: str, run: int = 0, **changes: Any) -> bytes:
    return json.dumps(facts(name, run=run, file="evals/a.test.json", **changes)).encode() + b"\n"


def archive(recordings: bytes | None, **others: bytes) -> bytes:
    files = {"results.json": b"{}", "logs/recordings.jsonl.gz": b"another directory's"}
    files |= {} if recordings is None else {"recordings.jsonl.gz": recordings}
    return zipped({**files, **others})


def written(tmp_path: Path, data: bytes, *names: str) -> tuple[list[str], str | None]:
    path = tmp_path / "base" / "baseline-recordings.jsonl.gz"
    note = write_recordings(path, recordings_in(data, LIMITS), {f"evals/a.test.json:{name}" for name in names})
    return [recording.run_id.split(":")[1] for recording in StoredLines(path=path, model=Recording)], note


def test_write_recordings__only_the_valid_lines_of_the_cases(tmp_path: Path) -> None:
    lines = [line("door"), line("lamp"), line("door", 1), line("door", duration=9), line("heater")]
    data = archive(gzip.compress(b"".join(lines)))
    assert written(tmp_path, data, "door", "heater") == (["door#1", "door#2", "heater#1"], None)

    damaged = archive(gzip.compress(b"not json\n" + lines[0] + line("door", 1, extra="x") + lines[1]))
    assert written(tmp_path, damaged, "door") == (["door#1"], "2 recordings of the baseline could not be read.")


def test_write_recordings__there_is_no_file_without_recordings(tmp_path: Path) -> None:
    data = archive(gzip.compress(line("lamp")))
    assert written(tmp_path, data, "door") == ([], None)
    assert written(tmp_path, data) == ([], None)
    assert written(tmp_path, archive(None), "door") == ([], "The baseline's artifact has no recordings.jsonl.gz.")
    assert not list(tmp_path.rglob("*.gz"))


TWICE = zipped({"results.json": b"{}"}, *[{"recordings.jsonl.gz": gzip.compress(line("door"))}] * 2)
REFUSED = {
    "too large": (archive(gzip.compress(line("door") * 200)), "uncompressed it is larger than 20,000 bytes"),
    "one endless line": (archive(gzip.compress(b" " * 40_000)), "uncompressed it is larger than 20,000 bytes"),
    "cut off": (archive(gzip.compress(line("door") * 20)[:-12]), "it is damaged"),
    "no gzip": (archive(b"door"), "it is damaged"),
    "twice": (TWICE, "it has 2 files named recordings.jsonl.gz"),
    "too large in the zip": (archive(b"x" * 30_000), "its recordings.jsonl.gz is larger than 20,000 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_write_recordings__a_refused_file_is_a_sentence_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    data, reason = REFUSED[name]
    runs, note = written(tmp_path, data, "door")
    assert runs == []
    assert note is not None and note.startswith("The baseline's recordings are not used: ") and reason in note
    assert not list(tmp_path.rglob("*.gz"))


def test_unpack__writes_the_files_of_a_run_and_no_others(tmp_path: Path) -> None:
    files = {
        "out/results.json": b"{}",
        "out/recordings.jsonl.gz": gzip.compress(line("door")),
        "out/cases.jsonl.gz": b"damage is the reader's matter",
        "out/base/recordings.jsonl.gz": gzip.compress(line("door")),
        "out/report.html": b"<script>",
        "out/logs/bot.log": b"",
        "cases.jsonl.gz": b"not beside the results",
    }
    unpack(zipped(files), tmp_path, LIMITS)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {
        "results.json",
        "recordings.jsonl.gz",
        "cases.jsonl.gz",
        "base/recordings.jsonl.gz",
    }
    assert (tmp_path / "cases.jsonl.gz").read_bytes() == files["out/cases.jsonl.gz"]

    bomb = archive(gzip.compress(b" " * 40_000))
    with pytest.raises(UnsafeArchive, match=r"its recordings\.jsonl\.gz is too large: uncompressed it is larger than"):
        unpack(bomb, tmp_path / "other", LIMITS)
    assert not (tmp_path / "other").exists()
