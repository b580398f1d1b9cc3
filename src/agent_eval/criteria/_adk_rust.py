"""The scores of adk-rust's adk-eval crate (zavora-ai/adk-rust at 7fbc01fa), for criteria with `compat: "adk-rust"`.

They differ from ours: ROUGE-N is the recall over distinct n-grams, tokens keep punctuation, an empty text is contained
in every text, and calls are matched greedily. The texts of several turns are averaged by halves (`halving_mean`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agent_eval.core.content import Content, FunctionCall
from agent_eval.criteria._matching import Pairs
from agent_eval.criteria._other_alphabetic import is_other_alphabetic
from agent_eval.criteria._sequences import common_length, edit_distance
from agent_eval.evalset.models import SimilarityAlgorithm

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
