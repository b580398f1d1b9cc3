"""Runs uv and the interpreters it makes, as the agent's user, and says in words why an installation failed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.sandbox import blocked_at
from agent_eval.agents.sandbox import Sandbox, close_pipe, kill_group
from agent_eval.core.masking import Masker

_TAIL_BYTES = 16_000
_SHOWN_CHARS = 4_000
_PROBE = """\
import importlib.metadata as m, importlib.util as u, json, platform, sys, sysconfig
def version(name):
    try: return m.version(name)
    except Exception: return None
try: adk = u.find_spec("google.adk") is not None
except Exception: adk = False
names = ["google-adk", "google-genai", "litellm", "veadk-python"]
print(json.dumps({
    "adk": adk, "ok": sys.version_info >= (3, 10), "site": sysconfig.get_path("purelib"), "executable": sys.executable,
    "versions": {"python": platform.python_version(), **{n: version(n) for n in names if version(n)}},
}))
"""
_NETWORK = re.compile(
    r"dns error|failed to lookup address|connection refused|connection reset|operation timed out|timed out|"
    r"Network is unreachable|tcp connect error|HTTP status server error|50[0234] (Bad|Service|Gateway|Internal)",
    re.IGNORECASE,
)

_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A process that ran to its end."""

    code: int
    """Exit code; negative is the number of the signal that ended it."""
    output: str
    """The end of stdout and stderr, masked."""


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """What an interpreter says about itself."""

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
    """Runs a process to its end and keeps the last part of what it wrote.

    Its whole group is gone afterwards. The exception is what a `privileged` process that succeeded left running: it
    may have been told to start a service.

    Raises:
        OSError: It can't be started.
        TimeoutError: It took longer than `timeout` seconds.
    """
    process = await sandbox.start(argv, cwd=cwd, environment=environment, privileged=privileged)
    tail = bytearray()
    # More than is shown, so that a secret is never cut before it is masked.
    keep = _TAIL_BYTES + masker.longest
    reader = asyncio.create_task(_read_tail(process, tail, keep))
    try:
        async with asyncio.timeout(timeout):
            while process.returncode is None:
                await asyncio.wait({reader}, timeout=0.05)
                if reader.done():
                    await process.wait()
            # A service in the background may hold the pipe open for ever.
            await asyncio.wait({reader}, timeout=0.5)
            code = process.returncode
    finally:
        reader.cancel()
        await asyncio.wait({reader})
        if privileged and process.returncode == 0:
            close_pipe(process)
        else:
            await kill_group(process)
    output = masker.ending(bytes(tail)) if len(tail) == keep else masker.data(bytes(tail))
    return Finished(code=code, output=output.decode("utf-8", "replace")[-_TAIL_BYTES:])


async def _read_tail(process: asyncio.subprocess.Process, tail: bytearray, keep: int) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(65_536):
        tail += chunk
        del tail[:-keep]


