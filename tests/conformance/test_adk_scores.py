"""Every deterministic score, turn by turn, against google-adk[eval] on random input. `==`, not `approx`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from adk_reference import Reference
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated, Result
from agent_eval.criteria.efficiency import durations, token_usage
from agent_eval.criteria.registry import INFORMATIONAL, build
from agent_eval.evalset.models.schema import CriterionConfig, EvalCase, MatchType
from agent_eval.report.phrases import evidence_line
from agent_eval.results.reason import Reason

pytestmark = pytest.mark.conformance

EXAMPLES = 500
BOUNDED = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Turns = list[dict[str, Any]]
Runs = tuple[Turns, Turns]
"""Actual and expected turns, as many of each."""


# --- what goes in ------------------------------------------------------------------------------------------------

SCRIPTS = (
    "aA bB eEsS zZ09 19'-_.,!?$%\t\n",  # ASCII
    "今天气很好订单发货㐀々〇",  # Han, an extension, iteration mark
    "これはテストのｶﾅ゛ﾞー・゠",  # kana, half-width, marks, punctuation
    "안녕하세요각ᄀ각",  # Hangul, also as jamo
    "สวัสดีค่ะครับทำ฿๏๑",  # Thai with marks, currency, digit
    "ສະບາຍດີ",  # Lao
    "ភាសាខ្មែរ",  # Khmer
    "မြန်မာ",  # Burmese
    "مَرْحَبًا٣",  # Arabic with marks and digits
    "नमस्ते दुनिया",  # Devanagari
    "Привет ёй",  # Cyrillic
    "ÀéİıßŒﬁ™²½ⅫÅ℃Σσς",  # Latin beyond ASCII, compatibility forms, odd case mappings
    "\u0301\u0327\u20dd\u093e\ufe0f",  # marks of each kind
    "😀👩‍💻🇩🇪",  # emoji
    "ＡＢＣ１２３！",  # full-width
    "\x00\x1b\x7f\u200b\u200d\u202e\u3000\u00a0\ufeff\u2028\x85",  # controls and spaces
)
WORDS = [
    *("running", "runs", "runner", "cities", "flying", "happily", "relational", "agreed", "sky", "dying", "y"),
    *("1,000,000", "3.14", "don't", "don’t", "re-use", "tool_name_x", "ABC123", "**Total**:", "generalizations"),
    *("café", "cafe\u0301", "naïve"),
]
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(SCRIPTS).flatmap(lambda letters: st.text(alphabet=letters, min_size=1, max_size=8)),
    st.text(alphabet="".join(SCRIPTS), min_size=1, max_size=8),
    st.text(max_size=4),
)
GLUES = st.sampled_from([" ", " ", "", "\n"])


@st.composite
def text_pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts of pieces from one pool, so that they share some, as an answer and its reference do."""
    pool = st.sampled_from(draw(st.lists(PIECES, min_size=1, max_size=10)))
    shared = draw(st.lists(pool, min_size=1, max_size=8))
    answer = [*shared, *draw(st.lists(pool, max_size=5))]
    reference = [*draw(st.permutations(shared)), *draw(st.lists(pool, max_size=5))]
    texts = draw(GLUES).join(answer), draw(GLUES).join(reference)
    return draw(st.sampled_from([texts, texts, (texts[0].upper(), texts[1])]))


def contents(text: str) -> st.SearchStrategy[dict[str, Any] | None]:
    """Messages of that text: in one part or several, with a thought or a call; seldom one without text."""
    half = len(text) // 2
    with_text: list[dict[str, Any]] = [
        {"role": "model", "parts": [{"text": text}]},
        {"parts": [{"text": text[:half]}, {"text": ""}, {"text": text[half:]}]},
        {"role": "model", "parts": [{"text": "let me think", "thought": True}, {"text": text}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"text": text}]},
    ]
    without: list[dict[str, Any] | None] = [{"role": "model", "parts": []}, {"role": "model"}, None]
    return st.sampled_from([*with_text, *with_text, *with_text, *with_text, *without])


@st.composite
def answered_turns(draw: st.DrawFn) -> Runs:
    actual, expected = [], []
    for _ in range(draw(st.integers(1, 4))):
        answer, reference = draw(text_pairs())
        actual.append({"user_content": {"parts": [{"text": "u"}]}, "final_response": draw(contents(answer))})
        expected.append({"user_content": {"parts": [{"text": "u"}]}, "final_response": draw(contents(reference))})
    return actual, expected


