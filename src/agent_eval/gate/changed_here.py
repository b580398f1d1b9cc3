"""Which lines of a pull request a cause depends on: a place to look at, never said to be the reason."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_eval.gate.agent_sources import Definition, Sources
from agent_eval.gate.changed_lines import Lines, within
from agent_eval.results import AgentChangeCode, AgentFacts, AgentTree, CauseReport, Place

MOST_PLACES = 10
_OF_TOOLS = frozenset({"tool-error", "tool-empty", "tool-response", "deadline"})
"""Codes of causes that are about what a tool does."""
_CALLBACKS = tuple(
    f"{when}_callback"
    for when in (
        *("before_agent", "after_agent", "before_model", "after_model", "on_model_error"),
        *("before_tool", "after_tool", "on_tool_error"),
    )
)
_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "model": ("model",),
    "instruction": ("instruction", "global_instruction", "static_instruction"),
    "description": ("description",),
    "sub-agents": ("sub_agents",),
    "callbacks": _CALLBACKS,
    "tool-added": ("tools",),
    "tool-removed": ("tools",),
}
"""What makes an agent in Python code, by the code of a change."""
_KINDS: tuple[AgentChangeCode, ...] = (
    *("model", "instruction", "description", "sub-agents", "callbacks", "tool-added"),
)
"""What may lie behind a cause that is not about a tool."""
_LISTS = frozenset({"sub_agents", "tools"})
"""Keywords whose values name other things, which are not a part of the agent."""


@dataclass(frozen=True, kw_only=True)
class HeadCode:
    """The code of these agents, and what the pull request changes in it."""

    sources: Callable[[str], Sources]
    """The modules around an agent, by its path."""
    changed: Callable[[str], Lines | None]
    """The changed lines of a file; None if no base is known."""
    changed_files: Collection[str] | None
    """All files that differ from the base, relative to the root; None if no base is known."""

    def of_change(self, tree: AgentTree, agent: AgentFacts, code: AgentChangeCode, tool: str = "") -> list[Place]:
        """Where an agent has what a change is about: the changed lines, or all if no base is known."""
        if code in {"tool-source", "tool-declaration"}:
            return self.of_tool(tree, tool, agent)
        sources = self.sources(tree.agent)
        if code == "agent-added":
            return self._shown(sources.agent(self._start(tree, agent), agent.name))
        found: list[Definition] = []
        for value in sources.keywords(self._start(tree, agent), agent.name, _KEYWORDS.get(code, ())):
            if value.symbol not in _LISTS:
                found += sources.used([value])
            else:
                found += [value, *(sources.named(value) if isinstance(value.node, ast.Name) else ())]
        if not found:
            return self._shown(self._configurations(tree))
        if self.changed_files is None:  # The definition says more than the name.
            found = [each for each in found if not isinstance(each.node, ast.Name)][:1]
        return self._shown(each.place for each in found)

    def of_tool(self, tree: AgentTree, name: str, agent: AgentFacts | None = None) -> list[Place]:
        """The changed lines of a tool's code and of what it uses, and changed files that this code names."""
        agents = tree.agents if agent is None else [agent]
        tools = [tool for each in agents for tool in each.tools if tool.name == name and tool.place is not None]
        sources, places = self.sources(tree.agent), []
        for tool in tools:
            assert tool.place is not None
            places += self._of_code(sources, definitions(sources, tool.place)) or self._shown([tool.place])
        if not tools:  # One of a toolset, or of an MCP server.
            sets = [tool.place for each in agents for tool in each.tools if tool.place is not None]
            inside = sources.used(each for place in sets for each in definitions(sources, place))
            own = [each for each in inside if each.symbol.rpartition(".")[2] == name]
            own += [each for file in dict.fromkeys(place.file for place in sets) for each in sources.locate(file, name)]
            places += self._of_code(sources, own)
        return _distinct(places if self.changed_files is not None else places[:1])

    def _of_code(self, sources: Sources, code: Sequence[Definition]) -> list[Place]:
        used = sources.used(code)
        return [*self._shown(each.place for each in used), *(Place(file=file) for file in self._named(used))]

    def _start(self, tree: AgentTree, agent: AgentFacts) -> list[Definition]:
        """Where the agent is made; for one without a variable, where the others are."""
        sources = self.sources(tree.agent)
        own = [each for place in agent.places for each in definitions(sources, place)]
        others = [each for other in tree.agents for place in other.places for each in definitions(sources, place)]
        return [*own, *others]

    def _shown(self, places: Iterable[Place]) -> list[Place]:
        found = list(places) if self.changed_files is None else within(places, self.changed)
        return _distinct(found)[:MOST_PLACES]

    def _named(self, used: Iterable[Definition]) -> list[str]:
        """The changed files, no modules, that code names in a text."""
        texts = {text.removeprefix("./") for each in used for text in each.strings}
        parts = {text for text in texts if "." in text or "/" in text}
        return [
            file
            for file in self.changed_files or ()
            if not file.endswith(".py")
            and (
                any(f"/{file}".endswith(f"/{text}") for text in parts if text)
                or {PurePosixPath(file).stem, PurePosixPath(file).suffix} <= texts  # f"{name}.json"
            )
        ]

    def _configurations(self, tree: AgentTree) -> list[Place]:
        """The changed descriptions of agents in YAML, in the directory of the root agent."""
        folder = PurePosixPath(tree.agent.partition("#")[0])
        return [
            Place(file=file)
            for file in self.changed_files or ()
            if file.endswith((".yaml", ".yml")) and PurePosixPath(file).is_relative_to(folder)
        ]


