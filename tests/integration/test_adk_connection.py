"""The line protocol, against a counterpart that may write anything."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_eval.agents.host.connection import Connection, ConnectionLost, ProtocolError, RemoteError, decode
from agent_eval.core.masking import Masker

SECRET = "s3cret/value"


class Other:
    """The other side: raw lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, **message: Any) -> None:
        await self.writes(json.dumps({"v": 1, **message}).encode() + b"\n")

    async def writes(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hears(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.reader.readline(), 5)
        heard: dict[str, Any] = json.loads(line)
        return heard


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Connection, Other, asyncio.Task[None], list[Any]]]:
    ours, theirs = socket.socketpair()
    notes: list[Any] = []

    async def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "echo":
            return params
        raise RemoteError("unknown-method", method, {"known": ["echo"]})

    connection = Connection(
        masker=Masker([SECRET, "123456"]),
        on_notify=lambda method, params: notes.append((method, params)),
        on_request=answer,
        **options,
    )
    await connection.open(ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    running = asyncio.create_task(connection.run())
    try:
        yield connection, Other(reader, writer), running, notes
    finally:
        await connection.close()
        await asyncio.gather(running, return_exceptions=True)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_connection__answers_find_their_questions_in_any_order() -> None:
    async with connected() as (connection, other, _, _notes):
        first, number = connection.ask("a", {"x": 1})
        second, two = connection.ask("b", {})
        assert await other.hears() == {"v": 1, "id": first, "type": "request", "method": "a", "params": {"x": 1}}
        await other.hears()
        await other.says(id=second, type="response", result={"two": 2})
        await other.says(id=first, type="response", error={"code": "no", "message": "it can't", "data": {"why": 1}})
        assert await two == {"two": 2}
        with pytest.raises(RemoteError, match="it can't") as caught:
            await number
        assert (caught.value.code, caught.value.data) == ("no", {"why": 1})


async def test_connection__the_other_side_may_ask_too() -> None:
    async with connected() as (_, other, _running, notes):
        await other.says(id=7, type="request", method="echo", params={"a": [1]})
        assert await other.hears() == {"v": 1, "id": 7, "type": "response", "result": {"a": [1]}}
        await other.says(id=8, type="request", method="other")
        assert (await other.hears())["error"]["code"] == "unknown-method"
        await other.says(type="notify", method="note", params={"n": 1})
        await other.says(id=99, type="response", result="nobody asked")
        await other.says(id=9, type="request", method="echo")
        await other.hears()
        assert notes == [("note", {"n": 1})]


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"[]", b'{"v": 2, "type": "notify"}', b'{"v": 1, "type": "shout"}', b'{"type": "notify"}',
     b'{"v": 1, "type": "notify", "method": "m", "params": [1]}', b"[" * 200_000, b"\xff\xfe"],
    ids=["text", "list", "version", "type", "no version", "params", "deep", "bytes"],
)  # fmt: skip
async def test_connection__garbage_ends_the_connection_with_what_was_read(line: bytes) -> None:
    async with connected() as (connection, other, running, _):
        _, answer = connection.ask("a", {})
        await other.writes(line + b"\n")
        with pytest.raises(ProtocolError) as caught:
            await asyncio.wait_for(running, 5)
        assert len(str(caught.value)) < 600
        with pytest.raises(ProtocolError):
            await answer
        assert connection.lost


@pytest.mark.parametrize("where", [390, 400 - len(SECRET) // 2])
async def test_connection__a_line_that_is_too_long_is_not_cut_in_a_secret(where: int) -> None:
    async with connected(max_line=1000) as (_, other, running, _notes):
        await other.writes(b"x" * where + SECRET.encode() + b"y" * 5000)
        with pytest.raises(ProtocolError, match="more than 1,000 bytes") as caught:
            await asyncio.wait_for(running, 5)
    assert SECRET[:4] not in str(caught.value)


def test_a_long_line_that_is_no_json__is_not_cut_in_a_secret() -> None:
    line = b"x" * (100_000 - len(SECRET) // 2) + SECRET.encode() + b"y" * 5000
    with pytest.raises(ProtocolError) as caught:
        decode(line, Masker([SECRET]))
    assert SECRET[:4] not in str(caught.value)


async def test_connection__a_closed_connection_fails_what_waits_and_what_comes() -> None:
    async with connected() as (connection, other, running, _):
        _, waiting = connection.ask("a", {})
        await other.writes(b'{"v": 1, "half a li')
        other.writer.close()
        await asyncio.wait_for(running, 5)
        with pytest.raises(ConnectionLost):
            await waiting
        _, late = connection.ask("b", {})
        with pytest.raises(ConnectionLost):
            await late
        connection.notify("note", {})


def message(params: Any, **more: Any) -> bytes:
    return json.dumps({"v": 1, "type": "notify", "method": "event", "params": params, **more}).encode()


def test_connection__secrets_are_masked_and_the_message_stays_whole() -> None:
    expected_text = decode(
        message({"text": f"is {SECRET}!", "number": 1234567, SECRET: [SECRET]}), Masker([SECRET, "123456", "params"])
    )
    assert expected_text["params"] == {"text": "is ***!", "number": 1234567, "***": ["***"]}


def test_connection__an_escaped_secret_is_masked() -> None:
    line = b'{"v": 1, "type": "notify", "params": {"t": "\\u0073' + SECRET[1:].encode() + b'"}}'
    assert decode(line, Masker([SECRET]))["params"] == {"t": "***"}


@pytest.mark.parametrize("raw", [b'"\\ud83d"', b'"\xed\xa0\xbd"'])
def test_connection__lone_surrogates_become_carriable(raw: bytes) -> None:
    message = decode(b'{"v": 1, "type": "notify", "params": {"t": ' + raw + b"}}", Masker())
    message["params"]["t"].encode("utf-8")


def test_connection__what_is_no_number_becomes_its_name() -> None:
    line = b'{"v": 1, "type": "notify", "params": {"a": NaN, "b": -Infinity}}'
    assert decode(line, Masker())["params"] == {"a": "NaN", "b": "-Infinity"}
