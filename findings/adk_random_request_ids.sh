#!/usr/bin/env bash
# google-adk 2.13.0: a recorded conversation with a tool confirmation, or with a workflow's question, can't pass again.
#
# Valid input: a tool with `require_confirmation=True`, and a workflow node that yields `RequestInput`; the same message to
#              each agent twice, by models and code that always do the same.
# Expected:    tool_trajectory_avg_score 1.0 for the second run against the first: ids of calls are not compared.
# Seen:        0.0. ADK's own requests carry random ids among the *arguments*: `originalFunctionCall.id` of
#              adk_request_confirmation and `interruptId` of adk_request_input, which are compared as what a user expects.
# Matters:     the web UI and converters write such a call into an eval set, and no run can ever meet it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
cat >"$work/agents.py" <<'PYTHON'
import asyncio
import logging
import warnings

from google.adk.agents import LlmAgent
from google.adk.evaluation.eval_case import get_all_tool_calls
from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.adk.events.request_input import RequestInput
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        call = types.FunctionCall(name="pay", args={"amount": 5})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def ask(node_input):
    yield RequestInput(message="Which size?")


tool = FunctionTool(pay, require_confirmation=True)
confirming = LlmAgent(name="till", model=Scripted(model="scripted"), tools=[tool])
asking = Workflow(name="shop", edges=[(START, ask)])


async def turn(agent):
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.UserContent("Go on.")
    events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    return EvaluationGenerator.convert_events_to_eval_invocations(events)


async def main():
    criterion = ToolTrajectoryCriterion(threshold=1.0)
    metric = EvalMetric(metric_name="tool_trajectory_avg_score", threshold=1.0, criterion=criterion)
    for agent in (confirming, asking):
        first, second = await turn(agent), await turn(agent)
        score = TrajectoryEvaluator(eval_metric=metric).evaluate_invocations(second, first).overall_score
        names = [call.name for call in get_all_tool_calls(first[0].intermediate_data)]
        print(agent.name, names, "against itself:", score)


asyncio.run(main())
PYTHON
"$work/venv/bin/python" "$work/agents.py" 2>"$work/errors" | tee "$work/seen" || cat "$work/errors"
diff "$work/seen" - <<'SEEN'
till ['pay', 'adk_request_confirmation'] against itself: 0.0
shop ['adk_request_input'] against itself: 0.0
SEEN
echo "as before: random ids are compared"
