"""Which MCP servers a job depends on without owning them, and which of their failures are outages."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from agent_eval_host.exchanges import Exchange
from agent_eval_host.mcp_outages import _name_of, _outage, _server_of, _watched, lost
from agent_eval_host.turns import Turn, running_turn


@pytest.mark.parametrize(
    ("url", "server"),
    [
        (None, ""),  # stdio: a program of the repository
        ("http://localhost:9000/mcp", ""),
        ("http://127.0.0.1:9000/mcp", ""),
        ("https://user:secret@mcp.example/v1?key=secret", "https://mcp.example"),
    ],
)
def test_server_of__is_not_a_part_of_the_job(monkeypatch: pytest.MonkeyPatch, url: str | None, server: str) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    toolset = SimpleNamespace(_mcp_session_manager=SimpleNamespace(_connection_params=SimpleNamespace(url=url)))

    assert _server_of(toolset) == server


def test_name_of__is_the_same_for_the_base_branchs_agent() -> None:
    """Its interpreter and its checkout are in other directories, which would make two causes of one."""
    started = [
        SimpleNamespace(command=f"/envs/{number}/venv/bin/python", args=[f"/srv/{number}/shop/server.py", "--fast"])
        for number in (1, 2)
    ]
    connections = (SimpleNamespace(_connection_params=SimpleNamespace(server_params=each)) for each in started)

    names = {_name_of(SimpleNamespace(_mcp_session_manager=each)) for each in connections}

    assert names == {"SimpleNamespace (python server.py --fast)"}


def _error(**facts: Any) -> Exception:
    error = ConnectionError("Failed to get tools from MCP server")
    inner = Exception("of the client")
    vars(inner).update(facts)
    error.__cause__ = inner
    return error


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"status": 503}, "HTTP 503"),
        ({"status": 404}, None),
        ({"error": ConnectionRefusedError(errno.ECONNREFUSED, "")}, "connection refused"),
        ({"error": ValueError("of a provider of headers")}, None),
        ({"status": 202}, "connection closed without an answer"),
        ({"status": 200, "refused": {"7"}}, None),  # The server has sent an error with the client's own code.
        ({"status": 200, "refused": {"8"}}, "connection closed without an answer"),  # another call's
    ],
)
def test_outage__is_read_from_the_exchange(sent: dict[str, Any], why: str | None) -> None:
    exchange = Exchange(SimpleNamespace(), "POST", "https://mcp.example/", b'{"id": 7}')
    vars(exchange).update(sent)

    assert _outage(_error(error=SimpleNamespace(code=-32000)), exchange) == why


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (_error(response=SimpleNamespace(status_code=503)), "HTTP 503"),
        (_error(response=SimpleNamespace(status_code=401)), "HTTP 401"),
        (_error(response=SimpleNamespace(status_code=404)), None),  # another address, or another version of the server
        (_error(error=SimpleNamespace(code=408)), "no answer in time"),
        (_error(error=SimpleNamespace(code=-32602)), None),  # it has answered: the arguments are wrong
        (ValueError("of a provider of headers"), None),
    ],
)
def test_outage__is_a_missing_answer(error: Exception, why: str | None) -> None:
    assert _outage(error) == why


async def test_watched__only_the_same_request_makes_up_for_a_lost_one() -> None:
    async def look_up(tool: Any, *, args: dict[str, str]) -> str:
        if args["city"] in down:
            await asyncio.sleep(0)
            raise _error(response=SimpleNamespace(status_code=503))
        await asyncio.sleep(0.01)
        return args["city"]

    down = {"Oslo"}
    manager = SimpleNamespace(_connection_params=SimpleNamespace(url="https://mcp.example"))
    tool, turn = SimpleNamespace(name="look_up", _mcp_session_manager=manager), Turn(1)
    running_turn.set(turn)
    ask = _watched(look_up)

    await asyncio.gather(*(ask(tool, args={"city": city}) for city in ("Oslo", "Rome")), return_exceptions=True)
    assert lost(turn) == (
        "server-unavailable",
        "The agent's MCP server did not answer: https://mcp.example (HTTP 503).",
    )

    down.clear()
    await ask(tool, args={"city": "Oslo"})
    assert lost(turn) is None and not turn.asking_servers
