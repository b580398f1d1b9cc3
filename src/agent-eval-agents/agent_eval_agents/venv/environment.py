"""The agent's interpreter: an existing one, or an environment that uv builds from the agent's dependencies.

Environments are cached by a hash of everything they depend on, so a second run takes no time. The agent's user builds
the environment, because building a package runs its code. Afterwards the environment belongs to our user, so that the
agent can't change it for later runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import itertools
import json
import os
import platform
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_eval_agents.protocol import EnvironmentFailure, Owner
from agent_eval_agents.sandbox import STATE_DIR, Account, Sandbox, blocked_at
from agent_eval_agents.venv._activation import activation
from agent_eval_agents.venv._dependencies import (
    Dependencies,
    SourceKind,
    check_adk,
    copied_sources,
    dependencies_of,
    fingerprint,
    requested,
    uses_in_place,
)
from agent_eval_agents.venv._installer import KILLED_HINT, Installer, Interpreter, find_uv, probe, run
from agent_eval_agents.venv._store import EnvironmentInfo, Place, installer_cache, locked, prune, seal
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import docs_page

_RECIPE = 4
"""Incremented whenever the same dependencies would produce a different environment."""
_FRESH_SECONDS = 7 * 24 * 3600
"""An environment with unlocked versions is rebuilt after a week, to get newer versions."""
_REPORT_SECONDS = 15.0
"""Between two lines about an environment that is being made."""
ADK = "google-adk"
_PROJECTS = {SourceKind.LOCK, SourceKind.PROJECT}

_OVERLAY = """\
import json, os, sys
given = json.loads(sys.argv[1])
with open(os.path.join(given["site"], "_agent_eval_project.pth"), "w", encoding="utf-8") as f:
    f.write("".join(p + "\\n" for p in given["paths"]))
if given["name"]:
    name = given["name"].replace("-", "_").replace(".", "_")
    info = os.path.join(given["site"], name + "-" + given["version"] + ".dist-info")
    os.makedirs(info, exist_ok=True)
    for file, text in (
        ("METADATA", "Metadata-Version: 2.1\\nName: " + given["name"] + "\\nVersion: " + given["version"] + "\\n"),
        ("entry_points.txt", given["entry_points"]), ("INSTALLER", "agent-eval\\n"), ("RECORD", ""),
    ):
        with open(os.path.join(info, file), "w", encoding="utf-8") as f:
            f.write(text)
