"""The host of a Python agent: the program in it, and how the gate sees it end, wait or fail."""

from __future__ import annotations

import asyncio
import compileall
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr

from agent_eval.agents.adk._slots import CpuShare, cpu_seconds
from agent_eval.agents.host import PROGRAM, _program
from agent_eval.agents.host._facts import how_it_ended
from agent_eval.agents.host._log import HostLog
from agent_eval.agents.host.blame import KEY_HINT, failed_load, failed_turn, too_late
from agent_eval.agents.host.connection import RemoteError
from agent_eval.agents.host.outage import ModelOutages, outage_seconds, silence_seconds
from agent_eval.agents.messages import ModelNews, Waiting
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.limiter import Limiter
from agent_eval.core.masking import Masker
from agent_eval_host import frames, values
from agent_eval_host.model_answers import ModelAnswers
from agent_eval_host.tool_objects import ToolObjects
from agent_eval_host.tool_sources import installed_from_repository

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

    assert {Path(file).relative_to(tmp_path).as_posix() for file in ToolObjects().of(tool)[1]} == {*files}


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

    assert ToolObjects().of(tool)[1] == ({str(site / "installed_lamps.py")} if own else set())
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
    request = asked["request"]
    assert (asked["agent"], asked["model"]) == ("clerk", "lite/large")
    kept = {**shown, "kept": [1, [2.5, True]], "callback": "print", "options": {"penalty": "0.1"}}
    assert asked["settings"] == {"max_tokens": 100, "_additional_args": kept, "_resolved": {}}
    assert request["instruction"] == "Be brief."
    assert request["tools"] == [{"name": "maps", "url_context": {"page": "1"}}, "print"]
    assert request["config"]["temperature"] == 0.5
    assert request["config"]["response_schema"]["items"] == {"$ref": "#/$defs/Answer"}
    assert request["config"]["http_options"] == {"extra_body": {"seed": 1}}
    [part] = request["contents"][0]["parts"]
    assert part["data"].startswith("sha256:a8100ae6aa1940d0")
    assert (part["args"], list(part["args"]), part["of"]) == ({"b": None, "a": "nan"}, ["b", "a"], ["x", "y"])
    assert part["odd"] == ["object", "1j", "list"]
    assert request["service_tier"] == "flex"
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


def raised(message: str, *classes: str, status: int | None = None, origin: str = "model", **more: Any) -> RemoteError:
    names = [*classes, "builtins.Exception"]
    data = {"type": names[0].rsplit(".", 1)[-1], "classes": names, "origin": origin, "status": status, **more}
    return RemoteError("agent-exception", message, data)


@pytest.mark.parametrize(
    ("error", "owner"),
    [
        (raised("quota", "google.genai.errors.ClientError", status=429), Owner.PROVIDER),
        (raised("down", "google.genai.errors.ServerError", status=503), Owner.PROVIDER),
        (raised("odd", "google.genai.errors.ServerError", status=599), Owner.PROVIDER),
        (raised("who are you", "openai.AuthenticationError", status=401), Owner.PROVIDER),
        (raised("API key not valid. Please pass a valid API key.", "x.ClientError", status=400), Owner.PROVIDER),
        (raised("bad request", "google.genai.errors.ClientError", status=400), Owner.AGENT),
        (raised("no such model", "google.genai.errors.ClientError", status=404), Owner.AGENT),
        (raised("", "httpx.ConnectError", "httpx.TransportError"), Owner.PROVIDER),
        (raised("", "builtins.ConnectionResetError", "builtins.ConnectionError", "builtins.OSError"), Owner.PROVIDER),
        (raised("", "litellm.exceptions.APIConnectionError"), Owner.PROVIDER),
        (raised("Could not find credentials", "google.auth.exceptions.DefaultCredentialsError"), Owner.PROVIDER),
        (raised("No API key was provided.", "builtins.ValueError"), Owner.PROVIDER),
        (raised("bad schema", "builtins.ValueError"), Owner.AGENT),
        *((raised("", "x.E", status=status), Owner.PROVIDER) for status in (408, 500, 529)),
        (raised("", "builtins.ConnectionError", origin="agent"), Owner.AGENT),
        (raised("quota of the shop", "shop.Error", status=429, origin="agent"), Owner.AGENT),
    ],
)
def test_blame__owner(error: RemoteError, owner: Owner) -> None:
    failure = failed_turn(error, None)
    assert failure.owner is owner
    assert failure.kind is (FailureKind.PROVIDER if owner is Owner.PROVIDER else FailureKind.EXCEPTION)
    if owner is Owner.PROVIDER:
        assert failure.hint


