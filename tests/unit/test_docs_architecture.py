"""docs/architecture.md describes the packages as they are, and links between pages lead to headings that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSES = ("agent_eval", "agent_eval_workbench")
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [
    path for folder in (".", "docs", "benchmarks", "tests", "examples") for path in sorted((ROOT / folder).glob("*.md"))
]


def table(house: str) -> str:
    """The table of the packages of a house."""
    return PAGE.partition(f"| in `src/{house}/` |")[2].partition("\n\n")[0]


@pytest.mark.parametrize("house", HOUSES)
def test_package_table__has_a_row_for_every_package(house: str) -> None:
    source = ROOT / "src" / house
    packages = {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    modules = {path.name for path in source.glob("*.py") if not path.name.startswith("__")}

    rows = set(re.findall(r"^\| `([a-z_]+(?:/|\.py))` \|", table(house), re.MULTILINE))
    assert rows == packages | modules, f"the table of packages in docs/architecture.md differs from src/{house}"


@pytest.mark.parametrize("house", HOUSES)
def test_package_table__starts_reading_at_files_that_exist(house: str) -> None:
    rows = re.findall(r"^\| `([a-z_]+/)` \|.*\|(.+)\|$", table(house), re.MULTILINE)

    named = [package + name for package, names in rows for name in re.findall(r"`([a-z_/]+\.py)`", names)]

    assert len(named) > 6
    assert [path for path in named if not (ROOT / "src" / house / path).is_file()] == []


@pytest.mark.parametrize("contract", ["Imports go downwards", "Imports of the workbench go downwards"])
def test_layers__are_those_of_the_import_contract(contract: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(found["layers"] for found in contracts if found["name"] == contract)

    lines = "\n".join("    " + re.sub(r"agent_eval(_workbench)?\.", "", layer) for layer in layers)
    assert f"\n\n{lines}\n\n" in PAGE, f"docs/architecture.md should have:\n{lines}"


def test_file_names__exist() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", PAGE))
    existing = [path.as_posix() for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]

    assert len(named) > 20
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in existing)] == []


def _slugs(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [heading.replace("`", "").lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links__lead_to_files(page: Path) -> None:
    files = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)\s]+)?\)", page.read_text(encoding="utf-8"))
    assert [file for file in files if not (page.parent / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links__lead_to_headings(page: Path) -> None:
    for file, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target = page.parent / file if file else page
        assert anchor in _slugs(target), f"{page.name} links to {file}#{anchor}"
