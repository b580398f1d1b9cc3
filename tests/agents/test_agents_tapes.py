"""Tapes: which calls are the same, what a session decides, how tapes are made, written and read."""

from __future__ import annotations

import json
import math
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_files
import pytest
from evalset_samples import json_values
from hypothesis import given
from hypothesis import strategies as st
from tape_samples import Step, answer, asked, at_once, called, model, play, returned, said, says, session, tape, tool

from agent_eval_agents.messages import ModelAsked, ModelNews, ModelRan, ToolError, ToolsetAsked, ToolsetListed
from agent_eval_agents.tapes import (
    InvalidTape,
    Mode,
    Order,
    RecordedCall,
    Tape,
    TapeSession,
    ToolPolicy,
    ToolRule,
    ToolRules,
    Unanswerable,
    canonical,
    contents_of,
    masked,
    read_tape,
    tape_name,
    tape_path,
    tape_text,
    tapes_below,
    write_tape,
)
from agent_eval_agents.tapes._requests import first_difference, request_of
from agent_eval_agents.tapes._tape import DEEPEST, digest, fingerprint_of

# --- Keys


def reference(value: Any) -> Any:
    """Equal for equal JSON, written in another way than the code."""
    match value:
        case dict():
            return {unicodedata.normalize("NFC", key): reference(item) for key, item in value.items()}
        case list():
            return [reference(item) for item in value]
        case str():
            return unicodedata.normalize("NFC", value)
    return (isinstance(value, bool), value)


requests = st.fixed_dictionaries(
    {
        "instruction": st.text(max_size=2),
        "contents": st.lists(json_values(st.text(max_size=2), most=4), max_size=3),
        "tools": json_values(st.text(max_size=2), most=4).filter(lambda value: value is not None),
        "config": st.dictionaries(st.text(max_size=2), json_values(st.text(max_size=2), most=4), max_size=2),
    }
)


@given(left=requests, right=requests)
def test_keys__equal_exactly_for_equal_arguments_and_requests(left: dict[str, Any], right: dict[str, Any]) -> None:
    def request(content: dict[str, Any]) -> ModelAsked:
        return ModelAsked(turn=1, call=1, request=content)

    def fingerprint(content: dict[str, Any]) -> str:
        return request_of(request(content), ToolRules()).fingerprint

    policy, stored = ToolPolicy(), tape(play(session(), model(request(left))))
    again = json.loads(json.dumps(dict(reversed(left.items()))))
    for other, same in ((right, reference(left) == reference(right)), (again, True)):
        assert (canonical(left, policy) == canonical(other, policy)) == same
        assert (fingerprint(left) == fingerprint(other)) == same
        assert (first_difference(stored, request_of(request(other), ToolRules())) is None) == same


@pytest.mark.parametrize(
    ("policy", "left", "right", "same"),
    [
        (ToolPolicy(), {"n": 1}, {"n": 1.0}, True),
        (ToolPolicy(), {"n": 1}, {"n": True}, False),
        (ToolPolicy(), {"n": "e\u0301"}, {"n": "\u00e9"}, True),
        (ToolPolicy(), {"n": None}, {}, False),
        (ToolPolicy(match=("city",)), {"city": "Oslo", "id": 1}, {"city": "Oslo", "id": 2}, True),
        (ToolPolicy(match=("city",)), {"city": "Oslo"}, {"city": "Rome"}, False),
        (ToolPolicy(match=("to.city",)), {"to": {"city": "A", "id": 1}}, {"to": {"city": "A", "id": 2}}, True),
        (ToolPolicy(ignore=("id",)), {"city": "Oslo", "id": 1}, {"city": "Oslo"}, True),
        (ToolPolicy(ignore=("to.id",)), {"to": [{"id": 1, "x": 1}]}, {"to": [{"id": 2, "x": 1}]}, True),
        (ToolPolicy(ignore=("to.id",)), {"to": [{"id": 1, "x": 1}]}, {"to": [{"id": 2, "x": 2}]}, False),
        (ToolPolicy(mask=("mail",)), {"mail": "a"}, {"mail": "b"}, True),
        (ToolPolicy(), {"password": "a"}, {"password": "b"}, True),
    ],
)
def test_canonical__rules(policy: ToolPolicy, left: Any, right: Any, same: bool) -> None:
    assert (canonical(left, policy) == canonical(right, policy)) is same


