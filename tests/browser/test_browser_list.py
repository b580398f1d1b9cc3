"""The list of cases: filters, order, keys, deep links, print, how the page opens, and what a reviewer asks of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import golden_files
import pytest
from case_samples import agents_case, errored_case, index_of, lamp_case, reviewed_cases, reviewed_index
from chromium import check_view, until
from list_samples import index_of_rows, row
from report_pages import samples
from report_pages_of_data import CASE_VIEW, Visit, data_of_page, page_of_data, page_of_report, served_page

if TYPE_CHECKING:
    from playwright.sync_api import Page


# The list of cases: what is drawn, filters, order, keys, deep links, the way to a case and back, print.


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


@pytest.fixture
def reviewed(tmp_path: Path) -> Path:
    """Four cases, two of which have a cause."""
    cases = reviewed_cases()
    return page_of_data(tmp_path / "report.html", reviewed_index(cases), [{"cases": cases}])


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


def test_list__has_time_and_tokens_beside_those_of_the_base(visit: Visit, reviewed: Path) -> None:
    page = visit(reviewed)
    lamp = page.locator("tr.row").first
    assert [cell.inner_text().split("\n") for cell in lamp.locator(".c-number").all()[-2:]] == [
        ["1,280", "main 1,100"],
        ["1.5 s", "main 1.2 s"],
    ]
    page.get_by_role("columnheader", name="Tokens").get_by_role("button").click()
    until_sorted(page, "Tokens", "descending")
    page.set_viewport_size({"width": 1000, "height": 800})
    assert page.get_by_role("columnheader", name="Tokens").is_visible(), "the list is sorted by it"
    page.get_by_role("columnheader", name="Time").get_by_role("button").click()
    until_sorted(page, "Time", "descending")
    assert not page.get_by_role("columnheader", name="Tokens").is_visible()
    page.evaluate("delete Navigator.prototype.clipboard")
    page.get_by_role("button", name="Copy agent-eval accept").click()
    assert page.get_by_label("To copy: agent-eval accept").input_value() == "agent-eval accept"


def test_search__suggests_terms_of_the_page(visit: Visit, tmp_path: Path) -> None:
    cases = [lamp_case(), agents_case(), errored_case()]
    index = index_of(cases)
    index["strings"][index["cases"]["tools"][0][0]] = '<b>x</b> "y"'
    index["strings"].append("turn off")
    index["cases"]["tools"][1] = [len(index["strings"]) - 1]
    page = visit(page_of_data(tmp_path / "report.html", index, [{"cases": cases}]))
    field = page.get_by_role("combobox", name="Search cases")

    def terms() -> list[str]:
        return list(page.locator("#search-terms option").evaluate_all("options => options.map((one) => one.value)"))

    assert terms() == []
    field.focus()
    assert {"status:failed", "status:errored", "regression", 'tool:"turn off"', "file:evals/home.test.json"} < {
        *terms()
    }
    assert "status:not_run" not in terms(), "no case has it"
    assert not [term for term in terms() if "<b>" in term], "a quoted name can't be asked for"
    field.fill("blocking -st")
    assert terms()[:3] == [f"blocking -status:{status}" for status in ("passed", "failed", "errored")]
    for text in ('tool:"turn ', '-tool:"turn'):
        field.fill(f"blocking {text}")
        assert terms() == [f'blocking {text.split("tool")[0]}tool:"turn off"'], "only what ends the quote"
    field.fill('file:"my ')
    assert terms() == [], "no file has such a name"
    field.fill("status:failed blocking")
    assert "status:failed blocking" not in terms()
    until_result(page, "1 of 3 cases")


def test_list__has_a_column_for_each_metric_if_asked(visit: Visit, tmp_path: Path) -> None:
    choice = random.Random(5)
    page = visit(page_of_data(tmp_path / "report.html", index_of_rows([row(place, choice) for place in range(12)])))
    page.get_by_role("button", name="All scores").click()
    until(page, "document.querySelectorAll('.cases-table thead th').length === 6")
    assert page.evaluate("location.hash") == "#metric=*"
    lines = [" | ".join(line.inner_text().split("\n")) for line in page.locator(".cases-table thead tr, tr.row").all()]
    golden_files.check("golden_page/matrix.txt", "\n".join(lines) + "\n")
    page.get_by_role("columnheader", name="my metric<1").get_by_role("button").click()
    until_sorted(page, "my metric<1", "ascending")
    page.locator("tr.row .case-link").first.click()
    page.get_by_role("link", name="← All cases").click()
    until_sorted(page, "my metric<1", "ascending")
    assert page.locator(".cases-table thead th").count() == 6, "all scores still"
    page.get_by_role("button", name="All scores").click()
    until(page, "document.querySelector('.cases-table thead').textContent.includes('User, then')")
    assert page.get_by_role("columnheader", name="my metric<1").count() == 1, "the metric that the list is sorted by"


def test_list__groups_by_agent_if_there_are_several(visit: Visit, tmp_path: Path) -> None:
    choice = random.Random(5)
    rows = [{**row(place, choice), "agent": ("home", "billing", "")[place % 3]} for place in range(7)]
    rows[0] |= {"status": "passed", "tags": []}
    page = visit(page_of_data(tmp_path / "report.html", index_of_rows(rows)))
    assert page.locator("tr.row .of-agent").first.is_visible()
    page.get_by_label("Order").select_option(label="by agent")
    until(page, "location.hash === '#sort=agent'")
    headings = page.locator("tr.group").all_inner_texts()
    passed = Counter(item["agent"] for item in rows if item["status"] == "passed")
    assert headings == [
        f"No agent 2 cases, {passed['']} passed",
        f"billing 2 cases, {passed['billing']} passed",
        f"home 3 cases, {passed['home']} passed",
    ]
    assert not page.locator("tr.row .of-agent").first.is_visible(), "the heading says it"
    one = [{**item, "agent": "home"} for item in rows]
    page = visit(page_of_data(tmp_path / "one.html", index_of_rows(one)))
    assert page.locator(".of-agent").count() == 0 and page.get_by_role("option", name="by agent").count() == 0


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


# The last ones are texts that could break something.
QUERIES = (
    *("status:fialed", "metric:nope<1", "seconds>soon", "seconds:30", "metric:tool_trajectory_avg_score<"),
    *("statuz:failed", "tool:nope", "lamp zzz", "cause:7", "status:passed cause:1"),
    *('"', "-", '-"', "::", 'a:"b', "__proto__:x", "constructor>1", "http://x/y", "status:", "-\u202e", "=<>"),
)


def test_search__golden_of_what_is_said(visit: Visit, reviewed: Path) -> None:
    page = visit(reviewed)
    said = []
    for query in QUERIES:
        page.locator("#search").fill(query)
        notices = page.locator(".notices").inner_text().split("\n")
        said += [f"{query!a}: {result(page)}\n", *(f"    {notice}\n" for notice in notices if notice)]
    golden_files.check("golden_search.txt", "".join(said))


def test_search__in_conversations(visit: Visit, tmp_path: Path) -> None:
    cases, word = [lamp_case(), agents_case(), errored_case()], "offline"
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


def test_print__has_at_most_fifty_cases(visit: Visit, many: Path) -> None:
    page = visit(many, "#print&q=-flaky", script="window.print = () => { window.printed = true; };")
    assert "500 cases that did not pass" in page.locator("main").inner_text()
    assert "450 more are in the report" in page.locator("main").inner_text()
    assert page.locator(".print-view .case").count() == 50
    assert page.get_by_role("button", name="Print…").is_visible()
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert not page.get_by_role("button").first.is_visible(), "no controls on paper"

    page.emulate_media(media="screen")
    page.evaluate("location.hash = ''")
    page.locator("body[data-view=list]").wait_for()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".print-only tbody tr").count() == 50
    assert not page.locator(".cases").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".print-only").count() == 0
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Print").click()
    until(page, "window.printed === true")


def test_causes__are_filters_of_a_list_in_groups(visit: Visit, reviewed: Path) -> None:
    page = visit(reviewed)
    button = page.get_by_role("button", name="Show these 2")
    button.click()
    until_result(page, "2 of 4 cases")
    assert page.evaluate("location.hash") == "#q=cause%3A1"
    assert button.get_attribute("aria-pressed") == "true"
    page.locator("#search").fill("cause:none")
    until(page, "location.hash === '#q=cause%3Anone'")  # What is typed gets into the address later.
    assert result(page) == "1 of 4 cases"
    page.get_by_role("link", name="Example: lamp, turn 2").click()
    until(page, "location.hash.endsWith('.json%3Alamp&run=head%3A0&turn=2')")


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


# What a reviewer asks of the page, what is clicked on in the opened list, and what then stands there, not folded away.

LAMP, JUDGED = (f"tr.row:has-text('{name}') .case-link" for name in ("lamp", "judged"))
TASKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "flaky": ("", ("No shared cause 1 case, flaky", "coin home.test.json:6 Switch on the lamp. – 1/2")),
    "shared cause": ("", ("Cause 1: find_devices returned", "In 2 of 2 failing cases", "home/tools.py:42-47")),
    "cost": ("", ("$0.42", "agent $0.40, judges $0.02", "1,280")),
    "why a passing case is weak": ("", ("turn 2 of 3: final_response_match_v2 0.40, below 0.60",)),
    "cases of a cause": ("text=Show these 2", ("2 of 4 cases",)),
    "only regressions": ("button:has-text('2 regressions')", ("2 of 4 cases",)),
    "turn and response": (LAMP, ("✗ set_device not called", 'returned {"devices": []}')),
    "answer of the base": (LAMP, ("run 1 ✓ passed", "The lamp in the living room is on.")),
    "dissenting judge": (LAMP, ("1 dissenting vote", "Honest about what it found.")),
    "weak turn": (JUDGED, ("▾ final_response_match_v2 0.40, needs 0.60", "No lamp.", "0.40 few words")),
    "judge": (JUDGED, ("valid final_response_match_v2", "2 of 2 votes, turn 2", "It says what was found.")),
    "next step": (".next a:has-text('lamp')", ("Turn 1 of 3",)),
    "trend": ("role=link[name='Trend']", ("pass rate", "The same numbers, newest first")),
}


def test_task__takes_at_most_one_click(visit: Visit, reviewed: Path) -> None:
    page = visit(reviewed, viewport={"width": 1280, "height": 860})
    for task, (target, texts) in TASKS.items():
        page.evaluate("location.hash = ''")
        until_result(page, "4 cases")
        if target:
            page.locator(target).first.click()
        for text in texts:
            try:
                until(page, f"document.body.innerText.replace(/\\s+/g, ' ').includes({json.dumps(text)})")
            except AssertionError:
                raise AssertionError(f"{task}: {text}\n{page.locator('body').inner_text()}") from None


# How the page opens: from a disk, from a server, in a frame, without scripts, with data that it can't read.


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
    with served_page(tmp_path) as server:
        also = [f"{server.url}/report.html", f"{server.url}/favicon.ico"]
        page = visit(f"{server.url}/artifact", CASE_VIEW, also=also)
        assert page.url == f"{server.url}/report.html{CASE_VIEW}", "a redirect keeps the fragment"
        page.locator(".case-view h2", has_text="thermostat_in_bedroom").wait_for()
        assert "✗" in page.locator(".case-view h2").inner_text(), "read as UTF-8"
        framed = visit(f"{server.url}/frame", also=also, ready="iframe").frame_locator("iframe")
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

    inconclusive = page_of_report(tmp_path / "inconclusive.html", samples()["inconclusive"])
    for has_script, ready in ((True, "body[data-view]"), (False, "main h1")):
        text = visit(inconclusive, java_script_enabled=has_script, ready=ready).locator("body").inner_text()
        assert "2 of 6 cases could not be evaluated" in text
        assert "503 UNAVAILABLE: The model is overloaded" in text, "why takes no click"


def test_page__data_that_cannot_be_read(visit: Visit, tmp_path: Path) -> None:
    path = page_of_report(tmp_path / "report.html", samples()["failed"])
    index = data_of_page(path)
    old = visit(path, script="delete globalThis.DecompressionStream", ready="[role=alert]").locator("main")
    assert "can't unpack the report" in old.inner_text()
    assert "thermostat_in_bedroom" in old.inner_text(), "the summary is still there"

    newer = page_of_data(tmp_path / "newer.html", index | {"report_data_version": 2})
    assert "unknown version" in visit(newer, ready="[role=alert]").locator("main").inner_text()

    lost = page_of_data(tmp_path / "lost.html", index)
    page = visit(lost, CASE_VIEW)
    assert "details of this case can't be read" in page.locator("main").inner_text()
    page.keyboard.press("Escape")
    page.locator("tr.row").first.wait_for()


def test_page__without_cases_or_details(visit: Visit, tmp_path: Path) -> None:
    check_view(visit(page_of_report(tmp_path / "invalid.html", samples()["invalid"])), "invalid")

    full = page_of_report(tmp_path / "report.html", samples()["failed"])
    index = data_of_page(full)
    sentence = "The conversations of passing cases are left out."
    blocks = [-1] * len(index["cases"]["id"])
    less = index | {"level": 5, "left_out": [sentence], "cases": index["cases"] | {"block": blocks}, "blocks": 0}
    page = visit(page_of_data(tmp_path / "less.html", less))
    assert sentence in page.locator(".summary p").all_inner_texts()
    page.locator(".case-link").first.click()
    page.locator(".case-view h2").wait_for()
