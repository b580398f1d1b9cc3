"""Which lines of a pull request a cause depends on: a place to look at, never said to be the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import PurePosixPath

from agent_eval_results import (
    MOST_PLACES,
    AgentChange,
    AgentChangeCode,
    AgentFacts,
    AgentTree,
    CauseCounts,
    CauseReport,
    CauseSymptom,
    Place,
)
from agent_eval_results.causes.agent_sources import Definition, Sources
from agent_eval_results.causes.evidence import (
    ANSWERS,
    NONE,
    ROW,
    TIED,
    VALUE,
    WEAK,
    WORD,
    Before,
    Clues,
    clues_of,
    row_of,
)
from agent_eval_results.data.changed_lines import Edit, Lines, edits, lines_of, within

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
    **dict.fromkeys(("tool-added", "tool-removed"), ("tools",)),
}
"""What makes an agent in Python code, by the code of a change."""
_LISTS = frozenset({"sub_agents", "tools"})
"""Keywords whose values name other things, which are not a part of the agent."""
_GRAPHS = frozenset({"edges", "nodes"})
"""Keywords whose values name agents, and functions, which are part of a workflow."""
_VARIABLES = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_KEPT = frozenset({"state", "load_artifact", "session"})
"""Attributes by which code reads what other code has kept."""
_GONE = re.compile("|".join((r"no tool with\b", r"in the tools_dict", r"Tool '[^']*' not found")))
"""How google-adk answers a call of a tool that the agent doesn't have."""
_OF_CALLS = ("before_tool_callback", "after_tool_callback", "on_tool_error_callback")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}")


