"""Words for a tool call that a tape does not answer, and for a new tape."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.agents.tapes import Obstacle, RecordedCall, Tape, Taped, TapeSession, Unanswerable, changing_arguments
from agent_eval.core.content import FunctionCall
from agent_eval.core.problem import docs_page
from agent_eval.core.text import plural
from agent_eval.criteria import describe_differences, render_call


def message_of(error: Unanswerable, age: float | None) -> str:
    """What is wrong, in one sentence.

    Args:
        error: The call.
        age: Seconds since the tape was recorded; None without a tape.
    """
    call = FunctionCall(name=error.call.name, args=error.call.args)
    shown, when = render_call(call), f" ({_ago(age)})" if age is not None else ""
    taped = f"on the tape (recorded {_ago(age)})" if age is not None else "on the tape"
    match error.obstacle:
        case Obstacle.MISSING:
            return f"The agent called {shown}, and the case has no tape to answer it"
        case Obstacle.STALE:
            return f"`{call.name}` was changed after its answers were recorded{when}; what changed is {error.why}"
        case Obstacle.NOT_REPLAYABLE:
            return f"The call {shown} can't be replayed: {error.why}"
    if error.nearest is None:
        return f"The call {shown} is not {taped}, and no other call of `{call.name}` is"
    nearest = FunctionCall(name=error.nearest.tool, args=error.nearest.args)
    if nearest.args == call.args:
        return f"The call {shown} was made more often than it is {taped}, and its recorded answers differ"
    differences = "; ".join(
        f"{where}: {difference.data.get('wanted', 'none')} on the tape, {difference.data.get('got', 'none')} now"
        for where, difference in describe_differences(nearest, call)
    )
    return f"The call {shown} is not {taped}. The nearest recorded call differs: {differences}"


def hint_of(error: Unanswerable, case_id: str) -> str:
    """What to do about it."""
    again = f"agent-eval run '{case_id}' --record all"
    name = error.call.name
    match error.obstacle:
        case Obstacle.NOT_RECORDED:
            return (
                f"If the call is right, record it: {again}. If some of its arguments don't matter, name them in "
                f'`ignore` of a [[tool]] for "{name}", or those that do in `match`. `miss = "live"` there lets the '
                f"tool run ({docs_page('tools')})."
            )
        case Obstacle.NOT_REPLAYABLE:
            return f'Set `replay = false` in a [[tool]] for "{name}": then it always runs ({docs_page("tools")}).'
        case Obstacle.STALE:
            return f"Record the case again: {again}. Then commit the tape with the change."
    return f"Record the case and commit its tape: {again}."


def remarks_on(tape: Tape, taped: Taped, sessions: Sequence[TapeSession]) -> list[str]:
    """What may be wrong with a new tape."""
    lines = [
        f"{_shown(call)} got different answers in different runs: the tool is not deterministic, and the first answer "
        "is kept"
        for call in taped.conflicts
    ]
    lines += [
        f"{_shown(call)} raised {call.error.type}: a replay raises it again"
        for call in tape.calls
        if call.error is not None
    ]
    lines += [
        f"{call.tool} can't be replayed: {call.reason}. Set `replay = false` for it in agent-eval.toml"
        for call in tape.calls
        if not call.replayable
    ]
    lines += [
        f"The MCP server of `{name}` lists other tools from time to time: it must be reachable in a replay"
        for name in taped.varying
    ]
    changing = sorted(changing_arguments(sessions))
    lines += [f"{name} was different in every run: name it in `ignore` of a [[tool]]" for name in changing]
    masked = sorted({name for session in sessions for name in session.masked})
    lines += [f"{name} of an answer is masked (***), because of its name: the agent gets *** too" for name in masked]
    return list(dict.fromkeys(lines))


def _shown(call: RecordedCall) -> str:
    return render_call(FunctionCall(name=call.tool, args=call.args))


def _ago(seconds: float) -> str:
    days = int(seconds // 86_400)
    return f"{plural(days, 'day')} ago" if days > 0 else "today"
