"""What changed in the agent's code, prompts and model."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import pytest
from golden_files import check
from history_samples import FILE, case
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.history import KEEP
from agent_eval_results import AgentFacts, AgentTree, CauseCounts, CauseData, CauseExample, CauseReport, ToolFacts
from agent_eval_results.causes.agent_sources import MAX_FILE, Sources, source_hash
from agent_eval_results.causes.changed_here import HeadCode, note_changed_here
from agent_eval_results.causes.evidence import Before
from agent_eval_results.data.agent_changes import agent_changes
from agent_eval_results.data.causes import Place
from agent_eval_results.data.changed_lines import Edit, changed_code, changed_lines, edits, within
from agent_eval_results.data.exact_tests import pass_rates
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.trend import drift, flakiness
from agent_eval_results.report.phrases import drift_notices, pass_rates_notices

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


TOOLBOX = [
    lambda: LOW,
]
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


def described(place: Place, files: Mapping[str, str] = FILES) -> str:
    """Its lines, its name, and the text of the first line."""
    text = files[place.file].splitlines()[place.first - 1].strip() if place.first else "the whole file"
    return f"{place.file}:{place.first}-{place.last} {place.symbol} | {text}"


SYMBOLS: list[tuple[str, int | None]] = [
    *((name, None) for name in ("find", "colours", "Lamp.switch", "Lamp", "shadowing", "unknown", "")),
    *((name, None) for name in ("LOW", "HIGH", "REST", "LAMPS", "COLOURS")),
    ("find", TOOLS.splitlines().index("@logged") + 1),
    ("<lambda>", TOOLS.splitlines().index("    lambda: LOW,") + 1),
]
KEYWORDS = [
    ("home", "instruction"),
    ("home", "model"),
    ("inner", "model"),
    ("nested", "description"),
    ("other", "model"),
]


def test_sources__where_things_are_and_what_they_use() -> None:
    """Decorators, defaults, modules, names of other modules, star imports, late ones; parameters hide names."""
    made = sources()
    page = []
    for symbol, line in SYMBOLS:
        located = made.locate("home/tools.py", symbol, line)
        page += [f"# {symbol or 'the file'}, line {line}", *(described(each.place) for each in located)]
        page += [f"uses {described(each.place)}" for each in made.used(located) if each not in located]
    start = made.locate("home/agent.py", "root_agent")
    for name, keyword in [*KEYWORDS, ("nested", "description")]:
        found = made.used(made.keywords(start, name, [keyword]))
        page += [f"# {keyword} of the agent {name}", *(described(each.place) for each in found)]
    page += ["# the agent home", *map(described, made.agent(start, "home"))]
    check("golden_agent_sources.txt", "\n".join(page) + "\n")


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


CHANGES: list[tuple[str, str, list[tuple[int, int]]]] = [
    ("Rooms.", "All rooms.\n\nOf a home.", []),
    ("Finds.", "Finds a room.\n\n    Or none.\n    ", []),
    ("  # by name", "", []),
    ("\n\n", "\n\n# The rooms\n\n", []),
    ("ROOMS[room]  # by name", "{}  # none", [(5, 5)]),
    ("# no comment", "# another", [(8, 8)]),
    ("    return ROOMS[room]  # by name\n", "", [(3, 3)]),
    ("Finds.", "Finds.", []),
    ("find(room)", "find(room", [(3, 3)]),  # can't be parsed: as text
]


def test_changed_code__only_what_python_runs() -> None:
    for old, new, expected in CHANGES:
        assert changed_code(CODE, CODE.replace(old, new)) == expected, (old, new)
    assert changed_code(None, "a = 1\nb = 2\n") == [(1, 2)]
    assert changed_code("# nothing\n", "a = 1\n") == changed_code("a = 1\n", "# nothing\n") == [(1, 1)]


HARMLESS = [
    ("total = a + 5\n    return {'c': total}", "c = a + 5\n    return {'c': c}"),
    ("total = a + 5\n    return total", "return a+5"),
    ("row = g(a)\n    if row is None:\n        return 1\n    return row",) * 2,
    (
        "for row in g():\n        if row == a:\n            return row",
        "for each in g():\n        if each == a: return each",
    ),
    ("x = a\n    y = x\n    return y", "return a"),
    ("return g(a)", "logger.info('a %s', a)\n    return g(a)"),
    (
        "if a:\n        x = 1\n    else:\n        x = 2\n    return x",
        "if a:\n        y = 1\n    else:\n        y = 2\n    return y",
    ),
]
HARMFUL = [
    ("return a + 5", "return a + 6"),
    ("x = g()\n    for i in a:\n        x.h(i)", "for i in a:\n        g().h(i)"),
    ("x = g()\n    return [x for i in a]", "return [g() for i in a]"),
    ("x = 1\n    y = 2\n    return x - y", "x = 1\n    y = 2\n    return y - x"),
    ("x = 1\n    return x", "return x"),
    ("x = g()\n    while x.h():\n        pass", "while g().h():\n        pass"),
    ("x = g()\n    h()\n    return x", "h()\n    return g()"),
    ("x = g()\n    if h():\n        return x", "if h():\n        return g()"),
    ("global x\n    x = 1\n    return 2", "global y\n    y = 1\n    return 2"),
]


def test_changed_code__a_refactored_function_is_as_before() -> None:
    def lines(old: str, new: str) -> list[tuple[int, int]]:
        return changed_code(f"def f(a):\n    {old}\n", f"def f(a):\n    {new}\n")

    assert [pair for pair in HARMLESS if lines(*pair)] == []
    assert [pair for pair in HARMFUL if not lines(*pair)] == []
    assert changed_code("A = {'a': 1}\n", "A = {\n    'a': 1,\n}\n") == []
    assert changed_code("def f(a):\n    return a\n", "def f(b):\n    return b\n") == [(1, 2)]  # a tool's parameter


SPELLINGS = [
    *(("Be frendly.", "Be friendly."), ('instruction="Allways ask.",', 'instruction="Always ask.",')),
    *(("Send them to the desk", "Send them to the desks"), ("- be polite, allways", "- be polite, always")),
]
OTHER_WORDS = [
    *(("amount: In cents.", "amount: In dollars."), ("Do ask.", "Do not ask."), ("Be brief.", "Be kind.")),
    *(('state["currency"] = x', 'state["curency"] = x'), ("return total", "return totals"), ("a: 10 kg", "a: 11 kg")),
    ("row.price and row", "row.prices and row"),
]


def test_edits__words_that_are_only_spelled_otherwise() -> None:
    def is_spelling(old: str, new: str) -> bool:
        [edit] = edits(old, new)
        return edit.is_spelling

    assert [pair for pair in SPELLINGS if not is_spelling(*pair)] == []
    assert [pair for pair in OTHER_WORDS if is_spelling(*pair)] == []
    assert edits("a\nb\nc", "a\nc") == [Edit(first=1, last=1, old=["b"], new=[])]


def test_edits__equal_numbers_are_one_word_and_others_are_not() -> None:
    long = "1" * 1_000_001
    for old, new in (("12345678901234567890", "12345678901234567891"), ("1000001", "1000002"), (long, f"{long}1")):
        [edit] = edits(f"a = {old}", f"a = {new}")
        assert edit.words == ({old}, {new})
    [edit] = edits("a = 007.10", "a = 7.1")
    assert edit.words == (set(), set())


# What differs between the agents of two commits, and the changed lines that a cause depends on.


def tool(name: str, source: str = "s", declaration: str = "d", place: Place | None = None) -> ToolFacts:
    return ToolFacts(name=name, source=source, declaration=declaration, place=place)


def tree(*agents: AgentFacts, path: str = "home", adk: str = "2.13.0") -> AgentTree:
    return AgentTree(agent=path, adk=adk, agents=list(agents))


def agent(name: str = "home", **values: Any) -> AgentFacts:
    return AgentFacts(name=name, **{"model": "a-large", "instruction": "Be kind.\nBe brief.\n", **values})


BEFORE, AFTER = "before_tool_callback", "after_model_callback"
BASE = agent(
    description="Runs it.",
    sub_agents=["planner"],
    callbacks={BEFORE: "1", "instruction": "2"},
    tools=[tool("find"), tool("switch"), tool("heat")],
)
OTHERS: list[dict[str, Any]] = [
    {},
    {"model": "a-small"},
    {"instruction": "Be kind.\nBe long.\nAsk.\n"},
    {"callbacks": {BEFORE: "1", "instruction": "3"}},
    {"description": ""},
    {"sub_agents": []},
    {"callbacks": {BEFORE: "9", "instruction": "2"}},
    {"callbacks": {AFTER: "1", "instruction": "2"}},
    {"tools": [tool("find", source="t"), tool("switch", declaration="e", source="t"), tool("cool")]},
    {"tools": [tool("find", source=""), tool("switch", declaration=""), tool("heat")]},  # unknown
]


def test_agent_changes__of_agents_and_between_versions_of_adk() -> None:
    """Declarations of another ADK say nothing, and an older base proves only what has a place."""
    planned, cooked, other = tree(BASE, agent("planner")), tree(BASE, agent("cook")), tree(agent("x"), path="another")
    page = []
    for changed in OTHERS:
        page += [f"# {changed}", *map(str, agent_changes([tree(BASE)], [tree(BASE.model_copy(update=changed))]))]
    declared = BASE.model_copy(
        update={"tools": [tool("find", declaration="e"), tool("switch"), tool("heat", source="t")]}
    )
    page += ["# another ADK", *map(str, agent_changes([tree(BASE, adk="2.12.0")], [tree(declared)]))]
    page += ["# another sub-agent", *map(str, agent_changes([planned], [cooked]))]
    for before, after in ((planned, other), (tree(), cooked)):
        page += ["# nothing to compare with", *map(str, agent_changes([before], [after]))]
    head = BASE.model_copy(update={"model": "a-small", "description": "New."})
    place = Place(file="home/agent.py", first=4)
    placed = agent_changes(
        [tree(BASE)], [tree(head)], lambda *asked: [place] if asked[2] == "model" else [], only_placed=True
    )
    check("golden_agents_compared.txt", "\n".join([*page, "# an older base", *map(str, placed)]) + "\n")


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


RETURN = at('    return data.deep(room), ROOMS, helper(), Path(__file__).parent / "lamps.json"', symbol="find")
OTHER_LAMPS = changed("home/tools.py", ('{"a": 1}', "{}"))
OTHER_TEXT = changed("home/agent.py", ("Be kind", "Be long"))
FINDS = ('"""Finds."""', '"""Finds a room."""'), ("return HIGH\n", "return HIGH  # of a lamp\n")
HEADS = {
    "no room": changed("home/tools.py", ("return data.deep(room), ROOMS, helper()", "return {}")),
    "other rooms": changed("home/tools.py", ("ROOMS = Rooms()", "ROOMS = Rooms")),
    "other lamps": OTHER_LAMPS,
    "other low": changed("home/tools.py", ("= 5, (", "= 6, (")),
    "other parameter": changed("home/tools.py", ("def find(room=LIMIT", "def find(place=LIMIT")),
    "other text": OTHER_TEXT,
    "other check": changed("home/agent.py", ("return None", "return {}")),
    "other model": changed("home/agent.py", ("a-large", "a-small"), ("return None", "return {}")),
    "other agent": changed("home/agent.py", ("name=NAME", "name='home'")),
    "one tool": changed("home/agent.py", ("[find]", "[]")),
    "other server": changed("home/server.py", ("one + other", "one - other")),
    "text and lamps": {**OTHER_LAMPS, "home/agent.py": OTHER_TEXT["home/agent.py"]},
    **{f"other {name}.json": {**FILES, f"home/{name}.json": "[]"} for name in ("lamps", "rooms")},
    "broken code has no place": {**FILES, "home/tools.py": "def find(:"},
    "only words": {
        **changed("home/tools.py", *FINDS),
        "home/agent.py": AGENT.replace("    return None", '    """Checks a call."""\n    return None'),
    },
}
OF_TOOLS = [(code, name) for code in ("tool-response", "tool-error") for name in ("find", "colours", "table", "add")]
CAUSES = [
    *(cause(code, tool=name) for code, name in [*OF_TOOLS, ("tool-empty", "find"), ("deadline", "switch")]),
    cause("tool-error", tool="elsewhere"),
    cause("deadline", tool="find", place=RETURN),
    cause("exception", exception="KeyError", place=RETURN),
    cause("exception", tool="find", place=RETURN),
    *(cause("answer-change", agent=name) for name in ("home", "other")),
    *(cause(code, agent="home", tool="find") for code in ("call-missing", "call-extra", "call-argument")),
    cause("tool-response", agent="home", tool="find"),
    cause("sub-agent", agent="desk", actual="home"),
]
SHELF = [
    Place(file="home/server.py"),  # A server that is started with it.
    at("class Shelf:", "home/server.py", symbol="Shelf"),
    at("def check(tool, args, tool_context):", "home/agent.py", symbol="check"),
]


def always(value: Any, _: CauseReport) -> Any:
    return value


@cache
def code_of(name: str) -> HeadCode:
    head = HEADS[name]
    made = sources(head)
    files = {file for file in FILES.keys() | head.keys() if FILES.get(file) != head.get(file)}
    return HeadCode(
        sources=lambda _: made,
        changed=cache(lambda file: changed_code(FILES.get(file), head[file]) if file in files and file in head else []),
        changed_files=sorted(files),
        written=cache(
            lambda file: changed_lines(FILES.get(file), head[file]) if file in files and file in head else []
        ),
        texts=lambda file: (FILES.get(file), head.get(file)),
        apart=True,
    )


def test_note_changed_here__each_cause_with_each_change() -> None:
    add = cause("tool-response", tool="add")
    toolsets = [tree(agent(tools=[tool("McpToolset", place=place)])) for place in SHELF]
    some = [cause("tool-response", tool="find"), cause("tool-response", tool="colours"), CAUSES[-3]]
    rounds: dict[str, tuple[AgentTree, list[CauseReport], Collection[str]]] = {
        "": (HOME, CAUSES, ()),
        **{f" of toolset {at}": (home, [add], ()) for at, home in enumerate(toolsets)},
        " after table and colours": (HOME, some, ("colours", "table")),
        " after colours": (HOME, some, ("colours",)),
    }
    page = []
    for (name, head), (of, (home, causes, before)) in product(HEADS.items(), rounds.items()):
        seen = [found.model_copy(deep=True) for found in causes]
        note_changed_here(seen, partial(always, [home]), code_of(name), partial(always, Before(tools={*before})))
        for found in seen:
            facts = found.data.model_dump(exclude_defaults=True, exclude={"place"})
            was = ", of a tool that was called before" * found.called_before + ", one of" * found.one_of
            where = [f"  {described(place, head)}" for place in found.changed_here]
            page += [f"{name}{of}: {found.code} {facts}{was}", *where] if where else []
    check("golden_changed_here.txt", "\n".join(page) + "\n")


def test_of_change__without_a_base_all_lines() -> None:
    made = sources()
    code = HeadCode(sources=lambda _: made, changed=lambda _: None, changed_files=None)
    kinds: list[tuple[Any, ...]] = [("instruction",), ("model",), ("tool-source", "find"), ("agent-added",)]
    page = [[f"# {kind}", *map(described, code.of_change(HOME, HOME.agents[0], *kind))] for kind in kinds]
    check("golden_without_base.txt", "".join(f"{line}\n" for lines in page for line in lines))


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
    days = 12  # As many as all ways of which are tried, and as an order of which can be significant.
    history = of_days({f"c{number}": "".join(draw.choices("01 ", (2, 6, 1), k=days)) for number in range(5)})
    assert drift(history).p_value == pytest.approx(enumerated(history))


DAYS = ["111111000000", "1" * 17 + "000", "1" * 18 + "00", "111111001000", "000000111111", "1" * 12, "11111000000", "1"]
HISTORIES = [{"a": "111111000000", "b": "111111110111", "c": "1" * 12}, *({"a": outcomes} for outcomes in DAYS)]


def test_drift__when_the_base_got_worse_and_what_is_said() -> None:
    """One look in 500 is the limit, few days can't show anything, and one bad day of everything is no drift."""
    page = []
    for outcomes in [*HISTORIES, {f"c{number}": "111111111110" for number in range(30)}]:
        result = drift(of_days(outcomes))
        numbers = [f"{value:.4f}" for value in (result.older, result.newer, result.p_value) if value is not None]
        page += [f"# {outcomes}", f"worse: {result.worse}, {' '.join(numbers)}", *drift_notices(result)]
        page += [f"{each.case_id}: {each.older} {each.newer} {each.p_value:.4f}" for each in result.cases]
    check("golden_drift.txt", "\n".join(page) + "\n")
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
        day_effect = [bad for bad in (draw.choice([0.0, 0.0, 0.3]) for _ in range(14)) for _ in range(num_runs)]
        outcomes = {
            f"c{number}": "".join("1" if draw.random() < rate - bad else "0" for bad in day_effect)
            for number, rate in enumerate(rates)
        }
        named += drift(of_days(outcomes, num_runs)).worse
    assert named <= 4, "0.2% of 200, and what chance adds at most (p < .001)"


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
