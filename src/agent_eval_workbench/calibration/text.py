"""Renders a calibration report as text that is safe to print to a log."""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.core.text import harmless, plural, shorten
from agent_eval.report.views import folded, percent_text, usage_line
from agent_eval_workbench.calibration.judging import Interval, Opinion, Table
from agent_eval_workbench.calibration.report import CalibrationReport, RubricReport, ShareReport

_WIDEST_TABLE = 7
"""Maximum number of categories in a table. With a different score for almost every response it would be useless."""
_TEXT = 300
"""Maximum length of each text of a disagreement, in characters."""


def render_text(report: CalibrationReport, *, show: int = 10) -> str:
    """Renders the report; the verdict is the last line.

    Args:
        report: The report.
        show: Maximum number of disagreements.
    """
    lines = [*_head(report), "", *_numbers(report), "", *_table(report.table, report.kind)]
    if report.rubrics:
        lines += ["", "By rubric:", *(line for rubric in report.rubrics for line in _rubric(rubric))]
    if report.disagreements:
        count = len(report.disagreements)
        shown = f"The worst {show:,} of {count:,} disagreements:"
        lines += ["", f"Disagreements, worst first ({count:,}):" if count <= show else shown]
        lines += [line for opinion in report.disagreements[:show] for line in _disagreement(opinion, report)]
    if report.unjudged:
        lines += ["", "Not judged:"]
        lines += [f"  {plural(each.count, 'label')}: [{each.code}] {_cut(each.message)}" for each in report.unjudged]
    lines += ["", *report.notices, *(usage_line(bill) for bill in report.usage), report.reason]
    return harmless("\n".join(lines)) + "\n"


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
        yield f"wrongly passed {_share(report.wrongly_passed)} labelled fail"
        yield f"wrongly failed {_share(report.wrongly_failed)} labelled pass"
    elif report.mean_difference is not None:
        side = "above" if report.mean_difference > 0 else "below"
        yield f"difference     verdicts are on average {abs(report.mean_difference):.2f} {side} the labels"
    if report.interval is not None:
        yield f"               interval of kappa: {report.interval.method}"


def _by_chance(report: CalibrationReport) -> str:
    if report.expected_agreement is None:
        return ""
    chance = percent_text(report.expected_agreement)
    if report.weights == "none":
        return f"; {chance} expected by chance"
    return f"; weighted {percent_text(report.weighted_agreement)}, {chance} expected by chance"


def _kappa(kappa: float | None, interval: Interval | None) -> str:
    if kappa is None:
        return "undefined"
    if interval is None:
        return f"{kappa:.2f} (no interval)"
    return f"{kappa:.2f} ({round(100 * interval.level)}% interval {interval.low:.2f} to {interval.high:.2f})"


def _share(share: ShareReport) -> str:
    counts = f"{share.count:,} of {share.total:,}"
    if share.interval is None:
        return counts
    between = f"{percent_text(share.interval.low)} to {percent_text(share.interval.high)}"
    return f"{counts} ({percent_text(share.share)}, {between})"


def _table(table: Table, kind: str) -> Iterator[str]:
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
    return "none" if value is None else f"{value:.4g}"


def _rubric(rubric: RubricReport) -> Iterator[str]:
    yield f"  {_cut(rubric.rubric, 100)}"
    yield (
        f"      kappa {_kappa(rubric.kappa, rubric.interval)}, agreement {rubric.agreement.count:,} of "
        f"{rubric.agreement.total:,}, passed by people {rubric.passed_by_people:,} and by the judge "
        f"{rubric.passed_by_judge:,}"
    )


def _disagreement(opinion: Opinion, report: CalibrationReport) -> Iterator[str]:
    about = f" {_cut(opinion.id, 60)}" if opinion.id else ""
    rubric = f", {_cut(opinion.rubric, 100)}" if opinion.rubric else ""
    votes = f" ({'; '.join(opinion.votes[:5])})" if opinion.votes and len(opinion.votes) <= 5 else ""
    label, verdict = _name(opinion.label, report.kind), _name(opinion.verdict, report.kind)
    yield f"  {folded(report.labels_file)}:{opinion.line}{about}{rubric}: people {label}, judge {verdict}{votes}"
    texts = {
        "prompt": opinion.prompt,
        "answer": opinion.response,
        "people": opinion.note,
        "judge": " / ".join(text for text in opinion.rationale[:3] if text),
    }
    for source, text in texts.items():
        if text:
            yield f"      {source + ':':<8}{_cut(text)}"


def _cut(text: str, limit: int = _TEXT) -> str:
    return shorten(folded(" ".join(text.split())), limit)
