"""`[servers.NAME]` of agent-eval.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.agents.driver import ServerSpec
from agent_eval.settings import read_settings


def read(tmp_path: Path, text: str, **flags: str) -> tuple[dict[str, ServerSpec], list[str]]:
    settings, problems = read_settings(tmp_path, text=text, flags=flags)
    return dict(settings.servers), [f"{problem.code}:{problem.line}: {problem.message}" for problem in problems]


def test_servers__every_key(tmp_path: Path) -> None:
    text = """
[servers.weather-1]
command = ["go", "run", ".", "{port}"]
directory = "agents/weather"
protocol = "adk"
url = "http://localhost:{port}/api"
app = "weather"
ready = "/ok"
ready_timeout = 300
version = "v1"
[servers.small]
command = ["./serve"]
"""
    servers, problems = read(tmp_path, text, agent="server:small")
    assert problems == []
    weather = servers["weather-1"]
    assert (weather.command, weather.url, weather.app) == (
        ("go", "run", ".", "{port}"),
        "http://localhost:{port}/api",
        "weather",
    )
    assert (weather.ready_paths, weather.ready_timeout, weather.version) == (("/ok",), 300, "v1")
    small = servers["small"]
    assert (small.ready_paths, small.url) == (("/health", "/list-apps"), "http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('comand = ["x"]', "There is no `comand`"),
        ('command = "go run ."', "`command` of [servers.x] must be a list"),
        ("command = []", "must be a list"),
        ("command = [1]", "must be a list"),
        ('directory = "/srv/agent"', "must be a directory below the root"),
        ('directory = "../agent"', "must be a directory below the root"),
        ('directory = "a/../../agent"', "must be a directory below the root"),
        ('url = "http://127.0.0.1:8000"', "must be an address with {port}"),
        ('url = "http://agents.example:{port}"', "must be an address of this machine"),
        ('url = "http://u:p@127.0.0.1:{port}"', "contains a user name"),
        ('url = "http://127.0.0.1:{port}#app"', "without `#`"),
        ('url = "http://127.0.0.1:1{port}"', "can't be used: it is not a URL (Port out of range"),
        ('url = "http://127.0.0.1:8000/{port}"', "must have {port} as its port"),
        ('ready = "/is it ready"', "contains a space"),
        ('protocol = "grpc"', '`protocol` of [servers.x] must be "adk" or "a2a"'),
        ('ready = "health"', "begins with a slash"),
        ("ready_timeout = 0", "must be a number of seconds"),
        ("ready_timeout = true", "must be a number of seconds"),
        ("app = 1", "must be a non-empty text, not 1"),
        ('app = "x"\nprotocol = "a2a"', "`app` of [servers.x] is only for `protocol = "),
    ],
)
def test_servers__invalid_key_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    text = (
        f"[servers.x]\n{'' if line.startswith('command') else 'command = [' + chr(34) + 'go' + chr(34) + ']'}\n{line}\n"
    )
    servers, [problem, *others] = read(tmp_path, text, agent="server:x")
    assert servers == {} and problem.startswith("server-invalid:3: ") and message in problem
    assert others == [] or "comand" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[servers.x]\n", "has no `command`. For a server that runs already, write `adk:URL`"),
        ("servers = 1\n", "`servers` must be tables"),
        ("servers.x = 1\n", "`servers` must be tables"),
        ('[servers."a/b"]\ncommand = ["x"]\n', "The name `a/b`"),
    ],
)
def test_servers__invalid_table(tmp_path: Path, text: str, message: str) -> None:
    servers, [problem] = read(tmp_path, text)
    assert servers == {} and problem.startswith("server-invalid:1: ") and message in problem


def test_servers__unknown_name_of_an_agent(tmp_path: Path) -> None:
    text = '[agents]\n"a/**" = "server:weather"\n[servers.other]\ncommand = ["x"]\n'
    _, problems = read(tmp_path, text, agent="server:missing")
    assert [problem.split(":")[0:2] for problem in problems] == [["server-unknown", "2"], ["server-unknown", "None"]]
    assert "[servers.weather]" in problems[0] and "[servers.missing]" in problems[1]


def test_servers__headers_never_go_to_a_server_of_the_pull_request(tmp_path: Path) -> None:
    text = 'agent = "server:x"\n[servers.x]\ncommand = ["x"]\n'
    secrets = {"AGENT_EVAL_AGENT_HEADERS": "X-Token: hunter2"}
    _, problems = read_settings(tmp_path, text=text, secrets=secrets)
    assert [problem.code for problem in problems] == ["remote-agent-headers"]
