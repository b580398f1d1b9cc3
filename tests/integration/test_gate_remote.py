"""`agent-eval run --agent adk:URL` as a process: exit codes, headers, masking, what a pull request can't do."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import gate_server
import pytest
from adk_envs import adk_python
from fake_adk import FakeAdk, event, hang, served
from gate_runs import eval_set
from loopback import Answer, Request, loopback

from agent_eval.core.content import text_of
from agent_eval.results import BASE_RECORDINGS, Recording
from agent_eval.runner import StoredLines

TOKEN = "s3cret-token-of-the-job"
CASE = eval_set("weather", {"oslo": [("Oslo?", "3 degrees")]})
CASE["eval_cases"][0]["session_input"] = {"app_name": "x", "user_id": "u", "state": {"home": "Bergen"}}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "weather.evalset.json").write_text(json.dumps(CASE), encoding="utf-8")
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}', encoding="utf-8")
    return tmp_path


async def run(repository: Path, *arguments: str, **environ: str) -> tuple[int, str, dict[str, Any]]:
    """The exit code, all output, and results.json."""
    done = await asyncio.to_thread(
        gate_server.run,
        ["run", *arguments],
        cwd=repository,
        environment={"PATH": os.environ["PATH"], "HOME": str(repository), **environ},
        timeout=120,
    )
    results = json.loads((repository / "agent-eval-results/results.json").read_text("utf-8"))
    return done.returncode, done.stdout + done.stderr, results


async def test_run__an_address_with_credentials_is_refused_and_not_repeated(repository: Path) -> None:
    code, out, results = await run(repository, "--agent", f"http://bot:{TOKEN}@127.0.0.1:1")
    assert (code, results["problems"][0]["code"]) == (2, "remote-agent-url")
    written = [path.read_text("utf-8") for path in (repository / "agent-eval-results").rglob("*") if path.is_file()]
    assert TOKEN not in out + "".join(written)


async def weather(request: Request, answer: Answer) -> None:
    header = request.headers.get("authorization", "")
    await answer.events(event("3 degrees" if TOKEN in header else f"who are you, {header}?"))


async def test_run__passes_with_headers_that_no_file_contains(repository: Path) -> None:
    async def leaky(request: Request, answer: Answer) -> None:
        await answer.events(event(f"3 degrees ({request.headers['authorization']})"))

    header = {"AGENT_EVAL_AGENT_HEADERS": f"Authorization: Bearer {TOKEN}"}
    async with served(FakeAdk(turn=weather)) as fake:
        code, out, results = await run(repository, "--agent", f"adk:{fake.url}#weather", **header)
        assert (code, results["verdict"]) == (0, "passed"), out
        assert results["provenance"]["url"] == fake.url and fake.deleted == ["s1"]
        fake.turn = leaky
        await run(repository, "--agent", f"adk:{fake.url}", **header)
    written = [path.read_bytes() for path in repository.rglob("*") if path.is_file()]
    text = b"".join(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in written)
    assert TOKEN.encode() not in text and b"3 degrees (***)" in text


async def test_run__exit_codes_of_servers_that_do_not_answer(repository: Path) -> None:
    async def unauthorized(request: Request, answer: Answer) -> None:
        await answer.send(401, b"no")

    async with loopback(unauthorized) as server:
        code, out, results = await run(repository, "--agent", f"adk:{server.url}")
        assert code == 2 and "[remote-agent-refused]" in out and results["verdict"] == "invalid"
    code, out, results = await run(repository, "--agent", f"adk:{server.url}")  # nothing listens any more
    assert (code, results["cases"][0]["status"]) == (1, "failed"), out
    assert results["cases"][0]["reason"]["code"] == "agent-environment"
    async with served(FakeAdk(turn=hang, ignores_state=True)) as fake:
        code, out, results = await run(repository, "--agent", f"adk:{fake.url}")
        assert code == 2 and "remote-state-ignored" in out


async def test_run__auto_learns_how_many_runs_a_server_with_sqlite_holds(repository: Path) -> None:
    """As `adk api_server` answers, which keeps sessions in SQLite: with more than five sessions, one can't write."""
    [case] = CASE["eval_cases"]
    cases = [{**case, "eval_id": f"oslo-{number}"} for number in range(30)]
    (repository / "weather.evalset.json").write_text(json.dumps({**CASE, "eval_cases": cases}), encoding="utf-8")
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
        code, out, results = await run(repository, "--agent", f"adk:{fake.url}")
    assert (code, results["verdict"]) == (0, "passed"), out
    assert refused["session"] and refused["turn"], "it tried more than the server holds"
    assert max(run["attempts"] for case in results["cases"] for run in case["runs"]) == 2


