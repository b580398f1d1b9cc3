"""Compares labels with the judge's verdicts and decides. The model is what `calibrate --format json` prints. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from agent_eval import __version__
from agent_eval_results import ModelUsageReport
from agent_eval_results.report.views import folded, percent_text, usage_line
from agent_eval_scoring.core.text import harmless, plural, shorten
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.criteria.judged import Options
from agent_eval_workbench.calibration.judging import (
    Interval,
    Opinion,
    Table,
    agreement,
    imputed,
    kappa_interval,
    kappa_of,
    pairs_by_response,
    share_interval,
    tabulate,
)
from agent_eval_workbench.calibration.labels import Kind, LabelSet
from agent_eval_workbench.calibration.target import TargetCriterion

Verdict = Literal["passed", "failed", "inconclusive", "reported"]
"""`reported`: without `--min-kappa` nothing is decided."""

_FEW = 10
"""With fewer labels of the rarer kind the interval of kappa covers less than it says (docs/calibration.md)."""


class ShareReport(WireModel):
    """A share of labels, with its interval."""

    count: int
    total: int
    share: float | None = None
    """None if `total` is 0."""
    interval: Interval | None = None


class RubricReport(WireModel):
    """The agreement on one rubric."""

    rubric: str
    labels: int
    judged: int
    kappa: float | None = None
    interval: Interval | None = None
    agreement: ShareReport
    passed_by_people: int
    passed_by_judge: int


class UnjudgedReport(WireModel):
    """A reason why labels have no verdict."""

    code: str
    message: str
    """Of the first label with this code."""
    count: int


class CalibrationReport(WireModel):
    """How well a judge agrees with human labels."""

    schema_version: Literal["1"] = "1"
    tool_version: str = __version__
    verdict: Verdict
    reason: str
    """The reason for the verdict, one sentence."""
    labels_file: str
    criterion: str
    config: str | None = None
    threshold: float | None = None
    model: str
    samples: int
    """Maximum number of votes per question."""
    kind: Kind
    responses: int
    labels: int
    judged: int
    min_kappa: float | None = None
    kappa: float | None = None
    interval: Interval | None = None
    kappa_if_unjudged_agree: float | None = None
    kappa_if_unjudged_disagree: float | None = None
    """Kappa with every missing verdict equal to its label, or as far from it as possible."""
    agreement: ShareReport
    """The share of labels that equal the verdict."""
    weighted_agreement: float | None = None
    """The same with near misses counted in part, from which kappa is computed."""
    expected_agreement: float | None = None
    """The weighted agreement expected by chance."""
    wrongly_passed: ShareReport | None = None
    """Labelled fail, but passed by the judge: such answers would pass the gate."""
    wrongly_failed: ShareReport | None = None
    """Labelled pass, but failed by the judge."""
    mean_difference: float | None = None
    """Mean of verdict minus label; above 0 the judge is lenient."""
    table: Table
    rubrics: list[RubricReport] = Field(default_factory=list)
    close: int = 0
    """Number of verdicts that a single vote could have changed."""
    unjudged: list[UnjudgedReport] = Field(default_factory=list)
    disagreements: list[Opinion] = Field(default_factory=list)
    """By distance, then by the judge's confidence, descending."""
    opinions: list[Opinion] = Field(default_factory=list)
    """All labels, in the order of the file."""
    notices: list[str] = Field(default_factory=list)
    usage: list[ModelUsageReport] = Field(default_factory=list)


