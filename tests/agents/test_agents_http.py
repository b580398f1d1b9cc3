"""The shared parts of remote agents that need no socket: URLs, addresses, headers, server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import golden_files
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval_agents.http import (
    HttpFailure,
    Reply,
    ServerSentEvent,
    Stream,
    TooLarge,
    client,
    failures,
    header_secrets,
    is_metadata,
    origin_of,
    parse_headers,
    parse_url,
    read_json,
)
from agent_eval_agents.protocol import AgentFailure, AgentRefused
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import docs_page


@pytest.mark.parametrize(
    ("text", "base", "origin", "fragment"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "http://127.0.0.1:8000", ""),
        ("https://H.Example:443/Prefix/#weather", "https://h.example/Prefix", "https://h.example", "weather"),
        ("http://[::1]:80/api#a%20b", "http://[::1]/api", "http://[::1]", "a b"),
        ("https://bücher.example", "https://xn--bcher-kva.example", "https://xn--bcher-kva.example", ""),
    ],
)
def test_parse_url__parts(text: str, base: str, origin: str, fragment: str) -> None:
    url = parse_url(text)
    assert (url.base, url.origin, url.fragment) == (base, origin, fragment)
    assert url.join("/run") == f"{base}/run"


def test_parse_url__refused() -> None:
    hosts = ["h:99999", "h:x", "[::1", "user:hunter2@h/", "h/?key=1", "h /", "h\n/", "h\\@i/", "h\x00", "", "/x"]
    for text in ("", "weather", "ftp://h/", "file:///etc/passwd", *(f"http://{host}" for host in hosts)):
        with pytest.raises(ValueError, match=r"^it ") as caught:
            parse_url(text)
        assert "hunter2" not in str(caught.value)


def test_origin_of__ignores_path_query_and_case() -> None:
    assert origin_of("HTTPS://H.example:443/a?b=c#d") == origin_of("https://h.example") == "https://h.example"
    assert origin_of("https://h.example:8443") != origin_of("https://h.example")


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ("169.254.169.254 169.254.0.1 fe80::1 fe80::1%eth0 fd00:ec2::254 fd20:ce::254", True),
        ("100.100.100.200 192.0.0.192 168.63.129.16 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe", True),
        ("64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::a9fe:a9fe", True),
        ("127.0.0.1 ::1 10.0.0.7 192.168.1.1 172.17.0.1 fd12::1 8.8.8.8 ::ffff:127.0.0.1", False),
    ],
)
def test_is_metadata__every_form(addresses: str, expected: bool) -> None:
    assert [address for address in addresses.split() if is_metadata(address) != expected] == []


def test_parse_headers__one_on_each_line_and_secrets_without_scheme() -> None:
    headers = parse_headers("Authorization: Bearer abc.def\n\n  X-Api-Key:  k:1 \n")
    assert headers == {"Authorization": "Bearer abc.def", "X-Api-Key": "k:1"}
    assert header_secrets(headers) == {
        "Bearer abc.def": "Authorization.2",
        "abc.def": "Authorization",
        "k:1": "X-Api-Key",
    }
    assert parse_headers("Authorization: Bearer \nX-Api-Key:\nProxy-Authorization: Basic") == {}, "without a secret"


def test_parse_headers__refused_without_repeating_the_value() -> None:
    invalid = ["hunter2", "A B: hunter2", "Host: hunter2", "content-length: 7", "X: hunter2\x00", "X: hünter2"]
    for text in (*invalid, "X: 1\nx: 2"):
        with pytest.raises(ValueError) as caught:
            parse_headers(text)
        assert "hunter2" not in str(caught.value) and not str(caught.value).startswith("must")


async def parsed(data: bytes, size: int) -> tuple[list[ServerSentEvent], bool]:
    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(data), size):
            yield data[begin : begin + size]

    headers = {"content-type": "text/event-stream; charset=latin-1"}
    request = httpx2.Request("GET", "http://h")
    events = []
    try:
        async for event in Stream(
            httpx2.Response(200, headers=headers, content=chunks(), request=request), Masker()
        ).events():
            events.append(event)
    except HttpFailure as failure:
        assert failure.reason == "broken"
        return events, True
    return events, False


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("data", "expected", "incomplete"),
    [
        (b"data: a\n\ndata:b\n\n", ["a", "b"], False),
        (b"data: a\r\ndata:  b\r\rdata\n\r\n", ["a\n b"], False),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"], False),
        (b": comment\nid: 1\nretry: 10\nother\n\ndata: a\n\n", ["a"], False),
        (b"event: error\ndata: {}\n\n", ["error={}"], False),
        (b"event: error\n\ndata: b\n\n", ["b"], False),
        ("data: Grüße 😀\n\n".encode(), ["Grüße 😀"], False),
        (b"data: \xff\n\n", ["\ufffd"], False),
        (b"data: a\n\ndata: b\n", ["a"], True),
        (b"data: a\n\ndata: b", ["a"], True),
        (b"data: a\n\nda", ["a"], True),
        (b"", [], False),
    ],
)
async def test_sse__standard(data: bytes, expected: list[str], incomplete: bool, size: int) -> None:
    events, ended_within = await parsed(data, size)
    assert [event.data if event.event == "message" else f"{event.event}={event.data}" for event in events] == expected
    assert ended_within is incomplete


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"))), st.integers(1, 50))
async def test_sse__any_chunks_give_the_same_events(lines: list[str], size: int) -> None:
    data = b"".join(f"data: {line}\n\n".encode() for line in lines)
    events, _ = await parsed(data, size)
    assert [event.data for event in events] == [line for line in lines if line]


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60 + b"\n\n"])
async def test_sse__a_large_event_is_refused_before_it_is_complete(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_EVENT", 100)
    with pytest.raises(TooLarge):
        await parsed(data, 10)


def not_reached(reason: Any, url: str) -> AgentFailure | AgentRefused:
    return failures.not_reached(HttpFailure("the proxy (ALL_PROXY)", reason=reason), url)


def not_admitted(status: int, *, has_headers: bool, withheld: bool) -> Exception | None:
    reply = Reply(status=status, headers={}, text="no token")
    return failures.not_admitted(reply, "http://h", has_headers=has_headers, secrets_withheld=withheld)


def remote_failures() -> dict[str, Exception | None]:
    return {
        "an exception": failures.agent_error("boom", names=("ValueError",)),
        "a number in words that don't count": failures.agent_error("429 quota", names=("ValueError",)),
        "a class": failures.agent_error("x", names=("_ResourceExhaustedError",)),
        "a code": failures.agent_error("x", names=("", "RESOURCE_EXHAUSTED")),
        "a status": failures.agent_error("x", names=("ServerError", "503")),
        "another status": failures.agent_error("x", names=("ClientError", "404")),
        "a number in words": failures.agent_error("got 429 from the model"),
        "words": failures.agent_error("Quota exceeded"),
        "other words": failures.agent_error("room 4290 is UNAVAILABLEX"),
        "refused by this job": not_reached("refused", "http://127.0.0.1:8000"),
        "refused by localhost": not_reached("refused", "http://localhost:8000/api"),
        "refused elsewhere": not_reached("refused", "http://agents.example"),
        **{reason: not_reached(reason, "http://h") for reason in ("proxy-down", "dns", "tls", "address", "proxy")},
        "no secrets": not_admitted(401, has_headers=False, withheld=True),
        "wrong secrets": not_admitted(401, has_headers=True, withheld=True),
        "no headers": not_admitted(401, has_headers=False, withheld=False),
        "broken": not_admitted(500, has_headers=False, withheld=True),
    }


def test_failures__of_remote_agents_and_whose_they_are() -> None:
    lines = []
    for name, failure in remote_failures().items():
        if isinstance(failure, AgentFailure):
            lines += [f"{name}: {failure.kind} ({failure.owner}) {failure}", f"  {failure.hint}"]
        else:  # It ends the run.
            lines.append(f"{name}: {failure.problem if isinstance(failure, AgentRefused) else failure}")
    text = "\n".join(lines).replace(docs_page("remote-agents"), "DOCS")
    golden_files.check("golden_remote_failures.txt", f"{text}\n")


@pytest.mark.parametrize(
    ("text", "value"), [('"\\ud83d"', "?"), ('{"\\uD83D\\uDE00": ["a\\ude00"]}', {"\U0001f600": ["a?"]})]
)
def test_read_json__half_a_surrogate_pair_can_be_written(text: str, value: object) -> None:
    assert read_json(text) == value