@dataclass(frozen=True, kw_only=True)
class HeadCode:
    """The code of these agents, and what the pull request changes in it."""

    sources: Callable[[str], Sources]
    """The modules around an agent, by its path."""
    changed: Callable[[str], Lines | None]
    """The changed lines of a file; None if no base is known."""
    changed_files: Collection[str] | None
    """All files that differ from the base, relative to the root; None if no base is known."""
    written: Callable[[str], Lines | None] = lambda _: None
    """As `changed`, with comments and docstrings."""
    texts: Callable[[str], tuple[str | None, str | None]] = lambda _: (None, None)
    """A file's text on the base branch and here; None: it has none, or can't be read."""
    apart: bool = False
    """Keep apart what is not changed together, e.g. two lines of a function."""

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

    def code_of(self, tree: AgentTree, name: str, agent: AgentFacts | None = None) -> list[Definition]:
        """A tool's code, and what it uses."""
        if not name:
            return []
        sources = self.sources(tree.agent)
        agents = tree.agents if agent is None else [agent]
        tools = [tool for each in agents for tool in each.tools if tool.place is not None]
        own = [each for tool in tools if tool.name == name and tool.place for each in definitions(sources, tool.place)]
        if not own and all(tool.name != name for tool in tools):  # One of a toolset, or of an MCP server.
            sets = [tool.place for tool in tools if tool.place is not None]
            inside = sources.used(each for place in sets for each in definitions(sources, place))
            own = [each for each in inside if each.symbol.rpartition(".")[2] == name]
            own += [each for file in dict.fromkeys(place.file for place in sets) for each in sources.locate(file, name)]
        return sources.used(own)

    def declaration(self, tree: AgentTree, name: str, agent: AgentFacts) -> list[Place]:
        """The changed lines of what a model is shown of a tool: its signature and its docstring."""
        found = []
        for tool in agent.tools:
            for each in definitions(self.sources(tree.agent), tool.place) if tool.name == name and tool.place else ():
                body = getattr(each.node, "body", None)
                first = body[0] if isinstance(body, list) and body else None
                if isinstance(first, ast.stmt):
                    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                    last = (first.end_lineno or first.lineno) if is_text else first.lineno - 1
                    found.append(each.place.model_copy(update={"last": max(last, each.place.first or 1)}))
        return within(found, self.written, apart=self.apart)

    def declarations(self, tree: AgentTree, agents: Iterable[AgentFacts]) -> list[Place]:
        """The changed lines of what models are shown of these agents' tools."""
        return [place for each in agents for tool in each.tools for place in self.declaration(tree, tool.name, each)]

    def of_agent(self, tree: AgentTree, agent: AgentFacts, only: Sequence[str] = ()) -> list[Place]:
        """The changed lines of the call that makes an agent, and of what it passes: all, or some keywords."""
        sources, start = self.sources(tree.agent), self._start(tree, agent)
        code: list[Definition] = []
        for value in sources.keywords(start, agent.name, only):
            if value.symbol in _LISTS | _GRAPHS:
                named = [each for each in sources.named(value) if value.symbol in _GRAPHS or _is_list(each.node)]
                code += [value, *sources.used(each for each in named if not isinstance(each.node, ast.Assign))]
                code += [each for each in named if _is_list(each.node)]
            else:
                code += sources.used([value])
        places = self.of_code(code)
        if not only:
            places += [
                Place(file=call.file, first=first, last=last, symbol=agent.name)
                for call in sources.agent(start, agent.name)
                for first, last in self.changed(call.file) or ()
                if first <= (call.last or 0) and last >= (call.first or 1)
            ] + self._configurations(tree)
        return places

    def of_plugins(self, tree: AgentTree) -> list[Place]:
        """The changed lines of the plugins of the agent's app."""
        sources, folder = self.sources(tree.agent), tree.agent.partition("#")[0]
        files = [place.file for agent in tree.agents for place in agent.places]
        files += [f"{folder}/agent.py", f"{folder}/__init__.py"]
        apps = [each for file in dict.fromkeys(files) for each in sources.locate(file, "app")]
        return self.of_code(sources.used(sources.passed(apps, "plugins")))

    def weighed(self, place: Place, clues: Clues) -> tuple[int, Place]:
        """How much speaks for a place, and the place; of a file of data the lines for which the most speaks."""
        found, is_data = self.edits_of(place), place.first is None
        if PurePosixPath(place.file).name.casefold() in clues.named:
            return VALUE, place
        head = self.texts(place.file)[1] or ""
        weights = [(clues.weight(edit, row_of(head, edit) if is_data else None), edit) for edit in found]
        least = min((weight for weight, _ in weights), default=NONE)
        best = [edit for weight, edit in weights if weight == least]
        if is_data and least <= TIED and len(best) == 1:
            place = place.model_copy(update={"first": best[0].first, "last": best[0].last})
        return (WORD if least > WORD and place.symbol.casefold() in clues.symbols else least), place

    def edits_of(self, place: Place) -> list[Edit]:
        """What differs at a place."""
        base, head = self.texts(place.file)
        if base is None or head is None:
            return []
        low, high = place.first or 1, place.last or place.first or len(head)
        lines = lines_of(head)  # Code names the line of code before what was removed.
        while high < len(lines) and lines[high].strip()[:1] in {"", "#"}:
            high += 1
        return [edit for edit in edits(base, head) if edit.first <= high and edit.last >= low]

    def named(self, place: Place) -> Place:
        """A place with what was removed there, or with the new name of its file."""
        base, head = self.texts(place.file)
        if base is not None and head is None:
            twins = (
                file for file in self.changed_files or () if file != place.file and self.texts(file) == (None, base)
            )
            return place.model_copy(
                update={"gone": "renamed" if (new := next(twins, "")) else "removed", "symbol": new}
            )
        found = self.edits_of(place) if place.first is not None else []
        if found and not any(each.strip() for edit in found for each in edit.new):
            gone = next((each.strip().rstrip(",") for edit in found for each in edit.old if each.strip()), "")
            line = {"first": found[0].first, "last": found[-1].last}
            return place.model_copy(update={"gone": "removed", "symbol": gone[:60], **line}) if gone else place
        return place

    def of_tool(self, tree: AgentTree, name: str, agent: AgentFacts | None = None) -> list[Place]:
        """The changed lines of a tool's code and of what it uses, and changed files that this code names."""
        places = self.of_code(self.code_of(tree, name, agent))
        if not places:  # What can't be parsed.
            agents = tree.agents if agent is None else [agent]
            places = self._shown(
                tool.place for each in agents for tool in each.tools if tool.name == name and tool.place
            )
        return places if self.changed_files is not None else places[:1]

    def unlisted(self, trees: Iterable[AgentTree], listed: Iterable[AgentChange]) -> list[AgentChange]:
        """What changes around agents that are themselves as before: plugins, schemas, files of data and variables."""
        found: list[AgentChange] = []
        seen = {(place.file, place.first) for change in listed for place in change.places}
        for tree in trees if self.changed_files else ():
            changed: list[tuple[AgentChangeCode, AgentFacts, str, list[Place]]] = []
            changed += [("plugins", agent, "", self.of_plugins(tree)) for agent in tree.agents[:1]]
            for agent in tree.agents:
                changed.append(("output-schema", agent, "", self.of_agent(tree, agent, ("output_schema",))))
                for tool in agent.tools:
                    used = self.code_of(tree, tool.name, agent)
                    changed.append(
                        ("tool-data", agent, tool.name, [Place(file=file) for file in self.named_files(used)])
                    )
                    changed.append(("variables", agent, "", self._variables(used)))
            for code, agent, name, places in changed:
                if new := [place for place in places if (place.file, place.first) not in seen]:
                    seen |= {(place.file, place.first) for place in new}
                    found.append(AgentChange(code=code, path=tree.agent, agent=agent.name, tool=name, places=new))
        return found

    def of_code(self, code: Sequence[Definition]) -> list[Place]:
        """The changed lines of code, changed files that it names, and of workflows those with a variable of it."""
        files = [Place(file=file) for file in self.named_files(code)] + self._variables(code)
        return _distinct([*self._shown(each.place for each in code), *files])

    def _variables(self, code: Iterable[Definition]) -> list[Place]:
        """The changed lines of workflows and the like that set an environment variable which code names."""
        names = {text for each in code for text in each.strings if _VARIABLE.fullmatch(text)}
        return [
            Place(file=file, first=edit.first, last=edit.last, symbol=name)
            for file in (self.changed_files or () if names else ())
            if not file.endswith(".py") and None not in (texts := self.texts(file))
            for edit in edits(texts[0] or "", texts[1] or "")
            for name in sorted(names)
            if re.search(rf"\b{name}\b", "\n".join([*edit.old, *edit.new]))
        ]

    def _start(self, tree: AgentTree, agent: AgentFacts) -> list[Definition]:
        """Where the agent is made; for one without a variable, where the others are."""
        sources = self.sources(tree.agent)
        own = [each for place in agent.places for each in definitions(sources, place)]
        others = [each for other in tree.agents for place in other.places for each in definitions(sources, place)]
        return [*own, *others]

    def _shown(self, places: Iterable[Place]) -> list[Place]:
        found = list(places) if self.changed_files is None else within(places, self.changed, apart=self.apart)
        return _distinct(found)[:MOST_PLACES]

    def named_files(self, used: Iterable[Definition]) -> list[str]:
        """The changed files, no modules, that code names in a text."""
        texts = {text.removeprefix("./") for each in used for text in each.strings}
        parts = {text for text in texts if "." in text or "/" in text}
        return [
            file
            for file in self.changed_files or ()
            if not file.endswith(".py")
            and (
                any(f"/{file}".endswith(f"/{text}") for text in parts if text)
                or any(
                    fnmatchcase(PurePosixPath(file).name, text) for text in texts if "*" in text and text.strip("*./")
                )
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


def _is_list(node: ast.AST) -> bool:
    """Whether a statement gives a variable a list: `TOOLS = [find]`."""
    return isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.List, ast.Tuple))


