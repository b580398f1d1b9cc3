"""Whose fault an exception of the repository's own model class is: the provider's only if a request left for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import host_forks
from adk_envs import adk_python
from adk_harness import running, say
from loopback import Answer, Request, loopback

from agent_eval_agents.protocol import AgentFailure

AGENT = """
import asyncio, socket, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor

import httpx
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class RateLimitError(Exception):
    pass


RAISES = {
    "missing key": ValueError("Missing api key of the warehouse"),
    "credentials": ValueError("bad credentials: user not in table"),
    "invalid key": ValueError("API key not valid"),
    "timeout": TimeoutError("late"),
    "connection": ConnectionError("away"),
    "connect": httpx.ConnectError("away"),
    "rate": RateLimitError("slow down"),
    "dns": socket.gaierror(-2, "Name or service not known"),
}
CLIENT = httpx.AsyncClient()


def fetch(url):
    with urllib.request.urlopen(url, timeout=5) as response:
        return response.read()


def in_thread(url):
    caught = []

    def run():
        try:
            fetch(url)
        except OSError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise RateLimitError("own words") from None


async def request(how, url):
    if how == "httpx":
        (await CLIENT.get(url)).raise_for_status()
    elif how == "own":
        if (await CLIENT.get(url)).status_code >= 400:
            raise RateLimitError("own words")
    elif how == "urllib":
        fetch(url)
    elif how == "executor":
        await asyncio.get_running_loop().run_in_executor(None, fetch, url)
    elif how == "thread":
        in_thread(url)
    elif how == "raw":
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        writer.close()
        raise RateLimitError("own words")


class Own(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        kind, _, what = llm_request.contents[-1].parts[0].text.partition(" ")
        if kind == "wait":
            await asyncio.gather(*(CLIENT.get(what) for _ in range(3)))
        if kind == "after":
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="hi")]))
        if kind in ("swallow", "swallows", "code"):
            try:
                what and (fetch(what) if kind == "swallow" else (await CLIENT.get(what)).raise_for_status())
            except (OSError, httpx.HTTPError):
                pass
        if kind == "code":
            yield LlmResponse(error_code="429", error_message="quota exceeded 429")
            return
        if kind.startswith("swallow"):
            raise ValueError("bad credentials: user not in table")
        if kind in ("raise", "after"):
            raise RAISES[what]
        if kind in ("httpx", "own", "urllib", "executor", "thread", "raw"):
            await request(kind, what)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="hi")]))


root_agent = LlmAgent(name="own", model=Own(model="own"))
"""
RAISED = ("missing key", "credentials", "invalid key", "timeout", "connection", "connect", "rate", "dns")


async def test_own_model__is_the_providers_failure_only_after_a_request(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("from . import agent\n", "utf-8")
    (tmp_path / "own" / "agent.py").write_text(AGENT, "utf-8")

    async def handle(request: Request, answer: Answer) -> None:
        await answer.send(int(request.target.strip("/")), b"{}")

    async with loopback(handle) as server:
        expected = {f"{when} {what}": "agent" for when in ("raise", "after") for what in RAISED}
        for how in ("httpx", "own", "urllib", "executor", "thread"):
            expected |= {f"{how} {server.url}/{status}": "provider" for status in (401, 429, 503)}
            expected[f"{how} {server.url}/400"] = "agent"
        for how in ("httpx", "urllib", "executor"):
            expected[f"{how} http://127.0.0.1:9/"] = "provider"
        expected[f"raw {server.url}/"] = "provider"
        expected[f"wait {server.url}/200"] = ""
        # What the class has made of a request that raised is another thing than what it raises later.
        expected |= {f"{how} http://127.0.0.1:9/": "agent" for how in ("swallow", "swallows")}
        expected |= {"code ": "agent", f"code {server.url}/200": "agent"}
        expected |= {f"code {url}": "provider" for url in (f"{server.url}/429", "http://127.0.0.1:9/")}
        python = host_forks.command(adk_python())
        async with running("own", tmp_path / "logs", python=python, root=tmp_path) as agent:

            async def owner(text: str) -> str:
                try:
                    await say(agent, text)
                except AgentFailure as error:
                    return str(error.owner)
                return ""

            # At the same time: the request of one session is no evidence for another one.
            owners = await asyncio.gather(*(owner(text) for text in expected))
    assert dict(zip(expected, owners, strict=True)) == expected
