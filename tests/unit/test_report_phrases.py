"""Every fact of a run has a phrase, and only `report/phrases` has sentences about a run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from golden_files import check

from agent_eval.report.phrases import PHRASES, text
from agent_eval.results import Facts, Numbers, Reason
from agent_eval.results.origin import CaseWord

SOURCE = Path(__file__).parents[2] / "src" / "agent_eval"
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
BY_TYPE: Mapping[Any, tuple[object, object]] = {
    int: (1, 3),
    float: (1.0, 0.25),
    bool: (True, False),
    list[str]: (["one"], [*"abcde"]),
    list[int]: ([3], [2, 3, 5]),
    list[float]: ([0.5, 1.0],) * 2,
    list[Numbers]: ([LAMP], [TIDY, LAMP]),
    list[Reason]: ([Reason(code="x", message="one part"), Reason(code="x", message="another")],) * 2,
    dict[str, list[float]]: ({"greets": [1.0, 0.5]},) * 2,
    Reason | None: (Reason(code="x", message="the reason behind it"),) * 2,
}
"""Facts about one thing, and about several."""
BY_NAME: Mapping[str, tuple[object, object]] = {
    "cases": (["home.test.json:lamp"], [f"home.test.json:c{number}" for number in range(5)]),
    "causes": ({"agent-import": 1}, {"agent-import": 6, "run-timeout": 3}),
    "here": (3.0, 0.5),
    "informing": (0, 2),
    "kind": ("provider-unavailable",) * 2,
    "kinds": ([], ["number", "object"]),
    "metric": ("pass", "tidiness"),
    "models": (["gemini-x"], ["gemini-x", "none"]),
    "names": ({"off": 1, "lamp": 2},) * 2,
    "remedy": ("limit", "recorded"),
    "rises": (False, True),
    "side": ("base", "here"),
    "there": (1.0, 2.0),
    "total": (1, 9),
    "turn": (2, 0),
    "votes": ("3:2", ""),
}
"""Facts whose values a phrase looks at."""
NONE: Mapping[str, Mapping[str, Any]] = {
    "part": {"count": 0, "runs": 0},
    "quarantined-cases": {"count": 0},
    "call-missing": {"at": 0},
    "num-runs-differ": {"count": 0},
    "not-replayed": {"message": ""},
}
"""Values that may be absent, where a phrase then says something else."""


def facts_of(phrase: str) -> Iterator[dict[str, Any]]:
    """The facts that a phrase takes, of one thing, of several and of none; a text is its own name."""
    hints = get_type_hints(Facts)
    names = inspect.signature(PHRASES[phrase]).parameters.keys() - {"base"}
    pairs = {name: BY_NAME.get(name) or BY_TYPE.get(hints[name], (name, name)) for name in names}
    one, several = ({name: pair[at] for name, pair in pairs.items()} for at in (0, 1))
    yield from (one, several, *({**several, name: none} for name, none in NONE.get(phrase, {}).items()))


def test_phrases__every_code_is_rendered() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = [
        f"{name}: {text(Reason(code=name, data=facts), 'main')}" for name in sorted(PHRASES) for facts in facts_of(name)
    ]
    assert not [line for line in lines if line == f"{line.partition(':')[0]}: {line.partition(':')[0]}"]
    check("golden_phrases.txt", "\n".join(dict.fromkeys(lines)) + "\n")


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


def calls(packages: Iterable[str], functions: Container[str]) -> Iterator[tuple[str, ast.Call]]:
    """Every call of some functions in the packages, with its place."""
    for package in packages:
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in functions:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_reasons__have_no_sentence_below_phrases() -> None:
    places = list(calls(BELOW, {"Reason", "DecisionReasonReport", "NotEvaluated"}))
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
    for place, call in calls((*BELOW, "commands"), {"Reason.of", "NotEvaluated.of", "say", "_reason", "add"}):
        for phrase in [keyword.value for keyword in call.keywords if keyword.arg == "phrase"] or call.args[:1]:
            for literal in [phrase] if isinstance(phrase, ast.Constant) else ast.walk(phrase):
                if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value:
                    emitted[literal.value] = place
    missing = {name: place for name, place in emitted.items() if name not in PHRASES}

    assert len(emitted) > 30
    assert missing == {}
