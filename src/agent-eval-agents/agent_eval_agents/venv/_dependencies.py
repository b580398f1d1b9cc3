"""Finds the file that declares an agent's dependencies, and computes a fingerprint of the resulting environment."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent_eval_agents.protocol import AgentFailure, EnvironmentFailure
from agent_eval_scoring.core.files import open_regular, read_regular
from agent_eval_scoring.core.selectors import nearby_file
from agent_eval_scoring.core.toml_lines import read_toml

MINIMUM_PYTHON = ">=3.10"
"""The oldest Python that our host supports."""
MINIMUM_ADK = "1.18"
"""The oldest google-adk that our host is tested with."""
_ADK = re.compile(r"\s*google[-_.]adk(?![\w.-])\s*(?:\[[^\]]*\])?\s*\(?([^;#@)]*)\)?\s*(?:#.*)?$", re.IGNORECASE)
"""An unconditional requirement of google-adk. A requirement with a marker may not apply to this machine."""
_SPECIFIER = re.compile(r"(===|==|~=|<=|<|>=|>|!=)\s*([0-9][0-9A-Za-z.*+!-]*)")
_SKIPPED = {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "build", "dist"}
_LOCAL_SOURCE = re.compile(r'\bsource = \{ (?:directory|path) = "([^"]+)"')
_LOCAL_LINE = re.compile(
    r"\s*(?:\w[\w.-]*\s*(?:\[[^\]]*\]\s*)?@\s*([^\s;#]+)"
    r"|([^\s;#@]*/[^\s;#]*|file:[^\s;#]+|\.{1,2}|[^\s;#]+\.(?:whl|zip|tar\.gz))(?=[\s;#]|$))"
)
"""A requirement by its place: `NAME @ PLACE`, or the place alone."""
_EDITABLE_LINE = re.compile(r"^\s*(-e|--editable)[\s=]", re.MULTILINE)
_MAX_FILES = 20_000
_MAX_BYTES = 20_000_000
"""Bytes of a file that declares dependencies. The lock file of a very large project has a few million."""


class SourceKind(enum.Enum):
    """The format of the dependencies."""

    LOCK = "uv.lock"
    PROJECT = "pyproject.toml"
    REQUIREMENTS = "requirements"
    NONE = "nothing"


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """The dependencies of an agent."""

    kind: SourceKind
    file: Path | None
    """None for SourceKind.NONE: plain `google-adk`."""
    python: str
    """The Python version to request from uv, or a range of versions."""
    project_name: str | None = None
    """The project's name in its metadata; None if there is no project."""
    project_version: str = "0"
    entry_points: str = ""
    """The project's entry_points.txt."""

    @property
    def directory(self) -> Path | None:
        """The directory of the file, which is the project's."""
        return None if self.file is None else self.file.parent

    def places(self, root: Path) -> Callable[[str], str]:
        """A function that says where a requirement is, ` (FILE:LINE)`; "" if it is none of the agent's own."""
        return partial(_place_of, self, root)

    @property
    def locked(self) -> bool:
        """Whether every version is locked, so that the environment never expires."""
        return self.kind is SourceKind.LOCK


def dependencies_of(start: Path, root: Path, named: Path | None = None) -> Dependencies:
    """The dependencies in the file of `agent-requirements`, relative to the root, or else in the nearest one.

    Raises:
        AgentFailure: It does not exist or can't be read.
    """
    with named_below(root):
        return find_dependencies(start, root) if named is None else dependencies_in(root / named, root)


@contextlib.contextmanager
def named_below(root: Path) -> Iterator[None]:
    """Failures inside name files relative to the root."""
    try:
        yield
    except AgentFailure as failure:
        failure.message = _below(root, failure.message)
        failure.args = (failure.message,)
        raise


