"""What failing cases have in common, and where to look: never that one thing led to the other.

Texts of agents and tools are shortened and made visible here, and escaped by each medium.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent_eval_results import MOST_PASSING, CauseData, CauseReport, Place
from agent_eval_results.report.views import Reference, one_line
from agent_eval_results.report.views.grouping import NO_NAME
from agent_eval_scoring.core.text import listed, plural

_NAME, _VALUE, _LONG_VALUE, _MOST_NAMES, _MOST_PLACES = 60, 60, 120, 3, 3
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def cause_sentence(cause: CauseReport, base: str = NO_NAME) -> str:
    """What happened, with values: `find_devices returned {"devices": []}`.

    Args:
        cause: The cause.
        base: The base branch's name.
    """
    also = list(dict.fromkeys(_LINES[each.code](each.data) for each in cause.symptoms))
    shown = f"; also {listed(also, _MOST_NAMES)}" if also else ""
    return _SENTENCES[cause.code](cause, "" if cause.base is None else base) + shown


def cause_line(cause: CauseReport) -> str:
    """Subject and kind without values, for a title: `find_devices returns nothing`."""
    # `no longer` needs a run that did call it; an eval case only expects that.
    if cause.code == "call-missing" and cause.base is not None:
        return f"{_name(cause.data.tool)} is no longer called"
    return _LINES[cause.code](cause.data)


def cause_title(causes: Sequence[CauseReport]) -> str:
    """`one cause: find_devices returns nothing`; `two causes: ..., and ...`; "" without causes."""
    if not causes:
        return ""
    number = _NUMBERS[len(causes)] if len(causes) < len(_NUMBERS) else f"{len(causes):,}"
    lines = [cause_line(cause) for cause in causes]
    if len(lines) > 2:
        return f"{number} causes: {lines[0]}, {lines[1]}, and {len(lines) - 2:,} more"
    return f"{number} {'cause' if len(lines) == 1 else 'causes'}: {', and '.join(lines)}"


def cause_evidence(cause: CauseReport, base: str = NO_NAME) -> str:
    """In how many cases it is: `in 12 of 12 failing cases and 1 of 10 passing ones; on main in none of 22 runs`.

    Args:
        cause: The cause.
        base: The base branch's name.
    """
    failing, passing = cause.failing, cause.passing
    text = f"in {failing.having:,} of {plural(failing.total, 'failing case')}"
    if passing.total:
        looked_at = " that were compared" * (passing.total == MOST_PASSING)
        ones = "one" if passing.total == 1 else f"ones{looked_at}"
        text += f" and {passing.having:,} of {passing.total:,} passing {ones}"
    if cause.base is not None and cause.base.total:
        seen = f"{cause.base.having:,}" if cause.base.having else "none"
        text += f"; on {base} in {seen} of {plural(cause.base.total, 'run')}"
    return text


def changed_here(cause: CauseReport) -> str:
    """The changed lines to look at: `changed here: home/tools.py:43-47 (find_devices)`; "" without any."""
    if not cause.changed_here:
        return ""
    # Where any may be the cause, a place that is left out may be the one.
    most = len(cause.changed_here) if cause.one_of else _MOST_PLACES
    shown = ", ".join(map(place_text, cause.changed_here[:most]))
    left = len(cause.changed_here) - most
    lead = changed_lead(cause)
    return f"{lead[:1].lower()}{lead[1:]}: {shown}" + (f" and {left:,} more" if left > 0 else "")


def changed_lead(cause: CauseReport) -> str:
    """What is said before the changed lines: whether it is the first of them, or any."""
    number = len(cause.changed_here)
    # A single run differs by chance as well, and changed lines alone are the evidence: that comes first.
    if cause.one_of and cause.few and not cause.repeated:
        return "One run may differ by chance; " + (f"one of these {number} changed places" if number > 1 else "changed")
    if cause.one_of:
        return f"One of these {number} changed places" + ", called before" * cause.called_before
    return "Changed, and called before" if cause.called_before else "Changed here"


def place_reference(place: Place) -> Reference:
    """A place that the pull request changes, leading to its diff."""
    return Reference(text=place_text(place), file=place.file, line=place.first, changed=True)


def place_text(place: Place) -> str:
    """`home/tools.py:43-47 (find_devices)`."""
    lines = "" if place.first is None else f":{place.first}"
    if place.first is not None and place.last is not None and place.last > place.first:
        lines += f"-{place.last}"
    name = place_name(place)
    return f"{_cut(place.file, 2 * _LONG_VALUE)}{lines}{f' ({name})' if name else ''}"


def place_name(place: Place) -> str:
    """What is at a place: its function, `timeout=5, removed`, or `renamed to home/rooms.csv`; "" if unknown."""
    # A renamed file has no lines here; its new name is in the symbol.
    if place.gone == "renamed":
        return f"renamed to {_name(place.symbol)}"
    return ", ".join(filter(None, (_name(place.symbol), place.gone)))


def _cut(value: str, limit: int) -> str:
    """The beginning of a text in one line. It is cut first, since a forged one may have megabytes."""
    text = one_line(value[: 4 * limit])
    return text if len(text) <= limit and len(value) <= 4 * limit else text[: limit - 1] + "…"


def _name(value: str) -> str:
    return _cut(value, _NAME)


def _value(value: str | None) -> str:
    return "nothing" if value in {None, "", "null"} else _cut(value or "", _VALUE)


def _named(names: Sequence[str]) -> str:
    shown = [_name(name) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        return f"{', '.join(shown)} and {len(names) - _MOST_NAMES:,} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def _quoted(words: Sequence[str]) -> str:
    return f'"{_cut(" ".join(words), _VALUE)}"'


def _than(base: str) -> str:
    return f"than on {base}" if base else "than expected"


def _tool_error(cause: CauseReport, base: str) -> str:
    return f"{_name(cause.data.tool)} answered with an error: {_cut(cause.data.actual or '', _LONG_VALUE)}"


def _differing(data: CauseData, *, in_brackets: bool) -> str:
    """The values of the one name that differs; "" for several."""
    if len(data.names) != 1 or (data.actual is None and data.expected is None):
        return ""
    now, before = _value(data.actual), _value(data.expected)
    return f" ({now}, was {before})" if in_brackets else f" ({now} instead of {before})"


def _tool_response(cause: CauseReport, base: str) -> str:
    data = cause.data
    what = f"another {_named(data.names)}" if data.names else "something else"
    return f"{_name(data.tool)} returned {what} {_than(base)}{_differing(data, in_brackets=True)}"


def _call_argument(cause: CauseReport, base: str) -> str:
    data = cause.data
    if data.renamed:
        if data.new and data.gone:
            return f"{_name(data.tool)} is called with {_named(data.new)} instead of {_named(data.gone)}"
        return f"{_name(data.tool)} is called " + (
            f"with {_named(data.new)} as well" if data.new else f"without {_named(data.gone)}"
        )
    what = f"another {_named(data.names)}" if data.names else "other arguments"
    return f"{_name(data.tool)} is called with {what} {_than(base)}{_differing(data, in_brackets=False)}"


def _call_missing(cause: CauseReport, base: str) -> str:
    other = f"on {base} it is" if base else "the eval cases expect it"
    return f"{_name(cause.data.tool)} is not called; {other}"


def _call_extra(cause: CauseReport, base: str) -> str:
    other = f"on {base} it is not" if base else "the eval cases do not expect it"
    return f"{_name(cause.data.tool)} is called; {other}"


def _sub_agent(cause: CauseReport, base: str) -> str:
    data = cause.data
    agent = _name(data.agent) or "The agent"
    hands = f"hands over to {_name(data.actual)}" if data.actual else "does not hand over"
    other = f"on {base}" if base else "expected"
    to = f"to {_name(data.expected)}" if data.expected else "to no one"
    return f"{agent} {hands}, {other} {to}"


def _exception(cause: CauseReport, base: str) -> str:
    data = cause.data
    raised = f"{_name(data.tool)} raised {_name(data.exception)}" if data.tool else _name(data.exception)
    said = one_line((data.actual or "").rpartition(f"{data.exception}: ")[2][:4_000])
    if len(said) > _LONG_VALUE:
        said = f"{said[: _LONG_VALUE // 3]}…{said[-_LONG_VALUE * 2 // 3 :]}"  # A path says most at its end.
    return (f"{raised} at {place_text(data.place)}" if data.place is not None else raised) + f": {said}" * bool(said)


def _deadline(cause: CauseReport, base: str) -> str:
    after = "in time" if cause.data.seconds is None else f"after {cause.data.seconds:g} s"
    return f"{_name(cause.data.tool)} had not returned {after}"


def _answer(cause: CauseReport, base: str) -> str:
    answers = "answers" if len(cause.cases) == 1 else "answer"
    return f'{plural(len(cause.cases), "case")} {answers} "{_cut(cause.data.actual or "", _LONG_VALUE)}"'


def _answer_change(cause: CauseReport, base: str) -> str:
    data = cause.data
    if data.gone and data.new:
        return f"The answers say {_quoted(data.new)} instead of {_quoted(data.gone)}"
    return f"The answers {'no longer ' if base else 'do not '}say {_quoted(data.gone)}" if data.gone else (
        f"The answers {'now ' if base else ''}say {_quoted(data.new)}"
    )  # fmt: skip


def _criterion(cause: CauseReport, base: str) -> str:
    other = f"; on {base} it says yes" if base else ""
    return f"{_measure(cause.data)} says no{other}"


def _measure(data: CauseData) -> str:
    return f"{_name(data.metric)} ({_name(data.rubric)})" if data.rubric else _name(data.metric)


def _argument_line(data: CauseData) -> str:
    if data.renamed and data.new and data.gone:
        return f"{_name(data.tool)} is called with {_named(data.new)} instead of {_named(data.gone)}"
    return f"{_name(data.tool)} is called with " + (
        f"another {_named(data.names)}" if data.names else "other arguments"
    )


def _sub_agent_line(data: CauseData) -> str:
    if data.expected:
        return f"{_name(data.expected)} is not reached"
    return f"{_name(data.actual or '')} is reached as well"


def _exception_line(data: CauseData) -> str:
    subject = data.tool or (data.place.symbol if data.place is not None else "") or data.agent or "the agent"
    return f"{_name(subject)} raises {_name(data.exception)}"


def _answer_change_line(data: CauseData) -> str:
    return "the answers lack words" if data.gone else "the answers have other words"


_SENTENCES: Mapping[str, Callable[[CauseReport, str], str]] = {
    "tool-error": _tool_error,
    "tool-empty": lambda cause, _: f"{_name(cause.data.tool)} returned {_value(cause.data.actual)}",
    "tool-response": _tool_response,
    "call-argument": _call_argument,
    "call-missing": _call_missing,
    "call-extra": _call_extra,
    "sub-agent": _sub_agent,
    "exception": _exception,
    "deadline": _deadline,
    "toolset": lambda cause, _: f"{_name(cause.data.tool)} has no tools: {_cut(cause.data.actual or '', _LONG_VALUE)}",
    "answer": _answer,
    "answer-change": _answer_change,
    "criterion": _criterion,
}
_LINES: Mapping[str, Callable[[CauseData], str]] = {
    "tool-error": lambda data: f"{_name(data.tool)} reports an error",
    "tool-empty": lambda data: f"{_name(data.tool)} returns nothing",
    "tool-response": lambda data: (
        f"{_name(data.tool)} returns " + (f"another {_named(data.names)}" if data.names else "something else")
    ),
    "call-argument": _argument_line,
    "call-missing": lambda data: f"{_name(data.tool)} is not called",
    "call-extra": lambda data: f"{_name(data.tool)} is called as well",
    "sub-agent": _sub_agent_line,
    "exception": _exception_line,
    "deadline": lambda data: f"{_name(data.tool)} does not return in time",
    "toolset": lambda data: f"{_name(data.tool)} has no tools",
    "answer": lambda data: "the same answer",
    "answer-change": _answer_change_line,
    "criterion": lambda data: f"{_measure(data)} says no",
}
