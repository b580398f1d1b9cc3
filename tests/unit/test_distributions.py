"""The five distributions: what each brings and works without; names in the documentation can be imported."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from report_samples import SAMPLES

import agent_eval
from agent_eval.cli import main
from agent_eval_scoring.evalset.models.criteria import GROUP

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = sorted(path.parent for path in (ROOT / "src").glob("*/pyproject.toml"))
NEEDS = {"scoring": [], "agents": ["scoring"], "results": ["scoring"], "workbench": ["action"]}
"""What each requires of the others."""


def code_of(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run_alone(code: str, *names: str, cwd: Path = ROOT) -> str:
    """What a program prints that has the code of these distributions, and no other of ours; nor google-adk."""
    folders = [str(ROOT / f"src/agent-eval-{name}") for name in names]
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    # -S: no .pth file of an editable install makes the others importable.
    start = f"import sys; sys.path += {folders + libraries!r}\n"
    end = "\nprint(sorted(name for name in sys.modules if name.startswith('agent_eval') and '.' not in name))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code + end],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# What each distribution needs of the others: nothing that it does not require.


@pytest.mark.parametrize("name", ["scoring", "agents", "results"])
def test_modules__are_imported_without_the_distributions_above(name: str) -> None:
    package = f"agent_eval_{name}"
    code = f"""
import importlib, pkgutil, {package}
for module in pkgutil.walk_packages({package}.__path__, "{package}."):
    importlib.import_module(module.name)
assert importlib.util.find_spec("google.adk") is None
assert importlib.util.find_spec("agent_eval") is None
"""
    shown = run_alone(code, name, *NEEDS[name])
    assert ast.literal_eval(shown) == sorted({package, *(f"agent_eval_{other}" for other in NEEDS[name])})


def test_example__messages_are_scored_with_the_scoring_distribution_alone() -> None:
    shown = run_alone((ROOT / "examples/score_messages/score_messages.py").read_text("utf-8"), "scoring")
    assert shown.splitlines() == [
        "response_match_score: 0.92, passed",
        "tool_trajectory_avg_score: 0.50, failed",
        '  turn 2: expected set_state(device="lamp", on=false), was set_state(device="heater", on=false)',
        "['agent_eval_scoring']",
    ]


def test_readme__code_of_scoring() -> None:
    [code] = code_of((ROOT / "src/agent-eval-scoring/README.md").read_text("utf-8"))
    body = "".join(f"    {line}\n" for line in code.splitlines())
    shown = run_alone(f"import asyncio\nasync def cell():\n{body}\nasyncio.run(cell())", "scoring")
    assert shown.startswith("0.83")


def test_readme__code_of_agents(tmp_path: Path) -> None:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": "Is the lamp on?"}]},
        "final_response": {"role": "model", "parts": [{"text": "The lamp is on."}]},
    }
    cases = {"eval_set_id": "home", "eval_cases": [{"eval_id": "lamp", "conversation": [turn]}]}
    (tmp_path / "home.evalset.json").write_text(json.dumps(cases), "utf-8")
    [code] = code_of((ROOT / "src/agent-eval-agents/README.md").read_text("utf-8"))
    assert "The lamp is on." in run_alone(code, "agents", "scoring", cwd=tmp_path)


def test_readme__code_of_results(tmp_path: Path) -> None:
    report = SAMPLES["failed"]()
    (tmp_path / "agent-eval-results").mkdir()
    (tmp_path / "agent-eval-results/results.json").write_text(report.model_dump_json(), "utf-8")
    [code] = code_of((ROOT / "src/agent-eval-results/README.md").read_text("utf-8"))
    first, *rest = run_alone(code, "results", "scoring", cwd=tmp_path).splitlines()
    assert first.startswith("failed ")
    assert any(line.startswith(f"{report.cases[0].eval_id} ") for line in rest)
    assert any(line.startswith("#") for line in rest), "the summary"


def test_readme__commands_of_the_workbench_are_commands() -> None:
    [code] = code_of((ROOT / "src/agent-eval-workbench/README.md").read_text("utf-8"), "sh")
    for line in code.splitlines():
        program, command, *_ = line.split()
        assert program == "agent-eval"
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0, line


def test_members__license_readme_version_and_what_they_require() -> None:
    assert [path.name for path in MEMBERS] == [f"agent-eval-{name}" for name in sorted(NEEDS)]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert whole["tool"]["uv"]["workspace"]["members"] == [f"src/{path.name}" for path in MEMBERS]
    for path in MEMBERS:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"]
        ours = [each for each in project["dependencies"] if each.startswith("agent-eval-")]
        needed = NEEDS[path.name.removeprefix("agent-eval-")]
        assert ours == [f"agent-eval-{name}=={agent_eval.__version__}" for name in needed]
        assert {*project["dependencies"]} - {*ours} <= {*whole["project"]["dependencies"]}
        assert project["version"] == agent_eval.__version__
        assert (path / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


@pytest.mark.slow
def test_wheels__of_the_members_are_disjoint_and_the_gate_s_has_all(tmp_path: Path) -> None:
    """Built from the source distributions, as an index's users may."""
    out = tmp_path / "dist"
    constraints = ["--build-constraints", "requirements/build.txt", "--require-hashes"]
    subprocess.run(
        [Path(sys.executable).with_name("uv"), "build", "--quiet", "--all-packages", *constraints, "--out-dir", out],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    files = {}
    for wheel in out.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith("/licenses/LICENSE") for name in names), wheel
        files[wheel.name.split("-")[0]] = {name for name in names if ".dist-info/" not in name}
    whole = files.pop("agent_eval_action")
    parts = [name for names in files.values() for name in names]
    tops = {name.split("/")[0] for name in whole}

    assert sorted(files) == ["agent_eval_agents", "agent_eval_results", "agent_eval_scoring", "agent_eval_workbench"]
    assert files["agent_eval_workbench"] == set(), "it requires the gate, which has its code"
    assert len(parts) == len(set(parts))
    assert {name for name in whole if name.split("/")[0] not in {"agent_eval", "agent_eval_workbench"}} == set(parts)
    assert tops == {
        *("agent_eval", "agent_eval_workbench", "agent_eval_results", "agent_eval_agents", "agent_eval_scoring"),
        *("agent_eval_host", "agent_eval_deepeval.py"),
    }
    for archive in out.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            assert any(name.endswith("/LICENSE") for name in opened.getnames()), archive


