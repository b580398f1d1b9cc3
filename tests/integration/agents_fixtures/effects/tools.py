"""Tools that do more than to answer. Each finds the lamp on at its first two calls in a session."""

from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

CALLS = "calls"


def look(tool_context):
    count = tool_context.state[CALLS] = tool_context.state.get(CALLS, 0) + 1
    return "on" if count <= 2 else "off"


def answers(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    return {"now": look(tool_context)}


def sets_state(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    tool_context.state["lamp"] = look(tool_context)
    return {"done": True}


def counts(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    return {"now": look(tool_context), "number": tool_context.state[CALLS]}


def raises(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    raise KeyError(f"it is {look(tool_context)}")


async def saves(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    await tool_context.save_artifact("lamp.txt", types.Part(text="on"))
    return {"now": look(tool_context)}


def confirms(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    tool_context.request_confirmation(hint="really?")
    return {"now": look(tool_context)}


def acts(room: str, tool_context: ToolContext) -> dict:
    """Looks at the lamp."""
    tool_context.actions.end_of_agent = True
    return {"now": look(tool_context)}


def tool_of(function):
    tool = LongRunningFunctionTool(answers) if function == "runs_long" else FunctionTool(globals()[function])
    tool.name = "switch"
    return tool
