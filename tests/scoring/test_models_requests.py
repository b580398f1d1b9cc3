"""What a model is asked and answers: limits, the reply cache, outages, strict parsing, usage and prices."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import json_values
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st

from agent_eval_scoring.models._limits import Estimate, Health, Meter
from agent_eval_scoring.models._openai_chat import is_strict
from agent_eval_scoring.models._provider import parse_reply, status_error
from agent_eval_scoring.models.cache import CachedReply, ReplyCache, key_of
from agent_eval_scoring.models.names import parse_model
from agent_eval_scoring.models.protocol import ModelFailure, ModelRequest, ModelUsage
from agent_eval_scoring.models.settings import Budget
from agent_eval_scoring.models.usage import (
    DEFAULT_PRICES,
    PRICES_AS_OF,
    Ledger,
    Price,
    UsageEntry,
    add_usage,
    billed_tokens,
    read_prices,
    total,
)

# Limits hold, also with many attempts in flight, and once reached they stay.


def estimate(tokens: float, *, most: float | None = None) -> Estimate:
    """The maximum defaults to the expected usage."""
    most = tokens if most is None else most
    return Estimate(tokens=tokens, cost=tokens / 1000, most_tokens=most, most_cost=most / 1000)


async def attempt(meter: Meter, *, expected: float, used: float) -> None:
    reservation = await meter.reserve(lambda: estimate(expected))
    await asyncio.sleep(0)
    reservation.settle(used, used / 1000)


async def refused(meter: Meter, *, expected: float = 1.0) -> str:
    with pytest.raises(ModelFailure) as failure:
        await meter.reserve(lambda: estimate(expected))
    assert failure.value.kind == "budget"
    return f"{failure.value.message} {failure.value.hint}"


async def test_meter__calls_are_exact() -> None:
    meter = Meter(Budget(max_calls=20))
    results = await asyncio.gather(*(attempt(meter, expected=10, used=10) for _ in range(100)), return_exceptions=True)
    assert sum(result is None for result in results) == 20
    assert meter.spent.calls == 20
    message = await refused(meter)
    assert "20 judge calls" in message and "max-judge-calls" in message


async def test_meter__waits_for_attempts_in_flight_before_it_refuses() -> None:
    """Eight in flight are expected to use 800 of 1000, and use 80: the budget suffices for all others."""
    meter = Meter(Budget(max_tokens=1000))
    await asyncio.gather(*(attempt(meter, expected=100, used=10) for _ in range(50)))
    assert meter.spent.tokens == 500


async def test_meter__a_refusal_is_final() -> None:
    meter = Meter(Budget(max_tokens=100))
    assert "100 tokens" in await refused(meter, expected=101)
    await refused(meter, expected=1)
    assert meter.failure is not None and meter.spent.calls == 0


async def test_meter__unknown_usage_counts_as_estimated() -> None:
    meter = Meter(Budget(max_tokens=100))
    (await meter.reserve(lambda: estimate(60))).settle(None, None)
    assert meter.spent.tokens == 60
    await refused(meter, expected=41)


async def test_meter__calls_the_estimate_again_after_a_wait() -> None:
    """The first estimate is too high; waiting attempts must not be refused because of it."""
    meter = Meter(Budget(max_tokens=100))
    guess = 60.0
    first = await meter.reserve(lambda: estimate(guess))
    waiting = asyncio.create_task(meter.reserve(lambda: estimate(guess)))
    await asyncio.sleep(0)
    guess = 50.0
    first.settle(50.0, 0.0)
    assert (await waiting).estimate.tokens == 50.0


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=40), st.integers(0, 300))
async def test_meter__overrun_is_bounded_by_estimate_errors(attempts: list[tuple[int, int]], limit: int) -> None:
    """For any estimates, usage and order of completion."""
    meter = Meter(Budget(max_tokens=limit))
    await asyncio.gather(
        *(attempt(meter, expected=expected, used=used) for expected, used in attempts), return_exceptions=True
    )
    in_flight_errors = sum(max(0, used - expected) for expected, used in attempts)
    assert meter.spent.tokens <= limit + in_flight_errors
    if all(used <= expected for expected, used in attempts):
        assert meter.spent.tokens <= limit


async def test_meter__near_the_limit_runs_one_at_a_time() -> None:
    """Two expected usages fit, two maximum usages don't."""
    meter = Meter(Budget(max_tokens=1000))
    first = await meter.reserve(lambda: estimate(300, most=800))
    waiting = asyncio.create_task(meter.reserve(lambda: estimate(300, most=800)))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.settle(800, 0.8)
    with pytest.raises(ModelFailure, match="800 tokens are spent, and the next call does not fit"):
        await waiting


