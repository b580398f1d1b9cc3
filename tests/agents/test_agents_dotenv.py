"""What is said of lines of a `.env` that are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval_agents.dotenv import dotenv_of, unread_lines, unread_warnings
from agent_eval_agents.host.import_hints import import_hint

FILES: dict[str, tuple[str, list[tuple[int, str, bool]]]] = {
    "nothing": ("", []),
    "values": ("# c\nA=1\n\nexport B = 'x y' # c\r\nC=\"a\nb\"\nD\n'E'=\\n\nF='it\\\\'s'\nG=a'b\n", []),
    "an open quote": ('A="abc\nB=x\n', [(1, "A", False)]),
    "an open quote at the end": ("B=x\nA='abc", [(2, "A", False)]),
    "a quote that ends at the next one": ('A="abc\nB="x"\nC=1\n', [(1, "A", False)]),
    "text after the quote": ('A="b"c\nB=1\nC="d" e\n', [(1, "A", True), (3, "C", True)]),
    "YAML": ("A: 1\nB=2\nC D=3\n", [(1, "", False), (3, "", False)]),
}


@pytest.mark.parametrize("name", FILES)
def test_unread_lines__are_those_of_dotenv(tmp_path: Path, name: str) -> None:
    text, expected = FILES[name]
    (tmp_path / ".env").write_text(text, "utf-8")
    found = unread_lines(tmp_path / ".env", tmp_path)
    assert [(line.line, line.variable, line.closed) for line in found] == expected
    assert "abc" not in str(unread_warnings(tmp_path / ".env", tmp_path))  # A value is a secret.


def test_unread_lines__the_hint_of_a_variable_that_the_file_was_to_set(tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / ".env").write_text('CRM_TOKEN="abc\n', "utf-8")
    traceback = "  os.environ['CRM_TOKEN']\nKeyError: 'CRM_TOKEN'"
    hint = import_hint("KeyError", "'CRM_TOKEN'", traceback, tmp_path / "bot", tmp_path)
    assert hint == (
        'bot/.env:1: `CRM_TOKEN` has a quote that is not closed, so it is not set. Write CRM_TOKEN="VALUE" on one line.'
    )
    other = import_hint(
        "KeyError", "'OTHER_KEY'", traceback.replace("CRM_TOKEN", "OTHER_KEY"), tmp_path / "bot", tmp_path
    )
    assert "Set `OTHER_KEY` in the agent's `.env`; or in this shell or job" in other


def test_unread_lines__a_link_out_of_the_repository_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('KEY="abc\n', "utf-8")
    root = tmp_path / "root"
    root.mkdir()
    (root / ".env").symlink_to(tmp_path / "secret")
    file = dotenv_of(root, root)
    assert file is not None and not unread_lines(file, root)
