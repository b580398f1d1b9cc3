"""What changed in the agent's code, prompts and model."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import pytest
from history_samples import FILE, case
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.agent_changes import agent_changes
from agent_eval.gate.agent_sources import MAX_FILE, Sources, source_hash
from agent_eval.gate.changed_here import HeadCode, note_changed_here
from agent_eval.gate.changed_lines import changed_code, changed_lines, within
from agent_eval.gate.history._drift import drift, flakiness
from agent_eval.gate.history.records import KEEP
from agent_eval.gate.stats.exact_tests import pass_rates
from agent_eval.report.phrases import drift_notices, pass_rates_notices
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
from agent_eval.results.history import HistoryReport

# The code behind a tool, found by parsing: what it uses, in which lines, and which of them a pull request changes.

TOOLS = '''import json
from pathlib import Path

from . import data, more as others
from .data import LIMIT, Rooms
from home.helpers import *

LAMPS: dict[str, int] = {"a": 1}
LOW, (HIGH, *REST) = 5, (30, 40)
if LOW:
    COLOURS = ["red"]
else:
    COLOURS = []
COLOURS.append("blue")
ROOMS = Rooms()


def logged(function):
    return function


class Lamp:
    url = "x"

    def __init__(self):
        self.address = LOW

    def switch(self, status):
        return self._send(status)

    def _send(self, status):
        return HIGH


@logged
@others.counted
def find(room=LIMIT, LAMPS=None):
    """Finds."""
    return data.deep(room), ROOMS, helper(), Path(__file__).parent / "lamps.json"


def colours():
    from .late import LATE

    return [COLOURS, LATE, LAMPS]


def table(name="rooms"):
    return (Path(__file__).parent / f"{name}.json").read_text()


def shadowing(HIGH):
    LOW = 1
    return HIGH, LOW
'''
FILES = {
    "home/__init__.py": "",
    "home/tools.py": TOOLS,
    "home/data.py": """LIMIT = 3

class Rooms:
    size = LIMIT

def deep(room):
    return deeper(room)

def deeper(room):
    return 1
""",
    "home/more.py": "def counted(function):\n    return function\n",
    "home/helpers.py": "def helper():\n    return 1\n",
    "home/late.py": "LATE = 1\n",
    "home/server.py": """from mcp import FastMCP
mcp = FastMCP()
@mcp.tool()
def add(one, other):
    return one + other
class Shelf:
    async def get_tools(self):
        return [add]
""",
    "home/agent.py": """from google.adk.agents import Agent
from .tools import find
TEXT = "Be kind."
MODEL: str = "a-large"
NAME = "home"
def check(tool, args, tool_context):
    return None
