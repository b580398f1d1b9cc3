"""The Gemini on loopback: what it refuses, what it serves, how it fails, how much it bears."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from typing import Any

import pytest
from fake_gemini import Answer, BadRequest, FakeGemini, Fault, GenerateRequest, check_body

KEY = {"x-goog-api-key": "any"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def calls(*names: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def responses(*names: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"of": name}}} for name in names]}


def echo(request: GenerateRequest) -> Answer:
    return Answer.text(f"You said: {request.user_texts[-1]}")


def post(server: FakeGemini, body: object, *, method: str = "generateContent", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        payload = body if isinstance(body, str) else json.dumps(body)
        connection.request("POST", f"/v1beta/models/gemini-2.5-flash:{method}", payload, KEY | headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "no object"),
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": [user("hi")], "model": "x"}, 'Unknown name "model"'),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "text": "x"}]}, "is no Content"),
        ({"contents": [{"role": "user", "parts": [{"text": "a", "functionCall": {"name": "f"}}]}]}, "oneof field"),
        ({"contents": [user("a"), calls("f"), user("b")]}, "number of function response parts"),
        ({"contents": [user("a"), calls("f", "g"), responses("f")]}, "number of function response parts"),
        ({"contents": [user("a"), calls("f")]}, "comes immediately after a function call turn"),
        ({"contents": [calls("f"), responses("f")]}, "immediately after a user turn"),
        ({"contents": [user("a")], "tools": [{"functionDeclarations": [{"name": "no spaces"}]}]}, "function name"),
        ({"contents": [user("a")], "systemInstruction": {"parts": []}}, "systemInstruction.parts"),
    ],
)
def test_fake_gemini__a_body_that_gemini_would_refuse(body: object, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        check_body(body)


def test_fake_gemini__a_request_taken_apart() -> None:
    body = {
        "contents": [
            user("one"),
            calls("f"),
            responses("f"),
            {"role": "model", "parts": [{"text": "done"}]},
            user("two"),
            calls("g", "h"),
            responses("g", "h"),
        ],
        "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}],
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
    }
    request = GenerateRequest(model="m", stream=False, body=check_body(body), headers={})
    assert request.user_texts == ["one", "two"]
    assert [item["name"] for item in request.tool_responses] == ["g", "h"]
    assert request.tool_names == ["f", "g"]
    assert request.instruction == "Be kind."


def test_fake_gemini__an_answer_with_usage_and_version() -> None:
    with FakeGemini(echo) as server:
        status, text = post(server, {"contents": [user("hello")]})
    answer = json.loads(text)
    assert status == 200
    assert answer["candidates"][0]["content"] == {"role": "model", "parts": [{"text": "You said: hello"}]}
    assert answer["candidates"][0]["finishReason"] == "STOP"
    assert answer["modelVersion"] == "gemini-2.5-flash"
    usage = answer["usageMetadata"]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"] > 0


def test_fake_gemini__a_streamed_answer_adds_up() -> None:
    with FakeGemini(echo) as server:
        status, events = post(server, {"contents": [user("a b  c")]}, method="streamGenerateContent?alt=sse")
        _, array = post(server, {"contents": [user("a b  c")]}, method="streamGenerateContent")
    chunks = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line]
    assert status == 200
    assert len(chunks) > 1
    for form in (chunks, json.loads(array)):
        texts = [part["text"] for chunk in form for part in chunk["candidates"][0]["content"]["parts"]]
        assert "".join(texts) == "You said: a b  c"
        assert ["usageMetadata" in chunk for chunk in form] == [False] * (len(form) - 1) + [True]


def test_fake_gemini__what_the_protocol_refuses() -> None:
    with FakeGemini(echo) as server:
        assert post(server, "{broken")[0] == 400
        assert post(server, {"contents": []})[0] == 400
        assert post(server, {"contents": [user("hi")]}, method="embedContent")[0] == 404
        status, text = post(server, {"contents": [user("hi")]}, **{"x-goog-api-key": ""})
        assert (status, json.loads(text)["error"]["status"]) == (403, "PERMISSION_DENIED")
        assert server.stats.requests == 4
        assert len(server.stats.refused) == 4
        assert server.stats.statuses == {400: 2, 404: 1, 403: 1}
        assert not server.received


def test_fake_gemini__faults_come_first_then_answers() -> None:
    faults = [Fault(kind=429, retry_after=7), Fault(kind=503), Fault(kind="garbage"), Fault(kind="reset")]
    body = {"contents": [user("hi")]}
    with FakeGemini(echo, faults=faults) as server:
        status, text = post(server, body)
        assert (status, json.loads(text)["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert post(server, body)[0] == 503
        assert post(server, body)[1].startswith("<html>")
        with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
            post(server, body)
        assert post(server, body)[0] == 200
        assert server.stats.statuses == {429: 1, 503: 1, 200: 1}


def test_fake_gemini__a_hanging_request_ends_when_the_client_goes() -> None:
    with FakeGemini(echo, faults=[Fault(kind="hang")]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=0.2)
        body = json.dumps({"contents": [user("hi")]})
        connection.request("POST", "/v1beta/models/m:generateContent", body, KEY)
        with pytest.raises(TimeoutError):
            connection.getresponse()
        deadline = time.monotonic() + 30
        while server.stats.in_flight != 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.stats.in_flight == 1
        connection.close()
        deadline = time.monotonic() + 30
        while server.stats.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.stats.in_flight == 0


def test_fake_gemini__a_hundred_requests_wait_together() -> None:
    """Connections are kept alive and requests are held without a thread each."""

    async def client(port: int) -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        payload = json.dumps({"contents": [user("hi")]}).encode()
        head = f"POST /v1beta/models/m:generateContent HTTP/1.1\r\nx-goog-api-key: k\r\nContent-Length: {len(payload)}"
        statuses = []
        for _ in range(2):
            writer.write(head.encode() + b"\r\n\r\n" + payload)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            statuses.append(int(answer.split()[1]))
            length = next(line for line in answer.lower().splitlines() if line.startswith("content-length"))
            await reader.readexactly(int(length.partition(":")[2]))
        writer.close()
        await writer.wait_closed()
        return statuses

    async def everyone(port: int) -> list[list[int]]:
        return await asyncio.wait_for(asyncio.gather(*(client(port) for _ in range(100))), timeout=30)

    with FakeGemini(echo, latency=0.2) as server:
        started = time.monotonic()
        statuses = asyncio.run(everyone(server.port))
        elapsed = time.monotonic() - started
        assert statuses == [[200, 200]] * 100
        assert server.stats.peak_in_flight == 100
        assert server.stats.connections == 100
    assert elapsed >= 0.4
    assert elapsed < 20, "one after another would take 40 s"


def test_fake_gemini__counters_over_http() -> None:
    def get(server: FakeGemini, method: str, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request(method, path)
        try:
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    with FakeGemini(echo) as server:
        post(server, {"contents": [user("hi")]})
        assert get(server, "GET", "/stats")["requests"] == 1
        get(server, "POST", "/reset")
        assert get(server, "GET", "/stats") | {"connections": 0} == {
            "requests": 0,
            "statuses": {},
            "in_flight": 0,
            "peak_in_flight": 0,
            "refused": [],
            "connections": 0,
        }


def test_fake_gemini__a_port_that_is_taken_is_an_error_in_the_callers_thread() -> None:
    with FakeGemini(echo) as server, pytest.raises(OSError, match="in use"), FakeGemini(echo, port=server.port):
        pass
