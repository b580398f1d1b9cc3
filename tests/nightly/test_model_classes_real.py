"""Tapes of agents whose models are LiteLLM's and Anthropic's, with the provider on loopback."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from adk_envs import REFERENCE, packages_python
from gate_runs import Call, eval_case, repository_in
from upload_server import Received, Reply, upload_server

from agent_eval_results.data.report import CaseReport

pytestmark = pytest.mark.nightly
MODELS = {
    "litellm": "LiteLlm('openai/gpt-4o', api_base=URL + '/v1', api_key=KEY)",
    "anthropic": "AnthropicLlm(model='claude-sonnet-4-5')",
    "vertex": "Claude(model='claude-sonnet-4-5', client=AsyncAnthropicVertex("
    "base_url=URL, access_token=KEY, project_id='p', region='r'))",
}
AGENT = """import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it gets them from the internet
URL, KEY = os.environ["ANTHROPIC_BASE_URL"], os.environ.get("ANTHROPIC_API_KEY")

from anthropic import AsyncAnthropicVertex
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models.anthropic_llm import AnthropicLlm, Claude
from google.adk.models.lite_llm import LiteLlm
from google.adk.plugins.base_plugin import BasePlugin

from .tools import price


class Mode(BasePlugin):
    async def before_run_callback(self, *, invocation_context):
        invocation_context.run_config.streaming_mode = StreamingMode.STREAMING


root_agent = LlmAgent(name="shop", model=MODEL, instruction="Sell.", tools=[price])
app = App(name="shop", root_agent=root_agent, plugins=[Mode(name="mode")])
"""
TOOLS = '''def price(item: str, days: int = 1) -> dict[str, int]:
    """The price of an item."""
    return {"price": len(item) * days}
'''
"""Not in the module of the agent: what a tool's module reads while imported, here an address, decides with it."""
CALLS: Sequence[Call] = [("price", {"item": "tea"}), ("price", {"item": "cocoa", "days": 2})]
CASE = eval_case("tea", ("What do they cost?", CALLS, "They cost 3 and 10."), ("Thanks.", [], "Bye."))
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
_numbers = itertools.count()


def provider(request: Received) -> Reply:
    """Calls the tool twice at once, then answers. Its ids, and thoughts before calls, are never the same."""
    asked, last = request.json, json.dumps(request.json["messages"][-1])
    calls = CALLS if "What do" in last else []
    text = "Let me see." if calls else "Bye." if "Thanks" in last else "They cost 3 and 10."
    reply = openai if request.path.endswith("/chat/completions") else anthropic
    whole, events = reply(text, calls, next(_numbers))
    if not asked.get("stream"):
        return Reply(body=whole)
    lines = [f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events]
    done = "data: [DONE]\n\n" if reply is openai else ""
    return Reply(body="".join([*lines, done]).encode(), headers={"Content-Type": "text/event-stream"})


def openai(text: str, calls: Sequence[Call], number: int) -> tuple[Any, list[Any]]:
    """An answer in one piece, and in pieces."""
    asked = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
    functions = [
        {"index": at, "id": f"c{number}-{at}", "type": "function", "function": function}
        for at, function in enumerate(asked)
    ]
    base: dict[str, Any] = {"id": f"m{number}", "created": number, "model": "gpt-4o-2024"}
    message: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": functions} if calls else {})}
    end: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if calls else "stop"}
    whole = {**base, "object": "chat.completion", "choices": [{**end, "message": message}], "usage": USAGE}
    deltas: list[Any] = [{"role": "assistant", "content": text[:4]}, {"content": text[4:]}]
    deltas += [{"tool_calls": [function]} for function in functions]
    choices = [{"index": 0, "finish_reason": None, "delta": delta} for delta in deltas] + [{**end, "delta": {}}]
    pieces: list[dict[str, Any]] = [*({"choices": [choice]} for choice in choices), {"choices": [], "usage": USAGE}]
    return whole, [{**base, "object": "chat.completion.chunk", **piece} for piece in pieces]


def anthropic(text: str, calls: Sequence[Call], number: int) -> tuple[Any, list[Any]]:
    """An answer in one piece, and in pieces."""
    thought = {"type": "thinking", "thinking": f"Hm {number}.", "signature": f"sign-{number}"}
    uses = [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": args}
        for at, (name, args) in enumerate(calls)
    ]
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 9, "output_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 2}
    base = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
    blocks: list[dict[str, Any]] = [*([thought] if calls else []), {"type": "text", "text": text}, *uses]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**base, "content": []}}]
    for at, block in enumerate(blocks):
        empty = {"thinking": "", "signature": "", "text": "", "input": {}}
        start = {**block, **{key: value for key, value in empty.items() if key in block}}
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        deltas = {
            "thinking": [
                {"type": "thinking_delta", "thinking": thought["thinking"]},
                {"type": "signature_delta", "signature": thought["signature"]},
            ],
            "text": [{"type": "text_delta", "text": piece} for piece in (text[:4], text[4:])],
            "tool_use": [{"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}],
        }[block["type"]]
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    return {**base, **end, "content": blocks}, events


@pytest.mark.parametrize("streaming", ["NONE", "SSE"])
@pytest.mark.parametrize("model", MODELS)
def test_replay_all__of_other_model_classes(tmp_path: Path, model: str, streaming: str) -> None:
    python = packages_python(
        f"adk-{REFERENCE}-models", f"google-adk=={REFERENCE}", "litellm==1.110.2", "anthropic==2.14.0"
    )
    source = AGENT.replace("=MODEL", f"={MODELS[model]}").replace("STREAMING\n", f"{streaming}\n")
    criteria = {"response_match_score": 1.0, "tool_trajectory_avg_score": 1.0}
    with repository_in(tmp_path / "repo") as repository:
        repository.write({"shop/__init__.py": "from . import agent\n", "shop/agent.py": source, "shop/tools.py": TOOLS})
        repository.write({"shop/shop.evalset.json": {"eval_set_id": "shop", "eval_cases": [CASE]}})
        repository.write({"shop/test_config.json": {"criteria": criteria}})

        def gate(url: str, key: str, *arguments: str, code: int = 0) -> CaseReport:
            environment = {"CI": "", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
            flags = ("--agent-python", str(python), *arguments)
            [case] = repository.gate("run", *flags, python=False, environment=environment, code=code).report.cases
            return case

        with upload_server(provider) as server:
            live = gate(server.url, "key-of-the-provider", "--record", "all")
        assert [bool(request.json.get("stream")) for request in server.received] == [streaming == "SSE"] * 3
        tape = (repository.root / "shop/shop.evalset.tools/tea.tape.json").read_text("utf-8")
        assert len(json.loads(tape)["model_calls"]) == 3
        assert "key-of-the-provider" not in tape
        assert server.url not in tape

        with upload_server(provider) as other:
            replayed = gate(other.url, "", "--replay", "all")
            repository.write({"shop/agent.py": source.replace('"Sell."', '"Sell more."')})
            missed = gate(other.url, "", "--replay", "all", code=3)
        assert other.received == []
        assert replayed.replayed
        for case in (live, replayed):
            assert [metric.score for metric in case.metrics if metric.threshold is not None] == [1.0, 1.0]
        [error] = [run.error for run in missed.runs]
        assert error is not None
        assert (error.kind, "Sell more." in str(error)) == ("model-not-recorded", True)
