"""What the page shows of cases, causes and trends, in golden files; and how a reader gets about in a case."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import case_samples as samples
import pytest
from case_samples import call, response, turn
from chromium import STILL, check_view
from report_pages_of_data import Visit, page_of_data

from agent_eval_scoring.evalset.models import EvalCase

if TYPE_CHECKING:
    from playwright.sync_api import Locator


LAMP = samples.lamp_case()
READY = "article.case"
UNFOLD = """() => {
  const folded = [...document.querySelectorAll('main details:not([open])')];
  for (const one of folded) one.open = true;
  return folded.length;
}"""


@dataclass(frozen=True, kw_only=True)
class View:
    """A situation of the page: the view of its first case, or what the fragment says."""

    cases: Sequence[Mapping[str, Any]]
    index: Mapping[str, Any] = field(default_factory=dict)
    """What differs in the index."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What differs in the index's columns of cases."""
    fragment: str = ""
    ready: str = READY
    unfolded: bool = True
    clicks: Sequence[str] = ()
    """Names of buttons."""


def fragment(case: Mapping[str, Any], rest: str = "") -> str:
    return f"#case={quote(case['id'], safe='')}{rest}"


def differing() -> dict[str, Any]:
    """Turns with other arguments, a call too many, and nothing but a lower score."""
    asked = call("find", {"room": "hall"})
    other, extra = call("find", {"room": "attic"}), call("look", {})
    turns = [
        turn("Lamp on.", [other], "It is on.", align=[(0, 0)]),
        turn("Lamp on.", [asked, extra], "It is on.", align=[(0, 0), (None, 1)]),
        turn("Lamp on.", [asked], "No.", align=[(0, 0)]),
    ]
    score = samples.run_score("head:0", "failed", 0.0, evidence=[samples.evidence(at, 0.0, "") for at in range(3)])
    return samples.case(
        "evals/home.test.json:hall",
        [samples.run("head:0", "failed", turns)],
        expected=[turn("Lamp on.", [asked], "It is on.") for _ in range(3)],
        metrics=[samples.metric("a_score", "failed", 0.0, 1.0, runs=[score])],
    )


def moved() -> dict[str, Any]:
    """A call that is made after another one instead of before it."""
    find, lock = call("find", {"room": "hall"}), call("lock", {})
    turns = [turn("Lock the hall.", [lock, find], "Done.", align=[(0, None), (1, 0), (None, 1)])]
    score = samples.run_score("head:0", "failed", 0.0, evidence=[samples.evidence(0, 0.0, "")])
    return samples.case(
        "evals/home.test.json:moved",
        [samples.run("head:0", "failed", turns)],
        expected=[turn("Lock the hall.", [find, lock], "Done.")],
        metrics=[samples.metric("a_score", "failed", 0.0, 1.0, runs=[score])],
    )


def changed_answer() -> dict[str, Any]:
    """A case that passes and says something else than on the base branch."""
    sides = {"head:0": ("0", 0), "base:0": ("150", 150)}
    runs = [
        samples.run(
            key,
            "passed",
            [turn("Q2?", [samples.call("sales", {}), samples.response("sales", {"sum": sold})], f"It is {said}.")],
        )
        for key, (said, sold) in sides.items()
    ]
    changed = [
        {"turn": 0, "kind": kind, "place": place, "before": "150", "after": "0"}
        for kind, place in (("answer", "answer"), ("response", "sales.sum"))
    ]
    return samples.case("evals/home.test.json:q2", runs, changed=changed)


def coin(now: str, base: str, **more: Any) -> dict[str, Any]:
    """A run that stands beside the base branch's second one, which ended otherwise."""
    ended = {"head:0": now, "base:0": now, "base:1": base}
    runs = [samples.run(key, status, [turn("Toss.", answer="Heads.")]) for key, status in ended.items()]
    return samples.case("evals/home.test.json:coin", runs, **more)


def long_case() -> dict[str, Any]:
    """A turn with equal calls and many as expected, one whose call failed as it should, and another answer."""
    calls = [call("step", {"n": n}, key=f"k{n}") for n in range(12)]
    polls = [call("poll", {}, key="a"), response("poll", {"done": False}, key="a")]
    steps = [step | {"id": f"p{n}"} for n in range(3) for step in polls]
    error = [call("find", {}, key="f"), response("find", {"error": "offline"}, key="f")]
    turns = [
        turn("Go.", [*steps, *calls], "Done.", align=[(n, n) for n in range(15)]),
        turn("And?", error, "Yes.", align=[(0, 0)]),
        turn("So?", [], "No.", align=[]),
    ]
    expected = [
        turn("Go.", [*[call("poll", {})] * 3, *calls], "Done."),
        turn("And?", [call("find", {})], "Yes."),
        turn("So?", [], "No."),
    ]
    return samples.case("evals/a.test.json:many", [samples.run("head:0", "passed", turns)], expected=expected)


