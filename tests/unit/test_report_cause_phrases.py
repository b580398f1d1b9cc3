"""Causes in words: a sentence with values, a title without, the counter-evidence, the place."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from agent_eval.report.phrases import cause_evidence, cause_line, cause_sentence, cause_title, changed_here
from agent_eval.results import CauseCounts, CauseData, CauseExample, CauseReport, Place
from agent_eval.results.causes import CauseCode


def a_cause(code: str, *, compared: bool = True, places: tuple[Place, ...] = (), **data: Any) -> CauseReport:
    return CauseReport.model_validate(
        {
            "code": code,
            "data": CauseData(**data),
            "cases": ["a.test.json:one", "a.test.json:two"],
            "failing": CauseCounts(total=12, having=12),
            "passing": CauseCounts(total=10, having=1),
            "base": CauseCounts(total=22, having=0) if compared else None,
            "example": CauseExample(case_id="a.test.json:one", run=0, turn=0),
            "changed_here": list(places),
        }
    )


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "tool-empty",
        {"tool": "find", "actual": '{"devices": []}'},
        'find returned {"devices": []}',
        "find returns nothing",
    ),
    ("tool-empty", {"tool": "find", "actual": "null"}, "find returned nothing", "find returns nothing"),
    (
        "tool-error",
        {"tool": "find", "actual": "no such room"},
        "find answered with an error: no such room",
        "find reports an error",
    ),
    (
        "tool-response",
        {"tool": "heat", "names": ["target"], "actual": "20", "expected": "22"},
        "heat returned another target than on main (20, was 22)",
        "heat returns another target",
    ),
    (
        "tool-response",
        {"tool": "heat", "actual": "{}"},
        "heat returned something else than on main",
        "heat returns something else",
    ),
    (
        "call-argument",
        {"tool": "find", "names": ["place", "room"], "renamed": True, "new": ["place"], "gone": ["room"]},
        "find is called with place instead of room",
        "find is called with place instead of room",
    ),
    (
        "call-argument",
        {"tool": "find", "names": ["room"], "actual": '"Bad"', "expected": '"bath"'},
        'find is called with another room than on main ("Bad" instead of "bath")',
        "find is called with another room",
    ),
    ("call-missing", {"tool": "find"}, "find is not called; on main it is", "find is no longer called"),
    ("call-extra", {"tool": "find"}, "find is called; on main it is not", "find is called as well"),
    (
        "sub-agent",
        {"agent": "root", "actual": "y", "expected": "x"},
        "root hands over to y, on main to x",
        "x is not reached",
    ),
    (
        "exception",
        {"exception": "KeyError", "place": Place(file="home/tools.py", first=33, symbol="_thermostat")},
        "KeyError at home/tools.py:33 (_thermostat)",
        "_thermostat raises KeyError",
    ),
    ("deadline", {"tool": "find", "seconds": 4.0}, "find had not returned after 4 s", "find does not return in time"),
    ("answer", {"actual": "Sorry."}, '2 cases answer "Sorry."', "the same answer"),
    ("answer-change", {"gone": ["lamp"]}, 'The answers no longer say "lamp"', "the answers lack words"),
    ("criterion", {"metric": "tone"}, "tone says no; on main it says yes", "tone says no"),
]


@pytest.mark.parametrize(("code", "data", "sentence", "line"), CASES)
def test_cause_sentence__each_kind(code: str, data: dict[str, Any], sentence: str, line: str) -> None:
    cause = a_cause(code, **data)
    assert cause_sentence(cause, "main") == sentence
    assert cause_line(cause) == line
    assert "main" not in cause_sentence(a_cause(code, compared=False, **data), "main")


def test_cause_line__without_a_base_no_one_knows_what_it_did_before() -> None:
    assert cause_line(a_cause("call-missing", compared=False, tool="find")) == "find is not called"


def test_cause_sentence__every_code_has_one() -> None:
    assert {code for code, *_ in CASES} == set(get_args(CauseCode))


def test_cause_evidence__with_and_without_a_base() -> None:
    cause = a_cause("tool-empty", tool="find")
    evidence = "in 12 of 12 failing cases and 1 of 10 passing ones"
    assert cause_evidence(cause, "main") == f"{evidence}; on main in none of 22 runs"
    assert cause_evidence(a_cause("tool-empty", compared=False, tool="find"), "main") == evidence


def test_cause_title__counts_causes() -> None:
    find, heat = a_cause("tool-empty", tool="find"), a_cause("tool-error", tool="heat")
    assert cause_title([]) == ""
    assert cause_title([find]) == "one cause: find returns nothing"
    assert cause_title([find, heat]) == "two causes: find returns nothing, and heat reports an error"
    assert cause_title([find, heat, find]) == "three causes: find returns nothing, heat reports an error, and 1 more"


def test_changed_here__lines_and_symbols() -> None:
    places = (Place(file="home/tools.py", first=43, last=47, symbol="find"), Place(file="data.json"))
    assert changed_here(a_cause("tool-empty", tool="find")) == ""
    assert (
        changed_here(a_cause("tool-empty", tool="find", places=places))
        == "changed here: home/tools.py:43-47 (find), data.json"
    )


def test_cause_sentence__untrusted_text_stays_in_a_line_and_short() -> None:
    text = "x\n\x1b[31m\u202e" + "y" * 1_000_000
    for code, data, _, _ in CASES:
        forged: dict[str, Any] = {name: text if isinstance(value, str) else value for name, value in data.items()}
        cause = a_cause(code, **forged)
        for said in (cause_sentence(cause, "main"), cause_line(cause)):
            assert len(said) < 400
            assert said.isprintable()
