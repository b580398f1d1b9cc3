"""Scenarios together with the config of their simulated user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import INSTRUCTIONS, PERSONA, eval_set, scenario

from agent_eval.core.problem import Severity
from agent_eval.evalset.loading import load_suite

PLAIN = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"


def found(tmp_path: Path, simulator: dict[str, Any], **fields: Any) -> list[tuple[str, str | None, int | None]]:
    (tmp_path / "a.test.json").write_text(json.dumps(eval_set(scenario(**fields)), indent=1), encoding="utf-8")
    config = {"criteria": {"hallucinations_v1": 0.5}, "user_simulator_config": simulator}
    (tmp_path / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    problems = load_suite(tmp_path).problems
    assert all(problem.severity is Severity.ERROR and problem.hint for problem in problems)
    return [(problem.code, problem.path, problem.line) for problem in problems]


@pytest.mark.parametrize("persona", [None, "EXPERT", PERSONA])
@pytest.mark.parametrize("simulator", [{}, {"custom_instructions": INSTRUCTIONS}, {"maxAllowedInvocations": 1}])
def test_scenarios__good(tmp_path: Path, simulator: dict[str, Any], persona: Any) -> None:
    assert found(tmp_path, simulator, user_persona=persona) == []


def test_scenarios__a_limit_that_leaves_no_turn(tmp_path: Path) -> None:
    ((code, path, line),) = found(tmp_path, {"max_allowed_invocations": 0})
    assert (code, path) == ("scenario-without-turns", "eval_cases[0].conversation_scenario")
    assert line


@pytest.mark.parametrize("persona", ["EXPERT", PERSONA])
def test_scenarios__a_persona_that_the_instructions_ignore(tmp_path: Path, persona: Any) -> None:
    ((code, path, _),) = found(tmp_path, {"custom_instructions": PLAIN}, user_persona=persona)
    assert (code, path) == ("custom-instructions-invalid", "eval_cases[0].conversation_scenario.user_persona")
    assert found(tmp_path, {"custom_instructions": PLAIN}) == []


@pytest.mark.parametrize("key", ["name", "description", "behavior_instructions", "violation_rubrics"])
def test_scenarios__every_text_of_a_behavior_is_checked(tmp_path: Path, key: str) -> None:
    wrong = "{{ stop_signal"
    behavior: dict[str, Any] = {
        **PERSONA["behaviors"][0],
        key: wrong if key in {"name", "description"} else ["fine", wrong],
    }
    ((code, path, _),) = found(tmp_path, {}, user_persona={**PERSONA, "behaviors": [behavior]})
    assert code == "persona-template-invalid"
    place = f"eval_cases[0].conversation_scenario.user_persona.behaviors[0].{key}"
    assert path == (place if isinstance(behavior[key], str) else f"{place}[1]")
