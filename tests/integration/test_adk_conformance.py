"""Our reading of events against google-adk 2.13.0's own, on live and on random events."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, adk_python

from agent_eval.agents.adk.events import to_invocation
from agent_eval.agents.host import PROGRAM
from agent_eval.agents.messages import TurnFacts
from agent_eval.core.content import user_message
from agent_eval.core.invocation import adk_value

pytestmark = pytest.mark.conformance

SAID = [
    "plain", "text and call", "parallel", "long now", "long later", "skip", "missing argument", "none arguments",
    "thought", "bytes", "error", "empty", "before agent", "agent tool", "transfer", "sequence", "both",
]  # fmt: skip


def random_part(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        [
            {"text": chance.choice(["", "a", "日本"])},
            {"text": "t", "thought": True},
            {"function_call": {"name": "f", "args": chance.choice([{}, {"x": None}, {"x": [1, 2.5]}])}},
            {"function_call": {"name": "f"}},
            {"function_response": {"name": "f", "response": {"r": 1}}},
            {"inline_data": {"data": "_-8=", "mime_type": "image/png"}},
            {"file_data": {"file_uri": "gs://x", "mime_type": "image/png"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"executable_code": {"code": "1", "language": "PYTHON"}},
        ]
    )


def random_event(chance: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {"invocation_id": "e-1", "author": chance.choice(["bot", "other", "user", "User"])}
    if chance.random() < 0.9:
        parts = [random_part(chance) for _ in range(chance.randrange(4))]
        event["content"] = {"role": "model", "parts": parts}
    optional: dict[str, Any] = {
        "error_code": "SAFETY",
        "long_running_tool_ids": chance.choice([[], ["1", "2"]]),
        "actions": {"skip_summarization": chance.choice([True, False])},
        "grounding_metadata": {"web_search_queries": ["q"]},
        "usage_metadata": {"prompt_token_count": 1},
        "model_version": "m",
    }
    return event | {key: value for key, value in optional.items() if chance.random() < 0.15}


def test_conformance__invocations_are_those_of_adk(tmp_path: Path) -> None:
    chance = random.Random(20260101)
    events = [[random_event(chance) for _ in range(chance.randrange(1, 6))] for _ in range(400)]
    answers_path = tmp_path / "answers.json"
    request = {"fixtures": str(FIXTURES), "program": str(PROGRAM), "say": SAID, "events": events}
    worker = Path(__file__).with_name("adk_events_worker.py")
    subprocess.run(
        [str(adk_python()), "-W", "ignore", str(worker), str(answers_path)],
        input=json.dumps(request),
        text=True,
        check=True,
        timeout=120,
    )
    answers = json.loads(answers_path.read_text(encoding="utf-8"))
    assert len(answers) == len(SAID) + len(events)
    for message, answer in zip([*SAID, *events], answers, strict=True):
        text = message if isinstance(message, str) else "hi"
        ours = to_invocation(answer["raw"], user_message(text), TurnFacts())
        theirs = answer["invocation"]
        compared = adk_value(ours)
        if any(event.get("author", "").lower() == "user" for event in answer["raw"]):
            theirs["user_content"] = compared["user_content"]  # a later event of the user's replaces what was sent
        for field in ("invocation_id", "user_content", "intermediate_data"):
            assert compared[field] == theirs[field], message
        assert compared.get("final_response") == theirs.get("final_response"), message
