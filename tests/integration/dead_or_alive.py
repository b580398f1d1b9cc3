"""Ways in which a run can evaluate nothing: each is prepared in a repository, and run as a user runs it."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fake_gemini import Answer, FakeGemini, Fault
from gate_runs import Done, Repository
from judged_gate import KEY, Judge

ECHO = '''
"""Repeats the message of the user, which is what its eval file expects."""

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Bot(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Bot(name="bot")
'''
IN_A_TURN = "        text = ctx.user_content.parts[0].text\n"
GEMINI = """
from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="bot", model="gemini-2.5-flash", instruction="Repeat what you are told.")
"""
CASES = {"lamp_on": "Switch the lamp on.", "lamp_off": "Switch the lamp off."}
EVALS = "evals/bot.evalset.json"
QUARANTINE = f"""
max-quarantined = 1.0

[[quarantine]]
case = "{EVALS}"
reason = "the fixture drifts, #123"
owner = "@alice"
expires = {datetime.now(UTC).date() + timedelta(days=90)}
"""


def suite(root: Path) -> Repository:
    """A repository with a bot that passes all of its cases."""
    repository = Repository(root=root)
    (root / "bot").mkdir(parents=True)
    (root / "bot" / "__init__.py").write_text("from . import agent\n", "utf-8")
    (root / "bot" / "agent.py").write_text(ECHO, "utf-8")
    repository.evals(EVALS, CASES)
    return repository


@dataclass(kw_only=True)
class Started:
    """What a trouble adds to the command."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: bool = True
    as_anybody: bool = False
    """Without root's right to read everything."""

    def run(self, repository: Repository, *more: str) -> Done:
        """Runs the gate with it, in a new interpreter only where root's right is given up."""
        options: dict[str, Any] = {"preexec_fn": _give_up_reading_everything} if self.as_anybody else {}
        return repository.gate(
            "run",
            *self.arguments,
            *more,
            python=self.python,
            environment={**_NO_KEYS, **self.environment},
            **options,
        )


