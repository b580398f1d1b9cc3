"""docs/configuration.md tells every setting as the code knows it, and its examples are read without a complaint.

UPDATE_GOLDEN=1 writes names, help and defaults into the page; what else is said of a setting stays.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from agent_eval.cli import main
from agent_eval.settings.options import SETTINGS, Setting
from agent_eval.settings.settings import CONFIG_FILE, Settings, read_settings

PATH = Path(__file__).parents[2] / "docs" / "configuration.md"
PAGE = PATH.read_text(encoding="utf-8")


def told(setting: Setting) -> str:
    """The beginning of a setting's section: what it is for, and how it is called where."""
    if setting.input == "paths":
        flag = "PATH ..."
    elif setting.is_switch:
        flag = f"--{setting.input}"
    else:
        flag = f"--{setting.input} {setting.metavar}"
    default = f"`{setting.default}`" if setting.default else "none"
    facts = [
        f"flag `{flag}`" if setting.secret is None else f"variable `{setting.secret}`",
        f"input and key `{setting.input}`" if setting.in_file else f"input `{setting.input}`, not a key",
        f"default {default}",
    ]
    return f"### {setting.input}\n\n{setting.help}\n\n*{'; '.join(facts)}*\n"


def test_the_page_has_these_settings_and_no_others() -> None:
    assert re.findall(r"^### ([a-z-]+)$", PAGE, re.MULTILINE) == [setting.input for setting in SETTINGS]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.input)
def test_a_setting_is_described_as_the_code_does(setting: Setting) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        page = PATH.read_text(encoding="utf-8")
        pattern = rf"^### {setting.input}\n\n.*?\n\n\*(?:flag|variable) .*?\*\n"
        PATH.write_text(re.sub(pattern, lambda _: told(setting), page, flags=re.M | re.S), encoding="utf-8")
        return
    assert told(setting) in PAGE, f"it should say:\n{told(setting)}"


def _read(tmp_path: Path, text: str) -> Settings:
    (tmp_path / CONFIG_FILE).write_text(text, encoding="utf-8")
    settings, problems = read_settings(tmp_path)
    assert problems == []
    assert settings is not None
    return settings


def test_the_examples_are_read_without_a_complaint(tmp_path: Path) -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 2

    for example in examples:
        assert _read(tmp_path, example) != Settings(root=tmp_path)


def test_the_first_example_means_what_the_page_says(tmp_path: Path) -> None:
    first = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]

    settings = _read(tmp_path, first)

    assert settings.paths == ("evals",)
    assert settings.exclude == ("evals/drafts/",)
    assert (settings.num_runs, settings.min_pass_rate) == (3, 0.66)
    assert dict(settings.agents) == {"evals/**": "agents/weather", "evals/home/**": "agents/home"}


def test_the_page_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each example's flags are settings, or flags that the command has beside them."""
    others = {"--format", "--version", "--help", "--criterion", "--run"}
    known = {f"--{setting.input}" for setting in SETTINGS} | others
    commands = re.findall(r"^agent-eval (.+)$", PAGE, re.MULTILINE)

    with pytest.raises(SystemExit):
        main(["--help"])
    there = set(re.findall(r"^    ([a-z]+)\b", capsys.readouterr().out, re.MULTILINE))
    assert {command.split()[0] for command in commands} == there
    for command in commands:
        words = shlex.split(command, comments=True)
        assert {word for word in words if word.startswith("--")} <= known
