"""What people read of a run, in each medium. `UPDATE_GOLDEN=1 pytest tests/unit/test_report_golden.py` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from comparison_samples import SITUATIONS, Situation
from golden_files import check, check_names
from report_samples import SAMPLES

from agent_eval.report.renderers._console import console
from agent_eval.report.renderers.annotations import annotation_commands
from agent_eval.report.renderers.junit import junit_xml
from agent_eval.report.renderers.markdown import comment_markdown, summary_markdown
from agent_eval.results.report import RunReport

FILES = {"summary": "agent-eval-results/summary.md", "results": "agent-eval-results/results.json"}
SOURCE = "https://github.com/example/repo/blob/5f0c1d2"

OF_RUNS: Mapping[str, Callable[[RunReport], str]] = {
    "console-80.txt": lambda report: console(report, width=80, files=FILES),
    "console-120.txt": lambda report: console(report, width=120, files=FILES),
    "summary.md": lambda report: summary_markdown(report, source_url=SOURCE, files=FILES),
    "junit.xml": junit_xml,
    "annotations.txt": lambda report: "".join(f"{line}\n" for line in annotation_commands(report)),
}
OF_PULL_REQUESTS: Mapping[str, Callable[[Situation], str]] = {
    "comment.md": lambda sample: comment_markdown(sample.report, links=sample.links, warnings=sample.warnings),
    "summary.md": lambda sample: summary_markdown(
        sample.report, links=sample.links, warnings=sample.warnings, limit=150_000
    ),
    "annotations.txt": lambda sample: OF_RUNS["annotations.txt"](sample.report),
    "console.txt": lambda sample: console(sample.report, width=110),
}
IN_ALL_MEDIA = {"flaky", "import-error", "loosened", "mixed", "no-baseline", "replayed-in-part", "two-causes"}
"""Of the other situations, only the comment is kept."""
GOLDEN: list[tuple[str, str, str]] = [
    *(("golden", name, text) for name in SAMPLES for text in OF_RUNS if (name, text) != ("many", "junit.xml")),
    *(
        ("golden_comment", name, text)
        for name in SITUATIONS
        for text in OF_PULL_REQUESTS
        if text == "comment.md" or name in IN_ALL_MEDIA
    ),
]


@pytest.mark.parametrize(("folder", "name", "text"), GOLDEN)
def test_golden__texts(folder: str, name: str, text: str) -> None:
    samples: Mapping[str, Callable[[], Any]] = SAMPLES if folder == "golden" else SITUATIONS
    texts: Mapping[str, Callable[[Any], str]] = OF_RUNS if folder == "golden" else OF_PULL_REQUESTS
    check(f"{folder}/{name}.{text}", texts[text](samples[name]()))


@pytest.mark.parametrize("folder", ["golden", "golden_comment"])
def test_golden__no_file_is_left_over(folder: str) -> None:
    check_names(folder, (f"{name}.{text}" for where, name, text in GOLDEN if where == folder))
