"""What models are asked: each instruction in full; and a judge that reads a wrong prompt gives a wrong score.

The judge here believes nothing but what stands in the prompt. Judged texts make claims such as `told/lamps`: the word
after the slash must stand in the material that the word before it names.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from fake_gemini import Answer, FakeGemini
from fake_gemini.questions import QUESTIONS, WrongQuestion, material, question_of, recognised, verdicts_of
from golden_files import check
from judged_samples import ASKED_BY_US, ScriptedModel, conversation, judged, rubric, score, turn, verdict
from test_judged_criteria import ANSWER, HALLUCINATIONS, MATCH, SIMULATOR, TOOLS, TRAJECTORY, events, violated

from agent_eval_scoring.core.invocation import AppDetails, Invocation
from agent_eval_scoring.core.prompt_fence import Data, Draft, fenced
from agent_eval_scoring.criteria.base import Conversation, Scored
from agent_eval_scoring.criteria.judged.judge import QUESTIONS_VERSION
from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS
from agent_eval_scoring.evalset.models import METRICS
from agent_eval_scoring.evalset.models.schema import ConversationScenario
from agent_eval_scoring.models.protocol import ModelRequest

CLAIM = re.compile(r"(\w+)/(\w+)")
EVIDENCE = {
    "told": ("instructions", "developers told"),
    "tools": ("tool definitions", "The tools"),
    "before": ("before this turn", "so far"),
    "user": ("user's message",),
    "steps": ("what happened", "Tool calls"),
    "ground": ("rounding metadata",),
    "plan": ("The plan",),
    "reference": ("reference answer",),
    "dialogue": ("The conversation, to be checked",),
}
"""What a claim is about, by the labels of the material. `asked` is about the instruction, `words` about our words."""
AGAIN = "Leave none out."
LEVELS = [{"score": 0.0, "text": "no"}, {"score": 0.5, "text": "half"}, {"score": 1.0, "text": "all"}]


class ReadingJudge:
    """Answers what the instruction asks for, never what the schema wants."""

    def __init__(self, *, skips: bool) -> None:
        """`skips`: it leaves everything out until it is asked to leave none out."""
        self.skips = skips

    def __call__(self, request: ModelRequest) -> Any:
        prompt = request.prompt
        name, shown = question_of(prompt), material(prompt)
        words = prompt
        for text in shown.values():
            words = words.replace(text, "")
        if not any(closing in prompt for closing in QUESTIONS[name].closings):
            return {}
        if name == "hallucinations_v1: sentences":
            return {"sentences": [part for part in re.split(r"(?<=\.) ", shown.get("The text", "")) if part]}

        def holds(text: str) -> bool:
            claims = CLAIM.findall(text)
            return bool(claims) and all(self._borne_out(kind, word, name, shown, words) for kind, word in claims)

        if name == "hallucinations_v1: labels":
            listed = _parsed(shown.get("The sentences to check", ""))
            said = [{**one, "label": "supported" if holds(one["sentence"]) else "unsupported"} for one in listed]
            return {"sentences": self._skipping(said, prompt)}
        checked = next((text for label, text in shown.items() if label.endswith("to be checked")), "")
        if QUESTIONS[name].reply.startswith("verdicts"):
            found = re.search(r"The properties to check:\n(\[.*\n\])", prompt, re.DOTALL)
            said = []
            for one in _parsed(found[1] if found else ""):
                met = holds(checked) and holds(one["property"])
                word = "yes" if met else "no"
                if "levels" in one and "the number of the level" in words:
                    word = one["levels"][-1 if met else 0]["verdict"]
                said.append({"number": one["number"], "verdict": word})
            return {"verdicts": self._skipping(said, prompt)}
        good, *_, bad = verdicts_of(name)
        if name == SIMULATOR and "The message is valid only if" not in words:
            return {}
        ends = name == SIMULATOR and checked == next(
            (text for label, text in shown.items() if "stop signal" in label), 0
        )
        return verdict(good if holds(shown.get("The plan", "") if ends else checked) else bad)

    def _skipping(self, said: list[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
        return [] if self.skips and AGAIN not in prompt else said

    @staticmethod
    def _borne_out(kind: str, word: str, name: str, shown: Mapping[str, str], words: str) -> bool:
        if kind == "asked":
            return name.startswith(word)
        if kind == "words":
            return word in words
        texts = [text for label, text in shown.items() if any(part in label for part in EVIDENCE[kind])]
        return word in CLAIM.sub("", " ".join(texts))


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        return list(json.loads(text))
    except ValueError:
        return []


def _claims(metric: str, number: int, *more: str) -> str:
    """True claims about all that the metric's judge is shown of a turn, a sentence each."""
    name = next(name for name in reversed(list(QUESTIONS)) if name.startswith(metric))
    told = [("told", f"told{number}"), ("tools", f"does{number}"), ("user", f"user{number}")]
    told += [("steps", f"steps{number}"), ("steps", f"back{number}"), ("ground", f"ground{number}")]
    told += [("reference", f"reference{number}"), ("dialogue", f"user{number}"), ("dialogue", f"back{number}")]
    told += [("before", f"back{number - 1}")] if number > 1 else []
    shown = [
        f"{kind}/{word}"
        for kind, word in told
        if any(part in label for label in QUESTIONS[name].labels for part in EVIDENCE[kind])
    ]
    return " ".join(f"It is {claim}." for claim in (*shown, f"asked/{metric}", *more))


