#!/usr/bin/env bash
# google-adk 2.13.0 without a2a-sdk: each turn of an LlmAgent tries to import an optional module again, and fails.
#
# Valid input: google-adk without its extra `a2a`, an LlmAgent whose model answers at once, twenty sessions of a turn.
# Expected:    a module that can't be imported for want of an optional package is tried once.
# Seen:        Python remembers no failed import, and nothing of ADK does: two modules are read, executed and thrown
#              away again in each turn, to look whether a node is a RemoteA2aAgent.
# Matters:     a quarter of a millisecond of CPU for the failed import (two modules), in every turn of an evaluation without a
#              slow model; import hooks of other packages (tracers, reloaders) see all of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check google-adk==2.13.0
cat >"$work/turns.py" <<'PYTHON'
import asyncio
import importlib.abc
import sys
from collections import Counter

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

TRIED = Counter()


class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        TRIED[name] += 1


class Ready(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Yes.")]))


async def main():
    runner = InMemoryRunner(LlmAgent(name="bot", model=Ready(model="ready")), app_name="bot")
    for number in range(21):
        if number == 1:  # The first turn imports what it needs, once.
            sys.meta_path.insert(0, Watch())
        session = await runner.session_service.create_session(app_name="bot", user_id="user")
        said = types.Content(role="user", parts=[types.Part(text="Ready?")])
        async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=said):
            pass
    for name in ("google.adk.agents.remote_a2a_agent", "google.adk.a2a.agent._remote_a2a_agent"):
        print(f"{name}: {TRIED[name]} times in 20 later turns")


asyncio.run(main())
PYTHON
"$work/venv/bin/python" -W ignore "$work/turns.py" 2>"$work/log" | tee "$work/seen" || cat "$work/log"
diff "$work/seen" - <<'SEEN'
google.adk.agents.remote_a2a_agent: 20 times in 20 later turns
google.adk.a2a.agent._remote_a2a_agent: 20 times in 20 later turns
SEEN
echo "as before: it is tried in each turn"
