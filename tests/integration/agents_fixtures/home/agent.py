"""An App with a plugin, state in its instruction, and a look at how it was loaded."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from scripted_model import call, reply, scripted, text

from . import metrics


class Notebook(BaseToolset):  # type: ignore[misc]
    """A toolset that holds something open."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(remember)]

    async def close(self) -> None:
        print("the notebook was closed")


class Politeness(BasePlugin):  # type: ignore[misc]
    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        if llm_response.content and llm_response.content.parts[0].text:
            llm_response.content.parts[0].text += " Please."


def remember(key: str, value: str, tool_context: ToolContext) -> dict[str, str]:
    """Stores a value in the session."""
    tool_context.state[key] = value
    return {"stored": key}


def facts() -> dict[str, Any]:
    also = importlib.import_module("agent.metrics")
    return {
        "alias": also is metrics,
        "loaded": metrics.loaded,
        "package": sys.modules["agent"] is sys.modules["home"],
        "spec": metrics.__spec__.name if metrics.__spec__ else None,
        "colour": os.environ.get("HOME_COLOUR"),
        "already": os.environ.get("HOME_ALREADY_SET"),
        "environment": sorted(os.environ),
        "script_dir_importable": importlib.util.find_spec("host_process") is not None,
        "cwd": os.getcwd(),
    }


def script(said: str, count: int, request: Any) -> Any:
    if said == "facts":
        return reply(text(json.dumps(facts())))
    if said == "instruction":
        return reply(text(str(request.config.system_instruction)))
    if said == "retries":
        options = getattr(request.config.http_options, "retry_options", None)
        return reply(text(json.dumps(options.model_dump(exclude_none=True)) if options else "none"))
    if said.startswith("remember ") and not count:
        _, key, value = said.split(" ", 2)
        return reply(call("remember", key=key, value=value))
    return reply(text(f"I heard {said!r}."))


root_agent = LlmAgent(
    name="butler",
    model=scripted(script),
    instruction="Serve {guest} in the {room?}. Shared: {user:mood?}",
    tools=[Notebook()],
)
app = App(name="home", root_agent=root_agent, plugins=[Politeness(name="politeness")])
