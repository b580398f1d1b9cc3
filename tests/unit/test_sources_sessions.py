"""Sessions of ADK become eval cases."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from source_samples import ANSWERED, ASKED, CALL, event, session, turn

from agent_eval.core.content import model_message, text_of, user_message
from agent_eval.core.files import MAX_TEXT
from agent_eval.core.invocation import IntermediateData, Invocation, tool_calls
from agent_eval.evalset.models import EvalCase
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.conversation import Place, UnusableConversation, until_last_answer
from agent_eval_workbench.sources.reading import Source, read_source


def read(value: Any, tmp_path: Path, state_scopes: tuple[str, ...] = ()) -> Source:
    path = tmp_path / "source"
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    source = read_source(path, "source", state_scopes)
    assert source is not None
    return source


def cases_of(value: Any, tmp_path: Path, state_scopes: tuple[str, ...] = ()) -> tuple[list[EvalCase], list[str]]:
    """The cases and the codes of the problems."""
    source = read(value, tmp_path, state_scopes)
    cases, problems = eval_cases(source.conversations)
    return cases, [f"{problem.severity}: {problem.code}" for problem in (*source.problems, *problems)]


def texts(case: EvalCase) -> list[tuple[str, str, list[str | None]]]:
    return [
        (
            text_of(turn.user_content),
            text_of(turn.final_response),
            [call.name for call in tool_calls(turn.intermediate_data)],
        )
        for turn in case.conversation or []
    ]


def test_session__becomes_a_case_without_ids_times_and_thoughts(tmp_path: Path) -> None:
    [case], problems = cases_of(session(), tmp_path)
    assert problems == []
    assert case.model_dump(exclude_unset=True) == {
        "eval_id": "turn_off_the_lamp",
        "session_input": {"app_name": "home", "user_id": "u", "state": {"room": "attic"}},
        "conversation": [
            {
                "user_content": {"role": "user", "parts": [{"text": ASKED}]},
                "intermediate_data": {"tool_uses": [CALL]},
                "final_response": {"role": "model", "parts": [{"text": ANSWERED}]},
            }
        ],
    }


def test_session__several_in_a_list_or_in_lines_are_several_cases(tmp_path: Path) -> None:
    sessions = [session(), session(id="s-2"), session(turn(asked="点灯 😀!"), id="s-3")]
    cases, _ = cases_of(sessions, tmp_path)
    assert [case.eval_id for case in cases] == ["turn_off_the_lamp", "turn_off_the_lamp_2", "点灯"]
    assert cases_of("\n".join(map(json.dumps, sessions)) + "\n", tmp_path)[0] == cases


def test_initial_state__has_the_keys_that_no_event_has_changed(tmp_path: Path) -> None:
    events = turn()
    events[2]["actions"] = {"stateDelta": {"lamp": "off"}}
    state = {"room": "attic", "lamp": "off", "temp:x": 1, "app:v": 2, "user:tier": "gold"}
    [case], problems = cases_of(session(events, state=state), tmp_path)
    assert case.session_input is not None
    assert case.session_input.state == {"room": "attic"}
    assert problems == ["notice: source-state-unknown", "notice: source-state-scoped"]
    [case], problems = cases_of(session(events, state=state), tmp_path, state_scopes=("app", "user"))
    assert case.session_input is not None
    assert case.session_input.state == {"room": "attic", "app:v": 2, "user:tier": "gold"}
    assert problems == ["notice: source-state-unknown"]


HELLO = event("user", [{"text": "Hello?"}], "e-0")
NEXT = [
    *turn("e-2", asked="Wrong question"),
    event("user", [], "e-3", content=None, actions={"rewindBeforeInvocationId": "e-2"}),
    event("home", [{"text": "a summary"}], "e-4", actions={"compaction": {"startTimestamp": 1}}),
    event("user", [{"text": "And now?"}], "e-5"),
    event("home", [{"text": "It"}], "e-5", partial=True),
    event("home", [{"text": "It is dark."}], "e-5"),
]
TURN = (ASKED, ANSWERED, ["set_lamp"])


@pytest.mark.parametrize(
    ("events", "kept", "problem"),
    [
        ([*turn(), *NEXT], [TURN, ("And now?", "It is dark.", [])], None),
        ([*turn(), HELLO], [TURN], "notice: source-turn-skipped"),
        ([HELLO, *turn()], None, "warning: source-session-skipped"),
        ([event("user", [{"thought": True, "text": "hm"}]), *turn()[1:]], None, "warning: source-session-skipped"),
        ([event("home", [{"text": "earlier"}], "e-0"), *turn()], [TURN], "warning: source-turn-skipped"),
        ([turn()[0] | {"timestamp": 10**400}, *turn()[1:]], [TURN], None),
    ],
    ids=["partial, rewound", "last has no answer", "first has no answer", "no content", "begins before", "odd time"],
)
def test_turns__of_events(
    events: list[dict[str, Any]], kept: list[Any] | None, problem: str | None, tmp_path: Path
) -> None:
    cases, problems = cases_of([session(events, id="s-0"), session()], tmp_path)
    assert [texts(case) for case in cases] == [*([] if kept is None else [kept]), [TURN]]
    assert problems == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("answers", "kept"), [(["Yes.", ""], 1), (["", "Yes."], 2), (["", None], 0), ([None, "Yes."], 0)]
)
def test_until_last_answer__of_results_recordings_and_traces(answers: list[str | None], kept: int) -> None:
    turns = [
        Invocation(
            user_content=user_message("Well?"),
            final_response=None if answer is None else model_message(answer),
            intermediate_data=IntermediateData(),
        )
        for answer in answers
    ]
    place = Place(file="x.json")
    if not kept:
        with pytest.raises(UnusableConversation, match="answer"):
            until_last_answer(turns, "Run `a`", place)
        return
    left, problems = until_last_answer(turns, "Run `a`", place)
    assert (len(left), len(problems)) == (kept, len(turns) - kept)


def test_turns__an_answer_to_a_tool_call_is_kept(tmp_path: Path) -> None:
    approval = {"functionResponse": {"id": "c-9", "name": "confirm", "response": {"ok": True}}}
    events = [*turn(), event("user", [approval], "e-2"), event("home", [{"text": "Thanks."}], "e-2")]
    [case], problems = cases_of(session(events), tmp_path)
    assert case.conversation is not None
    assert case.conversation[1].user_content.model_dump(exclude_unset=True)["parts"] == [
        {"function_response": {"id": "c-9", "name": "confirm", "response": {"ok": True}}}
    ]
    assert problems == []


def test_parts__data_is_kept_up_to_a_size(tmp_path: Path) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    link = {"fileData": {"fileUri": "gs://bucket/a.png"}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    events = turn()
    events[0]["content"]["parts"] += [image, link, code]
    [case], problems = cases_of(session(events), tmp_path)
    assert case.conversation is not None
    assert len(case.conversation[0].user_content.parts or []) == 3
    assert problems == ["warning: source-file-link", "warning: source-part-skipped"]
    image["inlineData"]["data"] = "QUJD" * 60_000
    cases, problems = cases_of([session(events), session(id="s-2")], tmp_path)
    assert (len(cases), problems) == (1, ["error: source-data-too-large"])


@pytest.mark.parametrize(
    "broken",
    [
        {"content": "text"}, {"content": {"parts": "text"}}, {"content": {"parts": ["text"]}}, {"actions": 3},
        {"content": {"parts": [{"functionCall": 3}]}}, {"content": {"parts": [{"functionCall": {"args": 3}}]}},
        {"invocationId": None}, {"content": {"role": 3, "parts": []}}, {"content": {"parts": [{"text": 3}]}},
    ],
    ids=repr,
)  # fmt: skip
def test_events__malformed_ones_are_reported_with_their_line(broken: dict[str, Any], tmp_path: Path) -> None:
    for position in (0, 1):
        events = turn()
        events[position] |= broken
        source = read(session(events), tmp_path)
        [problem] = source.problems
        assert (problem.severity, problem.code, problem.file) == ("error", "source-session-skipped", "source")
        assert problem.line is not None
        assert source.conversations == ()


@pytest.mark.parametrize(
    "value",
    [{"events": []}, {"eval_set_id": "x", "eval_cases": []}, [], {}, 3, None, [{"query": "x"}], {"criteria": {}}],
)
def test_read_source__leaves_other_files_alone(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert read_source(path, "x.json") is None


def test_read_source__a_session_without_events_is_an_error(tmp_path: Path) -> None:
    for events in ([], [HELLO, *turn()]):
        assert cases_of(session(events), tmp_path) == ([], ["error: source-session-skipped"])
    lines = json.dumps(session()) + "\n{broken\n" + json.dumps({"eval_set_id": "x"}) + "\n"
    assert cases_of(lines, tmp_path) == ([], ["error: not-json", "error: source-malformed"])


@pytest.mark.nightly
def test_read_source__large_json_lines_are_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(session()) + "\n", encoding="utf-8")
    with path.open("r+b") as file:
        file.truncate(4 * MAX_TEXT)  # Sparse: the size alone decides.
    tracemalloc.start()
    try:
        assert read_source(path, "s.jsonl") is None  # The caller reports the size.
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_TEXT
    finally:
        tracemalloc.stop()
