"""Agents behind servers of others, and LiteLLM's proxy before a judge: what docs/remote-agents.md says of them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_envs import REFERENCE, _cache, packages_python
from fake_gemini import FakeGemini, Fault
from gate_runs import Repository, eval_set, repository_in, told, wait_until
from golden_files import check
from models_support import GOOD, ask, completion, failure_of, quick
from upload_server import Received, Reply, upload_server

from agent_eval_results.report.phrases import headline
from agent_eval_results.report.views import view_of
from agent_eval_scoring.models.pool import open_models

pytestmark = pytest.mark.nightly
SERVERS = Path(__file__).with_name("real_servers")
NODE = Path(sys.executable).with_name("node")
PATH = f"{NODE.parent}:{os.environ['PATH']}"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextlib.contextmanager
def serving(port: int, *command: str | Path, folder: Path = SERVERS, **environ: str) -> Iterator[str]:
    """The URL of a server that listens."""

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    environment = {**os.environ, **environ}
    process = subprocess.Popen(list(map(str, command)), cwd=folder, env=environment, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or listens(), seconds=180)
        assert process.poll() is None, command
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder of the servers with the packages of package.json, installed once."""
    folder = _cache() / "real_servers"
    shutil.copytree(SERVERS, folder, dirs_exist_ok=True)
    if not (folder / "node_modules" / ".package-lock.json").exists():
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
        environ = {**os.environ, "PATH": PATH}
        subprocess.run([str(NODE.parent / npm[0]), *npm[1:]], cwd=folder, check=True, env=environ, timeout=900)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo") as made:
        yield made


def outcome(title: str, repository: Repository, agent: str, *messages: str, seconds: int = 120) -> str:
    """What becomes of a case for each message, and the answers of those that fail."""
    cases = {message: [(message, "21 degrees")] for message in messages}
    config = {"criteria": {"response_match_score": 0.9}}
    repository.write({"s.evalset.json": eval_set("s", cases), "test_config.json": config})
    done = repository.gate("run", "--agent", agent, "--turn-timeout", str(seconds), python=False, timeout=300)
    shown = [(case.eval_id, case.conversation) for case in done.report.cases]
    turns = [(name, talk.turns[0]) for name, talk in shown if talk is not None]
    answers = [f"{name}: {turn.answer or '(none)'} after {len(turn.steps)} steps" for name, turn in turns]
    return told(title, done, *answers)


TASKS = ("text", "closing", "nothing", "data", "quota", "canceled", "failed")


@pytest.mark.parametrize("mode", ["streaming", "whole"])
def test_a2a__python_and_javascript_are_read_alike(mode: str, repository: Repository, node_modules: Path) -> None:
    python = packages_python("a2a-sdk-1.3.0", "a2a-sdk[http-server]==1.3.0", "uvicorn")
    said = []
    for command in ([python, SERVERS / "a2a_python.py"], [NODE, node_modules / "a2a_javascript.mjs"]):
        port = free_port()
        with serving(port, *command, str(port), mode) as url:
            said.append(outcome("tasks", repository, f"a2a:{url}", *TASKS))
    assert said[0] == said[1]
    check("golden_gate/real_a2a.txt", said[0])


def test_a2a__older_and_other_servers(repository: Repository) -> None:
    said = []
    for name, package, script, modes in (
        ("a2a-sdk-0.3.26", "a2a-sdk[http-server]==0.3.26", "a2a_python_03.py", ("streaming", "whole")),
        ("fasta2a-2.1.1", "fasta2a==2.1.1", "a2a_fasta2a.py", ("",)),
    ):
        python = packages_python(name, package, "uvicorn")
        for mode in modes:
            port = free_port()
            with serving(port, python, SERVERS / script, str(port), mode) as url:
                said.append(outcome(f"{name} {mode}".strip(), repository, f"a2a:{url}", *TASKS, "raises", seconds=8))
    check("golden_gate/real_a2a_others.txt", "".join(said))


MCP_SERVERS = {"mcp-1": ("mcp", "1.30.0"), "mcp-2": ("mcp", "2.3.0"), "fastmcp": ("fastmcp", "4.2.3")}
"""The servers of MCP: module, and version of its distribution."""


MCP_WORKS = {"none", "raises", "of the job, 503"}
"""Cells in which a server answers, or is a part of the job: what the agent makes of it is its own."""
STATUSES = (401, 403, 429, 500, 503)


def mcp_environment(version: str) -> Path:
    return packages_python(f"adk-{REFERENCE}-mcp-{version}", f"google-adk=={REFERENCE}", f"mcp=={version}")


def mcp_cells(url: str, program: str) -> dict[str, str]:
    """What the agent is asked, by case: those of a server elsewhere, of one on loopback, and of a program."""
    elsewhere, cells = url.replace("127.0.0.1", "0.0.0.0"), {}
    for kind, path in (("http", "mcp"), ("sse", "sse")):
        for fault in ("none", *(f"{when}-{status}" for when in ("list", "call") for status in STATUSES)):
            cells[f"{kind} {fault}"] = f"{kind} {elsewhere}/{kind}/{fault}/{path}"
        for tool in ("slow", "raises"):
            cells[f"{kind} {tool}"] = f"{kind} {elsewhere}/{kind}/none/{path} {tool}"
        cells[f"{kind} absent"] = f"{kind} http://0.0.0.0:9/{kind}/none/{path}"
        cells[f"{kind} of the job, 503"] = f"{kind} {url}/{kind}/list-503/{path}"
    for tool in ("echo", "raises", "dies"):
        cells[f"stdio {tool}"] = f"stdio {program},stdio {tool}"
    return {**cells, "stdio exits": f"stdio {program},exits", "stdio absent": "stdio /nowhere/scale,stdio"}


