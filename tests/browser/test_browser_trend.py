"""The trend of the base branch as charts and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import case_samples as samples
import pytest
from chromium import until
from report_pages_of_data import Visit, page_of_data

from agent_eval.gate.stats import wilson

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
