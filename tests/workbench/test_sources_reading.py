"""Sessions, results and traces become cases; whatever they hold."""

from __future__ import annotations

import json
import pickle
import random
import re
import sqlite3
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden_files import check
from source_samples import (
    ANSWERED,
    ASKED,
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

from agent_eval_agents.recorded import check_recording
from agent_eval_scoring.core.content import model_message, text_of, user_message
from agent_eval_scoring.core.files import MAX_TEXT
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.problem import has_error
from agent_eval_scoring.evalset.json import eval_set_text, write_text
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import EvalSet
from agent_eval_scoring.evalset.problem_texts import render_text
from agent_eval_workbench.sources.cases import CaseForm, eval_cases
from agent_eval_workbench.sources.conformance import LARGEST
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


def told(source: Source) -> str:
    """The cases that a source becomes, with a line for each turn, and what is said of the rest."""
    cases, problems = eval_cases(source.conversations)
    lines = []
    for case in cases:
        begun = case.session_input.model_dump_json(exclude_none=True) if case.session_input else "no session input"
        lines.append(f"{case.eval_id}: {begun}\n")
        for invocation in case.conversation or ():
            dumped = invocation.model_dump(mode="json", exclude_unset=True)
            lines.append(f"  {json.dumps(dumped, ensure_ascii=False)}\n")
    return "".join(lines) + render_text([*source.problems, *problems])


def asked_with(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    events = turn()
    events[0]["content"]["parts"] += parts
    return events


def with_event(position: int, changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a turn, one of them changed."""
    events = turn()
    events[position] |= changes
    return events


def changed(spans: list[dict[str, Any]], at: int, attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Spans, one of them with other attributes; those that are None are removed."""
    spans[at]["attributes"] |= attributes
    spans[at]["attributes"] = {key: item for key, item in spans[at]["attributes"].items() if item is not None}
    return spans


def lacking(spans: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """Spans without the attributes whose name has this part."""
    for span in spans:
        span["attributes"] = {key: item for key, item in span["attributes"].items() if part not in key}
    return spans


def below_a_server(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"parentSpanId": "server", **span, "traceId": "t0"} for span in spans]


def broken_span(changes: dict[str, Any]) -> dict[str, Any]:
    value = otlp(*otel_turn())
    value["resourceSpans"][0]["scopeSpans"][0]["spans"][1] |= changes
    return value


def result_of(*answers: str | None) -> dict[str, Any]:
    """A result of ADK with a turn for each answer; None is none."""
    result = adk_result()
    [turns] = [case["eval_metric_result_per_invocation"] for case in result["eval_case_results"]]
    [invocation] = [turn.pop("actual_invocation") for turn in turns]
    said = [answer if answer is None else {"parts": [{"text": answer}]} for answer in answers]
    turns[:] = [{**turns[0], "actual_invocation": {**invocation, "final_response": each}} for each in said]
    return result


def in_lines(*values: Any) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


HELLO = event("user", [{"text": "Hello?"}], "e-0")
NEXT = [
    *turn("e-2", asked="Wrong question"),
    event("user", [], "e-3", content=None, actions={"rewindBeforeInvocationId": "e-2"}),
    event("home", [{"text": "a summary"}], "e-4", actions={"compaction": {"startTimestamp": 1}}),
    event("user", [{"text": "And now?"}], "e-5"),
    event("home", [{"text": "It"}], "e-5", partial=True),
    event("home", [{"text": "It is dark."}], "e-5"),
]
SESSIONS = [session(), session(id="s-2"), session(turn(asked="点灯 😀!"), id="s-3")]
STATE = {"room": "attic", "lamp": "off", "temp:x": 1, "app:v": 2, "user:tier": "gold"}
APPROVAL = {"functionResponse": {"id": "c-9", "name": "confirm", "response": {"ok": True}}}
APPROVED = [*turn(), event("user", [APPROVAL], "e-2"), event("home", [{"text": "Thanks."}], "e-2")]


def asks(name: str, args: dict[str, Any] | None = None, author: str = "home", **more: Any) -> dict[str, Any]:
    return event(author, [{"functionCall": {"id": f"c-{name}", "name": name, "args": args or {}}}], **more)


def returns(name: str, author: str = "user", **more: Any) -> dict[str, Any]:
    response = {"id": f"c-{name}", "name": name, "response": {"result": f"of {name}"}}
    return event(author, [{"functionResponse": response, "text": None}], **more)


ASK, ANSWER = event("user", [{"text": ASKED}]), event("home", [{"text": ANSWERED}])
WAITING: dict[str, Any] = {"longRunningToolIds": ["c-pick"]}
PENDING = event("user", [], "state_update_1", content=None, actions={"stateDelta": {"pending_tool_calls": []}})
AG_UI = {"_ag_ui_thread_id": "t1", "_ag_ui_processed_message:1": True, "_my_own": 1, "ag_ui": 2}
"""As google-adk 2.13.0 stores a sub-agent with `mode="task"`: its result is an event of the user in the same turn."""
TASKS = {
    "a sub-agent with a task": [ASK, asks("task"), returns("task"), ANSWER],
    "two at once, and one inside": [
        *(ASK, asks("one"), asks("two"), asks("inner", author="one"), returns("inner"), returns("two")),
        *(returns("one"), ANSWER),
    ],
    "a result that answers no call": [ASK, returns("nothing"), ANSWER],
    "a result that comes twice": [ASK, asks("task"), returns("task"), ANSWER, returns("task"), ANSWER],
    "a result with a text of the user": [ASK, asks("task"), event("user", [APPROVAL, {"text": "And?"}]), ANSWER],
    "a frontend's tool, answered in the same invocation": [
        ASK,
        asks("pick", **WAITING),
        PENDING,
        returns("pick"),
        ANSWER,
    ],
}
LARGE_IMAGE = {"inlineData": {"mimeType": "image/png", "data": "QUJD" * 60_000}}
OTHER_PARTS = (
    {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
    {"fileData": {"fileUri": "gs://bucket/a.png"}},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
)
TALKS = {
    "s-1": [("Weather in Beijing", "Sunny."), ("And in Paris", "Rain."), ("And in Rome", "Warm.")],
    "s-2": [("Weather in Oslo", "Snow.")],
}
LATER = changed(otel_turn("t1", "a", 2_000), -2, {"gen_ai.output.messages": messages("assistant", "Later.")})
EARLIER, OF_ANOTHER = otel_turn("t2", "a", 1_000), otel_turn("t3", "b", 3_000)
ORPHANS = [
    *(span for span in otel_turn() if span["spanId"] != "t1-2"),
    otel_span("generate_content m", "t1-8", "gone", 2, gen__ai_input_messages=messages("user", ASKED)),
]
CONTENTS = [{"role": "user", "parts": [{"text": ASKED}]}]
RESPONSE = {"content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": ANSWERED}]}}


def of_older_schema(request: dict[str, Any]) -> dict[str, Any]:
    return otlp(
        otel_span("execute_tool set_lamp", "3", "2", 3, gcp_vertex_agent_llm__request={}, gen__ai_tool_name="set_lamp",
                  gcp_vertex_agent_tool__call__args={"on": False}),
        otel_span("call_llm", "2", "1", 2, gcp_vertex_agent_llm__request=request,
                  gcp_vertex_agent_session__id="s-1", gcp_vertex_agent_llm__response=RESPONSE),
        otel_span("invocation", "1", None, 1),
    )  # fmt: skip


BROKEN_EVENTS: tuple[dict[str, Any], ...] = (
    {"content": "text"},
    {"content": {"parts": "text"}},
    {"content": {"parts": ["text"]}},
    {"actions": 3},
    {"content": {"parts": [{"functionCall": 3}]}},
    {"content": {"parts": [{"functionCall": {"args": 3}}]}},
    {"invocationId": None},
    {"content": {"role": 3, "parts": []}},
    {"content": {"parts": [{"text": 3}]}},
)
BROKEN_SPANS: tuple[dict[str, Any], ...] = (
    {"name": 3},
    {"spanId": ""},
    {"startTimeUnixNano": "soon"},
    {"startTimeUnixNano": 10**400},
    {"attributes": 3},
    {"traceId": []},
)
TEXTS: dict[str, Any] = {
    "a session: no ids, times and thoughts": session(),
    "sessions in a list": SESSIONS,
    "sessions in lines": in_lines(*SESSIONS),
    "state that an event has changed, and state of the app and the user": session(
        with_event(2, {"actions": {"stateDelta": {"lamp": "off"}}}), state=STATE
    ),
    "a partial event, a summary and a turn that was rewound": session([*turn(), *NEXT]),
    "the last turn has no answer": session([*turn(), HELLO]),
    "the first turn has no answer": [session([HELLO, *turn()]), session()],
    "only that session": session([HELLO, *turn()]),
    "a user who only thinks": session([event("user", [{"thought": True, "text": "hm"}]), *turn()[1:]]),
    "an answer before the first question": session([event("home", [{"text": "earlier"}], "e-0"), *turn()]),
    "an odd time": session([turn()[0] | {"timestamp": 10**400}, *turn()[1:]]),
    **{
        f"a result with the answers {answers}": result_of(*answers)
        for answers in (["Yes.", ""], ["", "Yes."], ["", None], [None, "Yes."])
    },
    "a turn of approval": session(APPROVED),
    **{name: session(events) for name, events in TASKS.items()},
    "the state of an AG-UI frontend": session(state=AG_UI),
    "events that only change state": session([PENDING, *turn(), PENDING, *turn("e-2"), PENDING]),
    "a workflow whose last node returns a value": session([ASK, event("wf", [], content=None, output={"sky": "blue"})]),
    "parts that are no text": session(asked_with(*OTHER_PARTS)),
    "too much data, in one of two sessions": [session(asked_with(LARGE_IMAGE)), session(id="s-2")],
    "too much data": session(asked_with(LARGE_IMAGE)),
    **{
        f"event {position} with {changes}": session(with_event(position, changes))
        for changes in BROKEN_EVENTS
        for position in (0, 1)
    },
    "no events": session([]),
    "lines that are broken or of another kind": f"{in_lines(session())}{{broken\n{in_lines({'eval_set_id': 'x'})}",
    "VeADK: two sessions in one file": veadk_trace(TALKS),
    "VeADK: the same, spans in another order": list(reversed(veadk_trace(TALKS))),
    "VeADK: the same, without the spans of turns": veadk_trace(TALKS, root=False),
    "sessions of traces, turns by their time": otlp(*LATER, *EARLIER, *OF_ANOTHER),
    "the same, a span in each line": in_lines(*map(otlp, (*LATER, *EARLIER, *OF_ANOTHER))),
    "turns below the span of a server": otlp(
        otel_span("POST /chat", "server", None, 1, "t0"),
        otel_span("GET /health", "h", None, 1, "t9"),
        *below_a_server([*otel_turn("t1", start=10), *otel_turn("t2", start=2_000)]),
    ),
    "spans that are each other's parents": otlp(
        otel_span("a", "1", "2", 1, session_id="s"), otel_span("b", "2", "1", 2)
    ),
    "spans without their parents": otlp(*ORPHANS),
    "spans without their parents and the root": otlp(*ORPHANS[:-2], ORPHANS[-1]),
    "ADK's older schema": of_older_schema({"contents": CONTENTS}),
    "ADK's older schema, without contents": of_older_schema({}),
    "a trace without messages": otlp(*lacking(otel_turn(), "messages")),
    "a trace without arguments": otlp(*lacking(otel_turn(), "arguments")),
    "an attribute that was shortened": otlp(*changed(otel_turn(), 2, {"gen_ai.tool.call.arguments": '{"on": fal'})),
    "a turn without a session id": otlp(*otel_turn(), *lacking(otel_turn("t2", start=500), "gen_ai.conversation.id")),
    **{f"a span with {str(changes)[:60]}": broken_span(changes) for changes in BROKEN_SPANS},
}


def test_read_source__texts(tmp_path: Path) -> None:
    blocks = {name: told(read(value, tmp_path)) for name, value in TEXTS.items()}
    scoped = "state of the app and the user, asked for"
    blocks[scoped] = told(read(session(state=STATE), tmp_path, ("app", "user")))
    check("golden_sources.txt", "\n".join(f"== {name}\n{text}" for name, text in blocks.items()))


@pytest.mark.parametrize(
    "value",
    [{"events": []}, {"eval_set_id": "x", "eval_cases": []}, [], {}, 3, None, [{"query": "x"}], {"criteria": {}}],
)
def test_read_source__leaves_other_files_alone(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert read_source(path, "x.json") is None


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


def test_sources__the_state_at_the_end_if_it_is_expected(tmp_path: Path) -> None:
    """What adk-python #3261 misses: a state that was changed in adk web, or by a tool, gets into the case."""
    changes = event("home", [{"text": "Done."}], "e-1", actions={"stateDelta": {"lamp": "off"}})
    source = read(session([*turn("e-1"), changes], state=STATE), tmp_path)
    [case], _ = eval_cases(source.conversations, form=CaseForm(expect=frozenset({"state"})))
    assert case.session_input is not None and case.session_input.state == {"room": "attic"}
    assert case.final_session_state == {"lamp": "off"}
    [case], _ = eval_cases(source.conversations)
    assert not case.final_session_state
    unknown = [
        replace(
            source.conversations[0],
            turns=[Invocation(user_content=user_message("Hi."), final_response=model_message("Hi."))],
        )
    ]
    [_], [problem] = eval_cases(unknown, form=CaseForm(expect=frozenset({"state"})))
    assert problem.code == "source-state-unknown" and "expects none" in problem.message


def test_database__has_a_case_for_each_session(tmp_path: Path) -> None:
    agent = tmp_path / "home"
    (agent / ".adk").mkdir(parents=True)
    second = session(turn("e-9", asked="And now?"), id="s-2")
    path = session_database(agent / ".adk" / "session.db", [session(), second])
    before = path.read_bytes()
    source = read(agent, tmp_path)
    cases, _ = eval_cases(source.conversations)
    [_, last] = [case.conversation or [] for case in cases]
    assert (len(cases), text_of(last[0].user_content)) == (2, "And now?")
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


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
ROWS: tuple[str | bytes | None, ...] = ("{broken", "[]", None, b"\xff", "[" * 300 + "]" * 300)
CHANGED_DATABASES: dict[str, tuple[str, tuple[object, ...]]] = {
    **{f"a row {str(row)[:20]}": ("UPDATE events SET event_data = ? WHERE id = '0-2'", (row,)) for row in ROWS},
    "no tables of ADK": ("DROP TABLE sessions", ()),
    "an endless view": (f"DROP TABLE sessions; CREATE VIEW sessions AS {ENDLESS}", ()),
    "other columns": ("ALTER TABLE events RENAME COLUMN event_data TO content", ()),
}


def test_database__changed_damaged_or_locked(tmp_path: Path) -> None:
    blocks = []
    for name, (statement, values) in CHANGED_DATABASES.items():
        path = session_database(tmp_path / "s.db", [session(), session(id="s-2")])
        with sqlite3.connect(path) as connection:
            _ = connection.execute(statement, values) if values else connection.executescript(statement)
        connection.close()
        blocks.append(f"== {name}\n{told(read(path, tmp_path))}")
        path.unlink()
    path = session_database(tmp_path / "s.db", [session()])
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    blocks.append(f"== locked\n{told(read(path, tmp_path))}")
    writer.close()
    check("golden_sources_databases.txt", "\n".join(blocks))
    data = path.read_bytes()
    for size in (20, 120, len(data) // 2):
        path.write_bytes(data[:size])
        assert [problem.severity for problem in read(path, tmp_path).problems] == ["error"]


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
        hold(old, new, f"seed {SEED}, input {number}")
        if name.endswith("result.json"):
            check_recording("recorded:x", old, [])


def hold(old: Path, new: Path, which: str) -> None:
    source = read_source(old, old.as_posix())
    if source is None:
        return
    cases, problems = eval_cases(source.conversations)
    problems = [*source.problems, *problems]
    if cases and not has_error(problems):
        write_text(new, eval_set_text(EvalSet(eval_set_id="n", eval_cases=cases)))
        codes = {problem.code for problem in load_suite(new.parent).errors}
        # An answer without text, scored by ADK's default criteria; a call whose name the mutation took.
        assert codes <= {"needs-reference", "invalid-value"}, which
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
        hold(old, new, f"seed {SEED}, input {number}")
    for number in range(INPUTS // 4):
        old.write_bytes(data)
        with sqlite3.connect(old) as connection:
            column, table = chance.choice((("event_data", "events"), ("state", "sessions"), ("id", "sessions")))
            [(text,)] = connection.execute(f"SELECT {column} FROM {table} LIMIT 1 OFFSET {chance.randrange(2)}")
            value = mutated(str(text), chance)
            stored = value.decode("utf-8", "replace") if chance.random() < 0.7 else value
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (stored, text))
        connection.close()
        hold(old, new, f"seed {SEED}, row {number}")


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nuser_messages: [{text: *b}]"
SPECS = {
    "fine": SPEC,
    "state that a case can't have": SPEC + "  state_delta: {tier: silver}\n",
    "messages that are not those of the recording": SPEC.replace("1e3", "1e4"),
    "no messages": "agent: home",
    "no object": "[]",
    "a message that is no text": SPEC.replace("- text: 'y'", "- text: [y]"),
    "no YAML": "a: 1\nb: [",
    "anchors": BOMB,
    "an object of Python": "a: !!python/object/apply:os.system [id]",
    "bytes": "a: !!binary aGk=",
    "no number": "a: .nan",
    "too deep": "[" * 5_000,
    "half a character": '"\\ud800"',
    "too large": SPEC + "#" * LARGEST,
}
GENERATED = {"no recording": "", "no list of events": "id: s-1\nevents: 3", "an odd event": "events: [3]\nid: s"}


def test_conformance__cases(tmp_path: Path) -> None:
    """One that is unusable is named, and the other is read; alone it is an error."""
    rows = [("spec", name, text) for name, text in SPECS.items()]
    rows += [("generated-session", name, text) for name, text in GENERATED.items()]
    blocks = []
    for number, (file, name, text) in enumerate(rows):
        folder = tmp_path / str(number) / "tests"
        both = read(conformance_tests(folder, **{file: text}), tmp_path)
        lines = re.sub("(?<=JSON can't have: ).*", "...", told(both)).splitlines()
        cases = [line for line in lines if not line.startswith("  {") or number == 0]
        if file == "generated-session":
            [alone] = read(folder / "core" / "lamp", tmp_path).problems
            assert alone.severity == "error", name
        blocks.append("\n".join((f"== {file}: {name}", *cases, "")))
    check("golden_sources_conformance.txt", "\n".join(blocks))


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
        hold(folder, new, f"seed {SEED}, input {number}")
