"""What is said about eval sets, alone and together with their configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import (
    BAD_EVAL_SETS,
    GOOD_EVAL_SETS,
    GOOD_SCENARIOS,
    INSTRUCTIONS,
    PERSONA,
    TURN,
    Sample,
    case,
    codes,
    eval_set,
    load,
    rubric,
    scenario,
    schema_accepts,
    turn,
)

from agent_eval.core.problem import Problem

WITH_SCENARIOS = {"criteria": {"hallucinations_v1": 0.5}}


def shown(problems: tuple[Problem, ...]) -> str:
    return "\n".join(map(str, problems))


@pytest.mark.parametrize("sample", [*GOOD_EVAL_SETS, *GOOD_SCENARIOS], ids=lambda sample: sample.name)
def test_validation__good(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, WITH_SCENARIOS if sample in GOOD_SCENARIOS else None, a=sample.value)
    assert not suite.problems, shown(suite.problems)
    assert [file.path for file in suite.files] == ["a.test.json"]
    assert schema_accepts("eval-set", sample.value)


@pytest.mark.parametrize("sample", BAD_EVAL_SETS, ids=lambda sample: sample.name)
def test_validation__bad(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, a=json.dumps(sample.value, indent=2))
    in_file = [problem for problem in suite.problems if problem.file]
    others = [problem for problem in suite.problems if not problem.file]
    assert tuple(problem.code for problem in in_file + others) == sample.codes, shown(suite.problems)
    first = in_file[0]
    if sample.path is not None:
        assert first.path == sample.path
    assert sample.says in f"{first.message}\n{first.hint}"
    assert first.line is not None
    assert first.column is not None
    assert all(problem.hint for problem in suite.problems)
    assert bool(suite.errors) == (not any(file.cases for file in suite.files))
    assert schema_accepts("eval-set", sample.value) == (not (suite.errors and sample.schema_agrees))


def test_validation__position_of_a_wrong_value_and_of_a_wrong_key(tmp_path: Path) -> None:
    text = """{
  "eval_set_id": "s",
  "eval_cases": [
    {"evalId": "ok", "conversation": [{"userContent": {"parts": [{"text": "ü"}]}, "finalResponse": {"parts": [
      {"thought": true}, {"role": "ü", "text": 5}]}, "x": 1}]}
  ]
}"""
    value, key = load(tmp_path, a=text).problems
    assert value.path == "eval_cases[0].conversation[0].finalResponse.parts[1].text"
    assert (value.line, value.column) == (5, text.splitlines()[4].index("5") + 1)
    assert value.message == "`text` must be a string, not the number 5."
    assert (key.code, key.line, key.column) == ("unknown-key", 5, text.splitlines()[4].index('"x"') + 1)


def test_validation__all_files_are_reported_in_one_pass_and_good_ones_load(tmp_path: Path) -> None:
    """Two files may have one set id."""
    good = '{"eval_cases": [\n' + json.dumps(case(eval_id="a")) + ",\n\n" + json.dumps(case(eval_id="b"))
    bad = {"a": "{", "c": {"eval_set_id": "c", "eval_cases": [{}]}, "d": [1]}
    suite = load(tmp_path, **bad, b=good + '\n], "eval_set_id": "s"}', e=eval_set(case()))
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("a.test.json", "json-truncated"),
        ("c.test.json", "missing-field"),
        ("d.test.json", "not-an-eval-set"),
    ]
    assert [file.path for file in suite.files] == ["b.test.json", "e.test.json"]
    assert suite.file_count == 5
    assert suite.files[0].lines == {"a": 2, "b": 4}


TOOL_USE, TRAJECTORY = "rubric_based_tool_use_quality_v1", "rubric_based_multi_turn_trajectory_quality_v1"
OWN, LAST = rubric("a", type="TOOL_USE_QUALITY"), rubric("a", type="TRAJECTORY_QUALITY")
CALLS = {"tool_trajectory_avg_score": 1}


def found(root: Path, config: dict[str, Any], *cases: dict[str, Any]) -> list[str]:
    """Severity, if it is no error, code and place of each finding in a file with these cases."""
    numbered = [{**one, "eval_id": f"c{number}"} for number, one in enumerate(cases)]
    problems = load(root, config, a=eval_set(*numbered)).problems
    assert all(problem.hint and problem.line for problem in problems)
    return [f"{problem.severity} {problem.code} {problem.path}".removeprefix("error ") for problem in problems]


def judged(*ids: str, metric: str = TOOL_USE, others: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A config with a metric of rubrics."""
    criterion = {"threshold": 1, "rubrics": [rubric(name) for name in ids], **fields}
    return {"criteria": {metric: criterion, **(others or {})}}


