"""When LiteLLM had no key: it gives such an error any status, and repeats the call."""

from __future__ import annotations

import pytest

from agent_eval_host.errors import http_status
from agent_eval_host.lite_llm import _unless_no_key

MESSAGES = {
    "OpenAIException - Missing credentials. Please pass an `api_key`, or set `OPENAI_API_KEY`": 401,
    "Missing Anthropic API Key - A call is being made to anthropic but no key is set": 401,
    "Missing Gemini API key. Set the GEMINI_API_KEY or GOOGLE_API_KEY environment variable.": 401,
    "BedrockException Invalid Authentication - Unable to locate credentials": 401,
    "Your default credentials were not found. To set up Application Default Credentials, see ...": 401,
    "The api_key client option must be set either by passing api_key to the client": 401,
    "OpenAIException - The server had an error": 500,
    "Cannot connect to host api.groq.com:443": 500,
}


class LiteLlmError(Exception):
    status_code = 500


LiteLlmError.__module__ = "litellm.exceptions"


@pytest.mark.parametrize(("message", "status"), MESSAGES.items())
async def test_http_status__of_litellm_without_a_key(message: str, status: int) -> None:
    async def retry() -> str:
        return "asked again"

    async def ask() -> str:
        try:
            raise LiteLlmError(message)
        except LiteLlmError:
            return str(await _unless_no_key(retry)())

    assert http_status(LiteLlmError(message)) == status
    assert http_status(ValueError(message)) is None
    if status == 500:
        assert await ask() == "asked again"
    else:
        with pytest.raises(LiteLlmError):
            await ask()
