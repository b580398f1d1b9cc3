"""examples/gitlab/evals_note.py, which writes a note on GitLab's merge requests, against a stand-in for the notes API.

What the stand-in does: https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/api/job_artifacts/ (one file of a
branch's last job) and https://docs.gitlab.com/api/rest/ (pages, `x-next-page`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from test_compare_cli import results
from upload_server import Received, Reply, upload_server

SCRIPT = Path(__file__).parents[2] / "examples" / "gitlab" / "evals_note.py"
PROJECT = "/api/v4/projects/42"
NOTES = f"{PROJECT}/merge_requests/7/notes"
RESULTS = f"{PROJECT}/jobs/artifacts/release%2F1.x/raw/agent-eval-results/results.json"
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

    def add(self, author: int, body: str) -> dict[str, Any]:
        note = {"id": len(self.notes) + 100, "author": {"id": author}, "body": body, "system": False}
        self.notes.append(note)
        return note

    def answer(self, request: Received) -> Reply:
        """What GitLab answers."""
        self.paths.append(request.path)
        if request.headers["private-token"] != TOKEN:
            return Reply(401, {"message": "401 Unauthorized"})
        url = urlsplit(request.path)
        query = parse_qs(url.query)
        if request.method != "GET":
            self.writes.append(request.method)
            assert list(request.json) == ["body"]
            if request.method == "POST":
                assert url.path == NOTES
                return Reply(201, self.add(US, request.json["body"]))
            [note] = [note for note in self.notes if url.path == f"{NOTES}/{note['id']}"]
            assert note["author"]["id"] == US
            note["body"] = request.json["body"]
            return Reply(200, note)
        if url.path == "/api/v4/user":
            return Reply(200, {"id": US, "username": "project_42_bot"})
        if url.path == NOTES:
            size, page = int(query["per_page"][0]), int(query["page"][0])
            more = page * size < len(self.notes)
            part = self.notes[(page - 1) * size : page * size]
            return Reply(200, part, {"x-next-page": str(page + 1) if more else ""})
        if url.path == RESULTS and query == {"job": ["evals"]} and self.base:
            return Reply(200, self.base)
        return Reply(404, {"message": "404 Not Found"})


@pytest.fixture
def gitlab() -> Iterator[tuple[Notes, str]]:
    notes = Notes()
    with upload_server(notes.answer) as server:
        yield notes, server.url


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
