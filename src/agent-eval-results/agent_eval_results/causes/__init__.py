"""What failing cases have in common: the first difference of their runs from the base branch's runs. Pure.

Spectrum-based fault localisation: differences are ranked by Ochiai's coefficient over failing and passing cases (Abreu
et al., 2007); the cases of the best one are removed, the rest is ranked again (Liblit et al., 2005). A wrong cause is
worse than none, so groups have a least size, and what passing cases have as well is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from math import sqrt

from agent_eval_results import (
    MOST_PASSING,
    CaseReport,
    CauseCounts,
    CauseData,
    CauseExample,
    CauseReport,
    Recording,
    RunReport,
    RunScore,
    by_id,
)
from agent_eval_results.causes._differences import differences, nearest, unexpected
from agent_eval_results.causes._runs import (
    NOTHING,
    Difference,
    Key,
    Side,
    Turn,
    side_of,
    side_of_case,
    side_of_run,
    tools_of,
    turn_of,
)
from agent_eval_results.causes._values import error_in, json_text, leaves, mentions, word_changes, words
from agent_eval_results.data.exact_tests import exact_p
from agent_eval_scoring.core.invocation import Invocation, tool_calls
from agent_eval_scoring.evalset.models import METRICS

__all__ = ["NOTHING", "CaseRuns", "Turn", "error_in", "find_causes", "json_text", "leaves"]
__all__ += ["mentions", "turn_of", "word_changes", "words"]
_AT_END = 1_000_000
"""In place of a turn: after all of them."""
_MOST_RUNS = 10
"""Runs of a case on each side that are compared."""
_MOST_CAUSES = 20
_PASSES, _QUIET = 3, 2
"""Passes over the cases that have no cause yet: groups that are no chance, smaller ones, responses of tools alone."""
_NOISE = 0.2
"""Share of the cases in which two runs of the base branch may differ by a key."""
_PRECISION, _LEAST_PRECISION, _P = 0.8, 0.4, 0.05
_P_ON_BASE, _P_ALIKE = 0.001, 0.025
"""What the base branch's runs do as well, in any case, counts if the head's do it so much more often; and what is of a
kind that is frequent there.
"""
_STRONG = frozenset({"exception", "deadline", "tool-error", "tool-empty", "sub-agent", "toolset"})
_GENERAL = frozenset({"tool-response", "call-argument", "call-missing", "call-extra"})
"""Codes of which a key with a tool alone says less, and needs one case more."""
_LAST = frozenset({"answer", "answer-change", "criterion"})
_SUBJECTIVE = "rubric_based_"
"""Metrics of ADK with rubrics. Those that compare with an expected answer or trajectory fail with everything."""


@dataclass(frozen=True, kw_only=True)
class CaseRuns:
    """What was recorded of a case."""

    head: Iterable[Recording]
    base: Iterable[Recording]
    """The base branch's runs of the same case; none if there are none, or its messages are others."""
    expected: Sequence[Invocation] = ()
    """The turns of the eval case; none for a scenario."""


@dataclass(kw_only=True)
class _Case:
    """A failing case."""

    case_id: str
    runs: int
    """Judged runs."""
    failing: dict[int, list[Difference]]
    """By run."""
    starts: dict[Key, tuple[int, Difference]] = field(default_factory=dict)
    """The keys with which at least half of the runs start: one of these runs, and the place there."""

    def having(self) -> set[Key]:
        """All keys of its failing runs."""
        return {key for found in self.failing.values() for difference in found for key in difference.keys}


