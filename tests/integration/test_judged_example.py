"""The example with all criteria: an agent, its judge and a simulated guest, all at a Gemini on loopback, in one run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gate_server
import pytest
from fake_gemini import FakeGemini
from fake_gemini.questions import verdicts_of
from golden_files import check
from hotel_concierge import roles

from agent_eval_results import RunReport
from agent_eval_scoring.evalset.models.criteria import METRICS

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples/hotel_concierge"
ANSWERS = ("books", "no_hotel_there", "one_room_in_oslo", "rooms_in_lisbon")


def gate(folder: Path, server: FakeGemini | None, *arguments: str) -> tuple[int, str]:
    """Runs `agent-eval` in a folder, without a key if there is no server; the exit code, and what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("API_KEY")}
    if server is not None:
        environment |= {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "the-judges-own-key"}
    done = gate_server.run([*arguments], cwd=folder, environment={**environment, "CI": ""}, timeout=120)
    return done.returncode, done.stdout


def run(folder: Path, server: FakeGemini | None, *arguments: str) -> tuple[int, RunReport]:
    requirements = ("--agent-requirements", str(PROJECT / "tests/data/agents/requirements.txt"))
    code, _ = gate(folder, server, "run", "hotel_concierge", *requirements, *arguments)
    return code, RunReport.model_validate_json((folder / "agent-eval-results/results.json").read_bytes())


def scores(report: RunReport) -> dict[tuple[str, str], Any]:
    """What each metric gave: durations are the replay's own."""
    return {
        (case.eval_id, metric.name): (metric.status, metric.score, metric.runs[0].details.get("judgements"))
        for case in report.cases
        for metric in case.metrics
        if metric.name != "invocation_duration_v1"
    }


def shown(report: RunReport) -> str:
    """Each score, with the verdicts of all votes: some fall apart."""
    lines = []
    for case in report.cases:
        lines.append(f"{case.status}  {case.eval_id}  {' '.join(run.stop_reason or '' for run in case.runs)}".rstrip())
        for metric in case.metrics:
            votes = [
                " ".join(sorted(str(vote["verdict"]) for vote in judgement["votes"]))
                for judgement in metric.runs[0].details.get("judgements", [])
            ]
            score = "" if metric.name == "invocation_duration_v1" else f" {metric.score}"
            lines.append(f"    {metric.status} {metric.name}{score} {'; '.join(votes)}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def change(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / "hotel_concierge/evals" / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.slow
def test_judged_example__every_criterion_of_adk_is_scored_in_one_run_and_replayed(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "hotel_concierge")
    with FakeGemini(roles.Roles(), keep=10_000) as server:
        _, plan = gate(tmp_path, server, "validate", "hotel_concierge", "--plan", "--format", "json")
        assert server.stats.requests == 0
        code, live = run(tmp_path, server, "--record", "all")

    assert (code, live.verdict) == (0, "passed")
    assert {metric.name for case in live.cases for metric in case.metrics} == {
        name for name, spec in METRICS.items() if spec.source == "adk"
    }
    check("golden_examples/hotel_concierge.txt", shown(live))
    assert {roles.role_of(request) for request in server.received} == {"agent", "judge", "guest"}
    assert server.stats.refused == []
    [bill] = live.model_usage
    asked = [request for request in server.received if roles.role_of(request) != "agent"]
    planned = json.loads(plan)["calls"]
    assert planned["least"] <= bill.calls == len(asked)

    code, again = run(tmp_path, None, "--replay", "all")
    assert (code, scores(again)) == (0, scores(live)), "also the votes that fell apart"
    assert all(case.replayed for case in again.cases)
    assert [(usage.calls, usage.failures, usage.cost) for usage in again.model_usage] == [(0, 0, None)]
    tapes = list(tmp_path.rglob("*.tape.json"))
    assert len(tapes) == 9 and not any(b"the-judges-own-key" in tape.read_bytes() for tape in tapes)

    rubrics = "rubric_based_final_response_quality_v1"
    change(tmp_path, "answers/test_config.json", "The answer is friendly.", "The answer sounds friendly.")
    change(tmp_path, "guests/guests.evalset.json", "You only want to know", "You want to know")
    code, missed = run(tmp_path, None, "--replay", "all", "--on-inconclusive", "pass")
    assert (code, missed.verdict) == (3, "inconclusive"), "no outage excuses what is not recorded"
    unscored = {
        case.eval_id: [
            (metric.name, score.reason.code) for metric in case.metrics for score in metric.runs if score.reason
        ]
        for case in missed.cases
        if case.status == "errored"
    }
    assert unscored == {**{name: [(rubrics, "judge-replay-miss")] for name in ANSWERS}, "lee_only_looks": []}
    [error] = [run.error for case in missed.cases for run in case.runs if run.error is not None]
    assert (error.kind, error.owner) == ("simulator-replay-miss", "gate")
    with FakeGemini(roles.Roles(), keep=10_000) as server:
        code, mixed = run(tmp_path, server, "--replay", "missing-live")
    assert (code, [case.eval_id for case in mixed.cases if not case.replayed]) == (0, ["lee_only_looks"])
    of_answers = [prompt for request in server.received for prompt in request.user_texts if "Lisbon" in prompt]
    assert of_answers and all("The answer sounds friendly." in prompt for prompt in of_answers), (
        "judges are asked that alone"
    )


# --- its judge is no rubber stamp -------------------------------------------------------------------------------------


ANSWER = "The agent's answer, to be checked"
TALK = "The conversation, to be checked"
MATCH, SUCCESS = "final_response_match_v2", "multi_turn_task_success_v1"


@pytest.mark.parametrize(
    ("question", "shown", "verdict"),
    [
        (MATCH, {"The reference answer": "It is 240 euros.", ANSWER: "240 euros, of course."}, "valid"),
        (MATCH, {"The reference answer": "It is 240 euros.", ANSWER: "250 euros."}, "invalid"),
        ("safety_v1", {ANSWER: "Find it yourself, idiot."}, "unsafe"),
        ("response_evaluation_score", {ANSWER: "For 2 nights we"}, "1"),
        (SUCCESS, {TALK: "USER TURN 1: book it\nAGENT (a) TURN 1: Done!"}, "failed"),
        (SUCCESS, {TALK: "USER TURN 1: book it\nAGENT (a) TURN 1: HC-L1"}, "achieved"),
    ],
)
def test_judged_example__its_judge_decides_by_what_it_is_shown(
    question: str, shown: Mapping[str, str], verdict: str
) -> None:
    assert roles.judge(question, shown, verdicts_of(question))[0] == verdict
