"""The gate with a judge, from end to end: a process of its own, and a Gemini on loopback that judges."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest
from fake_gemini import FakeGemini, Fault
from gate_runs import Done, Repository, patience, told
from golden_files import check
from judged_gate import (
    BAD,
    KEY,
    METRICS,
    RUBRIC_METRICS,
    RUBRICS,
    TORN,
    Judge,
    answers,
    criteria,
    everything_written,
    judged_run,
)

NO_KEYS = {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "", "CI": "true"}
METRIC = "final_response_match_v2"


@pytest.fixture
def judge() -> Iterator[FakeGemini]:
    with FakeGemini(Judge(), keep=10_000) as server:
        yield server


def test_judge__approves_and_rejects_with_votes_and_rationale(repository: Repository, judge: FakeGemini) -> None:
    criteria(repository, METRIC)
    answers(repository, {"good": "Paris.", "wordy": "It is Paris."})
    approved = judged_run(repository, judge, code=0)
    assert judge.stats.requests == 6, "three votes of five settle it"
    [bill] = approved.report.model_usage
    assert (bill.model, bill.calls, bill.failures, bill.saved_votes) == ("gemini-2.5-flash", 6, 0, 4)
    spent = {(item.case_id.rpartition(":")[2], item.purpose, item.calls) for item in approved.report.case_usage}
    assert spent == {("good", METRIC, 3), ("wordy", METRIC, 3)}
    assert sum(item.cost or 0 for item in approved.report.case_usage) == pytest.approx(bill.cost)
    story = [told("approved", approved)]
    approved.check_files()

    answers(repository, {"bad": BAD, "torn": TORN, "good": "Paris."})
    done = judged_run(repository, judge, code=1)
    story.append(told("rejected", done))
    check("golden_gate/judged.txt", "".join(story))
    junit = ET.parse(done.output / "junit.xml")
    explained = {case.attrib["name"]: "".join(case.itertext()) for case in junit.iter("testcase")}
    summary = (done.output / "summary.md").read_text("utf-8")
    console = " ".join(done.out.replace("│", " ").split())
    for text in (console, summary, explained["bad"] + explained["torn"]):
        assert "invalid (3:0)" in text
        assert "invalid (3:2, close)" in text
        assert "Lyon" in text and "Paris was asked for" in text
    assert "3:2" not in explained["bad"]
    assert "1 of 3 verdicts was close" in summary
    assert "<b>" not in summary and "@octocat" not in summary, "the judge's words are escaped"
    assert not any(line.lstrip().startswith("::error::") for line in (done.out + summary).splitlines())
    done.check_files()


def test_judge__all_metrics_of_fixed_turns_can_fail(repository: Repository, judge: FakeGemini) -> None:
    """All but that of the simulated user. test_judged_example.py has them all, and they pass."""
    rubrics: dict[str, Any] = {metric: {"threshold": 0.5, **RUBRICS} for metric in RUBRIC_METRICS}
    coherence = {"response_evaluation_score": {"threshold": 3.0}}
    criteria(repository, *METRICS, more={**rubrics, **coherence, "response_match_score": 0.0})
    answers(repository, {BAD: [BAD, BAD]})  # A metric that sees no answer sees it in the question.

    done = judged_run(repository, judge, code=1)

    metrics = [metric for metric in done.report.cases[0].metrics if metric.threshold is not None]
    assert len(metrics) == len(METRICS) + len(RUBRIC_METRICS) + 2
    assert {metric.name for metric in metrics if metric.status != "failed"} == {"response_match_score"}
    assert sum(bill.calls for bill in done.report.model_usage) == judge.stats.requests
    assert [run.details["backend"] for each in metrics for run in each.runs if "backend" in run.details] == 5 * [
        "judge"
    ]
    done.check_files()


def test_judge_replay__without_a_key_and_with_a_miss(repository: Repository, judge: FakeGemini) -> None:
    criteria(repository, METRIC)
    answers(repository, {"torn": TORN, "good": "Paris."})
    asking = judged_run(repository, judge, "--judge-cache", "cache")
    asked = judge.stats.requests

    def replay(*arguments: str) -> Done:
        return judged_run(repository, None, "--replay", "all", "--judge-cache", "cache", *arguments)

    story = [told("asked", asking), told("replayed", replay())]
    answers(repository, {"torn": TORN, "good": "Paris!"})
    story.append(told("one is missing", replay("--on-inconclusive", "fail")))
    answers(repository, {"good": "Paris!"})
    story.append(told("the only one is missing", replay("--on-inconclusive", "pass")))
    assert judge.stats.requests == asked
    check("golden_gate/judged_replays.txt", "".join(story))


def test_judge_key__reaches_only_the_judge(repository: Repository, judge: FakeGemini) -> None:
    repository.agent("home")
    repository.evals("evals/some.test.json", {"looks": "facts"})
    form = json.loads((repository.root / "evals/some.test.json").read_text("utf-8"))
    form["eval_cases"][0]["session_input"] = {"app_name": "home", "user_id": "u", "state": {"guest": "Ann"}}
    repository.write({"evals/some.test.json": form})
    criteria(repository, METRIC)

    done = repository.gate(
        *("run", "evals", "--agent", "home", "--judge-base-url", judge.url, "--judge-cache", "cache"),
        environment={"AGENT_EVAL_JUDGE_API_KEY": KEY},
    )

    assert done.code == 0, done.out + done.err
    assert {request.headers["x-goog-api-key"] for request in judge.received} == {KEY}
    [recording] = done.recordings
    answer = recording.invocations[0].final_response
    assert answer is not None and answer.parts
    facts = json.loads(str(answer.parts[0].text).removesuffix(" Please."))
    assert "PATH" in facts["environment"], "it is the agent's environment that was looked at"
    assert "AGENT_EVAL_JUDGE_API_KEY" not in facts["environment"]
    written = everything_written(done) + gzip.decompress((done.output / "recordings.jsonl.gz").read_bytes())
    written += b"".join(path.read_bytes() for path in (repository.root / "cache").rglob("*") if path.is_file())
    assert KEY.encode() not in written


def test_judge_model__unknown_to_the_provider(repository: Repository) -> None:
    criteria(repository, METRIC)
    answers(repository, {f"c{number}": "Paris." for number in range(5)})
    with FakeGemini(lambda _: Fault(kind=404, message=f"models/gemini-9-flush is not found with {KEY}")) as server:
        done = judged_run(repository, server, "--judge-model", "gemini-9-flush")
        asked = ("--judge-model", "gemini-9-flush", "--on-inconclusive", "pass")
        tolerated = judged_run(repository, server, *asked, output=repository.root / "tolerated")
        url = server.url

    assert (done.code, tolerated.code, tolerated.report.verdict) == (3, 0, "inconclusive")
    assert "Next: fix `judge-model` or its key." in done.out, "starting the job again does not help"
    assert [reason.code for reason in done.report.reasons] == ["judge-invalid-request", "nothing-scored"]
    expected = f"`gemini-9-flush` at {url} can't be used: the provider does not know this model or URL (404"
    for text in ((done.output / "summary.md").read_text("utf-8"), " ".join(done.out.split())):
        assert text.replace("&#8203;", "").count(expected) == text.count("is not found") == 1, text
        assert "`judge-model`" in text
    assert KEY.encode() not in everything_written(done), "masked where the provider quotes it"


@pytest.mark.slow
def test_judge__unavailable_is_inconclusive_and_reported_once(repository: Repository) -> None:
    criteria(repository, METRIC)
    answers(repository, {f"c{number:02}": "Paris." for number in range(30)})
    with FakeGemini(lambda _: Fault(kind=503)) as server:
        done = judged_run(repository, server, "--run-timeout", "8")

    assert done.code == 3
    assert done.seconds < 8 + 10 * patience()
    assert set(done.statuses.values()) <= {"errored", "not_run"}
    codes = [reason.code for reason in done.report.reasons]
    assert "judge-unavailable" in codes and codes[-1] == "nothing-scored" and len(codes) <= 3
    for text in ((done.output / "summary.md").read_text("utf-8"), " ".join(done.out.split())):
        # 30 cases, and at most one line for each of two causes.
        assert 1 <= text.count("scripted fault") <= len(codes) - 1, "reported once, not for each case"
    done.check_files()


def test_without_keys__each_mode(repository: Repository) -> None:
    criteria(repository, METRIC, more={"response_match_score": 1.0})
    repository.evals("judged/only.evalset.json", {"judged": ["the capital?"]}, expect={"judged": "Paris."})
    config = {"criteria": {METRIC: {"threshold": 0.5, "judge_model_options": {"num_samples": 5}}}}
    repository.write({"judged/test_config.json": config})
    story = []

    def tell(title: str, mode: str, *paths: str) -> None:
        done = judged_run(repository, None, *paths, "--without-keys", mode, environment=NO_KEYS)
        assert "will be asked" not in done.err
        assert (done.output / "summary.md").read_text("utf-8").count("no key for") >= (mode != "invalid")
        done.check_files()
        metrics = [(case.eval_id, metric) for case in done.report.cases for metric in case.metrics if metric.threshold]
        facts = [(name, each.name, each.status, each.reason and each.reason.code) for name, each in metrics]
        story.append(told(f"{title}, {mode}", done, *map(str, facts)))

    modes = ("deterministic-only", "inconclusive", "invalid")
    for answer, mode in (("Lyon.", modes[0]), *(("Paris.", mode) for mode in modes)):
        answers(repository, {"mixed": answer})
        tell(answer, mode, "judged")
    criteria(repository, METRIC)
    tell("nothing without a judge", "deterministic-only")
    check("golden_gate/without_keys.txt", "".join(story))
