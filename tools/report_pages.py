#!/usr/bin/env python3
"""Writes report.html of the sample reports of the tests and of real runs, to look at them in a browser.

.venv/bin/python tools/report_pages.py /tmp/pages                                    # the samples
.venv/bin/python tools/report_pages.py /tmp/pages agent-eval-results other-results   # and real runs
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from agent_eval_results import FILES, RunReport
from agent_eval_results.report.html import PageSource, folder_source, write_page
from agent_eval_results.report.views import Links

ROOT = Path(__file__).resolve().parent.parent
LINKS = Links(
    server_url="https://github.com",
    repository="octo/shop",
    source_url="https://github.com/octo/shop/blob/5f0c1d2e3a4b5c6d7e8f90123456789abcdef012",
    run_url="https://github.com/octo/shop/actions/runs/71",
)


def samples() -> Mapping[str, PageSource]:
    """The reports of tests/results/report_samples.py."""
    sys.path[:0] = [str(ROOT / "tests" / name) for name in ("results", "unit", "scoring")]
    from report_samples import SAMPLES

    return {name: PageSource(report=make(), links=LINKS) for name, make in SAMPLES.items()}


def main(arguments: list[str]) -> int:
    """Writes the pages; prints the path, the size and the level of each."""
    if not arguments:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in samples().items():
        write(folder / f"{name}.html", source)
    for results in map(Path, arguments[1:]):
        report = RunReport.model_validate_json((results / FILES["results-file"]).read_bytes())
        with folder_source(report, results, links=LINKS) as source:
            write(folder / f"run-{results.name}.html", source)
    return 0


def write(path: Path, source: PageSource) -> None:
    """Writes a page and prints its size."""
    written = write_page(path, source)
    print(f"{path}: {written.size:,} bytes, level {written.level}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
