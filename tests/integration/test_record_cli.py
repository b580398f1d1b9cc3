"""`agent-eval record` with real agents: messages, stored conversations, refusals, the chat on a real terminal."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import shlex
import shutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gate_server
import host_forks
import pytest
from adk_envs import FIXTURES, adk_python
from fake_adk import FakeAdk, event, served
from gate_runs import AGENT_EVAL, MARK, Done, Repository, program, repository_in, wait_until
from golden_files import check
from loopback import Answer, Request
from pty_terminal import Terminal, on_terminal
from source_samples import event as stored_event
from source_samples import session, turn
from test_sources_adk import produce

from agent_eval_scoring.core.problem import docs_page
from agent_eval_workbench.setup._plan import _CONFIG as CRITERIA_OF_INIT

# `agent-eval record` with real agents: messages, stored conversations, existing files, refusals.


ROOT = Path(__file__).parents[2]
TOKEN = "s3cret-token-of-the-server"
SCRIPTED = """from itertools import count

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

from .tools import look

NUMBERS = count()


def script(said, count, request):
    return reply(text("It is a lamp.")) if count else reply(ASKED)


root_agent = LlmAgent(name="bot", model=scripted(script), tools=[look])
"""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repository", "dice") as made:
        yield made


def record(repository: Repository, *arguments: str, **options: Any) -> Done:
    return repository.gate("record", *arguments, **options)


def forks() -> str:
    """A command that starts hosts fast."""
    return shlex.join(host_forks.command(adk_python()))


def ask(repository: Repository, *arguments: str, **options: Any) -> Done:
    return record(repository, *arguments, "--agent-python", forks(), **options)


VARIES = re.compile(
    r"^agent-eval: (The agent can't run|the agent can use).*\n|^ +(said = |\^+$|File \"|raise ValueError).*\n"
    r"|^ warning \[agent-not-isolated\](.*\n)+?\n",
    re.MULTILINE,
)
"""What depends on the machine, and the lines of a traceback."""


@dataclass
class Shell:
    """What commands print."""

    repository: Repository
    text: str = ""

    def record(self, *arguments: str, code: int = 0, live: bool = False, **options: Any) -> None:
        done = (ask if live else record)(self.repository, *arguments, **options)
        assert done.code == code and "Traceback" not in done.err, (arguments, done.out, done.err)
        said = VARIES.sub("", done.out + done.err).replace(str(self.repository.root), "FOLDER")
        said = re.sub(r"[\d.]+ s,", "N s,", said).replace(docs_page("").removesuffix("/"), "DOCS/")
        self.text += f"$ agent-eval record {shlex.join(arguments)}  # exit code {code}\n{said}\n"


def cases(path: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["eval_cases"]
    return listed


def texts(case: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Message and expected answer of each turn."""
    return [
        (
            turn["user_content"]["parts"][0]["text"],
            turn["final_response"]["parts"][0]["text"] if "final_response" in turn else None,
        )
        for turn in case["conversation"]
    ]


def test_record_say__new_file_then_one_more_case_and_the_gate_is_green(repository: Repository) -> None:
    shell = Shell(repository)
    file = repository.root / "evals" / "dice.evalset.json"
    asked = ("--say", "roll", "--say", "掷骰子 🎲", "--record", "all", "--runs", "2")
    shell.record("evals/dice.evalset.json", *asked, live=True, environment={"CI": "true"})  # It is no gate.
    tape = json.loads((file.parent / "dice.evalset.tools" / "roll.tape.json").read_text("utf-8"))
    assert (tape["eval_set_id"], tape["eval_id"], tape["runs"], tape["adk"]) == ("dice", "roll", 2, "2.13.0")
    assert [(call["tool"], call["args"], call["seen"]) for call in tape["calls"]] == [("roll_die", {"sides": 10}, 2)]
    assert not (repository.root / "agent-eval-results").exists()  # results of a run are not touched

    before = file.read_bytes()
    (file.parent / "full.evalset.tools").write_text("no directory", "utf-8")
    shell.record("evals/full.evalset.json", "--say", "roll", "--record", "all", live=True, code=2)
    (file.parent / "full.evalset.json").unlink()  # The case is there.
    (repository.root / "agent-eval.toml").write_text('replay = "tools"\n', "utf-8")  # Tools run all the same.
    named = ("--state", '{"k": 1}', "--expect", "calls,final,responses,intermediate", "--form", "events")
    shell.record("evals/dice.evalset.json:second: one", "--say", "roll", *named, live=True)
    closing = b"\n  ]\n}\n"
    assert file.read_bytes().startswith(before.removesuffix(closing)) and before.endswith(closing)
    check("golden_record/say.txt", f"{shell.text}$ cat evals/dice.evalset.json\n{file.read_text('utf-8')}")

    (repository.root / "agent-eval.toml").write_text('[[tool]]\nname = "*"\nmiss = "live"\n', "utf-8")
    green = repository.gate("run", "evals", "--replay", "tools")
    assert (green.code, green.statuses) == (0, {"roll": "passed", "second: one": "passed"}), green.out
    uses = [case.runs[0].tools for case in green.report.cases]
    assert [(use.replayed, use.live) for use in uses if use] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("changes", [False, True])