_NO_KEYS = dict.fromkeys(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
Prepare = Callable[[Repository], AbstractContextManager[Started]]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One way."""

    name: str
    prepare: Prepare
    """Prepares it in a repository that `suite` made, for as long as the context lasts."""
    judged: bool = False
    """Whether a judge scores it; the base branch's run has a key for it."""


def _files(arguments: tuple[str, ...] = (), *, python: bool = True, **files: str | None) -> Prepare:
    """Writes files (`__` for a slash, `_py` for a suffix), or removes those that are None."""

    @contextmanager
    def prepare(repository: Repository) -> Iterator[Started]:
        for name, text in files.items():
            path = repository.root / name.replace("__", "/").replace("_py", ".py").replace("_json", ".json").replace(
                "_evalset", ".evalset"
            )
            if text is None:
                path.unlink()
            else:
                path.write_text(text, "utf-8")
        yield Started(arguments=arguments, python=python)

    return prepare


def _agent(text: str) -> Prepare:
    return _files(bot__agent_py=text)


def _settings(text: str) -> Prepare:
    @contextmanager
    def prepare(repository: Repository) -> Iterator[Started]:
        (repository.root / "agent-eval.toml").write_text(text, "utf-8")
        yield Started()

    return prepare


def _gemini(open_model: Callable[[], AbstractContextManager[str]], *arguments: str, key: str = "no-key") -> Prepare:
    """A real ADK agent whose model is at an address."""

    @contextmanager
    def prepare(repository: Repository) -> Iterator[Started]:
        (repository.root / "bot" / "agent.py").write_text(GEMINI, "utf-8")
        with open_model() as url:
            environment = {"GOOGLE_GEMINI_BASE_URL": url, **({"GOOGLE_API_KEY": key} if key else {})}
            yield Started(arguments=arguments, environment=environment)

    return prepare


@contextmanager
def _at(url: str) -> Iterator[str]:
    yield url


@contextmanager
def _faulty(kind: int | str, scheme: str = "http") -> Iterator[str]:
    with FakeGemini(lambda _: Fault(kind=kind)) as server:  # type: ignore[arg-type]
        yield server.url.replace("http", scheme, 1)


@contextmanager
def _closed() -> Iterator[str]:
    with FakeGemini(lambda _: Answer.text("")) as server:
        url = server.url
    yield url


@contextmanager
def _resets() -> Iterator[str]:
    """A server that resets each connection in the middle of an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
                    )
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


@contextmanager
def _unreadable(repository: Repository) -> Iterator[Started]:
    directory = repository.root / "bot"
    directory.chmod(0)
    try:
        yield Started(as_anybody=True)
    finally:
        directory.chmod(0o755)


def _give_up_reading_everything() -> None:
    """Makes root a user who must be allowed to read a file. To be called in the child, before it starts a program."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None).prctl
        for capability in _READ_EVERYTHING:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


_PR_CAPBSET_DROP, _READ_EVERYTHING = 24, (1, 2)
"""linux/prctl.h, linux/capability.h: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextmanager
def _recording(repository: Repository) -> Iterator[Started]:
    listed = json.loads((repository.root / EVALS).read_text("utf-8")) | {"eval_cases": []}
    other = {
        "eval_id": "other",
        "conversation": [
            {role: {"parts": [{"text": "Hello."}]} for role in ("user_content", "final_response")},
        ],
    }
    (repository.root / "answers.json").write_text(json.dumps({**listed, "eval_cases": [other]}), "utf-8")
    yield Started(arguments=("--agent", "recorded:answers.json"), python=False)


@contextmanager
def _withheld(repository: Repository) -> Iterator[Started]:
    judged_criterion(repository)
    yield Started(arguments=("--without-keys", "deterministic-only"))


def judged_criterion(repository: Repository) -> None:
    """Has a judge score the cases, and nothing else."""
    criterion = {"threshold": 0.5, "judge_model_options": {"num_samples": 1}}
    config = {"criteria": {"final_response_match_v2": criterion}}
    (repository.root / "evals" / "test_config.json").write_text(json.dumps(config), "utf-8")


def healthy_run(repository: Repository, *, judged: bool = False) -> Done:
    """The base branch's run: the agent passes all cases."""
    if not judged:
        return Started().run(repository)
    judged_criterion(repository)
    with FakeGemini(Judge()) as server:
        started = Started(arguments=("--judge-base-url", server.url), environment={"AGENT_EVAL_JUDGE_API_KEY": KEY})
        return started.run(repository)


_SOON = ("--turn-timeout", "6")
"""What retries of a model that is down may take."""

TROUBLES = (
    Trouble(name="import error", prepare=_agent("import os\n\nos.environ['WEATHER_TOKEN']\n" + ECHO)),
    Trouble(name="syntax error", prepare=_agent("def broken(:\n")),
    Trouble(name="missing dependency", prepare=_agent("import a_package_that_nobody_has\n" + ECHO)),
    Trouble(name="unreadable directory", prepare=_unreadable),
    Trouble(name="wrong interpreter", prepare=_files(("--agent-python", "nowhere/bin/python"), python=False)),
    Trouble(name="no key", prepare=_gemini(lambda: _at("http://127.0.0.1:9"), key="")),
    Trouble(name="expired key (401)", prepare=_gemini(lambda: _faulty(401))),
    Trouble(name="provider down: refused", prepare=_gemini(_closed, *_SOON)),
    Trouble(name="provider down: DNS", prepare=_gemini(lambda: _at("http://model.invalid"), *_SOON)),
    Trouble(name="provider down: TLS", prepare=_gemini(lambda: _faulty(500, "https"), *_SOON)),
    Trouble(name="provider down: accepts, never answers", prepare=_gemini(lambda: _faulty("hang"), *_SOON)),
    Trouble(name="provider down: reset in the answer", prepare=_gemini(_resets, *_SOON)),
    Trouble(name="all quarantined", prepare=_settings(QUARANTINE)),
    Trouble(name="none blocks", prepare=_settings("[[policy]]\nblocking = false\n")),
    Trouble(
        name="every threshold 0", prepare=_files(evals__test_config_json='{"criteria": {"response_match_score": 0}}')
    ),
    Trouble(name="all filtered", prepare=_files(("--exclude", "evals/"))),
    Trouble(name="no files", prepare=_files(evals__bot_evalset_json=None)),
    Trouble(name="criteria withheld", prepare=_withheld, judged=True),
    Trouble(
        name="agent that always raises",
        prepare=_agent(ECHO.replace(IN_A_TURN, f"{IN_A_TURN}        raise ValueError('the lamp is gone')\n")),
    ),
    Trouble(
        name="agent whose process dies",
        prepare=_agent(ECHO.replace(IN_A_TURN, f"{IN_A_TURN}        __import__('os')._exit(3)\n")),
    ),
    Trouble(name="recording missing", prepare=_files(("--agent", "recorded:nowhere.json"), python=False)),
    Trouble(name="recording without these cases", prepare=_recording),
)
