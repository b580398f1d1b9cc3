"""Explains why a turn scored low, for pull request comments, JUnit reports and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.masking import PLACEHOLDER
from agent_eval_scoring.core.reason import Facts, Reason
from agent_eval_scoring.core.text import plural, shorten
from agent_eval_scoring.criteria._alignment import Alignment, align
from agent_eval_scoring.criteria._differences import describe_differences, literal, name_of, render_call
from agent_eval_scoring.criteria._sequences import Rouge
from agent_eval_scoring.criteria.calls import ArgsMatch
from agent_eval_scoring.criteria.tokenize import stem, words
from agent_eval_scoring.evalset.models import MatchType

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
) -> tuple[Reason, ...]:
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
        alignment, expected, actual, args=args, moved=order_matters, missing=True, extra=match_type is MatchType.EXACT
    )
    return bounded(summary, _never_none(differences))


def explain_share(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    matched: int,
    of_expected: bool,
    args: ArgsMatch = ArgsMatch.EXACT,
) -> tuple[Reason, ...]:
    """Explains why precision (or recall, if `of_expected`) of a turn is below 1: extra or missing calls."""
    alignment = align(expected, actual, args=args)
    if of_expected:
        summary = Reason.of("expected-calls-made", count=matched, expected=len(expected))
    else:
        summary = Reason.of("made-calls-expected", count=matched, total=len(actual))
    differences = _differences(
        alignment, expected, actual, args=args, moved=False, missing=of_expected or not actual, extra=not of_expected
    )
    return bounded(summary, _never_none(differences))


def explain_partial(
    alignment: Alignment,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    args: ArgsMatch,
    ordered: bool,
) -> tuple[Reason, ...]:
    """Explains why the calls of a turn match only in part: what matched, then missing, different and extra calls."""
    matched = [name_of(expected[i].name) for i, _ in alignment.matched]
    summary = Reason.of("calls-matched-in-part", count=len(matched), expected=len(expected), total=len(actual))
    differences = _differences(alignment, expected, actual, args=args, moved=ordered, missing=True, extra=True)
    lines = _never_none(differences)
    return bounded(summary, chain([Reason.of("matching-calls", **counted(matched))], lines) if matched else lines)


def explain_single_tool(tool: str, called: Sequence[str | None], turns: int) -> tuple[Reason, ...]:
    """Explains why `trajectory_single_tool_use` is 0: the tools called instead, over all turns of the case."""
    summary = Reason.of("tool-not-called", subject=name_of(tool), total=turns)
    return bounded(summary, [Reason.of("called-instead", **counted(map(name_of, called)))] if called else [])


def explain_response(expected: str, actual: str, rouge: Rouge) -> tuple[Reason, ...]:
    """Explains why an answer doesn't match the reference: how many words match and, if they are few, which don't.

    Args:
        expected: The text of the reference.
        actual: The text of the answer.
        rouge: Their score.
    """
    if not rouge.reference_tokens:
        return (Reason.of("reference-without-words", blank=not expected.strip()),)
    if not rouge.prediction_tokens:
        return (Reason.of("answer-without-words", blank=not actual.strip()),)
    summary = Reason.of("words-found", **shares(rouge))
    lines = []
    ours, theirs = _words(expected), _words(actual)
    if 0 < len(set(lacking := surplus(ours, theirs))) <= FEW_WORDS:
        lines.append(Reason.of("missing-words", **counted(lacking)))
    if 0 < len(set(unasked := surplus(theirs, ours))) <= FEW_WORDS:
        lines.append(Reason.of("unexpected-words", **counted(unasked)))
    return bounded(summary, lines)


def _words(text: str) -> list[str]:
    """The words of a text; the placeholder of a secret is one, but `***bold***` is none."""
    parts = PLACEHOLDER.split(text)
    return [word for at, part in enumerate(parts) for word in ([part] if at % 2 and part.isupper() else words(part))]


def shares(rouge: Rouge) -> Facts:
    """Words in common, expected and given, and their shares."""
    return {
        "count": rouge.overlap,
        "expected": rouge.reference_tokens,
        "total": rouge.prediction_tokens,
        "recall": rouge.recall,
        "precision": rouge.precision,
    }


def _summary(
    matched: int,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    alignment: Alignment,
    match_type: MatchType,
) -> Reason:
    if not expected:
        return Reason.of("no-calls-expected", count=len(actual))
    if not actual:
        return Reason.of("no-calls-made", expected=len(expected))
    if alignment.moved and not (alignment.changed or alignment.missing or alignment.extra):
        return Reason.of("calls-reordered", kind=match_type.name)
    return Reason.of("calls-matched", count=matched, expected=len(expected))


def _differences(
    alignment: Alignment,
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    args: ArgsMatch,
    moved: bool,
    missing: bool,
    extra: bool,
) -> Iterator[Reason]:
    """The differences in the order of the expected calls, then the extra calls."""
    ignore_args, subset = args is ArgsMatch.IGNORE, args is ArgsMatch.SUBSET
    many = len(expected) > 1 or len(actual) > 1
    changed, out_of_order, absent = dict(alignment.changed), dict(alignment.moved), set(alignment.missing)
    for i, call in enumerate(expected):
        if i in changed:
            at, was = (i + 1, changed[i] + 1) if many else (0, 0)
            for where, difference in describe_differences(call, actual[changed[i]], subset=subset):
                yield Reason.of("call-differs", call=where, because=difference, at=at, was=was)
        elif i in out_of_order and moved:
            name = render_call(call, ignore_args=ignore_args)
            yield Reason.of("call-out-of-order", call=name, at=i + 1, was=out_of_order[i] + 1)
        elif i in absent and missing:
            at = i + 1 if len(expected) > 1 else 0
            yield Reason.of("call-missing", call=render_call(call, ignore_args=ignore_args), at=at)
    if extra:
        for j in alignment.extra:
            was = j + 1 if len(actual) > 1 else 0
            yield Reason.of("call-extra", call=render_call(actual[j], ignore_args=ignore_args), was=was)


def _never_none(lines: Iterator[Reason]) -> Iterator[Reason]:
    """The lines, or a line that says why there are none: scores compare args at any depth, explanations don't."""
    first = next(lines, None)
    yield first or Reason.of("args-differ-below")
    yield from lines


def bounded(summary: Reason, lines: Iterable[Reason]) -> tuple[Reason, ...]:
    """The summary, at most MOST_LINES lines, and the number of further lines (counted up to 1,000)."""
    rest = iter(lines)
    shown = [summary, *islice(rest, MOST_LINES)]
    if left := sum(1 for _ in islice(rest, 1_000)):
        shown.append(Reason.of("further-lines", more=left))
    return tuple(shown)


def surplus(ours: Sequence[str], theirs: Sequence[str], token_of: Callable[[str], str] = stem) -> list[str]:
    """The words of one text that the other lacks, as spelled, in order."""
    available = Counter(map(token_of, theirs))
    surplus: list[str] = []
    for word in ours:
        token = token_of(word)
        if available[token]:
            available[token] -= 1
        else:
            surplus.append(word)
    return surplus


def counted(names: Iterable[str]) -> Facts:
    """How often each name is there, in order of first appearance, and how many names are left out."""
    counts = Counter(names)
    shown = {
        shorten(name, 60) if name.isprintable() else literal(name, 60): count
        for name, count in islice(counts.items(), _MOST_NAMES)
    }
    return {"names": shown, "more": max(len(counts) - _MOST_NAMES, 0)}
