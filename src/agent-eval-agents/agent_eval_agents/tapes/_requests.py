"""What an agent asks its model: in canonical form, its fingerprint, and the first difference between two.

And why a call has no answer. Pure.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

from agent_eval_agents.messages import ModelAsked, ToolAsked
from agent_eval_agents.tape_rules import ToolPolicy, ToolRules, VolatileRule, steady
from agent_eval_agents.tapes._tape import (
    DEEPEST,
    ModelExchange,
    RecordedCall,
    Tape,
    TooDeep,
    digest,
    facts_of,
    fingerprint_of,
    is_secret,
    masked,
    normal,
)
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import MASK

_BEFORE, _OF_TEXT, _OF_VALUE = 16, 56, 100
"""Characters that a difference shows: of a text before its first difference, and in all; of any other value."""
_NONE = object()
"""Stands for a value that one of two requests does not have."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request in canonical form."""

    asked: ModelAsked
    """With its settings in canonical form, without its request."""
    parts: Mapping[str, Any]
    """Its values, by their digests; see `Tape.parts`."""
    references: Mapping[str, str]
    """See `ModelExchange.request`."""
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first difference between a request and a recorded one."""

    place: str
    """`instruction`, `contents[3].parts[0].text`, `config.temperature`, ..."""
    recorded: str
    """What is there on the tape, shortened, as JSON; `nothing`, if it has no such place."""
    now: str


class Obstacle(StrEnum):
    """Why a call can't be answered (docs/problems.md)."""

    NOT_RECORDED = "tool-not-recorded"
    MISSING = "tool-tape-missing"
    STALE = "tool-tape-stale"
    NOT_REPLAYABLE = "tool-not-replayable"
    MODEL_NOT_RECORDED = "model-not-recorded"
    CALLS_LEFT = "model-calls-left"
    CHANGED = "tape-changed"


class Unanswerable(AgentEvalError):
    """A call that the tape does not answer, and that must not run."""

    def __init__(
        self,
        obstacle: Obstacle,
        call: ToolAsked | ModelAsked | None = None,
        *,
        nearest: RecordedCall | None = None,
        difference: Difference | None = None,
        left: Sequence[RecordedCall | ModelExchange] = (),
        why: str = "",
        by_hand: bool = False,
    ) -> None:
        """Describes the call.

        Args:
            obstacle: What is wrong.
            call: The call, a tool's with its arguments masked; None if the tape as a whole can't be used.
            nearest: The most similar call of the same tool on the tape.
            difference: The first difference of a model's call from the most similar one on the tape.
            left: Recorded calls that the agent has not made: the call waits for the answer of the first of them.
            by_hand: Whether the case answers, and not a tape.
            why: Details: what changed, why the recorded call can't be replayed, or what alone answers.
        """
        super().__init__(f"{obstacle}: {call.name}" if isinstance(call, ToolAsked) else str(obstacle))
        self.obstacle = obstacle
        self.call = call
        self.nearest = nearest
        self.difference = difference
        self.left = left
        self.by_hand = by_hand
        self.why = why


def request_of(asked: ModelAsked, rules: ToolRules) -> Request:
    """A request in canonical form.

    Masked as the values of tools are; texts in NFC, numbers by value, call ids by the order of their first appearance.
    The order of keys counts only where models see it: that of a schema's properties.

    Raises:
        TooDeep: It is nested more deeply than a tape can hold.
    """
    parts: dict[str, Any] = {}
    references: dict[str, str] = {}
    volatile = [rule for rule in rules.volatile if fnmatchcase(asked.agent, rule.agent)]
    of_contents = tuple(rule for rule in volatile if rule.place == "contents")
    for name, value in asked.request.items():
        if name == "contents" and isinstance(value, list):
            before = None
            ids: dict[str, str] = {}
            for content in value:
                content = (
                    _steady(masked_content(content, rules), of_contents)
                    if of_contents
                    else masked_content(content, rules)
                )
                content = normal(_with_call_ids(content, ids))
                # A chain, since each request repeats the conversation so far: a tape has every content once.
                node = {"content": content} if before is None else {"content": content, "after": before}
                parts[before := digest(node)] = node
            references |= {} if before is None else {name: before}
        elif value is not None:
            value = _declared(value)
            if name == "instruction":
                value = steady(value, tuple(rule for rule in volatile if rule.place == name))
            parts[references.setdefault(name, digest(value))] = value
    asked = asked.model_copy(update={"settings": _declared(asked.settings), "request": {}})
    return Request(asked=asked, parts=parts, references=references, fingerprint=fingerprint_of(asked, references))


