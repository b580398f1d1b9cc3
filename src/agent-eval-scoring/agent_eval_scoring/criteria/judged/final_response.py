"""`final_response_match_v2`: a judge votes on whether the answer is equivalent to the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.prompt_fence import Data, Draft
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import (
    Conversation,
    Judgement,
    NotEvaluated,
    Result,
    TurnFinding,
    TurnPair,
    paired,
)
from agent_eval_scoring.criteria.judged._material import NO_TEXT, RULE, answer_text
from agent_eval_scoring.criteria.judged.judge import Judge, Opinions, Options, Panel, Question, Unjudgeable, together
from agent_eval_scoring.criteria.judged.settling import mean_score, settle, why

VALIDITY_SCALE = {"valid": 1.0, "invalid": 0.0}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "Two or three sentences that compare the two answers."},
        "verdict": {"type": "string", "enum": list(VALIDITY_SCALE)},
    },
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}

_TASK = f"""You check answers of an AI agent against reference answers.

{RULE}

You get a user's message, the agent's answer to it, and a reference answer that is known to be right. Decide whether
somebody who asks that question is served by the agent's answer as well as by the reference.

Call the answer valid when it agrees with the reference in everything that was asked for:
- Wording, language, order, length, formatting and politeness don't matter, unless the user asked for a certain form.
- Numbers, dates, units and names match by what they mean: "1,000", "1000" and "one thousand" are the same.
- More detail than in the reference is fine as long as nothing contradicts the reference.
- Where the user asked for a few examples out of many, other right examples than the reference's are fine.
- An answer that asks back, or declines, is valid only if the reference does so too.

Call it invalid when it contradicts the reference, leaves out something essential that the reference has, answers
another question, says something else than what was done, or is empty while the reference isn't. An answer that is right
only in part is invalid. When you can't tell, it is invalid.

The reference is right even where you know better. Give your reasoning first, then the verdict."""


def _draft(prompt: str, reference: str, answer: str) -> Draft:
    return (
        _TASK,
        Data(label="The user's message", text=prompt or NO_TEXT),
        Data(label="The reference answer", text=reference or NO_TEXT),
        Data(label="The agent's answer, to be checked", text=answer or NO_TEXT),
        "Is the agent's answer valid?",
    )


def read_verdict(value: Any) -> Opinions:
    """The opinion of a reply of the form `{"reasoning": ..., "verdict": ...}`; empty for any other reply."""
    if not isinstance(value, dict) or not isinstance(value.get("verdict"), str):
        return {}
    return {0: (value["verdict"], str(value.get("reasoning", "")))}


@dataclass(frozen=True, kw_only=True)
class FinalResponseMatch:
    """The share of turns with a valid answer by the judge's votes, 0..1. A tie is invalid.

    A missing reference is the empty text, as in ADK.
    """

    threshold: float
    judge: Judge
    options: Options
    include_intermediate: bool = False
    name: str = "final_response_match_v2"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run."""
        pairs = paired(conversation)
        if isinstance(pairs, NotEvaluated):
            return pairs
        panel = Panel(self.judge, self.options, self.name, conversation)
        try:
            asked = await together([panel.poll(self._question(turn, pair)) for turn, pair in enumerate(pairs)])
        except Unjudgeable as stopped:
            return stopped.result
        judgements = [judgement for of_turn in asked for judgement in of_turn]
        return settle(
            judgements,
            partial(mean_score, judgements),
            panel=panel,
            threshold=self.threshold,
            turn_scores=[judgement.score for judgement in judgements],
            findings=[
                self._finding(turn, pair, judgement)
                for turn, (pair, judgement) in enumerate(zip(pairs, judgements, strict=True))
                if judgement.score is not None and judgement.score < self.threshold
            ],
        )

    def _question(self, turn: int, pair: TurnPair) -> Question:
        actual, expected = pair
        reference = answer_text(expected, with_intermediate=self.include_intermediate)
        answer = answer_text(actual, with_intermediate=self.include_intermediate)
        draft = _draft(text_of(expected.user_content), reference, answer)
        return Question(turn=turn, subjects=("",), draft=draft, schema=SCHEMA, scale=VALIDITY_SCALE, read=read_verdict)

    def _finding(self, turn: int, pair: TurnPair, judgement: Judgement) -> TurnFinding:
        actual, expected = pair
        return TurnFinding(
            turn=turn,
            score=judgement.score,
            expected=shorten(answer_text(expected, with_intermediate=self.include_intermediate), LONGEST_TEXT)
            or NO_TEXT,
            actual=shorten(answer_text(actual, with_intermediate=self.include_intermediate), LONGEST_TEXT) or NO_TEXT,
            why=(why(judgement),),
        )
