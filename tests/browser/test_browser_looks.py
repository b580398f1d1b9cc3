"""How list, case and trend look in three scripts at three widths; `test_browser_accessibility.py` has the colours.

Fonts differ between machines, so what is compared are the places of boxes in the browser and, in golden files, what
a screen reader gets. To look at the pictures, and to write the golden files again:

    PICTURES=/tmp/pictures .venv/bin/pytest tests/browser/test_browser_looks.py
    UPDATE_GOLDEN=1 .venv/bin/pytest tests/browser/test_browser_looks.py -k golden
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import pytest
from report_pages_of_data import Visit
from script_samples import SCRIPTS, page_of_script

if TYPE_CHECKING:
    from playwright.sync_api import Page

GOLDEN = Path(__file__).parents[1] / "data" / "golden_views"
SIZES = {360: 740, 900: 900, 1440: 900}
VIEWS = ("list", "case", "trend")
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATIENCE = 20.0
"""Seconds until a page that has another width is drawn: what is wrong for that long stays wrong."""

PROBLEMS = Path(__file__).with_name("looks.js").read_text("utf-8")
BEHIND_HEADER = """() => {
  const problems = [];
  scrollTo(0, document.body.scrollHeight);
  for (const link of [...document.querySelectorAll('.case-link')].reverse()) {
    link.focus();
    const box = link.getBoundingClientRect();
    const top = document.elementFromPoint((box.left + box.right) / 2, box.top + 2);
    if (!link.contains(top)) problems.push(`covered by ${top?.outerHTML.slice(0, 100)}: ${link.textContent}`);
  }
  scrollTo(0, 0);
  return problems;
}"""


def settled(page: Page, function: str, *arguments: str) -> list[str]:
    """The problems that stay: a page draws itself again in the frames after a change of its width."""
    deadline = time.monotonic() + PATIENCE
    while (problems := page.evaluate(function, *arguments)) and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    return list(problems)


def read(page: Page) -> str:
    """What a screen reader gets, as YAML."""
    return str(page.locator("body").aria_snapshot()) + "\n"


@pytest.mark.parametrize("script", SCRIPTS)
def test_page__looks(visit: Visit, tmp_path: Path, script: str) -> None:
    path = tmp_path / "report.html"
    case = page_of_script(path, script)
    problems = []
    for view, fragment in zip(VIEWS, ("", f"#case={quote(case, safe='')}", "#trend"), strict=True):
        page = visit(path, fragment, ready=f"body[data-view={view}]")
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            found = settled(page, PROBLEMS, fragment)
            if view == "list":
                found += settled(page, BEHIND_HEADER)
            problems += [f"{view}, {width} px: {text}" for text in found]
            for theme in THEMES if (folder := os.environ.get("PICTURES")) else ():
                page.emulate_media(color_scheme=theme)
                page.screenshot(path=f"{folder}/{view}-{script}-{theme}-{width}.png")
    assert not problems, "\n".join(problems)


def test_page__golden_for_screen_readers(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    case = page_of_script(path, "arabic")
    # How many of the rows are drawn depends on heights: two are always.
    fragments = ("#q=-status:passed", f"#case={quote(case, safe='')}", "#trend")
    for view, fragment in zip(VIEWS, fragments, strict=True):
        page = visit(path, fragment, ready=f"body[data-view={view}]", locale="en-US", timezone_id="UTC")
        golden = GOLDEN / f"{view}-arabic.yaml"
        if os.environ.get("UPDATE_GOLDEN"):
            page.wait_for_timeout(2_000)  # What is announced comes later.
            golden.write_text(read(page), encoding="utf-8", newline="\n")
        expected = golden.read_bytes().decode("utf-8")
        deadline = time.monotonic() + PATIENCE
        while (snapshot := read(page)) != expected and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        assert snapshot == expected
    assert len(list(GOLDEN.iterdir())) == len(VIEWS)


BREAK = """() => {
  const break_ = (selector, style) => Object.assign(document.querySelector(selector).style, style);
  break_('html', { scrollPaddingTop: '0' });
  break_('.bar nav a', { width: '9rem', marginInlineEnd: '-6rem' });
  break_('tr.row .c-why', { display: 'block', overflow: 'visible', whiteSpace: 'nowrap', width: '2rem' });
  break_('.c-why .sub', { direction: 'ltr' });
  for (const text of document.querySelectorAll('.c-why :is(.said, .sub)')) text.style.overflow = 'visible';
  break_('.search .button', { width: '2rem', overflow: 'hidden' });
  break_('tr.row', { height: '1.5rem' });
  break_('.metrics', { width: '120rem' });
  const name = document.querySelector('.metrics tbody tr:last-child .foreign');
  name.className = '';
  name.removeAttribute('dir');
}"""


def test_looks__notices_what_is_wrong(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    page_of_script(path, "arabic")
    page = visit(path)
    assert settled(page, PROBLEMS, "") == []
    page.evaluate(BREAK)
    problems = page.evaluate(PROBLEMS, "#other") + page.evaluate(BEHIND_HEADER)
    kinds = {text.split(":")[0].split(" <")[0] for text in problems}
    assert kinds >= {
        "another page",
        "the page scrolls to the side",
        "cut at the side",
        "cut below",
        "no way to read the rest",
        "leaves its box",
        "overlaps",
        "covered by",
        "no direction of its own",
        "not rtl",
    }
