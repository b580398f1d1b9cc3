"""A proposal in words: what changes turn by turn, and what the scores become. Safe to print."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from agent_eval_results.report.views import folded
from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, text_of
from agent_eval_scoring.core.invocation import Invocation, intermediate_responses, tool_calls, tool_responses
from agent_eval_scoring.core.text import listed, shorten, without_commands
from agent_eval_scoring.criteria import literal, render_call
from agent_eval_workbench.authoring.choosing import call_key
from agent_eval_workbench.authoring.proposals import MetricScores, Proposal, what_would_hold
from agent_eval_workbench.authoring.prospects import Prospect

Paint = Callable[[str, str], str]
"""Colours a text: name of the colour, text."""
_USER, _LINE = 200, 600
_TOKEN = re.compile(r"\s+|[^\s\w]+|\w+")
_EXCEPTION = re.compile(r"Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b")
_APOLOGY = re.compile(
    r"\b(?:sorry|apologi[sz]e|(?:un|not )able to|(?:could|can)(?:n['’]t|not| not)|entschuldig|lo siento|désolé)"
    r"|申し訳|抱歉|对不起|죄송",
    re.IGNORECASE,
)
_COLORS = {"red": "31", "green": "32", "cyan": "36", "bold": "1", "dim": "2", "yellow": "33"}
_NAMES = {"calls": "calls", "final": "answer", "intermediate": "responses before the answer"}


def painter(*, color: bool) -> Paint:
    """A function that writes ANSI colours, or none."""
    return lambda name, text: f"\x1b[{_COLORS[name]}m{text}\x1b[0m" if color and text else text


def header(proposal: Proposal, number: int, total: int) -> str:
    """`[3/12] evals/home.test.json:garage · newly failing · 3 of 5 runs alike`."""
    item = proposal.prospect
    runs = len(item.runs)
    parts = [f"[{number}/{total}] {safe(item.report.case_id)}"]
    parts += [item.label] if item.label else []
    parts += ["quarantined"] if item.report.is_quarantined else []
    parts += [f"{proposal.alike} of {runs} runs alike" if runs > 1 else f"run {proposal.run.run + 1}"]
    return " · ".join(parts)


def shared_cause(item: Prospect, alike: int) -> Iterator[str]:
    """The cause that a case shares with others of the review.

    Args:
        item: The case.
        alike: The number of cases of the review with its cause, including it.
    """
    if item.cause is not None and alike > 1:
        yield f"{alike} cases, one cause: {safe(item.cause.message)}"
        yield "  Look at this one; x skips all of them."


def body(proposal: Proposal, paint: Paint) -> Iterator[str]:
    """The lines of a proposal: each turn that changes, then the scores."""
    before, after = proposal.prospect.case.conversation or [], proposal.case.conversation or []
    several = len(before) > 1
    # Not strict: in the editor a user may have removed a turn.
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        lines = [*_turn(old, new, paint)]
        if lines:
            lines += _responses(proposal, number, paint)
            yield paint("dim", f"  turn {number + 1}: " if several else "  user: ") + safe(
                shorten(text_of(old.user_content), _USER)
            )
            yield from lines
    if len(before) != len(after):
        yield f"  {len(before)} turns → {len(after)} turns"
    yield from scores(proposal, paint)
    yield from (paint("yellow", f"  {remark}") for remark in _warnings(proposal))


def scores(proposal: Proposal, paint: Paint) -> Iterator[str]:
    """The scores before and after, and whether the case holds."""
    runs = len(proposal.prospect.runs)
    for old, new in zip(proposal.before, proposal.after, strict=True):
        yield "  " + _scores(old, new, paint)
    if runs > 1 and proposal.after:
        common = ", common calls" if proposal.calls_from == "common" and "calls" in proposal.fields else ""
        yield f"  {proposal.passing} of {runs} runs pass (expectation: run {proposal.run.run + 1}{common})"
    if proposal.under:
        counts = ", ".join(f"{match_type.name} {count}" for match_type, count in proposal.under.items())
        yield paint("dim", f"  runs whose calls would pass by match_type: {counts}")
    if not proposal.holds:
        yield paint("yellow", "  No single conversation holds for this case. ") + what_would_hold(proposal)
    for name in proposal.judged:
        yield paint("dim", f"  {name} is judged by a model and not scored again here")


def summary(proposal: Proposal) -> str:
    """One line about an accepted proposal."""
    runs = len(proposal.prospect.runs)
    changes = [
        f"{new.name} {_number(old.mean)} → {_number(new.mean)}"
        for old, new in zip(proposal.before, proposal.after, strict=True)
    ]
    if runs > 1 and proposal.after:
        changes.append(f"{proposal.passing} of {runs} runs pass")
    changes += [text[0].lower() + text[1:] for text in tool_trouble(proposal)]
    fields = ", ".join(_NAMES[name] for name in proposal.fields)
    return f"{safe(proposal.prospect.report.case_id)}: {fields}" + (f" ({'; '.join(changes)})" if changes else "")


def tool_trouble(proposal: Proposal) -> dict[str, list[int]]:
    """Suspicious results of tools (errors, nothing), with their turns, 1-based."""
    trouble = {
        "A tool returned an error": _turns_with(proposal, lambda response: response.is_error),
        "A tool returned nothing": _turns_with(proposal, lambda response: response.is_empty),
    }
    for number, turn in enumerate(proposal.run.invocations, start=1):
        for lost in (each for each in turn.lost_toolsets if not each.is_placeholder):
            error = shorten(safe(lost.error.split("\n")[0]), _LINE)
            trouble.setdefault(f"{safe(lost.toolset)} had no tools ({error})", []).append(number)
    return {text: turns for text, turns in trouble.items() if turns}


def _warnings(proposal: Proposal) -> Iterator[str]:
    """Warnings about details that a quick look may miss."""
    for text, turns in tool_trouble(proposal).items():
        yield f"{text} in turn {_numbers(turns)}."
    before, after = (
        Counter(call.name for turn in case.conversation or () for call in tool_calls(turn.intermediate_data))
        for case in (proposal.prospect.case, proposal.case)
    )
    # The most dangerous change to accept: a case that no longer expects a call passes without it.
    if removed := sorted(safe(name or "") for name in before - after):
        yield f"No longer expects a call of {listed(removed, 5)}."
    # An agent that repeats its tool's error passes for ever once that is accepted.
    if turns := _answers_that_get(proposal, _EXCEPTION):
        yield f"The answer of turn {_numbers(turns)} has the text of an exception."
    if turns := _answers_that_get(proposal, _APOLOGY):
        yield f"The answer of turn {_numbers(turns)} reads like an apology."
    runs = len(proposal.prospect.runs)
    if proposal.alike < runs:
        yield f"{runs - proposal.alike} of {runs} runs made other calls."


def _turns_with(proposal: Proposal, is_so: Callable[[FunctionResponse], bool]) -> list[int]:
    """The changed turns, 1-based, in which a response of the run is so."""
    turns = proposal.run.invocations
    return [
        number + 1
        for number in sorted(proposal.turns)
        if any(map(is_so, tool_responses(turns[number].intermediate_data)))
    ]


def _answers_that_get(proposal: Proposal, pattern: re.Pattern[str]) -> list[int]:
    """The turns, 1-based, whose expected answer has a text that the old one does not have."""
    turns = zip(proposal.prospect.case.conversation or (), proposal.case.conversation or (), strict=False)
    return [
        number
        for number, (old, new) in enumerate(turns, 1)
        # Only what is new: a case may expect an apology.
        if pattern.search(text_of(new.final_response)) and not pattern.search(text_of(old.final_response))
    ]


def _numbers(turns: Sequence[int]) -> str:
    return listed([*map(str, turns)], 5)


def _responses(proposal: Proposal, number: int, paint: Paint) -> Iterator[str]:
    """The results of the tools in a turn of the run: they often explain the new answer."""
    turns = proposal.run.invocations
    responses = tool_responses(turns[number].intermediate_data) if number < len(turns) else []
    if responses:
        yield paint("dim", "    returned")
    for response in responses:
        text = shorten(literal(response.response), _USER)
        yield paint("dim", f"      {safe(response.name or '')}: {safe(text)}")


def safe(text: str) -> str:
    """Untrusted text on one line."""
    return without_commands(folded(text))


def _scores(old: MetricScores, new: MetricScores, paint: Paint) -> str:
    good = new.mean is not None and new.mean >= new.threshold
    return (
        f"{new.name} {_number(old.mean)} → "
        + paint("green" if good else "red", _number(new.mean))
        + paint("dim", f" (needs {new.threshold:g})")
    )


def _number(score: float | None) -> str:
    return "no score" if score is None else f"{score:.2f}"


def _turn(old: Invocation, new: Invocation, paint: Paint) -> Iterator[str]:
    if text_of(old.user_content) != text_of(new.user_content):
        yield paint("dim", "    message")
        yield from _text(text_of(old.user_content), text_of(new.user_content), paint)
    calls = [*_calls(tool_calls(old.intermediate_data), tool_calls(new.intermediate_data), paint)]
    if calls:
        yield paint("dim", "    calls")
        yield from calls
    said = [[f"{author}: {text}" for author, text in intermediate_responses(turn)] for turn in (old, new)]
    if said[0] != said[1]:
        yield paint("dim", "    responses before the answer")
        yield from _text("\n".join(said[0]), "\n".join(said[1]), paint)
    answers = text_of(old.final_response), text_of(new.final_response)
    if answers[0] != answers[1]:
        yield paint("dim", "    answer")
        yield from _text(*answers, paint)


def _calls(old: Sequence[FunctionCall], new: Sequence[FunctionCall], paint: Paint) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, [*map(call_key, old)], [*map(call_key, new)], autojunk=False)
    opcodes = matcher.get_opcodes()
    if all(tag == "equal" for tag, *_ in opcodes):
        return
    for tag, start, end, new_start, new_end in opcodes:
        if tag == "equal":
            yield from (f"      {safe(render_call(call))}" for call in old[start:end])
            continue
        added = list(new[new_start:new_end])
        for call in old[start:end]:
            # One line for a call whose args have changed, instead of one removed and one added.
            same = next((other for other in added if other.name == call.name), None)
            if same is None:
                yield paint("red", f"    - {safe(render_call(call))}")
            else:
                added.remove(same)
                yield f"    ~ {safe(same.name or '')}: {_args(call, same, paint)}"
        for call in added:
            yield paint("green", f"    + {safe(render_call(call))}")


def _args(old: FunctionCall, new: FunctionCall, paint: Paint) -> str:
    before, after = old.args or {}, new.args or {}
    changes = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name in before and name in after and _value_key(before[name]) == _value_key(after[name]):
            continue
        left = paint("red", safe(literal(before[name]))) if name in before else "(none)"
        right = paint("green", safe(literal(after[name]))) if name in after else "(none)"
        changes.append(f"{safe(name)}: {left} → {right}")
    return ", ".join(changes) or "args: (none) → {}"


def _value_key(value: object) -> str:
    """Equal for equal JSON values."""
    return call_key(FunctionCall(args={"value": value}))


def _text(old: str, new: str, paint: Paint) -> Iterator[str]:
    """A line diff of two texts, with the words that changed in lines that are paired."""
    before, after = old.splitlines() or [""], new.splitlines() or [""]
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        removed, added = before[start:end], after[new_start:new_end]
        if tag == "equal":
            yield from (f"      {_cut(line)}" for line in removed)
            continue
        for left, right in zip(removed, added, strict=False):
            words = _words(left, right, paint)
            yield from words
        shorter = min(len(removed), len(added))
        yield from (paint("red", f"    - {_cut(line)}") for line in removed[shorter:] if line or not shorter)
        yield from (paint("green", f"    + {_cut(line)}") for line in added[shorter:] if line or not shorter)


def _words(left: str, right: str, paint: Paint) -> Iterator[str]:
    old, new = _TOKEN.findall(_cut(left)), _TOKEN.findall(_cut(right))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    # Two lines with little in common: words that happen to be equal would only confuse.
    if matcher.ratio() < 0.3:
        if left:
            yield paint("red", f"    - {_cut(left)}")
        if right:
            yield paint("green", f"    + {_cut(right)}")
        return
    minus, plus = [], []
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        removed, added = "".join(old[start:end]), "".join(new[new_start:new_end])
        minus.append(removed if tag == "equal" else paint("red", f"[-{removed}-]") if removed else "")
        plus.append(added if tag == "equal" else paint("green", f"{{+{added}+}}") if added else "")
    yield f"    - {''.join(minus)}"
    yield f"    + {''.join(plus)}"


def _cut(line: str) -> str:
    return safe(shorten(line, _LINE))