# Names in the documentation: of modules, of what they have, of entry points and options.

PAGES = [
    path
    for pattern in ("README.md", "SECURITY.md", "docs/*.md", "examples/*/README.md", "src/*/README.md")
    for path in sorted(ROOT.glob(pattern))
]
TEXT = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in PAGES}


def imported_by(page: str) -> set[str]:
    """The names that Python code on a page imports from us."""
    names = set(re.findall(r"^[+ ]*import (agent_eval[\w.]*)", page, re.MULTILINE))
    for module, listed in re.findall(r"^[+ `]*from (agent_eval[\w.]*) import ([\w, ]+)", page, re.MULTILINE):
        names |= {f"{module}.{name.strip()}" for name in listed.split(",")}
    for module, name in re.findall(r"`from (agent_eval[\w.]*) import (\w+)`", page):
        names.add(f"{module}.{name}")
    in_text = re.findall(r"\b(agent_eval(?:_\w+)?\.[a-z_.]*[a-z])\b(?=[`(\"])", page)
    return names | {*in_text} - {"agent_eval_deepeval.py", "agent_eval.case.id"}  # a file, and an attribute of traces


NAMES = sorted({(page, name) for page, text in TEXT.items() for name in imported_by(text)})


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_names__of_the_documentation_can_be_imported(page: str, name: str) -> None:
    module, _, attribute = name.rpartition(".")
    if module == "agent_eval_deepeval":  # its bases are deepeval's, which is not installed here
        source = Path(str(importlib.util.find_spec(module).origin)).read_text("utf-8")  # type: ignore[union-attr]
        assert attribute in {getattr(node, "name", None) for node in ast.parse(source).body}
    elif not module or not hasattr(importlib.import_module(module), attribute):
        importlib.import_module(name)


def test_names__of_the_documentation_are_found() -> None:
    named = {name for _, name in NAMES}
    assert {
        "agent_eval.run",
        "agent_eval.save_session",
        "agent_eval.AgentEvaluator",
        "agent_eval_deepeval.metric",
    } <= named
    assert {"agent_eval.criteria.api.Criterion", "agent_eval_scoring.criteria.api.build"} <= named


def test_names__the_api_for_criteria_is_the_same_with_and_without_the_gate() -> None:
    packages = "agent_eval", "agent_eval_scoring"
    ours, theirs = (importlib.import_module(f"{package}.criteria.api") for package in packages)
    public = [name for name in vars(theirs) if not name.startswith("_")]
    assert len(public) > 12
    assert [name for name in public if getattr(ours, name) is not getattr(theirs, name)] == []


def test_entry_points__command_plugin_and_the_group_of_criteria() -> None:
    points = importlib.metadata.distribution("agent-eval-action").entry_points
    assert {(point.group, point.name, point.load().__name__) for point in points} == {
        ("console_scripts", "agent-eval", "run"),
        ("pytest11", "adk_evals", "agent_eval.pytest_plugin"),
        (GROUP, "adk_rust_response_similarity", "response_similarity"),
        (GROUP, "adk_rust_tool_trajectory", "tool_trajectory"),
    }
    assert f'[project.entry-points."{GROUP}"]' in TEXT["docs/custom-metrics.md"]


def test_pytest_options__of_the_documentation_exist(pytestconfig: pytest.Config) -> None:
    named = {name for text in TEXT.values() for name in re.findall(r"--(adk-[a-z-]+[a-z])", text)}
    assert named == {"adk-evals", "adk-evals-set"}
    assert [name for name in named if not hasattr(pytestconfig.option, name.replace("-", "_"))] == []
