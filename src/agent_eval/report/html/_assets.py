"""The page's own script and style, joined from the files of this package. No build step, no dependency,
and not minified: a reader of the page's source sees what it does. Only what documents types is left out.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources

SCRIPTS = (
    *("dom.js", "data.js", "search.js", "diff.js", "timeline.js", "graph.js", "trend.js"),
    *("values.js", "turns.js", "scores.js", "case.js"),
    *("overview.js", "table.js", "list.js", "keys.js", "print.js", "main.js"),
)
"""In the order in which they are joined: each uses what those before it declare."""
STYLES = ("app.css", "case.css", "print.css")
BUDGET = 181_000
"""Bytes of script and style together."""
_COMMENT = r"/\*\*(?:(?!\*/).)*\*/"
_JSDOC = re.compile(rf"^ *{_COMMENT}\n|{_COMMENT} ?", re.MULTILINE | re.DOTALL)


@functools.cache
def script() -> str:
    """The script: one function in strict mode, so that nothing becomes global."""
    return f'(() => {{\n"use strict";\n{_JSDOC.sub("", _joined(SCRIPTS))}}})();\n'


@functools.cache
def style() -> str:
    """The style sheet."""
    return _joined(STYLES)


def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("agent_eval.report.html")
    return "\n".join(folder.joinpath(name).read_text("utf-8") for name in names)


def policy() -> str:
    """The Content-Security-Policy: our script and our style by hash, inline pictures, and nothing else.

    Where a browser knows Trusted Types, text can't become markup either.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script())}'",
            f"style-src '{_hash(style())}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
