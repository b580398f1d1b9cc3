"""The workflows of docs/recipes.md are workflows: actionlint reads them as it reads our own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
WORKFLOWS = [
    text for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    if re.search(r"^jobs:$", text, re.MULTILINE) and re.search(r"^on:$", text, re.MULTILINE)
]  # fmt: skip


def test_recipes__have_workflows() -> None:
    assert len(WORKFLOWS) >= 3


@pytest.mark.parametrize("number", range(len(WORKFLOWS)))
def test_recipe__passes_actionlint(tmp_path: Path, number: int) -> None:
    path = tmp_path / ".github" / "workflows" / "recipe.yml"
    path.parent.mkdir(parents=True)
    path.write_text(WORKFLOWS[number], encoding="utf-8")
    linter = Path(sys.executable).with_name("actionlint")

    done = subprocess.run([linter, "-no-color", path], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", range(len(WORKFLOWS)))
def test_recipe__of_a_required_check_is_never_skipped(number: int) -> None:
    """GitHub counts a skipped job as passed."""
    text = WORKFLOWS[number]
    if "mode: publish" not in text:
        assert not re.search(r"^    if:", text, re.MULTILINE)


PAGES = sorted([*(Path(__file__).parents[2] / "docs").glob("*.md"), Path(__file__).parents[2] / "README.md"])
BLOCKS = [
    (page.name, text)
    for page in PAGES
    for text in re.findall(r"^```ya?ml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]


def test_blocks__every_checkout_leaves_no_token() -> None:
    for page, text in BLOCKS:
        steps = re.split(r"^ *- ", text, flags=re.MULTILINE)
        for step in (step for step in steps if "actions/checkout@" in step):
            assert "persist-credentials: false" in step, (page, step)


def test_blocks__every_workflow_limits_its_token_and_its_runs() -> None:
    whole = [(page, text) for page, text in BLOCKS if re.search(r"^on:$(?s:.*)^jobs:$", text, re.MULTILINE)]
    assert len(whole) >= 4
    for page, text in whole:
        assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE), (page, text)
        assert re.search(r"^concurrency:\n  group: \S", text, re.MULTILINE), (page, text)
        # Runs of main record baselines: they share no group, so that none of them is cancelled.
        assert "pull_request.number || github.run_id" in text or "mode: publish" in text, (page, text)
