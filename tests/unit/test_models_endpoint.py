"""URL and key of a model, from settings and environment alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.models._endpoint import key_owner, resolve
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import ModelSettings

PLAIN = ModelSettings()
EXPLICIT = ModelSettings(api_key="explicit-key", base_url="https://gateway.example/v1/")
FULL = "projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro"


def test_resolve__gemini() -> None:
    endpoint = resolve("gemini-2.5-flash", PLAIN, {"GEMINI_API_KEY": "two", "GOOGLE_API_KEY": " one "})
    assert (endpoint.provider.name, endpoint.api_key, endpoint.base_url) == ("gemini", "one", None)
    assert (endpoint.credential, endpoint.key_variable) == ("GOOGLE_API_KEY", "GOOGLE_API_KEY")
    assert "one" not in repr(endpoint).replace("None", "")


def test_resolve__explicit_key_wins_and_goes_only_to_its_owner() -> None:
    environ = {"GOOGLE_API_KEY": "from-env", "OPENAI_API_KEY": "other"}
    mine = resolve("gemini-2.5-flash", EXPLICIT, environ, owner="gemini")
    assert (mine.api_key, mine.base_url, mine.key_variable) == ("explicit-key", "https://gateway.example/v1", None)
    theirs = resolve("openai/gpt-5", EXPLICIT, environ, owner="gemini")
    assert (theirs.api_key, theirs.base_url) == ("other", "https://api.openai.com/v1")


@pytest.mark.parametrize(
    ("model", "environ", "words"),
    [
        ("gemini-2.5-flash", {}, ["judge-api-key", "GOOGLE_API_KEY", "GEMINI_API_KEY", "Vertex"]),
        ("gemini-2.5-flash", {"GOOGLE_API_KEY": "  "}, ["GOOGLE_API_KEY"]),
        ("openai/gpt-5", {}, ["judge-api-key", "OPENAI_API_KEY"]),
        ("azure/d", {"AZURE_API_BASE": "https://a.example"}, ["AZURE_API_KEY"]),
        ("azure/d", {"AZURE_API_KEY": "k"}, ["AZURE_API_BASE"]),
        ("hosted_vllm/m", {}, ["HOSTED_VLLM_API_BASE"]),
        ("vertex_ai/gemini-2.5-pro", {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"}, ["google-github-actions"]),
    ],
)
def test_resolve__names_the_missing_setting(model: str, environ: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ModelFailure) as failure:
        resolve(model, PLAIN, environ)
    assert failure.value.kind == "no-credentials"
    text = f"{failure.value.message} {failure.value.hint}"
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("model", "environ", "url"),
    [
        ("openai/llama", {"OPENAI_BASE_URL": "http://llm:8000/v1/"}, "http://llm:8000/v1"),
        ("ollama/llama3", {}, "http://localhost:11434/v1"),
        ("ollama_chat/llama3", {"OLLAMA_API_BASE": "http://ollama:11434"}, "http://ollama:11434/v1"),
        ("hosted_vllm/m", {"HOSTED_VLLM_API_BASE": "http://vllm:8000/v1"}, "http://vllm:8000/v1"),
    ],
)
def test_resolve__own_servers_need_no_key(model: str, environ: dict[str, str], url: str) -> None:
    endpoint = resolve(model, PLAIN, environ)
    assert (endpoint.base_url, endpoint.api_key, endpoint.credential) == (url, None, "no key")


@pytest.mark.parametrize(
    ("environ", "provider"),
    [
        ({"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"}, "vertex_ai"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1"}, "vertex_ai"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "0"}, "gemini"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GENAI_USE_ENTERPRISE": "false"}, "gemini"),
        ({}, "gemini"),
    ],
)
def test_resolve__provider_of_a_bare_name(environ: dict[str, str], provider: str) -> None:
    endpoint = resolve("gemini-2.5-flash", PLAIN, {"GOOGLE_API_KEY": "k", **environ})
    assert endpoint.provider.name == provider


def test_resolve__vertex_prefers_a_project_to_a_key_in_the_environment() -> None:
    environ = {"GOOGLE_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
    endpoint = resolve("vertex_ai/gemini-2.5-pro", PLAIN, environ)
    assert (endpoint.api_key, endpoint.project, endpoint.location) == (None, "p", "europe-west4")
    express = resolve("vertex_ai/gemini-2.5-pro", PLAIN, {"GOOGLE_API_KEY": "k"})
    assert (express.api_key, express.project) == ("k", None)
    explicit = resolve("vertex_ai/gemini-2.5-pro", EXPLICIT, environ, owner="vertex_ai")
    assert (explicit.api_key, explicit.project) == ("explicit-key", None)


def test_resolve__full_vertex_name_fixes_project_and_location(tmp_path: Path) -> None:
    credentials = tmp_path / "gcloud" / "application_default_credentials.json"
    credentials.parent.mkdir()
    credentials.write_text("{}", encoding="utf-8")
    environ = {
        "GOOGLE_API_KEY": "k",
        "GOOGLE_CLOUD_PROJECT": "other",
        "GOOGLE_CLOUD_LOCATION": "us-central1",
        "CLOUDSDK_CONFIG": str(credentials.parent),
    }
    endpoint = resolve(FULL, PLAIN, environ)
    assert (endpoint.api_key, endpoint.project, endpoint.location) == (None, "p-1", "europe-west4")
    assert endpoint.credentials_file == str(credentials)


@pytest.mark.parametrize("url", ["gateway.example", "file:///etc/passwd", "ftp://x"])
def test_resolve__rejects_an_invalid_url(url: str) -> None:
    with pytest.raises(ModelFailure) as failure:
        resolve("openai/x", PLAIN, {"OPENAI_BASE_URL": url})
    assert failure.value.kind == "invalid-request"


def test_endpoint__key_owner() -> None:
    assert key_owner(PLAIN, ["openai/a", "gemini-2.5-flash"], {}) is None
    assert key_owner(EXPLICIT, ["openai/a", "gpt-5"], {}) == "openai"
    assert key_owner(EXPLICIT, ["gemini-2.5-flash"], {"GOOGLE_GENAI_USE_VERTEXAI": "true"}) == "vertex_ai"
    assert key_owner(EXPLICIT, [], {}) is None
    named = ModelSettings(api_key="k", judge_model="openai/gpt-5")
    assert key_owner(named, ["gemini-2.5-flash", "openai/a"], {}) == "openai"
    with pytest.raises(ValueError, match="judge-model"):
        key_owner(EXPLICIT, ["gemini-2.5-flash", "openai/a"], {})


def test_endpoints__share_a_client_only_with_the_same_key_and_address() -> None:
    first = resolve("openai/a", PLAIN, {"OPENAI_API_KEY": "k1"})
    second = resolve("openai/b", PLAIN, {"OPENAI_API_KEY": "k1"})
    third = resolve("openai/b", PLAIN, {"OPENAI_API_KEY": "k2"})
    assert first.client_key == second.client_key != third.client_key
    assert "k1" not in first.client_key
    assert second.identity == third.identity


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://bob:secret@127.0.0.1:9/v1?key=secret", "http://127.0.0.1:9"),
        ("https://models.example?key=secret", "https://models.example"),
        ("https://bob:sec/ret@models.example/v1", ""),
    ],
)
def test_endpoint__its_address_for_messages_holds_no_secret(url: str, address: str) -> None:
    environ = {"GOOGLE_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": url}
    assert resolve("gemini-2.5-flash", ModelSettings(), environ).address == address
