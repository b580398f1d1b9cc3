"""Sessions, results and traces become cases; whatever they hold."""

from __future__ import annotations

import json
import pickle
import random
import sqlite3
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from source_samples import (
    ANSWERED,
    ASKED,
    CALL,
    SPEC,
    adk_result,
    conformance_tests,
    event,
    messages,
    otel_span,
    otel_turn,
    otlp,
    session,
    session_database,
    turn,
    veadk_trace,
)
from test_fuzzed_inputs import INPUTS, SEED, mutated

from agent_eval.agents.recorded import check_recording
from agent_eval.core.content import model_message, text_of, user_message
from agent_eval.core.files import MAX_TEXT
from agent_eval.core.invocation import IntermediateData, Invocation, tool_calls
from agent_eval.core.problem import has_error
from agent_eval.evalset.json import eval_set_text, write_text
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models import EvalCase, EvalSet
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.conformance import LARGEST
from agent_eval_workbench.sources.conversation import Place, UnusableConversation, until_last_answer
from agent_eval_workbench.sources.reading import Source, read_source

# Sessions of ADK, its session databases (old, locked, damaged or made to do harm) and traces become eval cases.


def read(value: Any, tmp_path: Path, state_scopes: tuple[str, ...] = ()) -> Source:
    """Of a file that exists, of a text, or of a value as JSON."""
    path = value if isinstance(value, Path) else tmp_path / "source"
    if path is not value:
        path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    source = read_source(path, path.name, state_scopes)
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
    assert (len(cases), problems) == (1, ["warning: source-data-too-large"])
    assert cases_of(session(events), tmp_path) == ([], ["error: source-data-too-large"])


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


