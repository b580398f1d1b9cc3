"""`agent-eval calibrate` as people start it, with a Gemini on loopback as the judge."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gate_server
import pytest
from fake_gemini import FakeGemini, Fault
from gate_runs import repository_in
from judged_gate import BAD, KEY, WORDS, Judge, answers, criteria, judged_run

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


def started(root: Path, server: FakeGemini, *arguments: str) -> tuple[int, str, str]:
    """As a process of its own."""
    done = gate_server.run(
        ["calibrate", *arguments, "--judge-base-url", server.url],
        cwd=root,
        environment={**os.environ, "AGENT_EVAL_JUDGE_API_KEY": KEY},
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def calibrate(
    tmp_path: Path, judge: FakeGemini, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """The same in this process, which saves a second each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_JUDGE_API_KEY", KEY)

    def run(*arguments: str, server: FakeGemini | None = judge) -> tuple[int, str, str]:
        url: Sequence[str] = () if server is None else ("--judge-base-url", server.url)
        code = main(["calibrate", *arguments, *url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_calibrate__min_kappa(tmp_path: Path, judge: FakeGemini) -> None:
    write(tmp_path / "labels.jsonl", *twenty(wrong=2))
    arguments = ("labels.jsonl", "--criterion", MATCH, "--min-kappa")

    passed = started(tmp_path, judge, *arguments, "0.8")
    assert passed[0] == 0, passed[2]
    assert judge.stats.requests == 60, "three votes of five settle each"
    assert "agent-eval: 20 responses; gemini-2.5-flash will be asked 60 to 100 times." in passed[2]
    assert "kappa          0.80 (95% interval 0.35 to 0.95)" in passed[1]
    assert "wrongly failed 2 of 12 (17%, 5% to 45%) labelled pass" in passed[1]
    assert passed[1].rstrip().endswith("Kappa 0.800 reaches 0.8.")
    assert "labels.jsonl:11: people pass, judge fail (3:0)" in passed[1]
    assert "\n::error" not in passed[1]
    assert KEY not in passed[1] + passed[2]

    failed = started(tmp_path, judge, *arguments, "0.9", "--format", "json")
    assert failed[0] == 1
    report = json.loads(failed[1])
    assert (report["verdict"], report["kappa"]) == ("failed", pytest.approx(0.8))
    assert report["table"] == {"categories": [0.0, 1.0], "counts": [[8, 0], [2, 10]]}
    assert report["disagreements"][0]["rationale"] == [WORDS]
    assert [entry["calls"] for entry in report["usage"]] == [60]


def test_calibrate__replay_without_a_key(
    tmp_path: Path, judge: FakeGemini, calibrate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "labels.jsonl", *twenty(wrong=1))
    arguments = ("labels.jsonl", "--criterion", MATCH, "--min-kappa", "0.5", "--format", "json")
    first = calibrate(*arguments, "--judge-cache", "cache")
    monkeypatch.delenv("AGENT_EVAL_JUDGE_API_KEY")

    again = calibrate(*arguments, "--judge", "replay", "--judge-cache", "cache", server=None)

    assert (first[0], again[0]) == (0, 0)
    assert judge.stats.requests == 60
    first_report, replayed = json.loads(first[1]), json.loads(again[1])
    assert replayed.pop("usage") != first_report.pop("usage")
    assert first_report == replayed


def test_calibrate__shares_the_cache_with_a_run(tmp_path: Path, judge: FakeGemini, calibrate: Any) -> None:
    """Both send the same requests, so the calibration is about the judge that gates."""
    with repository_in(tmp_path / "repo") as repository:
        criteria(repository, MATCH)
        answers(repository, {"good": "Paris.", "bad": BAD})
        done = judged_run(repository, judge, "--judge-cache", str(tmp_path / "cache"))
        assert done.code == 1
        config = str(repository.root / "evals" / "test_config.json")
    rows = [
        {"prompt": f"{name}, 0: the capital?", "response": answer, "reference": "Paris.", "label": label}
        for name, answer, label in (("good", "Paris.", "pass"), ("bad", BAD, "fail"))
    ]
    write(tmp_path / "labels.jsonl", *rows)

    code, out, _ = calibrate("labels.jsonl", "--criterion", config, "--judge-cache", "cache", "--format", "json")

    assert code == 0
    assert judge.stats.requests == 6
    [bill] = json.loads(out)["usage"]
    assert (bill["calls"], bill["cached_replies"]) == (0, 6)


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


def test_calibrate__judge_unavailable(tmp_path: Path, calibrate: Any) -> None:
    write(tmp_path / "labels.jsonl", *twenty(wrong=0))

    with FakeGemini(lambda request: Fault(kind=400)) as server:
        code, out, _ = calibrate("labels.jsonl", "--criterion", MATCH, server=server)

    assert code == 3
    assert "20 labels: [judge-invalid-request]" in out
    assert out.rstrip().endswith("The judge gave no verdict on any label.")


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


def test_calibrate__rubrics_of_a_config(tmp_path: Path, calibrate: Any) -> None:
    metric = "rubric_based_final_response_quality_v1"
    rubric = {"rubric_id": "short", "rubric_content": {"text_property": "It is short."}}
    config = {"criteria": {metric: {"threshold": 0.5, "rubrics": [rubric]}, "response_match_score": 0.5}}
    (tmp_path / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    rows = [
        {"prompt": f"{number}", "response": answer, "labels": {"short": label, "It is polite.": "no"}}
        for number, (answer, label) in enumerate([("Paris.", "yes"), (BAD, "no"), ("Rome.", "yes")])
    ]
    write(tmp_path / "labels.jsonl", *rows)

    code, out, err = calibrate("labels.jsonl", "--criterion", metric, "--config", "test_config.json")

    assert code == 0, err
    assert "labels.jsonl: 6 labels on 3 responses" in out
    assert "By rubric:" in out
    assert "kappa 1.00" in out
    assert "It is polite.: people fail, judge pass (3:0)" in out
