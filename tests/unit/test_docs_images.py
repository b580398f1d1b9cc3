"""The script that makes the pictures of docs/images still runs; what they show is held by the golden files."""

from __future__ import annotations

import runpy
from pathlib import Path

from markdown_pages import rendered

SCRIPT = Path(__file__).parents[2] / "docs/images/render.py"


def test_the_pictures_can_be_made(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    for name, (markdown, _) in script["pages"]().items():
        assert (SCRIPT.parent / f"{name}.png").exists()
        assert rendered(markdown).tags[0] == "h2"
        assert "<details" in script["page"](markdown)
    script["draw"](tmp_path / "console.svg")
    assert "thermostat_in_bedroom" in (tmp_path / "console.svg").read_text("utf-8").replace("&#160;", " ")