_SCALARS: list[Any] = [1, 1.0, True, "1", 0, False, 0.0, -0.0, None, 2**60]
_TEXTS: list[Any] = ["", "lamp", "Lamp", "lamp ", "caf\u00e9", "cafe\u0301"]
VALUES = st.sampled_from([*_SCALARS, *_TEXTS, [], {}])
NESTED = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=3,
)
ARGS = st.one_of(st.none(), st.just({}), st.dictionaries(st.sampled_from(["x", "y"]), NESTED, max_size=2))
CALLS = st.builds(
    lambda name, args, id_, absent: {
        key: value for key, value in {"name": name, "args": args, "id": id_}.items() if not (absent and value is None)
    },
    st.sampled_from(["a", "a", "A", "b", None]),
    ARGS,
    st.sampled_from([None, "1", "2"]),
    st.booleans(),
)


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two lists of calls drawn from one small pool, or one made from the other by small changes."""
    pool = draw(st.lists(CALLS, min_size=1, max_size=4))
    expected = draw(st.lists(st.sampled_from(pool), max_size=5))
    actual = draw(st.one_of(st.just(expected), st.lists(st.sampled_from(pool), max_size=5), st.permutations(expected)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(actual)))
        actual = [*actual[:place], *draw(st.lists(CALLS, max_size=1)), *actual[place + draw(st.integers(0, 1)) :]]
    return list(actual), expected


@st.composite
def intermediate(draw: st.DrawFn, calls: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Either form of intermediate data that holds these calls; sometimes none when there are none."""
    form = draw(st.sampled_from(["uses", "usesCamel", "events", "one event", "none"]))
    if form == "none" and not calls:
        return draw(st.sampled_from([None, {}, {"invocation_events": []}]))
    if form.startswith("uses"):
        return {
            "tool_uses" if form == "uses" else "toolUses": calls,
            "intermediate_responses": [["a", [{"text": "x"}]]],
        }
    parts = [{"function_call": call} for call in calls]
    if form == "one event":
        return {"invocationEvents": [{"author": "a"}, {"author": "a", "content": {"parts": [{"text": "t"}, *parts]}}]}
    return {"invocation_events": [{"author": "a", "content": {"role": "model", "parts": [part]}} for part in parts]}


@st.composite
def called_turns(draw: st.DrawFn) -> Runs:
    actual, expected = [], []
    for _ in range(draw(st.integers(1, 4))):
        made, wanted = draw(trajectories())
        actual.append({"user_content": {}, "intermediate_data": draw(intermediate(made))})
        expected.append({"userContent": {}, "intermediateData": draw(intermediate(wanted))})
    return actual, expected


COUNTS = st.one_of(st.none(), st.integers(0, 5), st.just(10**9))
USAGES = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_token_count": COUNTS,
            "candidatesTokenCount": COUNTS,
            "thoughts_token_count": COUNTS,
            "tool_use_prompt_token_count": COUNTS,
            "cachedContentTokenCount": COUNTS,
            "total_token_count": COUNTS,
        },
    ),
)
SECONDS = st.one_of(st.none(), st.floats(0, 100, allow_nan=False), st.sampled_from([0, 0.0005, 0.0015, 0.0025, 1 / 3]))


@st.composite
def measured_turns(draw: st.DrawFn) -> Turns:
    turns: Turns = []
    for _ in range(draw(st.integers(0, 4))):
        turn: dict[str, Any] = {"user_content": {}}
        for name in ("duration", "model_duration", "tool_duration"):
            turn[name] = draw(SECONDS)
        events = draw(
            st.lists(
                st.builds(
                    lambda usage, version, calls: {
                        "author": "a",
                        "usage_metadata": usage,
                        "model_version": version,
                        "content": {"parts": [{"function_call": {"name": "f"}}] * calls},
                    },
                    USAGES,
                    st.sampled_from([None, "", "gemini-x"]),
                    st.integers(0, 2),
                ),
                max_size=4,
            )
        )
        turn["intermediate_data"] = draw(
            st.sampled_from([{"invocation_events": events}, {"invocation_events": events}, None, {}])
        )
        turns.append(turn)
    return turns


THRESHOLDS = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 2 / 3, 0.8, 0.9999999999999999, 1.0, 1])

# --- comparing ---------------------------------------------------------------------------------------------------


def _score(criterion: Criterion, actual: Turns, expected: Turns | None) -> Result:
    conversation = Conversation(
        case=EvalCase(eval_id="c", conversation=[]),
        # Through JSON, as a file or a recording arrives.
        actual=[Invocation.model_validate_json(json.dumps(turn)) for turn in actual],
        expected=None if expected is None else [Invocation.model_validate_json(json.dumps(turn)) for turn in expected],
    )
    return asyncio.run(criterion.score(conversation))


def _status(score: float | None, threshold: float) -> str:
    if score is None:
        return "NOT_EVALUATED"
    return "PASSED" if score >= threshold else "FAILED"


