"""Decides about the tool calls of one session: answers them from the tape, or lets them run and records them; and makes
a tape from the sessions of a case. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_eval.agents.messages import ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval.agents.tape_rules import Mode, ToolRules
from agent_eval.agents.tapes._files import MAX_RESPONSE
from agent_eval.agents.tapes._tape import (
    CallActions,
    CallError,
    RecordedCall,
    Tape,
    TooDeep,
    ToolHashes,
    canonical,
    equal,
    masked,
    masked_names,
)
from agent_eval.results import ToolUse

RUN: Mapping[str, Any] = {"do": "run"}


class Obstacle(StrEnum):
    """Why a call can't be answered (docs/problems.md)."""

    NOT_RECORDED = "tool-not-recorded"
    MISSING = "tool-tape-missing"
    STALE = "tool-tape-stale"
    NOT_REPLAYABLE = "tool-not-replayable"


class Unanswerable(Exception):
    """A call that the tape does not answer, and that must not run."""

    def __init__(
        self, obstacle: Obstacle, call: ToolAsked, *, nearest: RecordedCall | None = None, why: str = ""
    ) -> None:
        """Describes the call.

        Args:
            obstacle: What is wrong.
            call: The call, with its arguments masked.
            nearest: The most similar call of the same tool on the tape.
            why: Details: what changed, or why the recorded call can't be replayed.
        """
        super().__init__(f"{obstacle}: {call.name}")
        self.obstacle = obstacle
        self.call = call
        self.nearest = nearest
        self.why = why


class TapeIndex:
    """A tape as it is looked up."""

    def __init__(self, tape: Tape, rules: ToolRules) -> None:
        self.tape = tape
        self._rules = rules
        self._calls: dict[tuple[str, str], list[RecordedCall]] = {}
        for call in tape.calls:
            key = (call.tool, canonical(call.args, rules.of(call.tool)))
            self._calls.setdefault(key, []).append(call)

    def find(self, tool: str, key: str, occurrence: int) -> RecordedCall | None:
        """The recorded call that answers; None if there is none.

        More calls than recorded get the last answer, if all recorded answers are the same.
        """
        calls = self._calls.get((tool, key), [])
        for call in calls:
            if call.occurrence == occurrence:
                return call
        repeatable = all(call.replayable and call.answers_like(calls[0]) for call in calls)
        return calls[-1] if calls and repeatable else None

    def nearest(self, tool: str, args: Mapping[str, Any]) -> RecordedCall | None:
        """The recorded call of a tool with the most equal arguments, which are masked; the first of several."""
        policy = self._rules.of(tool)
        calls = [
            call.model_copy(update={"args": masked(call.args, policy)}) for call in self.tape.calls if call.tool == tool
        ]
        return max(calls, key=lambda call: _equal_args(call.args, args), default=None)


def _equal_args(recorded: Mapping[str, Any], args: Mapping[str, Any]) -> int:
    same: int = sum(key in args and args[key] == value for key, value in recorded.items())
    return 2 * same - len(recorded.keys() ^ args.keys())


