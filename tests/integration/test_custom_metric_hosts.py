"""Custom metrics: their process, the adapter for DeepEval, packages' criteria, and all in whole runs of the gate."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import FIXTURES, MATRIX, REFERENCE, adk_python
from gate_runs import Repository, program, repository_in
from golden_files import check

from agent_eval.agents.host import ADAPTERS, HostSpec, MetricHosts
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind, Owner
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.masking import Masker
from agent_eval.evalset.models.schema import ConversationScenario
from agent_eval.results.report import CaseReport
from agent_eval.runner import function_source

# The process of the custom metrics, with the functions of `agents_fixtures/checks`.


@asynccontextmanager
async def metric_hosts(
    tmp_path: Path,
    python: Sequence[str],
    *,
    timeout: float = 60,
    secret: str = "",
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[MetricHosts]:
    """Hosts in that interpreter; `secret` is masked in what they say."""

    async def spec() -> HostSpec:
        return HostSpec(
            python=list(python),
            agent_path=str(FIXTURES / "checks"),
            root=FIXTURES,
            sandbox=Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **(environment or {})}),
            masker=Masker([secret] if secret else []),
            log_dir=tmp_path,
            start_timeout=120,
            role="metrics",
        )

    runner = MetricHosts(spec, name="metrics", timeout=timeout)
    try:
        yield runner
    finally:
        await runner.close()


async def failure_of(runner: MetricHosts, call: MetricCall) -> MetricFailure:
    """What the call raises."""
    with pytest.raises(MetricFailure) as caught:
        await runner.evaluate(call)
    return caught.value


# Custom metrics: their process, the adapter for DeepEval, packages' criteria, and all in whole runs of the gate.


# The process of the custom metrics: what it calls, with what, and what becomes of functions that don't behave.


ANSWER = {"user_content": user_message("hi"), "final_response": model_message("yes please")}
NEWER = {"usage_metadata": {"prompt_token_count": 3}, "grounding_metadata": {}, "model_version": "m"}
"""What events have that an older google-adk refuses."""


def turn(*parts: dict[str, Any]) -> Invocation:
    """A turn with these events, the last of which is the answer's."""
    events = [{"author": "a", "content": {"role": "model", "parts": [part]}, **NEWER} for part in parts]
    timed = {"duration": 1.0, "model_duration": 0.5}
    return Invocation.model_validate(
        {**ANSWER, **timed, "intermediate_data": {"invocation_events": [*events, {"author": "a", **NEWER}]}}
    )


TURN = turn({"functionCall": {"name": "f", "args": {}}})


def hosts(
    tmp_path: Path, version: str = REFERENCE, *, timeout: float = 30, secret: str = ""
) -> AbstractAsyncContextManager[MetricHosts]:
    return metric_hosts(tmp_path, host_forks.command(adk_python(version)), timeout=timeout, secret=secret)


def call(name: str, **fields: Any) -> MetricCall:
    made: dict[str, Any] = {
        "metric": "mine",
        "function": f"checks.metrics.{name}",
        "criterion": {"threshold": 0.5, "words": ["please"]},
        "actual": [TURN],
        "expected": [TURN],
        "scenario": None,
    }
    return MetricCall(**{**made, **fields})


@pytest.mark.parametrize("version", MATRIX[1:])
async def test_custom_metric_hosts__a_function_gets_objects_of_its_own_adk_with_all_that_happened(
    version: str, tmp_path: Path
) -> None:
    switch = {"name": "switch", "args": {"room": "hall"}}
    switched = {"name": "switch", "response": {"on": True}}
    as_events = turn({"text": "One moment."}, {"functionCall": switch}, {"functionResponse": switched})
    as_lists = Invocation.model_validate(
        {
            **ANSWER,
            "intermediate_data": {
                "tool_uses": [switch],
                "tool_responses": [switched],
                "intermediate_responses": [["a", [{"text": "One moment."}]]],
            },
        }
    )
    async with hosts(tmp_path, version) as runner:
        result = await runner.evaluate(call("polite", actual=[TURN, TURN], expected=[TURN, TURN]))
        also = await runner.evaluate(call("brief", function="agent.metrics.brief"))
        heard = await runner.evaluate(call("hears_all", actual=[as_events, as_lists]))

    assert (result.type, result.score, result.status) == ("EvaluationResult", 1.0, "PASSED")
    assert [(turn.score, turn.status) for turn in result.turns] == [(1.0, "PASSED")] * 2
    assert (also.score, also.status) == (10.0, "FAILED")
    assert [turn.score for turn in heard.turns] == [111.0, 111.0]
    assert "polite is called for mine" in (tmp_path / "metrics-1.log").read_text(encoding="utf-8")


