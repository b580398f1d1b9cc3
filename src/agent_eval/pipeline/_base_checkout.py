"""The base branch's own agent, put up when it is first asked for runs and taken down at the end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_eval import __version__
from agent_eval.baseline import BaseCheckout, Git, GitError, NotOnBase, agents_on_base, opened_base
from agent_eval.core.text import first_line
from agent_eval.core.timing import Begun
from agent_eval.gate.history import never_started
from agent_eval.pipeline._checkout import NotIsolated, Workbench, open_isolation, open_workbench
from agent_eval.pipeline.context import Clients
from agent_eval.results import BASE

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.agents.sandbox import Isolation
    from agent_eval.baseline import Remote
    from agent_eval.core.limiter import Limiter
    from agent_eval.models import ModelPool
    from agent_eval.results import CaseReport, FileReport, RunReport
    from agent_eval.runner import Plan
    from agent_eval.settings import Settings

_ACCOUNT = "agent-base"
"""Whom the base's agent runs as. No machine has it, so it gets a uid of its own: processes of the same user can kill
each other and read each other's memory."""


@dataclass(kw_only=True)
class BaseSide:
    """Runs cases with the agent of one commit."""

    settings: Settings
    """The head's."""
    clients: Clients
    plan: Plan
    """The head's."""
    choices: AgentChoices
    """The head's."""
    git: Git | GitError
    commit: str
    remote: Remote
    isolation: Isolation
    """The head's."""
    limiter: Limiter
    models: ModelPool | None
    until: float
    """`time.monotonic()` at which everything must have ended."""
    stack: contextlib.AsyncExitStack
    """Takes down what is put up here."""
    own_plan: Callable[[Settings], tuple[Plan, AgentChoices]] | None = None
    """Plans the base's own eval files; None: the head's are run."""
    missing: dict[str, str] = field(default_factory=dict)
    """Agents that the base doesn't have, each with a sentence why."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _checkout: BaseCheckout | None = None
    _bench: Workbench | None = None
    _plan: Plan | None = None

    @contextlib.asynccontextmanager
    async def checkout(self, git: Git, commit: str, *, remote: Remote | None = None) -> AsyncIterator[BaseCheckout]:
        """The checkout, which stays until the end: for `baseline.rerun.RerunSource`.

        Raises:
            GitError, NotOnBase: As `opened_base` does.
        """
        if self._checkout is None:
            self._checkout = await self.stack.enter_async_context(opened_base(git, commit, remote=remote))
        yield self._checkout

    async def execute(self, case_ids: frozenset[str] | None, num_runs: int, *, first_run: int) -> list[CaseReport]:
        """Runs some cases on the base.

        Args:
            case_ids: Which; None for all. Those that the base can't run are left out.
            num_runs: How often each.
            first_run: The number of the first of these runs.

        Returns:
            Their reports, without those whose agent can't be started while another one can.

        Raises:
            GitError: The base can't be checked out, or its agent can't be started there or kept apart from us.
            NotOnBase: There is nothing to run.
        """
        return _started(await self._execute(case_ids, num_runs, first_run=first_run))

    async def _execute(self, case_ids: frozenset[str] | None, num_runs: int, *, first_run: int) -> list[CaseReport]:
        async with self._opening:
            bench, plan = await self._open()
        wanted = frozenset(case.case_id for case in plan.cases) if case_ids is None else case_ids
        return await bench.execute(plan.more(wanted, num_runs, first_run=first_run))

    async def report(self, num_runs: int) -> RunReport:
        """Runs everything on the base.

        Raises:
            GitError, NotOnBase: As for `execute`.
        """
        from agent_eval.gate.verdict import decide
        from agent_eval.results import Origin, RunReport

        begun = Begun()
        cases = await self._execute(None, num_runs, first_run=0)
        _started(cases)
        verdict = decide(cases)
        return RunReport(
            tool_version=__version__,
            verdict=verdict.value,
            reasons=list(verdict.reasons),
            started_at=begun.at,
            duration=begun.duration(),
            num_runs=num_runs,
            min_pass_rate=self.settings.min_pass_rate,
            provenance=self._bench.provenance if self._bench is not None else {},
            origin=Origin(commit=self.commit),
            files=self._files(),
            cases=cases,
        )

    def _files(self) -> list[FileReport]:
        """Which agent each file belongs to."""
        from agent_eval.results import FileReport

        files = {case.file: case for case in self._plan.cases} if self._plan is not None else {}
        return [FileReport(file=case.file, eval_set_id=case.eval_set_id, agent=case.agent) for case in files.values()]

    async def _open(self) -> tuple[Workbench, Plan]:
        if self._bench is not None and self._plan is not None:
            return self._bench, self._plan
        if isinstance(self.git, GitError):
            raise self.git
        from agent_eval.runner import Journal

        async with self.checkout(self.git, self.commit, remote=self.remote) as checkout:
            settings = dataclasses.replace(
                self.settings.in_checkout(checkout.root, checkout.corresponding),
                output_dir=self.settings.output / BASE,
                cache_dir=None if self.settings.cache_dir is None else self.settings.root / self.settings.cache_dir,
                agent_python=interpreter_for_base(self.settings),
                resume=False,
            )
            clients = dataclasses.replace(
                self.clients, environ=checkout.environment(self.clients.environ), progress=lambda _: None
            )
            plan, choices = self._planned(settings, checkout)
        if not plan.cases:
            raise NotOnBase(" ".join(self.missing.values()) or "The base has no case to run.")
        for choice in choices.by_file.values():
            if choice.recording is None and not choice.working_directory(settings.root, settings.agent_cwd).is_dir():
                raise NotOnBase(f"The base has no directory {self.settings.agent_cwd}, which `agent-cwd` names.")
        isolation = self._isolated(settings, clients, choices)
        journal = Journal(settings.output / "journal.jsonl", resume=False)
        self.stack.callback(journal.close, remove=True)
        self._bench = await self.stack.enter_async_context(
            open_workbench(
                settings,
                clients,
                choices,
                isolation,
                journal=journal,
                limiter=self.limiter,
                models=self.models,
                until=self.until,
            )
        )
        self._plan = plan
        return self._bench, plan

    def _isolated(self, settings: Settings, clients: Clients, choices: AgentChoices) -> Isolation:
        """Apart from us, and from the pull request's agent, which could spoil the base's runs."""
        if self.isolation.sandbox.user is None:  # What isn't done for the one needn't be done for the other.
            return _with_pythonpath(self.isolation, clients.environ.get("PYTHONPATH"))
        try:
            isolation = self.stack.enter_context(open_isolation(settings, clients, choices, name=_ACCOUNT))
        except NotIsolated as refused:
            raise GitError(str(refused)) from None
        if isolation.sandbox.user is None:
            raise GitError("The base's agent can't be kept apart from agent-eval, as the pull request's is.")
        return isolation

    def _planned(self, settings: Settings, checkout: BaseCheckout) -> tuple[Plan, AgentChoices]:
        if self.own_plan is not None:
            return self.own_plan(settings)
        agents = agents_on_base(self.choices, checkout, self.settings.root)
        self.missing = dict(agents.missing)
        there = frozenset(case.case_id for case in self.plan.cases if case.file in agents.choices.by_file)
        return self.plan.more(there, self.plan.num_runs, first_run=0), agents.choices


def interpreter_for_base(settings: Settings) -> str | None:
    """The setting `agent-python` of the head, as it holds in another directory: both sides share the interpreter."""
    if settings.agent_python is None:
        return None
    path = settings.root.absolute() / settings.agent_python
    return str(path) if path.is_file() else settings.agent_python


def _with_pythonpath(isolation: Isolation, value: str | None) -> Isolation:
    """The same, but for where modules are found: those of the head are none of the base's."""
    if value is None:
        return isolation
    sandbox = isolation.sandbox
    changed = dataclasses.replace(sandbox, environment={**sandbox.environment, "PYTHONPATH": value})
    return dataclasses.replace(isolation, sandbox=changed)


