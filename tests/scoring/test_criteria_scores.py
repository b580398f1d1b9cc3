"""Scores of whole cases, of answers and of custom metrics."""

from __future__ import annotations

import json
import math
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from criteria_samples import A, B, call, in_ways, score, scored, turn
from golden_files import check
from hypothesis import example, given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq, Levenshtein
from recording_samples import recording
from remark_samples import lines
from runner_doubles import planned

from agent_eval.runner.scoring import report_run
from agent_eval_agents.protocol import Owner
from agent_eval_results import Reason
from agent_eval_results.data.report import CaseReport
from agent_eval_scoring.core.content import model_message, user_message
from agent_eval_scoring.core.invocation import Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.criteria._differences import visible
from agent_eval_scoring.criteria._sequences import common_length, edit_distance, rouge1
from agent_eval_scoring.criteria._similarity import LONGEST_COMPARED, SimilarityRules, similarity_rules
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Scored, check_complete
from agent_eval_scoring.criteria.custom import CustomMetric
from agent_eval_scoring.criteria.registry import INFORMATIONAL, build, supported
from agent_eval_scoring.criteria.tokenize import tokenize
from agent_eval_scoring.evalset.metric_runner import Evaluated, MetricCall, MetricFailure, MetricFailureKind
from agent_eval_scoring.evalset.models import SimilarityAlgorithm
from agent_eval_scoring.evalset.models.criteria import INFORMATIONAL_METRICS, METRICS, Family, MetricSpec
from agent_eval_scoring.evalset.models.criterion_options import BaseCriterion
from agent_eval_scoring.evalset.models.schema import CriterionConfig, EvalCase

# Criteria as the runner uses them: built from a config, then scored.

REFERENCED = [name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC and spec.needs_reference]


def test_every_deterministic_metric_has_a_scorer__and_no_other() -> None:
    assert {name for name in METRICS if supported(name)} == {
        name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC
    }
    assert tuple(criterion.name for criterion in INFORMATIONAL) == INFORMATIONAL_METRICS
    assert {criterion.threshold for criterion in INFORMATIONAL} == {None}
    for metric, why in (("politeness", "`politeness`"), ("safety_v1", "'safety_v1' needs a judge")):
        with pytest.raises(ValueError, match=why):
            build(CriterionConfig(metric=metric, threshold=0.5))


def test_registry__refuses_a_declaration_without_scorer_and_a_scorer_without_declaration() -> None:
    """`check_complete` runs at import, so that a missing piece does not wait for a config that names the metric."""
    declared = {name for name, spec in METRICS.items() if spec.family is Family.DETERMINISTIC}

    for name in ("response_match_score", "levenshtein"):  # the one is declared, the other is not
        with pytest.raises(ImportError, match=f"check {name}"):
            check_complete({Family.DETERMINISTIC: declared ^ {name}})
    with pytest.raises(ValueError, match="must declare options"):
        MetricSpec(name="levenshtein", family=Family.DETERMINISTIC)
    with pytest.raises(ValueError, match="must not declare options"):
        MetricSpec(name="levenshtein_count", family=Family.INFORMATIONAL, options=BaseCriterion)


@pytest.mark.parametrize("metric", REFERENCED)
@pytest.mark.parametrize(
    ("actual", "expected", "code"),
    [([turn()], None, "needs-reference"), ([], [], "no-turns"), ([turn()], [turn(), turn()], "turn-count")],
)
async def test_score__not_evaluated(
    metric: str, actual: list[Invocation], expected: list[Invocation] | None, code: str
) -> None:
    result = await score(metric, actual, expected)

    assert isinstance(result, NotEvaluated)
    assert result.code == code


async def test_trajectory__is_the_mean_over_turns() -> None:
    result = await scored("tool_trajectory_avg_score", [turn(A), turn(B), turn()], [turn(A), turn(A), turn()])

    assert result.score == (1.0 + 0.0 + 1.0) / 3
    assert result.turn_scores == (1.0, 0.0, 1.0)
    (finding,) = result.findings
    assert (finding.turn, finding.score, finding.expected, finding.actual) == (1, 0.0, "a(x=1)", "b(y=2)")
    assert "missing: a(x=1)" in lines(finding.why)


@pytest.mark.parametrize(
    "metric", ["tool_trajectory_avg_score", "tool_trajectory_partial", "trajectory_precision", "trajectory_recall"]
)
async def test_score__too_deep(metric: str) -> None:
    expected: Any = {}
    actual: Any = {}
    for _ in range(100_000):
        expected, actual = {"k": expected}, {"k": actual}
    result = await score(metric, [turn(call("a", x=expected))], [turn(call("a", x=actual))])

    assert isinstance(result, NotEvaluated)
    assert result.code == "too-deep"


