#!/usr/bin/env python3
"""The steps of a release that touch files and commits. .github/workflows/release.yml calls them, in this order.

    release.py check 1.2.3                      the version can be released from this checkout
    release.py pin python                       an image that a release is built with, by digest
    release.py rename acme/agent-eval-action    writes the repository's name, and with it the image's, into every file
    release.py commit 1.2.3 acme/agent-eval-action sha256:...
                                                makes the two commits and the tags of the release; pushes nothing
    release.py notes 1.2.3                      the text of the release, with the commit to pin

The name is configured once, as `repository` in `[tool.agent-eval.release]` of pyproject.toml. Standard library only:
it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

PINS = ".github/images/Dockerfile"
# The token of a workflow may not push a commit that changes workflows. They take their name from GITHUB_REPOSITORY.
NOT_RENAMED = ".github/workflows/"
BOT = "github-actions[bot]"
NOBODY = "(?:org|OWNER)"
PLACEHOLDER = re.compile(rf"(?<![\w./@-]){NOBODY}/[\w-]|\b{NOBODY}/agent-eval|@{NOBODY}/maintainers")
PLACEHOLDER_IN_TESTS = re.compile(r"\borg[/]agent-eval")


class Refused(Exception):
    """The release can't go on; the message says what to do."""


def git(root: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """What git prints, without the last line break."""
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise Refused(f"git {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")


def texts(root: Path) -> dict[str, str]:
    """Every tracked text file by its name."""
    found = {}
    for name in filter(None, git(root, "ls-files", "-z").split("\0")):
        path = root / name
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if b"\0" not in content:
                found[name] = content.decode("utf-8")
    return found


def repository(root: Path) -> str:
    """The name that the files of this checkout have: owner/name."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return str(settings["tool"]["agent-eval"]["release"]["repository"])


def image(name: str) -> str:
    """The image of a repository. Registries know lower case only."""
    return f"ghcr.io/{name.lower()}"


def references(name: str) -> re.Pattern[str]:
    """Where a text names the repository, or its image."""
    return re.compile(rf"(ghcr\.io/)?(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)


def rename(root: Path, name: str) -> None:
    """Writes the repository's name into every tracked text file, its owner into CODEOWNERS."""
    if not re.fullmatch(r"[\w-]+/[\w.-]+", name):
        raise Refused(f"`{name}` is not the name of a repository, such as acme/agent-eval-action")
    former = repository(root)
    owners = f"@{former.partition('/')[0]}/maintainers", f"@{name.partition('/')[0]}/maintainers"
    for file, text in texts(root).items():
        if file.startswith(NOT_RENAMED):
            continue
        changed = references(former).sub(lambda found: image(name) if found[1] else name, text)
        if file == ".github/CODEOWNERS":
            changed = changed.replace(*owners)
        if changed != text:
            (root / file).write_text(changed, "utf-8")


def placeholders(root: Path) -> list[str]:
    """What is left of names that nobody has, as file:line. Tests have more such names, of models and teams."""
    return [
        f"{file}:{number}: {line.strip()}"
        for file, text in texts(root).items()
        for number, line in enumerate(text.splitlines(), 1)
        if (PLACEHOLDER_IN_TESTS if file.startswith("tests/") else PLACEHOLDER).search(line)
    ]


def check(root: Path, version: str) -> None:
    """The code, the changelog and the pages speak of this version.

    Raises:
        Refused: They do not.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"`{version}` is not a version: X.Y.Z is expected")
    source = "src/agent_eval/__init__.py"
    if f'__version__ = "{version}"' not in (root / source).read_text("utf-8").splitlines():
        raise Refused(f"{source} has another version; set __version__ and merge that first")
    changes(root, version)
    major = version.partition(".")[0]
    ours = re.escape(repository(root))
    named = re.compile(rf"{ours}(?:/gate)?@v(\d+)\b|ghcr\.io/{ours}:(\d+)\b|{ours}/v(\d+)/schemas")
    for file, text in texts(root).items():
        for found in named.finditer(text):
            if next(filter(None, found.groups())) != major:
                raise Refused(f"{file} names another major version than {major}: `{found[0]}`")


def changes(root: Path, version: str) -> str:
    """The changelog's section of a version.

    Raises:
        Refused: There is none, or nothing is in it.
    """
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(version)}(?: .*)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise Refused(f"CHANGELOG.md has no section `## {version}`")
    return found[1].strip()


def notes(root: Path, version: str) -> str:
    """The text of the release: how to pin it, and the changelog's section."""
    commit = git(root, "rev-parse", f"v{version}^{{commit}}")
    return (
        f"Pinned to this release's commit, also where only pinned actions are allowed:\n\n"
        f"```yaml\n- uses: {repository(root)}@{commit} # v{version}\n```\n\n{changes(root, version)}\n"
    )


def pin(root: Path, name: str) -> str:
    """An image that releases are built with, as name:tag@digest."""
    found = re.search(rf"^FROM ({re.escape(name)}:\S+@sha256:[0-9a-f]{{64}})", (root / PINS).read_text("utf-8"), re.M)
    if found is None:
        raise Refused(f"{PINS} does not pin `{name}`")
    return found[1]


def replace(path: Path, pattern: str, by: str) -> None:
    """Replaces the one line that matches.

    Raises:
        Refused: None does, or several do.
    """
    text, count = re.subn(pattern, lambda found: found[1] + by, path.read_text("utf-8"), flags=re.MULTILINE)
    if count != 1:
        raise Refused(f"{path.name}: {count} lines match {pattern}, 1 is expected")
    path.write_text(text, "utf-8")


def commit(root: Path, version: str, name: str, digest: str) -> tuple[str, str]:
    """Makes the commits of the release and tags the second: its action names the first by SHA, that one the image.

    The same input gives the same commits, so that a release that broke off can be repeated.

    Returns:
        The commit of the gate, and the commit of the release.

    Raises:
        Refused: The checkout has changes, or a placeholder is left.
    """
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise Refused(f"`{digest}` is not the digest of an image")
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        raise Refused("the checkout has changes that are not committed")
    check(root, version)
    rename(root, name)
    if left := placeholders(root):
        raise Refused("placeholders are left:\n" + "\n".join(left))
    # A commit's SHA covers its dates and names.
    when = git(root, "show", "--no-patch", "--format=%cI", "HEAD")
    who = {"NAME": BOT, "EMAIL": f"41898282+{BOT}@users.noreply.github.com", "DATE": when}
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}

    def record(message: str) -> str:
        git(
            root,
            "commit",
            "--quiet",
            "--all",
            "--no-verify",
            "--no-gpg-sign",
            f"--message={message}",
            variables=identity,
        )
        return git(root, "rev-parse", "HEAD")

    replace(root / "gate/action.yml", r"^(  image: )\.\./Dockerfile\b.*$", f"docker://{image(name)}@{digest}")
    gate = record(f"Release {version}: the gate, with its image by digest")
    replace(root / "action.yml", rf"^( +uses: ){re.escape(name)}/gate@\S+ .*$", f"{name}/gate@{gate} # v{version}")
    release = record(f"Release {version}: the action, with the gate by its commit")
    for tag in (f"v{version}", f"v{version.partition('.')[0]}"):
        git(root, "tag", "--no-sign", "--force", tag)
    return gate, release


def main() -> int:
    """Runs one step on the current directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for step, names in {
        "check": ["version"],
        "pin": ["image"],
        "rename": ["repository"],
        "commit": ["version", "repository", "digest"],
        "notes": ["version"],
    }.items():
        added = steps.add_parser(step)
        for argument in names:
            added.add_argument(argument)
    given = parser.parse_args()
    root = Path.cwd()
    try:
        match given.step:
            case "check":
                check(root, given.version)
            case "pin":
                print(pin(root, given.image))
            case "rename":
                rename(root, given.repository)
            case "commit":
                gate, release = commit(root, given.version, given.repository, given.digest)
                print(f"the gate: {gate}\nthe release: {release}")
            case "notes":
                print(notes(root, given.version))
    except Refused as refused:
        print(f"{'::error::' if os.environ.get('GITHUB_ACTIONS') else 'release: '}{refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