@pytest.mark.parametrize(
    ("message", "more", "shown"),
    [
        ("quota", {"status": 429}, "The agent's model provider failed: B: quota (HTTP 429)"),
        ("429 quota", {"status": 429}, "The agent's model provider failed: B: 429 quota"),  # named once
        (
            "\nOn how to mitigate this issue, please refer to:\n\nhttps://example.com/#429\n\n\n429 quota",
            {"status": 429},
            "The agent's model provider failed: B: 429 quota",
        ),
        ("one\ntwo", {"origin": "agent"}, "The agent raised B: one"),
    ],
)
def test_blame__message(message: str, more: dict[str, Any], shown: str) -> None:
    failure = failed_turn(raised(message, "a.B", traceback="the traceback", **more), None)
    assert (failure.message, failure.traceback) == (shown, "the traceback")


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("ModuleNotFoundError", "No module named 'yfinance.data'", "`yfinance`"),
        ("ModuleNotFoundError", "No module named 'tools'", "write `from .tools import ...`"),
        ("ImportError", "attempted relative import beyond top-level package", "Write the import without `..`"),
        ("TypeError", "int", "Define `root_agent` or `app` in agent.py, or set another directory with `--agent`."),
        ("TypeError", "coroutine", "`async def get_agent_async"),
        ("TypeError", "function", "Call the function"),
    ],
)
def test_blame__import_hints(tmp_path: Path, kind: str, message: str, hint: str) -> None:
    (tmp_path / "tools.py").touch()
    if kind == "TypeError":
        message = f"`root_agent` of bot.agent is of type {message}, not an ADK agent"
    failure = failed_load(RemoteError("agent-import", message, {"type": kind}), "the log", (), tmp_path)
    assert (failure.kind, failure.log_tail) == (FailureKind.IMPORT, "the log")
    assert hint in (failure.hint or "")
    ended = failed_load(RemoteError("agent-import", "2", {"type": "SystemExit", "exit": 2}), None)
    assert "sys.exit(2)" in ended.message


def test_blame__a_refused_key_needs_no_traceback() -> None:
    refused = raised("API key not valid.", "x.ClientError", status=400, traceback="frames of an SDK")
    failure = failed_turn(refused, None, {"GOOGLE_API_KEY"})
    assert failure.hint == "The provider refuses the model's key: check it, or replace it."
    assert failure.traceback is None and failure.no_key
    missing = failed_turn(raised("No API key was provided.", "builtins.ValueError", traceback="frames"), None)
    assert (missing.hint, missing.traceback, missing.no_key) == (KEY_HINT, None, True)
    withheld = failed_turn(raised("No API key was provided.", "builtins.ValueError"), None, {"GOOGLE_API_KEY"})
    assert not withheld.no_key
    down = failed_turn(raised("down", "x.ServerError", status=503, traceback="frames"), None)
    assert down.traceback == "frames" and not down.no_key


@pytest.mark.parametrize(
    ("returncode", "garbage", "kind", "words"),
    [
        (0, ValueError("what was read"), FailureKind.PROTOCOL, "is not our protocol: what was read"),
        (None, None, FailureKind.PROTOCOL, "closed its connection"),
        (-9, None, FailureKind.CRASH, "was killed by SIGKILL (signal 9)"),
        (-250, None, FailureKind.CRASH, "was killed by signal 250"),
        (3, None, FailureKind.CRASH, "exited with code 3"),
    ],
)
def test_blame__how_a_host_ended(
    returncode: int | None, garbage: Exception | None, kind: FailureKind, words: str
) -> None:
    ended = how_it_ended(returncode, garbage, ended_by_gate=None, log_tail="")
    assert ended.kind is kind
    assert words in ended.message
    assert ended.hint
    ours = how_it_ended(returncode, garbage, ended_by_gate="was closed", log_tail="the log")
    assert (ours.message, ours.kind, ours.hint, ours.log_tail) == ("was closed", FailureKind.CRASH, None, "the log")


