"""An agent whose tool does more than answer. tests/crossings/test_replay_crossing.py writes its constants."""

import uuid

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from scripted_model import call, reply, scripted, text

from .tools import tool_of

DOES = "answers"
WHERE = "the agent"
ROOMS = ["hall", "kitchen"]
INSTRUCTION = "The lamp is {lamp?}."


def talk(said, count, request):
    """Calls the tool for each room, and finds the lamp on if all answers or the state say so."""
    if DOES == "in_parallel" and not count:
        return reply(*(call("switch", room=room) for room in ROOMS))
    if count < len(ROOMS):
        room = "hall" if DOES == "counts" else f"{uuid.uuid4()}" if DOES == "random" else ROOMS[count]
        return reply(call("switch", room=room))
    parts = [part for content in request.contents for part in content.parts or []]
    answers = [part.function_response.response for part in parts if part.function_response]
    in_state = "The lamp is on." in str(request.config.system_instruction)
    is_on = in_state if DOES == "sets_state" else all(" on" in str(each) or "'on'" in str(each) for each in answers)
    return reply(text("It is on." if is_on and "False" not in str(answers) else "It is off."))


def relay(said, count, request):
    """Says what the agent below its tool said."""
    if not count:
        return reply(call("desk", request="switch"))
    return reply(text("It is on." if "It is on" in str(request.contents[-1]) else "It is off."))


def comforts(tool, args, tool_context, error):
    return {"sorry": str(error), "is_same": str(error) == str(KeyError("it is on"))}


FUNCTIONS = {"in_parallel": "answers", "random": "answers"}
desk = LlmAgent(
    name="desk",
    description="Looks at lamps.",
    model=scripted(talk),
    instruction=INSTRUCTION,
    tools=[tool_of(FUNCTIONS.get(DOES, DOES))],
    on_tool_error_callback=comforts,
)
root = desk
if WHERE == "AgentTool":
    root = LlmAgent(name="front", model=scripted(relay), tools=[AgentTool(agent=desk)])
