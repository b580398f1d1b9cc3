"""The script for the pictures in docs/images runs; golden files cover their content."""

from __future__ import annotations

import runpy
from pathlib import Path

from markdown_pages import rendered

SCRIPT = Path(__file__).parents[2] / "docs/images/render.py"


def test_render__makes_every_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    for name, (markdown, _) in script["pages"]().items():
        assert (SCRIPT.parent / f"{name}.png").exists()
        assert rendered(markdown).tags[0] == "h2"
        assert "<details" in script["page"](markdown)
    script["draw"](tmp_path / "console.svg")
    assert "thermostat_in_bedroom" in (tmp_path / "console.svg").read_text("utf-8").replace("&#160;", " ")
