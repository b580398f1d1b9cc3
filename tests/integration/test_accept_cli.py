"""`agent-eval accept`: what it changes, refuses and prints, and its review on a real pseudo-terminal."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gate_runs import AGENT_EVAL, Call, Done, Repository, eval_case, program
from golden_files import check
from pty_terminal import Terminal, on_terminal

from agent_eval.core.content import FunctionCall, FunctionResponse, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.results import Recording, RunError

# Repositories with eval files, and recordings of an agent that did something else than they expect.


FILE = "evals/home.test.json"
CONFIG = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
OFF: Call = ("switch", {"device": "lamp", "on": False})
FIND: Call = ("find", {"room": "bedroom"})
Turn = tuple[str, Sequence[Call], str]
"""What the user says, the calls, the answer."""
LAMP: Turn = ("Lamp off.", [OFF], "The lamp is off.")
FOUND: Turn = ("Lamp off.", [FIND, OFF], "I have switched off the lamp in the bedroom.")
DOOR: Turn = ("Lock the door.", [("lock", {})], "Locked.")


def write_file(root: Path, *cases: Mapping[str, Any], path: str = FILE, config: Any = None) -> Path:
    """Writes an eval file and its config."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"eval_set_id": file.name.split(".")[0], "eval_cases": cases}, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")
    (file.parent / "test_config.json").write_text(json.dumps(config or CONFIG), "utf-8")
    return file


def invocation(turn: Turn, responses: Sequence[dict[str, Any]] = ()) -> Invocation:
    """A turn as it was recorded, with what its calls returned."""
    said, calls, answer = turn
    uses = [FunctionCall(id=f"call-{place}", name=name, args=dict(args)) for place, (name, args) in enumerate(calls)]
    return Invocation(
        user_content=user_message(said),
        final_response=model_message(answer),
        intermediate_data=IntermediateData(
            tool_uses=uses,
            tool_responses=[
                FunctionResponse(id=use.id, name=use.name, response=response)
                for use, response in zip(uses, responses, strict=False)
            ],
        ),
    )


