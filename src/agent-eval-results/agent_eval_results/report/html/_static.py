"""The part of the page that works without scripts: verdict, counts, metrics and the cases that need attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from agent_eval_results import CaseReport, ProblemReport
from agent_eval_results.report.html._header import counts
from agent_eval_results.report.html._packing import shown
from agent_eval_results.report.html._source import CaseDetail, Facts
from agent_eval_results.report.phrases import STATUSES, headline
from agent_eval_results.report.views import case_name, first_difference, location, run_note
from agent_eval_scoring.core.text import plural

_MOST = 50
_LINE = 500


def static_part(facts: Facts, detail: CaseDetail) -> Markup:
    """The static part as HTML.

    Args:
        facts: The lookups.
        detail: Whether reasons may contain words of agents and users.
    """
    report = facts.report
    parts = [
        _element("h1", headline(facts.view, words=detail.words)),
        _element("p", run_note(report)),
        _list(f"{number:,} {_words(name)}" for name, number in counts(facts).items() if number),
        _list(_problem(problem) for problem in report.problems[:_MOST]),
        _metrics(facts),
        _cases(facts, detail),
        _element("p", "The list, the conversations and the search need JavaScript."),
    ]
    return Markup("\n").join(part for part in parts if part)


def _words(count: str) -> str:
    return STATUSES[count].words if count in STATUSES else count.replace("_", " ")


def _state(case: CaseReport) -> str:
    return f"{STATUSES[case.status].sign.replace('-', '–')} {STATUSES[case.status].words}"


def _element(name: str, text: str) -> Markup:
    return Markup("<{0}>{1}</{0}>").format(Markup(name), _shown(text))  # noqa: S704 - a constant of this module


def _shown(text: str) -> Markup:
    """Text from anywhere, isolated so that its direction does not reorder what is beside it."""
    return Markup('<bdi dir="auto">{}</bdi>').format(shown(text, _LINE))


def _list(items: Iterable[str]) -> Markup:
    entries = Markup("").join(_element("li", item) for item in items)
    return Markup("<ul>{}</ul>").format(entries) if entries else entries


def _problem(problem: ProblemReport) -> str:
    place = location(problem.file, problem.line)
    hint = f" {problem.hint}" if problem.hint else ""
    return f"{problem.severity}: {f'{place}: ' if place else ''}{problem.message} [{problem.code}]{hint}"


def _metrics(facts: Facts) -> Markup:
    rows = [
        (row.name, row.score, row.threshold, f"{row.passed:,}", f"{row.failed:,}", f"{row.not_evaluated:,}")
        for row in facts.view.metric_rows
    ]
    titles = ("metric", "score", "threshold", "passed", "failed", "not evaluated")
    return _table("Metrics", titles, rows)


def _cases(facts: Facts, detail: CaseDetail) -> Markup:
    def why(case: CaseReport) -> str:
        if not detail.words:
            return case.reason.code if case.reason is not None else ""
        return first_difference(case)

    cases = [case for case in facts.report.cases if not facts.view.passes_as_before(case)]
    cases.sort(key=lambda case: facts.view.outcomes[case.case_id].rank)
    rows = [(_state(case), case_name(case), location(case.file, case.line), why(case)) for case in cases[:_MOST]]
    table = _table("Cases that need attention", ("status", "case", "file", "why"), rows)
    more = len(cases) - len(rows)
    return table + _element("p", f"and {plural(more, 'more case')}") if more > 0 else table


def _table(title: str, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    if not rows:
        return Markup("")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in titles)
    body = Markup("\n").join(
        Markup("<tr>{}</tr>").format(Markup("").join(_element("td", cell) for cell in row)) for row in rows
    )
    table = "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table>"
    return Markup(table).format(title, head, body)  # noqa: S704 - a constant
