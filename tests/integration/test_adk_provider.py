"""Who is to blame when the agent's model call fails, on a real ADK that talks to a Gemini on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from adk_harness import failure, running, say
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest

from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.protocol import FailureKind, Owner
from agent_eval.core.content import text_of
from agent_eval.core.invocation import InvocationEvents
from agent_eval.core.limiter import Limiter

QUICK = {"attempts": 3, "initial_delay": 0.01, "max_delay": 0.02, "http_status_codes": [429, 500, 503]}


@asynccontextmanager
async def gemini_agent(
    logs: Path,
    server: FakeGemini | str,
    *,
    name: str = "gemini",
    version: str = REFERENCE,
    more: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[AdkAgent]:
    """An agent with a fake of Gemini, or another address; `more` of its variables."""
    url = server if isinstance(server, str) else server.url
    environment = {"GOOGLE_GEMINI_BASE_URL": url, "GOOGLE_API_KEY": "a-key-that-is-no-key", **(more or {})}
    settings = {
        "environment": environment,
        "retry": QUICK,
        "python": host_forks.command(adk_python(version)),
        **options,
    }
    async with running(name, logs, **settings) as agent:
        yield agent


def serving(*faults: Fault) -> FakeGemini:
    """A model that fails these times, and whenever somebody says the name of a fault."""

    def answer(request: GenerateRequest) -> Answer | Fault:
        message = request.user_texts[-1]
        if message == "reset":
            return Fault(kind="reset")
        if message.startswith("connect:"):
            if request.tool_responses:
                return Answer.text("connected")
            return Answer.calls(("connect", {"port": int(message.partition(":")[2])}))
        return Fault(kind=int(message)) if message.isdecimal() else Answer.text(f"to {message}")

    return FakeGemini(answer, faults=faults)


@pytest.mark.parametrize("version", MATRIX)
async def test_call__that_fails_is_repeated_and_has_an_owner(tmp_path: Path, version: str) -> None:
    """All on one host, because importing the oldest google-adk takes ten seconds."""
    limiter = Limiter(64)
    with serving(Fault(kind=429), Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, version=version, limiter=limiter) as agent:
            await _is_repeated_while_throttled(agent, server, limiter)
            if version == MATRIX[-1]:
                await _is_blamed_by_status(agent, server)
            if version != MATRIX[1]:  # aiohttp is asked by the oldest, httpx by the newest
                await _is_repeated_without_an_answer(agent, server, resets=version != MATRIX[0])
                await _is_the_providers_if_it_never_answers(agent, server, limiter)


async def _is_repeated_while_throttled(agent: AdkAgent, server: FakeGemini, limiter: Limiter) -> None:
    invocation = await say(agent, "hello")
    assert (server.stats.requests, limiter.refusals, limiter.unanswered) == (3, 2, 0)
    assert [span.attempts for span in invocation.spans or ()] == [[429, 503]]
    error = await failure(agent, "429")
    assert server.stats.requests == 6
    assert text_of(invocation.final_response) == "to hello"
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    assert data.invocation_events[0].usage_metadata is not None
    assert "prompt_token_count" in data.invocation_events[0].usage_metadata
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "429" in error.message


async def _is_blamed_by_status(agent: AdkAgent, server: FakeGemini) -> None:
    blamed = {
        "500": (FailureKind.PROVIDER, Owner.PROVIDER),
        "reset": (FailureKind.PROVIDER, Owner.PROVIDER),
        "403": (FailureKind.PROVIDER, Owner.PROVIDER),
        "400": (FailureKind.EXCEPTION, Owner.AGENT),
        "404": (FailureKind.EXCEPTION, Owner.AGENT),
    }
    errors = {name: await failure(agent, name) for name in blamed}
    assert {name: (error.kind, error.owner) for name, error in errors.items()} == blamed
    assert {name for name, error in errors.items() if not error.traceback} == {"403"}
    assert errors["404"].hint == (
        f"The provider at {server.url} does not know the model `gemini-2.5-flash`. Check the name that the agent "
        "gives, and the base URL if the job sets one."
    )
    assert errors["400"].hint is None


TRANSPORT: dict[Literal["garbage", "cut", "cut-json", "empty", "null", "blank", "reset"], str] = {
    "garbage": "the answer was a page of HTML",
    "cut-json": "the answer was a body that is not JSON, or was cut off",
    "cut": "the answer was cut off",
    "empty": "the answer had neither candidates nor feedback on the prompt",
    "null": "the answer had neither candidates nor feedback on the prompt",
    "blank": "the answer was empty",
    "reset": "connection",
}


async def _is_repeated_without_an_answer(agent: AdkAgent, server: FakeGemini, *, resets: bool) -> None:
    for kind, words in TRANSPORT.items():
        if kind == "reset" and not resets:
            continue  # google-genai 1 sleeps up to ten seconds before it tries again by itself
        server.fail(*[Fault(kind=kind)] * 2)
        assert text_of((await say(agent, "hello")).final_response) == "to hello"
        server.fail(*[Fault(kind=kind)] * 6)
        error = await failure(agent, "hello")
        while server.faults:
            server.faults.popleft()
        assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
        assert f"gemini-2.5-flash at {server.url} failed" in error.message
        assert words in error.message


async def _is_the_providers_if_it_never_answers(agent: AdkAgent, server: FakeGemini, limiter: Limiter) -> None:
    await say(agent, "hello")
    server.fail(Fault(kind="hang"))
    error = await failure(agent, "hello", timeout=2)
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert f"gemini-2.5-flash at {server.url}) sent nothing for" in error.message
    assert limiter.unanswered == 0


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a server without TLS says to a handshake."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


async def test_call__without_a_connection_or_a_key(tmp_path: Path) -> None:
    async with await asyncio.start_server(_refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with serving() as closed:
            pass
        causes = {
            closed.url: "connection refused (3 times)",
            "http://gemini.invalid": "the host name can't be resolved",
            f"https://127.0.0.1:{port}": "TLS: ",
        }
        for url, cause in causes.items():
            async with gemini_agent(tmp_path / "logs", url) as agent:
                error = await failure(agent, "hello")
            assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
            assert f"gemini-2.5-flash at {url} failed" in error.message
            assert cause in error.message
            assert url != closed.url or "base URL" in (error.hint or "")
    async with gemini_agent(tmp_path / "logs", "", environment={}) as agent:
        error = await failure(agent, "hello")
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "GOOGLE_API_KEY" in (error.hint or "")


async def test_retries__fit_into_the_turns_time(tmp_path: Path) -> None:
    with serving() as server:
        pass
    options = {"attempts": 30, "initial_delay": 0.2, "max_delay": 60.0, "http_status_codes": [503]}
    async with gemini_agent(tmp_path / "logs", server, retry=options, turn_timeout=60) as agent:
        begun = time.monotonic()
        error = await failure(agent, "hello", timeout=8)
        assert time.monotonic() - begun < 30  # less than the longest delay, but a machine may stand still for seconds
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "connection refused" in error.message


async def test_blame__connection_error_of_a_tool(tmp_path: Path) -> None:
    with serving() as closed:
        pass
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, name="networked") as agent:
            error = await failure(agent, f"connect:{closed.port}")
    assert (error.kind, error.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
    assert "ConnectionRefusedError" in error.message


@pytest.mark.parametrize("version", [MATRIX[0], MATRIX[-1]])
async def test_blame__error_of_a_model_counts_only_after_a_request(tmp_path: Path, version: str) -> None:
    ours, theirs = (FailureKind.EXCEPTION, Owner.AGENT), (FailureKind.PROVIDER, Owner.PROVIDER)
    expected = {
        **{f"{place}: made up": ours for place in ("tool", "callback", "model")},
        **{f"{place}: made-up connection": ours for place in ("tool", "callback", "model")},
        **{f"{place}: with genai": theirs for place in ("tool", "callback", "model")},
        "model: with httpx": theirs,
        "model: again": theirs,
        "model: connection again": theirs,
        "tool: with httpx": ours,  # whatever a tool opens is the agent's, unless it asks a model
    }
    with FakeGemini(lambda _: Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, name="api_errors", version=version) as agent:
            errors = {message: await failure(agent, message) for message in expected}
    assert {message: (error.kind, error.owner) for message, error in errors.items()} == expected
    assert "raised ServerError: 503 UNAVAILABLE" in errors["tool: made up"].message


async def test_blame__agent_that_hides_errors_has_answered(tmp_path: Path) -> None:
    with serving(*[Fault(kind="reset")] * 50) as server:
        async with gemini_agent(tmp_path / "logs", server, name="networked", more={"HIDES_ERRORS": "1"}) as agent:
            invocation = await say(agent, "hello")
    assert text_of(invocation.final_response) == "I am sorry."


async def test_blame__turn_that_ends_during_retries(tmp_path: Path) -> None:
    slow = QUICK | {"attempts": 50, "initial_delay": 0.5, "max_delay": 0.5}
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, retry=slow) as agent:
            await say(agent, "warm up")
            server.fail(*[Fault(kind=503)] * 50)
            error = await failure(agent, "hello", timeout=3)
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "HTTP 503 (" in error.message
    assert f"gemini-2.5-flash at {server.url}" in error.message


@pytest.mark.parametrize(("name", "version"), [("gemini", MATRIX[-1]), ("streams", MATRIX[0]), ("streams", MATRIX[-1])])
async def test_blame__answer_that_stops_after_its_headers(tmp_path: Path, name: str, version: str) -> None:
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, name=name, version=version) as agent:
            assert text_of((await say(agent, "warm up")).final_response) == "to warm up"
            server.fail(Fault(kind="hang-body"))
            without_body = await failure(agent, "hello", timeout=2)
            server.fail(Fault(kind="hang-rest"))
            without_rest = await failure(agent, "hello", timeout=2)
    for error in (without_body, without_rest):
        assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER), error.message
        assert f"gemini-2.5-flash at {server.url}) sent nothing for" in error.message


async def test_blame__stream_that_a_tool_waits_for(tmp_path: Path) -> None:
    def answer(request: GenerateRequest) -> Answer | Fault:
        if request.model == "gemini-2.5-pro":
            return Fault(kind="hang-rest")
        return Answer.calls(("research", {"topic": "owls"}))

    with FakeGemini(answer) as server:
        async with gemini_agent(tmp_path / "logs", server, name="streams") as agent:
            error = await failure(agent, "hello", timeout=4)
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER), error.message
    assert f"gemini-2.5-pro at {server.url}) sent nothing for" in error.message


async def test_blame__stream_that_the_agent_does_not_read(tmp_path: Path) -> None:
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, name="streams", more={"SLOW_READER": "1"}) as agent:
            error = await failure(agent, "hello", timeout=3)
    assert (error.kind, error.owner) == (FailureKind.DEADLINE, Owner.AGENT), error.message


async def test_requests__end_when_nobody_waits_for_them(tmp_path: Path) -> None:
    limiter, in_the_end = Limiter(64), 0

    def answer(request: GenerateRequest) -> Answer | Fault:
        nonlocal in_the_end
        if request.model == "gemini-2.5-pro":
            return Fault(kind="hang")
        if not request.tool_responses:
            return Answer.calls(("ask_briefly", {"times": 4}))
        in_the_end = limiter.unanswered
        return Answer.text("done")

    with FakeGemini(answer) as server:
        async with gemini_agent(tmp_path / "logs", server, name="networked", limiter=limiter) as agent:
            await say(agent, "hello")
        assert server.stats.requests >= 4
    assert in_the_end <= 2, "this one, and the last cancelled one if the gate has not heard of it"


@pytest.mark.slow
async def test_blame__silent_model_of_the_agents_own(tmp_path: Path) -> None:
    async with running("own_model", tmp_path / "logs", python=host_forks.command(adk_python())) as agent:
        error = await failure(agent, "hello", timeout=8)
    assert (error.kind, error.owner) == (FailureKind.DEADLINE, Owner.AGENT)
    assert "waiting for the model deaf" in error.message
    assert "agent.py:16: await asyncio.Event().wait()" in error.message


@pytest.mark.slow
async def test_call__silent_attempt_is_repeated(tmp_path: Path) -> None:
    with serving(Fault(kind="hang")) as server:
        async with gemini_agent(tmp_path / "logs", server) as agent:
            silent = asyncio.create_task(say(agent, "hello", timeout=90))
            while not server.stats.requests:
                await asyncio.sleep(0.05)
            await say(agent, "others are answered meanwhile")
            assert text_of((await silent).final_response) == "to hello"


async def test_outage__is_reported_once_and_opens_no_more_sessions(tmp_path: Path) -> None:
    quick = {"attempts": 30, "initial_delay": 0.05, "max_delay": 0.2, "http_status_codes": [503]}
    with FakeGemini(lambda _: Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, retry=quick, turn_timeout=2) as agent:
            errors = await asyncio.gather(*(failure(agent, "hello", timeout=60) for _ in range(4)))
            asked = server.stats.requests
            errors.append(await failure(agent, "hello"))
            assert server.stats.requests == asked
    assert {(error.kind, error.owner, error.collateral) for error in errors} == {
        (FailureKind.PROVIDER, Owner.PROVIDER, False)
    }
    assert len({error.message for error in errors}) == 1
    assert f"`gemini-2.5-flash` at {server.url} is down, so no more calls were made" in errors[-1].message


async def test_retries__waiting_leaves_the_place_to_others(tmp_path: Path) -> None:
    limiter = Limiter(1)
    order: list[str] = []
    slow = QUICK | {"initial_delay": 2.0, "max_delay": 2.0}

    async def run(agent: AdkAgent, text: str) -> None:
        async with limiter.slot() as place:
            await say(agent, text, place=place)
            order.append(text)

    with serving(Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, retry=slow) as agent:
            await asyncio.gather(run(agent, "fails first"), run(agent, "comes after it"))
    assert order == ["comes after it", "fails first"]


@pytest.mark.parametrize("version", MATRIX)
async def test_load__yaml_agent(tmp_path: Path, version: str) -> None:
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, name="yaml_agent", version=version) as agent:
            invocation = await say(agent, "hello")
        assert server.received[0].instruction.startswith("Answer in one word.")
    assert text_of(invocation.final_response) == "to hello"
