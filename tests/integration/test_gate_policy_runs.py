"""Policy, quarantine and what a pull request changes in the agent, in whole runs."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from adk_harness import running, say
from base_repos import Repo, new_repo
from gate_runs import Done, Repository, repository_in
from pull_requests import Lab
from pydantic import ValidationError

from agent_eval.agents.host.connection import RemoteError
from agent_eval.agents.host.process import HostProcess
from agent_eval.agents.messages import AgentDescribed, AgentsDescribed
from agent_eval.cli import main
from agent_eval.core.content import text_of
from agent_eval.forge import ACCEPT_RULES
from agent_eval.results import RunReport

# Policy and quarantine on a real pull request, and what `agent-eval flaky` makes of the base branch's results.


CASES = ("lamp_on", "lamp_off", "heater", "door")
SOON = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
RULES = """\
max-quarantined = 0.25

[[quarantine]]
case = "evals/bot.evalset.json:door"
reason = "the door's sensor is late, #12"
owner = "@alice"
expires = {expires}

[[policy]]
cases = ":heater"
blocking = false
"""


def test_the_bases_policy_counts__and_a_quarantine_that_has_ended_does_not(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.commit({"door": 0.0}, **{"agent-eval.toml": RULES.format(expires=SOON)})
    base = lab.base_run(code=0)
    assert base.statuses["door"] == "quarantined"
    door = next(case for case in base.report.cases if case.eval_id == "door")
    assert door.reason is not None
    assert door.reason.message.endswith(f"; quarantined until {SOON} by @alice: the door's sensor is late, #12")
    assert base.report.history is not None
    assert [case.outcomes for case in base.report.history.cases] == ["1", "1", "1", "0"], (
        "they are history all the same"
    )
    assert main(["flaky", str(base.output), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1

    # Months later: no one has repaired the door, and a pull request removes the entries.
    lab.commit({"door": 0.0}, **{"agent-eval.toml": RULES.format(expires="2026-01-31")})
    done = lab.pull_request(7, {"door": 0.0, "lamp_on": 0.0, "heater": 0.0}, files={"agent-eval.toml": "# nothing\n"})

    report = done.report
    assert (done.code, report.verdict, report.gate) == (1, "failed", "regressions"), done.out + done.err
    assert set(done.statuses.values()) == {"passed", "failed"}
    assert all("lamp_on" in reason.message and "heater" not in reason.message for reason in report.reasons)
    text = " ".join(report.notices)
    assert "1 case that only informs failed: evals/bot.evalset.json:heater" in text
    warnings = [problem for problem in report.problems if problem.code == "quarantine-expired"]
    assert [problem.severity for problem in warnings] == ["warning"]
    assert warnings[0].message.startswith("agent-eval.toml of the base branch, line 3: ")


RENAMES = f"""\
max-quarantined = 0.5

[[quarantine]]
case = ":flaky_*"
reason = "the sensor is late, #12"
owner = "@alice"
expires = {SOON}

[[policy]]
cases = ":draft_*"
blocking = false

