"""Checks names, keys, prices and configs of models before the run, without any call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from agent_eval_scoring.core.problem import Problem, Severity, docs_page
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import listed
from agent_eval_scoring.models._endpoint import Endpoint, key_owner, provider_of, resolve
from agent_eval_scoring.models._provider import sort_config
from agent_eval_scoring.models.names import PROVIDERS, parse_model
from agent_eval_scoring.models.pool import no_price, price_of
from agent_eval_scoring.models.protocol import ModelFailure
from agent_eval_scoring.models.settings import ModelSettings, ModelUse
from agent_eval_scoring.models.vertex_eval import JUDGED_BY_SERVICE

NO_KEY = "judge-credentials-missing"
_AMBIGUOUS = "judge-key-ambiguous"
"""Code of the problem that credentials of a model are missing."""

IN_FILES = frozenset({"judge-model-unknown", "judge-config-invalid", "judge-config-ignored"})
"""Codes of problems that depend on the config file alone, not on the machine."""

_BARE = {
    "claude": ("anthropic/", "openrouter/anthropic/", "bedrock/anthropic."),
    "mistral-": ("mistral/",),
    "deepseek-": ("deepseek/",),
    "grok-": ("xai/",),
}
"""The beginnings of well-known models' names, and what is before them with each provider."""
_NAMED = 3
"""Number of uses of a model that a finding lists; it counts the rest."""


@dataclass(frozen=True, kw_only=True)
class CheckedModels:
    """The result of the check."""

    problems: tuple[Problem, ...]
    endpoints: Mapping[str, Endpoint]
    """By name of each usable model. `credential` describes the key in use."""


def check_models(uses: Sequence[ModelUse], settings: ModelSettings, environ: Mapping[str, str]) -> CheckedModels:
    """Checks names, keys, packages, URLs, prices and configs. Sends nothing.

    If nothing is sent, no key is needed, so only names and configs are checked.
    """
    findings = _Findings()
    for problem in check_settings(settings):
        findings.add(problem)
    endpoints: dict[str, Endpoint] = {}
    owner = _owner(uses, settings, environ, findings)
    for use in uses:
        try:
            protocol = provider_of(parse_model(use.model), environ).protocol
        except ValueError as error:
            if use.model != settings.judge_model:  # The setting has a finding of its own.
                findings.add(Problem(code="judge-model-unknown", message=f"{error}.", hint=_other_way(use.model)), use)
            continue
        if protocol == "vertex-eval" and use.purpose not in JUDGED_BY_SERVICE:
            findings.add(
                Problem(
                    code="judge-model-unknown",
                    message=f"`{use.model}` supports no other criteria than {', '.join(JUDGED_BY_SERVICE)}.",
                ),
                use,
            )
            continue
        for finding in _config_findings(use, protocol):
            findings.add(finding, use)
        if settings.offline:
            continue
        try:
            endpoints[use.model] = endpoint = resolve(use.model, settings, environ, owner=owner)
        except ModelFailure as missing:
            if findings.has(_AMBIGUOUS):
                continue  # A key is there, and that problem says which ones are wanted.
            findings.add(Problem(code=NO_KEY, message=missing.message, hint=missing.hint), use)
            continue
        if settings.budget.max_cost is not None and price_of(endpoint, settings) is None:
            failure = no_price(endpoint)
            findings.add(Problem(code="judge-price-missing", message=failure.message, hint=failure.hint), use)
    return CheckedModels(problems=tuple(findings.problems()), endpoints=endpoints)


def check_settings(settings: ModelSettings) -> Iterator[Problem]:
    """Errors of the settings themselves, whatever uses them."""
    if settings.cache is not None and settings.cache.exists() and not settings.cache.is_dir():
        message = f"{settings.cache} is a file, not a directory."
        yield Problem(code="judge-cache-invalid", message=message, hint="Name a directory as `judge-cache`.")
    if settings.judge_model is not None:
        try:
            parse_model(settings.judge_model)
        except ValueError as error:
            hint = _other_way(settings.judge_model)
            yield Problem(code="judge-model-unknown", message=f"judge-model: {error}.", hint=hint)


def credential_problems(failures: Iterable[ModelFailure]) -> list[Problem]:
    """Turns the failures of ModelPool.prepare into problems: credentials that exist but don't work."""
    findings = _Findings()
    for failure in failures:
        findings.add(Problem(code=NO_KEY, message=failure.message, hint=failure.hint))
    return findings.problems()


def shared_keys(endpoints: Mapping[str, Endpoint], agents_environment: Mapping[str, str]) -> list[str]:
    """Lists the judges' keys that the agent's environment contains too.

    Args:
        endpoints: The checked endpoints.
        agents_environment: The complete environment of the agent's process.

    Returns:
        A sentence for each key, sorted. It names the variable, not the key.
    """
    sentences = set()
    for endpoint in endpoints.values():
        same = {name for name, value in agents_environment.items() if endpoint.api_key and value == endpoint.api_key}
        if endpoint.key_variable in agents_environment:
            same.add(endpoint.key_variable or "")
        sentences |= {f"The agent gets the judge's key for {endpoint.provider.name} too, as {name}." for name in same}
    return sorted(sentences)