def make_report(
    labels: LabelSet,
    target: TargetCriterion,
    options: Options,
    opinions: Sequence[Opinion],
    *,
    min_kappa: float | None = None,
    usage: Sequence[ModelUsageReport] = (),
) -> CalibrationReport:
    """Makes the report.

    Args:
        labels: The human labels.
        target: The criterion.
        options: The judge.
        opinions: One per label.
        min_kappa: The minimum of kappa; None: nothing is decided.
        usage: Calls, tokens and cost.
    """
    binary = labels.kind == "verdict"
    judged = [opinion for opinion in opinions if opinion.verdict is not None]
    groups = pairs_by_response(opinions)
    pairs = [pair for group in groups for pair in group]
    table = tabulate(pairs)
    terms = agreement(table)
    span = (0.0, 1.0) if binary else target.span
    # Labels without a verdict may be the hard ones: to leave them out could flatter the judge.
    best, worst = (kappa_of(imputed(opinions, span, agree=agree)) for agree in (True, False))
    missing = len(opinions) - len(judged)
    verdict, reason = decide(terms.kappa, best, worst, min_kappa, judged=len(judged), missing=missing)
    disagreements = [opinion for opinion in judged if opinion.distance]
    # A judge that is sure and wrong has a rubric to blame; one that wavers may be right next time.
    disagreements.sort(key=lambda each: (-(each.distance or 0.0), -(each.confidence or 0.0), each.line))
    report = CalibrationReport(
        verdict=verdict,
        reason=reason,
        labels_file=labels.file,
        criterion=target.metric,
        config=target.source,
        threshold=target.threshold,
        model=options.model,
        samples=options.samples,
        kind=labels.kind,
        responses=len(labels.responses),
        labels=len(opinions),
        judged=len(judged),
        min_kappa=min_kappa,
        kappa=terms.kappa,
        interval=kappa_interval(groups),
        kappa_if_unjudged_agree=best,
        kappa_if_unjudged_disagree=worst,
        agreement=_share([opinion.distance == 0 for opinion in judged]),
        weighted_agreement=terms.observed,
        expected_agreement=terms.expected,
        wrongly_passed=_share([each.verdict == 1 for each in judged if each.label == 0]) if binary else None,
        wrongly_failed=_share([each.verdict == 0 for each in judged if each.label == 1]) if binary else None,
        mean_difference=sum(verdict - label for label, verdict in pairs) / len(pairs) if pairs else None,
        table=table,
        rubrics=_by_rubric(opinions) if labels.by_rubric else [],
        close=sum(opinion.close for opinion in judged),
        unjudged=_unjudged(opinions),
        disagreements=disagreements,
        opinions=sorted(opinions, key=lambda opinion: opinion.line),
        usage=list(usage),
    )
    report.notices = list(_notices(report, pairs))
    return report


def decide(
    kappa: float | None, best: float | None, worst: float | None, minimum: float | None, *, judged: int, missing: int
) -> tuple[Verdict, str]:
    """Compares kappa with the minimum.

    With missing verdicts the decision is made only if it would be the same for `best` and `worst`.

    Args:
        kappa: None if it is undefined.
        best: Kappa if all missing verdicts agreed.
        worst: Kappa if they disagreed as much as possible.
        minimum: None: nothing is decided.
        judged: Number of labels with a verdict.
        missing: Number of labels without one.
    """
    if not judged:
        return "inconclusive", "The judge gave no verdict on any label."
    if minimum is None:
        return "reported", "Without `--min-kappa` nothing is decided."
    values = [value for value in (kappa, best, worst) if value is not None]
    if missing and (len(values) < 3 or (min(values) >= minimum) is not (max(values) >= minimum)):
        possible = f"from {min(values):.2f} to {max(values):.2f}" if len(values) == 3 else "anything"
        return "inconclusive", f"{plural(missing, 'label')} could not be judged; with them kappa could be {possible}."
    if kappa is None:
        return "inconclusive", "Kappa is undefined: all labels and verdicts are the same."
    if kappa >= minimum:
        return "passed", f"Kappa {kappa:.3f} reaches {minimum:g}."
    return "failed", f"Kappa {kappa:.3f} is below {minimum:g}."


def _share(hits: Sequence[bool]) -> ShareReport:
    count, total = sum(hits), len(hits)
    share = count / total if total else None
    return ShareReport(count=count, total=total, share=share, interval=share_interval(count, total))


