"""The image, the workflows, the layers and the pages keep promises that no one checks every day."""

from __future__ import annotations

import ast
import builtins
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from one_binding import bound_twice
from packaging.requirements import Requirement
from ruamel.yaml import YAML
from size import measured, size_of

import agent_eval
from agent_eval_agents.host import ADAPTERS, PROGRAM

# The image, the workflows and the pages keep promises that no one checks every day.


ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"]


def output_of(*command: str | Path, code: int = 0, cwd: Path = ROOT) -> str:
    """What a command prints that ends with this code."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def tracked(*patterns: str) -> list[Path]:
    """Files that git has, by pathspec."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git work tree")
    listed = output_of("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", *patterns)
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_ruff__checks_every_python_file_that_git_tracks() -> None:
    scripts = [
        path for path in tracked("*") if not path.suffix and path.read_bytes().startswith(b"#!/usr/bin/env python")
    ]
    shown = output_of(sys.executable, "-m", "ruff", "check", "--show-files").splitlines()

    assert scripts
    assert {*tracked("*.py"), *scripts} <= set(map(Path, shown))


def test_version__is_in_the_code_and_in_the_distributions_only() -> None:
    assert importlib.metadata.version("agent-eval-action") == agent_eval.__version__
    holders = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("*.py", "*.toml", "*.yml", "Dockerfile", "entrypoint")
        if agent_eval.__version__ in path.read_text("utf-8")
    ]
    # `tools/release.py version` writes them, test_distributions.py compares them.
    members = [f"src/agent-eval-{name}/pyproject.toml" for name in ("agents", "results", "scoring", "workbench")]
    assert sorted(holders) == ["src/agent-eval-action/agent_eval/__init__.py", *members]


def test_dockerfile__base_can_be_replaced_and_the_build_gets_what_it_needs() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r"^ARG BASE_IMAGE=\S+:[^\s@]+$", text, re.MULTILINE), "a tag, not a digest"
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert "# syntax=" not in text, "it would need a registry"
    assert not re.search(r"^USER ", text, re.MULTILINE)
    out, *allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    needed = ("pyproject.toml", "requirements/", "README.md", "LICENSE", "entrypoint", "src/", "tools/image_imports.py")
    assert {f"!{name}" for name in needed} <= {*allowed}
    assert out == "*", "everything else stays out: the build of a user's job must not depend on stray files"
    for name in ("entrypoint", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111 == 0o111


def locked(name: str) -> dict[str, str]:
    """The versions of a locked file, each of which must have a hash."""
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements" / name).read_text("utf-8"))
    assert all("--hash=sha256:" in entry for entry in entries)
    return dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", "\n".join(entries), re.MULTILINE))


def test_bootstrap__uv_and_the_build_backend_are_locked_and_nothing_is_installed_without_a_hash() -> None:
    """The entrypoint's installs are tested in e2e/test_bare_clone.py."""
    build = locked("build.txt")
    assert build["uv"] == locked("run.txt")["uv"]
    # A name that hatchling asks for and that is not in the file would come unlocked.
    assert {"editables", "hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"} <= set(build)
    for name in ("Dockerfile", "Makefile"):
        lines = (ROOT / name).read_text("utf-8").replace("\\\n", " ").splitlines()
        installs = [part for line in lines for part in re.split(r"&&|\|\|", line) if "pip install" in part]
        assert len(installs) >= 3
        assert not [part for part in installs if not re.search("--require-hashes|--build-constraints", part)]


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
        *("test", "test-slow", "crossings", "test-browser", "conformance", "nightly", "test-container")
    }
    script = (ROOT / ".ci/run").read_text("utf-8")
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text("utf-8")
    of_script = {target for target in TARGETS if re.search(rf"\bmake {target}(?![\w-])", script)}
    steps = re.search(r"\|\| steps=\((.*)\)", script)
    commands = {
        command for job in JOBS.values() for step in job["steps"] for command in str(step.get("run")).splitlines()
    }

    assert set(TARGETS) - of_script == {"nightly"} and "make nightly" in nightly
    assert steps is not None
    assert set(JOBS["merge"]["needs"]) == set(JOBS) - {"merge"}
    assert JOBS["merge"]["if"] == "always()"
    # A step that only has a branch would not run: the list decides.
    assert set(steps[1].split()) == set(re.findall(r"^    (\w+)\) ", script, re.M))
    for step in steps[1].split():
        assert {f".ci/run {step}", f"make {step}", f"make test-{step}"} & commands, step


