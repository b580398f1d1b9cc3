"""The five metrics that ADK sends to Vertex AI's evaluation service, judged by that service: `"backend": "vertex"`.

The request bodies are those of google-adk 2.13.0 with google-cloud-aiplatform 2.7.0 (`make conformance`). The service
has its own prompts and rubrics. It is a paid service, asked once per turn or once per conversation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.invocation import AgentDetails, Invocation
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import (
    Conversation,
    Judgement,
    NotEvaluated,
    Result,
    TurnFinding,
    Vote,
    no_turns,
    paired,
)
from agent_eval_scoring.criteria.judged._material import NO_TEXT, dialogue, events_of, number_of, without_nulls
from agent_eval_scoring.criteria.judged.judge import CODES, Judge, Options, Panel, Unjudgeable, together
from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS
from agent_eval_scoring.criteria.judged.settling import mean_score, settle, why
from agent_eval_scoring.evalset.models import METRICS
from agent_eval_scoring.models import ModelFailure
from agent_eval_scoring.models.vertex_eval import RESULT, metric_spec

_EMPTY = "the service judges no answer without text"


@dataclass(frozen=True, kw_only=True)
class VertexQuality:
    """One of the five metrics, scored by the service.

    Single-turn metrics are means over turns, the others judge the conversation once. An answer without text is a
    missing verdict, because the service refuses it (in ADK the whole metric fails).
    """

    name: str
    threshold: float
    judge: Judge
    options: Options

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run."""
        spec, turns = JUDGE_SPECS[self.name], conversation.actual
        expected: Sequence[Invocation | None] = [None] * len(turns)
        if METRICS[self.name].needs_reference or conversation.expected is not None:
            pairs = paired(conversation)
            if isinstance(pairs, NotEvaluated):
                return pairs
            expected = [reference for _, reference in pairs]
        if not turns:
            return no_turns()
        panel = Panel(self.judge, self.options, self.name, conversation)
        if spec.conversation:
            work = [self._ask(panel, len(turns) - 1, conversation_instance(turns))]
        else:
            work = [
                self._ask(panel, number, turn_instance(turn, reference))
                for number, (turn, reference) in enumerate(zip(turns, expected, strict=True))
            ]
        try:
            asked = await together(work)
        except Unjudgeable as stopped:
            return stopped.result
        judged = {whole.turn: whole for whole, _ in asked}
        scores = [judged[turn].score if turn in judged else None for turn in range(len(turns))]
        return settle(
            [judgement for whole, rubrics in asked for judgement in (whole, *rubrics)],
            partial(mean_score, list(judged.values())),
            panel=panel,
            threshold=self.threshold,
            turn_scores=scores,
            findings=[
                self._finding(turns, whole, rubrics)
                for whole, rubrics in asked
                if whole.score is not None and whole.score < self.threshold
            ],
            span=spec.span,
            extra={"backend": "vertex"},
        )

    async def _ask(
        self, panel: Panel, turn: int, instance: Mapping[str, Any] | None
    ) -> tuple[Judgement, list[Judgement]]:
        """The verdict on a turn or the conversation, and those on its rubrics."""
        if instance is None:
            return _missing(turn, _EMPTY), []
        body = {"metrics": [metric_spec(self.name)], "instance": instance}
        try:
            reply = await panel.ask((json.dumps(body, ensure_ascii=False),), RESULT)
        except ModelFailure as failure:
            return _missing(turn, failure.message, CODES[failure.kind]), []
        value: Any = reply.value
        score = float(value["score"])
        low, high = JUDGE_SPECS[self.name].span
        if not low <= score <= high:
            return _missing(turn, f"the service's score {score:g} is not between {low:g} and {high:g}"), []
        rubrics = [
            _judgement(turn, rubric["rubric"], float(rubric["met"]), rubric["reasoning"]) for rubric in value["rubrics"]
        ]
        return _judgement(turn, "", score, value["explanation"]), rubrics

    def _finding(self, turns: Sequence[Invocation], whole: Judgement, rubrics: Sequence[Judgement]) -> TurnFinding:
        assert whole.turn is not None
        shown = dialogue(turns) if JUDGE_SPECS[self.name].conversation else text_of(turns[whole.turn].final_response)
        return TurnFinding(
            turn=whole.turn,
            score=whole.score,
            expected=f"at least {self.threshold:g}",
            actual=shorten(shown, LONGEST_TEXT) or NO_TEXT,
            why=tuple(map(why, (whole, *(rubric for rubric in rubrics if not rubric.score)))),
        )


def turn_instance(turn: Invocation, reference: Invocation | None) -> dict[str, Any] | None:
    """The request's instance for a turn; None if there is no answer."""
    prompt, response = text_of(turn.user_content), text_of(turn.final_response)
    if not response:
        return None
    messages = [("user", prompt), ("model", response)]
    events = [{"author": author, "content": _text(text)} for author, text in messages]
    instance: dict[str, Any] = {"prompt": _data(prompt), "response": _data(response)}
    if reference is not None:
        instance["reference"] = _data(text_of(reference.final_response))
    return {**instance, "agent_eval_data": {"turns": [{"turn_index": 0, "turn_id": "turn_0", "events": events}]}}


def conversation_instance(turns: Sequence[Invocation]) -> dict[str, Any]:
    """The request's instance for a conversation: the agents, and all events of all turns."""
    agents: dict[str, AgentDetails] = {}
    for turn in turns:
        for name, details in turn.app_details.agent_details.items() if turn.app_details else ():
            agents.setdefault(name, details)
    shown: dict[str, Any] = {"agents": {name: _agent(details) for name, details in agents.items()}}
    ids: dict[str, str] = {}
    shown["turns"] = [
        {"turn_index": number, "turn_id": f"turn_{number}", "events": _events(turn, ids)}
        for number, turn in enumerate(turns)
    ]
    return {"prompt": {"contents": {"contents": []}}, "agent_eval_data": shown}


def _agent(details: AgentDetails) -> dict[str, Any]:
    return {
        "agent_id": details.name,
        "instruction": details.instructions,
        "tools": without_nulls(details.tool_declarations),
    }


def _events(turn: Invocation, ids: dict[str, str]) -> list[dict[str, Any]]:
    between = [(event.author, event.content) for event in events_of(turn) if event.content is not None]
    listed = [("user", turn.user_content), *between, ("agent", turn.final_response)]
    return [_event(author, content, ids) for author, content in listed]


def _event(author: str, content: Content | None, ids: dict[str, str]) -> dict[str, Any]:
    if content is None:
        return {"author": author}
    value = content.model_dump(mode="json", exclude_none=True)
    for part in value.get("parts", ()):
        for call in (part.get("function_call"), part.get("function_response")):
            if call and "id" in call:
                call["id"] = number_of(call["id"], ids)
    return {"author": author, "content": value}


def _data(text: str) -> dict[str, Any]:
    return {"contents": {"contents": [_text(text)]}}


def _text(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def _judgement(turn: int, subject: str, score: float, explanation: str) -> Judgement:
    verdict = ("met" if score else "not met") if subject else f"{score:g}"
    vote = Vote(sample=0, verdict=verdict, score=score, rationale=explanation)
    return Judgement(
        turn=turn, subject=subject, verdict=verdict, score=score, rationale=explanation, votes=(vote,), planned=1
    )


def _missing(turn: int, explanation: str, failure: str | None = None) -> Judgement:
    vote = Vote(sample=0, verdict=None, score=None, rationale=explanation, failure=failure)
    return Judgement(turn=turn, subject="", verdict=None, score=None, rationale=explanation, votes=(vote,), planned=1)
