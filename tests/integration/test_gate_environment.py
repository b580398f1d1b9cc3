"""What surrounds the gate is odd: closed or full standard streams, another gate at work, missing rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_envs import adk_python
from agents_open_dir import as_root, remove
from gate_runs import AGENT_EVAL, MARK, Repository, repository_in

from agent_eval.results.folder import InUse, locked

SLOW = pytest.mark.slow
RUN = ("run", "evals", "--agent", "recorded:answers.json")
NO_CAPABILITIES = 'exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
"""Root that may not read and write everywhere."""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """With recorded answers: nothing has to be started."""
    with repository_in(tmp_path / "repository") as made:
        made.evals("evals/a.test.json", {"one": "say hello", "two": "say bye"})
        made.record("evals/a.test.json")
        yield made


def in_shell(repository: Repository, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `agent-eval ARGUMENTS`, which a shell script calls "$@"."""
    return subprocess.run(
        ["sh", "-c", script, "sh", *AGENT_EVAL, *arguments],
        cwd=repository.root,
        env=repository.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )


def verdict(repository: Repository) -> str:
    output = repository.root / "agent-eval-results" / "results.json"
    return str(json.loads(output.read_text("utf-8"))["verdict"])


@pytest.mark.parametrize(
    "streams", [">/dev/full 2>/dev/full", *(pytest.param(each, marks=SLOW) for each in (">&-", "<&- >&- 2>&-"))]
)
def test_run__standard_streams_that_are_closed_or_full_change_nothing(repository: Repository, streams: str) -> None:
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    done = in_shell(repository, f'exec "$@" {streams}', *RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict(repository) == "passed"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_closed_streams__hide_no_errors_and_make_none(repository: Repository) -> None:
    assert in_shell(repository, 'exec "$@" >&-', "validate").returncode == 0
    repository.write({"evals/test_config.json": {"criteria": {"no_such_metric": 1}}})
    assert in_shell(repository, 'exec "$@" >&- 2>&-', *RUN).returncode == 2
    assert verdict(repository) == "invalid"


def test_output_directory__a_second_gate_is_refused_and_named_the_first(repository: Repository) -> None:
    output = repository.root / "agent-eval-results"
    with locked(output):
        second = repository.gate(*RUN, python=False)
        assert second.code == 2
        assert "output-dir-in-use" in second.out
        assert f"process {os.getpid()}" in second.out
        assert "--output-dir" in second.out
        assert sorted(path.name for path in output.iterdir()) == [".gitignore", ".lock"]
        [own] = repository.root.glob("agent-eval-results-*")
        assert json.loads((own / "results.json").read_text("utf-8"))["verdict"] == "invalid"
    assert repository.gate(*RUN, python=False).code == 0


def test_output_directory__a_lock_of_a_dead_gate_does_not_block(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n", "utf-8")
    with locked(tmp_path):
        with pytest.raises(InUse, match=str(os.getpid())), locked(tmp_path):
            pass
        assert (tmp_path / ".lock").read_text("utf-8") == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_windows__run_is_refused_and_other_commands_work(repository: Repository) -> None:
    """A Windows as Python shows it to us: what POSIX alone has is missing."""
    code = (
        "import os, sys\n"
        "for name in ('fcntl', 'pwd', 'resource', 'termios'): sys.modules[name] = None\n"
        "for name in ('geteuid', 'getuid', 'getegid', 'fork', 'setsid', 'killpg', 'chown'): delattr(os, name)\n"
        "from agent_eval.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for arguments in (RUN, ("validate",), ("validate", "--plan")):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=repository.root,
            env=repository.environment(),
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 2 if arguments == RUN else done.returncode in {0, 2}, done.stderr
        assert ("Linux or macOS" in done.stderr) == (arguments == RUN)


@as_root
def test_dropped_capabilities__are_no_traceback_and_say_what_is_missing(tmp_path: Path) -> None:
    """As in a container that was started with --cap-drop ALL."""
    with repository_in(tmp_path / "repository", "faults") as repository:
        repository.evals("evals/a.test.json", {"quick": "say hello"})
        subprocess.run(["git", "init", "-q", str(repository.root)], check=True)
        subprocess.run(["chown", "-R", "1234:1234", str(repository.root)], check=True)
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
def test_output_directory__that_cannot_be_written_names_its_owner(repository: Repository, closed: str) -> None:
    folder = repository.root / closed
    folder.mkdir(exist_ok=True)
    os.chown(folder, 1234, 1234)
    folder.chmod(0o755)
    output = ("--output-dir", "results/new") if closed == "results" else ()
    done = in_shell(repository, NO_CAPABILITIES, *RUN, *output)
    assert done.returncode == 2, done.stdout + done.stderr
    printed = " ".join((done.stdout + done.stderr).split())
    assert f"{folder.resolve()} belongs to uid 1234 (drwxr-xr-x), and agent-eval runs as root." in printed
    assert "Name another --output-dir" in printed
    assert ("output-dir-unwritable" in printed) is (closed == "results")
    if closed == ".":
        assert "agent-eval-results-" not in printed, "a directory that no one asked for"


@pytest.mark.slow
@as_root
def test_merge__says_which_directories_it_can_not_read(repository: Repository) -> None:
    for number in ("1/2", "2/2"):
        done = in_shell(repository, 'exec "$@"', *RUN, "--shard", number, "--output-dir", f"shards/{number[0]}")
        assert done.returncode == 0, done.stdout + done.stderr
    shards = repository.root / "shards"
    for closed, code, message in (
        (shards / "2", 3, "`shards`: shards/2 can't be read by this user"),
        (shards, 2, "These directories can't be read: shards."),
    ):
        os.chown(closed, 1234, 1234)
        closed.chmod(0o700)
        done = in_shell(repository, NO_CAPABILITIES, "merge", "--paths", "evals", *RUN[2:])
        assert done.returncode == code, done.stdout + done.stderr
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
        done = in_shell(repository, join, *run, "--agent-env", f"+{MARK}")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        results = json.loads((repository.root / "agent-eval-results" / "results.json").read_text("utf-8"))
        assert {case["eval_id"]: case["status"] for case in results["cases"]} == {"forks": "failed", "quick": "passed"}
        assert repository.left_behind() == []


@pytest.mark.slow
@as_root
def test_no_process_ids_at_all__is_exit_2_with_what_to_do(repository: Repository, few_processes: Path) -> None:
    (few_processes / "pids.max").write_text("2")
    done = in_shell(repository, f'echo $$ > {few_processes}/cgroup.procs; exec "$@"', *RUN)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--pids-limit" in done.stderr
    assert "Traceback" not in done.stderr


@as_root
def test_a_uid_without_a_home__has_its_environments_in_a_temporary_directory(tmp_path: Path) -> None:
    """As OpenShift starts containers: any uid, no entry in passwd, HOME is /."""
    temporary = Path(tempfile.mkdtemp(dir="/var/tmp"))
    temporary.chmod(0o1777)
    code = (
        "import os, sys, tempfile\n"
        "from agent_eval.agents.venv.environment import default_cache_dir\n"
        "os.setgroups([]); os.setgid(0); os.setuid(123456)\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "os.environ.pop('HOME', None)\n"
        "for environ in ({'HOME': '/'}, {'HOME': '/nowhere'}, {}, {'XDG_CACHE_HOME': '/root/caches'}):\n"
        "    print(default_cache_dir(environ, None))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [f"{temporary}/agent-eval-123456"] * 4, done.stderr
    made = temporary / "agent-eval-123456"
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (123456, 0o700)
    os.chown(made, 0, 0)
    taken = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "--cache-dir" in taken.stderr, "somebody else's is not used"
    assert taken.stdout == ""
    remove(temporary)


@pytest.mark.slow
def test_what_an_agent_starts_in_a_session_of_its_own__ends_with_the_gate(tmp_path: Path) -> None:
    """As root by its user, else by the gate's parent."""
    with repository_in(tmp_path / "repository", "faults", new_hosts=True) as repository:
        repository.evals("evals/a.test.json", {"strays": "setsid", "others": "setsid"})
        for command in (("run", "--shard", "1/2", "--output-dir", "parts/1"), ("merge", "parts", "--run-missing")):
            done = repository.gate(*command)
            assert done.code == 0, done.out + done.err
            assert repository.left_behind() == []