@pytest.mark.slow
async def test_custom_metric_hosts__an_adk_without_custom_metrics_says_so(tmp_path: Path) -> None:
    async with hosts(tmp_path, MATRIX[0]) as runner:
        error = await failure_of(runner, call("polite"))
        again = await failure_of(runner, call("brief"))

    assert (error.kind, error.owner) == (MetricFailureKind.ENVIRONMENT, Owner.AGENT)
    assert "google-adk 1.18.0 has no custom metrics" in error.message
    assert again.message == error.message
    assert not (tmp_path / "metrics-2.log").exists()


async def test_custom_metric_hosts__an_error_in_a_function_is_reported_masked_and_hurts_no_other_call(
    tmp_path: Path,
) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="buy", user_persona="EXPERT")
    async with hosts(tmp_path, secret="and hostile") as runner:
        raised = await failure_of(runner, call("raises"))
        absent, value, module = [
            await failure_of(runner, call(name)) for name in ("no_such", "not_callable", "no.such")
        ]
        exits = await failure_of(runner, call("exits"))
        with_scenario = await failure_of(runner, call("polite", expected=None, scenario=scenario))
        result = await runner.evaluate(call("a_dict"))
        fine = await runner.evaluate(call("polite"))

    assert raised.kind is MetricFailureKind.EXCEPTION
    assert "ValueError: the metric is broken" in raised.message
    assert "metrics.py" in (raised.traceback or "")
    assert "and hostile" not in f"{raised.message}{raised.traceback}{raised.log_tail}"
    assert {error.kind for error in (absent, value, module)} == {MetricFailureKind.IMPORT}
    assert "has no `no_such`" in absent.message
    assert "is of type int, not a function" in value.message
    assert "sys.exit(0)" in exits.message
    assert "assert scenario is None" in (with_scenario.traceback or "")
    assert (result.type, result.shown) == ("dict", "{'score': 1.0}")
    assert fine.score == 1.0


async def test_custom_metric_hosts__functions_that_hang_or_kill_their_process_fail_alone(tmp_path: Path) -> None:
    async with hosts(tmp_path, timeout=1.5) as runner:
        names = ("waits", "hangs", "leaves", "polite", "brief", "polite")
        results = await asyncio.gather(*(runner.evaluate(call(name)) for name in names), return_exceptions=True)
        second = await failure_of(runner, call("leaves"))
        third = await failure_of(runner, call("leaves"))

    kinds = [
        result.kind if isinstance(result, MetricFailure) else getattr(result, "score", result) for result in results
    ]
    deadline, crash = MetricFailureKind.DEADLINE, MetricFailureKind.CRASH
    assert kinds == [deadline, deadline, crash, 1.0, 10.0, 1.0]
    hung = results[1]
    assert isinstance(hung, MetricFailure)
    assert "in hangs" in (hung.traceback or "")
    assert "exited with code 3" in second.message
    assert "was not called any more" in third.message


# The adapter for DeepEval in the process of the custom metrics, with a stand-in for the package.
#
# The stand-in shows what it was given; `tests/nightly/test_deepeval_real.py` has the real package.


STAND_IN = FIXTURES / "deepeval_stand_in"
CALL = {"id": "c1", "name": "set", "args": {"on": True}}
REPLY = {"id": "c1", "name": "set", "response": {"status": "ok"}}


def called_turn(user: str, answer: str, *, calls: bool = False) -> Invocation:
    parts = [{"function_call": CALL}, {"function_response": REPLY}] if calls else []
    return Invocation.model_validate(
        {
            "user_content": user_message(user),
            "final_response": model_message(answer),
            "intermediate_data": {"invocation_events": [{"author": "a", "content": {"role": "model", "parts": parts}}]},
            "duration": 1.5,
        }
    )


ACTUAL = [called_turn("on", "done", calls=True), called_turn("off", "no")]
EXPECTED = [called_turn("on", "done", calls=True), called_turn("off", "yes")]


def adapter_hosts(tmp_path: Path, **variables: str) -> AbstractAsyncContextManager[MetricHosts]:
    return metric_hosts(tmp_path, [str(adk_python())], environment={"PYTHONPATH": str(STAND_IN), **variables})


def adapter_call(metric: str, **fields: Any) -> MetricCall:
    return MetricCall(
        metric="mine",
        function="agent_eval_deepeval.metric",
        criterion={"threshold": 0.5, "metric": metric, **fields},
        actual=ACTUAL,
        expected=EXPECTED,
        scenario=None,
    )