def trend(**changes: Any) -> View:
    index = {"trend": samples.trend_of(0, head=False) | changes}
    return View(cases=[samples.errored_case()], index=index, fragment="#trend", ready="section.trend", unfolded=False)


def trend_rows() -> list[dict[str, Any]]:
    """The judge and ADK change, a run has no known cost, and one a link that leads elsewhere."""
    changes: list[dict[str, Any]] = [{"run_url": "https://elsewhere.example/1"}, {"cost": None}, {}, {"adk": "3.0.0"}]
    changes = [change | {"judges": ["flash" if at < 2 else "pro"]} for at, change in enumerate(changes)]
    return [samples.trend_row(number, suite="a", **change) for number, change in enumerate(changes)]


def metrics() -> list[dict[str, Any]]:
    """A number without a threshold is neither better nor worse."""
    row = samples.index_of([LAMP])["metrics"][0] | {"base": 0.5, "now": 0.75, "delta": 0.25, "direction": "higher"}
    gating = row | {"name": "response_match_score", "threshold": 0.5, "gates": True}
    return [gating, row | {"name": "invocation_duration_v1", "threshold": None, "gates": False}]


REVIEWED = samples.reviewed_cases()
TOO_FEW = {"change": "fixed", "counts": "1 of 1 run passed, on main 1 of 2"}
VIEWS: Mapping[str, View] = {
    "case": View(cases=[LAMP], index={"causes": [samples.cause(12, LAMP["id"])]}),
    "case-agents": View(cases=[samples.agents_case()], clicks=["show image"]),
    "case-errored": View(cases=[samples.errored_case()]),
    "case-without-recordings": View(cases=[samples.older_case()]),
    "case-removed": View(cases=[samples.case("evals/a.test.json:gone", [])], columns={"block": [-1], "removed": [1]}),
    "case-differing": View(cases=[differing()], unfolded=False),
    "case-changed-answer": View(cases=[changed_answer()]),
    "case-fixed-perhaps": View(cases=[coin("passed", "failed", **TOO_FEW)]),
    "case-failed-as-before": View(cases=[coin("failed", "passed")]),
    "case-long": View(cases=[long_case()], unfolded=False),
    "case-long-unfolded": View(cases=[long_case()], clicks=["show 11 more calls as expected"]),
    "trend-changes": trend(rows=trend_rows()),
    "trend-one-run": trend(rows=[samples.trend_row(0)]),
    "trend-empty": trend(),
    "trend-crash": trend(
        head=samples.trend_row(3, **dict.fromkeys(("passed", "failed", "broke", "quarantined", "unknown"), 1), cases=5),
        rows=samples.trend_of(3)["rows"],
    ),
    "list": View(cases=REVIEWED, index=samples.reviewed_index(REVIEWED), fragment="#", ready="section.metrics"),
    "list-metrics": View(cases=[LAMP], index={"metrics": metrics()}, fragment="#", ready="section.metrics"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view__golden(visit: Visit, tmp_path: Path, name: str) -> None:
    view = VIEWS[name]
    index = samples.index_of(view.cases) | dict(view.index)
    index["cases"] |= view.columns
    path = page_of_data(tmp_path / "report.html", index, [{"cases": list(view.cases)}])
    options: dict[str, Any] = {"locale": "en-US", "timezone_id": "UTC"}
    page = visit(path, view.fragment or fragment(view.cases[0]), ready=view.ready, script=STILL, **options)
    while view.unfolded and page.evaluate(UNFOLD):
        page.wait_for_timeout(50)
    for button in view.clicks:
        page.get_by_role("button", name=button).click()
    check_view(page, name)


def texts(locator: Locator) -> list[str]:
    """What is visible, white space collapsed."""
    return [" ".join(text.split()) for text in locator.all_inner_texts()]


def is_in_viewport(locator: Locator) -> bool:
    box, size = locator.bounding_box(), locator.page.viewport_size
    assert size is not None
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    """The page of the failed case."""
    return page_of_data(tmp_path / "report.html", samples.index_of([LAMP]), [{"cases": [LAMP]}])


def test_case__runs_base_and_deep_links(visit: Visit, lamp: Path) -> None:
    page = visit(lamp, fragment(LAMP), ready=READY)
    runs = page.get_by_role("group", name="runs").get_by_role("button")
    page.get_by_role("button", name="only runs that differ").click()
    assert texts(runs) == ["run 1 ✗ failed", "extra run 3 ✓ passed"]
    runs.nth(1).click()
    page.locator(".run-facts", has_text="extra run 3").wait_for()
    assert page.evaluate("location.hash").endswith("&run=confirm%3A2")
    assert page.evaluate("document.activeElement.textContent").startswith("extra run 3"), "focus stays where it was"
    assert "the conversation ended before this turn" in page.locator('[data-turn="3"]').inner_text()
    page.keyboard.press("b")
    page.locator("table.of-2").first.wait_for()
    assert page.locator(".side-base").count() == 0
    page.keyboard.press("b")
    page.locator("table.of-3").first.wait_for()
    page.keyboard.press("r")
    page.locator(".run-facts", has_text="run 1").wait_for()
    page.keyboard.press("d")
    assert page.locator("article.no-marks").count() == 1
    outcome = page.locator(".outcomes .outcome").nth(2)
    outcome.focus()
    assert outcome.locator(".tip").is_visible()
    linked_run = page.get_by_role("list", name="Last runs of the base branch").get_by_role("link").first
    assert str(linked_run.get_attribute("href")).startswith(f"{samples.SERVER}/o/r/actions/runs/")

    linked = visit(lamp, fragment(LAMP, "&run=2&turn=3&side=base"), ready=READY)
    assert linked.locator(".run-facts").inner_text().startswith("run 2:")
    assert linked.locator(".turn.to [data-turn='3'][open]").count() == 1
    assert linked.evaluate("document.activeElement.closest('[data-turn]').dataset.turn") == "3"
    assert is_in_viewport(linked.locator('[data-turn="3"] > summary'))
    link = linked.get_by_role("link", name="Link to turn 1")
    assert link.get_attribute("href") == fragment(LAMP, "&run=head%3A1&turn=1&side=base")
    link.click()
    linked.locator(".turn.to [data-turn='1'][open]").wait_for()
    unknown = visit(lamp, fragment(LAMP, "&run=9&turn=77&side=none"), ready=READY)
    assert "This run has no turn 77." in unknown.locator("article").inner_text()
    assert unknown.locator(".side-base").count() == 0


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


def test_case__joins_a_call_that_was_made_in_another_order(visit: Visit, tmp_path: Path) -> None:
    item = moved()
    page = visit(page_of_data(tmp_path / "report.html", samples.index_of([item]), [{"cases": [item]}]), fragment(item))
    rows = [row.inner_text().split() for row in page.locator(".columns tbody tr").all()]
    assert [" ".join(row) for row in rows] == [
        "Call 1 lock() lock() ✓ as expected",
        'Call 2 find(room="hall") as call 1 find(room="hall") ↕ not in this order',
        "Answer Done. Done. ✓ as expected",
    ]
    assert page.locator(".turn summary .mark").inner_text() == "✗ find called in another order"


def test_case__shows_the_traceback_at_once(visit: Visit, tmp_path: Path) -> None:
    item = samples.errored_case()
    page = visit(page_of_data(tmp_path / "report.html", samples.index_of([item]), [{"cases": [item]}]))
    page.get_by_role("link", name=item["id"].rpartition(":")[2]).click()
    assert page.get_by_role("group", name="traceback").is_visible()
    page.get_by_text("end of the agent's log").click()
    assert page.get_by_role("group", name="end of the agent's log").is_visible()


def test_case__copies_the_command_and_the_run_as_a_case(visit: Visit, lamp: Path) -> None:
    page = visit(lamp, fragment(LAMP), ready=READY)
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


def test_search__a_hit_is_opened_where_it_stands_and_marked(visit: Visit, lamp: Path) -> None:
    page = visit(lamp, "#q=welcome&" + fragment(LAMP)[1:], ready=READY)
    assert page.locator(".turn.to [data-turn='3'][open]").count() == 1
    marked = page.evaluate("[...CSS.highlights.get('hit')].map((range) => range.toString())")
    assert set(marked) == {"welcome"}
    assert is_in_viewport(page.locator("[data-turn='3'] tr.answers"))
