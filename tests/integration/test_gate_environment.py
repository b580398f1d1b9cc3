"""What surrounds the gate is odd: streams, disks, rights, signals, special files, agents and providers that fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from agents_open_dir import as_root, open_directory, remove
from base_repos import Repo
from gate_runs import (
    AGENT_EVAL,
    MARK,
    Done,
    Repository,
    anywhere,
    eval_set,
    patience,
    program,
    repository_in,
    told,
    wait_until,
)
from golden_files import check

from agent_eval.cli import main
from agent_eval_results.data.folder import InUse, locked

# What surrounds the gate is odd: closed or full standard streams, another gate at work, missing rights.


SLOW = pytest.mark.slow
RUN = ("run", "evals", "--agent", "recorded:answers.json")
NO_CAPABILITIES = 'exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
"""Root that may not read and write everywhere."""


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Repository]:
    """With recorded answers: nothing has to be started."""
    with repository_in(tmp_path / "repository") as made:
        made.evals("evals/a.test.json", {"one": "say hello", "two": "say bye"})
        made.record("evals/a.test.json")
        yield made


def in_shell(
    repository: Repository, script: str, *arguments: str, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `agent-eval ARGUMENTS`, which a shell script calls "$@"."""
    command = ("sh", "-c", script, "sh", *AGENT_EVAL, *arguments)
    return program(*command, cwd=repository.root, env=repository.environment(), code=code)


def verdict(repository: Repository) -> str:
    output = repository.root / "agent-eval-results" / "results.json"
    return str(json.loads(output.read_text("utf-8"))["verdict"])


@pytest.mark.parametrize(
    "streams", [">/dev/full 2>/dev/full", *(pytest.param(each, marks=SLOW) for each in (">&-", "<&- >&- 2>&-"))]
)
def test_run__standard_streams_that_are_closed_or_full_change_nothing(recorded: Repository, streams: str) -> None:
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    done = in_shell(recorded, f'exec "$@" {streams}', *RUN, code=0)
    assert verdict(recorded) == "passed"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_closed_streams__hide_no_errors_and_make_none(recorded: Repository) -> None:
    assert in_shell(recorded, 'exec "$@" >&-', "validate").returncode == 0
    recorded.write({"evals/test_config.json": {"criteria": {"no_such_metric": 1}}})
    assert in_shell(recorded, 'exec "$@" >&- 2>&-', *RUN).returncode == 2
    assert verdict(recorded) == "invalid"


def test_output_directory__a_second_gate_is_refused_and_named_the_first(recorded: Repository) -> None:
    output = recorded.root / "agent-eval-results"
    with locked(output):
        second = recorded.gate(*RUN, python=False, code=2)
        assert "output-dir-in-use" in second.out
        assert f"process {os.getpid()}" in second.out
        assert "--output-dir" in second.out
        assert sorted(path.name for path in output.iterdir()) == [".gitignore", ".lock"]
        [own] = recorded.root.glob("agent-eval-results-*")
        assert json.loads((own / "results.json").read_text("utf-8"))["verdict"] == "invalid"
    assert recorded.gate(*RUN, python=False).code == 0


