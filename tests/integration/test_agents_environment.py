import asyncio
import contextlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from adk_harness import headline
from agents_open_dir import as_root, open_directory, python_for
from gate_runs import program
from golden_files import check
from rerun_repos import wheel

from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_agents.sandbox.spawn import Account, Sandbox, agent_account
from agent_eval_agents.sandbox.uids import claim, end_processes, free_uids
from agent_eval_agents.venv import BegunEnvironment
from agent_eval_agents.venv._compiling import Compiling
from agent_eval_agents.venv._dependencies import Dependencies, SourceKind, find_dependencies, fingerprint, uses_in_place
from agent_eval_agents.venv._store import Place, prune, seal
from agent_eval_agents.venv.environment import (
    AgentInterpreter,
    EnvironmentRequest,
    discard_damaged,
    ensure_environment,
    run_setup,
)
from agent_eval_scoring.core.masking import Masker

pytestmark = pytest.mark.slow

PROJECT = '[project]\nname = "my-bot"\nversion = "1.2"\nrequires-python = ">=3.10"\ndependencies = ["demo-dep"]\n'

REACH = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy")
"""What the installer needs for the index, on some machines."""


def source_package(folder: Path, name: str, backend: str, *, depends: tuple[str, ...] = ()) -> None:
    """A package that its own code builds."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "1"\ndependencies = {list(depends)}\n'
    )
    (folder / "backend.py").write_text(backend)


@dataclass
class Bench:
    """A repository, an index of two wheels, a cache; and who the agent is."""

    base: Path
    account: Account | None = None
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root, self.cache, self.index = self.base / "repo", self.base / "cache", self.base / "index"
        self.bot = self.root / "bot"
        self.bot.mkdir(parents=True)
        self.index.mkdir()
        wheel(self.index, "google-adk", "9.9.9", {"google/adk/__init__.py": "VERSION = '9.9.9'\n"})
        wheel(self.index, "google-adk", "1.1.1", {"google/adk/__init__.py": "VERSION = '1.1.1'\n"})
        wheel(self.index, "demo-dep", "1.0", {"demo_dep.py": "VALUE = 1\n"})
        wheel(self.index, "demo-pin", "1.0", {"demo_pin.py": ""}, requires="google-adk<2")
        self.installer = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(self.index), "UV_OFFLINE": "1"}

    @property
    def sandbox(self) -> Sandbox:
        home = self.account.home if self.account else self.base
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
        if self.account is None:
            environment["PATH"] = f"{Path(sys.executable).resolve().parent}:{environment['PATH']}"
        return Sandbox(environment=environment, user=self.account)

    def request(self, **changes: object) -> EnvironmentRequest:
        facts = {"start": self.bot, "root": self.root, "installer": self.installer} | changes
        return EnvironmentRequest(**facts)  # type: ignore[arg-type]

    async def ensure(self, masker: Masker | None = None, **changes: object) -> AgentInterpreter:
        return await ensure_environment(
            self.request(**changes),
            sandbox=self.sandbox,
            masker=masker or Masker(),
            cache_dir=self.cache,
            log=self.said.append,
        )

    async def failure(self, masker: Masker | None = None, **changes: object) -> AgentFailure:
        with pytest.raises(AgentFailure) as caught:
            await self.ensure(masker, **changes)
        assert caught.value.kind is FailureKind.ENVIRONMENT
        return caught.value

    def python(self, interpreter: AgentInterpreter, code: str) -> str:
        environment = interpreter.activate(self.sandbox).environment
        uid = None if self.account is None else self.account.uid
        account: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": None if uid is None else []}
        return program(*interpreter.python, "-c", code, env=environment, cwd="/", code=None, **account).stdout.strip()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def other(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """With another user as the agent."""
    with open_directory() as base, contextlib.ExitStack() as stack:
        uid = claim(stack, list(free_uids())[50:])
        account = agent_account("agent-eval-test", state_dir=base / "state", uid=uid)
        assert account is not None
        python_for(account)
        yield Bench(base, account)
        end_processes(uid)


async def test_environment__plain_adk_when_nothing_names_dependencies_and_only_once(bench: Bench) -> None:
    interpreter, other = sorted(await asyncio.gather(bench.ensure(), bench.ensure()), key=lambda each: each.reused)
    assert (interpreter.reused, other.reused, other.python) == (False, True, interpreter.python)
    assert interpreter.origin == "plain google-adk (no declared dependencies)"
    assert interpreter.versions["google-adk"] == "9.9.9"
    made = [line.split(" (")[0] for line in bench.said if line.startswith("Making")]
    assert made == ["Making the agent's environment from plain google-adk"]
    bench.said.clear()
    again = await bench.ensure()
    assert (again.python, again.reused, bench.said) == (interpreter.python, True, [])
    compiled = bench.python(interpreter, "import google.adk, os; print(os.path.exists(google.adk.__cached__))")
    assert compiled == "True"


async def test_begun_environment__the_first_who_needs_it_gets_its_lines_and_its_end(bench: Bench) -> None:
    def begun() -> BegunEnvironment:
        return BegunEnvironment(bench.request(), sandbox=bench.sandbox, masker=Masker(), cache_dir=bench.cache)

    environment = begun()
    async with asyncio.timeout(60):
        while not list(bench.cache.glob("envs/*.json")):
            await asyncio.sleep(0.02)
    assert bench.said == []
    assert environment.take(bench.request(start=bench.root), bench.said.append) is None
    making = environment.take(bench.request(), bench.said.append)
    assert making is not None
    assert not (await making).reused
    assert [line.split()[0] for line in bench.said] == ["Making", "Made"]
    assert environment.take(bench.request(), bench.said.append) is None
    await environment.close()
    assert (await bench.ensure()).reused

    (bench.bot / "requirements.txt").write_text("no-such-package\n")
    environment = begun()
    making = environment.take(bench.request(), bench.said.append)
    assert making is not None
    with pytest.raises(AgentFailure, match="can't be made"):
        await making
    await environment.close()

    (bench.bot / "requirements.txt").write_text("demo-dep\n")
    environment = begun()
    await asyncio.sleep(0)
    await environment.close()
    assert not (await bench.ensure()).reused


async def test_seal__that_is_not_possible_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"absent can't be sealed: FileNotFoundError.*absent"):
        await seal(tmp_path / "absent")


async def test_environment__requirements_nearest_to_the_agent_and_adk_added_to_them(bench: Bench) -> None:
    (bench.root / "pyproject.toml").write_text(PROJECT)
    (bench.bot / "requirements.txt").write_text("-r more.txt\n")
    (bench.bot / "more.txt").write_text("demo-dep==1.0\n")
    interpreter = await bench.ensure()
    assert interpreter.origin == "bot/requirements.txt and google-adk"
    assert (
        bench.python(interpreter, "import demo_dep, google.adk; print(demo_dep.VALUE, google.adk.VERSION)") == "1 9.9.9"
    )
    assert interpreter.environment["VIRTUAL_ENV"] in interpreter.python[0]
    assert interpreter.environment["PATH"].startswith(str(Path(interpreter.python[0]).parent))


async def test_environment__a_project_is_importable_where_it_lies(bench: Bench) -> None:
    (bench.root / "pyproject.toml").write_text(PROJECT + '[project.entry-points."demo"]\nx = "my_bot:x"\n')
    (bench.root / "src" / "my_bot").mkdir(parents=True)
    (bench.root / "src" / "my_bot" / "__init__.py").write_text("VALUE = 1\n")
    interpreter = await bench.ensure()
    code = (
        "import my_bot, demo_dep, importlib.metadata as m;"
        "print(my_bot.VALUE, m.version('my-bot'), [e.value for e in m.entry_points(group='demo')])"
    )
    assert bench.python(interpreter, code) == "1 1.2 ['my_bot:x']"
    (bench.root / "src" / "my_bot" / "__init__.py").write_text("VALUE = 22\n")
    assert (await bench.ensure()).reused
    assert bench.python(interpreter, code).startswith("22")


def lock(bench: Bench, folder: Path | None = None) -> None:
    """Locks as a developer does."""
    import uv

    environment = {"PATH": os.environ["PATH"], "HOME": str(bench.base), **bench.installer}
    program(uv.find_uv_bin(), "lock", "--python", sys.executable, cwd=folder or bench.root, env=environment)


async def test_environment__a_locked_project(bench: Bench) -> None:
    (bench.root / "pyproject.toml").write_text(PROJECT.replace('"demo-dep"', '"demo-dep", "google-adk"'))
    lock(bench)
    before = sorted(os.listdir(bench.root))
    interpreter = await bench.ensure()
    assert interpreter.origin == "uv.lock"
    assert bench.python(interpreter, "import demo_dep, google.adk; print('both')") == "both"
    assert sorted(os.listdir(bench.root)) == before


SCRIPT = {
    "demo_dep.py": "def main(): import my_bot; print(my_bot.VALUE)\n",
    "demo_dep-1.0.data/scripts/say": "#!python\nimport demo_dep; demo_dep.main()\n",
}


@pytest.mark.parametrize("locked", [False, True])
async def test_environment__of_a_project_in_another_directory_is_not_installed_again(
    bench: Bench, locked: bool
) -> None:
    """As that of the base branch, whose checkout has another path in each run."""
    wheel(bench.index, "demo-dep", "1.0", SCRIPT)
    (bench.root / "src" / "my_bot").mkdir(parents=True)
    (bench.root / "src" / "my_bot" / "__init__.py").write_text("VALUE = 'head'\n")
    (bench.root / "pyproject.toml").write_text(PROJECT.replace('"demo-dep"', '"demo-dep", "google-adk"'))
    if locked:
        lock(bench)
    base = bench.base / "base"
    shutil.copytree(bench.root, base)
    (base / "src" / "my_bot" / "__init__.py").write_text("VALUE = 'base'\n")
    for root in (bench.root, base):
        (root / "bot").mkdir(exist_ok=True)

    head, other = await asyncio.gather(bench.ensure(), bench.ensure(root=base, start=base / "bot"))
    assert len([line for line in bench.said if line.startswith("Making")]) == 1, bench.said
    code = "import my_bot, demo_dep, importlib.metadata as m, subprocess as s;"
    code += "print(my_bot.VALUE, m.version('my-bot'), s.run(['say'], stdout=-1, text=True).stdout.strip())"
    assert (bench.python(head, code), bench.python(other, code)) == ("head 1.2 head", "base 1.2 base")
    assert head.python != other.python
    assert (head.origin, head.versions) == (other.origin, other.versions)
    assert not await discard_damaged(await bench.ensure(root=base, start=base / "bot"), bench.said.append)

    # Other dependencies are another environment, and one that nobody needs any more goes after a day.
    bench.said.clear()
    (base / "pyproject.toml").write_text(PROJECT)
    (base / "uv.lock").unlink(missing_ok=True)
    await bench.ensure(root=base, start=base / "bot")
    assert [line.split(" from ")[0] for line in bench.said if "(uv" in line] == ["Making the agent's environment"]
    shutil.rmtree(base)
    for marker in (bench.cache / "envs").glob("*.json"):
        os.utime(marker, (time.time() - 90_000,) * 2)
    prune(bench.cache / "envs")
    assert [marker.stem for marker in (bench.cache / "envs").glob("*.json")] == [Path(head.python[0]).parts[-4]]


EDITABLE: Mapping[str, tuple[str, str]] = {
    "requirements": ("requirements.txt", "google-adk\n-e ./lib\n"),
    "requirements, in a file": ("requirements.txt", "google-adk\n-r more.txt\n"),
    "project": (
        "pyproject.toml",
        PROJECT.replace("demo-dep", "lib") + "[tool.uv.sources]\nlib = { path = 'lib', editable = true }\n",
    ),
    "workspace": (
        "pyproject.toml",
        PROJECT.replace("demo-dep", "lib")
        + "[tool.uv.sources]\nlib = { workspace = true }\n[tool.uv.workspace]\nmembers = ['lib']\n",
    ),
}


@pytest.mark.parametrize("kind", EDITABLE)
@pytest.mark.parametrize("locked", [False, True])
def test_environment__editable_packages_are_those_of_their_checkout(bench: Bench, kind: str, locked: bool) -> None:
    file, text = EDITABLE[kind]
    (bench.root / file).write_text(text)
    (bench.root / "more.txt").write_text("--editable ./lib\n")
    (bench.root / "lib").mkdir()
    (bench.root / "lib" / "pyproject.toml").write_text(PROJECT.replace("my-bot", "lib").replace('"demo-dep"', ""))
    if locked and file == "pyproject.toml":
        lock(bench)
    assert uses_in_place(dependencies(bench), bench.root)
    (bench.root / "uv.lock").unlink(missing_ok=True)
    (bench.root / "requirements.txt").write_text("google-adk\n./lib  # -e ./lib\n")
    (bench.root / "pyproject.toml").write_text(PROJECT)
    if locked:
        lock(bench)
    assert not uses_in_place(dependencies(bench), bench.root)


async def test_environment__named_requirements_come_before_the_nearest(bench: Bench) -> None:
    (bench.bot / "requirements.txt").write_text("no-such-package\n")
    (bench.root / "ci.txt").write_text("google-adk\ndemo-dep\n")
    interpreter = await bench.ensure(requirements=Path("ci.txt"))
    assert interpreter.origin == "ci.txt"


SECRET = "password-of-the-index"
NOWHERE = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
NO_PYTHON = {"UV_PYTHON_INSTALL_MIRROR": "http://127.0.0.1:9/python", "UV_HTTP_RETRIES": "0"}
FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "a version that the index does not have": ("google-adk==99.0", {}),
    "half a requirement": ("google-adk==", {}),
    "contradictions": ("demo-dep\ndemo-dep<1", {}),
    "a failed installation, with a secret": (f"demo-dep==2.0  # {SECRET}", {"installer": {"UV_INDEX": SECRET}}),
    "an old google-adk": ("google-adk==0.5.0", {"requirements": Path("bot/requirements.txt")}),
    "a pin that only an old google-adk fits": ("google-adk\ndemo-pin", {}),
    "a lock without google-adk has the last word": ("", {"locked": True}),
    "a package that the index does not have": ("demo-dep\ndemo-depp[x]", {}),
    "no such file": ("", {"requirements": Path("missing.txt")}),
    "no such Python": ("demo-dep", {"version": "3.99"}),
    "no such Pythons": ("demo-dep", {"version": ">=3.99,<4"}),
    "a Python that can't be downloaded": ("demo-dep", {"version": "3.10.4", "installer": NO_PYTHON}),
    "an index that can't be reached": ("demo-dep", {"installer": NOWHERE}),
    "a git server that can't be reached": ("demo-dep @ git+https://127.0.0.1:9/demo.git", {"installer": {}}),
    "a git server that is not found": ("demo-dep @ git+https://nowhere.invalid/demo.git", {"installer": {}}),
    "a build that is killed, as the kernel does when memory runs out": ("../large", {}),
    "an interpreter that there is not": ("", {"python": "no-such-python"}),
    "an interpreter without google-adk": ("", {"python": sys.executable}),
    "a command that is no Python": ("", {"python": "echo"}),
    "no command": ("", {"python": ""}),
}
"""The agent's requirements.txt, and what the environment is made with; `installer` without the index of two wheels."""


