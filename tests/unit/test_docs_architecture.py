"""docs/architecture.md draws the house as it is, and links between pages lead to headings that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agent_eval"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("*/README.md"))]


def test_every_room_has_a_row() -> None:
    rooms = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}

    told = set(re.findall(r"^\| `([a-z_]+(?:/|\.py))` \|", PAGE, re.MULTILINE))
    assert told == rooms | modules, "the table of rooms in docs/architecture.md differs from src/agent_eval"


def test_each_room_begins_where_the_page_says() -> None:
    rows = re.findall(r"^\| `([a-z_]+/)` \|.*\|(.+)\|$", PAGE, re.MULTILINE)

    missing = [room + name for room, names in rows for name in re.findall(r"`([a-z_]+\.py)`", names)]
    missing = [path for path in missing if not (SOURCE / path).is_file()]

    assert rows
    assert missing == []


def test_the_layers_are_those_of_the_import_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [one["layers"] for one in contract["contracts"] if one["type"] == "layers"]

    line = " > ".join(layer.removeprefix("agent_eval.") for layer in layers)
    assert f"\n    {line}\n" in PAGE, f"docs/architecture.md should have the line: {line}"


def test_the_files_that_it_names_exist() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", PAGE))
    known = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}

    assert len(named) > 20
    assert {name for name in named if not (SOURCE / name).is_file() and name not in known} == set()


def _slugs(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [heading.replace("`", "").lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_headings_lead_somewhere(page: Path) -> None:
    for file, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target = page.parent / file if file else page
        assert anchor in _slugs(target), f"{page.name} links to {file}#{anchor}"
