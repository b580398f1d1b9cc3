import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_open_dir import as_root, open_directory, python_for
from gate_runs import is_gone, program, wait_until

from agent_eval_agents.sandbox.spawn import Account, Sandbox, agent_account, kill_group, max_processes
from agent_eval_agents.sandbox.uids import claim, end_processes, free_uids

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "ONLY": "this"}


async def output(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        text = (await process.stdout.read()).decode()
        await process.wait()
    await kill_group(process)
    return text


@pytest.fixture
def account() -> Iterator[Account]:
    with open_directory() as state, contextlib.ExitStack() as stack:
        account = agent_account("agent-eval-test", state_dir=state, uid=claim(stack, list(free_uids())[40:]))
        assert account is not None
        yield account
        end_processes(account.uid)


async def test_spawn__a_process_starts_with_just_what_it_is_given(tmp_path: Path) -> None:
    code = (
        "import json, os, sys; print('out', flush=True); print('err', file=sys.stderr, flush=True);"
        "print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(),"
        "sys.stdin.read()]))"
    )
    sandbox = Sandbox(environment=ENVIRONMENT)
    process = await sandbox.start([sys.executable, "-c", code], cwd=tmp_path, environment={"MORE": "1"})
    lines = (await output(process)).splitlines()
    assert lines[:2] == ["out", "err"]
    environment, cwd, leads_session, leads_group, stdin = json.loads(lines[2])
    environment.pop("LC_CTYPE", None)  # Python's own
    assert environment == {**ENVIRONMENT, "MORE": "1"}
    assert (cwd, leads_session, leads_group, stdin) == (str(tmp_path.resolve()), True, True, "")
    assert process.returncode == 0


async def test_spawn__file_descriptors_are_passed_under_their_numbers_and_no_others(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    secret = os.open(__file__, os.O_RDONLY)
    os.set_inheritable(secret, True)
    code = f"import os; os.write({writing}, b'hello'); print(sorted(map(int, os.listdir('/proc/self/fd')))[:5])"
    try:
        process = await Sandbox(environment=ENVIRONMENT).start(
            [sys.executable, "-c", code], cwd=tmp_path, pass_fds=[writing]
        )
        listed = await output(process)
        os.close(writing)
        assert os.read(reading, 100) == b"hello"
        assert str(secret) not in listed.strip("[]\n").split(", ")
    finally:
        os.close(reading)
        os.close(secret)


@pytest.mark.skipif(sys.platform != "linux", reason="no_new_privs is Linux's")
async def test_spawn__setuid_programs_gain_nothing_unless_asked_for(tmp_path: Path) -> None:
    argv = ["sh", "-c", "grep NoNewPrivs /proc/self/status"]
    sandbox = Sandbox(environment=ENVIRONMENT)
    assert (await output(await sandbox.start(argv, cwd=tmp_path))).split() == ["NoNewPrivs:", "1"]
    setup = await sandbox.start(argv, cwd=tmp_path, privileged=True)
    assert (await output(setup)).split() == ["NoNewPrivs:", "0"]


async def test_spawn__a_program_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await Sandbox(environment=ENVIRONMENT).start(["no-such-program"], cwd=tmp_path)


@pytest.mark.parametrize(("then", "code"), [("; trap '' TERM; sleep 60", -signal.SIGKILL), ("", 0)])
async def test_spawn__kill_group_takes_the_whole_group_also_of_a_process_that_ended(
    tmp_path: Path, then: str, code: int
) -> None:
    process = await Sandbox(environment=ENVIRONMENT).start(["sh", "-c", f"sleep 60 & echo $!{then}"], cwd=tmp_path)
    assert process.stdout is not None
    child = int(await asyncio.wait_for(process.stdout.readline(), 10))
    async with asyncio.timeout(10):
        while process.returncode is None and not code:
            await asyncio.sleep(0.01)
    await kill_group(process)
    assert process.returncode == code
    wait_until(lambda: is_gone(child), seconds=5)
    await kill_group(process)


async def test_spawn__kill_group_does_not_wait_for_who_left_the_group(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0: os.setsid(); print(os.getpid(), flush=True); time.sleep(60)\n"
        "time.sleep(60)"
    )
    process = await Sandbox(environment=ENVIRONMENT).start([sys.executable, "-c", code], cwd=tmp_path)
    assert process.stdout is not None
    escaped = int(await asyncio.wait_for(process.stdout.readline(), 10))
    begun = time.monotonic()
    await kill_group(process)
    assert time.monotonic() - begun < 30
    assert process.returncode == -signal.SIGKILL
    os.kill(escaped, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() == 0, reason="root gets another user")
def test_spawn__without_root_there_is_no_other_user() -> None:
    assert agent_account() is None


@as_root
async def test_spawn__the_other_user_has_no_groups_a_private_home_and_a_limit_of_processes(
    tmp_path: Path, account: Account
) -> None:
    assert stat.S_IMODE(account.home.stat().st_mode) == 0o700
    assert account.home.stat().st_uid == account.uid
    code = (
        "import json, os, tempfile; os.umask(u := os.umask(0)); open(os.environ['HOME'] + '/mine', 'w').close();"
        "import resource; limit = resource.getrlimit(resource.RLIMIT_NPROC);"
        "print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), u, tempfile.gettempdir(), limit]))"
    )
    home = {"HOME": str(account.home), "TMPDIR": str(account.home / "tmp")}
    sandbox = Sandbox(environment={**ENVIRONMENT, **home}, user=account)
    process = await sandbox.start([python_for(account), "-c", code], cwd=tmp_path)
    uids, gids, groups, umask, temporary, limit = json.loads(await output(process))
    assert (set(uids), set(gids), groups, umask) == ({account.uid}, {account.gid}, [], 0o022)
    assert temporary == str(account.home / "tmp")
    assert limit == [max_processes(), max_processes()]


def test_spawn__a_limit_of_ours_is_the_highest_there_can_be() -> None:
    code = "from agent_eval_agents.sandbox.spawn import max_processes; print(max_processes())"
    limited = ["prlimit", "--nproc=500", "--", sys.executable, "-c", code]
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here")
    assert int(program(*limited).stdout) <= 500


@as_root
@pytest.mark.parametrize("trap", ["symlink", "foreign"])
def test_spawn__a_home_that_was_prepared_is_refused(tmp_path: Path, trap: str) -> None:
    uid = next(free_uids())
    home = tmp_path / f"home-{uid}"
    if trap == "symlink":
        home.symlink_to("/etc")
    else:
        home.mkdir()
    with pytest.raises(PermissionError, match="does not belong"):
        agent_account("agent-eval-test", state_dir=tmp_path)
    assert Path("/etc").stat().st_uid == 0


@as_root
def test_spawn__the_account_of_a_read_only_image_has_its_home_in_the_volume(tmp_path: Path) -> None:
    """As in our image with `--read-only` and a volume: the account has a home, and nothing can be written there."""
    uid = next(free_uids())
    home, state, passwd = (tmp_path / name for name in ("home", "state", "passwd"))
    home.mkdir(mode=0o700)
    state.mkdir()
    os.chown(home, uid, uid)
    entry = f"agent-eval-test:x:{uid}:{uid}::{home}:/usr/sbin/nologin\n"
    passwd.write_text(Path("/etc/passwd").read_text("utf-8") + entry, "utf-8")
    code = (
        "import sys; from pathlib import Path; from agent_eval_agents.sandbox.spawn import agent_account;"
        "print(agent_account('agent-eval-test', state_dir=Path(sys.argv[1])).home)"
    )
    mount = (
        'mount --bind "$0" /etc/passwd && mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77;'
        'shift; exec "$@"'
    )
    command = ["unshare", "--mount", "sh", "-c", mount, str(passwd), str(home), sys.executable, "-c", code, str(state)]
    done = program(*command, code=None)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    assert done.stdout.strip() == str(state / f"home-{uid}"), done.stderr
    assert (state / f"home-{uid}" / "tmp").stat().st_uid == uid
