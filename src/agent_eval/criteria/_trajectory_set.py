"""`trajectory_precision`, `trajectory_recall`, `trajectory_single_tool_use`.

ADK's documentation names them, but ADK lacks them. The names are those of Vertex AI
(https://cloud.google.com/vertex-ai/generative-ai/docs/models/evaluation-agents). The order of calls doesn't matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.criteria._explain import explain_share, explain_single_tool, list_calls
from agent_eval.criteria._literal import name_of
from agent_eval.criteria._turns import TurnResult, no_turns, score_turns
from agent_eval.criteria.base import Conversation, Result, Scored, TurnFinding
from agent_eval.criteria.calls import args_match, count_matched

PRECISION = "trajectory_precision"
RECALL = "trajectory_recall"


@dataclass(frozen=True, kw_only=True)
class TrajectoryShare:
    """The mean over turns of precision or recall of the tool calls, 0..1.

    Calls are matched as multisets, compared with `calls.same_call`.
    """

    name: str
    """PRECISION: matched calls / actual calls; a turn without calls scores 1 if none were expected, else 0.
    RECALL: matched calls / expected calls; a turn that expects none scores 1."""
    threshold: float
    ignore_args: bool = False

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return score_turns(conversation, self._score_turn)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        expected_calls, actual_calls = tool_calls(expected.intermediate_data), tool_calls(actual.intermediate_data)
        of_expected = self.name == RECALL
        args = args_match(ignore_args=self.ignore_args)
        matched = count_matched(expected_calls, actual_calls, args=args)
        if of_expected:
            score = matched / len(expected_calls) if expected_calls else 1.0
        elif actual_calls:
            score = matched / len(actual_calls)
        else:
            score = 0.0 if expected_calls else 1.0
        if score >= self.threshold:
            return score, None
        return score, TurnFinding(
            turn=turn,
            score=score,
            expected=list_calls(expected_calls, ignore_args=self.ignore_args),
            actual=list_calls(actual_calls, ignore_args=self.ignore_args),
            why=explain_share(expected_calls, actual_calls, matched=matched, of_expected=of_expected, args=args),
        )


@dataclass(frozen=True, kw_only=True)
class SingleToolUse:
    """1 if any turn of the case called the tool, else 0. Needs no reference."""

    threshold: float
    tool_name: str
    name: str = "trajectory_single_tool_use"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run. A turn scores 1 if it called the tool; the score of the case is the maximum."""
        if not conversation.actual:
            return no_turns()
        turns = [tool_calls(turn.intermediate_data) for turn in conversation.actual]
        scores = tuple(1.0 if any(call.name == self.tool_name for call in calls) else 0.0 for calls in turns)
        score = max(scores)
        if score >= self.threshold:
            return Scored(score=score, turn_scores=scores)
        actual_calls = [call for calls in turns for call in calls]
        finding = TurnFinding(
            turn=len(turns) - 1,
            score=score,
            expected=f"{name_of(self.tool_name)}(…) in any turn",
            actual=list_calls(actual_calls),
            why=explain_single_tool(self.tool_name, [call.name for call in actual_calls], len(turns)),
        )
        return Scored(score=score, turn_scores=scores, findings=(finding,))
