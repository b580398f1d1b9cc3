#!/usr/bin/env python3
"""The release steps that change files and create commits, in the order of .github/workflows/release.yml.

    release.py version 1.2.3                    write the version into the code and the distributions
    release.py check 1.2.3                      check that this checkout can be released as 1.2.3
    release.py pin python                       print an image that releases are built with, by digest
    release.py rename acme/agent-eval-action    write the repository's and the image's name into every file
    release.py commit 1.2.3 acme/agent-eval-action sha256:...
                                                create the two commits and the tags of the release; push nothing
    release.py notes 1.2.3                      print the release notes, with the commit to pin

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
SOURCE = "src/agent-eval-action/agent_eval/__init__.py"
VERSION = re.compile(r'^((?:__version__|version) = "|  "agent-eval-\w+==)([^"]+)"', re.MULTILINE)
# The token of a workflow may not push a commit that changes workflows. They take their name from GITHUB_REPOSITORY.
NOT_RENAMED = ".github/workflows/"
BOT = "github-actions[bot]"
PLACEHOLDER_OWNER = "(?:org|OWNER)"
PLACEHOLDER = re.compile(
    rf"(?<![\w./@-]){PLACEHOLDER_OWNER}/[\w-]|\b{PLACEHOLDER_OWNER}/agent-eval|@{PLACEHOLDER_OWNER}/maintainers"
)
PLACEHOLDER_IN_TESTS = re.compile(r"\borg[/]agent-eval")


class Refused(Exception):
    """The release can't continue; the message says what to do."""


