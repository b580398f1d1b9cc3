#!/usr/bin/env bash
# google-adk 2.13.0: `adk run --jsonl` writes lines to standard output that are not JSON.
#
# Valid input: `adk run --jsonl AGENT MESSAGE` with an agent whose model is scripted.
# Expected:    JSON Lines on standard output, and logs on standard error: the option exists for programs that read it.
# Seen:        lines about the log file come first, on standard output.
# Matters:     `adk run --jsonl ... | jq` and every reader of JSON Lines stop at the first line.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
mkdir "$work/bot"
echo "from . import agent" >"$work/bot/__init__.py"
cat >"$work/bot/agent.py" <<'PYTHON'
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Hello.")]))


root_agent = LlmAgent(name="bot", model=Scripted(model="scripted"))
PYTHON
cd "$work"
venv/bin/adk run --jsonl bot "Hello?" >out 2>err </dev/null || cat err
python3 - <<'PYTHON' | tee seen
import json

kinds = []
for line in open("out", encoding="utf-8"):
    if line.strip():
        try:
            kinds.append(type(json.loads(line)).__name__)
        except ValueError:
            kinds.append("no JSON: " + line.split(":")[0].strip())
print(*kinds, sep="\n")
PYTHON
head -n 1 seen | grep -q "^no JSON" && grep -qx dict seen
echo "as before: log lines come before the JSON lines"
