"""Where a text may lead: lines of files, commits and runs of one repository; and the command that runs cases again."""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlsplit

from agent_eval_results import CaseReport
from agent_eval_results.report.views.detail import one_line, visible
from agent_eval_results.report.views.digest import case_name, location
from agent_eval_scoring.core.text import shorten

LONGEST_PATH = 300
"""Characters of a path that is linked, or named in a command."""
_MOST_SELECTORS = 20
_LONGEST_COMMAND = 2_000
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_REPOSITORY = re.compile(r"[\w.-]+(?:/[\w.-]+)+", re.ASCII)


_PULL = {"github": "pull", "gitlab": "-/merge_requests"}
_COMMITS = {"github": "commit", "gitlab": "-/commit"}


@dataclass(frozen=True, kw_only=True)
class Links:
    """The addresses that a text may link to. They come from the caller, since a report is untrusted."""

    server_url: str = ""
    """E.g. `https://github.com`; an address in a report is only linked if it is on this server."""
    pages: Literal["github", "gitlab"] = "github"
    repository: str = ""
    """Its full name, e.g. `owner/name`."""
    source_url: str | None = None
    """Where the tested files can be browsed, e.g. `https://github.com/o/r/blob/SHA`."""
    run_url: str | None = None
    """The workflow run that the text is about."""
    artifacts: Sequence[str] = ()
    """Names of the artifacts that hold everything."""
    report_url: str | None = None
    """The uploaded report.html, which opens one case at `#case=ID`."""
    pull_request: int | None = None
    """Its number, for links into its diff."""

    def own(self, url: str | None) -> str | None:
        """The address if it is one of the repository's; None for every other."""
        if not url or not self.server_url or not _REPOSITORY.fullmatch(self.repository):
            return None
        try:
            server, address = urlsplit(self.server_url), urlsplit(url)
        except ValueError:
            return None
        same = (address.scheme, address.netloc) == (server.scheme, server.netloc)
        plain = url.isascii() and url.isprintable() and not {" ", "\\"} & set(url)
        # Browsers resolve `..` in a path, also where it is spelled %2e%2e.
        parts = address.path.casefold().replace("%2e", ".").split("/")
        ours = f"{server.path.rstrip('/')}/{self.repository}".casefold().split("/")
        inside = parts[: len(ours)] == ours and not {".", ".."} & set(parts)
        return url if same and plain and inside and address.scheme in {"https", "http"} else None

    def commit_url(self, sha: str) -> str | None:
        """The page of a commit; None if the repository is unknown."""
        return self._page(f"{_COMMITS[self.pages]}/{sha}")

    def pull_url(self, number: int) -> str | None:
        """The page of a pull request; None if the repository is unknown."""
        return self._page(f"{_PULL[self.pages]}/{number}")

    @property
    def waiting_url(self) -> str | None:
        """The list of runs that wait for an approval; None if the repository is unknown, or not on GitHub."""
        return self._page("actions?query=is%3Awaiting") if self.pages == "github" else None

    def _page(self, path: str) -> str | None:
        if not self.server_url or not _REPOSITORY.fullmatch(self.repository):
            return None
        return f"{self.server_url.rstrip('/')}/{self.repository}/{path}"

    def change_url(self, file: str, line: int | None) -> str | None:
        """A line of a file in the diff of the pull request; None without one."""
        if self.pull_request is None or self.line_url(file, line) is None:
            return None
        pull, name = self.pull_url(self.pull_request), visible(file).encode()
        if pull is None:
            return None
        if self.pages == "gitlab":  # It names lines of a diff by their numbers in both versions: we know one.
            return f"{pull}/diffs#{hashlib.sha1(name, usedforsecurity=False).hexdigest()}"
        return f"{pull}/files#diff-{hashlib.sha256(name).hexdigest()}" + (f"R{line}" if line is not None else "")

    def case_url(self, case_id: str, turn: int | None = None) -> str | None:
        """The page of a case in the report, or of its turn (0-based); None if the report has no address or the id is
        too long for one.
        """
        report = self.own(self.report_url)
        if report is None or len(case_id) > LONGEST_PATH:
            return None
        of_turn = f"&turn={turn + 1}" if turn is not None else ""
        return f"{report.partition('#')[0]}#case={quote(visible(case_id), safe='')}{of_turn}"

    def line_url(self, file: str | None, line: int | None) -> str | None:
        """The page of a line of a file; None if that is unknown or the path is not a plain one."""
        if file is None or self.source_url is None or len(file) > LONGEST_PATH:
            return None
        path = visible(file)
        if {"", ".", ".."} & set(path.split("/")):  # Browsers resolve them: the link would leave the repository.
            return None
        return f"{self.source_url.rstrip('/')}/{quote(path)}{'' if line is None else f'#L{line}'}"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The name of a case or of a place, and where it leads: to the case in the report, else to a line of a file."""

    text: str
    file: str | None = None
    line: int | None = None
    case_id: str | None = None
    turn: int | None = None
    """0-based."""
    changed: bool = False
    """Whether the pull request changes the line: the link leads to its diff."""


def case_reference(case: CaseReport) -> Reference:
    """A case's name, leading to the case in the report or to its place."""
    return Reference(text=case_name(case), file=case.file, line=case.line, case_id=case.case_id)


