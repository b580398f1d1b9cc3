"""Text for a terminal: what is ours keeps its form, what is not is made harmless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_eval.report.escape import folded, visible, without_commands
from agent_eval.results.report import CaseReport

if TYPE_CHECKING:
    from rich.text import Text

Part = tuple[str, str] | str
"""Our own words, or an untrusted text with its style (`""` for none)."""

MARKS: Mapping[str, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "errored": ("!", "bold yellow"),
    "not_run": ("-", "dim"),
    "quarantined": ("~", "yellow"),
}
"""Sign and style of a case's status."""


def plain(value: str, style: str = "") -> Text:
    """Untrusted text of any number of lines, as it may stand on a terminal and in a log of GitHub Actions."""
    from rich.text import Text

    return Text(without_commands(visible(value)), style=style, tab_size=4)


def styled(*parts: Part) -> Text:
    """One line, put together."""
    from rich.text import Text

    return Text.assemble(
        *[(without_commands(folded(part[0])), part[1]) if isinstance(part, tuple) else part for part in parts]
    )


def mark(case: CaseReport) -> tuple[str, str]:
    """The sign of a case, with a blank."""
    sign, style = MARKS[case.status]
    return sign + " ", style
