#!/usr/bin/env python3
"""Writes report.html of the sample reports of the tests and of real runs, to look at them in a browser.

.venv/bin/python tools/report_pages.py /tmp/pages                                    # the samples
.venv/bin/python tools/report_pages.py /tmp/pages agent-eval-results other-results   # and real runs
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from agent_eval.core.files import read_lines
from agent_eval.report.html import PageSource, write_page
from agent_eval.report.views import Links
from agent_eval.results import FILES, Recording, RunReport

ROOT = Path(__file__).resolve().parent.parent
LINKS = Links(
    server_url="https://github.com",
    repository="org/shop",
    source_url="https://github.com/org/shop/blob/5f0c1d2e3a4b5c6d7e8f90123456789abcdef012",
    run_url="https://github.com/org/shop/actions/runs/71",
)


def samples() -> Mapping[str, PageSource]:
    """The reports of tests/unit/report_samples.py."""
    sys.path.insert(0, str(ROOT / "tests" / "unit"))
    from report_samples import SAMPLES

    return {name: PageSource(report=make(), links=LINKS) for name, make in SAMPLES.items()}


def of_run(results: Path) -> PageSource:
    """The source of a page for an output directory; its eval cases are read from the repository if unchanged."""
    from agent_eval.commands._stored_run import unchanged_cases

    report = RunReport.model_validate_json((results / FILES["results-file"]).read_bytes())
    recordings: dict[str, list[Recording]] = {}
    path = results / FILES["recordings-file"]
    for line in read_lines(path) if path.exists() else ():
        recording = Recording.model_validate_json(line)
        recordings.setdefault(recording.case_id, []).append(recording)
    cases = unchanged_cases(report.cases, Path.cwd())
    return PageSource(
        report=report, links=LINKS, recordings=lambda case_id: recordings.get(case_id, ()), cases=cases.get
    )


def main(arguments: list[str]) -> int:
    """Writes the pages; prints the path, the size and the level of each."""
    if not arguments:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    sources = dict(samples()) | {f"run-{Path(name).name}": of_run(Path(name)) for name in arguments[1:]}
    for name, source in sources.items():
        path = folder / f"{name}.html"
        written = write_page(path, source)
        print(f"{path}: {written.size:,} bytes, level {written.level}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
