"""The cases of a run whose conversations can be mutated and scored, and why others can't."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_eval.baseline.reader import StoredResults
from agent_eval.gate.policy import PolicyReader
from agent_eval_agents.fingerprints import case_fingerprint, is_content
from agent_eval_results import CaseReport, Recording, is_skipped
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.criteria import (
    Conversation,
    Criterion,
    NotEvaluated,
    PackageFault,
    Relabelled,
    build,
    calls_not_visible,
    supported,
    unlabelled,
)
from agent_eval_scoring.criteria.judged import Judge
from agent_eval_scoring.evalset.checks import criteria_of
from agent_eval_scoring.evalset.models import JUDGED_METRICS, METRICS, EvalCase, EvalConfig, LoadedFile, Suite
from agent_eval_workbench.authoring.choosing import MOST_RUNS
from agent_eval_workbench.authoring.prospects import cases_as_run, recordings_of
from agent_eval_workbench.mutation.report import LeftOut

Aspect = Literal["answers", "calls", "state"]
Outcome = Literal["passed", "failed", "left-out", "unknown"]
"""Of a criterion: `left-out` decides nothing of the case; `unknown`: a judge gave no answer."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A case whose runs can be scored again."""

    case_id: str
    file: LoadedFile = field(repr=False)
    case: EvalCase = field(repr=False)
    runs: tuple[Recording, ...] = field(repr=False)
    """The complete runs."""
    criteria: tuple[Criterion, ...] = field(repr=False)
    """Those that may fail it, and can be scored here."""
    others: tuple[str, ...] = ()
    """Those that need a judge, or the agent's environment."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A conversation of a case: a stored run, or a mutant of one."""

    subject: Subject
    run: Recording
    turns: Sequence[Invocation] = field(repr=False)

    async def outcome(self, criterion: Criterion) -> tuple[Outcome, float | None]:
        """What a criterion decides, and its score."""
        conversation = Conversation(
            case=self.subject.case,
            actual=self.turns,
            expected=self.subject.case.conversation,
            run=self.run.run,
            case_id=self.subject.case_id,
            calls_visible=self.run.calls_visible,
        )
        result = calls_not_visible(criterion, conversation) or await criterion.score(conversation)
        if isinstance(result, NotEvaluated):
            # A judge that gave no answer has decided nothing; else the case is errored, so not green.
            missing: Outcome = "unknown" if is_judged(criterion) else "failed"
            return "left-out" if is_skipped(result.reason) else missing, None
        if result.score is None or criterion.threshold is None:
            return "unknown", None
        passed = result.score >= criterion.threshold if result.passed is None else result.passed
        return "passed" if passed else "failed", result.score


def is_judged(criterion: Criterion) -> bool:
    """Whether a criterion asks a model."""
    return unlabelled(criterion).name in JUDGED_METRICS


def looks_at(criterion: Criterion, aspect: Aspect, *, without_references: bool = False) -> bool:
    """Whether a change of one aspect can change a score, also where there are no references."""
    name = unlabelled(criterion).name
    spec = METRICS.get(name)
    if spec is None:
        return True
    if without_references and spec.needs_reference:
        return False
    if spec.needs_state or aspect == "state":
        return spec.needs_state and aspect == "state"
    if is_judged(criterion) or name == "intermediate_response_similarity":
        return aspect == "answers" or not spec.needs_final_response
    return spec.needs_tool_calls is (aspect == "calls")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How the criteria of a config are built."""

    policy: PolicyReader
    judge: Judge | None = None
    tool_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`Settings.tool_args`."""

    def criteria(
        self, file: LoadedFile, case: EvalCase, config: EvalConfig | None = None
    ) -> tuple[tuple[Criterion, ...], tuple[str, ...]]:
        """The criteria that may fail a case, with the policy's thresholds, and the names of those that can't be built.

        Args:
            file: The case's file.
            case: The case.
            config: Another config than the file's.
        """
        config = config or file.config
        entries = self.policy.of_case(file.path, case.eval_id)
        criteria: list[Criterion] = []
        others: list[str] = []
        for each in criteria_of(config, case):
            policy = self.policy.metric(each.name, entries)
            threshold = each.threshold if policy.threshold is None else policy.threshold
            if not policy.blocking or threshold is None or each.direction == "none":
                continue
            is_code = each.name in config.custom_metrics
            try:
                if is_code or (each.metric in METRICS and not supported(each.metric, judged=self.judge is not None)):
                    others.append(each.name)
                    continue
                # Without a threshold, none of ours explains what is wrong.
                bare = None if supported(each.metric) else threshold
                criterion = build(replace(each, threshold=bare), judge=self.judge)
                criteria.append(Relabelled(name=each.name, threshold=threshold, criterion=criterion))
            except PackageFault:
                others.append(each.name)
        return tuple(criteria), tuple(others)


def find_subjects(
    stored: StoredResults, cases: Sequence[CaseReport], suite: Suite, rules: Rules, left_out: list[LeftOut]
) -> Iterator[Subject]:
    """The cases of the results that can be mutated.

    Args:
        stored: The run.
        cases: Cases of its report.
        suite: The eval files of the working tree. A path of an artifact is no reason to open a file.
        rules: How cases are scored.
        left_out: Gets the others.

    Raises:
        UnreadableError: The recordings can't be read.
    """
    files = {file.path: file for file in suite.files}
    invalid = {problem.file for problem in suite.problems}
    ids = {case.case_id for case in cases}
    recordings, as_run = recordings_of(stored, ids), cases_as_run(stored, ids)
    for report in cases:
        file = files.get(report.file)
        case = next((each for each in file.cases if each.eval_id == report.eval_id), None) if file else None
        why = ""
        if file is None or case is None:
            gone = (
                "in a file, or under a config, that has errors (`agent-eval validate`)"
                if report.file in invalid or suite.errors
                else "in no eval file that discovery finds here"
            )
            why = f"is {gone}"
        elif not _is_same(file, case, as_run.get(report.case_id), report.fingerprint):
            why = "asks or expects something else now than what was run"
        elif not rules.policy.blocks(rules.policy.of_case(file.path, case.eval_id)):
            why = "can't fail the gate by the policy"
        else:
            turns = None if case.conversation is None else len(case.conversation)
            ended = {run.run_id for run in stored.report.runs_of(report) if run.error is None}
            runs = [run for run in recordings[report.case_id] if run.run_id in ended and run.invocations]
            runs = [run for run in runs if turns in {None, len(run.invocations)}][:MOST_RUNS]
            criteria, others = rules.criteria(file, case)
            if runs and criteria:
                yield Subject(
                    case_id=report.case_id, file=file, case=case, runs=tuple(runs), criteria=criteria, others=others
                )
                continue
            why = (
                "has no criterion with a threshold that needs neither a judge (--judges) nor the agent"
                if runs
                else "has no complete stored run"
            )
        left_out.append(LeftOut(name=report.case_id, why=why))


def _is_same(file: LoadedFile, present: EvalCase, before: EvalCase | None, fingerprint: str) -> bool:
    """Whether a case is as it was run. The fingerprint of a replayed case counts its tape, too."""
    user = file.config.user_simulator_config
    if is_content(present, user, fingerprint):
        return True
    return before is not None and case_fingerprint(before, user) == case_fingerprint(present, user)
