"""What an agent can get at inside the container: nothing of the gate's, and no say in the log."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from container_engine import Engine
from github_runner import SECRETS, Finished, Runner, eval_set

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
        "evil/evil.test.json": eval_set("evil", {f"attempt-{number}": ("go", "{}") for number in range(2)}),
    }


def answers(done: Finished) -> list[dict[str, Any]]:
    """What each case's agent says it got hold of."""
    with gzip.open(done.workspace / "agent-eval-results/recordings.jsonl.gz", "rt", encoding="utf-8") as lines:
        recordings = [json.loads(line) for line in lines]
    texts = [
        turn["final_response"]["parts"][0]["text"] for recording in recordings for turn in recording["invocations"]
    ]
    return [json.loads(text.splitlines()[0]) for text in texts]


@pytest.fixture
def attacked(runner: Runner, workspace: Workspace) -> Finished:
    """A step in which the agent tried everything."""
    root = workspace(files=evil_files())
    return runner.step(root, inputs={"judge-api-key": SECRETS["INPUT_JUDGE-API-KEY"]})


def test_security__agent_gets_nothing_and_changes_nothing(attacked: Finished) -> None:
    assert answers(attacked) == [{}, {}], attacked.log[-3000:]

    # The verdict is the gate's own: the answers are not the "{}" alone that was expected.
    assert attacked.exit_code == 1, attacked.log
    assert attacked.outputs["verdict"] == attacked.results()["verdict"] == "failed"
    assert [attacked.file_commands[name] for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")] == ["", "", ""]
    files = [path for path in attacked.workspace.rglob("*") if path.is_file() and ".git/" not in str(path)]
    assert "planted" not in {path.name for path in files}
    text = "".join(path.read_bytes().decode("utf-8", "replace") for path in files if "evil/" not in str(path))
    for secret in (*SECRETS.values(), CHECKOUT, base64.b64decode(CHECKOUT).decode()):
        assert secret not in text + attacked.log + attacked.summary


def test_security__agent_has_no_say_in_the_log(attacked: Finished) -> None:
    spoken = [command for command in attacked.commands if "from the agent" in command.data]
    assert spoken == []
    written = [command for command in attacked.commands if "gate's stdout" in command.data]
    assert written == []
    # What is left are our own annotations, each at a case of the eval file.
    for command in attacked.commands:
        assert command.name in {"error", "warning", "notice", "group", "endgroup", "debug", "add-mask"}, command
        if command.name == "error" and "file" in command.properties:
            assert command.properties["file"] == "evil/evil.test.json"
        if command.name == "add-mask":
            assert command.data != "passed"
    answers_told = [command for command in attacked.commands if command.data.startswith("in the answer")]
    assert answers_told == []


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


def test_security__permissions_are_as_before(runner: Runner, workspace: Workspace) -> None:
    root = workspace(files=evil_files())
    before = {path: path.stat().st_mode for path in root.rglob("*")}
    runner.step(root)
    assert {path: path.stat().st_mode for path in before} == before
