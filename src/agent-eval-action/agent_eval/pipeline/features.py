"""What a feature of a run can do, and in which order features do it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_eval.pipeline._draft import draft_report, file_reports

if TYPE_CHECKING:
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._base_rules import HeldRules
    from agent_eval.pipeline._checkout import Checkout
    from agent_eval.pipeline.context import RunContext
    from agent_eval.runner import Plan, Tapes
    from agent_eval.runner.bill import Bill
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_results import CaseReport, RunReport
    from agent_eval_scoring.core.problem import Problem
    from agent_eval_scoring.core.process import Begun
    from agent_eval_scoring.evalset.models import LoadedFile, Suite
    from agent_eval_scoring.models.pool import ModelPool


@dataclasses.dataclass(kw_only=True)
class Run:
    """A run that is planned, as its features see and change it."""

    settings: Settings
    context: RunContext
    begun: Begun
    suite: Suite
    """The eval files."""
    files: Sequence[LoadedFile]
    """With the criteria that hold: those of the base branch where the pull request may not change them."""
    choices: AgentChoices
    rules: HeldRules
    models: ModelPool | None
    bill: Bill
    tapes: Tapes | None
    plan: Plan
    features: Sequence[Feature]
    """In the order in which their hooks are called."""
    problems: list[Problem]
    facts: dict[str, object] = dataclasses.field(default_factory=dict)
    """Fields of the report that are known before anything runs."""
    remarks: list[str] = dataclasses.field(default_factory=list)
    """What was replayed or recorded."""
    memory: str = ""
    """What the next attempt at this commit has to know of this one."""

    @functools.cached_property
    def report(self) -> RunReport:
        """The report. It is made when it is first asked for, and then stays the same object."""
        return self.draft()

    def draft(self) -> RunReport:
        """A new report of what is known now."""
        files = file_reports(self.suite, self.choices, self.settings.policy, self.rules.files)
        report = draft_report(self.settings, self.context, self.begun, self.problems, files)
        return report.model_copy(update=self.facts)


class Feature:
    """What one feature does in a run: its hooks, in the order in which they are called. These change nothing."""

    computes = False
    """Whether other jobs have run the cases: then there is nothing to wait for, and nothing to resume."""
    judges = True
    """Whether the cases are compared with the base branch, and the policy is applied."""
    idle = False
    """Whether it leaves nothing to run: then no agent is started."""

    def plan(self, run: Run) -> None:
        """Changes `run.plan`, which has all cases. Nothing has been checked yet."""

    def problems(self, run: Run) -> Sequence[Problem]:
        """What is wrong with its settings and files; an error ends the run."""
        return ()

    def before(self, run: Run) -> None:
        """Changes a run that is valid, before anything starts."""

    async def cases(self, run: Run, checkout: Checkout) -> Sequence[CaseReport] | None:
        """The cases, from elsewhere than the plan's runs. None: they are run."""
        return None

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds to the report once it has its cases, before they are compared."""

    def outcome(self, report: RunReport, verdict: Verdict | None) -> Verdict | None:
        """The verdict that holds, given the one that was decided; None: nothing was."""
        return verdict

    def notices(self, run: Run, report: RunReport) -> Iterable[str]:
        """What it says about the decided run."""
        return ()


class Coverage(Feature):
    """Adds what the cases reach; every text but the comment says what they leave out. Decides nothing."""

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds what this job's runs reached to what those of merged parts did."""
        from agent_eval_results.data.coverage import joined

        trees = {tree.agent: tree for tree in report.agents}
        own = [reach.report(agent, trees.get(agent)) for agent, reach in checkout.reach.items()]
        report.coverage = joined([*report.coverage, *filter(None, own)])


def with_results_of(report: RunReport, other: RunReport) -> None:
    """Adds to a report what another job's has beside its cases and its usage: versions, agents, coverage."""
    report.provenance |= {name: value for name, value in other.provenance.items() if name != "concurrency"}
    known = {tree.agent for tree in report.agents}
    report.agents += [tree for tree in other.agents if tree.agent not in known]
    report.coverage += other.coverage
