"""Random conversations with a script for both judges: google-adk's reads texts, ours structured replies.

Each question carries a marker, `@@...@@`, the last one in its prompt; a script has the verdicts for each marker, sample
and subject. Both sides are given the same.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fake_gemini.questions import material, recognised

from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS
from agent_eval_scoring.models.protocol import ModelFailure, ModelReply, ModelRequest, ModelUsage

TYPES = {
    "rubric_based_final_response_quality_v1": "FINAL_RESPONSE_QUALITY",
    "rubric_based_tool_use_quality_v1": "TOOL_USE_QUALITY",
    "rubric_based_multi_turn_trajectory_quality_v1": "TRAJECTORY_QUALITY",
}
LABELS = ("supported", "Not_applicable", "unsupported", "contradictory", "disputed")
FAILS = "fails"
"""A sample whose call raises."""
GARBAGE = "garbage"
"""A sample that is no verdict at all."""

Sample = str | list[str | None]
"""FAILS, GARBAGE, or a verdict for each subject; None for a skipped one."""


@dataclass(kw_only=True)
class Drawn:
    """One question for both implementations."""

    metric: str
    criterion: dict[str, Any]
    actual: list[dict[str, Any]]
    expected: list[dict[str, Any]] | None
    case_rubrics: list[dict[str, Any]] = field(default_factory=list)
    scenario: dict[str, Any] | None = None
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """Verdicts by marker."""
    subjects: dict[str, list[str]] = field(default_factory=dict)
    """Rubric ids, or sentences, by marker; [""] for a single verdict."""
    service: list[float | None] = field(default_factory=list)
    """Of a metric that ADK sends to Vertex AI, the scores that come back, one after the other."""
    rows: set[str] = field(default_factory=set)
    """Rows of docs/adk-compatibility.md by which the result may differ: known before anything is scored."""


def draw(metric: str, seed: int) -> Drawn:
    """The conversation of a seed."""
    rng = random.Random(f"{metric} {seed}")
    if metric in TYPES:
        drawn = _rubrics(rng, metric)
    elif metric == "hallucinations_v1":
        drawn = _hallucinations(rng)
    elif metric == "per_turn_user_simulator_quality_v1":
        drawn = _simulator(rng)
    elif metric in JUDGE_SPECS:
        drawn = _served(rng, metric)
    else:
        drawn = _final_response(rng)
    find_rows(drawn)
    return drawn


def _criterion(rng: random.Random, samples: int) -> dict[str, Any]:
    return {
        "threshold": rng.choice([0.0, 0.25, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 0.9, 1.0]),
        "judge_model_options": {"judge_model": "scripted-judge", "num_samples": samples},
    }


class _Moods:
    """How the judge is today: mostly sound, seldom faulty, so that exempted inputs stay rare."""

    def __init__(self, rng: random.Random, *, once: bool = False) -> None:
        """`once`: each question is asked once, so that a fault always leaves a gap."""
        self._rng = rng
        self._positive = rng.choice([0.05, 0.3, 0.5, 0.5, 0.7, 0.95])
        self._fails = 0.1 if rng.random() < 0.08 else 0.0
        self._garbage = 0.0 if once and rng.random() < 0.6 else rng.choice([0.0, 0.0, 0.0, 0.15])
        self._skips = 0.0 if once and rng.random() < 0.6 else rng.choice([0.0, 0.0, 0.0, 0.1])

    def sample(self, subjects: int, words: tuple[str, str] = ("yes", "no")) -> Sample:
        roll = self._rng.random()
        if roll < self._fails:
            return FAILS
        if roll < self._fails + self._garbage:
            return GARBAGE
        return [
            None if subjects > 1 and self._rng.random() < self._skips else words[self._rng.random() > self._positive]
            for _ in range(subjects)
        ]


def _turn(text: str, answer: str | None = "an answer", **rest: Any) -> dict[str, Any]:
    final = None if answer is None else {"role": "model", "parts": [{"text": answer}]}
    return {"user_content": {"role": "user", "parts": [{"text": text}]}, "final_response": final, **rest}


def _final_response(rng: random.Random) -> Drawn:
    count, moods = rng.randint(1, 4), _Moods(rng)
    samples = rng.randint(1, 7)
    turns = [_turn(f"question @@T{number}@@", rng.choice(["a", "{b}", "", None])) for number in range(count)]
    keys = [f"@@T{number}@@" for number in range(count)]
    return Drawn(
        metric="final_response_match_v2",
        criterion=_criterion(rng, samples),
        actual=turns,
        expected=[dict(turn) for turn in turns],
        samples={key: [moods.sample(1) for _ in range(samples)] for key in keys},
        subjects={key: [""] for key in keys},
    )


def _rubric(rubric_id: str, type_: str | None) -> dict[str, Any]:
    return {"rubric_id": rubric_id, "rubric_content": {"text_property": f"It is {rubric_id}."}, "type": type_}


def _rubrics(rng: random.Random, metric: str) -> Drawn:
    moods, samples, count = _Moods(rng), rng.randint(1, 6), rng.randint(1, 4)
    types = [TYPES[metric], TYPES[metric], None, rng.choice(list(TYPES.values())), "OTHER"]
    criterion = _criterion(rng, samples)
    own = [_rubric(f"own{n}", rng.choice(types)) for n in range(rng.choice([0, 1, 1, 2, 3]))]
    criterion["rubrics"] = own
    case = [_rubric(f"case{n}", rng.choice(types)) for n in range(rng.choice([0, 0, 1, 2]))]
    if own and rng.random() < 0.03:
        case.append(_rubric("own0", TYPES[metric]))
    with_turn_rubrics = rng.random() < 0.1
    turns, expected = [], []
    for number in range(count):
        turns.append(_turn(f"please @@T{number}@@", rng.choice(["done", None])))
        rubrics = [_rubric(f"turn{number}.{n}", rng.choice(types)) for n in range(rng.randint(0, 2))]
        expected.append(_turn(f"please @@T{number}@@", rubrics=rubrics if with_turn_rubrics else None))
    drawn = Drawn(metric=metric, criterion=criterion, actual=turns, expected=expected, case_rubrics=case)
    # The trajectory is judged once; its dialogue ends with the last turn's marker.
    last_only = metric == "rubric_based_multi_turn_trajectory_quality_v1"
    for number in [count - 1] if last_only else range(count):
        key = f"@@T{number}@@"
        typed = [r["rubric_id"] for r in [*case, *(expected[number]["rubrics"] or [])] if r["type"] == TYPES[metric]]
        drawn.subjects[key] = [rubric["rubric_id"] for rubric in own] + typed
        drawn.samples[key] = [moods.sample(len(drawn.subjects[key])) for _ in range(samples)]
    return drawn


def _hallucinations(rng: random.Random) -> Drawn:
    moods, count, intermediate = _Moods(rng, once=True), rng.randint(1, 4), rng.random() < 0.4
    criterion = {**_criterion(rng, rng.randint(1, 5)), "evaluate_intermediate_nl_responses": intermediate}
    drawn = Drawn(metric="hallucinations_v1", criterion=criterion, actual=[], expected=None)
    for number in range(count):

        def text(step: str, turn: int = number) -> str:
            key = f"@@S{turn}.{step}@@"
            sentences = [f"Sentence {n} {key}." for n in range(rng.randint(1, 4))]
            if step == "final" or intermediate:
                drawn.subjects[key] = sentences
                labels = [rng.choice(LABELS) for _ in sentences]
                sample = moods.sample(len(sentences), ("supported", "unsupported"))
                drawn.samples[key] = [
                    sample
                    if isinstance(sample, str)
                    else [None if item is None else labels[n] for n, item in enumerate(sample)]
                ]
            return " ".join(sentences)

        events = [
            {"author": "agent", "content": {"role": "model", "parts": [{"text": text(f"e{n}")}]}}
            for n in range(rng.randint(0, 2))
        ]
        answer = text("final") if rng.random() < 0.9 else None
        drawn.actual.append(_turn("ask", answer, intermediate_data={"invocation_events": events}))
    return drawn


def _simulator(rng: random.Random) -> Drawn:
    moods, samples, count = _Moods(rng), rng.randint(1, 6), rng.randint(1, 4)
    first = "hello @@T0@@"
    persona = rng.choice([None, None, "EXPERT", "NOVICE", "EVALUATOR"])
    scenario = {
        "starting_prompt": rng.choice([first, f" {first}\n", "something else"]),
        "conversation_plan": "buy a lamp",
        "user_persona": persona,
    }
    keys = [*(f"@@T{number}@@" for number in range(1, count)), "@@stop@@"]
    return Drawn(
        metric="per_turn_user_simulator_quality_v1",
        criterion={**_criterion(rng, samples), "stop_signal": "@@stop@@"},
        actual=[_turn(first if number == 0 else f"and @@T{number}@@", "sure") for number in range(count)],
        expected=None,
        scenario=scenario,
        samples={key: [moods.sample(1) for _ in range(samples)] for key in keys},
        subjects={key: [""] for key in keys},
    )


def _served(rng: random.Random, metric: str) -> Drawn:
    spec = JUDGE_SPECS[metric]
    words = {score: word for word, score in spec.scale.items()}
    keys = [f"@@T{number}@@" for number in range(rng.randint(1, 4))]
    turns = [_turn(key, "x") for key in keys]
    asked = keys[-1:] if spec.conversation else keys
    scores = [None if rng.random() < 0.05 else rng.choice([*words]) for _ in asked]
    low, high = spec.span
    threshold = rng.choice([low, low + (high - low) / 3, low + (high - low) / 2, high])
    return Drawn(
        metric=metric,
        criterion=_criterion(rng, 1) | {"threshold": threshold},
        actual=turns,
        expected=[dict(turn) for turn in turns],
        samples={key: [GARBAGE if score is None else [words[score]]] for key, score in zip(asked, scores, strict=True)},
        subjects={key: [""] for key in asked},
        service=scores,
    )


# --- the rows of docs/adk-compatibility.md --------------------------------------------------------------------------

FAILED_SAMPLE = "failed sample"
TURN_RUBRICS = "rubrics of turns"
MISSING_VERDICT = "missing verdict"


def find_rows(drawn: Drawn) -> None:
    if any(sample == FAILS for samples in drawn.samples.values() for sample in samples):
        drawn.rows.add(FAILED_SAMPLE)
    subjects = list(drawn.subjects.values())
    if drawn.metric in TYPES and any(of != subjects[-1] for of in subjects):
        drawn.rows.add(TURN_RUBRICS)
    gaps = [
        not any(isinstance(sample, list) and sample[n] is not None for sample in drawn.samples[key])
        for key, of in drawn.subjects.items()
        for n in range(len(of))
    ]
    if any(gaps):
        drawn.rows.add(MISSING_VERDICT)


# --- google-adk's judge ---------------------------------------------------------------------------------------------


def adk_script(drawn: Drawn) -> dict[str, list[str | None]]:
    """What google-adk's judge writes, by marker."""
    if drawn.metric == "hallucinations_v1":
        return {key: _adk_sentences(drawn.subjects[key], samples[0]) for key, samples in drawn.samples.items()}
    write = _adk_verdict(drawn.metric)
    return {
        key: [
            None if sample == FAILS else "I would rather not." if isinstance(sample, str) else write(subjects, sample)
            for sample in drawn.samples[key]
        ]
        for key, subjects in drawn.subjects.items()
    }


