"""The command `agent-eval tapes`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import golden_files
import pytest
from base_repos import new_repo
from tape_samples import asked, called, model, play, returned, said, session, tape, tool

from agent_eval.cli import main
from agent_eval_agents.messages import ToolError
from agent_eval_agents.tapes import RecordedRun, TapeSession, tape_path, write_tape

TURN = {"user_content": {"parts": [{"text": "on"}]}, "final_response": {"parts": [{"text": "ok"}]}}
NAMES = ("asks", "answers", "added", "gone", "same", "long", "shown")


def test_tapes__what_they_show_and_how_they_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = new_repo(tmp_path / "repo")
    cases = [{"eval_id": name, "conversation": [TURN]} for name in NAMES]
    (repo.root / "a.test.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    monkeypatch.chdir(repo.root)
    hello, more = asked(said("Hello")), asked(said("More\n::error::now"))
    said_of_them: list[str] = []

    def write(name: str, *sessions: TapeSession, value: int = 1) -> None:
        play(sessions[0], tool("switch", {"room": "hall"}, {"now": value}))
        scores = {"response_match_score": (1 / value, "1-"), "invocation_duration_v1": (float(value), "1-")}
        made = tape(*sessions).model_copy(update={"recorded": RecordedRun(scores=scores)})
        write_tape(tape_path(repo.root, "a.test.json", name), made)

    def run(*arguments: str) -> None:
        code = main(["tapes", *arguments])
        shown = capsys.readouterr()
        text = re.sub(r"[\d.]+ kB|[\d,]+ days", "N", shown.out + shown.err)
        assert "\n::error" not in text and "\x1b" not in text
        said_of_them.append(f"$ agent-eval tapes {' '.join(arguments)} ({code})\n{text}\n")

    live, other = session(), session()
    switched, on = [{"content": called("switch", {"room": "hall"})}], {"now": "on"}
    play(live, model("on\n::error::now \x1b[2J", responses=switched), tool("switch", {"room": 0}, on))
    play(live, model(asked(said("on"), returned("switch", on)), "It is " + "very " * 50 + "on."))
    play(other, tool("switch", {"room": 1}, on, error=ToolError(type="Busy")))
    write("shown", live, other)
    for name in ("asks", "answers", "gone", "same", "long"):
        write(name, play(session(), model(hello, "Hi."), model(more, "All.")))
    repo.commit({})
    run()
    run("a.test.json:shown", "--show")
    calm = asked(said("Hello"), instruction="You are a calm lamp.")
    write("asks", play(session(), model(calm, "Hi."), model(more, "All.")))
    write("answers", play(session(), model(hello, "Hi."), model(more, "All of it.")), value=2)
    write("added", play(session(), model(hello, "Hi.")))
    write("long", play(session(), *(model(str(number), "Hi.") for number in range(20))))
    tape_path(repo.root, "a.test.json", "gone").unlink()
    run("--diff")
    repo.commit({})
    run("--diff")
    run("a.test.json:asks", "--diff", "HEAD~")
    run("--diff", "elsewhere")
    tape_path(repo.root, "a.test.json", "asks").write_text("{}")
    run("--diff")
    golden_files.check("golden_tapes_command.txt", "\n".join(said_of_them))
