#!/usr/bin/env bash
# openinference-instrumentation-google-adk 1.0.5 with google-adk 2.13.0: two model calls of a turn share one span.
#
# Valid input: an agent that calls a tool and then answers, traced with `GoogleADKInstrumentor().instrument(...)`.
# Expected:    two spans of kind LLM: the one asks for the tool, the other has the answer; each with its own tokens.
# Seen:        one span of kind LLM, `invoke_agent`, with the tokens of the second call only. Its output message has the first call's tool call
#              and the second call's text, as if the model had said both at once. google-adk's own spans are right.
# Matters:     tokens and costs are too low, and a trajectory that is read from messages has calls at the wrong place.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0 openinference-instrumentation-google-adk==1.0.5
"$work/venv/bin/python" -W ignore - 2>"$work/log" <<'PYTHON' | tee "$work/seen"
import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from openinference.instrumentation.google_adk import GoogleADKInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        answered = any(part.function_response for content in llm_request.contents for part in content.parts)
        call = types.Part(function_call=types.FunctionCall(name="degrees", args={"city": "Rome"}))
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text="Warm.") if answered else call]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=20 if answered else 1000),
        )


def degrees(city: str) -> int:
    return 20


async def main():
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    GoogleADKInstrumentor().instrument(tracer_provider=provider)
    runner = InMemoryRunner(LlmAgent(name="weather", model=Scripted(model="m"), tools=[degrees]), app_name="a")
    await runner.session_service.create_session(app_name="a", user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="Rome?")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
        pass
    message = "llm.output_messages.0.message."
    for span in memory.get_finished_spans():
        values = dict(span.attributes)
        if values.get("openinference.span.kind") == "LLM":
            called = values.get(f"{message}tool_calls.0.tool_call.function.name")
            said = values.get(f"{message}contents.0.message_content.text")
            print(span.name, "| calls", called, "| says", said, "| prompt tokens", values.get("llm.token_count.prompt"))


asyncio.run(main())
PYTHON
diff "$work/seen" - <<'SEEN' || { tail -20 "$work/log"; exit 1; }
invoke_agent weather | calls degrees | says Warm. | prompt tokens 20
SEEN
echo "as before: one span for two model calls"