def record(
    root: Path,
    runs: Mapping[str, Sequence[Sequence[Turn] | None]],
    path: str = FILE,
    responses: Mapping[str, Sequence[dict[str, Any]]] | None = None,
) -> None:
    """Writes what the agent did: by eval id and run its turns, or None for a run that ended with an exception; and by
    eval id what the calls of each turn returned.
    """
    returned = responses or {}
    boom = RunError(kind="agent-exception", owner="agent", message="boom", turn=0)
    recordings = [
        Recording(
            run_id=f"{path}:{eval_id}#{number + 1}",
            case_id=f"{path}:{eval_id}",
            file=path,
            eval_set_id=Path(path).name.split(".")[0],
            eval_id=eval_id,
            run=number,
            fingerprint="recorded",
            invocations=[invocation(turn, returned.get(eval_id, ())) for turn in turns or ()],
            error=None if turns is not None else boom,
            started_at=1_700_000_000.0,
            duration=1.0,
        )
        for eval_id, several in runs.items()
        for number, turns in enumerate(several)
    ]
    lines = [recording.model_dump_json(exclude_none=True) for recording in recordings]
    (root / "answers.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def run(repository: Repository, *arguments: str, runs: int = 1) -> Done:
    """Runs the gate on what was recorded."""
    return repository.gate(
        "run", "--agent", "recorded:answers.jsonl", "--num-runs", str(runs), *arguments, python=False
    )


def failed_lamp(repository: Repository, *turns: Sequence[Turn] | None, config: Any = None) -> Path:
    """A file with two cases, of which `lamp` has failed in these runs (one run that looks for the lamp first)."""
    several = turns or ([FOUND],)
    file = write_file(repository.root, eval_case("lamp", LAMP), eval_case("door", DOOR), config=config)
    record(repository.root, {"lamp": several, "door": [[DOOR]] * len(several)})
    done = run(repository, runs=len(several))
    assert done.code == 1, done.err
    return file


# `agent-eval accept`: what it changes, refuses and prints, and its review on a real pseudo-terminal.


# `agent-eval accept` without questions: what it changes, what it refuses, and what it prints.


RESULTS = "agent-eval-results"


def value(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def accept(repository: Repository, *arguments: str, code: int = 0) -> str:
    """Accepts as a user of a shell, who has no terminal; what was printed."""
    done = repository.gate("accept", *arguments, environment={"CI": ""}, code=code)
    return done.out + done.err


def codes(repository: Repository, *arguments: str) -> list[str]:
    """The codes of what `accept --list` refuses."""
    return re.findall(r"^- .* \[([a-z-]+)\]$", accept(repository, *arguments, "--list"), re.MULTILINE)


def lamp(repository: Repository) -> Any:
    """The case in its file."""
    return value(repository.root / FILE)["eval_cases"][0]


def test_accept_all__changes_only_the_case_that_failed(repository: Repository) -> None:
    file = failed_lamp(repository)
    before = file.read_text("utf-8")
    listed = accept(repository, "--list")
    check("golden_accept/list.txt", listed)

    dry = repository.gate("accept", "--dry-run")
    assert (dry.code, file.read_text("utf-8")) == (0, before)
    done = accept(repository, "--all")
    after = file.read_text("utf-8")
    assert value(file)["eval_cases"] == [eval_case("lamp", FOUND), eval_case("door", DOOR)]
    check("golden_accept/all.txt", done)

    patched = repository.root / "again.json"
    patched.write_text(before, "utf-8")
    program("patch", patched, input=dry.out)
    assert patched.read_text("utf-8") == after

    again = accept(repository, "--all")
    assert file.read_text("utf-8") == after
    assert "There is nothing left to accept." in again and "notice [accept-done]" in again
    file.write_text(after.replace('"room": "bedroom"', '"room": "bathroom"'), "utf-8")
    assert "error [accept-changed]" in accept(repository, "--all", code=1), "someone has changed it since"
    file.write_text(after, "utf-8")

    assert run(repository).code == 0, "the same recording passes with the new expectation"
    assert "there is nothing to accept" in accept(repository, "--all")


def test_accept__needs_a_person_or_a_flag(repository: Repository) -> None:
    file = failed_lamp(repository)
    before = file.read_bytes()
    none = accept(repository, code=2)
    assert all(flag in none for flag in ("--list", "--dry-run", "--all"))
    ci = repository.gate("accept", "--all", environment={"CI": "true"})
    assert (ci.code, "--yes" in ci.err) == (2, True)
    assert "calls, final and intermediate" in accept(repository, "--list", "--only", "call", code=2)
    assert "Did you mean" in accept(repository, "--list", "lmp", code=2)
    (repository.root / RESULTS / "recordings.jsonl.gz").unlink()
    assert "recordings.jsonl.gz does not exist" in accept(repository, "--list", code=2)
    shutil.rmtree(repository.root / RESULTS)
    for arguments in ((), ("--list",)):
        assert "Run `agent-eval run` first" in accept(repository, *arguments, code=2)
    assert file.read_bytes() == before


def test_accept_only__accepts_one_field(repository: Repository) -> None:
    failed_lamp(repository)
    done = repository.gate("accept", "--all", "--yes", "--only", "calls", f"{FILE}:lamp", environment={"CI": "true"})
    assert done.code == 0, done.err
    assert lamp(repository) == eval_case("lamp", (LAMP[0], FOUND[1], LAMP[2]))
    assert codes(repository) == ["accept-changed"]
    assert codes(repository, "--only", "calls") == ["accept-done"]
    failed_lamp(repository, [(LAMP[0], [FIND, OFF], LAMP[2])])
    assert codes(repository, "--only", "response_match_score") == ["accept-nothing"], "this criterion has passed"


def test_accept_runs__the_most_typical_one_or_the_one_that_is_named(repository: Repository) -> None:
    other = (LAMP[0], [FIND], "No idea.")
    failed_lamp(repository, [other], [FOUND], [FOUND], None)
    listed = accept(repository, "--list")
    assert "accept-varies" in listed, "two of three runs are not all runs"
    assert "run 2" not in listed
    refused = accept(repository, "--all", code=1)
    assert "accept-varies" in refused and "2 of 3 runs would pass" in refused
    accept(repository, "--all", "--run", "9", code=1)
    accept(repository, "--all", "--run", "1")
    assert lamp(repository) == eval_case("lamp", other)


def test_accept_all__leaves_out_cases_whose_tools_returned_nothing_or_an_error(repository: Repository) -> None:
    file = write_file(repository.root, eval_case("lamp", LAMP), eval_case("door", LAMP), eval_case("fan", LAMP))
    responses: dict[str, list[dict[str, Any]]] = {"lamp": [{"error": "no data"}], "door": [{"devices": []}]}
    record(repository.root, {name: [[FOUND]] for name in ("lamp", "door", "fan")}, responses=responses)
    assert run(repository).code == 1
    assert codes(repository) == ["accept-tools", "accept-tools"]
    done = accept(repository, "--all", code=1)
    assert value(file)["eval_cases"] == [eval_case("lamp", LAMP), eval_case("door", LAMP), eval_case("fan", FOUND)]
    check("golden_accept/tools.txt", done)
    accept(repository, "--all", "--run", "1", f"{FILE}:lamp")
    assert lamp(repository) == eval_case("lamp", FOUND)


def test_accept_calls__common_ones_if_others_may_come_between(repository: Repository) -> None:
    config = {"criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}}
    first, second = (LAMP[0], [FIND, ("log", {})], "a"), (LAMP[0], [("log", {}), FIND, ("log", {})], "b")
    failed_lamp(repository, [first], [second], config=config)
    assert "2 of 2 runs pass" in accept(repository, "--all")
    assert codes(repository) == ["accept-done"]
    assert lamp(repository) == eval_case("lamp", (LAMP[0], [FIND, ("log", {})], LAMP[2]))
    exact = failed_lamp(repository, [first], [second])
    before = exact.read_bytes()
    assert "EXACT" in accept(repository, "--all", "--calls", "common", code=1)
    assert exact.read_bytes() == before


def test_accept_zip__as_a_browser_saves_it(repository: Repository) -> None:
    failed_lamp(repository)
    archive = repository.root / "agent-eval-results.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in ("results.json", "recordings.jsonl.gz", "cases.jsonl.gz"):
            zipped.write(repository.root / RESULTS / name, name)
    shutil.rmtree(repository.root / RESULTS)
    accept(repository, archive.name, "--all")
    assert lamp(repository) == eval_case("lamp", FOUND)
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.writestr("../evil.txt", "x")
    assert "outside the archive" in accept(repository, archive.name, "--list", code=2)
    archive.write_bytes(b"PK\x03\x04 but not a zip")
    accept(repository, archive.name, "--list", code=2)


def test_accept_refusals__of_the_working_tree(repository: Repository) -> None:
    file = failed_lamp(repository)
    text = file.read_text("utf-8")
    file.write_text(text.replace("Lamp off.", "Lamp off, please."), "utf-8")
    assert codes(repository) == ["accept-changed"]
    file.write_text(text.replace('"lamp",\n', '"light",\n', 1), "utf-8")
    assert codes(repository) == ["accept-gone"]
    scenario = {"eval_id": "lamp", "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "Go."}}
    write_file(repository.root, scenario, config={"criteria": {"hallucinations_v1": 0.5}})
    assert codes(repository) == ["accept-scenario"]
    file.write_text(json.dumps([{"query": "Hi", "expected_tool_use": [], "reference": "x"}]), "utf-8")
    assert codes(repository)[0] in {"accept-legacy", "accept-gone"}
    file.write_text("{", "utf-8")
    invalid = accept(repository, "--all", code=1)
    assert "[accept-gone] `lamp` is in a file that has errors" in invalid
    assert f"agent-eval validate '{FILE}'" in invalid
    file.unlink()
    assert codes(repository) == ["accept-gone"]


def test_accept_refusals__a_path_of_an_artifact_is_never_opened(repository: Repository) -> None:
    failed_lamp(repository)
    outside = repository.root.parent / "home.test.json"
    shutil.copy(repository.root / FILE, outside)
    for name in ("results.json", "recordings.jsonl.gz"):
        path = repository.root / RESULTS / name
        data = path.read_bytes()
        data = gzip.decompress(data) if name.endswith("gz") else data
        data = data.replace(FILE.encode(), b"../home.test.json")
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    before = outside.read_bytes()
    assert "accept-gone" in accept(repository, "--all", code=1)
    assert outside.read_bytes() == before


def test_accept_refusals__of_what_was_recorded(repository: Repository) -> None:
    masked = (LAMP[0], [OFF], "The key is *** and the lamp is off.")
    long = (LAMP[0], [OFF], "x" * 1_100_000)
    cases = [eval_case(name, LAMP) for name in ("masked", "crashed", "long", "both")]
    file = write_file(repository.root, *cases)
    one_run: dict[str, list[Turn] | None] = {"masked": [masked], "crashed": None, "long": [long], "both": [FOUND]}
    record(repository.root, {eval_id: [turns] for eval_id, turns in one_run.items()})
    assert run(repository).code == 1
    listed = accept(repository, "--list")
    refused = re.findall(r"^- .*?`(\w+)` .* \[([a-z-]+)\]$", listed, re.MULTILINE)
    assert dict(refused) == {"masked": "accept-masked", "crashed": "accept-error", "long": "accept-large"}
    assert f"+ {FILE}:both · " in listed
    accept(repository, "--all", code=1)
    changed = [item for item, old in zip(value(file)["eval_cases"], cases, strict=True) if item != old]
    assert changed == [eval_case("both", FOUND)]

    path = repository.root / RESULTS / "recordings.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().replace("Lamp off.", "Another message.")
    path.write_bytes(gzip.compress(lines.encode()))
    file.write_text(file.read_text("utf-8").replace("bedroom", "bathroom"), "utf-8")
    assert set(codes(repository, "masked", "long")) == {"accept-turns"}


def test_accept_refusals__nothing_to_accept_and_duplicate_keys(repository: Repository) -> None:
    dims = {"trajectory_single_tool_use": {"threshold": 1.0, "tool_name": "dim"}}
    file = failed_lamp(repository, config={"criteria": dims})
    assert codes(repository) == ["accept-nothing"] * 2
    soon = (datetime.now(UTC) + timedelta(days=90)).date()
    held = f'[[quarantine]]\ncase = "{FILE}:lamp"\nreason = "slow"\nowner = "@alice"\nexpires = {soon}\n'
    informs = '[[policy]]\nmetric = "*"\nblocking = false\n'
    (repository.root / "agent-eval.toml").write_text(f"max-quarantined = 1\n{held}{informs}", "utf-8")
    assert run(repository).code == 0
    assert "there is nothing to accept" in accept(repository, "--all"), "the quarantined case passed"
    (repository.root / "agent-eval.toml").unlink()
    failed_lamp(repository)
    text = file.read_text("utf-8")
    answer = '"text": "The lamp is off."'
    file.write_text(text.replace(answer, f"{answer}, {answer}"), "utf-8")
    before = file.read_bytes()
    assert "[accept-patch]" in accept(repository, "--all", code=1)
    assert file.read_bytes() == before


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
    evil = (LAMP[0], [("\x1b[2Jrm", {"\u202ex": "::error::boom"})], "\x1b]0;title\x07::set-output name=x::y")
    failed_lamp(repository, [evil])
    for argument in ("--list", "--dry-run"):
        shown = accept(repository, argument)
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)
        assert "::set-output" not in shown
    accept(repository, "--all")
    assert lamp(repository) == eval_case("lamp", evil), "the file has it as it was"


# The review of `agent-eval accept` on a real pseudo-terminal.


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


def results(repository: Repository, turns: Mapping[str, Sequence[Sequence[Turn]]], runs: int = 1) -> Path:
    """A file with these cases, which expect LAMP; what the agent did in each run."""
    file = write_file(repository.root, *(eval_case(eval_id, LAMP) for eval_id in turns))
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


def press(terminal: Terminal, *steps: tuple[str, str]) -> None:
    """Presses one key after another; each shows a text before the next prompt."""
    for key, text in steps:
        shown = terminal.ask(key, PROMPT)
        assert text in shown, (key, text, shown)


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
        press(terminal, ("?", "whole diff of the case"), ("日", "nothing is written"))  # Any other key shows the help.
        for key in ("\x1b[A", "\r"):
            assert terminal.ask(key, PROMPT).strip().startswith("accept?"), "an arrow key and Enter do nothing"
        diff = terminal.ask("d", PROMPT)
        assert re.search(r'^\+ +"name": "find"', diff, re.MULTILINE)
        assert "@@" in diff
        press(terminal, ("i", "tool_trajectory_avg_score 0.00, needs"), ("r", "There is one complete run."))
        press(terminal, ("a", "[2/10]"), ("c", "[3/10]"), ("t", "[4/10]"), (" ", "[5/10]"))
        press(terminal, ("e", "bathroom"), ("c", "edited is accepted as a whole"), ("a", "[6/10]"))
        shown = terminal.ask("A", PROMPT)
        assert "accepted evals/home.test.json:like_it: the same kind of change" in shown
        assert "[8/10]" in shown
        assert "[9/10]" in terminal.ask("s", PROMPT)
        terminal.press("S")
    assert f"{FILE}: 6 cases changed" in terminal.text
    assert "held to its thresholds" in terminal.text
    expected = {name: eval_case(name, LAMP) for name in names}
    expected["first"] = eval_case("first", FOUND)
    expected["calls"] = eval_case("calls", (LAMP[0], FOUND[1], LAMP[2]))
    expected["texts"] = eval_case("texts", (LAMP[0], LAMP[1], FOUND[2]))
    expected["edited"] = eval_case("edited", (LAMP[0], FOUND[1], FOUND[2].replace("bedroom", "bathroom")))
    expected |= {name: eval_case(name, MAIN_ONLY) for name in ("alike", "like_it")}
    assert cases(file) == expected


def test_review__what_the_tools_returned(repository: Repository) -> None:
    write_file(repository.root, eval_case("lamp", LAMP), eval_case("door", LAMP), eval_case("fan", LAMP))
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
    write_file(repository.root, eval_case("apology", LAMP), eval_case("exception", LAMP), eval_case("sorry", SORRY))
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
        press(terminal, ("b", "This is the first case."), ("u", "There is nothing to undo."))
        # The first case is accepted, then skipped; the third is of another kind than the fourth.
        press(terminal, ("a", "[2/4]"), ("b", "[1/4]"), ("s", "[2/4]"), ("A", "[3/4]"))
        # At the end the fourth, which was accepted together with the second, is so no more.
        press(terminal, ("b", "[2/4]"), ("A", "[3/4]"), ("u", "[2/4]"), ("a", "[3/4]"), ("s", "[4/4]"))
        terminal.press("q")
    assert cases(file) == {name: eval_case(name, FOUND if name == "second" else LAMP) for name in names}


def test_review__cases_with_one_cause(repository: Repository) -> None:
    empty: Turn = (LAMP[0], [FIND], "I found nothing.")
    names = ("first", "other", "second", "third")
    write_file(repository.root, *(eval_case(name, FOUND) for name in names))
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
    assert cases(file)["lamp"] == eval_case("lamp", ON)
    assert cases(file)["door"] == eval_case("door", LAMP)


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
    assert (cases(file)["lamp"], cases(file)["door"]) == (eval_case("lamp", FOUND), eval_case("door", LAMP))


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
    results(repository, {"lamp": [[FOUND]]})
    environment = {**repository.environment(), "CI": ""}
    command = shlex.join([*AGENT_EVAL, "accept"])
    for redirected in (f"{command} <&-", f"{command} | cat", f"{command} </dev/null"):
        shell = ["bash", "-o", "pipefail", "-c", redirected]
        with on_terminal(shell, cwd=repository.root, environment=environment) as terminal:
            assert terminal.code() == 2
            assert "--dry-run" in terminal.text