def _adk_verdict(metric: str) -> Callable[[Sequence[str], Sequence[str | None]], str]:
    def rubrics(subjects: Sequence[str], words: Sequence[str | None]) -> str:
        return "\n\n".join(
            f"ID: {subject}\nProperty: It is {subject}.\nRationale: so\nVerdict: {word}"
            for subject, word in zip(subjects, words, strict=True)
            if word is not None
        )

    def label(key: str, yes: str, no: str) -> Callable[[Sequence[str], Sequence[str | None]], str]:
        return lambda _, words: f'{{"reasoning": "so", "{key}": {yes if words[0] == "yes" else no}}}'

    if metric in TYPES:
        return rubrics
    if metric == "final_response_match_v2":
        return label("is_the_agent_response_valid", '"valid"', '"invalid"')
    return label("is_valid", "true", "false")


def _adk_sentences(sentences: Sequence[str], sample: Sample) -> list[str | None]:
    """The segmenter's answer, then the validator's."""
    if sample == FAILS:
        return [None]
    if isinstance(sample, str):
        return ["".join(f"<sentence>{sentence}</sentence>\n" for sentence in sentences), sample]
    blocks = [
        f"sentence: {sentence}\nlabel: {label}\nrationale: so\nsupporting_excerpt: null\ncontradicting_excerpt: null"
        for sentence, label in zip(sentences, sample, strict=True)
        if label is not None
    ]
    return ["".join(f"<sentence>{sentence}</sentence>\n" for sentence in sentences), "\n\n".join(blocks)]


