"""Runs of the fixture agent `journey`, whose model is a noisy Gemini on loopback."""

from __future__ import annotations

import json
import random
import shlex
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adk_envs import REFERENCE, packages_python
from fake_gemini import Answer, FakeGemini, GenerateRequest
from gate_runs import Done, Repository

EVALS = "journey/journey.evalset.json"
ANSWERS = {"ask": "It rains there.", "plan": "By train.", "again": "Have a good journey."}
"""By what the user says, turn by turn."""
RULES = '[[tool]]\nname = "fare"\ndepends = ["journey/fares.json"]\n'
CALLS = 11
"""Of the model, in a case."""
CLOSED = {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9", "GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}
"""A model that nobody reaches, and no key."""


class NoisyModel:
    """Never says the same twice, and sometimes something wrong; a merge depends on the order of what it is shown."""

    def __init__(self, seed: int, *, jitter: float = 0.03, wrong: float = 0.1) -> None:
        self._chance = random.Random(seed)
        self._jitter, self._wrong = jitter, wrong
        self._lock = threading.Lock()

    def __call__(self, request: GenerateRequest) -> Answer:
        with self._lock:
            noise = self._chance.randrange(10**9)
            wait = self._chance.uniform(0, self._jitter) + self._jitter / 4
            is_wrong = self._chance.random() < self._wrong
        user = next((text for text in reversed(request.user_texts) if text in ANSWERS), "")
        text = "I do not know." if is_wrong else ANSWERS.get(user, "Crowns.")
        return Answer(parts=_said(request, user, f"{text} {noise}"), latency=wait)


def _said(request: GenerateRequest, user: str, text: str) -> list[dict[str, Any]]:
    who = request.model.rpartition("-")[2]
    if who == "merge":
        order = zlib.crc32(json.dumps(request.body["contents"]).encode())
        return [{"text": json.dumps({"summary": text, "changes": order})}]
    calls: Sequence[tuple[str, dict[str, Any]]] = {
        ("assistant", "ask"): (
            *(("look_up", {"city": "oslo"}), ("look_up", {"city": "bergen"}), ("fare", {"city": "oslo"})),
            *(("rooms", {"nights": 2}), ("departures", {"city": "oslo"}), ("currency", {"request": "Which?"})),
        ),
        ("assistant", "plan"): (("transfer_to_agent", {"agent_name": "planner"}),),
        ("north", "plan"): (("look_up", {"city": "Bergen"}),),
        ("south", "plan"): (("fare", {"city": "Bergen"}),),
        ("currency", ""): (("fare", {"city": "Bergen"}),),
    }.get((who, user), ())
    if not calls or request.tool_responses:
        return [{"text": text}]
    return [{"functionCall": {"name": name, "args": args}} for name, args in calls]


def python_of(version: str = REFERENCE) -> Path:
    """The interpreter with google-adk and `mcp`, which older versions bring with them."""
    without = ("vertexai",) if version == "1.18.0" else ()
    return packages_python(f"adk-{version}-crossing", f"google-adk[a2a]=={version}", "mcp<2", without=without)


def write(repository: Repository, cases: Sequence[str]) -> None:
    """Writes the agent, and cases of three turns that say the same."""
    repository.agent("journey")
    repository.evals(EVALS, {name: list(ANSWERS) for name in cases})
    path = repository.root / EVALS
    document = json.loads(path.read_text(encoding="utf-8"))
    for case in document["eval_cases"]:
        case["session_input"] = {"app_name": "journey", "user_id": "u", "state": {"client": "Nora", "budget": 7}}
        for turn in case["conversation"]:
            turn["final_response"]["parts"] = [{"text": ANSWERS[turn["user_content"]["parts"][0]["text"]]}]
            turn["intermediate_data"] = {"tool_uses": _expected(turn["user_content"]["parts"][0]["text"])}
    criteria = {"response_match_score": 0.5, "tool_trajectory_avg_score": 0.1}
    repository.write({EVALS: document, "journey/test_config.json": {"criteria": criteria}, "agent-eval.toml": RULES})


def _expected(said: str) -> list[Mapping[str, Any]]:
    return [{"name": "transfer_to_agent", "args": {"agent_name": "planner"}}] if said == "plan" else []


RUNS = "runs.txt"
"""Where tools leave traces: relative, so that the variable which they read is the same in a copy."""


def record(repository: Repository, cases: Sequence[str], python: Sequence[str]) -> Done:
    """Writes the agent and records it against a model that makes no errors."""
    write(repository, cases)
    with FakeGemini(NoisyModel(1, jitter=0.0, wrong=0.0)) as model:
        live = {"GOOGLE_GEMINI_BASE_URL": model.url, "GOOGLE_API_KEY": "any", "RUNS_FILE": RUNS}
        return run(repository, python, "--record", "all", environment=live)


def run(repository: Repository, python: Sequence[str], *arguments: str, environment: Mapping[str, str]) -> Done:
    """Runs the gate, outside of CI."""
    interpreter = ("--agent-python", shlex.join(python), "--agent-env", "+RUNS_FILE,TOOL_SECONDS")
    return repository.gate("run", *interpreter, *arguments, python=False, environment={"CI": "", **environment})
