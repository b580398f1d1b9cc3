"""The commands `agent-eval show` and `agent-eval view`."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import history_samples
import pytest
from comparison_samples import answers_otherwise
from golden_files import check
from pydantic import BaseModel
from recording_samples import actual, called
from remark_samples import notes
from report_samples import EVIL, RESPONSE, case, metric, report
from rich.cells import cell_len
from test_runner_conversations import FIND, LAMP, NO_DEVICES, eval_case, expected, recording

from agent_eval.cli import main
from agent_eval.commands.view import _links
from agent_eval_agents.fingerprints import case_fingerprint
from agent_eval_results import BASE_RECORDINGS, ComparisonReport, Origin, StoredCase, write_lines
from agent_eval_results.data.causes import CauseCounts, CauseData, CauseExample, CauseReport
from agent_eval_results.data.conversation import ConversationReport, TurnReport
from agent_eval_results.data.conversations import attach_conversations
from agent_eval_results.data.report import CaseReport, RunReport, TurnEvidence
from agent_eval_results.report.html import unpacked
from agent_eval_results.report.renderers import results_pieces
from agent_eval_results.report.renderers._case_text import RunView, case_text
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.recording import Recording, RunError
from agent_eval_scoring.evalset.json import write_text
from agent_eval_scoring.evalset.loading import load_suite

# The command `agent-eval show`.


FILE = "tests/a.test.json"
RUBRIC = "rubric_based_final_response_quality_v1"
LONG = {"devices": [], "note": "n" * 1_500}


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


CAUSE = CauseReport(
    code="tool-empty",
    data=CauseData(tool="find_devices"),
    message="find_devices returned nothing",
    cases=[f"{FILE}:lamp"],
    failing=CauseCounts(total=1, having=1),
    passing=CauseCounts(total=1, having=0),
    example=CauseExample(case_id=f"{FILE}:lamp", run=1, turn=0, call=0),
)


def test_show__what_is_printed(show: Show, tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 writes it: the first failed run of the failed case or what is named; less where less is there."""
    folder = tmp_path / "agent-eval-results"
    printed = []

    def note(*words: str, where: str = "") -> None:
        code, out, err = show(*words)
        command = " ".join(["$ agent-eval show", *words])
        printed.append(f"{command}{where}\n{out}{err}exit {code}\n\n".replace(f"{tmp_path}/", ""))

    run = results()
    run.causes = [CAUSE]
    write(folder, run)
    for words in (
        "",
        "lamp --run 1",
        "lamp --run 3",
        "fan",
        "cause:1",
        "cause:2",
        "lam",
        "nothing-like-it",
        "lamp --run 4",
    ):
        note(*words.split())
    nested, cut_off = gzip.compress(b"[" * 9_999), gzip.compress(b"[[[" * 9)[:-4]
    for content in (b"no gzip", gzip.compress(b"{}\n"), gzip.compress(b'{"run_id": []}\n'), cut_off, nested):
        (folder / "recordings.jsonl.gz").write_bytes(content)
        note(where=" # damaged recordings")
    (folder / "recordings.jsonl.gz").unlink()
    note(where=" # without recordings")
    write(folder, run.model_copy(update={"cases": run.cases[1:], "causes": []}))
    note(where=" # where nothing failed")
    ended = case("lamp", "errored", metric(RESPONSE, 1.0, threshold=0.8), file=FILE, runs=2, errors={1: BOOM})
    ended.runs[0].status = "passed"
    write(folder, run.model_copy(update={"cases": [ended], "causes": []}))
    note(where=" # the run with an error rather than one that passed")
    folder.rename(tmp_path / "moved")
    note(where=" # without results")
    check("golden_show.txt", "".join(printed))


def test_show__the_cases_of_a_cause_as_json(show: Show, tmp_path: Path) -> None:
    write(tmp_path / "agent-eval-results", results().changed(causes=[CAUSE]))
    shown = json.loads(show("--format", "json", "cause:1")[1])
    assert [cause["message"] for cause in shown["causes"]] == ["find_devices returned nothing"]
    assert [(case["case_id"], case["conversation"]["run"]) for case in shown["cases"]] == [(f"{FILE}:lamp", 1)]


def test_show__what_a_case_says_otherwise_than_on_the_base_branch(show: Show, tmp_path: Path) -> None:
    run = results()
    changed = answers_otherwise(run.cases[1], ("150", "0"), (EVIL, None))
    run.comparison = ComparisonReport(compared=2, unchanged=1, changed_answers=[changed])
    write(tmp_path / "agent-eval-results", run)
    out = show("fan")[1]
    assert "answers differently from the base branch:\n    answer: 150 → 0\n    get_sales.total: " in out
    assert "answers differently" not in show("lamp")[1]


MANY = ",".join(f"another_{number}" for number in range(40))


