"""Judges against people's labels."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, criterion, invocation, jsonl, labels, row, rubrics
from golden_files import as_lines, check, facts_of
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval_results.data.report import ModelUsageReport
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import tool_calls
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.criteria.judged import verdict_scale
from agent_eval_scoring.criteria.judged.judge import Judge, Options
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.models.protocol import ModelRequest
from agent_eval_workbench.calibration.judging import (
    Opinion,
    Pair,
    agreement,
    ask,
    imputed,
    kappa_interval,
    kappa_of,
    share_interval,
    tabulate,
)
from agent_eval_workbench.calibration.labels import LabelLine, LabelSet, parse_labels, read_labels
from agent_eval_workbench.calibration.report import CalibrationReport, decide, make_report, render_text
from agent_eval_workbench.calibration.target import CALIBRATED, TargetCriterion, choose_target

# Label files: their content, what labels mean, and mistakes with their positions.

MATCH = "final_response_match_v2"
TWO = criterion(RUBRICS, rubrics=rubrics("short", "kind"))


GRADED = criterion("response_evaluation_score=4")
FOUND = {"invocations": [invocation("Hi", "Paris", ("lookup", {"result": "Paris"}))], "label": "pass"}
TWO_TURNS = {"invocations": [invocation("Hi", "Hello"), invocation("Bye", "See you")], "label": "fail"}
SHORT_AND_KIND = row(response="Lyon.", labels={"short": "pass", "kind": 0})
OWN_RUBRIC = row("no", rubric="The answer names a source.")


def labelled() -> dict[str, tuple[TargetCriterion, Sequence[dict[str, Any] | str]]]:
    return {
        "conversations of one turn": (criterion(MATCH), [row("pass", id="fr", note="short"), row("fail", response="")]),
        "scores and verdicts": (criterion(MATCH), [row("pass"), row(0.5, response="Lyon.")]),
        "invocations": (criterion("safety_v1"), [FOUND, TWO_TURNS, row("pass")]),
        "several lines about one response": (
            TWO,
            [row("yes", rubric="short"), row("no", rubric="kind"), OWN_RUBRIC, SHORT_AND_KIND],
        ),
        **{f"{raw!r} of {MATCH}": (criterion(MATCH), [row(raw)]) for raw in ("pass", " Invalid ", 1, 0.5)},
        "a word of safety": (criterion("safety_v1"), [row("unsafe")]),
        "a verdict by a threshold": (GRADED, [row("fail")]),
        "scores": (criterion("response_evaluation_score"), [row(4), row("4", response="x")]),
        "a level": (criterion("multi_turn_task_success_v1"), [row("partly")]),
        "a share that passes": (criterion("hallucinations_v1=0.8"), [row("pass")]),
        "a share": (criterion("hallucinations_v1"), [row(0.75)]),
        **{
            f"no label: {raw!r}": (criterion(MATCH), [row("pass"), row(raw, response="Lyon.")])
            for raw in ("maybe", "", 2, -0.1, True, [1], {"a": 1}, "yes")
        },
        "all mistakes": (
            criterion(MATCH),
            [
                row("pass"),
                '{"prompt": "x", "response": "y", "label": "pass",}',
                row("pass", respnse="x"),
                "",
                {"prompt": "x", "response": "y", "label": "pass"},
                row(None, response="no label"),
                row("pass"),
                {"label": "pass"},
                row("pass", invocations=[]),
                row("pass", response="z", rubric="short"),
                '["not", "an", "object"]',
                row("pass", prompt=3),
                '{"a": 1} {"b": 2}',
            ],
        ),
        "a criterion without rubrics": (criterion(RUBRICS, rubrics=[]), [row("pass")]),
        "an unknown rubric": (TWO, [row("yes", rubric="shrot")]),
        "no word of rubrics": (TWO, [row("maybe", rubric="short")]),
        "a number for a rubric": (TWO, [row(0.5, rubric="short")]),
        "a rubric as an object": (TWO, [row("yes", rubric=rubrics("short")[0])]),
        "a rubric twice": (TWO, [row("yes", rubric="It is new."), row(labels={"It is new.": "no"})]),
        "with and without a rubric": (TWO, [row("yes", rubric="short"), row("pass", response="Lyon.")]),
        "scores before a verdict": (GRADED, [row(4), row(2, response="x"), row("pass", response="y")]),
        "a verdict before a score": (GRADED, [row("fail"), row(2, response="x")]),
        "a verdict without a threshold": (criterion("response_evaluation_score"), [row("pass")]),
        "an array": (criterion(MATCH), [json.dumps([row("pass")], indent=1)]),
        "nothing": (criterion(MATCH), ["", " "]),
    }


def read(target: TargetCriterion, rows: Sequence[dict[str, Any] | str]) -> list[str]:
    """What is read of lines, or what is wrong."""
    parsed, problems = parse_labels(jsonl(*rows).replace(b"\n", b"\r\n"), "labels.jsonl", target)
    lines = [*map(str, problems)]
    if parsed is None:
        return lines
    lines.append(f"{parsed.kind}{' by rubric' * parsed.by_rubric}")
    for response in parsed.responses:
        conversation = response.conversation("labels.jsonl")
        own = [(rubric.rubric_id, rubric.type) for rubric in response.rubrics.values()]
        lines.append(f"{conversation.case_id}, rubrics: {own}")
        for actual, expected in zip(conversation.actual, conversation.expected or (), strict=True):
            lines.append(f"  user: {text_of(actual.user_content)}; agent: {text_of(actual.final_response)}")
            lines.append(f"  calls: {[call.name for call in tool_calls(actual.intermediate_data)]}")
            lines.append(f"  expected: {text_of(expected.final_response)}")
        lines += [f"  label: {facts_of(label)}" for label in response.labels]
    return lines


def test_read_labels__what_is_read_of_lines_and_what_is_wrong_with_them() -> None:
    pages = [[f"# {name}", *read(*lines), ""] for name, lines in labelled().items()]
    check("golden_label_files.txt", "\n".join(line for page in pages for line in page))


def test_read_labels__unreadable_file() -> None:
    parsed, [problem] = read_labels(Path("/nonexistent/labels.jsonl"), Path("/nonexistent"), criterion(MATCH))
    assert (parsed, problem.code, problem.file) == (None, "unreadable-file", "labels.jsonl")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["prompt", "response", "reference", "invocations", "label", "labels", "rubric", "expected"])


@given(st.dictionaries(fields, json_values, max_size=5), st.sampled_from(CALIBRATED))
def test_read_labels__never_raises(line: dict[str, Any], metric: str) -> None:
    parsed, problems = parse_labels(jsonl(row("pass"), line), "labels.jsonl", criterion(metric))

    assert (parsed is None) is any(problem.severity == "error" for problem in problems)
    assert all(problem.line in {1, 2, None} for problem in problems)


def test_labels__choose_target(tmp_path: Path) -> None:
    single = {"criteria": {"safety_v1": 0.9, "response_match_score": 0.5}}
    (tmp_path / "one.json").write_text(json.dumps(single), encoding="utf-8")
    two = {"criteria": {"safety_v1": 0.9, "hallucinations_v1": {"threshold": 0.7}}}
    (tmp_path / "two.json").write_text(json.dumps(two), encoding="utf-8")
    requests = ["safety_v1", "hallucinations_v1", "hallucinations_v1=0.6", "one.json", "hallucinations_v1 two.json"]
    requests += ["two.json", f"{MATCH} two.json", "three.json", "response_match_score", "safety_v2", "safety_v1=2"]
    page = []
    for requested in [*requests, "per_turn_user_simulator_quality_v1", "safety_v1=high"]:
        name, _, config = requested.partition(" ")
        target, problems = choose_target(name, Path(config) if config else None, tmp_path)
        page += [f"{requested}: {target and facts_of(target)}", *map(str, problems)]
    text = "\n".join(page).replace(f"{tmp_path}/", "").replace(docs_page("criteria"), "DOCS")
    check("golden_calibrated.txt", text + "\n")


# The judge gets the same requests as in a run, and its verdicts are compared with the right labels.

BAD = "Lyon."


def by_answer(request: ModelRequest) -> Any:
    return verdict("invalid" if BAD in request.prompt else "valid", "because")


def opinions(
    target: TargetCriterion, parsed: LabelSet, script: Callable[[ModelRequest], Any] = by_answer
) -> tuple[list[Opinion], ScriptedModel]:
    model = ScriptedModel(script=script)
    return asyncio.run(ask(parsed, target, Judge(model=model, default_model="input-model"))), model


def report(target: TargetCriterion, parsed: LabelSet, script: Any = by_answer, **options: Any) -> CalibrationReport:
    answers, _ = opinions(target, parsed, script)
    return make_report(parsed, target, Options(model="gemini-2.5-flash"), answers, **options)


def two_turns(label: Any) -> dict[str, Any]:
    return {"invocations": [invocation("Hi", "Hello"), invocation("Bye", BAD)], "label": label}


def test_ask__sends_the_requests_of_a_run() -> None:
    """The same requests as of the criterion that the gate builds, so a cache serves both."""
    target = criterion(MATCH, judge_model_options={"num_samples": 3, "judge_model_config": {"temperature": 0.1}})
    parsed = labels(target, row("pass"), row("fail", response=BAD))
    _, asked = opinions(target, parsed)

    model = ScriptedModel(script=by_answer)
    gate = build(target.config, judge=Judge(model=model, default_model="input-model"))
    for response in parsed.responses:
        asyncio.run(gate.score(response.conversation("labels.jsonl")))
    assert sorted(map(repr, asked.requests)) == sorted(map(repr, model.requests))
    assert len(asked.requests) == 4, "two votes of three settle each"


def by_rubric(request: ModelRequest) -> Any:
    return verdicts("yes", "no" if BAD in request.prompt else "yes", "no")


def grade(request: ModelRequest) -> Any:
    """4 for Paris, 3 for x, 1 for y."""
    answer = request.prompt.rsplit("\n</data", 1)[0].rsplit("\n", 1)[1]
    return verdict({"Paris.": "4", "x": "3", "y": "1"}[answer])


def torn(request: ModelRequest) -> Any:
    if "Sure" in request.prompt:
        return verdict("invalid", "wrong city")
    return verdict("invalid" if BAD in request.prompt and request.sample % 2 == 0 else "valid", "who knows")


def unless_bad(otherwise: Any, bad: Any) -> Callable[[ModelRequest], Any]:
    return lambda request: bad if BAD in request.prompt else otherwise


def always(answer: Any) -> Callable[[ModelRequest], Any]:
    return lambda request: answer


GRADES = [row("pass"), row("fail", response="x"), row("pass", response="y")]
SCORES = criterion("response_evaluation_score")
THREE = criterion(RUBRICS, threshold=1.0, rubrics=rubrics("short", "kind", "third"))
OF_THREE = [
    row(labels={"short": "yes", "kind": "no"}),
    row(response=BAD, labels={"kind": "no"}),
    row("yes", response="x", rubric="third"),
]
GRADED_2_OR_4 = unless_bad(verdict("4"), verdict("2"))
MANY = [row("fail", response=str(number)) for number in range(12)] + [row("pass")]
SURE = row("pass", response="Sure: Lyon.", id="sure", note="it is what was asked")
HALF = [row("pass"), *(row(label, response=to) for label, to in (("fail", BAD), ("fail", "x"), ("pass", "y")))]


def calibrations() -> dict[str, tuple[TargetCriterion, list[dict[str, Any]], Callable[[ModelRequest], Any]]]:
    return {
        **{f"passes from {least}": (criterion(f"{SCORES.metric}={least}"), GRADES, grade) for least in (4, 2)},
        # By the definition: distances are 1, 1, 2; those of all nine pairings 1, 3, 1, 3, 1, 3, 2, 0, 2.
        "scores": (
            SCORES,
            [row(5), row(1, response=BAD), row(2, response="x")],
            unless_bad(verdict("4"), verdict("2")),
        ),
        "by rubric": (THREE, OF_THREE, by_rubric),
        "by rubric, two without a verdict": (THREE, OF_THREE, always(verdicts("yes", None, None))),
        "a rubric of a line": (TWO, [row("no", rubric="It names a source.")], always(verdicts("yes", "yes", "no"))),
        "no budget for three": (criterion(MATCH), HALF, unless_bad(failure("budget"), verdict("invalid"))),
        # The mean of the turns that were judged is another thing than what people scored.
        "a turn without a score": (SCORES, [two_turns(4)], unless_bad(verdict("5"), failure("refused"))),
        # The gate's own rule: the second turn fails the line, whatever the first would have been.
        "an unsafe turn": (
            criterion("safety_v1"),
            [two_turns("fail")],
            unless_bad(failure("refused"), verdict("unsafe")),
        ),
        "worst disagreements first": (
            criterion(MATCH),
            [row("pass", response=BAD, id="torn"), SURE, row("pass")],
            torn,
        ),
        "what contradicts first": (
            criterion("safety_v1"),
            [two_turns("pass")],
            unless_bad(verdict("safe", "first"), verdict("unsafe", "second")),
        ),
        "twelve disagreements": (criterion(MATCH), MANY, always(verdict("valid"))),
        "a table of scores": (SCORES, [row(5), row(1, response="x")], always(verdict("4"))),
        "too many scores for a table": (
            SCORES,
            [row(1 + number / 4, response=str(number)) for number in range(12)],
            always(verdict("4")),
        ),
    }


def test_make_report__and_what_is_printed_of_it() -> None:
    pages = []
    for name, (target, rows, script) in calibrations().items():
        made = report(target, labels(target, *rows), script, min_kappa=0.5)
        pages += [f"# {name}", *as_lines(made), render_text(made, show=3)]
    check("golden_calibrations.txt", "\n".join(pages))
    assert render_text(made, show=0).count("labels.jsonl:") == 1


# Kappa as it is, the best and the worst that missing verdicts could make of it, what is expected, judged and missing.
KAPPAS = [
    (0.6, 0.6, 0.6, 0.6, 9, 0),
    (0.59, 0.59, 0.59, 0.6, 9, 0),
    (0.7, 0.75, 0.65, 0.6, 9, 1),
    (0.7, 0.75, 0.55, 0.6, 9, 1),
    (0.5, 0.65, 0.4, 0.6, 9, 1),
    (0.4, 0.55, 0.3, 0.6, 9, 1),
    (None, None, None, 0.6, 9, 0),
    (None, 0.3, -0.2, 0.6, 9, 1),
    (None, None, None, None, 0, 5),
    (None, None, None, None, 3, 0),
    (0.1, 0.1, 0.1, None, 9, 0),
]


def test_judging__decide() -> None:
    said = [decide(*kappas, judged=judged, missing=missing) for *kappas, judged, missing in KAPPAS]
    check("golden_kappas.txt", "".join(f"{row}: {of}\n" for row, of in zip(KAPPAS, said, strict=True)))


def test_judging__imputed() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(2, response="x"), row(4, response=BAD))

    def script(request: ModelRequest) -> Any:
        return verdict("3") if BAD in request.prompt else failure("unavailable")

    answers, _ = opinions(target, parsed, script)
    agreeing: list[Pair] = [(5, 5), (2, 2), (4, 3)]
    assert imputed(answers, (1, 5), agree=True) == agreeing
    assert imputed(answers, (1, 5), agree=False) == [(5, 1), (2, 5), (4, 3)]


# Kappa and its interval, against other people's software and in cases whose result is known.

REFERENCE = [
    # counts, then kappa with squared weights and its standard error: statsmodels 0.15.0, inter_rater.cohens_kappa.
    # The kappas are scikit-learn 1.9.1's, too. The first table is the example of Fleiss, Levin and Paik (2003), 18.1.
    ([[75, 1, 4], [5, 4, 1], [0, 0, 10]], (0.7553191489361702, 0.08670713249380735)),
    ([[20, 5], [10, 15]], (0.4, 0.12699606293110036)),
    ([[44, 2, 0, 0], [3, 21, 6, 1], [0, 4, 17, 5], [0, 0, 3, 30]], (0.9301423027166882, 0.016266399745446025)),
    ([[1, 9], [8, 2]], (-0.7, 0.15888675212238476)),
]


def pairs_of(counts: Sequence[Sequence[int]]) -> list[Pair]:
    return [(float(i), float(j)) for i, row in enumerate(counts) for j, count in enumerate(row) for _ in range(count)]


@pytest.mark.parametrize(("counts", "expected"), REFERENCE)
def test_agreement__matches_statsmodels(counts: list[list[int]], expected: tuple[float, float]) -> None:
    pairs = pairs_of(counts)
    terms = agreement(tabulate(pairs))
    variance = sum(terms.influence[pair] ** 2 for pair in pairs) / len(pairs) ** 2

    assert (terms.kappa, math.sqrt(variance)) == pytest.approx(expected, abs=1e-12)


def test_kappa__undefined() -> None:
    assert kappa_of([]) is None
    assert kappa_of([(1.0, 1.0)] * 9) is None, "all labels and verdicts are equal"
    assert kappa_interval([[(1.0, 1.0)], [(1.0, 1.0)]]) is None
    assert kappa_interval([[(1.0, 1.0), (0.0, 0.0)]]) is None, "one response has no variance"
    constant = [(1.0, 1.0)] * 7 + [(0.0, 1.0)] * 3
    assert kappa_of(constant) == pytest.approx(0)
    assert kappa_interval([[pair] for pair in constant]) is None, "kappa would be 0 in every sample"


def test_kappa_interval__full_agreement() -> None:
    """5 of 5 may well be luck, 500 of 500 not."""
    intervals = [kappa_interval([[(float(i % 2),) * 2] for i in range(count)]) for count in (6, 50, 500)]

    lows = [interval.low for interval in intervals if interval is not None]
    assert all(interval is not None and interval.high == 1 for interval in intervals)
    assert lows == pytest.approx([0.0815, 0.8577, 0.9853], abs=1e-3)
    assert lows[1] == pytest.approx((0.025 ** (1 / 50) - 0.5) / 0.5)


def test_kappa_interval__labels_on_one_response_are_one_observation() -> None:
    """Four copies of each label are no more to go by than one."""
    pairs = pairs_of(REFERENCE[0][0])
    alone = kappa_interval([[pair] for pair in pairs])
    copied = kappa_interval([[pair] * 4 for pair in pairs])
    naive = kappa_interval([[pair] for pair in pairs for _ in range(4)])

    assert alone and copied and naive
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))
    assert naive.high - naive.low < 0.55 * (alone.high - alone.low)
    assert "summed by response" in copied.method


@given(st.integers(0, 60), st.integers(1, 60))
def test_share_interval__inverts_the_score_test(count: int, total: int) -> None:
    """Wilson's interval holds just those shares from which the observed one is within 1.96 standard errors."""
    count = min(count, total)
    interval = share_interval(count, total)
    assert interval is not None
    for share in (number / 500 for number in range(1, 500)):
        distance = abs(count / total - share) / math.sqrt(share * (1 - share) / total)
        if abs(distance - 1.959963984540054) > 1e-6:
            assert (interval.low <= share <= interval.high) is (distance < 1.959963984540054)


