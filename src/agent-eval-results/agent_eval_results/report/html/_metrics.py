"""The metrics of a case with their evidence and the judges' votes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent_eval_results import CaseReport, MetricReport, Reason, RunScore
from agent_eval_results.data.conversation import JudgeVerdict
from agent_eval_results.data.stored_runs import stored_runs
from agent_eval_results.report.html._packing import json_value, number, shown
from agent_eval_results.report.html._source import CaseDetail, Facts
from agent_eval_results.report.phrases import metric_base_notes

_NAME, _LINE, _SIDE = 500, 2_000, 20_000
_VOTES = frozenset({"judgements", "judgements_left_out"})
"""Details that are shown as votes."""


def case_metrics(
    facts: Facts, case: CaseReport, bases: Mapping[str, float], detail: CaseDetail
) -> list[dict[str, Any]]:
    """The metrics of a case, with the scores of all its runs on both sides; `bases` are its `base_scores`."""
    notes = metric_base_notes(facts.change(case.case_id), facts.view.branch)
    scores = _scores(facts, case)
    return [
        _metric(metric, scores[metric.name], bases.get(metric.name), notes.get(metric.name), detail)
        for metric in case.metrics
    ]


def base_scores(facts: Facts, case: CaseReport) -> dict[str, float]:
    """The score on the base branch by metric: compared ones, else means of stored runs with the same options."""
    scores: dict[str, float] = {}
    history = facts.history_of(case)
    if history is not None and facts.history is not None:
        runs = stored_runs(facts.history, history)
        for metric in case.metrics:
            key = metric.name, metric.fingerprint
            stored = [run.scores[key] for run in runs if key in run.scores]
            if stored:
                scores[metric.name] = sum(stored) / len(stored)
    change = facts.change(case.case_id)
    for compared in change.metrics if change is not None else ():
        if compared.score.base is not None:
            scores[compared.name] = compared.score.base
    return scores


def _metric(
    metric: MetricReport,
    scores: Iterable[tuple[str, RunScore]],
    base: float | None,
    note: str | None,
    detail: CaseDetail,
) -> dict[str, Any]:
    return {
        "name": shown(metric.name, _NAME),
        "score": number(metric.score),
        "threshold": number(metric.threshold),
        "direction": metric.direction,
        "status": metric.status,
        "blocking": metric.blocking,
        "judge": shown(metric.judge, _NAME) or None,
        "reason": reason_of(metric.reason, detail),
        "base": number(base),
        "delta": None if base is None or metric.score is None else number(metric.score - base),
        "note": shown(note, _LINE),
        "runs": [_score(key, score, detail) for key, score in scores],
    }


def _scores(facts: Facts, case: CaseReport) -> Mapping[str, Sequence[tuple[str, RunScore]]]:
    """The scores of each metric with the keys of their runs, on both sides."""
    base_id = facts.base_id(case.case_id)
    sides: Sequence[tuple[str, Iterable[CaseReport]]] = (
        ("head", [case]),
        ("confirm", facts.confirmations.get(case.case_id, ())),
        ("base", facts.base_runs.get(base_id, ())),
    )
    scores: dict[str, list[tuple[str, RunScore]]] = {}
    for side, parts in sides:
        for part in parts:
            for metric in part.metrics:
                scores.setdefault(metric.name, []).extend((f"{side}:{score.run}", score) for score in metric.runs)
    return scores


def reason_of(reason: Reason | None, detail: CaseDetail) -> dict[str, str] | None:
    """A reason as the page shows it; without the words of `scores` only its code."""
    if reason is None:
        return None
    return {"code": shown(reason.code, _NAME), "message": shown(reason.message, _LINE) if detail.words else ""}


def _score(key: str, score: RunScore, detail: CaseDetail) -> dict[str, Any]:
    verdicts = score.verdicts
    agreements = [said.agreement for said in verdicts if said.agreement is not None]
    rest = {name: value for name, value in score.details.items() if name not in _VOTES} if score.details else {}
    return {
        "key": key,
        "score": number(score.score),
        "status": score.status,
        "reason": reason_of(score.reason, detail),
        "turn_scores": [number(value) for value in score.turn_scores],
        "evidence": _evidence(score) if detail.words else [],
        "votes": [vote for said in verdicts for vote in _votes(said)] if detail.words else [],
        "rubrics": [_rubric(said) for said in verdicts if said.subject] if detail.words else [],
        "agreement": number(sum(agreements) / len(agreements)) if agreements else None,
        "close": any(said.close for said in verdicts),
        "details": json_value(rest, _LINE) if rest and detail.words else {},
    }


def _evidence(score: RunScore) -> list[dict[str, Any]]:
    return [
        {
            "turn": item.turn,
            "score": number(item.score),
            "user": shown(item.user, _LINE),
            "expected": shown(item.expected, _SIDE),
            "actual": shown(item.actual, _SIDE),
            "why": [shown(line.message, _LINE) for line in item.why],
        }
        for item in score.evidence
    ]


def _votes(said: JudgeVerdict) -> Iterator[dict[str, Any]]:
    for vote in said.votes:
        yield {
            "turn": said.turn,
            "verdict": shown(vote.verdict or "", _LINE) or None,
            "score": number(said.score) if vote.verdict and said.agrees(vote) else None,
            "text": shown(vote.rationale or "", _LINE),
            "rubric": shown(said.subject or "", _LINE) or None,
        }


def _rubric(said: JudgeVerdict) -> dict[str, Any]:
    return {
        "id": shown(said.subject or "", _LINE),
        "text": shown(said.verdict or "", _LINE),
        "score": number(said.score),
        "turn": said.turn,
        "agreement": number(said.agreement),
        "close": said.close,
    }
