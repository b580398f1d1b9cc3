"""How the page opens: from a disk, from a server, in a frame, without scripts, with data that it can't read."""

from __future__ import annotations

from pathlib import Path

from report_pages import samples
from report_pages_of_data import Visit, page_of_report


def test_page__from_a_file(visit: Visit, tmp_path: Path) -> None:
    page = visit(page_of_report(tmp_path / "report.html", samples()["failed"]))
    assert page.locator("tr.row").count() == 6
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.cookie + document.querySelectorAll('template').length") == "1"
