"""Why a case did not pass, and why a metric has no score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS

SENTENCES: Mapping[str, str] = {
    "not-run": "It was not run",
    "no-run-completed": "none of the {runs} runs completed; the first: {message}",
    "no-score": "The criterion returned no score",
    "no-turns": "the conversation has no turns",
    "calls-not-visible": "the agent's server does not show tool calls, so it is not known whether there were any. Use "
    "criteria that score the answer, or a server that shows its calls",
    "responses-not-visible": "the recording has no tool responses, so it is not known whether a call succeeded. Use "
    "`before`",
    "inner-calls-not-visible": "the agent's server, or the recording, does not show calls inside of others, which "
    "`depth` or a rule counts. Run the agent in process, or remove them",
    "state-not-visible": "the session's state is not known: A2A does not show it, older recordings lack it, and above "
    "1 MB it is not kept. Run the agent in process or with `adk:`, or record it again",
    "too-long": "turn {turn} has a text of {count:,} characters; {metric} compares up to {total:,}",
    "too-long-intermediate": "turn {turn} has more intermediate text than can be compared",
    "too-deep": "the args of a tool call are nested too deeply to compare",
    "no-reference-text": "turn {turn} has no expected text to compare the answer with; add its `final_response`",
    "case-value-missing": "the case has no `{subject}`, which the judge is to read; add it, or leave it out of the "
    "question",
    "no-facts": "the expected answers have no facts to look for",
    "no-intermediate-reference": "no turn has expected intermediate responses",
    "needs-reference": "this metric needs expected turns, and a scenario has none",
    "needs-scenario": "this metric judges a simulated user, but the case has fixed turns",
    "unreported": "the agent reports no value of it, and a [[policy]] has a threshold for it",
    "persona-template-failed": "can't render a text of the persona: {message}",
    "no-rubrics": "no rubric applies to turn {turn}: none in the criterion, and none with the type {subject} in the "
    "case or the turn",
    "nothing-to-judge": "the agent gave no text that this metric judges",
    "judge-failed": "The judge: {message}",
}


def min_pass_rate(passed: int, runs: int, rate: float) -> str:
    return f"{passed} of {plural(runs, 'run')} passed; min-pass-rate is {rate:g}"


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


def quarantined(result: str, until: str, owner: str, note: str, because: str = "") -> str:
    did = {"passed": "it passed", "failed": "it failed"}.get(result, "it was not evaluated")
    why = f" ({because})" if because else ""
    return f"{did}{why}; quarantined until {until} by {owner}: {note}"


def turn_count(expected: int, count: int) -> str:
    return f"expected {plural(expected, 'turn')}, recorded {count}; a score of some of them would be meaningless"


def turn_count_rubrics(expected: int, count: int) -> str:
    return f"expected {plural(expected, 'turn')}, recorded {count}; rubrics of turns could apply to the wrong ones"


def duplicate_rubric(turn: int, subject: str) -> str:
    return f"turn {turn} has two rubrics with the id {subject!r}; rename one of them"


def no_verdict(
    count: int, total: int, turn: int, subject: str = "", message: str = "", span: Sequence[float] = ()
) -> str:
    said = f": {message.removesuffix('.') if span else message}" if message else ""
    return f"{_missing(count, total, turn, subject)}: no vote{said}{_gap(span)}"


def votes_failed(count: int, total: int, turn: int, message: str, subject: str = "", span: Sequence[float] = ()) -> str:
    # The judge's failure comes first, because reports group cases by it.
    return f"The judge: {message.removesuffix('.')}; {_missing(count, total, turn, subject)}{_gap(span)}"


def _missing(count: int, total: int, turn: int, subject: str) -> str:
    where = f"turn {turn}" if turn else "the conversation"
    about = f", {subject!r}" if subject else ""
    return f"{count} of {plural(total, 'verdict')} missing (first: {where}{about})"


def _gap(span: Sequence[float]) -> str:
    return f"; the score could be between {span[0]:.4g} and {span[1]:.4g}" if span else ""
