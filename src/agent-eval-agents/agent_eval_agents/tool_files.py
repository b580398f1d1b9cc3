"""The files on which recorded answers of tools depend, as they are now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from agent_eval_agents.discovery.locate import CONFIG_FILE
from agent_eval_agents.sandbox import BASE_VARIABLES, secrets_in
from agent_eval_agents.tapes import ABSENT, FOLDER, NOT_COMPARED, Tape, ToolRules, is_secret
from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.git_process import CONFIG, ENVIRONMENT, KEPT, GitError, run_git
from agent_eval_scoring.core.masking import MASK
from agent_eval_scoring.core.patterns import PathPatterns
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import harmless, listed

_SECONDS = 60.0
_NO_FILES = hashlib.sha256().hexdigest()[:16]
"""`hash_of_files` of nothing."""


class ToolFiles:
    """Hashes of files in a repository; each is computed once."""

    def __init__(self, root: Path, skip: Sequence[Path] = ()) -> None:
        """Describes the repository.

        Args:
            root: Its directory.
            skip: Directories that patterns never cover, e.g. the output directory.
        """
        self._root = root
        self._skip = skip
        self._patterns: dict[tuple[str, ...], str] = {}
        self._sources: dict[tuple[str, ...], str] = {}
        self._found: dict[str, str] = {}

    def of_patterns(self, patterns: Sequence[str]) -> str:
        """Hash of the files that match the patterns of `depends`."""
        key = tuple(patterns)
        if key not in self._patterns:
            self._patterns[key] = hash_of_files(self._root, patterns, skip=self._skip)
        return self._patterns[key]

    def evidence(self, name: str, seen: str) -> str:
        """What a tape may hold of something that a tool has read.

        Args:
            name: Of `ToolHashes.read` or `RecordedCall.saw`.
            seen: The value of a variable, or a hash.

        Returns:
            A hash; `absent`; `$` for what is not compared; "" for a file that is there and does not count.
        """
        kind, _, what = name.partition(":")
        if kind == "variable":
            return _of_variable(what, seen.replace(str(self._root), ""))
        if kind == "state" and is_secret(what, seen):
            return NOT_COMPARED
        if kind not in {"file", "folder", "path"}:
            return seen
        if name not in self._found:
            self._found[name] = self._of_path(kind, what)
        return self._found[name]

    def _of_path(self, kind: str, name: str) -> str:
        path = (self._root / name).resolve()
        inside = path.is_relative_to(self._root.resolve())
        if not inside or any(path.is_relative_to(folder.resolve()) for folder in self._skip):
            return ""
        if not path.exists():
            return ABSENT
        # What is behind a linked folder is git's by its real name only.
        real = path.relative_to(self._root.resolve()).as_posix()
        if _is_ignored(self._root, real):
            return ""
        if kind == "path":
            link = f" -> {(self._root / name).readlink()}" if (self._root / name).is_symlink() else ""
            what = "folder" if path.is_dir() else "program" if os.access(path, os.X_OK) else "file"
            return what + link
        if kind == "folder":
            names = "\0".join(sorted(_names_in(self._root, path, real)))
            return hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return _hash_of_sources(self._root, [name])

    def of_sources(self, files: Sequence[str]) -> str:
        """The hash that a host computes of the files that define a tool; "" if one of them can't be read."""
        key = tuple(files)
        if key not in self._sources:
            self._sources[key] = _hash_of_sources(self._root, files)
        return self._sources[key]


def depends_problems(rules: ToolRules, files: ToolFiles) -> list[Problem]:
    """Problems of the files that `depends` names: found before anything runs, not at the first call of a tool."""
    problems = []
    for rule in rules.rules:
        try:
            if rule.depends and files.of_patterns(rule.depends) == _NO_FILES:
                patterns = " and ".join(f"`{pattern}`" for pattern in rule.depends)
                message = f"`depends` of the [[tool]] `{rule.name}` matches no file: {patterns}."
                hint = (
                    "Correct the pattern, or remove it: it has no effect, since no file's change can make the recorded "
                )
                problems.append(
                    Problem(
                        severity=Severity.WARNING,
                        code="tool-rule-invalid",
                        message=message,
                        hint=hint + "answers stale.",
                        file=CONFIG_FILE,
                        line=rule.line,
                    )
                )
        except OSError as error:
            message = f"{error.strerror}: {harmless(str(error.filename))}"
            hint = "Make it readable, or exclude it: a pattern that begins with `!` takes files out of `depends`."
            return [*problems, Problem(code="tool-rule-invalid", message=message, hint=hint)]
    return problems