def test_masked__names_and_paths() -> None:
    value = {"user": {"email": "e", "name": "n"}, "list": [{"token": "t", "max_tokens": 5}], "cookie": ""}
    assert masked(value, ToolPolicy(mask=("user.email", "not.there"))) == {
        "user": {"email": "***", "name": "n"},
        "list": [{"token": "***", "max_tokens": 5}],
        "cookie": "",
    }
    secret = "Api-Key x-api-key authToken session_token private_key passwd DB_PASSWORD aws_secret_access_key app-secret"
    plain = "max_tokens token_count next_page_token pageToken paid_token primary_key secretary tokens secret_id"
    assert set(masked(dict.fromkeys(f"{secret} idtoken".split(), "s"), ToolPolicy()).values()) == {"***"}
    assert masked(dict.fromkeys(plain.split(), "s"), ToolPolicy()) == dict.fromkeys(plain.split(), "s")
    assert masked({"has_password": True}, ToolPolicy()) == {"has_password": True}


def test_rules__the_last_entry_with_a_key_counts() -> None:
    rules = ToolRules(
        rules=(
            ToolRule(name="search_*", match=("city",), replay=False),
            ToolRule(name="search_rooms", match=("day",)),
            ToolRule(name="other", miss="live"),
        )
    )
    assert rules.of("search_rooms") == ToolPolicy(match=("day",), replay=False)
    assert (rules.of("other"), rules.of("unnamed")) == (ToolPolicy(miss="live"), ToolPolicy())


# --- Sessions


def played(tapes: TapeSession, step: Step) -> Any:
    """The answer to a call."""
    decision = at_once(step.made(tapes))
    return decision.get("response", decision.get("responses"))


@given(
    made=st.lists(
        st.tuples(st.booleans(), st.sampled_from(["left", "right"]), st.sampled_from(["a", "b"]), st.integers(0, 1)),
        max_size=12,
    )
)
def test_session__what_was_recorded_replays_itself(made: list[tuple[bool, str, str, int]]) -> None:
    """Each call's answer is its number."""
    steps = [
        model(asked(said(f"{word} {n}"), agent=agent), str(number))
        if of_model
        else tool(word, {"id": n}, number, agent=agent)
        for number, (of_model, agent, word, n) in enumerate(made)
    ]
    live = play(session(), *steps)
    stored = Tape.model_validate_json(tape_text(tape(live)))
    assert (stored, live.why_not_taped) == (tape(live), None)
    tools = [number for number, (of_model, *_) in enumerate(made) if not of_model]
    of_tools = session("replay", stored)
    assert [played(of_tools, steps[number]) for number in tools] == tools
    assert (of_tools.use.replayed, of_tools.use.missed) == (len(tools), 0)
    counts: Counter[Any] = Counter()
    for number, call in zip(tools, live.recorded, strict=True):
        assert call.occurrence == counts[made[number][2:]], "the earlier calls with the same arguments"
        counts[made[number][2:]] += 1
    if len(tools) < len(made):
        whole = session("all", stored)
        expected = [[answer(str(number))] if of_model else number for number, (of_model, *_) in enumerate(made)]
        assert [played(whole, step) for step in steps] == expected
        use = whole.use
        assert (use.model_calls, use.replayed, use.live, whole.left) == (len(made) - len(tools), len(tools), 0, [])
        with pytest.raises(Unanswerable):  # Nothing is repeated beyond the tape, although the last answer might do.
            at_once(steps[-1].made(whole))


def shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 1_000 else f"{text[:20]}..."


