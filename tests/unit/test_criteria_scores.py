"""Criteria as the runner uses them: built from a config, then scored."""

from collections.abc import Sequence
from typing import Any

import pytest
from remark_samples import lines

from agent_eval.core.content import Content, FunctionCall, Part, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation, InvocationEvent, InvocationEvents
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored, check_complete
from agent_eval.criteria.efficiency import durations, inference_call_count, token_usage
from agent_eval.criteria.registry import INFORMATIONAL, build, supported
from agent_eval.evalset.models.criteria import INFORMATIONAL_METRICS, METRICS, Family, MetricSpec
from agent_eval.evalset.models.criterion_options import BaseCriterion
from agent_eval.evalset.models.schema import CriterionConfig, EvalCase, MatchType

REFERENCED = [name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC and spec.needs_reference]


def turn(*calls: FunctionCall, text: str | None = None) -> Invocation:
    return Invocation(
        user_content=user_message("u"),
        final_response=None if text is None else model_message(text),
        intermediate_data=IntermediateData(tool_uses=list(calls)),
    )


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(name=name, args=args)


async def score(
    metric: str,
    actual: Sequence[Invocation],
    expected: Sequence[Invocation] | None,
    *,
    threshold: float = 0.8,
    **options: Any,
) -> Result:
    criterion = build(CriterionConfig(metric=metric, threshold=threshold, options=options))
    assert (criterion.name, criterion.threshold) == (metric, threshold)
    case = EvalCase(eval_id="c", conversation=[])
    return await criterion.score(Conversation(case=case, actual=actual, expected=expected))


async def scored(*arguments: Any, **options: Any) -> Scored:
    result = await score(*arguments, **options)
    assert isinstance(result, Scored)
    return result


A, B, C = call("a", x=1), call("b", y=2), call("c")


def test_every_deterministic_metric_has_a_scorer__and_no_other() -> None:
    assert {name for name in METRICS if supported(name)} == {
        name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC
    }
    assert tuple(criterion.name for criterion in INFORMATIONAL) == INFORMATIONAL_METRICS
    assert {criterion.threshold for criterion in INFORMATIONAL} == {None}


def test_registry__refuses_a_declaration_without_scorer_and_a_scorer_without_declaration() -> None:
    """`check_complete` runs at import, so that a missing piece does not wait for a config that names the metric."""
    declared = {name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC}

    with pytest.raises(ImportError, match=r"check response_match_score"):
        check_complete({Family.DETERMINISTIC: declared - {"response_match_score"}})
    with pytest.raises(ImportError, match=r"check levenshtein"):
        check_complete({Family.DETERMINISTIC: declared | {"levenshtein"}})
    with pytest.raises(ValueError, match="must declare options"):
        MetricSpec(name="levenshtein", family=Family.DETERMINISTIC)
    with pytest.raises(ValueError, match="must not declare options"):
        MetricSpec(name="levenshtein_count", family=Family.INFORMATIONAL, options=BaseCriterion)


def test_a_metric_without_a_scorer__is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="`politeness`"):
        build(CriterionConfig(metric="politeness", threshold=0.5))


def test_a_judged_metric__is_refused_without_a_judge() -> None:
    with pytest.raises(ValueError, match=r"'safety_v1' needs a judge"):
        build(CriterionConfig(metric="safety_v1", threshold=0.5))


@pytest.mark.parametrize("metric", REFERENCED)
@pytest.mark.parametrize(
    ("actual", "expected", "code"),
    [([turn()], None, "needs-reference"), ([], [], "no-turns"), ([turn()], [turn(), turn()], "turn-count")],
)
async def test_score__not_evaluated(
    metric: str, actual: list[Invocation], expected: list[Invocation] | None, code: str
) -> None:
    result = await score(metric, actual, expected)

    assert isinstance(result, NotEvaluated)
    assert result.code == code


async def test_trajectory__is_the_mean_over_turns() -> None:
    result = await scored("tool_trajectory_avg_score", [turn(A), turn(B), turn()], [turn(A), turn(A), turn()])

    assert result.score == (1.0 + 0.0 + 1.0) / 3
    assert result.turn_scores == (1.0, 0.0, 1.0)
    (finding,) = result.findings
    assert (finding.turn, finding.score, finding.expected, finding.actual) == (1, 0.0, "a(x=1)", "b(y=2)")
    assert "missing: a(x=1)" in lines(finding.why)


