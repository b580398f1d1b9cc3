"""Loads agents as ADK does and as the gate's host does, each in a fork; runs in an environment of google-adk.

Reads jobs as JSON: a list of {"adk": [DIRECTORY, NAME]}, {"module": [ROOT, DOTTED]} or {"host": [PATH, ROOT]}. Writes a
list of the root agents' names, or of the errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from google.adk.agents import config_agent_utils
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.evaluation.agent_evaluator import AgentEvaluator


def load(job: dict[str, list[str]]) -> Any:
    [(kind, (first, second))] = job.items()
    if kind == "adk":
        return AgentLoader(first).load_agent(second)
    if kind == "module":
        sys.path.insert(0, first)
        return asyncio.run(AgentEvaluator._get_agent_for_eval(second))[0]
    from agent_eval_host.loading import load_agent

    return load_agent(first, second, asyncio.new_event_loop())


def said(job: dict[str, list[str]]) -> str:
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            agent = load(job)
            text = getattr(agent, "root_agent", agent).name
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    os.wait()
    with os.fdopen(reader, encoding="utf-8") as file:
        return file.read()


assert config_agent_utils
print(json.dumps([said(job) for job in json.load(sys.stdin)]))
