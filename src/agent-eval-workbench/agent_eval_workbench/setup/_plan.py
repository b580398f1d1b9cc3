"""Finds out what a repository lacks to run evals."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from agent_eval_agents.discovery import WHAT_IS_AN_AGENT, AgentChoices, find_agents
from agent_eval_agents.sandbox import allow_list
from agent_eval_results import DEFAULT
from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.git_process import CONFIG, ENVIRONMENT, KEPT, GitError, run_git
from agent_eval_scoring.core.problem import Problem, Severity, alike, errors_of, has_error
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.evalset.json import write_text
from agent_eval_scoring.evalset.models import Suite
from agent_eval_scoring.evalset.parse import ConfigFinder
from agent_eval_scoring.evalset.paths import absolute, name_of, repository_of
from agent_eval_workbench.setup import _ci
from agent_eval_workbench.setup._ci import Variables, find_variables, is_passed

_EVALS = "evals"
_CONFIG = {
    "criteria": {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
        "response_facts": {"threshold": 1.0, "names": True, "states": True, "negation": True},
        "response_match_score": 0.3,
    }
}
_IGNORED = (f"{DEFAULT}/", ".adk/")
_SETTINGS = "agent-eval.toml"
_GATE = "agent-eval"
_PER_FILE = 3
MOST_AGENTS = 8
"""Most agents without evals that are listed; a repository of samples can have a hundred."""
_MOST_VARIABLES = 12
_LOGIN = "GOOGLE_APPLICATION_CREDENTIALS"
_GITLAB, _JENKINS = ".gitlab-ci.yml", "Jenkinsfile"
_SECONDS = 10.0
_BRANCH = re.compile(r"[A-Za-z0-9][\w./-]*")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that is there, or is missing."""

    status: Literal["create", "change", "kept", "to do"]
    what: str
    """A file relative to the directory, or what is to do."""
    note: str = ""
    """Why, or what it contains."""
    path: Path | None = None
    text: str | None = None
    """The new content of the file, if it is written."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The state of a repository."""

    steps: tuple[Step, ...] = ()
    records: tuple[tuple[str, str], ...] = ()
    """Eval files to record, each with its agent."""
    snippet: str = ""
    """What is to be added by hand, e.g. a job for another CI system."""
    problems: tuple[Problem, ...] = ()
    """Errors: nothing is written."""


def plan_setup(root: Path, *, ci: str | None = None) -> Setup:
    """Looks at a repository without changing it.

    Args:
        root: Its directory.
        ci: `github`, `gitlab`, `jenkins` or `none`; None for the system that the repository uses.
    """
    from agent_eval.pipeline import find
    from agent_eval.settings import read_settings

    root = absolute(root)
    if not root.is_dir():
        return _error("init-directory", f"{root} is not a directory.", "Name the directory of the repository.")
    agents, lacking = find_agents(root)
    if not agents:
        more = f" {'; '.join(lacking[:3])}." if lacking else ""
        where = "this directory" if root == Path.cwd() else root
        message = f"There is no agent in {where} or the directories below it.{more}"
        return _error("init-no-agent", message, WHAT_IS_AN_AGENT)
    settings, problems = read_settings(root)
    if has_error(problems):
        return Setup(problems=tuple(problems))
    suite, choices = find(settings)
    missing = _without_evals(agents, choices, suite)
    files = dict(zip(missing, _new_files(missing, root), strict=True))
    steps = [
        *_eval_files(suite, choices, files),
        *_config(root, suite, bool(files)),
        *_ignored(root),
        *_mapping(root, files, len(agents)),
    ]
    snippet = ""
    variables = find_variables(root, [root / agent for agent in agents])
    if ci != "none":
        jobs, snippet = _workflow(root, variables.keys, ci)
        steps += jobs
    steps += _not_passed(root, variables)
    # All or nothing: half a setup would look like one that somebody has changed.
    unwritable = next((step for step in steps if step.path is not None and not _can_write(step.path, root)), None)
    if unwritable is not None:
        hint = "It must be a regular file, or missing, in a writable directory of the repository."
        return _error("init-unwritable", f"{unwritable.what} can't be written.", hint)
    return Setup(steps=tuple(steps), records=tuple((file, agent) for agent, file in files.items()), snippet=snippet)


def apply(setup: Setup) -> None:
    """Writes the files.

    Raises:
        OSError: One can't be written.
    """
    for step in setup.steps:
        if step.path is not None and step.text is not None:
            write_text(step.path, step.text)


