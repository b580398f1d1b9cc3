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
STEPS = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const timed = async (act, isDone) => {
    const begin = performance.now();
    act();
    while (!isDone()) await frame();
    await frame();
    return performance.now() - begin;
  };
  const field = document.querySelector('#search');
  const typed = (text) => timed(
    () => { field.value = text; field.dispatchEvent(new Event('input')); },
    () => document.querySelector('.result').textContent !== before);
  const links = [...document.querySelectorAll('.case-link')];
  const results = {};
  results.case = await timed(() => links[2].click(), () => document.querySelector('.case h2'));
  await timed(() => { location.hash = ''; }, () => document.querySelector('tr.row')?.isConnected);
  let before = document.querySelector('.result').textContent;
  results.filter = await typed('status:failed shop_1');
  results.sort = await timed(() => { location.hash = 'sort=-seconds'; },
    () => document.querySelector('[aria-sort=descending]'));
  field.value = 'zzzz';
  results.search = await timed(() => document.querySelector('form.search').requestSubmit(),
    () => document.querySelector('[role=status]').textContent.startsWith('Searched'));
  return results;
}"""


def measure(page_file: Path, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each step, by run."""
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    measured: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _ in range(runs):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_init_script(NOTE_USABLE)
            page: Any = context.new_page()
            page.goto(page_file.as_uri())
            page.locator("body[data-view]").wait_for()
            while not (usable := page.evaluate("window.usable")):
                page.wait_for_timeout(10)
            for name, milliseconds in ({"usable": usable} | page.evaluate(STEPS)).items():
                measured.setdefault(name, []).append(milliseconds)
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
            print(f"  {name:8} median {percentile(values, 0.5):6.0f} ms, p95 {percentile(values, 0.95):6.0f} ms")


if __name__ == "__main__":
    main()
