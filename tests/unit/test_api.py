"""The Python API without an engine."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from report_samples import SAMPLES
from source_samples import session

import agent_eval
from agent_eval.api import EvalResult, option_text, setting_named
from agent_eval.api._agent_evaluator import agent_location
from agent_eval.pytest_plugin._items import pattern
from agent_eval_results import AgentChange


def test_import__of_the_package_and_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import pytest, sys, agent_eval, agent_eval.pytest_plugin; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pydantic', 'numpy', 'rich', 'jinja2'}), "
        "[name for name in sys.modules if name.startswith('agent_eval')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert loaded == "[] ['agent_eval', 'agent_eval.pytest_plugin']\n"


def test_package__exports_what_it_lists() -> None:
    assert all(hasattr(agent_eval, name) for name in agent_eval.__all__)
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = agent_eval.evalute


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("passed", 0, None),
        ("failed", 1, agent_eval.EvalFailed),
        ("invalid", 2, agent_eval.EvalInvalid),
        ("inconclusive", 3, agent_eval.EvalInconclusive),
        ("inconclusive", 0, None),
    ],
)
def test_result__is_true_if_the_run_is_green_and_check_raises_the_verdict(
    name: str, code: int, error: type[AssertionError] | None
) -> None:
    result = EvalResult(report=SAMPLES[name]().model_copy(update={"exit_code": code}))

    assert bool(result) is (code == 0)
    assert repr(result) == f"EvalResult(verdict='{name}', exit_code={code})"
    assert all(bool(case) is case.passed for case in result.cases.values())
    if error is None:
        result.check()
        return
    with pytest.raises(error, match=f"{name} .exit code {code}") as raised:
        result.check()
    assert result.text in str(raised.value)


def test_result__is_the_same_with_and_without_await_and_finds_cases() -> None:
    # asyncio of Python 3.12 asks whether the coroutine is true, which only a run of the engine can say.
    result = EvalResult(report=SAMPLES["passed"]().model_copy(update={"exit_code": 0}))

    async def gathered() -> list[EvalResult]:
        return [await result, await asyncio.create_task(result), *(await asyncio.gather(result))]

    assert asyncio.run(result) is result
    assert asyncio.run(gathered()) == [result] * 3
    change = AgentChange(code="model", path="home", agent="home", message="model a to b")
    result.report.agent_changes = [change]
    assert (result.agent_changes, result.causes) == ([change], [])
    first = result.report.cases[0]
    assert result.cases[first.case_id].report is first
    assert result.cases[first.eval_id].scores
    with pytest.raises(KeyError, match="is no case of this run"):
        _ = result.cases["nonexistent"]
    with pytest.raises(KeyError, match="has no metric 'x'"):
        result.cases[first.case_id].score("x")
    with pytest.raises(KeyError, match="No case has the metric 'x'"):
        result.score("x")


def test_setting_named__refuses() -> None:
    for name, message in {
        "agnt": "There is no setting agnt. Did you mean agent",
        "judge_api_key": "Set the variable AGENT_EVAL_JUDGE_API_KEY",
        "mode": "mode has no effect here",
        "paths": "name the eval files as arguments",
    }.items():
        with pytest.raises(agent_eval.InvalidOptions, match=message):
            setting_named(name)


def test_option_text__of_python_values() -> None:
    values = {"num_runs": (3, "3"), "fail-fast": (False, "false"), "config": (Path("a/b"), "a/b")}
    for name, (value, text) in values.items():
        assert option_text(setting_named(name), value) == text
    for patterns, texts in (("*.json", ("*.json",)), (["a", Path("b")], ("a", "b"))):
        assert option_text(setting_named("exclude"), patterns) == texts
    with pytest.raises(NotImplementedError, match="artifact_service, eval_set_results_manager: not supported"):
        agent_eval.evaluate("pkg", "data", artifact_service=object(), eval_set_results_manager=1)


def test_agent_location__imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "pkg" / "weather"
    package.mkdir(parents=True)
    for file in (package.parent / "__init__.py", package / "__init__.py", package / "agent.py"):
        file.write_text("raise AssertionError('imported')", "utf-8")
    (package.parent / "tools.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    assert agent_location("pkg.weather", tmp_path) == "lib/pkg/weather"
    assert agent_location("pkg.weather.agent", tmp_path) == "lib/pkg/weather/agent.py"
    for name in ("pkg.tools", "pkg.rain", "agents/weather", "recorded:answers.json"):
        assert agent_location(name, tmp_path) == name


def test_selection_pattern__names_every_id() -> None:
    for eval_id, glob in {"a": "a", "a[1]": "a[1]", "a, b[1]": "a??b?1]", " a ": "?a?"}.items():
        assert pattern(eval_id) == glob


def cases(path: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["eval_cases"]
    return listed


class Session(BaseModel):
    """As google-adk has it, with the fields that matter."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any]
    events: list[dict[str, Any]]


def test_save_session__dict_object_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_API_KEY", "Turn off the")
    file = tmp_path / "evals" / "home.evalset.json"
    assert agent_eval.save_session(session(), file, root=tmp_path, eval_id="first") == ["first"]
    [case] = cases(file)
    assert case["session_input"] == {"app_name": "home", "user_id": "u", "state": {"room": "attic"}}
    assert case["conversation"][0]["user_content"]["parts"] == [{"text": "***CRM_API_KEY*** lamp"}]
    monkeypatch.delenv("CRM_API_KEY")

    raw = session()
    made = Session(id="s", app_name="home", user_id="u", state={}, events=raw["events"])
    saved = agent_eval.save_session(made, "evals/home.evalset.json", root=tmp_path, state={"k": 1})
    assert saved == ["turn_off_the_lamp"]
    assert cases(file)[1]["session_input"]["state"] == {"k": 1}

    (tmp_path / "all.json").write_text(json.dumps([session(id="a"), session(id="b")]), "utf-8")
    save_all = functools.partial(agent_eval.save_session, "all.json", file, root=tmp_path)
    with pytest.raises(agent_eval.SaveError, match="has 2 conversations"):
        save_all()
    assert save_all(session="all") == []
    assert save_all(session="b", eval_id="first", replace=True) == ["first"]
    assert [case["eval_id"] for case in cases(file)] == ["first", "turn_off_the_lamp"]
    assert cases(file)[0]["conversation"][0]["user_content"]["parts"] == [{"text": "Turn off the lamp"}]


def test_save_session__refuses(tmp_path: Path) -> None:
    file, state = "a.evalset.json", "state can't be written as JSON"
    refused: list[tuple[Any, str, dict[str, Any], str]] = [
        (session([]), file, {}, "has no turn with an answer"),
        ({"x": 1}, file, {}, "not a session of ADK"),
        (session(), "a.json", {}, "does not end in"),
        *((session(), file, {"state": {"x": value}}, state) for value in (math.nan, object())),
    ]
    for source, name, options, says in refused:
        with pytest.raises(agent_eval.SaveError, match=says):
            agent_eval.save_session(source, name, root=tmp_path, **options)
    with pytest.raises(TypeError, match="source must be a path"):
        agent_eval.save_session(5, file, root=tmp_path)
    assert list(tmp_path.iterdir()) == []
