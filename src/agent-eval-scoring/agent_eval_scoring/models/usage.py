"""Tokens of models' calls, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.models.protocol import ModelRequest, ModelUsage

PRICES_AS_OF = "2026-08"
"""Month of the last comparison of the table with other price lists; docs/models.md states it too."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    """Also the price of thoughts."""
    cached: float | None = None
    """Price of input from the provider's cache; None: the same as `input`."""

    def of(self, usage: ModelUsage) -> float:
        """Returns the cost in US dollars. Unreported counts are taken as 0."""
        cached = min(usage.cached_tokens or 0, usage.input_tokens or 0)
        fresh = (usage.input_tokens or 0) - cached
        output = (usage.output_tokens or 0) + (usage.thought_tokens or 0)
        cached_price = self.input if self.cached is None else self.cached
        return (fresh * self.input + cached * cached_price + output * self.output) / 1_000_000


DEFAULT_PRICES: Mapping[str, Price] = {
    "gemini-2.5-flash": Price(input=0.30, output=2.50, cached=0.03),
    "gemini-2.5-flash-lite": Price(input=0.10, output=0.40, cached=0.01),
    "gemini-2.5-pro": Price(input=1.25, output=10.00, cached=0.125),
    "gemini-3.1-flash-lite": Price(input=0.25, output=1.50, cached=0.025),
    "gemini-3.1-pro-preview": Price(input=2.00, output=12.00, cached=0.20),
    "gemini-3.5-flash": Price(input=1.50, output=9.00, cached=0.15),
    "gemini-3.5-flash-lite": Price(input=0.30, output=2.50, cached=0.03),
    "gpt-4.1": Price(input=2.00, output=8.00, cached=0.50),
    "gpt-4.1-mini": Price(input=0.40, output=1.60, cached=0.10),
    "gpt-4.1-nano": Price(input=0.10, output=0.40, cached=0.025),
    "gpt-4o": Price(input=2.50, output=10.00, cached=1.25),
    "gpt-4o-mini": Price(input=0.15, output=0.60, cached=0.075),
    "gpt-5": Price(input=1.25, output=10.00, cached=0.125),
    "gpt-5-mini": Price(input=0.25, output=2.00, cached=0.025),
    "gpt-5-nano": Price(input=0.05, output=0.40, cached=0.005),
    "gpt-5.4": Price(input=2.50, output=15.00, cached=0.25),
    "gpt-5.4-mini": Price(input=0.75, output=4.50, cached=0.075),
    "gpt-5.4-nano": Price(input=0.20, output=1.25, cached=0.02),
}
"""List prices of the standard tier, for text and for prompts below the sizes from which some models cost more.

Each figure equals those of genai-prices 0.2.3 and litellm 1.96.2; the providers' own pages were not read. Models with a
promotional price, and those whose price changed in the summer of 2026, are left out.

The table is not replaced by genai-prices: importing it takes 0.4 s of CPU and 96 MB of memory (0.2.3, measured)."""

