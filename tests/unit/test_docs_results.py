"""docs/results.md shows results as they are written, and lists every file and output."""

from __future__ import annotations

import json
import re

from docs_pages import blocks, codes, page, section

from agent_eval.report.renderers.outputs import OUTPUTS
from agent_eval.results.folder import FILES, JOURNAL
from agent_eval.results.report import CaseReport, RunReport

PAGE = page("results.md")


def test_example__is_a_case_as_written() -> None:
    [example] = blocks(PAGE, "json")

    written = json.loads(CaseReport.model_validate_json(example).model_dump_json())

    assert written == json.loads(example)


def test_tables__have_every_file_and_output() -> None:
    head = PAGE.split("## results.json")[0]
    assert set(re.findall(r"^\| `([a-z.]+)` \|", head, re.MULTILINE)) == {*FILES.values(), JOURNAL}
    assert re.search(r"^\| `logs/` \|", head, re.MULTILINE)

    cells = re.findall(r"^\|([^|]+)\|", section(PAGE, "## Outputs of the action"), re.MULTILINE)
    assert set(codes("".join(cells))) == set(OUTPUTS)


def test_results_json__has_the_parts_of_a_report() -> None:
    section = PAGE.split("## results.json")[1].split("```json")[0]
    documented = set(re.findall(r"`(\w+)(?:\[\])?`", section))

    assert {"verdict", "reasons", "totals", "cases", "files", "problems", "notices", "provenance"} <= documented
    assert {name for name in documented if name in RunReport.model_fields} >= {"schema_version"}
