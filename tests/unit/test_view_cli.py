"""The command `agent-eval view`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import history_samples
import pytest
from report_samples import RESPONSE, case, metric, report
from test_runner_conversations import actual, recording

from agent_eval.cli import main
from agent_eval.commands.view import _links
from agent_eval.evalset.json import write_text
from agent_eval.report.html import unpacked
from agent_eval.report.renderers import results_pieces
from agent_eval.results import BASE_RECORDINGS, Origin, RunReport
from agent_eval.runner.journal import write_lines

FILE = "tests/a.test.json"
SVG = "{http://www.w3.org/2000/svg}"


def lamp(status: Any = "passed", score: float = 1.0) -> RunReport:
    shown = case("lamp", status, metric(RESPONSE, score, threshold=0.8), file=FILE)
    shown.runs[0].started_at = 1.0  # As in recording_samples.
    return report("passed" if status == "passed" else "failed", [shown])


def write(folder: Path, run: RunReport, *answers: str, name: str = "recordings.jsonl.gz") -> Path:
    """Results, with a recording of each answer."""
    write_text(folder / "results.json", results_pieces(run))
    (folder / name).parent.mkdir(exist_ok=True)
    recordings = [recording(actual("Lamp off.", answer)) for answer in answers]
    write_lines(folder / name, [line.model_dump_json(exclude_none=True).encode() + b"\n" for line in recordings])
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
    folder = write(tmp_path / "agent-eval-results", lamp(), "It is off.")
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
    head = write(tmp_path / "head", lamp("failed", 0.0), "That run's own base.", name=BASE_RECORDINGS)
    write(head, lamp("failed", 0.0), "No lamp.")
    base = write(tmp_path / "base", lamp(), "It is off.")
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
    folders = [write(tmp_path / f"day-{day}", run) for day, run in enumerate(days)]
    page = tmp_path / "page.html"
    assert view(*folders[::-1], "--output", page) == 0
    index, shown = data(page)
    assert index["header"]["origin"]["run_id"] == 1003
    assert [row["passed"] for row in index["trend"]["rows"]] == [1, 0], "neither the pull request's nor the shown one"
    assert index["trend"]["head"]["passed"] == 1
    assert shown["history"]["outcomes"] == "10"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "can't be read: No such file or directory"),
        (
            "agent-eval-results",
            "Run `agent-eval run` first, or name the output directory of a run.",
        ),
        ("newer", "schema"),
        ("text.zip", "is not used: it is damaged or not a zip archive"),
        ("nothing.zip", "is not used: it has no results.json"),
        ("bomb.zip", "is not used: its recordings.jsonl.gz is too large"),
        ("folder.zip", "can't be read: "),
    ],
)
def test_view__what_can_not_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    folder = write(tmp_path / "newer", lamp())
    newer = json.loads((folder / "results.json").read_text("utf-8")) | {"schema_version": "2"}
    (folder / "results.json").write_text(json.dumps(newer), "utf-8")
    (tmp_path / "text.zip").write_text("no zip", "utf-8")
    (tmp_path / "folder.zip").mkdir()
    zipped(tmp_path / "nothing.zip", folder)
    write_lines(folder / "recordings.jsonl.gz", [b" " * 1_000_000] * 10)
    zipped(tmp_path / "bomb.zip", folder, "results.json", "recordings.jsonl.gz")
    good = write(tmp_path / "good", lamp())

    for arguments in ([tmp_path / name], [good, "--base", tmp_path / name]):
        assert view(*arguments, "--output", tmp_path / "page.html") == 2
        printed = capsys.readouterr()
        assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert not (tmp_path / "page.html").exists()


def test_view__wrong_options(tmp_path: Path) -> None:
    for wrong in (["--report", "off"], ["--size", "0.5"]):
        with pytest.raises(SystemExit, match="2"):
            view(write(tmp_path / "results", lamp()), *wrong)


def test_view__what_is_there_is_kept_if_the_page_can_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "results", lamp(), "It is off.")
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
        *(
            (results, output, f"{output.name} belongs to the results, which stay as they are.")
            for results, output in (
                (folder, folder / "results.json"),
                (folder / "results.json", folder / "recordings.jsonl.gz"),
                (archive, archive),
            )
        ),
    ):
        assert view(results, "--output", output) == 2
        assert message in capsys.readouterr().err
    assert pipe.is_fifo() and zipfile.is_zipfile(archive)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert (tmp_path / "page.html").read_text("utf-8") == "of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "pipe", "results", "results.zip", "taken"]


def test_view__a_browser_opens_on_a_terminal_only(tmp_path: Path) -> None:
    folder = write(tmp_path / "results", lamp())
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
