"""A container engine for the tests: which client, which base image, and how to run it.

On an ordinary machine this is the running Docker and the real base image. Where no image registry can be reached, the
base is made of Debian packages (root and mmdebstrap needed), so that the Dockerfile is built and run all the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
DEBIAN_BASE = "agent-eval-test-base:1"
SLIM = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
"""What Debian's slim images leave out: without it the size of ours would say nothing."""


class NoEngine(Exception):
    """There is nothing to run containers with, or nothing to build on."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A running engine and a client that understands it."""

    client: str
    """Path of the docker client."""
    buildkit: bool
    """Whether this client can build with BuildKit; without, the legacy builder is used."""

    def environment(self) -> dict[str, str]:
        """The variables of a process that talks to the engine."""
        return {**os.environ, "DOCKER_BUILDKIT": str(int(self.buildkit))}

    def run(
        self,
        *arguments: str,
        timeout: float = 120,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs the client, capturing stdout and stderr together.

        Args:
            arguments: Of the client.
            timeout: Seconds.
            environment: Variables on top of our own: what `-e NAME` without a value passes on.
            stdin: What to feed it.
        """
        return subprocess.run(
            [self.client, *arguments],
            env={**self.environment(), **(environment or {})},
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )

    def check(self, *arguments: str, timeout: float = 120, stdin: bytes | None = None) -> str:
        """Runs the client and returns what it printed.

        Raises:
            AssertionError: It failed.
        """
        done = self.run(*arguments, timeout=timeout, stdin=stdin)
        said = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0, f"docker {' '.join(arguments)} ended with {done.returncode}:\n{said[-6000:]}"
        return said

    def has_image(self, name: str) -> bool:
        """Whether the engine holds an image."""
        return self.run("image", "inspect", name).returncode == 0


def find_engine() -> Engine:
    """The engine that the docker client on this machine talks to.

    Raises:
        NoEngine: There is none; the message says what was tried.
    """
    client = shutil.which("docker")
    if client is None:
        raise NoEngine("there is no docker client")
    probe = Engine(client=client, buildkit=False)
    answer = probe.run("version", "--format", "{{.Client.Version}} {{.Server.Version}}", timeout=30)
    if answer.returncode != 0:
        raise NoEngine(f"{client}: {answer.stdout.decode('utf-8', 'replace').strip().splitlines()[-1]}")
    # Clients up to 22 have BuildKit inside, newer ones need the buildx plugin for it.
    built_in = int(answer.stdout.split(b".")[0]) < 23
    return Engine(client=client, buildkit=built_in or probe.run("buildx", "version").returncode == 0)


def base_image(engine: Engine) -> str:
    """The image to build on: the Dockerfile's own, or one made of Debian packages if that is unavailable.

    Raises:
        NoEngine: Neither is available.
    """
    match = re.search(r"^ARG BASE_IMAGE=(\S+)$", (REPOSITORY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert match is not None, "the Dockerfile has no default for BASE_IMAGE"
    wanted = os.environ.get("AGENT_EVAL_TEST_BASE_IMAGE", match[1])
    if engine.has_image(wanted):
        return wanted
    if engine.has_image(DEBIAN_BASE):
        return DEBIAN_BASE
    pulled = engine.run("pull", "--quiet", wanted, timeout=300)
    if pulled.returncode == 0:
        return wanted
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        raise NoEngine(
            f"{wanted} can't be pulled ({pulled.stdout.decode('utf-8', 'replace').strip()[-300:]}), and making a base"
            " of Debian packages needs root and mmdebstrap"
        )
    _debian_base(engine)
    return DEBIAN_BASE


def _debian_base(engine: Engine) -> None:
    """Makes and imports the base: Debian's Python under the names that the official image gives it."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch, "base.tar")
        root = Path(scratch, "root")
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                "--include=ca-certificates,python3,python3-pip",
                *(f"--dpkgopt=path-exclude={path}" for path in SLIM),
                "trixie",
                str(archive),
                *_debian_mirror(),
            ],
            check=True,
            timeout=600,
        )
        root.mkdir()
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="fully_trusted")
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        for name in ("python", "pip"):
            (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
        # Behind a proxy that opens TLS, the host trusts one more authority; the containers have to as well.
        for certificate in Path("/usr/local/share/ca-certificates").glob("**/*.crt"):
            shutil.copy(certificate, root / "usr/local/share/ca-certificates")
        subprocess.run(["chroot", str(root), "update-ca-certificates"], check=True, capture_output=True, timeout=60)
        packed = subprocess.run(["tar", "-C", str(root), "-c", "."], check=True, capture_output=True, timeout=120)
        engine.check(
            "import",
            "--change",
            "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            "--change",
            f"ENV SSL_CERT_FILE={CA_BUNDLE}",
            "-",
            DEBIAN_BASE,
            stdin=packed.stdout,
        )


def _debian_mirror() -> Sequence[str]:
    """The mirror that this machine's own apt uses; mmdebstrap has a default of its own."""
    for source in [*sorted(Path("/etc/apt").glob("sources.list.d/*.sources")), Path("/etc/apt/sources.list")]:
        text = source.read_text("utf-8") if source.exists() else ""
        match = re.search(r"^(?:URIs:|deb(?: \[[^]]*])?)\s+(\S+/debian)/?(?:\s|$)", text, re.MULTILINE)
        if match:
            return [match[1]]
    return []
