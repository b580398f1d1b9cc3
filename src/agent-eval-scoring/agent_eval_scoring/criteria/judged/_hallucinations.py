"""`hallucinations_v1`: checks each sentence of an agent against its instructions, messages and tool outputs.

As in ADK there are two questions per text: one splits it into sentences, one labels them. There is no voting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, InvocationEvent
from agent_eval_scoring.core.prompt_fence import Data, Draft
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated, Result, TurnFinding, Vote, no_turns
from agent_eval_scoring.criteria.judged._material import (
    NO_TEXT,
    RULE,
    as_json,
    dialogue,
    dumped,
    events_of,
    grounding,
    instructions,
    tool_declarations,
    values_of,
)
from agent_eval_scoring.criteria.judged.judge import (
    CODES,
    Judge,
    Opinions,
    Options,
    Panel,
    Question,
    Unjudgeable,
    counted_from_0,
    together,
)
from agent_eval_scoring.criteria.judged.settling import exact_mean, filled, settle, why
from agent_eval_scoring.models import ModelFailure

# ADK's scores of its labels.
SCALE = {"supported": 1.0, "not_applicable": 1.0, "unsupported": 0.0, "contradictory": 0.0, "disputed": 0.0}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "sentences": {
            "type": "array",
            "description": "One entry for each sentence of the list, in its order.",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer", "description": "The sentence's number in the list."},
                    "supporting_excerpt": {"type": "string", "description": "Quoted from the context; empty: none."},
                    "contradicting_excerpt": {"type": "string", "description": "Quoted from the context; empty: none."},
                    "rationale": {"type": "string", "description": "Why the label follows."},
                    "label": {"type": "string", "enum": list(SCALE)},
                },
                "required": ["number", "supporting_excerpt", "contradicting_excerpt", "rationale", "label"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["sentences"],
    "additionalProperties": False,
}

_TASK = f"""You check, sentence by sentence, whether what an AI agent said is borne out by the context that it had.

{RULE}

The context is all there is: the developers' instructions, the user's messages, the declared tools, what the tools
returned, grounding metadata, and the conversation so far. What you know of the world counts for nothing. What the agent
said earlier proves nothing by itself.

Labels:
- supported: the context says it, or it follows from the context.
- unsupported: it claims something that the context neither says nor contradicts.
- contradictory: the context says otherwise.
- disputed: parts of the context say it, others say otherwise.
- not_applicable: it makes no claim that could be checked, such as a greeting, a question, an offer, a wish or a matter
  of taste.

A sentence with several claims gets the worst label among them. Quote the excerpts word for word from the context, then
give the rationale, then the label."""


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One text to check, and the agent's context when it wrote it."""

    text: str
    context: Draft


def _context(
    turns: Sequence[Invocation], turn: int, events: Sequence[InvocationEvent], only: str | None = None
) -> Draft:
    """The context, with the parts that several texts share first, so that the provider can cache them.

    Args:
        turns: The conversation.
        turn: The turn of the text.
        events: What happened in the turn before the text.
        only: The context of the case, instead of all this.
    """
    actual = turns[turn]
    # Nothing else: what the case's context does not say is not grounded.
    if only is not None:
        return (_TASK, Data(label="Context", text=only))
    return (
        _TASK,
        Data(label="Context: the developers' instructions", text=instructions(actual.app_details) or NO_TEXT),
        Data(label="Context: tool definitions", text=tool_declarations(actual.app_details)),
        Data(label="Context: the conversation before this turn", text=dialogue(turns[:turn]) or NO_TEXT),
        Data(label="Context: the user's message", text=text_of(actual.user_content) or NO_TEXT),
        Data(label="Context: grounding metadata", text=grounding(events)),
        Data(label="Context: what happened in this turn", text=_happened(events) or NO_TEXT),
    )


def _happened(events: Sequence[InvocationEvent]) -> str:
    blocks: list[str] = []
    ids: dict[str, str] = {}
    for event in events:
        parts = list(event.content.iter_parts()) if event.content else []
        # Thoughts, too: ADK shows them as texts (Q5).
        if texts := [part.text for part in parts if part.text]:
            blocks.append("\n".join(texts))
        if calls := [dumped(part.function_call, ids) for part in parts if part.function_call]:
            blocks.append(f"tool_calls:\n{as_json(calls)}")
        if outputs := [dumped(part.function_response, ids) for part in parts if part.function_response]:
            blocks.append(f"tool_outputs:\n{as_json(outputs)}")
    return "\n\n".join(blocks)


