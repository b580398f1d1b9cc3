"""A rate-limited, retrying client for one model, with deadlines and cost estimates."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker, shorten
from agent_eval_scoring.models._endpoint import KEY_INPUT, Endpoint
from agent_eval_scoring.models._limits import UNKNOWN, Estimate, Health, Meter, Reservation
from agent_eval_scoring.models._provider import Client, ProviderError, ProviderReply, ProviderRequest, unreadable_reply
from agent_eval_scoring.models.protocol import ModelFailure, ModelUsage
from agent_eval_scoring.models.settings import ModelSettings
from agent_eval_scoring.models.usage import Price, add_usage, billed_tokens

_LOG = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for estimates; costs are computed from reported tokens."""
_FIRST_GUESS = 500
"""Expected tokens of a reply, including thoughts, before the first reply has arrived."""
_FAILED_CALLS = 3
"""The model counts as down only after as many failed attempts as this number of calls makes. A single call may fail
because of its own content."""
_LONGEST_MESSAGE = 400
"""Longest message of a provider that is shown, in characters."""
_LONG_WAIT = 5.0
"""Seconds. A provider that asks for such a wait has used up the quota, so all calls wait. A shorter wait applies
only to the call that was throttled."""


@dataclass(kw_only=True)
class Call:
    """A call in progress: its request, its start, and its usage so far. A call makes one or more attempts."""

    request: ProviderRequest
    started: float | None = None
    """Start of its first attempt, by time.monotonic(); waiting for a free slot does not count."""
    attempts: int = 0
    usage: ModelUsage = field(default_factory=ModelUsage)


