"""Mutants of a stored conversation: the same with one mistake that a user would mind. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, text_of
from agent_eval_scoring.core.invocation import Invocation, InvocationEvents, answered, contents_of, tool_calls
from agent_eval_scoring.criteria import literal, render_call
from agent_eval_scoring.criteria.facts import Fact, changed, facts_of

Kind = Literal[
    "number", "date", "name", "status", "apology", "other-answer", "empty", "turn-missing", "call-dropped",
    "call-doubled", "calls-swapped", "argument", "tool-error", "state", "state-missing",
]  # fmt: skip
KINDS: Mapping[Kind, str] = {
    "number": "a number changed", "date": "a date or time changed", "name": "a name, code or quote changed",
    "status": "a status or a denial changed", "apology": "an apology instead", "other-answer": "another case's answer",
    "empty": "an empty answer", "turn-missing": "a turn missing", "call-dropped": "a call dropped",
    "call-doubled": "a call doubled", "calls-swapped": "two calls swapped", "argument": "another argument",
    "tool-error": "a tool's error passed over", "state": "a value of the final state changed",
    "state-missing": "a key of the final state missing",
}  # fmt: skip
OF_CALLS: frozenset[Kind] = frozenset({"call-dropped", "call-doubled", "calls-swapped", "argument", "tool-error"})
OF_STATE: frozenset[Kind] = frozenset({"state", "state-missing"})
_OF_FACTS: Mapping[str, Kind] = {
    "number": "number", "percent": "number", "amount": "number", "date": "date", "time": "date", "state": "status",
    "negation": "status",
}  # fmt: skip
"""By the kind of a fact; the others are names."""
_APOLOGY = "I'm sorry, I can't help with that."
_ERROR = {"error": "503 Service Unavailable"}
_Change = tuple[Kind, str, str, Invocation]
"""What was said or done, what is instead, and the turn."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A conversation with one mistake."""

    kind: Kind
    turn: int
    """0-based."""
    old: str
    new: str
    turns: tuple[Invocation, ...] = field(repr=False)


def mutants(
    actual: Sequence[Invocation],
    expected: Sequence[Invocation] | None,
    state: Mapping[str, Any],
    *,
    answers: bool,
    calls: bool,
    others: Sequence[str] = (),
    rng: Random,
    most: int,
) -> list[Mutant]:
    """The mutants of a run that passes. What would mean the same is none: a fact that nobody expects, calls that were
    made at once in another order, an apology for a denial.

    Args:
        actual: The run.
        expected: Its references. What these lack is changed only with `answers` and `calls`.
        state: The expected final state.
        answers: Whether a criterion looks at answers without references.
        calls: Whether one looks at calls without references.
        others: Answers of other cases.
        rng: Chooses.
        most: Mutants of a kind.
    """
    made: list[Mutant] = []
    counts = Counter[Kind]()
    # In random order, so that `most` does not always take the mistakes of the first turns.
    for turn in rng.sample(range(len(actual)), len(actual)):
        own = actual[turn]
        wanted = expected[turn] if expected is not None and len(expected) == len(actual) else None
        reference = wanted if wanted is not None and expects_answer(wanted) else None
        changes = list[Iterator[_Change]]()
        if (answers or reference is not None) and text_of(own.final_response).strip():
            changes.append(_answers(own, reference, others, rng, lambda kind: counts[kind] < most))
        reference = wanted if wanted is not None and tool_calls(wanted.intermediate_data) else None
        if calls or reference is not None:
            changes.append(_calls(own, reference, rng))
        # Criteria look at the state after the last turn.
        if turn == len(actual) - 1:
            changes.append(_states(own, state, rng))
        for kind, old, new, other in (change for each in changes for change in each):
            if counts[kind] < most:
                counts[kind] += 1
                turns = (*actual[:turn], other, *actual[turn + 1 :])
                made.append(Mutant(kind=kind, turn=turn, old=old, new=new, turns=turns))
    if len(actual) > 1:
        turn = rng.randrange(len(actual))
        old, turns = literal(text_of(actual[turn].user_content)), (*actual[:turn], *actual[turn + 1 :])
        made.append(Mutant(kind="turn-missing", turn=turn, old=old, new="", turns=turns))
    return sorted(made, key=lambda mutant: (list(KINDS).index(mutant.kind), mutant.turn))


