"""Which eval files a run is about: what lies in the repository, or what the user named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.core.patterns import PathPatterns
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.selectors import GLOB, Selector, nearby, parse_selector
from agent_eval.core.text import plural
from agent_eval.evalset.discovery._listing import SUFFIXES as SUFFIXES
from agent_eval.evalset.discovery._listing import Listing, is_aside, list_directory
from agent_eval.evalset.parse import CONFIG_NAMES
from agent_eval.evalset.paths import absolute, dangling_link, is_utf8, name_of, searched


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

    A directory is searched for `*.test.json` and `*.evalset.json`: all that git tracks, and of the rest what git does
    not ignore and what is in no virtual environment and no `node_modules`. Links are followed as long as they stay
    inside the root. A file that is named is taken, whatever it is called and whether git ignores it or not; in a
    directory that is named although git ignores it, nothing is ignored.

    Args:
        root: The repository; absolute, or relative to the working directory.
        targets: Files, directories, globs, each perhaps with `:id1,id2`; relative to the root. None: the root.
        include: Patterns as in a .gitignore; of the files found in directories only those that match are taken.
        exclude: Patterns of files and directories not to take.
        skip: Directories not to search, e.g. the one we write into.
    """
    root = absolute(root)
    found = Discovery()
    search = _Search(
        root=root,
        include=_patterns("include", include, found.problems) if include else None,
        exclude=_patterns("exclude", exclude, found.problems),
        skip=frozenset(absolute(path) for path in skip),
    )
    ids: dict[Path, list[str]] = {}
    for selector in selectors_of(root, targets):
        files = _resolve(root, selector, search, found.problems)
        for path in files:
            ids.setdefault(path, []).extend(selector.ids)
        if selector.ids and files:
            found.groups.append((selector, [name_of(path, root) for path in files]))
    odd = [path for path in ids if not is_utf8(str(path.relative_to(root) if path.is_relative_to(root) else path))]
    found.problems += [_odd_name(name_of(path, root)) for path in odd]
    found.files = sorted(
        (
            FoundFile(path=path, name=name_of(path, root), ids=tuple(dict.fromkeys(ids[path])))
            for path in ids
            if path not in odd
        ),
        key=lambda file: file.name,
    )
    found.problems += [*search.problems, *search.notices()]
    if not found.files and not any(problem.severity is Severity.ERROR for problem in found.problems):
        found.problems.append(_nothing_found(root, targets, include, exclude))
    return found


def _odd_name(name: str) -> Problem:
    return Problem(
        severity=Severity.ERROR,
        code="file-name-not-utf8",
        message="The file's name, or that of a directory above it, is not UTF-8, so no report could name its cases.",
        hint="Rename it, or exclude it.",
        file=name,
    )


def selectors_of(root: Path, targets: Sequence[str]) -> list[Selector]:
    """What the user named, read; the root if that is nothing."""
    return [parse_selector(target, lambda path: (root / path).exists()) for target in targets or (".",)]


def _patterns(option: str, lines: Sequence[str], problems: list[Problem]) -> PathPatterns:
    try:
        return PathPatterns(lines)
    except ValueError as error:
        problems.append(
            Problem(
                severity=Severity.ERROR,
                code="pattern-invalid",
                message=f"`{option}` has a pattern that can't be read: {error}.",
                hint="Patterns work as in .gitignore, e.g. `evals/slow/`.",
            )
        )
        return PathPatterns([])


