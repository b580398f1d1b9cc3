"""Whether results of parts belong together and to this checkout. What does not is refused, never averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import harmless, listed, plural
from agent_eval.pipeline._parts import PartResults, Parts, absent_directories, refusal, unreadable_directories
from agent_eval.results import Origin

if TYPE_CHECKING:
    from agent_eval.core.problem import Problem
    from agent_eval.results import CaseReport, MetricReport, RunReport
    from agent_eval.runner import Plan, PlannedCase
    from agent_eval.settings import Settings

_SAME_CHECKOUT = (
    "Merge in the commit and with the settings (`paths`, `num-runs`, `tools`, ...) that the parts ran with. "
    "In a pull request the base branch's criteria apply until accepted."
)
_MOST = 5


def check_parts(
    results: Sequence[PartResults], plan: Plan, draft: RunReport, settings: Settings
) -> tuple[Parts | None, list[Problem]]:
    """Checks results of parts against each other and against this checkout.

    Args:
        results: From `read_parts`, at least one.
        plan: The plan of the whole checkout, with its final weights.
        draft: The report of this run before anything was run.
        settings: The settings of this run.

    Returns:
        The parts; None if there is a problem, and the problems.
    """
    # What differs in a whole part explains what differs in its cases.
    problems = [*_differences(results, draft)] or [*_other_agents(results, draft), *_mistakes(results, plan)]
    if problems:
        return None, problems
    first = results[0].shard
    assigned = _assignment(plan, first.total, first.plan)
    if assigned is None and (first.weights_from == "turns" or settings.shard_plan is not None):
        return None, [_other_split(results, plan)]
    owners = dict(assigned or {})
    for result in results:
        index = result.shard.index
        if elsewhere := [case_id for case_id in result.shard.cases if owners.setdefault(case_id, index) != index]:
            return None, [_other_cases(result, "cases are in another part of the plan", elsewhere)]
    present = {result.shard.index for result in results}
    missing = [index for index in range(1, first.total + 1) if index not in present]
    run = {case_id for result in results for case_id in result.shard.cases}
    not_run = [case.case_id for case in plan.cases if case.case_id not in run]
    if not_run and not missing:
        return None, [_other_cases(results[0], "cases are in no part", not_run)]
    if len(missing) == 1:
        owners |= dict.fromkeys(not_run, missing[0])
    parts = Parts(results=results, total=first.total, owners=owners, missing=missing)
    parts.notices += [f"`shards`: {harmless(name)} does not exist" for name in absent_directories(settings)]
    parts.notices += [f"`shards`: {name} can't be read by this user" for name in unreadable_directories(settings)]
    parts.notices += _provenance_differences(results)
    return parts, []


def _differences(results: Sequence[PartResults], draft: RunReport) -> Iterator[Problem]:
    """A refusal for each value that must be equal in all parts, and in this run, and is not."""
    origin = draft.origin or Origin()
    shared: list[tuple[str, Callable[[PartResults], object], object | None]] = [
        ("number of parts", lambda part: part.shard.total, None),
        ("plan", lambda part: part.shard.plan[:12], None),
        ("version of agent-eval", lambda part: part.report.tool_version, draft.tool_version),
        ("num-runs", lambda part: part.report.num_runs, draft.num_runs),
        ("min-pass-rate", lambda part: part.report.min_pass_rate, draft.min_pass_rate),
        ("commit", lambda part: (part.report.origin or Origin()).commit, origin.commit),
        ("repository", lambda part: (part.report.origin or Origin()).repository, origin.repository),
    ]
    for name, value, own in shared:
        values: dict[object, str] = {} if own is None else {own: "this run"}
        for result in results:
            values.setdefault(value(result), result.file)
        if len(values) > 1:
            shown = "; ".join(f"{text if text != '' else 'unknown'} in {where}" for text, where in values.items())
            yield refusal(
                code="shards-differ",
                message=f"The parts do not belong together: {name} is {shown}.",
                hint=_HINTS.get(name, _SAME_CHECKOUT),
            )


_HINTS = {
    "number of parts": "Merge only the parts of one run. Remove results of earlier runs from the directory.",
    "version of agent-eval": "Use one version of agent-eval in all jobs.",
    "plan": "The parts were split differently: use one commit, one `num-runs` and one `--shard-plan` in all jobs.",
    "commit": "The pull request was updated meanwhile. Run all jobs again; `concurrency` in the workflow avoids this.",
}


def _assignment(plan: Plan, total: int, expected: str) -> Mapping[str, int] | None:
    """The part of each case; None if this checkout would be split differently."""
    from agent_eval.runner import partition, split_hash

    assignment = partition(plan.weights, total)
    split = split_hash(assignment, plan.units(), total=total, num_runs=plan.num_runs)
    return assignment if split == expected else None


def _other_agents(results: Sequence[PartResults], draft: RunReport) -> Iterator[Problem]:
    """Refusals for parts that ran another agent than that of this run."""
    agents = {file.file: file.agent for file in draft.files}
    for result in results:
        for file in result.report.files:
            if (agent := agents.get(file.file, file.agent)) != file.agent:
                message = f"{result.file}: the agent of {file.file} is {harmless(file.agent)}, and in this run {agent}."
                yield refusal(code="shards-differ", message=message, hint=_SAME_CHECKOUT)
                break


def _mistakes(results: Sequence[PartResults], plan: Plan) -> Iterator[Problem]:
    """Refusals for cases of parts that are not those of this checkout."""
    planned = {case.case_id: case for case in plan.cases}
    for result in results:
        mistakes: dict[str, list[str]] = {}
        cases = {case.case_id: case for case in result.report.cases}
        named = dict.fromkeys(result.shard.cases)
        for case_id in named | dict.fromkeys(cases):
            if case_id not in cases:
                why = "cases are listed, but have no results"
            elif case_id not in named:
                why = "cases have results, but are not listed"
            else:
                why = _mistake(cases[case_id], planned.get(case_id), list(plan.numbers()))
            if why:
                mistakes.setdefault(why, []).append(case_id)
        yield from (_other_cases(result, why, case_ids) for why, case_ids in mistakes.items())


def _mistake(case: CaseReport, planned: PlannedCase | None, numbers: list[int]) -> str:
    """Why a case of a part is not that of this checkout, as a clause; "" if it is."""
    if planned is None:
        return "cases do not exist in this run"
    if case.fingerprint != planned.content:
        return "cases have another content in this run"
    if sorted(run.run for run in case.runs) != numbers:
        return f"cases do not have {plural(len(numbers), 'run')} each"
    return _other_criteria(case, planned)


def _other_criteria(case: CaseReport, planned: PlannedCase) -> str:
    """How the criteria of a case differ from those of this run, as a clause; "" if they don't."""
    if not case.metrics:
        return ""
    thresholds = {criterion.name: criterion.threshold for criterion in planned.criteria}
    measured = {metric.name: metric.threshold for metric in case.metrics}
    if measured.keys() != thresholds.keys():
        return f"the criteria are {listed(sorted(measured), 9)}, and in this run {listed(sorted(thresholds), 9)}"
    for metric in case.metrics:
        if metric.threshold != thresholds[metric.name]:
            return f"the threshold of {metric.name} is {metric.threshold}, and in this run {thresholds[metric.name]}"
        identity = planned.identities.get(metric.name)
        if identity is not None and metric.fingerprint not in _fingerprints(metric, identity.fingerprint):
            judges = f" ({metric.judge}, and in this run {identity.judge})" if metric.judge != identity.judge else ""
            return f"{metric.name} was measured with other options, another judge or other code{judges}"
    return ""


