"""Custom metrics and packages' criteria in whole runs of the gate."""

from __future__ import annotations

import json
import shutil
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
    path = repository.root / folder / "test_config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    custom = {name: {"code_config": {"name": function}} for name, function in functions.items()}
    path.write_text(json.dumps({"criteria": criteria, "custom_metrics": custom}), encoding="utf-8")


BROKEN = {
    "raises": "custom-metric-exception",
    "not_a_number": "custom-metric-invalid-result",
    "truth": "custom-metric-invalid-result",
    "no_score": "custom-metric-invalid-result",
    "too_few": "custom-metric-invalid-result",
    "informs": "custom-metric-invalid-result",
    "a_dict": "custom-metric-invalid-result",
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


PACKAGE = textwrap.dedent(
    '''
    """The share of turns that end with a question mark or don't, as the config says."""

    from dataclasses import dataclass

    from agent_eval.criteria.api import Conversation, Criterion, CriterionConfig, Result, Scored, TurnFinding, text_of


    @dataclass(frozen=True, kw_only=True)
    class Questions:
        name: str
        threshold: float
        wanted: bool

        async def score(self, conversation: Conversation) -> Result:
            answers = [text_of(turn.final_response) for turn in conversation.actual]
            scores = [float(answer.rstrip().endswith("?") == self.wanted) for answer in answers]
            findings = [
                TurnFinding(turn=number, score=0.0, expected="", actual=answer, why=("it is not as it should be",))
                for number, answer in enumerate(answers)
                if not scores[number]
            ]
            return Scored(score=sum(scores) / len(scores), turn_scores=tuple(scores), findings=tuple(findings))


    def make(config: CriterionConfig) -> Criterion:
        wanted = config.options.get("wanted", True)
        if not isinstance(wanted, bool):
            raise ValueError(f"`wanted` must be true or false, not {wanted!r}")
        return Questions(name=config.metric, threshold=config.threshold, wanted=wanted)
    '''
)


def install(site: Path, name: str, points: Mapping[str, str], source: str) -> None:
    """What pip leaves of a wheel: a module, and a dist-info that names its entry points."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(source, encoding="utf-8")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    listed = "".join(f"{metric} = {target}\n" for metric, target in points.items())
    (info / "entry_points.txt").write_text(f"[agent_eval.criteria]\n{listed}", encoding="utf-8")


def recorded(repository: Repository, answers: Mapping[str, str]) -> None:
    repository.evals("evals/a.evalset.json", {name: name for name in answers}, expect=dict.fromkeys(answers, "x"))
    listed = json.loads((repository.root / "evals" / "a.evalset.json").read_text(encoding="utf-8"))
    for case in listed["eval_cases"]:
        case["conversation"][0]["final_response"]["parts"] = [{"text": answers[case["eval_id"]]}]
    (repository.root / "answers.json").write_text(json.dumps(listed), encoding="utf-8")


@pytest.mark.slow
def test_custom_metrics__a_package_brings_a_criterion(repository: Repository, tmp_path: Path) -> None:
    points = {"asks_back": "asks_back:make", "response_match_score": "asks_back:takes_over", "gone": "asks_back:gone"}
    install(tmp_path / "site", "asks_back", points, PACKAGE)
    install(tmp_path / "site", "other", {"twice": "other:make"}, "")
    install(tmp_path / "site", "another", {"twice": "other:make"}, "")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "CI": "true"}
    recorded(repository, {"asks": "Which one?", "tells": "That one."})

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


def test_custom_metrics__the_package_of_the_page_is_the_one_that_is_tested() -> None:
    page = (Path(__file__).parents[2] / "docs" / "custom-metrics.md").read_text(encoding="utf-8")

    assert f"```python\n{PACKAGE.strip()}\n```" in page


def test_custom_metrics__nothing_is_looked_up_for_metrics_that_are_known(tmp_path: Path) -> None:
    """The import of a package would cost every run its time."""
    import subprocess

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
