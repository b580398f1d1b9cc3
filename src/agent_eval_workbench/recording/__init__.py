"""Records eval cases: conversations with an agent, and conversations that something else has recorded."""

from agent_eval_workbench.recording._agent_choice import ChosenAgent, choose_agent
from agent_eval_workbench.recording._chat import Chat, Left, Terminal, failure_lines
from agent_eval_workbench.recording._draft import Draft
from agent_eval_workbench.recording._live import LiveAgent, SessionStart, Take, live_agent
from agent_eval_workbench.recording._messages import read_messages, read_state, said
from agent_eval_workbench.recording._names import new_set_id, stem
from agent_eval_workbench.recording._new_cases import NewCases, new_cases
from agent_eval_workbench.recording._refused import Refused, error
from agent_eval_workbench.recording._self_check import SelfCheck, config_of, most_typical_take, score_lines, self_check
from agent_eval_workbench.recording._stored import (
    StoredRequest,
    choose_stored,
    conversation_table,
    masked,
    read_session_value,
    read_stored,
    with_state,
    without_known,
)
from agent_eval_workbench.recording._taping import Taping, taping_of
from agent_eval_workbench.recording._target import USER_ID, Target, open_target, split_name, write_target
from agent_eval_workbench.recording._view import message_lines, turn_lines

__all__ = [
    "USER_ID",
    "Chat",
    "ChosenAgent",
    "Draft",
    "Left",
    "LiveAgent",
    "NewCases",
    "Refused",
    "SelfCheck",
    "SessionStart",
    "StoredRequest",
    "Take",
    "Taping",
    "Target",
    "Terminal",
    "choose_agent",
    "choose_stored",
    "config_of",
    "conversation_table",
    "error",
    "failure_lines",
    "live_agent",
    "masked",
    "message_lines",
    "most_typical_take",
    "new_cases",
    "new_set_id",
    "open_target",
    "read_messages",
    "read_session_value",
    "read_state",
    "read_stored",
    "said",
    "score_lines",
    "self_check",
    "split_name",
    "stem",
    "taping_of",
    "turn_lines",
    "with_state",
    "without_known",
    "write_target",
]
