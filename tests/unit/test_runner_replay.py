"""What a run says about a call that its tape does not answer, whose failure it is, and which tapes are written."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import golden_files
import pytest
from base_repos import new_repo
from runner_doubles import execution, planned, session_input
from tape_samples import Step, answer, asked, at_once, model, play, said, says, tool

from agent_eval.pipeline._tapes import _digest
from agent_eval.runner import REPLAY_MISSES, Chosen, Plan, Tapes
from agent_eval.runner.plan import PlannedCase
from agent_eval.runner.replay import CaseTools
from agent_eval_agents.messages import ModelAsked, ModelRan, ToolAsked, ToolError, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_agents.protocol import AgentFailure, Owner
from agent_eval_agents.tapes import Mode, Tape, ToolHashes, ToolRule, ToolRules, read_tape, tape_path
from agent_eval_agents.tool_files import ToolFiles, depends_problems, hash_of_files, stale_tools
from agent_eval_results import RunError
from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models.schema import CriterionConfig, EvalCase, MatchType

ROOM: dict[str, Any] = {"room": "a", "nights": 1}
KNOWN = {"declaration": "d", "source": "s"}
EXPECTED = FunctionCall(name="book", args=ROOM)


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
    return Tapes(root=root, mode=mode, rules=ToolRules(rules=rules), **{"patience": 0, **options})


def record(
    root: Path,
    *runs: Sequence[Step],
    mode: Mode = "record",
    chosen: Chosen | None = None,
    error: RunError | None = None,
) -> list[str]:
    """Writes the tape of the case, after these calls in its runs."""
    recorder = tapes(root, mode)
    for number, steps in enumerate(runs):
        tools = recorder.session(case(), number, [])
        play(tools.session, *steps)
        tools.ended(error)
    return recorder.write({}, {case().case_id: chosen} if chosen else None)


def stored(root: Path) -> Tape | None:
    return read_tape(tape_path(root, "a.test.json", "lamp"), root)


def rewrite(root: Path, before: str, after: str) -> None:
    path = tape_path(root, "a.test.json", "lamp")
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")


def failure_of(act: Callable[[], Any]) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        act()
    return caught.value


async def sees_nothing(names: object) -> dict[str, str]:
    return {}


def ask(tools: CaseTools, name: str, args: dict[str, Any], **identity: str) -> Any:
    call = ToolAsked(turn=1, call=1, name=name, args=args, agent="bot", **identity)
    return at_once(tools.ask(call, lambda: [FunctionCall(name=name, args=args)], sees_nothing))


def refused(tools: CaseTools, name: str, args: dict[str, Any], **identity: str) -> AgentFailure:
    return failure_of(lambda: ask(tools, name, args, **identity))


def ask_model(tools: CaseTools, call: ModelAsked) -> AgentFailure:
    return failure_of(lambda: asyncio.run(tools.model(call)))


def run_with(*texts: str, room: str = "room", **outcome: Any) -> list[Step]:
    """Calls a tool, and asks a model with these texts."""
    return [tool("book", ROOM, room), *(model(text, f"{text} in {room}", **outcome) for text in texts)]


DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]


def failures(root: Path) -> Iterator[tuple[str, AgentFailure]]:
    """Of runs that a tape does not answer."""

    def start(mode: Mode = "replay", of: PlannedCase | None = None, **options: Any) -> CaseTools:
        return tapes(root, mode, **options).session(of or case(), 0, [])

    yield "no tape", refused(start(), "book", {"room": "a"})
    yield "no tape for models", failure_of(lambda: start("all"))
    record(root, [tool("book", ROOM, "ok", **KNOWN)])
    yield "another argument", refused(start(), "book", {**ROOM, "room": "b"}, **KNOWN)
    yield "another tool", refused(start(), "cancel", {})
    yield "a changed tool", refused(start(), "book", ROOM, declaration="d", source="t")
    record(root, [tool("roll", {}, 1), tool("roll", {}, 2)])
    recorded_at = int(tape.recorded_at) if (tape := stored(root)) else 0
    rewrite(root, str(recorded_at), str(recorded_at - int(12.5 * 86_400)))
    rolled = start()
    play(rolled.session, tool("roll"), tool("roll"))
    yield "made more often", refused(rolled, "roll", {})
    record(root, [tool("save", reason="it saves artifacts")])
    yield "what can't be replayed", failure_of(start)
    live = tapes(root, "replay", ToolRule(name="save", replay=False)).session(case(), 0, [])
    assert ask(live, "save", {}) == {"do": "run"}

    record(root, run_with("on"), run_with("off"))
    yield "two runs of which none is chosen", failure_of(lambda: start("all"))
    record(root, run_with("on", "off"))
    yield "another order", ask_model(start("all"), asked(said("on")))
    live = tapes(root, "all", ToolRule(name="*", stale="live")).session(case(), 0, [])
    ask(live, "book", ROOM, source="new")
    yield "a changed tool that answers otherwise", failure_of(lambda: live.ran(ToolRan(turn=1, call=1, response="no")))
    yield "and at the end", failure_of(live.finish)
    tools = start("all")
    assert ask(tools, "book", ROOM)["response"] == "room"
    assert at_once(tools.model(asked(said("on"))))["responses"] == [answer("on in room")]
    yield "another request", ask_model(tools, asked(said("dim")))
    yield "asked more often", ask_model(tools, asked(said("on")))
    yield "nested too deeply", ask_model(tools, asked(DEEP))
    yield "calls that are left", failure_of(tools.finish)
    yield "made more often than in the run", refused(tools, "book", ROOM)
    assert at_once(tools.model(asked(said("off"))))["responses"] == [answer("off in room")]
    tools.finish()
    assert (tools.use.mode, tools.use.model_calls, tools.use.replayed) == ("all", 2, 1)

    rewrite(root, '"schema_version": "3"', '"schema_version": "2"')
    yield "an older tape", failure_of(lambda: start("all"))
    yield "an older tape whose tools alone answer", failure_of(start)
    rewrite(root, '"schema_version": "2"', '"schema_version": "3"')
    untrusted = {("a.test.json", "lamp"): "the pull request changes it"}
    yield "an untrusted tape", failure_of(lambda: start("all", untrusted=untrusted))
    # Where tools alone are replayed, nobody need trust the answers of models.
    assert ask(start(untrusted=untrusted), "book", ROOM)["response"] == "room"
    for name, other in (
        ("session", case().case.model_copy(update={"session_input": session_input(state={"lamp": "off"})})),
        ("message", case(says="stop").case),
        ("message more", case(turns=2).case),
    ):
        changed = dataclasses.replace(case(), case=other)
        yield f"recorded with another {name}", failure_of(lambda changed=changed: start("all", changed))  # type: ignore[misc]
    rewrite(root, '"eval_id": "lamp"', '"eval_id": "door"')
    yield "recorded for another case", failure_of(lambda: start("all"))


def test_failures__what_they_say(tmp_path: Path) -> None:
    lines = []
    for name, failure in failures(tmp_path):
        hint = (failure.hint or "").replace(docs_page("tools"), "DOCS")
        lines += [f"{name}: {failure.kind} ({failure.owner})", f"  {failure.message}", f"  {hint}"]
        assert failure.kind in REPLAY_MISSES
    golden_files.check("golden_replay_failures.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("options", "args", "owner"),
    [
        ({}, {"room": "b", "nights": 1}, Owner.AGENT),
        ({}, ROOM, Owner.GATE),  # as expected, so only the tape is incomplete
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
    record(tmp_path, [tool("other")])
    assert refused(tapes(tmp_path).session(case(**options), 0, []), "book", args).owner is owner
    metrics: list[tuple[str, ...]] = []

    def decides(*metric: str) -> bool:
        metrics.append(metric)
        return False

    undecided = tapes(tmp_path, decides=decides).session(case(**options), 0, [])
    assert refused(undecided, "book", args).owner is Owner.GATE, "a metric that does not decide blames no one"
    assert set(metrics) == ({("a.test.json", "lamp", "tool_trajectory_avg_score")} if owner is Owner.AGENT else set())


def test_owner__of_a_model_that_is_asked_after_wrong_calls(tmp_path: Path) -> None:
    record(tmp_path, run_with("on"))
    for room, owner in (("b", Owner.AGENT), ("a", Owner.GATE)):
        tools = tapes(tmp_path, "all", ToolRule(name="book", replay=False)).session(case(), 0, [])
        ask(tools, "book", {**ROOM, "room": room})
        assert ask_model(tools, asked(said("dim"))).owner is owner
        later = asked(said("dim")).model_copy(update={"turn": 2})
        assert ask_model(tools, later).owner is Owner.GATE, "these are calls of another turn"


def test_in_plan__mode_and_tape_are_in_the_fingerprints(tmp_path: Path) -> None:
    plan = Plan(cases=(dataclasses.replace(case(), content="content"),), num_runs=1)

    def prints(mode: Mode, *rules: ToolRule) -> tuple[str, str]:
        changed, problems = tapes(tmp_path, mode, *rules).in_plan(plan)
        assert problems == []
        return changed.cases[0].fingerprint, changed.cases[0].content

    assert prints("replay")[1] == "content", "a case that calls no tool is the same in both worlds"
    record(tmp_path, run_with("on"))
    first, models = prints("replay"), prints("all")
    assert first[1] != "content"
    assert prints("replay", ToolRule(name="*", ignore=("x",)))[0] != first[0]
    assert {prints(mode)[1] for mode in ("record", "record-missing", "all")} == {"content"}
    time.sleep(0.01)
    record(tmp_path, run_with("on"))
    assert (prints("replay"), prints("all")) == (first, models), "the same answers, recorded again"
    record(tmp_path, run_with("off"))
    assert (prints("replay") == first, prints("all") == models) == (True, False), "models are asked, or not"
    record(tmp_path, run_with("off", room="another"))
    assert prints("replay")[1] != first[1]
    assert tapes(tmp_path, "all").for_base() is None


def test_in_plan__a_file_of_depends_that_can_not_be_read_is_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big.db").write_text("four")
    monkeypatch.setattr("agent_eval_agents.tool_files.MAX_TEXT", 3)
    rule = ToolRule(name="book", depends=("*.db",))
    plan = Plan(cases=(case(),), num_runs=1, problems=())

    [problem] = tapes(tmp_path, "replay", rule).in_plan(plan)[1]

    assert problem.code == "tool-rule-invalid"
    assert problem.message.startswith("`depends` of a [[tool]] names a file that can't be read: It is larger than")
    assert problem.message.endswith(": big.db")
    without = tapes(tmp_path, "replay", dataclasses.replace(rule, depends=("*.db", "!big.db"))).in_plan(plan)[1]
    assert [each.message for each in without] == [
        "`depends` of the [[tool]] `book` matches no file: `*.db` and `!big.db`."
    ]


def lists(*names: str) -> Step:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return says("lists", lambda session: session.listed(ToolsetListed(turn=1, toolset="bot/1", tools=tools)))


OUTAGE = RunError(kind="provider-unavailable", owner="provider", message="503")
RAISED = RunError(kind="agent-exception", owner="agent", message="no")


def recordings(root: Path) -> Iterator[tuple[str, list[str]]]:
    """What is said of recordings of the case, one after another."""
    tools = (recorder := tapes(root, "record")).session(case(), 0, [])
    ask(tools, "book", ROOM)
    tools.ran(ToolRan(turn=1, call=1, response="told"))
    at_once(tools.model(asked(call=2)))
    tools.model_ran(ModelRan(turn=1, call=2, responses=[answer("yes")]))
    tools.listed(ToolsetListed(turn=1, toolset="bot/1", tools=[]))
    yield "what a host says", recorder.write()
    yield "a run", record(root, [tool("book", ROOM, "old", **KNOWN)])
    yield "a run that ends early", record(root, [tool("book")], error=OUTAGE)
    missing = (tool("book", ROOM, "new", **KNOWN), model("on", "yes"))
    yield "what is missing", record(root, missing, mode="record-missing")
    yield "nothing is missing", record(root, missing, mode="record-missing")
    yield "another request", record(root, [*missing[:1], model("off")], mode="record-missing")
    rewrite(root, '"session": "', '"session": "another')
    yield "another session", record(root, [*missing[:1], model("off")], mode="record-missing")

    chosen = Chosen(run=1, status="failed", scores={"m": (0.5, "1-f")})
    yield "a chosen run", record(root, run_with("on", room="one"), run_with("on", room="two"), chosen=chosen)
    tools = tapes(root, "all").session(case(), 0, [])
    assert (tools.use.recorded_status, tools.use.recorded_scores) == ("failed", chosen.scores)
    yield "none is chosen", record(root, run_with("on", room="one"), run_with("on", room="two"))
    yield "a model that raises", record(root, run_with("on", error=ToolError(type="Busy")))
    yield "too big", record(root, run_with(*("x" * 800_000 + str(number) for number in range(4))))
    yield "no tool", record(root, [model("on", "yes")])
    yield "no tool, and it raises", record(root, [model("on", "yes")], error=RAISED)
    yield "none any more", record(root, [])

    runs = [
        [
            tool("now", {"id": run}, 1),
            tool("get", {}, run),
            tool("same", {}),
            tool("login", {}, {"token": "secret-value"}),
        ]
        for run in range(2)
    ]
    yield "what may be wrong", record(root, *runs)
    yield "no tool in several runs", record(root, [], [])
    yield "tools of a server", record(root, [lists("search")], [lists("search")])
    yield "no other ones", record(root, [lists("search")], [lists("search")], mode="record-missing")
    yield "other ones", record(root, [lists("search", "book")], mode="record-missing")
    yield "others from time to time", record(root, [lists("search")], [lists("book")])

    recorder = tapes(root, "record")
    recorder.in_plan(Plan(cases=(case(),), num_runs=3, problems=()))
    for run in (0, 1, 3):  # The last one confirms a regression.
        recorder.session(case(), run, [])
    yield "a run that was stopped", recorder.write()


def test_write__what_it_says_and_what_it_writes(tmp_path: Path) -> None:
    lines = []
    for name, said_of_it in recordings(tmp_path):
        lines += [f"{name}:", *(f"  {line}" for line in said_of_it)]
        if (tape := stored(tmp_path)) is not None:
            lines += [
                f"  {call.tool}{call.args} -> {call.response}, done {call.done}, seen {call.seen}"
                for call in tape.calls
            ]
            lines += [f"  model -> {call.responses}, done {call.done}" for call in tape.model_calls]
            lines += [f"  {toolset}: {tools}" for toolset, tools in tape.toolsets.items()]
            lines += [f"  {tape.recorded}"] * (tape.recorded is not None)
            assert tape.model_calls or not tape.parts
    golden_files.check("golden_recordings.txt", "\n".join(lines) + "\n")


def test_write__remarks_name_the_cases_and_each_agents_version(tmp_path: Path) -> None:
    recorder = tapes(tmp_path, "record")
    for each in (planned("one", agent="a"), planned("two", agent="b")):
        timeout = ToolError(type="TimeoutError", message="30 s")
        play(recorder.session(each, 0, []).session, tool("get", {"id": 1}, error=timeout))

    lines = recorder.write({"a": "2.13.0", "b": "1.39.1"})

    assert lines[1:] == ["get(id=1) raised TimeoutError: a replay raises it again (a.test.json:one, a.test.json:two)"]
    read = [read_tape(tape_path(tmp_path, "a.test.json", name), tmp_path) for name in ("one", "two")]
    assert [tape.adk for tape in read if tape is not None] == ["2.13.0", "1.39.1"]


def test_toolset__is_asked_for_only_if_it_is_not_on_the_tape(tmp_path: Path) -> None:
    record(tmp_path, [lists("search")])
    replay = tapes(tmp_path).session(case(), 0, [])
    decisions = [replay.toolset(ToolsetAsked(turn=1, toolset=name))["do"] for name in ("bot/1", "bot/2")]
    assert decisions == ["answer", "run"]
    plan = Plan(cases=(case(),), num_runs=1, problems=())
    before = tapes(tmp_path).in_plan(plan)[0].cases[0].content
    record(tmp_path, [lists("search", "book")])
    assert tapes(tmp_path).in_plan(plan)[0].cases[0].content != before


def test_notices(tmp_path: Path) -> None:
    record(tmp_path, [tool("book", ROOM, 1, **KNOWN)])
    lenient = tapes(tmp_path, "replay", ToolRule(name="*", stale="warn"))
    assert ask(lenient.session(case(), 0, []), "book", ROOM, declaration="d", source="new")["response"] == 1
    assert lenient.notices({"agent": "2.13.0"}) == [
        "The answers of `book` were recorded before it changed: the file that defines it"
    ]
    assert tapes(tmp_path).notices({"agent": "1.18.0"}) == []
    assert tapes(tmp_path).notices({"agent": "2.13.0", "other": "3.0.0rc1"}) == [
        "Recorded tools were not tested with google-adk 3.0.0rc1: check that no tool runs with `replay: tools`"
    ]


def test_depends_problems__a_pattern_without_files(tmp_path: Path) -> None:
    (tmp_path / "db.sql").write_text("")
    rules = ToolRule(name="book", depends=("*.sql",)), ToolRule(name="get", depends=("bd/**",), line=3)
    problems = depends_problems(ToolRules(rules=rules), ToolFiles(tmp_path))
    expected = [("agent-eval.toml:3", "warning", "`depends` of the [[tool]] `get` matches no file: `bd/**`.")]
    assert [(each.location, each.severity, each.message) for each in problems] == expected
    assert tapes(tmp_path, "replay", *rules).in_plan(Plan(cases=(), num_runs=1, problems=()))[1] == problems


def test_models__a_call_of_another_run_that_can_not_be_replayed_is_no_obstacle(tmp_path: Path) -> None:
    save = tool("save", reason="it saves artifacts")
    for run, kinds in ((0, {"replay"}), (1, {"replay", "all"})):
        record(tmp_path, [model("on")], [model("on"), save], chosen=Chosen(run=run))
        for mode in ("replay", "all"):
            with pytest.raises(AgentFailure) if mode in kinds else contextlib.nullcontext():
                tapes(tmp_path, mode).session(case(), 0, [])


async def test_models__a_conversation_that_leaves_calls_is_not_evaluated(tmp_path: Path) -> None:
    record(tmp_path, run_with("on"))
    run = execution(tmp_path / "run", [planned("lamp", "go")])
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


def test_tape_digest__is_of_the_content(tmp_path: Path) -> None:
    good = b'{\n "a": 1,\n "b": [0.5, "\xc3\xa4"]\n}\n'
    same = [good.replace(b"\n", b"\r\n"), good.replace(b"\n", b""), good.replace(b"\xc3\xa4", b"\\u00e4")]
    other = [
        good.replace(b"1", b"1.0"),
        good.replace(b'"a": 1,', b'"a": 2, "a": 1,'),
        good.replace(b"{", b'{"schema_version": "2",'),
        good[:-2],
        b"\xef\xbb\xbf" + good,
        good.decode().encode("utf-16"),
        b"[" * 100_000,
        b'{"b": [0.5, "\xc3\xa4"], "a": 1}',
    ]
    digests = [_digest(data) for data in [good, *same, *other]]
    assert len({*digests[: len(same) + 1]}) == 1
    assert len({*digests}) == len(other) + 1


def test_tool_files__evidence(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    (repo.root / "docs").mkdir()
    (repo.root / "docs/a.txt").write_bytes(b"one\r\n")
    (repo.root / ".gitignore").write_text("cache.txt\n")
    repo.commit({})

    def now(name: str, seen: str = "") -> str:
        return ToolFiles(repo.root, [repo.root / "out"]).evidence(name, seen)

    one, names = now("file:docs/a.txt"), now("folder:docs")
    assert (now("path:docs/a.txt"), now("path:docs")) == ("file", "folder")
    (repo.root / "docs/a.sh").write_text("true")
    (repo.root / "docs/link").symlink_to("a.sh")
    assert (now("path:docs/a.sh"), now("path:docs/link")) == ("file", "file -> a.sh")
    (repo.root / "docs/a.sh").chmod(0o755)
    (repo.root / "docs/link").unlink()
    assert now("path:docs/a.sh") == "program"
    (repo.root / "docs/a.sh").unlink()
    assert now("file:docs/b.txt") == now("folder:more") == now("path:cache.txt") == "absent"
    (repo.root / "docs/a.txt").write_bytes(b"one\n")
    (repo.root / "docs/__pycache__").mkdir()
    (repo.root / "docs/home.evalset.tools").mkdir()
    (repo.root / "docs/home.evalset.tools/a.tape.json").write_text("{}")
    (repo.root / "cache.txt").write_text("made by a run")
    assert (now("file:docs/a.txt"), now("folder:docs"), now("path:cache.txt")) == (one, names, "")
    (repo.root / "docs/b.txt").write_text("two")
    assert now("folder:docs") not in {names, "", "absent"}
    assert now("file:../secret") == now("file:out/x") == ""
    assert now("variable:UNIT", "absent") == now("state:unit", "absent") == "absent"
    assert now("variable:UNIT", "one") == now("variable:OTHER", "one") != now("variable:UNIT", "two")
    for name, value in (
        ("SHOP_API_KEY", "12345678"),
        ("UNIT", "***"),
        ("PATH", "/bin"),
        ("UNIT", "http://me:pass@here"),
        ("UNIT", str(tmp_path)),
    ):
        assert now(f"variable:{name}", value) == "$"
    assert now("variable:UNIT", "x" * 5_000) == now("variable:OTHER", "x" * 5_000)
    given = ["UNIT", "PATH", "HOME", "SHOP_API_KEY"]
    assert now("variable:*", "\0".join(given)) == now("variable:*", "\0".join(["UNIT", "LANG"]))
    assert now("variable:*", "\0".join(given)) != now("variable:*", "\0".join([*given, "OTHER"]))
    assert now("state:api_key", "0c1f") == "$"


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


# Answers that a person has written into the case.


def by_hand(*answers: tuple[dict[str, Any], Any]) -> PlannedCase:
    uses = [FunctionCall(name="book", args=args) for args, _ in answers]
    responses = [FunctionResponse(name="book", response=response) for _, response in answers]
    data = IntermediateData(tool_uses=uses, tool_responses=responses)
    turn = Invocation(user_content=user_message("go"), intermediate_data=data)
    return dataclasses.replace(case(), case=EvalCase(eval_id="lamp", conversation=[turn]))


def booking(number: int, **args: Any) -> ToolAsked:
    return ToolAsked(turn=1, call=number, name="book", args=args)


async def unseen(names: Any) -> dict[str, str]:
    return {}


ASKS = ToolRule(name="book", answers="case")


@pytest.mark.parametrize("mode", ["live", "record", "record-missing", "replay"])
async def test_by_hand__answers_in_each_mode_and_says_what_is_missing(mode: Mode, tmp_path: Path) -> None:
    of = by_hand((ROOM, {"t": 1}), (ROOM, {"t": 2}), ({"room": "b"}, {"error": "full"}))
    session = tapes(tmp_path, mode, ASKS).session(of, 0, ())
    decided = [await session.ask(booking(number, **ROOM), tuple, unseen) for number in (1, 2)]
    decided.append(await session.ask(booking(3, room="b"), tuple, unseen))
    assert [(one["do"], one["response"]) for one in decided] == [
        *(("answer", {"t": 1}), ("answer", {"t": 2}), ("answer", {"error": "full"}))
    ]
    assert session.use.by_hand == 3 and session.use.replayed == 0
    with pytest.raises(AgentFailure) as caught:
        await session.ask(booking(4, room="c"), tuple, unseen)
    assert 'book(room="c") is not in the case, which answers by hand' in caught.value.message
    assert caught.value.owner is Owner.GATE and "`tool_responses`" in (caught.value.hint or "")


async def test_by_hand__only_where_a_rule_asks_for_it(tmp_path: Path) -> None:
    of = by_hand((ROOM, {"t": 1}))
    assert (await tapes(tmp_path, "live").session(of, 0, ()).ask(booking(1, **ROOM), tuple, unseen))["do"] == "run"
    other = ToolRule(name="other", answers="case")
    session = tapes(tmp_path, "live", other).session(of, 0, ())
    assert (await session.ask(booking(1, **ROOM), tuple, unseen))["do"] == "run"
    lenient = dataclasses.replace(ASKS, miss="live")
    session = tapes(tmp_path, "live", lenient).session(of, 0, ())
    assert (await session.ask(booking(1, room="c"), tuple, unseen))["do"] == "run"
    assert tapes(tmp_path, "all").without_tapes() is None and tapes(tmp_path, "live").for_base() is None
    for made in (tapes(tmp_path, "all", ASKS).without_tapes(), tapes(tmp_path, "live", ASKS).for_base()):
        assert made is not None and made.mode == "live"


async def test_by_hand__a_run_without_tapes_does_not_fail_by_the_tape_that_could_not_be_used(tmp_path: Path) -> None:
    record(tmp_path, run_with("go"), chosen=Chosen(run=0))
    rewrite(tmp_path, '"schema_version": "3"', '"schema_version": "2"')
    replaying = tapes(tmp_path, "all", ASKS, may_be_live=True)
    of = by_hand((ROOM, {"t": 1}))
    assert failure_of(lambda: replaying.session(of, 0, ())).kind in REPLAY_MISSES
    for live in (replaying.without_tapes(), replaying.for_base()):
        assert live is not None
        assert (await live.session(of, 0, ()).ask(booking(1, **ROOM), tuple, unseen))["do"] == "answer"
