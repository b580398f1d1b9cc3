"""The chat of `agent-eval record` on a real pseudo-terminal, with a real agent."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from gate_runs import AGENT_EVAL, Repository, repository_in
from pty_terminal import Terminal, on_terminal

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from source_samples import session


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repository", "dice") as made:
        yield made


def chat(repository: Repository, *arguments: str, columns: int = 100) -> Any:
    command = [*AGENT_EVAL, "record", *arguments, "--agent-python", str(adk_python())]
    return on_terminal(command, cwd=repository.root, environment=repository.environment(), columns=columns)


def cases(repository: Repository, name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((repository.root / name).read_text("utf-8"))["eval_cases"]
    return listed


def ask(terminal: Terminal, text: str, answer: str) -> None:
    terminal.type(text)
    terminal.expect(answer)
    terminal.expect(r"you> $")


def test_chat__every_command_becomes_a_case(repository: Repository) -> None:
    with chat(repository, "chat.evalset.json", "--state", '{"room": "attic"}', "--record", "all") as terminal:
        terminal.expect(r"you> $")
        ask(terminal, "/help", r"/quit +leave without writing")
        ask(terminal, "/nonsense", r"There is no command /nonsense")
        for command in ("/retry", "/back"):
            ask(terminal, command, "There is no turn yet")
        ask(terminal, "/state", r'"room": "attic"')
        ask(terminal, "roll", r"One moment\.[\s\S]*→ roll_die\(sides=10\)[\s\S]*← \{.*8.*\}[\s\S]*agent> It is 8\.")
        ask(terminal, "/retry", r"you> roll[\s\S]*agent> It is 8\.")
        terminal.type("two\\")
        terminal.expect(r"\.\.\.> $")
        ask(terminal, "lines 🎲 骰子", r"agent> You said two\n +lines 🎲 骰子\.")
        ask(terminal, "count", r"agent> 4 messages\.")
        terminal.type("/back")
        terminal.expect(r"asks the agent 2 messages again\. Continue\? \[y/N\] $")
        ask(terminal, "n", "")
        terminal.type("/back")
        terminal.expect(r"\[y/N\] $")
        ask(terminal, "y", r"you> roll[\s\S]*It is 8\.[\s\S]*you> two[\s\S]*You said two")
        terminal.type("/save my_chat")
        terminal.expect(r"Added 1 case in chat\.evalset\.json: `my_chat`")
        terminal.expect(r"scored against itself: .*response_match_score 1\.00")
        assert terminal.code() == 0
    [case] = cases(repository, "chat.evalset.json")
    assert (case["eval_id"], case["session_input"]["state"]) == ("my_chat", {"room": "attic"})
    first, second = case["conversation"]
    assert first["intermediate_data"]["tool_uses"] == [{"name": "roll_die", "args": {"sides": 10}}]
    assert second["user_content"]["parts"] == [{"text": "two\nlines 🎲 骰子"}]
    assert second["final_response"]["parts"] == [{"text": "You said two\nlines 🎲 骰子."}]
    # The tape has the tools of the conversation that was kept, not those of earlier attempts.
    tape = json.loads((repository.root / "chat.evalset.tools" / "my_chat.tape.json").read_text("utf-8"))
    assert tape["eval_id"] == "my_chat"
    assert [(call["tool"], call.get("seen", 1)) for call in tape["calls"]] == [("roll_die", 1)]


def test_chat__failures_interrupts_and_the_end_of_input(repository: Repository) -> None:
    with chat(repository, "a.evalset.json", columns=40) as terminal:
        terminal.expect(r"you> $")
        ask(terminal, "raise", r"! agent-exception: [\s\S]*the agent is broken[\s\S]*/retry asks again")
        ask(terminal, "roll", "The last turn has no answer: /retry asks again, /back forgets it")
        ask(terminal, "/save", "can't be part of a case")
        terminal.press("\x04")
        terminal.expect("Ctrl-D again leaves without writing")
        terminal.expect(r"you> $")
        ask(terminal, "/retry", "! agent-exception")
        ask(terminal, "/back", "The chat begins again")
        terminal.type("wait")
        terminal.expect("wait\n")
        time.sleep(1)
        terminal.press("\x03")
        terminal.expect("The turn was broken off")
        terminal.expect(r"you> $")
        ask(terminal, "/back", "The chat begins again")
        ask(terminal, "roll", r"agent> It is 8\.")
        terminal.interrupt(r"Ctrl-C again leaves without writing; /save writes")
        terminal.expect(r"you> $")
        terminal.type("/quit")
        terminal.expect(r"Leave without writing 1 turn\? \[y/N\] $")
        terminal.interrupt(r"you> $")
        terminal.press("\x04")
        terminal.expect("Added 1 case in")
        assert terminal.code() == 0
        assert "Traceback" not in terminal.text
    [case] = cases(repository, "a.evalset.json")
    assert case["eval_id"] == "roll"


@pytest.mark.slow
def test_chat__leaves_without_writing(repository: Repository) -> None:
    with chat(repository, "b.evalset.json") as terminal:
        terminal.expect(r"you> $")
        terminal.interrupt(r"Ctrl-C again leaves without writing; [^\n]*\nyou> $")
        terminal.interrupt(r"\n")
        assert terminal.code() == 130
    with chat(repository, "b.evalset.json") as terminal:
        terminal.expect(r"you> $")
        ask(terminal, "roll", r"agent> It is 8\.")
        terminal.type("/quit")
        terminal.expect(r"\[y/N\] $")
        terminal.type("y")
        terminal.expect("nothing was written")
        assert terminal.code() == 0
    assert not (repository.root / "b.evalset.json").exists()


def test_record_from__asks_which_conversation(repository: Repository) -> None:
    lines = [json.dumps(session(id=name)) for name in ("s-1", "s-2")]
    (repository.root / "runs.jsonl").write_text("\n".join(lines), "utf-8")
    with chat(repository, "c.evalset.json", "--from", "runs.jsonl") as terminal:
        terminal.expect(r"1  .*s-1 [\s\S]*Which conversation \(1 to 2\)\? $")
        terminal.type("2")
        terminal.expect("Added 1 case in c.evalset.json: `turn_off_the_lamp`")
        assert terminal.code() == 0
