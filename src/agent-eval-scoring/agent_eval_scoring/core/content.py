"""Messages as Gemini and ADK write them: a Content has a role and Parts.

These are our own models: google-genai's take a second to import, and the set of keys that they accept changes
with every release. A Part therefore keeps keys that it doesn't know (validation warns about them); everything
else is strict.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from agent_eval_scoring.core.wire import WireModel


def is_base64(value: str) -> bool:
    """Whether a text is base64, also of URLs and without padding."""
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False
    return True


def _base64(value: str) -> str:
    if not is_base64(value):
        raise ValueError("is not base64")
    return value


_BASE64 = r"^(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}(?:==)?|[A-Za-z0-9+/_-]{3}=?)?$"
_IN_SCHEMAS = WithJsonSchema({"type": "string", "pattern": _BASE64})
Base64Str = Annotated[str, AfterValidator(_base64), _IN_SCHEMAS]


_RANDOM_ARGS: dict[str | None, frozenset[str]] = {
    "adk_request_input": frozenset({"interruptId"}),
    "adk_request_confirmation": frozenset({"id"}),
    # The second one has the address that the user opens, with a random `state`; up to google-adk 1 the third was made
    # of `hash()`, which differs in every process.
    "adk_request_credential": frozenset({"functionCallId", "exchangedAuthCredential", "credentialKey"}),
}
"""Keys in the arguments of google-adk's own requests, and in their objects, that are drawn anew in every run."""


class FunctionCall(WireModel):
    """A tool call that the model asked for."""

    id: str | None = None
    """Pairs the call with its response; ignored when trajectories are compared."""
    name: str | None = None
    args: dict[str, Any] | None = None
    """None is not `{}`: ADK compares them as different (spec 14, Q14)."""
    partial_args: list[Any] | None = None
    will_continue: bool | None = None

    @model_validator(mode="after")
    def _without_random_args(self) -> Self:
        # Here, so that no case expects them, no criterion compares them, and no judge's question differs by them.
        if self.name in _RANDOM_ARGS and self.args is not None:
            self.args = _without(_RANDOM_ARGS[self.name], self.args)
        return self


def _without(keys: Collection[str], args: dict[str, Any], depth: int = 2) -> dict[str, Any]:
    """The object, and those in it, without these keys, in whichever spelling."""
    kept = {key: value for key, value in args.items() if to_camel(key) not in keys}
    if depth == 1:
        return kept
    return {key: _without(keys, item, depth - 1) if isinstance(item, dict) else item for key, item in kept.items()}


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_empty, value.values() if isinstance(value, dict) else value))
    return value is None or value == ""


class FunctionResponse(WireModel):
    """What a tool answered."""

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None
    parts: list[Any] | None = None
    scheduling: str | None = None
    will_continue: bool | None = None

    @property
    def is_error(self) -> bool:
        """Whether it reports an error, as ADK (`error`), MCP (`isError`) or its tools' own habit (`status`) say it."""
        value = self.response or {}
        failed = value.get("error") or value.get("isError") or value.get("is_error")
        return bool(failed) or value.get("status") == "error" or value.get("success") is False

    @property
    def is_empty(self) -> bool:
        """Whether it has no value: only null, "", [] and {}. A status does not count."""
        return not self.is_error and _is_empty({key: v for key, v in (self.response or {}).items() if key != "status"})


class Blob(WireModel):
    """Bytes inside a message."""

    data: Base64Str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class FileData(WireModel):
    """A file that a message points to."""

    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class Part(WireModel):
    """One piece of a message: text, bytes, a tool call, a tool response."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", defer_build=True
    )

    text: str | None = None
    thought: bool | None = None
    """True for the model's own reasoning. ADK scores it as text all the same (spec 14, Q5)."""
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    thought_signature: Annotated[str, _IN_SCHEMAS] | None = None
    """Base64 in eval files; not checked in what agents send."""
    video_metadata: dict[str, Any] | None = None
    media_resolution: Any = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None
    media_processing: Any = None
    part_metadata: dict[str, Any] | None = None
    audio_transcription: Any = None
    speech_metadata: Any = None


_NOTHING = dict.fromkeys(Part.model_fields)


def part_of(call: FunctionCall | None = None, response: FunctionResponse | None = None) -> Part:
    """A part that is a call or a response, unchecked: in a fifth of the time, for runs of 10,000 cases."""
    part = Part.__new__(Part)
    fields = {"function_call": call} if response is None else {"function_response": response}
    object.__setattr__(part, "__dict__", _NOTHING | fields)
    object.__setattr__(part, "__pydantic_fields_set__", set(fields))
    object.__setattr__(part, "__pydantic_extra__", {})
    object.__setattr__(part, "__pydantic_private__", None)
    return part


class Content(WireModel):
    """A message."""

    role: str | None = None
    """`user` or `model`; ADK accepts any, and none."""
    parts: list[Part] | None = None

    def iter_parts(self) -> Iterator[Part]:
        """The parts; nothing when there are none."""
        return iter(self.parts or ())


def text_of(content: Content | None) -> str:
    """The text that criteria score: all non-empty text parts joined with newlines, "" for no content.

    Thought parts count, as in ADK (spec 7.2).
    """
    if content is None:
        return ""
    return "\n".join(part.text for part in content.iter_parts() if part.text)


def user_message(text: str) -> Content:
    """A user's message of one text part."""
    return Content(role="user", parts=[Part(text=text)])


def model_message(text: str) -> Content:
    """An agent's message of one text part."""
    return Content(role="model", parts=[Part(text=text)])
