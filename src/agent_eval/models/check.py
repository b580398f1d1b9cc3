"""Everything about models that can be wrong before anything runs, as findings. A mistake costs no call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.core.problem import Problem, Severity
from agent_eval.models._endpoint import Endpoint, key_owner, provider_of, resolve
from agent_eval.models._generation import sort_config
from agent_eval.models.names import parse_model
from agent_eval.models.pool import no_price, price_of
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import ModelSettings
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE

NO_KEY = "judge-credentials-missing"
"""The code of the problem that a model can't be asked for want of credentials."""

IN_FILES = frozenset({"judge-model-unknown", "judge-config-invalid", "judge-config-ignored"})
"""The codes of problems that a config file has by itself, on any machine."""

_NAMED = 3
"""Users of a model that a finding names; of more it says how many."""


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    """A model, and who asks it."""

    model: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """The `judge_model_config`."""
    case_id: str
    purpose: str
    """The criterion, or `user-simulator`."""
    file: str | None = None
    """Where the criterion stands."""


@dataclass(frozen=True, kw_only=True)
class CheckedModels:
    """What came of it."""

    problems: tuple[Problem, ...]
    endpoints: Mapping[str, Endpoint]
    """By model name, of those that can be asked. Their `credential` says in words whose key is used."""


def check_models(uses: Sequence[ModelUse], settings: ModelSettings, environ: Mapping[str, str]) -> CheckedModels:
    """Checks names, keys, packages, addresses, prices and configs. Sends nothing.

    A replay needs no key, so only the names and the configs are looked at.
    """
    found = _Findings()
    if settings.replay is not None and not settings.replay.is_dir():
        message = f"{settings.replay} is no directory to replay from."
        hint = "Record one first: run with `--judge-cache DIR`, then name that directory."
        found.add(_Finding(code="judge-replay-missing", message=message, hint=hint))
    if settings.cache is not None and settings.cache.exists() and not settings.cache.is_dir():
        message = f"{settings.cache} is a file, so no reply can be kept there."
        found.add(_Finding(code="judge-cache-invalid", message=message, hint="Name a directory as `judge-cache`."))
    endpoints: dict[str, Endpoint] = {}
    owner = _owner(uses, settings, environ, found)
    for use in uses:
        try:
            protocol = provider_of(parse_model(use.model), environ).protocol
        except ValueError as error:
            found.add(_Finding(code="judge-model-unknown", message=f"{error}."), use)
            continue
        if protocol == "vertex-eval" and use.purpose not in JUDGED_BY_SERVICE:
            found.add(
                _Finding(
                    code="judge-model-unknown",
                    message=f"`{use.model}` is no model: Vertex AI's evaluation service judges nothing but "
                    f"{', '.join(JUDGED_BY_SERVICE)}.",
                ),
                use,
            )
            continue
        for finding in _config_findings(use, protocol):
            found.add(finding, use)
        if settings.replay is not None:
            continue
        try:
            endpoints[use.model] = endpoint = resolve(use.model, settings, environ, owner=owner)
        except ModelFailure as missing:
            found.add(_Finding(code=NO_KEY, message=missing.message, hint=missing.hint), use)
            continue
        if settings.budget.max_cost is not None and price_of(endpoint, settings) is None:
            unknown = no_price(endpoint)
            found.add(_Finding(code="judge-price-missing", message=unknown.message, hint=unknown.hint), use)
    return CheckedModels(problems=tuple(found.problems()), endpoints=endpoints)


@dataclass(frozen=True, kw_only=True)
class _Finding:
    code: str
    message: str
    hint: str | None = None


def opening_problems(failures: Iterable[ModelFailure]) -> list[Problem]:
    """What ModelPool.prepare found: credentials that exist and don't work."""
    found = _Findings()
    for failure in failures:
        found.add(_Finding(code=NO_KEY, message=failure.message, hint=failure.hint))
    return found.problems()


def shared_keys(endpoints: Mapping[str, Endpoint], agents_environment: Mapping[str, str]) -> list[str]:
    """Says which keys of judges the agent gets as well.

    Args:
        endpoints: As checked.
        agents_environment: The whole environment of the agent's process.

    Returns:
        A sentence for each key, sorted. None of them contains a key.
    """
    found = set()
    for endpoint in endpoints.values():
        same = {name for name, value in agents_environment.items() if endpoint.api_key and value == endpoint.api_key}
        if endpoint.key_variable in agents_environment:
            same.add(endpoint.key_variable or "")
        found |= {f"The agent gets the judge's key for {endpoint.provider.name} too, as {name}." for name in same}
    return sorted(found)


class _Findings:
    """Findings in the order in which they turned up, each once, with all whom it concerns."""

    def __init__(self) -> None:
        self._users: dict[_Finding, list[ModelUse]] = {}

    def add(self, finding: _Finding, *users: ModelUse) -> None:
        self._users.setdefault(finding, []).extend(users)

    def problems(self) -> list[Problem]:
        return [_problem(finding, users) for finding, users in self._users.items()]


def _owner(
    uses: Sequence[ModelUse], settings: ModelSettings, environ: Mapping[str, str], found: _Findings
) -> str | None:
    known = []
    for model in dict.fromkeys(use.model for use in uses):
        with contextlib.suppress(ValueError):  # A wrong name has a finding of its own.
            known.append(parse_model(model).given)
    if settings.judge_model is not None:
        try:
            parse_model(settings.judge_model)
        except ValueError as error:
            if all(use.model != settings.judge_model for use in uses):
                found.add(_Finding(code="judge-model-unknown", message=f"judge-model: {error}."))
            return None
    try:
        return key_owner(settings, known, environ)
    except ValueError as error:
        found.add(_Finding(code="judge-key-ambiguous", message=f"{error}."), *uses)
        return None


def _config_findings(use: ModelUse, protocol: str) -> Iterator[_Finding]:
    config = sort_config(use.config, for_openai=protocol != "gemini")
    for name in config.unknown:
        near = config.suggestion(name)
        yield _Finding(
            code="judge-config-invalid",
            message=f"judge_model_config has no field `{name}`.",
            hint=f"Did you mean `{near}`?" if near else "Its fields are those of google-genai's GenerateContentConfig.",
        )
    for name in config.ignored:
        yield _Finding(
            code="judge-config-ignored",
            message=f"`{name}` in judge_model_config is not passed on to `{use.model}`.",
            hint="The form of the reply and the connection are decided here; some fields only Gemini has.",
        )
    wrong = _refused_by_google(config.sent) if protocol == "gemini" and config.sent else None
    if wrong is not None:
        yield _Finding(code="judge-config-invalid", message=f"judge_model_config: {wrong}.")


def _refused_by_google(sent: Mapping[str, Any]) -> str | None:
    from google.genai import types
    from pydantic import ValidationError

    try:
        types.GenerateContentConfig(**sent)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        return f"`{'.'.join(str(part) for part in found['loc'])}`: {found['msg']}"
    return None


def _problem(finding: _Finding, users: Sequence[ModelUse]) -> Problem:
    files = {use.file for use in users}
    return Problem(
        severity=Severity.WARNING if finding.code == "judge-config-ignored" else Severity.ERROR,
        code=finding.code,
        message=f"{finding.message}{_needed_by(users)}",
        hint=finding.hint,
        file=files.pop() if len(files) == 1 else None,
    )


def _needed_by(users: Sequence[ModelUse]) -> str:
    names = list(dict.fromkeys(f"{use.purpose} of {use.case_id}" for use in users))
    if not names:
        return ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f" Asked by {', '.join(names[:_NAMED])}{more}."
