"""The openai package against a server with its API on a real socket."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from models_support import GOOD, QUICK, SCHEMA, ask, completion, failure_of, quick
from upload_server import Received, Reply, UploadServer, upload_server

from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelRequest, ModelUsage

MODEL = "openai/judge-1"
PAGE = {"Content-Type": "text/html"}


def environ(server: UploadServer, **more: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "a-key", **more}


async def test_openai__sends_the_question_and_reads_the_answer() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    with upload_server(lambda _: completion(GOOD, usage=usage, reasoning_content="no, or is it?")) as server:
        async with open_models(QUICK, environ(server), models=[MODEL]) as pool:
            config = {"temperature": 0.2, "max_output_tokens": 99, "stop_sequences": ["END"], "top_k": 3}
            reply = await pool.generate(ask(model=MODEL, system="Be fair.", config=config))
    assert (reply.value, reply.text, reply.model_version) == (
        {"verdict": "yes", "why": "because"},
        GOOD,
        "served-model-1",
    )
    assert reply.usage == ModelUsage(input_tokens=100, output_tokens=10, cached_tokens=40, thought_tokens=20)
    (call,) = server.received
    assert (call.path, call.headers["authorization"]) == ("/v1/chat/completions", "Bearer a-key")
    assert call.json == {
        "model": "judge-1",
        "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Is it?"}],
        "temperature": 0.2,
        "max_tokens": 99,  # OpenAI's own service calls it max_completion_tokens
        "stop": ["END"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}},
    }


async def test_openai__text_and_no_usage() -> None:
    with upload_server(lambda _: completion("Hello \U0001f44b")) as server:
        async with open_models(QUICK, environ(server), models=[MODEL]) as pool:
            reply = await pool.generate(ModelRequest(model=MODEL, prompt="Hi \ud800"))
    assert (reply.text, reply.value, reply.usage) == ("Hello \U0001f44b", None, ModelUsage())
    assert "response_format" not in server.received[0].json
    (entry,) = pool.ledger.entries()
    assert (entry.cost, entry.unpriced_calls, entry.usage.input_tokens) == (None, 1, None)


@pytest.mark.parametrize(
    ("reply", "kind", "words", "calls"),
    [
        (completion(GOOD, finish="content_filter"), "refused", "content filter", 1),
        (completion(None, refusal="I can't judge that"), "refused", "I can't judge that", 1),
        (completion(GOOD[:9], finish="length"), "malformed", "length", 2),
        (completion(None), "malformed", "empty", 2),
        (Reply(status=400, body={"error": {"code": "content_filter", "message": "violence"}}), "refused", "viol", 1),
        (Reply(status=400, body={"error": {"message": "no such field"}}), "invalid-request", "no such field", 1),
        (Reply(status=401, body={"error": {"message": "bad key"}}), "invalid-request", "bad key", 1),
        (Reply(status=503, body=b"<html>sorry</html>", headers=PAGE), "unavailable", "503", 6),
        (Reply(body=b"<html>a proxy's page</html>", headers=PAGE), "unavailable", "could not be parsed", 6),
        (None, "unavailable", "connection", 6),
    ],
)
async def test_openai__no_reply(reply: Reply | None, kind: str, words: str, calls: int) -> None:
    with upload_server(lambda _: reply) as server:
        async with open_models(QUICK, environ(server), models=[MODEL]) as pool:
            failure = await failure_of(pool, ask(model=MODEL))
    assert (failure.kind, words in failure.message) == (kind, True), failure.message
    assert len(server.received) == pool.meter.spent.calls == calls


async def test_openai__masks_a_quoted_key() -> None:
    refusal = Reply(status=401, body={"error": {"message": "Incorrect API key provided: sk-secret-123."}})
    with upload_server(lambda _: refusal) as server:
        async with open_models(QUICK, environ(server, OPENAI_API_KEY="sk-secret-123"), models=[MODEL]) as pool:
            first = await failure_of(pool, ask(model=MODEL))
            second = await failure_of(pool, ask(model=MODEL))
    assert "sk-secret" not in first.message + second.message
    assert "***" in first.message and "***" in second.message


async def test_openai__retries_and_obeys_retry_after() -> None:
    replies = iter([Reply(status=429, body={}, headers={"Retry-After-Ms": "300"}), Reply(status=500, body={})])
    with upload_server(lambda _: next(replies, completion(GOOD))) as server:
        async with open_models(QUICK, environ(server), models=[MODEL]) as pool:
            started = time.monotonic()
            reply = await pool.generate(ask(model=MODEL))
    assert (reply.calls, len(server.received), pool.meter.spent.calls) == (3, 3, 3)
    assert 0.3 <= time.monotonic() - started < 20


async def test_openai__times_out_on_a_hang() -> None:
    def slow(_: Received) -> Reply:
        time.sleep(1)
        return completion(GOOD)

    with upload_server(slow) as server:
        settings = quick(attempt_timeout=0.2, call_timeout=0.6)
        async with open_models(settings, environ(server), models=[MODEL]) as pool:
            failure = await failure_of(pool, ask(model=MODEL))
    assert failure.kind == "deadline"


@pytest.mark.parametrize(
    ("model", "variables", "path", "headers"),
    [
        ("ollama_chat/llama3:8b", {"OLLAMA_API_BASE": ""}, "/v1/chat/completions", {}),
        ("openai/m", {"OPENAI_BASE_URL": "/gateway/v1"}, "/gateway/v1/chat/completions", {}),
        (
            "azure/judge",
            {"AZURE_API_BASE": "", "AZURE_API_KEY": "=az"},
            "/openai/v1/chat/completions",
            {"authorization": "Bearer az"},
        ),
        (
            "azure/judge",
            {"AZURE_API_BASE": "", "AZURE_API_KEY": "=az", "AZURE_API_VERSION": "=2025-01-01"},
            "/openai/deployments/judge/chat/completions?api-version=2025-01-01",
            {"api-key": "az"},
        ),
    ],
)
async def test_openai__other_servers(model: str, variables: dict[str, str], path: str, headers: dict[str, str]) -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        values = {name: value[1:] if value[:1] == "=" else server.url + value for name, value in variables.items()}
        async with open_models(QUICK, values, models=[model]) as pool:
            reply = await pool.generate(ask(model=model))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (call,) = server.received
    assert call.path == path
    assert headers.items() <= call.headers.items()
    assert call.json["model"] == model.partition("/")[2]


async def test_openai__schema_in_the_prompt() -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        settings = quick(judge_model="deepseek/chat", api_key="k", base_url=f"{server.url}/v1")
        async with open_models(settings, {}, models=["deepseek/chat"]) as pool:
            await pool.generate(ask(model="deepseek/chat"))
    body: dict[str, Any] = server.received[0].json
    assert body["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA) in body["messages"][0]["content"]


async def test_pool__sends_each_key_to_its_provider_only() -> None:
    """Two providers: the input key is for the provider of judge-model; the other uses its own."""
    with upload_server(lambda _: completion(GOOD)) as item, upload_server(lambda _: completion(GOOD)) as two:
        settings = quick(judge_model=MODEL, api_key="judge-key", base_url=f"{item.url}/v1")
        variables = {"HOSTED_VLLM_API_BASE": f"{two.url}/v1", "HOSTED_VLLM_API_KEY": "vllm-key"}
        async with open_models(settings, variables, models=[MODEL, "hosted_vllm/m"]) as pool:
            assert await pool.prepare() == []
            await asyncio.gather(pool.generate(ask(model=MODEL)), pool.generate(ask(model="hosted_vllm/m")))
    assert item.received[0].headers["authorization"] == "Bearer judge-key"
    assert two.received[0].headers["authorization"] == "Bearer vllm-key"
