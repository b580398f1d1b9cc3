"""Vertex AI's evaluation service: URL, required settings, supported criteria. Sends nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_eval.criteria.registry import judge_of, why_not
from agent_eval.evalset.models.criteria import CRITERION_MODELS, METRICS
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models import ModelUse
from agent_eval.models._endpoint import key_owner, resolve
from agent_eval.models.check import CheckedModels, check_models
from agent_eval.models.names import VERTEX_EVAL, parse_model
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import Budget, ModelSettings
from agent_eval.models.usage import Price
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE, service_url

PLACE = {"GOOGLE_CLOUD_PROJECT": "a-project", "GOOGLE_CLOUD_LOCATION": "us-central1"}


def use(purpose: str = "safety_v1", model: str = VERTEX_EVAL) -> ModelUse:
    return ModelUse(model=model, case_id="evals/a.test.json:hello", purpose=purpose, file="evals/test_config.json")


def checked(
    environ: dict[str, str], settings: ModelSettings | None = None, purpose: str = "safety_v1"
) -> CheckedModels:
    return check_models([use(purpose)], settings or ModelSettings(), environ)


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
