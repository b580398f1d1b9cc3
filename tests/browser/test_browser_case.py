"""The view of a case: what was expected, what happened, what the base branch did, and why it failed; and the trend."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import case_samples as samples
import pytest
from chromium import until
from report_pages_of_data import Visit, page_of_data

from agent_eval.evalset.models import EvalCase
from agent_eval.gate.stats import wilson

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


# The view of a case: what was expected, what happened, what the base branch did, and why it failed.


READY = "article.case"
SIDES = ("expected", "now", "base")


def pages(path: Path, *cases: Mapping[str, Any]) -> Path:
    return page_of_data(path / "report.html", samples.index_of(cases), [{"cases": list(cases)}])


def fragment(case: Mapping[str, Any], rest: str = "") -> str:
    return f"#case={quote(case['id'], safe='')}{rest}"


def texts(locator: Locator) -> list[str]:
    """What is visible, white space collapsed."""
    return [" ".join(text.split()) for text in locator.all_inner_texts()]


def rows(page: Page, turn: int) -> list[list[str]]:
    """The cells of a turn's table."""
    table = page.locator(f'[data-turn="{turn}"] table.columns > tbody > tr')
    return [texts(table.nth(i).locator(":scope > td")) for i in range(table.count())]


def is_in_viewport(locator: Locator) -> bool:
    box, size = locator.bounding_box(), locator.page.viewport_size
    assert size is not None
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


