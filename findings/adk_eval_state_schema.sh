#!/usr/bin/env bash
# google-adk 2.13.0: a workflow with a `state_schema` answers in a runner and can't be evaluated by `adk eval`.
#
# Valid input: a Workflow of one LlmAgent with a declared state schema, and an eval set of one case.
# Expected:    `adk eval` runs the agent as a runner does.
# Seen:        it adds a plugin that writes a key of its own (`__llm_request_key__`) into the session's state. The schema does
#              not declare it, so inference fails and the case with it. In a plain runner the agent answers.
# Matters:     a strict schema, the safer way to write a workflow, makes every case fail, and the reason is the evaluator.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check 'google-adk[eval]==2.13.0'
mkdir "$work/bot"
cd "$work"
echo "from . import agent" >bot/__init__.py
cat >bot/agent.py <<'PYTHON'
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.workflow import START, Workflow
from google.genai import types
from pydantic import BaseModel


class Model(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Sunny.")]))


class State(BaseModel):
    city: str = "Oslo"


answer = LlmAgent(name="answer", model=Model(model="scripted"))
root_agent = Workflow(name="bot", state_schema=State, edges=[(START, answer)])
PYTHON
cat >run.py <<'PYTHON'
import asyncio

from google.adk.runners import InMemoryRunner
from google.genai import types

from bot.agent import root_agent


async def main():
    runner = InMemoryRunner(agent=root_agent, app_name="bot")
    session = await runner.session_service.create_session(app_name="bot", user_id="u")
    message = types.UserContent("Weather?")
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        if event.content:
            print("runner:", event.content.parts[0].text)


asyncio.run(main())
PYTHON
cat >bot/one.evalset.json <<'JSON'
{"eval_set_id": "one", "eval_cases": [{"eval_id": "weather", "conversation": [{"invocation_id": "1",
  "user_content": {"role": "user", "parts": [{"text": "Weather?"}]},
  "final_response": {"role": "model", "parts": [{"text": "Sunny."}]}}]}]}
JSON
echo '{"criteria": {"response_match_score": 0.5}}' >bot/test_config.json
{
  venv/bin/python run.py 2>/dev/null
  venv/bin/adk eval bot bot/one.evalset.json --config_file_path bot/test_config.json >log 2>&1 || true
  grep -ao "Key '__llm_request_key__' is not declared in state schema 'State'" log | sort -u
  grep -ao "Tests passed: .*\|Tests failed: .*" log
} | tee seen
diff seen - <<'SEEN'
runner: Sunny.
Key '__llm_request_key__' is not declared in state schema 'State'
Tests passed: 0
Tests failed: 1
SEEN
echo "as before: the evaluator breaks the schema"