def definitions(sources: Sources, place: Place) -> list[Definition]:
    """What is at a place that a host has named."""
    found = sources.locate(place.file, place.symbol, place.first) if place.first is not None else []
    return found or sources.locate(place.file, place.symbol)


def note_changed_here(
    causes: Sequence[CauseReport],
    trees: Callable[[CauseReport], Sequence[AgentTree]],
    code: HeadCode,
    before: Callable[[CauseReport], Before] = lambda _: Before(),
) -> None:
    """Gives causes the changed lines that they depend on: the nearest ones, and of these first those with evidence.

    Args:
        causes: They get `changed_here`, `one_of` and `called_before`.
        trees: The agents that a cause is about.
        code: Their code.
        before: What all of a cause's cases did before it shows.
    """
    if not code.changed_files:
        return
    for cause in causes:
        own, earlier, about_code = trees(cause), before(cause), _is_about_code(cause)
        if not any(agent.tools and not agent.model for tree in own for agent in tree.agents):
            earlier = replace(earlier, by_code=False)
        clues = clues_of(cause, own, earlier, about_code=about_code or earlier.by_code)
        ranked: list[tuple[int, Place]] = []
        is_near = True
        for near in zip(
            *((_of_a_tool if about_code else _of_a_model)(cause, tree, code, earlier) for tree in own), strict=True
        ):
            found = [code.weighed(place, clues) for place in _distinct(chain.from_iterable(near))]
            ranked += [each for each in found if each[1] not in [place for _, place in ranked]]
            if any(weight < WEAK for weight, _ in ranked):
                break
            is_near = False
        ranked = sorted((each for each in ranked if each[0] < WEAK), key=lambda each: each[0])[:MOST_PLACES]
        if cause.few and (not ranked or ranked[0][0] > _least(cause, clues, own, earlier, is_near=is_near)):
            continue
        shown = [(evidence, code.named(place)) for evidence, place in ranked]
        together: dict[tuple[int, str, str, int], Place] = {}
        for at, (evidence, place) in enumerate(shown):  # Lines of one function are one place.
            key = (min(evidence, ROW), place.file, place.symbol, -at if place.gone or not place.symbol else 1)
            other = together.setdefault(key, place)
            if other is not place and None not in (other.first, place.first):
                low, high = min(other.first or 1, place.first or 1), max(other.last or 1, place.last or 1)
                together[key] = other.model_copy(update={"first": low, "last": high})
        cause.changed_here = list(together.values())
        weights = [weight for weight, *_ in together]  # Above `WORD` all are alike.
        weak = weights[:1] > [WORD]
        cause.one_of = weak or weights[0] == weights[1] if weights[1:] else weak and cause.few and not cause.repeated
        others = [tool for tool in earlier.tools if tool != cause.data.tool]
        called = [place for tree in own for tool in others for place in code.of_tool(tree, tool)]
        cause.called_before = bool(ranked) and all(place in called for _, place in ranked)