def definitions(sources: Sources, place: Place) -> list[Definition]:
    """What is at a place that a host has named."""
    found = sources.locate(place.file, place.symbol, place.first) if place.first is not None else []
    return found or sources.locate(place.file, place.symbol)


def note_changed_here(
    causes: Sequence[CauseReport],
    trees: Callable[[CauseReport], Sequence[AgentTree]],
    code: HeadCode,
    called_before: Callable[[CauseReport], Collection[str]] = lambda _: (),
) -> None:
    """Gives causes the changed lines that they depend on. The first rule with a hit decides.

    Args:
        causes: They get `changed_here` and `called_before`.
        trees: The agents that a cause is about.
        code: Their code.
        called_before: The tools that all of a cause's cases called before it shows.
    """
    if not code.changed_files:
        return
    for cause in causes:
        own, about_tool = trees(cause), cause.code in {*_OF_TOOLS, "exception"}
        places = _here(cause, own, code) or ([] if about_tool else _of_agents(cause, own, code, _KINDS))
        if not places or not about_tool:
            tools = sorted(called_before(cause))
            before = [place for tree in own for tool in tools for place in code.of_tool(tree, tool)]
            cause.called_before = bool(before) and not places
            places = places + before
        if not places:
            places = _of_agents(cause, own, code, ("callbacks",) if cause.code in _OF_TOOLS else _KINDS)
        if not places and cause.data.tool and not about_tool:
            places = [place for tree in own for place in code.of_tool(tree, cause.data.tool)]
        cause.changed_here = _distinct(places)[:MOST_PLACES]


def _here(cause: CauseReport, trees: Sequence[AgentTree], code: HeadCode) -> list[Place]:
    """The line of the exception, or the one that waits; else the tool's code."""
    places: list[Place] = []
    if cause.code in {"exception", "deadline"} and cause.data.place is not None:
        places = within([cause.data.place], code.changed)
    if not places and cause.data.tool and (cause.code in _OF_TOOLS or cause.code == "exception"):
        places = [place for tree in trees for place in code.of_tool(tree, cause.data.tool)]
    return places


def _of_agents(
    cause: CauseReport, trees: Sequence[AgentTree], code: HeadCode, kinds: Sequence[AgentChangeCode]
) -> list[Place]:
    """What makes the agents that a cause names."""
    data = cause.data
    names = {data.agent, data.actual, data.expected} if cause.code == "sub-agent" else {data.agent}
    agents = [
        (tree, agent)
        for tree in trees
        for agent in tree.agents
        if agent.name in names or (not data.agent and len(tree.agents) == 1)
    ]
    places = [place for tree, agent in agents for kind in kinds for place in code.of_change(tree, agent, kind)]
    if not places and cause.code == "sub-agent":
        places = [place for tree, agent in agents for place in code.of_change(tree, agent, "agent-added")]
    return places


def _distinct(places: Iterable[Place]) -> list[Place]:
    return list({(place.file, place.first, place.last): place for place in places}.values())
