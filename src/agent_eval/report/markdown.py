"""What the Markdown texts share: the environment of the templates, what they are given, and fitting a limit.

The templates say what stands where; whatever they print that is not marked as safe is escaped as prose. A text that is
too long for its medium is made again with less detail, step by step, so that nothing is ever cut in the middle of a
fence or a `<details>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from agent_eval.core.text import plural, shorten
from agent_eval.report import digest, escape, numbers, standing
from agent_eval.report.difference import changes
from agent_eval.report.findings import Finding, findings, why
from agent_eval.results.report import CaseReport, ProblemReport

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


def environment() -> Environment:
    """The templates of this package, with everything escaped that is not marked as safe."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("agent_eval.report"),
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
        "html_text": escape.html_text,
        "fence": escape.fence,
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
    return escape.text(value)


def place(file: str | None, line: int | None, source_url: str | None) -> Markup:
    """`file:line`, as a link where it is known what to link to."""
    where = escape.code(digest.place(None if file is None else shorten(file, LONGEST_PATH), line))
    if file is None or source_url is None or len(file) > LONGEST_PATH:
        return where
    path = escape.visible(file)
    if {"", ".", ".."} & set(path.split("/")):  # Browsers resolve them: such a link leads out of the repository.
        return where
    anchor = "" if line is None else f"#L{line}"
    return escape.link(where, f"{source_url.rstrip('/')}/{quote(path)}{anchor}")


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
    found = findings(case)
    tells_more = any(finding.turns or finding.log for finding in found)
    known = told or Told()
    return {
        "name": shorten(case.eval_id, detail.name) if len(case.eval_id) > detail.name else case.eval_id,
        "place": place(case.file, case.line, source_url),
        "mark": case.status,
        "crashed": case.status == "failed" and digest.has_crashed(case),
        "tag": known.tag,
        "evidence": detail.cut(known.evidence),
        "why": [shorten(line, detail.name) + standing.on_base(line, known.base or {}) for line in why(case)],
        "findings": [_finding(finding, case, detail) for finding in found] if opened and tells_more else [],
        "label": "Traceback and log" if all(finding.log for finding in found) else "Expected (-) and actual (+)",
    }


def _finding(finding: Finding, case: CaseReport, detail: Detail) -> dict[str, Any]:
    several = len(case.runs) > 1
    # The end of a traceback says what happened, so the beginning goes first.
    log = escape.visible(finding.log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return {
        "summary": finding.summary,
        "lines": finding.lines[:20],
        "turns": [
            {
                "title": f"turn {turn.evidence.turn + 1}" + (f" of run {turn.run + 1}" if several else ""),
                "score": "" if turn.evidence.score is None else numbers.score_text(turn.evidence.score),
                "user": shorten(turn.evidence.user, min(detail.side, 500)) if turn.evidence.user else "",
                "changes": changes(
                    _visible(turn.evidence.expected, detail.side),
                    _visible(turn.evidence.actual, detail.side),
                    limit=detail.side,
                ),
            }
            for turn in finding.turns[: detail.turns]
        ],
        "more_turns": max(len(finding.turns) - detail.turns, 0),
        "log": log if len(log) <= detail.log else "…" + log[len(log) - detail.log :],
    }


def _visible(value: str, limit: int) -> str:
    """The visible text, cut before it costs anything: names of invisible characters make it longer."""
    return shorten(escape.visible(shorten(value, limit)), limit)


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


def reproduce(cases: Sequence[CaseReport]) -> str:
    """The command that runs the first few of these cases again."""
    selectors = list(_selectors(cases))
    return "agent-eval run " + " ".join(selectors) if selectors else ""


def _selectors(cases: Sequence[CaseReport], most: int = 5) -> Iterator[str]:
    import shlex

    by_file: dict[str, list[str]] = {}
    for case in cases[:most]:
        by_file.setdefault(case.file, []).append(case.eval_id)
    for file, ids in by_file.items():
        if not 0 < len(file) <= LONGEST_PATH or escape.one_line(file) != file:
            continue
        # What begins with a dash would be taken for a flag, such as one that names a command to run.
        path = f"./{file}" if file.startswith("-") else file
        # An id with a comma, or very long, can't be selected by name.
        named = [one for one in ids if "," not in one and len(one) <= 100 and escape.one_line(one) == one]
        yield shlex.quote(f"{path}:{','.join(named)}" if len(named) == len(ids) else path)
