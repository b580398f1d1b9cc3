from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.base_side import interpreter_for_base
from agent_eval.settings import Settings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (".venv/bin/python", "{root}/.venv/bin/python"),
        ("missing/bin/python", "missing/bin/python"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("python3.12", "python3.12"),
        ("poetry run python", "poetry run python"),
    ],
)
def test_an_interpreter_in_the_checkout_is_found_from_the_worktree_of_the_base(
    tmp_path: Path, given: str | None, expected: str | None
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()

    found = interpreter_for_base(Settings(root=tmp_path, agent_python=given))

    assert found == (None if expected is None else expected.format(root=tmp_path))
