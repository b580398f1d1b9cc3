"""One run of the engine for all items of a session, also if several processes of pytest-xdist execute them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_eval.api import EngineInterrupted, EngineOutcome

_RESULTS = "results.json"


class SharedRun:
    """The run in a directory that all processes of the session share."""

    def __init__(self, directory: Path) -> None:
        """The directory exists, and nothing else is in it."""
        self.directory = directory
        self._outcome: EngineOutcome | None = None

    def outcome(self, start: Callable[[], EngineOutcome]) -> EngineOutcome:
        """The outcome. The first process that asks runs the engine; the others wait for it.

        Args:
            start: Runs the engine.

        Raises:
            EngineInterrupted: Ctrl-C during the run.
        """
        if self._outcome is None:
            with self._locked():
                if self.stored() is None:
                    try:
                        self._store(start())
                    except EngineInterrupted as interrupted:
                        self._store(interrupted.outcome)
                        raise
        outcome = self.stored()
        assert outcome is not None
        return outcome

    def stored(self) -> EngineOutcome | None:
        """The outcome, if the run has ended."""
        file = self.directory / "outcome.json"
        if self._outcome is None and file.exists():
            from agent_eval.baseline.reader import read_file

            stored = json.loads(file.read_text("utf-8"))
            results = self.directory / _RESULTS
            self._outcome = EngineOutcome(
                exit_code=stored["exit_code"],
                report=read_file(results) if results.exists() else None,
                console=stored["console"],
                log=stored["log"],
                output=Path(stored["output"]),
            )
        return self._outcome

    def add_rerun(self, case_id: str, worker: str, *, passed: bool) -> None:
        """Records that a case has been run again, alone."""
        with (self.directory / f"reruns-{worker}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([case_id, passed]) + "\n")

    def passed_again(self) -> set[str]:
        """The ids of the cases whose last run alone passed."""
        last: dict[str, bool] = {}
        for path in self.directory.glob("reruns-*.jsonl"):
            last.update(json.loads(line) for line in path.read_text("utf-8").splitlines())
        return {case_id for case_id, passed in last.items() if passed}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / "lock").open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _store(self, outcome: EngineOutcome) -> None:
        if outcome.report is not None:
            shutil.copyfile(outcome.output / _RESULTS, self.directory / _RESULTS)
        stored = {
            "exit_code": outcome.exit_code,
            "console": outcome.console,
            "log": outcome.log,
            "output": str(outcome.output),
        }
        partial = self.directory / "outcome.json.part"
        partial.write_text(json.dumps(stored), "utf-8")
        partial.replace(self.directory / "outcome.json")
        self._outcome = outcome
