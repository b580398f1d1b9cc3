"""How many questions a judged criterion asks about a case, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.judged._ballot import needed
from agent_eval.criteria.judged._rubric_criteria import TRAJECTORY
from agent_eval.criteria.judged.quality import YARDSTICKS
from agent_eval.evalset.models import JUDGED_METRICS, METRICS

_BINARY = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class CallRange:
    """Questions to the judge, without attempts that the provider refuses and replies that don't fit."""

    least: int
    """If all votes agree, on the verdict that is decided soonest."""
    most: int
    """If no vote can be saved and each reply skips something."""


def judge_calls(metric: str, samples: int, *, turns: int, texts: int) -> CallRange:
    """What a judged metric asks in one run of a case.

    Args:
        metric: A judged one.
        samples: `num_samples`.
        turns: Of the conversation.
        texts: What `hallucinations_v1` checks: final responses with text, and the texts on the way if they count.

    Raises:
        ValueError: The metric isn't judged.
    """
    if metric not in JUDGED_METRICS:
        raise ValueError(f"{metric!r} is not judged")
    if metric == "hallucinations_v1":
        return CallRange(least=2 * texts, most=3 * texts)
    yardstick = YARDSTICKS.get(metric)
    once = metric == TRAJECTORY or (yardstick is not None and yardstick.conversation)
    # The simulated user's first turn isn't asked about, and the ending is.
    questions = min(turns, 1) if once else turns
    scale = tuple(yardstick.scale.values()) if yardstick is not None else _BINARY
    again = 2 if METRICS[metric].rubric_type else 1
    return CallRange(least=questions * needed((), samples, scale), most=questions * samples * again)
