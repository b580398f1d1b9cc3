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

from agent_eval_agents.fingerprints import function_source
from agent_eval_agents.host import ADAPTERS, HostSpec, MetricHosts
from agent_eval_agents.sandbox.spawn import Sandbox
from agent_eval_results.data.report import CaseReport
from agent_eval_scoring.core.content import model_message, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.evalset.metric_runner import MetricCall, MetricFailure, MetricFailureKind
from agent_eval_scoring.evalset.models.schema import ConversationScenario

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


async def outcome(runner: MetricHosts, call: MetricCall) -> list[str]:
    """The result, or what is said of the failure."""
    try:
        result = await runner.evaluate(call)
        return [repr(result.model_dump(exclude_defaults=True))]
    except MetricFailure as error:
        frames = re.sub(
            r'  File ".*(?:host_forks\.py|frozen).*\n(?:    .*\n)?|^[ ^~]+\n', "", error.traceback or "", flags=re.M
        )
        frames = re.sub(r'File ".*/(.*), line \d+', r'File "\1', re.sub(r"\n *For further.*?(?=\. Its)", "", frames))
        said = f"{error.kind.value}, {error.owner.value}: {error.message}"
        return [said, *([f"hint: {error.hint}"] if error.hint else []), *([frames.rstrip()] if frames else [])]


def check_page(name: str, shown: Mapping[str, list[str]]) -> None:
    check(f"golden_metrics/{name}.txt", "".join("\n".join([f"# {row}", *lines, "\n"]) for row, lines in shown.items()))


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


CODE: dict[str, str] = {
    "a number": "return 3",
    "true": "return True",
    "a dict": "return {'score': 0.5, 'explanation': 'half', 'other': 1}",
    "a numeric text in a dict": "return {'score': '0.25'}",
    "an object": "import types; return types.SimpleNamespace(score=1, explanation='as the SDK')",
    "what it is given": "return {'score': 1, 'explanation': str(sorted(instance))}",
    "nothing": "return None",
    "a text": "return '1'",
    "a tuple": "return (1, 'x')",
    "a dict without a score": "return {'value': 1}",
    "no score": "return {'score': None}",
    "a text for a score": "return {'score': 'high'}",
    "an explanation that is no text": "return {'score': 1, 'explanation': ['x']}",
    "not a number": "return float('nan')",
    "infinite": "return {'score': float('inf')}",
    "a text method of the response": "return len(instance['response'].lower())",
    "an exception": "raise ValueError('no price')",
    "a package that is not there": "import pandas",
    "a connection that fails": "tries.append(1)\n    if len(tries) < 3: raise ConnectionError()\n    return len(tries)",
    "an exit": "import sys; sys.exit(3)",
}


async def test_metric_hosts__code_of_agents_cli(tmp_path: Path) -> None:
    """What agents-cli's `evaluate(instance)` may return. There is no google-adk in its process."""
    sources = {name: f"tries = []\ndef evaluate(instance):\n    {body}\n" for name, body in CODE.items()}
    sources |= {
        "a coroutine": "async def evaluate(instance):\n    return 2",
        "its names": "def evaluate(instance):\n    return {'score': '__file__' in globals(), 'explanation': __name__}",
        "another function": "def score(instance):\n    return 1",
        "no Python": "def evaluate(instance) return 1",
    }
    instance = {"response": {"parts": [{"text": "Ten euros."}]}, "prompt": {}}
    shown = {}
    async with metric_hosts(tmp_path, [sys.executable], timeout=30) as runner:
        for name, source in sources.items():
            asked = MetricCall(metric="mine", function="eval_config.yaml:mine", code=source, instance=instance)
            shown[name] = await outcome(runner, asked)
    check_page("code", shown)


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
async def test_custom_metric_hosts__what_functions_get_and_what_is_said_of_them(version: str, tmp_path: Path) -> None:
    """They get objects of their own google-adk, with all that happened; an error hurts no other call."""
    switch = {"name": "switch", "args": {"room": "hall"}}
    switched = {"name": "switch", "response": {"on": True}}
    as_events = turn({"text": "One moment."}, {"functionCall": switch}, {"functionResponse": switched})
    texts = {"intermediate_responses": [["a", [{"text": "One moment."}]]]}
    lists = {"tool_uses": [switch], "tool_responses": [switched], **texts}
    as_lists = Invocation.model_validate({**ANSWER, "intermediate_data": lists})
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="buy", user_persona="EXPERT")
    calls = {
        "polite": call("polite", actual=[TURN, TURN], expected=[TURN, TURN]),
        "brief, by the name that the agent's package has": call("brief", function="agent.metrics.brief"),
        "hears all": call("hears_all", actual=[as_events, as_lists]),
        "with a scenario": call("polite", expected=None, scenario=scenario),
        **{name: call(name) for name in ("raises", "no_such", "not_callable", "no.such", "exits", "a_dict", "shrugs")},
    }
    async with hosts(tmp_path, version, secret="and hostile") as runner:
        check_page("functions", {name: await outcome(runner, each) for name, each in calls.items()})
    assert "polite is called for mine" in (tmp_path / "metrics-1.log").read_text(encoding="utf-8")


