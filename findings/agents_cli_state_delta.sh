#!/usr/bin/env bash
# google-agents-cli 1.11.0 with google-adk 2.13.0: a case with `state_delta` can't be run.
#
# Valid input: a dataset's event `{"author": "user", "state_delta": {...}}`, which agents-cli turns into an event with `actions.stateDelta`, and
#              sends it to ADK's server among the `events` of a new session.
# Expected:    the session begins with the state, as with google-adk 1.18.0. The scaffold asks for google-adk 2.12 or newer.
# Seen:        the server refuses events with actions (HTTP 400), so `agents-cli eval generate` drops the case; it ends with 0 if another one runs.
# Matters:     cases that begin with a state are silently missing in the grades.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null; rm -rf "$work"' EXIT
for part in adk cli; do python3 -m venv "$work/$part"; done
"$work/adk/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
"$work/cli/bin/pip" install -qq --disable-pip-version-check google-agents-cli==1.11.0
mkdir -p "$work/agents/app"
touch "$work/agents/app/__init__.py"
cat >"$work/agents/app/agent.py" <<'PYTHON'
from google.adk.agents import LlmAgent

root_agent = LlmAgent(name="shop", model="scripted")
PYTHON
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/adk/bin/adk" api_server --port "$port" "$work/agents" >"$work/log" 2>&1 &
server=$!
for _ in $(seq 60); do
  if python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; then break; fi
  sleep 1
done
"$work/cli/bin/python" - <<'PYTHON' | tee "$work/sent"
import json

from google.agents.cli._agent_platform_types import types
from google.agents.cli.eval import _events

event = types.evals.AgentEvent.model_validate({"author": "user", "state_delta": {"tier": "member"}})
print(json.dumps({"events": [_events.to_adk_event_payload(event)]}))
PYTHON
"$work/adk/bin/python" - "$port" "$work/sent" <<'PYTHON' | tee "$work/seen"
import sys
import urllib.error
import urllib.request

url = f"http://127.0.0.1:{sys.argv[1]}/apps/app/users/u/sessions"
body = open(sys.argv[2], "rb").read()
try:
    print(urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
PYTHON
diff "$work/seen" - <<'SEEN' || { tail -20 "$work/log"; exit 1; }
400 {"detail":"Session initialization event 0 cannot include event actions."}
SEEN
echo "as before: the server refuses the state that agents-cli sends"
