"""`intermediate_response_similarity`: what sub-agents said on the way, compared with the eval file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.core.invocation import Invocation, intermediate_responses
from agent_eval.core.text import shorten
from agent_eval.criteria._explain import LONGEST_TEXT, bounded
from agent_eval.criteria._literal import literal, name_of
from agent_eval.criteria._similarity import LONGEST_COMPARED, SimilarityRules, explain_similarity
from agent_eval.criteria.base import (
    Conversation,
    NotEvaluated,
    Result,
    TurnFinding,
    TurnResult,
    running_sum,
    score_turns,
)

_MOST_COMPARED = 10_000
"""Pairs of responses in a turn."""

Responses = Sequence[tuple[str, str]]
"""Author and text, in order."""


@dataclass(frozen=True, kw_only=True)
class _Pair:
    expected: int
    actual: int
    score: float


@dataclass(frozen=True, kw_only=True)
class IntermediateSimilarity:
    """The mean over turns with expected intermediate responses, 0..1; other turns are left out.

    A turn scores the mean similarity of its expected responses. Each is compared with a response of the same agent;
    of all assignments that keep the order, the one with the highest score counts. Further responses are allowed.
    """

    threshold: float
    rules: SimilarityRules
    name: str = "intermediate_response_similarity"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns, or if there is too much to compare."""
        nothing = NotEvaluated.of("no-reference-text", phrase="no-intermediate-reference")
        return score_turns(conversation, self._score_turn, without_scores=nothing)

    def _score_turn(self, turn: int, actual_turn: Invocation, expected_turn: Invocation) -> TurnResult | NotEvaluated:
        expected, actual = intermediate_responses(expected_turn), intermediate_responses(actual_turn)
        if not expected:
            return None, None
        longest = max(len(text) for _, text in [*expected, *actual])
        if longest > LONGEST_COMPARED or len(expected) * len(actual) > _MOST_COMPARED:
            return NotEvaluated.of("too-long", phrase="too-long-intermediate", turn=turn + 1)
        assigned = self._assign(expected, actual)
        score = running_sum(pair.score for pair in assigned) / len(expected)
        return score, None if score >= self.threshold else self._finding(turn, score, expected, actual, assigned)

    def _assign(self, expected: Responses, actual: Responses) -> list[_Pair]:
        """The assignment with the highest sum of scores, by dynamic programming over both lists."""
        ours, theirs = ([(author, self.rules.prepare(text)) for author, text in side] for side in (expected, actual))
        best: list[list[tuple[float, _Pair | None]]] = [[(0.0, None)] * (len(theirs) + 1)]
        for i, (author, text) in enumerate(ours):
            row: list[tuple[float, _Pair | None]] = [(0.0, None)]
            for j, (other_author, other_text) in enumerate(theirs):
                options: list[tuple[float, _Pair | None]] = [(best[i][j + 1][0], None), (row[j][0], None)]
                if author == other_author and (score := self.rules.score(text, other_text)) > 0:
                    options.append((best[i][j][0] + score, _Pair(expected=i, actual=j, score=score)))
                row.append(max(options, key=lambda option: option[0]))
            best.append(row)
        pairs: list[_Pair] = []
        i, j = len(ours), len(theirs)
        while i and j:
            total, pair = best[i][j]
            if pair is not None:
                pairs.append(pair)
                i, j = i - 1, j - 1
            elif total == best[i - 1][j][0]:
                i -= 1
            else:
                j -= 1
        return pairs[::-1]

    def _finding(
        self, turn: int, score: float, expected: Responses, actual: Responses, assigned: Sequence[_Pair]
    ) -> TurnFinding:
        pair_of = {pair.expected: pair for pair in assigned}
        lines: list[str] = []
        for i, (author, text) in enumerate(expected):
            pair = pair_of.get(i)
            if pair is None:
                lines.append(f"missing: {name_of(author)}: {literal(text)}")
            elif pair.score < 1:
                left, right = self.rules.prepare(text), self.rules.prepare(actual[pair.actual][1])
                reason = "; ".join(explain_similarity(left, right, self.rules))
                lines.append(f"{name_of(author)}: similarity {pair.score:.2f}: {reason}")
        summary = f"{len(assigned):,} of {len(expected):,} expected intermediate responses have a counterpart"
        return TurnFinding(
            turn=turn, score=score, expected=_listed(expected), actual=_listed(actual), why=bounded(summary, lines)
        )


def _listed(responses: Responses) -> str:
    return shorten("\n".join(f"{author}: {text}" for author, text in responses), LONGEST_TEXT) or "(no text)"
