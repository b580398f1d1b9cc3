"""Calibration reports as text: as shown in docs/calibration.md, and harmless in a log."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, criterion, labels, row, rubrics
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval.criteria.judged import Judge, Options, verdict_scale
from agent_eval.models.protocol import ModelRequest
from agent_eval.results.report import ModelUsageReport
from agent_eval_workbench.calibration.judging import ask
from agent_eval_workbench.calibration.labels import LabelLine, LabelSet, parse_labels
from agent_eval_workbench.calibration.report import CalibrationReport, make_report, render_text
from agent_eval_workbench.calibration.target import CALIBRATED, TargetCriterion

PAGE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")
MATCH = "final_response_match_v2"


def report(target: TargetCriterion, parsed: LabelSet, script: Any, **options: Any) -> CalibrationReport:
    reply = asyncio.run(ask(parsed, target, Judge(model=ScriptedModel(script=script))))
    return make_report(parsed, target, Options(model="gemini-2.5-flash"), reply, **options)


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
    bill = ModelUsageReport(
        model="gemini-2.5-flash", calls=131, input_tokens=84_100, output_tokens=6_900, cost=0.042480
    )
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
    parsed = labels(
        target,
        {"prompt": evil, "response": evil, "id": evil, "note": evil, "labels": {f"evil {evil}": "no", "short": "yes"}},
    )

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


def test_render_text__limits_disagreements() -> None:
    target = criterion(MATCH)
    parsed = labels(target, *(row("fail", response=str(number)) for number in range(12)), row("pass"))
    rendered = report(target, parsed, lambda request: verdict("valid"))

    assert "The worst 3 of 12 disagreements:" in render_text(rendered, show=3)
    assert render_text(rendered, show=3).count("labels.jsonl:") == 1 + 3
    assert render_text(rendered, show=0).count("labels.jsonl:") == 1


def test_render_text__table_of_scores() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(1, response="x"))
    text = render_text(report(target, parsed, lambda request: verdict("4")))

    assert "people  1  4  5" in text
    assert "difference     verdicts are on average 1.00 above the labels" in text
    many = labels(target, *(row(1 + number / 4, response=str(number)) for number in range(12)))
    assert "people  1" not in render_text(report(target, many, lambda request: verdict("4")))
