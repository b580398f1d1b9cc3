"""What cases answer or do otherwise than on the base branch. The values are untrusted text, on one line."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval_results import ChangedAnswer, ChangedValue
from agent_eval_results.report.views import case_name, one_line
from agent_eval_results.report.views.grouping import View
from agent_eval_scoring.core.text import listed, plural, shorten

_NOTHING = "nothing"
_BRIEF, _LONG = 30, 200
_MOST_NAMES = 2


def sides(value: ChangedValue, limit: int = _LONG) -> tuple[str, str]:
    """What the base branch says, and what is said now."""
    before, after = (_NOTHING if said is None else one_line(said) for said in (value.before, value.after))
    return shorten(before, limit), shorten(after, limit)


def changed_place(value: ChangedValue) -> str:
    """Where a value is: `answer`, `get_sales.thousand`, `get_sales(quarter)`."""
    if value.kind == "answer":
        return f"answer of turn {value.turn + 1}" if value.turn else "answer"
    name = one_line(value.path)
    if value.kind == "call":
        return f"{one_line(value.tool)}({name})" if name else f"calls of {one_line(value.tool)}"
    owner = "state" if value.kind == "state" else one_line(value.tool)
    return f"{owner}.{name}" if name else owner


def changed_lines(changed: ChangedAnswer, most: int = 5) -> list[str]:
    """A line for each value, e.g. `get_sales.thousand: 150 → 0`."""
    lines = [f"{changed_place(value)}: {' → '.join(sides(value))}" for value in changed.values[:most]]
    left = len(changed.values) - len(lines) + changed.more
    return [*lines, f"and {plural(left, 'more value')}"] if left > 0 else lines


def answer_lines(view: View, case_id: str) -> list[str]:
    """The same under what it is, for a page about a case; empty for nothing."""
    changed = view.answers.get(case_id)
    if changed is None:
        return []
    return [f"{changed_verb(view, changed)}:", *(f"  {line}" for line in changed_lines(changed))]


def changed_verb(view: View, *changed: ChangedAnswer) -> str:
    """E.g. `answer differently from main`."""
    answers = any(value.kind == "answer" for each in changed for value in each.values)
    return f"{'answer' if answers else 'act'}{'' if len(changed) > 1 else 's'} differently from {view.branch}"


def changed_title(view: View, changed: Sequence[ChangedAnswer]) -> str:
    """E.g. `2 passing cases answer differently from main`; `changed` are cases of one report, at least one."""
    noun = "passing case" if all(each.passes for each in changed) else "case"
    return f"{plural(len(changed), noun)} {changed_verb(view, *changed)}"


def changed_sentence(view: View, *, words: bool) -> str:
    """The same of the passing cases, with `words` also the first values: `...: q2 (150 → 0)`; "" if there is none."""
    passing = [changed for changed in view.answers.values() if changed.passes]
    names = [case_name(changed) + f" ({_first_change(changed)})" * words for changed in passing]
    return f"{changed_title(view, passing)}: {listed(names, _MOST_NAMES)}" if passing else ""


def _first_change(changed: ChangedAnswer) -> str:
    """The first value: of a call or a tool if there is one, since the answer follows from it."""
    value = next((value for value in changed.values if value.kind != "answer"), changed.values[0])
    place = "" if value.kind == "answer" else f"{shorten(changed_place(value), _BRIEF)}: "
    return place + " → ".join(sides(value, _BRIEF))


def changed_note(changed: ChangedAnswer | None) -> str:
    """What a case says otherwise, on one line; "" for nothing."""
    return "" if changed is None else "; ".join(changed_lines(changed, 3))


def changed_overview(view: View, most: int = 10) -> list[str]:
    """The cases under a title, a line for each; empty for none."""
    changed = [*view.answers.values()]
    lines = [f"{case_name(each)}: {changed_note(each)}" for each in changed[:most]]
    more = [f"and {plural(len(changed) - most, 'more case')}"] if len(changed) > most else []
    return [f"{changed_title(view, changed)}:", *lines, *more] if changed else []
