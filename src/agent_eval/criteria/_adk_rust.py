"""The scores of adk-rust's adk-eval crate (zavora-ai/adk-rust at 7fbc01fa), for criteria with `compat: "adk-rust"`.

They differ from ours: ROUGE-N is the recall over distinct n-grams, tokens keep punctuation, an empty text is contained
in every text, and calls are matched greedily. The texts of several turns are averaged by halves (`halving_mean`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from agent_eval.core.content import Content, FunctionCall
from agent_eval.criteria._sequences import Pairs, common_length, edit_distance
from agent_eval.evalset.models import SimilarityAlgorithm

_HEXADECIMAL = """
345 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e8 6ed 711-73f 7a6-7b0 816-817
81b-82c 8d4-8df 8e3-8e9 8f0-93b 93e-94c 94e-94f 955-963 981-983 9be-9cc 9d7-9e3 a01-a03 a3e-a4c a51-a75 a81-a83
abe-acc ae2-ae3 afa-afc b01-b03 b3e-b4c b56-b63 b82-bcc bd7 c00-c03 c3e-c4c c55-c63 c81-c83 cbe-ccc cd5-d03
d3e-d4c d57-d63 d81-d83 dcf-df3 e31-e3a e4d eb1-eb9 ebb-ebc ecd f71-f81 f8d-fbc 102b-1036 1038 103b-103e
1056-109d 1712-1713 1732-1733 1752-1773 17b6-17c8 1885-1938 1a17-1a1b 1a55-1a5e 1a61-1a74 1abf-1ac0 1acc-1b04
1b35-1b43 1b80-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1de7-1df4 24b6-24e9 2de0-2dff a674-a67b a69e-a69f a802
a80b-a827 a880-a8c3 a8c5 a8ff-a92a a947-a952 a980-a983 a9b4-a9bf a9e5-aa4d aa7b-aabe aaeb-aaef aaf5 abe3-abea
fb1e 10376-1037a 10a01-10a0f 10d24-10eac 11000-11045 11073-11074 11082-110b8 110c2 11100-11132 11145-11146
11180-111bf 111ce-111cf 1122c-11234 11237 1123e 112df-112e8 11300-11303 1133e-1134c 11357-11363 11435-11441
11443-11445 114b0-114c1 115af-115be 115dc-1163e 11640 116ab-116b5 1171d-1172a 1182c-11838 11930-1193c
11940-11942 119d1-119df 119e4-11a0a 11a35-11a3e 11a51-11a97 11c2f-11c3e 11c92-11d41 11d43 11d47-11d96
11ef3-11ef6 16f4f-16f92 16ff0-16ff1 1bc9e 1e000-1e02a 1e947 1f130-1f149 1f150-1f169 1f170-1f189
"""
"""Ranges, ascending. Unicode 14.0, Other_Alphabetic (https://www.unicode.org/reports/tr44/#Other_Alphabetic). A range
may include letters and unassigned characters, which need no distinction."""


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first, 16), int(last or first, 16)


_RANGES = [_range(text) for text in _HEXADECIMAL.split()]
_STARTS = [first for first, _ in _RANGES]


def is_other_alphabetic(character: str) -> bool:
    """Whether a character that `str.isalpha` denies is Alphabetic."""
    code = ord(character)
    at = bisect_right(_STARTS, code)
    return at > 0 and code <= _RANGES[at - 1][1]


_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space; Python's `str.split` also splits at U+001C to U+001F."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORDS = re.compile(f"[^{_SPACE}]+")
_TOKENS = re.compile(f"[{_CJK}]|[^{_SPACE}{_CJK}]+")
_KEPT_SPACE = re.compile(f"[{_SPACE}]")


def text(content: Content | None) -> str | None:
    """The text parts of a response without separators; None for no response."""
    parts = list(content.iter_parts()) if content is not None else []
    return "".join(part.text for part in parts if part.text) if parts else None


def normalized(value: str, *, ignore_case: bool, ignore_punctuation: bool) -> str:
    """The text in lower case, only with letters and digits, as far as asked for; white space collapsed."""
    if ignore_case:
        value = value.lower()
    if ignore_punctuation:
        value = "".join(character for character in value if _is_kept(character))
    return " ".join(_WORDS.findall(value))


def _is_kept(character: str) -> bool:
    """Rust's `is_alphanumeric` or `is_whitespace`."""
    return character.isalnum() or is_other_alphabetic(character) or bool(_KEPT_SPACE.match(character))


def tokens(value: str) -> list[str]:
    """Each Chinese, Japanese or Korean character is a token; others are separated by white space."""
    return _TOKENS.findall(value)


def similarity(algorithm: SimilarityAlgorithm, expected: str, actual: str) -> float:
    """The similarity of two normalized texts, 0..1. With CONTAINS either may contain the other."""
    match algorithm:
        case SimilarityAlgorithm.EXACT:
            return float(expected == actual)
        case SimilarityAlgorithm.CONTAINS:
            return float(expected in actual or actual in expected)
        case SimilarityAlgorithm.LEVENSHTEIN:
            longest = max(len(expected), len(actual))
            return 1.0 - edit_distance(expected, actual) / longest if longest else 1.0
        case SimilarityAlgorithm.JACCARD:
            ours, theirs = set(tokens(expected)), set(tokens(actual))
            return len(ours & theirs) / len(ours | theirs) if ours or theirs else 1.0
        case SimilarityAlgorithm.ROUGE1:
            return _distinct_recall(expected, actual, 1)
        case SimilarityAlgorithm.ROUGE2:
            return _distinct_recall(expected, actual, 2)
        case SimilarityAlgorithm.ROUGE_L:
            return _rouge_l(tokens(expected), tokens(actual))


def _distinct_recall(expected: str, actual: str, size: int) -> float:
    ours, theirs = _ngrams(tokens(expected), size), _ngrams(tokens(actual), size)
    if not ours:
        return 0.0 if theirs else 1.0
    return len(ours & theirs) / len(ours)


def _ngrams(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + size]) for start in range(len(words) - size + 1)}


