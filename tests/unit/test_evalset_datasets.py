"""Datasets of agents-cli and their configs become eval sets and criteria like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dataset_samples import (
    CONFIGS,
    DATASETS,
    EVENTS,
    FOLDER,
    GROUPS,
    HISTORY,
    INSTANCES,
    LIMITS,
    POOL,
    RUBRICS,
    asked,
    event,
    project,
    talked,
)
from evalset_samples import codes, seen, write
from golden_files import check

from agent_eval.cli import main
from agent_eval_agents.adk.events import to_invocation
from agent_eval_agents.adk_rest._normalise import normalised
from agent_eval_agents.messages import TurnFacts
from agent_eval_scoring.criteria import Conversation
from agent_eval_scoring.criteria.code import instance_of
from agent_eval_scoring.evalset.json import parse_document
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import LoadedFile, Suite
from agent_eval_scoring.evalset.parse import read_eval_file
from agent_eval_workbench.commands.migrate import migrate


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


PARTS = {"datasets": "dataset", "configs": "config", "limits": "limits", "rubrics": "config"}
KINDS = {"datasets": DATASETS, "configs": CONFIGS, "limits": LIMITS, "rubrics": RUBRICS}


@pytest.mark.parametrize("kind", KINDS)
def test_load_suite__datasets_and_configs_of_agents_cli(kind: str, tmp_path: Path) -> None:
    blocks = []
    for number, (name, value) in enumerate(KINDS[kind].items()):
        given: dict[str, Any] = {PARTS[kind]: value}
        if kind == "rubrics":
            given["dataset"] = DATASETS["rubrics and a context"]
        what = read(project(tmp_path / str(number), **given), cases=kind in ("datasets", "rubrics"))
        blocks.append(f"== {name}\n{what}")
    check(f"golden_dataset_{kind}.txt", re.sub("Known metrics: .*?\\. ", "", "\n".join(blocks)))


def found(root: Path, *targets: str, **options: Any) -> list[str]:
    return [file.path for file in load_suite(root, targets, **options).files]


def test_load_suite__says_that_a_judge_does_not_see_the_history(tmp_path: Path) -> None:
    dataset = {"eval_cases": [asked("a", "Hi"), talked("b", HISTORY, [event("user", "Now?")])]}
    metrics = ["multi_turn_task_success", "safety"]
    suite = load_suite(project(tmp_path, dataset=dataset, config={"metrics_to_run": metrics}))
    [warning] = [problem for problem in suite.problems if "without its history" in problem.message]
    assert "`multi_turn_task_success_v1`" in warning.message and "`b`" in warning.message and not suite.errors


def test_load_suite__a_metric_of_rubrics_whose_cases_have_none(tmp_path: Path) -> None:
    """It would score nothing, and the case would pass by no metric."""
    metrics = {**POOL, "metrics_to_run": ["final_response_quality"]}
    [error] = load_suite(project(tmp_path / "alone", dataset=DATASETS["messages"], config=metrics)).errors[:1]
    assert error.code == "no-rubrics" and "`final_response_quality`" in error.message
    assert error.hint == "Give the case `rubric_groups`: only Google's service makes up rubrics."
    with_rubrics = asked("b", "Hi", rubric_groups={"tone": GROUPS["tone"]})
    both = {"eval_cases": [asked("a", "Hi"), with_rubrics]}
    metrics["metrics_to_run"] = ["count", "final_response_quality"]
    suite = load_suite(project(tmp_path / "beside", dataset=both, config=metrics))
    warned = [problem.path for problem in suite.problems if problem.code == "case-without-rubrics"]
    assert not suite.errors and warned == ["eval_cases[0]"]


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


def test_discover__a_dataset_elsewhere_is_not_to_be_renamed(tmp_path: Path) -> None:
    case = {"eval_cases": [asked("a", "Hi")]}
    write(tmp_path / "evals/cases.json", case)
    [problem] = load_suite(tmp_path).problems
    assert problem.hint is not None and "datasets, move it below `eval/datasets/`" in problem.hint
    write(tmp_path / "evals/a.evalset.json", {"eval_set_id": "a", "eval_cases": []})
    [misnamed] = [problem for problem in load_suite(tmp_path).problems if problem.code == "eval-file-misnamed"]
    assert "move it below `eval/datasets/`" in str(misnamed.hint)


def test_migrate__a_dataset_and_what_is_lost(tmp_path: Path) -> None:
    first = asked("a", "Hi", "Hello.", context="c", rubric_groups=GROUPS)
    cases = [first, talked("b", HISTORY, [event("user", "Now?")], answer="Yes.")]
    old, new = write(tmp_path / "old.json", {"eval_cases": cases}), tmp_path / "new.evalset.json"
    problems = migrate(old, new)
    assert codes(problems) == ["migration-loses", "migration-loses"]
    assert "`context` and `rubric_groups`" in problems[0].message
    assert "its history" in problems[1].message
    suite = load_suite(tmp_path, [str(new)])
    assert not suite.errors and [case.eval_id for case in suite.files[0].cases] == ["a", "b"]
    assert "dataset_case" not in new.read_text("utf-8") and "events" not in new.read_text("utf-8")


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


@pytest.mark.parametrize("name", [name for name, value in DATASETS.items() if not isinstance(value, str)])
def test_instance_of__what_agents_cli_gives_a_metric(name: str) -> None:
    """As measured; a dataset with a mistake that only the gate reports is left out, and the old answer of traces."""
    expected = json.loads(INSTANCES.read_text("utf-8"))["instances"][name]
    document, _ = parse_document(json.dumps(DATASETS[name]).encode(), "a.json")
    assert document is not None
    file, _ = read_eval_file(document, session=None)
    if file is None:
        assert expected in (None, [None], [None, expected and expected[-1]])
        return
    said = [normalised(event) for event in EVENTS]
    for case, instance in zip(file.cases.values(), expected, strict=True):
        if case.conversation is not None:
            turn = to_invocation(said, case.conversation[0].user_content, TurnFacts())
            given = instance_of(Conversation(case=case, actual=[turn], expected=case.conversation))
            assert given == (instance | {"response": given["response"]} if name == "traces" else instance)


def test_load_suite__datasets_with_the_keys_of_other_formats(tmp_path: Path) -> None:
    """As public repositories write them: a set's id beside agents-cli's cases, and texts without a content."""
    turns = [{"events": [{"author": "user", "text": "Hi"}]}]
    cases = [{"eval_case_id": "hi", "agent_data": {"turns": turns}, "expected": {"action": "allow"}}]
    suite = load_suite(project(tmp_path, dataset={"eval_set_id": "a", "description": "b", "eval_cases": cases}))
    assert [(problem.code, problem.hint) for problem in suite.errors] == [
        ("unknown-key", "Remove it: agents-cli refuses it, too."),
        ("unknown-key", "Remove it: agents-cli refuses it, too."),
        (
            "unknown-key",
            'An event has an `author`, and `content`, {"parts": [{"text": "..."}]}, or `state_delta`.',
        ),
    ]


def test_load_suite__a_config_of_another_tool(tmp_path: Path) -> None:
    suite = load_suite(project(tmp_path, config={"dataset": "a.json", "criteria": [{"metric": "llm_judge"}]}))
    assert codes(suite.errors) == ["no-criteria"]
    assert suite.errors[0].hint is not None
    assert suite.errors[0].hint.endswith("agents-cli does not read `dataset`, `criteria`.")


@pytest.mark.parametrize("config", [{"criteria": [{"id": "kind"}]}, [], {"criteria": "kind"}])
def test_load_suite__a_test_config_of_another_shape(tmp_path: Path, config: Any) -> None:
    write(project(tmp_path) / FOLDER / "test_config.json", config)
    assert "wrong-type" in codes(load_suite(tmp_path).errors)


def test_migrate__a_directory_without_conformance_tests(tmp_path: Path) -> None:
    [problem] = migrate(tmp_path, tmp_path / "new.evalset.json")
    assert problem.code == "source-unreadable" and problem.message.startswith("No conformance test (`spec.yaml`)")


def test_migrate__keeps_an_existing_file_and_says_by_which_name_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.test.json").write_text('[{"query": "Hi", "reference": "Hello."}]', "utf-8")
    Path("new.evalset.json").write_text("mine", "utf-8")
    assert main(["migrate", "old.test.json", "new.evalset.json"]) == 2
    assert Path("new.evalset.json").read_text("utf-8") == "mine"
    assert "exists already" in capsys.readouterr().out
    assert main(["migrate", "old.test.json", "new.json"]) == 0
    assert "Wrote new.json. Rename it to NAME.evalset.json" in capsys.readouterr().out