def test_show__selectors(show: Show, tmp_path: Path) -> None:
    """Of cases, and of files and directories."""
    write(tmp_path / "elsewhere", results())
    for word in ("fan", f"{FILE}:fan", "f*", f"./{FILE}:f?n", f"{FILE}:fan,{MANY}"):
        code, out, _ = show(word)
        assert (code, "passed fan" in out, "lamp" in out) == (0, True, False), word
    for words in (FILE, "tests", "tests/", "*", "elsewhere *", "elsewhere/results.json *"):
        out = show(*words.split())[1]
        assert "passed fan" in out and "failed lamp" in out, words


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
    odd: Sequence[dict[str, Any]] = ({"judgements": 7}, {"judgements": [{"votes": 1}]}, {"judgements_left_out": []})
    for details in odd:
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
        *("show", "show --format json", "accept --list", "accept --all", "accept --dry-run", "export csv"),
        *("export otlp --output x", "compare good.json", "compare good.json agent-eval-results"),
    ):
        capsys.readouterr()
        code = main(words.split())
        output = capsys.readouterr()
        assert (code, output.out) == (2, ""), words
        assert (
            "agent-eval: The run of agent-eval-results was invalid, so nothing was run: `evalz` does not exist"
            in output.err.replace(f"{tmp_path}/", "")
        ), words


# The command `agent-eval view`.


def lamp_report(status: Any = "passed", score: float = 1.0) -> RunReport:
    shown = case("lamp", status, metric(RESPONSE, score, threshold=0.8), file=FILE)
    shown.runs[0].started_at = 1.0  # As in recording_samples.
    return report("passed" if status == "passed" else "failed", [shown])


def write_results(folder: Path, run: RunReport, *answers: str, name: str = "recordings.jsonl.gz") -> Path:
    """Results, with a recording of each answer."""
    write_text(folder / "results.json", results_pieces(run))
    (folder / name).parent.mkdir(exist_ok=True)
    write_models(folder / name, *(recording(actual("Lamp off.", answer)) for answer in answers))
    return folder


def zipped(archive: Path, folder: Path, *names: str) -> Path:
    with zipfile.ZipFile(archive, "w") as made:
        for name in names:
            made.write(folder / name, f"out/{name}")
    return archive


def view(*arguments: object) -> int:
    return main(["view", *map(str, arguments)])


