"""Why a case did not pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval.core.text import plural
from agent_eval.evalset.models import INFORMATIONAL_METRICS


def not_run() -> str:
    return "It was not run"


def min_pass_rate(passed: int, runs: int, rate: float) -> str:
    return f"{passed} of {plural(runs, 'run')} passed; min-pass-rate is {rate:g}"


def no_run_completed(runs: int, message: str) -> str:
    return f"none of the {runs} runs completed; the first: {message}"


def below_threshold(metrics: Sequence[str] = (), decided: Mapping[str, tuple[float, float]] | None = None) -> str:
    below = [f"below the threshold: {', '.join(metrics)}"] * bool(metrics)
    above = [name for name in decided or {} if name in INFORMATIONAL_METRICS]  # By a `[[policy]]`.
    below += [f"above the threshold: {', '.join(above)}"] * bool(above)
    own = [
        f"{name} returned FAILED (score {score:g}, threshold {threshold:g})"
        for name, (score, threshold) in (decided or {}).items()
        if name not in above
    ]
    return "; ".join(below + own)


def not_evaluated(metric: str, because: str = "") -> str:
    return f"{metric} could not be evaluated{f': {because}' if because else ''}"


def no_score() -> str:
    return "The criterion returned no score"


def quarantined(result: str, until: str, owner: str, note: str, because: str = "") -> str:
    did = {"passed": "it passed", "failed": "it failed"}.get(result, "it was not evaluated")
    why = f" ({because})" if because else ""
    return f"{did}{why}; quarantined until {until} by {owner}: {note}"