async def outcome_of(tapes: TapeSession, step: Step) -> str:
    try:
        outcome = await step.made(tapes)
        return shortened(outcome and {name: value for name, value in outcome.items() if value not in ({}, None)})
    except Unanswerable as found:
        facts = {
            "why": found.why,
            "nearest": found.nearest and found.nearest.args,
            "difference": found.difference and vars(found.difference),
            "left": [call.done for call in found.left],
        }
        return f"{found.obstacle} {shortened({name: value for name, value in facts.items() if value})}"


def facts_of(tapes: TapeSession) -> Iterator[str]:
    """What a session holds at its end, and its tape if it records."""
    facts = {**tapes.use.model_dump(exclude_defaults=True), "left": [call.done for call in tapes.left]}
    facts |= {"changed": tapes.changed, "masked": sorted(tapes.masked), "not taped": tapes.why_not_taped}
    yield shortened({name: value for name, value in facts.items() if value})
    if tapes.mode.startswith("record"):
        stored = tape(tapes, before=tapes.index.tape if tapes.index else None)
        for call in stored.calls:
            yield f"tape: {shortened(call.model_dump(exclude_defaults=True))}"
        for exchange in stored.model_calls:
            yield f"tape: {shortened(exchange.model_dump(include={'agent', 'responses', 'done', 'after', 'dealt'}))}"
        rest = stored.model_dump(include={"tools", "toolsets"}, exclude_defaults=True)
        yield f"tape: {shortened(rest)}"


DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]
STALE_LIVE = ToolRule(name="*", stale="live")
USED = {"": "f", "self": "A", "self.url": "a", "self.id": "y"}
CHANGES: list[dict[str, Any]] = [
    {"declaration": "new"},
    {"source": "new"},
    {"declaration": "new", "source": "new"},
    {"implementation": {"": "new", "self": "A"}},
    {"implementation": {"": "f", "self.url": "$", "self.id": "x"}},
    {"implementation": USED | {"home.settings:URL": "b"}},
]
NEVER: list[tuple[ModelAsked, dict[str, Any]]] = [
    (asked(), {"error": ToolError(type="own.Busy")}),
    (asked(), {"reason": "it was cancelled"}),
    (asked(), {"responses": []}),
    (asked(), {"responses": [answer("x" * 1_000_001)]}),
    (asked(), {"responses": [{"content": DEEP}]}),
    (asked(DEEP), {}),
    (asked(config=DEEP), {}),
    (asked(), {"ends": False}),
]
"""Calls of models that can't be on a tape."""
OTHER_ANSWERS: list[dict[str, Any]] = [
    {"response": {"n": 1.0}, "state": {"got": True}},
    {"response": {"n": 2}, "state": {"got": True}},
    {"response": {"n": 1}},
    {"response": {"n": 1}, "state": {"got": True}, "actions": {"escalate": True}},
    {"response": {"n": 1}, "state": {"got": True}, "reason": "it saves artifacts"},
]


ENDS = says("the run ends", TapeSession.check_ended)


def toolset(name: str) -> Step:
    return says(name, lambda tapes: tapes.toolset(ToolsetAsked(turn=1, toolset=name)))


