"""Rules of order and absence of tool calls, over a whole conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from agent_eval_scoring.core.invocation import (
    BELOW,
    IntermediateData,
    Invocation,
    answered,
    contents_of,
    declared_tools,
    tool_calls,
)
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.criteria._depth import with_hidden
from agent_eval_scoring.criteria._differences import literal
from agent_eval_scoring.criteria._explain import bounded, list_calls
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding, no_turns

_GLOB = frozenset("*?[")
What = Literal["call", "success", "error"]
Step = tuple[int, str, What]
"""The 0-based turn, the tool's name, and what it is: a call, or the answer to an earlier one."""


@dataclass(frozen=True, kw_only=True)
class ToolRules:
    """The share of rules that hold, 0..1. Needs no reference."""

    threshold: float
    rules: Sequence[Mapping[str, Any]]
    """See `ToolRule` of `evalset.models.argument_rules`."""
    name: str = "tool_rules"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run. The findings are about the turns in which rules were broken."""
        if not conversation.actual:
            return no_turns()
        if _names_inner(self.rules) and any(turn.spans is None for turn in conversation.actual):
            return NotEvaluated.of("inner-calls-not-visible")
        steps = [(at, *step) for at, turn in enumerate(conversation.actual) for step in _steps(with_hidden(turn))]
        last = len(conversation.actual) - 1
        broken: dict[int, list[tuple[str, Reason]]] = {}
        for rule in self.rules:
            kind, value = next(iter(rule.items()))
            turn = _broken_in(kind, value, steps, last)
            called = kind == "success_before" and _broken_in("before", value, steps, last) is None
            called = called or (kind == "succeeds" and _broken_in("never", value, steps, last) is not None)
            if (turn is not None or kind == "succeeds") and called and _is_blind(conversation.actual):
                return NotEvaluated.of("responses-not-visible")
            if turn is not None:
                reason = Reason.of("tool-rule-broken", kind=kind, names=_names(value), count=_count(value))
                broken.setdefault(turn, []).append((literal(rule), reason))
        lost = sum(map(len, broken.values()))
        score = (len(self.rules) - lost) / len(self.rules)
        scores = (*[None] * last, score)  # Of the whole conversation.
        misspelt = self._misspelt(conversation, {name.rpartition(BELOW)[2] for _, name, _ in steps})
        details = {"misspelt": misspelt} if misspelt else {}
        if score >= self.threshold:
            return Scored(score=score, turn_scores=scores, details=details)
        summary = Reason.of("tool-rules-kept", count=len(self.rules) - lost, total=len(self.rules))
        findings = [
            TurnFinding(
                turn=turn,
                score=score,
                expected="\n".join(shown for shown, _ in reasons),
                actual=list_calls(tool_calls(with_hidden(conversation.actual[turn]).intermediate_data)),
                why=bounded(summary, (reason for _, reason in reasons)),
            )
            for turn, reasons in sorted(broken.items())
        ]
        return Scored(score=score, turn_scores=scores, findings=tuple(findings), details=details)

    def _misspelt(self, conversation: Conversation, called: set[str]) -> dict[str, str]:
        """The names in the rules that no tool has that is known, each with the tool that is almost called so."""
        declared = set[str]().union(*(declared_tools(turn.app_details) for turn in conversation.actual))
        named = {name.rpartition(BELOW)[2] for rule in self.rules for value in rule.values() for name in _names(value)}
        unknown = sorted(name for name in named - declared - called if not _GLOB.intersection(name))
        return {name: near[0] for name in unknown if (near := nearby(name, declared, count=1))}


def _is_blind(turns: Sequence[Invocation]) -> bool:
    """Whether no turn has a response, as some recordings: whether a call succeeded is not known."""
    return not any(response is not None for turn in turns for _, response in answered(turn.intermediate_data))


def _names_inner(rules: Sequence[Mapping[str, Any]]) -> bool:
    return any(BELOW in name for rule in rules for value in rule.values() for name in _names(value))


def _is(pattern: str, name: str) -> bool:
    """Whether a rule is about a call: by its path, or by its tool at any depth."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(BELOW)[2], pattern)


def _names(value: Any) -> dict[str, int]:
    return dict.fromkeys([value] if isinstance(value, str) else value, 1)


def _count(value: Any) -> int:
    return int(next(iter(value.values()))) if isinstance(value, Mapping) else 0


def _steps(turn: Invocation) -> Iterator[tuple[str, What]]:
    data = turn.intermediate_data
    if isinstance(data, IntermediateData):  # Its lists have no order between them: each call has its answer at once.
        for call, answer in answered(data):
            yield call.name or "", "call"
            if answer is not None:
                yield call.name or "", "error" if answer.is_error else "success"
        return
    for _, parts in contents_of(data):
        for part in parts:
            if part.function_call is not None:
                yield part.function_call.name or "", "call"
            elif part.function_response is not None:
                yield part.function_response.name or "", "error" if part.function_response.is_error else "success"


def _broken_in(kind: str, value: Any, steps: Sequence[Step], last: int) -> int | None:
    """The turn in which a rule was broken, None if it holds; the last turn if what is missing could still come."""
    if kind == "some_of":
        called = any(_is(tool, name) for _, name, what in steps if what == "call" for tool in value)
        return None if called else last
    if kind == "succeeds":
        errors = ((at, turn, name) for at, (turn, name, what) in enumerate(steps) if what == "error")
        return next(
            (turn for at, turn, name in errors if _is(value, name) and not _is_repaired(name, steps[at:])), None
        )
    if kind in ("before", "success_before"):
        first, then = value
        for turn, name, what in steps:
            if _is(first, name) and what == ("success" if kind == "success_before" else "call"):
                return None
            if _is(then, name) and what == "call":
                return turn
        return None
    tool, most = (value, 0) if kind == "never" else next(iter(value.items()))
    turns = [turn for turn, name, what in steps if what == "call" and _is(tool, name)]
    return turns[most] if len(turns) > most else None


def _is_repaired(name: str, after: Sequence[Step]) -> bool:
    """Whether a tool was called again after its error, and then succeeded."""
    own = [what for _, each, what in after if each == name]
    return "call" in own and "success" in own[own.index("call") :]
