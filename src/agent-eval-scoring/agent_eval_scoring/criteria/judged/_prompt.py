"""`judge_prompt`: a model scores the conversation by a prompt of the repository's, on the prompt's own scale.

Also agents-cli's metrics with a `prompt_template`, which agents-cli sends to Google's service. How the service combines
its samples is not public; here the score is their mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.prompt_fence import Data, Draft
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated, Result, TurnFinding, Vote, no_turns
from agent_eval_scoring.criteria.judged._material import NO_TEXT, RULE, values_of
from agent_eval_scoring.criteria.judged.judge import CODES, Judge, Options, Panel, Unjudgeable, together
from agent_eval_scoring.criteria.judged.settling import exact_mean, mean_score, settle, why
from agent_eval_scoring.evalset.models import PROMPT_VALUES
from agent_eval_scoring.models import ModelFailure

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string", "description": "Two or three sentences, with what was decisive."},
        "score": {"type": "number", "description": "On the scale that the task describes."},
    },
    "required": ["explanation", "score"],
    "additionalProperties": False,
}
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, kw_only=True)
class JudgePrompt:
    """The mean of the samples' scores, any finite number; a case is judged once, after its last turn."""

    name: str
    threshold: float
    """-inf: none."""
    judge: Judge
    options: Options
    template: str
    system: str = ""
    scale: tuple[float, float] = (-math.inf, math.inf)
    """The lowest and the highest score that counts."""
    direction: Literal["higher", "lower", "none"] = "higher"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated if the case lacks what the prompt names, or no sample has a score."""
        if not conversation.actual:
            return no_turns()
        values = values_of(conversation)
        names = dict.fromkeys(name for name in _PLACEHOLDER.findall(self.template) if name in {*PROMPT_VALUES, *values})
        if missing := [name for name in names if not values.get(name)]:
            return NotEvaluated.of("case-value-missing", subject=missing[0])
        panel = Panel(self.judge, self.options, self.name, conversation)
        draft = tuple(_draft(self.system, self.template, {name: values[name] for name in names}))
        try:
            votes = await together([self._sample(panel, draft, sample) for sample in range(self.options.samples)])
        except Unjudgeable as stopped:
            return stopped.result
        score = exact_mean([vote.score for vote in votes if vote.score is not None])
        first = next((vote for vote in votes if vote.score is not None), votes[0])
        judgement = Judgement(
            turn=None,
            subject="",
            verdict=None if score is None else f"{score:g}",
            score=score,
            rationale=first.rationale,
            votes=tuple(votes),
            planned=len(votes),
        )
        better = score is not None and (
            score <= self.threshold if self.direction == "lower" else score >= self.threshold
        )
        passed = None if math.isinf(self.threshold) else better
        last = len(conversation.actual) - 1
        finding = TurnFinding(
            turn=last,
            score=score,
            expected=f"at {'most' if self.direction == 'lower' else 'least'} {self.threshold:g}",
            actual=shorten(text_of(conversation.actual[last].final_response), LONGEST_TEXT) or NO_TEXT,
            why=(why(judgement),),
        )
        return settle(
            [judgement],
            partial(mean_score, [judgement]),
            panel=panel,
            threshold=self.threshold,
            turn_scores=[None] * last + [score],
            findings=[finding] if passed is False and score is not None else [],
            span=(-math.inf, math.inf),
            passed=passed,
        )

    async def _sample(self, panel: Panel, draft: Draft, sample: int) -> Vote:
        try:
            value: Any = (await panel.ask(draft, SCHEMA, sample)).value
        except ModelFailure as failure:
            return Vote(sample=sample, verdict=None, score=None, rationale=failure.message, failure=CODES[failure.kind])
        score = float(value["score"])
        if not math.isfinite(score) or not self.scale[0] <= score <= self.scale[1]:
            why = f"the judge's score {score:g} is not on the scale"
            return Vote(sample=sample, verdict=None, score=None, rationale=why)
        return Vote(sample=sample, verdict=f"{score:g}", score=score, rationale=value["explanation"])


def _draft(system: str, template: str, values: Mapping[str, str]) -> Iterator[str | Data]:
    """The prompt, in which each placeholder is a piece of data."""
    yield f"You score what an AI agent did, by the task that follows.\n\n{RULE}"
    if system:
        yield system
    at = 0
    for match in _PLACEHOLDER.finditer(template):
        if match[1] in values:
            if before := template[at : match.start()].strip():
                yield before
            yield Data(label=match[1], text=values[match[1]])
            at = match.end()
    if rest := template[at:].strip():
        yield rest
    yield "Explain first, then give the score as a number."
