"""What is loaded as an agent, how it finds its modules, its settings and its session."""

from __future__ import annotations

import json
import os
import py_compile
import resource
import sys
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import FIXTURES, MATRIX, adk_python
from adk_harness import failure, make, request, running, say, start_failure

from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.sandbox.spawn import Sandbox, agent_account
from agent_eval.core.content import text_of, user_message


async def heard(*args: Any, **facts: Any) -> str:
    return text_of((await say(*args, **facts)).final_response)


async def test_sub_agent__becomes_the_root_and_an_unknown_one_lists_the_tree(tmp_path: Path) -> None:
    forks = host_forks.command(adk_python())
    async with running("shapes", tmp_path / "logs", sub_agent="specialist", python=forks) as agent:
        assert agent.provenance["agent"] == "specialist"
        turn = await say(agent, "hello")
        assert text_of(turn.final_response) == "The specialist says hello."
    async with running(
        "home", tmp_path / "logs", sub_agent="butler", python=forks
    ) as agent:  # the App keeps its plugins
        assert (await heard(agent, "hello", state={"guest": "Ann"})).endswith(" Please.")
    logs = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "logs").glob("*.log"))
    assert "the notebook was closed" in logs, "tools are closed in the end"
    unknown = await start_failure("shapes", tmp_path / "logs", sub_agent="speci", python=forks)
    assert "no agent named 'speci' in its tree: router, router/tools" in unknown.message
    assert unknown.kind is FailureKind.IMPORT and "router/front/specialist" in unknown.message
    assert "after `#`" in (unknown.hint or "")


_SAYS = """
import deep.word, installed, shared
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Words(BaseAgent):
    async def _run_async_impl(self, context):
        said = f"{deep.word.WORD} {shared.WORD} {installed.WORD}"
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=said)]))


root_agent = Words(name="words")
"""


async def test_loading__an_edit_that_keeps_size_and_second_is_tested(tmp_path: Path) -> None:
    """Of installed packages bytecode is used: the third word is that of a stale one. Of the repository none is made."""
    words = [
        tmp_path / "words" / "deep" / "word.py",
        tmp_path / "shared.py",
        tmp_path / "site-packages" / "installed.py",
    ]
    for path in words:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("WORD = 'old'\n", encoding="utf-8")
        py_compile.compile(str(path))
        time = path.stat().st_mtime
        path.write_text("WORD = 'new'\n", encoding="utf-8")
        os.utime(path, (time, time))
    (tmp_path / "words" / "agent.py").write_text(_SAYS, encoding="utf-8")
    paths = {"PYTHONPATH": f"{tmp_path / 'words'}:{tmp_path / 'site-packages'}"}
    async with running("words", tmp_path / "logs", root=tmp_path, environment=paths, python=adk_python()) as agent:
        assert await heard(agent, "?") == "new new old"
    assert not (tmp_path / "words" / "__pycache__").exists()


@pytest.mark.parametrize("version", MATRIX)
async def test_loading__an_app_its_plugins_its_state_and_its_names(tmp_path: Path, version: str) -> None:
    environment = {"HOME_ALREADY_SET": "by the job"}
    async with running("home", tmp_path / "logs", python=adk_python(version), environment=environment) as agent:
        assert agent.provenance["agent"] == "butler"
        facts = json.loads((await heard(agent, "facts", state={"guest": "Ann"})).removesuffix(" Please."))
        rules = await heard(agent, "instruction", state={"guest": "Ann", "user:mood": "gay"}, app_name="my-app")
        again = await heard(agent, "remember room hall", "instruction", state={"guest": "Bo"}, session_id="pinned")
        other = await heard(agent, "instruction", state={"guest": "Cy"}, session_id="pinned")
        mood = await heard(agent, "remember user:mood gay", "instruction", state={"guest": "Di"})
        later = await heard(agent, "instruction", state={"guest": "Ed"})
        retries = await heard(agent, "retries", state={"guest": "Ann"})
        missing = await failure(agent, "instruction")
    assert facts["alias"] is True
    assert facts["package"] is True
    assert facts["loaded"] == ["home.metrics"]
    assert facts["spec"] == "home.metrics"
    assert (facts["colour"], facts["already"]) == ("blue", "by the job")
    assert facts["script_dir_importable"] is False
    assert facts["cwd"] == str(FIXTURES)
    assert set(facts["environment"]) <= {"PATH", "HOME", "HOME_COLOUR", "HOME_ALREADY_SET", "LC_CTYPE", "PWD"} | {
        name for name in facts["environment"] if name.startswith(("GRPC_", "__"))
    }
    assert rules.startswith("Serve Ann in the . Shared: gay")
    assert rules.endswith(" Please.")
    assert again.startswith("Serve Bo in the hall.")
    assert other.startswith("Serve Cy in the .")
    assert mood.startswith("Serve Di in the . Shared: gay")
    assert later.startswith("Serve Ed in the . Shared: "), "what one case leaves for its user, no other case finds"
    assert "gay" not in later
    assert json.loads(retries.removesuffix(" Please.")) == {
        "attempts": 30,
        "initial_delay": 1.0,
        "max_delay": 15.0,
        "exp_base": 2.0,
        "http_status_codes": [408, 429, 500, 502, 503, 504],
    }
    assert missing.kind is FailureKind.EXCEPTION
    assert "guest" in missing.message


async def test_loading__a_dotenv_can_be_switched_off(tmp_path: Path) -> None:
    async with running("home", tmp_path / "logs", environment={"ADK_DISABLE_LOAD_DOTENV": "1"}) as agent:
        facts = json.loads((await heard(agent, "facts", state={"guest": "Ann"})).removesuffix(" Please."))
    assert facts["colour"] is None


