"""Remote agents on real sockets: the client, and the dialects and failures of servers with ADK's REST interface."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adk_harness import failure, say
from fake_adk import CALL, RESPONSE, FakeAdk, agent_of, agent_spec, context, event, hang, parts
from loopback import Answer, Handler, Request, loopback

from agent_eval.agents.adk_rest.agent import AdkRestAgent
from agent_eval.agents.http import HttpClient, HttpFailure, TooLarge, parse_url, stream_with_retries
from agent_eval.agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval.core.content import text_of
from agent_eval.core.invocation import tool_calls, tool_responses
from agent_eval.core.limiter import Limiter
from agent_eval.core.masking import MASK, Masker

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
    assert reply.json()["headers"]["authorization"] == f"Bearer {MASK}" and "s3cret" not in reply.text
    assert "authorization" not in other.requests[0].headers and other.requests[0].json == {"x": 1}
    assert own.requests[1].headers["host"].startswith("localhost:") and "authorization" not in own.requests[1].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_client__redirects_are_not_followed_and_cookies_not_kept(status: int) -> None:
    async with loopback(echo) as other:

        async def redirect(request: Request, answer: Answer) -> None:
            await answer.send(status, b"", location=f"{other.url}/stolen", set_cookie="a=b")

        async with loopback(redirect) as own:
            client = HttpClient(parse_url(own.url), headers=SECRET)
            assert (await client.request("GET", own.url)).status == status
            await client.request("GET", own.url)
            await client.close()
    assert not other.requests and "cookie" not in own.requests[1].headers


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fe80::1]"]
)
@pytest.mark.parametrize("proxied", [False, True])
async def test_client__never_connects_to_metadata_addresses(host: str, proxied: bool) -> None:
    async with loopback(echo) as proxy:
        client = HttpClient(parse_url(f"http://{host}"), environ={"HTTP_PROXY": proxy.url} if proxied else {})
        with pytest.raises(HttpFailure) as caught:
            await client.request("GET", f"http://{host}/latest")
        await client.close()
    assert caught.value.reason == "address" and not proxy.requests


async def test_client__a_proxy_that_fails_is_named_with_its_variable() -> None:
    async def refuses(request: Request, answer: Answer) -> None:
        await answer.send(502 if "down" in request.target else 407, b"")

    async with loopback(refuses) as proxy:
        refused, secret = "http://127.0.0.1:1", "http://me:secret@127.0.0.1:1"
        tried = [
            ("HTTP_PROXY", secret, "http://agent.invalid", "proxy-down", f"{refused} (HTTP_PROXY) can't be"),
            ("all_proxy", "127.0.0.1:1", "https://agent.invalid", "proxy-down", f"{refused} (all_proxy)"),
            ("HTTPS_PROXY", proxy.url, "https://down.invalid", "proxy-down", "(HTTPS_PROXY) answered 502"),
            ("HTTPS_PROXY", proxy.url, "https://agent.invalid", "proxy", "(HTTPS_PROXY) answered 407"),
            ("HTTP_PROXY", "http://me:x/secret@a.invalid:1", "http://agent.invalid", "proxy", "http://a.invalid:1 (H"),
            ("HTTP_PROXY", "ftp://me:secret@a.invalid", "http://agent.invalid", "proxy", "its address is invalid"),
            ("HTTP_PROXY", "http://[::1", "http://agent.invalid", "proxy", "(HTTP_PROXY) can't be used: its address"),
            ("ALL_PROXY", "socks5://a.invalid", "http://agent.invalid", "proxy", "socks5://a.invalid (ALL_PROXY) can"),
        ]
        for variable, address, url, reason, message in tried:
            client = HttpClient(parse_url(url), environ={variable: address})
            with pytest.raises(HttpFailure) as caught:
                await client.request("GET", f"{url}/run")
            await client.close()
            assert caught.value.reason == reason and message in caught.value.message, caught.value.message
            assert "secret" not in caught.value.message


async def test_client__proxy_for_other_hosts_but_not_for_loopback() -> None:
    async with loopback(echo) as proxy, loopback(echo) as own:
        environ = {"http_proxy": proxy.url, "HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "direct.invalid"}
        client = HttpClient(parse_url("http://agent.invalid"), environ=environ, headers=SECRET)
        await client.request("GET", "http://agent.invalid/run")
        await client.request("GET", f"{own.url}/run")
        with pytest.raises(HttpFailure) as caught:
            await client.request("GET", "http://direct.invalid/")
        await client.close()
    assert [request.target for request in proxy.requests] == ["http://agent.invalid/run"]
    assert [request.target for request in own.requests] == ["/run"]
    assert caught.value.reason == "dns"


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
        client = HttpClient(parse_url(url), environ={"SSL_CERT_FILE": str(cert)} if trusted else {})
        if works:
            assert (await client.request("GET", url)).text == "OK"
        else:
            with pytest.raises(HttpFailure) as caught:
                await client.request("GET", url)
            assert caught.value.reason == "tls"
        await client.close()


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


def line(value: Any, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"


RUST = [
    {
        "invocation_id": "i",
        "invocationId": "i",
        "author": "w",
        "partial": False,
        "actions": {"skip_summarization": False},
    }
    | {"long_running_tool_ids": [], "content": {"role": "model", "parts": members}, "timestamp": "2026-08-01T00:00:00Z"}
    for members in (
        [{"thinking": "Hm.", "signature": "x"}, {"name": "look_up", "args": {"city": "Oslo"}, "id": "c1"}],
        [{"function_response": {"name": "look_up", "response": {"degrees": 3}}, "id": "c1"}],
        [{"text": "3 degrees"}],
    )
]
NULLS = {"partial": None, "errorCode": None, "longRunningToolIds": None, "groundingMetadata": None}
CAMEL = [parts({"text": "Hm.", "thought": True}, CALL, **NULLS), parts(RESPONSE), event("3 degrees", **NULLS)]


@pytest.mark.parametrize(
    ("language", "fake"),
    [
        ("python", FakeAdk(turn=says(*CAMEL), version=PYTHON)),
        ("go", FakeAdk(turn=says(*CAMEL), prefix="/api", strict=True)),
        ("typescript", FakeAdk(turn=says(": ping\n\n", *map(line, CAMEL)))),
        ("java", FakeAdk(turn=says(*CAMEL))),
        ("rust", FakeAdk(turn=says(*RUST), prefix="/api")),
    ],
)
async def test_dialects__the_same_turn(language: str, fake: FakeAdk, tmp_path: Path) -> None:
    async with agent_of(fake, tmp_path) as agent:
        invocation = await say(agent, "Oslo?", state={"home": "Bergen"})
        assert agent.provenance.get("language", "") == (language if language == "python" else "")
    assert text_of(invocation.final_response) == "3 degrees"
    [call], [response] = tool_calls(invocation.intermediate_data), tool_responses(invocation.intermediate_data)
    assert (call.id, call.name, call.args) == ("c1", "look_up", {"city": "Oslo"})
    assert (response.id, response.name, response.response) == ("c1", "look_up", {"degrees": 3})
    assert invocation.duration is not None and invocation.model_duration is None and invocation.app_details is None
    [session] = fake.sessions.values()
    assert session["state"] == {"home": "Bergen"} and fake.deleted == ["s1"]


async def test_session__own_user_and_deleted_unless_set_otherwise(tmp_path: Path) -> None:
    fake = FakeAdk(turn=says(event("Hi.")))
    async with agent_of(fake, tmp_path) as agent:
        await say(agent, "hello", "again")
        await say(agent, "hello", user_id="u")
        await say(agent, "hello", user_id="users/123")
    *users, slashed = [session["userId"] for session in fake.sessions.values()]
    assert len(set(users)) == 2 and all(user.startswith("u-") and len(user) == 10 for user in users)
    assert slashed.startswith("users_123-"), "Python's servers answer 404 for a slash, even as %2F"
    fake = FakeAdk(turn=says(event("Hi.")))
    async with agent_of(fake, tmp_path, user_ids="as-given", keep_sessions=True) as agent:
        await say(agent, "hello", user_id="a/b c")
    assert [session["userId"] for session in fake.sessions.values()] == ["a%2Fb%20c"] and not fake.deleted


async def test_turn__partial_and_split_events_and_a_collecting_proxy(tmp_path: Path) -> None:
    picture = event("a picture \ud83d", id="e1", groundingMetadata={"webSearchQueries": ["x"]})
    split = {**picture, "actions": {"artifactDelta": {"x": 1}}}
    split.pop("content")
    events = [event("a", partial=True), picture, split]

    async def collected(request: Request, answer: Answer) -> None:
        await answer.json(events)

    for turn in (says(*events), collected):
        async with agent_of(FakeAdk(turn=turn), tmp_path) as agent:
            invocation = await say(agent, "draw")
        assert "a picture ?" in invocation.model_dump_json(), "half a surrogate pair can't be written"
        [recorded] = invocation.intermediate_data.invocation_events  # type: ignore[union-attr]
        assert recorded.grounding_metadata == {"web_search_queries": ["x"]}


async def test_state__a_server_that_ignores_it_ends_the_run(tmp_path: Path) -> None:
    async with agent_of(FakeAdk(turn=says(event("Hi.")), ignores_state=True), tmp_path) as agent:
        with pytest.raises(AgentRefused, match="`room` of f:c") as caught:
            await say(agent, "hello", state={"room": 1, "temp:x": 2})
        assert caught.value.problem.code == "remote-state-ignored"
        await say(agent, "hello", state={"temp:x": 2, "nothing": None})


async def refusal(fake: FakeAdk, directory: Path, **options: Any) -> Exception:
    with pytest.raises((AgentRefused, AgentFailure)) as caught:
        async with agent_of(fake, directory, **options):
            pass
    return caught.value


def answers(status: int, body: bytes = b"", **headers: str) -> Any:
    async def turn(request: Request, answer: Answer) -> None:
        await answer.send(status, body, **headers)

    return turn


@pytest.mark.parametrize(
    ("fake", "app", "message"),
    [
        (FakeAdk(turn=hang, apps=["a", "b"]), "", "has 2 apps: a, b"),
        (FakeAdk(turn=hang, apps=[]), "", "has 0 apps: none"),
        (FakeAdk(turn=hang, apps=["a", "b"]), "weather", "has no app `weather`. Its apps: a, b"),
        (FakeAdk(turn=hang, apps_answer=answers(404, b"<html>")), "", "does not serve ADK's REST interface: HTTP 404"),
        (FakeAdk(turn=hang, apps_answer=answers(200, b'{"apps": []}')), "", "does not serve ADK's REST interface"),
        (FakeAdk(turn=hang, apps_answer=answers(401, b"no s3cret-token")), "", "refuses access (HTTP 401: no ***)"),
        (FakeAdk(turn=hang, apps_answer=answers(302, location="https://h/")), "", "redirects to https://h/ (HTTP 302)"),
    ],
)
async def test_start__wrong_configuration_ends_the_run(fake: FakeAdk, app: str, message: str, tmp_path: Path) -> None:
    error = await refusal(fake, tmp_path, app=app)
    assert isinstance(error, AgentRefused) and error.problem.code == "remote-agent-refused"
    assert message in error.problem.message


async def test_start__without_secrets_or_with_a_broken_connection_no_agent_has_failed(tmp_path: Path) -> None:
    async def broken(request: Request, answer: Answer) -> None:
        answer.reset()

    for apps_answer, options in ((answers(401), {"secrets_withheld": True}), (broken, {})):
        error = await refusal(FakeAdk(turn=hang, apps_answer=apps_answer), tmp_path, **options)
        assert isinstance(error, AgentFailure) and (error.kind, error.owner) == (FailureKind.SERVER, PROVIDER)
        assert options or "broke off" in error.message


async def test_start__nothing_listens_is_the_agents_failure_and_a_busy_server_is_waited_for(tmp_path: Path) -> None:
    async with loopback(hang) as server:
        pass
    agent = AdkRestAgent(agent_spec(server.url, context(tmp_path)))
    for _ in range(2):
        with pytest.raises(AgentFailure, match="can't be reached: no connection") as caught:
            await agent.start()
        assert (caught.value.kind, caught.value.owner) == (FailureKind.ENVIRONMENT, Owner.AGENT)
    busy = itertools.chain([503, 429, 500], itertools.repeat(200))

    async def starting(request: Request, answer: Answer) -> None:
        await answer.send(next(busy), b'["weather"]', retry_after="0")

    async with agent_of(FakeAdk(turn=says(event("Hi.")), apps_answer=starting), tmp_path) as agent:
        assert text_of((await say(agent, "hello")).final_response) == "Hi."


async def half(request: Request, answer: Answer) -> None:
    await answer.events(event("Let me"), 'data: {"author": "weather", "con')


async def reset(request: Request, answer: Answer) -> None:
    await answer.events(event("Let me"))
    answer.reset()


def error_line(kind: str, message: str, **more: str) -> dict[str, Any]:
    return {"error": f"{kind}: {message}", "error_details": {"error_type": kind, "error_message": message, **more}}


LOCKED = b'{"detail": "database is locked"}'
QUOTA = error_line("_ResourceExhaustedError", "429 RESOURCE_EXHAUSTED")
VALUE = error_line("ValueError", "no such city", stacktrace="Traceback ...")
AGENT, PROVIDER = Owner.AGENT, Owner.PROVIDER


@pytest.mark.parametrize(
    ("turn", "kind", "owner", "message"),
    [
        (answers(429, b"slow down", retry_after="60"), FailureKind.SERVER, PROVIDER, "HTTP 429: slow down, 1 times"),
        (answers(503), FailureKind.SERVER, PROVIDER, "was unavailable: HTTP 503"),
        (answers(500, b"Internal Server Error"), FailureKind.EXCEPTION, AGENT, "HTTP 500: Internal Server Error"),
        (answers(520, b"error code: 520"), FailureKind.SERVER, PROVIDER, "HTTP 520: error code: 520"),
        (answers(500, LOCKED), FailureKind.SERVER, PROVIDER, "was overloaded: HTTP 500: "),
        (says(error_line("OperationalError", "database is locked")), FailureKind.SERVER, PROVIDER, "overloaded: Op"),
        (says({"error": "(sqlite3.OperationalError) database is locked"}), FailureKind.SERVER, PROVIDER, "overloaded"),
        (says({"error": "QueuePool limit of size 5 overflow 10"}), FailureKind.SERVER, PROVIDER, "overloaded"),
        (says(event("a"), VALUE), FailureKind.EXCEPTION, AGENT, "raised ValueError: no such city"),
        (says(QUOTA), FailureKind.PROVIDER, PROVIDER, "model provider failed: "),
        (says(event(errorCode="RESOURCE_EXHAUSTED"), VALUE), FailureKind.PROVIDER, PROVIDER, "no such city"),
        (says({"error": "boom"}), FailureKind.EXCEPTION, AGENT, "reported an error: boom"),
        (says(line({"error": "bang"}, "error")), FailureKind.EXCEPTION, AGENT, "reported an error: bang"),
        (says(line({"error": "UNAVAILABLE"}, "error")), FailureKind.PROVIDER, PROVIDER, "UNAVAILABLE"),
        (says(parts(CALL)), FailureKind.NO_ANSWER, AGENT, "after tool calls, without an answer"),
        (says(parts(CALL), parts(RESPONSE)), FailureKind.NO_ANSWER, AGENT, "after tool calls, without an answer"),
        (half, FailureKind.SERVER, PROVIDER, "in the middle of an event"),
        (reset, FailureKind.SERVER, PROVIDER, "the connection broke"),
        (says(), FailureKind.NO_ANSWER, AGENT, "without a single event"),
        (says("data: hello\n\n"), FailureKind.PROTOCOL, AGENT, "not a JSON object: hello"),
        (says(event(content="x")), FailureKind.PROTOCOL, AGENT, "can't be read"),
        (says("data: [1]\n\n"), FailureKind.PROTOCOL, AGENT, "not a JSON object"),
        (says(event("x", actions="none")), FailureKind.PROTOCOL, AGENT, "the actions of an event are malformed"),
        (says({}), FailureKind.PROTOCOL, AGENT, "neither an author nor content"),
        (answers(200, b'{"detail": "quota"}'), FailureKind.PROTOCOL, AGENT, '{"detail": "quota"}'),
        (answers(200, b"<html>", content_type="text/html"), FailureKind.PROTOCOL, AGENT, "neither events nor a JSON"),
    ],
)  # fmt: skip
async def test_turn__failures(turn: Any, kind: FailureKind, owner: Owner, message: str, tmp_path: Path) -> None:
    async with agent_of(FakeAdk(turn=turn), tmp_path) as agent:
        error = await failure(agent, timeout=0.9 if turn.__qualname__.startswith("answers") else 30)
    assert (error.kind, error.owner) == (kind, owner), error.message
    assert message in error.message
    assert error.traceback == ("Traceback ..." if "no such city" in error.message else None)
    assert error.collateral == ("overloaded" in error.message), "an overloaded server is asked once more"


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
    assert (error.kind, error.owner) == (FailureKind.DEADLINE, AGENT)


@pytest.mark.parametrize(
    "events",
    [
        [event("No.", errorCode="SAFETY")],
        [event("cut", finishReason="MAX_TOKENS", errorCode="MAX_TOKENS")],
        [parts(CALL, longRunningToolIds=["c1"])],
        [parts(CALL), parts(RESPONSE, actions={"skipSummarization": True})],
    ],
)
async def test_turn__what_is_scored_as_it_is(events: list[Any], tmp_path: Path) -> None:
    async with agent_of(FakeAdk(turn=says(*events)), tmp_path) as agent:
        assert (await say(agent, "hello")).final_response is not None


async def test_turn__a_python_server_explains_exceptions_so_calls_may_come_last(tmp_path: Path) -> None:
    async with agent_of(FakeAdk(turn=says(parts(CALL), parts(RESPONSE)), version=PYTHON), tmp_path) as agent:
        invocation = await say(agent, "hello")
        assert agent.provenance["adk"] == "2.13.0"
    assert invocation.final_response is None and len(tool_calls(invocation.intermediate_data)) == 1


async def test_session__refused_after_others_were_created_is_not_the_headers_mistake(tmp_path: Path) -> None:
    fake = FakeAdk(turn=says(event("Hi.")))
    async with agent_of(fake, tmp_path) as agent:
        await say(agent, "hello")
        fake.session_answer = answers(401, b"expired")
        error = await failure(agent)
    assert (error.kind, error.owner) == (FailureKind.SERVER, PROVIDER)
    assert "HTTP 401 when a session was created: expired" in error.message and "have expired" in str(error.hint)

    fake = FakeAdk(turn=says(event("Hi.")), session_answer=answers(401))
    async with agent_of(fake, tmp_path) as agent:
        with pytest.raises(AgentRefused, match=r"refuses access \(HTTP 401\)"):
            await say(agent, "hello")


async def test_session__lost_between_turns(tmp_path: Path) -> None:
    async def forgets(request: Request, answer: Answer) -> None:
        fake.sessions.clear()
        await answer.events(event("Hi."))

    fake = FakeAdk(turn=forgets)
    async with agent_of(fake, tmp_path) as agent:
        error = await failure(agent, "hello", "again")
    assert error.kind is FailureKind.CRASH and "lost the session" in error.message


@pytest.mark.parametrize(
    ("status", "body", "message", "again"),
    [
        (500, b"null", "answered HTTP 500 when a session was created: null", True),
        (500, LOCKED, "overloaded: HTTP 500 when a session was created: ", True),
        (404, b"", "answered HTTP 404 when a session was created", False),
    ],
)
async def test_session__not_created_is_no_failure_of_an_agent_that_was_not_asked(
    status: int, body: bytes, message: str, again: bool, tmp_path: Path
) -> None:
    fake = FakeAdk(turn=hang, session_answer=answers(status, body))
    async with agent_of(fake, tmp_path) as agent:
        error = await failure(agent)
    assert (error.kind, error.owner, error.collateral) == (FailureKind.SERVER, PROVIDER, again)
    assert message in error.message
    async with agent_of(fake, tmp_path, process=Crashed()) as agent:  # a server of the repository
        error = await failure(agent)
    assert error.owner is (PROVIDER if body == LOCKED else AGENT)


class Crashed:
    def log_tail(self) -> str:
        return "panic: out of memory"

    def ended(self) -> str:
        return "exited with code 2"

    async def settle(self) -> None:
        pass


@pytest.mark.parametrize("turn", [half, reset])
async def test_turn__a_server_of_the_gate_that_breaks_off_has_crashed(turn: Any, tmp_path: Path) -> None:
    fake = FakeAdk(turn=turn)
    async with agent_of(fake, tmp_path, process=Crashed(), headers={"X-Token": "s3cret-token"}) as agent:
        error = await failure(agent)
    assert (error.kind, error.owner, error.collateral) == (FailureKind.CRASH, AGENT, True)
    assert "exited with code 2" in error.message and error.log_tail == "panic: out of memory"