def _rouge_l(ours: Sequence[str], theirs: Sequence[str]) -> float:
    if not ours:
        return 0.0 if theirs else 1.0
    common = common_length(ours, theirs)
    precision, recall = common / len(theirs) if theirs else 0.0, common / len(ours)
    return 2.0 * precision * recall / (precision + recall) if common else 0.0


def halving_mean(scores: Sequence[float]) -> float:
    """The score of a case: each turn's score counts as much as those of all earlier turns together."""
    mean = scores[0]
    for score in scores[1:]:
        mean = (mean + score) / 2.0
    return mean


def case_score(scores: Sequence[float], threshold: float) -> float:
    """`halving_mean`; below the threshold if any turn is, since each turn must reach it.

    Where the mean would hide such a turn, the score is that of the lowest turn.
    """
    mean, lowest = halving_mean(scores), min(scores)
    return lowest if lowest < threshold <= mean else mean


def same_call(expected: FunctionCall, actual: FunctionCall, *, strict_args: bool) -> bool:
    """Whether two calls match. Omitted args match only omitted args."""
    if expected.name != actual.name:
        return False
    ours, theirs = expected.args, actual.args
    if strict_args or ours is None or theirs is None:
        return _equal(ours, theirs)
    return all(key in theirs and _equal(value, theirs[key]) for key, value in ours.items())


def _equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal to serde_json, where 1, 1.0 and true differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and bool(left == right)


def match(
    expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], *, strict_order: bool, strict_args: bool
) -> Pairs:
    """The pairs of calls: each expected call takes the first free call that fits, after the last one if in order."""
    pairs: Pairs = []
    taken: set[int] = set()
    cursor = 0
    for i, call in enumerate(expected):
        for j in range(cursor, len(actual)):
            if j not in taken and same_call(call, actual[j], strict_args=strict_args):
                pairs.append((i, j))
                taken.add(j)
                cursor = j + 1 if strict_order else 0
                break
    return pairs
