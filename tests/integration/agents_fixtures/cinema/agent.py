"""An agent that says what its model is shown: its instruction with the state, and who said what before."""

from __future__ import annotations

from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


def price(seats: int) -> dict[str, int]:
    """What seats cost."""
    return {"euros": 10 * seats}


def shown(part: Any) -> str:
    if part.function_call:
        return f"calls {part.function_call.name}"
    if part.function_response:
        return f"gets {part.function_response.response}"
    return str(part.text)


def script(asked: str, answered: int, request: Any) -> Any:
    if asked == "The price?" and not answered:
        return reply(call("price", seats=1))
    said = [f"{content.role} {shown(part)}" for content in request.contents for part in content.parts or []]
    tier = str(request.config.system_instruction).partition("Tier: ")[2].partition(".")[0]
    return reply(text(f"[{tier}] {'; '.join(said)}"))


root_agent = LlmAgent(name="cinema", model=scripted(script), instruction="Tier: {tier?}.", tools=[price])
