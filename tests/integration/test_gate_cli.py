"""The command line: exit codes, commands, what it may touch, messages about the set-up, and the plan."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from agents_open_dir import as_root, open_directory, python_for
from base_repos import new_repo
from dead_or_alive import ECHO, EVALS, suite
from fake_gemini import FakeGemini
from gate_runs import Done, Repository, anywhere, program, repository_in, told
from golden_files import check
from judged_gate import BAD, KEY, METRICS, RUBRIC_METRICS, RUBRICS, TORN, Judge, answers, criteria, judged_run

from agent_eval_results.data.comparison import BaselineReport

# The command line: exit codes, commands, and what it may touch.


LONG = "a b c d e f g h"


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Repository]:
    """Its agent is a recording, good or bad: nothing has to start."""
    with repository_in(tmp_path / "repo") as made:
        made.evals("evals/home.test.json", {"good": "turned on", "long": LONG})
        made.record("evals/home.test.json", to="recordings/good.json")
        made.record("evals/home.test.json", {"long": "nothing"}, to="recordings/bad.json")
        yield made


def run(repository: Repository, *arguments: str, recording: str = "good", **options: Any) -> Done:
    """Runs the gate on a recording."""
    recorded = f"recorded:recordings/{recording}.json"
    return repository.gate("run", "evals", "--agent", recorded, *arguments, python=False, **options)


def test_run__exit_codes(recorded: Repository) -> None:
    passed, failed = run(recorded), run(recorded, "--on-inconclusive", "pass", recording="bad")
    assert (passed.code, failed.code, failed.report.verdict) == (0, 1, "failed")
    failed.check_files()
    # With the agent of the run: discovery might find another one, or none.
    summary = (failed.output / "summary.md").read_text("utf-8")
    assert "agent-eval run --agent recorded:recordings/bad.json evals/home.test.json:" in summary


def test_run__invalid_files_and_settings_are_in_every_output(recorded: Repository) -> None:
    recorded.write({"evals/broken.test.json": "{,"})
    for arguments, code in ((("--num-runs", "0"), "setting-invalid"), ((), "not-json")):
        done = run(recorded, *arguments, output=recorded.root / "out")
        assert (done.code, done.report.verdict, done.report.cases) == (2, "invalid", [])
        assert done.results["reasons"] == [
            {"code": "invalid", "message": "1 error in the eval files or the configuration", "data": {"count": 1}}
        ]
        assert {problem.code for problem in done.report.problems} == {code}
        done.check_files()
        assert code in done.out and code in (done.output / "summary.md").read_text(encoding="utf-8")
        assert not (recorded.root / "agent-eval-results").exists(), "the files are where they were asked for"


def test_run__what_adk_loads_is_scored_though_it_is_odd(recorded: Repository) -> None:
    """An empty eval id, and an expected call without a name, which no call matches."""
    recorded.evals("odd/a.test.json", {"": "hello", "call": "bye"})
    odd = json.loads((recorded.root / "odd/a.test.json").read_text("utf-8"))
    recorded.write({"answers.json": odd})
    odd["eval_cases"][1]["conversation"][0]["intermediate_data"] = {"tool_uses": [{"args": {"city": "Bern"}}]}
    criteria = {"response_match_score": 1.0, "tool_trajectory_avg_score": 1.0}
    recorded.write({"odd/a.test.json": odd, "odd/test_config.json": {"criteria": criteria}})
    done = recorded.gate("run", "odd", "--agent", "recorded:answers.json", python=False, code=1)
    assert done.statuses == {"": "passed", "call": "failed"}
    assert [(problem.code, problem.severity) for problem in done.report.problems] == [("invalid-value", "warning")] * 2
    done.check_files()


def test_settings__in_a_file_with_almost_their_name_are_missed_aloud(recorded: Repository) -> None:
    recorded.write({"agent_eval.toml": "num-runs = 3\n"})
    assert "[settings-file-misnamed]" in recorded.gate("validate", python=False, code=0).out
    done = run(recorded)
    assert (done.code, done.report.num_runs) == (0, 1)
    assert "agent_eval.toml: The file is not read" in done.err
    assert "its settings don't apply. Rename it to" in (done.output / "summary.md").read_text("utf-8")


def test_run__starts_no_agent_while_a_file_is_invalid(tmp_path: Path) -> None:
    repository, mark = suite(tmp_path / "repo"), tmp_path / "started"
    repository.write({"bot/agent.py": f"open({str(mark)!r}, 'w').close()\n{ECHO}", "evals/broken.test.json": "{,"})
    assert (repository.gate("run").code, mark.exists()) == (2, False)
    (repository.root / "evals/broken.test.json").unlink()
    assert (repository.gate("run").code, mark.exists()) == (0, True)


def test_run__an_interpreter_that_hangs_does_not_hold_an_invalid_run(repository: Repository) -> None:
    repository.write({"evals/bad.test.json": {"eval_set_id": 3, "eval_cases": []}})
    hanging = repository.root / "hanging"
    hanging.write_text("#!/bin/sh\nsleep 600 &\nsleep 600\n", "utf-8")
    hanging.chmod(0o755)
    done = repository.gate("run", "--agent-python", str(hanging), python=False, code=2)
    assert done.report.verdict == "invalid" and done.seconds < 30


def test_run__writes_only_the_output_directory(recorded: Repository, tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        files = {}
        for path in sorted(recorded.root.rglob("*")):
            if "agent-eval-results" not in path.parts:
                facts = path.lstat()
                files[str(path)] = (facts.st_mtime_ns if path.is_file() else 0, facts.st_mode)
        return files

    before = state()
    done = run(recorded, output=tmp_path / "elsewhere" / "deep")
    assert (done.code, done.report.problems) == (0, []), "a recording needs no isolation"
    done.check_files()
    assert str(tmp_path / "elsewhere" / "deep" / "report.html") in done.out
    assert not (recorded.root / "agent-eval-results").exists()
    assert run(recorded).code == 0
    assert state() == before


def test_output_dir__the_repository(recorded: Repository) -> None:
    recorded.write({"logs/app/app-1.log": "theirs"})
    done = run(recorded, output=recorded.root, code=0)
    assert len(done.report.cases) == 2
    assert (recorded.root / "logs" / "app" / "app-1.log").exists()


WRITTEN = ["cases.jsonl.gz", "junit.xml", "recordings.jsonl.gz", "report.html", "results.json", "summary.md"]


def test_output_dir__a_run_replaces_the_one_before_and_an_invalid_one_leaves_it(recorded: Repository) -> None:
    def files(done: Done) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in done.output.rglob("*") if path.is_file()}

    first = run(recorded, recording="bad")
    log = {"agent-eval-results/logs/agent/agent-1.log": "of the first run"}
    recorded.write(log)
    kept = files(first)
    for arguments, code in (
        (("--num-runs", "0", "-v"), "setting-invalid"),
        (("evalz",), "path-not-found"),
        (("--agent-setup", "exit 1", "--agent", "agents/nowhere"), "agent-not-found"),
    ):
        invalid = run(recorded, *arguments, environment={"CI": ""}, code=2)
        assert code in invalid.out
        assert "agent-eval-results keeps the results of the run before" in invalid.err
        assert "turn 1" not in invalid.out, "no case of the run before is shown as one of this run"
        assert files(first) == kept
    assert "long" in recorded.gate("show").out

    second = run(recorded)
    assert (second.code, sorted(files(second))) == (0, [".gitignore", *WRITTEN])
    assert files(second)[".gitignore"] == b"*\n"
    assert sorted(files(run(recorded, output=recorded.root / "baseline"))) == WRITTEN, "git ignores no other name"

    # A later step of a job reads the files, and must not take the earlier run for this one.
    recorded.write(log)
    third = run(recorded, "--num-runs", "none", environment={"CI": "true"})
    assert (third.code, third.report.verdict, third.report.cases) == (2, "invalid", [])
    assert len(third.recordings) == 2, "an invalid run destroys nothing that was paid for"
    assert "agent-1.log" not in files(third)


def test_commands__say_what_they_find(recorded: Repository) -> None:
    story = []

    def tell(*command: str) -> None:
        done = recorded.gate(*command)
        story.append(f"$ agent-eval {' '.join(command)}\n{done.out}{done.err}exit {done.code}\n\n")

    tell("validate", "--plan")
    recorded.agent("counted")
    tell("validate", "--plan")
    for file, text in (("evals/broken.test.json", '{"eval_set_id": "b"}'), ("agent-eval.toml", "\nnun-runs = 1\n")):
        recorded.write({file: text})
        for form in ("text", "json", "github"):
            tell("validate", "--format", form)
    assert not (recorded.root / "agent-eval-results").exists()
    recorded.write({"old.test.json": '[{"query": "hi", "expected_tool_use": [], "reference": "hello"}]'})
    for old, new in (("old.test.json", "new.test.json"), ("new.test.json", "newer.test.json"), ("gone.json", "x.json")):
        tell("migrate", old, new)
    assert json.loads((recorded.root / "new.test.json").read_text(encoding="utf-8"))["eval_cases"]
    check("golden_gate/commands.txt", anywhere("".join(story)))


def test_run__paths_before_and_after_flags(recorded: Repository) -> None:
    for arguments in (
        ["--num-runs", "2", "evals/home.test.json:good", "evals/home.test.json:long"],
        ["evals/home.test.json:good", "--num-runs", "2", "evals/home.test.json:long"],
    ):
        recorded.write({"agent-eval-results/agent-eval-view.html": "of an earlier run"})
        done = recorded.gate("run", *arguments, "--agent", "recorded:recordings/good.json", python=False)
        assert (done.code, len(done.report.cases), len(done.report.cases[0].runs)) == (0, 2, 2), done.out + done.err
        assert not (recorded.root / "agent-eval-results" / "agent-eval-view.html").exists()


def test_verbose__shows_passed_cases_in_full(recorded: Repository) -> None:
    assert LONG not in run(recorded).out
    for flag in ("-v", "--print_detailed_results"):
        done = run(recorded, flag, code=0)
        assert done.out.count(LONG) >= 2  # said, and answered
        assert done.out.rstrip().splitlines()[-1].startswith("Passed")


def test_very_verbose__says_what_is_decided_and_no_secret(recorded: Repository) -> None:
    environment = {"AGENT_EVAL_JUDGE_API_KEY": "sk-secret-of-the-judge"}

    done = run(recorded, "--baseline", "file:none.json", "-vv", environment=environment)

    assert "commands.run: setting agent: from --agent\n" in done.err
    assert "commands.run: setting judge-api-key: from AGENT_EVAL_JUDGE_API_KEY\n" in done.err
    assert "pipeline.pipeline: evals/home.test.json: agent recorded:recordings/good.json, --agent\n" in done.err
    assert "sk-secret" not in done.out + done.err
    assert "setting agent:" not in run(recorded, "-v", environment=environment).err


def test_threshold__is_for_a_trial_on_a_desk(recorded: Repository) -> None:
    story = []
    for number, threshold in enumerate(("response_match_score=0.99", "response_match_score=1.01", "respnse=1")):
        done = run(recorded, "--threshold", threshold, environment={"CI": ""}, output=recorded.root / f"out-{number}")
        metrics = [metric for case in done.report.cases for metric in case.metrics if metric.threshold]
        story.append(told(threshold, done, *(f"{metric.name}: {metric.threshold}" for metric in metrics)))
    check("golden_gate/thresholds.txt", "".join(story))
    assert "must be NAME=VALUE" in run(recorded, "--threshold", "response_match_score=high", code=2).err
    ci = run(recorded, "--threshold", "response_match_score=0.1", environment={"CI": "true"}, code=2)
    assert "on your machine" in ci.err


@pytest.mark.parametrize(
    ("command", "stream", "code"),
    [
        ("run", "stdout", 0),
        pytest.param("run", "stderr", 0, marks=pytest.mark.slow),
        pytest.param("validate", "stdout", 141, marks=pytest.mark.slow),
    ],
)
def test_closed_pipe__changes_no_verdict_and_is_no_traceback(
    recorded: Repository, command: str, stream: str, code: int
) -> None:
    if command == "validate":
        recorded.write({"evals/broken.test.json": "{"})
    read, write = os.pipe()
    os.close(read)
    arguments = ("run", "evals", "--agent", "recorded:recordings/good.json") if command == "run" else (command,)
    streams: dict[str, Any] = {stream: write}
    process = recorded.start(*arguments, python=False, **streams)
    os.close(write)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert stream == "stdout" or "Passed" in out
    # A slow machine reports its progress.
    assert not [line for line in (err or "").splitlines() if " runs" not in line], err
    assert (recorded.root / "agent-eval-results" / "results.json").exists() == (command == "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_dir__not_writable(recorded: Repository, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = run(recorded, output=locked / "out", code=2)
    assert "locked" in done.err


@pytest.mark.slow
def test_run__in_a_c_locale(recorded: Repository) -> None:
    recorded.evals("evals/cjk.test.json", {"关灯": "关灯 💡"})
    done = run(recorded, "evals/cjk.test.json", environment={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert "关灯" in done.out
    assert done.code == 1, "the recording has no such case"


# Mistakes in the set-up: each ends with a message that names the way out.


SECRET = "abcdefgh-12345"


def append(agent: Path, code: str) -> None:
    """Adds to the end of an agent's module."""
    with (agent / "agent.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\n{code}\n")


