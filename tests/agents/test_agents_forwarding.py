import json
from pathlib import Path

import pytest

from agent_eval.pipeline.context import RunContext, masker_of
from agent_eval.pipeline.early import open_isolation
from agent_eval.settings.settings import Settings
from agent_eval_agents.sandbox.forwarding import (
    BASE_VARIABLES,
    DENIED_VARIABLES,
    INDEX_VARIABLES,
    MODEL_VARIABLES,
    allow_list,
    child_environment,
    installer_environment,
    lend_credentials,
    missing_key_hint,
    missing_variable_hint,
    secrets_in,
    withheld,
    without_github_identity,
)
from agent_eval_agents.sandbox.spawn import Account
from agent_eval_scoring.core.problem import Severity

BASE = {"HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_FILE", "https_proxy"}
MODELS = {"GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GENAI_USE_VERTEXAI", "MODEL_AGENT_NAME", "OPENAI_API_KEY"}
NEVER = {
    *("INPUT_FAIL-ON", "INPUT_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN"),
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY", "RUNNER_TEMP"),
    *("VIRTUAL_ENV", "PYTHONHOME", "AGENT_EVAL_AGENT_HEADERS"),
}
OTHERS = {"MODEL_JUDGE_API_KEY", "GITHUB_SHA", "AWS_SECRET_ACCESS_KEY", "SOMETHING_ELSE"}
CI = {**dict.fromkeys(BASE | MODELS | NEVER | OTHERS, "x"), "PATH": "/usr/bin", "VIRTUAL_ENV": "/opt/ours"}


@pytest.mark.parametrize(
    ("option", "forwarded"),
    [
        (None, BASE | MODELS),
        ("", BASE),
        ("SOMETHING_ELSE, AWS_*", BASE | {"SOMETHING_ELSE", "AWS_SECRET_ACCESS_KEY"}),  # it replaces the models'
        ("+SOMETHING_ELSE", BASE | MODELS | {"SOMETHING_ELSE"}),
        ("+SOMETHING_ELSE,+AWS_*, +", BASE | MODELS | {"SOMETHING_ELSE", "AWS_SECRET_ACCESS_KEY"}),
    ],
)
def test_forwarding__only_what_is_listed_reaches_the_agent(option: str | None, forwarded: set[str]) -> None:
    assert set(child_environment(CI, allow_list(option))) == forwarded


def test_forwarding__our_virtual_environment_leaves_the_path_and_another_user_gets_its_own_home() -> None:
    child = child_environment({"PATH": "/opt/ours/bin:/usr/bin:/bin", "VIRTUAL_ENV": "/opt/ours"}, allow_list(None))
    assert child == {"PATH": "/usr/bin:/bin"}
    assert child_environment({}, allow_list(None))["PATH"]
    account = Account(name="agent", uid=10001, gid=10001, home=Path("/home/agent"))
    child = child_environment({**CI, "USER": "root", "TMPDIR": "/root/tmp"}, allow_list(None), account)
    assert (child["HOME"], child["USER"], child["TMPDIR"]) == ("/home/agent", "agent", "/home/agent/tmp")


@pytest.mark.parametrize("pattern", ["*", "I*", "A*", "?NPUT_TOKEN", "GITHUB_*", "[A-Z]*"])
def test_forwarding__no_glob_forwards_what_is_denied(pattern: str) -> None:
    child = child_environment(CI, allow_list(pattern))
    assert not child.keys() & NEVER


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "INPUT_FAIL-ON", "INPUT_*", "ACTIONS_RUNTIME_TOKEN", "input_token"])
def test_forwarding__asking_for_a_denied_name_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match="can't be forwarded") as caught:
        allow_list(f"GOOGLE_API_KEY,{name}")
    assert f"`{name}`" in str(caught.value)
    with pytest.raises(ValueError, match="`FOO` has a value here, where only names are given"):
        allow_list("FOO=bar")


def test_forwarding__defaults_and_denials_do_not_contradict_each_other() -> None:
    named = [name for name in (*BASE_VARIABLES, *MODEL_VARIABLES) if "*" not in name]
    everything = dict.fromkeys(named, "x") | {name.replace("*", "X"): "x" for name in DENIED_VARIABLES}
    child = child_environment(everything, allow_list(None))
    assert set(child) == set(named)


