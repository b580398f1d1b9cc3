"""A calibration as people read it; safe to print into a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.calibration.report import (
    CalibrationReport,
    IntervalReport,
    OpinionReport,
    RubricReport,
    ShareReport,
    TableReport,
)
from agent_eval.core.text import harmless, plural, shorten
from agent_eval.report.views import bill_line, folded, percent_text

_WIDEST_TABLE = 7
"""Categories that a table shows; a criterion with a score of its own for almost every response needs none."""
_TEXT = 300
"""Characters of each text of a disagreement."""


def render_text(report: CalibrationReport, *, show: int = 10) -> str:
    """The calibration, the verdict last.

    Args:
        report: What to tell.
        show: How many disagreements.
    """
    lines = [*_head(report), "", *_numbers(report), "", *_table(report.table, report.kind)]
    if report.rubrics:
        lines += ["", "By rubric:", *(line for rubric in report.rubrics for line in _rubric(rubric))]
    if report.disagreements:
        count = len(report.disagreements)
        lines += ["", f"Disagreements, the worst first ({count:,}):" if count <= show else _some(show, count)]
        lines += [line for one in report.disagreements[:show] for line in _disagreement(one, report)]
    if report.unjudged:
        lines += ["", "Not judged:"]
        lines += [f"  {plural(one.count, 'label')}: [{one.code}] {_cut(one.message)}" for one in report.unjudged]
    lines += ["", *report.notices, *(bill_line(bill) for bill in report.usage), report.reason]
    return harmless("\n".join(lines)) + "\n"


def _some(show: int, count: int) -> str:
    return f"The worst {show:,} of {count:,} disagreements:"


def _head(report: CalibrationReport) -> Iterator[str]:
    votes = f", up to {plural(report.samples, 'vote')}" if report.samples > 1 else ""
    where = f" of {folded(report.config)}" if report.config else ""
    yield f"{report.criterion}{where}, judged by {folded(report.model)}{votes}"
    judged = "" if report.judged == report.labels else f", {report.judged:,} of them judged"
    on = plural(report.responses, "response")
    yield f"{folded(report.labels_file)}: {plural(report.labels, 'label')} on {on}{judged}"


def _numbers(report: CalibrationReport) -> Iterator[str]:
    weighted = f", {report.weights} weights" if report.weights != "none" else ""
    yield f"kappa          {_kappa(report.kappa, report.interval)}{weighted}"
    yield f"agreement      {_share(report.agreement)}{_by_chance(report)}"
    if report.wrongly_passed is not None and report.wrongly_failed is not None:
        yield f"wrongly passed {_share(report.wrongly_passed)} of what people fail"
        yield f"wrongly failed {_share(report.wrongly_failed)} of what people pass"
    elif report.mean_difference is not None:
        side = "above" if report.mean_difference > 0 else "below"
        yield f"difference     the judge is {abs(report.mean_difference):.2f} {side} people on average"
    if report.interval is not None:
        yield f"               interval of kappa: {report.interval.method}"


def _by_chance(report: CalibrationReport) -> str:
    if report.expected_agreement is None:
        return ""
    chance = percent_text(report.expected_agreement)
    if report.weights == "none":
        return f"; chance alone would give {chance}"
    return f"; near misses counted in part {percent_text(report.weighted_agreement)}, chance alone {chance}"


def _kappa(kappa: float | None, interval: IntervalReport | None) -> str:
    if kappa is None:
        return "has no value"
    if interval is None:
        return f"{kappa:.2f} (no interval)"
    return f"{kappa:.2f} ({round(100 * interval.level)}% interval {interval.low:.2f} to {interval.high:.2f})"


def _share(share: ShareReport) -> str:
    told = f"{share.count:,} of {share.total:,}"
    if share.interval is None:
        return told
    between = f"{percent_text(share.interval.low)} to {percent_text(share.interval.high)}"
    return f"{told} ({percent_text(share.share)}, {between})"


def _table(table: TableReport, kind: str) -> Iterator[str]:
    if not table.categories or len(table.categories) > _WIDEST_TABLE:
        return
    names = [_name(category, kind) for category in table.categories]
    cells = [f"{count:,}" for row in table.counts for count in row]
    width = max(len(text) for text in [*names, *cells]) + 2
    first = max(len("people"), *(len(name) + 2 for name in names))
    yield " " * first + "  judge"
    yield f"{'people':<{first}}" + "".join(f"{name:>{width}}" for name in names)
    for name, row in zip(names, table.counts, strict=True):
        yield f"{'  ' + name:<{first}}" + "".join(f"{count:>{width},}" for count in row)


def _name(value: float | None, kind: str) -> str:
    if kind == "verdict":
        return "pass" if value == 1 else "fail"
    return "nothing" if value is None else f"{value:.4g}"


def _rubric(rubric: RubricReport) -> Iterator[str]:
    yield f"  {_cut(rubric.rubric, 100)}"
    yield (
        f"      kappa {_kappa(rubric.kappa, rubric.interval)}, agreement {rubric.agreement.count:,} of "
        f"{rubric.agreement.total:,}, passed by people {rubric.passed_by_people:,} and by the judge "
        f"{rubric.passed_by_judge:,}"
    )


def _disagreement(one: OpinionReport, report: CalibrationReport) -> Iterator[str]:
    about = f" {_cut(one.id, 60)}" if one.id else ""
    rubric = f", {_cut(one.rubric, 100)}" if one.rubric else ""
    votes = f" ({'; '.join(one.votes[:5])})" if one.votes and len(one.votes) <= 5 else ""
    said = (_name(one.label, report.kind), _name(one.verdict, report.kind))
    yield f"  {folded(report.labels_file)}:{one.line}{about}{rubric}: people {said[0]}, judge {said[1]}{votes}"
    told: Sequence[tuple[str, str]] = [
        ("prompt", one.prompt),
        ("answer", one.response),
        ("people", one.note),
        ("judge", " / ".join(text for text in one.rationale[:3] if text)),
    ]
    for who, text in told:
        if text:
            yield f"      {who + ':':<8}{_cut(text)}"


def _cut(text: str, limit: int = _TEXT) -> str:
    return shorten(folded(" ".join(text.split())), limit)