def scenarios() -> Iterator[tuple[str, TapeSession, tuple[Step, ...]]]:
    """Calls that are recorded or answered, by what they show."""
    mail = tape(play(session(), tool("book", {"room": "a", "email": "x@example.com"}, 1)))
    book, other = (tool("book", {"room": room, "email": "y@example.com"}) for room in "ab")
    rule = ToolRule(name="book", mask=("email",))
    yield "a miss does not show what a newer rule masks", session("replay", mail, rule), (book, other)

    identity: dict[str, Any] = {"declaration": "d", "source": "s", "implementation": USED}
    stored = tape(play(session(), tool("book", {}, 1, **identity)))
    for change in CHANGES:
        changed = tool("book", {}, **{**identity, **change})
        yield "a changed tool", session("replay", stored), (changed,)
        yield "and a warning", session("replay", stored, ToolRule(name="*", stale="warn")), (changed,)
        yield "and the base branch", session("replay", stored, of_base=True), (changed,)

    depends = ToolRule(name="book", depends=("db/**",))
    stored = tape(play(session("record", None, depends, depends=str), tool("book", {}, 1)))
    yield "a file that it depends on", session("replay", stored, depends, depends=lambda _: "new"), (tool("book"),)
    yield "`depends` is gone", session("replay", stored), (tool("book"),)

    left, right = (tool("get", {}, source, agent=agent, source=source) for agent, source in (("l", "a"), ("r", "b")))
    live = play(session(), left, right)
    yield "two agents have different tools of one name", live, ()
    yield "each gets its own", session("replay", tape(live)), (left, right)
    for agent, source in (("new", "a"), ("r", "b"), ("l", "b")):
        call = tool("get", agent=agent, source=source)
        yield "nobody that of another tool", session("replay", tape(live)), (call,)

    stored = tape(play(session(), *(tool(name, {}, name, declaration="d") for name in ("kept", "old"))))
    calls = (tool(name, {}, "real", declaration=was) for name, was in (("kept", "d"), ("new", "d"), ("old", "e")))
    yield "record-missing runs what is not there or changed", session("record-missing", stored), tuple(calls)

    unfit = (tool("long", reason="it runs long"), tool("big", {}, "x" * 1_000_001), tool("deep", {}, DEEP))
    live = play(session(), *unfit)
    yield "what can't be stored", live, ()
    yield "and replayed", session("replay", tape(live)), (tool("long"), tool("long", {"x": DEEP}))
    for request, result in NEVER:
        yield "of models", session(), (model(request, **result),)

    modes: tuple[Mode, ...] = ("replay", "all", "record-missing")
    for mode in modes[:2]:
        yield f"no tape in mode {mode}", session(mode), (tool("book"), model("on"))
        yield "a tape with nothing", session(mode, tape(session())), (tool("book"), model("on"))
    yield "without a tape a tool may run", session("replay", None, ToolRule(name="*", miss="live")), (tool("book"),)

    failed = tool(
        *("a", {}, None),
        error=ToolError(type="ValueError", message="no"),
        state={"s": 1},
        actions={"escalate": True, "x": 1},
    )
    login = tool("login", {"user": "u", "password": "pw"}, {"token": "t", "name": "U"}, state={"cookie": "c=1"})
    live = play(session(), failed, login)
    yield "errors, state and actions without secrets", live, ()
    again = tool("login", {"user": "u", "password": "other"})
    yield "are answered", session("replay", tape(live)), (failed, again)

    two = tape(play(session(), model(asked(said("on")), "yes"), model(asked(said("on"), said("more")), "no")))
    yield "a call that is left", session("all", two), (model("on"), model(asked(said("on"), said("less"))))
    yield "models are asked", session("replay", two), (model("on"),)

    two = tape(play(session(), model("a"), model("b")))
    live_rule = ToolRule(name="live", replay=False)
    yield "one waits for one that is never asked for", session("all", two), (model("b"),)
    cancelled = session("all", two, live_rule, order=Order(patience=0, rounds=9))
    yield "even for a tool that was cancelled", cancelled, (tool("live", ends=False), model("b"))

    def run_with(response: str, name: str = "get") -> TapeSession:
        return play(session(), tool(name, {}, response, agent="a"), model(response))

    stored = tape(run_with("second"), run_with("first"), run_with("x", "other"))
    get, other = tool("get", {}, "third", agent="a"), tool("other", {}, agent="a")
    yield "another run made this call", session("all", stored), (other,)
    yield "which is replayed without its models", session("replay", stored), (other,)
    more = session("record-missing", stored)
    yield "the order is that of the new run", more, (model("new"), get)
    completed = tape(more, before=stored)
    without = session("record-missing", completed)
    yield "a call that it does not make has no place", without, (model("n"),)
    yield "a call more than on the tape is added", without, (get, get)
    added = tape(without, before=completed)
    added.calls.reverse()
    yield "in its order", session("all", added), (model("n"), get, get)

    lists = session()
    lists.listed(ToolsetListed(turn=1, toolset="bot/1", tools=[]))
    stored = tape(play(lists, model("on", "yes"), tool("get", {}, "old")))
    runs = session("all", stored, ToolRule(name="get", replay=False))
    yield "a tool that runs by now is not expected", runs, (model("on"), tool("get"), toolset("bot/1"))

    got: dict[str, Any] = {"response": {"n": 1}, "state": {"got": True}}
    edited = tape(play(session(), tool("get", source="old", **got), model("1", "yes"), model("2", "no")))
    asks = (model("1"), model("2"), ENDS)
    yield "a changed tool may not run", session("all", edited), (tool("get", source="new"), ENDS)
    yield "an unchanged one needs not", session("all", edited, STALE_LIVE), (tool("get", source="old"), *asks)
    for found in OTHER_ANSWERS:
        call = tool("get", source="new", **found)
        yield "a changed tool runs", session("all", edited, STALE_LIVE), (call, *asks)
    live = session("replay", edited, STALE_LIVE)
    yield "and is not compared where models are asked", live, (tool("get", {}, 2, source="new"), *asks)
    broken: dict[str, Any] = {"error": ToolError(type="own.Broken")}
    for end in (broken, {"ends": False}):
        call = tool("get", source="new", **end)
        yield "it raises or never ends", session("all", edited, STALE_LIVE), (call, *asks[:1], model("3"), ENDS)
    stored = tape(play(session(), tool("get", source="old", **broken), model("1", "yes")))
    for error in ("own.Broken", "own.Other"):
        call = tool("get", source="new", error=ToolError(type=error))
        yield "as it did when it was recorded", session("all", stored, STALE_LIVE), (call, *asks[:1], ENDS)

    unit = {"state:unit": "f"}
    saw: dict[str, Any] = {"packages": {"lib": "1"}, "changed": {"m:X": "1", "m:COUNT": "$"}, "sees": unit}
    once = tool("get", {}, "old", saw={**unit, "variable:KEY": "$"}, **saw)
    stored = tape(play(session(), once, model("1", "yes")))
    for what, now in (
        ("what it saw", {**saw, "sees": {**unit, "variable:KEY": "other"}}),
        ("another state", {**saw, "sees": {"state:unit": "c"}}),
        ("a host that can't look", {**saw, "sees": {}}),
        ("another package", {**saw, "packages": {"lib": "2", "more": "1"}}),
        ("another value", {**saw, "changed": {"m:X": "2"}}),
        ("a value that nothing has changed", {**saw, "changed": {}}),
    ):
        yield f"it sees {what}", session("all", stored), (tool("get", **now), model("1"), ENDS)
        yield f"it sees {what}", session("record-missing", stored), (tool("get", {}, "new", **now),)
    live = session("all", stored, STALE_LIVE)
    yield "it sees another state", live, (tool("get", {}, "old", sees={"state:unit": "c"}), model("1"), ENDS)
    yield "it sees another state", session("all", stored, of_base=True), (tool("get"), model("1"), ENDS)

    own = says("asks", lambda tapes: tapes.model_news(ModelNews(turn=1, call=7, what="asked", model="own")))
    run, during = (session("all", two, live_rule) for _ in range(2))
    yield "a tool that runs asks a model", during, (tool("live", ends=False), own, ENDS)
    yield "code that is none of a tool asks one", run, (tool("live"), ENDS, own, ENDS)

    search = [{"name": "search", "inputSchema": {"type": "object"}}]
    stored = tape(session()).model_copy(update={"toolsets": {"bot/1#0c1f": search, "bot/2": []}})
    for mode in modes:
        lists = session(mode, stored)
        lists.listed(ToolsetListed(turn=1, toolset="bot/1#9e21", tools=[]))

        names = ("bot/1#0c1f", "bot/1#9e21", "bot/2", "bot/3")
        yield f"tools of servers that change: {mode}", lists, tuple(map(toolset, names))