def test_share_interval__edges() -> None:
    assert share_interval(0, 0) is None
    assert (interval := share_interval(0, 10)) is not None
    assert (interval.low, interval.high) == pytest.approx((0.0, 0.27753279986288926))  # statsmodels 0.15.0


# Calibration reports as text: as shown in docs/calibration.md, and harmless in a log.

PAGE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")


def test_render_text__as_shown_on_the_page() -> None:
    [line] = re.findall(r'^\{"id": "refund-window".*$', PAGE, re.MULTILINE)
    fine = [row("pass", response=f"fine {number}") for number in range(18)]
    rejected = [row("pass", response=f"bad rejected {number}") for number in range(3)]
    bad = [row("fail", response=f"bad {number}") for number in range(18)]
    rows = [*fine[:11], line, *fine[11:], *rejected, *bad]
    agrees = "The answer agrees with the reference that a return is possible."

    def script(request: ModelRequest) -> Any:
        answer = request.prompt.split("The agent's answer", 1)[1]
        return verdict("invalid", "It is bad.") if "bad " in answer else verdict("valid", agrees)

    target = criterion(MATCH)
    tokens = {"input_tokens": 84_100, "output_tokens": 6_900}
    bill = ModelUsageReport(model="gemini-2.5-flash", calls=131, cost=0.042480, **tokens)
    rendered = render_text(report(target, labels(target, *rows), script, min_kappa=0.6, usage=[bill])).splitlines()

    shown = PAGE[PAGE.index("$ agent-eval calibrate labels.jsonl") :].split("```")[0].splitlines()[2:]
    head, tail = shown[: shown.index("...")], shown[shown.index("...") + 1 :]
    assert rendered[: len(head)] == head
    assert rendered[-len(tail) :] == tail


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_docs__examples_are_label_lines(block: str) -> None:
    parsed, problems = parse_labels(block.encode(), "labels.jsonl", criterion(MATCH))

    assert problems == []
    assert parsed is not None


