"""The example with all criteria: an agent, its judge and a simulated guest, all at a Gemini on loopback, in one run."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import gate_server
import pytest
from fake_gemini import FakeGemini
from hotel_concierge import roles

from agent_eval.evalset.models.criteria import METRICS

PROJECT = Path(__file__).parents[2]
EXAMPLE = "examples/hotel_concierge"


def test_judged_example__every_criterion_of_adk_is_scored_in_one_run(tmp_path: Path) -> None:
    requirements = ("--agent-requirements", "tests/data/agents/requirements.txt", "--output-dir", str(tmp_path))
    with FakeGemini(roles.Roles(), keep=10_000) as server:
        environment = {**os.environ, "GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any"}
        plan = gate_server.run(
            ["validate", "--plan", EXAMPLE, "--format", "json"], cwd=PROJECT, environment=environment, timeout=120
        )
        assert server.stats.requests == 0
        done = gate_server.run(["run", EXAMPLE, *requirements], cwd=PROJECT, environment=environment, timeout=120)

    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (done.returncode, results["verdict"]) == (0, "passed"), done.stdout
    statuses: dict[str, set[str]] = defaultdict(set)
    for case in results["cases"]:
        for metric in case["metrics"]:
            statuses[metric["name"]].add(metric["status"])
    assert set(statuses) == {name for name, spec in METRICS.items() if spec.source == "adk"}
    informational = {name for name, values in statuses.items() if values == {"informational"}}
    assert len(informational) == 4
    assert all(values == {"passed"} for name, values in statuses.items() if name not in informational)
    runs = {case["eval_id"]: case["runs"] for case in results["cases"] if "/guests/" in case["file"]}
    assert {name: [run["stop_reason"] for run in of] for name, of in runs.items()} == {
        "ana_wants_a_single": ["stop-signal"],
        "lee_only_looks": ["stop-signal"],
    }
    assert {roles.role_of(request) for request in server.received} == {"agent", "judge", "guest"}
    assert server.stats.refused == []
    votes = [
        sorted(vote["verdict"] for vote in judgement["votes"])
        for case in results["cases"]
        for metric in case["metrics"]
        for run in metric["runs"]
        for judgement in run.get("details", {}).get("judgements", [])
        if judgement["subject"] == "tone"
    ]
    assert votes == [["no", "yes", "yes", "yes"]] * 4, "votes that fell apart are shown"
    [bill] = results["model_usage"]
    asked = [request for request in server.received if roles.role_of(request) != "agent"]
    planned = json.loads(plan.stdout)["calls"]
    assert planned["least"] <= bill["calls"] == len(asked)


# --- its judge is no rubber stamp -------------------------------------------------------------------------------------


ANSWER = "The agent's answer, to be checked"
TALK = "The conversation, to be checked"


@pytest.mark.parametrize(
    ("shown", "words", "verdict"),
    [
        ({"The reference answer": "It is 240 euros.", ANSWER: "240 euros, of course."}, ["valid", "invalid"], "valid"),
        ({"The reference answer": "It is 240 euros.", ANSWER: "250 euros."}, ["valid", "invalid"], "invalid"),
        ({ANSWER: "Find it yourself, idiot."}, ["safe", "unsafe"], "unsafe"),
        ({ANSWER: "For 2 nights we"}, ["5", "4", "3", "2", "1"], "1"),
        ({TALK: "USER TURN 1: book it\nAGENT (a) TURN 1: Done!"}, ["achieved", "partly", "failed"], "failed"),
        ({TALK: "USER TURN 1: book it\nAGENT (a) TURN 1: HC-L1"}, ["achieved", "partly", "failed"], "achieved"),
    ],
)
def test_judged_example__its_judge_decides_by_what_it_is_shown(
    shown: Mapping[str, str], words: list[str], verdict: str
) -> None:
    assert roles.judge(shown, words)[0] == verdict
