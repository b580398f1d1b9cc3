"""The three rubric-based criteria: about the answer, the use of tools, and a whole conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, Rubric
from agent_eval_scoring.core.prompt_fence import Data, Draft
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated, Result, TurnFinding, no_turns
from agent_eval_scoring.criteria.judged._material import (
    NO_TEXT,
    RULE,
    UNKNOWN_STEPS,
    all_instructions,
    all_tools,
    answer_text,
    dialogue,
    events_of,
    grounding,
    instructions,
    steps,
    tool_declarations,
)
from agent_eval_scoring.criteria.judged.judge import Judge, Options, Panel, Question, Unjudgeable, together
from agent_eval_scoring.criteria.judged.rubrics import RUBRIC_SCALE, Levels, Weights, effective_rubrics, rubric_question
from agent_eval_scoring.criteria.judged.settling import settle, why
from agent_eval_scoring.evalset.models import METRICS

FINAL_RESPONSE = "rubric_based_final_response_quality_v1"
TOOL_USE = "rubric_based_tool_use_quality_v1"
TRAJECTORY = "rubric_based_multi_turn_trajectory_quality_v1"

_VERDICTS = """Say yes when the property holds, and also when it does not apply to this case, for instance because its
condition never came up. Say no when it applies and does not hold, holds only in part, or can't be verified from the
material. Judge each property by itself. Keep to its words: don't add demands, and don't forgive it because the rest is
good."""

_ANSWER_TASK = f"""You check the final answer of an AI agent for properties that its developers demand.

{RULE}

{_VERDICTS}

Work in two steps. First gather what can be trusted: the user's words, what the tools returned to calls that were
proper for the request, and grounding metadata. An answer that rests on a call with wrong arguments, on a tool that
failed, or on nothing at all is not verified by sounding right. Then hold the answer against the property and that
evidence. Work out yourself what the right value would be before you look at the value that the agent gives."""

_TOOLS_TASK = f"""You check how an AI agent used its tools for properties that its developers demand.

{RULE}

{_VERDICTS}

For each property: find out which tools, arguments or order it speaks of; look which of the declared tools could do
that; find the calls that were made, and compare names, arguments and order; look at what the tools returned where the
property depends on it; only then decide. What the agent says in words proves no call."""

_TRAJECTORY_TASK = f"""You check a whole conversation between a user and an AI agent for properties that the agent's
developers demand.

{RULE}

{_VERDICTS}

