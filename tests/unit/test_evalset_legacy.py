"""ADK's older forms, in memory and migrated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import LEGACY_EVALS, LEGACY_TURNS, TURN, codes, load, write

from agent_eval.core.content import text_of
from agent_eval.core.invocation import IntermediateData, tool_calls
from agent_eval.core.problem import Severity
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import EvalSet, LoadedFile, Suite
from agent_eval_workbench.commands.migrate import migrate
from agent_eval_workbench.recording.target import stem


def only_file(suite: Suite) -> LoadedFile:
    assert not suite.errors, suite.errors
    (file,) = suite.files
    return file


def test_convert__list_of_turns(tmp_path: Path) -> None:
    for folder in ("evals", "other"):
        write(tmp_path / folder / "old.test.json", LEGACY_TURNS)
    suite = load_suite(tmp_path, ["evals"])
    file = only_file(suite)
    assert file.legacy
    assert [(problem.code, problem.severity) for problem in suite.problems] == [("legacy-format", Severity.NOTICE)]
    (selected,) = file.cases
    assert selected.eval_id == "evals/old.test.json"
    assert selected.session_input is None
    assert file.lines == {selected.eval_id: 1}
    first, second = selected.conversation or []
    assert (text_of(first.user_content), first.user_content.role) == ("Turn on the lamp", "user")
    assert (text_of(first.final_response), text_of(second.final_response)) == ("Done.", "You are welcome.")
    assert [(call.name, call.args) for call in tool_calls(first.intermediate_data)] == [("set", {"on": True})]
    assert isinstance(first.intermediate_data, IntermediateData)
    assert [(author, parts[0].text) for author, parts in first.intermediate_data.intermediate_responses] == [
        ("helper", "one moment")
    ]
    assert tool_calls(second.intermediate_data) == []
    other = only_file(load_suite(tmp_path, ["other"])).cases[0].conversation or []
    assert [turn.invocation_id for turn in other] == [first.invocation_id, second.invocation_id], "of the content only"
    assert first.invocation_id != second.invocation_id


def test_convert__list_of_evals(tmp_path: Path) -> None:
    write(tmp_path / "old.evalset.json", LEGACY_EVALS)
    file = only_file(load_suite(tmp_path))
    assert file.eval_set.eval_set_id == "old.evalset.json"
    sessions = {
        selected.eval_id: selected.session_input and selected.session_input.model_dump() for selected in file.cases
    }
    assert sessions == {
        "lamp": {"app_name": "home", "user_id": "u", "session_id": None, "state": {"a": 1}},
        "thanks": None,
        "plain": None,
        "half": {"app_name": "", "user_id": "", "session_id": None, "state": {"b": 2}},
    }
    text = (tmp_path / "old.evalset.json").read_text()
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line == "  {"]
    assert [file.lines[case.eval_id] for case in file.cases] == lines


def test_convert__initial_session(tmp_path: Path) -> None:
    session = write(tmp_path / "session.json", {"app_name": "home", "state": {"a": 1}})
    load(tmp_path, old=LEGACY_TURNS)
    (selected,) = only_file(load_suite(tmp_path, initial_session=Path("session.json"))).cases
    made = {"app_name": "home", "user_id": "", "session_id": None, "state": {"a": 1}}
    assert selected.session_input is not None
    assert selected.session_input.model_dump() == made
    load(tmp_path, old=LEGACY_EVALS)
    assert codes(load_suite(tmp_path, initial_session=session).problems) == ["legacy-format", "initial-session-unused"]
    write(session, {"state": []})
    suite = load_suite(tmp_path, initial_session=session)
    assert [(error.code, error.file) for error in suite.errors] == [("wrong-type", "session.json")]


@pytest.mark.parametrize(
    ("value", "code", "path", "says"),
    [
        ([{"query": 456}], "wrong-type", "[0].query", "the number 456"),
        ([{"query": "a"}, {"reference": "b"}], "missing-field", "[1]", "`query` of a turn"),
        ([{"query": "a", "reference": None}], "wrong-type", "[0].reference", "null"),
        ([{"query": "a", "expected_tool_use": [{"tool_name": "x"}]}], "missing-field", "[0].expected_tool_use[0]",
         "`tool_input`"),
        ([{"data": []}], "missing-field", "[0]", "`name`"),
        ([{"name": "n", "data": [{"query": []}]}], "wrong-type", "[0].data[0].query", "a list"),
        ([{"name": "n", "data": []}], "empty-conversation", "[0].data", "no turns"),
        ([LEGACY_EVALS[0], LEGACY_EVALS[0]], "duplicate-eval-id", "[1].name", "line 2"),
        ([{"query": "a"}], "needs-reference", None, "ADK's default criteria"),
        ([LEGACY_TURNS[0], {"query": "x"}], "turn-without-reference", "[1]", ""),
        ({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [TURN | {"query": "a"}]}]}, "unknown-key",
         "eval_cases[0].conversation[0].query", ""),  # the current format, and wrong
    ],
)  # fmt: skip
def test_convert__problems_point_into_the_file(
    value: Any, code: str, path: str | None, says: str, tmp_path: Path
) -> None:
    (problem,) = [found for found in load(tmp_path, old=value).problems if found.code != "legacy-format"]
    assert (problem.code, problem.path) == (code, path)
    assert says in f"{problem.message} {problem.hint}"
    assert problem.line is not None


def test_migrate__list_of_turns(tmp_path: Path) -> None:
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    session = write(tmp_path / "session.json", {"app_name": "home", "user_id": "u", "state": {"name": "Zoë"}})
    new = tmp_path / "new" / "lamp.evalset.json"
    assert migrate(old, new, initial_session=session) == []
    text = new.read_text(encoding="utf-8")
    assert "Zoë" in text
    migrated = EvalSet.model_validate(json.loads(text))
    assert migrated.eval_set_id == "lamp"
    assert [case.eval_id for case in migrated.eval_cases] == ["old"]
    before = only_file(load_suite(tmp_path, ["old.test.json"], initial_session=session)).cases[0]
    after = only_file(load_suite(tmp_path, ["new"])).cases[0]
    assert after.conversation == before.conversation
    assert after.session_input == before.session_input


def test_migrate__set_id_that_another_file_has(tmp_path: Path) -> None:
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    write(tmp_path / "agent_a" / "new.test.json", {"eval_set_id": "new", "eval_cases": []})
    new = tmp_path / "agent_b" / "new.evalset.json"
    new.parent.mkdir()
    [problem] = migrate(old, new, root=tmp_path)
    assert (problem.severity, problem.code) == (Severity.NOTICE, "eval-set-id-taken")
    assert "`agent_a/new.test.json` has the id `new`" in problem.message
    assert json.loads(new.read_text(encoding="utf-8"))["eval_set_id"] == "new_agent_b"
    # Written once more it is no other file.
    other = tmp_path / "agent_a" / "new.test.json"
    other.unlink()
    assert migrate(old, new, root=tmp_path) == []
    assert json.loads(new.read_text(encoding="utf-8"))["eval_set_id"] == "new"


def test_migrate__list_of_evals_in_place(tmp_path: Path) -> None:
    file = write(tmp_path / "old.evalset.json", LEGACY_EVALS)
    before = only_file(load_suite(tmp_path)).cases
    file.chmod(0o640)
    assert migrate(file, file) == []
    after = only_file(load_suite(tmp_path))
    assert not after.legacy
    assert after.cases == before
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["old.evalset.json"]


def test_migrate__rejects_current_and_invalid_files(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    present = write(tmp_path / "present.test.json", {"eval_set_id": "s", "eval_cases": []})
    assert codes(migrate(present, new)) == ["not-legacy"]
    assert codes(migrate(tmp_path / "none.json", new)) == ["unreadable-file"]
    assert codes(migrate(write(tmp_path / "bad.test.json", [{"query": 1}]), new)) == ["wrong-type"]
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    assert codes(migrate(old, new, initial_session=tmp_path / "none.json")) == ["unreadable-file"]
    assert codes(migrate(old, old / "below" / "new.json")) == ["unwritable-file"]
    assert not new.exists()
    evals = write(tmp_path / "evals.json", LEGACY_EVALS)
    assert codes(migrate(evals, new, initial_session=write(tmp_path / "s.json", {}))) == ["initial-session-unused"]
    assert new.exists()


def test_migrate__comments_and_trailing_commas_are_dropped(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    old = tmp_path / "old.json"
    for text, expected in (
        (
            '{"eval_set_id": "s", "mine": 1, // id\n"eval_cases": [],}',
            {"eval_set_id": "s", "mine": 1, "eval_cases": []},
        ),
        ('{"criteria": {"x": 1.0,},} # config', {"criteria": {"x": 1.0}}),
    ):
        old.write_text(text, encoding="utf-8")
        assert "json-cleaned" in codes(migrate(old, new))
        assert json.loads(new.read_text(encoding="utf-8")) == expected
    old.write_text(f"/* old */ {json.dumps(LEGACY_TURNS)[:-1]},]", encoding="utf-8")
    assert codes(migrate(old, new)) == ["json-cleaned"]
    assert [case["eval_id"] for case in json.loads(new.read_text(encoding="utf-8"))["eval_cases"]] == ["old"]
    new.unlink()
    old.write_text('{"eval_set_id": 1, "eval_cases": [],}', encoding="utf-8")
    assert "wrong-type" in codes(migrate(old, new))
    assert not new.exists()


def test_stem__suffixes() -> None:
    names = ("a.test.json", "b.evalset.json", "c.d.json", "e", ".test.json")
    assert [stem(Path(name)) for name in names] == ["a", "b", "c.d", "e", ".test"]
