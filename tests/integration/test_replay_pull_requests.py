"""The life of pull requests whose agents are replayed: forks without a key, forged tapes, somebody who accepts one."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from fake_github import FakeGitHub
from gate_runs import Done
from pull_requests import Lab
from runner_log import outputs_in

from agent_eval.forge import ACCEPT_RULES

ROOT = Path(__file__).parents[2]
CASES = ("lamp_on", "lamp_off")
AGENT = """from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

from .tools import look


def script(said, count, request):
    if not KEY:
        raise AssertionError("the model was asked")
    if not count:
        return reply(call("look", item=said))
    return reply(text(request.contents[-1].parts[0].function_response.response["text"]))


root_agent = LlmAgent(name="bot", model=scripted(script), instruction="Be kind. Always.", tools=[look])
"""
TOOLS = '''def look(item: str) -> dict[str, str]:
    """Looks."""
    return {"text": item}
'''
WITH_KEY = AGENT.replace("KEY", "True")
WITHOUT_KEY = AGENT.replace("KEY", "False")
REPLAY = ("--replay", "all", "--gate", "regressions")


@pytest.fixture
def lab(lab: Lab, github: FakeGitHub) -> Lab:
    """A base branch whose cases are recorded; without a key, its model answers nobody."""
    shutil.copy(FIXTURES / "scripted_model.py", lab.repository.root)
    lab.commit({}, **{"bot/agent.py": WITH_KEY, "bot/tools.py": TOOLS})
    recorded = lab.repository.gate("run", "--record", "all", environment={"CI": ""})
    assert recorded.code == 0, recorded.out
    push(lab)
    base = lab.base_run()
    assert base.code == 0, base.out + base.err
    return lab


def push(lab: Lab, **files: str) -> None:
    """A commit with what is in the working tree."""
    lab.commit({}, **{"bot/agent.py": WITH_KEY, "bot/tools.py": TOOLS, **files})


def pull(lab: Lab, number: int, files: Mapping[str, str | None], *arguments: str, label: str = "") -> Done:
    """A pull request of a fork, whose job has no key."""
    written = {"bot/agent.py": WITHOUT_KEY, "bot/tools.py": TOOLS, **files}
    return lab.pull_request(number, {}, *(arguments or REPLAY), files=written, fork="somebody/shop", label=label)


def kinds(done: Done) -> set[str]:
    return {run.error.kind for case in done.report.cases for run in case.runs if run.error is not None}


def tape_of(lab: Lab, case: str) -> tuple[str, str]:
    name = f"evals/bot.evalset.tools/{case}.tape.json"
    return name, (lab.repository.root / name).read_text("utf-8")


def test_a_fork__is_green_without_a_key_if_it_asks_nothing_new(lab: Lab) -> None:
    done = pull(lab, 7, {"README.md": "Better words."})
    assert done.code == 0, done.out + done.err
    assert [case.replayed for case in done.report.cases] == [True, True]
    assert "Both cases were replayed" in done.out


@pytest.mark.parametrize(
    ("files", "kind", "said"),
    [
        ({"bot/agent.py": WITHOUT_KEY.replace("kind", "rude")}, "model-not-recorded", "Be rude."),
        ({"bot/tools.py": TOOLS.replace("item}", "item[1:]}")}, "tool-tape-stale", "tools.py"),
    ],
    ids=["instruction", "tool"],
)
def test_a_fork__is_inconclusive_if_it_asks_something_new(
    lab: Lab, files: Mapping[str, str], kind: str, said: str
) -> None:
    done = pull(lab, 7, files)
    assert (done.code, kinds(done)) == (3, {kind}), done.out + done.err
    assert said in done.out or kind.startswith("tool")
    assert all(case in done.out for case in CASES)


def test_a_forged_tape__is_never_green_until_somebody_accepts_it(lab: Lab) -> None:
    name, tape = tape_of(lab, "lamp_on")
    rude = WITH_KEY.replace("kind", "rude")
    lab.repository.write({"bot/agent.py": rude})
    assert lab.repository.gate("run", "--record", "all", environment={"CI": ""}).code == 0
    worse = {"bot/agent.py": WITHOUT_KEY.replace("kind", "rude"), name: tape_of(lab, "lamp_on")[1]}
    lab.repo.git("checkout", "-q", ".")
    done = pull(lab, 7, worse)
    assert (done.code, kinds(done)) == (3, {"tape-changed", "model-not-recorded"}), done.out + done.err
    assert "it is not the tape of main" in done.out
    assert f"set the label `{ACCEPT_RULES}`" in " ".join(done.out.split())

    # Nor one that the agent puts there while it is loaded.
    forged = worse[name]
    late = f"from pathlib import Path\nPath({name!r}).write_text(Path('forged.json').read_text())\n"
    hidden = pull(lab, 6, {"bot/agent.py": late + worse["bot/agent.py"], "forged.json": forged})
    assert (hidden.code, kinds(hidden)) == (3, {"model-not-recorded"}), hidden.out + hidden.err
    assert tape_of(lab, "lamp_on")[1] == forged
    lab.repo.git("checkout", "-q", ".")

    same = pull(lab, 8, {name: tape + "\n"})
    assert (same.code, kinds(same)) == (3, {"tape-changed"}), same.out + same.err
    accepted = pull(lab, 8, {name: tape + "\n"}, label=ACCEPT_RULES)
    assert accepted.code == 0, accepted.out + accepted.err
    who = f"This pull request's tape may be replayed: maintainer set the label `{ACCEPT_RULES}`."
    assert (who in lab.comment(8), who in " ".join(accepted.out.split())) == (True, True), lab.comment(8)
    reported = pull(lab, 10, {name: tape + "\n"}, *REPLAY, "--rule-changes", "report")
    assert reported.code == 0, reported.out + reported.err
    assert f"changes what is scored: {name}" in lab.comment()

    # Without a comparison nobody knows the base branch's tapes.
    ungated = pull(lab, 9, {name: tape + "\n"}, "--replay", "all", "--mode", "gate")
    assert (ungated.code, kinds(ungated)) == (3, {"tape-changed"}), ungated.out + ungated.err
    said = " ".join(ungated.out.split())
    assert "Next: run these 2 cases with a model (`replay: missing-live`)." in said
    assert "accept" not in said, "no label counts"


def test_volatile_texts__a_pull_request_can_not_declare_its_own(lab: Lab) -> None:
    rule = {"agent-eval.toml": "[[volatile]]\npattern = 'Be \\w{1,9}\\.'\n"}
    rude = {"bot/agent.py": WITHOUT_KEY.replace("kind", "rude")}
    done = pull(lab, 7, {**rude, **rule})
    assert (done.code, kinds(done)) == (3, {"model-not-recorded"}), done.out + done.err

    # On the base branch, the rule holds for what is recorded with it, and for pull requests without it.
    lab.repo.git("checkout", "-q", "-f", "main")
    push(lab, **rule)
    assert lab.repository.gate("run", "--record", "all", environment={"CI": ""}).code == 0
    push(lab)
    assert lab.base_run().code == 0
    for number, files in ((9, rude), (10, {**rude, "agent-eval.toml": None})):
        done = pull(lab, number, files)
        assert done.code == 0, done.out + done.err
        assert [case.replayed for case in done.report.cases] == [True, True]
    done = pull(lab, 11, {"bot/agent.py": WITHOUT_KEY.replace("Always", "Never")})
    assert (done.code, kinds(done)) == (3, {"model-not-recorded"}), done.out + done.err


def test_a_replayed_case__that_fails_now_is_a_regression(lab: Lab) -> None:
    shout = (
        WITHOUT_KEY.replace(
            "tools=[look])",
            "tools=[look], after_model_callback=lambda callback_context, llm_response: shout(llm_response))",
        )
        + "\n\ndef shout(response):\n    if response.content.parts[0].text:\n        return reply(text('No.'))\n"
    )
    done = pull(lab, 7, {"bot/agent.py": shout})
    assert done.code == 1, done.out + done.err
    assert "2 regressions vs. main (lamp_on, lamp_off); replayed" in done.out
    outputs = dict(outputs_in((lab.repository.root.parent / f"job-{lab.runs[-1].id}" / "output").read_text("utf-8")))
    assert outputs["regressions"] == "2"
    assert "--replay all evals/bot.evalset.json:lamp_on,lamp_off" in lab.comment()
    # No model took its time.
    assert "a run (on main" not in lab.comment() and "invocation_duration_v1" not in lab.comment()
    assert [reason.code for reason in done.report.reasons] == ["replayed-failed"]

    # One that passes has a worse score than when it was recorded.
    lab.repo.git("checkout", "-q", "-f", "main")
    low = json.dumps({"criteria": {"response_match_score": 0.1}})
    named = "[[policy]]\nmetric = 'response_match_score'\nmax-drop = 0.1\n"
    push(lab, **{"evals/test_config.json": low, "agent-eval.toml": named})
    assert lab.base_run().code == 0
    lower = shout.replace("text('No.')", "text(response.content.parts[0].text + ' Is that really so?')")
    done = pull(lab, 8, {"bot/agent.py": lower})
    assert done.code == 1, done.out + done.err
    assert [reason.code for reason in done.report.reasons] == ["case-worse"]
    assert "lamp_on response_match_score got worse::response_match_score 0.60, on main 1.00" in done.out
    assert pull(lab, 9, {"bot/agent.py": lower}, *REPLAY[:2], "--gate", "thresholds").code == 0


@pytest.mark.parametrize("live", [(), ("lamp_off",)])
def test_rerun__runs_on_the_base_branch_what_is_not_replayed(lab: Lab, live: Sequence[str]) -> None:
    files = {"bot/agent.py": WITH_KEY, **{tape_of(lab, case)[0]: None for case in live}}
    done = pull(lab, 7, files, "--replay", "missing-live", "--baseline", "rerun", "--num-runs", "2")
    assert done.code == 0, done.out + done.err
    assert [case.replayed for case in done.report.cases] == [case not in live for case in CASES]
    made = done.output / "base/recordings.jsonl.gz"
    lines = gzip.decompress(made.read_bytes()).decode().splitlines() if made.exists() else []
    assert sorted(json.loads(line)["eval_id"] for line in lines) == [*live, *live]
    assert done.report.comparison is not None
    assert (done.report.comparison.compared, done.report.comparison.cases) == (2, [])
    assert done.report.comparison.pass_rate.base == 1.0


def test_rerun__runs_nothing_on_the_base_branch_that_is_not_run_without_a_judge(lab: Lab) -> None:
    judged = json.dumps({"criteria": {"final_response_match_v2": 0.5}})
    push(lab, **{"evals/test_config.json": judged})
    arguments = ("--replay", "missing-live", "--baseline", "rerun", "--without-keys", "deterministic-only")
    done = lab.pull_request(7, {}, *arguments, files={"bot/agent.py": WITH_KEY, tape_of(lab, "lamp_off")[0]: None})
    assert kinds(done) == {"without-key"}, done.out + done.err
    made = done.output / "base/recordings.jsonl.gz"
    assert not made.exists() or not gzip.decompress(made.read_bytes())


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


def test_a_schedule__records_on_main_and_its_runs_are_the_base_of_comparisons(lab: Lab) -> None:
    push(lab, **{"bot/agent.py": WITH_KEY.replace("kind", "polite")})
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
    polite = pull(lab, 7, {"bot/agent.py": WITHOUT_KEY.replace("kind", "polite")})
    assert polite.code == 0, polite.out + polite.err


CRASHING = "import os\n\nos._exit(3)\n"
METRIC = """from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def score(metric, actual, expected, *more):
    good = EvalStatus.PASSED
    turns = [PerInvocationResult(actual_invocation=turn, score=1.0, eval_status=good) for turn in actual]
    return EvaluationResult(overall_score=1.0, overall_eval_status=good, per_invocation_results=turns)
"""


def test_replay_all__asks_no_model_to_confirm_a_failure(lab: Lab) -> None:
    own = {"criteria": {"own": 0.5}, "custom_metrics": {"own": {"code_config": {"name": "bot.metric.score"}}}}
    push(lab, **{"bot/metric.py": METRIC, "evals/test_config.json": json.dumps(own)})
    assert lab.base_run("--replay", "all").code == 0
    done = pull(lab, 7, {"bot/metric.py": CRASHING})
    assert (done.code, kinds(done)) == (1, {"custom-metric-crash"}), done.out + done.err
    assert (done.report.confirmations, done.report.base_runs) == ([], [])
