"""Sessions of pytest with a real ADK agent, with other plugins, and with an end before their end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_envs import _cache, _uv, adk_python
from gate_runs import MARK, Repository, repository_in, wait_until
from recorded_evals import AGENT, WITHOUT_PLUGINS, case, write_evals

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

    assert process.returncode == pytest.ExitCode.TESTS_FAILED, out
    assert "1 failed, 5 passed" in out
    assert out.count("verdict: failed, exit code 1") == 1
    assert len(list(repository.root.glob("agent-eval-results*"))) == 1, "one engine"
    asked = (repository.root / "runs").read_text("utf-8").splitlines()
    assert sorted(asked) == sorted([*cases.values()] * 2)


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

    def session(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", *evals, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    once = session()
    again = session("--reruns=2")

    assert once.returncode == pytest.ExitCode.TESTS_FAILED, once.stdout
    assert "1 failed, 1 passed" in once.stdout
    assert again.returncode == pytest.ExitCode.OK, again.stdout
    assert "2 passed, 1 rerun" in again.stdout
    assert "1 case passed when run again alone; the verdict is that of the first run" in again.stdout
    rerun = json.loads((tmp_path / "agent-eval-results/reruns/main-1/results.json").read_text("utf-8"))
    assert [entry["eval_id"] for entry in rerun["cases"]] == ["bad"]
