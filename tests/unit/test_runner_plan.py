"""What is planned of loaded files, and when a recorded run still stands for a new one."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import loaded
from judged_samples import ScriptedModel, failure
from runner_doubles import session_input, turn

from agent_eval.core.problem import Severity
from agent_eval.criteria.custom import CustomMetric
from agent_eval.criteria.judged.judge import Judge
from agent_eval.criteria.registry import INFORMATIONAL
from agent_eval.evalset.models.schema import (
    ConversationScenario,
    CriterionConfig,
    EvalCase,
    LoadedFile,
)
from agent_eval.runner.fingerprints import function_source
from agent_eval.runner.plan import Plan, make_plan, source_fingerprint

RESPONSE = CriterionConfig(metric="response_match_score", threshold=0.8)


def case(eval_id: str = "one", message: str = "hello", **facts: Any) -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=[turn(message)], **facts)


def plan(*files: LoadedFile, source: str = "s", num_runs: int = 1) -> Plan:
    return make_plan(files, {file.path: "agent" for file in files}, {"agent": source}, num_runs)


def test_plan__every_selected_case_in_order() -> None:
    files = (("b.test.json", "xy"), ("a.test.json", "x"))
    two = [loaded(path, *map(case, names), criteria=(RESPONSE,)) for path, names in files]
    result = plan(*two, num_runs=2)
    assert [planned.case_id for planned in result.cases] == ["b.test.json:x", "b.test.json:y", "a.test.json:x"]
    assert [planned.run_id(run) for planned, run in result.runs()][:3] == [
        "b.test.json:x#1",
        "b.test.json:x#2",
        "b.test.json:y#1",
    ]
    assert result.cases[1].line == 4
    assert [criterion.name for criterion in result.cases[0].criteria] == [
        "response_match_score",
        *(criterion.name for criterion in INFORMATIONAL),
    ]
    assert result.problems == ()


def test_make_plan__a_rubric_metric_judges_only_the_cases_that_have_rubrics() -> None:
    rubrics = CriterionConfig(metric="rubric_based_tool_use_quality_v1", threshold=0.8)
    own = {"rubric_id": "r", "rubric_content": {"text_property": "It asks."}, "type": "TOOL_USE_QUALITY"}
    judged = EvalCase.model_validate({**case("judged").model_dump(), "rubrics": [own]})
    file = loaded("a.test.json", judged, case("bare"), criteria=(RESPONSE, rubrics))
    result = make_plan(
        [file],
        {file.path: "agent"},
        {"agent": "s"},
        1,
        judge=Judge(model=ScriptedModel(script=lambda _: failure("malformed"))),
    )
    names = [{criterion.name for criterion in planned.criteria} for planned in result.cases]
    assert ["rubric_based_tool_use_quality_v1" in each for each in names] == [True, False]
    assert all("response_match_score" in each for each in names)


def test_plan__what_cannot_be_run_is_refused_and_not_left_out() -> None:
    scenario = EvalCase(
        eval_id="sim", conversation_scenario=ConversationScenario(starting_prompt="hi", conversation_plan="buy")
    )
    judge = CriterionConfig(metric="safety_v1", threshold=0.8)
    result = plan(
        loaded("a.test.json", case(), criteria=(RESPONSE, judge)),
        loaded(
            "b.test.json", case("fine"), scenario, criteria=(RESPONSE,), user_simulator_config={"type": "llm_audio"}
        ),
    )
    assert [
        (problem.code, problem.file, problem.line) for problem in result.problems if problem.severity is Severity.ERROR
    ] == [
        ("metric-unsupported", "test_config.json", None),
        ("scenario-unsupported", "b.test.json", 4),
    ]
    assert all(problem.hint for problem in result.problems)
    assert make_plan([loaded("a.test.json", case())], {}, {}, 1).cases == (), "a file without an agent"


def test_plan__a_scenario_is_planned_and_its_plan_decides_what_a_resumed_run_may_reuse() -> None:
    def scenario(wish: str) -> EvalCase:
        return EvalCase(
            eval_id="sim", conversation_scenario=ConversationScenario(starting_prompt="hi", conversation_plan=wish)
        )

    buy, sell, other = (
        plan(loaded("a.test.json", scenario(wish), criteria=(), user_simulator_config=config)).cases[0]
        for wish, config in (("buy", None), ("sell", None), ("buy", {"model": "another"}))
    )
    assert len({buy.fingerprint, sell.fingerprint, other.fingerprint}) == 3
    assert other.user_config == {"model": "another"}


def fingerprint(of: EvalCase, source: str = "s") -> str:
    return plan(loaded("a.test.json", of), source=source).cases[0].fingerprint


@pytest.mark.parametrize(
    "other",
    [
        case(message="hello again"),
        case(session_input=session_input()),
        case(session_input=session_input(state={"room": "kitchen"})),
        EvalCase(eval_id="one", conversation=[turn("hello"), turn("hello")]),
    ],
)
def test_plan__a_fingerprint_changes_with_what_the_agent_gets(other: EvalCase) -> None:
    assert fingerprint(other) != fingerprint(case())
    assert fingerprint(case()) != fingerprint(case(), source="changed")
    expected = EvalCase(eval_id="one", conversation=[turn("hello", "another answer")])
    assert fingerprint(case()) == fingerprint(expected), "what is only expected does not count"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "agent.py").write_text("root_agent = 1", encoding="utf-8")
    (tmp_path / "tools" / "lamp.py").write_text("on = 1", encoding="utf-8")
    (tmp_path / ".env").write_text("MODEL=a", encoding="utf-8")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


@pytest.mark.parametrize("path", ["agent.py", "tools/lamp.py", ".env", "prompt.md", "root_agent.yaml", "uv.lock"])
def test_plan__a_changed_source_changes_the_fingerprint(agent: Path, path: str) -> None:
    before, beside = source_fingerprint(agent, agent), source_fingerprint(agent, agent / "tools")
    (agent / path).write_text("something else", encoding="utf-8")
    assert source_fingerprint(agent, agent) != before
    assert source_fingerprint(agent, agent / "tools") != beside, "an agent may import any module of its repository"


@pytest.mark.parametrize(
    "path",
    [
        "evals/home.test.json",
        "evals/test_config.json",
        ".git/config.json",
        ".venv/lib/adk.py",
        "__pycache__/agent.py",
        "node_modules/x/package.json",
        "picture.png",
        "out/results.json",
        "env/lib/adk.py",
    ],
)
def test_plan__other_files_do_not_change_the_fingerprint(agent: Path, path: str) -> None:
    before = source_fingerprint(agent, agent, skip=[agent / "out"])
    (agent / path).parent.mkdir(parents=True, exist_ok=True)
    (agent / path).write_text("{}", encoding="utf-8")
    assert source_fingerprint(agent, agent, skip=[agent / "out"]) == before


def test_plan__what_cannot_be_read_is_passed_over(agent: Path) -> None:
    os.symlink(agent / "gone.py", agent / "dangling.py")
    os.mkfifo(agent / "pipe.py")
    assert source_fingerprint(agent, agent) == source_fingerprint(agent, agent)
    assert source_fingerprint(agent / "nowhere", agent / "nowhere") == source_fingerprint(agent, None)


POLITE = CriterionConfig(metric="polite", threshold=0.5, options={"words": ["please"]})


def planned_custom(
    *, without_code: Collection[str] = (), source: str = "s", code: str | None = "agent.metrics.polite"
) -> Plan:
    custom = {} if code is None else {"polite": {"code_config": {"name": code}}}
    file = loaded("a.test.json", case(), criteria=(POLITE,), custom_metrics=custom)
    return make_plan([file], {"a.test.json": "agent"}, {}, 1, without_code=without_code, sources=lambda *_: source)


def test_plan_custom__a_custom_metric_is_scored_by_its_function() -> None:
    [only] = planned_custom().cases

    assert only.criteria[0] == CustomMetric(
        name="polite", threshold=0.5, function="agent.metrics.polite", options={"words": ["please"]}
    )


@pytest.mark.parametrize(
    ("code", "without_code", "problem"),
    [
        ("agent.metrics.polite", {"agent"}, "custom-metric-without-agent"),  # a recording has no environment
        (None, (), "criterion-package-broken"),
    ],
)
def test_plan_custom__a_metric_that_nothing_can_score_is_refused(
    code: str | None, without_code: Collection[str], problem: str
) -> None:
    result = planned_custom(code=code, without_code=without_code)

    assert result.cases == ()
    assert [(found.code, found.file) for found in result.problems] == [(problem, "test_config.json")]


def test_plan_custom__scores_of_another_function_or_another_source_are_not_compared() -> None:
    prints = {
        planned_custom(source=source, code=code).cases[0].identities["polite"].fingerprint
        for source, code in (("s", "agent.metrics.polite"), ("t", "agent.metrics.polite"), ("s", "agent.metrics.rude"))
    }

    assert len(prints) == 3


def test_plan_custom__the_source_of_a_function_is_found_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "agents" / "home"
    (package / "metrics").mkdir(parents=True)
    (tmp_path / "shared.py").write_text("raise SystemExit")
    (package / "polite.py").write_text("raise SystemExit(1)")
    (package / "metrics" / "__init__.py").write_text("raise SystemExit(2)")

    def found(function: str) -> str:
        return function_source(function, tmp_path, package)

    assert found("agent.polite.fn") == found("home.polite.fn") == found("agents.home.polite.fn") != ""
    assert len({found("agent.polite.fn"), found("home.metrics.fn"), found("shared.fn"), ""}) == 4
    assert found("nowhere.fn") == found("fn") == ""
