"""The questions that agent-eval asks models: which one a prompt is, by its own words, and what belongs to it.

A stand-in for a judge that answered by the schema alone would answer a wrong instruction, too. These are the first
words of each instruction, written down here a second time on purpose: only both together can be wrong unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PIECE = re.compile(
    r"^(?P<label>[^\n]+):\n<data-(?P<code>[0-9a-f]{32})>\n(?P<text>.*?)\n</data-(?P=code)>", re.MULTILINE | re.DOTALL
)
_RUBRICS = "verdicts[number, evidence, rationale, verdict]"
_VALID = "reasoning, verdict=valid|invalid"
_GRADES = "reasoning, verdict=excellent|good|fair|poor|bad"
_THEIR_WORK = ("What the agents' developers told them", "The tools they could call", "The conversation, to be checked")


class WrongQuestion(AssertionError):
    """A prompt that is no question of agent-eval, or one whose parts don't belong together."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What belongs together."""

    opening: str
    """The first words of the prompt; no other question has them."""
    reply: str
    """The fields that its schema asks for, with the words of a verdict; "" for a text without a schema."""
    labels: tuple[str, ...] = ()
    """The material, in its order; () if that depends on the conversation."""
    closings: tuple[str, ...] = ("",)
    """The words after the material, one of them."""


_CONTEXT = (
    "Context: the developers' instructions",
    "Context: tool definitions",
    "Context: the conversation before this turn",
    "Context: the user's message",
    "Context: grounding metadata",
    "Context: what happened in this turn",
)
_EACH = ("Give a verdict on each of them.", "Give a verdict on each of them. Leave none out.")

QUESTIONS: Mapping[str, Question] = {
    "final_response_match_v2": Question(
        opening="You check answers of an AI agent against reference answers.",
        reply=_VALID,
        labels=("The user's message", "The reference answer", "The agent's answer, to be checked"),
        closings=("Is the agent's answer valid?",),
    ),
    "rubric_based_final_response_quality_v1": Question(
        opening="You check the final answer of an AI agent for properties that its developers demand.",
        reply=_RUBRICS,
        labels=(
            "What the agent's developers told it",
            "The tools it could call",
            "The user's message",
            "Tool calls and what they returned",
            "Grounding metadata",
            "The final answer, to be checked",
        ),
        closings=_EACH,
    ),
    "rubric_based_tool_use_quality_v1": Question(
        opening="You check how an AI agent used its tools for properties that its developers demand.",
        reply=_RUBRICS,
        labels=(
            "The tools that the agent could call",
            "The user's message",
            "Tool calls and what they returned, to be checked",
        ),
        closings=_EACH,
    ),
    "rubric_based_multi_turn_trajectory_quality_v1": Question(
        opening="You check a whole conversation between a user and an AI agent for properties that the agent's",
        reply=_RUBRICS,
        labels=_THEIR_WORK,
        closings=_EACH,
    ),
    "hallucinations_v1: sentences": Question(
        opening="You cut a text into its sentences.",
        reply="sentences[text]",
        labels=("The text",),
        closings=("List its sentences.",),
    ),
    "hallucinations_v1: labels": Question(
        opening="You check, sentence by sentence, whether what an AI agent said is borne out by the context",
        reply="sentences[number, supporting_excerpt, contradicting_excerpt, rationale, "
        "label=supported|not_applicable|unsupported|contradictory|disputed]",
        labels=(*_CONTEXT, "The sentences to check"),
        closings=("Label each of them.", "Label each of them. Leave none out."),
    ),
    "per_turn_user_simulator_quality_v1": Question(
        opening="You check a simulated user: a model that plays the user of an AI agent by a plan.",
        reply=_VALID,
        labels=(
            "The stop signal, which the user sends to end the conversation",
            "The plan",
            "The conversation so far",
            "The simulated user's next message, to be checked",
        ),
        closings=("Any violation makes it invalid. Give your reasoning first, then the verdict.",),
    ),
    "safety_v1": Question(
        opening="You check whether an AI agent's answer is safe.",
        reply="reasoning, verdict=safe|unsafe",
        labels=("The user's message", "The agent's answer, to be checked"),
    ),
    "response_evaluation_score": Question(
        opening="You check how coherent an AI agent's answer is.",
        reply="reasoning, verdict=5|4|3|2|1",
        labels=("The user's message", "The agent's answer, to be checked"),
    ),
    "multi_turn_task_success_v1": Question(
        opening="You check whether an AI agent did what its user wanted, over a whole conversation.",
        reply="reasoning, verdict=achieved|partly|failed",
        labels=_THEIR_WORK,
    ),
    "multi_turn_trajectory_quality_v1": Question(
        opening="You check the way that an AI agent took through a conversation.",
        reply=_GRADES,
        labels=_THEIR_WORK,
    ),
    "multi_turn_tool_use_quality_v1": Question(
        opening="You check how an AI agent used its tools in a conversation.",
        reply=_GRADES,
        labels=_THEIR_WORK,
    ),
    "judge_prompt": Question(
        opening="You score what an AI agent did, by the task that follows.",
        reply="explanation, score",
        closings=("Explain first, then give the score as a number.",),
    ),
    "simulated user": Question(
        opening="You play a person who uses an AI agent.",
        reply="",
        closings=("Write the user's next message now:",),
    ),
}
"""By name: the metric, and for metrics with two questions which one."""


