"""Merges the results of the parts of a run (`agent-eval merge`): which parts there are, and what each run's outcome is.

Everything after that, from the policy to the comment, is the pipeline's own code.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agent_eval.baseline.reader import read_report
from agent_eval.pipeline._checkout import Checkout
from agent_eval.runner import Journal, Plan, PlannedCase
from agent_eval_results import (
    FILES,
    JUDGE_REPLIES,
    SHARD_MISSING,
    CaseReport,
    MergeReport,
    PartReport,
    Recording,
    RunError,
    RunReport,
    RunResult,
    ShardReport,
    merge,
    relative,
)
from agent_eval_scoring.core.files import MAX_RESULTS, read_lines, read_regular
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.process import collector_paused
from agent_eval_scoring.core.text import harmless, listed, plural
from agent_eval_scoring.models import Spent

_RESULTS = FILES["results-file"]
_FREE = "Free space there, or name another output-dir, and merge again."


@dataclass(frozen=True, kw_only=True)
class PartResults:
    """The results that one job left."""

    folder: Path
    file: str
    """Its results.json relative to the root, for messages."""
    report: RunReport
    shard: ShardReport
    copies: list[str] = field(default_factory=list)
    """Other files with the same results."""

    @property
    def attempt(self) -> int | None:
        """The attempt of the workflow run."""
        return self.report.origin.run_attempt if self.report.origin is not None else None


@dataclass(kw_only=True)
class Parts:
    """The parts of one run."""

    results: Sequence[PartResults]
    """By index, then by attempt."""
    total: int
    owners: Mapping[str, int]
    """The part of each case by case id, as far as it is known."""
    missing: list[int] = field(default_factory=list)
    """Parts without results."""
    notices: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Files that the results do not depend on and that can't be read."""
    _sources: dict[str, int] = field(default_factory=dict)
    """The result (a number in `results`) whose recording counts, by run id."""

    async def execute(self, checkout: Checkout, plan: Plan) -> list[CaseReport]:
        """The cases of all parts in the plan's order; with `mode: merge-and-run`, those of missing parts are run here.

        Args:
            checkout: The tested checkout. Its agents start only for missing parts.
            plan: The whole plan.
        """
        checkout.run_ids += [case.run_id(number) for case, number in plan.runs()]
        rate = checkout.settings.min_pass_rate
        with collector_paused():
            cases = self._merged(plan, rate)
            # Before an agent starts, which could change the files.
            self.problems += self._adopt_recordings(checkout.journal)
        if checkout.settings.mode == "merge-and-run" and self.missing:
            absent = [planned.case_id for planned in plan.cases if planned.case_id not in cases]
            checkout.context.log(f"agent-eval: {self._names()} left no results: {plural(len(absent), 'case')} run here")
            ran = await checkout.execute(plan.more(frozenset(absent), plan.num_runs, first_run=plan.first_run))
            cases |= {case.case_id: case for case in ran}
            self.notices.append(f"The cases of {self._names()} ran in the merge, because their results are missing")
            self.missing.clear()
        for planned in plan.cases:
            if planned.case_id not in cases:
                [cases[planned.case_id]] = merge(self._not_run(planned, plan.numbers()), min_pass_rate=rate)
        return [cases[planned.case_id] for planned in plan.cases]

    def _merged(self, plan: Plan, rate: float) -> dict[str, CaseReport]:
        """The cases of the parts by id, in the plan's order. The parts' reports are left without cases."""
        parts: dict[str, list[tuple[int, CaseReport]]] = {}
        for number, result in enumerate(self.results):
            for case in result.report.cases:
                parts.setdefault(case.case_id, []).append((number, case))
            # Each report has its share of the cases: kept beside the merged ones, they would take the memory twice.
            result.report.cases = []
        filled: Counter[int] = Counter()
        cases = {
            planned.case_id: self._first_judged(parts.pop(planned.case_id), filled, rate)
            for planned in plan.cases
            if planned.case_id in parts
        }
        from agent_eval_results.report.phrases import say

        self.notices += [
            say("part-repeated", part=index, total=self.total, count=count) for index, count in sorted(filled.items())
        ]
        return cases

    def _first_judged(self, parts: list[tuple[int, CaseReport]], filled: Counter[int], rate: float) -> CaseReport:
        """Of each run the first outcome that was judged; the last one if none was."""
        replayed = [case.replayed for _, case in parts if any(run.is_judged for run in case.runs)]
        if len(set(replayed)) > 1:  # Only one attempt's replay found all answers: its run is not one of the live ones.
            parts = [part for part in parts if part[1].replayed == replayed[0]]
        chosen: dict[int, int] = {}
        for position, (_, case) in enumerate(parts):
            for run in case.runs:
                before = chosen.get(run.run)
                if before is None or not _run_of(parts[before][1], run.run).is_judged:
                    chosen[run.run] = position
        for run_number, position in chosen.items():
            number, case = parts[position]
            self._sources[_run_of(case, run_number).run_id] = number
            if position and _run_of(case, run_number).is_judged:
                filled[self.results[number].shard.index] += 1
        pieces = [case for _, case in parts]
        if len(parts) > 1:
            pieces = [
                _only(case, {run for run, at in chosen.items() if at == position})
                for position, case in enumerate(pieces)
            ]
        # Also of one part: what a file says of a case is never believed without its runs.
        [merged] = merge((piece for piece in pieces if piece.runs), min_pass_rate=rate)
        return merged

    def _not_run(self, planned: PlannedCase, numbers: range) -> list[CaseReport]:
        from agent_eval.runner.scoring import report_not_run

        owner = self.owners.get(planned.case_id)
        name = f"part {owner} of {self.total}" if owner is not None else self._names()
        why = "its job failed, was cancelled, or its artifact was not downloaded"
        if owner is None and len(self.missing) > 1:
            why = "their jobs failed, were cancelled, or their artifacts were not downloaded"
        error = RunError(
            kind=SHARD_MISSING,
            owner="gate",
            message=f"{name} left no results: {why}",
            hint="Re-run the failed jobs, or merge with `mode: merge-and-run` (`merge --run-missing`).",
        )
        return [report_not_run(planned, number, error) for number in numbers]

    def _names(self) -> str:
        from agent_eval_results.report.phrases import parts

        return parts(self.missing, self.total) if self.missing else f"a part of {self.total}"

    def _adopt_recordings(self, journal: Journal) -> list[Problem]:
        """Copies the recordings of the runs that count, and returns a problem for each unreadable file."""
        problems: list[Problem] = []
        for number, result in enumerate(self.results):
            path = result.folder / FILES["recordings-file"]
            name = str(PurePath(result.file).with_name(path.name))
            line_number = 0
            try:
                for line in read_lines(path):
                    line_number += 1
                    recording = Recording.model_validate_json(line)
                    # An attempt that was replaced has recordings of the same runs, which do not belong to the scores.
                    if self._sources.get(recording.run_id) == number:
                        try:
                            journal.adopt(line, recording)
                        except OSError as full:  # Of this job: no part is the cause.
                            return [*problems, _without_recordings(f"Recordings of parts are missing: {full}.", _FREE)]
            except FileNotFoundError:
                problems.append(_recordings_lost(name, "It does not exist"))
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or "It is damaged"
                problems.append(_recordings_lost(name, f"{why} (line {max(line_number, 1)})"))
        return problems

    def copy_replies(self, cache: Path) -> int:
        """Copies the judges' replies of all parts into a cache, and returns how many were new."""
        from agent_eval_scoring.models.cache import copy_replies

        return sum(copy_replies(result.folder / JUDGE_REPLIES, cache) for result in self.results)

    @property
    def spent(self) -> Spent:
        """Calls and tokens of judges and simulated users in all parts and attempts, and what all models cost there."""
        usage = [model for result in self.results for model in result.report.model_usage]
        return Spent(
            calls=sum(model.calls for model in usage),
            tokens=sum(sum(filter(None, (m.input_tokens, m.output_tokens, m.thought_tokens))) for m in usage),
            cost=sum(case.cost or 0.0 for result in self.results for case in result.report.case_usage),
        )

    def to_report(self) -> MergeReport:
        """What was merged."""
        return MergeReport(
            total=self.total,
            parts=[
                PartReport(
                    index=result.shard.index,
                    attempt=result.attempt,
                    run_url=result.report.origin.run_url if result.report.origin is not None else None,
                    started_at=result.report.started_at,
                    duration=result.report.duration,
                    cases=len(result.shard.cases),
                )
                for result in self.results
            ],
            missing=list(self.missing),
        )