@pytest.mark.parametrize(
    ("facts", "owner", "words"),
    [
        ({"for": "model", "remote": True, "silent": 100.0}, Owner.PROVIDER, "(m at http://h) sent nothing for 100 s"),
        ({"for": "model", "remote": True, "silent": 20.0}, Owner.AGENT, "waiting for the model m for 170.0 s"),
        ({"for": "model", "remote": True, "silent": 70.0, "stalled": 50.0}, Owner.PROVIDER, "sent nothing for 70 s"),
        ({"for": "model", "remote": False, "silent": 170.0}, Owner.AGENT, "waiting for the model m"),
        ({"for": "tool", "name": "look_up", "remote": True, "silent": 170.0}, Owner.AGENT, "for the tool look_up"),
        ({"for": "model", "attempts": [{"status": 400}]}, Owner.AGENT, "waiting for the model m"),
        (
            {"for": "model", "attempts": [{"cause": "connection refused"}, {"status": 503}, {"status": 503}]},
            Owner.PROVIDER,
            "failed 3 times in 170 s (HTTP 503 (2 times), connection refused), until",
        ),
        ({"calls": 25, "for": "tool", "name": "again", "at": "agent.py:3: x()"}, Owner.AGENT, "after 25 model calls"),
        ({"calls": 1, "for": "tool", "name": "again", "at": "agent.py:3: x()"}, Owner.AGENT, "at agent.py:3: x()"),
    ],
)
def test_too_late__whose_it_is(facts: dict[str, Any], owner: Owner, words: str) -> None:
    fields = {"turn": 1, "model": "m", "name": "m", "address": "http://h", "seconds": 170.0, **facts}
    failure = too_late(180, Waiting.model_validate(fields), stopped=True)
    assert failure.owner is owner
    assert failure.kind is (FailureKind.PROVIDER if owner is Owner.PROVIDER else FailureKind.DEADLINE)
    assert words in failure.message


def test_too_late__a_turn_cut_short_by_its_case_is_not_the_providers() -> None:
    waiting = Waiting.model_validate({"turn": 1, "for": "model", "model": "m", "remote": True, "silent": 0.2})
    assert too_late(0.26, waiting, stopped=True, turn_limit=20.0).owner is Owner.AGENT


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
    lines = [f"line {number:06}\n".encode() for number in range(100_000)]
    log = fed(tmp_path / "log", lines, limit=10_000)
    content, tail = log.path.read_bytes(), log.tail()
    head, note, rest = content.partition(b"\n[... ")
    assert note and len(head) == 5_000
    assert content.startswith(b"line 000000\n") and content.endswith(b"line 099999\n")
    missing = int(rest.split(b" bytes")[0].replace(b",", b""))
    assert len(head) + missing + len(rest.partition(b"]\n")[2]) == 100_000 * 12
    assert tail.startswith("line 0") and tail.endswith("line 099999") and len(tail) <= 4_000


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


class Watched:
    """Outages at a clock of its own, and the turns that ask."""

    def __init__(self, *, turn_timeout: float = 180.0) -> None:
        self.now = 0.0
        self.limiter = CountingLimiter(64, clock=lambda: self.now)
        self.logged: list[str] = []
        self.outages = ModelOutages(
            turn_timeout=turn_timeout, limiter=self.limiter, log=self.logged.append, clock=lambda: self.now
        )

    @staticmethod
    def turn() -> asyncio.Future[AgentFailure]:
        return asyncio.get_running_loop().create_future()

    def note(self, turn: asyncio.Future[AgentFailure], what: str, *, at: float, **facts: Any) -> None:
        self.now = at
        params = {"turn": 1, "call": 1, "model": "m", "address": "http://h:1", "what": what, **facts}
        self.outages.note(turn, ModelNews.model_validate(params))

    def refuse(self, turn: asyncio.Future[AgentFailure], *, until: float, **facts: Any) -> None:
        """Ten failed attempts, spread over the time until then."""
        begun = self.now
        for number in range(1, 11):
            at = begun + (until - begun) * number / 10
            self.note(turn, "asked", at=at, **facts)
            self.note(turn, "failed", at=at, cause="HTTP 503", status=503, **facts)