async def test_response_match__explains_the_turns_below_the_threshold() -> None:
    actual = [turn(text=text) for text in ("the lamp is on", "no", "the lamp is lit", "hi")]
    expected = [turn(text=text) for text in ("the lamp is on", "yes", "the lamp is on", None)]
    result = await scored("response_match_score", actual, expected, threshold=0.7)
    long = await scored("response_match_score", [turn(text="x" * 1_000_000)], [turn(text="y" * 1_000_000)])

    assert result.turn_scores == (1.0, 0.0, 0.75, 0.0)
    assert result.score == 1.75 / 4
    assert [(finding.turn, finding.expected, finding.actual) for finding in result.findings] == [
        (1, "yes", "no"),
        (3, "(no text)", "hi"),
    ]
    (finding,) = long.findings
    assert len(finding.expected) + len(finding.actual) + sum(map(len, lines(finding.why))) < 10_000


async def test_precision__is_the_mean_over_turns() -> None:
    mean = await scored("trajectory_precision", [turn(A, A), turn(A)], [turn(A), turn(call("a", x=9))])
    assert (mean.score, mean.turn_scores) == (0.25, (0.5, 0.0))


async def test_single_tool_use__in_any_turn() -> None:
    metric = "trajectory_single_tool_use"

    used = await scored(metric, [turn(A), turn(B)], None, tool_name="b")
    unused = await scored(metric, [turn(A), turn(B)], [turn()], tool_name="c")

    assert (used.score, used.turn_scores, used.findings) == (1.0, (0.0, 1.0), ())
    (finding,) = unused.findings
    assert (unused.score, lines(finding.why)) == (0.0, ("c was not called in any of 2 turns", "called instead: a, b"))
    assert isinstance(await score(metric, [], None, tool_name="c"), NotEvaluated)


def measured(*usages: dict[str, Any] | None, **seconds: float) -> Invocation:
    events = [InvocationEvent(author="a", usage_metadata=usage) for usage in usages]
    return Invocation(
        user_content=user_message("u"), intermediate_data=InvocationEvents(invocation_events=events), **seconds
    )


async def test_informational__means_over_turns() -> None:
    turns = [measured({"prompt_token_count": 6}, duration=1.0), measured(duration=0.0005), turn(A, A, A)]
    conversation = Conversation(case=EvalCase(eval_id="c", conversation=[]), actual=turns, expected=None)
    results = {criterion.name: await criterion.score(conversation) for criterion in INFORMATIONAL}

    tokens = dict.fromkeys(("total_tokens", "input_tokens", "prompt_tokens"), 2.0)
    assert results == {
        "tool_call_count_v1": Scored(score=1.0, turn_scores=(0.0, 0.0, 3.0)),
        "inference_call_count_v1": Scored(score=0.5, turn_scores=(1.0, 0.0, None)),
        "token_usage_v1": Scored(score=2.0, turn_scores=(6, None, None), details=tokens),
        "invocation_duration_v1": Scored(score=0.5, turn_scores=(1.0, 0.0005, None), details={"total_seconds": 0.5}),
    }


DATA = Path(__file__).parents[1] / "data" / "vectors"
VECTORS: list[dict[str, Any]] = json.loads((DATA / "adk_2_13_0_rouge1.json").read_text(encoding="utf-8"))["rouge1"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_rouge__vectors_of_adk(vector: dict[str, Any]) -> None:
    actual, reference = tokenize(vector["actual"]), tokenize(vector["reference"])
    rouge = rouge1(reference, actual)

    assert actual == vector["actual_tokens"]
    assert reference == vector["reference_tokens"]
    measured = (rouge.precision, rouge.recall, rouge.f_measure)
    assert measured == tuple(vector[name] for name in ("precision", "recall", "fmeasure"))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text__is_tokenized_as_by_rouge_score(text: str) -> None:
    from rouge_score.tokenizers import DefaultTokenizer

    assert tokenize(text) == DefaultTokenizer(use_stemmer=True).tokenize(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("...! 😀 \x00\u200b", []),
        ("running runs the dies die", ["run", "run", "the", "die", "die"]),
        ("今天a气b", ["今", "天", "a", "气", "b"]),
        ("㐀㐁", ["㐀㐁"]),
        ("กำ", ["กํ", "า"]),
        ("ก้a", ["ก้a"]),
        ("aก", ["a", "ก"]),
        ("ﾃﾞｽﾄ", ["デ", "ス", "ト"]),
        ("½ m² Google™", ["1", "2", "m2", "googletm"]),
        ("İ", ["i\u0307"]),
        ("\ud800lone", ["lone"]),
        ("cities cities\u0301", ["citi", "citie\u015b"]),
        ("a" * 200_000 + "ing", ["a" * 200_000]),  # it is not cached
    ],
)
def test_rouge__tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


# `response_similarity`: each algorithm, and texts of every script.

