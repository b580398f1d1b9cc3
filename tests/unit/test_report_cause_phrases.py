"""Causes in words: a sentence with values, a title without, the counter-evidence, the place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest
from comparison_samples import cause
from golden_files import check
from report_samples import good

from agent_eval.report.phrases import cause_evidence, cause_line, cause_sentence, cause_title, changed_here
from agent_eval.results import CauseReport, Place
from agent_eval.results.causes import CauseCode

VALUES: Mapping[str, Any] = {
    "agent": "root",
    "tool": "find",
    "names": ["room"],
    "actual": '"Bad"',
    "expected": '"bath"',
    "exception": "KeyError",
    "place": Place(file="home/tools.py", first=33, symbol="_thermostat"),
    "seconds": 4.0,
    "metric": "tone",
    "rubric": "polite",
    "gone": ["lamp"],
    "new": ["fan"],
}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "all": VALUES,
    "only what every cause has": {name: VALUES[name] for name in ("tool", "exception", "metric")},
    "an empty value": {**VALUES, "actual": "null", "tool": ""},
    "several names": {**VALUES, "names": ["room", "place"]},
    "another name": {**VALUES, "renamed": True},
    "a new name": {**VALUES, "renamed": True, "gone": []},
    "no name": {**VALUES, "renamed": True, "new": [], "expected": None},
}


def a_cause(code: CauseCode, *, compared: bool = True, places: Sequence[Place] = (), **data: Any) -> CauseReport:
    made = cause(code, [good("one"), good("two")], list(places), call=0, failing=12, **data)
    return made if compared else made.model_copy(update={"base": None})


def test_causes__each_code_with_and_without_a_base() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for code, (name, facts), compared in itertools.product(get_args(CauseCode), FACTS.items(), (True, False)):
        made = a_cause(code, compared=compared, **facts)
        assert compared or "main" not in cause_sentence(made, "main"), (code, name)
        lines.append(f"{code}: {cause_sentence(made, 'main')} | {cause_line(made)}")
    check("golden_causes.txt", "\n".join(dict.fromkeys(lines)) + "\n")


def test_cause_evidence__with_and_without_a_base() -> None:
    evidence = "in 2 of 12 failing cases and 1 of 6 passing ones"
    assert cause_evidence(a_cause("tool-empty", tool="find"), "main") == f"{evidence}; on main in none of 2 runs"
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


@pytest.mark.parametrize("code", get_args(CauseCode))
def test_cause_sentence__untrusted_text_stays_in_a_line_and_short(code: CauseCode) -> None:
    text = "x\n\x1b[31m\u202e" + "y" * 1_000_000
    for facts in FACTS.values():
        forged: dict[str, Any] = {name: text if isinstance(value, str) else value for name, value in facts.items()}
        made = a_cause(code, **forged)
        for said in (cause_sentence(made, "main"), cause_line(made)):
            assert len(said) < 400
            assert said.isprintable()