def test_database__has_a_case_for_each_session(tmp_path: Path) -> None:
    agent = tmp_path / "home"
    (agent / ".adk").mkdir(parents=True)
    second = session(turn("e-9", asked="And now?"), id="s-2")
    path = session_database(agent / ".adk" / "session.db", [session(), second])
    before = path.read_bytes()
    source = read(agent, tmp_path)
    cases, _ = eval_cases(source.conversations)
    assert [texts(case) for case in cases] == [[TURN], [("And now?", ANSWERED, ["set_lamp"])]]
    assert [case.session_input.state for case in cases if case.session_input] == [{"room": "attic"}] * 2
    assert source.problems[0].file == "home/.adk/session.db"
    with_user = read(agent, tmp_path, ("user",))
    assert with_user.conversations[1].state == {"room": "attic", "user:tier": "gold"}
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["session.db"]


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_database__old_schema_is_refused_without_unpickling(tmp_path: Path) -> None:
    path, burnt = tmp_path / "old.db", tmp_path / "burnt"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE sessions (app_name, user_id, id, state, create_time, update_time);"
            "CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, author, actions BLOB, "
            "timestamp DATETIME, content TEXT);"
            "INSERT INTO sessions VALUES ('home', 'u', 's-1', '{}', '2025-01-01', '2025-01-01');"
        )
        content = '{"role": "user", "parts": [{"text": "Hi"}]}'
        row = ("home", "u", "s-1", "e-1", "user", pickle.dumps(Bomb(burnt)), "2025-01-01 10:00:00.5", content)
        connection.execute("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    [problem] = read(path, tmp_path).problems
    assert (problem.severity, problem.code) == ("error", "source-unreadable")
    assert "`adk migrate session` converts it" in problem.message
    assert not burnt.exists()


@pytest.mark.parametrize("value", ["{broken", "[]", None, b"\xff", "[" * 5_000])
def test_database__a_malformed_row_is_named(value: str | bytes | None, tmp_path: Path) -> None:
    path = session_database(tmp_path / "s.db", [session(), session(id="s-2")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET event_data = ? WHERE id = '0-2'", (value,))
    connection.close()
    source = read(path, tmp_path)
    skipped = [problem for problem in source.problems if problem.code == "source-session-skipped"]
    assert len(source.conversations) == 1
    assert skipped[0].message.startswith("Row 3 of the table `events`: `event_data` is not")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE other (x)",
        "CREATE VIEW sessions AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "CREATE TABLE sessions (app_name, user_id, id, state, create_time); CREATE TABLE events (id)",
    ],
    ids=["other tables", "endless view", "other columns"],
)
def test_database__without_adks_tables_damaged_or_locked_is_an_error(script: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    assert cases_of(path, tmp_path) == ([], ["error: source-unreadable"])
    path = session_database(tmp_path / "s.db", [session()])
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    assert "Another process is writing to it" in read(path, tmp_path).problems[0].message
    writer.close()
    data = path.read_bytes()
    for size in (20, 120, len(data) // 2):
        path.write_bytes(data[:size])
        assert [problem.severity for problem in read(path, tmp_path).problems] == ["error"]


TALKS = {
    "s-1": [("Weather in Beijing", "Sunny."), ("And in Paris", "Rain."), ("And in Rome", "Warm.")],
    "s-2": [("Weather in Oslo", "Snow.")],
}
WEATHER = [[(asked, answered, ["get_weather"]) for asked, answered in turns] for turns in TALKS.values()]


@pytest.mark.parametrize("root", [True, False])
def test_veadk__two_sessions_in_one_file_are_two_cases(root: bool, tmp_path: Path) -> None:
    spans = veadk_trace(TALKS, root=root)
    cases, problems = cases_of(spans, tmp_path)
    assert problems == []
    assert [texts(case) for case in cases] == WEATHER
    assert [call.args for turn in cases[0].conversation or [] for call in turn.intermediate_data.tool_uses] == [  # type: ignore[union-attr]
        {"city": "Beijing"}, {"city": "Paris"}, {"city": "Rome"},
    ]  # fmt: skip
    assert cases[0].session_input is not None
    assert (cases[0].session_input.app_name, cases[0].session_input.user_id) == ("weather", "u")
    assert cases_of(list(reversed(spans)), tmp_path)[0] == cases, "the order of the spans does not matter"


def test_otlp__sessions_are_distinguished_and_turns_are_ordered_by_time(tmp_path: Path) -> None:
    later, earlier = otel_turn("t1", "a", 2_000), otel_turn("t2", "a", 1_000)
    later[-2]["attributes"]["gen_ai.output.messages"] = messages("assistant", "Later.")
    cases, _ = cases_of(otlp(*later, *earlier, *otel_turn("t3", "b", 3_000)), tmp_path)
    assert [texts(case) for case in cases] == [[TURN, (ASKED, "Later.", ["set_lamp"])], [TURN]]
    lines = "\n".join(json.dumps(otlp(span)) for span in (*later, *earlier))
    assert [texts(case) for case in cases_of(lines, tmp_path)[0]] == [[TURN, (ASKED, "Later.", ["set_lamp"])]]


def test_otlp__turns_below_the_span_of_a_server(tmp_path: Path) -> None:
    first, second = otel_turn("t1", start=10), otel_turn("t2", start=2_000)
    for span in (*first, *second):
        span["traceId"] = "t0"
        span.setdefault("parentSpanId", "server")
    server = otel_span("POST /chat", "server", None, 1, "t0")
    other = otel_span("GET /health", "h", None, 1, "t9")
    [case], problems = cases_of(otlp(server, other, *first, *second), tmp_path)
    assert (texts(case), problems) == ([TURN, TURN], [])
    assert case.session_input is None, "a trace has no initial state"
    loop = [otel_span("a", "1", "2", 1, session_id="s"), otel_span("b", "2", "1", 2)]
    assert cases_of(otlp(*loop), tmp_path)[1] == ["error: source-session-skipped"]


def test_otlp__spans_whose_parents_are_missing_belong_to_the_only_turn(tmp_path: Path) -> None:
    spans = [span for span in otel_turn() if span["spanId"] != "t1-2"]
    spans.append(otel_span("generate_content m", "t1-8", "gone", 2, gen__ai_input_messages=messages("user", ASKED)))
    [case], _ = cases_of(otlp(*spans), tmp_path)
    assert texts(case) == [TURN]
    [case], _ = cases_of(otlp(*spans[:-2], spans[-1]), tmp_path)
    assert texts(case) == [TURN], "nor is the root needed"


def test_traces__adk_older_schema(tmp_path: Path) -> None:
    contents = [{"role": "user", "parts": [{"text": ASKED}]}]
    response = {"content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": ANSWERED}]}}
    spans = [
        otel_span("execute_tool set_lamp", "3", "2", 3, gcp_vertex_agent_llm__request={}, gen__ai_tool_name="set_lamp",
                  gcp_vertex_agent_tool__call__args={"on": False}),
        otel_span("call_llm", "2", "1", 2, gcp_vertex_agent_llm__request={"contents": contents},
                  gcp_vertex_agent_session__id="s-1", gcp_vertex_agent_llm__response=response),
        otel_span("invocation", "1", None, 1),
    ]  # fmt: skip
    [case], problems = cases_of(otlp(*spans), tmp_path)
    assert (texts(case), problems) == ([TURN], [])
    spans[1]["attributes"]["gcp.vertex.agent.llm_request"] = {}
    source = read(otlp(*spans), tmp_path)
    assert "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS" in str(source.problems[0].hint)


