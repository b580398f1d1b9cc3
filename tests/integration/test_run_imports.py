"""The agent's process starts early: what a run needs only afterwards is imported while that process imports its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recorded_evals import AGENT, write_evals

CODE = """
import importlib.util
import sys
import agent_eval.commands.run
import agent_eval.agents.adk._driver, agent_eval.evalset.loading, agent_eval.gate.policy_checks
import agent_eval.pipeline._base_checkout, agent_eval.pipeline._regression, agent_eval.runner
later = ("baseline.archive", "baseline.reader", "criteria.judged", "gate.evaluation", "github.client", "models.pool",
         "report.renderers", "report.html", "results.report", "runner.cost_estimate", "runner.scoring",
         "simulation.simulated")
print([name for name in later if f"agent_eval.{name}" in sys.modules])
print([name for name in later if importlib.util.find_spec(f"agent_eval.{name}") is None])
"""


def test_run__imports_nothing_before_the_agent_starts_that_can_wait() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    loaded, missing = done.stdout.splitlines()
    assert loaded == "[]"
    assert missing == "[]"  # a renamed module would never be loaded


def test_run__never_imports_the_workbench(tmp_path: Path) -> None:
    write_evals(tmp_path, "evals/lamp.test.json", {"on": ["lamp"]})
    code = "import sys; sys.modules['agent_eval_workbench'] = None; from agent_eval.cli import main; sys.exit(main())"

    def exit_code(*arguments: str) -> int:
        done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, timeout=60)
        return done.returncode

    assert exit_code("run", "--agent", AGENT) == 0
    assert exit_code("flaky", "agent-eval-results") != 0
