"""Recorded tools, crossed with what changes afterwards: no replay is green where a live run is not.

All cells of one version of google-adk are cases of one repository: each has a package with an agent of its own. The
tools are recorded, each package is changed, and the cases run once live and once in a replay for each setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from crossing_table import Cell, Impossible, Row, Table
from replay_runs import SETTINGS, VERSIONS, Edits, Runs, copy, edit, key_of

TOOLS: Mapping[str, tuple[str, str, str]] = {
    "function": ("function(True)", "", "function(False)"),
    "closure": ('closure("on")', 'closure("off")', 'other_closure("on")'),
    "method": ('Lamp("on").switch', 'Lamp("off").switch', 'OtherLamp("on").switch'),
    "partial": ('partial(valued, "on")', 'partial(valued, "off")', 'partial(other_valued, "on")'),
    "decorated": ('decorated(closure("on"))', 'decorated(closure("off"))', 'decorated(other_closure("on"))'),
    "cached": ('cached(closure("on"))', 'cached(closure("off"))', 'cached(other_closure("on"))'),
    "lambda": ('lambda_of("real")', "", 'lambda_of("other")'),
    "callable": ('Caller("on")', 'Caller("off")', 'OtherCaller("on")'),
    "BaseTool": ('LampTool("on")', 'LampTool("off")', 'OtherLampTool("on")'),
    "FunctionTool": ('Wrapping("on")', 'Wrapping("off")', 'OtherWrapping("on")'),
    "toolset": ('Lamps("on")', 'Lamps("off")', 'OtherLamps("on")'),
    "made at each request": ('FreshLamps("on")', 'FreshLamps("off")', 'OtherFreshLamps("on")'),
    "MCP": ('mcp("server.py", "on")', 'mcp("server.py", "off")', 'mcp("other_server.py", "on")'),
    "MCP environment": (
        'mcp("server.py", "", env={"LAMP": "on"})',
        'mcp("server.py", "", env={"LAMP": "off"})',
        'mcp("other_server.py", "", env={"LAMP": "on"})',
    ),
}
"""The forms of the tool: as it is recorded, with another value, and with other code of an unchanged file."""
MCP = ("MCP", "MCP environment")
BEFORE_CREATE, SWITCHES = "root = ", "Switches the lamp."
CHANGES: Mapping[str, Edits] = {
    "prompt": (("agent.py", '"The lamp is', '"Look: the lamp is'),),
    "declaration": (("tools.py", SWITCHES, "Switches it."), ("server.py", SWITCHES, "Switches it.")),
    "other value": (),
    "other code": (),
    "body": (("tools.py", 'room != "attic"', 'room == "attic"'), ("server.py", 'room != "attic"', 'room == "attic"')),
    "constant elsewhere": (("elsewhere.py", 'CONSTANT = "on"', 'CONSTANT = "off"'),),
    "helper elsewhere": (("elsewhere.py", 'return "on"', 'return "off"'),),
    "variable of the module": (("agent.py", BEFORE_CREATE, f'tools.HERE = "off"\n{BEFORE_CREATE}'),),
    "patched function": (("agent.py", BEFORE_CREATE, f'tools.answer = lambda *_: {{"now": "off"}}\n{BEFORE_CREATE}'),),
    "arguments": (("agent.py", '"kitchen"]', '"attic"]'),),
    "before_tool: arguments": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = renames, None"),),
    "before_tool: answer": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = blocks, None"),),
    "after_tool: answer": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = None, changes"),),
}
"""What changes after the recording; `TOOLS` has the other values and the other code. Before, a replay must be green."""
HARMLESS = ("prompt", "declaration")
CALLS = ("arguments", "before_tool: arguments")
ANSWERS = ("before_tool: answer", "after_tool: answer")

TABLE = Table(
    name="replay",
    axes={
        "tool": tuple(TOOLS),
        "where": ("the agent", "AgentTool", "sub-agent", "second of a sequence"),
        "change": tuple(CHANGES),
        "version": VERSIONS,
        "setting": tuple(SETTINGS),
    },
    impossible=(
        Impossible(
            where={"tool": ("partial", "cached", "callable"), "version": ("1.18.0", "1.39.1")},
            why="google-adk 1 reads `__code__` of a tool, which only functions and methods have",
        ),
        Impossible(where={"tool": ("function", "lambda"), "change": "other value"}, why="it holds no value"),
        Impossible(
            where={"tool": MCP, "change": ("variable of the module", "patched function")},
            why="its server is another process",
        ),
    ),
    rows=(
        Row(where={"change": "prompt"}, expect="passed"),
        Row(
            where={"tool": MCP, "change": ("constant elsewhere", "helper elsewhere")},
            expect="passed",
            cause="what the script of an MCP server imports is only compared if `depends` names it",
        ),
        Row(where={"change": CALLS, "setting": "miss: live"}, expect="failed"),
        Row(where={"change": CALLS}, expect="tool-not-recorded"),
        Row(where={"change": ANSWERS}, expect="failed"),
        # The maintainer has chosen the old answers, and a notice names the tool.
        Row(where={"setting": "stale: warn"}, expect="passed"),
        Row(where={}, expect="tool-tape-stale"),
    ),
)


def write(package: Path, cell: Cell, changed: bool) -> None:
    """Writes the package of a cell's agent."""
    copy("replayed", package)
    server = (package / "server.py").read_text()
    (package / "other_server.py").write_text(server.replace('(sys.argv[1] or os.environ["LAMP"])', '"off"'))
    change = cell["change"] if changed else ""
    now, other_value, other_code = TOOLS[cell["tool"]]
    tool = {"other value": other_value, "other code": other_code}.get(change, now)
    agent = (package / "agent.py").read_text().replace('WHERE = "the agent"', f'WHERE = "{cell["where"]}"')
    (package / "agent.py").write_text(f"{agent}\n\n{BEFORE_CREATE}create({tool}, {now})\n")
    edit(package, CHANGES.get(change, ()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    return Runs.of_version(TABLE, tmp_path_factory, write)


def test_replay_crossing__table() -> None:
    TABLE.check()


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("version",)))
def test_replay_crossing__is_not_green_where_a_live_run_is_not(cell: Cell, runs: Callable[[str], Runs]) -> None:
    of_version, case = runs(cell["version"]), key_of(cell)
    assert of_version.recorded[case] == of_version.unchanged[case] == "passed", "the recording says nothing"
    assert (of_version.live[case] == "passed") == (cell["change"] in HARMLESS), "the change changes nothing"
    replayed = of_version.replayed[cell["setting"]][case]
    assert replayed == TABLE.expected(cell)
    is_chosen = cell["setting"] == "stale: warn" or bool(TABLE.row(cell).cause)
    assert replayed != "passed" or of_version.live[case] == "passed" or is_chosen