@pytest.mark.parametrize("client", ["1.30.0", "2.3.0"])
@pytest.mark.parametrize("name", MCP_SERVERS)
def test_mcp__real_servers_that_fail(name: str, client: str, repository: Repository) -> None:
    library, version = MCP_SERVERS[name]
    python = (
        packages_python(f"fastmcp-{version}", f"fastmcp=={version}") if name == "fastmcp" else mcp_environment(version)
    )
    port, script = free_port(), SERVERS / "mcp_server.py"
    repository.agent("servers")
    options = ["--agent", "servers", "--agent-python", str(mcp_environment(client)), "--concurrency", "8"]
    lines = []
    with serving(port, python, script, library, str(port)) as url:
        cells = mcp_cells(url, f"{python},{script},{library}")
        lost = {cell for cell in cells if not cell.startswith("stdio") and cell.partition(" ")[2] not in MCP_WORKS}
        for names in (lost, cells.keys() - lost):
            cases = {cell: [(asked, "got hi")] for cell, asked in cells.items() if cell in names}
            config = {"criteria": {"response_match_score": 0.1}}
            repository.write({"s.evalset.json": eval_set("s", cases), "test_config.json": config})
            done = repository.gate("run", *options, python=False, timeout=400)
            lines.append(f"exit {done.code}: {headline(view_of(done.report), brief=True)}")
            for case in done.report.cases:
                [run] = case.runs
                why = f", {run.error.kind} ({run.error.owner}): {run.error.message}" if run.error else ""
                without = ", without its tools" if run.lost_toolsets else ""
                lines.append(f"  {case.eval_id}: {case.status}{without}{why}")
    said = re.sub(r"0\.0\.0\.0:\d{4,}", "ELSEWHERE", "\n".join(lines) + "\n")
    # How a slow answer ends depends on the client, and on which of its two limits comes first.
    check("golden_servers/real.txt", re.sub(r"(sse slow: .*)\(.*\)", r"\1(late)", said))


ERRORS = (
    "hello",
    "throw boom",
    "throw 429 RESOURCE_EXHAUSTED: quota",
    "report SAFETY not allowed",
    "report 503",
    "call nosuch",
)


def test_adk__javascript_through_both_doors(repository: Repository, node_modules: Path) -> None:
    port, said = free_port(), []
    options = ["-h", "127.0.0.1", "-p", str(port), "--compile", "false", "--bundle", "false", "--file_type", "esm"]
    options += ["--session_service_uri", "memory://", "--a2a", "true", "agents"]
    entry = node_modules / "node_modules" / ".bin" / "adk"
    with FakeGemini(lambda _: Fault(kind=429)) as gemini:
        variables = {
            "GOOGLE_GEMINI_BASE_URL": gemini.url,
            "GOOGLE_API_KEY": "x",
            "PATH": f"{NODE.parent}:{os.environ['PATH']}",
        }
        with serving(port, entry, "api_server", *options, folder=node_modules, **variables) as url:
            for door, suffix in (("adk", "#{}"), ("a2a", "/a2a/{}")):
                agents = {name: f"{door}:{url}{suffix.format(name)}" for name in ("scripted", "gemini")}
                said.append(outcome(f"{door}, scripted", repository, agents["scripted"], *ERRORS))
                said.append(outcome(f"{door}, Gemini answers 429", repository, agents["gemini"], "hello"))
    check("golden_gate/real_adk_javascript.txt", "".join(said))


async def test_judge__behind_the_proxy_of_litellm(tmp_path: Path) -> None:
    python = packages_python("litellm-proxy-1.108.7", "litellm[proxy]==1.108.7")
    bodies = {
        "filter": {"message": "triggering Azure OpenAI's content management policy.", "code": "content_filter"},
        "busy": {"message": "slow down", "code": "rate_limit_exceeded"},
    }

    def backend(call: Received) -> Reply:
        name = call.json["model"]
        asked = call.json.get("response_format", {}).get("type")
        if name == "noschema" and asked == "json_schema":
            return Reply(status=400, body={"error": {"message": "no json_schema", "param": "response_format"}})
        if name in bodies:
            return Reply(status=429 if name == "busy" else 400, body={"error": bodies[name]})
        fenced = f"```json\n{GOOD}\n```"
        return completion(
            {"fence": fenced, "think": f"<think>no</think>{GOOD}", "prose": f"Yes: {GOOD}"}.get(name, GOOD)
        )

    lines = []
    with upload_server(backend) as server:
        config = tmp_path / "config.yaml"
        model = f'{{model: "openai/*", api_base: "{server.url}/v1", api_key: up}}'
        config.write_text(
            f'model_list: [{{model_name: "*", litellm_params: {model}}}]\ngeneral_settings: {{master_key: sk-x}}\n'
            "litellm_settings: {num_retries: 0}\n",
            encoding="utf-8",
        )
        port = free_port()
        command = [
            str(python.with_name("litellm")),
            "--config",
            str(config),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        with serving(port, *command, folder=tmp_path, LITELLM_LOCAL_MODEL_COST_MAP="True") as url:
            for name in ("good", "noschema", "filter", "busy", "fence", "prose", "think"):
                judge = f"openai/{name}"
                settings = quick(judge_model=judge, api_key="sk-x", base_url=f"{url}/v1", call_timeout=60.0)
                async with open_models(settings, {}, models=[judge]) as pool:
                    if name in {"good", "noschema", "think"}:
                        lines.append(f"{name}: {(await pool.generate(ask(model=judge))).value}")
                    else:
                        failure = await failure_of(pool, ask(model=judge))
                        lines.append(f"{name}: {failure.kind}; {failure.hint}")
    check("golden_gate/real_litellm_judge.txt", "\n".join(lines) + "\n")
