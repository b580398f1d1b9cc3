"""`agent-eval init` in a dozen small repositories. What it writes is valid, and a second time nothing changes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from gate_runs import AGENT_EVAL, Repository
from pty_terminal import on_terminal

from agent_eval_workbench.setup import _ci

ROOT = Path(__file__).parents[2]
AGENT = "from google.adk.agents import Agent\nroot_agent = Agent(name='a', model='gemini-2.5-flash')\n"
EVALS = """{"eval_set_id": "a", "eval_cases": [{"eval_id": "one", "conversation": [
    {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}}]}]}"""
GITHUB = '[remote "origin"]\n\turl = git@github.com:o/r.git\n'
ZIZMOR = 'rules: {unpinned-uses: {config: {policies: {"*": ref-pin}}}}\n'


CONFIG, WORKFLOW, IGNORE = "evals/test_config.json", ".github/workflows/evals.yml", ".gitignore"
WITHOUT_CI, ON_GITHUB = {CONFIG, IGNORE}, {CONFIG, IGNORE, WORKFLOW}
SAMPLES: dict[str, tuple[dict[str, str], set[str], tuple[str, ...]]] = {
    "one agent on GitHub": (
        {"agents/home/agent.py": AGENT, ".git/config": GITHUB},
        ON_GITHUB,
        (r"to do +evals/home.evalset.json +record a case of agents/home", "agent-eval record evals/home.evalset.json"),
    ),
    "a yaml agent without a remote": (
        {"yaml/root_agent.yaml": "name: a\nmodel: gemini-2.5-flash\n"},
        WITHOUT_CI,
        (
            "record a case of yaml",
            r"to do +CI +no CI system was recognised: agent-eval init --ci github \(or gitlab",
        ),
    ),
    "src layout and no model of Google's": (
        {
            "src/bot/__init__.py": "from . import agent",
            "src/bot/agent.py": AGENT.replace("gemini-2.5-flash", "openai/gpt-4.1"),
            ".github/x": "",
        },
        ON_GITHUB,
        ("record a case of src/bot", "secret OPENAI_API_KEY "),
    ),
    "two agents": (
        {"agents/a/agent.py": AGENT, "agents/b/agent.py": AGENT, ".github/x": ""},
        {*ON_GITHUB, "agent-eval.toml"},
        ("evals/a.evalset.json", "evals/b.evalset.json", r"created +agent-eval.toml +\[agents\]"),
    ),
    "two agents and settings": (
        {"a/agent.py": AGENT, "b/agent.py": AGENT, "agent-eval.toml": "num-runs = 2"},
        {*WITHOUT_CI, "agent-eval.toml"},
        (r"changed +agent-eval.toml",),
    ),
    "evals and a workflow": (
        {
            "home/agent.py": AGENT,
            "home/evals/a.test.json": EVALS,
            "home/evals/test_config.json": '{"criteria": {"response_match_score": 0.1}}',
            ".github/workflows/ci.yml": "jobs: {e: {steps: [uses: org/agent-eval-action@v1]}}",
            ".gitignore": "/agent-eval-results\n.adk",
        },
        set(),
        (r"kept +1 eval file +1 case", r"kept +\.github/workflows/ci.yml", "Next:\n  agent-eval run"),
    ),
    "evals with ADK's criteria": (
        {"home/agent.py": AGENT, "home/a.test.json": EVALS, ".gitignore": "x\r\ny"},
        {IGNORE},
        (r"kept +criteria +ADK's defaults",),
    ),
    "variables that the source reads": (
        {
            "home/agent.py": AGENT + "import os\nTOKEN = os.environ['CRM_TOKEN']\nos.environ['SET_HERE'] = ''\n",
            "home/tools.py": "from os import environ, getenv\nprint(\n    getenv('PLACES_KEY', ''),\n"
            "    environ.get('OPENAI_API_KEY'), environ['HOME'], getenv('GOOGLE_CLOUD_PROJECT'))\n"
            "TOKEN = environ.get('CRM_TOKEN'), environ.get('GITHUB_TOKEN')\n",
            "home/old.py": "print getenv('PYTHON_2')\n",
            ".github/x": "",
        },
        ON_GITHUB,
        (
            "secret GOOGLE_API_KEY and OPENAI_API_KEY",
            r"to do +CRM_TOKEN +read at home/agent\.py:4, home/tools\.py:5; not passed to the agent",
            r"to do +PLACES_KEY +read at home/tools\.py:3; not passed",
            r"to do +GOOGLE_CLOUD_PROJECT +read at home/tools\.py:4; not passed",
            r"to do +GITHUB_TOKEN +read at home/tools\.py:5; `GITHUB_TOKEN` can't be forwarded",
            r'variables +set those that the agent needs in the job, with `agent-env: "\+CRM_TOKEN,PLACES_KEY"`\n',
        ),
    ),
    "variables that the workflow passes": (
        {
            "home/agent.py": AGENT + "import os\nTOKEN = os.environ['CRM_TOKEN']\n",
            WORKFLOW: "jobs: {e: {steps: [{uses: org/agent-eval-action@v1, with: {agent-env: +CRM_TOKEN}}]}}",
        },
        WITHOUT_CI,
        (r"^(?!(?s:.*)CRM_TOKEN)",),
    ),
    "misnamed config and GitLab's address": (
        {
            "home/agent.py": AGENT,
            "evals/test-config.json": '{"criteria": {"response_match_score": 1}}',
            ".git/config": GITHUB.replace("github", "gitlab"),
        },
        {IGNORE},
        (
            r"to do +evals/test-config\.json +The file has criteria but is not read",
            r"to do +\.gitlab-ci.yml +add the job below; set GOOGLE_API_KEY in the CI system",
        ),
    ),
    "GitLab": (
        {"home/agent.py": AGENT, ".gitlab-ci.yml": "stages: [test]\n"},
        WITHOUT_CI,
        (r"to do +\.gitlab-ci.yml", "    evals:\n      image:"),
    ),
    "Jenkins, and the root is the agent": (
        {"agent.py": AGENT, "Jenkinsfile": "pipeline {}\n"},
        WITHOUT_CI,
        (r"to do +Jenkinsfile", "    pipeline {", "record a case of ."),
    ),
}
"""By name: the files of a repository, those that `init` adds or changes, and patterns of its output."""


def write(root: Path, files: Mapping[str, str]) -> Repository:
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(text)
    return Repository(root=root)


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", SAMPLES)
def test_init__writes_what_is_missing_once(name: str, tmp_path: Path) -> None:
    files, changed, out = SAMPLES[name]
    repository = write(tmp_path / "repo", files)
    before = contents(repository.root)
    planned = repository.gate("init", "--dry-run")
    assert (planned.code, contents(repository.root)) == (0, before), planned.out + planned.err
    done = repository.gate("init")
    assert done.code == 0, done.out + done.err
    for pattern in out:
        assert re.search(pattern, done.out), (pattern, done.out)
    assert ("`replay: missing-live`" in done.out) == ("record a case of" in done.out)
    after = contents(repository.root)
    assert {path for path, text in after.items() if before.get(path) != text} == changed
    assert all(after[path].startswith(text) for path, text in before.items())
    again = repository.gate("init", "--yes")
    assert (again.code, contents(repository.root)) == (0, after)
    assert not re.search(r"^(created|changed) ", again.out, re.MULTILINE)

    if not any(path.endswith(".test.json") for path in before):
        name = sorted(re.findall(r"evals/\w+\.evalset\.json", done.out))[0]
        (repository.root / name).write_text(EVALS, "utf-8")
    checked = repository.gate("validate", "--plan")
    assert checked.code == 0, checked.out + checked.err
    assert "[agent-ambiguous]" not in checked.err


@pytest.mark.parametrize(
    ("ci", "out"),
    [
        ("gitlab", r"to do +\.gitlab-ci\.yml +add the job below;(?s:.*)    evals:\n      image:"),
        ("jenkins", r"to do +Jenkinsfile +add the job below;(?s:.*)    pipeline {"),
        ("github", r"create +\.github/workflows/evals\.yml"),
        ("none", r"^(?!(?s:.*)(CI system|workflow|Jenkinsfile))"),
    ],
)
def test_init__can_be_told_the_ci_system(ci: str, out: str, tmp_path: Path) -> None:
    """In a repository that has signs of another one, or of none."""
    for name, files in (("bare", {}), ("on-github", {".github/x": ""})):
        repository = write(tmp_path / name, {"home/agent.py": AGENT, **files})
        planned = repository.gate("init", "--dry-run", "--ci", ci)
        assert planned.code == 0 and re.search(out, planned.out), planned.out + planned.err


def lint(tool: str, *arguments: str | Path) -> None:
    command = [Path(sys.executable).with_name(tool), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_init__the_workflow_is_the_readmes_and_passes_linters(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"```yaml\n{_ci.WORKFLOW}```" in readme
    recipes = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert f"```yaml\n{_ci.GITLAB}```" in recipes
    assert f"```groovy\n{_ci.JENKINS}```" in recipes
    assert _ci.jenkins(["OPENAI_API_KEY"]).count("OPENAI_API_KEY = credentials('openai-api-key')") == 1
    (tmp_path / "zizmor.yml").write_text(ZIZMOR, "utf-8")
    for number, variables in enumerate((["GOOGLE_API_KEY"], ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])):
        path = tmp_path / ".github" / "workflows" / f"evals{number}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_ci.workflow(variables, "main"), "utf-8")
        lint("actionlint", "-no-color", path)
        lint("zizmor", "--offline", "--quiet", "--config", tmp_path / "zizmor.yml", path)
    assert _ci.workflow(["GOOGLE_API_KEY"], "main") == _ci.WORKFLOW


def test_init__refuses(tmp_path: Path) -> None:
    repository = write(tmp_path / "repo", {"app/agent.py": "from google.adk.agents import Agent\nbot = Agent()\n"})
    before = contents(repository.root)
    nothing = repository.gate("init")
    assert (nothing.code, "[init-no-agent]" in nothing.out) == (2, True)
    assert "app/agent.py defines no `root_agent` (its agent is named `bot`)" in nothing.out
    assert "my_agent/root_agent.yaml" in nothing.out
    missing = repository.gate("init", "nowhere")
    assert (missing.code, "[init-directory]" in missing.out) == (2, True)
    (repository.root / "app" / "agent.py").write_text(AGENT, "utf-8")
    (repository.root / "evals").write_text("a file", "utf-8")
    unwritable = repository.gate("init")
    assert (unwritable.code, "[init-unwritable] evals/test_config.json" in unwritable.out) == (2, True)
    assert contents(repository.root).keys() == before.keys() | {"evals"}
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository.root / "evals").unlink()
    (repository.root / "evals").symlink_to(outside)
    linked = repository.gate("init")
    assert (linked.code, "[init-unwritable] evals/test_config.json" in linked.out) == (2, True)
    (repository.root / "evals").unlink()
    (repository.root / ".gitignore").write_bytes(b"caf\xe9\n")
    latin = repository.gate("init")
    assert (latin.code, "it can't be read; add agent-eval-results/ and .adk/" in latin.out) == (0, True), latin.err
    assert (repository.root / ".gitignore").read_bytes() == b"caf\xe9\n"
    assert not list(outside.iterdir())


def test_init__offers_a_recording_in_a_terminal(tmp_path: Path) -> None:
    repository = write(tmp_path / "repo", {"agents/a/agent.py": AGENT, "agents/b/agent.py": AGENT})
    command = [*AGENT_EVAL, "init"]
    with on_terminal(command, cwd=repository.root, environment=repository.environment(), columns=40) as terminal:
        terminal.expect(r"Talk to agents/a now, and keep the\s+conversation as its first case\? \[Y/n\] $")
        terminal.type("n")
        terminal.expect(r"Talk to agents/b now")
        terminal.press("\x03")
        terminal.expect(r"agent-eval record evals/a\.evalset\.json\n +agent-eval record evals/b\.evalset\.json")
        assert terminal.code() == 0
    assert not list((repository.root / "evals").glob("*.evalset.json"))
