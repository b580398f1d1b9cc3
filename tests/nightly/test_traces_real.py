"""One agent in five frameworks, with scripted models: what they trace is scored alike, and as google-adk in process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from adk_envs import adk_python, packages_python
from gate_runs import Done, repository_in
from test_gate_traces import COMPARE, CRITERIA, EXPERT, HELLO, of_weather

pytestmark = pytest.mark.nightly
WORKERS = Path(__file__).with_name("traced_agents")
CAPTURE = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}
LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
OPENINFERENCE = "openinference-instrumentation"
FRAMEWORKS: dict[str, tuple[str, list[str], list[str], dict[str, str]]] = {
    "LangGraph": (
        "langgraph",
        ["langgraph==1.2.24", "langchain==1.5.2", f"{OPENINFERENCE}-langchain==0.1.80"],
        [],
        {},
    ),
    "OpenAI Agents": ("openai_agents", ["openai-agents==0.24.0", f"{OPENINFERENCE}-openai-agents==2.6.0"], [], {}),
    "OpenAI Agents, without a session": (
        "openai_agents", ["openai-agents==0.24.0", f"{OPENINFERENCE}-openai-agents==2.6.0"], ["no-session"], {},
    ),
    "Pydantic AI": ("pydantic_ai", ["pydantic-ai-slim==2.68.0"], [], {}),
    "Pydantic AI, version 2": ("pydantic_ai", ["pydantic-ai-slim==2.68.0"], ["2"], {}),
    "Strands": ("strands", ["strands-agents[otel]==1.62.0"], [], {}),
    "Strands, without a session": ("strands", ["strands-agents[otel]==1.62.0"], ["no-session"], {}),
    "Strands, latest conventions": ("strands", ["strands-agents[otel]==1.62.0"], [], LATEST),
    "google-adk": ("adk", ["google-adk==2.13.0"], [], CAPTURE),
    "google-adk, OpenInference": (
        "adk", ["google-adk==2.13.0", f"{OPENINFERENCE}-google-adk==1.0.5"], ["openinference"], {},
    ),
}  # fmt: skip


def scores(done: Done) -> dict[tuple[str, str], float | None]:
    named = {(case.eval_id, metric.name): metric.score for case in done.report.cases for metric in case.metrics}
    return {key: score for key, score in named.items() if key[1] in CRITERIA}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_traces__of_a_real_framework_score_as_the_agent_in_process(tmp_path: Path, name: str) -> None:
    worker, packages, arguments, environ = FRAMEWORKS[name]
    python = packages_python(
        "-".join(("traces", worker, *arguments)), *packages, "opentelemetry-exporter-otlp-json-file"
    )
    command = [str(python), "-W", "ignore", str(WORKERS / f"{worker}_worker.py"), str(tmp_path / "traces.jsonl")]
    subprocess.run([*command, *arguments], env={**os.environ, **environ}, check=True, timeout=300)
    turn = {**HELLO["conversation"][0], "final_response": {"role": "model", "parts": [{"text": "Hi."}]}}
    with repository_in(tmp_path / "repo") as repository:
        of_weather(repository, COMPARE, {**HELLO, "conversation": [turn]}, EXPERT)
        shutil.copy(tmp_path / "traces.jsonl", repository.root)
        done = repository.gate("run", "--agent", "recorded:traces.jsonl", code=1)

        source, answers = ((WORKERS / file).read_text("utf-8") for file in ("adk_worker.py", "talks.py"))
        kept = [line for line in answers.partition("\n\ndef provider")[0].splitlines() if "opentelemetry" not in line]
        repository.write(
            {
                "weather/__init__.py": "",
                "weather/agent.py": "from adk_worker import root_agent\n",
                "adk_worker.py": source.partition("\n\nasync def main")[0],
                "talks.py": "\n".join(kept),
            }
        )
        live = repository.gate("run", "--agent", "weather", "--agent-python", str(adk_python()), python=False, code=1)
    assert scores(done) == scores(live)
    assert scores(done)["compare", "tool_trajectory_avg_score"] == 1.0
