"""Suggested thresholds as people read them; safe to print into a log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from agent_eval.calibration.thresholds import SuggestionReport, ThresholdsReport, dropped_text
from agent_eval.core.text import harmless, plural
from agent_eval.evalset.models import METRICS
from agent_eval.report.views import folded, percent_text, score_text, threshold_text


def render_thresholds(report: ThresholdsReport) -> str:
    """The suggestions, each with the numbers behind it."""
    lines: list[str] = []
    for config, group in groupby(report.suggestions, key=lambda one: one.config):
        lines.append(folded(config) if config else "Files without a config (ADK's defaults)")
        lines += [line for one in group for line in _suggestion(one, report)]
        lines.append("")
    lines += [*_explained(report), *report.notices]
    return harmless("\n".join(lines)) + "\n"


def _suggestion(one: SuggestionReport, report: ThresholdsReport) -> Iterator[str]:
    now = threshold_text(one.threshold)
    if one.suggestion is None:
        often = f"the agent failed without a score in {one.failures:,} of {plural(one.rounds, 'round')}"
        why = often if one.rounds else "no round can be used"
        yield f"  {one.metric}: no suggestion, {why} (now {now})"
    else:
        chance = percent_text(one.probability)
        few = "" if one.enough else f"; for {percent_text(report.wanted)} it takes {plural(report.needed, 'round')}"
        yield f"  {one.metric}: {threshold_text(one.suggestion)} holds with at least {chance}{few} (now {now})"
    if one.rounds:
        numbers = [
            f"the present threshold held in {one.held:,} of them with {plural(one.cases, 'case')} each",
            f"median of the rounds' lowest scores {score_text(one.median)}",
        ]
        rounds = plural(one.rounds, "round")
        numbers.insert(0, rounds if one.order is None else f"{_ordinal(one.order)} lowest of {rounds}")
        yield f"      {', '.join(numbers)}"
    if one.lowest is not None and not _is_best(one):
        said = "a failure without a score" if one.lowest.score is None else score_text(one.lowest.score)
        where = f"{folded(one.lowest.case_id)}, run {one.lowest.run + 1} of {folded(one.lowest.report)}"
        yield f"      lowest: {said}, {where}"
    if one.suggestion is not None and one.rounds and one.suggestion <= 0:
        yield "      a threshold of 0 gates nothing: look at the lowest case first"
    if one.dropped:
        yield f"      {dropped_text(one.dropped)}"


def _is_best(one: SuggestionReport) -> bool:
    """Whether no round was anything but perfect: then no case stands out."""
    spec = METRICS.get(one.metric)
    return one.lowest is not None and spec is not None and one.lowest.score == spec.high


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return "the" if number == 1 else f"{number}{ending}"


def _explained(report: ThresholdsReport) -> Iterator[str]:
    runs = (
        "one run of each case" if report.num_runs == 1 else f"{report.num_runs:,} runs of each case, all of which pass"
    )
    yield (
        f"Probabilities are for the next gate with {runs}, of an agent that stays as it is. Method: distribution-free "
        "lower prediction limit, from the lowest score of each round."
    )
    if report.together is not None and len(report.suggestions) > 1:
        if report.together > 0:
            yield f"All of them together hold with at least {percent_text(report.together)}."
        else:
            yield f"That all {len(report.suggestions):,} hold at once can't be promised from so few rounds."