def supported(causes: Sequence[CauseReport]) -> list[CauseReport]:
    """Without the causes of few cases that have no changed lines as evidence, or whose cases have a cause already."""
    found: list[CauseReport] = []
    for cause in causes:
        explained = {case_id for each in found for case_id in each.cases}
        if not cause.few or (cause.changed_here and not explained.issuperset(cause.cases)):
            found.append(cause)
    return found


def merged(causes: Sequence[CauseReport]) -> list[CauseReport]:
    """Causes with the same one place are one cause, with the others as its symptoms."""

    def several(cause: CauseReport) -> bool:
        return cause.one_of and len(cause.changed_here) > 1

    found: list[CauseReport] = []
    for cause in causes:
        alike = (each for each in found if each.changed_here[:1] == cause.changed_here[:1] and not several(each))
        first = None if several(cause) or not cause.changed_here else next(alike, None)
        if first is None:
            found.append(cause)
            continue
        first.one_of &= cause.one_of
        first.symptoms.append(CauseSymptom(code=cause.code, data=cause.data))
        first.cases += [case_id for case_id in cause.cases if case_id not in first.cases]
        first.failing = CauseCounts(total=first.failing.total, having=len(first.cases))
    return sorted(found, key=lambda cause: -len(cause.cases))


def _least(cause: CauseReport, clues: Clues, trees: Iterable[AgentTree], earlier: Before, *, is_near: bool) -> int:
    """The evidence that a cause of few cases needs: code does the same again, models don't."""
    if _is_about_code(cause) or earlier.by_code:
        is_model = any(agent.name == cause.data.tool for tree in trees for agent in tree.agents)
        is_model &= all(before != now for before, now in clues.numbers or [(0, 1)])
        return (WORD if cause.repeated else VALUE) if is_model else NONE if is_near else VALUE
    return WORD if cause.repeated and cause.code not in ANSWERS else VALUE


