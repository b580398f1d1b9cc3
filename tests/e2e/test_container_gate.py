"""The gate in the container, started as GitHub starts it: the four exit codes and everything that is printed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from container_engine import Engine
from container_pull_requests import changed_in, reachable, strangers
from fake_gemini import Answer, FakeGemini, Fault
from gate_runs import eval_set
from github_runner import SECRETS, Finished, Runner
from lxml import etree

from agent_eval.agents.sandbox.uids import STATE_DIR
from agent_eval.report.renderers.outputs import FILE_OUTPUTS, OUTPUTS
from agent_eval.results import JOURNAL

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

Workspace = Callable[..., Path]


def check_files(done: Finished) -> None:
    """Whatever the verdict: the files are there, agree with each other, and belong to the workspace's owner."""
    results = done.results()
    assert set(done.outputs) == set(OUTPUTS)
    assert done.outputs["verdict"] == results["verdict"]
    assert {name: done.outputs[name] for name in ("total", "passed", "failed", "errored")} == {
        "total": str(results["totals"]["cases"]),
        **{name: str(results["totals"][name]) for name in ("passed", "failed", "errored")},
    }
    for name in FILE_OUTPUTS:
        assert not Path(done.outputs[name]).is_absolute(), "later steps run outside of the container"
        assert (done.workspace / done.outputs[name]).is_file(), name
    suites = etree.parse(done.workspace / done.outputs["junit-file"]).getroot()
    assert len(suites.findall(".//testcase")) == results["totals"]["cases"]
    summary = (done.workspace / done.outputs["summary-file"]).read_text("utf-8")
    assert done.summary.strip() == summary.strip() != ""
    assert {line["case_id"] for line in done.recordings()} <= {case["case_id"] for case in results["cases"]}
    folder = done.workspace / "agent-eval-results"
    assert strangers(folder) == [], "self-hosted runners could not clean up"
    # Only outputs and the summary are written; the workspace is as it was.
    assert [done.file_commands[name] for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")] == ["", "", ""]
    assert changed_in(done.workspace) == []
    written = "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())
    for secret in SECRETS.values():
        assert secret not in written + done.log


def test_gate__passes_the_example(runner: Runner, workspace: Workspace) -> None:
    done = runner.step(workspace("home_automation"))
    assert done.exit_code == 0, done.log
    assert done.outputs["verdict"] == "passed"
    assert int(done.outputs["passed"]) == int(done.outputs["total"]) > 10
    assert done.outputs["pass-rate"] == "1"
    assert [command for command in done.commands if command.name in {"error", "warning"}] == []
    check_files(done)


def test_gate__catches_the_broken_tool(runner: Runner, workspace: Workspace) -> None:
    root = workspace("home_automation", "home_automation_broken")
    done = runner.step(root, inputs={"paths": "home_automation", "agent": "home_automation_broken"})
    assert done.exit_code == 1, done.log
    assert done.outputs["verdict"] == "failed"
    assert 0 < float(done.outputs["pass-rate"]) < 1
    check_files(done)

    failed = [case for case in done.results()["cases"] if case["status"] == "failed"]
    assert len(failed) == 12, "as outside of the container, see test_examples.py"
    errors = [command for command in done.commands if command.name == "error"]
    assert 0 < len(errors) <= 10
    placed = {(case["file"], str(case["line"])) for case in failed}
    assert {
        (error.properties["file"], error.properties["line"]) for error in errors if "file" in error.properties
    } <= placed
    for error in errors:
        if "file" in error.properties:
            lines = (root / error.properties["file"]).read_text("utf-8").splitlines()
            assert int(error.properties["line"]) <= len(lines), "annotations stand in files of the workspace"
    for case in failed:
        assert case["eval_id"].replace("_", "") in done.summary.replace("\\", "").replace("_", "")


def test_gate__refuses_invalid_files_before_anything_runs(runner: Runner, workspace: Workspace) -> None:
    files = {
        "home_automation/evals/broken.test.json": '{\n  "eval_set_id": "x",\n  "eval_cases": [],,\n}\n',
        "home_automation/agent.py": "raise SystemExit('the agent was started')\nroot_agent = None\n",
    }
    root = workspace("home_automation", files=files)
    done = runner.step(root)
    assert done.exit_code == 2, done.log
    assert done.outputs["verdict"] == "invalid"
    assert "the agent was started" not in done.log
    (error,) = [command for command in done.commands if command.name == "error" and "file" in command.properties]
    assert error.properties["file"] == "home_automation/evals/broken.test.json"
    assert error.properties["line"] == "3"
    assert "broken.test.json" in done.summary

    dashes = runner.step(root, inputs={"paths": "home_automation/evals", "min-pass-rate": "7"})
    assert (dashes.exit_code, "min-pass-rate" in dashes.log) == (2, True), "it arrives in spite of its dashes"


RECORDED = json.dumps(eval_set("answers", {"greeting": [("hello", "Hello!")]}))
CONFIG = '{"criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"num_samples": 3}}}}'
JUDGED = {"answers.json": RECORDED, "evals/a.evalset.json": RECORDED, "evals/test_config.json": CONFIG}
"""Recorded answers that a judge scores."""
INPUTS = {"agent": "recorded:answers.json", "judge-api-key": "the-judges-key"}


def test_gate__is_inconclusive_when_the_provider_gives_no_answer(
    runner: Runner, workspace: Workspace, engine: Engine
) -> None:
    address, name = reachable(engine)
    root = workspace(files=JUDGED)
    with FakeGemini(lambda _: Fault(kind=401, message="no such key"), address=address) as judge:
        inputs = {**INPUTS, "judge-base-url": f"http://{name}:{judge.port}"}
        done = runner.step(root, inputs=inputs)
        lenient = runner.step(root, inputs={**inputs, "on-inconclusive": "pass"})

    assert done.exit_code == 3, done.log
    assert (done.outputs["verdict"], done.outputs["errored"], done.outputs["failed"]) == ("inconclusive", "1", "0")
    assert "401" in done.summary
    assert lenient.exit_code == 0, lenient.log
    assert lenient.outputs["verdict"] == "inconclusive"


def test_gate__reports_what_it_has_when_the_job_is_cancelled(runner: Runner, workspace: Workspace) -> None:
    cases = json.dumps(eval_set("slow", {"now": [("now", "done")], "never": [("wait", "done")]}))
    agent = (FIXTURES / "waits/agent.py").read_text("utf-8")
    root = workspace(files={"slow/agent.py": agent, "slow/slow.test.json": cases})

    journal = root / "agent-eval-results" / JOURNAL
    stopped = []

    def stop_when_recorded(name: str) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if journal.exists() and '"eval_id":"now"' in journal.read_text("utf-8").replace(" ", ""):
                break
            time.sleep(0.2)
        stopped.append(time.monotonic())
        runner.engine.run("stop", "--time", "60", name)

    done = runner.step(root, beside=stop_when_recorded)
    assert time.monotonic() - stopped[0] < 45, "it ended at once, not when the engine killed it"
    assert done.exit_code == 3, done.log
    assert {case["eval_id"]: case["status"] for case in done.results()["cases"]} == {
        "now": "passed",
        "never": "not_run",
    }
    check_files(done)


def test_gate__leaves_the_judges_replies_to_the_step_that_caches_them(
    runner: Runner, workspace: Workspace, engine: Engine
) -> None:
    address, name = reachable(engine)
    inputs = {**INPUTS, "judge-cache": "/github/runner_temp/agent-eval-judge-cache"}
    with FakeGemini(lambda _: Answer.text('{"reasoning": "so", "verdict": "valid"}'), address=address) as judge:
        inputs |= {"judge-base-url": f"http://{name}:{judge.port}"}
        done = runner.step(workspace(files=JUDGED), inputs=inputs)

    assert done.exit_code == 0, done.log
    replies = done.temp / "agent-eval-judge-cache"
    assert len(list(replies.rglob("*.json"))) == judge.stats.requests == 2
    assert strangers(replies) == [], "the cache step runs as the runner's user"


def test_gate__is_the_command_line_when_it_gets_arguments(runner: Runner, workspace: Workspace) -> None:
    done = runner.step(workspace("home_automation"), "validate", "home_automation")
    assert done.exit_code == 0, done.log
    assert done.file_commands["GITHUB_OUTPUT"] == ""
    assert not (done.workspace / "agent-eval-results").exists()


def test_gate__gitlab_runs_the_command_line(engine: Engine, image: str, agent_cache: str, workspace: Workspace) -> None:
    root = workspace("home_automation")
    options = ["--workdir", "/builds/agent", "--entrypoint", "", "-e", "CI=true", "-e", "GITLAB_CI=true"]
    volumes = ["-v", f"{root}:/builds/agent", "-v", f"{agent_cache}:{STATE_DIR}"]
    said = engine.check("run", "--rm", *options, *volumes, image, "sh", "-c", "agent-eval run", timeout=300)
    assert etree.parse(root / "agent-eval-results/junit.xml").getroot().findall(".//testcase")
    assert "::error" not in said
