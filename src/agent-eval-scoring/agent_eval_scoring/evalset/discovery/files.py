"""Finds the eval files of a run: those in the repository, or those that the user selected."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath

from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.patterns import PathPatterns, glob
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.selectors import GLOB, Selector, nearby, parse_selector
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.evalset.discovery._listing import SUFFIXES as SUFFIXES
from agent_eval_scoring.evalset.discovery._listing import (
    Listing,
    advice,
    contains,
    list_directory,
    looks_like_evals,
    only_tracked_files,
)
from agent_eval_scoring.evalset.parse import CONFIG_NAMES, foreign_eval_file, in_dataset_folder, is_dataset_text
from agent_eval_scoring.evalset.paths import absolute, dangling_link, is_utf8, name_of, repository_of, searched

_MOST_LOOKED_AT = 200
"""JSON files beside eval files that are read for being misnamed ones."""
_EVALS = re.compile(r"(?<![a-z])eval(?:s|sets?|uations?)?(?![a-z])")
"""A word for evals in a path."""


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """An eval file to read."""

    path: Path
    """Absolute."""
    name: str
    """Relative to the root, with forward slashes."""
    ids: tuple[str, ...] = ()
    """The ids and globs that select its cases; empty for all cases."""


@dataclass(kw_only=True)
class Discovery:
    """The eval files of a run."""

    files: list[FoundFile] = field(default_factory=list)
    """Sorted by name, each file once."""
    groups: list[tuple[Selector, list[str]]] = field(default_factory=list)
    """Each selector with ids, and the names of its files. Each id must match a case of one of these files."""
    problems: list[Problem] = field(default_factory=list)
    exclude: PathPatterns = field(default_factory=lambda: PathPatterns([]))
    """Files and directories to skip, also for configs."""
    configs: list[Path] = field(default_factory=list)
    """The configs of a searched repository, whether they apply to a file or not."""


def discover(
    root: Path, targets: Sequence[str] = (), *, exclude: Sequence[str] = (), skip: Sequence[Path] = ()
) -> Discovery:
    """Finds eval files.

    Directories are searched for `*.test.json` and `*.evalset.json`: all tracked files, and the untracked files that git
    does not ignore and that are not in a virtual environment or `node_modules`. Links are followed if they point inside
    the root. A glob selects among the files that a search of its directory finds. Files that a target names are
    selected whatever their names, even if git ignores them. Ignore rules don't apply inside a target directory that git
    ignores. A file of another tool is not selected; it is an error if a target names it.

    Args:
        root: The repository; absolute, or relative to the working directory.
        targets: Files, directories and globs relative to the root, optionally with `:id1,id2`. Empty: the root.
        exclude: .gitignore patterns of files and directories to skip.
        skip: Directories not to search, e.g. the output directory; files that are no eval files.
    """
    root = absolute(root)
    discovery = Discovery()
    discovery.exclude = _exclude(exclude, discovery.problems)
    search = _Search(root=root, exclude=discovery.exclude, skip=frozenset(absolute(path) for path in skip))
    ids: dict[Path, list[str]] = {}
    empty: list[str] = []
    others: list[str] = []
    for selector in selectors_of(root, targets):
        # A file of another tool that was named is a mistake; found by a search it is not this run's business.
        named = (root / selector.path).is_file()
        resolved = _resolve(root, selector, search, discovery.problems, before=[*ids])
        foreign = {path: foreign_eval_file(path, name_of(path, root), named=named) for path in resolved}
        discovery.problems += filter(None, foreign.values())
        others += [name_of(path, root) for path, problem in foreign.items() if problem is not None]
        files = [path for path in resolved if foreign[path] is None]
        for path in files:
            # Ids of several targets for one file add up, as in `adk eval a.json:c1 a.json:c2`.
            ids.setdefault(path, []).extend(selector.ids)
        if not files and (root / selector.path).is_dir():
            empty.append(selector.path)
        if selector.ids and files:
            discovery.groups.append((selector, [name_of(path, root) for path in files]))
    # results.json, comment and JUnit are UTF-8: a name that is not can't identify a case in them.
    invalid = [path for path in ids if not is_utf8(str(path.relative_to(root) if path.is_relative_to(root) else path))]
    discovery.problems += [_invalid_name(name_of(path, root)) for path in invalid]
    discovery.files = sorted(
        (
            FoundFile(path=path, name=name_of(path, root), ids=tuple(dict.fromkeys(ids[path])))
            for path in ids
            if path not in invalid
        ),
        key=lambda file: file.name,
    )
    discovery.problems += [*search.problems, *search.notices(), *search.misnamed(ids)]
    if not targets:
        discovery.problems += search.unused(exclude)
        names = (path for path in search.other_json if path.name == CONFIG_NAMES[0] and path.is_file())
        discovery.configs = [
            path for path in names if path not in search.skip and not discovery.exclude.match(name_of(path, root))
        ]
    # With `exclude` an empty directory may be intended.
    if discovery.files and not exclude:
        discovery.problems += [_nothing_in(path) for path in empty]
    # An error: a gate that finds nothing must not be green.
    if not discovery.files and not has_error(discovery.problems):
        discovery.problems.append(_nothing_found(root, targets, bool(exclude), search.skip, others))
    return discovery


def _invalid_name(name: str) -> Problem:
    return Problem(
        code="file-name-not-utf8",
        message="The path of the file is not UTF-8, so reports can't name its cases.",
        hint="Rename it, or exclude it.",
        file=name,
    )


def selectors_of(root: Path, targets: Sequence[str]) -> list[Selector]:
    """The parsed targets; the root if there are none."""

    def exists(path: str) -> bool:
        # pathlib raises an error for a name that is too long for a file: many cases after a colon.
        return os.path.exists(root / path)  # noqa: PTH110

    return [parse_selector(target, exists) for target in targets or (".",)]


def _exclude(lines: Sequence[str], problems: list[Problem]) -> PathPatterns:
    try:
        return PathPatterns(lines)
    except ValueError as error:
        problems.append(_invalid_pattern("exclude", error, "Patterns use .gitignore syntax, e.g. `evals/slow/`."))
        return PathPatterns([])


def _invalid_pattern(option: str, error: ValueError, hint: str) -> Problem:
    return Problem(code="pattern-invalid", message=f"`{option}` has an invalid pattern: {error}.", hint=hint)


def _nothing_in(path: str) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="no-eval-files",
        message=f"No eval file was found in `{path}`, only in other paths.",
        hint="If it is the agent of these, name it with `--agent`.",
    )


def _nothing_found(
    root: Path, targets: Sequence[str], filtered: bool, skip: frozenset[Path], others: Sequence[str]
) -> Problem:
    from agent_eval_scoring.evalset.discovery._listing import reasons

    where = ", ".join(f"`{target}`" for target in targets) or searched(root)
    paths = [absolute(root / selector.path) for selector in selectors_of(root, targets)]
    # Started below the repository's root, e.g. by `working-directory`: evals beside it are not searched.
    top = repository_of(absolute(root))
    elsewhere = discover(top).files if top not in {None, absolute(root)} and not targets else []
    # A workflow without actions/checkout starts in an empty directory.
    entries = set(root.iterdir()) if root.is_dir() else set()
    skipped = discover(root, targets).files if filtered else []
    reasons_found = [
        *(["The directory is empty: check the repository out first (`actions/checkout`)."] if entries <= skip else []),
        *(f"`{name_of(file, root)}` is YAML: write it as JSON." for file in sorted(root.glob("*/*.evalset.y*ml"))[:1]),
        *(f"`exclude` skips `{file.name}`: narrow or remove its pattern." for file in skipped[:1]),
        *(f"Start agent-eval in {top}, which has `{file.name}`." for file in elsewhere[:1]),
        *([_not_of_adk(others)] if others else []),
        *(() if skipped else reasons(root, [path for path in paths if path.is_dir()], skip)),
    ]
    if is_outside := top is None and not targets:
        where = f"{absolute(root)}, where agent-eval was started"
    hints = reasons_found or [
        *(["Only files below it are found: start agent-eval in the root of your repository."] if is_outside else []),
        "Eval files are named `*.test.json` or `*.evalset.json`, and must not be ignored by git. To run a file with "
        "another name, pass its path.",
        *(["Check the `exclude` patterns too."] if filtered else []),
        "To create one of a conversation with the agent: `agent-eval record evals/NAME.evalset.json`.",
    ]
    return Problem(code="no-eval-files", message=f"No eval file was found in {where}.", hint=" ".join(hints))


def _not_of_adk(names: Sequence[str]) -> str:
    are = "is no eval set" if len(names) == 1 else "are no eval sets"
    form = '{"eval_set_id": "...", "eval_cases": [{"eval_id": "...", "conversation": [...]}]}'
    shown = listed([f"`{name}`" for name in names], 2)
    return f"{shown} {are} of ADK: write {form}, or record cases with `agent-eval record`."


def _resolve(
    root: Path, selector: Selector, search: _Search, problems: list[Problem], before: Sequence[Path]
) -> list[Path]:
    """The files that a selector selects, after those of the selectors before it."""
    path = absolute(root / selector.path)
    if path.is_dir():
        return list(search.below(path))
    if path.exists():
        return [path]
    # Only if nothing has that name: `[odd] name.test.json` is a valid name.
    if not path.is_symlink() and GLOB & set(selector.path):
        segments = Path(selector.path).parts
        # Only the directory before the first glob is searched: `evals/*/a.json` need not walk the whole repository.
        fixed = next(at for at, segment in enumerate(segments) if GLOB & set(segment))
        directory = absolute(root.joinpath(*segments[:fixed]))
        try:
            expression = glob("/".join(segments[fixed:]))
        except ValueError as error:
            problems.append(_invalid_pattern("paths", error, "Globs are e.g. `evals/**/smoke_*.json`."))
            return []
        files = search.below(directory) if directory.is_dir() else ()
        if matches := [file for file in files if expression.fullmatch(name_of(file, directory))]:
            return matches
    problems.append(dangling_link(path, root) if path.is_symlink() else _missing(root, selector, before))
    return []


_RELATIVE = "Paths are relative to the current directory, in a workflow to the repository."


def _missing(root: Path, selector: Selector, before: Sequence[Path]) -> Problem:
    path = absolute(root / selector.path)
    # `agent-eval run FILE CASE` looks natural, and means two files.
    has_id = re.compile(rb'"(?:eval_id|evalId|eval_case_id|name)"\s*:\s*' + re.escape(f'"{selector.path}"'.encode()))
    shown, hint = selector.path, ""
    # The first colon has split the address: what is left is its scheme.
    if "://" in selector.path or selector.path in ("gs", "s3", "http", "https"):
        hint = "Only local files are read; download it first."
        shown = ":".join([selector.path, *selector.ids[:1]])
    elif GLOB & set(selector.path):
        hint = "A glob selects `*.test.json` and `*.evalset.json` files that neither git ignores nor `exclude` skips. "
        hint += "Name other files without a glob."
        return Problem(code="path-not-found", message=f"No eval file matches `{shown}`.", hint=hint)
    elif cases := [file for file in before or (file.path for file in discover(root).files) if contains(file, has_id)]:
        hint = f"It is a case: write `{name_of(cases[0], root)}:{selector.path}`."
    elif "," in selector.path and all((root / part).exists() for part in selector.path.split(",")[:1]):
        hint = f"Separate paths with spaces: `{selector.path.replace(',', ' ')}`."
    elif path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.iterdir())
        if siblings := [(Path(selector.path).parent / name).as_posix() for name in nearby(path.name, names)]:
            hint = f"Did you mean {' or '.join(f'`{sibling}`' for sibling in siblings)}?"
    elif same := [file.name for file in discover(root).files if file.path.name == path.name]:
        hint = f"Did you mean `{same[0]}`?"
    if not hint:
        parents = (name_of(file.path.parent, root) for file in discover(root).files)
        folders = dict.fromkeys("the root" if name == "." else f"`{name}`" for name in parents)
        hint = f"Eval files are in {listed([*folders], 3)}. Without a path, all are meant." if folders else _RELATIVE
        if path.suffix == "":
            hint += f" If `{shown}` is the agent: it is found without being named, or set `--agent`."
    return Problem(code="path-not-found", message=f"`{shown}` does not exist.", hint=hint)


@dataclass(frozen=True)
class _Link:
    """A symbolic link, which is resolved after all regular files."""

    path: Path
    tracked: bool


@dataclass(kw_only=True)
class _Search:
    """Searches directories. Each file and directory is visited once, even if several links point to it."""

    root: Path
    exclude: PathPatterns
    skip: frozenset[Path]
    problems: list[Problem] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """Names of broken links and missing submodules that probably contain no eval files, by kind."""
    other_json: list[Path] = field(default_factory=list)
    """The JSON files of searched directories that are not named as eval files."""
    _asked: set[tuple[str, bool]] = field(default_factory=set)
    """What `exclude` could match: names, and whether they are directories."""

    def below(self, directory: Path) -> Iterator[Path]:
        """The eval files below a directory."""
        seen: set[str] = set()
        links: list[_Link] = []
        yield from self._directory(directory, seen, links)
        # Links last, so that a file is named by its own path and not by a link's.
        while links:
            yield from self._link(links.pop(0), seen, links)

    def _directory(self, directory: Path, seen: set[str], links: list[_Link]) -> Iterator[Path]:
        """The eval files of a directory and of the repositories inside it. Adds its links to `links`."""
        # A list and not recursion: repositories may contain each other through links.
        waiting = [directory]
        while waiting:
            folder = waiting.pop(0)
            # By real paths: two links to one directory would run its cases twice.
            real = os.path.realpath(folder)
            if real in seen:
                continue
            listing = list_directory(folder, skip=self.skip)
            seen |= {os.path.join(real, name) if name else real for name in listing.folders}  # noqa: PTH118
            self._report(folder, listing)
            datasets = [name for name in listing.other_json if self._is_dataset(folder / name)]
            for name in [*listing.files, *datasets]:
                # Git also lists deleted files, and a file that was replaced by a directory.
                if (
                    not self._excluded(folder / name)
                    and os.path.lexists(folder / name)
                    and not (folder / name).is_dir()
                ):
                    file = os.path.join(real, name)  # noqa: PTH118
                    if file not in seen:
                        seen.add(file)
                        yield folder / name
            self.other_json += [folder / name for name in listing.other_json if name not in datasets]
            links += [_Link(folder / name, name in listing.tracked) for name in listing.links]
            for name in listing.repositories:
                # A submodule that is not checked out has no `.git`, and an empty directory says nothing.
                if os.path.lexists(folder / name / ".git"):
                    waiting.append(folder / name)
                elif not self._excluded(folder / name, folder=True):
                    self._absent_submodule(folder / name)

    def _link(self, link: _Link, seen: set[str], links: list[_Link]) -> Iterator[Path]:
        """The eval files that a link points to."""
        path, target = link.path, Path(os.path.realpath(link.path))
        is_folder = target.is_dir()
        if self._excluded(path, folder=is_folder or not target.exists()) or str(target) in seen:
            return
        if not target.exists():
            self._dangling(link)
        elif not target.is_relative_to(os.path.realpath(self.root)):
            # An untracked link to a directory is some tool's: the repository says nothing of what is behind it.
            if self._is_selected(path) if not is_folder else link.tracked and self._may_hold_evals(path):
                self.problems.append(self._outside(path))
        elif is_folder:
            # What a link of the repository leads to is meant, also if it is in an ignored directory.
            if link.tracked or not only_tracked_files(path, self.skip):
                yield from self._directory(path, seen, links)
        elif self._is_selected(path):
            seen.add(str(target))
            yield path

    def _is_selected(self, path: Path) -> bool:
        """Whether the name of a file is selected."""
        return (path.name.endswith(SUFFIXES) or self._is_dataset(path)) and not self._excluded(path)

    def _is_dataset(self, path: Path) -> bool:
        """Whether a file is a dataset where agents-cli keeps them. Of an absent one, its place decides."""
        if not in_dataset_folder(name_of(path, self.root)):
            return False
        try:
            return is_dataset_text(read_regular(path, MAX_TEXT).decode("utf-8", "replace"))
        # A sparse checkout: git lists the file, and the gate has to say that it is missing.
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _excluded(self, path: Path, *, folder: bool = False) -> bool:
        self._asked.add((name_of(path, self.root), folder))
        return self.exclude.match(name_of(path, self.root), folder=folder)

    def _may_hold_evals(self, path: Path) -> bool:
        """Whether a broken link or missing submodule probably contains eval files, by its path and target.

        Not by `retrieval` or `lighteval`, nor below `.agents` and the like, where tools keep skills.
        """
        target, name = os.readlink(path) if path.is_symlink() else "", name_of(path, self.root)  # noqa: PTH115
        is_hidden = any(part.startswith(".") for part in PurePath(name).parts)
        return path.suffix in {"", ".json"} and not is_hidden and bool(_EVALS.search(f"{name} {target}".casefold()))

    def _dangling(self, link: _Link) -> None:
        path = link.path
        if path.name in CONFIG_NAMES or path.name.startswith(".#"):
            return  # Configs are reported where they apply. Emacs creates such links (`.#name`) for open files.
        if self._is_selected(path) or (link.tracked and self._may_hold_evals(path)):
            self.problems.append(dangling_link(path, self.root))
        elif link.tracked:
            self._skip("symbolic link", path)

    def _absent_submodule(self, path: Path) -> None:
        if self._may_hold_evals(path):
            message = "The submodule is not checked out, so its eval files can't be run."
            self.problems.append(self._absent(path, message))
        else:
            self._skip("submodule", path)

    def _report(self, directory: Path, listing: Listing) -> None:
        """Reports problems of a listing."""
        if listing.failure is not None:
            self.problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="git-failed",
                    message=f"Git can't list the files, so ignored files are searched too: {listing.failure}",
                    hint="Skip generated directories with `exclude`.",
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
            elif self._is_selected(path):
                self._skip("eval file", path)

    def _skip(self, kind: str, path: Path) -> None:
        self.skipped.setdefault(kind, []).append(name_of(path, self.root))

    def _outside(self, link: Path) -> Problem:
        return Problem(
            # As for a broken link, because its cases would be missing silently.
            code="link-outside-root",
            message="The link points outside the repository, so it is not followed and its cases can't be run.",
            hint="Commit its target, pass the path of the link to follow it, or exclude it.",
            file=name_of(link, self.root),
        )

    def _absent(self, path: Path, message: str) -> Problem:
        return Problem(
            code="not-checked-out", message=message, hint="Check it out, or exclude it.", file=name_of(path, self.root)
        )

    def unused(self, lines: Sequence[str]) -> Iterator[Problem]:
        """Warnings for lines of `exclude` that match nothing: what they name runs, or is misspelt."""
        names = {(name_of(path, self.root), False) for path in self.other_json} | self._asked
        folders = dict.fromkeys(parent.as_posix() for name, _ in sorted(names) for parent in PurePath(name).parents)
        for line in lines:
            place = re.sub(r"(/[*]+)*/?$", "", line).strip("/")
            # A bare name, such as `node_modules/`, may well come into being later, and `!` takes back another line.
            if line.startswith(("!", "#")) or not ("/" in place or line.endswith(".json")):
                continue
            if (self.root / place).exists():  # Git may ignore it.
                continue
            patterns = PathPatterns([line])
            if not any(patterns.match(name, folder=folder) for name, folder in names):
                close = nearby(line.strip("/"), [*folders, *(name for name, _ in sorted(names))], 1, 0.8)
                yield Problem(
                    severity=Severity.WARNING,
                    code="exclude-unused",
                    message=f"The pattern `{line}` of `exclude` matches no eval file and no config.",
                    hint=f"Did you mean `{close[0]}`?" if close else "Correct it, or remove it.",
                )

    def notices(self) -> Iterator[Problem]:
        """A notice for each kind of skipped files."""
        for kind, names in self.skipped.items():
            dangling = kind == "symbolic link"
            state = ("is broken" if len(names) == 1 else "are broken") if dangling else "not checked out"
            yield Problem(
                severity=Severity.NOTICE,
                code="dangling-link" if dangling else "not-checked-out",
                message=f"{plural(len(names), kind)} {state}: {listed(sorted(names), 5)}.",
                hint="Nothing in them is run.",
            )

    def misnamed(self, files: Collection[Path]) -> Iterator[Problem]:
        """Warnings for eval sets beside the eval files of a run, which are not run because of their names."""
        folders = {path.parent for path in files}
        # Only beside eval files: elsewhere JSON with these keys is data of something else.
        beside = (path for path in self.other_json if path.parent in folders and path not in self.skip.union(files))
        for path in islice((path for path in beside if not self._excluded(path)), _MOST_LOOKED_AT):
            if looks_like_evals(path):
                yield Problem(
                    severity=Severity.WARNING,
                    code="eval-file-misnamed",
                    message="The file looks like an eval file but is not run, because of its name.",
                    hint=f"{advice(path, 'it')}, or exclude it.",
                    file=name_of(path, self.root),
                )