def test_output_directory__a_lock_of_a_dead_gate_does_not_block(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n", "utf-8")
    with locked(tmp_path):
        with pytest.raises(InUse, match=str(os.getpid())), locked(tmp_path):
            pass
        assert (tmp_path / ".lock").read_text("utf-8") == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_windows__run_is_refused_and_other_commands_work(recorded: Repository) -> None:
    """A Windows as Python shows it to us: what POSIX alone has is missing."""
    code = (
        "import os, sys\n"
        "for name in ('fcntl', 'pwd', 'resource', 'termios'): sys.modules[name] = None\n"
        "for name in ('geteuid', 'getuid', 'getegid', 'fork', 'setsid', 'killpg', 'chown'): delattr(os, name)\n"
        "from agent_eval.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for arguments in (RUN, ("validate",), ("validate", "--plan")):
        command = (sys.executable, "-c", code, *arguments)
        done = program(*command, cwd=recorded.root, env=recorded.environment(), code=None)
        assert "Traceback" not in done.stderr
        assert done.returncode == 2 if arguments == RUN else done.returncode in {0, 2}, done.stderr
        assert ("Linux or macOS" in done.stderr) == (arguments == RUN)


@as_root
def test_dropped_capabilities__are_no_traceback_and_say_what_is_missing(tmp_path: Path) -> None:
    """As in a container that was started with --cap-drop ALL."""
    with repository_in(tmp_path / "repository", "faults") as repository:
        repository.evals("evals/a.test.json", {"quick": "say hello"})
        program("git", "init", "-q", repository.root)
        program("chown", "-R", "1234:1234", repository.root)
        repository.root.chmod(0o777)
        done = in_shell(repository, NO_CAPABILITIES, "run", "--agent-python", "/usr/bin/false")
        assert done.returncode in {1, 2}, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "agent-not-isolated" in done.stdout
        assert "CAP_SETUID" in done.stdout
        assert "--cap-drop" in done.stdout
        assert (repository.root / "agent-eval-results" / "junit.xml").exists()


@as_root
@pytest.mark.parametrize("closed", ["results", pytest.param(".", marks=SLOW)])
def test_output_directory__that_cannot_be_written_names_its_owner(recorded: Repository, closed: str) -> None:
    folder = recorded.root / closed
    folder.mkdir(exist_ok=True)
    os.chown(folder, 1234, 1234)
    folder.chmod(0o755)
    output = ("--output-dir", "results/new") if closed == "results" else ()
    done = in_shell(recorded, NO_CAPABILITIES, *RUN, *output, code=2)
    printed = " ".join((done.stdout + done.stderr).split())
    assert f"{folder.resolve()} belongs to uid 1234 (drwxr-xr-x), and agent-eval runs as root." in printed
    assert "Name another --output-dir" in printed
    assert ("output-dir-unwritable" in printed) is (closed == "results")
    if closed == ".":
        assert "agent-eval-results-" not in printed, "a directory that no one asked for"


@pytest.mark.slow
@as_root
def test_merge__says_which_directories_it_can_not_read(recorded: Repository) -> None:
    for number in ("1/2", "2/2"):
        done = in_shell(recorded, 'exec "$@"', *RUN, "--shard", number, "--output-dir", f"shards/{number[0]}", code=0)
    shards = recorded.root / "shards"
    for closed, code, message in (
        (shards / "2", 3, "`shards`: shards/2 can't be read by this user"),
        (shards, 2, "These directories can't be read: shards."),
    ):
        os.chown(closed, 1234, 1234)
        closed.chmod(0o700)
        done = in_shell(recorded, NO_CAPABILITIES, "merge", "--paths", "evals", *RUN[2:], code=code)
        assert message in " ".join(done.stdout.split())


@pytest.fixture
def few_processes() -> Iterator[Path]:
    """A control group that allows few processes and threads; its `pids.max` says how many."""
    group = Path("/sys/fs/cgroup/pids") / f"agent-eval-test-{os.getpid()}"
    if not group.parent.is_dir():
        group = Path("/sys/fs/cgroup") / group.name
    try:
        group.mkdir()
        (group / "pids.max").write_text("max")
    except OSError as error:
        pytest.skip(f"no control groups here: {error}")
    yield group
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"processes are left in {group}")


@pytest.mark.slow
@as_root
def test_process_ids_used_up_by_the_agent__fail_its_case_alone(tmp_path: Path, few_processes: Path) -> None:
    with repository_in(tmp_path / "repository", "faults") as repository:
        (few_processes / "pids.max").write_text("150")
        repository.evals("evals/a.test.json", {"forks": "forks:10000", "quick": "say hello"})
        join = f'echo $$ > {few_processes}/cgroup.procs; exec "$@"'
        run = ("run", "--concurrency", "1", "--turn-timeout", "20", "--agent-python", str(adk_python()))
        done = in_shell(repository, join, *run, "--agent-env", f"+{MARK}", code=1)
        assert "Traceback" not in done.stderr
        results = json.loads((repository.root / "agent-eval-results" / "results.json").read_text("utf-8"))
        assert {case["eval_id"]: case["status"] for case in results["cases"]} == {"forks": "failed", "quick": "passed"}
        assert repository.left_behind() == []


@pytest.mark.slow
@as_root
def test_no_process_ids_at_all__is_exit_2_with_what_to_do(recorded: Repository, few_processes: Path) -> None:
    (few_processes / "pids.max").write_text("2")
    done = in_shell(recorded, f'echo $$ > {few_processes}/cgroup.procs; exec "$@"', *RUN, code=2)
    assert "--pids-limit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each host starts when it is needed")
