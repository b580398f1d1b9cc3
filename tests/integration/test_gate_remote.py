"""Remote agents and servers that the gate starts, in whole runs and alone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a_fake import WORDS, fake_a2a
from adk_envs import adk_python
from adk_harness import failure, request, say, started
from base_repos import new_repo
from fake_adk import FakeAdk, agent_spec, context, event, hang, served
from gate_runs import Done, Repository, eval_set, is_gone, told
from golden_files import check
from loopback import Answer, Request, loopback

from agent_eval_agents.driver import ServerSpec
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval_agents.sandbox import Sandbox
from agent_eval_agents.servers._agent import ServerAgent
from agent_eval_results import BASE_RECORDINGS, Recording, StoredLines
from agent_eval_scoring.core.content import text_of, user_message

# `agent-eval run --agent adk:URL` as a process: exit codes, headers, masking, what a pull request can't do.


TOKEN = "s3cret-token-of-the-job"
DOUBLE = Path(__file__).with_name("server_double.py")
CASE = eval_set("weather", {"oslo": [("Oslo?", "3 degrees")]})
CASE["eval_cases"][0]["session_input"] = {"app_name": "x", "user_id": "u", "state": {"home": "Bergen"}}


@pytest.fixture
def project(repository: Repository) -> Repository:
    repository.write({"weather.evalset.json": CASE, "test_config.json": {"criteria": {"response_match_score": 0.8}}})
    return repository


async def gate(repository: Repository, *arguments: str, code: int | None, **environ: str) -> Done:
    run = ("run", *arguments)
    return await asyncio.to_thread(repository.gate, *run, python=False, environment=environ, code=code)


def written(repository: Repository) -> bytes:
    """All that is in the files of a repository."""
    files = [path.read_bytes() for path in repository.root.rglob("*") if path.is_file()]
    return b"".join(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in files)


async def weather(request: Request, answer: Answer) -> None:
    header = request.headers.get("authorization", "")
    await answer.events(event("3 degrees" if TOKEN in header else f"who are you, {header}?"))


async def test_run__passes_with_headers_that_no_file_contains(project: Repository) -> None:
    async def leaky(request: Request, answer: Answer) -> None:
        await answer.events(event(f"3 degrees ({request.headers['authorization']})"))

    header = {"AGENT_EVAL_AGENT_HEADERS": f"Authorization: Bearer {TOKEN}"}
    async with served(FakeAdk(turn=weather)) as fake:
        done = await gate(project, "--agent", f"adk:{fake.url}#weather", code=0, **header)
        assert done.report.provenance["url"] == fake.url and fake.deleted == ["s1"]
        fake.turn = leaky
        await gate(project, "--agent", f"adk:{fake.url}", code=None, **header)
    assert TOKEN.encode() not in written(project) and b"3 degrees (***Authorization.2***)" in written(project)


async def test_run__exit_codes_of_servers_that_do_not_answer(project: Repository) -> None:
    async def unauthorized(request: Request, answer: Answer) -> None:
        await answer.send(401, b"no")

    story = []
    async with loopback(unauthorized) as server:
        story.append(told("refused", await gate(project, "--agent", f"adk:{server.url}", code=2)))
    story.append(told("nothing listens any more", await gate(project, "--agent", f"adk:{server.url}", code=1)))
    async with served(FakeAdk(turn=hang, ignores_state=True)) as fake:
        story.append(told("no state", await gate(project, "--agent", f"adk:{fake.url}", code=2)))
    done = await gate(project, "--agent", f"http://bot:{TOKEN}@127.0.0.1:1", code=2)
    assert TOKEN.encode() not in written(project) + (done.out + done.err).encode()
    check("golden_gate/remote_agents.txt", "".join([*story, told("an address with credentials", done)]))


async def test_run__auto_learns_how_many_runs_a_server_with_sqlite_holds(project: Repository) -> None:
    """As `adk api_server` answers, which keeps sessions in SQLite: with more than five sessions, one can't write."""
    [case] = CASE["eval_cases"]
    cases = [{**case, "eval_id": f"oslo-{number}"} for number in range(30)]
    project.write({"weather.evalset.json": {**CASE, "eval_cases": cases}})
    allowed, locked = 5, b'{"detail":"database is locked"}'
    details = {"error_type": "OperationalError", "error_message": "database is locked"}
    refused = {"session": 0, "turn": 0}

    async def turn(request: Request, answer: Answer) -> None:
        if len(fake.sessions) - len(fake.deleted) > allowed - 1 and refused["turn"] < refused["session"]:
            refused["turn"] += 1
            await answer.events(event("3"), {"error": "OperationalError: database is locked", "error_details": details})
            return
        await asyncio.sleep(0.02)
        await answer.events(event("3 degrees"))

    async def session(request: Request, answer: Answer) -> None:
        if len(fake.sessions) - len(fake.deleted) >= allowed:
            refused["session"] += 1
            await answer.send(500, locked)
        else:
            await fake.create_session(request, answer)

    fake = FakeAdk(turn=turn, session_answer=session)
    async with served(fake):
        done = await gate(project, "--agent", f"adk:{fake.url}", code=0)
    assert refused["session"] and refused["turn"], "it tried more than the server holds"
    assert max(each.attempts for case in done.report.cases for each in case.runs) == 2


