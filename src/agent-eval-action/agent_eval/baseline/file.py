"""The source `file:PATH`: a committed baseline, read from the base branch and not from the pull request's tree."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from agent_eval.baseline.archive import NOT_KEPT, RECORDINGS, RESULTS, StoredRecordings
from agent_eval.baseline.git import ORIGIN, Entry, Git, GitError, Remote, short
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, NoneYet, Provenance
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval_results import BaselineSource, RunReport
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import harmless

MAX_BYTES = 64 * 1024 * 1024
_NAME_FILE = "Name the results.json of a run itself, not its directory: `file:DIRECTORY/results.json`."
_NAME_RUN = "Correct `baseline` or write the file again: it must be the results.json of a run of agent-eval."
_RECORD = "To record one, commit the results.json of a run of the base branch there."


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """Reads a baseline from a file."""

    path: str
    """Relative to `root`, with forward slashes."""
    root: Path
    """The directory that agent-eval works in."""
    git: Git | GitError
    """The checkout around it, or why there is none."""
    remote: Remote = ORIGIN
    """Where to fetch the base branch's commit from if the clone is shallow."""
    max_bytes: int = MAX_BYTES

    source: ClassVar[BaselineSource] = "file"

    async def find(self, request: BaselineRequest) -> Baseline:
        """Reads the file from the requested commit on a pull request, else from the working tree."""
        return await asyncio.to_thread(self._committed if request.is_pull_request else self._in_working_tree, request)

    def where_missing(self, request: BaselineRequest | None) -> str | None:
        """Where there is no such file; None if there is one, or if that is unknown.

        A file of the checkout counts on a pull request too: it may be the one that adds it.
        """
        if os.path.lexists(self.root / self.path):
            return None
        where = f"{self.path} in the checkout"
        if request is None or not request.is_pull_request:
            return where
        if isinstance(self.git, GitError):
            return None
        try:
            missing = self._entry(self.git, request) is None
        except GitError:
            return None
        return f"{where}, nor on {harmless(request.base_ref)} at {short(request.commit)}" if missing else None

    def _entry(self, git: Git, request: BaselineRequest) -> Entry | None:
        """The file in the requested commit, which is fetched if necessary."""
        git.need(request.commit, self.remote)
        return git.entry(request.commit, git.prefix / PurePosixPath(self.path))

    def _committed(self, request: BaselineRequest) -> Baseline:
        where = f"{self.path} on {harmless(request.base_ref)} at {short(request.commit)}"
        if isinstance(self.git, GitError):
            return FetchFailed(message=f"{where} could not be read: {self.git.message}", hint=self.git.hint)
        try:
            entry = self._entry(self.git, request)
            if entry is None:
                return NoneYet(message=f"There is no {where}.", hint=self._record())
            if entry.size is None:
                return FetchFailed(message=f"{where} is not used: it is not a regular file.", hint=_NAME_FILE)
            if entry.size > self.max_bytes:
                return self._too_large(where)
            data = self.git.blob(entry.blob)
            beside = self._beside
            lines = None if beside is None else self.git.entry(request.commit, self.git.prefix / beside)
            recordings = (
                None if lines is None or lines.size is None or lines.size > MAX_BYTES else self.git.blob(lines.blob)
            )
        except GitError as error:
            return FetchFailed(message=f"{where} could not be read: {error.message}", hint=error.hint)
        return self._read(data, where, recordings)

    def _in_working_tree(self, request: BaselineRequest) -> Baseline:
        root, path = self.root.resolve(), self.root / self.path
        where = f"{self.path} in the checkout"
        try:
            resolved = path.resolve(strict=True)
            if not resolved.is_relative_to(root) or not resolved.is_file():
                why = "it is not a regular file of the repository"
                return FetchFailed(message=f"{where} is not used: {why}.", hint=_NAME_FILE)
            if resolved.stat().st_size > self.max_bytes:
                return self._too_large(where)
            beside = None if self._beside is None else (self.root / self._beside).resolve()
            kept = beside is not None and beside.is_relative_to(root) and beside.is_file()
            recordings = beside.read_bytes() if beside and kept and beside.stat().st_size <= MAX_BYTES else None
            return self._read(resolved.read_bytes(), where, recordings)
        except FileNotFoundError:
            return NoneYet(message=f"There is no {where}.", hint=self._record())
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, before Python 3.13
            return FetchFailed(message=f"{where} could not be read: {harmless(str(error))}.")

    def _record(self) -> str:
        """How to record the file, and the file of a similar name that may be meant."""
        path = PurePosixPath(self.path)
        with contextlib.suppress(OSError):
            files = [file.name for file in (self.root / path.parent).iterdir() if file.suffix == ".json"]
            if (near := nearby(path.name, files, 1)) and near[0] != path.name:
                return f"Did you mean `baseline: file:{harmless(str(path.with_name(near[0])))}`? {_RECORD}"
        return _RECORD

    @property
    def _beside(self) -> PurePosixPath | None:
        """The recordings of the run that wrote the file; None for a file that was renamed."""
        path = PurePosixPath(self.path)
        return path.with_name(RECORDINGS) if path.name == RESULTS else None

    def _too_large(self, where: str) -> FetchFailed:
        return FetchFailed(message=f"{where} is not used: it is larger than {self.max_bytes // 1024 // 1024} MB.")

    def _read(self, data: bytes, where: str, recordings: bytes | None) -> Baseline:
        if data.startswith(b"version https://git-lfs.github.com/spec/"):
            return FetchFailed(
                message=f"{where} is not used: it is stored in Git LFS, which is not supported here.",
                hint="Commit it as an ordinary file.",
            )
        report = read_report(data, where)
        if isinstance(report, FetchFailed):
            return replace(report, hint=_NAME_RUN)
        if not isinstance(report, RunReport):
            return report
        if (reason := incomplete(report)) is not None:
            return FetchFailed(message=f"{where} is not used: {reason}.")
        origin = report.origin
        commit = origin.commit if origin is not None and origin.commit else None
        message = f"The base branch's results come from {where}"
        return Found(
            report=report,
            provenance=Provenance(
                commit=commit,
                run_id=None if origin is None else origin.run_id,
                run_url=None if origin is None else origin.run_url,
                recorded_at=report.started_at,
            ),
            message=f"{message}, recorded for {short(commit)}." if commit else f"{message}.",
            recordings=StoredRecordings(missing=NOT_KEPT) if recordings is None else StoredRecordings(data=recordings),
        )
