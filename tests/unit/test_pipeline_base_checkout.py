from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.baseline.rerun import BaseWorktree
from agent_eval.pipeline._base_checkout import interpreter_for_base
from agent_eval.settings.settings import Settings


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
def test_base_checkout__an_interpreter_in_the_checkout_is_found_from_the_worktree_of_the_base(
    tmp_path: Path, given: str | None, expected: str | None
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()

    result = interpreter_for_base(Settings(root=tmp_path, agent_python=given))

    assert result == (None if expected is None else expected.format(root=tmp_path))


def test_in_checkout__absolute_paths_of_the_head_lead_into_the_base(tmp_path: Path) -> None:
    def settings(top: Path) -> Settings:
        return Settings(
            root=top / "app",
            paths=(f"{top}/app/evals/a.test.json:one", "evals"),
            config=top / "shared" / "test_config.json",
            initial_session=Path("session.json"),
            agent=str(top / "app" / "bot"),
            agents={"**": str(top / "app" / "bot"), "x/**": "bot"},
            agent_requirements=Path("/etc/requirements.txt"),
            agent_cwd=str(top / "app" / "data"),
        )

    head, base = (tmp_path / "head").resolve(), (tmp_path / "base").resolve()
    checkout = BaseWorktree(root=base / "app", top=base, head_top=head, commit="0" * 40)
    assert settings(head).in_checkout(checkout.root, checkout.corresponding) == settings(base)
