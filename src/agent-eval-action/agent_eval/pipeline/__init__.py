"""A run from the settings to the report: discover, validate, run, score, compare, decide, write."""

from agent_eval.pipeline._files import find, load, placed, policy_problems, with_agent_of_paths
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
from agent_eval.pipeline.live_agent import AgentUnavailable, open_live_agent
from agent_eval.pipeline.output import links_of
from agent_eval.pipeline.pipeline import Outcome
