"""What pull requests do to an agent with two tools and to its five cases, from a refactoring to a SIGKILL."""

from __future__ import annotations

import json
from collections.abc import Mapping

from adk_envs import FIXTURES

Files = Mapping[str, str | None]
"""Text by path; None removes the file."""

AGENT = '''
"""Switches lamps and says whether they are on."""

from google.adk.agents.llm_agent import LlmAgent

from scripted_model import call, reply, scripted, text

from .tools import state, switch


def script(said, count, request):
    if count == 0:
        room = "hall" if "hall" in said else "kitchen"
        return reply(call("state", room=room) if said.startswith("Is") else call("switch", room=room, on="on" in said))
    return reply(text(request.contents[-1].parts[-1].function_response.response["result"]))


root_agent = LlmAgent(name="bot", model=scripted(script), instruction="Switch lamps.", tools=[switch, state])
'''
TOOLS = '''
def switch(room: str, on: bool) -> str:
    """Switches a lamp."""
    return f"The lamp in the {room} is {'on' if on else 'off'}."


def state(room: str) -> str:
    """Whether a lamp is on."""
    return f"The lamp in the {room} is off."
'''
LAMPS = {
    "kitchen_on": ("Switch the lamp in the kitchen on.", "on"),
    "kitchen_off": ("Switch the lamp in the kitchen off.", "off"),
    "hall_on": ("Switch the lamp in the hall on.", "on"),
}
STATE = {
    "kitchen_state": ("Is the lamp in the kitchen lit?", "off"),
    "hall_state": ("Is the lamp in the hall lit?", "off"),
}
LAMPS_FILE, STATE_FILE, CONFIG = "evals/lamps.evalset.json", "evals/state.evalset.json", "evals/test_config.json"


def _evals(cases: Mapping[str, tuple[str, str]], name: str) -> str:
    return json.dumps({"eval_set_id": name, "eval_cases": [_case(eval_id, *case) for eval_id, case in cases.items()]})


def _case(eval_id: str, said: str, lit: str) -> dict[str, object]:
    room = "hall" if "hall" in said else "kitchen"
    switch = {"name": "switch", "args": {"room": room, "on": lit == "on"}}
    called = switch if said.startswith("Switch") else {"name": "state", "args": {"room": room}}
    turn = {
        "user_content": {"role": "user", "parts": [{"text": said}]},
        "final_response": {"role": "model", "parts": [{"text": f"The lamp in the {room} is {lit}."}]},
        "intermediate_data": {"tool_uses": [called]},
    }
    return {"eval_id": eval_id, "conversation": [turn]}


def _criteria(**thresholds: float) -> str:
    return json.dumps({"criteria": thresholds})


BASE_FILES: Files = {
    "scripted_model.py": (FIXTURES / "scripted_model.py").read_text("utf-8"),
    "bot/agent.py": AGENT,
    "bot/tools.py": TOOLS,
    LAMPS_FILE: _evals(LAMPS, "lamps"),
    STATE_FILE: _evals(STATE, "state"),
    CONFIG: _criteria(tool_trajectory_avg_score=1.0, response_match_score=1.0),
}
BEFORE_HALL_STATE: Files = {STATE_FILE: _evals({"kitchen_state": STATE["kitchen_state"]}, "state")}
"""The base branch as it was a commit ago: without one of its cases."""


def _in_each_turn(statement: str) -> Files:
    return {"bot/agent.py": AGENT.replace("    if count == 0:\n", f"    {statement}\n    if count == 0:\n")}


def _in_one_case(statement: str) -> Files:
    return _in_each_turn(f'if said == "{LAMPS["kitchen_on"][0]}":\n        {statement}')


def _at_import(statement: str) -> Files:
    return {"bot/agent.py": f"import os, sys\n\n{statement}\n{AGENT}"}


def _without(name: str) -> dict[str, tuple[str, str]]:
    return {eval_id: case for eval_id, case in LAMPS.items() if eval_id != name}


def _with_new_ids() -> dict[str, tuple[str, str]]:
    return {f"{eval_id}_again": case for eval_id, case in LAMPS.items()}


SWITCHED, OFF = "'on' if on else 'off'", "is off."
RESULT = 'request.contents[-1].parts[-1].function_response.response["result"]'
SWITCH_WRONG: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "'off' if on else 'on'")}
"""Three of five cases fail, by one word of seven: below the criterion of 1.0, above ADK's default of 0.8."""
STATE_WRONG: Files = {"bot/tools.py": TOOLS.replace(OFF, "is on.")}
BOTH_WRONG: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "'off' if on else 'on'").replace(OFF, "is on.")}
SWITCH_RAISES: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "dict()['no lamp']")}
HANG, EXIT = "__import__('time').sleep(600)", "__import__('os')._exit(0)"
KILL, NO_MEMORY = "__import__('os').kill(__import__('os').getpid(), 9)", "bytearray(1 << 60)"
REFACTORED: Files = {
    "bot/tools.py": "from .lamps import state, switch\n",
    "bot/lamps.py": TOOLS.replace(SWITCHED, "['off', 'on'][on]"),
}


CHANGES: Mapping[str, Files] = {
    "fine": {"README.md": "# Lamps\n"},
    "refactored": REFACTORED,
    "new file": {"evals/more.evalset.json": _evals({"hall_off": ("Switch the lamp in the hall off.", "off")}, "more")},
    "renamed file": {LAMPS_FILE: None, "evals/lights.evalset.json": _evals(LAMPS, "lights")},
    "deleted file": {STATE_FILE: None},
    "tool raises": SWITCH_RAISES,
    "tool wrong": BOTH_WRONG,
    "one wrong tool": STATE_WRONG,
    "import error": _at_import("os.environ['LAMPS_TOKEN']"),
    "exit at import": _at_import("sys.exit(0)"),
    "hang, one": _in_one_case(HANG),
    "hang, all": _in_each_turn(HANG),
    "exit, one": _in_one_case(EXIT),
    "out of memory": _in_each_turn(NO_MEMORY),
    "SIGKILL": _in_each_turn(KILL),
    "empty answers": {"bot/agent.py": AGENT.replace(RESULT, '""')},
    "removed cases": {**SWITCH_WRONG, LAMPS_FILE: _evals(_without("kitchen_off"), "lamps")},
    "renamed cases": {**SWITCH_WRONG, LAMPS_FILE: _evals(_with_new_ids(), "lamps")},
    "criteria lowered": {**SWITCH_WRONG, CONFIG: _criteria(tool_trajectory_avg_score=1.0, response_match_score=0.1)},
    "criteria dropped": {**SWITCH_WRONG, CONFIG: _criteria(tool_trajectory_avg_score=1.0)},
    "criteria deleted": {**SWITCH_WRONG, CONFIG: None},
    ".gitignore": {**SWITCH_WRONG, ".gitignore": "evals/\nbot/\nagent-eval-results/\n__pycache__/\n"},
}
"""By what they do. The last six also change what is asked of the agent, whose `switch` is wrong."""