async def test_environment__what_is_said_of_failures(tmp_path: Path) -> None:
    shown = {}
    for number, (name, (requirements, options)) in enumerate(FAILURES.items()):
        bench = Bench(tmp_path / str(number))
        (bench.bot / "requirements.txt").write_text(f"{requirements}\n")
        if version := (options := {**options}).pop("version", None):
            (bench.bot / ".python-version").write_text(version)
        if options.pop("locked", False):
            (bench.bot / "requirements.txt").unlink()
            (bench.root / "pyproject.toml").write_text(PROJECT)
            lock(bench)
        source_package(bench.root / "large", "large", "import os; os.kill(os.getpid(), 9)\n")
        if options.get("installer") == {"UV_INDEX": SECRET}:
            options["installer"] |= bench.installer
        failed = await bench.failure(Masker([SECRET]), **options)
        log = failed.log_tail or ""
        assert SECRET not in log + failed.message + str(failed.hint)
        assert "installation" not in name or "demo-dep" in log
        making = any(line.startswith("Making") for line in bench.said)
        text = "\n".join([*headline(failed), f"{making=}"]).replace(str(bench.base), "BASE")
        shown[name] = re.sub("(?<=envs/)[0-9a-f]{32}", "HASH", text.replace(sys.executable, "PYTHON"))
        (bench.bot / "requirements.txt").write_text("demo-dep\n")
        if number == 0:
            assert (await bench.ensure()).reused is False, "it is tried again"
    check("golden_environments.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


async def test_environment__a_cache_that_cannot_be_created_is_named_with_what_to_do(bench: Bench) -> None:
    bench.cache = Path("/proc/x")
    with pytest.raises(FileNotFoundError, match=r"can't be created there. Set another --cache-dir: '/proc/x'"):
        await bench.ensure()


async def test_environment__a_killed_setup_is_no_ones_fault(bench: Bench) -> None:
    with pytest.raises(AgentFailure, match="`agent-setup` was killed by SIGKILL") as caught:
        path = Sandbox(environment={"PATH": "/usr/bin:/bin"})
        await run_setup("kill -9 $$", sandbox=path, root=bench.root, masker=Masker(), log=print, timeout=30)
    assert caught.value.owner is Owner.PROVIDER


async def test_environment__an_installation_that_takes_too_long_is_reported_and_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval_agents.venv.environment._REPORT_SECONDS", 0.5)
    source_package(bench.root / "slow", "slow", "import time; time.sleep(60)\n")
    (bench.bot / "requirements.txt").write_text("../slow\n")
    begun = time.monotonic()
    failed, other = await asyncio.gather(bench.failure(timeout=2.0), bench.failure(timeout=2.0))
    assert time.monotonic() - begun < 20
    assert "took too long" in failed.message + other.message
    assert bench.said.count("The agent's environment from bot/requirements.txt: 1 s so far") == 1, "for both agents"


async def test_environment__a_given_interpreter(bench: Bench) -> None:
    interpreter = await bench.ensure()
    (bench.root / "link").symlink_to(Path(interpreter.environment["VIRTUAL_ENV"]))
    for command in (interpreter.python[0], "link/bin/python", f"env {interpreter.python[0]}"):
        named = await bench.ensure(python=command)
        assert named.versions["google-adk"] == "9.9.9"
        assert named.origin == f"agent-python {command}"
        assert named.environment["PATH"].split(":")[0].endswith("/bin")


async def test_environment__setup_runs_as_ourselves_with_the_agents_variables(bench: Bench) -> None:
    lines: list[str] = []

    async def setup(command: str, timeout: float = 20) -> None:
        await run_setup(
            command,
            sandbox=Sandbox(environment={"PATH": "/usr/bin:/bin", "KEY": "x"}),
            root=bench.root,
            masker=Masker(["s3cret-value", "s3cret-value-of-the-index-0123456789"]),
            log=lines.append,
            timeout=timeout,
        )

    await setup("pwd > pwd.txt; id -u >> pwd.txt; echo $KEY$GITHUB_TOKEN >> pwd.txt")
    assert (bench.root / "pwd.txt").read_text().split() == [str(bench.root.resolve()), str(os.geteuid()), "x"]
    with pytest.raises(AgentFailure) as caught:
        await setup("echo broken with s3cret-value; exit 3")
    assert "exit code 3" in caught.value.message
    assert caught.value.log_tail == "broken with ***\n"
    assert lines[-1] == "Running agent-setup: echo broken with ***; exit 3"
    for digits in ("1", "22", "333"):  # What is left of much output begins somewhere in a secret.
        with pytest.raises(AgentFailure) as caught:
            await setup(f"yes {digits}s3cret-value-of-the-index-0123456789 | head -n 5000 | tr -d '\\n'; exit 3")
        assert "89" not in (caught.value.log_tail or "")
    with pytest.raises(AgentFailure, match="took longer"):
        await setup("sleep 60", timeout=0.2)
    await setup("(sleep 0.7; echo served > served.txt) & echo started", timeout=10)  # a service outlives its start
    assert not (bench.root / "served.txt").exists()
    async with asyncio.timeout(10):
        while not (bench.root / "served.txt").exists():
            await asyncio.sleep(0.05)


@as_root
async def test_environment__made_by_the_agents_user_and_ours_afterwards(other: Bench) -> None:
    assert other.account is not None
    (other.bot / "requirements.txt").write_text("./../local\n")
    local = other.root / "local"
    # Building runs the pull request's code: here it tells who it is, and leaves a file that everybody may write to.
    backend = (
        "import os, zipfile\n"
        "def build_wheel(directory, settings=None, metadata=None):\n"
        "    name, info = 'local-1-py3-none-any.whl', 'local-1.dist-info'\n"
        "    with zipfile.ZipFile(os.path.join(directory, name), 'w') as z:\n"
        "        z.writestr('local_who.py', f'WHO = {os.getresuid()}\\nENV = {sorted(os.environ)}\\n')\n"
        "        z.writestr(f'{info}/METADATA', "
        "'Metadata-Version: 2.1\\nName: local\\nVersion: 1\\nRequires-Dist: google-adk\\n')\n"
        "        z.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        z.writestr(f'{info}/RECORD', '')\n"
        "    return name\n"
    )
    source_package(local, "local", backend, depends=("google-adk",))
    interpreter = await other.ensure()
    uid = other.account.uid
    assert other.python(interpreter, "import local_who; print(local_who.WHO)") == str((uid, uid, uid))
    writable = [
        path
        for path in (other.cache / "envs").rglob("*")
        if not path.is_symlink() and (path.stat().st_uid != 0 or path.stat().st_mode & 0o022)
    ]
    assert writable == []
    assert stat.S_IMODE((other.cache / "uv").stat().st_mode) == 0o700
    code = "import local_who\ntry: open(local_who.__file__, 'a')\nexcept PermissionError: print('refused')"
    assert other.python(interpreter, code) == "refused"
    assert (await other.ensure()).reused
    # The source of a local package counts: another content is another environment.
    (local / "extra.py").write_text("")
    assert (await other.ensure()).reused is False


async def compiled(place: Place, account: Account | None = None, *, seconds: float = 60) -> bool:
    """Whether all modules have been compiled within that time."""
    compiling = await Compiling.begin(place, account)
    assert compiling is not None
    assert await Compiling.begin(place, account) is None, "once"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not place.is_compiled():
                await asyncio.sleep(0.05)
    await compiling.close()
    return place.is_compiled()


async def test_environment__its_modules_are_compiled_while_its_agents_run_and_the_next_run_goes_on(
    bench: Bench,
) -> None:
    code = "import demo_dep, google.adk; print(all(map(os.path.exists, (demo_dep.__cached__, google.adk.__cached__))))"
    (bench.bot / "requirements.txt").write_text("demo-dep\n")
    interpreter = await bench.ensure()
    place = interpreter.place
    assert place is not None
    assert not list(place.venv.rglob("*.pyc")), "an installation waits for none"
    [module] = place.venv.glob("lib/python*/site-packages/demo_dep.py")
    for number in range(2_000):
        module.with_name(f"zz_{number}.py").write_text("VALUES = [" + "0, " * 2_000 + "]\n")
    assert not await compiled(place, seconds=0.3)
    for extra in list(module.parent.glob("zz_*.py")):
        extra.unlink()
    module.with_name("broken.py").write_text("def")
    os.mkfifo(module.with_name("pipe.py"))
    elsewhere = bench.base / "elsewhere"
    elsewhere.mkdir()
    linked = module.with_name("linked")
    linked.mkdir()
    (linked / "inside.py").write_text("")
    (linked / "__pycache__").symlink_to(elsewhere)
    # Shaped like an environment of its own: a build may leave links at any level.
    others = elsewhere / "site-packages" / "google" / "genai"
    others.mkdir(parents=True)
    for folder in (others.parent, others):
        (folder / "__init__.py").write_text("")
    (place.venv / "lib" / "python3.99").symlink_to(elsewhere)
    module.with_name("genai").symlink_to(others)
    assert await compiled(place)
    assert not list(elsewhere.rglob("*.pyc"))
    assert not list(elsewhere.rglob("__pycache__"))
    assert bench.python(interpreter, f"import os, sys; sys.dont_write_bytecode = True; {code}") == "True"
    again = await bench.ensure()
    assert again.reused
    assert await Compiling.begin(again.place, None) is None


@as_root
async def test_environment__its_modules_are_compiled_by_a_user_that_no_agent_is(other: Bench) -> None:
    interpreter = await other.ensure()
    place = interpreter.place
    assert place is not None
    assert other.account is not None
    who = other.base / "who"
    who.mkdir(mode=0o777)
    who.chmod(0o777)
    python = place.python.resolve()
    place.python.unlink()
    place.python.write_text(f'#!/bin/sh\nid -u > {who}/uid\nid -G > {who}/groups\nexec {python} "$@"\n')
    place.python.chmod(0o755)
    assert await compiled(place, other.account)
    uid = int((who / "uid").read_text())
    assert uid not in {0, other.account.uid}
    assert (who / "groups").read_text().split() == [str(uid)]
    written = list(place.venv.rglob("*.pyc"))
    assert written
    assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in written} == {(0, 0o644)}


