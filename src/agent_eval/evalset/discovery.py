"""Which eval files a run is about: what lies in the repository, or what the user named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.ignore import IgnoreRules
from agent_eval.evalset.paths import absolute, name_of
from agent_eval.evalset.selectors import Selector, nearby, parse_selector

SUFFIXES = (".test.json", ".evalset.json")
"""What ADK calls its eval files."""

_NEVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_GLOB = frozenset("*?[")


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """An eval file to read."""

    path: Path
    """Absolute."""
    name: str
    """Relative to the root, with forward slashes."""
    ids: tuple[str, ...] = ()
    """The ids and globs that select its cases; none for all."""


@dataclass(kw_only=True)
class Discovery:
    """What was found."""

    files: list[FoundFile] = field(default_factory=list)
    """Sorted by name, each file once."""
    groups: list[tuple[Selector, list[str]]] = field(default_factory=list)
    """Each selector that names ids, with the names of the files it covers: an id must match in one of them."""
    problems: list[Problem] = field(default_factory=list)


def discover(
    root: Path,
    targets: Sequence[str] = (),
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    skip: Sequence[Path] = (),
) -> Discovery:
    """Finds eval files.

    A directory is searched for `*.test.json` and `*.evalset.json`, without what Git ignores, `.git`, virtual
    environments and `node_modules`. Links are followed as long as they stay inside the root. A file that is named is
    taken, whatever it is called and whether Git ignores it or not.

    Args:
        root: The repository; absolute, or relative to the working directory.
        targets: Files, directories, globs, each perhaps with `:id1,id2`; relative to the root. None: the root.
        include: Patterns as in a .gitignore; of the files found in directories only those that match are taken.
        exclude: Patterns of files and directories not to take.
        skip: Directories not to search, e.g. the one we write into.
    """
    root = absolute(root)
    walker = _Walker(
        root=root,
        include=GitIgnoreSpec.from_lines(include) if include else None,
        exclude=GitIgnoreSpec.from_lines(exclude),
        skip=frozenset(absolute(path) for path in skip),
    )
    found = Discovery()
    ids: dict[Path, list[str]] = {}
    for target in targets or (".",):
        selector = parse_selector(target, lambda path: (root / path).exists())
        files = _resolve(root, selector, walker, found.problems)
        for path in files:
            ids.setdefault(path, []).extend(selector.ids)
        if selector.ids and files:
            found.groups.append((selector, [name_of(path, root) for path in files]))
    found.files = sorted(
        (FoundFile(path=path, name=name_of(path, root), ids=tuple(dict.fromkeys(ids[path]))) for path in ids),
        key=lambda file: file.name,
    )
    found.problems += walker.problems
    if not found.files and not any(problem.severity is Severity.ERROR for problem in found.problems):
        found.problems.append(_nothing_found(targets, include, exclude))
    return found


def _nothing_found(targets: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> Problem:
    where = ", ".join(f"`{target}`" for target in targets) or "the repository"
    filters = " Check the include and exclude patterns too." if include or exclude else ""
    return Problem(
        severity=Severity.ERROR,
        code="no-eval-files",
        message=f"No eval file was found in {where}.",
        hint="Eval files are called `*.test.json` or `*.evalset.json`; what Git ignores is not searched. "
        f"Name a file to take it whatever it is called.{filters}",
    )


def _resolve(root: Path, selector: Selector, walker: _Walker, problems: list[Problem]) -> list[Path]:
    """The files that a selector stands for."""
    path = absolute(root / selector.path)
    if path.is_dir():
        return list(walker.walk(path))
    if path.exists():
        return [path]
    if _GLOB & set(selector.path) and not Path(selector.path).is_absolute():
        matched = sorted(found for found in root.glob(selector.path) if found.is_file())
        if matched:
            return [absolute(found) for found in matched]
    problems.append(_missing(root, selector))
    return []


def _missing(root: Path, selector: Selector) -> Problem:
    path = absolute(root / selector.path)
    siblings: list[str] = []
    if path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.iterdir())
        siblings = [(Path(selector.path).parent / name).as_posix() for name in nearby(path.name, names)]
    hint = "Paths are relative to the repository's root."
    if siblings:
        hint = f"Did you mean {' or '.join(f'`{sibling}`' for sibling in siblings)}?"
    elif "://" in selector.path or selector.path in ("gs", "s3", "http", "https"):
        hint = "Only local files are read; download it first."
    return Problem(
        severity=Severity.ERROR, code="path-not-found", message=f"`{selector.path}` does not exist.", hint=hint
    )


@dataclass(kw_only=True)
class _Walker:
    """Searches directories; each file and each directory once, whatever links lead to it."""

    root: Path
    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec
    skip: frozenset[Path]
    problems: list[Problem] = field(default_factory=list)

    def walk(self, directory: Path) -> Iterator[Path]:
        """The eval files below a directory."""
        rules = IgnoreRules.above(directory, self.root)
        if _is_ignored_somewhere(rules, directory):
            # Named although Git ignores it: then only the rules inside it count.
            rules = IgnoreRules()
        seen: set[str] = set()
        links: list[tuple[Path, IgnoreRules]] = []
        yield from self._walk(directory, rules, seen, links)
        # Links come last, so that a file is known by its own path when both are found.
        while links:
            link, rules = links.pop(0)
            target = os.path.realpath(link)
            if target in seen:
                continue
            if not Path(target).is_relative_to(os.path.realpath(self.root)):
                if link.name.endswith(SUFFIXES):
                    self.problems.append(self._outside(link))
            elif Path(target).is_dir():
                yield from self._walk(link, rules, seen, links)
            elif link.name.endswith(SUFFIXES) and Path(target).is_file():
                seen.add(target)
                yield link

    def _outside(self, link: Path) -> Problem:
        return Problem(
            severity=Severity.WARNING,
            code="link-outside-root",
            message="The link leads out of the repository; the file is not read.",
            hint="Name the file to take it all the same.",
            file=name_of(link, self.root),
        )

    def _walk(
        self, directory: Path, rules: IgnoreRules, seen: set[str], links: list[tuple[Path, IgnoreRules]]
    ) -> Iterator[Path]:
        real = os.path.realpath(directory)
        if real in seen:
            return
        seen.add(real)
        rules = rules.within(directory)
        try:
            with os.scandir(directory) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="unreadable-directory",
                    message=f"The directory can't be searched: {error.strerror}.",
                    hint="Check its permissions.",
                    file=name_of(directory, self.root),
                )
            )
            return
        for entry in children:
            path = directory / entry.name
            is_directory = entry.is_dir()
            if not is_directory and not entry.name.endswith(SUFFIXES):
                continue
            if self._leave_out(path, entry.name, is_directory) or rules.ignores(path, is_directory=is_directory):
                continue
            if entry.is_symlink():
                links.append((path, rules))
            elif is_directory:
                yield from self._walk(path, rules, seen, links)
            elif entry.is_file():
                seen.add(str(Path(real, entry.name)))
                yield path

    def _leave_out(self, path: Path, name: str, is_directory: bool) -> bool:
        relative = name_of(path, self.root)
        if is_directory:
            return (
                name in _NEVER
                or path in self.skip
                or (path / "pyvenv.cfg").exists()
                or self.exclude.match_file(f"{relative}/")
            )
        return self.exclude.match_file(relative) or (self.include is not None and not self.include.match_file(relative))


def _is_ignored_somewhere(rules: IgnoreRules, directory: Path) -> bool:
    """Whether inherited rules ignore a directory or one of its parents."""
    return any(rules.ignores(path, is_directory=True) for path in (directory, *directory.parents))
