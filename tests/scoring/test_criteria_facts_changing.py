"""Texts with a wrong fact, as `agent-eval mutate` makes them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random

import pytest
from golden_files import check

from agent_eval_scoring.criteria.facts import changed, compare, facts_of

ALL = {"names": True, "states": True, "negation": True}
TEXTS = (
    "Sales in Q2 were 150 thousand EUR on 12 May 2026 at 3:30 pm.",
    "The order A-1234 is open; write to anna@acme.example or see https://acme.example/a.",
    "Thirty days of holiday for Anna Berg in Berlin.",
    "The lamp is off, and 3 of 3 are done. It says \"full\".",
    "I can't find it. There is no page, and we don't have one.",
    "Die Lampe ist aus. Bestellung storniert am 3. März, 1.234,50 € (19 %).",
    "二零二六年五月三日，灯已关闭，温度是二十三度。在庫あり。東京",
    "배송완료, 3개",
    "الطلب مفتوح في دبي رقم ١٢٣",
)  # fmt: skip


def test_changed__each_fact_of_a_text() -> None:
    lines = [
        f"{fact.kind}: {fact.text} -> {' | '.join(said or 'nothing' for said in found[::-1])}"
        for text in TEXTS
        for fact in facts_of(text, **ALL)
        if (found := changed(text, fact, Random(1), ["Tom Hill", "Oslo"])) is not None
    ]
    check("golden_changed_facts.txt", "\n".join(lines) + "\n")


def test_changed__what_a_criterion_of_facts_notices() -> None:
    blocks = tomllib.loads((Path(__file__).parents[2] / "benchmarks" / "facts.toml").read_text("utf-8"))["block"]
    made, all_facts = 0, 0
    for block in blocks:
        for say, value in zip(block["say"], block["values"], strict=False):
            text = say[0].replace("{}", value[0])
            for fact in facts_of(text, **ALL):
                all_facts += 1
                found = changed(text, fact, Random(len(text)))
                if found is not None:
                    made += 1
                    assert compare(text, found[0], **ALL).missing, (text, found)
    assert all_facts > 150
    assert made / all_facts > 0.95


@pytest.mark.parametrize("text", ["It is open.", "3 of 3", "no"])
def test_changed__is_repeatable_and_another_text(text: str) -> None:
    fact = facts_of(text, **ALL)[0]
    assert changed(text, fact, Random(7)) == changed(text, fact, Random(7)) != (text, fact.text)
