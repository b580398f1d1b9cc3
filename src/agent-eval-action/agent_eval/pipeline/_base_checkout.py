"""Runs cases with the base branch's own agent, which is started on first use."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval import __version__
from agent_eval.baseline import Git, GitError, Remote
from agent_eval.baseline.rerun import BaseWorktree, NotOnBase, agents_on_base, open_base, share_dotenv
from agent_eval.pipeline._agents import agent_trees
from agent_eval.pipeline._checkout import Checkout, Resources, open_checkout
from agent_eval.pipeline.context import Preparation
from agent_eval.pipeline.early import NotIsolated, open_isolation
from agent_eval_agents.discovery import AgentChoices
from agent_eval_agents.protocol import AgentRefused
from agent_eval_agents.sandbox import Isolation
from agent_eval_results import BASE, BASE_RECORDINGS
from agent_eval_scoring.core.process import Begun
from agent_eval_scoring.core.text import first_line

if TYPE_CHECKING:
    from agent_eval.runner import Journal, Plan
    from agent_eval_results import AgentTree, CaseReport, FileReport, Recording, RunReport

_ACCOUNT = "agent-base"
"""Account of the base's agent. No machine has it, so the agent gets a uid of its own: processes of one user can kill
each other and read each other's memory."""


@dataclass(kw_only=True)
class BaseCheckout:
    """Runs cases with the agent of one commit."""

    head: Checkout
    plan: Plan
    """The head's."""
    choices: AgentChoices
    """The head's."""
    commit: str
    stack: contextlib.AsyncExitStack
    """Closes the worktree, the agents and their isolation."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why the base lacks an agent, as a sentence, by agent."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _worktree: BaseWorktree | None = None
    _checkout: Checkout | None = None
    _plan: Plan | None = None
    _journal: Journal | None = None

    @contextlib.asynccontextmanager
    async def worktree(self, git: Git, commit: str, *, remote: Remote | None = None) -> AsyncIterator[BaseWorktree]:
        """Opens the worktree once; it stays open until the end. For `baseline.RerunSource`.

        Raises:
            GitError, NotOnBase, OSError: As `open_base` does.
        """
        if self._worktree is None:
            self._worktree = await self.stack.enter_async_context(open_base(git, commit, remote=remote))
        yield self._worktree

    async def execute(self, case_ids: frozenset[str] | None, num_runs: int, *, first_run: int) -> list[CaseReport]:
        """Runs some cases on the base branch.

        Args:
            case_ids: None for all. Cases that the base can't run are left out.
            num_runs: Runs of each case.
            first_run: The number of the first of these runs.

        Returns:
            Their reports, also of agents that can't be started (`split_unstarted`).

        Raises:
            GitError: The base can't be checked out, or its agent is refused there or can't be kept apart from us.
            NotOnBase: There is nothing to run.
            OSError: Its directories can't be made.
        """
        # Several groups of extra runs ask at once, and there is one worktree for all of them.
        async with self._opening:
            checkout, plan = await self._open()
        requested = frozenset(case.case_id for case in plan.cases) if case_ids is None else case_ids
        try:
            return await checkout.execute(plan.more(requested, num_runs, first_run=first_run))
        except AgentRefused as refused:  # It does not make the pull request's files invalid.
            raise GitError(refused.problem.message, hint=refused.problem.hint) from refused

    async def report(self, num_runs: int) -> RunReport:
        """Runs everything on the base branch that the head runs live. Replayed cases are as they were recorded.

        Raises:
            GitError, NotOnBase, OSError: As for `execute`. Or no agent started: the base itself may be fine, so this
                is a GitError.
        """
        from agent_eval.gate.evaluation import outage
        from agent_eval.gate.regression import apply_policy, as_recorded
        from agent_eval.gate.verdict import decide
        from agent_eval_results import Origin, RunReport

        begun, rate = Begun(), self.head.settings.min_pass_rate
        replayed = {case.case_id: case for case in await self.head.replayed}
        live = frozenset(case.case_id for case in self.plan.cases if case.case_id not in replayed)
        if replayed and not live and not any(case.replayed for case in replayed.values()):
            raise NotOnBase("No tape answers a case, and no case runs live.")
        cases = await self.execute(live, num_runs, first_run=0) if live or not replayed else []
        started, why = split_unstarted(cases)
        # An outage, e.g. of a package index, is said as what it is (`RerunSource`).
        if why and not started and outage(cases) is None:
            raise GitError(next(iter(why)))
        cases += [as_recorded(case, min_pass_rate=rate) for case in replayed.values()]
        cases = apply_policy(cases, self.head.settings.policy, min_pass_rate=rate)
        verdict = decide(cases)
        return RunReport(
            tool_version=__version__,
            verdict=verdict.value,
            reasons=list(verdict.reasons),
            started_at=begun.at,
            duration=begun.duration(),
            num_runs=num_runs,
            min_pass_rate=rate,
            provenance=self._checkout.provenance if self._checkout is not None else {},
            origin=Origin(commit=self.commit),
            files=self._files(),
            cases=cases,
            agents=self.agents,
        )

    def recordings(self) -> Callable[[str], list[Recording]]:
        """Returns its runs so far of a case, by the head's id."""
        journal, by_case = self._journal, dict[str, list[str]]()
        for run_id in dict.fromkeys(self._checkout.run_ids if self._checkout is not None else ()):
            by_case.setdefault(run_id.rpartition("#")[0], []).append(run_id)

        def of(case_id: str) -> list[Recording]:
            recorded = (journal.recording(each) for each in by_case.get(case_id, ())) if journal is not None else ()
            return [each for each in recorded if each is not None]

        return of

    @property
    def agents(self) -> list[AgentTree]:
        """What its agents are; empty until one has started."""
        return agent_trees(self._checkout) if self._checkout is not None else []

    def _files(self) -> list[FileReport]:
        """Which agent each file belongs to."""
        from agent_eval_results import FileReport

        files = {case.file: case for case in self._plan.cases} if self._plan is not None else {}
        return [FileReport(file=case.file, eval_set_id=case.eval_set_id, agent=case.agent) for case in files.values()]

    async def _open(self) -> tuple[Checkout, Plan]:
        if self._checkout is not None and self._plan is not None:
            return self._checkout, self._plan
        head, ci = self.head, self.head.context.ci
        if isinstance(ci.git, GitError):
            raise ci.git
        from agent_eval.runner import Journal

        async with self.worktree(ci.git, self.commit, remote=ci.remote) as worktree:
            settings = dataclasses.replace(
                head.settings.in_checkout(worktree.root, worktree.corresponding),
                output_dir=head.settings.output / BASE,
                cache_dir=None if head.settings.cache_dir is None else head.settings.root / head.settings.cache_dir,
                # A path that is relative to the checkout would lead into the worktree, which has no environment.
                agent_python=interpreter_for_base(head.settings.agent_python, head.settings.root),
                # Runs of the base branch are of today, or they would not show that today is a bad day.
                resume=False,
            )
            context = dataclasses.replace(
                head.context, environ=worktree.environment(head.context.environ), progress=lambda _: None, early=None
            )
            plan, choices = self._planned(worktree)
            root = head.settings.root
            here = [choice for choice in choices.by_file.values() if choice.runs_here]
            share_dotenv(ci.git, worktree, [choice.directory(root) or root for choice in here])
        if not plan.cases:
            raise NotOnBase(" ".join(self.missing.values()) or "The base has no case to run.")
        for choice in choices.by_file.values():
            # The process could start in none of its runs: that is no outage, which another attempt would repair.
            if choice.runs_here and not choice.working_directory(settings.root, settings.agent_cwd).is_dir():
                raise NotOnBase(f"The base has no directory {head.settings.agent_cwd}, which `agent-cwd` names.")
        apart = open_isolation(settings, context, runs_here=choices.runs_here, name=_ACCOUNT, reachable=[root])
        isolation = self._isolated(apart, context.environ.get("PYTHONPATH"))
        journal = self._journal = Journal(settings.output / "journal.jsonl", resume=False)
        self.stack.callback(self._store, journal)
        tapes = None if head.tapes is None else head.tapes.for_base()
        # The interpreter is the head's.
        probe = None if head.context.early is None else head.context.early.interpreter
        prepared = None if probe is None else Preparation(interpreter=(await probe)[0])
        resources = Resources(
            journal=journal,
            limiter=head.limiter,
            models=head.models,
            until=head.until,
            tapes=tapes,
            bill=head.bill,
            purpose="agent-base",
        )
        self._checkout = await self.stack.enter_async_context(
            open_checkout(settings, context, choices, isolation, resources, plan, prepared)
        )
        self._plan = plan
        return self._checkout, plan

    def _store(self, journal: Journal) -> None:
        """Keeps the recordings, and removes the journal: the base's runs are not resumed."""
        from agent_eval_results import write_lines

        try:
            if self._checkout is not None:
                write_lines(
                    self.head.settings.output / BASE_RECORDINGS, journal.lines(dict.fromkeys(self._checkout.run_ids))
                )
        except OSError as error:  # They explain the verdict and don't decide it.
            self.head.context.log(f"agent-eval: The recordings of the base branch could not be written: {error}")
        finally:
            journal.close(remove=True)

    def _isolated(self, apart: contextlib.AbstractContextManager[Isolation], python_path: str | None) -> Isolation:
        """Isolates the base's agent from us and from the pull request's agent, which could spoil the base's runs."""
        if self.head.isolation.sandbox.user is None:  # The head's agent is not isolated either.
            return _with_pythonpath(self.head.isolation, python_path)
        try:
            isolation = self.stack.enter_context(apart)
        except NotIsolated as refused:
            raise GitError(str(refused)) from None
        if isolation.sandbox.user is None:
            whose = self.head.context.ci.event.change
            raise GitError(f"The base's agent can't be kept apart from agent-eval, as the {whose}'s is.")
        return isolation

    def _planned(self, worktree: BaseWorktree) -> tuple[Plan, AgentChoices]:
        choices, self.missing = agents_on_base(self.choices, worktree, self.head.settings.root)
        runnable = frozenset(case.case_id for case in self.plan.cases if case.file in choices.by_file)
        plan = self.plan.more(runnable, self.plan.num_runs, first_run=0)
        is_replay = self.head.tapes is not None and self.head.tapes.mode == "all"
        return self.head.live(plan) if is_replay else plan, choices