def _error(code: str, message: str, hint: str) -> Setup:
    return Setup(problems=(Problem(code=code, message=message, hint=hint),))


def _can_write(path: Path, root: Path) -> bool:
    existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    # No link: its target may be anywhere, and may be shared.
    is_right = path.is_file() and not path.is_symlink() if existing == path else existing.is_dir()
    return is_right and os.access(existing, os.W_OK) and path.resolve().is_relative_to(root.resolve())


def _without_evals(agents: Sequence[str], choices: AgentChoices, suite: Suite) -> list[str]:
    """The agents that no eval file tests, not one with an error either."""
    tested = {choice.source for choice in choices.by_file.values()}
    broken = [problem.file for problem in suite.errors if problem.file is not None and suite.file_count]
    # A file with an error has no agent yet, and its agent is not without evals.
    if broken:
        tested |= {agent for agent in agents if agents[1:] == [] or any(f.startswith(f"{agent}/") for f in broken)}
    return [agent for agent in agents if agent not in tested]


def _name(agent: str, root: Path) -> str:
    return root.name if agent == "." else Path(agent).name


def _new_files(agents: Sequence[str], root: Path) -> Iterator[str]:
    """An eval file for each agent: with as much of its path as distinguishes it from the others."""
    names = [_name(agent, root) for agent in agents]
    for agent, name in zip(agents, names, strict=True):
        parts = Path(agent).parts
        others = [Path(other).parts for other, its in zip(agents, names, strict=True) if its == name and other != agent]
        most = next((n for n in range(1, len(parts)) if all(other[-n:] != parts[-n:] for other in others)), len(parts))
        yield f"{_EVALS}/{'_'.join(parts[-most:]) if others else name}.evalset.json"


def _eval_files(suite: Suite, choices: AgentChoices, files: dict[str, str]) -> Iterator[Step]:
    if suite.file_count:
        cases = sum(len(file.cases) for file in suite.files)
        yield Step(status="kept", what=plural(suite.file_count, "eval file"), note=plural(cases, "case"))
    errors = errors_of(choices.problems)
    errors += [problem for problem in suite.errors if problem.code not in {"no-eval-files", "no-eval-cases"}]
    shown: Counter[str | None] = Counter()
    for problem, others in alike(errors):
        shown[problem.file] += 1
        if shown[problem.file] <= _PER_FILE:
            note = f"{problem.message}{others} ({problem.hint})"
            yield Step(status="to do", what=problem.location or _SETTINGS, note=note)
    if any(count > _PER_FILE for count in shown.values()):
        yield Step(status="to do", what="eval files", note="`agent-eval validate` lists all their errors")
    for problem in suite.problems:
        why = (problem.hint or "").partition("Eval files are named ")[0].strip()
        if problem.code == "eval-file-misnamed":
            yield Step(status="to do", what=problem.location, note=f"{problem.message} ({problem.hint})")
        elif problem.code == "no-eval-files" and problem.severity is Severity.ERROR and why:
            yield Step(status="to do", what="eval files", note=why)
    for agent, file in islice(files.items(), MOST_AGENTS):
        yield Step(status="to do", what=file, note=f"record a case of {agent}")
    if (left := len(files) - MOST_AGENTS) > 0:
        note = f"have no eval file either; {_SETTINGS} names one for each"
        yield Step(status="to do", what=plural(left, "more agent"), note=note)


def _config(root: Path, suite: Suite, needed: bool) -> Iterator[Step]:
    """The criteria of the eval files in `evals/`."""
    configs = {file.config.source: file.config for file in suite.files if file.config.source is not None}
    for name, config in sorted(configs.items()):
        bare = [criterion.name for criterion in config.criteria if criterion.threshold is None]
        without = f"; no threshold, so compared with the base branch: {', '.join(bare)}" if bare else ""
        yield Step(status="kept", what=name, note=f"criteria{without}")
    path = root / _EVALS / "test_config.json"
    finder = ConfigFinder(root=root)
    nearest = finder.for_file(path)
    found = dict.fromkeys((*suite.problems, *finder.problems))
    misnamed = [problem for problem in found if problem.code == "config-misnamed"]
    for problem in (*misnamed, *(problem for problem in found if problem.code == "config-not-applied")):
        yield Step(status="to do", what=problem.location, note=f"{problem.message} ({problem.hint})")
    if nearest is None or nearest.source is not None:
        if nearest is not None and nearest.source not in configs:
            yield Step(status="kept", what=str(nearest.source), note="criteria")
    # Not beside one with almost the right name: that one is meant, and two would hide which applies.
    elif needed and not misnamed:
        note = (
            "tool_trajectory_avg_score 1.0, IN_ORDER: the agent makes the expected calls in this order, and may make "
            "others between them. response_facts 1.0: the answer has the expected numbers, dates, codes and names. "
            "response_match_score 0.3: it shares a third of its words, whatever they say"
        )
        text = json.dumps(_CONFIG, indent=2) + "\n"
        yield Step(status="create", what=name_of(path, root), note=note, path=path, text=text)
    elif suite.files and not configs and not misnamed:
        yield Step(status="kept", what="criteria", note="ADK's defaults, because there is no test_config.json")