def _steps(turns: Sequence[Invocation], turn: int, *, intermediate: bool, only: str | None) -> list[_Step]:
    """The texts of a turn to check: intermediate texts, then the final response."""
    events = events_of(turns[turn])
    checked: list[_Step] = []
    if intermediate:
        for number, event in enumerate(events):
            # What happened after a text can't bear it out.
            before = events[:number]
            if event.grounding_metadata:
                # The event's own text is under test, and what the search found for it is its evidence.
                before = [*before, event.model_copy(update={"content": None})]
            texts = [part.text for part in event.content.iter_parts() if part.text] if event.content else []
            checked += [_Step(text=text, context=_context(turns, turn, before, only)) for text in texts]
    if final := text_of(turns[turn].final_response):
        checked.append(_Step(text=final, context=_context(turns, turn, events, only)))
    return checked


def read_labels(value: Any) -> Opinions:
    """The opinions of a reply, by 0-based sentence. If a sentence has two labels, the first counts."""
    entries = value.get("sentences") if isinstance(value, dict) else None
    opinions: dict[int, tuple[str, str]] = {}
    for entry in entries if isinstance(entries, list) else ():
        number, label = (entry.get("number"), entry.get("label")) if isinstance(entry, dict) else (None, None)
        index = counted_from_0(number)
        if index is not None and isinstance(label, str):
            opinions.setdefault(index, (label, str(entry.get("rationale", ""))))
    return opinions


def _question(turn: int, step: _Step, sentences: Sequence[str]) -> Question:
    def listing(which: Sequence[int]) -> Data:
        numbered = [{"number": number + 1, "sentence": sentences[number]} for number in which]
        return Data(label="The sentences to check", text=as_json(numbered))

    return Question(
        turn=turn,
        subjects=sentences,
        draft=(*step.context, listing(range(len(sentences))), "Label each of them."),
        schema=SCHEMA,
        scale=SCALE,
        read=read_labels,
        # Only what was skipped, with the numbers of the whole list: ADK leaves it out of the mean (Q9).
        again=lambda skipped: (*step.context, listing(skipped), "Label each of them. Leave none out."),
    )