class _Findings:
    """Distinct findings in order of discovery, each with the uses that it concerns."""

    def __init__(self) -> None:
        self._users: dict[Problem, list[ModelUse]] = {}

    def add(self, finding: Problem, *users: ModelUse) -> None:
        self._users.setdefault(finding, []).extend(users)

    def has(self, code: str) -> bool:
        return any(finding.code == code for finding in self._users)

    def problems(self) -> list[Problem]:
        return [_problem(finding, users) for finding, users in self._users.items()]


def _owner(
    uses: Sequence[ModelUse], settings: ModelSettings, environ: Mapping[str, str], findings: _Findings
) -> str | None:
    models = []
    for model in dict.fromkeys(use.model for use in uses):
        with contextlib.suppress(ValueError):  # An unknown name has its own finding.
            models.append(parse_model(model).written)
    if findings.has("judge-model-unknown"):
        return None
    try:
        return key_owner(settings, models, environ)
    except ValueError as error:
        hint = "Set the variables GOOGLE_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY ... instead of `judge-api-key`."
        findings.add(Problem(code=_AMBIGUOUS, message=f"{error}.", hint=hint), *uses)
        return None


def _other_way(name: str) -> str:
    """How a model is reached whose provider's own interface is not supported."""
    near = nearby(name.partition("/")[0], PROVIDERS, 1, 0.7) if "/" in name else ()
    if near and near[0] != name.partition("/")[0]:
        return f"Did you mean `{near[0]}/{name.partition('/')[2]}`?"
    if "/" not in name and (providers := next((found for start, found in _BARE.items() if name.startswith(start)), ())):
        return f"Write {' or '.join(f'`{provider}{name}`' for provider in providers)}."
    family, dash, rest = name.partition("-")
    if dash and rest and family != "gemini" and nearby(family, ["gemini"], 1, 0.7):
        return f"Did you mean `gemini-{rest}`?"
    claude = (
        "Claude is `anthropic/MODEL`, `bedrock/anthropic.MODEL` or `openrouter/anthropic/MODEL`. "
        if "claude" in name.lower()
        else ""
    )
    server = "For any server with OpenAI's API, such as LiteLLM's proxy, use `openai/MODEL` with its base URL"
    return f"{claude}{server} ({docs_page('models')})."


def _config_findings(use: ModelUse, protocol: str) -> Iterator[Problem]:
    config = sort_config(use.config, protocol)
    for name in config.unknown:
        near = config.suggestion(name)
        yield Problem(
            code="judge-config-invalid",
            message=f"judge_model_config has no field `{name}`.",
            hint=f"Did you mean `{near}`?" if near else "The fields are those of google-genai's GenerateContentConfig.",
        )
    for name in config.ignored:
        yield Problem(
            severity=Severity.WARNING,
            code="judge-config-ignored",
            message=f"`{name}` in judge_model_config is not passed on to `{use.model}`.",
            hint="agent-eval sets the reply format and the connection itself, and some fields exist for Gemini only.",
        )
    error = _config_error(config.sent) if protocol == "gemini" and config.sent else None
    if error is not None:
        hint = 'The fields are those of google-genai\'s GenerateContentConfig, e.g. {"temperature": 0}.'
        yield Problem(code="judge-config-invalid", message=f"judge_model_config: {error}.", hint=hint)


def _config_error(sent: Mapping[str, Any]) -> str | None:
    from google.genai import types

    try:
        types.GenerateContentConfig(**sent)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        what = first["msg"].removeprefix("Input should be ").partition(", unable")[0]
        return f"`{'.'.join(str(part) for part in first['loc'])}` must be {what}"
    return None


def _problem(finding: Problem, users: Sequence[ModelUse]) -> Problem:
    files, purposes = {use.file for use in users}, {use.purpose for use in users}
    message = f"{finding.message}{_used_by(users)}"
    if len(files) != 1 or (file := files.pop()) is None:
        return replace(finding, message=message)
    return replace(finding, message=message, file=file, path=purposes.pop() if len(purposes) == 1 else None)


def _used_by(users: Sequence[ModelUse]) -> str:
    """The criteria, each with its cases."""
    cases: dict[str, dict[str, None]] = {}
    for use in users:
        cases.setdefault(use.purpose, {})[use.case_id] = None
    names = [f"{purpose} of {listed(list(of), 1, 'case')}" for purpose, of in cases.items()]
    return f" Used by {listed(names, _NAMED, 'use')}." if names else ""