def test_forwarding__the_installer_gets_private_indexes_and_pips_under_uvs_names() -> None:
    private, pip = {"UV_INDEX_PRIVATE_PASSWORD": "p"}, {"PIP_INDEX_URL": "https://a/"}
    uv = {"UV_INDEX_URL": "https://c/"}
    assert installer_environment({**private, "UV_CACHE_DIR": "/c", "GITHUB_TOKEN": "t"}) == private
    both = installer_environment({**pip, "PIP_EXTRA_INDEX_URL": "https://b/"})
    assert both == {"UV_DEFAULT_INDEX": "https://a/", "UV_INDEX": "https://b/"}
    assert installer_environment({**pip, **uv}) == uv


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DB_PASS", "hunter2-hunter2", {"hunter2-hunter2"}),
        ("MYSQL_PWD", "hunter2-hunter2", {"hunter2-hunter2"}),
        ("SIGNING_PASSPHRASE", "correct horse", {"correct horse"}),
        ("REPO_PAT", "ghp_abcdef", {"ghp_abcdef"}),
        ("SENTRY_DSN", "https://abc123def@sentry.example/1", {"https://abc123def@sentry.example/1", "abc123def"}),
        ("PWD", "/github/workspace", set()),
        ("OLDPWD", "/github/workspace", set()),
        ("COMPASS_URL", "https://compass.example", set()),
        ("OTEL_HEADERS", "Authorization=Bearer%20abc.def", {"Authorization=Bearer%20abc.def", "abc.def"}),
        ("API_HEADERS", "Authorization: Basic dXNlcjpw, X: y", {"Authorization: Basic dXNlcjpw, X: y", "dXNlcjpw"}),
        ("APP_SECRETS", '{"db": {"password": "deep-secret"}}', {'{"db": {"password": "deep-secret"}}', "deep-secret"}),
        ("DATABASE_URL", "postgres://app:p@ss@db/1", {"p@ss"}),
        ("UV_INDEX_URL", "https://user:pa%24%24word@index.example/simple", {"pa%24%24word", "pa$$word"}),
        ("UV_INDEX", "https://bare-token@index.example/simple", {"bare-token"}),
        ("OPENAI_BASE_URL", "https://models.example/v1", set()),
        ("ADK_TOKEN_CACHE_ENABLED", "true", set()),
        ("SSL_CERT_FILE", "/etc/ssl/key.pem", set()),
    ],
)  # fmt: skip
def test_secrets_in__names_and_parts(name: str, value: str, expected: set[str]) -> None:
    assert set(secrets_in({name: value})) == expected


def test_secrets_in__one_value_of_many_variables() -> None:
    environ = {"DB_PASSWORD": "postgres", "DATABASE_URL": "postgres://app:postgres@db/1", "API_KEY": "other-value"}
    assert secrets_in(environ) == {"postgres": "DATABASE_URL DB_PASSWORD", "other-value": "API_KEY"}


