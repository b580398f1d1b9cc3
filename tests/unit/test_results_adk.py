"""ADK's results of an eval set: as a recording, and written for `adk web`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from export_samples import LIGHTS, stored
from source_samples import ANSWERED, ASKED, adk_result

from agent_eval.agents.protocol import AgentFailure, SessionRequest
from agent_eval.agents.recorded import RecordedAgent, check_recording
from agent_eval.cli import main
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import tool_calls
from agent_eval.results import AdkStatus, FileReport, adk_set_result
from agent_eval_workbench.exports.adk_web import adk_exports, adk_json

REAL = Path(__file__).parents[1] / "data" / "adk_web" / "home.evalset_result.json"


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def request(run: int = 0, eval_id: str = "lamp_off") -> SessionRequest:
    return SessionRequest(eval_set_id="other", eval_id=eval_id, run=run, app_name="a", user_id="u")


@pytest.mark.parametrize("form", ["object", "camelCase", "string", "two results of one case are its runs"])
async def test_recorded__answers_from_a_result(form: str, tmp_path: Path) -> None:
    value: Any = adk_result()
    expected = [ANSWERED]
    if form == "camelCase":
        [only] = adk_set_result(value).model_dump(by_alias=True)["evalCaseResults"]
        value = {"evalSetResultId": "x", "evalCaseResults": [only]}
    elif form.startswith("two"):
        value["eval_case_results"].append(json.loads(json.dumps(value["eval_case_results"][0]).replace(ANSWERED, "2")))
        expected.append("2")
    path = write(tmp_path / "x.evalset_result.json", json.dumps(value) if form == "string" else value)
    assert check_recording("recorded:x", path, []) == []
    agent = RecordedAgent(path)
    await agent.start()
    for run, answer in enumerate(expected):
        any_run = run if len(expected) == 2 else 3
        turn = await (await agent.open(request(any_run))).send(user_message(ASKED), timeout=1)
        assert text_of(turn.final_response) == answer
        assert [call.args for call in tool_calls(turn.intermediate_data)] == [{"on": False}]
    with pytest.raises(AgentFailure, match="has no case"):
        await agent.open(request(2, "lamp_off" if len(expected) == 2 else "other"))
    await agent.close()


def test_models__keys_of_another_version_are_ignored_and_mistakes_are_not() -> None:
    value = adk_result()
    turn = value["eval_case_results"][0]["eval_metric_result_per_invocation"][0]
    turn["actual_invocation"]["new_field"] = {"a": 1}
    turn["actual_invocation"]["intermediate_data"]["tool_uses"][0] |= {"another": 1}
    turn["new_too"] = 1
    result = adk_set_result(value)
    assert result.eval_case_results[0].eval_metric_result_per_invocation[0].actual_invocation.invocation_id == "e-1"
    turn["actual_invocation"]["user_content"] = 3
    with pytest.raises(ValueError, match=r"eval_case_results\.0\.eval_metric_result_per_invocation\.0"):
        adk_set_result(value)


def test_models__deprecated_fields_only() -> None:
    old = {
        "eval_set_file": "lights",
        "eval_id": "lamp_off",
        "final_eval_status": 1,
        "eval_metric_results": [
            [{"metric_name": "response_match_score", "threshold": 0.8}, {"score": 0.9, "eval_status": 1}]
        ],
        "session_id": "s",
    }
    [case] = adk_set_result({"evalCaseResults": [old]}).eval_case_results
    assert case.eval_set_id == "lights"
    [metric] = case.overall_eval_metric_results
    assert (metric.metric_name, metric.threshold, metric.score) == ("response_match_score", 0.8, 0.9)
    assert metric.eval_status is AdkStatus.PASSED


def test_export__a_result_per_eval_file_and_run() -> None:
    run = stored()
    exports = list(adk_exports(run, {"evals/home.test.json": "home app"}))
    assert len({export.name for export in exports}) == len(exports) >= 1
    first = exports[0]
    assert first.name.startswith("home_app_home_1790000000.")
    value = adk_json(first.result)
    assert value["eval_set_result_name"] + ".evalset_result.json" == first.name
    lights, crash = value["eval_case_results"][:2]
    assert (lights["eval_id"], lights["final_eval_status"], crash["final_eval_status"]) == ("lights", 2, 3)
    [turn, _] = lights["eval_metric_result_per_invocation"]
    assert turn["actual_invocation"]["intermediate_data"]["tool_uses"][0]["name"] == "set"
    authors = [event["author"] for event in lights["session_details"]["events"]]
    assert authors == ["user", "home", "home", "home app", "user", "home app"]
    assert all(metric["eval_status"] in (1, 2, 3) for metric in lights["overall_eval_metric_results"])
    assert adk_set_result(value) == adk_set_result(adk_json(adk_set_result(value)))
    assert list(adk_exports(run, {})) == []
    assert LIGHTS.startswith(first.file)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with results of a run and an agent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents" / "home").mkdir(parents=True)
    (tmp_path / "agent-eval-results").mkdir()
    report = stored().report
    files = [FileReport(file="evals/home.test.json", eval_set_id="home", agent="agents/home")]
    report = report.model_copy(update={"files": files})
    (tmp_path / "agent-eval-results" / "results.json").write_text(report.model_dump_json(), encoding="utf-8")
    return tmp_path


def test_export_adk__writes_to_the_agent_that_ran_or_the_named_one(results: Path) -> None:
    (results / "other").mkdir()
    for arguments, agent in (((), "agents/home"), (("--agent", "other"), "other"), ((), "agents/home")):
        assert main(["export", "adk", *arguments]) == 0
        written = list((results / agent / ".adk" / "eval_history").glob("*.evalset_result.json"))
        assert len(written) == 1, "a second export writes the same file"
        assert written[0].name.startswith(f"{Path(agent).name}_home_")


@pytest.mark.parametrize("fault", ["no agent", "link", "outside", "no such directory"])
def test_export_adk__refusals_write_nothing(
    fault: str, results: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    path = results / "agent-eval-results" / "results.json"
    arguments: list[str] = []
    if fault == "link":
        (results / "agents" / "home" / ".adk").symlink_to(elsewhere)
    elif fault == "no such directory":
        arguments = ["--agent", "missing"]
    else:
        agent = "recorded:x.json" if fault == "no agent" else f"../{elsewhere.name}"
        path.write_text(path.read_text("utf-8").replace("agents/home", agent), encoding="utf-8")
    assert main(["export", "adk", *arguments]) == 2
    assert capsys.readouterr().err
    assert not list(results.rglob("*.evalset_result.json"))
    assert not list(elsewhere.iterdir())


def test_real_result__is_read(tmp_path: Path) -> None:
    result = adk_set_result(json.loads(REAL.read_text(encoding="utf-8")))
    [case] = result.eval_case_results
    assert case.eval_id == "room_is_remembered"
    assert [
        len(tool_calls(turn.actual_invocation.intermediate_data)) for turn in case.eval_metric_result_per_invocation
    ] == [1, 1, 1]