@dataclass(kw_only=True)
class _Spectrum:
    """In which cases keys are."""

    failing: list[_Case] = field(default_factory=list)
    """Without those that pass half of the time, which can be in no group."""
    failed: int = 0
    """All failing cases."""
    anywhere: Counter[Key] = field(default_factory=Counter)
    """Failing cases that have it in a failing run."""
    passing: Counter[Key] = field(default_factory=Counter)
    """Passing cases that have it."""
    forgiven: Counter[Key] = field(default_factory=Counter)
    """Those of them that no metric compares with it, which proves nothing against it."""
    passed: int = 0
    """Passing cases that were looked at."""
    each: float = 1.0
    """How many passing cases each of them stands for."""
    varied: Counter[Key] = field(default_factory=Counter)
    """Cases in which two runs of the base branch differ by it."""
    late: set[Key] = field(default_factory=set)
    """All keys of deadlines. Several tools that don't return, or a model, are a slow machine."""
    repeated_on_base: int = 0
    unexpected: tuple[Counter[Key], Counter[Key]] = field(default_factory=lambda: (Counter(), Counter()))
    """In how many cases as many runs of the head, and of the base branch, differ by it from what the case expects."""
    expecting: int = 0
    """Cases with both, and with an expectation."""
    base_runs: dict[str, list[set[Key]]] = field(default_factory=dict)
    """What each run of the base branch has that its other runs have not, by failing case."""

    def is_noise(self, key: Key) -> bool:
        return self.varied[key] > _NOISE * self.repeated_on_base or self.is_usual(key)

    def is_usual(self, key: Key) -> bool:
        """Whether runs of the base branch differ by it from what their cases expect, about as often."""
        head, base = (side[key] for side in self.unexpected)
        alike = self.unexpected[1][key[:1]]
        least = _P_ON_BASE if base else _P_ALIKE if alike > _NOISE * self.expecting else 1.0
        return exact_p(head, self.expecting, base, self.expecting) > least

    def against(self, key: Key) -> float:
        """How many passing cases speak against it; an estimate where not all were looked at."""
        return self.each * (self.passing[key] - self.forgiven[key])

    def counts(self, key: Key, having: int | None = None) -> bool:
        """Whether a key tells failing from passing cases; `having`: how many failing cases have it."""
        if self.is_noise(key) or (key[0] == "deadline" and not (key[1] and self.late == {key})):
            return False
        having, passing = self.anywhere[key] if having is None else having, self.against(key)
        precision = having / max(having + passing, 1)
        if precision >= _PRECISION:
            return True
        if not str(key[0]).startswith("tool-") or precision < _LEAST_PRECISION:
            return False
        return exact_p(having, self.failed, round(passing / self.each), self.passed) <= _P

    def first(self, found: Sequence[Difference], pass_: int) -> tuple[Difference, list[Key]] | None:
        """The first difference that counts, and the keys by which it does."""
        weak, usual = None, False
        for difference in found:
            if difference.quiet if pass_ < _QUIET else not (difference.quiet or difference.weak or difference.ends):
                continue
            usual = usual or any(map(self.is_usual, difference.keys))
            if difference.unless and not all(map(self.is_noise, difference.unless)):
                continue
            # An answer follows from what the base branch does as well.
            keys = [key for key in difference.keys if not (usual and key[0] in _LAST)]
            counting = [key for key in keys if self.counts(key)]
            if counting and not difference.weak:
                return difference, counting
            if counting and weak is None:
                weak = difference, counting
            if difference.ends and not (difference.keys and all(map(self.is_noise, difference.keys))):
                break
        return weak


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What the report says of a case that passed or failed."""

    case_id: str
    passed: bool
    agent: str
    """The agent's path."""
    statuses: Mapping[int, str]
    """Of its judged runs, extra ones included."""
    criteria: Mapping[int, Sequence[tuple[Key, ...]]]
    """The keys of the criteria that say no, and of their rubrics, by run."""
    fine: Mapping[int, Set[str]]
    """What is no reason for a run to fail or pass: its `calls` or its `answer`."""