_VERSION = re.compile(r"-(?:\d{3}|\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
"""The end of a model's name that is a version of it."""
_MAX_PRICE = 1e9
"""US dollars per million tokens. Larger values would make sums meaningless."""


class PriceError(AgentEvalError, ValueError):
    """An entry of `[prices]` that can't be used."""

    def __init__(self, model: str, what: str) -> None:
        """`what` is a predicate."""
        super().__init__(f"[prices] {model!r} {what}")
        self.model = model


def read_prices(table: Mapping[str, Any]) -> dict[str, Price]:
    """Returns the default table, overridden by the user's `[prices]`.

    Args:
        table: By model, `{input, output, cached}` in US dollars per million tokens; `cached` is optional.

    Raises:
        ValueError: The table or an entry (PriceError) is invalid; the message names it.
    """
    if not isinstance(table, Mapping):
        raise ValueError("[prices] must be a table of models")
    prices = dict(DEFAULT_PRICES)
    for model, entry in table.items():
        if not isinstance(entry, Mapping) or not {"input", "output"} <= set(entry) <= {"input", "output", "cached"}:
            raise PriceError(model, "must be a table with `input` and `output`, and optionally `cached`")
        for key, value in entry.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_PRICE:
                raise PriceError(model, f"has `{key}` = {value!r}, which is no price in US dollars")
        prices[model] = Price(**{key: float(value) for key, value in entry.items()})
    return prices


def price_of_agent(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model by the name that an agent or its provider uses; None if it is unknown.

    Args:
        model: E.g. `gemini-2.5-flash`, `openai/gpt-4o`, `gpt-4o-2024-08-06`.
        prices: By name. A version has the price of its model, unless it has its own.
    """
    last = model.rpartition("/")[2]
    return next((prices[name] for name in (model, last, _VERSION.sub("", last)) if name in prices), None)


def add_usage(left: ModelUsage, right: ModelUsage) -> ModelUsage:
    """Returns the sum; a count that neither side reports stays None."""

    def plus(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    return ModelUsage(
        input_tokens=plus(left.input_tokens, right.input_tokens),
        output_tokens=plus(left.output_tokens, right.output_tokens),
        cached_tokens=plus(left.cached_tokens, right.cached_tokens),
        thought_tokens=plus(left.thought_tokens, right.thought_tokens),
    )


def billed_tokens(usage: ModelUsage) -> int | None:
    """Returns the sum of input, output and thoughts; None if the provider reported nothing."""
    counts = (usage.input_tokens, usage.output_tokens, usage.thought_tokens)
    return None if all(count is None for count in counts) else sum(count or 0 for count in counts)


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """Usage of one criterion (or simulated user) on one case with one model, or a sum of such entries."""

    case_id: str = ""
    purpose: str = ""
    model: str = ""
    calls: int = 0
    """Sent attempts."""
    replies: int = 0
    """Requests answered by the provider."""
    cached_replies: int = 0
    """Requests answered from our cache, at no cost."""
    failures: int = 0
    """Requests without a usable reply."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    cost: float | None = None
    """US dollars; None: the model has no price, or nothing was sent."""
    versions: tuple[str, ...] = ()
    """Model versions as reported by the provider, sorted."""
    unpriced_calls: int = 0
    """Attempts at models without a price, which `cost` doesn't include."""


def total(entries: Iterable[UsageEntry], *, model: str = "") -> UsageEntry:
    """Returns the sum of entries of a model."""
    result = UsageEntry(model=model)
    for entry in entries:
        result = _plus(result, entry)
    return result


def _plus(left: UsageEntry, right: UsageEntry) -> UsageEntry:
    costs = [cost for cost in (left.cost, right.cost) if cost is not None]
    return replace(
        left,
        calls=left.calls + right.calls,
        replies=left.replies + right.replies,
        cached_replies=left.cached_replies + right.cached_replies,
        failures=left.failures + right.failures,
        usage=add_usage(left.usage, right.usage),
        cost=sum(costs) if costs else None,
        versions=tuple(sorted({*left.versions, *right.versions})),
        unpriced_calls=left.unpriced_calls + right.unpriced_calls,
    )


class Ledger:
    """Collects usage."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], UsageEntry] = {}

    def add(self, request: ModelRequest, entry: UsageEntry) -> None:
        """Adds the usage of a request; the labels are taken from the request."""
        self.book(replace(entry, case_id=request.case_id, purpose=request.purpose, model=request.model))

    def book(self, entry: UsageEntry) -> None:
        """Adds usage by its own labels."""
        key = (entry.case_id, entry.purpose, entry.model)
        start = UsageEntry(case_id=entry.case_id, purpose=entry.purpose, model=entry.model)
        self._entries[key] = _plus(self._entries.get(key, start), entry)

    def entries(self) -> list[UsageEntry]:
        """Returns the entries sorted by case, purpose and model."""
        return [self._entries[key] for key in sorted(self._entries)]

    def by_model(self) -> list[UsageEntry]:
        """Returns the sum for each model, sorted by name."""
        models = sorted({entry.model for entry in self._entries.values()})
        return [total((entry for entry in self.entries() if entry.model == model), model=model) for model in models]
