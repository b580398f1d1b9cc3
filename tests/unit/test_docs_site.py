"""The site has every page of docs/, and its links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import site_of_docs

ROOT = Path(__file__).parents[2]


def test_navigation__has_every_page() -> None:
    text = (ROOT / "zensical.toml").read_text("utf-8")
    tomllib.loads(text)

    assert sorted(re.findall(r'"([\w-]+\.md)"', text)) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_outside__leads_to_github() -> None:
    pages = {page.name: site_of_docs.outside(page.read_text("utf-8")) for page in (ROOT / "docs").glob("*.md")}

    assert f"]({site_of_docs.BLOB}README.md)" in pages["README.md"]
    assert [name for name, text in pages.items() if "](../" in text] == []
