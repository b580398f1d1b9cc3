"""Policy, quarantine and what a pull request changes in the agent, in whole runs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from adk_harness import running, say
from base_repos import new_repo
from gate_runs import Done, Repository, told
from golden_files import check
from pull_requests import Lab
from pydantic import ValidationError

from agent_eval.cli import main
from agent_eval_agents.host.connection import RemoteError
from agent_eval_agents.host.process import HostProcess
from agent_eval_agents.messages import AgentDescribed, AgentsDescribed
from agent_eval_scoring.core.content import text_of

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
    door = next(case for case in base.report.cases if case.eval_id == "door")
    assert door.reason is not None
    assert door.reason.message.endswith(f"; quarantined until {SOON} by @alice: the door's sensor is late, #12")
    assert base.report.history is not None
    assert [case.outcomes for case in base.report.history.cases] == ["1", "1", "1", "0"], "it is history all the same"
    assert main(["flaky", str(base.output), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1

    # Months later: no one has repaired the door, and a pull request removes the entries.
    lab.commit({"door": 0.0}, **{"agent-eval.toml": RULES.format(expires="2026-01-31")})
    rates = {"door": 0.0, "lamp_on": 0.0, "heater": 0.0}
    done = lab.pull_request(7, rates, files={"agent-eval.toml": "# nothing\n"})
    check("golden_gate/policy_of_the_base.txt", lab.told("an ended quarantine", done))


@pytest.mark.slow
def test_a_quarantined_case_that_is_broken_now__is_at_the_top_of_every_report(lab: Lab) -> None:
    lab.commit({}, **{"agent-eval.toml": RULES.format(expires=SOON)})
    lab.base_run(code=0)

    done = lab.pull_request(7, {"door": 0.0}, code=0)

    for text in (lab.comment().split("\n", 1)[1], (done.output / "summary.md").read_text("utf-8")):
        lines = [line for line in text.splitlines() if line]
        assert lines[0].startswith("## ⚠️")
        assert lines[1].startswith("**Next:** ") and "now always fails: evals/bot.evalset.json:door" in lines[2]
        assert text.count("now always fails") == 1
        [row] = [line for line in lines if line.startswith("| 🟡")]
        assert "needs 1.00" in row, "what it did, not only that a quarantined case is not compared"
    assert [warning for warning in done.report.warnings if "door" in warning]


@pytest.mark.slow
def test_the_policys_thresholds__judge_extra_runs_and_what_the_base_branch_answers_today(lab: Lab) -> None:
    rules = '[[policy]]\nmetric = "response_match_score"\nthreshold = 1.0\n'
    weak = {"lamp_on": 0.0, "else": "Say lamp."}  # 0.3 would let it pass.
    files = {"agent-eval.toml": rules, "evals__test_config.json": '{"criteria": {"response_match_score": 0.3}}'}
    lab.commit({}, **files)
    lab.base_run(code=0)
    [extra] = lab.pull_request(7, weak, code=1).report.confirmations
    assert extra.runs and {run.status for run in extra.runs} == {"failed"}

    lab.repo.git("checkout", "-q", "main")
    lab.commit(weak, **files)
    comparison = lab.pull_request(8, weak, "--baseline", "rerun", files={"README.md": "new"}, code=0).report.comparison
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
    story = [told("as the policy says", done)]
    assert "turn below a threshold" not in done.out, "its one turn reaches the policy's"
    assert done.report.files[0].criteria["response_match_score"] == 0.3
    junit = (repository.root / "agent-eval-results" / "junit.xml").read_text("utf-8")
    assert 'name="threshold.response_match_score" value="0.30"' in junit
    story.append(told("another threshold", run("--threshold", "response_match_score=0.9")))
    check("golden_gate/fail_fast.txt", "".join(story).replace(SOON, "SOON"))


# What a pull request changes in the agent: from its processes and its code to results.json, also in parts.


AGENT = """import functools

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from scripted_model import reply, scripted, text

from .rooms import ROOMS