# --- our judge ------------------------------------------------------------------------------------------------------


class OurJudge:
    """Answers our questions with the same verdicts, whatever their order. What it is asked it reads in the prompt."""

    def __init__(self, drawn: Drawn) -> None:
        self._drawn = drawn
        self.first: Counter[str] = Counter()
        """Samples taken by marker; what was skipped and asked again is not counted."""

    async def generate(self, request: ModelRequest) -> ModelReply:
        question = recognised(request.prompt, request.schema)
        assert question.split(":")[0] == self._drawn.metric == request.purpose
        key = re.findall(r"@@[\w.]+@@", request.prompt)[-1]
        sample = self._drawn.samples[key][request.sample]
        subjects = self._drawn.subjects[key]
        again = "Leave none out" in request.prompt
        cutting = question == "hallucinations_v1: sentences"
        self.first[key] += not again and not cutting
        if sample == FAILS:
            raise ModelFailure("unavailable", "scripted failure")
        if cutting:
            sentences = re.findall(r"\S[^.]*@@[\w.]+@@\.", material(request.prompt)["The text"])
            assert sentences == subjects
            return _reply({"sentences": sentences})
        if isinstance(sample, str):
            raise ModelFailure("malformed", "scripted garbage")
        return _reply(self._value(request.prompt, question, subjects, sample))

    def _value(
        self, prompt: str, question: str, subjects: Sequence[str], sample: Sequence[str | None]
    ) -> dict[str, Any]:
        said = [(number, word) for number, word in enumerate(sample, 1) if word is not None]
        if question == "hallucinations_v1: labels":
            words = dict(zip(subjects, sample, strict=True))
            listed = json.loads(material(prompt)["The sentences to check"])
            said = [(one["number"], word) for one in listed if (word := words[one["sentence"]]) is not None]
        if self._drawn.metric in TYPES:
            return {"verdicts": [{"number": n, "evidence": "", "rationale": "so", "verdict": word} for n, word in said]}
        if self._drawn.metric == "hallucinations_v1":
            return {"sentences": [{"number": n, "rationale": "so", "label": word.lower()} for n, word in said]}
        word = sample[0] or ""
        return {"reasoning": "so", "verdict": {"yes": "valid", "no": "invalid"}.get(word, word)}

    async def close(self) -> None:
        pass


def _reply(value: Mapping[str, Any]) -> ModelReply:
    return ModelReply(text="", value=value, usage=ModelUsage(), model_version="scripted", calls=1, cached=False)
