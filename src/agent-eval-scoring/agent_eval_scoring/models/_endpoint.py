"""Resolves a model name to a provider, a URL and credentials, without sending anything."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from agent_eval_scoring.models.names import EVALUATION, PROVIDERS, ModelName, Provider, parse_model
from agent_eval_scoring.models.protocol import ModelFailure
from agent_eval_scoring.models.settings import ModelSettings

KEY_INPUT = "judge-api-key"
_LOCATION = "GOOGLE_CLOUD_LOCATION"
_ADC_FILE = "gcloud/application_default_credentials.json"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Provider, URL and credentials of one model."""

    name: ModelName
    provider: Provider
    base_url: str | None
    """None: the client's default."""
    api_key: str | None = field(repr=False)
    credential: str
    """Description of the credential and its source, for `plan`."""
    key_variable: str | None = None
    """The environment variable that holds the key; the agent may get it too."""
    project: str | None = None
    location: str | None = None
    credentials_file: str | None = None
    """File of Google's application default credentials, if any."""
    api_version: str | None = None
    """Azure's API version, for its dated API."""
    storage_url: str | None = None
    """URL of a Cloud Storage emulator, for the evaluation service's definitions; None: Cloud Storage itself."""

    @property
    def verified_by_opening(self) -> bool:
        """Whether opening the client verifies the credentials, because it has to obtain them."""
        # Credentials of the machine, for which a token is fetched; a key is only sent.
        return self.api_key is None and self.provider.protocol in {"gemini", "vertex-eval", "anthropic"}

    @property
    def identity(self) -> str:
        """Equal for endpoints that serve the same models; cache entries are bound to it."""
        return " ".join(part for part in (self.provider.name, self.base_url, self.project, self.location) if part)

    @property
    def address(self) -> str:
        """Scheme, host and port of the base URL, for messages; "" for the client's default or an invalid URL."""
        if self.base_url is None:
            return ""
        # Without userinfo, path and query, which may hold secrets.
        try:
            url = urlsplit(self.base_url)
            _ = url.port  # A password with an unescaped slash would be taken for the port.
        except ValueError:
            return ""
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"

    @property
    def client_key(self) -> str:
        """Equal for endpoints that can share a client. Don't print it: it depends on the key."""
        # A hash, so that the key is in no dict whose repr a traceback could show.
        secret = hashlib.sha256((self.api_key or "").encode()).hexdigest()
        return f"{self.identity} {self.api_version} {self.credentials_file} {secret}"


def provider_of(name: ModelName, environ: Mapping[str, str]) -> Provider:
    """Returns a model's provider; as in google-genai, the environment may select Vertex AI for bare Gemini names."""
    if name.provider is not None:
        return name.provider
    # The newer name has precedence. As in google-genai, a variable that is set to anything else means Gemini's API.
    for variable in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
        if variable in environ:
            return PROVIDERS["vertex_ai" if environ[variable].lower() in {"true", "1"} else "gemini"]
    return PROVIDERS["gemini"]


def key_owner(settings: ModelSettings, models: Iterable[str], environ: Mapping[str, str]) -> str | None:
    """Returns the provider of `judge-api-key` and the base URL: that of `judge-model`, or the only one in use.

    Raises:
        ValueError: An unknown model, or several providers without `judge-model`.
    """
    if settings.api_key is None and settings.base_url is None:
        return None
    if settings.judge_model is not None:
        return provider_of(parse_model(settings.judge_model), environ).name
    # The evaluation service takes no key.
    providers = sorted({provider_of(parse_model(model), environ).name for model in models} - {EVALUATION.name})
    if len(providers) > 1:
        raise ValueError(
            f"`{KEY_INPUT}` is ambiguous, since {', '.join(providers)} are in use: set `judge-model` to select the "
            "provider, and set the other keys in their environment variables"
        )
    return providers[0] if providers else None


