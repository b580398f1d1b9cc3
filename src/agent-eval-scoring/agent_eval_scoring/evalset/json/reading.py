"""Reads JSON files; reports invalid ones with the place and the cause."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel
from pydantic_core import from_json, to_json

from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, Severity, too_many
from agent_eval_scoring.core.selectors import nearby_file
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.json._syntax import Extras, diagnose, extras, finding
from agent_eval_scoring.evalset.json.positions import JsonPath, Positions, format_path

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 200
"""Pydantic 2.14 can't write more than 254 levels, and recordings contain what is read here."""
_BINARY = (
    *((b"\x1f\x8b", "compressed (gzip)"), (b"\x28\xb5\x2f\xfd", "compressed (zstd)"), (b"BZh", "compressed (bzip2)")),
    *((b"PK\x03\x04", "a ZIP archive"), (b"\xfd7zXZ", "compressed (xz)"), (b"\0GITCRYPT", "encrypted (git-crypt)")),
    *((b"SQLite format", "an SQLite database"), (b"%PDF", "a PDF document"), (b"\x89PNG", "a picture")),
)
"""Beginnings of files that are not text, and what they are."""
_BOMS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A well-formed JSON file."""

    file: str
    """Relative to the root, with forward slashes."""
    text: str
    value: Any

    @cached_property
    def positions(self) -> Positions:
        """The positions of its values."""
        return Positions(self.text)

    def problem(
        self,
        severity: Severity,
        code: str,
        message: str,
        *,
        path: JsonPath = (),
        key: bool = False,
        hint: str | None = None,
    ) -> Problem:
        """A problem with a value of this document.

        Args:
            severity: The severity.
            code: A code of docs/problems.md.
            message: One sentence.
            path: The path of the value. For a missing value, the position is that of its container.
            key: Report the position of the value's key.
            hint: What to do next.
        """
        path = self.spelled(path)
        position = self.positions.of(path, key=key)
        return Problem(
            severity=severity,
            code=code,
            message=message,
            hint=hint,
            file=self.file,
            line=position.line,
            column=position.column,
            path=format_path(path) or None,
        )

    def spelled(self, path: JsonPath) -> JsonPath:
        """The path with each key in the file's spelling, snake_case or camelCase."""
        value, steps = self.value, list(path)
        for number, step in enumerate(path):
            if isinstance(step, str) and isinstance(value, dict):
                # The models name keys in snake_case; the position is that of the key as it is written.
                steps[number] = step if step in value else to_camel(step) if to_camel(step) in value else step
                value = value.get(steps[number])
            elif isinstance(step, int) and isinstance(value, list) and step < len(value):
                value = value[step]
            else:
                break
        return tuple(steps)

    def error(
        self, code: str, message: str, *, path: JsonPath = (), key: bool = False, hint: str | None = None
    ) -> Problem:
        """A problem that prevents the run."""
        return self.problem(Severity.ERROR, code, message, path=path, key=key, hint=hint)

    def warning(
        self, code: str, message: str, *, path: JsonPath = (), key: bool = False, hint: str | None = None
    ) -> Problem:
        """A problem that is only reported."""
        return self.problem(Severity.WARNING, code, message, path=path, key=key, hint=hint)


def read_document(path: Path, file: str, *, lenient: bool = False) -> tuple[Document | None, list[Problem]]:
    """Reads a JSON file.

    Args:
        path: The file.
        file: The name of the file in problems.
        lenient: Ignore comments and trailing commas; a notice counts them.

    Returns:
        The document, or None if a problem is an error; and the problems.
    """
    try:
        # No pipe and no device, which would never end, and no more than fits into memory.
        data = read_regular(path, MAX_TEXT)
    except OSError as error:
        reason = error.strerror or str(error)
        return None, [
            Problem(
                code="unreadable-file",
                message=f"The file can't be read: {reason}.",
                hint="Name a file in it." if path.is_dir() else _hint_for(path),
                file=file,
            )
        ]
    return parse_document(data, file, lenient=lenient)


def _hint_for(path: Path) -> str:
    """What to do about a file that can't be opened: the one that was probably meant."""
    if not path.exists() and (close := nearby_file(path)) is not None:
        return f"Did you mean `{close}`?"
    return "Check that it exists and that this user may read it."


