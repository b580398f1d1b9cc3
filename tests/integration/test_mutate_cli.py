"""`agent-eval mutate`: what it measures, leaves out, proposes and writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from dataset_samples import POOL, asked, project
from fake_gemini import FakeGemini
from gate_runs import AGENT_EVAL, Repository, eval_case
from golden_files import check
from judged_gate import KEY, Judge
from pty_terminal import on_terminal

from agent_eval_workbench.mutation.report import MutationReport

FILE, CONFIG = "evals/shop.evalset.json", "evals/test_config.json"
BEFORE = {
    "criteria": {"tool_trajectory_avg_score": {"threshold": 1.0, "matchType": "in order"}, "response_match_score": 0.5}
}
CASES = [
    eval_case(
        "q2",
        ("Sales in Q2?", [("get_sales", {"quarter": "Q2"}), ("note", {"text": "Q2"})], "In Q2: 150 thousand EUR."),
    ),
    eval_case(
        "order",
        ("Where is A-17?", [("get_order", {"id": "A-17"})], "The order A-17 is open and comes on 12 May."),
        ("Who sent it?", [], "Anna Berg sent it from Hamburg."),
    ),
    eval_case("silent", ("Do it.", [("act", {})], "")),
]  # fmt: skip


@dataclass
class Shell:
    """What the command prints."""

    repository: Repository
    text: str = ""

    def mutate(self, *arguments: str, code: int = 0, title: str = "") -> str:
        done = self.repository.gate("mutate", *arguments, environment={"CI": ""}, code=code)
        said = (done.out + done.err).replace(str(self.repository.root), "FOLDER").rstrip()
        self.text += f"# {title or ' '.join(arguments)}\n\n{said}\n\nexit code {code}\n\n"
        return done.out

    def report(self, *arguments: str, code: int = 0) -> MutationReport:
        out = self.repository.gate("mutate", "--format", "json", *arguments, environment={"CI": ""}, code=code).out
        return MutationReport.model_validate({key: _without_scores(value) for key, value in json.loads(out).items()})


def _without_scores(value: Any) -> Any:
    """Computed fields are in the JSON only."""
    if isinstance(value, list):
        return [_without_scores(each) for each in value]
    return {key: each for key, each in value.items() if key != "score"} if isinstance(value, dict) else value


def recorded(
    repository: Repository, *cases: Mapping[str, Any], config: Any = None, code: int = 0, runs: int = 1
) -> None:
    """Runs cases on what they expect."""
    document = {"eval_set_id": "shop", "eval_cases": list(cases)}
    repository.write({FILE: document, "answers.json": document, CONFIG: config or BEFORE})
    run(repository, code=code, runs=runs)


def run(repository: Repository, *more: str, code: int = 0, runs: int = 1) -> None:
    arguments = ("--agent", "recorded:answers.json", "--num-runs", str(runs), *more)
    repository.gate("run", *arguments, python=False, code=code)


def test_mutate__what_it_prints_and_writes(repository: Repository) -> None:
    shell = Shell(repository)
    recorded(repository, *CASES[:2])
    shell.mutate()
    before = (repository.root / CONFIG).read_text("utf-8")
    shell.mutate("--min-score", "0.99", f"{FILE}:q2", code=1)
    assert (repository.root / CONFIG).read_text("utf-8") == before
    survived = shell.report().total.survived
    shell.mutate("--apply")
    criteria = json.loads((repository.root / CONFIG).read_text("utf-8"))["criteria"]
    assert criteria["tool_trajectory_avg_score"] == {"threshold": 1.0, "matchType": "EXACT"}
    assert criteria["response_facts"] == {"threshold": 1.0, "names": True, "states": True, "negation": True}
    run(repository)  # It is still green.
    after = shell.report("--min-score", "0.9")
    assert after.total.survived <= 0.2 * survived
    # The wrong fact that was green before.
    repository.write(
        {"answers.json": (repository.root / FILE).read_text("utf-8").replace("150 thousand", "0 thousand")}
    )
    run(repository, code=1)
    check("golden_mutate/sales.txt", shell.text)


def test_mutate__on_a_terminal_one_key_writes(repository: Repository) -> None:
    recorded(repository, CASES[0])
    before = (repository.root / CONFIG).read_text("utf-8")
    command, environment = [*AGENT_EVAL, "mutate"], repository.environment({"CI": ""})
    for keys, writes in (("dn", False), ("q", False), ("y", True)):
        with on_terminal(command, cwd=repository.root, environment=environment) as terminal:
            for number, key in enumerate(keys):
                terminal.expect(r"write this to evals/test_config.json\? \[.*\] ")
                terminal.press(key, r'\+ *"response_facts"' if key == "d" and not number else "")
            assert terminal.code() == 0
        assert ((repository.root / CONFIG).read_text("utf-8") != before) is writes
    assert "response_facts" in (repository.root / CONFIG).read_text("utf-8")


def test_mutate__what_is_left_out_is_named(repository: Repository) -> None:
    shell = Shell(repository)
    others = [eval_case(name, ("Hi.", None, "Hello 5.")) for name in ("changed", "gone", "red", "crashed")]
    recorded(repository, *CASES, *others, config={"criteria": {"tool_trajectory_avg_score": 1.0}})
    document = json.loads((repository.root / FILE).read_text("utf-8"))
    cases = {case["eval_id"]: case for case in document["eval_cases"]}
    # What is red is no measure; nor is what was not recorded.
    answers = json.loads(json.dumps(document))
    answers["eval_cases"] = [case for case in answers["eval_cases"] if case["eval_id"] != "crashed"]
    answers["eval_cases"][5]["conversation"][0]["intermediate_data"] = {"tool_uses": [{"name": "oops", "args": {}}]}
    repository.write({"answers.json": answers})
    run(repository, code=1)
    cases["changed"]["conversation"][0]["user_content"]["parts"][0]["text"] = "Hello?"
    document["eval_cases"] = [case for case in cases.values() if case["eval_id"] != "gone"]
    repository.write({FILE: document})
    shell.mutate(title="a case that expects no answer, one that was changed, one that is gone, one that fails")
    report = shell.report()
    assert {case.name for case in report.by_case} == {f"{FILE}:q2", f"{FILE}:order", f"{FILE}:silent"}
    shell.mutate(f"{FILE}:red", code=3)
    shell.mutate("--min-score", "0", f"{FILE}:red", code=3)
    shell.mutate("nobody", code=2)
    recordings = repository.root / "agent-eval-results" / "recordings.jsonl.gz"
    recordings.unlink()
    shell.mutate(code=2, title="without recordings")
    shutil.rmtree(recordings.parent)
    shell.mutate(code=2, title="without results")
    check("golden_mutate/left_out.txt", shell.text)


def test_mutate__advice_keeps_every_stored_run_green(repository: Repository) -> None:
    """Two runs of a case, of which one leaves out a fact and makes another call."""
    recorded(repository, *CASES[:2])
    document = json.loads((repository.root / FILE).read_text("utf-8"))
    document["eval_cases"][0]["conversation"][0]["final_response"]["parts"][0]["text"] = "In Q2: many thousand EUR."
    document["eval_cases"][0]["conversation"][0]["intermediate_data"]["tool_uses"].append({"name": "bye", "args": {}})
    repository.write({"answers.json": document})
    run(repository)
    shell = Shell(repository)
    report = shell.report("--apply")
    assert report.total.survived > 0
    assert "response_facts" not in {each.metric for each in report.advice}
    run(repository)


@pytest.fixture
def judge() -> Iterator[FakeGemini]:
    with FakeGemini(Judge(), keep=1000) as server:
        yield server


def test_mutate__judges_are_asked_only_if_wanted(
    repository: Repository, judge: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_EVAL_JUDGE_API_KEY", KEY)
    at = ("--judge-base-url", judge.url, "--judge-cache", "cache")
    match = {"threshold": 0.5, "judge_model_options": {"num_samples": 1}}
    config = {"criteria": {**BEFORE["criteria"], "final_response_match_v2": match}}
    document = {"eval_set_id": "shop", "eval_cases": CASES[:1]}
    repository.write({FILE: document, "answers.json": document, CONFIG: config})
    run(repository, *at)
    asked = judge.stats.requests
    shell = Shell(repository)
    free = shell.report(*at)
    assert judge.stats.requests == asked
    assert free.total.survived == 0 and free.total.undecided > 0, "another criterion may notice it"
    assert free.not_scored == {"final_response_match_v2": 1} and free.judge_calls is None
    judged = shell.report("--judges", *at)
    assert judged.not_scored == {} and judged.total.undecided == 0 < judged.total.survived, "this judge likes all"
    assert judged.judge_calls == judge.stats.requests - asked > 0
    total = judge.stats.requests
    assert shell.report("--judges", *at).judge_calls == 0, "they are cached"
    few = shell.report("--judges", *at, "--judge-cache", "off", "--max-judge-calls", "2")
    assert judge.stats.requests == total + 2 and few.total.undecided > 0
    monkeypatch.delenv("AGENT_EVAL_JUDGE_API_KEY")
    repository.gate("mutate", "--judges", *at, "--judge-cache", "off", code=2)


def test_mutate__configs_that_it_does_not_write(repository: Repository) -> None:
    """ADK's defaults, which get a file; a case without an answer; other files of the same config are counted."""
    recorded(repository, CASES[0])
    (repository.root / CONFIG).unlink()
    run(repository)
    report = Shell(repository).report("--apply")
    assert next((each.config, each.applied) for each in report.advice) == (CONFIG, True)
    criteria = json.loads((repository.root / CONFIG).read_text("utf-8"))["criteria"]
    assert criteria["tool_trajectory_avg_score"] == 1.0 and "response_facts" in criteria
    recorded(repository, CASES[0], config={"criteria": {"tool_trajectory_avg_score": 1.0}})
    repository.write({"evals/b.evalset.json": {"eval_set_id": "b", "eval_cases": [CASES[2]]}})
    report = Shell(repository).report()
    assert "response_facts" not in {each.metric for each in report.advice}
    assert any(
        each.why == "can't get response_facts: silent of evals/b.evalset.json expects no answer"
        for each in report.left_out
    )
    repository.write({"evals/b.evalset.json": {"eval_set_id": "b", "eval_cases": [CASES[1]]}})
    assert {each.unchecked for each in Shell(repository).report().advice} == {1}