def test_agent_env__a_variable_of_the_job_that_the_agent_lacks_is_named(repository: Repository) -> None:
    repository.agent("faults")
    append(repository.root / "faults", 'import os\n\nTOKEN = os.environ["CRM_TOKEN"]')
    repository.evals("faults/a.test.json", {"one": "say hello"})
    done = repository.gate("run", environment={"CRM_TOKEN": SECRET}, code=1)
    assert "KeyError: 'CRM_TOKEN'" in done.out
    assert "`agent-env: +CRM_TOKEN`" in " ".join(done.out.split())
    written = [path.read_text("utf-8") for path in done.output.rglob("*.*") if path.suffix in {".json", ".xml", ".md"}]
    assert not any(SECRET in text for text in [done.out, done.err, *written])


def test_agent_python__that_cannot_be_used_or_whose_setup_fails_is_reported(repository: Repository) -> None:
    repository.agent("faults")
    repository.evals("faults/a.test.json", {"one": "say hello"})
    repository.write({"agent-eval-results/journal.jsonl": "of an earlier run\n"})
    for python, message in (
        ("pyhton3.12", "can't be started"),
        ("'python3", "No closing quotation"),
        (sys.executable, "google-adk is not installed"),
    ):
        done = repository.gate("run", "--agent-python", python, python=False, code=2)
        assert "agent-python-unusable" in done.out and "nothing was run" in done.out
        assert message in " ".join(done.out.split())
        assert (done.output / "journal.jsonl").read_text("utf-8") == "of an earlier run\n"
    done = repository.gate("run", "--agent-setup", "echo no such package; exit 7", code=1)
    assert "`agent-setup` ended with exit code 7" in " ".join(done.out.split())


