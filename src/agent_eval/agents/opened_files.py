"""Collects the files of the repository that the processes of an agent and of its metrics open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.agents.messages import FilesOpened


@dataclass(kw_only=True)
class OpenedFiles:
    """What the processes of one agent opened, in one run of the gate."""

    top: Path
    """The top of the git checkout, resolved."""
    paths: set[str] = field(default_factory=set)
    """Relative to `top`; of listed directories with a slash at the end."""
    unseen: str = ""
    """Why the agent may depend on other files too, as a clause whose subject is the agent; "" if it does not."""
    processes: int = 0
    """Processes whose files are known."""

    def add(self, opened: FilesOpened) -> None:
        """Adds the files of a process that has ended."""
        self.paths.update(opened.paths)
        self.unseen = self.unseen or opened.unseen
        self.processes += 1

    def lose(self) -> None:
        """A process ended without naming its files."""
        self.unseen = self.unseen or "one of its processes ended early"
