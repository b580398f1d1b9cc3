"""Why a metric has no score."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.text import plural


def calls_not_visible() -> str:
    return (
        "the agent's server does not show tool calls, so it is not known whether there were any. Use criteria "
        "that score the answer, or a server that shows its calls"
    )


def too_long(turn: int, count: int, total: int, metric: str) -> str:
    return f"turn {turn} has a text of {count:,} characters; {metric} compares up to {total:,}"


def too_long_intermediate(turn: int) -> str:
    return f"turn {turn} has more intermediate text than can be compared"


def too_deep() -> str:
    return "the args of a tool call are nested too deeply to compare"


def no_reference_text(turn: int) -> str:
    return f"turn {turn} has no expected text to compare the answer with; add its `final_response`"


def no_intermediate_reference() -> str:
    return "no turn has expected intermediate responses"


def needs_reference() -> str:
    return "this metric needs expected turns, and a scenario has none"


def needs_scenario() -> str:
    return "this metric judges a simulated user, but the case has fixed turns"


def unreported() -> str:
    return "the agent reports no value of it, and a [[policy]] has a threshold for it"


def no_turns() -> str:
    return "the conversation has no turns"


def turn_count(expected: int, count: int) -> str:
    return f"expected {plural(expected, 'turn')}, recorded {count}; a score of some of them would be meaningless"


def turn_count_rubrics(expected: int, count: int) -> str:
    return f"expected {plural(expected, 'turn')}, recorded {count}; rubrics of turns could apply to the wrong ones"


def persona_template_failed(message: str) -> str:
    return f"can't render a text of the persona: {message}"


def duplicate_rubric(turn: int, subject: str) -> str:
    return f"turn {turn} has two rubrics with the id {subject!r}; rename one of them"


def no_rubrics(turn: int, subject: str) -> str:
    return (
        f"no rubric applies to turn {turn}: none in the criterion, and none with the type {subject} in the case or "
        "the turn"
    )


def nothing_to_judge() -> str:
    return "the agent gave no text that this metric judges"


def judge_failed(message: str) -> str:
    return f"The judge: {message}"


def no_verdict(
    count: int, total: int, turn: int, subject: str = "", message: str = "", span: Sequence[float] = ()
) -> str:
    said = f": {message}" if message else ""
    return f"{_missing(count, total, turn, subject)}: no vote{said}{_gap(span)}"


def votes_failed(count: int, total: int, turn: int, message: str, subject: str = "", span: Sequence[float] = ()) -> str:
    # The judge's failure comes first, because reports group cases by it.
    return f"The judge: {message}; {_missing(count, total, turn, subject)}{_gap(span)}"


def _missing(count: int, total: int, turn: int, subject: str) -> str:
    where = f"turn {turn}" if turn else "the conversation"
    about = f", {subject!r}" if subject else ""
    return f"{count} of {plural(total, 'verdict')} missing (first: {where}{about})"


def _gap(span: Sequence[float]) -> str:
    return f"; the score could be between {span[0]:.4g} and {span[1]:.4g}" if span else ""
