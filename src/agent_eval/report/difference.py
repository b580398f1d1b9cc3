"""What was expected and what happened as one text, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.core.text import shorten


def changes(expected: str, actual: str, *, limit: int) -> str:
    """What was expected and what happened as one text: `- ` only expected, `+ ` only actual, two blanks both.

    Args:
        expected: Any text; calls one on a line make the best reading.
        actual: The same.
        limit: Characters of each side that are used.
    """
    old = shorten(expected, limit).splitlines() or ["(nothing)"]
    new = shorten(actual, limit).splitlines() or ["(nothing)"]
    if len(old) * len(new) > 40_000:  # Comparing costs the product of the lengths.
        return "\n".join([f"- {line}" for line in old] + [f"+ {line}" for line in new])
    return "\n".join(_aligned(old, new))


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    from difflib import SequenceMatcher

    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f"  {line}" for line in old[i1:i2])
        else:
            yield from (f"- {line}" for line in old[i1:i2])
            yield from (f"+ {line}" for line in new[j1:j2])
