"""Runs uv and its interpreters as the agent's user, and explains why an installation failed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from agent_eval_agents.protocol import EnvironmentFailure, Owner
from agent_eval_agents.sandbox import Sandbox, blocked_at, close_pipe, kill_group
from agent_eval_agents.venv._dependencies import MINIMUM_ADK
from agent_eval_scoring.core.masking import Masker

_TAIL_BYTES = 16_000
_SHOWN_CHARS = 4_000
_PROBE = """\
import hashlib, importlib.metadata as m, importlib.util as u, json, os, platform, sys, sysconfig
def version(name):
    try: return m.version(name)
    except Exception: return None
try: adk = u.find_spec("google.adk") is not None
except Exception: adk = False
names = ["google-adk", "google-genai", "litellm", "veadk-python"]
found = {name for folder in filter(os.path.isdir, sys.path) for name in os.listdir(folder)}
packages = repr(sorted(name for name in found if name.endswith((".dist-info", ".egg-info"))))
digest = hashlib.sha256(packages.encode("utf-8", "replace")).hexdigest()[:12]
print(json.dumps({
    "adk": adk, "ok": sys.version_info >= (3, 10), "site": sysconfig.get_path("purelib"), "executable": sys.executable,
    "versions": {"python": platform.python_version(), **{n: v for n in names if (v := version(n))},
                 "packages": digest},
}))
"""
_NETWORK = re.compile(
    r"dns error|failed to lookup address|connection refused|connection reset|operation timed out|timed out|"
    r"could not resolve host|failed to connect to|"  # git's own words
    r"Network is unreachable|tcp connect error|HTTP status server error|50[0234] (Bad|Service|Gateway|Internal)",
    re.IGNORECASE,
)

_KILLED = re.compile(r"signal: 9 \(SIGKILL\)")
"""How uv reports a build that was killed."""
KILLED_HINT = (
    "The gate did not kill it. The machine may have run out of memory: run the job again, or on a larger runner."
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The result of a process."""

    code: int
    """Exit code; negative is the number of the signal that ended it."""
    output: str
    """The end of stdout and stderr, masked."""

    @property
    def was_killed(self) -> bool:
        """Whether it, or a process that it reports, was killed by SIGKILL, as the kernel does when memory runs out."""
        return self.code in {-signal.SIGKILL, 128 + signal.SIGKILL} or _KILLED.search(self.output) is not None

    @property
    def end(self) -> str:
        """How it ended: `ended with exit code 2`, `was killed by SIGKILL`."""
        return "was killed by SIGKILL" if self.code == -signal.SIGKILL else f"ended with exit code {self.code}"


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """Properties of an interpreter."""

    executable: str
    has_adk: bool
    new_enough: bool
    site_packages: str
    versions: Mapping[str, str]


async def run(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    cwd: Path,
    masker: Masker,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    privileged: bool = False,
) -> Finished:
    """Runs a process to completion and keeps the end of its output.

    Kills the whole process group afterwards, unless a `privileged` process succeeded: it may have started a service.

    Raises:
        OSError: The process can't be started.
        TimeoutError: The process took longer than `timeout` seconds.
    """
    process = await sandbox.start(argv, cwd=cwd, environment=environment, privileged=privileged)
    tail = bytearray()
    # Longer than the shown part, so that no secret is cut before it is masked.
    limit = _TAIL_BYTES + masker.longest
    reader = asyncio.create_task(_read_tail(process, tail, limit))
    try:
        async with asyncio.timeout(timeout):
            while process.returncode is None:
                await asyncio.wait({reader}, timeout=0.05)
                if reader.done():
                    await process.wait()
            # A background service may keep the pipe open forever.
            await asyncio.wait({reader}, timeout=0.5)
            code = process.returncode
    finally:
        reader.cancel()
        await asyncio.wait({reader})
        if privileged and process.returncode == 0:
            close_pipe(process)
        else:
            await kill_group(process)
    output = masker.ending(bytes(tail)) if len(tail) == limit else masker.data(bytes(tail))
    return Finished(code=code, output=output.decode("utf-8", "replace")[-_TAIL_BYTES:])


async def _read_tail(process: asyncio.subprocess.Process, tail: bytearray, limit: int) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(65_536):
        tail += chunk
        del tail[:-limit]