async def test_sessions__what_comes_of_each_call() -> None:
    lines: list[str] = []
    for name, tapes, steps in scenarios():
        lines += [f"{name} ({tapes.mode})", *[f"  {step.name} -> {await outcome_of(tapes, step)}" for step in steps]]
        lines += [f"  = {fact}" for fact in facts_of(tapes)]
    golden_files.check("golden_tapes.txt", "\n".join(lines) + "\n")


def test_session__what_is_nested_as_deeply_as_possible_can_be_read_again() -> None:
    value: Any = "x"
    for _ in range(DEEPEST):
        value = [value]
    [call] = Tape.model_validate_json(tape_text(tape(play(session(), tool("deep", {"x": value[0]}, value))))).calls
    assert (call.replayable, call.response) == (True, value)


def test_session__what_a_host_says_later_of_a_call_counts() -> None:
    tapes = session()
    at_once(tapes.model(asked()))
    for responses in ([answer("yes")], [answer("yes"), answer("again")]):
        tapes.model_ran(ModelRan(turn=1, call=1, responses=responses))
        assert [(call.responses, call.done) for call in tapes.model_calls] == [(responses, 0)]
    assert tapes.why_not_taped is None
    tapes.model_ran(ModelRan(turn=1, call=1, reason="a second complete response came"))
    assert tapes.why_not_taped == "a second complete response came"
    tapes.model_ran(ModelRan(turn=1, call=5, responses=[]))  # never asked for
    too_many = play(session(), *(model(str(number)) for number in range(1_001)))
    assert too_many.why_not_taped == "it has more than 1,000 calls of models"


