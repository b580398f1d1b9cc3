"""The models of a run's output: report, recordings, comparison, decision; and the output directory.

Models are imported when one of them is used: a run starts its agent first, which needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agent_eval_results.data.folder import (
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

if TYPE_CHECKING:
    # What type checkers read; at run time `__getattr__` finds the names.
    from agent_eval_results.data.causes import *
    from agent_eval_results.data.comparison import *
    from agent_eval_results.data.conversation import *
    from agent_eval_results.data.decision import *
    from agent_eval_results.data.history import *
    from agent_eval_results.data.merging import *
    from agent_eval_results.data.origin import (
        ACCEPT_RULES,
        CASES_REMOVED,
        CASES_REPLACED,
        NO_ACCESS,
        NO_SECRETS,
        NOTHING_SCORED,
        OTHER_SCORING,
        OTHER_VERSION,
        PASS,
        SHORT_HISTORY,
        UNREACHABLE,
        GateMode,
        Origin,
        VerdictValue,
    )
    from agent_eval_results.data.report import *
    from agent_eval_results.data.stored_lines import *
    from agent_eval_scoring.core.reason import Facts, NoMoreRuns, Numbers, Reason
    from agent_eval_scoring.core.recording import RecordedScores, Recording, RunError, ToolUse, Usage, Waited

_DATA = ("origin", "stored_lines", "report", "merging", "causes", "comparison", "conversation", "decision", "history")
_CORE = ("agent_eval_scoring.core.reason", "agent_eval_scoring.core.recording")
_MODULES = (f"{__name__}.data.origin", *_CORE, *(f"{__name__}.data.{name}" for name in _DATA[1:]))
"""Imported in this order when a name is used that is not imported above."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module in _MODULES if not name.startswith("_") and name not in _DATA else ():
            members = vars(importlib.import_module(module))
            if name in members:
                globals()[name] = members[name]  # so that this function is not called again for it
                return members[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
