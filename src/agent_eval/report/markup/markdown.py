"""What the Markdown texts share: the environment of the templates, what they are given, and fitting a limit.

The templates say what stands where; whatever they print that is not marked as safe is escaped as prose. A text that is
too long for its medium is made again with less detail, step by step, so that nothing is ever cut in the middle of a
fence or a `<details>`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from agent_eval.core.text import plural, shorten
from agent_eval.report.markup import escape
from agent_eval.report.views import Finding, conversation, digest, findings, numbers, one_line, standing, visible, why
from agent_eval.results import CaseReport, ProblemReport

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST_PATH = 300

MARKS: Mapping[str, str] = {
    "passed": "✅",
    "failed": "❌",
    "errored": "⚠️",
    "not_run": "⏭️",
    "quarantined": "🟡",
    "inconclusive": "⚠️",
    "invalid": "⛔",
    "error": "⛔",
    "warning": "⚠️",
    "notice": "ℹ️",
}


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much to tell. Counts are of cases, lengths of characters."""

    explained: int
    """Cases with their three lines of why."""
    detailed: int
    """Of those, cases with what was expected and what happened."""
    listed: int
    """Cases in the table of those that are only named, and rows of every other list."""
    side: int
    """Length of an expected or an actual text."""
    log: int
    """Length of a traceback with its log."""
    turns: int
    """Turns of a metric."""
    name: int = 200
    """Length of a name and of a line of why; a message may have three times that."""

    def cut(self, value: str) -> str:
        """The text in the length of a name."""
        return shorten(value, max(self.name, 60))

    def tell(self, value: str) -> str:
        """A message of ours, which says what to do only at its end: more room than a name."""
        return shorten(value, 3 * max(self.name, 60))


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known of a case beside its own report."""

    tag: str = ""
    """What became of it since the base, in a word."""
    evidence: str = ""
    """The numbers that the word rests on."""
    base: Mapping[str, str] | None = None
    """What to add to the line of a metric, by its name, e.g. `base 1.00`."""


def fitting(
    render: Callable[[Detail, bool], str], details: Sequence[Detail], fits: Callable[[str], bool]
) -> str | None:
    """The richest text that fits.

    Args:
        render: Makes the text, given how much to tell and whether that is less than everything.
        details: From everything to next to nothing.
        fits: Whether a text fits.
    """
    for step, detail in enumerate(details):
        text = render(detail, step > 0)
        if fits(text):
            return text
    return None


@functools.cache
def environment() -> Environment:
    """The templates of this package, with everything escaped that is not marked as safe; compiled once per process."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("agent_eval.report.renderers"),
        autoescape=True,
        finalize=_safe,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "code": escape.code,
        "html_code": escape.html_code,
        "html_text": escape.html_prose,
        "link": escape.link,
        "fence": escape.fence,
        "quoted": _quoted,
        "duration": numbers.duration_text,
        "threshold": numbers.threshold_text,
        "plural": plural,
    }
    made.globals |= {"mark": lambda status: Markup(MARKS[status])}  # noqa: S704 - one of our own emoji
    return made


def _safe(value: Any) -> Any:
    """What a template prints: prose unless it says that it is something else."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape.prose(value)


def place(file: str | None, line: int | None, source_url: str | None) -> Markup:
    """`file:line`, as a link where it is known what to link to."""
    where = escape.code(digest.place(None if file is None else shorten(file, LONGEST_PATH), line))
    url = source_address(file, line, source_url)
    return where if url is None else escape.link(where, url)


def linked_name(case: CaseReport, detail: Detail, source_url: str | None) -> Markup:
    """A case's name, as a link to its place where that is known."""
    url = source_address(case.file, case.line, source_url)
    name = escape.code(detail.cut(digest.case_name(case)))
    return name if url is None else escape.link(name, url)


def source_address(file: str | None, line: int | None, source_url: str | None) -> str | None:
    """Where a line of a file can be browsed; None where that is unknown, or the path is an odd one."""
    if file is None or source_url is None or len(file) > LONGEST_PATH:
        return None
    path = visible(file)
    if {"", ".", ".."} & set(path.split("/")):  # Browsers resolve them: such a link leads out of the repository.
        return None
    return f"{source_url.rstrip('/')}/{quote(path)}{'' if line is None else f'#L{line}'}"


def case_view(
    case: CaseReport, detail: Detail, source_url: str | None, *, opened: bool, told: Told | None = None
) -> dict[str, Any]:
    """A case as `case.md.j2` shows it.

    Args:
        case: The case.
        detail: How much to tell.
        source_url: Where files can be browsed.
        opened: Whether to show what was expected and what happened.
        told: What is known beside.
    """
    view = conversation.case_view(case, turns=detail.turns) if opened and detail.side else None
    found = findings(case) if view is None else view.findings
    tells_more = view is not None or any(finding.log for finding in found)
    known = told or Told()
    base = known.base or {}
    return {
        "name": detail.cut(digest.case_name(case)),
        "link": linked_name(case, detail, source_url),
        "place": place(case.file, case.line, source_url),
        "mark": case.status,
        "crashed": case.status == "failed" and digest.has_crashed(case) and not digest.is_unanswered(case),
        "tag": known.tag,
        "evidence": detail.cut(known.evidence),
        "why": [shorten(line, detail.name) + standing.on_base(line, base) for line in why(case)],
        "findings": [_finding(finding, detail, base) for finding in found] if opened and tells_more else [],
        "turns": [] if view is None else [_turn(view, turn, detail) for turn in view.turns],
        "more_turns": 0 if view is None else view.turns_left_out,
        "label": "Traceback and log" if view is None else "What the agent did, turn by turn",
    }


