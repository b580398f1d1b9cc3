"""Problems with models are found before the run, once each, with the criteria that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.core.problem import Severity
from agent_eval.models import ModelUse
from agent_eval.models.check import check_models, shared_keys
from agent_eval.models.settings import Budget, ModelSettings

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


def test_check_models__fields_that_only_gemini_has() -> None:
    uses = [use("openai/gpt-5", top_k=3), use("gemini-2.5-flash", top_k=3)]
    (problem,) = check_models(uses, ModelSettings(), {**KEY, "OPENAI_API_KEY": "k"}).problems
    assert (problem.code, "openai/gpt-5" in problem.message) == ("judge-config-ignored", True)


def test_check_models__cost_limit_needs_prices() -> None:
    settings = ModelSettings(budget=Budget(max_cost=1.0))
    uses = [use(), use("gemini-9-nano")]
    (problem,) = check_models(uses, settings, KEY).problems
    assert (problem.code, "gemini-9-nano" in problem.message) == ("judge-price-missing", True)
    assert problem.hint is not None and '"gemini-9-nano" = { input' in problem.hint


def test_check_models__ambiguous_key() -> None:
    settings = ModelSettings(api_key="k")
    uses = [use(), use("openai/gpt-5")]
    codes = [problem.code for problem in check_models(uses, settings, {}).problems]
    assert codes == ["judge-key-ambiguous", "judge-credentials-missing", "judge-credentials-missing"]
    named = ModelSettings(api_key="k", judge_model="openai/gpt-5")
    (problem,) = check_models(uses, named, {}).problems
    assert "needs an API key for gemini" in problem.message
    assert problem.hint is not None and "`judge-api-key` is for openai" in problem.hint


def test_check_models__checks_an_unused_judge_model() -> None:
    settings = ModelSettings(judge_model="gpt_5")
    (problem,) = check_models([use()], settings, KEY).problems
    assert (problem.code, problem.file) == ("judge-model-unknown", None)


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
