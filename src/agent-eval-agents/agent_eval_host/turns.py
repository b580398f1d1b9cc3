"""Measurements of a turn and its calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import time
import weakref
from typing import Any

from agent_eval_host.exchanges import Exchanges, is_loopback
from agent_eval_host.frames import own_line, stack_of, where_it_hangs
from agent_eval_host.values import LONGEST_MESSAGE, cut, plain, text_of

running_turn: contextvars.ContextVar[Turn | None] = contextvars.ContextVar("agent_eval_turn", default=None)
in_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("agent_eval_call", default=None)
"""The tool call whose tool is running: calls that its agents make are inside of it."""
_LARGEST = 100_000
"""Characters of the arguments, and of the response, of a call inside another. No event of the turn has them."""


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans in order, with overlapping spans merged."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _seconds(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in _union(spans))


class Call:
    """A model call or tool call of a turn."""

    def __init__(self, kind: str, agent: str, name: str, call_id: str | None, model_call: ModelCall | None) -> None:
        self.kind = kind  # `model` or `tool`
        self.agent = agent
        self.name = name
        self.call_id = call_id
        self.model_call = model_call
        self.task = asyncio.current_task()  # until the call ends
        self.began = time.monotonic()
        self.ended = 0.0
        self.tokens: dict[str, int] = {}
        self.contents: int | None = None  # in the request of a model call
        self.raised: dict[str, Any] | None = None  # what a tool raised
        self.outer = in_call.get() if kind == "tool" else None
        self.hidden: dict[str, Any] = {}  # arguments and response of a tool call that no event has shown

    @property
    def is_replayed(self) -> bool:
        """Whether the gate has answered this model call."""
        return self.model_call is not None and self.model_call.replayed

    def span(self, turn_began: float, replayed: set[str], shown: set[str]) -> dict[str, Any]:
        """The call for the gate, with seconds since the turn began.

        Args:
            turn_began: When the turn began.
            replayed: The ids of the tool calls that the gate answered.
            shown: Those of the calls that events show.
        """
        failures = self.model_call.failures if self.model_call is not None else []
        return {
            "kind": self.kind,
            "agent": self.agent,
            "name": self.name if self.model_call is None else self.model_call.model,
            "call_id": self.call_id,
            "start": round(self.began - turn_began, 4),
            "end": round(self.ended - turn_began, 4),
            "attempts": [failure["status"] for failure in failures],
            **({"replayed": True} if self.is_replayed or self.call_id in replayed else {}),
            **({} if self.contents is None else {"contents": self.contents}),
            **({} if self.raised is None else {"raised": self.raised}),
            **({} if self.outer is None else {"inside": self.outer.call_id}),
            **({} if self.call_id in shown else self.hidden),
            **self.tokens,
        }

    def keep(self, name: str, value: Any) -> None:
        """Keeps the arguments or the response, unless they are too large."""
        kept = plain(value)
        if len(json.dumps(kept)) <= _LARGEST:
            self.hidden[name] = kept


class AskedServer:
    """A server that ADK's own tool or agent asks."""

    def __init__(self, kind: str, exchanges: Exchanges, server: str) -> None:
        self.kind = kind
        self.exchanges = exchanges
        self.server = server  # "" if only the requests show it
        self.began = time.monotonic()

    @property
    def address(self) -> str:
        """Without credentials; "" if no request has been made, or to this machine alone."""
        last = self.exchanges.last
        return self.server or ("" if last is None or is_loopback(last.host) else last.address)


_SHOWN_ATTEMPTS = 50


