"""Shared helpers of the models tests: fast settings, requests, a pool that calls a Gemini server on loopback."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fake_gemini import Answer, FakeGemini, GenerateRequest
from upload_server import Reply

from agent_eval_scoring.models.pool import ModelPool, open_models
from agent_eval_scoring.models.protocol import ModelFailure, ModelReply, ModelRequest
from agent_eval_scoring.models.settings import ModelSettings
from agent_eval_scoring.net.retry import Retry

MODEL = "gemini-2.5-flash"
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}, "why": {"type": "string"}},
    "required": ["verdict", "why"],
    "additionalProperties": False,
}
GOOD = '{"verdict": "yes", "why": "because"}'
QUICK = ModelSettings(retry=Retry(first=0.01, longest=0.05), attempt_timeout=5.0, call_timeout=10.0)


def completion(text: str | None, *, finish: str = "stop", usage: Any = None, **message: Any) -> Reply:
    """A chat completion of one choice, as OpenAI answers."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": "served-model-1", "choices": [choice]}
    return Reply(body=body if usage is None else {**body, "usage": usage})


def quick(**changes: Any) -> ModelSettings:
    """Settings with short backoffs."""
    return dataclasses.replace(QUICK, **changes)


def ask(prompt: str = "Is it?", **fields: Any) -> ModelRequest:
    """A request with the usual schema."""
    return ModelRequest(**{"model": MODEL, "prompt": prompt, "schema": SCHEMA, **fields})


def good(_: GenerateRequest) -> Answer:
    return Answer.text(GOOD)


@asynccontextmanager
async def pool_at(
    server: FakeGemini, settings: ModelSettings = QUICK, *, until: float | None = None
) -> AsyncIterator[ModelPool]:
    """A pool that calls the server."""
    environ = {"GOOGLE_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": server.url}
    async with open_models(settings, environ, models=[MODEL], until=until) as pool:
        yield pool


async def failure_of(pool: ModelPool, request: ModelRequest) -> ModelFailure:
    """The failure of a request."""
    try:
        reply: ModelReply = await pool.generate(request)
    except ModelFailure as failure:
        return failure
    raise AssertionError(f"answered: {reply}")


async def told(pool: ModelPool, *requests: ModelRequest) -> str:
    """The replies or failures, and the bill of each case."""
    lines = []
    for request in requests:
        try:
            reply = await pool.generate(request)
            lines.append(f"answered {reply.value or reply.text} in {reply.calls} calls")
        except ModelFailure as failure:
            assert len(failure.message) < 600
            lines.append(f"{failure.kind} in {failure.calls} calls: {failure.message} {failure.hint or ''}".rstrip())
    lines += [
        f"{entry.calls} calls, {entry.failures} failures, {entry.replies} replies, {entry.cached_replies} cached, "
        f"{entry.usage.input_tokens} tokens, cost {entry.cost}"
        for entry in pool.ledger.entries()
    ]
    return "\n    ".join([*lines, f"{pool.meter.spent.tokens} tokens spent"])