def test_agent_python__its_early_process_is_the_host_and_ends_with_a_refusal(tmp_path: Path) -> None:
    with repository_in(tmp_path / "repository", "faults", new_hosts=True) as repository:
        repository.evals("evals/a.test.json", {"who": "pid"})
        done = repository.gate("run", "-vv", code=0)
        assert re.findall(r"forked by process (\d+)", done.err) == re.findall(r'"pid": (\d+)', done.out) != []
        repository.write({"evals/a.test.json": "{"})
        assert "nothing was run" in repository.gate("run", code=2).out
        assert repository.left_behind() == []


@as_root
def test_a_uid_without_a_home__has_its_environments_in_a_temporary_directory(tmp_path: Path) -> None:
    """As OpenShift starts containers: any uid, no entry in passwd, HOME is /."""
    temporary = Path(tempfile.mkdtemp(dir="/var/tmp"))
    temporary.chmod(0o1777)
    code = (
        "import os, sys, tempfile\n"
        "from agent_eval_agents.venv.environment import default_cache_dir\n"
        "os.setgroups([]); os.setgid(0); os.setuid(123456)\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "os.environ.pop('HOME', None)\n"
        "for environ in ({'HOME': '/'}, {'HOME': '/nowhere'}, {}, {'XDG_CACHE_HOME': '/root/caches'}):\n"
        "    print(default_cache_dir(environ, None))\n"
    )
    done = program(sys.executable, "-c", code, code=None)
    assert done.stdout.split() == [f"{temporary}/agent-eval-123456"] * 4, done.stderr
    made = temporary / "agent-eval-123456"
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (123456, 0o700)
    os.chown(made, 0, 0)
    taken = program(sys.executable, "-c", code, code=None)
    assert "--cache-dir" in taken.stderr, "somebody else's is not used"
    assert taken.stdout == ""
    remove(temporary)


@pytest.mark.slow
def test_what_an_agent_starts_in_a_session_of_its_own__ends_with_the_gate(tmp_path: Path) -> None:
    """As root by its user, else by the gate's parent."""
    with repository_in(tmp_path / "repository", "faults", new_hosts=True) as repository:
        repository.evals("evals/a.test.json", {"strays": "setsid", "others": "setsid"})
        for command in (("run", "--shard", "1/2", "--output-dir", "parts/1"), ("merge", "parts", "--run-missing")):
            repository.gate(*command, code=0)
            assert repository.left_behind() == []


# A disk that is full ends the gate in time, with a clear message and without a pass.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Repository]:
    """With an output directory on a disk of its own, of 64 kB."""
    with repository_in(tmp_path / "repository", "faults") as made:
        output = made.root / "agent-eval-results"
        output.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(output)], capture_output=True)
        if mounted.returncode:
            pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode()}")
        try:
            yield made
        finally:
            made.end()
            subprocess.run(["umount", "--lazy", str(output)], check=True, timeout=30)


@as_root
@pytest.mark.slow
def test_a_log_that_fills_the_disk__is_exit_2_with_the_path_and_what_to_do(small_disk: Repository) -> None:
    small_disk.evals("evals/a.test.json", {"floods": "flood:1000000", "quick": "say hello"})
    done = small_disk.gate("run", "--concurrency", "1", code=2)
    assert "No space left on device" in done.out + done.err
    assert "agent-eval-results/" in done.out + done.err
    assert "Traceback" not in done.err
    journal = done.output / "journal.jsonl"
    assert not journal.exists() or journal.read_bytes()[-1:] in {b"", b"\n"}, "half a line would spoil the next one"
    assert small_disk.left_behind() == []


