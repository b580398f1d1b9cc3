"""The command `agent-eval show`."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from remark_samples import notes
from report_samples import EVIL, RESPONSE, case, metric, report
from rich.cells import cell_len
from test_runner_conversations import FIND, LAMP, NO_DEVICES, actual, called, eval_case, expected, recording

from agent_eval.cli import main
from agent_eval.evalset.loading import load_suite
from agent_eval.report.renderers._case_text import RunView, case_text
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.causes import CauseCounts, CauseData, CauseExample, CauseReport
from agent_eval.results.conversation import ConversationReport, TurnReport
from agent_eval.results.recording import Recording, RunError
from agent_eval.results.report import CaseReport, RunReport, TurnEvidence
from agent_eval.runner.conversations import attach_conversations
from agent_eval.runner.fingerprints import case_fingerprint
from agent_eval.runner.journal import StoredCase, write_lines

FILE = "tests/a.test.json"
RUBRIC = "rubric_based_final_response_quality_v1"
LONG = {"devices": [], "note": "n" * 5_000}
BOOM = RunError(kind="agent-exception", owner="agent", message="boom", turn=0, traceback="Traceback: boom")
Show = Callable[..., tuple[int, str, str]]


def lamp() -> CaseReport:
    """Run 1 passed, run 2 failed and the votes of a judge differed, run 3 had an error."""
    evidence = TurnEvidence(
        turn=0, score=0.25, expected="The lamp is off.", actual="No lamp.", why=notes("1 of 4 words")
    )
    said = [("yes", "It says so."), ("no", "It is rude."), ("yes", "Good enough.")]
    votes = [{"sample": n, "verdict": verdict, "rationale": why} for n, (verdict, why) in enumerate(said)]
    polite = {"turn": 0, "subject": "polite", "verdict": "yes", "close": True, "votes": votes}
    judged = {"judge": {"model": "gemini-2.5-flash"}, "judgements": [polite]}
    result = case(
        "lamp",
        "failed",
        metric(RESPONSE, 1.0, 0.25, threshold=0.8, evidence={1: [evidence]}),
        metric(RUBRIC, 1.0, 1.0, threshold=0.5, details=judged),
        file=FILE,
        runs=3,
        errors={2: BOOM},
    )
    result.metrics[1].judge = "gemini-2.5-flash"
    result.runs[0].status = "passed"
    return result


def recordings() -> list[Recording]:
    calls = called("find_devices", LONG, room="bedroom")
    return [
        recording(actual("Lamp off.", "The lamp is off.", *called("find_devices", NO_DEVICES))),
        recording(actual("Lamp off.", "No lamp.", *calls), run=1),
        recording(run=2, error=BOOM),
        recording(actual("Fan on.", "Done."), eval_id="fan"),
    ]


def results() -> RunReport:
    fan = case("fan", "passed", metric(RESPONSE, 1.0, threshold=0.8), file=FILE, line=9)
    run = report("failed", [lamp(), fan], num_runs=3)
    by_id = {recording.run_id: recording for recording in recordings()}
    attach_conversations(
        run, {f"{FILE}:lamp": eval_case(expected("Lamp off.", "The lamp is off.", FIND, LAMP))}, by_id.get
    )
    return run


def write(folder: Path, run: RunReport) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(results_json(run), encoding="utf-8")
    write_models(folder / "recordings.jsonl.gz", *recordings())


def write_models(path: Path, *lines: BaseModel) -> None:
    write_lines(path, [line.model_dump_json(exclude_none=True).encode() + b"\n" for line in lines])


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs the command in a directory with results."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "agent-eval-results", results())

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["show", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def joined(text: str) -> str:
    """The text without the line breaks of the terminal."""
    return re.sub(r"\s+", "", text)


def test_show__the_first_failed_run_of_the_failed_case_or_another(show: Show) -> None:
    code, out, _ = show()
    lines = [line.strip() for line in out.splitlines()]

    assert code == 0
    assert "✓ run 1 passed, 1.2 s" in lines
    assert any(line.startswith("✗ run 2 failed, 1.2 s") and line.endswith("(shown below)") for line in lines)
    assert any(line.startswith("✗ run 3 failed: agent-exception") for line in lines)
    start = lines.index("turn 1 of run 2")
    assert lines[start + 1 : start + 3] == ["user     Lamp off.", 'call     find_devices(room="bedroom")']
    assert joined(json.dumps(LONG)) in joined(out), "the whole response"
    assert "expected The lamp is off." in lines
    assert "fan" not in out

    assert f"{RUBRIC} 1.00, needs 0.50, judged by gemini-2.5-flash" in out, "votes of a passed criterion"
    assert "turn 1 · polite: yes (2:1, close)" in out
    assert "2 no: It is rude." in out

    assert "answer   The lamp is off." in show("lamp", "--run", "1")[1]
    broken = show("lamp", "--run", "3")[1]
    assert "agent-exception in turn 1" in broken
    assert "Traceback: boom" in broken


def test_show__the_cases_of_a_cause(show: Show, tmp_path: Path) -> None:
    run = results()
    run.causes = [
        CauseReport(
            code="tool-empty",
            data=CauseData(tool="find_devices"),
            message="find_devices returned nothing",
            cases=[f"{FILE}:lamp"],
            failing=CauseCounts(total=1, having=1),
            passing=CauseCounts(total=1, having=0),
            example=CauseExample(case_id=f"{FILE}:lamp", run=1, turn=0, call=0),
        )
    ]
    write(tmp_path / "agent-eval-results", run)

    assert "turn 1 of run 2" in show("cause:1")[1]
    shown = json.loads(show("--format", "json", "cause:1")[1])
    assert [cause["message"] for cause in shown["causes"]] == ["find_devices returned nothing"]
    assert [case["case_id"] for case in shown["cases"]] == [f"{FILE}:lamp"]
    assert shown["cases"][0]["conversation"]["run"] == 1
    code, out, error = show("cause:2")
    assert (code, out) == (2, "")
    assert "has no 'cause:2'." in error
    assert "cause:1 is: find_devices returned nothing" in error


MANY = ",".join(f"another_{number}" for number in range(40))


@pytest.mark.parametrize("word", ["fan", f"{FILE}:fan", "f*", f"./{FILE}:f?n", f"{FILE}:fan,{MANY}"])
def test_show__selectors_of_cases(show: Show, word: str) -> None:
    code, out, _ = show(word)
    assert code == 0
    assert "passed fan" in out
    assert "lamp" not in out


@pytest.mark.parametrize(
    "words", [[FILE], ["tests"], ["tests/"], ["*"], ["elsewhere", "*"], ["elsewhere/results.json", "*"]]
)
def test_show__selectors_of_files_and_directories(show: Show, tmp_path: Path, words: list[str]) -> None:
    write(tmp_path / "elsewhere", results())
    out = show(*words)[1]
    assert "passed fan" in out
    assert "failed lamp" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lam"], "has no case 'lam'. Did you mean 'lamp'?"),
        (["nothing-like-it"], "has no case 'nothing-like-it'. It has 2 cases: lamp, fan"),
        (["lamp", "--run", "4"], "tests/a.test.json:lamp has no run 4. Its runs: 1, 2, 3."),
    ],
)
def test_show__unknown_case_or_run_is_an_error(show: Show, words: list[str], message: str) -> None:
    code, out, err = show(*words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"{}\n"),
        gzip.compress(b'{"run_id": []}\n'),
        gzip.compress(b"[[[" * 9)[:-4],
        gzip.compress(b"[" * 9_999),
    ],
    ids=["no gzip", "no recording", "a list", "cut off", "nested deeply"],  # gzip writes the time into its bytes
)
def test_show__damaged_recordings_are_an_error(show: Show, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent-eval-results" / "recordings.jsonl.gz").write_bytes(content)
    code, _, err = show()
    assert code == 2
    assert "recordings.jsonl.gz can't be read (line 1)" in err
    assert "Traceback" not in err


def test_show__less_where_recordings_failures_or_results_are_missing(show: Show, tmp_path: Path) -> None:
    (tmp_path / "agent-eval-results" / "recordings.jsonl.gz").unlink()
    out = show()[1]
    assert "Cut to size" in out
    assert 'find_devices(room="bedroom")' in out
    assert "more characters…]" in out

    run = results()
    run.cases = run.cases[1:]
    write(tmp_path / "agent-eval-results", run)
    code, out, _ = show()
    assert (code, "1 case passed. Name the cases to show." in out) == (0, True)

    (tmp_path / "agent-eval-results").rename(tmp_path / "moved")
    code, _, err = show()
    assert (code, "agent-eval-results does not exist. Run `agent-eval run` first" in err) == (2, True)


def test_show__complete_expectations_from_the_cases_of_the_run_or_the_eval_file(show: Show, tmp_path: Path) -> None:
    reference = "The lamp is off. " + "And so on. " * 400
    turn = {"user_content": {"parts": [{"text": "Lamp off."}]}, "final_response": {"parts": [{"text": reference}]}}
    (tmp_path / "tests").mkdir()
    file = tmp_path / FILE
    file.write_text(json.dumps({"eval_set_id": "a", "eval_cases": [{"eval_id": "lamp", "conversation": [turn]}]}))
    [loaded] = load_suite(tmp_path, [FILE]).files
    run = results()
    run.cases[0].fingerprint = case_fingerprint(loaded.cases[0], None)
    write(tmp_path / "agent-eval-results", run)
    assert joined(reference) in joined(show()[1])

    file.write_text(file.read_text().replace("And so on", "Not what was run"))
    out = show()[1]
    assert "Not what was run" not in out
    assert "expected The lamp is off." in out

    folder = tmp_path / "agent-eval-results"
    fields = {"case_id": f"{FILE}:lamp", "file": FILE, "eval_set_id": "a", "case": loaded.cases[0]}
    other = StoredCase(**fields, fingerprint="of another run")
    as_run = StoredCase(**fields, fingerprint=run.cases[0].fingerprint)
    for line, is_complete in ((other, False), (as_run, True)):
        write_models(folder / "cases.jsonl.gz", line)
        assert (joined(reference) in joined(show()[1])) == is_complete
    expected_out = show()[1]
    with zipfile.ZipFile(tmp_path / "results.zip", "w") as archive:
        for name in ("results.json", "recordings.jsonl.gz", "cases.jsonl.gz"):
            archive.write(folder / name, name)
    code, out, _ = show("results.zip")
    assert (code, out) == (0, expected_out)


def text(result: CaseReport, conversation: ConversationReport | None = None, width: int = 100) -> str:
    view = RunView(case=result, runs=result.runs, shown=result.runs[0], conversation=conversation, is_whole=True)
    return case_text(view, width=width)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_case_text__is_safe_and_keeps_its_width(width: int) -> None:
    votes = [{"sample": 0, "verdict": EVIL, "rationale": EVIL}, "odd", {"sample": "x"}]
    details: dict[str, Any] = {"judgements": [{"turn": "x", "subject": EVIL, "verdict": EVIL, "votes": votes}, 7]}
    evil = RunError(kind=EVIL, owner="agent", message=EVIL, hint=EVIL, traceback=EVIL, log_tail=EVIL, turn=0)
    result = case(EVIL, "failed", metric(EVIL, 0.0, threshold=1.0, details=details), file=EVIL, errors={0: evil})
    wide = "寝室のランプを消してください。" * 10

    shown = text(result, ConversationReport(run=0, turns=[TurnReport(turn=0, user=wide + EVIL, answer=EVIL)]), width)

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert not re.search(r"^\s*::[a-z]|##\[", shown, re.MULTILINE | re.IGNORECASE)
    assert max(map(cell_len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    "details", [{"judgements": 7}, {"judgements": [{"votes": 1, "turn": True}]}, {"judgements_left_out": []}]
)
def test_case_text__odd_details_break_nothing(details: dict[str, Any]) -> None:
    assert RESPONSE in text(case("lamp", "failed", metric(RESPONSE, 0.0, threshold=1.0, details=details)))


def test_results_of_an_invalid_run__are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a word of cases that pass or of nothing to accept: nothing was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    assert main(["run", "evalz"]) == 2
    (tmp_path / "good.json").write_text(results_json(report("passed", [])), "utf-8")
    for words in (
        ["show"],
        ["show", "--format", "json"],
        ["accept", "--list"],
        ["accept", "--all"],
        ["accept", "--dry-run"],
        ["export", "csv"],
        ["export", "otlp", "--output", "x"],
        ["compare", "good.json"],
        ["compare", "good.json", "agent-eval-results"],
    ):
        capsys.readouterr()
        code = main(words)
        output = capsys.readouterr()
        assert (code, output.out) == (2, ""), words
        assert (
            "agent-eval: The run of agent-eval-results was invalid, so nothing was run: `evalz` does not exist"
            in output.err.replace(f"{tmp_path}/", "")
        ), words
