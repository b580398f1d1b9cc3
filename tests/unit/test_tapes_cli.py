"""The command `agent-eval tapes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from base_repos import new_repo
from tape_samples import asked, called, model, play, returned, said, session, tape, tool

from agent_eval.agents.messages import ToolError
from agent_eval.agents.tapes import RecordedRun, TapeSession, tape_path, write_tape
from agent_eval.cli import main

TURN = {"user_content": {"parts": [{"text": "on"}]}, "final_response": {"parts": [{"text": "ok"}]}}


def test_show__lists_questions_and_answers_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evals = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [TURN]}]}
    (tmp_path / "a.test.json").write_text(json.dumps(evals))
    live, other = session(), session()
    switched, on = [{"content": called("switch", {"room": "hall"})}], {"now": "on"}
    play(live, model("on\n::error::now \x1b[2J", responses=switched), tool("switch", {"room": 0}, on))
    play(live, model(asked(said("on"), returned("switch", on)), "It is " + "very " * 50 + "on."))
    play(other, tool("switch", {"room": 1}, on, error=ToolError(type="Busy")))
    write_tape(tape_path(tmp_path, "a.test.json", "c"), tape(live, other))
    monkeypatch.chdir(tmp_path)

    assert main(["tapes"]) == 0
    [line, total] = capsys.readouterr().out.splitlines()
    assert line.startswith("a.test.json:c: 2 calls; switch; 2 model calls; ")
    assert total == "1 tape"

    assert main(["tapes", "a.test.json:c", "--show"]) == 0
    shown = capsys.readouterr().out.splitlines()[1:-1]
    assert shown[0].startswith('  bot: gemini asked "on\\n')
    assert "::error" not in shown[0] and "\x1b" not in shown[0] and shown[0].endswith(" -> switch()")
    assert shown[1] == '  bot: switch(room=0) -> {"now": "on"}'
    assert shown[2].startswith('  bot: gemini asked switch() -> "It is very') and len(shown[2]) < 200
    assert shown[3] == "  bot: switch(room=1) -> Busy (another run)"


def test_diff__shows_calls_that_are_new_gone_or_answered_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = new_repo(tmp_path / "repo")
    cases = [{"eval_id": name, "conversation": [TURN]} for name in ("asks", "answers", "added", "gone", "same", "long")]
    (repo.root / "a.test.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    hello, more = asked(said("Hello")), asked(said("More\n::error::now"))

    def write(name: str, live: TapeSession, value: int = 1) -> None:
        play(live, tool("switch", {"room": "hall"}, {"now": value}))
        recorded = RecordedRun(
            scores={"response_match_score": (1 / value, "1-"), "invocation_duration_v1": (value, "1-")}
        )
        write_tape(tape_path(repo.root, "a.test.json", name), tape(live).model_copy(update={"recorded": recorded}))

    for name in ("asks", "answers", "gone", "same", "long"):
        write(name, play(session(), model(hello, "Hi."), model(more, "All.")))
    repo.commit({})
    calm = asked(said("Hello"), instruction="You are a calm lamp.")
    write("asks", play(session(), model(calm, "Hi."), model(more, "All.")))
    write("answers", play(session(), model(hello, "Hi."), model(more, "All of it.")), value=2)
    write("added", play(session(), model(hello, "Hi.")))
    write("long", play(session(), *(model(str(number), "Hi.") for number in range(20))))
    tape_path(repo.root, "a.test.json", "gone").unlink()
    monkeypatch.chdir(repo.root)

    assert main(["tapes", "--diff"]) == 0
    shown = capsys.readouterr().out
    blocks = dict(block.split(":\n", 1) for block in shown.rpartition("\n5 tapes")[0].split("a.test.json:")[1:])
    assert "::error" not in shown and shown.endswith("5 tapes changed since HEAD\n")
    assert blocks["asks"].splitlines() == [
        '  - bot: gemini asked "Hello" -> "Hi."',
        '  + bot: gemini asked "Hello" -> "Hi."',
        '  first difference of a request: instruction: "You are a lamp." -> "You are a calm lamp."',
    ]
    assert blocks["answers"].replace("\u200b", "").splitlines() == [
        '  ~ bot: gemini asked "More\\n::error::now" -> "All of it." (before: "All.")',
        '  ~ bot: switch(room="hall") -> {"now": 2} (before: {"now": 1})',
        "  response_match_score 1 -> 0.5",
    ]
    assert [line[:4] for line in blocks["added"].splitlines()] == ["  + "] * 2
    assert [line[:4] for line in blocks["gone"].splitlines()] == ["  - "] * 3
    assert blocks["long"].splitlines()[-2] == "  ... 14 more calls"

    repo.commit({})
    assert main(["tapes", "--diff"]) == 0
    assert capsys.readouterr().out == "0 tapes changed since HEAD\n"
    assert main(["tapes", "a.test.json:asks", "--diff", "HEAD~"]) == 0
    assert capsys.readouterr().out.endswith("1 tape changed since HEAD~\n")
    assert main(["tapes", "--diff", "elsewhere"]) == 2
    assert "`elsewhere` is no commit" in capsys.readouterr().err
    tape_path(repo.root, "a.test.json", "asks").write_text("{}")
    assert main(["tapes", "--diff"]) == 2
    assert "a.test.tools/asks.tape.json" in capsys.readouterr().out
