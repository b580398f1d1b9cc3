"""The life of pull requests whose agents are replayed: forks without a key, forged tapes, somebody who accepts one."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from fake_github import FakeGitHub
from gate_runs import Done
from golden_files import check
from pull_requests import Lab
from runner_log import outputs_in

from agent_eval_results import ACCEPT_RULES

ROOT = Path(__file__).parents[2]
CASES = ("lamp_on", "lamp_off")
KEY = Path(tempfile.gettempdir(), f"key-of-{os.getpid()}")
"""The key of the agent's model: outside of the repository, where a replay compares nothing."""
AGENT = """from pathlib import Path

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

from .tools import look


def script(said, count, request):
    if not Path(KEY).exists():
        raise AssertionError("the model was asked")
    if not count:
        return reply(call("look", item=said))
    return reply(text(request.contents[-1].parts[0].function_response.response["text"]))


root_agent = LlmAgent(name="bot", model=scripted(script), instruction="Be kind. Always.", tools=[look])
""".replace("KEY", repr(str(KEY)))
TOOLS = '''def look(item: str) -> dict[str, str]:
    """Looks."""
    return {"text": item}
'''
RUDE = AGENT.replace("kind", "rude")
VOLATILE = {"agent-eval.toml": "[[volatile]]\npattern = 'Be \\w{1,9}\\.'\n"}
SHOUT = """

def shout(response):
    if response.content.parts[0].text:
        return reply(text('No.'))
"""
CRASHING = "import os\n\nos._exit(3)\n"
METRIC = """from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def score(metric, actual, expected, *more):
    good = EvalStatus.PASSED
    turns = [PerInvocationResult(actual_invocation=turn, score=1.0, eval_status=good) for turn in actual]
    return EvaluationResult(overall_score=1.0, overall_eval_status=good, per_invocation_results=turns)
"""


def of_fork(lab: Lab, number: int, *arguments: str, fork: str | None = "somebody/shop", **options: Any) -> Done:
    """The run of a fork's pull request, which has no key."""
    KEY.unlink()
    try:
        return lab.pull_request(number, {}, *arguments, fork=fork, **options)
    finally:
        KEY.touch()


REPLAY = ("--replay", "all", "--gate", "regressions")


@pytest.fixture
def lab(lab: Lab, github: FakeGitHub, request: pytest.FixtureRequest) -> Lab:
    """A base branch whose cases are recorded; without a key, its model answers nobody."""
    shutil.copy(FIXTURES / "scripted_model.py", lab.repository.root)
    KEY.touch()
    request.addfinalizer(KEY.unlink)
    lab.commit({}, **{"bot/agent.py": AGENT, "bot/tools.py": TOOLS})
    recorded = lab.repository.gate("run", "--record", "all", environment={"CI": ""})
    assert recorded.code == 0, recorded.out
    push(lab)
    base = lab.base_run()
    assert base.code == 0, base.out + base.err
    return lab


def push(lab: Lab, **files: str) -> None:
    """A commit with what is in the working tree."""
    lab.commit({}, **{"bot/agent.py": AGENT, "bot/tools.py": TOOLS, **files})


def pushed(lab: Lab, **files: str) -> None:
    """The same on main, wherever the working tree is."""
    lab.repo.git("checkout", "-q", "-f", "main")
    push(lab, **files)


def tape_of(lab: Lab, case: str) -> tuple[str, str]:
    name = f"evals/bot.evalset.tools/{case}.tape.json"
    return name, (lab.repository.root / name).read_text("utf-8")


@dataclass(kw_only=True)
class Forks:
    """Pull requests of forks, whose jobs have no key, and what became of them."""

    lab: Lab
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(7))
    story: list[str] = field(default_factory=list)

    def pull(
        self,
        title: str,
        files: Mapping[str, str | None],
        *arguments: str,
        number: int | None = None,
        label: str = "",
        shown: tuple[str, ...] = (),
    ) -> Done:
        """Makes one, or pushes to one."""
        number = number or next(self.numbers)
        written = {"bot/agent.py": AGENT, "bot/tools.py": TOOLS, **files}
        done = of_fork(self.lab, number, *REPLAY, *arguments, files=written, label=label)
        self.story.append(self.lab.told(title, done, number, *shown))
        self.lab.repo.git("checkout", "-q", ".")
        return done