@as_root
@pytest.mark.parametrize("kind", ["project", "lock"])
async def test_environment__nothing_is_written_into_a_checkout_that_the_user_cannot_write_to(
    other: Bench, kind: str
) -> None:
    (other.root / "pyproject.toml").write_text(PROJECT.replace('"demo-dep"', '"demo-dep", "google-adk"'))
    if kind == "lock":
        lock(other)
    interpreter = await other.ensure()
    assert (
        other.python(interpreter, "import demo_dep, google.adk, importlib.metadata as m; print(m.version('my-bot'))")
        == "1.2"
    )


@as_root
async def test_environment__what_the_user_cannot_access_is_explained(other: Bench) -> None:
    (other.bot / "requirements.txt").write_text("google-adk\n")
    other.bot.chmod(0o700)
    failed = await other.failure()
    assert f"because of {other.bot}" in failed.message
    other.bot.chmod(0o755)
    hidden = other.base / "hidden"
    (hidden / "bin").mkdir(parents=True)
    (hidden / "bin" / "python").symlink_to(sys.executable)
    hidden.chmod(0o700)
    failed = await other.failure(python=str(hidden / "bin" / "python"))
    assert "can't be started by the agent's user `agent-eval-test`" in failed.message


def dependencies(bench: Bench) -> Dependencies:
    return find_dependencies(bench.bot, bench.root)


