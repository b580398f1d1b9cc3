"""What is planned of loaded files, and when a recorded run still stands for a new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from judged_samples import ScriptedModel, failure
from runner_doubles import session_input, turn

from agent_eval.core.problem import Severity
from agent_eval.criteria.judged.judge import Judge
from agent_eval.criteria.registry import INFORMATIONAL
from agent_eval.evalset.models.schema import (
    ConversationScenario,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalSet,
    LoadedFile,
    SelectedCase,
)
from agent_eval.runner.plan import Plan, make_plan, source_fingerprint

RESPONSE = CriterionConfig(metric="response_match_score", threshold=0.8)


def loaded(
    path: str, *cases: EvalCase, criteria: tuple[CriterionConfig, ...] = (RESPONSE,), **config: Any
) -> LoadedFile:
    return LoadedFile(
        path=path,
        eval_set=EvalSet(eval_set_id=path, eval_cases=list(cases)),
        config=EvalConfig(source="test_config.json", criteria=criteria, **config),
        cases=tuple(SelectedCase(case=case, line=3 + number) for number, case in enumerate(cases)),
    )


def case(eval_id: str = "one", message: str = "hello", **facts: Any) -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=[turn(message)], **facts)


def plan(*files: LoadedFile, source: str = "s", num_runs: int = 1) -> Plan:
    return make_plan(files, {file.path: "agent" for file in files}, {"agent": source}, num_runs)


def test_plan__every_selected_case_in_order() -> None:
    result = plan(loaded("b.test.json", case("x"), case("y")), loaded("a.test.json", case("x")), num_runs=2)
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
        loaded("b.test.json", case("fine"), scenario, user_simulator_config={"type": "llm_audio"}),
    )
    assert [
        (problem.code, problem.file, problem.line) for problem in result.problems if problem.severity is Severity.ERROR
    ] == [
        ("metric-unsupported", "test_config.json", None),
        ("scenario-unsupported", "b.test.json", 4),
    ]
    assert all(problem.hint for problem in result.problems)


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


def test_plan__a_file_without_an_agent_is_not_planned() -> None:
    assert make_plan([loaded("a.test.json", case())], {}, {}, 1).cases == ()


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


def test_plan__a_fingerprint_does_not_change_with_what_is_only_expected() -> None:
    other = EvalCase(eval_id="one", conversation=[turn("hello", "another answer")])
    assert fingerprint(other) == fingerprint(case())


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "agent.py").write_text("root_agent = 1", encoding="utf-8")
    (tmp_path / "tools" / "lamp.py").write_text("on = 1", encoding="utf-8")
    (tmp_path / ".env").write_text("MODEL=a", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("path", ["agent.py", "tools/lamp.py", ".env", "prompt.md", "root_agent.yaml", "uv.lock"])
def test_plan__a_changed_source_changes_the_fingerprint(agent: Path, path: str) -> None:
    before = source_fingerprint(agent, agent)
    (agent / path).write_text("something else", encoding="utf-8")
    assert source_fingerprint(agent, agent) != before


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
    ],
)
def test_plan__other_files_do_not_change_the_fingerprint(agent: Path, path: str) -> None:
    before = source_fingerprint(agent, agent, skip=[agent / "out"])
    (agent / path).parent.mkdir(parents=True, exist_ok=True)
    (agent / path).write_text("{}", encoding="utf-8")
    assert source_fingerprint(agent, agent, skip=[agent / "out"]) == before


def test_plan__a_virtual_environment_of_any_name_is_no_source(agent: Path) -> None:
    before = source_fingerprint(agent, agent)
    (agent / "env" / "lib").mkdir(parents=True)
    (agent / "env" / "pyvenv.cfg").touch()
    (agent / "env" / "lib" / "adk.py").touch()
    assert source_fingerprint(agent, agent) == before


def test_plan__what_cannot_be_read_is_passed_over(agent: Path) -> None:
    os.symlink(agent / "gone.py", agent / "dangling.py")
    os.mkfifo(agent / "pipe.py")
    assert source_fingerprint(agent, agent) == source_fingerprint(agent, agent)
    assert source_fingerprint(agent / "nowhere", agent / "nowhere") == source_fingerprint(agent, None)


def test_source_fingerprint__covers_modules_beside_the_agent(tmp_path: Path) -> None:
    """An agent may import any module of its repository."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "agent.py").write_text("from shared import answers")
    (tmp_path / "shared" / "answers.py").write_text("RIGHT = True")
    before = source_fingerprint(tmp_path, tmp_path / "bot")

    (tmp_path / "shared" / "answers.py").write_text("RIGHT = False")

    assert source_fingerprint(tmp_path, tmp_path / "bot") != before