def test_forwarding__secrets_of_a_credentials_file(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----\n"
    secrets = secrets_in({NAMED: credentials(tmp_path, client_email="a@b", private_key=key)})
    assert set(secrets) == {"MIIEvQ\nIBADAN", "MIIEvQIBADAN", "oidc-request-token"}


GITHUB = "https://run-actions-1.actions.githubusercontent.com/1//idtoken/2/3?api-version=2.0"
SOURCE = {"url": GITHUB, "headers": {"Authorization": "Bearer oidc-request-token"}}


def credentials(tmp_path: Path, **changes: object) -> str:
    """The file that google-github-actions/auth writes."""
    path = tmp_path / "gha-creds-1.json"
    path.write_text(json.dumps({"type": "external_account", "audience": "a", "credential_source": SOURCE, **changes}))
    return str(path)


NAMED = "GOOGLE_APPLICATION_CREDENTIALS"
OWN_SERVER = "https://git.example/_services/pipelines/1/idtoken"


@pytest.mark.parametrize("option", [None, "+CRM_TOKEN", "GOOGLE_*", "+GOOGLE_APPLICATION_*"])
def test_the_jobs_own_identity__is_not_lent(tmp_path: Path, option: str | None) -> None:
    environ = {NAMED: credentials(tmp_path), "GOOGLE_CLOUD_PROJECT": "p"}
    left, [problem] = without_github_identity(environ, option)
    assert left == {"GOOGLE_CLOUD_PROJECT": "p"}
    assert (problem.code, problem.severity) == ("credentials-not-lent", Severity.NOTICE)
    assert f"+{NAMED}" in (problem.hint or "")
    own = {NAMED: credentials(tmp_path, credential_source={"url": OWN_SERVER})}
    assert without_github_identity(own | {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{OWN_SERVER}?a=b"}, option)[1]
    # Where it was not asked for, there is nothing to say.
    assert without_github_identity({NAMED: credentials(tmp_path)}, "GOOGLE_API_KEY") == ({}, ())


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({}, NAMED),
        ({}, f"+A, {NAMED}"),
        ({"type": "service_account"}, None),
        ({"credential_source": {"file": "/token"}}, None),
        ({"credential_source": {"url": OWN_SERVER}}, None),
        ({"credential_source": {"url": "http://169.254.169.254/latest"}}, None),
        ({"credential_source": {"url": "https://actions.githubusercontent.com.evil.example/idtoken"}}, None),
        ({"credential_source": {"url": "https://[bad"}}, None),
        ({"credential_source": "x"}, None),
    ],
)
def test_other_credentials__and_those_that_are_named_are_lent(
    tmp_path: Path, changes: dict[str, object], option: str | None
) -> None:
    environ = {NAMED: credentials(tmp_path, **changes)}
    assert without_github_identity(environ, option) == (environ, ())
    assert lend_credentials(environ, None, tmp_path) == environ, "without another user they stay where they are"


@pytest.mark.parametrize("content", [None, b"[1]", b"\xff{"])
def test_credentials_that_can_not_be_read__are_left_to_the_agent(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "creds.json"
    if content is not None:
        path.write_bytes(content)
    for environ in ({NAMED: str(path)}, {NAMED: ""}):
        assert without_github_identity(environ, None) == (environ, ())
        assert secrets_in(environ) == {}


def test_the_agents_environment__has_no_identity_of_the_job_and_its_token_stays_masked(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    environ = {"PATH": "/bin", NAMED: credentials(tmp_path), "GOOGLE_API_KEY": "the-key"}

    with open_isolation(Settings(root=root), RunContext(environ=environ), runs_here=True) as isolation:
        assert NAMED not in isolation.sandbox.environment
        text = masker_of({}, None, environ).text("the-key oidc-request-token")
        assert text == f"***GOOGLE_API_KEY*** ***{NAMED}***"
        assert "credentials-not-lent" in {problem.code for problem in isolation.problems}


@pytest.mark.parametrize("group", [BASE_VARIABLES, MODEL_VARIABLES, DENIED_VARIABLES, INDEX_VARIABLES])
def test_forwarding__the_page_lists_every_variable(group: tuple[str, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
    assert [name for name in group if f"`{name.upper()}`" not in page] == []


FIELD = "1 validation error for Settings\n{}\n  Field required [type=missing, input_value={{}}]"
TYPE = "the token must be text, not None"


@pytest.mark.parametrize(
    ("message", "traceback", "named"),
    [
        ("'CRM_TOKEN'", None, True),  # KeyError
        ("Set the CRM_TOKEN environment variable", None, True),
        (FIELD.format("crm_token"), None, True),
        (FIELD.format("CRM_TOKEN"), None, True),
        (TYPE, '  File "a.py", line 3\n    Client(os.environ.get("CRM_TOKEN"))\n', True),
        (TYPE, "  File \"a.py\", line 3\n    Client(os.getenv('CRM_TOKEN'))\n", True),
        ("the CI failed", None, False),  # an ordinary word
        ("'OTHER_TOKEN'", None, False),
        ("MY_CRM_TOKEN is missing", None, False),
        (FIELD.format("token"), None, False),
        (TYPE, '  File "a.py", line 3\n    raise ValueError("CRM_TOKEN")\n', False),  # not read from the environment
    ],
)
def test_missing_variable_hint__names_what_the_job_has_and_the_agent_lacks(
    message: str, traceback: str | None, *, named: bool
) -> None:
    names = withheld({"CRM_TOKEN": "abcdefgh", "PATH": "/bin", "CI": "true"}, {"PATH": "/bin"})
    hint = missing_variable_hint(names, message, traceback) or ""
    assert ("`agent-env: +CRM_TOKEN`" in hint, "abcdefgh" in hint, bool(hint)) == (named, False, named)
    # Without a value for us there is nothing to pass on.
    assert missing_variable_hint(withheld({"CRM_TOKEN": " "}, {}), message, traceback) is None


def test_missing_hints__of_what_is_never_passed_and_of_a_default_list_that_was_replaced() -> None:
    assert "never" in (missing_variable_hint({"GITHUB_TOKEN"}, "'GITHUB_TOKEN'") or "")
    assert "`GOOGLE_API_KEY`" in (missing_key_hint({"GOOGLE_API_KEY", "CRM_TOKEN"}) or "")
    assert missing_key_hint({"CRM_TOKEN", "GOOGLE_CLOUD_PROJECT"}) is None
