"""One module for each command. Each has `execute(arguments, io)`, which runs the command and returns its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CliIO:
    """The environment, log and output that the command line passes to a command."""

    environ: Mapping[str, str]
    log: Callable[[str], None]
    """Prints a line to stderr. Never fails."""
    print_result: Callable[[str], None]
    """Prints to stdout. A failure is logged and does not change the exit code."""
    terminal_width: int | None = None
    """Columns of the terminal; None if stdout is not a terminal."""
    interactive: bool = False
    """Whether stderr is a terminal, on which progress can be redrawn."""

    @property
    def on_github(self) -> bool:
        """Whether a GitHub Actions runner reads the output."""
        return self.environ.get("GITHUB_ACTIONS") == "true"

    @property
    def in_ci(self) -> bool:
        """Whether this is a job of a CI system, by the variable that all of them set."""
        return self.environ.get("CI", "").strip().lower() not in {"", "0", "false"}

    @property
    def width(self) -> int:
        """Columns to use for the result."""
        return min(self.terminal_width or 110, 160)

    @property
    def color(self) -> bool:
        """Whether to print ANSI colours."""
        return self.terminal_width is not None and "NO_COLOR" not in self.environ
