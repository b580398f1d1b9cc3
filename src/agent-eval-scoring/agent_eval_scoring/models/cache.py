"""Cache of replies on disk; also a source of a replay.

The key is a hash of every field of the request that affects the reply. A cached reply must also come from the same
endpoint (`llama3` on one server differs from `llama3` on another); a replay accepts replies of any endpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.models.protocol import ModelRequest, ModelUsage

_VERSION = 1
_EVICT_TO = 0.9
"""Fraction of the maximum size that eviction leaves."""
_MOST_COPIED = 256 * 1024 * 1024
"""Bytes of a cache that replies are copied to."""
_STALE = 3600.0
"""Age in seconds of a temporary file that no process writes any more."""


class CachedReply(WireModel):
    """A reply as stored in one file."""

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
        """The usage of the original request."""
        return ModelUsage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            thought_tokens=self.thought_tokens,
        )


def copy_replies(source: Path, target: Path) -> int:
    """Copies the replies of a cache directory into another one that lacks them, and returns their number.

    Files that are no replies are left out, and so are replies that can't be written.
    """
    copied = 0
    cache = ReplyCache(target, max_bytes=_MOST_COPIED)
    for path in sorted(source.glob("??/*.json")):
        if re.fullmatch(r"[0-9a-f]{64}", path.stem) is None or path.is_symlink() or cache.get(path.stem) is not None:
            continue
        with contextlib.suppress(OSError, ValidationError):
            cache.put(path.stem, CachedReply.model_validate_json(read_regular(path, MAX_TEXT)))
            copied += 1
    return copied


def key_of(request: ModelRequest) -> str:
    """Returns the cache key: a hash of all fields that affect the reply, so not of case, purpose and tape."""
    fields: dict[str, Any] = {
        "version": _VERSION,
        "model": request.model,
        "system": request.system,
        "prompt": request.prompt,
        "schema": request.schema,
        "config": request.config,
        "sample": request.sample,
        "run": request.run,
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


class ReplyCache:
    """A directory of replies. Safe for concurrent processes; an unreadable file is a miss.

    It never fails a run: a reply that can't be written is not cached.
    """

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        """Opens the cache. The directory is created with the first reply.

        Args:
            directory: The cache directory.
            max_bytes: Maximum size on disk; the least recently used replies are evicted first.
        """
        self._directory = directory
        self._max_bytes = max_bytes
        self._size: int | None = None

    def get(self, key: str, identity: str | None = None) -> CachedReply | None:
        """Returns the cached reply of an endpoint (None: of any endpoint); None on a miss."""
        path = self._path(key)
        try:
            reply = CachedReply.model_validate_json(read_regular(path, MAX_TEXT))
        except (OSError, ValidationError):
            return None
        if reply.version != _VERSION or (identity is not None and reply.identity != identity):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # Marks it as recently used.
        return reply

    def put(self, key: str, reply: CachedReply) -> None:
        """Stores a reply atomically."""
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
                self._evict()

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key}.json"

    def _files(self) -> list[tuple[float, int, Path]]:
        """Returns last use, size and path of every reply."""
        files = []
        for path in self._directory.glob("*/*.json"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        return files

    def _evict(self) -> None:
        files = sorted(self._files())
        size = sum(size for _, size, _ in files)
        for _, file_size, path in files:
            if size <= self._max_bytes * _EVICT_TO:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                size -= file_size
        self._size = size
        for path in self._directory.glob("*/.*.tmp"):  # Left by a process that was killed while writing.
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()
