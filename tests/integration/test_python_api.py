"""The Python API with the engine, on recorded answers, called as people call ADK's and VeADK's evaluators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from recorded_evals import AGENT, write_evals

import agent_eval

pytest_plugins = ["pytester"]

UNAWAITED = '''
import asyncio, pathlib, unittest
import pytest
{imported}

DATA = pathlib.Path(__file__).parent / "data"

def test_plain_function():
    """Test the agent's basic ability via the session input."""
    AgentEvaluator.evaluate("{agent}", str(DATA), num_runs=1)

def test_path_object(): AgentEvaluator.evaluate("{agent}", DATA / "home.test.json", 1, output_file="out/scores.csv")

class TestUnit(unittest.TestCase):
    def test_unittest(self):
        result = AgentEvaluator.evaluate("{agent}", str(DATA), num_runs=1)
        self.assertIsNotNone(result)

@pytest.mark.asyncio
async def test_forgotten_in_a_coroutine():
    AgentEvaluator.evaluate("{agent}", str(DATA), num_runs=1)

def test_of_the_fixture(adk_evals):
    adk_evals.evaluate("{agent}", str(DATA), num_runs=1)
'''
"""Five calls that nobody awaits, as in google/adk-samples of May 2025. With google-adk all of them are green."""
AWAITED = """
import asyncio
import pytest
{imported}

@pytest.mark.asyncio
async def test_awaited():
    await AgentEvaluator.evaluate("{agent}", "data", num_runs=1)

def test_asyncio_run():
    asyncio.run(AgentEvaluator.evaluate("{agent}", "data", num_runs=1))
"""


def answered(root: Path, *, right: bool) -> None:
    (root / "answers.json").unlink(missing_ok=True)
    write_evals(root, "data/home.test.json", {"lamp": ["lamp"] if right else ["heater"]})


@pytest.mark.slow
def test_agent_evaluator__one_changed_line_makes_unawaited_calls_fail(pytester: pytest.Pytester, root: Path) -> None:
    """The changed line is the import."""
    imported = "from agent_eval import AgentEvaluator"
    answered(root, right=False)
    pytester.makepyfile(test_unawaited=UNAWAITED.format(imported=imported, agent=AGENT))
    pytester.makepyfile(test_awaited=AWAITED.format(imported=imported, agent=AGENT))

    wrong = pytester.runpytest_subprocess()

    wrong.assert_outcomes(failed=7)
    assert re.search(r"lamp\(\) +✗ not called", wrong.stdout.str())
    header, row, *_ = (root / "out/scores.csv").read_text("utf-8").splitlines()
    assert header.startswith("eval_set_id,eval_id,metric_name,threshold,score,eval_status,prompt,expected_response,")
    assert row.startswith("home,lamp,tool_trajectory_avg_score,1.0,0.0,FAILED,Go.,Done.,Done.,")

    answered(root, right=True)
    right = pytester.runpytest_subprocess("test_awaited.py", "test_unawaited.py::test_plain_function", "-W", "error")

    right.assert_outcomes(passed=3)


def test_fixture__runs_with_the_settings_of_the_session(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "data/home.test.json", {"good": ["lamp"], "bad": ["heater"]})
    (root / "sub").mkdir()
    pytester.makepyfile(
        """
        import os, pytest, agent_eval

        def test_checked(adk_evals):
            adk_evals("data/home.test.json")

        def test_unchecked(adk_evals, monkeypatch):
            monkeypatch.chdir("sub")
            result = adk_evals("data/home.test.json", check=False, num_runs=2)
            assert (result.verdict, result.exit_code) == ("failed", 1)
            assert {case.eval_id: case.passed for case in result.cases.values()} == {"good": True, "bad": False}
            assert result.cases["bad"].score("tool_trajectory_avg_score") == 0.0
            assert result.score("tool_trajectory_avg_score") == 0.5
            assert "missing: lamp()" in result.cases["bad"].text
            assert len(result.cases["good"].report.runs) == 2
            assert (result.output / "recordings.jsonl.gz").exists()

        def test_invalid(adk_evals):
            with pytest.raises(agent_eval.EvalInvalid, match="nowhere"):
                adk_evals("nowhere.test.json")
            with pytest.raises(agent_eval.InvalidOptions, match="num-runs"):
                adk_evals("data/home.test.json", num_run=2)
        """
    )

    result = pytester.runpytest_subprocess("-o", f"adk_evals_options=agent={AGENT}")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*EvalFailed: the evals did not pass: failed (exit code 1)"])
    assert not (root / "agent-eval-results").exists(), "runs of tests that run at once must not share a directory"


def test_run__names_commands_only_for_files_that_stay(tmp_path: Path) -> None:
    write_evals(tmp_path, "home.test.json", {"wrong": ["heater"]})
    removed = agent_eval.run("home.test.json", root=tmp_path, agent=AGENT, check=False)
    kept = agent_eval.run("home.test.json", root=tmp_path, agent=AGENT, output_dir="out", check=False)
    assert (removed.verdict, kept.verdict) == ("failed", "failed")
    assert "agent-eval show" not in removed.text
    assert "agent-eval accept" not in removed.text
    assert f"agent-eval show {tmp_path}/out wrong" in " ".join(kept.text.split())  # a long path is on a line of its own


def test_run__initial_session_reaches_the_engine(tmp_path: Path) -> None:
    write_evals(tmp_path, "home.test.json", {"good": ["lamp"]})
    (tmp_path / "session.json").write_text('{"state": []}', "utf-8")
    with pytest.raises(agent_eval.EvalInvalid, match=r"session\.json"):
        agent_eval.run("home.test.json", root=tmp_path, agent=AGENT, initial_session_file="session.json")


@pytest.mark.slow
def test_run__stays_out_of_the_job_of_github_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds nothing to the job's summary and annotations, and never uses the results of an earlier run."""
    write_evals(tmp_path, "home.test.json", {"good": ["lamp"]})
    (tmp_path / "event.json").write_text('{"action": "opened"}', "utf-8")
    files = {"EVENT_PATH": tmp_path / "event.json", "STEP_SUMMARY": (summary := tmp_path / "step-summary.md")}
    for name, value in {"ACTIONS": "true", "EVENT_NAME": "pull_request", **files}.items():
        monkeypatch.setenv(f"GITHUB_{name}", str(value))

    result = agent_eval.run(root=tmp_path, agent=AGENT, output_dir="out")

    assert result.verdict == "passed"
    assert result.output == tmp_path / "out"
    assert (tmp_path / "out/junit.xml").exists()
    assert not summary.exists()
    with pytest.raises(agent_eval.EvalInvalid, match="nowhere"):
        agent_eval.run("nowhere.test.json", root=tmp_path, agent=AGENT, output_dir="out")
    (tmp_path / "out").rename(tmp_path / "other")
    (tmp_path / "out").symlink_to(tmp_path / "other")
    with pytest.raises(RuntimeError, match=r"no results, so there is no verdict(.|\n)*symbolic link"):
        agent_eval.run(root=tmp_path, agent=AGENT, output_dir="out")
