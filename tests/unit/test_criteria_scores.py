"""Criteria as the runner uses them: built from a config, then scored."""

from collections.abc import Sequence
from typing import Any

import pytest
from remark_samples import lines

from agent_eval.core.content import FunctionCall, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation, InvocationEvent, InvocationEvents
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored, check_complete
from agent_eval.criteria.registry import INFORMATIONAL, build, supported
from agent_eval.evalset.models.criteria import INFORMATIONAL_METRICS, METRICS, Family, MetricSpec
from agent_eval.evalset.models.criterion_options import BaseCriterion
from agent_eval.evalset.models.schema import CriterionConfig, EvalCase

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
    for metric, why in (("politeness", "`politeness`"), ("safety_v1", "'safety_v1' needs a judge")):
        with pytest.raises(ValueError, match=why):
            build(CriterionConfig(metric=metric, threshold=0.5))


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
    actual = [turn(text=text) for text in ("the lamp is on", "no", "the lamp is lit", "hi")]
    expected = [turn(text=text) for text in ("the lamp is on", "yes", "the lamp is on", None)]
    result = await scored("response_match_score", actual, expected, threshold=0.7)

    assert result.turn_scores == (1.0, 0.0, 0.75, 0.0)
    assert result.score == 1.75 / 4
    assert [(finding.turn, finding.expected, finding.actual) for finding in result.findings] == [
        (1, "yes", "no"),
        (3, "(no text)", "hi"),
    ]


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

    mean = await scored("trajectory_precision", [turn(*actual), turn(A)], [turn(*expected), turn(call("a", x=9))])
    assert (mean.score, mean.turn_scores) == (precision / 2, (precision, 0.0))
    ignoring = await scored("trajectory_precision", [turn(A)], [turn(call("a", x=9))], ignore_args=True)
    assert ignoring.score == 1.0


async def test_single_tool_use__in_any_turn() -> None:
    metric = "trajectory_single_tool_use"

    used = await scored(metric, [turn(A), turn(B)], None, tool_name="b")
    unused = await scored(metric, [turn(A), turn(B)], [turn()], tool_name="c")

    assert (used.score, used.turn_scores, used.findings) == (1.0, (0.0, 1.0), ())
    assert (unused.score, len(unused.findings)) == (0.0, 1)
    assert isinstance(await score(metric, [], None, tool_name="c"), NotEvaluated)


def measured(*usages: dict[str, Any] | None, **seconds: float) -> Invocation:
    events = [InvocationEvent(author="a", usage_metadata=usage) for usage in usages]
    return Invocation(
        user_content=user_message("u"), intermediate_data=InvocationEvents(invocation_events=events), **seconds
    )


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