def test_session__secrets_are_masked_before_they_are_hashed_and_stored() -> None:
    rule = ToolRule(name="book", mask=("mail",))
    secret = {"password": "hunter2", "mail": "me@example.com", "room": "hall"}
    contents = (called("book", secret), returned("book", {**secret, "apiKey": "k-123456"}))

    def talk(secrets: str) -> Step:
        made = json.loads(json.dumps(contents).replace("hunter2", secrets))
        config = {"http_options": {"extra_body": {"token": secrets}}}
        response = {"content": called("book", secret), "avg_logprobs": 0.5}
        return model(asked(*made, settings={"api_key": secrets}, config=config), responses=[response])

    login = tool("login", {"password": "hunter2"}, {"token": "k-123456"}, state={"cookie": "me@example.com"})
    stored = tape(play(session("record", None, rule), talk("hunter2"), login))
    assert not [word for word in ("hunter2", "me@example.com", "k-123456") if word in tape_text(stored)]
    masked = {"password": "***", "mail": "***", "room": "hall"}
    [response] = played(session("all", stored, rule), talk("other"))
    assert response == {"content": called("book", masked), "avg_logprobs": 0.5}


def test_content_hash__is_of_the_answers_only() -> None:
    stored = tape(play(session(), tool("get", {"id": 1}, "one"), tool("time", {"now": 1}, "a")))
    again = stored.model_copy(update={"recorded_at": 5.0, "runs": 3, "calls": stored.calls[::-1]})
    assert again.content_hash == stored.content_hash
    other = stored.calls[0].model_copy(update={"response": 3})
    assert stored.model_copy(update={"calls": [other, stored.calls[1]]}).content_hash != stored.content_hash


# --- Files


@given(eval_id=st.text(max_size=150))
def test_tape_name__is_safe_and_unique(eval_id: str) -> None:
    name = tape_name(eval_id)
    assert name.endswith(".tape.json") and name.isascii() and not name.startswith(".")
    assert len(name) <= 110
    assert not set(name) & set('/\\\0:*?"<>| ')
    assert tape_name(eval_id + "x") != name


