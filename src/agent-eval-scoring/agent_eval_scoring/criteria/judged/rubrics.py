"""Rubrics: which ones apply to a turn, the question to the judge, and the score of the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval_scoring.core.invocation import Rubric
from agent_eval_scoring.core.prompt_fence import Draft
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated
from agent_eval_scoring.criteria.judged._material import as_json
from agent_eval_scoring.criteria.judged.judge import Opinions, Question, counted_from_0
from agent_eval_scoring.criteria.judged.settling import exact_mean, filled
from agent_eval_scoring.evalset.models import RubricLevel

RUBRIC_SCALE = {"yes": 1.0, "no": 0.0}

Levels = Mapping[str, Sequence[RubricLevel]]
"""The levels of graded rubrics by rubric id, the lowest first."""


def level_scale(levels: Sequence[RubricLevel]) -> dict[str, float]:
    """The verdicts on a graded rubric: the levels' numbers, from 1, with their scores."""
    return {str(number): level.score for number, level in enumerate(levels, 1)}


def _schema(verdicts: Sequence[str]) -> dict[str, Any]:
    """The schema of a reply. Properties are identified by number, because a judge might misspell an id."""
    entry = {
        "number": {"type": "integer", "description": "The property's number in the list."},
        "evidence": {"type": "string", "description": "What in the material bears on it, quoted briefly."},
        "rationale": {"type": "string", "description": "Why the verdict follows."},
        "verdict": {"type": "string", "enum": list(verdicts)},
    }
    items = {"type": "object", "properties": entry, "required": list(entry), "additionalProperties": False}
    verdict_list = {
        "type": "array",
        "description": "One entry for each property of the list, in its order.",
        "items": items,
    }
    return {
        "type": "object",
        "properties": {"verdicts": verdict_list},
        "required": ["verdicts"],
        "additionalProperties": False,
    }


SCHEMA: Mapping[str, Any] = _schema(list(RUBRIC_SCALE))

_GRADING = """Where a property has levels, the verdict is not yes or no but the number of the level that describes the
material best. Between two levels take the lower one. Take the highest level when the property does not apply to this
case."""


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
        return NotEvaluated.of("duplicate-rubric", turn=turn + 1, subject=duplicate)
    if not rubrics:
        return NotEvaluated.of("no-rubrics", turn=turn + 1, subject=rubric_type)
    return rubrics


def rubric_question(turn: int | None, rubrics: Sequence[Rubric], draft: Draft, levels: Levels) -> Question:
    """The question for a verdict on each rubric.

    Args:
        turn: The turn that the judgements are about.
        rubrics: At least one.
        draft: The task and the material; the list of properties is appended.
        levels: Of graded rubrics. All others are judged with yes or no.
    """

    def listing(which: Sequence[int]) -> str:
        return f"The properties to check:\n{as_json([_property(number, rubrics[number], levels) for number in which])}"

    everything = range(len(rubrics))
    scales = {
        number: level_scale(levels[rubric.rubric_id])
        for number, rubric in enumerate(rubrics)
        if rubric.rubric_id in levels
    }
    grading = (_GRADING,) if scales else ()
    verdicts = dict.fromkeys([*RUBRIC_SCALE, *(word for scale in scales.values() for word in scale)])
    return Question(
        turn=turn,
        subjects=[rubric.rubric_id for rubric in rubrics],
        draft=(*draft, listing(everything), *grading, "Give a verdict on each of them."),
        schema=_schema(list(verdicts)) if scales else SCHEMA,
        scale=RUBRIC_SCALE,
        other_scales=scales,
        read=read_verdicts,
        again=lambda skipped: (*draft, listing(skipped), *grading, "Give a verdict on each of them. Leave none out."),
    )


def _property(number: int, rubric: Rubric, levels: Levels) -> dict[str, Any]:
    entry: dict[str, Any] = {"number": number + 1, "property": rubric.rubric_content.text_property or ""}
    if rubric.rubric_id in levels:
        entry["levels"] = [
            {"verdict": str(level), "description": each.text} for level, each in enumerate(levels[rubric.rubric_id], 1)
        ]
    return entry


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
    """Not negative; the default is 1."""

    def of(self, rubric_id: str) -> float:
        """The weight of a rubric."""
        return self.by_id.get(rubric_id, 1.0)

    def mean(self, judgements: Sequence[Judgement], fill: float | None = None) -> float | None:
        """The weighted mean over all rubrics of all turns (not the mean of the turns' means), as in ADK.

        Args:
            judgements: Of rubrics.
            fill: The score of a missing verdict; None ignores it.
        """
        pairs = [(filled(each.score, fill), self.of(each.subject)) for each in judgements]
        scored = [(score, weight) for score, weight in pairs if score is not None]
        return exact_mean([score for score, _ in scored], [weight for _, weight in scored])