def _is_about_code(cause: CauseReport) -> bool:
    return cause.code in _OF_TOOLS or (cause.code == "exception" and bool(cause.data.tool or cause.data.place))


def _of_a_tool(cause: CauseReport, tree: AgentTree, code: HeadCode, before: Before) -> Iterator[list[Place]]:
    """What decides how a tool answers, or where code raises: the nearest first, then what ran before."""
    data, sources = cause.data, code.sources(tree.agent)
    raised = [data.place] if data.place is not None else []
    is_gone = data.tool and _GONE.search(data.actual or "")  # It may have another name.
    own = [
        *([] if is_gone else code.code_of(tree, data.tool)),
        *sources.used(each for at in raised for each in sources.around(at)),
    ]
    agents = [agent for agent in tree.agents if agent.name == data.agent] or tree.agents
    inner = [agent for agent in tree.agents if data.tool and agent.name == data.tool]  # AgentTool
    places = [*within(raised, code.changed), *code.of_code(own)]
    places += [place for agent in agents for place in code.of_agent(tree, agent, _OF_CALLS)] + code.of_plugins(tree)
    places += [place for agent in inner for place in code.of_agent(tree, agent)] + code.declarations(tree, inner)
    places += [place for agent in inner for tool in agent.tools for place in code.of_tool(tree, tool.name, agent)]
    if is_gone:
        places += [place for agent in agents for place in code.of_agent(tree, agent)]
    others = [each for agent in agents for each in code.of_agent(tree, agent, _CALLBACKS)]
    nodes = [{tool.name for tool in agent.tools} for agent in tree.agents if not agent.model]
    for tool in sorted({*before.tools, *chain(*(names for names in nodes if data.tool in names))}):
        uses, others = code.code_of(tree, tool), others + code.of_tool(tree, tool)
        if not {each.node for each in uses if isinstance(each.node, _VARIABLES)}.isdisjoint(each.node for each in own):
            places += code.of_code(uses)
    keeps = any(isinstance(node, ast.Attribute) and node.attr in _KEPT for each in own for node in ast.walk(each.node))
    yield places + others * keeps
    yield others


def _of_a_model(cause: CauseReport, tree: AgentTree, code: HeadCode, before: Before) -> Iterator[list[Place]]:
    """What decides what an agent does: that of the agents that took part, and of those that contain others."""
    data = cause.data
    names = {data.agent, *before.agents} | ({data.actual, data.expected} if cause.code == "sub-agent" else set())
    parts = [agent for agent in tree.agents if agent.name in names or not agent.model or agent is tree.agents[0]]
    if not data.agent or all(agent.name != data.agent for agent in tree.agents):  # It is unknown, or gone.
        parts = [agent for agent in tree.agents if not (before.by_code and agent.model)]
    places = [place for agent in parts for place in code.of_agent(tree, agent)] + code.of_plugins(tree)
    places += code.declarations(tree, parts)
    nodes = [(agent, tool.name) for agent in parts if not agent.model for tool in agent.tools]
    places += [place for agent, name in nodes for place in code.of_tool(tree, name, agent)]
    yield places + [place for tool in sorted(before.tools) for place in code.of_tool(tree, tool)]


def _distinct(places: Iterable[Place]) -> list[Place]:
    """Each place once, and none that is a part of another."""
    found = list({(place.file, place.first, place.last): place for place in places}.values())
    return [place for place in found if not any(_is_part(place, other) for other in found)]


def _is_part(place: Place, other: Place) -> bool:
    if place is other or place.file != other.file or place.first is None or other.first is None:
        return False
    return other.first <= place.first and (place.last or 0) <= (other.last or 0)
