"""Texts of agents, models and eval files in every field of the page: they are shown, and do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from case_samples import agents_case, errored_case, index_of, lamp_case, older_case
from report_pages import samples
from report_pages_of_data import Visit, data_of_page, page_of_data, page_of_report

from agent_eval.report.views import visible

if TYPE_CHECKING:
    from playwright.sync_api import Page

CORPUS = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)><iframe srcdoc='<script>alert(4)'>",
    "</template></script></style></title><!--<base href='https://evil.example/'><meta http-equiv=refresh content=0>",
    "javascript:alert(5)",
    "https://evil.example/x.png ![x](https://evil.example/y.png) [z](javascript:alert(6)) data:text/html,<script>",
    "\x1b[2J\x1b]0;title\x07\u202ereversed\u202c zero\u200bwidth \x00 \ud800 \ufffe & &amp; &lt;b&gt;",
    "ا" * 40 + " עברית " + "a\u0301" * 100 + " 漢字" * 30 + " x" + "y" * 500,
    "${alert(7)} {{alert(8)}} '\"` \\ \u2028 \u2029 __proto__ constructor",
)
"""Each is put into every field."""

KEPT = frozenset(
    {"verdict", "status", "change", "direction", "kind", "side", "key", "severity", "mime", "data", "tags"}
)
"""Fields whose values are words of the format, not texts."""
AUDIT = """() => [...document.querySelectorAll('*')].flatMap((element) => [
  'tag ' + element.localName,
  ...element.getAttributeNames().filter((name) => /^on|^src/.test(name)).map((name) => 'attribute ' + name),
  ...(/url|expression/.test(element.getAttribute('style')) ? ['style ' + element.getAttribute('style')] : []),
  ...(element.hasAttribute('href') ? ['link ' + element.getAttribute('href')] : []),
])"""
OVERFLOWING = """() => {
  const scrolls = (element) => getComputedStyle(element).overflowX !== 'visible';
  const isClipped = (element) => element && (scrolls(element) || isClipped(element.parentElement));
  return document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('main *')].filter(
    (element) => element.getBoundingClientRect().right > innerWidth && !isClipped(element.parentElement)
  ).map((element) => `${location.hash} ${element.outerHTML.slice(0, 200)}`).slice(0, 3);
}"""
VIEWS = ("list", "about", "trend", "print", "case")


def poisoned(value: Any, text: str, name: str = "") -> Any:
    """The same data with a text in place of each text."""
    if isinstance(value, Mapping):
        return {key: poisoned(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, name) for item in value]
    return text if isinstance(value, str) and name not in KEPT else value


def audited(page: Page) -> set[str]:
    """The names of all elements; no attribute acts, and no link leads elsewhere."""
    items = set(page.evaluate(AUDIT))
    for item in items:
        kind, value = item.split(" ", 1)
        assert kind in ("tag", "link"), item
        assert kind == "tag" or value.startswith(("#", "https://github.example/", "https://github.com/org/")), value
    assert not page.evaluate(OVERFLOWING), "the layout holds"
    return {item for item in items if item.startswith("tag ")}


def opened(visit: Visit, path: Path, text: str) -> dict[str, set[str]]:
    """The elements of each view of a page with this text in every field."""
    cases = [lamp_case(), agents_case(), errored_case(), older_case()]
    index = index_of(cases, {"branch": "main", "rows": [], "notes": [], "drift": ["x"], "head": None})
    index["header"] |= {
        "problems": [{"severity": "error", "code": "x", "message": "x", "hint": "x", "file": "x", "line": 3}],
        "notices": ["x"],
        "reasons": ["x"],
        "baseline": {"sentence": "x", "url": "x"},
    }
    ids = [f"{text} {place}" for place in range(len(cases))]
    address = {"source_url": index["header"]["source_url"]}
    server = {"run_url": index["header"]["origin"]["run_url"]}
    index = poisoned(index, text)
    index["header"] |= address  # The run's own addresses are not from elsewhere.
    index["header"]["origin"] |= server
    index["cases"]["id"] = ids
    blocks = [{"cases": [poisoned(item, text) | {"id": name} for item, name in zip(cases, ids, strict=True)]}]
    page = visit(page_of_data(path, index, blocks), viewport={"width": 900, "height": 900})
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
