"""Explains the similarity of two texts, for pull request comments, JUnit reports and the console."""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.core.text import plural
from agent_eval.criteria._differences import describe_texts
from agent_eval.criteria._explain import FEW_WORDS, bounded, counted, surplus
from agent_eval.criteria._sequences import edit_distance
from agent_eval.criteria._similarity import (
    ACTUAL_IN_EXPECTED,
    BY_TOKENS,
    EITHER,
    EXPECTED_IN_ACTUAL,
    SimilarityRules,
)
from agent_eval.criteria.tokenize import words
from agent_eval.evalset.models import SimilarityAlgorithm


def explain_similarity(expected: str, actual: str, rules: SimilarityRules) -> tuple[str, ...]:
    """Explains why two texts are not equal by the rules of a criterion.

    Args:
        expected: The text of the eval file, as compared (`SimilarityRules.prepare`).
        actual: The text of the agent, as compared.
        rules: The rules of the criterion.

    Returns:
        A summary, then the differences. No line has a line break.
    """
    if not expected or not actual:
        return ("the expected text is empty" if not expected else "the agent gave no text to compare",)
    if rules.algorithm in BY_TOKENS and not rules.adk_rust:
        return bounded(_summary_of_words(expected, actual, rules), _different_words(expected, actual, rules))
    summary = {
        SimilarityAlgorithm.EXACT: "the texts are not equal",
        SimilarityAlgorithm.CONTAINS: _not_contained(EITHER if rules.adk_rust else rules.direction),
    }.get(rules.algorithm)
    if summary is None and rules.algorithm is SimilarityAlgorithm.LEVENSHTEIN:
        longest = max(len(expected), len(actual))
        summary = f"edit distance {edit_distance(expected, actual):,} of {plural(longest, 'character')}"
    shown = [describe_texts(expected, actual)] if expected != actual else []
    return bounded(summary or "the texts differ by the rules of adk-rust", shown)


def _not_contained(direction: str) -> str:
    return {
        EXPECTED_IN_ACTUAL: "the answer does not contain the expected text",
        ACTUAL_IN_EXPECTED: "the expected text does not contain the answer",
    }.get(direction, "neither text contains the other")


def _summary_of_words(expected: str, actual: str, rules: SimilarityRules) -> str:
    ours, theirs = rules.tokens(expected), rules.tokens(actual)
    if rules.algorithm is SimilarityAlgorithm.JACCARD:
        common, either = len(set(ours) & set(theirs)), len(set(ours) | set(theirs))
        return f"{common:,} of {either:,} distinct words are in both texts"
    rouge = rules.rouge(ours, theirs)
    unit = {
        SimilarityAlgorithm.ROUGE2: "common pairs of words",
        SimilarityAlgorithm.ROUGE_L: "words in the same order",
    }.get(rules.algorithm, "common words")
    return (
        f"{rouge.overlap:,} {unit}, of {rouge.reference_tokens:,} expected (recall {rouge.recall:.2f}) "
        f"and {rouge.prediction_tokens:,} given (precision {rouge.precision:.2f})"
    )


def _different_words(expected: str, actual: str, rules: SimilarityRules) -> Iterator[str]:
    ours, theirs = (words(text, fold=rules.ignore_case) for text in (expected, actual))
    for what, first, second in (("missing", ours, theirs), ("unexpected", theirs, ours)):
        different = surplus(first, second)
        if 0 < len(set(different)) <= FEW_WORDS:
            yield f"{what} words: {counted(different)}"
    if sorted(ours) == sorted(theirs) and ours != theirs:
        yield "the same words in a different order"
