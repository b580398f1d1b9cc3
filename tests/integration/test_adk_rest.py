"""Agents behind ADK's REST interface: the dialects of its servers, and each row of the table of failures."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from adk_harness import failure, say
from fake_adk import CALL, RESPONSE, FakeAdk, agent_of, agent_spec, context, event, hang, parts
from loopback import Answer, Request, loopback

from agent_eval.agents.adk_rest.agent import AdkRestAgent
from agent_eval.agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval.core.content import text_of
from agent_eval.core.invocation import tool_calls, tool_responses

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