def resolve(model: str, settings: ModelSettings, environ: Mapping[str, str], *, owner: str | None = None) -> Endpoint:
    """Resolves the endpoint of a model. Reads at most a credentials file; sends nothing.

    Args:
        model: The model's name as the user wrote it.
        settings: Provides the key and the base URL.
        environ: Provides the other keys and base URLs.
        owner: The provider of `settings.api_key` and `settings.base_url` (key_owner).

    Raises:
        ModelFailure: `invalid-request` for an unknown model or an invalid URL, `no-credentials` for a missing key,
            project or package; the hint says how to provide it.
    """
    try:
        name = parse_model(model)
    except ValueError as error:
        raise ModelFailure("invalid-request", f"{error}.") from error
    provider = provider_of(name, environ)
    # Before the packages: it needs neither OpenAI's nor Anthropic's.
    if provider is EVALUATION:
        return _evaluation(name, _base_url(provider, ModelSettings(), environ), environ)
    # `judge-api-key` belongs to one provider: sent to another one, it would be given away.
    explicit = settings if provider.name == owner else ModelSettings()
    package = "anthropic" if provider.protocol == "anthropic" else "openai"
    # Found, not imported: the import takes longer than all other checks before a run.
    if provider.protocol != "gemini" and importlib.util.find_spec(package) is None:
        has = "has" if package == "openai" else "lacks"
        raise ModelFailure(
            "no-credentials",
            f"`{model}` needs the package `{package}`, which is not installed.",
            f"Install `agent-eval-action[{package}]`; the action's image {has} it.",
        )
    base_url = _base_url(provider, explicit, environ)
    if provider.name == "vertex_ai":
        return _vertex(name, provider, base_url, explicit, environ)
    if provider.name == "bedrock":
        return _bedrock(name, provider, base_url, explicit, environ)
    variable = _first(provider.key_variables, environ)
    api_key = explicit.api_key or (environ[variable].strip() if variable else None)
    _check_key(api_key, variable or "AGENT_EVAL_JUDGE_API_KEY")
    # vLLM and the like need no key.
    own_server = provider.name == "openai" and not is_openai(base_url)
    if api_key is None and provider.needs_key and not own_server:
        raise _missing_key(model, provider, owner if settings.api_key else None, environ)
    if base_url is None and provider.name != "gemini":
        raise ModelFailure(
            "no-credentials", f"`{model}` needs a base URL.", f"Set {' or '.join(provider.base_url_variables)}."
        )
    return Endpoint(
        name=name,
        provider=provider,
        base_url=base_url,
        api_key=api_key,
        credential=_key_source(explicit, variable) or "no key",
        key_variable=None if explicit.api_key else variable,
        api_version=_value(("AZURE_API_VERSION", "OPENAI_API_VERSION"), environ) if provider.name == "azure" else None,
    )


def _check_key(key: str | None, variable: str) -> None:
    """Refuses a key in quotation marks, as a `.env` file has it that Docker or a CI system reads."""
    if key and key[0] in "\"'" and key[-1] == key[0]:
        raise ModelFailure(
            "invalid-request",  # It is no run without keys: what needs one can't be skipped.
            f"The value of {variable} is in quotation marks, which are no part of a key.",
            f"Write it without them, e.g. `{variable}=KEY` in a .env file that Docker reads.",
        )


def is_openai(base_url: str | None) -> bool:
    """Whether the URL is that of OpenAI's own service, in any of its regions (`eu.api.openai.com`)."""
    return re.match(r"https://([\w-]+\.)*api\.openai\.com(:443)?(/|$)", base_url or "", re.IGNORECASE) is not None


def _base_url(provider: Provider, explicit: ModelSettings, environ: Mapping[str, str]) -> str | None:
    url = explicit.base_url or _value(provider.base_url_variables, environ) or provider.base_url
    if url is None:
        return None
    # Secrets and variables of CI systems often end in a line break.
    url = url.strip().rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ModelFailure(
            "invalid-request",
            f"{url!r} is no base URL for {provider.name}: it must start with http(s)://.",
            None if "://" in url else f"Write e.g. `http://{url}` as `judge-base-url`, or in its variable.",
        )
    # OLLAMA_HOST has no path; the compatible API is below /v1.
    if provider.name == "ollama" and not url.endswith("/v1"):
        url += "/v1"
    if provider.protocol == "anthropic":
        url = url.removesuffix("/v1")  # Anthropic's client adds it, LiteLLM's names of a server may have it.
    return url


def _vertex(
    name: ModelName, provider: Provider, base_url: str | None, explicit: ModelSettings, environ: Mapping[str, str]
) -> Endpoint:
    """Resolves in google-genai's order: explicit key, project, key in the environment, machine credentials."""
    project = name.project or _value(("GOOGLE_CLOUD_PROJECT", "VERTEXAI_PROJECT"), environ)
    # `global` as in google-genai. The other names are LiteLLM's.
    location = name.location or _value(("GOOGLE_CLOUD_LOCATION", "VERTEXAI_LOCATION"), environ) or "global"
    variable = _first(provider.key_variables, environ)
    # A project in the model's name asks for that project, which a key (express mode) can't choose.
    if name.project is None and (explicit.api_key or (project is None and variable)):
        return Endpoint(
            name=name,
            provider=provider,
            base_url=base_url,
            api_key=explicit.api_key or environ[variable or ""].strip(),
            credential=_key_source(explicit, variable) or "",
            key_variable=None if explicit.api_key else variable,
        )
    endpoint = _with_machine_credentials(name, provider, base_url, environ)
    return replace(endpoint, project=project, location=location)


