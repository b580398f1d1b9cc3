"""The image, the workflows and the pages keep promises that no one checks every day."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

import agent_eval
from agent_eval.agents.host import ADAPTERS, PROGRAM

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def tracked(*patterns: str) -> list[Path]:
    """Files that git has, by pathspec."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z", "--", *patterns],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if listed.returncode != 0:
        pytest.skip("this is no git work tree")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_ruff__checks_every_python_file_that_git_tracks() -> None:
    scripts = [
        path for path in tracked("*") if not path.suffix and path.read_bytes().startswith(b"#!/usr/bin/env python")
    ]
    shown = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--show-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.splitlines()

    assert scripts
    assert {*tracked("*.py"), *scripts} <= set(map(Path, shown))


def test_version__is_defined_in_one_place() -> None:
    assert importlib.metadata.version("agent-eval-action") == agent_eval.__version__
    holders = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("*.py", "*.toml", "*.yml", "Dockerfile", "entrypoint")
        if agent_eval.__version__ in path.read_text("utf-8")
    ]
    assert holders == ["src/agent_eval/__init__.py"]


def test_dockerfile__base_can_be_replaced() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r"^ARG BASE_IMAGE=\S+:[^\s@]+$", text, re.MULTILINE), "a tag, not a digest"
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert "# syntax=" not in text, "it would need a registry"
    assert not re.search(r"^USER ", text, re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    """The versions of a locked file, each of which must have a hash."""
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements" / name).read_text("utf-8"))
    assert all("--hash=sha256:" in entry for entry in entries)
    return dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", "\n".join(entries), re.MULTILINE))


def test_bootstrap__uv_and_the_build_backend_are_locked() -> None:
    build = locked("build.txt")
    assert build["uv"] == locked("run.txt")["uv"]
    # A name that hatchling asks for and that is not in the file would come unlocked.
    assert {"editables", "hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"} <= set(build)


@pytest.mark.parametrize("name", ["Dockerfile", "Makefile"])
def test_bootstrap__nothing_is_installed_without_a_hash(name: str) -> None:
    """The entrypoint's installs are tested in e2e/test_bare_clone.py."""
    lines = (ROOT / name).read_text("utf-8").replace("\\\n", " ").splitlines()
    installs = [part for line in lines for part in re.split(r"&&|\|\|", line) if "pip install" in part]
    assert len(installs) >= 3
    assert not [part for part in installs if not re.search("--require-hashes|--build-constraints", part)]


def test_dockerignore__lets_in_what_the_build_needs() -> None:
    allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for name in ("pyproject.toml", "requirements/", "README.md", "LICENSE", "entrypoint", "src/"):
        assert f"!{name}" in allowed
    assert allowed[0] == "*", "everything else stays out: the build of a user's job must not depend on stray files"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows__are_pinned_bounded_and_modest(path: Path) -> None:
    workflow = YAML(typ="safe").load(path)
    assert "setup-uv" not in path.read_text("utf-8"), "it takes the newest uv, not the locked one"
    assert workflow["permissions"] == {}, "each job asks for its own"
    assert "concurrency" in workflow
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        assert "permissions" in job, name
        for step in job["steps"]:
            used = step.get("uses", "./gate")
            assert used == "./gate" or re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", used), used


def test_ci__the_merge_job_waits_for_all_others() -> None:
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"]
    assert set(jobs["merge"]["needs"]) == set(jobs) - {"merge"}
    assert jobs["merge"]["if"] == "always()"


TARGETS = {
    target: (re.findall(r"tests/\w+", recipe), " ".join(re.findall(r'-m (\w+|".+")$', recipe)).strip('"') or "True")
    for target, recipe in re.findall(
        r"^([a-z-]+):.*\n(?:\t.*\\\n)*\t(\$\((?:BIN\)/pytest|PARALLEL\)).*)$",
        (ROOT / "Makefile").read_text("utf-8"),
        re.M,
    )
}
"""The folders (none: all) and the expression of markers of each command that runs tests."""
MARK = re.compile(r"\bpytest\.mark\.(slow|nightly|conformance|container)\b")


def targets_of(path: Path, marks: set[str]) -> list[str]:
    """The commands that run a test of this file with these markers."""
    names = {name: name in marks for name in ("slow", "nightly", "conformance", "container")}
    return [
        target
        for target, (folders, expression) in TARGETS.items()
        if (not folders or path.relative_to(ROOT).as_posix().startswith(tuple(f"{folder}/" for folder in folders)))
        and eval(expression, names)
    ]


def test_tiers__every_test_belongs_to_one() -> None:
    files = [path for path in tracked("tests/**/test_*.py") if not path.is_relative_to(ROOT / "tests/data")]
    wrong = {}
    for path in files:
        text = path.read_text("utf-8")
        of_all = set(MARK.findall("".join(re.findall(r"^pytestmark = (?:\[.*?^\]|.*?$)", text, re.M | re.S))))
        of_some = set(MARK.findall(text)) - of_all
        for marks in [of_all, *(of_all | {mark} for mark in of_some)]:
            if len(found := targets_of(path, marks)) != 1:
                wrong[path.name, *marks] = found

    assert len(files) > 100
    assert wrong == {}


def test_tiers__ci_runs_all() -> None:
    assert set(TARGETS) == {
        *("test", "test-slow", "crossings", "test-browser", "conformance", "nightly", "test-container"),
    }
    script = (ROOT / ".ci/run").read_text("utf-8")
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text("utf-8")
    of_script = {target for target in TARGETS if re.search(rf"\bmake {target}(?![\w-])", script)}
    steps = re.search(r"\|\| steps=\((.*)\)", script)
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"].values()
    commands = {command for job in jobs for step in job["steps"] for command in str(step.get("run")).splitlines()}

    assert set(TARGETS) - of_script == {"nightly"} and "make nightly" in nightly
    assert steps is not None
    # A step that only has a branch would not run: the list decides.
    assert set(steps[1].split()) == set(re.findall(r"^    (\w+)\) ", script, re.M))
    for step in steps[1].split():
        assert {f".ci/run {step}", f"make {step}", f"make test-{step}"} & commands, step


def test_entrypoint__is_executable() -> None:
    for name in ("entrypoint", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111 == 0o111


def test_wheel__has_what_runs_beside_the_agent_where_it_is_looked_for() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    # In the checkout and in site-packages, all of it is beside agent_eval.
    assert wheel["packages"] == ["src/agent_eval", "src/agent_eval_workbench", f"src/{PROGRAM.name}"]
    assert PROGRAM.parent == ROOT / "src"
    assert {f"src/{path.name}": path.name for path in ADAPTERS} == wheel["force-include"]
    assert [path.parent for path in ADAPTERS] == [ROOT / "src"] * len(ADAPTERS)


def test_dependencies__can_be_installed_beside_google_adk() -> None:
    """The pytest plugin runs in the environment of the agent. google-adk 2.13.0 requires google-genai>=2.30,<3."""
    (genai,) = [
        name for name in importlib.metadata.requires("agent-eval-action") or [] if name.startswith("google-genai")
    ]
    assert Requirement(genai).specifier.contains("2.34.0")
