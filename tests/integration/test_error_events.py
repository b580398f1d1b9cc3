"""An event that reports an error: whose failure it is, through each door. What docs/remote-agents.md says of it."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_fake import WORDS, Words, fake_a2a
from adk_envs import adk_python
from adk_harness import Conversable, headline, running, say, started
from fake_adk import CALL, RESPONSE, FakeAdk, agent_of, agent_spec, context, event, parts, served
from gate_runs import Repository, anywhere, eval_set
from golden_files import check
from host_forks import command
from loopback import Answer, Request

from agent_eval_agents.a2a.agent import A2aAgent
from agent_eval_agents.protocol import AgentFailure
from agent_eval_scoring.core.content import text_of

Facts = dict[str, Any]
Door = AbstractAsyncContextManager[Callable[[Facts], Conversable]]

EVENTS: dict[str, Facts] = {
    "429": {"error_code": "429", "error_message": "Resource has been exhausted."},
    "503": {"error_code": "503", "error_message": "Overloaded."},
    "500, without a text": {"error_code": "500"},
    "401": {"error_code": "401", "error_message": "API key not valid."},
    "404": {"error_code": "404", "error_message": "No such model."},
    "RESOURCE_EXHAUSTED": {"error_code": "RESOURCE_EXHAUSTED", "error_message": "no quota left"},
    "UNAVAILABLE": {"error_code": "UNAVAILABLE"},
    "INVALID_ARGUMENT": {"error_code": "INVALID_ARGUMENT", "error_message": "no"},
    "rate_limit_exceeded, of another provider": {"error_code": "rate_limit_exceeded", "error_message": "slow down"},
    "an exception without a code": {"error_code": "UNKNOWN_ERROR", "error_message": "boom"},
    "an exception without a code, with the provider's text": {
        "error_code": "UNKNOWN_ERROR",
        "error_message": "429 RESOURCE_EXHAUSTED: quota",
    },
    "an exception without a code and a text": {"error_code": "UNKNOWN_ERROR"},
    "a model's answer without a candidate": {"error_code": "UNKNOWN_ERROR", "error_message": "Unknown error."},
    "a text without a code": {"error_message": "503 UNAVAILABLE. No capacity."},
    "an exception's class": {"error_code": "ValueError", "error_message": "429 rooms"},
    "a code of Node": {"error_code": "ECONNREFUSED", "error_message": "connect ECONNREFUSED 127.0.0.1:1"},
    "an exception of the agent": {"raises": "ValueError", "error_message": "no such city"},
    "an exception of google-genai": {"raises": "ServerError", "error_message": "503 UNAVAILABLE. {'error': ...}"},
    "another exception of google-genai": {"raises": "ClientError", "error_message": "404 NOT_FOUND. {'error': ...}"},
    "an exception of LiteLLM": {"raises": "RateLimitError", "error_message": "litellm.RateLimitError: slow down"},
    "SAFETY": {"error_code": "SAFETY", "error_message": "not allowed"},
    "MAX_TOKENS": {"error_code": "MAX_TOKENS"},
    "MALFORMED_FUNCTION_CALL": {"error_code": "MALFORMED_FUNCTION_CALL", "error_message": "not JSON"},
    "MODEL_ARMOR": {"error_code": "MODEL_ARMOR"},
    "a code of the agent's callback": {"error_code": "CLOSED", "error_message": "Come back at nine."},
    "MAX_TOKENS, with a content": {"error_code": "MAX_TOKENS", "says": ["It is 4"]},
    "429, with a content": {"error_code": "429", "error_message": "quota", "says": ["Ask me later."]},
    "UNKNOWN_ERROR, in the middle of the turn": {"twice": True},
}


@asynccontextmanager
async def in_process(tmp_path: Path) -> AsyncIterator[Callable[[Facts], Conversable]]:
    async with running("shapes", tmp_path, python=command(adk_python())) as agent:
        yield lambda facts: agent


def said_by(facts: Facts) -> list[Facts]:
    """The events of an ADK server; Python's has a line for an exception."""
    if "raises" in facts:
        details = {"error_type": facts["raises"], "error_message": facts["error_message"]}
        return [{"error": "{error_type}: {error_message}".format(**details), "error_details": details}]
    if "twice" in facts:
        return [event(errorCode="UNKNOWN_ERROR"), event("Done.")]
    names = {"error_code": "errorCode", "error_message": "errorMessage"}
    return [event(*facts.get("says", ()), **{names[key]: facts[key] for key in facts if key in names})]


@asynccontextmanager
async def adk(tmp_path: Path) -> AsyncIterator[Callable[[Facts], Conversable]]:
    fake = FakeAdk(turn=lambda request, answer: answer.events())

    def script(facts: Facts) -> Conversable:
        fake.turn = lambda request, answer: answer.events(*said_by(facts))
        return agent

    async with agent_of(fake, tmp_path) as agent:
        yield script


