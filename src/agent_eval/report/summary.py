"""The result as GitHub-flavoured Markdown for the job summary (`summary.md`).

The templates say what stands where; whatever they print that is not marked as safe is escaped as prose. A summary that
is too long for its medium is made again with less detail, step by step, so that nothing is ever cut in the middle of a
fence or a `<details>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from agent_eval.core.text import plural, shorten
from agent_eval.report import digest, escape, numbers
from agent_eval.results.report import CaseReport, ProblemReport, RunReport

if TYPE_CHECKING:
    from jinja2 import Environment

LIMIT = 1_000_000
"""Bytes. GitHub refuses a step's summary of more than 1 MiB (documentation of workflow commands)."""
SMALLEST_LIMIT = 2_000
"""Bytes that hold the shortest form of any report."""

_LONGEST_PATH = 300

_MARKS: Mapping[str, str] = {
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
    """Length of a name, a message and a line of why."""


DETAILS: Sequence[Detail] = (
    Detail(explained=50, detailed=50, listed=1_000, side=4_000, log=8_000, turns=10),
    Detail(explained=50, detailed=50, listed=500, side=1_000, log=2_000, turns=5),
    Detail(explained=50, detailed=20, listed=200, side=500, log=1_000, turns=3),
    Detail(explained=30, detailed=5, listed=100, side=300, log=500, turns=2),
    Detail(explained=20, detailed=0, listed=50, side=0, log=0, turns=0),
    Detail(explained=5, detailed=0, listed=20, side=0, log=0, turns=0, name=100),
    Detail(explained=0, detailed=0, listed=5, side=0, log=0, turns=0, name=60),
    Detail(explained=0, detailed=0, listed=0, side=0, log=0, turns=0, name=60),
)
"""From everything to next to nothing."""


def summary_markdown(
    report: RunReport,
    *,
    limit: int = LIMIT,
    source_url: str | None = None,
    files: Mapping[str, str] | None = None,
) -> str:
    """The result as Markdown, its first line the verdict in one sentence.

    Args:
        report: What to tell.
        limit: Bytes in UTF-8 that the text may have.
        source_url: Where the tested commit can be browsed, such as `https://github.com/o/r/blob/SHA`; cases then
            link to their lines.
        files: Paths of written files by what they are, named at the end.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a summary needs at least {SMALLEST_LIMIT:,} bytes, not {limit:,}")
    template = _environment().get_template("summary.md.j2")
    for step, detail in enumerate(DETAILS):
        text = template.render(_context(report, detail, source_url, files or {}, shortened=step > 0))
        if len(text.encode("utf-8")) <= limit:
            return text
    return f"## {_MARKS[report.verdict]} {escape.text(shorten(digest.headline(report), 120))}\n"


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("agent_eval.report"),
        autoescape=True,
        finalize=_safe,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": escape.code,
        "html_code": escape.html_code,
        "fence": escape.fence,
        "duration": numbers.duration_text,
        "threshold": numbers.threshold_text,
        "plural": plural,
    }
    environment.globals |= {"mark": lambda status: Markup(_MARKS[status])}  # noqa: S704 - one of our own emoji
    return environment


def _safe(value: Any) -> Any:
    """What a template prints: prose unless it says that it is something else."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape.text(value)


def _context(
    report: RunReport, detail: Detail, source_url: str | None, files: Mapping[str, str], *, shortened: bool
) -> dict[str, Any]:
    unhappy = [*digest.with_status(report, "failed"), *digest.with_status(report, "quarantined")]
    errored = digest.with_status(report, "errored")
    explained = [_case(case, detail, source_url, opened=number < detail.detailed) for number, case in
                 enumerate(unhappy[: detail.explained])]  # fmt: skip
    unjudged = [_case(case, detail, source_url, opened=number < detail.detailed) for number, case in
                enumerate(errored[: detail.explained])]  # fmt: skip
    named = [*unhappy[detail.explained :], *errored[detail.explained :]]
    severities = ("error", "warning", "notice")
    problems = sorted(report.problems, key=lambda problem: severities.index(problem.severity))
    rows = digest.metric_rows(report)
    cut = partial(shorten, limit=max(detail.name, 60))
    return {
        "report": report,
        "headline": digest.headline(report),
        "note": digest.run_note(report),
        "reasons": [cut(reason) for reason in digest.other_reasons(report)] if detail.listed else [],
        "metrics": [row for row in rows if row.gates][: max(detail.listed, 5)],
        "informational": [row for row in rows if not row.gates][: min(detail.listed, 20)],
        "failures": explained,
        "unjudged": unjudged,
        "named": [_case(case, detail, source_url, opened=False) for case in named[: detail.listed]],
        "unnamed": max(len(named) - detail.listed, 0),
        "not_run": [(cut(reason), len(cases), [cut(case.eval_id) for case in cases[:5]]) for reason, cases
                    in digest.not_run_groups(report)[: detail.listed]],
        "problems": [_problem(problem, cut, source_url) for problem in problems[: detail.listed]],
        "more_problems": max(len(problems) - detail.listed, 0),
        "notices": [cut(notice) for notice in report.notices[: detail.listed]],
        "files": report.files[: min(detail.listed, 200)],
        "more_files": max(len(report.files) - min(detail.listed, 200), 0),
        "cut": cut,
        "reproduce": _reproduce([*unhappy, *errored]) if detail.explained else "",
        "provenance": list(report.provenance.items())[: min(detail.listed, 10)],
        "written": dict(list(files.items())[: min(detail.listed, 10)]),
        "shortened": shortened,
    }  # fmt: skip


def _place(file: str | None, line: int | None, source_url: str | None) -> Markup:
    """`file:line`, as a link where it is known what to link to."""
    where = escape.code(digest.place(None if file is None else shorten(file, _LONGEST_PATH), line))
    if file is None or source_url is None:
        return where
    anchor = "" if line is None else f"#L{line}"
    return escape.link(where, f"{source_url.rstrip('/')}/{_quoted(file)}{anchor}")


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(escape.visible(path))


def _case(case: CaseReport, detail: Detail, source_url: str | None, *, opened: bool) -> dict[str, Any]:
    found = digest.findings(case)
    tells_more = any(finding.turns or finding.log for finding in found)
    return {
        "name": shorten(case.eval_id, detail.name) if len(case.eval_id) > detail.name else case.eval_id,
        "place": _place(case.file, case.line, source_url),
        "mark": case.status,
        "crashed": case.status == "failed" and digest.has_crashed(case),
        "why": [shorten(line, detail.name) for line in digest.why(case)],
        "findings": [_finding(finding, case, detail) for finding in found] if opened and tells_more else [],
        "label": "Traceback and log" if all(finding.log for finding in found) else "Expected (-) and actual (+)",
    }


def _finding(finding: digest.Finding, case: CaseReport, detail: Detail) -> dict[str, Any]:
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
                "changes": digest.changes(
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


def _problem(problem: ProblemReport, cut: Any, source_url: str | None) -> dict[str, Any]:
    return {
        "severity": problem.severity,
        "code": problem.code,
        "message": cut(problem.message),
        "hint": cut(problem.hint) if problem.hint else "",
        "place": _place(problem.file, problem.line, source_url) if problem.file else Markup(""),
    }


def _reproduce(cases: Sequence[CaseReport]) -> str:
    """The command that runs the first few of these cases again."""
    return "agent-eval run " + " ".join(_selectors(cases)) if cases else ""


def _selectors(cases: Sequence[CaseReport], most: int = 5) -> Iterator[str]:
    import shlex

    by_file: dict[str, list[str]] = {}
    for case in cases[:most]:
        by_file.setdefault(case.file, []).append(case.eval_id)
    for file, ids in by_file.items():
        # An id with a comma, or very long, can't be selected by name.
        named = [one for one in ids if "," not in one and len(one) <= 100 and escape.one_line(one) == one]
        yield shlex.quote(f"{file}:{','.join(named)}" if len(named) == len(ids) else file)
