"""What differs from the base branch's agents, by what is known of the base's commit."""

from __future__ import annotations

from pathlib import Path

import pytest
import report_samples

from agent_eval.pipeline._agents import add_changes
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.results import AgentFacts, AgentTree
from agent_eval.results.comparison import BaselineReport


def tree(model: str) -> AgentTree:
    return AgentTree(agent="home", agents=[AgentFacts(name="home", model=model)])


@pytest.mark.parametrize(("commit", "wanted", "codes"), [("a", "a", ["model"]), ("a", "b", []), ("a", None, ["model"])])
def test_add_changes__without_git_an_older_base_proves_nothing(
    tmp_path: Path, commit: str, wanted: str | None, codes: list[str]
) -> None:
    report = report_samples.report("passed", [])
    report.agents = [tree("a-small")]
    report.baseline = BaselineReport(status="found", source="artifact", commit=commit, wanted_commit=wanted, message="")
    add_changes(report, [tree("a-large")], LOCAL, tmp_path, lambda _: None)
    assert [change.code for change in report.agent_changes] == codes
