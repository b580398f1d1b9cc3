"""Gemini through google-genai: the Gemini API with a key, Vertex AI with a key or application default credentials."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_eval.core.text import first_line
from agent_eval.models._endpoint import Endpoint
from agent_eval.models._generation import split_system
from agent_eval.models._provider import Ask, Told, Trouble, said, status_trouble, token_count, told_delay, version_name
from agent_eval.models.protocol import ModelFailure, ModelUsage

if TYPE_CHECKING:
    from google.genai import Client, errors, types

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_REFUSALS = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
}
"""Finish reasons that mean: this text will not be given out."""


class GeminiClient:
    """One project or key of google-genai."""

    def __init__(self, client: Client) -> None:
        """Takes a client of google-genai that does not retry by itself."""
        self._client = client

    async def ask(self, ask: Ask) -> Told:
        """Makes one attempt."""
        import httpx2
        from google.auth.exceptions import GoogleAuthError
        from google.genai import errors
        from pydantic import ValidationError

        try:
            config = _config(ask)
        except ValidationError as error:
            raise Trouble(
                f"judge_model_config is not what google-genai takes: {_first_error(error)}",
                kind="invalid-request",
                sent=False,
            ) from error
        try:
            async with asyncio.timeout(ask.timeout):
                response = await self._client.aio.models.generate_content(
                    model=ask.model, contents=ask.prompt, config=config
                )
        except errors.APIError as error:
            raise _api_trouble(error) from error
        except TimeoutError as error:
            raise Trouble(f"no answer within {round(ask.timeout, 1):g} s", kind="deadline", again=True) from error
        except httpx2.ConnectError as error:
            raise Trouble(f"no connection: {said(error)}", again=True, sent=False) from error
        except httpx2.TransportError as error:
            raise Trouble(f"the connection broke: {said(error)}", again=True) from error
        except GoogleAuthError as error:
            raise Trouble(
                f"Google's credentials did not work: {said(error)}",
                kind="no-credentials",
                again=bool(getattr(error, "retryable", False)),
                hopeless=not getattr(error, "retryable", False),
                hint="Check the service account or the workload identity that the job uses.",
                sent=False,
            ) from error
        return _told(response)

    async def close(self) -> None:
        """Gives up connections."""
        await self._client.aio.aclose()
        self._client.close()


def _config(ask: Ask) -> types.GenerateContentConfig:
    from google.genai import types

    fields, system = split_system(ask.config, ask.system)
    config = types.GenerateContentConfig(
        **fields,
        system_instruction=system,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        http_options=types.HttpOptions(
            timeout=max(1, round(ask.timeout * 1000)),
            # Repeating is ours, so that every attempt is counted; without this google-genai may do it on its own.
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )
    if ask.schema is not None:
        config.response_mime_type = "application/json"
        config.response_json_schema = dict(ask.schema)
    return config


def _told(response: types.GenerateContentResponse) -> Told:
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
        nothing = Told(text="", usage=counts, model_version=version_name(response.model_version))
        return nothing.refused(f"the prompt was blocked ({reason})") if reason else nothing
    candidate = response.candidates[0]
    reason = _word(candidate.finish_reason)
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    told = Told(text=text, usage=counts, model_version=version_name(response.model_version))
    if reason in _REFUSALS:
        return told.refused(f"the reply was blocked ({reason})")
    if reason == "MAX_TOKENS":
        return told.truncated("the reply ended at the token limit (MAX_TOKENS)")
    return told


def _word(value: Any) -> str:
    return "" if value is None else str(getattr(value, "value", value))


def _api_trouble(error: errors.APIError) -> Trouble:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    message = first_line(str(error.message or ""))
    return status_trouble(error.code or 0, message, headers, wait=told_delay(error.details))


def _first_error(error: Any) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"


def open_gemini(endpoint: Endpoint, *, connections: int) -> GeminiClient:
    """Makes the client. Imports google-genai (about a second) and may ask the machine for credentials: run it in a
    thread.

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
    if endpoint.provider.name == "gemini":
        return GeminiClient(genai.Client(vertexai=False, api_key=endpoint.api_key, http_options=options))
    if endpoint.api_key is not None:
        return GeminiClient(genai.Client(vertexai=True, api_key=endpoint.api_key, http_options=options))
    credentials, project = google_credentials(endpoint)
    client = genai.Client(
        vertexai=True,
        credentials=credentials,
        project=project,
        location=endpoint.location,
        http_options=options,
    )
    return GeminiClient(client)


def google_credentials(endpoint: Endpoint) -> tuple[Any, str]:
    """Application default credentials, and the project. May ask the machine for them: run it in a thread.

    Raises:
        ModelFailure: `no-credentials`.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    only = endpoint.provider.protocol == "vertex-eval"
    try:
        # It reads the process's own environment and the machine's metadata server; there is no way to hand it others
        # that works for every kind of credentials.
        credentials, project = google.auth.default(scopes=[_SCOPE])
    except (GoogleAuthError, OSError, ValueError) as error:
        raise ModelFailure(
            "no-credentials",
            f"`{endpoint.name.given}` is asked through Vertex AI, and there are no credentials: {said(error)}",
            "Use google-github-actions/auth before this step"
            + ("." if only else ", or give an API key as `judge-api-key`."),
        ) from error
    if not (endpoint.project or project):
        raise ModelFailure(
            "no-credentials",
            f"`{endpoint.name.given}` is asked through Vertex AI, and no project is known.",
            "Set GOOGLE_CLOUD_PROJECT.",
        )
    return credentials, str(endpoint.project or project)
