"""What the stand-in knows: plain records, to be read and changed by tests."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(kw_only=True)
class Pull:
    number: int
    head_sha: str
    head_ref: str
    head_repository: str | None
    """None: the fork was deleted."""
    base_ref: str
    base_sha: str
    author: str = "octocat"
    author_kind: str = "User"
    state: str = "open"


@dataclass(kw_only=True)
class Run:
    id: int
    path: str
    event: str
    branch: str
    sha: str
    status: str = "completed"
    conclusion: str | None = "success"
    head_repository: str | None
    attempt: int = 1
    pulls: tuple[int, ...] = ()
    """Numbers; GitHub lists none for forks."""


@dataclass(kw_only=True)
class Artifact:
    id: int
    run_id: int
    name: str
    data: bytes
    """The zip."""
    expired: bool = False
    created_at: str = ""
    """ISO 8601; by default, what has the greater id is younger."""


@dataclass(kw_only=True)
class Comment:
    id: int
    number: int
    """Of the pull request."""
    body: str
    login: str
    kind: str = "User"
    """`User` or `Bot`."""
    edits: int = 0


@dataclass(kw_only=True)
class LabelEvent:
    id: int
    number: int
    """Of the pull request."""
    name: str
    event: str
    """`labeled` or `unlabeled`."""
    login: str
    kind: str = "User"


@dataclass(kw_only=True)
class State:
    """One repository. `fake.state` may be changed while the server runs."""

    repository: str = "octo/shop"
    default_branch: str = "main"
    commits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The parents of each."""
    branches: dict[str, str] = field(default_factory=dict)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """By (commit or branch, path)."""
    pulls: dict[int, Pull] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    artifacts: dict[int, Artifact] = field(default_factory=dict)
    comments: dict[int, Comment] = field(default_factory=dict)
    labels: list[LabelEvent] = field(default_factory=list)
    locked: set[int] = field(default_factory=set)
    """Pull requests whose conversation is locked."""
    git: Path | None = None
    roles: dict[str, str | None] = field(default_factory=dict)
    """`admin`, `write`, `read` or `none` by login, None for no user; others may read."""
    asked: list[str] = field(default_factory=list)
    """What was to run: `rerun ID`, `dispatch WORKFLOW REF`; and commits' statuses, `STATE CONTEXT`."""
    trees: dict[str, str] = field(default_factory=dict)
    """Hashes of the files of commits that are in no git repository."""
    _next: int = 1000

    def new_id(self) -> int:
        """Ids grow, as GitHub's do."""
        self._next += 1
        return self._next

    def commit(self, *parents: str, sha: str = "", branch: str | None = None) -> str:
        """Adds a commit, and moves a branch onto it. Gives its hash."""
        sha = sha or hashlib.sha1(f"{self.new_id()}".encode()).hexdigest()
        self.commits[sha] = parents
        if branch is not None:
            self.branches[branch] = sha
        return sha

    def history(self, length: int, branch: str | None = None) -> list[str]:
        """Adds a line of commits on a branch (the default one); oldest first."""
        branch = branch or self.default_branch
        made: list[str] = []
        for _ in range(length):
            before = self.branches.get(branch)
            made.append(self.commit(*([before] if before else []), branch=branch))
        return made

    def take_git(self, directory: Path) -> None:
        """Commits, branches and files of a real repository, as they are now; call it again after a push."""
        self.git = directory
        for line in _git(directory, "log", "--all", "--format=%H %P").splitlines():
            sha, *parents = line.split()
            self.commits.setdefault(sha, tuple(parents))
        listed = _git(directory, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
        for line in listed.splitlines():
            name, _, sha = line.rpartition(" ")
            self.branches[name] = sha

    def tree(self, sha: str) -> str:
        """The hash of a commit's files; of a commit without files its own."""
        command = ["git", "-C", str(self.git), "rev-parse", "--verify", "--quiet", f"{sha}^{{tree}}"]
        done = None if self.git is None else subprocess.run(command, capture_output=True, check=False, text=True)
        return done.stdout.strip() if done is not None and done.returncode == 0 else self.trees.get(sha, sha)

    def pull(self, number: int, *, head_sha: str = "", head_ref: str = "feature", **more: Any) -> Pull:
        """Adds a pull request into the default branch, from this repository unless `head_repository` is given."""
        base_ref = more.setdefault("base_ref", self.default_branch)
        base_sha = more.setdefault("base_sha", self.branches.get(base_ref) or self.commit(branch=base_ref))
        more.setdefault("head_repository", self.repository)
        made = Pull(number=number, head_sha=head_sha or self.commit(base_sha), head_ref=head_ref, **more)
        self.pulls[number] = made
        return made

    def run(self, sha: str, *, path: str = ".github/workflows/evals.yml", event: str = "push", **more: Any) -> Run:
        """Adds a run, by default a green one of a push to the default branch."""
        facts = {"branch": self.default_branch, "head_repository": self.repository, **more}
        made = Run(id=self.new_id(), path=path, event=event, sha=sha, **facts)
        self.runs[made.id] = made
        return made

    def artifact(self, run: Run, data: bytes, *, name: str = "agent-eval-results", expired: bool = False) -> Artifact:
        """Adds an artifact; `data` is its zip."""
        made = Artifact(id=self.new_id(), run_id=run.id, name=name, data=data, expired=expired)
        self.artifacts[made.id] = made
        return made

    def upload(self, run: Run, directory: Path) -> Artifact:
        """Adds what actions/upload-artifact makes of a directory."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(directory.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(directory).as_posix())
        return self.artifact(run, data.getvalue())

    def event_of(self, number: int) -> dict[str, Any]:
        """What a run on the pull request finds at GITHUB_EVENT_PATH, as far as anybody reads it."""
        pull, ours = self.pulls[number], {"full_name": self.repository}
        theirs = {"full_name": pull.head_repository} if pull.head_repository else None
        return {
            "number": number,
            "repository": {"default_branch": self.default_branch, **ours},
            "pull_request": {
                "number": number,
                "state": pull.state,
                "user": {"login": pull.author},
                "head": {"sha": pull.head_sha, "ref": pull.head_ref, "repo": theirs},
                "base": {"sha": self.branches[pull.base_ref], "ref": pull.base_ref, "repo": ours},
            },
        }

    def comment(self, number: int, body: str, *, login: str = "hubot", kind: str = "User") -> Comment:
        """Adds a comment."""
        made = Comment(id=self.new_id(), number=number, body=body, login=login, kind=kind)
        self.comments[made.id] = made
        return made

    def label(self, number: int, name: str, **more: Any) -> LabelEvent:
        """Sets a label on a pull request, or removes it (`event="unlabeled"`)."""
        facts = {"event": "labeled", "login": "maintainer", **more}
        made = LabelEvent(id=self.new_id(), number=number, name=name, **facts)
        self.labels.append(made)
        return made

    def comments_of(self, number: int) -> list[Comment]:
        """Of a pull request, as GitHub lists them: oldest first."""
        return sorted(
            (comment for comment in self.comments.values() if comment.number == number), key=lambda comment: comment.id
        )

    def resolve(self, ref: str) -> str | None:
        """The commit that a hash or a branch stands for."""
        ref = ref.removeprefix("refs/heads/")
        return ref if ref in self.commits else self.branches.get(ref)

    def ancestors(self, sha: str) -> list[str]:
        """The commit and all before it, children before parents."""
        order: list[str] = []
        seen: set[str] = set()
        stack: list[tuple[str, bool]] = [(sha, False)]
        while stack:
            item, done = stack.pop()
            if done:
                order.append(item)
            elif item not in seen and item in self.commits:
                seen.add(item)
                stack.append((item, True))
                stack += [(parent, False) for parent in self.commits[item]]
        return order[::-1]

    def changes(self, base: str, head: str) -> list[tuple[str, str]]:
        """Status and path of the files that differ between two commits of the real repository."""
        if self.git is None:
            return []
        words = {"A": "added", "D": "removed"}
        listed = _git(self.git, "diff", "--name-status", "--no-renames", base, head).splitlines()
        return [(words.get(status, "modified"), path) for status, _, path in (line.partition("\t") for line in listed)]

    def content(self, ref: str, path: str) -> bytes | None:
        """A file at a commit or branch."""
        sha = self.resolve(ref)
        for key in ((ref, path), (sha or "", path)):
            if key in self.files:
                return self.files[key]
        if self.git is None or sha is None:
            return None
        shown = subprocess.run(
            ["git", "-C", str(self.git), "cat-file", "blob", f"{sha}:{path}"], capture_output=True, check=False
        )
        return shown.stdout if shown.returncode == 0 else None


def _git(directory: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, check=True, text=True).stdout
