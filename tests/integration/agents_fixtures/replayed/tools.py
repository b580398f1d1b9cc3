"""The same tool in many forms: it says whether the lamp is on, and sets the session's state."""

import functools

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from . import elsewhere
from .elsewhere import CONSTANT, helper

HERE = "on"


def answer(room, value, tool_context):
    """All forms of the tool end here."""
    now = value if {HERE, CONSTANT, helper(), elsewhere.CONSTANT} == {"on"} and room != "attic" else "off"
    tool_context.state["lamp"] = now
    return {"now": now}


def function(is_real):
    if is_real:

        def switch(room: str, tool_context: ToolContext) -> dict:
            """Switches the lamp."""
            return answer(room, "on", tool_context)

    else:

        def switch(room: str, tool_context: ToolContext) -> dict:
            """Switches the lamp."""
            return answer(room, "off", tool_context)

    return switch


def closure(value):
    def switch(room: str, tool_context: ToolContext) -> dict:
        """Switches the lamp."""
        return answer(room, value, tool_context)

    return switch


def other_closure(value):
    def switch(room: str, tool_context: ToolContext) -> dict:
        """Switches the lamp."""
        return answer(room, "off", tool_context)

    return switch


def decorated(body):
    @functools.wraps(body)
    def around(*args, **options):
        return body(*args, **options)

    return around


def cached(body):
    return functools.lru_cache(body)


def named(body):
    body.__name__, body.__doc__ = "switch", "Switches the lamp."
    return body


def valued(value: str, room: str, tool_context: ToolContext) -> dict:
    return answer(room, value, tool_context)


def other_valued(value: str, room: str, tool_context: ToolContext) -> dict:
    return answer(room, "off", tool_context)


def partial(body, value):
    return named(functools.partial(body, value))


LAMBDAS = {"real": lambda room, tool_context: answer(room, "on", tool_context), "other": lambda room, tool_context: answer(room, "off", tool_context)}  # fmt: skip  # noqa: E501


def lambda_of(name):
    LAMBDAS[name].__annotations__.update(room=str, tool_context=ToolContext)
    return named(LAMBDAS[name])


class Lamp:
    def __init__(self, value):
        self.value = value

    def now(self):
        return self.value

    def switch(self, room: str, tool_context: ToolContext) -> dict:
        """Switches the lamp."""
        return answer(room, self.now(), tool_context)


class OtherLamp(Lamp):
    def now(self):
        return "off"


class Caller:
    """Switches the lamp."""

    def __init__(self, value):
        self.value, self.__name__ = value, "switch"

    def __call__(self, room: str, tool_context: ToolContext) -> dict:
        return answer(room, self.value, tool_context)


class OtherCaller(Caller):
    def __call__(self, room: str, tool_context: ToolContext) -> dict:
        return answer(room, "off", tool_context)


class LampTool(BaseTool):
    def __init__(self, value):
        super().__init__(name="switch", description="Switches the lamp.")
        self.value = value

    def _get_declaration(self):
        room = types.Schema(type="OBJECT", properties={"room": types.Schema(type="STRING")})
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters=room)

    async def run_async(self, *, args, tool_context):
        return answer(args["room"], self.value, tool_context)


class OtherLampTool(LampTool):
    async def run_async(self, *, args, tool_context):
        return answer(args["room"], "off", tool_context)


class Wrapping(FunctionTool):
    """Several tools of one function."""

    def __init__(self, value):
        super().__init__(base)
        self.value = value

    async def run_async(self, *, args, tool_context):
        return answer(args["room"], self.value, tool_context)


class OtherWrapping(Wrapping):
    async def run_async(self, *, args, tool_context):
        return answer(args["room"], "off", tool_context)


base = function(True)


class Lamps(BaseToolset):
    def __init__(self, value):
        super().__init__()
        self.value = value

    async def get_tools(self, readonly_context=None):
        return [FunctionTool(self.switch)]

    async def switch(self, room: str, tool_context: ToolContext) -> dict:
        """Switches the lamp."""
        return answer(room, self.value, tool_context)

    async def close(self):
        pass


class OtherLamps(Lamps):
    async def switch(self, room: str, tool_context: ToolContext) -> dict:
        """Switches the lamp."""
        return answer(room, "off", tool_context)


class FreshLamps(Lamps):
    """Makes its tools at each request."""

    async def get_tools(self, readonly_context=None):
        return [LampTool(self.value)]


class OtherFreshLamps(FreshLamps):
    async def get_tools(self, readonly_context=None):
        return [OtherLampTool(self.value)]