def test_record_all__keeps_the_model_calls_of_runs_that_agree(repository: Repository, changes: bool) -> None:
    """The case then needs no model."""
    asked = 'call("look", item=str(next(NUMBERS)))' if changes else 'call("look", item=said)'
    tool = 'def look(item: str) -> dict[str, str]:\n    return {"text": "a lamp"}\n'
    files = {"bot/__init__.py": "from . import agent\n", "bot/tools.py": tool}
    repository.write({**files, "bot/agent.py": SCRIPTED.replace("ASKED", asked)})
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    done = ask(repository, "bot/bot.evalset.json", "--say", "lamp", "--record", "all", "--runs", "3")
    assert done.code == 0, done.out + done.err
    replay = "tools" if changes else "missing-live"
    assert f"Run it: agent-eval run bot/bot.evalset.json:lamp --replay {replay}\n" in done.out
    reason = "The tape has no model calls, so the case always runs live: its runs had different results\n"
    assert (reason in done.out) == changes
    repository.gate("run", "--replay", "all", code=3 if changes else 0)
    repository.write({"bot/agent.py": SCRIPTED.replace("ASKED", "1 / 0")})
    other = repository.gate("run", "--replay", "all", code=3)
    assert ("The first difference is in code" in " ".join(other.out.split())) != changes


RANDOM: dict[str, tuple[str, str, int]] = {
    "a text of a module, in a call": ('call("look", item=RUN)', "It is a lamp.", 1),
    "the process, in the answer": (
        'call("look", item="lamp")',
        "It is the lamp of this house, number {os.getpid() + 10000}.",
        0,
    ),
    "of each call": ('call("look", item=uuid.uuid4().hex)', "It is a lamp.", 1),
    "a number behind a letter": (
        'call("look", item="lamp")',
        "It is lamp T{uuid.uuid4().int % 90000 + 10000} here.",
        0,
    ),
    "of the data": ('call("look", item="LK4B92")', "It has 1250 lumens.", 0),
}


@pytest.mark.parametrize("name", RANDOM)
def test_record__values_that_are_random_in_each_process_are_found(repository: Repository, name: str) -> None:
    asked, answer, code = RANDOM[name]
    made = "import os, uuid\n\nRUN = str(uuid.uuid4())\n" + SCRIPTED.replace("ASKED", asked)
    made = made.replace('"It is a lamp."', f'f"{answer}"')
    tool = 'def look(item: str) -> dict[str, str]:\n    return {"text": "a lamp"}\n'
    files = {"bot/__init__.py": "from . import agent\n", "bot/tools.py": tool, "bot/agent.py": made}
    repository.write({**files, "evals/.keep": ""})
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)

    done = ask(repository, "evals/new.evalset.json", "--say", "lamp", "--agent", "bot", "--runs", "2", code=code)

    assert done.code == code
    assert ("[record-random]" in done.err) == (name != "of the data"), done.err
    assert ("It does not pass in a new process." in done.out) == bool(code)
    once = ask(repository, "evals/once.evalset.json", "--say", "lamp", "--agent", "bot", code=0)
    assert "runs the tools again" in once.err and "[record-random]" not in once.err


