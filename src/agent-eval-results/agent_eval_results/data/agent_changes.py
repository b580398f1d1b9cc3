"""What differs between the agents of the base branch and these: facts, and places to look at."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_eval_results import AgentChange, AgentChangeCode, AgentFacts, AgentTree, Place

MOST_CHANGES = 200
_MOST_LINES = 2_000
"""Of an instruction that is compared line by line."""
PlacesOf = Callable[[AgentTree, AgentFacts, AgentChangeCode, str], Sequence[Place]]
"""Where an agent of a tree has what a change is about; the last argument is a tool's name or ""."""


def agent_changes(
    base: Sequence[AgentTree], head: Sequence[AgentTree], places: PlacesOf = lambda *_: (), *, only_placed: bool = False
) -> list[AgentChange]:
    """The differences of the agents that both sides know by their path, in the head's order.

    A renamed agent is removed and added; so is a tool.

    Args:
        base: The base branch's agents.
        head: These.
        places: Where something of a head's agent is defined.
        only_placed: Leave out what has no place: `base` is older than the commit to which the places are changes.
    """
    before = {tree.agent: tree for tree in base if tree.agents}
    changes = [
        change
        for tree in head
        if tree.agents and tree.agent in before
        for change in _of_tree(before[tree.agent], tree, places)
        if change.places or not only_placed
    ]
    return changes[:MOST_CHANGES]


def _of_tree(base: AgentTree, head: AgentTree, places: PlacesOf) -> Iterator[AgentChange]:
    before = {agent.name: agent for agent in base.agents}
    now = {agent.name: agent for agent in head.agents}
    for name, agent in now.items():
        if name not in before:
            yield AgentChange(
                code="agent-added", path=head.agent, agent=name, places=list(places(head, agent, "agent-added", ""))
            )
            continue
        for change in _of_agent(head.agent, before[name], agent, same_adk=base.adk == head.adk):
            change.places = list(places(head, agent, change.code, change.tool))
            yield change
    for name in before:
        if name not in now:
            yield AgentChange(code="agent-removed", path=head.agent, agent=name)


def _of_agent(path: str, base: AgentFacts, head: AgentFacts, *, same_adk: bool) -> Iterator[AgentChange]:
    name = head.name
    if base.model != head.model:
        yield AgentChange(code="model", path=path, agent=name, base=base.model, head=head.model)
    functions = base.callbacks.get("instruction"), head.callbacks.get("instruction")
    if base.instruction != head.instruction or functions[0] != functions[1]:
        yield _of_text("instruction", path, name, base.instruction, head.instruction)
    if base.description != head.description:
        yield _of_text("description", path, name, base.description, head.description)
    if base.sub_agents != head.sub_agents:
        yield AgentChange(
            code="sub-agents", path=path, agent=name, base=", ".join(base.sub_agents), head=", ".join(head.sub_agents)
        )
    if (callbacks := _differing(base.callbacks, head.callbacks)) is not None:
        yield AgentChange(code="callbacks", path=path, agent=name, base=callbacks[0], head=callbacks[1])
    yield from _of_tools(path, base, head, same_adk=same_adk)


def _of_text(code: AgentChangeCode, path: str, agent: str, base: str, head: str) -> AgentChange:
    old, new = base.splitlines(), head.splitlines()
    added = removed = 0
    if max(len(old), len(new)) > _MOST_LINES:
        added, removed = len(new), len(old)
    else:
        for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind != "equal":
                added, removed = added + end - start, removed + last - first
    return AgentChange(code=code, path=path, agent=agent, added=added, removed=removed)


def _differing(base: Mapping[str, str], head: Mapping[str, str]) -> tuple[str, str] | None:
    """The names of callbacks that only one side has; the changed ones on both sides if the names are the same."""
    base, head = ({kind: value for kind, value in side.items() if kind != "instruction"} for side in (base, head))
    if base == head:
        return None
    if base.keys() == head.keys():
        names = ", ".join(kind for kind in head if base[kind] != head[kind])
        return names, names
    return ", ".join(base), ", ".join(head)


def _of_tools(path: str, base: AgentFacts, head: AgentFacts, *, same_adk: bool) -> Iterator[AgentChange]:
    before = {tool.name: tool for tool in base.tools}
    now = {tool.name: tool for tool in head.tools}
    for name, tool in now.items():
        code: AgentChangeCode | None = None
        if name not in before:
            code = "tool-added"
        elif same_adk and _differ(before[name].declaration, tool.declaration):
            code = "tool-declaration"
        elif _differ(before[name].source, tool.source):
            code = "tool-source"
        if code is not None:
            yield AgentChange(code=code, path=path, agent=head.name, tool=name)
    for name in before.keys() - now.keys():
        yield AgentChange(code="tool-removed", path=path, agent=head.name, tool=name)


def _differ(base: str, head: str) -> bool:
    """Whether two hashes differ; an unknown one says nothing."""
    return bool(base and head and base != head)
