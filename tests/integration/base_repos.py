"""Real git repositories with a base branch, made fast."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.baseline.git import Git, open_git

_QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Mona",
    "GIT_AUTHOR_EMAIL": "mona@example.com",
    "GIT_COMMITTER_NAME": "Mona",
    "GIT_COMMITTER_EMAIL": "mona@example.com",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "GIT_ALLOW_PROTOCOL": "file",
    # Each commit would start another git, to see whether there is something to tidy up.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}
ENVIRON = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
"""As much of ours as git needs."""


@dataclass(frozen=True)
class Repo:
    """A repository with a working tree."""

    root: Path

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            env={**ENVIRON, **_QUIET},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            path = self.root / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, files: Mapping[str, str | bytes | None], message: str = "A change") -> str:
        """Writes files (None removes one), commits everything, gives the sha."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, at: str = "HEAD") -> None:
        self.git("checkout", "-q", "-B", name, at)

    def merge(self, name: str, into: str) -> str:
        """GitHub's merge of a pull request, detached: the base first, then the head."""
        self.git("checkout", "-q", "--detach", into)
        self.git("merge", "-q", "--no-ff", "-m", f"Merge {name}", name)
        return self.head

    def shallow_checkout(self, sha: str, root: Path) -> Repo:
        """As actions/checkout does it with its default depth of 1."""
        root.mkdir()
        made = Repo(root)
        made.git("init", "-q", "-b", "main")
        made.git("remote", "add", "origin", f"file://{self.root}")
        made.git("fetch", "-q", "--depth=1", "origin", sha)
        made.git("checkout", "-q", "--detach", "FETCH_HEAD")
        return made

    def opened(self, *, timeout: float = 20.0, environ: Mapping[str, str] = ENVIRON) -> Git:
        return replace(open_git(self.root, environ), timeout=timeout)


def new_repo(root: Path) -> Repo:
    root.mkdir(parents=True, exist_ok=True)
    made = Repo(root)
    made.git("init", "-q", "-b", "main")
    return made
