#!/usr/bin/env python3
"""Measures how fast report.html is in Chromium: until the list is usable, then a case, a filter, an order, a search.

    .venv/bin/python benchmarks/report.py 5000 --keep /tmp/pages
    .venv/bin/python benchmarks/report_browser.py /tmp/pages/*.html [--runs 10]

"Usable" is from the start of the navigation, with a new browser profile each time, until the list has been drawn.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NOTE_USABLE = """new MutationObserver((_, observer) => {
  if (!document.body?.dataset.view) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.usable = performance.now(); }));
}).observe(document, {subtree: true, childList: true, attributes: true, attributeFilter: ['data-view']});"""
TIMED = """const frame = () => new Promise((done) => requestAnimationFrame(done));
  const timed = async (act, isDone) => {
    const begin = performance.now();
    act();
    while (!isDone()) await frame();
    await frame();
    return performance.now() - begin;
  };
  const field = document.querySelector('#search');
  const before = document.querySelector('.result')?.textContent;"""
STEPS = {
    "case": """timed(
      () => document.querySelectorAll('.case-link')[2].click(), () => document.querySelector('.case h2'))""",
    "list": """timed(() => { location.hash = ''; }, () => document.querySelector('tr.row')?.isConnected)""",
    "filter": """timed(
      () => { field.value = 'status:failed shop_1'; field.dispatchEvent(new Event('input')); },
      () => document.querySelector('.result').textContent !== before)""",
    "sort": """timed(
      () => { location.hash = 'sort=-seconds'; }, () => document.querySelector('[aria-sort=descending]'))""",
    "search": """timed(
      () => { field.value = 'zzzz'; document.querySelector('form.search').requestSubmit(); },
      () => document.querySelector('[role=status]').textContent.startsWith('Searched'))""",
}
"""In this order; each is an expression of milliseconds."""


def measure(page_file: Path, runs: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of each step, by run: as a reader waits, and of them those in which the page's thread had a core.

    The second figure says something on a busy machine, too.
    """
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    measured: dict[str, list[tuple[float, float]]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _ in range(runs):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_init_script(NOTE_USABLE)
            page: Any = context.new_page()
            session = context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})

            def cpu(session: Any = session) -> float:
                metrics = session.send("Performance.getMetrics")["metrics"]
                return 1000 * float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))

            page.goto(page_file.as_uri())
            page.locator("body[data-view]").wait_for()
            while not (usable := page.evaluate("window.usable")):
                page.wait_for_timeout(10)
            measured.setdefault("usable", []).append((usable, cpu()))
            for name, step in STEPS.items():
                begin = cpu()
                waited = page.evaluate(f"async () => {{ {TIMED} return {step}; }}")
                measured.setdefault(name, []).append((waited, cpu() - begin))
            context.close()
        browser.close()
    return measured


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    for page_file in arguments.pages:
        print(f"{page_file.name}: {page_file.stat().st_size / 1e6:.1f} MB, {arguments.runs} runs")
        for name, values in measure(page_file.resolve(), arguments.runs).items():
            waited, cpu = ([value[place] for value in values] for place in (0, 1))
            figures = f"median {percentile(waited, 0.5):6.0f} ms, p95 {percentile(waited, 0.95):6.0f} ms"
            print(f"  {name:8} {figures}; CPU median {percentile(cpu, 0.5):6.0f} ms")


if __name__ == "__main__":
    main()
