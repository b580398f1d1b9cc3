"""Each criterion x each google-adk x each driver gives the same scores of the same conversation."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import FIXTURES, packages_python
from crossing_table import Cell, Impossible, Row, Table
from fake_gemini import Answer, FakeGemini, GenerateRequest
from gate_runs import Done, Repository, patience

from agent_eval_results.data.report import CaseReport, RunReport, RunScore
from agent_eval_scoring.evalset.models import METRICS
from agent_eval_scoring.evalset.models.criteria import Family

# Runs of the gate on the fixture agent `newsroom`: with each google-adk, through each driver.


PLANTED = "Tromso"
"""What the judge counts: it is in calls, responses, texts and answers, and in no instruction or declaration."""
Outcome = str | tuple[float | None, ...]
"""The scores of the turns, or the code of the reason why there are none."""
PYTHON_METRICS = {
    "custom: calls": ("newsroom.metrics.calls", {}),
    "custom: texts": ("newsroom.metrics.texts", {}),
    "custom: state": ("newsroom.metrics.state", {}),
    "custom: session states": ("newsroom.metrics.states", {}),
    "custom: deepeval": ("agent_eval_deepeval.metric", {"metric": "Calls"}),
}
JUDGED = "rubric_based_final_response_quality_v1"
INSTRUCTIONS = "judged instructions and tools"
"""A value beside the metrics: a rubric criterion whose rubrics are about what no event carries."""


def judge(request: GenerateRequest) -> Answer:
    """A judge whose verdicts depend on all that it is shown, and a simulated user."""
    prompt = request.user_texts[-1]
    schema = request.body["generationConfig"].get("responseJsonSchema")
    if schema is None:
        return Answer.text("</finished>" if "The helper says" in prompt else "ask")
    if "score" in schema["properties"]:
        return Answer.text(json.dumps({"explanation": "", "score": prompt.count(PLANTED)}))
    [(name, said), *_] = ((key, value) for key, value in schema["properties"].items() if key != "reasoning")
    if "enum" in said:
        words = said["enum"]
        return Answer.text(json.dumps({"reasoning": "", name: words[prompt.count(PLANTED) % len(words)]}))
    if said["items"]["type"] == "string":
        return Answer.text(json.dumps({name: []}))
    return Answer.text(json.dumps({name: [_opinion(said["items"], prompt, item) for item in _listed(prompt)]}))


def _listed(prompt: str) -> list[dict[str, Any]]:
    """The numbered rubrics or sentences of a question."""
    listed = re.findall(r"^\[\n.*?^\]", prompt, re.MULTILINE | re.DOTALL)
    return json.loads(listed[-1])  # type: ignore[no-any-return]


def _opinion(schema: Mapping[str, Any], prompt: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Of a rubric: whether the text that it names, backwards, is shown. Of a sentence: by the planted words."""
    verdict, label = (schema["properties"].get(field, {}).get("enum") for field in ("verdict", "label"))
    if verdict:
        said = {"verdict": verdict[item["property"][::-1] not in prompt]}
    else:
        said = {"label": label[prompt.count(PLANTED) % len(label)]}
    return {**dict.fromkeys(schema["required"], ""), "number": item["number"], **said}


def _rubrics(*shown: str) -> list[dict[str, Any]]:
    """Rubrics that hold if the judge is shown a text. Each has it backwards, so that it does not show it itself."""
    return [
        {"rubric_id": str(number), "rubric_content": {"text_property": text[::-1]}} for number, text in enumerate(shown)
    ]


SHOWN = ("Tromso will have rain", "map.png", "Yes, in Tromso.", '"status": "pending"', "Bergen", "seen_Oslo", "snow")
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "trajectory_single_tool_use": {"tool_name": "forecast"},
    "tool_rules": {"rules": [{"some_of": ["forecast"]}, {"never": "forecast"}, {"some_of": ["helper > look_up"]}]},
    "final_session_state": {"match": "exact"},
    "tool_trajectory_partial": {"strict_args": True},
    "response_similarity": {"algorithm": "levenshtein"},
    "response_facts": {"names": True, "negation": True},
    "intermediate_response_similarity": {"algorithm": "levenshtein"},
    "final_response_match_v2": {"include_intermediate_responses_in_final": True},
    "rubric_based_final_response_quality_v1": {"rubrics": _rubrics(*SHOWN)},
    "rubric_based_tool_use_quality_v1": {"rubrics": _rubrics(*SHOWN)},
    "rubric_based_multi_turn_trajectory_quality_v1": {"rubrics": _rubrics(*SHOWN)},
    "judge_prompt": {"threshold": 0, "prompt_template": "Count: {prompt} {response} {agent_data}"},
    "hallucinations_v1": {"evaluate_intermediate_nl_responses": True},
}


