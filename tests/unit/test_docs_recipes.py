"""The workflows in the documentation are valid and safe: actionlint and zizmor check them as they check our own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import ROOT, blocks

BLOCKS = [
    (page.name, text)
    for page in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for text in blocks(page.read_text(encoding="utf-8"), "ya?ml")
]
COMPLETE = [(page, text) for page, text in BLOCKS if re.search(r"^on:$(?s:.*)^jobs:$", text, re.MULTILINE)]
README = next(text for page, text in COMPLETE if page == "README.md")
MOVED = "  actions: read\n  pull-requests: write\n"
LIMITED = README.replace(MOVED, "").replace(
    "  evals:\n", "  evals:\n    permissions:\n      contents: read\n" + MOVED.replace("  ", "      ")
)
"""README's workflow where a recipe adds a job: the permissions are those of its own job."""
ADDED = [(page, LIMITED + text.removeprefix("jobs:\n")) for page, text in BLOCKS if text.startswith("jobs:\n")]
WORKFLOWS = COMPLETE + ADDED
NAMES = [f"{number}-{page}" for number, (page, _) in enumerate(WORKFLOWS)]
ZIZMOR = """\
rules:
  unpinned-uses: {config: {policies: {"*": ref-pin}}} # README describes how to pin by SHA
  dangerous-triggers: {disable: true} # pull_request_target with an approval, workflow_run: see docs/security.md
"""


def lint(tool: str, *arguments: str | Path) -> None:
    """Runs a linter of the development environment; fails with its findings."""
    command = [Path(sys.executable).with_name(tool), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def test_docs__have_workflows() -> None:
    assert {page for page, _ in WORKFLOWS} >= {"README.md", "forks.md", "recipes.md", "scale.md"}
    assert [page for page, _ in ADDED] == ["recipes.md"]


@pytest.mark.parametrize(("page", "text"), WORKFLOWS, ids=NAMES)
def test_workflow__is_valid_safe_and_never_skipped_where_it_is_a_required_check(
    tmp_path: Path, page: str, text: str
) -> None:
    path = tmp_path / ".github" / "workflows" / f"{page}.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    config = tmp_path / "zizmor.yml"
    config.write_text(ZIZMOR, encoding="utf-8")

    lint("actionlint", "-no-color", path)
    lint("zizmor", "--offline", "--quiet", "--config", config, path)
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE), page
    assert re.search(r"^concurrency:\n  group: \S", text, re.MULTILINE), page
    if "mode: publish" not in text:
        # Runs of main record baselines. They share no concurrency group, so that none of them is cancelled.
        assert "pull_request.number || github.run_id" in text, page
        # GitHub counts a skipped job as passed. With `!cancelled()` a job also runs after failed or skipped ones.
        required = re.sub(r"^  pages:\n(?:    .*\n)+", "", text, flags=re.MULTILINE)  # It only publishes.
        conditions = re.findall(r"^    if: (\S.*?)(?: #.*)?$", required, re.MULTILINE)
        assert set(conditions) <= {"${{ !cancelled() }}"}, page


def test_checkouts__store_no_token_and_have_one_version() -> None:
    steps = [
        (page, step)
        for page, text in BLOCKS
        for step in re.split(r"^ *- ", text, flags=re.MULTILINE)
        if "actions/checkout@" in step
    ]
    assert len(steps) >= 5
    for page, step in steps:
        assert "persist-credentials: false" in step, (page, step)
    assert {re.findall(r"actions/checkout@(\S+)", step)[0] for _, step in steps} == {"v6"}
