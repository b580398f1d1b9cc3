"""The environments that are compared, made with uv under a directory of the benchmark's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ADK_VERSION = "2.13.0"
PEER = f"google-adk[eval]=={ADK_VERSION}"
"""What `adk eval` needs."""
ADK = f"google-adk=={ADK_VERSION}"
"""What an agent needs."""

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_INDEX = ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")


def base_environment(home: Path, **extra: str) -> dict[str, str]:
    """What every measured command sees: nothing of the user's but where to find programs, certificates and packages.

    Left out on purpose: `PYTHONDONTWRITEBYTECODE`, which would make one side compile again at each start.
    """
    environment = {name: os.environ[name] for name in (*_KEPT, *_INDEX) if name in os.environ}
    return {**environment, "HOME": str(home), "GOOGLE_API_KEY": "any", **extra}


def gate_of(checkout: Path) -> list[str]:
    """What starts the gate of a checkout in our interpreter."""
    places = [str(place) for place in sorted((checkout / "src").iterdir())]
    return [sys.executable, "-c", f"import sys; sys.path[:0] = {places!r}; from agent_eval.__main__ import run; run()"]


@dataclass(frozen=True, kw_only=True)
class Environments:
    """Where the programs are."""

    home: Path
    """HOME of everything that is measured."""
    wheel: Path
    """This project, built."""
    gate: Path
    """`agent-eval`, installed from the wheel."""
    agents: Path
    """Where the gate keeps the environments that it makes for agents."""
    peer: Path
    """`adk`, installed with what evaluation needs."""
    python_version: str
    """Of all of them."""

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment of a measured command."""
        return base_environment(self.home, **extra)


def uv() -> str:
    """uv's path."""
    path = shutil.which("uv")
    if path is None:
        sys.exit("The benchmarks make their environments with uv: https://docs.astral.sh/uv/ (or `pip install uv`).")
    return path


def find_python() -> str:
    """The Python of all environments that are compared.

    As root the gate runs the agent as another user, who must be able to start it: not one under /root then.
    """
    directories = [Path(sys.executable).resolve(), *Path(sys.executable).resolve().parents]
    if os.geteuid() != 0 or all(path.stat().st_mode & 0o001 for path in directories):
        return sys.executable
    path = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if path is None:
        sys.exit(f"{sys.executable} can be started by root alone; install Python elsewhere, or run as another user.")
    return path


def python_version() -> str:
    """The version of `find_python`, such as 3.11.2."""
    return subprocess.run([find_python(), "-V"], capture_output=True, text=True, check=True).stdout.split()[-1]


def run_quietly(*argv: str | Path, cwd: Path = PROJECT, environment: Mapping[str, str] | None = None) -> None:
    """Runs a preparing command; its output is shown only if it fails."""
    done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")


def environment(directory: Path, *requirements: str | Path) -> Path:
    """An environment with the requirements, bytecode compiled; made once for the same ones."""
    stamp = directory / "benchmark-stamp"
    python = find_python()
    requirements_text = "\n".join([python, sys.version, *map(str, requirements)])
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != requirements_text:
        shutil.rmtree(directory, ignore_errors=True)
        run_quietly(uv(), "venv", "--python", python, directory)
        run_quietly(uv(), "pip", "install", "--compile-bytecode", "--python", directory, *requirements)
        stamp.write_text(requirements_text, encoding="utf-8")
    return directory


def build_wheel(directory: Path) -> Path:
    """This project's wheel, in a directory named after the sources so that a changed source is a new wheel."""
    sources = sorted(path for path in (PROJECT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc")
    digest = hashlib.sha256()
    for path in (PROJECT / "pyproject.toml", *sources):
        digest.update(path.read_bytes())
    target = directory / digest.hexdigest()[:16]
    if not list(target.glob("*.whl")):
        shutil.rmtree(directory, ignore_errors=True)
        run_quietly(uv(), "build", "--wheel", "--out-dir", target)
    return next(target.glob("*.whl"))


def prepare(cache: Path, *, peer: bool = True) -> Environments:
    """Makes what is missing.

    Args:
        cache: The benchmark's own directory.
        peer: Whether a scenario needs `adk eval`; its environment has 600 MB.
    """
    home = cache / "home"
    home.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(cache / "wheel")
    return Environments(
        home=home,
        wheel=wheel,
        gate=environment(cache / "gate", wheel) / "bin" / "agent-eval",
        agents=cache / "agents",
        python_version=python_version(),
        peer=(environment(cache / "peer", PEER) if peer else cache / "peer") / "bin" / "adk",
    )
