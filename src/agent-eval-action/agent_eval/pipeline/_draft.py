"""The report of a run before anything has run: settings, files, agents and problems.

A run drafts it while its agents start: building the models of a report takes longer than reading the eval files.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval import __version__
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.pipeline.context import RunContext
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.process import Begun
from agent_eval_scoring.core.text import carriable, short_name, without_credentials
from agent_eval_scoring.evalset.models import Suite

if TYPE_CHECKING:
    from agent_eval.gate.policy import Policy
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.tape_rules import ToolRule
    from agent_eval_results import FileReport, ProblemReport, RunReport, SelectionReport
    from agent_eval_scoring.evalset.models import CriterionConfig, LoadedFile


def draft_report(
    settings: Settings, context: RunContext, begun: Begun, problems: Sequence[Problem], files: Sequence[FileReport]
) -> RunReport:
    """The report before anything runs.

    Args:
        settings: The settings.
        context: The run's context.
        begun: When the run began.
        problems: Problems so far.
        files: From `file_reports`.
    """
    from agent_eval_results import RunReport

    report = RunReport(
        tool_version=__version__,
        verdict="invalid",
        started_at=begun.at,
        duration=begun.duration(),
        num_runs=settings.num_runs,
        min_pass_rate=settings.min_pass_rate,
        provenance=dict(context.provenance),
        origin=context.ci.origin if context.ci is not LOCAL else None,
        selection=_selection(settings.root, settings.paths, settings.exclude),
        files=list(files),
        options={
            name: carriable(without_credentials(str(value)))
            for name, value in {
                "agent": settings.agent,
                "config": settings.config,
                "agent-python": settings.agent_python,
                "replay": settings.replay if settings.replay != "off" else None,
            }.items()
            if value is not None
        },
    )
    return with_problems(report, problems)


def _selection(root: Path, paths: tuple[str, ...], exclude: tuple[str, ...]) -> SelectionReport | None:
    """The selection of the run; None if it covers everything."""
    from agent_eval_results import SelectionReport, TargetReport
    from agent_eval_scoring.evalset.discovery import selectors_of
    from agent_eval_scoring.evalset.paths import absolute, name_of

    if not (paths or exclude):
        return None
    root = absolute(root)
    targets = [
        TargetReport(path=name_of(absolute(root / selector.path), root), ids=list(map(carriable, selector.ids)))
        for selector in selectors_of(root, paths)
    ]
    return SelectionReport(targets=targets, exclude=list(map(carriable, exclude)))


def with_problems(report: RunReport, problems: Iterable[Problem]) -> RunReport:
    """The report with more problems."""
    return report.model_copy(update={"problems": [*report.problems, *problem_reports(problems)]})


def problem_reports(problems: Iterable[Problem]) -> list[ProblemReport]:
    """The problems as they are reported."""
    from agent_eval_results import ProblemReport

    return [ProblemReport(**{**_fields(problem), "severity": problem.severity.value}) for problem in problems]


def _fields(problem: Problem) -> dict[str, object]:
    """The reported fields of a problem. Arguments and file names in them need not be UTF-8."""
    fields = {name: getattr(problem, name) for name in problem.__dataclass_fields__ if name != "stands_for"}
    return {name: carriable(value) if isinstance(value, str) else value for name, value in fields.items()}


def file_reports(
    suite: Suite, choices: AgentChoices, policy: Policy, held: Iterable[LoadedFile] = ()
) -> list[FileReport]:
    """The eval files with their configs and agents. A threshold is the policy's if it is one for all cases.

    Args:
        suite: The eval files.
        choices: Their agents.
        policy: What `agent-eval.toml` says.
        held: The same files with the criteria that decide, if the base branch's are stricter.
    """
    from agent_eval.gate.policy import PolicyReader
    from agent_eval_results import FileReport

    reader = PolicyReader(policy)
    deciding: dict[str, list[Sequence[CriterionConfig]]] = {}
    for part in held:
        deciding.setdefault(part.path, []).append(part.config.criteria)

    def criteria(file: LoadedFile) -> Sequence[CriterionConfig]:
        # Cases that are new here have the criteria of this file alone: then the file is in there in parts.
        first, *others = deciding.get(file.path, [file.config.criteria])
        return first if all(each == first for each in others) else file.config.criteria

    def threshold(file: LoadedFile, criterion: CriterionConfig) -> float | None:
        cases = (reader.of_case(file.path, case.eval_id) for case in file.cases)
        thresholds = {reader.metric(criterion.name, entries).threshold for entries in cases}
        only = thresholds.pop() if len(thresholds) == 1 else None
        return criterion.threshold if only is None else only

    return [
        FileReport(
            file=file.path,
            eval_set_id=file.eval_set.eval_set_id,
            config=file.config.source,
            criteria={criterion.name: threshold(file, criterion) for criterion in criteria(file)},
            agent=choice.path if (choice := choices.by_file.get(file.path)) else "",
            agent_reason=choice.reason if choice else "",
            legacy=file.legacy,
        )
        for file in suite.files
    ]


_ENDS = {"agent-crash", "agent-protocol", "deadline"}
"""Kinds of errors with which a run may end the process that it shares."""


_ALMOST = 0.8
"""How similar names are of which one is a mistake for the other, from 0 to 1."""


def misspelt_tools(report: RunReport, rules: Collection[ToolRule] = ()) -> list[str]:
    """A warning for each name in `tool_rules`, expected calls and `[[tool]]` that is almost a tool's.

    Args:
        report: With its cases, agents and coverage.
        rules: The `[[tool]]` of agent-eval.toml. One that names no tool, and is near to none, may be a toolset's.
    """
    from agent_eval_results.report.phrases import say

    cases: dict[tuple[str, str], list[str]] = {}
    for case in report.cases:
        for metric in case.metrics:
            for pair in metric.runs[0].details.get("misspelt", {}).items() if metric.runs else ():
                cases.setdefault(pair, []).append(case.case_id)
    warnings = [say("tool-misspelt", wanted=name, got=near, cases=names) for (name, near), names in cases.items()]
    known = {name for each in report.coverage for name in (*each.tools, *each.called)}
    known |= {tool.name for tree in report.agents for agent in tree.agents for tool in agent.tools}
    for rule in rules:
        if not any(fnmatchcase(name, rule.name) for name in known) and (
            near := difflib.get_close_matches(rule.name, known, n=1, cutoff=_ALMOST)
        ):
            warnings.append(say("tool-rule-misspelt", wanted=rule.name, got=near[0], line=rule.line or 0))
    return warnings


def died_with_others(report: RunReport) -> list[str]:
    """A warning of processes that died in runs that did not end them alone, unless a failed run explains it."""
    from agent_eval_results.report.phrases import say

    runs = [(case.case_id, run) for case in [*report.cases, *report.confirmations] for run in case.runs]
    guilty = {case_id for case_id, run in runs if run.ended_by(_ENDS)}
    puzzling = [(case_id, run) for case_id, run in runs if run.ran_before and guilty.isdisjoint(run.ran_before)]
    before = dict.fromkeys(short_name(name) for _, run in puzzling for name in run.ran_before)
    names = [short_name(case_id) for case_id, _ in puzzling]
    return [say("died-with-others", cases=names, before=list(before))] if puzzling else []
