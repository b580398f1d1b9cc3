"""The host of a Python agent: the program in it, and how the gate sees it end, wait or fail."""

from __future__ import annotations

import asyncio
import compileall
import importlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import golden_files
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr

from agent_eval_agents.adk._slots import CpuShare, cpu_seconds
from agent_eval_agents.host import PROGRAM, _program, blame
from agent_eval_agents.host._facts import how_it_ended
from agent_eval_agents.host._log import HostLog
from agent_eval_agents.host.blame import failed_load, failed_turn, too_late
from agent_eval_agents.host.connection import Connection, RemoteError
from agent_eval_agents.host.outage import ModelOutages, outage_seconds, silence_seconds
from agent_eval_agents.messages import ModelNews, Waiting
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_host import frames, tool_objects, values
from agent_eval_host.model_answers import ModelAnswers
from agent_eval_host.tool_objects import ToolObjects
from agent_eval_host.tool_sources import installed_from_repository
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import docs_page

# The package that runs beside the agent: what it sends can still be masked, and which files are a tool's own.


@pytest.mark.parametrize(
    "secret", ["correct horse battery staple", "AccountName=shop;AccountKey=Zm9vYmFy", 'quoted "value", with marks']
)
@pytest.mark.parametrize("shown", [str, lambda value: json.dumps(value)[1:-1]])
def test_cut__never_inside_a_value_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, secret: str, shown: type[str]
) -> None:
    assert (values.cut("one two three", 9), values.cut("one two", 9)) == ("one two ", "one two"), "between words"
    monkeypatch.setattr(values, "_ENVIRONMENT", (secret, "battery staple and more"))
    for before in range(80, 101):
        cut = values.cut("x " * (before // 2) + "x" * (before % 2) + shown(secret) + " y" * 100, 100)
        masked = Masker([secret]).text(cut)
        assert len(cut) <= 100
        parts = {secret[at : at + 5] for at in range(len(secret) - 4)}
        assert not [part for part in parts if part in masked], (before, cut)


@pytest.mark.parametrize(
    "files",
    [
        {
            "hiding_decorators.py": "def counted(body):\n    def count():\n        return body()\n    return count\n",
            "hidden_tools.py": "from hiding_decorators import counted\n\n@counted\ndef switch(): return switch\n",
        },
        {
            "late_lib/lamps.py": "raise RuntimeError('it was imported')\n",
            "late_tools.py": "def switch():\n    from late_lib.lamps import on\n    return on\n",
        },
    ],
    ids=["below a decorator that hides it", "imported when it runs"],
)
def test_tool_objects__files_of_a_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str]
) -> None:
    (tmp_path / "late_lib").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/"])
    tool = SimpleNamespace(func=importlib.import_module([*files][-1].removesuffix(".py")).switch)

    assert {Path(file).relative_to(tmp_path).as_posix() for file in ToolObjects().of(tool).files} == {*files}


@pytest.mark.parametrize(("source", "own"), [("repo/my lib", True), ("elsewhere/lib", False)])
def test_tool_objects__files_of_a_package_that_was_installed_from_the_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, own: bool
) -> None:
    site = tmp_path / "venv" / "site-packages"
    about = site / "installed_lamps-1.dist-info"
    about.mkdir(parents=True)
    (site / "installed_lamps.py").write_text("def switch(): ...\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-lamps\nVersion: 1\n")
    (about / "RECORD").write_text("installed_lamps.py,,\n")
    (about / "direct_url.json").write_text(json.dumps({"url": (tmp_path / source).as_uri(), "dir_info": {}}))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/repo/"])
    installed_from_repository.cache_clear()
    tool = SimpleNamespace(func=importlib.import_module("installed_lamps").switch)
    del sys.modules["installed_lamps"]

    assert ToolObjects().of(tool).files == ({str(site / "installed_lamps.py")} if own else set())
    installed_from_repository.cache_clear()


def test_own_place__names_the_function_around_a_comprehension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "agent_places", ["/repo/home/", "/repo/"])
    stack = [
        traceback.FrameSummary("/venv/site-packages/google/adk/tools.py", 5, "run"),
        traceback.FrameSummary("/repo/home/tools.py", 30, "find"),
        traceback.FrameSummary("/repo/home/tools.py", 33, "<listcomp>"),
        traceback.FrameSummary("/usr/lib/python3/json.py", 3, "loads"),
    ]
    assert frames.own_place(stack) == {"file": "home/tools.py", "line": 33, "symbol": "find"}
    assert frames.own_place(stack[:1]) is None
    lambda_ = [traceback.FrameSummary("/repo/lib/a.py", 2, "<lambda>")]
    assert frames.own_place(lambda_) == {"file": "lib/a.py", "line": 2, "symbol": "<lambda>"}


