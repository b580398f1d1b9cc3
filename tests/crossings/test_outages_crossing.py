"""An outage x whose it is x when: whose fault it is, the exit code, the code of the reason."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import host_forks
import pytest
from adk_envs import FIXTURES, REFERENCE, adk_python, packages_python
from base_repos import new_repo
from crossing_table import Cell, Impossible, Row, Table
from dead_or_alive import ECHO, IN_A_TURN
from fake_adk import FakeAdk, event
from fake_gemini import Answer as ModelAnswer
from fake_gemini import FakeGemini, Fault, GenerateRequest
from gate_runs import Done, Repository, patience
from judged_gate import KEY, MORE, Judge
from loopback import Answer, Handler, Request, loopback
from recorded_evals import WITHOUT_PLUGINS

from agent_eval_results import MetricReport, RunReport

# The services of a run, servers that work until their outage: models, a remote agent, an MCP server.


Fails = int | Literal["reset", "gone", "hang", "cut-json", "empty"]
WRONG = "Lyon."
"""What the agent answers in the cases that it gets wrong; the judge is against it."""
SLOW = 1.0
"""Seconds of an answer that is slow, and within every limit but that of the MCP server's connection."""
_MIX: tuple[Fails | None, ...] = (429, 429, 429, 503, "reset", None, None, None, None, None)
"""Of ten requests, three are answered with 429 and one with 503, and one is dropped."""
_FAILS: Mapping[str, Fails] = {
    "refused": "gone", "dead proxy": "gone", "hang": "hang", "cut JSON": "cut-json", "{}": "empty"
}  # fmt: skip


@dataclass(kw_only=True)
class Outage:
    """When a service fails, and how."""

    kind: str
    begins: Literal["at once", "when a case runs again", "on base"]
    begun: bool = False
    _asked: Counter[str] = field(default_factory=Counter)
    _failed: int = 0

    def of(self, said: str, *, on_base: bool = False) -> Fails | None:
        """What a request gets instead of an answer; None for its answer.

        Args:
            said: What it says; `Say the word X.` once in each run of a case, or else it begins no outage.
            on_base: Whether it belongs to the base branch's agent.
        """
        word = re.search(r"Say the word (\w+)", said)
        if word is not None:
            self._asked[word[1]] += 1
            self.begun |= self.begins == "when a case runs again" and self._asked[word[1]] > 1
        if not (self.begun or self.begins == "at once" or on_base) or self.kind in {"latency", "DNS"}:
            return None
        if self.kind == "mix":
            self._failed += 1
            return _MIX[self._failed % len(_MIX)]
        fails = _FAILS.get(self.kind) or int(self.kind)
        # The agents of both branches share the server, and the pull request's may still be running.
        return "reset" if on_base and fails == "gone" else fails

    @property
    def latency(self) -> float | None:
        """Seconds before each answer."""
        return SLOW if self.kind == "latency" else None


@contextlib.contextmanager
def model(outage: Outage | None, *, judges: bool = False, users: bool = False) -> Iterator[str]:
    """A Gemini: the agent's, which repeats what it is told, that of judges, or that of simulated users and a judge."""
    judge = Judge()

    def script(request: GenerateRequest) -> ModelAnswer | Fault:
        said = request.user_texts[-1]
        judged = "responseJsonSchema" in request.body["generationConfig"] if users else False
        asked = "" if judged or (users and MORE in said) else said
        spared = judged and outage is not None and outage.kind == "mix"  # Calls of one user come one after another.
        fails = outage.of(asked, on_base="(base)" in said) if outage and not spared else None
        if fails is not None:
            return Fault(kind=fails, retry_after=0 if isinstance(fails, int) else None)
        wrong = "(wrong)" in request.instruction and "worse" in said
        answer = judge(request) if judges or users else ModelAnswer.text(WRONG if wrong else said)
        return dataclasses.replace(answer, latency=outage.latency if outage else None)

    with FakeGemini(script) as server:
        yield server.url


@contextlib.contextmanager
def closed() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


