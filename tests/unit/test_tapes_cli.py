"""The command `agent-eval tapes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tape_samples import answer, asked, at_once, called, returned, said, session, tape

from agent_eval.agents.messages import ModelRan, ToolAsked, ToolError, ToolRan
from agent_eval.agents.tapes import tape_path, write_tape
from agent_eval.cli import main

TURN = {"user_content": {"parts": [{"text": "on"}]}, "final_response": {"parts": [{"text": "ok"}]}}


def test_show__lists_questions_and_answers_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evals = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [TURN]}]}
    (tmp_path / "a.test.json").write_text(json.dumps(evals))
    live, other = session(), session()
    at_once(live.model(asked(said("on\n::error::now \x1b[2J"), call=1)))
    live.model_ran(ModelRan(turn=1, call=1, responses=[{"content": called("switch", {"room": "hall"})}]))
    for number, tapes in enumerate((live, other)):
        at_once(tapes.ask(ToolAsked(turn=1, call=9, name="switch", agent="bot", args={"room": number})))
        error = ToolError(type="Busy") if tapes is other else None
        tapes.ran(ToolRan(turn=1, call=9, response={"now": "on"}, error=error))
    at_once(live.model(asked(said("on"), returned("switch", {"now": "on"}), call=2)))
    live.model_ran(ModelRan(turn=1, call=2, responses=[answer("It is " + "very " * 50 + "on.")]))
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