class Config(BaseModel):
    """As much of google-genai's as there is to leave out."""

    system_instruction: str = "Be brief."
    temperature: float | None = None
    response_schema: Any = None
    labels: dict[str, str] = Field(default_factory=dict)
    http_options: dict[str, Any] = Field(default_factory=dict)
    tools: list[Any] = Field(default_factory=list)


class Access(BaseModel):
    """A tool that a provider runs."""

    name: str = "maps"
    url_context: dict[str, str] = Field(default_factory=dict)
    auth_config: str = "key-1"
    headers: dict[str, str] = Field(default_factory=lambda: {"x": "key-2"})


class Answer(BaseModel):
    stars: int = 3


class Asked(BaseModel):
    """As ADK's request."""

    model: str | None = None
    contents: list[Any] = Field(default_factory=list)
    config: Config
    cache_metadata: dict[str, str] = Field(default_factory=lambda: {"name": "cache-1"})
    service_tier: str | None = None


@dataclass(slots=True)
class Options:
    penalty: Decimal = Decimal("0.1")


class Model(BaseModel):
    """As LiteLLM's in ADK, which keeps what it got and looks up the rest later."""

    model: str
    max_tokens: int = 100
    api_key: str = "key-3"
    llm_client: Any = Field(default_factory=object)
    _additional_args: dict[str, Any] = PrivateAttr(default_factory=dict)
    _resolved: dict[str, Any] = PrivateAttr(default_factory=dict)


def asked_of(model: Model, **request: Any) -> dict[str, Any]:
    answers = cast("Any", ModelAnswers)(None, None)
    return dict(answers._asked(model, Asked(**{"config": Config(), **request}), stream=False))


def test_model_asked__shows_what_a_model_is_asked_not_where_nor_with_which_key() -> None:
    model = Model(model="lite/large")
    shown = {"temperature": 0.3, "max_tokens": 7, "top_k": 3, "extra_body": {"reasoning": None}}
    model._additional_args = {
        **{**shown, "kept": [1, (2.5, True)], "api_key": "key-4", "api_base": "http://key-5"},
        **{"extra_headers": {"a": "key-6"}, "aws_secret_access_key": "key-7", "num_retries": 3},
        **{"timeout": 9, "vertex_credentials": "key-8", "callback": print, "options": Options()},
    }
    config = Config(
        temperature=0.5,
        response_schema=list[Answer],
        labels={"adk_agent_name": "clerk", "team": "label-1"},
        http_options={"headers": {"a": "key-9"}, "timeout": 1, "extra_body": {"seed": 1}},
        tools=[Access(url_context={"page": "1"}), print],
    )
    odd: list[Any] = [object(), 1j]
    odd.append(odd)
    content = {"parts": [{"data": b"\xff", "args": {"b": None, "a": float("nan")}, "of": {"y", "x"}, "odd": odd}]}
    asked = asked_of(model, config=config, contents=[content], service_tier="flex")
    assert re.fullmatch("[0-9a-f]{16}", asked.pop("code")), "the class is of a library without a version"
    golden_files.check("golden_model_asked.json", json.dumps(asked, indent=1) + "\n")
    assert not [word for word in ("key-", "label-", "cache-1", "timeout", "object at") if word in json.dumps(asked)]


def test_model_asked__settings_are_those_of_the_first_call_but_fields_may_change() -> None:
    answers = cast("Any", ModelAnswers)(None, None)
    model = Model(model="m")
    first = answers._settings(model)
    model._resolved["m"] = 1
    assert answers._settings(model) == first
    model.max_tokens = 50
    assert answers._settings(model) == {**first, "max_tokens": 50}
    del model
    assert not answers._private, "nothing is kept of a model that is gone"


# The archive that another user runs: of any installation, and with frames that are known to be ours.