def masked_content(content: Any, rules: ToolRules) -> Any:
    """A content of a request or a response without what must not be stored of the calls and answers in it.

    Raises:
        TooDeep: It is nested more deeply than a tape can hold.
    """
    content = masked(content, ToolPolicy())
    if not isinstance(content, Mapping) or not isinstance(content.get("parts"), list):
        return content
    return {**content, "parts": [_masked_part(part, rules) for part in content["parts"]]}


def _masked_part(part: Any, rules: ToolRules) -> Any:
    if not isinstance(part, Mapping):
        return part
    changed = dict(part)
    for name, values in (("function_call", "args"), ("function_response", "response")):
        call = part.get(name)
        if isinstance(call, Mapping) and values in call:
            # `mask` of a tool's rule holds here as well: else its argument is on the tape in the model's request.
            policy = rules.of(str(call.get("name")))
            changed[name] = {**call, values: masked(call[values], policy)}
    return changed


def _steady(content: Any, rules: tuple[VolatileRule, ...]) -> Any:
    """The content with marks instead of what is volatile in its texts, and in the values of calls and answers."""
    if not isinstance(content, Mapping) or not isinstance(content.get("parts"), list):
        return content
    parts = []
    for part in content["parts"]:
        part = dict(part) if isinstance(part, Mapping) else part
        for name, values in (("function_call", "args"), ("function_response", "response")):
            if isinstance(part, dict) and isinstance(call := part.get(name), Mapping):
                part[name] = {**call, values: steady(call.get(values), rules, whole=True)}
        if isinstance(part, dict) and "text" in part:
            part["text"] = steady(part["text"], rules)
        parts.append(part)
    return {**content, "parts": parts}


def _with_call_ids(content: Any, ids: dict[str, str]) -> Any:
    """The content with ids of function calls that say the position of the call, because ADK and models draw them."""
    if not isinstance(content, Mapping) or not isinstance(content.get("parts"), list):
        return content
    parts = []
    for part in content["parts"]:
        part = dict(part) if isinstance(part, Mapping) else part
        for name in ("function_call", "function_response") if isinstance(part, dict) else ():
            call = part.get(name)
            if isinstance(call, Mapping) and isinstance(identity := call.get("id"), str):
                part[name] = {**call, "id": ids.setdefault(identity, f"call-{len(ids) + 1}")}
        parts.append(part)
    return {**content, "parts": parts}


def _declared(value: Any, depth: int = 0, *, names: bool = False) -> Any:
    """A declaration or an option in canonical form; with `names`, the keys are names of a schema's properties."""
    if depth > DEEPEST:
        raise TooDeep(f"It is nested more than {DEEPEST} levels deep")
    if isinstance(value, list | tuple):
        return [_declared(item, depth + 1) for item in value]
    if not isinstance(value, Mapping):
        return normal(value)
    declared: dict[str, Any] = {}
    for key, item in value.items():
        key = unicodedata.normalize("NFC", str(key))
        # A property that is called `token` is a declaration and no secret.
        secret = not names and is_secret(key, item)
        of_schema = not names and key == "properties" and isinstance(item, Mapping)
        declared[key] = MASK if secret else _declared(item, depth + 1, names=of_schema)
        if of_schema:
            # A model sees properties in their order, which hashing with sorted keys would lose.
            declared["property_names"] = list(declared[key])
    return declared


