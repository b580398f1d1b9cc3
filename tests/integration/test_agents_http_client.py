"""Remote agents on real sockets: the client, and the dialects and failures of servers with ADK's REST interface."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adk_harness import failure, headline, say, turn_lines
from fake_adk import CALL, RESPONSE, FakeAdk, agent_of, agent_spec, context, event, hang, parts
from golden_files import check
from loopback import Answer, Handler, Request, loopback

from agent_eval_agents.adk_rest.agent import AdkRestAgent
from agent_eval_agents.http import HttpClient, HttpFailure, TooLarge, parse_url, stream_with_retries
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import MASK, Masker

# The client of remote agents against real sockets: where headers go, what is connected to, how answers break.


SECRET = {"Authorization": "Bearer s3cret-token"}


async def echo(request: Request, answer: Answer) -> None:
    await answer.json({"headers": request.headers})


async def test_client__headers_go_to_the_agents_origin_only_and_are_masked_in_answers() -> None:
    async with loopback(echo) as own, loopback(echo) as other:
        client = HttpClient(parse_url(own.url), headers=SECRET, masker=Masker(["s3cret-token"]))
        reply = await client.request("GET", f"{own.url}/a")
        await client.request("POST", f"{other.url}/a", body={"x": 1})
        await client.request("GET", own.url.replace("127.0.0.1", "localhost"))
        await client.close()
    assert own.requests[0].headers["authorization"] == "Bearer s3cret-token"
    assert reply.json["headers"]["authorization"] == f"Bearer {MASK}" and "s3cret" not in reply.text
    assert "authorization" not in other.requests[0].headers and other.requests[0].json == {"x": 1}
    assert own.requests[1].headers["host"].startswith("localhost:") and "authorization" not in own.requests[1].headers


@pytest.mark.parametrize("end", ["reset", "close", "half an answer", "no HTTP", "reset at once"])
async def test_client__a_request_on_a_kept_connection_that_ends_without_an_answer_is_sent_once_more(end: str) -> None:
    """As Node.js does if its event loop was busy when an idle connection should have been closed."""
    served: list[tuple[int, int]] = []
    numbers = itertools.count(1)
    tasks: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = next(numbers)
        tasks.append(asyncio.current_task())
        for number in itertools.count(1):
            if not await reader.readline():
                break
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(size[1]) if size else 0)
            served.append((connection, number))
            if (connection, number) == (1, 2) or end == "reset at once":
                break
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        if end.startswith("reset"):
            Answer(reader, writer).reset()
        halves = {"half an answer": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", "no HTTP": b"SSH-2.0\r\n\r\n"}
        writer.write(halves.get(end, b""))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient(parse_url(url))
        try:
            for _ in range(2):
                said = (await client.request("POST", f"{url}/run", body={"turn": 2})).text
        except HttpFailure as error:
            said = error.reason
        await client.close()
        await asyncio.gather(*tasks, return_exceptions=True)
    again = [(1, 1), (1, 2), (2, 1)]
    expected = {"reset": ("{}", again), "close": ("{}", again), "reset at once": ("broken", [(1, 1)])}
    assert (said, served) == expected.get(end, ("broken", again[:2]))


async def failed(url: str, **environ: str) -> str:
    """Why a request fails."""
    client = HttpClient(parse_url(url), environ=environ)
    with pytest.raises(HttpFailure) as caught:
        await client.request("GET", f"{url}/run")
    await client.close()
    return f"{caught.value.reason}: {caught.value.message}"


async def test_client__what_it_does_not_follow_keep_or_connect_to() -> None:
    async def redirect(request: Request, answer: Answer) -> None:
        await answer.send(int(request.target[1:]), b"", location=f"{other.url}/stolen", set_cookie="a=b")

    async with loopback(echo) as other, loopback(redirect) as own:
        client = HttpClient(parse_url(own.url), headers=SECRET)
        for status in (301, 302, 303, 307, 308):
            assert (await client.request("GET", f"{own.url}/{status}")).status == status
        await client.close()
        for host in ("169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fe80::1]"):
            for environ in ({}, {"HTTP_PROXY": other.url}):
                assert (await failed(f"http://{host}", **environ)).startswith("address: ")
    assert not other.requests and not any("cookie" in request.headers for request in own.requests)


async def test_client__a_proxy_that_fails_is_named_with_its_variable() -> None:
    async def refuses(request: Request, answer: Answer) -> None:
        await answer.send(502 if "down" in request.target else 407, b"")

    async with loopback(refuses) as proxy:
        tried = [
            ("http://agent.invalid", "HTTP_PROXY", "http://me:secret@127.0.0.1:1"),
            ("https://agent.invalid", "all_proxy", "127.0.0.1:1"),
            ("https://down.invalid", "HTTPS_PROXY", proxy.url),
            ("https://agent.invalid", "HTTPS_PROXY", proxy.url),
            ("http://agent.invalid", "HTTP_PROXY", "http://me:x/secret@a.invalid:1"),
            ("http://agent.invalid", "HTTP_PROXY", "ftp://me:secret@a.invalid"),
            ("http://agent.invalid", "HTTP_PROXY", "http://[::1"),
            ("https://agent.invalid", "ALL_PROXY", "socks5://a.invalid"),
        ]
        said = [
            f"{url} by {address}\n{await failed(url, **{variable: address})}\n\n" for url, variable, address in tried
        ]
    assert not any("secret" in text.split("\n")[1] for text in said)
    check("golden_rest/proxies.txt", re.sub(r" \(\[Errno.*?\)", "", "".join(said).replace(proxy.url, "PROXY")))


async def test_client__proxy_for_other_hosts_but_not_for_loopback() -> None:
    async with loopback(echo) as proxy, loopback(echo) as own:
        environ = {"http_proxy": proxy.url, "HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "direct.invalid"}
        client = HttpClient(parse_url("http://agent.invalid"), environ=environ, headers=SECRET)
        await client.request("GET", "http://agent.invalid/run")
        await client.request("GET", f"{own.url}/run")
        await client.close()
        reason = await failed("http://direct.invalid", **environ)
    assert [request.target for request in proxy.requests] == ["http://agent.invalid/run"]
    assert [request.target for request in own.requests] == ["/run"]
    assert reason.startswith("dns: ")


def certificate(directory: Path, host: str) -> tuple[Path, Path]:
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x -addext"
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), f"subjectAltName={host}", *files], check=True, capture_output=True, timeout=60)
    return key, cert


@pytest.mark.parametrize(
    ("name", "trusted", "works"),
    [("IP:127.0.0.1", True, True), ("IP:127.0.0.1", False, False), ("DNS:x.example", True, False)],
)
async def test_client__certificates_are_verified(tmp_path: Path, name: str, trusted: bool, works: bool) -> None:
    key, cert = certificate(tmp_path, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        environ = {"SSL_CERT_FILE": str(cert)} if trusted else {}
        if works:
            client = HttpClient(parse_url(url), environ=environ)
            assert (await client.request("GET", url)).text == "OK"
            await client.close()
        else:
            assert (await failed(url, **environ)).startswith("tls: ")


async def streamed(handler: Handler) -> list[str]:
    async with loopback(handler) as own:
        client = HttpClient(parse_url(own.url), masker=Masker(["s3cret-token"]))
        try:
            async with client.stream("POST", own.url, body={}) as stream:
                assert stream.is_event_stream
                return [event.data async for event in stream.events()]
        finally:
            await client.close()


async def test_stream__byte_by_byte_and_gzip_and_masked() -> None:
    text = "data: Grüße s3cret-token\r\n\r\ndata: 2\n\n".encode()

    async def bytewise(request: Request, answer: Answer) -> None:
        await answer.head(content_type="Text/Event-Stream; charset=utf-8")
        for byte in text:
            await answer.raw(bytes([byte]))

    async def zipped(request: Request, answer: Answer) -> None:
        await answer.send(200, gzip.compress(text), content_type="text/event-stream", content_encoding="gzip")

    for handler in (bytewise, zipped):
        assert await streamed(handler) == [f"Grüße {MASK}", "2"]


async def test_stream__shorter_than_it_should_be_is_broken() -> None:
    async def short(request: Request, answer: Answer) -> None:
        await answer.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\ndata: 1\n\n")

    with pytest.raises(HttpFailure) as caught:
        await streamed(short)
    assert caught.value.reason == "broken"


async def test_stream__an_event_of_100_mb_is_refused() -> None:
    async def large(request: Request, answer: Answer) -> None:
        await answer.events("data: ")
        for _ in range(100):
            await answer.raw(b"x" * 1_000_000)

    with pytest.raises(TooLarge, match="64 MB"):
        await streamed(large)


async def test_stream__leaving_it_closes_the_connection() -> None:
    ended = asyncio.Event()

    async def endless(request: Request, answer: Answer) -> None:
        await answer.events("data: 1\n\n")
        try:
            while True:
                await answer.raw(b": still here\n\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with loopback(endless) as own:
        client = HttpClient(parse_url(own.url))
        async with client.stream("GET", own.url) as stream:
            async for _ in stream.events():
                break
        async with asyncio.timeout(10):
            await ended.wait()
        await client.close()


async def test_retries__until_the_server_has_capacity() -> None:
    statuses = iter([503, 429, 502, 200])
    limiter = Limiter(8)

    async def busy(request: Request, answer: Answer) -> None:
        await answer.send(next(statuses), b"ok", retry_after="0")

    async with loopback(busy) as own, limiter.slot() as place:
        client = HttpClient(parse_url(own.url))
        until = asyncio.get_running_loop().time() + 60
        sending = stream_with_retries(client, own.url, body=1, headers={}, until=until, place=place, limiter=limiter)
        async with sending as stream:
            assert (await stream.reply()).text == "ok"
        await client.close()
    assert len(own.requests) == 4 and limiter.size < 8
    assert [refused for _, refused in limiter._outcomes] == [True, True, False], "502 says nothing about capacity"
    assert (limiter.refusals, limiter.unanswered) == (2, 0)


# Agents behind ADK's REST interface: the dialects of its servers, and each row of the table of failures.


PYTHON = {"version": "2.13.0", "language": "python", "language_version": "3.12"}


def says(*events: Any) -> Any:
    async def turn(request: Request, answer: Answer) -> None:
        await answer.events(*events)

    return turn


def answers(status: int, body: bytes = b"", **headers: str) -> Any:
    async def turn(request: Request, answer: Answer) -> None:
        await answer.send(status, body, **headers)

    return turn


async def half(request: Request, answer: Answer) -> None:
    await answer.events(event("Let me"), 'data: {"author": "weather", "con')


async def reset(request: Request, answer: Answer) -> None:
    await answer.events(event("Let me"))
    answer.reset()


async def broken(request: Request, answer: Answer) -> None:
    answer.reset()


class Crashed:
    """A server of the repository."""

    def log_tail(self) -> str:
        return "panic: out of memory"

    def ended(self) -> str:
        return "exited with code 2"

    async def settle(self) -> None:
        pass


Play = dict[str, Any]
"""Facts of the server, of the sessions, or options of the agent."""


def play(turn: Any = None, **facts: Any) -> Play:
    """A server whose turns are like this."""
    return {"turn": turn or says(event("Hi.")), **facts}


def line(value: Any, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"


def turns() -> dict[str, Play]:
    rust = [
        {"invocation_id": "i", "invocationId": "i", "author": "w", "partial": False, "long_running_tool_ids": []}
        | {"actions": {"skip_summarization": False}, "timestamp": "2026-08-01T00:00:00Z"}
        | {"content": {"role": "model", "parts": members}}
        for members in (
            [{"thinking": "Hm.", "signature": "x"}, {"name": "look_up", "args": {"city": "Oslo"}, "id": "c1"}],
            [{"function_response": {"name": "look_up", "response": {"degrees": 3}}, "id": "c1"}],
            [{"text": "3 degrees"}],
        )
    ]
    nulls = {"partial": None, "errorCode": None, "longRunningToolIds": None, "groundingMetadata": None}
    camel = [parts({"text": "Hm.", "thought": True}, CALL, **nulls), parts(RESPONSE), event("3 degrees", **nulls)]
    home = {"home": "Bergen"}
    plays = {
        "python": play(says(*camel), state=home, version=PYTHON),
        "go": play(says(*camel), state=home, prefix="/api", strict=True),
        "typescript": play(says(": ping\n\n", *map(line, camel)), state=home),
        "java": play(says(*camel), state=home),
        "rust": play(says(*rust), state=home, prefix="/api"),
        "a user of its own for each session": play(said=[("hello", "again"), ("hello",)], user_id="u"),
        "a user with a slash, to which Python's servers answer 404, even as %2F": play(user_id="users/123"),
        "users as they are given, and sessions that stay": play(
            user_id="a/b c", user_ids="as-given", keep_sessions=True
        ),
    }
    picture = event("a picture \ud83d", id="e1", groundingMetadata={"webSearchQueries": ["x"]})
    split = {**picture, "actions": {"artifactDelta": {"x": 1}}}
    split.pop("content")
    events = [event("a", partial=True), picture, split]
    plays["partial and split events"] = play(says(*events))
    collected = answers(200, json.dumps(events).encode(), content_type="application/json")
    plays["partial and split events that a proxy collects"] = play(collected)
    plays["state that the server ignores"] = play(ignores_state=True, state={"room": 1, "temp:x": 2})
    plays["state that need not come back"] = play(ignores_state=True, state={"temp:x": 2, "nothing": None})
    plays["a refusal of the model"] = play(says(event("No.", errorCode="SAFETY")))
    plays["an answer that is cut"] = play(says(event("cut", finishReason="MAX_TOKENS", errorCode="MAX_TOKENS")))
    plays["a long-running call at the end"] = play(says(parts(CALL, longRunningToolIds=["c1"])))
    skips = parts(RESPONSE, actions={"skipSummarization": True})
    plays["a response that is the answer"] = play(says(parts(CALL), skips))
    last = says(parts(CALL), parts(RESPONSE))
    plays["calls come last: of a Python server, which explains exceptions"] = play(last, version=PYTHON)
    return plays


def failures() -> dict[str, Play]:
    def error_line(kind: str, message: str, **more: str) -> dict[str, Any]:
        return {"error": f"{kind}: {message}", "error_details": {"error_type": kind, "error_message": message, **more}}

    sessions: dict[str, Any] = {}

    async def forgets(request: Request, answer: Answer) -> None:
        sessions.clear()
        await answer.events(event("Hi."))

    async def once(request: Request, answer: Answer) -> None:
        if sessions:
            await answer.send(401, b"expired")
        else:
            sessions["s1"] = {"id": "s1", "userId": request.target.split("/")[4], "state": {}}
            await answer.json(sessions["s1"])

    locked = b'{"detail": "database is locked"}'
    value = error_line("ValueError", "no such city", stacktrace="Traceback ...")
    return {
        "HTTP 429": play(answers(429, b"slow down", retry_after="60"), timeout=0.9),
        "HTTP 503": play(answers(503), timeout=0.9),
        "HTTP 500": play(answers(500, b"Internal Server Error")),
        "HTTP 520, of a proxy": play(answers(520, b"error code: 520")),
        "HTTP 500, overloaded": play(answers(500, locked)),
        "overloaded": play(says(error_line("OperationalError", "database is locked"))),
        "overloaded, without details": play(says({"error": "(sqlite3.OperationalError) database is locked"})),
        "overloaded pool": play(says({"error": "QueuePool limit of size 5 overflow 10"})),
        "exception": play(says(event("a"), value)),
        "exception of the provider": play(says(error_line("_ResourceExhaustedError", "429 RESOURCE_EXHAUSTED"))),
        "exception after an error of the provider": play(says(event(errorCode="RESOURCE_EXHAUSTED"), value)),
        "error": play(says({"error": "boom"})),
        "event that is called error": play(says(line({"error": "bang"}, "error"))),
        "event that is called error, of the provider": play(says(line({"error": "UNAVAILABLE"}, "error"))),
        "call without a response": play(says(parts(CALL))),
        "calls without an answer": play(says(parts(CALL), parts(RESPONSE))),
        "half an event": play(half),
        "reset": play(reset),
        "half an event, of a server of the gate": play(half, process=Crashed()),
        "reset, of a server of the gate": play(reset, process=Crashed()),
        "no event": play(says()),
        "text": play(says("data: hello\n\n")),
        "list": play(says("data: [1]\n\n")),
        "malformed content": play(says(event(content="x"))),
        "malformed actions": play(says(event("x", actions="none"))),
        "empty event": play(says({})),
        "JSON without events": play(answers(200, b'{"detail": "quota"}')),
        "page": play(answers(200, b"<html>", content_type="text/html")),
        "session that is lost": play(forgets, sessions=sessions, said=[("hello", "again")]),
        "session that is refused after others": play(sessions=sessions, session_answer=once, said=[("hello",)] * 2),
        "session that is refused": play(session_answer=answers(401)),
        "session that is refused to a fork without secrets": play(session_answer=answers(401), secrets_withheld=True),
        "session that is not created in time": play(session_answer=hang, timeout=0.3),
        **{
            f"session that is not created: HTTP {status} {body.decode()}{whose}": play(
                session_answer=answers(status, body), **options
            )
            for whose, options in {"": {}, ", of a server of the gate": {"process": Crashed()}}.items()
            for status, body in ((500, b"null"), (500, locked), (404, b""))
        },
        "two apps": play(apps=["a", "b"]),
        "no app": play(apps=[]),
        "no app of that name": play(apps=["a", "b"], app="weather"),
        "no list of apps": play(apps_answer=answers(404, b"<html>")),
        "another list of apps": play(apps_answer=answers(200, b'{"apps": []}')),
        "access is refused": play(apps_answer=answers(401, b"no s3cret-token")),
        "redirection": play(apps_answer=answers(302, location="https://h/")),
        "access is refused to a fork without secrets": play(apps_answer=answers(401), secrets_withheld=True),
        "reset at the start": play(apps_answer=broken),
    }


async def performed(facts: Play, directory: Path) -> str:
    """What becomes of each session, and what the server has of them."""
    fake = FakeAdk(**{name: facts.pop(name) for name in [*facts] if name in FakeAdk.__dataclass_fields__})
    said, timeout = facts.pop("said", [("hello",)]), facts.pop("timeout", 30)
    of_sessions = {name: facts.pop(name) for name in [*facts] if name in {"state", "user_id"}}
    lines = []
    try:
        async with agent_of(fake, directory, **facts) as agent:
            for texts in said:
                invocation = await say(agent, *texts, timeout=timeout, **of_sessions)
                assert invocation.duration is not None and invocation.model_dump_json()
                assert (invocation.model_duration, invocation.app_details) == (None, None)
                lines += turn_lines(invocation)
            lines.append(repr({name: agent.provenance[name] for name in agent.provenance if name != "url"}))
    except (AgentRefused, AgentFailure) as error:
        lines += headline(error)
        if isinstance(error, AgentFailure):
            lines += [text for text in (error.traceback, error.log_tail) if text]
    users = {session["userId"]: session["state"] for session in fake.sessions.values()}
    text = "\n".join([*lines, f"users: {users}", f"deleted: {fake.deleted}"]).replace(fake.url, "URL")
    random = {user[-8:]: f"RANDOM{number}" for number, user in enumerate(users, 1) if re.search("-[0-9a-f]{8}$", user)}
    for found, name in random.items():
        text = text.replace(found, name)
    return re.sub(r"[2-9] times in \d s", "N times in N s", text)


@pytest.mark.parametrize("plays", [turns, failures])
async def test_rest__what_becomes_of_what_servers_say(plays: Any, tmp_path: Path) -> None:
    shown = {name: await performed(each, tmp_path) for name, each in plays().items()}
    check(f"golden_rest/{plays.__name__}.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


async def test_start__nothing_listens_is_the_agents_failure_and_a_busy_server_is_waited_for(tmp_path: Path) -> None:
    async with loopback(hang) as server:
        pass
    agent = AdkRestAgent(agent_spec(server.url, context(tmp_path)))
    for _ in range(2):
        with pytest.raises(AgentFailure, match="can't be reached: no connection") as caught:
            await agent.start()
        assert (caught.value.kind, caught.value.owner) == (FailureKind.SERVER_DOWN, Owner.AGENT)
    busy = itertools.chain([503, 429, 500], itertools.repeat(200))

    async def starting(request: Request, answer: Answer) -> None:
        await answer.send(next(busy), b'["weather"]', retry_after="0")

    async with agent_of(FakeAdk(turn=says(event("Hi.")), apps_answer=starting), tmp_path) as agent:
        assert text_of((await say(agent, "hello")).final_response) == "Hi."


async def test_turn__ends_within_its_time_and_closes_the_connection(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def silent(request: Request, answer: Answer) -> None:
        await answer.head(content_type="text/event-stream")
        await answer.closed()
        cancelled.set()

    async with agent_of(FakeAdk(turn=silent), tmp_path) as agent:
        error = await failure(agent, timeout=0.3)
        async with asyncio.timeout(10):
            await cancelled.wait()
    assert (error.kind, error.owner) == (FailureKind.DEADLINE, Owner.AGENT)


STATES: dict[str, tuple[Any, dict[str, Any] | None]] = {
    "without what lasts for a turn": (lambda _, answer: answer.json({"state": {"a": 1, "temp:b": 2}}), {"a": 1}),
    "of a server without it": (lambda _, answer: answer.send(404, b"no"), None),
    "that is none": (lambda _, answer: answer.json({"state": ["a"]}), None),
    "that is no JSON": (lambda _, answer: answer.send(200, b"<html>"), None),
    "that the session has": (None, {"city": "Oslo"}),
}


@pytest.mark.parametrize("name", STATES)
async def test_rest__state_of_the_session_is_read_if_it_is_needed(name: str, tmp_path: Path) -> None:
    reads, expected = STATES[name]
    fake = FakeAdk(turn=says(event("Hi.")), read_answer=reads)
    async with agent_of(fake, tmp_path) as agent:
        turn = await say(agent, "hello", state={"city": "Oslo"}, reads_state=True)
        assert turn.session_state == expected
        assert (await say(agent, "hello")).session_state is None


async def broken_off(_: Request, answer: Answer) -> None:
    answer.reset()


@pytest.mark.parametrize(
    ("reads", "kind", "owner"),
    [
        (lambda _, answer: answer.send(503, b"busy", retry_after="90"), FailureKind.SERVER, Owner.PROVIDER),
        (lambda _, answer: answer.send(522, b"a proxy's"), FailureKind.SERVER, Owner.PROVIDER),
        (lambda _, answer: answer.send(401, b"expired"), FailureKind.SERVER, Owner.PROVIDER),
        (broken_off, FailureKind.SERVER, Owner.PROVIDER),
        (lambda _, answer: answer.send(500, b"not JSON serializable"), FailureKind.EXCEPTION, Owner.AGENT),
    ],
    ids=["busy", "a proxy", "no access any more", "broken off", "an exception"],
)
async def test_rest__a_server_that_fails_is_none_that_shows_no_state(
    reads: Any, kind: FailureKind, owner: Owner, tmp_path: Path
) -> None:
    async with agent_of(FakeAdk(turn=says(event("Hi.")), read_answer=reads), tmp_path) as agent:
        error = await failure(agent, reads_state=True)
    assert (error.kind, error.owner) == (kind, owner), error.message
    busy = itertools.chain([503], itertools.repeat(200))

    async def soon(_: Any, answer: Any) -> None:
        await answer.send(next(busy), b'{"state": {"a": 1}}', retry_after="0")

    async with agent_of(FakeAdk(turn=says(event("Hi.")), read_answer=soon), tmp_path) as agent:
        assert (await say(agent, "hello", reads_state=True)).session_state == {"a": 1}