def _started(cases: Sequence[CaseReport]) -> list[CaseReport]:
    """The cases whose agent could be started. Another one says nothing about the base; as failures its runs would hide
    what the pull request breaks.

    Raises:
        GitError: None could. There may be nothing wrong with the base, so that is not the same as `NotOnBase`.
    """
    started = [case for case in cases if not never_started(case)]
    if not started and cases:
        [first, *_] = [run.error for case in cases for run in case.runs if run.error is not None]
        what = first_line(first.message, 300).rstrip(".")
        raise GitError(f"The base's agent can't be started in its worktree: {what}.")
    return started


@contextlib.asynccontextmanager
async def base_side(
    bench: Workbench,
    plan: Plan,
    choices: AgentChoices,
    own_plan: Callable[[Settings], tuple[Plan, AgentChoices]],
) -> AsyncIterator[BaseSide | None]:
    """The base's agent, if it may be asked for; nothing is done before it is.

    Args:
        bench: The head's.
        plan: The head's.
        choices: The head's.
        own_plan: Plans the eval files of another checkout.
    """
    situation = bench.clients.situation
    if not situation.compares or situation.wanted is None:
        yield None
        return
    async with contextlib.AsyncExitStack() as stack:
        yield BaseSide(
            settings=bench.settings,
            clients=bench.clients,
            plan=plan,
            choices=choices,
            git=situation.git,
            commit=situation.wanted.commit,
            remote=situation.remote,
            isolation=bench.isolation,
            limiter=bench.limiter,
            models=bench.models,
            until=bench.until,
            own_plan=own_plan if bench.settings.baseline_evals == "base" else None,
            stack=stack,
        )