def test_wheel__has_what_runs_beside_the_agent_where_it_is_looked_for() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    # In the checkout and in site-packages, all of it is beside agent_eval.
    assert sorted(wheel["packages"]) == sorted(
        path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "src").glob("*/*/__init__.py")
    )
    assert {path.relative_to(ROOT).as_posix(): path.name for path in ADAPTERS} == wheel["force-include"]
    assert {path.parent for path in (PROGRAM, *ADAPTERS)} == {ROOT / "src/agent-eval-agents"}


def test_dependencies__can_be_installed_beside_google_adk() -> None:
    """The pytest plugin runs in the environment of the agent. google-adk 2.13.0 requires google-genai>=2.30,<3."""
    (genai,) = [
        name for name in importlib.metadata.requires("agent-eval-action") or [] if name.startswith("google-genai")
    ]
    assert Requirement(genai).specifier.contains("2.34.0")


# The check of the code's size: what it counts, and that it fails.


MODULE = '''"""Of two
lines."""

# why
def f(a, b):  # what for
    """Adds."""
    return (
        a + b
    )
'''


def test_size_of__comments_docstrings_and_blank_lines_are_free() -> None:
    """Joined lines have as many tokens; a text of several lines that is no docstring counts."""
    joined = MODULE.replace("(\n        a + b\n    )", "(a + b)")
    assert [size_of(text)[0] for text in (MODULE, joined, 'x = """\na\nb"""\n')] == [4, 2, 3]
    assert size_of(joined)[1] == size_of(MODULE)[1]


