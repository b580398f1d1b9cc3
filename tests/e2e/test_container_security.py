"""What an agent can get at inside the container: nothing of the gate's, and no say in the log."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from container_engine import Engine
from gate_runs import eval_set
from github_runner import SECRETS, Runner

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

Workspace = Callable[..., Path]

CHECKOUT = "c2VjcmV0LWNoZWNrb3V0LXRva2Vu"
"""What Runner.workspace leaves in .git/config, as actions/checkout does."""


def evil_files() -> dict[str, str]:
    """The agent, and cases that expect it to have got nothing."""
    secrets = json.dumps({**SECRETS, "checkout": CHECKOUT})
    sources = {
        name: Path(__file__).with_name(f"evil_{name}.py").read_text("utf-8").replace('"@SECRETS@"', repr(secrets))
        for name in ("agent", "attempts")
    }
    return {
        "evil/__init__.py": "from . import agent as agent\n",
        **{f"evil/{name}.py": source for name, source in sources.items()},
        "evil/evil.test.json": json.dumps(
            eval_set("evil", {f"attempt-{number}": [("go", "{}")] for number in range(2)})
        ),
    }


def test_security__agent_gets_nothing_changes_nothing_and_has_no_say_in_the_log(
    runner: Runner, workspace: Workspace
) -> None:
    root = workspace(files=evil_files())
    modes = {path: path.stat().st_mode for path in root.rglob("*")}

    attacked = runner.step(root, inputs={"judge-api-key": SECRETS["INPUT_JUDGE-API-KEY"]})

    assert [json.loads(text.splitlines()[0]) for text in attacked.answers()] == [{}, {}], attacked.log[-3000:]
    assert {path: path.stat().st_mode for path in modes} == modes

    # The verdict is the gate's own: the answers are not the "{}" alone that was expected.
    assert attacked.exit_code == 1, attacked.log
    assert attacked.outputs["verdict"] == attacked.results()["verdict"] == "failed"
    assert [attacked.file_commands[name] for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")] == ["", "", ""]
    files = [path for path in attacked.workspace.rglob("*") if path.is_file() and ".git/" not in str(path)]
    assert "planted" not in {path.name for path in files}
    text = "".join(path.read_bytes().decode("utf-8", "replace") for path in files if "evil/" not in str(path))
    for secret in (*SECRETS.values(), CHECKOUT, base64.b64decode(CHECKOUT).decode()):
        assert secret not in text + attacked.log + attacked.summary

    for word in ("from the agent", "gate's stdout"):
        assert [command for command in attacked.commands if word in command.data] == []
    # What is left are our own annotations, each at a case of the eval file.
    for command in attacked.commands:
        assert command.name in {"error", "warning", "notice", "group", "endgroup", "debug", "add-mask"}, command
        if command.name == "error" and "file" in command.properties:
            assert command.properties["file"] == "evil/evil.test.json"
        if command.name == "add-mask":
            assert command.data != "passed"
    assert [command for command in attacked.commands if command.data.startswith("in the answer")] == []


def test_security__attempts_are_worth_something(
    engine: Engine, image: str, runner: Runner, workspace: Workspace
) -> None:
    """As the gate's own user nearly all of them succeed: a test of the tests."""
    root = workspace(files=evil_files())
    bare = f"FROM {image}\nENTRYPOINT []\n"
    engine.check("build", "--tag", f"{image}-bare", "-", stdin=bare.encode())
    done = replace(runner, image=f"{image}-bare").step(root, "python", "evil/attempts.py")
    got = json.loads(done.log.splitlines()[-1])
    expected = {
        "own environment", "own names", "descriptors of 1", "docker socket", "make results", "checkout token",
        "list /github/file_commands", "create in /github/workspace", "create in /opt/agent-eval",
    }  # fmt: skip
    assert expected <= set(got), done.log
    assert set(got["own environment"]) == set(SECRETS)
    assert any(name.startswith("write /github/file_commands/") for name in got)
    assert done.outputs == {"verdict": "passed"}, "the forged output arrived"
