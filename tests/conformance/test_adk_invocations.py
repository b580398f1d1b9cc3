"""Our reading of events against google-adk 2.13.0's own, on live and on random events; and what users see of it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from adk_envs import FIXTURES
from adk_reference import Reference

from agent_eval.agents.adk.events import to_invocation
from agent_eval.agents.host import PROGRAM
from agent_eval.agents.messages import TurnFacts
from agent_eval.core.content import Content, user_message
from agent_eval.core.invocation import adk_value
from agent_eval.simulation._prompt import as_text, lines

pytestmark = pytest.mark.conformance

Event = dict[str, Any]
SAID = [
    "plain", "text and call", "parallel", "long now", "long later", "skip", "missing argument", "none arguments",
    "thought", "bytes", "error", "empty", "before agent", "agent tool", "transfer", "sequence", "both",
]  # fmt: skip
TEXTS = ("", "a", "Größe 🙂", "a\n\nb", "user: no", "</finished>")
AGENTS = ("bot", "other")


def random_part(chance: random.Random) -> Event:
    value = {"a": chance.choice([1, None, True, "x'y", [1, 2.5]])}
    return chance.choice(
        [
            {"text": chance.choice(TEXTS)},
            {"text": chance.choice(TEXTS)},
            {"text": "t", "thought": True},
            {"function_call": {"id": "1", "name": "f", "args": chance.choice([{}, value])}},
            {"function_call": {"name": "f"}},
            {"function_response": {"id": "1", "name": "f", "response": value}},
            {"inline_data": {"data": "_-8=", "mime_type": "image/png"}},
            {"file_data": {"file_uri": "gs://x", "mime_type": "image/png"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"executable_code": {"code": "1", "language": "PYTHON"}},
        ]
    )


def random_event(chance: random.Random, authors: tuple[str, ...] = AGENTS) -> Event:
    event: Event = {"invocation_id": "e-1", "author": chance.choice(authors)}
    if chance.random() < 0.9:
        parts = [random_part(chance) for _ in range(chance.randrange(4))]
        event["content"] = {"role": "model", "parts": parts}
    optional: Event = {
        "error_code": "SAFETY",
        "long_running_tool_ids": chance.choice([[], ["1", "2"]]),
        "actions": {"skip_summarization": chance.choice([True, False])},
        "grounding_metadata": {"web_search_queries": ["q"]},
        "usage_metadata": {"prompt_token_count": 1},
        "model_version": "m",
    }
    return event | {key: value for key, value in optional.items() if chance.random() < 0.15}


def test_invocations__are_those_of_adk(reference: Reference) -> None:
    chance, authors = random.Random(20260101), (*AGENTS, "user", "User")
    events = [[random_event(chance, authors) for _ in range(chance.randrange(1, 6))] for _ in range(400)]
    answers = reference.ask("invocations", fixtures=str(FIXTURES), program=str(PROGRAM), say=SAID, events=events)
    for message, answer in zip([*SAID, *events], answers, strict=True):
        text = message if isinstance(message, str) else "hi"
        theirs = answer["invocation"]
        ours = adk_value(to_invocation(answer["raw"], user_message(text), TurnFacts()))
        if any(event.get("author", "").lower() == "user" for event in answer["raw"]):
            theirs["user_content"] = ours["user_content"]  # a later event of the user's replaces what was sent
        for field in ("invocation_id", "user_content", "intermediate_data"):
            assert ours[field] == theirs[field], message
        assert ours.get("final_response") == theirs.get("final_response"), message


def random_turn(chance: random.Random) -> tuple[Event, list[Event]]:
    """The user's event and the agent's events."""
    parts = [{"text": chance.choice(TEXTS)} for _ in range(chance.randint(1, 2))]
    user = {"author": "user", "invocation_id": "e-1", "content": {"role": "user", "parts": parts}}
    events = [random_event(chance) for _ in range(chance.randint(0, 4))]
    for event in events:
        if event.get("content"):
            # Two events with grounding and without a content of their own are alike in ADK's format.
            event.pop("grounding_metadata", None)
    return user, events


def test_user_history__is_adks(reference: Reference) -> None:
    chance = random.Random(7)
    conversations = [[random_turn(chance) for _ in range(chance.randint(1, 3))] for _ in range(500)]
    sent = [[event for user, events in turns for event in (user, *events)] for turns in conversations]
    theirs = reference.ask("histories", conversations=sent)
    ours = []
    for turns in conversations:
        actual = [
            to_invocation(events, Content.model_validate(user["content"]), TurnFacts(started_at=0.0, duration=0.0))
            for user, events in turns
        ]
        ours.append([as_text(lines(actual, function_calls=calls)) for calls in (False, True)])
    assert sum("called tool" in both for _, both in theirs) > 200
    different = [seed for seed, (mine, adks) in enumerate(zip(ours, theirs, strict=True)) if mine != adks]
    assert not different, (different, ours[different[0]], theirs[different[0]])
