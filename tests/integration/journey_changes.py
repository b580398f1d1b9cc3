"""What pull requests do to the fixture agent `journey` after it was recorded, as edits of its repository."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gate_runs import Repository
from journey_runs import CALLS, CLOSED, EVALS, RUNS, run

AGENT, TOOLS, WORDS, SERVER = (f"journey/{name}.py" for name in ("agent", "tools", "words", "mcp_server"))
TAPES = EVALS.replace(".json", ".tools")
Edits = tuple[tuple[str, str, str], ...]
"""Files, what is replaced in them ("": in a new file), and by what."""


def apply(edits: Edits, root: Path) -> None:
    """Changes the files of a repository."""
    for name, old, new in edits:
        path = root / name
        content = path.read_bytes() if path.exists() else b""
        assert (old.encode() in content) if old else not content, (name, old)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.replace(old.encode(), new.encode()) if old else new.encode())


def changed(recorded: Repository, edits: Edits, to: Path) -> Repository:
    """A copy of a repository with changes."""
    shutil.copytree(recorded.root, to, ignore=shutil.ignore_patterns("__pycache__", "agent-eval-results", RUNS))
    apply(edits, to)
    return Repository(root=to)


def outcome(repository: Repository, python: Sequence[str], *, alters: bool) -> tuple[bool, str]:
    """Replays the first case without a key: whether it ended as it must, and how it ended."""
    log = repository.root / RUNS
    log.touch()
    environment = {**CLOSED, "RUNS_FILE": RUNS}
    done = run(repository, python, f"{EVALS}:first", "--replay", "all", environment=environment)
    cases, traces = done.report.cases, log.read_text("utf-8").split("\n")[:-1]
    if not cases:
        return alters and done.code == 2, f"{done.code}: {done.out.strip()[:200]}"
    error, use = cases[0].runs[0].error, cases[0].runs[0].tools
    said = f"{error.kind}: {error.message}" if error else cases[0].status
    is_green = done.code == 0 or cases[0].status == "passed"
    if alters:
        return not is_green and not traces, said
    return is_green and not traces and use is not None and use.model_calls == CALLS, said


_MODEL = 'model=Gemini(model="gemini-2.5-flash-assistant")'
_INSTRUCTION = "instruction=ASSISTANT + STYLE,"
_ROOT = 'root_agent = LlmAgent(\n    name="assistant",'
_CONFIG = "max_output_tokens=500"
_TOOLS = "(look_up, fare, desk.rooms, AgentTool"
_SAVES = '    if callback_context.state.get("has_logo") is None:'
_SKIPS = """    if callback_context.user_content.parts[0].text == "again":
        return types.Content(role="model", parts=[types.Part(text="Have a good journey.")])
