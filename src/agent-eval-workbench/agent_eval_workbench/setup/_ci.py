"""What runs the evals in CI. The workflow is the README's, the other texts are those of docs/recipes.md."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from agent_eval_agents.sandbox import BASE_VARIABLES, MODEL_VARIABLES
from agent_eval_scoring.core.files import open_regular
from agent_eval_scoring.evalset.paths import name_of

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
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH # the baseline of merge requests
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


DEFAULT_KEY = "GOOGLE_API_KEY"
_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")
_GEMINI = re.compile(r"""["'/]gemini-|^\s*model:\s*gemini-""", re.MULTILINE)
"""A model of Google's in Python or YAML. An agent without any model in its source uses ADK's default, also Google's."""
_GOOGLE_KEYS = {DEFAULT_KEY, "GEMINI_API_KEY"}
_LOGIN = re.compile(
    r"""\bauth\.default\(|GOOGLE_GENAI_USE_VERTEXAI["']\]?\s*[,=]\s*["'](?i:true|1)["']"""
    r"""|\b(?:storage|bigquery|firestore|secretmanager)\.\w*Client\(|\bvertexai\.init\("""
)
"""What asks for Google Cloud's credentials, most often when it is imported, as agents of Google's scaffolds do."""
_LITELLM = re.compile(r"""["'](openai|anthropic|mistral|groq|deepseek|openrouter|xai)/""")
"""Models of LiteLLM whose key is the variable NAME_API_KEY (docs.litellm.ai/docs/providers)."""
_MOST_BYTES = 200_000
_MOST_FILES = 200


@dataclass(frozen=True, kw_only=True)
class Variables:
    """The environment variables that agents need, by their source."""

    keys: tuple[str, ...]
    """The keys of their models' providers, which the gate passes to them."""
    reads: dict[str, tuple[str, ...]]
    """The other variables that the source reads, each with its places, FILE:LINE."""
    aside: tuple[str, ...] = ()
    """Those that only files read which no agent imports, e.g. a server's."""
    login: tuple[str, ...] = ()
    """Where agents ask for Google Cloud's credentials, FILE:LINE."""


def find_variables(root: Path, directories: Sequence[Path]) -> Variables:
    """Searches the source of agents.

    Args:
        root: The repository.
        directories: The agents.
    """
    keys: dict[str, None] = {}
    reads: dict[str, list[str]] = {}
    aside: dict[str, None] = {}
    login: dict[str, None] = {}
    is_google = False
    for directory in directories:
        imported = _imported(directory, root)
        for path in islice(_sources(directory), _MOST_FILES):
            text = _text(path)
            is_google |= _GEMINI.search(text) is not None
            # LiteLLM reads its keys itself, so no name of a variable is in the agent's source.
            names = [*_KEY.findall(text), *(f"{name.upper()}_API_KEY" for name in _LITELLM.findall(text))]
            keys |= dict.fromkeys(name for name in names if is_passed(name))
            if path.suffix != ".py":
                continue
            is_imported = imported is None or path in imported
            lines = enumerate(text.splitlines() if is_imported else (), 1)
            login |= {f"{name_of(path, root)}:{line}": None for line, row in lines if _LOGIN.search(row.split("#")[0])}
            for name, line in _reads(text):
                if is_imported:
                    reads.setdefault(name, []).append(f"{name_of(path, root)}:{line}")
                else:
                    aside[name] = None
    # First: the workflow's example has this one.
    if not keys or (is_google and not keys.keys() & _GOOGLE_KEYS):
        keys = {DEFAULT_KEY: None, **keys}

    def is_other(name: str) -> bool:
        return name not in keys and not _matches(name, BASE_VARIABLES)

    return Variables(
        keys=tuple(keys),
        reads={name: tuple(dict.fromkeys(places)) for name, places in reads.items() if is_other(name)},
        login=tuple(login),
        aside=tuple(name for name in aside if name not in reads and is_other(name)),
    )


def _imported(directory: Path, root: Path) -> set[Path] | None:
    """The files below an agent that its module imports, as the source says; None if that can't be said."""
    waiting = [path for path in (directory / "agent.py", directory / "__init__.py") if path.is_file()]
    # YAML names its modules by dotted paths, which ADK imports.
    if not waiting or (directory / "root_agent.yaml").is_file():
        return None
    bases = [folder for folder in (directory, *directory.parents) if folder.is_relative_to(root)]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            # Parsed, never imported: `init` runs no code of the repository.
            tree = ast.parse(_text(path))
        except (SyntaxError, ValueError, RecursionError):
            return None
        for level, name in _imports(tree):
            for base in list(path.parents)[level - 1 : level] if level else bases:
                parts = name.split(".") if name else []
                for depth in range(len(parts) + 1):
                    module = base.joinpath(*parts[:depth])
                    files = (module / "__init__.py", module.with_suffix(".py") if depth else module)
                    waiting += [file for file in files if file.is_relative_to(directory) and file.is_file()]
    return seen


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a module imports: the dots before a name, and the name with what is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, f"{node.module or ''}.{alias.name}".strip(".")) for alias in node.names)


def is_passed(name: str) -> bool:
    """Whether the agent gets a variable of the job by default."""
    return _matches(name, MODEL_VARIABLES)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _reads(text: str) -> Iterator[tuple[str, int]]:
    """The variables that Python source reads, with lines: `os.getenv("A")`, `environ["A"]`, `environ.get("A")`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return  # Cut, or not Python 3: the agent's own error is more specific.
    for node in ast.walk(tree):
        # Load: a program that sets a variable does not need it from the job.
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _name(node.value) == "environ":
            key: ast.expr | None = node.slice
        elif isinstance(node, ast.Call) and _is_reader(node.func):
            key = node.args[0] if node.args else None
        else:
            continue
        # A name that is computed can't be known.
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
            yield key.value, node.lineno


def _is_reader(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and function.attr in {"get", "pop"}:
        return _name(function.value) == "environ"
    return _name(function) == "getenv"


def _name(expression: ast.expr) -> str:
    """The last part of a name: `environ` of `os.environ`."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def _sources(directory: Path) -> Iterator[Path]:
    """The source files of an agent, without environments and hidden directories."""
    for folder, folders, files in os.walk(directory):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        yield from (Path(folder, name) for name in sorted(files) if name.endswith((".py", ".yaml")))


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
