"""The agents whose recordings are replayed: one with parallel branches, the one of the crossings, and the examples."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import journey_runs
from environments import PROJECT
from fake_gemini import Answer, GenerateRequest
from gate_runs import Repository
from hotel_concierge.roles import Roles
from serve import lead_weather_agent

Script = Callable[[GenerateRequest], Answer]
SLOWEST = 0.03
"""Seconds by which the answers of models differ."""
COMPUTED = {"criteria": {"tool_trajectory_avg_score": 0.1, "response_match_score": 0.1}}
NO_TAPE = "".join(f'[[tool]]\nname = "{name}"\nreplay = false\n' for name in ("draw", "order"))
"""Tools of `newsroom` that no tape can answer: one saves an artifact, one is long-running."""

_NOISY_MODEL = """
class {name}(Quiet{name}):
    async def generate_content_async(self, llm_request, stream=False):
        import asyncio, random

        await asyncio.sleep(random.uniform(0.25, 1.25) * {slowest})
        async for response in super().generate_content_async(llm_request, stream):
            for part in response.content.parts:
                if part.text:
                    part.text += f" {{random.randrange(10**9)}}"
            yield response


"""
_COUNTING = """

import os as _os
import sys as _sys


def _count_connections(event, args):
    if event in ("socket.connect", "socket.getaddrinfo") and (log := _os.environ.get("RUNS_FILE")):
        with open(log, "a", encoding="utf-8") as file:
            file.write(event + "\\n")


_sys.addaudithook(_count_connections)
"""


@dataclass(frozen=True, kw_only=True)
class Taped:
    """An agent with its cases."""

    write: Callable[[Repository, int], None]
    """Writes both, with at least so many cases."""
    model: Callable[[int], Script]
    """What a Gemini on loopback says, by a seed; not asked if the agent brings a model."""
    arguments: Sequence[str] = ()
    """Of the gate."""
    live_tools: int = 0
    """Calls of tools of a case that run in a replay, because of `replay = false`."""


class Noisy:
    """A script whose texts end with a number that is another one each time, after a time that is."""

    def __init__(self, script: Script, seed: int) -> None:
        self._script, self._chance, self._lock = script, random.Random(seed), threading.Lock()

    def __call__(self, request: GenerateRequest) -> Answer:
        answer = self._script(request)
        if not request.tool_names:  # a judge, or a simulated user
            return answer
        with self._lock:
            noise, wait = self._chance.randrange(10**9), self._chance.uniform(0.25, 1.25) * SLOWEST
        parts = [{**part, "text": f"{part['text']} {noise}"} if "text" in part else part for part in answer.parts]
        return dataclasses.replace(answer, parts=parts, latency=wait)


def _none(request: GenerateRequest) -> Answer:
    raise AssertionError("the agent brings its model")


def _multiplied(root: Path, cases: int) -> None:
    """Copies the cases of the eval files below a directory until there are enough."""
    files = [path for path in root.rglob("*.json") if re.search(r"\.(test|evalset)\.json$", path.name)]
    documents = {path: json.loads(path.read_text("utf-8")) for path in files}
    sets = {path: document for path, document in documents.items() if isinstance(document, dict)}
    copies = math.ceil(cases / sum(len(document["eval_cases"]) for document in sets.values()))
    for path, document in sets.items():
        document["eval_cases"] = [
            {**case, name: f"{case[name]}_{number}"}
            for case in document["eval_cases"]
            for name in case.keys() & {"eval_id", "evalId"}
            for number in range(copies)
        ]
        path.write_text(json.dumps(document, ensure_ascii=False), "utf-8")


def _make_noisy(path: Path, name: str, before: str = "") -> None:
    """Makes the model of a copied agent as noisy as the others; its class is used from `before` on."""
    text = path.read_text("utf-8").replace(f"class {name}(", f"class Quiet{name}(")
    at = text.index(before) if before else len(text)
    noisy = _NOISY_MODEL.format(name=name, slowest=SLOWEST)
    path.write_text(f"{text[:at].rstrip()}\n\n{noisy}{text[at:]}", "utf-8")


def _example(name: str) -> Callable[[Repository, int], None]:
    def write(repository: Repository, cases: int) -> None:
        package = repository.root / name
        skipped = shutil.ignore_patterns("__pycache__", "requirements.txt", "serve.py", "roles.py")
        shutil.copytree(PROJECT / "examples" / name, package, ignore=skipped)
        _multiplied(package, cases)
        with (package / "__init__.py").open("a", encoding="utf-8") as file:
            file.write(_COUNTING)
        if name == "home_automation":
            _make_noisy(package / "model.py", "ScriptedModel")

    return write


def _newsroom(repository: Repository, cases: int) -> None:
    repository.agent("newsroom")
    package = repository.root / "newsroom"
    (package / "guest.evalset.json").unlink()
    _multiplied(package, cases)
    with (package / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(_COUNTING)
    _make_noisy(package / "agent.py", "Scripted", "def scripted(")
    repository.write({"newsroom/test_config.json": COMPUTED, "agent-eval.toml": NO_TAPE})


TAPED = {
    "journey": Taped(
        write=lambda repository, cases: journey_runs.write(repository, [f"case_{at:03}" for at in range(cases)]),
        model=lambda seed: journey_runs.NoisyModel(seed, jitter=SLOWEST),
    ),
    "newsroom": Taped(write=_newsroom, model=lambda seed: _none, live_tools=2),
    "home_automation": Taped(write=_example("home_automation"), model=lambda seed: _none),
    "gemini_weather": Taped(write=_example("gemini_weather"), model=lambda seed: Noisy(lead_weather_agent, seed)),
    "hotel_concierge": Taped(write=_example("hotel_concierge"), model=lambda seed: Noisy(Roles(), seed)),
}
"""By name. `hotel_concierge` has judges and a simulated guest, whose replies are on the tapes, too."""
