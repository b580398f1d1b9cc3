"""Poetry's dependencies as requirements; the constraints are those of Poetry's page on dependency specification."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.protocol import AgentFailure
from agent_eval.agents.venv._dependencies import SourceKind, check_adk, find_dependencies
from agent_eval.agents.venv._poetry import NotTranslatable, poetry_table, python_versions, requirements, versions


@pytest.mark.parametrize(
    ("poetry", "standard"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^1.2", ">=1.2,<2"),
        ("^1", ">=1,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0.0", ">=0.0,<0.1"),
        ("^0", ">=0,<1"),
        ("^1.2.3rc1", ">=1.2.3rc1,<2"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("*", ""),
        ("1.*", "==1.*"),
        ("1.2.*", "==1.2.*"),
        (">=1.2,<1.5", ">=1.2,<1.5"),
        (">= 1.2 < 1.5", ">=1.2,<1.5"),
        ("!=1.2.3", "!=1.2.3"),
        ("1.2.3", "==1.2.3"),
        ("=1.2.3", "==1.2.3"),
        ("~=1.4", "~=1.4"),
        (">=1.0,", ">=1.0"),
        ("^1.2,!=1.3.0", ">=1.2,<2,!=1.3.0"),
    ],
)
def test_versions__are_those_that_poetry_allows(poetry: str, standard: str) -> None:
    assert versions(poetry) == standard


@pytest.mark.parametrize("text", ["^1.0 || ^2.0", "latest", "^"])
def test_versions__that_have_no_equal_are_refused(text: str) -> None:
    with pytest.raises(NotTranslatable):
        versions(text)


def table(text: str) -> dict[str, Any]:
    poetry = poetry_table(tomllib.loads(f"[tool.poetry.dependencies]\n{text}"))
    assert poetry is not None
    return poetry


@pytest.mark.parametrize(
    ("line", "requirement"),
    [
        ('a = "^1.0"', "a>=1.0,<2"),
        ('a = "*"', "a"),
        ('a = {version = "^1.0", extras = ["x", "y"]}', "a[x,y]>=1.0,<2"),
        ('a = {version = "1.0", python = "<3.11"}', "a==1.0 ; python_version < '3.11'"),
        ('a = {version = "1.0", python = "^3.9"}', "a==1.0 ; python_version >= '3.9' and python_full_version < '4'"),
        ('a = {version = "1.0", markers = "sys_platform == \'linux\'"}', "a==1.0 ; (sys_platform == 'linux')"),
        ('a = {git = "https://x.y/z.git", tag = "v1"}', "a @ git+https://x.y/z.git@v1"),
        ('a = {git = "git@x.y:o/z.git"}', "a @ git+ssh://git@x.y/o/z.git"),
        ('a = {git = "https://x.y/z.git", subdirectory = "s"}', "a @ git+https://x.y/z.git#subdirectory=s"),
        ('a = {url = "https://x.y/a-1.whl"}', "a @ https://x.y/a-1.whl"),
        ('a = {path = "../a", develop = true}', "a @ file:///a"),
    ],
)
def test_requirements__of_every_form(line: str, requirement: str) -> None:
    assert requirements(table(f'python = "^3.10"\n{line}'), Path("/repo")) == (requirement,)


def test_requirements__without_optional_ones_and_with_all_of_a_list() -> None:
    several = '[{version = "1", python = "<3.11"}, {version = "2", python = ">=3.11"}]'
    lines = requirements(table(f'a = {{version = "1", optional = true}}\nb = {several}'), Path("/repo"))
    assert lines == ("b==1 ; python_version < '3.11'", "b==2 ; python_version >= '3.11'")


@pytest.mark.parametrize(
    ("python", "versions_for_uv"), [("^3.11", ">=3.11,<4"), ("3.12", "3.12"), ("*", None), ("^3.9 || ^4.0", None)]
)
def test_python_versions__as_uv_understands_them(python: str, versions_for_uv: str | None) -> None:
    assert python_versions(table(f'python = "{python}"')) == versions_for_uv


def test_poetry_table__gives_way_to_a_project_that_names_dependencies() -> None:
    poetry = {"tool": {"poetry": {"dependencies": {"a": "*"}}}}
    assert poetry_table(poetry | {"project": {"name": "x"}}) is not None
    assert poetry_table(poetry | {"project": {"dependencies": []}}) is None
    assert poetry_table(poetry | {"project": {"dynamic": ["dependencies"]}}) is None
    assert poetry_table({"tool": {"poetry": {"name": "x"}}}) is None


def test_find_dependencies__says_what_of_poetry_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.poetry.dependencies]\na = "^1 || ^2"\n', "utf-8")
    with pytest.raises(AgentFailure, match=r"\[tool.poetry.dependencies\] .*alternatives") as caught:
        find_dependencies(tmp_path, tmp_path)
    assert "agent-requirements" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("google-adk==0.5.0", True),
        ("google-adk[eval]==1.17.1", True),
        ("google_adk == 1.0.*", True),
        ("google-adk<1.18", True),
        ("google-adk>=1.0,<1.18.0", True),
        ("google-adk<=1.17", True),
        ("google-adk~=1.17.0", True),
        ("google-adk==0.5.0  # a comment", True),
        ("google-adk", False),
        ("google-adk==1.18.0", False),
        ("google-adk>=0.5", False),
        ("google-adk~=1.0", False),
        ("google-adk==1.*", False),
        ("google-adk<2", False),
        ("google-adk==0.5.0; python_version < '3'", False),
        ("google-adk-community<0.2", False),
        ("# google-adk==0.5.0", False),
    ],
)
def test_check_adk__refuses_what_is_too_old_before_it_is_installed(tmp_path: Path, line: str, refused: bool) -> None:
    project = f'[project]\nname = "x"\nversion = "1"\ndependencies = ["{line}"]\n'
    for name, text in (("requirements.txt", f"other==1\n{line}\n"), ("pyproject.toml", project)):
        if "#" in line and name == "pyproject.toml":
            continue
        (tmp_path / name).write_text(text, "utf-8")
        dependencies = find_dependencies(tmp_path, tmp_path)
        if not refused:
            check_adk(dependencies, tmp_path)
            continue
        with pytest.raises(AgentFailure, match=r"agent-eval needs google-adk 1\.18 or newer"):
            check_adk(dependencies, tmp_path)


def test_check_adk__reads_included_requirements_poetry_and_locks(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(AgentFailure) as caught:
            check_adk(find_dependencies(tmp_path, tmp_path), tmp_path)
        return caught.value.message

    (tmp_path / "requirements.txt").write_text("-r more.txt\n", "utf-8")
    (tmp_path / "more.txt").write_text("google-adk==1.0\n", "utf-8")
    assert "more.txt requires google-adk==1.0" in refused()
    (tmp_path / "pyproject.toml").write_text('[tool.poetry.dependencies]\ngoogle-adk = "^0.5"\n', "utf-8")
    assert "pyproject.toml requires google-adk>=0.5,<0.6" in refused()
    assert find_dependencies(tmp_path, tmp_path).kind is SourceKind.POETRY
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n', "utf-8")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "google-adk"\nversion = "1.2.0"\n', "utf-8")
    assert "uv.lock requires google-adk==1.2.0" in refused()