async def test_trajectory__options() -> None:
    metric = "tool_trajectory_avg_score"

    assert (await scored(metric, [turn(B, C, A)], [turn(A, B)])).score == 0
    assert (await scored(metric, [turn(A, C, B)], [turn(A, B)], match_type=MatchType.IN_ORDER)).score == 1
    assert (await scored(metric, [turn(B, C, A)], [turn(A, B)], match_type=MatchType.ANY_ORDER)).score == 1
    assert (await scored(metric, [turn(call("a", x=2))], [turn(A)], ignore_args=True)).score == 1


async def test_trajectory__reads_calls_from_either_form() -> None:
    events = InvocationEvents(
        invocation_events=[
            InvocationEvent(author="a", content=Content(parts=[Part(text="t"), Part(function_call=A)])),
            InvocationEvent(author="a"),
            InvocationEvent(author="a", content=Content(parts=[Part(function_call=B)])),
        ]
    )
    actual = Invocation(user_content=user_message("u"), intermediate_data=events)

    assert (await scored("tool_trajectory_avg_score", [actual], [turn(A, B)])).score == 1
    nothing = Invocation(user_content=user_message("u"))
    assert (await scored("tool_trajectory_avg_score", [nothing], [nothing])).score == 1


@pytest.mark.parametrize("metric", ["tool_trajectory_avg_score", "trajectory_precision", "trajectory_recall"])
async def test_score__too_deep(metric: str) -> None:
    expected: Any = {}
    actual: Any = {}
    for _ in range(100_000):
        expected, actual = {"k": expected}, {"k": actual}
    result = await score(metric, [turn(call("a", x=expected))], [turn(call("a", x=actual))])

    assert isinstance(result, NotEvaluated)
    assert result.code == "too-deep"


async def test_response_match__explains_the_turns_below_the_threshold() -> None:
    actual = [turn(text="the lamp is on"), turn(text="no"), turn(text="the lamp is lit")]
    expected = [turn(text="the lamp is on"), turn(text="yes"), turn(text="the lamp is on")]
    result = await scored("response_match_score", actual, expected, threshold=0.7)

    assert result.turn_scores == (1.0, 0.0, 0.75)
    assert result.score == 1.75 / 3
    (finding,) = result.findings
    assert (finding.turn, finding.expected, finding.actual) == (1, "yes", "no")


async def test_response_match__a_missing_reference_scores_zero() -> None:
    result = await scored("response_match_score", [turn(text="hi")], [turn()])

    assert result.score == 0.0
    assert result.findings[0].expected == "(no text)"


async def test_response_match__counts_thoughts_as_text() -> None:
    thought = turn()
    thought.final_response = Content(parts=[Part(text="hidden thinking", thought=True), Part(text="visible")])

    assert (await scored("response_match_score", [thought], [turn(text="visible")])).score == 0.5


async def test_response_match__cuts_long_texts_in_findings() -> None:
    result = await scored("response_match_score", [turn(text="x" * 1_000_000)], [turn(text="y" * 1_000_000)])

    (finding,) = result.findings
    assert len(finding.expected) + len(finding.actual) + sum(map(len, lines(finding.why))) < 10_000


@pytest.mark.parametrize(
    ("actual", "expected", "precision", "recall"),
    [
        ([], [], 1.0, 1.0),
        ([], [A], 0.0, 0.0),
        ([A], [], 0.0, 1.0),
        ([A, B], [B, A], 1.0, 1.0),
        ([A, A], [A], 0.5, 1.0),
        ([A], [A, A], 1.0, 0.5),
        ([A, C, call("b", y=3)], [A, B], 1 / 3, 0.5),
    ],
)
async def test_scores__precision_and_recall(
    actual: list[FunctionCall], expected: list[FunctionCall], precision: float, recall: float
) -> None:
    precision_result = await scored("trajectory_precision", [turn(*actual)], [turn(*expected)])
    recall_result = await scored("trajectory_recall", [turn(*actual)], [turn(*expected)])

    assert (precision_result.score, recall_result.score) == (precision, recall)
    assert [len(precision_result.findings), len(recall_result.findings)] == [precision < 0.8, recall < 0.8]


