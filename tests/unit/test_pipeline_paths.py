"""What paths in the order of `adk eval AGENT FILE ...` mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.pipeline import with_agent_of_paths
from agent_eval.settings import read_settings

AGENT = "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='a')\n"


@pytest.mark.parametrize(
    ("paths", "agent", "left"),
    [
        pytest.param("home home/one.test.json:a,b", "home", "home/one.test.json:a,b", id="the agent's own file"),
        pytest.param("home home/*.test.json", "home", "home/*.test.json", id="a glob of its files"),
        pytest.param("home evals/x.test.json", None, "home evals/x.test.json", id="a file elsewhere"),
        pytest.param("home home/one.test.json evals/x.test.json", None, None, id="both"),
        pytest.param("bare evals/x.test.json", "bare", "evals/x.test.json", id="an agent without files"),
        pytest.param("home", None, "home", id="an agent alone"),
    ],
)
def test_paths__in_the_order_of_adk(tmp_path: Path, paths: str, agent: str | None, left: str | None) -> None:
    for name in ("home/one.test.json", "home/two.test.json", "evals/x.test.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    for name in ("home", "bare"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "agent.py").write_text(AGENT)
    settings, problems = read_settings(tmp_path, flags={"paths": tuple(paths.split())}, secrets={}, text=None)
    assert problems == []
    meant = with_agent_of_paths(settings)
    assert (meant.agent, " ".join(meant.paths)) == (agent, paths if left is None else left)
