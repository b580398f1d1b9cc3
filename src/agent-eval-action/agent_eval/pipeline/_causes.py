"""What the failing cases of a run have in common, from the recordings of both sides."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval_results import BASE_RECORDINGS, Recording
from agent_eval_scoring.core.process import collector_paused
from agent_eval_scoring.core.text import shorten

if TYPE_CHECKING:
    from agent_eval.gate.agent_diff import Diff
    from agent_eval.gate.causes import CaseRuns
    from agent_eval.pipeline._regression import Base
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval.runner import Plan
    from agent_eval_results import AgentTree, CaseReport, RunReport
    from agent_eval_results.data.comparison import ChangedAnswer
    from agent_eval_scoring.core.invocation import Invocation
    from agent_eval_scoring.evalset.models import EvalCase

_LONGEST_ERROR = 300
_LOG = logging.getLogger(__name__)


def explain(
    report: RunReport,
    plan: Plan,
    recording_of: Callable[[str], Recording | None],
    base: Base | None,
    base_agents: Sequence[AgentTree],
    root: Path,
    output: Path,
    ci: CIContext,
) -> None:
    """Adds what readers of a verdict want to know: causes, what the pull request changes, and answers that differ.

    Args:
        report: The report, with its verdict.
        plan: The plan, with the eval cases.
        recording_of: Returns the recording of a run id; None if there is none.
        base: The base branch's results.
        base_agents: Its agents; empty if they are unknown.
        root: The directory that agent-eval works in.
        output: The output directory.
        ci: Knows the checkout.
    """
    from agent_eval.pipeline._agents import add_changes, diffs_of
    from agent_eval.pipeline._regression import store_baseline_recordings
    from agent_eval_results.report.phrases import uncovered_changes

    root = root.resolve()
    add_causes(report, plan, recording_of, base, output)
    add_changes(report, base_agents, ci, root, recording_of)
    report.warnings += uncovered_changes(report)
    add_changed_answers(report, plan, recording_of, base, output, lambda: diffs_of(report, ci, root))
    store_baseline_recordings(report, base, output)


def add_causes(
    report: RunReport, plan: Plan, recording_of: Callable[[str], Recording | None], base: Base | None, output: Path
) -> None:
    """Adds the causes to a report. Never raises: they explain a verdict and are no part of it.

    Args:
        report: The report, with its verdict.
        plan: The plan, with the eval cases.
        recording_of: Returns the recording of a run id; None if there is none.
        base: The base branch's results.
        output: The output directory, with the recordings of the base branch's runs that were made today.
    """
    if all(not case.failed for case in report.cases):
        return
    from agent_eval.gate.causes import find_causes
    from agent_eval_results.report.phrases import say

    try:
        with collector_paused(), contextlib.ExitStack() as stack:
            report.causes = find_causes(report, _runs_of(report, plan, recording_of, base, output, stack), few=True)
    except Exception as error:
        _LOG.debug("The causes could not be found", exc_info=True)
        report.notices.append(say("causes-unknown", kind=type(error).__name__))


def add_changed_answers(
    report: RunReport,
    plan: Plan,
    recording_of: Callable[[str], Recording | None],
    base: Base | None,
    output: Path,
    diffs: Callable[[], Callable[[str], Diff]],
) -> None:
    """Adds to the comparison which cases answer otherwise than on the base branch, whatever their scores are.

    Args:
        report: With its comparison, and what the pull request changes in the agents.
        plan: See `add_causes`, as the next three.
        recording_of: Returns a recording.
        base: The base branch's results.
        output: The output directory.
        diffs: Finds what the pull request changes for an agent.
    """
    if report.comparison is None or base is None:
        return
    from agent_eval_results.report.phrases import say

    paired = base.pairing.counterparts
    cases = [case for case in report.cases if case.case_id in paired and case.is_judged]
    try:
        report.comparison.changed_answers, _ = changed_in(report, cases, plan, recording_of, base, output, diffs())
    except Exception as error:
        _LOG.debug("The answers could not be compared", exc_info=True)
        report.notices.append(say("answers-not-compared", kind=type(error).__name__))


def changed_in(
    report: RunReport,
    cases: Sequence[CaseReport],
    plan: Plan,
    recording_of: Callable[[str], Recording | None],
    base: Base,
    output: Path,
    diff_of: Callable[[str], Diff],
    today: Callable[[str], list[Recording]] | None = None,
) -> tuple[list[ChangedAnswer], list[str]]:
    """Which of these cases answer otherwise than on the base branch, in all runs so far; and the ids of those of which
    the base branch has no recording, where the pull request changes what their agent may read.

    Args:
        report: With its files and confirmations.
        cases: Those to compare.
        plan: See `add_causes`, as the next three.
        recording_of: Returns a recording.
        base: The base branch's results.
        output: The output directory.
        diff_of: Returns what the pull request changes for an agent.
        today: Returns the base's runs of today, while they are not in `output` yet.
    """
    from agent_eval.gate.changed_answers import changed_answers

    agents = {file.file: file.agent for file in report.files}
    unrecorded: list[str] = []
    with collector_paused(), contextlib.ExitStack() as stack:
        runs_of = _runs_of(report, plan, recording_of, base, output, stack, today)

        def noted(case_id: str) -> CaseRuns:
            runs = runs_of(case_id)
            unrecorded.extend([] if runs.base else [case_id])
            return runs

        return changed_answers(cases, noted, lambda file: agents.get(file, ""), diff_of), unrecorded


def toolset_warnings(report: RunReport) -> list[str]:
    """A sentence for each toolset without which agents ran: google-adk only logs that it raised."""
    from agent_eval_results.report.phrases import say
    from agent_eval_results.report.views import one_line

    cases: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in (*report.cases, *report.confirmations):
        for lost in (lost for run in case.runs for lost in run.lost_toolsets):
            error = shorten(one_line(lost.error.strip().split("\n")[0]), _LONGEST_ERROR)
            key = one_line(lost.agent), one_line(lost.toolset), error
            cases.setdefault(key, {}).setdefault(case.eval_id)
    return [
        say("toolset-lost", owner=agent, subject=toolset, message=error, cases=[*names])
        for (agent, toolset, error), names in cases.items()
    ]


def _runs_of(
    report: RunReport,
    plan: Plan,
    recording_of: Callable[[str], Recording | None],
    base: Base | None,
    output: Path,
    stack: contextlib.ExitStack,
    today: Callable[[str], list[Recording]] | None = None,
) -> Callable[[str], CaseRuns]:
    from agent_eval.baseline.archive import StoredRecordings, recorded_lines
    from agent_eval.gate.causes import CaseRuns
    from agent_eval_results import stored_index

    stored = (base.recordings if base is not None else None) or StoredRecordings(missing="")
    baseline = stack.enter_context(stored_index(recorded_lines(stored), Recording))
    of_today = today or stack.enter_context(stored_index(output / BASE_RECORDINGS, Recording)).of
    counterparts = base.pairing.counterparts if base is not None else {}
    run_ids: dict[str, list[str]] = {}
    for case in (*report.cases, *report.confirmations):
        run_ids.setdefault(case.case_id, []).extend(run.run_id for run in case.runs)
    conversations = {planned.case_id: _expected(planned.case) for planned in plan.cases}

    def runs_of(case_id: str) -> CaseRuns:
        recordings = map(recording_of, run_ids.get(case_id, ()))
        on_base = [*of_today(case_id)]
        if case_id in counterparts:
            on_base += baseline.of(counterparts[case_id].case_id)
        return CaseRuns(
            head=(recording for recording in recordings if recording is not None),
            base=on_base,
            expected=conversations.get(case_id, ()),
        )

    return runs_of


def _expected(case: EvalCase) -> Sequence[Invocation]:
    turns = case.conversation or ()
    if not turns or not case.expected_state:
        return turns
    return [*turns[:-1], turns[-1].model_copy(update={"session_state": case.expected_state})]
