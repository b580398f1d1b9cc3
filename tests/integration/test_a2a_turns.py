"""Turns and failures by what a server answers: what docs/remote-agents.md says of A2A, in both dialects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from a2a_fake import WORDS, Error, Step, Words, breaks, fake_a2a, hangs, status_code
from adk_harness import headline, request, turn_lines
from fake_adk import agent_spec, context
from gate_runs import patience
from golden_files import check
from loopback import loopback

from agent_eval_agents.a2a import agent as a2a_module
from agent_eval_agents.a2a._dialect import ADK_EXTENSION
from agent_eval_agents.a2a.agent import A2aAgent
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval_scoring.core.content import Content, FunctionResponse, Part, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.simulation import with_call_ids

SECRET = "hunter2"
RESPONSE_SAID = Content(role="user", parts=[Part(function_response=FunctionResponse(name="roll", response={"n": 5}))])
OWN = {"headers": {"Authorization": f"Bearer {SECRET}"}}
LONG, SHORT = 20.0, 0.3 * patience()
"""Seconds for a turn."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """What a server answers, and what it is asked: the messages of each session."""

    script: dict[str, list[Step]]
    said: tuple[tuple[str | Content, ...], ...] = (("Roll!",),)
    card: Any = None
    timeout: float = LONG
    options: dict[str, Any] = field(default_factory=dict)


def play(*stream: Step, send: Any = (), task: Any = (), **more: Any) -> Play:
    """The answers to streamed messages, to other messages, and to questions for the task. Tasks can be cancelled."""
    canceled = {"id": "task-1", "contextId": "context-1", "status": {"state": "canceled"}}
    script = {"SendStreamingMessage": stream, "SendMessage": send, "GetTask": task, "CancelTask": [canceled]}
    return Play(script={method: list(steps) for method, steps in script.items() if steps}, **more)


def successes(words: Words) -> dict[str, Play]:
    plays = {}
    message, status, artifact, task, answer = words.message, words.status, words.artifact, words.task, words.answer
    call = {"data": {"id": "1", "name": "roll", "args": {"sides": 6}}, "metadata": {"adk_type": "function_call"}}
    response = {"data": {"id": "1", "name": "roll", "response": {"n": 4}}}
    response["metadata"] = {"adk_type": "function_response"}
    long_call = {**call, "metadata": {"adk_type": "function_call", "adk_is_long_running": True}}
    submitted, completed = task("submitted"), status("completed")
    answered = [artifact("It is"), artifact(" 4.", append=True), completed]
    called, responded = status("working", message(call)), status("working", message(response))

    plays["a stream"] = play([submitted, status("working", message("Rolling.", call)), responded, *answered])
    counted = status("working", message(call, metadata={"adk_usage_metadata": {"promptTokenCount": 3.0}}))
    thought = status("working", message({"text": "Hm.", "metadata": {"adk_thought": True}}))
    shows = status("working", message(response, metadata={"adk_actions": {"skipSummarization": True}}))
    plays["as ADK's servers write it: thoughts and usage are metadata, and what was said may come again"] = play(
        [thought, counted, responded, counted, status("working", message("It is 4.")), artifact("It is 4."), completed],
        [counted, shows, completed],
        said=(("Roll!",), ("Show!",)),
    )
    history = [message("old"), message("Roll!", role="user", messageId="OURS"), message(call), message(response)]
    whole = task("completed", history=[*history, message("It is 4.")], artifacts=words.artifacts("It is 4."))
    plays["without streaming: what was said before is left out"] = play(
        send=[whole], card=words.card("/", capabilities={})
    )
    plays["messages instead of tasks"] = play(answer("Hi!"), answer("Again."), said=(("Hello", "Hello"),))
    rusty = [{"function_call": call["data"]}, {"function_response": response["data"]}]
    plays["calls as adk-rust writes them"] = play(
        [*(status("working", message({"data": data})) for data in rusty), artifact("4"), completed]
    )
    text_only = [artifact("Hi!"), completed]
    plays["calls are hidden until the server shows one"] = play(
        text_only, [called, artifact("4"), completed], text_only, said=(("Roll!",),) * 3
    )
    extensions = {"streaming": True, "extensions": [{"uri": ADK_EXTENSION}]}
    plays["calls are visible if the card has ADK's extension"] = play(
        answer("Hi!"), card=words.card("/", capabilities=extensions)
    )
    question = message("Which die?", long_call)
    earlier: dict[str, Any] = {"artifacts": words.artifacts("old", artifact_id="x"), "history": [question]}
    plays["a question: the next message continues the task"] = play(
        [submitted, artifact("old", artifact_id="x"), status("input-required", question, final=True)],
        [task("working", **earlier), artifact("It is 4."), completed],
        [answer("Bye.")],
        said=(("Roll!", "d6", "Bye"),),
    )
    events: list[dict[str, Any]] = [
        {"metadata": {"adk_event_id": f"e{number}", "adk_author": "dice"}} for number in range(4)
    ]
    newer = {ADK_EXTENSION: {"adk_agent_executor_v2": True}}
    asks = [
        status("working", message("One moment.", **events[0])),
        *(status("working", message(**event)) for event in events[1:3]),
        status("working", message("It is pending.", **events[3])),
        status("input-required", message(long_call, response), metadata=newer),
    ]
    plays["a long-running call of ADK's newer executor: it comes last, and only a response continues the task"] = play(
        *(asks, answer("Granted."), asks, answer("Bye.")), said=(("Roll!", RESPONSE_SAID), ("Roll!", "hello"))
    )
    looks = [status("working", message("Looking.")), status("completed", message("It is 4."))]
    plays["the last status is the answer"] = play(looks)
    plays["an artifact comes before it"] = play([artifact("It is 4."), status("completed", message("Done."))])
    works, data = status("working", message("Thinking about it.")), {"data": {"unit": "C", "celsius": 21.0}}
    plays["data after progress: the same data is the same text"] = play(
        [submitted, works, artifact(data), completed],
        [submitted, works, artifact({"data": {"celsius": 21.0, "unit": "C"}}), status("completed")],
        said=(("Roll!", "Roll!"),),
    )
    plays["data in chunks, and of a message at the end"] = play(
        [artifact(data), artifact({"data": [1.5, None]}, append=True), completed],
        [works, status("completed", message(data))],
        said=(("Roll!", "Roll!"),),
    )
    plays["data, and a text at the end"] = play([works, artifact(data), status("completed", message("21 degrees"))])
    plays["a login in the middle"] = play(
        [status("auth-required", message("Log in."), final=False), works, status("completed", message("It is 4."))]
    )
    progress = task("completed", history=[message("Roll!", role="user", messageId="OURS"), message("Thinking.")])
    progress_and_data = {**progress, **task("completed", artifacts=words.artifacts(data), history=history[1:2])}
    plays["data of a whole task"] = play(send=[progress_and_data], card=words.card("/", capabilities={}))
    plays["chunks"] = play([artifact("0"), *[artifact("x", append=True)] * 40, completed])
    plays["input required"] = play([status("input-required", message("Which?"))])
    plays["authentication required"] = play([status("auth-required", message("Which?"))])
    plays["half a surrogate pair"] = play([answer("half \ud83d")], answer("half \ud83d"), said=(("Roll!", "Roll!"),))
    bare = {
        state: words.bare_task(state, artifacts=words.artifacts(*parts))
        for state, parts in {"working": ["It is"], "completed": ["It is 4."]}.items()
    }
    polled = [bare["working"], status_code(503), bare["completed"]]
    plays["polled"] = play([submitted], task=polled)
    begun = breaks(submitted, artifact("It"), artifact("gone", artifact_id="b"))
    plays["a stream that breaks off: a snapshot replaces what arrived"] = play(begun, task=polled)
    plays["busy"] = play(*[status_code(429, retry_after="0")] * 2, answer("Hi!"))
    account = 9007199254740994.0 if words is WORDS["1.0"] else 9007199254740993
    books = {**call, "data": {"name": "book", "args": {"account": account, "nights": 2.0}}}
    booked = [status("working", message(books)), artifact("Booked."), completed]
    plays["large numbers lose digits in 1.0"] = play(booked, booked, said=(("Book!",), ("Book!",)))
    stored = words.task("completed", artifacts=[{"artifactId": "a", "parts": [words.part("It is 21.")]}])
    plays["an artifact that only the task has"] = play([words.task("submitted"), status("completed")], task=[stored])
    plays["no streaming after all"] = play(Error(code=-32004), send=[answer("Hi!")], said=(("Hello",), ("Hello",)))
    elsewhere = words.card("http://localhost:8000/")  # What ADK's server says if its code names no port.
    plays["headers of an agent on this machine"] = play(answer(f"{SECRET}!"), card=elsewhere, options=OWN)
    return plays


def failures(words: Words) -> dict[str, Play]:
    plays = {}

    def failed(text: str, code: str | None = None, state: str = "failed") -> Play:
        metadata: dict[str, Any] = {} if code is None else {"metadata": {"adk_error_code": code}}
        return play([words.task("submitted"), words.status(state, words.message(text, **metadata))])

    submitted, working = words.task("submitted"), [words.task("working")]
    plays["failed"] = failed("no die", "ValueError")
    plays["failed by the provider"] = failed("no", "RESOURCE_EXHAUSTED")
    plays["failed by the provider, in words"] = failed("429 too many requests")
    plays["failed without a word"] = play([words.status("failed")])
    plays["rejected"] = failed("no", state="rejected")
    plays["canceled"] = failed("no", state="canceled")
    plays["completed without an answer"] = play([words.status("completed")])
    message, status = words.message, words.status
    works = status("working", message("Thinking about it."))
    plays["completed after progress"] = play([submitted, works, status("completed")])
    ours = [message("Roll!", role="user", messageId="OURS"), message("Thinking about it.")]
    whole = words.task("completed", history=ours)
    plays["completed after progress, without streaming"] = play(send=[whole], card=words.card("/", capabilities={}))
    bare = [words.bare_task("working"), words.bare_task("completed", history=ours)]
    plays["completed after progress, polled"] = play([submitted], task=bare)
    silent = [submitted, status("completed")]
    plays["completed without an answer, and the server keeps no tasks"] = play(silent, task=[Error(code=-32601)])
    plays["completed without an answer, and the server is gone"] = play(silent, task=[status_code(503)], timeout=SHORT)
    plays["completed after a login"] = play(
        [status("auth-required", message("Log in."), final=False), works, status("completed")]
    )
    plays["waiting after progress, without a question"] = play([submitted, works, status("input-required")])
    plays["canceled after progress"] = play([submitted, works, status("canceled")])
    plays["failed after progress"] = play([submitted, works, status("failed")])
    plays["failed with a code that says nothing"] = failed("429 RESOURCE_EXHAUSTED: quota", "UNKNOWN_ERROR")
    plays["internal error"] = play(Error(code=-32603))
    plays["internal error of the provider"] = play(Error(code=-32603, message="503 UNAVAILABLE"))
    plays["invalid params"] = play(Error(code=-32602))
    plays["version not supported"] = play(Error(code=-32009))
    plays["task not found"] = play(Error(code=-32001))
    plays["HTTP 500"] = play(status_code(500, "Internal Server Error"))
    plays["HTTP 307"] = play(status_code(307, location="http://127.0.0.1:9/"))
    plays["HTTP 503 for good"] = play(status_code(503, retry_after="3600"))
    plays["a reset before a task"] = play(breaks())
    plays["an end before a task"] = play([])
    plays["not JSON-RPC"] = play(status_code(200, "<html>"))
    plays["not JSON"] = play(["data: <html>\n\n"])
    plays["no object of A2A"] = play([{"kind": "poem"}])
    part = {"data": {"name": 7}, "metadata": {"adk_type": "function_call"}}
    plays["a malformed part"] = play([words.answer(part)])
    plays["nested too deeply"] = play([f'data: {{"result": {"[" * 100_000 + "]" * 100_000}}}\n\n'])
    plays["larger than the limit"] = play([submitted, *[words.artifact("x" * 100_000, append=True)] * 4])
    plays["a server that stays overloaded"] = play([submitted], task=[status_code(503)], timeout=SHORT)
    # As a2a-sdk 0.3.26 does if the executor raises: the connection ends, and the task stays for ever.
    plays["a deadline"] = play(hangs(submitted), task=working, timeout=SHORT)
    plays["a deadline of a stream that ended"] = play([submitted], task=working, timeout=SHORT)
    plays["a deadline of a stream that broke off"] = play(breaks(submitted), task=working, timeout=SHORT)
    plays["access is refused, though the card is open"] = play(status_code(401))
    plays["access is refused to a fork without secrets"] = play(status_code(401), options={"secrets_withheld": True})
    plays["access is refused later"] = play(words.answer("Hi!"), status_code(401), said=(("Hello",), ("Hello",)))
    return plays


CARDS: dict[str, Any] = {
    "of a host that there is not": WORDS["1.0"].card("http://host.invalid/"),
    "of a cloud's metadata service": WORDS["1.0"].card("http://169.254.169.254/latest/"),
    "of another origin": WORDS["1.0"].card("https://elsewhere.example/rpc"),
    "HTTP 401": status_code(401),
    "HTTP 404": status_code(404),
    "not JSON": status_code(200, "<html>"),
    "of another protocol": {"name": "x", "url": "http://127.0.0.1", "preferredTransport": "GRPC"},
    "without an interface": {"name": "x", "supportedInterfaces": []},
    "with another scheme": {"name": "x", "url": "ftp://h/"},
}


def a2a_agent(url: str, *, log: list[str] | None = None, **remote: Any) -> A2aAgent:
    """An agent behind A2A, created as the pipeline does, not started."""
    lines = [] if log is None else log
    return A2aAgent(
        agent_spec(url, replace(context(Path("/nowhere"), **remote), masker=Masker([SECRET]), log=lines.append))
    )


async def performed(words: Words, plays: dict[str, Play]) -> dict[str, str]:
    """What becomes of each turn, what the server was asked, and what was logged."""
    shown: dict[str, str] = {}
    sent: dict[str, int] = {}
    for name, each in plays.items():
        log: list[str] = []
        async with fake_a2a(words, **each.script) as fake:
            fake.card = each.card
            agent = a2a_agent(fake.url, log=log, **each.options)
            lines = [line async for line in turns(agent, each)]
            await agent.close()
        asked = ["asked " + " ".join(requested(*call, fake.messages())) for call in fake.calls]
        # How often a task is polled within a short time varies.
        lines += asked if each.timeout == LONG else dict.fromkeys(asked)
        for headers in fake.headers:
            sent[" ".join(f"{key}={headers[key]}" for key in sorted(headers) if "a2a" in key or key[:4] == "auth")] = 1
        text = "\n".join([*lines, *log]).replace(fake.url, "URL").replace(f"{each.timeout:g} s", "N s")
        shown[name] = re.sub(VARIES, "", text)
    return {**shown, "headers": "\n".join(sent)}


VARIES = rf" {re.escape(docs_page('remote-agents'))}| \(\[Errno.*?\)|\n *For further information.*(?=\. The)"


def requested(method: str, params: dict[str, Any], messages: list[dict[str, Any]]) -> list[str]:
    """A request, with the number of its message: a repeated one has the same id."""
    facts = params.get("message", params)
    ids = list(dict.fromkeys(message["messageId"] for message in messages))
    number = [f"message {1 + ids.index(facts['messageId'])}"] if "messageId" in facts else []
    given = [facts[key] for key in ("contextId", "taskId", "id") if key in facts]
    return [method, *number, *given, *(repr(part["data"]) for part in facts.get("parts", []) if "data" in part)]


async def turns(agent: A2aAgent, each: Play) -> AsyncIterator[str]:
    try:
        await agent.start()
        for said in each.said:
            session = await agent.open(request())
            made: list[Invocation] = []
            for text in said:
                content = with_call_ids(user_message(text) if isinstance(text, str) else text, made[-1:])
                made.append(await session.send(content, timeout=each.timeout))
                for line in turn_lines(made[-1]):
                    yield line
                made[-1].model_dump_json()
            yield f"shows calls: {session.shows_tool_calls}"
    except (AgentRefused, AgentFailure) as error:
        for line in headline(error):
            yield line


@pytest.mark.parametrize("plays", [successes, failures])
async def test_turns__of_both_dialects(plays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_module, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(a2a_module, "MAX_EVENT", 300_000)
    new, old = [await performed(words, plays(words)) for words in WORDS.values()]
    blocks = []
    for name in new:
        parts = [new[name]] if new[name] == old[name] else [f"1.0\n{new[name]}", f"0.3\n{old[name]}"]
        blocks.append("\n".join([f"# {name}", *parts]))
    check(f"golden_a2a/{plays.__name__}.txt", "\n\n".join(blocks) + "\n")


async def test_cards__that_can_not_be_used() -> None:
    plays = {name: play(card=card, options=OWN if "origin" in name else {}) for name, card in CARDS.items()}
    plays["HTTP 401 to a fork without secrets"] = play(card=CARDS["HTTP 401"], options={"secrets_withheld": True})
    shown = await performed(WORDS["1.0"], plays)
    check("golden_a2a/cards.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


async def test_start__nothing_listens() -> None:
    with pytest.raises(AgentFailure) as caught:
        await a2a_agent("http://127.0.0.1:9").start()
    assert (caught.value.kind, caught.value.owner) == (FailureKind.SERVER_DOWN, Owner.AGENT)


async def test_start__reads_the_older_path_of_the_card() -> None:
    words = WORDS["0.3"]
    async with fake_a2a(words) as fake:

        async def older(request_: Any, answer: Any) -> None:
            if request_.target == "/.well-known/agent.json":
                await answer.json(words.card("/a2a"))
            else:
                await fake.handle(request_, answer)

        fake.card = status_code(404)
        async with loopback(older) as server:
            agent = a2a_agent(server.url)
            await agent.start()
            assert agent.card.url == f"{server.url}/a2a"
            facts = {"driver": "a2a", "url": server.url, "agent": "fake", "version": "7", "a2a": "0.3"}
            assert agent.provenance == facts


@pytest.mark.parametrize("dialect", WORDS)
async def test_cancelled_turn__cancels_the_task(dialect: str) -> None:
    words = WORDS[dialect]
    script = play(hangs(words.task("submitted"))).script
    async with fake_a2a(words, **script) as fake:
        agent = a2a_agent(fake.url)
        await agent.start()
        session = await agent.open(request())
        turn = asyncio.create_task(session.send(user_message("Roll!"), timeout=60))
        while not fake.calls:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await agent.close()
    assert fake.calls[-1] == ("CancelTask", {"id": "task-1"})