def _run_of(case: CaseReport, number: int) -> RunResult:
    return next(run for run in case.runs if run.run == number)


def _only(case: CaseReport, runs: set[int]) -> CaseReport:
    """A case with some of its runs."""
    metrics = [metric.changed(runs=[run for run in metric.runs if run.run in runs]) for metric in case.metrics]
    return case.changed(runs=[run for run in case.runs if run.run in runs], metrics=metrics, conversation=None)


def _recordings_lost(name: str, why: str) -> Problem:
    message = f"{name} can't be read, so the recordings of this part are missing. {why}."
    return _without_recordings(message, "Download the artifact of the part again.")


def _without_recordings(message: str, remedy: str) -> Problem:
    hint = f"The scores and the verdict do not depend on it. {remedy}"
    return Problem(severity=Severity.WARNING, code="shard-recordings", message=message, hint=hint)


def read_parts(shards: tuple[str, ...], root: Path, output: Path) -> tuple[list[PartResults], list[Problem]]:
    """Finds the results of all parts, two levels below `shards`; an entry can also be the file itself.

    Returns:
        The results by index and attempt, without copies; and a problem for each unreadable file, or if there is none.
        A part that ended without results is a warning: another attempt may have them.
    """
    results: dict[tuple[int, int, float], PartResults] = {}
    problems: list[Problem] = []
    others: list[str] = []
    for path in _candidates(shards, root, output):
        file = harmless(relative(path, root))
        report = _read(path, file)
        if isinstance(report, Problem):
            problems.append(report)
            continue
        if report.shard is None:
            others.append(file)
            continue
        if report.is_invalid:  # It ended before it had results, e.g. because its disk was full.
            problems.append(_ended(report, report.shard, file))
            continue
        for case in report.cases:  # It is made again for all cases, and takes memory.
            case.conversation = None
        part = PartResults(folder=path.parent, file=file, report=report, shard=report.shard)
        kept = results.setdefault((report.shard.index, part.attempt or 0, report.started_at), part)
        if kept is not part:
            kept.copies.append(file)
    if not results and not has_error(problems):
        absent = absent_directories(shards, root)
        where = listed([f"{name} (it does not exist)" if name in absent else name for name in shards], 5)
        found = f" {listed(others, 3)} {'has' if len(others) == 1 else 'have'} no `shard`." if others else ""
        closed = unreadable_directories(root, shards)
        found += f" These directories can't be read: {listed(closed, 5)}." if closed else ""
        message = f"There are no results of a part (`run --shard I/N`) in {harmless(where)}.{found}"
        problems.append(
            Problem(
                code="shards-none",
                message=message,
                hint="A whole run needs no merge. To have parts, run each with `--shard I/N`."
                if others and not closed
                else "Download the artifacts of all parts, or name their directories.",
            )
        )
    return [results[key] for key in sorted(results)], problems