def expects_answer(turn: Invocation) -> bool:
    """Whether a reference has an answer."""
    return bool(text_of(turn.final_response).strip())


def _read(text: str) -> tuple[Fact, ...]:
    return facts_of(text, names=True, states=True, negation=True)


def _answers(
    turn: Invocation, wanted: Invocation | None, others: Sequence[str], rng: Random, wants: Callable[[Kind], bool]
) -> Iterator[_Change]:
    text = text_of(turn.final_response)
    reference = None if wanted is None else text_of(wanted.final_response)
    # One for each value, the first one in the text: a number that is repeated counts once.
    facts = {(fact.family, fact.values): fact for fact in reversed(_read(text))}
    names = [fact.text for other in others for fact in _read(other) if fact.kind == "name"]
    for fact in rng.sample(list(facts.values()), len(facts)):
        kind = _OF_FACTS.get(fact.kind, "name")
        # A fact that nobody expects may change without being wrong.
        counts = reference is None or any(fact.is_same(each) for each in _read(reference))
        if counts and wants(kind) and (found := changed(text, fact, rng, names)) is not None:
            yield kind, literal(fact.text), literal(found[1]), with_answer(turn, found[0])
    own = {_plain(text), _plain(reference or "")}
    different = [other for other in others if _plain(other) not in own]
    # "No, that is not possible" and an apology say the same.
    only_denies = {family for family, _ in facts} == {"negation"}
    whole: dict[Kind, str | None] = {
        "apology": None if only_denies else _APOLOGY,
        "other-answer": rng.choice(different) if different else None,
        "empty": "",
    }
    for kind, new in whole.items():
        if new is not None:
            yield kind, literal(text), literal(new) if new else "", with_answer(turn, new)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def with_answer(turn: Invocation, text: str) -> Invocation:
    """The turn with another final answer, also where its events repeat it; "" for none."""
    final = None if not text else Content(role="model", parts=[Part(text=text)])
    before, data = text_of(turn.final_response), turn.intermediate_data
    # ADK's last event repeats the final response, and some judges read the events.
    if isinstance(data, InvocationEvents):
        events = [
            event.model_copy(update={"content": final}) if text_of(event.content) == before else event
            for event in data.invocation_events
        ]
        data = InvocationEvents(invocation_events=events)
    return turn.model_copy(update={"final_response": final, "intermediate_data": data})