async def test_run__a_fork_without_secrets_is_errored_not_failed(project: Repository) -> None:
    async def unauthorized(request: Request, answer: Answer) -> None:
        await answer.send(401 if "authorization" not in request.headers else 200, b'["weather"]')

    fork = {"id": 2, "full_name": "stranger/fork", "fork": True}
    own = {"id": 1, "full_name": "org/repo", "default_branch": "main"}
    sides = {"head": {"sha": "1" * 40, "ref": "x", "repo": fork}, "base": {"sha": "2" * 40, "ref": "main", "repo": own}}
    payload = {"repository": own, "pull_request": {"number": 7, **sides, "user": {"login": "stranger"}}}
    project.write({"event.json": payload})
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(project.root / "event.json"),
        "GITHUB_REPOSITORY": "org/repo",
    }
    # A header that needs no secret does not go to a server named by a workflow that a fork runs either.
    github["AGENT_EVAL_AGENT_HEADERS"] = "Authorization: Bearer public"
    async with loopback(unauthorized) as server, loopback(unauthorized) as api:
        github["GITHUB_API_URL"] = api.url
        done = await gate(project, "--agent", f"adk:{server.url}", code=3, **github)
        assert all("authorization" not in request.headers for request in (*server.requests, *api.requests))
    assert done.statuses == {"oslo": "errored"}, done.out


def table(*command: str) -> str:
    return f'agent = "server:double"\nconcurrency = 1\n[servers.double]\ncommand = {json.dumps(command)}\n'


async def test_run__starts_a_server_and_ends_it(project: Repository) -> None:
    shutil.copy(DOUBLE, project.root / "double.py")
    python = str(adk_python())
    project.write({"test_config.json": {"criteria": {"response_match_score": 0.0}}})
    project.write({"agent-eval.toml": table(python, "double.py", "{port}")})
    done = await gate(project, code=0, GOOGLE_API_KEY="s3cret-key-of-the-job")
    assert (done.report.provenance["server"], done.report.files[0].agent) == ("double", "server:double")
    log = (done.output / "logs/double/server.log").read_text("utf-8")
    assert "the key is ***" in log and "s3cret" not in log
    project.write({"agent-eval.toml": table(python, "missing.py", "{port}")})
    done = await gate(project, code=1)
    [case] = done.report.cases
    assert case.reason is not None and case.reason.code == "agent-server-down"
    assert "missing.py" in done.out


async def test_run__starts_the_base_branchs_server_in_its_worktree(project: Repository) -> None:
    double = DOUBLE.read_text("utf-8")
    project.write({"agent-eval.toml": table(str(adk_python()), "weather/double.py", "{port}")})
    repo = new_repo(project.root)
    repo.commit({"weather/double.py": double.replace('f"pid {os.getpid()}"', '"3 degrees"')})
    repo.commit({"weather/double.py": double})
    rerun = ("--baseline", "rerun", "--base-ref", "HEAD~1")
    done = await gate(project, *rerun, code=1)
    assert "1 regression" in done.out
    assert (done.output / "base/logs/double/server.log").exists()
    stored = list(StoredLines(path=done.output / BASE_RECORDINGS, model=Recording))
    turns = [turn for recording in stored for turn in recording.invocations]
    assert {text_of(turn.final_response) for turn in turns} == {"3 degrees"}
    assert all(turn.spans is None for turn in turns), "nothing was measured inside of the server"
    # A server that runs elsewhere has no base version.
    async with served(FakeAdk(turn=weather)) as fake:
        done = await gate(project, "--agent", f"adk:{fake.url}", *rerun, code=1)
    assert "baseline-remote-agent" in done.out


# `agent-eval run --agent a2a:URL` as a process: exit codes, states, hidden tool calls.


TEXT_ONLY = [WORDS["1.0"].answer("hello")]


@pytest.fixture
def greeting(repository: Repository) -> Repository:
    repository.evals("evals/hello.evalset.json", {"greets": "hello"})
    return repository


