"""Criteria of answers: of the final one ROUGE-1 as in ADK and other measures of likeness, and what sub-agents said on
the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, intermediate_responses
from agent_eval_scoring.core.means import running_sum
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._differences import literal, name_of
from agent_eval_scoring.criteria._explain import LONGEST_TEXT, bounded, explain_response
from agent_eval_scoring.criteria._sequences import rouge1
from agent_eval_scoring.criteria._similarity import LONGEST_COMPARED, SimilarityRules, explain_similarity
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, TurnFinding, TurnResult, score_turns
from agent_eval_scoring.criteria.tokenize import tokenize, words
from agent_eval_scoring.evalset.models import SimilarityAlgorithm


@dataclass(frozen=True, kw_only=True)
class ResponseMatch:
    """The mean over turns of ROUGE-1's F measure, 0..1.

    A turn without a final response in the eval file is compared with the empty text and scores 0, as in ADK.
    """

    threshold: float
    name: str = "response_match_score"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns."""
        return score_turns(conversation, self._score_turn)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        reference, answer = text_of(expected.final_response), text_of(actual.final_response)
        # Equal texts have equal stems, and the stemmer takes half a second to import.
        split = words if reference == answer else tokenize
        rouge = rouge1(split(reference), split(answer))
        score = rouge.f_measure
        if score >= self.threshold:
            return score, None
        why = explain_response(reference, answer, rouge)
        return score, finding_of_answer(turn, score, reference, answer, why, actual)


def finding_of_answer(
    turn: int, score: float, reference: str, answer: str, why: Sequence[Reason], actual: Invocation
) -> TurnFinding:
    """Both texts, bounded, and why the score is low."""
    expected, said = (shorten(text, LONGEST_TEXT) or "(no text)" for text in (reference, answer))
    more = (Reason.of("node-output"),) if actual.node_output else ()
    return TurnFinding(turn=turn, score=score, expected=expected, actual=said, why=(*why, *more))


_QUADRATIC = frozenset({SimilarityAlgorithm.LEVENSHTEIN, SimilarityAlgorithm.ROUGE_L})


@dataclass(frozen=True, kw_only=True)
class ResponseSimilarity:
    """The mean over turns of the similarity, 0..1.

    A turn without a reference scores 1 if the agent gave no answer either. Otherwise there is no score, because no
    number would say how good the answer is.
    """

    threshold: float
    rules: SimilarityRules
    include_intermediate: bool = False
    """Put the intermediate responses before the final one, on both sides."""
    name: str = "response_similarity"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns, or if a text is too long."""
        return score_turns(conversation, self._score_turn)

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult | NotEvaluated:
        reference, answer = (
            answer_of(turn, with_intermediate=self.include_intermediate) for turn in (expected, actual)
        )
        ours, theirs = self.rules.prepare(reference), self.rules.prepare(answer)
        if not ours.strip() and theirs.strip():
            return NotEvaluated.of("no-reference-text", turn=turn + 1)
        longest = max(len(ours), len(theirs))
        if longest > LONGEST_COMPARED and self.rules.algorithm in _QUADRATIC:
            return NotEvaluated.of(
                "too-long", turn=turn + 1, count=longest, total=LONGEST_COMPARED, metric=str(self.rules.algorithm)
            )
        score = self.rules.score(ours, theirs)
        if score >= self.threshold:
            return score, None
        why = explain_similarity(ours, theirs, self.rules)
        return score, finding_of_answer(turn, score, reference, answer, why, actual)


def answer_of(turn: Invocation, *, with_intermediate: bool) -> str:
    """The text of a turn's answer, after the intermediate ones if these are wanted."""
    final = text_of(turn.final_response)
    before = [text for _, text in intermediate_responses(turn)] if with_intermediate else []
    return "\n".join([*before, final]).rstrip("\n") if before else final


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
        lines: list[Reason] = []
        for i, (author, text) in enumerate(expected):
            pair = pair_of.get(i)
            if pair is None:
                lines.append(Reason.of("response-missing", subject=name_of(author), wanted=literal(text)))
            elif pair.score < 1:
                left, right = self.rules.prepare(text), self.rules.prepare(actual[pair.actual][1])
                parts = list(explain_similarity(left, right, self.rules)[:3])
                lines.append(Reason.of("response-differs", subject=name_of(author), rate=pair.score, parts=parts))
        summary = Reason.of("responses-matched", count=len(assigned), expected=len(expected))
        return TurnFinding(
            turn=turn, score=score, expected=_listed(expected), actual=_listed(actual), why=bounded(summary, lines)
        )


def _listed(responses: Responses) -> str:
    return shorten("\n".join(f"{author}: {text}" for author, text in responses), LONGEST_TEXT) or "(no text)"
