"""Arguments, help and error messages of the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from golden_files import check

from agent_eval.cli import _parser, main
from agent_eval.settings import GROUPS, SETTINGS, read_settings

MISTAKES = (
    *("validat", "eval bot", "xyzzy", "evals", "evals:one", "", "--num-runs 3 run", "-v"),
    *("run --num-run 3", "run --num-run=3", "run evals --xyzzy", "run --judge-api-key x", "tapes --gate both"),
    *("run --eval_storage_uri gs://b", "run --enable_features=X", "run --agent-a2a-url=http://h"),
    *("run --model m", "run -n 4", "run --threshold a=b"),
    *("run --volcengine-secret-key k", "export xyzzy --abc", "export csv a b", "export adk --output x"),
    *("run --parallel 4", "run --help-al", "edit a:b --message Hi"),
    *("run --fail-fast=true", "run --fail-fast=no", "mutate --seed a", "validate --threshold a=1", "publish"),
    *("compare", "accept --abc", "view --size 0"),
)


def test_arguments__mistake_has_a_suggestion(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UPDATE_GOLDEN=1 writes the first line of the usage and what comes after it."""
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    lines = []
    for mistake in MISTAKES:
        with pytest.raises(SystemExit) as exit:
            main(mistake.split())
        usage, *_, said = capsys.readouterr().err.strip().splitlines()
        usage = usage.partition("     (options: ")[0]
        said = said.partition(" (choose from")[0]  # Which differs between versions of Python.
        lines.append(f"$ agent-eval {mistake}\n{usage[:60]}\n{said}\nexit {exit.value.code}\n")
    check("golden_arguments.txt", "".join(lines))


def test_arguments__a_repeated_flag_of_a_list_adds_to_it(tmp_path: Path) -> None:
    repeated = {
        "agent-env": ("+ONE", "+TWO_*"),
        "remote-sessions": ("keep", "ignore-state"),
        "baseline": ("artifact", "rerun"),
        "exclude": ("a", "b c"),
        "base-branches": ("release/*", "next"),
    }
    flags = [word for name, values in repeated.items() for value in values for word in (f"--{name}", value)]
    parsed = _parser()[0].parse_args(["run", *flags])
    given = {name: getattr(parsed, name.replace("-", "_")) for name in repeated}
    settings, problems = read_settings(tmp_path, flags=given)
    assert not problems
    assert (settings.agent_env, settings.baseline) == ("+ONE,+TWO_*", "artifact,rerun")
    assert settings.remote_sessions == {"keep", "ignore-state"}
    assert (settings.exclude, settings.base_branches) == (("a", "b c"), ("release/*", "next"))


def _help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 0
    return capsys.readouterr().out


def test_help__shows_what_most_users_need_and_not_the_flags_of_adk(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help_of(capsys, "run", "--help")
    shown = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.MULTILINE))
    basic = {setting.input for setting in SETTINGS if setting.basic and setting.secret is None} - {"paths"}
    assert shown == basic | {"help", "help-all", "threshold", "verbose", "yes"}
    assert len(basic) <= 12
    assert len(text.splitlines()) <= 60
    commands = _help_of(capsys, "--help")
    listed = re.findall(r"^  ([a-z]+) ", commands, re.MULTILINE)
    assert listed[:6] == ["init", "record", "run", "show", "accept", "view"]
    parser, names = _parser()
    assert {*listed, "action"} == set(names)
    parsed = parser.parse_args(["run", "--config_file_path", "test_config.json", "--print_detailed_results"])
    assert (parsed.config, parsed.verbose) == ("test_config.json", True)
    assert _help_of(capsys, "--version").startswith("agent-eval")
    assert "70 a bug" in commands
    everything = _help_of(capsys, "run", "--help-all")
    headings = [f"\n{group}:\n" for group in GROUPS]
    assert sorted(headings, key=everything.index) == headings
    assert "--gate {auto,thresholds,regressions,both,advisory}" in everything
    assert everything.index("CI only:") < everything.index("--comment") < everything.index("examples:")
    assert everything.count("\n  agent-eval run") == 3
    assert "config_file_path" not in everything


@pytest.mark.parametrize("command", ["run", "validate", "validate --plan"])
def test_command__names_the_repository_when_started_in_a_subdirectory(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    start = f"started in evals/ of the repository {tmp_path}"
    monkeypatch.chdir(tmp_path / "evals")
    assert main(command.split()) == 2
    printed = capsys.readouterr()
    assert start in printed.err
    assert f"No eval file was found in `evals/` of the repository {tmp_path}" in " ".join(
        (printed.out + printed.err).split()
    )
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    assert "started in" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "validate", "calibrate"])
def test_help__imports_nothing_slow(command: str) -> None:
    arguments = [sys.executable, "-X", "importtime", "-m", "agent_eval", command, "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "agent_eval.cli" in imported
    assert not imported & {"pydantic", "asyncio", "rich", "numpy", "requests", "google.genai"}
