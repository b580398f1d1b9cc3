"""Asks the judge about labelled responses as a run would. How far labels and verdicts agree: kappa and its interval."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from pydantic import Field

from agent_eval.gate.stats import wilson
from agent_eval_results.report.phrases import text
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.criteria import NotEvaluated, Result, build
from agent_eval_scoring.criteria.judged import NO_VERDICT, Judge, tally
from agent_eval_workbench.calibration.labels import Kind, Label, LabelledResponse, LabelSet
from agent_eval_workbench.calibration.target import TargetCriterion

Pair = tuple[float, float]
"""The human label, then the judge's verdict."""

LEVEL = 0.95
"""Confidence level of all intervals, two-sided."""


class Table(WireModel):
    """Contingency table of human labels and the judge's verdicts."""

    categories: list[float]
    """All values that either rater used, ascending. For pass and fail: 1 and 0."""
    counts: list[list[int]]
    """Rows are human labels, columns are verdicts, both in the order of `categories`."""


class Interval(WireModel):
    """A confidence interval."""

    low: float
    high: float
    level: float = LEVEL
    method: str
    """Name and source of the method."""


def tabulate(pairs: Sequence[Pair]) -> Table:
    """Counts the pairs in a contingency table."""
    categories = sorted({value for pair in pairs for value in pair})
    index = {category: number for number, category in enumerate(categories)}
    counts = [[0] * len(categories) for _ in categories]
    for label, verdict in pairs:
        counts[index[label]][index[verdict]] += 1
    return Table(categories=categories, counts=counts)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Kappa and its terms."""

    kappa: float | None
    """1 is full agreement, 0 is agreement by chance. None without pairs, or if all labels and verdicts are equal."""
    observed: float | None
    """The (weighted) share of agreement, 0..1; None without pairs."""
    expected: float | None
    """The share that would agree by chance."""
    influence: dict[Pair, float]
    """The influence function of kappa at each pair. Over all observations it sums to 0."""


def agreement(table: Table) -> Agreement:
    """Cohen's kappa (1960), with the terms of its large-sample variance.

    The variance of the influences divided by the number of pairs is equation 11 of Fleiss, Cohen and Everitt, "Large
    sample standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969).
    """
    total = sum(map(sum, table.counts))
    if not total:
        return Agreement(kappa=None, observed=None, expected=None, influence={})
    credit = _credit(table.categories)
    size = range(len(table.categories))
    people = [sum(row) / total for row in table.counts]
    judge = [sum(column) / total for column in zip(*table.counts, strict=True)]
    # fsum: kappa is compared with a limit, and must not depend on the order of the labels.
    observed = math.fsum(credit[i][j] * table.counts[i][j] for i in size for j in size) / total
    expected = math.fsum(credit[i][j] * people[i] * judge[j] for i in size for j in size)
    # Chance alone would agree always: 0 divided by 0.
    if len(table.categories) == 1:
        return Agreement(kappa=None, observed=observed, expected=expected, influence={})
    row_means = [math.fsum(credit[i][j] * judge[j] for j in size) for i in size]
    column_means = [math.fsum(credit[i][j] * people[i] for i in size) for j in size]
    centre = observed * expected - 2 * expected + observed
    influence = {
        (table.categories[i], table.categories[j]): (
            credit[i][j] * (1 - expected) - (row_means[i] + column_means[j]) * (1 - observed) - centre
        )
        / (1 - expected) ** 2
        for i in size
        for j in size
    }
    kappa = (observed - expected) / (1 - expected)
    return Agreement(kappa=kappa, observed=observed, expected=expected, influence=influence)


def kappa_of(pairs: Sequence[Pair]) -> float | None:
    """Kappa without its terms; None if it is undefined."""
    return agreement(tabulate(pairs)).kappa


def kappa_interval(groups: Sequence[Sequence[Pair]]) -> Interval | None:
    """The confidence interval of kappa.

    Labels on one response (one per rubric) are not independent, so influences are summed by response first. The
    interval is computed on Fisher's z scale, artanh(kappa): on kappa's own scale it is too narrow, above all where
    kappa is high or one label is rare (docs/calibration.md has the coverage of both). Full agreement has no variance;
    then the lower end comes from the exact binomial bound on the share of agreement, (1-LEVEL)/2 ** (1/n).

    Args:
        groups: The pairs of each response.

    Returns:
        None if kappa is undefined, with fewer than two responses, or if the judge always gave the same verdict.
    """
    pairs = [pair for group in groups for pair in group]
    terms = agreement(tabulate(pairs))
    if terms.kappa is None or terms.expected is None or len(groups) < 2:
        return None
    if all(label == verdict for label, verdict in pairs):
        share = ((1 - LEVEL) / 2) ** (1 / len(groups))
        low = (share - terms.expected) / (1 - terms.expected)
        method = "full agreement: exact binomial bound on its share, at the labels' own frequencies"
        return Interval(low=max(low, -1.0), high=1.0, method=method)
    variance = math.fsum(math.fsum(terms.influence[pair] for pair in group) ** 2 for group in groups)
    # The correction of a sample variance: with few responses the interval would be too narrow.
    error = math.sqrt(variance * len(groups) / (len(groups) - 1)) / len(pairs)
    # Rounding, where the exact value is 0 or 1: artanh of 1 is infinite.
    if error < 1e-9 or abs(terms.kappa) > 1 - 1e-9:
        return None
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    centre, half = math.atanh(terms.kappa), z * error / (1 - terms.kappa**2)
    summed = "" if len(groups) == len(pairs) else ", summed by response"
    method = f"standard error of Fleiss, Cohen and Everitt (1969){summed}, on Fisher's z scale"
    return Interval(low=math.tanh(centre - half), high=math.tanh(centre + half), method=method)


def share_interval(count: int, total: int) -> Interval | None:
    """Wilson's interval of the share `count / total`; None for a total of 0."""
    if not total:
        return None
    low, high = wilson(count, total, LEVEL)
    return Interval(low=low, high=high, method="Wilson (1927)")


