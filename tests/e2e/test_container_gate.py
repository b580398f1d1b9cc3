"""The gate in the container, started as GitHub starts it, and the image by itself."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from container_engine import REPOSITORY, Engine
from container_pull_requests import changed_in, evil_files, reachable, strangers
from fake_gemini import Answer, FakeGemini
from gate_runs import eval_set
from github_runner import SECRETS, Finished, Runner
from lxml import etree
from models_support import completion
from upload_server import upload_server

import agent_eval
from agent_eval_agents.sandbox.uids import STATE_DIR
from agent_eval_results import JOURNAL
from agent_eval_results.report.renderers.outputs import FILE_OUTPUTS, OUTPUTS

# The gate in the container, started as GitHub starts it: exit codes and everything that is printed.


pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

Workspace = Callable[..., Path]


def check_files(done: Finished) -> None:
    """Whatever the verdict: the files are there, agree with each other, and belong to the workspace's owner."""
    results = done.results()
    assert set(done.outputs) == set(OUTPUTS)
    assert done.outputs["verdict"] == results["verdict"]
    for name in FILE_OUTPUTS:
        assert not Path(done.outputs[name]).is_absolute(), "later steps run outside of the container"
        assert (done.workspace / done.outputs[name]).is_file(), name
    assert done.summary.strip() == (done.workspace / done.outputs["summary-file"]).read_text("utf-8").strip() != ""
    folder = done.workspace / "agent-eval-results"
    assert strangers(folder) == [], "self-hosted runners could not clean up"
    # Only outputs and the summary are written; the workspace is as it was.
    assert [done.file_commands[name] for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")] == ["", "", ""]
    assert changed_in(done.workspace) == []
    written = "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())
    for secret in SECRETS.values():
        assert secret not in written + done.log


def test_gate__passes_the_example(runner: Runner, workspace: Workspace) -> None:
    done = runner.step(workspace("home_automation"))
    assert done.exit_code == 0, done.log
    assert done.outputs["verdict"] == "passed"
    assert int(done.outputs["passed"]) == int(done.outputs["total"]) > 10
    assert done.outputs["pass-rate"] == "1"
    assert [command for command in done.commands if command.name in {"error", "warning"}] == []
    check_files(done)


def test_gate__catches_the_broken_tool(runner: Runner, workspace: Workspace) -> None:
    root = workspace("home_automation", "home_automation_broken")
    done = runner.step(root, inputs={"paths": "home_automation", "agent": "home_automation_broken"})
    assert done.exit_code == 1, done.log
    assert done.outputs["verdict"] == "failed"
    assert 0 < float(done.outputs["pass-rate"]) < 1
    check_files(done)

    failed = {(case["file"], str(case["line"])) for case in done.results()["cases"] if case["status"] == "failed"}
    assert len(failed) == 12, "as outside of the container, see test_examples.py"
    errors = [command.properties for command in done.commands if command.name == "error"]
    placed = {(error["file"], error["line"]) for error in errors if "file" in error}
    assert set() != placed <= failed and len(errors) <= 10


def test_gate__an_input_with_dashes_arrives(runner: Runner, workspace: Workspace) -> None:
    done = runner.step(workspace("home_automation"), inputs={"paths": "home_automation/evals", "min-pass-rate": "7"})
    assert (done.exit_code, done.outputs["verdict"]) == (2, "invalid"), done.log
    assert "min-pass-rate" in done.log


RECORDED = json.dumps(eval_set("answers", {"greeting": [("hello", "Hello!")]}))
CONFIG = '{"criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"num_samples": 3}}}}'
JUDGED = {"answers.json": RECORDED, "evals/a.evalset.json": RECORDED, "evals/test_config.json": CONFIG}
"""Recorded answers that a judge scores."""
INPUTS = {"agent": "recorded:answers.json", "judge-api-key": "the-judges-key"}


def test_gate__reports_what_it_has_when_the_job_is_cancelled(runner: Runner, workspace: Workspace) -> None:
    cases = json.dumps(eval_set("slow", {"now": [("now", "done")], "never": [("wait", "done")]}))
    agent = (FIXTURES / "waits/agent.py").read_text("utf-8")
    root = workspace(files={"slow/agent.py": agent, "slow/slow.test.json": cases})

    journal = root / "agent-eval-results" / JOURNAL
    stopped = []

    def stop_when_recorded(name: str) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if journal.exists() and '"eval_id":"now"' in journal.read_text("utf-8").replace(" ", ""):
                break
            time.sleep(0.2)
        stopped.append(time.monotonic())
        runner.engine.run("stop", "--time", "60", name)

    done = runner.step(root, beside=stop_when_recorded)
    assert time.monotonic() - stopped[0] < 45, "it ended at once, not when the engine killed it"
    assert done.exit_code == 3, done.log
    assert {case["eval_id"]: case["status"] for case in done.results()["cases"]} == {
        "now": "passed",
        "never": "not_run",
    }
    check_files(done)


def test_gate__leaves_the_judges_replies_to_the_step_that_caches_them(
    runner: Runner, workspace: Workspace, engine: Engine
) -> None:
    address, name = reachable(engine)
    inputs = {**INPUTS, "judge-cache": "/github/runner_temp/agent-eval-judge-cache"}
    with FakeGemini(lambda _: Answer.text('{"reasoning": "so", "verdict": "valid"}'), address=address) as judge:
        inputs |= {"judge-base-url": f"http://{name}:{judge.port}"}
        done = runner.step(workspace(files=JUDGED), inputs=inputs)

    assert done.exit_code == 0, done.log
    replies = done.temp / "agent-eval-judge-cache"
    assert len(list(replies.rglob("*.json"))) == judge.stats.requests == 2
    assert strangers(replies) == [], "the cache step runs as the runner's user"


def test_gate__is_the_command_line_when_it_gets_arguments(runner: Runner, workspace: Workspace) -> None:
    done = runner.step(workspace("home_automation"), "validate", "home_automation")
    assert done.exit_code == 0, done.log
    assert done.file_commands["GITHUB_OUTPUT"] == ""
    assert not (done.workspace / "agent-eval-results").exists()


def test_gate__gitlab_runs_the_command_line(engine: Engine, image: str, agent_cache: str, workspace: Workspace) -> None:
    root = workspace("home_automation")
    options = ["--workdir", "/builds/agent", "--entrypoint", "", "-e", "CI=true", "-e", "GITLAB_CI=true"]
    volumes = ["-v", f"{root}:/builds/agent", "-v", f"{agent_cache}:{STATE_DIR}"]
    said = engine.check("run", "--rm", *options, *volumes, image, "sh", "-c", "agent-eval run", timeout=300)
    assert etree.parse(root / "agent-eval-results/junit.xml").getroot().findall(".//testcase")
    assert "::error" not in said


# The image by itself: what is in it, and that nothing of the workspace gets into its way.


SIZE_LIMIT = 185_000_000
"""Bytes that we add to the base of 125 MB: git, numpy, uv, the clients of the judges' providers and the rest."""


def inside(engine: Engine, image: str, script: str, *options: str) -> str:
    """What a shell script prints in the image."""
    return engine.check("run", "--rm", *options, "--entrypoint", "sh", image, "-c", script).strip()


def test_image__configured_as_github_demands_and_small(engine: Engine, base: str, image: str) -> None:
    ours, theirs = (json.loads(engine.check("image", "inspect", name))[0] for name in (image, base))
    config = ours["Config"]
    assert config["User"] == "", "GitHub's mounts need root"
    assert config["Entrypoint"][0].startswith("/"), "another working directory must not matter"
    assert "-I" in config["Entrypoint"]
    assert not config["Cmd"], "GitHub passes no arguments; a default would arrive as some"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert ours["Size"] - theirs["Size"] < SIZE_LIMIT


def test_image__locked_versions_without_development_tools(engine: Engine, image: str) -> None:
    listed = json.loads(
        inside(engine, image, "uv pip list --python /opt/agent-eval/bin/python --format json --quiet 2>/dev/null")
    )
    installed = {(package["name"], package["version"]) for package in listed if package["name"] != "agent-eval-action"}
    lines = (REPOSITORY / "requirements/run.txt").read_text("utf-8")
    locked = set(re.findall(r"^([\w.-]+)==([^ ;\\]+)", lines, re.MULTILINE))
    assert installed <= locked
    names = {name for name, _ in installed}
    assert {"pydantic", "uv", "rich"} <= names
    assert not {"pytest", "mypy", "ruff", "google-adk"} & names


GIT = (
    "set -e; cd /tmp; git config --global user.name a; git config --global user.email a@b.c; "
    "git init -q -b main sub; git -C sub commit -q --allow-empty -m sub; git init -q -b main top; cd top; "
    "git -c protocol.file.allow=always submodule --quiet add /tmp/sub sub; git commit -q -m top; "
    "git worktree add -q ../tree; git -c protocol.file.allow=always -C ../tree submodule --quiet update --init; "
    "git clone -q --depth 1 file:///tmp/top ../clone; git -C ../tree rev-parse --abbrev-ref HEAD; "
    "git ls-tree --name-only main"
)
VERSION = f"agent-eval {agent_eval.__version__}"
FACTS: Mapping[str, tuple[str, str]] = {
    "the agent's account owns nothing of ours": (
        "find /opt/agent-eval /entrypoint \\( -user agent -o -perm -o+w -not -type l \\) | head -n 3",
        "",
    ),
    "all that a run may import": ("/opt/agent-eval/bin/python -I /opt/agent-eval/imports.py", "imported"),
    "git without Perl does what we ask": (GIT, "tree\n.gitmodules\nsub"),
    "https is a program of its own": ("git ls-remote https://127.0.0.1:9/x 2>&1 | grep -o 'to connect'", "to connect"),
    "apt is in order": ("apt-get check >/dev/null && echo in order", "in order"),
    "Perl is left out": ("dpkg-query -W -f '${db:Status-Status}' perl | grep -x installed; true", ""),
    "git reads a workspace of another user": ("git -C /github/workspace status --short --branch", "## main"),
    "the command and uv are on the path, as GitLab needs them": (
        "uv --version >/dev/null && agent-eval --version",
        VERSION,
    ),
}


def test_image__facts(engine: Engine, image: str, workspace: Workspace) -> None:
    root = workspace()
    found = {
        name: inside(engine, image, script, "-v", f"{root}:/github/workspace") for name, (script, _) in FACTS.items()
    }
    assert found == {name: expected for name, (_, expected) in FACTS.items()}
    assert "usage:" in engine.check("run", "--rm", image).lower(), "outside of GitHub Actions"
    assert agent_eval.__version__ in engine.check("run", "--rm", image, "--version")


COMPILED = "touch /tmp/began; sleep 1; {run} >&2 || exit; find / -xdev -name '*.pyc' -newer /tmp/began"


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "openai/judge"])
def test_image__a_judged_run_compiles_nothing(engine: Engine, image: str, workspace: Workspace, model: str) -> None:
    """The image has bytecode of what a run imports, and no more."""
    address, name = reachable(engine)
    verdict = '{"reasoning": "so", "verdict": "valid"}'
    options = ["-v", f"{workspace(files=JUDGED)}:/work", "--workdir", "/work", "-e", "AGENT_EVAL_JUDGE_API_KEY=k"]
    with (
        FakeGemini(lambda _: Answer.text(verdict), address=address) as gemini,
        upload_server(lambda _: completion(verdict), address=address) as openai,
    ):
        url = f"http://{name}:{gemini.port}" if "gemini" in model else f"{openai.url.replace(address, name)}/v1"
        run = f"agent-eval run evals --agent recorded:answers.json --judge-model {model} --judge-base-url {url}"
        compiled = inside(engine, image, COMPILED.format(run=run), *options)
        assert gemini.stats.requests + len(openai.received) == 2
    assert [line for line in compiled.splitlines() if line.endswith(".pyc")] == [], compiled


