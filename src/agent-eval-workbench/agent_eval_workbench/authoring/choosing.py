"""Which of several runs becomes the expectation of a case, and which calls all of them made. Pure functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from math import fsum

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.invocation import Invocation, tool_calls
from agent_eval_scoring.criteria import Conversation, Criterion, NotEvaluated
from agent_eval_scoring.evalset.models import EvalCase

MOST_RUNS = 20
"""Each run is scored with each other one as the expectation, so more of them would take long."""

Run = Sequence[Invocation]
"""The turns of one run."""


async def mean_scores(
    case: EvalCase, runs: Sequence[Run], criteria: Sequence[Criterion], *, calls_visible: bool = True
) -> list[float]:
    """For each run, the mean score of the other ones if its turns were the expectation.

    Args:
        case: The case.
        runs: At least one run, each with as many turns as the case.
        criteria: Deterministic criteria. Their scores are averaged.
        calls_visible: False if the agent's tool calls are not known.

    Returns:
        0..1 per run; 0 if there is nothing to compare with.
    """
    means = []
    for number, expected in enumerate(runs):
        scores = []
        for other, actual in enumerate(runs):
            if other == number:
                continue
            conversation = Conversation(
                case=case.model_copy(update={"conversation": list(expected)}),
                actual=actual,
                expected=expected,
                calls_visible=calls_visible,
            )
            for criterion in criteria:
                result = await criterion.score(conversation)
                if not isinstance(result, NotEvaluated) and result.score is not None:
                    scores.append(result.score)
        means.append(round(fsum(scores) / len(scores), 9) if scores else 0.0)
    return means


async def most_typical(
    case: EvalCase, runs: Sequence[Run], criteria: Sequence[Criterion], *, calls_visible: bool = True
) -> int:
    """The index of the run that is the best expectation for the others: the medoid under the criteria of the case.

    If several are equally good, the one whose calls are the most frequent counts, then the first one.
    See `mean_scores` for the arguments.
    """
    if len(runs) == 1:
        return 0
    means = await mean_scores(case, runs, criteria, calls_visible=calls_visible)
    routes = [route(run) for run in runs]
    frequency = Counter(routes)
    return max(range(len(runs)), key=lambda index: (means[index], frequency[routes[index]], -index))


def route(run: Run) -> tuple[tuple[str, ...], ...]:
    """The calls of each turn, in a form that can be compared."""
    return tuple(tuple(map(call_key, tool_calls(turn.intermediate_data))) for turn in run)


def call_key(call: FunctionCall, *, ignore_args: bool = False) -> str:
    """Equal for calls of one tool with equal args."""
    return json.dumps([call.name, None if ignore_args else call.args], sort_keys=True)


def common_calls(
    runs: Sequence[Sequence[FunctionCall]], reference: int, *, ordered: bool, ignore_args: bool = False
) -> list[int]:
    """The calls of a turn that every run made.

    Args:
        runs: The calls of the turn, by run.
        reference: The index of the run whose calls are returned.
        ordered: Only calls that every run made in the same order: a common subsequence. Otherwise the calls
            that every run made in any order, each as often as in the run with the fewest.
        ignore_args: Calls of one tool are the same, whatever their args.

    Returns:
        Positions among the calls of `runs[reference]`, ascending.
    """
    keys = [[call_key(call, ignore_args=ignore_args) for call in calls] for calls in runs]
    if ordered:
        return _places(_common(keys), keys[reference])
    common = Counter(keys[0])
    for run in keys[1:]:
        common &= Counter(run)
    places = []
    for place, key in enumerate(keys[reference]):
        if common[key] > 0:
            common[key] -= 1
            places.append(place)
    return places


def _places(keys: Sequence[str], within: Sequence[str]) -> list[int]:
    """The first places at which a subsequence occurs."""
    places: list[int] = []
    for key in keys:
        places.append(within.index(key, places[-1] + 1 if places else 0))
    return places


def _common(runs: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """A common subsequence, which does not depend on the order of the runs; of two runs it is the longest one."""
    common, *others = sorted({tuple(run) for run in runs})
    for run in others:
        lengths = [[0] * (len(run) + 1) for _ in range(len(common) + 1)]
        for i in range(len(common) - 1, -1, -1):
            for j in range(len(run) - 1, -1, -1):
                lengths[i][j] = (
                    lengths[i + 1][j + 1] + 1 if common[i] == run[j] else max(lengths[i + 1][j], lengths[i][j + 1])
                )
        kept, i, j = [], 0, 0
        while i < len(common) and j < len(run):
            if common[i] == run[j]:
                kept.append(common[i])
                i, j = i + 1, j + 1
            elif lengths[i + 1][j] >= lengths[i][j + 1]:
                i += 1
            else:
                j += 1
        common = tuple(kept)
    return common
