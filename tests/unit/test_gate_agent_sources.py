"""The code behind a tool, found by parsing: what it uses, in which lines, and which of them a pull request changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.agent_sources import MAX_FILE, Sources, source_hash
from agent_eval.gate.changed_lines import changed_code, changed_lines, within
from agent_eval.results import Place

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