def test_record__a_secret_in_a_call_and_an_answer_passes_wherever_the_agent_has_one(repository: Repository) -> None:
    asked = 'call("look", item=KEY)'
    made = 'import os\n\nKEY = os.environ.get("SHOP_API_KEY", "none")\n' + SCRIPTED.replace("ASKED", asked)
    made = made.replace('"It is a lamp."', 'f"It is lamp {KEY}, at the door."')
    tool = 'def look(item: str) -> dict[str, str]:\n    return {"text": item}\n'
    files = {"bot/__init__.py": "from . import agent\n", "bot/tools.py": tool, "bot/agent.py": made}
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}
    repository.write({**files, "bot/test_config.json": {"criteria": criteria}})
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    passed = ("--agent-env", "+SHOP_API_KEY")

    done = ask(
        *(repository, "bot/new.evalset.json", "--say", "lamp", *passed),
        environment={"SHOP_API_KEY": "sk-5f2c1a9be77d"},
        code=0,
    )

    assert (
        "[record-masked]" in done.err and "5f2c1a9be77d" not in (repository.root / "bot/new.evalset.json").read_text()
    )
    for key, code in (("sk-5f2c1a9be77d", 0), ("rotated-0a9b8c7d6e5f", 0), ("", 1)):
        run = repository.gate("run", "bot", *passed, environment={"SHOP_API_KEY": key}, code=code)
        assert "5f2c1a9be77d" not in run.out + run.err + (run.output / "results.json").read_text("utf-8")


def test_record_messages__file_standard_input_and_dry_run(repository: Repository) -> None:
    (repository.root / "lines.txt").write_text("roll\n\ncount\n", "utf-8")
    done = ask(repository, "dice.test.json", "--messages", "lines.txt", "--dry-run", "--expect", "none")
    assert done.code == 0, done.err
    case = json.loads(done.out)
    assert (case["eval_id"], texts(case)) == ("roll", [("roll", None), ("count", None)])
    assert not (repository.root / "dice.test.json").exists()
    contents = json.dumps(["count", {"parts": [{"text": "roll"}]}])
    agent_eval = gate_server.script(repository.root / "agent-eval", "-m", "agent_eval")
    program(
        agent_eval,
        "record",
        "dice.test.json",
        "--messages",
        "-",
        "--agent-python",
        forks(),
        cwd=repository.root,
        input=contents,
        timeout=120,
    )
    [case] = cases(repository.root / "dice.test.json")
    assert texts(case) == [("count", "1 messages."), ("roll", "It is 8.")]


REFUSED = [
    ("dice.json", "--say", "x"),
    ("dice.txt",),
    ("../dice.evalset.json", "--say", "x"),
    ("link.evalset.json", "--say", "x"),
    ("broken.evalset.json", "--say", "x"),
    ("old.test.json", "--say", "x"),
    ("a.test.json", "--say", "x"),
    ("a.evalset.json:a", "--say", "x"),
    ("a.evalset.json:b", "--replace", "--say", "x"),
    ("a.evalset.json", "--replace", "--say", "x"),
    ("a.evalset.json:b", "--say", "x", "--messages", "-"),
    ("a.evalset.json:b", "--say", " "),
    *(("b.evalset.json", "--say", "x", "--state", state) for state in ("[]", "city=Berlin", "@none.json")),
    ("b.evalset.json", "--messages", "none.txt"),
    ("b.evalset.json",),
    ("b.evalset.json", "--session", "x", "--say", "x"),
    ("b.evalset.json", "--say", "x", "--agent", "recorded:a.evalset.json"),
    ("b.evalset.json", "--say", "x", "--agent", "nowhere"),
    ("b.evalset.json", "--from", "none.db"),
    ("b.evalset.json", "--from", "dice"),
    ("--say", "x"),
]


def test_record__a_failing_agent_and_what_is_refused(repository: Repository) -> None:
    shell = Shell(repository)
    shell.record("dice.evalset.json", "--say", "roll", "--say", "raise", live=True, code=1)
    shell.record("dice.evalset.json", "--say", "quota", live=True, code=1)
    assert not (repository.root / "dice.evalset.json").exists()
    one = {"eval_set_id": "one", "eval_cases": [{"eval_id": "a", "conversation": [{"user_content": {"parts": []}}]}]}
    root = repository.root
    (root / "a.evalset.json").write_text(json.dumps(one).replace("[]", '[{"text": "hi"}]'), "utf-8")
    (root / "a.test.json").write_bytes((root / "a.evalset.json").read_bytes())
    (root / "broken.evalset.json").write_text('{"eval_cases": [', "utf-8")
    (root / "old.test.json").write_text('[{"query": "hi", "expected_tool_use": [], "reference": "x"}]', "utf-8")
    (root / "link.evalset.json").symlink_to("/etc/hosts")
    contents = {path: path.read_bytes() for path in root.glob("*.json")}
    for arguments in REFUSED:
        shell.record(*arguments, code=2)
    assert {path: path.read_bytes() for path in root.glob("*.json")} == contents
    check("golden_record/refused.txt", shell.text)