@pytest.mark.slow
async def test_custom_metric_hosts__an_adk_without_custom_metrics_says_so(tmp_path: Path) -> None:
    async with hosts(tmp_path, MATRIX[0]) as runner:
        lines = await outcome(runner, call("polite"))
        assert await outcome(runner, call("brief")) == lines
    assert lines[0].startswith(f"{MetricFailureKind.ENVIRONMENT.value}, agent: ")
    assert "google-adk 1.18.0 has no custom metrics" in lines[0]
    assert not (tmp_path / "metrics-2.log").exists()


@pytest.mark.slow
async def test_custom_metric_hosts__functions_that_hang_or_kill_their_process_fail_alone(tmp_path: Path) -> None:
    names = ("waits", "hangs", "leaves", "polite", "brief")
    async with hosts(tmp_path, timeout=1.5) as runner:
        results = await asyncio.gather(*(outcome(runner, call(name)) for name in names))
        shown = dict(zip(names, results, strict=True))
        shown |= {again: await outcome(runner, call("leaves")) for again in ("leaves again", "and again")}
    check_page("processes", shown)


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


ADAPTED: dict[str, dict[str, Any]] = {
    "a turn fails: the score is the mean": {"metric": "Shows", "evaluation_params": ["input"]},
    "more facts": {"metric": "Shows", "name": "Mine", "model": "other", "retrieval_context": ["a page"]},
    "each turn has its verdict": {"metric": "Flips"},
    "a conversation": {"metric": "Talks", "chatbot_role": "a home"},
    "one turn without a score: there is none for the run": {"metric": "Unavailable"},
    "no score": {"metric": "NoScore"},
    "no verdict": {"metric": "Fails"},
    "an unknown argument": {"metric": "Shows", "bogus": 1},
    "an unknown parameter": {"metric": "Shows", "evaluation_params": ["inptu"]},
    "a typo": {"metric": "Showz"},
    "a module": {"metric": "os"},
}


async def test_adapter__scores_turns_and_refuses_what_it_can_not_use(tmp_path: Path) -> None:
    judge = {"DEEPEVAL_JUDGE_MODEL": "m", "DEEPEVAL_JUDGE_BASE_URL": "http://j/v1", "DEEPEVAL_JUDGE_API_KEY": "k"}
    async with adapter_hosts(tmp_path, **judge, CONFIDENT_API_KEY="uploads") as runner:
        check_page("adapter", {name: await outcome(runner, adapter_call(**fields)) for name, fields in ADAPTED.items()})


@pytest.mark.slow
async def test_adapter__without_a_judge_or_without_deepeval(tmp_path: Path) -> None:
    async with adapter_hosts(tmp_path) as runner:
        shows = await runner.evaluate(adapter_call("Shows"))
    assert json.loads(shows.turns[0].rubrics[0].rationale)["model"] == "_NoJudge"

    async with adapter_hosts(tmp_path, PYTHONPATH="") as runner:
        [line, *_] = await outcome(runner, adapter_call("Shows"))
    assert line.startswith(f"{MetricFailureKind.IMPORT.value}, ") and "No module named 'deepeval'" in line


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


def case_lines(case: CaseReport) -> list[str]:
    """What became of a case, and of each metric."""
    lines = [f"{case.status}: {case.reason and case.reason.code}"]
    lines += [f"error: {run.error.kind} after {run.turns} turns" for run in case.runs if run.error]
    for metric in case.metrics:
        if metric.status == "informational":
            continue
        lines.append(f"{metric.name}: {metric.status}, {metric.score}, {metric.direction} is better")
        for score in metric.runs:
            lines += [f"  error: {score.error.kind}, {score.error.owner}"] if score.error else []
            lines += [f"  turn {item.turn}: {item.score} for {item.actual!r}" for item in score.evidence]
    return lines


def test_custom_metrics__pass_fail_and_break(repository: Repository) -> None:
    polite = {"threshold": 0.5, "words": ["please"]}
    config(
        repository,
        "evals",
        {"polite": polite, "brief": 12, "alone": 1.0},
        {"polite": "checks.metrics.polite", "brief": "checks.metrics.brief", "alone": "checks.metrics.counts"},
    )
    repository.evals("evals/good.evalset.json", {"good": "say please", "rude": "say no", "long": "say please " * 3})
    for name in ("raises", "not_a_number", "exits", "shrugs", "absent"):
        config(repository, f"evals/{name}", {name: 0.5}, {name: f"checks.metrics.{name}"})
        repository.evals(f"evals/{name}/{name}.test.json", {name: "say please"})

    done = repository.gate("run", "--on-inconclusive", "pass", code=1)

    check_page("cases", {case.eval_id: case_lines(case) for case in done.report.cases})
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
        from agent_eval_scoring.criteria.registry import build
        from agent_eval_scoring.evalset.models import CriterionConfig
        import sys
        print(type(build(CriterionConfig(metric="response_match_score", threshold=1.0))).__name__)
        print("asks_back" in sys.modules)
        """
    )
    ended = program(sys.executable, "-c", code, env={"PYTHONPATH": str(tmp_path / "site")})
    assert ended.stdout.split() == ["ResponseMatch", "False"]
