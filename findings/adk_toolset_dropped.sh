#!/usr/bin/env bash
# google-adk 1.18.0, 1.39.1 and 2.13.0: an agent whose toolset can't be listed runs on without its tools, since 1.39.
#
# Valid input: an agent with one function and one toolset, whose `get_tools` raises, as when its server is down or its
#              catalogue is missing.
# Expected:    the turn fails, as it did: an agent without its tools is another agent.
# Seen:        1.18.0 raises. 1.39.1 and 2.13.0 log a line and ask the model with the tools that are left; no event, no
#              error code and no exception says so.
# Matters:     an evaluation passes although it evaluated another agent than the one of the repository, and what a model
#              then says ("I can't look that up") is recorded as its answer.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/agent.py" <<'PYTHON'
import asyncio
import logging

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

logging.disable(logging.CRITICAL)
offered = []


class Model(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        offered.extend(request.tools_dict)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Hello.")]))


class Catalogue(BaseToolset):
    async def get_tools(self, readonly_context=None):
        raise FileNotFoundError("catalogue.json")


def clock() -> str:
    """The time."""
    return "12:00"


agent = LlmAgent(name="agent", model=Model(model="scripted"), tools=[clock, Catalogue()])


async def main():
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.UserContent(parts=[types.Part(text="Hello?")])
    try:
        events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    except FileNotFoundError as error:
        print("raises", type(error).__name__)
    else:
        print("offered:", *offered, "errors:", [event.error_code for event in events if event.error_code])


asyncio.run(main())
PYTHON
for version in 1.18.0 1.39.1 2.13.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install -qq --disable-pip-version-check "google-adk==$version"
  echo "google-adk $version: $("$work/$version/bin/python" "$work/agent.py" 2>/dev/null)"
done | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
google-adk 1.18.0: raises FileNotFoundError
google-adk 1.39.1: offered: clock errors: []
google-adk 2.13.0: offered: clock errors: []
SEEN
echo "as before: the toolset is left out without an error"