def test_environment__all_that_decides_what_is_installed_counts(bench: Bench) -> None:
    (bench.bot / "pkg").mkdir()
    files = {
        "bot/requirements.txt": "demo-dep\n-r more.txt\n-c c.txt\n./pkg\n",
        **{"bot/more.txt": "x", "bot/c.txt": "x", "bot/pkg/mod.py": "x = 1", ".python-version": "3.12\n"},
        "uv.toml": "offline = true\n",
        "bot/pyproject.toml": "[tool.uv]\nindex-url = 'https://a.example'\n",
        "pyproject.toml": "[tool.uv]\nresolution = 'lowest'\n",
        "../uv.toml": "offline = false\n",
    }
    prints = [fingerprint(dependencies(bench), bench.root)]
    for settings in ("prerelease = 'allow'\n", "prerelease = 'disallow'\n"):
        (bench.root / "uv.toml").write_text(settings)
        prints.append(fingerprint(dependencies(bench), bench.root))
    for path, text in files.items():
        (bench.root / path).write_text(text)
        prints.append(fingerprint(dependencies(bench), bench.root))
    for requirement in ("pkg/", "pkg @ ./pkg", "pkg@pkg", "pkg [x] @ file:pkg ; python_version > '3'", "pyproject"):
        (bench.bot / "requirements.txt").write_text(f"demo-dep\n{requirement}\n")
        if requirement == "pyproject":
            (bench.bot / "requirements.txt").unlink()
            sources = "[tool.uv.sources]\npkg = [{ path = 'pkg' }]\n"
            (bench.bot / "pyproject.toml").write_text(PROJECT.replace("demo-dep", "pkg") + sources)
        for number in (1, 2):
            (bench.bot / "pkg" / "mod.py").write_text(f"x = {number}{requirement!r}")
            prints.append(fingerprint(dependencies(bench), bench.root))
    assert len(set(prints)) == len(prints)
    (bench.bot / "agent.py").write_text("the agent itself does not count")
    assert fingerprint(dependencies(bench), bench.root) == prints[-1]


