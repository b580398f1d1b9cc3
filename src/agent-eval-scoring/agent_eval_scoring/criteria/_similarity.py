"""The similarity of two texts by the algorithm of a criterion, 0..1, and its explanation. Pure functions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.criteria._differences import describe_texts
from agent_eval_scoring.criteria._explain import FEW_WORDS, bounded, counted, shares, surplus
from agent_eval_scoring.criteria._sequences import Rouge, edit_distance, rouge_l, rouge_n
from agent_eval_scoring.criteria.tokenize import stem, tokenize, words
from agent_eval_scoring.evalset.models import SimilarityAlgorithm

LONGEST_COMPARED = 20_000
"""Characters of a text; comparing two of this length takes up to a second."""

EXPECTED_IN_ACTUAL, ACTUAL_IN_EXPECTED, EITHER = ("actual_contains_expected", "expected_contains_actual", "either")

BY_TOKENS = frozenset(
    {SimilarityAlgorithm.JACCARD, SimilarityAlgorithm.ROUGE1, SimilarityAlgorithm.ROUGE2, SimilarityAlgorithm.ROUGE_L}
)
"""Algorithms that compare words, always without punctuation and regardless of white space."""


@dataclass(frozen=True, kw_only=True)
class SimilarityRules:
    """The options of a criterion, as in evalset's `ResponseSimilarityCriterion`."""

    algorithm: SimilarityAlgorithm = SimilarityAlgorithm.JACCARD
    normalize: bool = True
    ignore_case: bool = True
    ignore_punctuation: bool = False
    direction: str = EXPECTED_IN_ACTUAL
    """Of `contains`."""

    def prepare(self, text: str) -> str:
        """The text as it is compared."""
        text = unicodedata.normalize("NFC", text)
        if self.ignore_case:
            text = text.casefold()
        if self.ignore_punctuation:
            kept = "".join(character for character in text if not _is_punctuation(character))
            text = kept if kept.strip() else text  # "..." is not an empty answer
        text = unicodedata.normalize("NFC", text)
        return " ".join(text.split()) if self.normalize else text

    def tokens(self, text: str) -> list[str]:
        """The words of a text: stemmed, in lower case; as written if case matters."""
        return tokenize(text) if self.ignore_case else words(text, fold=False)

    def score(self, expected: str, actual: str) -> float:
        """The similarity of two prepared texts. An empty text is like no other."""
        if not expected or not actual:
            return float(expected == actual)
        match self.algorithm:
            case SimilarityAlgorithm.EXACT:
                return float(expected == actual)
            case SimilarityAlgorithm.CONTAINS:
                return float(self._contains(expected, actual))
            case SimilarityAlgorithm.LEVENSHTEIN:
                return 1.0 - edit_distance(expected, actual) / max(len(expected), len(actual))
            case _:
                return self._by_tokens(expected, actual)

    def _contains(self, expected: str, actual: str) -> bool:
        in_actual = self.direction in {EXPECTED_IN_ACTUAL, EITHER} and expected in actual
        return in_actual or (self.direction in {ACTUAL_IN_EXPECTED, EITHER} and actual in expected)

    def _by_tokens(self, expected: str, actual: str) -> float:
        ours, theirs = self.tokens(expected), self.tokens(actual)
        least = 2 if self.algorithm is SimilarityAlgorithm.ROUGE2 else 1
        if len(ours) < least or len(theirs) < least:
            return float(ours == theirs if ours or theirs else expected == actual)
        if self.algorithm is SimilarityAlgorithm.JACCARD:
            return len(set(ours) & set(theirs)) / len(set(ours) | set(theirs))
        return self.rouge(ours, theirs).f_measure

    def rouge(self, ours: Sequence[str], theirs: Sequence[str]) -> Rouge:
        """The overlap of two lists of tokens by a ROUGE algorithm."""
        if self.algorithm is SimilarityAlgorithm.ROUGE_L:
            return rouge_l(ours, theirs)
        return rouge_n(ours, theirs, 2 if self.algorithm is SimilarityAlgorithm.ROUGE2 else 1)


def _is_punctuation(character: str) -> bool:
    """Whether a character is punctuation or a mark such as a backtick; not a symbol (€, <, 👍), which has a meaning."""
    return unicodedata.category(character)[0] == "P" or unicodedata.category(character) == "Sk"


def similarity_rules(options: Mapping[str, Any]) -> SimilarityRules:
    """The rules of a validated criterion."""
    return SimilarityRules(
        algorithm=options.get("algorithm", SimilarityAlgorithm.JACCARD),
        normalize=options.get("normalize", True),
        ignore_case=options.get("ignore_case", True),
        ignore_punctuation=options.get("ignore_punctuation", False),
        direction=options.get("direction", EXPECTED_IN_ACTUAL),
    )


def explain_similarity(expected: str, actual: str, rules: SimilarityRules) -> tuple[Reason, ...]:
    """Explains why two texts are not equal by the rules of a criterion.

    Args:
        expected: The text of the eval file, as compared (`SimilarityRules.prepare`).
        actual: The text of the agent, as compared.
        rules: The rules of the criterion.

    Returns:
        A summary, then the differences. No line has a line break.
    """
    if not expected or not actual:
        return (Reason.of("answer-empty" if expected else "expected-text-empty"),)
    if rules.algorithm in BY_TOKENS:
        return bounded(_summary_of_words(expected, actual, rules), _different_words(expected, actual, rules))
    summary = Reason.of("texts-differ")
    if rules.algorithm is SimilarityAlgorithm.CONTAINS:
        summary = Reason.of("not-contained", kind=rules.direction)
    elif rules.algorithm is SimilarityAlgorithm.LEVENSHTEIN:
        longest = max(len(expected), len(actual))
        summary = Reason.of("edit-distance", count=edit_distance(expected, actual), total=longest)
    return bounded(summary, [describe_texts(expected, actual)])


def _summary_of_words(expected: str, actual: str, rules: SimilarityRules) -> Reason:
    ours, theirs = rules.tokens(expected), rules.tokens(actual)
    if rules.algorithm is SimilarityAlgorithm.JACCARD:
        common, either = len(set(ours) & set(theirs)), len(set(ours) | set(theirs))
        return Reason.of("distinct-words", count=common, total=either)
    facts = shares(rules.rouge(ours, theirs))
    facts["kind"] = rules.algorithm.value
    return Reason.of("common-words", **facts)


def _different_words(expected: str, actual: str, rules: SimilarityRules) -> Iterator[Reason]:
    ours, theirs = (words(text, fold=rules.ignore_case) for text in (expected, actual))
    for code, first, second in (("missing-words", ours, theirs), ("unexpected-words", theirs, ours)):
        different = surplus(first, second, stem if rules.ignore_case else str)
        if 0 < len(set(different)) <= FEW_WORDS:
            yield Reason.of(code, **counted(different))
    if sorted(ours) == sorted(theirs) and ours != theirs:
        yield Reason.of("words-reordered")