def _by_rubric(opinions: Sequence[Opinion]) -> list[RubricReport]:
    reports = []
    for rubric in dict.fromkeys(opinion.rubric or "" for opinion in opinions):
        labelled = [opinion for opinion in opinions if opinion.rubric == rubric]
        groups = pairs_by_response(labelled)
        pairs = [pair for group in groups for pair in group]
        reports.append(
            RubricReport(
                rubric=rubric,
                labels=len(labelled),
                judged=len(pairs),
                kappa=kappa_of(pairs),
                interval=kappa_interval(groups),
                agreement=_share([label == verdict for label, verdict in pairs]),
                passed_by_people=sum(label == 1 for label, _ in pairs),
                passed_by_judge=sum(verdict == 1 for _, verdict in pairs),
            )
        )
    return reports


def _unjudged(opinions: Sequence[Opinion]) -> list[UnjudgedReport]:
    missing = [(opinion.reason or "", opinion.message or "") for opinion in opinions if opinion.verdict is None]
    # Reversed, so that of each code the first message is what is left.
    first = dict(reversed(missing))
    counts = Counter(code for code, _ in missing).most_common()
    return [UnjudgedReport(code=code, message=first[code], count=count) for code, count in counts]


def _notices(report: CalibrationReport, pairs: Sequence[tuple[float, float]]) -> Iterator[str]:
    if report.kind == "verdict" and pairs:
        passes = sum(label == 1 for label, _ in pairs)
        rarer, word = min((passes, "pass"), (len(pairs) - passes, "fail"))
        if rarer < _FEW:
            yield (
                f"Only {rarer} of {plural(len(pairs), 'label')} are {word}: kappa depends on those few, and its "
                f"interval is less reliable. Label more responses that {word}."
            )
    # Said, because a high agreement beside a kappa of 0 looks like a mistake in the numbers.
    if len({verdict for _, verdict in pairs}) == 1 and report.kappa is not None:
        yield "The judge gave the same verdict on everything; then kappa is 0 whatever the labels are."
    interval = report.interval
    if report.min_kappa is not None and interval is not None and interval.low < report.min_kappa <= interval.high:
        yield f"{report.min_kappa:g} is inside the interval of kappa: label more responses for a clear decision."
    if report.close:
        yield f"{plural(report.close, 'verdict')} depended on a single vote and could differ next time."


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
    # The reason last: that is what a CI log shows without scrolling.
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
    weighted = "" if report.kind == "verdict" else ", near misses count in part"
    yield f"kappa          {_kappa(report.kappa, report.interval)}{weighted}"
    yield f"agreement      {_share_text(report.agreement)}{_by_chance(report)}"
    if report.wrongly_passed is not None and report.wrongly_failed is not None:
        yield f"wrongly passed {_share_text(report.wrongly_passed)} labelled fail"
        yield f"wrongly failed {_share_text(report.wrongly_failed)} labelled pass"
    elif report.mean_difference is not None:
        side = "above" if report.mean_difference > 0 else "below"
        yield f"difference     verdicts are on average {abs(report.mean_difference):.2f} {side} the labels"
    if report.interval is not None:
        yield f"               interval of kappa: {report.interval.method}"


def _by_chance(report: CalibrationReport) -> str:
    if report.expected_agreement is None:
        return ""
    chance = percent_text(report.expected_agreement)
    if report.kind == "verdict":
        return f"; {chance} expected by chance"
    return f"; weighted {percent_text(report.weighted_agreement)}, {chance} expected by chance"


def _kappa(kappa: float | None, interval: Interval | None) -> str:
    if kappa is None:
        return "undefined"
    if interval is None:
        return f"{kappa:.2f} (no interval)"
    return f"{kappa:.2f} ({round(100 * interval.level)}% interval {interval.low:.2f} to {interval.high:.2f})"


def _share_text(share: ShareReport) -> str:
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
