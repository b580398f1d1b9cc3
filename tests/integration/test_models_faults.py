"""Faults between agent-eval and a model, on real sockets: retries, waits, counts, deadlines, the cache, quoted keys."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_gemini import Answer, BadRequest, FakeGemini, Fault, GenerateRequest, check_body
from golden_files import check
from models_support import GOOD, MODEL, QUICK, ask, completion, failure_of, good, pool_at, quick, told
from upload_server import Received, Reply, upload_server

from agent_eval_scoring.models.cache import key_of
from agent_eval_scoring.models.pool import open_models
from agent_eval_scoring.models.protocol import ModelFailure, ModelRequest, Replies, TapedReply
from agent_eval_scoring.models.settings import Budget, ModelSettings
from agent_eval_scoring.net.retry import Retry
from agent_eval_workbench.exports.client import Client, UploadError

# Faults between agent-eval and a model, on real sockets: retries, waits, counts and deadlines.


DOWN = Fault(kind=503, message="overloaded")


async def votes(pool: Any, count: int) -> Counter[str]:
    """Sends `count` requests concurrently and counts the outcomes."""

    async def vote(sample: int) -> str:
        try:
            reply = await pool.generate(ask(sample=sample, case_id=f"case-{sample % 10}", purpose="p"))
        except ModelFailure as failure:
            return failure.kind
        assert isinstance(reply.value, dict)
        return str(reply.value["verdict"])

    return Counter(await asyncio.gather(*(vote(sample) for sample in range(count))))


@pytest.mark.parametrize("kind", [408, 429, 500, 502, 503, 504, "reset", "garbage"])
async def test_faults__are_retried(kind: Any) -> None:
    with FakeGemini(good, faults=[Fault(kind=kind)] * 2) as server:
        async with pool_at(server) as pool:
            reply = await pool.generate(ask())
    assert (reply.calls, server.stats.requests) == (3, 3)
    assert pool.meter.spent.calls == 3


@pytest.mark.parametrize(
    ("fault", "least"), [(Fault(kind=429, retry_after=1), 1.0), (Fault(kind=429, retry_info=0.6), 0.6)]
)
async def test_faults__the_delay_of_a_header_or_of_geminis_error_is_obeyed(fault: Fault, least: float) -> None:
    with FakeGemini(good, faults=[fault]) as server:
        async with pool_at(server) as pool:
            started = time.monotonic()
            await pool.generate(ask())
    assert least <= time.monotonic() - started < 20


async def test_faults__one_cause_is_one_message() -> None:
    """Reports group by message."""
    last = Fault(kind=503, retry_after=3600)
    with FakeGemini(good, faults=[last, Fault(kind=503), last]) as server:
        async with pool_at(server) as pool:
            failures = [await failure_of(pool, ask(sample=number)) for number in range(2)]
    assert [failure.calls for failure in failures] == [1, 2]
    assert len({failure.message for failure in failures}) == 1


async def test_faults__an_exhausted_quota_stops_all_calls() -> None:
    """After a long Retry-After no other call is sent; calls without enough time fail at once."""
    with FakeGemini(good, faults=[Fault(kind=429, retry_after=3600)] * 50) as server:
        async with pool_at(server) as pool:
            assert await votes(pool, 200) == {"unavailable": 200}
    assert server.stats.requests <= 16, "only those in flight when the first was throttled"


async def test_faults__a_server_that_is_not_there() -> None:
    with FakeGemini(good) as server:
        pass
    async with pool_at(server, quick(retry=Retry(attempts=2, first=0.01))) as pool:
        failure = await failure_of(pool, ask())
    assert (failure.kind, failure.calls) == ("unavailable", 2)
    assert f"` at {server.url}: no connection" in failure.message


async def test_faults__a_proxy_with_an_invalid_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:x/secret@127.0.0.1:1")
    with FakeGemini(good) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
    assert (failure.kind, failure.calls) == ("invalid-request", 0)
    assert "a proxy that the job's variables name is invalid" in failure.message and "secret" not in str(failure)


async def test_throttling__lowers_and_restores_concurrency() -> None:
    busy = itertools.count()

    def script(_: GenerateRequest) -> Answer | Fault:
        return Fault(kind=429, retry_after=0) if next(busy) < 16 else Answer.text(GOOD)

    with FakeGemini(script, latency=0.01) as server:
        async with pool_at(server) as pool:
            asking = asyncio.create_task(votes(pool, 400))
            async with asyncio.timeout(20):
                while (pool.concurrency(MODEL) or 99) > 9:
                    await asyncio.sleep(0.005)
            assert await asking == {"yes": 400}
            assert 1 <= (pool.concurrency(MODEL) or 0) <= 9, "half of those that were refused at once were too many"
    assert server.stats.peak_in_flight <= 16


async def test_deadline__of_a_call() -> None:
    with FakeGemini(lambda _: Fault(kind="hang")) as server:
        async with pool_at(server, quick(attempt_timeout=0.2, call_timeout=0.7)) as pool:
            started = time.monotonic()
            failure = await failure_of(pool, ask())
            took = time.monotonic() - started
    assert failure.kind == "deadline"
    assert 0.4 < took < 20
    assert server.stats.requests > 1, "an attempt that times out is repeated"


async def test_deadline__of_the_run_ends_waiting_calls() -> None:
    with FakeGemini(lambda _: Fault(kind="hang")) as server:
        settings = quick(attempt_timeout=30, call_timeout=60, concurrency=2)
        started = time.monotonic()
        async with pool_at(server, settings, until=started + 1.5) as pool:
            assert await votes(pool, 20) == {"deadline": 20}
            assert time.monotonic() - started < 20
    assert server.stats.requests == 2


async def test_outage__is_detected_once_and_ends_all_calls() -> None:
    with FakeGemini(lambda _: DOWN) as server:
        settings = quick(retry=Retry(attempts=3, first=0.01), outage=0.05, concurrency=4)
        async with pool_at(server, settings) as pool:
            assert await votes(pool, 300) == {"unavailable": 300}
            failures = {(await failure_of(pool, ask(sample=sample))).message for sample in range(5)}
    assert len(failures) == 1
    assert "is down" in failures.pop()
    assert server.stats.requests < 300, "fewer than one per request"


async def test_budget__calls_are_exact_with_retries_and_many_in_flight() -> None:
    numbers = itertools.count()

    def script(_: GenerateRequest) -> Answer | Fault:
        # The first ones are answered: when the budget is used up, most of what is known so far must not be failures.
        return DOWN if next(numbers) in {6, 9, 12, 15, 18} else Answer.text(GOOD)

    with FakeGemini(script, latency=0.01) as server:
        async with pool_at(server, quick(budget=Budget(max_calls=20))) as pool:
            counts = await votes(pool, 100)
            failure = await failure_of(pool, ask())
    assert server.stats.requests == 20
    assert counts["yes"] + counts["budget"] == 100
    assert 5 <= counts["yes"] <= 20
    assert failure.kind == "budget"
    assert f"` at {server.url}: the provider answered 503" in failure.message
    assert failure.message.endswith("The budget of 20 judge calls is used up. Failed calls count.")


@pytest.mark.parametrize(
    ("budget", "thoughts", "answered"),
    [
        (Budget(max_tokens=3000), 0, {29, 30}),
        (Budget(max_cost=3000 * 2.5 / 1e6), 0, {29, 30}),
        # Thinking models: 4,000 tokens per answer, 500 estimated, 16 slots. The budget was overrun 3.7 times.
        (Budget(max_tokens=20_000), 3_920, {4}),
    ],
)
async def test_budget__tokens_and_cost_hold_with_many_in_flight(
    budget: Budget, thoughts: int, answered: set[int]
) -> None:
    usage = {"candidatesTokenCount": 100, "thoughtsTokenCount": thoughts, "totalTokenCount": 100 + thoughts}
    with FakeGemini(lambda _: Answer(parts=[{"text": GOOD}], usage=usage), latency=0.01) as server:
        async with pool_at(server, quick(budget=budget)) as pool:
            counts = await votes(pool, 100)
    assert counts["yes"] in answered
    assert counts["yes"] + counts["budget"] == 100
    assert pool.meter.spent.tokens <= (budget.max_tokens or 3000)


async def test_cancelling__leaves_the_pool_usable() -> None:
    with FakeGemini(good, faults=[Fault(kind="hang")]) as server:
        async with pool_at(server, quick(budget=Budget(max_tokens=100_000))) as pool:
            asking = asyncio.create_task(votes(pool, 100))
            while server.stats.requests < 1:  # The first call runs alone, since its cost is unknown.
                await asyncio.sleep(0.005)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await votes(pool, 50) == {"yes": 50}


# Cached and replayed replies, through the whole pool.


async def test_cache__what_is_kept_and_what_is_asked_again(tmp_path: Path) -> None:
    said = []
    other = GOOD.replace("yes", "no")

    async def asked(situation: str, server: FakeGemini, *requests: ModelRequest, **settings: Any) -> None:
        before = server.stats.requests
        async with pool_at(server, quick(**{"cache": tmp_path, **settings})) as pool:
            text = await told(pool, *requests)
        said.append(f"{situation}\n    {text}; {server.stats.requests - before} requests\n")

    mine = ask(case_id="a", purpose="p")
    with FakeGemini(lambda _: Answer.text("prose")) as prose, FakeGemini(good, faults=[Fault(kind=503)]) as down:
        await asked("no failure is kept", prose, ask())
        await asked("no failure is kept", down, ask(), retry=Retry(attempts=1))
        assert not list(tmp_path.rglob("*.json"))
    with FakeGemini(good) as server, FakeGemini(lambda _: Answer.text(other)) as second:
        await asked("the same question, another sample, another run", server, mine, mine, ask(sample=1), ask(run=1))
        await asked("later, without money", server, ask(), ask(sample=7), budget=Budget(max_calls=0))
        await asked("without a cache", server, ask(), cache=None)
        await asked("another server", second, ask())
        for file in tmp_path.rglob("*.json"):
            assert b"a-key" not in file.read_bytes() and b"Is it?" not in file.read_bytes(), "no secrets"
            file.write_text(file.read_text("utf-8").replace('"yes', '"maybe').replace('\\"yes', '\\"maybe'), "utf-8")
        await asked("replies that no longer fit", server, ask(), ask())
    async with open_models(ModelSettings(offline=True, cache=tmp_path), {}, models=[MODEL]) as pool:
        assert await pool.prepare() == []
        missing = ask(sample=3, run=1, case_id="f:x", purpose="safety_v1")
        said.append(f"a replay, without a key\n    {await told(pool, ask(), missing)}\n")
        for text in ("", "{", "[" * 100_000, '{"verdict": "maybe", "why": "x"}', "::error::x"):
            request = ask("Taped?", replies=Replies(taped={key_of(ask("Taped?")): TapedReply(text=text)}))
            assert (await failure_of(pool, request)).kind == "malformed", "a tape has no reply that fits"
    check("golden_model_cache.txt", re.sub(r"http://127[\d.:]+\d", "URL", "".join(said)))


@pytest.mark.parametrize("offline", [False, True])
async def test_tape__answers_what_it_was_given_in_any_run_and_costs_nothing(offline: bool) -> None:
    taped: dict[str, TapedReply] = {}
    says = [Answer.text(""), Answer.text(""), Answer(parts=[], finish_reason="SAFETY"), Answer.text("Bye")]
    asked = [ask(sample=1, run=2), ask("A user?", schema=None, run=2), ask("Refused?", run=2), ask("Hi", schema=None)]
    with FakeGemini(lambda request: good(request) if "Is it" in request.user_texts[-1] else says.pop(0)) as server:
        async with pool_at(server, quick()) as pool:
            for request in asked:
                with suppress(ModelFailure):
                    await pool.generate(replace(request, replies=Replies(given=taped)))
        requests = server.stats.requests
        settings = quick(offline=offline, budget=Budget(max_calls=0))
        async with pool_at(server, settings) as pool:
            replies = Replies(taped=taped, only=True)
            again = [replace(request, run=0, replies=replies) for request in asked]
            first = await pool.generate(again[0])
            assert (first.value, first.cached, first.calls) == ({"verdict": "yes", "why": "because"}, True, 0)
            assert (await pool.generate(again[3])).text == "Bye"
            assert [(await failure_of(pool, request)).kind for request in again[1:3]] == ["malformed", "refused"]
            missed = await failure_of(pool, replace(again[0], sample=2))
            assert missed.kind == "replay-miss"
        assert server.stats.requests == requests


async def test_prepare__does_not_wait_for_clients_with_a_key() -> None:
    with FakeGemini(good) as server:
        async with pool_at(server) as pool:
            assert await pool.prepare() == []
            assert pool.concurrency(MODEL) is None, "it is still opening"
            assert (await pool.generate(ask())).value == {"verdict": "yes", "why": "because"}
        async with pool_at(server) as pool:
            await pool.prepare()
    assert server.stats.requests == 1


# Services that quote the key of a request in what they answer, at every place of a long message.


LONG_KEY = "sk-live-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
JUDGE = "openai/judge-1"
OFFSETS = range(0, 420, 3)


def quoted(offset: int) -> str:
    """A message with the key behind `offset` characters."""
    return "=" * offset + LONG_KEY + "#" * 300


def leaked(text: str) -> list[str]:
    """Parts of the key in a text, of six characters."""
    parts = {LONG_KEY[start : start + 6] for start in range(len(LONG_KEY) - 5)}
    return sorted(part for part in parts if part in text)


@pytest.mark.parametrize("kind", ["error", "refusal", "gemini"])
async def test_judges__a_quoted_key_is_masked_wherever_it_is(kind: str) -> None:
    def script(call: Received) -> Reply:
        text = quoted(int(re.findall(rb"offset (\d+)", call.body)[0]))
        if kind == "refusal":
            return completion(None, refusal=text)
        return Reply(status=400, body={"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": text}})

    model = MODEL if kind == "gemini" else JUDGE
    with upload_server(script) as server:
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": LONG_KEY}
        environ |= {"GOOGLE_API_KEY": LONG_KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
        async with open_models(QUICK, environ, models=[model]) as pool:
            asking = (failure_of(pool, ask(f"offset {offset}", model=model)) for offset in OFFSETS)
            failures = dict(zip(OFFSETS, await asyncio.gather(*asking), strict=True))
    assert {(offset, part) for offset, failure in failures.items() for part in leaked(failure.message)} == set()
    assert all("=" * min(offset, 9) in failure.message for offset, failure in failures.items())


async def test_openai__a_key_in_an_answer_is_masked() -> None:
    with upload_server(lambda _: completion(quoted(200))) as server:
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": LONG_KEY}
        async with open_models(QUICK, environ, models=[JUDGE]) as pool:
            reply = await pool.generate(ask(model=JUDGE, schema=None))
    assert (leaked(reply.text), "***" in reply.text) == ([], True)


def test_uploads__a_quoted_token_is_masked_wherever_it_is() -> None:
    # Longer than what is read of an error, too: the end of what was read may be half a token.
    offsets = itertools.chain(OFFSETS, range(99_900, 100_001, 7))
    bodies = [json.dumps({"message": quoted(offset)}).encode() for offset in offsets]
    answers = iter(bodies)
    with upload_server(lambda _: Reply(status=400, body=next(answers))) as server:
        client = Client({"Authorization": f"Bearer {LONG_KEY}"})
        for body in bodies:
            with pytest.raises(UploadError) as raised:
                client.post(server.url, {})
            assert leaked(str(raised.value)) == [], body[:400]
            assert "HTTP 400: {" in str(raised.value)
        client.close()


# The Gemini on loopback: what it refuses, what it serves, how it fails, how much it bears.


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def calls(*names: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def responses(*names: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"of": name}}} for name in names]}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "no object"),
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": [user("hi")], "model": "x"}, 'Unknown name "model"'),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "text": "x"}]}, "is no Content"),
        ({"contents": [{"role": "user", "parts": [{"text": "a", "functionCall": {"name": "f"}}]}]}, "oneof field"),
        ({"contents": [user("a"), calls("f"), user("b")]}, "number of function response parts"),
        ({"contents": [user("a"), calls("f", "g"), responses("f")]}, "number of function response parts"),
        ({"contents": [user("a"), calls("f")]}, "comes immediately after a function call turn"),
        ({"contents": [calls("f"), responses("f")]}, "immediately after a user turn"),
        ({"contents": [user("a")], "tools": [{"functionDeclarations": [{"name": "no spaces"}]}]}, "function name"),
        ({"contents": [user("a")], "systemInstruction": {"parts": []}}, "systemInstruction.parts"),
    ],
)
def test_fake_gemini__a_body_that_gemini_would_refuse(body: object, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        check_body(body)


def test_fake_gemini__a_port_that_is_taken_is_an_error_in_the_callers_thread() -> None:
    with FakeGemini(good) as server, pytest.raises(OSError, match="in use"), FakeGemini(good, port=server.port):
        pass
