"""Cases that may not answer otherwise than on the base branch (`changed-facts = "block"`), in whole runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace

import pytest
from adk_envs import FIXTURES
from base_repos import Repo, new_repo
from gate_runs import Repository, eval_case, told
from golden_files import check

AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

SALES = {{"Q1": 120, "Q2": {second}}}


def get_sales(quarter: str) -> dict:
    return {{"thousand": SALES[quarter]}}


def script(said, count, request):
    if not count:
        return reply(call("get_sales", quarter=said[-2:]))
    response = request.contents[-1].parts[0].function_response.response
    return reply(text(f"Sales were {{response['thousand']}} thousand."))


root_agent = LlmAgent(name="sales", model=scripted(script), instruction="Report.", tools=[get_sales])
"""
BLOCK = '[[policy]]\nchanged-facts = "block"\n'
POLICIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "both runs of today say so": (BLOCK, ()),
    "no run is left": (BLOCK, ("--max-extra-runs", "0")),
    "by thresholds": (BLOCK, ("--gate", "thresholds")),
    "it only advises": (BLOCK, ("--gate", "advisory")),
    "not for this case": (f'{BLOCK}\n[[policy]]\ncases = ":q2"\nchanged-facts = "inform"\n', ()),
    "the case informs": (f'{BLOCK}\n[[policy]]\ncases = ":q2"\nblocking = false\n', ()),
    "nobody asked": ("", ()),
}


@pytest.fixture
def sales(repository: Repository) -> Repo:
    repository.agent()
    repository.write({"sales/__init__.py": "from . import agent\n"})
    cases = [
        eval_case(
            quarter.lower(), (f"Sales of {quarter}", [("get_sales", {"quarter": quarter})], f"Sales were {n} thousand.")
        )
        for quarter, n in (("Q1", 120), ("Q2", 150))
    ]
    repository.write(
        {
            "sales/sales.evalset.json": {"eval_set_id": "sales", "eval_cases": cases},
            "sales/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}},
        }
    )
    repository.write({"scripted_model.py": (FIXTURES / "scripted_model.py").read_text("utf-8")})
    repository.write({".gitignore": "agent-eval-results/\n__pycache__/\n"})
    return new_repo(repository.root)


@pytest.mark.slow
def test_changed_facts__what_a_policy_makes_of_them(repository: Repository, sales: Repo) -> None:
    said = []
    for title, (policy, flags) in POLICIES.items():
        sales.git("checkout", "-q", "-B", "main")
        sales.commit({"agent-eval.toml": policy, "sales/agent.py": AGENT.format(second=150)})
        sales.branch("change")
        sales.commit({"sales/agent.py": AGENT.format(second=0)})
        done = repository.gate("run", "--baseline", "rerun", "--base-ref", "main", *flags)
        assert done.report.totals.passed == 2, "every score is good enough"
        decided = [
            f"{case.case_id.partition(':')[2]} {case.metric}: {case.word}, {case.evidence}"
            for case in (done.report.decision.cases if done.report.decision is not None else ())
        ]
        outcomes = [f"{case.eval_id}: {case.outcome.standing if case.outcome else ''}" for case in done.report.cases]
        extra = [
            f"{side} ran {sum(len(case.runs) for case in runs)} more"
            for side, runs in (("head", done.report.confirmations), ("base", done.report.base_runs))
        ]
        said.append(told(title, done, *decided, *outcomes, *extra))
    check("golden_gate/changed_facts.txt", "".join(said))


def test_changed_facts__what_media_say_of_a_case_that_passes_and_blocks(repository: Repository, sales: Repo) -> None:
    sales.commit({"agent-eval.toml": BLOCK, "sales/agent.py": AGENT.format(second=150)})
    sales.branch("change")
    # The pull request takes the policy away: the base branch's holds.
    sales.commit({"agent-eval.toml": "", "sales/agent.py": AGENT.format(second=0)})
    done = repository.gate("run", "--baseline", "rerun", "--base-ref", "main", code=1)
    assert done.report.blocking == ["sales/sales.evalset.json:q2"]
    assert "answers differently from main: answer: 150 thousand → 0 thousand" in done.out
    junit = (done.output / "junit.xml").read_text("utf-8")
    assert junit.count("<failure") == 1 and "answers differently from main" in junit
    assert done.report.outcome is not None
    assert done.report.outcome.headline.message == "Failed: 1 regression vs. main (q2)"


