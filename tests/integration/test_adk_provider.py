"""Who is to blame when the agent's model call fails, on a real ADK that talks to a Gemini on loopback."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from adk_harness import failure, headline, running, say
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from golden_files import check

from agent_eval_agents.adk._driver import AdkAgent
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import InvocationEvents
from agent_eval_scoring.core.limiter import Limiter

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
        if message.startswith("connect:"):
            if request.tool_responses:
                return Answer.text("connected")
            return Answer.calls(("connect", {"port": int(message.partition(":")[2])}))
        return Fault(kind=int(message)) if message.isdecimal() else Answer.text(f"to {message}")

    return FakeGemini(answer, faults=faults)


async def outcome(agent: AdkAgent, text: str, *, url: str = "", **facts: Any) -> list[str]:
    """The answer, or what is said of the failure: whose it is, without the address, and how long something took."""
    try:
        lines = [text_of((await say(agent, text, **facts)).final_response)]
    except AgentFailure as error:
        lines = [*headline(error), f"with a traceback: {bool(error.traceback)}"]
    said = "\n".join(lines).replace(url or "URL", "URL")
    theirs = r"(?<=failed: ).*?(?= \(gemini)|(?<=Error: )(?:No API|\d{3}).*|(?<=TLS: )\w+"  # what libraries say
    said = re.sub(theirs, "...", said)
    return [re.sub(r"\b[\d.]+ s\b", "N s", re.sub(r"\b\d+ times", "N times", said))]


def check_page(name: str, shown: Mapping[str, list[str]]) -> None:
    check(f"golden_blame/{name}.txt", "".join("\n".join([f"# {row}", *lines, "\n"]) for row, lines in shown.items()))


Kind = Literal["garbage", "cut", "cut-json", "empty", "null", "blank", "reset", "hang", "hang-body", "hang-rest"]
TRANSPORT: tuple[Kind, ...] = ("garbage", "cut-json", "cut", "empty", "null", "blank")
SILENCE: tuple[Kind, ...] = ("hang", "hang-body", "hang-rest")


@pytest.mark.parametrize("version", MATRIX)
async def test_call__that_fails_is_repeated_and_has_an_owner(tmp_path: Path, version: str) -> None:
    """All on one host, because importing the oldest google-adk takes ten seconds."""
    limiter = Limiter(64)
    with serving(Fault(kind=429), Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, version=version, limiter=limiter) as agent:
            invocation = await say(agent, "hello")
            assert text_of(invocation.final_response) == "to hello"
            assert (server.stats.requests, limiter.refusals, limiter.unanswered) == (3, 2, 0)
            assert [span.attempts for span in invocation.spans or ()] == [[429, 503]]
            data = invocation.intermediate_data
            assert isinstance(data, InvocationEvents)
            assert "prompt_token_count" in (data.invocation_events[0].usage_metadata or {})
            shown = {"429": await outcome(agent, "429", url=server.url)}
            assert server.stats.requests == 6
            for kind in (
                () if version == MATRIX[1] else TRANSPORT
            ):  # aiohttp is asked by the oldest, httpx by the newest
                server.fail(*[Fault(kind=kind)] * 2)
                assert await outcome(agent, "hello") == ["to hello"]
                server.fail(*[Fault(kind=kind)] * 6)
                shown[kind] = await outcome(agent, "hello", url=server.url)
                server.faults.clear()
            for kind in () if version == MATRIX[1] else SILENCE:
                server.fail(Fault(kind=kind))
                shown[kind] = await outcome(agent, "hello", url=server.url, timeout=2)
                assert limiter.unanswered == 0
            if version != MATRIX[1]:
                check_page("each_version", shown)


@pytest.mark.slow
@pytest.mark.parametrize("version", [MATRIX[0], MATRIX[-1]])
async def test_blame__streams(tmp_path: Path, version: str) -> None:
    def answer(request: GenerateRequest) -> Answer | Fault:
        if request.model == "gemini-2.5-pro":
            return Fault(kind="hang-rest")
        return (
            Answer.calls(("research", {"topic": "owls"})) if request.user_texts[-1] == "tool" else Answer.text("to you")
        )

    shown: dict[str, list[str]] = {}
    with FakeGemini(answer) as server:
        async with gemini_agent(tmp_path / "logs", server, name="streams", version=version) as agent:
            await say(agent, "warm up")
            for kind in SILENCE[1:]:
                server.fail(Fault(kind=kind))
                shown[kind] = await outcome(agent, "hello", url=server.url, timeout=2)
            if version == REFERENCE:  # the oldest fails
                [line] = await outcome(agent, "tool", url=server.url, timeout=3)
                assert line.startswith("provider-unavailable, provider: ") and "(gemini-2.5-pro at URL) sent" in line
        slow = {"SLOW_READER": "1"}
        async with gemini_agent(tmp_path / "slow", server, name="streams", version=version, more=slow) as agent:
            shown["a stream that the agent does not read"] = await outcome(agent, "hello", url=server.url, timeout=3)
    check_page("streams", shown)


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a server without TLS says to a handshake."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.slow
async def test_blame__by_status_by_connection_and_by_time(tmp_path: Path) -> None:
    shown: dict[str, list[str]] = {}
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server) as agent:
            for word in ("500", "403", "400", "404"):
                shown[word] = await outcome(agent, word, url=server.url)
            server.fail(*[Fault(kind="reset")] * 2)
            assert await outcome(agent, "hello") == ["to hello"]
            server.fail(*[Fault(kind="reset")] * 6)
            shown["reset"] = await outcome(agent, "hello", url=server.url)
        server.faults.clear()
        with serving() as closed:
            pass
        async with gemini_agent(tmp_path / "logs", server, name="networked") as agent:
            shown["a tool's connection"] = await outcome(agent, f"connect:{closed.port}")
        server.fail(*[Fault(kind="reset")] * 50)
        async with gemini_agent(tmp_path / "logs", server, name="networked", more={"HIDES_ERRORS": "1"}) as agent:
            shown["an agent that hides errors"] = await outcome(agent, "hello")
        server.faults.clear()
        slow = QUICK | {"attempts": 50, "initial_delay": 0.5, "max_delay": 0.5}
        async with gemini_agent(tmp_path / "logs", server, retry=slow) as agent:
            await say(agent, "warm up")
            server.fail(*[Fault(kind=503)] * 50)
            shown["a turn that ends during retries"] = await outcome(agent, "hello", url=server.url, timeout=2)
    async with await asyncio.start_server(_refuse, "127.0.0.1", 0) as tls:
        plain = f"https://127.0.0.1:{tls.sockets[0].getsockname()[1]}"
        for name, url in {"nobody": closed.url, "no host": "http://gemini.invalid", "no TLS": plain}.items():
            async with gemini_agent(tmp_path / "logs", url) as agent:
                shown[name] = await outcome(agent, "hello", url=url)
    async with gemini_agent(tmp_path / "logs", "", environment={}) as agent:
        shown["no key"] = await outcome(agent, "hello")
    waits = {"attempts": 30, "initial_delay": 0.2, "max_delay": 60.0, "http_status_codes": [503]}
    async with gemini_agent(tmp_path / "logs", closed.url, retry=waits, turn_timeout=60) as agent:
        begun = time.monotonic()
        shown["retries fit into the turn's time"] = await outcome(agent, "hello", url=closed.url, timeout=4)
        assert time.monotonic() - begun < 30  # less than the longest delay, but a machine may stand still for seconds
    check_page("one_version", shown)


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
