"""Parts of `agent-eval record` without an agent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_samples import actual, called, turn

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import InvocationEvents, tool_calls, tool_responses
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.evalset.parse.config import default_config
from agent_eval_workbench.recording.live import Take
from agent_eval_workbench.recording.new_cases import most_typical_take, personal_data, seemingly_random
from agent_eval_workbench.recording.stored import StoredRequest, read_messages, read_stored
from agent_eval_workbench.recording.target import Refused, split_name
from agent_eval_workbench.sources.cases import CaseForm, expected_turn


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Write to mina@example.org, or to mina@example.org.", "1 e-mail address"),
        ("a@b.example and c@d.example", "2 e-mail addresses"),
        ("Call +49 30 1234567 or 030/1234567", "2 phone numbers"),
        ("My card is 4111 1111 1111 1111.", "1 card number"),
        ("(555) 010-9999 is the number, 555-010-9999", "2 phone numbers"),
        ("2026-11-22, 22.11.2026, 19:30, 3.14159265358979, 18 °C", None),
        ("Order 4711, device_12345678, 1234567890123 bytes, 12,345,678", None),
        ("f47ac10b-58cc-4372-a567-0e02b2c3d479 and 192.168.100.200", None),
        ("me@localhost, @mina, a@b", None),
    ],
)
def test_personal_data__what_looks_like_it(text: str, counts: str | None) -> None:
    case = EvalCase(eval_id="a", conversation=[turn(text)])
    problems = personal_data([case], "a.evalset.json")
    assert [problem.message.partition("(turn 1, message: ")[2].removesuffix(").") for problem in problems] == (
        [counts] if counts else []
    )


def test_final_state__is_looked_through_as_the_turns_are() -> None:
    """`--expect state` writes it."""
    final = {"user:mail": "mina@example.org", "order": "A7F3K9"}
    case = EvalCase(eval_id="a", conversation=[turn("go")], final_session_state=final)
    assert [problem.message.partition(" (")[2] for problem in personal_data([case], "a")] == [
        "final state: 1 e-mail address)."
    ]
    assert seemingly_random(case) == {"A7F3K9"}


@pytest.mark.parametrize("case", [None, [], {"session_input": ["a"]}, {"session_input": 1}])
def test_read_stored__a_line_of_a_case_that_is_malformed(case: Any, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl.gz").write_bytes(gzip.compress(json.dumps({"case_id": "a", "case": case}).encode()))
    with pytest.raises(Refused, match=r"cases\.jsonl\.gz` can't be read"):
        read_stored(tmp_path, "results", StoredRequest())


@pytest.mark.parametrize(
    ("name", "codes"), [("broken.json", ["record-source", "json-truncated"]), ("x.txt", ["record-source"])]
)
def test_read_stored__json_that_is_broken_says_where(name: str, codes: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"id": "s",\n "events": [')
    with pytest.raises(Refused) as refused:
        read_stored(tmp_path / name, name, StoredRequest())
    assert [problem.code for problem in refused.value.problems] == codes
    assert refused.value.problems[-1].line == (2 if codes[1:] else None)


def test_read_messages__a_line_each() -> None:
    data = "a\u2028b\x0cc\r\n\n d\re".encode()
    assert [text_of(message) for message in read_messages("-", lambda: data)] == ["a\u2028b\x0cc", " d", "e"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_split_name__file_and_id(folder: str, eval_id: str) -> None:
    for suffix in (".test.json", ".evalset.json"):
        file = f"{folder.replace('.json:', '')}x{suffix}"
        assert split_name(file) == (file, "")
        assert split_name(f"{file}:{eval_id}") == (file, eval_id)


def test_most_typical_take__agrees_most_with_the_others() -> None:
    takes = [
        Take(turns=[turn("go", answer, *calls)], calls_visible=True)
        for answer, calls in (("one two", ("a",)), ("one two three", ("b",)), ("one two three", ("b",)), ("x", ("c",)))
    ]
    case = EvalCase(eval_id="a", conversation=[turn("go")])
    assert most_typical_take(case, takes, default_config()) == (1, 2)
    assert most_typical_take(case, takes[:1], default_config()) == (0, 1)


@pytest.mark.parametrize("form", ["flat", "events"])
def test_expected_turn__has_what_is_expected_and_no_ids(form: str) -> None:
    every = frozenset({"calls", "final", "responses", "intermediate"})
    calls = [part for number in "12" for part in called(f"f{number}", {"n": number}, id=f"c{number}", n=number)]
    for expect in (every, every - {"responses"}, every - {"calls"}, frozenset({"calls", "final"}), frozenset[str]()):
        case_form = CaseForm(expect=expect, form="flat" if form == "flat" else "events")
        made = expected_turn(actual("hi", "bye", *calls), case_form)
        assert len(tool_calls(made.intermediate_data)) == (2 if "calls" in expect else 0)
        assert len(tool_responses(made.intermediate_data)) == (2 if "responses" in expect else 0)
        assert (made.final_response is None) == ("final" not in expect)
        text = made.model_dump_json(exclude_none=True)
        assert '"id"' not in text and 'invocation_id":"e' not in text
        if made.intermediate_data is not None:
            assert isinstance(made.intermediate_data, InvocationEvents) == (form == "events")
