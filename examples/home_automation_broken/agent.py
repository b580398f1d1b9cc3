"""The home automation agent after a refactoring that went wrong: one tool has changed.

`find_devices` compares the room letter by letter now. The model writes "bedroom", the home says "Bedroom", and nothing
is found any more. No exception, no log line: only the eval files of ../home_automation/evals notice.
"""

from __future__ import annotations

from home_automation.agent import create_agent
from home_automation.tools import TOOLS

from .tools import find_devices

root_agent = create_agent(tools=[find_devices, *(tool for tool in TOOLS if tool.__name__ != "find_devices")])
