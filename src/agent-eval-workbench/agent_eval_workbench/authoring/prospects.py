"""Finds what may be accepted of a case: the failed metrics, their fields, and the runs to choose from."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_eval.baseline.reader import StoredResults, UnreadableError
from agent_eval_agents.fingerprints import is_content
from agent_eval_results import FILES, CaseReport, CauseReport, MetricReport, Recording, RunReport, StoredCase
from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import read_lines
from agent_eval_scoring.core.masking import MASK
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import harmless
from agent_eval_scoring.criteria import Criterion, Relabelled, build
from agent_eval_scoring.evalset.models import METRICS, CriterionConfig, EvalCase, Family, LoadedFile
from agent_eval_workbench.authoring.choosing import MOST_RUNS
from agent_eval_workbench.authoring.expectation import FIELDS, Field, get

FIELD_OF: Mapping[str, Field] = {
    "tool_trajectory_avg_score": "calls",
    "trajectory_precision": "calls",
    "trajectory_recall": "calls",
    "tool_trajectory_partial": "calls",
    "response_match_score": "final",
    "response_similarity": "final",
    "response_facts": "final",
    "final_response_match_v2": "final",
    "response_evaluation_score": "final",
    "intermediate_response_similarity": "intermediate",
}
"""Which expectation a metric compares with. All other metrics hold none of the case."""
_ELSE = (
    "`accept` does not change what it measures. Fix the agent, or change by hand: the case's `final_session_state`, or "
    "the rubric or the threshold in the config."
)


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """An eval file of the working tree: its text, its value, and what was loaded of it."""

    # Without a repr: asyncio makes the repr of a task, and a file may have thousands of cases.
    loaded: LoadedFile = field(repr=False)
    text: str = field(repr=False)
    value: Any = field(repr=False)

    def index_of(self, eval_id: str) -> int | None:
        """The index of a case in the file; None if it has no such case."""
        cases = self.value["eval_cases"]
        return next((number for number, case in enumerate(cases) if get(case, "eval_id") == eval_id), None)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A configured metric of a case."""

    report: MetricReport
    config: CriterionConfig
    criterion: Criterion | None
    """None if it can't be scored here, because it needs a judge or the agent's code."""

    @property
    def field(self) -> Field | None:
        """The expectation that it compares with."""
        return FIELD_OF.get(self.config.metric)


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """A case with something to accept."""

    report: CaseReport
    case: EvalCase
    file: OpenFile
    index: int
    """Of the case in the file."""
    runs: tuple[Recording, ...] = field(repr=False)
    """The complete runs, at least one."""
    metrics: tuple[Metric, ...]
    """All configured metrics of the case that have a threshold."""
    fields: tuple[Field, ...]
    """What is offered, in the order of FIELDS."""
    min_pass_rate: float = 1.0
    """The share of the runs that has to pass, 0..1."""
    label: str = ""
    """Why the case is in the list, e.g. `newly failing`."""
    cause: CauseReport | None = None
    """What it has in common with other failing cases."""

    @property
    def value(self) -> Mapping[str, Any]:
        """The case as in its file."""
        return self.file.value["eval_cases"][self.index]  # type: ignore[no-any-return]


def labels(report: RunReport) -> dict[str, str]:
    """Why a case deserves attention, by case id, the most important first."""
    result = dict.fromkeys(report.blocking, "blocks the gate")
    if report.comparison is not None:
        new = [case.case_id for case in report.comparison.cases if case.fails_only_here]
        # Of both, what is new says more: it is this pull request's.
        result |= dict.fromkeys(new, "newly failing")
    blocking = frozenset(report.blocking)
    ordered = sorted(result, key=lambda case_id: (result[case_id] != "newly failing", case_id not in blocking))
    return {case_id: result[case_id] for case_id in ordered}


def in_order(cases: Iterable[CaseReport], report: RunReport) -> list[CaseReport]:
    """The cases, those that block or are newly failing first, else in the order of the files. Cases with one cause are
    where the first of them is.
    """
    important = {case_id: number for number, case_id in enumerate(labels(report))}
    ordered = sorted(cases, key=lambda case: important.get(case.case_id, len(important)))
    places = {case.case_id: place for place, case in enumerate(ordered)}
    for cause in report.causes:
        members = [case_id for case_id in cause.cases if case_id in places]
        places |= dict.fromkeys(members, min((places[case_id] for case_id in members), default=0))
    return sorted(ordered, key=lambda case: places[case.case_id])