inner = Agent(name="inner", model=MODEL, instruction="x")
root_agent = Agent(
    name=NAME,
    model=MODEL,
    instruction=TEXT,
    before_tool_callback=check,
    sub_agents=[inner, Agent(name="nested", description="Nested.")],
    tools=[find],
)
""",
}


def sources(files: Mapping[str, str] = FILES) -> Sources:
    return Sources(files.get, folder="home")


def used(symbol: str, file: str = "home/tools.py", line: int | None = None) -> set[str]:
    made = sources()
    return {
        f"{each.place.file.removeprefix('home/')}:{each.symbol}" for each in made.used(made.locate(file, symbol, line))
    }


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (
            # Decorators, defaults, modules, names of other modules, star imports; its own parameter hides LAMPS.
            "find",
            {
                *("tools.py:find", "tools.py:logged", "more.py:counted", "data.py:LIMIT", "data.py:deep"),
                *("data.py:deeper", "tools.py:ROOMS", "data.py:Rooms", "helpers.py:helper"),
            },
        ),
        ("colours", {"tools.py:colours", "tools.py:COLOURS", "tools.py:LAMPS", "late.py:LATE"}),  # its own import
        ("Lamp.switch", {"tools.py:Lamp.switch", "tools.py:Lamp._send", "tools.py:HIGH"}),
        ("Lamp", {"tools.py:Lamp", "tools.py:LOW"}),  # HIGH is in the statement of LOW
        ("shadowing", {"tools.py:shadowing"}),
        ("unknown", set()),
    ],
)
def test_used__names(symbol: str, expected: set[str]) -> None:
    assert used(symbol) == expected


def test_locate__lines() -> None:
    lines = TOOLS.splitlines()
    [find] = sources().locate("home/tools.py", "find", lines.index("@logged") + 1)
    assert (find.place.first, find.place.symbol) == (lines.index("@logged") + 1, "find")
    assert lines[(find.place.last or 0) - 1].startswith("    return data.deep")
    places = [each.place for each in sources().locate("home/tools.py", "COLOURS")]
    assert [lines[(place.first or 0) - 1].strip() for place in places] == [
        'COLOURS = ["red"]',
        "COLOURS = []",
        'COLOURS.append("blue")',
    ]
    for name in ("LOW", "HIGH", "REST", "LAMPS"):  # tuple assignments, annotated constants
        assert [each.place.symbol for each in sources().locate("home/tools.py", name)] == [name]
    [whole] = sources().locate("home/data.py", "")
    assert (whole.place.first, whole.place.last) == (1, len(FILES["home/data.py"].splitlines()))
    [lambda_] = sources({"a.py": "x = 1\ntools = [lambda: x]\n"}).locate("a.py", "<lambda>", 2)
    assert lambda_.place.first == 2


def test_keywords__of_an_agent() -> None:
    made = sources()
    start = made.locate("home/agent.py", "root_agent")
    lines = FILES["home/agent.py"].splitlines()
    for name, keyword, expected in (
        ("home", "instruction", ["instruction=TEXT,", 'TEXT = "Be kind."']),
        ("home", "model", ["model=MODEL,", 'MODEL: str = "a-large"']),
        ("inner", "model", [lines[7], 'MODEL: str = "a-large"']),
        ("nested", "description", ['sub_agents=[inner, Agent(name="nested", description="Nested.")],']),
        ("other", "description", []),
    ):
        found = made.used(made.keywords(start, name, [keyword]))
        assert [lines[(each.place.first or 0) - 1].strip() for each in found] == expected
    assert [(place.first, place.last) for place in made.agent(start, "home")] == [(9, len(lines))]


def test_source_hash__follows_what_the_code_uses() -> None:
    def of(files: Mapping[str, str]) -> str:
        made = sources(files)
        return source_hash(made.used(made.locate("home/tools.py", "find")))

    before = of(FILES)
    assert before == of({**FILES, "home/tools.py": TOOLS.replace("find(room=LIMIT", "find(room=LIMIT") + "\nX = 1\n"})
    assert before == of({**FILES, "home/tools.py": TOOLS.replace("\n", "  \n")})
    assert before != of({**FILES, "home/data.py": FILES["home/data.py"].replace("LIMIT = 3", "LIMIT = 4")})
    assert before != of({**FILES, "home/more.py": FILES["home/more.py"].replace("return function", "return None")})
    assert source_hash([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "def find(:",
        "\0",
        "x = " + "(" * 5_000,
        "x = " + "-" * 50_000 + "1",
        "9" * 10_000,
        "#" * (MAX_FILE + 1),
        "'\\d'",
    ],
    ids=["syntax", "null", "parentheses", "signs", "digits", "long", "escape"],
)
def test_sources__what_can_not_be_parsed_has_no_place(text: str) -> None:
    assert sources({"home/tools.py": text}).locate("home/tools.py", "find") == []


def test_sources__modules_that_import_each_other() -> None:
    files = {
        "home/a.py": "from .b import x\nfrom .b import *\ndef f():\n    return x, y, z.q.r\n",
        "home/b.py": "from .a import x\nfrom .a import *\nfrom . import a as z\nfrom ..... import up\n",
    }
    made = sources(files)
    assert [each.symbol for each in made.used(made.locate("home/a.py", "f"))] == ["f"]


def test_sources__a_million_ways_to_a_name_end() -> None:
    count, names = 60, " + ".join(f"a{number}" for number in range(500))
    stars = "".join(f"from m{number} import *\n" for number in range(count))
    files = {f"m{number}.py": f"{stars}def f():\n    return {names}\n" for number in range(count)}
    made = sources(files)
    assert [each.symbol for each in made.used(made.locate("m0.py", "f"))] == ["f"]


def test_changed_lines() -> None:
    base = "a\nb\nc\nd\n"
    assert changed_lines(base, base) == []
    assert changed_lines(None, base) == [(1, 4)]
    assert changed_lines(base, "a\nB\nc\nd\ne\n") == [(2, 2), (5, 5)]
    assert changed_lines(base, "a\nd\n") == [(1, 1)]  # the line before what was removed
    assert changed_lines(base, "b\nc\nd\n") == [(1, 1)]
    assert changed_lines(base, "a\r\nb\r\nc\r\nd\r\n") == []
    many = "".join(f"{number}\n" for number in range(5_000))
    assert changed_lines(many, many.replace("1", "x")) == [(2, 4_992)]


_TEXT = st.lists(st.sampled_from("abc"), max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(base=_TEXT, head=_TEXT)
def test_changed_lines__the_others_are_as_before(base: str, head: str) -> None:
    changed = {line for first, last in changed_lines(base, head) for line in range(first, last + 1)}
    rest = [line for number, line in enumerate(head.splitlines(), 1) if number not in changed]
    before = iter(base.splitlines())
    assert all(line in before for line in rest)  # in this order
    assert changed or base == head or not head


def test_within__only_changed_lines_and_those_close_together_as_one() -> None:
    changed = {"a.py": [(3, 4), (9, 12)]}
    places = [Place(file="a.py", first=first, last=last) for first, last in ((1, 10), (11, 19), (13, 20))]
    whole = Place(file="a.py")
    found = within([*places, whole], changed.get)
    assert [(place.first, place.last) for place in found] == [(3, 10), (11, 12), (None, None)]


CODE = """\"\"\"Rooms.\"\"\"