@pytest.fixture
def forks(lab: Lab) -> Forks:
    return Forks(lab=lab)


@pytest.mark.slow
def test_forks__are_green_only_if_they_ask_nothing_new_and_forge_no_tape(forks: Forks) -> None:
    lab, pull = forks.lab, forks.pull
    name, tape = tape_of(lab, "lamp_on")
    lab.repository.write({"bot/agent.py": RUDE.replace("False", "True")})
    assert lab.repository.gate("run", "--record", "all", environment={"CI": ""}).code == 0
    forged = tape_of(lab, "lamp_on")[1]
    lab.repo.git("checkout", "-q", ".")
    late = f"from pathlib import Path\nPath({name!r}).write_text(Path('forged.json').read_text())\n"
    late += "Path('late').touch()\n"
    same = {name: f"{tape}\n"}

    pull("words in README", {"README.md": "Better words."})
    pull("another instruction", {"bot/agent.py": RUDE})
    pull("another tool", {"bot/tools.py": TOOLS.replace("item}", "item[1:]}")})
    pull("another instruction, and texts of it declared volatile", {"bot/agent.py": RUDE, **VOLATILE})
    pull("another instruction with its tape", {"bot/agent.py": RUDE, name: forged})
    pull("the same, written while the agent is loaded", {"bot/agent.py": late + RUDE, "forged.json": forged})
    assert (lab.repository.root / "late").exists(), "it was not written"
    pull("a blank line in a tape", same, number=99)
    pull("accepted", same, number=99, label=ACCEPT_RULES, shown=("This pull", "## "))
    pull("rule changes are only reported", same, "--rule-changes", "report")
    # Nobody knows the base branch's tapes, and no label counts.
    done = pull("without a comparison", same, "--gate", "auto", "--mode", "gate")
    assert "Next, for the owner of the CI: run these 2 cases with a model (`replay: missing-live`)." in " ".join(
        done.out.split()
    )
    check("golden_gate/forks.txt", "".join(forks.story))


@pytest.mark.slow
def test_forks__whose_answers_are_worse_are_regressions(forks: Forks) -> None:
    lab, pull = forks.lab, forks.pull
    hook = "after_model_callback=lambda callback_context, llm_response: shout(llm_response))"
    shouting = AGENT.replace("tools=[look])", f"tools=[look], {hook}") + SHOUT
    lower = {"bot/agent.py": shouting.replace("'No.'", "response.content.parts[0].text + ' Is that really so?'")}
    pull("answers of the tape, turned into others", {"bot/agent.py": shouting}, shown=("## ", "**", "| "))
    assert "--replay all evals/bot.evalset.json:lamp_on,lamp_off" in lab.comment()
    assert not re.search(r"a run \(on main|invocation_duration_v1", lab.comment()), "no model took its time"
    outputs = dict(outputs_in((lab.repository.root.parent / f"job-{lab.runs[-1].id}" / "output").read_text("utf-8")))
    assert outputs["regressions"] == "2"

    # Those that pass have a worse score than when they were recorded.
    named = "[[policy]]\nmetric = 'response_match_score'\nmax-drop = 0.1\n"
    config = {"criteria": {"response_match_score": 0.1}}
    pushed(lab, **{"evals/test_config.json": json.dumps(config), "agent-eval.toml": named})
    assert lab.base_run().code == 0
    assert "lamp_on response_match_score got worse::response_match_score 0.60" in pull("a lower score", lower).out
    pull("a lower score, and only thresholds count", lower, "--gate", "thresholds")

    # No model is asked to confirm a failure.
    own = {"criteria": {"own": 0.5}, "custom_metrics": {"own": {"code_config": {"name": "bot.metric.score"}}}}
    pushed(lab, **{"bot/metric.py": METRIC, "evals/test_config.json": json.dumps(own), "agent-eval.toml": ""})
    assert lab.base_run("--replay", "all").code == 0
    done = pull("a metric that crashes", {"bot/metric.py": CRASHING})
    assert (done.report.confirmations, done.report.base_runs) == ([], [])
    check("golden_gate/forks_worse.txt", "".join(forks.story))


