"""The session's state at the end, against that of the eval case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from criteria_samples import turn
from evalset_samples import case, eval_set, write
from remark_samples import lines

from agent_eval.runner.scoring import _revealed
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.criteria import Conversation, NotEvaluated, Result, build
from agent_eval_scoring.criteria.base import Scored
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval_scoring.evalset.parse import criterion

State = dict[str, Any]


def after(*states: State | None) -> list[Invocation]:
    return [turn().model_copy(update={"session_state": state}) for state in states]


def talk(expected: State, turns: list[Invocation]) -> Conversation:
    case = EvalCase(eval_id="c", conversation=[], final_session_state=expected)
    return Conversation(case=case, actual=turns, expected=None)


async def score(of: Conversation, **options: Any) -> Result:
    model = CRITERION_MODELS["final_session_state"].model_validate({"threshold": 1.0, **options})
    return await build(criterion("final_session_state", model)).score(of)


EXACT = {"match": "exact"}
CART = {"cart": {"total": 150, "items": ["a", "b"]}}
CASES: dict[str, tuple[State, State, dict[str, Any], float, list[str]]] = {
    # expected, actual, options, score, reasons
    "#4532, the expected state": ({"seen": "Paris"}, {"seen": "Paris", "more": 1}, {}, 1, []),
    "#4532, another value": (
        {"seen": "London"},
        {"seen": "Paris"},
        {},
        0,
        ['state(seen): expected "London", got "Paris"'],
    ),
    "#5037, the initial state and a change": ({"plan": "pro", "n": 2}, {"plan": "pro", "n": 2}, EXACT, 1, []),
    "a missing key": ({"seen": "Paris", "a": 1}, {"a": 1}, {}, 0.5, ['state(seen): missing, expected "Paris"']),
    "numbers by value": ({"n": 150}, {"n": 150.0}, EXACT, 1, []),
    "a text is no number": (
        {"n": 150},
        {"n": "150"},
        {},
        0,
        ['state(n): expected 150, got "150" (expected a number, not text)'],
    ),
    "an object has more": ({"cart": {"total": 150}}, CART, {}, 1, []),
    "an object has more, exactly": (
        {"cart": {"total": 150}},
        CART,
        EXACT,
        0,
        ['state(cart.items): not expected, got ["a", "b"]'],
    ),
    "a value inside": ({"cart": {"total": 0}}, CART, {}, 0, ["state(cart.total): expected 0, got 150"]),
    "temp: does not count": ({"temp:x": 1, "a": 1}, {"a": 1}, EXACT, 1, []),
    "a further key, exactly": ({"a": 1}, {"a": 1, "user:b": 2}, EXACT, 0.5, ["state(user:b): not expected, got 2"]),
    "null is no value": ({"a": None}, {"b": 1}, {}, 1, []),
    "null, exactly": ({"a": 1}, {"a": 1, "b": None}, EXACT, 1, []),
    "null is expected": (
        {"a": None},
        {"a": 1},
        {},
        0,
        ["state(a): expected null, got 1 (expected null, not a number)"],
    ),
    "tolerance": ({"n": 10.0}, {"n": 10.4}, {"keys": {"n": {"tolerance": 0.5}}}, 1, []),
    "out of tolerance": (
        {"n": 10.0},
        {"n": 12},
        {"keys": {"n": {"tolerance": 0.5}}},
        0,
        ["state(n): expected 10.0, got 12 (tolerance: 0.5)"],
    ),
    "a key is ignored": ({"a": 1}, {"a": 1, "at": 7}, {**EXACT, "keys": {"at": "ignore"}}, 1, []),
    "the path of a value": (
        {"cart": {"id": "R-1"}},
        {"cart": {"id": "R-22"}},
        {"keys": {"cart.id": {"pattern": "R-[0-9]+"}}},
        1,
        [],
    ),
    "keys by a glob": ({"user:a": "x", "b": "Y"}, {"user:a": "z", "b": "Y"}, {"keys": {"user:*": "any"}}, 1, []),
}


@pytest.mark.parametrize("name", CASES)
async def test_final_state__each_key(name: str) -> None:
    expected, actual, options, share, reasons = CASES[name]
    result = await score(talk(expected, after({}, actual)), **options)
    assert isinstance(result, Scored) and (result.score, result.turn_scores) == (share, (None, share))
    assert [line for found in result.findings for line in lines(found.why)[1:]] == reasons
    assert bool(result.findings) is (share < 1)


async def test_final_state__both_sides_of_the_keys_that_differ() -> None:
    result = await score(talk({"a": 1, "seen": "London", "gone": []}, after({"a": 1, "seen": "Paris"})))
    assert isinstance(result, Scored)
    [found] = result.findings
    assert lines(found.why)[0] == "1 of 3 keys as expected"
    assert (found.turn, found.expected, found.actual) == (0, 'seen: "London"\ngone: []', 'seen: "Paris"\ngone: (none)')


async def test_final_state__is_not_visible() -> None:
    result = await score(talk({"a": 1}, after({"a": 1}, None)))
    assert isinstance(result, NotEvaluated) and result.code == "state-not-visible"


async def test_final_state__secrets_are_compared() -> None:
    masker = Masker({"secret-of-one": "ONE", "secret-of-two": "TWO"}, held={"ONE", "TWO"})
    shown = talk({"key": masker.text("secret-of-one")}, after({"key": masker.text("secret-of-one")}))
    exact = _revealed(shown, masker, frozenset())
    assert exact is not None and exact.case.final_session_state == {"key": "secret-of-one"}
    assert isinstance(await score(exact), Scored)
    other = replace(shown, actual=after({"key": masker.text("secret-of-two")}))
    revealed = _revealed(other, masker, frozenset())
    assert revealed is not None
    result = await score(revealed)
    assert isinstance(result, Scored) and result.score == 0


def load(root: Path, *states: State | None, **config: Any) -> list[str]:
    cases = [case(eval_id=f"c{at}", final_session_state=state) for at, state in enumerate(states)]
    write(root / "a.evalset.json", eval_set(*cases))
    write(root / "test_config.json", {"criteria": config})
    suite = load_suite(root)
    return [f"{problem.code}: {problem.message} {problem.hint}" for problem in suite.problems]


def test_load_suite__a_state_without_its_criterion_and_the_other_way_round(tmp_path: Path) -> None:
    seen, answer = {"seen": "London"}, {"response_match_score": 1}
    assert load(tmp_path, seen, final_session_state=1) == []
    assert load(tmp_path, seen, None, **answer, final_session_state=1) == [], "the other criterion decides"
    [warning] = load(tmp_path, seen, None, **answer)
    assert warning.startswith("final-state-not-compared: `c0` expects") and '"final_session_state": 1.0' in warning
    [error] = load(tmp_path, seen, None, final_session_state=1)
    assert error.startswith("needs-reference: `c1` has no `final_session_state`")
    [error] = load(tmp_path, seen, final_session_state={"threshold": 1, "keys": {"sen": "any"}})
    assert error == (
        "idle-argument-rule: There is a rule for the key `sen`, but no case expects it. Did you mean `seen`?"
    )
    assert load(tmp_path, seen, final_session_state={"threshold": 1, "keys": {"at": "ignore"}}) == []
