"""Texts of agents, models and eval files in every field of the page: they are shown, and do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from hostile_samples import AUDIT, CORPUS, OVERFLOWING, VIEWS, forbidden, page_of_text
from report_pages import samples
from report_pages_of_data import Visit, data_of_page, page_of_report

from agent_eval.report.views import visible

if TYPE_CHECKING:
    from playwright.sync_api import Page


def audited(page: Page) -> set[str]:
    """The names of all elements; no attribute acts, and no link leads elsewhere."""
    items = set(page.evaluate(AUDIT))
    assert not forbidden(items)
    assert not page.evaluate(OVERFLOWING), "the layout holds"
    return {item for item in items if item.startswith("tag ")}


def opened(visit: Visit, path: Path, text: str) -> dict[str, set[str]]:
    """The elements of each view of a page with this text in every field."""
    ids = page_of_text(path, text)
    page = visit(path, viewport={"width": 900, "height": 900})
    elements = {}
    for view in VIEWS:
        fragment = f"#case={quote(ids[0], safe='')}" if view == "case" else f"#{view}"
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        page.locator(f"body[data-view={view}]").wait_for()
        elements[view] = audited(page)
        shown = page.locator("main").evaluate("main => main.textContent")
        assert text in shown or view in ("about", "trend"), "the text itself"
    assert page.url.split("#")[0] == path.as_uri(), "no navigation"
    return elements


def test_page__hostile_text_in_every_field(visit: Visit, tmp_path: Path) -> None:
    harmless = set[str]()
    for number, text in enumerate(("harmless", "harmless " * 80, "x" * 600)):
        harmless.update(*opened(visit, tmp_path / f"harmless-{number}.html", text).values())
    for number, text in enumerate(CORPUS):
        for elements in opened(visit, tmp_path / f"{number}.html", visible(text)).values():
            assert elements <= harmless, "no element that a harmless text does not have"


def test_page__hostile_report(visit: Visit, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["hostile"])
    ids = data_of_page(path)["cases"]["eval_id"]
    page = visit(path, viewport={"width": 360, "height": 740})
    names = page.locator("tr.row .case-link").evaluate_all("links => links.map((link) => link.textContent)")
    assert sorted(names) == sorted(ids)
    audited(page)
    without = visit(path, java_script_enabled=False, ready="main", viewport={"width": 360, "height": 740})
    assert "<img src=x onerror=alert(1)>" in without.locator("main").inner_text()
    assert without.locator("img").count() == 0
