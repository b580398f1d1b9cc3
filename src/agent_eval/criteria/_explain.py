"""Explains why a turn scored low, for pull request comments, JUnit reports and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from agent_eval.core.content import FunctionCall
from agent_eval.core.text import plural, shorten
from agent_eval.criteria._alignment import Alignment, align
from agent_eval.criteria._differences import describe_differences
from agent_eval.criteria._literal import literal, name_of, render_call
from agent_eval.criteria._sequences import Rouge
from agent_eval.criteria.calls import ArgsMatch
from agent_eval.criteria.tokenize import stem, words
from agent_eval.evalset.models import MatchType

LONGEST_LINE = 400
"""Maximum length of a `why` line, in characters."""
MOST_LINES = 12
"""Maximum number of `why` lines per turn, without the last one that counts the rest."""
MOST_CALLS = 40
"""Maximum number of calls listed per turn."""
LONGEST_TEXT = 4_000
"""Maximum length of `expected` and of `actual`, in characters."""
_MOST_NAMES = 20
FEW_WORDS = 7
"""Maximum number of missing or unexpected words to list. With more, reading the two texts is easier."""


def list_calls(calls: Sequence[FunctionCall], *, ignore_args: bool = False) -> str:
    """The calls of a turn, one per line; `(no tool calls)` for none. At most LONGEST_TEXT characters."""
    if not calls:
        return "(no tool calls)"
    lines = [render_call(call, ignore_args=ignore_args) for call in calls[:MOST_CALLS]]
    while len(lines) > 1 and sum(map(len, lines)) + len(lines) > LONGEST_TEXT - 60:
        lines.pop()
    if len(lines) < len(calls):
        lines.append(f"… and {plural(len(calls) - len(lines), 'more call')}")
    return "\n".join(lines)


def explain_trajectory(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    match_type: MatchType = MatchType.EXACT,
    args: ArgsMatch = ArgsMatch.EXACT,
) -> tuple[str, ...]:
    """Explains why the calls of a turn don't match the expected ones, as far as the match type requires it.

    Args:
        expected: The calls of the eval file.
        actual: The calls that the agent made.
        match_type: The match type of the criterion.
        args: How args were compared.

    Returns:
        A line with the number of matches, then one line per difference. No line has a line break.
    """
    order_matters = match_type is not MatchType.ANY_ORDER
    alignment = align(expected, actual, args=args, ordered=order_matters)
    matched = len(alignment.matched) + (0 if order_matters else len(alignment.moved))
    summary = _summary(matched, expected, actual, alignment, match_type)
    differences = _differences(
        alignment,
        expected,
        actual,
        args=args,
        moved=order_matters,
        missing=True,
        extra=match_type is MatchType.EXACT,
    )
    return bounded(summary, _never_none(differences))


def explain_share(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    matched: int,
    of_expected: bool,
    args: ArgsMatch = ArgsMatch.EXACT,
) -> tuple[str, ...]:
    """Explains why precision (or recall, if `of_expected`) of a turn is below 1: extra or missing calls."""
    alignment = align(expected, actual, args=args)
    if of_expected:
        summary = f"{matched:,} of {len(expected):,} expected calls made"
    else:
        summary = f"{matched:,} of {len(actual):,} calls made {'was' if matched == 1 else 'were'} expected"
    differences = _differences(
        alignment,
        expected,
        actual,
        args=args,
        moved=False,
        missing=of_expected,
        extra=not of_expected,
    )
    return bounded(summary, _never_none(differences))


def explain_partial(
    alignment: Alignment,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    args: ArgsMatch,
    ordered: bool,
) -> tuple[str, ...]:
    """Explains why the calls of a turn match only in part: what matched, then missing, different and extra calls."""
    matched = [name_of(expected[i].name) for i, _ in alignment.matched]
    of = max(len(expected), len(actual))
    summary = f"{len(matched):,} of {of:,} calls matched ({len(expected):,} expected, {len(actual):,} made)"
    differences = _differences(alignment, expected, actual, args=args, moved=ordered, missing=True, extra=True)
    lines = _never_none(differences)
    return bounded(summary, chain([f"matched: {counted(matched)}"], lines) if matched else lines)


def explain_single_tool(tool: str, called: Sequence[str | None], turns: int) -> tuple[str, ...]:
    """Explains why `trajectory_single_tool_use` is 0: the tools called instead, over all turns of the case."""
    line = f"{name_of(tool)} was not called in {'the turn' if turns == 1 else f'any of {turns:,} turns'}"
    return bounded(line, [f"called instead: {counted([name_of(name) for name in called])}"] if called else [])


def explain_response(expected: str, actual: str, rouge: Rouge) -> tuple[str, ...]:
    """Explains why an answer doesn't match the reference: how many words match and, if they are few, which don't.

    Args:
        expected: The text of the reference.
        actual: The text of the answer.
        rouge: Their score.
    """
    if not rouge.reference_tokens:
        content = "no text" if not expected.strip() else "no words, only punctuation or symbols"
        return (f"the reference has {content}; any answer scores 0 (as in ADK)",)
    if not rouge.prediction_tokens:
        return (f"the answer has {'no text' if not actual.strip() else 'no words, only punctuation or symbols'}",)
    lines = [
        f"{rouge.overlap:,} of {rouge.reference_tokens:,} expected words found (recall {rouge.recall:.2f}); "
        f"{rouge.overlap:,} of {rouge.prediction_tokens:,} words given "
        f"{'was' if rouge.overlap == 1 else 'were'} expected (precision {rouge.precision:.2f})"
    ]
    ours, theirs = words(expected), words(actual)
    if 0 < len(set(lacking := surplus(ours, theirs))) <= FEW_WORDS:
        lines.append(f"missing words: {counted(lacking)}")
    if 0 < len(set(unasked := surplus(theirs, ours))) <= FEW_WORDS:
        lines.append(f"unexpected words: {counted(unasked)}")
    return bounded(lines[0], lines[1:])


def _summary(
    matched: int,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    alignment: Alignment,
    match_type: MatchType,
) -> str:
    if not expected:
        return f"no calls expected, {plural(len(actual), 'call')} made"
    if not actual:
        return f"{plural(len(expected), 'call')} expected, none made"
    if alignment.moved and not (alignment.changed or alignment.missing or alignment.extra):
        return f"expected calls in a different order; match_type {match_type.name} requires the order of the eval file"
    return f"{matched:,} of {len(expected):,} expected calls matched"


def _differences(
    alignment: Alignment,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    args: ArgsMatch,
    moved: bool,
    missing: bool,
    extra: bool,
) -> Iterator[str]:
    """The differences in the order of the expected calls, then the extra calls."""
    ignore_args, subset = args is ArgsMatch.IGNORE, args is ArgsMatch.SUBSET
    many = len(expected) > 1 or len(actual) > 1
    changed, out_of_order, absent = dict(alignment.changed), dict(alignment.moved), set(alignment.missing)
    for i, call in enumerate(expected):
        if i in changed:
            place = _place(i, changed[i]) if many else ""
            for line in describe_differences(call, actual[changed[i]], subset=subset):
                yield line + place
        elif i in out_of_order and moved:
            name = render_call(call, ignore_args=ignore_args)
            yield f"order: {name} expected as call {i + 1}, was call {out_of_order[i] + 1}"
        elif i in absent and missing:
            place = f" (expected as call {i + 1})" if len(expected) > 1 else ""
            yield f"missing: {render_call(call, ignore_args=ignore_args)}{place}"
    if extra:
        for j in alignment.extra:
            place = f" (call {j + 1})" if len(actual) > 1 else ""
            yield f"extra: {render_call(actual[j], ignore_args=ignore_args)}{place}"


def _never_none(lines: Iterator[str]) -> Iterator[str]:
    """The lines, or a line that says why there are none: scores compare args at any depth, explanations don't."""
    first = next(lines, None)
    yield first or "the args of a call differ below the compared depth"
    yield from lines