async def test_run__a_fork_without_secrets_is_errored_not_failed(repository: Path) -> None:
    async def unauthorized(request: Request, answer: Answer) -> None:
        await answer.send(401 if "authorization" not in request.headers else 200, b'["weather"]')

    fork = {"id": 2, "full_name": "stranger/fork", "fork": True}
    own = {"id": 1, "full_name": "org/repo", "default_branch": "main"}
    sides = {
        "head": {"sha": "1" * 40, "ref": "x", "repo": fork},
        "base": {"sha": "2" * 40, "ref": "main", "repo": own},
    }
    payload = {"repository": own, "pull_request": {"number": 7, **sides, "user": {"login": "stranger"}}}
    (repository / "event.json").write_text(json.dumps(payload), encoding="utf-8")
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(repository / "event.json"),
        "GITHUB_REPOSITORY": "org/repo",
    }
    # A header that needs no secret does not go to a server named by a workflow that a fork runs either.
    github["AGENT_EVAL_AGENT_HEADERS"] = "Authorization: Bearer public"
    async with loopback(unauthorized) as server, loopback(unauthorized) as api:
        github["GITHUB_API_URL"] = api.url
        code, out, results = await run(repository, "--agent", f"adk:{server.url}", **github)
        assert all("authorization" not in request.headers for request in (*server.requests, *api.requests))
    assert (code, results["cases"][0]["status"]) == (3, "errored"), out


async def test_run__starts_a_server_and_ends_it(repository: Path) -> None:
    double = Path(__file__).with_name("server_double.py")
    (repository / "double.py").write_bytes(double.read_bytes())
    (repository / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}', encoding="utf-8")
    command = json.dumps([str(adk_python()), "double.py", "{port}"])
    table = f'[agents]\n"**" = "server:double"\n[servers.double]\ncommand = {command}\n'
    (repository / "agent-eval.toml").write_text(table, encoding="utf-8")
    code, out, results = await run(repository, GOOGLE_API_KEY="s3cret-key-of-the-job")
    assert (code, results["cases"][0]["status"]) == (0, "passed"), out
    assert results["provenance"]["server"] == "double" and results["files"][0]["agent"] == "server:double"
    log = (repository / "agent-eval-results/logs/double/server.log").read_text("utf-8")
    assert "the key is ***" in log and "s3cret" not in log
    (repository / "agent-eval.toml").write_text(table.replace("double.py", "missing.py"), encoding="utf-8")
    code, out, results = await run(repository)
    assert (code, results["cases"][0]["status"]) == (1, "failed"), out
    assert results["cases"][0]["reason"]["code"] == "agent-environment"
    assert "missing.py" in out, out


async def test_run__starts_the_base_branchs_server_in_its_worktree(repository: Path) -> None:
    double = Path(__file__).with_name("server_double.py").read_text("utf-8")
    command = json.dumps([str(adk_python()), "weather/double.py", "{port}"])
    table = f'agent = "server:double"\nconcurrency = 1\n[servers.double]\ncommand = {command}\n'
    (repository / "agent-eval.toml").write_text(table, encoding="utf-8")
    (repository / "weather").mkdir()

    def commit(text: str) -> None:
        (repository / "weather/double.py").write_text(text, encoding="utf-8")
        for arguments in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
            subprocess.run(["git", *arguments], cwd=repository, check=True, timeout=60)

    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=repository, check=True, timeout=60)
    commit(double.replace('f"pid {os.getpid()}"', '"3 degrees"'))
    commit(double)
    code, out, _ = await run(repository, "--baseline", "rerun", "--base-ref", "HEAD~1")
    assert code == 1 and "1 regression" in out, out
    assert (repository / "agent-eval-results/base/logs/double/server.log").exists()
    stored = list(StoredLines(path=repository / "agent-eval-results" / BASE_RECORDINGS, model=Recording))
    turns = [turn for recording in stored for turn in recording.invocations]
    assert {text_of(turn.final_response) for turn in turns} == {"3 degrees"}
    assert all(turn.spans is None for turn in turns), "nothing was measured inside of the server"
    # A server that runs elsewhere has no base version.
    async with served(FakeAdk(turn=weather)) as fake:
        agent = ("--agent", f"adk:{fake.url}", "--baseline", "rerun", "--base-ref", "HEAD~1")
        code, out, _ = await run(repository, *agent)
    assert code == 1 and "baseline-remote-agent" in out
