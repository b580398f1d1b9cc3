"""Traces become eval cases: one per session, never merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from source_samples import ANSWERED, ASKED, messages, otel_span, otel_turn, otlp, veadk_trace
from test_sources_sessions import TURN, cases_of, read, texts

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


@pytest.mark.parametrize("missing", ["messages", "arguments"])
def test_otlp__without_recorded_contents_the_switch_is_named(missing: str, tmp_path: Path) -> None:
    spans = otel_turn()
    for span in spans:
        span["attributes"] = {key: item for key, item in span["attributes"].items() if missing not in key}
    source = read(otlp(*spans), tmp_path)
    [problem] = source.problems
    assert (problem.severity, problem.code, source.conversations) == ("error", "source-session-skipped", ())
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in str(problem.hint)


def test_otlp__a_shortened_attribute_is_named(tmp_path: Path) -> None:
    spans = otel_turn()
    spans[2]["attributes"]["gen_ai.tool.call.arguments"] = '{"on": fal'
    source = read(otlp(*spans), tmp_path)
    assert "`gen_ai.tool.call.arguments` is not JSON" in source.problems[0].message
    assert "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" in str(source.problems[0].hint)


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