DOWN = ModelFailure("unavailable", "`m` at http://localhost: no answer within 30 s")
SPENT: dict[str, tuple[Budget, int, int]] = {
    "8 calls, all failed": (Budget(max_calls=8), 8, 8),
    "8 calls, 2 failed": (Budget(max_calls=8), 8, 2),
    "1 token": (Budget(max_tokens=1), 0, 0),
    "a tiny cost": (Budget(max_cost=1e-7), 0, 0),
    "a cost": (Budget(max_cost=2.5), 0, 0),
}


async def test_meter__limits_are_written_out() -> None:
    """With the calls that failed before, if there were many."""
    texts = []
    for name, (budget, calls, failing) in SPENT.items():
        meter = Meter(budget)
        for number in range(calls):
            reservation = await meter.reserve(lambda: estimate(1))
            if number < failing:
                meter.failed(DOWN)
            reservation.settle(1, 0.0)
        with pytest.raises(ModelFailure) as failure:
            await meter.reserve(lambda: estimate(10_000))
        texts.append(f"{name}\n    {failure.value.kind}: {failure.value.message} {failure.value.hint}\n")
    check("golden_budgets.txt", "".join(texts))


# Provider errors, and the detection of outages.


STATUSES = (
    (408, ""),
    (429, "quota"),
    (500, ""),
    (503, "overloaded"),
    (529, "overloaded"),
    (400, "bad schema"),
    (400, "API key not valid. Please pass a valid API key."),
    (401, ""),
    (403, "denied"),
    (404, "no such model"),
    (413, "too large"),
    (501, ""),
)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no"]}, "why": {"type": "string"}},
    "required": ["verdict", "why"],
    "additionalProperties": False,
}
REPLIES = (
    "",
    " \n",
    "yes",
    '{"verdict": "yes", "why": "cut o',
    '```json\n{"verdict": "yes", "why": ""}\n```',
    '{"verdict": "yes", "why": ""} I hope this helps',
    '{"verdict": "no", "why": ""}{"verdict": "yes", "why": ""}',
    '{"verdict": "no", "why": "", "verdict": "yes"}',
    '{"verdict": "Yes", "why": ""}',
    '{"verdict": "yes"}',
    '{"verdict": "yes", "why": "", "score": 1}',
    '["yes"]',
    "null",
    "NaN",
    "[" * 200_000,
    *(f'{around}{{"verdict": "yes", "why": "ça marche"}}{around}' for around in ("", " ", "\n")),
)


def test_replies__and_refusals_of_providers() -> None:
    """What is made of a status and of a text: it fits strictly, or is named in one short line."""
    lines = []
    for status, message in STATUSES:
        error = status_error(status, message, {})
        lines.append(f"{status} {message}: {error.then}, {error.kind}, {error.message}\n")
    for text in REPLIES:
        try:
            said = str(parse_reply(text, SCHEMA))
        except ValueError as refusal:
            said = f"refused: {refusal}"
        assert len(said) < 400 and "\n" not in said
        lines.append(f"{text[:80]!r}\n    {said}\n")
    check("golden_provider_replies.txt", "".join(lines))


def test_status_error__the_header_wins_over_the_body() -> None:
    assert status_error(429, "", {"retry-after": "2"}, wait=9.0).retry_after == 2.0
    assert status_error(429, "", {}, wait=9.0).retry_after == 9.0


def health_after(*failed: float, outage: float = 60.0) -> Health:
    """Has failed at these seconds, and was usable after each."""
    health = Health("m", outage=outage, enough=3, now=0.0)
    for now in failed:
        health.failed(now, "503")
        health.check()
    return health


def refusal_of(health: Health) -> ModelFailure:
    with pytest.raises(ModelFailure) as failure:
        health.check()
    return failure.value