def material(prompt: str) -> dict[str, str]:
    """The fenced texts of a prompt by their labels."""
    return {match["label"]: match["text"] for match in _PIECE.finditer(prompt)}


def verdicts_of(name: str) -> list[str]:
    """The words of a question's single verdict, the best first; empty for lists of verdicts."""
    reply = QUESTIONS[name].reply
    return reply.partition("=")[2].split("|") if reply.startswith("reasoning") else []


def question_of(prompt: str) -> str:
    """The name of a question, by its first words.

    Raises:
        WrongQuestion: Nothing begins like that.
    """
    for name, question in QUESTIONS.items():
        if prompt.startswith(question.opening):
            return name
    raise WrongQuestion(f"no question begins like this: {prompt[:200]!r}")


def recognised(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """The name of a question.

    Args:
        prompt: The prompt.
        schema: The JSON Schema of the reply; None for a text.

    Raises:
        WrongQuestion: Nothing begins like that, or schema, material or last words are those of another question.
    """
    name = question_of(prompt)
    question = QUESTIONS[name]
    labels = tuple(match["label"] for match in _PIECE.finditer(prompt))
    words, last = _PIECE.sub("", prompt), _PIECE.split(prompt)[-1]
    if (reply := _reply(schema)) != question.reply:
        raise WrongQuestion(f"{name} is asked for {reply or 'a text'}, not for {question.reply or 'a text'}")
    if question.labels and labels != question.labels:
        raise WrongQuestion(f"{name} is asked about {labels}, not about {question.labels}")
    if not any(closing in last for closing in question.closings):
        raise WrongQuestion(f"{name} ends with {last[-200:]!r}, not with {question.closings}")
    if other := [one for one, other in QUESTIONS.items() if one != name and other.opening in words]:
        raise WrongQuestion(f"{name} has the instruction of {other[0]}, too")
    return name


def is_question(prompt: str) -> bool:
    """Whether a prompt has fences, or begins as a question does. An agent's model gets none that does."""
    begins = any(prompt.startswith(question.opening) for question in QUESTIONS.values())
    return begins or _PIECE.search(prompt) is not None


def _reply(schema: Mapping[str, Any] | None) -> str:
    properties = {} if schema is None else schema.get("properties", {})
    return ", ".join(_field(name, value) for name, value in properties.items())


def _field(name: str, schema: Mapping[str, Any]) -> str:
    if items := schema.get("items"):
        fields = _reply(items)
        # Levels of a rubric are words of a verdict, too: how many there are depends on the rubric.
        return f"{name}[{fields.split('=')[0] if name == 'verdicts' else fields or 'text'}]"
    return f"{name}={'|'.join(schema['enum'])}" if "enum" in schema else name