def _turn(metric: str, number: int, *more: str) -> Invocation:
    said = _claims(metric, number, *more)
    call = {"id": "1", "name": f"tools{number}", "args": {"q": f"steps{number} {said}"}}
    response = {"id": "1", "name": f"tools{number}", "response": {"r": f"back{number}"}}
    agent = {
        "name": "bot",
        "instructions": f"told{number}",
        "tool_declarations": [{"function_declarations": [{"name": f"tools{number}", "description": f"does{number}"}]}],
    }
    return turn(
        f"user{number}",
        said,
        intermediate_data=events(
            {"content": {"parts": [{"function_call": call}]}},
            {"content": {"parts": [{"function_response": response}]}, "grounding_metadata": {"web": f"ground{number}"}},
        ),
        app_details=AppDetails.model_validate({"agent_details": {"bot": agent}}),
    )


def _talk(metric: str, *more: str, persona: Any) -> Conversation:
    if metric != SIMULATOR:
        actual = [_turn(metric, 1), _turn(metric, 2, *more)]
        return conversation(actual, [turn(f"user{number}", f"reference{number}") for number in (1, 2)])
    plan = "A lamp, then a chair. End after before/answer3"
    form = {"starting_prompt": "hello", "conversation_plan": plan, "user_persona": persona}
    known = f"words/rule7 asked/{SIMULATOR}"
    said = ("hello", f"plan/lamp before/answer1 {known}", " ".join((f"plan/chair before/answer2 {known}", *more)))
    turns = [turn(text, f"answer{number}") for number, text in enumerate(said, 1)]
    return conversation(turns, conversation_scenario=ConversationScenario.model_validate(form))


Mutant = Callable[[Draft], Draft]


PERSONA = violated("rule7")


def _run(metric: str, model: ScriptedModel, mutant: Mutant, *more: str, persona: Any = PERSONA, **options: Any) -> Any:
    """The score of one conversation, or why there is none."""
    form = {"samples": 1, "threshold": METRICS[metric].high, **options}
    if metric.startswith("rubric"):
        form["rubrics"] = [rubric(name) for name in "ab"]
        for one, claim in zip(form["rubrics"], (f"asked/{metric}", "words/properties"), strict=True):
            one.rubric_content.text_property = f"It checks {claim}"
    if metric == SIMULATOR:
        form["stop_signal"] = "@end@"
    criterion_ = judged(metric, model, render=lambda draft: fenced(mutant(draft)), **form)
    outcome: Any = "refused"
    try:
        result = score(criterion_, _talk(metric, *more, persona=persona))
        outcome = result.score if isinstance(result, Scored) else result.code
    except* WrongQuestion:
        pass
    return outcome


def _same(draft: Draft) -> Draft:
    return draft


def _outcome(metric: str, mutant: Mutant = _same, *, skips: bool = False, **options: Any) -> list[Any]:
    """The scores of a conversation that is all right, and of one with a false claim."""
    false = "plan/wrong" if metric == SIMULATOR else "user/wrong"
    model = ScriptedModel(script=ReadingJudge(skips=skips), any_question=True)
    return [_run(metric, model, mutant, *more, **options) for more in ((), (false,))]