@pytest.mark.parametrize(
    ("name", "answer"),
    [("async_agent", "made later"), ("no_init", "no package needed"), ("faults.agent", "say hi"), ("faults", "say hi")],
)
async def test_loading__forms_of_agents(tmp_path: Path, name: str, answer: str) -> None:
    async with running(name, tmp_path / "logs", python=host_forks.command(adk_python())) as agent:
        assert await heard(agent, "say hi") == answer


async def test_loading__a_directory_that_is_named_like_a_module_in_use(tmp_path: Path) -> None:
    (tmp_path / "scripted_model.py").symlink_to(FIXTURES / "scripted_model.py")
    (tmp_path / "logging").symlink_to(FIXTURES / "no_init")
    async with running("logging", tmp_path / "logs", root=tmp_path) as agent:
        assert await heard(agent, "hi") == "no package needed"


@pytest.mark.parametrize(
    ("name", "message", "detail"),
    [
        ("broken_import", "ModuleNotFoundError: No module named 'a_package_that_nobody_has'", "import a_package_that"),
        ("exits_at_import", "exited with code 5", "leaving early"),
        ("nothing", "defines no agent", ""),
        ("no_such_directory", "defines no agent", ""),
        ("no.such.module", "No module named 'no'", ""),
    ],
)
async def test_loading__an_agent_that_cannot_be_loaded(tmp_path: Path, name: str, message: str, detail: str) -> None:
    agent = make(name, tmp_path / "logs", workers=2, python=host_forks.command(adk_python()))
    with pytest.raises(AgentFailure) as caught:
        await agent.start()
    with pytest.raises(AgentFailure) as again:
        await agent.open(request())
    await agent.close()
    error = caught.value
    assert (error.kind, error.owner, error.collateral) == (FailureKind.IMPORT, Owner.AGENT, False)
    assert message in error.message
    assert detail in f"{error.traceback}{error.log_tail}"
    assert "agent_eval_host" not in f"{error.traceback}"
    assert error.hint
    assert again.value.message == error.message


@pytest.mark.slow
async def test_start__an_import_that_hangs(tmp_path: Path) -> None:
    for seconds in (4, 12, 40):  # On a busy machine, importing ADK alone may take longer than the first.
        error = await start_failure("hangs_at_import", tmp_path / "logs", start_timeout=seconds)
        assert error.kind is FailureKind.IMPORT
        assert f"within {seconds} s" in error.message
        if "agent.py" in (error.traceback or ""):
            break
    assert "wait_for_a_server()" in (error.traceback or "")


async def test_loading__a_syntax_error_shows_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "agent.py").write_text("root_agent = (\n", encoding="utf-8")
    python = host_forks.command(adk_python())
    error = await start_failure("bad", tmp_path / "logs", root=tmp_path, python=python)
    assert "SyntaxError" in error.message
    assert 'agent.py", line 1' in (error.traceback or "")


NO_THREADS = '#!/bin/sh\necho "RuntimeError: can\'t start new thread"\nexit 1\n'
OTHER_PROTOCOL = f"""#!{sys.executable}
import os, sys
os.write(int(sys.argv[-1]), b'{{"v": 99, "id": 1, "type": "request", "method": "hello"}}\\n')
input()
"""


@pytest.mark.parametrize(
    ("python", "kind", "message", "hint"),
    [
        (sys.executable, FailureKind.ENVIRONMENT, "google-adk is not installed", "--agent-requirements"),
        ("/bin/false", FailureKind.ENVIRONMENT, "exited with code 1", ""),
        ("/no/python", FailureKind.ENVIRONMENT, "can't be started", ""),
        (NO_THREADS, FailureKind.ENVIRONMENT, "exited with code 1", "no process ids left"),
        (OTHER_PROTOCOL, FailureKind.PROTOCOL, "not of protocol version 1", ""),
    ],
    ids=["without ADK", "false", "none", "no threads", "other protocol"],
)
async def test_loading__an_interpreter_that_does_not_do(
    tmp_path: Path, python: str, kind: FailureKind, message: str, hint: str
) -> None:
    """The path of an interpreter, or a script instead of one."""
    if python.startswith("#!"):
        script, python = python, str(tmp_path / "python")
        Path(python).write_text(script, encoding="utf-8")
        Path(python).chmod(0o755)
    error = await start_failure("faults", tmp_path / "logs", python=Path(python))
    assert error.kind is kind
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may start any number of processes")
async def test_loading__no_process_ids_left_for_a_host(tmp_path: Path) -> None:
    python = adk_python()
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        error = await start_failure("faults", tmp_path / "logs", python=python)
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    assert "can't be started" in error.message
    assert "no process ids left" in (error.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="needs a Python that any user may run")
async def test_loading__another_user_runs_the_host_without_a_way_to_our_files(tmp_path: Path) -> None:
    account = agent_account("agent-eval-test", state_dir=tmp_path / "state")
    sandbox = Sandbox(environment={"PATH": "/usr/bin:/bin"}, user=account)
    error = await start_failure("agent", tmp_path, root=tmp_path, python=Path("/usr/bin/python3"), sandbox=sandbox)
    assert "google-adk is not installed for /usr/bin/python3" in error.message


async def test_loading__nothing_is_left_open(tmp_path: Path) -> None:
    forks = host_forks.command(adk_python())
    async with running("faults", tmp_path / "warm-up", python=forks) as agent:
        await heard(agent, "say hi")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(2):
        async with running("faults", tmp_path / f"logs-{number}", python=forks) as agent:
            session = await agent.open(request())
            await session.send(user_message("say hi"), timeout=20)
    assert len(os.listdir("/proc/self/fd")) <= before
