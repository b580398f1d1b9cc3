"""How much of a report a text shows, and the richest text that fits its medium."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval.core.text import shorten


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much to show. Counts are of cases, lengths of characters."""

    explained: int
    """Cases with a turn that shows why they did not pass."""
    listed: int
    """Rows of every other list."""
    side: int
    """Length of an expected or an actual text."""
    log: int
    """Length of a traceback with its log."""
    name: int = 200
    """Length of a name and of a line of an explanation; a message may have three times that."""

    def shorten(self, value: str) -> str:
        """The text in the length of a name."""
        return shorten(value, max(self.name, 60))

    def shorten_message(self, value: str) -> str:
        """A message of ours. It says what to do at its end, so it gets more space than a name."""
        return shorten(value, 3 * max(self.name, 60))


def fitting(
    render: Callable[[Detail, bool], str], details: Sequence[Detail], fits: Callable[[str], bool]
) -> str | None:
    """The richest text that fits; None if not even the shortest does.

    A text that is too long is rendered again with less detail, so that nothing is cut inside a code block or a fold.

    Args:
        render: Makes the text, given how much to show and whether that is less than everything.
        details: From everything to next to nothing.
        fits: Whether a text fits.
    """
    for step, detail in enumerate(details):
        text = render(detail, step > 0)
        if fits(text):
            return text
    return None
