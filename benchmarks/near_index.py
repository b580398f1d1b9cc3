"""A package index on loopback: it asks the real one once for each page and file, and keeps what it was given. As PyPI
does, it serves the metadata of wheels apart, also where the real one is a mirror that doesn't.

    python benchmarks/near_index.py DIRECTORY    # prints `index=URL`, and serves until it is ended
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin

_PAGE, _FILE = "application/vnd.pypi.simple.v1+json", "application/octet-stream"
_NAMES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")


def real_index() -> str:
    """The index of uv and pip."""
    named = next(filter(None, map(os.environ.get, _NAMES)), "https://pypi.org/simple")
    return named.rstrip("/") + "/"


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        return archive.read(name)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # The headers in one packet.
    disable_nagle_algorithm = True
    directory: Path

    def do_GET(self) -> None:
        kind, _, name = self.path.strip("/").partition("/")
        try:
            if kind == "simple":
                self._send(self._page(f"{real_index()}{name}/"), _PAGE, "max-age=600")
            elif kind == "files":
                self._send(self._file(unquote(name)), _FILE, "max-age=365000000, immutable")
            else:
                self.send_error(404)
        except HTTPError as error:
            self.send_error(error.code)

    def _page(self, url: str) -> Path:
        kept = self._kept(url)
        if not kept.exists():
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": _PAGE}), timeout=60) as answer:
                page = json.load(answer)
            for file in page["files"]:
                file["url"] = f"/files/{quote(urljoin(url, file['url']), safe='')}"
                file["core-metadata"] = file["filename"].endswith(".whl")
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self.directory, delete=False) as partial:
                json.dump(page, partial)
            Path(partial.name).replace(kept)
        return kept

    def _file(self, url: str) -> Path:
        kept = self._kept(url)
        if not kept.exists():
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as partial:
                if url.endswith(".metadata"):
                    partial.write(_metadata(self._file(url.removesuffix(".metadata"))))
                else:
                    with urllib.request.urlopen(url, timeout=600) as answer:
                        shutil.copyfileobj(answer, partial)
            Path(partial.name).replace(kept)
        return kept

    def _kept(self, url: str) -> Path:
        return self.directory / hashlib.sha256(url.encode()).hexdigest()

    def _send(self, kept: Path, kind: str, caching: str) -> None:
        with kept.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.send_header("Cache-Control", caching)
            self.end_headers()
            self.wfile.flush()
            self.connection.sendfile(file)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # uv opens fifty connections at once.


def main() -> None:
    _Handler.directory = Path(sys.argv[1])
    _Handler.directory.mkdir(parents=True, exist_ok=True)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        print(f"index=http://127.0.0.1:{server.server_port}/simple", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
