from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from golden_files import check
from report_samples import RESPONSE, SAMPLES, case, failed, metric, report

from agent_eval.report.renderers.results_json import results_json, results_schema
from agent_eval.results.report import Reason


def read(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


def test_results_schema__is_the_published_one() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    check("../../schemas/results.schema.json", json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_results_json__matches_its_schema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(results_schema())
    validator.check_schema(results_schema())
    validator.validate(read(results_json(SAMPLES[name]())))


def test_results_schema__refuses_what_is_not_ours() -> None:
    data = read(results_json(failed()))
    data["verdict"] = "fine"
    data["cases"][0]["metrics"][0]["scores"] = 1
    errors = list(jsonschema.Draft202012Validator(results_schema()).iter_errors(data))
    assert {tuple(error.path) for error in errors} == {("verdict",), ("cases", 0, "metrics", 0)}


def test_results_json__has_totals_and_stable_keys() -> None:
    data = read(results_json(failed()))
    assert list(data)[:4] == ["schema_version", "scoring_version", "tool_version", "verdict"]
    assert data["totals"] == {
        "cases": 6, "passed": 3, "failed": 3, "errored": 0, "not_run": 0, "quarantined": 0, "pass_rate": 0.5,
    }  # fmt: skip
    assert data["cases"][3]["duration"] == 3.75
    assert [run["score"] for run in data["cases"][3]["metrics"][0]["runs"]] == [1.0, 0.0, 1.0]
    assert results_json(failed()) == results_json(failed())
    assert results_json(failed()).endswith("}\n")


def test_results_json__carries_any_text_and_number() -> None:
    odd = case(
        "\ud800 \x00 卧室 🙇",
        "failed",
        metric(RESPONSE, float("nan"), float("inf"), threshold=0.8, details={"\udfff": float("-inf"), "n": 1e300}),
        reason=Reason(code="x", message="\ud83d"),
    )
    data = read(results_json(report("failed", [odd])))
    assert data["cases"][0]["eval_id"] == "\ufffd \x00 卧室 🙇"
    assert [run["score"] for run in data["cases"][0]["metrics"][0]["runs"]] == [None, None]
    assert data["cases"][0]["metrics"][0]["runs"][0]["details"] == {"\ufffd": None, "n": 1e300}
