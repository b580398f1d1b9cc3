"""Records eval cases: conversations with an agent, and conversations that something else has recorded."""

from agent_eval.authoring.recording._agent_choice import USER_ID, ChosenAgent, choose_agent
from agent_eval.authoring.recording._chat import Chat, Left, Terminal, failure_lines
from agent_eval.authoring.recording._draft import Draft
from agent_eval.authoring.recording._live import LiveAgent, SessionStart, Take, live_agent
from agent_eval.authoring.recording._messages import read_messages, read_state, said
from agent_eval.authoring.recording._names import new_set_id, stem
from agent_eval.authoring.recording._personal import personal_data
from agent_eval.authoring.recording._refused import Refused, error
from agent_eval.authoring.recording._self_check import SelfCheck, config_of, most_typical_take, self_check
from agent_eval.authoring.recording._stored import (
    StoredRequest,
    choose_stored,
    conversation_table,
    masked,
    masks_in,
    read_stored,
    without_known,
)
from agent_eval.authoring.recording._target import Target, checked_text, open_target, split_name, write_target
from agent_eval.authoring.recording._view import message_lines, turn_lines

__all__ = [
    "USER_ID",
    "Chat",
    "ChosenAgent",
    "Draft",
    "Left",
    "LiveAgent",
    "Refused",
    "SelfCheck",
    "SessionStart",
    "StoredRequest",
    "Take",
    "Target",
    "Terminal",
    "checked_text",
    "choose_agent",
    "choose_stored",
    "config_of",
    "conversation_table",
    "error",
    "failure_lines",
    "live_agent",
    "masked",
    "masks_in",
    "message_lines",
    "most_typical_take",
    "new_set_id",
    "open_target",
    "personal_data",
    "read_messages",
    "read_state",
    "read_stored",
    "said",
    "self_check",
    "split_name",
    "stem",
    "turn_lines",
    "without_known",
    "write_target",
]
