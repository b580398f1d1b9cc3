"""Models by name: their providers, their URL and key, and what is wrong with them before the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.core.problem import Severity
from agent_eval.criteria.registry import judge_of, why_not
from agent_eval.evalset.models.criteria import CRITERION_MODELS, METRICS
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models import ModelUse
from agent_eval.models._endpoint import key_owner, resolve
from agent_eval.models.check import CheckedModels, check_models, shared_keys
from agent_eval.models.names import VERTEX_EVAL, parse_model
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import Budget, ModelSettings
from agent_eval.models.usage import Price
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE, service_url

# Model names and their providers.


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


# URL and key of a model, from settings and environment alone.


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


# Problems with models are found before the run, once each, with the criteria that use them.


KEY = {"GOOGLE_API_KEY": "a-key"}


def use(model: str = "gemini-2.5-flash", case: str = "a.test.json:one", **config: Any) -> ModelUse:
    return ModelUse(model=model, config=config, case_id=case, purpose="safety_v1", file="test_config.json")


def test_check_models__good() -> None:
    checked = check_models(
        [use(temperature=0.1), use(topP=0.5, thinkingConfig={"thinkingBudget": 0})], ModelSettings(), KEY
    )
    assert checked.problems == ()
    assert checked.endpoints["gemini-2.5-flash"].credential == "GOOGLE_API_KEY"


def test_check_models__one_finding_for_all_uses() -> None:
    (problem,) = check_models([use(case=f"a:{n}") for n in range(5)], ModelSettings(), {}).problems
    assert (problem.code, problem.severity, problem.file) == (
        "judge-credentials-missing",
        Severity.ERROR,
        "test_config.json",
    )
    assert "safety_v1 of a:0, safety_v1 of a:1, safety_v1 of a:2 and 2 more" in problem.message
    assert problem.hint is not None and "judge-api-key" in problem.hint


@pytest.mark.parametrize(
    ("model_use", "code", "words"),
    [
        (use("gemnini"), "judge-model-unknown", "gemnini"),
        (use(temprature=1), "judge-config-invalid", "Did you mean `temperature`?"),
        (use(temperature="hot"), "judge-config-invalid", "temperature"),
        (use(http_options={"base_url": "https://evil.example"}), "judge-config-ignored", "http_options"),
        (use(responseSchema={}), "judge-config-ignored", "responseSchema"),
    ],
)
def test_check_models__findings(model_use: ModelUse, code: str, words: str) -> None:
    (problem,) = check_models([model_use], ModelSettings(), KEY).problems
    assert problem.code == code
    assert words in f"{problem.message} {problem.hint}"
    assert problem.severity is (Severity.WARNING if code == "judge-config-ignored" else Severity.ERROR)


@pytest.mark.parametrize(
    ("settings", "other", "code", "words"),
    [
        (ModelSettings(), use("openai/gpt-5", top_k=3), "judge-config-ignored", "openai/gpt-5"),
        (ModelSettings(budget=Budget(max_cost=1.0)), use("gemini-9-nano"), "judge-price-missing", '-nano" = { input'),
        (ModelSettings(judge_model="gpt_5"), use(), "judge-model-unknown", "gpt_5"),
    ],
)
def test_check_models__of_settings_and_other_providers(
    settings: ModelSettings, other: ModelUse, code: str, words: str
) -> None:
    """Fields that only Gemini has, a limit of the cost without a price, a judge that no criterion uses."""
    (problem,) = check_models([use(top_k=3), other], settings, {**KEY, "OPENAI_API_KEY": "k"}).problems
    assert (problem.code, words in f"{problem.message} {problem.hint}") == (code, True)
    assert (problem.file is None) == (settings.judge_model is not None)


def test_check_models__ambiguous_key() -> None:
    settings = ModelSettings(api_key="k")
    uses = [use(), use("openai/gpt-5")]
    codes = [problem.code for problem in check_models(uses, settings, {}).problems]
    assert codes == ["judge-key-ambiguous", "judge-credentials-missing", "judge-credentials-missing"]
    named = ModelSettings(api_key="k", judge_model="openai/gpt-5")
    (problem,) = check_models(uses, named, {}).problems
    assert "needs an API key for gemini" in problem.message
    assert problem.hint is not None and "`judge-api-key` is for openai" in problem.hint


def test_check_models__replay_needs_no_key(tmp_path: Path) -> None:
    checked = check_models([use(), use("nonsense")], ModelSettings(replay=tmp_path), {})
    assert [problem.code for problem in checked.problems] == ["judge-model-unknown"]
    (missing,) = check_models([use()], ModelSettings(replay=tmp_path / "no"), {}).problems
    assert missing.code == "judge-replay-missing"
    assert "--judge-cache" in (missing.hint or "")


def test_check_models__cache_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for name in ("new", "."):
        assert check_models([use()], ModelSettings(cache=tmp_path / name), KEY).problems == ()
    (wrong,) = check_models([use()], ModelSettings(cache=tmp_path / "file"), KEY).problems
    assert (wrong.code, wrong.severity) == ("judge-cache-invalid", "error")


def test_shared_keys__by_name_or_value() -> None:
    from_settings = check_models([use()], ModelSettings(api_key="the-key"), {}).endpoints
    assert shared_keys(from_settings, {"PATH": "/bin"}) == []
    assert shared_keys(from_settings, {"GEMINI_API_KEY": "the-key"}) == [
        "The agent gets the judge's key for gemini too, as GEMINI_API_KEY."
    ]
    from_environment = check_models([use()], ModelSettings(), KEY).endpoints
    assert shared_keys(from_environment, {}) == []
    (sentence,) = shared_keys(from_environment, KEY)
    assert "GOOGLE_API_KEY" in sentence and "a-key" not in sentence


# Vertex AI's evaluation service: URL, required settings, supported criteria. Sends nothing.


PLACE = {"GOOGLE_CLOUD_PROJECT": "a-project", "GOOGLE_CLOUD_LOCATION": "us-central1"}


def use_of_service(purpose: str = "safety_v1", model: str = VERTEX_EVAL) -> ModelUse:
    return ModelUse(model=model, case_id="evals/a.test.json:hello", purpose=purpose, file="evals/test_config.json")


def checked(
    environ: dict[str, str], settings: ModelSettings | None = None, purpose: str = "safety_v1"
) -> CheckedModels:
    return check_models([use_of_service(purpose)], settings or ModelSettings(), environ)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("us-central1", "https://us-central1-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("us", "https://aiplatform.us.rep.googleapis.com"),
    ],
)
def test_service_url__as_in_googles_sdk(location: str, url: str) -> None:
    """Measured with agentplatform.Client of google-cloud-aiplatform 2.7.0."""
    endpoint = resolve(VERTEX_EVAL, ModelSettings(), {**PLACE, "GOOGLE_CLOUD_LOCATION": location})

    assert service_url(endpoint) == url
    assert (endpoint.project, endpoint.api_key) == ("a-project", None)


@pytest.mark.parametrize("missing", [["GOOGLE_CLOUD_PROJECT"], ["GOOGLE_CLOUD_LOCATION"], list(PLACE)])
def test_check_models__names_missing_variables(missing: list[str]) -> None:
    environ = {name: value for name, value in PLACE.items() if name not in missing}

    [problem] = checked({**environ, "GOOGLE_API_KEY": "k"}).problems

    assert problem.code == "judge-credentials-missing"
    assert all(name in problem.message for name in missing)
    assert "safety_v1 of evals/a.test.json:hello" in problem.message
    assert problem.hint is not None and "google-github-actions/auth" in problem.hint and '"vertex"' in problem.hint


@pytest.mark.parametrize(
    "wrong", [{"GOOGLE_CLOUD_LOCATION": "evil.example/x?"}, {"GOOGLE_CLOUD_PROJECT": "p/locations/l"}]
)
def test_resolve__rejects_invalid_names(wrong: dict[str, str]) -> None:
    with pytest.raises(ModelFailure, match="not a valid name"):
        resolve(VERTEX_EVAL, ModelSettings(), {**PLACE, **wrong})


def test_key_owner__never_the_evaluation_service() -> None:
    settings = ModelSettings(api_key="the-key", base_url="https://gateway.example")

    assert key_owner(settings, [VERTEX_EVAL, "gemini-2.5-flash"], {}) == "gemini"
    assert key_owner(settings, [VERTEX_EVAL], {}) is None
    endpoint = resolve(VERTEX_EVAL, settings, PLACE, owner="vertex_ai_evaluation")
    assert (endpoint.api_key, endpoint.base_url) == (None, None)


def test_check_models__cost_limit_is_impossible() -> None:
    settings = ModelSettings(budget=Budget(max_cost=1.0), prices={VERTEX_EVAL: Price(input=1, output=1)})

    [problem] = checked(PLACE, settings).problems

    assert problem.code == "judge-price-missing"
    assert problem.hint == "Use `max-judge-calls`."
    assert checked(PLACE, replace(settings, budget=Budget(max_calls=1))).problems == ()


@pytest.mark.parametrize("metric", [name for name, spec in METRICS.items() if name not in JUDGED_BY_SERVICE])
def test_check_models__other_criteria(metric: str) -> None:
    [problem] = checked(PLACE, purpose=metric).problems

    assert problem.code == "judge-model-unknown"
    assert "safety_v1" in problem.message


def test_why_not__other_criteria() -> None:
    form: dict[str, Any] = {"threshold": 0.5, "judge_model_options": {"judge_model": VERTEX_EVAL}}
    configs = {
        metric: criterion(metric, CRITERION_MODELS[metric].model_validate(form))
        for metric in ("final_response_match_v2", "safety_v1")
    }

    assert "can't judge it" in (why_not(configs["final_response_match_v2"]) or "")
    assert why_not(configs["safety_v1"]) is None
    with pytest.raises(ValueError, match="not a supported model"):
        parse_model("vertex_ai_evaluation/x")


@pytest.mark.parametrize("metric", JUDGED_BY_SERVICE)
def test_judge_of__one_sample_whatever_the_options_say(metric: str) -> None:
    for form in ({"backend": "vertex"}, {"judge_model_options": {"judge_model": VERTEX_EVAL, "num_samples": 5}}):
        model = CRITERION_MODELS[metric].model_validate({"threshold": METRICS[metric].low, **form})
        options = judge_of(criterion(metric, model), "some-judge")

        assert options is not None
        assert (options.model, options.samples, options.config) == (VERTEX_EVAL, 1, {})
