"""A scripted judge, and conversations for it."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remark_samples import lines

from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation, Rubric, RubricContent
from agent_eval.core.prompt_fence import Render, fenced
from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored
from agent_eval.criteria.judged.judge import Judge
from agent_eval.criteria.registry import build
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import EvalCase
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.protocol import FailureKind, ModelFailure, ModelReply, ModelRequest, ModelUsage

Script = Callable[[ModelRequest], Any]
"""The answer: a text, a value, or a ModelFailure to raise."""


@dataclass(kw_only=True)
class ScriptedModel:
    """Answers by a script and records requests."""

    script: Script
    requests: list[ModelRequest] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
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


def judged(
    metric: str, model: ScriptedModel, *, samples: int | None = None, render: Render = fenced, **options: Any
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
    """The first prompt, without the codes of its fences, and what differs in each of the others."""
    prompts = [re.sub("data-[0-9a-f]{32}", "data", request.prompt).splitlines() for request in model.requests]
    shown = [*prompts[:1]]
    for before, after in itertools.pairwise(prompts):
        shown.append([line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:3] != "---"][1:])
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
