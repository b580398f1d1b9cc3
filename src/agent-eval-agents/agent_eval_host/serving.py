"""Handles the gate's requests: loads the agent, runs turns and custom metrics."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import inspect
import json
import os
import queue
import sys
import threading
import time
import traceback
import uuid
from typing import Any

from agent_eval_host import lite_llm, mcp_outages
from agent_eval_host.channel import VERSION, Channel
from agent_eval_host.code_metrics import CodeMetrics
from agent_eval_host.custom_metrics import METRIC_MODULES, CustomMetrics, takes_states
from agent_eval_host.described import describe, place_of
from agent_eval_host.errors import UnusableEnvironment, error_data
from agent_eval_host.frames import where_it_hangs
from agent_eval_host.loading import WithoutA2a, load_agent, root_of, with_root
from agent_eval_host.model_answers import ModelAnswers
from agent_eval_host.model_calls import ModelWatch
from agent_eval_host.past import seed
from agent_eval_host.plugin import make_plugin
from agent_eval_host.tools import ToolWatch
from agent_eval_host.turns import Turn, running_turn
from agent_eval_host.values import LONGEST_MESSAGE, cut, dump, plain, text_of

EVENT_FIELDS = {
    "id": True,
    "invocation_id": True,
    "author": True,
    "branch": True,
    "timestamp": True,
    "content": True,
    "turn_complete": True,
    "error_code": True,
    "error_message": True,
    "finish_reason": True,
    "grounding_metadata": True,
    "usage_metadata": True,
    "model_version": True,
    "long_running_tool_ids": True,
    "actions": {"skip_summarization", "transfer_to_agent", "escalate"},
}
"""The fields of an event that the gate needs. Others, e.g. state deltas, may contain objects that are not JSON."""
_AGENT_MODULES = ("google.adk.runners", "google.adk.apps.app", "google.adk.plugins.base_plugin")
_TURN_MODULES = (
    *("google.adk.apps.compaction", "google.adk.models.google_llm", "google.adk.flows.llm_flows.single_flow"),
    *("google.adk.artifacts.in_memory_artifact_service", "google.adk.memory.in_memory_memory_service"),
    *("google.adk.sessions.in_memory_session_service", "google.adk.agents.llm_agent", "google.genai._api_client"),
    *("google.adk.workflow._workflow", "google.adk.workflow._tool_node", "google.adk.workflow._llm_agent_wrapper"),
    *("google.adk.workflow._trigger", "google.adk.workflow.utils._retry_utils", "google.adk.tools._node_tool"),
    *("google.adk.tools.set_model_response_tool", "google.adk.flows.llm_flows.core._resume", "httpcore"),
    *("google.adk.agents._agent_router", "google.adk.auth.auth_preprocessor", "google.adk.flows.llm_flows.auto_flow"),
    *("google.adk.tools.agent_tool", "google.adk.tools._forwarding_artifact_service"),
    *("google.adk.workflow._node_runner_utils",),
)
"""What ADK imports in the first turn of an LlmAgent. No version has all of them."""
_LARGEST_STATE = 1_000_000
"""Characters."""
_BEAT = 0.25
"""Seconds between two clock checks. A loop that is late by more than this was blocked."""


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Creates a task like asyncio, and records its turn."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    turn = running_turn.get()
    if turn is not None:
        turn.tasks[task] = None
    return task


async def _state(runner: Any, user_id: str, session_id: str) -> dict[str, Any] | None:
    """The session's state, with that of the user and the app, without that of one turn; None if it is unknown.

    Read of the session: not all that changes it is an event of the turn.
    """
    try:
        from google.adk.sessions.base_session_service import GetSessionConfig

        session = await runner.session_service.get_session(
            app_name=runner.app_name,
            user_id=user_id,
            session_id=session_id,
            config=GetSessionConfig(num_recent_events=0),  # ADK 2 then copies none of the events
        )
        state = {key: plain(value) for key, value in session.state.items() if not str(key).startswith("temp:")}
        return state if len(json.dumps(state)) <= _LARGEST_STATE else None
    except Exception:  # Of an object in it that can't be copied, or a session that the agent has deleted.
        return None


def import_adk(role: str) -> dict[str, str]:
    """Imports what a role needs of google-adk; returns its version and that of google-genai."""
    needed = METRIC_MODULES.values() if role == "metrics" else _AGENT_MODULES
    try:
        for name in needed:
            importlib.import_module(name)
        adk = importlib.import_module("google.adk.version").__version__
        genai = importlib.import_module("google.genai.version").__version__
    except ImportError as error:
        if (error.name or "") in ("google", "google.adk"):
            raise UnusableEnvironment(f"google-adk is not installed for {sys.executable}") from None
        module = sys.modules.get("google.adk.version")
        version = "" if module is None else f" {module.__version__}"
        raise UnusableEnvironment(f"google-adk{version} can't be used: {error}") from error
    if role != "metrics":
        for name in _TURN_MODULES:
            with contextlib.suppress(Exception):  # The turn that needs it reports the error.
                importlib.import_module(name)
    return {"adk": adk, "google-genai": genai}


class Host:
    """Handles the gate's requests."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop: asyncio.AbstractEventLoop
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._role = "agent"
        self._loaded = False
        self._app: Any = None
        self._metrics: CustomMetrics | CodeMetrics | None = None
        self._models = ModelWatch(channel)
        self._tools = ToolWatch(channel)
        self._plugin: Any = None
        self._latest: Any = None
        self._runners: dict[str, tuple[Any, str, str]] = {}
        self._turns: dict[int, tuple[asyncio.Task[None], Turn]] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._main = threading.get_ident()
        self._beat_at = time.monotonic()
        self._stalled = 0.0  # seconds that the loop has been blocked in total

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True, name="agent-eval").start()
        hello = self._channel.request(
            "hello",
            {
                "role": "agent",
                "roles": ["agent", "metrics", "functions"],
                "versions": [VERSION],
                "capabilities": ["state", "app_details", "stack", "tools", "models"],
                "python": ".".join(map(str, sys.version_info[:3])),
                "pid": os.getpid(),
            },
        )
        hello.add_done_callback(lambda answer: setattr(self, "_role", answer.result().get("role", "agent")))
        while not self._loaded:  # the loop does not run while the agent is imported, as in `adk eval`
            self._serve(self._inbox.get())
        self._loop.call_soon(self._drain)
        self._loop.set_task_factory(_make_task)
        self._beat_at = time.monotonic()
        self._beat()
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # a task of the agent called sys.exit(); its turn reports it
                continue

    def _read(self) -> None:
        """Runs in a separate thread: even if the loop is blocked, the host answers `stack`, gives other threads of the
        agent the gate's answers, and ends with the gate.
        """
        with contextlib.suppress(ValueError):
            for message in self._channel.messages():
                if message.get("method") == "stack":
                    self._channel.answer(message.get("id"), self._stack())
                elif message.get("type") == "response":
                    self._answered(message)
                else:
                    self._inbox.put(message)
                    if self._loaded:
                        self._loop.call_soon_threadsafe(self._drain)
        os._exit(0)

    def _stack(self) -> dict[str, Any]:
        frame = sys._current_frames().get(self._main)
        return {} if frame is None else where_it_hangs(list(traceback.extract_stack(frame)))

    def _beat(self) -> None:
        """Measures how long the loop was blocked, and reports silent model calls."""
        self._stalled = self._stalled_until_now()
        self._beat_at = time.monotonic()
        self._models.report_silence(self._stalled)
        self._loop.call_later(_BEAT, self._beat)

    def _stalled_until_now(self) -> float:
        late = time.monotonic() - self._beat_at - _BEAT
        return self._stalled + (late if late > _BEAT else 0.0)

    def _drain(self) -> None:
        while not self._inbox.empty():
            self._serve(self._inbox.get_nowait())

    def _answered(self, message: dict[str, Any]) -> None:
        if error := message.get("error"):  # no common protocol version, or a request that the gate refuses
            sys.stderr.write(f"agent-eval: {error.get('message')}\n")
            os._exit(70)
        answer = self._channel.pending.pop(message.get("id", 0), None)
        if answer is not None and answer.set_running_or_notify_cancel():
            answer.set_result(message.get("result") or {})

    def _serve(self, message: dict[str, Any]) -> None:
        number, method, params = message.get("id", 0), message.get("method"), message.get("params") or {}
        handler = {
            "load": self._load,
            "agents": self._agents,
            "send": self._send,
            "evaluate": self._evaluate,
            "cancel": self._cancel,
            "close_session": self._close_session,
            "look": self._look,
            "resume": self._models.resume,
            "shutdown": self._shutdown,
        }.get(str(method))
        if handler is None:
            if message.get("type") == "request":
                self._channel.refuse(number, "unknown-method", f"this host has no method {method!r}")
            return
        handler(number, params)

    # -- methods

    def _load(self, number: int, params: dict[str, Any]) -> None:
        started = time.monotonic()
        app: Any = None
        # Imported modules stay: collecting garbage meanwhile would take a tenth of the time.
        gc.disable()
        try:
            self._models.retry = params.get("retry") or {}
            versions = {"adk": "", "google-genai": ""} if self._role == "functions" else import_adk(self._role)
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            if self._role == "agent":
                self._models.install()
            between = time.monotonic()
            if self._role == "functions":
                self._metrics = CodeMetrics()
            elif self._role == "metrics":
                self._metrics = CustomMetrics(params["agent"], params["root"], params.get("modules") or {})
            else:
                if params.get("tools"):
                    self._tools.install()
                if params.get("models"):
                    ModelAnswers(self._channel, self._models).install()
                app = load_agent(params["agent"], params["root"], self._loop)
                if params.get("sub_agent"):
                    app = with_root(app, params["sub_agent"])
                self._models.install_litellm()
                if params.get("tools"):
                    self._tools.loaded()
                mcp_outages.watch()
                lite_llm.prepare(root_of(app))
                sys.meta_path.insert(0, WithoutA2a())
        except UnusableEnvironment as error:
            data = error_data(error.__cause__) if error.__cause__ is not None else {}
            self._channel.refuse(number, "agent-environment", str(error), data)
        except BaseException as error:
            self._channel.refuse(number, "agent-import", cut(text_of(error), LONGEST_MESSAGE), error_data(error))
        else:
            agent = None if app is None else root_of(app)
            self._app = app
            self._loaded = True
            self._channel.answer(
                number,
                {
                    **versions,
                    "agent": text_of(getattr(agent, "name", "")),
                    "seconds": {"adk": between - started, "agent": time.monotonic() - between},
                },
            )
        finally:
            gc.freeze()
            gc.enable()

    def _agents(self, number: int, params: dict[str, Any]) -> None:
        try:
            self._channel.answer(number, {"agents": describe(root_of(self._app))})
        except Exception as error:  # It must not disturb what the agent does.
            self._channel.refuse(number, "agents", text_of(error))

    def _send(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number, params.get("timeout"), self._stalled_until_now())
        task = self._loop.create_task(self._run_turn(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _run_turn(self, turn: Turn, params: dict[str, Any]) -> None:
        running_turn.set(turn)
        turn.wall, turn.began = time.time(), time.monotonic()
        try:
            runner, user_id, session_id = await self._session(params)
            from google.genai import types

            content = types.Content.model_validate_json(json.dumps(params["content"]))
            events = runner.run_async(user_id=user_id, session_id=session_id, new_message=content)
            async with contextlib.aclosing(events):
                async for event in events:
                    turn.invocation_id = turn.invocation_id or event.invocation_id
                    if event.partial:  # A model that streams by itself: the whole event follows.
                        continue
                    dumped = dump(event, EVENT_FIELDS)
                    turn.shown |= {str(call.id) for call in event.get_function_calls()}
                    if getattr(event, "output", None) is not None:  # Of a workflow's node: any object.
                        dumped["output"] = True
                    call = turn.last_calls.get(event.author)
                    if dumped.get("error_code") and call is not None and not (call.remote or call.has_failed()):
                        dumped["unasked"] = True  # The code is no provider's.
                    self._channel.notify("event", {"turn": turn.number, "event": dumped})
            if turn.lost_servers:
                raise ConnectionError  # The answer lacks what these servers would have said.
            measured = turn.measured()
            self._channel.answer(turn.number, {**measured, "state": await _state(runner, user_id, session_id)})
        except asyncio.CancelledError:
            self._channel.refuse(turn.number, "cancelled", "the turn was cancelled")
        except BaseException as error:  # also SystemExit, which ends only this turn
            code, data = "agent-crash" if isinstance(error, SystemExit) else "agent-exception", error_data(error, turn)
            code, message = mcp_outages.lost(turn) or (code, data["message"])
            self._channel.refuse(turn.number, code, message, {**data, "so_far": turn.measured()})
        finally:
            self._models.forget(turn)

    def _evaluate(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number)
        task = self._loop.create_task(self._call_metric(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _call_metric(self, turn: Turn, params: dict[str, Any]) -> None:
        """Calls a custom metric. Without turns it only imports the function."""
        assert self._metrics is not None
        code = "metric-import"
        try:
            # Only now: another function that blocks the loop must not use up this call's time.
            self._channel.notify("started", {"turn": turn.number})
            function = self._metrics.function(params)
            if params.get("actual") is None and params.get("instance") is None:
                self._channel.answer(turn.number, {})
                return
            code = "metric-arguments"
            arguments = self._metrics.arguments(params)
            code = "metric-exception"
            states = params.get("session_states")
            result = function(*arguments, session_states=states) if takes_states(function) else function(*arguments)
            if inspect.isawaitable(result):
                result = await result
            version = getattr(function, "version", "")
            answer = {"version": version if isinstance(version, str) else "", **self._metrics.result(result)}
            if answer["type"] not in {"EvaluationResult", "score"} and (place := place_of(function)):
                answer["place"] = f"{place['file']}:{place['line']}"
            self._channel.answer(turn.number, answer)
        except asyncio.CancelledError:
            self._channel.refuse(turn.number, "cancelled", "the call was cancelled")
        except BaseException as error:  # also SystemExit, which ends only this call
            data = error_data(error)
            self._channel.refuse(turn.number, code, data["message"], data)

    async def _session(self, params: dict[str, Any]) -> tuple[Any, str, str]:
        """The session of a turn; the first turn opens it.

        Every session has its own services, so that neither `user:` and `app:` state nor a pinned session id carries
        over from one case to another.
        """
        key = params["session"]
        if key in self._runners:
            return self._runners[key]
        from google.adk.apps.app import App
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        name, user_id = params["app_name"], params["user_id"]
        plugin = self._plugin = self._plugin or make_plugin(self._models)
        if isinstance(self._app, App):
            app = self._app.model_copy(update={"name": name, "plugins": [*self._app.plugins, plugin]})
        else:  # not validated, as in ADK: the app name of an eval case is arbitrary
            app = App.model_construct(name=name, root_agent=self._app, plugins=[plugin])
        sessions = InMemorySessionService()
        session = await sessions.create_session(
            app_name=name,
            user_id=user_id,
            state=params.get("state") or {},
            session_id=params.get("session_id") or f"agent-eval-{uuid.uuid4()}",
        )
        await seed(sessions, session, params.get("events") or (), text_of(getattr(root_of(self._app), "name", "")))
        runner = Runner(
            app=app,
            session_service=sessions,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
        )
        self._latest = runner
        self._runners[key] = (runner, user_id, session.id)
        return self._runners[key]

    def _look(self, number: int, params: dict[str, Any]) -> None:
        async def look() -> None:
            for _ in range(2):  # The code that was answered before gets its answer first, and sets what this one sees.
                await asyncio.sleep(0)
            try:
                self._channel.answer(number, await self._tools.look(int(params["call"]), params["names"]))
            except Exception as error:  # what the session's services raise
                self._channel.refuse(number, "look", text_of(error))

        self._looking.add(task := self._loop.create_task(look()))
        task.add_done_callback(self._looking.discard)

    def _cancel(self, number: int, params: dict[str, Any]) -> None:
        """Reports at once what the turn is waiting for, and responds when the turn has ended."""
        task, turn = self._turns.get(int(params["turn"]), (None, None))
        if task is None or turn is None:
            self._channel.answer(number, {})
            return
        stalled = self._stalled_until_now() - turn.stalled
        waiting = turn.waiting(task, self._models.in_flight(turn))
        self._channel.notify("waiting", {"turn": turn.number, "stalled": stalled, **waiting, "so_far": turn.so_far()})
        task.add_done_callback(lambda _: self._channel.answer(number, {}))
        task.cancel()
        for answer in list(turn.asking):  # also those of other threads
            answer.cancel()

    def _close_session(self, number: int, params: dict[str, Any]) -> None:
        # The runner itself stays open: closing it would close the tools that all sessions share.
        self._runners.pop(params.get("session", ""), None)

    def _shutdown(self, number: int, params: dict[str, Any]) -> None:
        async def close() -> None:
            if self._latest is not None:  # all runners share the agent's tools and plugins
                with contextlib.suppress(BaseException):
                    await asyncio.wait_for(self._latest.close(), 1.0)
            sys.stdout.flush()
            self._channel.answer(number, {})
            os._exit(0)

        self._closing = self._loop.create_task(close())
