"""Model names and their providers."""

from __future__ import annotations

import pytest

from agent_eval.models.names import parse_model


@pytest.mark.parametrize(
    ("name", "provider", "model", "price"),
    [
        ("gemini-2.5-flash", None, "gemini-2.5-flash", "gemini-2.5-flash"),
        (" gemini-2.5-flash ", None, "gemini-2.5-flash", "gemini-2.5-flash"),
        ("models/gemini-2.5-flash", None, "gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemma-4-27b", None, "gemma-4-27b", "gemma-4-27b"),
        ("model-optimizer-exp", None, "model-optimizer-exp", "model-optimizer-exp"),
        ("gemini/gemini-2.5-pro", "gemini", "gemini-2.5-pro", "gemini-2.5-pro"),
        ("vertex_ai/gemini-2.5-pro", "vertex_ai", "gemini-2.5-pro", "gemini-2.5-pro"),
        ("gpt-5-mini", "openai", "gpt-5-mini", "gpt-5-mini"),
        ("o3", "openai", "o3", "o3"),
        ("openai/org/llama", "openai", "org/llama", "llama"),
        ("azure/judge-deployment", "azure", "judge-deployment", "azure/judge-deployment"),
        ("ollama_chat/llama3:8b", "ollama", "llama3:8b", "ollama/llama3:8b"),
        ("openrouter/meta/llama", "openrouter", "meta/llama", "openrouter/meta/llama"),
    ],
)
def test_names__parse_model(name: str, provider: str | None, model: str, price: str) -> None:
    parsed = parse_model(name)
    assert (parsed.provider.name if parsed.provider else None, parsed.model, parsed.price_key) == (
        provider,
        model,
        price,
    )
    assert parsed.written == name


@pytest.mark.parametrize(
    ("name", "project", "location", "price"),
    [
        ("projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro", "p-1", "europe-west4", None),
        ("projects/p-1/locations/us-central1/endpoints/4711", "p-1", "us-central1", "4711"),
    ],
)
def test_parse_model__full_vertex_name(name: str, project: str, location: str, price: str | None) -> None:
    parsed = parse_model(name)
    assert parsed.provider is not None and parsed.provider.name == "vertex_ai"
    assert (parsed.model, parsed.project, parsed.location) == (name, project, location)
    assert parsed.price_key == (price or "gemini-2.5-pro")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gemnini-2.5-flash",
        "unknown/model",
        "openai/",
        "/gpt-5",
        "claude-4",
        "gemini-2.5-flash/../../x",
        "projects/p/locations/l/publishers/anthropic/models/claude-4",
        "projects/p/models/m",
    ],
)
def test_parse_model__refuses(name: str) -> None:
    with pytest.raises(ValueError, match="model"):
        parse_model(name)