def _compare(reference: Reference, config: CriterionConfig, wire: dict[str, Any], runs: Runs) -> list[float]:
    """The scores of the turns, once they are found to be the same."""
    theirs = reference.score(config.metric, *runs, {"threshold": config.threshold, **wire})
    ours = _score(build(config), *runs)
    assert not isinstance(ours, NotEvaluated)
    assert ours.score == theirs["score"]
    assert list(ours.turn_scores) == theirs["turns"]
    assert _status(ours.score, config.threshold) == theirs["status"]
    assert [_status(score, config.threshold) for score in ours.turn_scores] == theirs["turn_statuses"]
    # Each turn that ADK fails is explained, and no other.
    failed = [index for index, status in enumerate(theirs["turn_statuses"]) if status == "FAILED"]
    assert [finding.turn for finding in ours.findings] == failed
    for finding in ours.findings:
        assert finding.why
        assert finding.expected
        assert finding.actual
        assert not [
            line
            for line in (evidence_line(why) for why in finding.why if isinstance(why, Reason))
            if len(line.splitlines()) != 1
        ]
    return [score for score in ours.turn_scores if score is not None]


def _answer(text: str, reference: str) -> Runs:
    return (
        [{"user_content": {}, "final_response": {"parts": [{"text": text}]}}],
        [{"user_content": {}, "final_response": {"parts": [{"text": reference}]}}],
    )


def test_scores__response_match_is_adks(reference: Reference) -> None:
    compared: list[list[float]] = []

    @BOUNDED
    @given(answered_turns(), THRESHOLDS)
    @example(_answer("x" * 10_000 + " y" * 3_000, "y " * 1_000), 0.5)
    @example(_answer("y" * 3_000, "y" * 2_999 + "s"), 0.5)
    def compare(runs: Runs, threshold: float) -> None:
        config = CriterionConfig(metric="response_match_score", threshold=threshold)
        compared.append(_compare(reference, config, {}, runs))

    compare()

    assert len(compared) >= EXAMPLES
    assert len({score for scores in compared for score in scores}) > 50, "the texts are too much alike to tell"


@pytest.mark.parametrize("ignore_args", [False, True])
@pytest.mark.parametrize("match_type", MatchType)
def test_scores__tool_trajectory_is_adks(reference: Reference, match_type: MatchType, ignore_args: bool) -> None:
    compared: list[list[float]] = []

    @BOUNDED
    @given(called_turns(), THRESHOLDS)
    def compare(runs: Runs, threshold: float) -> None:
        config = CriterionConfig(
            metric="tool_trajectory_avg_score",
            threshold=threshold,
            options={"match_type": match_type, "ignore_args": ignore_args},
        )
        wire = {"match_type": match_type.name, "ignore_args": ignore_args}
        compared.append(_compare(reference, config, wire, runs))

    compare()

    assert len(compared) >= EXAMPLES
    matched = [score for scores in compared for score in scores]
    assert 0.1 < sum(matched) / len(matched) < 0.9, "nearly all trajectories match, or nearly none: that tells little"


@pytest.mark.parametrize("criterion", INFORMATIONAL, ids=lambda criterion: criterion.name)
def test_scores__efficiency_is_adks(reference: Reference, criterion: Criterion) -> None:
    compared: list[Turns] = []
    of_turn = {"token_usage_v1": token_usage, "invocation_duration_v1": durations}.get(criterion.name)

    @BOUNDED
    @given(measured_turns())
    def compare(turns: Turns) -> None:
        theirs = reference.score(criterion.name, turns, None, None)
        ours = _score(criterion, turns, None)
        assert not isinstance(ours, NotEvaluated)
        assert ours.score == theirs["score"]
        assert list(ours.turn_scores) == theirs["turns"]
        assert ours.details == theirs["details"]
        if of_turn is not None:
            details = [of_turn(Invocation.model_validate_json(json.dumps(turn))) for turn in turns]
            assert details == theirs["turn_details"]
        assert {theirs["status"], *theirs["turn_statuses"]} == {"INFORMATIONAL"}
        compared.append(turns)

    compare()

    assert len(compared) >= EXAMPLES


@pytest.mark.parametrize("metric", ["response_match_score", "tool_trajectory_avg_score"])
@pytest.mark.parametrize(
    ("actual", "expected", "code"), [(0, 0, "no-turns"), (1, None, "needs-reference"), (2, 1, "turn-count")]
)
def test_what_adk_cannot_evaluate__is_no_score(
    reference: Reference, metric: str, actual: int, expected: int | None, code: str
) -> None:
    turn: dict[str, Any] = {"user_content": {}}
    references = None if expected is None else [turn] * expected
    theirs = reference.score(metric, [turn] * actual, references, {"threshold": 0.5})
    ours = _score(build(CriterionConfig(metric=metric, threshold=0.5)), [turn] * actual, references)

    assert theirs.get("raised") == "ValueError" or theirs["status"] == "NOT_EVALUATED"
    assert isinstance(ours, NotEvaluated)
    assert ours.code == code
