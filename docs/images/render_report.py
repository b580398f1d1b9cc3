"""Renders the pictures of the report page from real runs: `make demo` is the base of `make demo-broken`.

.venv/bin/python docs/images/render_report.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = "examples/home_automation"
CASE = f"{EXAMPLES}/evals/home.evalset.json:fan_on"
PICTURES = (
    ("report-list", "", {"viewport": {"width": 1280, "height": 1040}, "color_scheme": "light"}),
    (
        "report-case",
        f"#case={quote(CASE, safe='')}",
        {"viewport": {"width": 1280, "height": 960}, "color_scheme": "dark"},
    ),
    ("report-phone", "", {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"}),
)
"""Name, fragment and the browser's options of each picture."""


def report_page(folder: Path) -> Path:
    """A report of both runs."""
    command = [sys.executable, "-m", "agent_eval"]
    for name, agent in (("main", EXAMPLES), ("agent-eval-results", f"{EXAMPLES}_broken")):
        run = [*command, "run", EXAMPLES, "--agent", agent, "--output-dir", str(folder / name)]
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
    subprocess.run([*command, "view", "--base", "main", "--output", "report.html", "--no-open"], cwd=folder, check=True)
    return folder / "report.html"


def main() -> None:
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = report_page(Path(folder))
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name, fragment, options in PICTURES:
            page = browser.new_context(**options).new_page()
            page.goto(page_file.as_uri() + fragment)
            page.locator("body[data-view]").wait_for()
            page.screenshot(path=HERE / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
