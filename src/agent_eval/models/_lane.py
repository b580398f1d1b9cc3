"""The way to one model: its client, how many attempts are in flight, retries, deadlines, and what they cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from agent_eval.core.limiter import Limiter
from agent_eval.core.masking import Masker
from agent_eval.core.text import shorten
from agent_eval.models._budget import UNKNOWN, Estimate, Meter, Reservation
from agent_eval.models._endpoint import Endpoint
from agent_eval.models._provider import Ask, Client, Told, Trouble, nonsense
from agent_eval.models.health import Health
from agent_eval.models.prices import Price
from agent_eval.models.protocol import ModelFailure, ModelUsage
from agent_eval.models.settings import ModelSettings
from agent_eval.models.usage import add_usage, billed_tokens

_CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for estimates, never for the bill."""
_FIRST_GUESS = 500
"""Tokens of an answer, thoughts included, before any answer is known."""
_QUESTIONS = 3
"""Whose worth of attempts must fail before a model can count as down; one alone may be the question's own fault."""
_LONGEST_MESSAGE = 400
"""Characters of a provider's words that are shown."""
_LONG_WAIT = 5.0
"""Seconds. Told to wait for so long, a quota is used up, and asking for others meanwhile would only waste attempts.
A shorter wait concerns only who was told."""


@dataclass(kw_only=True)
class Question:
    """One question on its way: the time it has, and what it has cost so far."""

    ask: Ask
    begun: float | None = None
    """When its first attempt began; waiting for a free place is not its fault."""
    calls: int = 0
    usage: ModelUsage = field(default_factory=ModelUsage)