async def test_precision__is_the_mean_over_turns__and_may_ignore_args() -> None:
    turns = [turn(A, C), turn(A)], [turn(A), turn(call("a", x=9))]

    assert (await scored("trajectory_precision", *turns)).turn_scores == (0.5, 0.0)
    assert (await scored("trajectory_precision", *turns)).score == 0.25
    assert (await scored("trajectory_precision", *turns, ignore_args=True)).score == 0.75


async def test_single_tool_use__in_any_turn() -> None:
    metric = "trajectory_single_tool_use"

    used = await scored(metric, [turn(A), turn(B)], None, tool_name="b")
    unused = await scored(metric, [turn(A), turn(B)], [turn()], tool_name="c")
    nothing = await score(metric, [], None, tool_name="c")

    assert (used.score, used.turn_scores, used.findings) == (1.0, (0.0, 1.0), ())
    assert unused.score == 0.0
    assert lines(unused.findings[0].why) == ("c was not called in any of 2 turns", "called instead: a, b")
    assert isinstance(nothing, NotEvaluated)


def measured(*usages: dict[str, Any] | None, **seconds: float) -> Invocation:
    events = [InvocationEvent(author="a", usage_metadata=usage) for usage in usages]
    return Invocation(
        user_content=user_message("u"), intermediate_data=InvocationEvents(invocation_events=events), **seconds
    )


def test_token_usage__adds_up_events_in_either_spelling() -> None:
    usage = {"prompt_token_count": 5, "thoughtsTokenCount": 2, "totalTokenCount": 99}

    assert token_usage(measured(usage, None, {"toolUsePromptTokenCount": 1.0, "cached_content_token_count": 4})) == {
        "prompt_tokens": 5,
        "tool_use_tokens": 1,
        "input_tokens": 6,
        "reasoning_tokens": 2,
        "output_tokens": 2,
        "total_tokens": 8,
        "cached_tokens": 4,
    }
    assert token_usage(measured({"prompt_token_count": "many", "candidatesTokenCount": None})) == {}
    assert token_usage(turn(A)) == {}


def test_inference_calls__are_events_with_usage_or_version() -> None:
    assert inference_call_count(measured({}, None, {"prompt_token_count": 1})) == 2
    assert inference_call_count(measured()) == 0
    assert inference_call_count(turn(A)) is None


def test_durations__rest_needs_all_parts() -> None:
    whole = durations(measured(duration=1.23456, model_duration=0.5004, tool_duration=0.30049))

    assert whole["framework_seconds"] == 0.434
    assert whole["total_seconds"] == 1.23456
    assert durations(measured(duration=1.0, model_duration=0.6, tool_duration=0.7))["framework_seconds"] == 0.0
    assert durations(measured(duration=1.0, model_duration=0.6)) == {"total_seconds": 1.0, "model_seconds": 0.6}
    assert durations(measured(model_duration=0.6)) == {}


async def test_informational__means_over_turns() -> None:
    turns = [measured({"prompt_token_count": 6}, duration=1.0), measured(duration=0.0005), turn(A, A, A)]
    conversation = Conversation(case=EvalCase(eval_id="c", conversation=[]), actual=turns, expected=None)
    results = {criterion.name: await criterion.score(conversation) for criterion in INFORMATIONAL}

    assert results == {
        "tool_call_count_v1": Scored(score=1.0, turn_scores=(0.0, 0.0, 3.0)),
        "inference_call_count_v1": Scored(score=0.5, turn_scores=(1.0, 0.0, None)),
        "token_usage_v1": Scored(
            score=2.0,
            turn_scores=(6, None, None),
            details={"total_tokens": 2.0, "input_tokens": 2.0, "prompt_tokens": 2.0},
        ),
        "invocation_duration_v1": Scored(score=0.5, turn_scores=(1.0, 0.0005, None), details={"total_seconds": 0.5}),
    }


async def test_informational__nothing_to_count() -> None:
    conversation = Conversation(case=EvalCase(eval_id="c", conversation=[]), actual=[], expected=None)

    assert [await criterion.score(conversation) for criterion in INFORMATIONAL] == [Scored(score=None)] * 4
