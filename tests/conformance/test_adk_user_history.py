"""The conversation that a template of users is given is google-adk 2.13.0's, over random conversations."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from adk_envs import adk_python

from agent_eval.agents.adk.events import to_invocation
from agent_eval.agents.messages import TurnFacts
from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.simulation._prompt import as_text, lines

pytestmark = pytest.mark.conformance

Event = dict[str, Any]
TEXTS = ("Hi", "Done.", "", "Größe 🙂", "a\n\nb", "user: no", "</finished>")


def part(rng: random.Random) -> Event:
    value = {"a": rng.choice([1, None, True, "x'y", [1.5]])}
    return rng.choice(
        [
            {"text": rng.choice(TEXTS)},
            {"text": rng.choice(TEXTS)},
            {"text": "a thought", "thought": True},
            {"function_call": {"id": "1", "name": "f", "args": value}},
            {"function_call": {"name": "g"}},
            {"function_response": {"id": "1", "name": "f", "response": value}},
            {"inline_data": {"data": "aGk=", "mime_type": "image/png"}},
        ]
    )


def agent_event(rng: random.Random, turn: int) -> Event:
    made: Event = {"author": rng.choice(["home", "lamps"]), "invocation_id": f"i{turn}"}
    made["content"] = {"role": "model", "parts": [part(rng) for _ in range(rng.randint(1, 3))]}
    if rng.random() < 0.1:
        made["actions"] = {"skip_summarization": True}
    if rng.random() < 0.1:
        made["long_running_tool_ids"] = ["1"]
    return made


def conversation(seed: int) -> list[tuple[Event, list[Event]]]:
    """The user's event and the agent's events of each turn."""
    rng = random.Random(seed)
    turns = []
    for turn in range(rng.randint(1, 3)):
        parts = [{"text": rng.choice(TEXTS)} for _ in range(rng.randint(1, 2))]
        user = {"author": "user", "invocation_id": f"i{turn}", "content": {"role": "user", "parts": parts}}
        turns.append((user, [agent_event(rng, turn) for _ in range(rng.randint(0, 4))]))
    return turns


def invocation(user: Event, events: list[Event]) -> Invocation:
    return to_invocation(events, Content.model_validate(user["content"]), TurnFacts(started_at=0.0, duration=0.0))


def test_user_history__histories_are_adks() -> None:
    conversations = [conversation(seed) for seed in range(500)]
    sent = [[event for user, events in turns for event in (user, *events)] for turns in conversations]
    python = str(adk_python(extra="eval"))
    worker = Path(__file__).with_name("simulation_worker.py")
    done = subprocess.run(
        [python, "-W", "ignore", str(worker)], input=json.dumps(sent), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout)
    ours = []
    for turns in conversations:
        actual = [invocation(user, events) for user, events in turns]
        ours.append([as_text(lines(actual, function_calls=calls)) for calls in (False, True)])
    assert sum("called tool" in both for _, both in theirs) > 200
    different = [seed for seed, (mine, adks) in enumerate(zip(ours, theirs, strict=True)) if mine != adks]
    assert not different, (different, ours[different[0]], theirs[different[0]])