def test_health__down_after_an_outage() -> None:
    health = health_after(10.0, 20.0, 69.0)
    health.failed(70.0, "503")
    first = refusal_of(health)
    assert re.search(r"`m` is down.* 60 seconds .*503", first.message)
    health.failed(99.0, "another cause")
    assert refusal_of(health).message == first.message


def test_health__an_answer_clears_it_and_few_failures_are_no_outage() -> None:
    answered, few = health_after(10.0, 30.0, 60.0), health_after(50.0, 90.0, outage=1.0)
    answered.answered(61.0)
    for now in (100.0, 110.0, 120.0, 159.0):
        answered.failed(now, "503")
    answered.check()
    for health, now in ((answered, 160.0), (few, 91.0)):
        health.failed(now, "503")
        refusal_of(health)


def test_health__disabled_at_once() -> None:
    health = health_after()
    health.disable("invalid-request", "401", "Check the key.")
    failure = refusal_of(health)
    assert "can't be used: 401" in failure.message
    assert (failure.kind, failure.hint) == ("invalid-request", "Check the key.")


# The reply cache: keys, damaged files, size limit.


REQUEST = ModelRequest(
    model="gemini-2.5-flash",
    prompt="Is it?",
    system="Judge.",
    schema={"type": "object"},
    config={"temperature": 0.5},
    case_id="a:1",
    purpose="safety_v1",
)
REPLY = CachedReply(identity="gemini", text='{"a": 1}', model_version="v", input_tokens=3)


def test_key_of__changes_with_fields_that_affect_the_reply() -> None:
    changes: list[dict[str, Any]] = [
        *({"model": "gemini-2.5-pro"}, {"prompt": "Is it not?"}, {"system": None}, {"sample": 1}, {"run": 1}),
        *({"schema": None}, {"schema": {"type": "array"}}, {"config": {"temperature": 0.6}}, {"config": {}}),
    ]
    assert len({key_of(dataclasses.replace(REQUEST, **change)) for change in [{}, *changes]}) == 10


def test_key_of__ignores_case_and_purpose() -> None:
    assert key_of(dataclasses.replace(REQUEST, case_id="b", purpose="x")) == key_of(REQUEST)
    assert key_of(dataclasses.replace(REQUEST, schema=dict(REQUEST.schema or {}))) == key_of(REQUEST)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"null", b'{"version": 1}', b"\xff\xfe", b'{"version": 99, "identity": "gemini"}']
)
def test_cache__a_damaged_file_is_a_miss(tmp_path: Path, damage: bytes) -> None:
    cache = ReplyCache(tmp_path, max_bytes=10_000)
    key = key_of(REQUEST)
    cache.put(key, REPLY)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(damage)
    assert cache.get(key) is None
    cache.put(key, REPLY)
    assert cache.get(key) == REPLY


def test_cache__evicts_the_least_recently_used(tmp_path: Path) -> None:
    reply = CachedReply(identity="i", text="x" * 1000, model_version="v")
    most = len(reply.model_dump_json()) * 10
    cache = ReplyCache(tmp_path, max_bytes=most)
    keys = [f"{number:064x}"[::-1] for number in range(14)]
    for age, key in enumerate(keys[:10]):
        cache.put(key, reply)
        (file,) = tmp_path.rglob(f"{key}.json")
        os.utime(file, (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used now, so no longer the least recent
    for key in keys[10:]:
        cache.put(key, reply)
        assert sum(file.stat().st_size for file in tmp_path.rglob("*.json")) <= most
    assert [cache.get(key) is not None for key in keys[:3]] == [True, False, False]


def test_cache__writes_atomically_and_never_fails(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path, max_bytes=10_000)
    cache.put("ab" + "0" * 62, CachedReply(identity="i", text="lone \ud800", model_version="v"))
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]
    blocked = tmp_path / "a-file"
    blocked.write_text("", encoding="utf-8")
    unusable = ReplyCache(blocked, max_bytes=10_000)
    unusable.put(key_of(REQUEST), REPLY)
    assert unusable.get(key_of(REQUEST)) is None


# Strict parsing of replies.


@given(json_values(most=20))
def test_parse_reply__parses_any_json(value: Any) -> None:
    assert parse_reply(json.dumps(value), {}) == value


@given(st.text())
def test_parse_reply__any_text_fits_or_raises_value_error(text: str) -> None:
    try:
        value = parse_reply(text, SCHEMA)
    except ValueError:
        return
    assert value["verdict"] in {"yes", "no"}


def test_structured__is_strict() -> None:
    assert is_strict(SCHEMA)
    assert is_strict({"type": "array", "items": SCHEMA})
    assert not is_strict({**SCHEMA, "required": ["verdict"]})
    assert not is_strict({**SCHEMA, "additionalProperties": True})
    assert not is_strict({**SCHEMA, "properties": {"verdict": {"type": "object", "properties": {}}, "why": {}}})


# Usage accounting and prices.


def test_price__counts_cached_input_and_thoughts() -> None:
    price = Price(input=1.0, output=10.0, cached=0.1)
    usage = ModelUsage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000, thought_tokens=50_000)
    assert price.of(usage) == pytest.approx(0.6 + 0.04 + 1.5)
    assert Price(input=1.0, output=10.0).of(usage) == pytest.approx(1.0 + 1.5)
    assert price.of(ModelUsage()) == 0.0
    assert price.of(ModelUsage(input_tokens=10, cached_tokens=1000)) == pytest.approx(10 * 0.1 / 1e6)