def turns(*listed: dict[str, Any]) -> dict[str, Any]:
    return case(conversation=list(listed))


def test_rubrics__as_adk_merges_them(tmp_path: Path) -> None:
    other_type = case(rubrics=[rubric("a", type="OTHER")])
    assert found(tmp_path, judged("a"), case(rubrics=[OWN]), turns(TURN, turn(rubrics=[OWN])), other_type) == [
        "duplicate-rubric-id eval_cases[0].rubrics[0].rubric_id",
        "duplicate-rubric-id eval_cases[1].conversation[1].rubrics[0].rubric_id",
    ]
    untyped, one_turn = case(rubrics=[rubric("a")]), turns(turn(rubrics=[OWN]), TURN)
    assert found(tmp_path, judged(), case(), untyped, one_turn, case(rubrics=[OWN]), scenario()) == [
        "no-rubrics eval_cases[0].conversation[0]",
        "no-rubrics eval_cases[1].conversation[0]",
        "no-rubrics eval_cases[2].conversation[1]",
        "no-rubrics eval_cases[4]",
    ]
    only_last, not_last = turns(TURN, turn(rubrics=[LAST])), turns(TURN, turn(rubrics=[LAST]), TURN)
    assert found(tmp_path, judged(metric=TRAJECTORY), only_last, not_last) == [
        "no-rubrics eval_cases[1].conversation[2]"
    ]


def test_rubrics__in_some_cases_only_leave_the_others_to_their_other_criteria(tmp_path: Path) -> None:
    """It was exit 2 for the whole repository."""
    both = judged(others=CALLS)
    assert found(tmp_path, both, case(rubrics=[OWN]), case()) == ["warning case-without-rubrics eval_cases[1]"]
    assert found(tmp_path, both, case()) == ["no-rubrics eval_cases[0].conversation[0]"], "a metric without any"


def test_rubrics__weights_and_levels_without_effect(tmp_path: Path) -> None:
    place, levels = f"criteria.{TOOL_USE}", [{"score": 0, "text": "rude"}, {"score": 1, "text": "kind"}]
    of_turn = rubric("b", type="TOOL_USE_QUALITY")
    used = case(rubrics=[OWN], conversation=[turn(rubrics=[of_turn])])
    assert found(tmp_path, judged(rubric_weights={"a": 1, "b": 2}), used) == []
    others = case(rubrics=[rubric("a", type="FINAL_RESPONSE_QUALITY"), rubric("b")])
    assert found(tmp_path, judged("polite", rubricWeights={"a": 1, "b": 1}), others) == [
        f"warning idle-rubric-weight {place}.rubricWeights.a",
        f"warning idle-rubric-weight {place}.rubricWeights.b",
    ]
    assert found(tmp_path, judged("polite", rubric_levels={"polit": levels}), case()) == [
        f"warning idle-rubric-levels {place}.rubric_levels.polit"
    ]
    weights = {"polite": 0}
    assert found(tmp_path, judged("polite", rubric_weights=weights), case(rubrics=[OWN]), case()) == [
        "zero-rubric-weights eval_cases[1]"
    ]


def test_rubrics__weights_count_every_case_of_every_file(tmp_path: Path) -> None:
    config = judged("polite", rubric_weights={"a": 1, "polit": 3})
    cases = eval_set(case(rubrics=[OWN]), case(eval_id="d"))
    [problem] = load(tmp_path, config, "a.test.json:d", a=cases).problems
    assert (problem.file, problem.hint) == ("test_config.json", "Did you mean `polite`?")
    assert problem.line is not None
    assert '"polit": 3' in (tmp_path / "test_config.json").read_text().splitlines()[problem.line - 1]
    assert codes(load(tmp_path, b="{").problems) == ["json-truncated"], "it may be in that file"


