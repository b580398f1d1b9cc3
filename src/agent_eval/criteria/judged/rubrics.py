"""Rubrics: which ones apply to a turn, the question to the judge, and the score of the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.core.invocation import Rubric
from agent_eval.core.prompt_fence import Draft
from agent_eval.criteria.base import Conversation, Judgement, NotEvaluated
from agent_eval.criteria.judged._material import as_json
from agent_eval.criteria.judged.judge import Opinions, Question, counted_from_0
from agent_eval.criteria.judged.settling import exact_mean, filled

RUBRIC_SCALE = {"yes": 1.0, "no": 0.0}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "description": "One entry for each property of the list, in its order.",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer", "description": "The property's number in the list."},
                    "evidence": {"type": "string", "description": "What in the material bears on it, quoted briefly."},
                    "rationale": {"type": "string", "description": "Why the verdict follows."},
                    "verdict": {"type": "string", "enum": list(RUBRIC_SCALE)},
                },
                "required": ["number", "evidence", "rationale", "verdict"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["verdicts"],
    "additionalProperties": False,
}
"""Properties are identified by number, because a judge might misspell an id."""


def effective_rubrics(
    criterion: Sequence[Rubric], conversation: Conversation, turn: int, rubric_type: str
) -> list[Rubric] | NotEvaluated:
    """The rubrics of one turn: the criterion's, then those of the case and of the turn with the metric's type.

    Untyped rubrics of a case or a turn apply to no metric, as in ADK. Returns at least one rubric, or the reason for
    none.
    """
    turns = conversation.expected if conversation.expected is not None else conversation.actual
    own = [*(conversation.case.rubrics or ()), *(turns[turn].rubrics or ())]
    rubrics = [*criterion, *(rubric for rubric in own if rubric.type == rubric_type)]
    ids = [rubric.rubric_id for rubric in rubrics]
    duplicate = next((rubric_id for number, rubric_id in enumerate(ids) if rubric_id in ids[:number]), None)
    if duplicate is not None:
        return NotEvaluated(
            code="duplicate-rubric",
            message=f"turn {turn + 1} has two rubrics with the id {duplicate!r}; rename one of them",
        )
    if not rubrics:
        return NotEvaluated(
            code="no-rubrics",
            message=f"no rubric applies to turn {turn + 1}: none in the criterion, and none "
            f"with the type {rubric_type} in the case or the turn",
        )
    return rubrics


def rubric_question(turn: int | None, rubrics: Sequence[Rubric], draft: Draft) -> Question:
    """The question for a verdict on each rubric.

    Args:
        turn: The turn that the judgements are about.
        rubrics: At least one.
        draft: The task and the material; the list of properties is appended.
    """

    def listing(which: Sequence[int]) -> str:
        properties = [
            {"number": number + 1, "property": rubrics[number].rubric_content.text_property or ""} for number in which
        ]
        return f"The properties to check:\n{as_json(properties)}"

    everything = range(len(rubrics))
    return Question(
        turn=turn,
        subjects=[rubric.rubric_id for rubric in rubrics],
        draft=(*draft, listing(everything), "Give a verdict on each of them."),
        schema=SCHEMA,
        scale=RUBRIC_SCALE,
        read=read_verdicts,
        again=lambda skipped: (*draft, listing(skipped), "Give a verdict on each of them. Leave none out."),
    )


def read_verdicts(value: Any) -> Opinions:
    """The opinions of a reply, by 0-based rubric. Contradictory verdicts on one rubric are dropped."""
    opinions: dict[int, tuple[str, str]] = {}
    contradictory: set[int] = set()
    entries = value.get("verdicts") if isinstance(value, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        number, verdict = (entry.get("number"), entry.get("verdict")) if isinstance(entry, dict) else (None, None)
        index = counted_from_0(number)
        if index is None or not isinstance(verdict, str):
            continue
        if index in opinions and opinions[index][0] != verdict:
            contradictory.add(index)
        opinions.setdefault(index, (verdict, str(entry.get("rationale", ""))))
    return {number: opinion for number, opinion in opinions.items() if number not in contradictory}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of rubrics."""

    by_id: Mapping[str, float] = field(default_factory=dict)
    """Positive; the default is 1."""

    def mean(self, judgements: Sequence[Judgement], fill: float | None = None) -> float | None:
        """The weighted mean over all rubrics of all turns (not the mean of the turns' means), as in ADK.

        Args:
            judgements: Of rubrics.
            fill: The score of a missing verdict; None ignores it.
        """
        pairs = [(filled(each.score, fill), self.by_id.get(each.subject, 1.0)) for each in judgements]
        scored = [(score, weight) for score, weight in pairs if score is not None]
        return exact_mean([score for score, _ in scored], [weight for _, weight in scored])
