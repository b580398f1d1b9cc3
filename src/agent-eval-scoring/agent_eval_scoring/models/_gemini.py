"""Gemini through google-genai: the Gemini API with a key, Vertex AI with a key or application default credentials."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.text import whole_line
from agent_eval_scoring.models._endpoint import Endpoint
from agent_eval_scoring.models._provider import (
    ProviderError,
    ProviderReply,
    ProviderRequest,
    connection_error,
    credentials_rejected,
    error_text,
    retry_info_delay,
    split_system,
    status_error,
    timeout_error,
    token_count,
    version_name,
)
from agent_eval_scoring.models.protocol import ModelFailure, ModelUsage

if TYPE_CHECKING:
    from google.genai import Client, errors, types

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_REFUSALS = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"}
"""Finish reasons of withheld replies."""


class GeminiClient:
    """A google-genai client of one project or key."""

    def __init__(self, client: Client) -> None:
        """Wraps a google-genai client; its own retries must be off."""
        self._client = client

    async def send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt."""
        from google.auth.exceptions import GoogleAuthError
        from google.genai import errors
        from pydantic import ValidationError

        connect_errors, transport_errors = _http_errors("ConnectError"), _http_errors("TransportError")
        try:
            config = _config(request)
        except ValidationError as error:
            raise ProviderError(
                f"google-genai rejects judge_model_config: {_first_error(error)}", kind="invalid-request", sent=False
            ) from error
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._client.aio.models.generate_content(
                    model=request.model, contents=request.prompt, config=config
                )
        except errors.APIError as error:
            raise _api_error(error) from error
        except TimeoutError as error:
            raise timeout_error(request.timeout) from error
        except connect_errors as error:
            raise connection_error(error, unsent=True) from error
        except transport_errors as error:
            raise connection_error(error, unsent=False) from error
        except GoogleAuthError as error:
            raise credentials_rejected(error) from error
        return _parse(response)

    async def close(self) -> None:
        """Closes connections."""
        await self._client.aio.aclose()
        self._client.close()


def _config(request: ProviderRequest) -> types.GenerateContentConfig:
    from google.genai import types

    fields, system = split_system(request.config, request.system)
    config = types.GenerateContentConfig(
        **fields,
        system_instruction=system,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        http_options=types.HttpOptions(
            timeout=max(1, round(request.timeout * 1000)),
            # The channel retries, so that every attempt is counted; google-genai would retry by default.
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )
    if request.schema is not None:
        config.response_mime_type = "application/json"
        config.response_json_schema = dict(request.schema)
    return config


def _parse(response: types.GenerateContentResponse) -> ProviderReply:
    usage = response.usage_metadata
    counts = ModelUsage(
        input_tokens=token_count(usage.prompt_token_count) if usage else None,
        output_tokens=token_count(usage.candidates_token_count) if usage else None,
        cached_tokens=token_count(usage.cached_content_token_count) if usage else None,
        thought_tokens=token_count(usage.thoughts_token_count) if usage else None,
    )
    if not response.candidates:
        feedback = response.prompt_feedback
        reason = _word(feedback.block_reason) if feedback else ""
        empty = ProviderReply(text="", usage=counts, model_version=version_name(response.model_version))
        return empty.refused(f"the prompt was blocked ({reason})") if reason else empty
    candidate = response.candidates[0]
    reason = _word(candidate.finish_reason)
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    reply = ProviderReply(text=text, usage=counts, model_version=version_name(response.model_version))
    if reason in _REFUSALS:
        return reply.refused(f"the reply was blocked ({reason})")
    if reason == "MAX_TOKENS":
        return reply.truncated("the reply ended at the token limit (MAX_TOKENS)")
    return reply


def _word(value: Any) -> str:
    return "" if value is None else str(getattr(value, "value", value))


def _api_error(error: errors.APIError) -> ProviderError:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    message = whole_line(str(error.message or ""))
    return status_error(error.code or 0, message, headers, wait=retry_info_delay(error.details))


def _first_error(error: Any) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


@functools.cache
def _http_errors(name: str) -> tuple[type[Exception], ...]:
    """Exception classes of google-genai's HTTP clients: httpx2, and before version 3 also httpx if it is installed."""
    clients = [importlib.import_module("httpx2")]
    with contextlib.suppress(ImportError):
        clients.append(importlib.import_module("httpx"))
    return tuple(getattr(client, name) for client in clients)


def open_gemini(endpoint: Endpoint, *, connections: int) -> GeminiClient:
    """Creates the client. Run it in a thread: it imports google-genai (about a second) and may query the metadata
    server for credentials.

    Raises:
        ModelFailure: `no-credentials`.
    """
    import httpx2
    from google import genai
    from google.genai import types

    options = types.HttpOptions(
        base_url=endpoint.base_url,
        retry_options=types.HttpRetryOptions(attempts=1),
        async_client_args={"limits": httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)},
    )
    _warm_up()
    if endpoint.provider.name == "gemini":
        return GeminiClient(genai.Client(vertexai=False, api_key=endpoint.api_key, http_options=options))
    if endpoint.api_key is not None:
        return GeminiClient(genai.Client(vertexai=True, api_key=endpoint.api_key, http_options=options))
    credentials, project = google_credentials(endpoint)
    client = genai.Client(
        vertexai=True, credentials=credentials, project=project, location=endpoint.location, http_options=options
    )
    return GeminiClient(client)


def _warm_up() -> None:
    """Has google-genai build what its first request and reply need, which would stop the event loop for 0.1 s."""
    from google.genai import types

    _config(ProviderRequest(model="", prompt="", timeout=1.0))
    types.GenerateContentResponse.model_validate({"candidates": [{"content": {"parts": [{"text": ""}]}}]})
    _http_errors("ConnectError")


def google_credentials(endpoint: Endpoint) -> tuple[Any, str]:
    """Returns application default credentials and the project. Run it in a thread: it may query the metadata server.

    Raises:
        ModelFailure: `no-credentials`.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    only = endpoint.provider.protocol == "vertex-eval"
    try:
        # It reads the process's environment and the metadata server. No other source works for every kind of
        # credentials.
        credentials, project = google.auth.default(scopes=[_SCOPE])
    except (GoogleAuthError, OSError, ValueError) as error:
        raise ModelFailure(
            "no-credentials",
            f"`{endpoint.name.written}` is called through Vertex AI, and credentials are missing: {error_text(error)}",
            "Use google-github-actions/auth before this step"
            + ("." if only else ", or give an API key as `judge-api-key`."),
        ) from error
    if not (endpoint.project or project):
        raise ModelFailure(
            "no-credentials",
            f"`{endpoint.name.written}` is called through Vertex AI, and the project is unknown.",
            "Set GOOGLE_CLOUD_PROJECT.",
        )
    return credentials, str(endpoint.project or project)
