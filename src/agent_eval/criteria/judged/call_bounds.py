"""Bounds on the number of questions that a judged criterion asks about a case."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.judged._rubric_criteria import TRAJECTORY
from agent_eval.criteria.judged.judge import needed
from agent_eval.criteria.judged.quality import JUDGE_SPECS
from agent_eval.evalset.models import JUDGED_METRICS, METRICS

_BINARY = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class CallBounds:
    """Number of questions to the judge, without retries after provider errors and malformed replies."""

    least: int
    """If all votes agree on the verdict that needs the fewest votes."""
    most: int
    """If all votes are needed and each reply skips a subject."""


def judge_calls(metric: str, samples: int, *, turns: int, texts: int) -> CallBounds:
    """The number of questions in one run of a case.

    Args:
        metric: A judged metric.
        samples: `num_samples`.
        turns: Number of turns of the conversation.
        texts: Number of texts that `hallucinations_v1` checks: final responses with text, and intermediate texts if
            they are included.

    Raises:
        ValueError: The metric isn't judged.
    """
    if metric not in JUDGED_METRICS:
        raise ValueError(f"{metric!r} is not judged")
    if metric == "hallucinations_v1":
        return CallBounds(least=2 * texts, most=3 * texts)
    spec = JUDGE_SPECS.get(metric)
    once = metric == TRAJECTORY or (spec is not None and spec.conversation)
    # For simulated users there is no question about the first turn, but one about the ending.
    questions = min(turns, 1) if once else turns
    scale = tuple(spec.scale.values()) if spec is not None else _BINARY
    again = 2 if METRICS[metric].rubric_type else 1
    return CallBounds(least=questions * needed((), samples, scale), most=questions * samples * again)