def test_otlp__without_recorded_contents_the_switch_is_named(tmp_path: Path) -> None:
    for missing in ("messages", "arguments"):
        spans = otel_turn()
        for span in spans:
            span["attributes"] = {key: item for key, item in span["attributes"].items() if missing not in key}
        source = read(otlp(*spans), tmp_path)
        [problem] = source.problems
        assert (problem.severity, problem.code, source.conversations) == ("error", "source-session-skipped", ())
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in str(problem.hint)
    spans = otel_turn()
    spans[2]["attributes"]["gen_ai.tool.call.arguments"] = '{"on": fal'
    problem = read(otlp(*spans), tmp_path).problems[0]
    assert "`gen_ai.tool.call.arguments` is not JSON" in problem.message
    assert "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" in str(problem.hint), "a shortened attribute"


def test_otlp__turns_without_a_session_id_are_not_merged(tmp_path: Path) -> None:
    spans = otel_turn("t2", start=500)
    for span in spans:
        span["attributes"].pop("gen_ai.conversation.id", None)
    cases, problems = cases_of(otlp(*otel_turn(), *spans), tmp_path)
    assert [texts(case) for case in cases] == [[TURN]]
    assert problems == ["warning: source-turn-skipped"]


@pytest.mark.parametrize(
    "broken",
    [
        {"name": 3},
        {"spanId": ""},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": 10**400},
        {"attributes": 3},
        {"traceId": []},
    ],
    ids=repr,
)
def test_otlp__a_malformed_span_is_reported_with_its_line(broken: dict[str, Any], tmp_path: Path) -> None:
    value = otlp(*otel_turn())
    value["resourceSpans"][0]["scopeSpans"][0]["spans"][1] |= broken
    source = read(value, tmp_path)
    [problem] = source.problems
    assert (problem.severity, problem.code) == ("error", "source-malformed")
    assert problem.line is not None
    assert problem.line > 10


# Mutated sources: an error with a place or a valid eval set, never an exception.


