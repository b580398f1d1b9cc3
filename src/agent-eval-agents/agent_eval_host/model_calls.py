"""Observes and retries model calls."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import itertools
import json
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from agent_eval_host import exchanges
from agent_eval_host.channel import Channel
from agent_eval_host.errors import causes, http_status, is_made_up
from agent_eval_host.exchanges import address_of
from agent_eval_host.frames import is_own
from agent_eval_host.model_errors import SilentAttempt, UnreadableAnswer, cause_of, is_transport, retry_after
from agent_eval_host.turns import ModelCall, Turn, current_turn

_PATIENCE = 10.0
"""Minimum seconds to wait for a silent attempt. There is no limit before the model's first response."""
_PATIENCE_FACTOR = 3.0
"""Multiple of the slowest response so far; doubled with each cancelled attempt."""
_SHORTEST_ATTEMPT = 0.5
"""Remaining seconds of the turn that another attempt needs."""
_SILENCE_STEP = 1.0
"""Seconds between two reports of a silent call."""
_MODEL_PATH = re.compile(r"models/([^/:?]+)")
_call: contextvars.ContextVar[ModelCall | None] = contextvars.ContextVar("agent_eval_model_call", default=None)


def _is_gemini(model: Any) -> bool:
    return any(cls.__name__ == "Gemini" and cls.__module__.startswith("google.adk.") for cls in type(model).__mro__)