@dataclass(kw_only=True)
class TapeSession:
    """One session of one case."""

    mode: Mode
    rules: ToolRules
    index: TapeIndex | None
    """The case's tape; None if it has none."""
    of_base: bool = False
    """Whether the agent is the base branch's, whose tools may be older than the answers."""
    depends: Callable[[Sequence[str]], str] = lambda patterns: ""
    """Hash of the files that match patterns."""
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
    _recorded: dict[int, RecordedCall] = field(default_factory=dict)
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _running: dict[int, tuple[ToolAsked, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.use = ToolUse(mode=self.mode)

    @property
    def recorded(self) -> list[RecordedCall]:
        """The calls whose bodies ran, in the order of their beginnings."""
        return [self._recorded[number] for number in sorted(self._recorded)]

    def ask(self, call: ToolAsked) -> Mapping[str, Any]:
        """The result of `tool` (docs/host-protocol.md).

        Raises:
            Unanswerable: The tape has no answer, and the tool must not run.
        """
        policy = self.rules.of(call.name)
        if not policy.replay:
            self.use.live += 1
            return RUN
        try:
            key = canonical(call.args, policy)
        except TooDeep as error:
            raise Unanswerable(Obstacle.NOT_REPLAYABLE, call, why=str(error)) from error
        occurrence = self._counts[call.name, key]
        self._counts[call.name, key] += 1
        call = call.model_copy(update={"args": masked(call.args, policy)})
        if self.mode == "record":
            return self._run(call, occurrence)
        answer = self.index.find(call.name, key, occurrence) if self.index is not None else None
        changed = self._changed(call, answer)
        if self.mode == "record-missing":
            if answer is None or changed or not answer.replayable:
                return self._run(call, occurrence)
        elif changed and policy.stale == "error":
            raise Unanswerable(Obstacle.STALE, call, why=changed)
        elif answer is None:
            return self._missed(call)
        elif not answer.replayable:
            raise Unanswerable(Obstacle.NOT_REPLAYABLE, call, why=answer.reason or "")
        self.use.replayed += 1
        return {"do": "answer", **answer.answer()}

    def toolset(self, asked: ToolsetAsked) -> Mapping[str, Any]:
        """The result of `toolset` (docs/host-protocol.md). A list that is not on the tape is asked for."""
        if self.mode != "replay" or self.index is None or asked.toolset not in self.index.tape.toolsets:
            return RUN
        return {"do": "answer", "tools": self.index.tape.toolsets[asked.toolset]}

    def listed(self, listing: ToolsetListed) -> None:
        """Records the tools of an MCP server."""
        if self.toolsets.setdefault(listing.toolset, listing.tools) != listing.tools:
            self.varying.add(listing.toolset)

    def _run(self, call: ToolAsked, occurrence: int) -> Mapping[str, Any]:
        self._running[call.call] = (call, occurrence)
        return RUN

    def _missed(self, call: ToolAsked) -> Mapping[str, Any]:
        self.use.missed += 1
        if self.rules.of(call.name).miss == "live":
            self.use.live += 1
            return RUN
        if self.index is None:
            raise Unanswerable(Obstacle.MISSING, call)
        raise Unanswerable(Obstacle.NOT_RECORDED, call, nearest=self.index.nearest(call.name, call.args))

    def _changed(self, call: ToolAsked, answer: RecordedCall | None) -> str:
        """What changed in a tool since its answers were recorded; "" if nothing did.

        The tool of the agent that got the answer counts: two agents may have different tools of one name.
        """
        agent = call.agent if answer is None else answer.agent
        before = self.index.tape.hashes_of(call.name, agent) if self.index is not None else None
        if before is None or self.of_base:
            return ""
        now = self._hashes(call)
        parts = (
            "its declaration" if before.declaration != now.declaration else "",
            "the file that defines it" if before.source != now.source else "",
            before.changed_implementation(now.implementation),
            before.changed_depends(now.depends),
        )
        changed = " and ".join(filter(None, parts))
        if changed:
            self.changed[call.name] = changed
        return changed

    def _hashes(self, call: ToolAsked) -> ToolHashes:
        depends = self.rules.of(call.name).depends
        return ToolHashes(
            declaration=call.declaration,
            source=call.source,
            files=call.files,
            implementation=call.implementation,
            depends=self.depends(depends) if depends else "",
        )

    def ran(self, result: ToolRan) -> None:
        """Records a call whose body has run."""
        call, occurrence = self._running.pop(result.call, (None, 0))
        if call is None:
            return
        self.use.recorded += 1
        self.hashes[call.agent, call.name] = self._hashes(call)
        self._recorded[result.call] = self._record(call, occurrence, result)
        self.masked |= {f"{call.name}({path})" for path in masked_names(result.response)}
        self.masked |= {f"{call.name}({path})" for path in masked_names(result.state)}

    def _record(self, call: ToolAsked, occurrence: int, result: ToolRan) -> RecordedCall:
        policy = self.rules.of(call.name)
        recorded = RecordedCall(
            tool=call.name, agent=call.agent, args=call.args, occurrence=occurrence, seconds=result.seconds
        )
        reason = result.reason
        try:
            recorded.response = masked(result.response, policy)
            recorded.state = masked(result.state, policy)
            size = len(recorded.model_dump_json())
        except (TooDeep, ValueError) as error:
            reason, size = reason or f"its response can't be stored: {error}", 0
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


@dataclass(frozen=True, kw_only=True)
class Taped:
    """A new tape, and what its author should know."""

    calls: tuple[RecordedCall, ...]
    tools: Mapping[str, ToolHashes]
    conflicts: tuple[RecordedCall, ...]
    """Calls to which two runs got different answers; the first answer was kept."""
    toolsets: Mapping[str, list[dict[str, Any]]]
    """The tools that MCP servers list."""
    varying: tuple[str, ...]
    """Toolsets that are not recorded, because their servers listed other tools from time to time."""


def tape_of(sessions: Sequence[TapeSession], rules: ToolRules, before: Tape | None = None) -> Taped:
    """Merges the calls of several sessions of a case.

    Args:
        sessions: In the order of their runs.
        rules: Say which calls are the same.
        before: The tape to complete (`record-missing`); None to begin an empty one.
    """
    changed = {tool for session in sessions for tool in session.changed}
    tools = {key: value for key, value in (before.tools if before else {}).items() if not _names(key) & changed}
    calls: dict[tuple[str, str, int], RecordedCall] = {}
    for call in before.calls if before else ():
        if call.tool not in changed and call.replayable:
            calls[_key(call, rules)] = call
    conflicts: list[RecordedCall] = []
    for session in sessions:
        for (agent, name), hashes in session.hashes.items():
            if tools.setdefault(name, hashes) != hashes:
                tools[f"{agent}/{name}"] = hashes
        for call in session.recorded:
            key = _key(call, rules)
            first = calls.setdefault(key, call)
            if first is call:
                continue
            calls[key] = first.model_copy(update={"seen": first.seen + 1})
            if not first.answers_like(call):
                conflicts.append(call)
    used = {call.tool for call in calls.values()}
    toolsets, varying = _toolsets_of(sessions, before)
    return Taped(
        calls=tuple(calls.values()),
        tools={key: value for key, value in tools.items() if _names(key) & used},
        conflicts=tuple(conflicts),
        toolsets=toolsets,
        varying=varying,
    )


def _toolsets_of(
    sessions: Sequence[TapeSession], before: Tape | None
) -> tuple[dict[str, list[dict[str, Any]]], tuple[str, ...]]:
    """The lists of tools on which all sessions agree, and the names of the others."""
    toolsets: dict[str, list[dict[str, Any]]] = {}
    varying = {name for session in sessions for name in session.varying}
    for session in sessions:
        for name, tools in session.toolsets.items():
            if toolsets.setdefault(name, tools) != tools:
                varying.add(name)
    merged = {**(before.toolsets if before else {}), **toolsets}
    return {name: tools for name, tools in merged.items() if name not in varying}, tuple(sorted(varying))


def changing_arguments(sessions: Sequence[TapeSession]) -> set[str]:
    """Arguments that differ in every run while the others are the same, e.g. `search(request_id)`: times, ids."""
    if len(sessions) < 2:
        return set()
    names: set[str] = set()
    by_tool: list[dict[str, list[RecordedCall]]] = []
    for session in sessions:
        grouped: dict[str, list[RecordedCall]] = {}
        for call in session.recorded:
            grouped.setdefault(call.tool, []).append(call)
        by_tool.append(grouped)
    for tool in set.intersection(*(set(grouped) for grouped in by_tool)):
        for calls in zip(*(grouped[tool] for grouped in by_tool), strict=False):
            names |= {f"{tool}({name})" for name in _changing([call.args for call in calls])}
    return names


def _changing(args: Sequence[Mapping[str, object]]) -> list[str]:
    first = args[0]
    if any(each.keys() != first.keys() for each in args):
        return []
    different = [
        name
        for name in first
        if not any(equal(each[name], other[name]) for at, each in enumerate(args) for other in args[at + 1 :])
    ]
    same = [name for name in first if all(equal(each[name], first[name]) for each in args)]
    return different if len(different) + len(same) == len(first) else []


def _names(key: str) -> set[str]:
    """The tools that a key of `Tape.tools` may stand for: the name of an MCP server's tool may have a slash in it."""
    return {key, key.partition("/")[2]}


def _key(call: RecordedCall, rules: ToolRules) -> tuple[str, str, int]:
    return call.tool, canonical(call.args, rules.of(call.tool)), call.occurrence