[[policy]]
metric = "response_match_score"
cases = ":lamp_*"
threshold = 1.0
"""


@pytest.mark.slow
def test_renaming_a_case__does_not_loosen_its_policy(lab: Lab) -> None:
    """A broken case that is renamed to match an exception of the base branch still blocks, until it is accepted."""
    path = "evals/bot.evalset.json"
    lab.repository.evals(path, {case: f"Say {case}." for case in ("lamp_on", "lamp_off", "flaky_x", "draft_x")})
    evals = (lab.repository.root / path).read_text("utf-8")
    lab.commit({}, **{"agent-eval.toml": RENAMES})
    lab.base_run(code=0)

    def renamed(number: int, new: str, **options: Any) -> Done:
        text = evals.replace('"lamp_on"', f'"{new}"')
        return lab.pull_request(number, {"lamp_on": 0.0}, files={path: text, "more": new}, **options)

    for number, new in enumerate(("flaky_lamp", "draft_lamp"), 7):
        done = renamed(number, new, code=1)

        assert done.statuses[new] == "failed"
        assert done.report.blocking == [f"{path}:{new}"]
        assert done.report.rule_changes is not None
        assert done.report.rule_changes.renamed == {f"{path}:{new}": f"{path}:lamp_on"}
        comment = lab.comment(number)
        assert "the stricter policy of both ids decides" in comment and ACCEPT_RULES in comment

    accepted = renamed(7, "flaky_lamp", label=ACCEPT_RULES, code=0)

    assert accepted.statuses["flaky_lamp"] == "quarantined"
    comment = lab.comment()
    assert "The rules of this pull request decide: maintainer set the label" in comment

    # Two cases that have each other's ids do not have each other's policy.
    swapped = evals.replace('"lamp_on"', '"?"').replace('"flaky_x"', '"lamp_on"').replace('"?"', '"flaky_x"')
    done = lab.pull_request(9, {"lamp_on": 0.0}, files={path: swapped}, code=1)

    assert done.report.blocking == [f"{path}:flaky_x"]


@pytest.mark.slow
def test_a_quarantined_case_that_is_broken_now__is_at_the_top_of_every_report(lab: Lab) -> None:
    lab.commit({}, **{"agent-eval.toml": RULES.format(expires=SOON)})
    assert lab.base_run().code == 0

    done = lab.pull_request(7, {"door": 0.0}, code=0)

    comment = lab.comment()
    summary = (done.output / "summary.md").read_text("utf-8")
    for text in (comment.split("\n", 1)[1], summary):
        lines = [line for line in text.splitlines() if line]
        assert lines[0].startswith("## ⚠️")
        assert lines[1].startswith("**Next:** ") and "now always fails: evals/bot.evalset.json:door" in lines[2]
        assert text.count("now always fails") == 1
        [row] = [line for line in lines if line.startswith("| 🟡")]
        assert "needs 1.00" in row, "what it did, not only that a quarantined case is not compared"
    assert [warning for warning in done.report.warnings if "door" in warning]


@pytest.mark.slow
def test_extra_runs__are_judged_by_the_policys_thresholds(lab: Lab) -> None:
    rules = '[[policy]]\nmetric = "response_match_score"\nthreshold = 1.0\n'
    config = json.dumps({"criteria": {"response_match_score": 0.3}})
    lab.commit({}, **{"agent-eval.toml": rules, "evals__test_config.json": config})
    assert lab.base_run().code == 0

    done = lab.pull_request(7, {"lamp_on": 0.0, "else": "Say lamp."}, code=1)

    [extra] = done.report.confirmations
    assert extra.runs and {run.status for run in extra.runs} == {"failed"}, "0.3 would let them pass"


@pytest.mark.slow
def test_rerun__what_the_base_branch_answers_today_is_judged_by_the_policy_too(lab: Lab) -> None:
    rules = '[[policy]]\nmetric = "response_match_score"\nthreshold = 1.0\n'
    config = json.dumps({"criteria": {"response_match_score": 0.3}})
    weak = {"lamp_on": 0.0, "else": "Say lamp."}
    lab.commit(weak, **{"agent-eval.toml": rules, "evals__test_config.json": config})

    done = lab.pull_request(7, weak, "--baseline", "rerun", files={"README.md": "new"}, code=0)

    comparison = done.report.comparison
    assert comparison is not None
    assert {case.eval_id: case.change for case in comparison.cases} == {"lamp_on": "still_failing"}
    assert comparison.pass_rate.head == comparison.pass_rate.base == 0.75
    assert not [note for note in comparison.notes if note.code == "threshold-moved"]


def test_fail_fast__ends_at_a_case_that_fails_by_the_policy(repository: Repository) -> None:
    path = "evals/bot.evalset.json"
    repository.evals(path, {case: f"Say {case} now." for case in ("door", "heater", "lamp_on", "lamp_off")})
    answers = {"door": "No.", "heater": "No.", "lamp_on": "Say lamp."}
    repository.record(path, answers)
    mild = '\n[[policy]]\nmetric = "response_match_score"\nthreshold = 0.3\n'
    repository.write({"agent-eval.toml": RULES.format(expires=SOON) + mild})

    def run(*arguments: str) -> Done:
        flags = ("--agent", "recorded:answers.json", "--fail-fast", "--concurrency", "1")
        return repository.gate("run", "evals", *flags, *arguments, python=False, environment={"CI": ""})

    done = run()
    assert done.statuses == {"door": "quarantined", "heater": "failed", "lamp_on": "passed", "lamp_off": "passed"}
    assert done.code == 0
    assert "turn below a threshold" not in done.out, "its one turn reaches the policy's"
    assert done.report.files[0].criteria["response_match_score"] == 0.3
    junit = (repository.root / "agent-eval-results" / "junit.xml").read_text("utf-8")
    assert 'name="threshold.response_match_score" value="0.30"' in junit
    assert run("--threshold", "response_match_score=0.9").statuses["lamp_off"] == "not_run"


# What a pull request changes in the agent: from its processes and its code to results.json, also in parts.


TOOLS = '''import functools

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset

from .rooms import ROOMS


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)

    return wrapper


@logged
def find(room: str) -> dict:
    """Finds a room."""
    return {"size": ROOMS.get(room)}


def heat(room: str) -> str:
    """Heats a room."""
    return "ok"


class Clock(BaseTool):
    def __init__(self):
        super().__init__(name="clock", description="The time.")


class Shelf(BaseToolset):
    async def get_tools(self, readonly_context=None):
        return []


class Greeter:
    def greet(self) -> str:
        """Greets."""
        return "hello"
'''
AGENT = """from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from scripted_model import reply, scripted, text

