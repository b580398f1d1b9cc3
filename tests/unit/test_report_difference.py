from __future__ import annotations

import pytest

from agent_eval.report.difference import changes


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        ("a\nb\nc", "a\nx\nc", "  a\n- b\n+ x\n  c"),
        ("", "b", "- (nothing)\n+ b"),
        ("", "", "  (nothing)"),
        ("same", "same", "  same"),
        ("a\n" * 300, "b\n" * 300, "\n".join(["- a"] * 300 + ["+ b"] * 300)),
    ],
)
def test_changes(expected: str, actual: str, shown: str) -> None:
    assert changes(expected, actual, limit=10_000) == shown
