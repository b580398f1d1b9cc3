"""Decides about the calls of one session: answers them from the tape, or lets them run and records them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval_agents.messages import ModelAsked, ModelNews, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_agents.protocol import Look
from agent_eval_agents.tape_rules import Mode, ToolPolicy, ToolRules
from agent_eval_agents.tapes._files import MAX_RESPONSE
from agent_eval_agents.tapes._index import TapeIndex
from agent_eval_agents.tapes._order import Order, Times
from agent_eval_agents.tapes._requests import (
    Difference,
    Obstacle,
    Request,
    Unanswerable,
    difference_of,
    first_difference,
    masked_content,
    request_of,
)
from agent_eval_agents.tapes._tape import (
    MAX_MODEL_CALLS,
    CallActions,
    CallError,
    ModelExchange,
    RecordedCall,
    RecordedRun,
    TooDeep,
    ToolHashes,
    canonical,
    changed_files,
    facts_of,
    masked,
    masked_names,
    normal,
    place_of,
)
from agent_eval_scoring.core.recording import ToolUse

RUN: Mapping[str, Any] = {"do": "run"}
_VALUE = "value:"
_Key = tuple[str, str, int]
"""A tool call: its tool, its canonical arguments and its occurrence."""


async def _nothing(names: Collection[str]) -> Mapping[str, str]:
    """A host that can't say what a call would see."""
    return {}


