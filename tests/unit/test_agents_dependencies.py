"""Files that name dependencies come from the pull request: they are read within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.agents.protocol import AgentFailure
from agent_eval.agents.venv._dependencies import Dependencies, check_adk, find_dependencies, fingerprint

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