def find_dependencies(start: Path, root: Path) -> Dependencies:
    """Finds the nearest file that declares dependencies, from a directory up to the root.

    In each directory a pyproject.toml with `[project]` takes precedence over requirements.txt. A uv.lock next to it, or
    that of its workspace, makes it a locked project.

    Args:
        start: The agent's directory, at or below the root.
        root: The repository's root, where the search ends.

    Raises:
        AgentFailure: A pyproject.toml on this path can't be read, or lists its dependencies in Poetry's own table only.
    """
    start, root = start.resolve(), root.resolve()
    for directory in (start, *start.parents):
        manifest = directory / "pyproject.toml"
        document = _toml(manifest) if manifest.is_file() else {}
        # A pyproject.toml with the settings of tools alone declares nothing.
        if "project" in document:
            return dependencies_in(manifest, root)
        if (directory / "requirements.txt").is_file():
            return dependencies_in(directory / "requirements.txt", root)
        # Only now: projects of Poetry 1 often have an exported requirements.txt beside it.
        if _is_poetrys(document):
            return dependencies_in(manifest, root)
        if directory == root:
            break
    return Dependencies(kind=SourceKind.NONE, file=None, python=_pinned_python(start, root) or MINIMUM_PYTHON)


def dependencies_in(file: Path, root: Path) -> Dependencies:
    """Reads the dependencies in a uv.lock, a pyproject.toml, or a requirements file of any name.

    Raises:
        AgentFailure: The file does not exist or can't be read.
    """
    file = file.resolve()
    if file.is_dir():
        return find_dependencies(file, file)
    if not file.is_file():
        close = nearby_file(file)
        raise EnvironmentFailure(
            f"The requirements file {file} does not exist",
            hint=f"Did you mean `{close}`?"
            if close is not None
            else "Correct `agent-requirements`; a relative path starts at the repository's root.",
        )
    pinned = _pinned_python(file.parent, root.resolve())
    if file.name not in {"uv.lock", "pyproject.toml"}:
        return Dependencies(kind=SourceKind.REQUIREMENTS, file=file, python=pinned or MINIMUM_PYTHON)
    manifest = file.with_name("pyproject.toml")
    document = _toml(manifest)
    project = document.get("project") or {}
    locked = _lock_of(manifest, root.resolve()) is not None
    if not locked and _is_poetrys(document):
        raise EnvironmentFailure(
            f"{manifest} lists its dependencies in [tool.poetry.dependencies], which only Poetry can read",
            hint="Move them to [project] (Poetry 2), or set a requirements file with `agent-requirements` "
            "(`poetry export -o requirements.txt` writes one), or an interpreter with `agent-python` "
            "(`poetry run python`).",
        )
    if file.name == "pyproject.toml" and not project:
        raise EnvironmentFailure(
            f"{file} has no [project], so it declares no dependencies",
            hint="Set a requirements file with `agent-requirements`, or an interpreter with `agent-python`.",
        )
    return Dependencies(
        kind=SourceKind.LOCK if locked else SourceKind.PROJECT,
        file=manifest,
        python=pinned or _text(project.get("requires-python")) or MINIMUM_PYTHON,
        project_name=_text(project.get("name")),
        project_version=_text(project.get("version")) or "0",
        entry_points=_entry_points(project),
    )


def _is_poetrys(document: dict[str, Any]) -> bool:
    """Whether a pyproject.toml lists its dependencies in Poetry's own table, as projects of Poetry 1 do."""
    tool, project = document.get("tool"), document.get("project") or {}
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    standard = "dependencies" in project or "dependencies" in project.get("dynamic", ())
    return isinstance(poetry, dict) and isinstance(poetry.get("dependencies"), dict) and not standard