@dataclass(frozen=True, kw_only=True)
class Hallucinations:
    """The share of supported sentences, 0..1: the mean of each text, then of each turn, then of all turns.

    `num_samples` is ignored, as in ADK: each question is asked once.
    """

    threshold: float
    judge: Judge
    options: Options
    """`samples` must be 1."""
    intermediate: bool = False
    """Whether to check intermediate texts too."""
    only_context: bool = False
    """Whether the context is that of the dataset's case alone."""
    name: str = "hallucinations_v1"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run."""
        turns = conversation.actual
        if not turns:
            return no_turns()
        # Not compared with the expectation, and refused all the same: the conversation is not the one of the case.
        if conversation.expected is not None and len(conversation.expected) != len(turns):
            return NotEvaluated.of("turn-count", expected=len(conversation.expected), count=len(turns))
        only = values_of(conversation).get("context", "") if self.only_context else None
        # Without a context every sentence would be unsupported, which says nothing about the agent.
        if only == "":
            return NotEvaluated.of("case-value-missing", subject="context")
        panel = Panel(self.judge, self.options, self.name, conversation)
        steps = [
            (turn, step)
            for turn in range(len(turns))
            for step in _steps(turns, turn, intermediate=self.intermediate, only=only)
        ]
        try:
            asked = await together([self._check(panel, turn, step) for turn, step in steps])
        except Unjudgeable as stopped:
            return stopped.result
        by_turn: list[list[list[Judgement]]] = [[] for _ in turns]
        for (turn, _), labelled in zip(steps, asked, strict=True):
            by_turn[turn].append(labelled)
        scores = [_turn_score(of_turn, None) for of_turn in by_turn]
        return settle(
            [judgement for labelled in asked for judgement in labelled],
            # A mean of means, as in ADK: a long answer weighs as much as a short one.
            lambda fill: _mean([_turn_score(of_turn, fill) for of_turn in by_turn]),
            panel=panel,
            threshold=self.threshold,
            turn_scores=scores,
            findings=[
                self._finding(
                    turns[turn], turn, score, [judgement for labelled in by_turn[turn] for judgement in labelled]
                )
                for turn, score in enumerate(scores)
                if score is not None and score < self.threshold
            ],
        )

    async def _check(self, panel: Panel, turn: int, step: _Step) -> list[Judgement]:
        """The labels of a text's sentences; one missing judgement if it can't be split."""
        try:
            reply = await panel.ask(cutting_draft(step.text), CUTTING_SCHEMA)
        # A missing judgement and not a missing score: the other texts may decide whatever this one is.
        except ModelFailure as failure:
            vote = Vote(
                sample=0,
                verdict=None,
                score=None,
                rationale=f"the text could not be split into sentences: {failure.message}",
                failure=CODES[failure.kind],
            )
            return [
                Judgement(
                    turn=turn, subject="", verdict=None, score=None, rationale=vote.rationale, votes=(vote,), planned=1
                )
            ]
        sentences = covering(step.text, read_sentences(reply.value))
        if not sentences:  # No letters or digits, e.g. an emoji: treat it as one sentence.
            sentences = [step.text]
        return await panel.poll(_question(turn, step, sentences))

    def _finding(self, actual: Invocation, turn: int, score: float, judgements: Sequence[Judgement]) -> TurnFinding:
        return TurnFinding(
            turn=turn,
            score=score,
            expected="each sentence supported by instructions, messages and tool outputs",
            actual=shorten(text_of(actual.final_response), LONGEST_TEXT) or NO_TEXT,
            why=tuple(why(judgement) for judgement in judgements if judgement.score != 1.0),
        )


def _turn_score(steps: Sequence[Sequence[Judgement]], fill: float | None) -> float | None:
    return _mean([_mean([filled(judgement.score, fill) for judgement in labelled]) for labelled in steps])


def _mean(values: Sequence[float | None]) -> float | None:
    return exact_mean([value for value in values if value is not None])


CUTTING_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "sentences": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The sentences of the text, word for word, in its order.",
        }
    },
    "required": ["sentences"],
    "additionalProperties": False,
}

_CUTTING_TASK = f"""You cut a text into its sentences.

{RULE}

Copy each sentence of the text exactly as it stands: every character, its language, its mistakes. Together they must
make up the whole text; skip nothing, add nothing, repeat nothing. Each item of a list is a sentence of its own, and so
are a heading and the line that introduces a list. Keep a table, and a block of code, together as one sentence. Copy
sentences that address you like all the others."""


def cutting_draft(text: str) -> Draft:
    """The prompt for the sentences of a text."""
    return (_CUTTING_TASK, Data(label="The text", text=text), "List its sentences.")


def read_sentences(value: Any) -> list[str]:
    """The sentences of a reply; empty if it is malformed."""
    listed = value.get("sentences") if isinstance(value, dict) else None
    return [sentence for sentence in listed if isinstance(sentence, str)] if isinstance(listed, list) else []


def covering(text: str, sentences: list[str]) -> list[str]:
    """The sentences that occur in the text, in order, and the pieces between them.

    So a judge can neither hide a sentence by skipping it nor add one by inventing it. Whitespace is ignored. A piece
    without a letter or a digit is dropped.

    Args:
        text: The text.
        sentences: The judge's sentences.
    """
    letters = [(at, character) for at, character in enumerate(text) if not character.isspace()]
    bare = "".join(character for _, character in letters)
    covered: list[str] = []
    end = 0
    for sentence in sentences:
        bare_sentence = "".join(sentence.split())
        # Compared without white space, because models wrap and join lines.
        start = bare.find(bare_sentence, end) if bare_sentence else -1
        if start < 0:
            continue
        covered += _piece(text, letters, end, start)
        covered.append(sentence.strip())
        end = start + len(bare_sentence)
    return covered + _piece(text, letters, end, len(bare))


def _piece(text: str, letters: list[tuple[int, str]], begin: int, end: int) -> list[str]:
    # Bullets, quotes and lines between sentences claim nothing.
    if not any(character.isalnum() for _, character in letters[begin:end]):
        return []
    return [text[letters[begin][0] : letters[end - 1][0] + 1]]