@pytest.fixture
def open_repository() -> Iterator[Repository]:
    """In a directory that other users can enter."""
    with open_directory() as folder, repository_in(folder / "repository") as made:
        yield made


@as_root
def test_permissions__that_the_agents_user_lacks_are_named_with_the_way_out(open_repository: Repository) -> None:
    open_repository.agent("faults")
    open_repository.evals("evals/a.test.json", {"one": "say hello"})
    root = open_repository.root
    home = root.parent / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(python_for(None))
    dotenv = root / "faults" / ".env"
    dotenv.write_text("CRM_TOKEN=1\n", "utf-8")

    def run(*arguments: str, code: int | None = None, python: bool = True, **variables: str) -> str:
        command = ("run", "--agent", "faults", *arguments)
        return " ".join(open_repository.gate(*command, python=python, environment=variables, code=code).out.split())

    printed = run("--agent-python", str(home / "bin" / "python"), code=2, python=False, HOME=str(home))
    assert f"because of the permissions of {home}" in printed and "who can't enter HOME" in printed
    assert home.stat().st_mode & 0o777 == 0o755  # what was closed is open again
    dotenv.write_text('CRM_TOKEN=1\nCRM_KEY="2\n', "utf-8")
    printed = run()
    assert "env-file-unreadable" not in printed
    assert (
        "faults/.env:2: warning [env-file-line] `CRM_KEY` has a quote that is not closed, so it is not set." in printed
    )
    for closed in (root / "faults", root / "faults/agent.py", dotenv):
        mode = closed.stat().st_mode
        closed.chmod(0o600)
        printed = run(code=None if closed == dotenv else 2)
        closed.chmod(mode)
        assert ("warning [env-file-unreadable]" if closed == dotenv else "agent-unreachable") in printed
        assert f"the permissions of {closed}" in printed
        assert closed == dotenv or "chmod -R o+rX" in printed