def check_adk(dependencies: Dependencies, root: Path) -> None:
    """Refuses a google-adk that is too old, before it is installed.

    Raises:
        AgentFailure: The file only allows versions that are too old.
    """
    file = dependencies.file
    if file is None:
        return
    for where, line in _requirements_of(dependencies, file, root):
        requirement = _ADK.match(line)
        if requirement and any(_too_old(*clause) for clause in _SPECIFIER.findall(requirement[1])):
            file_name = _below(root, str(where))
            raise EnvironmentFailure(
                f"{file_name} requires {line.strip()}, but agent-eval needs google-adk {MINIMUM_ADK} or newer",
                hint=f"Allow google-adk {MINIMUM_ADK} or newer there, or set other requirements with "
                "`agent-requirements`, or an interpreter with `agent-python`.",
            )


def requested(dependencies: Dependencies, root: Path) -> list[str]:
    """What `uv pip install` is to install: the file, and the minimum of google-adk if it has that unconditionally.

    Otherwise a pin of another package can select a google-adk of last year, without a word.
    """
    file = dependencies.file
    if file is None:
        return ["google-adk"]
    is_named = any(_ADK.match(line) for _, line in _requirements_of(dependencies, file, root))
    return ["-r", str(file), *[f"google-adk>={MINIMUM_ADK}"] * is_named]


def _place_of(dependencies: Dependencies, root: Path, requirement: str) -> str:
    """Where a requirement is, ` (FILE:LINE)` relative to the root; "" if it is none of the agent's own."""
    name = _name_in(requirement)
    for file in () if dependencies.file is None else _included(dependencies.file):
        for number, line in enumerate(_text_of(file).splitlines() if file.is_file() else (), 1):
            if name and _name_in(line) == name:
                return f" ({_below(root, str(file))}:{number})"
    return ""


def _name_in(line: str) -> str:
    """The normalized name with which a requirement begins; "" for none."""
    name = re.match(r"[\s\"']*([\w.-]+)", line)
    return re.sub(r"[-_.]+", "-", name[1]).lower() if name else ""


def _below(root: Path, text: str) -> str:
    """The text with paths below the root relative to it."""
    return text.replace(f"{root.resolve()}/", "")


def _requirements_of(dependencies: Dependencies, file: Path, root: Path) -> Iterator[tuple[Path, str]]:
    """Requirements with their files."""
    match dependencies.kind:
        case SourceKind.PROJECT:
            listed = (_toml(file).get("project") or {}).get("dependencies")
            yield from ((file, line) for line in (listed if isinstance(listed, list) else ()) if isinstance(line, str))
        case SourceKind.REQUIREMENTS:
            for path in _included(file):
                if path.is_file():
                    yield from ((path, line) for line in _text_of(path).splitlines())
        case SourceKind.LOCK:
            lock = _lock_of(file, root.resolve())
            packages = _toml(lock).get("package", []) if lock is not None else []
            for package in packages:
                if lock is not None and package.get("name") == "google-adk" and "version" in package:
                    yield lock, f"google-adk=={package['version']}"
        case SourceKind.NONE:
            return


def _too_old(operator: str, version: str) -> bool:
    """Whether a specifier excludes all versions from MINIMUM_ADK on."""
    release = tuple(int(part) for part in re.findall(r"\d+", version.partition("*")[0])[:3])
    minimum = tuple(map(int, MINIMUM_ADK.split(".")))
    # Below 1.18 and below 1.18.0 both exclude it.
    if operator == "<":
        return release <= minimum or release == (*minimum, 0)
    if operator == "~=" or "*" in version:  # a whole series
        release = release[:-1] if operator == "~=" else release
        return release < minimum[: len(release)]
    return operator in {"==", "===", "<="} and release < minimum


def _lock_of(manifest: Path, root: Path) -> Path | None:
    """The lock file of a project: next to it, or that of its workspace."""
    for directory in manifest.parents:
        lock = directory / "uv.lock"
        if lock.is_file():
            if directory == manifest.parent:
                return lock
            # A lock file further up is that of another project, unless that one is a workspace.
            tool = _toml(directory / "pyproject.toml").get("tool") if (directory / "pyproject.toml").is_file() else None
            return lock if isinstance(tool, dict) and "workspace" in (tool.get("uv") or {}) else None
        if directory == root:
            break
    return None


