"""Words for a call that a tape does not answer, and for a new tape."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval_agents import tapes
from agent_eval_agents.messages import ModelAsked, ToolAsked
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.criteria import describe_differences, render_call


def message_of(error: tapes.Unanswerable, age: float | None) -> str:
    """What is wrong, in one sentence.

    Args:
        error: The call.
        age: Seconds since the tape was recorded; None without a tape.
    """
    when = f" ({_ago(age)})" if age is not None else ""
    taped = f"on the tape (recorded {_ago(age)})" if age is not None else "on the tape"
    taped = "in the case, which answers by hand" if error.by_hand else taped
    if error.left:
        return _left(error, taped)
    match error.call:
        case ToolAsked():
            return _about_tool(error, error.call, taped, when)
        case ModelAsked() if error.obstacle is tapes.Obstacle.MODEL_NOT_RECORDED:
            return _about_model(error, error.call, taped)
        case ModelAsked() if error.obstacle is tapes.Obstacle.NOT_REPLAYABLE:
            return f"The agent's own code asks {error.call.model or 'a model'}, which can't be replayed"
    if error.why:
        return f"The tape of the case is not used: {error.why}"
    return "The case has no tape" if age is None else "The tape of the case has no model calls"


def _about_model(error: tapes.Unanswerable, call: ModelAsked, taped: str) -> str:
    asked = f"What {_asker(call)} asks {call.model or 'its model'}"
    if error.why:
        return f"{asked} can't be answered from the tape: {error.why}"
    if error.difference is None:
        return f"{asked} is {taped}, but not as often as it is asked now"
    return f"{asked} is not {taped}. {_said(error.difference, 'The first difference is')}"


def _said(difference: tapes.Difference, what: str) -> str:
    return f"{what} in {difference.place}: {difference.recorded} on the tape, {difference.now} now"


def _left(error: tapes.Unanswerable, taped: str) -> str:
    """About answers for which the agent has not asked."""
    left = [
        _shown(call) if isinstance(call, tapes.RecordedCall) else f"a model call of {_asker(call)}"
        for call in error.left
    ]
    if error.call is None:
        return f"The conversation ended before {plural(len(left), 'call')} {taped}: {listed(left, 3)}"
    waiting = f"`{error.call.name}`" if isinstance(error.call, ToolAsked) else f"the model of {_asker(error.call)}"
    return f"The recorded answer of {waiting} came after that of {left[0]}, which the agent does not make"


def _asker(call: ModelAsked | tapes.ModelExchange) -> str:
    return f"the agent `{call.agent}`" if call.agent else "the agent"


def _about_tool(error: tapes.Unanswerable, asked: ToolAsked, taped: str, when: str) -> str:
    call = FunctionCall(name=asked.name, args=asked.args)
    shown = render_call(call)
    match error.obstacle:
        case tapes.Obstacle.MISSING:
            return f"The agent called {shown}, and the case has no tape to answer it"
        case tapes.Obstacle.STALE:
            changed = f"`{call.name}` was changed after its answers were recorded{when}; what changed is {error.why}"
            return f"{changed}. {_said(error.difference, 'Its answer differs')}" if error.difference else changed
        case tapes.Obstacle.NOT_REPLAYABLE:
            return f"The call {shown} can't be replayed: {error.why}"
        case tapes.Obstacle.MODEL_NOT_RECORDED:
            return f"The call {shown} can't be answered from the tape: {error.why}"
    if error.nearest is None:
        return f"The call {shown} is not {taped}, and no other call of `{call.name}` is"
    nearest = FunctionCall(name=error.nearest.tool, args=error.nearest.args)
    if nearest.args == call.args and error.why:
        return f"The call {shown} is {taped}, but it was made more often than in {error.why}"
    if nearest.args == call.args:
        return f"The call {shown} was made more often than it is {taped}, and its recorded answers differ"
    there = "in the case" if error.by_hand else "on the tape"
    differences = "; ".join(
        f"{where}: {difference.data.get('wanted', 'none')} {there}, {difference.data.get('got', 'none')} now"
        for where, difference in describe_differences(nearest, call)
    )
    return f"The call {shown} is not {taped}. The nearest recorded call differs: {differences}"


def hint_of(error: tapes.Unanswerable, case_id: str) -> str:
    """What to do about it."""
    if error.by_hand:
        ask = "If the call is right, add it to `tool_uses`, and its answer to `tool_responses`, of the case."
        return f"{ask} `match = []` in the [[tool]] ignores arguments ({docs_page('tools')})."
    again = f"agent-eval run '{case_id}' --record all"
    name = error.call.name if isinstance(error.call, ToolAsked) else ""
    match error.obstacle:
        case tapes.Obstacle.NOT_RECORDED:
            return (
                f"If the call is right, record it: {again}. If some of its arguments don't matter, name them in "
                f'`ignore` of a [[tool]] for "{name}", or those that do in `match`. `miss = "live"` there lets the '
                f"tool run ({docs_page('tools')})."
            )
        case tapes.Obstacle.NOT_REPLAYABLE if not name:
            return "Ask the model in a tool, whose answers are recorded, or through ADK; or run the case live."
        case tapes.Obstacle.NOT_REPLAYABLE:
            return f'Set `replay = false` in a [[tool]] for "{name}": then it always runs ({docs_page("tools")}).'
        case tapes.Obstacle.STALE | tapes.Obstacle.MODEL_NOT_RECORDED | tapes.Obstacle.CALLS_LEFT:
            return f"Record the case again: {again}. Then commit the tape with the change."
        case tapes.Obstacle.CHANGED:
            return f"The base branch's tapes decide ({docs_page('tools')}). Run the case with a model."
    return f"Record the case and commit its tape: {again}."


def remarks_on(tape: tapes.Tape, taped: tapes.Taped, sessions: Sequence[tapes.TapeSession]) -> list[str]:
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
    changing = sorted(tapes.changing_arguments(sessions))
    lines += [f"{name} was different in every run: name it in `ignore` of a [[tool]]" for name in changing]
    masked = sorted({name for session in sessions for name in session.masked})
    lines += [f"{name} of an answer is masked (***), because of its name: the agent gets *** too" for name in masked]
    return list(dict.fromkeys(lines))


def _shown(call: tapes.RecordedCall) -> str:
    return render_call(FunctionCall(name=call.tool, args=call.args))


def _ago(seconds: float) -> str:
    days = int(seconds // 86_400)
    return f"{plural(days, 'day')} ago" if days > 0 else "today"
