"""What the job summary and the comment have in common, made ready for the templates (`templates/parts.md.j2`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.report.markup import Detail, Told, case_view, escape, linked_name, log_text, place
from agent_eval.report.views import (
    Against,
    Cause,
    base_name,
    common_answers,
    deltas,
    digest,
    first_difference,
    rule_rows,
    rule_sentences,
    score_text,
    standing,
    told_before,
)
from agent_eval.results import BaselineReport, CaseReport, ComparisonReport, RunReport

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Links:
    """Where a text may lead. All of it comes from the caller, never from a report, which may be a stranger's."""

    server_url: str = ""
    """E.g. `https://github.com`; an address that a report gives is only linked when it is on this server."""
    repository: str = ""
    """`owner/name`."""
    source_url: str | None = None
    """Where the tested files can be browsed, e.g. `https://github.com/o/r/blob/SHA`."""
    run_url: str | None = None
    """The workflow run that this text is about."""
    artifacts: Sequence[str] = ()
    """Names of the artifacts that hold everything."""

    def own(self, url: str | None) -> str | None:
        """The address if it is one of the repository's, with nothing odd about it; else None."""
        if not url or not self.server_url or not _REPOSITORY.fullmatch(self.repository):
            return None
        try:
            ours, theirs = urlsplit(self.server_url), urlsplit(url)
        except ValueError:
            return None
        same = (theirs.scheme, theirs.netloc) == (ours.scheme, ours.netloc)
        plain = url.isascii() and url.isprintable() and not {" ", "\\"} & set(url)
        # Browsers take `..` out of a path, also where it is spelt %2e%2e.
        parts = theirs.path.casefold().replace("%2e", ".").split("/")
        inside = parts[1:3] == self.repository.casefold().split("/") and not {".", ".."} & set(parts)
        return url if same and plain and inside and theirs.scheme in {"https", "http"} else None

    def commit(self, sha: str | None) -> Markup:
        """A commit in short, as a link where it is known what to link to."""
        if not sha or not _COMMIT.fullmatch(sha):
            return Markup("")
        short = escape.code(sha[:7])
        if not self.server_url or not _REPOSITORY.fullmatch(self.repository):
            return short
        return escape.link(short, f"{self.server_url.rstrip('/')}/{self.repository}/commit/{sha}")


MOST_ROWS = 10
"""Cases in the table of what broke: what a reader takes in."""
_MOST_NAMES = 12


def numbers_view(report: RunReport, known: Against, detail: Detail) -> dict[str, Any]:
    """The tables of metrics, with the base branch's numbers beside when there are any."""
    most = max(detail.listed, 5)
    comparison = known.comparison
    means = digest.metric_rows(report)
    if not any(row.mean is not None for row in means):
        means = []  # Of a run in which nothing was measured the headline says all that a table could.
    compared = deltas.rows(report, comparison) if comparison is not None and means else []
    return {
        "cut": detail.cut,
        "branch": _column(known),
        "unevaluated": any(row.not_evaluated for row in compared),
        "deltas": [row for row in compared if row.gates][: most + 1],
        "informational_deltas": [row for row in compared if not row.gates][: min(detail.listed, 20)],
        "means": [row for row in means if row.gates][:most],
        "informational": [] if compared else [row for row in means if not row.gates][: min(detail.listed, 20)],
        "notes": [detail.tell(note) for note in comparison.notes[: detail.listed]] if comparison is not None else [],
        "base_runs": comparison.base_records if comparison is not None else 1,
        "spending": deltas.spending(report, comparison, known.branch),
    }


def _column(known: Against) -> str:
    return known.branch if known.branch != "the base branch" else "Base branch"


def table_view(
    report: RunReport,
    cases: Sequence[CaseReport],
    known: Against,
    detail: Detail,
    links: Links,
    *,
    most: int = MOST_ROWS,
) -> dict[str, Any]:
    """What broke: a row for each case with its runs on both sides and the first difference.

    Args:
        report: What to show.
        cases: Those to list, the weightiest first.
        known: What is known about the base branch.
        detail: How much to show.
        links: Where the text may lead.
        most: Rows.
    """
    shown = cases[: min(most, max(detail.listed, 0))]
    common = common_answers(cases)
    answered = {case.case_id for _, members in common for case in members}
    rows = []
    for case in shown:
        here, there = standing.sides(report, case, known)
        difference = first_difference(case, without_answer=case.case_id in answered)
        suspected = standing.is_suspected(case, known)
        word = known.words.get(case.case_id)
        if case.status == "passed" and word is not None:  # It is a score that got worse.
            difference = word.evidence
        rows.append(
            {
                "mark": "warning" if suspected or case.status == "passed" else case.status,
                "link": linked_name(case, detail, links.source_url),
                "here": here,
                "there": there,
                "difference": detail.cut(difference),
                "suspected": suspected,
            }
        )
    return {
        "rows": rows,
        "more": len(cases) - len(shown),
        "branch": _column(known) if known.comparison is not None else "",
        "answers": [
            (len(members), len(members) == len(cases), detail.cut(" ".join(answer.split())))
            for answer, members in common
        ]
        if detail.listed
        else [],
    }