def _toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(_bytes_of(path).decode("utf-8"))
    except ValueError as error:
        raise _unreadable(path, str(error)) from error


def _text_of(path: Path) -> str:
    return _bytes_of(path).decode("utf-8", "replace")


def _bytes_of(path: Path) -> bytes:
    """The content of a file that declares dependencies.

    Raises:
        AgentFailure: The file can't be read, or is too large.
    """
    try:
        return read_regular(path, _MAX_BYTES)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def _unreadable(path: Path, reason: str) -> AgentFailure:
    return EnvironmentFailure(
        f"{path} can't be read: {reason}", hint="Correct the file: the agent's dependencies are read from it."
    )


def _text(value: object) -> str | None:
    return value.strip() if isinstance(value, str) and value.strip() else None


def _pinned_python(start: Path, root: Path) -> str | None:
    """The version in the nearest .python-version, as in uv and pyenv."""
    for directory in (start, *start.parents):
        file = directory / ".python-version"
        if file.is_file():
            lines = (line.strip() for line in _text_of(file).splitlines())
            return next((line for line in lines if line and not line.startswith("#")), None)
        if directory == root:
            break
    return None


def _entry_points(project: dict[str, Any]) -> str:
    """A project's entry points in the format of entry_points.txt."""
    groups: dict[str, Any] = {}
    for table, group in (("scripts", "console_scripts"), ("gui-scripts", "gui_scripts")):
        if isinstance(project.get(table), dict):
            groups[group] = project[table]
    if isinstance(project.get("entry-points"), dict):
        groups |= project["entry-points"]
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups.items()
        if isinstance(entries, dict)
    )


def fingerprint(dependencies: Dependencies, root: Path) -> str:
    """A hash of everything that decides what gets installed.

    That is the file itself, the requirements and constraints that it includes, the lock file, uv's configuration, and
    the sources of local packages.
    """
    digest = hashlib.sha256(f"{dependencies.kind.name} {dependencies.python}".encode())
    for settings in _uv_settings(dependencies.directory or root.resolve()):
        digest.update(f"\n{settings}\n".encode("utf-8", "surrogateescape"))
    file = dependencies.file
    if file is None:
        return digest.hexdigest()
    for path in declaring_files(dependencies, root):
        # A file that is included and missing makes uv fail; when it is there, the environment is another one.
        data = _bytes_of(path) if path.is_file() else b"missing"
        digest.update(f"\n{os.path.relpath(path, root)} {len(data)}\n".encode("utf-8", "surrogateescape") + data)
    for source in copied_sources(dependencies, root):
        _add_tree(digest, source)
    return digest.hexdigest()


def copied_sources(dependencies: Dependencies, root: Path) -> Iterator[Path]:
    """The local directories and archives of which the environment gets a copy."""
    for path in declaring_files(dependencies, root):
        if path.is_file():
            yield from _local_sources(path, _text_of(path))


def uses_in_place(dependencies: Dependencies, root: Path) -> bool:
    """Whether the environment has paths of this checkout, because packages other than the project are editable."""
    file = dependencies.file
    if file is None:
        return False
    if dependencies.kind is SourceKind.REQUIREMENTS:
        texts = [_text_of(path) for path in _included(file) if path.is_file()]
        return any(_EDITABLE_LINE.search(text) for text in texts)
    if dependencies.kind is SourceKind.PROJECT:
        # uv installs members of a workspace as editable ones.
        return any(entry.get("editable") or entry.get("workspace") for entry in _sources_in(_toml(file)))
    lock = _lock_of(file, root.resolve())
    packages = {package.get("name"): package for package in (_toml(lock) if lock else {}).get("package", ())}
    waiting, reached = [dependencies.project_name], set[str | None]()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each.get("name") for each in packages.get(name, {}).get("dependencies", ())]
    # The project itself is in the lock as editable, too, but is made importable in another way.
    return any("editable" in packages.get(name, {}).get("source", {}) for name in reached - {dependencies.project_name})