async def test_run__hidden_tool_calls_are_never_green(greeting: Repository) -> None:
    greeting.write({"evals/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0}}})
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=TEXT_ONLY) as fake:
        done = await gate(greeting, "--agent", f"a2a:{fake.url}", code=3)
    [metric] = [metric for metric in done.report.cases[0].metrics if metric.name == "tool_trajectory_avg_score"]
    assert metric.status == "not_evaluated"
    assert metric.reason is not None and metric.reason.code == "calls-not-visible"
    assert "does not show tool calls" in done.out
    await gate(greeting, "--agent", f"recorded:{done.output}", "--output-dir", "again", code=3)


async def test_run__a_state_is_refused_before_anything_is_sent(greeting: Repository) -> None:
    document = eval_set("hello", {"greets": [("hello", "hello")]})
    document["eval_cases"][0]["session_input"] = {"app_name": "x", "user_id": "u", "state": {"room": "kitchen"}}
    greeting.write({"evals/hello.evalset.json": document})
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=TEXT_ONLY) as fake:
        refused = await gate(greeting, "--agent", f"a2a:{fake.url}", code=2)
        assert "a2a-no-state" in refused.out and "greets" in refused.out
        assert fake.calls == []

        greeting.write({"agent-eval.toml": "remote-sessions = 'ignore-state'\n"})
        ignored = await gate(greeting, "--agent", f"a2a:{fake.url}", code=0)
    assert ignored.report.provenance["driver"] == "a2a"
    assert [recording.calls_visible for recording in ignored.recordings] == [False]
    assert "a2a-no-state" in ignored.out


# Servers that the gate starts: readiness, environment, logs, crashes, several workers, the end.


def server(*arguments: str, **facts: Any) -> ServerSpec:
    command = (sys.executable, str(DOUBLE), *(arguments or ("{port}",)))
    return ServerSpec(**{"name": "double", "command": command, "ready_timeout": 60.0, **facts})


def agent_of(spec: ServerSpec, directory: Path, *, workers: int = 1) -> ServerAgent:
    environment = {"PATH": os.environ["PATH"], "GOOGLE_API_KEY": "s3cret-token"}
    shared = context(directory, headers={"X-Token": "never sent"})
    shared = dataclasses.replace(shared, sandbox=Sandbox(environment=environment), workers=workers)
    return ServerAgent(agent_spec("double", shared), spec)


async def answer(agent: Any, text: str, **facts: Any) -> str:
    return text_of((await say(agent, text, **facts)).final_response)


async def test_server__environment_directory_log_and_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weather").mkdir()
    monkeypatch.setenv("NOT_FOR_THE_AGENT", "x")
    async with started(agent_of(server(directory="weather", version="v7"), tmp_path, workers=2)) as agent:
        await agent.start()  # once more changes nothing
        sessions = [await agent.open(request()) for _ in range(4)]
        turns = [await session.send(user_message("hello"), timeout=30) for session in sessions]
        await asyncio.gather(*(session.close() for session in sessions))
        pids = {int(text_of(turn.final_response).removeprefix("pid ")) for turn in turns}
        assert len(pids) == 2
        assert await answer(agent, "cwd") == str(tmp_path / "weather")
        assert await answer(agent, "env NOT_FOR_THE_AGENT") == "unset"
        assert int(await answer(agent, "env PORT")) > 1000
        facts = {"driver": "adk-rest", "app": "double", "server": "double", "version": "v7"}
        assert agent.provenance == facts and agent.metrics is None
    assert all(map(is_gone, pids))
    assert (tmp_path / "double" / "server-2.log").exists()
    log = (tmp_path / "double" / "server.log").read_text("utf-8")
    assert "starting, the key is ***" in log and "s3cret" not in log


async def test_server__one_that_dies_is_replaced_and_the_run_repeated_alone(tmp_path: Path) -> None:
    async with started(agent_of(server(), tmp_path)) as agent:
        before = await answer(agent, "hello")
        error = await failure(agent, "die")
        assert (error.kind, error.owner, error.collateral) == (FailureKind.CRASH, Owner.AGENT, True)
        assert "exited with code 7" in error.message and "about to die" in (error.log_tail or "")
        session = await agent.open(request(isolated=True))
        alone = text_of((await session.send(user_message("hello"), timeout=30)).final_response)
        await session.close()
        await session.close()
        shared = await answer(agent, "hello")
        assert len({before, alone, shared}) == 3 and is_gone(int(alone.removeprefix("pid ")))


async def test_server__app_with_a_space_and_a_percent_sign(tmp_path: Path) -> None:
    with pytest.raises(AgentRefused, match=r"has no app `my 100%25 app`\. Its apps: double"):
        async with started(agent_of(server(app="my 100%25 app"), tmp_path)):
            pass


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (server("{port}", "broken"), "exited with code 1 before it was ready"),
        (server("{port}", "silent", ready_timeout=0.5), "was not ready within 0.5 s"),
        (server(ready="/nothing", ready_timeout=0.5), "was not ready within 0.5 s"),
        (server(command=("no-such-program",)), "can't be started"),
        (server(directory="missing"), "can't be started"),
    ],
)
async def test_server__not_ready_is_the_agents_failure(spec: ServerSpec, message: str, tmp_path: Path) -> None:
    agent = agent_of(spec, tmp_path)
    for _ in range(2):  # It is not started again.
        with pytest.raises(AgentFailure, match=message) as caught:
            await agent.start()
        assert (caught.value.kind, caught.value.owner) == (FailureKind.SERVER_DOWN, Owner.AGENT)
    if "broken" in spec.command:
        assert "no such config file" in (caught.value.log_tail or "")
    await agent.close()