def test_volatile_texts__of_the_base_branch_hold_for_pull_requests(forks: Forks) -> None:
    """For what is recorded with the rule, and for pull requests without it."""
    lab = forks.lab
    pushed(lab, **VOLATILE)
    assert lab.repository.gate("run", "--record", "all", environment={"CI": ""}).code == 0
    push(lab)
    assert lab.base_run().code == 0
    for files in ({"bot/agent.py": RUDE}, {"bot/agent.py": RUDE, "agent-eval.toml": None}):
        done = forks.pull("", files)
        assert (done.code, [case.replayed for case in done.report.cases]) == (0, [True, True]), done.out + done.err
    done = forks.pull("", {"bot/agent.py": AGENT.replace("Always", "Never")})
    assert (done.code, done.report.reasons[0].code) == (3, "model-not-recorded"), done.out + done.err


def test_rerun__runs_on_the_base_branch_what_is_not_replayed(lab: Lab) -> None:
    name = tape_of(lab, "lamp_off")[0]
    files = {"bot/agent.py": AGENT, "bot/tools.py": TOOLS}
    rerun = ("--replay", "missing-live", "--baseline", "rerun", "--num-runs", "2")

    def ran(done: Done) -> list[str]:
        """The cases that ran on the base branch."""
        made = done.output / "base/recordings.jsonl.gz"
        lines = gzip.decompress(made.read_bytes()).decode().splitlines() if made.exists() else []
        return [json.loads(line)["eval_id"] for line in lines]

    for number, live in ((7, []), (8, ["lamp_off"])):
        done = lab.pull_request(number, {}, *rerun, files={**files, **dict.fromkeys([name] if live else [])}, code=0)
        assert [case.eval_id for case in done.report.cases if not case.replayed] == live
        assert ran(done) == 2 * live
        assert done.report.comparison is not None
        assert (done.report.comparison.compared, done.report.comparison.cases) == (2, [])
        assert done.report.comparison.pass_rate.base == 1.0

    # What is not run without a judge is not run on the base branch either.
    pushed(lab, **{"evals/test_config.json": json.dumps({"criteria": {"final_response_match_v2": 0.5}})})
    done = lab.pull_request(9, {}, *rerun, "--without-keys", "deterministic-only", files={**files, name: None})
    assert {run.error.kind for case in done.report.cases for run in case.runs if run.error} == {"without-key"}
    assert ran(done) == []


def test_missing_live__a_fork_is_no_pass_where_a_model_would_have_been_asked(lab: Lab) -> None:
    """Elsewhere a case that only a judge decides is not run without a key."""
    # Google's own client says that there is no key; the model's code is that of the tapes.
    agent = AGENT.replace('raise AssertionError("the model was asked")', "__import__('google.genai').genai.Client()")
    files = {"bot/agent.py": agent, "bot/tools.py": TOOLS}
    push(lab, **files)
    assert lab.repository.gate("run", "--record", "all", environment={"CI": ""}).code == 0
    lab.repository.evals("more/bot.evalset.json", {"fan": "Say fan."})
    push(lab, **files, **{"more/test_config.json": json.dumps({"criteria": {"final_response_match_v2": 0.5}})})
    arguments = ("--replay", "missing-live", "--without-keys", "deterministic-only", "--baseline", "none")
    for number, fork, code, status in ((7, None, 0, "not_run"), (8, "somebody/shop", 3, "errored")):
        done = of_fork(lab, number, *arguments, files=files, fork=fork)
        assert (done.code, done.statuses) == (code, {**dict.fromkeys(CASES, "passed"), "fan": status}), done.out


SECONDS = itertools.count(1_800_000_000)
"""Of commits: two jobs are not at the same second."""


