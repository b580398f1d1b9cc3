"""docs/results.md shows results as they are written, and names every file and every output."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_eval.report.renderers.outputs import OUTPUTS
from agent_eval.results.folder import FILES, JOURNAL
from agent_eval.results.report import CaseReport, RunReport

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_example_is_a_case_as_we_write_it() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    written = json.loads(CaseReport.model_validate_json(example).model_dump_json())

    assert written == json.loads(example)


def test_every_file_and_every_output_is_described() -> None:
    head = PAGE.split("## results.json")[0]
    assert set(re.findall(r"^\| `([a-z.]+)` \|", head, re.MULTILINE)) == {*FILES.values(), JOURNAL}
    assert re.search(r"^\| `logs/` \|", head, re.MULTILINE)

    table = PAGE.split("## Outputs of the action")[1].split("##")[0]
    assert set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))) == set(OUTPUTS)


def test_the_parts_of_a_report_are_described() -> None:
    section = PAGE.split("## results.json")[1].split("```json")[0]
    told = set(re.findall(r"`(\w+)(?:\[\])?`", section))

    assert {"verdict", "reasons", "totals", "cases", "files", "problems", "notices", "provenance"} <= told
    assert {name for name in told if name in RunReport.model_fields} >= {"schema_version"}
