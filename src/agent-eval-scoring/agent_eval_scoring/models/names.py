"""Model names as ADK users write them, and which provider serves each.

The forms are those that google-adk 2.13.0 resolves (its registry's patterns, measured) and LiteLLM's `provider/model`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

VERTEX_EVAL = "vertex-eval"
"""The model name of Vertex AI's evaluation service, which scores a few metrics and is no general model
(vertex_eval.py)."""

Protocol = Literal["gemini", "openai", "azure", "anthropic", "vertex-eval"]


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A model provider, with the environment variables that LiteLLM uses for its key and base URL."""

    name: str
    protocol: Protocol
    key_variables: tuple[str, ...] = ()
    """Environment variables for the key; the first one that is set wins."""
    base_url_variables: tuple[str, ...] = ()
    base_url: str | None = None
    """The default base URL."""
    needs_key: bool = True
    """False for self-hosted servers, which usually need no key."""
    has_json_schema: bool = True
    """Whether it accepts a JSON Schema for the reply; otherwise the schema is part of the prompt."""


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="gemini",
            protocol="gemini",
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            base_url_variables=("GOOGLE_GEMINI_BASE_URL",),
        ),
        Provider(
            name="vertex_ai",
            protocol="gemini",
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            base_url_variables=("GOOGLE_VERTEX_BASE_URL",),
            needs_key=False,
        ),
        Provider(
            name="openai",
            protocol="openai",
            key_variables=("OPENAI_API_KEY",),
            base_url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            base_url="https://api.openai.com/v1",
        ),
        Provider(
            name="azure",
            protocol="azure",
            key_variables=("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
            base_url_variables=("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"),
        ),
        Provider(
            name="anthropic",
            protocol="anthropic",
            key_variables=("ANTHROPIC_API_KEY",),
            base_url_variables=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
            base_url="https://api.anthropic.com",
        ),
        Provider(
            name="bedrock",
            protocol="anthropic",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
            base_url_variables=("AWS_BEDROCK_RUNTIME_ENDPOINT", "ANTHROPIC_BEDROCK_BASE_URL"),
            needs_key=False,
        ),
        Provider(
            name="ollama",
            protocol="openai",
            key_variables=("OLLAMA_API_KEY",),
            base_url_variables=("OLLAMA_API_BASE",),
            base_url="http://localhost:11434",
            needs_key=False,
        ),
        Provider(
            name="hosted_vllm",
            protocol="openai",
            key_variables=("HOSTED_VLLM_API_KEY",),
            base_url_variables=("HOSTED_VLLM_API_BASE",),
            needs_key=False,
        ),
        Provider(
            name="groq", protocol="openai", key_variables=("GROQ_API_KEY",), base_url="https://api.groq.com/openai/v1"
        ),
        Provider(
            name="mistral", protocol="openai", key_variables=("MISTRAL_API_KEY",), base_url="https://api.mistral.ai/v1"
        ),
        Provider(
            name="deepseek",
            protocol="openai",
            key_variables=("DEEPSEEK_API_KEY",),
            base_url="https://api.deepseek.com/v1",
            has_json_schema=False,
        ),
        Provider(
            name="openrouter",
            protocol="openai",
            key_variables=("OPENROUTER_API_KEY",),
            base_url="https://openrouter.ai/api/v1",
        ),
        Provider(name="xai", protocol="openai", key_variables=("XAI_API_KEY",), base_url="https://api.x.ai/v1"),
    )
}
"""By the prefix of the model name. Sources: docs.litellm.ai/docs/providers for variables and prefixes, the providers'
documentation for URLs."""

EVALUATION = Provider(
    name="vertex_ai_evaluation", protocol="vertex-eval", base_url_variables=("GOOGLE_VERTEX_BASE_URL",), needs_key=False
)
"""Not in PROVIDERS: it has no models."""

_OTHER_SPELLINGS = {"ollama_chat": "ollama", "vertex_ai_beta": "vertex_ai", "azure_ai": "azure", "vllm": "hosted_vllm"}

_VERTEX_PATH = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/"
    r"(?:endpoints/[^/]+|publishers/(?P<publisher>[^/]+)/models/(?P<model>[^/]+))"
)
_GEMINI = re.compile(r"(gemini-|gemma-4|model-optimizer-).*")
_OF_BEDROCK = re.compile(
    r"(?:converse/|invoke/)?(?:(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)/)?"
    r"(?P<model>(?:[\w-]+\.)?anthropic\.[\w.:-]+|arn:aws[\w-]*:bedrock:.+)"
)
"""Models and inference profiles there; LiteLLM's names may begin with the interface and the region."""
_OPENAI = re.compile(r"(gpt-|chatgpt-|o[1-9](-|$)).*")


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """A parsed model name."""

    written: str
    """The name as the user wrote it."""
    provider: Provider | None
    """None: `gemini` or `vertex_ai`, depending on the environment (provider_of)."""
    model: str
    """The provider's own name of the model."""
    project: str | None = None
    location: str | None = None
    """Of a full Vertex resource name, which fixes the location, or a region of Bedrock."""

    @property
    def price_key(self) -> str:
        """The key in the price table: the bare name of Google's and OpenAI's models, else `provider/model`."""
        bare = self.model.rpartition("/")[2]
        if self.provider is None or self.provider.name in {"gemini", "vertex_ai", "openai", EVALUATION.name}:
            return bare
        return f"{self.provider.name}/{self.model}"


def parse_model(name: str) -> ModelName:
    """Parses a model name.

    Raises:
        ValueError: No supported provider; the message lists the supported forms.
    """
    text = name.strip()
    if text == VERTEX_EVAL:
        return ModelName(written=name, provider=EVALUATION, model=text)
    if match := _VERTEX_PATH.fullmatch(text):
        if match["publisher"] not in {None, "google"}:
            raise ValueError(f"`{name}`: on Vertex AI only Google's own models are supported")
        return ModelName(
            written=name,
            provider=PROVIDERS["vertex_ai"],
            model=text,
            project=match["project"],
            location=match["location"],
        )
    bare = text.removeprefix("models/")
    if _GEMINI.fullmatch(bare) and "/" not in bare:
        return ModelName(written=name, provider=None, model=bare)
    if _OPENAI.fullmatch(text) and "/" not in text:
        return ModelName(written=name, provider=PROVIDERS["openai"], model=text)
    prefix, slash, model = text.partition("/")
    provider = PROVIDERS.get(_OTHER_SPELLINGS.get(prefix, prefix))
    if provider is PROVIDERS["bedrock"] and model:
        if (of_anthropic := _OF_BEDROCK.fullmatch(model)) is None:
            raise ValueError(f"`{name}`: on Bedrock only Anthropic's models are supported (bedrock/anthropic.MODEL)")
        where, what = of_anthropic["region"], of_anthropic["model"]
        return ModelName(written=name, provider=provider, model=what, location=where)
    if provider is PROVIDERS["vertex_ai"] and model.startswith("claude"):
        raise ValueError(f"`{name}`: on Vertex AI only Google's own models are supported")
    if slash and model and provider is not None:
        return ModelName(written=name, provider=provider, model=model)
    prefixes = ", ".join(PROVIDERS)
    raise ValueError(
        f"`{name}` is not a supported model: use a Gemini name (gemini-2.5-flash), a full Vertex AI resource "
        f"name, or PROVIDER/MODEL with one of {prefixes}"
    )
