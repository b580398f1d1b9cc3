"""Custom metrics and packages' criteria in whole runs of the gate."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from gate_runs import Repository, repository_in

from agent_eval.results.report import CaseReport


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo", "faults", new_hosts=True) as made:
        shutil.copytree(FIXTURES / "checks", made.root / "checks", ignore=shutil.ignore_patterns("__pycache__"))
        yield made


def config(repository: Repository, folder: str, criteria: Mapping[str, Any], functions: Mapping[str, str]) -> None:
    custom = {name: {"code_config": {"name": function}} for name, function in functions.items()}
    repository.write({f"{folder}/test_config.json": {"criteria": criteria, "custom_metrics": custom}})


BROKEN = {  # test_criteria_scores.py has the other results that are none.
    "raises": "custom-metric-exception",
    "not_a_number": "custom-metric-invalid-result",
    "exits": "custom-metric-exception",
}


def test_custom_metrics__pass_fail_and_break(repository: Repository) -> None:
    polite = {"threshold": 0.5, "words": ["please"]}
    config(
        repository,
        "evals",
        {"polite": polite, "brief": 12, "alone": 1.0},
        {"polite": "checks.metrics.polite", "brief": "checks.metrics.brief", "alone": "checks.metrics.counts"},
    )
    repository.evals("evals/good.evalset.json", {"good": "say please", "rude": "say no", "long": "say please " * 3})
    for name in [*BROKEN, "shrugs", "absent"]:
        config(repository, f"evals/{name}", {name: 0.5}, {name: f"checks.metrics.{name}"})
        repository.evals(f"evals/{name}/{name}.test.json", {name: "say please"})

    done = repository.gate("run", "--on-inconclusive", "pass")

    assert done.code == 1, done.out + done.err
    cases: dict[str, CaseReport] = {case.eval_id: case for case in done.report.cases}
    assert {name: case.status for name, case in cases.items()} == {
        **{"good": "passed", "rude": "failed", "long": "failed"},
        **dict.fromkeys(BROKEN, "failed"),
        "shrugs": "errored",
        "absent": "failed",
    }
    metrics = {metric.name: metric for metric in cases["good"].metrics}
    assert [(metrics[name].score, metrics[name].status) for name in ("polite", "brief", "alone")] == [
        (1.0, "passed"),
        (10.0, "passed"),
        (1.0, "passed"),
    ]
    assert metrics["brief"].direction == "lower"
    rude = next(metric for metric in cases["rude"].metrics if metric.name == "polite")
    assert [(item.turn, item.score, item.actual) for item in rude.runs[0].evidence] == [(0, 0.0, "say no")]
    for name, code in BROKEN.items():
        [score] = cases[name].metrics[0].runs
        assert (score.status, score.score) == ("not_evaluated", None)
        assert score.error is not None
        assert (score.error.kind, score.error.owner) == (code, "agent")
        reason = cases[name].reason
        assert reason is not None
        assert reason.code == code
    assert cases["absent"].runs[0].error is not None
    assert cases["absent"].runs[0].error.kind == "custom-metric-import"
    assert cases["absent"].runs[0].turns == 0, "the agent was not asked"
    summary = (done.output / "summary.md").read_text(encoding="utf-8")
    assert "in raises" in summary
    assert "\n::error::and hostile" not in done.out
    assert repository.left_behind() == []


PAGE = (Path(__file__).parents[2] / "docs" / "custom-metrics.md").read_text(encoding="utf-8")
[PACKAGE] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Questions" in text]
"""The package of the page: the share of turns that end with a question mark or don't, as the config says."""


def install(site: Path, name: str, points: Mapping[str, str], source: str) -> None:
    """What pip leaves of a wheel: a module, and a dist-info that names its entry points."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(source, encoding="utf-8")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    listed = "".join(f"{metric} = {target}\n" for metric, target in points.items())
    (info / "entry_points.txt").write_text(f"[agent_eval.criteria]\n{listed}", encoding="utf-8")


@pytest.mark.slow
def test_custom_metrics__a_package_brings_a_criterion(repository: Repository, tmp_path: Path) -> None:
    points = {"asks_back": "asks_back:make", "response_match_score": "asks_back:takes_over", "gone": "asks_back:gone"}
    install(tmp_path / "site", "asks_back", points, PACKAGE)
    install(tmp_path / "site", "other", {"twice": "other:make"}, "")
    install(tmp_path / "site", "another", {"twice": "other:make"}, "")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "CI": "true"}
    repository.evals("evals/a.evalset.json", {"asks": "Which one?", "tells": "That one."})
    repository.record("evals/a.evalset.json")

    def run(criteria: Mapping[str, Any]) -> Any:
        config(repository, "evals", criteria, {})
        return repository.gate(
            "run", "evals", "--agent", "recorded:answers.json", python=False, environment=environment
        )

    done = run({"asks_back": {"threshold": 1.0, "wanted": True}, "response_match_score": 0.0})
    assert done.code == 1, done.out + done.err
    assert done.statuses == {"asks": "passed", "tells": "failed"}
    assert "it is not as it should be" in done.out

    broken = run({"asks_back": {"threshold": 1.0, "wanted": 5}, "gone": 1.0, "twice": 1.0})
    assert broken.code == 2, broken.out + broken.err
    assert {problem.code for problem in broken.report.problems} == {"criterion-package-broken"}
    messages = " ".join(problem.message for problem in broken.report.problems)
    assert "asks_back 1.0" in messages
    assert "ValueError: `wanted` must be true or false, not 5" in messages
    assert "AttributeError" in messages
    assert "another 1.0, other 1.0" in messages


def test_custom_metrics__nothing_is_looked_up_for_metrics_that_are_known(tmp_path: Path) -> None:
    """The import of a package would cost every run its time."""
    install(tmp_path / "site", "asks_back", {"response_match_score": "asks_back:make"}, "raise SystemExit(9)")
    code = textwrap.dedent(
        """
        from agent_eval.criteria.registry import build
        from agent_eval.evalset.models import CriterionConfig
        import sys
        print(type(build(CriterionConfig(metric="response_match_score", threshold=1.0))).__name__)
        print("asks_back" in sys.modules)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ended.stdout.split() == ["ResponseMatch", "False"]
