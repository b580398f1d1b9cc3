"""A disk that is full ends the gate in time, with a clear message and without a pass."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_open_dir import as_root
from gate_runs import Repository, patience, repository_in, wait_until

pytestmark = [as_root, pytest.mark.slow]


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """With an output directory on a disk of its own, of 64 kB."""
    with repository_in(tmp_path / "repository", "faults") as made:
        output = made.root / "agent-eval-results"
        output.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(output)], capture_output=True)
        if mounted.returncode:
            pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode()}")
        try:
            yield made
        finally:
            made.end()
            subprocess.run(["umount", "--lazy", str(output)], check=True, timeout=30)


def test_a_log_that_fills_the_disk__is_exit_2_with_the_path_and_what_to_do(repository: Repository) -> None:
    repository.evals("evals/a.test.json", {"floods": "flood:1000000", "quick": "say hello"})
    done = repository.gate("run", "--concurrency", "1")
    assert done.code == 2, done.out + done.err
    assert done.seconds < 60 * patience()
    assert "No space left on device" in done.out + done.err
    assert "agent-eval-results/" in done.out + done.err
    assert "Traceback" not in done.err
    journal = done.output / "journal.jsonl"
    assert not journal.exists() or journal.read_bytes()[-1:] in {b"", b"\n"}, "half a line would spoil the next one"
    assert repository.left_behind() == []


@pytest.mark.parametrize("free", [24_000, 64_000])
def test_a_disk_that_becomes_full__loses_no_finished_run(repository: Repository, free: int) -> None:
    """With little room the journal is what does not fit, with more the results."""
    repository.evals("evals/a.test.json", {f"case-{number}": "say hello" for number in range(30)})
    output = repository.root / "agent-eval-results"
    subprocess.run(["mount", "-o", "remount,size=1m", str(output)], check=True)
    (output / "ballast").write_bytes(b"x" * (os.statvfs(output).f_bavail * os.statvfs(output).f_bsize - free))

    done = repository.gate("run", "--report", "off", "--concurrency", "1")

    assert done.code == 2, done.out + done.err
    assert "No space left on device" in done.out and "--resume" in done.out
    assert "Invalid: the disk is full, so the run ended early" in done.out
    assert ("journal.jsonl" if free < 30_000 else "results.json") in "".join(done.out.split())
    finished = (output / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert finished and all(line.endswith(b"\n") for line in finished)
    assert not (output / "recordings.jsonl.gz").exists()
    (output / "ballast").unlink()

    later = repository.gate("run", "--report", "off", "--resume")

    assert later.code == 0, later.out + later.err
    assert f"{len(finished)} run{'s' if len(finished) > 1 else ''} taken from the journal" in later.out + later.err
    assert not list(output.glob("journal*"))


def test_a_full_disk_and_a_signal__end_in_time(repository: Repository) -> None:
    repository.evals("evals/a.test.json", {"floods": "flood:1000000", "hangs": "sleep:600"})
    (repository.root / "agent-eval-results" / "ballast").write_bytes(b"x" * 20_000)
    process = repository.start("run", "--concurrency", "2")
    output = repository.root / "agent-eval-results"
    wait_until(lambda: os.statvfs(output).f_bavail == 0 or process.poll() is not None, seconds=60)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    done = repository.finish(process, timeout=60)
    # The full disk ends the run, too. A signal that comes after its end, while the verdict is printed, kills the gate.
    killed = done.code == 128 + signal.SIGTERM and "there is no verdict" in done.err
    assert done.code == 2 or killed, done.out + done.err
    assert "No space left on device" in done.out + done.err
    assert repository.left_behind() == []


def test_a_report_page_that_does_not_fit__is_a_line_and_changes_nothing(repository: Repository) -> None:
    """The page alone is larger than this disk."""
    repository.evals("evals/a.test.json", {"quick": "say hello"})

    done = repository.gate("run")

    assert done.code == 0, done.out + done.err
    lines = [line for line in done.err.splitlines() if "report.html" in line]
    assert len(lines) == 1 and "could not be written: OSError: [Errno 28] No space left on device" in lines[0]
    assert not (done.output / "report.html").exists()
    assert done.report.verdict == "passed" and done.recordings
    assert "report.html" not in done.out + (done.output / "summary.md").read_text("utf-8")

    silent = repository.gate("run", "--report", "off")

    assert (silent.code, "report.html" in silent.err) == (0, False), silent.err
