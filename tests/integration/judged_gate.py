"""A judge on loopback for whole runs of the gate, and repositories whose answers are recorded already."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fake_gemini import Answer, FakeGemini, GenerateRequest
from gate_runs import Done, Repository

KEY = "AIza-the-judges-own-key-0123456789"
WORDS = "It names <b>Lyon</b> @octocat | where\n::error::Paris was asked for"
"""What the judge says, with what would harm a log or a page."""
BAD, TORN = "Lyon.", "Perhaps Paris."
"""Answers that the judge is against, and that it can't agree with itself about: 3 votes of 5 are against."""

METRICS = (
    "final_response_match_v2",
    "hallucinations_v1",
    "safety_v1",
    "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality_v1",
)
"""Those of fixed turns that need no rubrics."""
RUBRICS = {"rubrics": [{"rubric_id": "short", "rubric_content": {"text_property": "The answer is short."}}]}
RUBRIC_METRICS = tuple(
    f"rubric_based_{what}_quality_v1" for what in ("final_response", "tool_use", "multi_turn_trajectory")
)

MORE = "And what else?"
"""What a simulated user says before it has finished."""


class Judge:
    """Against BAD, torn about TORN, and content with everything else. As a simulated user it speaks once more."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, request: GenerateRequest) -> Answer:
        prompt = request.user_texts[-1]
        self._asked[prompt] += 1
        if "responseJsonSchema" not in request.body["generationConfig"]:
            return Answer.text("</finished>" if MORE in prompt else MORE)
        against = BAD in prompt or (TORN in prompt and self._asked[prompt] % 2 == 1)
        schema = request.body["generationConfig"]["responseJsonSchema"]
        return Answer.text(json.dumps(reply(prompt, schema["properties"], 1 if against else 0)))


def reply(prompt: str, properties: Mapping[str, Any], against: int) -> dict[str, Any]:
    """A reply that fits the schema: the best verdict on everything, or one `against` it; it cuts no sentences."""
    if "verdict" in properties:
        return {"reasoning": WORDS, "verdict": properties["verdict"]["enum"][-against]}
    if "score" in properties:
        return {"explanation": WORDS, "score": 1 + against}
    [(name, listed)] = properties.items()
    item = listed["items"]
    if item["type"] == "string":
        return {name: []}
    word = next(field for field in ("verdict", "label") if field in item["properties"])
    fields = {**dict.fromkeys(item["required"], "so"), "rationale": WORDS}
    said = item["properties"][word]["enum"]
    numbers = [int(number) for number in re.findall(r'^\s*"number": (\d+)', prompt, re.MULTILINE)]
    return {
        name: [
            {**fields, "number": number, word: said[2 * against if word == "label" else -against]} for number in numbers
        ]
    }


def criteria(repository: Repository, *metrics: str, samples: int = 5, more: Mapping[str, Any] | None = None) -> None:
    """The config of all files: judged metrics with the threshold 0.5, and the given ones."""
    options = {"judge_model_options": {"num_samples": samples}}
    form = {metric: {"threshold": 0.5, **options} for metric in metrics}
    repository.write({"evals/test_config.json": {"criteria": {**form, **(more or {})}}})


def answers(repository: Repository, given: Mapping[str, str | Sequence[str]]) -> None:
    """An eval file whose cases expect `Paris.` each turn, and a recording of what was answered."""
    turns = {name: [said] if isinstance(said, str) else list(said) for name, said in given.items()}
    asked = {name: [f"{name}, {number}: the capital?" for number in range(len(said))] for name, said in turns.items()}
    repository.evals("evals/some.evalset.json", asked, expect=dict.fromkeys(asked, "Paris."))
    repository.record("evals/some.evalset.json", turns)


def judged_run(repository: Repository, server: FakeGemini | None, *arguments: str, **options: Any) -> Done:
    """Scores what was recorded, asking the judge at the server."""
    environment = {"AGENT_EVAL_JUDGE_API_KEY": KEY} if server is not None else {}
    url = ["--judge-base-url", server.url] if server is not None else []
    environment |= options.pop("environment", {})
    recorded = ["--agent", "recorded:answers.json"]
    return repository.gate(
        "run", "evals", *recorded, *url, *arguments, python=False, environment=environment, **options
    )


def everything_written(done: Done) -> bytes:
    """All that a run printed or wrote."""
    files = [path.read_bytes() for path in done.output.rglob("*") if path.is_file()]
    return b"\n".join([done.out.encode(), done.err.encode(), *files])
