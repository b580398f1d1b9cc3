"""The example with all criteria: an agent, its judge and a simulated guest, all at a Gemini on loopback, in one run."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gate_server
import pytest
from fake_gemini import FakeGemini, GenerateRequest
from hotel_concierge import roles

from agent_eval.evalset.models.criteria import METRICS

PROJECT = Path(__file__).parents[2]
EXAMPLE = "examples/hotel_concierge"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What was planned, what came of it, and what the server saw."""

    code: int
    console: str
    results: Mapping[str, Any]
    plan: Mapping[str, Any]
    asked: Mapping[str, list[GenerateRequest]]
    """By who asked."""
    refused: list[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    output = tmp_path_factory.mktemp("concierge") / "out"
    with FakeGemini(roles.Roles(), keep=10_000) as server:
        variables = {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any"}
        plan = _agent_eval("validate", "--plan", EXAMPLE, "--format", "json", variables=variables)
        assert server.stats.requests == 0
        requirements = ("--agent-requirements", "tests/data/agents/requirements.txt", "--output-dir", str(output))
        done = _agent_eval("run", EXAMPLE, *requirements, variables=variables)
        asked: dict[str, list[GenerateRequest]] = defaultdict(list)
        for request in server.received:
            asked[roles.role_of(request)].append(request)
        refused = server.stats.refused
    assert (output / "results.json").exists(), done.stdout + done.stderr
    yield Ran(
        code=done.returncode,
        console=done.stdout,
        results=json.loads((output / "results.json").read_text(encoding="utf-8")),
        plan=json.loads(plan.stdout),
        asked=asked,
        refused=refused,
    )


def _agent_eval(*arguments: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return gate_server.run(arguments, cwd=PROJECT, environment={**os.environ, **variables}, timeout=120)


def test_judged_example__every_criterion_of_adk_is_scored_in_one_run(ran: Ran) -> None:
    assert (ran.code, ran.results["verdict"]) == (0, "passed"), ran.console
    statuses: dict[str, set[str]] = defaultdict(set)
    for case in ran.results["cases"]:
        for metric in case["metrics"]:
            statuses[metric["name"]].add(metric["status"])
    assert set(statuses) == {name for name, spec in METRICS.items() if spec.source == "adk"}
    informational = {name for name, values in statuses.items() if values == {"informational"}}
    assert len(informational) == 4
    assert all(values == {"passed"} for name, values in statuses.items() if name not in informational)


def test_judged_example__the_agents_client_and_ours_are_of_different_generations(ran: Ran) -> None:
    assert set(ran.asked) == {"agent", "judge", "guest"}
    versions = {role: {_sdk(request) for request in requests} for role, requests in ran.asked.items()}
    assert all(int(version.partition(".")[0]) < 3 for version in versions["agent"]), "google-adk has google-genai<3"
    ours = {importlib.metadata.version("google-genai")}
    assert (versions["judge"], versions["guest"]) == (ours, ours)
    assert all(int(version.partition(".")[0]) >= 3 for version in ours)
    assert ran.refused == []


def _sdk(request: GenerateRequest) -> str:
    match = re.search(r"google-genai-sdk/([\d.]+)", request.headers["x-goog-api-client"])
    assert match is not None
    return match[1]


def test_judged_example__guests_say_what_the_plan_wants_and_stop(ran: Ran) -> None:
    runs = {case["eval_id"]: case["runs"] for case in ran.results["cases"] if "/guests/" in case["file"]}
    assert {name: [run["stop_reason"] for run in of] for name, of in runs.items()} == {
        "ana_wants_a_single": ["stop-signal"],
        "lee_only_looks": ["stop-signal"],
    }


def test_the_plan_brackets_the_calls_that_are_billed__row_by_row(ran: Ran) -> None:
    billed = Counter[tuple[str, str]]()
    for case in ran.results["cases"]:
        for metric in case["metrics"]:
            for run in metric["runs"]:
                billed[case["file"], metric["name"]] += run.get("details", {}).get("judge", {}).get("calls", 0)
    [guests] = [file["file"] for file in ran.plan["files"] if "/guests/" in file["file"]]
    billed[guests, "user-simulator"] = len(ran.asked["guest"])

    rows = {
        (file["file"], row["metric"]): row["calls"]
        for file in ran.plan["files"]
        for row in file["criteria"]
        if row["model"] is not None
    }

    assert {key for key, calls in billed.items() if calls} == set(rows)
    for key, calls in rows.items():
        assert calls["least"] <= billed[key] <= (calls["most"] if calls["most"] is not None else billed[key]), key
    assert any(rows[key]["least"] < billed[key] for key in rows), "a judge that wavers costs more than the least"
    assert any(calls["least"] == billed[key] < (calls["most"] or 10**6) for key, calls in rows.items())
    assert sum(billed.values()) == len(ran.asked["judge"]) + len(ran.asked["guest"])
    [bill] = ran.results["model_usage"]
    assert bill["calls"] == sum(billed.values())
    assert ran.plan["calls"]["least"] <= bill["calls"]


def test_judged_example__votes_that_fell_apart_are_shown(ran: Ran) -> None:
    votes = [
        [vote["verdict"] for vote in judgement["votes"]]
        for case in ran.results["cases"]
        for metric in case["metrics"]
        if metric["name"] == "rubric_based_final_response_quality_v1"
        for run in metric["runs"]
        for judgement in run["details"]["judgements"]
        if judgement["subject"] == "tone"
    ]
    assert [sorted(of) for of in votes] == [["no", "yes", "yes", "yes"]] * 4


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


def test_judged_example__its_judge_knows_rubrics_and_sentences() -> None:
    answer, tools = "The final answer, to be checked", "Tool calls and what they returned"

    assert roles.check_property("Every price is right.", {answer: "240 euros", tools: '"total": 240'})[0]
    assert not roles.check_property("Every price is right.", {answer: "250 euros", tools: '"total": 240'})[0]
    assert not roles.check_property("It rhymes.", {})[0]
    assert roles.label_of({"number": 1, "sentence": "It is 250 euros."}, "240")["label"] == "unsupported"
