"""How the page opens: from a disk, from a server, in a frame, without scripts, with data that it can't read."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from page_server import server
from report_pages import samples
from report_pages_of_data import Visit, data_of_page, page_of_data, page_of_report

CASE = "tests/home_automation/basics.evalset.json:thermostat_in_bedroom"
STORAGE = ("localStorage", "sessionStorage", "indexedDB", "caches")


def test_page__from_a_file(visit: Visit, tmp_path: Path) -> None:
    watched = "".join(
        f"Object.defineProperty(window, '{name}', {{get() {{ console.error('{name}'); }}}});" for name in STORAGE
    )
    page = visit(page_of_report(tmp_path / "report.html", samples()["failed"]), script=watched)
    assert page.locator("tr.row").count() == 6
    assert page.locator("h1").all_text_contents() == ["✗ Failed: 3 of 6 cases fail (1 crashes)"]
    assert page.locator("template").count() == 1, "the index has left the document, the block has not"
    page.locator(".case-link").first.click()
    page.locator(".case-view h2", has_text="thermostat_in_bedroom").wait_for()
    assert page.locator("template").count() == 0
    assert page.evaluate("document.cookie") == ""


def test_page__from_a_server(visit: Visit, tmp_path: Path) -> None:
    """Without charset in the header, behind a redirect, and in a frame without an origin of its own."""
    html = page_of_report(tmp_path / "report.html", samples()["failed"]).read_bytes()
    fragment = f"#case={quote(CASE, safe='')}"
    frame = f'<!doctype html><iframe sandbox="allow-scripts" src="/report.html{fragment}"></iframe>'
    answers = {
        "/artifact": (302, {"Location": "/report.html"}, b""),
        "/report.html": (200, {"Content-Type": "text/html"}, html),
        "/frame": (200, {"Content-Type": "text/html"}, frame.encode()),
        "/favicon.ico": (204, {}, b""),
    }
    with server(answers) as address:
        also = [f"{address}/report.html", f"{address}/favicon.ico"]
        page = visit(f"{address}/artifact", fragment, also=also)
        assert page.url == f"{address}/report.html{fragment}", "a redirect keeps the fragment"
        page.locator(".case-view h2", has_text="thermostat_in_bedroom").wait_for()
        assert "✗" in page.locator(".case-view h2").inner_text(), "read as UTF-8"
        framed = visit(f"{address}/frame", also=also, ready="iframe").frame_locator("iframe")
        framed.locator(".case-view h2", has_text="thermostat_in_bedroom").wait_for()
        framed.get_by_role("link", name="All cases").click()
        framed.locator("tr.row").first.wait_for()


def test_page__without_scripts(visit: Visit, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["failed"])
    page = visit(path, java_script_enabled=False, ready="main", viewport={"width": 360, "height": 740})
    text = page.locator("main").inner_text()
    assert "3 of 6 cases fail" in text
    assert "thermostat_in_bedroom" in text
    assert page.locator("main").bounding_box()["width"] <= 360


def test_page__data_that_cannot_be_read(visit: Visit, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["failed"])
    index = data_of_page(path)
    old = visit(path, script="delete globalThis.DecompressionStream", ready="[role=alert]").locator("main")
    assert "can't unpack the report" in old.inner_text()
    assert "thermostat_in_bedroom" in old.inner_text(), "the summary is still there"

    newer = page_of_data(tmp_path / "newer.html", index | {"report_data_version": 2})
    assert "unknown version" in visit(newer, ready="[role=alert]").locator("main").inner_text()

    lost = page_of_data(tmp_path / "lost.html", index)
    page = visit(lost, f"#case={quote(CASE, safe='')}")
    assert "details of this case can't be read" in page.locator("main").inner_text()
    page.keyboard.press("Escape")
    page.locator("tr.row").first.wait_for()


def test_page__without_cases_or_details(visit: Visit, tmp_path: Path) -> None:
    invalid = visit(page_of_report(tmp_path / "invalid.html", samples()["invalid"]))
    assert "This run has no cases." in invalid.locator("main").inner_text()
    assert invalid.locator(".problems li").count() == 3
    assert invalid.locator(".problems li").first.inner_text().startswith("✗ error")
    assert invalid.locator("form").count() == 0

    full = page_of_report(tmp_path / "report.html", samples()["failed"])
    index = data_of_page(full)
    sentence = "The conversations of passing cases are left out."
    blocks = [-1] * len(index["cases"]["id"])
    less = index | {"level": 5, "left_out": [sentence], "cases": index["cases"] | {"block": blocks}, "blocks": 0}
    page = visit(page_of_data(tmp_path / "less.html", less))
    assert sentence in page.locator(".summary p").all_inner_texts()
    page.locator(".case-link").first.click()
    page.locator(".case-view h2").wait_for()
