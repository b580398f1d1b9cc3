"""Any answer of a provider is a reply or a failure of that call, never another exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from models_support import GOOD, ask, completion, quick
from upload_server import Reply, UploadServer, upload_server

from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelFailure
from agent_eval.net.retry import Retry

ONCE = quick(retry=Retry(attempts=1))
DEEP = "[" * 100_000
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": GOOD}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "gemini-2.5-flash",
}
OPENAI: Any = completion(
    GOOD, usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "completion_tokens_details": None}
).body


def _with(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def _pool(server: UploadServer, model: str) -> Any:
    environ = {
        "GOOGLE_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": "a-key",
    }
    return open_models(ONCE, environ, models=[model])


ODD_BODIES = [
    *(b"3", b"null", b"[]", DEEP.encode(), b"\xff\xfe", b'{"candidates": NaN}', b'{"choices": NaN}'),
    json.dumps(_with(GEMINI, ("candidates", 0, "content", "parts", 0, "text"), DEEP)).encode(),
    json.dumps(_with(OPENAI, ("choices", 0, "message", "content"), DEEP)).encode(),
]
MODELS = pytest.mark.parametrize("model", ["gemini-2.5-flash", "openai/judge-1"])


async def _outcome(body: bytes, model: str, *, status: int = 200, headers: dict[str, str] | None = None) -> str:
    reply = Reply(status=status, body=body, headers=headers or {})
    with upload_server(lambda _: reply) as server:
        async with _pool(server, model) as pool:
            try:
                answered = await pool.generate(ask(model=model))
            except ModelFailure as failure:
                assert len(failure.message) < 600
                assert status != 200 or failure.kind in {"unavailable", "malformed", "refused"}
                return failure.kind
    assert answered.value == json.loads(GOOD)
    return "answered"


@MODELS
@pytest.mark.parametrize("body", ODD_BODIES, ids=range(len(ODD_BODIES)))
async def test_odd_reply__is_a_failure_of_the_call(body: bytes, model: str) -> None:
    assert await _outcome(body, model) in {"unavailable", "malformed"}


@MODELS
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


@MODELS
async def test_odd_reply__any_value_in_any_field(model: str) -> None:
    document = GEMINI if model.startswith("gemini") else OPENAI
    chance = random.Random(7)
    values: list[Any] = [None, 0, -1, 1e308, True, "", "text", [], [None], [7], {}, {"a": []}, [{"type": "text"}]]
    for path in _places(document):
        for value in chance.sample(values, 2):
            await _outcome(json.dumps(_with(document, path, value)).encode(), model)


async def test_openai__reads_mistrals_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "no?"}]}, {"type": "text", "text": GOOD}]
    with upload_server(lambda _: Reply(body=_with(OPENAI, ("choices", 0, "message", "content"), parts))) as server:
        async with _pool(server, "openai/judge-1") as pool:
            reply = await pool.generate(ask(model="openai/judge-1"))
    assert reply.value == json.loads(GOOD)


@pytest.mark.parametrize("count", [-1_000_000, 10**30, "many"])
async def test_openai__ignores_implausible_usage(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 1}
    with upload_server(lambda _: completion(GOOD, usage=usage)) as server:
        async with _pool(server, "openai/judge-1") as pool:
            await pool.generate(ask(model="openai/judge-1"))
    (entry,) = pool.ledger.entries()
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (None, None)
    assert 0 < pool.meter.spent.tokens < 10_000
