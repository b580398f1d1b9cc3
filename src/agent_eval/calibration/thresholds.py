"""Thresholds that the present agent would hold with a stated probability, from runs that were recorded. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from statistics import median
from typing import Literal

from pydantic import Field

from agent_eval import __version__
from agent_eval.calibration.rounds import FAILED, Low, Series
from agent_eval.core.text import plural
from agent_eval.core.wire import WireModel
from agent_eval.evalset.models import METRICS

_STEP = Decimal("0.001")
"""Suggestions are rounded down to this: a threshold is written by hand."""


class LowReport(WireModel):
    """The lowest score of all rounds."""

    score: float | None
    """None: the agent failed without a score."""
    case_id: str
    report: str
    run: int
    """0-based."""


class SuggestionReport(WireModel):
    """What one metric could demand."""

    config: str | None
    """The config file; None: ADK's defaults."""
    metric: str
    threshold: float
    """The present one."""
    suggestion: float | None
    """None: there is no round to go by, or none that any threshold would have passed."""
    probability: float | None
    """With which the agent passes `suggestion`; at least `wanted` if `enough`."""
    enough: bool
    """Whether there were enough rounds for the probability that was wanted."""
    rounds: int
    order: int | None
    """The suggestion is so many-th lowest of the rounds."""
    held: int
    """Rounds in which all cases reached the present threshold."""
    cases: int
    median: float | None
    """Of the rounds' lowest scores."""
    lowest: LowReport | None
    failures: int
    """Rounds in which the agent failed without a score."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Rounds that could not be used, by reason."""


class ThresholdsReport(WireModel):
    """What `agent-eval calibrate --suggest-thresholds --format json` prints."""

    schema_version: Literal["1"] = "1"
    tool_version: str = __version__
    wanted: float
    """The probability that was asked for."""
    num_runs: int
    """Runs of each case in the gate to come, all of which must pass."""
    needed: int
    """Rounds that it takes for `wanted`."""
    suggestions: list[SuggestionReport]
    together: float | None
    """At least so probable is it that all suggestions hold at once, however they hang together; None: there are
    metrics without one."""
    notices: list[str] = Field(default_factory=list)


def probability(rounds: int, order: int, num_runs: int) -> float:
    """How probable it is that new rounds are all at least as good as one of those that were seen.

    If all rounds, seen and new, could have come in any order, each set of `num_runs` of them is as likely to be the new
    ones as any other. No new one lies below the `order`-th lowest seen one in (at least)
    C(rounds - order + num_runs, num_runs) of C(rounds + num_runs, num_runs) of them; with ties in more. That is the
    distribution-free lower prediction limit, e.g. Hahn and Meeker, "Statistical Intervals" (1991), chapter 5.

    Args:
        rounds: Seen.
        order: 1 for the lowest of them; at most `rounds`.
        num_runs: New ones, at least 1.
    """
    if not 1 <= order <= rounds or num_runs < 1:
        raise ValueError(f"no prediction from {rounds} rounds, order {order}, for {num_runs}")
    return math.prod((rounds - order + new) / (rounds + new) for new in range(1, num_runs + 1))


def rounds_needed(wanted: float, num_runs: int) -> int:
    """Rounds from which on the lowest of them holds with a probability (above 0, below 1)."""
    least = max(1, math.ceil(num_runs * wanted / (1 - wanted) - 1e-9))
    return least if probability(least, 1, num_runs) >= wanted - 1e-12 else least + 1


def suggest(series: Sequence[Series], *, wanted: float, num_runs: int, notices: Sequence[str] = ()) -> ThresholdsReport:
    """Suggests a threshold for each series.

    Args:
        series: From `rounds.collect`.
        wanted: The probability with which the present agent should pass, above 0 and below 1.
        num_runs: Runs of each case in the gate to come; each must pass.
        notices: What the reader should know of the rounds.
    """
    suggestions = [_suggestion(one, wanted, num_runs) for one in series]
    odds = [one.probability for one in suggestions]
    known = [one for one in odds if one is not None]
    return ThresholdsReport(
        wanted=wanted,
        num_runs=num_runs,
        needed=rounds_needed(wanted, num_runs),
        suggestions=suggestions,
        # Bonferroni's inequality.
        together=max(0.0, 1 - sum(1 - one for one in known)) if known and len(known) == len(odds) else None,
        notices=list(notices),
    )


def _suggestion(series: Series, wanted: float, num_runs: int) -> SuggestionReport:
    lows = sorted(series.lows, key=lambda low: low.score)
    orders = [order for order in range(1, len(lows) + 1) if probability(len(lows), order, num_runs) >= wanted - 1e-12]
    enough = bool(orders)
    # Chosen without a look at the scores, ties and all: a promise made afterwards is not kept as often as it says.
    order = (orders[-1] if enough else 1) if lows else None
    value = None if order is None or lows[order - 1].score == FAILED else lows[order - 1].score
    return SuggestionReport(
        config=series.config,
        metric=series.metric,
        threshold=series.threshold,
        suggestion=None if value is None else _rounded(value, series.metric),
        probability=None if value is None or order is None else probability(len(lows), order, num_runs),
        enough=enough and value is not None,
        rounds=len(lows),
        order=None if value is None else order,
        held=sum(low.score >= series.threshold for low in lows),
        cases=series.cases,
        median=_finite(median(low.score for low in lows)) if lows else None,
        lowest=_low(lows[0]) if lows else None,
        failures=sum(low.score == FAILED for low in lows),
        dropped=dict(series.dropped),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _low(low: Low) -> LowReport:
    return LowReport(score=_finite(low.score), case_id=low.case_id, report=low.report, run=low.run)


def _rounded(value: float, metric: str) -> float:
    down = float(Decimal(repr(value)).quantize(_STEP, rounding=ROUND_FLOOR))
    spec = METRICS.get(metric)
    return down if spec is None else max(down, spec.low)


def dropped_text(dropped: dict[str, int]) -> str:
    """`2 rounds left out: a case is missing`; "" for none."""
    return "; ".join(f"{plural(count, 'round')} left out: {reason}" for reason, count in dropped.items())
