"""Any answer of a provider is a reply or a failure of that call, never another exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from models_fake_openai import FakeOpenAI, Reply, completion
from models_support import GOOD, ask, quick

from agent_eval.models.pool import ModelPool, open_models
from agent_eval.models.protocol import ModelFailure
from agent_eval.net.retry import Retry

ONCE = quick(retry=Retry(attempts=1))
DEEP = "[" * 100_000
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": GOOD}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "gemini-2.5-flash",
}
OPENAI: dict[str, Any] = completion(
    GOOD, usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "completion_tokens_details": None}
).body


def _with(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


ODD_GEMINI = [
    b"3",
    b"null",
    b"[]",
    DEEP.encode(),
    b'{"candidates": NaN}',
    b'{"candidates": [null]}',
    b"\xff\xfe",
    json.dumps(_with(GEMINI, ("candidates", 0, "finishReason"), 7)).encode(),
    json.dumps(_with(GEMINI, ("candidates", 0, "content", "parts", 0, "text"), DEEP)).encode(),
    json.dumps(_with(GEMINI, ("candidates", 0, "content", "parts"), "text")).encode(),
    json.dumps(_with(GEMINI, ("usageMetadata",), "many")).encode(),
    json.dumps(_with(GEMINI, ("usageMetadata", "promptTokenCount"), "many")).encode(),
]
ODD_OPENAI = [
    b"3",
    b"null",
    DEEP.encode(),
    b"\xff\xfe",
    *(
        json.dumps(_with(OPENAI, path, value)).encode()
        for path, value in [
            (("choices",), [None]),
            (("choices",), [{}]),
            (("choices",), 7),
            (("choices", 0, "message"), None),
            (("choices", 0, "message", "content"), 7),
            (("choices", 0, "message", "content"), [7]),
            (("choices", 0, "message", "content"), [{"type": "text"}]),
            (("choices", 0, "message", "content"), DEEP),
            (("choices", 0, "message", "refusal"), {"why": "no"}),
        ]
    ),
]


def _pool(server: FakeOpenAI, model: str) -> Any:
    environ = {
        "GOOGLE_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": server.root,
        "OPENAI_BASE_URL": f"{server.root}/v1",
        "OPENAI_API_KEY": "a-key",
    }
    return open_models(ONCE, environ, models=[model])


async def _outcome(body: bytes, model: str, *, status: int = 200, headers: dict[str, str] | None = None) -> str:
    reply = Reply(status=status, body=body, headers={"Content-Type": "application/json", **(headers or {})})
    with FakeOpenAI(lambda _: reply) as server:
        async with _pool(server, model) as pool:
            try:
                answered = await pool.generate(ask(model=model))
            except ModelFailure as failure:
                assert len(failure.message) < 600
                return failure.kind
    assert answered.value == json.loads(GOOD)
    return "answered"


@pytest.mark.parametrize("body", ODD_GEMINI, ids=range(len(ODD_GEMINI)))
async def test_gemini__an_odd_reply_is_a_failure_of_the_call(body: bytes) -> None:
    assert await _outcome(body, "gemini-2.5-flash") in {"unavailable", "malformed"}


@pytest.mark.parametrize("body", ODD_OPENAI, ids=range(len(ODD_OPENAI)))
async def test_openai__an_odd_reply_is_a_failure_of_the_call(body: bytes) -> None:
    assert await _outcome(body, "openai/judge-1") in {"unavailable", "malformed"}


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "openai/judge-1"])
async def test_odd_reply__broken_encoding(model: str) -> None:
    assert await _outcome(b"no gzip", model, headers={"Content-Encoding": "gzip"}) == "unavailable"


@pytest.mark.parametrize("code", [["a"], {"b": 1}, None, 7])
async def test_openai__an_odd_error_body_is_a_failure_of_the_call(code: Any) -> None:
    body = json.dumps({"error": {"code": code, "message": [1, 2]}}).encode()
    assert await _outcome(body, "openai/judge-1", status=400) == "invalid-request"


def _places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in items:
        yield from _places(value, (*path, name))


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "openai/judge-1"])
async def test_odd_reply__any_value_in_any_field(model: str) -> None:
    document = GEMINI if model.startswith("gemini") else OPENAI
    chance = random.Random(7)
    values: list[Any] = [None, 0, -1, 1e308, True, "", "text", [], [None], {}, {"a": []}]
    bodies = [
        json.dumps(_with(document, path, value)).encode()
        for path in _places(document)
        for value in chance.sample(values, 1)
    ]
    with FakeOpenAI(lambda _: Reply(body=bodies[-1], headers={"Content-Type": "application/json"})) as server:
        while bodies:
            async with _pool(server, model) as pool:
                await _answered_or_failed(pool, model)
            bodies.pop()


async def _answered_or_failed(pool: ModelPool, model: str) -> None:
    try:
        await pool.generate(ask(model=model))
    except ModelFailure as failure:
        assert failure.kind in {"unavailable", "malformed", "refused"}, failure.message


async def test_openai__reads_mistrals_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "no?"}]}, {"type": "text", "text": GOOD}]
    with FakeOpenAI(lambda _: Reply(body=_with(OPENAI, ("choices", 0, "message", "content"), parts))) as server:
        async with _pool(server, "openai/judge-1") as pool:
            reply = await pool.generate(ask(model="openai/judge-1"))
    assert reply.value == json.loads(GOOD)


@pytest.mark.parametrize("count", [-1_000_000, 10**30, "many"])
async def test_openai__ignores_implausible_usage(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 1}
    with FakeOpenAI(lambda _: completion(GOOD, usage=usage)) as server:
        async with _pool(server, "openai/judge-1") as pool:
            await pool.generate(ask(model="openai/judge-1"))
    (entry,) = pool.ledger.entries()
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (None, None)
    assert 0 < pool.meter.spent.tokens < 10_000