def recipe_job(lab: Lab, files: Mapping[str, str]) -> list[str]:
    """The script of the recipe that opens a pull request, in a new checkout with the files of the artifact.

    Returns:
        What it asked GitHub's program for.
    """
    root = lab.repository.root
    recipe = (ROOT / "docs" / "recipes.md").read_text("utf-8").partition("recorded again every week\n")[2]
    script = textwrap.dedent(recipe.partition("run: |\n")[2].partition("```")[0])
    origin, checkout, programs = (root.parent / name for name in ("origin.git", "checkout", "programs"))
    if not origin.exists():
        lab.repo.git("clone", "-q", "--bare", str(root), str(origin))
        programs.mkdir()
        gh = 'echo "$@" >>"$ASKED"\nif [ "$1" = pr ]; then cat "$RUNNER_TEMP/body" >>"$ASKED"; fi\n'
        image = f'shift 7\nexec {sys.executable} -m agent_eval "$@"\n'
        for name, text in (("gh", gh), ("docker", image)):
            (programs / name).write_text(f"#!/bin/sh\n{text}", "utf-8")
            (programs / name).chmod(0o755)
    lab.repo.git("clone", "-q", "--branch", "main", str(origin), str(checkout))
    for name, text in files.items():
        (checkout / name).write_text(text, "utf-8")
    asked = root.parent / "asked.txt"
    asked.unlink(missing_ok=True)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "ASKED": str(asked), "GITHUB_RUN_ID": "1007"}
    variables["RUNNER_TEMP"] = str(programs)
    variables["GIT_COMMITTER_DATE"] = f"{next(SECONDS)} +0000"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]  # as a runner does
    done = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(checkout)
    return asked.read_text("utf-8").splitlines() if asked.exists() else []


@pytest.mark.slow
def test_a_schedule__records_on_main_and_its_runs_are_the_base_of_comparisons(lab: Lab) -> None:
    push(lab, **{"bot/agent.py": AGENT.replace("kind", "polite")})
    ci = {"CI": "true"}
    refused = lab.base_run("--record", "all", upload=False, environment=ci)
    assert (refused.code, "[record-in-ci]" in refused.out) == (2, True), refused.out
    recorded = lab.base_run("--record", "all", "--num-runs", "3", event="schedule", environment=ci)
    assert recorded.code == 0, recorded.out + recorded.err
    changed = lab.repo.git("diff", "--name-only").split()
    assert changed == [tape_of(lab, case)[0] for case in sorted(CASES)]
    new = {name: (lab.repository.root / name).read_text("utf-8") for name in changed}
    opened = recipe_job(lab, {**new, "bot/agent.py": "not committed"})
    body = lab.repository.root.parent / "programs" / "body"
    assert opened[:2] == ["auth setup-git", f"pr create --title Record tapes again --body-file {body}"]
    assert (opened[2], opened[-2:]) == ("~~~text", ["2 tapes changed since HEAD", "~~~"]), opened
    assert '  - bot: scripted asked "Say lamp_on." -> look()' in opened, opened
    assert recipe_job(lab, new) == opened, "the job once more, e.g. because Actions could not open pull requests"
    origin = lab.repository.root.parent / "origin.git"
    lab.repo.git("checkout", "-q", "-f", "main")
    lab.repo.git("pull", "-q", "--ff-only", str(origin), "tapes-1007")
    assert lab.repo.git("log", "-1", "--format=%an: %s", "--name-only").strip().split("\n") == [
        "github-actions[bot]: Record tapes again",
        "",
        *changed,
    ]
    lab.repo.git("push", "-q", str(origin), "main")
    assert recipe_job(lab, new) == [], "the same tapes"
    lab.github.state.take_git(lab.repo.root)

    base = lab.base_run("--replay", "missing-live")
    assert (base.code, [case.replayed for case in base.report.cases]) == (0, [True, True]), base.out + base.err
    assert base.report.history is not None
    assert [case.outcomes for case in base.report.history.cases] == ["1111", "1111"]
    polite = {"bot/agent.py": AGENT.replace("kind", "polite"), "bot/tools.py": TOOLS}
    of_fork(lab, 7, *REPLAY, files=polite, code=0)
