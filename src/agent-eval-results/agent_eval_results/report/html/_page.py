"""Writes report.html: one file without dependencies, as a stream, in at most the size that it may have.

The page's own script and style are joined from the files of this package. No build step, no dependency, and not
minified: a reader of the page's source sees what it does. Only what documents types is left out.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from agent_eval_results import CaseReport, ProblemReport
from agent_eval_results.report.html._case import PageCase, RemovedCase
from agent_eval_results.report.html._header import counts
from agent_eval_results.report.html._index import Index
from agent_eval_results.report.html._packing import dumped, packed, shown
from agent_eval_results.report.html._source import CaseDetail, Detail, Facts, PageSource, Plan, plans
from agent_eval_results.report.phrases import STATUSES, headline
from agent_eval_results.report.views import case_name, first_difference, location, run_note
from agent_eval_scoring.core.files import replacing
from agent_eval_scoring.core.process import collector_paused, naming
from agent_eval_scoring.core.text import plural

MEGABYTE = 1_000_000
_BLOCK_CASES, _BLOCK_BYTES = 50, 512 * 1024
_FEW = 1_000
"""Cases of a report that is small unless each of them is large."""
_SAMPLE = 80
"""At least so many cases are there to estimate the size from, and fewer than twice as many."""
_MOST_STATIC, _STATIC_LINE = 50, 500
_Head = Callable[[CaseDetail], bytes]
"""The beginning of the page by how much it shows of cases that need attention."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """The page that was written."""

    level: int
    """The step of `plans`: 0 for everything."""
    size: int
    """Bytes."""


def write_page(path: Path, source: PageSource, detail: Detail = "full", size: int = 15 * MEGABYTE) -> Written:
    """Writes the page, as rich as its size allows. The same report gives the same bytes.

    Args:
        path: The file.
        source: What the page is made of.
        detail: The setting `report`, except `off`.
        size: Bytes that the file may have (`view --size`).

    Raises:
        OSError: The disk is full, for example. After any error, a page that was there is as it was.
    """
    steps = plans(detail)
    facts = Facts(source)
    head = functools.cache(functools.partial(_head, facts))
    with naming(path), replacing(path) as file, collector_paused():
        for step in _tried(facts, head, steps, size):
            file.seek(0)
            file.truncate()
            written = 0
            for piece in _pieces(facts, head, step):
                written += len(piece)
                if written > size and step is not steps[-1]:
                    break
                file.write(piece)
            else:
                return Written(level=step.level, size=written)
    raise AssertionError("the last step has no limit")


def _tried(facts: Facts, head: _Head, steps: Sequence[Plan], limit: int) -> Iterator[Plan]:
    """The steps from the richest one that may fit. Most reports of few cases fit at once, which needs no estimate."""
    tried = int(len(facts.report.cases) < _FEW)
    yield from steps[:tried]
    yield from steps[max(first_step(facts, head, steps, limit), tried) :]


def first_step(facts: Facts, head: _Head, steps: Sequence[Plan], limit: int) -> int:
    """The place of the first step that probably fits, so that not every step has to be tried.

    It is estimated from pages of some cases, as if all were like them. What exceeds the limit nevertheless is tried at
    the next step.
    """
    cases = sorted(
        facts.report.cases, key=lambda case: not facts.view.passes_as_before(case)
    )  # So that both kinds have their share.
    if len(cases) < 2 * _SAMPLE:
        return 0

    def size(sample: Sequence[CaseReport], step: Plan) -> int:
        report = facts.report.model_copy(update={"cases": sample})
        return sum(map(len, _pieces(Facts(replace(facts.source, report=report, view=None)), head, step)))

    sample = cases[:: len(cases) // _SAMPLE]
    fixed = size([], steps[0])
    for place, step in enumerate(steps):
        if fixed + (size(sample, step) - fixed) * len(cases) / len(sample) <= limit:
            return place
    return len(steps) - 1


def _pieces(facts: Facts, head: _Head, step: Plan) -> Iterator[bytes]:
    """The page in pieces."""
    yield head(step.others)
    index = Index(facts)
    blocks = 0
    for block in _blocks(facts, step, index):
        yield _template(f"b{blocks}", packed(block))
        blocks += 1
    yield _template("index", packed(dumped(index.data(step, blocks))))
    yield f"<script>{script()}</script>\n</body>\n</html>\n".encode()


def _template(name: str, data: bytes) -> bytes:
    return b'<template id="%s">%s</template>\n' % (name.encode("ascii"), data)


def _blocks(facts: Facts, step: Plan, index: Index) -> Iterator[bytes]:
    """Blocks of cases in file order, each with at most 50 cases and, unless one case has more, 512 KB of JSON."""
    cases: list[bytes] = []
    size = number = 0
    for text, add in _cases(facts, step, index):
        if cases and (len(cases) >= _BLOCK_CASES or size + len(text) > _BLOCK_BYTES):
            yield _block(cases)
            cases, size, number = [], 0, number + 1
        add(number)
        cases.append(text)
        size += len(text)
    if cases:
        yield _block(cases)


def _block(cases: Sequence[bytes]) -> bytes:
    return b'{"cases":[' + b",".join(cases) + b"]}"


def _cases(facts: Facts, step: Plan, index: Index) -> Iterator[tuple[bytes, Callable[[int], None]]]:
    """Each case as JSON, and what adds its row to the index once its block is known."""
    for case in facts.report.cases:
        detail = step.detail(quiet=facts.view.passes_as_before(case))
        page_case = PageCase(facts, case, detail)
        yield dumped(page_case.block()), functools.partial(index.add, page_case)
    for change in facts.report.comparison.cases if facts.report.comparison is not None else ():
        if change.is_gone:
            removed = RemovedCase(facts, change)
            block = removed.block(step.others)
            if block is None:
                index.add_removed(change, -1)
            else:
                yield dumped(block), functools.partial(index.add_removed, change)


def _head(facts: Facts, detail: CaseDetail) -> bytes:
    title = html.escape(f"agent-eval: {shown(headline(facts.view, words=detail.words), 300)}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy())}">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        f'<main id="app">\n{_static_part(facts, detail)}\n</main>\n'
    ).encode()


SCRIPTS = (
    *("dom.js", "data.js", "search.js", "diff.js", "timeline.js", "graph.js", "trend.js"),
    *("values.js", "turns.js", "scores.js", "case.js"),
    *("overview.js", "table.js", "list.js", "keys.js", "print.js", "main.js"),
)
"""In the order in which they are joined: each uses what those before it declare."""
STYLES = ("app.css", "case.css", "print.css")
BUDGET = 190_000
"""Bytes of script and style together."""
_COMMENT = r"/\*\*(?:(?!\*/).)*\*/"
_JSDOC = re.compile(rf"^ *{_COMMENT}\n|{_COMMENT} ?", re.MULTILINE | re.DOTALL)


@functools.cache
def script() -> str:
    """The script: one function in strict mode, so that nothing becomes global."""
    return f'(() => {{\n"use strict";\n{_JSDOC.sub("", _joined(SCRIPTS))}}})();\n'


@functools.cache
def style() -> str:
    """The style sheet."""
    return _joined(STYLES)


def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("agent_eval_results.report.html")
    return "\n".join(folder.joinpath(name).read_text("utf-8") for name in names)


def policy() -> str:
    """The Content-Security-Policy: our script and our style by hash, inline pictures, and nothing else.

    Where a browser knows Trusted Types, text can't become markup either.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script())}'",
            f"style-src '{_hash(style())}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _static_part(facts: Facts, detail: CaseDetail) -> Markup:
    """The part of the page that works without scripts: verdict, counts, metrics and the cases that need attention.

    Args:
        facts: The lookups.
        detail: Whether reasons may contain words of agents and users.
    """
    report = facts.report
    parts = [
        _element("h1", headline(facts.view, words=detail.words)),
        _element("p", run_note(report)),
        _list(f"{number:,} {_count_words(name)}" for name, number in counts(facts).items() if number),
        _list(_problem(problem) for problem in report.problems[:_MOST_STATIC]),
        _metrics(facts),
        _attention(facts, detail),
        _element("p", "The list, the conversations and the search need JavaScript."),
    ]
    return Markup("\n").join(part for part in parts if part)


def _count_words(count: str) -> str:
    return STATUSES[count].words if count in STATUSES else count.replace("_", " ")


def _state(case: CaseReport) -> str:
    return f"{STATUSES[case.status].sign.replace('-', '–')} {STATUSES[case.status].words}"


def _element(name: str, text: str) -> Markup:
    return Markup("<{0}>{1}</{0}>").format(Markup(name), _shown(text))  # noqa: S704 - a constant of this module


def _shown(text: str) -> Markup:
    """Text from anywhere, isolated so that its direction does not reorder what is beside it."""
    return Markup('<bdi dir="auto">{}</bdi>').format(shown(text, _STATIC_LINE))


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


def _attention(facts: Facts, detail: CaseDetail) -> Markup:
    def why(case: CaseReport) -> str:
        if not detail.words:
            return case.reason.code if case.reason is not None else ""
        return first_difference(case)

    cases = [case for case in facts.report.cases if not facts.view.passes_as_before(case)]
    cases.sort(key=lambda case: facts.view.outcomes[case.case_id].rank)
    rows = [(_state(case), case_name(case), location(case.file, case.line), why(case)) for case in cases[:_MOST_STATIC]]
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
