"""The list of cases: what is drawn, filters, order, keys, deep links, the way to a case and back, print."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from case_samples import agents_case, cause, errored_case, index_of, lamp_case
from chromium import until
from list_samples import index_of_rows, row
from report_pages import samples
from report_pages_of_data import Visit, data_of_page, page_of_data, page_of_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

MANY = 5_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    choice = random.Random(7)
    rows = [row(position, choice) for position in range(MANY)]
    for place, item in enumerate(rows):
        item["status"] = "failed" if place % 10 == 3 else "passed"
        item["tags"] = ["flaky"] if place % 50 == 8 else []
        item["word"] = None
    return page_of_data(tmp_path_factory.mktemp("many") / "many.html", index_of_rows(rows))


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


def result(page: Page) -> str:
    return str(page.locator(".result").inner_text())


def until_result(page: Page, text: str) -> None:
    """The list follows the address in a later task."""
    until(page, f"document.querySelector('.result').textContent === '{text}'")


def until_sorted(page: Page, title: str, direction: str) -> None:
    until(page, f"document.querySelector('[aria-sort={direction}]')?.textContent.startsWith('{title}')")


# The rows of one moment: they are replaced in the frame after a scroll event.
DRAWN = f"""() => {{
    const rows = [...document.querySelectorAll('tr.row')];
    const places = rows.map((row) => Number(row.getAttribute('aria-rowindex')));
    const boxes = rows.map((row) => row.getBoundingClientRect());
    const reachesLowerEdge = boxes.at(-1).bottom >= innerHeight || places.at(-1) === {MANY + 1};
    return {{
        places,
        heights: new Set(boxes.map((box) => box.height)).size,
        reachesBothEdges: boxes[0].top <= 0 && reachesLowerEdge,
    }};
}}"""


def test_list__draws_only_what_is_near(visit: Visit, many: Path) -> None:
    page = visit(many)
    table = page.get_by_role("table", name="Cases")
    assert table.get_attribute("aria-rowcount") == str(MANY + 1)
    assert page.locator("tr.row").count() < 80
    for where in (0.5, 1.0, 0.25):
        page.evaluate(f"scrollTo(0, document.body.scrollHeight * {where})")
        until(page, f"({DRAWN})().reachesBothEdges")
        drawn = page.evaluate(DRAWN)
        places = drawn["places"]
        assert len(places) < 80
        assert places == list(range(places[0], places[0] + len(places))), "in order, without gaps"
        assert drawn["heights"] == 1, "all rows have the same height"
    page.set_viewport_size({"width": 360, "height": 740})
    until(page, "document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("tr.row").count() < 60
    assert page.locator("tr.row").first.evaluate("row => row.scrollHeight <= row.clientHeight + 1"), (
        "nothing is cut off"
    )


def test_list__filters_sorts_and_links(visit: Visit, many: Path) -> None:
    page = visit(many)
    assert result(page) == "5,000 cases"
    failed = page.get_by_role("button", name="500 failed")
    failed.click()
    until_result(page, "500 of 5,000 cases")
    assert page.evaluate("location.hash") == "#q=status%3Afailed"
    assert failed.get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="100 flaky").click()
    until_result(page, "0 of 5,000 cases")
    assert page.locator("#search").input_value() == "status:failed flaky"
    assert not page.get_by_role("table", name="Cases").is_visible()
    failed.click()
    until_result(page, "100 of 5,000 cases")

    page.locator("#search").fill("-flaky file:home seconds>30")
    assert page.locator("tr.row").count() > 0
    until(page, "location.hash.includes('seconds')")
    assert page.get_by_role("status").inner_text() == result(page), "announced"

    header = page.get_by_role("columnheader", name="Time")
    header.get_by_role("button").click()
    until_sorted(page, "Time", "descending")
    assert page.evaluate("location.hash").endswith("&sort=-seconds")
    assert focused(page).startswith("Time"), "the button of the new header has the focus"
    page.keyboard.press("Enter")
    until_sorted(page, "Time", "ascending")
    assert page.evaluate("location.hash").endswith("&sort=seconds")
    page.go_back()
    until_sorted(page, "Time", "descending")
    page.get_by_role("combobox", name="Order").select_option("case")
    until_sorted(page, "Case", "ascending")
    assert page.evaluate("location.hash").endswith("&sort=case")

    page.locator("#search").fill("status:fialed")
    assert "status: is one of passed" in page.locator(".notices").inner_text()


def test_list__cuts_a_name_at_its_end_in_every_script(visit: Visit, tmp_path: Path) -> None:
    rows = [row(position, random.Random(7)) for position in range(2)]
    for item, name in zip(rows, ("lamp_of_the_bedroom_" * 20, "إطفاء_أضواء_المطبخ_" * 20), strict=True):
        item.update(eval_id=name, file="a/عربي/بيت.test.json")

    page = visit(page_of_data(tmp_path / "report.html", index_of_rows(rows)))

    shown = page.locator(".case-link .foreign").evaluate_all(
        """names => names.map((name) => {
            const first = document.createRange();
            first.setStart(name.firstChild, 0);
            first.setEnd(name.firstChild, 1);
            const [letter, cell] = [first.getBoundingClientRect(), name.closest('td').getBoundingClientRect()];
            const isVisible = letter.left >= cell.left && letter.right <= cell.right;
            return [name.title, getComputedStyle(name).direction, isVisible];
        })"""
    )
    assert sorted(shown) == [[rows[0]["eval_id"], "ltr", True], [rows[1]["eval_id"], "rtl", True]]
    assert page.locator(".c-case .sub .foreign").first.evaluate("path => getComputedStyle(path).direction") == "ltr"


def test_list__deep_links(visit: Visit, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["failed"])
    index = data_of_page(path)
    case = index["cases"]["id"][2]
    page = visit(path, "#q=status%3Afailed&sort=-seconds")
    assert result(page) == "3 of 6 cases"
    assert page.get_by_role("combobox", name="Order").input_value() == "-seconds"

    def go(fragment: str, shown: str) -> str:
        page.evaluate(f"location.hash = {fragment!r}")
        page.locator(f"body[data-view={shown}]").wait_for()
        return str(page.locator("main").inner_text())

    assert "thermostat_in_bedroom" in go(f"#case={quote(case, safe='')}", "case")
    assert page.title().startswith(case)
    assert "All cases" in go(f"#case={case}", "case"), "an id that is not encoded"
    assert "KeyError: 'garage'" in go("#case=garage_door", "case"), "a short id is enough if one case has it"
    assert "This report has no case “no%zz”".replace("“", "").replace("”", "") in go("#case=no%zz", "list")
    go("#trend", "trend")
    assert page.locator("[aria-current=page]").inner_text() == "Trend"
    assert "google-adk" in go("#about", "about")
    assert "3 cases that did not pass" in go("#print", "print")
    go("#metric=response_match_score", "list")
    until(page, "document.querySelector('th[aria-sort]')?.textContent.startsWith('response_match_score')")
    scores = page.locator("td.c-score:nth-of-type(4)").all_inner_texts()
    assert scores == sorted(scores, key=lambda text: text == "–"), "missing scores come last"
    go("#nothing&q=%E0%A4%A&&=x&sort=none&case", "list")


def test_keys__walk_the_page(visit: Visit, tmp_path: Path) -> None:
    page = visit(page_of_report(tmp_path / "report.html", samples()["failed"]))
    press = page.keyboard.press
    press("j")
    assert focused(page) == "thermostat_in_bedroom"
    press("j")
    press("k")
    press("n")
    assert focused(page) == "two_devices"
    press("Enter")
    page.locator("body[data-view=case]").wait_for()
    assert "two_devices" in page.locator("h2").first.inner_text()
    press("n")
    page.locator("h2", has_text="garage_door").first.wait_for()
    press("n")
    press("p")
    page.locator("h2", has_text="two_devices").first.wait_for()
    press("j")
    page.locator("h2", has_text="garage_door").first.wait_for()
    press("Escape")
    page.locator("body[data-view=list]").wait_for()
    assert focused(page) == "garage_door", "back where the reader was"
    press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("jk?n")
    assert page.locator("#search").input_value() == "jk?n", "keys do not act in fields"
    page.locator("#search").fill("")
    until(page, "document.querySelector('[role=status]').textContent === '6 cases'")  # Nothing changes after that.
    page.locator("h1").click()
    press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    dialog.get_by_role("checkbox").check()
    press("Escape")
    dialog.wait_for(state="hidden")
    until(page, "document.activeElement === document.body")  # A hidden field loses the focus in the next frame.
    before = focused(page)
    press("j")
    press("?")
    assert focused(page) == before
    assert not dialog.is_visible(), "keys of one character are off"
    page.get_by_role("button", name="Help").click()
    dialog.get_by_role("checkbox").uncheck()
    dialog.get_by_role("button", name="Close").click()
    press("Control+j")
    assert focused(page) == "Help", "modifiers are the browser's; the focus is where it was"


def test_search__in_conversations(visit: Visit, tmp_path: Path) -> None:
    cases = [lamp_case(), agents_case(), errored_case()]
    texts = [str(case["runs"]) for case in cases]
    word = next(
        word
        for word in re.findall(r"[a-z]{6,}", texts[0])
        if not any(word in text for text in texts[1:]) and word not in str(index_of(cases)["cases"])
    )
    page = visit(page_of_data(tmp_path / "report.html", index_of(cases), [{"cases": cases}]))
    page.locator("#search").fill(word)
    assert result(page) == "0 of 3 cases"
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.result').textContent.startsWith('1 of 3')")
    assert f"conversations searched for “{word}”" in result(page)
    until(page, "document.querySelector('[role=status]').textContent.startsWith('Searched all conversations: 1 of 3')")
    page.wait_for_timeout(800)
    assert page.get_by_role("status").inner_text().startswith("Searched"), "what was typed is not announced after that"
    page.locator("#search").fill(f"-{word}")
    assert result(page).startswith("2 of 3 cases")


def test_search__can_be_cancelled(visit: Visit, many: Path, tmp_path: Path) -> None:
    index = data_of_page(many)
    blocks: list[dict[str, Any]] = [{"cases": []}] * 400
    page = visit(page_of_data(tmp_path / "report.html", index | {"blocks": len(blocks)}, blocks))
    page.locator("#search").fill("温")
    page.evaluate(
        """() => { document.querySelector('form').requestSubmit();
            document.querySelector('.progress button').click(); }"""
    )
    until(page, "document.querySelector('[role=status]').textContent === 'Search cancelled'")
    assert not page.locator(".progress").is_visible()
    assert "searched for" not in result(page)


def test_theme__lasts_for_the_life_of_the_page(visit: Visit, tmp_path: Path) -> None:
    page = visit(page_of_report(tmp_path / "report.html", samples()["passed"]), color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    button = page.get_by_role("button", name="Theme")
    for name, expected in (("light", True), ("dark", False), ("system", True)):
        button.click()
        assert button.inner_text() == f"Theme: {name}"
        assert (page.evaluate(background) == light) == expected


def printed(page: Page) -> Any:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    return page


def test_print__has_at_most_fifty_cases(visit: Visit, many: Path) -> None:
    page = visit(many, "#print&q=-flaky")
    assert "500 cases that did not pass" in page.locator("main").inner_text()
    assert "450 more are in the report" in page.locator("main").inner_text()
    assert page.locator(".print-view .case").count() == 50
    assert page.get_by_role("button", name="Print…").is_visible()
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    assert not printed(page).get_by_role("button").first.is_visible(), "no controls on paper"

    page.emulate_media(media="screen")
    page.evaluate("location.hash = ''")
    page.locator("body[data-view=list]").wait_for()
    printed(page)
    assert page.locator(".print-only tbody tr").count() == 50
    assert not page.locator(".cases").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".print-only").count() == 0


def few(path: Path, **more: Any) -> Path:
    """Four cases, two of which have a cause."""
    rows = [row(position, random.Random(position)) for position in range(4)]
    for position, item in enumerate(rows):
        item |= {"eval_id": f"case_{position}", "status": "passed" if position == 3 else "failed", "tags": []}
        item |= {"user": "Lamp on", "change": None, "word": None, "tools": ["find"], "file": f"evals/x/{position}.json"}
    index = index_of_rows(rows)
    index["cases"]["group"] = [0, 0, 1, 2]
    return page_of_data(path / "report.html", index | {"causes": [cause(2, index["cases"]["id"][1])]} | more)


def test_causes__are_filters_of_a_list_in_groups(visit: Visit, tmp_path: Path) -> None:
    page = visit(few(tmp_path))
    texts = [" ".join(text.split()) for text in page.locator("tr.group").all_inner_texts()]
    assert texts == [
        'Cause 1: find_devices returned {"devices": []} 2 cases',
        "No shared cause 1 case",
        "Passed 1 case",
    ]
    button = page.get_by_role("button", name="Show these 2")
    button.click()
    until_result(page, "2 of 4 cases")
    assert page.evaluate("location.hash") == "#q=cause%3A1"
    assert button.get_attribute("aria-pressed") == "true"
    page.locator("#search").fill("cause:none")
    until_result(page, "1 of 4 cases")
    page.get_by_role("link", name="Example: case_1, turn 2").click()
    until(page, "location.hash.endsWith('1.json%3Acase_1&run=head%3A0&turn=2')")


def test_list__has_every_row_where_the_browser_can_find_it(visit: Visit, tmp_path: Path) -> None:
    choice = random.Random(3)
    rows = [row(position, choice) | {"eval_id": f"case_{position}_"} for position in range(500)]
    page = visit(page_of_data(tmp_path / "report.html", index_of_rows(rows)))
    assert page.locator("tr.row").count() == 500
    found = "(name) => { getSelection().removeAllRanges(); return find(name, false, false, true); }"
    assert [page.evaluate(found, f"case_{position}_") for position in (0, 7, 250, 499)] == [True] * 4
    assert not page.evaluate(found, "case_500_")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.getBoundingClientRect().bottom <= innerHeight")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("statuz:failed", "There is no field “statuz”. Fields are status, change"),
        ("tool:nope", "No case calls a tool “nope”. Tools are find."),
        ("lamp zzz", "No case has “zzz” in its id, file, reason or messages of users."),
        ("cause:7", "No case has cause:7."),
        ("status:passed cause:1", "but no case has all of them."),
    ],
)
def test_search__says_what_it_does_not_find(visit: Visit, tmp_path: Path, query: str, reason: str) -> None:
    page = visit(few(tmp_path))
    page.locator("#search").fill(query)
    assert reason in page.locator(".notices").inner_text()
    offers = page.locator(".notices button")
    assert offers.count() == (":" not in query or "statuz" in query)
