"""What the failing cases of a run have in common, from the recordings of both sides."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval_results import BASE_RECORDINGS, Recording
from agent_eval_scoring.core.process import collector_paused
from agent_eval_scoring.core.text import shorten

if TYPE_CHECKING:
    from agent_eval.pipeline._regression import Base
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval.runner import Plan
    from agent_eval_results import AgentTree, CaseReport, RunReport
    from agent_eval_results.causes import CaseRuns
    from agent_eval_results.causes.agent_diff import Diff
    from agent_eval_results.data.comparison import ChangedAnswer
    from agent_eval_scoring.core.invocation import Invocation
    from agent_eval_scoring.evalset.models import EvalCase

_LONGEST_ERROR = 300
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BothSides:
    """What a run and its base branch did, to say why the verdict is what it is."""

    report: RunReport
    plan: Plan
    """Has the eval cases."""
    recording_of: Callable[[str], Recording | None]
    """Returns the recording of a run id; None if there is none."""
    base: Base | None
    """The base branch's results."""
    output: Path
    """The output directory, with the recordings of the base branch's runs that were made today."""
    today: Callable[[str], list[Recording]] | None = None
    """Returns these runs by case id, while they are not in `output` yet."""

    def explain(self, base_agents: Sequence[AgentTree], root: Path, ci: CIContext) -> None:
        """Adds what readers of a verdict want to know: causes, what the pull request changes, and answers that differ.

        Args:
            base_agents: The base branch's agents; empty if they are unknown.
            root: The directory that agent-eval works in.
            ci: Knows the checkout.
        """
        from agent_eval.pipeline._agents import add_changes, diffs_of
        from agent_eval.pipeline._regression import store_baseline_recordings
        from agent_eval_results.report.phrases import uncovered_changes

        report, root = self.report, root.resolve()
        with self._noted("The causes could not be found", "causes-unknown"):
            self._add_causes()
        add_changes(report, base_agents, ci, root, self.recording_of)
        report.warnings += uncovered_changes(report)
        with self._noted("The answers could not be compared", "answers-not-compared"):
            self._add_changed_answers(lambda: diffs_of(report, ci, root))
        store_baseline_recordings(report, self.base, self.output)

    @contextlib.contextmanager
    def _noted(self, log: str, code: str) -> Iterator[None]:
        """Makes a notice of an exception: what explains a verdict is no part of it."""
        from agent_eval_results.report.phrases import say

        try:
            yield
        except Exception as error:
            _LOG.debug(log, exc_info=True)
            self.report.notices.append(say(code, kind=type(error).__name__))

    def _add_causes(self) -> None:
        if not any(case.failed for case in self.report.cases):
            return
        from agent_eval_results.causes import find_causes

        with collector_paused(), contextlib.ExitStack() as stack:
            self.report.causes = find_causes(self.report, self._runs(stack), few=True)

    def _add_changed_answers(self, diffs: Callable[[], Callable[[str], Diff]]) -> None:
        """Adds to the comparison which cases answer otherwise than on the base branch, whatever their scores are."""
        if self.report.comparison is None or self.base is None:
            return
        paired = self.base.pairing.counterparts
        cases = [case for case in self.report.cases if case.case_id in paired and case.is_judged]
        self.report.comparison.changed_answers, _ = self.changed_in(cases, diffs())

    def changed_in(
        self, cases: Sequence[CaseReport], diff_of: Callable[[str], Diff]
    ) -> tuple[list[ChangedAnswer], list[str]]:
        """Which of these cases answer otherwise than on the base branch, in all runs so far; and the ids of those of
        which the base branch has no recording, where the pull request changes what their agent may read.

        Args:
            cases: Those to compare.
            diff_of: Returns what the pull request changes for an agent.
        """
        from agent_eval_results.causes.changed_answers import changed_answers

        agents = self.report.agents_by_file
        unrecorded: list[str] = []
        with collector_paused(), contextlib.ExitStack() as stack:
            runs_of = self._runs(stack)

            def noted(case_id: str) -> CaseRuns:
                runs = runs_of(case_id)
                unrecorded.extend([] if runs.base else [case_id])
                return runs

            return changed_answers(cases, noted, lambda file: agents.get(file, ""), diff_of), unrecorded

    def _runs(self, stack: contextlib.ExitStack) -> Callable[[str], CaseRuns]:
        """What gives the runs of a case on both sides, as long as the stack is open."""
        from agent_eval.baseline.archive import StoredRecordings, recorded_lines
        from agent_eval_results import stored_index
        from agent_eval_results.causes import CaseRuns

        base = self.base
        stored = (base.recordings if base is not None else None) or StoredRecordings(missing="")
        baseline = stack.enter_context(stored_index(recorded_lines(stored), Recording))
        of_today = self.today or stack.enter_context(stored_index(self.output / BASE_RECORDINGS, Recording)).of
        counterparts = base.pairing.counterparts if base is not None else {}
        run_ids: dict[str, list[str]] = {}
        for case in (*self.report.cases, *self.report.confirmations):
            run_ids.setdefault(case.case_id, []).extend(run.run_id for run in case.runs)
        conversations = {planned.case_id: _expected(planned.case) for planned in self.plan.cases}

        def runs_of(case_id: str) -> CaseRuns:
            recordings = map(self.recording_of, run_ids.get(case_id, ()))
            on_base = [*of_today(case_id)]
            if case_id in counterparts:
                on_base += baseline.of(counterparts[case_id].case_id)
            return CaseRuns(
                head=(recording for recording in recordings if recording is not None),
                base=on_base,
                expected=conversations.get(case_id, ()),
            )

        return runs_of


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


def _expected(case: EvalCase) -> Sequence[Invocation]:
    turns = case.conversation or ()
    if not turns or not case.expected_state:
        return turns
    return [*turns[:-1], turns[-1].model_copy(update={"session_state": case.expected_state})]