def _credit(categories: Sequence[float]) -> list[list[float]]:
    """How much each pair of categories counts as agreement, 0..1: less with the square of its distance (Cohen 1968).

    So a near miss of a score counts in part. Of pass and fail, only equal ones agree.
    """
    span = (categories[-1] - categories[0]) or 1.0
    return [[1 - ((label - verdict) / span) ** 2 for verdict in categories] for label in categories]


class Opinion(WireModel):
    """One label with the judge's verdict."""

    line: int
    id: str | None = None
    rubric: str | None = None
    label: float
    """1 or 0 for pass and fail, else a score."""
    verdict: float | None = None
    """The judge's, on the same scale; None: not judged."""
    score: float | None = None
    """The criterion's score before it is compared with the threshold."""
    votes: list[str] = Field(default_factory=list)
    """The votes on each question, e.g. `5:0` or `3:2, close`."""
    rationale: list[str] = Field(default_factory=list)
    """The judge's rationales, those that contradict the label first. A model wrote them that has read hostile text."""
    note: str = ""
    """The reason for the human label."""
    prompt: str = ""
    response: str = ""
    reason: str | None = None
    """The code of why there is no verdict."""
    message: str | None = None
    """The same in words."""
    close: bool = False
    """Whether a single vote could have changed the verdict, e.g. 3:2."""
    confidence: float | None = None
    """The mean share of votes for the outcome, 0..1."""
    response_line: int
    """The first line about this response."""

    @property
    def distance(self) -> float | None:
        """The absolute difference between label and verdict; None without a verdict."""
        return None if self.verdict is None else abs(self.verdict - self.label)


async def ask(labels: LabelSet, target: TargetCriterion, judge: Judge) -> list[Opinion]:
    """Judges all responses concurrently; the model limits the number of calls in flight.

    Returns:
        One opinion per label, in the order of `labels.labels`.
    """
    # For pass and fail the gate's own threshold applies, also to whether a missing vote matters. Otherwise each verdict
    # counts by itself, and the lowest threshold keeps the criterion from skipping any.
    whole = labels.kind == "verdict" and not labels.by_rubric
    threshold = target.threshold if whole and target.threshold is not None else target.span[0]
    criterion = build(replace(target.config, threshold=threshold), judge=judge)
    results = await asyncio.gather(
        *(criterion.score(response.conversation(labels.file)) for response in labels.responses)
    )
    return [
        _opinion(label, response, result, labels.kind, threshold)
        for response, result in zip(labels.responses, results, strict=True)
        for label in response.labels
    ]


def _opinion(label: Label, response: LabelledResponse, result: Result, kind: Kind, threshold: float) -> Opinion:
    opinion = Opinion(
        line=label.line,
        id=label.id,
        rubric=label.rubric or None,
        label=label.value(kind),
        note=label.note,
        prompt=response.prompt,
        response=response.answer,
        response_line=response.line,
    )
    if isinstance(result, NotEvaluated):
        opinion.reason, opinion.message = result.code, text(result.reason)
        return opinion
    judgements = [each for each in result.judgements if not label.rubric or each.subject == label.rubric]
    shares = [judgement.agreement or 0.0 for judgement in judgements]
    opinion.confidence = sum(shares) / len(shares) if shares else None
    opinion.close = any(judgement.close for judgement in judgements)
    score = result.score
    if label.rubric:
        # In a conversation the rubric must hold on every turn.
        scores = [judgement.score for judgement in judgements if judgement.score is not None]
        score = min(scores) if scores and len(scores) == len(judgements) else None
    # A score over the others would be compared with a label that people gave for all of it.
    missing = next((judgement for judgement in judgements if judgement.score is None), None)
    if score is None or (missing is not None and (label.rubric or kind == "score")):
        failed = next((vote.failure for vote in missing.votes if vote.failure), None) if missing is not None else None
        opinion.reason = failed or NO_VERDICT
        opinion.message = missing.rationale if missing is not None else "the judge gave no verdict on this"
    else:
        opinion.score = score
        opinion.verdict = score if label.rubric or kind == "score" else float(score >= threshold)
        if opinion.verdict != opinion.label:
            too_high = opinion.verdict > opinion.label
            # Those first that pull the verdict away from the label: they have the reason.
            judgements.sort(key=lambda judgement: judgement.score or 0.0, reverse=too_high)
    opinion.votes = [tally(judgement) or "no vote" for judgement in judgements]
    opinion.rationale = [judgement.rationale for judgement in judgements]
    return opinion


def pairs_by_response(opinions: Sequence[Opinion]) -> list[list[Pair]]:
    """Labels with verdicts, grouped by response; unjudged labels are left out."""
    groups: dict[int, list[Pair]] = {}
    for opinion in opinions:
        if opinion.verdict is not None:
            groups.setdefault(opinion.response_line, []).append((opinion.label, opinion.verdict))
    return list(groups.values())


def imputed(opinions: Sequence[Opinion], span: tuple[float, float], *, agree: bool) -> list[Pair]:
    """All pairs, with missing verdicts filled in.

    Args:
        opinions: All of them.
        span: The lowest and the highest value.
        agree: Whether a missing verdict equals its label, or is as far from it as possible.
    """
    low, high = span
    pairs = []
    for opinion in opinions:
        farthest = low if opinion.label - low > high - opinion.label else high
        assumed = opinion.label if agree else farthest
        pairs.append((opinion.label, assumed if opinion.verdict is None else opinion.verdict))
    return pairs
