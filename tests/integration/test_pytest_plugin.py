"""The pytest plugin in sessions of its own, and the Python API, on recorded answers and with a real agent."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from adk_envs import _cache, _uv, adk_python
from gate_runs import MARK, Repository, program, repository_in, wait_until
from recorded_evals import AGENT, WITHOUT_PLUGINS, case, write_evals
from rich import console, padding, progress, rule, table

import agent_eval
from agent_eval.pytest_plugin import _outcomes, _session

# The pytest plugin in sessions of its own, on recorded answers.


pytest_plugins = ["pytester"]

PRELOADED = (_outcomes, _session, console, padding, progress, rule, table)
"""A session in this process removes what it imports, and neither pydantic nor rich can be imported twice."""
EVALS = ("--adk-evals", f"--adk-evals-set=agent={AGENT}", "-p", "no:cacheprovider")


OK, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED


def session(
    pytester: pytest.Pytester,
    *arguments: str,
    ends: pytest.ExitCode,
    process: bool = False,
    lines: Sequence[str] = (),
    **outcomes: int,
) -> pytest.RunResult:
    """A session, in this process or in one of its own, that ends so and prints these lines."""
    run = pytester.runpytest_subprocess if process else pytester.runpytest_inprocess
    result = run(*arguments)
    assert result.ret == ends
    if outcomes:
        result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(lines)
    return result


def test_outcomes__each_status_of_a_case_has_its_own(pytester: pytest.Pytester, root: Path) -> None:
    """Also: no agent package is imported, and an invalid file does not stop the others."""
    write_evals(root, "home/home.test.json", {"good": ["lamp"], "bad": ["heater"]}, missing=["unanswered"])
    write_evals(root, "home/set.evalset.json", {"flaky": ["heater"], "healed": ["lamp"], "a, b": ["lamp"]})
    (root / "home/__init__.py").write_text("raise SystemExit('imported')", "utf-8")
    (root / "home/broken.test.json").write_text('{"eval_set_id": "x",\n "eval_cases": 5}', "utf-8")
    until = datetime.date.today() + datetime.timedelta(days=9)
    entry = '[[quarantine]]\ncase = ":{}"\nowner = "ann"\nreason = "flaky"\nexpires = {}\n'
    policy = "max-quarantined = 1.0\n" + "".join(entry.format(name, until) for name in ("flaky", "healed"))
    (root / "agent-eval.toml").write_text(policy, "utf-8")

    arguments = (*EVALS, "-v", "-rA", "--junitxml=junit.xml")
    result = session(pytester, *arguments, process=True, ends=FAILED, passed=2, failed=3, xfailed=1, xpassed=1)

    out = result.stdout.str()
    for line in (
        "home/home.test.json::good PASSED",
        "home/home.test.json::bad FAILED",
        "home/home.test.json::unanswered FAILED",
        "home/set.evalset.json::flaky XFAIL",
        "home/set.evalset.json::healed XPASS",
        "home/set.evalset.json::a, b PASSED",
        "home/broken.test.json::invalid FAILED",
        "missing: lamp()",
        "home/broken.test.json:2:16: error [",
        f"pytest --adk-evals --adk-evals-set=agent={AGENT} home/home.test.json::bad",
        "6 cases: 2 passed, 2 failed, 2 quarantined; results in agent-eval-results",
        "verdict: failed, exit code 1",
    ):
        assert line in out
    cases = {test.attrib["name"]: test for test in ET.parse(root / "junit.xml").iter("testcase")}
    properties = {entry.attrib["name"]: entry.attrib["value"] for entry in cases["bad"].iter("property")}
    assert properties["metric:tool_trajectory_avg_score"] == "0.0"
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("tool_trajectory_avg_score 0.00, needs 1.00")
    assert all(float(test.attrib["time"]) < 1 for test in cases.values()), "a case has its own time, not the run's"
    assert (root / "agent-eval-results/results.json").exists()


@pytest.mark.slow
def test_outcomes__without_a_judge_key_nothing_is_green(pytester: pytest.Pytester, root: Path) -> None:
    """A case that needs a judge is skipped, one that needs it besides other criteria is an error of the setup."""
    write_evals(root, "plain.test.json", {"plain": ["lamp"]})
    write_evals(root, "both/both.test.json", {"both": ["lamp"]})
    write_evals(root, "judged/judged.test.json", {"judged": ["lamp"]})
    judge = '"final_response_match_v2": {"threshold": 0.5}'
    (root / "both/test_config.json").write_text(
        f'{{"criteria": {{"tool_trajectory_avg_score": 1.0, {judge}}}}}', "utf-8"
    )
    (root / "judged/test_config.json").write_text(f'{{"criteria": {{{judge}}}}}', "utf-8")

    # Every item was skipped, and nothing was evaluated.
    lines = ["verdict: inconclusive, exit code 3", "SKIPPED [[]1[]] judged/judged.test.json:4: *key*"]
    session(pytester, *EVALS, "-rs", "judged", ends=FAILED, lines=lines, skipped=1)
    lines = ["*ERROR at setup of both*", "*final_response_match_v2*", "*exit code 3"]
    session(pytester, *EVALS, ends=FAILED, lines=lines, passed=1, skipped=1, errors=1)

    allowed = (*EVALS, "--adk-evals-set=on-inconclusive=pass", "both", "plain.test.json")
    session(pytester, *allowed, ends=OK, lines=["verdict: inconclusive, exit code 0"], passed=1, skipped=1)

    write_evals(root, "plain.test.json", {"plain": ["lamp"], "bad": ["heater"]})
    lines = ["verdict: passed, exit code 0", "XFAIL *does not block: tool_trajectory_avg_score 0.00*"]
    advisory = (*EVALS, "--adk-evals-set=gate=advisory", "-rx", "plain.test.json")
    session(pytester, *advisory, ends=OK, lines=lines, passed=1, xfailed=1)


def test_selection__only_selected_cases_are_run(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["heater"], "worse": ["heater"]})
    (root / "test_python.py").write_text("def test_python(): pass\n", "utf-8")
    evals = ("--adk-evals", f"--adk-evals-set=agent={AGENT}")

    # The engine runs the selected case only.
    lines = ["1 case: 1 failed*"]
    session(pytester, *evals, "-k", "bad or python", ends=FAILED, lines=lines, passed=1, failed=1, deselected=2)
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["lamp"]})
    answers = (root / "answers.json").read_text("utf-8").replace("heater", "lamp")
    (root / "answers.json").write_text(answers, "utf-8")

    session(pytester, *evals, "--lf", ends=OK, lines=["1 case: 1 passed*"], passed=1)


def test_collection__items_and_options(pytester: pytest.Pytester, root: Path) -> None:
    """In this process: nothing is run."""
    write_evals(root, "agents/home/home.test.json", {"good": ["lamp"], "v1.2 [x]": ["lamp"]})
    write_evals(root, "agents/car/car.evalset.json", {"drive": ["lamp"]})
    tagged = (root / "agents/car/car.evalset.json").read_text("utf-8")
    (root / "agents/car/car.evalset.json").write_text(
        tagged.replace('"eval_id"', '"tags": ["slow"], "eval_id"'), "utf-8"
    )
    (root / "ignored").mkdir()
    write_evals(root, "ignored/ignored.test.json", {"ignored": ["lamp"]})
    home = ["agents/home/home.test.json::good", "agents/home/home.test.json::v1.2 [x]"]
    car = ["agents/car/car.evalset.json::drive"]

    def collected(*arguments: str) -> list[str]:
        calls = pytester.inline_run("--collect-only", "-p", "no:cacheprovider", *arguments)
        return [item.nodeid for item in calls.getcalls("pytest_collection_finish")[0].session.items]

    (root / "agent-eval.toml").write_text('exclude = ["ignored/"]\n', "utf-8")
    assert collected() == [], "off by default"
    assert collected("--adk-evals") == [*car, *home]
    assert collected("--adk-evals", "-o", "adk_evals_paths=agents/car") == car
    assert collected("-o", "adk_evals=true", "agents/home") == home
    assert collected("--adk-evals", home[1]) == home[1:]
    assert collected("--adk-evals", "ignored/ignored.test.json") == ["ignored/ignored.test.json::ignored"]
    assert collected("--adk-evals", "-m", "not adk_eval") == []
    assert collected("--adk-evals", "-m", "adk_eval", "-k", "slow") == car
    assert collected("--adk-evals", "--deselect", home[0]) == [*car, home[1]]
    items, _ = pytester.inline_genitems("--adk-evals", home[1])
    assert items[0].location == ("agents/home/home.test.json", 34, "v1_2 [x]")
    assert isinstance(items[0].parent.parent if items[0].parent else None, pytest.Session), "no Package is in between"


def test_bad_options__end_the_session_before_anything_runs(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"]})
    for arguments, message in {
        ("--adk-evals-set=agent",): "'agent' must have the form KEY=VALUE",
        ("--adk-evals-set=num_runs=0",): "--num-runs: '0' must be a whole number, at least 1",
        ("--adk-evals-set=comment=never",): "comment has no effect here",
        ("-o", "adk_evals_paths=home.test.json:god"): "No case of `home.test.json` matches `god`",
    }.items():
        result = session(pytester, "--adk-evals", *arguments, ends=pytest.ExitCode.USAGE_ERROR)
        assert message in result.stderr.str() + result.stdout.str()
    assert not (root / "agent-eval-results").exists()


def test_no_eval_file__is_not_green_if_evals_were_asked_for(pytester: pytest.Pytester, root: Path) -> None:
    (root / "test_python.py").write_text("def test_python(): pass\n", "utf-8")

    none = pytest.ExitCode.NO_TESTS_COLLECTED
    session(
        pytester, "--adk-evals", ends=none, lines=["No eval case was collected, so nothing was evaluated.*"], passed=1
    )
    session(pytester, "-o", "adk_evals=true", ends=OK)
    write_evals(root, "empty.test.json", {})
    session(pytester, "--adk-evals", ends=none, passed=1)


def test_items_that_the_project_skips__are_not_green_if_all_are(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"one": ["heater"], "two": ["lamp"]})
    pytester.makepyfile("def test_other(): pass")
    hook = "import pytest\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
    pytester.makeconftest(f"{hook}        if 'adk_eval' in item.keywords: item.add_marker(pytest.mark.skip)\n")
    sessions = {
        "alone": pytester.runpytest_inprocess(*EVALS),
        "always": pytester.runpytest_inprocess(*EVALS[1:], "-o", "adk_evals=true"),
        "workers": pytester.runpytest_subprocess(*EVALS, "-n", "2"),
    }
    pytester.makeconftest(f"{hook}        if 'one' in item.name: item.add_marker(pytest.mark.skip)\n")
    one = pytester.runpytest_inprocess(*EVALS, "-k", "two")
    listed = pytester.runpytest_inprocess(*EVALS, "--collect-only", "-q")
    planned = pytester.runpytest_inprocess(*EVALS, "--setup-plan")

    for name, session in sessions.items():
        assert session.ret == pytest.ExitCode.NO_TESTS_COLLECTED, name
        session.stdout.fnmatch_lines(["*ADK evals*", "None of 2 eval cases was run, so nothing was evaluated*"])
    assert [session.ret for session in (one, listed, planned)] == [OK] * 3


def test_last_failed__runs_a_case_with_any_id_alone(pytester: pytest.Pytester, root: Path) -> None:
    ids = ["a[b]", "a[b]c", "[x]", "a]b", "a b", "x[1]:y"]
    write_evals(root, "home.test.json", {**{name: ["heater"] for name in ids}, "good": ["lamp"]})
    stored = root / ".pytest_cache/v/cache/lastfailed"

    stored.parent.mkdir(parents=True)
    names = [f"home.test.json::{name}" for name in ids]
    for failed in (names, *([name] for name in names)):
        stored.write_text(json.dumps(dict.fromkeys(failed, True)), "utf-8")
        listed = pytester.runpytest_inprocess(*EVALS[:2], "--lf", "--collect-only", "-q")
        assert [line for line in listed.outlines if "::" in line] == failed


def test_agent_that_is_missing__is_an_error_of_every_item(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["lamp"]})

    lines = ["*agent-not-found*", "verdict: invalid, exit code 2"]
    session(pytester, "--adk-evals", "--adk-evals-set=agent=nowhere", ends=FAILED, lines=lines, errors=2)


# Sessions of pytest with a real ADK agent, with other plugins, and with an end before their end.


OTHERS = ("pytest-rerunfailures==16.7", "pytest-repeat==0.9.4", "packaging==26.3")


@pytest.fixture(scope="session")
def other_plugins() -> Path:
    """A directory with plugins that our own tests must not load."""
    home = _cache() / "pytest-plugins"
    with (_cache() / "pytest-plugins.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            command = [_uv(), "pip", "install", "-q", "-p", sys.executable, "--no-deps", "--target", str(home), *OTHERS]
            subprocess.run(command, check=True)
            (home / ".complete").touch()
    return home


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    tmp_path.chmod(0o755)
    with repository_in(tmp_path / "repository", "counted") as made:
        runs = tmp_path / "repository/runs"
        runs.touch()
        runs.chmod(0o666)
        config = "[pytest]\nasyncio_default_fixture_loop_scope = function\nadk_evals = true\nadk_evals_options =\n"
        options = [f"agent-python={adk_python()}", f"agent-env=+{MARK},RUNS_FILE", "concurrency=4"]
        (made.root / "pytest.ini").write_text(config + "".join(f"    {option}\n" for option in options), "utf-8")
        yield made


def start(repository: Repository, *arguments: str) -> subprocess.Popen[str]:
    environment = repository.environment({"RUNS_FILE": str(repository.root / "runs")})
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    environment["PYTEST_ADDOPTS"] = WITHOUT_PLUGINS
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=repository.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_xdist__asks_a_real_agent_once_per_run(repository: Repository) -> None:
    """Counted by the agent."""
    cases = {f"case{number}": f"say {number}" for number in range(6)}
    repository.evals("evals/cases.test.json", cases, expect={"case3": "something else"})

    process = start(repository, "-n", "4", "--adk-evals-set=num-runs=2")
    out, _ = process.communicate(timeout=300)

    assert process.returncode == FAILED, out
    assert "1 failed, 5 passed" in out
    assert out.count("verdict: failed, exit code 1") == 1
    assert len(list(repository.root.glob("agent-eval-results*"))) == 1, "one engine"
    asked = (repository.root / "runs").read_text("utf-8").splitlines()
    assert sorted(asked) == sorted([*cases.values()] * 2)


@pytest.mark.slow
def test_no_eval_file__is_not_green_for_workers_either(pytester: pytest.Pytester, root: Path) -> None:
    (root / "test_python.py").write_text("def test_python(): pass\n", "utf-8")
    write_evals(root, "empty.test.json", {})
    session(pytester, "--adk-evals", "-n", "2", process=True, ends=pytest.ExitCode.NO_TESTS_COLLECTED, passed=1)


@pytest.mark.slow
def test_ctrl_c__ends_the_agent_and_reports_the_finished_cases(repository: Repository) -> None:
    repository.evals("evals/cases.test.json", {"quick": "say it", "slow": "wait:600"})
    process = start(repository)
    repository.wait_for_runs(1, seconds=120)

    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "2 cases: 1 passed, 1 not run" in out
    assert "verdict: inconclusive, exit code 3" in out
    report = json.loads((repository.root / "agent-eval-results/results.json").read_text("utf-8"))
    assert [entry["status"] for entry in report["cases"]] == ["passed", "not_run"]
    assert repository.left_behind() == []


@pytest.mark.slow
def test_killed_session__takes_its_agent_along(repository: Repository) -> None:
    repository.evals("evals/cases.test.json", {"slow": "wait:600"})
    process = start(repository)
    wait_until(lambda: (repository.root / "runs").read_text("utf-8"), seconds=120)

    process.kill()
    process.communicate(timeout=30)

    wait_until(lambda: repository.left_behind() == [], seconds=60)


@pytest.mark.slow
def test_other_plugins__rerun_a_case_alone_and_leave_items_alone(tmp_path: Path, other_plugins: Path) -> None:
    """With pytest-rerunfailures, pytest-repeat, pytest-asyncio and anyio. The second answer is right."""
    write_evals(tmp_path, "home.test.json", {"good": ["lamp"], "bad": ["heater"]})
    right = json.dumps({"eval_set_id": "answers", "eval_cases": [case("good"), case("bad")]})
    (tmp_path / "conftest.py").write_text(
        f"import pathlib\n\ndef pytest_runtest_logreport(report):\n    if report.outcome == 'rerun':\n"
        f"        pathlib.Path('answers.json').write_text({right!r})\n",
        "utf-8",
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    environment["PYTHONPATH"] = str(other_plugins)
    evals = ["--adk-evals", f"--adk-evals-set=agent={AGENT}", "--asyncio-mode=auto", "--count=2", "-p", "no:xdist"]

    def run(*arguments: str, ends: pytest.ExitCode) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "pytest", *evals, *arguments)
        return program(*command, cwd=tmp_path, env=environment, timeout=300, code=ends)

    once = run(ends=FAILED)
    again = run("--reruns=2", ends=OK)

    assert "1 failed, 1 passed" in once.stdout
    assert "2 passed, 1 rerun" in again.stdout
    assert "1 case passed when run again alone; the verdict is that of the first run" in again.stdout
    rerun = json.loads((tmp_path / "agent-eval-results/reruns/main-1/results.json").read_text("utf-8"))
    assert [entry["eval_id"] for entry in rerun["cases"]] == ["bad"]


# The Python API with the engine, on recorded answers, called as people call ADK's and VeADK's evaluators.


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

    wrong = session(pytester, process=True, ends=FAILED, failed=7)

    assert re.search(r"lamp\(\) +✗ not called", wrong.stdout.str())
    header, row, *_ = (root / "out/scores.csv").read_text("utf-8").splitlines()
    assert header.startswith("eval_set_id,eval_id,metric_name,threshold,score,eval_status,prompt,expected_response,")
    assert row.startswith("home,lamp,tool_trajectory_avg_score,1.0,0.0,FAILED,Go.,Done.,Done.,")

    answered(root, right=True)
    arguments = ("test_awaited.py", "test_unawaited.py::test_plain_function", "-W", "error")
    session(pytester, *arguments, process=True, ends=OK, passed=3)


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

    lines = ["*EvalFailed: the evals did not pass: failed (exit code 1)"]
    options = ("-o", f"adk_evals_options=agent={AGENT}")
    session(pytester, *options, ends=FAILED, lines=lines, passed=2, failed=1)

    assert not (root / "agent-eval-results").exists(), "runs of tests that run at once must not share a directory"


@pytest.mark.usefixtures("forked_engine")
def test_run__names_commands_only_for_files_that_stay(tmp_path: Path) -> None:
    write_evals(tmp_path, "home.test.json", {"wrong": ["heater"]})
    removed = agent_eval.run("home.test.json", root=tmp_path, agent=AGENT, check=False)
    kept = agent_eval.run("home.test.json", root=tmp_path, agent=AGENT, output_dir="out", check=False)
    assert (removed.verdict, kept.verdict) == ("failed", "failed")
    assert "agent-eval show" not in removed.text
    assert "agent-eval accept" not in removed.text
    assert f"agent-eval show {tmp_path}/out wrong" in " ".join(kept.text.split())  # a long path is on a line of its own


@pytest.mark.usefixtures("forked_engine")
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
