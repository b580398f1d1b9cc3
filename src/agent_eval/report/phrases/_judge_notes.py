"""Notes on judges and simulated users: which judge was used, missing verdicts, truncated conversations."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.core.text import plural, shorten
from agent_eval.results import CaseReport


def backend_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each judge of metrics for which ADK uses Vertex AI: the scores of the two differ."""
    metrics_by_judge: dict[tuple[str, str], dict[str, None]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if (backend := run.details.get("backend")) in {"judge", "vertex"}:
                    model = str(run.details.get("judge", {}).get("model", "a judge"))
                    metrics_by_judge.setdefault((backend, model), {})[metric.name] = None
    return [
        f"{', '.join(metrics)}: judged by "
        + ("Vertex AI's evaluation service" if backend == "vertex" else f"{model}, not by Vertex AI as in ADK")
        for (backend, model), metrics in metrics_by_judge.items()
    ]


def missing_verdict_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each metric that has a score although a verdict of the judge is missing."""
    cases_by_metric: dict[str, list[str]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if run.score is not None:
                    listed = run.details.get("judgements", ())
                    missing = [
                        judgement for judgement in listed if "verdict" in judgement and judgement["verdict"] is None
                    ]
                    cases_by_metric.setdefault(metric.name, []).extend([case.eval_id] * len(missing))
    return [
        f"{name}: no verdict on {plural(len(ids), 'thing')} that could not change whether the case passes "
        f"({shorten(', '.join(dict.fromkeys(ids)), 200)})"
        for name, ids in cases_by_metric.items()
        if ids
    ]


def truncation_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line on conversations that ended at their limit, rather than by the simulated user."""
    led = [(case.eval_id, run) for case in cases for run in case.runs if run.stop_reason is not None]
    ids = [eval_id for eval_id, run in led if run.stop_reason == "turn-limit"]
    if not ids:
        return []
    named = shorten(", ".join(dict.fromkeys(ids)), 200)
    return [f"{len(ids):,} of {plural(len(led), 'simulated conversation')} ended at max_allowed_invocations ({named})"]