SECRET = "sk-1234567890"
INSTRUCTION = "You run a home.\\nBe brief.\\n"


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)

    return wrapper


@logged
def find(room: str) -> dict:
    return {"size": ROOMS.get(room)}


class Shelf(BaseToolset):
    async def get_tools(self, readonly_context=None):
        return []


class Heating:
    def heat(self, room: str) -> str:
        return "ok"


def check(tool, args, tool_context):
    return None


def describe(context):
    return "You plan."


planner = LlmAgent(name="planner", model="gemini-2.5-pro", instruction=describe)
cook = LlmAgent(name="cook", model="gemini-2.5-flash", description="Cooks.")
root_agent = LlmAgent(
    name="bot",
    model=scripted(lambda said, count, request: reply(text(said))),
    instruction=INSTRUCTION,
    before_tool_callback=[check],
    sub_agents=[planner],
    tools=[find, Heating().heat, Shelf(), AgentTool(cook)],
)
"""


@pytest.mark.slow
def test_agent_changes__from_the_host_to_results_json(repository: Repository) -> None:
    repo = new_repo(repository.root)
    shutil.copy(FIXTURES / "scripted_model.py", repo.root)
    repository.evals("evals/talk.test.json", {"one": "Hello", "two": "Bye"})
    repo.write(
        {".gitignore": "__pycache__/\nagent-eval-results/\nparts/\n", "bot/__init__.py": "from . import agent\n"}
    )
    repo.commit({"bot/agent.py": AGENT, "bot/rooms.py": 'ROOMS = {"kitchen": 12}\n'})
    base = repository.gate("run", output=repo.root / "parts/base", code=0)
    compared = ("--baseline", "rerun", "--base-ref", "main")
    story = []

    def run(title: str, *arguments: str, command: str = "run") -> None:
        changes = repository.gate(command, *arguments, code=0).report.agent_changes
        facts = [(each.code, each.agent, each.tool, each.message, each.places) for each in changes]
        lines = [f"  {fact[:4]} {[f'{at.file}:{at.first} {at.symbol}' for at in fact[4]]}\n" for fact in facts]
        story.append(f"{title}\n{''.join(lines)}\n")

    repo.branch("feature")
    changed = (
        AGENT.replace("Be brief.\\n", "Be brief.\\nBe kind.\\n")
        .replace("gemini-2.5-pro", "gemini-2.5-flash")
        .replace("return None", "return {}")
        .replace('return "You plan."', 'return "You plan well."')
        .replace("def heat(self, room: str)", "def heat(self, room: str, degrees: int = 20)")
        .replace("Shelf(), ", "")
    )
    repo.commit({"bot/agent.py": changed, "bot/rooms.py": 'ROOMS = {"kitchen": 14}\n', "unrelated.txt": "x"})
    run("a pull request", *compared)
    for part in ("1", "2"):
        repository.gate("run", "--shard", f"{part}/2", "--output-dir", f"parts/{part}", code=0)
    run("its parts, whose merge starts no agent", "parts/1", "parts/2", *compared, command="merge")
    shutil.copy(base.output / "results.json", repo.root / "base.json")
    run("a file, whose commit names the base's lines", "--baseline", "file:base.json")

    (repo.root / "base.json").unlink()
    repo.branch("main", "main")
    repo.commit({"bot/agent.py": AGENT.replace("Cooks.", "Cooks well.")})
    shutil.copy(base.output / "results.json", repo.root / "base.json")
    repo.commit({})
    repo.branch("later", "main")
    repo.commit({"bot/rooms.py": 'ROOMS = {"kitchen": 15}\n'})
    run("an older one: what main changed since is not this change's", "--baseline", "file:base.json", *compared[2:])
    check("golden_gate/agent_changes_of_runs.txt", "".join(story))

    described = [tree.model_dump_json(indent=1) for tree in base.report.agents]
    assert "sk-1234567890" not in base.report.model_dump_json()
    check("golden_gate/agent_of_a_run.json", re.sub(r'"[0-9a-f]{16,}"', '"HASH"', "".join(described)) + "\n")


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
