"""What differs between the agents of two commits, and the changed lines that a cause depends on."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.gate.agent_changes import agent_changes
from agent_eval.gate.agent_sources import Sources
from agent_eval.gate.changed_here import HeadCode, note_changed_here
from agent_eval.gate.changed_lines import changed_code, changed_lines
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


# The home before and after a pull request that changes all of it.

TOOLS = '''"""Tools."""
import json
from pathlib import Path

ROOMS = {"kitchen": 1}
SCALE: float = 1.0
LOW, HIGH = 5, 30


def find(room):
    return ROOMS[room]


def heat(room):
    return SCALE, LOW


def load():
    return json.loads((Path(__file__).parent / "data" / "lamps.json").read_text())


def table(name="rooms"):
    return json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
'''
AGENT = '''from google.adk.agents import Agent
from .tools import find, heat, load

TEXT = """You run a home.
Be brief.
"""


def check(tool, args, tool_context):
    return None


root_agent = Agent(
    name="home",
    model="a-large",
    instruction=TEXT,
    before_tool_callback=check,
    tools=[find, heat, load],
)
'''
FILES = {"home/__init__.py": "", "home/tools.py": TOOLS, "home/agent.py": AGENT, "home/data/lamps.json": "{}"}
HOME = tree(
    agent(
        tools=[
            tool("find", place=Place(file="home/tools.py", first=10, symbol="find")),
            tool("heat", place=Place(file="home/tools.py", first=14, symbol="heat")),
            tool("load", place=Place(file="home/tools.py", first=18, symbol="load")),
            tool("table", place=Place(file="home/tools.py", first=22, symbol="table")),
            tool("elsewhere"),
        ],
        places=[Place(file="home/agent.py", first=13, symbol="root_agent")],
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


def here(found: CauseReport, head: dict[str, str], before: set[str] | None = None) -> list[str]:
    note_changed_here([found], lambda _: [HOME], code_of(head), lambda _: before or set())
    return [f"{place.file.removeprefix('home/')}:{place.first} {place.symbol}" for place in found.changed_here]


LINE_11 = {"file": "home/tools.py", "first": 11, "last": 11, "symbol": "find"}
NO_ROOM = changed("home/tools.py", ("return ROOMS[room]", "return {}"))
OTHER_ROOMS = changed("home/tools.py", ('"kitchen": 1', '"bath": 1'))
OTHER_SCALE = changed("home/tools.py", ("= 1.0", "= 2.0"))
OTHER_LOW = changed("home/tools.py", ("5, 30", "6, 30"))
OTHER_NAME = changed("home/tools.py", ("find(room)", "find(place)"))
OTHER_TEXT = changed("home/agent.py", ("Be brief", "Be long"))
OTHER_MODEL = changed("home/agent.py", ("a-large", "a-small"), ("return None", "return {}"))
OTHER_CHECK = changed("home/agent.py", ("return None", "return {}"))
OTHER_AGENT = changed("home/agent.py", ('"home"', "'home'"))
ONLY_WORDS = {
    **changed(
        "home/tools.py", ('"""Tools."""', '"""Tools of a home."""'), ("ROOMS[room]", "ROOMS[room]  # its number")
    ),
    "home/agent.py": AGENT.replace("    return None", '    """Checks a call."""\n    return None'),
}
ONE_TOOL = changed("home/agent.py", ("[find, heat, load]", "[find]"))


@pytest.mark.parametrize(
    ("found", "head", "expected"),
    [
        (cause("tool-empty", tool="find"), NO_ROOM, ["tools.py:11 find"]),
        (cause("tool-response", tool="find"), OTHER_ROOMS, ["tools.py:5 ROOMS"]),
        (cause("tool-response", tool="heat"), OTHER_SCALE, ["tools.py:6 SCALE"]),
        (cause("deadline", tool="heat"), OTHER_LOW, ["tools.py:7 LOW"]),
        (cause("deadline", tool="find", place=LINE_11), NO_ROOM, ["tools.py:11 find"]),
        (cause("tool-response", tool="find"), OTHER_SCALE, []),
        (cause("tool-error", tool="load"), {**FILES, "home/data/lamps.json": "[]"}, ["data/lamps.json:None "]),
        (cause("tool-error", tool="elsewhere"), OTHER_SCALE, []),
        (cause("tool-error", tool="load"), OTHER_TEXT, []),
        (cause("exception", exception="KeyError", place=LINE_11), NO_ROOM, ["tools.py:11 find"]),
        (cause("exception", tool="find", place=LINE_11), OTHER_ROOMS, ["tools.py:5 ROOMS"]),
        (cause("answer-change", agent="home"), OTHER_TEXT, ["agent.py:5 TEXT"]),
        (cause("call-missing", agent="home", tool="find"), OTHER_MODEL, ["agent.py:15 model", "agent.py:10 check"]),
        (cause("call-extra", agent="home", tool="find"), ONE_TOOL, ["agent.py:18 tools"]),
        (cause("call-argument", agent="home", tool="find"), OTHER_NAME, ["tools.py:10 find"]),
        (cause("answer", agent="other"), OTHER_TEXT, []),
        (cause("tool-response", agent="home", tool="find"), OTHER_CHECK, ["agent.py:10 check"]),
        (cause("tool-error", tool="table"), {**FILES, "home/data/rooms.json": "[]"}, ["data/rooms.json:None "]),
        (cause("sub-agent", agent="desk", actual="home"), OTHER_AGENT, ["agent.py:14 home"]),
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
        (Place(file="home/server.py"), ["server.py:8 add"]),  # a server that is started with it
        (Place(file="home/server.py", first=11, symbol="Shelf"), ["server.py:8 add"]),
        (Place(file="home/agent.py", first=9, symbol="check"), []),
    ],
)
def test_note_changed_here__a_tool_of_a_toolset(place: Place, expected: list[str]) -> None:
    server = """from mcp import FastMCP

