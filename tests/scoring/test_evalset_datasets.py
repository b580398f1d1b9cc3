"""Datasets of agents-cli and their configs become eval sets and criteria like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dataset_samples import CONFIGS, DATASETS, FOLDER, LIMITS, POOL, asked, project
from evalset_samples import codes, seen, write
from golden_files import check

from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import LoadedFile, Suite


def read(root: Path, *, cases: bool) -> str:
    """What a project amounts to: the cases as they are run, or the criteria, and what is said."""
    suite = load_suite(root)
    lines = [seen(suite)]
    for file in suite.files:
        for case in file.cases if cases else ():
            run = case.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude={"dataset_case"})
            lines.append(f"  {json.dumps(run)}\n")
        for each in () if cases else file.config.criteria:
            code = " code" if "code" in file.config.custom_metrics.get(each.name, {}) else ""
            options = {key: value for key, value in each.options.items() if value and key in ("backend", "algorithm")}
            what = f"{each.name}: {each.metric}{code}, threshold {each.threshold}, {each.direction}"
            lines.append(f"  {what}{f', {options}' if options else ''}\n")
    return "".join(lines)


@pytest.mark.parametrize("kind", ["datasets", "configs", "limits"])
def test_load_suite__datasets_and_configs_of_agents_cli(kind: str, tmp_path: Path) -> None:
    blocks = []
    for number, (name, value) in enumerate({"datasets": DATASETS, "configs": CONFIGS, "limits": LIMITS}[kind].items()):
        given = {"datasets": {"dataset": value}, "configs": {"config": value}, "limits": {"limits": value}}[kind]
        blocks.append(f"== {name}\n{read(project(tmp_path / str(number), **given), cases=kind == 'datasets')}")
    check(f"golden_dataset_{kind}.txt", re.sub("Known metrics: .*?\\. ", "", "\n".join(blocks)))


def found(root: Path, *targets: str, **options: Any) -> list[str]:
    return [file.path for file in load_suite(root, targets, **options).files]


def test_discover__datasets_by_place_and_content(tmp_path: Path) -> None:
    root = project(tmp_path)
    case = {"eval_cases": [asked("a", "Hi")]}
    write(root / "eval/datasets/go.json", case)
    write(root / FOLDER / "datasets/deeper/more.json", case)
    write(root / FOLDER / "datasets/schema.json", {"type": "object"})
    write(root / "artifacts/traces/traces_1.json", case)
    write(root / "eval/eval_config.json", POOL)
    (root / "eval/f.py").write_bytes((root / FOLDER / "f.py").read_bytes())
    named = f"{FOLDER}/datasets/basic-dataset.json"
    assert found(root) == ["eval/datasets/go.json", named, f"{FOLDER}/datasets/deeper/more.json"]
    assert found(root, f"{FOLDER}/datasets") == [named, f"{FOLDER}/datasets/deeper/more.json"]
    assert found(root, "eval/**/*.json") == ["eval/datasets/go.json"]
    assert found(root, exclude=["deeper/"]) == ["eval/datasets/go.json", named]
    assert found(root, "artifacts/traces/traces_1.json", config=root / FOLDER / "eval_config.yaml")


def file_of(root: Path) -> LoadedFile:
    suite = load_suite(root)
    assert not suite.errors, suite.errors
    [file] = suite.files
    return file


def test_config_of_a_dataset__the_nearest_of_each_kind(tmp_path: Path) -> None:
    """An eval_config.json is ADK's or agents-cli's, by its content; ADK's defaults don't apply to datasets."""
    root = project(tmp_path)
    (root / FOLDER / "eval_config.yaml").unlink()
    assert codes(load_suite(root).errors) == ["no-criteria"]
    write(root / FOLDER / "eval_config.json", POOL)
    assert [each.name for each in file_of(root).config.criteria] == ["count"]
    write(root / FOLDER / "datasets/eval_config.json", {"criteria": {"count": 2, "response_match_score": 0.5}})
    config = file_of(root).config
    assert {each.name: each.threshold for each in config.criteria} == {"count": 2, "response_match_score": 0.5}
    other = root / "other.yaml"
    write(other, json.dumps({"metrics_to_run": ["safety"]}))
    suite = load_suite(root, config=other)
    assert suite.errors and "count" in suite.errors[0].message, "thresholds of metrics that it does not have"
    write(root / FOLDER / "evalsets/old.evalset.json", {"eval_set_id": "old", "eval_cases": []})
    assert "count" not in str(load_suite(root, [f"{FOLDER}/evalsets"]).problems), "ADK's files have ADK's config"


def judged(suite: Suite) -> dict[str, list[str]]:
    from agent_eval_scoring.evalset.checks import criteria_of

    return {
        case.eval_id: [each.name for each in criteria_of(file.config, case)]
        for file in suite.files
        for case in file.cases
    }


def test_criteria_of__a_case_without_a_reference_is_judged_by_the_others(tmp_path: Path) -> None:
    root = project(tmp_path, config={**POOL, "metrics_to_run": ["count", "final_response_match"]})
    assert judged(load_suite(root)) == {"open": ["count"], "price": ["count", "final_response_match"]}
    root = project(tmp_path, config={"metrics_to_run": ["final_response_match"]})
    assert codes(load_suite(root).errors) == ["needs-reference"], "nothing else would judge it"