def _ignored(root: Path) -> Iterator[Step]:
    path = root / ".gitignore"
    text = _read(path)
    if text is None and path.exists():
        yield Step(status="to do", what=".gitignore", note=f"it can't be read; add {' and '.join(_IGNORED)}")
        return
    present = {line.strip().strip("/") for line in (text or "").splitlines()}
    missing = [pattern for pattern in _IGNORED if pattern.strip("/") not in present]
    if not missing:
        yield Step(status="kept", what=".gitignore", note="ignores what runs leave")
        return
    # The file's own: mixed line ends make the whole file a change.
    newline = "\r\n" if text and "\r\n" in text else "\n"
    before = text or ""
    if before and not before.endswith("\n"):
        before += newline
    after = before + "".join(f"{pattern}{newline}" for pattern in missing)
    status: Literal["create", "change"] = "create" if text is None else "change"
    yield Step(status=status, what=".gitignore", note=f"ignores {' and '.join(missing)}", path=path, text=after)


def _mapping(root: Path, files: dict[str, str], agents: int) -> Iterator[Step]:
    """`[agents]`, if the agent of a new eval file would be ambiguous."""
    path = root / _SETTINGS
    text = _read(path)
    if not files or agents < 2:
        if text is not None:
            yield Step(status="kept", what=_SETTINGS, note="settings")
        return
    lines = [f"{json.dumps(file)} = {json.dumps(agent)}" for agent, file in files.items()]
    missing = [line for line in lines if line not in (text or "").splitlines()]
    if not missing:
        yield Step(status="kept", what=_SETTINGS, note="the agent of each eval file")
        return
    # A second table of that name is no TOML; where the lines belong in the first one, its author knows.
    if text is not None and re.search(r"^\s*\[agents\]", text, re.MULTILINE):
        yield Step(status="to do", what=_SETTINGS, note=f"add to [agents]: {'; '.join(missing)}")
        return
    before = text or ""
    before += "\n" if before and not before.endswith("\n") else ""
    before += "\n" if before else ""
    status: Literal["create", "change"] = "create" if text is None else "change"
    after = before + "\n".join(["[agents]", *lines]) + "\n"
    yield Step(status=status, what=_SETTINGS, note="[agents]: the agent of each eval file", path=path, text=after)


def _workflow(root: Path, keys: Sequence[str], ci: str | None) -> tuple[list[Step], str]:
    """The steps for a CI system, or for the one that the repository uses, and a snippet to add by hand."""
    top = repository_of(root) or root
    if (path := _existing_workflow(top)) is not None:
        return [Step(status="kept", what=name_of(path, top), note="runs the evals")], ""
    remotes = _git(["config", "--get-regexp", r"^remote\..*\.url$"], top)
    secrets = " and ".join(keys)
    for system, file, snippet, is_used in (
        ("gitlab", _GITLAB, _ci.GITLAB, "gitlab" in remotes),
        ("jenkins", _JENKINS, _ci.jenkins(keys), False),
    ):
        text = _read(top / file)
        if text is not None and _GATE in text:
            return [Step(status="kept", what=file, note="runs the evals")], ""
        if ci == system or (ci is None and (text is not None or is_used)):
            token = ", and GITLAB_TOKEN for the note on merge requests" if system == "gitlab" else ""
            note = f"add the job below; set {secrets} in the CI system{token}"
            return [Step(status="to do", what=file, note=note)], snippet
    # `github.` is also that of GitHub Enterprise, e.g. `github.company.com`.
    if ci is None and not (top / ".github").is_dir() and "github." not in remotes:
        note = "no CI system was recognised: agent-eval init --ci github (or gitlab, jenkins, none)"
        return [Step(status="to do", what="CI", note=note)], ""
    # GitHub reads workflows at the top of a repository only.
    if top != root:
        note = f"start `agent-eval init` in {top}, where the workflow belongs"
        return [Step(status="to do", what=".github/workflows/evals.yml", note=note)], ""
    path = root / ".github" / "workflows" / "evals.yml"
    if path.exists():
        return [Step(status="kept", what=name_of(path, root), note="another workflow; add the gate to it")], ""
    text = _ci.workflow(keys, _main_branch(root))
    return [
        Step(status="create", what=name_of(path, root), note="runs the evals of pull requests", path=path, text=text),
        Step(status="to do", what=f"secret {secrets}", note="Settings, Secrets and variables, Actions"),
    ], ""


