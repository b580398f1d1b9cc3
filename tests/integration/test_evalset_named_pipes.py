"""Ignore rules that git would wait for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_eval.evalset.discovery import _listing
from agent_eval.evalset.discovery._listing import list_directory


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("evals/a.test.json", "evals/deep/b.test.json", "other/c.test.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("pipe", [".gitignore", "evals/.gitignore", "evals/deep/.gitignore", ".git/info/exclude"])
def test_list_directory__a_named_pipe_with_ignore_rules_is_named_and_not_waited_for(
    repository: Path, monkeypatch: pytest.MonkeyPatch, pipe: str
) -> None:
    monkeypatch.setattr(_listing, "_PATIENCE", 0.5)
    (repository / pipe).unlink(missing_ok=True)
    (repository / pipe).parent.mkdir(exist_ok=True)
    os.mkfifo(repository / pipe)

    listing = list_directory(repository / "evals")

    assert listing.failure == f"{repository / pipe} is a named pipe, which git would wait for. Remove it."
    assert sorted(listing.files) == ["a.test.json", "deep/b.test.json"]


def test_list_directory__git_may_take_its_time_without_a_named_pipe(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listing, "_PATIENCE", 0.0)
    (repository / ".gitignore").write_text("deep\n", encoding="utf-8")

    listing = list_directory(repository / "evals")

    assert (listing.failure, listing.files) == (None, ["a.test.json"])
