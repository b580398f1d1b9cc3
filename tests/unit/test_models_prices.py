"""The default price table: its date in the docs, its entries, and a computed cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_eval.models.names import parse_model
from agent_eval.models.usage import DEFAULT_PRICES, PRICES_AS_OF

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
