"""What a run says about a call that its tape does not answer, and whose failure it is."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import time
from pathlib import Path
from typing import Any

import pytest
from runner_doubles import execution, planned, session_input
from tape_samples import answer, asked, at_once, said

from agent_eval.agents.messages import (
    ModelAsked,
    ModelRan,
    ToolAsked,
    ToolError,
    ToolRan,
    ToolsetAsked,
    ToolsetListed,
)
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.tapes import Mode, RecordedRun, Tape, ToolHashes, ToolRule, ToolRules, read_tape, tape_path
from agent_eval.core.content import FunctionCall, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.core.problem import docs_page
from agent_eval.criteria.registry import build
from agent_eval.evalset.models.schema import CriterionConfig, EvalCase, MatchType
from agent_eval.results import RunError
from agent_eval.runner import REPLAY_MISSES, Chosen, Plan, Tapes
from agent_eval.runner.plan import PlannedCase
from agent_eval.runner.replay import CaseTools
from agent_eval.runner.tool_files import ToolFiles, hash_of_files, stale_tools

EXPECTED = FunctionCall(name="book", args={"room": "a", "nights": 1})


def case(
    *, expected: tuple[FunctionCall, ...] = (EXPECTED,), turns: int = 1, says: str = "go", **options: Any
) -> PlannedCase:
    """A case that compares its trajectory."""
    config = CriterionConfig(
        metric="tool_trajectory_avg_score", threshold=options.pop("threshold", 1.0), options=options
    )
    conversation = [
        Invocation(user_content=user_message(says), intermediate_data=IntermediateData(tool_uses=list(expected)))
        for _ in range(turns)
    ]
    eval_case = EvalCase(eval_id="lamp", conversation=conversation)
    return dataclasses.replace(planned("lamp"), case=eval_case, criteria=(build(config),))


def tapes(root: Path, mode: Mode = "replay", *rules: ToolRule, **options: Any) -> Tapes:
    return Tapes(root=root, mode=mode, rules=ToolRules(rules=rules), **options)


def ask(tools: CaseTools, name: str, args: dict[str, Any], **identity: str) -> AgentFailure:
    """The failure that a call causes."""
    call = ToolAsked(turn=1, call=1, name=name, args=args, agent="bot", **identity)
    with pytest.raises(AgentFailure) as caught:
        at_once(tools.ask(call, lambda: [FunctionCall(name=name, args=args)]))
    return caught.value


def record(root: Path, *made: tuple[str, dict[str, Any], Any], age: float = 0.0, reason: str | None = None) -> None:
    """Writes the tape of the case."""
    recorder = tapes(root, "record")
    tools = recorder.session(case(), 0, [])
    for number, (name, args, response) in enumerate(made):
        at_once(
            tools.ask(
                ToolAsked(turn=1, call=number, name=name, args=args, agent="bot", declaration="d", source="s"), list
            )
        )
        tools.ran(ToolRan(turn=1, call=number, response=response, reason=reason))
    assert (
        recorder.write({"agent": "2.13.0"})[0]
        == f"1 tape written with {len(made)} call{'s' * (len(made) != 1)}: a.test.tools/lamp.tape.json"
    )
    if age:
        path = tape_path(root, "a.test.json", "lamp")
        now = int(time.time())
        path.write_text(path.read_text("utf-8").replace(str(now), str(now - int(age))), encoding="utf-8")


AGAIN = "agent-eval run 'a.test.json:lamp' --record all"


def test_messages(tmp_path: Path) -> None:
    missing = ask(tapes(tmp_path).session(case(), 0, []), "book", {"room": "a"})
    assert (missing.kind, missing.owner) == (FailureKind.TAPE_MISSING, Owner.GATE)
    assert missing.message == 'The agent called book(room="a"), and the case has no tape to answer it'
    assert missing.hint == f"Record the case and commit its tape: {AGAIN}."

    record(tmp_path, ("book", {"room": "a", "nights": 1}, "ok"))
    miss = ask(tapes(tmp_path).session(case(), 0, []), "book", {"room": "b", "nights": 1}, declaration="d", source="s")
    assert miss.kind is FailureKind.NOT_RECORDED
    assert miss.message.startswith('The call book(room="b", nights=1) is not on the tape (recorded today). ')
    assert miss.message.endswith('call differs: book(room): "a" on the tape, "b" now')
    for part in (AGAIN, '`ignore` of a [[tool]] for "book"', '`miss = "live"`', docs_page("tools")):
        assert part in (miss.hint or "")
    unknown = ask(tapes(tmp_path).session(case(), 0, []), "cancel", {})
    assert unknown.message.endswith("is not on the tape (recorded today), and no other call of `cancel` is")

    stale = ask(tapes(tmp_path).session(case(), 0, []), "book", {"room": "a", "nights": 1}, declaration="d", source="t")
    assert (stale.kind, stale.owner) == (FailureKind.TAPE_STALE, Owner.GATE)
    assert stale.message.startswith("`book` was changed after its answers were recorded (today); ")
    assert stale.message.endswith("is the file that defines it")
    assert stale.hint == f"Record the case again: {AGAIN}. Then commit the tape with the change."

    record(tmp_path, ("roll", {}, 1), ("roll", {}, 2), age=12.5 * 86_400)
    tools = tapes(tmp_path).session(case(), 0, [])
    for _ in range(2):
        at_once(tools.ask(ToolAsked(turn=1, call=1, name="roll", declaration="d", source="s"), list))
    often = ask(tools, "roll", {}, declaration="d", source="s").message
    assert "was made more often than it is on the tape (recorded 12 days ago)" in often

    record(tmp_path, ("save", {}, None), reason="it saves artifacts")
    with pytest.raises(AgentFailure) as caught:
        tapes(tmp_path).session(case(), 0, [])
    assert (caught.value.kind, caught.value.owner) == (FailureKind.NOT_REPLAYABLE, Owner.GATE)
    assert caught.value.message == "The call save() can't be replayed: it saves artifacts"
    assert "`replay = false` in a [[tool]]" in (caught.value.hint or "")
    live = tapes(tmp_path, "replay", ToolRule(name="save", replay=False)).session(case(), 0, [])
    assert at_once(live.ask(ToolAsked(turn=1, call=1, name="save"), list)) == {"do": "run"}


@pytest.mark.parametrize(
    ("options", "args", "owner"),
    [
        ({}, {"room": "b", "nights": 1}, Owner.AGENT),
        ({}, {"room": "a", "nights": 1}, Owner.GATE),  # as expected, so only the tape is incomplete
        ({"match_type": MatchType.IN_ORDER}, {"room": "b"}, Owner.GATE),
        ({"expected": ()}, {"room": "b"}, Owner.AGENT),
        ({"turns": 2}, {"room": "b"}, Owner.AGENT),
        ({"turns": 2, "threshold": 0.5}, {"room": "b"}, Owner.GATE),  # the other turn may still save the case
        ({"ignore_args": True}, {"room": "b"}, Owner.GATE),
    ],
)
def test_owner__of_a_call_that_is_not_recorded(
    options: dict[str, Any], args: dict[str, Any], owner: Owner, tmp_path: Path
) -> None:
    record(tmp_path, ("other", {}, 1))
    assert ask(tapes(tmp_path).session(case(**options), 0, []), "book", args).owner is owner
    asked: list[tuple[str, ...]] = []

    def decides(*metric: str) -> bool:
        asked.append(metric)
        return False

    undecided = tapes(tmp_path, decides=decides).session(case(**options), 0, [])
    assert ask(undecided, "book", args).owner is Owner.GATE, "a metric that does not decide blames no one"
    assert {metric[:3] for metric in asked} <= {("a.test.json", "lamp", "tool_trajectory_avg_score")}
    assert asked or owner is Owner.GATE


def test_in_plan__mode_and_tape_are_in_the_fingerprints(tmp_path: Path) -> None:
    plan = Plan(cases=(dataclasses.replace(case(), content="content"),), num_runs=1)

    def fingerprints(mode: Mode, *rules: ToolRule) -> tuple[str, str]:
        changed, problems = tapes(tmp_path, mode, *rules).in_plan(plan)
        assert problems == []
        return changed.cases[0].fingerprint, changed.cases[0].content

    without = fingerprints("replay")
    assert without[1] == "content", "a case that calls no tool is the same in both worlds"
    record(tmp_path, ("book", {}, 1))
    first = fingerprints("replay")
    assert "content" not in first
    assert fingerprints("replay", ToolRule(name="*", ignore=("x",)))[0] != first[0]
    assert fingerprints("record") == (fingerprints("record")[0], "content")
    assert fingerprints("record-missing")[1] == "content"
    time.sleep(0.01)
    record(tmp_path, ("book", {}, 1))
    assert fingerprints("replay") == first, "the same answers, recorded again"
    record(tmp_path, ("book", {}, 2))
    assert fingerprints("replay")[1] != first[1]


def test_in_plan__a_file_of_depends_that_can_not_be_read_is_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big.db").write_text("four")
    monkeypatch.setattr("agent_eval.runner.tool_files.MAX_TEXT", 3)
    rule = ToolRule(name="book", depends=("*.db",))
    plan = Plan(cases=(case(),), num_runs=1, problems=())

    [problem] = tapes(tmp_path, "replay", rule).in_plan(plan)[1]

    assert problem.code == "tool-rule-invalid"
    assert problem.message.startswith("`depends` of a [[tool]] names a file that can't be read: It is larger than")
    assert problem.message.endswith(": big.db")
    assert tapes(tmp_path, "replay", dataclasses.replace(rule, depends=("*.db", "!big.db"))).in_plan(plan)[1] == []


def test_write__keeps_what_a_broken_run_would_spoil(tmp_path: Path) -> None:
    record(tmp_path, ("book", {}, 1))
    recorder = tapes(tmp_path, "record")
    tools = recorder.session(case(), 0, [])
    tools.ended(RunError(kind="provider-unavailable", owner="provider", message="503"))
    assert recorder.write() == [
        "a.test.tools/lamp.tape.json was not written: a run of the case ended early (provider-unavailable)"
    ]
    # A run that was stopped has not collected all calls.
    recorder = tapes(tmp_path, "record")
    recorder.in_plan(Plan(cases=(case(),), num_runs=3, problems=()))
    for run in (0, 1, 3):  # The last one confirms a regression.
        recorder.session(case(), run, [])
    assert recorder.write() == [
        "a.test.tools/lamp.tape.json was not written: only 2 of 3 runs of the case took place here"
    ]
    # An agent that calls no tool any more needs no tape, if its runs disagree.
    recorder = tapes(tmp_path, "record")
    for run in (0, 1):
        recorder.session(case(), run, [])
    assert recorder.write() == [
        "a.test.tools/lamp.tape.json was removed: the agent called no tool that can be recorded"
    ]
    assert read_tape(tape_path(tmp_path, "a.test.json", "lamp"), tmp_path) is None


def test_write__remarks(tmp_path: Path) -> None:
    recorder = tapes(tmp_path, "record")
    for run in range(2):
        tools = recorder.session(case(), run, [])
        for number, (name, args, response) in enumerate(
            [("now", {"id": run}, 1), ("get", {}, run), ("login", {}, {"token": "secret-value"})]
        ):
            at_once(tools.ask(ToolAsked(turn=1, call=number, name=name, args=args), list))
            tools.ran(ToolRan(turn=1, call=number, response=response))
    assert recorder.write() == [
        "1 tape written with 4 calls: a.test.tools/lamp.tape.json",
        "get() got different answers in different runs: the tool is not deterministic, and the first answer is kept",
        "now(id) was different in every run: name it in `ignore` of a [[tool]]",
        "login(token) of an answer is masked (***), because of its name: the agent gets *** too",
    ]


def test_write__remarks_name_the_cases_and_each_agents_version(tmp_path: Path) -> None:
    recorder = tapes(tmp_path, "record")
    cases = [dataclasses.replace(planned(name, agent=agent)) for name, agent in (("one", "a"), ("two", "b"))]
    for each in cases:
        tools = recorder.session(each, 0, [])
        at_once(tools.ask(ToolAsked(turn=1, call=1, name="get", args={"id": 1}), list))
        tools.ran(ToolRan(turn=1, call=1, error=ToolError(type="TimeoutError", message="30 s")))

    lines = recorder.write({"a": "2.13.0", "b": "1.39.1"})

    assert lines[1:] == ["get(id=1) raised TimeoutError: a replay raises it again (a.test.json:one, a.test.json:two)"]
    read = [read_tape(tape_path(tmp_path, "a.test.json", name), tmp_path) for name in ("one", "two")]
    assert [tape.adk for tape in read if tape is not None] == ["2.13.0", "1.39.1"]
    assert len(tapes(tmp_path).notices({"a": "2.13.0", "b": "3.0.0"})) == 1, "the untested version is not the first one"


def test_write__tools_of_mcp_servers(tmp_path: Path) -> None:
    search, book = ({"name": name, "inputSchema": {"type": "object"}} for name in ("search", "book"))

    def listed(mode: Mode, *lists: list[dict[str, Any]]) -> list[str]:
        """Records the case in a run for each list."""
        recorder = tapes(tmp_path, mode)
        for run, tools in enumerate(lists):
            session = recorder.session(case(), run, [])
            assert session.toolset(ToolsetAsked(turn=1, toolset="bot/1")) == {"do": "run"}
            session.listed(ToolsetListed(turn=1, toolset="bot/1", tools=tools))
        return recorder.write()

    written = "1 tape written with 0 calls: a.test.tools/lamp.tape.json"
    assert listed("record", [search], [search]) == [written]
    replay = tapes(tmp_path).session(case(), 0, [])
    assert replay.toolset(ToolsetAsked(turn=1, toolset="bot/1")) == {"do": "answer", "tools": [search]}
    # What is not on the tape is asked for, and not recorded.
    assert replay.toolset(ToolsetAsked(turn=1, toolset="bot/2")) == {"do": "run"}

    def content() -> str:
        return tapes(tmp_path).in_plan(Plan(cases=(case(),), num_runs=1, problems=()))[0].cases[0].content

    before = content()
    assert listed("record-missing", [search], [search]) == []
    assert listed("record-missing", [search, book]) == [written]
    assert content() != before
    # A server that lists other tools from time to time is asked again.
    assert listed("record", [search], [book]) == [
        "a.test.tools/lamp.tape.json was removed: the agent called no tool that can be recorded"
    ]


def test_notices(tmp_path: Path) -> None:
    record(tmp_path, ("book", {"room": "a"}, 1))
    lenient = tapes(tmp_path, "replay", ToolRule(name="*", stale="warn"))
    call = ToolAsked(turn=1, call=1, name="book", args={"room": "a"}, declaration="d", source="new")
    assert at_once(lenient.session(case(), 0, []).ask(call, list))["response"] == 1
    assert lenient.notices({"agent": "2.13.0"}) == [
        "The answers of `book` were recorded before it changed: the file that defines it"
    ]
    assert tapes(tmp_path).notices({"agent": "1.18.0"}) == []
    (tmp_path / "db.sql").write_text("")
    rules = ToolRules(rules=(ToolRule(name="book", depends=("*.sql",)), ToolRule(name="get", depends=("bd/**",))))
    assert dataclasses.replace(tapes(tmp_path), rules=rules).notices() == [
        "`depends` of the [[tool]] `get` matches no file, so no change can make its recorded answers stale"
    ]
    assert tapes(tmp_path).notices({"agent": "3.0.0rc1"}) == [
        "Recorded tools were not tested with google-adk 3.0.0rc1: check that no tool runs with `replay: tools`"
    ]


# --- Models


def record_models(
    root: Path, *texts: str, mode: Mode = "record", runs: int = 1, chosen: Chosen | None = None, **outcome: Any
) -> list[str]:
    """Writes a tape of runs that call a tool and ask a model with these texts."""
    recorder = tapes(root, mode)
    for run in range(runs):
        tools = recorder.session(case(), run, [])
        at_once(tools.ask(ToolAsked(turn=1, call=99, name="book", args=dict(EXPECTED.args or {}), agent="bot"), list))
        tools.ran(ToolRan(turn=1, call=99, response=f"room {run}"))
        for number, text in enumerate(texts):
            at_once(tools.model(asked(said(text), call=number)))
            tools.model_ran(ModelRan(turn=1, call=number, **{"responses": [answer(f"{text} {run}")], **outcome}))
    return recorder.write({}, {case().case_id: chosen} if chosen or runs > 1 else None)


def ask_model(tools: CaseTools, call: ModelAsked) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        at_once(tools.model(call))
    return caught.value


def book(tools: CaseTools, **args: Any) -> Any:
    """Calls the tool of `record_models`."""
    made = FunctionCall(name="book", args={**(EXPECTED.args or {}), **args})
    call = ToolAsked(turn=1, call=1, name="book", args=made.args or {}, agent="bot")
    return at_once(tools.ask(call, lambda: [made]))["response"]


def test_models__messages(tmp_path: Path) -> None:
    def start() -> CaseTools:
        return tapes(tmp_path, "all", patience=0).session(case(), 0, [])

    def refused(recorder: Tapes, **changes: Any) -> AgentFailure:
        with pytest.raises(AgentFailure) as caught:
            recorder.session(dataclasses.replace(case(), **changes), 0, [])
        return caught.value

    missing = refused(tapes(tmp_path, "all"))
    assert (missing.kind, missing.owner) == (FailureKind.TAPE_MISSING, Owner.GATE)
    assert missing.message == "The case has no tape"
    record_models(tmp_path, "on", runs=2)
    assert refused(tapes(tmp_path, "all")).message == "The tape of the case has no model calls"

    assert record_models(tmp_path, "on", "off") == ["1 tape written with 3 calls: a.test.tools/lamp.tape.json"]
    tools = start()
    assert book(tools) == "room 0"
    assert at_once(tools.model(asked(said("on"))))["responses"] == [answer("on 0")]
    miss = ask_model(tools, asked(said("dim")))
    assert (miss.kind, miss.owner) == (FailureKind.MODEL_NOT_RECORDED, Owner.GATE)
    assert miss.message == (
        "What the agent `bot` asks gemini is not on the tape (recorded today). The first difference is in "
        'contents[0].parts[0].text: "on" on the tape, "dim" now'
    )
    assert miss.hint == f"Record the case again: {AGAIN}. Then commit the tape with the change."
    often = ask_model(tools, asked(said("on"))).message
    assert often.endswith("asks gemini is on the tape (recorded today), but not as often as it is asked now")
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert "can't be answered from the tape: It is nested more" in ask_model(tools, asked(deep)).message
    with pytest.raises(AgentFailure) as caught:
        tools.finish()
    assert (caught.value.kind, caught.value.owner) == (FailureKind.MODEL_CALLS_LEFT, Owner.GATE)
    assert caught.value.message == (
        "The conversation ended before 1 call on the tape (recorded today): a model call of the agent `bot`"
    )
    with pytest.raises(AgentFailure) as again:
        book(tools)
    assert again.value.message == (
        'The call book(room="a", nights=1) is on the tape (recorded today), but it was made more often than in the run '
        "whose model calls are on it"
    )
    assert at_once(tools.model(asked(said("off"), agent="bot")))["responses"] == [answer("off 0")]
    tools.finish()
    assert (tools.use.mode, tools.use.model_calls, tools.use.replayed) == ("all", 2, 1)

    async def out_of_order() -> AgentFailure:
        with pytest.raises(AgentFailure) as caught:
            await start().model(asked(said("on")))
        return caught.value

    waited = asyncio.run(out_of_order())
    assert waited.kind is FailureKind.MODEL_NOT_RECORDED
    assert waited.message == (
        'The recorded answer of the model of the agent `bot` came after that of book(room="a", nights=1), which the '
        "agent does not make"
    )

    key = ("a.test.json", "lamp")
    changed = refused(tapes(tmp_path, "all", untrusted={key: "the pull request changes it"}))
    assert (changed.kind, changed.owner) == (FailureKind.TAPE_CHANGED, Owner.GATE)
    assert changed.message == "The tape of the case is not used: the pull request changes it"
    assert "base branch's tapes decide" in (changed.hint or "")
    tape = tape_path(tmp_path, *key)
    tape.write_text(tape.read_text("utf-8").replace('"eval_id": "lamp"', '"eval_id": "door"'), "utf-8")
    other = refused(tapes(tmp_path, "all"))
    assert (other.kind, other.owner) == (FailureKind.TAPE_MISSING, Owner.GATE)
    assert other.message == "The tape of the case is not used: it was recorded for the case `door`"
    assert "--record all" in (other.hint or "")
    record_models(tmp_path, "on")
    book(tapes(tmp_path, "all").session(case(), 0, []))
    for changed_case, name in (
        (case().case.model_copy(update={"session_input": session_input(state={"lamp": "off"})}), "session"),
        (case(says="stop").case, "message 1"),
        (case(turns=2).case, "message 2"),
    ):
        refusal = refused(tapes(tmp_path, "all"), case=changed_case)
        assert (refusal.kind, refusal.owner) == (FailureKind.TAPE_MISSING, Owner.GATE)
        assert refusal.message == f"The tape of the case is not used: it was recorded with another {name} of the case"
    kinds = {missing.kind, miss.kind, caught.value.kind, waited.kind, changed.kind}
    assert kinds < REPLAY_MISSES
    # Where tools alone are replayed, nobody need trust the answers of models.
    assert book(tapes(tmp_path, untrusted={key: "x"}).session(case(), 0, [])) == "room 0"


def test_models__a_miss_after_wrong_calls_is_the_agents_failure(tmp_path: Path) -> None:
    record_models(tmp_path, "on")
    for args, owner in (({"room": "b"}, Owner.AGENT), ({}, Owner.GATE)):
        tools = tapes(tmp_path, "all", ToolRule(name="book", replay=False)).session(case(), 0, [])
        call = ToolAsked(turn=1, call=1, name="book", agent="bot")
        made = FunctionCall(name="book", args={**(EXPECTED.args or {}), **args})
        at_once(tools.ask(call, lambda made=made: [made]))  # type: ignore[misc]
        assert ask_model(tools, asked(said("dim"))).owner is owner
        later = asked(said("dim")).model_copy(update={"turn": 2})
        assert ask_model(tools, later).owner is Owner.GATE, "these are calls of another turn"


def test_models__which_run_becomes_the_tape(tmp_path: Path) -> None:
    def stored() -> Tape:
        found = read_tape(tape_path(tmp_path, "a.test.json", "lamp"), tmp_path)
        assert found is not None
        return found

    chosen = Chosen(run=1, status="failed", scores={"m": (0.5, "1-f")})
    assert record_models(tmp_path, "on", runs=2, chosen=chosen)[1:] == [
        'book(room="a", nights=1) got different answers in different runs: the tool is not deterministic, and the '
        "first answer is kept"
    ]
    assert [call.response for call in stored().calls] == ["room 1"]
    assert [call.responses for call in stored().model_calls] == [[answer("on 1")]]
    assert stored().recorded == RecordedRun(status="failed", scores={"m": (0.5, "1-f")})
    tools = tapes(tmp_path, "all").session(case(), 0, [])
    assert (book(tools), tools.use.recorded_status, tools.use.recorded_scores) == ("room 1", "failed", chosen.scores)

    remark = "The tape has no model calls, so the case always runs live: "
    assert f"{remark}its runs had different results" in record_models(tmp_path, "on", runs=2)
    assert (stored().model_calls, stored().parts, stored().recorded) == ([], {}, None)
    assert [call.done for call in stored().calls] == [None]
    busy = record_models(tmp_path, "on", error=ToolError(type="Busy"))
    assert busy[1:] == [f"{remark}a model raised Busy"]
    big = record_models(tmp_path, *("x" * 800_000 + str(number) for number in range(4)))
    assert big[1:] == [f"{remark}it would be too big with them"]
    assert [call.response for call in stored().calls] == ["room 0"]

    recorder = tapes(tmp_path, "record")
    tools = recorder.session(case(), 0, [])
    at_once(tools.model(asked()))
    tools.model_ran(ModelRan(turn=1, call=1, responses=[answer("yes")]))
    tools.ended(RunError(kind="agent-exception", owner="agent", message="no"))
    assert recorder.write() == [
        "a.test.tools/lamp.tape.json was removed: the agent called no tool that can be recorded"
    ]
    # A case without a tool has a tape, too.
    tools.ended(None)
    assert recorder.write() == ["1 tape written with 1 call: a.test.tools/lamp.tape.json"]


def test_models__record_missing_writes_what_is_new(tmp_path: Path) -> None:
    record(tmp_path, ("book", dict(EXPECTED.args or {}), "old"))
    path = tape_path(tmp_path, "a.test.json", "lamp")

    def complete(text: str) -> list[str]:
        recorder = tapes(tmp_path, "record-missing")
        tools = recorder.session(case(), 0, [])
        call = ToolAsked(turn=1, call=1, name="book", args=dict(EXPECTED.args or {}), declaration="d", source="s")
        assert at_once(tools.ask(call, list))["response"] == "old"
        at_once(tools.model(asked(said(text), call=2)))
        tools.model_ran(ModelRan(turn=1, call=2, responses=[answer(text)]))
        return recorder.write()

    written = ["1 tape written with 2 calls: a.test.tools/lamp.tape.json"]
    assert complete("on") == written
    before = path.read_bytes()
    assert (complete("on"), path.read_bytes()) == ([], before)
    assert complete("off") == written
    path.write_text(path.read_text("utf-8").replace('"session": "', '"session": "another'), "utf-8")
    assert complete("off") == written


def test_models__decide_about_the_fingerprint_only_where_they_are_replayed(tmp_path: Path) -> None:
    plan = Plan(cases=(dataclasses.replace(case(), content="content"),), num_runs=1)

    def fingerprint(mode: Mode) -> str:
        planned, problems = tapes(tmp_path, mode).in_plan(plan)
        assert (problems, mode == "replay" or planned.cases[0].content == "content") == ([], True)
        return planned.cases[0].fingerprint

    record_models(tmp_path, "on")
    tools, models = fingerprint("replay"), fingerprint("all")
    record_models(tmp_path, "off")
    assert (fingerprint("replay") == tools, fingerprint("all") == models) == (True, False)
    assert tapes(tmp_path, "all").for_base() is None


def test_models__a_call_of_another_run_that_can_not_be_replayed_is_no_obstacle(tmp_path: Path) -> None:
    recorder = tapes(tmp_path, "record")
    for run in range(2):
        tools = recorder.session(case(), run, [])
        at_once(tools.model(asked()))
        tools.model_ran(ModelRan(turn=1, call=1, responses=[answer("yes")]))
    at_once(tools.ask(ToolAsked(turn=1, call=2, name="save"), list))
    tools.ran(ToolRan(turn=1, call=2, reason="it saves artifacts"))
    for run, kinds in ((0, {"replay"}), (1, {"replay", "all"})):
        recorder.write({}, {case().case_id: Chosen(run=run)})
        for mode in ("replay", "all"):
            with pytest.raises(AgentFailure) if mode in kinds else contextlib.nullcontext():
                tapes(tmp_path, mode).session(case(), 0, [])


async def test_models__a_conversation_that_leaves_calls_is_not_evaluated(tmp_path: Path) -> None:
    record_models(tmp_path, "on")
    cases = [dataclasses.replace(planned("lamp", "go"), eval_set_id="set")]
    run = execution(tmp_path / "run", cases)
    run.tools = tapes(tmp_path, "all")
    [report] = await run.run()
    run.journal.close()
    error = report.runs[0].error
    assert error is not None
    assert (report.status, error.kind, error.owner) == ("errored", "model-calls-left", "gate")


def test_stale_tools(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_bytes(b"one\r\n")
    (tmp_path / "db.sql").write_text("")
    source = hashlib.sha256(b"one\n").hexdigest()[:16]
    hashes = {
        "get": ToolHashes(source=source, files=["tools.py"]),
        "bot/set": ToolHashes(source=source, files=["tools.py"], depends=hash_of_files(tmp_path, ["*.sql"])),
        "installed": ToolHashes(source="of a package"),
        "forged": ToolHashes(source=source, files=["../tools.py"]),
        "live": ToolHashes(source="other", files=["tools.py"]),
    }
    tape = Tape(eval_set_id="s", eval_id="c", recorded_at=0, tools=hashes)
    rules = ToolRules(rules=(ToolRule(name="set", depends=("*.sql",)), ToolRule(name="live", replay=False)))

    def stale() -> dict[str, str]:
        return stale_tools(tape, rules, ToolFiles(tmp_path))

    assert stale() == {"forged": "../tools.py"}
    (tmp_path / "db.sql").write_text("drop table rooms")
    assert stale() == {"forged": "../tools.py", "set": "a file that it depends on"}
    with_rule = ToolRules(rules=(*rules.rules, ToolRule(name="get", depends=("*.sql",))))
    assert stale_tools(tape, with_rule, ToolFiles(tmp_path))["get"] == "`depends` of its [[tool]]"
    (tmp_path / "tools.py").write_text("two")
    assert stale() == {"forged": "../tools.py", "get": "tools.py", "set": "tools.py"}
    (tmp_path / "tools.py").unlink()
    assert "get" in stale()


def test_hash_of_files(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "a.sql").write_text("one")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.sql").write_text("result")
    before = hash_of_files(tmp_path, ["*.sql"], skip=[tmp_path / "out"])
    (tmp_path / "out" / "a.sql").write_text("another")
    (tmp_path / "other.txt").write_text("x")
    assert hash_of_files(tmp_path, ["*.sql"], skip=[tmp_path / "out"]) == before
    (tmp_path / "db" / "a.sql").write_text("two")
    assert hash_of_files(tmp_path, ["*.sql"], skip=[tmp_path / "out"]) != before
