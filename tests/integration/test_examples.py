"""The examples, run by the gate as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import gate_server
import pytest
from base_repos import new_repo
from golden_files import check

# The examples, run by the gate as a user runs it: what passes, what the broken agent is caught by.


PROJECT = Path(__file__).parents[2]


_UNUSED = shutil.ignore_patterns("__pycache__")


def gate(
    *arguments: str,
    output: Path,
    environment: Mapping[str, str] | None = None,
    root: Path = PROJECT,
    requirements: str = "tests/data/agents/requirements.txt",
) -> tuple[int, dict[str, Any]]:
    """Runs `agent-eval run` in a repository: its exit code and its results; its console is `output`/console.txt.

    The gate makes the agent's environment itself and keeps it in the user's cache: as root the agent is somebody else,
    who could not get at one that a test has made.
    """
    command = ["run", *arguments, "--agent-requirements", requirements]
    command += ["--output-dir", str(output)]
    done = gate_server.run(command, cwd=root, environment={**os.environ, **(environment or {})}, timeout=120)
    assert (output / "results.json").exists(), done.stdout + done.stderr
    (output / "console.txt").write_text(done.stdout, encoding="utf-8")
    results: dict[str, Any] = json.loads((output / "results.json").read_text(encoding="utf-8"))
    return done.returncode, results


def listed(results: dict[str, Any]) -> str:
    """The cases with their scores that gate, a line each."""
    lines = []
    for case in results["cases"]:
        scores = {metric["name"]: metric["score"] for metric in case["metrics"] if metric["status"] != "informational"}
        shown = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
        lines.append(f"{case['status']}  {case['file']}  {case['eval_id']}: {shown}\n")
    return "".join(lines)


@pytest.mark.slow
def test_examples__home_automation_passes_with_the_scores_it_was_made_for(tmp_path: Path) -> None:
    code, results = gate("examples/home_automation", output=tmp_path / "out")
    assert (code, results["verdict"]) == (0, "passed")
    check("golden_examples/home_automation.txt", listed(results))
    assert {file["agent"] for file in results["files"]} == {"examples/home_automation"}
    assert [file["file"] for file in results["files"] if file["legacy"]] == [
        "examples/home_automation/evals/legacy/two_turns.test.json"
    ]


def test_examples__one_broken_tool_is_caught_by_every_case_that_needs_it(tmp_path: Path) -> None:
    code, results = gate(
        "examples/home_automation", "--agent", "examples/home_automation_broken", output=tmp_path / "out"
    )
    assert (code, results["verdict"]) == (1, "failed")
    check("golden_examples/home_automation_broken.txt", listed(results))
    lamp = next(case for case in results["cases"] if case["eval_id"] == "bedroom_lamp_off")
    trajectory = next(metric for metric in lamp["metrics"] if metric["name"] == "tool_trajectory_avg_score")
    evidence = trajectory["runs"][0]["evidence"][0]
    assert 'set_device_status(device_id="bedroom_lamp", status="off")' in evidence["expected"]
    assert "set_device_status" not in evidence["actual"]
    assert any("missing" in why["message"] and "set_device_status" in why["message"] for why in evidence["why"])
    all_have_one_cause(results)
    # The cause of all failures, where one looks first, without a click.
    assert results["causes"][0]["example"]["case_id"].isascii(), "others are hard to type"
    result = "find_devices(", '{"devices": []}'
    shown = (tmp_path / "out" / "console.txt").read_text(encoding="utf-8")
    assert "✗ 12 cases: find_devices returned" in shown and all(text in shown for text in result)
    summary = (tmp_path / "out" / "summary.md").read_text(encoding="utf-8").partition("<details")[0]
    assert all(text in summary for text in result)
    failure = ElementTree.parse(tmp_path / "out" / "junit.xml").find(".//failure")
    assert failure is not None
    assert all(text in (failure.text or "") for text in result)

    command = ["show", str(tmp_path / "out"), "bedroom_lamp_off"]
    shown = gate_server.run(command, cwd=PROJECT, environment=os.environ, timeout=60).stdout
    assert shown.index("Turn off the lamp") < shown.index(result[1]) < shown.index("The bedroom lamp is now off.")


def all_have_one_cause(results: dict[str, Any]) -> None:
    message = 'find_devices returned {"devices": []}'
    [cause] = results["causes"]
    assert (cause["code"], cause["data"]["tool"], cause["message"]) == ("tool-empty", "find_devices", message)
    assert set(cause["cases"]) == {case["case_id"] for case in results["cases"] if case["status"] == "failed"}
    assert cause["failing"] == {"total": 12, "having": 12}
    # `no_such_device` passes: the tool returns nothing there, too.
    assert cause["passing"] == {"total": 10, "having": 1}
    assert (cause["example"]["turn"], cause["example"]["call"]) == (0, 0)


@pytest.mark.slow
def test_examples__one_broken_tool_is_the_cause_against_a_stored_baseline(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    shutil.copytree(PROJECT / "examples/home_automation", root / "home_automation", ignore=_UNUSED)
    requirements = PROJECT / "tests/data/agents/requirements.txt"
    shutil.copy(requirements, root)
    new_repo(root).commit({})
    code, before = gate("home_automation", output=root / "base", root=root, requirements=requirements.name)
    assert (code, before.get("causes", [])) == (0, [])
    # It is not on the base branch, which is therefore not run again.
    shutil.copytree(PROJECT / "examples/home_automation_broken", root / "home_automation_broken", ignore=_UNUSED)
    broken = ("--agent", "home_automation_broken", "--baseline", "file:base/results.json")
    code, results = gate("home_automation", *broken, output=root / "out", root=root, requirements=requirements.name)
    assert code == 1
    all_have_one_cause(results)
    [cause] = results["causes"]
    assert cause["base"] == {"total": 12, "having": 0}
    assert '"device_id": "living_room_lamp"' in cause["data"]["expected"]


@pytest.mark.slow
def test_examples__the_weather_agent_talks_to_gemini_over_a_socket(tmp_path: Path) -> None:
    command = [sys.executable, "examples/gemini_weather/serve.py", "--latency", "0.05", "--first", "503"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            name, _, url = process.stdout.readline().strip().partition("=")
            assert name == "export GOOGLE_GEMINI_BASE_URL", "as its README says"
            variables = {"GOOGLE_GEMINI_BASE_URL": url, "GOOGLE_API_KEY": "secret-of-the-test"}
            code, results = gate("examples/gemini_weather", output=tmp_path / "out", environment=variables)
            with urllib.request.urlopen(f"{url}/stats", timeout=10) as response:
                stats = json.load(response)
        finally:
            process.terminate()
    assert (code, results["verdict"]) == (0, "passed")
    assert results["totals"]["passed"] == 4
    assert stats["refused"] == []
    assert stats["statuses"] == {"503": 1, "200": 9}, "the one that failed is asked again, nothing else is"
    assert stats["peak_in_flight"] >= 4, "all cases run at the same time"
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"secret-of-the-test" not in written


def test_similarity__scores_are_those_of_its_readme(tmp_path: Path) -> None:
    folder = "examples/similarity"
    code, results = gate(folder, "--agent", f"recorded:{folder}/answers.json", output=tmp_path / "out")
    assert (code, results["verdict"]) == (0, "passed")
    readme = (PROJECT / folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (\S+) \| (\S+) \|$", readme, re.MULTILINE)
    listed = {name: (score, float(needs)) for name, _, _, score, needs in rows}
    measured = {
        case["eval_id"]: (f"{metric['score']:.2f}", metric["threshold"])
        for case in results["cases"]
        for metric in case["metrics"]
        if metric["threshold"] is not None
    }
    assert len(listed) == 8
    assert measured == listed
    answers = {
        case["eval_id"]: case["conversation"][0]["final_response"]["parts"][0]["text"]
        for case in json.loads((PROJECT / folder / "answers.json").read_text(encoding="utf-8"))["eval_cases"]
    }
    assert all(answers[name] == answer for name, _, answer, _, _ in rows if name != "partial_trajectory")