def _criterion(metric: str, /, **options: Any) -> dict[str, Any]:
    spec = METRICS.get(metric)
    judged = {"judge_model_options": {"num_samples": 1}} if spec and spec.family is Family.JUDGE else {}
    return {"threshold": spec.low if spec else 0.0, **judged, **OPTIONS.get(metric, {}), **options}


def _configs(*, python: bool) -> dict[str, Any]:
    """test_config.json of each case."""
    scored = [name for name, spec in METRICS.items() if spec.options is not None and not spec.needs_scenario]
    custom = PYTHON_METRICS if python else {}
    lead = _rubrics("Lead the newsroom of Nora.", "Looks up the weather of a city.", "Write about")
    guest = {
        "per_turn_user_simulator_quality_v1": _criterion("per_turn_user_simulator_quality_v1"),
        JUDGED: _criterion(JUDGED, rubrics=lead),
    }
    return {
        "turns": {
            "criteria": {
                **{name: _criterion(name) for name in scored},
                **{name: _criterion(name, **options) for name, (_, options) in custom.items()},
            },
            "custom_metrics": {name: {"code_config": {"name": function}} for name, (function, _) in custom.items()},
        },
        "guest": {"criteria": guest},
    }


class Newsroom:
    """Results of runs, each made once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._judge = self._stack.enter_context(FakeGemini(judge))
        self._servers: dict[str, int] = {}
        self._outcomes: dict[tuple[str, str], dict[str, Outcome]] = {}

    def close(self) -> None:
        self._stack.close()

    def outcome(self, version: str, driver: str, criterion: str) -> Outcome:
        """What a criterion gives, in a run that scores all of them."""
        if (version, driver) not in self._outcomes:
            self._outcomes[version, driver] = {}  # A run that fails is not repeated for the other criteria.
            self._outcomes[version, driver] = _outcomes(self._run(version, driver).report)
        outcome = self._outcomes[version, driver][criterion]
        return "measured" if criterion == "invocation_duration_v1" and isinstance(outcome, tuple) else outcome

    def _run(self, version: str, driver: str) -> Done:
        repository = self._repository(version, driver)
        if driver in REPLAYS:
            self._gate(repository, version, "--agent", "newsroom", "--record", "all", "--yes")
            return self._gate(repository, version, "--agent", "newsroom", "--replay", REPLAYS[driver])
        return self._gate(
            repository, version, "--agent", self._agent(version, driver), "--remote-sessions=ignore-state"
        )

    def _agent(self, version: str, driver: str) -> str:
        """What `--agent` names."""
        if driver == "recorded":
            return f"recorded:{self._recorded(version)}"
        if driver == "in process":
            return "newsroom"
        if driver == "adk:":
            # A request of ADK 1's REST server that opens the MCP server closes it at its end, and breaks later ones.
            self.outcome(version, "a2a:", INSTRUCTIONS)
        server = f"{driver}http://127.0.0.1:{self._server(version)}"
        return f"{server}/a2a/newsroom" if driver == "a2a:" else f"{server}#newsroom"

    def _recorded(self, version: str) -> Path:
        self.outcome(version, "in process", INSTRUCTIONS)
        return self._directory / version / "in-process" / "agent-eval-results"

    def _repository(self, version: str, driver: str) -> Repository:
        root = self._directory / version / driver.replace(" ", "-").strip(":")
        root.mkdir(parents=True)
        repository = Repository(root=root)
        for name, config in _configs(python=version != "1.18.0" and driver in ("in process", *REPLAYS)).items():
            (root / name).mkdir()
            shutil.copy(FIXTURES / "newsroom" / f"{name}.evalset.json", root / name)
            (root / name / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
        repository.agent("newsroom")
        shutil.copytree(FIXTURES / "deepeval_stand_in", root, dirs_exist_ok=True)
        (root / "agent-eval.toml").write_text(TAPES, encoding="utf-8")
        return repository

    def _gate(self, repository: Repository, version: str, *arguments: str) -> Done:
        python = shlex.join(host_forks.command(adk(version)))
        for _ in range(2):
            done = repository.gate(
                "run", "turns", "guest", *arguments, "--agent-python", python, "--judge-base-url", self._judge.url,
                python=False, environment={"AGENT_EVAL_JUDGE_API_KEY": "a-key-of-the-judge"},
            )  # fmt: skip
            assert done.code in (0, 1, 3), done.out + done.err
            # On a busy machine ADK 1's server now and then resets a connection. Outages have a table of their own.
            if not any(case.reason and case.reason.code == "server-unavailable" for case in done.report.cases):
                break
        return done

    def _server(self, version: str) -> int:
        """The port of `adk api_server --a2a`."""
        if version not in self._servers:
            self._servers[version] = self._start(version)
        return self._servers[version]

    def _start(self, version: str) -> int:
        root = self._directory / version / "server"
        shutil.copytree(
            FIXTURES / "newsroom", root / "newsroom", ignore=shutil.ignore_patterns("__pycache__", "*.json")
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        card = {**CARD, "url": f"http://127.0.0.1:{port}/a2a/newsroom"}
        (root / "newsroom" / "agent.json").write_text(json.dumps(card), encoding="utf-8")
        log = self._stack.enter_context((root / "log").open("w"))
        command = [str(adk(version)), "-m", "google.adk.cli", "api_server", "--a2a", "--port", str(port), str(root)]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=root)
        self._stack.callback(process.wait, 20)
        self._stack.callback(process.kill)
        end = time.monotonic() + 60 * patience()
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/list-apps", timeout=5).close()
                return port
            except OSError:
                assert process.poll() is None and time.monotonic() < end, (root / "log").read_text()
                time.sleep(0.1)


REPLAYS = {"replay": "tools", "replay all": "all"}
"""By driver, the setting `replay` after a recording."""
CARD = {
    "name": "newsroom", "description": "A newsroom.", "version": "1", "protocolVersion": "0.3.0",
    "capabilities": {}, "skills": [], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
}  # fmt: skip
TAPES = "".join(f'[[tool]]\nname = "{name}"\nreplay = false\n' for name in ("draw", "order"))
"""What no tape can answer: a tool that saves an artifact, and a long-running one."""


def adk(version: str) -> Path:
    """The interpreter with a version of google-adk, and what its A2A server and MCP need."""
    without = ("vertexai",) if version == "1.18.0" else ()
    return packages_python(f"adk-{version}-crossing", f"google-adk[a2a]=={version}", "mcp<2", without=without)


def _outcomes(report: RunReport) -> dict[str, Outcome]:
    """By criterion; the scenario counts only for what the case with fixed turns does not have."""
    turns, guest = ({metric.name: metric for metric in case.metrics} for case in sorted(report.cases, key=_is_guest))
    assert turns and guest, [case.reason for case in report.cases]
    listed = {**guest, **turns, INSTRUCTIONS: guest[JUDGED]}
    return {name: _outcome(*metric.runs) for name, metric in listed.items()}


def _is_guest(case: CaseReport) -> bool:
    return case.eval_id == "guest"


def _outcome(run: RunScore) -> Outcome:
    if run.score is None:
        return run.reason.code if run.reason else "no score"
    return tuple(None if score is None else round(score, 3) for score in run.turn_scores)


# Each criterion x each google-adk x each driver gives the same scores of the same conversation.


VERSIONS = ("2.13.0", "2.10.0", "2.7.1", "2.5.0", "1.39.1", "1.18.0")
DRIVERS = ("in process", "replay", "replay all", "recorded", "adk:", "a2a:")

ALL_BUT_THE_LAST = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
REFERENCE: dict[str, Outcome] = {
    "judge_prompt": (*[None] * 8, 19.0),
    "tool_trajectory_avg_score": ALL_BUT_THE_LAST,
    "response_match_score": (0.923, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.222),
    "trajectory_precision": ALL_BUT_THE_LAST,
    "trajectory_recall": ALL_BUT_THE_LAST,
    "tool_rules": (*[None] * 8, 0.667),
    "final_session_state": (*[None] * 8, 0.8),
    "trajectory_single_tool_use": (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "tool_trajectory_partial": ALL_BUT_THE_LAST,
    "response_similarity": (0.833, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.323),
    "response_facts": (1.0, 1.0, 1.0, None, 1.0, 1.0, 1.0, 1.0, 1.0),
    "intermediate_response_similarity": (1.0, None, None, None, 1.0, None, 1.0, 1.0, None),
    "response_evaluation_score": (4.0, 4.0, 4.0, 5.0, 5.0, 5.0, 4.0, 4.0, 4.0),
    "safety_v1": (0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0),
    "final_response_match_v2": ALL_BUT_THE_LAST,
    "rubric_based_final_response_quality_v1": (0.143, 0.143, 0.143, 0.143, 0.143, 0.0, 0.143, 0.143, 0.0),
    "rubric_based_tool_use_quality_v1": (0.143, 0.143, 0.143, 0.143, 0.143, 0.0, 0.143, 0.143, 0.0),
    "rubric_based_multi_turn_trajectory_quality_v1": (*[None] * 8, 0.857),
    "hallucinations_v1": (0.5, 0.0, 1.0, None, 0.0, 0.0, 0.667, 0.5, 0.0),
    "per_turn_user_simulator_quality_v1": (1.0, 1.0),
    "multi_turn_task_success_v1": (*[None] * 8, 1.0),
    "multi_turn_trajectory_quality_v1": (*[None] * 8, 0.25),
    "multi_turn_tool_use_quality_v1": (*[None] * 8, 0.25),
    "tool_call_count_v1": (3.0, 1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 2.0, 0.0),
    "inference_call_count_v1": (3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 4.0, 3.0, 1.0),
    "token_usage_v1": (390.0, 260.0, 260.0, 260.0, 260.0, 130.0, 520.0, 390.0, 130.0),
    "invocation_duration_v1": "measured",
    INSTRUCTIONS: (0.667, 0.667),
    "custom: calls": ALL_BUT_THE_LAST,
    "custom: texts": ALL_BUT_THE_LAST,
    "custom: state": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 0.0),
    "custom: session states": (3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0),
    "custom: deepeval": ALL_BUT_THE_LAST,
}
"""The turns' scores, in process on google-adk 2.13.0. The eval file expects another call and answer in the last turn
than the agent gives; the first and the fourth answer have a thought, and no text."""

ANONYMOUS: dict[str, Outcome] = {
    "intermediate_response_similarity": (0.0, None, None, None, 0.0, None, 0.0, 0.0, None),
    "hallucinations_v1": (0.5, 1.0, 0.5, None, 0.0, 0.0, 0.667, 0.5, 0.0),
    "inference_call_count_v1": (0.0,) * 9,
    "token_usage_v1": "no score",
}
"""What differs if events have neither author nor usage."""

TABLE = Table(
    name="metrics",
    axes={"criterion": (*METRICS, INSTRUCTIONS, *PYTHON_METRICS), "version": VERSIONS, "driver": DRIVERS},
    rows=(
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "adk:", "version": "1.39.1"},
            expect=(0.0, 0.0),
            cause="its server has no app-info",
        ),
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "adk:"},
            expect=(0.333, 0.333),
            cause="the server shows instructions without the session's state",
        ),
        Row(
            where={"criterion": "tool_rules", "driver": ("adk:", "a2a:")},
            expect="inner-calls-not-visible",
            cause="servers show no calls of the agent of an AgentTool, which one of the rules is about",
        ),
        Row(
            where={"criterion": "final_session_state", "driver": "a2a:"},
            expect="state-not-visible",
            cause="A2A shows no session",
        ),
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "a2a:"},
            expect=(0.0, 0.0),
            cause="A2A does not show instructions and tools",
        ),
        *(
            Row(
                where={"criterion": name, "driver": "a2a:", "version": "1.18.0"},
                expect=scores,
                cause="its A2A server shows no authors and no usage, and not which event is a part of another",
            )
            for name, scores in ANONYMOUS.items()
        ),
        *(Row(where={"criterion": name}, expect=scores) for name, scores in REFERENCE.items()),
    ),
    impossible=(
        Impossible(
            where={"version": "1.18.0", "driver": "adk:"},
            why="its `adk api_server` breaks off: it opens an MCP server in one request and uses it in the next ones",
        ),
        Impossible(
            where={"criterion": tuple(PYTHON_METRICS), "version": "1.18.0"},
            why="google-adk has custom metrics since 1.24; with an older one, the case is not run",
        ),
        Impossible(
            where={"criterion": tuple(PYTHON_METRICS), "driver": ("recorded", "adk:", "a2a:")},
            why="custom metrics run in the agent's environment, which only the gate's own host has",
        ),
    ),
)


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newsroom]:
    runs = Newsroom(tmp_path_factory.mktemp("newsroom"))
    yield runs
    runs.close()


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("version",)))
def test_metrics_crossing(cell: Cell, newsroom: Newsroom) -> None:
    assert newsroom.outcome(cell["version"], cell["driver"], cell["criterion"]) == TABLE.expected(cell)