def find(room):
    \"\"\"Finds.\"\"\"
    return ROOMS[room]  # by name

NOTE = \"\"\"
# no comment
\"\"\"
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Rooms.", "All rooms.\n\nOf a home.", []),
        ("Finds.", "Finds a room.\n\n    Or none.\n    ", []),
        ("  # by name", "", []),
        ("\n\n", "\n\n# The rooms\n\n", []),
        ("ROOMS[room]  # by name", "{}  # none", [(5, 5)]),
        ("# no comment", "# another", [(8, 8)]),
        ("    return ROOMS[room]  # by name\n", "", [(3, 3)]),
        ("Finds.", "Finds.", []),
        ("find(room)", "find(room", [(3, 3)]),  # can't be parsed: as text
    ],
)
def test_changed_code__only_what_python_runs(old: str, new: str, expected: list[tuple[int, int]]) -> None:
    assert changed_code(CODE, CODE.replace(old, new)) == expected
    assert changed_code(None, "a = 1\nb = 2\n") == [(1, 2)]
    assert changed_code("# nothing\n", "a = 1\n") == changed_code("a = 1\n", "# nothing\n") == [(1, 1)]


# What differs between the agents of two commits, and the changed lines that a cause depends on.


def tool(name: str, source: str = "s", declaration: str = "d", place: Place | None = None) -> ToolFacts:
    return ToolFacts(name=name, source=source, declaration=declaration, place=place)


def tree(*agents: AgentFacts, path: str = "home", adk: str = "2.13.0") -> AgentTree:
    return AgentTree(agent=path, adk=adk, agents=list(agents))


def agent(name: str = "home", **values: Any) -> AgentFacts:
    return AgentFacts(name=name, **{"model": "a-large", "instruction": "Be kind.\nBe brief.\n", **values})


def changes(base: AgentTree, head: AgentTree) -> list[tuple[Any, ...]]:
    found = agent_changes([base], [head])
    return [(each.code, each.agent, each.tool or each.base, each.head or (each.added, each.removed)) for each in found]


