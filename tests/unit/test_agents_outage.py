"""When a model of the agent counts as down, and what follows from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_eval.agents.host.outage import ModelOutages, outage_seconds, silence_seconds
from agent_eval.agents.messages import ModelNews
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.limiter import Limiter


class CountingLimiter(Limiter):
    """How many answers were counted."""

    answers = 0

    def answered(self) -> None:
        self.answers += 1
        super().answered()


class Watched:
    """Outages at a clock of its own, and the turns that ask."""

    def __init__(self, *, turn_timeout: float = 180.0) -> None:
        self.now = 0.0
        self.limiter = CountingLimiter(64, clock=lambda: self.now)
        self.logged: list[str] = []
        self.outages = ModelOutages(
            turn_timeout=turn_timeout, limiter=self.limiter, log=self.logged.append, clock=lambda: self.now
        )

    @staticmethod
    def turn() -> asyncio.Future[AgentFailure]:
        return asyncio.get_running_loop().create_future()

    def note(self, turn: asyncio.Future[AgentFailure], what: str, *, at: float, **facts: Any) -> None:
        self.now = at
        params = {"turn": 1, "call": 1, "model": "m", "address": "http://h:1", "what": what, **facts}
        self.outages.note(turn, ModelNews.model_validate(params))

    def refuse(self, turn: asyncio.Future[AgentFailure], *, until: float, **facts: Any) -> None:
        """Ten failed attempts, spread over the time until then."""
        begun = self.now
        for number in range(1, 11):
            at = begun + (until - begun) * number / 10
            self.note(turn, "asked", at=at, **facts)
            self.note(turn, "failed", at=at, cause="HTTP 503", status=503, **facts)


async def test_outages__failures_for_a_minute_end_the_turns_that_ask_and_the_agent() -> None:
    watched = Watched()
    turn, idle = watched.turn(), watched.turn()
    watched.refuse(turn, until=59)
    watched.outages.check()
    assert not turn.done()
    watched.note(turn, "failed", at=66, status=503, cause="HTTP 503")
    failure = turn.result()
    assert (failure.kind, failure.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "`m` at http://h:1 is down" in failure.message
    assert "HTTP 503 (11 times)" in failure.message
    assert not idle.done()
    with pytest.raises(AgentFailure) as caught:
        watched.outages.check()
    assert caught.value.message == failure.message
    assert watched.limiter.refusals == 11


async def test_outages__no_answer_is_in_the_log_once_and_soon() -> None:
    watched = Watched()
    turn = watched.turn()
    watched.refuse(turn, until=50)
    assert watched.logged == [], "a model that refuses for a while is there"
    for model in ("new", "new\x1b"):
        for at in (51, 52, 53):
            watched.note(turn, "failed", at=at, model=model, cause="connection refused")
            assert not turn.done()
        watched.note(turn, "failed", at=54, model=model, cause="connection refused")
    line = "`new{}` at http://h:1 does not answer: connection refused. Trying for 60 s."
    assert watched.logged == [line.format(""), line.format("\N{REPLACEMENT CHARACTER}")]


async def test_outages__few_failures_an_answer_between_or_a_refused_question_are_none() -> None:
    few, answered, asked = Watched(), Watched(), Watched()
    for at in (0, 100, 200, 300, 400):
        few.note(few.turn(), "failed", at=at, cause="connection refused")
    turn = answered.turn()
    answered.refuse(turn, until=50)
    answered.note(turn, "answered", at=51)
    answered.refuse(turn, until=105)
    for at in range(0, 200, 10):  # The provider is up.
        asked.note(asked.turn(), "failed", at=at, status=400, cause="HTTP 400")
    for watched in (few, answered, asked):
        watched.outages.check()
    assert not turn.done()
    assert [watched.limiter.answers for watched in (few, answered, asked)] == [0, 1, 20]


async def test_outages__another_model_that_answers_keeps_the_agent_going() -> None:
    watched = Watched()
    down, well, later = watched.turn(), watched.turn(), watched.turn()
    watched.note(well, "asked", at=0, model="other")
    watched.refuse(down, until=70)
    watched.note(well, "answered", at=71, model="other")
    assert down.done()
    watched.outages.check()
    watched.note(later, "asked", at=72)
    assert later.done(), "it asks the model that is down"
    watched.now = 200
    with pytest.raises(AgentFailure):
        watched.outages.check()


async def test_outages__an_attempt_is_in_the_providers_hands_until_it_or_its_turn_ends() -> None:
    watched = Watched()
    turn, other = watched.turn(), watched.turn()
    for call in (1, 2, 3, 4):
        watched.note(turn, "asked", at=0, call=call)
    watched.note(other, "asked", at=0)
    assert watched.limiter.unanswered == 5
    watched.note(turn, "silent", at=60, call=1, seconds=60.0)
    watched.note(turn, "answered", at=61, call=1)
    watched.note(turn, "failed", at=61, call=2, cause="HTTP 429", status=429)
    watched.note(turn, "failed", at=61, call=3, cause="connection reset")
    assert watched.limiter.unanswered == 2
    watched.note(turn, "asked", at=62, call=2)
    watched.outages.ended(turn)
    assert watched.limiter.unanswered == 1
    watched.outages.ended(other)
    assert (watched.limiter.unanswered, watched.limiter.refusals) == (0, 1)


async def test_outages__three_silent_turns_are_one_and_two_are_not() -> None:
    watched = Watched()
    turns = [watched.turn() for _ in range(3)]
    for turn in turns:
        watched.note(turn, "asked", at=0)
        watched.note(turn, "silent", at=59, seconds=59.0)
    for turn in (*turns[:2], *turns[:2]):
        watched.note(turn, "silent", at=61, seconds=61.0)
    watched.outages.check()
    watched.note(turns[2], "silent", at=62, seconds=62.0)
    assert all(turn.done() for turn in turns)
    assert "it sent no data to 3 calls in 62 seconds" in turns[0].result().message


async def test_outages__five_refused_keys_are_one_unless_the_model_ever_answered() -> None:
    fresh, used = Watched(), Watched()
    used.note(used.turn(), "answered", at=0)
    for watched in (fresh, used):
        for at in range(1, 6):
            watched.note(watched.turn(), "failed", at=at, status=401, cause="HTTP 401")
    used.outages.check()
    with pytest.raises(AgentFailure, match=r"can't be used: HTTP 401 \(5 times\)"):
        fresh.outages.check()


@pytest.mark.parametrize(
    ("turn_timeout", "outage", "silence"), [(180, 60, 60), (600, 60, 200), (60, 40, 60), (6, 4, 6)]
)
def test_outages__follow_from_the_time_of_a_turn(turn_timeout: float, outage: float, silence: float) -> None:
    assert (outage_seconds(turn_timeout), silence_seconds(turn_timeout)) == (outage, silence)
