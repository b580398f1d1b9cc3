"""Client for Anthropic's messages, at Anthropic or in Amazon Bedrock. Needs the extra `anthropic`, or `bedrock`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.text import whole_line
from agent_eval_scoring.models._endpoint import Endpoint
from agent_eval_scoring.models._provider import (
    SENT_TO_ANTHROPIC,
    ProviderError,
    ProviderReply,
    ProviderRequest,
    connection_error,
    error_text,
    split_system,
    status_error,
    timeout_error,
    token_count,
    version_name,
)
from agent_eval_scoring.models.protocol import ModelFailure, ModelUsage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock
    from anthropic.types import Message

_MOST_TOKENS = 4_096
"""Of a reply, where nobody says: Anthropic's API requires a limit, and the smallest models allow this one."""
_SAMPLING = ("temperature", "top_p", "top_k")
_HINT = "Set AWS_BEARER_TOKEN_BEDROCK, or use aws-actions/configure-aws-credentials before this step."
_TOOL = "reply"
"""The tool that the model must call with the reply: its arguments fit a schema, with all models since Claude 3."""


class AnthropicClient:
    """A client of one server with Anthropic's messages."""

    def __init__(self, client: AsyncAnthropic | AsyncAnthropicBedrock) -> None:
        """Wraps a client; its own retries must be off."""
        self._client = client
        self._has_tool = True
        """Whether the model may be made to call a tool; one that thinks without being asked may refuse that."""

    async def send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt."""
        import anthropic

        has_tool = self._has_tool
        try:
            async with asyncio.timeout(request.timeout):
                message: Message = await self._client.messages.create(
                    **_arguments(request, has_tool=has_tool), timeout=request.timeout
                )
        except anthropic.APIStatusError as error:
            said = _message_of(error)
            if error.status_code == 400 and has_tool and request.schema is not None and "tool_choice" in said:
                self._has_tool = False
                return await self.send(request)
            raise status_error(error.status_code, said, error.response.headers) from error
        except (TimeoutError, anthropic.APITimeoutError) as error:
            raise timeout_error(request.timeout) from error
        except anthropic.APIConnectionError as error:
            cause = error.__cause__ or error
            raise connection_error(cause, unsent=type(cause).__name__ == "ConnectError") from error
        except anthropic.APIError:
            raise  # The answer can't be parsed.
        except (anthropic.AnthropicError, RuntimeError) as error:  # Before anything is sent.
            raise ProviderError(
                f"there are no credentials: {error_text(error)}",
                kind="no-credentials",
                then="give-up",
                hint=_HINT,
                sent=False,
            ) from error
        return _parse(message)

    async def close(self) -> None:
        """Closes connections."""
        await self._client.close()


def _arguments(request: ProviderRequest, *, has_tool: bool) -> dict[str, Any]:
    fields, system = split_system(request.config, request.system)
    arguments: dict[str, Any] = {SENT_TO_ANTHROPIC[name]: value for name, value in fields.items()}
    # anthropic 2 has no parameters for how to sample; the API of many models takes them.
    arguments["extra_body"] = {name: arguments.pop(name) for name in _SAMPLING if name in arguments}
    if request.schema is not None and has_tool:
        tool = {"name": _TOOL, "description": "Your reply.", "input_schema": dict(request.schema)}
        arguments |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
    elif request.schema is not None:
        instruction = f"Reply with one JSON value that fits this JSON Schema: {json.dumps(request.schema)}"
        system = f"{system}\n\n{instruction}" if system else instruction
    arguments |= {"system": system} if system else {}
    messages = [{"role": "user", "content": request.prompt}]
    return {"max_tokens": _MOST_TOKENS, "model": request.model, "messages": messages, **arguments}


def _parse(message: Message) -> ProviderReply:
    """Parses a reply.

    Raises:
        Exception: Of any type; the reply violates the API's contract.
    """
    blocks = message.content
    called = [json.dumps(block.input, ensure_ascii=False) for block in blocks if block.type == "tool_use"]
    texts = called[:1] or [block.text for block in blocks if block.type == "text"]
    reply = ProviderReply(
        text="".join(texts), usage=_usage(message.usage), model_version=version_name(getattr(message, "model", None))
    )
    if message.stop_reason == "max_tokens":
        return reply.truncated("the reply ended at the token limit (max_tokens)")
    if message.stop_reason == "refusal":
        return reply.refused("the model refused")
    return reply


def _usage(usage: Any) -> ModelUsage:
    """Anthropic counts tokens that its cache has, or gets, apart from the others."""
    parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [token_count(getattr(usage, name, None)) for name in parts]
    return ModelUsage(
        input_tokens=None if counts[0] is None else sum(count or 0 for count in counts),
        output_tokens=token_count(getattr(usage, "output_tokens", None)),
        cached_tokens=counts[1],
    )


def _message_of(error: Any) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    inner = body.get("error") if isinstance(body.get("error"), Mapping) else body
    message = inner.get("message") if isinstance(inner, Mapping) else None
    return whole_line(str(message or error.message))


def _check_credentials(endpoint: Endpoint) -> None:
    """Looks for AWS's credentials where its packages do, if there is no API key: before an agent runs in vain.

    Raises:
        ModelFailure: There are none, or what names them is wrong.
    """
    if endpoint.api_key is not None:
        return
    import botocore.exceptions
    import botocore.session

    try:
        said = "" if botocore.session.get_session().get_credentials() is not None else "none was found"
    except botocore.exceptions.BotoCoreError as error:
        said = error_text(error)
    if said:
        message = f"`{endpoint.name.written}` needs an API key for bedrock, or AWS's credentials: {said}."
        raise ModelFailure("no-credentials", message, _HINT)


def open_anthropic(endpoint: Endpoint, *, connections: int) -> AnthropicClient:
    """Creates the client. Run it in a thread: it imports anthropic."""
    import anthropic
    import httpx2

    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    shared: dict[str, Any] = {
        "api_key": endpoint.api_key,
        "base_url": endpoint.base_url,
        "max_retries": 0,
        "http_client": anthropic.DefaultAsyncHttpxClient(limits=limits),
        "open_telemetry": False,
    }
    if endpoint.provider.name == "bedrock":
        _check_credentials(endpoint)
        return AnthropicClient(anthropic.AsyncAnthropicBedrock(aws_region=endpoint.location, **shared))
    return AnthropicClient(anthropic.AsyncAnthropic(**shared))