def find_causes(report: RunReport, runs_of: Callable[[str], CaseRuns], *, few: bool = False) -> list[CauseReport]:
    """The causes that failing cases share, the largest group first.

    Args:
        report: The head's, with its cases and extra runs.
        runs_of: Returns the recordings of a case of the report. Only those of one case are in memory at once.
        few: Also those of groups that may be chance, marked `few`: to be kept only with changed lines as evidence.

    Returns:
        Causes without `message`, `changed_here` and `called_before`.
    """
    cases = {case.case_id: case for case in _judged(report)}
    # One case shares nothing; only changed lines can be evidence for it.
    if sum(not case.passed for case in cases.values()) < (1 if few else 2):
        return []
    passing = [case for case in cases.values() if case.passed]
    # They say how usual a difference is, and more of them hardly say it better: of one that 1% have, 2,000 show 20, in
    # 95 of 100 suites 11 to 29.
    step = max(1.0, len(passing) / MOST_PASSING)
    spectrum = _Spectrum(each=step)
    tools = {tool.name for tree in report.agents for agent in tree.agents for tool in agent.tools}
    spread = (passing[int(place * step)] for place in range(min(len(passing), MOST_PASSING)))
    # Passing cases first: their recordings name the tools.
    for case in chain(spread, (case for case in cases.values() if not case.passed)):
        _look_at(spectrum, case, runs_of(case.case_id), tools)
    causes: list[CauseReport] = []
    for pass_ in range(_PASSES if few else 1):
        _mark_starts(spectrum, pass_)
        # What is known not to be chance is not explained a second time by what may be.
        explained = {case_id for cause in causes if not cause.few for case_id in cause.cases}
        left = {case.case_id: case for case in spectrum.failing if case.starts and case.case_id not in explained}
        found: list[CauseReport] = []
        while len(found) < _MOST_CAUSES and (best := _best(spectrum, list(left.values()), few=pass_ > 0)) is not None:
            key, group = best
            for explained_case in group:
                del left[explained_case.case_id]
            # The shortest name is the easiest to type in the command that shows it.
            example = min(group, key=lambda case: (not case.case_id.isascii(), len(case.case_id)))
            run, difference = example.starts[key]
            agent = cases[example.case_id].agent
            data = _data(key, run, difference, runs_of(example.case_id), agent, tools)
            found.append(_cause(spectrum, key, group, data, example, few=pass_ > 0))
        causes += sorted(found, key=lambda cause: -len(cause.cases))
    return causes


def _judged(report: RunReport) -> Iterator[_Judged]:
    agents = report.agents_by_file
    worse = None
    if report.comparison is not None:
        changed = (case for case in report.comparison.cases if case.change == "newly_failing")
        worse = {case.case_id: {metric.name for metric in case.metrics} for case in changed}
    parts = by_id(report.confirmations)
    for case in report.cases:
        if not case.is_judged:
            continue
        pieces = [case, *parts.get(case.case_id, ())]
        criteria: dict[int, list[tuple[Key, ...]]] = {}
        for metric in (metric for piece in pieces for metric in piece.metrics):
            got_worse = worse is None or metric.name in worse.get(case.case_id, ())
            # What is as low on the base branch explains no new failure.
            if not got_worse or not _is_subjective(metric.name):
                continue
            for score in metric.runs:
                if score.failed:
                    criteria.setdefault(score.run, []).extend(_criterion_keys(metric.name, score))
        runs = [run for piece in pieces for run in piece.runs if run.is_judged]
        scores: dict[int, dict[str, set[str]]] = {}
        for metric in (metric for piece in pieces for metric in piece.metrics):
            for score in metric.runs:
                if score.is_judged:
                    scores.setdefault(score.run, {}).setdefault(score.status, set()).add(_looks_at(metric.name))
        yield _Judged(
            case_id=case.case_id,
            passed=case.passed,
            agent=agents.get(case.file, ""),
            statuses={run.run: run.status for run in runs},
            criteria=criteria,
            fine={run: _fine(found.get("failed", set()), found.get("passed", set())) for run, found in scores.items()},
        )


def _criterion_keys(name: str, score: RunScore) -> list[tuple[Key, ...]]:
    """The keys of a criterion: for each rubric that it says no to, else once."""
    verdicts = score.verdicts if name.startswith(_SUBJECTIVE) else ()
    rubrics = dict.fromkeys(said.subject for said in verdicts if said.subject and said.score == 0)
    return [(("criterion", name, rubric), ("criterion", name)) for rubric in rubrics] or [(("criterion", name),)]


@lru_cache(maxsize=1024)
def _looks_at(metric: str) -> str:
    """What a metric compares with an expected one."""
    if metric.startswith("tool_trajectory"):
        return "calls"
    return "answer" if metric.startswith(("response_match", "final_response_match", "response_evaluation")) else ""


def _fine(failed: Set[str], passed: Set[str]) -> Set[str]:
    """What is no reason for a run's result, by what its failed and passed metrics look at."""
    if (failed or passed) == {"calls"}:
        return {"answer"}
    return {"calls"} if (failed == {"answer"} and "calls" in passed) or (not failed and passed == {"answer"}) else set()