SYMMETRIC = [*SimilarityAlgorithm]
SYMMETRIC.remove(SimilarityAlgorithm.CONTAINS)

SIMILARITY = "response_similarity"


async def similarity_score(expected: str, actual: str | None, **options: Any) -> float:
    result = await scored(SIMILARITY, [turn(text=actual)], [turn(text=expected)], **options)
    assert result.score is not None
    return result.score


ON, OFF = "The lamp in the bedroom is on.", "The lamp in the kitchen is off."
PAIRS: tuple[tuple[str, str | None], ...] = (
    ("Turn it  ON ", "turn it on"),
    ("on", "off"),
    ("21 degrees", "It is 21 Degrees now."),
    ("It is 21 degrees now.", "21 degrees"),
    ("kitten", "sitting"),
    ("the quick brown fox", "the quick brown dog"),
    ("one one one", "one"),
    ("the cat sat on the mat", "the cat was on the mat"),
    ("the cat sat on the mat", "on the mat the cat sat"),
    ("今天天气很好", "今天天氣很好"),
    ("It's done!", "its done"),
    ("Yes.", "yes"),
    ("yes", "yes please"),
    ("👍", "👎"),
    ("a  b", "a b"),
    ("STRASSE", "straße"),
    ("Lights On", "lights on"),
    ("Well, done!", "well done"),
    ("Use `f(x)`!", "use f(x)"),
    (ON, OFF),
    ("turn left then right", "turn right then left"),
    ("a ≤ b", "a ≥ b"),
    ("3 < 5", "3 > 5"),
    ("1€", "1$"),
    (ON, ""),
    (ON, None),
    (ON, " \n"),
    ("", None),
    ("", "hello"),
    ("x", "\x1b[31mred\u202e"),
    (" ".join(f"w{number}" for number in range(8)), "other"),
)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    **{each.value: (SIMILARITY, {"algorithm": each}) for each in SimilarityAlgorithm},
    "exact, as they are": (SIMILARITY, {"algorithm": "exact", "normalize": False}),
    "exact, with case": (SIMILARITY, {"algorithm": "exact", "ignore_case": False}),
    "exact, no punctuation": (SIMILARITY, {"algorithm": "exact", "ignore_punctuation": True}),
    "levenshtein, no punctuation": (SIMILARITY, {"algorithm": "levenshtein", "ignore_punctuation": True}),
    "jaccard, with case": (SIMILARITY, {"ignore_case": False}),
    "contained": (SIMILARITY, {"algorithm": "contains", "direction": "expected_contains_actual"}),
    "either contains": (SIMILARITY, {"algorithm": "contains", "direction": "either"}),
    "response_match_score": ("response_match_score", {}),
}


async def test_scores__of_answers() -> None:
    """Of each pair: each score and its reasons, with the ways to compare that have it."""
    text = ""
    for expected, actual in PAIRS:
        ways = await in_ways(WAYS, turn(text=actual), turn(text=expected))
        text += f"== {visible(json.dumps((expected, actual), ensure_ascii=False))}\n{ways}\n"
    check("golden_scored_answers.txt", text)


@pytest.mark.parametrize(("metric", "options"), WAYS.values(), ids=WAYS)
async def test_scores__value_of_a_workflows_last_node_is_no_answer(metric: str, options: dict[str, Any]) -> None:
    returned = turn().model_copy(update={"node_output": True})
    result = await score(metric, [returned], [turn(text="sunny")], **options)

    assert isinstance(result, Scored) and result.score == 0
    assert [finding.why[-1] for finding in result.findings] == [Reason.of("node-output")]


SYMBOLS = ("👍 👎", "✅ ❌", "€ $", "→ ←", "+ -", "... !")


@pytest.mark.parametrize("algorithm", ["exact", "contains", "levenshtein", "jaccard", "rouge1", "rougeL"])
async def test_ignore_punctuation__a_symbol_is_not_like_another_one_nor_like_nothing(algorithm: str) -> None:
    for pair in SYMBOLS:
        reference, other = pair.split()
        for answer in (reference, other, "", " "):
            value = await similarity_score(reference, answer, algorithm=algorithm, ignore_punctuation=True)
            assert value == (answer == reference), (reference, answer)


async def test_similarity__a_turn_without_a_reference() -> None:
    missing = await score(SIMILARITY, [turn(text="text"), turn(text="some")], [turn(text="text"), turn()])
    assert isinstance(missing, NotEvaluated)
    assert (missing.code, missing.facts) == ("no-reference-text", {"turn": 2})


