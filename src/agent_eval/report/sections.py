"""What the job summary and the comment tell alike, made ready for the templates (`templates/parts.md.j2`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.report import deltas, digest, escape, standing
from agent_eval.report.markdown import Detail, Told, case_view
from agent_eval.report.numbers import score_text
from agent_eval.report.standing import Against
from agent_eval.results.comparison import BaselineReport, ComparisonReport
from agent_eval.results.report import CaseReport, RunReport

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


def numbers_view(report: RunReport, known: Against, detail: Detail) -> dict[str, Any]:
    """The tables of metrics, with the base beside when there is one."""
    most = max(detail.listed, 5)
    comparison = known.comparison
    compared = deltas.rows(report, comparison) if comparison is not None and report.cases else []
    means = digest.metric_rows(report)
    return {
        "cut": detail.cut,
        "unevaluated": any(row.not_evaluated for row in compared),
        "deltas": [row for row in compared if row.gates][: most + 1],
        "informational_deltas": [row for row in compared if not row.gates][: min(detail.listed, 20)],
        "means": [row for row in means if row.gates][:most],
        "informational": [] if compared else [row for row in means if not row.gates][: min(detail.listed, 20)],
        "notes": [detail.tell(note) for note in comparison.notes[: detail.listed]] if comparison is not None else [],
    }


def explained(
    cases: Sequence[CaseReport], known: Against, detail: Detail, links: Links, *, opened: int
) -> list[dict[str, Any]]:
    """Cases with their three lines of why, the first of them with what was expected and what happened."""
    return [
        case_view(case, detail, links.source_url, opened=number < opened, told=told(case, known))
        for number, case in enumerate(cases)
    ]


_HEADINGS = {standing.TAGS["newly_failing"], standing.TAGS["still_failing"]}
"""What the heading above a case says already."""


def told(case: CaseReport, known: Against) -> Told:
    """What is known of a case beside its own report."""
    word, evidence = standing.tag(case, known)
    if not known.decided and word in _HEADINGS:
        word = ""
    return Told(tag=word, evidence=evidence, base=standing.base_scores(known.changes.get(case.case_id)))


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
        "names": [detail.cut(case.eval_id) for case in cases[: detail.listed]],
        "more": max(len(cases) - detail.listed, 0),
        "count": len(cases),
    }


def by_reason(groups: Sequence[tuple[str, list[CaseReport]]], detail: Detail) -> list[tuple[str, int, list[str]]]:
    """Reasons with the number of cases and the first of their names."""
    return [
        (detail.cut(reason), len(cases), [detail.cut(case.eval_id) for case in cases[:5]])
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
        "changes_title": _changes_title(comparison) if comparison is not None else "",
        "drops": _drops(comparison, detail) if comparison is not None and changes else [],
        "statistics": [shorten(line, 2 * detail.name) for line in known.statistics[: detail.listed]],
        "case_statistics": _case_statistics(report.cases, known, detail),
        "base": _provenance(known.baseline, detail, links) if known.baseline is not None else None,
    }


def _changes_title(comparison: ComparisonReport) -> str:
    counts = standing.count(comparison)
    renamed = sum(case.renamed_from is not None for case in comparison.cases)
    parts = {
        "new": counts["added"],
        "changed": counts["changed"],
        "gone": counts["removed"],
        "renamed": renamed,
        "not compared": counts["unjudged"],
    }
    return "Other cases than on the base: " + ", ".join(
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
        (detail.cut(case.eval_id), [shorten(line, 2 * detail.name) for line in known.words[case.case_id].details[:5]])
        for case in cases
        if case.case_id in known.words and known.words[case.case_id].details
    ]
    return found[: detail.listed]


_SOURCES: Mapping[str, str] = {"artifact": "Artifact", "file": "Committed file", "rerun": "The base's agent, run now"}


def _provenance(baseline: BaselineReport, detail: Detail, links: Links) -> dict[str, Any]:
    steps = [(_SOURCES[step.source], detail.tell(step.message)) for step in baseline.steps[: min(detail.listed, 10)]]
    if baseline.status != "found":
        sentence = detail.tell(deltas.no_base(baseline))
        return {"sentence": sentence, "steps": steps if len(steps) > 1 else []}
    beside: list[Markup] = []
    if url := links.own(baseline.run_url):
        beside.append(escape.link(Markup("its run"), url))
    if baseline.recorded_at is not None:
        beside.append(Markup("recorded ") + _day(baseline.recorded_at))
    # A bare address can't be clicked here, and the link can.
    message = baseline.message.replace(f" ({baseline.run_url})", "") if baseline.run_url else baseline.message
    sentence, commit = escape.text(detail.tell(message)), links.commit(baseline.commit)
    for lead in (" at ", " for ") if commit else ():
        before, named, after = sentence.partition(lead + escape.text((baseline.commit or "")[:7]))
        if named:  # The commit is told already: as a link, and once.
            told = f" ({', '.join(beside)})" if beside else ""
            sentence = Markup(f"{before}{lead}{commit}{told}{after}")  # noqa: S704 - made of what is escaped
            break
    else:
        if found := [*([Markup("commit ") + commit] if commit else []), *beside]:
            sentence = Markup(f"{sentence.removesuffix('.')} ({', '.join(found)}).")  # noqa: S704 - as above
    return {"sentence": sentence, "steps": steps if len(steps) > 1 else []}


def _day(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
