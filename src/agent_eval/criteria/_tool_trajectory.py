"""`tool_trajectory_avg_score`: tool calls compared with the expected ones, scored exactly as in google-adk 2.13.0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.core.content import FunctionCall
from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.criteria._explain import explain_trajectory, list_calls
from agent_eval.criteria._turns import TurnResult, score_turns
from agent_eval.criteria.base import Conversation, Result, TurnFinding
from agent_eval.criteria.calls import ArgsMatch, match_calls
from agent_eval.evalset.models import MatchType


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory:
    """The share of turns whose tool calls match the expected ones, 0..1.

    A turn without `intermediate_data` in the eval file expects no calls.
    """

    threshold: float
    match_type: MatchType = MatchType.EXACT
    args: ArgsMatch = ArgsMatch.EXACT
    name: str = "tool_trajectory_avg_score"

    def is_contradicted(self, expected: Sequence[Invocation], turn: int, calls: Sequence[FunctionCall]) -> bool:
        """Whether a turn that has not ended already keeps the score below the threshold.

        Only `EXACT` can say so: with the other match types, later calls may still be the expected ones.

        Args:
            expected: The expected turns of the case.
            turn: 0-based.
            calls: The calls of the turn so far.
        """
        if self.match_type is not MatchType.EXACT or turn >= len(expected):
            return False
        expected_calls = tool_calls(expected[turn].intermediate_data)
        still_matches = match_calls(expected_calls[: len(calls)], calls, args=self.args)
        return not still_matches and (len(expected) - 1) / len(expected) < self.threshold

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return score_turns(conversation, self._score_turn)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        expected_calls, actual_calls = tool_calls(expected.intermediate_data), tool_calls(actual.intermediate_data)
        matches = match_calls(expected_calls, actual_calls, match_type=self.match_type, args=self.args)
        score = 1.0 if matches else 0.0
        if score >= self.threshold:
            return score, None
        ignore_args = self.args is ArgsMatch.IGNORE
        return score, TurnFinding(
            turn=turn,
            score=score,
            expected=list_calls(expected_calls, ignore_args=ignore_args),
            actual=list_calls(actual_calls, ignore_args=ignore_args),
            why=explain_trajectory(expected_calls, actual_calls, match_type=self.match_type, args=self.args),
        )