def prospect(
    case: CaseReport,
    report: RunReport,
    file: OpenFile | None,
    recordings: Sequence[Recording],
    *,
    only: Collection[str] = (),
    has_errors: bool = False,
) -> Prospect:
    """Finds what may be accepted of a case.

    Args:
        case: Its results.
        report: The report that they are in.
        file: Its file in the working tree; None if there is none.
        recordings: What the agent did in the case.
        only: Fields and metrics to which the offer is limited; none for all.
        has_errors: There is a file, but it is invalid.

    Raises:
        CaseRefused: Nothing may be accepted.
    """
    if file is None and has_errors:
        hint = f"`agent-eval validate '{case.file}'` reports them."
        raise refuse("accept-gone", case, "is in a file that has errors, or whose config has some.", hint)
    file, index, eval_case = _in_file(case, file)
    metrics = _metrics(case, file.loaded)
    runs = _complete_runs(case, report, recordings, eval_case)
    fields = _fields(case, metrics, only)
    # The calls of an agent that hides them are no calls: they would be deleted from the case.
    if "calls" in fields and not all(run.calls_visible for run in runs):
        fields = tuple(field for field in fields if field != "calls")
        if not fields:
            raise refuse("accept-nothing", case, "was answered by an agent that does not show its tool calls.", _ELSE)
    return Prospect(
        report=case,
        case=eval_case,
        file=file,
        index=index,
        runs=tuple(runs),
        metrics=metrics,
        fields=fields,
        min_pass_rate=report.min_pass_rate,
        label=labels(report).get(case.case_id, ""),
        cause=next((cause for cause in report.causes if case.case_id in cause.cases), None),
    )


def _in_file(case: CaseReport, file: OpenFile | None) -> tuple[OpenFile, int, EvalCase]:
    selected = next((item for item in file.loaded.cases if item.eval_id == case.eval_id), None) if file else None
    if file is None or selected is None:
        hint = "Start the command where the eval files are, in the commit that was tested, or select other cases."
        raise refuse("accept-gone", case, "is not in an eval file that discovery finds here.", hint)
    if file.loaded.legacy:
        hint = f"Convert it first: `agent-eval migrate {case.file} NEW`, then run it again."
        raise refuse("accept-legacy", case, "is in an older file format.", hint)
    if selected.conversation is None:
        hint = "Judge it by rubrics, or write a case of fixed messages."
        raise refuse("accept-scenario", case, "is a simulated conversation, which has no expectation.", hint)
    # The answers belong to the old question, and what was expected then may be what is expected now.
    if not is_content(selected, file.loaded.config.user_simulator_config, case.fingerprint):
        message = "asks or expects something else now than what was run."
        raise refuse("accept-changed", case, message, f"Run it again: `agent-eval run '{case.case_id}'`.")
    index = file.index_of(case.eval_id)
    assert index is not None
    return file, index, selected


def _metrics(case: CaseReport, file: LoadedFile) -> tuple[Metric, ...]:
    configs = {config.name: config for config in file.config.criteria}
    metrics = []
    for metric in case.metrics:
        config = configs.get(metric.name)
        # A criterion that the config has lost, or that only measures, asks for nothing.
        if config is None or metric.threshold is None:
            continue
        spec = METRICS.get(config.metric)
        criterion: Criterion | None = None
        if spec is not None and spec.family is Family.DETERMINISTIC and metric.name not in file.config.custom_metrics:
            # The policy may have another threshold than the config.
            criterion = build(replace(config, threshold=metric.threshold))
            if config.label:
                # Results of datasets are under agents-cli's names.
                criterion = Relabelled(name=config.label, threshold=metric.threshold, criterion=criterion)
        metrics.append(Metric(report=metric, config=config, criterion=criterion))
    return tuple(metrics)


def _fields(case: CaseReport, metrics: Sequence[Metric], only: Collection[str]) -> tuple[Field, ...]:
    failed = [
        metric
        for metric in metrics
        # In the case, or in one of its runs.
        if metric.report.blocking and (metric.report.failed or any(run.failed for run in metric.report.runs))
    ]
    offered = {
        metric.field
        for metric in failed
        if metric.field is not None and (not only or {metric.field, metric.report.name} & set(only))
    }
    if not offered:
        names = ", ".join(f"`{metric.report.name}`" for metric in failed) or "no metric of the config"
        if not failed and case.passed:
            raise refuse("accept-nothing", case, "passed, so there is nothing to accept.", "Name a case that failed.")
        limited = f" that --only {' '.join(only)} would accept" if only else ""
        raise refuse("accept-nothing", case, f"has no failed expectation{limited}; failed: {names}.", _ELSE)
    return tuple(field for field in FIELDS if field in offered)


