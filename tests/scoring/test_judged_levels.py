"""Graded rubrics: the judge picks a level by its number."""

from __future__ import annotations

from typing import Any

import pytest
from calibration_samples import RUBRICS, labels, row, rubrics, wrong
from calibration_samples import criterion as calibrated
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from judged_samples import ScriptedModel, asked, conversation, judged, rubric, score, scored, told, turn, verdicts

from agent_eval_scoring.criteria.judged import Judge, Options
from agent_eval_scoring.models.protocol import ModelRequest
from agent_eval_workbench.calibration.judging import ask, kappa_of
from agent_eval_workbench.calibration.report import make_report

CLEAR = [
    {"score": 0, "text": "hard to follow"},
    {"score": 0.5, "text": "some detours"},
    {"score": 1, "text": "one clear answer"},
]


def graded(model: ScriptedModel, samples: int = 1, threshold: float = 0.9, **options: Any) -> Any:
    form = {"rubrics": [rubric("clear"), rubric("polite")], "rubric_levels": {"clear": CLEAR}, **options}
    return judged(RUBRICS, model, samples=samples, threshold=threshold, **form)


def by_sample(*replies: Any) -> ScriptedModel:
    return ScriptedModel(script=lambda request: replies[request.sample])


def test_levels__only_their_numbers_fit_the_schema() -> None:
    model = by_sample(verdicts("3", "yes"))
    score(graded(model), conversation([turn()]))
    schema = Draft202012Validator(model.requests[0].schema or {})
    assert [schema.is_valid(verdicts(word, "yes")) for word in ("3", "4", "0.5")] == [True, False, False]


def test_finding__a_rubric_id_of_two_turns_has_the_text_of_each() -> None:
    """A turn's rubrics apply to it alone, so another turn may use the id again."""
    texts = ("it is short", "it is long")
    turns = [turn(rubrics=[rubric("size", "FINAL_RESPONSE_QUALITY")]) for _ in texts]
    for one, text in zip(turns, texts, strict=True):
        (one.rubrics or [])[0].rubric_content.text_property = text
    model = ScriptedModel(script=lambda _: verdicts("no"))
    found = scored(judged(RUBRICS, model, samples=1), conversation(turns)).findings
    assert [finding.expected for finding in found] == [f"size: {text}" for text in texts]


def stubborn(*words: str | None) -> ScriptedModel:
    """Verdicts that leave something open, and nothing more when asked again."""
    replies = iter([verdicts(*words), {"verdicts": []}])
    return ScriptedModel(script=lambda _: next(replies))


HALF = verdicts("2", "yes")
GRADED: dict[str, tuple[ScriptedModel, dict[str, Any]]] = {
    "the second of three levels": (by_sample(HALF), {}),
    "yes and no of a rubric with levels": (stubborn("yes", "yes"), {"threshold": 0.6}),
    "levels of a rubric without": (stubborn("2", "1"), {"threshold": 0.6}),
    # A score that just reaches the threshold is not explained.
    **{
        f"weights {weights}": (by_sample(HALF), {"threshold": score, "rubric_weights": weights})
        for weights, score in (
            ({"clear": 3}, 0.625),
            ({"clear": 0}, 1.0),
            ({"polite": 0}, 0.5),
            ({}, 0.75),
            ({"clear": 1, "absent": 9}, 0.75),
        )
    },
    "no verdict of a rubric without weight": (stubborn(None, "no"), {"rubric_weights": {"clear": 0}}),
}


def test_levels__outcomes() -> None:
    text = ""
    for name, (model, options) in GRADED.items():
        result = score(graded(model, **options), conversation([turn()]))
        text += f"== {name}\n{asked(model).partition('The properties to check:')[2]}{told(result)}\n"
    check("golden_judge_levels.txt", text)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=7))
def test_levels__skipped_votes_do_not_change_the_outcome(votes: list[int]) -> None:
    model = by_sample(*(verdicts(str(vote)) for vote in votes))

    result = scored(graded(model, len(votes), rubrics=[rubric("clear")]), conversation([turn()]))

    middle = sorted(votes)[(len(votes) - 1) // 2]
    assert result.score == CLEAR[middle - 1]["score"]


LEVELLED = {"rubrics": rubrics("clear", "polite"), "rubric_levels": {"clear": CLEAR}}


async def test_calibrate__levels_are_labelled_by_number_and_agree_quadratically() -> None:
    target = calibrated(RUBRICS, **LEVELLED, judge_model_options={"num_samples": 1})
    people: list[Any] = [1, 2, 3, "3", 2, 1]
    judge = [1, 2, 3, 2, 1, 1]
    first = row(response="answer 0", labels={"clear": 1, "polite": "yes"})
    parsed = labels(target, first, *(row(people[n], response=f"answer {n}", rubric="clear") for n in range(1, 6)))
    assert parsed.kind == "score"

    def script(request: ModelRequest) -> Any:
        number = next(number for number in range(6) if f"answer {number}" in request.prompt)
        return verdicts(str(judge[number]), "yes")

    opinions = await ask(parsed, target, Judge(model=ScriptedModel(script=script)))
    report = make_report(parsed, target, Options(model="m", samples=1), opinions)

    [clear, polite] = report.rubrics
    pairs = [((int(left) - 1) / 2, (right - 1) / 2) for left, right in zip(people, judge, strict=True)]
    assert clear.kappa == kappa_of(pairs)
    assert (clear.agreement.count, clear.judged, polite.judged) == (4, 6, 1)


@pytest.mark.parametrize("label", ["pass", "yes", 0.5, 4, 0, True, "some detours"])
def test_calibrate__other_labels_of_a_graded_rubric_are_errors(label: Any) -> None:
    [problem] = wrong(calibrated(RUBRICS, **LEVELLED), row(label, rubric="clear"))

    assert problem.code == "label-unknown"
    assert problem.hint == "The rubric has levels: write the number of one, 1 to 3."
