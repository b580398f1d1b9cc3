"""Everything with OpenAI's chat completions: OpenAI, Azure, Ollama, vLLM, gateways. Needs the extra `openai`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval.core.text import first_line
from agent_eval.models._endpoint import Endpoint
from agent_eval.models._generation import SENT_TO_OPENAI, split_system
from agent_eval.models._provider import Ask, Told, Trouble, said, status_trouble, token_count, version_name
from agent_eval.models.protocol import ModelUsage

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion


class OpenAIClient:
    """One address with OpenAI's API."""

    def __init__(self, client: AsyncOpenAI, *, has_json_schema: bool = True, is_openai: bool = True) -> None:
        """Takes a client that does not retry by itself.

        Args:
            client: Of the official package.
            has_json_schema: Whether the server takes a schema for the reply.
            is_openai: Whether it is OpenAI's own service; others know the limit of tokens by its older name only.
        """
        self._client = client
        self._has_json_schema = has_json_schema
        self._is_openai = is_openai

    async def ask(self, ask: Ask) -> Told:
        """Makes one attempt."""
        import openai

        try:
            async with asyncio.timeout(ask.timeout):
                response: ChatCompletion = await self._client.chat.completions.create(
                    **self._arguments(ask), timeout=ask.timeout
                )
        except openai.APIStatusError as error:
            if _is_filter(error.body):
                nothing = Told(text="", usage=ModelUsage(), model_version=None)
                return nothing.refused(f"the content filter refused the prompt: {_words(error)}")
            raise status_trouble(error.status_code, _words(error), error.response.headers) from error
        except (TimeoutError, openai.APITimeoutError) as error:
            raise Trouble(f"no answer within {round(ask.timeout, 1):g} s", kind="deadline", again=True) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            unsent = type(cause).__name__ == "ConnectError"
            what = "no connection" if unsent else "the connection broke"
            raise Trouble(f"{what}: {said(cause)}", again=True, sent=not unsent) from error
        return _told(response)

    def _arguments(self, ask: Ask) -> dict[str, Any]:
        fields, system = split_system(ask.config, ask.system)
        arguments: dict[str, Any] = {SENT_TO_OPENAI[name]: value for name, value in fields.items()}
        if not self._is_openai and "max_completion_tokens" in arguments:
            arguments["max_tokens"] = arguments.pop("max_completion_tokens")
        if ask.schema is not None and self._has_json_schema:
            arguments["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": dict(ask.schema), "strict": is_strict(ask.schema)},
            }
        elif ask.schema is not None:
            arguments["response_format"] = {"type": "json_object"}
            shown = f"Reply with one JSON value that fits this JSON Schema: {json.dumps(ask.schema)}"
            system = f"{system}\n\n{shown}" if system else shown
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": ask.prompt})
        return {"model": ask.model, "messages": messages, **arguments}

    async def close(self) -> None:
        """Gives up connections."""
        await self._client.close()


def is_strict(schema: Any) -> bool:
    """Whether OpenAI takes a schema in its strict mode: every object closed, every property required
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


def _told(response: ChatCompletion) -> Told:
    """Reads a reply.

    Raises:
        Exception: Of any type; the reply is not what the API describes.
    """
    if not getattr(response, "choices", None):
        # The client builds its models without checking them: a proxy's page arrives as text, an error as an object.
        raise ValueError("it has no choices")
    choice = response.choices[0]
    message = choice.message
    told = Told(text=_text(message.content), usage=_usage(response.usage), model_version=version_name(response.model))
    if choice.finish_reason == "length":
        return told.truncated("the reply ended at the token limit (length)")
    if choice.finish_reason == "content_filter":
        return told.refused("the content filter stopped the reply")
    if message.refusal:
        return told.refused(f"the model refused: {first_line(message.refusal)}")
    return told


def _text(content: Any) -> str:
    """The reply's text. Mistral's reasoning models send a list of parts, thoughts among them."""
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
        # Chat completions count reasoning among the completion's tokens.
        output_tokens=None if output is None else max(0, output - (thoughts or 0)),
        cached_tokens=token_count(getattr(prompt, "cached_tokens", None)),
        thought_tokens=thoughts,
    )


def _words(error: Any) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return first_line(str(message or error.message))


def _is_filter(body: Any) -> bool:
    return isinstance(body, dict) and body.get("code") in ["content_filter", "content_policy_violation"]  # any type


def open_openai(endpoint: Endpoint, *, connections: int) -> OpenAIClient:
    """Makes the client. Imports openai (about half a second): run it in a thread."""
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    http_client = openai.DefaultAsyncHttpxClient(limits=limits)
    key = endpoint.api_key or "none"  # The client insists; a server of one's own ignores it.
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
            base_url += "/openai/v1"  # Azure's own form of the undated API.
        client = openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http_client)
    return OpenAIClient(
        client,
        has_json_schema=endpoint.provider.has_json_schema,
        is_openai=endpoint.provider.name == "azure" or base_is_openai(endpoint),
    )


def base_is_openai(endpoint: Endpoint) -> bool:
    """Whether it is OpenAI's own service."""
    return endpoint.base_url == "https://api.openai.com/v1"
