"""How the page looks and reads: in three scripts at three widths, to axe and a screen reader, with hostile texts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import pytest
from case_samples import agents_case, cause, errored_case, index_of, lamp_case, trend_of
from chromium import STILL, check_view, until, watch
from hostile_samples import AUDIT, CORPUS, NAUGHTY, OVERFLOWING, VIEWS, forbidden, page_of_text
from report_pages import samples
from report_pages_of_data import Visit, data_of_page, page_of_data, page_of_report
from script_samples import SCRIPTS, page_of_script

from agent_eval_results.report.views import visible

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


# How list, case and trend look in three scripts at three widths; `test_browser_accessibility.py` has the colours.
#
# Fonts differ between machines, so what is compared are the places of boxes in the browser and, in golden files, what
# a screen reader gets. To look at the pictures:
#
# PICTURES=/tmp/pictures .venv/bin/pytest tests/browser/test_browser_looks.py


SIZES = {360: 740, 900: 900, 1440: 900}
PICTURED = ("list", "case", "trend")
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


@pytest.mark.parametrize("script", SCRIPTS)
def test_page__looks(visit: Visit, tmp_path: Path, script: str) -> None:
    path = tmp_path / "report.html"
    case = page_of_script(path, script)
    problems = []
    for view, fragment in zip(PICTURED, ("", f"#case={quote(case, safe='')}", "#trend"), strict=True):
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


BREAK = """() => {
  const styles = {
    html: 'scroll-padding-top: 0',
    '.bar nav a': 'width: 9rem; margin-inline-end: -6rem',
    'tr.row .c-why': 'display: block; overflow: visible; white-space: nowrap; width: 2rem',
    '.c-why .sub': 'direction: ltr',
    '.c-why :is(.said, .sub)': 'overflow: visible',
    '.search .button': 'width: 2rem; overflow: hidden',
    'tr.row': 'height: 1.5rem',
    '.metrics': 'width: 120rem',
  };
  for (const [selector, style] of Object.entries(styles)) {
    for (const element of document.querySelectorAll(selector)) element.style.cssText += style;
  }
  const name = document.querySelector('.metrics tbody tr:last-child .foreign');
  name.className = '';
  name.removeAttribute('dir');
}"""
KINDS = {"another page", "the page scrolls to the side", "cut at the side", "cut below", "no way to read the rest"}
KINDS |= {"leaves its box", "overlaps", "covered by", "no direction of its own", "not rtl", "outside of the window"}


def test_looks__notices_each_kind_of_what_is_wrong(visit: Visit, tmp_path: Path) -> None:
    page_of_script(tmp_path / "report.html", "arabic")
    page = visit(tmp_path / "report.html")
    assert settled(page, PROBLEMS, "") == []
    page.evaluate(BREAK)
    problems = page.evaluate(PROBLEMS, "#other") + page.evaluate(BEHIND_HEADER)
    assert {text.split(":")[0].split(" <")[0] for text in problems} >= KINDS


def test_page__golden_for_screen_readers(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    case = page_of_script(path, "arabic")
    # How many of the rows are drawn depends on heights: two are always.
    fragments = ("#q=-status:passed", f"#case={quote(case, safe='')}", "#trend")
    for view, fragment in zip(PICTURED, fragments, strict=True):
        options: dict[str, Any] = {"script": STILL, "locale": "en-US", "timezone_id": "UTC"}
        page = visit(path, fragment, ready=f"body[data-view={view}]", **options)
        check_view(page, f"{view}-arabic", "body" if view == "list" else "main")


# WCAG 2.2 AA by axe-core, in both themes and in forced colours; and the page by keyboard only, narrow and zoomed.


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


# Texts of agents, models and eval files in every field of the page: they are shown, and do nothing.


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


def test_chromium__notices_what_no_page_may_do(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "naughty.html"
    path.write_text(NAUGHTY, "utf-8")
    page, incidents = browser.new_page(), list[str]()
    watch(page, {path.as_uri()}, incidents)
    page.goto(path.as_uri())
    deadline = time.monotonic() + 20
    while {incident.partition(":")[0] for incident in incidents} < {"request", "console", "dialog", "popup", "error"}:
        assert time.monotonic() < deadline, incidents
        page.wait_for_timeout(50)
    page.close()