def git(root: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """Git's output without the final newline."""
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
    """Contents of all tracked text files, by name."""
    contents = {}
    for name in filter(None, git(root, "ls-files", "-z").split("\0")):
        path = root / name
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if b"\0" not in content:
                contents[name] = content.decode("utf-8")
    return contents


def repository(root: Path) -> str:
    """The repository name in the files of this checkout: owner/name."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return str(settings["tool"]["agent-eval"]["release"]["repository"])


def image(name: str) -> str:
    """The image of a repository. Registries accept lower case only."""
    return f"ghcr.io/{name.lower()}"


def references(name: str) -> re.Pattern[str]:
    """Pattern of references to the repository or its image."""
    return re.compile(rf"(ghcr\.io/)?(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)


def rename(root: Path, name: str) -> None:
    """Writes the repository's name into every tracked text file, its owner into CODEOWNERS."""
    if not re.fullmatch(r"[\w-]+/[\w.-]+", name):
        raise Refused(f"`{name}` is not the name of a repository, such as acme/agent-eval-action")
    former = repository(root)
    owners = f"@{former.partition('/')[0]}/maintainers", f"@{name.partition('/')[0]}/maintainers"
    for file, text in texts(root).items():
        if file.startswith(NOT_RENAMED) or (former.lower() not in text.lower() and file != ".github/CODEOWNERS"):
            continue
        changed = references(former).sub(lambda match: image(name) if match[1] else name, text)
        if file == ".github/CODEOWNERS":
            changed = changed.replace(*owners)
        if changed != text:
            (root / file).write_text(changed, "utf-8")


def placeholders(root: Path) -> list[str]:
    """Remaining placeholders, as file:line. The pattern for tests is stricter: they have similar names of models."""
    remaining = []
    for file, text in texts(root).items():
        pattern = PLACEHOLDER_IN_TESTS if file.startswith("tests/") else PLACEHOLDER
        if pattern.search(text):
            lines = enumerate(text.splitlines(), 1)
            remaining += [f"{file}:{number}: {line.strip()}" for number, line in lines if pattern.search(line)]
    return remaining


def versions(root: Path) -> dict[Path, str]:
    """The version that each file has: the code, each distribution, and what distributions require of each other."""
    found = {}
    for file in (root / SOURCE, *sorted(root.glob("src/*/pyproject.toml"))):
        named = {match[2] for match in VERSION.finditer(file.read_text("utf-8"))}
        found[file] = ", ".join(sorted(named)) or "no version"
    return found


def set_version(root: Path, version: str) -> None:
    """Writes the version into the code and into the distributions."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", version):
        raise Refused(f"`{version}` is not a version: X.Y.Z or X.Y.Z.devN is expected")
    for file in versions(root):
        file.write_text(VERSION.sub(lambda match: match[1] + version + '"', file.read_text("utf-8")), "utf-8")


def check(root: Path, version: str) -> None:
    """Checks that code, distributions, changelog and documentation have this version.

    Raises:
        Refused: They don't.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"`{version}` is not a version: X.Y.Z is expected")
    for source, named in versions(root).items():
        if named != version:
            raise Refused(
                f"{source.relative_to(root)} has {named}; run `release.py version {version}` and merge that first"
            )
    changes(root, version)
    major = version.partition(".")[0]
    ours = re.escape(repository(root))
    reference = re.compile(rf"{ours}(?:/gate)?@v(\d+)\b|ghcr\.io/{ours}:(\d+)\b|{ours}/v(\d+)/schemas")
    for file, text in texts(root).items():
        for match in reference.finditer(text):
            if next(filter(None, match.groups())) != major:
                raise Refused(f"{file} names another major version than {major}: `{match[0]}`")


def changes(root: Path, version: str) -> str:
    """The changelog's section of a version.

    Raises:
        Refused: The section is missing or empty.
    """
    text = (root / "CHANGELOG.md").read_text("utf-8")
    section = re.search(rf"^## {re.escape(version)}(?: .*)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise Refused(f"CHANGELOG.md has no section `## {version}`")
    return section[1].strip()


def notes(root: Path, version: str) -> str:
    """The release notes: how to pin the release, and the changelog's section."""
    commit = git(root, "rev-parse", f"v{version}^{{commit}}")
    return (
        f"Pinned to this release's commit, also where only pinned actions are allowed:\n\n"
        f"```yaml\n- uses: {repository(root)}@{commit} # v{version}\n```\n\n{changes(root, version)}\n"
    )


def pin(root: Path, name: str) -> str:
    """An image used to build releases, as name:tag@digest."""
    pinned = re.search(rf"^FROM ({re.escape(name)}:\S+@sha256:[0-9a-f]{{64}})", (root / PINS).read_text("utf-8"), re.M)
    if pinned is None:
        raise Refused(f"{PINS} does not pin `{name}`")
    return pinned[1]


def replace(path: Path, pattern: str, by: str, *, lines: int = 1) -> None:
    """Replaces the end of the lines that match.

    Raises:
        Refused: Another number of lines matches.
    """
    text, count = re.subn(pattern, lambda match: match[1] + by, path.read_text("utf-8"), flags=re.MULTILINE)
    if count != lines:
        raise Refused(f"{path.name}: {count} lines match {pattern}, not {lines}")
    path.write_text(text, "utf-8")


def commit(root: Path, version: str, name: str, digest: str) -> tuple[str, str]:
    """Creates the two commits of the release and tags the second.

    The first commit's gate names the image by digest, the second commit's action names the gate by SHA. The same input
    gives the same commits, so that an interrupted release can be repeated.

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
    replace(
        root / "action.yml", rf"^( +uses: ){re.escape(name)}/gate@\S+ .*$", f"{name}/gate@{gate} # v{version}", lines=2
    )
    release = record(f"Release {version}: the action, with the gate by its commit")
    for tag in (f"v{version}", f"v{version.partition('.')[0]}"):
        git(root, "tag", "--no-sign", "--force", tag)
    return gate, release


def main() -> int:
    """Runs one step in the current directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for step, arguments in {
        "version": ["version"],
        "check": ["version"],
        "pin": ["image"],
        "rename": ["repository"],
        "commit": ["version", "repository", "digest"],
        "notes": ["version"],
    }.items():
        step_parser = steps.add_parser(step)
        for argument in arguments:
            step_parser.add_argument(argument)
    options = parser.parse_args()
    root = Path.cwd()
    try:
        match options.step:
            case "version":
                set_version(root, options.version)
            case "check":
                check(root, options.version)
            case "pin":
                print(pin(root, options.image))
            case "rename":
                rename(root, options.repository)
            case "commit":
                gate, release = commit(root, options.version, options.repository, options.digest)
                print(f"the gate: {gate}\nthe release: {release}")
            case "notes":
                print(notes(root, options.version))
    except Refused as refused:
        print(f"{'::error::' if os.environ.get('GITHUB_ACTIONS') else 'release: '}{refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
