"""Inputs and outputs say the same wherever they stand: settings, both action.yml, README, docs, workflows.

UPDATE_GOLDEN=1 writes the inputs into gate/action.yml and action.yml.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent_eval.report.renderers.outputs import OUTPUTS
from agent_eval.settings.options import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "gate/action.yml")
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def inputs_block() -> str:
    """The `inputs:` of gate/action.yml as the settings demand them.

    Without `default:`: GitHub would pass it as if the user had written it, and agent-eval.toml would never be heard.
    The token is an exception: no file may hold it, and a container gets it no other way (actions/runner).
    """
    lines = ["inputs:"]
    for setting in SETTINGS:
        told = f" Default: {setting.default}." if setting.default else ""
        lines += [f"  {setting.input}:", f"    description: {quoted(setting.help + told)}"]
        if setting.input == "github-token":
            lines.append("    default: ${{ github.token }}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A YAML scalar that is always read as this text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_action__has_every_setting_as_an_input() -> None:
    text = (ROOT / "gate/action.yml").read_text("utf-8")
    match = re.search(r"^inputs:.*?\n(?=\S)", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    if os.environ.get("UPDATE_GOLDEN"):
        (ROOT / "gate/action.yml").write_text(text.replace(match[0], inputs_block()), "utf-8")
        return
    assert match[0] == inputs_block(), "gate/action.yml differs from SETTINGS; it should say:\n" + inputs_block()


ROOT_ACTION = ROOT / "action.yml"
OWN_DEFAULTS = {
    "artifact-name": "agent-eval-results",
    "output-dir": "agent-eval-results",
    # Outside of the checkout, where no pull request can commit replies of its own.
    "judge-cache": "${{ runner.temp }}/agent-eval-judge-cache",
}
"""What the steps around the gate must know as well, so that agent-eval.toml isn't asked for it."""


def root_blocks() -> dict[str, str]:
    """The parts of action.yml that follow from gate/action.yml, by their first line."""
    inputs, outputs, passed = ["inputs:"], ["outputs:"], ["      with:"]
    for setting in SETTINGS:
        default = OWN_DEFAULTS.get(setting.input, "${{ github.token }}" if setting.input == "github-token" else None)
        told = f" Default: {setting.default}." if setting.default and setting.input not in OWN_DEFAULTS else ""
        inputs += [f"  {setting.input}:", f"    description: {quoted(setting.help + told)}"]
        inputs += [f"    default: {default}"] if default else []
        passed.append(f"        {setting.input}: ${{{{ inputs.{setting.input} }}}}")
    for name, description in OUTPUTS.items():
        outputs += [f"  {name}:", f"    description: {quoted(description)}"]
        outputs.append(f"    value: ${{{{ steps.gate.outputs.{name} }}}}")
    return {lines[0]: "\n".join(lines) + "\n" for lines in (inputs, outputs, passed)}


@pytest.mark.parametrize("first", root_blocks())
def test_root_action__passes_everything_on(first: str) -> None:
    text = ROOT_ACTION.read_text("utf-8")
    after = text.partition("      id: gate\n")[2] if first.startswith(" ") else text
    indent = " " * (len(first) - len(first.lstrip()))
    match = re.search(rf"^{first}\n(?:{indent}  .*\n)*", after, re.MULTILINE)
    assert match is not None
    if os.environ.get("UPDATE_GOLDEN"):
        head = text[: len(text) - len(after)]
        ROOT_ACTION.write_text(head + after.replace(match[0], root_blocks()[first], 1), "utf-8")
        return
    assert match[0] == root_blocks()[first], "UPDATE_GOLDEN=1 writes it"


def test_action__claims_no_required_input() -> None:
    # GitHub does not enforce `required`; we say at run time what is missing.
    assert not [name for name, given in ACTION["inputs"].items() if "required" in given]


def test_action__has_every_output() -> None:
    assert {name: given["description"] for name, given in ACTION["outputs"].items()} == OUTPUTS


def test_action__runs_the_image_without_arguments() -> None:
    assert ACTION["runs"]["using"] == "docker"
    assert "args" not in ACTION["runs"], "with arguments the entrypoint would be the command line"
    assert re.fullmatch(r"\.\./Dockerfile|docker://ghcr\.io/\S+@sha256:[0-9a-f]{64}", ACTION["runs"]["image"])


def test_readme__table_has_each_input_as_the_code_describes_it() -> None:
    default = {setting.input: f"`{setting.default}`" if setting.default else "" for setting in SETTINGS}
    rows = [f"| `{setting.input}` | {setting.help} | {default[setting.input]} |" for setting in SETTINGS]
    start, table = re.search(r"^(\| input \| meaning \| default \|\n\|[-|]+\|\n)(.*?)^$", README, re.M | re.S).groups()  # type: ignore[union-attr]
    if os.environ.get("UPDATE_GOLDEN"):
        (ROOT / "README.md").write_text(README.replace(start + table, start + "\n".join(rows) + "\n"), "utf-8")
        return
    assert table.splitlines() == rows, "UPDATE_GOLDEN=1 writes it"


@pytest.mark.parametrize("name", OUTPUTS)
def test_readme__table_names_the_output(name: str) -> None:
    assert re.search(rf"^\| `{re.escape(name)}` \|", README, re.MULTILINE), f"README's table of outputs lacks `{name}`"


def yaml_of(path: Path) -> list[Any]:
    """A workflow, or the YAML blocks of a page."""
    text = path.read_text("utf-8")
    blocks = re.findall(r"^```ya?ml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if path.suffix == ".md" else [text]
    return [YAML(typ="safe").load(textwrap.dedent(block)) for block in blocks]


def steps_in(tree: Any) -> Iterator[dict[str, Any]]:
    """Every step that uses this action, however deep."""
    if isinstance(tree, dict):
        if re.fullmatch(r"\./gate|\S+/agent-eval-action(?:/gate)?@\S+", str(tree.get("uses", ""))):
            yield tree
        for inner in tree.values():
            yield from steps_in(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from steps_in(inner)


@pytest.mark.parametrize("path", [*PAGES, *WORKFLOWS], ids=lambda path: path.name)
def test_docs__use_inputs_and_outputs_that_exist(path: Path) -> None:
    for step in steps_in(yaml_of(path)):
        assert set(step.get("with", {})) <= {setting.input for setting in SETTINGS}
    ours = r"steps\.(?:gate|good|broken)\.outputs\.([a-z-]+)"
    assert set(re.findall(ours, path.read_text("utf-8"))) <= set(OUTPUTS)


def test_docs__examples_are_found() -> None:
    """A test of the test above."""
    assert len(list(steps_in(yaml_of(ROOT / "docs/recipes.md")))) >= 2
    assert len(list(steps_in(yaml_of(ROOT / ".github/workflows/self-test.yml")))) == 2
