"""Usage accounting and prices."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.models.protocol import ModelRequest, ModelUsage
from agent_eval.models.usage import (
    DEFAULT_PRICES,
    Ledger,
    Price,
    UsageEntry,
    add_usage,
    billed_tokens,
    read_prices,
    total,
)


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


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {"input": 1},
        {"input": 1, "output": 2, "thoughts": 3},
        {"input": "1", "output": 2},
        {"input": -1, "output": 2},
        {"input": True, "output": 2},
        {"input": float("nan"), "output": 2},
        {"input": float("inf"), "output": 2},
    ],
)
def test_read_prices__refuses(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"\[prices\] 'm'"):
        read_prices({"m": entry})


def test_usage__unknown_stays_unknown() -> None:
    usage = ModelUsage(input_tokens=3, output_tokens=None)
    assert add_usage(usage, ModelUsage(input_tokens=4)) == ModelUsage(input_tokens=7)
    assert billed_tokens(ModelUsage()) is None
    assert billed_tokens(ModelUsage(input_tokens=1, cached_tokens=1, thought_tokens=2)) == 3


def request(case: str, purpose: str, model: str) -> ModelRequest:
    return ModelRequest(model=model, prompt="p", case_id=case, purpose=purpose)


def test_ledger__by_case_criterion_and_model() -> None:
    ledger = Ledger()
    paid = UsageEntry(calls=2, replies=1, usage=ModelUsage(input_tokens=10), cost=0.5)
    ledger.add(request("b", "safety_v1", "m1"), paid)
    ledger.add(request("a", "safety_v1", "m1"), paid)
    ledger.add(request("a", "safety_v1", "m1"), UsageEntry(cached_replies=1))
    ledger.add(request("a", "user-simulator", "m2"), UsageEntry(calls=1, failures=1, unpriced_calls=1))
    entries = ledger.entries()
    assert [(entry.case_id, entry.purpose, entry.model) for entry in entries] == [
        ("a", "safety_v1", "m1"),
        ("a", "user-simulator", "m2"),
        ("b", "safety_v1", "m1"),
    ]
    assert (entries[0].calls, entries[0].cached_replies, entries[0].cost) == (2, 1, 0.5)
    assert entries[1].cost is None
    first, second = ledger.by_model()
    assert (first.model, first.calls, first.usage.input_tokens, first.cost) == ("m1", 4, 20, 1.0)
    assert (second.model, second.unpriced_calls, second.failures) == ("m2", 1, 1)
    assert total(entries).calls == 5