def parse_document(data: bytes, file: str, *, lenient: bool = False) -> tuple[Document | None, list[Problem]]:
    """Parses the bytes of a JSON file; see `read_document`."""
    encoding_problem = _encoding_problem(data)
    if encoding_problem is not None:
        return None, [replace(encoding_problem, file=file)]
    text = data.decode("utf-8")
    pairs = _Pairs()
    notices: list[Problem] = []
    usual = _usual(data)
    try:
        try:
            value = _parse(text, pairs) if usual is _NOTHING else usual
        except ValueError as error:
            # Only after an error: of valid files, which are nearly all, nothing has to be scanned a second time.
            extra = extras(text)
            value = _parse_without(extra, pairs)
            if value is _NOTHING:
                # Errors about constants and numbers have no offset. The message of `json` names only the symptom.
                offset = error.pos if isinstance(error, json.JSONDecodeError) else None
                return None, [replace(diagnose(text, offset, str(error)), file=file)]
            if not lenient:
                return None, _extra_problems(file, text, extra)
            # Of the same length, so that lines and columns of later findings stay right.
            text = extra.cleaned
            notices = [_cleaned_notice(file, extra)]
    except RecursionError:
        return None, [_too_deep(file)]
    if usual is _NOTHING and _is_too_deep(value):
        return None, [_too_deep(file)]
    document = Document(file=file, text=text, value=value)
    # Escapes only: a lone surrogate can't be in UTF-8 itself.
    if _SURROGATE.search(text):
        problems = list(_lone_surrogates(document))
        if problems:
            return None, problems
    # Their places cost a second scan, which only files with duplicates pay for.
    return document, [*notices, *(_duplicate_keys(document) if pairs.duplicates else ())]


