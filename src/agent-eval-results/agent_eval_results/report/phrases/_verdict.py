"""Reasons of the verdict, and of the statistical decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval_results import PASS, NoMoreRuns, Numbers
from agent_eval_results.report.phrases._words import MOST_NAMES, REMEDIES, about, evidence, lacking, names, parts, score
from agent_eval_scoring.core.text import listed, plural, short_name

SENTENCES: Mapping[str, str] = {
    "no-cases": "There was no case to judge",
    "no-baseline": "The thresholds decide, since there is no baseline",
    "nothing-comparable": "The thresholds decide, since nothing can be compared with {base}",
    "advisory": "{because}; exit 0 because `gate` is `advisory`",
    "base-differs-today": "Today {base} fails more often than in its stored runs, so only runs of today were compared",
}


def failed(count: int, total: int) -> str:
    return f"{count:,} of {plural(total, 'case')}"


def cases_errored(count: int, kind: str) -> str:
    return f"{plural(count, 'case')} could not be evaluated ({kind})"


def cases_not_run(count: int, kind: str) -> str:
    return f"{plural(count, 'case')} not run ({kind})"


def cases_not_evaluated(cases: Sequence[str], kind: str) -> str:
    return about(cases, f"not evaluated ({kind})")


def shard_missing(missing: Sequence[int], total: int) -> str:
    return f"{parts(missing, total)} left no results; re-run the failed jobs"


def not_compared(*, records: bool) -> str:
    missed = "it had read the history of earlier runs" if records else "the comparison with the base branch"
    return f"the gate was stopped before {missed}; start the job again"


def nothing_scored(total: int, causes: Mapping[str, int]) -> str:
    of = f"none of {total:,} cases was" if total != 1 else "the only case was not"
    return f"Nothing was evaluated: {of} scored ({', '.join(f'{count:,} {code}' for code, count in causes.items())})"


def nothing_gated(quarantined: int = 0, informing: int = 0) -> str:
    if not quarantined and not informing:
        return "Nothing was gated: no threshold is above the lowest score"
    groups = [f"{quarantined:,} quarantined"] * bool(quarantined) + [f"{informing:,} not blocking"] * bool(informing)
    return f"Nothing was gated: no case may fail the gate ({', '.join(groups)})"


def only_errors_fail(metrics: Sequence[str], count: int, total: int) -> str:
    return f"Only errors can fail this run: {only_compared(metrics, count, total)}"


def only_compared(metrics: Sequence[str], count: int, total: int) -> str:
    has = "has no threshold" if len(metrics) == 1 else "have no threshold"
    where = f" of {count:,} of {plural(total, 'case')}" if count < total else ""
    return f"{listed(metrics, MOST_NAMES)} {has}, and the base branch has no score{where} to compare with"


def no_case_passes(total: int) -> str:
    return f"No regressions, but 0 of {plural(total, 'case')} pass"


def no_secrets(*, is_fork: bool, change: str = "pull request") -> str:
    if is_fork:
        return f"The run has no model key: a fork's {change} gets no secrets"
    return "The run has no model key: Dependabot's pull requests get only Dependabot's secrets"


def rule_changed(metric: str, count: int, base: str) -> str:
    return (
        f"The code of the custom metric {metric} changed, so that {plural(count, 'case')} "
        f"can't be held to the rule of {base}"
    )


def cases_removed(count: int, base: str, files: Sequence[str]) -> str:
    return f"{plural(count, 'case')} of {base} removed ({listed(files, MOST_NAMES, 'file')})"


def cases_replaced(count: int, total: int, base: str, files: Sequence[str]) -> str:
    return (
        f"{count:,} of {base}'s {plural(total, 'case')} have other prompts or expectations here "
        f"({listed(files, MOST_NAMES, 'file')})"
    )


def agent_error(cases: Sequence[str], base: str) -> str:
    return about(cases, f"broken by an error of the agent that {base} does not have")


def not_comparable(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed that can't be compared with {base}")


def metric_not_comparable(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed by a metric that {base} has no score of")


def replayed_failed(cases: Sequence[str]) -> str:
    return about(cases, "failed that passed when recorded, with the same answers of models and tools")


def failed_as_recorded(cases: Sequence[str]) -> str:
    return about(cases, "failed as when recorded")


def no_fresh_result(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed, can't be compared with {base} and had no result in fresh runs")


def not_run_again(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed, can't be compared with {base} and could not be run again")


def base_not_run_today(cases: Sequence[str], because: str) -> str:
    why = because.removesuffix(".")
    return about(cases, f"failed, and the runs of the base branch to compare with have no result: {why}")


def base_not_fetched(cases: Sequence[str], because: str, base: str) -> str:
    why = because.removesuffix(".")
    return about(cases, f"failed, and the results of {base} to compare with could not be fetched: {why}")


def failed_rarely_again(cases: Sequence[str], base: str) -> str:
    return about(cases, f"that can't be compared with {base} failed at first, and rarely when run again")


def changed_facts(cases: Sequence[str], runs: int, base: str) -> str:
    verb = "answers" if len(cases) == 1 else "answer"
    again = f", in {plural(runs, 'fresh run')} too" if runs else ""
    return about(cases, f"{verb} differently from {base}{again}, which `changed-facts` of the policy forbids")


def facts_not_run(cases: Sequence[str], base: str) -> str:
    verb = "answers" if len(cases) == 1 else "answer"
    return about(cases, f"{verb} differently from {base}, which `changed-facts` forbids, and could not be run again")


def facts_not_compared(cases: Sequence[str], kind: str, base: str) -> str:
    return about(cases, f"could not be compared with the answers on {base} ({kind}), which `changed-facts` needs")


def facts_not_recorded(cases: Sequence[str], base: str) -> str:
    one = "has" if len(cases) == 1 else "have"
    return about(cases, f"{one} no recording on {base}, which `changed-facts` needs")


def broken_alike(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed by a metric that breaks in the same way on {base}")


def red_otherwise(cases: Sequence[str], base: str) -> str:
    return about(cases, f"failed in which the agent broke on {base}")


def agent_error_once(cases: Sequence[str], more: int) -> str:
    return f"{short_name(cases[0])}: the agent broke once and not again in {plural(more, 'more run')}"


def informing(cases: Sequence[str]) -> str:
    return about(cases, f"that only {'informs' if len(cases) == 1 else 'inform'} failed")


def quarantined_broken(cases: Sequence[str], base: str) -> str:
    return about(cases, f"quarantined that usually passes on {base} and now always fails")


def quarantined_cases(total: int, count: int) -> str:
    if total == 1:
        return f"1 quarantined case, which {'failed' if count else 'did not fail'}; it doesn't block"
    return f"{total:,} quarantined cases, {f'{count:,}' if count else 'none'} of which failed; they don't block"


_WOULD: Mapping[str, str] = {"failed": "fail"}


def would_be(result: str, because: str) -> str:
    return f"Would {_WOULD.get(result, f'be {result}')}: {because}"


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


def broken_on_base(numbers: Sequence[Numbers], count: int, base: str, since: Sequence[str] = ()) -> str:
    what = _not_held_against(f"{'fails' if count == 1 else 'fail'} on {base} today, too", numbers, count, base)
    commits = listed(list(dict.fromkeys(filter(None, since))), MOST_NAMES)
    ends = f", since {commits}. Repair or quarantine {'it' if count == 1 else 'them'} there"
    return f"{what}{ends if commits else ''}"


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
