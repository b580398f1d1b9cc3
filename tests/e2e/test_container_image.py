"""The image by itself: what is in it, and that nothing of the workspace gets into its way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from container_engine import REPOSITORY, Engine
from github_runner import Runner

import agent_eval

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

SIZE_LIMIT = 225_000_000
"""Bytes that we add to the base of 125 MB: git, numpy, uv, the clients of the judges' providers and the rest."""


def inside(engine: Engine, image: str, script: str, *options: str) -> str:
    """What a shell script prints in the image."""
    return engine.check("run", "--rm", *options, "--entrypoint", "sh", image, "-c", script).strip()


def test_image__configured_as_github_demands(engine: Engine, image: str) -> None:
    (facts,) = json.loads(engine.check("image", "inspect", image))
    config = facts["Config"]
    assert config["User"] == "", "GitHub's mounts need root"
    assert config["Entrypoint"][0].startswith("/"), "another working directory must not matter"
    assert "-I" in config["Entrypoint"]
    assert not config["Cmd"], "GitHub passes no arguments; a default would arrive as some"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_image__adds_little_to_its_base(engine: Engine, base: str, image: str) -> None:
    ours, theirs = (int(engine.check("image", "inspect", "--format", "{{.Size}}", name)) for name in (image, base))
    assert ours - theirs < SIZE_LIMIT, f"{(ours - theirs) / 1e6:.0f} MB"


def test_image__locked_versions_without_development_tools(engine: Engine, image: str) -> None:
    listed = json.loads(
        inside(engine, image, "uv pip list --python /opt/agent-eval/bin/python --format json --quiet 2>/dev/null")
    )
    installed = {(package["name"], package["version"]) for package in listed if package["name"] != "agent-eval-action"}
    locked = set(
        re.findall(r"^([\w.-]+)==([^ ;\\]+)", (REPOSITORY / "requirements/run.txt").read_text("utf-8"), re.MULTILINE)
    )
    assert installed <= locked
    names = {name for name, _ in installed}
    assert {"pydantic", "uv", "rich"} <= names
    assert not {"pytest", "mypy", "ruff", "google-adk"} & names


def test_image__bytecode_is_compiled(engine: Engine, image: str) -> None:
    script = (
        "cd /opt/agent-eval/lib/python3*/site-packages && "
        "for f in agent_eval/cli.py pydantic/main.py rich/table.py; do "
        "ls $(dirname $f)/__pycache__/$(basename $f .py).*.pyc; done"
    )
    assert len(inside(engine, image, script).splitlines()) == 3


def test_image__help_and_version_also_where_gitlab_blanks_the_entrypoint(engine: Engine, image: str) -> None:
    assert "usage:" in engine.check("run", "--rm", image).lower(), "outside of GitHub Actions"
    assert agent_eval.__version__ in engine.check("run", "--rm", image, "--version")
    # GitLab: `image: {name: ..., entrypoint: [""]}`, then it runs the script with a shell.
    said = engine.check("run", "--rm", "--entrypoint", "", image, "sh", "-c", "agent-eval --version && uv --version")
    assert agent_eval.__version__ in said


def test_image__agent_account_owns_nothing_of_ours(engine: Engine, image: str) -> None:
    result = inside(
        engine, image, "find /opt/agent-eval /entrypoint \\( -user agent -o -perm -o+w -not -type l \\) | head -n 3"
    )
    assert result == ""


def test_image__pythonpath_and_checkout_can_t_replace_our_modules(
    runner: Runner, workspace: Callable[..., Path]
) -> None:
    names = ("agent_eval.py", "argparse.py", "json.py", "hashlib.py", "sitecustomize.py")
    root = workspace(files=dict.fromkeys(names, "print('HIJACKED'); raise SystemExit(0)\n"))
    done = runner.step(root, "--version", environment={"PYTHONPATH": "/github/workspace", "PYTHONSTARTUP": "json.py"})
    assert "HIJACKED" not in done.log
    assert agent_eval.__version__ in done.log


def test_image__git_reads_a_workspace_of_another_user(
    engine: Engine, image: str, workspace: Callable[..., Path]
) -> None:
    root = workspace()
    said = inside(engine, image, "git -C /github/workspace status --short --branch", "-v", f"{root}:/github/workspace")
    assert said == "## main"


def test_image__what_was_left_out_is_not_missed(engine: Engine, image: str) -> None:
    """Packages without their tests, git without Perl: all of ours imports, git does what we ask, apt is in order.

    The pytest plugin is left out: only pytest imports it, and the image has none.
    """
    modules = (
        "import importlib, pkgutil, agent_eval, openai, google.genai, numpy.testing, numpy.random, nltk.stem.porter\n"
        "for module in pkgutil.walk_packages(agent_eval.__path__, 'agent_eval.'):\n"
        "    if 'pytest_plugin' in module.name or module.name.endswith(('__main__', '.host')): continue\n"
        "    importlib.import_module(module.name)\n"
        "print('imported')"
    )
    assert inside(engine, image, f'/opt/agent-eval/bin/python -I -c "{modules}"') == "imported"
    work = (
        "set -e; cd /tmp; git config --global user.name a; git config --global user.email a@b.c; "
        "git init -q -b main sub; git -C sub commit -q --allow-empty -m sub; git init -q -b main top; cd top; "
        "git -c protocol.file.allow=always submodule --quiet add /tmp/sub sub; git commit -q -m top; "
        "git worktree add -q ../tree; git -c protocol.file.allow=always -C ../tree submodule --quiet update --init; "
        "git clone -q --depth 1 file:///tmp/top ../clone; git -C ../tree rev-parse --abbrev-ref HEAD; "
        "git ls-tree --name-only main"
    )
    assert inside(engine, image, work).split() == ["tree", ".gitmodules", "sub"]
    # https is a program of its own.
    assert "Failed to connect" in inside(engine, image, "! git ls-remote https://127.0.0.1:9/x 2>&1")
    query = "apt-get check >/dev/null && dpkg-query -W -f '${db:Status-Status}' perl"
    assert inside(engine, image, query) != "installed"
