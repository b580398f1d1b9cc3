"""`response_similarity`: each algorithm, and texts of every script."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq, Levenshtein
from remark_samples import lines

from agent_eval.core.content import Content, model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria import Conversation, NotEvaluated, Scored, build
from agent_eval.criteria._sequences import common_length, edit_distance
from agent_eval.criteria._similarity import LONGEST_COMPARED, SimilarityRules, similarity_rules
from agent_eval.criteria.tokenize import tokenize
from agent_eval.evalset.models import CRITERION_MODELS, EvalCase, SimilarityAlgorithm
from agent_eval.evalset.parse import criterion

SYMMETRIC = [*SimilarityAlgorithm]
SYMMETRIC.remove(SimilarityAlgorithm.CONTAINS)

Answer = str | Content | None


async def run(turns: list[tuple[Answer, Answer]], threshold: float = 1.0, **options: Any) -> Scored | NotEvaluated:
    """The result for turns of expected and actual answers."""
    expected, actual = (
        [Invocation(user_content=user_message("?"), final_response=_content(pair[side])) for pair in turns]
        for side in (0, 1)
    )
    config = criterion(
        "response_similarity",
        CRITERION_MODELS["response_similarity"].model_validate({"threshold": threshold, **options}),
    )
    case = EvalCase(eval_id="c", conversation=expected)
    return await build(config).score(Conversation(case=case, actual=actual, expected=expected))


def _content(answer: Answer) -> Content | None:
    return model_message(answer) if isinstance(answer, str) else answer


async def score(expected: Answer, actual: Answer, **options: Any) -> float:
    result = await run([(expected, actual)], **options)
    assert isinstance(result, Scored), result
    assert result.score is not None
    return result.score


async def why(expected: str, actual: str, **options: Any) -> list[str]:
    result = await run([(expected, actual)], **options)
    assert isinstance(result, Scored)
    [finding] = result.findings
    return list(lines(finding.why))


@pytest.mark.parametrize(
    ("algorithm", "expected", "actual", "value"),
    [
        ("exact", "Turn it  ON ", "turn it on", 1.0),
        ("exact", "on", "off", 0.0),
        ("contains", "21 degrees", "It is 21 Degrees now.", 1.0),
        ("contains", "It is 21 degrees now.", "21 degrees", 0.0),
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("jaccard", "the quick brown fox", "the quick brown dog", 0.6),
        ("jaccard", "one one one", "one", 1.0),
        ("rouge1", "the cat sat on the mat", "the cat was on the mat", 5 / 6),
        ("rouge2", "the cat sat on the mat", "the cat was on the mat", 0.6),
        ("rougeL", "the cat sat on the mat", "on the mat the cat sat", 0.5),
        ("rouge1", "今天天气很好", "今天天氣很好", 5 / 6),
        ("jaccard", "It's done!", "its done", 0.25),
        ("rouge2", "Yes.", "yes", 1.0),
        ("rouge2", "yes", "yes please", 0.0),
        ("jaccard", "👍", "👍", 1.0),
        ("jaccard", "👍", "👎", 0.0),
    ],
)
async def test_similarity__algorithms(algorithm: str, expected: str, actual: str, value: float) -> None:
    assert await score(expected, actual, algorithm=algorithm) == pytest.approx(value, abs=1e-12)


async def test_similarity__options() -> None:
    assert await score("a  b", "a b", algorithm="exact", normalize=False) == 0
    assert await score("STRASSE", "straße", algorithm="exact") == 1
    assert await score("STRASSE", "straße", algorithm="exact", ignore_case=False) == 0
    assert await score("Lights On", "lights on", ignore_case=False) == 0
    assert await score("Well, done!", "well done", algorithm="exact", ignore_punctuation=True) == 1
    assert await score("Well, done!", "well done", algorithm="exact") == 0
    long, short = "It is 21 degrees now.", "21 degrees"
    assert await score(long, short, algorithm="contains", direction="expected_contains_actual") == 1
    assert await score(short, long, algorithm="contains", direction="expected_contains_actual") == 0
    assert await score(long, short, algorithm="contains", direction="either") == 1


SYMBOLS = ("👍 👎", "✅ ❌", "€ $", "→ ←", "+ -", "... !")


@pytest.mark.parametrize("algorithm", ["exact", "contains", "levenshtein", "jaccard", "rouge1", "rougeL"])
async def test_ignore_punctuation__a_symbol_is_not_like_another_one_nor_like_nothing(algorithm: str) -> None:
    for pair in SYMBOLS:
        reference, other = pair.split()
        assert await score(reference, reference, algorithm=algorithm, ignore_punctuation=True) == 1
        for answer in (other, "", " "):
            assert await score(reference, answer, algorithm=algorithm, ignore_punctuation=True) == 0, (
                reference,
                answer,
            )


async def test_ignore_punctuation__keeps_symbols_between_words() -> None:
    for reference, answer in (("a ≤ b", "a ≥ b"), ("3 < 5", "3 > 5"), ("1€", "1$")):
        assert await score(reference, answer, algorithm="exact", ignore_punctuation=True) == 0
        assert 0 < await score(reference, answer, algorithm="levenshtein", ignore_punctuation=True) < 1
    assert await score("Use `f(x)`!", "use f(x)", algorithm="exact", ignore_punctuation=True) == 1


@pytest.mark.parametrize("algorithm", SimilarityAlgorithm)
@pytest.mark.parametrize("direction", ["actual_contains_expected", "expected_contains_actual", "either"])
async def test_similarity__an_empty_answer_is_like_no_text(algorithm: str, direction: str) -> None:
    options: dict[str, Any] = {"algorithm": algorithm, "direction": direction}
    assert await score("text", "", **options) == 0
    assert await score("text", None, **options) == 0
    assert await score("text", " \n", **options) == 0
    assert await score("", None, **options) == 1

    missing = await run([("text", "text"), (None, "something")], **options)
    assert isinstance(missing, NotEvaluated)
    assert (missing.code, missing.facts) == ("no-reference-text", {"turn": 2})


@pytest.mark.parametrize("algorithm", ["levenshtein", "rougeL"])
async def test_similarity__a_text_that_takes_too_long_to_compare(algorithm: str) -> None:
    longest = "ab " * (LONGEST_COMPARED // 3)
    assert await score(longest, "ab", algorithm=algorithm) < 0.01

    result = await run([("ab", "x" * (LONGEST_COMPARED + 1))], algorithm=algorithm)
    assert isinstance(result, NotEvaluated)
    assert result.code == "too-long"
    assert await score("ab", "x" * (LONGEST_COMPARED + 1), algorithm="jaccard") == 0


async def test_score__is_the_mean_over_turns() -> None:
    result = await run([("a", "a"), ("a b", "a c"), ("a", "b")], threshold=0.5)

    assert isinstance(result, Scored)
    assert result.score == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert [finding.turn for finding in result.findings] == [1, 2]


ON, OFF = "The lamp in the bedroom is on.", "The lamp in the kitchen is off."
BOTH_TEXTS = ['expected "the lamp in the bedroom is on.", got "the lamp in the kitchen is off."']
BOTH_WORDS = ["missing words: bedroom, on", "unexpected words: kitchen, off"]


@pytest.mark.parametrize(
    ("algorithm", "shown"),
    [
        ("exact", ["the texts are not equal", *BOTH_TEXTS]),
        ("contains", ["the answer does not contain the expected text", *BOTH_TEXTS]),
        ("levenshtein", ["edit distance 9 of 31 characters", *BOTH_TEXTS]),
        ("jaccard", ["4 of 8 distinct words are in both texts", *BOTH_WORDS]),
        ("rouge1", ["5 common words, of 7 expected (recall 0.71) and 7 given (precision 0.71)", *BOTH_WORDS]),
        ("rouge2", ["3 common pairs of words, of 6 expected (recall 0.50) and 6 given (precision 0.50)", *BOTH_WORDS]),
    ],
)
async def test_similarity__findings(algorithm: str, shown: list[str]) -> None:
    assert await why(ON, OFF, algorithm=algorithm) == shown


async def test_similarity__findings_of_other_texts() -> None:
    assert await why("turn left then right", "turn right then left", algorithm="rougeL") == [
        "2 words in the same order, of 4 expected (recall 0.50) and 4 given (precision 0.50)",
        "the same words in a different order",
    ]
    assert await why(ON, "", algorithm="rouge1") == ["the agent gave no text to compare"]
    assert (await why("x", "\x1b[31mred\u202e", algorithm="exact"))[1] == 'expected "x", got "\\u001b[31mred\\u202e"'


TEXTS = st.text(max_size=40) | st.text(st.sampled_from("ab cé\u0301ก็好 .,!Ⅷﬁ"), max_size=30)
RULES = st.builds(
    SimilarityRules,
    algorithm=st.sampled_from(SimilarityAlgorithm),
    normalize=st.booleans(),
    ignore_case=st.booleans(),
    ignore_punctuation=st.booleans(),
    direction=st.sampled_from(["actual_contains_expected", "expected_contains_actual", "either"]),
)


def similarity(expected: str, actual: str, rules: SimilarityRules) -> float:
    return rules.score(rules.prepare(expected), rules.prepare(actual))


@given(TEXTS, TEXTS, RULES)
def test_similarity__range_identity_symmetry(left: str, right: str, rules: SimilarityRules) -> None:
    value = similarity(left, right, rules)

    assert 0 <= value <= 1
    assert similarity(left, left, rules) == 1
    if rules.algorithm in SYMMETRIC or rules.direction == "either":
        assert value == pytest.approx(similarity(right, left, rules), abs=1e-12)


@given(TEXTS, TEXTS, RULES)
def test_similarity__does_not_depend_on_the_normal_form(left: str, right: str, rules: SimilarityRules) -> None:
    composed, decomposed = (unicodedata.normalize(form, left) for form in ("NFC", "NFD"))

    assert similarity(composed, decomposed, rules) == 1
    assert similarity(composed, right, rules) == similarity(decomposed, right, rules)


@given(st.text(max_size=80), st.text(max_size=80))
@example("a" * 65, "a" * 64)  # more bits than a machine word
def test_sequences__like_rapidfuzz(left: str, right: str) -> None:
    assert edit_distance(left, right) == Levenshtein.distance(left, right)
    assert common_length(left, right) == LCSseq.similarity(left, right)
    longest = max(len(left), len(right))
    if longest:
        assert 1 - edit_distance(left, right) / longest == pytest.approx(Levenshtein.normalized_similarity(left, right))


class _Tokenizer:
    tokenize = staticmethod(tokenize)


@given(st.text(st.sampled_from("abc ."), max_size=40), st.text(st.sampled_from("abc ."), max_size=40))
def test_rouge__like_rouge_score(left: str, right: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer  # takes half a second, in each worker

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_Tokenizer())
    reference = scorer.score(left, right)
    if min(len(tokenize(left)), len(tokenize(right))) < 2:
        return  # rouge_score gives 0 even to equal texts
    for algorithm in ("rouge1", "rouge2", "rougeL"):
        rules = similarity_rules({"algorithm": SimilarityAlgorithm(algorithm)})
        assert similarity(left, right, rules) == reference[algorithm].fmeasure
