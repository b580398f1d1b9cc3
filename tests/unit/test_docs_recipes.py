"""The workflows in the documentation are valid and safe: actionlint and zizmor check them as they check our own."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from base_repos import Repo, new_repo
from docs_pages import ROOT, blocks, section
from docs_pages import page as page_of

from agent_eval.forge import Event
from agent_eval.pipeline import recording_refused
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.settings import read_settings

BLOCKS = [
    (path.name, text)
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for text in blocks(path.read_text(encoding="utf-8"), "ya?ml")
]
COMPLETE = [(page, text) for page, text in BLOCKS if re.search(r"^on:$(?s:.*)^jobs:$", text, re.MULTILINE)]
README = next(text for page, text in COMPLETE if page == "README.md")
MOVED = "  actions: read\n  pull-requests: write\n"
LIMITED = README.replace(MOVED, "").replace(
    "  evals:\n", "  evals:\n    permissions:\n      contents: read\n" + MOVED.replace("  ", "      ")
)
"""README's workflow where a recipe adds a job: the permissions are those of its own job."""
ADDED = [(page, LIMITED + text.removeprefix("jobs:\n")) for page, text in BLOCKS if text.startswith("jobs:\n")]
TRIGGERS, STEPS, JOB = blocks(
    section(page_of("recipes.md"), "## GitHub: tapes on pull requests, recorded again every week"), "yaml"
)
RECORDING = re.sub(r"^on:\n(?: .*\n)+", TRIGGERS, LIMITED, flags=re.MULTILINE).partition("      - uses: org/")[0]
RECORDING += STEPS + JOB.removeprefix("jobs:\n")
WORKFLOWS = [*COMPLETE, *ADDED, ("recording", RECORDING)]
NAMES = [f"{number}-{name}" for number, (name, _) in enumerate(WORKFLOWS)]
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
    assert [page for page, _ in ADDED] == ["recipes.md"] * 2


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
        required = re.sub(r"^  (?:pages|tapes):\n(?:    .*\n)+", "", text, flags=re.MULTILINE)  # They only publish.
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


@pytest.mark.parametrize("event", ["pull_request", "merge_group", "push", "schedule", "workflow_dispatch"])
def test_recording__runs_for_events_that_may_record_without_a_question(event: str) -> None:
    assert re.search(rf"^  {event}:", TRIGGERS, re.MULTILINE)
    [events] = map(json.loads, set(re.findall(r"contains\(fromJSON\('(.+?)'\), github.event_name\)", RECORDING)))
    chosen = re.findall(r"^ +(replay|record): .* && '(.+)' \|\| '(.+)' }}$", STEPS, re.MULTILINE)
    flags = {name: recording if event in events else otherwise for name, recording, otherwise in chosen}
    settings, problems = read_settings(ROOT, flags={**flags, "num-runs": "3"})
    assert (len(chosen), problems) == (2, [])
    assert (settings.record, settings.replay) == (("all", "off") if event in events else ("off", "missing-live"))
    ci = dataclasses.replace(LOCAL, event=Event(name=event))
    assert recording_refused(settings, ci, in_ci=True) == []


def test_recording__commits_tapes_alone_and_opens_a_pull_request(tmp_path: Path) -> None:
    script = textwrap.dedent(JOB.partition("run: |\n")[2])
    remote, checkout, calls = Repo(tmp_path / "remote"), new_repo(tmp_path / "checkout"), tmp_path / "calls"
    remote.root.mkdir()
    remote.git("init", "-q", "--bare")
    checkout.commit({"evals/a.evalset.tools/on.tape.json": "1", "agent.py": "1"})
    checkout.git("remote", "add", "origin", str(remote.root))
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n', "utf-8")
    gh.chmod(0o755)

    def run(number: int) -> None:
        variables = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "GITHUB_RUN_ID": str(number), "HOME": str(tmp_path)}
        subprocess.run(["bash", "-e", "-c", script], cwd=checkout.root, env=variables, check=True, timeout=60)

    checkout.write({"agent.py": "2"})
    run(1)
    assert not calls.exists()
    checkout.write({"evals/a.evalset.tools/on.tape.json": "2", "evals/b.evalset.tools/new.tape.json": "2"})
    run(2)
    assert calls.read_text("utf-8").splitlines() == ["auth setup-git", "pr create --fill"]
    changed = remote.git("diff", "--name-only", "tapes-2~", "tapes-2").split()
    assert changed == ["evals/a.evalset.tools/on.tape.json", "evals/b.evalset.tools/new.tape.json"]
