"""The file that runs beside the agent: what it sends can still be masked."""

from __future__ import annotations

import json

import pytest

from agent_eval.agents.host import child
from agent_eval.core.masking import Masker


@pytest.mark.parametrize(
    "secret", ["correct horse battery staple", "AccountName=shop;AccountKey=Zm9vYmFy", 'quoted "value", with marks']
)
@pytest.mark.parametrize("shown", [str, lambda value: json.dumps(value)[1:-1]])
def test_cut__never_inside_a_value_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, secret: str, shown: type[str]
) -> None:
    monkeypatch.setattr(child, "_ENVIRONMENT", (secret, "battery staple and more"))
    for before in range(80, 101):
        cut = child._cut("x " * (before // 2) + "x" * (before % 2) + shown(secret) + " y" * 100, 100)
        masked = Masker([secret]).text(cut)
        assert len(cut) <= 100
        assert not [secret[at : at + 5] for at in range(len(secret) - 4) if secret[at : at + 5] in masked], (
            before,
            cut,
        )


def test_cut__between_words() -> None:
    assert child._cut("one two three", 9) == "one two "
    assert child._cut("one two", 9) == "one two"