def test_image__pythonpath_and_checkout_can_t_replace_our_modules(runner: Runner, workspace: Workspace) -> None:
    names = ("agent_eval.py", "argparse.py", "json.py", "hashlib.py", "sitecustomize.py")
    root = workspace(files=dict.fromkeys(names, "print('HIJACKED'); raise SystemExit(0)\n"))
    done = runner.step(root, "--version", environment={"PYTHONPATH": "/github/workspace", "PYTHONSTARTUP": "json.py"})
    assert "HIJACKED" not in done.log
    assert agent_eval.__version__ in done.log


# What an agent can get at inside the container: nothing of the gate's, and no say in the log.


CHECKOUT = "c2VjcmV0LWNoZWNrb3V0LXRva2Vu"
"""What Runner.workspace leaves in .git/config, as actions/checkout does."""


def test_security__agent_gets_nothing_changes_nothing_and_has_no_say_in_the_log(
    runner: Runner, workspace: Workspace
) -> None:
    root = workspace(files=evil_files("go", 2, {**SECRETS, "checkout": CHECKOUT}))
    modes = {path: path.stat().st_mode for path in root.rglob("*")}

    attacked = runner.step(root, inputs={"judge-api-key": SECRETS["INPUT_JUDGE-API-KEY"]})

    assert [text.splitlines()[0] for text in attacked.answers()] == ["nothing"] * 2, attacked.log[-3000:]
    assert {path: path.stat().st_mode for path in modes} == modes

    # The verdict is the gate's own: the answers are not the "nothing" alone that was expected.
    assert attacked.exit_code == 1, attacked.log
    assert attacked.outputs["verdict"] == attacked.results()["verdict"] == "failed"
    assert [attacked.file_commands[name] for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")] == ["", "", ""]
    files = [path for path in attacked.workspace.rglob("*") if path.is_file() and ".git/" not in str(path)]
    assert "planted" not in {path.name for path in files}
    text = "".join(path.read_bytes().decode("utf-8", "replace") for path in files if "evil/" not in str(path))
    for secret in (*SECRETS.values(), CHECKOUT, base64.b64decode(CHECKOUT).decode()):
        assert secret not in text + attacked.log + attacked.summary

    for word in ("from the agent", "gate's stdout"):
        assert [command for command in attacked.commands if word in command.data] == []
    # What is left are our own annotations, each at a case of the eval file.
    for command in attacked.commands:
        assert command.name in {"error", "warning", "notice", "group", "endgroup", "debug", "add-mask"}, command
        if command.name == "error" and "file" in command.properties:
            assert command.properties["file"] == "evil/evil.test.json"
        if command.name == "add-mask":
            assert command.data != "passed"
    assert [command for command in attacked.commands if command.data.startswith("in the answer")] == []


def test_security__attempts_are_worth_something(
    engine: Engine, image: str, runner: Runner, workspace: Workspace
) -> None:
    """As the gate's own user nearly all of them succeed: a test of the tests."""
    root = workspace(files=evil_files("go", 2, {**SECRETS, "checkout": CHECKOUT}))
    bare = f"FROM {image}\nENTRYPOINT []\n"
    engine.check("build", "--tag", f"{image}-bare", "-", stdin=bare.encode())
    done = replace(runner, image=f"{image}-bare").step(root, "python", "evil/attempts.py")
    got = json.loads(done.log.splitlines()[-1])
    expected = {
        "own environment", "own names", "descriptors of 1", "docker socket", "make results", "checkout token",
        "list /github/file_commands", "create in /github/workspace", "create in /opt/agent-eval",
    }  # fmt: skip
    assert expected <= set(got), done.log
    assert set(got["own environment"]) == set(SECRETS)
    assert any(name.startswith("write /github/file_commands/") for name in got)
    assert done.outputs == {"verdict": "passed"}, "the forged output arrived"
