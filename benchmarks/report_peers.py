#!/usr/bin/env python3
"""Compares report.html with the report pages of inspect_ai, Playwright and Allure for one suite of three turns a case.

    .venv/bin/python benchmarks/report_peers.py [--cases 1000] [--runs 5] [--only inspect --only allure]

Each tool has the same conversations as its own stored results: recordings, .eval log, blob report, allure-results.
It is timed from there to its page, its start included; then the page is opened in Chromium. Peers are installed below
`.bench/peers`. Needs uv, npm, a package index, and Chromium or Chrome; a peer that can't be installed is reported with
its error.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import resource
import shutil
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import PROJECT
from peer_pages import PEERS, Tool, Unavailable, make_suite, ours, run

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""Pages may ask for a server of theirs; how long its name takes to fail says nothing about them."""
NOTE_LIST = """([row, folded]) => {
  const look = () => {
    if (!document.querySelector(row)) {
      if (folded) document.querySelector(folded)?.click();
      return requestAnimationFrame(look);
    }
    requestAnimationFrame(() => requestAnimationFrame(() => { window.listed = performance.now(); }));
  };
  look();
}"""
OPEN = """async ([link, shown]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const begin = performance.now();
  document.querySelector(link).click();
  while (!document.querySelector(shown)) {
    if (performance.now() - begin > 60000) throw new Error(`no ${shown}`);
    await frame();
  }
  await frame();
  return performance.now() - begin;
}"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a tool's page costs."""

    seconds: float
    cpu: float
    size: int
    files: int
    listed: float
    """Milliseconds from the navigation to the list, median."""
    opened: float
    """Milliseconds from the click to the open case, median."""


class QuietServer(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def look(tool: Tool, folder: Path, runs: int) -> tuple[float, float]:
    """Milliseconds until the list, and from a click to the first case, in new browser profiles; medians.

    All pages come from a server on loopback, since inspect_ai's needs one.
    """
    from playwright.sync_api import Error, sync_playwright

    handler = functools.partial(QuietServer, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    listed, opened = [], []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox", OFFLINE])
        for _ in range(runs):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.set_default_timeout(120_000)
            page: Any = context.new_page()
            page.add_init_script(f"({NOTE_LIST})({json.dumps([tool.row, tool.folded])})")
            page.goto(f"http://127.0.0.1:{server.server_port}/{tool.start}")
            while not (milliseconds := page.evaluate("window.listed || performance.now() > 120000 && -1")):
                page.wait_for_timeout(10)
            if milliseconds < 0:
                raise Unavailable(f"no {tool.row} in the page after two minutes")
            listed.append(milliseconds)
            try:
                opened.append(page.evaluate(OPEN, [tool.row, tool.shown]))
            except Error as error:
                raise Unavailable(str(error)) from error
            context.close()
        browser.close()
    server.shutdown()
    server.server_close()
    return statistics.median(listed), statistics.median(opened)


def measure(tool: Tool, folder: Path, runs: int) -> Measured:
    """Makes the page `runs` times, and opens it as often."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tool.prepare(folder)
    times, cpus = [], []
    for _ in range(runs):
        shutil.rmtree(folder / tool.page, ignore_errors=True)
        (folder / tool.page).parent.mkdir(exist_ok=True)
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        run(tool.command, folder, tool.environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(time.perf_counter() - begin)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    sizes = [path.stat().st_size for path in (folder / tool.page).rglob("*") if path.is_file()]
    listed, opened = look(tool, folder / tool.page, runs)
    return Measured(
        seconds=statistics.median(times),
        cpu=statistics.median(cpus),
        size=sum(sizes),
        files=len(sizes),
        listed=listed,
        opened=opened,
    )


def row(name: str, got: Measured, base: Measured) -> str:
    """A row of the table, each figure with its ratio to ours."""

    def ratio(value: float, own: float) -> str:
        return "" if got is base else f" ({value / own:.1f}x)"

    cells = (
        name,
        f"{got.size / 1e6:.1f} MB{ratio(got.size, base.size)}",
        str(got.files),
        f"{got.seconds:.1f} s{ratio(got.seconds, base.seconds)}",
        f"{got.cpu:.1f} s{ratio(got.cpu, base.cpu)}",
        f"{got.listed / 1000:.2f} s{ratio(got.listed, base.listed)}",
        f"{got.opened:.0f} ms{ratio(got.opened, base.opened)}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Prints a row for each tool. Exit code 1 if a tool could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5, help="how often each page is made and opened; medians are shown")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench", help="where the peers are installed")
    parser.add_argument("--only", action="append", choices=PEERS, help="a peer; repeatable")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve() / "peers"
    suite = cache / "work" / "suite"
    shutil.rmtree(cache / "work", ignore_errors=True)
    suite.mkdir(parents=True)
    make_suite(suite, arguments.cases)
    print(f"{arguments.cases:,} cases, medians of {arguments.runs}; load before: {os.getloadavg()[0]:.1f}")
    print("| page | size | files | made in | of it CPU | list usable | first case |\n|---|--:|--:|--:|--:|--:|--:|")
    base = measure(ours(suite), cache / "work" / "agent-eval", arguments.runs)
    print(row("agent-eval", base, base), flush=True)
    failed = False
    for name, make in PEERS.items():
        if arguments.only and name not in arguments.only:
            continue
        try:
            tool = make(cache, suite)
            print(row(tool.name, measure(tool, cache / "work" / name, arguments.runs), base), flush=True)
        except Unavailable as error:
            failed = True
            print(f"| {name} | not measured: {error} |", flush=True)
    print(f"Load after: {os.getloadavg()[0]:.1f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