Read the conversation from beginning to end. Consider what the agent knew at each moment, what it did with tool outputs,
whether later turns repaired earlier mistakes, and whether the agent claimed things that it never did. Each line names
who speaks, and the turn."""


def _answer_draft(turn: Invocation, answer: str, *, calls_visible: bool) -> Draft:
    return (
        _ANSWER_TASK,
        Data(label="What the agent's developers told it", text=instructions(turn.app_details) or NO_TEXT),
        Data(label="The tools it could call", text=tool_declarations(turn.app_details)),
        Data(label="The user's message", text=text_of(turn.user_content) or NO_TEXT),
        Data(
            label="Tool calls and what they returned",
            text=steps(turn.intermediate_data) if calls_visible else UNKNOWN_STEPS,
        ),
        Data(label="Grounding metadata", text=grounding(events_of(turn))),
        Data(label="The final answer, to be checked", text=answer or NO_TEXT),
    )


def _tools_draft(turn: Invocation) -> Draft:
    # As in ADK this judge doesn't see the answer.
    return (
        _TOOLS_TASK,
        Data(label="The tools that the agent could call", text=tool_declarations(turn.app_details)),
        Data(label="The user's message", text=text_of(turn.user_content) or NO_TEXT),
        Data(label="Tool calls and what they returned, to be checked", text=steps(turn.intermediate_data)),
    )


def _trajectory_draft(turns: Sequence[Invocation]) -> Draft:
    return (
        _TRAJECTORY_TASK,
        Data(label="What the agents' developers told them", text=all_instructions(turns) or NO_TEXT),
        Data(label="The tools they could call", text=all_tools(turns) or NO_TEXT),
        Data(label="The conversation, to be checked", text=dialogue(turns) or NO_TEXT),
    )


@dataclass(frozen=True, kw_only=True)
class RubricCriterion:
    """The weighted mean of verdicts on properties, 0..1, over all turns; or of the conversation as a whole.

    A verdict is yes (1) or no (0), or the score of a graded rubric's level.
    """

    name: str
    threshold: float
    judge: Judge
    options: Options
    rubrics: Sequence[Rubric] = ()
    """The criterion's own rubrics; they apply to every turn, regardless of their type."""
    weights: Weights = field(default_factory=Weights)
    levels: Levels = field(default_factory=dict)
    include_intermediate: bool = False

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run."""
        turns = conversation.actual
        if not turns:
            return no_turns()
        if conversation.expected is not None and len(conversation.expected) != len(turns):
            return NotEvaluated.of(
                "turn-count", phrase="turn-count-rubrics", expected=len(conversation.expected), count=len(turns)
            )
        # A conversation is judged once, with the rubrics of its last turn.
        judged = [len(turns) - 1] if self.name == TRAJECTORY else list(range(len(turns)))
        questions: list[Question] = []
        properties: dict[int, dict[str, str]] = {}
        for turn in judged:
            rubrics = effective_rubrics(self.rubrics, conversation, turn, METRICS[self.name].rubric_type or "")
            if isinstance(rubrics, NotEvaluated):
                return rubrics
            properties[turn] = {each.rubric_id: each.rubric_content.text_property or "" for each in rubrics}
            questions.append(rubric_question(turn, rubrics, self._draft(conversation, turn), self.levels))
        panel = Panel(self.judge, self.options, self.name, conversation)
        try:
            asked = await together([panel.poll(question) for question in questions])
        except Unjudgeable as stopped:
            return stopped.result
        by_turn = dict(zip(judged, asked, strict=True))
        scores = [self.weights.mean(by_turn.get(turn, ())) for turn in range(len(turns))]
        judgements = [judgement for of_turn in asked for judgement in of_turn]
        return settle(
            judgements,
            lambda fill: self.weights.mean(judgements, fill),
            panel=panel,
            threshold=self.threshold,
            turn_scores=scores,
            findings=[
                self._finding(turns, turn, score, by_turn[turn], properties[turn])
                for turn, score in enumerate(scores)
                if score is not None and score < self.threshold
            ],
        )

    def _draft(self, conversation: Conversation, turn: int) -> Draft:
        turns = conversation.actual
        if self.name == TRAJECTORY:
            return _trajectory_draft(turns)
        if self.name == TOOL_USE:
            return _tools_draft(turns[turn])
        answer = answer_text(turns[turn], with_intermediate=self.include_intermediate)
        return _answer_draft(turns[turn], answer, calls_visible=conversation.calls_visible)

    def _finding(
        self,
        turns: Sequence[Invocation],
        turn: int,
        score: float,
        judgements: Sequence[Judgement],
        properties: Mapping[str, str],
    ) -> TurnFinding:
        shown = {
            FINAL_RESPONSE: lambda: answer_text(turns[turn], with_intermediate=self.include_intermediate),
            TOOL_USE: lambda: steps(turns[turn].intermediate_data),
            TRAJECTORY: lambda: dialogue(turns),
        }[self.name]()
        lowered = [
            judgement
            for judgement in judgements
            if judgement.score != RUBRIC_SCALE["yes"] and self.weights.of(judgement.subject)
        ]
        return TurnFinding(
            turn=turn,
            score=score,
            expected="\n".join(self._demand(each.subject, properties[each.subject]) for each in lowered),
            actual=shorten(shown, LONGEST_TEXT) or NO_TEXT,
            why=tuple(why(self._named(judgement)) for judgement in lowered),
        )

    def _demand(self, rubric_id: str, text: str) -> str:
        """A rubric with the description of its highest level, if it is graded."""
        levels = self.levels.get(rubric_id)
        return f"{rubric_id}: {text}" + (f" ({levels[-1].text})" if levels else "")

    def _named(self, judgement: Judgement) -> Judgement:
        """The judgement with a verdict that describes the level."""
        levels = self.levels.get(judgement.subject)
        if levels is None or judgement.verdict is None:
            return judgement
        level = levels[int(judgement.verdict) - 1]
        name = f"level {judgement.verdict} of {len(levels)}, {level.text!r}, scores {level.score:g}"
        return replace(judgement, verdict=name)