def causes_view(causes: Sequence[Cause], detail: Detail, links: Links) -> list[dict[str, Any]]:
    """What went wrong, each cause once with its cases. The first three that have a log show it."""
    logged = [cause for cause in causes if cause.log][:3]
    return [_cause_view(cause, detail, links, logged=cause in logged) for cause in causes[: detail.listed]]


def _cause_view(cause: Cause, detail: Detail, links: Links, *, logged: bool) -> dict[str, Any]:
    size = len(cause.cases)
    names = [
        linked_name(case, detail, links.source_url) if size <= 3 else escape.code(detail.cut(digest.case_name(case)))
        for case in cause.cases[:_MOST_NAMES]
    ]
    return {
        "count": size,
        "message": detail.tell(cause.message),
        "kind": detail.cut(cause.kind),
        "place": place(cause.file, cause.line, links.source_url) if cause.file else "",
        "hint": detail.tell(cause.hint),
        "names": names,
        "more": size - len(names),
        "log": log_text(cause.log, detail) if logged else "",
    }


def moves_view(report: RunReport, known: Against, detail: Detail) -> list[dict[str, Any]]:
    """The sentence about the metrics that got worse; nothing where none did."""
    if known.comparison is None or not detail.listed:
        return []
    return [{**one.__dict__, "name": detail.cut(one.name)} for one in deltas.moves(report, known.comparison)]


def explained(
    cases: Sequence[CaseReport], known: Against, detail: Detail, links: Links, *, opened: int
) -> list[dict[str, Any]]:
    """Cases with their three lines of why, the first of them with what was expected and what happened."""
    return [
        case_view(case, detail, links.source_url, opened=number < opened, told=told(case, known))
        for number, case in enumerate(cases)
    ]


def rules_view(report: RunReport, detail: Detail, links: Links) -> dict[str, Any]:
    """What the pull request changes about the gate."""
    rows = rule_rows(report)
    most = max(detail.listed, 3)
    return {
        "base": base_name(report.rule_changes) if report.rule_changes is not None else "",
        "cut": detail.cut,
        "rows": [(row, place(row.file, None, links.source_url)) for row in rows[:most]],
        "more": max(len(rows) - most, 0),
        "sentences": [detail.tell(sentence) for sentence in rule_sentences(report)],
    }


_MOST_ERRORS = 3


def before_errors(
    causes: Sequence[Cause], known: Against, detail: Detail, links: Links, *, opened: int
) -> list[dict[str, Any]]:
    """What the agent did before an error, for one case of each cause. Its traceback is with the cause."""
    shown = told_before(causes)[: max(min(opened, _MOST_ERRORS), 0)]
    return explained(shown, known, dataclasses.replace(detail, log=0), links, opened=len(shown))


def told(case: CaseReport, known: Against) -> Told:
    """What is known of a case beside its own report."""
    word, evidence = standing.tag(case, known)
    return Told(tag=word, evidence=evidence, base=standing.base_scores(known.changes.get(case.case_id), known.branch))


def listed(cases: Sequence[CaseReport], known: Against, detail: Detail, links: Links) -> dict[str, Any]:
    """Cases for a table of one line each."""
    return {
        "cases": explained(cases[: detail.listed], known, detail, links, opened=0),
        "more": max(len(cases) - detail.listed, 0),
        "count": len(cases),
    }


def named(cases: Sequence[CaseReport], detail: Detail) -> dict[str, Any]:
    """Cases of which only the names are told."""
    return {
        "names": [detail.cut(digest.case_name(case)) for case in cases[: detail.listed]],
        "more": max(len(cases) - detail.listed, 0),
        "count": len(cases),
    }


def by_reason(groups: Sequence[tuple[str, list[CaseReport]]], detail: Detail) -> list[tuple[str, int, list[str]]]:
    """Reasons with the number of cases and the first of their names."""
    return [
        (detail.cut(reason), len(cases), [detail.cut(digest.case_name(case)) for case in cases[:5]])
        for reason, cases in groups[: detail.listed]
    ]