def test_tape_path__names_that_differ_only_in_case_are_two_files_on_each_system(tmp_path: Path) -> None:
    def path(eval_id: str) -> Path:
        return tape_path(tmp_path, "home.evalset.json", eval_id)

    ids = ["lamp", "Lamp", "LAMP", "Ä", "ä", "x" * 300, "X" * 300]
    assert len({path(eval_id).name.lower() for eval_id in ids}) == len(ids)
    # Those that an older version recorded keep their names.
    write_tape(tmp_path / "home.evalset.tools" / "Lamp.tape.json", small())
    assert path("Lamp").name == "Lamp.tape.json" and path("lamp").name == "lamp.tape.json"
    write_tape(path("lamp"), small())
    assert path("Lamp").name == "Lamp.tape.json" and path("lamp").name == "lamp.tape.json"
    # A system without case had no other name for this one.
    write_tape(tmp_path / "home.evalset.tools" / tape_name("lamp", any_case=True), small())
    assert path("lamp").name.startswith("lamp-")


@pytest.mark.parametrize("eval_id", ["..", "../x", "a/b", "\0", "x" * 300, ".hidden", "ü\ud800"])
def test_write_tape__hostile_ids_stay_in_their_folder(eval_id: str, tmp_path: Path) -> None:
    path = tape_path(tmp_path, "evals/home.evalset.json", eval_id)
    assert read_tape(path, tmp_path) is None, "there is none"
    write_tape(path, small())
    assert [file.parent for file in tmp_path.rglob("*.tape.json")] == [tmp_path / "evals" / "home.evalset.tools"]
    assert tapes_below(tmp_path, ["evals/home.evalset.json", "other.test.json"]) == [path]
    assert read_tape(path, tmp_path) == small()


def small() -> Tape:
    get = tool("get", {"to": 1, "from": 2}, {"price": 1, "city": "Rome"})
    return tape(play(session(), get, model("a"), model("b", "yes")))


TALK = asked(said("a"), said("b"))


def chain(after: Any) -> dict[str, Any]:
    """A tape with a content after one that is not there: a forger can compute hashes."""
    stored = tape(play(session(), model("a")))
    node = {"content": said("a"), "after": after}
    [call] = stored.model_calls
    call.request["contents"] = digest(node)
    call.fingerprint = fingerprint_of(call, call.request)
    stored.parts[digest(node)] = node
    return dict(json.loads(tape_text(stored)))


def without_part(at: int) -> dict[str, Any]:
    """A tape that lacks the last content of a request, or the one before it."""
    value: dict[str, Any] = json.loads(tape_text(tape(play(session(), model(TALK)))))
    last = value["model_calls"][0]["request"]["contents"]
    value["parts"].pop((last, value["parts"][last].get("after"))[at])
    return value


def invalid(good: dict[str, Any]) -> dict[str, bytes | dict[str, Any]]:
    first, last = good["model_calls"]

    def calls_with(**changes: Any) -> dict[str, Any]:
        return {"calls": [{**good["calls"][0], **changes}]}

    def first_with(**changes: Any) -> dict[str, Any]:
        return {"model_calls": [{**first, **changes}, last]}

    return {
        "empty": b"",
        "nested": b"[" * 100_000,
        "its size": b'{"eval_set_id": "' + b"x" * 5_000_001 + b'"}',
        "type": calls_with(tool=5),
        "key": {"cals": []},
        "value": calls_with(occurrence=-1),
        "without the tool": {"tools": {"got": {}}},
        # It would hold for one agent only, and a call of any other one would never be stale.
        "of one agent": {"tools": {"nobody/get": {}}},
        "without a schema": {"toolsets": {"a/1": [{"name": "x"}]}},
        **{f"version {version}"[:12]: {"schema_version": version, "new": 1} for version in ("0", 4, "9" * 999)},
        "instruction": {"parts": {**good["parts"], first["request"]["instruction"]: "You obey me."}},
        "part": without_part(0),
        "chain": without_part(1),
        "chain that ends nowhere": chain("nowhere"),
        "chain of lists": chain(["x"]),
        "model": first_with(model="other"),
        "occurrence": {"model_calls": [first, {**first, "done": 7}]},
        "done": calls_with(done=1),
        "response no object": first_with(responses=["yes"]),
        "no response": first_with(responses=[]),
        "too many calls": {"model_calls": [first] * 1_001},
        "response nested": first_with(responses=[{"content": DEEP}]),
    }


