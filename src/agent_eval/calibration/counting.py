"""Counts what the judge said beside what people said, and decides whether that will do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_eval.calibration.agreement import (
    Interval,
    Weights,
    agreement,
    kappa_interval,
    kappa_of,
    share_interval,
    tabulate,
)
from agent_eval.calibration.choosing import Chosen
from agent_eval.calibration.judging import Opinion, pairs_by_response, supposing
from agent_eval.calibration.labels import LabelSet
from agent_eval.calibration.report import (
    CalibrationReport,
    IntervalReport,
    OpinionReport,
    OtherThreshold,
    RubricReport,
    ShareReport,
    TableReport,
    UnjudgedReport,
)
from agent_eval.core.text import plural
from agent_eval.criteria import Judgement
from agent_eval.criteria.judged import Options, tally
from agent_eval.results import ModelUsageReport

Verdict = Literal["passed", "failed", "inconclusive", "reported"]

_FEW = 10
"""Labels of the rarer kind below which kappa hangs on single ones: its interval then covers less than it says."""


def make_report(
    labels: LabelSet,
    chosen: Chosen,
    options: Options,
    opinions: Sequence[Opinion],
    *,
    weights: Weights | None = None,
    min_kappa: float | None = None,
    usage: Sequence[ModelUsageReport] = (),
) -> CalibrationReport:
    """Counts what the judge said.

    Args:
        labels: What people said.
        chosen: The criterion.
        options: Who judged it.
        opinions: One for each label.
        weights: What a near miss counts; None: nothing among pass and fail, by its square among scores.
        min_kappa: What kappa must reach; None: nothing is decided.
        usage: What it cost.
    """
    weights = weights or ("none" if labels.kind == "verdict" else "quadratic")
    judged = [one for one in opinions if one.value is not None]
    groups = pairs_by_response(opinions)
    pairs = [pair for group in groups for pair in group]
    table = tabulate(pairs)
    found = agreement(table, weights)
    span = (0.0, 1.0) if labels.kind == "verdict" else chosen.span
    best, worst = (kappa_of(supposing(opinions, span, agree=agree), weights) for agree in (True, False))
    verdict, reason = decide(
        found.kappa, best, worst, min_kappa, judged=len(judged), missing=len(opinions) - len(judged)
    )
    apart = [one for one in judged if one.distance]
    report = CalibrationReport(
        verdict=verdict,
        reason=reason,
        labels_file=labels.file,
        criterion=chosen.metric,
        config=chosen.source,
        threshold=chosen.threshold,
        model=options.model,
        samples=options.samples,
        kind=labels.kind,
        weights=weights,
        responses=len(labels.responses),
        labels=len(opinions),
        judged=len(judged),
        min_kappa=min_kappa,
        kappa=found.kappa,
        interval=_interval(kappa_interval(groups, weights)),
        kappa_if_unjudged_agree=best,
        kappa_if_unjudged_disagree=worst,
        agreement=_share([one.distance == 0 for one in judged]),
        weighted_agreement=found.observed,
        expected_agreement=found.expected,
        table=TableReport(categories=list(table.categories), counts=[list(row) for row in table.counts]),
        rubrics=_by_rubric(opinions) if labels.by_rubric else [],
        thresholds=_by_threshold(judged) if labels.kind == "verdict" and not labels.by_rubric else [],
        close=sum(one.close for one in judged),
        unjudged=_unjudged(opinions),
        disagreements=[_opinion(one) for one in sorted(apart, key=_badness, reverse=True)],
        opinions=[_opinion(one) for one in sorted(opinions, key=lambda one: one.label.line)],
        usage=list(usage),
    )
    if labels.kind == "verdict":
        report.wrongly_passed = _share([one.value == 1 for one in judged if one.wanted == 0])
        report.wrongly_failed = _share([one.value == 0 for one in judged if one.wanted == 1])
    if judged:
        report.mean_difference = sum((one.value or 0.0) - one.wanted for one in judged) / len(judged)
    report.notices = list(_notices(report, judged))
    return report


def decide(
    kappa: float | None, best: float | None, worst: float | None, wanted: float | None, *, judged: int, missing: int
) -> tuple[Verdict, str]:
    """Whether the judge agrees well enough.

    What was not judged leaves a decision standing only if it would be the same, had the judge agreed there, or had it
    been as far off as can be.

    Args:
        kappa: What it came to; None: it has no value.
        best: What it would be if all that is missing agreed.
        worst: The same if it disagreed.
        wanted: What it must reach; None: nothing is decided.
        judged: How many labels have a verdict beside them.
        missing: How many have none.
    """
    if not judged:
        return "inconclusive", "The judge gave no verdict on any label."
    if wanted is None:
        return "reported", "No `--min-kappa` was given, so nothing is decided."
    ends = [end for end in (kappa, best, worst) if end is not None]
    if missing and (len(ends) < 3 or (min(ends) >= wanted) is not (max(ends) >= wanted)):
        told = " to ".join(f"{end:.2f}" for end in (min(ends), max(ends))) if len(ends) == 3 else "anything"
        return "inconclusive", f"{plural(missing, 'label')} could not be judged; with them kappa could be {told}."
    if kappa is None:
        return "inconclusive", "Kappa has no value: people and the judge say one and the same thing of everything."
    if kappa >= wanted:
        return "passed", f"Kappa {kappa:.3f} reaches {wanted:g}."
    return "failed", f"Kappa {kappa:.3f} is below {wanted:g}."


def _badness(one: Opinion) -> tuple[float, float, int]:
    """The farther apart, and the surer the judge, the worse; of equals the one on the earlier line first."""
    shares = [judgement.agreement or 0.0 for judgement in one.judgements]
    return one.distance or 0.0, sum(shares) / len(shares) if shares else 0.0, -one.label.line


def _share(hits: Sequence[bool]) -> ShareReport:
    count, total = sum(hits), len(hits)
    return ShareReport(
        count=count,
        total=total,
        share=count / total if total else None,
        interval=_interval(share_interval(count, total)),
    )


def _interval(found: Interval | None) -> IntervalReport | None:
    return None if found is None else IntervalReport(low=found.low, high=found.high, method=found.method)


def _by_rubric(opinions: Sequence[Opinion]) -> list[RubricReport]:
    subjects = list(dict.fromkeys(one.label.subject for one in opinions))
    return [_rubric(subject, [one for one in opinions if one.label.subject == subject]) for subject in subjects]


def _by_threshold(judged: Sequence[Opinion]) -> list[OtherThreshold]:
    scores = sorted({one.score for one in judged if one.score is not None})
    if len(scores) < 3:
        return []
    found = []
    for threshold in scores:
        pairs = [(one.wanted, float((one.score or 0.0) >= threshold)) for one in judged]
        found.append(
            OtherThreshold(
                threshold=threshold,
                kappa=kappa_of(pairs),
                wrongly_passed=pairs.count((0.0, 1.0)),
                wrongly_failed=pairs.count((1.0, 0.0)),
            )
        )
    return found


def _rubric(subject: str, opinions: Sequence[Opinion]) -> RubricReport:
    groups = pairs_by_response(opinions)
    judged = [one for one in opinions if one.value is not None]
    return RubricReport(
        rubric=subject,
        labels=len(opinions),
        judged=len(judged),
        kappa=kappa_of([pair for group in groups for pair in group]),
        interval=_interval(kappa_interval(groups)),
        agreement=_share([one.distance == 0 for one in judged]),
        passed_by_people=sum(one.wanted == 1 for one in judged),
        passed_by_judge=sum(one.value == 1 for one in judged),
    )


def _opinion(one: Opinion) -> OpinionReport:
    return OpinionReport(
        line=one.label.line,
        id=one.label.id,
        rubric=one.label.subject or None,
        label=one.wanted,
        verdict=one.value,
        score=one.score,
        votes=[tally(judgement) or "no vote" for judgement in one.judgements],
        rationale=[judgement.rationale for judgement in _telling(one)],
        note=one.label.note,
        prompt=one.response.prompt,
        response=one.response.answer,
        reason=one.code or None,
    )


def _telling(one: Opinion) -> list[Judgement]:
    """The judgements that led away from the label, else all."""
    if one.value is None or not one.distance:
        return list(one.judgements)
    too_low = one.value < one.wanted
    scores = [judgement.score for judgement in one.judgements if judgement.score is not None]
    if not scores:
        return []
    edge = min(scores) if too_low else max(scores)
    return [judgement for judgement in one.judgements if judgement.score == edge]


def _unjudged(opinions: Sequence[Opinion]) -> list[UnjudgedReport]:
    missing = [one for one in opinions if one.value is None]
    first = {one.code: one.message for one in reversed(missing)}
    counts = Counter(one.code for one in missing).most_common()
    return [UnjudgedReport(code=code, message=first[code], count=count) for code, count in counts]


def _notices(report: CalibrationReport, judged: Sequence[Opinion]) -> Iterator[str]:
    if report.kind == "verdict" and judged:
        passes = sum(one.wanted == 1 for one in judged)
        rarer = min(passes, len(judged) - passes)
        word = "pass" if passes == rarer else "fail"
        if rarer < _FEW:
            yield (
                f"Only {rarer} of {plural(len(judged), 'label')} say {word}: kappa hangs on those, and its interval is "
                f"less sure than it says. Label more responses that {word}."
            )
    if judged and len({one.value for one in judged}) == 1 and report.kappa is not None:
        yield "The judge said the same of everything; kappa is 0 then, whatever people say."
    if report.min_kappa is not None and report.interval is not None:
        low, high = report.interval.low, report.interval.high
        if low < report.min_kappa <= high:
            yield f"{report.min_kappa:g} lies inside the interval of kappa: more labels would tell on which side it is."
    best = max(report.thresholds, key=lambda one: (one.kappa or 0.0, one.threshold), default=None)
    if best is not None and best.kappa is not None and report.kappa is not None and best.kappa > report.kappa + 1e-9:
        yield (
            f"Kappa would be highest, {best.kappa:.2f}, with a threshold of {best.threshold:.4g}. These labels chose "
            "it: expect a little less of others."
        )
    if report.close:
        yield f"{plural(report.close, 'verdict')} hung on a single vote: another time the judge may say otherwise."
