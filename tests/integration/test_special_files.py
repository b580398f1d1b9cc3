"""Pipes, devices and links in the place of files that a user or a pull request gives: an error, never a wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gate_runs import eval_set

from agent_eval.cli import main

EVAL_SET = eval_set("s", {"c": [("hi", "hello")]})
COMMANDS = {
    "agent-eval.toml": ["validate"],
    "test_config.json": ["validate"],
    "named.json": ["validate", "named.json"],
    "found.test.json": ["validate"],
    "head.json": ["compare", "head.json", "base.json"],
    "results.json": ["flaky", "results.json"],
    "old.json": ["migrate", "old.json", "new.json"],
    "recorded.json": ["run", "--agent", "recorded:recorded.json"],
}
KINDS = {"pipe": ["named pipe"], "device": ["device"], "nowhere": ["link", "No such file"]}
PROGRAM = """
import contextlib, io, json, os, sys
from agent_eval.cli import main
kinds = {"pipe": os.mkfifo, "device": lambda at: os.symlink("/dev/zero", at), "nowhere": lambda at: os.symlink("x", at)}
done = {}
for name, arguments in json.loads(sys.argv[1]).items():
    for kind, put in kinds.items():
        put(name)
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = main(arguments)
        os.unlink(name)
        done[name + " " + kind] = [code, text.getvalue()]
print(json.dumps(done))
"""


def start(root: Path, *arguments: str) -> str:
    """What Python prints; with little memory, so that even what reads /dev/zero ends."""
    (root / "ok.test.json").write_text(json.dumps(EVAL_SET), encoding="utf-8")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 4000000; exec "$0" "$@"', sys.executable, *arguments],
        cwd=root,
        env={name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))},
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=90, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Exit code and output, by file and kind."""
    result: dict[str, tuple[int, str]] = json.loads(
        start(tmp_path_factory.mktemp("special"), "-c", PROGRAM, json.dumps(COMMANDS))
    )
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_special_file__is_an_error_with_the_path(name: str, kind: str, results: dict[str, tuple[int, str]]) -> None:
    code, text = results[f"{name} {kind}"]
    assert "Traceback" not in text
    assert name in text
    if (name, kind) == ("found.test.json", "device"):
        assert (code, "link-outside-root" in text) == (2, True), text
        return
    assert code == 2, text
    assert any(word in text for word in KINDS[kind]) or "recording-not-found" in text, text


def test_special_files__link_loop_beside_an_agent_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "agent.py").write_text("root_agent = None\n", encoding="utf-8")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    planned = start(tmp_path, "-m", "agent_eval", "validate", "--plan")
    assert planned.startswith("bot\n  ok.test.json  (the only agent in the root)\n")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Path.resolve raises nothing")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--agent", "loop"], "/loop': the symbolic link leads to itself. Remove it"),
        (["view", "loop"], "loop can't be read: Too many levels of symbolic links."),
    ],
)
def test_a_link_to_itself__is_exit_2_and_no_bug_of_ours(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a.test.json").write_text(json.dumps(EVAL_SET), "utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(arguments) == 2

    assert message in capsys.readouterr().err


def test_output_directory__that_cannot_be_created_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.test.json").write_text("[]", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--output-dir", "/proc/x"]) == 2
    assert "can't be created there. Set another --output-dir: '/proc/x'" in capsys.readouterr().err
