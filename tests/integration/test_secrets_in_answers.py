"""Services that quote the key of a request in what they answer, at every place of a long message."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from fake_gemini import Answer, FakeGemini, Fault
from models_support import GOOD, QUICK, ask, completion, failure_of
from upload_server import Received, Reply, upload_server

from agent_eval.models.pool import open_models
from agent_eval_workbench.exports.client import Client, UploadError

KEY = "sk-live-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MODEL = "openai/judge-1"
OFFSETS = range(0, 420)


def quoted(offset: int) -> str:
    """A message with the key behind `offset` characters."""
    return "=" * offset + KEY + "#" * 300


def leaked(text: str) -> list[str]:
    """Parts of the key in a text, of six characters."""
    parts = {KEY[start : start + 6] for start in range(len(KEY) - 5)}
    return sorted(part for part in parts if part in text)


@pytest.mark.parametrize("kind", ["error", "refusal", "answer"])
async def test_openai__a_quoted_key_is_masked_wherever_it_is(kind: str) -> None:
    def script(call: Received) -> Reply:
        text = quoted(int(call.json["messages"][-1]["content"]))
        if kind == "error":
            return Reply(status=400, body={"error": {"message": text}})
        return completion(None, refusal=text) if kind == "refusal" else completion(text)

    with upload_server(script) as server:
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        async with open_models(QUICK, environ, models=[MODEL]) as pool:
            if kind == "answer":
                reply = await pool.generate(ask("200", model=MODEL, schema=None))
                assert leaked(reply.text) == []
                assert "***" in reply.text
                return
            failures = await asyncio.gather(*(failure_of(pool, ask(str(offset), model=MODEL)) for offset in OFFSETS))
    assert {(offset, part) for offset, failure in enumerate(failures) for part in leaked(failure.message)} == set()
    assert all("=" * min(offset, 9) in failure.message for offset, failure in enumerate(failures))


async def test_gemini__a_quoted_key_is_masked_wherever_it_is() -> None:
    faults = [Fault(kind=400, message=quoted(offset)) for offset in OFFSETS]
    with FakeGemini(lambda _: Answer.text(GOOD), faults=faults) as server:
        environ = {"GOOGLE_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
        async with open_models(QUICK, environ, models=["gemini-2.5-flash"]) as pool:
            failures = [await failure_of(pool, ask(sample=offset)) for offset in OFFSETS]
    assert {(offset, part) for offset, failure in enumerate(failures) for part in leaked(failure.message)} == set()
    assert all("=" * min(offset, 9) in failure.message for offset, failure in enumerate(failures))


def test_uploads__a_quoted_token_is_masked_wherever_it_is() -> None:
    # Longer than what is read of an error, too: the end of what was read may be half a token.
    offsets = itertools.chain(OFFSETS, range(99_900, 100_001, 7))
    bodies = [json.dumps({"message": quoted(offset)}).encode() for offset in offsets]
    answers = iter(bodies)
    with upload_server(lambda _: Reply(status=400, body=next(answers))) as server:
        client = Client({"Authorization": f"Bearer {KEY}"})
        for body in bodies:
            with pytest.raises(UploadError) as raised:
                client.post(server.url, {})
            assert leaked(str(raised.value)) == [], body[:400]
            assert "HTTP 400: {" in str(raised.value)
        client.close()
