"""A checkout with running agents: executes plans, repeatedly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.pipeline._tapes import is_missed
from agent_eval.pipeline.context import Preparation, RunContext, open_agents
from agent_eval_agents.messages import AgentDescribed
from agent_eval_agents.protocol import Agent
from agent_eval_agents.sandbox import Isolation, is_base_variable, secrets_in
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.text import share

if TYPE_CHECKING:
    from agent_eval.runner import Journal, Plan, Tapes
    from agent_eval.runner.bill import Bill
    from agent_eval.runner.plan import PlannedCase
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.roster import Roster
    from agent_eval_results import CaseReport, Recording
    from agent_eval_results.data.coverage import Reach
    from agent_eval_scoring.models.pool import ModelPool


@dataclass(kw_only=True)
class Resources:
    """What the runs of a checkout use."""

    journal: Journal
    limiter: Limiter
    models: ModelPool | None
    until: float
    """`time.monotonic()` at which the whole run must have ended."""
    tapes: Tapes | None = None
    """Answers tool calls; None: all tools run."""
    bill: Bill | None = None
    """None: the agents' answers come from files."""
    around: str = ""
    """See `surroundings`."""
    purpose: str = "agent"
    """What the bill calls the runs."""


@dataclass(kw_only=True)
class Checkout(Resources):
    """Runs plans with the agents of one checkout."""

    settings: Settings
    context: RunContext
    agents: Mapping[str, Agent]
    """By the plan's keys; each is started by the first plan that needs it."""
    isolation: Isolation
    roster: Roster | None = None
    """Starts the agents."""
    described: Mapping[str, Sequence[AgentDescribed]] = field(default_factory=dict)
    """What each agent is, by the plan's keys; empty until it has started."""
    reused: int = 0
    """Runs taken from the journal."""
    reach: dict[str, Reach] = field(default_factory=dict)
    """What the runs of each agent show."""
    run_ids: list[str] = field(default_factory=list)
    """All requested runs, in order."""
    not_replayed: dict[str, str] = field(default_factory=dict)
    """Why each case ran live that was to be replayed, by case id (`replay: missing-live`)."""
    replayed: asyncio.Future[list[CaseReport]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """The cases that do not run live, once that is known."""

    async def execute(self, plan: Plan, *, fail_fast: bool = False) -> list[CaseReport]:
        """Runs a plan.

        Args:
            plan: Its agents are those of this checkout.
            fail_fast: End at the first case that fails the gate.

        Returns:
            A report for every case of the plan, in its order.
        """
        if self.tapes is None or self.tapes.mode != "all":
            self.note_replayed(())
            return await self._execute(plan, self.tapes, fail_fast=fail_fast)
        if plan.first_run:  # More runs of cases that were not replayed.
            return await self._execute(self.live(plan), self.tapes.without_tapes(), fail_fast=fail_fast)
        return await self._replay(plan, self.tapes, fail_fast=fail_fast)

    async def _replay(self, plan: Plan, tapes: Tapes, *, fail_fast: bool) -> list[CaseReport]:
        """Replays each case once; with `replay: missing-live`, the cases that their tapes don't answer run live."""
        cases = await self._execute(dataclasses.replace(plan, repeated=tapes.recorded), tapes, fail_fast=fail_fast)
        missed = {
            case.case_id: run.error.message
            for case in filter(is_missed, cases)
            for run in case.runs
            if run.error is not None
        }
        if self.settings.replay == "all" or not missed or (fail_fast and any(map(self._fails, cases))):
            self.note_replayed(cases)
            return cases
        self.note_replayed(case for case in cases if case.case_id not in missed)
        self.context.log(f"agent-eval: {share(len(missed), len(cases), 'case')} can't be replayed: live runs begin")
        more = self.live(plan.more(missed, plan.num_runs, first_run=0))
        self.not_replayed |= {case.case_id: missed[case.case_id] for case in more.cases if case.skip_reason is None}
        live = await self._execute(more, tapes.without_tapes(), fail_fast=fail_fast)
        by_id = {case.case_id: case for case in live}
        return [by_id.get(case.case_id, case) for case in cases]

    def live(self, plan: Plan) -> Plan:
        """The plan for runs without tapes; `--resume` must not take them for replayed ones.

        Where keys are withheld, as for a fork, nothing is skipped: what no tape answers is for a run that has them.
        """
        withheld = self.context.ci.activity.secrets_withheld
        cases = (
            dataclasses.replace(
                case, fingerprint=f"{case.fingerprint}-live", skip_reason=None if withheld else case.skip_live
            )
            for case in plan.cases
        )
        return dataclasses.replace(plan, cases=tuple(cases))

    def note_replayed(self, cases: Iterable[CaseReport]) -> None:
        """These are the cases that do not run live. Only the first call counts."""
        if not self.replayed.done():
            self.replayed.set_result(list(cases))

    async def _execute(self, plan: Plan, tapes: Tapes | None, *, fail_fast: bool) -> list[CaseReport]:
        from agent_eval.runner import Execution, Limits

        settings, bill = self.settings, self.bill
        purpose = f"{self.purpose}-again" if plan.first_run and self.purpose == "agent" else self.purpose
        self.run_ids += [planned.run_id(number) for planned, number in plan.runs()]
        execution = Execution(
            plan=plan,
            agents=self.agents,
            roster=self.roster,
            around=self.around,
            journal=self.journal,
            limits=Limits(
                concurrency=self.limiter.most,
                turn_timeout=settings.turn_timeout,
                case_timeout=settings.case_timeout,
                # What is left: extra runs share the time of the whole run.
                run_timeout=max(self.until - time.monotonic(), 0.0),
                fail_fast=fail_fast,
                min_pass_rate=settings.min_pass_rate,
            ),
            limiter=self.limiter,
            tools=tapes,
            model=self.models,
            seen=self._note_reached,
            bill=lambda recording: None if bill is None else bill.add(recording, purpose),
            used_up=lambda: None if bill is None else bill.used_up,
            on_progress=self.context.progress,
            fails=self._fails,
            stop=self.context.stop,
        )
        cases = await execution.run()
        self.reused += execution.reused
        return cases

    def _note_reached(self, planned: PlannedCase, recording: Recording) -> None:
        from agent_eval_results.data.coverage import Reach  # The agent starts without it.

        self.reach.setdefault(planned.agent, Reach()).note(recording, planned.case.conversation or ())

    def _fails(self, case: CaseReport) -> bool:
        from agent_eval.gate.regression import fails_alone  # Only fail-fast needs it so early.

        if self.settings.replay == "missing-live" and is_missed(case):
            return False  # It runs live.
        return fails_alone(case, self.settings.policy, min_pass_rate=self.settings.min_pass_rate)

    @property
    def provenance(self) -> dict[str, str]:
        """What the agents report about themselves; with several agents each key names its agent."""
        if len(self.agents) == 1:
            return dict(next(iter(self.agents.values())).provenance)
        return {
            f"{name} ({path})": value for path, agent in self.agents.items() for name, value in agent.provenance.items()
        }


def forwarded(isolation: Isolation) -> dict[str, str]:
    """The variables that an agent gets from us; of secrets only the names."""
    environment = isolation.sandbox.environment.items()
    return {
        # A rotated key changes no answer; and a hash of a short secret could be guessed from the results.
        name: "" if secrets_in({name: value}) else value
        for name, value in environment
        if not is_base_variable(name)
    }


def surroundings(
    isolation: Isolation,
    prepared: Preparation,
    root: Path,
    skip: Collection[Path] = (),
    start: Collection[object] = (),
) -> str:
    """A hash of what decides answers beside the checkout's files: variables, packages, modules on PYTHONPATH, settings.

    Args:
        isolation: The agents'. Of secret variables only the names count.
        prepared: Has the interpreter with its packages.
        root: The checkout.
        skip: Directories to leave out, e.g. the output directory.
        start: The settings that say how the agents are started. A flag changes no file, and a pull request is held to
            the base branch's agent-eval.toml, which is another one after the merge.
    """
    from agent_eval_agents.sources import source_fingerprint

    variables = forwarded(isolation)
    paths = isolation.sandbox.environment.get("PYTHONPATH", "").split(os.pathsep)
    folders = {(root / path).resolve() for path in paths if path} - {root.resolve()}
    modules = [source_fingerprint(folder, folder, skip=skip) for folder in sorted(folders)]
    versions = {} if prepared.interpreter is None else prepared.interpreter.versions
    facts = [sorted(variables.items()), sorted(versions.items()), modules, list(map(repr, start))]
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


@contextlib.asynccontextmanager
async def open_checkout(
    settings: Settings,
    context: RunContext,
    choices: AgentChoices,
    isolation: Isolation,
    resources: Resources,
    plan: Plan,
    prepared: Preparation | None = None,
) -> AsyncIterator[Checkout]:
    """The agents of a checkout, and what it takes to run plans with them; the agents are closed at the end."""
    described: dict[str, list[AgentDescribed]] = {}
    from agent_eval_agents.roster import Roster

    limiter = resources.limiter
    # The recordings' usage was paid for by the run that made them.
    if choices.only_recorded:
        resources.bill = None
    runs = Counter(case.agent for case, _ in plan.runs())
    async with open_agents(settings, context, choices, isolation, limiter, prepared, described, runs) as agents:
        yield Checkout(
            described=described,
            settings=settings,
            context=context,
            agents=agents,
            isolation=isolation,
            roster=Roster(agents=agents, limited={each.path for each in choices.by_file.values() if each.in_python}),
            **vars(resources),
        )
