"""Which changed lines a cause names, in an agent with all that decides what it does; beside harmless changes, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import pytest
from report_samples import case, report

from agent_eval_results import AgentFacts, AgentTree, CauseCounts, CauseData, CauseExample, CauseReport, ToolFacts
from agent_eval_results.causes.agent_sources import Sources
from agent_eval_results.causes.changed_here import HeadCode, merged, note_changed_here, supported
from agent_eval_results.causes.evidence import Before
from agent_eval_results.data.causes import Place
from agent_eval_results.data.changed_lines import changed_code, changed_lines
from agent_eval_results.report.phrases import agent_changes, cause_sentence, changed_here, next_step
from agent_eval_results.report.views import view_of

AGENT = '''from . import guards, tools
from .helper import helper
from .plugins import Limits
from .schema import Reply

PROMPT = """You are the desk.
Address everybody by name.
Mention that EUR is possible, too.
Allways be polite.
"""
searcher = LlmAgent(
    name="searcher",
    model="large",
    instruction="Search.",
    tools=[tools.trace],
)
both = ParallelAgent(
    name="both",
    sub_agents=[
        searcher,
        helper,
    ],
)
root_agent = LlmAgent(
    name="desk",
    model="large",
    instruction=PROMPT,
    output_schema=Reply,
    tools=[
        tools.plan_of,
        tools.top_up,
        AgentTool(helper),
    ],
    sub_agents=[both],
    before_agent_callback=guards.enter,
    after_tool_callback=guards.unify,
)
app = App(name="desk", root_agent=root_agent, plugins=[Limits()])
flow = Workflow(
    name="flow",
    edges=[
        ("START", tools.route),
        (
            tools.route,
            {
                "trace": searcher,
                "top": helper,
            },
        ),
    ],
)
'''
FILES = {
    "desk/agent.py": AGENT,
    "desk/schema.py": "class Reply(BaseModel):\n    customer: str\n    text: str\n",
    "desk/helper.py": 'helper = LlmAgent(name="helper", model="large", instruction="Help a lot.")\n',
    "desk/plugins.py": """LIMIT = 100.0


class Limits(BasePlugin):
    async def after_tool_callback(self, *, tool, result):
        return {**result, "credited": min(result["credited"], LIMIT)}
""",
    "desk/guards.py": """def enter(callback_context):
    callback_context.state["currency"] = "USD"


def unify(tool, args, tool_context, tool_response):
    return {**tool_response, "desk": "first"}
