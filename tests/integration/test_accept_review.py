"""The review of `agent-eval accept` on a real pseudo-terminal."""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from accept_repos import FILE, FIND, FOUND, LAMP, OFF, Turn, case, record, run, write_file
from gate_runs import AGENT_EVAL, Repository, repository_in
from pty_terminal import Terminal, on_terminal

PROMPT = r"accept\? \[.*\] "
ON: Turn = (LAMP[0], [("switch", {"device": "lamp", "on": True})], "灯已关闭 🏠\n好的")
MAIN_ONLY: Turn = (LAMP[0], [FIND, OFF], LAMP[2])
SORRY: Turn = (LAMP[0], [OFF], "Sorry, which lamp?")
CAUSE: dict[str, Any] = {
    "code": "tool-empty",
    "data": {"tool": "find", "actual": '{"devices": []}'},
    "message": "find returned nothing",
    "failing": {"total": 4, "having": 3},
    "passing": {"total": 0, "having": 0},
    "example": {"case_id": f"{FILE}:first", "run": 0, "turn": 0, "call": 0},
}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo") as made:
        yield made


def results(repository: Repository, turns: Mapping[str, Sequence[Sequence[Turn]]], runs: int = 1) -> Path:
    """A file with these cases, which expect LAMP; what the agent did in each run."""
    file = write_file(repository.root, *(case(eval_id, LAMP) for eval_id in turns))
    record(repository.root, turns)
    assert run(repository, runs=runs).code == 1
    return file


@contextmanager
def review(
    repository: Repository, *arguments: str, columns: int = 100, editor: str = "", code: int = 0
) -> Iterator[Terminal]:
    """A review at its first prompt, which has to end with this code."""
    environment = {**repository.environment(), "EDITOR": editor, "VISUAL": "", "NO_COLOR": "1"}
    command = [*AGENT_EVAL, "accept", *arguments]
    with on_terminal(command, cwd=repository.root, environment=environment, columns=columns) as terminal:
        terminal.expect(PROMPT)
        yield terminal
        assert terminal.code() == code
        assert terminal.is_line_buffered()


def cases(file: Path) -> dict[str, Any]:
    return {item["eval_id"]: item for item in json.loads(file.read_text("utf-8"))["eval_cases"]}


