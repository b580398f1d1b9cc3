"""Makes a tape from the sessions of a case. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_agents.tape_rules import ToolRules
from agent_eval_agents.tapes._order import Place
from agent_eval_agents.tapes._session import TapeSession
from agent_eval_agents.tapes._tape import ModelExchange, RecordedCall, Tape, ToolHashes, canonical, equal, place_of


@dataclass(frozen=True, kw_only=True)
class Taped:
    """A new tape, and what its author should know."""

    calls: tuple[RecordedCall, ...]
    model_calls: tuple[ModelExchange, ...]
    parts: Mapping[str, Any]
    tools: Mapping[str, ToolHashes]
    conflicts: tuple[RecordedCall, ...]
    """Calls to which two runs got different answers; the first answer was kept."""
    toolsets: Mapping[str, list[dict[str, Any]]]
    """The tools that MCP servers list."""
    varying: tuple[str, ...]
    """Toolsets that are not recorded, because their servers listed other tools from time to time."""

    def is_in(self, tape: Tape, given: Mapping[str, str], replies: Mapping[str, object]) -> bool:
        """Whether a tape has everything that a new one without new tool calls would have; see `Tape` for the rest."""
        asked = [{call.fingerprint for call in calls} for calls in (tape.model_calls, self.model_calls)]
        same = (tape.toolsets, tape.given, tape.replies.keys()) == (self.toolsets, given, replies.keys())
        return same and asked[0] == asked[1]


def tape_of(
    sessions: Sequence[TapeSession], rules: ToolRules, before: Tape | None = None, chosen: TapeSession | None = None
) -> Taped:
    """Merges the calls of several sessions of a case.

    Args:
        sessions: In the order of their runs.
        rules: Say which calls are the same.
        before: The tape to complete (`record-missing`); None to begin an empty one.
        chosen: The session whose model calls become those of the tape. Its answers of tools count before all others.
    """
    if chosen is not None:
        sessions = [chosen, *(session for session in sessions if session is not chosen)]
    changed = {tool for session in sessions for tool in session.changed}
    tools = {key: value for key, value in (before.tools if before else {}).items() if not _names(key) & changed}
    calls: dict[tuple[str, str, int], RecordedCall] = {}
    for call in before.calls if before else ():
        if call.tool not in changed and call.replayable:
            calls[_key(call, rules)] = call
    conflicts: list[RecordedCall] = []
    for session in sessions:
        for (agent, name), hashes in session.hashes.items():
            place = name if tools.get(name, hashes).merged(hashes) else f"{agent}/{name}"
            tools[place] = tools.get(place, hashes).merged(hashes) or hashes
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
    made = chosen.times.places() if chosen is not None else {}
    return Taped(
        calls=tuple(_placed(call, made.get(key)) for key, call in calls.items()),
        model_calls=tuple(chosen.model_calls if chosen is not None else ()),
        parts=chosen.parts if chosen is not None else {},
        tools={key: value for key, value in tools.items() if _names(key) & used},
        conflicts=tuple(conflicts),
        toolsets=toolsets,
        varying=varying,
    )


def _placed(call: RecordedCall, made: Place | None) -> RecordedCall:
    """The call with its place in the chosen run, and with the agent that made it there."""
    place = {"after": 0, "done": None, "dealt": None} if made is None else dataclasses.asdict(made)
    return call.model_copy(update=place)


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
    places = set(map(place_of, toolsets))
    merged = {
        name: tools for name, tools in (before.toolsets if before else {}).items() if place_of(name) not in places
    }
    steady = {name: tools for name, tools in {**merged, **toolsets}.items() if name not in varying}
    return steady, tuple(sorted(map(place_of, varying)))


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
