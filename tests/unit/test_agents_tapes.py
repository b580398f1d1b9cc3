"""Tapes: which calls are the same, what a session decides, how tapes are made, written and read."""

from __future__ import annotations

import json
import math
import os
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import json_values
from hypothesis import given
from hypothesis import strategies as st
from tape_samples import at_once, session, tape

from agent_eval.agents.messages import ToolAsked, ToolError, ToolRan
from agent_eval.agents.tapes import (
    InvalidTape,
    Obstacle,
    RecordedCall,
    Tape,
    TapeSession,
    ToolHashes,
    ToolPolicy,
    ToolRule,
    ToolRules,
    Unanswerable,
    canonical,
    changing_arguments,
    masked,
    read_tape,
    tape_name,
    tape_of,
    tape_path,
    tape_text,
    tapes_below,
    write_tape,
)
from agent_eval.agents.tapes._tape import DEEPEST

calls = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))), max_size=12
)


class Player:
    """Plays calls to a session, as a host does."""

    def __init__(self, tapes: TapeSession, **identity: Any) -> None:
        self.tapes = tapes
        self.identity = identity
        self.count = 0

    def call(self, tool: str, args: dict[str, Any], answer: Any = None, **outcome: Any) -> Any:
        """What the agent gets: the tape's answer, or the tool's own as it runs."""
        self.count += 1
        asked = ToolAsked(turn=1, call=self.count, name=tool, args=args, agent="agent", **self.identity)
        decision = at_once(self.tapes.ask(asked))
        if decision["do"] == "answer":
            return decision["response"]
        self.tapes.ran(ToolRan(turn=1, call=self.count, response=answer, **outcome))
        return answer


def recorded(*made: tuple[str, dict[str, Any], Any], **identity: Any) -> Tape:
    player = Player(session(), **identity)
    for tool, args, answer in made:
        player.call(tool, args, answer)
    return tape(player.tapes)


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


arguments = st.dictionaries(st.text(max_size=3), json_values(st.text(max_size=3), most=6), max_size=3)


@given(left=arguments, right=arguments)
def test_canonical__equal_exactly_for_equal_json(left: dict[str, Any], right: dict[str, Any]) -> None:
    policy = ToolPolicy()
    assert (canonical(left, policy) == canonical(right, policy)) == (reference(left) == reference(right))
    again = json.loads(json.dumps(dict(reversed(left.items()))))
    assert canonical(again, policy) == canonical(left, policy)