def file_reference(file: str | None, line: int | None = None) -> Reference | None:
    """`file:line`, leading there; None if there is no file."""
    if file is None:
        return None
    return Reference(text=location(shorten(file, LONGEST_PATH), line), file=file, line=line)


def known_commit(sha: str | None) -> str:
    """The id of a commit; "" for other texts."""
    return sha if sha and _COMMIT.fullmatch(sha) else ""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """How to run cases again."""

    command: str = ""
    """For a POSIX shell; "" if no case can be selected."""
    left_out: int = 0
    """Cases that the command does not run, because they can't be selected or are too many."""
    whole: Sequence[str] = ()
    """Files of which the command runs all cases, also those that were not asked for."""


def reproduce(cases: Sequence[CaseReport], options: Mapping[str, str] | None = None) -> Reproduction:
    """The command that runs these cases again.

    Args:
        cases: The cases.
        options: The report's `options`, which are flags of the run.
    """
    by_file: dict[str, list[str]] = {}
    for case in cases:
        by_file.setdefault(case.file, []).append(case.eval_id)
    selectors: list[str] = []
    whole: list[str] = []
    selected = 0
    for file, ids in by_file.items():
        selector = _selector(file, ids)
        if selector is None or len(selectors) == _MOST_SELECTORS or sum(map(len, selectors)) > _LONGEST_COMMAND:
            continue
        selectors.append(shlex.quote(selector))
        selected += len(ids)
        if selector in {file, f"./{file}"}:
            whole.append(file)
    flags = _flags(tuple((options or {}).get(name, "") for name in REPEATED))
    command = " ".join(["agent-eval run", *flags, *selectors]) if selected else ""
    return Reproduction(command=command, left_out=len(cases) - selected, whole=whole)


REPEATED = ("agent", "config", "agent-python", "replay")
"""Settings that a run on another machine needs as well."""


@functools.lru_cache(maxsize=4)
def _flags(values: tuple[str, ...]) -> Sequence[str]:
    """The flags of the settings `REPEATED`, whose values are given in that order."""
    options, flags = dict(zip(REPEATED, values, strict=True)), []
    for name, value in options.items():
        if name == "agent-python" and options["agent"].startswith("recorded:"):
            continue  # No agent runs, and the path is one of this machine.
        if value and not value.startswith("-") and len(value) <= LONGEST_PATH and one_line(value) == value:
            flags.append(f"--{name} {shlex.quote(value)}")
    return flags


def _selector(file: str, ids: Sequence[str]) -> str | None:
    """The selector of these cases of a file; None if the path can't be typed."""
    if not 0 < len(file) <= LONGEST_PATH or one_line(file) != file:
        return None
    # A leading dash would make it a flag, for example one that runs a command.
    path = f"./{file}" if file.startswith("-") else file
    # An id that is very long or has a comma can't be selected; for very many, the whole file is run.
    named = [eval_id for eval_id in ids if "," not in eval_id and len(eval_id) <= 100 and one_line(eval_id) == eval_id]
    whole = len(named) < len(ids) or len(ids) > _MOST_SELECTORS or ids == [file]
    return path if whole else f"{path}:{','.join(named)}"