from .tools import Clock, Greeter, Shelf, find, heat

SECRET = "sk-1234567890"
INSTRUCTION = "You run a home.\\nBe brief.\\n"


def script(said, count, request):
    return reply(text(said))


def check(tool, args, tool_context):
    return None


def describe(context):
    return "You plan."


planner = LlmAgent(name="planner", model="gemini-2.5-pro", instruction=describe)
cook = LlmAgent(name="cook", model="gemini-2.5-flash", description="Cooks.")
root_agent = LlmAgent(
    name="bot",
    model=scripted(script),
    instruction=INSTRUCTION,
    before_tool_callback=[check],
    sub_agents=[planner],
    tools=[find, heat, Clock(), Shelf(), Greeter().greet, AgentTool(cook)],
)
"""
FILES = {
    "bot/__init__.py": "from . import agent\n",
    "bot/agent.py": AGENT,
    "bot/tools.py": TOOLS,
    "bot/rooms.py": 'ROOMS = {"kitchen": 12}\n',
    ".gitignore": "__pycache__/\nagent-eval-results/\nparts/\n",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    shutil.copy(FIXTURES / "scripted_model.py", made.root)
    made.write(FILES)
    with repository_in(made.root) as repository:
        repository.evals("evals/talk.test.json", {"one": "Hello", "two": "Bye"})
    made.commit({})
    return made


@pytest.mark.slow
def test_agent_changes__from_the_host_to_results_json(repo: Repo) -> None:
    with repository_in(repo.root) as repository:
        repository.gate("run", "--output-dir", "parts/base", code=0)
        base = (repo.root / "parts/base/results.json").read_text(encoding="utf-8")
        _check_facts(RunReport.model_validate_json(base))

        changed = {
            "bot/rooms.py": 'ROOMS = {"kitchen": 14}\n',
            "bot/tools.py": TOOLS.replace("def heat(room: str)", "def heat(room: str, degrees: int = 20)"),
            "bot/agent.py": AGENT.replace("Be brief.\\n", "Be brief.\\nBe kind.\\n")
            .replace("gemini-2.5-pro", "gemini-2.5-flash")
            .replace("return None", "return {}")
            .replace('return "You plan."', 'return "You plan well."')
            .replace("Clock(), ", ""),
        }
        repo.branch("feature")
        repo.commit({**changed, "unrelated.txt": "x"})
        expected = [
            ("instruction", "bot", "", ["bot/agent.py:8 INSTRUCTION"]),
            ("callbacks", "bot", "", ["bot/agent.py:16 check"]),
            ("tool-source", "bot", "find", ["bot/rooms.py:1 ROOMS"]),
            ("tool-declaration", "bot", "heat", ["bot/tools.py:23 heat"]),
            ("tool-removed", "bot", "clock", ["bot/agent.py:31 tools"]),
            ("model", "planner", "", ["bot/agent.py:23 model"]),
            ("instruction", "planner", "", ["bot/agent.py:23 instruction", "bot/agent.py:20 describe"]),
        ]
        compared = ("--baseline", "rerun", "--base-ref", "main")
        done = repository.gate("run", *compared)
        assert _changes(done) == expected
        assert [each.message for each in done.report.agent_changes[:1]] == ["instruction +1 line"]

        # The same from parts, of which the merge starts no agent, and from a file, whose commit names the base's lines.
        for part in ("1", "2"):
            assert repository.gate("run", "--shard", f"{part}/2", "--output-dir", f"parts/{part}").code == 0
        assert _changes(repository.gate("merge", "parts/1", "parts/2", *compared)) == expected
        (repo.root / "base.json").write_text(base, encoding="utf-8")
        assert _changes(repository.gate("run", "--baseline", "file:base.json")) == expected

        # An older baseline: what the base branch has changed since is not this change's.
        (repo.root / "base.json").unlink()
        repo.branch("main", "main")
        repo.commit({"bot/agent.py": AGENT.replace("Cooks.", "Cooks well."), "base.json": base})
        repo.branch("later", "main")
        repo.commit({"bot/rooms.py": 'ROOMS = {"kitchen": 15}\n'})
        later = repository.gate("run", "--baseline", "file:base.json", "--base-ref", "main")
        assert _changes(later) == [("tool-source", "bot", "find", ["bot/rooms.py:1 ROOMS"])]


def _changes(done: Done) -> list[tuple[str, str, str, list[str]]]:
    assert done.code == 0, done.err
    return [
        (each.code, each.agent, each.tool, [f"{place.file}:{place.first} {place.symbol}" for place in each.places])
        for each in done.report.agent_changes
    ]


def _check_facts(report: RunReport) -> None:
    """test_adk_faults.py has more of them."""
    assert "sk-1234567890" not in report.model_dump_json()
    [tree] = report.agents
    bot, planner, cook = tree.agents
    assert (tree.agent, planner.model, planner.instruction) == ("bot", "gemini-2.5-pro", "bot.agent.describe")
    assert (bot.instruction, cook.description) == ("You run a home.\nBe brief.\n", "Cooks.")
    assert list(bot.callbacks) == ["before_tool_callback"]
    assert all([*bot.callbacks.values(), planner.callbacks["instruction"]])
    assert {tool.name: f"{tool.place.file}:{tool.place.first}" if tool.place else "" for tool in bot.tools} == {
        "find": "bot/tools.py:17",
        "heat": "bot/tools.py:23",
        "clock": "bot/tools.py:28",
        "Shelf": "bot/tools.py:33",
        "greet": "bot/tools.py:39",
        "cook": "",
    }
    assert all(tool.declaration for tool in bot.tools if tool.name in {"find", "heat", "greet"})


@pytest.mark.parametrize(
    "sent",
    [
        {"agents": [{"name": "a"}] * 101},
        {"agents": [{"name": "a", "tools": [{"name": "t"}] * 501}]},
        {"agents": [{"name": "a", "code": {"file": "a.py", "line": -1}}]},
        {"agents": [{"name": "a" * 5_000}]},
        {"agents": [{"name": "a", "instruction": "x" * 50_000}]},
    ],
)
def test_agents_described__too_much_or_nonsense_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentsDescribed.model_validate(sent)


async def test_agents_described__a_host_that_can_not_say_it_goes_on(tmp_path: Path) -> None:
    described: list[AgentDescribed] = []
    async with running("home", tmp_path / "logs", described=described) as agent:
        said = await say(agent, "hello", state={"guest": "Mona"})
        assert text_of(said.final_response) == "I heard 'hello'. Please."
        assert [each.name for each in described] == ["butler"]
    bad: list[AgentDescribed] = []
    answer = asyncio.get_running_loop().create_future()
    answer.set_exception(RemoteError("agents", "no", {}))
    await HostProcess._describe(bad, answer)
    answer = asyncio.get_running_loop().create_future()
    answer.set_result({"agents": 1})
    await HostProcess._describe(bad, answer)
    assert bad == []