@pytest.mark.parametrize(
    ("name", "budget", "status"), [("gate-lines", 1, 1), ("gate-lines", 2, 0), ("test-lines", 1, 1)]
)
def test_size__exceeded_budget_fails(tmp_path: Path, name: str, budget: int, status: int) -> None:
    for folder in ("src/agent-eval-action/agent_eval", "tests"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("a = 1\nb = 2\n", "utf-8")
    (tmp_path / "pyproject.toml").write_text(f"[tool.size]\n{name} = {budget}\n", "utf-8")

    said = output_of(sys.executable, ROOT / "tools" / "size.py", code=status, cwd=tmp_path)

    assert ("CHANGELOG.md" in said) == bool(status)
    assert measured(tmp_path)["tokens"] == 6


# Each contract on imports between the packages fails when an import violates it.


VIOLATIONS = {
    "Imports go downwards": ("agent_eval_scoring/core/text.py", "agent_eval_scoring.criteria"),
    "Distributions import downwards": ("agent_eval_results/data/folder.py", "agent_eval_agents.driver"),
    "Imports of the workbench go downwards": (
        "agent_eval_workbench/sources/cases.py",
        "agent_eval_workbench.commands.edit",
    ),
    "The workbench imports nothing on top of the gate": ("agent_eval_workbench/commands/init.py", "agent_eval.cli"),
    "What runs beside the agent imports nothing of ours": ("agent_eval_host/values.py", "agent_eval_scoring.core.text"),
    "Nothing of ours imports what runs beside the agent": ("agent_eval_workbench/commands/init.py", "agent_eval_host"),
    "A private module is imported by its own package only": (
        "agent_eval_workbench/commands/init.py",
        "agent_eval.pipeline._files",
    ),
}
"""A file and what it must not import, by the name of the contract."""


def broken(copy: Path) -> list[str]:
    """The contracts that don't hold in a copy of the source."""
    code = "import glob, sys; sys.path[:0] = [*glob.glob('src/*'), '.']"
    code += "; from importlinter.cli import lint_imports_command as lint; lint()"
    lines = output_of(sys.executable, "-c", code, "--no-logo", "--no-cache", code=1, cwd=copy).splitlines()
    assert any(line.startswith("Contracts: ") for line in lines), lines
    return [line.partition(" BROKEN")[0] for line in lines if " BROKEN" in line]


def test_contracts__each_fails_when_it_is_violated(tmp_path: Path) -> None:
    """All at once: no violation is one of another contract, but that together they make a circle.

    `make lint` checks that they hold.
    """
    copy = tmp_path / "copy"
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, imported in VIOLATIONS.values():
        with next((copy / "src").glob(f"*/{name}")).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    assert sorted(broken(copy)) == sorted([*VIOLATIONS, "No package imports another in a circle"])


# The check of names: no module and no class binds one twice.

MERGED = '''
_TASK = f"""You check sentences. {RULE}"""
def draft(): return (_TASK, "Label each.")
_TASK = f"""You cut a text. {RULE}"""
def cutting_draft(): return (_TASK, "List them.")
'''


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (MERGED, ["_TASK"]),
        ("_NAME, _LINE = 500, 300\n_LINE, (_MEAN, *_REST) = 2_000, (9, 1)", ["_LINE"]),
        ("from a import f\ndef f(): pass\nclass f: pass", ["f", "f"]),
        ("import a.b\nimport a.c\nimport d as a", []),
        ("import e\nimport d as e", ["e"]),
        ("class A:\n    x: int = 1\n    def y(self): pass\n    x = y = 2", ["A.x", "A.y"]),
        ("def f():\n    class B:\n        x = 1\n        x = 2", ["B.x"]),
        ("with a as x:\n    y = 1\nx = y = 2", ["x", "y"]),
        ("if a:\n    x = 1\n    x = 2", ["x"]),
        ("if a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    x = 3\nx = 4", ["x"]),
        ("x = None\ntry:\n    import x\nexcept ImportError:\n    x = 1", []),
        ("match a:\n    case 1:\n        x = 1\n    case _:\n        x = 2", []),
        ("x: int\nx = 0\nx += 1\ndef f():\n    global x\n    x = 2\nfor y in z:\n    last = y\n_ = 1\n_ = 2", []),
        ("@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a): ...\ndel f\nf = 1", []),
        ("class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, value): ...", []),
        ("@f.register\ndef _(a): ...\n@f.register\ndef _(b): ...\nfrom a import *\nfrom b import *", []),
    ],
)
def test_one_binding__names_that_are_replaced(source: str, names: list[str]) -> None:
    assert [name for _, name, _ in bound_twice(source)] == names


def test_one_binding__fails_for_src_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(MERGED, "utf-8")
    command = (sys.executable, ROOT / "tools" / "one_binding.py")

    assert output_of(*command, code=1, cwd=tmp_path) == "src/a.py:4: `_TASK` is bound in line 2 already\n"


def test_exceptions__all_of_ours_have_one_root() -> None:
    classes = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
    builtin = {name for name, value in classes.items() if issubclass(value, Exception)}
    rootless = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "src").rglob("*.py")
        if "agent_eval_host" not in path.parts
        and re.search(r"^ *class .*(Error|Exception)", text := path.read_text("utf-8"), re.MULTILINE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and (bases := {base.id for base in node.bases if isinstance(base, ast.Name)}) & builtin
        and "AgentEvalError" not in bases
    ]
    assert rootless == ["src/agent-eval-scoring/agent_eval_scoring/core/errors.py: AgentEvalError"]
    assert issubclass(agent_eval.SaveError, agent_eval.AgentEvalError) and issubclass(agent_eval.SaveError, ValueError)


def test_tests_readme__names_tests_that_exist() -> None:
    named = re.findall(r"`([a-z0-9]+/\S+\.py)::(test_\w+)`", (ROOT / "tests/README.md").read_text("utf-8"))
    assert len(named) > 10
    for file, name in named:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE), name