def _nothing_found(root: Path, targets: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> Problem:
    where = ", ".join(f"`{target}`" for target in targets) or searched(root)
    filters = " Check the include and exclude patterns too." if include or exclude else ""
    return Problem(
        severity=Severity.ERROR,
        code="no-eval-files",
        message=f"No eval file was found in {where}.",
        hint="Eval files are called `*.test.json` or `*.evalset.json`; what git ignores is not searched. "
        f"Name a file to take it whatever it is called.{filters} To make one, save a session in `adk web` "
        "as a case (tab Eval).",
    )


def _resolve(root: Path, selector: Selector, search: _Search, problems: list[Problem]) -> list[Path]:
    """The files that a selector stands for."""
    path = absolute(root / selector.path)
    if path.is_dir():
        return list(search.below(path))
    if path.exists():
        return [path]
    if GLOB & set(selector.path) and not Path(selector.path).is_absolute():
        matched = sorted(found for found in root.glob(selector.path) if found.is_file())
        if matched:
            return [absolute(found) for found in matched]
    problems.append(dangling_link(path, root) if path.is_symlink() else _missing(root, selector))
    return []


def _missing(root: Path, selector: Selector) -> Problem:
    path = absolute(root / selector.path)
    siblings: list[str] = []
    if path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.iterdir())
        siblings = [(Path(selector.path).parent / name).as_posix() for name in nearby(path.name, names)]
    hint, shown = f"Paths are relative to {root}.", selector.path
    if siblings:
        hint = f"Did you mean {' or '.join(f'`{sibling}`' for sibling in siblings)}?"
    elif "://" in selector.path or selector.path in ("gs", "s3", "http", "https"):
        hint = "Only local files are read; download it first."
        shown = ":".join([selector.path, *selector.ids[:1]])
    return Problem(severity=Severity.ERROR, code="path-not-found", message=f"`{shown}` does not exist.", hint=hint)


@dataclass(frozen=True)
class _Link:
    """A symbolic link to look at once all files are known by their own paths."""

    path: Path
    tracked: bool