RIGHT: dict[str, list[float]] = {
    **{name: [1.0, 0.5] for name in (MATCH, ANSWER, TOOLS, "safety_v1")},
    TRAJECTORY: [1.0, 0.0],
    HALLUCINATIONS: [1.0, (1.0 + 8 / 9) / 2],
    SIMULATOR: [1.0, 2 / 3],
    "response_evaluation_score": [5.0, 3.0],
    **{name: [1.0, 0.0] for name, spec in JUDGE_SPECS.items() if spec.conversation},
}
"""Of two turns (of three, the first of which is no question), the last one of which has a false claim."""


def _questions(metric: str, **options: Any) -> list[tuple[Draft, Mapping[str, Any]]]:
    """The questions about a conversation, some of them asked again, each with the schema of its reply."""
    drafts: list[Draft] = []

    def kept(draft: Draft) -> Draft:
        drafts.append(draft)
        return draft

    model = ScriptedModel(script=ReadingJudge(skips=True))
    _run(metric, model, kept, **options)
    return [(draft, request.schema or {}) for draft, request in zip(drafts, model.requests, strict=True)]


def _drafts(metric: str, **options: Any) -> list[Draft]:
    return [draft for draft, _ in _questions(metric, **options)]


@functools.cache
def _instructions() -> frozenset[str]:
    return frozenset(str(draft[0]) for metric in ASKED_BY_US for draft in _drafts(metric))


def _kind(draft: Draft) -> tuple[str, str]:
    """Question and last words: what is asked again is another question."""
    return question_of(fenced(draft)), draft[-1] if isinstance(draft[-1], str) else ""


def _mutants(drafts: list[Draft]) -> dict[str, Mutant]:
    """Each piece of each question once: left out, with the text of another piece, with that of another draft."""
    mutants: dict[str, Mutant] = {}
    instructions = _instructions()
    for kind, first in {_kind(draft): draft for draft in reversed(drafts)}.items():
        texts = [piece.text for piece in first if isinstance(piece, Data)]
        others = [draft for draft in drafts if _kind(draft) == kind]

        def changed(change: Callable[[list[Any]], Any], kind: tuple[str, str] = kind) -> Mutant:
            def mutant(original: Draft) -> Draft:
                name, last = _kind(original)
                pieces = list(original)
                # A first question that gets no answer is asked again: it is wrong there, too.
                if name == kind[0] and (last == kind[1] or AGAIN not in kind[1]):
                    change(pieces)
                return pieces

            return mutant

        def put(at: int, value: Any) -> Mutant:
            return changed(lambda pieces: pieces.__setitem__(at, value))

        for at, piece in enumerate(first):
            where = f"{kind[0]} ({kind[1][-20:]}), piece {at}"
            mutants[f"{where}: left out"] = changed(lambda pieces, at=at: pieces.pop(at))  # type: ignore[misc]
            if isinstance(piece, Data):
                other = texts[(texts.index(piece.text) + 1) % len(texts)]
                if other != piece.text:
                    mutants[f"{where}: another's text"] = put(at, replace(piece, text=other))
                elsewhere = {one[at] for one in others if len(one) > at} - {piece}
                if elsewhere:
                    mutants[f"{where}: of the first draft"] = put(at, piece)
            elif at == 0:
                for number, other in enumerate(sorted(instructions - {piece})):
                    mutants[f"{where}: instruction {number}"] = put(0, other)
    return mutants


GRADED: dict[str, Any] = {"rubric_levels": {"a": LEVELS}}


@pytest.mark.parametrize(("metric", "options"), [*((metric, {}) for metric in ASKED_BY_US), (ANSWER, GRADED)], ids=str)
def test_prompts__a_judge_that_reads_them_gives_another_score_if_any_piece_is_wrong(
    metric: str, options: dict[str, Any]
) -> None:
    mutants = _mutants(_drafts(metric, **options))

    for skips in (False, True):
        assert _outcome(metric, skips=skips, **options) == pytest.approx(RIGHT[metric])
    outcomes = {name: _outcome(metric, mutant, skips=AGAIN in name, **options) for name, mutant in mutants.items()}
    assert {name: scores for name, scores in outcomes.items() if scores == pytest.approx(RIGHT[metric])} == {}
    assert len(mutants) > 10