async def test_server__of_a2a_is_asked_at_its_port_whatever_its_card_says(tmp_path: Path) -> None:
    async with started(agent_of(server(protocol="a2a", version="v7"), tmp_path, workers=2)) as agent:
        assert (await answer(agent, "hello")).startswith("pid ")
        error = await failure(agent, "die")
        assert (error.kind, error.owner, error.collateral) == (FailureKind.CRASH, Owner.AGENT, True)
        assert "about to die" in (error.log_tail or "")
        assert (await answer(agent, "hello", isolated=True)).startswith("pid ")
        assert await answer(agent, "header X-Token") == "unset"  # `agent-headers` are not for code of a pull request
        facts = {"driver": "a2a", "agent": "double", "a2a": "0.3", "server": "double", "version": "v7"}
        assert agent.provenance == facts


# What agents behind an address say differently from the base branch.


SALES = "Sales were {} thousand."
Door = Callable[[Repository, str], "contextlib.AbstractAsyncContextManager[str]"]


@contextlib.asynccontextmanager
async def over_adk(_: Repository, answer: str) -> AsyncIterator[str]:
    async def turn(request: Request, answering: Answer) -> None:
        await answering.events(event(answer))

    async with served(FakeAdk(turn=turn)) as fake:
        yield f"adk:{fake.url}"


@contextlib.asynccontextmanager
async def over_a2a(_: Repository, answer: str) -> AsyncIterator[str]:
    async with fake_a2a(WORDS["1.0"], SendStreamingMessage=[WORDS["1.0"].answer(answer)]) as fake:
        yield f"a2a:{fake.url}"


@contextlib.asynccontextmanager
async def from_a_file(repository: Repository, answer: str) -> AsyncIterator[str]:
    repository.write({"answers.json": eval_set("sales", {"q2": [("Q2?", answer)]})})
    yield "recorded:answers.json"


DOORS: dict[str, Door] = {"adk": over_adk, "a2a": over_a2a, "recorded": from_a_file}


@pytest.mark.parametrize("door", DOORS)
async def test_changed_answers__of_agents_behind(door: str, repository: Repository) -> None:
    repository.write(
        {
            "sales.evalset.json": eval_set("sales", {"q2": [("Q2?", SALES.format(150))]}),
            "test_config.json": {"criteria": {"response_match_score": 0.5}},
            "agent/prompt.txt": "Sales of Q2: 150",
            ".gitignore": "agent-eval-results/\n",
        }
    )
    async with DOORS[door](repository, SALES.format(150)) as agent:
        done = await gate(repository, "--agent", agent, code=0)
    shutil.copytree(done.output, repository.root / "base", ignore=shutil.ignore_patterns(".gitignore"))
    repo = new_repo(repository.root)
    repo.commit({})
    repo.branch("change")
    compared = ("--baseline", "file:base/results.json", "--base-ref", "main")
    async with DOORS[door](repository, SALES.format(0)) as agent:
        repo.commit({"agent/prompt.txt": "Sales of Q2: 0"})
        done = await gate(repository, "--agent", agent, *compared, code=0)
        assert "1 passing case answers differently from main: q2 (150 thousand → 0 thousand)" in " ".join(
            done.out.split()
        )
        repo.git("checkout", "-q", "main")
        repo.commit({"agent-eval.toml": '[[policy]]\nchanged-facts = "block"\n'})
        repo.git("checkout", "-q", "change")
        done = await gate(repository, "--agent", agent, *compared, code=1)
    assert done.report.blocking == ["sales.evalset.json:q2"]
    # Two results are compared without the code.
    shown = (await asyncio.to_thread(repository.gate, "compare", str(done.output), "base", code=0)).out
    assert "q2: answer: 150 thousand → 0 thousand" in shown
    assert "whether a change of the agent explains it is not known here" in " ".join(shown.split())
    (repository.root / "base" / "recordings.jsonl.gz").write_bytes(b"damaged")
    shown = (await asyncio.to_thread(repository.gate, "compare", str(done.output), "base", code=0)).out
    assert "Not all answers were compared: recordings of base are missing or damaged." in " ".join(shown.split())
    report = json.loads(
        (await asyncio.to_thread(repository.gate, "show", str(done.output), "q2", "--format", "json", code=0)).out
    )
    assert [each["eval_id"] for each in report["changed_answers"]] == ["q2"]