def test_custom_metrics__need_nothing_and_take_no_name_of_another(tmp_path: Path) -> None:
    def custom(name: str) -> dict[str, Any]:
        return {"criteria": {name: 3}, "custom_metrics": {name: {"code_config": {"name": "a.b"}}}}

    assert found(tmp_path, custom("mine"), scenario()) == []
    for name in ("response_match_score", "token_usage_v1"):
        assert found(tmp_path, custom(name), scenario()) == [f"custom-metric-name-taken criteria.{name}"]
    weighed = {**custom(TOOL_USE), **judged("polite", rubric_weights={"polit": 3})}
    assert found(tmp_path, weighed, case()) == [f"custom-metric-name-taken criteria.{TOOL_USE}"]


def test_references__that_the_criteria_need(tmp_path: Path) -> None:
    bare = turns({"user_content": TURN["user_content"]})
    assert found(tmp_path, {"criteria": {**CALLS, "trajectory_recall": 1}}, bare) == []
    similar = {"criteria": {"response_similarity": 1}}
    [problem] = load(tmp_path, similar, a=eval_set(turns(TURN, turn(final_response=None)))).problems
    assert problem.code == "turn-without-reference"
    assert "without a score" in (problem.hint or "")
    fixed = {"criteria": {"per_turn_user_simulator_quality_v1": 1}}
    assert found(tmp_path, fixed, case()) == ["needs-scenario eval_cases[0]"]


@pytest.mark.parametrize(
    ("metric", "options", "are_mentioned"),
    [
        ("tool_trajectory_partial", {}, True),
        ("tool_trajectory_partial", {"strict_args": True}, True),
        ("tool_trajectory_avg_score", {"args_match": "subset"}, True),
        ("tool_trajectory_avg_score", {}, False),
        ("tool_trajectory_avg_score", {"ignore_args": True, "args_match": "subset"}, False),
    ],
)
def test_omitted_args__are_mentioned_where_any_would_do(
    metric: str, options: dict[str, Any], are_mentioned: bool, tmp_path: Path
) -> None:
    bare, empty = {"name": "look_up"}, {"name": "look_up", "args": {}}
    config = {"criteria": {metric: {"threshold": 1, **options}}}
    cases = [turns(turn(intermediate_data={"tool_uses": uses})) for uses in ([empty], [empty, bare, bare])]
    mentioned = ["notice omitted-args eval_cases[1].conversation[0]"] if are_mentioned else []
    assert found(tmp_path, config, *cases) == mentioned


def test_scenarios__with_the_config_of_their_simulated_user(tmp_path: Path) -> None:
    def simulated(*personas: Any, **simulator: Any) -> list[str]:
        cases = [scenario(user_persona=persona) for persona in personas]
        found_here = found(tmp_path, {**WITH_SCENARIOS, "user_simulator_config": simulator}, *cases)
        return [line.replace(".conversation_scenario", "") for line in found_here]

    personas = (None, "EXPERT", PERSONA)
    for good in ({}, {"custom_instructions": INSTRUCTIONS}, {"maxAllowedInvocations": 1}):
        assert simulated(*personas, **good) == []
    plain = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"
    assert simulated(*personas, custom_instructions=plain) == [
        "custom-instructions-invalid eval_cases[1].user_persona",
        "custom-instructions-invalid eval_cases[2].user_persona",
    ]
    assert simulated(None, max_allowed_invocations=0) == ["scenario-without-turns eval_cases[0]"]
    wrong: dict[str, Any] = dict.fromkeys(("name", "description"), "{{ stop_signal")
    wrong |= {key: ["fine", "{{ stop_signal"] for key in ("behavior_instructions", "violation_rubrics")}
    broken = [{**PERSONA, "behaviors": [{**PERSONA["behaviors"][0], key: text}]} for key, text in wrong.items()]
    assert simulated(*broken) == [
        f"persona-template-invalid eval_cases[{number}].user_persona.behaviors[0].{place}"
        for number, place in enumerate(("name", "description", "behavior_instructions[1]", "violation_rubrics[1]"))
    ]
    [problem] = load(tmp_path, WITH_SCENARIOS, a=eval_set(scenario(user_persona="novice"))).problems
    assert (problem.code, problem.hint) == ("unknown-persona", "Did you mean `NOVICE`?")
