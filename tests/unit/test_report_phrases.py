"""Every fact of a run has a phrase, and only `report/phrases` has sentences about a run."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from agent_eval.report.phrases import PHRASES, text
from agent_eval.results import Facts, Numbers, Reason
from agent_eval.results.origin import CaseWord

SOURCE = Path(__file__).parents[2] / "src" / "agent_eval"
GOLDEN = Path(__file__).parents[1] / "data" / "golden_phrases.txt"
BELOW = ("gate", "runner", "criteria", "results", "baseline", "pipeline")
"""Packages that emit facts."""

LAMP: Numbers = {
    "case": "home.test.json:lamp",
    "metric": "pass",
    "head": 0.0,
    "head_runs": 5,
    "base": 1.0,
    "base_runs": 10,
    "again": False,
}
TIDY: Numbers = {**LAMP, "case": "home.test.json:tidy", "metric": "tidiness", "head": 0.5, "base": 0.75, "again": True}
ONE: Facts = {
    "kind": "provider-unavailable",
    "message": "503 (overloaded)",
    "because": Reason(code="x", message="the reason behind it"),
    "cases": ["home.test.json:lamp"],
    "count": 1,
    "total": 1,
    "runs": 1,
    "passed": 1,
    "numbers": [LAMP],
    "causes": {"agent-import": 1},
    "files": ["home.test.json"],
    "file": "home.test.json",
    "line": 7,
    "agents": ["home"],
    "metric": "pass",
    "metrics": ["tool_trajectory_avg_score"],
    "models": ["gemini-x"],
    "decided": {"greets": [1.0, 0.5]},
    "rate": 1.0,
    "turn": 2,
    "expected": 3,
    "subject": "polite",
    "span": [0.5, 1.0],
    "drop": 0.073,
    "rises": False,
    "remedy": "limit",
    "base_runs": 1,
    "more": 1,
    "missing": [3],
    "part": 2,
    "result": "failed",
    "until": "2027-01-31",
    "owner": "@alice",
    "note": "slow clock",
    "records": False,
    "is_fork": True,
    "quarantined": 1,
    "informing": 0,
    "parts": [Reason(code="x", message="one part"), Reason(code="x", message="another")],
    "call": "find(room)",
    "at": 1,
    "was": 1,
    "wanted": '"lamp"',
    "got": '"fan"',
    "kinds": [],
    "names": {"off": 1, "lamp": 2},
    "blank": True,
    "recall": 0.5,
    "precision": 0.25,
    "votes": "3:2",
    "here": 3.0,
    "there": 1.0,
    "side": "base",
    "conclusion": "cancelled",
}
MANY: Facts = {
    **ONE,
    "cases": [f"home.test.json:c{number}" for number in range(5)],
    "count": 3,
    "total": 9,
    "runs": 4,
    "numbers": [TIDY, LAMP],
    "causes": {"agent-import": 6, "run-timeout": 3},
    "files": [f"{name}.test.json" for name in "abcde"],
    "metric": "tidiness",
    "turn": 0,
    "metrics": ["a_score", "b_score"],
    "remedy": "recorded",
    "base_runs": 4,
    "missing": [2, 3, 5],
    "records": True,
    "is_fork": False,
    "informing": 2,
    "models": ["gemini-x", "none"],
    "at": 2,
    "was": 3,
    "kinds": ["number", "object"],
    "blank": False,
    "votes": "",
    "here": 0.5,
    "there": 2.0,
    "side": "here",
}


def facts_of(phrase: str, facts: Facts) -> dict[str, Any]:
    """The facts that a phrase takes."""
    return {name: value for name, value in facts.items() if name in inspect.signature(PHRASES[phrase]).parameters}


def test_phrases__every_code_is_rendered() -> None:
    lines = [
        f"{name}: {text(Reason(code=name, data=facts_of(name, facts)), 'main')}"
        for name in sorted(PHRASES)
        for facts in (ONE, MANY)
    ]
    assert not [line for line in lines if line == f"{line.partition(':')[0]}: {line.partition(':')[0]}"]
    page = "\n".join(dict.fromkeys(lines)) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(page, encoding="utf-8")
    assert page == GOLDEN.read_text(encoding="utf-8"), "if it reads well: UPDATE_GOLDEN=1 pytest " + Path(__file__).name


@pytest.mark.parametrize("name", PHRASES)
def test_phrases__take_facts_only(name: str) -> None:
    hints, facts = get_type_hints(PHRASES[name]), get_type_hints(Facts)

    assert hints.pop("return") is str
    assert set(hints) <= {*facts, "base"}


def test_text__keeps_a_message_and_falls_back_to_the_code() -> None:
    assert text(Reason(code="failed", message="said before")) == "said before"
    assert text(Reason.of("unknown-code", count=1)) == "unknown-code"
    assert text(Reason(code="failed")) == "failed"


def test_reason__survives_json() -> None:
    reason = Reason.of("quarantined", because=Reason.of("min-pass-rate", passed=1, runs=3, rate=0.5), until="", runs=0)

    again = Reason.model_validate_json(reason.model_dump_json())

    assert "until" not in again.data and again.data["runs"] == 0
    assert again.data["because"] == {
        "code": "min-pass-rate",
        "message": "",
        "data": {"passed": 1, "runs": 3, "rate": 0.5},
    }


def reasons_in_code() -> Iterator[tuple[str, ast.Call]]:
    """Every place below `report/phrases` at which a reason is made."""
    for package in BELOW:
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                    "Reason",
                    "DecisionReasonReport",
                    "NotEvaluated",
                }:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_reasons__have_no_sentence_below_phrases() -> None:
    places = list(reasons_in_code())
    sentences = [
        place
        for place, call in places
        for keyword in call.keywords
        if keyword.arg == "message" and isinstance(keyword.value, ast.Constant | ast.JoinedStr | ast.BinOp)
    ]

    assert len(places) > 3
    assert sentences == []


SAYS_ITSELF = {"policy_checks.py", "custom.py", "packages.py", "registry.py"}
"""Modules with texts that are none about a run: problems of settings and of code."""


def sentences(path: Path) -> Iterator[str]:
    """Texts of a module with three words of prose, apart from docstrings and errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_log = isinstance(node, ast.Call) and ast.unparse(node.func) == "_LOG.debug"
        if is_docstring or is_log or isinstance(node, ast.Raise | ast.Assert):
            skipped.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = [word for word in node.value.split() if word.isalpha() and word.islower()]
            if len(words) >= 3 and node.value not in get_args(CaseWord):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"


def test_gate_and_criteria__have_no_prose() -> None:
    """What judges are asked, in `criteria/judged`, is for a model."""
    modules = sorted([*(SOURCE / "gate").rglob("*.py"), *(SOURCE / "criteria").glob("*.py")])
    modules = [path for path in modules if path.name not in SAYS_ITSELF]

    assert len(modules) > 30
    assert [sentence for path in modules for sentence in sentences(path)] == []


def test_phrases__every_code_that_is_emitted_has_one() -> None:
    """By the first argument of `Reason.of`, `say` and the like, where it is a text."""
    emitted: dict[str, str] = {}
    for package in (*BELOW, "commands"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                    "Reason.of",
                    "NotEvaluated.of",
                    "say",
                    "_reason",
                    "add",
                }:
                    phrases = [keyword.value for keyword in node.keywords if keyword.arg == "phrase"] or node.args[:1]
                    emitted |= {
                        literal.value: f"{path.relative_to(SOURCE)}:{node.lineno}"
                        for phrase in phrases
                        for literal in ([phrase] if isinstance(phrase, ast.Constant) else ast.walk(phrase))
                        if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value
                    }
    missing = {name: place for name, place in emitted.items() if name not in PHRASES}

    assert len(emitted) > 30
    assert missing == {}