mcp = FastMCP()


@mcp.tool()
def add(one, other):
    return one + other


class Shelf:
    async def get_tools(self):
        return [add]
"""
    before = {**FILES, "home/server.py": server}
    head = {**FILES, "home/server.py": server.replace("one + other", "one - other")}
    code = HeadCode(
        sources=lambda path: Sources(head.get, folder=path),
        changed=lambda file: changed_lines(before[file], head[file]),
        changed_files=["home/server.py"],
    )
    found = cause("tool-response", tool="add")
    note_changed_here([found], lambda _: [tree(agent(tools=[tool("McpToolset", place=place)]))], code)
    assert [f"{each.file.removeprefix('home/')}:{each.first} {each.symbol}" for each in found.changed_here] == expected


def test_note_changed_here__a_tool_called_before() -> None:
    found = cause("tool-response", tool="find")
    assert here(found, OTHER_SCALE, {"heat", "load"}) == ["tools.py:6 SCALE"]
    assert found.called_before
    own = cause("tool-response", tool="heat")
    assert here(own, OTHER_SCALE, {"heat"}) == ["tools.py:6 SCALE"]
    assert not own.called_before


def test_note_changed_here__what_makes_an_agent_comes_before_tools_that_were_called() -> None:
    found = cause("call-missing", agent="home", tool="find")
    assert here(found, {**OTHER_SCALE, "home/agent.py": OTHER_TEXT["home/agent.py"]}, {"heat"}) == [
        "agent.py:5 TEXT",
        "tools.py:6 SCALE",
    ]
    assert not found.called_before


def test_note_changed_here__broken_code_has_no_place() -> None:
    assert here(cause("tool-empty", tool="find"), {**FILES, "home/tools.py": "def find(:"}) == []


def test_of_change__without_a_base_all_lines() -> None:
    code = HeadCode(sources=lambda path: Sources(FILES.get, folder=path), changed=lambda _: None, changed_files=None)
    [home] = HOME.agents
    assert [(each.first, each.last) for each in code.of_change(HOME, home, "instruction")] == [(4, 6)]
    assert [(each.first, each.last) for each in code.of_change(HOME, home, "model")] == [(15, 15)]
    assert [(each.first, each.last) for each in code.of_change(HOME, home, "tool-source", "find")] == [(10, 11)]
    assert [each.symbol for each in code.of_change(HOME, home, "agent-added")] == ["home"]
