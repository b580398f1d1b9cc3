#!/usr/bin/env bash
# google-adk 2.13.0: a sub-agent with `mode="task"` replaces the user's message in ADK's own eval cases.
#
# Valid input: an agent with a task sub-agent (the documented mode), which answers one message of the user.
# Expected:    `convert_events_to_eval_invocations`, behind `adk eval` and the web UI's "add session to eval set", makes
#              one invocation whose user content is what the user wrote.
# Seen:        the result of the task is stored as an event by the author "user" with a function response, in the same
#              invocation. The converter takes the last event of that author, so the user's words are gone: the eval
#              case asks a function response.
# Matters:     such a case can't be run again, and a judge that is shown the user's prompt sees none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
cat >"$work/agent.py" <<'PYTHON'
import asyncio
import logging

from google.adk.agents import LlmAgent
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

logging.disable(logging.CRITICAL)


class Scripted(BaseLlm):
    steps: list

    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[self.steps.pop(0)]))


def call(name, **args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


clerk = LlmAgent(
    name="clerk", mode="task", description="Books a room.",
    model=Scripted(model="scripted", steps=[call("finish_task", result="booked")]),
)
desk = LlmAgent(
    name="desk", sub_agents=[clerk],
    model=Scripted(model="scripted", steps=[call("clerk", request="book it"), types.Part(text="Room 7 is yours.")]),
)


async def main():
    runner = InMemoryRunner(agent=desk, app_name="app")
    sessions = runner.session_service
    session = await sessions.create_session(app_name="app", user_id="u")
    message = types.UserContent("A room, please.")
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    session = await sessions.get_session(app_name="app", user_id="u", session_id=session.id)
    (turn,) = EvaluationGenerator.convert_events_to_eval_invocations(session.events)
    (asked,) = turn.user_content.parts
    print("user content:", asked.text or f"response of {asked.function_response.name}")
    print("final response:", turn.final_response.parts[0].text)


asyncio.run(main())
PYTHON
"$work/venv/bin/python" "$work/agent.py" | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
user content: response of clerk
final response: Room 7 is yours.
SEEN
echo "as before: the user's message is lost"