@pytest.mark.slow
def test_agent_cwd__an_agent_finds_the_files_of_its_project(repository: Repository) -> None:
    """As travel-concierge of adk-samples, which opens `travel_concierge/profiles/...`."""
    for project in ("agents/one", "agents/two"):
        repository.agent("faults")
        (repository.root / project).mkdir(parents=True)
        place = repository.root / project / f"bot_{project[-3:]}"
        (repository.root / "faults").rename(place)
        repository.write({f"{project}/pyproject.toml": "[tool.ruff]\n", f"{project}/profile.txt": project})
        append(place, f"from pathlib import Path\n\nassert Path('profile.txt').read_text() == {project!r}")
        repository.evals(f"{project}/evals/a.test.json", {"case": "say hello"})
    repository.gate("run", code=0)
    at_root = repository.gate("run", "--agent-cwd", "root", code=1)
    assert "FileNotFoundError" in at_root.out
    repository.gate("run", "agents/two", "--agent-cwd", "agents/two", code=0)
    nowhere = repository.gate("run", "--agent-cwd", "agents/tow", code=2)
    assert "is not a directory" in " ".join(nowhere.out.split())


@pytest.mark.slow
def test_agent_cwd__leads_the_base_into_its_own_directory(repository: Repository) -> None:
    """Else the base's agent would read the head's files, and what the head breaks would be red on both sides."""
    repo = new_repo(repository.root)
    repository.agent("faults")
    append(repository.root / "faults", "from pathlib import Path\n\nassert Path('profile.txt').read_text() == 'whole'")
    repository.evals("faults/a.test.json", {"case": "say hello"})
    repo.commit({})
    base = repo.commit({"data/profile.txt": "whole"})
    repo.branch("change")
    repo.commit({"data/profile.txt": "broken"})

    def compared(cwd: str, ref: str) -> BaselineReport:
        done = repository.gate("run", "--agent-cwd", cwd, "--baseline", "rerun", "--base-ref", ref, code=1)
        # Logs are named by the agent, not by the path of the checkout.
        assert [folder.name for folder in (done.output / "logs").iterdir()] == ["faults"]
        assert done.report.baseline is not None
        return done.report.baseline

    absolute = compared(str(repository.root / "data"), "main")
    assert (absolute.status, absolute.commit) == ("found", base), absolute.message
    absent = compared("data", "main~1")
    assert absent.status == "none-yet"
    assert "The base has no directory data, which `agent-cwd` names." in absent.message


