"""A repository as a forge serves it over HTTP: git's own server program, and nothing without the token."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


class GitServer:
    """Serves one repository below `/OWNER/NAME`; what is fetched ends up in `fetched`."""

    def __init__(self, root: Path, *, repository: str, token: str, address: str, name: str) -> None:
        """Nothing listens yet.

        Args:
            root: An empty directory of ours.
            repository: `owner/name`; `serve` says which directory that is.
            token: What has to be sent, as actions/checkout does it.
            address: Where to listen.
            name: By which clients reach that.
        """
        self.fetched: list[str] = []
        """Paths of requests that had the token."""
        self.refused: list[str] = []
        """Paths of those that had none; git tries without at first if it knows none."""
        self._root = root
        self._repository = repository
        self._wanted = "basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()
        self._server = ThreadingHTTPServer((address, 0), _handler(self))
        self._server.daemon_threads = True
        self._name = name
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """As GITHUB_SERVER_URL."""
        return f"http://{self._name}:{self._server.server_address[1]}"

    def serve(self, directory: Path) -> None:
        """Makes a work tree the repository."""
        place = self._root / self._repository
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(directory)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """What comes back."""
        if headers.get_all("Authorization") != [self._wanted]:
            self.refused.append(path)
            return 401, {"WWW-Authenticate": 'Basic realm="GitHub"'}, b""
        self.fetched.append(path)
        parts = urlsplit(path)
        done = subprocess.run(
            [_exec_path() / "git-http-backend"],
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self._root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "GIT_CONFIG_KEY_1": "uploadpack.allowAnySHA1InWant",  # as on GitHub
                "GIT_CONFIG_VALUE_1": "true",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": method,
                "CONTENT_TYPE": headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
                "HTTP_GIT_PROTOCOL": headers.get("Git-Protocol", ""),
            },
            input=body,
            capture_output=True,
            timeout=60,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        result = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(result.pop("Status", "200 OK").split()[0]), result, content


def _exec_path() -> Path:
    done = subprocess.run(["git", "--exec-path"], capture_output=True, check=True, text=True, timeout=30)
    return Path(done.stdout.strip())


def _handler(made: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, content = made.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _do  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
