"""`agent-eval validate --plan`: what it says before a run is what the run then does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_gemini import FakeGemini
from gate_runs import Repository
from judged_gate import BAD, KEY, TORN, Judge, answers, criteria, judged_run

METRICS = (
    "final_response_match_v2",
    "hallucinations_v1",
    "safety_v1",
    "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality_v1",
)
RUBRICS = {"rubrics": [{"rubric_id": "short", "rubric_content": {"text_property": "The answer is short."}}]}
NO_KEYS = {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": "", "AGENT_EVAL_JUDGE_API_KEY": ""}
PLAN = ("validate", "--plan", "evals", "--agent", "recorded:answers.json")
EXAMPLES = Path(__file__).parents[2] / "examples"


def judged(repository: Repository, *, samples: int) -> None:
    """An eval file with every metric that judges fixed turns."""
    options = {"judge_model_options": {"num_samples": samples}}
    rubrics = {
        f"rubric_based_{what}_quality_v1": {"threshold": 0.5, **RUBRICS, **options}
        for what in ("final_response", "tool_use", "multi_turn_trajectory")
    }
    coherence = {"response_evaluation_score": {"threshold": 3.0, **options}}
    criteria(repository, *METRICS, samples=samples, more={**rubrics, **coherence, "response_match_score": 0.0})
    answers(repository, {"good": ["Paris.", "Paris."], "torn": [TORN, BAD, TORN], "bad": BAD})


def plan(repository: Repository, *arguments: str, **options: Any) -> dict[str, Any]:
    done = repository.gate(
        *("validate", "--plan", "evals", "--agent", "recorded:answers.json", "--format", "json", *arguments),
        python=False,
        **options,
    )
    assert done.code == 0, done.err
    message: dict[str, Any] = json.loads(done.out)
    return message


def test_the_calls_of_a_run_are_within_the_plan__and_the_tokens_of_the_right_size(repository: Repository) -> None:
    judged(repository, samples=1)
    with FakeGemini(Judge()) as server:
        message = plan(repository, "--num-runs", "2", environment=NO_KEYS)
        assert server.stats.requests == 0
        done = judged_run(repository, server, "--num-runs", "2")

        least, most = message["calls"]["least"], message["calls"]["most"]
        assert 0 < least <= server.stats.requests <= most
        assert least < most, "only what is skipped costs more than a single vote"
        line = f"Judges and simulated users will be asked {least:,} to {most:,} times (gemini-2.5-flash)."
        assert line in done.err, "`run` says it before it begins"
    assert message["turns"] == {"least": 12, "most": 12}
    asked = dict.fromkeys(METRICS, 0)
    for case in done.report.cases:
        for metric in case.metrics:
            for run in metric.runs:
                if "judge" in run.details:
                    asked[metric.name] = asked.get(metric.name, 0) + run.details["judge"]["calls"]
    rows = {row["metric"]: row["calls"] for row in message["files"][0]["criteria"]}
    assert len(asked) == 10
    for name, calls in asked.items():
        assert rows[name]["least"] <= calls <= rows[name]["most"], name
    assert rows["response_match_score"] == {"least": 0, "most": 0}
    # The agent has no instructions and no tools here, so that nothing comes on top.
    [bill] = done.report.model_usage
    estimated = message["tokens"]["least"] - 500 * message["calls"]["least"]
    assert bill.input_tokens is not None
    assert 0.7 * bill.input_tokens < estimated < 1.3 * bill.input_tokens
    least_cost, most_cost = message["cost"]
    assert 0 < least_cost < most_cost and message["unpriced"] == []


def test_it_names_the_missing_key_and_who_needs_it__and_ends_well(repository: Repository) -> None:
    judged(repository, samples=5)

    done = repository.gate(*PLAN, python=False, environment=NO_KEYS)

    assert done.code == 0
    assert "needs an API key" in done.err and "judge-api-key" in done.err
    assert "final_response_match_v2 of evals/some.evalset.json:good" in done.err
    assert "Models that would be called" in done.out and "key:" not in done.out
    assert "gemini-2.5-flash    its key is missing" in done.out
    assert not done.output.exists(), "nothing is written"


def test_it_shows_which_key_would_be_used__and_that_the_agent_gets_it_too(repository: Repository) -> None:
    repository.agent("home")
    judged(repository, samples=5)
    command = ("validate", "--plan", "evals", "--agent", "home")

    shared = repository.gate(*command, environment={**NO_KEYS, "GOOGLE_API_KEY": KEY})
    own = repository.gate(*command, environment={**NO_KEYS, "AGENT_EVAL_JUDGE_API_KEY": KEY})

    assert (shared.code, own.code) == (0, 0), shared.err + own.err
    assert "key: GOOGLE_API_KEY" in shared.out
    assert "The agent gets the judge's key for gemini too, as GOOGLE_API_KEY." in shared.out
    assert "key: judge-api-key" in own.out
    assert "The agent gets" not in own.out
    assert KEY not in shared.out + shared.err + own.out + own.err


def test_plan__what_is_wrong_is_2(repository: Repository) -> None:
    judged(repository, samples=5)
    model = repository.gate(*PLAN, "--judge-model", "nobody/x", python=False)
    repository.write({"agent-eval.toml": '[[policy]]\ncases = ["weather*"]\nblocking = false\n'})
    policy = repository.gate(*PLAN, environment=NO_KEYS)
    repository.write({"evals/broken.test.json": "{"})
    file = repository.gate(*PLAN, python=False)

    nothing = "agent-eval.toml\n  1: error [policy-matches-nothing] `weather*`"
    for done, words in ((model, "nobody/x"), (policy, nothing), (file, "broken.test.json")):
        assert (done.code, "In all" in done.out, words in done.err) == (2, False, True), done.err


def test_validate__names_a_misspelt_judge_model_without_a_key(repository: Repository) -> None:
    criterion = {"threshold": 0.8, "judge_model_options": {"judge_model": "gemin-2"}}
    repository.write({"evals/test_config.json": {"criteria": {METRICS[0]: criterion}}})
    repository.evals("evals/a.test.json", {"one": "say hello"})
    done = repository.gate("validate", environment=NO_KEYS)
    assert (done.code, "[judge-model-unknown]" in done.out, "gemin-2" in done.out) == (2, True, True), done.out


def test_plan__the_evaluation_service_is_named_with_what_it_needs(repository: Repository) -> None:
    judged(repository, samples=5)
    repository.write({"evals/test_config.json": {"criteria": {"safety_v1": {"threshold": 1.0, "backend": "vertex"}}}})
    command = ("evals", "--agent", "recorded:answers.json")
    place = {"GOOGLE_CLOUD_PROJECT": "a-project", "GOOGLE_CLOUD_LOCATION": "us-central1"}

    message = repository.gate("validate", "--plan", *command, python=False, environment={**NO_KEYS, **place})
    refused = repository.gate(
        "run", *command, python=False, environment={**NO_KEYS, **place, "GOOGLE_CLOUD_PROJECT": ""}
    )

    assert message.code == 0, message.err
    assert "vertex_ai_evaluation" in message.out and "application default credentials" in message.out
    assert "No estimate of the cost of safety_v1" in message.out
    assert "`vertex-eval` is Vertex AI's evaluation service, which bills each call." in message.out
    assert refused.code == 2
    said = " ".join(refused.out.split())
    assert "GOOGLE_CLOUD_PROJECT is not set" in said
    assert "safety_v1 of evals/some.evalset.json:good" in said


@pytest.mark.parametrize("example", ["home_automation", "gemini_weather"])
def test_plan__the_examples_ask_no_judge(repository: Repository, example: str) -> None:
    shutil.copytree(EXAMPLES / example, repository.root / example, ignore=shutil.ignore_patterns("agent-eval-results"))

    done = repository.gate("validate", "--plan", "--format", "json", environment=NO_KEYS)

    loaded = json.loads(done.out)
    assert (done.code, loaded["calls"], loaded["models"]) == (0, {"least": 0, "most": 0}, [])
    assert loaded["turns"]["least"] == loaded["turns"]["most"] > 0
