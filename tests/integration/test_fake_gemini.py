"""The Gemini on loopback: what it refuses, what it serves, how it fails, how much it bears."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from fake_gemini import Answer, BadRequest, FakeGemini, GenerateRequest, check_body

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
    first = [user("one"), calls("f"), responses("f"), {"role": "model", "parts": [{"text": "done"}]}]
    body = {"contents": [*first, user("two"), calls("g", "h"), responses("g", "h")]}
    request = GenerateRequest(model="m", stream=False, body=check_body(body), headers={})
    assert request.user_texts == ["one", "two"]
    assert [item["name"] for item in request.tool_responses] == ["g", "h"]


def test_fake_gemini__an_answer_has_usage_and_a_streamed_one_adds_up() -> None:
    with FakeGemini(echo) as server:
        _, whole = post(server, {"contents": [user("hello")]})
        status, events = post(server, {"contents": [user("a b  c")]}, method="streamGenerateContent?alt=sse")
        _, array = post(server, {"contents": [user("a b  c")]}, method="streamGenerateContent")
    answer = json.loads(whole)
    assert answer["candidates"][0]["content"] == {"role": "model", "parts": [{"text": "You said: hello"}]}
    assert (answer["candidates"][0]["finishReason"], answer["modelVersion"]) == ("STOP", "gemini-2.5-flash")
    usage = answer["usageMetadata"]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"] > 0
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
        for method, path, requests in (("GET", "/stats", 4), ("POST", "/reset", 0), ("GET", "/stats", 0)):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
            connection.request(method, path)
            assert json.loads(connection.getresponse().read() or "{}").get("requests", 0) == requests
            connection.close()


def test_fake_gemini__a_port_that_is_taken_is_an_error_in_the_callers_thread() -> None:
    with FakeGemini(echo) as server, pytest.raises(OSError, match="in use"), FakeGemini(echo, port=server.port):
        pass
