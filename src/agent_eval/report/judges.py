"""Who judged, where that is a choice."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.results.report import CaseReport


def backends(cases: Iterable[CaseReport]) -> list[str]:
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
