"""Diagnoses invalid JSON: reports the cause instead of the symptom that the parser reports."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

ONE_DOCUMENT = "A file contains one eval set (JSON Lines are not supported); perhaps a bracket was closed too early."
"""Hint for a second document in a file."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?(?:NaN|Infinity)\b|-?\d[\d.eE+-]*', re.DOTALL)
# Unclosed strings and comments extend to the end of the text, so that the search for their end takes linear time.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)'
_STRING_OR_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*", re.DOTALL)
_STRING_OR_COMMA = re.compile(_STRING + r"|,(?=[ \t\r\n]*[\]}])", re.DOTALL)
_CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7}|={7})(?: |\r?$)", re.MULTILINE)
_WORD = re.compile(r"[^\W\d][\w$-]*")
_SPACE = " \t\r\n"
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_CURLY_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
_CONSTANTS = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, kw_only=True)
class SyntaxFinding:
    """A syntax error and its place."""

    code: str
    message: str
    hint: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Comments and trailing commas, which JSON doesn't allow but people write."""

    cleaned: str
    """The text with spaces instead of them, so that all other positions stay the same."""
    comments: Sequence[int]
    """Offsets."""
    commas: Sequence[int]
    """Offsets of commas before a closing bracket."""

    @property
    def count(self) -> int:
        """Number of comments and trailing commas."""
        return len(self.comments) + len(self.commas)

    def findings(self, text: str, most: int) -> list[SyntaxFinding]:
        """Findings for the first of them, at most `most`, in the order of the text."""
        offsets = sorted([*self.comments, *self.commas])[:most]
        return [
            _comment(text, offset) or _trailing_comma(text, offset, self.cleaned[_next(self.cleaned, offset)])
            for offset in offsets
        ]


def extras(text: str) -> Extras:
    """Finds comments (`//`, `/* */`, `#`) and trailing commas."""
    comments: list[int] = []
    commas: list[int] = []

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        if text[0] == '"':
            return text
        (commas if text == "," else comments).append(match.start())
        return "".join(char if char in "\r\n" else " " for char in text)

    without_comments = _STRING_OR_COMMENT.sub(blank, text)
    return Extras(cleaned=_STRING_OR_COMMA.sub(blank, without_comments), comments=comments, commas=commas)


def diagnose(text: str, offset: int | None, parser_message: str) -> SyntaxFinding:
    """Finds the cause of a parser's error.

    Args:
        text: The invalid text.
        offset: The offset of the error in characters; None if the parser reports none, as for numbers and constants.
        parser_message: The parser's message.
    """
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        return _finding(
            text,
            conflict.start(),
            "json-merge-conflict",
            "The file contains Git's markers of an unresolved merge conflict.",
            "Choose one side, then delete the lines that begin with <<<<<<<, ======= and >>>>>>>.",
        )
    if offset is None:
        return _odd_number(text, parser_message)
    if parser_message.startswith("Invalid"):  # The offset is inside a string.
        return _other(text, offset, parser_message)
    offset = _next(text, offset)
    return (
        _comment(text, offset) or _quotes(text, offset) or _comma(text, offset) or _other(text, offset, parser_message)
    )


def _finding(text: str, offset: int, code: str, message: str, hint: str) -> SyntaxFinding:
    line_start = text.rfind("\n", 0, offset) + 1
    return SyntaxFinding(
        code=code,
        message=message,
        hint=hint,
        line=text.count("\n", 0, line_start) + 1,
        column=offset - line_start + 1,
    )


def _odd_number(text: str, parser_message: str) -> SyntaxFinding:
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.lstrip("+-") in _CONSTANTS:
            return _finding(
                text,
                match.start(),
                "json-constant",
                f"`{token}` is not JSON.",
                "Write a number, or null.",
            )
        if token[0] != '"' and _is_too_big(token):
            return _finding(
                text,
                match.start(),
                "number-too-big",
                f"The number `{token[:40]}{'...' if len(token) > 40 else ''}` is too big.",
                "Write it as a string if its digits matter.",
            )
    return _finding(text, 0, "not-json", f"The file is not JSON: {parser_message}.", "Check it with a JSON formatter.")