def _calls(turn: Invocation, wanted: Invocation | None, rng: Random) -> Iterator[_Change]:
    """Changes of the calls that the reference expects; without one, of all."""
    expected = None if wanted is None else tool_calls(wanted.intermediate_data)
    pairs = list(answered(turn.intermediate_data))
    # Calls of one event are made at once.
    events = [
        at for at, (_, parts) in enumerate(contents_of(turn.intermediate_data)) for part in parts if part.function_call
    ]
    is_flat = not isinstance(turn.intermediate_data, InvocationEvents)
    places = [at for at, (call, _) in enumerate(pairs) if expected is None or call.name in {e.name for e in expected}]
    for at in rng.sample(places, len(places)):
        call, answer = pairs[at]
        shown = render_call(call)
        # By identity: an equal call of the turn stays.
        yield "call-dropped", shown, "", _with(turn, {id(call): [], id(answer): []})
        twice: dict[int, list[_Value]] = {id(each): [each, _again(each)] for each in (call, answer) if each is not None}
        yield "call-doubled", shown, f"{shown} twice", _with(turn, twice)
        if answer is not None and not answer.is_error:
            failed = answer.model_copy(update={"response": _ERROR})
            yield "tool-error", shown, f"an error of {call.name}, the same answer", _with(turn, {id(answer): [failed]})
        for name, value in (call.args or {}).items():
            alike = expected is None or any(e.name == call.name and (e.args or {}).get(name) == value for e in expected)
            if alike and (new := _value(value, rng)) is not None:
                other = call.model_copy(update={"args": {**(call.args or {}), name: new}})
                yield "argument", shown, render_call(other), _with(turn, {id(call): [other]})
        following, its_answer = pairs[at + 1] if at + 1 in places else (call, None)
        # Equal calls, and calls that a model made at once, have no order.
        if (call.name, call.args) != (following.name, following.args) and (is_flat or events[at] != events[at + 1]):
            swapped: dict[int, list[_Value]] = {id(call): [following], id(following): [call]}
            if answer is not None and its_answer is not None:
                swapped |= {id(answer): [its_answer], id(its_answer): [answer]}
            after = render_call(following)
            yield "calls-swapped", f"{shown}, {after}", f"{after}, {shown}", _with(turn, swapped)


def _states(turn: Invocation, wanted: Mapping[str, Any], rng: Random) -> Iterator[_Change]:
    """Changes of the keys that the final state has as expected."""
    state = turn.session_state or {}
    keys = [key for key, value in wanted.items() if value is not None and state.get(key) == value]
    for key in rng.sample(keys, len(keys)):
        shown = f"{key}: {literal(state[key])}"
        without = {name: value for name, value in state.items() if name != key}
        yield "state-missing", shown, "", turn.model_copy(update={"session_state": without})
        if (new := _value(state[key], rng)) is not None:
            other = turn.model_copy(update={"session_state": {**state, key: new}})
            yield "state", shown, f"{key}: {literal(new)}", other


def _value(value: Any, rng: Random) -> Any:
    """Another value of the same type; None if there is none to be sure of."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        changes = ((key, new) for key, item in items if (new := _value(item, rng)) is not None)
        for key, new in changes:
            return {**value, key: new} if isinstance(value, dict) else [*value[:key], new, *value[key + 1 :]]
        return None
    # Before int, of which bool is a subclass.
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice((1, 2, 7))
    if not isinstance(value, str) or not value:
        return None
    whole = (changed(value, fact, rng) for fact in _read(value) if fact.text == value and fact.kind != "negation")
    return next((found[0] for found in whole if found is not None), f"{value[:-1]}{'x' if value[-1] != 'x' else 'y'}")


_Value = FunctionCall | FunctionResponse


def _again(value: _Value) -> _Value:
    return value.model_copy(update={"id": value.id and f"{value.id}-again"})


def _with(turn: Invocation, instead: Mapping[int, Sequence[_Value]]) -> Invocation:
    """The turn with others in place of some calls and responses, by identity. What is measured of a call that is gone
    goes, too, with the calls inside it.
    """
    events = []
    for event, parts in contents_of(turn.intermediate_data):
        kept = []
        for part in parts:
            value = part.function_call or part.function_response
            names = {FunctionCall: "function_call", FunctionResponse: "function_response"}
            news = [part.model_copy(update={names[type(new)]: new}) for new in instead.get(id(value), ())]
            kept += news if id(value) in instead else [part]
        content = (event.content or Content()).model_copy(update={"parts": kept})
        events.append(event.model_copy(update={"content": content}))
    data = InvocationEvents(invocation_events=events)
    gone = {call.id for call in tool_calls(turn.intermediate_data)} - {call.id for call in tool_calls(data)} - {None}
    spans = [span for span in turn.spans or () if not {span.call_id, span.inside} & gone]
    return turn.model_copy(update={"intermediate_data": data, "spans": None if turn.spans is None else spans})
