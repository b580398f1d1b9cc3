"""Sources as other tools write them: sessions and results of ADK, traces of VeADK and of OpenTelemetry."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

ASKED = "Turn off the lamp"
ANSWERED = "It is off."
CALL = {"name": "set_lamp", "args": {"on": False}}


def event(author: str, parts: list[dict[str, Any]], invocation: str = "e-1", **more: Any) -> dict[str, Any]:
    role = "user" if author == "user" else "model"
    return {
        "invocationId": invocation,
        "author": author,
        "content": {"role": role, "parts": parts},
        "timestamp": 1.5,
        **more,
    }


def turn(invocation: str = "e-1", asked: str = ASKED, answered: str = ANSWERED) -> list[dict[str, Any]]:
    """The events of a turn with one tool call, in ADK's camelCase."""
    response = {"id": "c-1", "name": "set_lamp", "response": {"camelKey": 1}}
    return [
        event("user", [{"text": asked}], invocation),
        event("home", [{"functionCall": {"id": "c-1", **CALL}}], invocation, longRunningToolIds=[]),
        event("home", [{"functionResponse": response}], invocation),
        event("home", [{"text": "thinking", "thought": True}, {"text": answered}], invocation),
    ]


def session(events: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    listed = turn() if events is None else events
    return {"id": "s-1", "appName": "home", "userId": "u", "state": {"room": "attic"}, "events": listed, **more}


def veadk_trace(sessions: dict[str, list[tuple[str, str]]], *, root: bool = True) -> list[dict[str, Any]]:
    """A file of VeADK's `save_tracing_file`, spans in the order of ending; each turn calls `get_weather`.

    Args:
        sessions: User text and answer of each turn, by session id.
        root: Whether the spans of the invocations were exported.
    """
    spans: list[dict[str, Any]] = []
    number = 0
    for session_id, turns in sessions.items():
        prompt: dict[str, str] = {}

        def said(role: str, text: str, prompt: dict[str, str] = prompt) -> None:
            place = f"gen_ai.prompt.{len(prompt) // 2}"
            prompt |= {f"{place}.role": role, f"{place}.content": text}

        for asked, answered in turns:
            number += 1
            start = 1760000000000000000 + number * 1_000_000_000
            common = {"gen_ai.session.id": session_id, "gen_ai.user.id": "u", "gen_ai.app.name": "weather"}
            said("user", asked)
            before = dict(prompt)
            said("assistant", answered)
            tool = {"name": "get_weather", "description": "...", "parameters": {"city": asked.split()[-1]}}
            output = {"id": "call-1", "name": "get_weather", "response": {"result": "sunny"}}
            message = {"messages": [{"role": "model", "parts": [{"type": "text", "content": answered}]}]}
            made = [
                ("execute_tool get_weather", 3, 2, 100, {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.input": json.dumps(tool),
                    "gen_ai.tool.output": json.dumps(output),
                    **common,
                }),
                ("call_llm", 2, 1, 50, {**before, "gen_ai.completion.0.content": answered, **common}),
                ("invocation", 1, None, 0, {
                    "gen_ai.input": json.dumps({"role": "user", "parts": [{"text": asked}]}),
                    "gen_ai.output": json.dumps(message),
                    "invocation.id": f"e-{number}",
                    **common,
                }),
            ]  # fmt: skip
            spans += [
                {
                    "name": name,
                    "span_id": number * 10 + own,
                    "trace_id": 2**100 + number,
                    "start_time": start + offset,
                    "end_time": start + 900,
                    "attributes": attributes,
                    "parent_span_id": None if parent is None else number * 10 + parent,
                }
                for name, own, parent, offset, attributes in made
                if root or name != "invocation"
            ]
    return spans


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    """OTLP JSON; attributes are given as a plain object."""

    def value(item: Any) -> dict[str, Any]:
        return {"stringValue": item if isinstance(item, str) else json.dumps(item)}

    listed = [
        {**span, "attributes": [{"key": key, "value": value(item)} for key, item in span["attributes"].items()]}
        for span in spans
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": listed}]}]}


def otel_span(
    name: str, own: str, parent: str | None, start: int, trace: str = "t1", **attributes: Any
) -> dict[str, Any]:
    """A span for `otlp`; underscores of attribute names stand for dots, two of them for one underscore."""
    named = {key.replace("__", "\0").replace("_", ".").replace("\0", "_"): item for key, item in attributes.items()}
    span = {"traceId": trace, "spanId": own, "name": name, "startTimeUnixNano": str(start), "attributes": named}
    return span if parent is None else {**span, "parentSpanId": parent}


def messages(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


def otel_turn(trace: str = "t1", session_id: str = "s-1", start: int = 1) -> list[dict[str, Any]]:
    """A turn in ADK's default schema, with a call of a tool that is an agent itself."""
    root, model, tool = f"{trace}-1", f"{trace}-2", f"{trace}-3"
    asked = [*messages("user", ASKED), {"role": "assistant", "parts": [{"type": "tool_call", "name": "set_lamp"}]}]
    return [
        otel_span("generate_content m", f"{trace}-5", f"{trace}-4", start + 3, trace,
                  gen__ai_conversation_id="inner", gen__ai_input_messages=messages("user", "inner question"),
                  gen__ai_output_messages=messages("assistant", "inner answer")),
        otel_span("invoke_workflow x", f"{trace}-4", tool, start + 2, trace, gen__ai_operation_name="invoke_workflow",
                  gen__ai_conversation_id="inner"),
        otel_span("execute_tool set_lamp", tool, model, start + 1, trace, gen__ai_operation_name="execute_tool",
                  gen__ai_tool_name="set_lamp", gen__ai_tool_call_arguments=CALL["args"]),
        otel_span("execute_tool (merged)", f"{trace}-6", model, start + 2, trace, gen__ai_operation_name="execute_tool",
                  gen__ai_tool_name="(merged tools)"),
        otel_span("generate_content m", model, root, start + 1, trace, gen__ai_conversation_id=session_id,
                  gen__ai_input_messages=asked[:1], gen__ai_output_messages=asked[1:]),
        otel_span("generate_content m", f"{trace}-7", root, start + 8, trace, gen__ai_conversation_id=session_id,
                  gen__ai_input_messages=asked, gen__ai_output_messages=messages("assistant", ANSWERED)),
        otel_span("invoke_workflow home", root, None, start, trace, gen__ai_operation_name="invoke_workflow",
                  gen__ai_conversation_id=session_id),
    ]  # fmt: skip


def session_database(path: Path, sessions: list[dict[str, Any]]) -> Path:
    """The tables of ADK's SqliteSessionService, with these sessions."""
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time REAL, update_time);"
            "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, "
            "timestamp REAL, event_data TEXT);"
            "CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time REAL);"
            "INSERT INTO user_states VALUES ('home', 'u', '{\"tier\": \"gold\"}', 1);"
        )
        for number, item in enumerate(sessions):
            key = (item["appName"], item["userId"], item["id"])
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", (*key, json.dumps(item["state"]), number, number)
            )
            for position, stored in enumerate(item["events"]):
                row = (f"{number}-{position}", *key, stored["invocationId"], position, json.dumps(stored))
                connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    return path


