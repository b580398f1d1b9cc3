"""Agents that google-adk runs without one of their toolsets: results say so, and it becomes no expectation."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import host_forks
import pytest
from adk_envs import FIXTURES, adk_python
from gate_runs import Done, Repository, repository_in

PYTHON = shlex.join(host_forks.command(adk_python()))
AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.base_toolset import BaseToolset
from scripted_model import call, reply, scripted, text


def look(city: str) -> str:
    "Looks up a city."
    return "sunny"


class Scales(BaseToolset):
    async def get_tools(self, readonly_context=None):
        {body}

    async def close(self):
        pass


def script(said, count, request):
    if count:
        response = request.contents[-1].parts[0].function_response.response
        return reply(text("It is sunny." if said == "look" else str(response)))
    if said == "look":
        return reply(call("look", city="Oslo"))
    return reply(call("weigh", box=1) if said == "guess" or "weigh" in request.tools_dict else text("I have no scale."))


root_agent = LlmAgent(name="boxes", model=scripted(script), tools=[look, Scales()])
"""
RAISES = 'raise RuntimeError("the <catalog> file is missing\\nat line 3")'
LOST = "boxes ran without the tools of Scales, which raised RuntimeError: the <catalog> file is missing"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repository") as made:
        made.write({"boxes/__init__.py": "from . import agent\n", "boxes/agent.py": AGENT.format(body=RAISES)})
        (made.root / "scripted_model.py").write_bytes((FIXTURES / "scripted_model.py").read_bytes())
        yield made


def _evals(repository: Repository, cases: dict[str, str], tool: str, answer: str) -> None:
    turns = {
        name: {
            "user_content": {"role": "user", "parts": [{"text": said}]},
            "final_response": {"role": "model", "parts": [{"text": answer}]},
            "intermediate_data": {
                "tool_uses": [{"name": tool, "args": {"city": "Oslo"} if tool == "look" else {"box": 1}}]
            },
        }
        for name, said in cases.items()
    }
    listed = [{"eval_id": name, "conversation": [turn]} for name, turn in turns.items()]
    criteria = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
    repository.write(
        {"evals/boxes.evalset.json": {"eval_set_id": "boxes", "eval_cases": listed}, "evals/test_config.json": criteria}
    )


def _say_so(done: Done) -> None:
    """Console, summary, JUnit's properties and results.json have the toolset and its exception."""
    assert " ".join(LOST.split()[:9]) in " ".join(done.out.split()), done.out
    for name in ("summary.md", "junit.xml"):
        text = (done.output / name).read_text("utf-8")
        assert "Scales" in text and "file is missing" in text and re.search(r"(?<!\\)<catalog>", text) is None, name
    assert done.report.warnings[0].startswith(LOST) and "at line 3" not in done.report.warnings[0]
    lost = [each for case in done.report.cases for run in case.runs for each in run.lost_toolsets]
    assert {(each.agent, each.toolset) for each in lost} == {("boxes", "Scales")}


def test_lost_toolset__of_a_passing_case_is_said(repository: Repository) -> None:
    _evals(repository, {"oslo": "look"}, "look", "It is sunny.")

    _say_so(repository.gate("run", "--record", "all", "--yes", code=0))


def test_lost_toolset__is_the_cause_and_never_the_expectation(repository: Repository) -> None:
    _evals(repository, {f"box_{number}": f"weigh box {number}" for number in range(3)}, "weigh", "It weighs 1 kg.")

    done = repository.gate("run", code=1)

    _say_so(done)
    assert [(cause.code, cause.data.tool, len(cause.cases)) for cause in done.report.causes] == [
        ("toolset", "Scales", 3)
    ]
    assert (
        done.report.causes[0].message == "Scales has no tools: RuntimeError: the <catalog> file is missing⏎ at line 3"
    )
    assert "agent-eval accept" not in done.out
    assert "**Next:** see why Scales has no tools" in (done.output / "summary.md").read_text("utf-8")
    assert f"{LOST} (see its log)" in " ".join(repository.gate("show", "box_0").out.split())
    accepted = repository.gate("accept", "--all", environment={"CI": ""}, code=1)
    assert "scales had no tools (RuntimeError: the <catalog> file is missing)" in accepted.out + accepted.err


def test_lost_toolset__of_a_frontend_may_be_accepted(repository: Repository) -> None:
    body = 'raise NotImplementedError("a placeholder: the tools come from the frontend")'
    repository.write({"boxes/agent.py": AGENT.format(body=body)})
    _evals(repository, {"oslo": "look"}, "look", "Rain.")

    done = repository.gate("run", code=1)

    assert "a placeholder" in done.report.warnings[0]
    repository.gate("accept", "--all", environment={"CI": ""}, code=0)


def test_record__warns_of_tools_that_failed_and_expects_none_of_their_errors(repository: Repository) -> None:
    repository.write({"boxes/agent.py": AGENT.format(body=RAISES), "evals/.keep": ""})

    done = repository.gate(
        "record", "evals/new.evalset.json", "--say", "guess", "--agent", "boxes", "--agent-python", PYTHON, code=1
    )

    said = " ".join((done.out + done.err).split())
    assert "warning [record-tool-failed]" in said and "Scales: RuntimeError: the <catalog> file is missing" in said
    assert "file is missing hint: If that is not what the case is about" in said and " --replace`." in said
    assert "weigh: Invoking" not in said and "/logs" in said
    case = json.loads((repository.root / "evals/new.evalset.json").read_text("utf-8"))["eval_cases"][0]
    assert "final_response" not in case["conversation"][0]
