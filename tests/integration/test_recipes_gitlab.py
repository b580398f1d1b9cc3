"""examples/gitlab/evals_note.py, which writes a note on GitLab's merge requests, against a stand-in for the notes API.

What the stand-in does: https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/api/job_artifacts/ (one file of a
branch's last job) and https://docs.gitlab.com/api/rest/ (pages, `x-next-page`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from test_compare_cli import results

SCRIPT = Path(__file__).parents[2] / "examples" / "gitlab" / "evals_note.py"
PROJECT = "/api/v4/projects/42"
NOTES = f"{PROJECT}/merge_requests/7/notes"
TOKEN = "glpat-not-a-real-one"
US, SOMEBODY = 3, 9
MARKER = "<!-- agent-eval -->"


@dataclass
class Notes:
    """A merge request's notes, and the results of its target branch."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    base: bytes | None = None
    writes: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def add(self, author: int, body: str) -> None:
        self.notes.append({"id": len(self.notes) + 100, "author": {"id": author}, "body": body, "system": False})


class _Handler(BaseHTTPRequestHandler):
    notes: Notes

    def log_message(self, format: str, *args: object) -> None:
        """Is quiet."""

    def _answer(self, status: int, content: object, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _allowed(self) -> bool:
        self.notes.paths.append(self.path)
        if self.headers["PRIVATE-TOKEN"] == TOKEN:
            return True
        self._answer(401, {"message": "401 Unauthorized"})
        return False

    def do_GET(self) -> None:
        if not self._allowed():
            return
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/api/v4/user":
            self._answer(200, {"id": US, "username": "project_42_bot"})
        elif url.path == f"{PROJECT}/jobs/artifacts/release%2F1.x/raw/agent-eval-results/results.json":
            result = self.notes.base if query == {"job": ["evals"]} else None
            self._answer(200, result) if result else self._answer(404, {"message": "404 Not Found"})
        elif url.path == NOTES:
            size, page = int(query["per_page"][0]), int(query["page"][0])
            part = self.notes.notes[(page - 1) * size : page * size]
            more = page * size < len(self.notes.notes)
            self._answer(200, part, **{"x-next-page": str(page + 1) if more else ""})
        else:
            self._answer(404, {"message": "404 Not Found"})

    def _body(self) -> str:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert list(sent) == ["body"]
        return str(sent["body"])

    def do_POST(self) -> None:
        if self._allowed():
            assert self.path == NOTES
            self.notes.add(US, self._body())
            self.notes.writes.append("POST")
            self._answer(201, self.notes.notes[-1])

    def do_PUT(self) -> None:
        if self._allowed():
            number = int(self.path.removeprefix(f"{NOTES}/"))
            (note,) = [note for note in self.notes.notes if note["id"] == number]
            assert note["author"]["id"] == US
            note["body"] = self._body()
            self.notes.writes.append("PUT")
            self._answer(200, note)


@pytest.fixture
def gitlab() -> Iterator[tuple[Notes, str]]:
    notes = Notes()
    handler = type("Handler", (_Handler,), {"notes": notes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield notes, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


def run(folder: Path, url: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CI_API_V4_URL": f"{url}/api/v4",
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "release/1.x",
            "CI_PROJECT_URL": "https://gitlab.example/group/project",
            "CI_COMMIT_SHA": "a" * 40,
            "EVALS_NOTE_TOKEN": token,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "agent-eval-results"
    out.mkdir()
    results(out / "results.json", ("lamp", 0.25), ("fan", 0.9))
    (out / "summary.md").write_text("## A summary\n\n/merge\n  /approve\n", encoding="utf-8")
    return tmp_path


def test_recipe__one_note_is_written_and_then_kept_up_to_date(gitlab: tuple[Notes, str], folder: Path) -> None:
    notes, url = gitlab
    notes.base = results(folder / "base.json", ("lamp", 0.9), ("fan", 0.9)).read_bytes()
    for number in range(120):
        notes.add(SOMEBODY, f"a remark, number {number}")
    notes.add(SOMEBODY, f"{MARKER}\n\nsomebody who pretends to be us")
    first = run(folder, url)
    assert (first.returncode, first.stdout) == (0, "Wrote a note\n"), first.stderr
    body = notes.notes[-1]["body"]
    assert body.startswith(f"{MARKER}\n\n## ℹ️ 2 cases compared: 1 newly failing, 1 passing as before\n")
    assert "https://gitlab.example/group/project/-/blob/" + "a" * 40 + "/evals/home.test.json#L3" in body

    results(folder / "agent-eval-results" / "results.json", ("lamp", 0.9), ("fan", 0.9))
    second = run(folder, url)
    assert (second.returncode, second.stdout) == (0, "Updated the note\n"), second.stderr
    assert notes.writes == ["POST", "PUT"]
    assert len(notes.notes) == 122
    assert "## ℹ️ 2 cases compared: 2 passing as before\n" in notes.notes[-1]["body"]
    assert notes.notes[-2]["body"].endswith("pretends to be us")


def test_recipe__without_results_of_the_target_branch_it_is_the_summary(
    gitlab: tuple[Notes, str], folder: Path
) -> None:
    notes, url = gitlab
    done = run(folder, url)
    assert done.returncode == 0, done.stderr
    (note,) = notes.notes
    # GitLab obeys lines that begin with a slash.
    assert note["body"] == f"{MARKER}\n\n## A summary\n\n\u200b/merge\n  \u200b/approve\n"


def test_recipe__a_refused_token_is_an_error_without_the_token(gitlab: tuple[Notes, str], folder: Path) -> None:
    notes, url = gitlab
    done = run(folder, url, token="glpat-wrong")
    assert done.returncode != 0
    assert "401" in done.stderr
    assert "glpat" not in done.stderr + done.stdout + "".join(notes.paths)
    assert notes.writes == []
