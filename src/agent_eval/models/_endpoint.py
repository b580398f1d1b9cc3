"""Who answers for a model's name, where, and with whose credentials: known before anything is sent."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.models.names import EVALUATION, PROVIDERS, ModelName, Provider, parse_model
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import ModelSettings

KEY_INPUT = "judge-api-key"
_LOCATION = "GOOGLE_CLOUD_LOCATION"
_ADC_FILE = "gcloud/application_default_credentials.json"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where and how one model is asked."""

    name: ModelName
    provider: Provider
    base_url: str | None
    """None: the client's own default."""
    api_key: str | None = field(repr=False)
    credential: str
    """In words, for `plan`: what is used, and where it came from."""
    key_variable: str | None = None
    """The environment variable that the key came from; the agent may be given it too."""
    project: str | None = None
    location: str | None = None
    credentials_file: str | None = None
    """Of Google's application default credentials, if a file holds them."""
    api_version: str | None = None
    """Azure's, if it is asked in the dated way."""
    storage_url: str | None = None
    """Where Cloud Storage is instead, for the evaluation service's definitions; None: where it is for everybody."""

    @property
    def proven_by_opening(self) -> bool:
        """Whether its credentials can turn out not to work before anything is sent: they have to be asked for."""
        return self.api_key is None and self.provider.protocol in {"gemini", "vertex-eval"}

    @property
    def identity(self) -> str:
        """Equal for endpoints that give the same answers: part of what a cache entry is held to."""
        return " ".join(part for part in (self.provider.name, self.base_url, self.project, self.location) if part)

    @property
    def address(self) -> str:
        """Scheme, host and port of the base URL, for messages; empty if the client's default is used."""
        if self.base_url is None:
            return ""
        scheme, _, rest = self.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"

    @property
    def client_key(self) -> str:
        """Equal for endpoints that can share a client. Not for showing: it depends on the key."""
        secret = hashlib.sha256((self.api_key or "").encode()).hexdigest()
        return f"{self.identity} {self.api_version} {self.credentials_file} {secret}"


def provider_of(name: ModelName, environ: Mapping[str, str]) -> Provider:
    """Who serves a name; a bare Gemini name is Vertex AI's if the environment says so, as in google-genai."""
    if name.provider is not None:
        return name.provider
    for variable in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
        if variable in environ:
            return PROVIDERS["vertex_ai" if environ[variable].lower() in {"true", "1"} else "gemini"]
    return PROVIDERS["gemini"]


def key_owner(settings: ModelSettings, models: Iterable[str], environ: Mapping[str, str]) -> str | None:
    """The provider that `judge-api-key` and the base URL are for: that of `judge-model`, or the only one in use.

    Raises:
        ValueError: A name that nobody serves, or several providers are in use and nothing tells which is meant.
    """
    if settings.api_key is None and settings.base_url is None:
        return None
    if settings.judge_model is not None:
        return provider_of(parse_model(settings.judge_model), environ).name
    # The evaluation service takes no key.
    providers = sorted({provider_of(parse_model(model), environ).name for model in models} - {EVALUATION.name})
    if len(providers) > 1:
        raise ValueError(
            f"`{KEY_INPUT}` can't be for all of {', '.join(providers)}: set `judge-model`, whose provider gets it, and "
            "put the other keys into their variables"
        )
    return providers[0] if providers else None


def resolve(model: str, settings: ModelSettings, environ: Mapping[str, str], *, owner: str | None = None) -> Endpoint:
    """Finds the endpoint of a model. Reads at most a credentials file; sends nothing.

    Args:
        model: As the user wrote it.
        settings: For the key and the base URL.
        environ: Where keys are looked for.
        owner: Whose these two are (key_owner).

    Raises:
        ModelFailure: `invalid-request` for a name that nobody serves or an address that is none, `no-credentials` if
            a key, a project or a package is missing; the hint says how to give it.
    """
    try:
        name = parse_model(model)
    except ValueError as error:
        raise ModelFailure("invalid-request", f"{error}.") from error
    provider = provider_of(name, environ)
    if provider is EVALUATION:
        return _evaluation(name, _base_url(provider, ModelSettings(), environ), environ)
    explicit = settings if provider.name == owner else ModelSettings()
    if provider.protocol != "gemini" and importlib.util.find_spec("openai") is None:
        raise ModelFailure(
            "no-credentials",
            f"`{model}` needs the package `openai`, which is not installed.",
            "Install `agent-eval-action[openai]`; the action's image has it.",
        )
    base_url = _base_url(provider, explicit, environ)
    if provider.name == "vertex_ai":
        return _vertex(name, provider, base_url, explicit, environ)
    variable = _first(provider.key_variables, environ)
    api_key = explicit.api_key or (environ[variable].strip() if variable else None)
    own_server = provider.name == "openai" and base_url != provider.base_url
    if api_key is None and provider.needs_key and not own_server:
        raise _no_key(model, provider, owner if settings.api_key else None)
    if base_url is None and provider.name != "gemini":
        raise ModelFailure(
            "no-credentials",
            f"`{model}` needs an address.",
            f"Set {' or '.join(provider.base_url_variables)}.",
        )
    return Endpoint(
        name=name,
        provider=provider,
        base_url=base_url,
        api_key=api_key,
        credential=_told(explicit, variable) or "no key",
        key_variable=None if explicit.api_key else variable,
        api_version=_value(("AZURE_API_VERSION", "OPENAI_API_VERSION"), environ) if provider.name == "azure" else None,
    )


