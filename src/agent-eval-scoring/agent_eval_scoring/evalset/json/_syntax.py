"""Diagnoses invalid JSON: reports the cause instead of the symptom that the parser reports."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval_scoring.core.problem import Problem

ONE_DOCUMENT = "A file contains one eval set (JSON Lines are not supported); perhaps a bracket was closed too early."
"""Hint for a second document in a file."""
_NAME_ANOTHER = "Write it as JSON, or name another file: eval files end in `.test.json` or `.evalset.json`."
_CONVERT = "Eval files and configs are JSON: convert it, or exclude it."
_FORMATS = (
    (
        r"version https://git-lfs",
        "a pointer of Git LFS",
        "Run `git lfs pull`; in a workflow, check out with `lfs: true`.",
    ),
    (
        r"<(?:!doctype )?html|\d{3}: \w|HTTP/\d",
        "the page of a server",
        "It may be the error of a download: get it again.",
    ),
    (r"<", "XML", _CONVERT),
    (r"```", "Markdown", "Delete the lines with ``` around the JSON."),
    (r"-----BEGIN |\$ANSIBLE_VAULT|age-encryption", "encrypted", "Decrypt it before the run."),
    (r"(?:#[^\n]*\n\s*)*(?:---\s|%YAML|- |[\w-]+:(?:[ \t].*)?$|[\"'][\w-]+[\"']: )", "YAML", _CONVERT),
    (r"(?:export|const|let|var|module|import|from|def)\b", "a program", _CONVERT),
    (r"(?:#[^\n]*\n\s*)*(?:\[\[?[a-z_][\w.]*\]\]?\s*$|[\w.]+ ?= ?[\"\d\[{tf])", "TOML, or Python", _CONVERT),
    (r"[^\s{[\"]+\.json\s*\Z", "only a path: a link that Git has written as text", "Set `core.symlinks` in Git."),
    (r"[\w ]+(?:[,;\t][\w ]*)+$", "a table (CSV)", _CONVERT),
    (r"(?:#{1,6} [^\n]*(?:\n\s*|\Z))+(?:\Z|[^\s{\[#/])", "Markdown", _NAME_ANOTHER),
    (r"[^\s{\[\"'\d/#-][^\n]{12}", "text", _NAME_ANOTHER),
)
"""Beginnings of files that are not JSON at all, what they are, and what to do."""
_TOKENS = (
    (r"'((?:[^'\\\n]|\\.)*)'?", 'JSON strings need double quotes: "{1}".'),
    (r"([\u2018-\u201f\u00ab\u00bb])", 'JSON strings need straight quotes ("), not {1}.'),
    (r"(?:True|False)\b", "Python's `{0}` is `{lower}` in JSON."),
    (r"(?:None|undefined|nil|NULL)\b", "`{0}` is `null` in JSON."),
    (r"[fbru]{1,2}[\"']|`", 'JSON strings need double quotes ("), and no prefix.'),
    (r"\(", "Python's tuples are lists in JSON: [...]."),
    (r"(?:\{|\$\{|<%).*?[}>]", "`{0}` is a placeholder: fill the template in."),
    (r"([A-Za-z_$][\w$]*)\s*:", 'Keys need double quotes: "{1}". (JavaScript and JSON5 need none.)'),
    (r"(?<=\d,)\d+", "Write decimal numbers with a point: 0.{0}."),
    (r"=", "Write `:` between a key and its value."),
    (
        r"[-+.]\w*|(?<=\d)[\w.]+",
        "Numbers are decimal, without + and zeros before them, and with digits around a point.",
    ),
)
"""What stands where JSON ends, and what to write. {0} is the text, {1} its core."""
_SYMPTOMS = {
    "Expecting ',' delimiter": "A comma is missing before this, or a backslash before a quote in the string.",
    "Expecting ':' delimiter": "A `:` is missing between a key and its value.",
    "Invalid control character": (
        r"In a string, a line break is written `\n` and a tab `\t`. If it should end before this, add a quote."
    ),
    "Invalid \\escape": r"In a string, a backslash is written `\\`.",
}

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?(?:NaN|Infinity)\b|-?\d[\d.eE+-]*', re.DOTALL)
# Unclosed strings and comments extend to the end of the text, so that the search for their end takes linear time.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)'
_STRING_OR_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*", re.DOTALL)
_STRING_OR_COMMA = re.compile(_STRING + r"|,(?=[ \t\r\n]*[\]}])", re.DOTALL)
_CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7}|={7})(?: |\r?$)", re.MULTILINE)
_SPACE = " \t\r\n"
_CONSTANTS = ("NaN", "Infinity", "-Infinity")


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

    def findings(self, text: str, most: int) -> list[Problem]:
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

    # In two passes: a comma before a comment and a bracket is a trailing one only without the comment.
    without_comments = _STRING_OR_COMMENT.sub(blank, text)
    return Extras(cleaned=_STRING_OR_COMMA.sub(blank, without_comments), comments=comments, commas=commas)


def diagnose(text: str, offset: int | None, parser_message: str) -> Problem:
    """Finds the cause of a parser's error.

    Args:
        text: The invalid text.
        offset: The offset of the error in characters; None if the parser reports none, as for numbers and constants.
        parser_message: The parser's message.
    """
    # First: the parser stops at the marker, or pages before it, with any other message.
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        return finding(
            text,
            conflict.start(),
            "json-merge-conflict",
            "The file contains Git's markers of an unresolved merge conflict.",
            "Choose one side, then delete the lines that begin with <<<<<<<, ======= and >>>>>>>.",
        )
    for beginning, what, todo in _FORMATS:
        if re.match(rf"\s*(?:{beginning})", text, re.MULTILINE | re.IGNORECASE):
            return finding(text, 0, "not-json", f"The file is not JSON but {what}.", todo)
    if offset is None:
        return _odd_number(text, parser_message)
    if parser_message.startswith("Invalid"):  # The offset is inside a string.
        return _other(text, offset, parser_message)
    offset = _next(text, offset)
    return _comment(text, offset) or _comma(text, offset) or _other(text, offset, parser_message)


def finding(text: str, offset: int, code: str, message: str, hint: str) -> Problem:
    """A problem at an offset of a text; it names no file yet."""
    line_start = text.rfind("\n", 0, offset) + 1
    return Problem(
        code=code, message=message, hint=hint, line=text.count("\n", 0, line_start) + 1, column=offset - line_start + 1
    )


def _odd_number(text: str, parser_message: str) -> Problem:
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.lstrip("+-") in _CONSTANTS:
            return finding(text, match.start(), "json-constant", f"`{token}` is not JSON.", "Write a number, or null.")
        # 4,300 digits: Python's limit of conversions from text, which is an error without a position.
        if token[0] != '"' and _is_too_big(token):
            return finding(
                text,
                match.start(),
                "number-too-big",
                f"The number `{token[:40]}{'...' if len(token) > 40 else ''}` is too big.",
                "Write it as a string if its digits matter.",
            )
    return finding(text, 0, "not-json", f"The file is not JSON: {parser_message}.", "Check it with a JSON formatter.")


def _is_too_big(token: str) -> bool:
    try:
        return not math.isfinite(float(token)) or bool(len(token) > 4300 and token.lstrip("-").isdigit())
    except ValueError:
        return False


def _comment(text: str, offset: int) -> Problem | None:
    for opening in ("//", "/*", "#"):
        if text.startswith(opening, offset):
            return finding(
                text,
                offset,
                "json-comment",
                f"JSON has no comments, but a comment starts here with `{opening}`.",
                "Delete it.",
            )
    return None


def _comma(text: str, offset: int) -> Problem | None:
    """A comma before a closing bracket. Parsers stop at either of them."""
    comma = offset if text[offset : offset + 1] == "," else _previous(text, offset)
    closing = _next(text, comma + 1) if comma is not None else len(text)
    if comma is not None and text[comma] == "," and text[closing : closing + 1] in ("]", "}"):
        return _trailing_comma(text, comma, text[closing])
    return None


def _trailing_comma(text: str, offset: int, closing: str) -> Problem:
    return finding(
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


def _unclosed(text: str) -> str:
    """The bracket or brace that closes what is open at the end of a text; "" if nothing is."""
    waiting: list[str] = []
    for match in re.finditer(_STRING + r"|[\[\]{}]", text, re.DOTALL):
        if match[0] in "[{":
            waiting.append("]" if match[0] == "[" else "}")
        elif match[0] in "]}" and waiting:
            waiting.pop()
    return waiting[-1] if waiting else ""


def _other(text: str, offset: int, parser_message: str) -> Problem:
    # The parser's own line is left out: the finding has one, and after cleaning both could differ.
    symptom = parser_message.partition(": line ")[0].removesuffix(" at")
    if offset >= len(text) or parser_message.startswith("Unterminated string"):
        return finding(
            text,
            min(offset, len(text.rstrip())),
            "json-truncated",
            "The file ends in the middle of "
            + ("a string that starts here." if offset < len(text) else "a list or an object."),
            "Complete it: a bracket, a brace or a quote is not closed.",
        )
    hint = _SYMPTOMS.get(symptom, "Check the file with a JSON formatter.")
    if text[offset] in "]}" and (missing := _unclosed(text[:offset])) not in {"", text[offset]}:
        hint = f"A `{missing}` is missing before this `{text[offset]}`."
    if symptom == "Extra data":
        symptom = "a second document begins here" if text[offset] in '{["' else "more follows after its end"
        hint = f"There is one `{text[offset]}` too many." if text[offset] in "]}" else ONE_DOCUMENT
        lines = [line for line in text.split("\n") if line.strip()]
        if text[offset] == "{" and lines[1:] and all(line.startswith("{") and line.endswith("}") for line in lines):
            hint = "JSON Lines are not read: write the lines as a list, with [ before, ] after and commas between them."
            if '"eval_id"' in text:
                hint = 'Write one eval set: {"eval_set_id": "...", "eval_cases": [...]}, with these lines in the list, '
                hint += "separated by commas."
    else:
        for pattern, todo in _TOKENS if not symptom.startswith("Invalid") else ():
            if match := re.compile(pattern).match(text, offset):
                shown = [part[:40] for part in (match[0], match[match.re.groups])]
                hint = todo.format(*shown, lower=shown[0].lower())
                break
    return finding(text, offset, "not-json", f"The file is not JSON: {symptom}.", hint)