BEFORE, AFTER = "before_tool_callback", "after_model_callback"
BASE = agent(
    description="Runs it.",
    sub_agents=["planner"],
    callbacks={BEFORE: "1", "instruction": "2"},
    tools=[tool("find"), tool("switch"), tool("heat")],
)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"model": "a-small"}, [("model", "home", "a-large", "a-small")]),
        ({"instruction": "Be kind.\nBe long.\nAsk.\n"}, [("instruction", "home", None, (2, 1))]),
        ({"callbacks": {BEFORE: "1", "instruction": "3"}}, [("instruction", "home", None, (0, 0))]),
        ({"description": ""}, [("description", "home", None, (0, 1))]),
        ({"sub_agents": []}, [("sub-agents", "home", "planner", (0, 0))]),
        ({"callbacks": {BEFORE: "9", "instruction": "2"}}, [("callbacks", "home", BEFORE, BEFORE)]),
        ({"callbacks": {AFTER: "1", "instruction": "2"}}, [("callbacks", "home", BEFORE, AFTER)]),
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
    counts, example = CauseCounts(total=1, having=1), CauseExample(case_id="a", run=0, turn=0)
    facts = CauseData(**data)
    return CauseReport(code=code, data=facts, cases=["a"], failing=counts, passing=counts, example=example)


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
        (cause("tool-empty", tool="find"), {**FILES, "home/tools.py": "def find(:"}, []),  # broken code has no place
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
    ("tool", "before", "is_before"), [("find", {"colours", "table"}, True), ("colours", {"colours"}, False)]
)
def test_note_changed_here__tools_that_were_called_before(tool: str, before: set[str], is_before: bool) -> None:
    found = cause("tool-response", tool=tool)
    assert (here(found, OTHER_LAMPS, before), found.called_before) == ([IN_LAMPS], is_before)


def test_note_changed_here__what_makes_an_agent_comes_before_tools_that_were_called() -> None:
    found = cause("call-missing", agent="home", tool="find")
    head = {**OTHER_LAMPS, "home/agent.py": OTHER_TEXT["home/agent.py"]}
    assert (here(found, head, {"colours"}), found.called_before) == ([IN_TEXT, IN_LAMPS], False)


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


# Whether the base gets worse, how flaky its cases are, and what several runs say together.