def _not_passed(root: Path, variables: Variables) -> Iterator[Step]:
    """The variables that the agents read and that CI does not pass to them: only a person knows which they need."""
    top = repository_of(root) or root
    jobs = [path for path in (_existing_workflow(top), top / _GITLAB, top / _JENKINS) if path is not None]
    ci = "\n".join(_read(path) or "" for path in jobs)
    # What the CI file names, somebody has thought of.
    left = {name: places for name, places in variables.reads.items() if not re.search(rf"\b{name}\b", ci)}
    added = []
    if variables.login and _LOGIN not in ci:
        added.append(_LOGIN)
        note = f"asked for at {listed(variables.login, 3)}: log the job in, on GitHub with `google-github-actions/auth`"
        note += f", and pass the credentials on with `agent-env: +{_LOGIN}`"
        yield Step(status="to do", what="Google Cloud's login", note=note)
    passed = [name for name in left if is_passed(name)]
    others = [name for name in left if name not in passed]
    for number, name in enumerate(others):
        status = "not passed to the agent"
        try:
            # Some are never passed on (the gate's own token): the error says so, and the option must not name them.
            allow_list(f"+{name}")
            added.append(name)
        except ValueError as error:
            status = str(error)
        if number < _MOST_VARIABLES:
            yield Step(status="to do", what=name, note=f"read at {listed(left[name], 3)}; {status}")
    more = others[_MOST_VARIABLES:]
    for names, note in ((more, "not passed to the agent"), (passed, "passed to the agent, if the job sets them")):
        if names:
            yield Step(status="to do", what="variables", note=f"{note}: {listed(names, _MOST_VARIABLES)}")
    if left:
        option = f', with `agent-env: "+{",".join(added)}"`' if added else ""
        yield Step(status="to do", what="variables", note=f"set those that the agent needs in the job{option}")
    if aside := [name for name in variables.aside if not is_passed(name)]:
        note = f"read only by files that no agent imports, so not passed: {listed(aside, _MOST_VARIABLES)}"
        yield Step(status="kept", what="variables", note=note)


def _existing_workflow(top: Path) -> Path | None:
    for path in sorted((top / ".github" / "workflows").glob("*.y*ml")):
        if "agent-eval" in (_read(path) or ""):
            return path
    return None


def _main_branch(root: Path) -> str:
    """The branch that pull requests are merged into; `main` if it is unknown."""
    # Only a clone has it: `git init` with a remote added later has not.
    branch = _git(["symbolic-ref", "--short", "refs/remotes/origin/HEAD"], root).strip().removeprefix("origin/")
    if not branch and _git(["symbolic-ref", "--short", "HEAD"], root).strip() == "master":
        return "master"  # A new repository that nobody has cloned yet.
    # It becomes part of a YAML file.
    return branch if _BRANCH.fullmatch(branch) else "main"


def _git(arguments: Sequence[str], folder: Path) -> str:
    """The output of git; "" if it fails."""
    environment = ENVIRONMENT | {name: os.environ[name] for name in KEPT if name in os.environ}
    config = (*CONFIG, ("safe.directory", "*"))
    try:
        out = run_git(arguments, cwd=folder, environment=environment, config=config, owner=None, timeout=_SECONDS)
    except GitError:
        return ""
    return out.decode("utf-8", "replace")


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, MAX_SETTINGS).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def record_command(file: str) -> str:
    """The command that records a case."""
    return shlex.join(["agent-eval", "record", file])