async def test_adapter__scores_turns_and_refuses_what_it_can_not_use(tmp_path: Path) -> None:
    judge = {"DEEPEVAL_JUDGE_MODEL": "m", "DEEPEVAL_JUDGE_BASE_URL": "http://j/v1", "DEEPEVAL_JUDGE_API_KEY": "k"}
    async with adapter_hosts(tmp_path, **judge, CONFIDENT_API_KEY="uploads") as runner:
        shows = await runner.evaluate(adapter_call("Shows", evaluation_params=["input"]))
        other = await runner.evaluate(adapter_call("Shows", name="Mine", model="other", retrieval_context=["a page"]))
        flips = await runner.evaluate(adapter_call("Flips"))
        talks = await runner.evaluate(adapter_call("Talks", chatbot_role="a home"))
        missing = {
            metric: await runner.evaluate(adapter_call(metric)) for metric in ("Unavailable", "NoScore", "Fails")
        }
        errors = [
            await failure_of(runner, adapter_call("Shows", bogus=1)),
            await failure_of(runner, adapter_call("Shows", evaluation_params=["inptu"])),
            await failure_of(runner, adapter_call("Showz")),
            await failure_of(runner, adapter_call("os")),
        ]

    # The mean over the turns; it passes only if every turn does.
    assert (shows.score, shows.status, shows.version) == (0.625, "FAILED", "deepeval 9.8.7")
    assert [(item.score, item.status) for item in shows.turns] == [(1.0, "PASSED"), (0.25, "FAILED")]
    first, second = (json.loads(item.rubrics[0].rationale) for item in shows.turns)
    shown = json.loads(other.turns[0].rubrics[0].rationale)
    assert ([item.status for item in flips.turns], flips.turns[0].rubrics) == (["FAILED", "PASSED"], [])

    assert (talks.score, talks.status, len(talks.turns)) == (0.75, "PASSED", 2)
    conversation = json.loads(talks.turns[0].rubrics[0].rationale)
    check("golden_deepeval.json", json.dumps([first, second, shown, conversation], indent=1) + "\n")
    assert talks.turns[1].rubrics == []

    # One turn without a score: there is none for the run.
    assert {(item.score, item.status) for item in missing.values()} == {(None, "NOT_EVALUATED")}
    assert {name: item.rubrics[0].rationale for name, item in missing.items()} == {
        "Unavailable": "ConnectionError: the judge is down",
        "NoScore": "the metric has no score",
        "Fails": "a verdict is missing",
    }
    assert missing["Unavailable"].turns[0].score == 1.0

    assert {item.kind for item in errors} == {MetricFailureKind.EXCEPTION}
    assert "Shows has no argument `bogus`. Its signature is Shows(name: " in errors[0].message
    assert "Shows: `evaluation_params` is invalid" in errors[1].message
    assert "not 'Showz'. Did you mean Shows" in errors[2].message
    assert "must be a class of deepeval.metrics" in errors[3].message


@pytest.mark.slow
async def test_adapter__without_a_judge_or_without_deepeval(tmp_path: Path) -> None:
    async with adapter_hosts(tmp_path) as runner:
        shows = await runner.evaluate(adapter_call("Shows"))
    assert json.loads(shows.turns[0].rubrics[0].rationale)["model"] == "_NoJudge"

    async with adapter_hosts(tmp_path, PYTHONPATH="") as runner:
        failure = await failure_of(runner, adapter_call("Shows"))
    assert (failure.kind, "No module named 'deepeval'" in failure.message) == (MetricFailureKind.IMPORT, True)


def test_function_source__of_the_adapter_is_its_file_or_the_repositorys_own(tmp_path: Path) -> None:
    ours = function_source("agent_eval_deepeval.metric", tmp_path, None)
    assert ours
    assert function_source("agent_eval_other.metric", tmp_path, None) == ""

    (tmp_path / "agent_eval_deepeval.py").write_text("def metric(): ...\n", "utf-8")
    assert function_source("agent_eval_deepeval.metric", tmp_path, None) not in {"", ours}


def test_adapter__imports_nothing_of_agent_eval() -> None:
    for path in ADAPTERS:
        assert "agent_eval." not in path.read_text("utf-8").replace("agent_eval_deepeval.metric", "")


# Custom metrics and packages' criteria in whole runs of the gate.


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

    done = repository.gate("run", "--on-inconclusive", "pass", code=1)

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
    ended = program(sys.executable, "-c", code, env={"PYTHONPATH": str(tmp_path / "site")})
    assert ended.stdout.split() == ["ResponseMatch", "False"]