"""
_ADDS = '    if (artifact := await callback_context.load_artifact("logo.png"))'
_SAFETY = (
    "safety_settings=[types.SafetySetting(category='HARM_CATEGORY_HARASSMENT', threshold='BLOCK_ONLY_HIGH')], "
    f"{_CONFIG}"
)
_MODE = "tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode='ANY'))"
_PLANNER = (
    "from google.adk.planners import BuiltInPlanner\n\n"
    f"{_ROOT}\n    planner=BuiltInPlanner(thinking_config=types.ThinkingConfig(thinking_budget=0)),"
)
_TIMER = 'def timer(minutes: int) -> str:\n    """Waits."""\n    return "done"\n\n\n'

ALTERS: Mapping[str, Edits] = {
    "instruction: a word": ((WORDS, "You plan journeys", "You book journeys"),),
    "instruction: a sentence more": ((WORDS, "{seen?}.", "{seen?}. Be kind."),),
    "instruction: another key of the state": ((WORDS, "{seen?}", "{has_logo?}"),),
    "state: a default": ((AGENT, _SAVES, f'{_SAVES}\n        callback_context.state["seen"] = "nothing"'),),
    "static instruction": ((AGENT, _INSTRUCTION, f'{_INSTRUCTION} static_instruction="Never fly.",'),),
    "global instruction": ((AGENT, _INSTRUCTION, f'{_INSTRUCTION} global_instruction="Never fly.",'),),
    "instruction: a function": (
        (AGENT, _INSTRUCTION, "instruction=lambda context: f'For {context.state[\"client\"]}',"),
    ),
    "instruction: a file": (("journey/house_style.txt", "plainly", "richly"),),
    "model: name": ((AGENT, "gemini-2.5-flash-north", "gemini-3-flash-north"),),
    "model: class": ((AGENT, "Streaming(model", "Gemini(model"),),
    "model: temperature in the request": ((AGENT, "temperature=0.2", "temperature=0.3"),),
    "model: temperature that the class keeps": ((AGENT, "temperature=0.1", "temperature=0.9"),),
    "model: most tokens": ((AGENT, _CONFIG, "max_output_tokens=400"),),
    "model: safety": ((AGENT, _CONFIG, _SAFETY),),
    "model: thinking budget": ((AGENT, _ROOT, _PLANNER),),
    "model: stop sequence": ((AGENT, _CONFIG, f'{_CONFIG}, stop_sequences=["END"]'),),
    "model: mode of tools": ((AGENT, _CONFIG, f"{_CONFIG}, {_MODE}"),),
    "model: extra body": ((AGENT, _CONFIG, f'{_CONFIG}, http_options=types.HttpOptions(extra_body={{"a": 1}})'),),
    "tool: name": ((TOOLS, "def rooms", "def beds"), (AGENT, "desk.rooms", "desk.beds")),
    "tool: description": ((TOOLS, "Says what a ticket costs.", "Says what a ticket costs today."),),
    "tool: type of a parameter": ((TOOLS, "nights: int", "nights: float"),),
    "tool: default of a parameter": ((TOOLS, "days: int = 1", "days: int = 2"),),
    "tool: removed": ((AGENT, _TOOLS, "(look_up, fare, AgentTool"),),
    "tool: added": ((AGENT, _ROOT, _TIMER + _ROOT), (AGENT, _TOOLS, f"(timer, {_TOOLS[1:]}")),
    "tool: order": ((AGENT, _TOOLS, "(fare, look_up, desk.rooms, AgentTool"),),
    "tool: body": ((TOOLS, '"rain"', '"snow"'),),
    "tool: another object": ((AGENT, 'Desk("Oslo")', 'Desk("Bergen")'),),
    "tool: a file of data": (("journey/fares.json", "40", "41"),),
    "tool: the list of a server": (
        (SERVER, "server.run()", '@server.tool()\ndef stops() -> str:\n    return ""\n\n\nserver.run()'),
    ),
    "tool: the list of a server that nobody calls": (("journey/stations.py", "Lists stations.", "Lists towns."),),
    "tool: how a server is started that nobody calls": (
        (AGENT, "def server(script: str)", "def server(script: str, *more: str)"),
        (AGENT, "args=[str(HERE / script)]", "args=[str(HERE / script), *more]"),
        (AGENT, 'server("stations.py")', 'server("stations.py", "--all")'),
    ),
    "agent: description of a sub-agent": ((AGENT, "Plans journeys.", "Plans trips."),),
    "agent: order of two": ((AGENT, "[ways, merge]", "[merge, ways]"),),
    "agent: one removed": ((AGENT, "sub_agents=[north, south]", "sub_agents=[north]"),),
    "agent: instruction of a tool's agent": ((AGENT, "Name the currency.", "Name the currency of the country."),),
    "agent: a field of the output": ((AGENT, "changes: int", "changes: int\n    price: int = 0"),),
    "agent: contents that it sees": (
        (AGENT, "tools=[fare],\n)\nways", 'tools=[fare],\n    include_contents="none",\n)\nways'),
    ),
    "callback: one more content": (
        (
            AGENT,
            _ADDS,
            f'    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="Hurry.")]))\n{_ADDS}',
        ),
    ),
    "callback: a tool's answer": ((AGENT, '"NOK"', '"EUR"'),),
    "callback: order of an answer's keys": (
        (AGENT, '{**tool_response, "unit": "NOK"}', '{"unit": "NOK", **tool_response}'),
    ),
    "artifact": (("journey/logo.bin", "first", "other"),),
    "initial state": ((EVALS, "Nora", "Dora"),),
    "initial state that only a tool might read": ((EVALS, '"budget": 7', '"budget": 8'),),
    "the last call is left out": ((AGENT, _SAVES, _SKIPS + _SAVES),),
    "the last answer is edited": (
        (WORDS, "return text.strip()", 'return "Goodbye." if "good" in text else text.strip()'),
    ),
    "a callback raises": ((WORDS, "return text.strip()", "return text.strip().lower"),),
}
"""What must never be green from the tape: other requests, other answers of tools, another outcome."""

HARMLESS: Mapping[str, Edits] = {
    "README": (("README.md", "", "# Journeys\n"),),
    "a comment": ((AGENT, "desk = Desk", "# In the capital.\ndesk = Desk"),),
    "formatted": ((AGENT, "sub_agents=[ways, merge])", "sub_agents=[\n        ways,\n        merge,\n    ],\n)"),),
    "order of imports": (
        (AGENT, "from .tools import Desk, fare, look_up\n", ""),
        (AGENT, "import ASSISTANT, tidy\n", "import ASSISTANT, tidy\nfrom .tools import look_up, fare, Desk\n"),
    ),
    "type hints": (
        (
            AGENT,
            "def tidies(callback_context, llm_response):",
            "def tidies(callback_context: Any, llm_response: Any) -> Any:",
        ),
    ),
    "a private function is renamed": ((WORDS, "_tidy", "_tidied"),),
    "the instruction moves": (
        ("journey/texts.py", "", 'ASSISTANT = "You plan journeys for {client}. Seen: {seen?}."\n'),
        (
            WORDS,
            'ASSISTANT = "You plan journeys for {client}. Seen: {seen?}."',
            "from .texts import ASSISTANT as ASSISTANT",
        ),
    ),
    "the instruction is put together": (
        (
            WORDS,
            '"You plan journeys for {client}. Seen: {seen?}."',
            '" ".join(["You plan journeys for {client}.", "Seen: {seen?}."])',
        ),
    ),
    "a callback is split": (
        (AGENT, "            part.text = tidy(part.text)", "            _tidy_part(part)"),
        (
            AGENT,
            "async def saves_logo",
            "def _tidy_part(part):\n    part.text = tidy(part.text)\n\n\nasync def saves_logo",
        ),
    ),
    "an unrelated module": (("journey/unused.py", "", "VALUE = 1\n"),),
    "a test": (("tests/test_journey.py", "", "def test_it():\n    assert True\n"),),
    "a workflow": ((".github/workflows/ci.yml", "", "on: push\n"),),
    "logging": ((AGENT, _ADDS, f'    import logging\n\n    logging.getLogger("journey").info("asks")\n{_ADDS}'),),
    "a label": ((AGENT, _CONFIG, f'{_CONFIG}, labels={{"team": "a"}}'),),
    "timeout": ((AGENT, _CONFIG, f"{_CONFIG}, http_options=types.HttpOptions(timeout=30_000)"),),
    "retries": ((AGENT, _MODEL, f"{_MODEL[:-1]}, retry_options=types.HttpRetryOptions(attempts=2))"),),
    "the key's variable": ((AGENT, "HERE = Path", 'KEY = os.environ.get("JOURNEY_KEY")\nHERE = Path'),),
    "order of arguments": (
        (AGENT, "temperature=0.2, max_output_tokens=500", "max_output_tokens=500, temperature=0.2"),
    ),
    "line ends of a tool's file": ((TOOLS, "\n", "\r\n"),),
    "another case's tape": ((f"{TAPES}/other.tape.json", "Bergen", "Tromso"),),
}
"""What must need no model call."""