@as_root
@pytest.mark.slow
@pytest.mark.parametrize(("free", "job"), [(24_000, {}), (24_000, {"GITHUB_ACTIONS": "true"}), (64_000, {})])
def test_a_disk_that_becomes_full__loses_no_finished_run(
    small_disk: Repository, free: int, job: Mapping[str, str]
) -> None:
    """The journal is what does not fit."""
    small_disk.evals("evals/a.test.json", {f"case-{number}": "say hello" for number in range(30)})
    output = small_disk.root / "agent-eval-results"
    subprocess.run(["mount", "-o", "remount,size=1m", str(output)], check=True)
    (output / "ballast").write_bytes(b"x" * (os.statvfs(output).f_bavail * os.statvfs(output).f_bsize - free))

    done = small_disk.gate("run", "--report", "off", "--concurrency", "1", code=2, environment=job)

    assert "No space left on device" in done.out and "--resume" in done.out
    assert "Invalid: the disk is full, so the run ended early" in done.out
    assert "journal.jsonl" in "".join(done.out.split())
    finished = (output / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert finished and all(line.endswith(b"\n") for line in finished)
    assert not (output / "recordings.jsonl.gz").exists()
    (output / "ballast").unlink()

    later = small_disk.gate("run", "--report", "off", "--resume", code=0)

    assert f"{len(finished)} run{'s' if len(finished) > 1 else ''} taken from the journal" in later.out + later.err
    assert not list(output.glob("journal*"))


@as_root
@pytest.mark.slow
def test_a_disk_that_becomes_full__is_no_fault_of_a_part(small_disk: Repository) -> None:
    small_disk.evals("evals/a.test.json", {f"case-{number}": f"say {'hello' * 8000}" for number in range(8)})
    for part in ("1", "2"):
        arguments = ("--shard", f"{part}/2", "--output-dir", f"shards/{part}", "--report", "off")
        small_disk.gate("run", *arguments, code=0)
    subprocess.run(["mount", "-o", "remount,size=400k", str(small_disk.root / "agent-eval-results")], check=True)

    done = small_disk.gate("merge", "shards", "--report", "off")

    [warning] = [problem for problem in done.report.problems if problem.code == "shard-recordings"]
    assert "No space left on device" in warning.message and "journal.jsonl" in warning.message
    assert done.code == 0


@as_root
@pytest.mark.slow
def test_a_full_disk_and_a_signal__end_in_time(small_disk: Repository) -> None:
    small_disk.evals("evals/a.test.json", {"floods": "flood:1000000", "hangs": "sleep:600"})
    (small_disk.root / "agent-eval-results" / "ballast").write_bytes(b"x" * 20_000)
    process = small_disk.start("run", "--concurrency", "2")
    output = small_disk.root / "agent-eval-results"
    wait_until(lambda: os.statvfs(output).f_bavail == 0 or process.poll() is not None, seconds=60)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    done = small_disk.finish(process, timeout=60)
    # The full disk ends the run, too. A signal that comes after its end, while the verdict is printed, kills the gate.
    killed = done.code == 128 + signal.SIGTERM and "there is no verdict" in done.err
    assert done.code == 2 or killed, done.out + done.err
    assert "No space left on device" in done.out + done.err
    assert small_disk.left_behind() == []


@as_root
@pytest.mark.slow
def test_a_report_page_that_does_not_fit__is_a_line_and_changes_nothing(small_disk: Repository) -> None:
    """The page alone is larger than this disk."""
    small_disk.evals("evals/a.test.json", {"quick": "say hello"})

    done = small_disk.gate("run", code=0)

    lines = [line for line in done.err.splitlines() if "report.html" in line]
    assert len(lines) == 1 and "could not be written: OSError: [Errno 28] No space left on device" in lines[0]
    assert not (done.output / "report.html").exists()
    assert done.report.verdict == "passed" and done.recordings
    assert "report.html" not in done.out + (done.output / "summary.md").read_text("utf-8")

    silent = small_disk.gate("run", "--report", "off")

    assert (silent.code, "report.html" in silent.err) == (0, False), silent.err


# A gate that gets a signal leaves complete, valid results of what it had, and no process.


QUICK = {f"quick {number}": f"say {number}" for number in range(3)}
CASES = {**QUICK, "hangs": "sleep:600", "blocks": "block:600"}


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path, "faults") as made:
        made.evals("evals/slow.test.json", CASES)
        yield made


def under_way(repository: Repository, *arguments: str) -> subprocess.Popen[str]:
    """A gate whose quick cases are done and whose agent hangs."""
    process = repository.start("run", "--concurrency", "2", *arguments, environment={"CI": ""})
    repository.wait_for_runs(len(QUICK))
    return process


def end(repository: Repository, process: subprocess.Popen[str], number: signal.Signals) -> Done:
    """Ends a gate, which then has no verdict and leaves no process."""
    os.kill(process.pid, number)
    done = repository.finish(process, timeout=30)
    assert done.code == 3, done.out + done.err
    assert repository.left_behind() == []
    return done


