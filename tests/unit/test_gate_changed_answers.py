"""Which cases answer or act otherwise than on the base branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from recording_samples import actual, called, recording, turn
from report_samples import case

from agent_eval.core.recording import Recording
from agent_eval.gate.causes import CaseRuns
from agent_eval.gate.changed_answers import Diff, changed_answers

SAME = Diff(touches_agent=False)
DAY = 86_400.0
Said = str | tuple[str, Mapping[str, Any]]
"""An answer, or one with the response of a tool before it."""


def run(number: int, said: Said, *, at: float = 1_790_000_000.0, message: str = "Go.", **args: Any) -> Recording:
    answer, response = said if isinstance(said, tuple) else (said, None)
    parts = [] if response is None else called("look", response, **args)
    return recording("x", actual(message, answer, *parts), run=number, started_at=at)


def found(
    base: Sequence[Said], head: Sequence[Said], expected: str | None = "", diff: Diff = SAME, days: float = 0.0
) -> list[str]:
    """`place: before → after` of each difference; `expected`: "" for the base's first answer, None for nothing."""
    first = base[0] if isinstance(base[0], str) else base[0][0]
    runs = CaseRuns(
        head=[run(at, said) for at, said in enumerate(head)],
        base=[run(at, said, at=1_790_000_000.0 - days * DAY) for at, said in enumerate(base)],
        expected=[] if expected is None else [turn("Go.", expected or first)],
    )
    changed = changed_answers([case("x", "passed")], lambda _: runs, diff)
    return [
        f"{value.tool or 'answer'}{value.path and ' ' + value.path}: {value.before} → {value.after}"
        for each in changed
        for value in each.values
    ]


OTHER = {
    "a number": ("Sales were 150 thousand.", "Sales were 0 thousand.", "150 thousand → 0 thousand"),
    "a state, by its spelling": ("Order A-17 is open.", "Order A-17 is OPEN.", "open → OPEN"),
    "a state": ("Order A-17 is open.", "Order A-17 is closed.", "open → closed"),
    "a date": ("It arrives on 3 May 2026.", "It arrives on 5 May 2026.", "3 May 2026 → 5 May 2026"),
    "a time": ("We close at 18:00.", "We close at 19:30.", "18:00 → 19:30"),
    "a currency": ("It costs 20 EUR.", "It costs 20 USD.", "20 EUR → 20 USD"),
    "a unit": ("It is 5 km away.", "It is 5 miles away.", "5 km → 5 miles"),
    "a number in a table": ("| a | 5 |\n| b | 7 |", "| a | 5 |\n| b | 8 |", "7 → 8"),
    "a name": ("Please ask Anna Weber.", "Please ask Anna Schmidt.", "Anna Weber → Anna Schmidt"),
    "an address": ("See https://a.example/x now.", "See https://a.example/y now.", "https://a.example/x → https://a.example/y"),
    "an id": ("Your ticket is INC-2041.", "Your ticket is INC-2042.", "INC-2041 → INC-2042"),
    "a quote": ('Press "Start".', 'Press "Stop".', "Start → Stop"),
    "a word that is no fact": ("You are in the gold tier.", "You are in the silver tier.", "gold → silver"),
    "a fact that is gone": ("You have 30 days of holiday.", "There is a page.", "30 days → None"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "difference"), OTHER.values(), ids=OTHER)
def test_changed_answers__one_run_that_the_case_speaks_against(before: str, after: str, difference: str) -> None:
    assert found([before], [after], diff=Diff()) == [f"answer: {difference}"]
    assert found([before] * 3, [after] * 3, None) == [f"answer: {difference}"]


NOISE: dict[str, tuple[Sequence[Said], Sequence[Said]]] = {
    "other words": (["It costs 20 EUR."], ["The price is €20."]),
    "markdown": (["Sales: 150, costs: 20."], ["- **Sales**: 150\n- **Costs**: 20"]),
    "the order of a list": (["We have red, Blue Line and 5 more."], ["We have 5 more, Blue Line and red."]),
    "a random id": (["Ticket INC-2041 is open."], ["Ticket INC-9377 is open."]),
    "a uuid": (["Id 3f2a77bc-1111-4222-8333-abcdefabcdef."], ["Id 9e2a77bc-2222-4222-8333-abcdefabcdef."]),
    "one of the base's own answers": (["It is 5.", "It is 6."], ["It is 6."]),
    "answers that vary here": (["It is 5."], ["It is 5.", "It is 6."]),
    "a fact that the base branch sometimes says": (["It is 5.", "It is 5, or 6."], ["It is 5 or 6."]),
    "an error's text that is left out": (["Fine."], [""]),
}