def test_read_prices__user_prices_override_the_default() -> None:
    prices = read_prices({"gemini-2.5-flash": {"input": 1, "output": 2}, "ollama/x": {"input": 0, "output": 0.0}})
    assert prices["gemini-2.5-flash"] == Price(input=1.0, output=2.0)
    assert prices["ollama/x"] == Price(input=0.0, output=0.0)
    assert prices["gpt-5"] == DEFAULT_PRICES["gpt-5"]


def test_read_prices__refuses() -> None:
    both: list[Any] = [{"input": price, "output": 2} for price in ("1", -1, True, float("nan"), float("inf"))]
    for entry in (3, {"input": 1}, {"input": 1, "output": 2, "thoughts": 3}, *both):
        with pytest.raises(ValueError, match=r"\[prices\] 'm'"):
            read_prices({"m": entry})


def test_usage__unknown_stays_unknown() -> None:
    usage = ModelUsage(input_tokens=3, output_tokens=None)
    assert add_usage(usage, ModelUsage(input_tokens=4)) == ModelUsage(input_tokens=7)
    assert billed_tokens(ModelUsage()) is None
    assert billed_tokens(ModelUsage(input_tokens=1, cached_tokens=1, thought_tokens=2)) == 3


def test_ledger__by_case_criterion_and_model() -> None:
    ledger = Ledger()
    paid = UsageEntry(calls=2, replies=1, usage=ModelUsage(input_tokens=10), cost=0.5)
    for case, purpose, model, entry in (
        ("b", "safety_v1", "m1", paid),
        ("a", "safety_v1", "m1", paid),
        ("a", "safety_v1", "m1", UsageEntry(cached_replies=1)),
        ("a", "user-simulator", "m2", UsageEntry(calls=1, failures=1, unpriced_calls=1)),
    ):
        ledger.add(ModelRequest(model=model, prompt="p", case_id=case, purpose=purpose), entry)
    entries = ledger.entries()
    check("golden_usage.txt", "".join(f"{entry}\n" for entry in (*entries, *ledger.by_model(), total(entries))))


# The default price table: its date in the docs, its entries, and a computed cost.


PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_default_prices__docs_state_date_and_families() -> None:
    paragraph = " ".join(PAGE[PAGE.index("The built-in table") :].partition("\n\n")[0].split())

    assert f"in {PRICES_AS_OF}," in paragraph
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", PRICES_AS_OF)
    families = {re.sub(r"-(mini|nano|pro|flash|lite|preview)", "", name) for name in DEFAULT_PRICES}
    shown = {
        f"{vendor.lower()}-{version}"
        for vendor, versions in (("Gemini", r"Gemini ([\d., and]+)"), ("GPT", r"GPT-([\do.]+)"))
        for listed in re.findall(versions, paragraph)
        for version in re.findall(r"\d+(?:\.\d+)?o?", listed)
    }
    assert shown == families


@pytest.mark.parametrize("name", DEFAULT_PRICES)
def test_default_prices__keys_are_price_keys(name: str) -> None:
    price = DEFAULT_PRICES[name]

    assert parse_model(name).price_key == name
    assert price.cached is not None
    assert 0 < price.cached < price.input < price.output
