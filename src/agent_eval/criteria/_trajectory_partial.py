"""`tool_trajectory_partial`: the share of tool calls that match the expected ones, in their order or in any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agent_eval.core.content import FunctionCall
from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.criteria import _adk_rust
from agent_eval.criteria._alignment import Alignment, aligned
from agent_eval.criteria._explain import explain_partial, list_calls
from agent_eval.criteria._matching import Same, in_any_order, in_order
from agent_eval.criteria._turns import TurnResult, score_turns
from agent_eval.criteria.base import Conversation, Result, TurnFinding
from agent_eval.criteria.calls import ArgsMatch, same_call


@dataclass(frozen=True, kw_only=True)
class PartialTrajectory:
    """The mean over turns of `matched / max(expected, made)`, 0..1; a turn without any call scores 1.

    As many calls are matched as possible. Expected calls whose args the eval file omits match any args.
    """

    threshold: float
    strict_order: bool = True
    """Calls match only in the order of the eval file."""
    strict_args: bool = False
    """Args must be equal; otherwise the actual ones may have further keys, at any depth."""
    adk_rust: bool = False
    """Use adk-rust's rules (_adk_rust.py)."""
    name: str = "tool_trajectory_partial"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        mean = partial(_adk_rust.case_score, threshold=self.threshold) if self.adk_rust else None
        return score_turns(conversation, self._score_turn, mean=mean)

    def _score_turn(self, turn: int, actual_turn: Invocation, expected_turn: Invocation) -> TurnResult:
        expected, actual = tool_calls(expected_turn.intermediate_data), tool_calls(actual_turn.intermediate_data)
        alignment = self._align(expected, actual)
        longest = max(len(expected), len(actual))
        score = len(alignment.matched) / longest if longest else 1.0
        if score >= self.threshold:
            return score, None
        args = ArgsMatch.EXACT if self.strict_args else ArgsMatch.SUBSET
        return score, TurnFinding(
            turn=turn,
            score=score,
            expected=list_calls(expected),
            actual=list_calls(actual),
            why=explain_partial(alignment, expected, actual, args=args, ordered=self.strict_order),
        )

    def _align(self, expected: Sequence[FunctionCall], actual: Sequence[FunctionCall]) -> Alignment:
        if self.adk_rust:
            same: Same = partial(_adk_rust.same_call, strict_args=self.strict_args)
            matched = _adk_rust.match(expected, actual, strict_order=self.strict_order, strict_args=self.strict_args)
        else:
            same = _same_strict if self.strict_args else partial(same_call, args=ArgsMatch.SUBSET)
            matched = (in_order if self.strict_order else in_any_order)(expected, actual, same)
        return aligned(expected, actual, matched, same)


def _same_strict(expected: FunctionCall, actual: FunctionCall) -> bool:
    return expected.name == actual.name and (expected.args is None or bool(expected.args == actual.args))
