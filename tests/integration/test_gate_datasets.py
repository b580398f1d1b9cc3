"""Repositories of agents-cli, as they are: datasets, metrics that are code, no thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from adk_harness import request, running
from base_repos import new_repo
from dataset_samples import CALL, FOLDER, HISTORY, POOL, RESULT, asked, event, project, talked
from fake_gemini import Answer, FakeGemini, GenerateRequest
from gate_runs import Done, Repository
from golden_files import check

from agent_eval_scoring.core.content import model_message, text_of, user_message
from agent_eval_scoring.core.invocation import answered
from agent_eval_scoring.evalset.models import EvalCase, SeededEvent, SessionInput

DATASET = f"{FOLDER}/datasets/basic-dataset.json"
LENGTH = """\
def evaluate(instance):
    text = "".join(part.get("text", "") for part in instance["response"]["parts"])
    return {"score": float(len(text)), "explanation": text}
"""
CASES = {
    "eval_cases": [
        asked("open", "Are you open?"),
        asked("price", "The price?", "Ten euros."),
        talked("cancel", HISTORY, [event("user", "Cancel it.", state_delta={"tier": "gold"})]),
    ]
}


def of_agents_cli(repo: Repository, dataset: Any = CASES, config: Any = POOL, limits: Any = None) -> Repository:
    """The repository with a project of agents-cli whose agent is `cinema`."""
    project(repo.root, dataset, config, limits)
    repo.write({"agents-cli-manifest.yaml": 'name: "x"\nagent_directory: "cinema"\n'})
    return repo


def scores(done: Done) -> dict[str, Any]:
    return {
        f"{case.eval_id} {metric.name}": metric.score
        for case in done.report.cases
        for metric in case.metrics
        if not metric.name.endswith("_v1")
    }


def code(name: str, source: str, **more: Any) -> dict[str, Any]:
    return {"metrics_to_run": [name], "custom_metrics": [{"name": name, "custom_function": source, **more}]}


def test_run__a_project_of_agents_cli_as_it_is(repository: Repository) -> None:
    """Discovery, history, state, the instance of a metric, and what a first run says of metrics without thresholds."""
    repository.agent("cinema", "dice")
    of_agents_cli(repository)
    done = repository.gate("run", code=0)
    assert [file.agent for file in done.report.files] == ["cinema"]
    assert scores(done) == {"open count": 1.0, "price count": 3.0, "cancel count": 6.0}
    assert "Only errors can fail this run: count has no threshold" in done.out
    files = {name: (done.output / name).read_text("utf-8") for name in ("summary.md", "junit.xml", "report.html")}
    assert [name for name, text in files.items() if "Only errors can fail this run" not in text] == []
    answers = [text_of(turn.final_response) for recording in done.recordings for turn in recording.invocations]
    check("golden_gate/datasets/answers.txt", "\n".join(answers) + "\n")


LIMITS: list[tuple[dict[str, Any], int]] = [
    ({"count": 1}, 0),
    ({"count": 2}, 1),
    ({"count": {"threshold": 5, "direction": "lower"}}, 1),
    ({"count": {"threshold": 6, "direction": "lower"}}, 0),
]


@pytest.mark.slow
def test_run__thresholds_of_metrics_that_are_code(repository: Repository) -> None:
    repository.agent("cinema")
    for limits, exit_code in LIMITS:
        of_agents_cli(repository, limits=limits)
        repository.gate("run", code=exit_code)


def test_run__traces_are_the_agent(repository: Repository) -> None:
    """What `agents-cli eval generate` has written is scored, by functions in a process of its own."""
    of_agents_cli(repository)
    answered = [{"response": model_message("Ten euros.").model_dump(exclude_none=True)}]
    prompt = asked("price", "The price?", responses=answered)
    call = {"author": "cinema", "content": {"role": "model", "parts": [CALL]}}
    traced = {**prompt, "agent_data": {"turns": [{"turn_index": 0, "events": [call, event("cinema", "Ten euros.")]}]}}
    repository.write({"traces.json": {"eval_cases": [traced]}, "twice.json": {"eval_cases": [traced, traced]}})
    done = repository.gate("run", "--agent", "recorded:traces.json", f"{DATASET}:price", code=0)
    assert scores(done) == {"price count": 2.0}
    done = repository.gate("run", "--agent", "recorded:traces.json", code=1)
    assert done.statuses == {"open": "failed", "price": "passed", "cancel": "failed"}, "it has no such cases"
    assert "it has several cases `price`" in repository.gate("run", "--agent", "recorded:twice.json", code=2).out
    assert "it is a dataset, not traces" in repository.gate("run", "--agent", f"recorded:{DATASET}", code=2).out


def test_run__traces_that_a_script_of_the_project_wrote(repository: Repository) -> None:
    """They begin with the message, a person confirms a call meanwhile, and they are cases themselves."""
    of_agents_cli(repository)
    call, confirmed = (
        {"author": author, "content": {"role": "model", "parts": [part]}}
        for author, part in (("cinema", CALL), ("user", RESULT))
    )
    turns = [[event("user", "The price?"), call], [confirmed, event("cinema", "Ten euros.")]]
    said = [{"response": model_message("Ten euros.").model_dump(exclude_none=True)}]
    traced = {**talked("price", *turns, responses=said), "prompt": asked("price", "The price?")["prompt"]}
    bare = talked("price", *turns)
    repository.write({"artifacts/own.json": {"eval_cases": [traced]}, "bare.json": {"eval_cases": [bare]}})
    of_dataset, own = f"{DATASET}:price", "artifacts/own.json"
    for recorded, files in (("bare.json", of_dataset), (own, of_dataset), (own, own)):
        done = repository.gate("run", "--agent", f"recorded:{recorded}", files, code=0)
        [recording] = done.recordings
        [turn] = recording.invocations
        assert text_of(turn.user_content) == "The price?"
        calls = [(call.name, response is not None) for call, response in answered(turn.intermediate_data)]
        assert calls == [("book", True)], recorded
    assert scores(done) == {"price count": 4.0}, "the message, the call, the confirmation, the answer"


def test_run__a_judge_with_a_prompt_of_the_project(repository: Repository) -> None:
    """Instead of Google's service; higher and lower thresholds, and its votes in the report."""
    repository.agent("cinema", "dice")
    pool = [
        {"name": "tone", "prompt_template": "Rate {response}", "judge_model_sampling_count": 2, "threshold": 4},
        {"name": "rude", "prompt_template": "How rude is {agent_data}?", "threshold": 1, "direction": "lower"},
    ]
    of_agents_cli(repository, config={"metrics_to_run": ["tone", "rude"], "custom_metrics": pool})
    asked: list[str] = []

    def judge(request: GenerateRequest) -> Answer:
        prompt = request.user_texts[-1]
        asked.append(prompt)
        score = 1 if "How rude" in prompt else 3 if "Cancel" in prompt or len(asked) % 2 else 5
        return Answer.text(json.dumps({"explanation": "so it is", "score": score}))

    with FakeGemini(judge) as server:
        environment = {"AGENT_EVAL_JUDGE_API_KEY": "a-key-of-the-judge"}
        done = repository.gate("run", "--judge-base-url", server.url, environment=environment, code=1)
    by_case = {case.eval_id: case for case in done.report.cases}
    assert len(asked) == 9 and {metric.name for metric in by_case["open"].metrics} >= {"tone", "rude"}
    rude = [metric for case in by_case.values() for metric in case.metrics if metric.name == "rude"]
    assert [(metric.score, metric.status) for metric in rude] == [(1.0, "passed")] * 3
    runs = [run for case in by_case.values() for metric in case.metrics for run in metric.runs]
    assert {vote.rationale for run in runs for verdict in run.verdicts for vote in verdict.votes} == {"so it is"}
    assert "tone 3.00: 3 (2:0): so it is" in done.out and "rude 1.00 (needs at most 1.00)" in done.out