def data(page: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The index of a page, and its only case."""
    text = page.read_text("utf-8")
    index, block = (re.search(rf'<template id="{name}">([^<]*)</template>', text) for name in ("index", "b0"))
    assert index is not None and block is not None
    [shown] = unpacked(block[1])["cases"]
    return unpacked(index[1]), shown


def answers(shown: dict[str, Any]) -> dict[str, str]:
    return {run["key"]: run["turns"][0]["answer"][0]["text"] for run in shown["runs"] if run["turns"]}


def test_view__a_directory_its_results_and_its_zip_give_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "agent-eval-results", lamp_report(), "It is off.")
    (folder / "report.html").write_text("of the run", "utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    assert view() == 0
    first = Path(capsys.readouterr().out.strip())
    assert first == folder / "agent-eval-view.html"
    assert answers(data(first)[1]) == {"head:0": "It is off."}
    assert (folder / "report.html").read_text("utf-8") == "of the run", "the files of the run stay as they are"

    archive = zipped(tmp_path / "results.zip", folder, "results.json", "recordings.jsonl.gz")
    output = tmp_path / "site" / "index.html"
    (tmp_path / "download").write_bytes(archive.read_bytes())
    assert view(archive) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "agent-eval-view.html")
    assert not list((tmp_path / "temporary").iterdir()), "nothing that no one would remove"
    for results in (folder / "results.json", archive, tmp_path / "download"):
        assert view(results, "--output", output) == 0
        assert capsys.readouterr().out.strip() == str(output)
        assert output.read_bytes() == first.read_bytes()
    assert view("--report", "scores", "--output", output) == 0
    assert "It is off." not in json.dumps(data(output))


def test_view__another_run_as_the_base(tmp_path: Path) -> None:
    head = write_results(tmp_path / "head", lamp_report("failed", 0.0), "That run's own base.", name=BASE_RECORDINGS)
    write_results(head, lamp_report("failed", 0.0), "No lamp.")
    base = write_results(tmp_path / "base", lamp_report(), "It is off.")
    page = tmp_path / "page.html"

    assert view(head, "--base", base, "--output", page) == 0
    index, shown = data(page)
    assert index["cases"]["change"] == ["newly_failing"]
    assert answers(shown) == {"head:0": "No lamp.", "base-stored:0": "It is off."}

    (base / "recordings.jsonl.gz").unlink()
    assert view(head, "--base", base, "--output", page) == 0
    shown = data(page)[1]
    assert answers(shown) == {"head:0": "No lamp."}
    assert shown["base_note"] == "There is no recordings.jsonl.gz beside the base's results."


def test_view__of_several_the_newest_is_shown_and_the_others_give_the_trend(tmp_path: Path) -> None:
    days = [
        history_samples.report(history_samples.case("a", outcome), day=day, pull_request=7 if day == 2 else None)
        for day, outcome in enumerate("1001")
    ]
    folders = [write_results(tmp_path / f"day-{day}", run) for day, run in enumerate(days)]
    page = tmp_path / "page.html"
    assert view(*folders[::-1], "--output", page) == 0
    index, shown = data(page)
    assert index["header"]["origin"]["run_id"] == 1003
    assert [row["passed"] for row in index["trend"]["rows"]] == [1, 0], "neither the pull request's nor the shown one"
    assert index["trend"]["head"]["passed"] == 1
    assert shown["history"]["outcomes"] == "10"


def test_view__what_can_not_be_read_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(tmp_path / "newer", lamp_report())
    newer = json.loads((folder / "results.json").read_text("utf-8")) | {"schema_version": "2"}
    (folder / "results.json").write_text(json.dumps(newer), "utf-8")
    (tmp_path / "text.zip").write_text("no zip", "utf-8")
    (tmp_path / "folder.zip").mkdir()
    zipped(tmp_path / "nothing.zip", folder)
    write_lines(folder / "recordings.jsonl.gz", [b" " * 1_000_000] * 10)
    zipped(tmp_path / "bomb.zip", folder, "results.json", "recordings.jsonl.gz")
    good = write_results(tmp_path / "good", lamp_report())

    for name, message in {
        "missing": "can't be read: No such file or directory",
        "agent-eval-results": "Run `agent-eval run` first, or name the output directory of a run.",
        "newer": "schema",
        "text.zip": "is not a zip file). Download the artifact again, or name the directory",
        "nothing.zip": "is not used: it has no results.json",
        "bomb.zip": "is not used: its recordings.jsonl.gz is too large",
        "folder.zip": "can't be read: ",
    }.items():
        for arguments in ([tmp_path / name], [good, "--base", tmp_path / name]):
            assert view(*arguments, "--output", tmp_path / "page.html") == 2
            printed = capsys.readouterr()
            assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    for wrong in (["--report", "off"], ["--size", "0.5"]):
        with pytest.raises(SystemExit, match="2"):
            view(good, *wrong)
    assert not (tmp_path / "page.html").exists()


def test_view__what_is_there_is_kept_if_the_page_can_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_results(tmp_path / "results", lamp_report(), "It is off.")
    (tmp_path / "page.html").write_text("of yesterday", "utf-8")
    pipe, archive = tmp_path / "pipe", tmp_path / "results.zip"
    os.mkfifo(pipe)
    (tmp_path / "taken").mkdir()
    zipped(archive, folder, "results.json")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    for results, output, message in (
        (folder, pipe, "pipe can't be written: It is a named pipe, not a regular file."),
        (folder, tmp_path / "taken", "taken can't be written: It is a directory, not a regular file."),
        (folder, folder / "results.json" / "page.html", "results.json can't be written: "),
        (folder, folder / "results.json", "results.json belongs to the results, which stay as they are."),
        (folder / "results.json", folder / "recordings.jsonl.gz", "recordings.jsonl.gz belongs to the results, which"),
        (archive, archive, "results.zip belongs to the results, which stay as they are."),
    ):
        assert view(results, "--output", output) == 2
        assert message in capsys.readouterr().err
    assert pipe.is_fifo() and zipfile.is_zipfile(archive)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert (tmp_path / "page.html").read_text("utf-8") == "of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "pipe", "results", "results.zip", "taken"]


def test_view__a_browser_opens_on_a_terminal_only(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "results", lamp_report())
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n', "utf-8")
    browser.chmod(0o755)
    code = f"""
import argparse
from pathlib import Path
from agent_eval.commands import CliIO, view
for width, environ, wish in ((80, {{}}, True), (None, {{}}, True), (80, {{"CI": "true"}}, True), (80, {{}}, False)):
    arguments = argparse.Namespace(results=[Path({str(folder)!r})], base=None, report="full", size=15.0, open=wish,
                                   output=Path({str(tmp_path / "page.html")!r}))
    io = CliIO(environ=environ, log=print, print_result=print, terminal_width=width)
    assert view.execute(arguments, io) == 0
"""
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment, capture_output=True)
    assert (tmp_path / "opened").read_text("utf-8") == f"{(tmp_path / 'page.html').as_uri()}\n"


def test_view__links_lead_to_the_repository_of_the_results_only() -> None:
    run_url = "https://github.com/octo/bots/actions/runs/7"
    origin = Origin(repository="octo/bots", commit="a" * 40, run_url=run_url)
    links = _links(origin, {})
    assert (links.run_url, links.source_url) == (run_url, f"https://github.com/octo/bots/blob/{'a' * 40}")
    evil = origin.model_copy(update={"run_url": "https://evil.example/octo/bots/actions/runs/7"})
    assert _links(evil, {}).server_url == ""
    own = {"GITHUB_SERVER_URL": "https://git.example"}
    assert _links(origin, own).server_url == ""
    there = origin.model_copy(update={"run_url": "https://git.example/octo/bots/actions/runs/7"})
    assert _links(there, own).source_url == f"https://git.example/octo/bots/blob/{'a' * 40}"
    assert _links(None, {}).server_url == ""