async def probe(python: Sequence[str], sandbox: Sandbox, *, masker: Masker, timeout: float = 60.0) -> Interpreter:
    """Asks an interpreter for its version, its packages and whether it has ADK. Imports nothing of them.

    Raises:
        AgentFailure: It can't be started or gives no answer.
    """
    hint = "Check `agent-python`: it must name a Python 3.10 or newer with google-adk that the agent's user can start."
    try:
        done = await run(sandbox, [*python, "-c", _PROBE], cwd=Path("/"), masker=masker, timeout=timeout)
        answer = json.loads(done.output.strip().rpartition("\n")[2])
    except (OSError, TimeoutError) as error:
        message = (
            f"The agent's interpreter `{shlex.join(python)}` can't be started: {str(error) or 'it gave no answer'}"
        )
        raise AgentFailure(message, kind=FailureKind.ENVIRONMENT, hint=hint) from error
    except ValueError as error:
        raise AgentFailure(
            f"`{shlex.join(python)}` is not a working Python interpreter (exit code {done.code})",
            kind=FailureKind.ENVIRONMENT,
            log_tail=done.output[-_SHOWN_CHARS:],
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
    """Where packages come from, and uv's own settings."""
    deadline: float
    """Event loop time at which everything has to be done."""

    async def uv(self, arguments: Sequence[str], *, cwd: Path) -> None:
        """Runs uv.

        Raises:
            AgentFailure: It failed, with the end of its output and a hint.
        """
        left = self.deadline - asyncio.get_running_loop().time()
        command = f"uv {shlex.join(arguments)}"
        try:
            done = await run(
                self.sandbox,
                [self.program, *arguments],
                cwd=cwd,
                masker=self.masker,
                timeout=max(left, 0.1),
                environment=self.environment,
            )
        except TimeoutError as error:
            raise AgentFailure(
                f"Making the agent's environment took too long; `{command}` was stopped",
                kind=FailureKind.ENVIRONMENT,
                hint="Fewer or smaller dependencies, a lock file, or a ready interpreter (`agent-python`) help.",
            ) from error
        except OSError as error:
            raise AgentFailure(f"uv can't be started: {error}", kind=FailureKind.ENVIRONMENT) from error
        if done.code != 0:
            text = self.masker.text(command)
            raise AgentFailure(
                f"The agent's environment can't be made: `{text}` ended with exit code {done.code}",
                kind=FailureKind.ENVIRONMENT,
                owner=Owner.PROVIDER if _is_outage(done.output) else Owner.AGENT,
                log_tail=done.output[-_SHOWN_CHARS:],
                hint=_hint(done.output),
            )


def _is_outage(output: str) -> bool:
    """Whether the world failed: the package index, or a disk that is full."""
    return bool(_NETWORK.search(output) or _DISK_FULL.search(output))


def _hint(output: str) -> str:
    """What to do about a failed installation, by what uv wrote."""
    if _DISK_FULL.search(output):
        return "The disk is full: free space, or name another `cache-dir`."
    if re.search(r"\b40[13]\b|Unauthorized|Forbidden|authentication", output):
        return (
            "An index asks for credentials: give UV_INDEX_URL, UV_EXTRA_INDEX_URL or UV_INDEX_<NAME>_PASSWORD in `env`."
        )
    if _NETWORK.search(output):
        return "The package index could not be reached: run the job again, or check UV_DEFAULT_INDEX and the proxies."
    if "not found in the package registry" in output:
        return "A package is not on this index: check its name, or add the index with UV_INDEX or UV_EXTRA_INDEX_URL."
    if "No solution found" in output:
        return "The requirements contradict each other or the Python version; the lines above name them."
    if re.search(r"Permission denied|Read-only file system", output):
        return (
            "A local package could not be built without writing into the checkout, which the agent's user may not do; "
            "list its dependencies in a requirements file, or install everything yourself and give `agent-python`."
        )
    if re.search(r"No interpreter found|requires-python|Python>=|Python download", output):
        return "No fitting Python is installed or can be downloaded; install one, or give `agent-python`."
    if re.search(r"Failed to build|build backend|gcc|command '.*' failed", output):
        return "A package had to be built and needs more than is installed; `agent-setup` can install system packages."
    return "Run the same command on your machine; the output above says why it failed."


def find_uv(sandbox: Sandbox, tools: Path) -> tuple[str, str]:
    """Uv's program and version: the one that was installed with us, else the first in the child's PATH.

    Args:
        sandbox: Whose user has to be able to start it.
        tools: A directory for a copy, when the user can't get at the original.

    Raises:
        AgentFailure: There is none.
    """
    program, version = None, "unknown"
    with contextlib.suppress(ImportError, FileNotFoundError, importlib.metadata.PackageNotFoundError):
        import uv

        program, version = str(uv.find_uv_bin()), importlib.metadata.version("uv")
    if program is None:
        program = shutil.which("uv", path=sandbox.environment.get("PATH", os.defpath))
    if program is None:
        raise AgentFailure(
            "uv is not installed, so no environment can be made for the agent",
            kind=FailureKind.ENVIRONMENT,
            hint="Install uv (`pip install uv`), or name a ready interpreter with `agent-python`.",
        )
    if version == "unknown":
        facts = Path(program).stat()
        version = f"{facts.st_size}-{facts.st_mtime_ns}"
    if blocked_at(Path(program), sandbox.user, need=os.R_OK | os.X_OK) is not None:
        program = str(_copy_of(Path(program), tools / f"uv-{version}"))
    return program, version


def _copy_of(program: Path, copy: Path) -> Path:
    if not copy.is_file():
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copyfile(program, partial)
        partial.chmod(0o755)
        partial.replace(copy)
    return copy