def of_days(outcomes: Mapping[str, str], num_runs: int = 1) -> HistoryReport:
    """Cases by what their runs of each day did; a blank is a day without the case."""
    days = max(map(len, outcomes.values())) // num_runs
    cases = []
    for name, text in outcomes.items():
        records = " ".join(str(at // num_runs) for at, run in enumerate(text) if run != " ")
        cases.append({"case_id": f"{FILE}:{name}", "outcomes": text.replace(" ", ""), "records": records})
    stored = [{"commit": f"{day:08x}", "recorded_at": day} for day in range(days)]
    return HistoryReport.model_validate({"scoring_version": 1, "keep": days, "records": stored, "cases": cases})


def test_drift__flakiness_has_an_interval_and_a_beginning() -> None:
    history = of_days({"a": "111110x1?1", "b": "1111111111"})
    rate, never = (flakiness(history, history_case) for history_case in history.cases)
    assert (rate.failures, rate.runs, rate.rate) == (2, 9, 2 / 9)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.0632, 0.5474)  # scipy, method="wilson"
    assert (rate.since, rate.is_mixed) == (history.records[5], True)
    assert (never.since, never.is_mixed) == (None, False)


def enumerated(history: HistoryReport) -> float:
    """The p-value from first principles: every way to call half of the days the older ones."""
    days = len(history.records)
    tables = [
        {day: outcome == "1" for day, outcome in zip(map(int, history.records.split()), history.outcomes, strict=True)}
        for history in history.cases
    ]

    def drop(older: tuple[int, ...]) -> float:
        drops = []
        for table in tables:
            sides = [[outcome for day, outcome in table.items() if (day in older) is side] for side in (True, False)]
            if all(sides):
                drops.append(sum(sides[0]) / len(sides[0]) - sum(sides[1]) / len(sides[1]))
        return sum(drops) / max(len(drops), 1)

    splits = list(combinations(range(days), days // 2))
    return sum(drop(split) >= drop(splits[0]) - 1e-12 for split in splits) / len(splits)


@pytest.mark.parametrize("seed", range(12))
def test_drift__the_p_value_is_that_of_all_ways_to_part_the_days(seed: int) -> None:
    draw = random.Random(seed)
    days = 9 + seed % 3
    history = of_days({f"c{number}": "".join(draw.choices("01 ", (2, 6, 1), k=days)) for number in range(5)})
    assert drift(history).p_value == pytest.approx(enumerated(history))


def test_drift__a_base_that_gets_worse_is_reported() -> None:
    result = drift(of_days({"a": "1111100000", "b": "1111110111", "c": "1111111111"}))
    assert result.worse
    assert (result.older, result.newer) == pytest.approx((1.0, 0.6))
    assert [(case.case_id, case.older, case.newer) for case in result.cases] == [(f"{FILE}:a", (5, 5), (0, 5))]
    assert result.cases[0].p_value == pytest.approx(1 / 252)
    assert drift_notices(result) == [
        "The base branch got worse: 100.0% of its runs passed before 00000005, 60.0% since. Chance alone says so "
        "within 20 merges in about 1 of 12 repositories",
        "On the base branch 1 case passed less often lately: evals/home.test.json:a (0 of 5 lately, 5 of 5 before). "
        "Chance alone names 1 of 100 cases",
    ]


@pytest.mark.parametrize(
    ("outcomes", "p_value", "worse"),
    [
        ("111100000", 1 / 126, True),
        ("1111100100", 6 / 252, False),
        ("0000011111", 1.0, False),
        ("1111111111", 1.0, False),
        ("11110000", None, False),  # Few days can't show anything.
        ("1", None, False),
    ],
)
def test_drift__one_look_in_a_hundred_is_the_limit(outcomes: str, p_value: float | None, worse: bool) -> None:
    result = drift(of_days({"a": outcomes}))
    assert result.p_value == (p_value and pytest.approx(p_value))
    assert result.worse is bool(drift_notices(result)) is worse


def test_drift__one_bad_day_of_everything_and_no_day_at_all_are_no_drift() -> None:
    assert not drift(of_days({f"c{number}": "1111111110" for number in range(30)})).worse
    assert drift(HistoryReport(scoring_version=1, keep=10)).older is None


def test_drift__many_days_are_parted_at_random_and_always_the_same_way() -> None:
    history = of_days({"a": "1" * 8 + "01010100", "b": "1" * 16})
    result = drift(history)
    assert result == drift(history)
    assert result.p_value is not None
    assert enumerated(history) / 3 < result.p_value < enumerated(history) * 3


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_drift__an_unchanging_base_is_rarely_called_worse(num_runs: int) -> None:
    """Also where all runs of a record share its bad day: records change places, not runs."""
    draw = random.Random(7)
    rates = [1.0] * 6 + [0.95] * 2 + [0.8, 0.5]
    named = 0
    for _ in range(200):
        day_effect = [bad for bad in (draw.choice([0.0, 0.0, 0.3]) for _ in range(10)) for _ in range(num_runs)]
        outcomes = {
            f"c{number}": "".join("1" if draw.random() < rate - bad else "0" for bad in day_effect)
            for number, rate in enumerate(rates)
        }
        named += drift(of_days(outcomes, num_runs)).worse
    assert named <= 8, "1% of 200, and what chance adds at most (p < .001)"


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_drift__fires_with_several_runs_a_record(num_runs: int) -> None:
    """All cases go from always to never, and stay so; with the history that a baseline keeps by default."""
    runs = KEEP // 2 * num_runs
    assert drift(of_days(dict.fromkeys("abc", "1" * runs + "0" * runs), num_runs)).worse


def test_drift__pass_rates_over_several_runs() -> None:
    cases = [case("a", "111"), case("b", "110"), case("c", "000"), case("d", "1p0"), case("e", "ppp")]

    rates = pass_rates(cases, 3)

    # b: of two of its three runs both pass in 1 of 3 ways, and none fails both; d has two judged runs.
    assert [(rate.k, rate.cases) for rate in rates] == [(1, 4), (2, 4), (3, 3)]
    assert [rate.any for rate in rates] == pytest.approx([(1 + 2 / 3 + 0 + 1 / 2) / 4, (1 + 1 + 0 + 1) / 4, 2 / 3])
    assert [rate.all for rate in rates] == pytest.approx([(1 + 2 / 3 + 0 + 1 / 2) / 4, (1 + 1 / 3 + 0 + 0) / 4, 1 / 3])
    assert pass_rates_notices(rates) == [
        "Of 3 runs of a case at least one passes with 66.7% (pass@3), all pass with 33.3% (pass^3); a single "
        "run with 54.2%"
    ]
    assert pass_rates([case("a", "1")], 1) == []
    assert pass_rates_notices([]) == []
