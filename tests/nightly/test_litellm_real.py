"""Agents with LiteLLM's models: without a key, and behind LiteLLM's proxy."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_envs import REFERENCE, packages_python
from gate_runs import Done, patience, repository_in

pytestmark = pytest.mark.nightly
AGENT = """
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it gets them from the internet
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.lite_llm import LiteLlm

loaded = "litellm" in __import__("sys").modules
root_agent = LlmAgent(name="shop", model={model}, instruction="Sell.")
"""
CONFIG = """
model_list:
  - model_name: ok
    litellm_params: {model: openai/ok, api_key: none, mock_response: "hello"}
  - model_name: busy
    litellm_params: {model: openai/busy, api_key: none, mock_response: "litellm.RateLimitError"}
general_settings: {master_key: sk-proxy}
"""


def _run(folder: Path, model: str, **environment: str) -> Done:
    python = packages_python(f"adk-{REFERENCE}-litellm", f"google-adk=={REFERENCE}", "litellm==1.110.2")
    with repository_in(folder / "repository") as repository:
        repository.write({"shop/__init__.py": "from . import agent\n", "shop/agent.py": AGENT.format(model=model)})
        repository.evals("evals/shop.evalset.json", {"a": "hello", "b": "Hello"})
        nothing = dict.fromkeys((name for name in os.environ if name.endswith("_KEY")), "")
        flags = ("--agent-python", str(python), "--turn-timeout", "60")
        return repository.gate("run", *flags, python=False, environment={**nothing, **environment}, timeout=200)


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("LiteLlm('openai/gpt-4o-mini')", "`OPENAI_API_KEY`"),
        ("LiteLlm('anthropic/claude-sonnet-4-5')", "`ANTHROPIC_API_KEY`"),
        ("LiteLlm('azure/gpt-4o', api_base='http://127.0.0.1:9', api_version='1')", "`AZURE_OPENAI_API_KEY`"),
        ("LiteLlm('gemini/gemini-2.5-flash')", "`GEMINI_API_KEY`"),
        ("'openai/gpt-4o-mini'", "`OPENAI_API_KEY`"),  # ADK makes a LiteLlm of it
    ],
)
def test_litellm__without_a_key(tmp_path: Path, model: str, variable: str) -> None:
    done = _run(tmp_path, model)

    errors = [run.error for case in done.report.cases for run in case.runs]
    assert done.code == 3 and all(error is not None and error.no_key for error in errors), done.out
    assert len({str(error) for error in errors}) == 1 and "Retried" not in str(errors)
    assert f"Set {variable}" in str(errors[0]) and "Next: give the job a model key that works" in done.out


@contextlib.contextmanager
def _proxy(folder: Path) -> Iterator[str]:
    python = packages_python("litellm-proxy-1.108.7", "litellm[proxy]==1.108.7")
    (folder / "config.yaml").write_text(CONFIG, "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python.with_name("litellm")), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1"]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.Popen(
        [*command, "--port", str(port)], env=environment, stdout=sys.stderr, stderr=sys.stderr, cwd=folder
    )
    try:
        until = time.monotonic() + 90 * patience()
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5)
                break
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_litellm__behind_its_proxy(tmp_path: Path) -> None:
    with _proxy(tmp_path) as url:
        address = f"api_base={url!r}"
        for number, (model, expected) in enumerate(
            {
                f"LiteLlm('openai/ok', {address}, api_key='sk-proxy')": (0, set()),
                f"LiteLlm('openai/busy', {address}, api_key='sk-proxy')": (3, {"provider-unavailable"}),
                # Without a database the proxy answers a wrong key with 400, "No connected db.", not with 401.
                f"LiteLlm('openai/ok', {address}, api_key='sk-other')": (1, {"agent-exception"}),
            }.items()
        ):
            (tmp_path / str(number)).mkdir()
            done = _run(tmp_path / str(number), model)
            kinds = {run.error.kind for case in done.report.cases for run in case.runs if run.error is not None}
            assert (done.code, kinds) == expected, json.dumps(model) + done.out
