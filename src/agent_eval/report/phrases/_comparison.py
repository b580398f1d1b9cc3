"""Reasons of the statistical decision."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.text import plural, short_name
from agent_eval.gate.stats import PASS
from agent_eval.report.phrases._words import REMEDIES, evidence, lacking, names, score
from agent_eval.results import NoMoreRuns, Numbers


def case_worse(numbers: Sequence[Numbers], count: int, metric: str, base: str) -> str:
    verb = "is" if count == 1 else "are"
    return f"{plural(count, 'case')} {verb} worse than on {base}{_in(metric)}: {names(numbers, count, base)}"


def broken_case(numbers: Sequence[Numbers], count: int, base: str) -> str:
    return f"{plural(count, 'case')} with too few runs on {base} failed every run: {names(numbers, count, base)}"


def cases_worse_together(numbers: Sequence[Numbers], count: int, metric: str, base: str) -> str:
    return f"Taken together, these cases got worse by more than chance{_in(metric)}: {names(numbers, count, base)}"


def suite_worse(metric: str, drop: float, total: int, *, rises: bool) -> str:
    return f"The suite as a whole got worse{_in(metric)}: {_moved(metric, drop, total, rises=rises)}"


def suite_undecided(metric: str, drop: float, total: int, remedy: NoMoreRuns, *, rises: bool) -> str:
    moved = _moved(metric, drop, total, rises=rises)
    return f"The suite as a whole looks worse{_in(metric)}: {moved}. {REMEDIES[remedy]}"


def thin_base(numbers: Sequence[Numbers], count: int, base_runs: int, base: str) -> str:
    fails = "fails" if count == 1 else "fail"
    return (
        f"{plural(count, 'case')} {fails} most runs, and {base} has too few to tell whether that is new: "
        f"{names(numbers, count, base)}. {lacking(base_runs, base)}"
    )


def suspects_undecided(numbers: Sequence[Numbers], count: int, remedy: NoMoreRuns, base: str) -> str:
    suspects = plural(count, "suspected regression is", "suspected regressions are")
    return f"{suspects} undecided: {names(numbers, count, base)}. {REMEDIES[remedy]}"


def base_differs_today(base: str) -> str:
    return f"Today {base} fails more often than in its stored runs, so only runs of today were compared"


def likely_regression(numbers: Sequence[Numbers], count: int, base: str) -> str:
    what = f"failed far more often than on {base}, in too few runs to block"
    return _not_held_against(what, numbers, count, base)


def suspicious(numbers: Sequence[Numbers], count: int, base: str) -> str:
    what = f"failed more often than on {base}, in too few runs to tell from chance"
    return _not_held_against(what, numbers, count, base)


def failed_at_first(numbers: Sequence[Numbers], count: int, base: str) -> str:
    return _not_held_against("failed at first and not again", numbers, count, base)


def flaky_as_before(numbers: Sequence[Numbers], count: int, base: str) -> str:
    return _not_held_against(f"failed, as it does now and then on {base}", numbers, count, base)


def red_on_base(numbers: Sequence[Numbers], count: int, base: str) -> str:
    return _not_held_against(f"failed as on {base}", numbers, count, base)


def _not_held_against(what: str, numbers: Sequence[Numbers], count: int, base: str) -> str:
    shown = "; ".join(f"{short_name(case['case'])}: {evidence(case, base)}" for case in numbers)
    more = f"; and {count - len(numbers):,} more" if count > len(numbers) else ""
    return f"{plural(count, 'case')} {what} ({shown}{more})"


def _in(metric: str) -> str:
    return "" if metric == PASS else f" in {metric}"


def _moved(metric: str, drop: float, total: int, *, rises: bool) -> str:
    """E.g. "7.3 points lower over 30 cases"; scores in their own unit."""
    much = f"{100 * drop:.1f} points" if metric == PASS else score(drop) if drop >= 0.01 else f"{drop:.2g}"
    return f"{much} {'higher' if rises else 'lower'} over {plural(total, 'case')}"