def adk_result(**more: Any) -> dict[str, Any]:
    """An eval set result of one case, with the nulls that ADK writes."""
    invocation = {
        "invocation_id": "e-1",
        "user_content": {"role": "user", "parts": [{"text": ASKED, "function_call": None}]},
        "final_response": {"role": "model", "parts": [{"text": ANSWERED, "thought": None}]},
        "intermediate_data": {"tool_uses": [dict(CALL)], "tool_responses": [], "intermediate_responses": []},
        "creation_timestamp": 2.0,
        "rubrics": None,
        "app_details": None,
    }
    score = {"metric_name": "response_match_score", "threshold": 0.8, "criterion": None, "score": 0.42}
    return {
        "eval_set_result_id": "home_lights_2.0",
        "eval_set_result_name": "home_lights_2.0",
        "eval_set_id": "lights",
        "creation_timestamp": 2.0,
        "eval_case_results": [
            {
                "eval_set_file": "lights",
                "eval_set_id": "lights",
                "eval_id": "lamp_off",
                "final_eval_status": 2,
                "eval_metric_results": None,
                "overall_eval_metric_results": [{**score, "eval_status": 2, "details": {"rubric_scores": None}}],
                "eval_metric_result_per_invocation": [
                    {"actual_invocation": invocation, "expected_invocation": None, "eval_metric_results": []}
                ],
                "session_id": "adk-eval-session-1",
                "session_details": None,
                "user_id": "user",
                **more,
            }
        ],
    }


SPEC = """\
description: what a person wrote, with an alarm at 7:30
agent: home
initial_state: {alarm: "7:30", today: 2026-01-01, "on": yes}
user_messages:
- text: 'y'
  state_delta: {tier: gold}
- content: {role: user, parts: [{text: 1e3}]}
"""
RECORDED = """\
id: s-1
app_name: home
user_id: adk_conformance_test_user
state: {tier: gold}
events:
  - {invocation_id: e-1, author: user, content: {role: user, parts: [{text: y}]}}
  - {invocation_id: e-1, author: home, content: {role: model, parts: [{function_call: {name: set, args: {to: n}}}]}}
  - {invocation_id: e-1, author: home, content: {role: model, parts: [{text: 1.5e3}]}}
  - {invocation_id: e-2, author: user, content: {role: user, parts: [{text: 1e3}]}}
  - content:
      parts:
        - text: |-
            It's
            done.
      role: model
    invocation_id: e-2
    author: home
"""


def conformance_tests(folder: Path, **files: str) -> Path:
    """A directory of `adk conformance record` with the cases `lamp` and `fine`; the files of `lamp` as given."""
    written = {"spec": SPEC, "generated-session": RECORDED}
    for name, content in ({"lamp": written | files, "fine": written}).items():
        (folder / "core" / name).mkdir(parents=True, exist_ok=True)
        for file, text in content.items():
            if text:
                (folder / "core" / name / f"{file}.yaml").write_text(text, encoding="utf-8")
    return folder