def remote(outage: Outage | None, *, wrong: bool) -> contextlib.AbstractContextManager[str]:
    """An agent behind ADK's REST interface, which repeats what it is told."""

    async def turn(request: Request, answer: Answer) -> None:
        said = request.json["newMessage"]["parts"][0]["text"]
        await answer.events(event(WRONG if wrong and "worse" in said else said))

    runs = itertools.cycle(CASES.values())  # As many sessions begin before a case runs again.
    return serving(FakeAdk(turn=turn).handle, outage, lambda said: "" if "newMessage" in said else next(runs))


def mcp(outage: Outage | None) -> contextlib.AbstractContextManager[str]:
    """An MCP server over HTTP (Streamable HTTP, answers in JSON), with one tool."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def handle(request: Request, answer: Answer) -> None:
        body = request.json if request.method == "POST" else {}
        if "id" not in body:
            await answer.send({"POST": 202, "GET": 405}.get(request.method, 200), b"")
            return
        given = body.get("params", {})
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": given.get("protocolVersion", ""),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": schema, "description": "Repeats a text."}]},
            "tools/call": {"content": [{"type": "text", "text": given.get("arguments", {}).get("text")}]},
        }
        await answer.json({"jsonrpc": "2.0", "id": body["id"], "result": results.get(body["method"], {})})

    return serving(handle, outage, lambda said: said if "tools/call" in said else "")


async def fail(fails: Fails, answer: Answer, *, stream: bool) -> None:
    """Fails a request; of a stream, the half of an event is all that comes."""
    if fails in {"gone", "reset"}:
        answer.reset()
    elif fails == "hang":
        await answer.closed()
    elif fails == "cut-json" and stream:
        await answer.events('data: {"author": "wea')
    elif isinstance(fails, int):
        await answer.send(fails, b"", retry_after="0")
    else:
        body = b"{}" if fails == "empty" else b'{"jsonrpc": "2.0", "res'
        await answer.send(200, body, content_type="application/json")


@contextlib.contextmanager
def serving(respond: Handler, outage: Outage | None, asked: Callable[[str], str]) -> Iterator[str]:
    """Runs a service in a thread of its own, on all addresses of this machine; also as an HTTP proxy to itself.

    Args:
        respond: What it answers until its outage.
        outage: None if it has none.
        asked: What a request says, by its body.
    """
    begun, url = threading.Event(), ""
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        nonlocal url

        async def handle(request: Request, answer: Answer) -> None:
            request = dataclasses.replace(request, target=urlsplit(request.target).path)
            if request.method == "POST" and outage:
                fails = outage.of(asked(request.body.decode()))
                if fails == "gone":
                    server.stop()
                if fails is not None:
                    await fail(fails, answer, stream=request.target == "/run_sse")
                    return
                await asyncio.sleep(outage.latency or 0)
            await respond(request, answer)

        async with loopback(handle) as server:
            url = server.url
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()


# An outage x whose it is x when: whose fault it is, the exit code, the code of the reason.


AGENT, JUDGE, USER, REMOTE, MCP = "agent's model", "judge", "simulated user", "remote server", "MCP server"
SCREENING, CONFIRMATION, BASE, SHARD, PYTEST = "screening", "confirmation", "base's runs", "a shard", "pytest"
RECOVERABLE = ("mix", "latency")
AT_START = (SCREENING, SHARD, PYTEST)


Verdict = tuple[int, str]
"""The exit code of the verdict, and the code of its first reason."""
LOST = (3, "provider-unavailable")
SERVER = (3, "server-unavailable")
TABLE = Table(
    name="outages",
    axes={
        "outage": ("refused", "DNS", "hang", "401", "429", "mix", "503", "cut JSON", "{}", "latency", "dead proxy"),
        "whose": (AGENT, JUDGE, USER, REMOTE, MCP),
        "when": (SCREENING, CONFIRMATION, BASE, SHARD, PYTEST),
    },
    impossible=(
        Impossible(where={"whose": REMOTE, "when": BASE}, why="only the version that is deployed can be asked"),
        Impossible(
            where={"outage": "DNS", "when": (CONFIRMATION, BASE)},
            why="a name that has resolved can't be taken back; `refused` fails at the same place",
        ),
    ),
    rows=(
        Row(
            where={"whose": REMOTE, "outage": ("DNS", "401"), "when": AT_START},
            expect=(2, "invalid"),
            cause="the URL and the headers of a remote agent are settings, which are checked before anything runs",
        ),
        Row(
            where={"whose": REMOTE, "outage": "mix", "when": AT_START},
            expect=SERVER,
            cause="a turn whose connection was dropped is not sent again: the agent may have got it",
        ),
        Row(
            where={"whose": MCP, "outage": "mix", "when": (CONFIRMATION, BASE)},
            expect=LOST,
            cause="google-adk asks an MCP server twice at most",
        ),
        Row(where={"whose": MCP, "outage": "mix"}, expect=SERVER, cause="google-adk asks an MCP server twice at most"),
        # Slower than the client of an MCP server waits: an outage, from the first run on.
        Row(where={"whose": MCP, "outage": "latency", "when": (*AT_START, CONFIRMATION)}, expect=SERVER),
        Row(where={"whose": MCP, "outage": "latency"}, expect=LOST),
        Row(where={"outage": RECOVERABLE, "when": CONFIRMATION}, expect=(1, "case-worse")),
        Row(where={"outage": RECOVERABLE}, expect=(0, "")),
        Row(where={"when": (CONFIRMATION, BASE)}, expect=LOST),
        Row(where={"whose": AGENT}, expect=LOST),
        Row(where={"whose": JUDGE, "outage": "401"}, expect=(3, "judge-invalid-request")),
        Row(where={"whose": JUDGE, "outage": "{}"}, expect=(3, "judge-malformed")),
        Row(where={"whose": JUDGE}, expect=(3, "judge-unavailable")),
        Row(where={"whose": USER, "outage": "401"}, expect=(3, "simulator-invalid-request")),
        Row(where={"whose": USER, "outage": "{}"}, expect=(3, "simulator-no-message")),
        Row(where={"whose": USER}, expect=(3, "simulator-unavailable")),
        Row(where={}, expect=SERVER),
    ),
)
CASES = {name: f"Say the word {name}." for name in ("apple", "bread", "cheese", "worse")}
EVALS = "evals/bot.evalset.json"
_LLM = """
from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="bot", model="gemini-2.5-flash", instruction="Repeat what you are told. {marks}")
"""
_MCP = """
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from scripted_model import call, reply, scripted, text


