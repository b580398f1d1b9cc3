"""What a reviewer asks of the page, each from the opened list, with the number of clicks that the answer takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from case_samples import case, cause, evidence, index_of, lamp_case, metric, run, run_score, trend_of, turn
from chromium import until
from report_pages import samples
from report_pages_of_data import Visit, page_of_data, page_of_report

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PRINTS = "window.printed = 0; window.print = () => { window.printed += 1; };"
KEYBOARD = "main a, main button, main input, main select, main summary, main [tabindex='0']"


class Reader:
    """A reviewer in front of the opened list, whose clicks and keys are counted."""

    def __init__(self, page: Page) -> None:
        """Has done nothing yet."""
        self.page = page
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """One click on what is in sight, or on what scrolling brings there."""
        target.click()
        self.clicks += 1

    def open(self, name: str) -> None:
        """A click on a row of the list."""
        self.click(self.page.locator("tr.row", has_text=name).get_by_role("link").first)
        self.page.locator("article").wait_for()

    def sees(self, *texts: str) -> bool:
        """Whether the page shows each text, not folded away."""
        shown = " ".join(self.page.locator("body").inner_text().split())
        return all(text in shown for text in texts)


def cases() -> list[dict[str, Any]]:
    """Two failing cases with one cause, one that is flaky, and a judged one that passes with a weak turn."""
    failing = lamp_case()
    other = lamp_case() | {"id": "evals/home.test.json:fan"}
    calm = turn("Hello.", [], "Hello.", align=[])
    coin = case(
        "evals/home.test.json:coin",
        [run("head:0", "failed", [calm]), run("head:1", "passed", [calm])],
        history={"outcomes": "1011", "records": [{}] * 4, "scores": {}, "sentence": "failed 1 of 4 runs"},
    )
    vote = {"turn": 1, "verdict": "valid", "score": 1.0, "text": "It says what was found.", "rubric": None}
    score = run_score("head:0", "passed", 0.8, votes=[vote, vote], evidence=[evidence(1, 0.4, "few words")])
    judged = case(
        "evals/home.test.json:judged",
        [run("head:0", "passed", [calm, turn("Lamp on.", [], "No lamp.", align=[]), calm])],
        expected=[calm, turn("Lamp on.", [], "The lamp is on."), calm],
        metrics=[metric("final_response_match_v2", "passed", 0.8, 0.6, judge="flash", runs=[score])],
    )
    return [failing, other, coin, judged]


@pytest.fixture
def reader(visit: Visit, tmp_path: Path) -> Reader:
    made = cases()
    index = index_of(made, trend_of(10))
    index["cases"]["group"] = [0, 0, 1, 2]
    index["cases"]["tags"] = [["blocking", "regression"], ["blocking", "regression"], ["flaky"], []]
    index["cases"]["why"][3] = "turn 2 of 3: final_response_match_v2 0.40, below 0.60"
    index["header"]["next"].append({"text": "lamp", "file": "evals/home.test.json", "line": 6, "run": False})
    index["header"]["baseline"] = {"sentence": "", "url": None, "name": "main", "commit": "", "commit_url": None}
    index["causes"] = [cause(2, made[0]["id"])]
    path = page_of_data(tmp_path / "report.html", index, [{"cases": made}])
    return Reader(visit(path, script=PRINTS, viewport={"width": 1280, "height": 860}))


def turn_and_response(reader: Reader) -> None:
    reader.open("lamp")
    assert reader.page.locator(".turn details[open]").get_attribute("data-turn") == "2"
    assert reader.sees('returned {"devices": []}', "✗ set_device not called")


def weak_turn_of_a_passing_case(reader: Reader) -> None:
    assert reader.sees("turn 2 of 3: final_response_match_v2 0.40, below 0.60")
    reader.open("judged")
    assert reader.page.locator(".turn details[open]").get_attribute("data-turn") == "2"
    assert reader.sees(
        "▾ final_response_match_v2 0.40, needs 0.60", "No lamp.", "final_response_match_v2 0.40 few words"
    )


def answer_of_the_base(reader: Reader) -> None:
    reader.open("lamp")
    answer = reader.page.locator(".turn details[open] tr.answers .side-base").inner_text()
    assert answer.strip().endswith("The lamp in the living room is on.")
    chosen = reader.page.get_by_role("group", name="base").get_by_role("button")
    assert " ".join(chosen.inner_text().split()) == "run 1 ✓ passed"


def flaky(reader: Reader) -> None:
    row = reader.page.locator("tr.row", has_text="coin")
    assert row.locator(".c-runs").inner_text().split() == ["1/2"]
    assert reader.sees("No shared cause 1 case, flaky")
    assert "Last 4 runs, " in str(row.get_by_role("img").last.get_attribute("aria-label"))


def shared_cause(reader: Reader) -> None:
    assert reader.sees(
        'Cause 1: find_devices returned {"devices": []} 2 cases, regression',
        "In 2 of 2 failing cases",
        "home/tools.py:42-47",
    )


def cases_of_a_cause(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("button", name="Show these 2"))
    until(reader.page, "document.querySelectorAll('tr.row').length === 2")


def link_to_a_turn(reader: Reader) -> None:
    reader.open("lamp")
    reader.clicks = 0  # The turn is in front of the reader now.
    reader.click(reader.page.get_by_role("link", name="Link to turn 2"))
    until(reader.page, "location.hash.endsWith('lamp&run=head%3A0&turn=2')")
    assert reader.page.evaluate(
        "document.querySelector('[data-target] summary, [data-target] a').closest('.turn.to') !== null"
    )


def only_regressions(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("button", name=re.compile("2 regressions")))
    until(reader.page, "document.querySelector('.result').textContent === '2 of 4 cases'")


def judge(reader: Reader) -> None:
    reader.open("judged")
    assert reader.sees("valid final_response_match_v2", "2 of 2 votes, turn 2", "It says what was found.")


def dissenting_judge(reader: Reader) -> None:
    reader.open("lamp")
    assert reader.sees("1 dissenting vote", "Honest about what it found.", "The reference says that the lamp is on.")


def next_step(reader: Reader) -> None:
    reader.click(reader.page.locator(".next").get_by_role("link", name="lamp"))
    reader.page.locator("article[aria-label$=lamp]").wait_for()


def cost(reader: Reader) -> None:
    assert reader.sees("$0.42", "agent $0.40, judges $0.02", "1,280")


def trend(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="Trend"))
    reader.page.locator(".chart svg").first.wait_for()
    assert reader.sees("pass rate", "The same numbers, newest first")


def print_it(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="Print"))
    reader.page.locator(".print-view .turn").first.wait_for()
    until(reader.page, "window.printed === 1")
    reader.page.emulate_media(media="print")
    assert reader.page.locator("article").count() == 3
    assert reader.sees("I could not find a lamp in the living room.")


def keyboard(reader: Reader) -> None:
    press = reader.page.keyboard.press
    for key in ("j", "j", "Enter"):
        press(key)
    until(reader.page, "document.querySelector('article')?.getAttribute('aria-label')?.endsWith('fan')")
    press("r")
    until(reader.page, "location.hash.includes('run=head%3A1')")
    press("Escape")
    until(reader.page, "document.activeElement.textContent === 'fan'")
    everything = reader.page.locator(KEYBOARD).evaluate_all(
        "all => all.filter((one) => one.tabIndex < 0 && !one.hidden).map((one) => one.outerHTML)"
    )
    assert everything == [], "all controls can be reached"


def screen_reader(reader: Reader) -> None:
    tree = reader.page.locator("body").aria_snapshot()
    for words in (
        'heading "Failed : 1 regression vs. main" [level=1]',
        'link "home/tools.py:42-47"',
        "term: Cost",
        'button "2 regressions"',
        'rowheader "Cause 1: find_devices returned {\\"devices\\": []} 2 cases, regression"',
        'link "lamp"',
        "2/4 main 10/10",
        "Last 6 runs, 2026-11-18 to 2026-11-23: 1 failed, 3 passed, 1 broke off, 1 unknown",
    ):
        assert words in tree, tree


NARROW = "document.documentElement.scrollWidth <= innerWidth"
"""Nothing widens the page."""


def narrow(reader: Reader) -> None:
    for width in (320, 360, 640):  # 640: a zoom of 200% of 1280.
        reader.page.set_viewport_size({"width": width, "height": 740})
        until(reader.page, NARROW)
    reader.open("lamp")
    assert reader.sees('returned {"devices": []}', "✗ not called")
    until(reader.page, NARROW)


ZERO, ONE = 0, 1


@pytest.mark.parametrize(
    ("task", "clicks"),
    [
        (turn_and_response, ONE),
        (weak_turn_of_a_passing_case, ONE),
        (answer_of_the_base, ONE),
        (flaky, ZERO),
        (shared_cause, ZERO),
        (cases_of_a_cause, ONE),
        (link_to_a_turn, ONE),
        (only_regressions, ONE),
        (next_step, ONE),
        (judge, ONE),
        (dissenting_judge, ONE),
        (cost, ZERO),
        (trend, ONE),
        (print_it, ONE),
        (keyboard, ZERO),
        (screen_reader, ZERO),
        (narrow, ONE),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_task__takes_at_most_one_click(reader: Reader, task: Callable[[Reader], None], clicks: int) -> None:
    task(reader)
    assert reader.clicks == clicks


@pytest.mark.parametrize("options", [{}, {"java_script_enabled": False}, {"color_scheme": "dark"}], ids=str)
def test_task__why_a_run_is_inconclusive_takes_no_click(visit: Visit, tmp_path: Path, options: dict[str, Any]) -> None:
    has_script = options.get("java_script_enabled", True)
    path = page_of_report(tmp_path / "report.html", samples()["inconclusive"])
    page = visit(path, ready="body[data-view]" if has_script else "main h1", **options)
    shown = " ".join(page.locator("body").inner_text().split())
    for words in ("2 of 6 cases could not be evaluated", "503 UNAVAILABLE: The model is overloaded"):
        assert words in shown, shown
