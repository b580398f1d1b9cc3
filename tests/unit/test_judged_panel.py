"""A panel of votes: the number of samples, follow-up questions, failed samples, and failures that end the criterion."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import (
    ScriptedModel,
    conversation,
    failure,
    judged,
    refused,
    rubric,
    score,
    scored,
    turn,
    verdict,
    verdicts,
)

from agent_eval.criteria.base import NotEvaluated, Scored
from agent_eval.criteria.judged.judge import CODES, Judge, judge_options, lower_median
from agent_eval.criteria.judged.rubrics import RUBRIC_SCALE
from agent_eval.criteria.registry import judge_of
from agent_eval.evalset.models import DEFAULT_JUDGE
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import CriterionConfig
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.protocol import FailureKind, ModelRequest

MATCH = "final_response_match_v2"
RUBRICS = "rubric_based_final_response_quality_v1"


def by_sample(*replies: Any) -> ScriptedModel:
    return ScriptedModel(script=lambda request: replies[request.sample])


def words(*verdicts_of_samples: str) -> ScriptedModel:
    return by_sample(*(verdict(word, f"vote {number}") for number, word in enumerate(verdicts_of_samples)))


@pytest.mark.parametrize(
    ("votes", "outcome", "calls", "tally", "close"),
    [
        ("vvvvv", 1.0, 3, (3, 0), False),
        ("iiivv", 0.0, 3, (3, 0), False),
        ("vviiv", 1.0, 5, (3, 2), True),
        ("vviii", 0.0, 5, (3, 2), True),
        ("vvivv", 1.0, 4, (3, 1), False),
        ("vvii", 0.0, 4, (2, 2), True),
        ("v", 1.0, 1, (1, 0), False),
    ],
)
def test_votes__stop_when_they_are_decided(
    votes: str, outcome: float, calls: int, tally: tuple[int, int], close: bool
) -> None:
    model = words(*({"v": "valid", "i": "invalid"}[letter] for letter in votes))

    result = scored(judged(MATCH, model, samples=len(votes)), conversation([turn()]))

    assert result.score == outcome
    assert len(model.requests) == calls
    [judgement] = result.judgements
    assert (judgement.tally, judgement.close, judgement.planned) == (tally, close, len(votes))
    assert judgement.agreement == tally[0] / sum(tally)
    winner = next(vote for vote in judgement.votes if vote.score == outcome)
    assert judgement.rationale == winner.rationale
    assert result.details["judge"]["saved"] == len(votes) - calls
    assert result.details["judge"]["calls"] == calls


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


@pytest.mark.parametrize("kind", ["unavailable", "deadline", "malformed", "refused"])
def test_a_sample_that_fails__drops_out_and_is_the_cause_if_all_fail(kind: FailureKind) -> None:
    model = by_sample(failure(kind), verdict("valid"), verdict("valid"), verdict("invalid"), verdict("valid"))

    result = scored(judged(MATCH, model), conversation([turn()]))

    assert result.score == 1.0
    [judgement] = result.judgements
    assert (judgement.votes[0].failure, judgement.votes[0].verdict) == (CODES[kind], None)
    assert f"scripted {kind}" in judgement.votes[0].rationale
    assert result.details["judge"]["calls"] == 2 + 4, "what failed was paid for too"

    nothing = refused(judged(MATCH, ScriptedModel(script=lambda _: failure(kind))), conversation([turn()]))
    assert nothing.code == CODES[kind]
    assert f"scripted {kind}" in nothing.facts["message"]
    silent = by_sample(failure(kind), failure(kind), verdict("odd"))
    assert refused(judged(MATCH, silent, samples=3), conversation([turn()])).code == "no-verdict"


@pytest.mark.parametrize("kind", ["budget", "invalid-request", "no-credentials", "replay-miss"])
def test_failure_of_every_sample__ends_the_criterion(kind: FailureKind) -> None:
    def script(request: ModelRequest) -> Any:
        return failure(kind) if request.sample == 1 else verdict("valid")

    model = ScriptedModel(script=script)

    result = refused(judged(MATCH, model, samples=9), conversation([turn(), turn()]))

    assert result.code == CODES[kind]
    assert result.facts["message"] == f"scripted {kind}. wait a bit"
    assert len(model.requests) <= 10, "no second wave"


def test_judged_panel__every_failure_has_a_code() -> None:
    assert set(CODES) == set(get_args(FailureKind))


def test_missing_verdict__neither_passes_nor_vanishes() -> None:
    def script(request: ModelRequest) -> Any:
        return failure("malformed") if "confuse" in request.prompt else verdict("valid")

    criterion_ = judged(MATCH, ScriptedModel(script=script), threshold=0.8)

    result = refused(criterion_, conversation([turn(), turn("confuse the judge")]))

    assert result.code == "judge-malformed"
    assert result.facts["message"] == "scripted malformed"
    assert (result.facts["count"], result.facts["total"], result.facts["turn"]) == (1, 2, 2)
    assert result.facts["span"] == [0.5, 1.0]
    assert [entry["verdict"] for entry in result.details["judgements"]] == ["valid", None], "the other verdict is kept"
    assert result.details["judge"]["saved"] == 2


@pytest.mark.parametrize(("threshold", "others", "outcome"), [(0.5, "valid", 1.0), (0.8, "invalid", 0.0)])
def test_missing_verdict__that_cannot_matter(threshold: float, others: str, outcome: float) -> None:
    def script(request: ModelRequest) -> Any:
        return failure("refused") if "gap" in request.prompt else verdict(others)

    criterion_ = judged(MATCH, ScriptedModel(script=script), threshold=threshold)

    assert scored(criterion_, conversation([turn(), turn("gap")])).score == outcome


TWICE = {"verdicts": [*verdicts("yes")["verdicts"], *verdicts("no")["verdicts"]]}
NO_VOTES: list[Any] = [None, [], {}, {"verdict": 1}, *map(verdict, ("Valid", "valid and good", ""))]


@pytest.mark.parametrize(
    ("metric", "reply"),
    [
        *((MATCH, reply) for reply in NO_VOTES),
        (RUBRICS, verdicts(None)),
        (RUBRICS, TWICE),
    ],
)
def test_unknown_skipped_or_contradicting_verdict__is_no_vote(metric: str, reply: Any) -> None:
    model = ScriptedModel(script=lambda _: reply)
    rubrics: dict[str, Any] = {"rubrics": [rubric("a")]} if metric == RUBRICS else {}

    result = refused(judged(metric, model, samples=1, **rubrics), conversation([turn()]))

    assert (result.code, result.facts["subject"]) == ("no-verdict", "a" if rubrics else "")
    assert len(model.requests) == (2 if rubrics else 1), "a skipped rubric is asked about once more"


def test_a_skipped_rubric__is_asked_again_alone() -> None:
    def script(request: ModelRequest) -> Any:
        if "Leave none out" not in request.prompt:
            return verdicts("yes", None)
        assert '"it is a"' not in request.prompt
        return {"verdicts": [{"number": 2, "evidence": "", "rationale": "now", "verdict": "no"}]}

    model = ScriptedModel(script=script)
    result = scored(judged(RUBRICS, model, samples=1, rubrics=[rubric("a"), rubric("b")]), conversation([turn()]))

    assert result.score == 0.5
    assert [(judgement.subject, judgement.verdict) for judgement in result.judgements] == [("a", "yes"), ("b", "no")]
    assert len(model.requests) == 2


def test_failed_follow_up__keeps_the_rest() -> None:
    def script(request: ModelRequest) -> Any:
        return failure("unavailable") if "Leave none out" in request.prompt else verdicts("yes", None, "yes")

    rubrics = [rubric("a"), rubric("b"), rubric("c")]
    result = scored(
        judged(RUBRICS, ScriptedModel(script=script), samples=1, rubrics=rubrics, threshold=0.6), conversation([turn()])
    )

    assert result.score == 1.0
    assert [judgement.verdict for judgement in result.judgements] == ["yes", None, "yes"]
    assert [detail["verdict"] for detail in result.details["judgements"]] == ["yes", None, "yes"]


def test_judged_panel__the_report_gets_every_vote_cut_to_size() -> None:
    model = by_sample(verdict("valid", "a " * 900), verdict("invalid", "two\nlines"), verdict("valid", "c"))

    result = scored(judged(MATCH, model, samples=3), conversation([turn()]))

    [detail] = result.details["judgements"]
    assert [vote["verdict"] for vote in detail["votes"]] == ["valid", "invalid", "valid"]
    assert [len(vote["rationale"]) <= 240 for vote in detail["votes"]] == [True] * 3
    assert detail["votes"][1]["rationale"] == "two lines"
    assert (detail["close"], detail["agreement"]) == (True, 2 / 3)
    assert result.judgements[0].votes[0].rationale == "a " * 900
