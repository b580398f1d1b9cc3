"""Whether results of parts belong together and to this checkout. What does not is refused, never averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_eval.core.text import harmless, listed, plural, short_name
from agent_eval.pipeline._parts import PartResults, Parts, absent_directories, refusal, unreadable_directories

if TYPE_CHECKING:
    from agent_eval.core.problem import Problem
    from agent_eval.results import CaseReport, MetricReport, RunReport
    from agent_eval.runner import Plan, PlannedCase
    from agent_eval.settings import Settings

_SAME_CHECKOUT = (
    "Merge in the commit and with the settings (`paths`, `num-runs`, `tools`, ...) that the parts ran with."
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

    Raises:
        RuntimeError: Parts with one plan have a case twice or not at all, which would be a bug.
    """
    # What differs in a whole part explains what differs in its cases.
    problems = [*_differences(results, draft)] or [*_other_agents(results, draft), *_mistakes(results, plan)]
    if problems:
        return None, problems
    first = results[0].shard
    present = {result.shard.index for result in results}
    missing = [index for index in range(1, first.total + 1) if index not in present]
    assigned = _assignment(plan, first.total, first.plan)
    if assigned is None and (first.weights_from == "turns" or settings.shard_plan is not None):
        return None, [_other_split(results, plan)]
    owners = assigned if assigned is not None else {}
    _check_cases(results, plan, assigned, complete=not missing)
    if not missing and (unowned := _unowned(results, plan)):
        return None, [_other_cases(results[0], unowned, "are in no part")]
    if len(missing) == 1 and not owners:
        owners = dict.fromkeys(_unowned(results, plan), missing[0])
    parts = Parts(results=results, total=first.total, owners=owners, missing=missing)
    parts.notices += [f"`shards`: {harmless(name)} does not exist" for name in absent_directories(settings)]
    parts.notices += [f"`shards`: {name} can't be read by this user" for name in unreadable_directories(settings)]
    parts.notices += _provenance_differences(results)
    return parts, []


def _differences(results: Sequence[PartResults], draft: RunReport) -> Iterator[Problem]:
    """A refusal for each value that must be equal in all parts, and in this run, and is not."""
    here = "this run"
    origin = draft.origin
    shared: list[tuple[str, Callable[[PartResults], object], object | None]] = [
        ("number of parts", lambda part: part.shard.total, None),
        ("plan", lambda part: part.shard.plan[:12], None),
        ("version of agent-eval", lambda part: part.report.tool_version, draft.tool_version),
        ("num-runs", lambda part: part.report.num_runs, draft.num_runs),
        ("min-pass-rate", lambda part: part.report.min_pass_rate, draft.min_pass_rate),
        (
            "commit",
            lambda part: part.report.origin.commit if part.report.origin else "",
            origin.commit if origin else "",
        ),
        (
            "repository",
            lambda part: part.report.origin.repository if part.report.origin else "",
            origin.repository if origin else "",
        ),
    ]
    for name, value, own in shared:
        values: dict[object, str] = {} if own is None else {own: here}
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
    here = {case.case_id: case for case in plan.cases}
    for result in results:
        cases = {case.case_id: case for case in result.report.cases}
        if listed_only := [case_id for case_id in result.shard.cases if case_id not in cases]:
            yield _other_cases(result, listed_only, "are listed, but have no results")
        own = set(result.shard.cases)
        if more := [case_id for case_id in cases if case_id not in own]:
            yield _other_cases(result, more, "have results, but are not listed")
        if unknown := [case_id for case_id in cases if case_id not in here]:
            yield _other_cases(result, unknown, "do not exist in this run")
        changed = [
            case_id for case_id, case in cases.items() if case_id in here and case.fingerprint != here[case_id].content
        ]
        if changed:
            yield _other_cases(result, changed, "have another content in this run")
        numbers = list(plan.numbers())
        if cut := [case_id for case_id, case in cases.items() if sorted(run.run for run in case.runs) != numbers]:
            yield _other_cases(result, cut, f"do not have {plural(len(numbers), 'run')} each")
        for case_id, case in cases.items():
            if case_id in here and (why := _other_criteria(case, here[case_id])):
                hint = "Run all parts again. In a pull request the base branch's criteria apply until accepted."
                yield refusal(code="shards-differ", message=f"{result.file}: {short_name(case_id)}: {why}.", hint=hint)
                break


def _other_criteria(case: CaseReport, planned: PlannedCase) -> str:
    """How the criteria of a case differ from those of this run, as a clause; "" if they don't."""
    if not case.metrics:
        return ""
    thresholds = {criterion.name: criterion.threshold for criterion in planned.criteria}
    measured = {metric.name: metric.threshold for metric in case.metrics}
    if measured.keys() != thresholds.keys():
        return f"its criteria are {listed(sorted(measured), 9)}, and in this run {listed(sorted(thresholds), 9)}"
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


def _other_cases(result: PartResults, case_ids: Iterable[str], what: str) -> Problem:
    names = list(case_ids)
    return refusal(
        code="shards-differ", message=f"{result.file}: cases {what}: {listed(names, _MOST)}.", hint=_SAME_CHECKOUT
    )


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


def _unowned(results: Sequence[PartResults], plan: Plan) -> list[str]:
    owned = {case_id for result in results for case_id in result.shard.cases}
    return [case.case_id for case in plan.cases if case.case_id not in owned]


def _check_cases(
    results: Sequence[PartResults], plan: Plan, assigned: Mapping[str, int] | None, *, complete: bool
) -> None:
    """Raises RuntimeError if parts of one plan overlap, or a part has cases of another one."""
    owner: dict[str, int] = {}
    for result in results:
        for case_id in result.shard.cases:
            index = result.shard.index
            if owner.setdefault(case_id, index) != index or (assigned or {}).get(case_id, index) != index:
                raise RuntimeError(
                    f"{case_id} is in part {index} and in part {(assigned or owner)[case_id]} of one plan"
                )
    if complete and assigned is not None and (lost := [case_id for case_id in assigned if case_id not in owner]):
        raise RuntimeError(f"{listed(lost, _MOST)} are in no part of the plan {results[0].shard.plan}")


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
