"""Models by name: their providers, their URL and key, and what is wrong with them before the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from golden_files import check

from agent_eval_scoring.criteria.registry import judge_of, why_not
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS, METRICS
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models import ModelUse
from agent_eval_scoring.models._endpoint import key_owner, resolve
from agent_eval_scoring.models._openai_chat import open_openai
from agent_eval_scoring.models.check import check_models, shared_keys
from agent_eval_scoring.models.names import VERTEX_EVAL, parse_model
from agent_eval_scoring.models.protocol import ModelFailure
from agent_eval_scoring.models.settings import Budget, ModelSettings
from agent_eval_scoring.models.usage import Price
from agent_eval_scoring.models.vertex_eval import JUDGED_BY_SERVICE, service_url

# Model names and their providers.


NAMES = (
    *("gemini-2.5-flash", " gemini-2.5-flash ", "models/gemini-2.5-flash", "gemma-4-27b", "model-optimizer-exp"),
    *("gemini/gemini-2.5-pro", "vertex_ai/gemini-2.5-pro", "gpt-5-mini", "o3", "openai/org/llama"),
    *("azure/judge-deployment", "ollama_chat/llama3:8b", "openrouter/meta/llama"),
    "projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro",
    "projects/p-1/locations/us-central1/endpoints/4711",
    *("", "gemnini-2.5-flash", "unknown/model", "openai/", "/gpt-5", "claude-4", "gemini-2.5-flash/../../x"),
    *("anthropic/claude-5", "bedrock/anthropic.claude-5", "bedrock/converse/us.anthropic.claude-5-v1:0"),
    *("bedrock/amazon.nova-pro-v1:0", "bedrock/arn:aws:bedrock:eu-west-1:1:inference-profile/x", "anthropic/"),
    *("bedrock/us-west-2/anthropic.claude-3-haiku", "vertex_ai/claude-3-5-sonnet@20240620"),
    *("projects/p/locations/l/publishers/anthropic/models/claude-4", "projects/p/models/m", "vertex_ai_evaluation/x"),
)


def test_parse_model__of_every_form() -> None:
    """UPDATE_GOLDEN=1 writes provider, model, key of the price, project and location, or why there are none."""
    lines = []
    for name in NAMES:
        try:
            parsed = parse_model(name)
        except ValueError as refusal:
            lines.append(f"{name!r}: {refusal}\n")
            continue
        assert parsed.written == name
        provider = parsed.provider and parsed.provider.name
        lines.append(f"{name!r}: {provider} {parsed.model} {parsed.price_key} {parsed.project} {parsed.location}\n")
    check("golden_model_names.txt", "".join(lines))


# URL and key of a model, from settings and environment alone.


PLAIN = ModelSettings()
PLACE = {"GOOGLE_CLOUD_PROJECT": "a-project", "GOOGLE_CLOUD_LOCATION": "us-central1"}
EXPLICIT = ModelSettings(api_key="explicit-key", base_url="https://gateway.example/v1/")
FULL = "projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro"


FLASH, JUDGE_ENV = "gemini-2.5-flash", {"GOOGLE_API_KEY": "k"}
VERTEX = "vertex_ai/gemini-2.5-pro"
BOTH_KEYS = {"GOOGLE_API_KEY": "secret-3", "OPENAI_API_KEY": "secret-4"}
KEY_AND_PLACE = {**PLACE, "GOOGLE_API_KEY": "k"}
# OpenAI's own hosts need a key, and know the limit of tokens by another name than servers like OpenAI's.
OPENAI_URLS = (
    "https://api.openai.com/v1",
    "https://eu.api.openai.com/v1",
    "https://api.openai.com.evil.example/v1",
    "https://evilapi.openai.com/v1",
    "https://api.openai.com@evil.example/v1",
    "http://api.openai.com/v1",
)
# What messages say of an address holds no secret.
GEMINI_URLS = (
    "http://bob:secret@127.0.0.1:9/v1?key=secret",
    "https://models.example?key=secret",
    "https://bob:sec/ret@models.example/v1",
)
ENDPOINTS: Sequence[tuple[str, dict[str, str], ModelSettings, str | None]] = (
    (FLASH, {"GEMINI_API_KEY": "secret-2", "GOOGLE_API_KEY": " secret-1 "}, PLAIN, None),
    (FLASH, BOTH_KEYS, EXPLICIT, "gemini"),
    ("openai/gpt-5", BOTH_KEYS, EXPLICIT, "gemini"),
    (VERTEX, KEY_AND_PLACE, PLAIN, None),
    (VERTEX, {"GOOGLE_API_KEY": "k"}, PLAIN, None),
    (VERTEX, KEY_AND_PLACE, EXPLICIT, "vertex_ai"),
    (FULL, KEY_AND_PLACE, PLAIN, None),
    (VERTEX_EVAL, KEY_AND_PLACE, EXPLICIT, "vertex_ai_evaluation"),
    # Their addresses were measured with agentplatform.Client of google-cloud-aiplatform 2.7.0.
    *((VERTEX_EVAL, {**PLACE, "GOOGLE_CLOUD_LOCATION": place}, PLAIN, None) for place in ("global", "eu", "us")),
    *(("gpt-5-mini", {"OPENAI_BASE_URL": url}, PLAIN, None) for url in OPENAI_URLS),
    *(("gpt-5-mini", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}, PLAIN, None) for url in OPENAI_URLS),
    *((FLASH, {**JUDGE_ENV, "GOOGLE_GEMINI_BASE_URL": url}, PLAIN, None) for url in GEMINI_URLS),
    *(
        (model, environ, PLAIN, None)
        for model, environ in (
            (FLASH, {}),
            (FLASH, {"GOOGLE_API_KEY": "  "}),
            ("openai/gpt-5", {}),
            ("azure/d", {"AZURE_API_BASE": "https://a.example"}),
            ("azure/d", {"AZURE_API_KEY": "k"}),
            ("hosted_vllm/m", {}),
            (VERTEX, {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"}),
            ("openai/llama", {"OPENAI_BASE_URL": "http://llm:8000/v1/"}),
            ("ollama/llama3", {}),
            ("anthropic/c", {}),
            ("anthropic/c", {"ANTHROPIC_API_KEY": "k"}),
            ("anthropic/c", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_API_BASE": "https://gateway.example/v1/"}),
            ("bedrock/anthropic.c", {"AWS_BEARER_TOKEN_BEDROCK": "k"}),
            ("bedrock/anthropic.c", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "evil.example/x?"}),
            ("bedrock/anthropic.c", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_DEFAULT_REGION": "us-east-1"}),
            ("bedrock/anthropic.c", {"AWS_REGION": "us-east-1"}),
            ("ollama_chat/llama3", {"OLLAMA_API_BASE": "http://ollama:11434"}),
            ("hosted_vllm/m", {"HOSTED_VLLM_API_BASE": "http://vllm:8000/v1"}),
            *((FLASH, {**JUDGE_ENV, "GOOGLE_GENAI_USE_VERTEXAI": value}) for value in ("TRUE", "1", "0")),
            (FLASH, {**JUDGE_ENV, "GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GENAI_USE_ENTERPRISE": "false"}),
            (FLASH, JUDGE_ENV),
            *(("openai/x", {"OPENAI_BASE_URL": url}) for url in ("gateway.example", "file:///etc/passwd", "ftp://x")),
            (VERTEX_EVAL, {**PLACE, "GOOGLE_CLOUD_LOCATION": "evil.example/x?"}),
            (VERTEX_EVAL, {**PLACE, "GOOGLE_CLOUD_PROJECT": "p/locations/l"}),
        )
    ),
)


def test_resolve__by_name_and_environment() -> None:
    """UPDATE_GOLDEN=1 writes provider, URL, key and place, or which setting is missing or wrong."""
    lines = []
    for model, environ, settings, owner in ENDPOINTS:
        lines.append(f"{model} {environ}{' with a key of ' + owner if owner else ''}\n")
        try:
            made = resolve(model, settings, environ, owner=owner)
        except ModelFailure as failure:
            lines.append(f"    {failure.kind}: {failure.message} {failure.hint}\n")
            continue
        assert "secret" not in (made.address if "BASE_URL" in str(environ) else repr(made))
        url = service_url(made) if model == VERTEX_EVAL else made.base_url
        key = f"{made.api_key} ({made.credential}, {made.key_variable})"
        own = ", OpenAI's" if made.provider.name == "openai" and open_openai(made, connections=1)._is_openai else ""
        lines.append(f"    {made.provider.name} {url} {key} {made.project} {made.location}, at {made.address}{own}\n")
    check("golden_model_endpoints.txt", "".join(lines))


def test_resolve__full_vertex_name_uses_the_credentials_of_gcloud(tmp_path: Path) -> None:
    credentials = tmp_path / "gcloud" / "application_default_credentials.json"
    credentials.parent.mkdir()
    credentials.write_text("{}", encoding="utf-8")
    endpoint = resolve(FULL, PLAIN, {**KEY_AND_PLACE, "CLOUDSDK_CONFIG": str(credentials.parent)})
    assert endpoint.api_key is None
    assert endpoint.credentials_file == str(credentials)


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


# Problems with models are found before the run, once each, with the criteria that use them.


KEY = {"GOOGLE_API_KEY": "a-key"}
Checked: TypeAlias = tuple[Sequence[ModelUse], ModelSettings, dict[str, str]]


def use(model: str = FLASH, case: str = "a.test.json:one", purpose: str = "safety_v1", **config: Any) -> ModelUse:
    return ModelUse(model=model, config=config, case_id=case, purpose=purpose, file="test_config.json")


def of_service(environ: dict[str, str], purpose: str = "safety_v1", **settings: Any) -> Checked:
    return [use(VERTEX_EVAL, purpose=purpose)], ModelSettings(**settings), environ


def test_check_models__good() -> None:
    checked = check_models(
        [use(temperature=0.1), use(topP=0.5, thinkingConfig={"thinkingBudget": 0})], ModelSettings(), KEY
    )
    assert checked.problems == ()
    assert checked.endpoints["gemini-2.5-flash"].credential == "GOOGLE_API_KEY"


COSTLY = Budget(max_cost=1.0)
SERVICE_PRICES = {VERTEX_EVAL: Price(input=1, output=1)}
TWO = [use(), use("openai/gpt-5")]
CHECKED: Sequence[Checked] = (
    ([use(case=f"a:{n}") for n in range(5)], PLAIN, {}),
    ([use("gemnini")], PLAIN, KEY),
    ([use("gemni-2.5-flash"), use("claude-sonnet-4-5")], PLAIN, KEY),
    ([use(temprature=1)], PLAIN, KEY),
    ([use(temperature="hot")], PLAIN, KEY),
    ([use(http_options={"base_url": "https://evil.example"})], PLAIN, KEY),
    ([use(responseSchema={})], PLAIN, KEY),
    ([use(top_k=3), use("openai/gpt-5", top_k=3)], PLAIN, {**KEY, "OPENAI_API_KEY": "k"}),
    ([use(), use("gemini-9-nano")], ModelSettings(budget=COSTLY), KEY),
    ([use()], ModelSettings(judge_model="gpt_5"), KEY),
    (TWO, ModelSettings(api_key="k"), {}),
    (TWO, ModelSettings(api_key="k", judge_model="openai/gpt-5"), {}),
    of_service(KEY),
    *(of_service({**KEY, name: PLACE[name]}) for name in PLACE),
    of_service(PLACE, budget=COSTLY, prices=SERVICE_PRICES),
    of_service(PLACE, budget=Budget(max_calls=1), prices=SERVICE_PRICES),
    *(of_service(PLACE, name) for name in METRICS if name not in JUDGED_BY_SERVICE),
)


def test_check_models__each_mistake() -> None:
    """UPDATE_GOLDEN=1 writes what is said of them, once for all uses."""
    lines = []
    for uses, settings, environ in CHECKED:
        lines.append(
            f"{', '.join(f'{one.model} {one.config or one.purpose}' for one in uses)}, with {sorted(environ)}\n"
        )
        problems = check_models(uses, settings, environ).problems
        lines += [f"    {one.severity} {one.code} {one.file}: {one.message} {one.hint}\n" for one in problems]
    check("golden_model_problems.txt", "".join(lines))


def test_check_models__replay_needs_no_key(tmp_path: Path) -> None:
    checked = check_models([use(), use("nonsense")], ModelSettings(offline=True, cache=tmp_path / "no"), {})
    assert [problem.code for problem in checked.problems] == ["judge-model-unknown"]


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


def test_key_owner__never_the_evaluation_service() -> None:
    settings = ModelSettings(api_key="the-key", base_url="https://gateway.example")

    assert key_owner(settings, [VERTEX_EVAL, "gemini-2.5-flash"], {}) == "gemini"
    assert key_owner(settings, [VERTEX_EVAL], {}) is None


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