def test_judge_prompt__its_replies_are_recorded_and_replayed(repository: Repository) -> None:
    """Without a judge at hand; another prompt is another question, which the tape can't answer."""
    repository.agent("cinema", "dice")
    pool = [{"name": "tone", "prompt_template": "Rate {response}", "judge_model_sampling_count": 2, "threshold": 4}]
    of_agents_cli(repository, config={"metrics_to_run": ["tone"], "custom_metrics": pool})
    environment = {"AGENT_EVAL_JUDGE_API_KEY": "a-key-of-the-judge", "CI": ""}
    with FakeGemini(lambda request: Answer.text(json.dumps({"explanation": "so", "score": 5}))) as server:
        url = ("--judge-base-url", server.url)
        repository.gate("run", "--record", "all", *url, environment=environment, code=0)
    replayed = repository.gate("run", "--replay", "all", *url, environment=environment, code=0)
    assert {case.replayed for case in replayed.report.cases} == {True}
    assert {metric.score for case in replayed.report.cases for metric in case.metrics if metric.name == "tone"} == {5.0}
    pool[0]["prompt_template"] = "Rate it: {response}"
    of_agents_cli(repository, config={"metrics_to_run": ["tone"], "custom_metrics": pool})
    done = repository.gate("run", "--replay", "all", *url, environment=environment, code=3)
    assert "No reply of `gemini-2.5-flash` to this question is recorded" in done.out


