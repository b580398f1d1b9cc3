"""results.json can be read again."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from report_samples import SAMPLES

from agent_eval import results
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.report import RunReport


def test_results__has_all_that_it_lists_and_nothing_else() -> None:
    tree = ast.parse(Path(results.__file__).read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    stars = [node.module for node in imported if node.module and node.names[0].name == "*"]
    assert sorted(stars) == sorted(f"agent_eval.results.{module}" for module in results._MODULES)
    assert hasattr(results, "RunReport")
    assert not hasattr(results, "RunRaport")


@pytest.mark.parametrize("name", SAMPLES)
def test_report__what_was_written_is_read_again(name: str) -> None:
    written = results_json(SAMPLES[name]())
    read = RunReport.model_validate_json(written)
    assert results_json(read) == written


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"hostile"}))  # whose lone surrogates pydantic can't write
def test_report__it_is_written_as_pydantic_would_write_it(name: str) -> None:
    assert results_json(SAMPLES[name]()) == SAMPLES[name]().model_dump_json(indent=1) + "\n"


def test_report__counts_are_always_computed_again() -> None:
    facts = json.loads(results_json(SAMPLES["failed"]()))
    facts["totals"]["passed"] = 1_000
    read = RunReport.model_validate(facts)
    assert read.totals == SAMPLES["failed"]().totals


def test_report__what_an_earlier_version_wrote_is_read_without_its_former_fields() -> None:
    facts = json.loads(results_json(SAMPLES["failed"]()))
    former = {"opened": [{"agent": "home", "paths": ["home/agent.py"]}], "unaffected": [{"file": "a", "cases": 1}]}
    assert results_json(RunReport.model_validate({**facts, **former})) == results_json(SAMPLES["failed"]())