def stale_tools(tape: Tape, rules: ToolRules, files: ToolFiles) -> dict[str, str]:
    """The tools of a tape whose files have changed since it was recorded, with what changed.

    Only a run sees the rest: declarations, and the files of tools that are installed as packages.
    """
    changed: dict[str, str] = {}
    called = {call.tool for call in tape.calls}
    for key, hashes in tape.tools.items():
        tool = key if key in called else key.partition("/")[2] or key
        policy = rules.of(tool)
        if not policy.replay:
            continue
        depends = files.of_patterns(policy.depends) if policy.depends else ""
        what = hashes.changed_depends(depends) or hashes.changed_read(files.evidence)
        if hashes.files and files.of_sources(hashes.files) != hashes.source:
            what = listed(hashes.files, 3)
        if what:
            changed[tool] = what
    return changed


def _of_variable(name: str, value: str) -> str:
    """A hash of a variable's value, unless masking would hide it, or it is another one on each machine."""
    if name == "*":  # the names of all
        value = " ".join(each for each in value.split("\0") if _of_variable(each, "x") != NOT_COMPARED)
    is_of_machine = any(fnmatchcase(name, each) for each in BASE_VARIABLES) or os.path.isdir(value)  # noqa: PTH112 - of any text
    if is_of_machine or MASK in value or is_secret(name, value) or secrets_in({name: value}):
        return NOT_COMPARED
    return value if value == ABSENT else hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _names_in(root: Path, folder: Path, name: str) -> set[str]:
    """The names in a directory, without what git ignores, tapes and compiled code."""
    listing = _git_files(root, f"{name}/")
    names = {each.name for each in folder.iterdir()}
    if listing is not None:
        names &= {path.removeprefix(f"{name}/" if name != "." else "").partition("/")[0] for path in listing}
    return {each for each in names if each not in {"__pycache__", ".git"} and not each.endswith(FOLDER)}


def _is_ignored(root: Path, name: str) -> bool:
    return _git_files(root, name) == []


def _git_files(root: Path, name: str) -> list[str] | None:
    """The files that git has or would add, of one name or below a directory; None without git."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    config = (*CONFIG, ("safe.directory", str(top)))
    environment = {**{key: os.environ[key] for key in KEPT if key in os.environ}, **ENVIRONMENT}
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", name)
    try:
        out = run_git(listing, cwd=root, environment=environment, config=config, owner=None, timeout=_SECONDS)
    except GitError:
        return None
    return [path for path in out.decode("utf-8", "surrogateescape").split("\0") if path]


def _hash_of_sources(root: Path, files: Sequence[str]) -> str:
    contents = []
    for file in files:
        path = root / file
        if not path.resolve().is_relative_to(root.resolve()):
            return ""
        try:
            contents.append(read_regular(path, MAX_TEXT).replace(b"\r\n", b"\n"))
        except (OSError, ValueError):
            return ""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def hash_of_files(root: Path, patterns: Sequence[str], *, skip: Sequence[Path] = ()) -> str:
    """Hash of the files below a directory that match patterns, with their names.

    Args:
        root: The directory. Hidden directories are not searched.
        patterns: Lines as in a .gitignore.
        skip: Directories to leave out.

    Raises:
        OSError: A file can't be read; `strerror` says why, and that `depends` names it.
    """
    chosen, skipped = PathPatterns(patterns), {path.resolve() for path in skip}
    digest = hashlib.sha256()
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and Path(folder, name).resolve() not in skipped
        )
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if chosen.match(relative) and path.is_file():
                try:
                    content = read_regular(path, MAX_TEXT).replace(b"\r\n", b"\n")
                except OSError as error:
                    why = f"`depends` of a [[tool]] names a file that can't be read: {error.strerror}"
                    raise OSError(error.errno, why, relative) from error
                digest.update(relative.encode("utf-8", "surrogateescape") + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
