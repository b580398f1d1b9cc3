"""A panel of votes: the number of samples, follow-up questions, failed samples, and failures that end the criterion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import (
    ScriptedModel,
    conversation,
    failure,
    judged,
    rubric,
    score,
    scored,
    told,
    turn,
    verdict,
    verdicts,
)

from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Scored
from agent_eval_scoring.criteria.judged.judge import CODES, Judge, decided, judge_options, lower_median, needed
from agent_eval_scoring.criteria.judged.rubrics import RUBRIC_SCALE
from agent_eval_scoring.criteria.registry import judge_of
from agent_eval_scoring.evalset.models import DEFAULT_JUDGE
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS
from agent_eval_scoring.evalset.models.schema import CriterionConfig
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.protocol import FailureKind, ModelRequest

MATCH = "final_response_match_v2"
RUBRICS = "rubric_based_final_response_quality_v1"


def by_sample(*replies: Any) -> ScriptedModel:
    return ScriptedModel(script=lambda request: replies[request.sample])


def words(*verdicts_of_samples: str) -> ScriptedModel:
    return by_sample(*(verdict(word, f"vote {number}") for number, word in enumerate(verdicts_of_samples)))


def where(text: str, failing: FailureKind, word: str) -> ScriptedModel:
    """Fails for prompts with a text, and else gives a verdict."""
    return ScriptedModel(script=lambda request: failure(failing) if text in request.prompt else verdict(word))


def follow_up(reply: Any, *first: str | None) -> ScriptedModel:
    """Verdicts, and the reply to the question that asks for what is missing."""

    def script(request: ModelRequest) -> Any:
        if "Leave none out" not in request.prompt:
            return verdicts(*first)
        assert '"it is a"' not in request.prompt
        return reply

    return ScriptedModel(script=script)


VALID, INVALID = verdict("valid"), verdict("invalid")
NOW = {"verdicts": [{"number": 2, "evidence": "", "rationale": "now", "verdict": "no"}]}
TWICE = {"verdicts": [*verdicts("yes")["verdicts"], *verdicts("no")["verdicts"]]}
NO_VOTES: tuple[Any, ...] = (None, [], {}, {"verdict": 1}, *map(verdict, ("Valid", "valid and good", "")))
PASSING: tuple[FailureKind, ...] = ("unavailable", "deadline", "malformed", "refused")
FINAL: tuple[FailureKind, ...] = ("budget", "invalid-request", "no-credentials", "replay-miss")
ONE, GAP = conversation([turn()]), conversation([turn(), turn("gap")])
PANELS: dict[str, tuple[ScriptedModel, int, Conversation, dict[str, Any]]] = {
    **{
        f"votes {votes}": (words(*({"v": "valid", "i": "invalid"}[letter] for letter in votes)), len(votes), ONE, {})
        for votes in ("vvvvv", "iiivv", "vviiv", "vviii", "vvivv", "vvii", "v")
    },
    **{f"one sample {kind}": (by_sample(failure(kind), VALID, VALID, INVALID, VALID), 5, ONE, {}) for kind in PASSING},
    **{f"all {kind}": (by_sample(*[failure(kind)] * 5), 5, ONE, {}) for kind in PASSING},
    "two fail, and one is odd": (by_sample(failure("refused"), failure("deadline"), verdict("odd")), 3, ONE, {}),
    **{
        f"{kind} ends the criterion": (
            by_sample(VALID, failure(kind), *[VALID] * 7),
            9,
            conversation([turn(), turn()]),
            {},
        )
        for kind in FINAL
    },
    "a missing verdict neither passes nor vanishes": (where("gap", "malformed", "valid"), 5, GAP, {"threshold": 0.8}),
    "a missing verdict where half is enough": (where("gap", "refused", "valid"), 5, GAP, {"threshold": 0.5}),
    "a missing verdict where nothing helps": (where("gap", "refused", "invalid"), 5, GAP, {"threshold": 0.8}),
    **{f"no vote: {reply}": (by_sample(reply), 1, ONE, {}) for reply in NO_VOTES},
    "no verdict of a rubric": (by_sample(verdicts(None)), 1, ONE, {"rubrics": [rubric("a")]}),
    "two verdicts of a rubric": (by_sample(TWICE), 1, ONE, {"rubrics": [rubric("a")]}),
    "a skipped rubric is asked about again, alone": (
        follow_up(NOW, "yes", None),
        1,
        ONE,
        {"rubrics": [rubric("a"), rubric("b")]},
    ),
    "a follow-up that fails": (
        follow_up(failure("unavailable"), "yes", None, "yes"),
        1,
        ONE,
        {"rubrics": [rubric("a"), rubric("b"), rubric("c")], "threshold": 0.6},
    ),
}


def test_panels__of_samples() -> None:
    """What votes, failures and gaps amount to, and after how many requests."""
    text = ""
    for name, (model, samples, shown, options) in PANELS.items():
        metric = RUBRICS if "rubrics" in options else MATCH
        result = score(judged(metric, model, samples=samples, **options), shown)
        for one in result.judgements if isinstance(result, Scored) else ():
            assert one.rationale in {vote.rationale for vote in one.votes if vote.score == one.score} or not one.verdict
        text += f"== {name}, {len(model.requests)} requests\n{told(result)}\n"
    check("golden_judge_panels.txt", text)


WORDS = st.sampled_from(["yes", "no", "yes", "no", None])
SAMPLES = st.integers(1, 4).flatmap(
    lambda rubrics: st.lists(
        st.one_of(st.none(), *[st.lists(WORDS, min_size=rubrics, max_size=rubrics)] * 4), min_size=1, max_size=9
    )
)
"""The verdicts of each sample by rubric; None for a failed call, and for a rubric that is skipped twice."""


@given(SAMPLES)
def test_stopping_early__changes_no_verdict_whatever_fails_or_is_skipped(
    samples: list[list[str | None] | None],
) -> None:
    def script(request: ModelRequest) -> Any:
        answers = samples[request.sample]
        return failure("unavailable") if answers is None else verdicts(*answers)

    count = max((len(answers) for answers in samples if answers), default=1)
    model = ScriptedModel(script=script)
    rubrics = [rubric(str(number)) for number in range(count)]
    criterion_ = judged(RUBRICS, model, samples=len(samples), rubrics=rubrics, threshold=0.0)

    result = score(criterion_, conversation([turn()]))

    full = [
        lower_median([RUBRIC_SCALE[word] for answers in samples if answers and (word := answers[number]) is not None])
        for number in range(count)
    ]
    if all(score is None for score in full):
        assert isinstance(result, NotEvaluated)
    else:
        assert isinstance(result, Scored)
        assert [judgement.score for judgement in result.judgements] == full
    first = [request.sample for request in model.requests if "Leave none out" not in request.prompt]
    assert sorted(first) == list(range(len(first))), "each sample is taken once, in order"


def test_turns_and_samples__are_judged_at_once() -> None:
    model = ScriptedModel(script=lambda _: verdict("valid"))

    scored(judged(MATCH, model), conversation([turn(f"turn {number}") for number in range(4)]))

    assert model.most_at_once == 12


def test_each_request__has_sample_run_and_case() -> None:
    model = ScriptedModel(script=lambda _: verdict("valid"))
    form = {"judgeModel": "mine", "numSamples": 2, "judgeModelConfig": {"temperature": 0.5}}

    scored(judged(MATCH, model, judgeModelOptions=form), conversation([turn()]))

    assert [request.sample for request in model.requests] == [0, 1]
    [first, second] = model.requests
    assert first.prompt == second.prompt
    assert (first.run, first.case_id, first.purpose) == (2, "file.json:c", MATCH)
    assert (first.model, first.config) == ("mine", {"temperature": 0.5})


def _config(**options: Any) -> CriterionConfig:
    return criterion(MATCH, CRITERION_MODELS[MATCH].model_validate({"threshold": 1, **options}))


def test_judge_options__precedence_of_models() -> None:
    own = _config(judge_model_options={"judge_model": "gemini-2.5-flash"})

    assert judge_options(own, "input").model == "gemini-2.5-flash", "named, though it is the default"
    assert judge_options(_config(judge_model_options={"num_samples": 3}), "input").model == "input"
    assert judge_options(_config()).model == DEFAULT_JUDGE
    assert Judge(model=words(), default_model="input").options(_config()).samples == 5
    assert judge_of(_config()) is not None
    asked = words("valid")
    options = {"num_samples": 1, "judge_model_config": {"thinking_config": {"thinking_budget": 0}}}
    scored(judged(MATCH, asked, judge_model_options=options), conversation([turn()]))
    assert asked.requests[0].config == options["judge_model_config"]
    assert judge_of(CriterionConfig(metric="response_match_score", threshold=1)) is None


def test_judged_panel__every_failure_has_a_code() -> None:
    assert set(CODES) == set(get_args(FailureKind))


def test_judged_panel__the_report_gets_every_vote_cut_to_size() -> None:
    model = by_sample(verdict("valid", "a " * 900), verdict("invalid", "two\nlines"), verdict("valid", "c"))

    result = scored(judged(MATCH, model, samples=3), conversation([turn()]))

    [detail] = result.details["judgements"]
    assert [vote["verdict"] for vote in detail["votes"]] == ["valid", "invalid", "valid"]
    assert [len(vote["rationale"]) <= 240 for vote in detail["votes"]] == [True] * 3
    assert detail["votes"][1]["rationale"] == "two lines"
    assert (detail["close"], detail["agreement"]) == (True, 2 / 3)
    assert result.judgements[0].votes[0].rationale == "a " * 900


# Votes: ADK's majority, and stopping early without another outcome.


SCALES = st.sampled_from([(0.0, 1.0), (0.0, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0, 5.0)])
BINARY = (0.0, 1.0)


@st.composite
def elections(draw: st.DrawFn) -> tuple[Sequence[float], list[float | None]]:
    """A scale, and the vote of each sample; None for no vote."""
    scale = draw(SCALES)
    return scale, draw(st.lists(st.one_of(st.none(), st.sampled_from(scale), st.sampled_from(scale)), max_size=12))


def cast(samples: Sequence[float | None]) -> list[float]:
    return [sample for sample in samples if sample is not None]


@given(st.lists(st.sampled_from(BINARY), min_size=1, max_size=15))
def test_lower_median__majority_of_yes_and_no(votes: list[float]) -> None:
    assert lower_median(votes) == (1.0 if votes.count(1.0) > votes.count(0.0) else 0.0)


@given(elections())
def test_needed__stopping_early_keeps_the_outcome(election: tuple[Sequence[float], list[float | None]]) -> None:
    scale, samples = election
    taken = 0
    while count := needed(cast(samples[:taken]), len(samples) - taken, scale):
        taken += count

    assert lower_median(cast(samples[:taken])) == lower_median(cast(samples))
    assert taken <= len(samples)


@given(elections())
def test_needed__is_the_minimum(election: tuple[Sequence[float], list[float | None]]) -> None:
    scale, samples = election
    taken = 0
    while count := needed(cast(samples[:taken]), len(samples) - taken, scale):
        for shorter in range(1, count):
            assert not decided(cast(samples[: taken + shorter]), len(samples) - taken - shorter, scale)
        taken += count


def test_decided__sample_without_a_vote() -> None:
    assert not decided([], 1, BINARY)
    assert lower_median([]) is None
