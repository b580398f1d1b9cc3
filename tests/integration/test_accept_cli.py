"""`agent-eval accept`: what it changes, refuses and prints, and its review on a real pseudo-terminal."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gate_runs import AGENT_EVAL, Call, Repository, eval_case, program
from golden_files import check
from pty_terminal import Terminal, on_terminal

from agent_eval_results import Recording, RunError
from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation

# Repositories with eval files, and recordings of an agent that did something else than they expect.


FILE = "evals/home.test.json"
CONFIG = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
OFF: Call = ("switch", {"device": "lamp", "on": False})
FIND: Call = ("find", {"room": "bedroom"})
Turn = tuple[str, Sequence[Call], str]
"""What the user says, the calls, the answer."""
LAMP: Turn = ("Lamp off.", [OFF], "The lamp is off.")
FOUND: Turn = ("Lamp off.", [FIND, OFF], "I have switched off the lamp in the bedroom.")
MAIN_ONLY: Turn = (LAMP[0], [FIND, OFF], LAMP[2])
DOOR: Turn = ("Lock the door.", [("lock", {})], "Locked.")


def write_file(root: Path, *cases: Mapping[str, Any], config: Any = None) -> Path:
    """Writes an eval file and its config."""
    file = root / FILE
    file.parent.mkdir(exist_ok=True)
    text = json.dumps({"eval_set_id": "home", "eval_cases": cases}, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")
    file.with_name("test_config.json").write_text(json.dumps(config or CONFIG), "utf-8")
    return file


def recorded(eval_id: str, number: int, turn: Turn | None, returned: Mapping[str, Any] | None) -> Recording:
    """A run of one turn whose first call returned something; without a turn it ended with an exception."""
    said, calls, answer = turn or ("", (), "")
    uses = [FunctionCall(id=f"call-{place}", name=name, args=dict(args)) for place, (name, args) in enumerate(calls)]
    responses = [FunctionResponse(id=use.id, name=use.name, response=dict(returned)) for use in uses[:1] if returned]
    invocation = Invocation(
        user_content=user_message(said),
        final_response=model_message(answer),
        intermediate_data=IntermediateData(tool_uses=uses, tool_responses=responses),
    )
    boom = RunError(kind="agent-exception", owner="agent", message="boom", turn=0)
    return Recording(
        run_id=f"{FILE}:{eval_id}#{number + 1}",
        case_id=f"{FILE}:{eval_id}",
        file=FILE,
        eval_set_id="home",
        eval_id=eval_id,
        run=number,
        fingerprint="recorded",
        invocations=[] if turn is None else [invocation],
        error=boom if turn is None else None,
        started_at=1_700_000_000.0,
        duration=1.0,
    )


def ran(
    repository: Repository,
    did: Mapping[str, Sequence[Turn | None]],
    *,
    expects: Mapping[str, Turn] | None = None,
    returned: Mapping[str, Mapping[str, Any]] | None = None,
    config: Any = None,
) -> Path:
    """A failed run of cases, which expect LAMP or something else: what the agent did in each run, and what its first
    call returned.
    """
    cases = [eval_case(eval_id, (expects or {}).get(eval_id, LAMP)) for eval_id in did]
    file = write_file(repository.root, *cases, config=config)
    lines = [
        recorded(eval_id, number, turn, (returned or {}).get(eval_id)).model_dump_json(exclude_none=True) + "\n"
        for eval_id, turns in did.items()
        for number, turn in enumerate(turns)
    ]
    (repository.root / "answers.jsonl").write_text("".join(lines), "utf-8")
    run(repository, runs=max(map(len, did.values())), code=1)
    return file


def run(repository: Repository, *, code: int, runs: int = 1) -> None:
    """Runs the gate on what was recorded."""
    arguments = ("--agent", "recorded:answers.jsonl", "--num-runs", str(runs))
    repository.gate("run", *arguments, python=False, code=code)


def failed_lamp(repository: Repository, *turns: Turn | None, config: Any = None) -> Path:
    """A file with two cases, of which `lamp` has failed in these runs (one run that looks for the lamp first)."""
    did = {"lamp": turns or (FOUND,), "door": [DOOR] * (len(turns) or 1)}
    return ran(repository, did, expects={"door": DOOR}, config=config)


# `agent-eval accept`: what it changes, refuses and prints, and its review on a real pseudo-terminal.


# `agent-eval accept` without questions: what it changes, what it refuses, and what it prints.


RESULTS = "agent-eval-results"


def accept(repository: Repository, *arguments: str, code: int = 0) -> str:
    """Accepts as a user of a shell, who has no terminal; what was printed."""
    done = repository.gate("accept", *arguments, environment={"CI": ""}, code=code)
    return done.out + done.err


def texts(repository: Repository) -> str:
    """What the file has."""
    file = repository.root / FILE
    found = re.findall(r'"(?:eval_id|name|text)": "(.*?)"', file.read_text("utf-8")) if file.exists() else []
    return f"{FILE}: {' | '.join(found)}\n\n"


@dataclass
class Transcript:
    """What commands print, and what is then expected in the file."""

    repository: Repository
    text: str = ""

    def situation(self, name: str) -> None:
        self.text += f"# {name}\n\n"

    def accept(self, *arguments: str, code: int = 0, ci: str = "") -> None:
        done = self.repository.gate("accept", *arguments, environment={"CI": ci}, code=code)
        said = (done.out + done.err).replace(str(self.repository.root), "FOLDER").strip()
        self.text += f"{'CI=true ' * bool(ci)}agent-eval accept {shlex.join(arguments)}\n\n{said}\n\nexit code {code}\n"
        self.text += texts(self.repository)


def edited(path: Path, old: str, new: str) -> None:
    """Changes a text in a file, which may be compressed."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    assert old in text
    changed = text.replace(old, new).encode()
    path.write_bytes(gzip.compress(changed) if path.suffix == ".gz" else changed)


