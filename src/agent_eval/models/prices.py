"""Token prices: a small dated table that the user's `[prices]` override. Other models have no price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval.models.protocol import ModelUsage

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

_MAX_PRICE = 1e9
"""US dollars per million tokens. Larger values would make sums meaningless."""


def read_prices(table: Mapping[str, Any]) -> dict[str, Price]:
    """Returns the default table, overridden by the user's `[prices]`.

    Args:
        table: By model, `{input, output, cached}` in US dollars per million tokens; `cached` is optional.

    Raises:
        ValueError: An entry is invalid; the message names it.
    """
    if not isinstance(table, Mapping):
        raise ValueError("[prices] must be a table of models")
    prices = dict(DEFAULT_PRICES)
    for model, entry in table.items():
        if not isinstance(entry, Mapping) or not {"input", "output"} <= set(entry) <= {"input", "output", "cached"}:
            raise ValueError(f"[prices] {model!r} must be a table with `input` and `output`, and optionally `cached`")
        for key, value in entry.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_PRICE:
                raise ValueError(f"[prices] {model!r}: `{key}` must be US dollars per million tokens, not {value!r}")
        prices[model] = Price(**{key: float(value) for key, value in entry.items()})
    return prices
