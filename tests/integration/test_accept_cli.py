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
from datetime import UTC, datetime, timedelta
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


def accept(repository: Repository, *arguments: str, code: int = 0) -> str:
    """Accepts as a user of a shell, who has no terminal; what was printed."""
    done = repository.gate("accept", *arguments, environment={"CI": ""})
    assert done.code == code, done.out + done.err
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
    assert "1 case may be accepted, 0 not." in listed
    assert "tool_trajectory_avg_score 0.00 → 1.00" in listed
    assert f"+ {FILE}:lamp · blocks the gate · calls, final\n" in listed

    dry = repository.gate("accept", "--dry-run")
    assert (dry.code, file.read_text("utf-8")) == (0, before)
    done = accept(repository, "--all")
    after = file.read_text("utf-8")
    assert value(file)["eval_cases"] == [case("lamp", FOUND), case("door", DOOR)]
    assert f"{FILE}: 1 case changed" in done
    assert "tool_trajectory_avg_score 0.00 → 1.00" in done
    assert "held to its thresholds" in done

    patched = repository.root / "again.json"
    patched.write_text(before, "utf-8")
    applied = subprocess.run(["patch", str(patched)], input=dry.out, text=True, capture_output=True, check=False)
    assert (applied.returncode, patched.read_text("utf-8")) == (0, after), applied.stdout + applied.stderr

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
    assert lamp(repository) == case("lamp", (LAMP[0], FOUND[1], LAMP[2]))
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
    assert lamp(repository) == case("lamp", other)


def test_accept_all__leaves_out_cases_whose_tools_returned_nothing_or_an_error(repository: Repository) -> None:
    file = write_file(repository.root, case("lamp", LAMP), case("door", LAMP), case("fan", LAMP))
    responses: dict[str, list[dict[str, Any]]] = {"lamp": [{"error": "no data"}], "door": [{"devices": []}]}
    record(repository.root, {name: [[FOUND]] for name in ("lamp", "door", "fan")}, responses=responses)
    assert run(repository).code == 1
    assert codes(repository) == ["accept-tools", "accept-tools"]
    done = accept(repository, "--all", code=1)
    assert value(file)["eval_cases"] == [case("lamp", LAMP), case("door", LAMP), case("fan", FOUND)]
    assert "`lamp` needs a look: a tool returned an error in turn 1." in done
    assert "`door` needs a look: a tool returned nothing in turn 1." in done
    assert "accept it on a terminal or with --run 1." in done
    accept(repository, "--all", "--run", "1", f"{FILE}:lamp")
    assert lamp(repository) == case("lamp", FOUND)


def test_accept_calls__common_ones_if_others_may_come_between(repository: Repository) -> None:
    config = {"criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}}
    first, second = (LAMP[0], [FIND, ("log", {})], "a"), (LAMP[0], [("log", {}), FIND, ("log", {})], "b")
    failed_lamp(repository, [first], [second], config=config)
    assert "2 of 2 runs pass" in accept(repository, "--all")
    assert codes(repository) == ["accept-done"]
    assert lamp(repository) == case("lamp", (LAMP[0], [FIND, ("log", {})], LAMP[2]))
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
    assert lamp(repository) == case("lamp", FOUND)
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
    cases = [case(name, LAMP) for name in ("masked", "crashed", "long", "both")]
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
        done = subprocess.run(
            [*drop, *AGENT_EVAL, *command],
            cwd=repository.root,
            env={**repository.environment(), "CI": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 2 and str(file.name) in done.stdout, done.stdout
        assert "Permission denied" in done.stdout or "it is read-only" in done.stdout
        assert "--output-dir" not in done.stdout
    assert file.read_bytes() == before and sorted(os.listdir(file.parent)) == ["home.test.json", "test_config.json"]


def test_accept_list__hostile_text_is_shown_by_name(repository: Repository) -> None:
    evil = (LAMP[0], [("\x1b[2Jrm", {"\u202ex": "::error::boom"})], "\x1b]0;title\x07::set-output name=x::y")
    failed_lamp(repository, [evil])
    for argument in ("--list", "--dry-run"):
        shown = accept(repository, argument)
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)
        assert "::set-output" not in shown
    accept(repository, "--all")
    assert lamp(repository) == case("lamp", evil), "the file has it as it was"
