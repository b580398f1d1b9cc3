"""Finds turns without the texts that criteria compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation, intermediate_responses
from agent_eval.core.problem import Problem
from agent_eval.evalset.json import JsonPath
from agent_eval.evalset.models import CriterionConfig, MetricSpec
from agent_eval.evalset.parse import EvalFile

_INTERMEDIATE = "intermediate_response_similarity"


def turns_without_references(
    file: EvalFile,
    turns: Sequence[Invocation],
    path: JsonPath,
    builtin: Sequence[tuple[MetricSpec, CriterionConfig]],
    where: str,
) -> Iterator[Problem]:
    """Turns without the text that a criterion compares with.

    Args:
        file: The file.
        turns: The expected turns of a case.
        path: The path of the case.
        builtin: The built-in criteria of the case.
        where: Where the criteria are configured, for messages.
    """
    if any(spec.name == _INTERMEDIATE for spec, _ in builtin) and not any(map(intermediate_responses, turns)):
        yield file.error(
            "needs-reference",
            f"No turn of the case has intermediate responses with text, but `{_INTERMEDIATE}` ({where}) compares with "
            "them.",
            path,
            'Add them to a turn, e.g. "intermediate_data": {"intermediate_responses": '
            '[["agent_name", [{"text": "..."}]]]}, or remove the criterion.',
        )
    needing = [spec for spec, _ in builtin if spec.needs_final_response]
    if not needing:
        return
    without = [number for number, turn in enumerate(turns) if not text_of(turn.final_response)]
    names = " and ".join(f"`{spec.name}`" for spec in needing)
    compare = f"{names} ({where}) {'compares' if len(needing) == 1 else 'compare'}"
    if len(without) == len(turns):
        yield file.error(
            "needs-reference",
            f"No turn of the case has a `final_response` with text, but {compare} with it.",
            path,
            "Add the expected answers, or use a test_config.json without this criterion: else no answer can pass.",
        )
        return
    effects = " ".join(dict.fromkeys(_effect(criterion) for spec, criterion in builtin if spec.needs_final_response))
    for number in without:
        yield file.warning(
            "turn-without-reference",
            f"The turn has no `final_response` with text, but {compare} with it.",
            (*path, "conversation", number),
            f"{effects} Add the expected answer.",
        )


def _effect(criterion: CriterionConfig) -> str:
    """The effect of a turn without a reference on a criterion."""
    if criterion.metric != "response_similarity":
        return "As in ADK, any answer scores 0 in this turn."
    if criterion.options.get("compat"):
        return "As in adk-rust, `response_similarity` leaves this turn out."
    return "Any answer in this turn leaves `response_similarity` without a score."