def declaring_files(dependencies: Dependencies, root: Path) -> list[Path]:
    """The file of the dependencies, with those that it includes, and its lock file."""
    file = dependencies.file
    if file is None:
        return []
    paths = [file]
    if dependencies.kind is SourceKind.REQUIREMENTS:
        paths = list(_included(file))
    elif (lock := _lock_of(file, root.resolve())) is not None:
        paths += [lock, lock.with_name("pyproject.toml")]
    return list(dict.fromkeys(paths))


def _uv_settings(start: Path) -> Iterator[str]:
    """The configuration files of uv from a directory upwards: it reads the nearest one, or a workspace's."""
    for folder in (start, *start.parents):
        for name in ("uv.toml", "pyproject.toml"):
            if (folder / name).is_file():
                with contextlib.suppress(AgentFailure):  # uv says what is wrong with it.
                    document = _toml(folder / name)
                    if settings := document if name == "uv.toml" else _table(_table(document.get("tool")).get("uv")):
                        yield repr(settings)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _included(file: Path) -> Iterator[Path]:
    """A requirements file and all files that it includes with -r and -c."""
    seen: set[Path] = set()
    waiting = [file]
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        yield path
        if not path.is_file():
            continue
        for line in _text_of(path).splitlines():
            include = re.match(r"\s*(?:-r|--requirement|-c|--constraint)[\s=]*([^\s#]+)", line)
            if include and "://" not in include[1]:
                waiting.append((path.parent / include[1]).resolve())


def _local_sources(file: Path, text: str) -> Iterator[Path]:
    """The local directories and archives from which a requirements, project or lock file installs.

    Editable ones are not included, because they are used in place.
    """
    if file.name == "uv.lock":
        names = _LOCAL_SOURCE.findall(text)
    elif file.name == "pyproject.toml":
        names = list(_places_in(_toml(file)))
    else:
        names = _places_of(text.splitlines())
    for name in names:
        path = (file.parent / re.sub(r"^file:(//)?|\[[^\]]*\]$|#.*$", "", name)).resolve()
        if path.exists():
            yield path


def _places_of(lines: Iterable[object]) -> list[str]:
    matches = [match for line in lines if isinstance(line, str) and (match := _LOCAL_LINE.match(line))]
    return [match[1] or match[2] for match in matches]


def _places_in(document: Mapping[str, Any]) -> Iterator[str]:
    """Of `[project] dependencies` and `[tool.uv.sources]`."""
    yield from _places_of((document.get("project") or {}).get("dependencies") or ())
    for entry in _sources_in(document):
        if isinstance(entry.get("path"), str) and not entry.get("editable"):
            yield entry["path"]


def _sources_in(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for source in _table(_table(_table(document.get("tool")).get("uv")).get("sources")).values():
        yield from (entry for entry in (source if isinstance(source, list) else [source]) if isinstance(entry, dict))


def _add_tree(digest: Any, source: Path) -> None:
    """Adds the names and contents of a file or of a directory's files, up to a generous limit."""
    if source.is_file():
        digest.update(_hash_of(source))
        return
    count = 0
    for folder, folders, files in os.walk(source):
        # What a build leaves behind would make each run's environment a new one.
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.endswith(".egg-info"))
        for name in sorted(files):
            path = Path(folder) / name
            # A link may lead out of the repository; to read a pipe never ends.
            if path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > _MAX_FILES:
                return
            digest.update(f"\n{path.relative_to(source)} ".encode("utf-8", "surrogateescape"))
            digest.update(_hash_of(path))


def _hash_of(path: Path) -> bytes:
    """The hash of a file of any size: a local archive may have gigabytes."""
    try:
        digest = hashlib.sha256()
        with open_regular(path) as file:
            while chunk := file.read(1_000_000):
                digest.update(chunk)
        return digest.digest()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