def test_case__failed_turn_beside_expected_and_base(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    assert texts(page.locator(".findings > li > strong")) == ["tool_trajectory_avg_score 0.50, needs 1.00"]
    why = page.locator(".why").inner_text()
    for words in ("newly failing", "quarantined until 2026", "regression, 0 of 5 now, 10 of 10 on main (p < 0.001)"):
        assert words in why
    assert [page.locator(f'[data-turn="{turn}"]').get_attribute("open") for turn in (1, 2, 3)] == [None, "", None]
    marks = page.locator("summary h3 ~ span:not(.gist)")
    assert texts(marks)[:2] == ["✓ as expected", "✗ set_device not called"]
    assert is_in_viewport(page.get_by_text('{"devices": []}').first), "the cause is visible without scrolling"
    assert page.locator('[data-turn="2"] .decisive').count() == 2
    answer = "I could not find a lamp in the living room."
    lamp = '{"id": "lamp", "room": "living room", "on": false, "level": null, "watts": 7.5}'
    devices = f'{{"devices": [{lamp}, {{"id": "fan", "room": "living room", "on": true, "level": 2, "watt'
    assert rows(page, 2) == [
        [
            'find_devices(room="living room")',
            'find_devices(room="Living Room") ≠ other arguments argument expected got room "living room" "Living Room" '
            'returned {"devices": []}',
            f'find_devices(room="living room") ✓ as expected returned {devices}',
        ],
        ["", "", "I switch it on."],
        [
            'set_device(id="lamp", on=true)',
            "✗ not called",
            'set_device(id="lamp", on=true) ✓ as expected returned {"ok": true}',
        ],
        ["", 'notify(text="nothing there") + not expected ✗ returned an error {"error": "offline"}', ""],
        ["The living room lamp is on.", answer, "The lamp in the living room is on."],
    ]
    answers = page.locator('[data-turn="2"] tr.answers')
    assert texts(answers.locator(".side-expected mark")) == ["The living room", "is on"]
    assert texts(answers.locator(".side-now mark")) == ["I could not find a", "in the living room"]
    page.keyboard.press("d")
    assert page.locator("article.no-marks").count() == 1
    assert answers.locator(".side-now .prose").inner_text() == answer
    page.get_by_text("returned").locator("visible=true").nth(1).click()
    opened = page.locator('[data-turn="2"] .side-base pre.json')
    assert '"level": null' in opened.inner_text()
    assert opened.locator(".json-null, .json-number, .json-boolean, .json-string").count() == 10
    hrefs = page.locator("article a[href^=http]").evaluate_all("links => links.map(link => link.href)")
    assert hrefs[0] == f"{samples.SERVER}/o/r/blob/5f0c1d2e/evals/home.test.json#L6"
    assert all(href.startswith(f"{samples.SERVER}/") for href in hrefs)


def test_case__runs_base_and_deep_links(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    runs = page.get_by_role("group", name="runs").get_by_role("button")
    assert texts(runs) == ["run 1 ✗ failed", "run 2 ✗ failed", "extra run 3 ✓ passed"]
    page.get_by_role("button", name="only runs that differ").click()
    assert texts(runs) == ["run 1 ✗ failed", "extra run 3 ✓ passed"]
    runs.nth(1).click()
    page.locator(".run-facts", has_text="extra run 3").wait_for()
    assert page.evaluate("location.hash").endswith("&run=confirm%3A2")
    assert page.evaluate("document.activeElement.textContent").startswith("extra run 3"), "focus stays where it was"
    assert "extra run 3" in page.locator('[data-turn="3"]').inner_text()
    assert "the conversation ended before this turn" in page.locator('[data-turn="3"]').inner_text()
    page.keyboard.press("b")
    page.locator("table.of-2").first.wait_for()
    assert page.locator(".side-base").count() == 0
    page.keyboard.press("b")
    page.locator("table.of-3").first.wait_for()
    page.keyboard.press("r")
    page.locator(".run-facts", has_text="run 1").wait_for()

    linked = visit(tmp_path / "report.html", fragment(case, "&run=2&turn=3&side=base"), ready=READY)
    assert linked.locator(".run-facts").inner_text().startswith("run 2:")
    assert linked.locator(".turn.to [data-turn='3'][open]").count() == 1
    assert linked.evaluate("document.activeElement.closest('[data-turn]').dataset.turn") == "3"
    assert is_in_viewport(linked.locator('[data-turn="3"] > summary'))
    link = linked.get_by_role("link", name="Link to turn 1")
    assert link.get_attribute("href") == fragment(case, "&run=head%3A1&turn=1&side=base")
    link.click()
    linked.locator(".turn.to [data-turn='1'][open]").wait_for()
    unknown = visit(tmp_path / "report.html", fragment(case, "&run=9&turn=77&side=none"), ready=READY)
    assert "This run has no turn 77." in unknown.locator("article").inner_text()
    assert unknown.locator(".side-base").count() == 0


def test_case__the_header_of_a_turn_says_what_differs(visit: Visit, tmp_path: Path) -> None:
    asked = samples.call("find", {"room": "hall"})
    expected = [samples.turn("Lamp on.", [asked], "It is on.") for _ in range(3)]
    other, extra = samples.call("find", {"room": "attic"}), samples.call("look", {})
    turns = [
        samples.turn("Lamp on.", [other], "It is on.", align=[(0, 0)]),
        samples.turn("Lamp on.", [asked, extra], "It is on.", align=[(0, 0), (None, 1)]),
        samples.turn("Lamp on.", [asked], "No.", align=[(0, 0)]),
    ]
    wrong = [samples.evidence(at, 0.0, "") for at in range(3)]
    score = samples.run_score("head:0", "failed", 0.0, evidence=wrong)
    metrics = [samples.metric("a_score", "failed", 0.0, 1.0, runs=[score])]
    runs = [samples.run("head:0", "failed", turns)]
    case = samples.case("evals/home.test.json:hall", runs, expected=expected, metrics=metrics)
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    marks = texts(page.locator(".turn > details > summary > .mark"))
    assert marks == ["✗ other arguments of find", "✗ look not expected", "✗ a_score 0.00, needs 1.00"]


@pytest.mark.parametrize("now", ["passed", "failed"])
def test_case__stands_beside_a_run_of_the_base_that_ended_otherwise(visit: Visit, tmp_path: Path, now: str) -> None:
    turn = [samples.turn("Toss.", answer="Heads.")]
    keys = (("head:0", now), ("base:0", now), ("base:1", "failed" if now == "passed" else "passed"))
    counts = "1 of 1 run passed, on main 1 of 2"
    more = {"change": "fixed", "counts": counts} if now == "passed" else {}
    runs = [samples.run(key, status, turn) for key, status in keys]
    case = samples.case("evals/home.test.json:coin", runs, **more)
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    too_few = [f"too few runs tell whether it is fixed ({counts})"]
    assert texts(page.locator(".notes li")) == (too_few if now == "passed" else [])
    base = page.get_by_role("group", name="base", exact=True).get_by_role("button")
    assert [button.get_attribute("aria-pressed") for button in base.all()] == ["false", "true"]
    assert texts(page.locator(".side-base .muted")) == ["as now"]


def test_case__scores_judges_timeline_graph_and_history(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    scales = page.locator(".score-table").get_by_role("img").all()
    scale = scales[0].get_attribute("aria-label")
    page.get_by_text("Scores in detail").click()
    trajectory, judged = page.locator("details.score").all()
    assert "✗ failed tool_trajectory_avg_score 0.50 needs at least 1.00 ▼ worse, base 1.00" in texts(trajectory)[0]
    assert scale == "tool_trajectory_avg_score 0.50 now, 1.00 on base, needs ≥ 1.00"
    judged.locator("summary").first.click()
    words = texts(judged)[0]
    for part in ("≈ close to the threshold", "judge: gemini-2.5-flash", "50", "yes 1.00"):
        assert part in words
    votes = page.locator(".votes-section")
    assert texts(votes.locator("h4")) == ["✗ invalid final_response_match_v2"]
    said = ["valid Honest about what it found.", "invalid The reference says that the lamp is on."]
    assert texts(votes.locator(".vote")) == said, "those who dissent, then one of those who agree"
    assert page.get_by_text("The reference says that the lamp is on.").count() == 1, "once"
    turn = page.locator('[data-turn="2"]')
    assert "Numbers that gate nothing" in page.locator(".scores").inner_text()

    turn.get_by_text("timeline").click()
    assert turn.locator(".lane-picture rect").count() == 3
    assert turn.locator(".span.retried").count() == 1
    assert texts(turn.locator(".timeline tbody tr")) == [
        "model gemini-2.5-flash home 0 ms 0.9 s 429, no response 3 600 30",
        "tool find_devices home 0.9 s 0.2 s – – – –",
        "model gemini-2.5-flash home 1.1 s 0.5 s – – 640 20",
    ]
    turn.get_by_text("system instructions and tools").click()
    assert "home tools: find_devices, notify Look a device up first." in " ".join(turn.inner_text().split())
    page.get_by_text("Agents and tools of this run").click()
    assert texts(page.locator(".agent-list > li")) == [
        "agent home tool find_devices 1 call tool notify 1 call ✗ 1 failed"
    ]
    assert page.locator(".graph-picture .node").count() == 3
    assert page.locator(".edge.failed").count() == 1

    assert "failed 1 of 6 since 2f0c1d2e" in page.locator(".case-head").inner_text()
    page.get_by_text("History on the base branch").click()
    outcomes = page.locator(".outcomes .outcome")
    assert [outcomes.nth(i).get_attribute("aria-label") for i in (0, 2, 3, 4)] == [
        "passed, 2026-11-18 11:06, 0f0c1d2e",
        "failed, 2026-11-20 11:06, 2f0c1d2e",
        "no result, 2026-11-21 11:06, 3f0c1d2e",
        "unknown, 2026-11-22 11:06, 4f0c1d2e",
    ]
    outcomes.nth(2).focus()
    assert outcomes.nth(2).locator(".tip").is_visible()


def test_case__sub_agents_errors_excerpts_and_absent_details(visit: Visit, tmp_path: Path) -> None:
    cases: Sequence[dict[str, Any]] = (samples.agents_case(), samples.errored_case(), samples.older_case())
    removed = samples.case("evals/home.test.json:gone", [])
    index = samples.index_of([*cases, removed])
    index["cases"]["block"][3], index["cases"]["removed"][3] = -1, 1
    path = page_of_data(tmp_path / "report.html", index, [{"cases": list(cases)}])

    agents = visit(path, fragment(cases[0]), ready=READY)
    assert texts(agents.locator(".user")) == ["user (now) 灯を消してください。", "user (base) 灯りを消して。"]
    assert texts(agents.locator(".side-now mark")) == [] != texts(agents.locator("tr.answers .side-base"))
    assert 'search lookup(q="مصباح") ✗ returned an error' in rows(agents, 1)[2][0]
    assert agents.locator('[data-turn="1"] .json-string[dir="auto"]').count() > 2, (
        "each text has a direction of its own"
    )
    assert agents.locator("img").count() == 0
    agents.get_by_role("button", name="show image").click()
    assert agents.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    answer = agents.locator("tr.answers .side-now").inner_text()
    assert "image/svg+xml · 70 bytes" in answer
    assert "gs://bucket/light.pdf" in answer
    assert agents.locator("article a[href^='gs']").count() == 0
    agents.get_by_text("timeline").click()
    assert "No times were recorded" in agents.locator(".timeline").inner_text()
    agents.get_by_text("Agents and tools of this run").click()
    assert texts(agents.locator(".agent-list > li")) == [
        "agent root agent search 1 call",
        "agent search tool lookup 2 calls ✗ 1 failed",
    ]

    errored = visit(path, fragment(cases[1]), ready=READY)
    assert "agent-exception – a failure of the agent, in turn 2" in errored.locator(".error").inner_text()
    assert texts(errored.locator("[open] > summary > .mark.fail")) == ["✗ ended with an error"]
    errored.get_by_text("traceback", exact=True).click()
    assert "KeyError: 'lamp'" in errored.get_by_role("group", name="traceback").inner_text()
    assert "The base branch has no recordings of this case." in errored.locator("article").inner_text()
    assert "(no answer: agent-exception)" in rows(errored, 2)[-1][-1]

    older = visit(path, fragment(cases[2]), ready=READY).locator("article").inner_text()
    for words in ("hold no recordings.", "not a number", "shortened", "The lamp is on.", "missing words: lamp"):
        assert words in older
    gone = visit(path, fragment(removed), ready=READY).locator("article").inner_text()
    assert "Only the base branch has this case." in gone


def test_case__real_run_shows_the_cause_without_scrolling(visit: Visit, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    lights = "examples/home_automation/evals/lights.test.json"
    agent = ("--agent", "examples/home_automation_broken", "--output-dir", str(tmp_path))
    command = (sys.executable, "-m", "agent_eval", "run", lights, *agent)
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert run.returncode == 1, run.stdout + run.stderr
    page = visit(tmp_path / "report.html")
    page.locator(".next").get_by_role("link", name="bedroom_lamp_off").click()
    cause = page.locator(".decisive", has_text='{"devices": []}')
    cause.wait_for()
    assert is_in_viewport(cause)
    assert page.evaluate("scrollY") == 0
    turn = page.locator('[data-turn="1"]')
    assert texts(turn.locator("thead th"))[1:3] == ["expected", "now, run 1"]
    assert turn.locator(".side-now", has_text="✗ not called").count() == 1
    turn.get_by_text("timeline").click()
    assert turn.locator(".lane-picture .span.tool").count() == 1, "model and tool calls were measured"
    assert turn.locator(".lane-picture .span.model").count() == 2


def test_changes__a_number_without_a_threshold_is_neither_better_nor_worse(visit: Visit, tmp_path: Path) -> None:
    index = samples.index_of([samples.agents_case()])
    row = {"base": 0.5, "now": 0.75, "delta": 0.25, "direction": "higher"}
    index["metrics"] = [
        {**index["metrics"][0], **row, "name": "response_match_score", "threshold": 0.5, "gates": True},
        {**index["metrics"][0], **row, "name": "invocation_duration_v1", "threshold": None, "gates": False},
    ]
    page = visit(
        page_of_data(tmp_path / "report.html", index, [{"cases": [samples.agents_case()]}]), ready="section.metrics"
    )
    page.get_by_text("All metrics (2)").click()

    gating, seconds = page.locator(".metrics .plain tbody tr").all_text_contents()
    assert "better by 0.25" in gating
    assert "up by 0.25" in seconds and "better" not in seconds and "worse" not in seconds


def test_case__equal_calls_are_one_line_and_calls_as_expected_are_folded(visit: Visit, tmp_path: Path) -> None:
    same = [samples.call("poll", {}, key="a"), samples.response("poll", {"done": False}, key="a")]
    calls = [samples.call("step", {"n": n}, key=f"k{n}") for n in range(30)]
    expected = samples.turn("Go.", [*[samples.call("poll", {})] * 3, *calls], "Done.")
    steps = [step | {"id": f"p{n}"} for n in range(3) for step in same]
    now = samples.turn("Go.", [*steps, *calls], "Done.", align=[(n, n) for n in range(33)])
    error = [samples.call("find", {}, key="f"), samples.response("find", {"error": "offline"}, key="f")]
    turns = [now, samples.turn("And?", error, "Yes.", align=[(0, 0)]), samples.turn("So?", [], "No.", align=[])]
    wanted = [expected, samples.turn("And?", [samples.call("find", {})], "Yes."), samples.turn("So?", [], "No.")]
    case = samples.case("evals/a.test.json:many", [samples.run("head:0", "passed", turns)], expected=wanted)
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    marks = [texts(page.locator(f'[data-turn="{turn}"] > summary > span'))[1] for turn in (1, 2, 3)]
    assert marks == ["✓ as expected", "▾ find returned an error", "✓ as expected"]
    assert [page.locator(f'[data-turn="{turn}"]').get_attribute("open") for turn in (1, 2, 3)] == [None, "", None]
    page.locator('[data-turn="1"] > summary').click()
    heads = page.locator('[data-turn="1"] tbody th')
    assert texts(heads) == ["Call 1 ×3", "Call 33", "Answer"]
    page.get_by_role("button", name="show 29 more calls as expected").click()
    assert heads.count() == 32


def test_case__names_its_cause(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    index = samples.index_of([case])
    index["causes"] = [samples.cause(12, case["id"])]
    page = visit(page_of_data(tmp_path / "report.html", index, [{"cases": [case]}]), fragment(case), ready=READY)
    line = page.locator(".cause-line").inner_text()
    assert 'find_devices returned {"devices": []}' in line
    assert "Cause 1, with 11 other cases. Changed here: home/tools.py:42-47 (find_devices)" in line
    page.get_by_role("link", name="Cause 1").click()
    page.locator("body[data-view=list]").wait_for()
    assert page.evaluate("location.hash") == "#q=cause%3A1"


def test_case__copies_the_command_and_the_run_as_a_case(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    page = visit(pages(tmp_path, case), fragment(case), ready=READY)
    page.evaluate("delete Navigator.prototype.clipboard")
    page.get_by_role("button", name="Copy the command").click()
    command = page.get_by_label("Command that runs this case")
    assert command.input_value() == "agent-eval run evals/home.test.json"
    page.get_by_role("button", name="Copy as a case").click()
    written = json.loads(page.get_by_label("This run as an eval case").input_value())
    parsed = EvalCase.model_validate(written)
    assert parsed.eval_id == "lamp"
    calls = written["conversation"][1]["intermediate_data"]["tool_uses"]
    assert [call["name"] for call in calls] == ["find_devices", "notify"]


def test_search__a_hit_is_opened_where_it_stands_and_marked(visit: Visit, tmp_path: Path) -> None:
    case = samples.lamp_case()
    page = visit(pages(tmp_path, case), "#q=welcome&" + fragment(case)[1:], ready=READY)
    assert page.locator(".turn.to [data-turn='3'][open]").count() == 1
    marked = page.evaluate("[...CSS.highlights.get('hit')].map((range) => range.toString())")
    assert set(marked) == {"welcome"}
    assert is_in_viewport(page.locator("[data-turn='3'] tr.answers"))


# The trend of the base branch as charts and as a table.


def trend_page(visit: Visit, path: Path, trend: Mapping[str, Any] | None) -> Page:
    case = samples.errored_case()
    index = samples.index_of([case], trend)
    return visit(page_of_data(path / "report.html", index, [{"cases": [case]}]), "#trend", ready="section.trend")


def test_trend__charts_and_table(visit: Visit, tmp_path: Path) -> None:
    trend = samples.trend_of(9)
    page = trend_page(visit, tmp_path, trend)
    figures = page.locator("figure")
    figures.first.locator("svg").wait_for()
    titles = page.locator("figcaption strong").all_inner_texts()
    means = "tool_trajectory_avg_score"
    seconds = ["seconds per run, median", "seconds per run, 95th percentile"]
    assert titles == ["pass rate", means, *seconds, "tokens per run", "cost"]
    assert figures.first.locator("figcaption").inner_text() == "pass rate 50.0% (before: 80.0%)"
    rate = figures.first
    assert rate.locator("circle.point:not(.head)").count() == 9
    assert rate.locator("circle.point.head").count() == 1
    assert rate.locator("polyline").count() == 2, "the line ends where the suite changed"
    assert rate.locator("polygon.band").count() == 2
    assert rate.locator("line.change.suite").count() == 1
    assert "tool_trajectory_avg_score fell by 0.05" in page.locator(".trend").inner_text()
    assert page.locator(".changes").inner_text() == "2026-11-24 11:06 060c1d2e: suite changed"

    table = page.locator("table", has_text="The same numbers, newest first")
    rows = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows[:2]] == ["this run", "2026-11-26 11:06 080c1d2e"]
    assert len(rows) == 10
    low, high = wilson(16, 20)
    assert rows[1][1:] == [
        *["20", "16", "4", "0", "0", "0", "80.0%", "0.82"],
        "1.2 s",
        "4.5 s",
        "1,250",
        "$0.0120",
        f"{low:.1%} to {high:.1%}",
    ]
    assert table.locator("tbody a").count() == 9
    points = rate.locator("polyline").first.get_attribute("points")
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function("before => document.querySelector('polyline').getAttribute('points') !== before", arg=points)
    until(page, "document.documentElement.scrollWidth === 360")  # All charts follow the width.


def test_trend__judge_and_adk_changes_leave_lines_joined(visit: Visit, tmp_path: Path) -> None:
    rows = [samples.trend_row(number, suite="a") for number in range(4)]
    rows[2]["judges"], rows[3]["adk"] = ["pro"], "3.0.0"
    rows[3]["judges"] = ["pro"]
    rows[1]["cost"] = None
    foreign = {"run_url": "https://elsewhere.example/1"}
    trend = samples.trend_of(0, head=False) | {"rows": [rows[0] | foreign, *rows[1:]]}
    page = trend_page(visit, tmp_path, trend)
    page.locator("figure svg").last.wait_for()
    assert page.locator("figure").first.locator("polyline").count() == 1
    assert page.locator("figure").first.locator("line.change:not(.suite)").count() == 2
    assert page.locator("figure").last.locator("circle").count() == 3, "no cost is known for the second run"
    changes = page.locator(".changes li").all_inner_texts()
    assert [text.split(": ")[1] for text in changes] == ["judge changed", "google-adk changed"]
    links = page.locator("table a").evaluate_all("links => links.map(link => link.href)")
    assert len(links) == 3
    assert all(link.startswith(samples.SERVER) for link in links), "only links to the run's server"


@pytest.mark.parametrize("trend", [None, samples.trend_of(0, head=False)])
def test_trend__no_history(visit: Visit, tmp_path: Path, trend: Mapping[str, Any] | None) -> None:
    page = trend_page(visit, tmp_path, trend)
    assert "There is no history yet" in page.locator(".trend").inner_text()
    assert page.locator(".trend svg").count() == 0


def test_trend__one_point_has_no_line(visit: Visit, tmp_path: Path) -> None:
    page = trend_page(visit, tmp_path, samples.trend_of(1, head=False))
    page.locator("figure svg").last.wait_for()
    assert page.locator("figure").first.locator("circle").count() == 1
    assert page.locator("polyline, polygon").count() == 0


def test_trend__a_crash_of_the_agent_lowers_the_pass_rate(visit: Visit, tmp_path: Path) -> None:
    counts = {"cases": 5, "passed": 1, "failed": 1, "broke": 1, "quarantined": 1, "unknown": 1}
    trend = {**samples.trend_of(3), "head": samples.trend_row(3, **counts)}
    page = trend_page(visit, tmp_path, trend)

    assert "pass rate 33.3%" in page.locator("figcaption").first.inner_text()
    first = page.locator("table", has_text="The same numbers, newest first").locator("tbody tr").first
    low, high = wilson(1, 3)
    cells = first.inner_text().split("\t")
    assert cells[1:7] == ["5", "1", "1", "1", "1", "1"]
    assert cells[-1] == f"{low:.1%} to {high:.1%}"
