"""What goes over the wire: requests taken apart and checked, answers and faults put together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

_BODY_KEYS = frozenset(
    {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "safetySettings",
        "generationConfig",
        "cachedContent",
        "store",
        "serviceTier",
    }
)
_PART_DATA = frozenset(
    {
        "text",
        "inlineData",
        "functionCall",
        "functionResponse",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the model answers."""

    parts: Sequence[Json]
    """As on the wire, e.g. `{"text": "Hello"}` or `{"functionCall": {"name": "f", "args": {}}}`."""
    finish_reason: str = "STOP"
    usage: Json | None = None
    """None: counted from the lengths of the request and the answer, a token being four characters."""
    latency: float | None = None
    """Seconds until the answer; None: the server's."""

    @classmethod
    def text(cls, text: str) -> Answer:
        """An answer of one text."""
        return cls(parts=[{"text": text}])

    @classmethod
    def calls(cls, *calls: tuple[str, Json]) -> Answer:
        """An answer that asks for tool calls."""
        return cls(parts=[{"functionCall": {"name": name, "args": args}} for name, args in calls])


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong instead of an answer."""

    kind: (
        int
        | Literal[
            "reset", "gone", "hang", "hang-body", "hang-rest", "garbage", "cut", "cut-json", "empty", "null", "blank"
        ]
    )
    """An HTTP status; the connection dropped; the server gone for good, with all connections; no answer ever; an answer
    that stops after its headers, or in the middle of its body; an answer that is no JSON; the connection dropped in the
    middle of the body; half a body whose length is right; `{}`; `null`; no body at all."""
    message: str = "scripted fault"
    retry_after: int | None = None
    """Seconds, sent as `Retry-After`."""
    retry_info: float | None = None
    """Seconds, sent in the error's body as Gemini does when a quota is used up."""
    latency: float | None = None
    """Seconds before it; None for the server's own."""


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """A well-formed request."""

    model: str
    stream: bool
    body: Json
    headers: Mapping[str, str]
    """Names in lower case."""
    project: str | None = None
    """Of Vertex AI; None for the Gemini API."""
    location: str | None = None

    @property
    def user_texts(self) -> list[str]:
        """What the user said, oldest first."""
        contents = (content for content in self.body["contents"] if content.get("role", "user") == "user")
        texts = ("".join(part.get("text", "") for part in content["parts"]) for content in contents)
        return [text for text in texts if text]

    @property
    def tool_responses(self) -> list[Json]:
        """What the tools returned since the user last said something: objects with `name` and `response`."""
        found: list[Json] = []
        for content in self.body["contents"]:
            if any("text" in part for part in content["parts"]) and content.get("role", "user") == "user":
                found = []
            found += [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        return found

    @property
    def tool_names(self) -> list[str]:
        """The functions that the model may call."""
        tools = self.body.get("tools", [])
        return [declared["name"] for tool in tools for declared in tool.get("functionDeclarations", [])]

    @property
    def instruction(self) -> str:
        """The system instruction."""
        return "".join(part.get("text", "") for part in self.body.get("systemInstruction", {}).get("parts", []))


Script = Callable[[GenerateRequest], "Answer | Fault"]


class BadRequest(Exception):
    """Gemini would refuse the request."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def check_body(body: object) -> Json:
    """Checks a request's body as Gemini does.

    Args:
        body: The decoded JSON.

    Returns:
        The body.

    Raises:
        BadRequest: With Gemini's reason in words.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body is no object")
    if unknown := sorted(set(body) - _BODY_KEYS):
        raise BadRequest(f'Unknown name "{unknown[0]}": Cannot find field.')
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise BadRequest("GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        _check_content(content, f"contents[{number}]")
    if instruction := body.get("systemInstruction"):
        _check_content(instruction, "systemInstruction")
    _check_turns(contents)
    for tool in body.get("tools", []):
        for declared in tool.get("functionDeclarations", []):
            if not re.fullmatch(r"[A-Za-z_][\w.:-]{0,127}", declared.get("name", "")):
                raise BadRequest(f"Invalid function name {declared.get('name')!r}")
    return body


def _check_content(content: object, where: str) -> None:
    if not isinstance(content, dict) or set(content) - {"role", "parts"}:
        raise BadRequest(f"{where}: is no Content")
    if content.get("role", "user") not in {"user", "model", "system"}:
        raise BadRequest("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise BadRequest(f"{where}.parts: contents.parts must not be empty.")
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or len(_PART_DATA & set(part)) != 1:
            raise BadRequest(
                f"{where}.parts[{number}].data: required oneof field 'data' must have one initialized field"
            )


def _names(content: Json, key: str) -> list[str]:
    return [part[key].get("name", "") for part in content["parts"] if key in part]


def _check_turns(contents: list[Json]) -> None:
    previous: Json | None = None
    for content in contents:
        calls, responses = _names(content, "functionCall"), _names(content, "functionResponse")
        if calls and (previous is None or previous.get("role") == "model"):
            raise BadRequest(
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        asked = _names(previous, "functionCall") if previous else []
        if sorted(asked) != sorted(responses):
            raise BadRequest(
                "Please ensure that the number of function response parts is equal to the number of function call "
                f"parts of the function call turn: {asked} asked, {responses} answered."
            )
        previous = content
    if previous and _names(previous, "functionCall"):
        raise BadRequest("Please ensure that function response turn comes immediately after a function call turn.")


def response_chunks(request: GenerateRequest, answer: Answer, number: int, size: int) -> list[Json]:
    """The answer on the wire: one object, or several when it is streamed.

    Args:
        request: What is answered.
        answer: The answer.
        number: Makes `responseId` unique.
        size: Bytes of the request's body, from which usage is counted.
    """
    prompt, candidates = size // 4, len(json.dumps(answer.parts)) // 4
    usage = answer.usage or {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": prompt + candidates,
    }
    common: Json = {"modelVersion": request.model, "responseId": f"fake-{number}"}
    groups: list[list[Json]] = [list(answer.parts)]
    if request.stream:
        groups = [[piece] for part in answer.parts for piece in _pieces(part)] or [[]]
    chunks: list[Json] = [
        {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], **common} for parts in groups
    ]
    chunks[-1]["candidates"][0]["finishReason"] = answer.finish_reason
    chunks[-1]["usageMetadata"] = usage
    return chunks


def _pieces(part: Json) -> list[Json]:
    if set(part) != {"text"}:
        return [part]
    return [{"text": piece} for piece in re.findall(r"\s*\S+\s*$|\s*\S+", part["text"])] or [part]
