"""What to know of judges and simulated users: who judged, what was left open, which conversation was cut off."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.core.text import plural, shorten
from agent_eval.results import CaseReport


def backend_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each judge of the metrics that ADK has Vertex AI judge: scores of the two are not alike."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if (backend := run.details.get("backend")) in {"judge", "vertex"}:
                    model = str(run.details.get("judge", {}).get("model", "a judge"))
                    found.setdefault((backend, model), {})[metric.name] = None
    return [
        f"{', '.join(metrics)}: judged by "
        + ("Vertex AI's evaluation service" if backend == "vertex" else f"{model}, not by Vertex AI as in ADK")
        for (backend, model), metrics in found.items()
    ]


def missing_verdict_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each metric whose score stands although the judge gave no verdict on something."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if run.score is not None:
                    listed = run.details.get("judgements", ())
                    missing = [one for one in listed if "verdict" in one and one["verdict"] is None]
                    found.setdefault(metric.name, []).extend([case.eval_id] * len(missing))
    return [
        f"{name}: no verdict on {plural(len(ids), 'thing')} that could not change whether the case passes "
        f"({shorten(', '.join(dict.fromkeys(ids)), 200)})"
        for name, ids in found.items()
        if ids
    ]


def truncation_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line on conversations that were ended by their limit, rather than by the simulated user."""
    led = [(case.eval_id, run) for case in cases for run in case.runs if run.stop_reason is not None]
    ids = [eval_id for eval_id, run in led if run.stop_reason == "turn-limit"]
    if not ids:
        return []
    named = shorten(", ".join(dict.fromkeys(ids)), 200)
    return [f"{len(ids):,} of {plural(len(led), 'simulated conversation')} ended at max_allowed_invocations ({named})"]
