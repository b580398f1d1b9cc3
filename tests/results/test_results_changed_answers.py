"""Which cases answer or act otherwise than on the base branch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from recording_samples import actual, called, recording, turn
from report_samples import case
from test_results_cause_places import code_between

from agent_eval_results import AgentFacts, AgentTree, ChangedValue, Place, ToolFacts
from agent_eval_results.causes import CaseRuns
from agent_eval_results.causes.agent_diff import Diff, diff_of
from agent_eval_results.causes.changed_answers import changed_answers
from agent_eval_scoring.core.recording import Recording

SAME = Diff(agent=False)
Said = str | tuple[str, Mapping[str, Any]]
"""An answer, or one with the response of a tool before it."""


def run(number: int, said: Said, *, message: str = "Go.", **args: Any) -> Recording:
    answer, response = said if isinstance(said, tuple) else (said, None)
    parts = [] if response is None else called("look", response, **args)
    return recording("x", actual(message, answer, *parts), run=number)


def of(diff: Diff, *cases: CaseRuns) -> list[list[ChangedValue]]:
    """The values of each case that is named."""
    reports = [case(f"x{number}", "passed") for number in range(len(cases))]
    runs = {report.case_id: each for report, each in zip(reports, cases, strict=True)}
    changed = changed_answers(reports, runs.__getitem__, lambda _: "agent", lambda _: diff)
    return [each.values for each in changed]


def found(base: Sequence[Said], head: Sequence[Said], expected: str | None = "", diff: Diff = SAME) -> list[str]:
    """`place: before → after` of each difference; `expected`: "" for the base's first answer, None for nothing."""
    first = base[0] if isinstance(base[0], str) else base[0][0]
    runs = CaseRuns(
        head=[run(at, said) for at, said in enumerate(head)],
        base=[run(at, said) for at, said in enumerate(base)],
        expected=[] if expected is None else [turn("Go.", expected or first)],
    )
    return [
        f"{value.tool or 'answer'}{value.path and ' ' + value.path}: {value.before} → {value.after}"
        for values in of(diff, runs)
        for value in values
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
    assert found([before] * 3, [after] * 3, diff=Diff()) == [f"answer: {difference}"]


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


CLOCKS: dict[str, tuple[str, str]] = {
    "today": ("Today is 2026-09-18.", "Today is 2026-09-21."),
    "tomorrow, in words": ("It arrives on 19 September.", "It arrives on September 22."),
    "the time": ("It is 16:43 now.", "It is 16:13 now."),
    "a stamp": ("Made at 2026-09-18T14:13:20.", "Made at 2026-09-21T14:13:21."),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_changed_answers__what_may_say_when_it_was_said(name: str) -> None:
    before, after = CLOCKS[name]
    assert found([before] * 3, [after] * 3, None, Diff()) == []
    assert found([before] * 3, [after] * 3, "It was 2024-01-01, 09:09.", Diff()) == []
    assert found([before] * 3, [after] * 3, before, Diff())


def test_changed_answers__how_many_runs_count() -> None:
    five, six = "It is 5.", "It is 6."
    assert not found([five] * 3, [six] * 3)  # The pull request changes nothing that the agent reads.
    assert not found([five], [six], None, Diff())  # Nothing says that the base branch always says 5.
    assert not found([five], [six], "It is 7.", Diff())
    assert not found([five], [six], "Today it is 5.", Diff())  # The agent's words differ from run to run.
    assert found([five], [six], five, Diff())
    assert found([five, five], [six], None, Diff())
    assert not found([five, "Now it is 5."], [six], None, Diff())
    assert found([five, "Now it is 5.", five], [six] * 3, None, Diff())
    assert not found([five, "Now it is 5, or 9."], [six] * 2, None, Diff())


def test_changed_answers__words_that_the_pull_request_changes() -> None:
    edit = Diff(agent=False, edits=[({"5", "eur"}, {"6", "usd"})])
    assert found(["It is 5."], ["So it's 6."], None, edit) == ["answer: 5 → 6"]
    assert found(["It costs 20 EUR."], ["That's 20 USD."], None, edit) == ["answer: 20 EUR → 20 USD"]
    once = dataclasses.replace(edit, tools={"look"})
    assert found([("", {"total": 5})], [("", {"total": 6})], None, once) == ["look total: 5 → 6"]
    assert not found(["It is 5."], ["It is 7."], None, edit)
    assert not found(["It is 5."], ["It is fine."], None, edit), "a digit may be gone for other reasons"
    assert found([("", {"a": "5 EUR"})], [("", {})], None, edit)


def test_changed_answers__of_tools() -> None:
    before, after = (
        ("150 in all.", {"total": 150, "items": [{"n": 1}, {"n": 2}]}),
        ("150 in all.", {"total": 0, "items": [{"n": 2}, {"n": 1}]}),
    )
    here = Diff(agent=False, tools={"look"})
    assert found([before], [after], diff=here) == ["look total: 150 → 0"]
    assert found([before], [after], diff=Diff()) == []
    assert found([before], [after], "Some.", diff=here) == [], "nothing says that it is always 150"
    assert found([before] * 2, [after], "Some.", diff=here) == ["look total: 150 → 0"]
    assert found([("7 a1", {"request_id": "a1"})], [("7 a1", {"request_id": "b2"})], diff=here) == []
    said = ("Sales were 150.", {"total": 150}), ("So sales are 0.", {"total": 0})
    assert found([said[0]], [said[1]], diff=here) == ["answer: 150 → 0", "look total: 150 → 0"]
    assert found([said[0]], [("Sorry.", {"error": "503"})], diff=here) == [], "an outage, perhaps"
    noisy = [("Sales were 150.", {"total": n, "load": 2 * n, "rows": 3 * n}) for n in (150, 160)]
    assert found(noisy[:1], noisy[1:], diff=here) == [], "most of what it returns is another value each time"


def test_changed_answers__of_calls() -> None:
    def calls(*cities: str) -> Recording:
        return recording("x", actual("Go.", "ok", *(part for city in cities for part in called("look", {}, city=city))))

    def differences(base: Recording, head: Recording, diff: Diff) -> list[tuple[str, str | None, str | None]]:
        runs = CaseRuns(head=[head], base=[base], expected=base.invocations)
        return [(value.path, value.before, value.after) for values in of(diff, runs) for value in values]

    assert differences(calls("Oslo"), calls("Bergen"), Diff()) == [("city", "Oslo", "Bergen")]
    assert differences(calls("Oslo"), calls("Oslo", "Oslo"), Diff()) == [("", "1", "2")]
    assert differences(calls("Oslo"), calls("Bergen"), SAME) == []
    assert differences(calls("Oslo"), calls("Bergen"), Diff(agent=False, edits=[({"oslo"}, {"bergen"})]))


def test_changed_answers__a_noisy_agent_says_nothing_by_its_other_cases() -> None:
    def runs(base: str, head: str, expected: str) -> CaseRuns:
        return CaseRuns(head=[run(0, head)], base=[run(0, base)], expected=[turn("Go.", expected)])

    coin = runs("It is 5.", "It is 6.", "It is 5.")
    assert of(Diff(), coin, runs("Yes.", "Yes.", "Yes.")) != []
    assert of(Diff(), coin, runs("It is 5.", "It is 6.", "It is 6.")) == []
    assert of(Diff(), coin, runs("Yes.", "Yes.", "Yes, it is.")) == []


def test_changed_answers__another_user_message_ends_the_comparison() -> None:
    runs = CaseRuns(
        head=[run(number, "It is 6.", message="Well?") for number in range(3)],
        base=[run(number, "It is 5.") for number in range(3)],
    )
    assert of(Diff(), runs) == []


# -- what a pull request changes

FILES = {
    "desk/agent.py": """import os
from . import tools

LIMIT = 5
root_agent = LlmAgent(name="desk", model="m", instruction="Help. Prices are in EUR.", tools=[tools.price, tools.stock])
""",
    "desk/tools.py": """import json
from pathlib import Path

VAT = 0.19
STOCK = json.loads((Path(__file__).parent / "stock.json").read_text())


def price(item: str) -> dict:
    return {"price": with_vat(10)}


def stock(item: str) -> dict:
    return {"count": STOCK[item]}


def with_vat(net):
    return net * (1 + VAT)


def unused():
    return 1
""",
    "desk/stock.json": '{"lamp": 5}',
}
CHANGES: dict[str, tuple[str, str, str, bool, set[str]]] = {
    "a helper of a tool": ("desk/tools.py", "net * (1 + VAT)", "net + VAT", False, {"price"}),
    "a constant of a tool": ("desk/tools.py", "VAT = 0.19", "VAT = 0.07", False, {"price"}),
    "data of a tool": ("desk/stock.json", "5", "6", False, {"stock"}),
    "code that nobody uses": ("desk/tools.py", "return 1", "return 2", False, set()),
    "a comment": ("desk/tools.py", "VAT = 0.19", "VAT = 0.19  # percent", False, set()),
    "a local name": ("desk/tools.py", "    return net *", "    made = net\n    return made *", False, set()),
    "an import of a library": ("desk/tools.py", "import json", "import json\nimport logging", False, set()),
    "the instruction": ("desk/agent.py", "in EUR", "in USD", True, set()),
    "a file that is read by unknown code": ("desk/notes.txt", "", "x", True, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_diff_of__what_a_pull_request_changes(name: str) -> None:
    file, old, new, is_agent, tools = CHANGES[name]
    head: dict[str, str | None] = {**FILES, file: FILES.get(file, "").replace(old, new) if old else new}
    places = [ToolFacts(name=each, place=Place(file="desk/tools.py", symbol=each)) for each in ("price", "stock")]
    facts = AgentFacts(name="desk", tools=places, places=[Place(file="desk/agent.py", symbol="root_agent")])
    diff = diff_of(code_between(FILES, head, "desk"), AgentTree(agent="desk", agents=[facts]))
    assert (diff.agent, diff.tools) == (is_agent, tools)


def test_diff_of__without_a_base_or_an_agent() -> None:
    head: dict[str, str | None] = {**FILES, "desk/stock.json": '{"lamp": -5}'}
    code = code_between(FILES, head, "desk")
    assert diff_of(code, None) == Diff(agent=True, edits=[({"5"}, {"-5"})])
    assert diff_of(code, None, lambda _: False) == Diff(agent=False, edits=[])
    assert diff_of(dataclasses.replace(code, changed_files=None), None) == Diff(edits=[])


def test_diff__explains() -> None:
    diff = Diff(edits=[({"open", "a", "150"}, {"closed", "0"}), ({"eur"}, {"usd"})])
    sides = [("150", "0"), ("open", "closed"), ("20 EUR", "20 USD"), ("open", None), ("150", None)]
    assert [diff.explains(*each) for each in sides] == [True] * 5
    others = [("open", "usd"), ("a", None), (None, "0"), ("20 EUR", "20 EUR"), ("x", "closed"), (None, None)]
    assert [diff.explains(*each) for each in others] == [False] * 6


def test_diff__explains_numbers_of_many_digits() -> None:
    diff = diff_of(code_between({"a.txt": "1000001"}, {"a.txt": "1000002.0"}, "desk"), None)
    assert diff.explains("order 1000001", "order 1000002") and not diff.explains("order 1000002", "order 1000001")


State = Mapping[str, Any] | None


def states(base: Sequence[State], head: Sequence[State], diff: Diff, wanted: State = None, **runs: Any) -> list[str]:
    """`key: before → after` of each difference of the final state; `runs`: what else the runs have, by side."""

    def side(states: Sequence[State], name: str) -> list[Recording]:
        made = [run(at, runs.get(name, "Done.")) for at in range(len(states))]
        for each, state in zip(made, states, strict=True):
            each.invocations[-1].session_state = None if state is None else dict(state)
        return made

    expected = [turn("Go.", runs.get("expected", "Done."))]
    expected[-1].session_state = wanted if wanted is None else dict(wanted)
    compared = CaseRuns(head=side(head, "here"), base=side(base, "there"), expected=expected)
    values = [value for each in of(diff, compared) for value in each if value.kind == "state"]
    return [f"{value.path}: {value.before} → {value.after}" for value in values]


OPEN, CLOSED = {"order": {"status": "open", "lines": [{"sku": "A-17"}]}}, {"order": {"status": "closed", "lines": []}}
TOOL = Diff(agent=False, tools={"look"})


def test_changed_answers__of_the_final_state() -> None:
    both = ["order.lines.sku: A-17 → None", "order.status: open → closed"]
    assert states([OPEN], [CLOSED], Diff(), OPEN) == both
    assert not states([OPEN], [CLOSED], TOOL, OPEN), "of one run of a tool it may be chance"
    assert states([OPEN] * 3, [CLOSED] * 3, TOOL) == both
    assert states([{"total": 150}], [{"total": 0}], Diff(), {"total": 150}) == ["total: 150 → 0"]
    assert states([{"total": 150}] * 2, [{"total": 0}], Diff()) == ["total: 150 → 0"]
    for name in ("paid", "valid", "covid", "grid"):
        assert states([{name: 150}] * 2, [{name: 0}], Diff()) == [f"{name}: 150 → 0"], "no id, by its name"
    assert states([{"user:tier": "gold"}], [{}], Diff(), {"user:tier": "gold"}) == ["user:tier: gold → None"]
    edit = Diff(agent=False, edits=[({"open"}, {"closed"})])
    assert states([OPEN], [CLOSED], edit) == both[1:], "the pull request has these words"
    before, after = ("Done.", {"status": "open"}), ("Done.", {"status": "closed"})
    said: dict[str, Any] = {"there": before, "here": after, "expected": "Done, it is open."}
    assert states([{"seen": "open"}], [{"seen": "closed"}], TOOL, **said) == ["seen: open → closed"]


QUIET: dict[str, tuple[Sequence[State], Sequence[State], State]] = {
    "one run of each, and nobody expects it": ([{"total": 150}], [{"total": 0}], None),
    "one of the base's own": ([{"n": 1}, {"n": 2}], [{"n": 2}] * 2, {"n": 1}),
    "it varies here": ([{"n": 1}] * 2, [{"n": 1}, {"n": 2}], {"n": 1}),
    "for one turn only": ([{"temp:n": 1}] * 3, [{"temp:n": 2}] * 3, None),
    "ids": ([{"cart_id": "a1", "user:id": 1}] * 3, [{"cart_id": "b2", "user:id": 2}] * 3, None),
    "times": (
        [{"at": "2026-09-18T14:13:20", "seen": 1790000000.25}] * 3,
        [{"at": "2026-09-21T14:13:20", "seen": 1790200000.5}] * 3,
        None,
    ),
    "an answer that is kept, in other words": (
        [{"report": "The sales of this quarter were 150 thousand."}],
        [{"report": "This quarter we had sales of 150 thousand."}],
        {"report": "The sales of this quarter were 150 thousand."},
    ),
    "not visible here": ([{"n": 1}] * 3, [{"n": 1}, None, None], {"n": 1}),
    "not visible there": ([None] * 3, [{"n": 1}] * 3, {"n": 1}),
    "the order of a list": ([{"items": ["a", "b"]}] * 3, [{"items": ["b", "a"]}] * 3, None),
}


@pytest.mark.parametrize("name", QUIET)
def test_changed_answers__noise_of_the_final_state(name: str) -> None:
    base, head, wanted = QUIET[name]
    assert [states(base, head, diff, wanted) for diff in (TOOL, SAME)] == [[], []]