class ModelCall:
    """A model call with all its attempts."""

    def __init__(self, number: int, turn: Turn, model: str, *, remote: bool, seen: bool) -> None:
        self.number = number
        self.turn = turn
        self.name = model
        self.request: Any = None  # ADK's, until the call ends: the agent's callbacks may change its model
        self.address = ""
        self.remote = remote  # whether a library calls the model over the network, not the agent's own code
        self.seen = seen  # whether each attempt is observed: in google-genai only
        self.ended = False
        self.streaming = False  # whether a streamed response has begun but not ended
        self.replayed = False  # whether the gate has answered it
        self.began = time.monotonic()
        self.attempt_began: float | None = None
        self.silent_attempts = 0
        self.failures: list[dict[str, Any]] = []
        self.go_on = asyncio.Event()
        self.exchanges = Exchanges()

    @property
    def model(self) -> str:
        return str(getattr(self.request, "model", None) or self.name)

    def has_failed(self, raised: list[BaseException] | None = None) -> bool:
        """Whether the last request of the call failed; if that raised, whether it is among an error and its causes."""
        last = self.exchanges.last
        if last is None:
            return self.exchanges.left
        return last.failed if raised is None or last.error is None else last.error in raised

    def facts(self) -> dict[str, Any]:
        """The data for the gate if the call fails or the turn times out."""
        now = time.monotonic()
        return {
            "model": self.model,
            "address": self.address,
            "remote": self.remote,
            "seconds": now - self.began,
            "silent": 0.0 if self.attempt_began is None else now - self.attempt_began,
            "attempts": self.failures[-_SHOWN_ATTEMPTS:],
        }


