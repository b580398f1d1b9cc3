"""What the pages in docs/ contain: tables, codes, code blocks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """The text of a page, e.g. `verdict.md`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What is below a heading, up to the next one of its level or above."""
    begun = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{2,{heading.index(' ')}}} ", begun, maxsplit=1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the first table, without its head."""
    table = re.search(r"(?:^ *\|.*\n)+", text + "\n", re.MULTILINE)
    assert table is not None, f"no table: {text[:80]}"
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table[0].splitlines()[2:]]


def codes(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