@pytest.mark.parametrize("name", NOISE)
def test_changed_answers__noise(name: str) -> None:
    before, after = NOISE[name]
    expected = "Ticket INC-5555, id 1a2a77bc-3333-4222-8333-abcdefabcdef, 7 of them."
    assert found(before, after, expected, Diff()) == []


CLOCKS: dict[str, tuple[str, str, float]] = {
    # Runs here start on 2026-09-21 at 14:13 UTC.
    "today": ("Today is 2026-09-18.", "Today is 2026-09-21.", 3),
    "tomorrow, in words": ("It arrives on 19 September.", "It arrives on September 22.", 3),
    "the time": ("It is 16:43 now.", "It is 16:13 now.", 1 - 30 / 1440),
    "a stamp": ("Made at 2026-09-18T14:13:20.", "Made at 2026-09-21T14:13:21.", 3),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_changed_answers__what_says_when_it_was_said(name: str) -> None:
    before, after, days = CLOCKS[name]
    assert found([before] * 3, [after] * 3, diff=Diff(), days=days) == []
    other = after.replace("21", "29").replace("22", "29").replace("16:13", "16:20")
    assert found([before] * 3, [other] * 3, diff=Diff(), days=days)


def test_changed_answers__how_many_runs_count() -> None:
    five, six = "It is 5.", "It is 6."
    assert not found([five], [six])  # The pull request changes nothing.
    assert not found([five], [six], None, Diff())  # Nothing says that the base branch always says 5.
    assert not found([five], [six], "It is 7.", Diff())
    assert found([five], [six], five, Diff())
    assert found([five, five], [six], None, Diff())
    assert found([five], [six], None, Diff(gone={"5"}, new={"6"}))  # The very words.
    assert not found([five], [six], None, Diff(gone={"5"}, new={"8"}))
    assert not found([five] * 2, [six] * 3, None)
    assert found([five] * 3, [six] * 3, None)


def test_changed_answers__of_tools() -> None:
    before, after = (
        ("Done.", {"total": 150, "items": [{"n": 1}, {"n": 2}]}),
        ("Done.", {"total": 0, "items": [{"n": 2}, {"n": 1}]}),
    )
    here = Diff(tools={"look"})
    assert found([before], [after], diff=here) == ["look total: 150 → 0"]
    assert found([before], [after]) == []
    assert found([before], [after], diff=Diff(tools={"other"})) == []
    assert found([before] * 2, [after], diff=Diff()) == ["look total: 150 → 0"]
    assert found([("", {"request_id": "a1"})], [("", {"request_id": "b2"})], diff=here) == []
    said = ("Sales were 150.", {"total": 150}), ("Sales were 0.", {"total": 0})
    assert found([said[0]], [said[1]], None, here) == ["answer: 150 → 0", "look total: 150 → 0"]
    assert found([("", {"rows": ["30 days"]})], [("", {"rows": []})], diff=here) == ["look rows: 30 days → None"]


def test_changed_answers__of_calls() -> None:
    def calls(*cities: str) -> Recording:
        return recording("x", actual("Go.", "ok", *(part for city in cities for part in called("look", {}, city=city))))

    def differences(base: Recording, head: Recording, diff: Diff) -> list[tuple[str, str | None, str | None]]:
        expected = base.invocations
        runs = CaseRuns(head=[head], base=[base], expected=expected)
        changed = changed_answers([case("x", "passed")], lambda _: runs, diff)
        return [(value.path, value.before, value.after) for each in changed for value in each.values]

    assert differences(calls("Oslo"), calls("Bergen"), Diff()) == [("city", "Oslo", "Bergen")]
    assert differences(calls("Oslo"), calls("Oslo", "Oslo"), Diff()) == [("", "1", "2")]
    assert differences(calls("Oslo"), calls("Bergen"), SAME) == []


def test_changed_answers__another_user_message_ends_the_comparison() -> None:
    runs = CaseRuns(
        head=[run(number, "It is 6.", message="Well?") for number in range(3)],
        base=[run(number, "It is 5.") for number in range(3)],
    )
    assert changed_answers([case("x", "passed")], lambda _: runs, Diff()) == []