def interpreter_for_base(agent_python: str | None, root: Path) -> str | None:
    """The head's `agent-python` as the base uses it from another directory: both sides share the interpreter."""
    if agent_python is None:
        return None
    path = root.absolute() / agent_python
    return str(path) if path.is_file() else agent_python


def _with_pythonpath(isolation: Isolation, value: str | None) -> Isolation:
    """Replaces PYTHONPATH: the base's agent must not import the head's modules."""
    if value is None:
        return isolation
    sandbox = isolation.sandbox
    changed = dataclasses.replace(sandbox, environment={**sandbox.environment, "PYTHONPATH": value})
    return dataclasses.replace(isolation, sandbox=changed)


def split_unstarted(cases: Sequence[CaseReport]) -> tuple[list[CaseReport], dict[str, None]]:
    """The cases whose agent started, and sentences why others did not. Runs without an agent are no failures of the
    base: counted as failures they would hide what the pull request breaks.
    """
    from agent_eval_results.data.answers import never_started

    started = [case for case in cases if not never_started(case)]
    why = dict[str, None]()
    for error in (case.runs[0].error for case in cases if never_started(case)):
        what = first_line(error.message, 300).rstrip(".") if error is not None else ""
        why[f"The base's agent can't be started in its worktree: {what}."] = None
    return started, why


@contextlib.asynccontextmanager
async def open_base_checkout(head: Checkout, plan: Plan, choices: AgentChoices) -> AsyncIterator[BaseCheckout | None]:
    """Provides the base's agent where there is a base commit to compare with; starts nothing yet.

    Args:
        head: The tested checkout.
        plan: The head's.
        choices: The head's.
    """
    ci = head.context.ci
    if not ci.compares or ci.baseline_request is None:
        yield None
        return
    async with contextlib.AsyncExitStack() as stack:
        if head.settings.agent_python is not None and head.isolation.sandbox.user is None:
            # As another user's, its processes are no forks of the head's parent.
            await stack.enter_async_context(head.context.parents.expecting(1))
        yield BaseCheckout(head=head, plan=plan, choices=choices, commit=ci.baseline_request.commit, stack=stack)