SOURCES = {
    "session.json": json.dumps(session([*turn("e-1"), *turn("e-2")])),
    "sessions.jsonl": "\n".join(json.dumps(session(id=name)) for name in ("a", "b")) + "\n",
    "otlp.json": json.dumps(otlp(*otel_turn(), *otel_turn("t2", start=900))),
    "veadk.json": json.dumps(veadk_trace({"s-1": [("In Rome", "Warm."), ("In Oslo", "Cold.")]})),
    "x.evalset_result.json": json.dumps(adk_result(session_details=session())),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources__mutated_files(name: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name}")
    old, new = tmp_path / name, tmp_path / "new" / "n.evalset.json"
    for number in range(INPUTS // 2):
        old.write_bytes(mutated(SOURCES[name], chance))
        check(old, new, f"seed {SEED}, input {number}")
        if name.endswith("result.json"):
            check_recording("recorded:x", old, [])


def check(old: Path, new: Path, which: str) -> None:
    source = read_source(old, old.as_posix())
    if source is None:
        return
    cases, problems = eval_cases(source.conversations)
    problems = [*source.problems, *problems]
    if cases and not has_error(problems):
        write_text(new, eval_set_text(EvalSet(eval_set_id="n", eval_cases=cases)))
        codes = {problem.code for problem in load_suite(new.parent).errors}
        assert codes <= {"needs-reference"}, which  # An answer without text, scored by ADK's default criteria.
        new.unlink()
    for problem in problems:
        assert problem.file, which


def test_sources__mutated_databases(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = session_database(tmp_path / "s.db", [session(), session(id="s-2")])
    data = path.read_bytes()
    old, new = tmp_path / "old.db", tmp_path / "new" / "n.evalset.json"
    for number in range(INPUTS // 4):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 4, 60))):
            changed[chance.randrange(16, len(changed))] = chance.randrange(256)
        old.write_bytes(changed)
        check(old, new, f"seed {SEED}, input {number}")
    for number in range(INPUTS // 4):
        old.write_bytes(data)
        with sqlite3.connect(old) as connection:
            column, table = chance.choice((("event_data", "events"), ("state", "sessions"), ("id", "sessions")))
            [(text,)] = connection.execute(f"SELECT {column} FROM {table} LIMIT 1 OFFSET {chance.randrange(2)}")
            value = mutated(str(text), chance)
            stored = value.decode("utf-8", "replace") if chance.random() < 0.7 else value
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (stored, text))
        connection.close()
        check(old, new, f"seed {SEED}, row {number}")


def test_conformance__texts_are_those_that_adk_wrote(tmp_path: Path) -> None:
    cases, problems = cases_of(conformance_tests(tmp_path), tmp_path)
    assert problems == []
    assert [case.eval_id for case in cases] == ["fine", "lamp"]
    assert texts(cases[0]) == [("y", "1.5e3", ["set"]), ("1e3", "It's\ndone.", [])]
    [call] = tool_calls((cases[0].conversation or [])[0].intermediate_data)
    session = cases[0].session_input
    assert session is not None
    assert (call.args, session.app_name, session.user_id) == ({"to": "n"}, "home", "adk_conformance_test_user")
    assert session.state == {"alarm": "7:30", "today": "2026-01-01", "on": True, "tier": "gold"}


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nuser_messages: [{text: *b}]"


@pytest.mark.parametrize(
    ("files", "place", "message"),
    [
        ({"generated-session": ""}, "spec.yaml", "There is no recorded session"),
        ({"generated-session": "id: s-1\nevents: 3"}, "generated-session.yaml", "It is not a session"),
        ({"generated-session": "events: [3]\nid: s"}, "generated-session.yaml", "An event is not an object."),
        ({"spec": SPEC.replace("1e3", "1e4")}, "spec.yaml", "Its messages are not those that were recorded."),
        ({"spec": "agent: home"}, "spec.yaml", "`user_messages`: Field required"),
        ({"spec": "[]"}, "spec.yaml", "The specification is malformed"),
        ({"spec": SPEC.replace("- text: 'y'", "- text: [y]")}, "spec.yaml", "`user_messages.0.text`"),
        ({"spec": "a: 1\nb: ["}, "spec.yaml:2", "It is not YAML"),
        ({"spec": BOMB}, "spec.yaml:1", "anchors and aliases are not read"),
        ({"spec": "a: !!python/object/apply:os.system [id]"}, "spec.yaml:1", "could not determine a constructor"),
        ({"spec": "a: !!binary aGk="}, "spec.yaml", "It has a value that JSON can't have"),
        ({"spec": "a: .nan"}, "spec.yaml", "It has a value that JSON can't have"),
        ({"spec": "[" * 100_000}, "spec.yaml", "It has a value that JSON can't have"),
        ({"spec": '"\\ud800"'}, "spec.yaml", "It has a value that JSON can't have"),
        ({"spec": SPEC + "#" * LARGEST}, "spec.yaml", "It is larger than 10 MB"),
    ],
)
def test_conformance__one_unusable_case_is_named_and_the_others_are_read(
    files: dict[str, str], place: str, message: str, tmp_path: Path
) -> None:
    source = read(conformance_tests(tmp_path / "tests", **files), tmp_path)
    [problem] = source.problems
    assert (problem.severity, problem.code) == ("warning", "source-session-skipped")
    assert problem.location == f"tests/core/lamp/{place}"
    assert message in problem.message
    assert [conversation.eval_id for conversation in source.conversations] == ["fine"]
    [alone] = read(tmp_path / "tests" / "core" / "lamp", tmp_path).problems
    assert (alone.severity, alone.message) == ("error", problem.message)


def test_conformance__state_that_a_case_cant_have(tmp_path: Path) -> None:
    spec = SPEC + "  state_delta: {tier: silver}\n"
    cases, problems = cases_of(conformance_tests(tmp_path, spec=spec), tmp_path)
    assert (len(cases), problems) == (2, ["warning: source-state-unknown"])


def test_conformance__without_the_package_for_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    source = read(conformance_tests(tmp_path), tmp_path)
    assert [(problem.severity, problem.code) for problem in source.problems] == [("error", "source-unreadable")]
    assert "agent-eval-action[yaml]" in str(source.problems[0].hint)


@pytest.mark.parametrize("name", ["spec", "generated-session"])
def test_sources__mutated_yaml(name: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name}")
    folder = conformance_tests(tmp_path / "tests")
    path, new = folder / "core" / "lamp" / f"{name}.yaml", tmp_path / "new" / "n.evalset.json"
    text = path.read_text("utf-8")
    for number in range(INPUTS // 4):
        path.write_bytes(mutated(text, chance))
        check(folder, new, f"seed {SEED}, input {number}")