async def probe(python: Sequence[str], sandbox: Sandbox, *, masker: Masker, timeout: float = 60.0) -> Interpreter:
    """Gets the version and packages of an interpreter, and whether it has ADK, without importing them.

    Raises:
        AgentFailure: The interpreter can't be started or does not answer.
    """
    hint = "Check `agent-python`: it must name a Python 3.10 or newer with google-adk that the agent's user can start."
    try:
        result = await run(sandbox, [*python, "-c", _PROBE], cwd=Path("/"), masker=masker, timeout=timeout)
        # The last line: `sitecustomize` and wrappers such as `poetry run` print before it.
        answer = json.loads(result.output.strip().rpartition("\n")[2])
    except (OSError, TimeoutError) as error:
        message = (
            f"The agent's interpreter `{shlex.join(python)}` can't be started: {str(error) or 'it did not answer'}"
        )
        interpreter = Path(python[0], "bin", "python")
        found = f" Did you mean `{interpreter}`?" if interpreter.exists() else ""  # noqa: ASYNC240 - it has failed already
        raise EnvironmentFailure(message, hint=hint + found) from error
    except ValueError as error:
        raise EnvironmentFailure(
            f"`{shlex.join(python)}` is not a working Python interpreter (exit code {result.code})",
            log_tail=result.output[-_SHOWN_CHARS:],
            hint=hint,
        ) from error
    return Interpreter(
        executable=answer["executable"],
        has_adk=answer["adk"],
        new_enough=answer["ok"],
        site_packages=answer["site"],
        versions=answer["versions"],
    )


@dataclass(frozen=True, kw_only=True)
class Installer:
    """uv, ready to run as the agent's user."""

    program: str
    version: str
    sandbox: Sandbox
    masker: Masker
    environment: Mapping[str, str]
    """Package indexes and uv's own settings."""
    deadline: float
    """Event loop time by which everything must be done."""

    async def uv(self, arguments: Sequence[str], *, cwd: Path, place_of: Callable[[str], str] = lambda _: "") -> None:
        """Runs uv.

        Args:
            arguments: Its arguments.
            cwd: Its working directory.
            place_of: Where a requirement is, ` (FILE:LINE)`; "" if unknown.

        Raises:
            AgentFailure: uv failed; with the end of its output and a hint.
        """
        remaining = self.deadline - asyncio.get_running_loop().time()
        command = f"uv {shlex.join(arguments)}"
        try:
            result = await run(
                self.sandbox,
                [self.program, *arguments],
                cwd=cwd,
                masker=self.masker,
                timeout=max(remaining, 0.1),
                environment=self.environment,
            )
        except TimeoutError as error:
            raise EnvironmentFailure(
                f"Making the agent's environment took too long; `{command}` was stopped",
                hint="Use fewer or smaller dependencies, a lock file, or an existing interpreter (`agent-python`).",
            ) from error
        except OSError as error:
            raise EnvironmentFailure(f"uv can't be started: {error}") from error
        if result.code != 0:
            what = " ".join(["uv", *takewhile(lambda word: not word.startswith("-"), arguments)])
            # The whole command has long paths of the cache: the sentence names what ran, the log how.
            raise EnvironmentFailure(
                f"The agent's environment can't be made: {_cause(result.output, place_of) or f'`{what}` {result.end}'}",
                owner=Owner.PROVIDER if result.was_killed or _is_outage(result.output) else Owner.AGENT,
                log_tail=f"$ {self.masker.text(command)}\n{result.output[-_SHOWN_CHARS:]}",
                hint=KILLED_HINT if result.was_killed else _hint(result.output),
            )


def _is_outage(output: str) -> bool:
    """Whether the cause is external: the package index, or a full disk."""
    return bool(_NETWORK.search(output) or _DISK_FULL.search(output))


_ABSENT = re.compile(r"(\S+) was not found in the package registry")
_UNPARSED = re.compile(r"Couldn't parse requirement in `([^`]+)`.*\n\s*cause: (.+)\n\s*(.+)")
_NO_VERSION = re.compile(r"there (?:is|are) no versions? of (\S+) and you require")


def _cause(output: str, place_of: Callable[[str], str]) -> str:
    """Which requirement can't be installed, and its place, as a clause; "" if uv names none."""
    text = re.sub(r"\s+", " ", output)
    if absent := _ABSENT.search(text):
        return f"`{absent[1]}`{place_of(absent[1])} is not on the package index"
    if unknown := _NO_VERSION.search(text):
        return f"the package index has no `{unknown[1]}`{place_of(unknown[1])}"
    if unparsed := _UNPARSED.search(output):
        return f"`{unparsed[3].strip()}`{place_of(unparsed[3].strip())} is no requirement"
    # Without the index, uv says the same of packages that exist.
    if "No solution found" in text and not _is_outage(output):
        needed = re.findall(r"(?<!conclude that )you require (\S+?)[,.]?(?=\s|$)", text)
        named = [f"`{name}`{place_of(name)}" for name in dict.fromkeys(needed)]
        return f"{' and '.join(named[:3])} can't be installed together" if named[1:] else ""
    return ""


