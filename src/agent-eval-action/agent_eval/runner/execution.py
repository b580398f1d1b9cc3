"""Runs a plan: each case the requested number of times, concurrently and within its time limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan, PlannedCase
from agent_eval.runner.replay import CaseTools, Tapes
from agent_eval_agents.fingerprints import session_of
from agent_eval_agents.protocol import Agent, AgentFailure, FailureKind, SessionRequest
from agent_eval_agents.roster import Roster
from agent_eval_results import Recording, RunError
from agent_eval_results.data.usage import usage_of
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Limiter, Place, together
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.text import plural, short_name, shorten
from agent_eval_scoring.criteria import CodeMetric, CustomMetric, MetricFailure, error_of, reads_state, unlabelled
from agent_eval_scoring.models import Model
from agent_eval_scoring.simulation import CODES as SIMULATOR_CODES
from agent_eval_scoring.simulation import SimulatorFailure, Stop, user_of

if TYPE_CHECKING:
    from agent_eval_results import CaseReport, CaseStatus, MetricReport

_STOPPED = "stopped"
_WAITING_PER_RUNNING = 4
"""Runs that may wait for judges or for retries of model calls, per concurrency slot."""
_MESSAGE = 2_000
"""Characters of an error's message: an exception may quote a whole document."""
_LOG = 4_000
"""Characters of a traceback, and of the end of a log, that a report keeps."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on concurrency and time."""

    concurrency: int = 8
    turn_timeout: float = 180.0
    """Seconds; also the next two."""
    case_timeout: float = 900.0
    run_timeout: float = 3600.0
    fail_fast: bool = False
    min_pass_rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of an execution."""

    total: int
    """All runs."""
    done: int
    counts: Mapping[CaseStatus, int]
    """Completed runs by status."""
    reused: int
    """Completed runs that came from the journal."""


@dataclass(kw_only=True)
class Execution:
    """One execution of a plan. Use once."""

    plan: Plan
    agents: Mapping[str, Agent]
    """By the plan's agent keys. Started here, closed by the caller."""
    journal: Journal
    limits: Limits
    limiter: Limiter
    tools: Tapes | None = None
    """Answers tool calls from recordings; None: all tools run."""
    model: Model | None = None
    """Simulates the users of scenarios; None if no case has one."""
    bill: Callable[[Recording], None] = lambda _: None
    """Is given each new recording."""
    seen: Callable[[PlannedCase, Recording], None] = lambda *_: None
    """Is given each recording, also reused ones, and its case."""
    used_up: Callable[[], RunError | None] = lambda: None
    """Why no further run may begin. Other executions may spend the same budget, so it is asked before each run."""
    on_progress: Callable[[Progress], None] = lambda _: None
    around: str = ""
    """What the runs depend on beside their cases and files: only equal runs are resumed."""
    roster: Roster | None = None
    """Starts the agents; None: a new one."""
    fails: Callable[[CaseReport], bool] = lambda case: case.failed
    """Whether a case ends the run with fail-fast."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to stop early: active runs are cancelled, and the rest do not run."""
    reused: int = 0
    """Runs that came from the journal."""

    _parts: dict[str, list[CaseReport]] = field(default_factory=dict)
    _metrics: dict[Hashable, MetricReport] = field(default_factory=dict)
    _failures: dict[str, AgentFailure] = field(default_factory=dict)
    _counts: dict[CaseStatus, int] = field(default_factory=dict)
    _halt: RunError | None = None
    _halted: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> list[CaseReport]:
        """Runs everything.

        Returns:
            A report for every case of the plan, in the plan's order. A run that did not take place has a reason. The
            failure of an agent never raises an exception here.
        """
        watch = asyncio.create_task(self._watch())
        work = asyncio.create_task(self._work())
        halted = asyncio.create_task(self._halted.wait())
        try:
            done, _ = await asyncio.wait(
                {work, halted}, timeout=self.limits.run_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                message = f"The run took longer than run-timeout ({self.limits.run_timeout:g} s)"
                self._halt_runs("run-timeout", message, "Raise --run-timeout, or run fewer cases.")
            if work in done:
                await work
        finally:
            for task in (work, watch, halted):
                task.cancel()
            results = await asyncio.gather(work, watch, halted, return_exceptions=True)
        # A bug in agent-eval must not look like a stopped run.
        if isinstance(results[0], Exception):
            raise results[0]
        return self._reports()

    async def _watch(self) -> None:
        await self.stop.wait()
        self._halt_runs(_STOPPED, "The gate was stopped before this run ended", "Run it again with --resume.")

    def _is_used_up(self) -> bool:
        """Whether the budget is used up: then no further run begins. Runs in progress are paid for, so they end."""
        used_up = self.used_up()
        self._halt = self._halt or used_up
        return used_up is not None

    def _halt_runs(self, kind: str, message: str, hint: str) -> None:
        self._halt = self._halt or RunError(kind=kind, owner="gate", message=message, hint=hint)
        self._halted.set()

    async def _work(self) -> None:
        waiting: list[tuple[PlannedCase, int]] = []
        most = self.limits.concurrency * (_WAITING_PER_RUNNING + 1)
        planned_runs = ((planned, run) for planned, run in self.plan.runs() if planned.skip_reason is None)
        # Several at once: after an outage of the judge, it is asked about all of them again.
        reusing = range(1 if self.limits.fail_fast else most)
        await asyncio.gather(*(self._reuse(planned_runs, waiting) for _ in reusing))
        if self._is_used_up() or self._halt is not None:
            return
        if not self.limits.fail_fast:
            # A long run that begins last would keep the others' slots empty. The report keeps the plan's order.
            waiting.sort(key=lambda item: -self.plan.weights.get(item[0].case_id, 0.0))
        roster = self.roster or Roster(agents=self.agents)
        self._failures = roster.failures
        first = {case.agent: place for place, (case, _) in reversed(list(enumerate(waiting)))}
        if len(first) > roster.most:  # Each starts once if its runs follow each other.
            waiting.sort(key=lambda item: first[item[0].agent])
        queue = iter(waiting)
        # A task for each of 10,000 runs would cost more than the runs. There are more workers than concurrency slots: a
        # run that waits for a judge or for the retry of a model call does not occupy a slot. With fail-fast each run is
        # scored before the next one begins, so there are as many workers as slots now.
        many = self.limiter.size if self.limits.fail_fast else most
        try:
            await together(*(self._worker(queue, roster) for _ in range(min(many, len(waiting)))))
        finally:
            await roster.stop()

    async def _reuse(self, runs: Iterable[tuple[PlannedCase, int]], waiting: list[tuple[PlannedCase, int]]) -> None:
        """Scores the recordings of an earlier process; the other runs are added to `waiting`, in their order."""
        for planned, run in runs:
            recording = self.journal.reuse(planned.run_id(run), planned.fingerprint + self.around)
            if recording is None:
                waiting.append((planned, run))
            else:
                self.reused += 1
                await self._note(planned, await self._score(planned, recording))

    async def _worker(self, queue: Iterable[tuple[PlannedCase, int]], roster: Roster) -> None:
        for planned, run in queue:
            if self._halt is not None:
                return
            async with roster.running(planned.agent):
                unready = await self._unready(planned)
                if unready is None:
                    async with self.limiter.slot() as place:
                        if self._is_used_up():
                            return
                        recording = await self._record(planned, run, place)
                    self.journal.add(recording)
                    self.bill(recording)
                else:  # The agent was not called, so there is nothing to resume from.
                    recording = await self._record(planned, run, error=unready)
                await self._note(planned, await self._score(planned, recording))

    async def _unready(self, planned: PlannedCase) -> RunError | None:
        """Why the custom metrics of a case can't be called. Checked before the agent makes paid model calls."""
        runner = self.agents[planned.agent].metrics
        if runner is None or planned.agent in self._failures:
            return None
        for criterion in map(unlabelled, planned.criteria):
            if isinstance(criterion, CustomMetric | CodeMetric):
                try:
                    await runner.prepare(criterion.function, criterion.code)
                except MetricFailure as failure:
                    error, name = error_of(failure), f"`{criterion.function}`"
                    place = f" ({planned.places[criterion.name]})" if criterion.name in planned.places else ""
                    return error.model_copy(update={"message": error.message.replace(name, name + place, 1)})
        return None

    async def _score(self, planned: PlannedCase, recording: Recording) -> CaseReport:
        from agent_eval.runner.scoring import report_run  # The agent starts without it.

        self.seen(planned, recording)
        replies = None if self.tools is None else self.tools.replies(planned, recording.run)
        metrics = self.agents[planned.agent].metrics
        return await report_run(planned, recording, metrics, replies, self.plan.masker, self._metrics)

    async def _note(self, planned: PlannedCase, part: CaseReport) -> None:
        self._parts.setdefault(planned.case_id, []).append(part)
        self._counts[part.status] = self._counts.get(part.status, 0) + 1
        done, counts = sum(self._counts.values()), dict(self._counts)
        self.on_progress(Progress(total=self.plan.total, done=done, counts=counts, reused=self.reused))
        if self.limits.fail_fast:
            from agent_eval_results import merge

            # Also after a run that passed: the mean over all runs may still be too low.
            parts = self._pad(planned, self._parts[planned.case_id])
            if self.fails(merge(parts, min_pass_rate=self.limits.min_pass_rate)[0]):
                self._halt_runs(
                    "fail-fast", f"{short_name(planned.case_id)} failed, and fail-fast is on", "Fix that case first."
                )

    async def _record(
        self, planned: PlannedCase, run: int, place: Place | None = None, *, error: RunError | None = None
    ) -> Recording:
        """Makes one run. Repeats it once, in its own process, if other runs may have made it fail.

        Args:
            planned: The case.
            run: 0-based.
            place: The run's concurrency slot; None if the agent is not called.
            error: Why the agent is not called.
        """
        started_at, begun = time.time(), time.perf_counter()
        attempts = 0
        tools: CaseTools | None = None

        def begin() -> Recording:
            return Recording(
                schema_version="1",
                run_id=planned.run_id(run),
                case_id=planned.case_id,
                file=planned.file,
                eval_set_id=planned.eval_set_id,
                eval_id=planned.case.eval_id,
                run=run,
                fingerprint=planned.fingerprint + self.around,
                invocations=[],
                started_at=started_at,
                duration=0.0,
            )

        def end() -> Recording:
            if tools is not None:
                tools.ended(error)
            recording.error = error
            recording.duration = round(time.perf_counter() - begun, 6)
            recording.usage = usage_of(() if recording.is_replayed else recording.invocations)
            recording.attempts = max(attempts, 1)
            return recording

        recording = begin()
        failure = self._failures.get(planned.agent)
        if failure is not None:
            error = run_error(failure, None)
            recording.fingerprint = ""  # Its environment may be fixed by then, which no source file shows: not resumed.
        while error is None or (failure is not None and failure.collateral):
            attempts += 1
            recording, tools = begin(), None
            try:
                if place is not None:
                    await place.take_back()
                if self.tools is not None and planned.agent not in self.tools.recorded:
                    tools = self.tools.session(planned, run, recording.invocations)
                    recording.tools = tools.use
                await self._converse(planned, recording, tools, place, isolated=attempts > 1)
                error = None
                recording.ran_before = [] if failure is None else failure.ran_before(planned.case_id)
                break
            except asyncio.CancelledError:
                error = self._halt
                self.bill(end())  # The gate stops the run. The turns that ended have cost something, too.
                raise
            except SimulatorFailure as caught:
                # The agent is not at fault, so there is no reason to repeat the run.
                missed = caught.code == SIMULATOR_CODES["replay-miss"]
                error = RunError(
                    kind=caught.code,
                    owner="agent" if caught.by_file else "gate" if missed else "provider",
                    message=caught.message,
                    hint=caught.hint,
                    turn=len(recording.invocations),
                )
                break
            except AgentFailure as caught:
                failure, error = caught, run_error(caught, len(recording.invocations))
                if failure.kind is FailureKind.SERVER and failure.collateral:
                    # An overloaded server. The run is repeated when there is a place among fewer runs.
                    self.limiter.asked().refused()
                    if place is not None:
                        place.lend()
            if attempts == 2 or not failure.collateral:
                break
            self.bill(end())  # What is repeated has cost something, too.
        return end()

    async def _converse(
        self, planned: PlannedCase, recording: Recording, tools: CaseTools | None, place: Place | None, isolated: bool
    ) -> None:
        turns = recording.invocations
        now = asyncio.get_running_loop().time
        case_end = now() + self.limits.case_timeout
        app_name, user_id, session_id, state, *_ = session_of(planned.given)
        masker = self.plan.masker
        simulated = planned.case.conversation_scenario is not None
        user = user_of(
            planned.case if simulated else planned.given,
            planned.user_config,
            self.model,
            case_id=planned.case_id,
            run=recording.run,
            replies=None if self.tools is None else self.tools.replies(planned, recording.run, of_user=True),
        )
        session = await self.agents[planned.agent].open(
            SessionRequest(
                case_id=planned.case_id,
                eval_set_id=planned.eval_set_id,
                eval_id=planned.case.eval_id,
                run=recording.run,
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                state=state,
                case=planned.given,
                place=place,
                turn_limit=min(self.limits.turn_timeout, self.limits.case_timeout),
                isolated=isolated,
                reads_state=any(map(reads_state, planned.criteria)),
                tools=tools,
            )
        )
        waited = 0.0  # seconds for the simulated user
        try:
            while True:
                asked = now()
                try:
                    async with asyncio.timeout_at(case_end):
                        message = await user.next_message(turns)
                except TimeoutError:
                    raise self._case_too_late(planned, turns, waited + now() - asked) from None
                waited += now() - asked
                if isinstance(message, Stop):
                    if simulated:
                        recording.stop_reason = message.reason
                    if tools is not None:
                        tools.finish()
                    return
                remaining = case_end - now()
                if remaining <= 0:
                    raise self._case_too_late(planned, turns, waited)
                message = masker.revealed(message, planned.secrets) if simulated else message
                try:
                    turn = await session.send(message, timeout=min(self.limits.turn_timeout, remaining))
                    turns.append(_with_masked_message(turn, masker))
                except AgentFailure as failure:
                    recording.unfinished = failure.unfinished and _with_masked_message(failure.unfinished, masker)
                    cut_short = failure.kind is FailureKind.DEADLINE and remaining < self.limits.turn_timeout
                    if not cut_short or failure.collateral:
                        raise
                    raise self._case_too_late(planned, turns, waited, failure) from failure
        finally:
            recording.calls_visible = session.shows_tool_calls
            await session.close()

    def _case_too_late(
        self, planned: PlannedCase, turns: list[Invocation], waited: float, failure: AgentFailure | None = None
    ) -> AgentFailure | SimulatorFailure:
        """The failure of a case that timed out, attributed to whatever took most of the time.

        Args:
            planned: The case.
            turns: The turns that ended.
            waited: Seconds spent waiting for the simulated user.
            failure: The failure of the turn that was cancelled, if any.
        """
        limit = self.limits.case_timeout
        simulated = planned.case.conversation_scenario is not None
        spent = {
            "for the simulated user": waited if simulated else 0.0,
            "for the agent's model": sum(turn.model_duration or 0.0 for turn in turns),
            "in its tools": sum(turn.tool_duration or 0.0 for turn in turns),
        }
        shares = ", ".join(f"{seconds:.1f} s {where}" for where, seconds in spent.items() if seconds >= 0.05)
        ended = f"{plural(len(turns), 'turn')} ended{f' ({shares})' if shares else ''}"
        message = f"The case did not end within case-timeout ({limit:g} s): {ended}"
        if simulated and waited > limit / 2:
            return SimulatorFailure(
                f"{message}; most of the time was spent waiting for the simulated user",
                code=SIMULATOR_CODES["deadline"],
                hint="Raise --case-timeout, or lower max_allowed_invocations.",
            )
        if simulated:
            message += ", and the simulated user had not ended the conversation"
        if failure is not None:
            message += f". Turn {len(turns) + 1}: {failure.message}"
        hint = "Raise --case-timeout, or make the agent faster."
        late = AgentFailure(
            message,
            kind=FailureKind.DEADLINE,
            traceback=failure.traceback if failure is not None else None,
            log_tail=failure.log_tail if failure is not None else None,
            hint=f"{hint} A conversation may also be too long: lower max_allowed_invocations." if simulated else hint,
        )
        if failure is not None:
            late.waited = failure.waited
        return late

    def _pad(self, planned: PlannedCase, parts: list[CaseReport]) -> list[CaseReport]:
        """The parts, with missing runs added as not run."""
        from agent_eval.runner.scoring import report_not_run

        numbers = {part.runs[0].run for part in parts}
        error = (
            planned.skip_reason
            or self._halt
            or RunError(kind=_STOPPED, owner="gate", message="The run did not take place")
        )
        missing = (run for run in self.plan.numbers(planned) if run not in numbers)
        return [*parts, *(report_not_run(planned, run, error) for run in missing)]

    def _reports(self) -> list[CaseReport]:
        from agent_eval_results import merge

        # Case by case, releasing the parts: keeping both would double the memory of a big run.
        return [
            merged
            for case in self.plan.cases
            for merged in merge(
                self._pad(case, self._parts.pop(case.case_id, [])), min_pass_rate=self.limits.min_pass_rate
            )
        ]


def _with_masked_message(turn: Invocation, masker: Masker) -> Invocation:
    """The turn as it is recorded: what came of the agent has been masked before."""
    masked = masker.values(turn.user_content)
    return turn if masked is turn.user_content else turn.model_copy(update={"user_content": masked})


def run_error(failure: AgentFailure, turn: int | None) -> RunError:
    """A failure in the form of recordings and reports."""
    return RunError(
        kind=str(failure.kind),
        owner=failure.owner.value,
        message=shorten(failure.message, _MESSAGE),
        hint=failure.hint,
        traceback=shorten(failure.traceback, _LOG) if failure.traceback else None,
        log_tail=shorten(failure.log_tail, _LOG) if failure.log_tail else None,
        turn=turn,
        no_key=failure.no_key,
        raised=failure.raised,
        waited=failure.waited,
    )
