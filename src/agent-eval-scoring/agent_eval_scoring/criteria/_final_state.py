"""The criterion that compares the session's state after the last turn with that of the eval case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.criteria._argument_rules import ruled
from agent_eval_scoring.criteria._differences import describe_differences, literal, name_of
from agent_eval_scoring.criteria._explain import MOST_CALLS, bounded
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding, no_turns
from agent_eval_scoring.criteria.calls import ArgsMatch, same_call

_STATE = "state"


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """The share of the expected keys that the state has with their values, 0..1. Needs no reference."""

    threshold: float
    exact: bool = False
    """Each key that is not expected counts as a wrong one. Null is as good as no key."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """By path, see `evalset.models.argument_rules`."""
    name: str = "final_session_state"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated if the agent's interface does not show the state."""
        if not conversation.actual:
            return no_turns()
        state = conversation.actual[-1].session_state
        if state is None:
            return NotEvaluated.of("state-not-visible")
        expected = conversation.case.expected_state
        # Some servers leave out nulls.
        actual = {key: value for key, value in state.items() if value is not None}
        actual |= {key: None for key, value in expected.items() if value is None and key not in actual}
        keys = [*expected, *(key for key in actual if self.exact and key not in expected)]
        args = ArgsMatch.EXACT if self.exact else ArgsMatch.SUBSET
        pairs = {key: (self._ruled(_one(expected, key)), _one(actual, key)) for key in keys}
        wrong = [key for key, (wanted, got) in pairs.items() if not same_call(wanted, got, args=args)]
        score = (len(keys) - len(wrong)) / len(keys) if keys else 1.0
        last = len(conversation.actual) - 1
        scores = (*[None] * last, score)  # Of the whole conversation.
        if score >= self.threshold:
            return Scored(score=score, turn_scores=scores)
        summary = Reason.of("state-as-expected", count=len(keys) - len(wrong), total=len(keys))
        lines = (
            Reason.of("call-differs", call=where, because=difference)
            for key in wrong
            for where, difference in describe_differences(*pairs[key], subset=not self.exact)
        )
        finding = TurnFinding(
            turn=last,
            score=score,
            expected=_listed(expected, wrong),
            actual=_listed(actual, wrong),
            why=bounded(summary, lines),
        )
        return Scored(score=score, turn_scores=scores, findings=(finding,))

    def _ruled(self, wanted: FunctionCall) -> FunctionCall:
        return ruled([wanted], {_STATE: self.rules})[0] if self.rules else wanted


def _one(state: Mapping[str, Any], key: str) -> FunctionCall:
    """The key as an argument: what compares and explains those is good for it."""
    return FunctionCall(name=_STATE, args={key: state[key]} if key in state else {})


def _listed(state: Mapping[str, Any], keys: list[str]) -> str:
    shown = {key: literal(state[key]) if key in state else "(none)" for key in keys[:MOST_CALLS]}
    return "\n".join(f"{name_of(key)}: {value}" for key, value in shown.items())