def script(said, count, request):
    if not count:
        return reply(call("echo", text=said))
    if {wrong} and "worse" in said:
        return reply(text("Lyon."))
    response = request.contents[-1].parts[0].function_response.response
    return reply(text(response["content"][0]["text"] if "content" in response else f"It failed: {{response}}"))


server = StreamableHTTPConnectionParams(url="{url}/mcp", timeout={patience})
root_agent = LlmAgent(name="bot", model=scripted(script), tools=[McpToolset(connection_params=server)])
"""


@dataclass(kw_only=True)
class Lab:
    """A repository, and the services of a run of it."""

    root: Path
    whose: str
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)
    outage: str = ""

    @property
    def slow(self) -> bool:
        """Whether answers are slow, but come: then the limits are long, except for that of the MCP server's client."""
        return self.outage in {"", "mix", "latency"}

    @property
    def repository(self) -> Repository:
        return Repository(root=self.root)

    def write(
        self, *, wrong: bool = False, base: bool = False, url: str = "", variables: Mapping[str, str] = {}
    ) -> None:
        """The agent: wrong in a case, marked as the base branch's, with other variables than the job's."""
        if self.whose == REMOTE:
            return
        marks = " ".join([*["(wrong)"] * wrong, *["(base)"] * base])
        text = _LLM.format(marks=marks) if self.whose == AGENT else ECHO
        if self.whose == MCP:
            text = _MCP.format(
                wrong=wrong, url=_elsewhere(url or self.url), patience=0.6 if self.outage == "latency" else 10
            )
        elif self.whose != AGENT:
            answer = f'(text if not {wrong} or "worse" not in text else {WRONG!r}) + {" (base)" * base!r}'
            text = ECHO.replace(IN_A_TURN, f"{IN_A_TURN}        text = {answer}\n")
        if self.whose == AGENT and url:
            variables = {**variables, "GOOGLE_GEMINI_BASE_URL": url}
        folder = self.root / "bot"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("from . import agent\n", "utf-8")
        (folder / "agent.py").write_text(f"import os\n\nos.environ.update({dict(variables)!r})\n{text}", "utf-8")
        shutil.copy(FIXTURES / "scripted_model.py", self.root)

    def evals(self) -> None:
        self.repository.evals(EVALS, CASES)
        if self.whose not in {JUDGE, USER}:
            return
        criterion: dict[str, Any] = {"threshold": 0.9, "judge_model_options": {"num_samples": 1}}
        name = "final_response_match_v2"
        if self.whose == USER:
            name = "rubric_based_final_response_quality_v1"
            criterion["rubrics"] = [{"rubric_id": "r", "rubric_content": {"text_property": "The answer is polite."}}]
            listed = [
                {"eval_id": name, "conversation_scenario": {"starting_prompt": said, "conversation_plan": "Go on."}}
                for name, said in CASES.items()
            ]
            (self.root / EVALS).write_text(json.dumps({"eval_set_id": "bot", "eval_cases": listed}), "utf-8")
        (self.root / "evals" / "test_config.json").write_text(json.dumps({"criteria": {name: criterion}}), "utf-8")

    @property
    def flags(self) -> list[str]:
        flags = [] if self.slow else ["--turn-timeout", "5", "--case-timeout", "12" if self.outage == "hang" else "60"]
        if self.outage == "mix" and self.whose in {JUDGE, USER}:
            flags += ["--concurrency", "1"]  # Then no call meets more faults in a row than it has attempts.
        if self.outage == "hang" and self.whose == JUDGE:
            flags += ["--run-timeout", "20"]
        if self.whose in {JUDGE, USER}:
            flags += ["--judge-base-url", self.url]
        if self.whose == REMOTE:
            flags += ["--agent", f"adk:{_elsewhere(self.url)}"]
        return flags

    @property
    def python(self) -> str:
        if self.whose == MCP:
            return shlex.join(
                host_forks.command(packages_python(f"adk-{REFERENCE}-mcp", f"google-adk=={REFERENCE}", "mcp<2"))
            )
        return shlex.join(host_forks.command(adk_python()))

    @property
    def environment(self) -> dict[str, str]:
        plain = {"NO_PROXY": "", "no_proxy": "", "GOOGLE_API_KEY": "any", "AGENT_EVAL_JUDGE_API_KEY": KEY}
        return {**plain, "GOOGLE_GEMINI_BASE_URL": self.url, **self.variables}

    def gate(self, command: str, *arguments: str, output: str = "out") -> Done:
        flags = self.flags if self.whose == REMOTE else [*self.flags, "--agent-python", self.python]
        return self.repository.gate(
            command, *arguments, *flags, python=False, environment=self.environment, output=self.root / output
        )


