"""Whether the models of an agent are worth asking: an outage is noticed once, and ends the run with one message."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_eval_agents.host import blame
from agent_eval_agents.messages import ModelCallFacts, ModelNews
from agent_eval_agents.protocol import AgentFailure, FailureKind
from agent_eval_scoring.core.limiter import Limiter, Request
from agent_eval_scoring.core.text import harmless
from agent_eval_scoring.models import Health, ModelFailure
from agent_eval_scoring.net.retry import NO_ACCESS, THROTTLED

_LONGEST_OUTAGE = 60.0
_ENOUGH = 6
"""Failed attempts in a row that an outage takes."""
_REPORTED = 3
"""Attempts without an answer after which the log says why nothing happens."""
_REFUSED = 5
"""Refused keys in a row after which no key of this run can be right."""

_Key = tuple[str, str]
"""Address and name of a model."""


def outage_seconds(turn_timeout: float) -> float:
    """Seconds without an answer after which a model that refuses counts as down: at most a minute.

    Two thirds of a turn's time are about when its own attempts end, since the next pause would not fit into it.
    """
    return min(_LONGEST_OUTAGE, turn_timeout * 2 / 3)


def silence_seconds(turn_timeout: float) -> float:
    """Seconds after which calls that were sent nothing mean that a model is down.

    A third of a turn's time, but at least a minute, or the whole turn if that is shorter: a slow model is not down, and
    a user of one gives turns more time.
    """
    return max(min(_LONGEST_OUTAGE, turn_timeout), turn_timeout / 3)


@dataclass(kw_only=True, eq=False)
class _Model:
    health: Health
    causes: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    ever_answered: bool = False
    answered_at: float = float("-inf")
    reported: bool = False


class ModelOutages:
    """Follows all models of one agent, in all its hosts."""

    def __init__(
        self,
        *,
        turn_timeout: float,
        limiter: Limiter,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins with all of them healthy.

        Args:
            turn_timeout: Seconds that a turn may take.
            limiter: Counts each attempt, and shrinks if it is answered with 429 or 503.
            log: Gets a line, once for each model, when attempts get no answer at all.
            clock: Only goes forward.
        """
        self._outage = outage_seconds(turn_timeout)
        self._silence = silence_seconds(turn_timeout)
        self._limiter = limiter
        self._log = log
        self._clock = clock
        self._models: dict[_Key, _Model] = {}
        self._requests: dict[tuple[asyncio.Future[AgentFailure], int], Request] = {}
        """The attempt of each turn and model call that is not answered yet."""
        self._waiting: dict[asyncio.Future[AgentFailure], _Key] = {}
        """The turns that ask a model right now: their `outage`, and which model."""

    def note(self, outage: asyncio.Future[AgentFailure], news: ModelNews) -> None:
        """Takes in what a host says of an attempt.

        Args:
            outage: Of the turn; gets a failure when it asks a model that is down.
            news: What happened.
        """
        key, now = (news.address, news.model), self._clock()
        if news.what != "silent":
            self._note_request((outage, news.call), news)
        model = self._models.get(key) or self._add(key, now)
        match news.what:
            case "asked":
                self._waiting[outage] = key
            case "answered":
                self._waiting.pop(outage, None)
                self._answered(model, now)
            case "failed" if news.status is None or blame.is_temporary(news.status):
                self._failed(model, news, now)
            case "failed" if news.status in NO_ACCESS:
                self._refused(model, news)
            case "failed":
                self._answered(model, now)  # by a provider that is up, and does not like the question
            case "silent" if news.seconds >= self._silence:
                model.health.silent(outage, news.seconds)
        self._end_turns()

    def _note_request(self, key: tuple[asyncio.Future[AgentFailure], int], news: ModelNews) -> None:
        request = self._requests.pop(key, None)
        if news.what == "answered" and request is not None:
            request.answered()
        elif news.status in THROTTLED:
            (request or self._limiter.asked()).refused()
        elif request is not None:
            request.ended()
        if news.what == "asked":
            self._requests[key] = self._limiter.asked()

    def _add(self, key: _Key, now: float) -> _Model:
        address, name = key
        health = Health(
            name or "model",
            where=f" at {address}" if address else "",
            outage=self._outage,
            enough=_ENOUGH,
            now=now,
            hint="Run again when the provider is back.",
        )
        return self._models.setdefault(key, _Model(health=health))

    def _answered(self, model: _Model, now: float) -> None:
        model.health.answered(now)
        model.causes.clear()
        model.refused = 0
        model.ever_answered = True
        model.answered_at = now
        self._limiter.answered()

    def _failed(self, model: _Model, news: ModelNews, now: float) -> None:
        model.causes[news.cause] += 1
        model.health.failed(now, blame.counted(model.causes))
        if news.status is None and not model.reported and model.causes.total() >= _REPORTED:
            model.reported = True
            self._log(harmless(f"{model.health.name} does not answer: {news.cause}. Trying for {self._outage:.0f} s."))

    def _refused(self, model: _Model, news: ModelNews) -> None:
        model.causes[news.cause] += 1
        model.refused += 1
        if model.refused >= _REFUSED and not model.ever_answered:
            model.health.disable("no-credentials", blame.counted(model.causes), blame.KEY_HINT)

    def turn_was_late(self, outage: asyncio.Future[AgentFailure], call: ModelCallFacts) -> None:
        """Takes in that a turn's time was up while its model was silent."""
        model = self._models.get((call.address, call.model))
        if model is not None and not call.attempts:
            model.health.silent(outage, call.silent)
            self._end_turns()

    def ended(self, outage: asyncio.Future[AgentFailure]) -> None:
        """A turn has ended; there will be no more news of it."""
        self._waiting.pop(outage, None)
        for key in [key for key in self._requests if key[0] is outage]:
            self._requests.pop(key).ended()

    def _end_turns(self) -> None:
        for outage, key in list(self._waiting.items()):
            failure = self._models[key].health.failure
            if failure is not None and not outage.done():
                outage.set_result(as_agent_failure(failure))

    def check(self) -> None:
        """Does nothing while the agent is worth running.

        Raises:
            AgentFailure: A model of it is down, and no other one has answered of late; always in the same words.
        """
        failure = next((model.health.failure for model in self._models.values() if model.health.failure), None)
        if failure is None:
            return
        now = self._clock()
        well = (model for model in self._models.values() if model.health.failure is None)
        if not any(now - model.answered_at < self._outage for model in well):
            raise as_agent_failure(failure)


def as_agent_failure(failure: ModelFailure) -> AgentFailure:
    """The failure of a run whose model is down."""
    return AgentFailure(
        f"The agent's model provider failed: {failure.message}",
        kind=FailureKind.PROVIDER,
        hint=failure.hint,
        no_key=failure.kind == "no-credentials",
    )