def _finding(finding: Finding, detail: Detail, base: Mapping[str, str]) -> dict[str, Any]:
    return {
        "summary": shorten(finding.summary, detail.name) + standing.on_base(finding.summary, base),
        "lines": [detail.cut(line) for line in finding.lines[:20]],
        "log": log_text(finding.log, detail),
    }


_ARROWS: Mapping[str, str] = {"call": "→ ", "response": "← ", "expected call": ""}
_HEADS: Mapping[str, str] = {
    "user": "User",
    "said": "On the way",
    "expected call": "Expected calls",
    "answer": "Answer",
    "expected answer": "Expected",
    "actual": "Actual",
}


def _turn(view: conversation.CaseView, turn: conversation.TurnView, detail: Detail) -> dict[str, Any]:
    """A turn as blocks in reading order: consecutive calls and responses are one block of code."""
    blocks: list[dict[str, Any]] = []
    shown = conversation.rows(
        turn, text=detail.side, code=min(detail.side, 1_000), steps=20 if detail.turns > 2 else 6, details=5
    )
    for row in shown:
        text = _visible(row.text, max(detail.side, 60))
        head = _HEADS.get(row.kind, "")
        if row.kind in conversation.CODE:
            if not blocks or blocks[-1]["kind"] != "code" or blocks[-1]["head"] != head:
                blocks.append({"kind": "code", "head": head, "text": [], "details": []})
            blocks[-1]["text"].append(_ARROWS[row.kind] + text)
        elif row.kind == "detail":
            blocks[-1]["details"].append(text)
        else:
            kind = "verdict" if row.kind == "verdict" else "prose"
            mark = "failed" if row.wrong else "errored"
            blocks.append({"kind": kind, "mark": mark, "head": head, "text": [text], "details": []})
    return {"title": view.title(turn), "blocks": blocks}


def _quoted(value: str, head: str) -> Markup:
    """Prose of any number of lines as a blockquote: GitHub wraps it, where it would cut off a block of code."""
    lines = Markup("<br>").join(_safe(line) for line in value.strip().split("\n"))
    return Markup(f"> **{head}:** {lines}")  # noqa: S704 - a word of ours, and what is escaped


def _visible(value: str, limit: int) -> str:
    """The visible text, cut before it costs anything: names of invisible characters make it longer."""
    return shorten(visible(shorten(value, limit)), limit)


def log_text(log: str, detail: Detail) -> str:
    """The end of a traceback or a log: it says what happened, so what is left out is the beginning."""
    shown = visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]


def problem_views(
    problems: Sequence[ProblemReport], detail: Detail, source_url: str | None
) -> tuple[list[dict[str, Any]], int]:
    """Problems as the templates list them, errors first, and how many are left out."""
    severities = ("error", "warning", "notice")
    ordered = sorted(problems, key=lambda problem: severities.index(problem.severity))
    shown = [
        {
            "severity": problem.severity,
            "code": problem.code,
            "message": detail.tell(problem.message),
            "hint": [line.strip() for line in detail.tell(problem.hint or "").splitlines()],
            "place": place(problem.file, problem.line, source_url) if problem.file else Markup(""),
        }
        for problem in ordered[: detail.listed]
    ]
    return shown, max(len(ordered) - detail.listed, 0)


_MOST_SELECTORS = 20
_LONGEST_COMMAND = 2_000


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """How to run cases again."""

    command: str = ""
    """For a POSIX shell; "" where no case can be named."""
    left_out: int = 0
    """Cases that the command does not run, because they can't be named or are too many."""


def reproduce(cases: Sequence[CaseReport], options: Mapping[str, str] | None = None) -> Reproduction:
    """The command that runs these cases again.

    Args:
        cases: The cases.
        options: The report's `options`: flags that the run itself had.
    """
    import shlex

    by_file: dict[str, list[str]] = {}
    for case in cases:
        by_file.setdefault(case.file, []).append(case.eval_id)
    selectors: list[str] = []
    told = 0
    for file, ids in by_file.items():
        selector = _selector(file, ids)
        if selector is None or len(selectors) == _MOST_SELECTORS or sum(map(len, selectors)) > _LONGEST_COMMAND:
            continue
        selectors.append(shlex.quote(selector))
        told += len(ids)
    command = " ".join(["agent-eval run", *_flags(options or {}), *selectors]) if told else ""
    return Reproduction(command=command, left_out=len(cases) - told)


REPEATED = ("agent", "config", "agent-python")
"""Settings that a run on another machine must be given too."""


def _flags(options: Mapping[str, str]) -> Iterator[str]:
    import shlex

    for name in REPEATED:
        value = options.get(name, "")
        if value and not value.startswith("-") and len(value) <= LONGEST_PATH and one_line(value) == value:
            yield f"--{name} {shlex.quote(value)}"


def _selector(file: str, ids: Sequence[str]) -> str | None:
    """What names these cases of a file on the command line."""
    if not 0 < len(file) <= LONGEST_PATH or one_line(file) != file:
        return None
    # What begins with a dash would be taken for a flag, such as one that names a command to run.
    path = f"./{file}" if file.startswith("-") else file
    # An id with a comma, or very long, can't be selected by name; very many are better run with the whole file.
    named = [one for one in ids if "," not in one and len(one) <= 100 and one_line(one) == one]
    whole = len(named) < len(ids) or len(ids) > _MOST_SELECTORS or ids == [file]
    return path if whole else f"{path}:{','.join(named)}"
