"""Whose failure an error is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.host._facts import exit_description, how_it_ended
from agent_eval.agents.host.blame import KEY_HINT, failed_load, failed_turn, too_late
from agent_eval.agents.host.connection import RemoteError
from agent_eval.agents.messages import Waiting
from agent_eval.agents.protocol import FailureKind, Owner


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


def test_blame__words_for_an_end() -> None:
    assert exit_description(3) == "exited with code 3"
    assert exit_description(-9) == "was killed by SIGKILL (signal 9)"
    assert exit_description(-250) == "was killed by signal 250"


@pytest.mark.parametrize(
    ("returncode", "garbage", "kind", "words"),
    [
        (0, ValueError("what was read"), FailureKind.PROTOCOL, "is not our protocol: what was read"),
        (None, None, FailureKind.PROTOCOL, "closed its connection"),
        (-9, None, FailureKind.CRASH, "SIGKILL"),
        (3, None, FailureKind.CRASH, "code 3"),
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