def contents_of(references: Mapping[str, str], parts: Mapping[str, Any]) -> list[Any]:
    """The contents of a request in their order."""
    return [parts[node]["content"] for node in _nodes(references, parts)]


def _nodes(references: Mapping[str, str], parts: Mapping[str, Any]) -> list[str]:
    nodes: list[str] = []
    node = references.get("contents")
    while node is not None:
        nodes.append(node)
        node = parts[node].get("after")
    return nodes[::-1]


def _nearest(tape: Tape, request: Request) -> ModelExchange:
    """The most similar recorded request, the first of several."""
    nodes, asked = set(_nodes(request.references, request.parts)), request.asked

    def likeness(exchange: ModelExchange) -> tuple[int, ...]:
        recorded = _nodes(exchange.request, tape.parts)
        equal = sum(exchange.request.get(name) == reference for name, reference in request.references.items())
        equal += sum(value == facts_of(asked).get(name) for name, value in facts_of(exchange).items())
        common = len(nodes & set(recorded))
        # The same agent first: a request of another one differs in everything, which explains nothing.
        return exchange.agent == asked.agent, equal, common, -abs(len(recorded) - len(nodes))

    return max(tape.model_calls, key=likeness)


def first_difference(tape: Tape, request: Request) -> Difference | None:
    """Where a request first differs from the most similar recorded one; None if the tape has the same.

    Args:
        tape: Has model calls.
        request: The request.
    """
    recorded = _nearest(tape, request)
    before = _whole(recorded, recorded.request, tape.parts)
    return difference_of(before, _whole(request.asked, request.references, request.parts))


def difference_of(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Difference | None:
    """Where two values in canonical form first differ; None if they don't."""
    for place, old, new in _differences(recorded, now, ""):
        return Difference(place=place, recorded=_shown(old, new), now=_shown(new, old))
    return None


def changed_request(old: Tape, new: Tape) -> Difference | None:
    """Where what is asked on a new tape first differs from the old one; None if only the number of calls does."""
    known = {call.fingerprint for call in old.model_calls}
    for call in new.model_calls if known else ():
        if call.fingerprint not in known:
            asked = ModelAsked(turn=1, call=1, **facts_of(call))
            return first_difference(
                old, Request(asked=asked, parts=new.parts, references=call.request, fingerprint=call.fingerprint)
            )
    return None


def _whole(of: ModelExchange | ModelAsked, references: Mapping[str, str], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that counts, in the order in which differences are looked for."""
    values = {name: parts[node] for name, node in references.items() if name != "contents"}
    # Most misses come from an edited instruction; what differs in the contents then follows from it.
    values = {"instruction": values.pop("instruction", _NONE), "contents": contents_of(references, parts), **values}
    return {**facts_of(of), **values}


def _differences(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """The innermost places where two values differ, in order."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{place}.{key}" if place else key
            yield from _differences(old.get(key, _NONE), new.get(key, _NONE), inner)
    elif isinstance(old, list) and isinstance(new, list):
        for at, (left, right) in enumerate(zip_longest(old, new, fillvalue=_NONE)):
            yield from _differences(left, right, f"{place}[{at}]")
    # By hash, as fingerprints are: 1 and True are equal for Python.
    elif old is not new and (old is _NONE or new is _NONE or digest(old) != digest(new)):
        yield place, old, new


def _shown(value: Any, other: Any) -> str:
    """A value as JSON; of a long text what is around its first difference from the other one."""
    if value is _NONE:
        return "nothing"
    if not isinstance(value, str):
        return _cut(json.dumps(value, sort_keys=True, ensure_ascii=False), 0, _OF_VALUE)
    characters = zip_longest(value, other if isinstance(other, str) else "")
    first = next((at for at, (left, right) in enumerate(characters) if left != right), 0)
    return json.dumps(_cut(value, max(first - _BEFORE, 0), _OF_TEXT), ensure_ascii=False)


def _cut(text: str, start: int, most: int) -> str:
    return f"{'…' if start else ''}{text[start : start + most]}{'…' if len(text) > start + most else ''}"
