"""Runs custom metrics in separate host processes, apart from the agent's.

A function that hangs or ends its process also interrupts the other calls in that process. Each of those calls is
repeated in its own process, so that only the faulty function fails.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import ValidationError

from agent_eval_agents.host import blame
from agent_eval_agents.host._facts import HostSpec, Turn
from agent_eval_agents.host.connection import ConnectionLost, ProtocolError, RemoteError
from agent_eval_agents.host.process import HostProcess
from agent_eval_agents.protocol import AgentFailure
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import adk_value
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.evalset.metric_runner import Evaluated, MetricCall, MetricFailure, MetricFailureKind

_STRIKES = 2
"""Times that a function may hang or end its process before it is no longer called."""
_RESTARTS = 4
"""Attempts for a call that was interrupted before it began."""
_APART = 2
"""Maximum processes for repeated calls, besides the shared process."""
_GRACE = 5.0
"""Seconds to end a call that timed out, before the queued calls give up on the process."""
_ENVIRONMENT_HINT = (
    "Custom metrics run in the agent's environment: add google-adk 1.24 or newer and the metric's imports "
    "(`--agent-requirements`, `--agent-python`)."
)


Role = Literal["metrics", "functions"]


def _role(params: Mapping[str, Any]) -> Role:
    """The host that a call needs: one with google-adk, or one for code of agents-cli's, which needs nothing."""
    return "functions" if "code" in params else "metrics"


class _Interrupted(AgentEvalError):
    """The process has ended, maybe because of another call."""

    def __init__(self, *, started: bool) -> None:
        super().__init__()
        self.started = started


