"""`agent-eval accept` without questions: what it changes, what it refuses, and what it prints."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accept_repos import DOOR, FILE, FIND, FOUND, LAMP, OFF, Turn, case, failed_lamp, record, run, write_file
from gate_runs import AGENT_EVAL, Repository, repository_in

RESULTS = "agent-eval-results"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo") as made:
        yield made


def value(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def codes(repository: Repository, *arguments: str) -> list[str]:
    """The codes of what `accept --list` refuses."""
    done = repository.gate("accept", *arguments, "--list")
    assert done.code == 0, done.err
    return re.findall(r"^- .* \[([a-z-]+)\]$", done.out, re.MULTILINE)


def test_accept_all__changes_only_the_case_that_failed(repository: Repository) -> None:
    file = failed_lamp(repository)
    before = file.read_text("utf-8")
    listed = repository.gate("accept", "--list")
    assert listed.code == 0
    assert "1 case may be accepted, 0 not." in listed.out
    assert "tool_trajectory_avg_score 0.00 → 1.00" in listed.out
    assert f"+ {FILE}:lamp · blocks the gate · calls, final\n" in listed.out

    dry = repository.gate("accept", "--dry-run")
    assert (dry.code, file.read_text("utf-8")) == (0, before)
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert done.code == 0, done.err
    after = file.read_text("utf-8")
    assert value(file)["eval_cases"] == [case("lamp", FOUND), case("door", DOOR)]
    assert f"{FILE}: 1 case changed" in done.out
    assert "tool_trajectory_avg_score 0.00 → 1.00" in done.out
    assert "held to its thresholds" in done.out

    patched = repository.root / "again.json"
    patched.write_text(before, "utf-8")
    applied = subprocess.run(["patch", str(patched)], input=dry.out, text=True, capture_output=True, check=False)
    assert (applied.returncode, patched.read_text("utf-8")) == (0, after), applied.stdout + applied.stderr

    again = repository.gate("accept", "--all", environment={"CI": ""})
    assert (again.code, file.read_text("utf-8")) == (0, after), again.err
    assert "There is nothing left to accept." in again.out and "notice [accept-done]" in again.err
    assert codes(repository) == ["accept-done"]
    file.write_text(after.replace('"room": "bedroom"', '"room": "bathroom"'), "utf-8")
    other = repository.gate("accept", "--all", environment={"CI": ""})
    assert (other.code, "error [accept-changed]" in other.err) == (1, True), "someone has changed it since"
    file.write_text(after, "utf-8")

    assert run(repository).code == 0, "the same recording passes with the new expectation"
    nothing = repository.gate("accept", "--all", environment={"CI": ""})
    assert (nothing.code, "there is nothing to accept" in nothing.out) == (0, True)


def test_accept__needs_a_person_or_a_flag(repository: Repository) -> None:
    file = failed_lamp(repository)
    before = file.read_bytes()
    none = repository.gate("accept")
    assert none.code == 2
    assert all(flag in none.err for flag in ("--list", "--dry-run", "--all"))
    ci = repository.gate("accept", "--all", environment={"CI": "true"})
    assert (ci.code, "--yes" in ci.err) == (2, True)
    unknown = repository.gate("accept", "--list", "--only", "call")
    assert (unknown.code, "calls, final and intermediate" in unknown.err) == (2, True)
    missing = repository.gate("accept", "--list", "lmp")
    assert (missing.code, "Did you mean" in missing.err) == (2, True)
    (repository.root / RESULTS / "recordings.jsonl.gz").unlink()
    gone = repository.gate("accept", "--list")
    assert (gone.code, "recordings.jsonl.gz does not exist" in gone.err) == (2, True)
    shutil.rmtree(repository.root / RESULTS)
    for arguments in ((), ("--list",)):
        no_results = repository.gate("accept", *arguments)
        assert (no_results.code, "Run `agent-eval run` first" in no_results.err) == (2, True)
    assert file.read_bytes() == before


def test_accept_only__accepts_one_field(repository: Repository) -> None:
    file = failed_lamp(repository)
    done = repository.gate("accept", "--all", "--yes", "--only", "calls", f"{FILE}:lamp", environment={"CI": "true"})
    assert done.code == 0, done.err
    assert value(file)["eval_cases"][0] == case("lamp", (LAMP[0], FOUND[1], LAMP[2]))
    assert codes(repository) == ["accept-changed"]
    assert codes(repository, "--only", "calls") == ["accept-done"]


def test_accept_only__of_a_metric_that_passed_is_refused(repository: Repository) -> None:
    failed_lamp(repository, [(LAMP[0], [FIND, OFF], LAMP[2])])
    assert codes(repository, "--only", "response_match_score") == ["accept-nothing"]


def test_accept_runs__the_most_typical_one_or_the_one_that_is_named(repository: Repository) -> None:
    other = (LAMP[0], [FIND], "No idea.")
    file = failed_lamp(repository, [other], [FOUND], [FOUND], None)
    listed = repository.gate("accept", "--list").out
    assert "accept-varies" in listed, "two of three runs are not all runs"
    assert "run 2" not in listed
    refused = repository.gate("accept", "--all", environment={"CI": ""})
    assert (refused.code, "accept-varies" in refused.err) == (1, True)
    assert "2 of 3 runs would pass" in refused.err
    assert repository.gate("accept", "--all", "--run", "9", environment={"CI": ""}).code == 1
    done = repository.gate("accept", "--all", "--run", "1", environment={"CI": ""})
    assert done.code == 0, done.err
    assert value(file)["eval_cases"][0] == case("lamp", other)


def test_accept_all__leaves_out_cases_whose_tools_returned_nothing_or_an_error(repository: Repository) -> None:
    file = write_file(repository.root, case("lamp", LAMP), case("door", LAMP), case("fan", LAMP))
    responses: dict[str, list[dict[str, Any]]] = {"lamp": [{"error": "no data"}], "door": [{"devices": []}]}
    record(repository.root, {name: [[FOUND]] for name in ("lamp", "door", "fan")}, responses=responses)
    assert run(repository).code == 1
    assert codes(repository) == ["accept-tools", "accept-tools"]
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert (done.code, value(file)["eval_cases"]) == (1, [case("lamp", LAMP), case("door", LAMP), case("fan", FOUND)])
    assert "`lamp` needs a look: a tool returned an error in turn 1." in done.err
    assert "`door` needs a look: a tool returned nothing in turn 1." in done.err
    assert "accept it on a terminal or with --run 1." in done.err
    named = repository.gate("accept", "--all", "--run", "1", f"{FILE}:lamp", environment={"CI": ""})
    assert (named.code, value(file)["eval_cases"][0]) == (0, case("lamp", FOUND)), named.err


def test_accept_calls__common_ones_if_others_may_come_between(repository: Repository) -> None:
    config = {"criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}}
    first, second = (LAMP[0], [FIND, ("log", {})], "a"), (LAMP[0], [("log", {}), FIND, ("log", {})], "b")
    file = failed_lamp(repository, [first], [second], config=config)
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert done.code == 0, done.err
    assert "2 of 2 runs pass" in done.out
    assert codes(repository) == ["accept-done"]
    assert value(file)["eval_cases"][0] == case("lamp", (LAMP[0], [FIND, ("log", {})], LAMP[2]))
    exact = failed_lamp(repository, [first], [second])
    before = exact.read_bytes()
    refused = repository.gate("accept", "--all", "--calls", "common", environment={"CI": ""})
    assert (refused.code, "EXACT" in refused.err, exact.read_bytes()) == (1, True, before)


def test_accept_zip__as_a_browser_saves_it(repository: Repository) -> None:
    file = failed_lamp(repository)
    archive = repository.root / "agent-eval-results.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in ("results.json", "recordings.jsonl.gz", "cases.jsonl.gz"):
            zipped.write(repository.root / RESULTS / name, name)
    shutil.rmtree(repository.root / RESULTS)
    done = repository.gate("accept", archive.name, "--all", environment={"CI": ""})
    assert done.code == 0, done.err
    assert value(file)["eval_cases"][0] == case("lamp", FOUND)
    assert codes(repository, archive.name) == ["accept-done"]
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.writestr("../evil.txt", "x")
    outside = repository.gate("accept", archive.name, "--list")
    assert (outside.code, "outside the archive" in outside.err) == (2, True)
    archive.write_bytes(b"PK\x03\x04 but not a zip")
    assert repository.gate("accept", archive.name, "--list").code == 2


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
    invalid = repository.gate("accept", "--all", environment={"CI": ""})
    assert (invalid.code, "[accept-gone] `lamp` is in a file that has errors" in invalid.err) == (1, True)
    assert f"agent-eval validate '{FILE}'" in invalid.err
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
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert (done.code, "accept-gone" in done.err, outside.read_bytes()) == (1, True, before)


def test_accept_refusals__of_what_was_recorded(repository: Repository) -> None:
    masked = (LAMP[0], [OFF], "The key is *** and the lamp is off.")
    long = (LAMP[0], [OFF], "x" * 1_100_000)
    cases = [case(name, LAMP) for name in ("masked", "crashed", "long", "both")]
    file = write_file(repository.root, *cases)
    one_run: dict[str, list[Turn] | None] = {"masked": [masked], "crashed": None, "long": [long], "both": [FOUND]}
    record(repository.root, {eval_id: [turns] for eval_id, turns in one_run.items()})
    assert run(repository).code == 1
    listed = repository.gate("accept", "--list").out
    refused = re.findall(r"^- .*?`(\w+)` .* \[([a-z-]+)\]$", listed, re.MULTILINE)
    assert dict(refused) == {"masked": "accept-masked", "crashed": "accept-error", "long": "accept-large"}
    assert f"+ {FILE}:both · " in listed
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert done.code == 1, "something was refused"
    changed = [item for item, old in zip(value(file)["eval_cases"], cases, strict=True) if item != old]
    assert changed == [case("both", FOUND)]

    path = repository.root / RESULTS / "recordings.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().replace("Lamp off.", "Another message.")
    path.write_bytes(gzip.compress(lines.encode()))
    file.write_text(file.read_text("utf-8").replace("bedroom", "bathroom"), "utf-8")
    assert set(codes(repository, "masked", "long")) == {"accept-turns"}


def test_accept_refusals__nothing_to_accept_and_duplicate_keys(repository: Repository) -> None:
    dims = {"trajectory_single_tool_use": {"threshold": 1.0, "tool_name": "dim"}}
    file = failed_lamp(repository, config={"criteria": dims})
    assert codes(repository) == ["accept-nothing"] * 2
    failed_lamp(repository)
    text = file.read_text("utf-8")
    answer = '"text": "The lamp is off."'
    file.write_text(text.replace(answer, f"{answer}, {answer}"), "utf-8")
    before = file.read_bytes()
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert (done.code, "[accept-patch]" in done.err, file.read_bytes()) == (1, True, before)


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
        done = subprocess.run(
            [*drop, *AGENT_EVAL, *command],
            cwd=repository.root,
            env={**repository.environment(), "CI": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 2 and str(file.name) in printed, printed
        assert "Permission denied" in printed or "it is read-only" in printed
        assert "--output-dir" not in printed
    assert file.read_bytes() == before and sorted(os.listdir(file.parent)) == ["home.test.json", "test_config.json"]


def test_accept_list__hostile_text_is_shown_by_name(repository: Repository) -> None:
    evil = (LAMP[0], [("\x1b[2Jrm", {"\u202ex": "::error::boom"})], "\x1b]0;title\x07::set-output name=x::y")
    failed_lamp(repository, [evil])
    for arguments in (["--list"], ["--dry-run"]):
        done = repository.gate("accept", *arguments)
        assert done.code == 0, done.err
        assert not {"\x1b", "\u202e", "\x07"} & set(done.out + done.err)
        assert "::set-output" not in done.out
    done = repository.gate("accept", "--all", environment={"CI": ""})
    assert done.code == 0, done.err
    assert value(repository.root / FILE)["eval_cases"][0] == case("lamp", evil), "the file has it as it was"
