"""Traces of any framework as conversations; tests/data/traces has what real frameworks wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import golden_files
import pytest
from evalset_samples import json_values
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import chat, completed, details, flat, said, session, span, tool, traced, used

from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_agents.traces.conversations import conversations_of
from agent_eval_agents.traces.files import trace_values
from agent_eval_agents.traces.spans import spans_of
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, answered, intermediate_responses

CAPTURED = sorted((Path(__file__).parents[1] / "data" / "traces").glob("*.jsonl"))


def shown(values: list[tuple[Any, Place]]) -> str:
    """The conversations of traces, for a golden file."""
    try:
        conversations = conversations_of(spans_of(values))
    except UnusableConversation as error:
        return f"  {error} ({error.place.line})\n"
    lines = []
    for conversation in conversations:
        case = f", case {conversation.case}" if conversation.case else ""
        lines.append(f"  {conversation.session_id}{case}")
        try:
            turns, failed = conversation.read()
        except UnusableConversation as error:
            lines.append(f"    unusable: {error} {error.hint}")
            continue
        for turn, spans in zip(turns, conversation.turns, strict=False):
            lines += _turn(turn, visible=spans.shows_calls)
        lines += [f"    failed: {failed[0]}: {failed[1]}"] if failed else []
    return "\n".join(lines) + "\n"


def _turn(turn: Invocation, *, visible: bool) -> list[str]:
    final = None if turn.final_response is None else text_of(turn.final_response)
    lines = [f"    {text_of(turn.user_content)!r} -> {final!r}{'' if visible else ' (calls unknown)'}"]
    for call, response in answered(turn.intermediate_data):
        answer = None if response is None else json.dumps(response.response)
        lines.append(f"      {call.name}({json.dumps(call.args)}) = {answer}")
    return lines + [f"      {author}: {text!r}" for author, text in intermediate_responses(turn)]


def test_conversations__as_frameworks_write_them() -> None:
    texts = [f"== {path.stem}\n{shown(trace_values(path, path.name))}" for path in CAPTURED]
    golden_files.check("golden_traces/frameworks.txt", "\n".join(texts))


ROME: dict[str, Any] = {"city": "Rome"}
ASK, CALL, ANSWER = said("user", "Rome?"), used("weather", ROME), said("assistant", "Warm.")
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "", "response": {"degrees": 20}}]}
HISTORY = [ASK, CALL, RESULT, ANSWER, said("user", "Oslo?")]
BASH = [{"role": "user", "content": "Rome?"}]
OPENAI: list[dict[str, Any]] = [
    *BASH,
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
        {"id": "2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
    {"role": "tool", "tool_call_id": "2", "content": "cold"}, {"role": "tool", "tool_call_id": "1", "content": "warm"},
    {"role": "assistant", "content": [{"type": "text", "text": "Both."}]},
]  # fmt: skip
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "1", "name": "weather", "input": ROME}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "down", "is_error": True}]},
]  # fmt: skip
WARM = [{"role": "assistant", "content": [{"type": "output_text", "text": "Warm."}]}]
OSLO = [{"role": "user", "content": "Oslo?"}]
RESPONSES: list[dict[str, Any]] = [
    *BASH, {"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"city": "Rome"}'},
    {"type": "function_call_output", "call_id": "1", "output": "warm"},
]  # fmt: skip
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Rome?"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "now"}}, {"text": "hm", "thought": True}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"hour": 7}}}]},
]
WRAPPED = {"messages": [{"type": "human", "data": {"content": "Rome?"}}, {"type": "ai", "data": {"content": "Warm!"}}]}
TRACES: dict[str, list[dict[str, Any]]] = {
    # Calls of tools, wherever they are.
    "calls in messages only": [*chat([ASK], [CALL]), *chat([ASK, CALL, RESULT], [ANSWER], start=5)],
    "calls in the messages of the last model call only": chat([ASK, CALL, RESULT], [ANSWER]),
    "the same call twice, without ids": [
        *chat([ASK], [CALL]), *chat([ASK, CALL, RESULT], [CALL], start=5),
        *chat([ASK, CALL, RESULT, CALL, RESULT], [ANSWER], start=8),
    ],
    "the same call twice in one message": [
        *chat([ASK], [{**CALL, "parts": CALL["parts"] * 2}]), *chat([ASK, CALL, CALL], [ANSWER], start=5),
    ],
    "calls of the turns before are none of this one": chat(HISTORY, [ANSWER]),
    "calls in the spans of tools only": [*chat([ASK], [ANSWER], end=9), tool("weather", ROME, {"r": 20}, start=3)],
    "a call in messages and in a span with another id": [
        *chat([ASK], [used("weather", ROME, id="1")]), tool("weather", ROME, "20", start=3, id="adk-7"),
        *chat([ASK], [ANSWER], start=5),
    ],
    "a tool's span has what the model's arguments became": [
        *chat([ASK], [CALL]), tool("weather", {"city": "ROME"}, "20", start=3), *chat([ASK], [ANSWER], start=5),
    ],
    "arguments of a span for a call without": [
        *chat([ASK], [used("weather", None)]), tool("weather", ROME, "20", start=3), *chat([ASK], [ANSWER], start=5),
    ],
    "parallel calls, answered in another order": chat(OPENAI[:4], OPENAI[4:]),
    "a tool that failed": [
        *chat([ASK], [CALL]), {**tool("weather", ROME, None, start=3), "status": {"code": 2, "message": "no net"}},
        *chat([ASK], [ANSWER], start=5),
    ],
    "a tool inside of a tool": [
        *chat([ASK], [CALL]), {**tool("weather", ROME, "20", start=3), "spanId": "t"},
        {**tool("inner", {}, "1", start=4), "parentSpanId": "t"}, *chat([ASK], [ANSWER], start=6),
    ],
    "a server's span of an MCP tool without its name": [
        *chat([ASK], [CALL]), span("tools/call", start=3, openinference__span__kind="TOOL"),
        *chat([ASK], [ANSWER], start=5),
    ],
    # Dialects.
    "OpenAI's chat": chat(OPENAI[:4], OPENAI[4:]),
    "OpenAI's responses": chat(RESPONSES, [ANSWER]),
    "Anthropic's blocks": chat([*BASH, *ANTHROPIC], [ANSWER]),
    "Gemini's contents, a call without arguments": chat(GEMINI, [ANSWER]),
    "OpenInference": flat("llm.input_messages", OPENAI[:4], "llm.output_messages", OPENAI[4:]),
    "OpenLLMetry": flat("gen_ai.prompt", BASH, "gen_ai.completion", OPENAI[4:], message=""),
    "OpenInference, a call without arguments": flat("llm.input_messages", BASH, "llm.output_messages", [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "to_expert"}}], "content": "x"}]),
    "chunks of a stream, and the whole": chat([ASK], [said("assistant", text) for text in ("Wa", "rm.", "Warm.")]),
    "events of spans": [completed([
        ("gen_ai.user.message", {"content": "Rome?"}), ("gen_ai.choice", {"message": "Warm."})])],
    "older events of spans": [completed([
        ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(BASH)}),
        ("gen_ai.content.completion", {"gen_ai.completion": "Warm."})])],
    "one event with all messages": [completed([details([ASK, CALL, RESULT], [ANSWER])])],
    "log records": [*chat(None, None), {"log": ("gen_ai.user.message", {"content": "Rome?"})},
                    {"log": ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Warm."}})}],
    "a chain's input and output around a prompt": [
        span("chain", own="r", openinference__span__kind="CHAIN", input__value="Rome?", output__value="Warm!"),
        *[{**one, "parentSpanId": "r"} for one in chat([said("user", "Answer briefly: Rome?")], [ANSWER])],
    ],
    "messages of LangChain": [
        span("graph", openinference__span__kind="CHAIN", input__value='{"messages": [["user", "Rome?"]]}',
             output__value=json.dumps(WRAPPED)),
    ],
    "an answer that is an object": [span("agent", gen_ai__operation__name="invoke_agent",
                                         gen_ai__input__messages=json.dumps([ASK]), final_result='{"degrees": 20}')],
    "a structured answer of Pydantic AI": [
        span("agent run", own="r", gen_ai__operation__name="invoke_agent", final_result='{"degrees": 20}'),
        *({**one, "parentSpanId": "r"} for one in chat([ASK], [used("final_result", {"degrees": 20})])),
    ],
    # Turns and conversations.
    "no session: each trace is a conversation": [
        *chat([ASK], [ANSWER]), *traced("t2", chat([ASK], [ANSWER], start=9)),
    ],
    "no session: a model that is given the earlier turn goes on with it": [
        *chat([ASK], [ANSWER]), *traced("t2", chat([*HISTORY], [ANSWER], start=9)),
        *traced("t3", chat([*HISTORY, ANSWER, said("user", "Bonn?")], [ANSWER], start=12)),
    ],
    "no session: two runs, one after the other": [
        *chat([ASK], [ANSWER]), *traced("t2", chat(HISTORY, [ANSWER], start=3)),
        *traced("t3", chat([ASK], [ANSWER], start=5)), *traced("t4", chat(HISTORY, [ANSWER], start=7)),
    ],
    "no session: two runs at once, of which the next turn can be either's": [
        *chat([ASK], [ANSWER], end=4), *traced("t2", chat([ASK], [ANSWER], start=2, end=5)),
        *traced("t3", chat(HISTORY, [ANSWER], start=9)),
    ],
    "no session: turns stay with their trace": [
        *chat([ASK], [ANSWER]), *traced("t2", chat([ASK], [ANSWER], start=3)),
        *chat(HISTORY, [ANSWER], start=9),
        *traced("t2", chat([ASK, ANSWER, said("user", "Bonn?")], [ANSWER], start=12)),
    ],
    "no session: another answer is another conversation": [
        *chat([ASK], [said("assistant", "Cold.")]), *traced("t2", chat(HISTORY, [ANSWER], start=9)),
    ],
    "no session: an earlier answer that OpenInference has in the value alone": [
        *chat([ASK], [ANSWER]), *traced("t2", [
            {**one, "attributes": {**one["attributes"], "input.value": json.dumps([*BASH, *WARM, *OSLO])}}
            for one in flat("llm.input_messages", [*BASH, {"role": "assistant"}, *OSLO], "llm.output_messages", WARM)
        ]),
    ],
    "a trace a turn, one session": [
        *session("s", chat([ASK], [ANSWER])), *session("s", traced("t2", chat(HISTORY, [ANSWER], start=9))),
    ],
    "two turns in one trace": [*chat([ASK], [ANSWER]), *chat(HISTORY, [said("assistant", "Cold.")], start=9)],
    "two turns below a span that holds them": [
        span("trace()", own="r", openinference__span__kind="AGENT", end=30),
        *({**one, "parentSpanId": "r"} for one in chat([ASK], [ANSWER], start=2)),
        *({**one, "parentSpanId": "r"} for one in chat(HISTORY, [said("assistant", "Cold.")], start=9)),
    ],
    "agents that speak one after the other": [
        span("flow", own="r", gen_ai__operation__name="invoke_workflow", end=30),
        span("a", own="a", parent="r", start=2, end=5, gen_ai__operation__name="invoke_agent",
             gen_ai__agent__name="poet"),
        *({**one, "parentSpanId": "a"} for one in chat([ASK], [said("assistant", "A poem.")], start=3)),
        *({**one, "parentSpanId": "r"} for one in chat(
            [ASK, said("user", "For context: [poet] said: A poem.")], [ANSWER], start=9)),
    ],
    "two instrumentations of one call": [
        span("llm", own="r", openinference__span__kind="LLM", gen_ai__input__messages=json.dumps([ASK]),
             gen_ai__output__messages=json.dumps([CALL]), end=4),
        *({**one, "parentSpanId": "r"} for one in chat([ASK], [CALL], start=2)),
        *chat([ASK, CALL, RESULT], [ANSWER], start=9),
    ],
    "a case's id on the resource": [
        {**one, "resource": {"agent_eval.case.id": "rome"}} for one in chat([ASK], [ANSWER])
    ],
    "spans of a web server only": [span("GET /health", http__route="/health")],
    # What is missing, cut, or hostile.
    "no contents": chat(None, None),
    "elided contents": chat([said("user", "<elided>")], [said("assistant", "<elided>")]),
    "OpenInference without contents": flat("llm.input_messages", [], "llm.output_messages", []),
    "calls without arguments": chat([ASK, used("weather", None)], [ANSWER]),
    "messages that were cut": [span("chat m", gen_ai__operation__name="chat", gen_ai__input__messages='[{"role": "us')],
    "an answer that was cut": [span("graph", openinference__span__kind="CHAIN", input__value="Rome?",
                                    output__value='{"messages": [{"type": "hum')],
    "an event that was cut": [completed([
        ("gen_ai.user.message", {"content": "Rome?"}), ("gen_ai.choice", {"message": '[{"text": "Wa'})])],
    "an answer in braces": chat([ASK], [said("assistant", "{warm}")]),
    "arguments that are hidden": chat(
        BASH, [{"tool_calls": [{"function": {"name": "f", "arguments": "__REDACTED__"}}]}]),
    "arguments that were cut": chat(BASH, [{"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1'}}]}]),
    "an exception": [{**span("agent", gen_ai__operation__name="invoke_agent"), "status": {"code": "STATUS_CODE_ERROR"},
                      "events": [("exception", {"exception.type": "a.b.Boom", "exception.message": "gone"})]}],
    "an inner exception, and an answer": [{**span("x", gen_ai__operation__name="chat"), "status": {"code": 2}},
                                          *chat([ASK], [ANSWER], start=5)],
    "messages of other types": [span("chat m", gen_ai__operation__name="chat",
                                     gen_ai__input__messages=[7, None, {"role": 3, "parts": [None, {"type": []}, 4]}],
                                     gen_ai__output__messages=[{"parts": {"text": {"text": [[["deep"]]]}}}])],
    "model calls that are each other's parents": [
        span("chat a", own="a", parent="b", gen_ai__operation__name="chat"),
        span("chat b", own="b", parent="a", gen_ai__operation__name="chat"),
    ],
    "an agent named user": [{**one, "attributes": {**one["attributes"], "gen_ai.agent.name": "user"}}
                            for one in chat([ASK], [CALL, ANSWER])],
}  # fmt: skip


def test_conversations__of_each_convention() -> None:
    texts = [
        f"== {name}\n{shown([(otlp, Place(file='x'))])}"
        for name, otlp in ((n, session("", s, otlp=True)) for n, s in TRACES.items())
    ]
    golden_files.check("golden_traces/conventions.txt", "\n".join(texts))


KEYS = ["gen_ai.input.messages", "gen_ai.output.messages", "llm.input_messages.0.message", "gen_ai.prompt.0.content",
        "input.value", "output.value", "gen_ai.tool.call.arguments", "gcp.vertex.agent.llm_request"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), json_values()), st.booleans(), st.sampled_from(["chat", "execute_tool"]))
def test_conversations__of_any_attributes_are_read_or_refused(
    attributes: dict[str, Any], as_text: bool, operation: str
) -> None:
    values = {key: json.dumps(value) if as_text else value for key, value in attributes.items()}
    spans = [*chat([ASK], [CALL]), span("x", own="r", parent="r", start=4, gen_ai__operation__name=operation)]
    spans[-1]["attributes"] |= values
    plain = [{**one, "context": {"span_id": one["spanId"], "trace_id": "t"}, "start_time": 1} for one in spans]
    shown([({key: value for key, value in one.items() if "Unix" not in key}, Place(file="x")) for one in plain])


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_spans__one_by_one_as_in_otlp(path: Path) -> None:
    """What the SDK for Python prints of a span says the same as OTLP."""
    values = trace_values(path, path.name)
    bare = [(printed(value), place) for value, place in values]
    assert shown(bare) == shown(values)


def printed(value: dict[str, Any]) -> dict[str, Any]:
    [raw] = value["resourceSpans"][0]["scopeSpans"][0]["spans"]
    [one] = spans_of([(value, Place(file="x"))])
    return {
        "name": one.name,
        "context": {"trace_id": f"0x{one.trace_id}", "span_id": f"0x{one.span_id}", "trace_state": "[]"},
        "parent_id": f"0x{one.parent_id}" if one.parent_id else None,
        "start_time": one.start,
        "end_time": one.end,
        "status": {"status_code": "UNSET"} if one.error is None else {"status_code": "ERROR", "description": one.error},
        "attributes": dict(one.attributes),
        "events": [{"name": name, "attributes": attributes} for name, attributes in one.events],
        "raw": bool(raw),
    }
