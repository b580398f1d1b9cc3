"""Scores, invocations, personas and custom metrics against google-adk[eval]."""

from __future__ import annotations

import asyncio
import json
import operator
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, adk_python
from adk_harness import host_spec
from adk_reference import Reference, interpreter, status_of
from gate_runs import program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_eval_agents.adk.events import answered_agent, to_invocation
from agent_eval_agents.host import PROGRAM, HostSpec
from agent_eval_agents.host.metric_hosts import MetricHosts
from agent_eval_agents.messages import TurnFacts
from agent_eval_results.report.phrases import evidence_line
from agent_eval_scoring.core.content import Content, user_message
from agent_eval_scoring.core.invocation import Invocation, adk_value
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored
from agent_eval_scoring.criteria.custom import CustomMetric
from agent_eval_scoring.criteria.efficiency import durations, token_usage
from agent_eval_scoring.criteria.registry import INFORMATIONAL, build
from agent_eval_scoring.evalset.models.personas import PERSONAS
from agent_eval_scoring.evalset.models.schema import CriterionConfig, EvalCase, MatchType
from agent_eval_scoring.simulation._prompt import as_text, lines

# Every deterministic score, turn by turn, against google-adk[eval] on random input. `==`, not `approx`.


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
    actual: Turns = []
    expected: Turns = []
    for texts in draw(st.lists(text_pairs(), min_size=1, max_size=4)):
        for turns, text in zip((actual, expected), texts, strict=True):
            turns.append({"user_content": {"parts": [{"text": "u"}]}, "final_response": draw(contents(text))})
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


def _compare(reference: Reference, config: CriterionConfig, wire: dict[str, Any], runs: Runs) -> list[float]:
    """The scores of the turns, once they are found to be the same."""
    theirs = reference.score(config.metric, *runs, {"threshold": config.threshold, **wire})
    ours = _score(build(config), *runs)
    assert not isinstance(ours, NotEvaluated)
    assert ours.score == theirs["score"]
    assert list(ours.turn_scores) == theirs["turns"]
    assert status_of(ours.score, config.bound) == theirs["status"]
    assert [status_of(score, config.bound) for score in ours.turn_scores] == theirs["turn_statuses"]
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


LONG = (_answer("x" * 10_000 + " y" * 3_000, "y " * 1_000), _answer("y" * 3_000, "y" * 2_999 + "s"))
MATCHES = [{"match_type": match_type, "ignore_args": ignored} for match_type in MatchType for ignored in (False, True)]


@pytest.mark.parametrize(
    ("metric", "options", "drawn", "given_runs"),
    [
        ("response_match_score", {}, answered_turns(), LONG),
        *(("tool_trajectory_avg_score", options, called_turns(), ()) for options in MATCHES),
    ],
)
def test_scores__are_adks(
    reference: Reference,
    metric: str,
    options: dict[str, Any],
    drawn: st.SearchStrategy[Runs],
    given_runs: Sequence[Runs],
) -> None:
    wire = {name: getattr(value, "name", value) for name, value in options.items()}
    compared: list[list[float]] = []

    def compare(runs: Runs, threshold: float) -> None:
        config = CriterionConfig(metric=metric, threshold=threshold, options=options)
        compared.append(_compare(reference, config, wire, runs))

    for runs in given_runs:
        compare(runs, 0.5)
    BOUNDED(given(drawn, THRESHOLDS)(compare))()

    assert len(compared) >= EXAMPLES
    scores = [score for scores in compared for score in scores]
    differ = len(set(scores)) > 50 if given_runs else 0.1 < sum(scores) / len(scores) < 0.9
    assert differ, "the scores are too much alike to tell"


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


# Our reading of events against google-adk 2.13.0's own, on live and on random events; and what users see of it.


Event = dict[str, Any]
SAID = [
    "plain", "text and call", "parallel", "long now", "long later", "skip", "missing argument", "none arguments",
    "thought", "bytes", "error", "empty", "before agent", "agent tool", "transfer", "sequence", "both",
]  # fmt: skip
TEXTS = ("", "a", "Größe 🙂", "a\n\nb", "user: no", "</finished>")
AGENTS = ("bot", "other")