async def test_outages__failures_for_a_minute_end_the_turns_that_ask_and_the_agent() -> None:
    watched = Watched()
    turn, idle = watched.turn(), watched.turn()
    watched.refuse(turn, until=59)
    watched.outages.check()
    assert not turn.done()
    watched.note(turn, "failed", at=66, status=503, cause="HTTP 503")
    failure = turn.result()
    assert (failure.kind, failure.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "`m` at http://h:1 is down" in failure.message and "HTTP 503 (11 times)" in failure.message
    assert not idle.done()
    with pytest.raises(AgentFailure) as caught:
        watched.outages.check()
    assert caught.value.message == failure.message
    assert watched.limiter.refusals == 11


async def test_outages__no_answer_is_in_the_log_once_and_soon() -> None:
    watched = Watched()
    turn = watched.turn()
    watched.refuse(turn, until=50)
    assert watched.logged == [], "a model that refuses for a while is there"
    for model in ("new", "new\x1b"):
        for at in (51, 52, 53):
            watched.note(turn, "failed", at=at, model=model, cause="connection refused")
            assert not turn.done()
        watched.note(turn, "failed", at=54, model=model, cause="connection refused")
    line = "`new{}` at http://h:1 does not answer: connection refused. Trying for 60 s."
    assert watched.logged == [line.format(""), line.format("\N{REPLACEMENT CHARACTER}")]


async def test_outages__few_failures_an_answer_between_or_a_refused_question_are_none() -> None:
    few, answered, asked = Watched(), Watched(), Watched()
    for at in (0, 100, 200, 300, 400):
        few.note(few.turn(), "failed", at=at, cause="connection refused")
    turn = answered.turn()
    answered.refuse(turn, until=50)
    answered.note(turn, "answered", at=51)
    answered.refuse(turn, until=105)
    for at in range(0, 200, 10):  # The provider is up.
        asked.note(asked.turn(), "failed", at=at, status=400, cause="HTTP 400")
    for watched in (few, answered, asked):
        watched.outages.check()
    assert not turn.done()
    assert [watched.limiter.answers for watched in (few, answered, asked)] == [0, 1, 20]


async def test_outages__another_model_that_answers_keeps_the_agent_going() -> None:
    watched = Watched()
    down, well, later = watched.turn(), watched.turn(), watched.turn()
    watched.note(well, "asked", at=0, model="other")
    watched.refuse(down, until=70)
    watched.note(well, "answered", at=71, model="other")
    assert down.done()
    watched.outages.check()
    watched.note(later, "asked", at=72)
    assert later.done(), "it asks the model that is down"
    watched.now = 200
    with pytest.raises(AgentFailure):
        watched.outages.check()


async def test_outages__an_attempt_is_in_the_providers_hands_until_it_or_its_turn_ends() -> None:
    watched = Watched()
    turn, other = watched.turn(), watched.turn()
    for call in (1, 2, 3, 4):
        watched.note(turn, "asked", at=0, call=call)
    watched.note(other, "asked", at=0)
    assert watched.limiter.unanswered == 5
    watched.note(turn, "silent", at=60, call=1, seconds=60.0)
    watched.note(turn, "answered", at=61, call=1)
    watched.note(turn, "failed", at=61, call=2, cause="HTTP 429", status=429)
    watched.note(turn, "failed", at=61, call=3, cause="connection reset")
    assert watched.limiter.unanswered == 2
    watched.note(turn, "asked", at=62, call=2)
    watched.outages.ended(turn)
    assert watched.limiter.unanswered == 1
    watched.outages.ended(other)
    assert (watched.limiter.unanswered, watched.limiter.refusals) == (0, 1)


async def test_outages__three_silent_turns_are_one_and_two_are_not() -> None:
    watched = Watched()
    turns = [watched.turn() for _ in range(3)]
    for turn in turns:
        watched.note(turn, "asked", at=0)
        watched.note(turn, "silent", at=59, seconds=59.0)
    for turn in (*turns[:2], *turns[:2]):
        watched.note(turn, "silent", at=61, seconds=61.0)
    watched.outages.check()
    watched.note(turns[2], "silent", at=62, seconds=62.0)
    assert all(turn.done() for turn in turns)
    assert "it sent no data to 3 calls in 62 seconds" in turns[0].result().message


async def test_outages__five_refused_keys_are_one_unless_the_model_ever_answered() -> None:
    fresh, used = Watched(), Watched()
    used.note(used.turn(), "answered", at=0)
    for watched in (fresh, used):
        for at in range(1, 6):
            watched.note(watched.turn(), "failed", at=at, status=401, cause="HTTP 401")
    used.outages.check()
    with pytest.raises(AgentFailure, match=r"can't be used: HTTP 401 \(5 times\)"):
        fresh.outages.check()


@pytest.mark.parametrize(
    ("turn_timeout", "outage", "silence"), [(180, 60, 60), (600, 60, 200), (60, 40, 60), (6, 4, 6)]
)
def test_outages__follow_from_the_time_of_a_turn(turn_timeout: float, outage: float, silence: float) -> None:
    assert (outage_seconds(turn_timeout), silence_seconds(turn_timeout)) == (outage, silence)