@pytest.mark.slow
def test_agent_python__that_agent_setup_does_not_make_is_invalid(repository: Repository) -> None:
    repository.agent("faults")
    repository.evals("faults/a.test.json", {"one": "say hello"})
    chosen = ("--agent-python", "made/python")
    done = repository.gate("run", *chosen, "--agent-setup", "echo made > log.txt", python=False, code=2)
    printed = " ".join(done.out.split())
    assert "agent-python-unusable" in printed
    assert "after agent-setup has run" in printed
    assert (repository.root / "log.txt").exists()
    make = f"mkdir made; printf '#!/bin/sh\\nexec {adk_python()} \"$@\"\\n' > made/python; chmod a+rx made made/python"
    repository.gate("run", *chosen, "--agent-setup", make, python=False, code=0)


@pytest.mark.slow
def test_paths__agent_and_file_in_the_order_of_adk_eval(tmp_path: Path) -> None:
    repository = suite(tmp_path / "repo")  # `bot` repeats what it is asked.
    broken = {"broken/__init__.py": "from . import agent\n", "broken/agent.py": ECHO.replace("text=text", "text='No.'")}
    repository.write(broken)
    arguments = ("broken", f"{EVALS}:lamp_on")

    done = repository.gate("run", *arguments)
    code = f"import agent_eval as a; print(a.run({arguments}, check=False).report.files[0].agent)"
    from_python = program(sys.executable, "-c", code, cwd=repository.root, env=repository.environment())

    assert (done.code, done.report.files[0].agent, len(done.report.cases)) == (1, "broken", 1), done.out + done.err
    assert from_python.stdout.splitlines()[-1:] == ["broken"]
    # test_agents_locate.py has more. What is named on the command line replaces the agent of the file.
    repository.write({"agent-eval.toml": 'agent = "bot"\n'})
    planned = repository.gate("validate", "--plan", "broken", EVALS, python=False)
    assert planned.out.startswith("broken\n  evals/bot.evalset.json")