SLOWLY = ((signal.SIGINT,), (signal.SIGHUP,), (signal.SIGINT, signal.SIGTERM))


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), *(pytest.param(each, marks=SLOW) for each in SLOWLY)])
def test_signal__leaves_complete_results(slow: Repository, signals: Sequence[signal.Signals]) -> None:
    process = under_way(slow)
    for number in signals[:-1]:
        os.kill(process.pid, number)
        time.sleep(0.05)
    done = end(slow, process, signals[-1])
    # GitHub sends SIGINT, SIGTERM after 7.5 s and SIGKILL 2.5 s later (actions/runner, ProcessInvoker.cs).
    assert done.seconds < 7 * patience()
    done.check_files()
    if len(signals) == 1:
        check("golden_gate/signals.txt", told("stopped", done))
        assert (done.output / "journal.jsonl").exists()


@pytest.mark.slow
def test_signal__while_tools_are_recorded_advises_nothing_that_is_refused(slow: Repository) -> None:
    done = end(slow, under_way(slow, "--record", "all"), signal.SIGTERM)
    assert "continues from there with --resume" not in done.out + (done.output / "summary.md").read_text("utf-8")


@pytest.fixture
def silent_index(slow: Repository) -> Iterator[Mapping[str, str]]:
    """An index of packages that accepts and never answers; the environment that leads there."""
    (slow.root / "requirements.txt").write_text("google-adk==2.13.0\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        yield {"UV_DEFAULT_INDEX": index, "UV_INDEX_URL": index, "NO_PROXY": "127.0.0.1"}


@pytest.mark.slow
def test_sigkill__ends_the_installer(slow: Repository, tmp_path: Path, silent_index: Mapping[str, str]) -> None:
    cache = ("--cache-dir", str(tmp_path / "cache"), "--agent-env", f"+{MARK}")
    process = slow.start("run", *cache, python=False, environment=silent_index)
    wait_until(lambda: any("pip install" in command for command in slow.left_behind()), seconds=60)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: slow.left_behind() == [], seconds=20)