@dataclass(kw_only=True)
class TapeSession:
    """One session of one case."""

    mode: Mode
    rules: ToolRules
    index: TapeIndex | None
    """The case's tape; None if it has none."""
    by_hand: TapeIndex | None = None
    """What a person wrote into the case; None if it has no answers."""
    of_base: bool = False
    """Whether the agent is the base branch's, whose tools may be older than the answers."""
    depends: Callable[[Sequence[str]], str] = lambda patterns: ""
    """Hash of the files that match patterns."""
    evidence: Callable[[str, str], str] = lambda name, seen: seen
    """What a tape may hold of something that a tool has read; see `ToolFiles.evidence`."""
    order: Order = field(default_factory=Order)
    """Releases the answers in mode `all`."""
    use: ToolUse = field(init=False)
    hashes: dict[tuple[str, str], ToolHashes] = field(default_factory=dict)
    """Of the tools of these calls, by agent and name."""
    changed: dict[str, str] = field(default_factory=dict)
    """Tools that changed since the recording, with what changed."""
    masked: set[str] = field(default_factory=set)
    """What was masked because of its name, e.g. `login(password)`."""
    toolsets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The tools that MCP servers have listed, in MCP's own form, by `ToolsetAsked.toolset`."""
    varying: set[str] = field(default_factory=set)
    """The toolsets of which there were different lists."""
    parts: dict[str, Any] = field(default_factory=dict)
    """The values of the requests of `model_calls`; see `Tape.parts`."""
    obstacle: str | None = None
    """Why the model calls of this session can't be on a tape; None if they can."""
    times: Times = field(default_factory=Times)
    """Of the calls that are recorded: of tools by `_Key`, of models by `ModelAsked.call`."""
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _recorded: dict[int, RecordedCall] = field(default_factory=dict)
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _running: dict[int, tuple[ToolAsked, _Key]] = field(default_factory=dict)
    _unable: Unanswerable | None = None
    """Why the session can't be replayed, whatever comes."""
    _checked: dict[int, tuple[ToolAsked, RecordedCall, Difference | None]] = field(default_factory=dict)
    """In mode `all`: calls whose changed tools run, the answers that they must give, and how the outcome differs."""
    _exchanges: dict[int, ModelExchange | None] = field(default_factory=dict)
    _requests: dict[int, tuple[Request, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.use = ToolUse(mode=self.mode)
        if self.mode == "all" and self.index is not None:
            self.order.expect(self.index.conversation())
            recorded = self.index.tape.recorded or RecordedRun()
            self.use.recorded_status, self.use.recorded_scores = recorded.status, recorded.scores

    @property
    def recorded(self) -> list[RecordedCall]:
        """The calls whose bodies ran, in the order of their beginnings."""
        return [self._recorded[number] for number in sorted(self._recorded)]

    @property
    def model_calls(self) -> list[ModelExchange]:
        """The calls of models that have answered, in the order in which they were asked."""
        places = self.times.places()
        return [
            exchange.model_copy(update=dataclasses.asdict(places[call]))
            for call, exchange in self._exchanges.items()
            if exchange is not None
        ]

    @property
    def asked_models(self) -> bool:
        """Whether a model was asked."""
        return bool(self._exchanges) or self.obstacle is not None

    @property
    def why_not_taped(self) -> str | None:
        """Why the model calls of this session can't be on a tape; None if they can."""
        if self.obstacle is None and None in self._exchanges.values():
            return "a call of a model did not end"
        if self.obstacle is None and len(self._exchanges) > MAX_MODEL_CALLS:
            return f"it has more than {MAX_MODEL_CALLS:,} calls of models"
        return self.obstacle

    async def ask(self, call: ToolAsked, look: Look = _nothing) -> Mapping[str, Any]:
        """The result of `tool` (docs/host-protocol.md).

        Args:
            call: The call.
            look: Asks its host what it would see now.

        Raises:
            Unanswerable: The tape has no answer, and the tool must not run.
        """
        policy = self.rules.of(call.name)
        if self._runs(policy):
            return self._live(call)
        key, occurrence = self._counted(call, policy)
        call = call.model_copy(update={"args": masked(call.args, policy)})
        # Before any tape: what the case itself answers is neither recorded nor compared with a recording.
        if policy.answers:
            return self._answered_by_hand(call, key, occurrence)
        if self.mode == "record":
            return self._run(call, (call.name, key, occurrence))
        answer = self._answer(call, key, occurrence)
        changed = self._changed(call, answer)
        if self.mode == "record-missing":
            changed = changed or await self._saw_otherwise(call, answer, look)
            if answer is None or changed or not answer.replayable:
                return self._run(call, (call.name, key, occurrence))
            # As if it ran now: the new tape has its old answers at their places among the new ones.
            self._run(call, (call.name, key, occurrence))
            self.times.came(self._running.pop(call.call)[1])
        # Before a missing answer: that the tool changed explains why it is called otherwise, too.
        elif changed and policy.stale == "error":
            raise Unanswerable(Obstacle.STALE, call, why=changed)
        elif answer is None:
            return self._missed(call)
        elif not answer.replayable:
            raise Unanswerable(Obstacle.NOT_REPLAYABLE, call, why=answer.reason or "")
        else:
            if self.mode == "all":  # The answers before it may have set what it sees.
                await self._reach(answer, call, runs=True)
            changed = changed or await self._saw_otherwise(call, answer, look)
            if changed and policy.stale == "error":
                raise Unanswerable(Obstacle.STALE, call, why=changed)
            if changed and policy.stale == "live":
                if self.mode == "all":
                    self._checked[call.call] = (call, answer, difference_of(normal(answer.answer()), {}))
                return self._live(call)
            if self.mode == "all":
                self.order.release(answer, call.call_id)
        self.use.replayed += 1
        return {"do": "answer", **answer.answer()}

    def _runs(self, policy: ToolPolicy) -> bool:
        return not policy.answers and (self.mode == "live" or not policy.replay)

    def _counted(self, call: ToolAsked, policy: ToolPolicy) -> tuple[str, int]:
        """The canonical arguments of a call, and the number of equal calls before it."""
        try:
            key = canonical(call.args, policy)
        except TooDeep as error:
            raise Unanswerable(Obstacle.NOT_REPLAYABLE, call, why=str(error)) from error
        self._counts[call.name, key] += 1
        return key, self._counts[call.name, key] - 1

    def _answered_by_hand(self, call: ToolAsked, key: str, occurrence: int) -> Mapping[str, Any]:
        written = self.by_hand
        answer = None if written is None else written.find(call.name, key, occurrence, repeat=True)
        if answer is not None:
            self.use.by_hand += 1
            return {"do": "answer", **answer.answer()}
        self.use.missed += 1
        if self.rules.of(call.name).miss == "live":
            return self._live(call)
        nearest = None if written is None else written.nearest(call.name, call.args)
        raise Unanswerable(Obstacle.NOT_RECORDED, call, nearest=nearest, by_hand=True)

    def _answer(self, call: ToolAsked, key: str, occurrence: int) -> RecordedCall | None:
        if self.index is None:
            return None
        if self.mode != "all":
            return self.index.find(call.name, key, occurrence, repeat=self.mode == "replay")
        # By agent: two parallel agents may make equal calls in another order than when they were recorded.
        number = self._counts[call.agent, call.name, key]
        self._counts[call.agent, call.name, key] += 1
        return self.index.made(call.agent, call.name, key, number)

    async def model(self, call: ModelAsked) -> Mapping[str, Any]:
        """The result of `model` (docs/host-protocol.md).

        Raises:
            Unanswerable: The tape has no answer, and the model must not be asked.
        """
        # `replay` answers tools only: the model with its instruction is what is tested.
        if self.mode in ("live", "replay"):
            return RUN
        try:
            request = request_of(call, self.rules)
        except TooDeep as error:
            if self.mode == "all":
                raise Unanswerable(Obstacle.MODEL_NOT_RECORDED, call, why=str(error)) from error
            self.obstacle = f"a request can't be stored: {error}"
            return RUN
        occurrence = self._counts["", request.fingerprint]
        self._counts["", request.fingerprint] += 1
        if self.mode != "all":
            for name, part in request.parts.items():
                self.parts.setdefault(name, part)
            self._requests[call.call] = (dataclasses.replace(request, parts={}), occurrence)
            self.times.asked(call.call, call)
            self._exchanges[call.call] = None
            return RUN
        if self.index is None or not self.index.tape.model_calls:
            raise Unanswerable(Obstacle.MISSING, call)
        exchange = self.index.exchanges.get((request.fingerprint, occurrence))
        if exchange is None:
            # A changed tool that has answered otherwise comes first: another request of the model follows from it.
            self.check_ended()
            difference = first_difference(self.index.tape, request)
            raise Unanswerable(Obstacle.MODEL_NOT_RECORDED, call, difference=difference)
        if what := changed_files(exchange.read, self.evidence):
            raise Unanswerable(Obstacle.MODEL_NOT_RECORDED, call, why=f"its model's code reads {what}, which changed")
        await self._reach(exchange, call)
        self._exchanges[call.call] = exchange
        self.use.model_calls += 1
        return {"do": "answer", "responses": exchange.responses}

    def model_news(self, news: ModelNews) -> None:
        """A model is asked.

        Raises:
            Unanswerable: In mode `all`, by code that is none of a tool that runs: its answers would not be on the tape.
        """
        # A tool that runs live may well ask a model of its own.
        if self.mode == "all" and not self.order.running:
            self._unable = Unanswerable(
                Obstacle.NOT_REPLAYABLE, ModelAsked(turn=news.turn, call=news.call, model=news.model)
            )
            raise self._unable

    def model_ran(self, result: ModelRan) -> None:
        """Records a call of a model that has answered; what it says later of the same call counts.

        Of an answer of the tape: the agent has dealt with it.
        """
        earlier = self._exchanges.get(result.call)
        request, occurrence = self._requests.get(result.call, (None, 0))
        if earlier is not None and result.is_dealt:
            self.order.used(earlier.done) if request is None else self.times.used(result.call)
        if request is None or result.is_dealt:
            return
        reason = f"a model raised {result.error.type}" if result.error is not None else result.reason
        responses: list[dict[str, Any]] = []
        try:
            responses = [self._response(response) for response in result.responses]
        except TooDeep as error:
            reason = reason or f"the answer of a model can't be stored: {error}"
        # A tape is a file of the repository, which each run reads.
        if len(json.dumps(responses)) > MAX_RESPONSE:
            reason = reason or f"the answer of a model has more than {MAX_RESPONSE // 1_000_000} MB"
        if reason is not None:
            self.obstacle = self.obstacle or reason
            return
        if earlier is None:
            self.times.came(result.call)
        self._exchanges[result.call] = ModelExchange(
            **facts_of(request.asked),
            request=dict(request.references),
            fingerprint=request.fingerprint,
            occurrence=occurrence,
            responses=responses,
            read=self._read(result),
            seconds=result.seconds,
            done=0,
            after=0,
        )

    def event(self, author: str, answered: Collection[str]) -> None:
        """An event of an agent, with the tool calls that are answered in it, by ADK's ids."""
        self.times.event(author, answered)
        self.order.event(author, answered)

    def _response(self, response: Mapping[str, Any]) -> dict[str, Any]:
        content = masked_content(response.get("content"), self.rules)
        return {**response, "content": content} if "content" in response else dict(response)

    async def _reach(
        self, answer: RecordedCall | ModelExchange, call: ToolAsked | ModelAsked, *, runs: bool = False
    ) -> None:
        """Waits until all earlier answers are released."""
        call_id = call.call_id if isinstance(call, ToolAsked) else None
        if await self.order.reach(answer, call_id, runs=runs) is not None:
            self.check_ended()
            raise Unanswerable(Obstacle.MODEL_NOT_RECORDED, call, left=self.left)

    def check_ended(self) -> None:
        """No model was asked, and changed tools have given their recorded answers.

        Raises:
            Unanswerable: Or a tool has raised, or its call was cancelled: had the run ended of that, nobody would ask.
        """
        if self._unable is not None:
            raise self._unable
        if self._checked:
            call, _, difference = next(iter(self._checked.values()))
            raise Unanswerable(Obstacle.STALE, call, difference=difference, why=self.changed[call.name])

    @property
    def left(self) -> list[RecordedCall | ModelExchange]:
        """In mode `all`: the recorded calls that the agent has not made so far, in the order of their answers."""
        calls, left = self.index.conversation() if self.index is not None else [], self.order.left
        return [call for call in calls if call.done in left]

    def toolset(self, asked: ToolsetAsked) -> Mapping[str, Any]:
        """The result of `toolset` (docs/host-protocol.md). A list that is not on the tape is asked for.

        So is one of a server that has changed, unless a model is asked anyway.
        """
        taped = self.index.tape.toolsets if self.mode in {"replay", "all"} and self.index is not None else {}
        before = {place_of(name): name for name in taped} if self.mode == "replay" else {}
        name = asked.toolset if asked.toolset in taped else before.get(place_of(asked.toolset))
        return RUN if name is None else {"do": "answer", "tools": taped[name]}

    def listed(self, listing: ToolsetListed) -> None:
        """Records the tools of an MCP server."""
        if self.toolsets.setdefault(listing.toolset, listing.tools) != listing.tools:
            self.varying.add(listing.toolset)

    def _live(self, call: ToolAsked) -> Mapping[str, Any]:
        self.use.live += 1
        self.order.running.add(call.call)
        return RUN

    def _run(self, call: ToolAsked, key: _Key) -> Mapping[str, Any]:
        self._running[call.call] = (call, key)
        self.times.asked(key, call)
        return RUN

    def _missed(self, call: ToolAsked) -> Mapping[str, Any]:
        self.use.missed += 1
        if self.rules.of(call.name).miss == "live":
            return self._live(call)
        if self.index is None:
            raise Unanswerable(Obstacle.MISSING, call)
        nearest = self.index.nearest(call.name, call.args)
        why = "the run whose model calls are on it" if self.mode == "all" else ""
        raise Unanswerable(Obstacle.NOT_RECORDED, call, nearest=nearest, why=why)

    def _changed(self, call: ToolAsked, answer: RecordedCall | None) -> str:
        """What changed in a tool since its answers were recorded; "" if nothing did.

        The tool of the agent that got the answer counts: two agents may have different tools of one name.
        """
        agent = call.agent if answer is None else answer.agent
        before = self.index.tape.hashes_of(call.name, agent) if self.index is not None else None
        # The base branch's tools may well be older than the answers, which the pull request has recorded.
        if before is None or self.of_base:
            return ""
        now = self._hashes(call)
        parts = (
            "its declaration" if before.declaration != now.declaration else "",
            "the file that defines it" if before.source != now.source else "",
            before.changed_implementation(now.implementation),
            before.changed_depends(now.depends),
            before.changed_packages(now.packages),
            before.changed_read(self.evidence),
        )
        changed = " and ".join(filter(None, parts))
        if changed:
            self.changed[call.name] = changed
        return changed

    async def _saw_otherwise(self, call: ToolAsked, answer: RecordedCall | None, look: Look) -> str:
        """What a call sees that is not what it saw when it was recorded; "" if nothing is."""
        if answer is None or self.of_base:
            return ""
        asked = [name for name in answer.saw if not name.startswith(_VALUE)]
        async with self._looking:  # An answer may set what the next one of parallel calls has seen.
            now = self._saw(call, await look(asked) if asked else {})
        changed = answer.changed_saw(now)
        if changed:
            self.changed[call.name] = changed
        return changed

    def _saw(self, call: ToolAsked, seen: Mapping[str, str]) -> dict[str, str]:
        """What a call has seen, as a tape may hold it."""
        values = {f"{_VALUE}{place}": value for place, value in call.changed.items()}
        return values | {name: self.evidence(name, value) for name, value in seen.items()}

    def _hashes(self, call: ToolAsked) -> ToolHashes:
        depends = self.rules.of(call.name).depends
        return ToolHashes(
            declaration=call.declaration,
            source=call.source,
            files=call.files,
            implementation=call.implementation,
            depends=self.depends(depends) if depends else "",
            packages=call.packages,
        )

    def ran(self, result: ToolRan) -> None:
        """Records a call whose body has run, or compares its answer with the recorded one.

        Raises:
            Unanswerable: A changed tool has given another answer.
        """
        self.order.running.discard(result.call)
        if result.call in self._checked:
            self._check(result)
        call, key = self._running.pop(result.call, (None, ("", "", 0)))
        if call is None:
            return
        self.use.recorded += 1
        self.times.came(key)
        hashes = self._hashes(call)
        hashes.read = self._read(result)
        hashes.hidden = result.hidden
        self.hashes[call.agent, call.name] = hashes
        self._recorded[result.call] = self._record(call, key[-1], result)
        self.masked |= {f"{call.name}({path})" for path in masked_names(result.response)}
        self.masked |= {f"{call.name}({path})" for path in masked_names(result.state)}

    def _read(self, result: ToolRan | ModelRan) -> dict[str, str]:
        return {name: value for name in result.read if (value := self.evidence(name, ""))}

    def _check(self, result: ToolRan) -> None:
        call, answer, _ = self._checked[result.call]
        now = self._record(call, answer.occurrence, result)
        difference = difference_of(normal(answer.answer()), normal(now.answer()))
        if now.reason is not None:
            difference = Difference(place="actions", recorded="nothing", now=now.reason)
        if difference is None:
            del self._checked[result.call]
            return self.order.release(answer, call.call_id)
        self._checked[result.call] = (call, answer, difference)
        # A new exception is the agent's, as in a live run: it ends the turn, or the next question does.
        return None if answer.error is None and now.error is not None else self.check_ended()

    def _record(self, call: ToolAsked, occurrence: int, result: ToolRan) -> RecordedCall:
        policy = self.rules.of(call.name)
        recorded = RecordedCall(
            tool=call.name, agent=call.agent, args=call.args, occurrence=occurrence, seconds=result.seconds
        )
        recorded.saw = self._saw(call, result.saw)
        reason = result.reason
        try:
            recorded.response = masked(result.response, policy)
            recorded.state = masked(result.state, policy)
            size = len(recorded.model_dump_json())
        except (TooDeep, ValueError) as error:
            reason, size = reason or f"its response can't be stored: {error}", 0
        # It would be committed, and read again by each run.
        if size > MAX_RESPONSE:
            reason = reason or f"its answer has more than {MAX_RESPONSE // 1_000_000} MB"
        if reason is not None:
            return recorded.model_copy(update={"response": None, "state": {}, "replayable": False, "reason": reason})
        recorded.actions = CallActions(
            **{name: value for name, value in result.actions.items() if name in CallActions.model_fields}
        )
        if result.error is not None:
            recorded.error = CallError(type=result.error.type, message=result.error.message)
        return recorded