def test_mutate__a_dataset_of_agents_cli(repository: Repository) -> None:
    """Its functions run in the agent's environment only: what other criteria pass, they may notice."""
    repository.agent("cinema")
    repository.write({"agents-cli-manifest.yaml": 'name: "x"\nagent_directory: "cinema"\n'})
    dataset = {"eval_cases": [asked("price", "The price?", "Ten euros.")]}
    project(repository.root, dataset, POOL, {"count": 1})
    repository.gate("run", code=0)
    [left_out] = Shell(repository).report(code=3).left_out
    assert left_out.why == "has no criterion with a threshold that needs neither a judge (--judges) nor the agent"
    project(repository.root, dataset, POOL, {"count": 1, "response_match_score": 0.1})
    repository.gate("run", code=0)
    report = Shell(repository).report()
    assert {each.kind: each.outcome for each in report.mutants} == {
        "number": "undecided",
        "apology": "killed",
        "empty": "killed",
    }
    assert report.not_scored == {"count": 1} and report.advice == []


def test_mutate__the_final_state(repository: Repository) -> None:
    case = {**CASES[0], "final_session_state": {"quarter": "Q2", "sales": {"total": 150}, "temp:x": 1}}
    recorded(repository, case, CASES[1])
    states = [mutant for mutant in Shell(repository).report().mutants if mutant.kind.startswith("state")]
    assert {mutant.outcome for mutant in states} == {"survived"} and len(states) == 4
    out = Shell(repository).mutate("--apply")
    assert 'add final_session_state: {"threshold": 1.0}: kills 4' in out
    run(repository)
    after = Shell(repository).report()
    states = [mutant for mutant in after.mutants if mutant.kind.startswith("state")]
    assert [mutant.killed_by for mutant in states] == [["final_session_state"]] * 4
