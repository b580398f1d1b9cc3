"""The check of the code's size: what it counts, and that it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from size import measured, size_of

ROOT = Path(__file__).resolve().parents[2]
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
    assert size_of(MODULE)[0] == 4


def test_size_of__joined_lines_have_as_many_tokens() -> None:
    joined = MODULE.replace("(\n        a + b\n    )", "(a + b)")
    assert size_of(joined)[0] == 2
    assert size_of(joined)[1] == size_of(MODULE)[1]


def test_size_of__a_text_of_several_lines_that_is_no_docstring_counts() -> None:
    assert size_of('x = """\na\nb"""\n')[0] == 3


@pytest.mark.parametrize(("budget", "status"), [(1, 1), (2, 0)])
def test_size__exceeded_budget_fails(tmp_path: Path, budget: int, status: int) -> None:
    (tmp_path / "src" / "agent_eval").mkdir(parents=True)
    (tmp_path / "src" / "agent_eval" / "a.py").write_text("a = 1\nb = 2\n", "utf-8")
    (tmp_path / "pyproject.toml").write_text(f"[tool.size]\ngate-lines = {budget}\n", "utf-8")

    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "size.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == status, done.stdout + done.stderr
    assert ("CHANGELOG.md" in done.stdout) == bool(status)
    assert measured(tmp_path)["tokens"] == 6