def _is_too_big(token: str) -> bool:
    try:
        return not math.isfinite(float(token)) or bool(len(token) > 4300 and token.lstrip("-").isdigit())
    except ValueError:
        return False


def _comment(text: str, offset: int) -> SyntaxFinding | None:
    for opening in ("//", "/*", "#"):
        if text.startswith(opening, offset):
            return _finding(
                text,
                offset,
                "json-comment",
                f"JSON has no comments, but a comment starts here with `{opening}`.",
                "Delete it.",
            )
    return None


def _quotes(text: str, offset: int) -> SyntaxFinding | None:
    char = text[offset : offset + 1]
    if char == "'":
        return _finding(
            text, offset, "json-single-quotes", "JSON strings have double quotes, not single ones.", 'Write "..." here.'
        )
    if char and char in _CURLY_QUOTES:
        return _finding(
            text,
            offset,
            "json-single-quotes",
            f"`{char}` is a typographic quote; JSON strings have straight double quotes.",
            'Write "..." here. Word processors and chat programs replace the quotes of what is pasted into them.',
        )
    return None


def _comma(text: str, offset: int) -> SyntaxFinding | None:
    """A comma before a closing bracket. Parsers stop at either of them."""
    comma = offset if text[offset : offset + 1] == "," else _previous(text, offset)
    closing = _next(text, comma + 1) if comma is not None else len(text)
    if comma is not None and text[comma] == "," and text[closing : closing + 1] in ("]", "}"):
        return _trailing_comma(text, comma, text[closing])
    return None


def _trailing_comma(text: str, offset: int, closing: str) -> SyntaxFinding:
    return _finding(
        text, offset, "json-trailing-comma", f"JSON allows no comma before a closing `{closing}`.", "Delete the comma."
    )


def _previous(text: str, offset: int) -> int | None:
    offset -= 1
    while offset >= 0 and text[offset] in _SPACE:
        offset -= 1
    return offset if offset >= 0 else None


def _next(text: str, offset: int) -> int:
    while offset < len(text) and text[offset] in _SPACE:
        offset += 1
    return offset


def _other(text: str, offset: int, parser_message: str) -> SyntaxFinding:
    if offset >= len(text) or parser_message.startswith("Unterminated string"):
        return _finding(
            text,
            min(offset, len(text.rstrip())),
            "json-truncated",
            "The file ends in the middle of "
            + ("a string that starts here." if offset < len(text) else "a list or an object."),
            "Complete it: a bracket, a brace or a quote is not closed.",
        )
    message, hint = _explain(text, offset, parser_message)
    return _finding(text, offset, "not-json", message, hint)


def _explain(text: str, offset: int, parser_message: str) -> tuple[str, str]:
    before = _previous(text, offset)
    if text[offset] == "," and before is not None and text[before] in ",[{":
        message = "There is a second comma." if text[before] == "," else "There is a comma before the first entry."
        return message, "Delete the comma."
    word = _WORD.match(text, offset)
    if word is not None:
        if word.group() in _PYTHON_WORDS:
            return f"`{word.group()}` is not JSON.", f"Write `{_PYTHON_WORDS[word.group()]}`."
        if text[_next(text, word.end()) : _next(text, word.end()) + 1] == ":":
            return f"The key `{word.group()}` has no quotes.", f'Write "{word.group()}".'
    if parser_message.startswith("Invalid control character"):
        return (
            "A string contains a raw line break, tab or other control character.",
            r"Write `\n` for a line break and `\t` for a tab.",
        )
    if parser_message.startswith("Invalid \\"):
        return (
            "A string contains a backslash that does not start a known escape.",
            r"Write `\\` for a backslash, e.g. in a Windows path or a regular expression.",
        )
    if parser_message.startswith("Extra data"):
        return (
            "A second value starts here, after the end of the document.",
            ONE_DOCUMENT,
        )
    if parser_message.startswith("Expecting ',' delimiter"):
        return "A comma, or a closing bracket, is missing before this.", "Check the end of the value before it."
    if parser_message.startswith("Expecting ':' delimiter"):
        return "A colon is missing between a key and its value.", 'Write "key": value.'
    if parser_message.startswith("Expecting property name"):
        return "A key in double quotes is expected here.", 'Write "key": value.'
    return "A value is expected here.", "Check the file with a JSON formatter."
