"""A repository as a forge serves it over HTTP: git's own server program, and nothing without the token."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gate_runs import program
from upload_server import Received, Reply


@dataclass(kw_only=True)
class GitServer:
    """Serves one repository below `/OWNER/NAME`; what is fetched ends up in `fetched`."""

    root: Path
    """An empty directory of ours."""
    repository: str
    """`owner/name`; `serve` says which directory that is."""
    token: str
    """What has to be sent, as actions/checkout does it."""
    url: str = ""
    """As GITHUB_SERVER_URL."""
    fetched: list[str] = field(default_factory=list)
    """Paths of requests that had the token."""
    refused: list[str] = field(default_factory=list)
    """Paths of those that had none; git tries without at first if it knows none."""

    def serve(self, directory: Path) -> None:
        """Makes a work tree the repository."""
        place = self.root / self.repository
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(directory)

    def answer(self, request: Received) -> Reply:
        """What comes back."""
        wanted = "basic " + base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        if request.headers.get("authorization") != wanted:
            self.refused.append(request.path)
            return Reply(401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'})
        self.fetched.append(request.path)
        parts = urlsplit(request.path)
        done = subprocess.run(
            [Path(program("git", "--exec-path").stdout.strip()) / "git-http-backend"],
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "GIT_CONFIG_KEY_1": "uploadpack.allowAnySHA1InWant",  # as on GitHub
                "GIT_CONFIG_VALUE_1": "true",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": request.method,
                "CONTENT_TYPE": request.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(request.body)),
                "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
                "HTTP_GIT_PROTOCOL": request.headers.get("git-protocol", ""),
            },
            input=request.body,
            capture_output=True,
            timeout=60,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return Reply(int(headers.pop("Status", "200 OK").split()[0]), content, headers)
