"""Inputs and outputs are described alike in settings, both action.yml, README, docs and workflows.

UPDATE_GOLDEN=1 writes the inputs into gate/action.yml, action.yml and README.md.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden_files import check_part
from ruamel.yaml import YAML

from agent_eval.settings import SETTINGS
from agent_eval_results.report.renderers.outputs import OUTPUTS

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "gate/action.yml")
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def inputs_of(defaults: Mapping[str, str]) -> str:
    """The `inputs:` that follow from the settings.

    Those of gate/action.yml have no `default:`, because GitHub passes a default as if the user had written it, and the
    value in agent-eval.toml would never apply. The token is the exception: no file may hold it, and a container gets
    it no other way (actions/runner).
    """
    lines = ["inputs:"]
    for setting in SETTINGS:
        own = defaults.get(setting.input)
        text = f" Default: {setting.default}." if setting.default and own is None else ""
        lines += [f"  {setting.input}:", f"    description: {quoted(setting.help + text)}"]
        lines += [f"    default: {own}"] if own else []
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A quoted YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_action__has_every_setting_as_an_input() -> None:
    text = (ROOT / "gate/action.yml").read_text("utf-8")
    match = re.search(r"^inputs:.*?\n(?=\S)", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    check_part(ROOT / "gate/action.yml", match[0], inputs_of(TOKEN))


TOKEN = {"github-token": "${{ github.token }}"}
OWN_DEFAULTS = {
    "output-dir": "agent-eval-results",
    # Outside the checkout, so that a pull request can't commit replies.
    "judge-cache": "${{ runner.temp }}/agent-eval-judge-cache",
}
"""Defaults of the steps around the gate, which can't read agent-eval.toml."""


def root_blocks() -> dict[str, str]:
    """The generated parts of action.yml, by the line before each: inputs, outputs, and what the two gates get."""
    outputs, passed, linking = ["outputs:"], ["      with:"], ["      with:"]
    for setting in SETTINGS:
        value = f"${{{{ inputs.{setting.input} }}}}"
        passed.append(f"        {setting.input}: {value}")
        # It renders the comment again, so it needs all that the gate had, except the keys of models and servers.
        if setting.secret is None or setting.input == "github-token":
            linking.append(f"        {setting.input}: {LINKING.get(setting.input, value)}")
    for name, description in OUTPUTS.items():
        outputs += [f"  {name}:", f"    description: {quoted(description)}"]
        outputs.append(f"    value: ${{{{ steps.gate.outputs.{name} }}}}")
    blocks = {"outputs": outputs, "      id: gate": passed, "    - name: Link the report": linking}
    parts = {after: "\n".join(lines) + "\n" for after, lines in blocks.items()}
    return {"inputs": inputs_of({**TOKEN, **OWN_DEFAULTS}), **parts}


LINKING = {"mode": "link"}


@pytest.mark.parametrize("place", root_blocks())
def test_root_action__passes_everything_on(place: str) -> None:
    text, block = (ROOT / "action.yml").read_text("utf-8"), root_blocks()[place]
    first = block.partition("\n")[0]
    after = text.partition(f"{place}\n")[2] if place.startswith(" ") else text
    indent = " " * (len(first) - len(first.lstrip()))
    match = re.search(rf"^{first}\n(?:{indent}  .*\n)*", after, re.MULTILINE)
    assert match is not None
    head = f"{place}\n" if place.startswith(" ") else ""
    before = after[: match.start()]
    check_part(ROOT / "action.yml", head + before + match[0], head + before + block)


def test_action__has_every_output_and_claims_no_required_input() -> None:
    # GitHub does not enforce `required`; missing inputs are reported at run time.
    assert not [name for name, spec in ACTION["inputs"].items() if "required" in spec]
    assert {name: spec["description"] for name, spec in ACTION["outputs"].items()} == OUTPUTS
    assert ACTION["runs"]["using"] == "docker"
    assert "args" not in ACTION["runs"], "with arguments the entrypoint would be the command line"
    assert re.fullmatch(r"\.\./Dockerfile|docker://ghcr\.io/\S+@sha256:[0-9a-f]{64}", ACTION["runs"]["image"])


def test_readme__inputs_are_described_as_in_the_code() -> None:
    start, table = re.search(r"^(\| input \| meaning \| default \|\n\|[-|]+\|\n)(.*?)^$", README, re.M | re.S).groups()  # type: ignore[union-attr]
    settings = [setting for setting in SETTINGS if setting.basic]
    default = {setting.input: f" `{setting.default}`" if setting.default else "" for setting in settings}
    rows = "".join(f"| `{setting.input}` | {setting.help} |{default[setting.input]} |\n" for setting in settings)
    assert len(settings) <= 12 and max(len(setting.help.split()) for setting in settings) <= 20
    check_part(ROOT / "README.md", start + table, start + rows)


def yaml_of(path: Path) -> list[Any]:
    """A workflow, or the YAML blocks of a page."""
    text = path.read_text("utf-8")
    blocks = re.findall(r"^```ya?ml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if path.suffix == ".md" else [text]
    return [YAML(typ="safe").load(textwrap.dedent(block)) for block in blocks]


def steps_in(tree: Any) -> Iterator[dict[str, Any]]:
    """Every step that uses this action, at any depth."""
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
    steps = list(steps_in(yaml_of(path)))
    assert len(steps) >= {"recipes.md": 2, "self-test.yml": 2}.get(path.name, 0)
    for step in steps:
        assert set(step.get("with", {})) <= {setting.input for setting in SETTINGS}
    ours = r"steps\.(?:gate|good|broken)\.outputs\.([a-z-]+)"
    assert set(re.findall(ours, path.read_text("utf-8"))) <= set(OUTPUTS)
