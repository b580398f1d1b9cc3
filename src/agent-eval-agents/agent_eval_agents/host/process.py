"""One host process: start, messages, end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval_agents import messages
from agent_eval_agents.host import blame
from agent_eval_agents.host._facts import HostExit, HostSpec, Turn, how_it_ended
from agent_eval_agents.host._log import HostLog
from agent_eval_agents.host._program import PROGRAM
from agent_eval_agents.host.connection import NO_ANSWER, VERSION, Connection, ConnectionLost, ProtocolError, RemoteError
from agent_eval_agents.host.parents import Fork, ForkedHost
from agent_eval_agents.protocol import AgentFailure, CallDecider, EnvironmentFailure, FailureKind, LateLoad, Owner
from agent_eval_agents.sandbox import Child, kill_group, kill_now

ADAPTERS = (PROGRAM.with_name("agent_eval_deepeval.py"),)
"""Modules beside our package that custom metrics can use without installing them."""
_CANCEL_GRACE = 2.0
"""Seconds for a cancelled turn to end."""
_STACK_SECONDS = 1.0
_EXIT_SECONDS = 1.0
"""Seconds for a process to exit after it closed its connection."""
_SHUTDOWN_SECONDS = 3.0
_NO_PROCESS_IDS = (
    "The machine or the container (--pids-limit) has no process ids left. Raise the limit, or lower `--workers`."
)


_News = (
    messages.Waiting
    | messages.Started
    | messages.ToolRan
    | messages.ToolsetListed
    | messages.ModelRan
    | messages.ModelNews
    | messages.Pause
)
_NEWS: Mapping[str, type[_News]] = {
    "waiting": messages.Waiting,
    "started": messages.Started,
    "tool_ran": messages.ToolRan,
    "toolset_listed": messages.ToolsetListed,
    "model_ran": messages.ModelRan,
    "model": messages.ModelNews,
    "pause": messages.Pause,
}
"""Notifications about a turn."""


class HostProcess:
    """A running host. Create one with `start`."""

    def __init__(self, spec: HostSpec, log: HostLog) -> None:
        """Use `start`."""
        self._spec = spec
        self.log = log
        self.python: str | None = None
        """The interpreter's version, after the host's `hello`."""
        self.loaded = messages.Loaded()
        self.exit: HostExit | None = None
        self.sessions = 0
        """Open sessions, counted by the agent."""
        self.served: list[str] = []
        """The cases of all sessions so far, noted by the agent."""
        self._turns: dict[int, Turn] = {}
        self._hello: asyncio.Future[messages.Hello] = asyncio.get_running_loop().create_future()
        self._hello.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may never be retrieved
        self._connection = Connection(masker=spec.masker, on_notify=self._on_notify, on_request=self._on_request)
        self._process: Child | None = None
        self._closing: str | None = None
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, spec: HostSpec, name: str) -> HostProcess:
        """Starts a process and loads the agent in it.

        Args:
            spec: The agent.
            name: Name of the log file.

        Raises:
            AgentFailure: The process can't be started, or the agent can't be loaded; a LateLoad if that takes too long.
        """
        fork = await spec.parents.fork_of(spec)
        host = cls(spec, HostLog(spec.log_dir / f"{name}.log", masker=spec.masker, limit=spec.log_limit))
        try:
            async with asyncio.timeout(spec.start_timeout):
                await host._spawn(fork)
                await host._load()
        except TimeoutError:
            stack = await host._stack()
            await host.end(f"did not load within {spec.start_timeout:.0f} s")
            raise LateLoad(
                f"The agent could not be loaded within {spec.start_timeout:.0f} s.",
                kind=FailureKind.IMPORT,
                traceback=stack.where or None,
                log_tail=host.log.tail() or None,
                hint="Something blocks while the agent is imported: a network call, a lock, an endless loop.",
            ) from None
        except RemoteError as error:
            await host.end("could not load the agent")
            place = Path(spec.agent_path)
            raise blame.failed_load(error, host.log.tail() or None, host.withheld, place, spec.root) from None
        except (ConnectionLost, ProtocolError):
            exit = await host.wait_ended()
            if host.orphaned:
                return await cls.start(spec, name)
            if exit.kind is FailureKind.PROTOCOL:
                raise host.died(collateral=False) from None
            if host.python is None and "SIGKILL" not in exit.message:  # which no interpreter does to itself
                raise EnvironmentFailure(
                    f"The agent's interpreter {spec.python[0]} {exit.message} before it could load anything.",
                    log_tail=exit.log_tail or None,
                    hint=_NO_PROCESS_IDS
                    if "can't start new thread" in exit.log_tail
                    else "It must be Python 3.10 or newer, and the agent's user must be able to execute it.",
                ) from None
            raise AgentFailure(
                f"The agent can't be imported: its process {exit.message} while it was loaded.",
                kind=FailureKind.IMPORT,
                log_tail=exit.log_tail or None,
                hint=exit.hint,
            ) from None
        except BaseException:
            await host.end("was not needed any more")
            raise
        return host

    async def _spawn(self, fork: Fork | None) -> None:
        """Starts the interpreter, and opens the connection."""
        ours, theirs = socket.socketpair()
        try:
            if fork is not None:
                with contextlib.suppress(OSError):
                    self._process = await fork(self._spec.directory, theirs)
            self._process = self._process or await self._spec.start(theirs)
        except BaseException as error:
            ours.close()
            if not isinstance(error, OSError):
                raise
            raise EnvironmentFailure(
                f"The agent's interpreter can't be started: {error}",
                hint=_NO_PROCESS_IDS
                if error.errno == errno.EAGAIN
                else f"Check that {self._spec.python[0]} exists and that the agent's user may execute it.",
            ) from error
        finally:
            theirs.close()
        await self._connection.open(ours)
        self._watcher = asyncio.create_task(self._watch())

    async def _load(self) -> None:
        hello = await self._hello
        self.python = hello.python
        spec = self._spec
        params: dict[str, Any] = {"agent": spec.agent_path, "root": str(spec.root), "retry": dict(spec.retry)}
        if spec.sub_agent:
            params["sub_agent"] = spec.sub_agent
        asked = {"tools": spec.asks_for_tools, "models": spec.asks_for_models}
        params |= {name: True for name, is_asked in asked.items() if is_asked}
        if spec.role == "metrics":
            params["modules"] = {path.stem: path.read_text("utf-8") for path in ADAPTERS}
        _, answer = self._connection.ask("load", params)
        try:
            self.loaded = messages.Loaded.model_validate(await answer)
        except ValidationError as error:
            await self.end("sent an invalid response to `load`")
            raise ConnectionLost("the host was ended") from error
        if spec.described is not None and not spec.described:
            self._in_background(self._describe(spec.described, self._connection.ask("agents", {})[1]))

    @staticmethod
    async def _describe(described: list[messages.AgentDescribed], answer: asyncio.Future[Any]) -> None:
        """Notes what the agents are. Nothing depends on it: a host that can't say it goes on."""
        with contextlib.suppress(RemoteError, ConnectionLost, ProtocolError, ValidationError):
            described[:] = messages.AgentsDescribed.model_validate(await answer).agents

    @property
    def withheld(self) -> frozenset[str]:
        """Names of variables that are set for us but not for the host."""
        return self._spec.sandbox.withheld

    @property
    def ending(self) -> bool:
        """Whether it accepts no more sessions."""
        return self._closing is not None or self._connection.lost

    @property
    def orphaned(self) -> bool:
        """Whether it has ended because the process that forked it had ended."""
        return isinstance(self._process, ForkedHost) and self._process.orphaned

    @property
    def is_fork(self) -> bool:
        """Whether another process has forked it, and can fork others."""
        return isinstance(self._process, ForkedHost) and self._process.parent.forks

    # -- messages of the host

    async def _on_request(self, method: str, params: dict[str, Any]) -> Any:
        if method == "tool":
            call = messages.ToolAsked.model_validate(params)
            look = functools.partial(self._connection.look, call.call)
            return await self._decided(
                call.turn, lambda turn, decider: decider.ask(call, lambda: turn.calls_of(turn.events), look)
            )
        if method == "model":
            asked = messages.ModelAsked.model_validate(params)
            return await self._decided(asked.turn, lambda _, decider: _about_model(decider, asked))
        if method == "toolset":
            toolset = messages.ToolsetAsked.model_validate(params)
            turn = self._turns.get(toolset.turn)
            return {"do": "run"} if turn is None or turn.tools is None else turn.tools.toolset(toolset)
        if method != "hello":
            raise RemoteError("unknown-method", f"the gate has no method {method!r}", {})
        hello = messages.Hello.model_validate(params)
        role = self._spec.role
        if VERSION not in hello.versions or role not in (hello.role, *hello.roles):
            raise RemoteError("version", f"the gate speaks version {VERSION} with role {role}", {})
        if not self._hello.done():
            self._hello.set_result(hello)
        return {"version": VERSION, "role": role}

    async def _decided(self, number: int, decide: Callable[[Turn, CallDecider], Awaitable[Mapping[str, Any]]]) -> Any:
        """Whether a call of a turn is made, or what it would have returned. Ends with the turn."""
        turn, task = self._turns.get(number), asyncio.current_task()
        if turn is None or turn.outage.done():
            return NO_ANSWER  # The turn is being cancelled.
        if turn.tools is None:
            return {"do": "run"}
        turn.answer.add_done_callback(lambda _: task.cancel() if task else None)
        try:
            return await decide(turn, turn.tools)
        except AgentFailure as failure:
            if not turn.outage.done():
                turn.outage.set_result(failure)
        except Exception as error:  # A mistake of ours must not look like a slow agent.
            if not turn.outage.done():
                turn.outage.set_exception(error)
        return NO_ANSWER

    def _on_notify(self, method: str, params: dict[str, Any]) -> None:
        if method == "event":
            number, event = params.get("turn"), params.get("event")
            turn = self._turns.get(number) if isinstance(number, int) else None
            if turn is not None and isinstance(event, dict):
                turn.events.append(event)
                if turn.tools is not None:
                    turn.tools.event(event)
        elif (model := _NEWS.get(method)) is not None:  # Others are from a newer host.
            news = model.model_validate(params)
            if (turn := self._turns.get(news.turn)) is not None:
                try:
                    self._on_news(turn, news)
                except AgentFailure as failure:
                    if not turn.outage.done():
                        turn.outage.set_result(failure)

    def _on_news(self, turn: Turn, news: _News) -> None:
        match news:
            case messages.Waiting():
                turn.waiting = news
            case messages.Started():
                turn.started.set()
            case messages.ToolRan() if turn.tools is not None:
                turn.tools.ran(news)
            case messages.ToolsetListed() if turn.tools is not None:
                turn.tools.listed(news)
            case messages.ModelRan() if turn.tools is not None:
                turn.tools.model_ran(news)
            case messages.ModelNews():
                if self._spec.outages is not None:
                    self._spec.outages.note(turn.outage, news)
                if turn.tools is not None and news.what == "asked":
                    turn.tools.model_news(news)
            case messages.Pause():
                self._in_background(self._wait_and_resume(turn, news))

    @property
    def pid(self) -> int:
        """The id of the started process; a sandbox replaces itself by the agent's interpreter."""
        assert self._process is not None
        return self._process.pid

    # -- turns

    def begin(self, params: Mapping[str, Any], method: str = "send") -> Turn:
        """Sends a turn, or a call of a custom metric (`evaluate`)."""
        number, answer = self._connection.ask(method, params)
        outage = asyncio.get_running_loop().create_future()
        turn = Turn(number=number, answer=answer, outage=outage)
        self._turns[number] = turn
        answer.add_done_callback(lambda _: self._ended_turn(turn))
        return turn

    def _ended_turn(self, turn: Turn) -> None:
        self._turns.pop(turn.number, None)
        if self._spec.outages is not None:
            self._spec.outages.ended(turn.outage)

    async def _wait_and_resume(self, turn: Turn, pause: messages.Pause) -> None:
        """Resumes a model call after its pause, when it has a concurrency slot."""
        if turn.place is not None:
            turn.place.lend()
        await asyncio.wait({turn.answer}, timeout=pause.seconds)
        if turn.place is not None and turn.number in self._turns:
            await turn.place.take_back()
        self._connection.notify("resume", {"call": pause.call})

    async def cancel(self, turn: Turn) -> bool:
        """Cancels a turn. If the host responds, `turn.waiting` then says what the turn was waiting for.

        Returns:
            Whether the turn has ended.
        """
        _, answer = self._connection.ask("cancel", {"turn": turn.number})
        try:
            async with asyncio.timeout(_CANCEL_GRACE):
                await answer
        except (TimeoutError, RemoteError, ConnectionLost, ProtocolError):
            return False
        finally:
            self._ended_turn(turn)
        return True

    def abandon(self, turn: Turn) -> None:
        """Cancels a turn in the background."""

        async def cancel() -> None:
            if not await self.cancel(turn) and self.exit is None:
                await self.end("did not respond when a turn was cancelled")

        self._in_background(cancel())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, session: str) -> None:
        """Closes a session in the host."""
        self._connection.notify("close_session", {"session": session})

    async def _stack(self) -> messages.Stack:
        """The stack of the host's main thread, if available; also works if the host is blocked."""
        if self.exit is not None:
            return messages.Stack()
        _, answer = self._connection.ask("stack", {})
        try:
            async with asyncio.timeout(_STACK_SECONDS):
                return messages.Stack.model_validate(await answer)
        except (TimeoutError, RemoteError, ConnectionLost, ProtocolError, ValidationError):
            return messages.Stack()

    async def end_hung(self, *, ask: bool) -> messages.Stack:
        """Kills a host that does not respond; with `ask`, returns its stack if available."""
        stack = await self._stack() if ask else messages.Stack()
        await self.end("did not respond any more and was killed by the gate")
        return stack

    # -- the end

    async def _watch(self) -> None:
        """Reads the connection and the log until the process ends. Sets `exit` in every case."""
        try:
            await self._follow()
        finally:
            if self.exit is None:
                self.exit = HostExit(message="was lost by the gate", kind=FailureKind.CRASH, log_tail=self.log.tail())
            if not self._hello.done():
                self._hello.set_exception(ConnectionLost("the host ended before its hello"))
            self._ended.set()

    async def _follow(self) -> None:
        """Reads until the process ends, and determines how it ended."""
        process = self._process
        assert process is not None and process.stdout is not None, "started before"
        logging = asyncio.create_task(self.log.read(process.stdout))
        exited = asyncio.create_task(self._exited(process))
        reading = asyncio.create_task(self._connection.run())
        protocol_error: BaseException | None = None
        try:
            await asyncio.wait({reading, exited}, return_when=asyncio.FIRST_COMPLETED)
            # Whatever ended first, the other one follows at once, unless something is wrong.
            await asyncio.wait({reading, exited}, timeout=_EXIT_SECONDS if not self._has_protocol_error(reading) else 0)
            protocol_error = reading.exception() if self._has_protocol_error(reading) else None
            returncode = process.returncode
        finally:
            # Processes that it left behind keep the log open. Read the rest of the log before the pipe closes.
            kill_now(process)
            await asyncio.wait({logging}, timeout=_EXIT_SECONDS)
            await kill_group(process)
            for task in (logging, exited, reading):
                task.cancel()
            await asyncio.gather(logging, exited, reading, return_exceptions=True)
            await self._connection.close()
            self.log.close()
        self.exit = how_it_ended(returncode, protocol_error, ended_by_gate=self._closing, log_tail=self.log.tail())

    @staticmethod
    def _has_protocol_error(reading: asyncio.Task[None]) -> bool:
        return reading.done() and not reading.cancelled() and reading.exception() is not None

    @staticmethod
    async def _exited(process: Child) -> None:
        with contextlib.suppress(ProcessLookupError):
            await process.wait()

    async def wait_ended(self) -> HostExit:
        """Waits until the process has ended; the connection is already lost."""
        await self._ended.wait()
        assert self.exit is not None, "set before the event"
        return self.exit

    def died(self, *, collateral: bool) -> AgentFailure:
        """The failure of a session whose host has ended.

        Args:
            collateral: Whether another session may have ended it.
        """
        exit = self.exit
        assert exit is not None, "only after the end"
        return AgentFailure(
            f"The agent's process {exit.message}.",
            kind=exit.kind,
            log_tail=exit.log_tail or None,
            hint=exit.hint,
            collateral=collateral or self.orphaned,
            served=self.served,
        )

    async def end(self, why: str) -> None:
        """Kills the process and everything in its group. Never raises."""
        self._closing = self._closing or why
        if self._process is None:
            self.log.close()
            self.exit = self.exit or HostExit(message=why, kind=FailureKind.CRASH, log_tail="")
            self._ended.set()
            return
        if not self._ended.is_set():
            kill_now(self._process)
            await self._ended.wait()

    async def close(self) -> None:
        """Asks the host to close its tools, then ends it. Never raises."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.exit is None and self._closing is None:
            self._closing = "was closed"
            _, answer = self._connection.ask("shutdown", {})
            with contextlib.suppress(TimeoutError, RemoteError, ConnectionLost, ProtocolError):
                async with asyncio.timeout(_SHUTDOWN_SECONDS):
                    await answer
        await self.end("was closed")


async def _about_model(decider: CallDecider, asked: messages.ModelAsked) -> Mapping[str, Any]:
    if asked.unreadable:
        raise AgentFailure(
            f"The agent's google-adk can't read a recorded answer of a model: {asked.unreadable}",
            kind=FailureKind.NOT_REPLAYABLE,
            owner=Owner.GATE,
        )
    return await decider.model(asked)
