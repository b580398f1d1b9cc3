import json
from pathlib import Path

import pytest

from agent_eval.agents.forwarding import (
    BASE_VARIABLES,
    DENIED_VARIABLES,
    INDEX_VARIABLES,
    MODEL_VARIABLES,
    allow_list,
    child_environment,
    installer_environment,
    lend_credentials,
    secrets_in,
)
from agent_eval.agents.spawn import Account

CI = {
    "PATH": "/usr/bin",
    "HOME": "/github/home",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "SSL_CERT_FILE": "/ca.pem",
    "https_proxy": "http://proxy:3128",
    "GOOGLE_API_KEY": "key-of-the-model",
    "GOOGLE_CLOUD_PROJECT": "project",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "OPENAI_API_KEY": "sk-1234567890",
    "MODEL_AGENT_NAME": "doubao",
    "MODEL_JUDGE_API_KEY": "key-of-the-judge",
    "INPUT_FAIL-ON": "any",
    "INPUT_TOKEN": "ghs_token",
    "GITHUB_TOKEN": "ghs_token",
    "GH_TOKEN": "ghs_token",
    "ACTIONS_RUNTIME_TOKEN": "runtime",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "oidc",
    "GITHUB_OUTPUT": "/github/file_commands/output",
    "GITHUB_ENV": "/github/file_commands/env",
    "GITHUB_STEP_SUMMARY": "/github/file_commands/summary",
    "GITHUB_SHA": "abc",
    "RUNNER_TEMP": "/github/runner_temp",
    "AWS_SECRET_ACCESS_KEY": "opens-the-whole-account",
    "SOMETHING_ELSE": "x",
    "VIRTUAL_ENV": "/opt/ours",
    "PYTHONHOME": "/opt/ours",
}


def test_only_what_is_listed_reaches_the_agent() -> None:
    child = child_environment(CI, allow_list(None))
    assert sorted(child) == [
        "GOOGLE_API_KEY",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "HOME",
        "LANG",
        "LC_ALL",
        "MODEL_AGENT_NAME",
        "OPENAI_API_KEY",
        "PATH",
        "SSL_CERT_FILE",
        "https_proxy",
    ]


def test_a_list_replaces_the_models_variables_and_a_plus_adds_to_them() -> None:
    replaced = child_environment(CI, allow_list("SOMETHING_ELSE, AWS_*"))
    assert set(replaced) == {"AWS_SECRET_ACCESS_KEY", "HOME", "LANG", "LC_ALL", "PATH", "SOMETHING_ELSE", "SSL_CERT_FILE", "https_proxy"}  # fmt: skip  # noqa: E501
    added = child_environment(CI, allow_list("+SOMETHING_ELSE"))
    assert set(added) == set(child_environment(CI, allow_list(None))) | {"SOMETHING_ELSE"}
    assert allow_list("") == BASE_VARIABLES


@pytest.mark.parametrize("pattern", ["*", "I*", "?NPUT_TOKEN", "GITHUB_*", "[A-Z]*"])
def test_no_glob_forwards_what_is_denied(pattern: str) -> None:
    child = child_environment(CI, allow_list(pattern))
    leaked = [name for name in child if name.startswith(("INPUT_", "ACTIONS_", "RUNNER_"))]
    assert leaked == []
    assert not child.keys() & {"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY"}
    assert not child.keys() & {"VIRTUAL_ENV", "PYTHONHOME"}


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "INPUT_FAIL-ON", "INPUT_*", "ACTIONS_RUNTIME_TOKEN", "input_token"])
def test_asking_for_a_denied_name_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match="can't be forwarded") as caught:
        allow_list(f"GOOGLE_API_KEY,{name}")
    assert f"`{name}`" in str(caught.value)


def test_what_is_no_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="`FOO=bar` is not the name"):
        allow_list("FOO=bar")


def test_defaults_and_denials_do_not_contradict_each_other() -> None:
    named = [name for name in (*BASE_VARIABLES, *MODEL_VARIABLES) if "*" not in name]
    everything = dict.fromkeys(named, "x") | {name.replace("*", "X"): "x" for name in DENIED_VARIABLES}
    child = child_environment(everything, allow_list(None))
    assert set(child) == set(named)


def test_our_virtual_environment_leaves_the_path() -> None:
    child = child_environment({"PATH": "/opt/ours/bin:/usr/bin:/bin", "VIRTUAL_ENV": "/opt/ours"}, allow_list(None))
    assert child == {"PATH": "/usr/bin:/bin"}
    assert child_environment({}, allow_list(None))["PATH"]


def test_another_user_gets_its_own_home() -> None:
    account = Account(name="agent", uid=10001, gid=10001, home=Path("/home/agent"))
    child = child_environment({**CI, "USER": "root", "TMPDIR": "/root/tmp"}, allow_list(None), account)
    assert (child["HOME"], child["USER"], child["TMPDIR"]) == ("/home/agent", "agent", "/home/agent/tmp")


def test_the_installer_gets_private_indexes_and_pips_under_uvs_names() -> None:
    assert installer_environment({"UV_INDEX_PRIVATE_PASSWORD": "p", "UV_CACHE_DIR": "/c", "GITHUB_TOKEN": "t"}) == {
        "UV_INDEX_PRIVATE_PASSWORD": "p"
    }
    assert installer_environment({"PIP_INDEX_URL": "https://a/", "PIP_EXTRA_INDEX_URL": "https://b/"}) == {
        "UV_DEFAULT_INDEX": "https://a/",
        "UV_INDEX": "https://b/",
    }
    assert installer_environment({"PIP_INDEX_URL": "https://a/", "UV_INDEX_URL": "https://c/"}) == {
        "UV_INDEX_URL": "https://c/"
    }


def test_secrets_are_known_by_their_names_and_inside_urls() -> None:
    found = secrets_in(
        {
            "GOOGLE_API_KEY": "key-of-the-model",
            "AZURE_AD_TOKEN": "token-of-azure",
            "OPENAI_BASE_URL": "https://models.example/v1",
            "UV_INDEX_URL": "https://user:pa%24%24word@index.example/simple",
            "UV_INDEX": "https://bare-token@index.example/simple",
            "GOOGLE_CLOUD_PROJECT": "project",
            "ADK_TOKEN_CACHE_ENABLED": "true",
            "SSL_CERT_FILE": "/etc/ssl/key.pem",
        }
    )
    assert found == ["key-of-the-model", "token-of-azure", "pa%24%24word", "pa$$word", "bare-token"]


def test_secrets_of_a_credentials_file(tmp_path: Path) -> None:
    file = tmp_path / "gha-creds.json"
    file.write_text(
        json.dumps(
            {
                "type": "service_account",
                "client_email": "a@b",
                "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----\n",
                "credential_source": {"headers": {"Authorization": "Bearer oidc-request-token"}},
            }
        )
    )
    found = secrets_in({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    assert found == ["MIIEvQ\nIBADAN", "MIIEvQIBADAN", "oidc-request-token"]
    assert secrets_in({"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "missing")}) == []


def test_without_another_user_the_credentials_stay_where_they_are(tmp_path: Path) -> None:
    environment = {"GOOGLE_APPLICATION_CREDENTIALS": "/somewhere/key.json"}
    assert lend_credentials(environment, None, tmp_path) == environment


@pytest.mark.parametrize("group", [BASE_VARIABLES, MODEL_VARIABLES, DENIED_VARIABLES, INDEX_VARIABLES])
def test_the_page_lists_every_variable(group: tuple[str, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
    assert [name for name in group if f"`{name.upper()}`" not in page] == []
