"""What people read, kept as files: a change of a text is seen, and reviewed, as such.

`UPDATE_GOLDEN=1 pytest tests/unit/test_report_golden.py` writes them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from report_samples import SAMPLES

from agent_eval.report.renderers._console import console
from agent_eval.report.renderers.annotations import annotation_commands
from agent_eval.report.renderers.junit import junit_xml
from agent_eval.report.renderers.summary import summary_markdown
from agent_eval.results.report import RunReport

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
FILES = {"summary": "agent-eval-results/summary.md", "results": "agent-eval-results/results.json"}
SOURCE = "https://github.com/example/repo/blob/5f0c1d2"

TEXTS: Mapping[str, Callable[[RunReport], str]] = {
    "console-80.txt": lambda report: console(report, width=80, files=FILES),
    "console-120.txt": lambda report: console(report, width=120, files=FILES),
    "summary.md": lambda report: summary_markdown(report, source_url=SOURCE, files=FILES),
    "junit.xml": junit_xml,
    "annotations.txt": lambda report: "".join(f"{line}\n" for line in annotation_commands(report)),
}
CHOSEN = [(name, text) for name in SAMPLES for text in TEXTS if (name, text) != ("many", "junit.xml")]


@pytest.mark.parametrize(("name", "text"), CHOSEN)
def test_golden__golden(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.{text}"
    actual = TEXTS[text](SAMPLES[name]())
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(actual, encoding="utf-8", newline="\n")
    assert file.exists(), "UPDATE_GOLDEN=1 writes it"
    assert actual == file.read_bytes().decode("utf-8")


def test_golden__no_file_is_left_over() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{text}" for name, text in CHOSEN}
