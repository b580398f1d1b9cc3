"""An agent of VeADK with one tool, and a model whose address comes from the environment."""

from __future__ import annotations

import os
from typing import Any

from veadk import Agent


def set_lamp(on: bool) -> dict[str, Any]:
    """Switches the lamp."""
    return {"status": "ok", "on": on}


root_agent = Agent(
    name="home",
    model_name="m",
    model_provider="openai",
    model_api_base=os.environ["MODEL_AGENT_API_BASE"],
    model_api_key=os.environ["MODEL_AGENT_API_KEY"],
    tools=[set_lamp],
)