# `agent-eval validate --plan`: what it says before a run is what the run then does.


NO_KEYS = {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": "", "AGENT_EVAL_JUDGE_API_KEY": ""}
EXAMPLES = Path(__file__).parents[2] / "examples"


def judged(repository: Repository, *, samples: int) -> None:
    """An eval file with every metric that judges fixed turns."""
    options = {"judge_model_options": {"num_samples": samples}}
    rubrics = {metric: {"threshold": 0.5, **RUBRICS, **options} for metric in RUBRIC_METRICS}
    coherence = {"response_evaluation_score": {"threshold": 3.0, **options}}
    criteria(repository, *METRICS, samples=samples, more={**rubrics, **coherence, "response_match_score": 0.0})
    answers(repository, {"good": ["Paris.", "Paris."], "torn": [TORN, BAD, TORN], "bad": BAD})


def test_the_calls_of_a_run_are_within_the_plan__and_the_tokens_of_the_right_size(repository: Repository) -> None:
    judged(repository, samples=1)
    with FakeGemini(Judge()) as server:
        planning = ("validate", "--plan", "evals", "--agent", "recorded:answers.json", "--format", "json")
        planned = repository.gate(*planning, "--num-runs", "2", python=False, environment=NO_KEYS, code=0)
        message = json.loads(planned.out)
        assert server.stats.requests == 0
        done = judged_run(repository, server, "--num-runs", "2")

        least, most = message["calls"]["least"], message["calls"]["most"]
        assert 0 < least <= server.stats.requests <= most
        assert least < most, "only what is skipped costs more than a single vote"
        line = f"Judges and simulated users will be asked {least:,} to {most:,} times (gemini-2.5-flash)."
        assert line in done.err, "`run` says it before it begins"
    assert message["turns"] == {"least": 12, "most": 12}
    asked = dict.fromkeys(METRICS, 0)
    for case in done.report.cases:
        for metric in case.metrics:
            for run in metric.runs:
                if "judge" in run.details:
                    asked[metric.name] = asked.get(metric.name, 0) + run.details["judge"]["calls"]
    rows = {row["metric"]: row["calls"] for row in message["files"][0]["criteria"]}
    assert len(asked) == 10
    for name, calls in asked.items():
        assert rows[name]["least"] <= calls <= rows[name]["most"], name
    assert rows["response_match_score"] == {"least": 0, "most": 0}
    # The agent has no instructions and no tools here, so that nothing comes on top.
    [bill] = done.report.model_usage
    estimated = message["tokens"]["least"] - 500 * message["calls"]["least"]
    assert bill.input_tokens is not None
    assert 0.7 * bill.input_tokens < estimated < 1.3 * bill.input_tokens
    least_cost, most_cost = message["cost"]
    assert 0 < least_cost < most_cost and message["unpriced"] == []


def test_plan__says_which_keys_and_services_a_run_would_need_and_what_is_wrong(repository: Repository) -> None:
    judged(repository, samples=5)
    repository.agent("home")
    story: list[str] = []

    def tell(title: str, *arguments: str, agent: str = "recorded:answers.json", **variables: str) -> None:
        command = ("validate", "--plan", "evals", "--agent", agent, *arguments)
        done = repository.gate(*command, python=False, environment={**NO_KEYS, **variables})
        lines = [line for line in (done.out + done.err).splitlines() if " tokens" not in line]  # Prices change.
        story.extend(f"{line}\n" for line in (f"{title}: exit {done.code}", *lines, ""))
        assert not done.output.exists(), "nothing is written"

    tell("no key")
    tell("one key for the agent and its judge", agent="home", GOOGLE_API_KEY=KEY)
    tell("a key of the judge", agent="home", AGENT_EVAL_JUDGE_API_KEY=KEY)
    tell("a provider that there is not", "--judge-model", "nobody/x")
    place = {"GOOGLE_CLOUD_PROJECT": "a-project", "GOOGLE_CLOUD_LOCATION": "us-central1"}
    repository.write({"evals/test_config.json": {"criteria": {"safety_v1": {"threshold": 1.0, "backend": "vertex"}}}})
    tell("the evaluation service", **place)
    tell("the evaluation service without a project", **{**place, "GOOGLE_CLOUD_PROJECT": ""})
    repository.write({"agent-eval.toml": '[[policy]]\ncases = ["weather*"]\nblocking = false\n'})
    tell("a policy of no case")
    (repository.root / "agent-eval.toml").unlink()
    criterion = {"threshold": 0.8, "judge_model_options": {"judge_model": "gemin-2"}}
    repository.write({"evals/test_config.json": {"criteria": {METRICS[0]: criterion}}})
    tell("a misspelt judge model")
    repository.write({"evals/broken.test.json": "{"})
    tell("a broken file")
    assert KEY not in "".join(story)
    check("golden_gate/plans.txt", anywhere("".join(story)))


@pytest.mark.parametrize("example", ["home_automation", "gemini_weather"])
def test_plan__the_examples_ask_no_judge(repository: Repository, example: str) -> None:
    shutil.copytree(EXAMPLES / example, repository.root / example, ignore=shutil.ignore_patterns("agent-eval-results"))

    done = repository.gate("validate", "--plan", "--format", "json", environment=NO_KEYS)

    loaded = json.loads(done.out)
    assert (done.code, loaded["calls"], loaded["models"]) == (0, {"least": 0, "most": 0}, [])
    assert loaded["turns"]["least"] == loaded["turns"]["most"] > 0


def test_run__a_case_without_facts_is_decided_by_its_other_criteria_and_green_by_none(repository: Repository) -> None:
    repository.evals("evals/talk.test.json", {"greets": "Hello there.", "tells": "Sales were 150 thousand."})
    repository.record("evals/talk.test.json", {"tells": "Sales were 0 thousand."})
    config = repository.root / "evals/test_config.json"

    def run(criteria: dict[str, float], *selected: str, code: int) -> Done:
        config.write_text(json.dumps({"criteria": criteria}), encoding="utf-8")
        paths = [f"evals/talk.test.json:{name}" for name in selected]
        return repository.gate("run", *paths, "--agent", "recorded:answers.json", python=False, code=code)

    alone = run({"response_facts": 1.0}, "greets", code=3)
    assert "Next: change the case or its criteria: another run would not score it." in alone.out
    run({"response_facts": 1.0, "response_match_score": 0.5}, "greets", code=0)
    done = run({"response_facts": 1.0, "response_match_score": 0.5}, code=1)
    assert done.statuses == {"greets": "passed", "tells": "failed"}
    assert "150 thousand is missing; 0 thousand is new" in " ".join(done.out.split())


INTERRUPTED = """
import sys
from agent_eval.__main__ import run

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
sys.argv = ["agent-eval", {command!r}]
run()
"""


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("module", ["agent_eval.cli", "agent_eval_scoring.core.streams", "agent_eval.settings"])
def test_main__an_interrupt_while_it_starts_is_no_traceback(command: str, module: str, tmp_path: Path) -> None:
    source = INTERRUPTED.format(module=module, command=command)
    done = program(sys.executable, "-c", source, code=130, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
