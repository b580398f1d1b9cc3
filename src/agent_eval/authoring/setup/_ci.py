"""What runs the evals in CI. The workflow is the README's, the other texts are those of docs/recipes.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from agent_eval.agents.sandbox import MODEL_VARIABLES
from agent_eval.core.files import open_regular

WORKFLOW = """\
name: Evals
on:
  pull_request:
  merge_group:
  push:
    branches: [main] # records the baseline that pull requests are compared with
permissions:
  contents: read
  actions: read
  pull-requests: write
concurrency:
  group: evals-${{ github.event.pull_request.number || github.run_id }}
  cancel-in-progress: true # a newer push to the same pull request
jobs:
  evals:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v6
        with:
          persist-credentials: false
      - uses: org/agent-eval-action@v1
        env:
          GOOGLE_API_KEY: ${{ secrets.GOOGLE_API_KEY }}
"""
GITLAB = """\
evals:
  image:
    name: ghcr.io/org/agent-eval-action:1
    entrypoint: [""]
  script:
    - agent-eval run
  artifacts:
    when: always
    paths: [agent-eval-results/]
    reports:
      junit: agent-eval-results/junit.xml
"""
JENKINS = """\
pipeline {
  agent { docker { image 'ghcr.io/org/agent-eval-action:1'; args '--user root --entrypoint=' } }
  environment { GOOGLE_API_KEY = credentials('google-api-key') }
  stages {
    stage('evals') {
      steps { sh 'agent-eval run' }
    }
  }
  post {
    always {
      junit 'agent-eval-results/junit.xml'
      archiveArtifacts artifacts: 'agent-eval-results/**', allowEmptyArchive: true
    }
  }
}
"""
_DEFAULT_KEY = "GOOGLE_API_KEY"
_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")
_LITELLM = re.compile(r"""["'](openai|anthropic|mistral|groq|deepseek|openrouter|xai)/""")
"""Models of LiteLLM whose key is the variable NAME_API_KEY (docs.litellm.ai/docs/providers)."""
_MOST_BYTES = 200_000
_MOST_FILES = 200


def key_variables(directories: Sequence[Path]) -> list[str]:
    """The variables with keys of model providers that the agents' source mentions, or that its models need."""
    variables: dict[str, None] = {}
    for directory in directories:
        for path in islice(_sources(directory), _MOST_FILES):
            text = _text(path)
            names = [*_KEY.findall(text), *(f"{name.upper()}_API_KEY" for name in _LITELLM.findall(text))]
            variables |= dict.fromkeys(
                name for name in names if any(fnmatchcase(name, glob) for glob in MODEL_VARIABLES)
            )
    return list(variables)


def _sources(directory: Path) -> Iterator[Path]:
    """The source files of an agent, without environments and hidden directories."""
    for folder, folders, files in os.walk(directory):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        yield from (Path(folder, name) for name in sorted(files) if name.endswith((".py", ".yaml")))


def workflow(variables: Sequence[str], branch: str) -> str:
    """The workflow.

    Args:
        variables: Secrets that the agent needs; empty for Google's key.
        branch: The main branch.
    """
    line = f"          {_DEFAULT_KEY}: ${{{{ secrets.{_DEFAULT_KEY} }}}}\n"
    assert line in WORKFLOW
    lines = "".join(line.replace(_DEFAULT_KEY, name) for name in variables or (_DEFAULT_KEY,))
    return WORKFLOW.replace(line, lines).replace("branches: [main]", f"branches: [{branch}]")


def gitlab(variables: Sequence[str]) -> str:
    """The job for GitLab, whose variables are set in the project."""
    return GITLAB


def jenkins(variables: Sequence[str]) -> str:
    """The pipeline for Jenkins."""
    [line] = [text for text in JENKINS.splitlines() if _DEFAULT_KEY in text]
    names = variables or (_DEFAULT_KEY,)
    return JENKINS.replace(
        line, "\n".join(line.replace(_DEFAULT_KEY, name).replace("google-api-key", _credential(name)) for name in names)
    )


def _credential(name: str) -> str:
    return name.lower().replace("_", "-")


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