def random_part(chance: random.Random) -> Event:
    value = {"a": chance.choice([1, None, True, "x'y", [1, 2.5]])}
    return chance.choice(
        [
            {"text": chance.choice(TEXTS)},
            {"text": chance.choice(TEXTS)},
            {"text": "t", "thought": True},
            {"function_call": {"id": "1", "name": "f", "args": chance.choice([{}, value])}},
            {"function_call": {"name": "f"}},
            {"function_response": {"id": "1", "name": "f", "response": value}},
            {"inline_data": {"data": "_-8=", "mime_type": "image/png"}},
            {"file_data": {"file_uri": "gs://x", "mime_type": "image/png"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"executable_code": {"code": "1", "language": "PYTHON"}},
        ]
    )


def random_event(chance: random.Random, authors: tuple[str, ...] = AGENTS) -> Event:
    event: Event = {"invocation_id": "e-1", "author": chance.choice(authors)}
    if chance.random() < 0.9:
        parts = [random_part(chance) for _ in range(chance.randrange(4))]
        event["content"] = {"role": "model", "parts": parts}
    optional: Event = {
        "error_code": "SAFETY",
        "long_running_tool_ids": chance.choice([[], ["1", "2"]]),
        "actions": {"skip_summarization": chance.choice([True, False])},
        "grounding_metadata": {"web_search_queries": ["q"]},
        "usage_metadata": {"prompt_token_count": 1},
        "model_version": "m",
    }
    return event | {key: value for key, value in optional.items() if chance.random() < 0.15}


def of_callers(events: list[Event]) -> list[Event]:
    """The events, those of the user that answer a call as events of the agent that made it: we read them so."""
    return [
        event | {"author": answered_agent(events[:number], event) or event["author"]}
        if event["author"].lower() == "user"
        else event
        for number, event in enumerate(events)
    ]


def test_invocations__are_those_of_adk(reference: Reference) -> None:
    chance, authors = random.Random(20260101), (*AGENTS, "user", "User")
    events = [[random_event(chance, authors) for _ in range(chance.randrange(1, 6))] for _ in range(400)]
    given = [of_callers(listed) for listed in events]
    answers = reference.ask("invocations", fixtures=str(FIXTURES), program=str(PROGRAM), say=SAID, events=given)
    assert 0 < sum(map(operator.ne, events, given)) < 40
    for message, answer in zip([*SAID, *events], answers, strict=True):
        text = message if isinstance(message, str) else "hi"
        theirs = answer["invocation"]
        if isinstance(message, list):
            answer["raw"] = [
                raw | {"author": event["author"]} for raw, event in zip(answer["raw"], message, strict=True)
            ]
        ours = adk_value(to_invocation(answer["raw"], user_message(text), TurnFacts()))
        if any(event.get("author", "").lower() == "user" for event in answer["raw"]):
            theirs["user_content"] = ours["user_content"]  # a later event of the user's replaces what was sent
        for field in ("invocation_id", "user_content", "intermediate_data"):
            assert ours[field] == theirs[field], message
        assert ours.get("final_response") == theirs.get("final_response"), message


def random_turn(chance: random.Random) -> tuple[Event, list[Event]]:
    """The user's event and the agent's events."""
    parts = [{"text": chance.choice(TEXTS)} for _ in range(chance.randint(1, 2))]
    user = {"author": "user", "invocation_id": "e-1", "content": {"role": "user", "parts": parts}}
    events = [random_event(chance) for _ in range(chance.randint(0, 4))]
    for event in events:
        if event.get("content"):
            # Two events with grounding and without a content of their own are alike in ADK's format.
            event.pop("grounding_metadata", None)
    return user, events


SECONDS = (None, 0, 0.0005, 0.0015, 0.0025, 1 / 3, 2.7, 100.0)
COUNTED = (
    *("prompt_token_count", "candidatesTokenCount", "thoughts_token_count", "tool_use_prompt_token_count"),
    *("cachedContentTokenCount", "total_token_count"),
)


def measured_turn(chance: random.Random) -> Event:
    """A turn with usage and times, some of which are not known."""
    _, events = random_turn(chance)
    for event in events:
        counts = {name: chance.choice([None, 0, 1, 5, 10**9]) for name in COUNTED if chance.random() < 0.6}
        event |= {"usage_metadata": chance.choice([None, counts]), "model_version": chance.choice([None, "", "m"])}
    seconds = {name: chance.choice(SECONDS) for name in ("duration", "model_duration", "tool_duration")}
    known = chance.choice([{"invocation_events": events}, {"invocation_events": events}, None, {}])
    return {"user_content": {}, "intermediate_data": known, **seconds}


@pytest.mark.parametrize("criterion", INFORMATIONAL, ids=lambda criterion: criterion.name)
def test_scores__efficiency_is_adks(reference: Reference, criterion: Criterion) -> None:
    of_turn = {"token_usage_v1": token_usage, "invocation_duration_v1": durations}.get(criterion.name)
    chance = random.Random(criterion.name)
    seen = set()
    for _ in range(EXAMPLES):
        turns = [measured_turn(chance) for _ in range(chance.randrange(5))]
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
        seen.add(ours.score)
    assert len(seen) > 5


def test_user_history__is_adks(reference: Reference) -> None:
    chance = random.Random(7)
    conversations = [[random_turn(chance) for _ in range(chance.randint(1, 3))] for _ in range(500)]
    sent = [[event for user, events in turns for event in (user, *events)] for turns in conversations]
    theirs = reference.ask("histories", conversations=sent)
    ours = []
    for turns in conversations:
        actual = [
            to_invocation(events, Content.model_validate(user["content"]), TurnFacts(started_at=0.0, duration=0.0))
            for user, events in turns
        ]
        ours.append([as_text(lines(actual, function_calls=calls)) for calls in (False, True)])
    assert sum("called tool" in both for _, both in theirs) > 200
    different = [seed for seed, (mine, adks) in enumerate(zip(ours, theirs, strict=True)) if mine != adks]
    assert not different, (different, ours[different[0]], theirs[different[0]])


# Our personas beside those of google-adk 2.13.0: each speaks of the stop signal where ADK's does.


_SIGNAL = "{{ stop_signal }}"


def test_personas__use_the_stop_signal_where_adks_do(reference: Reference) -> None:
    adks = reference.ask("personas")
    assert set(adks) == set(PERSONAS)
    for persona, behaviors in adks.items():
        ours = sorted(_uses(vars(behavior)) for behavior in PERSONAS[persona].behaviors)
        assert ours == sorted(_uses(behavior) for behavior in behaviors), persona


def _uses(behavior: dict[str, object]) -> list[bool]:
    """Whether the stop signal occurs in each of the texts."""
    return [_SIGNAL in str(behavior[name]) for name in ("description", "behavior_instructions", "violation_rubrics")]


# What `init` and `record` write passes `adk eval` of google-adk, as it passes `agent-eval run`.


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("form", ["flat", "events"])
def test_recorded_cases__pass_adk_eval(form: str, tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "home_automation"
    shutil.copytree(ROOT / "examples" / "home_automation", agent, ignore=shutil.ignore_patterns("evals", "__pycache__"))
    python = adk_python(extra="eval")
    ours = (sys.executable, "-m", "agent_eval")
    program(*ours, "init", "--yes", cwd=tmp_path)
    file = "evals/home_automation.evalset.json"
    for said in (["Turn off the lamp in the bedroom", "Turn it on again"], ["Which devices are in the kitchen?"]):
        messages = [word for text in said for word in ("--say", text)]
        program(*ours, "record", file, *messages, "--form", form, "--agent-python", python, cwd=tmp_path, timeout=300)
    passed = program(*ours, "run", "--agent-python", python, cwd=tmp_path, timeout=300).stdout
    assert "Passed: both cases pass" in passed
    adk = python.with_name("adk")
    config = ("--config_file_path", "evals/test_config.json", "--print_detailed_results")
    shown = program(adk, "eval", "agents/home_automation", file, *config, cwd=tmp_path, timeout=300).stdout
    assert "Tests passed: 2" in shown, shown
    assert "Tests failed: 0" in shown, shown


# Custom metrics against google-adk[eval]: the same functions, the same conversations, the same numbers.


INPUTS = 300
CONFIG: dict[str, Any] = {
    "criteria": {"seen": {"threshold": 0.4, "salt": "x"}, "fewer": 20, "raises": 0.5},
    "custom_metrics": {
        "seen": {"code_config": {"name": "measured.seen"}},
        "fewer": {"code_config": {"name": "measured.fewer"}},
        "raises": {"code_config": {"name": "measured.raises"}},
    },
}
FUNCTIONS = """
import asyncio, hashlib
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult

# What the numbers depend on is everything that ADK passes, as ADK itself writes it.
def fraction(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32

def result(scores, passes, actual):
    status = lambda score: EvalStatus.PASSED if passes(score) else EvalStatus.FAILED
    overall = sum(scores) / len(scores)
    return EvaluationResult(
        overall_score=overall,
        overall_eval_status=status(overall),
        per_invocation_results=[
            PerInvocationResult(actual_invocation=one, score=score, eval_status=status(score))
            for one, score in zip(actual, scores)
        ],
    )

def seen(metric, actual, expected, scenario):
    text = metric.model_dump_json() + repr(scenario)
    scores = [
        fraction(text + one.model_dump_json() + other.model_dump_json()) for one, other in zip(actual, expected)
    ]
    return result(scores, lambda score: score >= metric.criterion.threshold, actual)

async def fewer(metric, actual, expected, scenario):
    await asyncio.sleep(0)
    scores = [float(len(one.model_dump_json())) % 40 for one in actual]
    return result(scores, lambda score: score <= metric.criterion.threshold, actual)

def raises(metric, actual, expected, scenario):
    raise RuntimeError("no")
"""


def custom_turn(chance: random.Random) -> Event:
    user, events = random_turn(chance)
    final = chance.choice([None, {"role": "model", "parts": [{"text": chance.choice(TEXTS)}]}])
    return {
        "invocation_id": chance.choice(["", "i"]),
        "user_content": user["content"],
        "final_response": final,
        "intermediate_data": chance.choice([None, {"invocation_events": events}]),
        "creation_timestamp": chance.choice([0.0, 12.5]),
    }


async def test_custom_metrics__a_custom_metric_gives_what_it_gives_in_adk(tmp_path: Path, reference: Reference) -> None:
    draw = random.Random(7)
    (tmp_path / "measured.py").write_text(FUNCTIONS, encoding="utf-8")
    inputs: list[dict[str, Any]] = []
    for _ in range(INPUTS):
        turns = draw.randint(1, 4)
        actual, expected = ([custom_turn(draw) for _ in range(turns)] for _ in range(2))
        metric = draw.choices(["seen", "fewer", "raises"], [6, 3, 1])[0]
        inputs.append({"metric": metric, "actual": actual, "expected": expected})
    adks = reference.ask("custom_scores", path=str(tmp_path), config=CONFIG, inputs=inputs)

    async def spec() -> HostSpec:
        return host_spec("agent", tmp_path, python=interpreter(), root=tmp_path, start_timeout=120, role="metrics")

    hosts = MetricHosts(spec, name="metrics", timeout=60)
    try:
        for item, theirs in zip(inputs, adks, strict=True):
            given = CONFIG["criteria"][item["metric"]]
            form = given if isinstance(given, dict) else {"threshold": given}
            happened = [Invocation.model_validate(turn) for turn in item["actual"]]
            wanted = [Invocation.model_validate(turn) for turn in item["expected"]]
            scorer = CustomMetric(
                name=item["metric"],
                threshold=form["threshold"],
                function=CONFIG["custom_metrics"][item["metric"]]["code_config"]["name"],
                options={name: value for name, value in form.items() if name != "threshold"},
            )
            case = EvalCase(eval_id="e", conversation=wanted)
            ours = await scorer.score(Conversation(case=case, actual=happened, expected=wanted, metrics=hosts))
            if "raised" in theirs:
                assert isinstance(ours, NotEvaluated), item
                assert ours.code == "custom-metric-exception"
                continue
            assert isinstance(ours, Scored), (item, ours)
            assert ours.score == theirs["score"], item
            assert ("PASSED" if ours.passed else "FAILED") == theirs["status"]
            assert list(ours.turn_scores) == theirs["turns"]
    finally:
        await hosts.close()
    assert {item.get("status", "raised") for item in adks} == {"PASSED", "FAILED", "raised"}
