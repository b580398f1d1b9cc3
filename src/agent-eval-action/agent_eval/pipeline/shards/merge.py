"""Merges the parts of a run that belong together and to this checkout. What does not is refused, never averaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_eval.gate.verdict import Verdict, unfinished
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline._draft import problem_reports
from agent_eval.pipeline.features import Run, with_results_of
from agent_eval.pipeline.shards.parts import PartResults, Parts, absent_directories, read_parts, unreadable_directories
from agent_eval.pipeline.shards.split import Weighed, hashes_of, partition, split_hash, units_of
from agent_eval_agents.sources import WHOLE, is_dotenv
from agent_eval_results import SHARD_MISSING, CaseReport, Origin, Reason, RunReport
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.text import harmless, listed

_SAME_CHECKOUT = (
    "Merge in the commit and with the settings (`paths`, `num-runs`, `replay`, ...) that the parts ran with. "
    "In a {change} the base branch's criteria apply until accepted."
)
_MOST = 5


class Merge(Weighed):
    """Makes one verdict of the results of all parts."""

    computes = True
    _parts: Parts

    def problems(self, run: Run) -> Sequence[Problem]:
        """Reads the parts, and checks that they belong together and to this checkout."""
        found = super().problems(run)
        if has_error([*run.plan.problems, *run.problems, *found]):
            return found
        results, problems = read_parts(run.settings.shards, run.settings.root, run.settings.output)
        if not has_error(problems):
            parts, refused = check_parts(results, run)
            problems += refused
            if parts is not None:
                self._parts = parts
        return [*found, *problems]

    def before(self, run: Run) -> None:
        """Leaves what the parts have not spent, and takes their judges' replies."""
        run.bill.meter.spent = self._parts.spent
        if run.models is not None and run.settings.judge_cache != "off":
            self._parts.copy_replies(run.settings.root / run.settings.judge_cache)

    async def cases(self, run: Run, checkout: Checkout) -> Sequence[CaseReport]:
        """The cases of the parts."""
        cases = await self._parts.execute(checkout, run.plan)
        checkout.note_replayed(case for case in cases if case.replayed)
        return cases

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds what the parts have beside their cases."""
        results = self._parts.results
        report.problems += problem_reports(self._parts.problems)
        report.merged_from = self._parts.to_report()
        report.notices += self._parts.notices
        report.notices += dict.fromkeys(notice for result in results for notice in result.shard.notices)
        for part in (result.report for result in results):
            with_results_of(report, part)
            report.case_usage += part.case_usage
            report.model_usage += part.model_usage

    def outcome(self, report: RunReport, verdict: Verdict | None) -> Verdict | None:
        """Never `passed` if a part is missing."""
        if verdict is None or not self._parts.missing:
            return verdict
        missing = Reason.of(SHARD_MISSING, missing=self._parts.missing, total=self._parts.total)
        return unfinished(verdict, missing)


def check_parts(results: Sequence[PartResults], run: Run) -> tuple[Parts | None, list[Problem]]:
    """Checks results of parts against each other and against this checkout.

    Args:
        results: From `read_parts`, at least one.
        run: This run. Its plan has all cases, with their final weights.

    Returns:
        The parts; None if there is a problem, and the problems.
    """
    plan, settings = run.plan, run.settings
    own = _facts(run.draft(), hashes_of(plan))
    # First, or an attempt that a later one has replaced would refuse the whole merge.
    results, replaced = _without_replaced(results, own)
    first = results[0].shard
    assigned = partition(plan.weights, first.total)
    split = split_hash(assigned, units_of(plan), total=first.total, num_runs=plan.num_runs)
    if first.weights_from == "turns" or settings.shard_plan is not None:  # Else only the parts know their durations.
        own["plan"] = split[:12]
    differing = [*_differences(results, own), *_other_files(results)]
    if problems := differing or [*_incomplete(results, list(plan.numbers()), settings.replay)]:
        return None, problems
    owners = dict(assigned) if split == first.plan else {}
    for result in results:
        index = result.shard.index
        # `setdefault` notes the part of a case, and finds a case that another part has had.
        if elsewhere := [case_id for case_id in result.shard.cases if owners.setdefault(case_id, index) != index]:
            return None, [_other_cases(result, "cases are in another part of the plan", elsewhere)]
    present = {result.shard.index for result in results}
    missing = [index for index in range(1, first.total + 1) if index not in present]
    ran = {case_id for result in results for case_id in result.shard.cases}
    not_run = [case.case_id for case in plan.cases if case.case_id not in ran]
    if not_run and not missing:
        return None, [_other_cases(results[0], "cases are in no part", not_run)]
    # By elimination; of several missing parts, nobody knows which one has had a case.
    if len(missing) == 1:
        owners |= dict.fromkeys(not_run, missing[0])
    parts = Parts(results=results, total=first.total, owners=owners, missing=missing, problems=replaced)
    parts.notices += [
        f"`shards`: {harmless(name)} does not exist" for name in absent_directories(settings.shards, settings.root)
    ]
    parts.notices += [
        f"`shards`: {name} can't be read by this user"
        for name in unreadable_directories(settings.root, settings.shards)
    ]
    parts.notices += [
        f"{copy} is a copy of {result.file}, part {result.shard.index} of {first.total}"
        for result in results
        for copy in result.copies
        if missing
    ]
    parts.notices += _provenance_differences(results)
    parts.notices += _other_variables(results)
    return parts, []


def _facts(report: RunReport, hashes: Mapping[str, str]) -> dict[str, object]:
    """What must be equal in all parts and in this run, by name."""
    origin = report.origin or Origin()
    facts: dict[str, object] = {
        "version of agent-eval": report.tool_version,
        "num-runs": report.num_runs,
        "min-pass-rate": report.min_pass_rate,
        "commit": origin.commit,
        "repository": origin.repository,
    }
    return facts | {f"hash of the {what}": text for what, text in hashes.items()}


def _without_replaced(
    results: Sequence[PartResults], own: Mapping[str, object]
) -> tuple[list[PartResults], list[Problem]]:
    """Leaves out attempts that differ from this run if a later attempt at the part does not, each with a warning.

    Their artifacts stay in the workflow run: otherwise no re-run could ever be merged, e.g. after a release of
    agent-eval.
    """
    kept: list[PartResults] = []
    warnings = []
    fitting: set[int] = set()
    latest = max(results, key=lambda result: result.report.started_at)
    for result in reversed(results):
        facts = _facts(result.report, result.shard.suite)
        fits = all(own.get(name) in (None, fact) for name, fact in facts.items())
        if fits and _checkout_hash(result) in (None, _checkout_hash(latest)):
            fitting.add(result.shard.index)
        elif result.shard.index in fitting:
            message = f"{result.file} is not used: it differs from this run, and a later attempt at its part does not."
            hint = "The later attempt counts."
            warnings.append(Problem(severity=Severity.WARNING, code="shards-differ", message=message, hint=hint))
            continue
        kept.append(result)
    return kept[::-1], warnings[::-1]


def _differences(results: Sequence[PartResults], own: Mapping[str, object]) -> Iterator[Problem]:
    """A refusal for each fact that is not equal everywhere. What is None here is unknown."""
    seen: dict[str, dict[object, str]] = {name: {fact: "this run"} for name, fact in own.items() if fact is not None}
    for result in results:
        shard = result.shard
        facts = {"number of parts": shard.total, **_facts(result.report, shard.suite), "plan": shard.plan[:12]}
        for name, fact in facts.items():
            seen.setdefault(name, {}).setdefault(fact, result.file)
    differing = {name: values for name, values in seen.items() if len(values) > 1}
    if len(differing) > 1:
        differing.pop("plan", None)  # It follows from the others.
    for name, values in differing.items():
        shown = "; ".join(f"{fact if fact != '' else 'unknown'} in {where}" for fact, where in values.items())
        yield Problem(
            code="shards-differ",
            message=f"The parts do not belong together: {name} is {shown}.",
            hint=_HINTS.get(name, _SAME_CHECKOUT).replace("{change}", results[0].report.change),
        )


_HINTS = {
    "number of parts": "Merge only the parts of one run. Remove results of earlier runs from the directory.",
    "version of agent-eval": "Use one version of agent-eval in all jobs.",
    "plan": "The parts were split differently: use one commit, one `num-runs` and one `--shard-plan` in all jobs.",
    "commit": "The {change} was updated meanwhile. Run all jobs again; `concurrency` in the workflow avoids this.",
}


def _incomplete(results: Sequence[PartResults], numbers: list[int], replay: str) -> Iterator[Problem]:
    """A refusal for each part that does not have exactly the runs of its cases."""
    for result in results:
        runs = {case.case_id: sorted(run.run for run in case.runs) for case in result.report.cases}
        if replay in {"all", "missing-live"}:  # A case that does not run live is run once.
            runs = {case_id: numbers if own == numbers[:1] else own for case_id, own in runs.items()}
        cases = dict.fromkeys(result.shard.cases)
        if wrong := [case_id for case_id in cases | runs if case_id not in cases or runs.get(case_id) != numbers]:
            yield _other_cases(result, "the results are not those of the part's cases", wrong)


def _other_cases(result: PartResults, why: str, case_ids: Sequence[str]) -> Problem:
    message = f"{result.file}: {why}: {listed(case_ids, _MOST)}."
    return Problem(code="shards-differ", message=message, hint=_SAME_CHECKOUT.replace("{change}", result.report.change))


def _checkout_hash(result: PartResults) -> str | None:
    return (result.shard.files or {}).get(WHOLE)


def _other_files(results: Sequence[PartResults]) -> Iterator[Problem]:
    """A refusal if agents of the parts ran in different files. This run's own checkout does not answer anything."""
    places = {whole: result.file for result in reversed(results) if (whole := _checkout_hash(result)) is not None}
    names = _differing((result.shard.files for result in results), in_all=True)
    if any(name != WHOLE and not is_dotenv(name) for name in names):
        # The whole may be equal where single files differ: it has no untracked files but Python's.
        places = {result.file: result.file for result in reversed(results) if result.shard.files}
    if len(places) > 1:
        names = _differing(result.shard.files for result in results)
        named = listed([name for name in names if name != WHOLE and not is_dotenv(name)], _MOST) or "committed files"
        yield Problem(
            code="shards-differ",
            message=f"The parts do not belong together: files differ ({named}) in {' and '.join(places.values())}.",
            hint="Run all jobs again with the same files. List in .gitignore what a job writes; `.env` may differ.",
        )


def _other_variables(results: Sequence[PartResults]) -> Iterator[str]:
    """Secrets are compared by name only, and no value is known here."""
    names = _differing(result.shard.variables for result in results)
    names += filter(is_dotenv, _differing(result.shard.files for result in results))
    if names:
        yield f"The parts ran with different variables: {listed(names, _MOST)}"
    files = [name for name in _differing(result.shard.files for result in results) if not is_dotenv(name)]
    if files:
        yield f"Files that git does not track are not in all parts: {listed(files, _MOST)}"


def _differing(parts: Iterable[Mapping[str, str] | None], *, in_all: bool = False) -> list[str]:
    known = [part for part in parts if part is not None]
    names = dict.fromkeys(name for part in known for name in part if not in_all or all(name in each for each in known))
    return [harmless(name) for name in names if len({part.get(name) for part in known}) > 1]


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