@dataclass(kw_only=True)
class _Search:
    """Searches directories; each file and each directory once, whatever links lead to it."""

    root: Path
    include: PathPatterns | None
    exclude: PathPatterns
    skip: frozenset[Path]
    problems: list[Problem] = field(default_factory=list)
    passed_over: dict[str, list[str]] = field(default_factory=dict)
    """What leads nowhere and is no loss as far as we can see; names by kind."""

    def below(self, directory: Path) -> Iterator[Path]:
        """The eval files below a directory."""
        seen: set[str] = set()
        links: list[_Link] = []
        yield from self._directory(directory, seen, links)
        while links:
            yield from self._link(links.pop(0), seen, links)

    def _directory(self, directory: Path, seen: set[str], links: list[_Link]) -> Iterator[Path]:
        """The eval files of a directory and of the repositories inside it; adds the links that it finds."""
        waiting = [directory]
        while waiting:
            here = waiting.pop(0)
            real = os.path.realpath(here)
            if real in seen:
                continue
            listing = list_directory(here, skip=self.skip)
            seen |= {os.path.join(real, folder) if folder else real for folder in listing.folders}  # noqa: PTH118
            self._report(here, listing)
            for name in listing.files:
                # Git lists deleted files too. A directory in the place of a file is listed by its own files.
                if self._wanted(here / name) and os.path.lexists(here / name) and not (here / name).is_dir():
                    file = os.path.join(real, name)  # noqa: PTH118
                    if file not in seen:
                        seen.add(file)
                        yield here / name
            links += [_Link(here / name, name in listing.tracked) for name in listing.links]
            for name in listing.repositories:
                if os.path.lexists(here / name / ".git"):
                    waiting.append(here / name)
                elif not self._excluded(here / name, folder=True):
                    self._absent_submodule(here / name)

    def _link(self, link: _Link, seen: set[str], links: list[_Link]) -> Iterator[Path]:
        """The eval files that a link leads to."""
        path, target = link.path, Path(os.path.realpath(link.path))
        is_folder = target.is_dir()
        if str(target) in seen or self._excluded(path, folder=is_folder or not target.exists()):
            return
        if not target.exists():
            self._dangling(link)
        elif not target.is_relative_to(os.path.realpath(self.root)):
            if self._wanted(path) if not is_folder else link.tracked and self._may_hold_evals(path):
                self.problems.append(self._outside(path))
        elif is_folder:
            if link.tracked or not is_aside(path, self.skip):
                yield from self._directory(path, seen, links)
        elif self._wanted(path):
            seen.add(str(target))
            yield path

    def _wanted(self, path: Path) -> bool:
        """Whether a file is to be taken, by its name."""
        if not path.name.endswith(SUFFIXES) or self._excluded(path):
            return False
        return self.include is None or self.include.match(name_of(path, self.root))

    def _excluded(self, path: Path, *, folder: bool = False) -> bool:
        return self.exclude.match(name_of(path, self.root), folder=folder)

    def _may_hold_evals(self, path: Path) -> bool:
        """Whether it is a loss to the gate if a link or a submodule leads nowhere, by its path and its target."""
        target = os.readlink(path) if path.is_symlink() else ""  # noqa: PTH115
        return path.suffix in {"", ".json"} and "eval" in f"{name_of(path, self.root)} {target}".casefold()

    def _dangling(self, link: _Link) -> None:
        path = link.path
        if path.name in CONFIG_NAMES or path.name.startswith(".#"):
            return  # A config is missed where it applies. Emacs marks a file that is being edited by such a link.
        if self._wanted(path) or (link.tracked and self._may_hold_evals(path)):
            self.problems.append(dangling_link(path, self.root))
        elif link.tracked:
            self._pass_over("symbolic link", path)

    def _absent_submodule(self, path: Path) -> None:
        if self._may_hold_evals(path):
            message = "The submodule is not checked out, so its eval files can't be run."
            self.problems.append(self._absent(path, message))
        else:
            self._pass_over("submodule", path)

    def _report(self, directory: Path, listing: Listing) -> None:
        """Reports what of a listing can't be used."""
        if listing.failure is not None:
            self.problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="git-failed",
                    message=f"Git can't list the files, so those that it ignores are searched too: {listing.failure}",
                    hint="Leave generated directories out with `exclude`.",
                    file=name_of(directory, self.root),
                )
            )
        self.problems += [
            Problem(
                severity=Severity.WARNING,
                code="unreadable-directory",
                message=f"The directory can't be searched: {error.strerror}.",
                hint="Check its permissions.",
                file=name_of(Path(error.filename), self.root),
            )
            for error in listing.unreadable
        ]
        for path in (directory / name for name in listing.absent):
            if path.name in CONFIG_NAMES:
                message = "The config is not part of the sparse checkout, so other criteria would apply."
                self.problems.append(self._absent(path, message))
            elif self._wanted(path):
                self._pass_over("eval file", path)

    def _pass_over(self, kind: str, path: Path) -> None:
        self.passed_over.setdefault(kind, []).append(name_of(path, self.root))

    def _outside(self, link: Path) -> Problem:
        return Problem(
            severity=Severity.ERROR,  # As for a link that leads nowhere: its cases would be missing without a word.
            code="link-outside-root",
            message="The link leads out of the repository, so it is not followed and its cases can't be run.",
            hint="Commit what it leads to, name the link to follow it, or exclude it.",
            file=name_of(link, self.root),
        )

    def _absent(self, path: Path, message: str) -> Problem:
        return Problem(
            severity=Severity.ERROR,
            code="not-checked-out",
            message=message,
            hint="Check it out, or exclude it.",
            file=name_of(path, self.root),
        )

    def notices(self) -> Iterator[Problem]:
        """What was passed over, one notice for each kind."""
        for kind, names in self.passed_over.items():
            dangling = kind == "symbolic link"
            what = ("leads nowhere" if len(names) == 1 else "lead nowhere") if dangling else "not checked out"
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            yield Problem(
                severity=Severity.NOTICE,
                code="dangling-link" if dangling else "not-checked-out",
                message=f"{plural(len(names), kind)} {what}: {', '.join(sorted(names)[:5])}{more}.",
                hint="Nothing of it is run.",
            )
