"""Files that name dependencies come from the pull request: they are read within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.agents.protocol import AgentFailure, FailureKind
from agent_eval.agents.venv._dependencies import Dependencies, SourceKind, check_adk, find_dependencies, fingerprint

_TOO_LARGE = 20_000_001


def _sparse(path: Path, start: str = "") -> None:
    """A file that takes no room on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        file.truncate(_TOO_LARGE)


def _prepared(root: Path) -> Dependencies:
    """What is done with dependencies before anything is installed."""
    dependencies = find_dependencies(root, root)
    check_adk(dependencies, root)
    fingerprint(dependencies, root)
    return dependencies


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "uv.lock", ".python-version", "more.txt"])
def test_find_dependencies__file_that_is_too_large(tmp_path: Path, name: str) -> None:
    if name == "uv.lock":
        (tmp_path / "pyproject.toml").write_text('[project]\nname = "bot"\n', "utf-8")
    elif name == "more.txt":
        (tmp_path / "requirements.txt").write_text("-r more.txt\n", "utf-8")
    _sparse(tmp_path / name)
    with pytest.raises(AgentFailure, match=r"can't be read: It is larger than 20 MB") as failure:
        _prepared(tmp_path)
    assert str(tmp_path / name) in failure.value.message


def test_find_dependencies__long_chain_and_cycle_of_includes(tmp_path: Path) -> None:
    for number in range(1_500):
        (tmp_path / f"r{number}.txt").write_text(f"-r r{number + 1}.txt\n", "utf-8")
    (tmp_path / "r1500.txt").write_text("-r r0.txt\ngoogle-adk==0.5.0\n", "utf-8")
    (tmp_path / "requirements.txt").write_text("-r r0.txt\n", "utf-8")
    with pytest.raises(AgentFailure, match=r"google-adk==0\.5\.0"):
        _prepared(tmp_path)


def test_fingerprint__large_local_archive(tmp_path: Path) -> None:
    _sparse(tmp_path / "model.whl", "one")
    (tmp_path / "requirements.txt").write_text("./model.whl\n", "utf-8")
    before = fingerprint(_prepared(tmp_path), tmp_path)
    _sparse(tmp_path / "model.whl", "two")
    assert fingerprint(_prepared(tmp_path), tmp_path) != before


POETRY = '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\ngoogle-adk = "^1.20"\n'


def test_find_dependencies__of_poetry(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    for before in ("", '[project]\nname = "x"\n'):
        project.write_text(before + POETRY, "utf-8")
        with pytest.raises(AgentFailure, match=r"\[tool.poetry.dependencies\]") as caught:
            find_dependencies(tmp_path, tmp_path)
        assert caught.value.kind is FailureKind.ENVIRONMENT
        assert "`poetry export -o requirements.txt`" in (caught.value.hint or "")
    for standard in ('dependencies = ["google-adk"]\n', 'dynamic = ["dependencies"]\n'):
        project.write_text(f'[project]\nname = "x"\n{standard}{POETRY}', "utf-8")
        assert find_dependencies(tmp_path, tmp_path).kind is SourceKind.PROJECT
    project.write_text(POETRY, "utf-8")
    (tmp_path / "requirements.txt").write_text("google-adk==2.13.0\n", "utf-8")
    assert find_dependencies(tmp_path, tmp_path).kind is SourceKind.REQUIREMENTS, "what was exported"


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


def test_check_adk__reads_included_requirements_and_locks(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(AgentFailure) as caught:
            check_adk(find_dependencies(tmp_path, tmp_path), tmp_path)
        return caught.value.message

    (tmp_path / "requirements.txt").write_text("-r more.txt\n", "utf-8")
    (tmp_path / "more.txt").write_text("google-adk==1.0\n", "utf-8")
    assert "more.txt requires google-adk==1.0" in refused()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n', "utf-8")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "google-adk"\nversion = "1.2.0"\n', "utf-8")
    assert "uv.lock requires google-adk==1.2.0" in refused()
