"""What lowered the score of a turn, a line each. Values and calls are short texts already (`criteria.literal`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval_scoring.core.text import plural

SENTENCES: Mapping[str, str] = {
    "calls-reordered": "expected calls in a different order; match_type {kind} requires the order of the eval file",
    "calls-matched": "{count:,} of {expected:,} expected calls matched",
    "expected-calls-made": "{count:,} of {expected:,} expected calls made",
    "call-out-of-order": "order: {call} expected as call {at}, was call {was}",
    "args-omitted": 'the eval file omits "args", the call has {{}}: not the same (as in ADK); write "args": {{}}',
    "args-empty": 'the eval file gives "args": {{}}, the call has none: not the same (as in ADK)',
    "more-arguments": "more arguments differ",
    "args-differ-below": "the args differ below the compared depth",
    "value-missing": "missing, expected {wanted}",
    "value-extra": "not expected, got {got}",
    "node-output": "the workflow's last node returned a value, and only a `Content` or a model's text is an answer",
    "words-reordered": "the same words in a different order",
    "expected-text-empty": "the expected text is empty",
    "answer-empty": "the agent gave no text to compare",
    "texts-differ": "the texts are not equal",
    "distinct-words": "{count:,} of {total:,} distinct words are in both texts",
    "denied": "the answer denies: {wanted}",
    "not-denied": "the answer does not deny, as expected: {wanted}",
    "responses-matched": "{count:,} of {expected:,} expected intermediate responses have a counterpart",
    "response-missing": "missing: {subject}: {wanted}",
}


def no_calls_expected(count: int) -> str:
    return f"no calls expected, {plural(count, 'call')} made"


def no_calls_made(expected: int) -> str:
    return f"{plural(expected, 'call')} expected, none made"


def made_calls_expected(count: int, total: int) -> str:
    return f"{count:,} of {total:,} calls made {'was' if count == 1 else 'were'} expected"


def calls_matched_in_part(count: int, expected: int, total: int) -> str:
    return f"{count:,} of {max(expected, total):,} calls matched ({expected:,} expected, {total:,} made)"


def matching_calls(names: Mapping[str, int], more: int = 0) -> str:
    return f"matched: {_counted(names, more)}"


def tool_not_called(subject: str, total: int) -> str:
    return f"{subject} was not called in {'the turn' if total == 1 else f'any of {total:,} turns'}"


def tool_rules_kept(count: int, total: int) -> str:
    return f"{count:,} of {plural(total, 'rule')} kept"


def tool_rule_broken(kind: str, names: Mapping[str, int], count: int = 0) -> str:
    tools = list(names)
    return {
        "before": f"{tools[-1]} was called before {tools[0]}",
        "succeeds": f"an error of {tools[0]} was passed over: no later call of it succeeded",
        "success_before": f"{tools[-1]} was called before {tools[0]} had succeeded",
        "at_most": f"{tools[0]} was called more than {plural(count, 'time')}",
        "some_of": f"none of these was called: {', '.join(tools)}",
    }.get(kind, f"{tools[0]} was called, which the rule forbids")


def state_as_expected(count: int, total: int) -> str:
    return f"{count:,} of {plural(total, 'key')} as expected"


def called_instead(names: Mapping[str, int], more: int = 0) -> str:
    return f"called instead: {_counted(names, more)}"


def call_missing(call: str, at: int = 0) -> str:
    return f"missing: {call}{f' (expected as call {at})' if at else ''}"


def call_inside(call: str, subject: str, got: str = "") -> str:
    return f"{call}: called inside {subject}{f' as {got}' if got else ''}, not counted"


def call_extra(call: str, was: int = 0) -> str:
    return f"extra: {call}{f' (call {was})' if was else ''}"


def call_differs(call: str, because: str, at: int = 0, was: int = 0) -> str:
    place = f" (call {at})" if at == was else f" (expected as call {at}, was call {was})"
    return f"{call}: {because}{place if at else ''}"


def items_counted(expected: int, count: int, wanted: str, got: str) -> str:
    return f"expected {plural(expected, 'item')}, got {count:,}: {values_differ(wanted, got)}"


def items_reordered(wanted: str, got: str) -> str:
    return f"same items in a different order: {values_differ(wanted, got)}"


_ARTICLES: Mapping[str, str] = {"null": "null", "text": "text", "object": "an object"}


def values_differ(wanted: str, got: str, kinds: Sequence[str] = ()) -> str:
    here = [_ARTICLES.get(kind, f"a {kind}") for kind in kinds]
    return f"expected {wanted}, got {got}" + (f" (expected {here[0]}, not {here[1]})" if len(here) > 1 else "")


def value_unaccepted(kind: str, got: str, wanted: str, note: str = "") -> str:
    """A value that the rule for its argument refuses."""
    return f"{values_differ(wanted, got)} ({kind}{f': {note}' if note else ''})"


def texts_differ_at(wanted: str, got: str, at: int) -> str:
    return f"{values_differ(wanted, got)} (first difference at character {at:,})"


def whitespace_differs(wanted: str, got: str) -> str:
    return f"{values_differ(wanted, got)} (only whitespace differs)"


def characters_look_alike(wanted: str, got: str) -> str:
    return f"{values_differ(wanted, got)} (different characters that look alike)"


def capitals_differ(wanted: str, got: str) -> str:
    return f"{values_differ(wanted, got)} (only upper and lower case differ)"


def reference_without_words(*, blank: bool) -> str:
    other = "; `response_similarity` scores 1 if both have none" if blank else ""
    return f"the reference has {_content(blank=blank)}; any answer scores 0 (as in ADK{other})"


def answer_without_words(*, blank: bool) -> str:
    return f"the answer has {_content(blank=blank)}"


def _content(*, blank: bool) -> str:
    return "no text" if blank else "no words, only punctuation or symbols"


def words_found(count: int, expected: int, total: int, recall: float, precision: float) -> str:
    return (
        f"{count:,} of {expected:,} expected words found (recall {recall:.2f}); {count:,} of {total:,} words given "
        f"{'was' if count == 1 else 'were'} expected (precision {precision:.2f})"
    )


def missing_words(names: Mapping[str, int], more: int = 0) -> str:
    return f"missing words: {_counted(names, more)}"


def unexpected_words(names: Mapping[str, int], more: int = 0) -> str:
    return f"unexpected words: {_counted(names, more)}"


def not_contained(kind: str) -> str:
    return {
        "actual_contains_expected": "the answer does not contain the expected text",
        "expected_contains_actual": "the expected text does not contain the answer",
    }.get(kind, "neither text contains the other")


def edit_distance(count: int, total: int) -> str:
    return f"edit distance {count:,} of {plural(total, 'character')}"


def common_words(kind: str, count: int, expected: int, total: int, recall: float, precision: float) -> str:
    unit = {"rouge2": "common pairs of words", "rougeL": "words in the same order"}.get(kind, "common words")
    return (
        f"{count:,} {unit}, of {expected:,} expected (recall {recall:.2f}) and {total:,} given "
        f"(precision {precision:.2f})"
    )


def facts_differ(
    count: int, expected: int, names: Mapping[str, int] = {}, others: Sequence[str] = (), more: int = 0
) -> str:
    parts = [f"{_counted(names, more)} {'is' if len(names) + more == 1 else 'are'} missing"] if names else []
    parts += [f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} new"] if others else []
    found = [f"{count:,} of {plural(expected, 'expected fact')} found"] if expected or not parts else []
    return "; ".join([*parts, *found])


def response_differs(subject: str, rate: float, parts: Sequence[str]) -> str:
    return f"{subject}: similarity {rate:.2f}: {'; '.join(parts)}"


def further_lines(more: int) -> str:
    return f"… and {f'{more:,}' if more < 1_000 else '1,000 or'} more"


def judged(subject: str = "", result: str = "", votes: str = "", message: str = "") -> str:
    about = f"{subject}: " if subject else ""
    return f"{about}{result or 'no verdict'}{f' ({votes})' if votes else ''}: {message or 'no reason given'}"


def _counted(names: Mapping[str, int], more: int) -> str:
    """`light, off (2 times), …`."""
    shown = [name + (f" ({count} times)" if count > 1 else "") for name, count in names.items()]
    return ", ".join(shown) + (f", … and {more:,} more" if more else "")