def _with_machine_credentials(
    name: ModelName, provider: Provider, base_url: str | None, environ: Mapping[str, str]
) -> Endpoint:
    """An endpoint with Google's application default credentials, without a project."""
    file = _credentials_file(environ)
    return Endpoint(
        name=name,
        provider=provider,
        base_url=base_url,
        api_key=None,
        credential=f"application default credentials ({'a file' if file else 'the machine'})",
        key_variable="GOOGLE_APPLICATION_CREDENTIALS" if environ.get("GOOGLE_APPLICATION_CREDENTIALS") else None,
        credentials_file=file,
    )


def _bedrock(
    name: ModelName, provider: Provider, base_url: str | None, explicit: ModelSettings, environ: Mapping[str, str]
) -> Endpoint:
    """With an API key of Bedrock's, else with AWS's own credentials, which need another package to sign with."""
    region = name.location or _value(("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_REGION_NAME"), environ)
    variable = _first(provider.key_variables, environ)
    api_key = explicit.api_key or (environ[variable].strip() if variable else None)
    # It becomes part of a host name: `evil.example/` must not get the request.
    if region is None or not re.fullmatch(r"[a-z0-9-]+", region):
        said = "is not set" if region is None else f"is {region!r}, which is not a valid name"
        raise ModelFailure("no-credentials", f"`{name.written}` needs a region: AWS_REGION {said}.", "Set AWS_REGION.")
    if api_key is None and importlib.util.find_spec("botocore") is None:
        raise ModelFailure(
            "no-credentials",
            f"`{name.written}` needs an API key for bedrock, or the package `boto3`, to sign with AWS's credentials.",
            f"Set {provider.key_variables[0]} to a key of Bedrock's, or install `agent-eval-action[bedrock]`.",
        )
    return Endpoint(
        name=name,
        provider=provider,
        base_url=base_url or f"https://bedrock-runtime.{region}.amazonaws.com",
        api_key=api_key,
        credential=_key_source(explicit, variable) or "AWS's credentials (the environment, a profile or the machine)",
        key_variable=None if explicit.api_key else variable,
        location=region,
    )


def _evaluation(name: ModelName, base_url: str | None, environ: Mapping[str, str]) -> Endpoint:
    """Resolves the evaluation service as ADK does: application default credentials, project and location by variable.

    ADK's client reads GOOGLE_API_KEY too, but uses application default credentials anyway (google-cloud-aiplatform
    2.7.0, measured).
    """
    values = {variable: environ.get(variable, "").strip() for variable in ("GOOGLE_CLOUD_PROJECT", _LOCATION)}
    missing = [variable for variable, value in values.items() if not value]
    if missing:
        raise ModelFailure(
            "no-credentials",
            "Vertex AI's evaluation service needs a project and a location: "
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set.",
            "Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, with google-github-actions/auth before this step; or "
            'remove `"backend": "vertex"` from the criterion to use your judge model instead.',
        )
    # Both become part of the address.
    for variable, value in values.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9.:-]*" if variable != _LOCATION else r"[a-z0-9-]+", value):
            raise ModelFailure("invalid-request", f"{variable} is {value!r}, which is not a valid name.")
    storage = environ.get("STORAGE_EMULATOR_HOST", "").strip().rstrip("/")
    return replace(
        _with_machine_credentials(name, EVALUATION, base_url, environ),
        project=values["GOOGLE_CLOUD_PROJECT"],
        location=values[_LOCATION],
        storage_url=storage if storage.startswith(("http://", "https://")) else None,
    )


def _credentials_file(environ: Mapping[str, str]) -> str | None:
    """Returns the file of application default credentials, as google-auth finds it."""
    if named := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        try:
            # Read here, because google-auth's error would come only with the first call.
            json.loads(Path(named).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelFailure(
                "no-credentials",
                f"GOOGLE_APPLICATION_CREDENTIALS can't be read: {error}",
                "Set it to the file that google-github-actions/auth or gcloud wrote.",
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


def _key_source(explicit: ModelSettings, variable: str | None) -> str | None:
    return KEY_INPUT if explicit.api_key else variable


def _missing_key(model: str, provider: Provider, owner: str | None, environ: Mapping[str, str]) -> ModelFailure:
    variables = " or ".join(provider.key_variables)
    hint = f"Set the input `{KEY_INPUT}` or the variable {variables}"
    if owner is not None:
        hint = f"Set {variables}: `{KEY_INPUT}` is for {owner}, the provider of `judge-model`"
    if provider.name == "gemini":
        hint += "; or set GOOGLE_GENAI_USE_VERTEXAI=true to use Vertex AI with application default credentials"
    empty = next((variable for variable in provider.key_variables if variable in environ), None)
    but = "" if empty is None else f", and {empty} is empty: perhaps its secret is not defined, or the run is a fork's"
    return ModelFailure("no-credentials", f"`{model}` needs an API key for {provider.name}{but}.", f"{hint}.")