async def test_environment__a_local_package_is_as_it_is_now(bench: Bench) -> None:
    """Not as uv has built it before, whose cache goes by the time of pyproject.toml; nor as setuptools has."""
    (bench.bot / "requirements.txt").write_text("google-adk\n./local\n")
    package = bench.bot / "local" / "pkg"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "local"\nversion = "1"\n[tool.setuptools]\npackages = ["pkg"]\n'
    )
    (package / "gone.py").touch()
    module = package / "__init__.py"
    module.write_text("VALUE = 'old'\n")
    time = module.stat().st_mtime
    index = {"UV_FIND_LINKS": str(bench.index), **{name: os.environ[name] for name in REACH if name in os.environ}}
    code = "import pkg, importlib.util as u; print(pkg.VALUE, u.find_spec('pkg.gone') is None)"

    assert bench.python(await bench.ensure(installer=index), code) == "old False"
    module.write_text("VALUE = 'new'\n")
    os.utime(module, (time, time))
    (package / "gone.py").unlink()

    assert bench.python(await bench.ensure(installer=index), code) == "new True"
    assert not list(package.parent.glob("build/agent-eval-*"))


def test_environment__which_file_names_the_dependencies(bench: Bench) -> None:
    assert dependencies(bench).kind is SourceKind.NONE
    (bench.root / "requirements.txt").write_text("")
    assert dependencies(bench).file == bench.root / "requirements.txt"
    (bench.root / "pyproject.toml").write_text("[tool.ruff]\n")
    assert dependencies(bench).kind is SourceKind.REQUIREMENTS
    (bench.root / "pyproject.toml").write_text(PROJECT)
    interpreter = dependencies(bench)
    assert (interpreter.kind, interpreter.python, interpreter.locked) == (SourceKind.PROJECT, ">=3.10", False)
    (bench.root / "uv.lock").write_text("")
    assert dependencies(bench).kind is SourceKind.LOCK
    (bench.root / ".python-version").write_text("# pinned\n3.12\n")
    assert dependencies(bench).python == "3.12"
    (bench.bot / "pyproject.toml").write_text(PROJECT)
    assert dependencies(bench).kind is SourceKind.PROJECT
    (bench.root / "pyproject.toml").write_text(PROJECT + '[tool.uv.workspace]\nmembers = ["bot"]\n')
    member = dependencies(bench)
    assert (member.kind, member.directory) == (SourceKind.LOCK, bench.bot)
    (bench.bot / "pyproject.toml").write_text("[project\n")
    with pytest.raises(AgentFailure, match="can't be read"):
        dependencies(bench)