def test_accept_all__changes_only_the_case_that_failed(repository: Repository) -> None:
    shell = Transcript(repository)
    file = failed_lamp(repository)
    before = file.read_text("utf-8")
    shell.accept("--list")
    dry = repository.gate("accept", "--dry-run", code=0)
    assert file.read_text("utf-8") == before
    shell.accept("--all")
    after = file.read_text("utf-8")
    assert json.loads(after)["eval_cases"] == [eval_case("lamp", FOUND), eval_case("door", DOOR)]
    patched = repository.root / "again.json"
    patched.write_text(before, "utf-8")
    program("patch", patched, input=dry.out)
    assert patched.read_text("utf-8") == after

    shell.accept("--all")
    assert file.read_text("utf-8") == after
    file.write_text(after.replace('"room": "bedroom"', '"room": "bathroom"'), "utf-8")
    shell.accept("--all", code=1)
    file.write_text(after, "utf-8")
    run(repository, code=0)  # The same recording passes with the new expectation.
    shell.accept("--all")
    check("golden_accept/all.txt", shell.text)


@pytest.mark.slow
def test_accept__what_it_takes_and_what_it_refuses(repository: Repository) -> None:
    accept = (shell := Transcript(repository)).accept
    results = repository.root / RESULTS
    shell.situation("It needs a person or a flag")
    file = failed_lamp(repository)
    accept(code=2)
    accept("--all", ci="true", code=2)
    accept("--list", "--only", "call", code=2)
    accept("--list", "lmp", code=2)
    accept("--all", "--yes", "--only", "calls", f"{FILE}:lamp", ci="true")
    accept("--list")
    accept("--list", "--only", "calls")
    failed_lamp(repository, MAIN_ONLY)
    accept("--list", "--only", "response_match_score")
    (results / "recordings.jsonl.gz").unlink()
    accept("--list", code=2)
    shutil.rmtree(results)
    accept("--list", code=2)

    shell.situation("The most typical run, or the one that is named")
    failed_lamp(repository, (LAMP[0], [FIND], "No idea."), FOUND, FOUND, None)
    accept("--list")
    accept("--all", code=1)
    accept("--all", "--run", "9", code=1)
    accept("--dry-run", "--run", "9", code=1)
    accept("--all", "--run", "1")

    shell.situation("Cases whose tools returned nothing or an error are left out")
    nothing: dict[str, dict[str, Any]] = {"lamp": {"error": "no data"}, "door": {"devices": []}}
    ran(repository, {name: [FOUND] for name in ("lamp", "door", "fan")}, returned=nothing)
    accept("--all", code=1)
    accept("--all", "--run", "1", f"{FILE}:lamp")

    shell.situation("Calls that all runs have, if others may come between")
    config: dict[str, Any] = {"criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}}
    several: list[Turn] = [(LAMP[0], [FIND, ("log", {})], "a"), (LAMP[0], [("log", {}), FIND, ("log", {})], "b")]
    failed_lamp(repository, *several, config=config)
    accept("--all")
    accept("--list")
    failed_lamp(repository, *several)
    accept("--all", "--calls", "common", code=1)

    shell.situation("An archive, as a browser saves it")
    failed_lamp(repository)
    archive = repository.root / "agent-eval-results.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in ("results.json", "recordings.jsonl.gz", "cases.jsonl.gz"):
            zipped.write(results / name, name)
    shutil.rmtree(results)
    accept(archive.name, "--all")
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.writestr("../evil.txt", "x")
    accept(archive.name, "--list", code=2)
    archive.write_bytes(b"PK\x03\x04 but not a zip")
    accept(archive.name, "--list", code=2)

    shell.situation("Files that have changed meanwhile")
    failed_lamp(repository)
    text = file.read_text("utf-8")
    scenario = {"eval_id": "lamp", "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "Go."}}
    answer = '"text": "The lamp is off."'
    for changed in (
        text.replace("Lamp off.", "Lamp off, please."),
        text.replace('"lamp",\n', '"light",\n', 1),
        text.replace(answer, f"{answer}, {answer}"),
        json.dumps({"eval_set_id": "home", "eval_cases": [scenario]}),
        json.dumps([{"query": "Hi", "expected_tool_use": [], "reference": "x"}]),
        "{",
    ):
        file.write_text(changed, "utf-8")
        config = {"criteria": {"hallucinations_v1": 0.5}} if "scenario" in changed else CONFIG
        file.with_name("test_config.json").write_text(json.dumps(config), "utf-8")
        accept("--all", code=1)
        assert file.read_text("utf-8") == changed
    file.unlink()
    accept("--all", code=1)

    shell.situation("A path of an artifact that leads out of the repository is never opened")
    file = failed_lamp(repository)
    outside = repository.root.parent / "home.test.json"
    shutil.copy(file, outside)
    for name in ("results.json", "recordings.jsonl.gz"):
        edited(results / name, FILE, "../home.test.json")
    accept("--all", code=1)
    assert outside.read_bytes() == file.read_bytes()

    shell.situation("What was recorded is no expectation")
    masked: Turn = (LAMP[0], [OFF], "The key is *** and the lamp is off.")
    long: Turn = (LAMP[0], [OFF], "x" * 1_100_000)
    ran(repository, {"masked": [masked], "crashed": [None], "long": [long], "both": [FOUND]})
    accept("--all", code=1)
    edited(results / "recordings.jsonl.gz", "Lamp off.", "Another message.")
    accept("--all", code=1)

    shell.situation("There is nothing to accept")
    dims = {"trajectory_single_tool_use": {"threshold": 1.0, "tool_name": "dim"}}
    failed_lamp(repository, config={"criteria": dims})
    accept("--list")
    soon = (datetime.now(UTC) + timedelta(days=90)).date()
    held = f'[[quarantine]]\ncase = "{FILE}:lamp"\nreason = "slow"\nowner = "@alice"\nexpires = {soon}\n'
    informs = '[[policy]]\nmetric = "*"\nblocking = false\n'
    (repository.root / "agent-eval.toml").write_text(f"max-quarantined = 1\n{held}{informs}", "utf-8")
    run(repository, code=0)
    accept("--all")
    check("golden_accept/refusals.txt", shell.text)


def test_read_only_files__are_not_replaced(repository: Repository) -> None:
    file = failed_lamp(repository)
    before = file.read_bytes()
    file.chmod(0o444)
    # root without its privileges; another user has none.
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    commands = (
        ["accept", "--all"],
        ["edit", f"{FILE}:lamp", "--message", "1", "Hi"],
        ["record", f"{FILE}:lamp", "--replace", "--from", RESULTS, "--case", "lamp"],
    )
    for command in commands:
        environment = repository.environment({"CI": ""})
        done = program(*drop, *AGENT_EVAL, *command, cwd=repository.root, env=environment, code=2)
        said = done.stdout + done.stderr
        assert file.name in said and ("Permission denied" in said or "it is read-only" in said), said
        assert "--output-dir" not in said
    assert file.read_bytes() == before and sorted(os.listdir(file.parent)) == ["home.test.json", "test_config.json"]


def test_accept_list__hostile_text_is_shown_by_name(repository: Repository) -> None:
    evil: Turn = (LAMP[0], [("\x1b[2Jrm", {"\u202ex": "::error::boom"})], "\x1b]0;title\x07::set-output name=x::y")
    failed_lamp(repository, evil)
    for argument in ("--list", "--dry-run"):
        shown = accept(repository, argument)
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)
        assert "::set-output" not in shown
    accept(repository, "--all")
    assert eval_case("lamp", evil) in json.loads((repository.root / FILE).read_text("utf-8"))["eval_cases"]


# The review of `agent-eval accept` on a real pseudo-terminal.


PROMPT = r"accept\? \[.*\] "
ON: Turn = (LAMP[0], [("switch", {"device": "lamp", "on": True})], "灯已关闭 🏠\n好的")
SORRY: Turn = (LAMP[0], [OFF], "Sorry, which lamp?")
CAUSE: dict[str, Any] = {
    "code": "tool-empty",
    "data": {"tool": "find", "actual": '{"devices": []}'},
    "message": "find returned nothing",
    "failing": {"total": 4, "having": 3},
    "passing": {"total": 0, "having": 0},
    "example": {"case_id": f"{FILE}:first", "run": 0, "turn": 0, "call": 0},
}


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


def script(repository: Repository, text: str) -> str:
    """An editor that changes its file with Python; `path` and `text` are defined."""
    path = repository.root / "editor.py"
    head = "#!/usr/bin/env python3\nimport pathlib, sys\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n"
    path.write_text(f"{head}{text}\n")
    path.chmod(0o755)
    return str(path)


def reviewed(repository: Repository, keys: Sequence[str], *, columns: int = 100, editor: str = "") -> str:
    """What a review shows if these keys are pressed, each at a prompt; and what is then in the file."""
    with review(repository, columns=columns, editor=editor) as terminal:
        for key in keys[:-1]:
            terminal.press(key, r"(accept|edit again)\? \[.*\] ")
        terminal.press(keys[-1])
    return f"{terminal.text.replace(str(repository.root), 'FOLDER').strip()}\n\n{texts(repository)}"


@pytest.mark.slow
def test_review__what_it_shows(repository: Repository) -> None:
    """Each key is pressed in the first one; any other key shows the help, and an arrow key and Enter do nothing."""
    said = "# Every key\n\n"
    names = ("first", "calls", "texts", "skipped", "edited", "alike", "like_it", "other", "rest", "last")
    ran(repository, {name: [FOUND] for name in names} | {"alike": [MAIN_ONLY], "like_it": [MAIN_ONLY]})
    edit = script(repository, "path.write_text(text.replace('bedroom.', 'bathroom.'))")
    said += reviewed(repository, ("?", "日", "\x1b[A", "\r", *"diract ecaAsS"), editor=edit)

    said += "# Back, and undone\n\n"
    ran(repository, {"first": [FOUND], "second": [FOUND], "third": [MAIN_ONLY], "fourth": [FOUND]})
    # The first case is accepted, then skipped. At the end the fourth, which was accepted together with the second, is
    # so no more.
    said += reviewed(repository, "buabsAbAuasq")

    said += "# What the tools returned\n\n"
    no_call: Turn = (LAMP[0], [FIND], "I found nothing.")
    error = {"error": "no data"}
    returned: dict[str, dict[str, Any]] = {"lamp": error, "door": {"devices": []}, "fan": error}
    ran(repository, {key: [no_call] for key in returned}, returned=returned)
    said += reviewed(repository, "As")

    said += "# Answers that no one wants, but where one is expected already\n\n"
    answers = {"apology": "抱歉，我做不到。", "exception": "KeyError: 'lamp'", "sorry": "I am unable to find the lamp."}
    ran(repository, {name: [(LAMP[0], [OFF], text)] for name, text in answers.items()}, expects={"sorry": SORRY})
    said += reviewed(repository, "ssq")

    said += "# Cases with one cause\n\n"
    alike = ("first", "second", "third")
    did = {name: [no_call if name in alike else MAIN_ONLY] for name in ("first", "other", "second", "third")}
    ran(repository, did, expects=dict.fromkeys(did, FOUND), returned={key: {"devices": []} for key in alike})
    path = repository.root / RESULTS / "results.json"
    report = json.loads(path.read_text("utf-8"))
    report["causes"] = [CAUSE | {"cases": [f"{FILE}:{name}" for name in alike]}]
    path.write_text(json.dumps(report), "utf-8")
    said += reviewed(repository, "axq")

    said += "# Several runs, on 40 columns\n\n"
    ran(repository, {"lamp": [ON, FOUND, ON], "door": [FOUND] * 3})
    said += reviewed(repository, "rmryq", columns=40)

    said += "# An edited value is checked\n\n"
    ran(repository, {"lamp": [FOUND]})
    changes = (
        "text.replace('Lamp off.', 'Fan off.')",
        "text.replace('\"lamp\",', '\"fan\",', 1)",
        "text.replace('bedroom.', '***')",
        "text.replace('\"final_response\"', '\"final_respones\"')",
        "'[]'",
    )
    count = f"count = pathlib.Path({str(repository.root)!r}, 'edits')\ncount.touch()\nnumber = len(count.read_text())\n"
    count += "count.write_text('x' * (number + 1))\n"
    editor = script(repository, f"{count}path.write_text([{', '.join(changes)}][number])")
    said += reviewed(repository, "en" * len(changes) + "q", editor=editor)
    check("golden_accept/reviews.txt", said)


@pytest.mark.slow
def test_review__ctrl_c_and_the_end_of_the_input(repository: Repository) -> None:
    file = ran(repository, {"lamp": [FOUND], "door": [FOUND]})
    before = file.read_bytes()
    broken = script(repository, "path.write_text('{')")
    with review(repository, editor=broken, code=130) as terminal:
        terminal.press("a", PROMPT)
        assert "line 1" in terminal.press("e", r"edit again\? \[y n\] ")
        terminal.press("\x03")
    assert "nothing was written" in terminal.text
    with review(repository, editor="no-such-editor", code=130) as terminal:
        assert "can't be started" in terminal.press("e", PROMPT)
        terminal.press("\x03")
    assert file.read_bytes() == before

    with review(repository) as terminal:
        assert "Set EDITOR" in terminal.press("e", PROMPT)
        terminal.press("a", PROMPT)
        terminal.press("\x04")  # the end of the input is like q: what was accepted is written
    assert json.loads(file.read_text("utf-8"))["eval_cases"] == [eval_case("lamp", FOUND), eval_case("door", LAMP)]


@pytest.mark.slow
def test_edit__in_the_editor_until_the_case_is_valid(repository: Repository) -> None:
    file = write_file(repository.root, eval_case("lamp", LAMP), eval_case("door", LAMP))
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
    ran(repository, {"lamp": [FOUND]})
    environment = {**repository.environment(), "CI": ""}
    command = shlex.join([*AGENT_EVAL, "accept"])
    for redirected in (f"{command} <&-", f"{command} | cat", f"{command} </dev/null"):
        shell = ["bash", "-o", "pipefail", "-c", redirected]
        with on_terminal(shell, cwd=repository.root, environment=environment) as terminal:
            assert terminal.code() == 2
            assert "--dry-run" in terminal.text
