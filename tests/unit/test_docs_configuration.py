"""docs/configuration.md describes every setting as the code does, and its examples are valid.

UPDATE_GOLDEN=1 writes names, help and defaults into the page; other text about a setting stays.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from docs_pages import ROOT, blocks, page
from golden_files import check_part

from agent_eval.cli import main
from agent_eval.settings import CONFIG_FILE, SETTINGS, Setting, Settings, read_settings

PATH = ROOT / "docs" / "configuration.md"
PAGE = page(PATH.name)


def section_head(setting: Setting) -> str:
    """The generated beginning of a setting's section: purpose, flag and default."""
    if setting.input == "paths":
        flag = "PATH ..."
    elif setting.is_switch:
        flag = f"--{setting.input}"
    else:
        metavar = f"{{{','.join(setting.choices)}}}" if setting.choices else setting.metavar
        flag = f"--{setting.input} {metavar}"
    facts = [f"`{flag}`" if setting.secret is None else f"variable `{setting.secret}`"]
    facts += [] if setting.in_file else ["not in the file"]
    facts += [f"default `{setting.default}`"] if setting.default else []
    return f"### {setting.input}\n\n{setting.help}\n\n*{'; '.join(facts)}*\n"


def test_page__has_every_setting_in_order() -> None:
    assert re.findall(r"^### ([a-z0-9-]+)$", PAGE, re.MULTILINE) == [setting.input for setting in SETTINGS]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.input)
def test_setting__is_described_as_in_the_code(setting: Setting) -> None:
    pattern = rf"^### {setting.input}\n\n.*?\n\n\*(?:`|variable ).*?\*\n"
    [current] = re.findall(pattern, PAGE, flags=re.M | re.S)
    check_part(PATH, current, section_head(setting))


def _read(tmp_path: Path, text: str) -> Settings:
    (tmp_path / CONFIG_FILE).write_text(text, encoding="utf-8")
    settings, problems = read_settings(tmp_path)
    assert problems == []
    assert settings is not None
    return settings


def test_examples__are_valid(tmp_path: Path) -> None:
    """And the first one means what the page says."""
    examples = [_read(tmp_path, example) for example in blocks(PAGE, "toml")]
    assert Settings(root=tmp_path) not in examples

    settings = examples[0]
    assert settings.paths == ("evals",)
    assert settings.exclude == ("evals/drafts/",)
    assert (settings.num_runs, settings.min_pass_rate) == (3, 0.66)
    assert dict(settings.agents) == {"evals/**": "agents/weather", "evals/home/**": "agents/home"}


def test_page__has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The flags of each example exist."""
    other_flags = {"--format", "--version", "--help", "--criterion", "--run", "--output", "--plan", "--threshold"}
    flags = {f"--{setting.input}" for setting in SETTINGS} | other_flags
    commands = re.findall(r"^agent-eval (.+)$", PAGE, re.MULTILINE)

    with pytest.raises(SystemExit):
        main(["--help"])
    listed = set(re.findall(r"^  ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)) | {"action"}
    assert {command.split()[0] for command in commands} == listed
    for command in commands:
        words = shlex.split(command, comments=True)
        assert {word for word in words if word.startswith("--")} <= flags