@pytest.mark.parametrize("content", [b"\xff,,1\n", b"a.py\n", b'"' + b"a" * 200_000 + b"\n"])
def test_an_environment_whose_list_of_files_is_damaged__is_damaged(content: bytes, tmp_path: Path) -> None:
    place = Place(folder=tmp_path, key="k")
    record = place.venv / "lib/python3.12/site-packages/a.dist-info/RECORD"
    record.parent.mkdir(parents=True)
    record.write_bytes(content)
    assert place.damage() == f"{record} can't be read"


def test_an_environment_with_bytecode_of_a_wheel__is_not_damaged(tmp_path: Path) -> None:
    """numpy's wheels for Python 3.11 have numpy/distutils/__pycache__/conv_template.cpython-311.pyc; uv compiles it."""
    place = Place(folder=tmp_path, key="k")
    packages = place.venv / "lib/python3.11/site-packages"
    compiled = packages / "numpy/__pycache__/x.cpython-311.pyc"
    for path in (compiled, packages / "numpy.dist-info/RECORD", place.python):
        path.parent.mkdir(parents=True)
        path.write_text("four")
    (packages / "numpy.dist-info/RECORD").write_text("numpy/__pycache__/x.cpython-311.pyc,sha256=x,3\n")

    assert place.damage() is None


async def test_an_environment_that_lost_a_file__is_made_again_and_named(bench: Bench) -> None:
    interpreter = await bench.ensure()
    assert not await discard_damaged(interpreter, bench.said.append), "it was only just made"
    reused = await bench.ensure()
    assert not await discard_damaged(reused, bench.said.append)
    [module] = (bench.cache / "envs").glob("*/venv/lib/python*/site-packages/google/adk/__init__.py")
    module.unlink()
    bench.said.clear()
    assert await discard_damaged(reused, bench.said.append)
    assert "google/adk/__init__.py is missing" in bench.said[0]
    again = await bench.ensure()
    assert again.reused is False
    assert module.exists()
