"""The agent of a recording, called from synchronous code: its event loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent_eval.runner import Chosen, PlannedCase
from agent_eval_agents.protocol import Agent, AgentFailure, CallDecider, FailureKind, Session, SessionRequest
from agent_eval_agents.tapes import read_tape, tape_path
from agent_eval_scoring.core.content import Content, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import AUTO_START
from agent_eval_scoring.core.problem import has_error
from agent_eval_scoring.evalset.discovery import discover
from agent_eval_scoring.evalset.models import EvalCase, EvalConfig, EvalSet, LoadedFile, SessionInput
from agent_eval_scoring.simulation import with_call_ids
from agent_eval_workbench.recording.target import USER_ID, Refused, Target, error
from agent_eval_workbench.sources.conversation import NODE_OUTPUT

if TYPE_CHECKING:
    from agent_eval.pipeline import RunContext
    from agent_eval.runner import Tapes
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoice, AgentChoices


@dataclass(frozen=True, kw_only=True)
class ChosenAgent:
    """The agent of a new case."""

    choices: AgentChoices
    choice: AgentChoice
    app_name: str | None
    """For `session_input`; None if it is better left out."""
    flag: str | None
    """The value of `--agent` that `run` needs to choose it, too; None if it needs none."""


def choose_agent(target: Target, settings: Settings, app_name: str | None, state: Mapping[str, Any]) -> ChosenAgent:
    """Chooses the agent as `run` does.

    Args:
        target: The eval file.
        settings: The rules: `--agent`, `[agents]`.
        app_name: `--app-name`; None to derive it from the agent.
        state: With which the case begins.

    Raises:
        Refused: No agent answers, or several could.
    """
    choices = _choices(target, settings, app_name, state, explicit=settings.agent)
    if has_error(choices.problems) or target.name not in choices.by_file:
        raise Refused(choices.problems)
    choice = choices.by_file[target.name]
    if choice.driver.reads_file:
        hint = "Name an agent that runs, or make cases of the recording with --from."
        raise error("record-source", f"{choice.path} is a recording, which can't be asked.", hint)
    directory = choice.directory(settings.root)
    derived = app_name or (directory.resolve().name if directory is not None else None)
    # The agent's own name first: with it in `session_input`, `run` finds the agent without a flag.
    for name in dict.fromkeys((derived, app_name)):
        # Tried, not derived: `[agents]`, a nearer agent or another agent of that name may decide otherwise.
        selected = _choices(target, settings, name, state, explicit=None).by_file.get(target.name)
        if selected is not None and selected.path == choice.path:
            return ChosenAgent(choices=choices, choice=choice, app_name=name, flag=None)
    return ChosenAgent(choices=choices, choice=choice, app_name=derived, flag=settings.agent or choice.path)


def _choices(
    target: Target, settings: Settings, app_name: str | None, state: Mapping[str, Any], *, explicit: str | None
) -> AgentChoices:
    from agent_eval_agents.discovery import choose_agents

    session = SessionInput(app_name=app_name or "", user_id=USER_ID, state=dict(state)) if app_name or state else None
    turn = Invocation(user_content=user_message("?"))
    new = EvalCase(eval_id="new", conversation=[turn], session_input=session)
    # The other cases of the file count, since they choose its agent, too.
    cases = [new] if target.index is not None or not target.cases else [*target.cases, new]
    loaded = LoadedFile(
        path=target.name,
        eval_set=EvalSet(eval_set_id=target.set_id, eval_cases=cases),
        config=EvalConfig(source=None, criteria=()),
        cases=tuple(cases),
    )
    return choose_agents(
        settings.root,
        [loaded],
        explicit=explicit,
        mapping=settings.agents,
        everything=lambda: [file.name for file in discover(settings.root).files],
        stateless={f"server:{name}" for name, server in settings.servers.items() if server.protocol == "a2a"},
        ignore_state="ignore-state" in settings.remote_sessions,
    )


_NEW = EvalCase(eval_id="new", conversation=[])


class Taping:
    """The tape of one new case."""

    def __init__(self, opened: Callable[[], Tapes | None], root: Path, file: str, eval_set_id: str) -> None:
        """Begins with nothing.

        Args:
            opened: Opens tapes that record all calls.
            root: The repository.
            file: The eval file, relative to the root.
            eval_set_id: The eval set that gets the case.
        """
        self._opened = opened
        self._root = root
        self._file = file
        self._eval_set_id = eval_set_id
        self.adk = ""
        """The version of google-adk that runs the tools."""
        self.chosen: int | None = 0
        """The session whose model calls become the tape; None if the sessions differ."""
        self.is_written = True
        """False after `write` if the tape's directory or disk took nothing."""
        self.restart()

    def restart(self) -> None:
        """Forgets what was recorded: the conversation begins again."""
        self._numbers = itertools.count()
        self._tapes = self._opened()

    def session(self) -> CallDecider:
        """Records the tools of a session."""
        assert self._tapes is not None
        return self._tapes.session(self._planned(_NEW), next(self._numbers), [])

    def write(self, case: EvalCase) -> Sequence[str]:
        """Writes the tape of the case, which is known now.

        Returns:
            Lines for the reader: what was written, and what looks wrong.
        """
        assert self._tapes is not None
        new, named = map(self._planned, (_NEW, case))
        # The id is known only after the conversation: it may be made of its first message.
        self._tapes.rename(new, named)
        chosen = None if self.chosen is None else Chosen(run=self.chosen)
        lines = self._tapes.write({"": self.adk}, {new.case_id: chosen})
        self.is_written = not self._tapes.unwritten
        return lines + self._tapes.unwritten

    def replay(self, eval_id: str) -> str:
        """The value of `replay` with which the new tape answers the most."""
        tape = read_tape(tape_path(self._root, self._file, eval_id), self._root)
        return "missing-live" if tape is not None and tape.model_calls else "tools"

    def _planned(self, case: EvalCase) -> PlannedCase:

        return PlannedCase(
            case_id=f"{self._file}:{case.eval_id}",
            file=self._file,
            line=None,
            eval_set_id=self._eval_set_id,
            case=case,
            criteria=(),
            agent="",
            fingerprint="",
        )


