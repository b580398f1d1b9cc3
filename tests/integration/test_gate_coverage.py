"""Which tools and agents no case reaches, in whole runs of the gate: with a base branch, in parts, of single cases."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from base_repos import Repo
from gate_runs import Repository, eval_set

from agent_eval_results.report.renderers import comment_markdown

AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


def find(what: str) -> dict:
    return {{"found": what}}


def refund(order: str) -> dict:
    return {{"refunded": order}}
{more}

def script(said, count, request):
    return reply(call(said, **({{"what": "x"}} if said == "find" else {{"order": "x"}}))) if not count else reply(text("Done."))


billing = LlmAgent(name="billing", model=scripted(script), instruction="Bill.")
root_agent = LlmAgent(
    name="shop", model=scripted(script), instruction="Sell.", tools=[find, refund{name}], sub_agents=[billing]
)
"""  # noqa: E501
SHIP = '\n\ndef ship(order: str) -> dict:\n    return {"shipped": order}\n'
LINE = "2 of 3 tools are called by no case: refund, ship; 1 of 2 agents is reached by no case: billing"
NEW = "The tool ship is new, and no case calls it"


def index_of(page: Path) -> str:
    """The data of a page, without its cases."""
    match = re.search(r'<template id="index">([^<]*)</template>', page.read_text("utf-8"))
    assert match
    return gzip.decompress(base64.b64decode(match[1])).decode()


def pull_request(repo: Repo) -> Repository:
    """Two cases that call `find`, and a branch that adds `ship`."""
    files = {
        "shop/__init__.py": "from . import agent\n",
        "shop/agent.py": AGENT.format(more="", name=""),
        "scripted_model.py": (FIXTURES / "scripted_model.py").read_text("utf-8"),
        "evals/test_config.json": '{"criteria": {"response_match_score": 1.0}}',
    }
    repo.commit(files)
    repository = Repository(root=repo.root)
    for name in ("a", "b"):
        repository.write({f"evals/{name}.test.json": eval_set(name, {name: [("find", "Done.")]})})
    repo.commit({})
    repo.branch("feature")
    repo.commit({"shop/agent.py": AGENT.format(more=SHIP, name=", ship")})
    return repository


def test_coverage__every_medium_of_a_pull_request(repo: Repo) -> None:
    repository = pull_request(repo)
    done = repository.gate("run", "--baseline", "rerun", "--base-ref", "main", code=0)
    [coverage] = done.report.coverage
    assert (coverage.tools, coverage.called) == (["find", "refund", "ship"], ["find"])
    assert (coverage.agents, coverage.reached) == (["billing", "shop"], ["shop"])
    comment = comment_markdown(done.report)
    for text in (done.out, (done.output / "summary.md").read_text("utf-8"), index_of(done.output / "report.html")):
        assert LINE in text and NEW in text
    assert NEW in comment and LINE not in comment
    assert done.report.verdict == "passed"


@pytest.mark.slow
def test_coverage__one_case_says_nothing_of_others_and_parts_are_joined(repo: Repo) -> None:
    repository = pull_request(repo)
    single = repository.gate("run", "evals/a.test.json", code=0)
    assert "by no case" not in single.out and "is new" not in single.out

    for number in (1, 2):
        part = repository.gate("run", "--shard", f"{number}/2", output=repo.root / f"shards/{number}", code=0)
        assert "by no case" not in part.out
    merged = repository.gate("merge", code=0)
    assert LINE in merged.out and merged.report.coverage[0].called == ["find"]