@pytest.mark.parametrize("algorithm", ["levenshtein", "rougeL"])
async def test_similarity__a_text_that_takes_too_long_to_compare(algorithm: str) -> None:
    longest = "ab " * (LONGEST_COMPARED // 3)
    assert await similarity_score(longest, "ab", algorithm=algorithm) < 0.01

    result = await score(SIMILARITY, [turn(text="x" * (LONGEST_COMPARED + 1))], [turn(text="ab")], algorithm=algorithm)
    assert isinstance(result, NotEvaluated)
    assert result.code == "too-long"
    assert await similarity_score("ab", "x" * (LONGEST_COMPARED + 1), algorithm="jaccard") == 0


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


# What a custom metric returned, and what it counts for.

METRIC = CustomMetric(
    name="polite",
    threshold=0.5,
    function="checks.polite",
    options={"words": ["please"], "include_intermediate_responses_in_final": False},
)
CASE = planned("one", "hello", "thanks", fingerprint="f")
TURNS = [Invocation(user_content=user_message("hello"), final_response=model_message(text)) for text in ("a", "b")]
GOOD: dict[str, Any] = {
    "type": "EvaluationResult",
    "score": 0.75,
    "status": "PASSED",
    "turns": [{"score": 1.0, "status": "PASSED"}, {"score": 0.5, "status": "PASSED"}],
}


@dataclass(kw_only=True)
class Runner:
    """Answers what the test says."""

    result: dict[str, Any]
    failure: MetricFailure | None = None
    calls: list[MetricCall] = field(default_factory=list)

    async def prepare(self, function: str, code: str | None = None) -> None:
        """Nothing to prepare."""

    async def evaluate(self, call: MetricCall) -> Evaluated:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        return Evaluated.model_validate(self.result)


async def custom_scored(runner: Runner | None) -> Scored | NotEvaluated:
    case = CASE.case
    return await METRIC.score(Conversation(case=case, actual=TURNS, expected=case.conversation, metrics=runner))


async def reported(runner: Runner) -> CaseReport:
    changed = type(CASE)(**{**vars(CASE), "criteria": (METRIC,)})
    return await report_run(changed, recording("one", *TURNS, file=CASE.file), runner)


async def test_custom_metric__call() -> None:
    runner = Runner(result=GOOD)
    await custom_scored(runner)

    [call] = runner.calls
    assert (call.metric, call.function) == ("polite", "checks.polite")
    assert call.criterion == {"threshold": 0.5, "words": ["please"]}
    assert (call.actual, call.expected) == (TURNS, CASE.case.conversation)


RUBRICS = [{"rubric_id": "greets", "score": 0.0, "rationale": "no <b>greeting</b>"}]
FAILED = {"status": "FAILED", "turns": [GOOD["turns"][0], {"score": 0, "status": "FAILED", "rubrics": RUBRICS}]}
DOWN = [{"rubric_id": "GEval", "rationale": "ConnectionError: the judge is down"}]
RESULTS: tuple[dict[str, Any], ...] = (
    {},
    {"status": "FAILED"},
    {"score": 0},
    {**FAILED, "rubrics": RUBRICS},
    {"status": "NOT_EVALUATED"},
    {"score": None, "status": "NOT_EVALUATED", "rubrics": DOWN},
    {"type": "dict", "shown": "{'score': 1.0}"},
    *({"score": score} for score in (None, True, "nan", "0.5", math.inf, math.nan, [1.0], 10**400)),
    {"status": "INFORMATIONAL"},
    {"status": ""},
    {"turns": []},
    {"turns": [*GOOD["turns"], GOOD["turns"][0]]},
)


async def test_custom_metric__results() -> None:
    """What a result, good but for some fields, makes of a run; and a failure, by its owner."""
    failures = [
        MetricFailure(
            "it broke", kind=MetricFailureKind.EXCEPTION, owner=owner, traceback="File x", log_tail="printed", hint="do"
        )
        for owner in (Owner.AGENT, Owner.PROVIDER)
    ]
    runners = {str(changes)[:80]: Runner(result={**GOOD, **changes}) for changes in RESULTS}
    runners |= {f"{one.owner} fails": Runner(result=GOOD, failure=one) for one in failures}
    text = ""
    for name, runner in runners.items():
        case = await reported(runner)
        [scored_run] = case.metrics[0].runs
        text += f"== {name}: {case.status}\n{scored_run.model_dump_json(exclude_defaults=True)}\n"
    check("golden_custom_metrics.txt", text.replace(docs_page("custom-metrics"), "the page"))
    nowhere = await custom_scored(None)
    assert isinstance(nowhere, NotEvaluated) and nowhere.code == "custom-metric-environment"


async def test_report_run__scores_of_another_version_of_the_function_have_another_fingerprint() -> None:
    first, same, newer, without = [
        (await reported(Runner(result={**GOOD, "version": version}))).metrics[0].fingerprint
        for version in ("deepeval 4.2.0", "deepeval 4.2.0", "deepeval 4.3.1", "")
    ]

    assert first == same
    assert len({first, newer, without}) == 3