def taping_of(settings: Settings, choices: AgentChoices, file: str, eval_set_id: str) -> Taping | None:
    """The recorder of the tools of a new case; None without `record`.

    Raises:
        Refused: The agent's tools do not run under our control.
    """
    from agent_eval.pipeline import open_tapes, tapes_unsupported

    if settings.record == "off":
        return None
    if problems := tapes_unsupported(settings, choices):
        raise Refused(problems)
    recording = dataclasses.replace(settings, replay="off", record="all")
    return Taping(functools.partial(open_tapes, recording), settings.root.absolute(), file, eval_set_id)


_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class SessionStart:
    """With what each session begins."""

    eval_set_id: str
    eval_id: str
    app_name: str
    user_id: str
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Take:
    """One conversation with the agent."""

    turns: Sequence[Invocation]
    calls_visible: bool
    """False if the agent's interface does not show its tool calls."""


@dataclass(kw_only=True)
class LiveAgent:
    """A started agent."""

    agent: Agent
    thread: _LoopThread
    start: SessionStart
    taping: Taping | None
    concurrency: int | None
    case_timeout: float
    turn_timeout: float

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    def open(self) -> LiveSession:
        """Opens a session. The case's tape does not contain the tools of earlier sessions.

        Raises:
            AgentFailure: The session can't be opened.
        """
        if self.taping is not None:
            self.taping.restart()
        return LiveSession(self.thread, self.thread.run(self._open()), self.turn_timeout)

    def converse(self, messages: Sequence[Content], runs: int) -> list[Take]:
        """Sends the messages in as many sessions as there are runs.

        Raises:
            AgentFailure: A turn has failed.
        """
        return self.thread.run(self._converse(messages, runs))

    async def _converse(self, messages: Sequence[Content], runs: int) -> list[Take]:
        slots = asyncio.Semaphore(self.concurrency or AUTO_START)

        async def take() -> Take:
            async with slots:
                session = await self._open()
                try:
                    async with asyncio.timeout(self.case_timeout):
                        turns: list[Invocation] = []
                        for message in messages:
                            # An answer to a long-running call names the id of this session's call, not of the message's
                            # first use.
                            sent = with_call_ids(message, turns)
                            turns.append(answered(await session.send(sent, timeout=self.turn_timeout)))
                    return Take(turns=turns, calls_visible=session.shows_tool_calls)
                except TimeoutError as error:
                    raise _too_late(self.case_timeout) from error
                finally:
                    await session.close()

        tasks = [asyncio.create_task(take()) for _ in range(runs)]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            # Until all have closed their sessions: the agent's process ends right after this.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self) -> Session:

        start = self.start
        request = SessionRequest(
            eval_set_id=start.eval_set_id,
            eval_id=start.eval_id,
            run=next(self._numbers),
            app_name=start.app_name,
            user_id=start.user_id,
            state=start.state,
            turn_limit=self.turn_timeout,
            # For `--expect state`.
            reads_state=True,
            tools=None if self.taping is None else self.taping.session(),
        )
        return await self.agent.open(request)


