"""A scripted judge, and conversations for it."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fake_gemini.questions import is_question, question_of, recognised
from remark_samples import lines

from agent_eval_scoring.core.content import model_message, user_message
from agent_eval_scoring.core.invocation import Invocation, Rubric, RubricContent
from agent_eval_scoring.core.prompt_fence import Draft, Render, fenced
from agent_eval_scoring.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored
from agent_eval_scoring.criteria.judged.judge import Judge
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS, JUDGED_METRICS
from agent_eval_scoring.evalset.models.schema import EvalCase
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.protocol import FailureKind, ModelFailure, ModelReply, ModelRequest, ModelUsage

ASKED_BY_US = tuple(metric for metric in JUDGED_METRICS if metric != "judge_prompt")
"""The metrics whose questions are ours; `judge_prompt` asks what the repository wants."""

Script = Callable[[ModelRequest], Any]
"""The answer: a text, a value, or a ModelFailure to raise."""


@dataclass(kw_only=True)
class ScriptedModel:
    """Answers by a script and records requests. It refuses a question whose parts don't belong together."""

    script: Script
    any_question: bool = False
    """Answer a question whose parts don't belong together, too."""
    requests: list[ModelRequest] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        if not self.any_question and is_question(request.prompt):
            name = recognised(request.prompt, request.schema).split(":")[0]
            assert name in (request.purpose, "simulated user"), f"{request.purpose} asks the question of {name}"
        self.requests.append(request)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(0)
        finally:
            self._now -= 1
        value = self.script(request)
        if isinstance(value, ModelFailure):
            raise value
        text, value = (value, None) if isinstance(value, str) else ("", value)
        return ModelReply(text=text, value=value, usage=ModelUsage(), model_version="scripted-1", calls=1, cached=False)

    async def close(self) -> None:
        pass


def failure(kind: FailureKind) -> ModelFailure:
    return ModelFailure(kind, f"scripted {kind}", "wait a bit", calls=2)


def verdict(word: str, why: str = "because") -> dict[str, Any]:
    return {"reasoning": why, "verdict": word}


def verdicts(*words: str | None) -> dict[str, Any]:
    """A rubric reply: the verdict of each property, None for a skipped one."""
    listed = [
        {"number": number, "evidence": "", "rationale": f"about {number}", "verdict": word}
        for number, word in enumerate(words, 1)
        if word is not None
    ]
    return {"verdicts": listed}


def turn(user: str = "hello", answer: str | None = "fine", **rest: Any) -> Invocation:
    final = None if answer is None else model_message(answer)
    return Invocation(user_content=user_message(user), final_response=final, **rest)


def conversation(
    actual: Sequence[Invocation], expected: Sequence[Invocation] | None = None, **case: Any
) -> Conversation:
    if expected is None and "conversation_scenario" not in case:
        expected = actual
    return Conversation(
        case=EvalCase(eval_id="c", conversation=None if expected is None else list(expected), **case),
        actual=actual,
        expected=expected,
        run=2,
        case_id="file.json:c",
    )


def rubric(rubric_id: str, type_: str | None = None) -> Rubric:
    return Rubric(rubric_id=rubric_id, rubric_content=RubricContent(text_property=f"it is {rubric_id}"), type=type_)


INSTRUCTIONS: dict[str, str] = {}
"""The name of each instruction that was sent: the first words of our own in a draft."""


def noted(draft: Draft) -> str:
    """The prompt of a draft, whose instruction `asked` then names instead of repeating it."""
    prompt = fenced(draft)
    if is_question(prompt):
        INSTRUCTIONS[str(draft[0])] = question_of(prompt)
    return prompt


def judged(
    metric: str, model: ScriptedModel, *, samples: int | None = None, render: Render = noted, **options: Any
) -> Criterion:
    """A criterion as built from a config file."""
    form: Mapping[str, Any] = {"threshold": 0.5, **options}
    if samples is not None:
        form = {**form, "judge_model_options": {"num_samples": samples}}
    config = criterion(metric, CRITERION_MODELS[metric].model_validate(form))
    return build(config, judge=Judge(model=model, default_model="input-model", render=render))


def score(criterion_: Criterion, conversation_: Conversation) -> Result:
    return asyncio.run(criterion_.score(conversation_))


def scored(criterion_: Criterion, conversation_: Conversation) -> Scored:
    result = score(criterion_, conversation_)
    assert isinstance(result, Scored), result
    return result


def refused(criterion_: Criterion, conversation_: Conversation) -> NotEvaluated:
    result = score(criterion_, conversation_)
    assert isinstance(result, NotEvaluated), result
    return result


def asked(model: ScriptedModel) -> str:
    """The first prompt of each question, without the codes of its fences, and what differs in each of the others.

    Instructions are named: golden_judge_instructions.txt has each in full.
    """
    shown: list[list[str]] = []
    before: dict[str, list[str]] = {}
    for request in model.requests:
        instruction = next((text for text in INSTRUCTIONS if request.prompt.startswith(text)), "")
        name = f"[{INSTRUCTIONS[instruction]}]" if instruction else ""
        prompt = re.sub("data-[0-9a-f]{32}", "data", name + request.prompt.removeprefix(instruction)).splitlines()
        changes = difflib.unified_diff(before.get(name, ()), prompt, n=0, lineterm="")
        rest = [line for line in changes if line[:3] != "---"][1:]
        shown.append([f"{name}, which differs:", *rest] if name in before and len(before) > 1 else rest)
        if name not in before:
            shown[-1] = prompt
        before[name] = prompt
    return "\n".join(line for text in shown for line in (*text, "--")) + "\n"


def told(result: Result) -> str:
    """What a criterion made of the answers: scores, findings, judgements with their votes, and costs."""
    if isinstance(result, NotEvaluated):
        shown = [f"{result.code} {json.dumps(result.facts, default=str)}"]
    else:
        shown = [f"score {result.score}, of turns {result.turn_scores}"]
        for finding in result.findings:
            pair = f"expected {finding.expected!r}, got {finding.actual!r}"
            shown.append(f"  turn {finding.turn}, {finding.score}: {pair}")
            shown += [f"    {line}" for line in lines(finding.why)]
        failures = [vote.failure for one in result.judgements for vote in one.votes if vote.failure]
        shown += [f"  failed: {', '.join(failures)}"] if failures else []
    judge = {key: result.details[key] for key in ("backend", "judge") if key in result.details}
    shown += [f"  {json.dumps(judge)}"] if judge else []
    for one in result.details.get("judgements", ()):
        votes = "; ".join(" ".join(str(item) for item in vote.values()) for vote in one["votes"])
        shown.append(f"  {json.dumps({key: item for key, item in one.items() if key != 'votes'})}: {votes}")
    return "\n".join(shown) + "\n"