def _elsewhere(url: str) -> str:
    """An address of this machine that is not its loopback: what listens there is not a part of the job."""
    return url.replace("127.0.0.1", "0.0.0.0")


def service_of(whose: str, outage: Outage | None, *, wrong: bool = False) -> contextlib.AbstractContextManager[str]:
    if whose == REMOTE:
        return remote(outage, wrong=wrong)
    return mcp(outage) if whose == MCP else model(outage, judges=whose == JUDGE, users=whose == USER)


@functools.cache
def healthy(whose: str) -> bytes:
    """The base branch's results: five runs of each case, and all pass."""
    with tempfile.TemporaryDirectory() as folder, service_of(whose, None) as url:
        lab = Lab(root=Path(folder), whose=whose, url=url)
        lab.evals()
        lab.write()
        done = lab.gate("run", "--num-runs", "5")
        assert done.code == 0, done.out + done.err
        return (done.output / "results.json").read_bytes()


@contextlib.contextmanager
def _place(cell: Cell, outage: Outage, *, wrong: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """The service's address, and the variables with which it is found."""
    kind = cell["outage"]
    at_once = outage.begins == "at once"
    if kind == "DNS":
        yield "http://nowhere.invalid", {}
    elif kind == "refused" and at_once:
        with closed() as url:
            yield url, {}
    elif kind == "dead proxy":
        with closed() if at_once else service_of(cell["whose"], outage, wrong=wrong) as url:
            yield "http://elsewhere.invalid", {"HTTP_PROXY": url}
    else:
        with service_of(cell["whose"], outage, wrong=wrong) as url:
            yield url, {}


def verdict_of(cell: Cell, root: Path) -> Verdict:
    whose, when = cell["whose"], cell["when"]
    own_base = when == BASE and whose in {AGENT, MCP}
    begins = {CONFIRMATION: "when a case runs again", BASE: "on base"}.get(when, "at once")
    wrong = when in {CONFIRMATION, BASE}
    outage = Outage(kind=cell["outage"], begins="at once" if own_base else begins)  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        url, variables = stack.enter_context(_place(cell, outage, wrong=wrong))
        proxy = variables.get("HTTP_PROXY", "")
        base_url, base_variables = url, variables
        if own_base:
            url, variables = stack.enter_context(service_of(whose, None)), {}
        lab = Lab(root=root, whose=whose, url=url, variables=variables, outage=cell["outage"])
        lab.evals()
        if when == PYTEST:
            lab.write()
            return _judged(_pytest(lab), proxy)
        if when == SHARD:
            lab.write()
            part = lab.gate("run", "--shard", "1/1", output="shards/1")
            done = lab.gate("merge", "shards", output="merged")
            assert part.code == done.code, "a part says only whether it is complete"
            return _judged(done, proxy)
        repo = new_repo(root)
        on_base = when == BASE
        lab.write(wrong=on_base, base=on_base, url=base_url if own_base else "", variables=base_variables)
        (root / "base.json").write_bytes(healthy(whose))
        repo.commit({".gitignore": "out/\n__pycache__/\n"}, "The base branch")
        repo.branch("change")
        lab.write(wrong=wrong)
        repo.commit({"notes.md": "x\n"}, "The pull request")
        baseline = "rerun" if when == BASE else "file:base.json"
        done = lab.gate("run", "--baseline", baseline, "--base-ref", "main")
        verdict = _judged(done, proxy if when == SCREENING else "")
        # A refused key stops the judge for both branches, and the pull request's runs may not have all their votes.
        return LOST if on_base and verdict == (3, "judge-invalid-request") else verdict


def _metrics(report: RunReport) -> list[MetricReport]:
    return [metric for case in report.cases for metric in case.metrics]


def _judged(done: Done, proxy: str = "") -> Verdict:
    """The verdict; the agent is not blamed for what could not be evaluated, and a dead proxy is named."""
    report = done.report
    errors = [run.error for case in report.cases for run in case.runs if run.error is not None]
    assert {error.owner for error in errors} <= {"provider", "gate"}, errors
    if proxy:
        messages = [error.message for error in errors] + [m.reason.message for m in _metrics(report) if m.reason]
        assert messages and all(f"the proxy {proxy} (HTTP_PROXY)" in message for message in messages), messages
    reasons = [reason.code for reason in report.reasons]
    assert "budget" not in reasons, "more extra runs would change nothing"
    # Whether the attempts or the time end first is a matter of milliseconds.
    return done.code, next(iter(reasons), "").replace("-deadline", "-unavailable")


def _pytest(lab: Lab) -> Done:
    options = ["agent-python=" + lab.python] if lab.whose != REMOTE else []
    options += [
        f"{name.removeprefix('--')}={value}" for name, value in zip(lab.flags[::2], lab.flags[1::2], strict=True)
    ]
    variables = lab.repository.environment(lab.environment)
    environment = {name: value for name, value in variables.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--adk-evals"]
    process = subprocess.run(
        [*command, *(f"--adk-evals-set={option}" for option in options)],
        cwd=lab.root,
        env={**environment, "PYTEST_ADDOPTS": WITHOUT_PLUGINS},
        capture_output=True,
        text=True,
        timeout=120 * patience(),
        check=False,
    )
    output = lab.root / "agent-eval-results"
    code = Done(code=0, out="", err="", output=output, seconds=0).report.exit_code or 0
    done = Done(code=code, out=process.stdout, err=process.stderr, output=output, seconds=0)
    counts = process.stdout.strip().splitlines()[-1]
    assert process.returncode == (pytest.ExitCode.OK if code == 0 else pytest.ExitCode.TESTS_FAILED), process.stdout
    assert "failed" not in counts, "an outage is an error of the items, not a failure"
    assert ("error" in counts) == (code != 0), counts
    return done


@pytest.mark.parametrize("cell", TABLE.cells_to_run())
def test_outages(cell: Cell, tmp_path: Path) -> None:
    done = verdict_of(cell, tmp_path)

    assert done == TABLE.expected(cell)
