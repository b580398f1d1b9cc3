"""Records the answers of the tools while a case is made, so that the case has its tape from the beginning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_eval.evalset.models import EvalCase
from agent_eval_workbench.recording._refused import Refused

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.agents.protocol import ToolDecider
    from agent_eval.runner import PlannedCase
    from agent_eval.settings import Settings


class Taping:
    """The tape of one new case."""

    def __init__(self, settings: Settings, file: str, eval_set_id: str) -> None:
        """Begins with nothing.

        Args:
            settings: As for a run.
            file: The eval file, relative to the root.
            eval_set_id: The eval set that gets the case.
        """
        self._settings = dataclasses.replace(settings, tools="record")
        self._file = file
        self._eval_set_id = eval_set_id
        self.adk = ""
        """The version of google-adk that runs the tools."""
        self.restart()

    def restart(self) -> None:
        """Forgets what was recorded: the conversation begins again."""
        from agent_eval.pipeline import open_tapes

        self._numbers = itertools.count()
        self._tapes = open_tapes(self._settings)

    def session(self) -> ToolDecider:
        """Records the tools of a session."""
        assert self._tapes is not None
        return self._tapes.session(self._planned("new"), next(self._numbers), [])

    def write(self, eval_id: str) -> Sequence[str]:
        """Writes the tape of the case, which has its id now.

        Returns:
            Lines for the reader: what was written, and what looks wrong.
        """
        assert self._tapes is not None
        new, named = (self._planned(name) for name in ("new", eval_id))
        self._tapes.rename(new, named)
        return self._tapes.write({"": self.adk})

    def _planned(self, eval_id: str) -> PlannedCase:
        from agent_eval.runner import PlannedCase

        return PlannedCase(
            case_id=f"{self._file}:{eval_id}",
            file=self._file,
            line=None,
            eval_set_id=self._eval_set_id,
            case=EvalCase(eval_id=eval_id, conversation=[]),
            criteria=(),
            agent="",
            fingerprint="",
        )


def taping_of(settings: Settings, choices: AgentChoices, file: str, eval_set_id: str) -> Taping | None:
    """What records the tools of a new case; None unless the setting `tools` is `record` or `record-missing`.

    Raises:
        Refused: The agent's tools do not run under our control.
    """
    from agent_eval.pipeline import tapes_unsupported

    if settings.tools not in {"record", "record-missing"}:
        return None
    if problems := tapes_unsupported(settings, choices):
        raise Refused(problems)
    return Taping(settings, file, eval_set_id)
