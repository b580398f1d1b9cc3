"""Shortens our own script and style for shipping: comments and white space go, names stay.

It knows only what our files contain, which eslint and the browser tests hold them to. It is not a minifier for code of
others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CODE = re.compile(r"[^'\"`/]+")
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};>]|\b(?:return|of|in|case))\s*$")
"""What ends before a slash that begins a regular expression; elsewhere it divides."""

_AROUND = re.compile(r"[ \t]*([{}()\[\];,:?=<>&|!*%])[ \t]*")
"""Punctuation that needs no blanks."""
_SUM = re.compile(r"(?<![+\-\s])[ \t]([+-]=?)[ \t](?![+\-])")
"""`a + b`, but not `a + +b`, which is not `a++b`."""
_LAST = re.compile(r"(?<=[^;{}]);}")
"""The semicolon of a block's last statement. No loop of ours consists of one."""
_NO_BREAK_AFTER = re.compile(r"([{(\[,;])\n+")
_NO_BREAK_BEFORE = re.compile(r"\n+([)\].}])")
_AFTER_BLOCK = re.compile(r"}\n(?=[a-zA-Z])")
"""Where a statement follows a block. What ends with a brace but is no block, ends with a semicolon."""


def compact_script(code: str) -> str:
    """The script without comments and needless white space.

    A line break that could end a statement stays.
    """
    pieces: list[str] = []
    texts: list[str] = []
    for is_code, piece in _pieces(code):
        if is_code:
            pieces.append(piece)
        else:
            pieces.append(f"\0{len(texts)}\0")  # Texts are put back untouched.
            texts.append(piece)
    joined = re.sub(r"[ \t]*\n\s*", "\n", "".join(pieces))
    joined = _SUM.sub(r"\1", _AROUND.sub(r"\1", joined))
    joined = _NO_BREAK_BEFORE.sub(r"\1", _NO_BREAK_AFTER.sub(r"\1", joined))
    joined = _LAST.sub("}", _AFTER_BLOCK.sub("}", joined))
    return re.sub(r"\0(\d+)\0", lambda match: texts[int(match[1])], joined).strip("\n") + "\n"


def _pieces(code: str) -> Iterator[tuple[bool, str]]:
    """The code in pieces: whether a piece is code, and its text; comments are left out."""
    at, before = 0, ""
    while at < len(code):
        match = _CODE.match(code, at) or _COMMENT.match(code, at)
        if match is not None:
            at = match.end()
            if not match[0].startswith("/"):
                before = match[0]
                yield True, match[0]
            continue
        if code[at] == "`":
            end = _end_of_template(code, at)
        else:
            text = _STRING.match(code, at)
            if text is None and _BEFORE_REGEX.search(before):
                text = _REGEX.match(code, at)
            end = text.end() if text is not None else at + 1
        piece, at = code[at:end], end
        before = piece if piece == "/" else "x"
        yield piece == "/", piece


def _end_of_template(code: str, at: int) -> int:
    """The end of a template literal, which may contain others inside `${}`."""
    at += 1
    while code[at] != "`":
        if code.startswith("${", at):
            at = _end_of_code(code, at + 2)
        else:
            at += 2 if code[at] == "\\" else 1
    return at + 1


def _end_of_code(code: str, at: int) -> int:
    """The end of the code inside `${}`, after its brace."""
    depth = 1
    while depth:
        if code[at] == "`":
            at = _end_of_template(code, at)
            continue
        text = _STRING.match(code, at)
        if text is not None:
            at = text.end()
            continue
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return at


def compact_style(code: str) -> str:
    """The style sheet without comments and needless white space."""
    parts = re.split(r"(\"[^\"\n]*\"|'[^'\n]*')", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL))
    parts[::2] = [_compact_rules(part) for part in parts[::2]]
    return "".join(parts).strip() + "\n"


def _compact_rules(rules: str) -> str:
    rules = re.sub(r"\s+", " ", rules)
    # A blank before a colon may be a descendant (`nav :focus`); the one after it never means anything.
    rules = re.sub(r" ?([{};,]) ?", r"\1", rules)
    return rules.replace(": ", ":").replace(";}", "}")