def base_view(report: RunReport, known: Against, detail: Detail, links: Links) -> dict[str, Any]:
    """What the base has to do with it: other cases, statistics, and where the results come from."""
    comparison = known.comparison
    changes = deltas.other_changes(comparison) if comparison is not None and detail.listed else []
    return {
        "changes": [
            (title, [detail.cut(name) for name in names[: detail.listed]], max(len(names) - detail.listed, 0))
            for title, names in changes
        ],
        "changes_title": _changes_title(comparison, known.branch) if comparison is not None else "",
        "branch": known.branch,
        "drops": _drops(comparison, detail) if comparison is not None and changes else [],
        "statistics": [detail.tell(line) for line in known.statistics[: detail.listed]],
        "case_statistics": _case_statistics(report.cases, known, detail),
        "base": _provenance(known.baseline, detail, links) if known.baseline is not None else None,
    }


def _changes_title(comparison: ComparisonReport, branch: str) -> str:
    counts = standing.count(comparison)
    renamed = sum(case.renamed_from is not None for case in comparison.cases)
    parts = {
        "new": counts["added"],
        "changed": counts["changed"],
        "removed": counts["removed"],
        "renamed": renamed,
        "not compared": sum(
            case.change == "unjudged" and case.head not in deltas.LISTED_APART for case in comparison.cases
        ),
    }
    return f"Other cases than on {branch}: " + ", ".join(
        f"{number:,} {what}" for what, number in parts.items() if number
    )


def _drops(comparison: ComparisonReport, detail: Detail) -> list[dict[str, str]]:
    return [
        {
            "name": detail.cut(drop.eval_id),
            "metric": detail.cut(drop.name),
            "now": score_text(drop.score.head),
            "base": score_text(drop.score.base),
        }
        for drop in comparison.drops[: min(detail.listed, 5)]
    ]


def _case_statistics(cases: Iterable[CaseReport], known: Against, detail: Detail) -> list[tuple[str, list[str]]]:
    found = [
        (
            detail.cut(digest.case_name(case)),
            [shorten(line, 2 * detail.name) for line in known.words[case.case_id].details[:5]],
        )
        for case in cases
        if case.case_id in known.words and known.words[case.case_id].details
    ]
    return found[: detail.listed]


_SOURCES: Mapping[str, str] = {
    "artifact": "Artifact",
    "file": "Committed file",
    "rerun": "The base branch's agent, run now",
}


def _provenance(baseline: BaselineReport, detail: Detail, links: Links) -> dict[str, Any]:
    steps = [(_SOURCES[step.source], detail.tell(step.message)) for step in baseline.steps[: min(detail.listed, 10)]]
    shown = steps if len(steps) > 1 else []
    if baseline.status != "found":
        sentence = _linked(detail.tell(deltas.no_base(baseline)), baseline, links)
        return {"found": False, "sentence": sentence, "steps": shown}
    beside: list[Markup] = []
    if url := links.own(baseline.run_url):
        beside.append(escape.link(Markup("its run"), url))
    if baseline.recorded_at is not None:
        beside.append(Markup("recorded ") + _day(baseline.recorded_at))
    # A bare address can't be clicked here, and the link can.
    message = baseline.message.replace(f" ({baseline.run_url})", "") if baseline.run_url else baseline.message
    sentence, commit = _linked(detail.tell(message), baseline, links), links.commit(baseline.commit)
    if commit and commit not in sentence:
        beside.insert(0, Markup("commit ") + commit)
    if beside:
        sentence = Markup(f"{sentence.removesuffix('.')} ({', '.join(beside)}).")  # noqa: S704 - made of what is escaped
    return {"found": True, "sentence": sentence, "steps": shown}


def _linked(sentence: str, baseline: BaselineReport, links: Links) -> Markup:
    """A sentence of ours in which the commits that it names are links, each once."""
    shown = escape.prose(sentence)
    for sha in (baseline.commit, baseline.wanted_commit):
        if commit := links.commit(sha):
            for named in (f"<code>{(sha or '')[:7]}</code>", f" {(sha or '')[:7]}"):
                before, found, after = shown.partition(named)
                if found and commit not in shown:
                    lead = " " * named.startswith(" ")
                    shown = Markup(f"{before}{lead}{commit}{after}")  # noqa: S704 - made of what is escaped
    return shown


def _day(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
