"""Environment variables of the agent's process: an allow-list, never the CI system's own variables.

The names come from the documentation of ADK and google-genai, google-github-actions/auth, LiteLLM
(docs.litellm.ai/docs/providers), VeADK (its page of environment variables), and OpenAI's and Anthropic's clients.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import re
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval_agents.sandbox.spawn import Account
from agent_eval_scoring.core.problem import Problem, Severity, docs_page

BASE_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    # Some repositories need it to import their modules (`PYTHONPATH=src`), and `adk eval` uses it. It is harmless: the
    # agent's code runs anyway.
    "PYTHONPATH",
)  # fmt: skip
"""Always forwarded: variables for starting a process, its locale, and its network access."""

MODEL_VARIABLES = (
    # ADK, google-genai
    "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_*",
    "GOOGLE_CLOUD_*", "GOOGLE_APPLICATION_CREDENTIALS", "GCLOUD_PROJECT", "ADK_*",
    # OpenAI, Azure, Anthropic
    "OPENAI_*", "AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_API_TYPE", "AZURE_AD_TOKEN",
    "AZURE_OPENAI_*", "AZURE_AI_*", "ANTHROPIC_*",
    # LiteLLM's other providers
    "LITELLM_*", "GEMINI_API_BASE", "VERTEXAI_PROJECT", "VERTEXAI_LOCATION", "OLLAMA_API_BASE", "OLLAMA_API_KEY",
    "OLLAMA_HOST", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION",
    "MISTRAL_*", "COHERE_API_KEY", "CO_API_KEY", "GROQ_*", "DEEPSEEK_*", "OPENROUTER_*", "TOGETHERAI_API_KEY",
    "TOGETHER_API_KEY", "FIREWORKS_*", "XAI_*", "PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY", "CEREBRAS_*",
    "DEEPINFRA_*", "NVIDIA_NIM_*", "HUGGINGFACE_API_KEY", "HUGGINGFACE_API_BASE", "HF_TOKEN", "REPLICATE_API_KEY",
    "DATABRICKS_API_KEY", "DATABRICKS_API_BASE", "WATSONX_*", "DASHSCOPE_*", "MOONSHOT_*", "ZAI_*", "MINIMAX_*",
    # VeADK, without the variables of its judge, which the gate reads
    "MODEL_AGENT_*", "MODEL_EMBEDDING_*", "ARK_API_KEY",
    # The judge of DeepEval's metrics, which run in the agent's environment
    "DEEPEVAL_JUDGE_*",
)  # fmt: skip
"""Forwarded unless `--agent-env` replaces the list: credentials and addresses of models.

Keys of a whole cloud account (AWS_SECRET_ACCESS_KEY, VOLCENGINE_SECRET_KEY) give access to far more than a model, so
they must be named explicitly.
"""

INDEX_VARIABLES = (
    "UV_INDEX", "UV_INDEX_*", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_KEYRING_PROVIDER",
    "UV_NO_INDEX", "UV_INSECURE_HOST", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_OFFLINE", "UV_HTTP_TIMEOUT",
    "UV_PYTHON_INSTALL_MIRROR", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
)  # fmt: skip
"""Forwarded only to the installer of the agent's environment: package indexes."""

DENIED_VARIABLES = (
    "INPUT_*", "ACTIONS_*", "RUNNER_*", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN",
    "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE", "GITHUB_PATH", "GITHUB_STEP_SUMMARY",
    # Credentials of a remote agent's server.
    "AGENT_EVAL_AGENT_HEADERS",
    "GITLAB_TOKEN", "CI_JOB_TOKEN", "CI_JOB_JWT*", "CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD",
    # They describe our own interpreter.
    "VIRTUAL_ENV", "PYTHONHOME", "PYTHONSTARTUP",
)  # fmt: skip
"""Never forwarded, even if listed."""

_SPECIAL = frozenset("*?[")
"""The special characters of a glob."""
CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_LARGEST_CREDENTIALS = 1_000_000
_GITHUB_HOSTS = (".actions.githubusercontent.com", ".ghe.com")
"""Hosts of GitHub's identity tokens. For other servers see ACTIONS_ID_TOKEN_REQUEST_URL."""
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|HEADERS|AUTH(?!OR)|COOKIE|[^_]_(PASS|PWD|PAT|DSN)(_|$)"
    r"|^(PAT|DSN)$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(r"(_FILE|_PATH|_DIR|_TYPE|_PROVIDER|^GOOGLE_APPLICATION_CREDENTIALS)$", re.IGNORECASE)
