"""The site has every page of docs/, and its links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import site_of_docs

from agent_eval.core.problem import docs_page

ROOT = Path(__file__).parents[2]


def test_navigation__has_every_page() -> None:
    text = (ROOT / "zensical.toml").read_text("utf-8")
    tomllib.loads(text)

    assert sorted(re.findall(r'"([\w-]+\.md)"', text)) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_site__asks_no_other_host() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]

    assert project["theme"]["font"] is False
    assert "repo_url" not in project, "each page would ask api.github.com for stars and the latest release"
    drawn = [page.name for page in (ROOT / "docs").glob("*.md") if "```mermaid" in page.read_text("utf-8")]
    assert drawn == [], "the page would load the renderer from unpkg.com"


def test_outside__leads_to_github() -> None:
    pages = {page.name: site_of_docs.outside(page.read_text("utf-8")) for page in (ROOT / "docs").glob("*.md")}

    assert f"]({site_of_docs.BLOB}README.md)" in pages["README.md"]
    assert [name for name, text in pages.items() if "](../" in text] == []


def test_docs_page__names_pages_that_exist() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"""docs_page\(["']([\w-]+)["']\)""", source))

    assert re.fullmatch(r"https://[\w-]+\.github\.io/[\w-]+/security/", docs_page("security"))
    assert len(named) >= 8
    assert [name for name in named if not (ROOT / "docs" / f"{name}.md").exists()] == []