def script(repository: Repository, text: str) -> str:
    """An editor that changes its file with Python; `path` and `text` are defined."""
    path = repository.root / "editor.py"
    lines = [
        "#!/usr/bin/env python3",
        "import pathlib, sys",
        "path = pathlib.Path(sys.argv[1])",
        "text = path.read_text()",
    ]
    path.write_text("\n".join([*lines, text, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_review__every_key(repository: Repository) -> None:
    names = ("first", "calls", "texts", "skipped", "edited", "alike", "like_it", "other", "rest", "last")
    turns: dict[str, list[list[Turn]]] = {name: [[FOUND]] for name in names}
    turns["alike"] = turns["like_it"] = [[MAIN_ONLY]]
    file = results(repository, turns)
    edit = script(repository, "path.write_text(text.replace('bedroom.', 'bathroom.'))")
    with review(repository, editor=edit) as terminal:
        shown = terminal.text
        assert f"[1/10] {FILE}:first · blocks the gate · run 1" in shown
        assert '+ find(room="bedroom")' in shown
        assert "tool_trajectory_avg_score 0.00 → 1.00 (needs 1)" in shown
        assert "[-The-]" in shown or "- The lamp is off." in shown
        assert "whole diff of the case" in terminal.ask("?", PROMPT)
        assert "nothing is written" in terminal.ask("日", PROMPT), "any other key shows the help"
        for key in ("\x1b[A", "\r"):
            assert terminal.ask(key, PROMPT).strip().startswith("accept?"), "an arrow key and Enter do nothing"
        diff = terminal.ask("d", PROMPT)
        assert re.search(r'^\+ +"name": "find"', diff, re.MULTILINE)
        assert "@@" in diff
        assert "tool_trajectory_avg_score 0.00, needs" in terminal.ask("i", PROMPT)
        assert "There is one complete run." in terminal.ask("r", PROMPT)
        assert "[2/10]" in terminal.ask("a", PROMPT)
        assert "[3/10]" in terminal.ask("c", PROMPT)
        assert "[4/10]" in terminal.ask("t", PROMPT)
        assert "[5/10]" in terminal.ask(" ", PROMPT)
        assert "bathroom" in terminal.ask("e", PROMPT)
        assert "edited is accepted as a whole" in terminal.ask("c", PROMPT)
        assert "[6/10]" in terminal.ask("a", PROMPT)
        shown = terminal.ask("A", PROMPT)
        assert "accepted evals/home.test.json:like_it: the same kind of change" in shown
        assert "[8/10]" in shown
        assert "[9/10]" in terminal.ask("s", PROMPT)
        terminal.press("S")
    assert f"{FILE}: 6 cases changed" in terminal.text
    assert "held to its thresholds" in terminal.text
    expected = {name: case(name, LAMP) for name in names}
    expected["first"] = case("first", FOUND)
    expected["calls"] = case("calls", (LAMP[0], FOUND[1], LAMP[2]))
    expected["texts"] = case("texts", (LAMP[0], LAMP[1], FOUND[2]))
    expected["edited"] = case("edited", (LAMP[0], FOUND[1], FOUND[2].replace("bedroom", "bathroom")))
    expected |= {name: case(name, MAIN_ONLY) for name in ("alike", "like_it")}
    assert cases(file) == expected


def test_review__what_the_tools_returned(repository: Repository) -> None:
    write_file(repository.root, case("lamp", LAMP), case("door", LAMP), case("fan", LAMP))
    no_call: Turn = (LAMP[0], [FIND], "I found nothing.")
    errors: dict[str, Any] = {"lamp": {"error": "no data"}, "door": {"devices": []}, "fan": {"error": "no data"}}
    record(repository.root, {name: [[no_call]] for name in errors}, responses={name: [errors[name]] for name in errors})
    assert run(repository).code == 1
    with review(repository) as terminal:
        shown = terminal.text
        assert 'returned\n      find: {"error": "no data"}' in shown
        assert "A tool returned an error in turn 1." in shown
        assert "No longer expects a call of switch." in shown
        shown = terminal.ask("A", PROMPT)
        assert 'find: {"devices": []}' in shown, "without an error it is another kind of change"
        assert "A tool returned an error" not in shown
        assert "A tool returned nothing in turn 1." in shown
        terminal.press("s")
    assert "accepted evals/home.test.json:fan: the same kind of change" in terminal.text
    assert "lamp: calls, answer (tool_trajectory_avg_score 0.00 → 1.00;" in terminal.text
    assert "a tool returned an error)" in terminal.text


def test_review__warns_of_answers_that_no_one_wants(repository: Repository) -> None:
    write_file(repository.root, case("apology", LAMP), case("exception", LAMP), case("sorry", SORRY))
    answers = {"apology": "抱歉，我做不到。", "exception": "KeyError: 'lamp'", "sorry": "I am unable to find the lamp."}
    turns: dict[str, list[list[Turn]]] = {name: [[(LAMP[0], [OFF], answer)]] for name, answer in answers.items()}
    record(repository.root, turns)
    assert run(repository).code == 1
    with review(repository) as terminal:
        assert "The answer of turn 1 reads like an apology." in terminal.text
        assert "The answer of turn 1 has the text of an exception." in terminal.ask("s", PROMPT)
        shown = terminal.ask("s", PROMPT)
        assert "[3/3]" in shown
        assert "reads like" not in shown, "the old answer is an apology, too"
        terminal.press("q")


def test_review__back_and_undo(repository: Repository) -> None:
    names = ("first", "second", "third", "fourth")
    file = results(repository, {name: [[MAIN_ONLY if name == "third" else FOUND]] for name in names})
    with review(repository) as terminal:
        assert "This is the first case." in terminal.ask("b", PROMPT)
        assert "There is nothing to undo." in terminal.ask("u", PROMPT)
        assert "[2/4]" in terminal.ask("a", PROMPT)
        assert "[1/4]" in terminal.ask("b", PROMPT)
        assert "[2/4]" in terminal.ask("s", PROMPT), "the case is skipped now"
        assert "[3/4]" in terminal.ask("A", PROMPT), "the third is of another kind than the fourth"
        assert "[2/4]" in terminal.ask("b", PROMPT)
        assert "[3/4]" in terminal.ask("A", PROMPT)
        assert "[2/4]" in terminal.ask("u", PROMPT)
        assert "[3/4]" in terminal.ask("a", PROMPT)
        assert "[4/4]" in terminal.ask("s", PROMPT), "it was accepted together with the second, and is not any more"
        terminal.press("q")
    assert cases(file) == {name: case(name, FOUND if name == "second" else LAMP) for name in names}


def test_review__cases_with_one_cause(repository: Repository) -> None:
    empty: Turn = (LAMP[0], [FIND], "I found nothing.")
    names = ("first", "other", "second", "third")
    write_file(repository.root, *(case(name, FOUND) for name in names))
    record(
        repository.root,
        {name: [[MAIN_ONLY if name == "other" else empty]] for name in names},
        responses={name: [{"devices": []}] for name in names if name != "other"},
    )
    assert run(repository).code == 1
    path = repository.root / "agent-eval-results" / "results.json"
    report = json.loads(path.read_text("utf-8"))
    report["causes"] = [CAUSE | {"cases": [f"{FILE}:{name}" for name in names if name != "other"]}]
    path.write_text(json.dumps(report), "utf-8")
    with review(repository) as terminal:
        shown = terminal.text
        assert "3 cases, one cause: find returned nothing" in shown
        assert "[1/4] evals/home.test.json:first" in shown
        shown = terminal.ask("a", PROMPT)
        assert "[2/4] evals/home.test.json:second" in shown, "cases with one cause follow each other"
        assert "one cause" not in shown, "it is said once"
        assert "[4/4] evals/home.test.json:other" in terminal.ask("x", PROMPT)
        terminal.press("q")


def test_review__several_runs_on_40_columns_with_other_scripts(repository: Repository) -> None:
    file = results(repository, {"lamp": [[ON], [FOUND], [ON]], "door": [[FOUND]] * 3}, runs=3)
    with review(repository, columns=40) as terminal:
        shown = terminal.text
        assert "2 of 3 runs alike" in shown
        assert "灯已关闭 🏠" in shown
        assert "switch: on: false → true" in shown
        assert "No single conversation holds for this case." in shown
        assert "runs whose calls would pass by match_type: EXACT 2, IN_ORDER 2, ANY_ORDER 2" in shown
        assert "expectation: run 2" in terminal.ask("r", PROMPT)
        shown = terminal.ask("m", PROMPT)
        assert "match_type" in shown
        assert "expectation: run 3" in terminal.ask("r", PROMPT)
        terminal.press("aq")
    assert cases(file)["lamp"] == case("lamp", ON)
    assert cases(file)["door"] == case("door", LAMP)


@pytest.mark.slow
def test_review__ctrl_c_and_the_end_of_the_input(repository: Repository) -> None:
    file = results(repository, {"lamp": [[FOUND]], "door": [[FOUND]]})
    before = file.read_bytes()
    broken = script(repository, "path.write_text('{')")
    with review(repository, editor=broken, code=130) as terminal:
        terminal.ask("a", PROMPT)
        assert "line 1" in terminal.ask("e", r"edit again\? \[y n\] ")
        terminal.press("\x03")
    assert "nothing was written" in terminal.text
    with review(repository, editor="no-such-editor", code=130) as terminal:
        assert "can't be started" in terminal.ask("e", PROMPT)
        terminal.press("\x03")
    assert file.read_bytes() == before

    with review(repository) as terminal:
        assert "Set EDITOR" in terminal.ask("e", PROMPT)
        terminal.ask("a", PROMPT)
        terminal.press("\x04")  # the end of the input is like q: what was accepted is written
    assert (cases(file)["lamp"], cases(file)["door"]) == (case("lamp", FOUND), case("door", LAMP))


def test_review__an_edited_value_is_checked(repository: Repository) -> None:
    file = results(repository, {"lamp": [[FOUND]]})
    before = file.read_bytes()
    changes = {
        "text.replace('Lamp off.', 'Fan off.')": "The user's messages must stay",
        "text.replace('\"lamp\",', '\"fan\",', 1)": "The eval id must stay",
        "text.replace('bedroom.', '***')": "masked secret",
        "text.replace('\"final_response\"', '\"final_respones\"')": "would be invalid",
        "'[]'": "A case is an object.",
    }
    count = f"count = pathlib.Path({str(repository.root)!r}, 'edits')\ncount.touch()\nnumber = len(count.read_text())\n"
    count += "count.write_text('x' * (number + 1))\n"
    editor = script(repository, f"{count}path.write_text([{', '.join(changes)}][number])")
    with review(repository, editor=editor) as terminal:
        for message in changes.values():
            assert message in terminal.ask("e", r"edit again\? \[y n\] ")
            terminal.ask("n", PROMPT)
        terminal.press("q")
    assert file.read_bytes() == before


@pytest.mark.slow
def test_edit__in_the_editor_until_the_case_is_valid(repository: Repository) -> None:
    file = write_file(repository.root, case("lamp", LAMP), case("door", LAMP))
    before = file.read_bytes()
    fixes = "path.write_text(text.replace('{broken', '{') if '{broken' in text else '{broken' + text[1:])"
    environment = {**repository.environment(), "VISUAL": script(repository, fixes)}
    command = [*AGENT_EVAL, "edit", f"{FILE}:lamp"]
    with on_terminal(command, cwd=repository.root, environment=environment) as terminal:
        assert "[not-json]" in terminal.expect(r"edit again\? \[y n\] ")
        terminal.press("y")
        assert terminal.code() == 0
    assert file.read_bytes() == before
    environment["VISUAL"] = script(repository, "path.write_text(text.replace('Lamp off.', '开灯 💡'))")
    with on_terminal(command, cwd=repository.root, environment=environment, columns=40) as terminal:
        assert terminal.code() == 0
        assert "开灯 💡" in terminal.text
    assert file.read_text("utf-8") == before.decode().replace("Lamp off.", "开灯 💡", 1)

    another = f"file = pathlib.Path({str(file)!r})\nfile.write_text(file.read_text('utf-8') + ' ', 'utf-8')\n"
    environment["VISUAL"] = script(repository, f"{another}path.write_text(text.replace('开灯 💡', 'Another message'))")
    with on_terminal(command, cwd=repository.root, environment=environment) as terminal:
        assert terminal.code() == 2
        assert "another program has changed the file meanwhile" in terminal.text
        assert "Another message" in terminal.text, "what was written in the editor is not lost"
    assert "Another message" not in file.read_text("utf-8")


@pytest.mark.slow
def test_review__closed_stdin_or_stdout_is_no_terminal(repository: Repository) -> None:
    results(repository, {"lamp": [[FOUND]]})
    environment = {**repository.environment(), "CI": ""}
    command = shlex.join([*AGENT_EVAL, "accept"])
    for redirected in (f"{command} <&-", f"{command} | cat", f"{command} </dev/null"):
        shell = ["bash", "-o", "pipefail", "-c", redirected]
        with on_terminal(shell, cwd=repository.root, environment=environment) as terminal:
            assert terminal.code() == 2
            assert "--dry-run" in terminal.text
