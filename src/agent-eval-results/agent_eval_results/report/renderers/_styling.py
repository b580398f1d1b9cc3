"""Text for a terminal, with untrusted parts made safe."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_eval_results import CaseReport
from agent_eval_results.report.phrases import STATUSES
from agent_eval_results.report.views import folded, visible
from agent_eval_scoring.core.text import without_commands

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Part = tuple[str, str] | str
"""Trusted text, or an untrusted text with its style (`""` for none)."""


def plain(value: str, style: str = "") -> Text:
    """Untrusted text of any number of lines, safe on a terminal and in a log of GitHub Actions."""
    from rich.text import Text

    return Text(without_commands(visible(value)), style=style, tab_size=4)


def styled(*parts: Part) -> Text:
    """One line, assembled from its parts."""
    from rich.text import Text

    return Text.assemble(
        *[(without_commands(folded(part[0])), part[1]) if isinstance(part, tuple) else part for part in parts]
    )


def mark(case: CaseReport) -> tuple[str, str]:
    """The symbol of a case, followed by a space."""
    look = STATUSES[case.status]
    return f"{look.sign} ", look.style


def printed(blocks: Iterable[RenderableType], *, width: int, color: bool) -> str:
    """The text for a terminal of `width` columns (at least 40), independent of our own; ends with a line break."""
    from rich.console import Console

    file = io.StringIO()
    target = Console(
        file=file,
        width=max(width, 40),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        _environ={},
    )
    for block in blocks:
        # rich joins texts before it prints them, and forgets how each wants to be wrapped.
        no_wrap, overflow = (getattr(block, name, None) for name in ("no_wrap", "overflow"))
        target.print(block, crop=False, no_wrap=no_wrap, overflow=overflow)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def indented(block: RenderableType, columns: int = 2) -> RenderableType:
    """A block with blanks before each of its lines."""
    from rich.padding import Padding

    return Padding(block, (0, 0, 0, columns))