@pytest.mark.parametrize(
    ("direction", "score", "worse"), [("lower", 5, True), ("lower", 1, False), ("higher", 1, True)]
)
def test_judge_prompt__without_a_threshold_it_is_compared_in_its_direction(
    direction: str, score: int, worse: bool, repository: Repository
) -> None:
    repository.agent("cinema", "dice")
    pool = [{"name": "tone", "prompt_template": "Rate {response}", "direction": direction}]
    cases = {"eval_cases": [asked(f"c{number}", "Are you open?") for number in range(6)]}
    of_agents_cli(repository, dataset=cases, config={"metrics_to_run": ["tone"], "custom_metrics": pool})
    scores = iter([3] * 6)

    def judge(request: GenerateRequest) -> Answer:
        return Answer.text(json.dumps({"explanation": "so", "score": next(scores, score)}))

    environment = {"AGENT_EVAL_JUDGE_API_KEY": "a-key-of-the-judge"}
    with FakeGemini(judge) as server:
        url = ("--judge-base-url", server.url)
        repo = new_repo(repository.root)
        repository.gate("run", *url, "--output-dir", "base", environment=environment, code=0)
        repo.git("add", "-A")
        repo.git("commit", "-qm", "base")
        against = ("--baseline", "file:base/results.json", "--base-ref", "HEAD", "--gate", "regressions")
        done = repository.gate("run", *url, *against, environment=environment)
    assert ("suspected regression: tone" in done.out) == worse, "the fresh runs of both sides have the new score"


SAID = [
    SeededEvent(author="user", content=user_message("Do you have seats?")),
    SeededEvent(author="model", content=model_message("Yes.")),
]
PAST = EvalCase(
    eval_id="x", conversation=[], session_input=SessionInput(app_name="a", user_id="u", state={}, events=SAID)
)


@pytest.mark.parametrize("version", [REFERENCE, *(pytest.param(old, marks=pytest.mark.slow) for old in MATRIX[:2])])
async def test_seeded_history__is_what_the_model_is_shown(version: str, tmp_path: Path) -> None:
    """In every version of google-adk, with the state of the case."""
    async with running("cinema", tmp_path, python=host_forks.command(adk_python(version))) as agent:
        session = await agent.open(request(case=PAST, state={"tier": "gold"}))
        turns = [await session.send(user_message(text), timeout=60) for text in ("And?", "Well?")]
        await session.close()
    check("golden_gate/datasets/seeded.txt", "".join(f"{text_of(turn.final_response)}\n" for turn in turns))


NO_KEYS = {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}
CLIENT = "from google import genai; genai.Client()\n"
"""google-genai raises without a key, before any request."""


def test_run__a_client_without_a_key_in_code_that_runs_is_the_authors(repository: Repository) -> None:
    """Who adds it to code that needed no key has broken it: `on-inconclusive` must not make that green."""
    repository.agent("cinema")
    function = f"def evaluate(instance):\n    {CLIENT}"
    of_agents_cli(repository, config=code("tone", function))
    done = repository.gate("run", "--on-inconclusive", "pass", environment=NO_KEYS, code=1)
    errors = [metric.runs[0].error for case in done.report.cases for metric in case.metrics if metric.name == "tone"]
    assert {error and error.kind for error in errors} == {"custom-metric-exception"}
    agent = repository.root / "cinema" / "agent.py"
    callback = f"def prepare(callback_context):\n    {CLIENT}"
    callback += "\nroot_agent.before_agent_callback = prepare\n"
    agent.write_text(f"{agent.read_text('utf-8')}\n\n{callback}", "utf-8")
    done = repository.gate("run", "--on-inconclusive", "pass", environment=NO_KEYS, code=1)
    assert {run.error and run.error.kind for case in done.report.cases for run in case.runs} == {"agent-exception"}


def test_run__a_client_without_a_key_at_import_is_nobodys_only_without_any_key(repository: Repository) -> None:
    repository.agent("cinema")
    of_agents_cli(repository, config=code("length", LENGTH))
    agent = repository.root / "cinema" / "agent.py"
    source = agent.read_text("utf-8")
    agent.write_text(f"{source}\n\n{CLIENT}", "utf-8")
    done = repository.gate("run", environment=NO_KEYS, code=3)
    assert "No API key was provided" in done.out and "GOOGLE_API_KEY" in done.out
    done = repository.gate("run", "--on-inconclusive", "pass", environment={**NO_KEYS, "OPENAI_API_KEY": "x"}, code=1)
    assert "No API key was provided" in done.out
    repository.write({"openai/__init__.py": "", "openai/words.py": "raise ValueError('No API key was provided.')\n"})
    agent.write_text(f"{source}\n\nimport openai.words\n", "utf-8")
    assert "No API key was provided" in repository.gate("run", environment=NO_KEYS, code=1).out
