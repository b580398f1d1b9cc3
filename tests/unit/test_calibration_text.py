"""A calibration as text: what the page shows is what comes out, and nothing in it acts on a log."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, criterion, labels, row, rubrics
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval.calibration.choosing import CALIBRATED, Chosen, scale_of
from agent_eval.calibration.counting import make_report
from agent_eval.calibration.judging import ask
from agent_eval.calibration.labels import LabelSet, parse_labels
from agent_eval.calibration.lines import LabelLine
from agent_eval.calibration.report import CalibrationReport
from agent_eval.calibration.text import render_text
from agent_eval.criteria.judged.judge import Judge, Options
from agent_eval.models.protocol import ModelRequest
from agent_eval.results.report import ModelUsageReport

PAGE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")
MATCH = "final_response_match_v2"


def report(chosen: Chosen, found: LabelSet, script: Any, **options: Any) -> CalibrationReport:
    said = asyncio.run(ask(found, chosen, Judge(model=ScriptedModel(script=script))))
    return make_report(found, chosen, Options(model="gemini-2.5-flash"), said, **options)


def test_the_page_shows_what_comes_out() -> None:
    [line] = re.findall(r'^\{"id": "refund-window".*$', PAGE, re.MULTILINE)
    fine = [row("pass", response=f"fine {number}") for number in range(18)]
    held_up = [row("pass", response=f"bad held up {number}") for number in range(3)]
    bad = [row("fail", response=f"bad {number}") for number in range(18)]
    rows = [*fine[:11], line, *fine[11:], *held_up, *bad]
    agrees = "The answer agrees with the reference that a return is possible."

    def script(request: ModelRequest) -> Any:
        answer = request.prompt.split("The agent's answer", 1)[1]
        return verdict("invalid", "It is bad.") if "bad " in answer else verdict("valid", agrees)

    chosen = criterion(MATCH)
    bill = ModelUsageReport(
        model="gemini-2.5-flash", calls=131, input_tokens=84_100, output_tokens=6_900, cost=0.042480
    )
    told = render_text(report(chosen, labels(chosen, *rows), script, min_kappa=0.6, usage=[bill])).splitlines()

    shown = PAGE[PAGE.index("$ agent-eval calibrate labels.jsonl") :].split("```")[0].splitlines()[2:]
    head, tail = shown[: shown.index("...")], shown[shown.index("...") + 1 :]
    assert told[: len(head)] == head
    assert told[-len(tail) :] == tail


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_are_label_lines(block: str) -> None:
    found, problems = parse_labels(block.encode(), "labels.jsonl", criterion(MATCH))

    assert problems == []
    assert found is not None


def test_every_key_and_word_of_a_line_is_described() -> None:
    keys = set(LabelLine.model_fields)
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", PAGE, re.MULTILINE))))

    assert keys - told == set()
    for metric in CALIBRATED:
        words = {word for word in scale_of(metric) if not word.isdigit()}
        lines = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{metric}`" in line]
        assert words <= set(re.findall(r"`(\w+)`", " ".join(lines))), metric


def test_what_people_and_models_wrote_acts_on_nothing() -> None:
    evil = "\x1b[2J\n::error::owned\r\n##[error]owned \u202e"
    chosen = criterion(RUBRICS, rubrics=rubrics("short"))
    found = labels(
        chosen,
        {"prompt": evil, "response": evil, "id": evil, "note": evil, "labels": {f"evil {evil}": "no", "short": "yes"}},
    )

    def script(request: ModelRequest) -> Any:
        said = verdicts("yes", "yes")
        for entry in said["verdicts"]:
            entry["rationale"] = evil
        return said

    text = render_text(report(chosen, found, script))
    assert "owned" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "##[" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    evil_failure = failure("refused")
    evil_failure.message = evil
    text = render_text(report(chosen, found, lambda request: evil_failure))
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_only_so_many_disagreements_are_shown() -> None:
    chosen = criterion(MATCH)
    found = labels(chosen, *(row("fail", response=str(number)) for number in range(12)), row("pass"))
    told = report(chosen, found, lambda request: verdict("valid"))

    assert "The worst 3 of 12 disagreements:" in render_text(told, show=3)
    assert render_text(told, show=3).count("labels.jsonl:") == 1 + 3
    assert render_text(told, show=0).count("labels.jsonl:") == 1


def test_scores_have_a_table_while_it_fits() -> None:
    chosen = criterion("response_evaluation_score")
    found = labels(chosen, row(5), row(1, response="x"))
    text = render_text(report(chosen, found, lambda request: verdict("4")))

    assert "people  1  4  5" in text
    assert "difference     the judge is 1.00 above people on average" in text
    many = labels(chosen, *(row(1 + number / 4, response=str(number)) for number in range(12)))
    assert "people  1" not in render_text(report(chosen, many, lambda request: verdict("4")))


def test_without_any_verdict() -> None:
    chosen = criterion(MATCH)
    found = labels(chosen, row("pass"), row("fail", response="x"))
    text = render_text(report(chosen, found, lambda request: failure("budget")))

    assert "kappa          has no value" in text
    assert "2 labels on 2 responses, 0 of them judged" in text
    assert text.endswith("The judge gave no verdict on any label.\n")


def test_the_report_is_read_again() -> None:
    chosen = criterion(MATCH)
    told = report(chosen, labels(chosen, row("pass"), row("fail", response="x")), lambda request: verdict("valid"))

    assert CalibrationReport.model_validate(json.loads(told.model_dump_json())) == told