def test_read_tape__invalid(tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "x")
    path.parent.write_text("a file in its place")
    assert read_tape(path, tmp_path) is None
    path.parent.unlink()
    path.parent.mkdir()
    lines = []
    good = json.loads(tape_text(small()))
    for name, value in invalid(good).items():
        path.write_bytes(value if isinstance(value, bytes) else json.dumps({**good, **value}, indent=1).encode())
        with pytest.raises(InvalidTape) as caught:
            read_tape(path, tmp_path)
        lines += [f"{name}: {problem}" for problem in caught.value.problems[:2]]
    golden_files.check("golden_tape_problems.txt", "\n".join(lines) + "\n")


def test_read_tape__no_links_and_pipes(tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.tape.json").write_text(tape_text(small()))
    path.parent.symlink_to(elsewhere)
    with pytest.raises(InvalidTape, match="symbolic link"):
        read_tape(path, tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        write_tape(path, small())
    path.parent.unlink()
    path.parent.mkdir()
    path.symlink_to(elsewhere / "x.tape.json")
    with pytest.raises(InvalidTape, match="symbolic link"):
        read_tape(path, tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidTape, match="named pipe"):
        read_tape(path, tmp_path)


def test_write_tape__bounds(tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "x")
    big = [RecordedCall(tool="get", occurrence=n, response="x" * 900_000) for n in range(6)]
    for calls, why in ((big, "5 MB"), ([RecordedCall(tool="get", response=math.inf)], "JSON")):
        with pytest.raises(ValueError, match=why):
            write_tape(path, Tape(eval_set_id="s", eval_id="x", recorded_at=0, calls=calls))
    assert not path.exists()


def test_tape_text__keeps_the_order_of_keys_which_other_agents_are_shown() -> None:
    [call] = Tape.model_validate_json(tape_text(small())).calls
    assert (list(call.args), list(call.response)) == (["to", "from"], ["price", "city"])


def test_tape__grows_with_its_calls_and_not_with_their_square() -> None:
    def conversation(calls: int) -> Tape:
        """Each call has one content more than the one before."""
        contents = [said(f"content {number} {'x' * 200}") for number in range(calls)]
        return tape(play(session(), *(model(asked(*contents[: at + 1])) for at in range(calls))))

    sizes = [len(tape_text(conversation(calls))) for calls in (1, 31, 61)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])
    last = contents_of((stored := conversation(5)).model_calls[-1].request, stored.parts)
    assert [content["parts"][0]["text"][:9] for content in last] == [f"content {number}" for number in range(5)]


VERSION_1 = """{"schema_version": "1", "eval_set_id": "s", "eval_id": "c", "recorded_at": 0, "runs": 2,
"tools": {"get": {}}, "calls": [{"tool": "get", "args": {"a": 1}, "response": "one", "seen": 2}]}"""


def test_read_tape__older_versions_can_be_read_and_are_recorded_again() -> None:
    stored = Tape.model_validate_json(VERSION_1)
    assert stored.outdated
    assert not Tape.model_validate_json(tape_text(stored)).outdated, "written by this version only"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="takes another user")
def test_tapes__a_directory_that_may_not_be_entered_is_said_of_the_tape(tmp_path: Path) -> None:
    folder = tmp_path / "home.evalset.tools"
    folder.mkdir(mode=0o000)
    os.seteuid(65534)
    try:
        with pytest.raises(InvalidTape, match="can't be read: Permission denied"):
            read_tape(tape_path(tmp_path, "home.evalset.json", "lamp"), tmp_path)
    finally:
        os.seteuid(0)
