"""`response_match_score`: ROUGE-1 of each answer and its reference, with the exact scores of google-adk 2.13.0."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation
from agent_eval.core.text import shorten
from agent_eval.criteria._explain import LONGEST_TEXT, explain_response
from agent_eval.criteria._rouge import rouge1
from agent_eval.criteria._turns import TurnResult, score_turns
from agent_eval.criteria.base import Conversation, Result, TurnFinding
from agent_eval.criteria.tokenize import tokenize, words


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