def test_instructions__of_each_question() -> None:
    """In full, by name, with the labels of the material and the schema of the reply.

    golden_user_prompts.txt has those of simulated users, golden_judge_questions the material.
    """
    listed = [("", question) for metric in ASKED_BY_US for question in _questions(metric)]
    listed += [(", with levels", question) for question in _questions(ANSWER, **GRADED)]
    listed += [(", without a persona", question) for question in _questions(SIMULATOR, persona=None)]
    shown: dict[str, str] = {}
    for of, (draft, schema) in listed:
        own = "\n".join(piece if isinstance(piece, str) else f"<<{piece.label}>>" for piece in draft)
        own = re.sub(r"The properties to check:\n\[.*\n\]", "<<The properties to check>>", own, flags=re.DOTALL)
        name = question_of(fenced(draft)) + of
        if AGAIN in own:
            shown[f"{name}, asked again"] = own.replace(str(draft[0]), "[the same]") + "\n"
        else:
            text = "\n".join((own, "", "Reply:", *_fields(schema), ""))
            assert shown.setdefault(name, text) == text, "a question has one instruction"
    check("golden_judge_instructions.txt", "\n".join(f"== {name}\n{text}" for name, text in shown.items()))


ASKED = {4: "cf99deadf24bfa5e"}
"""Hash of the questions of all judged metrics, by QUESTIONS_VERSION."""


def test_questions_version__rises_with_every_change_of_a_question() -> None:
    asked = hashlib.sha256()
    for metric in sorted(ASKED_BY_US):
        for options in ({}, GRADED) if metric == ANSWER else ({}, {"persona": None}) if metric == SIMULATOR else ({},):
            for draft, schema in _questions(metric, **options):
                asked.update(json.dumps([metric, fenced(draft), schema], sort_keys=True).encode())

    assert asked.hexdigest()[:16] == ASKED[QUESTIONS_VERSION], (
        "A judge is asked something else than before: raise QUESTIONS_VERSION and note the new hash, so that scores of "
        "before are not compared with scores of now."
    )


def _fields(schema: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        words = " | ".join(field.get("enum", ()))
        yield f"{indent}- {name}: {field.get('description') or words}"
        assert name in schema["required"]
        if field.get("items", {}).get("properties"):
            yield from _fields(field["items"], indent + "  ")


# Stand-ins for judges refuse a question whose parts don't belong together.


SAFE, COHERENT = ("safety_v1", "response_evaluation_score")
REFUSED: dict[str, Callable[[str, Any], tuple[str, Any]]] = {
    "no instruction": lambda prompt, schema: (prompt.partition("\n\n")[2], schema),
    "the instruction of another": lambda prompt, schema: (
        prompt.replace(QUESTIONS[SAFE].opening, QUESTIONS[COHERENT].opening),
        schema,
    ),
    "two instructions": lambda prompt, schema: (f"{prompt}\n{QUESTIONS[COHERENT].opening}", schema),
    "the schema of another": lambda prompt, schema: (prompt, _questions(COHERENT)[0][1]),
    "no schema": lambda prompt, schema: (prompt, None),
    "less material": lambda prompt, schema: (prompt.partition("The agent's answer")[0], schema),
    "other labels": lambda prompt, schema: (prompt.replace("The user's", "Somebody's"), schema),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_stand_in__refuses_a_question_whose_parts_dont_belong_together(change: Any) -> None:
    draft, right = _questions(SAFE)[0]
    prompt, schema = change(fenced(draft), right)

    assert recognised(fenced(draft), right) == SAFE
    with pytest.raises(WrongQuestion):
        recognised(prompt, schema)
    with pytest.raises(WrongQuestion), FakeGemini(lambda _: Answer.text("{}")) as gemini:
        assert _sent(gemini, fenced(draft), right) == 200
        assert _sent(gemini, prompt, schema) == 400


def _sent(gemini: FakeGemini, prompt: str, schema: Any) -> int:
    config = {} if schema is None else {"responseJsonSchema": schema}
    body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}], "generationConfig": config}
    url = f"{gemini.url}/v1beta/models/m:generateContent?key=k"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
