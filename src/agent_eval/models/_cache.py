"""Replies on disk: asked once, kept for the next run with the same questions, and the one place a replay reads from.

A reply is found by a hash of everything in the question that decides it. A cached reply must also come from the same
endpoint (a local server's `llama3` is not another's); a replay takes it from wherever it came.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.core.files import MAX_TEXT, read_regular
from agent_eval.core.wire import WireModel
from agent_eval.models.protocol import ModelRequest, ModelUsage

_VERSION = 1
_ROOM = 0.9
"""How full the cache is after making room."""
_STALE = 3600.0
"""Seconds after which nobody is writing a file any more."""


class CachedReply(WireModel):
    """One file of the cache."""

    version: int = _VERSION
    identity: str
    """Endpoint.identity."""
    text: str
    model_version: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None

    @property
    def usage(self) -> ModelUsage:
        """What it cost when it was asked."""
        return ModelUsage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            thought_tokens=self.thought_tokens,
        )


def key_of(request: ModelRequest) -> str:
    """The name of a reply: a hash of all that decides it, so not of who pays."""
    deciding: dict[str, Any] = {
        "version": _VERSION,
        "model": request.model,
        "system": request.system,
        "prompt": request.prompt,
        "schema": request.schema,
        "config": request.config,
        "sample": request.sample,
        "run": request.run,
    }
    text = json.dumps(deciding, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


class ReplyCache:
    """A directory of replies. Several processes may use it at once; a file that can't be read is a miss.

    It never fails a run: what can't be written is not kept.
    """

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        """Opens it. The directory is made when the first reply is kept.

        Args:
            directory: Where.
            max_bytes: Its size on disk, at most; the replies that were used longest ago go first.
        """
        self._directory = directory
        self._max_bytes = max_bytes
        self._size: int | None = None

    def get(self, key: str, identity: str | None = None) -> CachedReply | None:
        """The reply, if it is there and comes from that endpoint (None: from any)."""
        path = self._path(key)
        try:
            found = CachedReply.model_validate_json(read_regular(path, MAX_TEXT))
        except (OSError, ValidationError):
            return None
        if found.version != _VERSION or (identity is not None and found.identity != identity):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # It was used just now.
        return found

    def put(self, key: str, reply: CachedReply) -> None:
        """Keeps a reply, whole or not at all."""
        data = json.dumps(reply.model_dump(exclude_none=True)).encode()
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                before = path.stat().st_size if path.exists() else 0
                Path(name).replace(path)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            if self._size is None:
                self._size = sum(size for _, size, _ in self._files())
            else:
                self._size += len(data) - before
            if self._size > self._max_bytes:
                self._make_room()

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key}.json"

    def _files(self) -> list[tuple[float, int, Path]]:
        """Last use, size and path of every reply."""
        found = []
        for path in self._directory.glob("*/*.json"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found

    def _make_room(self) -> None:
        files = sorted(self._files())
        size = sum(size for _, size, _ in files)
        for _, bytes_of_file, path in files:
            if size <= self._max_bytes * _ROOM:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                size -= bytes_of_file
        self._size = size
        for path in self._directory.glob("*/.*.tmp"):  # Of a process that was killed while it wrote.
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()
