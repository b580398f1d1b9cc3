"""LangGraph by way of LangChain's agents, traced by OpenInference."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import talks
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from openinference.instrumentation.langchain import LangChainInstrumentor


class Scripted(BaseChatModel):
    """Answers as `talks.answer` says."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = max(number for number, message in enumerate(messages) if isinstance(message, HumanMessage))
        results = [message for message in messages[last:] if isinstance(message, ToolMessage)]
        reply = talks.answer(str(messages[last].content), results)
        if isinstance(reply, str):
            message = AIMessage(reply)
        else:
            named = [dict(zip(("name", "args"), one, strict=True)) for one in reply]
            calls = [{**one, "id": f"call-{len(messages)}-{number}"} for number, one in enumerate(named)]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    try:
        return talks.weather(city)
    except ValueError as error:
        raise ToolException(str(error)) from error


@tool
def ask_expert(question: str) -> str:
    """What an expert says."""
    expert = create_agent(Scripted(), [], system_prompt=talks.EXPERT, name="expert")
    return str(expert.invoke({"messages": [("user", question)]})["messages"][-1].content)


get_weather.handle_tool_error = True
LangChainInstrumentor().instrument(tracer_provider=talks.provider())
tools, memory = [get_weather, ask_expert], InMemorySaver()
agent = create_agent(Scripted(), tools, system_prompt=talks.INSTRUCTION, checkpointer=memory, name="weather")
for name, messages in talks.TALKS.items():
    for text in messages:
        with suppress(talks.Failure):
            agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": name}})