@pytest.mark.parametrize(
    ("policy", "left", "right", "same"),
    [
        (ToolPolicy(), {"n": 1}, {"n": 1.0}, True),
        (ToolPolicy(), {"n": 1}, {"n": True}, False),
        (ToolPolicy(), {"n": "1"}, {"n": 1}, False),
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
    value = {
        "Api-Key": "k",
        "user": {"email": "e", "name": "n"},
        "list": [{"token": "t", "max_tokens": 5}],
        "cookie": "",
        "accessToken": "a",
    }
    assert masked(value, ToolPolicy(mask=("user.email", "not.there"))) == {
        "Api-Key": "***",
        "user": {"email": "***", "name": "n"},
        "list": [{"token": "***", "max_tokens": 5}],
        "cookie": "",
        "accessToken": "***",
    }


def test_masked__names_that_end_like_a_secrets() -> None:
    secret = "x-api-key authToken session_token private_key passwd DB_PASSWORD aws_secret_access_key app-secret idtoken"
    plain = "max_tokens token_count next_page_token pageToken paid_token primary_key secretary tokens secret_id"
    assert masked(dict.fromkeys(secret.split(), "s"), ToolPolicy()) == dict.fromkeys(secret.split(), "***")
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
    assert rules.of("other") == ToolPolicy(miss="live")
    assert rules.of("unnamed") == ToolPolicy()


# --- Sessions


@given(made=calls, answers=st.lists(st.integers(), min_size=12, max_size=12))
def test_session__what_was_recorded_replays_itself(made: list[tuple[str, dict[str, int]]], answers: list[int]) -> None:
    live = Player(session())
    expected = [live.call(tool, args, answer) for (tool, args), answer in zip(made, answers, strict=False)]
    stored = Tape.model_validate_json(tape_text(tape(live.tapes)))
    replay = Player(session("replay", stored))
    assert [replay.call(tool, args) for tool, args in made] == expected
    assert (replay.tapes.use.replayed, replay.tapes.use.missed) == (len(made), 0)
    # Occurrences count the earlier calls with the same arguments.
    counts: Counter[str] = Counter()
    for (tool, args), call in zip(made, live.tapes.recorded, strict=True):
        key = f"{tool} {sorted(args.items())}"
        assert call.occurrence == counts[key]
        counts[key] += 1


def test_session__a_miss_never_shows_what_a_newer_rule_masks() -> None:
    stored = recorded(("book", {"room": "a", "email": "x@example.com"}, 1))
    player = Player(session("replay", stored, ToolRule(name="book", mask=("email",))))
    assert player.call("book", {"room": "a", "email": "y@example.com"}) == 1
    nearest = refused(player, "book", {"room": "b", "email": "y@example.com"}).nearest
    assert nearest is not None
    assert nearest.args == {"room": "a", "email": "***"}


USED = {"": "f", "self": "A", "self.url": "a", "self.id": "y"}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"declaration": "new"}, "its declaration"),
        ({"source": "new"}, "the file that defines it"),
        ({"declaration": "new", "source": "new"}, "its declaration and the file that defines it"),
        ({"implementation": {"": "new", "self": "A"}}, "the function or object behind it (it was f, it is new)"),
        (
            {"implementation": {"": "f", "self.url": "$", "self.id": "x"}},
            "a value that the function or object behind it holds (self, self.id)",
        ),
        ({"implementation": USED | {"home.settings:URL": "b"}}, "something that its code uses (home.settings:URL)"),
    ],
)
def test_session__a_changed_tool(changes: dict[str, Any], what: str) -> None:
    identity: dict[str, Any] = {"declaration": "d", "source": "s", "implementation": USED}
    stored = recorded(("book", {}, 1), **identity)
    identity |= changes
    strict = Player(session("replay", stored), **identity)
    unanswered = refused(strict, "book")
    assert (unanswered.obstacle, unanswered.why) == (Obstacle.STALE, what)
    lenient = Player(session("replay", stored, ToolRule(name="*", stale="warn")), **identity)
    assert lenient.call("book", {}) == 1
    assert lenient.tapes.changed == {"book": what}
    base = Player(session("replay", stored, of_base=True), **identity)
    assert base.call("book", {}) == 1
    assert base.tapes.changed == {}


def test_session__two_agents_have_different_tools_of_one_name() -> None:
    def ask(tapes: TapeSession, number: int, agent: str, source: str) -> Any:
        asked = ToolAsked(turn=1, call=number, name="get", agent=agent, args={}, source=source)
        return at_once(tapes.ask(asked)).get("response")

    live = session()
    for number, (agent, source) in enumerate((("left", "a"), ("right", "b"))):
        ask(live, number, agent, source)
        live.ran(ToolRan(turn=1, call=number, response=source))
    stored = tape(live)
    replay = session("replay", stored)
    assert [ask(replay, 1, "left", "a"), ask(replay, 2, "right", "b")] == ["a", "b"]
    # An agent of another name with the same tool gets its answer, and no agent that of another tool.
    assert ask(session("replay", stored), 1, "new", "a") == "a"
    for agent in ("right", "left"):
        with pytest.raises(Unanswerable) as caught:
            ask(session("replay", stored), 1, agent, "b")
        assert (caught.value.obstacle, caught.value.why) == (Obstacle.STALE, "the file that defines it")


def test_session__a_changed_file_that_the_tool_depends_on() -> None:
    rule = ToolRule(name="book", depends=("db/**",))
    live = Player(session("record", None, rule, depends=lambda patterns: f"old {patterns}"))
    live.call("book", {}, 1)
    stored = tape(live.tapes)
    changed = Player(session("replay", stored, rule, depends=lambda patterns: f"new {patterns}"))
    assert refused(changed, "book").why == "a file that it depends on"
    assert refused(Player(session("replay", stored)), "book").why == "`depends` of its [[tool]]", "the rule is gone"


