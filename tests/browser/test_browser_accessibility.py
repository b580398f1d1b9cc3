"""WCAG 2.2 AA by axe-core, in both themes and in forced colours; and the page by keyboard only, narrow and zoomed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from case_samples import agents_case, cause, errored_case, index_of, lamp_case, trend_of
from chromium import until
from report_pages import samples
from report_pages_of_data import Visit, page_of_data, page_of_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
MODES: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "dark", "forced_colors": "active"},
    {"color_scheme": "light", "viewport": {"width": 320, "height": 640}},
)
"""The last one is a window of 1280 pixels at a zoom of 400%."""
SUMMARY = """async (rules) => (await axe.run(document, {
  runOnly: rules,
  // On paper, each case has sections of the same names.
  rules: {'landmark-unique': {enabled: location.hash !== '#print'}},
})).violations.flatMap(
  (violation) => violation.nodes.map((node) => `${violation.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""

WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
  .filter((element) => element.getBoundingClientRect().right > innerWidth)
  .map((element) => `${Math.round(element.getBoundingClientRect().right)} ${element.outerHTML.slice(0, 150)}`)"""
AT_FOCUS = """() => {
  const element = document.activeElement;
  const box = element.getBoundingClientRect();
  return {
    place: ['.views', '.tools', '.counts', '.search', '.cases-table'].find((place) => element.closest(place)) ?? '',
    isCase: element.matches('.case-link'),
    isVisible: element.matches('.case-link') || getComputedStyle(element).outlineStyle !== 'none',
    isLarge: box.height >= 16 && box.width >= 16,
  };
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = [lamp_case(), agents_case(), errored_case()]
    index = index_of(cases, trend_of(9))
    index["causes"], index["header"]["warnings"] = [cause(1, cases[0]["id"])], ["The base branch's runs are old."]
    return page_of_data(tmp_path_factory.mktemp("page") / "report.html", index, [{"cases": cases}])


def violations(page: Page) -> list[str]:
    return [f"{page.url}: {text}" for text in page.evaluate(SUMMARY, RULES)]


@pytest.mark.parametrize("mode", MODES, ids=("light", "dark", "forced", "zoomed"))
def test_page__no_violation(visit: Visit, path: Path, tmp_path: Path, axe: str, mode: dict[str, Any]) -> None:
    page = visit(path, script=axe, **mode)
    case = f"case={quote(lamp_case()['id'], safe='')}"
    violated = violations(page)
    for view, fragment in (("case", case), *((name, name) for name in ("trend", "about", "print")), ("list", "q=zz")):
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        page.locator(f"body[data-view={view}]").wait_for()
        violated += violations(page)
        assert page.evaluate(WIDE) == [], f"{view}: no scrolling in two ways"
    page.get_by_role("button", name="Help").click()
    violated += violations(page)
    assert not violated, "\n".join(violated)


def test_page__without_cases_no_violation(visit: Visit, tmp_path: Path, axe: str) -> None:
    path = page_of_report(tmp_path / "invalid.html", samples()["invalid"])
    assert violations(visit(path, script=axe)) == []
    without = visit(path, script=f"delete globalThis.DecompressionStream; {axe}", ready="[role=alert]")
    assert violations(without) == []


def test_page__by_keyboard_only(visit: Visit, tmp_path: Path) -> None:
    page = visit(page_of_report(tmp_path / "report.html", samples()["failed"]))
    order: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        at = page.evaluate(AT_FOCUS)
        assert at["isVisible"], "the focus can be seen"
        assert at["isLarge"]
        order.append(at["place"])
        if at["isCase"]:
            break
    expected = [".views", ".tools", ".counts", ".search", ".cases-table"]
    assert [place for i, place in enumerate(order) if place and place not in order[:i]] == expected
    page.keyboard.press("Enter")
    page.locator("body[data-view=case]").wait_for()
    assert page.evaluate("document.activeElement.localName") == "main", "the case follows"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("body[data-view=list]").wait_for()
    until(page, "document.activeElement.matches('.case-link')")
