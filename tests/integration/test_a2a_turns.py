"""Turns and failures by what a server answers: what docs/remote-agents.md says of A2A, in both dialects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a_fake import CONTEXT, WORDS, Error, FakeA2a, Step, Words, breaks, fake_a2a, hangs, status_code
from adk_harness import failure, request, say
from fake_adk import agent_spec, context
from gate_runs import patience
from loopback import loopback

from agent_eval.agents.a2a import agent as a2a_module
from agent_eval.agents.a2a._dialect import ADK_EXTENSION
from agent_eval.agents.a2a.agent import A2aAgent
from agent_eval.agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval.core.content import Content, FunctionResponse, Part, text_of, user_message
from agent_eval.core.invocation import InvocationEvents, tool_calls, tool_responses
from agent_eval.core.masking import Masker
from agent_eval.simulation import with_call_ids

CALL = {"data": {"id": "1", "name": "roll", "args": {"sides": 6}}, "metadata": {"adk_type": "function_call"}}
RESPONSE = {"data": {"id": "1", "name": "roll", "response": {"n": 4}}, "metadata": {"adk_type": "function_response"}}
LONG_CALL = {**CALL, "metadata": {"adk_type": "function_call", "adk_is_long_running": True}}


EXCEPTION, NO_ANSWER, PROTOCOL = FailureKind.EXCEPTION, FailureKind.NO_ANSWER, FailureKind.PROTOCOL
PROVIDER, SERVER = FailureKind.PROVIDER, FailureKind.SERVER
STREAM = "SendStreamingMessage"
Script = dict[str, list[Step]]


def streamed(*events: Any) -> Script:
    """One answer, as a stream."""
    return {STREAM: [list(events)]}


@pytest.fixture(params=WORDS)
def words(request: pytest.FixtureRequest) -> Words:
    return WORDS[request.param]


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_module, "_POLL_SECONDS", 0.02)


def a2a_agent(
    url: str, *, secrets: tuple[str, ...] = (), log: Callable[[str], None] = lambda _: None, **remote: Any
) -> A2aAgent:
    """An agent behind A2A, created as the pipeline does, not started."""
    shared = replace(context(Path("/nowhere"), **remote), masker=Masker(secrets), log=log)
    return A2aAgent(agent_spec(url, shared))


async def started(fake: FakeA2a, **options: Any) -> A2aAgent:
    agent = a2a_agent(fake.url, **options)
    await agent.start()
    return agent


async def test_turn__from_a_stream(words: Words) -> None:
    stream = [
        words.task("submitted"),
        words.status("working", words.message("Rolling.", CALL)),
        words.status("working", words.message(RESPONSE)),
        words.artifact("It is"),
        words.artifact(" 4.", append=True),
        words.status("completed"),
    ]
    async with fake_a2a(words, SendStreamingMessage=[stream]) as fake:
        agent = await started(fake)
        turn = await say(agent, "Roll!")

    assert text_of(turn.final_response) == "It is 4."
    assert [(call.name, call.args) for call in tool_calls(turn.intermediate_data)] == [("roll", {"sides": 6})]
    assert [response.response for response in tool_responses(turn.intermediate_data)] == [{"n": 4}]
    assert agent.shows_calls
    [headers] = fake.headers
    extension = "a2a-extensions" if words is WORDS["1.0"] else "x-a2a-extensions"
    assert headers[extension] == "https://google.github.io/adk-docs/a2a/a2a-extension/"
    assert headers.get("a2a-version") == ("1.0" if words is WORDS["1.0"] else None)


async def test_turn__as_adks_servers_write_it(words: Words) -> None:
    """Thoughts and usage are metadata, and what an event says may come again, as the answer in an artifact does."""
    thought = {"text": "Hm.", "metadata": {"adk_thought": True}}
    call = words.status("working", words.message(CALL, metadata={"adk_usage_metadata": {"promptTokenCount": 3.0}}))
    skips = {"adk_actions": {"skipSummarization": True}}
    done = [words.status("working", words.message("It is 4.")), words.artifact("It is 4."), words.status("completed")]
    events = [words.status("working", words.message(thought)), call, words.status("working", words.message(RESPONSE))]
    form = [call, words.status("working", words.message(RESPONSE, metadata=skips)), words.status("completed")]
    async with fake_a2a(words, SendStreamingMessage=[[*events, call, *done], form]) as fake:
        agent = await started(fake)
        turn, shown = await say(agent, "Roll!"), await say(agent, "Show!")

    assert isinstance(turn.intermediate_data, InvocationEvents)
    first, second, *_ = turn.intermediate_data.invocation_events
    assert first.content is not None and [part.thought for part in first.content.iter_parts()] == [True]
    assert repr(second.usage_metadata) == repr({"promptTokenCount": 3 if words is WORDS["1.0"] else 3.0})
    assert len(tool_calls(turn.intermediate_data)) == 1
    assert turn.model_dump_json().count("It is 4.") == 1
    assert shown.final_response is not None
    assert [part.function_response is not None for part in shown.final_response.iter_parts()] == [True]


async def test_turn__without_streaming(words: Words) -> None:
    history = [
        words.message("old", role="agent"),
        words.message("Roll!", role="user"),
        words.message(CALL),
        words.message(RESPONSE),
        words.message("It is 4."),
    ]

    async with fake_a2a(words) as fake:
        fake.card = words.card(fake.url, capabilities={})

        async def answer_with_our_id(answer: Any) -> None:
            history[1]["messageId"] = fake.messages()[-1]["messageId"]
            task = words.task("completed", history=history, artifacts=words.artifacts("It is 4."))
            await answer.json({"jsonrpc": "2.0", "id": "1", "result": task})

        fake.script["SendMessage"] = [answer_with_our_id]
        agent = await started(fake)
        turn = await say(agent, "Roll!")

    assert text_of(turn.final_response) == "It is 4."
    assert [call.name for call in tool_calls(turn.intermediate_data)] == ["roll"]
    assert "old" not in turn.model_dump_json()


async def test_turn__a_message_instead_of_a_task(words: Words) -> None:
    async with fake_a2a(words, SendStreamingMessage=[words.answer("Hi!"), words.answer("Again.")]) as fake:
        agent = await started(fake)
        session = await agent.open(request())
        first = await session.send(user_message("Hello"), timeout=10)
        second = await session.send(user_message("Hello"), timeout=10)

    assert [text_of(turn.final_response) for turn in (first, second)] == ["Hi!", "Again."]
    assert [message.get("contextId") for message in fake.messages()] == [None, CONTEXT]
    assert not session.shows_tool_calls


async def test_calls__of_adk_rust_are_recognised_by_shape(words: Words) -> None:
    parts = [
        {"data": {"function_call": {"name": "roll", "args": {"sides": 6}, "id": "1"}}},
        {"data": {"function_response": {"name": "roll", "response": {"n": 4}}, "id": "1"}},
    ]
    stream = [words.status("working", words.message(*parts)), words.artifact("4"), words.status("completed")]
    async with fake_a2a(words, SendStreamingMessage=[stream]) as fake:
        agent = await started(fake)
        turn = await say(agent, "Roll!")
    assert [call.args for call in tool_calls(turn.intermediate_data)] == [{"sides": 6}]
    assert [response.id for response in tool_responses(turn.intermediate_data)] == ["1"]
    assert agent.shows_calls


async def test_calls__are_hidden_until_the_server_shows_one(words: Words) -> None:
    text_only = [words.artifact("Hi!"), words.status("completed")]
    with_call = [words.status("working", words.message(CALL)), words.artifact("4"), words.status("completed")]
    async with fake_a2a(words, SendStreamingMessage=[text_only, with_call, text_only]) as fake:
        agent = await started(fake)
        seen = []
        for _ in range(3):
            session = await agent.open(request())
            await session.send(user_message("Roll!"), timeout=10)
            seen.append(session.shows_tool_calls)
    assert seen == [False, True, True]


async def test_calls__are_visible_if_the_card_has_adks_extension(words: Words) -> None:
    async with fake_a2a(words, SendStreamingMessage=[words.answer("Hi!")]) as fake:
        extensions = [{"uri": "https://google.github.io/adk-docs/a2a/a2a-extension/"}]
        fake.card = words.card(fake.url, capabilities={"streaming": True, "extensions": extensions})
        agent = await started(fake)
        assert agent.shows_calls


async def test_input_required__the_next_message_continues_the_task(words: Words) -> None:
    question = words.message("Which die?", LONG_CALL)
    old = words.artifact("old", artifact_id="x")
    asks = [words.task("submitted"), old, words.status("input-required", question, final=True)]
    earlier: dict[str, Any] = {"artifacts": words.artifacts("old", artifact_id="x"), "history": [question]}
    answers = [words.task("working", **earlier), words.artifact("It is 4."), words.status("completed")]
    fresh = [words.answer("Bye.")]
    async with fake_a2a(words, SendStreamingMessage=[asks, answers, fresh]) as fake:
        session = await (await started(fake)).open(request())
        first, second, _ = [await session.send(user_message(text), timeout=10) for text in ("Roll!", "d6", "Bye")]

    assert [message.get("taskId") for message in fake.messages()] == [None, "task-1", None]
    assert [call.name for call in tool_calls(first.intermediate_data)] == ["roll"]
    assert tool_calls(second.intermediate_data) == []
    assert text_of(second.final_response) == "It is 4."
    assert "old" not in second.model_dump_json()


def task(words: Words, *parts: str, state: str = "completed") -> Any:
    """What GetTask answers: a task without a wrapper."""
    wrapped = words.task(state, artifacts=words.artifacts(*parts))
    return wrapped.get("task", wrapped)


ANSWERS: dict[str, tuple[str, Callable[[Words], Script]]] = {
    "last-status": (
        "It is 4.",
        lambda words: streamed(
            words.status("working", words.message("Looking.")), words.status("completed", words.message("It is 4."))
        ),
    ),
    "artifact-before-status": (
        "It is 4.",
        lambda words: streamed(words.artifact("It is 4."), words.status("completed", words.message("Done."))),
    ),
    "chunks": (
        "0" + "x" * 500,
        lambda words: streamed(
            words.artifact("0"), *[words.artifact("x", append=True)] * 500, words.status("completed")
        ),
    ),
    "input-required": ("Which?", lambda words: streamed(words.status("input-required", words.message("Which?")))),
    "auth-required": ("Which?", lambda words: streamed(words.status("auth-required", words.message("Which?")))),
    "half-a-surrogate-pair": ("half ?", lambda words: streamed(words.answer("half \ud83d"))),
    "half-a-surrogate-pair-at-once": ("half ?", lambda words: {STREAM: [words.answer("half \ud83d")]}),
    "polled": (
        "It is 4.",
        lambda words: {
            **streamed(words.task("submitted")),
            "GetTask": [task(words, state="working"), status_code(503), task(words, "It is 4.")],
        },
    ),
    "stream-broke-off": (
        "It is 4.",
        lambda words: {
            STREAM: [
                breaks(words.task("submitted"), words.artifact("It"), words.artifact("gone", artifact_id="b")),
            ],
            "GetTask": [task(words, "It is", state="working"), task(words, "It is 4.")],
        },
    ),
    "busy": (
        "Hi!",
        lambda words: {STREAM: [*[status_code(429, retry_after="0")] * 2, words.answer("Hi!")]},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_turn__answer(words: Words, name: str) -> None:
    answer, script = ANSWERS[name]
    async with fake_a2a(words, **script(words)) as fake:
        turn = await say(await started(fake), "Roll!")
    assert text_of(turn.final_response) == answer
    assert ("Looking." in turn.model_dump_json()) == (name == "last-status")
    assert "gone" not in turn.model_dump_json(), "a snapshot replaces what arrived"
    assert len({message["messageId"] for message in fake.messages()}) == 1
    assert all(params == {"id": "task-1"} for method, params in fake.calls if method == "GetTask")


def of_event(event_id: str) -> Any:
    return {"metadata": {"adk_event_id": event_id, "adk_author": "dice"}}


async def test_long_running_call__of_adks_newer_executor(words: Words) -> None:
    """It moves the call and its response to the end of the turn, and only a response continues the task."""
    asks = [
        words.status("working", words.message("One moment.", **of_event("e0"))),
        *(words.status("working", words.message(**of_event(event_id))) for event_id in ("e1", "e2")),
        words.status("working", words.message("It is pending.", **of_event("e3"))),
        words.status(
            "input-required",
            words.message(LONG_CALL, RESPONSE),
            metadata={ADK_EXTENSION: {"adk_agent_executor_v2": True}},
        ),
    ]
    response = Part(function_response=FunctionResponse(name="roll", response={"n": 5}))
    async with fake_a2a(
        words, SendStreamingMessage=[asks, words.answer("Granted."), asks, words.answer("Bye.")]
    ) as fake:
        agent = await started(fake)
        for answer in (Content(role="user", parts=[response]), user_message("hello")):
            session = await agent.open(request())
            asked = await session.send(user_message("Roll!"), timeout=10)
            await session.send(with_call_ids(answer, [asked]), timeout=10)
    assert isinstance(asked.intermediate_data, InvocationEvents)
    assert asked.intermediate_data.invocation_events[0].author == "dice"
    contents = [event.content for event in asked.intermediate_data.invocation_events]
    shown = [[*part.model_dump(exclude_none=True)] for content in contents if content for part in content.iter_parts()]
    assert (shown, contents[-1]) == ([["text"], ["function_call"], ["function_response"]], None)
    assert text_of(asked.final_response) == "It is pending."
    assert [message.get("taskId") for message in fake.messages()] == [None, "task-1", None, None]
    [continued] = fake.messages()[1]["parts"]
    assert continued["data"]["id"] == "1"


async def test_large_numbers__lose_digits_in_1_0_only(words: Words) -> None:
    account = 9007199254740994.0 if words is WORDS["1.0"] else 9007199254740993
    call = {**CALL, "data": {"name": "book", "args": {"account": account, "nights": 2.0}}}
    stream = [words.status("working", words.message(call)), words.artifact("Booked."), words.status("completed")]
    log: list[str] = []
    async with fake_a2a(words, SendStreamingMessage=[stream]) as fake:
        agent = await started(fake, log=log.append)
        for _ in range(2):
            [made] = tool_calls((await say(agent, "Book!")).intermediate_data)
    assert repr(made.args) == repr({"account": int(account), "nights": 2 if words is WORDS["1.0"] else 2.0})
    assert [line.partition("]")[0] for line in log] == (["[a2a-large-number"] if words is WORDS["1.0"] else [])


async def test_no_streaming_after_all__asks_again_without(words: Words) -> None:
    answers = [words.answer("Hi!")]
    async with fake_a2a(words, SendStreamingMessage=[Error(code=-32004)], SendMessage=answers) as fake:
        agent = await started(fake)
        await say(agent, "Hello")
        await say(agent, "Hello")
    assert [method for method, _ in fake.calls] == ["SendStreamingMessage", "SendMessage", "SendMessage"]


async def test_deadline__cancels_the_task_and_names_an_answer_that_broke_off(words: Words) -> None:
    """As a2a-sdk 0.3.26 does if the executor raises: the connection ends, and the task stays for ever."""
    submitted, working = words.task("submitted"), words.task("working")
    for stream, ended_before in ((hangs(submitted), False), ([submitted], True), (breaks(submitted), True)):
        script: Script = {STREAM: [stream], "GetTask": [working], "CancelTask": [words.task("canceled")]}
        async with fake_a2a(words, **script) as fake:
            late = await failure(await started(fake), "Roll!", timeout=0.3 * patience())
        assert late.kind is FailureKind.DEADLINE
        assert fake.calls[-1] == ("CancelTask", {"id": "task-1"})
        assert ("answer had ended before, while the task was `working`" in late.message) == ended_before
        assert ("raised an exception: see the server's log" in str(late.hint)) == ended_before


async def test_cancelled_turn__cancels_the_task(words: Words) -> None:
    script: Script = {STREAM: [hangs(words.task("submitted"))], "CancelTask": [words.task("canceled")]}
    async with fake_a2a(words, **script) as fake:
        agent = await started(fake)
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


def failed(words: Words, text: str, code: str | None = None, state: str = "failed") -> list[Any]:
    metadata: dict[str, Any] = {} if code is None else {"metadata": {"adk_error_code": code}}
    return [words.task("submitted"), words.status(state, words.message(text, **metadata))]


NOT_AN_ARGUMENT = {"data": {"name": 7}, "metadata": {"adk_type": "function_call"}}
DEEP = f'data: {{"result": {"[" * 100_000 + "]" * 100_000}}}\n\n'
FAILURES: dict[str, tuple[FailureKind, str, Callable[[Words], Any]]] = {
    "failed": (EXCEPTION, "ValueError: no die", lambda words: failed(words, "no die", "ValueError")),
    "failed-provider": (PROVIDER, "RESOURCE_EXHAUSTED: no", lambda words: failed(words, "no", "RESOURCE_EXHAUSTED")),
    "failed-provider-in-words": (PROVIDER, "429 too many", lambda words: failed(words, "429 too many requests")),
    "failed-without-a-word": (EXCEPTION, "no message", lambda words: [words.status("failed")]),
    "rejected": (EXCEPTION, "rejected the task: no", lambda words: failed(words, "no", state="rejected")),
    "canceled": (EXCEPTION, "canceled the task: no", lambda words: failed(words, "no", state="canceled")),
    "completed-without-an-answer": (NO_ANSWER, "without an answer", lambda words: [words.status("completed")]),
    "internal-error": (EXCEPTION, "it failed (JSON-RPC error -32603)", lambda _: Error(code=-32603)),
    "internal-error-of-the-provider": (PROVIDER, "UNAVAIL", lambda _: Error(code=-32603, message="503 UNAVAILABLE")),
    "invalid-params": (PROTOCOL, "refuses the request: it failed (JSON-RPC", lambda _: Error(code=-32602)),
    "version-not-supported": (PROTOCOL, "JSON-RPC error -32009", lambda _: Error(code=-32009)),
    "task-not-found": (FailureKind.CRASH, "lost the task", lambda _: Error(code=-32001)),
    "http-500": (EXCEPTION, "HTTP 500: Internal Server Error", lambda _: status_code(500, "Internal Server Error")),
    "http-307": (EXCEPTION, "HTTP 307", lambda _: status_code(307, location="http://127.0.0.1:9/")),
    "http-503-for-good": (SERVER, "HTTP 503", lambda _: status_code(503, retry_after="3600")),
    "reset-before-a-task": (SERVER, "broke off", lambda _: breaks()),
    "ended-before-a-task": (SERVER, "broke off", lambda _: []),
    "not-json-rpc": (PROTOCOL, "JSON-RPC", lambda _: status_code(200, "<html>")),
    "not-json": (PROTOCOL, "not JSON", lambda _: ["data: <html>\n\n"]),
    "not-an-object-of-a2a": (PROTOCOL, "neither a task nor a message", lambda _: [{"kind": "poem"}]),
    "malformed-part": (PROTOCOL, "can't be read", lambda words: [words.answer(NOT_AN_ARGUMENT)]),
    "nested-too-deeply": (PROTOCOL, "can't be read", lambda _: [DEEP]),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a2a_turns__failures(words: Words, name: str) -> None:
    kind, message, answer = FAILURES[name]
    async with fake_a2a(words, SendStreamingMessage=[answer(words)]) as fake:
        caught = await failure(await started(fake), "Roll!", timeout=20)
    owner = Owner.PROVIDER if kind in {PROVIDER, SERVER} else Owner.AGENT
    assert (caught.kind, caught.owner) == (kind, owner), caught.message
    assert message in caught.message


async def test_polling__a_server_that_stays_overloaded_is_not_the_agents_failure(words: Words) -> None:
    async with fake_a2a(words, **streamed(words.task("submitted")), GetTask=[status_code(503)]) as fake:
        caught = await failure(await started(fake), "Roll!", timeout=1.5)
    assert (caught.kind, caught.owner) == (SERVER, Owner.PROVIDER)


async def test_refused_access__of_a_server_whose_card_is_open() -> None:
    words = WORDS["1.0"]
    async with fake_a2a(words, SendStreamingMessage=[status_code(401)]) as fake:
        with pytest.raises(AgentRefused, match=r"refuses access \(HTTP 401\)"):
            await say(await started(fake), "Roll!")
        fork = await failure(await started(fake, secrets_withheld=True), "Roll!")
        assert (fork.kind, fork.owner) == (SERVER, Owner.PROVIDER)

    async with fake_a2a(words, SendStreamingMessage=[words.answer("Hi!"), status_code(401)]) as fake:
        agent = await started(fake)
        await say(agent, "Hello")
        expired = await failure(agent, "Hello")
    assert (expired.kind, expired.owner) == (SERVER, Owner.PROVIDER)


async def test_card__with_an_address_that_cannot_be_reached() -> None:
    words = WORDS["1.0"]
    async with fake_a2a(words) as fake:
        fake.card = words.card("http://host.invalid/")
        with pytest.raises(AgentRefused, match=r"from its agent card\) can't be used: the host name"):
            await say(await started(fake), "Roll!")
        fake.card = words.card("http://169.254.169.254/latest/")
        with pytest.raises(AgentRefused, match="link-local or a cloud's metadata service"):
            await say(await started(fake), "Roll!")


async def test_stream__larger_than_the_limit(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_module, "MAX_EVENT", 1_000)
    stream = [words.task("submitted"), *[words.artifact("x" * 100, append=True)] * 10]
    async with fake_a2a(words, SendStreamingMessage=[stream]) as fake:
        caught = await failure(await started(fake), "Roll!")
    assert (caught.kind, caught.owner) == (PROTOCOL, Owner.AGENT)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (status_code(401), "refuses access (HTTP 401)"),
        (status_code(404), "has no agent card"),
        (status_code(200, "<html>"), "not a JSON object with a `name`"),
        ({"name": "x", "url": "http://127.0.0.1", "preferredTransport": "GRPC"}, "it offers GRPC 0.3"),
        ({"name": "x", "supportedInterfaces": []}, "it offers none"),
        ({"name": "x", "url": "ftp://h/"}, "invalid URL"),
    ],
)
async def test_start__an_unusable_card_is_a_mistake(card: Any, message: str) -> None:
    async with fake_a2a(WORDS["1.0"]) as fake:
        fake.card = card
        with pytest.raises(AgentRefused) as refused:
            await started(fake)
    assert message in refused.value.problem.message
    assert refused.value.problem.code == "remote-agent-refused"


async def test_start__nothing_listens_and_a_fork_without_secrets() -> None:
    with pytest.raises(AgentFailure) as caught:
        await a2a_agent("http://127.0.0.1:9").start()
    assert (caught.value.kind, caught.value.owner) == (FailureKind.ENVIRONMENT, Owner.AGENT)
    async with fake_a2a(WORDS["1.0"]) as fake:
        fake.card = status_code(401)
        with pytest.raises(AgentFailure) as caught:
            await started(fake, secrets_withheld=True)
    assert (caught.value.kind, caught.value.owner) == (SERVER, Owner.PROVIDER)


async def test_headers__stay_at_the_origin_of_the_agent() -> None:
    words = WORDS["1.0"]
    async with fake_a2a(words, SendStreamingMessage=[words.answer("hunter2!")]) as fake:
        fake.card = words.card("https://elsewhere.example/rpc")
        with pytest.raises(AgentRefused, match=re.escape("https://elsewhere.example")):
            await started(fake, headers={"Authorization": "Bearer hunter2"})

        fake.card = words.card("http://localhost:8000/")  # What ADK's server says if its code names no port.
        agent = await started(fake, headers={"Authorization": "Bearer hunter2"}, secrets=("hunter2",))
        turn = await say(agent, "Hello")

    assert fake.headers[-1]["authorization"] == "Bearer hunter2"
    assert "hunter2" not in text_of(turn.final_response)


async def test_start__reads_the_older_path_of_the_card() -> None:
    words = WORDS["0.3"]
    async with fake_a2a(words) as fake:
        handle = fake.handle

        async def older(request_: Any, answer: Any) -> None:
            if request_.target == "/.well-known/agent.json":
                await answer.json(words.card("/a2a"))
            else:
                await handle(request_, answer)

        fake.card = status_code(404)
        async with loopback(older) as server:
            agent = a2a_agent(server.url)
            await agent.start()
            assert agent.card.url == f"{server.url}/a2a"
            facts = {"driver": "a2a", "url": server.url, "agent": "fake", "version": "7", "a2a": "0.3"}
            assert agent.provenance == facts
