"""Files of traces: which they are, and their values with the place of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_eval_agents.traces.place import Place, UnusableConversation
from agent_eval_agents.traces.spans import is_otlp, is_span
from agent_eval_scoring.core.files import MAX_TEXT, open_regular, read_lines, read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.evalset.json import parse_document

LARGEST = 4 * MAX_TEXT
"""Bytes of one file of JSON Lines, or of all files of a directory: its spans are in memory while it is read."""
_BEGINNING = 1_000_000
"""Bytes."""
_SIGNS = (b"resourceSpans", b"resource_spans", b"resourceLogs", b"resource_logs", b"traceId", b"trace_id")
_SUFFIXES = (".json", ".jsonl", ".jsonl.gz")


def trace_files(source: Path) -> list[Path]:
    """The file, or the files of a directory by name, if they are traces; empty for anything else."""
    if source.is_dir():
        files = sorted(path for path in source.iterdir() if path.name.endswith(_SUFFIXES) and path.is_file())
        return [path for path in files if _is_trace(path)]
    return [source] if _is_trace(source) else []


def _is_trace(path: Path) -> bool:
    """Whether a file's first JSON value is a span or OTLP JSON; also if what follows is damaged."""
    with suppress(OSError, ValueError, RecursionError):
        line = next((line for line in read_lines(path) if line.strip()), b"")
        if line.strip() not in (b"{", b"["):
            return _is_of_trace(json.loads(line))
    with suppress(OSError, ValueError, RecursionError):
        with open_regular(path) as file:
            if not any(sign in file.read(_BEGINNING) for sign in _SIGNS):
                return False
        return _is_of_trace(json.loads(read_regular(path, MAX_TEXT)))
    return False


def _is_of_trace(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return is_otlp(first) or is_span(first)


def trace_values(path: Path, name: str) -> list[tuple[Any, Place]]:
    """The values of a file of traces.

    Raises:
        OSError: It can't be read.
        ValueError: It is too large.
        UnusableConversation: It, or a line of it, is not JSON.
    """
    document = None
    if path.stat().st_size <= MAX_TEXT and not path.name.endswith(".gz"):
        document, _ = parse_document(read_regular(path, MAX_TEXT), name)
    if document is not None:
        return list(items(document.value, Place(file=name, document=document)))
    values: list[tuple[Any, Place]] = []
    for value, place in json_lines(bounded(read_lines(path), LARGEST), name):
        if isinstance(value, Problem):
            hint = "The file may have been copied while it was written."
            raise UnusableConversation(place, f"The line is not JSON: {value.message}", value.hint or hint)
        values += items(value, place)
    return values


def items(value: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """The items of a list, or the value itself."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield item, replace(place, path=(*place.path, number))
    else:
        yield value, place


def json_lines(lines: Iterable[bytes], name: str) -> Iterator[tuple[Any, Place]]:
    """The values of JSON Lines with their places; for a line that is not JSON, its problem."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            document, problems = parse_document(line, name)
            yield (problems[0] if document is None else document.value), Place(file=name, line=number)


def bounded(lines: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The lines, as long as they are not more than a file may have.

    Raises:
        ValueError: They are more.
    """
    left = limit
    for line in lines:
        left -= len(line)
        if left < 0:
            raise ValueError(f"it has more than {limit // 1_000_000:,} MB")
        yield line