def test_session__record_missing_runs_what_is_not_there_or_changed() -> None:
    stored = recorded(("kept", {}, 1), ("old", {}, 2), declaration="d")
    player = Player(session("record-missing", stored), declaration="d")
    assert player.call("kept", {}, "real") == 1
    assert player.call("new", {}, "real") == "real"
    changed = Player(player.tapes, declaration="e")
    changed.count = 10
    assert changed.call("old", {}, "real") == "real"
    completed = tape(player.tapes, before=stored)
    assert {call.tool: call.response for call in completed.calls} == {"kept": 1, "new": "real", "old": "real"}
    assert completed.tools["old"].declaration == "e"


def test_session__what_can_not_be_stored() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    player = Player(session())
    player.call("long", {}, reason="it runs long")
    player.call("big", {}, "x" * 1_000_001)
    player.call("deep", {}, deep)
    assert [(call.tool, call.replayable, call.response) for call in player.tapes.recorded] == [
        ("long", False, None),
        ("big", False, None),
        ("deep", False, None),
    ]
    replay = Player(session("replay", tape(player.tapes)))
    unanswered = refused(replay, "long")
    assert (unanswered.obstacle, unanswered.why) == (Obstacle.NOT_REPLAYABLE, "it runs long")
    refused(replay, "long", {"x": deep})


def test_session__what_is_nested_as_deeply_as_possible_can_be_read_again() -> None:
    value: Any = "x"
    for _ in range(DEEPEST):
        value = [value]
    player = Player(session())
    player.call("deep", {"x": value[0]}, value)
    [call] = Tape.model_validate_json(tape_text(tape(player.tapes))).calls
    assert (call.replayable, call.response) == (True, value)


def refused(player: Player, tool: str, args: dict[str, Any] | None = None) -> Unanswerable:
    with pytest.raises(Unanswerable) as caught:
        player.call(tool, args or {})
    return caught.value


def test_session__without_a_tape() -> None:
    assert refused(Player(session("replay", None)), "book").obstacle is Obstacle.MISSING
    lenient = Player(session("replay", None, ToolRule(name="*", miss="live")))
    assert lenient.call("book", {}, "real") == "real"
    assert (lenient.tapes.use.live, lenient.tapes.recorded) == (1, [])


def test_session__errors_state_and_actions_are_answered_without_secrets() -> None:
    live = Player(session())
    error = ToolError(type="ValueError", message="no")
    live.call("a", {}, None, error=error, state={"s": 1}, actions={"escalate": True, "x": 1})
    live.call("login", {"user": "u", "password": "hunter2"}, {"token": "abc123", "name": "U"}, state={"cookie": "c=1"})
    text = tape_text(tape(live.tapes))
    assert not [secret for secret in ("hunter2", "abc123", "c=1") if secret in text]
    assert live.tapes.masked == {"login(token)", "login(cookie)"}
    replay = session("replay", Tape.model_validate_json(text))
    assert at_once(replay.ask(ToolAsked(turn=1, call=1, name="a"))) == {
        "do": "answer",
        "response": None,
        "state": {"s": 1},
        "actions": {"escalate": True},
        "error": {"type": "ValueError", "message": "no"},
    }
    answer = Player(replay).call("login", {"user": "u", "password": "other"})
    assert answer == {"token": "***", "name": "U"}, "it is found again"


# --- Making tapes


def test_tape_of__several_runs() -> None:
    first, second = Player(session()), Player(session())
    first.call("get", {"id": 1}, "one")
    first.call("time", {"now": 1}, "a")
    second.call("get", {"id": 1}, "two")
    second.call("time", {"now": 2}, "a")
    second.call("more", {}, "c")
    taped = tape_of([first.tapes, second.tapes], ToolRules())
    assert [(call.tool, call.args, call.response, call.seen) for call in taped.calls] == [
        ("get", {"id": 1}, "one", 2),
        ("time", {"now": 1}, "a", 1),
        ("time", {"now": 2}, "a", 1),
        ("more", {}, "c", 1),
    ]
    assert [call.response for call in taped.conflicts] == ["two"]
    assert changing_arguments([first.tapes, second.tapes]) == {"time(now)"}
    assert changing_arguments([first.tapes]) == set()
    stored = tape(first.tapes)
    again = stored.model_copy(update={"recorded_at": 5.0, "runs": 3, "calls": stored.calls[::-1]})
    assert again.content_hash == stored.content_hash, "it is of the answers only"
    answer = stored.calls[0].model_copy(update={"response": 3})
    assert stored.model_copy(update={"calls": [answer, stored.calls[1]]}).content_hash != stored.content_hash