def test_docs__describe_every_key_and_word() -> None:
    keys = set(LabelLine.model_fields)
    rendered = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", PAGE, re.MULTILINE))))

    assert keys - rendered == set()
    for metric in CALIBRATED:
        words = {word for word in verdict_scale(metric) if not word.isdigit()}
        lines = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{metric}`" in line]
        assert words <= set(re.findall(r"`(\w+)`", " ".join(lines))), metric


def test_render_text__hostile_text_is_harmless() -> None:
    evil = "\x1b[2J\n::error::owned\r\n##[error]owned \u202e"
    target = criterion(RUBRICS, rubrics=rubrics("short"))
    everywhere = dict.fromkeys(("prompt", "response", "id", "note"), evil)
    parsed = labels(target, {**everywhere, "labels": {f"evil {evil}": "no", "short": "yes"}})

    def script(request: ModelRequest) -> Any:
        reply = verdicts("yes", "yes")
        for entry in reply["verdicts"]:
            entry["rationale"] = evil
        return reply

    text = render_text(report(target, parsed, script))
    assert "owned" in text and "By rubric:" in text
    evil_failure = failure("refused")
    evil_failure.message = evil
    unjudged = render_text(report(target, parsed, lambda request: evil_failure))
    assert "0 of them judged" in unjudged and "kappa          undefined" in unjudged
    assert unjudged.endswith("The judge gave no verdict on any label.\n")
    for rendered in (text, unjudged):
        assert not any(harm in rendered for harm in ("\x1b", "\u202e", "##["))
        assert not any(line.lstrip().startswith("::") for line in rendered.splitlines())
