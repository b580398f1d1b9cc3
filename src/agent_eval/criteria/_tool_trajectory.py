"""`tool_trajectory_avg_score`: did the agent make the expected tool calls, bit for bit as google-adk 2.13.0."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.core.invocation import tool_calls
from agent_eval.criteria._explain import explain_trajectory, list_calls
from agent_eval.criteria._turns import paired, running_mean, too_deep
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding
from agent_eval.criteria.calls import match_calls
from agent_eval.evalset.models import MatchType


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory:
    """The share of turns whose tool calls match the expected ones, 0..1.

    A turn without `intermediate_data` in the eval file expects no call.
    """

    threshold: float
    match_type: MatchType = MatchType.EXACT
    ignore_args: bool = False
    name: str = "tool_trajectory_avg_score"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        pairs = paired(conversation)
        if isinstance(pairs, NotEvaluated):
            return pairs
        scores: list[float] = []
        findings: list[TurnFinding] = []
        try:
            for turn, (actual, expected) in enumerate(pairs):
                wanted, made = tool_calls(expected.intermediate_data), tool_calls(actual.intermediate_data)
                matches = match_calls(wanted, made, match_type=self.match_type, ignore_args=self.ignore_args)
                score = 1.0 if matches else 0.0
                scores.append(score)
                if score < self.threshold:
                    findings.append(
                        TurnFinding(
                            turn=turn,
                            score=score,
                            expected=list_calls(wanted, ignore_args=self.ignore_args),
                            actual=list_calls(made, ignore_args=self.ignore_args),
                            why=explain_trajectory(
                                wanted, made, match_type=self.match_type, ignore_args=self.ignore_args
                            ),
                        )
                    )
        except RecursionError:
            return too_deep()
        return Scored(score=running_mean(scores), turn_scores=tuple(scores), findings=tuple(findings))