@lru_cache(maxsize=1024)
def _is_subjective(name: str) -> bool:
    return name.startswith(_SUBJECTIVE) or not any(name.startswith(metric) for metric in METRICS)


def _look_at(spectrum: _Spectrum, case: _Judged, recorded: CaseRuns, tools: set[str]) -> None:
    """Adds a case to the spectrum."""
    base = _sides(recorded.base, case.agent, tools)
    varied: list[set[Key]] = [set() for _ in base]
    if len(base) > 1:
        for number, run in enumerate(base):
            others = [*base[:number], *base[number + 1 :]]
            varied[number] = {key for difference in nearest(run, others) for key in difference.keys}
        spectrum.repeated_on_base += 1
        spectrum.varied.update(set[Key]().union(*varied))
    there = base or _expected(recorded)
    wanted = Counter(call.name for each in recorded.expected for call in tool_calls(each.intermediate_data))
    status = "passed" if case.passed else "failed"
    found: dict[int, list[Difference]] = {}
    head: list[Side] = []
    for recording in islice((each for each in recorded.head if each.run in case.statuses), _MOST_RUNS):
        tools |= tools_of(recording)
        head.append(side_of_run(recording, case.agent, tools))
        # A run of a failing case that passes, or the other way round, shows nothing of why the case does.
        if case.statuses[recording.run] != status:
            continue
        compared = nearest(head[-1], there)
        fine = case.fine.get(recording.run, set())
        calls = Counter(call.call.name for turn in head[-1].turns for call in turn.calls)
        meant: set[Key] = {("call-extra", name) for name, count in wanted.items() if count >= calls[name]}
        found[recording.run] = [bare for each in compared if (bare := each.bare(fine, meant)).keys or bare.ends]
        found[recording.run] += [
            Difference(at=(_AT_END, float(number)), keys=keys)
            for number, keys in enumerate(case.criteria.get(recording.run, ()))
        ]
    if base and head and (expected := _expected(recorded)):
        spectrum.expecting += 1
        for side, counter in zip((head, base), spectrum.unexpected, strict=True):
            runs_of = side[: min(len(head), len(base))]
            keys = {key for run in runs_of for key in unexpected(run, expected[0])}
            counter.update(keys | {key[:1] for key in keys})
    having = {key for run in found.values() for difference in run for key in difference.keys}
    if case.passed:
        spectrum.passed += 1
        spectrum.passing.update(having)
        unnamed = {key for key in having if recorded.expected and key[0] == "call-missing" and key[1] not in wanted}
        fine = set[str]().union(*case.fine.values())
        spectrum.forgiven.update(unnamed | {key for key in having if side_of(key) in fine})
        return
    spectrum.failed += 1
    runs = len(case.statuses)
    passed = sum(value == "passed" for value in case.statuses.values())
    if found and 2 * passed < runs:
        spectrum.failing.append(_Case(case_id=case.case_id, runs=runs, failing=found))
        spectrum.anywhere.update(having)
        spectrum.late.update(key for key in having if key[0] == "deadline")
        spectrum.base_runs[case.case_id] = varied


def _sides(recordings: Iterable[Recording], agent: str, tools: set[str]) -> list[Side]:
    """Runs of the base branch. Those that ended for a reason outside the agent say nothing."""
    sides = []
    for recording in islice(recordings, _MOST_RUNS):
        tools |= tools_of(recording)
        if recording.error is None or recording.error.by_agent:
            sides.append(side_of_run(recording, agent, tools))
    return sides


def _expected(recorded: CaseRuns) -> list[Side]:
    return [side_of_case(recorded.expected)] if recorded.expected else []


def _mark_starts(spectrum: _Spectrum, pass_: int) -> None:
    for case in spectrum.failing:
        runs: Counter[Key] = Counter()
        places: dict[Key, tuple[int, Difference]] = {}
        for run, found in case.failing.items():
            first = spectrum.first(found, pass_)
            if first is None:
                continue
            difference, keys = first
            runs.update(keys)
            for key in keys:
                places.setdefault(key, (run, difference))
        # With only changed lines as evidence, a difference that some runs lack is no cause.
        judged = min(case.runs, _MOST_RUNS)
        least = judged if pass_ else judged / 2
        case.starts = {key: place for key, place in places.items() if runs[key] >= least}