class MetricHosts:
    """Implements `evalset.metric_runner.MetricRunner`."""

    def __init__(self, spec: Callable[[], Awaitable[HostSpec]], *, name: str, timeout: float) -> None:
        """Describes the hosts; nothing is started yet.

        Args:
            spec: Returns how to start a host with the role `metrics`. Called when the first function is needed; may
                raise an AgentFailure.
            name: Prefix of the log files.
            timeout: Seconds that a call may take, after it has begun.
        """
        self._spec = spec
        self._name = name
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._lock = asyncio.Lock()
        self._shared: dict[Role, HostProcess] = {}
        self._alone: set[HostProcess] = set()
        self._apart = asyncio.Semaphore(_APART)
        self._failures: dict[Role, MetricFailure] = {}
        self._prepared: dict[tuple[str, str | None], asyncio.Task[Any]] = {}
        self._strikes: Counter[str] = Counter()
        self._calls: dict[HostProcess, set[Turn]] = {}
        self._progress_at = 0.0
        self._closed = False

    async def prepare(self, function: str, code: str | None = None) -> None:
        """Imports a function once; see `MetricRunner.prepare`."""
        task = self._prepared.get((function, code))
        if task is None:
            params = {"function": function, **({"code": code} if code is not None else {})}
            task = self._prepared[function, code] = asyncio.create_task(self._call(function, params))
        try:
            await asyncio.shield(task)
        except MetricFailure as failure:
            # All waiting calls share the task: one exception raised twice would collect both tracebacks.
            raise failure.copy() from None

    async def evaluate(self, call: MetricCall) -> Evaluated:
        """Calls a function; see `MetricRunner.evaluate`."""
        await self.prepare(call.function, call.code)
        params: dict[str, Any] = {"metric": call.metric, "function": call.function}
        if call.code is not None:
            params |= {"code": call.code, "instance": dict(call.instance)}
        else:
            params |= {
                "criterion": dict(call.criterion),
                "actual": [adk_value(turn) for turn in call.actual],
                "session_states": call.session_states,
                "expected": None if call.expected is None else [adk_value(turn) for turn in call.expected],
                "scenario": None if call.scenario is None else call.scenario.model_dump(mode="json", exclude_none=True),
            }
        result = await self._call(call.function, params)
        try:
            return Evaluated.model_validate(result)
        except ValidationError as error:
            raise MetricFailure(
                f"The process of `{call.function}` sent an answer that can't be read: {shorten(str(error), 600)}",
                kind=MetricFailureKind.CRASH,
                hint="The metric writes to file descriptors that it does not own.",
            ) from error

    async def _call(self, function: str, params: Mapping[str, Any]) -> Any:
        for _ in range(_RESTARTS):
            self._refuse_faulty(function)
            try:
                return await self._once(await self._host(_role(params)), function, params)
            except _Interrupted as lost:
                # One that had not begun did nothing, so that it may go on in the next shared process.
                if lost.started:
                    return await self._call_alone(function, params)
        raise self._strike(function, f"`{function}` was not called: other functions repeatedly ended its process")

    async def _call_alone(self, function: str, params: Mapping[str, Any]) -> Any:
        async with self._apart:
            self._refuse_faulty(function)
            host = await self._start(_role(params))
            self._alone.add(host)
            try:
                return await self._once(host, function, params)
            except _Interrupted:
                raise self._strike(function, f"The process of `{function}` ended") from None
            finally:
                self._alone.discard(host)
                await host.close()

    def _refuse_faulty(self, function: str) -> None:
        if self._strikes[function] >= _STRIKES:
            raise MetricFailure(
                f"`{function}` was not called any more: it hung, or ended its process, {self._strikes[function]} times",
                kind=MetricFailureKind.CRASH,
                hint="See the errors of the earlier cases.",
            )

    def _strike(
        self, function: str, message: str, kind: MetricFailureKind = MetricFailureKind.CRASH, **facts: Any
    ) -> MetricFailure:
        self._strikes[function] += 1
        return MetricFailure(message, kind=kind, **facts)

    # -- one call in one process

    async def _once(self, host: HostProcess, function: str, params: Mapping[str, Any]) -> Any:
        calls = self._calls.setdefault(host, set())
        call = host.begin(params, "evaluate")
        calls.add(call)
        self._mark_progress()
        try:
            return await self._answer(host, call, function)
        except MetricFailure as failure:
            if "code" in params:
                failure.hint = blame.hint_for_code(failure.kind, failure.message) or failure.hint
            raise
        finally:
            self._mark_progress()
            calls.discard(call)
            if not calls:
                self._calls.pop(host, None)

    def _mark_progress(self) -> None:
        self._progress_at = asyncio.get_running_loop().time()

    async def _answer(self, host: HostProcess, call: Turn, function: str) -> Any:
        try:
            await self._wait(host, call)
        except asyncio.CancelledError:
            host.abandon(call)
            raise
        if not call.answer.done():
            raise await self._too_late(host, call, function)
        try:
            return call.answer.result()
        except RemoteError as error:
            raise blame.failed_metric(function, error, host.log.tail() or None, host.withheld) from None
        except (ConnectionLost, ProtocolError):
            # Which of several calls ended the process can't be seen: each runs again alone, where it can.
            if self._may_be_innocent(host, call):
                raise _Interrupted(started=call.started.is_set()) from None
            exit = await host.wait_ended()
            raise self._strike(
                function, f"The process of `{function}` {exit.message}", log_tail=exit.log_tail or None, hint=exit.hint
            ) from None

    async def _wait(self, host: HostProcess, call: Turn) -> None:
        """Waits for the answer: while other calls make progress, and for the timeout after the call has begun."""
        now = asyncio.get_running_loop().time
        started = asyncio.create_task(call.started.wait())
        try:
            while not call.answer.done() and not started.done():
                # A call waits for its turn as long as others end: a queue of slow calls is no hung process.
                remaining = self._progress_at + self._timeout + _GRACE - now()
                if remaining <= 0:
                    await host.end_hung(ask=False)
                    await asyncio.wait({call.answer}, timeout=_GRACE)
                    return
                await asyncio.wait({call.answer, started}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            self._mark_progress()
            await asyncio.wait({call.answer}, timeout=self._timeout)
        finally:
            started.cancel()

    def _may_be_innocent(self, host: HostProcess, call: Turn) -> bool:
        """Whether another call may have ended the process, or this call had not begun."""
        others = self._calls.get(host, set()) - {call}
        return not call.started.is_set() or any(other.started.is_set() for other in others)

    async def _too_late(self, host: HostProcess, call: Turn, function: str) -> Exception:
        ended = await host.cancel(call)
        stack = call.waiting.where if call.waiting is not None else None
        innocent = not ended and self._may_be_innocent(host, call)
        if not ended:
            stack = (await host.end_hung(ask=not stack)).where or stack
        if innocent:
            return _Interrupted(started=call.started.is_set())
        killed = "" if ended else ", could not be stopped, and its process was killed"
        return self._strike(
            function,
            f"`{function}` did not return within {self._timeout:g} s{killed}",
            MetricFailureKind.DEADLINE,
            traceback=stack or None,
            log_tail=host.log.tail() or None,
            hint="Its limit is the same as a turn's (`--turn-timeout`).",
        )

    # -- processes

    async def _host(self, role: Role) -> HostProcess:
        async with self._lock:
            host = self._shared.get(role)
            if host is None or host.exit is not None or host.ending:
                host = self._shared[role] = await self._start(role)
            return host

    async def _start(self, role: Role) -> HostProcess:
        if role in self._failures:
            raise self._failures[role].copy()
        try:
            spec = replace(await self._spec(), role=role)
            host = await spec.loads.load(lambda: HostProcess.start(spec, f"{self._name}-{next(self._numbers)}"))
        except AgentFailure as failure:
            self._failures[role] = MetricFailure(
                f"Custom metrics can't be run: {failure.message.rstrip('.')}",
                kind=MetricFailureKind.ENVIRONMENT,
                owner=failure.owner,
                traceback=failure.traceback,
                log_tail=failure.log_tail,
                hint=_ENVIRONMENT_HINT if role == "metrics" else None,
            )
            raise self._failures[role].copy() from None
        # A start takes seconds, in which the run may have ended.
        if self._closed:
            await host.close()
            raise MetricFailure("The process of the custom metrics was closed", kind=MetricFailureKind.CRASH)
        return host

    async def close(self) -> None:
        """Ends all processes. Never raises."""
        self._closed = True
        tasks = list(self._prepared.values())
        for task in tasks:
            task.cancel()
        hosts = [*self._alone, *self._shared.values()]
        await asyncio.gather(*tasks, *(host.close() for host in hosts), return_exceptions=True)