def a2a(words: Words) -> Callable[[Path], Door]:
    """A server of ADK: JavaScript's makes a failed task of every error code, Python's of exceptions, without a code."""

    @asynccontextmanager
    async def door(tmp_path: Path) -> AsyncIterator[Callable[[Facts], Conversable]]:
        async with fake_a2a(words) as fake, started(A2aAgent(agent_spec(fake.url, context(tmp_path)))) as agent:

            def script(facts: Facts) -> Conversable:
                code = facts.get("error_code")
                marks: Facts = {"metadata": {"adk_error_code": code}} if code else {}
                said = [text] if (text := facts.get("error_message") or code) else []
                failed = [words.status("failed", words.message(*said, **marks))]
                done = [words.artifact("Done."), words.status("completed")]
                fake.script = {"SendStreamingMessage": [done if "twice" in facts else failed]}
                return agent

            yield script

    return door


async def outcome(agent: Conversable, facts: Facts) -> list[str]:
    try:
        turn = await say(agent, f"reports {json.dumps(facts)}")
    except AgentFailure as failure:
        reported = [str(error) for error in failure.unfinished.errors] if failure.unfinished else []
        return [*headline(failure), *(f"the turn: {error}" for error in reported)]
    reported = [f"{error}, after {error.after}" for error in turn.errors]
    return [f"scored: {text_of(turn.final_response) or '(no answer)'} {reported or ''}".rstrip()]


async def test_errors__of_events_through_each_door(tmp_path: Path) -> None:
    doors = {
        "in process": in_process(tmp_path),
        "adk": adk(tmp_path),
        **{f"a2a {version}": a2a(words)(tmp_path) for version, words in WORDS.items()},
    }
    table: dict[str, dict[str, list[str]]] = {name: {} for name in EVENTS}
    for name, door in doors.items():
        async with door as script:
            for row, facts in EVENTS.items():
                table[row][name] = await outcome(script(facts), facts)
    lines = []
    for row, outcomes in table.items():
        same: dict[str, list[str]] = {}
        for name, outcome_lines in outcomes.items():
            same.setdefault("\n    ".join(outcome_lines), []).append(name)
        lines += [f"# {row}", *(f"{', '.join(names)}:\n    {text}" for text, names in same.items()), ""]
    check("golden_error_events.txt", "\n".join(lines))


async def test_run__what_every_medium_and_a_recording_have_of_an_error(repository: Repository) -> None:
    """JavaScript's ADK goes on after a tool that does not exist, until its model has been called 500 times."""
    lost = {"errorCode": "UNKNOWN_ERROR", "errorMessage": "Function nosuch is not in the toolsDict."}
    calls = [{"functionCall": {"id": f"c{number}", "name": "nosuch", "args": {}}} for number in range(500)]
    loop = [line for call in calls for line in (parts(call), event(**lost))]
    ends = {
        "refused": [event(errorCode="SAFETY", errorMessage="not allowed today")],
        "silent": [parts(CALL), parts(RESPONSE), event(errorCode="429", errorMessage="out of quota")],
        "loop": [*loop, event(errorCode="UNKNOWN_ERROR", errorMessage="500 calls exceeded")],
        "recovered": [*loop[:6], event("3 degrees")],
    }

    async def turn(request: Request, answer: Answer) -> None:
        await answer.events(*ends[request.json["newMessage"]["parts"][0]["text"]])

    cases = {name: [(name, "3 degrees")] for name in ends}
    config = {"criteria": {"response_match_score": 0.8}}
    repository.write({"weather.evalset.json": eval_set("weather", cases), "test_config.json": config})

    async def run(agent: str, folder: str) -> tuple[str, str]:
        output = repository.root / folder
        done = await asyncio.to_thread(
            functools.partial(repository.gate, environment={"CI": ""}),
            *("run", "-v", "--agent", agent),
            python=False,
            code=1,
            output=output,
        )
        said = [(output / name).read_text("utf-8") for name in ("junit.xml", "summary.md", "report.html")]
        said += [done.out, json.dumps([recording.model_dump(mode="json") for recording in done.recordings])]
        for text in ("not allowed today", "out of quota", "500 calls exceeded"):
            assert all(text in each for each in said), text
        assert all("is not in the toolsDict" in each for each in (said[0], *said[3:]))
        return anywhere(done.out).replace(folder, "OUT"), said[0]

    async with served(FakeAdk(turn=turn)) as fake:
        out, _ = await run(f"adk:{fake.url}", "first")
    check("golden_gate/error_events.txt", out)
    assert (await run(f"recorded:{repository.root / 'first'}", "second"))[0] == out