def parse_value(text: str | bytes) -> Any:
    """Parses JSON that is inside of another file, e.g. in a database or in a string of a trace.

    Raises:
        ValueError: It is not JSON, nests too deeply, or contains what a UTF-8 file of JSON can't contain.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        # Python reads NaN, Infinity and 1e999, and would write them into results.json, which is no JSON then.
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
    except RecursionError:
        raise ValueError(f"it nests lists or objects more than {_DEEPEST} deep") from None
    if _is_too_deep(value):
        raise ValueError(f"it nests lists or objects more than {_DEEPEST} deep")
    if _SURROGATE.search(text) and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("it contains half of a surrogate pair")
    return value


_NOTHING = object()


def _usual(data: bytes) -> Any:
    """The value of JSON that no problem is found in, in half the time; _NOTHING if that is not certain."""
    try:
        value = from_json(data, allow_inf_nan=False)  # refuses more than _DEEPEST levels, too
        written = to_json(value, inf_nan_mode="constants")
    except ValueError:
        return _NOTHING
    # Of a key that occurs twice the value has one. An escaped quote has one quote in both, unless it is `\u0022`.
    is_whole = written.count(b'"') == data.count(b'"') and b"\\u0022" not in data
    return value if is_whole and b"Infinity" not in written else _NOTHING  # 1e999


def _parse(text: str, pairs: _Pairs) -> Any:
    return json.loads(
        text, object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_float=_finite_float, strict=True
    )


def _parse_without(extra: Extras, pairs: _Pairs) -> Any:
    """The value of a text without its comments and trailing commas; _NOTHING if it has other errors."""
    if not extra.count:
        return _NOTHING
    try:
        return _parse(extra.cleaned, pairs)
    except ValueError:
        return _NOTHING


def _extra_problems(file: str, text: str, extra: Extras) -> list[Problem]:
    """An error for each comment and each trailing comma."""
    problems = [replace(problem, file=file) for problem in extra.findings(text, MAX_PROBLEMS)]
    if file.endswith(".json"):
        hint = f"`agent-eval migrate {file} NEW` writes the file without its comments and trailing commas."
        problems[0] = replace(problems[0], hint=f"{problems[0].hint} {hint}")
    if extra.count > len(problems):
        problems.append(too_many(problems, len(problems), extra.count - len(problems)))
    return problems


def _cleaned_notice(file: str, extra: Extras) -> Problem:
    return Problem(
        severity=Severity.NOTICE,
        code="json-cleaned",
        message=f"{plural(len(extra.comments), 'comment')} and {plural(len(extra.commas), 'trailing comma')} dropped.",
        file=file,
    )


class _Pairs:
    """Builds objects and records whether any of them has a duplicate key."""

    def __init__(self) -> None:
        self.duplicates = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # The last one counts, as for pydantic.
        result = dict(pairs)
        if len(result) != len(pairs):
            self.duplicates = True
        return result


def _is_too_deep(value: Any) -> bool:
    # By levels and not by recursion: the depth that is to be refused would end the recursion first.
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node if type(node) is list else ())
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _too_deep(file: str) -> Problem:
    return Problem(
        code="nested-too-deeply",
        message=f"The file nests lists or objects more than {_DEEPEST} deep.",
        hint="Check that it is an eval file; eval files never nest that deeply.",
        file=file,
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _encoding_problem(data: bytes) -> Problem | None:
    """Why the bytes are not UTF-8 text without a byte order mark; None if they are."""
    # UTF-32 before UTF-16: its mark of little-endian begins with the other one's.
    for mark, name in _BOMS:
        if data.startswith(mark):
            return finding(
                "",
                0,
                "not-utf8",
                f"The file is encoded in {name}; JSON files are UTF-8.",
                "Save it as UTF-8 without a byte order mark.",
            )
    if data.startswith(b"\xef\xbb\xbf"):
        message = "The file starts with a byte order mark, which ADK's JSON reader rejects."
        return finding("", 0, "byte-order-mark", message, 'Save it as "UTF-8", not "UTF-8 with BOM".')
    # Zero bytes are what a disk that was full, or a crash, leaves of a file.
    if not data.strip(b" \t\r\n\f\v\0"):
        hint = "Write an eval set or a config into it, or exclude it."
        return finding("", 0, "empty-file", "The file is empty.", hint)
    if (kind := next((kind for beginning, kind in _BINARY if data.startswith(beginning)), None)) is not None:
        return finding("", 0, "not-json", f"The file is not JSON but {kind}.", "Commit the JSON itself, or exclude it.")
    # ASCII in UTF-16 has a zero byte in every pair, with or without a mark.
    if b"\x00" in data[:4]:
        message = "The file seems to be encoded in UTF-16 or UTF-32; JSON files are UTF-8."
        return finding("", 0, "not-utf8", message, "Save it as UTF-8 without a byte order mark.")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        message = f"The file is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}."
        hint = "Save it as UTF-8; it may have been written as Latin-1, Windows-1252 or another older encoding."
        return finding(before, len(before), "not-utf8", message, hint)
    return None


def _lone_surrogates(document: Document) -> Iterator[Problem]:
    waiting: list[tuple[JsonPath, Any]] = [((), document.value)]
    while waiting:
        path, value = waiting.pop()
        children: list[tuple[str | int, Any]] = []
        if isinstance(value, dict | list):
            children = list(value.items() if isinstance(value, dict) else enumerate(value))
        # Reported at the object: the key itself could not be printed as its path.
        broken_key = any(isinstance(step, str) and _LONE_SURROGATE.search(step) for step, _ in children)
        if broken_key or (isinstance(value, str) and _LONE_SURROGATE.search(value)):
            yield document.error(
                "lone-surrogate",
                f"{'A key' if broken_key else 'The text'} contains half of a surrogate pair, which is not a character.",
                path=path,
                hint=r"Write the character itself, or both halves, e.g. `\ud83d\ude00` for an emoji.",
            )
        else:
            waiting.extend(((*path, step), child) for step, child in children)


def _duplicate_keys(document: Document) -> Iterator[Problem]:
    """A warning for each duplicate key, at its first occurrence, which is ignored."""
    for container, key, first, last in document.positions.duplicates():
        yield Problem(
            severity=Severity.WARNING,
            code="duplicate-key",
            message=f"The key `{key}` occurs more than once in this object; only the one on line {last.line} is read.",
            hint="Keep one of them.",
            file=document.file,
            line=first.line,
            column=first.column,
            path=format_path((*container, key)),
        )
