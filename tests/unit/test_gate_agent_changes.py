"""What differs between the agents of two commits, and the changed lines that a cause depends on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from test_gate_agent_sources import FILES

from agent_eval.gate.agent_changes import agent_changes
from agent_eval.gate.agent_sources import Sources
from agent_eval.gate.changed_here import HeadCode, note_changed_here
from agent_eval.gate.changed_lines import changed_code
from agent_eval.results import (
    AgentFacts,
    AgentTree,
    CauseCounts,
    CauseData,
    CauseExample,
    CauseReport,
    Place,
    ToolFacts,
)


def tool(name: str, source: str = "s", declaration: str = "d", place: Place | None = None) -> ToolFacts:
    return ToolFacts(name=name, source=source, declaration=declaration, place=place)


def tree(*agents: AgentFacts, path: str = "home", adk: str = "2.13.0") -> AgentTree:
    return AgentTree(agent=path, adk=adk, agents=list(agents))


def agent(name: str = "home", **values: Any) -> AgentFacts:
    return AgentFacts(name=name, **{"model": "a-large", "instruction": "Be kind.\nBe brief.\n", **values})


def changes(base: AgentTree, head: AgentTree) -> list[tuple[Any, ...]]:
    found = agent_changes([base], [head])
    return [(each.code, each.agent, each.tool or each.base, each.head or (each.added, each.removed)) for each in found]


BASE = agent(
    description="Runs it.",
    sub_agents=["planner"],
    callbacks={"before_tool_callback": "1", "instruction": "2"},
    tools=[tool("find"), tool("switch"), tool("heat")],
)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"model": "a-small"}, [("model", "home", "a-large", "a-small")]),
        ({"instruction": "Be kind.\nBe long.\nAsk.\n"}, [("instruction", "home", None, (2, 1))]),
        (
            {"callbacks": {"before_tool_callback": "1", "instruction": "3"}},
            [("instruction", "home", None, (0, 0))],
        ),
        ({"description": ""}, [("description", "home", None, (0, 1))]),
        ({"sub_agents": []}, [("sub-agents", "home", "planner", (0, 0))]),
        (
            {"callbacks": {"before_tool_callback": "9", "instruction": "2"}},
            [("callbacks", "home", "before_tool_callback", "before_tool_callback")],
        ),
        (
            {"callbacks": {"after_model_callback": "1", "instruction": "2"}},
            [("callbacks", "home", "before_tool_callback", "after_model_callback")],
        ),
        (
            {"tools": [tool("find", source="t"), tool("switch", declaration="e", source="t"), tool("cool")]},
            [
                ("tool-source", "home", "find", (0, 0)),
                ("tool-declaration", "home", "switch", (0, 0)),
                ("tool-added", "home", "cool", (0, 0)),
                ("tool-removed", "home", "heat", (0, 0)),
            ],
        ),
        ({"tools": [tool("find", source=""), tool("switch", declaration=""), tool("heat")]}, []),  # unknown
    ],
)
def test_agent_changes__of_one_agent(changed: dict[str, Any], expected: list[Any]) -> None:
    assert changes(tree(BASE), tree(BASE.model_copy(update=changed))) == expected


def test_agent_changes__agents() -> None:
    base, head = tree(BASE, agent("planner")), tree(BASE, agent("cook"))
    assert changes(base, head) == [
        ("agent-added", "cook", None, (0, 0)),
        ("agent-removed", "planner", None, (0, 0)),
    ]
    assert changes(base, tree(agent("other"), path="another")) == []  # nothing to compare with
    assert changes(tree(), head) == []


def test_agent_changes__declarations_of_another_adk_say_nothing() -> None:
    head = BASE.model_copy(update={"tools": [tool("find", declaration="e"), tool("switch"), tool("heat", source="t")]})
    assert changes(tree(BASE, adk="2.12.0"), tree(head)) == [("tool-source", "home", "heat", (0, 0))]


def test_agent_changes__an_older_base_proves_only_what_has_a_place() -> None:
    head = BASE.model_copy(update={"model": "a-small", "description": "New."})
    place = Place(file="home/agent.py", first=4)
    found = agent_changes(
        [tree(BASE)], [tree(head)], lambda *asked: [place] if asked[2] == "model" else [], only_placed=True
    )
    assert [(each.code, each.places) for each in found] == [("model", [place])]


# The home before and after a pull request

AGENT = FILES["home/agent.py"]


def at(text: str, file: str = "home/tools.py", **more: Any) -> Place:
    return Place(file=file, first=FILES[file].splitlines().index(text) + 1, **more)


HOME = tree(
    agent(
        tools=[
            tool("find", place=at("@logged", symbol="find")),
            tool("switch", place=at("    def switch(self, status):", symbol="Lamp.switch")),
            tool("colours", place=at("def colours():", symbol="colours")),
            tool("table", place=at('def table(name="rooms"):', symbol="table")),
            tool("elsewhere"),
        ],
        places=[at("root_agent = Agent(", "home/agent.py", symbol="root_agent")],
    )
)


def code_of(head: dict[str, str]) -> HeadCode:
    files = {name for name in FILES.keys() | head.keys() if FILES.get(name) != head.get(name)}
    return HeadCode(
        sources=lambda path: Sources(head.get, folder=path),
        changed=lambda file: changed_code(FILES.get(file), head[file]) if file in files and file in head else [],
        changed_files=sorted(files),
    )


def cause(code: Any, **data: Any) -> CauseReport:
    counts = CauseCounts(total=1, having=1)
    return CauseReport(
        code=code,
        data=CauseData(**data),
        cases=["a"],
        failing=counts,
        passing=counts,
        example=CauseExample(case_id="a", run=0, turn=0),
    )


def changed(file: str, *replacements: tuple[str, str]) -> dict[str, str]:
    text = FILES[file]
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return {**FILES, file: text}


def here(found: CauseReport, head: dict[str, str], before: Collection[str] = (), home: AgentTree = HOME) -> list[str]:
    """The symbols of the places, and their first lines."""
    note_changed_here([found], lambda _: [home], code_of(head), lambda _: before)
    lines = {file: text.splitlines() for file, text in head.items()}
    return [
        f"{place.symbol}: {lines[place.file][place.first - 1].strip() if place.first else place.file}"
        for place in found.changed_here
    ]


RETURN = at('    return data.deep(room), ROOMS, helper(), Path(__file__).parent / "lamps.json"', symbol="find")
NO_ROOM = changed("home/tools.py", ("return data.deep(room), ROOMS, helper()", "return {}"))
OTHER_ROOMS = changed("home/tools.py", ("ROOMS = Rooms()", "ROOMS = Rooms"))
OTHER_LAMPS = changed("home/tools.py", ('{"a": 1}', "{}"))
OTHER_LOW = changed("home/tools.py", ("= 5, (", "= 6, ("))
OTHER_NAME = changed("home/tools.py", ("def find(room=LIMIT", "def find(place=LIMIT"))
OTHER_TEXT = changed("home/agent.py", ("Be kind", "Be long"))
OTHER_CHECK = changed("home/agent.py", ("return None", "return {}"))
OTHER_MODEL = changed("home/agent.py", ("a-large", "a-small"), ("return None", "return {}"))
OTHER_AGENT = changed("home/agent.py", ("name=NAME", "name='home'"))
ONE_TOOL = changed("home/agent.py", ("[find]", "[]"))
ONLY_WORDS = {
    **changed(
        "home/tools.py", ('"""Finds."""', '"""Finds a room."""'), ("return HIGH\n", "return HIGH  # of a lamp\n")
    ),
    "home/agent.py": AGENT.replace("    return None", '    """Checks a call."""\n    return None'),
}
IN_FIND = 'find: return {}, Path(__file__).parent / "lamps.json"'
IN_AGENT = "home: name='home',"
IN_LAMPS = "LAMPS: LAMPS: dict[str, int] = {}"
IN_ROOMS = "ROOMS: ROOMS = Rooms"
IN_TEXT = 'TEXT: TEXT = "Be long."'


@pytest.mark.parametrize(
    ("found", "head", "expected"),
    [
        (cause("tool-empty", tool="find"), NO_ROOM, [IN_FIND]),
        (cause("tool-response", tool="find"), OTHER_ROOMS, [IN_ROOMS]),
        (cause("tool-response", tool="colours"), OTHER_LAMPS, [IN_LAMPS]),
        (cause("deadline", tool="switch"), OTHER_LOW, ["HIGH: LOW, (HIGH, *REST) = 6, (30, 40)"]),
        (cause("deadline", tool="find", place=RETURN), NO_ROOM, [IN_FIND]),
        (cause("tool-response", tool="find"), OTHER_LAMPS, []),
        (cause("tool-error", tool="find"), {**FILES, "home/lamps.json": "[]"}, [": home/lamps.json"]),
        (cause("tool-error", tool="table"), {**FILES, "home/rooms.json": "[]"}, [": home/rooms.json"]),
        (cause("tool-error", tool="elsewhere"), OTHER_LAMPS, []),
        (cause("tool-error", tool="find"), OTHER_TEXT, []),
        (cause("exception", exception="KeyError", place=RETURN), NO_ROOM, [IN_FIND]),
        (cause("exception", tool="find", place=RETURN), OTHER_ROOMS, [IN_ROOMS]),
        (cause("answer-change", agent="home"), OTHER_TEXT, [IN_TEXT]),
        (
            cause("call-missing", agent="home", tool="find"),
            OTHER_MODEL,
            ['MODEL: MODEL: str = "a-small"', "check: return {}"],
        ),
        (cause("call-extra", agent="home", tool="find"), ONE_TOOL, ["tools: tools=[],"]),
        (cause("call-argument", agent="home", tool="find"), OTHER_NAME, ["find: def find(place=LIMIT, LAMPS=None):"]),
        (cause("answer", agent="other"), OTHER_TEXT, []),
        (cause("tool-response", agent="home", tool="find"), OTHER_CHECK, ["check: return {}"]),
        (cause("sub-agent", agent="desk", actual="home"), OTHER_AGENT, [IN_AGENT]),
        (cause("tool-empty", tool="find"), ONLY_WORDS, []),
        (cause("call-missing", agent="home", tool="find"), ONLY_WORDS, []),
    ],
)
def test_note_changed_here__rules(found: CauseReport, head: dict[str, str], expected: list[str]) -> None:
    assert here(found, head) == expected
    assert not found.called_before


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place(file="home/server.py"), ["add: return one - other"]),  # a server that is started with it
        (at("class Shelf:", "home/server.py", symbol="Shelf"), ["add: return one - other"]),
        (at("def check(tool, args, tool_context):", "home/agent.py", symbol="check"), []),
    ],
)
def test_note_changed_here__a_tool_of_a_toolset(place: Place, expected: list[str]) -> None:
    head = changed("home/server.py", ("one + other", "one - other"))
    toolset = tree(agent(tools=[tool("McpToolset", place=place)]))
    assert here(cause("tool-response", tool="add"), head, home=toolset) == expected


@pytest.mark.parametrize(
    ("found", "head", "before", "expected", "is_before"),
    [
        (
            cause("tool-response", tool="find"),
            OTHER_LAMPS,
            {"colours", "table"},
            [IN_LAMPS],
            True,
        ),
        (
            cause("tool-response", tool="colours"),
            OTHER_LAMPS,
            {"colours"},
            [IN_LAMPS],
            False,
        ),
        # What makes an agent comes before tools that were called.
        (
            cause("call-missing", agent="home", tool="find"),
            {**OTHER_LAMPS, "home/agent.py": OTHER_TEXT["home/agent.py"]},
            {"colours"},
            [IN_TEXT, IN_LAMPS],
            False,
        ),
        # Broken code has no place.
        (cause("tool-empty", tool="find"), {**FILES, "home/tools.py": "def find(:"}, set(), [], False),
    ],
)
def test_note_changed_here__tools_that_were_called_before(
    found: CauseReport, head: dict[str, str], before: set[str], expected: list[str], is_before: bool
) -> None:
    assert here(found, head, before) == expected
    assert found.called_before is is_before


def test_of_change__without_a_base_all_lines() -> None:
    code = HeadCode(sources=lambda path: Sources(FILES.get, folder=path), changed=lambda _: None, changed_files=None)
    [home] = HOME.agents
    for change, first, count in (
        (("instruction",), at('TEXT = "Be kind."', "home/agent.py"), 1),
        (("model",), at('MODEL: str = "a-large"', "home/agent.py"), 1),
        (("tool-source", "find"), at("@logged"), 5),
    ):
        [place] = code.of_change(HOME, home, *change)
        assert (place.file, place.first, place.last) == (first.file, first.first, (first.first or 0) + count - 1)
    assert [each.symbol for each in code.of_change(HOME, home, "agent-added")] == ["home"]
