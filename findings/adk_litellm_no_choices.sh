#!/usr/bin/env bash
# google-adk 2.13.0 with litellm 1.110.2: a model's reply without choices is a successful, empty turn.
#
# Valid input: a provider that answers 200 with `"choices": []`, as gateways do when the service behind them failed.
# Expected:    an exception or an error code: there is no answer.
# Seen:        one event without text, error code or exception. From Gemini, a reply without candidates has an error code.
# Matters:     an evaluation scores the empty answer as the agent's, so an outage of the provider is a failed agent.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0 litellm==1.110.2
cat >"$work/agent.py" <<'PYTHON'
import asyncio
import http.server
import json
import logging
import threading

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

logging.disable(logging.CRITICAL)


class Provider(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = LiteLlm(model="openai/m", api_key="any", api_base=f"http://127.0.0.1:{server.server_port}")
agent = LlmAgent(name="agent", model=model)


async def main():
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.UserContent("Hello?")
    try:
        events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    except Exception as error:
        print("raises", type(error).__name__)
    else:
        for event in events:
            texts = [part.text for part in (event.content.parts if event.content else None) or []]
            print("event: error code", event.error_code, "texts", texts)


asyncio.run(main())
server.shutdown()
PYTHON
env -i PATH="$PATH" HOME="$work" LITELLM_LOCAL_MODEL_COST_MAP=True "$work/venv/bin/python" "$work/agent.py" 2>"$work/errors" |
  tee "$work/seen"
diff "$work/seen" - <<'SEEN' || { tail -n 3 "$work/errors"; exit 1; }
event: error code None texts []
SEEN
echo "as before: no answer is an answer"