class ModelChannel:
    """Sends the calls of one model."""

    def __init__(
        self,
        endpoint: Endpoint,
        client: Client,
        settings: ModelSettings,
        meter: Meter,
        *,
        price: Price | None,
        until: float | None,
        proxy: str = "",
    ) -> None:
        """Opens the channel. Nothing is sent.

        Args:
            endpoint: The model's endpoint.
            client: The provider's client; channels of one provider may share it.
            settings: Timeouts, concurrency and backoff.
            meter: The budget of the whole run.
            price: The price of the model's tokens; None if unknown.
            until: The end of the run, by time.monotonic(); None for no limit.
            proxy: Names the proxy of its requests, for messages; "" for none.
        """
        self.endpoint = endpoint
        self.price = price
        self._client = client
        self._settings = settings
        self._meter = meter
        self._until = until
        self._limiter = Limiter(max(settings.concurrency, settings.most_concurrent), start=settings.concurrency)
        # Some providers quote a rejected key in their message.
        self._masker = Masker({endpoint.api_key: endpoint.key_variable or KEY_INPUT} if endpoint.api_key else {})
        where = (f" at {endpoint.address}" if endpoint.address else "") + (f" through {proxy}" if proxy else "")
        self._name = f"`{endpoint.name.written}`{where}"
        """The model and its address, for messages."""
        self._health = Health(
            endpoint.name.written,
            outage=settings.outage,
            enough=_FAILED_CALLS * settings.retry.attempts,
            now=time.monotonic(),
            where=where,
        )
        self._quiet_until = float("-inf")
        self._output_seen = 0
        self._longest_output = 0
        self._answers_seen = 0
        self._random = random.Random()  # noqa: S311 - it only spreads attempts over time

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight now."""
        return self._limiter.size

    async def answer(self, call: Call) -> ProviderReply:
        """Sends the call, and retries until it is answered or retrying is pointless.

        Raises:
            ModelFailure: No reply.
        """
        for attempt in range(1, self._settings.retry.attempts + 1):
            try:
                async with self._slot(call):
                    reply = await self._attempt(call)
                self._health.answered(time.monotonic())
                return reply
            except ProviderError as error:
                if error.then == "give-up":
                    self._health.disable(error.kind, error.message, error.hint)
                    self._health.check()  # All calls, including those in flight, fail with the same message.
                # Not counted as an outage: the provider has answered, and this one request is wrong.
                if error.then not in {"retry", "slow-down"}:
                    raise self._failure(error) from error
                self._health.failed(time.monotonic(), error.message)
                wait = self._settings.retry.pause(attempt, error.retry_after, chance=self._random.random)
                # To wait beyond the deadline would only delay the failure.
                if attempt == self._settings.retry.attempts or wait >= self._remaining(call):
                    raise self._failure(error) from error
                _LOG.debug("%s: attempt %d failed, again in %.1f s: %s", self._name, attempt, wait, error.message)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt either returns or raises")

    @asynccontextmanager
    async def _slot(self, call: Call) -> AsyncIterator[None]:
        """Waits for a free slot, at most until the run ends; fails if the model is unusable."""
        self._health.check()
        left = None if self._until is None else self._until - time.monotonic()
        try:
            async with asyncio.timeout(left) as waiting, self._limiter.slot():
                waiting.reschedule(None)
                self._health.check()
                await self._wait_for_quota(call)  # Inside the slot: the quota may have run out during the wait.
                now = time.monotonic()
                call.started = now if call.started is None else call.started
                if self._remaining(call) <= 0:
                    raise self._deadline_failure()
                yield
        except TimeoutError as error:
            raise self._deadline_failure() from error

    async def _wait_for_quota(self, call: Call) -> None:
        """Waits while the model's quota is used up, if the call has enough time left."""
        while (wait := self._quiet_until - time.monotonic()) > 0:
            if wait >= self._remaining(call):
                raise ModelFailure(
                    "unavailable",
                    f"{self._name}: the quota is used up and will not be available again in time.",
                    "Raise the quota, or lower the number of parallel calls (`--concurrency`).",
                )
            await asyncio.sleep(wait * self._random.uniform(1.0, 1.05))
            self._health.check()

    async def _attempt(self, call: Call) -> ProviderReply:
        request = call.request
        reservation = await self._meter.reserve(lambda: self._estimate(request))
        call.attempts += 1
        tokens: float | None = None
        cost: float | None = None
        sent = self._limiter.asked()
        try:
            timeout = min(self._settings.attempt_timeout, max(0.001, self._remaining(call)))
            reply = await self._send(replace(request, timeout=timeout))
            sent.answered()
            call.usage = add_usage(call.usage, reply.usage)
            tokens, cost = self._usage_of(reply, reservation)
            return reply
        except ProviderError as error:
            if error.then == "slow-down":
                sent.refused()
                if (error.retry_after or 0.0) >= _LONG_WAIT:
                    self._quiet_until = max(self._quiet_until, time.monotonic() + (error.retry_after or 0.0))
            if not error.sent:
                tokens, cost = 0.0, 0.0
            error.message = self._shown(error.message)
            self._meter.failed(self._failure(error))
            raise
        finally:
            sent.ended()
            reservation.settle(tokens, cost)

    async def _send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt. An unexpected answer fails this attempt only, whatever exception the library raises."""
        try:
            reply = await self._client.send(request)
        except ProviderError:
            raise
        except Exception as error:
            raise unreadable_reply(error) from error
        # A gateway may quote the key in an answer, too.
        mask = self._masker.text
        version = None if reply.model_version is None else mask(reply.model_version)
        return replace(reply, text=mask(reply.text), note=self._shown(reply.note), model_version=version)

    def _estimate(self, request: ProviderRequest) -> Estimate:
        """Estimates an attempt: output of average length so far, at most twice the longest."""
        prompt = (len(request.prompt) + len(request.system or "")) // _CHARACTERS_PER_TOKEN + 1
        mean = self._output_seen // self._answers_seen if self._answers_seen else _FIRST_GUESS
        usage = ModelUsage(input_tokens=prompt, output_tokens=mean)
        expected, cost = float(billed_tokens(usage) or 0), self._cost(usage) or 0.0
        # Before the first answer nothing is known, so that attempt goes alone: thoughts may take far more than the
        # guess.
        if not self._answers_seen:
            return Estimate(tokens=expected, cost=cost, most_tokens=UNKNOWN, most_cost=UNKNOWN)
        most = ModelUsage(input_tokens=prompt, output_tokens=2 * self._longest_output)
        return Estimate(
            tokens=expected,
            cost=cost,
            most_tokens=max(expected, float(billed_tokens(most) or 0)),
            most_cost=max(cost, self._cost(most) or 0.0),
        )

    def _usage_of(self, reply: ProviderReply, reservation: Reservation) -> tuple[float, float]:
        """Tokens and US dollars of a reply, for the budget: as the provider reported them, else an estimate."""
        reported = billed_tokens(reply.usage)
        guess = len(reply.text) // _CHARACTERS_PER_TOKEN + 1
        # Thoughts are billed as output.
        output = guess if reported is None else (reply.usage.output_tokens or 0) + (reply.usage.thought_tokens or 0)
        self._answers_seen += 1
        self._output_seen += output
        self._longest_output = max(self._longest_output, output)
        if reported is not None:
            return float(reported), self._cost(reply.usage) or 0.0
        expected = reservation.estimate
        return expected.tokens + guess, expected.cost + (self._cost(ModelUsage(output_tokens=guess)) or 0.0)

    def _cost(self, usage: ModelUsage) -> float | None:
        return None if self.price is None else self.price.of(usage)

    def _remaining(self, call: Call) -> float:
        """Seconds left for the call, or until the run ends if that is sooner."""
        now = time.monotonic()
        started = now if call.started is None else call.started
        left = started + self._settings.call_timeout - now
        return left if self._until is None else min(left, self._until - now)

    def _shown(self, message: str) -> str:
        """A provider's message, masked before it is shortened: half a key would not be recognised."""
        return shorten(self._masker.text(message), _LONGEST_MESSAGE)

    def _failure(self, error: ProviderError) -> ModelFailure:
        return ModelFailure(error.kind, f"{self._name}: {error.message}", error.hint)

    def _deadline_failure(self) -> ModelFailure:
        # Named apart, since another setting has to be raised.
        if self._until is not None and time.monotonic() >= self._until:
            return ModelFailure(
                "deadline", f"{self._name} could not be called before the run's time limit.", "Raise `run-timeout`."
            )
        return ModelFailure("deadline", f"{self._name}: no answer within {self._settings.call_timeout:g} s in total.")