def _hint(output: str) -> str:
    """A hint for a failed installation, chosen by uv's output."""
    if _DISK_FULL.search(output):
        return "The disk is full: free space, or set another `cache-dir`."
    if re.search(r"\b40[13]\b|Unauthorized|Forbidden|authentication", output):
        return (
            "An index requires credentials: set UV_INDEX_URL, UV_EXTRA_INDEX_URL or UV_INDEX_<NAME>_PASSWORD in `env`."
        )
    # Before the network's hint: what failed is the download of a Python, which an installed one makes needless.
    if download := re.search(r"/cpython-(\d+\.\d+\.\d+)\S*\.tar", output):
        return (
            "No installed Python is one that `requires-python` or .python-version allows, and "
            f"Python {download[1]} can't be downloaded. Install one in an earlier step (actions/setup-python), or set "
            "`agent-python`."
        )
    if _NETWORK.search(output):
        return (
            "The package index, or a server that the requirements name, could not be reached: run the job again, or "
            "check UV_DEFAULT_INDEX and the proxies."
        )
    if "not found in the package registry" in output:
        return "Correct its name, or add its index with UV_INDEX or UV_EXTRA_INDEX_URL."
    if unparsed := _UNPARSED.search(output):
        return f"Correct `{unparsed[3].strip()}` in {unparsed[1]}: {unparsed[2]}."
    if unknown := _NO_VERSION.search(output):
        what = "version" if re.search(r"[=<>~]", unknown[1]) else "name"
        return f"The package index has no {unknown[1]}: correct the {what}."
    if f"require google-adk>={MINIMUM_ADK}" in re.sub(r"\s+", " ", output):
        return (
            f"agent-eval needs google-adk {MINIMUM_ADK} or newer, which another requirement excludes: loosen that one."
        )
    if "No solution found" in output:
        return "Loosen or remove one of these requirements, or change the Python version, as uv's output says."
    if re.search(r"Permission denied|Read-only file system", output):
        return (
            "A local package can't be built without writing to the checkout, which the agent's user may not do: "
            "list its dependencies in a requirements file, or install everything yourself and set `agent-python`."
        )
    if missing := re.search(r"No interpreter found for Python (\S*\d\S*(?:(?<=,) \S+)*)", output):
        return (
            f"No Python {missing[1]} is installed, and uv can't download it. Correct `requires-python` or "
            ".python-version, install that Python, or set `agent-python`."
        )
    if re.search(r"No interpreter found|requires-python|Python>=|Python download", output):
        return "No matching Python is installed or can be downloaded: install one, or set `agent-python`."
    if re.search(r"Failed to build|build backend|gcc|command '.*' failed", output):
        return "A package must be built and something is missing for it: `agent-setup` can install system packages."
    return "See uv's output. The same command should fail on your machine."


def find_uv(sandbox: Sandbox, tools: Path) -> tuple[str, str]:
    """Uv's program and version: our own dependency, else the first uv in the child's PATH.

    Args:
        sandbox: The sandbox; its user must be able to start uv.
        tools: A directory for a copy, if the user can't access the original.

    Raises:
        AgentFailure: uv is not installed.
    """
    program, version = None, "unknown"
    with contextlib.suppress(ImportError, FileNotFoundError, importlib.metadata.PackageNotFoundError):
        import uv

        program, version = str(uv.find_uv_bin()), importlib.metadata.version("uv")
    if program is None:
        program = shutil.which("uv", path=sandbox.environment.get("PATH", os.defpath))
    if program is None:
        raise EnvironmentFailure(
            "uv is not installed, so no environment can be made for the agent",
            hint="Install uv (`pip install uv`), or set an existing interpreter with `agent-python`.",
        )
    if version == "unknown":
        status = Path(program).stat()
        version = f"{status.st_size}-{status.st_mtime_ns}"
    # Our own uv may be below a home directory that the agent's user can't enter.
    if blocked_at(Path(program), sandbox.user, need=os.R_OK | os.X_OK) is not None:
        program = str(_copy_of(Path(program), tools / f"uv-{version}"))
    return program, version


def _copy_of(program: Path, copy: Path) -> Path:
    if not copy.is_file():
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        # Another process may make it, or start it, at the same time.
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copyfile(program, partial)
        partial.chmod(0o755)
        partial.replace(copy)
    return copy
