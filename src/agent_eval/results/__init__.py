"""The models of a run's output: report, recordings, comparison, decision; and the output directory.

The models of reports are imported when one of them is used: a run starts its agent first, which needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agent_eval.core.reason import Facts, NoMoreRuns, Numbers, Reason
from agent_eval.core.recording import RecordedScores, Recording, RunError, ToolUse, Usage, Waited
from agent_eval.results.folder import (
    BASE,
    BASE_RECORDINGS,
    BASELINE_RECORDINGS,
    DEFAULT,
    FILES,
    JOURNAL,
    JUDGE_REPLIES,
    LOGS,
    VIEW_PAGE,
    InUse,
    file_in,
    give_to_owner,
    link_in,
    locked,
    relative,
    remove_logs,
    why_unwritable,
)
from agent_eval.results.origin import (
    ACCEPT_RULES,
    CASES_REMOVED,
    CASES_REPLACED,
    NO_SECRETS,
    NOTHING_SCORED,
    PASS,
    GateMode,
    Origin,
    VerdictValue,
)

if TYPE_CHECKING:
    # What type checkers read; at run time `__getattr__` finds the names.
    from agent_eval.results._merge import *
    from agent_eval.results.causes import *
    from agent_eval.results.comparison import *
    from agent_eval.results.conversation import *
    from agent_eval.results.decision import *
    from agent_eval.results.history import *
    from agent_eval.results.report import *
    from agent_eval.results.stored_lines import *

_MODULES = ("stored_lines", "report", "_merge", "causes", "comparison", "conversation", "decision", "history")
"""Imported in this order when a name is used that is not imported above."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module in _MODULES if not name.startswith("_") and name not in _MODULES else ():
            members = vars(importlib.import_module(f"{__name__}.{module}"))
            if name in members:
                globals()[name] = members[name]  # so that this function is not called again for it
                return members[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
