"""What the gate says of a run that evaluates nothing: it is green if somebody asked for that, or if nothing is gated.

Each trouble is run once as a user runs it, without a baseline. What other gates and baselines make of these results is
decided by the functions that the pipeline calls, on the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from dead_or_alive import TROUBLES, healthy_run, suite
from gate_runs import anywhere
from golden_files import check

from agent_eval.baseline.file import FileSource
from agent_eval.baseline.git import GitError
from agent_eval.baseline.lookup import BaselineRequest, resolve
from agent_eval.gate.verdict import exit_code
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline._facts import hold_to_facts
from agent_eval.pipeline._regression import compare_with_base, pair_with_base
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.pipeline.context import RunContext
from agent_eval.pipeline.pipeline import decide_on
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan
from agent_eval.settings import read_settings
from agent_eval_agents.sandbox.isolation import NO_PROCESS
from agent_eval_results.data.answers import is_scored
from agent_eval_results.data.report import RunReport
from agent_eval_results.report.phrases import headline, put_into_words
from agent_eval_results.report.views import view_of
from agent_eval_scoring.core.limiter import Limiter

pytestmark = pytest.mark.slow

GATES: Mapping[str, Mapping[str, str]] = {
    **{gate: {"gate": gate} for gate in ("auto", "thresholds", "regressions", "both", "advisory")},
    "on-inconclusive: pass": {"gate": "auto", "on-inconclusive": "pass"},
}
WANTED = BaselineRequest(repository="", base_ref="main", commit="0" * 40, how="of the test", is_pull_request=False)


async def decided(head: bytes, base: Path | None, root: Path, flags: Mapping[str, str]) -> tuple[int, str]:
    """What the pipeline makes of a head's results, beside a baseline."""
    report = RunReport.model_validate_json(head)
    settings, problems = read_settings(root, flags={**flags, "max-extra-runs": "0"})
    assert problems == []
    if report.verdict != "invalid":
        ci = replace(LOCAL, baseline_request=WANTED)
        with closing(Journal(root / "decided.jsonl", resume=False)) as journal:
            bench = Checkout(
                settings=settings,
                context=RunContext(environ={}, log=lambda _: None, ci=ci),
                agents={},
                isolation=NO_PROCESS,
                journal=journal,
                limiter=Limiter(1),
                models=None,
                until=time.monotonic() + 60,
            )
            recorded = any(file.agent.startswith("recorded:") for file in report.files)
            outcome = None
            if base is not None:
                source = FileSource(path=str(base.relative_to(root)), root=root, git=GitError("no checkout"))
                outcome = await resolve([source], WANTED)
            plan = Plan(cases=(), num_runs=1)
            paired = pair_with_base(report, outcome, settings.history, plan)
            compared = await compare_with_base(
                report, outcome, paired, bench, plan, None, repeatable=not recorded, hold=hold_to_facts
            )
            decide_on(report, bench, compared, repeatable=not recorded)
    report.exit_code = exit_code(report.verdict, settings.on_inconclusive, not_run=report.totals.not_run)
    put_into_words(report)
    line = headline(view_of(report), brief=True)
    if report.exit_code == 0 and not (flags["gate"] == "advisory" or "on-inconclusive" in flags):
        assert any(map(is_scored, report.cases)), f"green, and nothing was scored: {line}"
    assert not line.startswith("Passed") or report.totals.passed, line
    return report.exit_code, line


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], bytes]:
    """Results of the same cases with an agent that passes them, scored by a judge or not."""

    @cache
    def results(judged: bool) -> bytes:
        done = healthy_run(suite(tmp_path_factory.mktemp("healthy") / "repo"), judged=judged)
        assert done.code == 0, done.out + done.err
        return (done.output / "results.json").read_bytes()

    return results


async def test_dead_or_alive(tmp_path: Path, healthy: Callable[[bool], bytes]) -> None:
    story = []
    for trouble in TROUBLES:
        repository = suite(tmp_path / trouble.name.replace(" ", "-"))
        done = trouble.run(repository)
        head = (done.output / "results.json").read_bytes()
        base = repository.root / "base.json"
        outcomes: dict[tuple[int, str], list[str]] = {}
        for name, results in (("no baseline", b""), ("the same", head), ("healthy", healthy(trouble.judged))):
            base.write_bytes(results)
            for gate, flags in GATES.items():
                outcome = await decided(head, base if results else None, repository.root, flags)
                outcomes.setdefault(outcome, []).append(f"{name}, {gate}")
        code, line = next(iter(outcomes))
        assert code == done.code and f"{line} (" in " ".join(done.out.split()), done.out + done.err
        story.append(f"# {trouble.name}\n")
        for (code, line), where in outcomes.items():
            story.append(f"exit {code}; {line}: {'; '.join(where) if len(outcomes) > 1 else 'always'}\n")
    check("golden_gate/dead_or_alive.txt", anywhere("".join(story)))
