"""One agent that shows every shape of a turn; the user's words choose it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from scripted_model import call, reply, scripted, text


def add(a: int, b: int) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


def ask_boss(what: str) -> dict[str, str] | None:
    """Asks somebody who answers at once, or later."""
    return {"status": "yes"} if what == "now" else None


def show(tool_context: ToolContext) -> dict[str, str]:
    """Shows a form."""
    tool_context.actions.skip_summarization = True
    return {"form": "shown"}


def tools_script(said: str, count: int, request: Any) -> Any:
    calls = {
        "text and call": [text("Let me see."), call("add", a=1, b=2)],
        "parallel": [call("add", a=1, b=2), call("add", a=3, b=4)],
        "long now": [call("ask_boss", what="now")],
        "long later": [text("I asked."), call("ask_boss", what="later")],
        "skip": [call("show")],
        "missing argument": [call("add", a=1)],
        "none arguments": [types.Part(function_call=types.FunctionCall(name="add"))],
    }
    if said in calls and not count:
        return reply(*calls[said])
    if said == "thought":
        return reply(types.Part(text="I think.", thought=True), text("I say."))
    if said == "error":
        return reply(error_code="SAFETY", error_message="not allowed")
    if said.startswith("reports "):
        facts = json.loads(said.removeprefix("reports "))
        if "raises" in facts:
            raise type(facts["raises"], (Exception,), {})(facts["error_message"])
        answer = [text(said) for said in facts.pop("says", [])]
        return (
            [reply(error_code="UNKNOWN_ERROR"), reply(text("Done."))] if "twice" in facts else reply(*answer, **facts)
        )
    if said == "streamed":
        return [reply(text("Do"), partial=True), reply(text("ne."), partial=True), reply(text("Done."))]
    if said == "silent":
        return reply()
    if said == "empty":
        return LlmResponse(content=types.Content(role="model", parts=[]))
    if said == "bytes":
        return reply(types.Part(inline_data=types.Blob(data=b"\xff\xfe\x00", mime_type="image/png")), text("a picture"))
    return reply(text("Done."))


def before(callback_context: Any) -> types.Content | None:
    said = "".join(part.text or "" for part in callback_context.user_content.parts)
    return types.Content(role="model", parts=[text("No need to ask.")]) if said == "before agent" else None


tools = LlmAgent(
    name="tools",
    model=scripted(tools_script),
    instruction="Add numbers.",
    tools=[add, LongRunningFunctionTool(ask_boss), show],
    before_agent_callback=before,
)


def specialist_script(said: str, count: int, request: Any) -> Any:
    return reply(text("The specialist says hello.")) if count else reply(call("add", a=2, b=2))


specialist = LlmAgent(
    name="specialist",
    description="Knows more.",
    model=scripted(lambda said, count, request: specialist_script(said, count - 1, request)),
    tools=[add],
)
front = LlmAgent(
    name="front",
    model=scripted(lambda said, count, request: reply(call("transfer_to_agent", agent_name="specialist"))),
    sub_agents=[specialist],
)
helper = LlmAgent(
    name="helper",
    description="Helps.",
    model=scripted(lambda said, count, request: reply(text("helped")) if count else reply(call("add", a=5, b=5))),
    tools=[add],
)
boss = LlmAgent(
    name="boss",
    model=scripted(
        lambda said, count, request: reply(text("The helper did it.")) if count else reply(call("helper", request="do"))
    ),
    tools=[AgentTool(agent=helper)],
)


def worker(name: str, answer: str, *, calls: bool = False) -> LlmAgent:
    def script(said: str, count: int, request: Any) -> Any:
        return reply(call("add", a=1, b=1)) if calls and not count else reply(text(answer))

    return LlmAgent(name=name, model=scripted(script), tools=[add])


sequence = SequentialAgent(name="sequence", sub_agents=[worker("one", "first", calls=True), worker("two", "second")])
parallel = ParallelAgent(name="both", sub_agents=[worker("left", "L"), worker("right", "R")])
CHOICES = {"transfer": front, "agent tool": boss, "sequence": sequence, "both": parallel}


class Router(BaseAgent):  # type: ignore[misc]
    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        said = "".join(part.text or "" for part in ctx.user_content.parts)
        if said == "nothing":
            return
        async for event in CHOICES.get(said, tools).run_async(ctx):
            yield event


root_agent = Router(name="router", sub_agents=[tools, front, boss, sequence, parallel])