_IS_OURS = """
import sys, types
package = sys.modules["agent_eval_host"] = types.ModuleType("agent_eval_host")
package.__path__ = sys.argv[1:]
from agent_eval_host import frames, values
print(frames.is_ours(values.cut.__code__.co_filename))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the program, not compiled, of which archives are made."""
    copy = tmp_path / PROGRAM.name
    shutil.copytree(PROGRAM, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_program, "PROGRAM", copy)
    monkeypatch.setattr(_program, "_archive", _program._archive.__wrapped__)
    return copy


def answer(code: str) -> str:
    """What this code prints; its argument is an archive."""
    archive = _program.open_archive()
    try:
        command = [sys.executable, "-c", code, f"/dev/fd/{archive}"]
        return subprocess.run(
            command, pass_fds=[archive], stdout=subprocess.PIPE, text=True, check=True, timeout=30
        ).stdout.strip()
    finally:
        os.close(archive)


@pytest.mark.parametrize("writes", [True, False])
def test_archive__has_current_bytecode_where_that_can_be_written(
    program: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", not writes)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    for text in ("WORD = 1\n", "WORD = 22\n"):
        (program / "values.py").write_text(text, encoding="utf-8")
        for old in program.rglob("values.*.pyc"):
            os.utime(old, (1, 1))
        archive = zipfile.ZipFile(io.BytesIO(_program._archive()))
        assert ("values.pyc" in archive.namelist()) is writes
        assert not writes or archive.read("values.pyc")[12:16] == len(text).to_bytes(4, "little")


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux can another user open it")
@pytest.mark.parametrize("case", ["plain", "compiled", "without memfd_create", "0", str(2**33)])
def test_archive__its_frames_are_ours(program: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Compiled modules keep the name of the file that they were compiled from.

    Conda's Python lacks memfd_create, and so did uv's until 2026: they are built for an old glibc. A number is the time
    of the files: Nix, Bazel and reproducible images set all to the beginning of 1970, and no archive can have it.
    """
    if case == "compiled":
        compileall.compile_dir(program, quiet=1)
    elif case == "without memfd_create":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif case.isdigit():
        for path in program.glob("*.py"):
            os.utime(path, (int(case), int(case)))
    assert answer(_IS_OURS) == "True"


# Whose failure an error is.


def raised(message: str, *classes: str, status: int | None = None, origin: str = "model", **more: Any) -> AgentFailure:
    """The failure of a turn in which an exception of these classes was raised; `withheld` are names of variables."""
    names = [*classes, "builtins.Exception"]
    withheld = more.pop("withheld", ())
    data = {"type": names[0].rsplit(".", 1)[-1], "classes": names, "origin": origin, "status": status, **more}
    return failed_turn(RemoteError("agent-exception", message, data), "the log", withheld)


def loaded(message: str, kind: str, agent: Path = Path("/r/bot"), root: Path = Path("/r"), **more: Any) -> AgentFailure:
    withheld = more.pop("withheld", ())
    return failed_load(RemoteError("agent-import", message, {"type": kind, **more}), "the log", withheld, agent, root)


def waited(
    kind: str = "model", *, timeout: float = 180, turn_limit: float | None = None, stopped: bool = True, **facts: Any
) -> AgentFailure:
    fields = {"turn": 1, "for": kind, "model": "m", "name": "m", "address": "http://h", "seconds": 170.0, **facts}
    return too_late(timeout, Waiting.model_validate(fields), stopped=stopped, turn_limit=turn_limit)


def ended(returncode: int | None, error: Exception | None = None, by_gate: str | None = None) -> AgentFailure:
    found = how_it_ended(returncode, error, ended_by_gate=by_gate, log_tail="the log")
    return AgentFailure(found.message, kind=found.kind, hint=found.hint, log_tail=found.log_tail)


PREFACE = "\nOn how to mitigate this issue, please refer to:\n\nhttps://example.com/#429\n\n\n"
KEY, NO_KEY = {"GOOGLE_API_KEY"}, "No API key was provided."
CLIENT, SERVER = "google.genai.errors.ClientError", "google.genai.errors.ServerError"
FROZEN = 'Traceback (most recent call last):\n  File "<frozen x>", line 1, in f\nModuleNotFoundError: shop\n'
AT, ATTEMPTS = "agent.py:3: x()", [{"cause": "connection refused"}, {"status": 503}, {"status": 503}]


def failures() -> dict[str, AgentFailure]:
    return {
        "quota": raised("quota", CLIENT, status=429),
        "quota, named once": raised("429 quota", CLIENT, status=429),
        "quota, with ADK's preface": raised(f"{PREFACE}429 quota", CLIENT, status=429),
        "quota of the shop": raised("quota of the shop", "shop.Error", status=429, origin="agent"),
        **{
            f"HTTP {status}": raised("down", SERVER, status=status, traceback="frames")
            for status in (408, 500, 529, 599)
        },
        "access": raised("who are you", "openai.AuthenticationError", status=401),
        "a refused key": raised("API key not valid.", CLIENT, status=400, traceback="frames", withheld=KEY),
        "bad request": raised("bad request", CLIENT, status=400),
        "no such model": raised("no such model", CLIENT, status=404),
        "no connection": raised("", "httpx.ConnectError", "httpx.TransportError"),
        "reset": raised("", "builtins.ConnectionResetError", "builtins.ConnectionError", "builtins.OSError"),
        "reset, of the agent": raised("", "builtins.ConnectionError", origin="agent"),
        "LiteLLM": raised("", "litellm.exceptions.APIConnectionError"),
        "credentials": raised("Could not find credentials", "google.auth.exceptions.DefaultCredentialsError"),
        "no key": raised(NO_KEY, "builtins.ValueError", traceback="frames"),
        "a key that is withheld": raised(NO_KEY, "builtins.ValueError", withheld=KEY),
        "another ValueError": raised("bad schema", "builtins.ValueError"),
        **{
            f"an MCP server's {status}": failed_turn(
                RemoteError("server-unavailable", f"The agent's server did not answer: http://x (HTTP {status}).", {}),
                None,
            )
            for status in (401, 503)
        },
        "lines": raised("one\ntwo", "a.B", origin="agent", traceback="frames"),
        "a module": loaded("No module named 'yfinance.data'", "ModuleNotFoundError"),
        "a module beside it": loaded("No module named 'blame'", "ModuleNotFoundError", Path(blame.__file__).parent),
        "a field": loaded(
            "1 validation error for A\nx\n  Extra [type=extra, input_value='s']\n    For more", "ValidationError"
        ),
        "no field": loaded("1 validation error for A\n  Value error, no. [type=value_error]", "ValidationError"),
        "the name of a tool": loaded(
            "1 validation error for A\ntools.1.callable\n  Input should be callable [type=callable]", "ValidationError"
        ),
        "a package that --agent names": loaded(
            "No module named 'shop'", "ModuleNotFoundError", Path("shop.agent"), traceback=FROZEN
        ),
        "no answer, of a host that is blocked": too_late(2, None, stopped=False, at=AT),
        "a variable": loaded("'X_KEY'", "KeyError", traceback="    os.environ['X_KEY']\nKeyError: 'X_KEY'"),
        "another key": loaded("'X_KEY'", "KeyError", traceback="    PRICES['X_KEY']\nKeyError: 'X_KEY'"),
        **{
            f"no Google credentials, {name}": loaded(
                "Your default credentials were not found.", "DefaultCredentialsError", no_login=is_auths
            )
            for name, is_auths in (("by google-auth", True), ("so it says", False))
        },
        "no key, at import": loaded(NO_KEY, "ValueError", lacks_key=True),
        "no key, so it says": loaded(NO_KEY, "ValueError"),
        "a key that is withheld, at import": loaded(NO_KEY, "ValueError", lacks_key=True, withheld=KEY),
        "no key of OpenAI, at import": loaded(
            "The api_key client option must be set by OPENAI_API_KEY", "OpenAIError", lacks_key=True
        ),
        "a class": loaded("`root_agent` of x.py is the class LlmAgent, not an ADK agent", "TypeError"),
        "a name": loaded("Node name 'a b' must be a valid Python identifier", "ValidationError"),
        "an exit with a text": loaded("set up\nfirst", "SystemExit", exit=1),
        "a relative import": loaded("attempted relative import beyond top-level package", "ImportError"),
        **{
            f"root_agent: {kind}": loaded(f"`root_agent` of bot.agent is of type {kind}, not an ADK agent", "TypeError")
            for kind in ("int", "coroutine", "function")
        },
        "an exit": loaded("2", "SystemExit", exit=2),
        "what was read": ended(0, ValueError("what was read")),
        "nothing was read": ended(None),
        "killed": ended(-9),
        "killed by a number": ended(-250),
        "exited": ended(3),
        "closed by the gate": ended(-9, by_gate="was closed"),
        "silence": waited(remote=True, silent=100.0),
        "a short silence": waited(remote=True, silent=20.0),
        "while it stalled": waited(remote=True, silent=70.0, stalled=50.0),
        "of its own code": waited(remote=False, silent=170.0),
        "of a tool": waited("tool", name="look_up", remote=True, silent=170.0),
        "of a question": waited(attempts=[{"status": 400}]),
        "failed attempts": waited(attempts=ATTEMPTS),
        "many calls": waited("tool", calls=25, name="again", at=AT),
        "one call": waited("tool", calls=1, name="again", at=AT, stopped=False),
        "cut short by its case": waited(remote=True, silent=0.2, timeout=0.26, turn_limit=20.0),
    }


def test_blame__what_is_said_of_a_failure_and_whose_it_is() -> None:
    lines = []
    for name, failure in failures().items():
        lines.append(f"{name}: {failure.kind} ({failure.owner}) {failure.message}")
        facts = {"hint": failure.hint, "traceback": failure.traceback, "log": failure.log_tail}
        lines += [f"  {field}: {value}" for field, value in facts.items() if value]
        lines += ["  no key"] * failure.no_key
    golden_files.check("golden_blame.txt", "\n".join(lines).replace(docs_page("agents"), "DOCS") + "\n")


# What is kept of a host's output.

SECRET = "hunter2-and-more"


def fed(path: Path, chunks: list[bytes], *, limit: int = 1_000_000, secrets: tuple[str, ...] = (SECRET,)) -> HostLog:
    log = HostLog(path, masker=Masker(secrets), limit=limit)
    for chunk in chunks:
        log.feed(chunk)
    log.close()
    log.close()
    return log


LONGER = "hunter2-and-more-EU-0123456789abcdef"


@given(st.lists(st.integers(0, 150), max_size=6), st.integers(0, 3))
@example([102], 0)  # within a secret that begins with another
def test_host_log__a_secret_is_masked_wherever_the_chunks_end(cuts: list[int], before: int) -> None:
    """Also one that begins with another, or that ends in one."""
    data = b"x" * before + f"a {SECRET} b\n{SECRET}{SECRET}\n{LONGER}, and all...\n{SECRET} {LONGER}\n".encode()
    ends = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    chunks = [data[start:end] for start, end in itertools.pairwise(ends)]
    with tempfile.TemporaryDirectory() as directory:
        log = fed(Path(directory) / "log", chunks, secrets=(SECRET, LONGER, "abcdef, and all"))
        shown = "x" * before + "a *** b\n******\n***...\n*** ***\n"
        assert log.path.read_text() == shown
        assert log.tail() == shown.rstrip("\n")


def test_host_log__the_first_and_the_last_half_are_kept(tmp_path: Path) -> None:
    lines = [f"line {number:06}\n".encode() for number in range(10_000)]
    log = fed(tmp_path / "log", lines, limit=10_000)
    content, tail = log.path.read_bytes(), log.tail()
    head, note, rest = content.partition(b"\n[... ")
    assert note and len(head) == 5_000
    assert content.startswith(b"line 000000\n") and content.endswith(b"line 009999\n")
    missing = int(rest.split(b" bytes")[0].replace(b",", b""))
    assert len(head) + missing + len(rest.partition(b"]\n")[2]) == 10_000 * 12
    assert tail.startswith("line 0") and tail.endswith("line 009999") and len(tail) <= 4_000


def test_host_log__the_tail_is_known_while_the_process_runs(tmp_path: Path) -> None:
    log = HostLog(tmp_path / "log", masker=Masker([SECRET]), limit=1_000_000)
    log.feed(b"one\ntwo\nthr")
    assert log.tail() == "one\ntwo"
    log.feed(b"ee\n")
    assert log.tail() == "one\ntwo\nthree"
    log.close()
    plain = HostLog(tmp_path / "plain", masker=Masker(), limit=1_000_000)
    plain.feed(b"a\x00\xff\x1b[31mb")
    assert plain.tail() == "a\ufffd\ufffd\ufffd[31mb", "without a secret nothing is held back"
    plain.close()
    assert not fed(tmp_path / "none", []).path.exists()


def test_host_log__that_cannot_be_written_keeps_its_end_in_memory_and_never_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (Path("/dev/full"), tmp_path / "file" / "log"):
        assert fed(path, [b"one\n", b"two\n"]).tail() == "one\ntwo"


@pytest.mark.parametrize("limit", [10, 12_000, 1_000_000])
def test_the_tail__is_the_same_before_and_after_it_is_closed(tmp_path: Path, limit: int) -> None:
    log = HostLog(tmp_path / "log", masker=Masker(), limit=limit)
    for number in range(1_000):
        log.feed(f"line {number}\n".encode())
    before = log.tail()
    log.close()
    assert log.tail() == before
    assert before.endswith("line 999")


# When a host process counts as busy.


@pytest.mark.parametrize(
    ("seconds", "shares", "high"),
    [
        (0.5, [0.95] * 8, [False, False, False, True] * 2),  # after two busy spans; then it begins again
        (2.0, [1.0, 0.3, 1.0, 0.3], [False] * 4),  # one busy span is the import of the first turn
        (2.0, [None, 1.0, 1.0, 1.0], [False] * 4),  # unknown is not high
    ],
)
def test_cpu_share__is_high(seconds: float, shares: list[float | None], high: list[bool]) -> None:
    """Each share is that of a span of so many seconds."""
    used = [0.0]
    now = itertools.count(0.0, seconds)
    busy = CpuShare(1, clock=lambda: next(now), used=lambda _: None if shares[0] is None else used[0])
    for share, expected in zip(shares, high, strict=True):
        used[0] += seconds * (share or 1.0)
        assert busy.has_been_high() == expected


def test_cpu_seconds__of_this_process_and_of_none() -> None:
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = cpu_seconds(os.getpid())
    assert before is not None and after is not None and 0.02 <= after - before < 5
    assert cpu_seconds(2**22 + 1) is None


# When a model of the agent counts as down, and what follows from it.


class CountingLimiter(Limiter):
    """How many answers were counted."""

    answers = 0

    def answered(self) -> None:
        self.answers += 1
        super().answered()


Note = tuple[float, str, str, dict[str, Any]]
"""Seconds, a turn, and what is heard of a call in it."""


def note(at: float, turn: str, what: str, cause: str = "", **facts: Any) -> Note:
    if cause.startswith("HTTP"):
        facts["status"] = int(cause[5:])
    return at, turn, what, {"cause": cause, **facts}


def refused(turn: str, begun: float, until: float) -> Iterator[Note]:
    """Ten failed attempts, spread over this time."""
    for number in range(1, 11):
        at = begun + (until - begun) * number / 10
        yield from (note(at, turn, "asked"), note(at, turn, "failed", "HTTP 503"))


REFUSED, DOWN = "connection refused", {"model": "new\x1b"}
SILENT = [note(at, turn, what, seconds=at) for turn in "abc" for at, what in ((0, "asked"), (59, "silent"))]
HANDS = [
    *(note(0, "a", "asked", call=call) for call in (1, 2, 3, 4)),
    note(0, "b", "asked"),
    note(60, "a", "silent", call=1, seconds=60.0),
    note(61, "a", "answered", call=1),
    note(61, "a", "failed", "HTTP 429", call=2),
    note(61, "a", "failed", "connection reset", call=3),
    note(62, "a", "asked", call=2),
    note(63, "a", "ended"),
    note(63, "b", "ended"),
]
OUTAGES: dict[str, list[Note]] = {
    "failures for a minute": [*refused("a", 0, 59), note(66, "a", "failed", "HTTP 503")],
    "no answer, soon in the log": [
        *refused("a", 0, 50),
        *(note(at, "a", "failed", REFUSED, **model) for model in ({"model": "new"}, DOWN) for at in (51, 52, 53, 54)),
    ],
    "few failures": [note(at, str(at), "failed", REFUSED) for at in (0, 100, 200, 300, 400)],
    "an answer between": [*refused("a", 0, 50), note(51, "a", "answered"), *refused("a", 51, 105)],
    "refused questions": [note(at, str(at), "failed", "HTTP 400") for at in range(0, 200, 10)],
    "another model that answers": [
        note(0, "b", "asked", model="other"),
        *refused("a", 0, 70),
        note(71, "b", "answered", model="other"),
        note(72, "c", "asked"),
        note(200, "d", "asked", model="third"),
    ],
    "attempts in the provider's hands": HANDS[:-3],
    "until their turns end": HANDS,
    "three silent turns": [
        *SILENT,
        *(note(61, turn, "silent", seconds=61.0) for turn in "abab"),
        note(62, "c", "silent", seconds=62.0),
    ],
    "five refused keys": [note(at, str(at), "failed", "HTTP 401") for at in range(1, 6)],
    "five, and an answer before": [
        note(0, "0", "answered"),
        *(note(at, str(at), "failed", "HTTP 401") for at in range(1, 6)),
    ],
}


def watched(notes: list[Note]) -> Iterator[str]:
    """What follows from what is heard: when a turn ends, when the agent does, and what is counted."""
    now = 0.0
    limiter = CountingLimiter(64, clock=lambda: now)
    logged: list[str] = []
    outages = ModelOutages(turn_timeout=180.0, limiter=limiter, log=logged.append, clock=lambda: now)
    turns: dict[str, asyncio.Future[AgentFailure]] = {}
    told: list[str] = []
    agent = "the agent goes on"
    for now, name, what, facts in notes:
        turn = turns.setdefault(name, asyncio.get_running_loop().create_future())
        if what == "ended":
            outages.ended(turn)
        else:
            news = {"turn": 1, "call": 1, "model": "m", "address": "http://h:1", "what": what, **facts}
            outages.note(turn, ModelNews.model_validate(news))
        lines = [f"turn {each} ends: {turn.result()}" for each, turn in turns.items() if turn.done()]
        becomes = "the agent goes on"
        try:
            outages.check()
        except AgentFailure as failure:
            assert (failure.kind, failure.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
            becomes = f"the agent ends: {failure}"
        lines += [f"log: {line}" for line in logged]
        counted = f"{limiter.answers} answers, {limiter.refusals} refusals, {limiter.unanswered} unanswered"
        lines = [line for line in lines if line not in told] + [becomes] * (becomes != agent)
        yield from (f"  {now:g} s: {line}" for line in lines)
        told, agent = told + lines, becomes
    yield f"  {counted}"


async def test_outages__what_follows_from_what_is_heard_of_models() -> None:
    lines = [line for name, notes in OUTAGES.items() for line in (f"{name}:", *watched(notes))]
    golden_files.check("golden_outages.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("turn_timeout", "outage", "silence"), [(180, 60, 60), (600, 60, 200), (60, 40, 60), (6, 4, 6)]
)
def test_outages__follow_from_the_time_of_a_turn(turn_timeout: float, outage: float, silence: float) -> None:
    assert (outage_seconds(turn_timeout), silence_seconds(turn_timeout)) == (outage, silence)


def test_tool_objects__one_item_that_differs_elsewhere_hides_neither_others_nor_shows_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "agent_places", places := [f"{tmp_path}/"])
    monkeypatch.setattr(tool_objects, "agent_places", places)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # The files differ in neither size nor second.

    def seen(city: str, secret: str) -> dict[str, str]:
        config = {
            "folder": tempfile.gettempdir(),
            "city": city,
            "oauth.token.prod": secret,
            "inner": {"api_key": secret},
        }
        (tmp_path / "own_tool.py").write_text(f"CONFIG = {config!r}\n\ndef look():\n    return CONFIG\n")
        sys.modules.pop("own_tool", None)
        importlib.invalidate_caches()
        module = importlib.import_module("own_tool")
        monkeypatch.setitem(sys.modules, "own_tool", module)
        return ToolObjects().of(module.look).places

    one, other, rotated = seen("Oslo", "key-1-secret"), seen("Rome", "key-1-secret"), seen("Oslo", "key-2-secret")
    changed = [place for place in one if one[place] != other[place]]
    assert len(changed) == 1 and changed[0].endswith("['city']")
    assert one == rotated, "not even a hash of a secret"


async def test_connection__what_is_said_at_once_arrives_at_once_and_before_the_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:

        async def refuse(*_: Any) -> None:
            raise AssertionError

        connection = Connection(masker=Masker(), on_notify=lambda *_: None, on_request=refuse)
        await connection.open(ours)
        for session in "ab":
            connection.notify("close_session", {"session": session})
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await asyncio.sleep(0)
        said = [json.loads(line)["params"]["session"] for line in theirs.recv(10_000).splitlines()]
        connection.notify("close_session", {"session": "c"})
        await connection.close()
        assert said == ["a", "b"] and json.loads(theirs.recv(10_000))["params"] == {"session": "c"}
