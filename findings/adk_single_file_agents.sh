#!/usr/bin/env bash
# google-adk 2.13.0: AgentLoader loads an agent of one file, and does not list it.
#
# Valid input: `bot.py` with a `root_agent` in the agents directory, one of the layouts that the loader documents.
# Expected:    `list_agents()`, which `adk web` and `adk api_server` offer, has what `load_agent()` loads.
# Seen:        the list has only directories; `load_agent("bot")` returns the agent all the same.
# Matters:     a tool that lists agents to evaluate them leaves out some that are served.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
mkdir -p "$work/agents/folder"
agent='from google.adk.agents import LlmAgent
root_agent = LlmAgent(name="NAME", model="scripted")'
echo "${agent/NAME/folder}" >"$work/agents/folder/agent.py"
echo "from . import agent" >"$work/agents/folder/__init__.py"
echo "${agent/NAME/bot}" >"$work/agents/bot.py"
"$work/venv/bin/python" - "$work/agents" <<'PYTHON' 2>"$work/errors" | tee "$work/seen"
import sys

from google.adk.cli.utils.agent_loader import AgentLoader

loader = AgentLoader(sys.argv[1])
print("listed:", *loader.list_agents())
print("loaded:", *(loader.load_agent(name).name for name in ("folder", "bot")))
PYTHON
diff "$work/seen" - <<'SEEN' || { cat "$work/errors"; exit 1; }
listed: folder
loaded: folder bot
SEEN
echo "as before: what can be loaded is not listed"