def answered(turn: Invocation) -> Invocation:
    """The turn, which has an answer.

    Raises:
        AgentFailure: It has none, e.g. because the agent's model returned an error.
    """
    # A case that expects no answer would accept any, so that it could never fail.
    if turn.final_response is not None and turn.final_response.parts:
        return turn
    hint = "The model may have returned an error or an empty answer. Ask again, or look at the agent's log."
    raise AgentFailure(
        "The turn ended without an answer", kind=FailureKind.NO_ANSWER, hint=NODE_OUTPUT if turn.node_output else hint
    )


def _too_late(limit: float) -> Exception:

    return AgentFailure(
        f"The conversation did not end within case-timeout ({limit:g} s)",
        kind=FailureKind.DEADLINE,
        hint="Raise --case-timeout, or make the agent faster.",
    )


class LiveSession:
    """One conversation, turn by turn."""

    def __init__(self, thread: _LoopThread, session: Session, timeout: float) -> None:
        self._thread = thread
        self._session = session
        self._timeout = timeout

    @property
    def calls_visible(self) -> bool:
        """False if the agent's interface does not show its tool calls."""
        return self._session.shows_tool_calls

    def send(self, message: Content) -> Invocation:
        """Sends a message and waits for the end of the turn. An interrupt breaks the turn off, and the session with it.

        Raises:
            AgentFailure: The turn has failed.
            KeyboardInterrupt: The user has interrupted it.
        """
        return answered(self._thread.run(self._session.send(message, timeout=self._timeout)))

    def close(self) -> None:
        """Ends the session."""
        self._thread.run(self._session.close())


@contextlib.contextmanager
def live_agent(
    settings: Settings, context: RunContext, choices: AgentChoices, start: SessionStart, taping: Taping | None = None
) -> Iterator[LiveAgent]:
    """Starts the agent of a file; it has ended when the block is left.

    Args:
        settings: As for a run. The results of an earlier run are not touched.
        context: The environment, and where lines are logged.
        choices: The agent.
        start: With what each session begins.
        taping: Records the answers of the tools.

    Raises:
        AgentUnavailable: The agent is configured wrongly, or can't be isolated as required.
        AgentFailure: The agent fails when it starts.
    """
    from agent_eval.pipeline import open_live_agent

    with tempfile.TemporaryDirectory(prefix="agent-eval-record-") as folder, _LoopThread() as thread:
        # A new conversation has no tape yet, so tools run.
        record: Literal["off", "all"] = "all" if taping else "off"
        # Another output directory: the results of the last run are what the user may want to accept next.
        settings = dataclasses.replace(settings, output_dir=Path(folder), replay="off", record=record)
        opened = open_live_agent(settings, context, choices)
        # By hand, not `async with`: entered and left in the thread's loop, while this function is a generator in
        # another thread.
        agent = thread.run(opened.__aenter__())
        try:
            if taping is not None:
                taping.adk = agent.provenance.get("adk", "")
            yield LiveAgent(
                agent=agent,
                thread=thread,
                start=start,
                taping=taping,
                concurrency=settings.concurrency,
                case_timeout=settings.case_timeout,
                turn_timeout=settings.turn_timeout,
            )
        finally:
            thread.run(opened.__aexit__(None, None, None))


class _LoopThread:
    """An event loop in a thread, so that a prompt in the main thread does not stop it."""

    def __enter__(self) -> _LoopThread:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that an error between here and `__exit__` does not keep the program alive.
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Runs a coroutine to its end. An interrupt cancels it, and is raised once it has ended."""
        done = threading.Event()

        async def work() -> _Result:
            try:
                return await coroutine
            finally:
                done.set()

        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            # The future is cancelled at once, the coroutine only when it has cleaned up: the next one must not run
            # beside it.
            done.wait()
            raise