@pytest.mark.slow
def test_refusal__ends_the_installer_that_was_started_early_and_says_nothing_of_it(
    slow: Repository, tmp_path: Path, silent_index: Mapping[str, str]
) -> None:
    cache = tmp_path / "cache"

    def refused(*arguments: str) -> str:
        shutil.rmtree(cache, ignore_errors=True)
        options: dict[str, Any] = {"python": False, "environment": silent_index, "code": 2}
        done = slow.gate("run", "--cache-dir", str(cache), *arguments, **options)
        assert slow.left_behind() == []
        assert "nothing was run" in done.out
        assert "Making" not in done.err
        return done.out

    slow.write({"evals/test_config.json": {"criteria": {"final_response_match_v2": 0.5}}})
    assert "key" in refused()
    assert list(cache.glob("envs/*.lock"))
    for elsewhere in (("--resume",), ("--shard", "1/2"), ("--agent-setup", "true"), ("--replay", "tools")):
        refused(*elsewhere)
        assert not cache.exists(), elsewhere
    slow.write({"evals/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1}}})
    assert "agent-cwd" in refused("--agent-cwd", "nowhere")
    assert not cache.exists()
    slow.write({"evals/slow.test.json": "{"})
    refused()
    assert not cache.exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["agent-setup", "environment"])
def test_signal__before_the_agent_runs(
    slow: Repository, tmp_path: Path, silent_index: Mapping[str, str], words: str
) -> None:
    """While its environment is made, or when that has been made by `agent-setup`."""
    setup = ("--agent-setup", "sleep 600") if words == "agent-setup" else ("--cache-dir", str(tmp_path / "cache"))
    process = slow.start("run", *setup, python=False, environment=silent_index)
    assert process.stderr is not None
    seen = ""
    while words not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    time.sleep(0.3)

    done = end(slow, process, signal.SIGTERM)

    assert done.seconds < 7 * patience()
    assert set(done.statuses.values()) == {"not_run"}
    done.check_files()


# Whatever the agent does: the gate ends in time, says whose fault it is, and keeps the results of the others.


GOOD = {f"good {number}": f"say {number}" for number in range(3)}


def test_faults__crashes_exceptions_and_floods_hurt_only_their_own_case(repository: Repository) -> None:
    repository.agent("faults")
    bad = {"leaves": "os._exit", "segfault": "abort", "raises": "raise", "exits": "sys.exit"}
    repository.evals("evals/faults.evalset.json", {**GOOD, **bad, "flood": "flood:30000000"})
    done = repository.gate("run", code=1)
    check("golden_gate/faults.txt", told("faults", done))
    done.check_files()
    errors = {case.eval_id: case.runs[0].error for case in done.report.cases}
    assert "ValueError: the tool is broken" in (errors["raises"].traceback or "")  # type: ignore[union-attr]
    assert errors["raises"].raised.symbol == "fail"  # type: ignore[union-attr]
    turns = {each.eval_id: (len(each.invocations), each.unfinished is not None) for each in done.recordings}
    assert turns == {**dict.fromkeys((*GOOD, "flood"), (1, False)), **dict.fromkeys(bad, (0, True))}
    raised = next(each for each in done.recordings if each.eval_id == "raises").unfinished
    assert [span.raised for span in raised.spans][1:] == [errors["raises"].raised]  # type: ignore[union-attr]
    logs = list((done.output / "logs").rglob("*.log"))
    assert logs
    assert sum(path.stat().st_size for path in logs) < 20_000_000
    assert repository.left_behind() == []
    assert not (done.output / "journal.jsonl").exists(), "nothing is left to resume"


def test_faults__a_case_that_suffers_from_an_ended_one_runs_again_alone(repository: Repository) -> None:
    repository.agent("faults")
    repository.evals("evals/late.evalset.json", {"does": "late:exit", "beside": "sleep:1", "last": "say bye"})
    done = repository.gate("run", "--concurrency", "1")
    check("golden_gate/late.txt", told("what an ended case leaves behind", done))
    assert [(run.attempts, run.ran_before) for case in done.report.cases for run in case.runs] == [
        (1, []),
        (2, ["evals/late.evalset.json:does"]),
        (1, []),
    ]
    for text in (done.out, (done.output / "summary.md").read_text("utf-8")):
        assert "The agent's process died or hung in 1 run" in " ".join(text.split())


@pytest.mark.slow
def test_faults__who_suffers_from_an_ended_case_runs_again_on_both_sides(repository: Repository, repo: Repo) -> None:
    repository.agent("faults")
    cases = {"does": "late:exit", "beside": "sleep:1", "last": "say bye"}
    repository.evals("evals/late.evalset.json", {**cases, **{f"{name} too": text for name, text in cases.items()}})
    done = repository.gate("run", "--concurrency", "4", "--workers", "2", code=0)
    assert set(done.statuses.values()) == {"passed"}
    assert {case.eval_id for case in done.report.cases if case.runs[0].ran_before} == {"beside", "beside too"}
    repo.commit({".gitignore": "__pycache__/\nagent-eval-results/\n", "README.md": "old"})
    repo.branch("feature")
    repo.commit({"README.md": "new"})
    compared = ("--base-ref", "main", "--baseline", "rerun", "--concurrency", "1")
    done = repository.gate("run", *compared, code=0)
    assert done.report.baseline is not None and done.report.baseline.source == "rerun"
    assert "died or hung" in " ".join(done.out.split())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it finds them in /proc")
def test_faults__an_agent_that_kills_its_hosts_in_each_run(tmp_path: Path) -> None:
    """test_adk_faults.py and test_runner_execution.py have more of how hosts are watched."""
    with repository_in(tmp_path, "faults", new_hosts=True) as repository:
        repository.evals("evals/kill.test.json", dict.fromkeys(("first", "second", "third"), "kill-hosts"))
        done = repository.gate("run", "--workers", "3", code=1)
        assert set(done.statuses.values()) == {"failed"}
        # One may be killed by another one while it loads.
        assert {case.reason.code for case in done.report.cases if case.reason} <= {"agent-crash", "agent-import"}
        assert repository.left_behind() == []


TINY = """from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types
class Bot(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, content=types.Content(role="model", parts=ctx.user_content.parts))
root_agent = Bot(name="bot")
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="it finds them in /proc")
def test_many_agents__two_hundred_in_little_memory(tmp_path: Path) -> None:
    """Each in a new interpreter, of which all at once would take 20 GB."""
    with repository_in(tmp_path / "repo", new_hosts=True) as repository:
        for number in range(200):
            repository.write({f"a{number}/agent.py": TINY})
            repository.evals(f"a{number}/tiny.test.json", {f"c{number}": "hi"})
        process = repository.start("run", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            pages = 0
            for pid in repository.hosts():
                with contextlib.suppress(OSError, IndexError):
                    pages += int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1])
            peak = max(peak, pages * os.sysconf("SC_PAGE_SIZE"))
            time.sleep(0.2)
        results = json.loads((repository.root / "agent-eval-results" / "results.json").read_text("utf-8"))
        assert process.returncode == 0, results["reasons"]
        assert {case["status"] for case in results["cases"]} == {"passed"}
        assert 0 < peak < 3 * 2**30


# Pipes, devices and links in the place of files that a user or a pull request gives: an error, never a wait.


EVAL_SET = eval_set("s", {"c": [("hi", "hello")]})
COMMANDS = {
    "agent-eval.toml": ["validate"],
    "test_config.json": ["validate"],
    "named.json": ["validate", "named.json"],
    "found.test.json": ["validate"],
    "head.json": ["compare", "head.json", "base.json"],
    "results.json": ["flaky", "results.json"],
    "old.json": ["migrate", "old.json", "new.json"],
    "recorded.json": ["run", "--agent", "recorded:recorded.json"],
}
PROGRAM = """
import contextlib, io, json, os, sys
from agent_eval.cli import main
kinds = {"pipe": os.mkfifo, "device": lambda at: os.symlink("/dev/zero", at), "nowhere": lambda at: os.symlink("x", at)}
for name, arguments in json.loads(sys.argv[1]).items():
    for kind, put in kinds.items():
        put(name)
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = main(arguments)
        os.unlink(name)
        print(f"{name}, {kind}: exit {code}", text.getvalue().strip(), "", sep="\\n")
"""


def start(root: Path, *arguments: str) -> str:
    """What Python prints; with little memory, so that even what reads /dev/zero ends."""
    (root / "ok.test.json").write_text(json.dumps(EVAL_SET), encoding="utf-8")
    command = ("sh", "-c", 'ulimit -v 4000000; exec "$0" "$@"', sys.executable, *arguments)
    done = program(*command, cwd=root, env=Repository(root=root).environment())
    assert done.stderr == ""
    return done.stdout


def test_special_files__are_errors_with_the_path(tmp_path: Path) -> None:
    check("golden_gate/special_files.txt", anywhere(start(tmp_path, "-c", PROGRAM, json.dumps(COMMANDS))))


def test_special_files__link_loop_beside_an_agent_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "agent.py").write_text("root_agent = None\n", encoding="utf-8")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    planned = start(tmp_path, "-m", "agent_eval", "validate", "--plan")
    assert planned.startswith("bot\n  ok.test.json  (the only agent in the root)\n")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Path.resolve raises nothing")
def test_a_link_to_itself__is_exit_2_and_no_bug_of_ours(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with repository_in(tmp_path) as repository:
        repository.write({"a.test.json": EVAL_SET})
        ran = repository.gate("run", "--agent", "loop", code=2)
        assert "/loop': the symbolic link leads to itself. Remove it" in ran.err
        viewed = repository.gate("view", "loop", code=2)
        assert "loop can't be read: Too many levels of symbolic links." in viewed.err


def test_output_directory__that_cannot_be_created_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.test.json").write_text("[]", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--output-dir", "/proc/x"]) == 2
    assert "The directory /proc/x can't be created. Set another --output-dir" in capsys.readouterr().err


@as_root
@pytest.mark.slow
def test_a_disk_that_is_full_before_the_run_is_planned__is_reported() -> None:
    """There is no room for what the agent's user needs, which the run prepares before it reads its files."""
    mount = 'mount -t tmpfs -o size=1m,nr_inodes=7 t /var/lib/agent-eval || exit 77; exec "$@"'
    Path("/var/lib/agent-eval").mkdir(exist_ok=True)
    with open_directory() as base, repository_in(base / "repository", "faults") as repository:
        repository.evals("evals/a.test.json", {"one": "say hello"})
        command = ("unshare", "--mount", "sh", "-c", mount, "sh", *AGENT_EVAL, "run", "--cache-dir", "cache")
        done = program(*command, cwd=repository.root, env=repository.environment(), code=None)
        if done.returncode == 77 or "unshare failed" in done.stderr:
            pytest.skip(f"no namespaces here: {done.stderr}")
        assert done.returncode == 2 and "Invalid: the disk is full, so the run ended early" in done.stdout, done
        assert verdict(repository) == "invalid"