# --- Files


@given(eval_id=st.text(max_size=150))
def test_tape_name__is_safe_and_unique(eval_id: str) -> None:
    name = tape_name(eval_id)
    assert name.endswith(".tape.json")
    assert len(name) <= 110
    assert name.isascii()
    assert not name.startswith(".")
    assert not set(name) & set('/\\\0:*?"<>| ')
    assert tape_name(eval_id + "x") != name


@pytest.mark.parametrize("eval_id", ["..", "../x", "a/b", "\0", "x" * 300, ".hidden", "ü\ud800"])
def test_write_tape__hostile_ids_stay_in_their_folder(eval_id: str, tmp_path: Path) -> None:
    path = tape_path(tmp_path, "evals/home.evalset.json", eval_id)
    stored = recorded(("get", {}, 1))
    write_tape(path, stored)
    assert [file.parent for file in tmp_path.rglob("*.tape.json")] == [tmp_path / "evals" / "home.evalset.tools"]
    assert tapes_below(tmp_path, ["evals/home.evalset.json", "other.test.json"]) == [path]
    assert read_tape(path, tmp_path) == stored


GOOD = tape_text(recorded(("get", {"a": 1}, 1)))
VERSION = '"schema_version": "2"'
INVALID = {
    "empty-file": "",
    "nested-too-deeply": "[" * 100_000,
    "wrong-type": GOOD.replace('"tool": "get"', '"tool": 5'),
    "unknown-key": GOOD.replace('"calls"', '"cals"'),
    "invalid-value": GOOD.replace('"occurrence": 0', '"occurrence": -1'),
    "tape-invalid without the tool": GOOD.replace('"get": {}', '"got": {}'),
    # It would hold for one agent only, and a call of any other one would never be stale.
    "tape-invalid of one agent": GOOD.replace('"get": {}', '"nobody/get": {}'),
    "tape-invalid without a schema": GOOD.replace('"tools"', '"toolsets": {"a/1": [{"name": "x"}]}, "tools"'),
    "tape-invalid by its size": '{"eval_set_id": "' + "x" * 5_000_001 + '"}',
    **{
        f"tape-invalid has version {shown} of the schema; this agent-eval reads 1 and 2": GOOD.replace(
            VERSION, f'"schema_version": {version}, "new": 1'
        )
        for version, shown in (('"0"', "0"), ("3", "3"), ('"' + "9" * 999 + '"', "9" * 20))
    },
}


@pytest.mark.parametrize("name", INVALID)
def test_read_tape__invalid(name: str, tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "x")
    assert read_tape(path, tmp_path) is None, "there is none"
    path.parent.write_text("a file in its place")
    assert read_tape(path, tmp_path) is None
    path.parent.unlink()
    path.parent.mkdir()
    path.write_text(INVALID[name])
    with pytest.raises(InvalidTape) as caught:
        read_tape(path, tmp_path)
    problem = caught.value.problems[0]
    code, _, says = name.partition(" ")
    assert (problem.code, problem.file) == (code, "a.test.tools/x.tape.json")
    assert says in problem.message or "version" not in says
    assert (problem.line == 10) == (code == "wrong-type")
    assert problem.hint is not None
    assert problem.hint.startswith("Record the case again"), "not: correct it, remove a key, write an eval set"


def test_read_tape__no_links_and_pipes(tmp_path: Path) -> None:
    path = tape_path(tmp_path, "a.test.json", "x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.tape.json").write_text(GOOD)
    path.parent.symlink_to(elsewhere)
    with pytest.raises(InvalidTape, match="symbolic link"):
        read_tape(path, tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        write_tape(path, recorded(("get", {}, 1)))
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
    big = Tape(
        eval_set_id="s",
        eval_id="x",
        recorded_at=0,
        tools={"get": ToolHashes()},
        calls=[RecordedCall(tool="get", occurrence=n, response="x" * 900_000) for n in range(6)],
    )
    with pytest.raises(ValueError, match="5 MB"):
        write_tape(path, big)
    with pytest.raises(ValueError, match="JSON"):
        write_tape(path, recorded(("get", {}, math.inf)))
    assert not path.exists()
