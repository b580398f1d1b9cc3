import contextlib
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents_open_dir import as_root, open_directory, python_for
from gate_runs import program

from agent_eval_agents.sandbox.forwarding import allow_list
from agent_eval_agents.sandbox.isolation import Isolation, isolated
from agent_eval_agents.sandbox.sealing import blocked_at, open_sockets, seal_targets, sealed
from agent_eval_agents.sandbox.spawn import Account
from agent_eval_agents.sandbox.uids import claim, free_uids
from agent_eval_scoring.core.problem import Severity

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TOKEN = "ghs_a-token-that-nobody-may-see"
NOBODY = Account(name="agent", uid=64_999, gid=64_999, home=Path("/nowhere"))


class Job:
    """The directories of a job as a runner mounts them: open to everybody."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "workspace"
        self.output_dir = self.root / "agent-eval-results"
        self.file_command = base / "file_commands" / "set_output"
        self.event = base / "workflow" / "event.json"
        self.git_config = self.root / ".git" / "config"
        self.state_dir = base / "state"
        self.socket = base / "engine.sock"
        for file in (self.file_command, self.event, self.git_config, self.output_dir / "results.json"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.parent.chmod(0o777)
            file.write_text(TOKEN)
            file.chmod(0o666)
        self.root.chmod(0o777)
        self.state_dir.mkdir(mode=0o755)
        shutil.copy(HERE / "agents_evil.py", self.root)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "INPUT_GITHUB-TOKEN": TOKEN,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_OUTPUT": str(self.file_command),
            "GITHUB_EVENT_PATH": str(self.event),
            "GITHUB_WORKSPACE": str(self.root),
            "GOOGLE_API_KEY": "key-of-the-model",
        }

    def isolated(self, **more: Any) -> contextlib.AbstractContextManager[Isolation]:
        facts = {"root": self.root, "output_dir": self.output_dir, "state_dir": self.state_dir}
        environ = {**self.environ, **more.pop("environ", {})}
        return isolated(environ, allow=allow_list(None), **{**facts, **more})

    def modes(self) -> dict[str, int]:
        return {str(path): path.stat().st_mode for path in self.base.rglob("*") if self.state_dir not in path.parents}

    def evil(self, state_dir: str, **more: str) -> subprocess.CompletedProcess[str]:
        script = [python_for(NOBODY), str(self.root / "agents_evil.py"), TOKEN]
        targets = [self.file_command, self.git_config, self.output_dir, self.event, self.socket]
        # The token is among the arguments, which everybody may read: the attempt on /proc looks at environ alone.
        gate = [sys.executable, str(HERE / "agents_gate_double.py"), str(self.root), str(self.output_dir), state_dir]
        return program(*gate, *script, *targets, env={**self.environ, **more})


@pytest.fixture
def job() -> Iterator[Job]:
    with open_directory() as base:
        yield Job(base)


@pytest.fixture
def engine(job: Job) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(job.socket))
        server.listen()
        job.socket.chmod(0o660)
        yield


@as_root
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("more", [{}, {"FORKED": "1"}], ids=["own", "forked"])
def test_isolation__the_agent_gets_at_nothing_of_ours_or_its_parents(job: Job, more: dict[str, str]) -> None:
    before = job.modes()
    result = job.evil(str(job.state_dir), **more)
    assert json.loads(result.stdout) == []
    assert "agent-not-isolated" not in result.stderr
    assert {path: mode for path, mode in job.modes().items() if "site-packages" not in path} == before
    assert job.file_command.read_text() == TOKEN


@pytest.mark.usefixtures("engine")
def test_isolation__every_attempt_succeeds_where_nothing_is_isolated(job: Job) -> None:
    assert json.loads(job.evil("--open").stdout) == [
        "descriptors of the parent",
        "environment of a process",
        "list the results",
        "memory of the parent",
        "own environment",
        "read the event",
        "read the git config",
        "replace the results",
        "use the container engine",
        "write a file command",
        "write a result",
    ]


@as_root
def test_isolation__runs_at_once_have_users_of_their_own(job: Job, tmp_path: Path) -> None:
    """All processes of a run's uid are killed at its end: also a run with another state directory must have another."""
    with job.isolated() as first, job.isolated() as two, job.isolated(state_dir=tmp_path / "other") as three:
        users = [each.sandbox.user for each in (first, two, three)]
        assert len({user.uid for user in users if user is not None}) == 3
        assert users[0] is not None
        (users[0].home / ".netrc").write_text("left by an agent")
    with job.isolated() as later:
        assert later.sandbox.user is not None
        assert not (later.sandbox.user.home / ".netrc").exists()


