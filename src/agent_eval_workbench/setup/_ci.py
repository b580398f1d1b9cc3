"""What runs the evals in CI. The workflow is the README's, the other texts are those of docs/recipes.md."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval_workbench.setup._variables import DEFAULT_KEY

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


def workflow(variables: Sequence[str], branch: str) -> str:
    """The workflow.

    Args:
        variables: Secrets that the agent needs.
        branch: The main branch.
    """
    line = f"          {DEFAULT_KEY}: ${{{{ secrets.{DEFAULT_KEY} }}}}\n"
    assert line in WORKFLOW
    lines = "".join(line.replace(DEFAULT_KEY, name) for name in variables)
    return WORKFLOW.replace(line, lines).replace("branches: [main]", f"branches: [{branch}]")


def jenkins(variables: Sequence[str]) -> str:
    """The pipeline for Jenkins."""
    [line] = [text for text in JENKINS.splitlines() if DEFAULT_KEY in text]
    lines = (line.replace(DEFAULT_KEY, name).replace("google-api-key", _credential(name)) for name in variables)
    return JENKINS.replace(line, "\n".join(lines))


def _credential(name: str) -> str:
    return name.lower().replace("_", "-")
