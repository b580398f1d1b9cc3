"""Talks to the VeADK agent in ./home, and prints the paths of the eval set and of the trace that VeADK saved."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


async def main() -> None:
    sys.path.insert(0, ".")
    from home.agent import root_agent
    from veadk import Runner
    from veadk.memory.short_term_memory import ShortTermMemory
    from veadk.tracing.telemetry.opentelemetry_tracer import OpentelemetryTracer

    tracer = OpentelemetryTracer()
    root_agent.tracers = [tracer]
    runner = Runner(agent=root_agent, short_term_memory=ShortTermMemory(), app_name="home", user_id="u")
    for text in ("Lamp on", "Again, please"):
        await runner.run(messages=text, session_id="s1")
    eval_set = await runner.save_eval_set(session_id="s1", eval_set_id="recorded")
    trace = tracer.dump(user_id="u", session_id="s1", path=".")
    print(json.dumps({"eval_set": str(Path(eval_set).absolute()), "trace": str(Path(trace).absolute())}))


asyncio.run(main())
