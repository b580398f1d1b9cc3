"""A second browser, where there is one: the list, a case, the search, the ways to open the page, hostile texts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from firefox import ENTER, ESCAPE, PATIENCE, Firefox, started
from hostile_samples import AUDIT, CORPUS, NAUGHTY, OVERFLOWING, VIEWS, forbidden, page_of_text
from report_pages import samples
from report_pages_of_data import CASE_VIEW, page_of_report, served_page

from agent_eval_results.report.views import visible


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    with started(tmp_path_factory.mktemp("firefox")) as firefox:
        yield firefox


@pytest.fixture
def firefox(session: Firefox) -> Iterator[Firefox]:
    """Firefox; at the end of the test, nothing may have happened that a report must not do."""
    session.incidents.clear()
    yield session
    session.evaluate("() => null")  # What it sent before the answer has been read.
    assert not session.incidents, "\n".join(session.incidents)


INCIDENTS = {"request: http://127.0.0.1:65000/b", "console: logged", "dialog: spoken", "another page: about:blank"}
INCIDENTS |= {"console: Error: thrown"}


def test_firefox__notices_what_no_page_may_do(tmp_path: Path) -> None:
    path = tmp_path / "naughty.html"
    path.write_text(NAUGHTY, "utf-8")
    # A session of its own: Firefox completes neither this page, whose script has opened another, nor the next one.
    (tmp_path / "profile").mkdir()
    with started(tmp_path / "profile") as session:
        session.open(path.as_uri(), wait="none")
        deadline = time.monotonic() + PATIENCE
        while not set(session.incidents) >= INCIDENTS:
            assert time.monotonic() < deadline, session.incidents
            session.evaluate("() => null")
            time.sleep(0.05)


def test_page__in_firefox(firefox: Firefox, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["failed"])
    firefox.open(path.as_uri())
    firefox.until("document.querySelectorAll('body[data-view=list] tr.row').length === 6")
    assert firefox.text("h1").endswith("3 of 6 cases fail (1 crashes)")

    firefox.type("/")
    firefox.until("document.activeElement.id === 'search'")
    firefox.type("status:failed")
    firefox.until("location.hash === '#q=status%3Afailed' && document.querySelectorAll('tr.row').length === 3")
    assert firefox.text(".result") == "3 of 6 cases"
    firefox.open(f"{path.as_uri()}#q=status:failed&sort=-seconds")
    firefox.until("document.querySelector('[aria-sort=descending]')")
    assert firefox.evaluate("() => document.querySelectorAll('tr.row').length") < 6

    firefox.evaluate("() => document.activeElement.blur()")
    firefox.type("j" + ENTER)
    firefox.until("document.querySelector('body[data-view=case] .case-view h2')")
    firefox.type("r" + ESCAPE)
    firefox.until("document.body.dataset.view === 'list' && document.activeElement.matches('.case-link')")
    firefox.type(ENTER)
    firefox.until("document.querySelector('body[data-view=case] .case-view h2')")


def test_page__from_a_server_in_firefox(firefox: Firefox, tmp_path: Path) -> None:
    heading = "document.querySelector('.case-view h2')?.innerText.includes('thermostat_in_bedroom')"
    with served_page(tmp_path) as server:
        also = [f"{server.url}/report.html", f"{server.url}/favicon.ico"]
        firefox.open(f"{server.url}/artifact{CASE_VIEW}", also=also)
        firefox.until(heading)
        assert firefox.evaluate("() => location.href") == f"{server.url}/report.html{CASE_VIEW}"
        assert "✗" in firefox.text(".case-view h2"), "read as UTF-8"
        firefox.open(f"{server.url}/frames", also=also)
        firefox.until(heading, frame=0)
        static = firefox.text("main", frame=1)
        assert "3 of 6 cases fail" in static
        assert "thermostat_in_bedroom" in static
        assert "need JavaScript" in static


def test_page__hostile_text_in_firefox(firefox: Firefox, tmp_path: Path) -> None:
    for number, text in enumerate(CORPUS):
        path = tmp_path / f"{number}.html"
        ids = page_of_text(path, visible(text))
        firefox.open(path.as_uri(), width=900)
        for view in VIEWS:
            fragment = f"#case={quote(ids[0], safe='')}" if view == "case" else f"#{view}"
            firefox.evaluate("(fragment) => { location.hash = fragment; }", fragment)
            firefox.until(f"document.body.dataset.view === '{view}'")
            assert not forbidden(firefox.evaluate(AUDIT))
            assert not firefox.evaluate(OVERFLOWING)
        assert visible(text) in firefox.evaluate("() => document.querySelector('main').textContent")
        assert firefox.evaluate("() => location.href.split('#')[0]") == path.as_uri(), "no navigation"