class ModelWatch:
    """Observes the attempts of all model calls, retries failed ones within the turn's time, and reports to the gate.

    The gate ends the pause before a retry: it limits how many calls run at once.
    """

    def __init__(self, channel: Channel) -> None:
        self.retry: dict[str, Any] = {}
        self.is_decided = False  # whether the gate decides if a model is asked, which `asked` reports
        self._sees_gemini = False
        self._channel = channel
        self._numbers = itertools.count(1)
        self._calls: dict[int, ModelCall] = {}
        self._slowest: float | None = None
        self._reported = 0.0
        self._random = random.Random()  # noqa: S311 - separate from the agent's generator, which may be seeded

    # -- calls

    def begin(self, turn: Turn, request: Any, model: Any) -> ModelCall:
        """ADK reports that a call of an agent's model begins."""
        gemini = _is_gemini(model)
        file = getattr(sys.modules.get(type(model).__module__), "__file__", None) or ""
        name, is_seen = str(request.model or ""), gemini and self._sees_gemini
        call = self._make(turn, name, remote=gemini or not is_own(file), seen=is_seen)
        call.request = request
        _call.set(call)
        exchanges.watch()
        exchanges.log.set(call.exchanges)
        if not self.is_decided:
            self.asked()
        return call

    def asked(self) -> None:
        """The model of the current call is asked. Attempts in google-genai report themselves."""
        call = _call.get()
        if call is None or call.ended or call.seen:
            return
        call.attempt_began = time.monotonic()
        if call.remote:
            self._report(call, "asked")

    def failed(self, call: ModelCall | None, error: BaseException) -> None:
        """ADK reports that the model of a call has raised. It may have answered before."""
        asked = call or _call.get()
        if asked is not None and is_made_up(error, asked):
            return
        current_turn().model_errors.append(error)
        if asked is not None and not asked.remote:
            current_turn().of_requests[id(error)] = list(causes(error))  # ADK may raise it as another's
            current_turn().failed_call = asked

    def replayed(self) -> None:
        """The gate has answered the current call: no model is asked."""
        call = _call.get()
        if call is not None and not call.ended:
            call.replayed = True

    def _make(self, turn: Turn, name: str, *, remote: bool, seen: bool) -> ModelCall:
        call = ModelCall(next(self._numbers), turn, name, remote=remote, seen=seen)
        self._calls[call.number] = call
        return call

    def end(self, call: ModelCall, error: BaseException | None = None) -> None:
        """ADK reports that a call has ended; for a stream, at its first part."""
        if call.streaming and error is None:
            return
        if error is not None:
            call.turn.failed_call = call
        if call.remote and not call.seen and call.attempt_began is not None:
            self._attempt_ended(call, error)
        self._close(call)

    def _close(self, call: ModelCall) -> None:
        call.name, call.request = call.model, None
        call.ended = True
        call.attempt_began = None
        self._calls.pop(call.number, None)

    def forget(self, turn: Turn) -> None:
        """Closes all calls of a turn that has ended."""
        for call in [call for call in self._calls.values() if call.turn is turn]:
            self._close(call)

    def _attempt_ended(self, call: ModelCall, error: BaseException | None) -> None:
        call.attempt_began = None
        if error is None:
            self._report(call, "answered")
            return
        status = http_status(error)
        if status is None and not is_transport(error):
            self._report(call, "answered")  # the request was refused, or did not use the network
            return
        call.failures.append({"status": status, "cause": cause_of(error)})
        self._report(call, "failed", **call.failures[-1])

    def _report(self, call: ModelCall, what: str, **facts: Any) -> None:
        identity = {"turn": call.turn.number, "call": call.number, "model": call.model, "address": call.address}
        self._channel.notify("model", {**identity, "what": what, **facts})

    def report_silence(self, stalled: float) -> None:
        """Reports silent attempts. Called by the loop, so that a blocked loop is not attributed to a model."""
        now = time.monotonic()
        if now - self._reported < _SILENCE_STEP:
            return
        self._reported = now
        for call in list(self._calls.values()):
            if call.remote and call.attempt_began is not None:
                silent = now - call.attempt_began - (stalled - call.turn.stalled)
                if silent >= _SILENCE_STEP:
                    self._report(call, "silent", seconds=silent)

    # -- google-genai

    def install(self) -> None:
        """Wraps the two methods of google-genai (1.x to 3.x) that send every request."""
        try:
            client = importlib.import_module("google.genai._api_client").BaseApiClient
            once, request = client._async_request_once, client._async_request
        except (ImportError, AttributeError) as error:
            sys.stderr.write(f"agent-eval: this google-genai can't be observed; it retries by itself: {error}\n")
            return

        async def observed(inner: Any, http_request: Any, stream: bool = False, **more: Any) -> Any:
            return await self._observed(once(inner, http_request, stream, **more), http_request, stream)

        async def repeated(inner: Any, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            call = _call.get()
            if call is None or call.ended or not self._is_ours(http_options):
                return await request(inner, http_request, http_options, stream)
            types = importlib.import_module("google.genai.types")
            single = http_options.model_copy(update={"retry_options": types.HttpRetryOptions(attempts=1)})
            return await self._repeated(call, lambda: request(inner, http_request, single, stream))

        client._async_request_once, client._async_request = observed, repeated
        self._sees_gemini = True

    @staticmethod
    def install_litellm() -> None:
        """Has an answer of LiteLLM without a choice be an error: ADK makes an empty answer of the model of it."""
        client = getattr(sys.modules.get("google.adk.models.lite_llm"), "LiteLLMClient", None)
        if client is None:
            return
        completion = client.acompletion

        @functools.wraps(completion)
        async def checked(inner: Any, *args: Any, **options: Any) -> Any:
            response = await completion(inner, *args, **options)
            if getattr(response, "choices", None) == []:
                raise UnreadableAnswer("the answer had no choices")
            return response

        client.acompletion = checked

    def install_others(self) -> None:
        """Reports requests to models that neither ADK nor the methods above send: those that the gate can't answer."""
        for module, names, method in (
            ("_api_client", ["BaseApiClient"], "_request_once"),
            ("client", ["Client", "AsyncClient"], "interactions"),
        ):
            loaded = importlib.import_module(f"google.genai.{module}")
            for cls in (getattr(loaded, name, None) for name in names):
                body = vars(cls).get(method) if cls is not None else None
                if isinstance(body, property):
                    setattr(cls, method, property(self._announced(body.fget)))
                elif body is not None:
                    setattr(cls, method, self._announced(body))

    def _announced(self, body: Any) -> Any:
        @functools.wraps(body)
        def reported(client: Any, *args: Any, **options: Any) -> Any:
            url = str(getattr(args[0] if args else None, "url", ""))
            name = _MODEL_PATH.search(url)
            call = self._make(current_turn(), name[1] if name else "", remote=True, seen=True)
            call.address = address_of(url) if url else ""
            self._report(call, "asked")
            try:
                return body(client, *args, **options)
            finally:
                self._report(call, "cancelled")  # Nobody looks at its outcome.
                self._close(call)

        return reported

    def _is_ours(self, http_options: Any) -> bool:
        options = getattr(http_options, "retry_options", None)
        return options is not None and bool(self.retry) and options == type(options)(**self.retry)

    async def _observed(self, attempt: Any, http_request: Any, stream: bool) -> Any:
        """One attempt of google-genai, from the agent's model or from a tool."""
        url = str(getattr(http_request, "url", ""))
        call = _call.get()
        alone = call is None or call.ended  # a tool's own call
        if call is None or alone:
            name = _MODEL_PATH.search(url)
            call = self._make(current_turn(), name[1] if name else "", remote=True, seen=True)
        call.address = address_of(url)
        call.attempt_began = began = time.monotonic()
        self._report(call, "asked")
        try:
            response = await attempt
            _check_body(response, stream, url)
        except Exception as error:
            self._attempt_failed(call, error)
            raise
        except asyncio.CancelledError:
            self._report(call, "cancelled")
            raise
        else:
            self._slowest = max(self._slowest or 0.0, time.monotonic() - began)
            if stream and hasattr(response, "async_segments"):
                # Only the headers have arrived; the reader pulls the segments.
                call.streaming = True
                response.async_segments = lambda: self._segments(call, type(response).async_segments(response))
            else:
                self._attempt_ended(call, None)
            return response
        finally:
            call.attempt_began = None
            if alone and not call.streaming:
                self._close(call)

    async def _segments(self, call: ModelCall, segments: Any) -> Any:
        """The segments of a streamed response. Time counts as waiting only while the reader awaits a segment."""
        try:
            while True:
                call.attempt_began = time.monotonic()
                try:
                    segment = await segments.__anext__()
                except StopAsyncIteration:
                    break
                call.attempt_began = None
                yield segment
            self._attempt_ended(call, None)
        except GeneratorExit:  # the reader stopped early
            self._attempt_ended(call, None)
            raise
        except asyncio.CancelledError:
            self._report(call, "cancelled")
            raise
        except Exception as error:
            self._attempt_failed(call, error)
            raise
        finally:
            call.streaming = False
            self._close(call)

    def _attempt_failed(self, call: ModelCall, error: Exception) -> None:
        self._attempt_ended(call, error)
        if is_transport(error):
            call.turn.model_errors.append(error)
            call.turn.failed_call = call

    def in_flight(self, turn: Turn) -> ModelCall | None:
        """The latest call of a turn, by a model or a tool, that waits for its provider."""
        asking = [call for call in self._calls.values() if call.turn is turn and call.attempt_began is not None]
        return max(asking, key=lambda call: call.attempt_began or 0.0, default=None)

    async def _repeated(self, call: ModelCall, request: Callable[[], Any]) -> Any:
        """Sends a request and retries it while another attempt fits into the turn's time."""
        for number in itertools.count():
            try:
                return await self._patiently(call, request())
            except Exception as error:
                if isinstance(error, SilentAttempt):
                    self._attempt_cancelled(call, error)
                wait = self._pause(number, error)
                in_time = wait + _SHORTEST_ATTEMPT < call.turn.ends_at - time.monotonic()
                if not in_time or not self._is_worth_repeating(error) or number + 1 >= self.retry.get("attempts", 1):
                    raise
            await self._wait_for_resume(call, wait)
        raise AssertionError("unreachable: the loop returns or raises")

    async def _patiently(self, call: ModelCall, request: Any) -> Any:
        """Waits for an attempt; cancels it if it is silent for much longer than the model usually takes."""
        attempt, began = asyncio.ensure_future(request), time.monotonic()
        try:
            while not attempt.done():
                limit = self._patience(call, began)  # recomputed, because other calls may get responses
                remaining = began + limit - time.monotonic()
                if remaining <= 0:
                    raise SilentAttempt(f"no answer within {limit:.0f} s")
                await asyncio.wait({attempt}, timeout=min(remaining, 1.0))
            return attempt.result()
        finally:
            if not attempt.done():
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)

    def _attempt_cancelled(self, call: ModelCall, error: SilentAttempt) -> None:
        """Records an attempt that was cancelled because it got no data."""
        call.silent_attempts += 1
        call.failures.append({"status": None, "cause": str(error)})
        call.turn.model_errors.append(error)
        call.turn.failed_call = call
        self._report(call, "failed", **call.failures[-1])

    def _is_worth_repeating(self, error: BaseException) -> bool:
        status = http_status(error)
        return is_transport(error) if status is None else status in self.retry.get("http_status_codes", ())

    def _patience(self, call: ModelCall, began: float) -> float:
        """Seconds that an attempt may be silent before it is retried; infinity: until the turn times out.

        A retry is only better than waiting if the model is known to be faster and enough time remains.
        """
        if self._slowest is None:
            return float("inf")
        limit = max(_PATIENCE, _PATIENCE_FACTOR * self._slowest) * 2**call.silent_attempts
        return limit if limit < (call.turn.ends_at - began) / 2 else float("inf")

    def _pause(self, number: int, error: BaseException) -> float:
        """Seconds to wait: exponential backoff with jitter, or slightly longer than the provider asks for."""
        wait = float(self.retry.get("initial_delay", 1.0)) * float(self.retry.get("exp_base", 2.0)) ** min(number, 30)
        wait = min(wait, float(self.retry.get("max_delay", 60.0))) * self._random.uniform(0.5, 1.0)
        asked = retry_after(error)
        return asked * self._random.uniform(1.0, 1.1) + min(0.5, wait / 2) if asked else wait

    async def _wait_for_resume(self, call: ModelCall, seconds: float) -> None:
        call.go_on.clear()
        self._channel.notify("pause", {"turn": call.turn.number, "call": call.number, "seconds": seconds})
        await call.go_on.wait()

    def resume(self, number: int, params: dict[str, Any]) -> None:
        """Handles the gate's `resume`: a pause is over."""
        call = self._calls.get(int(params["call"]))
        if call is not None:
            call.go_on.set()


def _check_body(response: Any, stream: bool, url: str) -> None:
    """Refuses what no model has said.

    A prompt that the provider blocks has no candidates either, but feedback. A candidate without content is an answer.
    """
    body = getattr(response, "response_stream", None)
    if stream or not isinstance(body, list) or not body or not isinstance(body[0], str):
        return
    generated = url.partition("?")[0].endswith(":generateContent")
    if not body[0].strip():
        if generated:
            raise UnreadableAnswer("the answer was empty")
        return
    try:
        content = json.loads(body[0])
    except ValueError as error:
        what = "a page of HTML" if body[0].lstrip().startswith("<") else "a body that is not JSON, or was cut off"
        raise UnreadableAnswer(f"the answer was {what}") from error
    if not generated:
        return
    if not isinstance(content, dict) or not (content.get("candidates") or content.get("promptFeedback")):
        raise UnreadableAnswer("the answer had neither candidates nor feedback on the prompt")
