"""Criteria of the final answer: ROUGE-1 as in ADK, and other measures of likeness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation, intermediate_responses
from agent_eval.core.text import shorten
from agent_eval.criteria import _adk_rust
from agent_eval.criteria._explain import LONGEST_TEXT, explain_response
from agent_eval.criteria._sequences import rouge1
from agent_eval.criteria._similarity import LONGEST_COMPARED, SimilarityRules, explain_similarity
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, TurnFinding, TurnResult, score_turns
from agent_eval.criteria.tokenize import tokenize, words
from agent_eval.evalset.models import SimilarityAlgorithm


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
        return score, TurnFinding(
            turn=turn,
            score=score,
            expected=shorten(reference, LONGEST_TEXT) or "(no text)",
            actual=shorten(answer, LONGEST_TEXT) or "(no text)",
            why=explain_response(reference, answer, rouge),
        )


_QUADRATIC = frozenset({SimilarityAlgorithm.LEVENSHTEIN, SimilarityAlgorithm.ROUGE_L})


@dataclass(frozen=True, kw_only=True)
class ResponseSimilarity:
    """The mean over turns of the similarity, 0..1.

    A turn without a reference scores 1 if the agent gave no answer either. Otherwise there is no score, because no
    number would say how good the answer is. adk-rust leaves turns without a reference out.
    """

    threshold: float
    rules: SimilarityRules
    include_intermediate: bool = False
    """Put the intermediate responses before the final one, on both sides."""
    name: str = "response_similarity"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references or turns, or if a text is too long."""
        mean = partial(_adk_rust.case_score, threshold=self.threshold) if self.rules.adk_rust else None
        return score_turns(conversation, self._score_turn, mean=mean, without_scores=_without_reference(0))

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult | NotEvaluated:
        reference, answer = self._text(expected), self._text(actual)
        if reference is None:
            return None, None
        score = self._similarity(turn, reference, answer)
        if isinstance(score, NotEvaluated):
            return score
        return score, None if score >= self.threshold else self._finding(turn, score, reference, answer or "")

    def _text(self, turn: Invocation) -> str | None:
        final = self.rules.text(turn.final_response)
        before = [text for _, text in intermediate_responses(turn)] if self.include_intermediate else []
        return "\n".join([*before, final or ""]).rstrip("\n") if before else final

    def _similarity(self, turn: int, reference: str, answer: str | None) -> float | NotEvaluated:
        if answer is None:
            return 0.0  # Only by adk-rust's rules: a missing answer is worse than an empty one.
        expected, actual = self.rules.prepare(reference), self.rules.prepare(answer)
        if not expected.strip() and actual.strip() and not self.rules.adk_rust:
            return _without_reference(turn)
        longest = max(len(expected), len(actual))
        if longest > LONGEST_COMPARED and self.rules.algorithm in _QUADRATIC:
            return NotEvaluated.of(
                "too-long", turn=turn + 1, count=longest, total=LONGEST_COMPARED, metric=str(self.rules.algorithm)
            )
        return self.rules.score(expected, actual)

    def _finding(self, turn: int, score: float, reference: str, answer: str) -> TurnFinding:
        return TurnFinding(
            turn=turn,
            score=score,
            expected=shorten(reference, LONGEST_TEXT) or "(no text)",
            actual=shorten(answer, LONGEST_TEXT) or "(no text)",
            why=explain_similarity(self.rules.prepare(reference), self.rules.prepare(answer), self.rules),
        )


def _without_reference(turn: int) -> NotEvaluated:
    return NotEvaluated.of("no-reference-text", turn=turn + 1)