def test_changed_facts__a_base_without_recordings_is_none_that_answers_alike(
    repository: Repository, sales: Repo
) -> None:
    sales.commit({"agent-eval.toml": BLOCK, "sales/agent.py": AGENT.format(second=150)})
    done = repository.gate("run", code=0)
    (repository.root / "base").mkdir()
    shutil.copy(done.output / "results.json", repository.root / "base")
    sales.commit({})
    sales.branch("change")
    sales.commit({"sales/agent.py": AGENT.format(second=0)})
    done = repository.gate("run", "--baseline", "file:base/results.json", "--base-ref", "main", code=3)
    assert [(reason.code, reason.data["phrase"]) for reason in done.report.reasons] == [
        ("facts-open", "facts-not-recorded")
    ]
    assert "compare with recorded answers: `baseline: rerun`" in " ".join(done.out.split())
    sales.git("checkout", "-q", "main")
    sales.branch("docs")
    sales.commit({"README.md": "# Sales\n"})
    repository.gate("run", "--baseline", "file:base/results.json", "--base-ref", "main", code=0)
    # No agent reads another eval file, or what starts a job.
    other = json.dumps([{"query": "Sales of Q3", "expected_tool_use": [], "reference": "Sales were 7 thousand."}])
    sales.commit({"other/other.test.json": other, "other/eval_config.yaml": "", ".gitlab-ci.yml": "stages: [evals]\n"})
    repository.gate("run", "sales", "--baseline", "file:base/results.json", "--base-ref", "main", code=0)


SECOND = "SECOND = int(Path(__file__).parents[{up}].joinpath({file!r}).read_text().split()[-1])"
READS = AGENT.replace("SALES = {{", f"{SECOND}\nSALES = {{{{")
PLACES = [(1, "docs/sales.md", "."), (1, "SALES.md", "."), (2, "libs/sales.txt", "bot")]


@pytest.mark.slow
@pytest.mark.parametrize(("up", "file", "root"), PLACES)
def test_changed_facts__of_agents_that_answer_from_documents_or_from_elsewhere(
    repository: Repository, sales: Repo, up: int, file: str, root: str
) -> None:
    if root != ".":
        (repository.root / root).mkdir()
        for name in ("sales", "scripted_model.py", ".gitignore"):
            shutil.move(repository.root / name, repository.root / root / name)
    agent = "from pathlib import Path\n" + READS.format(second="SECOND", up=up, file=file)
    sales.commit({f"{root}/agent-eval.toml": BLOCK, f"{root}/sales/agent.py": agent, file: "Sales of Q2 were 150"})
    sales.branch("change")
    sales.commit({file: "Sales of Q2 were 0"})
    started = replace(repository, root=repository.root / root)
    done = started.gate("run", "--baseline", "rerun", "--base-ref", "main", code=1)
    assert done.report.blocking == ["sales/sales.evalset.json:q2"]


def test_changed_facts__that_the_pull_request_expects_are_meant(repository: Repository, sales: Repo) -> None:
    sales.commit({"agent-eval.toml": BLOCK, "sales/agent.py": AGENT.format(second=150)})
    sales.branch("change")
    evals = (repository.root / "sales/sales.evalset.json").read_text("utf-8")
    expected = evals.replace("Sales were 150 thousand.", "Sales were 170 thousand.")
    sales.commit({"sales/agent.py": AGENT.format(second=170), "sales/sales.evalset.json": expected})
    rerun = ("--baseline", "rerun", "--base-ref", "main")
    done = repository.gate("run", *rerun, code=0)
    assert done.report.confirmations == [], "nothing is run again for it"
    # An expectation of something else is none of what is said.
    sales.commit({"sales/agent.py": AGENT.format(second=0)})
    assert repository.gate("run", *rerun, code=1).report.blocking == ["sales/sales.evalset.json:q2"]


def test_changed_facts__a_comparison_that_raises_decides_nothing(repository: Repository, sales: Repo) -> None:
    sales.commit({"agent-eval.toml": BLOCK, "sales/agent.py": AGENT.format(second=150)})
    sales.branch("change")
    sales.commit({"sales/agent.py": AGENT.format(second=0)})
    broken = repository.root.parent / "sitecustomize.py"
    broken.write_text(
        "import agent_eval_results.causes.changed_answers as answers\n"
        "def fails(*arguments):\n    raise RecursionError\n"
        "answers.changed_answers = fails\n"
    )
    rerun = ("--baseline", "rerun", "--base-ref", "main")
    done = repository.gate("run", *rerun, environment={"PYTHONPATH": str(broken.parent)}, code=3)
    assert [reason.data["phrase"] for reason in done.report.reasons] == ["facts-not-compared"]
    assert "(RecursionError)" in done.report.reasons[0].message
