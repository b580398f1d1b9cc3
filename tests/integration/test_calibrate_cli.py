"""`agent-eval calibrate` as people start it, with a Gemini on loopback as the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_gemini import FakeGemini
from judged_gate import BAD, KEY, WORDS, Judge

from agent_eval.cli import main

MATCH = "final_response_match_v2"


@pytest.fixture
def judge() -> Iterator[FakeGemini]:
    with FakeGemini(Judge(), keep=1000) as server:
        yield server


def write(path: Path, *rows: Mapping[str, Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def row(number: int, answer: str, label: Any, **more: Any) -> dict[str, Any]:
    return {"prompt": f"{number}: the capital?", "response": answer, "reference": "Paris.", "label": label, **more}


def twenty(wrong: int) -> list[dict[str, Any]]:
    """Ten answers that the judge passes and ten that it fails; people differ on so many of the latter."""
    fine = [row(number, "Paris.", "pass") for number in range(10)]
    return fine + [row(number, BAD, "pass" if number < 10 + wrong else "fail") for number in range(10, 20)]


@pytest.fixture
def calibrate(
    tmp_path: Path, judge: FakeGemini, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """In this process, which saves a second each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_JUDGE_API_KEY", KEY)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["calibrate", *arguments, "--judge-base-url", judge.url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_calibrate__min_kappa(tmp_path: Path, judge: FakeGemini, calibrate: Any) -> None:
    write(tmp_path / "labels.jsonl", *twenty(wrong=2))
    arguments = ("labels.jsonl", "--criterion", MATCH, "--min-kappa")

    passed = calibrate(*arguments, "0.8")
    assert passed[0] == 0, passed[2]
    assert judge.stats.requests == 60, "three votes of five settle each"
    assert "agent-eval: 20 responses; gemini-2.5-flash will be asked 60 to 100 times." in passed[2]
    assert "kappa          0.80 (95% interval 0.35 to 0.95)" in passed[1]
    assert "wrongly failed 2 of 12 (17%, 5% to 45%) labelled pass" in passed[1]
    assert passed[1].rstrip().endswith("Kappa 0.800 reaches 0.8.")
    assert "labels.jsonl:11: people pass, judge fail (3:0)" in passed[1]
    assert "\n::error" not in passed[1]
    assert KEY not in passed[1] + passed[2]

    failed = calibrate(*arguments, "0.9", "--format", "json")
    assert failed[0] == 1
    report = json.loads(failed[1])
    assert (report["verdict"], report["kappa"]) == ("failed", pytest.approx(0.8))
    assert report["table"] == {"categories": [0.0, 1.0], "counts": [[8, 0], [2, 10]]}
    assert report["disagreements"][0]["rationale"] == [WORDS]
    assert [entry["calls"] for entry in report["usage"]] == [60]


def test_calibrate__too_few_verdicts(tmp_path: Path, calibrate: Any) -> None:
    write(tmp_path / "labels.jsonl", *twenty(wrong=0))

    code, out, _ = calibrate(
        "labels.jsonl", "--criterion", MATCH, "--min-kappa", "0.8", "--max-judge-calls", "45", "--format", "json"
    )

    report = json.loads(out)
    assert (code, report["verdict"]) == (3, "inconclusive")
    assert 0 < report["judged"] < 20
    assert [entry["code"] for entry in report["unjudged"]] == ["budget"]
    assert report["kappa_if_unjudged_disagree"] < 0.8 < report["kappa_if_unjudged_agree"]


def test_calibrate__mistakes_cost_no_call(tmp_path: Path, judge: FakeGemini, calibrate: Any) -> None:
    write(tmp_path / "labels.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "perhaps"), {"label": "pass"})
    write(tmp_path / "same.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "pass"))

    code, out, err = calibrate("labels.jsonl", "--criterion", MATCH)
    assert (code, out) == (2, "")
    assert "2:85: error [label-unknown]" in err
    assert "3:1: error [label-without-response]" in err

    for arguments, problem in (
        (("same.jsonl", "--criterion", MATCH, "--min-kappa", "0.5"), "labels-one-sided"),
        (("same.jsonl", "--criterion", "safety"), "unknown-metric"),
        (("same.jsonl", "--criterion", MATCH, "--judge-model", "what/ever"), "judge-model-unknown"),
    ):
        code, out, err = calibrate(*arguments)
        assert (code, out) == (2, ""), arguments
        assert f"[{problem}]" in err
    assert judge.stats.requests == 0