def _place(i: int, j: int) -> str:
    return f" (call {i + 1})" if i == j else f" (expected as call {i + 1}, was call {j + 1})"


def bounded(summary: str, lines: Iterable[str]) -> tuple[str, ...]:
    """The summary, at most MOST_LINES lines, and the number of further lines (counted up to 1,000)."""
    rest = iter(lines)
    shown = [shorten(line, LONGEST_LINE) for line in islice(rest, MOST_LINES)]
    left = sum(1 for _ in islice(rest, 1_000))
    if left:
        shown.append(f"… and {left if left < 1_000 else '1,000 or'} more")
    return (shorten(summary, LONGEST_LINE), *shown)


def surplus(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """The words of one text that the other lacks, as spelled, in order."""
    available = Counter(map(stem, theirs))
    surplus: list[str] = []
    for word in ours:
        token = stem(word)
        if available[token]:
            available[token] -= 1
        else:
            surplus.append(word)
    return surplus


def counted(names: Sequence[str]) -> str:
    """`light, off (2 times), …`, in order of first appearance."""
    counts = Counter(names)
    shown = [
        (shorten(name, 60) if name.isprintable() else literal(name, 60)) + (f" ({count} times)" if count > 1 else "")
        for name, count in islice(counts.items(), _MOST_NAMES)
    ]
    more = f", … and {len(counts) - len(shown):,} more" if len(counts) > len(shown) else ""
    return ", ".join(shown) + more