def _base_url(provider: Provider, explicit: ModelSettings, environ: Mapping[str, str]) -> str | None:
    url = explicit.base_url or _value(provider.base_url_variables, environ) or provider.base_url
    if url is None:
        return None
    url = url.strip().rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ModelFailure("invalid-request", f"{url!r} is no address for {provider.name}: it must begin with http(s).")
    if provider.name == "ollama" and not url.endswith("/v1"):
        url += "/v1"
    return url


def _vertex(
    name: ModelName, provider: Provider, base_url: str | None, explicit: ModelSettings, environ: Mapping[str, str]
) -> Endpoint:
    """google-genai's order: a key that was given, a project, a key in the environment, whatever the machine has."""
    project = name.project or _value(("GOOGLE_CLOUD_PROJECT", "VERTEXAI_PROJECT"), environ)
    location = name.location or _value(("GOOGLE_CLOUD_LOCATION", "VERTEXAI_LOCATION"), environ) or "global"
    variable = _first(provider.key_variables, environ)
    if name.project is None and (explicit.api_key or (project is None and variable)):
        return Endpoint(
            name=name,
            provider=provider,
            base_url=base_url,
            api_key=explicit.api_key or environ[variable or ""].strip(),
            credential=_told(explicit, variable) or "",
            key_variable=None if explicit.api_key else variable,
        )
    file = _credentials_file(environ)
    return Endpoint(
        name=name,
        provider=provider,
        base_url=base_url,
        api_key=None,
        credential=f"application default credentials ({'a file' if file else 'the machine'})",
        key_variable="GOOGLE_APPLICATION_CREDENTIALS" if environ.get("GOOGLE_APPLICATION_CREDENTIALS") else None,
        project=project,
        location=location,
        credentials_file=file,
    )


def _evaluation(name: ModelName, base_url: str | None, environ: Mapping[str, str]) -> Endpoint:
    """As ADK asks it: with application default credentials, in a project and a location that the environment names.

    The client that ADK uses reads a GOOGLE_API_KEY too, and then asks for application default credentials all the same
    (google-cloud-aiplatform 2.7.0, measured).
    """
    found = {variable: environ.get(variable, "").strip() for variable in ("GOOGLE_CLOUD_PROJECT", _LOCATION)}
    missing = [variable for variable, value in found.items() if not value]
    if missing:
        raise ModelFailure(
            "no-credentials",
            "Vertex AI's evaluation service needs a project and a location: "
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set.",
            "Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, with google-github-actions/auth before this step; or "
            'take `"backend": "vertex"` out of the criterion, and your judge is asked instead.',
        )
    for variable, value in found.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9.:-]*" if variable != _LOCATION else r"[a-z0-9-]+", value):
            raise ModelFailure("invalid-request", f"{variable} is {value!r}, which is no name of one.")
    file = _credentials_file(environ)
    storage = environ.get("STORAGE_EMULATOR_HOST", "").strip().rstrip("/")
    return Endpoint(
        name=name,
        provider=EVALUATION,
        base_url=base_url,
        api_key=None,
        credential=f"application default credentials ({'a file' if file else 'the machine'})",
        key_variable="GOOGLE_APPLICATION_CREDENTIALS" if environ.get("GOOGLE_APPLICATION_CREDENTIALS") else None,
        project=found["GOOGLE_CLOUD_PROJECT"],
        location=found[_LOCATION],
        credentials_file=file,
        storage_url=storage if storage.startswith(("http://", "https://")) else None,
    )


def _credentials_file(environ: Mapping[str, str]) -> str | None:
    """The file of application default credentials, where google-auth looks for it."""
    if named := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        try:
            json.loads(Path(named).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelFailure(
                "no-credentials",
                f"GOOGLE_APPLICATION_CREDENTIALS can't be read: {error}",
                "It must name the file that google-github-actions/auth or gcloud wrote.",
            ) from error
        return named
    config = environ.get("CLOUDSDK_CONFIG") or (f"{environ['HOME']}/.config/gcloud" if environ.get("HOME") else None)
    if config is None:
        return None
    path = Path(config) / _ADC_FILE.rpartition("/")[2]
    return str(path) if path.is_file() else None


def _first(variables: Iterable[str], environ: Mapping[str, str]) -> str | None:
    return next((variable for variable in variables if environ.get(variable, "").strip()), None)


def _value(variables: Iterable[str], environ: Mapping[str, str]) -> str | None:
    variable = _first(variables, environ)
    return environ[variable].strip() if variable else None


def _told(explicit: ModelSettings, variable: str | None) -> str | None:
    return KEY_INPUT if explicit.api_key else variable


def _no_key(model: str, provider: Provider, owner: str | None) -> ModelFailure:
    variables = " or ".join(provider.key_variables)
    hint = f"Give the key as the input `{KEY_INPUT}` or in {variables}"
    if owner is not None:
        hint = f"Give the key in {variables}: `{KEY_INPUT}` is for {owner}, the provider of `judge-model`"
    if provider.name == "gemini":
        hint += "; or set GOOGLE_GENAI_USE_VERTEXAI=true to use Vertex AI with application default credentials"
    return ModelFailure("no-credentials", f"`{model}` needs a key for {provider.name}, and there is none.", f"{hint}.")