def _fingerprints(metric: MetricReport, fingerprint: str) -> set[str]:
    """The fingerprints that the metric may have: a custom metric can state its version."""
    from agent_eval.runner import versioned

    versions = (run.details.get("version") for run in metric.runs)
    return {fingerprint, *(versioned(fingerprint, version) for version in versions if isinstance(version, str))}


def _other_cases(result: PartResults, why: str, case_ids: Sequence[str]) -> Problem:
    message = f"{result.file}: {why}: {listed(case_ids, _MOST)}."
    return refusal(code="shards-differ", message=message, hint=_SAME_CHECKOUT)


def _other_split(results: Sequence[PartResults], plan: Plan) -> Problem:
    planned = len(plan.cases)
    first = results[0]
    message = (
        f"The parts are a split of other cases than those of this run: {first.file} is about "
        f"{first.shard.suite_cases:,} cases, this run about {planned:,}."
    )
    return refusal(
        code="shards-differ",
        message=message,
        hint=f"{_SAME_CHECKOUT} `--shard-plan` must be the same file in all jobs.",
    )


def _provenance_differences(results: Sequence[PartResults]) -> Iterator[str]:
    names = dict.fromkeys(name for result in results for name in result.report.provenance if name != "concurrency")
    for name in names:
        values = {
            value: result.shard.index
            for result in reversed(results)
            if (value := result.report.provenance.get(name)) is not None
        }
        if len(values) > 1:
            shown = ", ".join(f"{value} in part {index}" for value, index in values.items())
            yield f"The parts ran with different versions of {name}: {shown}"
