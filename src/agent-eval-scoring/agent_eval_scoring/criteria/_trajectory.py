"""Criteria of the tool calls: equal, partly equal, precision, recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.invocation import Invocation, declared_tools, tool_calls
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.criteria._alignment import aligned
from agent_eval_scoring.criteria._argument_rules import ruled, settled
from agent_eval_scoring.criteria._differences import name_of
from agent_eval_scoring.criteria._explain import (
    explain_partial,
    explain_share,
    explain_single_tool,
    explain_trajectory,
    list_calls,
)
from agent_eval_scoring.criteria._sequences import Same, in_any_order, in_order
from agent_eval_scoring.criteria.base import (
    Conversation,
    Result,
    Scored,
    TurnFinding,
    TurnResult,
    no_turns,
    score_turns,
)
from agent_eval_scoring.criteria.calls import ArgsMatch, args_match, count_matched, match_calls, same_call
from agent_eval_scoring.evalset.models import MatchType


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory:
    """The share of turns whose tool calls match the expected ones, 0..1.

    A turn without `intermediate_data` in the eval file expects no calls.
    """

    threshold: float
    match_type: MatchType = MatchType.EXACT
    args: ArgsMatch = ArgsMatch.EXACT
    rules: Mapping[str, Any] = field(default_factory=dict)
    """For args, by tool; see `evalset.models.argument_rules`."""
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
        expected_calls = ruled(tool_calls(expected[turn].intermediate_data), self.rules)
        still_matches = match_calls(expected_calls[: len(calls)], calls, args=self.args)
        return not still_matches and (len(expected) - 1) / len(expected) < self.threshold

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return _with_misspelt(score_turns(conversation, self._score_turn), conversation)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        expected_calls, actual_calls = _calls(expected, actual, self.rules)
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
    args_credit: bool = False
    """A call with other args counts by its share of equal ones."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    name: str = "tool_trajectory_partial"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return _with_misspelt(score_turns(conversation, self._score_turn), conversation)

    def _score_turn(self, turn: int, actual_turn: Invocation, expected_turn: Invocation) -> TurnResult:
        expected, actual = _calls(expected_turn, actual_turn, self.rules)
        same: Same = _same_strict if self.strict_args else partial(same_call, args=ArgsMatch.SUBSET)
        matched = (in_order if self.strict_order else in_any_order)(expected, actual, same)
        alignment = aligned(expected, actual, matched, same)
        longest = max(len(expected), len(actual))
        credit = sum(_share(expected[i], actual[j]) for i, j in alignment.changed) if self.args_credit else 0.0
        score = (len(matched) + credit) / longest if longest else 1.0
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


def _share(expected: FunctionCall, actual: FunctionCall) -> float:
    ours, theirs = expected.args or {}, settled(expected, actual) or {}
    keys = ours.keys() | theirs.keys()
    return sum(key in ours and key in theirs and ours[key] == theirs[key] for key in keys) / len(keys) if keys else 0.0


def _same_strict(expected: FunctionCall, actual: FunctionCall) -> bool:
    return expected.name == actual.name and (expected.args is None or expected.args == settled(expected, actual))


def _calls(
    expected: Invocation, actual: Invocation, rules: Mapping[str, Any]
) -> tuple[Sequence[FunctionCall], Sequence[FunctionCall]]:
    return ruled(tool_calls(expected.intermediate_data), rules), tool_calls(actual.intermediate_data)


_ALMOST = 0.8
"""How similar the names of an expected tool and of one that the agent has are if one is a mistake for the other."""


def _with_misspelt(result: Result, conversation: Conversation) -> Result:
    """The result with the expected tools that no agent has, each with the tool that is almost called so."""
    if not isinstance(result, Scored) or not result.findings:
        return result
    declared = set[str]().union(*(declared_tools(turn.app_details) for turn in conversation.actual))
    named, called = (
        {call.name or "" for turn in turns for call in tool_calls(turn.intermediate_data)}
        for turns in (conversation.expected or (), conversation.actual)
    )
    close = {name: nearby(name, declared, 1, _ALMOST) for name in sorted(named - declared - called)}
    misspelt = {name: names[0] for name, names in close.items() if names}
    return replace(result, details={**result.details, "misspelt": misspelt}) if misspelt else result


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
    rules: Mapping[str, Any] = field(default_factory=dict)

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return _with_misspelt(score_turns(conversation, self._score_turn), conversation)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        expected_calls, actual_calls = _calls(expected, actual, self.rules)
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
            expected=f"{name_of(self.tool_name)}(…)",
            actual=list_calls(actual_calls),
            why=explain_single_tool(self.tool_name, [call.name for call in actual_calls], len(turns)),
        )
        return Scored(score=score, turn_scores=scores, findings=(finding,))