def _complete_runs(
    case: CaseReport, report: RunReport, recordings: Sequence[Recording], eval_case: EvalCase
) -> list[Recording]:
    numbers = {run.run_id for run in report.runs_of(case)}
    # Only the runs of which the case's status is made: the file has the base branch's, too.
    complete = [item for item in recordings if item.error is None and item.run_id in numbers]
    if not complete:
        hint = "Exceptions, crashes and deadlines are no expectation. Fix the agent, then run the case again."
        raise refuse("accept-error", case, "has no complete run.", hint)
    expected = eval_case.conversation or []
    same = [item for item in complete if _same_messages(item, [turn.user_content for turn in expected])]
    if not same:
        raise refuse(
            "accept-turns",
            case,
            "was run with another number of turns, or other messages of the user.",
            f"Run it again: `agent-eval run '{case.case_id}'`.",
        )
    return same[:MOST_RUNS]


def _same_messages(recording: Recording, expected: Sequence[Content]) -> bool:
    actual = [text_of(turn.user_content) for turn in recording.invocations]
    texts = [text_of(content) for content in expected]
    return len(actual) == len(texts) and all(
        # A masked message can't be compared, and the case's fingerprint has been.
        left == right or MASK in left
        for left, right in zip(actual, texts, strict=True)
    )


class CaseRefused(AgentEvalError):
    """A case is left as it is."""

    def __init__(self, problem: Problem, case: CaseReport) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.case = case


def refuse(code: str, case: CaseReport, message: str, hint: str, severity: Severity = Severity.ERROR) -> CaseRefused:
    """The refusal of a case.

    Args:
        code: A code of docs/problems.md.
        case: The case.
        message: A sentence that begins in lower case and continues `FILE:EVAL_ID`.
        hint: What to do instead.
        severity: A notice if nothing is left to do.
    """
    problem = Problem(severity=severity, code=code, message=f"`{case.eval_id}` {message}", hint=hint, file=case.file)
    return CaseRefused(problem, case)


RECORDINGS = FILES["recordings-file"]
_DOWNLOAD = "Download the artifact again, or name the output directory of a run."


def recordings_of(stored: StoredResults, case_ids: Collection[str]) -> dict[str, list[Recording]]:
    """The recordings of these cases, by case id, in the order of the runs. If a run occurs twice, the later counts.

    Raises:
        UnreadableError: There are no recordings, or they can't be read completely.
    """
    path = stored.folder / RECORDINGS
    where = harmless(str(stored.path if stored.unpacked else path))
    if stored.unpacked and not path.exists():
        raise UnreadableError(f"{where} can't be used: it has no {RECORDINGS}.", _DOWNLOAD)
    by_run: dict[str, dict[str, Recording]] = {case_id: {} for case_id in case_ids}
    try:
        for facts in _facts(path, case_ids):
            recording = Recording.model_validate(facts)
            by_run[recording.case_id][recording.run_id] = recording
    except FileNotFoundError:
        message = f"{where} does not exist; it has what the agent did."
        raise UnreadableError(message, "Run the cases again, or name the directory that has it.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UnreadableError(f"{where} can't be read: {harmless(reason.splitlines()[0])}.", _DOWNLOAD) from None
    return {
        case_id: sorted(recordings.values(), key=lambda recording: recording.run)
        for case_id, recordings in by_run.items()
    }


def cases_as_run(stored: StoredResults, case_ids: Collection[str]) -> dict[str, EvalCase]:
    """Those of these cases that are stored as they were run, by case id. What can't be read is left out."""
    fingerprints = {case.case_id: case.fingerprint for case in stored.report.cases if case.case_id in case_ids}
    cases: dict[str, EvalCase] = {}
    with contextlib.suppress(OSError, ValueError):
        for facts in _facts(stored.folder / FILES["cases-file"], case_ids):
            line = StoredCase.model_validate(facts)
            # A resumed run may have stored an older form of the case, too.
            if line.fingerprint == fingerprints.get(line.case_id):
                cases[line.case_id] = line.case
    return cases


def _facts(path: Path, case_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """The lines of some cases. Only these become models: there may be 10,000 others."""
    from pydantic_core import from_json

    for number, line in enumerate(read_lines(path), 1):
        facts = from_json(line)
        if not isinstance(facts, dict) or not isinstance(facts.get("case_id"), str):
            raise ValueError(f"line {number} is not of a case")
        if facts["case_id"] in case_ids:
            yield facts