def test_record_from__sessions_databases_results_and_recordings(repository: Repository) -> None:
    root, shell = repository.root, Shell(repository)
    stored = session(id="s-1")
    stored["events"][0]["content"]["parts"][0]["text"] = "Write to mina@example.org or +49 30 1234567"
    lines = [stored, session(id="s-2", appName="dice"), session(id="s-3", userId="v")]
    (root / "sessions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    shell.record("--from", "sessions.jsonl", "--list")
    stored_in = ("new.evalset.json", "--from", "sessions.jsonl")
    shell.record(*stored_in, code=2)
    shell.record(*stored_in, "--session", "s-1")
    shell.record(*stored_in, "--session", "all")
    shell.record(*stored_in, "--session", "all")
    [_, second] = cases(root / "new.evalset.json")
    assert second["session_input"] == {"app_name": "dice", "user_id": "u", "state": {"room": "attic"}}

    repository.gate("run", "new.evalset.json", "--agent", "recorded:new.evalset.json", code=0)
    results = root / "agent-eval-results"
    for name, prefix in (("artifact.zip", ""), ("hostile.zip", "../")):
        with zipfile.ZipFile(root / name, "w", zipfile.ZIP_DEFLATED) as packed:
            for entry in ("results.json", "recordings.jsonl.gz", "cases.jsonl.gz"):
                packed.write(results / entry, prefix + entry)
    (root / "plain.jsonl").write_bytes(gzip.decompress((results / "recordings.jsonl.gz").read_bytes()))
    sources = (results.name, f"{results.name}/recordings.jsonl.gz", "plain.jsonl", "artifact.zip")
    for number, source in enumerate(sources):
        name = f"copy{number}.evalset.json"
        shell.record(name, "--from", source, "--case", "turn_off*", "--run", "1")
        [case] = cases(root / name)
        assert texts(case) == [("Turn off the lamp", "It is off.")]
        assert source == "plain.jsonl" or case["session_input"] == second["session_input"]
    shell.record("bad.evalset.json", "--from", "hostile.zip", code=2)
    shell.record("copy0.evalset.json", "--from", results.name, "--run", "2", code=2)
    printed = json.dumps(stored["events"][1] | {"session_id": "s-1"})
    for number, text in enumerate((f"Log setup complete\n{printed}\n", f"{printed}\n{printed}\n", f"[{printed}]")):
        (root / f"printed{number}.jsonl").write_text(text, "utf-8")
        shell.record("bad.evalset.json", "--from", f"printed{number}.jsonl", code=2)
    # The turn that calls a frontend's tool has no text.
    call = {"functionCall": {"id": "c", "name": "pick", "args": {}}}
    result = {"functionResponse": {"id": "c", "name": "pick", "response": {"result": "red"}}}
    frontend = [turn()[0], stored_event("home", [call], longRunningToolIds=["c"])]
    frontend += [stored_event("user", [result]), stored_event("home", [{"text": "It is off."}])]
    (root / "frontend.json").write_text(json.dumps(session(frontend)), "utf-8")
    for name, metric, code in (("a", "response_match_score", 1), ("b", "response_similarity", 0)):
        repository.write({"frontend/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0, metric: 0.8}}})
        shell.record(f"frontend/{name}.evalset.json", "--from", "frontend.json", code=code)
    repository.write({"frontend/test_config.json": CRITERIA_OF_INIT})
    shell.record("frontend/c.evalset.json", "--from", "frontend.json")
    check("golden_record/from.txt", shell.text)


async def test_record_say__a_remote_agent_whose_answer_has_a_secret(tmp_path: Path) -> None:
    async def weather(request: Request, answer: Answer) -> None:
        await answer.events(event(f"3 degrees, says the server {TOKEN}"))

    async with served(FakeAdk(turn=weather)) as fake:
        process = await asyncio.create_subprocess_exec(
            gate_server.script(tmp_path / "agent-eval", "-m", "agent_eval"),
            *("record", "weather.evalset.json", "--say", "Oslo?", "--agent", f"adk:{fake.url}#weather"),
            *("--state", '{"home": "Bergen"}'),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "AGENT_EVAL_AGENT_HEADERS": f"Authorization: Bearer {TOKEN}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(120):
            out, _ = await process.communicate()
    assert (process.returncode, TOKEN in out.decode()) == (0, False), out.decode()
    assert "[record-masked]" in out.decode()
    assert f"--agent 'adk:{fake.url}#weather'" in out.decode()
    [case] = cases(tmp_path / "weather.evalset.json")
    assert texts(case) == [("Oslo?", "3 degrees, says the server ***Authorization***")]
    assert case["session_input"]["state"] == {"home": "Bergen"}


def test_record_from__secrets_are_masked_and_another_writer_wins(repository: Repository) -> None:
    root = repository.root
    events = turn(answered="Your key is s3cr3t-value-1.")
    (root / "s.json").write_text(json.dumps(session(events)), "utf-8")
    key = {"CRM_API_KEY": "s3cr3t-value-1"}
    done = record(repository, "a.evalset.json", "--from", "s.json", environment=key, code=0)
    assert "s3cr3t-value-1" not in done.out + done.err + (root / "a.evalset.json").read_text("utf-8")
    assert "[record-masked]" in done.err

    target = root / "a.evalset.json"
    agent = ("--agent-python", str(adk_python()), "--agent-env", f"+{MARK}")
    waiting = repository.start("record", "a.evalset.json", "--say", "wait 2", *agent, python=False)
    wait_until(repository.hosts)
    changed = target.read_text("utf-8").replace('"a"', '"b"') + "\n"
    target.write_text(changed, "utf-8")
    out, err = waiting.communicate(timeout=120)
    assert (waiting.returncode, "[record-changed]" in out) == (2, True), out + err
    assert target.read_text("utf-8") == changed
    [kept] = cases(root / "a.evalset.json.recorded-1.json")
    assert texts(kept) == [("wait 2", "Done.")]


# The chat of `agent-eval record` on a real pseudo-terminal, with a real agent.


def chat(repository: Repository, *arguments: str, columns: int = 100) -> Any:
    command = [*AGENT_EVAL, "record", *arguments, "--agent-python", forks()]
    return on_terminal(command, cwd=repository.root, environment=repository.environment(), columns=columns)


def say(terminal: Terminal, text: str, answer: str) -> None:
    terminal.type(text, answer, r"you> $")


def test_chat__every_command_becomes_a_case(repository: Repository) -> None:
    with chat(repository, "chat.evalset.json", "--state", '{"room": "attic"}', "--record", "all") as terminal:
        terminal.expect(r"you> $")
        say(terminal, "/help", r"/quit +leave without writing")
        say(terminal, "/nonsense", r"There is no command /nonsense")
        for command in ("/retry", "/back"):
            say(terminal, command, "There is no turn yet")
        say(terminal, "/state", r'"room": "attic"')
        say(terminal, "roll", r"One moment\.[\s\S]*→ roll_die\(sides=10\)[\s\S]*← \{.*8.*\}[\s\S]*agent> It is 8\.")
        say(terminal, "/retry", r"you> roll[\s\S]*agent> It is 8\.")
        terminal.type("two\\", r"\.\.\.> $")
        say(terminal, "lines 🎲 骰子", r"agent> You said two\n +lines 🎲 骰子\.")
        say(terminal, "count", r"agent> 4 messages\.")
        terminal.type("/back", r"asks the agent 2 messages again\. Continue\? \[y/N\] $")
        say(terminal, "n", "")
        terminal.type("/back", r"\[y/N\] $")
        say(terminal, "y", r"you> roll[\s\S]*It is 8\.[\s\S]*you> two[\s\S]*You said two")
        terminal.type("/save my_chat", r"Added 1 case in chat\.evalset\.json: `my_chat`")
        terminal.expect(r"scored against itself: .*response_match_score 1\.00")
        assert terminal.code() == 0
    [case] = cases(repository.root / "chat.evalset.json")
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
        say(terminal, "raise", r"! agent-exception: [\s\S]*the agent is broken[\s\S]*/retry asks again")
        say(terminal, "roll", "The last turn has no answer: /retry asks again, /back forgets it")
        say(terminal, "/save", "can't be part of a case")
        terminal.press("\x04", "Ctrl-D again leaves without writing", r"you> $")
        say(terminal, "/retry", "! agent-exception")
        say(terminal, "/back", "The chat begins again")
        terminal.type("wait", "wait\n")
        time.sleep(1)
        terminal.press("\x03", "The turn was broken off", r"you> $")
        say(terminal, "/back", "The chat begins again")
        say(terminal, "roll", r"agent> It is 8\.")
        terminal.interrupt(r"Ctrl-C again leaves without writing; /save writes")
        terminal.expect(r"you> $")
        terminal.type("/quit", r"Leave without writing 1 turn\? \[y/N\] $")
        terminal.interrupt(r"you> $")
        terminal.press("\x04", "Added 1 case in")
        assert terminal.code() == 0
        assert "Traceback" not in terminal.text
    [case] = cases(repository.root / "a.evalset.json")
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
        say(terminal, "roll", r"agent> It is 8\.")
        terminal.type("/quit", r"\[y/N\] $")
        terminal.type("y", "nothing was written")
        assert terminal.code() == 0
    assert not (repository.root / "b.evalset.json").exists()


def test_record_from__asks_which_conversation(repository: Repository) -> None:
    lines = [json.dumps(session(id=name)) for name in ("s-1", "s-2")]
    (repository.root / "runs.jsonl").write_text("\n".join(lines), "utf-8")
    with chat(repository, "c.evalset.json", "--from", "runs.jsonl") as terminal:
        terminal.expect(r"1  .*s-1 [\s\S]*Which conversation \(1 to 2\)\? $")
        terminal.type("2", "Added 1 case in c.evalset.json: `turn_off_the_lamp`")
        assert terminal.code() == 0


# The commands of docs/authoring.md that set up and record, from a folder with nothing but an agent to a green run.


COMMAND = re.compile(r"^agent-eval (?:init|record)\b[^#\n]*", re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repository") as made:
        agent = made.root / "agents" / "home"
        shutil.copytree(
            ROOT / "examples" / "home_automation", agent, ignore=shutil.ignore_patterns("evals", "__pycache__")
        )
        yield made


@pytest.mark.slow
def test_docs_authoring__every_command_of_init_and_record_runs(project: Repository) -> None:
    page = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in COMMAND.findall(page)]
    assert len(commands) >= 9
    root, python = project.root, ["--agent-python", str(adk_python())]
    (root / "messages.txt").write_text("Good morning\nTurn on the fan in the bedroom\n", "utf-8")
    produce(root)
    (root / "agents" / "home" / ".adk").mkdir()
    shutil.copy(root / "session.db", root / "agents" / "home" / ".adk")

    init, chat, *others = commands
    assert project.gate(*init).code == 0
    with on_terminal([*AGENT_EVAL, *chat, *python], cwd=root, environment=project.environment()) as terminal:
        terminal.expect(r"you> $")
        terminal.type("Turn off the lamp in the bedroom", r"agent> The bedroom lamp is now off\.", r"you> $")
        terminal.type("/save", "Added 1 case")
        assert terminal.code() == 0
    green = project.gate("run", "evals")
    assert (green.code, len(green.statuses)) == (0, 1), green.out + green.err
    for command in others:
        asks = "--from" not in command
        done = project.gate(*command, *(("--agent-python", forks()) if asks else ()))
        assert done.code == 0, (command, done.out, done.err)
        assert "--list" in command or re.search(r"(Added|Replaced) \d+ cases? in|nothing new", done.out), done.out
    # The chat, `--say`, the file of messages, the latest session, and a session's JSON. `all` skips both sessions of
    # the database, because a case has the messages of each.
    assert len(cases(root / "evals" / "home.evalset.json")) == 5
    assert len(cases(root / "evals" / "fixed.evalset.json")) == 1
    project.gate("validate", code=0)
    green = project.gate("run", "evals")
    assert (green.code, set(green.statuses.values())) == (0, {"passed"}), green.out + green.err