def _ended(report: RunReport, shard: ShardReport, name: str) -> Problem:
    why = next((problem for problem in report.problems if problem.is_error), None)
    return Problem(
        severity=Severity.WARNING,
        code="shard-unreadable",
        message=f"{name} is not used: part {shard.index} of {shard.total} ended without results"
        + (f". {why.message}" if why is not None else "."),
        hint="Re-run its job, unless another attempt at it has results.",
    )


def _read(path: Path, name: str) -> RunReport | Problem:
    try:
        with collector_paused():
            report = read_report(read_regular(path, MAX_RESULTS), name)
    except OSError as error:
        message = f"{name} can't be read: {error.strerror or error}."
    else:
        if isinstance(report, RunReport):
            return report
        message = report.message
    hint = "Download the artifact of this part again, or run its job again with this version of agent-eval."
    return Problem(code="shard-unreadable", message=message, hint=hint)


def _candidates(shards: tuple[str, ...], root: Path, output: Path) -> Iterator[Path]:
    """Paths of results.json, without that of this run."""
    seen = {(output / _RESULTS).resolve()}
    for path in _below(shards, root):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def _below(shards: tuple[str, ...], root: Path) -> Iterator[Path]:
    for name in shards:
        top = root / name
        if top.is_file():
            yield top
        else:
            yield from (path for pattern in ("", "*/", "*/*/") for path in sorted(top.glob(pattern + _RESULTS)))


def overwritten_part(shards: tuple[str, ...], output: Path, root: Path) -> Problem | None:
    """An error if a merge would overwrite results that it has to read, because they are in the output directory."""
    own = (output / _RESULTS).resolve()
    if not any(path.resolve() == own for path in _below(shards, root)):
        return None
    report = _read(own, "")
    part = None if isinstance(report, Problem) else report.shard
    if part is None:
        return None
    return Problem(
        code="output-dir-part",
        message=f"{relative(output, root)} has the results of part {part.index} of {part.total}, and this merge would "
        "overwrite them.",
        hint="Name another `output-dir`.",
    )


def absent_directories(shards: tuple[str, ...], root: Path) -> list[str]:
    """The entries of `shards` that do not exist."""
    return [name for name in shards if not (root / name).exists()]


def unreadable_directories(root: Path, shards: tuple[str, ...]) -> list[str]:
    """The directories of `shards`, and those below that would be searched, that can't be read."""
    tops = [root / name for name in shards]
    directories = [path for top in tops for path in (top, *sorted(top.glob("*/")))]
    closed = [path for path in directories if path.is_dir() and not os.access(path, os.R_OK | os.X_OK)]
    return [harmless(relative(path, root)) for path in dict.fromkeys(closed)]