""",
    "desk/tools.py": '''import json, os
from pathlib import Path

VAT = 0.0
PLANS = json.loads((Path(__file__).parent / "plans.json").read_text())


def plan_of(customer: str, tool_context) -> dict:
    """Looks up the plan of a customer."""
    row = PLANS[customer]
    if row is None:
        return {}
    return {"price": row["price"] * (1 + VAT), "unit": tool_context.state["currency"]}


def top_up(customer: str, amount: float) -> dict:
    """Adds credit.

    Args:
        customer: The number of the customer.
        amount: In dollars.
    """
    total = amount * float(os.environ["DESK_FACTOR"])
    return {"credited": total}


def trace(number: str) -> dict:
    """Traces a parcel."""
    return {"seen": number}


def route(node_input):
    return Event(route="trace" if "lost" in node_input else "top")


def note(node_input):
    return Event(state={"fee": 3 * len(node_input)})


def greet(node_input, ctx):
    return Event(message=f"The fee is {ctx.state['fee']}.")
''',
    "desk/plans.json": '{"a": {"price": 10},\n "basic": {"price": 12.5}}\n',
    ".github/workflows/evals.yml": "env:\n  DESK_FACTOR: '1'\n  OTHER: 'a'\n",
}


def tool(name: str) -> ToolFacts:
    line = (
        FILES["desk/tools.py"]
        .splitlines()
        .index(next(x for x in FILES["desk/tools.py"].splitlines() if x.startswith(f"def {name}(")))
    )
    return ToolFacts(name=name, place=Place(file="desk/tools.py", first=line + 1, symbol=name))


def agent(name: str, *tools: str, file: str = "desk/agent.py", symbol: str = "", **facts: Any) -> AgentFacts:
    place = Place(file=file, symbol=symbol or name)
    return AgentFacts(name=name, tools=[tool(each) for each in tools], places=[place], **facts)


HELPER = agent("helper", file="desk/helper.py", model="large")
DESK = AgentTree(
    agent="desk",
    agents=[
        agent("desk", "plan_of", "top_up", symbol="root_agent", model="large", sub_agents=["both"]),
        agent("both", sub_agents=["searcher", "helper"]),
        agent("searcher", "trace", model="large"),
        HELPER,
    ],
)
NODES = agent("flow", "route", "note", "greet")
FLOW = AgentTree(agent="desk", agents=[NODES, agent("searcher", "trace", model="large"), HELPER])
BAIT = {
    "desk/tools.py": [
        ("    total = amount", "    credited = amount"),
        ('{"credited": total}', '{"credited": credited}'),
        ("    row = PLANS[customer]\n", "    found = PLANS[customer]\n    row = found\n"),
    ],
    "desk/agent.py": [("Allways", "Always")],
}


def cause(code: Any, agent: str = "desk", few: bool = False, **data: Any) -> CauseReport:
    counts, example = CauseCounts(total=1, having=1), CauseExample(case_id="a", run=0, turn=0)
    facts = CauseData(agent=agent, **data)
    return CauseReport(code=code, data=facts, cases=["a"], failing=counts, passing=counts, example=example, few=few)


Edits = Sequence[tuple[str, str, str]]
RAISED = Place(file="desk/tools.py", first=10, symbol="plan_of")
NO_TOOL = cause(
    "tool-error", tool="top_up", actual="Invoking `top_up()` failed as no tool with that name is available."
)
BREAKS: Mapping[str, tuple[Edits, CauseReport, str]] = {
    "a unit in a docstring": (
        [("desk/tools.py", "In dollars", "In cents")],
        cause("call-argument", tool="top_up", names=["amount"], actual="2000", expected="20"),
        "changed here: desk/tools.py:21 (top_up)",
    ),
    "an edge": (
        [("desk/agent.py", '                "trace": searcher,\n', "")],
        cause("call-missing", "searcher", tool="trace"),
        'changed here: desk/agent.py:45 ("trace": searcher, removed)',
    ),
    "a router": (
        [("desk/tools.py", '"lost" in', '"missing" in')],
        cause("call-missing", "searcher", tool="trace"),
        "changed here: desk/tools.py:33 (route)",
    ),
    "a tool that is gone": (
        [("desk/agent.py", "        tools.top_up,\n", "")],
        NO_TOOL,
        "changed here: desk/agent.py:30 (tools.top_up, removed)",
    ),
    "a plugin": (
        [("desk/plugins.py", "LIMIT = 100.0", "LIMIT = 10.0")],
        cause("tool-response", tool="top_up", names=["credited"], actual="10.0", expected="25.0"),
        "changed here: desk/plugins.py:1 (LIMIT)",
    ),
    "a key of the state": (
        [("desk/guards.py", '["currency"]', '["unit"]')],
        cause("exception", tool="plan_of", exception="KeyError", actual="KeyError: 'currency'", place=RAISED),
        "changed here: desk/guards.py:2 (enter)",
    ),
    "a callback": (
        [("desk/guards.py", '"first"', '"second"')],
        cause("tool-response", tool="top_up", names=["desk"], actual='"second"', expected='"first"'),
        "changed here: desk/guards.py:6 (unify)",
    ),
    "a callback that is gone": (
        [("desk/agent.py", "    after_tool_callback=guards.unify,\n", "")],
        cause("tool-response", tool="top_up", names=["desk"], expected='"first"'),
        "changed here: desk/agent.py:35 (after_tool_callback=guards.unify, removed)",
    ),
    "the agent behind a tool": (
        [("desk/helper.py", "Help a lot", "Never help")],
        cause("tool-response", tool="helper", names=["result"], actual='"No."', expected='"Yes."'),
        "changed here: desk/helper.py:1 (helper)",
    ),
    "the schema of the output": (
        [("desk/schema.py", "    text:", "    message:")],
        cause("call-argument", tool="set_model_response", new=["message"], gone=["text"], renamed=True),
        "changed here: desk/schema.py:3 (Reply)",
    ),
    "a sub-agent in parallel": (
        [("desk/agent.py", "        searcher,\n", "")],
        cause("call-missing", "searcher", tool="trace"),
        "changed here: desk/agent.py:19 (searcher, removed)",
    ),
    "a renamed file": (
        [("desk/plans.json", "", "desk/rates.json")],
        cause(
            "exception",
            tool="plan_of",
            exception="FileNotFoundError",
            actual="No such file: 'desk/plans.json'",
            place=RAISED,
        ),
        "changed here: desk/plans.json (renamed to desk/rates.json)",
    ),
    "a row of data": (
        [("desk/plans.json", "12.5", "13.5")],
        cause("tool-response", tool="plan_of", names=["price"], actual="13.5", expected="12.5"),
        "changed here: desk/plans.json:2",
    ),
    "a variable of the workflow": (
        [(".github/workflows/evals.yml", "DESK_FACTOR: '1'", "DESK_FACTOR: '3'")],
        cause("tool-response", tool="top_up", names=["credited"], actual="60.0", expected="20.0"),
        "changed here: .github/workflows/evals.yml:2 (DESK_FACTOR)",
    ),
    "another variable": (
        [(".github/workflows/evals.yml", "OTHER: 'a'", "OTHER: 'b'")],
        cause("tool-response", tool="top_up", names=["credited"], actual="60.0", expected="20.0"),
        "",
    ),
    "a line of the prompt": (
        [("desk/agent.py", "Address everybody by name.\n", "")],
        cause("answer-change", gone=["name"]),
        "changed here: desk/agent.py:6 (Address everybody by name., removed)",
    ),
    "two places": (
        [("desk/tools.py", "(1 + VAT)", "(2 + VAT)"), ("desk/guards.py", '"first"', '"last"')],
        cause("tool-response", tool="plan_of", names=["price"], actual="31", expected="10"),
        "one of these 2 changed places: desk/tools.py:13 (plan_of), desk/guards.py:6 (unify)",
    ),
}


@pytest.mark.parametrize("bait", [False, True], ids=["alone", "beside harmless changes"])
def test_note_changed_here__what_broke_and_nothing_else(bait: bool) -> None:
    found = {}
    for name, (breaks, about, _) in BREAKS.items():
        head: dict[str, str | None] = dict(FILES)
        for file, old, new in breaks:
            if old:
                text = head[file] or ""
                assert old in text, old
                head[file] = text.replace(old, new)
            else:
                head[file], head[new] = None, head[file]
        for file, replacements in BAIT.items() if bait else ():
            for old, new in replacements:
                head[file] = (head[file] or "").replace(old, new)
        seen = about.model_copy(deep=True)
        tree = FLOW if name in {"an edge", "a router"} else DESK
        if name == "a tool that is gone":
            tree = DESK.model_copy(update={"agents": [agent("desk", "plan_of", symbol="root_agent", model="large")]})
        note_changed_here([seen], partial(always, [tree]), code_of(head))
        found[name] = changed_here(seen)
    wanted = {name: text for name, (_, _, text) in BREAKS.items()}
    if bait:  # Its line is one lower there.
        wanted = {name: shifted(text) for name, text in wanted.items()}
    assert found == wanted


PRICE = cause("tool-response", tool="plan_of", names=["price"], actual="13.5", expected="12.5", few=True)
QUIET = cause("tool-response", tool="top_up", names=["credited"], actual="7", expected="3", few=True)
SKIPPED = cause("call-missing", tool="top_up", few=True)
OFTEN = SKIPPED.model_copy(update={"repeated": True})
ANSWER = cause("answer", actual="Tea is free.", expected="EUR is possible, too.", few=True)
FORGOT = cause("answer", actual="Hello.", expected="Hello, Ada.", few=True)
SEEN = cause("tool-response", tool="helper", names=["result"], actual='"No."', expected='"Yes."', few=True)
RETYPED = cause("tool-response", tool="helper", names=["text"], actual="4.0", expected="4", few=True)
FEW: Mapping[str, tuple[tuple[str, str, str], CauseReport, bool]] = {
    "a value that the tool's data has": (("desk/plans.json", "12.5", "13.5"), PRICE, True),
    "code of the tool": (("desk/tools.py", "amount * float(", "amount + float("), QUIET, True),
    "another tool's code": (("desk/tools.py", '{"seen": number}', '{"found": number}'), QUIET, False),
    "only other names": (("desk/tools.py", "total", "credited"), QUIET, False),
    "a line that names the tool": (("desk/agent.py", "        tools.top_up,\n", ""), SKIPPED, True),
    "words about the tool": (("desk/tools.py", "Adds credit.", "Gives credit."), SKIPPED, False),
    "words about the tool, each run": (("desk/tools.py", "Adds credit.", "Gives credit."), OFTEN, True),
    "the text of the answer": (("desk/agent.py", "EUR is possible, too.", "tea is free."), ANSWER, True),
    "another line": (("desk/agent.py", "You are the desk.", "You are the bar, too."), ANSWER, False),
    "a key of the state that an instruction has": (("desk/guards.py", '["currency"]', '["name"]'), FORGOT, True),
    "an agent behind a tool": (("desk/helper.py", "Help a lot", "Never help"), SEEN, False),
    "the same number there": (("desk/helper.py", "Help a lot", "Help, text"), RETYPED, True),
}  # fmt: skip


def test_supported__causes_of_few_cases_need_evidence() -> None:
    desk = DESK.agents[0].model_copy(update={"instruction": "Say hello to {user:name?}, in {currency}."})
    tree = DESK.model_copy(update={"agents": [desk, *DESK.agents[1:]]})
    found = {}
    for name, ((file, old, new), about, _) in FEW.items():
        assert old in FILES[file], old
        seen = about.model_copy(deep=True)
        note_changed_here([seen], partial(always, [tree]), code_of({**FILES, file: FILES[file].replace(old, new)}))
        found[name] = bool(supported([seen]))
        assert supported([about.model_copy(update={"few": False})]), name
    assert found == {name: kept for name, (*_, kept) in FEW.items()}


SAID = cause("answer", "", actual="The fee is 8.", expected="The fee is 6.", few=True)
NODE = Place(file="desk/tools.py", first=41, symbol="greet")
LOST = cause("exception", tool="greet", exception="KeyError", actual="KeyError: 'fee'", place=NODE)
BY_NODES: Mapping[str, tuple[tuple[str, str], CauseReport, bool, str]] = {
    "a node": (("desk/tools.py", "3 * len|4 * len"), SAID, True, "desk/tools.py:37 (note)"),
    "a router": (("desk/tools.py", '"lost" in|"gone" in'), SAID, True, "desk/tools.py:33 (route)"),
    "a tool of a model": (("desk/tools.py", '"seen": number|"seen": 1'), SAID, True, ""),
    "a node, and a model answered": (("desk/tools.py", '"lost" in|"gone" in'), SAID, False, ""),
    "the state of another node": (("desk/tools.py", '{"fee": 3|{"cost": 3'), LOST, True, "desk/tools.py:37 (note)"),
}


def test_note_changed_here__functions_of_a_workflow_are_code() -> None:
    found = {}
    for name, ((file, edit), about, by_code, _) in BY_NODES.items():
        old, new = edit.split("|")
        assert old in FILES[file], old
        seen, before = about.model_copy(deep=True), Before(by_code=by_code)
        head = {**FILES, file: FILES[file].replace(old, new)}
        note_changed_here([seen], partial(always, [FLOW]), code_of(head), partial(always, before))
        found[name] = changed_here(seen).rpartition("changed here: ")[2].rpartition("changed: ")[2]
    assert found == {name: text for name, (*_, text) in BY_NODES.items()}


def test_note_changed_here__a_line_that_is_gone_below_an_empty_one() -> None:
    """Code has no empty lines, so that the line before it is another one."""
    base = """PROMPT = '''You are the desk.

Call top_up.
Be polite.
'''
root_agent = LlmAgent(name="desk", instruction=PROMPT)
"""
    code = code_between({"desk/agent.py": base}, {"desk/agent.py": base.replace("Call top_up.\n", "")}, "desk")
    tree = AgentTree(agent="desk", agents=[agent("desk", symbol="root_agent", model="large")])
    seen = cause("call-missing", tool="top_up")
    note_changed_here([seen], partial(always, [tree]), code)
    assert changed_here(seen) == "changed here: desk/agent.py:2 (Call top_up., removed)"


def test_note_changed_here__rows_and_constants_in_order() -> None:
    row = ("desk/plans.json", '{"a"', '{"other": {"price": 10},\n "a"')
    renamed = ("desk/plans.json", '"basic": {"price"', '"basic": {"cost"')
    body = ("desk/tools.py", "if row is None:", "if not row:")
    case_only = ("desk/plans.json", '"basic"', '"Basic"')
    vat = ("desk/tools.py", "VAT = 0.0", "VAT = 0.3")
    shown = []
    for changes, expected in (([row, vat], "10"), ([body, renamed], "12.5"), ([body, case_only], "12.5")):
        head: dict[str, str | None] = dict(FILES)
        for file, old, new in changes:
            head[file] = (head[file] or "").replace(old, new)
        seen = cause("tool-response", tool="plan_of", names=["unit"], actual="31", expected=expected)
        before = Before(arguments={"basic"})
        note_changed_here([seen], partial(always, [DESK]), code_of(head), partial(always, before))
        shown.append(changed_here(seen))
    assert shown == [
        "one of these 2 changed places: desk/tools.py:4 (VAT), desk/plans.json",
        "one of these 2 changed places: desk/plans.json:2, desk/tools.py:11 (plan_of)",
        "one of these 2 changed places: desk/plans.json:2, desk/tools.py:11 (plan_of)",
    ]


def always(value: Any, _: CauseReport) -> Any:
    return value


def shifted(text: str) -> str:
    for line in (21, 33):
        text = text.replace(f"tools.py:{line}", f"tools.py:{line + 1}")
    return text.replace("tools.py:13", "tools.py:10-14")  # Nobody knows that one of two lines changes nothing.


def code_of(head: Mapping[str, str | None]) -> HeadCode:
    return code_between(FILES, head, "desk")


def code_between(base: Mapping[str, str], head: Mapping[str, str | None], folder: str) -> HeadCode:
    made = Sources(head.get, folder=folder)
    files = {file for file in base.keys() | head.keys() if base.get(file) != head.get(file)}

    def lines(of: Any, file: str) -> list[tuple[int, int]]:
        text = head.get(file)
        return of(base.get(file), text) if file in files and text is not None else []

    return HeadCode(
        sources=lambda _: made,
        changed=cache(lambda file: lines(changed_code if file.endswith(".py") else changed_lines, file)),
        changed_files=sorted(files),
        written=cache(lambda file: lines(changed_lines, file)),
        texts=lambda file: (base.get(file), head.get(file)),
        apart=True,
    )


def test_unlisted__what_changes_around_agents() -> None:
    changes = [
        ("desk/plans.json", "12.5", "13.5"),
        ("desk/plugins.py", "LIMIT = 100.0", "LIMIT = 10.0"),
        ("desk/schema.py", "    text:", "    message:"),
        (".github/workflows/evals.yml", "DESK_FACTOR: '1'", "DESK_FACTOR: '3'"),
        ("desk/tools.py", "VAT = 0.0", "VAT = 0.3"),
    ]
    head: dict[str, str | None] = dict(FILES)
    for file, old, new in changes:
        head[file] = (head[file] or "").replace(old, new)
    run = report("failed", [case("lamp", "failed")])
    found = code_of(head).unlisted([DESK.model_copy(update={"agent": run.files[0].agent})], [])
    run.agents, run.agent_changes = [DESK], found
    assert agent_changes(run, placed=True).split(", desk: ") == [
        "desk: plugins at desk/plugins.py:1 (LIMIT)",
        "output-schema at desk/schema.py:3 (Reply)",
        "tool plan_of (data) at desk/plans.json",
        "variables at .github/workflows/evals.yml:2 (DESK_FACTOR)",
    ]
    assert code_of(head).unlisted([DESK], found) == [], "each place once"
    assert code_of(FILES).unlisted([DESK], []) == []


def test_merged__one_place_is_one_cause() -> None:
    place, other = Place(file="desk/guards.py", first=6), Place(file="desk/tools.py", first=3)
    first, second = cause("tool-error", tool="plan_of", actual="no"), cause("call-argument", tool="top_up", names=["a"])
    third, fourth = cause("tool-empty", tool="trace"), cause("tool-empty", tool="find")
    for each, places, case_id in ((first, [place], "a"), (second, [place], "b"), (third, [other], "c")):
        each.changed_here, each.cases = places, [case_id]
    fourth.changed_here, fourth.one_of, fourth.cases = [place, other], True, ["d"]
    found = merged([first, second, third, fourth])
    assert [each.cases for each in found] == [["a", "b"], ["c"], ["d"]]
    assert found[0].failing.having == 2
    assert cause_sentence(found[0]) == "plan_of answered with an error: no; also top_up is called with another a"
    found[0].symptoms *= 2
    assert cause_sentence(found[0]).count("also") == cause_sentence(found[0]).count("top_up") == 1


def test_next_step__where_an_exception_was_raised_or_one_of_several_places() -> None:
    raised = cause(
        "exception", tool="find", exception="KeyError", place=Place(file="home/tools.py", first=15, symbol="find")
    )
    one_of = cause("tool-empty", tool="find")
    one_of.changed_here, one_of.one_of = (
        [Place(file="home/a.csv", gone="removed"), Place(file="home/b.py", first=2)],
        True,
    )
    texts = []
    for each in (raised, one_of):
        run = report("failed", [case("lamp", "failed"), case("fan", "failed")])
        each.cases = [made.case_id for made in run.cases]
        run.causes = [each]
        texts.append("".join(step if isinstance(step, str) else step.text for step in next_step(view_of(run))))
    assert texts[0].startswith("look at home/tools.py:15 (find)")
    assert texts[1].startswith("look at one of these 2 places, changed here: home/a.csv (removed) and home/b.py:2")