class Turn:
    """Measurements of one turn."""

    def __init__(self, number: int, seconds: float | None = None, stalled: float = 0.0) -> None:
        self.number = number
        self.began = time.monotonic()
        self.wall = time.time()
        self.ends_at = float("inf") if seconds is None else time.monotonic() + seconds
        self.stalled = stalled  # seconds that the loop had been blocked before this turn
        self.invocation_id = ""
        self.model_errors: list[BaseException] = []
        # Of those that came of a request of the repository's own model class, by id: they and their causes.
        self.of_requests: dict[int, list[BaseException]] = {}
        self.failed_call: ModelCall | None = None
        self.tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], None] = weakref.WeakKeyDictionary()  # oldest first
        self.calls = 0  # completed model calls
        self.last_calls: dict[str, ModelCall] = {}  # by agent
        self.asking_servers: dict[tuple[str, str], AskedServer] = {}  # by request
        self.lost_servers: dict[tuple[str, str], tuple[AskedServer, str]] = {}  # those without an answer, and why
        self.lost_toolsets: dict[tuple[str, str], BaseException] = {}  # by agent and name: what they raised
        self.replayed: set[str] = set()  # ids of tool calls that the gate answered
        self.shown: set[str] = set()  # ids of tool calls that events show
        self.asking: set[concurrent.futures.Future[Any]] = set()  # what the gate is asked
        self._open: dict[tuple[str, Any], Call] = {}
        self._ended: list[Call] = []
        self._requests: dict[tuple[str, str], Any] = {}

    def begin(
        self, kind: str, key: Any, agent: str, name: str, call_id: str | None = None, call: ModelCall | None = None
    ) -> Call:
        begun = self._open[kind, key] = Call(kind, agent, name, call_id, call)
        if call is not None:
            self.last_calls[agent] = call
        return begun

    def end(
        self,
        kind: str,
        key: Any,
        tokens: dict[str, int] | None = None,
        raised: dict[str, Any] | None = None,
        response: Any = None,
    ) -> ModelCall | None:
        """Records the end of a model call or tool; returns the model call."""
        call = self._open.pop((kind, key), None)
        if call is None:
            return None
        if kind == "tool":
            in_call.set(call.outer)
        if kind == "tool" and call.call_id not in self.shown:
            call.keep("response", response if isinstance(response, dict) else {"result": response})
        call.ended, call.task = time.monotonic(), None
        call.tokens, call.raised = tokens or {}, raised
        self._ended.append(call)
        self.calls += kind == "model"
        return call.model_call

    def request(self, invocation_id: str, agent: str, llm_request: Any) -> None:
        self._requests.setdefault((invocation_id, agent), llm_request)

    def waiting(self, task: asyncio.Task[Any], asking: ModelCall | None) -> dict[str, Any]:
        """The innermost call that the turn is waiting for, and the stack.

        Args:
            task: The turn's task.
            asking: The model call that waits for its provider, including calls made by tools.
        """
        facts: dict[str, Any] = {"calls": self.calls, "server": self._lost_server()}
        innermost, since = task, float("-inf")
        for call in reversed(self._open.values()):
            since = call.began
            facts |= {"for": call.kind, "name": call.name, "seconds": time.monotonic() - since}
            facts |= {} if call.model_call is None else call.model_call.facts()
            innermost = call.task or task
            break
        if asking is not None and (asking.attempt_began or 0.0) >= since:
            facts |= {"for": "model", "name": asking.model, **asking.facts()}
        # ADK runs parts of an agent in separate tasks: use the newest one that is in the agent's own code.
        stacks = [stack_of(each) for each in [innermost, *reversed(list(self.tasks)), task] if not each.done()]
        return {**facts, **where_it_hangs(next((stack for stack in stacks if own_line(stack)), stacks[0]))}

    def _lost_server(self) -> str:
        """The server that failed, or that has been asked for at least half of the turn; "" if there is none."""
        now = time.monotonic()
        asking = [each for each in self.asking_servers.values() if now - each.began >= (now - self.began) / 2]
        asked = (*(each for each, _ in self.lost_servers.values()), *asking)
        return next((f"{each.kind} at {each.address}" for each in asked if each.address), "")

    def so_far(self) -> dict[str, Any]:
        """The time, the calls that ended, and the first request of each agent."""
        spans = [
            call.span(self.began, self.replayed, self.shown)
            for call in sorted(self._ended, key=lambda call: call.began)
        ]
        duration = time.monotonic() - self.began
        lost = [
            {
                "agent": agent,
                "toolset": toolset,
                "error": cut(f"{type(error).__name__}: {text_of(error)}", LONGEST_MESSAGE),
            }
            for (agent, toolset), error in self.lost_toolsets.items()
        ]
        facts = {"started_at": self.wall, "duration": duration, "spans": spans, "requests": self._asked()}
        return {**facts, "lost_toolsets": lost} if lost else facts

    def measured(self) -> dict[str, Any]:
        """The same of a turn that is over, with the seconds awaiting a model, and in tools without awaiting a model.

        A model that the gate answers for is not awaited.
        """
        result = self.so_far()
        for kind, key in list(self._open):
            self.end(kind, key)
        models = [call for call in self._ended if call.kind == "model"]
        live = _seconds([(call.began, call.ended) for call in models if not call.is_replayed])
        both, in_models = (_seconds([(call.began, call.ended) for call in calls]) for calls in (self._ended, models))
        return {**result, "model_duration": live, "tool_duration": both - in_models}

    def _asked(self) -> list[dict[str, Any]]:
        return [
            {"agent": agent, "instructions": _instructions(request), "tools": _tools(request)}
            for (invocation_id, agent), request in self._requests.items()
            if invocation_id == self.invocation_id
        ]


def current_turn() -> Turn:
    """The turn of the running code; a dummy if there is none."""
    return running_turn.get() or Turn(0)


def _instructions(llm_request: Any) -> str:
    value = getattr(llm_request.config, "system_instruction", None)
    if value is None or isinstance(value, str):
        return value or ""
    texts = []
    for item in value if isinstance(value, list) else [value]:
        for part in getattr(item, "parts", None) or [item]:
            texts.append(part if isinstance(part, str) else getattr(part, "text", None) or "")
    return "\n".join(text for text in texts if text)


def _tools(llm_request: Any) -> list[Any]:
    return [plain(tool) for tool in getattr(llm_request.config, "tools", None) or []]
