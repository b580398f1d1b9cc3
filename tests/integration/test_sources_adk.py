"""Real sessions and traces of google-adk become eval cases that score 1.0."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gate_server
import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from source_samples import veadk_trace

from agent_eval_scoring.core.invocation import adk_value
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.reading import read_source

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("sources_worker.py")

LAMPS = [
    ("Turn off the lamp in the bedroom", "The bedroom lamp is now off.", ["find_devices", "set_device_status"]),
    ("Turn it on again", "The bedroom lamp is now on.", ["find_devices", "set_device_status"]),
]
FANS = [("Which devices are in the kitchen?", "In the kitchen there are the kitchen lamp (off).", ["find_devices"])]
CAPTURE = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}


def produce(folder: Path, version: str = REFERENCE, **environ: str) -> Path:
    """Lets the example agent talk in an environment with this version, and returns the folder of what it left."""
    command = [str(adk_python(version)), "-W", "ignore", str(WORKER), str(folder)]
    subprocess.run(command, env={**os.environ, **environ}, check=True, timeout=300)
    return folder


def conversations(path: Path) -> list[list[tuple[str, str, list[str]]]]:
    """User text, answer and calls of each turn, by case."""
    source = read_source(path, path.name)
    assert source is not None
    assert [problem for problem in source.problems if problem.severity == "error"] == []
    cases = [case.model_dump(exclude_unset=True) for case in eval_cases(source.conversations)[0]]
    return [[_turn(turn) for turn in case["conversation"]] for case in cases]


def _turn(turn: dict[str, Any]) -> tuple[str, str, list[str]]:
    calls = turn.get("intermediate_data", {"tool_uses": []})["tool_uses"]
    texts = [turn[key]["parts"][0]["text"] for key in ("user_content", "final_response")]
    return (texts[0], texts[1], [call["name"] for call in calls])


OLDER = {"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "environ"),
    [("1.18.0", {}), ("1.39.1", {}), (REFERENCE, CAPTURE), (REFERENCE, OLDER)],
    ids=["1.18.0", "1.39.1", "2.13.0", "2.13.0 with the older schema"],
)
def test_sessions_and_traces__of_each_version(version: str, environ: dict[str, str], tmp_path: Path) -> None:
    folder = produce(tmp_path / "out", version, **environ)
    databases = {"1.18.0": {"database.db"}}.get(version, {"session.db", "spans.db"})
    assert {path.name for path in folder.glob("*.db")} == databases
    assert (folder / "debug.json").exists() == (version == REFERENCE)
    for path in folder.iterdir():
        if path.name.endswith(".session.json"):
            assert conversations(path) == ([LAMPS] if path.name.startswith("s-lamps") else [FANS])
        elif path.name == "database.db":  # Of 1.18.0, with pickles.
            source = read_source(path, path.name)
            assert source is not None and "adk migrate session" in source.problems[0].message
        else:
            assert conversations(path) == [LAMPS, FANS], path.name
    source = read_source(folder / "s-lamps.session.json", "s")
    assert source is not None
    assert source.conversations[0].state == {"user_name": "Mina", "favourite_room": "garage"}
    for session in (folder / "conformance").rglob("generated-session.yaml"):
        assert session.with_name("generated-session-sse.yaml").exists() == (version != "1.18.0")
        if version != "1.18.0":
            session.unlink()
    assert conversations(folder / "conformance") == [LAMPS, FANS], "what was streamed, too"


@pytest.mark.conformance
def test_sessions__become_the_invocations_of_adks_own_conversion(tmp_path: Path) -> None:
    """Sessions of each version, in JSON and in databases, field by field."""
    folders = [produce(tmp_path / version, version) for version in MATRIX]
    paths = sorted(path for folder in folders for path in folder.glob("*.session.json"))
    assert len(paths) == 2 * len(MATRIX)
    command = [str(adk_python()), "-W", "ignore", str(Path(__file__).with_name("adk_converts_sessions.py"))]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=True, timeout=120)
    for path, theirs in zip(paths, json.loads(done.stdout.splitlines()[-1]), strict=True):
        session_id = path.name.removesuffix(".session.json")
        database = path.parent / "session.db"
        for source in (read_source(path, "s"), *([read_source(database, "d")] if database.exists() else [])):
            assert source is not None
            [conversation] = [item for item in source.conversations if item.session_id == session_id]
            ours = [adk_value(turn) for turn in conversation.turns]
            assert len(ours) == len(theirs)
            for mine, other in zip(ours, theirs, strict=True):
                for field in ("user_content", "final_response", "intermediate_data"):
                    if source.kind == "a session of ADK":
                        assert mine[field] == other[field], path
                    else:  # Ids of calls and their signatures are those of another session.
                        assert _without_ids(mine[field]) == _without_ids(other[field]), path
            # The state at the start is known except for the key that each turn has changed.
            assert conversation.state == {"user_name": "Mina", "favourite_room": "garage"}


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(item) for key, item in value.items() if key not in {"id", "thought_signature"}}
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def agent_eval(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return gate_server.run(arguments, cwd=cwd, environment=os.environ, timeout=300)


@pytest.mark.slow
def test_record__of_every_source_and_the_agent_passes_its_own_sessions(tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "home"
    shutil.copytree(ROOT / "examples" / "home_automation", agent, ignore=shutil.ignore_patterns("evals", "__pycache__"))
    produce(tmp_path, **CAPTURE)
    (agent / ".adk").mkdir()
    shutil.copy(tmp_path / "session.db", agent / ".adk")
    (tmp_path / "veadk_trace.json").write_text(json.dumps(veadk_trace({"s": [("Hi", "Hello.")]})), encoding="utf-8")
    shutil.copy(ROOT / "tests" / "data" / "adk_web" / "home.evalset_result.json", tmp_path)
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "test_config.json").write_text(
        json.dumps({"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}}), encoding="utf-8"
    )
    sources = (
        "agents/home",
        "session.db",
        "s-lamps.session.json",
        "otlp.json",
        "spans.db",
        "veadk_trace.json",
        "conformance",
    )
    for number, source in enumerate((*sources, "home.evalset_result.json")):
        file = f"evals/{number or 'home'}.evalset.json"
        result = agent_eval("record", file, "--from", source, "--session", "all", cwd=tmp_path)
        assert result.returncode == 0, f"{source}: {result.stdout}{result.stderr}"
        assert re.search(rf"Added \d cases? in {file}", result.stdout)
    flags = ("--initial-session", "s-lamps.session.json")
    migrated = agent_eval("migrate", "conformance", "evals/conformance.evalset.json", *flags, cwd=tmp_path)
    assert migrated.returncode == 0, migrated.stdout + migrated.stderr
    assert "[initial-session-unused]" in migrated.stdout
    written = json.loads((tmp_path / "evals" / "conformance.evalset.json").read_text("utf-8"))
    state = {"user_name": "Mina", "favourite_room": "garage", "user:tier": "gold", "turns": 1}
    assert [(case["eval_id"], case["session_input"]["state"]) for case in written["eval_cases"]] == [
        ("s-lamps", state),
        ("s-fans", state),
    ]
    python = shlex.join(host_forks.command(adk_python()))
    home = "recorded:evals/home.evalset.json"
    for name, file in ((str(agent), "conformance"), (str(agent), "home"), (home, "home")):
        options = ("--agent", name, "--agent-python", python)
        run = agent_eval("run", *options, f"evals/{file}.evalset.json", cwd=tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
        cases = json.loads((tmp_path / "agent-eval-results" / "results.json").read_text(encoding="utf-8"))["cases"]
        scores = [metric["score"] for case in cases for metric in case["metrics"] if metric["threshold"] is not None]
        assert scores == [1.0] * 4
        if (name, file) == (str(agent), "home"):
            opens_in_adk_web(tmp_path)


def opens_in_adk_web(root: Path) -> None:
    """The results of a run are listed and opened by ADK's server, and its older manager reads them."""
    exported = agent_eval("export", "adk", cwd=root)
    assert exported.returncode == 0, exported.stderr
    reader = str(Path(__file__).with_name("adk_opens_results.py"))
    for version, how in ((REFERENCE, "web"), ("1.39.1", "manager")):
        command = [str(adk_python(version)), "-W", "ignore", reader, how, str(root / "agents"), "home"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        [result] = json.loads(done.stdout.splitlines()[-1])
        assert result["evalSetId"] == "home"
        lamps, fans = result["evalCaseResults"]
        assert (lamps["finalEvalStatus"], fans["finalEvalStatus"]) == (1, 1)
        assert [metric["score"] for metric in lamps["overallEvalMetricResults"]] == [1.0, 1.0]
        assert len(lamps["evalMetricResultPerInvocation"]) == 2
        assert lamps["sessionDetails"]["events"][0]["author"] == "user"


def test_rescore__scores_of_adks_result_are_its_own(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "home_automation" / "evals", tmp_path / "evals")
    result = ROOT / "tests" / "data" / "adk_web" / "home.evalset_result.json"
    case = "evals/conversation.test.json:room_is_remembered"
    run = agent_eval("run", case, "--agent", f"recorded:{result}", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    [ours] = json.loads((tmp_path / "agent-eval-results" / "results.json").read_text(encoding="utf-8"))["cases"]
    [theirs] = json.loads(result.read_text(encoding="utf-8"))["eval_case_results"]
    scores = {metric["name"]: metric["score"] for metric in ours["metrics"]}
    measured = {metric["metric_name"]: metric["score"] for metric in theirs["overall_eval_metric_results"]}
    assert len(measured) >= 2
    assert {name: scores[name] for name in measured} == measured
