"""A model without a network: what it answers is a function of the request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

Script = Callable[[str, int, Any], Any]


def asked(llm_request: Any) -> str:
    """The user's last own words."""
    for content in reversed(llm_request.contents):
        for part in content.parts or []:
            if content.role == "user" and part.text and not part.text.startswith("For context"):
                return str(part.text)
    return ""


def answered(llm_request: Any) -> int:
    """How many tool responses came since those words."""
    count = 0
    for content in reversed(llm_request.contents):
        for part in content.parts or []:
            if part.function_response:
                count += 1
            elif content.role == "user" and part.text and not part.text.startswith("For context"):
                return count
    return count


def text(value: str) -> types.Part:
    return types.Part(text=value)


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def reply(*parts: types.Part, **more: Any) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=10, candidates_token_count=5)
    return LlmResponse(
        content=types.Content(role="model", parts=list(parts)) if parts else None,
        usage_metadata=usage,
        model_version="scripted-1",
        **more,
    )


class Scripted(BaseLlm):  # type: ignore[misc]
    """Calls `script(asked, answered, request)`, which gives a response or the list of a streamed one."""

    script: Any = None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        said = self.script(asked(llm_request), answered(llm_request), llm_request)
        for response in said if isinstance(said, list) else [said]:
            yield response


def scripted(script: Script) -> Scripted:
    return Scripted(model="scripted", script=script)