def _best(spectrum: _Spectrum, cases: Sequence[_Case], *, few: bool) -> tuple[Key, list[_Case]] | None:
    """The key that explains the most of these cases and the fewest passing ones, and the cases."""
    groups: dict[Key, list[_Case]] = {}
    for case in cases:
        for key in case.starts:
            groups.setdefault(key, []).append(case)
    ranked = []
    for key, group in groups.items():
        if not spectrum.counts(key, len(group)) or not _is_group(key, group, few=few):
            continue
        if few and str(key[0]).startswith("tool-") and spectrum.varied[key]:
            continue  # Code that differs from run to run without a change.
        # Rounded below: the last bit of equal shares must not choose between two causes.
        ochiai = len(group) / sqrt(len(cases) * (len(group) + spectrum.against(key)))
        # Of keys that explain as much, the earliest is the cause and the others follow from it; then the most special
        # one.
        places = [case.starts[key][1] for case in group]
        earliest = sum(place.at[0] + min(place.at[1] + 1, 1_000) / 1_001 for place in places) / len(places)
        special = min(place.keys.index(key) for place in places)
        ranked.append(((-round(ochiai, 9), key[0] in _LAST, round(earliest, 9), special, str(key)), key))
    if not ranked:
        return None
    _, key = min(ranked)
    group = groups[key]
    shared = [name for name in group[0].starts if all(name in case.starts for case in group)]
    order = {name: number for number, name in enumerate(group[0].starts[key][1].keys)}
    named = min((name for name in shared if name in order and _is_group(name, group, few=few)), key=order.__getitem__)
    return named, group


def _is_group(key: Key, group: Sequence[_Case], *, few: bool) -> bool:
    """Whether enough cases share it to be no coincidence; `few`: whether its changed lines may show that it is none."""
    code = key[0]
    if few:
        return code not in {"criterion", "deadline", "toolset"} and not any(
            case.starts[key][1].unless for case in group
        )
    if code in {"answer", "answer-change"} and len({case.starts[key][1].expects for case in group}) < 2:
        return False
    least = 3 if code in _STRONG or (code == "call-argument" and any(key[3:])) else 4
    least += code in _GENERAL and len(key) == 2
    if code == "exception" and len(key) > 3 and key[2]:  # Of one function.
        return len(group) >= 2
    return len(group) >= (least - 1 if _repeated(group) else least)


def _repeated(group: Sequence[_Case]) -> bool:
    return all(case.runs > 1 for case in group)


def _data(key: Key, run: int, difference: Difference, recorded: CaseRuns, agent: str, tools: set[str]) -> CauseData:
    """The data of a cause, from its example, which is compared again."""
    if key[0] == "criterion":
        return CauseData(metric=key[1], rubric=key[2] if len(key) > 2 else "")
    there = _sides(recorded.base, agent, tools) or _expected(recorded)
    recording = next(each for each in recorded.head if each.run == run)
    found = nearest(side_of_run(recording, agent, tools), there)
    return next(each.data[key] for each in found if each.at == difference.at and key in each.data)


def _cause(
    spectrum: _Spectrum, key: Key, group: Sequence[_Case], data: CauseData, shown: _Case, *, few: bool
) -> CauseReport:
    run, difference = shown.starts[key]
    base_runs = [keys for case in group for keys in spectrum.base_runs[case.case_id]]
    base = CauseCounts(total=len(base_runs), having=sum(key in keys for keys in base_runs))
    return CauseReport.model_validate(
        {
            "code": key[0],
            "data": data,
            "cases": [case.case_id for case in group],
            "failing": CauseCounts(total=spectrum.failed, having=len(group)),
            "passing": CauseCounts(total=spectrum.passed, having=spectrum.passing[key]),
            "base": base if base_runs else None,
            "repeated": _repeated(group),
            "few": few,
            "example": CauseExample(
                case_id=shown.case_id,
                run=run,
                turn=0 if difference.at[0] == _AT_END else difference.at[0],
                call=None if key[0] in _LAST else difference.call,
            ),
        }
    )