class Lane:
    """Asks one model."""

    def __init__(
        self,
        endpoint: Endpoint,
        client: Client,
        settings: ModelSettings,
        meter: Meter,
        *,
        price: Price | None,
        until: float | None,
    ) -> None:
        """Gets everything it needs.

        Args:
            endpoint: Of the model.
            client: Of its provider, perhaps shared with other lanes.
            settings: For time, concurrency and repeats.
            meter: Of the whole run.
            price: Of its tokens, if known.
            until: When the run ends, by time.monotonic(); None: it doesn't.
        """
        self.endpoint = endpoint
        self.price = price
        self._client = client
        self._settings = settings
        self._meter = meter
        self._until = until
        self._limiter = Limiter(settings.concurrency)
        # Some providers quote the key when they refuse it.
        self._masker = Masker([endpoint.api_key] if endpoint.api_key else [])
        self._health = Health(
            endpoint.name.given,
            outage=settings.outage,
            enough=_QUESTIONS * settings.backoff.attempts,
            now=time.monotonic(),
            where=f" at {endpoint.address}" if endpoint.address else "",
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

    async def answer(self, question: Question) -> Told:
        """Asks until there is an answer, or it makes no sense to go on.

        Raises:
            ModelFailure: There is none.
        """
        for attempt in range(1, self._settings.backoff.attempts + 1):
            try:
                async with self._place(question):
                    told = await self._attempt(question)
                self._health.answered(time.monotonic())
                return told
            except Trouble as trouble:
                # Masked before it is shortened: half a key would not be recognised.
                trouble.message = shorten(self._masker.text(trouble.message), _LONGEST_MESSAGE)
                if trouble.hopeless:
                    self._health.hopeless(trouble.kind, trouble.message, trouble.hint)
                    self._health.check()  # All questions end in the same words, those under way too.
                if not trouble.again:
                    raise self._given_up(trouble) from trouble
                self._health.failed(time.monotonic(), trouble.message)
                wait = self._pause(attempt, trouble)
                if attempt == self._settings.backoff.attempts or wait >= self._left(question):
                    raise self._given_up(trouble) from trouble
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt either returns or raises")

    @asynccontextmanager
    async def _place(self, question: Question) -> AsyncIterator[None]:
        """Waits for a free place, at most until the run ends, and makes sure that there is something to hope for."""
        self._health.check()
        left = None if self._until is None else self._until - time.monotonic()
        try:
            async with asyncio.timeout(left) as waiting, self._limiter.slot():
                waiting.reschedule(None)
                self._health.check()
                await self._sit_out(question)  # With a place: the quota may have ended while it was waited for.
                now = time.monotonic()
                question.begun = now if question.begun is None else question.begun
                if self._left(question) <= 0:
                    raise self._no_time()
                yield
        except TimeoutError as error:
            raise self._no_time() from error

    async def _sit_out(self, question: Question) -> None:
        """Waits while the model's quota is used up, if there is time for that."""
        while (wait := self._quiet_until - time.monotonic()) > 0:
            if wait >= self._left(question):
                raise ModelFailure(
                    "unavailable",
                    f"`{self.endpoint.name.given}`: the quota is used up, and free again later than there is time for.",
                    "Raise the quota, or judge less at once.",
                )
            await asyncio.sleep(wait * self._random.uniform(1.0, 1.05))
            self._health.check()

    async def _attempt(self, question: Question) -> Told:
        ask = question.ask
        reservation = await self._meter.reserve(lambda: self._expected(ask))
        question.calls += 1
        tokens: float | None = None
        cost: float | None = None
        try:
            told = await self._told(self._within(ask, question))
            question.usage = add_usage(question.usage, told.usage)
            tokens, cost = self._used(told, reservation)
            return told
        except Trouble as trouble:
            if trouble.throttled:
                self._limiter.throttled()
                if (trouble.retry_after or 0.0) >= _LONG_WAIT:
                    self._quiet_until = max(self._quiet_until, time.monotonic() + (trouble.retry_after or 0.0))
            if not trouble.sent:
                tokens, cost = 0.0, 0.0
            raise
        finally:
            reservation.settle(tokens, cost)

    async def _told(self, ask: Ask) -> Told:
        """One attempt. Any odd answer is a trouble of this attempt alone, whatever it makes the library raise."""
        try:
            told = await self._client.ask(ask)
        except Trouble:
            raise
        except Exception as error:
            raise nonsense(error) from error
        return replace(told, note=shorten(self._masker.text(told.note), _LONGEST_MESSAGE)) if told.note else told

    def _expected(self, ask: Ask) -> Estimate:
        """What an attempt will use: an output like the mean of those seen, at most twice the longest."""
        prompt = (len(ask.prompt) + len(ask.system or "")) // _CHARACTERS_PER_TOKEN + 1
        mean = self._output_seen // self._answers_seen if self._answers_seen else _FIRST_GUESS
        usage = ModelUsage(input_tokens=prompt, output_tokens=mean)
        expected, cost = float(billed_tokens(usage) or 0), self._cost(usage) or 0.0
        if not self._answers_seen:
            return Estimate(tokens=expected, cost=cost, most_tokens=UNKNOWN, most_cost=UNKNOWN)
        most = ModelUsage(input_tokens=prompt, output_tokens=2 * self._longest_output)
        return Estimate(
            tokens=expected,
            cost=cost,
            most_tokens=max(expected, float(billed_tokens(most) or 0)),
            most_cost=max(cost, self._cost(most) or 0.0),
        )

    def _within(self, ask: Ask, question: Question) -> Ask:
        timeout = min(self._settings.attempt_timeout, max(0.001, self._left(question)))
        return Ask(
            model=ask.model,
            prompt=ask.prompt,
            system=ask.system,
            schema=ask.schema,
            config=ask.config,
            timeout=timeout,
        )

    def _used(self, told: Told, reservation: Reservation) -> tuple[float, float]:
        """Tokens and dollars of an answer, for the budget: what the provider told, else an estimate."""
        said = billed_tokens(told.usage)
        guess = len(told.text) // _CHARACTERS_PER_TOKEN + 1
        output = guess if said is None else (told.usage.output_tokens or 0) + (told.usage.thought_tokens or 0)
        self._answers_seen += 1
        self._output_seen += output
        self._longest_output = max(self._longest_output, output)
        if said is not None:
            return float(said), self._cost(told.usage) or 0.0
        expected = reservation.estimate
        return expected.tokens + guess, expected.cost + (self._cost(ModelUsage(output_tokens=guess)) or 0.0)

    def _cost(self, usage: ModelUsage) -> float | None:
        return None if self.price is None else self.price.of(usage)

    def _left(self, question: Question) -> float:
        """Seconds until the question or the run has no more time."""
        now = time.monotonic()
        begun = now if question.begun is None else question.begun
        left = begun + self._settings.call_timeout - now
        return left if self._until is None else min(left, self._until - now)

    def _pause(self, attempt: int, trouble: Trouble) -> float:
        """Seconds to wait: doubling, with half of it left to chance; or a little more than the provider asked for."""
        backoff = self._settings.backoff
        wait = min(backoff.maximum, backoff.initial * backoff.factor ** (attempt - 1))
        jittered = wait * self._random.uniform(0.5, 1.0)
        if trouble.retry_after is None:
            return jittered
        return trouble.retry_after * self._random.uniform(1.0, 1.1) + min(0.5, jittered / 2)

    def _given_up(self, trouble: Trouble) -> ModelFailure:
        return ModelFailure(trouble.kind, f"`{self.endpoint.name.given}`: {trouble.message}", trouble.hint)

    def _no_time(self) -> ModelFailure:
        name = self.endpoint.name.given
        if self._until is not None and time.monotonic() >= self._until:
            return ModelFailure(
                "deadline", f"`{name}` was not asked in time: the run's time is over.", "Raise `run-timeout`."
            )
        return ModelFailure("deadline", f"`{name}`: no answer within {self._settings.call_timeout:g} s in all.")