"""


_COPY = """\
import os, shutil, sys
old, new = sys.argv[1:]
def place(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
def of_the_project(folder, names):
    return [name for name in names if name == "_agent_eval_project.pth" or installer(folder, name) == "agent-eval"]
def installer(folder, name):
    try:
        with open(os.path.join(folder, name, "INSTALLER"), encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return None
shutil.copytree(old, new, symlinks=True, ignore=of_the_project, copy_function=place)
for entry in list(os.scandir(os.path.join(new, "bin"))):
    if entry.is_file(follow_symlinks=False):
        with open(entry.path, "rb") as f:
            content = f.read()
        if old.encode() in content:
            mode = entry.stat().st_mode
            os.unlink(entry.path)
            with open(entry.path, "wb") as f:
                f.write(content.replace(old.encode(), new.encode()))
            os.chmod(entry.path, mode)
"""


@dataclass(frozen=True, kw_only=True)
class EnvironmentRequest:
    """The settings that decide an agent's interpreter."""

    start: Path
    """The agent's directory, where the search for its dependencies begins; the root for a dotted module."""
    root: Path
    """The repository's root, where the search ends."""
    python: str | None = None
    """`--agent-python`: a path, a name in PATH, or a command such as `poetry run python`. Nothing is installed then."""
    requirements: Path | None = None
    """`--agent-requirements`; relative to the root."""
    installer: Mapping[str, str] = field(default_factory=dict)
    """Variables for the installer only (`forwarding.installer_environment`)."""
    timeout: float = 900.0
    """Seconds for building the environment."""


@dataclass(frozen=True, kw_only=True)
class AgentInterpreter:
    """An interpreter that has ADK."""

    python: tuple[str, ...]
    """The command that starts it."""
    origin: str
    """Its source for messages: "uv.lock", "--agent-python" ..."""
    seconds: float
    """Seconds to find or build it."""
    reused: bool
    """Whether it existed before."""
    versions: Mapping[str, str]
    """Versions of Python and of the packages that explain a score, by name."""
    environment: Mapping[str, str]
    """Variables that activate it: PATH with its programs first, VIRTUAL_ENV."""
    place: Place | None = None
    """Its place in the cache; None for an existing interpreter."""

    def activate(self, sandbox: Sandbox) -> Sandbox:
        """The sandbox with this environment active, so that the agent finds the programs of its packages."""
        return replace(sandbox, environment={**sandbox.environment, **self.environment})


def default_cache_dir(environ: Mapping[str, str], account: Account | None) -> Path:
    """The default cache directory: in the user's cache, or where another account can access it.

    For a user without a home directory (an arbitrary uid in Kubernetes or OpenShift) it is a temporary directory.

    Raises:
        PermissionError: The temporary directory belongs to another user.
    """
    if account is not None:
        return STATE_DIR / "cache"
    caches = _user_caches(environ)
    return _temporary_cache() if caches is None else caches / "agent-eval"


def _user_caches(environ: Mapping[str, str]) -> Path | None:
    """The user's cache directory; None if there is none or it is not writable."""
    base = environ.get("XDG_CACHE_HOME")
    try:
        caches = Path(base) if base else Path(environ.get("HOME") or Path.home()) / ".cache"
        existing = next(path for path in (caches, *caches.parents) if path.exists())
    except (RuntimeError, PermissionError):  # neither HOME nor a passwd entry, or another user's directory
        return None
    return caches if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK) else None


def _temporary_cache() -> Path:
    path = Path(tempfile.gettempdir()) / f"agent-eval-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(errno.EACCES, "is not private to this user; remove it, or set --cache-dir", str(path))
    return path


async def ensure_environment(
    request: EnvironmentRequest, *, sandbox: Sandbox, masker: Masker, cache_dir: Path, log: Callable[[str], None]
) -> AgentInterpreter:
    """Gets the agent's interpreter. Builds an environment if there is none in the cache.

    Safe to call from several processes at once: one builds, the others wait.

    Args:
        request: The request.
        sandbox: The agent's sandbox; the installer runs in it too.
        masker: Masks secrets, including those of package indexes.
        cache_dir: The cache directory. The sandbox's user must be able to enter it.
        log: Receives a line for each slow step.

    Raises:
        AgentFailure: Of kind ENVIRONMENT. Its owner is the provider if a package index could not be reached.
    """
    begun = time.perf_counter()
    if request.python is not None:
        return await named_interpreter(request, sandbox, masker)
    dependencies = dependencies_of(request.start, request.root, request.requirements)
    check_adk(dependencies, request.root)
    _check_reach(dependencies, sandbox.user, cache_dir)
    program, version = find_uv(sandbox, cache_dir / "tools")
    place = _place(cache_dir / "envs", request, dependencies, version)
    place.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    if (info := place.read()) is not None:
        return _interpreter(place, info, sandbox, begun, reused=True)
    origin = _origin(dependencies, request.root)
    async with _reported(f"The agent's environment from {origin}", log), locked(place.lock, timeout=request.timeout):
        # Another process may have built it while we waited.
        if (info := place.read()) is not None:
            return _interpreter(place, info, sandbox, begun, reused=True)
        twin = await asyncio.to_thread(place.twin)
        making = f"Making the agent's environment from {origin} (uv {version})"
        log(making if twin is None else f"The agent's environment from {origin} is there, for another directory")
        with installer_cache(cache_dir / "uv", sandbox.user) as uv_cache:
            installer = Installer(
                program=program,
                version=version,
                sandbox=replace(sandbox, environment=_without(sandbox.environment, "PYTHONPATH")),
                masker=masker,
                environment={**request.installer, **_uv_settings(place, uv_cache, sandbox)},
                deadline=asyncio.get_running_loop().time() + request.timeout,
            )
            info = await _build(place, dependencies, installer, request.root, twin)
        place.finish(info)
        prune(place.folder)
    result = _interpreter(place, info, sandbox, begun, reused=False)
    log(f"Made it in {result.seconds:.1f} s: " + ", ".join(f"{name} {value}" for name, value in info.versions.items()))
    return result


@contextlib.asynccontextmanager
async def _reported(what: str, log: Callable[[str], None]) -> AsyncIterator[None]:
    """Logs at intervals how long a step has taken; for all agents that wait for the same one, the first one's step."""

    async def report() -> None:
        for number in itertools.count(1):
            await asyncio.sleep(_REPORT_SECONDS)
            log(f"{what}: {number * _REPORT_SECONDS:g} s so far")

    is_reported = any(task.get_name() == what for task in asyncio.all_tasks())
    reporting = None if is_reported else asyncio.create_task(report(), name=what)
    try:
        yield
    finally:
        if reporting is not None:
            reporting.cancel()


async def discard_damaged(interpreter: AgentInterpreter, log: Callable[[str], None]) -> bool:
    """Discards a cached environment whose files are damaged, so that it is built again.

    Returns:
        Whether it was damaged.
    """
    if interpreter.place is None or not interpreter.reused:
        return False
    damage = await asyncio.to_thread(interpreter.place.damage)
    if damage is None:
        return False
    log(f"The agent's environment in {interpreter.place.directory} is damaged: {damage}. It is built again.")
    interpreter.place.marker.unlink(missing_ok=True)
    return True


async def run_setup(
    command: str, *, sandbox: Sandbox, root: Path, masker: Masker, log: Callable[[str], None], timeout: float = 900.0
) -> None:
    """Runs `--agent-setup`, which prepares the machine: system packages, a browser, a background service.

    It runs as our own user with the agent's environment, because only root can install packages. The command comes from
    the workflow of the base branch; the files of the checkout that it uses do not (docs/security.md).

    Raises:
        AgentFailure: The command failed.
    """
    log(f"Running agent-setup: {masker.text(command)}")
    # apt would wait for an answer that nobody gives. HOME is the agent's otherwise, whose files root must not make.
    environment = {"DEBIAN_FRONTEND": "noninteractive"} | ({"HOME": "/root"} if sandbox.user is not None else {})
    argv = ["sh", "-c", command]
    try:
        result = await run(
            sandbox, argv, cwd=root, masker=masker, timeout=timeout, environment=environment, privileged=True
        )
    except TimeoutError as error:
        message = f"`agent-setup` took longer than {timeout:g} s and was stopped"
        raise EnvironmentFailure(message) from error
    if result.code != 0:
        raise EnvironmentFailure(
            f"`agent-setup` {result.end}",
            owner=Owner.PROVIDER if result.was_killed else Owner.AGENT,
            log_tail=result.output[-4_000:],
            hint=KILLED_HINT
            if result.was_killed
            else "Correct the command. It runs in a shell at the repository's root, with the agent's variables only.",
        )


def _place(folder: Path, request: EnvironmentRequest, dependencies: Dependencies, uv_version: str) -> Place:
    """The place of an environment. Those of one project in several directories differ in its paths alone."""
    directory = str(dependencies.directory)
    facts = {
        "recipe": _RECIPE,
        "uv": uv_version,
        # A cache may be shared by runners, or restored on another image: wheels are built for a libc.
        "machine": [platform.system(), platform.machine(), *platform.libc_ver()],
        "dependencies": fingerprint(dependencies, request.root),
        # Editable packages are paths of this checkout, which another one must not import.
        "in place": directory if uses_in_place(dependencies, request.root) else None,
        "index": sorted(request.installer.items()),
        "week": None if dependencies.locked else int(time.time() // _FRESH_SECONDS),
    }
    shared = _digest(facts)
    if dependencies.kind not in _PROJECTS:
        return Place(folder=folder, key=shared, shared=shared)
    project = [directory, dependencies.project_name, dependencies.project_version, dependencies.entry_points]
    return Place(folder=folder, key=_digest([shared, *project]), shared=shared, project=directory)


def _digest(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _origin(dependencies: Dependencies, root: Path) -> str:
    if dependencies.file is None:
        return f"plain {ADK} (no declared dependencies)"
    file = dependencies.file.with_name("uv.lock") if dependencies.locked else dependencies.file
    return os.path.relpath(file, root.resolve())


def _check_reach(dependencies: Dependencies, account: Account | None, cache_dir: Path) -> None:
    """Reports unreadable paths, which would otherwise be a "permission denied" of uv."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    except FileNotFoundError as error:  # e.g. in /proc
        message = "The cache directory can't be created there. Set another --cache-dir"
        raise FileNotFoundError(error.errno, message, str(cache_dir)) from error
    if account is None:
        return
    needed = [(cache_dir, os.X_OK, "Choose another cache directory.")]
    if dependencies.file is not None:
        needed.append((dependencies.file, os.R_OK, "Move the repository, or allow others to read it."))
    for path, need, hint in needed:
        if (part := blocked_at(path, account, need=need)) is not None:
            raise EnvironmentFailure(
                f"The agent runs as `{account.name}` (uid {account.uid}), which can't access {path} because of {part}",
                hint=hint,
            )


def _uv_settings(place: Place, cache: Path | None, sandbox: Sandbox) -> dict[str, str]:
    settings = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1", "UV_PROJECT_ENVIRONMENT": str(place.venv)}
    settings["DIST_EXTRA_CONFIG"] = str(place.build_settings)
    if cache is not None:
        settings["UV_CACHE_DIR"] = str(cache)
    elif _user_caches(sandbox.environment) is None:  # uv's default locations
        settings |= {
            "UV_CACHE_DIR": str(place.folder / "uv-cache"),
            "UV_PYTHON_INSTALL_DIR": str(place.folder / "python"),
        }
    if sandbox.user is not None:
        # take_over.py changes the owner of the environment: it must contain its files and its interpreter.
        settings |= {"UV_LINK_MODE": "copy", "UV_PYTHON_INSTALL_DIR": str(place.directory / "python")}
    return settings


async def _build(
    place: Place, dependencies: Dependencies, installer: Installer, root: Path, twin: Place | None
) -> EnvironmentInfo:
    """Makes the environment, of its twin if there is one."""
    account = installer.sandbox.user
    place.empty(account)
    added, interpreter = False, None
    if twin is not None:
        argv = [str(twin.python), "-I", "-c", _COPY, str(twin.venv), str(place.venv)]
        copied = await run(installer.sandbox, argv, cwd=Path("/"), masker=installer.masker, timeout=300)
        if copied.code != 0:
            raise EnvironmentFailure(f"{twin.venv} can't be copied", log_tail=copied.output[-4_000:])
    else:
        added, interpreter = await _install(place, dependencies, installer, root)
    if interpreter is None:
        interpreter = await probe([str(place.python)], installer.sandbox, masker=installer.masker)
    _check_interpreter(interpreter, place.python, f"Add {ADK} to the dependencies of the project, and lock it again.")
    if dependencies.directory is not None and dependencies.kind in _PROJECTS:
        await _make_importable(dependencies, interpreter, place, installer)
    if account is not None:
        await seal(place.directory)
    before = None if twin is None else twin.read()
    origin = _origin(dependencies, root) + (f" and {ADK}" if added else "")
    return EnvironmentInfo(origin=origin if before is None else before.origin, versions=interpreter.versions)


async def _install(
    place: Place, dependencies: Dependencies, installer: Installer, root: Path
) -> tuple[bool, Interpreter | None]:
    """Installs the dependencies.

    Returns:
        Whether ADK was added, since the agent does not declare it; never to a locked project. And the interpreter, as
        it is now; None if ADK was added.
    """
    account = installer.sandbox.user
    cwd = dependencies.directory or root  # uv reads [tool.uv] and uv.toml from there upwards
    pip = ["pip", "install", "--python", str(place.python)]
    # uv builds a local package again only if its pyproject.toml or setup.py has another time.
    local = list(copied_sources(dependencies, root))
    fresh = ["--reinstall"] if local else []  # not --refresh, which UV_OFFLINE forbids
    if dependencies.kind is SourceKind.LOCK:
        # The project itself is used in place: an installed copy would be outdated after the next commit.
        locked = ["--frozen", "--no-dev", "--no-install-project"]
        await installer.uv(["sync", *fresh, *locked], cwd=cwd)
    else:
        await installer.uv(["venv", "--no-project", "--python", dependencies.python, str(place.venv)], cwd=cwd)
        await installer.uv([*pip, *fresh, *requested(dependencies, root)], cwd=cwd, place_of=dependencies.places(root))
    if account is None:  # Another user can't build in the checkout.
        for source in local:
            shutil.rmtree(source / place.build, ignore_errors=True)
    interpreter = await probe([str(place.python)], installer.sandbox, masker=installer.masker)
    added = not interpreter.has_adk and dependencies.kind is not SourceKind.LOCK
    if added:
        await installer.uv([*pip, ADK], cwd=cwd)
    return added, None if added else interpreter


async def _make_importable(
    dependencies: Dependencies, interpreter: Interpreter, place: Place, installer: Installer
) -> None:
    """Makes the project importable like an editable install, without writing to the checkout.

    Runs inside the environment, which still belongs to the agent's user.
    """
    assert dependencies.directory is not None
    source = dependencies.directory / "src"
    overlay = {
        "site": interpreter.site_packages,
        "paths": [str(path) for path in (source, dependencies.directory) if path.is_dir()],
        "name": dependencies.project_name,
        "version": dependencies.project_version,
        "entry_points": dependencies.entry_points,
    }
    argv = [str(place.python), "-I", "-c", _OVERLAY, json.dumps(overlay)]
    result = await run(installer.sandbox, argv, cwd=Path("/"), masker=installer.masker, timeout=60)
    if result.code != 0:
        raise EnvironmentFailure(
            f"The project {dependencies.directory} can't be made importable", log_tail=result.output[-4_000:]
        )


def _interpreter(
    place: Place, info: EnvironmentInfo, sandbox: Sandbox, begun: float, *, reused: bool
) -> AgentInterpreter:
    return AgentInterpreter(
        python=(str(place.python),),
        origin=info.origin,
        seconds=time.perf_counter() - begun,
        reused=reused,
        versions=info.versions,
        environment=activation(place.python, sandbox),
        place=place,
    )


async def named_interpreter(request: EnvironmentRequest, sandbox: Sandbox, masker: Masker) -> AgentInterpreter:
    """The interpreter that `--agent-python` names.

    Raises:
        AgentFailure: It can't be started by the sandbox's user, is too old, or has no google-adk.
    """
    begun = time.perf_counter()
    python = _command(request, sandbox)
    interpreter = await probe(python, sandbox, masker=masker)
    _check_interpreter(interpreter, Path(python[0]), f"Install it there: `{shlex.join(python)} -m pip install {ADK}`.")
    return AgentInterpreter(
        python=tuple(python),
        origin=f"agent-python {request.python}",
        seconds=time.perf_counter() - begun,
        reused=True,
        versions=interpreter.versions,
        environment=activation(Path(interpreter.executable), sandbox),
    )


def _command(request: EnvironmentRequest, sandbox: Sandbox) -> list[str]:
    """The command of the interpreter that `--agent-python` names.

    Raises:
        AgentFailure: The setting is not a command, or the sandbox's user can't access it.
    """
    assert request.python is not None
    path = request.root / request.python
    is_file = os.path.isfile(path)  # noqa: PTH113 - Path's raises where a directory can't be entered
    try:
        python = [str(path)] if is_file else shlex.split(request.python)
    except ValueError as error:
        raise EnvironmentFailure(f"{request.python!r} is not a command: {error}") from error
    if not python:
        raise EnvironmentFailure("`agent-python` is empty")
    if (is_file or os.sep in request.python) and (part := _blocking_part(path, sandbox.user)) is not None:
        raise EnvironmentFailure(
            f"The interpreter {path} can't be started by {sandbox.who} because of the permissions of {part}",
            hint=_other_interpreter(path, part, sandbox),
        )
    return python


def _blocking_part(path: Path, account: Account | None) -> Path | None:
    """The part of a program's path, or of its link's target, that the account can't access."""
    part = blocked_at(path.parent, account, need=os.X_OK) or blocked_at(path, account, need=os.X_OK)
    return part if part is not None and os.path.lexists(part) else None


def _other_interpreter(path: Path, part: Path, sandbox: Sandbox) -> str:
    if part == path.resolve():
        return f"Make it executable (`chmod a+rx {part}`), or use another interpreter."
    if sandbox.user is None:
        return "Use an interpreter that you may execute."
    return (
        f"As root, agent-eval starts the agent as another user, who can't enter HOME "
        f"({docs_page('security')}). Put the "
        "interpreter elsewhere, e.g. `uv venv /opt/agent` with UV_PYTHON_INSTALL_DIR=/opt/python; or remove "
        "`agent-python`, so that agent-eval builds an environment; or run as a user other than root."
    )


def _check_interpreter(interpreter: Interpreter, python: Path, hint: str) -> None:
    if not interpreter.new_enough:
        raise EnvironmentFailure(
            f"The agent's interpreter {python} is Python {interpreter.versions['python']}; 3.10 or newer is needed",
            hint="Raise `requires-python` or .python-version, or set another interpreter with `agent-python`.",
        )
    if not interpreter.has_adk:
        raise EnvironmentFailure(f"{ADK} is not installed for {python}", hint=hint)


def _without(environment: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key != name}
