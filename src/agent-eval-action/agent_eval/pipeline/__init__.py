"""A run from the settings to the report: discover, validate, run, score, compare, decide, write.

What a run needs after its agent's process has started is imported when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agent_eval.pipeline.ci_context import (
    CIContext,
    change_warnings,
    deciding_files,
    detect_ci_context,
    for_artifact,
    gating_files_changed,
    is_gating_file,
    rules,
)
from agent_eval.pipeline.context import RunContext, default_model, misnamed_models, model_settings, model_uses

if TYPE_CHECKING:
    # What type checkers read; at run time `__getattr__` finds the names.
    from agent_eval.pipeline._files import (
        find,
        load,
        named_agents_problems,
        placed,
        policy_problems,
        with_agent_of_paths,
    )
    from agent_eval.pipeline._tapes import (
        StoredTape,
        decides_tools,
        open_tapes,
        recording_refused,
        stale_tools_by,
        stored_tapes,
        tape_problems,
        tapes_unsupported,
        unanswered,
    )
    from agent_eval.pipeline.early import AgentUnavailable, open_live_agent
    from agent_eval.pipeline.output import links_of
    from agent_eval.pipeline.pipeline import Outcome

_MODULES = ("_files", "_tapes", "early", "output", "pipeline")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module in _MODULES if not name.startswith("_") and name not in _MODULES else ():
            members = vars(importlib.import_module(f"{__name__}.{module}"))
            if name in members:
                return members[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