_SECRET_MEMBERS = (
    "private_key",
    "refresh_token",
    "client_secret",
    "access_token",
    "id_token",
    "token",
    "Authorization",
)


def allow_list(option: str | None) -> tuple[str, ...]:
    """The variables to forward, from the value of `--agent-env`.

    Args:
        option: Names or globs, separated by commas or whitespace. They replace MODEL_VARIABLES; with a leading `+`
            (others may have one, too) they are added to them. None: the defaults. "": only BASE_VARIABLES.

    Returns:
        Names and globs, always including BASE_VARIABLES.

    Raises:
        ValueError: A name is invalid or is never forwarded.
    """
    if option is None:
        return (*BASE_VARIABLES, *MODEL_VARIABLES)
    text = option.strip()
    defaults = MODEL_VARIABLES if text.startswith("+") else ()
    named = [name.removeprefix("+") if defaults else name for name in re.split(r"[,\s]+", text) if name.strip("+")]
    for name in named:
        if re.fullmatch(r"\w+=.*", name):  # Its value may be a secret.
            variable = name.partition("=")[0]
            raise ValueError(
                f"`{variable}` has a value here, where only names are given: set the variable where agent-eval starts, "
                f"and write `+{variable}`"
            )
        if not re.fullmatch(r"[A-Za-z_*?\[][\w*?\[\]!\-]*", name):
            raise ValueError(f"`{name}` is neither the name of an environment variable nor a glob of names")
        if (rule := denied_by(name)) is not None:
            raise ValueError(
                f"`{name}` can't be forwarded to the agent ({rule} belongs to the CI system); "
                f"copy the value to a variable with another name if the agent really needs it"
            )
    return (*BASE_VARIABLES, *defaults, *named)


def without_github_identity(
    environ: Mapping[str, str], option: str | None
) -> tuple[Mapping[str, str], Sequence[Problem]]:
    """The job's environment without Google credentials that can request the job's identity tokens.

    The file that google-github-actions/auth writes has a token with which GitHub issues identity tokens for any
    audience: code that has it can impersonate the job everywhere. So it must be listed by name.

    Args:
        environ: Our own environment.
        option: The value of `--agent-env`.

    Returns:
        The environment, and a notice if the credentials were removed.
    """
    named = re.split(r"[,\s]+", (option or "").strip().removeprefix("+"))
    path = environ.get(CREDENTIALS, "")
    if CREDENTIALS in named or not path or not _asks_github(Path(path), environ):
        return environ, ()
    remaining = {name: value for name, value in environ.items() if name != CREDENTIALS}
    if not _matches(CREDENTIALS, allow_list(option)):
        return remaining, ()  # It was not requested.
    problem = Problem(
        severity=Severity.NOTICE,
        code="credentials-not-lent",
        message=f"The agent does not get {CREDENTIALS}: the file has the token with which this job requests its "
        "identity from GitHub, and the agent could use it for everything that trusts this job.",
        hint=f"Give the agent its own key. If it needs this file, and you trust all its authors with the job's "
        f"identity, set `agent-env: +{CREDENTIALS}` ({docs_page('security')}).",
    )
    return remaining, (problem,)