@as_root
def test_isolation__files_in_shared_directories_end_with_the_run(job: Job, tmp_path: Path) -> None:
    """The next agent has the same uid, and would own them."""
    ours = Path(tempfile.mkdtemp(dir="/var/tmp"))
    places = [Path(folder) / f"left-{ours.name}" for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    try:
        (ours / "kept").write_text("")
        with job.isolated() as isolation:
            user = isolation.sandbox.user
            assert user is not None
            leave = (
                "import os, sys\n"
                "for place in sys.argv[2:]:\n"
                "    os.makedirs(place + '/a'), os.symlink(sys.argv[1], place + '/a/link'), os.chmod(place, 0)\n"
            )
            argv = [python_for(user), "-c", leave, str(ours), *map(str, places)]
            program(*argv, user=user.uid, group=user.gid, extra_groups=[], cwd="/")
            assert all(place.is_dir() for place in places)
        assert not any(place.exists() for place in places)
        assert (ours / "kept").exists(), "links are not followed"
        for _ in range(20):  # Until we get the same uid: another gate on this machine may have it meanwhile.
            for place in places:  # A gate that was killed has left them.
                place.mkdir(exist_ok=True)
                os.chown(place, user.uid, user.gid)
            with job.isolated() as later:
                assert later.sandbox.user is not None
                if later.sandbox.user.uid == user.uid:
                    assert not any(place.exists() for place in places)
                    return
        pytest.fail("the uid was never free again")
    finally:
        for place in (ours, *places):
            shutil.rmtree(place, ignore_errors=True)


@as_root
def test_isolation__a_container_has_other_uids_than_its_host() -> None:
    """The host's `kill(-1)` reaches a container's processes, and the two don't see each other's locks."""
    code = "from agent_eval_agents.sandbox.uids import free_uids; print(*free_uids())"
    own = {int(uid) for uid in program(sys.executable, "-c", code).stdout.split()}
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = program(*unshare, code=None)
    if done.returncode:
        pytest.skip(f"no namespaces here: {done.stderr}")
    inner = {int(uid) for uid in done.stdout.split()}
    in_container = Path("/proc/self/ns/pid").stat().st_ino != 0xEFFFFFFC
    assert len(inner) > 1_000 and (inner == own if in_container else not inner & own)


@as_root
def test_isolation__credentials_are_lent_for_the_run(job: Job) -> None:
    original = job.root / "gha-creds-1.json"
    original.write_text('{"type": "external_account"}')
    original.chmod(0o644)
    with job.isolated(environ={"GOOGLE_APPLICATION_CREDENTIALS": str(original)}) as isolation:
        account = isolation.sandbox.user
        copy = Path(isolation.sandbox.environment["GOOGLE_APPLICATION_CREDENTIALS"])
        assert copy.read_text("utf-8") == original.read_text()
        assert blocked_at(copy, account) is None
        assert blocked_at(copy, NOBODY) == copy
        assert blocked_at(original, account) == original
    assert not copy.exists()
    assert stat.S_IMODE(original.stat().st_mode) == 0o644


@as_root
@pytest.mark.parametrize(("in_image", "severity"), [(True, Severity.ERROR), (False, Severity.WARNING)])
def test_isolation__a_checkout_that_no_other_user_can_read(
    job: Job, monkeypatch: pytest.MonkeyPatch, in_image: bool, severity: Severity
) -> None:
    job.root.chmod(0o700)
    if in_image:
        home = str(job.base / "home")
        entry = pwd.struct_passwd(("agent", "x", NOBODY.uid, NOBODY.gid, "", home, "/usr/sbin/nologin"))
        monkeypatch.setattr(pwd, "getpwnam", {"agent": entry}.__getitem__)
    with job.isolated() as isolation:
        [problem] = [problem for problem in isolation.problems if problem.code == "agent-not-isolated"]
        assert problem.severity is severity
        assert f"can't access {job.root}" in problem.message and "chmod" in (problem.hint or "")
        assert isolation.sandbox.user is None


@as_root
def test_isolation__a_machine_that_allows_no_other_user(job: Job) -> None:
    state_dir = job.base / "a file"
    state_dir.write_text("")
    with job.isolated(state_dir=state_dir) as isolation:
        assert "agent-not-isolated" in [problem.code for problem in isolation.problems]
        assert isolation.sandbox.user is None


_READ_ONLY = """
from pathlib import Path
from agent_eval_agents.sandbox.isolation import Isolation, isolated
root, output, state, home = map(Path, {paths!r})
with isolated({{"HOME": str(home)}}, root=root, output_dir=output, allow=(), state_dir=state) as isolation:
    print(isolation.sandbox.user is not None)
    for item in isolation.problems:
        print(item.severity.value, f"{{item.message}}: {{item.hint}}")
"""


@as_root
@pytest.mark.parametrize(
    ("read_only", "mode", "expected"),
    [
        ("home", 0o700, "True"),
        ("home", 0o755, "error The agent must not read {path}, and it can't be closed to it: Read-only file system"),
        ("state", 0o755, "Read-only file system: '{path}/"),
    ],
)
def test_isolation__a_read_only_disk(job: Job, read_only: str, mode: int, expected: str) -> None:
    """As in a container with `--read-only`: what is closed anyway needs no change."""
    path = job.base / read_only
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    code = _READ_ONLY.format(
        paths=[str(place) for place in (job.root, job.output_dir, job.state_dir, job.base / "home")]
    )
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 77; exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, str(path), sys.executable, "-c", code]
    done = program(*command, code=None)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    assert expected.format(path=path) in done.stdout, done.stdout + done.stderr
    assert ("Mount it writable" in done.stdout or "Mount a volume at" in done.stdout) is (mode != 0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root gets another user")
def test_isolation__without_root_only_the_environment_is_another_one(job: Job) -> None:
    before = job.modes()
    with job.isolated() as isolation:
        assert isolation.sandbox.user is None
        assert TOKEN not in isolation.sandbox.environment.values()
        assert job.modes() == before


def test_isolation__what_gets_sealed(job: Job) -> None:
    runner_temp, home = job.base / "runner_temp", job.base / "home"
    nested = job.root / "other" / ".git"
    for directory in (runner_temp, home, nested):
        directory.mkdir(parents=True)
    (job.root / "gha-creds-1.json").write_text("{}")
    environ = {**job.environ, "RUNNER_TEMP": str(runner_temp), "HOME": str(home), "GITHUB_ENV": "/nowhere/env"}
    seals = {seal.path: seal.remove for seal in seal_targets(environ, job.root, job.output_dir)}
    assert seals == {
        job.file_command.parent: 0o077,
        job.event.parent: 0o077,
        runner_temp: 0o077,
        home: 0o077,
        job.output_dir: 0o077,
        job.root / ".git": 0o077,
        nested: 0o077,
        job.root / "gha-creds-1.json": 0o077,
        job.root: 0o022,
    }


def test_isolation__what_the_agent_needs_is_not_sealed_and_the_repository_of_a_worktree_is(job: Job) -> None:
    shutil.rmtree(job.root / ".git")
    cache = job.base / "temp" / "cache"
    for directory in (cache, job.base / "main" / ".git" / "worktrees" / "w"):
        directory.mkdir(parents=True)
    (job.root / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")
    environ = {**job.environ, "HOME": str(job.base), "RUNNER_TEMP": str(job.base / "temp")}
    paths = {seal.path for seal in seal_targets(environ, job.root, job.output_dir, reachable=[cache])}
    assert not paths & {job.base, job.base / "temp"}
    assert job.base / "main" / ".git" in paths


@as_root
def test_isolation__seals_are_lifted_exactly_whatever_happens(job: Job) -> None:
    job.git_config.parent.chmod(0o2775)
    before = job.modes()
    seals = seal_targets(job.environ, job.root, job.output_dir)
    with pytest.raises(KeyboardInterrupt), contextlib.ExitStack() as stack:
        uid = claim(stack, list(free_uids())[60:])
        stack.enter_context(sealed(seals, uid, lambda: None))
        assert stat.S_IMODE(job.git_config.parent.stat().st_mode) == 0o2700
        assert stat.S_IMODE(job.root.stat().st_mode) == 0o755
        job.event.parent.rename(job.base / "moved")
        raise KeyboardInterrupt
    (job.base / "moved").rename(job.event.parent)
    assert job.modes() == before


@as_root
@pytest.mark.parametrize(("mode", "reported"), [(0o666, True), (0o660, False), (0o662, True)])
@pytest.mark.usefixtures("engine")
def test_isolation__an_open_engine_socket_is_reported(job: Job, mode: int, reported: bool) -> None:
    job.socket.chmod(mode)
    problems = open_sockets(NOBODY, [str(job.socket), str(job.base / "missing.sock")])
    assert [problem.code for problem in problems] == (["container-socket-open"] if reported else [])
    job.base.chmod(0o700)
    assert open_sockets(NOBODY, [str(job.socket)]) == []
