"""Client for OpenAI-compatible chat completions: OpenAI, Azure, Ollama, vLLM, gateways. Needs the extra `openai`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.text import whole_line
from agent_eval_scoring.models._endpoint import Endpoint, is_openai
from agent_eval_scoring.models._provider import (
    SENT_TO_OPENAI,
    ProviderReply,
    ProviderRequest,
    connection_error,
    split_system,
    status_error,
    timeout_error,
    token_count,
    version_name,
)
from agent_eval_scoring.models.protocol import ModelUsage

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion


_FILTERED = re.compile(r"(?i)content management policy|content.?policy.?violation|content filter(ing|ed)|safety system")
"""What the filters of Azure, OpenAI and Anthropic say; a gateway such as LiteLLM leaves their code out."""
_FORMAT = re.compile(r"response_format|json_schema|json_object")


class OpenAIClient:
    """A client of one server with OpenAI's API."""

    def __init__(self, client: AsyncOpenAI, *, has_json_schema: bool = True, is_openai: bool = True) -> None:
        """Wraps a client; its own retries must be off.

        Args:
            client: A client of the openai package.
            has_json_schema: Whether the server accepts a schema for the reply.
            is_openai: Whether it is OpenAI's own service; other servers know the token limit only as `max_tokens`.
        """
        self._client = client
        self._formats = ["json_schema", "json_object", ""][not has_json_schema : 1 if is_openai else None]
        """Of replies: the first one is asked for. A server that refuses it is asked for the next one from then on."""
        self._is_openai = is_openai

    async def send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt."""
        import openai

        asked = self._formats[0]
        try:
            async with asyncio.timeout(request.timeout):
                response: ChatCompletion = await self._client.chat.completions.create(
                    **self._arguments(request), timeout=request.timeout
                )
        except openai.APIStatusError as error:
            if request.schema is not None and _refuses_format(error):
                if self._formats[0] == asked:  # Another attempt may have noticed it.
                    self._formats = self._formats[1:] or [asked]
                if self._formats[0] != asked:
                    return await self.send(request)
            if _is_filter(error):
                empty = ProviderReply(text="", usage=ModelUsage(), model_version=None)
                return empty.refused(f"the content filter refused the prompt: {_message_of(error)}")
            raise status_error(error.status_code, _message_of(error), error.response.headers) from error
        except (TimeoutError, openai.APITimeoutError) as error:
            raise timeout_error(request.timeout) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise connection_error(cause, unsent=type(cause).__name__ == "ConnectError") from error
        return _parse(response)

    def _arguments(self, request: ProviderRequest) -> dict[str, Any]:
        fields, system = split_system(request.config, request.system)
        arguments: dict[str, Any] = {SENT_TO_OPENAI[name]: value for name, value in fields.items()}
        if not self._is_openai and "max_completion_tokens" in arguments:
            arguments["max_tokens"] = arguments.pop("max_completion_tokens")
        if request.schema is not None and self._formats[0] == "json_schema":
            arguments["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": dict(request.schema), "strict": is_strict(request.schema)},
            }
        elif request.schema is not None:
            arguments |= {"response_format": {"type": "json_object"}} if self._formats[0] else {}
            instruction = f"Reply with one JSON value that fits this JSON Schema: {json.dumps(request.schema)}"
            system = f"{system}\n\n{instruction}" if system else instruction
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": request.prompt})
        return {"model": request.model, "messages": messages, **arguments}

    async def close(self) -> None:
        """Closes connections."""
        await self._client.close()


def is_strict(schema: Any) -> bool:
    """Whether OpenAI accepts a schema in strict mode: every object closed, every property required
    (platform.openai.com/docs/guides/structured-outputs).
    """
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties", {})
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
                return False
            return all(is_strict(value) for value in properties.values())
        return all(is_strict(value) for value in schema.values())
    return all(is_strict(item) for item in schema) if isinstance(schema, list) else True


def _parse(response: ChatCompletion) -> ProviderReply:
    """Parses a reply.

    Raises:
        Exception: Of any type; the reply violates the API's contract.
    """
    if not getattr(response, "choices", None):
        # The openai package doesn't validate: a proxy's HTML page arrives as text, an error as an object.
        raise ValueError("it has no choices")
    choice = response.choices[0]
    message = choice.message
    reply = ProviderReply(
        text=_text(message.content), usage=_usage(response.usage), model_version=version_name(response.model)
    )
    if choice.finish_reason == "length":
        return reply.truncated("the reply ended at the token limit (length)")
    if choice.finish_reason == "content_filter":
        return reply.refused("the content filter stopped the reply")
    if message.refusal:
        return reply.refused(f"the model refused: {whole_line(message.refusal)}")
    return reply


def _text(content: Any) -> str:
    """Returns the reply's text. Mistral's reasoning models send a list of parts that includes thoughts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"its content is of type {type(content).__name__}")
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "".join(texts)


def _usage(usage: CompletionUsage | None) -> ModelUsage:
    prompt = getattr(usage, "prompt_tokens_details", None)
    details = getattr(usage, "completion_tokens_details", None)
    thoughts = token_count(getattr(details, "reasoning_tokens", None))
    output = token_count(getattr(usage, "completion_tokens", None))
    return ModelUsage(
        input_tokens=token_count(getattr(usage, "prompt_tokens", None)),
        # Chat completions include reasoning tokens in the completion's count.
        output_tokens=None if output is None else max(0, output - (thoughts or 0)),
        cached_tokens=token_count(getattr(prompt, "cached_tokens", None)),
        thought_tokens=thoughts,
    )


def _message_of(error: Any) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return whole_line(str(message or error.message))


def _is_filter(error: Any) -> bool:
    body = error.body
    if isinstance(body, dict) and body.get("code") in ["content_filter", "content_policy_violation"]:  # any type
        return True
    return error.status_code == 400 and _FILTERED.search(_message_of(error)) is not None


def _refuses_format(error: Any) -> bool:
    return error.status_code in {400, 422} and _FORMAT.search(f"{error.body} {error.message}") is not None


def open_openai(endpoint: Endpoint, *, connections: int) -> OpenAIClient:
    """Creates the client. Run it in a thread: it imports openai (about half a second)."""
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    http_client = openai.DefaultAsyncHttpxClient(limits=limits)
    key = endpoint.api_key or "none"  # The client requires a key; self-hosted servers ignore it.
    client: AsyncOpenAI
    if endpoint.api_version is not None:
        client = openai.AsyncAzureOpenAI(
            api_key=key,
            azure_endpoint=endpoint.base_url or "",
            api_version=endpoint.api_version,
            max_retries=0,
            http_client=http_client,
        )
    else:
        base_url = endpoint.base_url or ""
        if endpoint.provider.name == "azure" and "/openai" not in base_url:
            base_url += "/openai/v1"  # Azure's path of the API without a version date.
        client = openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http_client)
    return OpenAIClient(
        client,
        has_json_schema=endpoint.provider.has_json_schema,
        is_openai=endpoint.provider.name == "azure" or is_openai(endpoint.base_url),
    )