def _asks_github(path: Path, environ: Mapping[str, str]) -> bool:
    """Whether a credentials file gets its tokens from GitHub's identity token service."""
    try:
        with path.open("rb") as file:
            credentials = json.loads(file.read(_LARGEST_CREDENTIALS))
    except (OSError, ValueError, RecursionError):
        return False  # The agent's own error is more specific.
    source = credentials.get("credential_source") if isinstance(credentials, dict) else None
    address = source.get("url") if isinstance(source, dict) else None
    if not isinstance(address, str) or credentials.get("type") != "external_account":
        return False
    host = _host(address)
    ours = _host(environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", ""))
    return host == ours != "" or host.endswith(_GITHUB_HOSTS)


def _host(address: str) -> str:
    try:
        return (urllib.parse.urlsplit(address).hostname or "").casefold()
    except ValueError:
        return ""


def denied_by(name: str) -> str | None:
    """The rule that forbids a name, or a glob that matches only forbidden names."""
    return next((rule for rule in DENIED_VARIABLES if _matches(name.upper(), (rule,))), None)


def is_base_variable(name: str) -> bool:
    """Whether it is always forwarded, because processes need it."""
    return _matches(name, BASE_VARIABLES)


def child_environment(
    environ: Mapping[str, str], allow: Sequence[str], account: Account | None = None
) -> dict[str, str]:
    """The environment of the agent's process.

    Args:
        environ: Our own environment.
        allow: Names and globs (`allow_list`). DENIED_VARIABLES take precedence.
        account: The process's user; HOME, USER and TMPDIR are set for it.

    Returns:
        The complete environment. PATH does not include our own virtual environment.
    """
    child = {name: value for name, value in environ.items() if _matches(name, allow) and denied_by(name) is None}
    child["PATH"] = _path_without(environ.get("VIRTUAL_ENV"), environ.get("PATH") or os.defpath)
    if account is not None:
        child |= {"HOME": str(account.home), "USER": account.name, "LOGNAME": account.name}
        child["TMPDIR"] = str(account.home / "tmp")
    return child


def installer_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Additional variables of the installer: package indexes, with pip's variables renamed to uv's."""
    variables = {name: value for name, value in environ.items() if _matches(name, INDEX_VARIABLES)}
    default, extra = variables.pop("PIP_INDEX_URL", None), variables.pop("PIP_EXTRA_INDEX_URL", None)
    if default and not variables.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        variables["UV_DEFAULT_INDEX"] = default
    if extra and not variables.keys() & {"UV_INDEX", "UV_EXTRA_INDEX_URL"}:
        variables["UV_INDEX"] = extra
    return variables


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """As `fnmatch.fnmatchcase` with any of the patterns, most of which are names and prefixes."""
    names, prefixes, globs = _parted(tuple(patterns))
    return name in names or name.startswith(prefixes) or any(fnmatch.fnmatchcase(name, glob) for glob in globs)


@functools.lru_cache(maxsize=64)
def _parted(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """Names, prefixes, and the other globs, whose compiling takes long."""
    plain = [pattern for pattern in patterns if _SPECIAL.isdisjoint(pattern.removesuffix("*"))]
    prefixes = tuple(pattern.removesuffix("*") for pattern in plain if pattern.endswith("*"))
    return frozenset(plain), prefixes, tuple(pattern for pattern in patterns if pattern not in plain)


def _path_without(virtual_env: str | None, path: str) -> str:
    if not virtual_env:
        return path
    ours = {str(Path(virtual_env) / folder) for folder in ("bin", "Scripts")}
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.rstrip("/") not in ours)


def withheld(environ: Mapping[str, str], child: Mapping[str, str]) -> frozenset[str]:
    """The names of variables that have a value for us but are not passed to the agent's process."""
    return frozenset(name for name, value in environ.items() if value.strip() and name not in child)


def missing_variable_hint(names: Collection[str], message: str, traceback: str | None = None) -> str | None:
    """A hint for an error that is caused by a variable which the job has but the agent does not get.

    Args:
        names: The names of such variables (`withheld`).
        message: The error's complete message.
        traceback: The agent's own traceback. Only lines that read the environment count.

    Returns:
        None if the error names no such variable. Values are never read.
    """
    reads = [line for line in (traceback or "").splitlines() if "environ" in line or "getenv" in line]
    name = _named(names, message) or next((match for line in reads if (match := _named(names, line))), None)
    if name is None:
        return None
    if (rule := denied_by(name)) is not None:
        return (
            f"`{name}` is set in this job but never passed to the agent: {rule} belongs to the CI system. If the agent "
            "really needs the value, set it under another name and add that name to `agent-env`."
        )
    return (
        f"Set `agent-env: +{name}` (`--agent-env +{name}`), if code of pull or merge requests may read it: `{name}` is "
        "set in this job but not passed to the agent."
    )


def missing_key_hint(names: Collection[str]) -> str | None:
    """A hint for a model call without a key, if `agent-env` replaced the list that includes the key."""
    keys = sorted(name for name in names if _matches(name, MODEL_VARIABLES) and _SECRET_NAME.search(name))
    if not keys:
        return None
    return (
        f"{' and '.join(f'`{key}`' for key in keys)}: set in this job but not passed to the agent, because "
        "`agent-env` without a leading + replaces the default list. Write `agent-env: +NAME,...` to add to it."
    )


def _named(names: Collection[str], text: str) -> str | None:
    """The first variable that a text names: quoted, as a required field of a settings class, or as a word with an
    underscore.
    """
    by_field = {name.casefold(): name for name in names}
    for field in re.findall(r"^(\w+)\n +(?:Field required|field required)", text, re.MULTILINE):  # pydantic-settings
        if (name := by_field.get(field.casefold())) is not None:
            return name
    words = re.findall(r"[A-Za-z_]\w*", text)
    quoted = set(re.findall(r"[\"'`]([A-Za-z_]\w*)[\"'`]", text))
    return next((word for word in words if word in names and ("_" in word.strip("_") or word in quoted)), None)


def lend_credentials(environment: Mapping[str, str], account: Account | None, directory: Path) -> dict[str, str]:
    """Makes the file in GOOGLE_APPLICATION_CREDENTIALS readable for the account.

    Args:
        environment: The child's environment.
        account: The child's user; for None nothing is done.
        directory: Where to put the copy: a directory of ours that the account may enter but not write to.

    Returns:
        The environment with the path of a copy that only the account (and root) can read. If we can't read the file
        ourselves, the environment is unchanged: the agent's own error is more specific.
    """
    name = CREDENTIALS
    source = environment.get(name)
    if account is None or not source:
        return dict(environment)
    try:
        data = Path(source).read_bytes()
    except OSError:
        return dict(environment)
    copy = directory / "google-credentials.json"
    with contextlib.suppress(FileNotFoundError):
        copy.unlink()
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        os.fchown(file.fileno(), account.uid, account.gid)
        file.write(data)
    return {**environment, name: str(copy)}


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The secret values in an environment, for the Masker.

    A value is secret if its variable's name looks like a secret (KEY, TOKEN, SECRET, PASSWORD, DSN ...), and so are the
    credentials of its headers and the texts of its JSON. User names and passwords in URLs are also secret, and the
    secret members of a Google credentials file.

    Returns:
        The names by value, which the Masker takes: those of its variables in the order of the alphabet, separated by
        spaces; each with a number for each further value of the variable.
    """
    secrets: dict[str, str] = {}
    for name, value in sorted(environment.items()):
        found = [each for each in dict.fromkeys(_secrets_of(name, value)) if each.strip()]
        for number, secret in enumerate(found, 1):
            label = name if number == 1 else f"{name}.{number}"
            secrets[secret] = f"{secrets[secret]} {label}" if secret in secrets else label
    return secrets


def _secrets_of(name: str, value: str) -> Iterator[str]:
    if _SECRET_NAME.search(name) and not _NO_SECRET_NAME.search(name) and not _is_switch(value):
        yield value
        yield from _parts(value)
    # Up to the last "@": an unescaped one may be part of a password.
    for address in re.findall(r"[a-z][a-z0-9+.-]*://[^\s/]+@", value, re.IGNORECASE):
        credentials = address.split("://", 1)[1][:-1]
        user, _, password = credentials.rpartition(":")
        # With a bare token, the token takes the place of the user name.
        secret = password if user else credentials
        yield secret
        yield urllib.parse.unquote(secret)
    if name == CREDENTIALS:
        with contextlib.suppress(OSError, ValueError):
            yield from _members(json.loads(Path(value).read_text("utf-8")))


def _parts(value: str) -> Iterator[str]:
    """What is secret by itself in a secret value: the credentials of headers, and the texts of a JSON document."""
    for credentials in re.findall(r"\b(?:bearer|basic|token)(?:\s+|%20)([^\s,;\"']+)", value, re.IGNORECASE):
        yield credentials
        yield urllib.parse.unquote(credentials)
    if value.lstrip().startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            yield from _texts(json.loads(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(member)


def _is_switch(value: str) -> bool:
    return value.strip().lower() in {"true", "false", "yes", "no", "none", "null", "enabled", "disabled"}


def _members(value: Any) -> Iterator[str]:
    """The secrets of a credentials file; private keys without their header lines."""
    if isinstance(value, list):
        for item in value:
            yield from _members(item)
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        if isinstance(member, str) and name in _SECRET_MEMBERS:
            body = "\n".join(line for line in member.splitlines() if not line.startswith("-----"))
            yield body.removeprefix("Bearer ").removeprefix("bearer ")
            if member.startswith("-----BEGIN"):
                yield "".join(body.split())  # on one line, as some tools print it
        else:
            yield from _members(member)
