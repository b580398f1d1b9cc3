#!/usr/bin/env bash
# google-adk 1.39.1 and 2.13.0: a streamed function call counts twice in ADK's trajectory, although it ran once.
#
# Valid input: a model that streams: it yields a call as a partial response (`partial=True`), then the whole one, as
#              LlmResponse documents. The runner executes only the second.
# Expected:    one call in the invocation that `tool_trajectory_avg_score` compares.
# Seen:        two: `convert_events_to_eval_invocations` does not look at `partial`.
# Matters:     the same agent passes with a model that does not stream and fails with one that does.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/agent.py" <<'PYTHON'
import asyncio
import logging

from google.adk.agents import LlmAgent
from google.adk.evaluation.eval_case import get_all_tool_calls
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

logging.disable(logging.CRITICAL)
ADD = types.Part(function_call=types.FunctionCall(name="add", args={"a": 1, "b": 2}))
executed = []


class Streaming(BaseLlm):
    steps: list

    async def generate_content_async(self, request, stream=False):
        for partial, part in self.steps.pop(0):
            yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=partial)


def add(a: int, b: int) -> int:
    """Adds."""
    executed.append((a, b))
    return a + b


agent = LlmAgent(
    name="agent", tools=[add],
    model=Streaming(model="scripted", steps=[[(True, ADD), (False, ADD)], [(False, types.Part(text="3"))]]),
)


async def main():
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.UserContent("1 + 2?")
    events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    (turn,) = EvaluationGenerator.convert_events_to_eval_invocations(events)
    print("executed:", len(executed), "in the trajectory:", len(get_all_tool_calls(turn.intermediate_data)))


asyncio.run(main())
PYTHON
for version in 1.39.1 2.13.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install -qq --disable-pip-version-check "google-adk==$version"
  echo "google-adk $version: $("$work/$version/bin/python" "$work/agent.py" 2>/dev/null)"
done | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
google-adk 1.39.1: executed: 1 in the trajectory: 2
google-adk 2.13.0: executed: 1 in the trajectory: 2
SEEN
echo "as before: one call counts twice"
