"""Cached and replayed replies, through the whole pool."""

from __future__ import annotations

from pathlib import Path

from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from models_support import GOOD, MODEL, ask, failure_of, pool_at, quick

from agent_eval.models.pool import open_models
from agent_eval.models.settings import Budget, ModelSettings
from agent_eval.net.retry import Retry


def good(_: GenerateRequest) -> Answer:
    return Answer.text(GOOD)


async def test_cache__calls_and_bills_once(tmp_path: Path) -> None:
    with FakeGemini(good) as server:
        async with pool_at(server, quick(cache=tmp_path)) as pool:
            first = await pool.generate(ask(case_id="a", purpose="p"))
            again = await pool.generate(ask(case_id="a", purpose="p"))
            await pool.generate(ask(sample=1))
            await pool.generate(ask(run=1))
        async with pool_at(server, quick(cache=tmp_path, budget=Budget(max_calls=0))) as later:
            cached = await later.generate(ask())
            assert (await failure_of(later, ask(sample=7))).kind == "budget"
        assert server.stats.requests == 3
        async with pool_at(server) as without:
            await without.generate(ask())
        assert server.stats.requests == 4
    assert (first.cached, first.calls) == (False, 1)
    assert (again.cached, again.calls) == (cached.cached, cached.calls) == (True, 0)
    assert again.value == cached.value == first.value
    assert again.usage == first.usage
    entry = next(entry for entry in pool.ledger.entries() if entry.case_id == "a")
    assert (entry.calls, entry.replies, entry.cached_replies) == (1, 1, 1)


async def test_cache__contains_no_failures_and_no_secrets(tmp_path: Path) -> None:
    with FakeGemini(lambda _: Answer.text("prose")) as server:
        async with pool_at(server, quick(cache=tmp_path)) as pool:
            assert (await failure_of(pool, ask())).kind == "malformed"
    with FakeGemini(good, faults=[Fault(kind=503)]) as server:
        settings = quick(cache=tmp_path, retry=Retry(attempts=1))
        async with pool_at(server, settings) as pool:
            assert (await failure_of(pool, ask())).kind == "unavailable"
            assert not list(tmp_path.rglob("*.json"))
            await pool.generate(ask("a very private prompt"))
    (file,) = tmp_path.rglob("*.json")
    assert b"private" not in file.read_bytes() and b"a-key" not in file.read_bytes()


async def test_cache__is_bound_to_the_endpoint(tmp_path: Path) -> None:
    with FakeGemini(good) as first, FakeGemini(lambda _: Answer.text(GOOD.replace("yes", "no"))) as second:
        async with pool_at(first, quick(cache=tmp_path)) as pool:
            await pool.generate(ask())
        async with pool_at(second, quick(cache=tmp_path)) as pool:
            reply = await pool.generate(ask())
    assert reply.value == {"verdict": "no", "why": "because"}


async def test_cache__ignores_replies_that_no_longer_fit(tmp_path: Path) -> None:
    with FakeGemini(good) as server:
        async with pool_at(server, quick(cache=tmp_path)) as pool:
            await pool.generate(ask())
        (file,) = tmp_path.rglob("*.json")
        file.write_text(file.read_text("utf-8").replace("yes", "maybe"), encoding="utf-8")
        async with pool_at(server, quick(cache=tmp_path)) as pool:
            reply = await pool.generate(ask())
    assert (reply.cached, reply.value) == (False, {"verdict": "yes", "why": "because"})


async def test_replay__needs_no_key_and_no_provider(tmp_path: Path) -> None:
    with FakeGemini(good) as server:
        async with pool_at(server, quick(cache=tmp_path)) as pool:
            await pool.generate(ask())
    async with open_models(ModelSettings(replay=tmp_path), {}, models=[MODEL]) as pool:
        assert await pool.prepare() == []
        reply = await pool.generate(ask())
        failure = await failure_of(pool, ask(sample=3, run=1, case_id="f:x", purpose="safety_v1"))
    assert (reply.cached, reply.value) == (True, {"verdict": "yes", "why": "because"})
    assert failure.kind == "replay-miss"
    assert "(safety_v1 of f:x, run 2, sample 4)" in failure.message
    assert str(tmp_path) in failure.message


async def test_prepare__does_not_wait_for_clients_with_a_key() -> None:
    with FakeGemini(good) as server:
        async with pool_at(server) as pool:
            assert await pool.prepare() == []
            assert pool.concurrency(MODEL) is None, "it is still opening"
            assert (await pool.generate(ask())).value == {"verdict": "yes", "why": "because"}
        async with pool_at(server) as pool:
            await pool.prepare()
    assert server.stats.requests == 1
